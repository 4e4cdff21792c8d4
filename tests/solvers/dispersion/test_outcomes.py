"""Why nodes are fathomed: every node has one outcome, and the summary says how many have which."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.search import NodeOutcome
from tests.solvers.dispersion.constrained.cases import feasible_cases


def drawn(n: int, m: int, seed: int) -> DispersionProblem:
    rng = np.random.default_rng(seed)
    h = np.triu(rng.random((n, n)), 1)
    return DispersionProblem(h + h.T, rng.random(n), size=m)


@pytest.mark.parametrize(("n", "m"), [(24, 8), (40, 8)])
def test_every_node_has_one_outcome(n, m):
    found = solve(drawn(n, m, n), "branch-and-bound")
    outcomes = found.details["outcomes"]
    assert sum(outcomes.values()) == found.nodes > 1
    assert outcomes[NodeOutcome.BRANCHED.label] > 0
    assert outcomes[NodeOutcome.FATHOMED_BY_BOUND.label] > 0
    assert ", ".join(f"{count} {name}" for name, count in outcomes.items()) in found.summary()


def test_nodes_that_constraints_leave_nothing_are_infeasible():
    total = 0
    for problem, _ in feasible_cases(range(60)):
        found = solve(problem, "branch-and-bound")
        outcomes = found.details.get("outcomes", {})
        assert sum(outcomes.values()) == (found.nodes or 0)
        total += outcomes.get(NodeOutcome.INFEASIBLE.label, 0)
    assert total > 0
