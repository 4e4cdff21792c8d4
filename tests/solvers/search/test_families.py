"""Node outcomes of the searches beside those of the dispersion problem."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import solve
from solvers.balance import BalanceProblem
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.schedule import DiverseScheduleProblem
from solvers.search import NodeOutcome
from solvers.weighting import ExclusionProblem
from tests.thoroughly import few_of

BOUND, REDUCED, DOMINATED, INFEASIBLE, SOLVED, BRANCHED = (outcome.label for outcome in NodeOutcome)


def squares(n: int, seed: int) -> np.ndarray:
    """Distances between points of a square."""
    points = np.random.default_rng(seed).random((n, 2))
    return np.linalg.norm(points[:, None] - points, axis=2)


def test_every_node_of_the_coverage_tree_has_one_outcome():
    total = dict.fromkeys((BOUND, REDUCED, INFEASIBLE, SOLVED, BRANCHED), 0)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        stated = {"quotas": [Quota(range(20), at_least=4)], "budgets": [Budget(rng.random(60), 3.2)]}
        found = solve(CoverageProblem(-squares(60, seed), 8, **stated), "branch-and-bound")
        outcomes = found.details["outcomes"]
        assert found.status == "optimal"
        assert sum(outcomes.values()) == found.nodes
        assert found.nodes == 2 * outcomes.get(BRANCHED, 0) + 1  # every node that is branched on has two children
        assert ", ".join(f"{count} {name}" for name, count in outcomes.items()) in found.summary()
        total = {name: count + outcomes.get(name, 0) for name, count in total.items()}
    assert all(total.values()), total


def test_open_nodes_of_a_coverage_tree_have_no_outcome():
    found = solve(CoverageProblem(-squares(60, 0), 8, budgets=[Budget(squares(60, 1)[0], 3.0)]), "lagrangian")
    assert found.nodes == 1
    assert sum(found.details["outcomes"].values()) == (found.status == "optimal")


def test_states_of_the_deadline_search_that_go_on_are_its_nodes():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = solve(DeadlineProblem(rng.random(60), rng.random(60), 5.0, rng.random(60)), "branch-and-bound")
        outcomes = found.details["outcomes"]
        assert outcomes[BRANCHED] + outcomes.get(SOLVED, 0) == found.nodes > 50
        assert outcomes[BOUND] > 0
        assert outcomes[DOMINATED] > 0


@pytest.mark.parametrize("seeds", few_of([[0, 2, 3], [1, 4]], 1), ids=str)
def test_counting_members_on_a_line_branches_and_rules_numbers_out(seeds):
    ruled_out = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        upload, ready = rng.integers(1, 400, 60).astype(float), rng.integers(0, 300, 60).astype(float)
        problem = DeadlineProblem(ready, upload, 1000.0, 3 * upload + 7 + rng.integers(0, 2, 60))
        found = solve(problem, "branch-and-bound")
        assert found.details["outcomes"][BRANCHED] > 0
        ruled_out += found.details["outcomes"].get(INFEASIBLE, 0)
    assert ruled_out > 0


def test_slices_of_the_exclusion_search_form_a_tree():
    branched = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        importance = rng.random(40)
        problem = ExclusionProblem(importance / importance.sum(), 0.3 * rng.random(40), 0.5, *rng.random((2, 40)))
        found = solve(problem, "cp-sat")
        outcomes = found.details["outcomes"]
        assert found.status == "optimal"
        slices = outcomes[BOUND] + outcomes.get(SOLVED, 0)
        assert 47 <= slices - outcomes.get(BRANCHED, 0) <= 48  # the first ones; each that is branched is two more
        branched += outcomes.get(BRANCHED, 0)
    assert branched > 0


def test_balance_counts_the_engine_s_nodes_and_a_diverse_schedule_its_counts():
    label_counts = np.random.default_rng(0).integers(1, 50, (18, 5))
    found = solve(BalanceProblem(label_counts, 5, exclude=[0]), "branch-and-bound")
    assert sum(found.details["outcomes"].values()) == found.nodes > 0
    nodes = 0
    for seed in range(12):
        available = np.random.default_rng(seed).random((5, 9)) < 0.8
        found = solve(DiverseScheduleProblem(available, 3, distances=squares(9, seed), weight=0.3))
        outcomes = found.details.get("outcomes", {})
        assert outcomes.get(BRANCHED, 0) + outcomes.get(SOLVED, 0) == (found.nodes or 0)
        nodes += found.nodes or 0
    assert nodes > 0
