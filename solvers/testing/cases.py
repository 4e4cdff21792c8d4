# mypy: disable-error-code="arg-type"
"""Small problems of the types, and decisions to hold an answer against, for `solvers.testing.check_method`.

Problem types have edge cases by name; two have small instances of the library beside them. Decisions are enumerated
where they can be counted, a sample where they are real numbers.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from solvers import instances
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem, QuadraticProblem
from solvers.errors import InvalidProblem
from solvers.participation import CutoffProblem
from solvers.problem import FAMILIES, Problem
from solvers.registry import Method
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.solving import solve
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

for family in FAMILIES:
    importlib.import_module(f"solvers.{family}")


def _symmetric(n: int, seed: int = 0) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    return upper + upper.T


def _dispersion() -> Iterator[tuple[str, Problem]]:
    costs = np.random.default_rng(1).random(7)
    far = np.ones((6, 6)) - np.eye(6)
    yield "random", DispersionProblem(_symmetric(7), costs, size=3, weight=0.5)
    yield "one of them", DispersionProblem(_symmetric(5), costs[:5], size=1)
    yield "all of them", DispersionProblem(_symmetric(5), costs[:5], size=5)
    yield "one client", DispersionProblem(np.zeros((1, 1)), [2.0], size=1)
    yield "two clients", DispersionProblem(_symmetric(2), [0.1, 0.2], size=1)
    yield "equal distances, tied costs", DispersionProblem(far, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], size=3)
    yield "no distances", DispersionProblem(np.zeros((6, 6)), costs[:6], size=2)
    yield "no weight", DispersionProblem(_symmetric(6), costs[:6], size=2, weight=0.0)
    yield "no costs, tiny", DispersionProblem(1e-9 * _symmetric(6), np.zeros(6), size=3)
    yield "negative costs, huge", DispersionProblem(1e9 * _symmetric(6), -1e9 * costs[:6], size=4)


def _points() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(7)
    where, costs = rng.random((7, 3)), rng.random(7)
    yield "random", PointDispersionProblem(where, costs, size=3, weight=0.5)
    yield "one of them", PointDispersionProblem(where, costs, size=1)
    yield "all of them", PointDispersionProblem(where, costs, size=7)
    yield "one client", PointDispersionProblem([[1.0, 2.0]], [2.0], size=1)
    yield "equal distances, tied costs", PointDispersionProblem(np.eye(6), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], size=3)
    yield "one point", PointDispersionProblem(np.ones((6, 2)), costs[:6], size=2)
    yield "on a line, twice each", PointDispersionProblem(np.repeat(np.arange(3.0), 2)[:, None], np.zeros(6), size=3)
    yield "no weight", PointDispersionProblem(where, costs, size=2, weight=0.0)
    yield "tiny", PointDispersionProblem(1e-9 * where, np.zeros(7), size=3)
    yield "distributions", PointDispersionProblem(rng.dirichlet(np.ones(4), 6), costs[:6], size=3, metric="hellinger")


def _kinds() -> Iterator[tuple[str, Problem]]:
    costs = np.random.default_rng(8).random(8)
    where = np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 0.8]])
    between = np.linalg.norm(where[:, None] - where, axis=2)
    yield "random", KindDispersionProblem(between, [0, 1, 2, 0, 1, 2, 0, 1], costs, size=3, weight=0.5)
    yield "one of them", KindDispersionProblem(between, [0, 1, 2, 2], costs[:4], size=1)
    yield "all of them", KindDispersionProblem(between, [0, 1, 2, 2], costs[:4], size=4)
    yield "one kind", KindDispersionProblem([[0.0]], [0, 0, 0, 0], costs[:4], size=2)
    yield "a kind each", KindDispersionProblem(between, [0, 1, 2], costs[:3], size=2)
    yield "tied costs", KindDispersionProblem(between, [0, 0, 1, 1, 2, 2], np.ones(6), size=3)
    yield "no weight", KindDispersionProblem(between, [0, 1, 2, 0, 1], costs[:5], size=2, weight=0.0)


def _quadratic() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(16)
    q = rng.normal(size=(7, 7))
    yield "random", QuadraticProblem(q + q.T, 3)
    yield "random, smallest", QuadraticProblem(q, 3, "min", constant=2.0)
    yield "one of them", QuadraticProblem(q, 1, "min")
    yield "all of them", QuadraticProblem(q, 7)
    yield "one client", QuadraticProblem([[-3.0]], 1, "min")
    yield "diagonal alone", QuadraticProblem(np.diag(q[0]), 3, "min")
    yield "whole numbers below 0", QuadraticProblem(-rng.integers(1, 9, (6, 6)), 2)
    yield "large, with a value near 0", QuadraticProblem(1e6 * (q - q.mean()), 3, constant=1.0)
    yield "all alike", QuadraticProblem(-np.ones((6, 6)), 3, "min")


def _exclusion() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(2)

    def problem(importance: Any, gaps: Any, heterogeneity: float | None = 1.0, **fields: Any) -> ExclusionProblem:
        n = len(importance)
        fields = {"availability": rng.uniform(0.2, 1.0, n), "correlation": rng.uniform(-0.5, 0.9, n)} | fields
        return ExclusionProblem(importance, gaps, heterogeneity, **fields)

    yield "random", problem(rng.dirichlet(np.ones(7)), rng.exponential(size=7))
    yield "equal importance", problem(np.full(6, 1 / 6), rng.exponential(size=6), None)
    yield "one client", problem([1.0], [0.5])
    yield "two clients", problem([0.5, 0.5], [0.0, 3.0])
    yield "no gaps", problem(np.full(4, 0.25), np.zeros(4))
    yield "tied gaps, no heterogeneity", problem([0.1, 0.2, 0.3, 0.4], np.ones(4), 0.0)
    yield "negative gaps", problem(np.full(5, 0.2), -rng.exponential(size=5), 2.0)


def _optimisation_error() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(3)
    yield "random", OptimizationErrorProblem(rng.uniform(0.1, 1, 6), rng.uniform(0.5, 2, 6), 1.0, 1.0)
    yield "one client", OptimizationErrorProblem([0.5], [1.0], 1.0, 2.0)
    yield "two clients", OptimizationErrorProblem([0.5, 1.0], [1.0, 1.0], 0.1, 1.0)
    yield "all alike", OptimizationErrorProblem(np.full(4, 0.3), np.ones(4), 1.0, 1.0)
    yield "no offset", OptimizationErrorProblem(rng.uniform(0.1, 1, 5), np.ones(5), 0.0, 1.0)
    yield "large offset", OptimizationErrorProblem([0.01, 0.5, 1.0], [1.0, 2.0, 3.0], 1e3, 1.0)


def _total_error() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(4)
    pi, v, alpha = rng.uniform(0.1, 1, 5), rng.uniform(0.5, 2, 5), rng.dirichlet(np.ones(5))
    for bias in ("chi2", "tv"):
        yield f"random, {bias}", TotalErrorProblem(pi, v, 1.0, 1.0, importance=alpha, bias=bias)
        yield f"one client, {bias}", TotalErrorProblem([0.5], [1.0], 1.0, 1.0, importance=[1.0], bias=bias)
        yield f"no weight, {bias}", TotalErrorProblem(pi, v, 1.0, 1.0, importance=alpha, bias=bias, bias_weight=0.0)
        yield (
            f"all alike, {bias}",
            TotalErrorProblem(np.full(4, 0.5), np.ones(4), 1.0, 1.0, importance=np.full(4, 0.25), bias=bias),
        )


def _capping() -> Iterator[tuple[str, Problem]]:
    yield "random", CappingProblem(weights=np.random.default_rng(5).lognormal(0, 2, 7), size=3, floor=0.1)
    yield "one of them", CappingProblem(weights=[3.0, 1.0, 1.0], size=1)
    yield "all of them", CappingProblem(weights=[3.0, 1.0, 1.0], size=3)
    yield "one client", CappingProblem(weights=[2.0], size=1)
    yield "equal weights", CappingProblem(weights=np.ones(5), size=2, floor=0.2)
    yield "tied at the ceiling", CappingProblem(weights=[2.0, 2.0, 1.0, 1.0], size=3)
    yield "nothing but the floor", CappingProblem(weights=[5.0, 1.0, 1.0, 1.0], size=2, floor=0.5)
    yield "weights far apart", CappingProblem(log_weights=[1e4, 0.0, -1e4, 5.0], size=2, floor=0.05)


def _allocation() -> Iterator[tuple[str, Problem]]:
    yield "random", AllocationProblem([9, 5, 7, 4], [1.0, 3.0, 0.5, 2.0], 9)
    yield "one group", AllocationProblem([5], [1.0], 3)
    yield "one client of each", AllocationProblem([3, 4, 5], [1.0, 2.0, 3.0], 3)
    yield "all of them", AllocationProblem([3, 2, 4], [1.0, 2.0, 3.0], 9)
    yield "all alike", AllocationProblem([4, 4, 4], [1.0, 1.0, 1.0], 5)
    yield "no deviations", AllocationProblem([6, 3, 1], [0.0, 0.0, 0.0], 5)
    yield "one without deviation, one absent", AllocationProblem([6, 4, 5], [1.0, 0.0, 2.0], 6, upper=[5, 4, 0])
    yield "bounds that bind", AllocationProblem([9, 9, 9], [9.0, 1.0, 1.0], 9, lower=[1, 2, 2], upper=[4, 9, 9])


def _cutoff() -> Iterator[tuple[str, Problem]]:
    yield "random", CutoffProblem(np.random.default_rng(6).uniform(0.05, 1, 5), 30)
    yield "one client", CutoffProblem([0.5], 10)
    yield "always there", CutoffProblem([1.0, 1.0], 12)
    yield "two rounds", CutoffProblem([0.3, 0.6], 2)


def _deadline() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(11)
    ready, upload = rng.uniform(0, 9, 8), rng.uniform(0.5, 4, 8)
    yield "random", DeadlineProblem(ready, upload, 10.0)
    yield "random, valued", DeadlineProblem(ready, upload, 10.0, rng.random(8))
    yield "whole numbers", DeadlineProblem(np.round(ready), np.round(upload), 11.0, rng.integers(0, 5, 8))
    yield "one client", DeadlineProblem([1.0], [2.0], 3.0)
    yield "nobody in time", DeadlineProblem([1.0, 2.0], [2.0, 2.0], 2.5, [1.0, 4.0])
    yield "all in time", DeadlineProblem([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], 3.0)
    yield "all alike", DeadlineProblem(np.ones(6), np.ones(6), 4.0, np.full(6, 2.0))
    yield "uploads that take no time, worth nothing", DeadlineProblem([0, 3, 1, 1], [0, 0, 2, 1], 3, [1, 2, 0, 0])
    yield "deadline before the round", DeadlineProblem([0.0, -5.0], [1.0, 3.0], -1.0, [2.0, 3.0])
    yield "tiny", DeadlineProblem(1e-9 * ready, 1e-9 * upload, 1e-8, 1e-9 * rng.random(8))
    yield "huge", DeadlineProblem(1e9 * ready, 1e9 * upload, 1e10, 1e9 * rng.random(8))


def _coverage() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(12)
    where = rng.random((8, 2))
    near = 1.0 - np.linalg.norm(where[:, None] - where, axis=2)
    yield "random", CoverageProblem(near, size=3)
    yield "one of them", CoverageProblem(near, size=1)
    yield "all of them", CoverageProblem(near, size=8)
    yield "one client", CoverageProblem([[0.3]], size=1)
    yield "some candidates, any signs", CoverageProblem(rng.normal(size=(9, 6)), size=2)
    yield "whole numbers, ties", CoverageProblem(rng.integers(0, 3, (7, 7)), size=3)
    yield "all alike", CoverageProblem(np.full((5, 5), 0.7), size=2)
    yield "nothing alike", CoverageProblem(np.zeros((5, 5)), size=2)
    yield "single precision", CoverageProblem(near.astype(np.float32), size=3)
    yield "tiny", CoverageProblem(1e-9 * near, size=3)
    yield "huge, negative", CoverageProblem(-1e9 * near, size=3)


def _schedule() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(13)
    yield "random", ScheduleProblem(rng.random((5, 5)) < 0.6, size=2)
    yield "after other rounds", ScheduleProblem(rng.random((4, 5)) < 0.5, size=2, counts=[3, 0, 1, 0, 2])
    yield "always there", ScheduleProblem(np.ones((3, 4)), size=2)
    yield "nobody in some rounds", ScheduleProblem([[0, 0, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0]], size=1)
    yield "fewer than wanted", ScheduleProblem([[1, 0, 0], [1, 1, 0]], size=3)
    yield "one client", ScheduleProblem([[1], [0], [1]], size=1)
    yield "one round", ScheduleProblem([[1, 1, 0, 1]], size=2, counts=[5, 0, 0, 0])
    yield "a chain", ScheduleProblem([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]], size=1)


def _diverse_schedule() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(15)
    upper = np.triu(rng.random((5, 5)), 1)
    h = upper + upper.T
    yield "random", DiverseScheduleProblem(rng.random((3, 5)) < 0.7, size=2, distances=h, weight=0.1)
    yield "after other rounds", DiverseScheduleProblem(np.ones((2, 5)), 3, [3, 0, 1, 0, 2], distances=h, weight=0.3)
    yield "no weight", DiverseScheduleProblem(rng.random((3, 5)) < 0.7, size=2, distances=h, weight=0.0)
    yield "distances alone", DiverseScheduleProblem(np.ones((2, 5)), size=2, distances=1e3 * h)
    yield "ties", DiverseScheduleProblem(np.ones((2, 5)), size=2, distances=1.0 - np.eye(5), weight=0.1)
    yield (
        "nobody in some rounds",
        DiverseScheduleProblem([[0, 0, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 0, 0, 0]], size=2, distances=h, weight=0.1),
    )


def _balance() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(14)
    yield "random, unequal sizes", BalanceProblem(rng.integers(1, 9, (8, 4)), size=3)
    yield "random, equal sizes", BalanceProblem(rng.multinomial(10, [0.2, 0.3, 0.5], 8), size=3)
    yield "one of them", BalanceProblem(rng.integers(1, 9, (6, 3)), size=1)
    yield "all of them", BalanceProblem(rng.integers(1, 9, (5, 3)), size=5)
    yield "one client", BalanceProblem([[3, 1]], size=1)
    yield "one class", BalanceProblem([[3], [1], [2]], size=2)
    yield "all alike", BalanceProblem([[2, 1, 0]] * 6, size=3)
    yield "a class that nobody has", BalanceProblem([[2, 1, 0], [1, 1, 0], [0, 3, 0], [4, 0, 0]], size=2)
    yield "huge", BalanceProblem(10**6 * rng.integers(1, 9, (6, 3)), size=3)


CASES: dict[type[Problem], Callable[[], Iterator[tuple[str, Problem]]]] = {
    DispersionProblem: _dispersion,
    PointDispersionProblem: _points,
    KindDispersionProblem: _kinds,
    QuadraticProblem: _quadratic,
    ExclusionProblem: _exclusion,
    OptimizationErrorProblem: _optimisation_error,
    TotalErrorProblem: _total_error,
    CappingProblem: _capping,
    AllocationProblem: _allocation,
    CutoffProblem: _cutoff,
    DeadlineProblem: _deadline,
    CoverageProblem: _coverage,
    ScheduleProblem: _schedule,
    DiverseScheduleProblem: _diverse_schedule,
    BalanceProblem: _balance,
}

#: Small instances of the library, which keep a method busy.
LIBRARY = (
    "fedgs-synthetic-n30-m6-moredata-r20",
    "fedgs-digits-twolabel-n30-m5-lognormal-r10",
    "fedss-clustered-n24-m6-groups4-r12",
)


@cache
def cases(kind: type[Problem]) -> tuple[tuple[str, Problem], ...]:
    """Return the small problems of a type, with what is special about each."""
    library = ((name, instances.load(name)) for name in LIBRARY)
    return (*CASES[kind](), *((name, problem) for name, problem in library if type(problem) is kind))


SELECTIONS = (
    *(DispersionProblem, PointDispersionProblem, KindDispersionProblem, QuadraticProblem),
    *(CoverageProblem, BalanceProblem),
)

# -- decisions to hold an answer against --------------------------------------------------------------------------


def decisions(problem: Problem) -> Iterator[np.ndarray]:
    """All decisions of a problem that can be counted, else some hundred."""
    rng = np.random.default_rng(0)
    if isinstance(problem, SELECTIONS):
        for chosen in itertools.combinations(range(problem.n), problem.size):
            yield np.isin(np.arange(problem.n), chosen).astype(int)
    elif isinstance(problem, ExclusionProblem):
        yield from (np.array(kept) for kept in itertools.product((False, True), repeat=problem.n) if any(kept))
    elif isinstance(problem, ScheduleProblem | DiverseScheduleProblem):
        rounds = [
            [np.isin(np.arange(problem.n), chosen) for chosen in itertools.combinations(np.flatnonzero(there), size)]
            for there, size in zip(problem.available, problem.sizes, strict=True)
        ]
        yield from (np.array(rows) for rows in itertools.product(*rounds))
    elif isinstance(problem, DeadlineProblem):
        yield from (np.array(x) for x in itertools.product((0, 1), repeat=problem.n))
    elif isinstance(problem, AllocationProblem):
        ranges = (range(int(low), int(high) + 1) for low, high in zip(problem.first, problem.upper, strict=True))
        yield from (np.array(s) for s in itertools.product(*ranges) if sum(s) == problem.total)
    elif isinstance(problem, CutoffProblem):
        yield from (np.array(k) for k in range(1, problem.horizon + 1))
    elif isinstance(problem, CappingProblem):
        corners = []
        for _ in range(20):
            p, left = np.full(problem.n, problem.floor), problem.size - problem.n * problem.floor
            for i in rng.permutation(problem.n):
                p[i] += (step := min(max(left, 0.0), 1.0 - problem.floor))
                left -= step
            corners.append(p)
        yield np.full(problem.n, problem.size / problem.n)
        yield from corners
        yield from (rng.dirichlet(np.full(20, 0.2)) @ np.array(corners) for _ in range(100))
    else:
        assert isinstance(problem, OptimizationErrorProblem | TotalErrorProblem)
        yield np.full(problem.n, problem.total / problem.n)
        yield from (rng.dirichlet(np.ones(problem.n)) * problem.total for _ in range(200))


@cache
def ranked(problem: Problem) -> list[tuple[float, np.ndarray]]:
    """The feasible decisions with their objectives, best first."""
    values = [(problem.objective(x), x) for x in decisions(problem) if problem.violation(x) <= problem.tolerance]
    assert values
    return sorted(values, key=lambda pair: -pair[0] if problem.sense == "max" else pair[0])


SCHEDULES = (ScheduleProblem, DiverseScheduleProblem)
COUNTED = (*SELECTIONS, *SCHEDULES, ExclusionProblem, AllocationProblem, CutoffProblem, DeadlineProblem)


def rounding(problem: Problem, value: float) -> float:
    """Return how far a computed value may lie from an exact one."""
    return 1e-9 * min(max(1.0, abs(value)), problem.scale)


#: Exact methods whose backend works to a tolerance, by which they widen its bound: they may miss a proof by as much.
TOLERANT = {"milp", "gurobi", "scip", "cplex"}


def attempt(problem: Problem, entry: Method, **arguments: Any) -> Any:
    """The method's solution, or ``None`` where it says that this problem is not for it."""
    try:
        return solve(problem, entry.name, **arguments)
    except InvalidProblem:
        return None


@cache
def accepted(kind: type[Problem], entry: Method) -> Problem:
    """The first case, or the one with the most decisions of those that the method is for."""
    problems = [problem for _, problem in cases(kind)]
    if attempt(problems[0], entry) is not None:
        return problems[0]
    taken = [p for p in problems[1:] if attempt(p, entry) is not None]
    if not taken:
        raise InvalidProblem(f"method {entry.name!r} takes none of the cases of a {kind.__name__}")
    return max(taken, key=lambda p: len(ranked(p)))
