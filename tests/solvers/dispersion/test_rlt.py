"""The level-1 RLT bound: against enumeration for any multipliers, and against its linear programme."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers import solve
from solvers.dispersion import DispersionProblem, relaxations
from solvers.dispersion.memory import Memory
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.sifting import SiftedRelaxation
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.run import Run
from tests.solvers.dispersion.instances import KINDS, naive_optimum, problems, random_problem
from tests.thoroughly import few_of, tried


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


@tried(40, 200, problem=problems(most=8), seed=st.integers(0, 2**31), size=st.sampled_from([0, 1, 2**20, 2**40]))
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


@tried(40, 100, seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), short=st.floats(0, 0.2))
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


# -- a core, sifted ----------------------------------------------------------------------------------------------------


def raised_value(raised, chosen):
    """Value of a selection (positions of ``raised.ids``) in a raised objective, as a fraction."""
    value = sum(Fraction(raised.linear[i]) for i in chosen)
    return value + sum(Fraction(raised.quadratic[i, j]) for i in chosen for j in chosen if i != j)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), wild=st.booleans())
def test_a_raised_objective_is_never_less_whatever_the_weights(seed, kind, wild):
    """Each selection is worth no less in exact arithmetic, be a client's weights over the core the best or any."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 10, int(rng.integers(2, 5)), kind)
    rows = relaxation_of(problem)
    rows.descend(-4.0, 20)
    sifting = SiftedRelaxation(rows, rng.choice(10, problem.size, replace=False), first=4)
    sifting.relaxation = sifting._over(sifting.core)
    sifting._solve(int(rng.integers(1, 60)), lambda: False)
    if wild:
        sifting._weights = lambda others: rng.normal(size=(others.size, sifting.core.size))
    raised, *_ = sifting._raised()
    for chosen in problem.feasible.selections():
        places = np.searchsorted(raised.ids, chosen)
        assert raised_value(raised, places) >= exact_values(rows.normal, [chosen])[0]


def check_sifting(seed, kind, short):
    """Better selections stay among the clients left, and the bound holds, core after core; return the cores' sizes."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 14, int(rng.integers(2, 5)), kind)
    rows = relaxation_of(problem)
    selections = list(problem.feasible.selections())
    values = [float(each) for each in exact_values(rows.normal, selections)]
    best, target = max(values), max(values) - short
    rows.descend(target, 50)
    sifting = SiftedRelaxation(rows, np.array(selections[int(np.argmax(values))]), first=4, more=2)
    sizes = [sifting.core.size]
    for _ in range(4):
        if sifting.is_done or not sifting.advance(target, lambda: False):
            break
        sizes.append(sifting.core.size)
        ids = set(sifting.rows.ids.tolist())
        assert all(set(each) <= ids for each, value in zip(selections, values, strict=True) if value > target + 1e-12)
        assert max(sifting.rows.bound(), target) >= best - 1e-12
    if sifting.relaxation is not None:
        ids = set(sifting.survivors(target - 1e-12, lambda: False).tolist())
        assert all(set(each) <= ids for each, value in zip(selections, values, strict=True) if value > target + 1e-12)
    return sizes


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), short=st.floats(0, 0.2))
def test_sifting_keeps_every_better_selection_and_its_bound_holds(seed, kind, short):
    check_sifting(seed, kind, short)


def test_a_first_core_that_grows_before_it_is_extended_is_as_sound(monkeypatch):
    monkeypatch.setattr(relaxations.sifting, "_MANY_NEAR", 0)
    monkeypatch.setattr(relaxations.sifting, "_GROWTH", 3)
    sizes = [check_sifting(seed, kind, 0.1) for seed, kind in enumerate(KINDS)]
    assert any(first <= 4 and second == first + 3 for first, second, *_ in sizes)


def test_steps_end_where_as_many_clients_are_left_as_are_chosen():
    """Rows that choose each other leave nothing to do: the bound is their value, and no step is made."""
    problem = random_problem(np.random.default_rng(2), 12, 4, "euclidean")
    relaxation, best = relaxation_of(problem), solve(problem, "brute-force")
    kept = np.flatnonzero(best.x)
    relaxation.ids, relaxation.linear = kept, np.ascontiguousarray(relaxation.linear[kept])
    relaxation.shares = np.ascontiguousarray(relaxation.shares[np.ix_(kept, kept)])
    relaxation._appraise()
    target = relaxation.normal.value(best.objective) - 1.0
    assert relaxation.descend(target, 50) == 0
    assert relaxation.has_converged
    assert relaxation.leave_out(target) == 0
    assert relaxation.normal.original(relaxation.bound()) == pytest.approx(best.objective, abs=1e-9 * problem.scale)


def test_a_core_comes_near_the_doubly_nonnegative_bound_of_all():
    """Over sixty clients with a core of a third, the bound is that of `dnn` without cuts, far below the rows'."""
    rng = np.random.default_rng(5)
    points = rng.dirichlet(np.full(8, 0.5), 60)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    problem = DispersionProblem(h, rng.integers(0, 3, 60) * 0.05, size=4, weight=1 / 12)
    best = solve(problem, "brute-force")
    rows = relaxation_of(problem)
    target = rows.normal.value(best.objective) - 1e-9
    rows.descend(target, 2_000)
    before = rows.bound()
    sifting = SiftedRelaxation(rows, np.flatnonzero(best.x), first=20, more=10)
    least = before
    while not sifting.is_done and sifting.advance(target, lambda: False):
        least = min(least, sifting.rows.bound())
    whole = solve(problem, "dnn", cuts=0).bound
    assert rows.normal.original(least) <= max(whole, best.objective) + 0.02 * problem.scale
    assert rows.normal.original(before) > rows.normal.original(least)


def test_a_core_is_remembered_by_client_and_outlives_a_state():
    problem = random_problem(np.random.default_rng(3), 12, 3, "uniform")
    first, later = Memory(), Memory()
    first.keep_core(problem, np.array([2, 5, 7]))
    state = first.state_dict()
    later.load_state_dict(state)
    assert later.core(problem).tolist() == [2, 5, 7]
    there = np.array([0, 2, 7, 9])
    part = DispersionProblem(problem.distances[np.ix_(there, there)], size=2, clients=problem.clients[there])
    assert later.core(part).tolist() == [1, 2]
    later.load_state_dict({name: array for name, array in state.items() if name != "core"})
    assert later.core(problem).size == 0
