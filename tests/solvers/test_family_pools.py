"""Pools of coverage, balance, deadline and exclusion problems beside the enumeration of all decisions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, methods, solve
from solvers.balance import BalanceProblem
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.schedule import ScheduleProblem
from solvers.weighting import ExclusionProblem
from tests.thoroughly import few_of

Ranked = list[tuple[float, tuple[int, ...]]]


def every_decision(problem: Any, veto: Callable[[Any], bool] | None) -> Ranked:
    """Objective and ids of all feasible decisions, best first, ties (to eleven digits) by ids."""
    found = []
    for x in map(np.array, itertools.product((0, 1), repeat=problem.n)):
        if isinstance(problem, ExclusionProblem) and not x.any():
            continue
        if problem.violation(x) > problem.tolerance or (veto is not None and veto(np.flatnonzero(x))):
            continue
        found.append((problem.objective(x), tuple(np.flatnonzero(x).tolist())))
    sign = 1 if problem.sense == "max" else -1
    return sorted(found, key=lambda each: (-sign * round(each[0], 11), each[1]))


def pool_of(problem: Any, every: Ranked, most: int, within: float | None, diverse: int) -> Ranked:
    """The members by their definition."""
    sign = 1 if problem.sense == "max" else -1
    if within is not None and every:
        worst = sign * every[0][0] - within * abs(every[0][0]) - 1e-11
        every = [each for each in every if sign * each[0] >= worst]
    kept: Ranked = []
    for value, ids in every:
        if len(kept) < most and all(len(set(ids) - set(other)) >= diverse for _, other in kept):
            kept.append((value, ids))
    return kept


def drawn(rng: np.random.Generator, family: str) -> Any:
    """A small problem, with ties and without, in some cases under side constraints."""
    n = int(rng.integers(2, 10))
    m = int(rng.integers(1, n + 1))
    whole = rng.random() < 0.5
    stated: dict[str, Any] = {}
    if n > 4 and rng.random() < 0.4:
        stated = {"quotas": [Quota(range(n // 2), at_most=2)], "budgets": [Budget(rng.integers(0, 4, n), 2.0 * m)]}
    try:
        if family == "coverage":
            shape = (int(rng.integers(1, 9)), n)
            similarity = rng.integers(0, 4, shape).astype(float) if whole else rng.normal(size=shape)
            costs = rng.integers(-2, 3, n).astype(float) if rng.random() < 0.4 else None
            return CoverageProblem(similarity, m, costs, **stated)
        if family == "balance":
            counts = rng.integers(0, 5, (n, 3))
            counts[:, 2] = 10 - counts[:, :2].sum(axis=1)
            return BalanceProblem(counts, m, **stated)
    except InvalidProblem:
        return None
    if family == "deadline":
        times = rng.integers(0, 9, (2, n)).astype(float) if whole else 9 * rng.random((2, n))
        values = rng.integers(0, 4, n).astype(float) if whole else rng.random(n)
        return DeadlineProblem(*times, float(rng.integers(1, 25)), None if rng.random() < 0.3 else values)
    importance = rng.integers(1, 4, n).astype(float) if whole else 0.1 + rng.random(n)
    gaps = rng.integers(0, 4, n) / 8 if whole else rng.random(n)
    return ExclusionProblem(importance / importance.sum(), gaps, 0.5, *rng.random((2, n)))


@pytest.mark.parametrize("family", ["coverage", "balance", "deadline", "exclusion"])
@pytest.mark.parametrize("seeds", few_of([range(10), range(10, 700)], 1))
def test_pools_are_those_of_enumeration(family, seeds, asserted):
    cases = asserted(len(seeds))
    for seed in seeds:
        rng = np.random.default_rng([seed, len(family)])
        problem = drawn(rng, family)
        if problem is None:
            continue
        most = int(rng.integers(1, 15))
        within = float(rng.choice([0.0, 0.05, 0.3])) if rng.random() < 0.3 else None
        diverse = int(rng.integers(1, 3)) if family in ("coverage", "balance") and rng.random() < 0.2 else 0
        divisor = int(rng.integers(1, 5))
        veto = (lambda ids, by=divisor: int(ids.sum()) % by == 0) if rng.random() < 0.25 else None
        every = every_decision(problem, veto)
        wanted = pool_of(problem, every, most, within, diverse)
        asked = {"pool": most, "within": within, "diverse": diverse or None, "veto": veto}
        able = [each.name for each in methods(problem) if each.pool]
        assert able
        for method in able:
            found = solve(problem, method, **asked)
            members = [(round(each.objective, 11), tuple(each.selected.tolist())) for each in found.pool]
            assert members == [(round(value, 11), ids) for value, ids in wanted], (seed, method, asked)
            assert found.pool_complete, (seed, method, asked)
            cases()
            if not wanted:
                assert found.status == "infeasible"
                continue
            assert found.status == "optimal", (seed, method)
            others = [value for value, ids in every if (value, ids) not in wanted]
            if others and not diverse:
                sign = 1 if problem.sense == "max" else -1
                rounding = getattr(problem, "rounding", 1e-15)
                assert sign * others[0] <= sign * found.pool_bound + rounding, (seed, method)


def test_pools_of_larger_problems_begin_with_the_optimum():
    rng = np.random.default_rng(0)
    points = rng.random((60, 2))
    coverage = CoverageProblem(-np.linalg.norm(points[:, None] - points, axis=2), 6)
    counts = rng.multinomial(100, np.ones(4) / 4, size=30)
    deadline = DeadlineProblem(rng.random(60), rng.random(60), 5.0, rng.random(60))
    for problem in (coverage, BalanceProblem(counts, 6), deadline):
        best, found = solve(problem), solve(problem, pool=10)
        assert found.pool_complete
        assert len(found.pool) == 10
        assert found.objective == found.pool[0].objective
        tolerance = problem.tolerance_at(best.objective)
        assert abs(found.objective - best.objective) <= tolerance
        values = np.array([each.objective for each in found.pool])
        assert (np.diff(values) <= 0).all() if problem.sense == "max" else (np.diff(values) >= 0).all()
        for member in found.pool:
            assert problem.objective(np.isin(np.arange(problem.n), member.selected).astype(int)) == member.objective


def test_what_keeps_no_pool_says_so():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidOption, match="equally many samples"):
        solve(BalanceProblem(rng.integers(1, 9, (8, 3)), 3), pool=3)
    for method in ("auto", "brute-force"):
        with pytest.raises(InvalidOption, match="diverse is for problems"):
            solve(DeadlineProblem(rng.random(5), rng.random(5), 2.0), method, pool=3, diverse=1)
    with pytest.raises(InvalidOption, match="an exclusion problem does not"):
        solve(ExclusionProblem(np.full(4, 0.25), rng.random(4)), "brute-force", pool=3, diverse=1)
    with pytest.raises(InvalidOption, match="do: 'brute-force'"):
        solve(ExclusionProblem(np.full(4, 0.25), rng.random(4), 0.5, *rng.random((2, 4))), pool=3)
    with pytest.raises(InvalidOption, match="that do: none"):
        solve(ScheduleProblem(np.ones((2, 3), dtype=bool), 1), pool=3)
    with pytest.raises(InvalidOption, match="62 bits"):
        solve(DeadlineProblem(rng.random(5) + 2.0**-70, 1e-20 * rng.random(5), 2.0, rng.random(5)), pool=3)
