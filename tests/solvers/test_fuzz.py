"""Every method of every family that selects, under side constraints, against enumeration of the very statement.

Data are small whole numbers, so that objectives are exact in floating point and a bound that is wrong by the last bit
is wrong. Each solve is plain, from a start, to a gap, or with the bound of a second method.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import Problem, Solution, methods, solve
from solvers.balance import BalanceProblem
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.errors import InvalidProblem, NoSelection
from solvers.registry import Method
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from tests.solvers.dispersion.constrained.cases import degenerate_constraints, draw_constraints, keeps
from tests.thoroughly import few_of

#: Methods that may leave a gap: of a stated tolerance of 4e-6 of the scale, and of times that are rounded to 40 bits.
TOLERANT = {
    ("milp", CoverageProblem),
    ("milp", DispersionProblem),
    ("milp", DeadlineProblem),
    ("cp-sat", DeadlineProblem),
    ("cp-sat", CoverageProblem),  # budgets whose uses span many decades are looser in its integers
}

#: Seconds in which each solve of so few clients ends by itself.
LIMIT = 30.0


def distances(rng: np.random.Generator, n: int, largest: int = 9) -> NDArray[np.float64]:
    """A symmetric matrix of whole numbers."""
    upper = np.triu(rng.integers(0, largest, (n, n)).astype(float), 1)
    return upper + upper.T


def selection(rng: np.random.Generator, family: str) -> tuple[Problem | None, list[NDArray[Any]]]:
    """A problem that selects m of n, or None where it is refused, and all decisions that keep its statement."""
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, n + 1))
    draw = rng.random()
    stated: dict[str, Any] = {}
    if draw < 0.45:
        stated = draw_constraints(rng, n, m)
    elif draw < 0.9:
        stated = degenerate_constraints(rng, np.arange(n), m)
    costs = rng.integers(-5, 6, n).astype(float)
    weight = float(rng.choice([0.0, 0.5, 1.0, 2.0]))
    kinds = np.unique(rng.integers(0, 3, n), return_inverse=True)[1]
    makers: dict[str, Any] = {
        "matrix": lambda: DispersionProblem(distances(rng, n), costs, size=m, weight=weight, **stated),
        "points": lambda: PointDispersionProblem(
            rng.integers(0, 3, (n, 1)).astype(float), costs, size=m, weight=weight, **stated
        ),
        "kinds": lambda: KindDispersionProblem(
            distances(rng, kinds.max() + 1), kinds, costs, size=m, weight=weight, **stated
        ),
        "coverage": lambda: CoverageProblem(
            rng.integers(-3, 6, (int(rng.integers(1, 9)), n)).astype(float), m, weight * costs, **stated
        ),
        "balance": lambda: BalanceProblem(1 + rng.integers(0, 5, (n, int(rng.integers(1, 4)))), m, **stated),
    }
    kept = [each for each in itertools.combinations(range(n), m) if keeps(stated, each)]
    try:
        problem = makers[family]()
    except InvalidProblem:
        return None, kept
    return problem, [np.isin(np.arange(n), each).astype(np.int64) for each in kept]


def other(rng: np.random.Generator, family: str) -> tuple[Problem, list[NDArray[Any]]]:
    """A problem of deadlines or of rounds, and all its decisions."""
    n = int(rng.integers(1, 8 if family == "deadline" else 5))
    if family == "deadline":
        ready, upload = rng.integers(0, 9, n).astype(float), rng.integers(0, 6, n).astype(float)
        values = None if rng.random() < 0.3 else rng.integers(0, 9, n).astype(float)
        scale = float(rng.choice([1.0, 2.0**-70]))  # times of many bits, where one is added
        problem: Problem = DeadlineProblem(ready + scale * (scale < 1), upload, float(rng.integers(0, 25)), values)
        every: Any = itertools.product((0, 1), repeat=n)
        return problem, [x for x in map(np.array, every) if problem.violation(x) == 0]
    available = rng.random((int(rng.integers(1, 4)), n)) < 0.8
    size, counts = int(rng.integers(1, n + 1)), rng.integers(0, 4, n)
    if rng.random() < 0.2:
        counts[0] += 10**9
    if family == "schedule":
        problem = ScheduleProblem(available, size, counts)
    else:
        problem = DiverseScheduleProblem(available, size, counts % 10**9, distances=distances(rng, n), weight=0.5)
    rounds = [
        [np.isin(np.arange(n), ids) for ids in itertools.combinations(np.flatnonzero(row).tolist(), int(m))]
        for row, m in zip(available, problem.sizes, strict=True)
    ]
    return problem, [np.array(rows) for rows in itertools.product(*rounds)]


SELECTIONS = ("matrix", "points", "kinds", "coverage", "balance")
FAMILIES = (*SELECTIONS, "deadline", "schedule", "diverse")


def arguments(rng: np.random.Generator, entry: Method, every: list[Method], decisions: list[Any]) -> dict[str, Any]:
    """What a solve is asked for beside the problem: nothing in most cases."""
    mode = rng.random()
    if mode < 0.2 and decisions:
        return {"start": decisions[rng.integers(len(decisions))]}
    if mode < 0.3 and entry.kind != "heuristic":
        return {"gap": float(rng.choice([0.0, 0.01, 0.5]))}
    if mode < 0.5:
        bounding = [other.name for other in every if other.kind != "heuristic" and other.name != entry.name]
        return {"bound_by": bounding[rng.integers(len(bounding))]} if bounding else {}
    return {}


def check(problem: Problem, values: dict[bytes, float], found: Solution, entry: Method, given: dict[str, Any]) -> None:
    """A decision is one of those enumerated, a bound holds, and what is called optimal is."""
    sign = 1.0 if problem.sense == "max" else -1.0
    best = max((sign * value for value in values.values()), default=None)
    assert found.seconds < LIMIT
    if best is None:
        assert found.x is None
        assert found.status == ("infeasible" if entry.kind == "exact" else found.status) != "optimal"
        return
    assert found.status != "infeasible"
    # Sums of square roots and quotients are no whole numbers; all others are exact.
    error = 1e-12 * problem.scale if isinstance(problem, BalanceProblem | ScheduleProblem) else 0.0
    if found.bound is not None:
        assert sign * found.bound >= best - error
    if found.x is not None:
        assert values[np.asarray(problem.decision(found.x)).tobytes()] == found.objective
        if found.status == "optimal":
            assert sign * found.objective >= best - 1.01 * problem.tolerance_at(found.objective)
    if entry.kind == "exact" and "gap" not in given and (entry.name, type(problem)) not in TOLERANT:
        assert found.status == "optimal"
    if "start" in given:
        assert sign * found.objective >= sign * problem.objective(given["start"])
    if given.get("gap") and entry.kind == "exact" and (entry.name, type(problem)) not in TOLERANT:
        assert found.gap <= given["gap"] or found.status == "optimal"


def fuzz(family: str, seeds: range) -> Counter[str]:
    """Solve the problems of these seeds by every method; return what was counted."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        rng = np.random.default_rng([seed, FAMILIES.index(family)])
        problem, decisions = (selection if family in SELECTIONS else other)(rng, family)
        counts["problems"] += 1
        if problem is None:
            assert not decisions, (family, seed, "refused, and there is a selection")
            counts["refused"] += 1
            continue
        values = {np.asarray(problem.decision(x)).tobytes(): problem.objective(x) for x in decisions}
        every = [each for each in methods(problem) if not each.requires and each.refusal(problem) is None]
        for entry in every:
            given = arguments(rng, entry, every, decisions)
            try:
                found = solve(problem, entry.name, time_limit=LIMIT, **given)
            except NoSelection:
                assert not decisions, (family, seed, entry.name, given)
                assert entry.kind == "heuristic", (family, seed, entry.name, given)
                counts["no selection"] += 1
                continue
            try:
                check(problem, values, found, entry, given)
            except AssertionError as error:
                raise AssertionError(f"{family}, seed {seed}, {entry.name}, {sorted(given)}: {found!r}") from error
            counts["solves"] += 1
            counts[next(iter(given), "plain")] += 1
    return counts


@pytest.mark.parametrize("seeds", few_of([range(2), range(2, 6), *(range(k, k + 6) for k in range(6, 360, 6))], 1))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_method_against_enumeration(family, seeds):
    counts = fuzz(family, seeds)
    assert counts["solves"] + counts["no selection"] > 0 or counts["refused"] == len(seeds)


def test_a_bound_that_contradicts_its_own_solver_s_decision_proves_nothing():
    counts = fuzz("matrix", range(100503, 100504))  # of HiGHS, on a budget with uses from 1e-80 to 1e-64
    assert counts["solves"] >= 10
    problem, _ = selection(np.random.default_rng([100503, FAMILIES.index("matrix")]), "matrix")
    assert problem is not None
    found = solve(problem, "milp")
    assert found.objective == solve(problem, "brute-force").objective
    assert any("contradicts" in note for note in found.details["notes"])
