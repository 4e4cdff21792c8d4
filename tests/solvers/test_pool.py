"""Pools of the k best selections beside the enumeration of all of them."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, Solution, methods, solve
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.policy import Policy
from solvers.search import Pool
from tests.thoroughly import few_of

Ranked = list[tuple[float, tuple[int, ...]]]


def every_selection(problem: Any, veto: Callable[[Any], bool] | None = None) -> Ranked:
    """Objective and ids of all feasible selections, best first, ties (to nine digits) by ids."""
    found = []
    for chosen in problem.feasible.selections():
        x = problem.feasible.decision(np.array(chosen, dtype=np.int64))
        if problem.violation(x) == 0 and not (veto is not None and veto(problem.selected(x))):
            found.append((problem.objective(x), tuple(problem.selected(x).tolist())))
    return sorted(found, key=lambda each: (-round(each[0], 9), each[1]))


def pool_of(every: Ranked, most: int, within: float | None = None, diverse: int = 0) -> Ranked:
    """The members by their definition."""
    if within is not None and every:
        every = [each for each in every if each[0] >= every[0][0] - within * abs(every[0][0]) - 1e-9]
    kept: Ranked = []
    for value, ids in every:
        if len(kept) < most and all(len(set(ids) - set(other)) >= diverse for _, other in kept):
            kept.append((value, ids))
    return kept


def random_problem(rng: np.random.Generator, statement: str) -> Any:
    """A small problem, with ties and without, in some cases under side constraints."""
    n = int(rng.integers(4, 12))
    size = int(rng.integers(1, n + 1))
    whole = rng.random() < 0.5
    costs = rng.integers(-2, 3, n).astype(float) if whole or rng.random() < 0.5 else rng.random(n)
    sides: dict[str, Any] = {}
    if rng.random() < 0.3:
        sides["conflicts"] = [(0, 1)]
    if rng.random() < 0.3:
        sides["quotas"] = [{"members": [0, 2, 3], "at_most": 2}]
    if rng.random() < 0.2:
        sides["budgets"] = [{"use": rng.integers(1, 5, n).astype(float), "limit": 3.0 * size}]
    weight = float(rng.choice([0.0, 0.5, 1.0]))
    points = rng.integers(0, 4, (n, 2)).astype(float) if whole else rng.random((n, 2))
    try:
        if statement == "points":
            return PointDispersionProblem(points, costs, size=size, weight=weight, **sides)
        if statement == "kinds":
            between = np.abs(points[:3, None] - points[:3]).sum(-1) + np.eye(3)
            return KindDispersionProblem(between, rng.integers(0, 3, n), costs, size=size, weight=weight, **sides)
        distances = np.abs(points[:, None] - points).sum(-1)
        return DispersionProblem(distances, costs, size=size, weight=weight, **sides)
    except InvalidProblem:  # the constraints contradict each other, or a type has no client
        return None


def request(rng: np.random.Generator) -> dict[str, Any]:
    """What is asked for: a number, in some cases a tolerance, a difference, a veto."""
    asked: dict[str, Any] = {"pool": int(rng.integers(1, 15))}
    if rng.random() < 0.3:
        asked["within"] = float(rng.choice([0.0, 0.05, 0.3]))
    if rng.random() < 0.25:
        asked["diverse"] = int(rng.integers(1, 4))
    if rng.random() < 0.25:
        divisor = int(rng.integers(1, 5))  # 1 refuses everything
        asked["veto"] = lambda ids: int(ids.sum()) % divisor == 0
    return asked


@pytest.mark.parametrize("statement", ["matrix", "points", "kinds"])
@pytest.mark.parametrize("seeds", few_of([range(10), range(10, 700)], 1))
def test_pools_are_those_of_enumeration(statement, seeds, asserted):
    cases = asserted(len(seeds) * 3 // 5)
    for seed in seeds:
        rng = np.random.default_rng([seed, len(statement)])
        problem = random_problem(rng, statement)
        if problem is None:
            continue
        asked = request(rng)
        every = every_selection(problem, asked.get("veto"))
        wanted = pool_of(every, asked["pool"], asked.get("within"), asked.get("diverse", 0))
        for method in [each.name for each in methods(problem) if each.pool]:
            always_trees = {"policy": Policy(enumerable=0)} if method == "auto" else {}
            found = solve(problem, method, **asked, **always_trees)
            members = [(round(each.objective, 9), tuple(each.selected.tolist())) for each in found.pool]
            assert members == [(round(value, 9), ids) for value, ids in wanted], (seed, method, asked)
            assert found.pool_complete, (seed, method, asked)
            if not wanted:
                assert found.status == "infeasible"
                continue
            assert found.status == "optimal"
            assert tuple(found.selected.tolist()) == wanted[0][1]
            assert found.objective == found.pool[0].objective
            others = [value for value, ids in every if (value, ids) not in wanted]
            if others and not asked.get("diverse"):
                assert others[0] <= found.pool_bound + problem.rounding
            cases()


@pytest.fixture(scope="module")
def problem() -> DispersionProblem:
    rng = np.random.default_rng(3)
    points = rng.random((24, 2))
    return DispersionProblem.from_points(points, rng.random(24), size=5)


def test_a_pool_goes_through_files_and_copies(problem, tmp_path):
    found = solve(problem, pool=4, veto=lambda ids: 0 in ids)
    assert len(found.pool) == 4
    written = Solution.load(found.save(tmp_path / "solution.npz"))
    (tmp_path / "solution.json").write_text(found.to_json())
    read = Solution.load(tmp_path / "solution.json", problem=problem)
    for again in (written, read, pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again.pool.to_list() == found.pool.to_list()
        assert again.vetoed.to_list() == found.vetoed.to_list()
        assert (again.pool_bound, again.pool_complete) == (found.pool_bound, True)
    assert json.loads(found.to_json())["pool"][0]["selected"] == found.selected.tolist()
    frame = found.pool.to_frame()
    assert frame["place"].tolist() == [1, 2, 3, 4]
    assert frame["objective"].is_monotonic_decreasing
    assert "pool=4" in repr(found)
    assert "4 selections, complete" in found.summary()


@pytest.mark.parametrize("told", [None, [3], [{"selected": [0]}], [{"selected": [2**70], "objective": 1.0}]])
def test_what_is_no_list_of_members_is_refused(told):
    with pytest.raises(ValueError, match="its pool is no list of members"):
        Pool.from_list(told)


@pytest.mark.parametrize("told", [[1.5], ["3"], [True], [2.0]])
def test_a_member_of_other_than_whole_ids_is_refused(told):
    with pytest.raises(ValueError, match="which is no list of ids"):
        Pool.from_list([{"selected": told, "objective": 1.0}])
    assert Pool.from_list([{"selected": [], "objective": 1.0}])[0].selected.dtype == np.int64


def test_what_is_refused_is_listed_and_left_out(problem):
    best = solve(problem)
    found = solve(problem, veto=lambda ids: set(ids) == set(best.selected))
    assert [each.selected.tolist() for each in found.vetoed] == [best.selected.tolist()]
    assert found.objective < best.objective
    assert found.status == "optimal"


def test_a_veto_of_everything_leaves_nothing(problem):
    small = DispersionProblem(problem.distances[:6, :6], size=3)
    found = solve(small, veto=lambda ids: True)
    assert (found.status, found.pool, found.pool_complete) == ("infeasible", (), True)
    assert "veto refuses every selection, 20 of them" in found.message


def test_ties_at_the_last_place_go_to_the_smallest_ids_and_are_noted():
    problem = DispersionProblem(np.ones((9, 9)) - np.eye(9), size=3)
    for method in ("auto", "branch-and-bound", "brute-force"):
        found = solve(problem, method, pool=3)
        assert [each.selected.tolist() for each in found.pool] == [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
        assert any("smallest ids" in note for note in found.details["notes"])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"pool": 0}, "pool must be an integer of at least 1; got 0"),
        ({"pool": 2.0}, "pool must be an integer"),
        ({"within": -0.1}, "within must be finite and non-negative; got -0.1"),
        ({"within": float("nan")}, "within must be finite"),
        ({"pool": 3, "diverse": 0}, "diverse must be an integer of at least 1"),
        ({"diverse": 2}, "say how many"),
        ({"veto": 7}, "veto must be a function"),
        ({"pool": 3, "gap": 0.1}, "gap ends a solve before its pool is complete"),
        ({"pool": 3, "method": "tabu"}, "'tabu' keeps no pool.*'auto', 'branch-and-bound'"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(problem, asked, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        solve(problem, **asked)


def test_too_many_clients_for_a_tree_are_refused():
    points = np.random.default_rng(0).random((3_000, 2))
    with pytest.raises(InvalidOption, match="takes 2000 of them at most; got 3000"):
        solve(PointDispersionProblem(points, size=10), pool=3)


@pytest.mark.thorough
def test_a_pool_that_is_cut_short_says_so_and_its_bound_holds():
    rng = np.random.default_rng(2)
    half = rng.random((26, 26))
    problem = DispersionProblem(np.triu(half, 1) + np.triu(half, 1).T, size=5)
    every = every_selection(problem)
    asked = {"pool": 400, "work_limit": 3_000, "policy": Policy(enumerable=0)}
    first, again = solve(problem, **asked), solve(problem, **asked)
    assert not first.pool_complete
    assert first.pool.to_list() == again.pool.to_list()
    assert (first.pool_bound, first.nodes) == (again.pool_bound, again.nodes)
    members = {tuple(each.selected.tolist()) for each in first.pool}
    assert max(value for value, ids in every if ids not in members) <= first.pool_bound
    stop = threading.Event()
    stop.set()
    cancelled = solve(problem, pool=400, stop=stop)
    assert not cancelled.pool_complete
    assert cancelled.stopped in ("cancelled", "proved")
    assert cancelled.pool_bound is None or cancelled.pool_bound >= every[400][0]
