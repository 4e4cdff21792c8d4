"""Proofs within a budget: cheap ones always, hard ones in proportion to the run, decisions as good as by swaps."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.measures import proof_cost
from fedselect.rounds import simulate
from fedselect.rounds.protocol import RoundContext
from fedselect.selectors import FedGS, Points, proof_budget
from fedselect.selectors.proof_budget import ProofBudget
from solvers import solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem


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
    budget.budget, budget.price, budget.smallest = 0.0, 2e8, problem.n
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
    found = budget.solve(problem, context(problem.n))
    assert found.status == "feasible"
    assert found.details["proof_seconds"] > 0
    assert budget.smallest == problem.n
    used = budget.price / 2
    assert used >= 4e7
    assert budget.budget == pytest.approx(4e7 - used + (2e6 + 0.1 * found.work * problem.n) / 2)
    assert budget.failed == 1
    assert found.bound < problem.trivial_bound()
    # the next waits until the budget is there again; a much smaller one does not where nothing is to be paid first
    assert budget.solve(problem, context(problem.n)).details["proof_seconds"] == 0.0
    budget.price = 0.0
    assert budget.solve(hard(14, 4), context(14)).status == "optimal"
    assert budget.failed == 0


def test_attempts_that_prove_nothing_are_paid_for_with_less():
    budget, problem = ProofBudget(), hard()
    budget.budget, budget.price, budget.smallest = -1e8, 1.0, problem.n
    for failed, share in ((0, 1.0), (3, 0.125)):
        budget.failed, before = failed, budget.budget
        found = budget.solve(problem, context(problem.n))
        assert budget.budget == pytest.approx(before + (2e6 + 0.1 * found.work * problem.n) * share)


def test_in_a_large_federation_proofs_are_charged_beyond_what_swaps_take():
    assert ProofBudget(499).free == 4e7
    budget, problem = ProofBudget(500), hard(60, 8)
    before = budget.budget
    solution = budget.solve(problem, context(60))
    assert solution.status == "optimal"
    used = solution.work * 60
    assert used > budget.free
    assert budget.budget == pytest.approx(before - (used - budget.free) + 2e6 + 0.1 * used)
    budget.budget, budget.price = 1e6, 3e6
    assert budget.solve(problem, context(60)).details["proof_seconds"] == 0.0


def test_decisions_and_proofs_are_a_function_of_the_seed(monkeypatch):
    """However long a round takes, and whatever else the machine does."""
    for name, entries in (("_GRANT", 200_000), ("_CHEAP", 40_000), ("_EARNED", 10_000)):
        monkeypatch.setattr(proof_budget, name, entries)
    rng = np.random.default_rng(4)
    upper = np.triu(rng.uniform(0.5, 1.0, (40, 40)), 1)
    there = AVAILABILITY.build("lognormal", digits(n_clients=40), 0, beta=0.3)

    def rounds(busy):
        selector, seen = FedGS(6, distances=upper + upper.T), []
        process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"]) if busy else None
        try:
            for each in simulate(selector, there, sizes=np.ones(40, int), rounds=12):
                found = each.selection.solution
                seen.append(
                    (tuple(found.selected), found.objective, found.bound, found.nodes, found.status, found.work)
                )
        finally:
            if process is not None:
                process.kill()
                process.wait()
        return seen

    alone, beside, again = rounds(busy=False), rounds(busy=True), rounds(busy=True)
    assert alone == beside == again
    assert {status for *_, status, _ in alone} == {"optimal", "feasible"}


def test_no_round_of_a_run_is_decided_worse_than_by_swaps_from_the_same_state():
    rng = np.random.default_rng(4)
    upper = np.triu(rng.uniform(0.5, 1.0, (60, 60)), 1)
    there = AVAILABILITY.build("lognormal", digits(n_clients=60), 0, beta=0.5)
    selector = FedGS(4, distances=upper + upper.T)
    # rounds of 9 clients and more are left to swaps and tabu search
    selector.proofs.budget, selector.proofs.price, selector.proofs.smallest = -1e10, 1.0, 10
    statuses = set()
    for each in simulate(selector, there, sizes=np.ones(60, int), rounds=6):
        solution = each.selection.solution
        swaps = solve(solution.problem, "local-search", seed=solution.seed)
        assert solution.objective >= swaps.objective - solution.problem.rounding
        statuses.add(solution.status)
    assert statuses == {"optimal", "feasible"}


def test_rounds_between_points_are_decided_by_the_relaxation_where_there_is_no_budget():
    rng = np.random.default_rng(6)
    problem = PointDispersionProblem(rng.random((900, 4)), rng.random(900), size=30, weight=0.01)
    budget = ProofBudget(900)
    budget.budget, budget.price, budget.smallest = -1e10, 1.0, 10
    found = budget.solve(problem, context(900))
    assert found.details["proof_seconds"] == 0.0
    assert found.bound < problem.trivial_bound()
    assert found.gap < 1e-3
    best = solve(problem, "branch-and-bound", time_limit=30.0)
    assert found.objective <= best.objective + problem.rounding
    assert best.objective <= found.bound
    assert found.objective >= solve(problem, "local-search", seed=found.seed).objective - 1e-4 * abs(best.objective)
    constrained = PointDispersionProblem(problem.points, problem.costs, size=30, weight=0.01, include=[3])
    kept = budget.solve(constrained, context(900))
    assert kept.status == "feasible"
    assert 3 in kept.selected
    assert FedGS(5, distances=Points(problem.points)).proofs is not None


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
    line = proof_cost([record("optimal", 0.5)] * 4, {})
    assert line.startswith("all 4 rounds proved, in 2 s of 6 s of selecting and training")
    assert "selector.method=local-search" in line
    line = proof_cost([record("optimal", 0.5), record("feasible", 2.5, proof_seconds=2.0)], {})
    assert "1 of 2 rounds proved, in 0.5 s; the others' proofs took 2 s of 5 s" in line
    assert "selector.time_limit=5" in line
    assert "without selector.time_limit" in proof_cost([record("feasible", 5.0)], {"time_limit": 5})
    assert "heuristic" in proof_cost([record("feasible", 5.0)], {"method": "auto"})
