"""Keep the shipped library: record what is new or has changed, and look for better answers and bounds.

    python -m fedselect.recording.maintain                       # record what is missing, and solve it for 10 s
    python -m fedselect.recording.maintain --unproved --seconds 300 --methods branch-and-bound,tabu
    python -m fedselect.recording.maintain --again NAME          # record an instance again

What is known of an instance only ever gets better, as long as its bits stay the same; where a dispersion problem
hardly changes, its decision is kept and its bound moved by the most the change can do. For who edits the package: it
writes into the installed ``solvers.instances``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedselect.recording.library import Recipe, recipes
from fedselect.recording.transfer import transferred_bound
from solvers import Problem, solve
from solvers.files import write_atomically
from solvers.instances import InstanceInfo, digest
from solvers.instances.library import FOLDER, pack, unpack
from solvers.solution import proves

__all__ = ["maintain"]


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


def _write(path: Path, known: dict[str, InstanceInfo]) -> None:
    """One line an instance, so that a change reads well."""
    lines = [json.dumps(asdict(known[name]), ensure_ascii=False) for name in sorted(known)]
    write_atomically(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; all if left out")
    parser.add_argument("--methods", default="auto", help="with commas, one after another")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each method and instance")
    parser.add_argument("--again", action="store_true", help="record once more what is there already")
    parser.add_argument("--unproved", action="store_true", help="record nothing; solve what is not proved")
    arguments = parser.parse_args()
    maintain(
        FOLDER,
        arguments.names,
        arguments.methods.split(","),
        arguments.seconds,
        again=arguments.again,
        unproved=arguments.unproved,
    )
