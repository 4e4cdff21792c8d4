"""Search by conditioning one concave form: against enumeration, whole and stopped early, and on a played round."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.benchmark.rounds import Round
from solvers.dispersion import DispersionProblem
from solvers.dispersion.methods.fixing import Fixing, close_rest, fix_by_products, fix_clients
from solvers.dispersion.neighbourhood import ensure_incumbent
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.slice_form import SliceForm
from solvers.dispersion.tree.conditional import search_conditioned
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP
from tests.solvers.dispersion.cases import selections
from tests.thoroughly import few_of


def concave_case(rng: np.random.Generator) -> tuple[SliceForm, np.ndarray, np.ndarray]:
    """A form that is concave on its slice, its selections, a row each, and what they are worth."""
    n = int(rng.integers(2, 11))
    m = int(rng.integers(1, n))
    h = rng.random((n, n)) if rng.random() < 0.7 else rng.integers(0, 3, (n, n)).astype(float)
    h = np.triu(h, 1) + np.triu(h, 1).T
    linear = rng.normal(size=n) if rng.random() < 0.7 else np.zeros(n)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 1))
    raised = (pairs, 0.1 * rng.random(len(pairs)))
    form = SliceForm.build(h, linear, m, np.full(n, 0.5 + rng.random()), nonnegative=raised)
    form = form.shifted(10.0 ** rng.integers(-5, 0))
    chosen = selections(n, m)
    return form, chosen, np.einsum("ki,ij,kj->k", chosen, h, chosen) + chosen @ linear


def a_run() -> Run:
    """A run for its clock."""
    return Run(DispersionProblem(np.ones((3, 3)) - np.eye(3), np.zeros(3), size=1), "test", None, 0)


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_no_better_selection_is_dropped(seed):
    rng, run = np.random.default_rng(seed), a_run()
    found_one = dropped_all = 0
    for _ in range(150):
        form, _, values = concave_case(rng)
        target = values.max() + float(rng.choice([-1.0, -1e-3, -1e-8, 1e-8, 1e-3]))
        found = search_conditioned(form, target, 1e9, 10_000, run)
        assert found.is_done
        assert found.nodes >= 1
        if target > values.max():
            dropped_all += not found.best.any()
            continue
        found_one += 1
        assert found.best.sum() == form.size
        assert found.best @ form.exact @ found.best + found.best @ form.linear == pytest.approx(values.max(), abs=1e-9)
    assert found_one > 50
    assert dropped_all > 20


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_what_is_settled_holds_for_every_selection_of_interest(seed):
    rng, run = np.random.default_rng(seed), a_run()
    settled = stopped = 0
    for _ in range(200):
        form, chosen, values = concave_case(rng)
        target = values.max() - float(rng.choice([0.3, 1e-3]))
        found = search_conditioned(form, target, float(rng.integers(1, 2_000)), int(rng.integers(1, 300)), run)
        visited = found.best @ form.exact @ found.best + found.best @ form.linear if found.best.any() else -np.inf
        of_interest = chosen[values > max(target, visited) + 1e-9]
        if found.is_done:
            assert len(of_interest) == 0
            continue
        stopped += 1
        settled += found.settled.size
        for client, is_chosen in zip(found.settled // 2, found.settled % 2, strict=True):
            assert (of_interest[:, client] == is_chosen).all()
    assert stopped > 30
    assert settled > 10


def canonical(chosen: np.ndarray, order: Dominance) -> np.ndarray:
    """Which selections contain the first client of each pair wherever they contain the second."""
    return (chosen[:, order.pairs[:, 0]] >= chosen[:, order.pairs[:, 1]]).all(axis=1)


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_an_order_loses_no_best_selection_and_saves_nodes(seed):
    """Among clients of few types: the best value is found, and what is settled holds for selections in order."""
    rng, run = np.random.default_rng(seed), a_run()
    with_order = without = pairs = settled = 0
    for _ in range(100):
        n = int(rng.integers(4, 11))
        m = int(rng.integers(1, n))
        types, apart = rng.integers(0, 3, n), rng.random((3, 3))
        h = (apart + apart.T)[np.ix_(types, types)] * (1 - np.eye(n))
        linear = rng.integers(0, 3, n) * 0.3
        order = dominance(h, linear, m)
        form = SliceForm.build(h, linear, m, np.full(n, 1.0 + rng.random()))
        chosen = selections(n, m)
        values = np.einsum("ki,ij,kj->k", chosen, h, chosen) + chosen @ linear
        assert values[canonical(chosen, order)].max() == pytest.approx(values.max(), abs=1e-9)
        target = values.max() - float(rng.choice([-1e-3, 1e-3, 0.3]))
        found = search_conditioned(form, target, 1e9, 10_000, run, order)
        assert found.is_done
        if target < values.max():
            assert found.best @ form.exact @ found.best + found.best @ form.linear == pytest.approx(
                values.max(), abs=1e-9
            )
        pairs, with_order = pairs + len(order.pairs), with_order + found.nodes
        without += search_conditioned(form, target, 1e9, 10_000, run).nodes
        stopped = search_conditioned(form, target, float(rng.integers(1, 2_000)), int(rng.integers(1, 300)), run, order)
        visited = (
            stopped.best @ form.exact @ stopped.best + stopped.best @ form.linear if stopped.best.any() else -np.inf
        )
        of_interest = chosen[canonical(chosen, order) & (values > max(target, visited) + 1e-9)]
        settled += stopped.settled.size
        for client, is_chosen in zip(stopped.settled // 2, stopped.settled % 2, strict=True):
            assert stopped.is_done or (of_interest[:, client] == is_chosen).all()
    assert pairs > 100
    assert settled > 10
    assert with_order < without


def test_an_order_of_some_clients_is_that_of_the_rest_in_new_numbers():
    order = Dominance.of(np.array([[0, 2], [0, 4], [2, 4], [3, 1]]), np.array([True, False, True, True]), 5)
    among = order.among(np.array([0, 1, 4]), 5)
    assert among.pairs.tolist() == [[0, 2]]
    assert among.certain.tolist() == [False]
    assert among.below[among.below_start[0] : among.below_start[1]].tolist() == [2]
    assert among.above[among.above_start[2] : among.above_start[3]].tolist() == [0]


def test_an_order_is_certain():
    """Clients that only a cost tells apart count, those that differ by rounding do not."""
    n, half = 12, 6
    points = np.random.default_rng(3).normal(size=(half, 2))
    h = np.linalg.norm(points[:, None] - points, axis=2)
    h = np.block([[h, h], [h, h]])
    costs = np.where(np.arange(n) < half, 0.0, 1e-15)
    ends = []
    for moved in (0.0, 1e-16):
        h[half - 1, 0] = h[0, half - 1] = h[half - 1, 0] + moved * 8
        problem = DispersionProblem(h, costs, size=4)
        run = Run(problem, "test", None, 0)
        ensure_incumbent(problem, run)
        order = Fixing(problem, run).order()
        ends.append({tuple(pair) for pair in order.pairs[~order.certain].tolist()})
    assert ends[0] == {(k, k + half) for k in range(half)}
    assert ends[1] == {(k, k + half) for k in range(1, half - 1)}


def test_a_matrix_that_is_not_concave_on_the_slice_proves_nothing():
    h = np.triu(np.random.default_rng(0).random((6, 6)), 1)
    form = SliceForm(h + h.T + np.eye(6), h + h.T + np.eye(6), np.zeros(6), 3, 1e-9)
    assert not search_conditioned(form, -1e3, 1e9, 10_000, a_run()).is_done


@pytest.mark.thorough
def test_a_played_round_is_closed_by_multipliers_and_a_search():
    problem = Round(300, "0.3", "played")()
    ends = []
    for most in (0, 600):
        run = Run(problem, "test", None, 0)
        ensure_incumbent(problem, run)
        fixing = fix_by_products(problem, run, fixing=fix_clients(problem, run))
        close_rest(fixing, Policy(fixing_closed=most))
        ends.append((run.proved, run.bound, run.objective))
    assert [proved for proved, _, _ in ends] == [False, True]
    assert ends[1][1] < ends[0][1]
    assert ends[1][2] == pytest.approx(0.41626611962302, rel=OPTIMALITY_GAP)  # the trees prove it in some seconds
