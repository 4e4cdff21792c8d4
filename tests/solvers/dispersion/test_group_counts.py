"""Counts of groups: linear bounds against enumeration in exact numbers, and rounds that they prove."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from solvers import solve
from solvers.benchmark.rounds import Round
from solvers.constraints import Budget
from solvers.dispersion import DispersionProblem
from solvers.dispersion.methods.exact import brute_force
from solvers.dispersion.methods.fixing import Fixing, fix_by_counts, fix_clients
from solvers.dispersion.neighbourhood import ensure_incumbent
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations import group_counts
from solvers.dispersion.relaxations.fixing import ClientBounds
from solvers.dispersion.relaxations.group_counts import CountPrices, GroupCounts
from solvers.run import Run
from tests.solvers.dispersion.cases import selections
from tests.solvers.dispersion.test_fixing import exact_values
from tests.thoroughly import few_of


def labelled(rng: np.random.Generator, *, apart: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances that fall with every group in common, costs with ties, and kinds; some pairs have another distance.

    With ``apart`` no two kinds are alike but for their groups.
    """
    k = int(rng.integers(8, 11))
    kinds = np.concatenate([np.arange(k), rng.integers(0, k, int(rng.integers(0, 3)))])
    between = np.zeros((k, k)) + rng.integers(2, 5)
    own = (rng.random(k), rng.integers(0, 3, k) / 2, np.zeros(k))[0 if apart else rng.integers(3)]
    between += own[:, None] + own
    for _ in range(int(rng.integers(1, 3))):
        members = rng.permutation(k)[:4]
        between[np.ix_(members, members)] -= rng.choice([0.25, 0.5, 0.1])
    for _ in range(int(rng.integers(0, 4))):
        i, j = rng.choice(k, 2, replace=False)
        between[i, j] = between[j, i] = between[i, j] + rng.choice([-0.7, 0.4, 1e-7, -1e-7])
    between[np.arange(k), np.arange(k)] = rng.choice([0.0, 0.01])
    if rng.random() < 0.5:
        between = between.astype(np.float32).astype(float) / 3
    h = between[np.ix_(kinds, kinds)]
    np.fill_diagonal(h, 0.0)
    scale = 10.0 ** rng.integers(-4, 5)
    return h * scale, rng.integers(0, 4, kinds.size) * rng.choice([0.0, 0.3, 2.0]) * scale, kinds


def counted_cases(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, int, GroupCounts]]:
    """Distances, costs and m of small problems that are counts of groups, with these."""
    for _ in range(40):
        h, costs, kinds = labelled(rng)
        m = int(rng.integers(2, costs.size - 1))
        counts = GroupCounts.of(h, -costs, m, kinds, np.argsort(np.argsort(costs, kind="stable")), 1_000)
        if counts is not None:
            yield h, costs, m, counts


def bounds_of(counts: GroupCounts) -> ClientBounds:
    """Bounds at the prices of the linear program."""
    prices = counts.prices(np.inf)
    assert prices is not None
    bounds = counts.bounds(prices)
    assert bounds is not None
    return bounds


def keeping(order: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rows of selections that contain the first client of each pair wherever they contain the second."""
    return chosen[(chosen[:, order[:, 0]] >= chosen[:, order[:, 1]]).all(axis=1)]


@pytest.mark.parametrize("seed", few_of(range(30), 1))
def test_no_bound_is_below_a_restricted_optimum_that_keeps_the_order(seed):
    rng = np.random.default_rng(seed)
    bounded = tight = with_rests = with_order = 0
    for h, costs, m, counts in counted_cases(rng):
        n = costs.size
        bounds = bounds_of(counts)
        chosen = keeping(counts.order, selections(n, m))
        values = exact_values(h, -costs, chosen)
        best = max(values)
        assert best == max(exact_values(h, -costs, selections(n, m)))  # some best one keeps the order
        assert Fraction(bounds.bound) >= best
        for i in range(n):
            with_it = [v for v, row in zip(values, chosen, strict=True) if row[i]]
            without = [v for v, row in zip(values, chosen, strict=True) if not row[i]]
            assert not with_it or Fraction(float(bounds.chosen[i])) >= max(with_it)
            assert not without or Fraction(float(bounds.left_out[i])) >= max(without)
        bounded += 1
        scale = float(np.abs(h).max()) * m * m
        tight += float(bounds.bound) - float(best) < 1e-6 * scale
        with_rests += len(counts.rests) > 0
        with_order += len(counts.order) > 0
        assert counts.error < 1e-9 * scale
    assert bounded >= 12
    assert min(tight, with_rests, with_order) >= 3


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_any_prices_bound_and_state_a_form_that_is_no_less(seed):
    rng = np.random.default_rng(seed)
    stated = 0
    for h, costs, m, counts in counted_cases(rng):
        n = costs.size
        scale = float(np.abs(h).max())
        prices = counts.prices(np.inf)
        is_best = rng.random() < 0.5
        if not is_best:  # as a liar or rounding may have them
            prices = CountPrices(
                rng.random(n),
                rng.normal(size=len(counts.weights)) * m * scale,
                rng.random(len(counts.order)) * scale,
                rng.random(len(counts.rests)),
            )
        bounds, form = counts.bounds(prices), counts.form(prices, 1e-6 * scale)
        assert bounds is not None
        assert form is not None
        diagonal, held, (cuts, weights), dominated = form
        assert min(held.min(), weights.min()) >= 0
        chosen = keeping(counts.order, selections(n, m))
        values = exact_values(h, -costs, chosen)
        assert Fraction(bounds.bound) >= max(values)
        b = np.zeros((len(cuts), n))
        np.add.at(b, (np.arange(len(cuts))[:, None], cuts.members), cuts.signs)
        for row, value in zip(chosen, values, strict=True):
            sums = b @ row
            added = row @ held @ row + weights @ ((sums - cuts.k) * (sums - cuts.k - 1))
            added += (dominated * (row - np.outer(row, row))).sum()
            assert added >= -1e-9 * scale * m * m
            # So the form is worth as much as the objective, or more; on selections it is linear.
            assert not is_best or float(value) + added <= bounds.bound + 1e-6 * scale * m * m
        quadratic = h - np.diag(diagonal) + held + (b.T * weights) @ b - (dominated + dominated.T) / 2
        flat = np.eye(n) - 1 / n
        assert np.linalg.eigvalsh(flat @ quadratic @ flat)[-1] <= 1e-9 * scale
        stated += 1
    assert stated >= 10


def test_counts_and_rests_are_the_objective():
    problem = Round(500, "two", "drawn")()
    fixing = Fixing(problem, Run(problem, "auto", None, 0))
    ensure_incumbent(problem, fixing.run)
    stated = fixing.counts(Policy(groups_rests=100_000))
    assert stated is not None
    counts, _ = stated
    quadratic, linear, _ = fixing.terms()
    rng, compared = np.random.default_rng(1), 0
    for _ in range(20):
        x = np.zeros(fixing.ids.size)
        x[rng.permutation(x.size)[: counts.size]] = 1
        if not len(keeping(counts.order, x[None])):  # the first ones of each kind
            order, place = counts.order, np.arange(x.size)
            for first, second in order:
                place[second] = place[first]
            for kind in np.unique(place):
                of_kind = np.concatenate([[kind], order[place[order[:, 1]] == kind, 1]])
                x[of_kind] = np.arange(of_kind.size) < x[of_kind].sum()
        counted = counts.linear @ x - counts.weights @ (counts.groups @ x) ** 2
        counted += counts.rests @ x[counts.pairs].prod(axis=1)
        compared += 1
        exact = x @ quadratic @ x + linear @ x
        assert exact - 1e-12 <= counted <= exact + 2e-6  # distances in single precision: small rests count too much
    assert compared == 20


@pytest.mark.parametrize(
    ("n", "kind", "by_trees"),
    few_of(
        [
            (500, "half", True),
            (500, "drawn", True),
            (1_000, "drawn", False),
            (500, "played", False),
            (2_000, "drawn", False),
        ],
        1,
    ),
)
def test_rounds_of_two_labels_are_proved_without_a_tree(n, kind, by_trees):
    problem = Round(n, "two", kind)()
    run = Run(problem, "auto", None, 0)
    run.offer(solve(problem, method="tabu", moves=2_000, seed=0).x)
    fixing = fix_clients(problem, run)
    fix_by_counts(fixing)
    assert run.proved
    if by_trees:  # the same optimum without counts
        assert run.bound >= solve(problem, method="auto", policy=Policy(groups_values=0)).objective


@pytest.mark.parametrize("seed", few_of(range(20), 2))
def test_no_better_selection_is_fixed_away(seed):
    rng = np.random.default_rng(seed)
    helped = bounded = 0
    for _ in range(40):
        h, costs, _ = labelled(rng, apart=True)
        problem = DispersionProblem(h, costs, size=int(rng.integers(3, costs.size - 2)))
        run = Run(problem, "auto", None, 0)
        ensure_incumbent(problem, run)
        fixing = Fixing(problem, run)
        fix_by_counts(fixing)
        helped += run.proved or fixing.ids.size < problem.n
        bounded += run.bound is not None
        best = solve(problem, method="brute-force").objective
        assert run.bound is None or run.bound >= best - 1e-9 * abs(best)
        part, inner = (None, None) if fixing.is_decided or run.proved else fixing.part()
        if part is not None:
            brute_force(part, inner)
        assert run.objective >= best - problem.tolerance_at(best, 1e-6)
    assert bounded >= 5
    assert helped >= 3


def test_it_is_for_few_different_distances_and_without_side_constraints():
    spread = Round(300, "0.3", "drawn")()
    labels = Round(500, "two", "drawn")()
    limited = DispersionProblem(labels.distances, labels.costs, size=50, budgets=[Budget(np.ones(500), 100.0)])
    for problem, there in ((spread, False), (labels, True), (limited, False)):
        run = Run(problem, "auto", None, 0)
        ensure_incumbent(problem, run)
        counts = Fixing(problem, run).counts(Policy(groups_rests=100_000))
        assert (counts is not None) == there
    one = np.ones((12, 12)) - np.eye(12)
    assert GroupCounts.of(one, np.zeros(12), 4, np.zeros(12, dtype=int), np.arange(12), 10) is None
    assert GroupCounts.of(np.zeros((12, 12)), np.zeros(12), 4, np.arange(12), np.arange(12), 10) is None
    rng = np.random.default_rng(0)
    random = np.triu(rng.integers(1, 9, (60, 60)), 1).astype(float)
    assert GroupCounts.of(random + random.T, np.zeros(60), 6, np.arange(60), np.arange(60), 10_000) is None


def test_no_time_is_no_bound():
    labels = Round(500, "two", "drawn")()
    run = Run(labels, "auto", None, 0)
    ensure_incumbent(labels, run)
    stated = Fixing(labels, run).counts(Policy(groups_rests=100_000))
    assert stated is not None
    assert stated[0].prices(0.0) is None


def random_graph(n: int, share: float) -> np.ndarray:
    """Distances of 0 and 1, of which groups tell next to nothing."""
    edges = np.triu(np.random.default_rng(0).random((n, n)) < share, 1).astype(float)
    return edges + edges.T


def looks(monkeypatch) -> list[int]:
    """Sizes of the graphs in which cliques are looked for."""
    sizes: list[int] = []
    clique = group_counts._clique
    monkeypatch.setattr(group_counts, "_clique", lambda near: sizes.append(len(near)) or clique(near))
    return sizes


def test_few_cliques_are_looked_for_in_a_random_graph(monkeypatch):
    sizes, n = looks(monkeypatch), 600
    kinds = np.arange(n)
    assert GroupCounts.of(random_graph(n, 0.6), np.zeros(n), 30, kinds, kinds, 2_000) is None
    assert len(sizes) == 16
    assert GroupCounts.of(random_graph(n, 0.3), np.zeros(n), 30, kinds, kinds, 2_000) is None
    assert len(sizes) == 16  # no clique makes a positive rest smaller


def test_no_clique_is_looked_for_without_time_or_again_among_the_same_clients(monkeypatch):
    sizes = looks(monkeypatch)
    problem = DispersionProblem(random_graph(600, 0.6), size=60)
    over = Run(problem, "auto", None, 0, work_limit=1)
    ensure_incumbent(problem, over)
    over.spend(1_000_000)
    assert Fixing(problem, over).counts(Policy(groups_rests=100)) is None
    assert not sizes
    run = Run(problem, "auto", None, 0)
    ensure_incumbent(problem, run)
    fixing = Fixing(problem, run)
    fix_by_counts(fixing, Policy(groups_rests=100))
    looked = len(sizes)
    fix_by_counts(fixing, Policy(groups_rests=100))
    assert looked == len(sizes) == 16


def times_of_prices(monkeypatch) -> list[float]:
    """Seconds that linear programs are given."""
    given: list[float] = []
    prices = GroupCounts.prices
    monkeypatch.setattr(GroupCounts, "prices", lambda self, seconds: given.append(seconds) or prices(self, seconds))
    return given


def test_counts_that_fix_nothing_are_not_priced_again_for_the_same_value_to_beat(monkeypatch):
    given, problem = times_of_prices(monkeypatch), Round(500, "two", "half")()
    monkeypatch.setattr(Fixing, "round", lambda self, x: None)
    drawn = [problem.feasible.decision(np.random.default_rng(k).permutation(problem.n)[: problem.size]) for k in (0, 1)]
    worse, better = sorted(drawn, key=problem.objective)
    run = Run(problem, "auto", None, 0)
    fixing = Fixing(problem, run)
    for x, priced in ((worse, 1), (worse, 1), (better, 2), (better, 2)):  # so poor that nobody is fixed
        run.offer(x)
        fix_by_counts(fixing)
        assert fixing.ids.size == problem.n
        assert len(given) == priced


def test_limited_work_asks_no_clock(monkeypatch):
    given = times_of_prices(monkeypatch)
    problem = Round(500, "two", "half")()
    for limits in ({"work_limit": 10**7}, {"time_limit": 600.0}):
        run = Run(problem, "auto", limits.get("time_limit"), 0, work_limit=limits.get("work_limit"))
        ensure_incumbent(problem, run)
        fix_by_counts(Fixing(problem, run))
    assert given[0] == np.inf
    assert given[-1] < 600.0


def test_prices_that_are_out_of_range_bound_nothing():
    h = np.ones((12, 12)) - np.eye(12)
    h[:5, :5] -= 0.5 * (1 - np.eye(5))
    counts = GroupCounts.of(h, np.zeros(12), 3, np.arange(12), np.arange(12), 100)
    assert counts is not None
    none = np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for price in (np.inf, 1e308, np.nan):
            assert counts.bounds(CountPrices(np.zeros(12), np.array([price]), none, none)) is None
