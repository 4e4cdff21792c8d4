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
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from solvers import InvalidProblem, methods, solve
from solvers.certificates import Certificate, check, check_certificate
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from tests.solvers.dispersion.constrained.cases import OVER, degenerate_constraints, keeps

#: Seconds after which a solve counts as endless; kernels may have to be compiled in them.
PATIENCE = 400

#: What is left out: solvers of others, which are tested elsewhere, and take long.
_OTHERS = {"cp-sat", "milp", "gurobi", "cplex", "scip", "dwave-tabu", "pymoo"}

#: Fractional bits of the roots that stand for distances between points; they are rounded down.
_BITS = 300

Problem = DispersionProblem | PointDispersionProblem | KindDispersionProblem

#: The exact values of selections.
Values = dict[tuple[int, ...], Fraction]


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


def constrained(kind: str, seed: int) -> tuple[Problem, Problem | None, dict[str, Any]]:
    """A problem of a geometry, the same with side constraints, None where they are refused, and the constraints."""
    free = problem_of(kind, seed)
    rng = np.random.default_rng([seed, 7])
    ids = np.sort(rng.choice(2**40, free.n, replace=False)) if rng.random() < 0.2 else np.arange(free.n)
    free, stated = replace(free, clients=ids), degenerate_constraints(rng, ids, free.size)
    try:
        return free, replace(free, **stated), stated
    except InvalidProblem as error:
        print(f"refused {kind} {seed}: {error}", flush=True)
        return free, None, stated


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


def statement_faults(free: Problem, problem: Problem | None, stated: dict[str, Any], exact: Values) -> list[str]:
    """What is wrong with the feasible set of a problem, or with its refusal."""
    surely = {x for x in exact if keeps(stated, x, free.clients, Fraction(0))}
    if problem is None:
        return ["refused, although a selection keeps all constraints"] if surely else []
    taken = {x for x in exact if problem.violation(problem.feasible.decision(x)) == 0}
    perhaps = {x for x in exact if keeps(stated, x, free.clients, OVER * (1 + Fraction(1, 10**5)))}
    wrong = [*(surely - taken), *(taken - perhaps)]
    return [f"whether {x} keeps all constraints is told wrongly" for x in wrong]


def faults(problem: Problem, method: str, exact: Values) -> list[str]:
    """What is wrong with a method's answer to a problem whose feasible selections have these values."""
    certified = problem.is_constrained and method == "branch-and-bound"
    solution = solve(problem, method, certificate=certified)
    found: list[str] = []
    if not exact:
        proves = method in ("auto", "branch-and-bound", "brute-force", "cp-sat", "milp")
        fine = solution.x is None and (solution.status == "infeasible" or not proves)
        return [] if fine else [f"no selection keeps all constraints; the answer is {solution}"]
    best = max(exact.values())
    if solution.x is None:
        return [f"no decision: {solution}"]
    chosen = tuple(np.flatnonzero(solution.x).tolist())
    if chosen not in exact:
        return [f"{chosen} does not keep all constraints"]
    value = exact[chosen]
    if solution.bound is not None and Fraction(solution.bound) < best:
        found.append(f"bound {solution.bound!r} below the optimum {float(best)!r} by {float(best) - solution.bound:g}")
    allowed = 2e-6 * min(max(1.0, abs(float(best))), problem.scale)
    if solution.status == "optimal" and float(best - value) > allowed:
        found.append(f"{float(value)!r} is called optimal; the optimum is {float(best)!r}")
    if solution.status == "infeasible":
        found.append(f"{chosen} keeps all constraints, and the problem is called infeasible")
    proves = ["auto", "branch-and-bound"] if problem.size == problem.n - 1 else []
    if problem.is_constrained:  # large costs that decide nothing leave a gap of rounding, and points have no tree
        loose = solution.bound is not None and solution.bound - float(value) <= 10 * problem.rounding
        proves = [] if loose else ["auto", *["branch-and-bound"] * (not isinstance(problem, PointDispersionProblem))]
    if method in proves and solution.status != "optimal":
        found.append(f"{problem.size} of {problem.n}, and not optimal: {solution}")
    if solution.certificate is not None:
        found += certificate_faults(problem, solution.certificate, best)
    return found


def certificate_faults(problem: Problem, certificate: Certificate, best: Fraction) -> list[str]:
    """What the two checkers say of a certificate that is wrong."""
    bound = check(problem, certificate)
    with tempfile.TemporaryDirectory() as folder:
        paths = [problem.save(Path(folder) / "problem.npz"), certificate.save(Path(folder) / "certificate.npz")]
        other = check_certificate.check_files(*paths)
    found = [] if bound == other else [f"the checkers prove {bound!r} and {other!r}"]
    return found + [f"{bound!r} is proved, below the optimum {float(best)!r}"] * (Fraction(bound) < best)


def main(kind: str, first: int, last: int) -> None:
    faulthandler.enable()
    solved = 0
    for seed in range(first, last):
        geometry, has_constraints = kind.removeprefix("constrained-"), kind.startswith("constrained-")
        if has_constraints:
            free, problem, stated = constrained(geometry, seed)
            exact = values(free)
            for fault in statement_faults(free, problem, stated, exact):
                print(f"FAULT {kind} {seed} statement: {fault}", flush=True)
            if problem is None:
                continue
            exact = {x: value for x, value in exact.items() if problem.violation(problem.feasible.decision(x)) == 0}
        else:
            problem = problem_of(geometry, seed)
            exact = values(problem)
        for entry in methods(problem):
            left_out = _OTHERS - {"cp-sat", "milp"} if has_constraints else _OTHERS
            if entry.name in left_out:
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
    for each in sys.argv[1].split(","):
        main(each, int(sys.argv[2]), int(sys.argv[3]))
