"""Proofs within a budget: cheap ones always, hard ones in proportion to the run, decisions as good as by swaps."""

from __future__ import annotations

import json

import numpy as np

from fedselect.experiments.metrics import proof_cost
from fedselect.rounds.protocol import RoundContext
from fedselect.selectors import FedGS
from fedselect.selectors.proof_budget import ProofBudget
from solvers import solve
from solvers.dispersion import DispersionProblem


def hard(n=120, size=30, seed=0):
    """Random distances, which no method proves within a fraction of a second."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(0.5, 1.0, (n, n)), 1)
    return DispersionProblem(upper + upper.T, rng.random(n), size=size)


def context(n, seed=0, time_limit=None):
    return RoundContext(0, np.ones(n, bool), np.ones(n, int), np.random.default_rng(seed), time_limit=time_limit)


def test_a_cheap_proof_is_made_without_any_budget():
    budget = ProofBudget()
    budget.budget = 0.0
    problem = hard(14, 4)
    solution = budget.solve(problem, context(14))
    assert solution.status == "optimal"
    assert not budget.smallest
    assert solution.objective == solve(problem, "brute-force").objective


def test_a_spent_budget_decides_by_swaps_and_never_worse():
    budget, problem = ProofBudget(), hard()
    budget.budget, budget.price, budget.smallest = 0.0, 2.0, problem.n
    found = budget.solve(problem, context(problem.n, seed=3))
    seed = int(np.random.default_rng(3).integers(2**31))
    assert found.objective >= solve(problem, "local-search", seed=seed).objective
    assert found.details["proof_seconds"] == 0.0
    assert found.bound == problem.trivial_bound()
    again = ProofBudget()
    again.load_state_dict(json.loads(json.dumps(budget.state_dict())))
    assert np.array_equal(again.solve(problem, context(problem.n, seed=3)).x, found.x)


def test_an_attempt_that_does_not_prove_is_charged_and_keeps_its_bound():
    budget, problem = ProofBudget(), hard()
    found = budget.solve(problem, context(problem.n, time_limit=1.0))
    assert found.status == "feasible"
    assert found.details["proof_seconds"] > 0
    assert budget.smallest == problem.n
    assert budget.budget < 2.0
    assert found.bound < problem.trivial_bound()
    # the next of that size waits until the budget is there again, a much smaller one does not
    budget.budget = 0.0
    assert budget.solve(problem, context(problem.n)).details["proof_seconds"] == 0.0
    budget.price = 0.0
    assert budget.solve(hard(14, 4), context(14)).status == "optimal"


def test_a_time_limit_or_another_method_takes_the_place_of_the_budget():
    h = hard(20, 5).distances
    assert FedGS(5, distances=h).proofs is not None
    for options in ({"time_limit": 3.0}, {"method": "local-search"}, {"bound_by": "sdp"}):
        assert FedGS(5, distances=h, **options).proofs is None


def test_the_line_names_what_proofs_cost_and_the_settings():
    def record(status, seconds, **details):
        solution = {"status": status, "bound": 2.0, "seconds": seconds, "details": details}
        return {"solution": solution, "select_seconds": seconds, "train_seconds": 1.0}

    assert proof_cost([record("optimal", 0.1)] * 3, {}) is None
    line = proof_cost([record("optimal", 0.5), record("feasible", 2.5, proof_seconds=2.0)], {})
    assert "1 of 2 rounds proved; the others' proofs took 2 s of 5 s" in line
    assert "selector.time_limit=5" in line
    assert "without selector.time_limit" in proof_cost([record("feasible", 5.0)], {"time_limit": 5})
    assert "heuristic" in proof_cost([record("feasible", 5.0)], {"method": "auto"})
