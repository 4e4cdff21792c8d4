"""Keep the shipped library: record what is new or has changed, look for better answers, and certify their bounds.

    python tests/tools/maintain_library.py                       # record what is missing, and solve it for 10 s
    python tests/tools/maintain_library.py --unproved --seconds 300 --methods branch-and-bound,tabu
    python tests/tools/maintain_library.py --again NAME          # record an instance again
    python tests/tools/maintain_library.py --ledger              # enter what is missing or has changed
    python tests/tools/maintain_library.py --ledger --again --seconds 600 NAME   # look again for a certificate

What is known of an instance only ever gets better, as long as its bits stay the same; where a dispersion problem
hardly changes, its decision is kept and its bound moved by the most the change can do. The ledger says who found what;
a bound is certified from what is known already, not searched for again, and every certificate is read by
`solvers.certificates.check` before it is kept. It writes into ``solvers/instances`` of this checkout.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "studies")]

import letters  # noqa: E402, F401  (registers the data set of one recipe)
from fedselect.recording.library import Recipe, recipes  # noqa: E402
from solvers import Problem, Solution, __version__, instances, relative_gap, solve  # noqa: E402
from solvers.certificate_writers import with_certificate  # noqa: E402
from solvers.certificates import problem_digest  # noqa: E402
from solvers.dispersion import DispersionProblem  # noqa: E402
from solvers.files import write_atomically  # noqa: E402
from solvers.instances import InstanceInfo, digest  # noqa: E402
from solvers.instances.ledger import Found, LedgerEntry, Tier  # noqa: E402
from solvers.instances.ledger import entries as known_entries  # noqa: E402
from solvers.instances.library import FOLDER, pack, unpack  # noqa: E402
from solvers.solution import proves  # noqa: E402

#: Largest certificate that is shipped, in bytes; larger ones are made again by the command in the ledger. Rounds of 100
#: clients stay below 300 000; a tree of doubly nonnegative nodes over 200 clients takes nearly two million.
LARGEST = 2_000_000

#: Seconds within which an easy instance is proved.
EASY = 1.0


def maintain(
    folder: Path,
    chosen: Sequence[str] = (),
    methods: Sequence[str] = ("auto",),
    seconds: float = 10.0,
    *,
    again: bool = False,
    unproved: bool = False,
) -> list[InstanceInfo]:
    """Bring a library up to date with the recipes.

    Parameters
    ----------
    folder : pathlib.Path
        Where ``index.json`` and ``data/`` lie.
    chosen : sequence of str
        Beginnings of names; all if empty.
    methods : sequence of str
        What to solve with, one after another, each starting from the best decision so far.
    seconds : float
        For each of them.
    again : bool
        Record instances that are there already once more.
    unproved : bool
        Only look at instances that are not proved, and record nothing.

    Returns
    -------
    list of InstanceInfo
        The whole index. Instances without a recipe are gone from it, and so are their files.
    """
    path = folder / "index.json"
    known = {entry["name"]: InstanceInfo(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))}
    (folder / "data").mkdir(exist_ok=True)
    wanted = [each for each in recipes() if any(_chosen(name, chosen) for name in each.instances())]
    for each in wanted:
        if not unproved and (again or not all(name in known for name in each.instances())):
            for name, problem in each.record():
                _record(folder, known, each, name, problem)
        for name in each.instances():
            if name in known and _chosen(name, chosen) and not known[name].proved:
                known[name] = _improve(folder, known[name], methods, seconds)
                _write(path, known)
                print(f"{name}: {known[name].best_known} {known[name].bound} {known[name].method}", flush=True)
    for name in set(known) - {name for each in recipes() for name in each.instances()}:
        del known[name]
        (folder / "data" / f"{name}.xz").unlink(missing_ok=True)
    _write(path, known)
    return list(known.values())


def _chosen(name: str, chosen: Sequence[str]) -> bool:
    return not chosen or any(name.startswith(beginning) for beginning in chosen)


def _record(folder: Path, known: dict[str, InstanceInfo], made: Recipe, name: str, problem: Problem) -> None:
    """Store a problem, unless it is there already to the bit; its source is written down afresh either way."""
    source, bits = made.source(int(name.rpartition("-r")[2])), digest(problem)
    if name in known and known[name].digest == bits:
        known[name] = replace(known[name], source=source)
        return
    objective, best, bound, method = _carried(folder, known.get(name), problem)
    known[name] = InstanceInfo(
        name,
        problem.family,
        type(problem).__name__,
        problem.n,
        best_known=objective,
        bound=bound,
        proved=proves(problem, objective, bound),
        method=method,
        source=source,
        command=f"fedselect instances record {name}",
        digest=bits,
        bytes=_store(folder, name, problem, best),
    )


def _carried(
    folder: Path, info: InstanceInfo | None, problem: Problem
) -> tuple[float | None, NDArray[Any] | None, float | None, str]:
    """Objective, decision, bound and method that what was known of an instance gives for what it has become."""
    if info is None or info.bound is None:
        return None, None, None, ""
    before, best = unpack((folder / "data" / f"{info.name}.xz").read_bytes(), info.name)
    bound = transferred_bound(before, info.bound, problem)
    if best is None or bound is None:
        return None, None, None, ""
    return problem.objective(best), best, bound, info.method


def _improve(folder: Path, info: InstanceInfo, methods: Sequence[str], seconds: float) -> InstanceInfo:
    """Solve an instance, and keep what is better than what was known."""
    problem, best = unpack((folder / "data" / f"{info.name}.xz").read_bytes(), info.name)
    finder, _, bounder = info.method.partition("; bound by ")
    objective, bound = info.best_known, info.bound
    for method in methods:
        solution = solve(problem, method, time_limit=seconds, seed=0, start=best)
        sign = 1 if problem.sense == "max" else -1
        if solution.objective is not None and (objective is None or sign * (solution.objective - objective) > 0):
            objective, best, finder = solution.objective, solution.x, method
        if solution.bound is not None and (bound is None or sign * (bound - solution.bound) > 0):
            bound, bounder = solution.bound, method
        if proves(problem, objective, bound):
            break
    return replace(
        info,
        best_known=objective,
        bound=bound,
        proved=proves(problem, objective, bound),
        method=finder if bounder in ("", finder) else f"{finder}; bound by {bounder}",
        bytes=_store(folder, info.name, problem, best),
    )


def _store(folder: Path, name: str, problem: Problem, best: NDArray[Any] | None) -> int:
    data = pack(problem, best)
    write_atomically(folder / "data" / f"{name}.xz", data)
    return len(data)


def transferred_bound(known: Problem, bound: float, changed: Problem) -> float | None:
    r"""Move a bound from one problem to another by the most that their objectives can differ.

    For dispersion, over all decisions s with m clients: :math:`|f'(s) - f(s)| \le w \, m (m - 1) \max_{ij} |H'_{ij} -
    H_{ij}|` plus the m largest :math:`|c'_k - c_k|`. Recording again with another order of summation changes the
    last bits of H, and the bound, which may have taken hours, moves by as little.

    Parameters
    ----------
    known : Problem
        The problem the bound is for.
    bound : float
        Valid for it.
    changed : Problem
        The other problem.

    Returns
    -------
    float or None
        A bound for ``changed``; ``None`` where the problems are of another kind, weight, size or set of clients, or one
        of them has side constraints, of which some may have gone.
    """
    if not (isinstance(known, DispersionProblem) and isinstance(changed, DispersionProblem)):
        return None
    if known.size != changed.size or known.weight != changed.weight:
        return None
    if known.is_constrained or changed.is_constrained:
        return None
    if not np.array_equal(known.clients, changed.clients):
        return None
    m = known.size
    farther = float(np.abs(changed.distances.astype(np.float64) - known.distances).max())
    dearer = np.sort(np.abs(changed.costs - known.costs))[-m:]
    moved = known.weight * m * (m - 1) * farther + math.fsum(dearer)
    # Rounding: each difference and product is off by a few parts in 2^53, and the last sum by half a unit.
    return math.nextafter(bound + moved * (1 + 1e-12), math.inf) if moved > 0 else bound


# -- the ledger -------------------------------------------------------------------------------------------------------


def enter(folder: Path, chosen: Sequence[str], seconds: float, *, who: str, again: bool = False) -> None:
    """Enter the chosen instances (beginnings of names; all if empty), with ``seconds`` for each proof."""
    entries = known_entries()
    (folder / "certificates").mkdir(exist_ok=True)
    for name in instances.names():
        if not _chosen(name, chosen):
            continue
        importlib.import_module(f"solvers.{instances.info(name).family}")
        problem = problem_digest(instances.load(name))
        before = entries.get(name)
        if before is not None and before.problem != problem:
            before = None
        if (
            before is not None
            and before.certified is not None
            and not again
            and not _closer(instances.info(name), before)
        ):
            continue
        entries[name] = _certified(folder, _entered(name, problem, before, who), seconds)
        _write(folder / "ledger.json", entries)
        print(f"{name}: {entries[name].tier}, certified {entries[name].certified}", flush=True)
    gone = set(entries) - set(instances.names())
    for name in gone:
        (folder / "certificates" / f"{name}.npz").unlink(missing_ok=True)
    _write(folder / "ledger.json", {name: entry for name, entry in entries.items() if name not in gone})


def _closer(known: InstanceInfo, before: LedgerEntry) -> bool:
    """Tell whether the library knows of a smaller gap than the ledger."""
    if known.best_known is None or known.bound is None:
        return False
    return relative_gap(known.best_known, known.bound) < relative_gap(before.value.number, before.bound.number)


def _entered(name: str, digest: str, before: LedgerEntry | None, who: str) -> LedgerEntry:
    """Return the facts known of an instance, and whether it is proved within a second; its certificate apart."""
    known, problem = instances.info(name), instances.load(name)
    if known.best_known is None or known.bound is None:
        raise ValueError(f"{name} has not been solved yet: python tests/tools/maintain_library.py {name}")
    tier: Tier = "benchmark" if known.proved else "open"
    taken = None
    if known.proved:
        quick = solve(problem, time_limit=EASY)
        if quick.status == "optimal":
            tier, taken = "easy", round(quick.seconds, 3)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    finder, _, bounder = known.method.partition("; bound by ")
    command = f"fedselect solve {name} --method {{}}" + (f" --time-limit {EASY:g}" if taken is not None else "")
    value = Found(known.best_known, who, today, __version__, finder, command.format(finder), taken)
    bounder = bounder or finder
    bound = Found(known.bound, who, today, __version__, bounder, command.format(bounder), taken)
    if before is not None:  # what was found first stays with who found it
        value = before.value if before.value.number == value.number else value
        bound = before.bound if before.bound.number == bound.number else bound
    return LedgerEntry(name, tier, digest, value, bound)


def _certified(folder: Path, entry: LedgerEntry, seconds: float) -> LedgerEntry:
    """The entry with a certificate of its bound, made anew."""
    name = entry.name
    known, problem, best = instances.info(name), instances.load(name), instances.best(name)
    claim = Solution(problem, known.method, best, known.best_known, known.bound, "feasible", "iterations")
    proved = with_certificate(claim, seconds, relaxed=not known.proved)
    value = math.nan if known.best_known is None else known.best_known

    def distance(solution: Solution) -> float:
        return math.inf if solution.certificate is None else abs(solution.certificate.bound - value)

    if known.proved and distance(proved) > problem.tolerance_at(value):
        # A search knows more than its bound says: whom it left out, and by which multipliers.
        proved = min(proved, solve(problem, time_limit=seconds, start=best, certificate=True), key=distance)
    path = folder / "certificates" / f"{name}.npz"
    if proved.certificate is None:
        print(f"{name}: {proved.certificate_report}")
        return replace(entry, certified=None)
    proved.certificate.save(path)
    if path.stat().st_size > LARGEST:
        print(f"{name}: its certificate has {path.stat().st_size} bytes and is not shipped")
        path.unlink()
        return replace(entry, certified=None)
    return replace(entry, certified=proved.certificate.bound)


def _write(path: Path, known: Mapping[str, InstanceInfo | LedgerEntry]) -> None:
    """Write one line per instance, so that a change reads well."""
    lines = [json.dumps(asdict(known[name]), ensure_ascii=False) for name in sorted(known)]
    write_atomically(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; all if left out")
    parser.add_argument("--methods", default="auto", help="with commas, one after another")
    parser.add_argument("--seconds", type=float, help="for each method and instance (10), or for each certificate (60)")
    parser.add_argument("--again", action="store_true", help="record once more, or certify, what is there already")
    parser.add_argument("--unproved", action="store_true", help="record nothing; solve what is not proved")
    parser.add_argument("--ledger", action="store_true", help="record nothing; enter answers, and certify their bounds")
    parser.add_argument("--who", default="fedselect", help="who is entered in the ledger as the finder")
    given = parser.parse_args()
    if given.ledger:
        enter(FOLDER, given.names, given.seconds or 60.0, who=given.who, again=given.again)
    else:
        methods, seconds = given.methods.split(","), given.seconds or 10.0
        maintain(FOLDER, given.names, methods, seconds, again=given.again, unproved=given.unproved)
