"""Methods of the deadline problem: enumeration, each other, published rule, bounds, times of many digits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidProblem, methods, solve
from solvers.deadline import DeadlineProblem, fedcs_order
from solvers.deadline import chain as chain_module
from solvers.deadline.chain import Chain, exchanged, exchanged_in_pairs, multipliers
from solvers.deadline.counting import Part, branch_on_counts, on_a_line, relaxed, running_times
from solvers.run import Run
from tests.thoroughly import few_of, tried

EXACT = ("branch-and-bound", "auto", "brute-force", "dynamic-programme", "moore-hodgson")


def best_of(problem):
    """The best value by FedCS's recursion over all subsets, in fractions; shares nothing with the problem."""
    n, best = len(problem.ready), Fraction(0)
    ready, upload = ([Fraction(t) for t in times.tolist()] for times in (problem.ready, problem.upload))
    values = [Fraction(1)] * n if problem.values is None else [Fraction(v) for v in problem.values.tolist()]
    by_ready = sorted(range(n), key=lambda k: ready[k])
    for chosen in itertools.product((False, True), repeat=n):
        elapsed, value = min(ready), Fraction(0)
        for k in by_ready:
            if chosen[k]:
                elapsed, value = max(elapsed, ready[k]) + upload[k], value + values[k]
        if not any(chosen) or elapsed <= problem.deadline:
            best = max(best, value)
    return float(best)


def random_problem(rng, largest=8):
    """Ties, zeros, whole and real numbers, deadlines that nobody and everybody meets."""
    n = int(rng.integers(1, largest))
    if rng.random() < 0.5:
        ready, upload, deadline = rng.integers(0, 10, n), rng.integers(0, 6, n), float(rng.integers(0, 20))
    else:
        ready, upload, deadline = rng.uniform(-2, 9, n), rng.lognormal(0, 1, n), float(rng.uniform(-2, 18))
    kind = rng.integers(4)
    values = (None, rng.integers(0, 5, n), rng.lognormal(0, 1, n), np.full(n, 0.7))[kind]
    return DeadlineProblem(ready, upload, deadline, values)


@pytest.mark.parametrize(("seed", "cases"), few_of([(0, 50), (0, 150), (1, 1500)], 1))
def test_thousands_of_small_cases_against_enumeration(seed, cases):
    rng = np.random.default_rng(seed)
    solved = 0
    for case in range(cases):
        problem = random_problem(rng)
        best = best_of(problem)
        for entry in methods(problem):
            if entry.name in ("cp-sat", "milp"):
                continue
            solution = solve(problem, entry.name)
            assert problem.violation(solution.x) == 0
            assert solution.objective <= best + 1e-12, (case, entry.name)
            if entry.name in EXACT:
                assert solution.status == "optimal", (case, entry.name)
                assert solution.objective == pytest.approx(best, abs=1e-6 * min(max(1, best), problem.scale))
                assert solution.bound >= best, (case, entry.name)
                solved += 1
    assert solved >= 3 * cases


def test_backends_against_enumeration():
    rng = np.random.default_rng(2)
    for _ in range(25):
        problem = random_problem(rng)
        best = best_of(problem)
        for name in ("cp-sat", "milp"):
            solution = solve(problem, name)
            assert solution.objective == pytest.approx(best, abs=1e-9)
            assert solution.bound >= best


@tried(
    15,
    60,
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=9),
    st.integers(-1, 40),
    st.sampled_from([1.0, 0.1, 1e-9, 1e9, 2.0**-300]),
)
def test_moore_and_hodgson_select_the_most(clients, deadline, unit):
    ready, upload = np.array(clients, dtype=float).T * unit
    problem = DeadlineProblem(ready, upload, deadline * unit)
    assert solve(problem, "moore-hodgson").objective == best_of(problem)


def test_the_published_rule_is_fedcs_own():
    """Step by step: the least elapsed time over all clients left, until it misses the deadline."""
    rng = np.random.default_rng(3)
    lost = 0
    for _ in range(300):
        problem = random_problem(rng, 10)
        left, chosen, elapsed = set(range(problem.n)), [], min(Fraction(t) for t in problem.ready.tolist())
        while left:
            ends = {k: max(elapsed, Fraction(problem.ready[k])) + Fraction(problem.upload[k]) for k in left}
            k = min(left, key=lambda k: (ends[k], k))
            if ends[k] > problem.deadline:
                break
            elapsed = ends[k]
            left.remove(k)
            chosen.append(k)
        assert fedcs_order(problem) == chosen
        assert len(fedcs_order(problem, strict=True)) <= len(chosen)
        lost += len(chosen) < solve(DeadlineProblem(problem.ready, problem.upload, problem.deadline)).objective
    assert lost > 20  # the published heuristic solves a polynomial problem suboptimally


def test_strict_asks_for_an_end_before_the_deadline():
    problem = DeadlineProblem([0, 0], [1, 2], 3)
    assert solve(problem, "fedcs").objective == 2
    assert solve(problem, "fedcs", strict=True).objective == 1


def test_a_deadline_that_nobody_meets_selects_nobody():
    problem = DeadlineProblem([5.0, 6.0], [1.0, 1.0], 4.0, [1.0, 2.0])
    for entry in methods(problem):
        solution = solve(problem, entry.name)
        assert solution.selected.size == 0
        assert solution.objective == 0
        assert entry.kind != "exact" or solution.status == "optimal"


def test_methods_for_some_problems_say_so():
    valued = DeadlineProblem([0.1, 0.2], [2.25 + 2.0**-40, 2.75], 4.0, [1.1, 2.2])
    with pytest.raises(InvalidProblem, match="moore-hodgson counts clients; these have different values"):
        solve(valued, "moore-hodgson")
    with pytest.raises(InvalidProblem, match="in whole numbers of few digits"):
        solve(valued, "dynamic-programme")
    with pytest.raises(InvalidProblem, match="takes times of at most 62 bits"):
        solve(DeadlineProblem([0, 0], [1e-30, 1.0], 4.0), "dynamic-programme")
    with pytest.raises(InvalidProblem, match="brute-force would look at all selections of 21 clients"):
        solve(DeadlineProblem(np.zeros(21), np.ones(21), 99.0), "brute-force")
    assert "moore-hodgson" not in [entry.name for entry in methods(valued)]


def test_times_of_more_than_62_bits():
    """The search rounds them in both directions, and the selection that a rounding lets in is not offered."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        n = 7
        upload = rng.lognormal(0, 1, n) + 2.0**-45 * rng.random(n)
        chosen = rng.permutation(n)[:4]
        total = float(sum(Fraction(t) for t in upload[chosen].tolist()))  # rounded: just met, or just missed
        problem = DeadlineProblem(np.zeros(n), upload, total, rng.lognormal(0, 1, n))
        solution = solve(problem, "branch-and-bound")
        assert problem.violation(solution.x) == 0
        assert solution.bound >= best_of(problem)
        assert solution.objective <= best_of(problem) + 1e-12
    apart = DeadlineProblem([0, 0, 0], [1e-200, 1.0, 1.0], 1.0, [1.0, 2.0, 3.0])
    assert not Chain.of(apart).is_exact
    solution = solve(apart, "branch-and-bound")
    assert solution.selected.tolist() == [2]
    assert solution.bound >= 3.0


def test_multipliers_bound_everything_whatever_their_prices():
    rng = np.random.default_rng(5)
    for _ in range(100):
        problem = random_problem(rng, 8)
        chain = Chain.of(problem)
        if chain.clients.size:
            known = multipliers(chain)
            assert (np.diff(known.price) <= 0).all()
            assert known.ahead[0] + known.margin >= best_of(problem)


@pytest.mark.thorough
def test_a_thousand_valued_clients_are_proved():
    rng = np.random.default_rng(6)
    problem = DeadlineProblem(rng.lognormal(3, 1, 1000), rng.lognormal(0, 1, 1000), 300.0, rng.lognormal(0, 1, 1000))
    solution = solve(problem)
    assert solution.status == "optimal"
    assert solve(problem, "milp", time_limit=20).objective <= solution.bound
    assert solution.objective >= solve(problem, "greedy").objective


@pytest.mark.parametrize("shift", [0.0, 3.0, -1.0])
def test_exchanges_are_in_time_and_branching_on_counts_bounds(shift):
    """On values that follow times, against enumeration; counts are sharper where each client brings a constant."""
    rng, sharper = np.random.default_rng(5), 0
    for _ in range(8):
        upload = rng.integers(2, 20, 9).astype(float)
        problem = DeadlineProblem(rng.integers(0, 40, 9), upload, 45.0, np.maximum(upload + shift, 0.0))
        best = solve(problem, "brute-force").objective
        chain, run = Chain.of(problem), Run(problem, "test", None, 0)
        if not chain.clients.size:
            continue
        most = solve(DeadlineProblem(problem.ready, upload, 45.0), "moore-hodgson").selected
        free = multipliers(chain).ahead[0]
        run.offer(np.zeros(9, dtype=np.int64))
        bound = branch_on_counts(problem, run, chain, chain, np.ones(chain.clients.size, dtype=bool))
        assert best <= bound <= free + 1e-6
        sharper += bound < free - 1e-6
        taken = exchanged(chain, np.isin(chain.clients, most), run)
        x = np.isin(np.arange(9), chain.clients[taken]).astype(int)
        assert problem.violation(x) == 0
        assert problem.objective(most_of(most)) <= problem.objective(x) <= best
    assert sharper > 0


def test_parts_bound_the_selections_in_them():
    """Ranges of counts and decided clients, all of two of them: each part's bound against enumeration."""
    rng = np.random.default_rng(6)
    for _ in range(5):
        problem = DeadlineProblem(rng.integers(0, 20, 7), rng.integers(2, 12, 7), 30.0, rng.uniform(1, 9, 7))
        chain = Chain.of(problem)
        n = chain.clients.size
        members = rng.random(n) < 0.6
        rows = running_times(chain)
        for low, first, last in itertools.product((0, 1, 2), (False, True), (False, True)):
            part = Part({n // 2: (low, low + 1)}, {0: first, n - 1: last})
            fit = [
                chain.values[x].sum()
                for x in (np.array(bits, dtype=bool) for bits in itertools.product((0, 1), repeat=n))
                if chain.fits(x)
                and (x[0], x[-1]) == (first, last)
                and low <= (x & members)[: n // 2 + 1].sum() <= low + 1
            ]
            assert relaxed(chain, members, part, rows).bound >= max(fit, default=-np.inf)


def test_pairs_fill_what_no_single_exchange_does():
    """Two of 6 and 9 in the place of two of 7: single ones change the time by too much or too little."""
    upload = np.array([7.0, 7.0, 6.0, 9.0])
    chain = Chain.of(DeadlineProblem(np.zeros(4), upload, 15.0, upload))
    order, run = chain.clients, Run(DeadlineProblem(np.zeros(4), upload, 15.0, upload), "test", None, 0)
    taken = np.isin(order, [0, 1])
    assert (exchanged(chain, taken, run) == taken).all()
    better = exchanged_in_pairs(chain, taken, np.where(order < 2, 0.5, 1.0))
    assert sorted(order[better]) == [2, 3]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [9, 5])
def test_inverse_correlation_in_floats_is_proved(seed):
    """What neither counts nor single exchanges close: a cut client off the line, a room that is not filled."""
    rng = np.random.default_rng([seed, 7])
    upload = rng.uniform(1, 1000, 1000)
    deadline = np.round(upload.sum() / 2)
    problem = DeadlineProblem(rng.uniform(0, deadline, 1000), upload, deadline, np.maximum(upload - 100, 1))
    assert solve(problem).status == "optimal"


def most_of(clients):
    return np.isin(np.arange(9), clients).astype(int)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("shift", [0.0, 60.0])
def test_values_that_follow_times_are_proved(whole, shift):
    rng = np.random.default_rng(2)
    upload = rng.integers(1, 1000, 300).astype(float) if whole else rng.uniform(1, 1000, 300)
    problem = DeadlineProblem(rng.integers(0, 50_000, 300), upload, 60_000.0, upload + (shift if whole else 0.0))
    line = on_a_line(Chain.of(problem))
    assert line is not None
    assert line[0].all()
    assert line[1] == (whole and shift > 0)
    assert solve(problem).status == "optimal"


def milliseconds(rng):
    """A problem whose times take more than 62 bits, and whose best clients end at the deadline to the last of them.

    Client 1 is worth more than client 0, but late in its place by the last bit.
    """
    while True:
        n = int(rng.integers(6, 11))
        upload = rng.integers(1, 300, n) / 1000
        upload[0] = 2.0**-9
        upload[1] = np.nextafter(upload[0], 1.0)
        ready = np.where(np.arange(n) < 4, 0.125, rng.integers(0, 400, n) / 1000)
        values = rng.random(n) + np.array([5, 6, 9, 9] + [0] * (n - 4))
        end = sum(map(Fraction, upload[[0, 2, 3]].tolist()), Fraction(ready[0]))
        problem = DeadlineProblem(ready, upload, float(end), values)
        if Fraction(problem.deadline) == end and not Chain.of(problem).is_exact:
            return problem


def test_the_shortest_upload_comes_first_where_densities_round_to_the_same_number():
    longer, shorter = 2 - 2.0**-52, 2 - 2.0**-51
    problem = DeadlineProblem([0, 0, 0], [longer, shorter, shorter], 2 * shorter)
    assert solve(problem, "greedy").selected.tolist() == [1, 2]


def test_exact_ties_of_milliseconds_are_not_lost():
    """Times were rounded to 62 bits, and a selection that ends at the deadline was lost, or stayed open."""
    rng = np.random.default_rng(5)
    for case in range(60):
        problem = milliseconds(rng)
        found = solve(problem, "auto")
        assert found.status == "optimal", (case, found.message)
        assert found.objective == pytest.approx(best_of(problem), rel=1e-9)


def test_what_stays_open_beside_rounded_times_is_said_so(monkeypatch):
    """Where whole numbers find too many states the rounding is the reason, not the number of pairs."""
    monkeypatch.setattr(chain_module, "_IN_WHOLE_NUMBERS", 0)
    rng = np.random.default_rng(5)
    found = [solve(milliseconds(rng), "branch-and-bound") for _ in range(60)]
    left = [each.message for each in found if each.status != "optimal"]
    assert left
    assert all("62 bits" in message for message in left)


@pytest.mark.parametrize("values", [[8e-300, 5e-300], [1e300, 1e-300], [5e-324, 1.0], [4e307, 4e307], [2.0**60, 1.0]])
def test_values_of_any_size_are_stated_to_cp_sat(values):
    problem = DeadlineProblem([0, 0.0], [1, 1.0], 5.0, values)
    found = solve(problem, "cp-sat")
    assert found.selected.tolist() == [0, 1]
    assert Fraction(found.bound) >= Fraction(values[0]) + Fraction(values[1])


def test_bounds_of_equal_values_hold_exactly():
    rng, compared = np.random.default_rng(9), 0
    for _ in range(200):
        value, n = float(rng.random() + 0.1), int(rng.integers(3, 12))
        problem = DeadlineProblem(np.zeros(n), np.ones(n), float(n), np.full(n, value))
        assert Fraction(solve(problem, "moore-hodgson").bound) >= n * Fraction(value)
        compared += n * Fraction(value) != Fraction(n * value)
    assert compared > 50
