"""The level-1 RLT bound: against enumeration for any multipliers, and against its linear programme."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers import solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.run import Run
from tests.solvers.dispersion.instances import KINDS, naive_optimum, problems, random_problem
from tests.thoroughly import few_of


def relaxation_of(problem):
    normal = Normal.of(problem)
    return RowRelaxation(normal, Run(problem, "rlt", None, 0))


def exact_values(normal, selections):
    """Values of selections in the units of `Normal`, as fractions."""
    found = []
    for chosen in selections:
        value = sum(Fraction(normal.linear[i]) for i in chosen)
        found.append(value + sum(Fraction(normal.quadratic[i, j]) for i in chosen for j in chosen))
    return found


@settings(max_examples=200, deadline=None)
@given(problem=problems(most=8), seed=st.integers(0, 2**31), size=st.sampled_from([0, 1, 2**20, 2**40]))
def test_any_multipliers_give_a_bound_in_exact_arithmetic(problem, seed, size):
    assume(2 <= problem.size < problem.n)
    relaxation, rng = relaxation_of(problem), np.random.default_rng(seed)
    size = min(size, relaxation.most // 4)
    moved = np.triu(rng.integers(-size, size, relaxation.shares.shape, endpoint=True), 1)
    relaxation.shares += moved - moved.T
    relaxation._appraise()
    relaxation.descend(-4.0, 1)
    best = max(exact_values(relaxation.normal, problem.feasible.selections()))
    assert Fraction(relaxation.bound()) >= best


def rlt_bound(problem):
    """The linear programme of Adams and Sherali: products y_ij, rows Σ_j y_ij = (m - 1) s_i."""
    n, m = problem.n, problem.size
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    gain = [2 * problem.weight * float(problem.distances[i, j]) for i, j in pairs]
    rows = np.zeros((n + 1, n + len(pairs)))
    rows[n, :n] = 1
    rows[:n, :n] = -(m - 1) * np.eye(n)
    uppers = np.zeros((2 * len(pairs), n + len(pairs)))
    for k, (i, j) in enumerate(pairs):
        rows[i, n + k] = rows[j, n + k] = 1
        uppers[2 * k, n + k] = uppers[2 * k + 1, n + k] = 1
        uppers[2 * k, i] = uppers[2 * k + 1, j] = -1
    answer = linprog(
        -np.r_[-problem.costs, gain],
        A_ub=uppers,
        b_ub=np.zeros(len(uppers)),
        A_eq=rows,
        b_eq=np.r_[np.zeros(n), m],
        bounds=(0, 1),
    )
    assert answer.success
    return -answer.fun


@pytest.mark.parametrize("seed", few_of(range(20), 5))
@pytest.mark.parametrize("kind", ["uniform", "graph", "euclidean"])
def test_it_comes_near_its_linear_programme_and_never_below(kind, seed):
    problem = random_problem(np.random.default_rng(seed), 14, 4, kind)
    least = rlt_bound(problem)
    relaxation = relaxation_of(problem)
    target = relaxation.normal.value(solve(problem, "brute-force").objective) - 1e-9
    for _ in range(40):
        relaxation.descend(target, 100)
        if relaxation.has_converged:
            break
    found = relaxation.normal.original(relaxation.bound())
    assert found >= least - 1e-7 * problem.scale
    assert found <= max(least, problem.objective(problem.feasible.decision(relaxation.chosen()))) + 0.02 * problem.scale


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), short=st.floats(0, 0.2))
def test_shares_stay_opposite_and_no_better_selection_is_left_out(seed, kind, short):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 9, int(rng.integers(2, 8)), kind)
    relaxation = relaxation_of(problem)
    pair_values = relaxation.shares + relaxation.shares.T
    selections = list(problem.feasible.selections())
    values = exact_values(relaxation.normal, selections)
    target = float(max(values)) - short
    for _ in range(5):
        relaxation.descend(target, 30)
        relaxation.leave_out(target)
        ids = relaxation.ids
        assert np.array_equal(relaxation.shares + relaxation.shares.T, pair_values[np.ix_(ids, ids)])
    better = [chosen for chosen, value in zip(selections, values, strict=True) if value > Fraction(target)]
    assert all(set(chosen) <= set(ids.tolist()) for chosen in better)
    assert Fraction(relaxation.bound()) >= max(values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "size"), [(160, 2), (150, 3)])
def test_auto_proves_few_of_many(kind, n, size):
    """Where clients are left out before the trees, the answer is still that of enumeration."""
    problem = random_problem(np.random.default_rng(n), n, size, kind)
    solution = solve(problem, "auto")
    x = solve(problem, "brute-force")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(x.objective, abs=1e-9 * problem.scale)
    assert solution.bound >= x.objective - problem.rounding


def test_the_bound_of_a_method_holds_and_its_choices_are_offered():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 10, int(rng.integers(2, 9)), KINDS[seed % len(KINDS)])
        solution = solve(problem, "rlt")
        best = naive_optimum(problem)
        assert solution.bound >= best - 4 * problem.rounding
        assert solution.objective <= best + 4 * problem.rounding


def test_too_many_clients_are_a_sentence():
    h = np.ones((6_001, 6_001), dtype=np.float32)
    np.fill_diagonal(h, 0)
    h[0, 1] = h[1, 0] = 0.5
    h.setflags(write=False)
    solution = solve(DispersionProblem(h, size=3), "rlt")
    assert "multipliers are kept for 6000 clients" in solution.message
