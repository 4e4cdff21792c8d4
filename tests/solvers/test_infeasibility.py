"""Conflicts of side constraints against enumeration of every subset of the clients."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from solvers import Conflict, Contradiction, InvalidProblem, conflict, infeasibility, solve, solving
from solvers.balance import BalanceProblem
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.errors import NoSelection
from tests.solvers.dispersion.constrained.cases import OVER, degenerate_constraints, draw_constraints
from tests.thoroughly import few_of

MAKERS: list[Any] = [
    lambda n, m, stated: DispersionProblem(np.ones((n, n)) - np.eye(n), size=m, **stated),
    lambda n, m, stated: PointDispersionProblem(np.arange(n)[:, None].astype(float), size=m, **stated),
    lambda n, m, stated: KindDispersionProblem(1.0 - np.eye(2), np.arange(n) % 2 if n > 1 else [0], size=m, **stated),
    lambda n, m, stated: CoverageProblem(np.eye(n), m, **stated),
    lambda n, m, stated: BalanceProblem(np.ones((n, 2), dtype=int), m, **stated),
]


def kept_by_name(stated: dict[str, Any], n: int, m: int) -> dict[str, np.ndarray]:
    """Which of the 2ⁿ subsets keep each named constraint, exactly."""
    subsets = [set(np.flatnonzero(x).tolist()) for x in itertools.product((0, 1), repeat=n)]
    kept = {"size": [len(chosen) == m for chosen in subsets]}
    for name in ("include", "exclude"):
        ids = {int(k) for k in stated.get(name, ())}
        if ids:
            kept[name] = [ids <= chosen if name == "include" else not ids & chosen for chosen in subsets]
    if groups := [{int(k) for k in group} for group in stated.get("conflicts", ())]:
        kept["conflicts"] = [all(len(chosen & group) < 2 for group in groups) for chosen in subsets]
    for k, quota in enumerate(stated.get("quotas", ())):
        most = n if quota.at_most is None else quota.at_most
        members = set(quota.members)
        kept[quota.name or f"quotas[{k}]"] = [quota.at_least <= len(members & chosen) <= most for chosen in subsets]
    for k, budget in enumerate(stated.get("budgets", ())):
        use, limit = [Fraction(each) for each in budget.use.tolist()], Fraction(budget.limit) * (1 + OVER)
        kept[budget.name or f"budgets[{k}]"] = [
            sum((use[i] for i in chosen), Fraction(0)) <= limit for chosen in subsets
        ]
    return {name: np.array(each) for name, each in kept.items()}


def any_keeps(kept: dict[str, np.ndarray], names: Any) -> bool:
    """Whether a subset keeps all of these constraints."""
    return bool(np.logical_and.reduce([kept[name] for name in names]).any()) if names else True


def found_in(n: int, m: int, stated: dict[str, Any], family: int) -> Conflict | None:
    """The conflict of a problem, or of the error by which it is refused."""
    try:
        return conflict(MAKERS[family](n, m, stated))
    except Contradiction as error:
        return conflict(error)


def check(seed: int, counts: Counter[str]) -> None:
    """Compare the conflict of a random statement with enumeration."""
    rng = np.random.default_rng([seed, 42])
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, n + 1))
    if rng.random() < 0.6:
        stated = draw_constraints(rng, n, m)
    else:
        stated = degenerate_constraints(rng, np.arange(n), m)
        stated["budgets"] = [each for each in stated.get("budgets", ()) if each.limit > 0]
    kept = kept_by_name(stated, n, m)
    found = found_in(n, m, stated, seed % len(MAKERS))
    if any_keeps(kept, kept):
        assert found is None, seed
        counts["feasible"] += 1
        return
    assert found is not None, seed
    assert found.is_minimal
    assert not any_keeps(kept, found.names), (seed, found)
    assert all(any_keeps(kept, [name for name in found.names if name != gone]) for gone in found.names), (seed, found)
    only = all(any_keeps(kept, [name for name in kept if name != gone]) for gone in found.names)
    assert found.is_only == only, (seed, found)
    assert len(found.labels) == len(found.names) == len(set(found.names))
    counts["minimal"] += 1
    counts["with the size"] += "size" in found.names
    if (moved := found.relaxation) is None:
        return
    budget = next((each for each in stated.get("budgets", ()) if each.name == moved.name), None)
    if budget is not None:
        subsets = list(itertools.product((0, 1), repeat=n))
        others = [kept[name] for name in found.names if name != moved.name]
        fine = np.logical_and.reduce(others) if others else np.ones(len(subsets), dtype=bool)
        least = min(math.fsum(budget.use * np.array(x)) for x, ok in zip(subsets, fine, strict=True) if ok)
        assert moved.allowed == least > moved.stated, (seed, found)
        counts["least limits"] += 1
    elif moved.name != "size":
        counts["quotas moved"] += 1
    else:
        others = np.logical_and.reduce([kept[name] for name in found.names if name != "size"])
        sizes = {sum(x) for x, ok in zip(itertools.product((0, 1), repeat=n), others, strict=True) if ok}
        assert moved.stated == m
        assert moved.allowed == (min(sizes) if moved.allowed > m else max(sizes)), (seed, found)
        counts["sizes moved"] += 1


@pytest.mark.parametrize(
    ("seeds", "enumerable"),
    few_of([(range(300), 20_000), (range(2_000, 2_060), 0), (range(300, 1_500), 20_000), (range(2_060, 2_120), 0)], 2),
)
def test_conflicts_are_minimal_against_enumeration(seeds, enumerable, monkeypatch):
    monkeypatch.setattr(infeasibility, "_ENUMERABLE", enumerable)  # 0: CP-SAT decides what swaps leave open
    counts: Counter[str] = Counter()
    for seed in seeds:
        check(seed, counts)
    assert counts["minimal"] >= len(seeds) // 3, counts
    assert all(counts[kind] for kind in ("feasible", "with the size", "least limits", "sizes moved")), counts


def crossing(n: int = 12, **stated: Any) -> DispersionProblem:
    """A problem that only a search shows to be infeasible: two budgets between which every client is costly."""
    use = np.arange(1.0, n + 1)
    budgets = [Budget(use, 8.0, "seconds"), Budget(use[::-1].copy(), 8.0, "bytes")]
    return DispersionProblem(np.ones((n, n)) - np.eye(n), size=3, budgets=budgets, **stated)


def test_solve_names_the_conflict_in_its_message():
    found = solve(crossing())
    assert found.status == "infeasible"
    assert "size 3, budget 'seconds' (at most 8) and budget 'bytes' (at most 8) contradict each other" in found.message
    assert "infeasible" in repr(found)


def test_the_seconds_of_a_solve_count_those_for_the_conflict(monkeypatch):
    def slow(solution: Any, left: float) -> str:
        time.sleep(0.05)
        return solution.message

    monkeypatch.setattr(solving, "with_conflict", slow)
    started = time.perf_counter()
    found = solve(crossing())
    assert 0.05 <= found.seconds <= time.perf_counter() - started


def test_a_quota_and_a_budget_with_the_least_limit():
    seconds = np.array([1.5, 2.0, 0.6, 2.5, 0.1, 0.1, 0.1, 0.1])
    stated = {"quotas": [Quota(range(4), 3, name="north")], "budgets": [Budget(seconds, 3.0, "seconds")]}
    with pytest.raises(Contradiction, match="no selection keeps all constraints") as refused:
        CoverageProblem(np.eye(8), 4, **stated)
    found = conflict(refused.value)
    assert found is not None
    assert found.names == ("north", "seconds")
    assert str(found) == (
        "quota 'north' (at least 3) and budget 'seconds' (at most 3) contradict each other; without either the problem "
        "is feasible; the least limit of budget 'seconds' that allows the other is 4.1 (4.2 with all constraints)"
    )
    assert found.relaxation == ("seconds", 3.0, 4.1, 4.2)
    stated["budgets"] = [Budget(seconds, found.relaxation.overall, "seconds")]
    assert conflict(CoverageProblem(np.eye(8), 4, **stated)) is None
    assert solve(CoverageProblem(np.eye(8), 4, **stated)).status == "optimal"


def test_the_size_is_a_constraint_as_well():
    with pytest.raises(Contradiction) as refused:
        CoverageProblem(np.eye(12), 10, quotas=[Quota(range(11), 11)])
    found = conflict(refused.value)
    assert found is not None
    assert found.names == ("size", "quotas[0]")
    assert "size 10 and quotas[0] (at least 11) contradict each other" in found.sentence
    assert "at most 10 client(s) of quotas[0] can be selected" in found.sentence


def test_clients_that_are_included_and_excluded_are_named_by_their_ids():
    ids = [3, 5, 8, 13]
    with pytest.raises(Contradiction, match="both included and excluded") as refused:
        DispersionProblem(1.0 - np.eye(4), size=2, clients=ids, include=[5, 8], exclude=[3, 8])
    found = conflict(refused.value)
    assert found is not None
    assert found.labels == ("include of client 8", "exclude of client 8")


@pytest.mark.parametrize(
    ("members", "least", "most", "allowed"), [([0, 1], 3, None, 2), ([0, 1, 2], 2, 1, 1), ([], 1, None, 0)]
)
def test_a_quota_that_contradicts_itself_is_its_own_conflict(members, least, most, allowed):
    with pytest.raises(Contradiction) as refused:
        Quota(members, least, most, name="north")
    found = conflict(refused.value)
    assert found is not None
    assert (found.names, found.labels) == (("north",), (f"north (at least {least})",))
    assert found.relaxation == ("north", least, allowed, None)
    assert str(found) == str(refused.value)


def test_an_error_about_something_else_has_no_conflict():
    with pytest.raises(InvalidProblem) as refused:
        CoverageProblem(np.eye(5), 9)
    with pytest.raises(InvalidProblem, match=f"no more to it than: {re.escape(str(refused.value))}"):
        conflict(refused.value)


def test_a_second_conflict_is_said():
    stated = {"include": [0], "exclude": [0], "quotas": [Quota([1, 2], 2, name="both")], "conflicts": [(1, 2)]}
    with pytest.raises(Contradiction) as refused:
        CoverageProblem(np.eye(5), 3, **stated)
    found = conflict(refused.value)
    assert found is not None
    assert not found.is_only
    assert "beside them the problem has another conflict" in found.sentence


@pytest.mark.thorough
def test_hundreds_of_clients_are_explained():
    rng = np.random.default_rng(0)
    n, use = 300, rng.random((2, 300))
    groups = [rng.choice(n, 120, replace=False) for _ in range(6)]
    stated = {
        "quotas": [Quota(group, 10, name=f"q{k}") for k, group in enumerate(groups)],
        "budgets": [Budget(use[0], 2.0, "seconds"), Budget(1 - use[0] + 0.1 * use[1], 18.0, "bytes")],
        "exclude": range(20),
    }
    found = conflict(CoverageProblem(rng.random((5, n)), 30, **stated))
    assert found is not None
    assert found.is_minimal
    assert {"seconds", "bytes"} <= set(found.names)


def test_no_time_is_no_answer():
    with pytest.raises(NoSelection, match="no selection was found"):
        conflict(crossing(), time_limit=1e-9)


def test_what_has_no_constraints_has_no_conflict_and_what_takes_none_is_refused():
    assert conflict(CoverageProblem(np.eye(3), 2)) is None
    with pytest.raises(InvalidProblem, match="got DeadlineProblem"):
        conflict(DeadlineProblem([1.0], [1.0], 3.0))
    with pytest.raises(InvalidProblem, match="got int"):
        conflict(3)
    with pytest.raises(ValueError, match="time"):
        conflict(CoverageProblem(np.eye(3), 2), time_limit=-1)
