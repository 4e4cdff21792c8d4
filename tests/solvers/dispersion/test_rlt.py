"""The level-1 RLT bound: against enumeration for any multipliers, and against its linear programme."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion.memory import Memory
from solvers.dispersion.methods import auto, points
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.sifting import CoreMultipliers, SiftedRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem, units
from solvers.dispersion.tree.dnn_tree import DNNTree
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.run import Run
from tests.solvers.dispersion.instances import KINDS, naive_optimum, problems, random_problem
from tests.thoroughly import few_of, tried


def relaxation_of(problem):
    scaled = ScaledProblem.of(problem)
    return RowRelaxation(scaled, Run(problem, "rlt", None, 0))


def exact_values(scaled, selections):
    """Values of selections in the units of `ScaledProblem`, as fractions."""
    found = []
    for chosen in selections:
        value = sum(Fraction(scaled.linear[i]) for i in chosen)
        found.append(value + sum(Fraction(scaled.quadratic[i, j]) for i in chosen for j in chosen))
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
    best = max(exact_values(relaxation.scaled, problem.feasible.selections()))
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


@pytest.mark.parametrize("seed", few_of(range(20), 2))
@pytest.mark.parametrize("kind", ["uniform", "graph", "euclidean"])
def test_it_comes_near_its_linear_programme_and_never_below(kind, seed):
    problem = random_problem(np.random.default_rng(seed), 14, 4, kind)
    least = rlt_bound(problem)
    relaxation = relaxation_of(problem)
    target = relaxation.scaled.value(solve(problem, "brute-force").objective) - 1e-9
    for _ in range(40):
        relaxation.descend(target, 100)
        if relaxation.has_converged:
            break
    found = relaxation.scaled.original(relaxation.bound())
    assert found >= least - 1e-7 * problem.scale
    assert found <= max(least, problem.objective(problem.feasible.decision(relaxation.chosen()))) + 0.02 * problem.scale


@tried(40, 100, seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), short=st.floats(0, 0.2))
def test_shares_stay_opposite_and_no_better_selection_is_left_out(seed, kind, short):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 9, int(rng.integers(2, 8)), kind)
    relaxation = relaxation_of(problem)
    pair_values = relaxation.shares + relaxation.shares.T
    selections = list(problem.feasible.selections())
    values = exact_values(relaxation.scaled, selections)
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


@tried(10, 25, seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), wild=st.booleans())
def test_a_raised_objective_is_never_less_whatever_the_weights(seed, kind, wild):
    """Each selection is worth no less in exact arithmetic, be a client's weights over the core the best or any."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 10, int(rng.integers(2, 5)), kind)
    rows = relaxation_of(problem)
    rows.descend(-4.0, 20)
    sifting = SiftedRelaxation(rows, rng.choice(10, problem.size, replace=False), policy=Policy(first_core=4))
    sifting.relaxation = sifting._over(sifting.core)
    sifting._solve(int(rng.integers(1, 60)), lambda: False)
    if wild:
        sifting._weights = lambda others: rng.normal(size=(others.size, sifting.core.size))
    raised, *_ = sifting._raised()
    for chosen in problem.feasible.selections():
        places = np.searchsorted(raised.ids, chosen)
        assert raised_value(raised, places) >= exact_values(rows.scaled, [chosen])[0]


def arbitrary_multipliers(rng, core, size):
    """Symmetric numbers of any size: no slack of any relaxation, and products of no selections."""
    slack, products = rng.normal(size=(2, core.size, core.size)) * size
    level, penalty = float(rng.normal() * size), float(rng.uniform(0.01, 1.0))
    return CoreMultipliers(
        core, rng.normal(size=core.size) * size, slack + slack.T, products + products.T, level, penalty
    )


def check_sifting(seed, kind, short, remembered=None, **policy):
    """Better selections stay among the clients left, and the bound holds, core after core; return the cores' sizes."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 14, int(rng.integers(2, 5)), kind)
    rows = relaxation_of(problem)
    selections = list(problem.feasible.selections())
    values = [float(each) for each in exact_values(rows.scaled, selections)]
    best, target = max(values), max(values) - short
    rows.descend(target, 50)
    known = None
    if remembered is not None:
        core = np.sort(rng.choice(rows.ids, int(rng.integers(2, rows.ids.size + 1)), replace=False))
        known = arbitrary_multipliers(rng, core, remembered)
    sifting = SiftedRelaxation(
        rows, np.array(selections[int(np.argmax(values))]), known, Policy(first_core=4, joining_core=2, **policy)
    )
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


def test_rows_beside_a_core_end_with_the_whole_time_and_bound_what_they_should():
    problem = random_problem(np.random.default_rng(3), 40, 4, "graph")
    best, taken = solve(problem, "auto"), []
    for is_over in (False, True):
        rows = relaxation_of(problem)
        target = rows.scaled.value(best.objective) - 1e-9
        if is_over:
            rows.run.halt = threading.Event()
            rows.run.halt.set()
        sifting = SiftedRelaxation(rows, np.flatnonzero(best.x), policy=Policy(first_core=8))
        assert sifting.advance(target, lambda: False)  # the share of the time is not over
        taken.append(sifting.rows.iterations)
        assert rows.scaled.original(max(sifting.rows.bound(), target)) >= best.objective - 1e-9
    assert taken[1] <= 50 < taken[0]


@tried(10, 25, seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), short=st.floats(0, 0.2))
def test_sifting_keeps_every_better_selection_and_its_bound_holds(seed, kind, short):
    check_sifting(seed, kind, short)


@tried(
    10,
    40,
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(KINDS),
    short=st.floats(0, 0.2),
    size=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
)
def test_whatever_multipliers_a_core_starts_from_no_better_selection_is_left_out(seed, kind, short, size):
    check_sifting(seed, kind, short, remembered=size)


@tried(10, 40, seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS), size=st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
def test_a_root_is_bounded_whatever_multipliers_it_starts_from(seed, kind, size):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 12, 4, kind)
    run = Run(problem, "branch-and-bound", None, 0)
    best = naive_optimum(problem)
    run.offer(problem.feasible.decision(np.arange(4)))
    tree = DNNTree(FirstOrderTree(problem, run, 3.0, policy=Policy(enumerable=0)))
    tree.open_root(arbitrary_multipliers(rng, np.arange(12), size))
    tree.advance()
    assert tree.iterations > 0 or kind == "ties"  # one attainable value needs no bound
    assert max(tree.tree.certified(tree.bound), run.objective) >= best - 4 * problem.rounding


def test_a_first_core_that_grows_before_it_is_extended_is_as_sound():
    sizes = [check_sifting(seed, kind, 0.1, many_near_core=0, core_growth=3) for seed, kind in enumerate(KINDS)]
    assert any(first <= 4 and second == first + 3 for first, second, *_ in sizes)


def test_steps_end_where_as_many_clients_are_left_as_are_chosen():
    """Rows that choose each other leave nothing to do: the bound is their value, and no step is made."""
    problem = random_problem(np.random.default_rng(2), 12, 4, "euclidean")
    relaxation, best = relaxation_of(problem), solve(problem, "brute-force")
    kept = np.flatnonzero(best.x)
    relaxation.ids, relaxation.linear = kept, np.ascontiguousarray(relaxation.linear[kept])
    relaxation.shares = np.ascontiguousarray(relaxation.shares[np.ix_(kept, kept)])
    relaxation._appraise()
    target = relaxation.scaled.value(best.objective) - 1.0
    assert relaxation.descend(target, 50) == 0
    assert relaxation.has_converged
    assert relaxation.leave_out(target) == 0
    assert relaxation.scaled.original(relaxation.bound()) == pytest.approx(best.objective, abs=1e-9 * problem.scale)


def test_a_core_comes_near_the_doubly_nonnegative_bound_of_all():
    """Over sixty clients with a core of a third, the bound is that of `dnn` without cuts, far below the rows'."""
    rng = np.random.default_rng(5)
    points = rng.dirichlet(np.full(8, 0.5), 60)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    problem = DispersionProblem(h, rng.integers(0, 3, 60) * 0.05, size=4, weight=1 / 12)
    best = solve(problem, "brute-force")
    rows = relaxation_of(problem)
    target = rows.scaled.value(best.objective) - 1e-9
    rows.descend(target, 2_000)
    before = rows.bound()
    sifting = SiftedRelaxation(rows, np.flatnonzero(best.x), policy=Policy(first_core=20, joining_core=10))
    least = before
    while not sifting.is_done and sifting.advance(target, lambda: False):
        least = min(least, sifting.rows.bound())
    whole = solve(problem, "dnn", cuts=0).bound
    assert rows.scaled.original(least) <= max(whole, best.objective) + 0.02 * problem.scale
    assert rows.scaled.original(before) > rows.scaled.original(least)


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


def letters(n, seed=0):
    """Distances between label distributions, in which cores are looked for."""
    shares = np.random.default_rng(seed).dirichlet(np.full(12, 0.3), n)
    return np.linalg.norm(shares[:, None] - shares, axis=2)


def round_of(h, counts, there, size=8):
    return DispersionProblem.fedgs(h, counts, there, size, 1.0)


def test_multipliers_of_a_core_are_mapped_by_client_and_outlive_a_state():
    h, rng = letters(40), np.random.default_rng(1)
    problem = round_of(h, np.zeros(40), np.ones(40, dtype=bool), size=4)
    core = np.array([3, 5, 8, 13, 21, 34])
    given = arbitrary_multipliers(rng, core, 1.0)
    first, later = Memory(), Memory()
    first.keep_core(problem, core[[1, 0, 3, 2, 5]], given)
    later.load_state_dict(first.state_dict())
    there = np.ones(40, dtype=bool)
    there[[0, 8]] = False
    part = round_of(h, rng.integers(0, 5, 40), there, size=4)
    found, again = (each.multipliers(part, np.arange(part.n)) for each in (first, later))
    kept = np.array([0, 1, 3, 5])  # 8 is missing, 21 was not kept
    assert part.clients[found.core].tolist() == core[kept].tolist()
    # The same distances count as much in both rounds: in the units of each, entries differ by one factor.
    ratio = units(part)[0] * part.weight / (units(problem)[0] * problem.weight)
    assert np.allclose(found.slack, given.slack[np.ix_(kept, kept)] * ratio, rtol=1e-6)
    assert np.allclose(found.products, given.products[np.ix_(kept, kept)], rtol=1e-6)
    assert found.level == pytest.approx(given.level * ratio)
    for name in ("core", "linear", "slack", "products", "level", "penalty"):
        assert np.array_equal(getattr(found, name), getattr(again, name))
    assert first.multipliers(part, np.arange(8)) is None  # most of the core is missing


def test_a_wrong_or_stale_memory_changes_neither_optimum_nor_bound(monkeypatch):
    """A memory of other counts, other clients, another graph or nonsense: the optimum is that of a fresh one."""
    monkeypatch.setattr(auto, "descend", lambda *given, **named: None)  # all clients are left for a core
    resumed = []
    original = SiftedRelaxation._resume
    monkeypatch.setattr(SiftedRelaxation, "_resume", lambda self, known: resumed.append(original(self, known)))
    h, rng = letters(200), np.random.default_rng(2)
    unfixed = Policy(fixing_largest=0)  # quadratic fixing would leave no core
    everybody = np.ones(200, dtype=bool)
    counts = rng.integers(0, 6, 200).astype(float)
    problem = round_of(h, counts, everybody)
    fresh = solve(problem, "auto", policy=unfixed)
    assert fresh.status == "optimal"
    assert "cores" in fresh.details
    stale, missing, foreign, wild = Memory(), Memory(), Memory(), Memory()
    solve(round_of(h, rng.integers(0, 6, 200).astype(float), everybody), "auto", policy=unfixed, memory=stale)
    solve(round_of(h, counts, rng.random(200) < 0.9), "auto", policy=unfixed, memory=missing)
    solve(round_of(letters(200, seed=9), counts, everybody), "auto", policy=unfixed, memory=foreign)
    core = np.sort(rng.choice(200, 120, replace=False))
    wild.keep_core(problem, core, arbitrary_multipliers(rng, core, 1e3))
    for memory in (stale, missing, foreign, wild):
        before = len(resumed)
        found = solve(problem, "auto", policy=unfixed, memory=memory)
        assert len(resumed) == before + 1
        assert found.status == "optimal"
        assert found.objective == pytest.approx(fresh.objective, abs=2e-6 * problem.scale)
        assert found.bound >= fresh.objective - problem.rounding


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", ["linear", "slack", "products", "level", "penalty"])
def test_multipliers_that_no_relaxation_can_start_from_are_left_aside(name, bad):
    """A file that is damaged, or made up: the next round starts afresh."""
    rng = np.random.default_rng(3)
    problem, core = round_of(letters(40), np.zeros(40), np.ones(40, dtype=bool), size=4), np.arange(12)
    given, memory = arbitrary_multipliers(rng, core, 1.0), Memory()
    memory.keep_core(problem, core, given)
    state = memory.state_dict()
    memory.load_state_dict(state)
    assert memory.multipliers(problem, np.arange(40)) is not None
    value = np.array(state[f"core_{name}"], dtype=np.float64)
    value.flat[0] = bad
    memory.load_state_dict(state | {f"core_{name}": value})
    assert memory.multipliers(problem, np.arange(40)) is None
    memory.load_state_dict(state | {"core_penalty": np.array(0.0)})
    assert memory.multipliers(problem, np.arange(40)) is None


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", few_of(range(3), 1))
def test_few_of_many_points_are_proved_by_rows_of_what_reduced_costs_leave(size, seed, monkeypatch):
    """The tangent leaves points to a tree; the level-1 RLT bound proves the optimum of enumeration."""
    called = []
    monkeypatch.setattr(
        points, "auto", lambda problem, run, **options: called.append(auto.auto(problem, run, **options))
    )
    rng = np.random.default_rng(seed)
    problem = PointDispersionProblem(rng.random((200, 10)), rng.random(200) * 0.02, size=size, weight=1.0)
    best = solve(problem, "brute-force")
    found = solve(problem, "branch-and-bound")
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best.objective, abs=2e-6 * problem.scale)
    assert found.bound >= best.objective - problem.rounding
    assert called


@pytest.mark.parametrize(
    "damage",
    [
        {"core_slack": np.zeros((3, 3))},
        {"core_linear": np.zeros(0)},
        {"core_products": np.zeros(12)},
        {"core_clients": np.zeros((12, 12), dtype=np.int64)},
        {"core_level": np.zeros(2)},
        {"core_penalty": np.array("text")},
        {"diagonal": np.zeros(7)},
        {"clients": np.array(3)},
        {"elite": np.arange(4)},
        {"elite": np.array([["a"]])},
        {"core": np.zeros((2, 2), dtype=np.int64)},
        {"core": np.array([0.5])},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_a_memory_refuses_arrays_of_other_shapes_and_types(damage):
    rng, memory = np.random.default_rng(3), Memory()
    problem = round_of(letters(40), np.zeros(40), np.ones(40, dtype=bool), size=4)
    memory.keep_core(problem, np.arange(12), arbitrary_multipliers(rng, np.arange(12), 1.0))
    memory.keep(problem, problem.feasible.decision([0, 1, 2, 3]), np.ones(40))
    state = memory.state_dict()
    memory.load_state_dict(state)
    (name,) = damage
    with pytest.raises(InvalidOption, match=f"'{name}' in the state of a memory|has no array"):
        memory.load_state_dict(state | damage)
    assert solve(problem, "auto", memory=memory).status == "optimal"  # what it had before
    with pytest.raises(InvalidOption, match="has no array 'elite'"):
        memory.load_state_dict({"clients": np.zeros(0)})
