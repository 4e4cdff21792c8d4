"""The schedule problem: enumeration, minimum-cost flow, residual cycles, majorisation, bound, sentences."""

from __future__ import annotations

import itertools
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from solvers import InvalidProblem, load, methods, solve
from solvers.run import Run
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem, find_exchange
from tests.thoroughly import few_of


def all_counts(problem):
    """Every vector of counts that a schedule reaches, by plain enumeration of the rounds."""
    rounds = [
        list(itertools.combinations(np.flatnonzero(there).tolist(), size))
        for there, size in zip(problem.available, problem.sizes.tolist(), strict=True)
    ]
    found = set()
    for chosen in itertools.product(*rounds):
        counts = problem.counts.tolist()
        for k in itertools.chain(*chosen):
            counts[k] += 1
        found.add(tuple(counts))
    return found


def variance(counts):
    mean = Fraction(sum(counts), len(counts))
    return float(sum((v - mean) ** 2 for v in counts) / len(counts))


def random_problem(rng, clients=6, rounds=6):
    n, t = int(rng.integers(1, clients)), int(rng.integers(1, rounds))
    available = rng.random((t, n)) < rng.random()
    before = rng.integers(0, 4, n) if rng.random() < 0.4 else None
    return ScheduleProblem(available, int(rng.integers(1, n + 1)), before)


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 120), (1, 1500)], 1))
def test_thousands_of_small_cases_against_enumeration(seed, cases):
    rng = np.random.default_rng(seed)
    proved = improvable = 0
    for case in range(cases):
        problem = random_problem(rng)
        best = min(variance(counts) for counts in all_counts(problem))
        assert problem.bound() <= best
        for entry in methods(problem):
            solution = solve(problem, entry.name)
            assert solution.objective == variance(problem.turns(solution.x).tolist())
            if entry.kind == "exact":
                assert (solution.objective, solution.status) == (best, "optimal"), (case, entry.name)
                proved += 1
            path = find_exchange(problem, solution.x)
            assert (path is None) == (solution.objective == best), (case, entry.name)
            improvable += path is not None
    assert proved == 4 * cases
    assert improvable > 0


def test_an_exchange_lowers_the_variance():
    rng = np.random.default_rng(2)
    improved = 0
    for _ in range(300):
        problem = random_problem(rng, 8, 8)
        table = solve(problem, "round-by-round", seed=int(rng.integers(99))).x.copy()
        before = problem.objective(table)
        path = find_exchange(problem, table)
        if path is None:
            continue
        for giver, t, taker in zip(path[:-1:2], path[1::2], path[2::2], strict=True):
            assert table[t, giver]
            assert not table[t, taker]
            table[t, giver], table[t, taker] = False, True
        assert problem.violation(table) == 0
        assert problem.objective(table) < before
        improved += 1
    assert improved >= 10


def residual(problem, table):
    """The residual network of the convex-cost flow, built anew: an arc's weight is what a turn more, or less, costs."""
    graph = nx.DiGraph()
    turns = problem.turns(table)
    for k, v in enumerate(turns.tolist()):
        graph.add_edge(("client", k), "sink", weight=2 * v + 1)
        if v > problem.counts[k]:
            graph.add_edge("sink", ("client", k), weight=1 - 2 * v)
    for t, k in zip(*np.nonzero(problem.available), strict=True):
        forward, backward = (("round", t), ("client", k)), (("client", k), ("round", t))
        graph.add_edge(*(backward if table[t, k] else forward), weight=0)
    return graph


def test_no_negative_cycle_is_left():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = ScheduleProblem(rng.random((15, 20)) < rng.uniform(0.1, 0.6), 4, rng.integers(0, 5, 20))
        for name in ("exchanges", "min-cost-flow"):
            assert not nx.negative_edge_cycle(residual(problem, solve(problem, name).x))


@pytest.mark.parametrize("kind", ["uniform", "skewed", "days and nights"])
def test_exchanges_and_flow_agree_on_larger_ones(kind):
    rng = np.random.default_rng(4)
    longer = 0
    for seed in range(8):
        rates = rng.beta(0.3, 1, 60) if kind == "skewed" else np.full(60, 0.3)
        available = rng.random((40, 60)) < rates
        if kind == "days and nights":
            shift = rng.integers(0, 20, 60)
            available = (np.arange(40)[:, None] + shift) % 20 < rng.integers(2, 9, 60)
        problem = ScheduleProblem(available, int(rng.integers(1, 20)))
        ours, theirs = solve(problem, "exchanges", seed=seed), solve(problem, "min-cost-flow")
        assert ours.objective == theirs.objective
        assert ours.status == theirs.status == "optimal"
        longer += solve(problem, "round-by-round", seed=seed).objective > ours.objective
    assert longer


def test_the_optimum_is_best_for_every_convex_function():
    """The sorted counts of the optimum are majorised by those of every schedule."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        problem = random_problem(rng)
        best = np.cumsum(sorted(problem.turns(solve(problem).x).tolist(), reverse=True))
        for counts in all_counts(problem):
            assert (np.cumsum(sorted(counts, reverse=True)) >= best).all()


def test_the_rest_of_the_future_is_worth_something():
    """Round by round gives both first turns to the clients that come back, and a horizon of all rounds does not."""
    problem = ScheduleProblem([[1, 1, 0], [1, 0, 1], [1, 0, 0]], 1)
    assert solve(problem, "rolling", horizon=3).objective == solve(problem).objective == 0
    rng = np.random.default_rng(6)
    values = {1: 0.0, 4: 0.0, 30: 0.0}
    for _ in range(10):
        case = ScheduleProblem(rng.random((30, 20)) < rng.beta(0.4, 1, 20), 3)
        for horizon in values:
            values[horizon] += solve(case, "rolling", horizon=horizon).objective
        assert solve(case, "rolling", horizon=30).objective == solve(case).objective
    assert values[1] > values[30]


def test_start_time_limit_and_files(tmp_path):
    problem = ScheduleProblem(np.random.default_rng(7).random((30, 200)) < 0.3, 20, np.arange(200) % 3)
    again = load(problem.save(tmp_path / "problem.npz"))
    assert isinstance(again, ScheduleProblem)
    best = solve(problem)
    assert solve(again, start=best.x).objective == best.objective
    assert solve(again, start=best.x).trace[0].objective == best.objective
    assert best.x.dtype == bool


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([1, 0], 1), "available must be a table of rounds by clients"),
        ((np.zeros((0, 3)), 1), "available must be a table of rounds by clients"),
        (([[0.5]], 1), "available must hold truth values or 0 and 1"),
        (([["yes"]], 1), "available must hold truth values or 0 and 1"),
        (([[1]], 0), "size must be an integer of at least 1; got 0"),
        (([[1]], 1, [1, 2]), "counts must have one entry per client, 1"),
        (([[1]], 1, [-1]), "counts must be whole numbers from 0"),
        (([[1]], 1, [0.5]), "counts must be whole numbers from 0"),
        (([[1, 0], [1]], 1), "its rows differ in length"),
        (([[1]], 1, ["once"]), "counts must be numbers"),
        (([[1]], 1, [2**70]), "counts must be whole numbers from 0"),
        (([[1]], 1, [float("nan")]), "counts must be finite"),
        (([[1]], 1, np.array([3 + 0j])), "counts must be real numbers"),
        (([[1]], 1, None, np.array([1 + 0j])), "sizes must be real numbers"),
    ],
)
def test_bad_data_are_sentences(fields, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        ScheduleProblem(*fields)


def test_a_size_beyond_64_bits_selects_everybody():
    assert ScheduleProblem([[1, 0], [1, 1]], 2**70).sizes.tolist() == [1, 2]


def test_brute_force_says_when_there_is_too_much():
    with pytest.raises(InvalidProblem, match="brute-force would look at more than"):
        solve(ScheduleProblem(np.ones((9, 30)), 10), "brute-force")


def test_given_sizes_of_rounds_against_enumeration():
    rng = np.random.default_rng(12)
    for _ in range(40):
        available = rng.random((3, 5)) < 0.7
        sizes = rng.integers(0, available.sum(axis=1) + 1)
        problem = ScheduleProblem(available, 5, sizes=sizes)
        best = solve(problem, "brute-force").objective
        for method in ("exchanges", "min-cost-flow"):
            found = solve(problem, method)
            assert found.objective == pytest.approx(best, abs=1e-12)
            assert found.x.sum(axis=1).tolist() == sizes.tolist()
        assert problem.bound() <= best + 1e-12
    with pytest.raises(InvalidProblem, match="round 1 has 3 of 2"):
        ScheduleProblem([[1, 1], [1, 1]], 1, sizes=[1, 3])
    with pytest.raises(InvalidProblem, match="sizes must have one entry per round, 2"):
        ScheduleProblem([[1, 1], [1, 1]], 1, sizes=[1])


def exact_variance(counts):
    mean = Fraction(sum(counts), len(counts))
    return sum((v - mean) ** 2 for v in counts) / len(counts)


@pytest.mark.parametrize("name", ["auto", "exchanges", "min-cost-flow", "brute-force"])
def test_counts_whose_variances_floats_cannot_tell_apart(name):
    """From 1e9 on the variance is 1e17 and more, of which a float says 16 at a time; whole numbers decide."""
    rng = np.random.default_rng(4)
    problems = [ScheduleProblem([[1, 1, 1], [0, 0, 1]], 1, [0, 10**9, 0])]
    while len(problems) < 40:
        n = int(rng.integers(3, 6))
        counts = rng.integers(0, 3, n)
        counts[rng.integers(n)] += int(rng.choice([10**9, 2**31 - 10]))
        problems.append(ScheduleProblem(rng.random((3, n)) < 0.7, int(rng.integers(1, 3)), counts))
    for problem in problems:
        best = min(map(exact_variance, all_counts(problem)))
        found = solve(problem, name)
        assert exact_variance(problem.turns(found.x).tolist()) == best
        assert found.status == "optimal"
        assert Fraction(found.bound) <= best
        assert Fraction(problem.bound()) <= best


def test_a_start_that_floats_call_as_good_is_improved():
    problem = ScheduleProblem([[1, 1, 1], [0, 0, 1]], 1, [0, 10**9, 0])
    start = np.array([[0, 0, 1], [0, 0, 1]])
    assert problem.objective(start) == problem.objective([[1, 0, 0], [0, 0, 1]])
    assert problem.turns(solve(problem, start=start).x).tolist() == [1, 10**9, 1]


def test_rolling_takes_all_counts_that_the_problem_takes():
    problem = ScheduleProblem(np.ones((8, 3)), 3, [2**31, 2**31 - 1, 0])
    assert problem.turns(solve(problem, "rolling").x).tolist() == [2**31 + 8, 2**31 + 7, 8]


@pytest.mark.parametrize("kind", [ScheduleProblem, DiverseScheduleProblem])
def test_brute_force_looks_at_the_clock_while_it_lists_selections(kind, monkeypatch):
    """A round of 24 has 2.7 million selections of 12: the list alone took half a minute."""
    looks = []
    monkeypatch.setattr(Run, "expired", property(lambda run: looks.append(run) or len(looks) > 50))
    data = {"distances": np.ones((24, 24)) - np.eye(24)} if kind is DiverseScheduleProblem else {}
    problem = kind(np.ones((3, 24)), 12, **data)
    assert solve(problem, "brute-force", time_limit=10.0).x is None
    assert len(looks) < 100


@pytest.mark.parametrize("name", ["auto", "brute-force"])
def test_bounds_of_diverse_schedules_hold_exactly(name):
    """Against fractions of the very distances, where variance and distances nearly cancel, too."""
    rng, compared = np.random.default_rng(7), 0
    for case in range(25):
        n = int(rng.integers(2, 5))
        distances = np.triu(rng.random((n, n)), 1)
        available = rng.random((2, n)) < 0.8
        weight = float(rng.choice([0.0, 0.01, 0.1, 1.0]))
        problem = DiverseScheduleProblem(
            available, 2, rng.integers(0, 3, n), distances=distances + distances.T, weight=weight
        )
        rounds = [
            itertools.combinations(np.flatnonzero(row).tolist(), int(m))
            for row, m in zip(available, problem.sizes, strict=True)
        ]
        best = min(
            exact_variance([int(c) + sum(k in each for each in rows) for k, c in enumerate(problem.counts)])
            - Fraction(weight) * sum(Fraction(problem.distances[i, j]) for each in rows for i in each for j in each)
            for rows in itertools.product(*rounds)
        )
        found = solve(problem, name)
        assert Fraction(found.bound) <= best, case
        assert found.status == "optimal"
        compared += 1
    assert compared == 25
