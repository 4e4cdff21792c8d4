"""What every registered method promises, whatever it does: a new method is tested by being registered.

Each problem type states small cases here (edge cases by name, and the smallest instances of the library) and knows
decisions to hold an answer against: all of them where they can be counted, a sample where they are real numbers.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, Method, Problem, instances, methods, solve
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.participation import CutoffProblem
from solvers.problem import FAMILIES
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.solution import proves
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

for family in FAMILIES:
    importlib.import_module(f"solvers.{family}")


# -- cases --------------------------------------------------------------------------------------------------------


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    return upper + upper.T


def dispersion() -> Iterator[tuple[str, Problem]]:
    costs = np.random.default_rng(1).random(7)
    far = np.ones((6, 6)) - np.eye(6)
    yield "random", DispersionProblem(symmetric(7), costs, size=3, weight=0.5)
    yield "one of them", DispersionProblem(symmetric(5), costs[:5], size=1)
    yield "all of them", DispersionProblem(symmetric(5), costs[:5], size=5)
    yield "one client", DispersionProblem(np.zeros((1, 1)), [2.0], size=1)
    yield "two clients", DispersionProblem(symmetric(2), [0.1, 0.2], size=1)
    yield "equal distances, tied costs", DispersionProblem(far, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], size=3)
    yield "no distances", DispersionProblem(np.zeros((6, 6)), costs[:6], size=2)
    yield "no weight", DispersionProblem(symmetric(6), costs[:6], size=2, weight=0.0)
    yield "no costs, tiny", DispersionProblem(1e-9 * symmetric(6), np.zeros(6), size=3)
    yield "negative costs, huge", DispersionProblem(1e9 * symmetric(6), -1e9 * costs[:6], size=4)


def points() -> Iterator[tuple[str, Problem]]:
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


def kinds() -> Iterator[tuple[str, Problem]]:
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


def exclusion() -> Iterator[tuple[str, Problem]]:
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


def optimisation_error() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(3)
    yield "random", OptimizationErrorProblem(rng.uniform(0.1, 1, 6), rng.uniform(0.5, 2, 6), 1.0, 1.0)
    yield "one client", OptimizationErrorProblem([0.5], [1.0], 1.0, 2.0)
    yield "two clients", OptimizationErrorProblem([0.5, 1.0], [1.0, 1.0], 0.1, 1.0)
    yield "all alike", OptimizationErrorProblem(np.full(4, 0.3), np.ones(4), 1.0, 1.0)
    yield "no offset", OptimizationErrorProblem(rng.uniform(0.1, 1, 5), np.ones(5), 0.0, 1.0)
    yield "large offset", OptimizationErrorProblem([0.01, 0.5, 1.0], [1.0, 2.0, 3.0], 1e3, 1.0)


def total_error() -> Iterator[tuple[str, Problem]]:
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


def capping() -> Iterator[tuple[str, Problem]]:
    yield "random", CappingProblem(weights=np.random.default_rng(5).lognormal(0, 2, 7), size=3, floor=0.1)
    yield "one of them", CappingProblem(weights=[3.0, 1.0, 1.0], size=1)
    yield "all of them", CappingProblem(weights=[3.0, 1.0, 1.0], size=3)
    yield "one client", CappingProblem(weights=[2.0], size=1)
    yield "equal weights", CappingProblem(weights=np.ones(5), size=2, floor=0.2)
    yield "tied at the ceiling", CappingProblem(weights=[2.0, 2.0, 1.0, 1.0], size=3)
    yield "nothing but the floor", CappingProblem(weights=[5.0, 1.0, 1.0, 1.0], size=2, floor=0.5)
    yield "weights far apart", CappingProblem(log_weights=[1e4, 0.0, -1e4, 5.0], size=2, floor=0.05)


def allocation() -> Iterator[tuple[str, Problem]]:
    yield "random", AllocationProblem([9, 5, 7, 4], [1.0, 3.0, 0.5, 2.0], 9)
    yield "one group", AllocationProblem([5], [1.0], 3)
    yield "one client of each", AllocationProblem([3, 4, 5], [1.0, 2.0, 3.0], 3)
    yield "all of them", AllocationProblem([3, 2, 4], [1.0, 2.0, 3.0], 9)
    yield "all alike", AllocationProblem([4, 4, 4], [1.0, 1.0, 1.0], 5)
    yield "no deviations", AllocationProblem([6, 3, 1], [0.0, 0.0, 0.0], 5)
    yield "one without deviation, one absent", AllocationProblem([6, 4, 5], [1.0, 0.0, 2.0], 6, upper=[5, 4, 0])
    yield "bounds that bind", AllocationProblem([9, 9, 9], [9.0, 1.0, 1.0], 9, lower=[1, 2, 2], upper=[4, 9, 9])


def cutoff() -> Iterator[tuple[str, Problem]]:
    yield "random", CutoffProblem(np.random.default_rng(6).uniform(0.05, 1, 5), 30)
    yield "one client", CutoffProblem([0.5], 10)
    yield "always there", CutoffProblem([1.0, 1.0], 12)
    yield "two rounds", CutoffProblem([0.3, 0.6], 2)


def deadline() -> Iterator[tuple[str, Problem]]:
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


def coverage() -> Iterator[tuple[str, Problem]]:
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


def schedule() -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(13)
    yield "random", ScheduleProblem(rng.random((5, 5)) < 0.6, size=2)
    yield "after other rounds", ScheduleProblem(rng.random((4, 5)) < 0.5, size=2, counts=[3, 0, 1, 0, 2])
    yield "always there", ScheduleProblem(np.ones((3, 4)), size=2)
    yield "nobody in some rounds", ScheduleProblem([[0, 0, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0]], size=1)
    yield "fewer than wanted", ScheduleProblem([[1, 0, 0], [1, 1, 0]], size=3)
    yield "one client", ScheduleProblem([[1], [0], [1]], size=1)
    yield "one round", ScheduleProblem([[1, 1, 0, 1]], size=2, counts=[5, 0, 0, 0])
    yield "a chain", ScheduleProblem([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]], size=1)


def diverse_schedule() -> Iterator[tuple[str, Problem]]:
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


def balance() -> Iterator[tuple[str, Problem]]:
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
    DispersionProblem: dispersion,
    PointDispersionProblem: points,
    KindDispersionProblem: kinds,
    ExclusionProblem: exclusion,
    OptimizationErrorProblem: optimisation_error,
    TotalErrorProblem: total_error,
    CappingProblem: capping,
    AllocationProblem: allocation,
    CutoffProblem: cutoff,
    DeadlineProblem: deadline,
    CoverageProblem: coverage,
    ScheduleProblem: schedule,
    DiverseScheduleProblem: diverse_schedule,
    BalanceProblem: balance,
}

#: The smallest instances of the library, and one of each type that is large enough to keep a method busy.
LIBRARY = (
    "fedgs-synthetic-n30-m6-moredata-r20",
    "fedgs-digits-twolabel-n30-m5-lognormal-r10",
    "fedss-clustered-n24-m6-groups4-r12",
)


@cache
def cases(kind: type[Problem]) -> tuple[tuple[str, Problem], ...]:
    library = ((name, instances.load(name)) for name in LIBRARY)
    return (*CASES[kind](), *((name, problem) for name, problem in library if type(problem) is kind))


SELECTIONS = (DispersionProblem, PointDispersionProblem, KindDispersionProblem, CoverageProblem, BalanceProblem)

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
    """The decisions with their objectives, best first."""
    values = [(problem.objective(x), x) for x in decisions(problem) if problem.violation(x) <= problem.tolerance]
    assert values
    return sorted(values, key=lambda pair: -pair[0] if problem.sense == "max" else pair[0])


SCHEDULES = (ScheduleProblem, DiverseScheduleProblem)
COUNTED = (*SELECTIONS, *SCHEDULES, ExclusionProblem, AllocationProblem, CutoffProblem, DeadlineProblem)


def rounding(problem: Problem, value: float) -> float:
    return 1e-9 * min(max(1.0, abs(value)), problem.scale)


#: Exact methods whose backend works to a tolerance, by which they widen its bound: they may miss a proof by as much.
TOLERANT = {"milp", "gurobi", "scip", "cplex"}

# -- the promises -------------------------------------------------------------------------------------------------

EVERY = [
    pytest.param(
        kind, entry, id=f"{kind.__name__}-{entry.name}",
        marks=pytest.mark.skipif(bool(entry.missing), reason=f"needs {', '.join(entry.missing)}"),
    )
    for kind in CASES for entry in methods(kind)
]  # fmt: skip

every_method = pytest.mark.parametrize(("kind", "entry"), EVERY)


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
    return max((p for p in problems[1:] if attempt(p, entry) is not None), key=lambda p: len(ranked(p)))


def test_every_problem_type_states_its_cases():
    kinds = {kind for kind in Problem.types() if kind.__module__.startswith("solvers.") and methods(kind)}
    assert {kind.__name__ for kind in kinds} == {kind.__name__ for kind in CASES}


@every_method
def test_decision_bound_and_status(kind, entry):
    answered = 0
    for name, problem in cases(kind):
        solution = attempt(problem, entry)
        if solution is None:
            continue
        best, worst = ranked(problem)[0][0], ranked(problem)[-1][0]
        sign = 1.0 if problem.sense == "max" else -1.0
        if solution.bound is not None:
            assert sign * (solution.bound - best) >= -rounding(problem, best), name
        if solution.x is None:
            assert solution.stopped == "error", name
            assert solution.message, name
            continue
        answered += 1
        assert problem.violation(solution.x) <= problem.tolerance, name
        assert solution.objective == problem.objective(solution.x), name
        real = isinstance(problem, AllocationProblem) and solution.x.dtype.kind == "f"
        if isinstance(problem, COUNTED) and not real:
            assert sign * (best - solution.objective) >= -rounding(problem, best), name
            assert sign * (solution.objective - worst) >= -rounding(problem, worst), name
        if solution.status == "optimal" and not real:
            assert sign * (best - solution.objective) <= 2e-6 * min(max(1.0, abs(best)), problem.scale), name
        if entry.kind == "exact" and entry.name in TOLERANT:
            assert abs(solution.objective - best) <= rounding(problem, best), name
            assert abs(solution.bound - best) <= 1e-4 * problem.scale, name
        elif entry.kind == "exact":
            assert solution.status == "optimal", name
            assert solution.stopped == "proved", name
            assert proves(problem, solution.objective, solution.bound), name
    assert answered, "it answers none of the cases"


@every_method
def test_the_seed_decides(kind, entry):
    problem = accepted(kind, entry)
    first, second = (solve(problem, entry.name, seed=5) for _ in range(2))
    assert (first.objective, first.bound, first.status) == (second.objective, second.bound, second.status)
    assert np.array_equal(first.x, second.x) or (first.x is None and second.x is None)
    assert first.seed == 5


@every_method
def test_start_and_watch(kind, entry):
    """The answer is never worse than the start, and what is watched is the trace."""
    problem = accepted(kind, entry)
    sign = 1.0 if problem.sense == "max" else -1.0
    for value, start in (ranked(problem)[0], ranked(problem)[-1]):
        seen: list[Any] = []
        solution = solve(problem, entry.name, start=start, watch=seen.append)
        assert sign * (solution.objective - value) >= 0
        assert tuple(seen) == solution.trace
        assert seen[0].objective == value


@every_method
def test_options_are_checked(kind, entry):
    problem = accepted(kind, entry)
    with pytest.raises(InvalidOption, match="no option 'colour'"):
        solve(problem, entry.name, colour="red")
    for option in entry.options:
        with pytest.raises(InvalidOption, match=option):
            solve(problem, entry.name, **{option: object()})


def many_points() -> Problem:
    return PointDispersionProblem(np.random.default_rng(9).random((3000, 5)), None, size=300)


def many_kinds() -> Problem:
    where = np.random.default_rng(9).random((60, 5))
    between = np.linalg.norm(where[:, None] - where, axis=2)
    return KindDispersionProblem(
        between, np.arange(3000) % 60, np.random.default_rng(9).random(3000), size=300, weight=1e-3
    )


def line_of_points(n: int = 3000) -> PointDispersionProblem:
    places, costs = (np.random.default_rng(seed).random(n) for seed in (9, 10))
    return PointDispersionProblem(places[:, None], costs, size=n // 10)


def enumerable() -> Problem:
    h = np.triu(np.random.default_rng(9).random((30, 30)), 1)
    return DispersionProblem(h + h.T, None, size=8)


def equally_important() -> Problem:
    rng = np.random.default_rng(9)
    n = 3000
    return ExclusionProblem(np.full(n, 1 / n), rng.exponential(size=n), 1.0, rng.random(n) * 0.8 + 0.2, np.zeros(n))


def squared_bias() -> Problem:
    rng = np.random.default_rng(9)
    pi, variances, alpha = rng.uniform(0.1, 1, 300), rng.uniform(0.5, 2, 300), rng.dirichlet(np.ones(300))
    return TotalErrorProblem(pi, variances, 1.0, 1.0, importance=alpha, bias="chi2")


def valued_uploads(n: int = 2000) -> Problem:
    rng = np.random.default_rng(9)
    ready, upload = rng.lognormal(3, 1, n), rng.lognormal(0, 1, n)
    return DeadlineProblem(ready, upload, 1000.0, upload + 0.1)


def many_uploads() -> Problem:
    rng = np.random.default_rng(9)
    return DeadlineProblem(rng.lognormal(3, 1, 20_000), rng.lognormal(0, 1, 20_000), 1000.0)


def far_apart(n: int = 400) -> Problem:
    where = np.random.default_rng(9).random((n, 6))
    return CoverageProblem(2.0 - np.linalg.norm(where[:, None] - where, axis=2), size=40)


def diverse_rounds() -> Problem:
    rng = np.random.default_rng(9)
    upper = np.triu(rng.random((60, 60)), 1)
    return DiverseScheduleProblem(rng.random((200, 60)) < 0.8, size=8, distances=upper + upper.T, weight=0.02)


def shares_of_labels(n: int = 300) -> Problem:
    rng = np.random.default_rng(9)
    return BalanceProblem([rng.multinomial(100, rng.dirichlet(np.full(10, 0.3))) for _ in range(n)], size=10)


#: A library instance of each type, or a large one, on which a slow method is still at work when the time is over.
BUSY: dict[type[Problem], str | Callable[[], Problem]] = {
    PointDispersionProblem: many_points,
    KindDispersionProblem: many_kinds,
    DispersionProblem: "fedgs-digits-dirichlet-n100-m10-ideal-r5",
    ExclusionProblem: "cafed-clustered-n24-r50",
    OptimizationErrorProblem: "theorem2-opt-clustered-n24-r30",
    TotalErrorProblem: "theorem2-tv-clustered-n24-r30",
    CappingProblem: "e3cs-digits-n30-m5-quota0-r100",
    AllocationProblem: "fedss-digits-dirichlet-n300-m60-groups20-r30",
    CutoffProblem: "fedau-cutoff-digits-n30-t200-r0",
    DeadlineProblem: valued_uploads,
    CoverageProblem: far_apart,
    BalanceProblem: shares_of_labels,
    ScheduleProblem: lambda: ScheduleProblem(np.random.default_rng(9).random((60, 3000)) < 0.2, size=90),
    DiverseScheduleProblem: diverse_rounds,
}


#: The same for methods that are for some problems only.
BUSY_SPECIAL: dict[tuple[type[Problem], str], Callable[[], Problem]] = {
    (DispersionProblem, "brute-force"): enumerable,
    (AllocationProblem, "brute-force"): lambda: AllocationProblem(np.full(7, 11), np.arange(7.0), 40),
    (PointDispersionProblem, "brute-force"): lambda: PointDispersionProblem(np.eye(24), size=12),
    (KindDispersionProblem, "brute-force"): lambda: KindDispersionProblem(1 - np.eye(24), kinds=range(24), size=12),
    (PointDispersionProblem, "line"): line_of_points,
    (DispersionProblem, "line"): lambda: line_of_points(900).expanded(),
    (DeadlineProblem, "moore-hodgson"): many_uploads,
    (DeadlineProblem, "brute-force"): lambda: DeadlineProblem(np.zeros(20), np.ones(20), 20.0),
    (DeadlineProblem, "dynamic-programme"): lambda: DeadlineProblem(np.zeros(500), np.arange(500), 50_000.0),
    (CoverageProblem, "brute-force"): lambda: CoverageProblem(np.eye(24), size=8),
    (CoverageProblem, "milp"): lambda: far_apart(120),
    (CoverageProblem, "cp-sat"): lambda: far_apart(120),
    (ScheduleProblem, "brute-force"): lambda: ScheduleProblem(np.ones((5, 8)), size=3),
    (DiverseScheduleProblem, "brute-force"): lambda: DiverseScheduleProblem(
        np.ones((5, 8)), size=3, distances=1.0 - np.eye(8)
    ),
    (BalanceProblem, "brute-force"): lambda: shares_of_labels(22),
    (ExclusionProblem, "sorting"): equally_important,
    (TotalErrorProblem, "newton"): squared_bias,
}


def busy(kind: type[Problem], entry: Method) -> Problem:
    source = BUSY_SPECIAL.get((kind, entry.name), BUSY[kind])
    return instances.load(source) if isinstance(source, str) else source()


@every_method
def test_time_limit(kind, entry, watchdog):
    """The method ends, and says what kept it from more. By how much it is late is measured by a benchmark."""
    solve(accepted(kind, entry), entry.name)  # loads and compiles
    problem = busy(kind, entry)
    solution = solve(problem, entry.name, time_limit=0.2)
    if solution.x is not None:
        assert problem.violation(solution.x) <= problem.tolerance
    if solution.status != "optimal":
        assert solution.stopped in ("time-limit", "iterations", "error")
