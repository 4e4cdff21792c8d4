"""Answers of the searches at fixed work, to compare two states of the code: decision, objective, bound, nodes, status.

    python tests/benchmarks/freeze_search.py FILE            # write
    python tests/benchmarks/freeze_search.py FILE --against OTHER_FILE

No clock takes part: a run ends with its proof, or after so many nodes. So two states of the code that search alike give
the same file to the bit, on the same machine, and where they do not, each difference wants a reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from solvers import instances, solve
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.policy import Policy
from solvers.problem import Problem
from solvers.registry import find
from solvers.run import Run
from solvers.solution import Solution

#: Nodes after which a search that has no proof ends, and the work between two looks at that.
NODES, POLICY = 20_000, Policy(spell=1_000_000)

#: Recorded rounds whose relaxations alone take minutes.
LONG = ("m200-ideal", "m50-ideal", "n300-m30-ideal-alpha10", "n1000-m20-bernoulli", "n500-m50", "n1000-m100")


class CountedRun(Run):
    """Run that ends after `NODES` nodes, whatever the clock says."""

    most = NODES

    @property
    def remaining(self) -> float:
        """Nothing after so many nodes."""
        return 0.0 if (self.nodes or 0) >= self.most else super().remaining


def by_method(problem: Problem, method: str, *, nodes: int = NODES, **options: Any) -> Solution:
    """Solve without a clock."""
    run = CountedRun(problem, method, None, 0)
    run.most = nodes
    find(problem, method).function(problem, run, **options)
    return run.solution()


def uniform(n: int, m: int, seed: int, **constraints: Any) -> DispersionProblem:
    """Distances and costs drawn uniformly: the hardest for their size."""
    rng = np.random.default_rng(seed)
    h = np.triu(rng.random((n, n)), 1)
    return DispersionProblem(h + h.T, rng.random(n), size=m, **constraints)


def constrained(problem: DispersionProblem, seed: int) -> dict[str, dict[str, Any]]:
    """Quotas, budgets, conflicts and all of them, drawn for a problem."""
    rng, n, m = np.random.default_rng(seed), problem.n, problem.size
    group = rng.integers(0, 4, n)
    quotas = [Quota(problem.clients[group == k], m // 8, m // 4 + 1, f"group {k}") for k in range(4)]
    uses = rng.lognormal(size=(2, n))
    budgets = [Budget(use, 0.7 * m * float(use.mean()), f"budget {k}") for k, use in enumerate(uses)]
    conflicts = [rng.choice(problem.clients, 2, replace=False) for _ in range(n)]
    stated: dict[str, dict[str, Any]] = {
        "quotas": {"quotas": quotas},
        "budgets": {"budgets": budgets},
        "conflicts": {"conflicts": conflicts},
    }
    stated["all"] = {key: value for each in stated.values() for key, value in each.items()}
    return stated


def cases() -> Iterator[tuple[str, Callable[[], Solution]]]:
    """Name of each case, and how it is solved."""
    for name in instances.names():
        problem = instances.load(name)
        if any(part in name for part in LONG):
            continue
        if isinstance(problem, DispersionProblem):
            yield f"tree {name}", lambda p=problem: by_method(p, "branch-and-bound", policy=POLICY)
            if problem.n >= 150 or "twolabel" in name:
                yield f"auto {name}", lambda p=problem: by_method(p, "auto", policy=POLICY)
        elif name.startswith(("divfl", "fedcbs", "cafed")) and "n1000" not in name:
            yield f"auto {name}", lambda p=problem: by_method(p, "auto")
    for n, m in ((30, 6), (40, 8), (50, 8), (24, 12)):
        for seed in range(2):
            problem = uniform(n, m, seed)
            yield f"uniform {n}/{m}/{seed}", lambda p=problem: by_method(p, "branch-and-bound", policy=POLICY)
            for kind, stated in constrained(problem, seed).items():
                other = uniform(n, m, seed, **stated)
                yield (
                    f"uniform {n}/{m}/{seed} {kind}",
                    lambda p=other: by_method(p, "branch-and-bound", policy=POLICY),
                )
    for cuts in (0.0, 3.0):
        yield f"cuts {cuts}", lambda c=cuts: by_method(uniform(36, 9, 7), "branch-and-bound", cuts=c, policy=POLICY)
    yield "hard 80/20", lambda: by_method(uniform(80, 20, 0), "branch-and-bound", nodes=60_000, policy=POLICY)
    yield "hard 70/8", lambda: by_method(uniform(70, 8, 0), "auto", nodes=60_000, policy=POLICY)
    for method in ("sdp", "dnn"):
        yield f"{method} 60/12", lambda k=method: by_method(uniform(60, 12, 3), k)
    yield "rlt 200/6", lambda: by_method(uniform(200, 6, 4), "auto", nodes=5_000, policy=POLICY)
    points = np.random.default_rng(5).random((400, 3))
    yield "points", lambda: by_method(PointDispersionProblem(points, size=12), "branch-and-bound", nodes=5_000)
    budget = Budget(np.random.default_rng(6).lognormal(size=400), 12.0, "seconds")
    yield (
        "points with a budget",
        lambda: by_method(PointDispersionProblem(points, size=12, budgets=[budget]), "branch-and-bound", nodes=5_000),
    )
    for n, m in ((18, 6), (40, 8)):
        problem = uniform(n, m, 11)
        yield f"certificate {n}/{m}", lambda p=problem: solve(p, "branch-and-bound", certificate=True)
        stated = constrained(problem, 11)["all"]
        other = uniform(n // 2, m // 2, 11, quotas=[Quota(range(4), 1, 2)])
        yield f"certificate {n}/{m} quota", lambda p=other: solve(p, "branch-and-bound", certificate=True)
        other = uniform(n, m, 11, **stated)
        yield f"all of {n}/{m}", lambda p=other: by_method(p, "auto", nodes=2_000)


def row(solution: Solution) -> dict[str, Any]:
    """Everything that must not change, numbers to the bit."""
    x = None if solution.x is None else hashlib.sha256(np.asarray(solution.x, dtype=np.float64).tobytes()).hexdigest()
    found = {
        "x": x and x[:16],
        "objective": None if solution.objective is None else float(solution.objective).hex(),
        "bound": None if solution.bound is None else float(solution.bound).hex(),
        "nodes": solution.nodes,
        "status": solution.status,
        "details": {key: solution.details[key] for key in ("nodes", "iterations", "open") if key in solution.details},
    }
    certificate = getattr(solution, "certificate", None)
    if certificate is not None:
        digest = hashlib.sha256()
        for name, array in sorted(certificate.arrays.items()):
            digest.update(name.encode() + np.asarray(array, dtype=np.int64).tobytes())
        found["certificate"] = digest.hexdigest()[:16]
    return found


def too_long(*_: object) -> None:
    """Leave a case out."""
    raise TimeoutError


def main() -> None:
    """Write the file, or say what differs from another."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--longest", type=int, default=6, help="seconds after which a case is left out, in a first file"
    )
    given = parser.parse_args()
    known = {} if given.against is None else json.loads(given.against.read_text())
    found, seconds = {}, {}
    signal.signal(signal.SIGALRM, too_long)
    for name, answer in cases():
        if given.only in name and (given.against is None or name in known):
            began = time.process_time()
            signal.alarm(0 if known else given.longest)
            try:
                found[name] = row(answer())
            except TimeoutError:
                print("left out:", name, flush=True)
            signal.alarm(0)
            seconds[name] = time.process_time() - began
            given.file.write_text(json.dumps(found, indent=1))
    print(f"{len(found)} cases in {sum(seconds.values()):.0f} s of processor time")
    for name in sorted(seconds, key=lambda name: -seconds[name])[:12]:
        print(f"  {seconds[name]:7.2f} s  {name}")
    if known:
        differing = [name for name in found if name in known and found[name] != known[name]]
        for name in differing:
            print(f"differs: {name}\n  {known[name]}\n  {found[name]}")
        print(f"{len(differing)} of {len(set(found) & set(known))} cases differ")


if __name__ == "__main__":
    main()
