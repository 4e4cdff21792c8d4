"""Side constraints of coverage and balance problems: every method against the statement, enumerated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from solvers import solve
from solvers.balance import BalanceProblem
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.errors import InvalidProblem, NoSelection
from solvers.registry import methods
from solvers.subsets import ConstrainedProblem
from tests.solvers.dispersion.constrained.cases import draw_constraints, keeps
from tests.thoroughly import few_of

KINDS: dict[str, type[ConstrainedProblem]] = {"coverage": CoverageProblem, "balance": BalanceProblem}


def draw(family: str, seed: int) -> tuple[ConstrainedProblem | None, list[tuple[int, ...]]]:
    """A problem, or None where its construction is refused, and the selections that keep its constraints."""
    rng = np.random.default_rng([seed, len(family)])
    n = int(rng.integers(3, 9))
    m = int(rng.integers(1, n + 1))
    stated = draw_constraints(rng, n, m)
    data: Any = rng.random((n + 2, n)) if family == "coverage" else 1 + rng.integers(0, 9, (n, 3))
    kept = [each for each in itertools.combinations(range(n), m) if keeps(stated, each)]
    try:
        return KINDS[family](data, size=m, **stated), kept  # type: ignore[call-arg]
    except InvalidProblem:
        return None, kept


def check_methods(problem: ConstrainedProblem, kept: list[tuple[int, ...]]) -> None:
    """Decisions keep the constraints; exact methods find the best one or that there is none; bounds hold."""
    sign = 1.0 if problem.sense == "max" else -1.0
    values = {}
    for each in kept:
        x = np.zeros(problem.n, dtype=int)
        x[list(each)] = 1
        assert problem.violation(x) == 0
        values[each] = problem.objective(x)
    best = max((sign * value for value in values.values()), default=None)
    every = methods(problem)
    assert {"auto", "branch-and-bound", "brute-force", "cp-sat", "greedy", "local-search"} <= {m.name for m in every}
    for method in every:
        try:
            found = solve(problem, method.name, time_limit=20.0)
        except NoSelection:
            assert best is None
            assert method.kind == "heuristic"
            continue
        if best is None:
            assert found.x is None
            assert found.status == ("unknown" if method.kind == "relaxation" else "infeasible")
            continue
        assert tuple(found.selected.tolist()) in values
        if found.bound is not None:
            assert sign * found.bound >= best
        if method.kind == "exact":
            assert found.status == "optimal" or method.name == "milp"  # whose bound is widened by more than that
            assert sign * found.objective == pytest.approx(best, abs=1e-6 * problem.scale)


@pytest.mark.parametrize("seed", few_of(range(400), 2))
@pytest.mark.parametrize("family", KINDS)
def test_every_method_against_the_statement(family, seed):
    """What is refused at construction has no selection; of all else every method is checked."""
    problem, kept = draw(family, seed)
    if problem is None:
        assert kept == []
    else:
        check_methods(problem, kept)


def test_methods_that_cannot_keep_constraints_say_so():
    problem = BalanceProblem([[1, 2], [2, 1], [3, 3]], size=2, include=[0])
    with pytest.raises(InvalidProblem, match="'fed-cbs' does not keep side constraints"):
        solve(problem, "fed-cbs")
    with pytest.raises(InvalidProblem, match="'stochastic-greedy' does not keep"):
        solve(CoverageProblem(np.eye(3), size=2, exclude=[0]), "stochastic-greedy")


def test_a_conflict_has_not_the_name_of_a_quota():
    solution = solve(
        BalanceProblem(np.eye(4, dtype=int), size=2, quotas=[Quota([2, 3], 0, 2, "0, 1")], conflicts=[(0, 1)])
    )
    assert solution.slack.keys() == {"0, 1", "0, 1'"}


@pytest.mark.parametrize("family", KINDS)
def test_what_cannot_be_is_said_at_construction(family, tmp_path):
    data: Any = np.ones((4, 4), dtype=int)
    kind: Any = KINDS[family]
    with pytest.raises(InvalidProblem, match="the cheapest 2 clients use 2 of budget 'seconds', whose limit is 1"):
        kind(data, size=2, budgets=[Budget(np.ones(4), 1.0, "seconds")])
    with pytest.raises(InvalidProblem, match="quota 'north' names client 4"):
        kind(data, size=2, quotas=[Quota([4], 1, name="north")])
    problem = kind(data, size=2, quotas=[Quota([2, 3], 1, name="north")], conflicts=[(0, 1)])
    again = type(problem).load(problem.save(tmp_path / "problem.npz"))
    assert again.quotas == problem.quotas
    assert again.conflicts == problem.conflicts
