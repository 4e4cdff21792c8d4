"""Solve problems of one kind without a time limit and compare with the exact optimum; a process of its own.

``python soundness.py KIND FIRST LAST`` prints a line per case begun and one per finding; when
a solve takes longer than `PATIENCE` the process ends with a traceback and status 1, wherever it is, compiled code
included.
"""

from __future__ import annotations

import faulthandler
import itertools
import math
import sys
from fractions import Fraction

import numpy as np

from solvers import methods, solve
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem

#: Seconds after which a solve counts as endless; kernels may have to be compiled in them.
PATIENCE = 400

#: What is left out: solvers of others, which are tested elsewhere, and take long.
_OTHERS = {"cp-sat", "milp", "gurobi", "cplex", "scip", "dwave-tabu", "pymoo"}

#: Fractional bits of the roots that stand for distances between points; they are rounded down.
_BITS = 300

Problem = DispersionProblem | PointDispersionProblem | KindDispersionProblem


def matrix(rng: np.random.Generator) -> np.ndarray:
    """Distances between few clients: random, tied, nearly equal, equal, circulant, of mixed scales, of points."""
    n = int(rng.integers(2, 9))
    kind = rng.integers(8)
    if kind == 0:
        h = rng.random((n, n))
    elif kind == 1:
        h = rng.integers(0, 3, (n, n)).astype(float)
    elif kind == 2:
        h = np.full((n, n), float(rng.random()))
    elif kind == 3:
        steps = rng.random(n)
        apart = np.abs(np.arange(n)[:, None] - np.arange(n))
        h = steps[np.minimum(apart, n - apart)]
    elif kind == 4:
        h = rng.random((n, n)) * 10.0 ** rng.integers(-12, 9, (n, n))
    elif kind == 5:
        points = rng.integers(0, 3, (n, 2)).astype(float)
        h = np.linalg.norm(points[:, None] - points, axis=2)
    elif kind == 6:
        h = 1 + 1e-15 * rng.integers(0, 5, (n, n))
    else:
        angles = rng.random(n) * 2 * math.pi
        h = 2 * np.abs(np.sin((angles[:, None] - angles) / 2))
    h = np.triu(h, 1)
    return h + h.T


def costs_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Costs: none, random, tied, all equal (and large), with a large common part, of mixed scales."""
    kind = rng.integers(7)
    common = float(rng.choice([-2.0, 0.1, 1e5, 1e7, -1e12, 1e17]))
    if kind == 0:
        return np.zeros(n)
    if kind == 1:
        return rng.normal(size=n)
    if kind == 2:
        return rng.integers(0, 3, n) * 0.3
    if kind == 3:
        return np.full(n, common)
    if kind == 4:
        return common + rng.normal(size=n)
    if kind == 5:
        return rng.normal(size=n) * 10.0 ** rng.integers(-12, 9, n)
    return common * rng.integers(0, 2, n)


def weight_of(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, 0.5, 1.0, 0.001, rng.random()], p=[0.05, 0.3, 0.3, 0.15, 0.2]))


def scale_of(rng: np.random.Generator) -> float:
    """1, or anything that is accepted: powers of ten and of two, tiny and huge."""
    return float(rng.choice([1.0, 10.0 ** rng.integers(-12, 13), 10.0 ** rng.integers(-250, 240)], p=[0.5, 0.3, 0.2]))


def problem_of(kind: str, seed: int) -> Problem:
    """A problem of a geometry: ``matrix``, ``single`` (float32), ``points`` or ``kinds``."""
    rng = np.random.default_rng([seed, len(kind)])
    scale, weight = scale_of(rng), weight_of(rng)
    if kind == "points":
        n = int(rng.integers(2, 9))
        scale = scale if 1e-100 < scale < 1e100 else 1.0
        points = [rng.random((n, 1)), rng.integers(0, 3, (n, 2)), rng.normal(size=(n, 3)), np.ones((n, 2))]
        chosen = points[rng.integers(4)] * scale + float(rng.choice([0.0, 1.0, 1e6])) * scale
        return PointDispersionProblem(chosen, costs_of(rng, n) * scale, size=_size(rng, n), weight=weight)
    h = matrix(rng) * scale
    n = len(h)
    if kind == "kinds":
        most = int(rng.integers(1, min(n, 4) + 1))
        h = h[:most, :most] + np.diag(float(rng.integers(0, 2)) * scale * rng.random(most))
        kinds = np.concatenate([np.arange(most), rng.integers(0, most, n - most)])
        return KindDispersionProblem(h, kinds=kinds, costs=costs_of(rng, n) * scale, size=_size(rng, n), weight=weight)
    if kind == "single":
        scale = scale if 1e-20 < scale < 1e20 else 1.0
        h = (h / h.max() * scale if h.any() else h).astype(np.float32)
    return DispersionProblem(h, costs=costs_of(rng, n) * scale, size=_size(rng, n), weight=weight)


def _size(rng: np.random.Generator, n: int) -> int:
    return int(rng.choice([1, n - 1, n, rng.integers(1, n + 1)], p=[0.1, 0.15, 0.15, 0.6])) or 1


def values(problem: Problem) -> dict[tuple[int, ...], Fraction]:
    """The exact value of every selection; between points a lower bound that is less by parts in 2^300."""
    n, w = problem.n, Fraction(problem.weight)
    h = [[_distance(problem, i, j) for j in range(n)] for i in range(n)]
    costs = [Fraction(c) for c in problem.costs.tolist()]
    return {
        chosen: 2 * w * sum(h[i][j] for i, j in itertools.combinations(chosen, 2)) - sum(costs[i] for i in chosen)
        for chosen in itertools.combinations(range(n), problem.size)
    }


def _distance(problem: Problem, i: int, j: int) -> Fraction:
    if i == j:
        return Fraction(0)
    if isinstance(problem, DispersionProblem):
        return Fraction(float(problem.distances[i, j]))
    if isinstance(problem, KindDispersionProblem):
        return Fraction(float(problem.distances[problem.kinds[i], problem.kinds[j]]))
    p, q = ([Fraction(float(v)) for v in problem.points[k]] for k in (i, j))
    square = sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
    denominator = square.denominator
    # √(a/b) = √(a·b)/b
    return Fraction(math.isqrt((square.numerator * denominator) << 2 * _BITS), denominator << _BITS)


def faults(problem: Problem, method: str, exact: dict[tuple[int, ...], Fraction]) -> list[str]:
    """What is wrong with a method's answer to a problem."""
    best = max(exact.values())
    solution = solve(problem, method)
    found: list[str] = []
    if solution.x is None:
        return ["no decision"]
    value = exact[tuple(np.flatnonzero(solution.x).tolist())]
    if solution.bound is not None and Fraction(solution.bound) < best:
        found.append(f"bound {solution.bound!r} below the optimum {float(best)!r} by {float(best) - solution.bound:g}")
    allowed = 2e-6 * min(max(1.0, abs(float(best))), problem.scale)
    if solution.status == "optimal" and float(best - value) > allowed:
        found.append(f"{float(value)!r} is called optimal; the optimum is {float(best)!r}")
    if problem.size == problem.n - 1 and method in ("auto", "branch-and-bound") and solution.status != "optimal":
        found.append(f"one client of {problem.n} to leave out, and not optimal: {solution}")
    return found


def main(kind: str, first: int, last: int) -> None:
    faulthandler.enable()
    solved = 0
    for seed in range(first, last):
        problem = problem_of(kind, seed)
        exact = values(problem)
        for entry in methods(problem):
            if entry.name in _OTHERS or (entry.name == "three-point" and problem.n > 7):
                continue
            print(f"begin {kind} {seed} {entry.name}", flush=True)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                for fault in faults(problem, entry.name, exact):
                    print(f"FAULT {kind} {seed} {entry.name}: {fault}", flush=True)
            except Exception as error:  # any exception is a finding
                print(f"FAULT {kind} {seed} {entry.name}: {type(error).__name__}: {error}", flush=True)
            faulthandler.cancel_dump_traceback_later()
            solved += 1
    print(f"solved {solved}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
