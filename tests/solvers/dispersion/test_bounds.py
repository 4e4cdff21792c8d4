"""Every bound, against enumeration and against each other; the certificate, against eigenvalues."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solvers import solve
from solvers.dispersion import DispersionProblem, read_mdplib
from solvers.dispersion.relaxations.attainable import Attainable
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.slice_form import ScaledProblem, SliceForm, apply, certified_excess
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue, uniform_shift_bound
from solvers.run import Run
from tests.solvers.dispersion.cases import (
    MDPLIB,
    euclidean_problem,
    mdplib,
    needs_mdplib,
    problem_with_a_choice,
    random_problem,
    selections,
    uniform_problem,
)
from tests.thoroughly import few_of


@settings(max_examples=150, deadline=None)
@example(seed=6118, share=0.0)
@given(seed=st.integers(0, 2**31), share=st.floats(0, 1))
def test_any_point_and_any_diagonal_give_a_bound(seed, share):
    """The tangent at a random point of the slice, after a random diagonal was certified, is never below the optimum."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 10)
    scaled = ScaledProblem.of(problem)
    truth = solve(problem, "brute-force")
    form = SliceForm.build(scaled.quadratic, scaled.linear, scaled.size, rng.normal(size=problem.n) * share)
    y = rng.dirichlet(np.ones(problem.n)) * problem.size
    bound = scaled.original(form.tangent(y)) + 2 * problem.rounding
    assert bound >= truth.objective - problem.rounding


@pytest.mark.parametrize("seed", range(30))
def test_certified_excess(seed):
    """After adding it, the largest eigenvalue on the slice is not positive; where it was negative, nothing is added."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    a = rng.normal(size=(n, n))
    a = a + a.T
    diagonal = rng.normal(size=n) * 5
    j = np.eye(n) - 1 / n

    def top(d):
        return float(np.linalg.eigvalsh(j @ (a - np.diag(d)) @ j)[-1])

    excess = certified_excess(a, diagonal)
    assert excess >= 0
    assert top(diagonal + excess) <= 1e-12 * n
    assert certified_excess(a, diagonal + excess + 1e-6) <= 1e-9


@pytest.mark.parametrize("seed", few_of(range(40), 3))
def test_relaxation_with_all_conditions(seed):
    """Dominance and X ≥ 0 together, on problems with duplicates: above the optimum, below the basic relaxation."""
    rng = np.random.default_rng(seed)
    n, m = 12, 5
    points = rng.integers(0, 3, (n, 2)).astype(float)
    h = np.linalg.norm(points[:, None] - points, axis=2) ** float(rng.choice([0.5, 1, 2]))
    problem = DispersionProblem(h, rng.integers(0, 3, n) * 0.5, size=m, weight=0.5)
    truth = solve(problem, "brute-force").objective
    scaled = ScaledProblem.of(problem)
    basic = relax(scaled.quadratic, scaled.linear, m)
    dominated = dominance(scaled.quadratic, scaled.linear, m).pairs
    pairs = np.column_stack(np.triu_indices(n, 1))[::3]
    full = relax(scaled.quadratic, scaled.linear, m, dominated=dominated, nonnegative=pairs)
    form = apply(scaled.quadratic, scaled.linear, m, full, dominated, pairs)
    x = full.x * (m / full.x.sum())
    assert scaled.original(form.tangent(np.clip(x, 0, 1))) >= truth - 1e-9
    assert full.bound <= basic.bound + 1e-4
    # At 0/1 points that respect dominance the exact form is the objective.
    respectful = [s for s in selections(n, m) if (s[dominated[:, 0]] >= s[dominated[:, 1]]).all()]
    assert respectful
    for s in respectful:
        value = s @ form.exact @ s + form.linear @ s
        assert value == pytest.approx(scaled.value(problem.objective(s)), abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_some_best_selection_respects_dominance(seed):
    rng = np.random.default_rng(seed)
    problem = problem_with_a_choice(rng, 9)
    scaled = ScaledProblem.of(problem)
    pairs = dominance(scaled.quadratic, scaled.linear, problem.size).pairs
    values = {tuple(s): scaled.value(problem.objective(s)) for s in selections(problem.n, problem.size)}
    respectful = [value for s, value in values.items() if all(s[i] >= s[j] for i, j in pairs)]
    assert max(respectful) >= max(values.values()) - 1e-9


def test_attainable_values():
    """Every selection's value is on the list, and `above` never skips one."""
    rng = np.random.default_rng(0)
    h = rng.choice([0.1, 0.5, 1.0], size=(8, 8))
    h = np.triu(h, 1) + np.triu(h, 1).T
    problem = DispersionProblem(h, rng.choice([0.0, 0.3], size=8), size=4, weight=0.7)
    scaled = ScaledProblem.of(problem)
    attainable = Attainable(scaled)
    assert attainable.known
    values = np.unique(np.round([scaled.value(problem.objective(s)) for s in selections(8, 4)], 12))
    for low, high in itertools.pairwise(values):
        assert low < attainable.above(low) <= high + 1e-12
    alike = ScaledProblem.of(DispersionProblem(1.0 - np.eye(5), size=3))
    assert Attainable(alike).above(alike.value(6.0)) == math.inf  # 6 is the only value there is


@pytest.mark.parametrize("seed", range(12))
def test_every_value_is_listed_in_rational_arithmetic(seed):
    """Within `error` where data nearly agree, costs small or large: so no better selection is stepped over."""
    rng = np.random.default_rng(seed)
    n, m = 6, int(rng.integers(2, 5))
    step = 9e-14 * (seed % 2)  # each near the next: a group, as wide as five of them
    near = 1 + step * rng.integers(0, 6, (n, n))
    h = np.triu(rng.choice([0.5, 0.7, 1.0][: rng.integers(1, 4)], (n, n)) * near, 1)
    costs = rng.choice([0.3, 1.1], n) * (1 + step * rng.integers(0, 6, n)) * 10.0 ** rng.integers(-3, 4)
    scaled = ScaledProblem.of(DispersionProblem(h + h.T, costs, size=m, weight=0.7))
    attainable = Attainable(scaled)
    assert attainable.known
    entries = np.add.outer(attainable.products, attainable.linears).ravel()
    for chosen in map(list, itertools.combinations(range(n), m)):
        terms = *scaled.quadratic[np.ix_(chosen, chosen)].ravel(), *scaled.linear[chosen]
        value = sum(map(Fraction, map(float, terms)))
        nearest = float(entries[np.abs(entries - float(value)).argmin()])
        assert abs(Fraction(nearest) - value) <= attainable.error - scaled.error
        assert attainable.above(float(value) - 3.01 * attainable.error) <= value


@pytest.mark.parametrize(("distances", "costs"), [(28, 1), (1, 16)])
def test_too_many_values_are_not_listed(distances, costs):
    """Of distances or of costs: then nothing is known."""
    n, rng = 16, np.random.default_rng(0)
    h = np.triu(rng.integers(1, distances + 1, (n, n)), 1).astype(float)
    attainable = Attainable(ScaledProblem.of(DispersionProblem(h + h.T, np.arange(n) % costs, size=8)))
    assert not attainable.known
    assert attainable.above(3.0) == 3.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_clients(dtype):
    """The bound for thousands of clients is above the optimum and near it, in either precision."""
    base = euclidean_problem(80, 12, 4)
    problem = DispersionProblem(base.distances.astype(dtype), None, size=12, weight=0.5)
    assert problem.distances.dtype == dtype
    best = solve(problem, "branch-and-bound", time_limit=30)
    run = Run(problem, "many", None, 0)
    run.offer(best.x)
    uniform_shift_bound(problem, run)
    assert run.bound >= best.objective
    assert run.bound <= best.objective * 1.05
    large = solve(problem, "branch-and-bound", largest=50)
    assert large.bound >= best.objective


def test_lanczos_agrees_with_eigenvalues():
    problem = uniform_problem(350, 10)
    j = np.eye(350) - 1 / 350
    exact = np.linalg.eigvalsh(j @ problem.distances @ j)[-1]
    assert top_eigenvalue(problem.distances) == pytest.approx(exact, rel=5e-3)


def test_concave_on_slice():
    assert euclidean_problem(30, 5).concave_on_slice
    assert not uniform_problem(30, 5).concave_on_slice


@needs_mdplib
@pytest.mark.parametrize(("name", "size", "best"), mdplib())
def test_no_bound_below_the_best_known(name, size, best):
    problem = read_mdplib(f"{MDPLIB}/{name}.txt", size=size)
    assert problem.trivial_bound() >= best - 2e-2
    assert solve(problem, "sdp", strength="basic", time_limit=20).bound >= best - 2e-2
    assert solve(problem, "branch-and-bound", time_limit=3, moves=100).bound >= best - 2e-2
