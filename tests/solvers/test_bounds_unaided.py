"""Bounds of every family's trees and relaxations, from a poor decision and without a search for better ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import solve
from solvers.balance import BalanceProblem
from solvers.constraints import Budget
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem
from solvers.errors import InvalidProblem, NoSelection
from solvers.problem import Problem
from solvers.schedule import DiverseScheduleProblem
from tests.solvers.dispersion.constrained.cases import draw_constraints, keeps
from tests.solvers.unaided import check_unaided
from tests.thoroughly import few_of

Case = tuple[Problem, list[NDArray[Any]]]


def _selections(n: int, m: int, stated: dict[str, Any]) -> list[NDArray[Any]]:
    return [
        np.isin(np.arange(n), each).astype(np.int64)
        for each in itertools.combinations(range(n), m)
        if keeps(stated, each)
    ]


def coverage(rng: np.random.Generator) -> Case | None:
    """Small whole similarities, so that sums are exact; every second one with side constraints, often ``include``."""
    n, rows = int(rng.integers(6, 13)), int(rng.integers(6, 20))
    m = int(rng.integers(2, min(n, 6)))
    stated = draw_constraints(rng, n, m) if rng.random() < 0.7 else {}
    similarity = rng.integers(0, 9, (rows, n)).astype(float)
    if rng.random() < 0.3:  # columns that are alike
        similarity = similarity[:, rng.integers(0, max(2, n // 2), n)]
    return _made(CoverageProblem, similarity, m, stated, _selections(n, m, stated))


def balance(rng: np.random.Generator) -> Case | None:
    """Label counts, equal or different in their sum."""
    n = int(rng.integers(5, 11))
    m = int(rng.integers(2, n))
    stated = draw_constraints(rng, n, m) if rng.random() < 0.6 else {}
    counts = 1 + rng.integers(0, 9, (n, 3))
    if rng.random() < 0.4:
        counts[:, 2] = 30 - counts[:, :2].sum(axis=1)
    return _made(BalanceProblem, counts, m, stated, _selections(n, m, stated))


def _made(kind: Any, data: Any, m: int, stated: dict[str, Any], decisions: list[NDArray[Any]]) -> Case | None:
    if not decisions:
        return None
    return kind(data, size=m, **stated), decisions


def deadline(rng: np.random.Generator) -> Case | None:
    """Whole times; values that are whole, random, or follow the times."""
    n = int(rng.integers(4, 11))
    ready, upload = rng.integers(0, 20, n).astype(float), rng.integers(1, 12, n).astype(float)
    values = [rng.integers(1, 20, n).astype(float), rng.random(n), upload + 3.0][rng.integers(3)]
    problem = DeadlineProblem(ready, upload, 30.0, values)
    every = (np.array(each) for each in itertools.product((0, 1), repeat=n))
    return problem, [x for x in every if problem.violation(x) == 0]


def dispersion(rng: np.random.Generator) -> Case | None:
    """Random distances and costs; every second one with side constraints."""
    n = int(rng.integers(5, 11))
    m = int(rng.integers(2, n))
    stated = draw_constraints(rng, n, m) if rng.random() < 0.5 else {}
    distances = np.triu(rng.random((n, n)), 1)
    decisions = _selections(n, m, stated)
    costs = rng.normal(size=n)
    return (DispersionProblem(distances + distances.T, costs, size=m, **stated), decisions) if decisions else None


def schedule(rng: np.random.Generator) -> Case | None:
    """Few rounds of few clients, of which some are far apart."""
    n, rounds = 4, 3
    available = rng.random((rounds, n)) < 0.8
    if not available.any(axis=1).all():
        return None
    distances = np.triu(rng.random((n, n)), 1)
    problem = DiverseScheduleProblem(available, 2, rng.integers(0, 3, n), distances=distances + distances.T)
    each = [
        [np.isin(np.arange(n), ids) for ids in itertools.combinations(np.flatnonzero(row).tolist(), int(size))]
        for row, size in zip(available, problem.sizes, strict=True)
    ]
    return problem, [np.array(rows) for rows in itertools.product(*each)]


FAMILIES: dict[str, tuple[Callable[[np.random.Generator], Case | None], tuple[str, ...]]] = {
    "coverage": (coverage, ("branch-and-bound", "lagrangian")),
    "balance": (balance, ("branch-and-bound", "cp-sat")),
    "deadline": (deadline, ("branch-and-bound", "dynamic-programme")),
    "dispersion": (dispersion, ("auto", "branch-and-bound", "dnn", "sdp")),
    "schedule": (schedule, ("auto",)),
}


@pytest.mark.parametrize("seed", few_of(range(200), 4))
@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_hold_without_incumbent_search(family, seed):
    draw, methods = FAMILIES[family]
    rng, case = np.random.default_rng([seed, len(family)]), None
    while case is None:
        try:
            case = draw(rng)
        except InvalidProblem:
            continue
    for method in methods:
        check_unaided(case[0], method, case[1])


@pytest.mark.parametrize("seed", few_of(range(8), 3))
def test_worth_of_included_candidates_counts_in_the_bound(seed):
    """Once it was left out, and what nothing beats was called optimal: 313, where 314 can be had."""
    rng = np.random.default_rng(seed)
    similarity, included = rng.integers(0, 9, (16, 12)).astype(float), rng.choice(12, 2, replace=False)
    decisions = _selections(12, 5, {"include": included})
    for method in ("branch-and-bound", "lagrangian"):
        run = check_unaided(CoverageProblem(similarity, 5, include=included), method, decisions)
        assert run.forgotten


def test_an_included_candidate_is_no_reason_to_miss_the_optimum():
    rng = np.random.default_rng(31)
    similarity = rng.integers(0, 9, (40, 30)).astype(float)
    found = solve(CoverageProblem(similarity, 8, include=rng.choice(30, 2, replace=False).tolist()))
    assert (found.status, found.objective) == ("optimal", 314.0)


@pytest.mark.parametrize("constraint", ["exclude", "budgets", "conflicts"])
def test_equal_candidates_differ_where_constraints_tell_them_apart(constraint):
    """Of two equal columns the first may not be taken: the second still may."""
    compared = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        similarity = rng.integers(0, 9, (15, 8)).astype(float)
        similarity = np.hstack([similarity, similarity[:, :4]])  # 8 to 11 are 0 to 3 again
        use = np.ones(12)
        use[:4] = 5.0
        stated: dict[str, Any] = {
            "exclude": {"exclude": [0, 1, 2, 3]},
            "budgets": {"budgets": [Budget(use, 5.0)]},
            "conflicts": {"conflicts": [(k, j) for k in range(4) for j in range(4, 8)]},
        }[constraint]
        decisions = _selections(12, 4, stated)
        problem = CoverageProblem(similarity, 4, **stated)
        best = max(problem.objective(x) for x in decisions)
        try:
            run = check_unaided(problem, "branch-and-bound", decisions)
        except NoSelection:
            pytest.fail("there is a selection")
        assert run.objective == best
        compared += 1
    assert compared == 2
