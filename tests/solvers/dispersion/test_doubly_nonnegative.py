"""The doubly nonnegative bound against enumeration, in rational arithmetic, and beside the other relaxations."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.relaxations.cuts import CutMultipliers, Cuts, gap_inequalities, triangle_inequalities
from solvers.dispersion.relaxations.dominance import dominance
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation, condition_products
from solvers.dispersion.relaxations.low_rank import LowRankRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.feasible_set import Hypersimplex
from tests.solvers.dispersion.cases import problem_with_a_choice, selections, uniform_problem
from tests.thoroughly import few_of


def values(scaled: ScaledProblem) -> tuple[np.ndarray, np.ndarray]:
    s = selections(scaled.linear.size, scaled.size).astype(float)
    return s, np.einsum("ki,ij,kj->k", s, scaled.quadratic, s) + s @ scaled.linear


def relaxed(scaled: ScaledProblem, rng: np.random.Generator, rounds: int) -> DNNRelaxation:
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)
    for _ in range(rounds):
        relaxation.iterate(int(rng.integers(1, 25)))
        relaxation.separate(5 * relaxation.n)
    relaxation.iterate(int(rng.integers(1, 25)))
    return relaxation


@pytest.mark.parametrize("seed", few_of(range(20), 2))
def test_low_rank_multipliers_are_a_start_with_their_own_bound(seed):
    """What the slack says of selections is what the multipliers' form lacks to the bound; a step goes on from there."""
    rng = np.random.default_rng(seed)
    scaled = ScaledProblem.of(problem_with_a_choice(rng, 9))
    n, m = scaled.linear.size, scaled.size
    low_rank = LowRankRelaxation(scaled.quadratic, scaled.linear, m)
    low_rank.sweep(30)
    for _ in range(20):
        low_rank.sweep()
        low_rank.raise_products(0.03)
    products = low_rank.products()
    np.testing.assert_array_equal(products, products.T)
    assert products.diagonal() == pytest.approx(low_rank.x())
    raised = low_rank.raised()
    assert raised is not None
    s, v = values(scaled)
    bound = float(v.max()) + rng.random()
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, m)
    relaxation.resume(low_rank.diagonal(), raised, products, bound)
    assert relaxation.estimate() == pytest.approx(bound)
    lacks = bound - v - np.einsum("ki,ij,kj->k", s, raised, s)
    assert np.einsum("ki,ij,kj->k", s, relaxation.slack, s) == pytest.approx(lacks, abs=1e-9 * (1 + abs(bound)))
    rates = low_rank.diagonal()
    fractional = m * rng.dirichlet(np.ones(n))
    form = fractional @ (scaled.quadratic + raised - np.diag(rates)) @ fractional + (scaled.linear + rates) @ fractional
    assert fractional @ relaxation.slack @ fractional == pytest.approx(bound - form, abs=1e-9 * (1 + abs(bound)))
    relaxation.iterate(20)
    assert relaxation.bound() + 2 * scaled.error >= v.max()


@pytest.mark.parametrize("seed", few_of(range(300), 20))
def test_never_below_the_optimum(seed):
    """Stopped anywhere, with cuts, on problems of every kind and scale; and forbidden pairs are in no better one."""
    rng = np.random.default_rng(seed)
    problem = problem_with_a_choice(rng, 9)
    scaled = ScaledProblem.of(problem)
    relaxation = relaxed(scaled, rng, int(rng.integers(0, 4)))
    s, v = values(scaled)
    bound = relaxation.bound() + 2 * scaled.error
    assert bound >= v.max()
    known = float(min(np.quantile(v, rng.random()), v.max() - 1e-9 * max(1.0, abs(v.max()))))
    relaxation.forbid(bound - known)
    good = s[v > known + 1e-12]
    assert len(good)
    for i, j in np.argwhere(relaxation.forbidden):
        assert not (good[:, i] * good[:, j]).any()
    # It goes on with these pairs; the bound then holds for the better selections.
    again = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size, relaxation.forbidden)
    again.start(relaxation.warm(np.arange(problem.n)), np.arange(problem.n), np.zeros(0, dtype=np.int64))
    again.iterate(30)
    assert again.bound() + 2 * scaled.error >= v.max()


@pytest.mark.parametrize("seed", few_of(range(1_000), 20))
def test_bounds_with_a_client_hold_for_all_selections_that_contain_it(seed):
    """Stopped anywhere, with cuts and with pairs that are forbidden; none is above the bound on all by much."""
    rng = np.random.default_rng(seed)
    problem = problem_with_a_choice(rng, 9)
    scaled = ScaledProblem.of(problem)
    relaxation = relaxed(scaled, rng, int(rng.integers(0, 4)))
    s, v = values(scaled)
    if seed % 2:
        relaxation.forbid(float(rng.random() * (relaxation.bound() - np.median(v))))
    products = s[:, :, None] * s[:, None, :]
    allowed = ~(products.astype(bool) & relaxation.forbidden).any(axis=(1, 2))
    found = relaxation.bounds_with(float(rng.random()))
    for client in range(problem.n):
        best = v[allowed & (s[:, client] == 1)].max(initial=-np.inf)
        assert best <= found[client] + 2 * scaled.error
    assert (found <= relaxation.bound() + 1e-9).all()


@pytest.mark.parametrize("seed", few_of(range(300), 20))
def test_under_an_order_never_below_the_best_selection_that_keeps_it(seed):
    """Stopped anywhere, with cuts, begun anew with fewer clients; the bound, and the form at every such selection."""
    rng = np.random.default_rng(seed)
    problem = problem_with_a_choice(rng, 9)
    scaled = ScaledProblem.of(problem)
    order = dominance(scaled.quadratic, scaled.linear, scaled.size)
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size, order=order)
    for _ in range(int(rng.integers(0, 4))):
        relaxation.iterate(int(rng.integers(1, 25)))
        relaxation.separate(5 * relaxation.n)
    relaxation.iterate(int(rng.integers(1, 25)))
    s, v = values(scaled)
    kept = (s[:, order.pairs[:, 0]] >= s[:, order.pairs[:, 1]]).all(axis=1)
    assert relaxation.bound() + 2 * scaled.error >= v[kept].max()
    form = relaxation.form()
    curved = np.einsum("ki,ij,kj->k", s, form.curved, s) + s @ form.linear
    assert (curved[kept] + form.margin >= v[kept] - 2 * scaled.error).all()
    ids = np.flatnonzero(rng.random(problem.n) < 0.8)
    if 2 <= scaled.size < ids.size:
        few = DNNRelaxation(
            scaled.quadratic[np.ix_(ids, ids)], scaled.linear[ids], scaled.size, order=order.among(ids, problem.n)
        )
        few.start(relaxation.warm(np.arange(problem.n)), ids, np.zeros(0, dtype=np.int64))
        for _ in range(2):
            inside = kept & (s[:, ids].sum(axis=1) == scaled.size)
            assert few.bound() + 2 * scaled.error >= v[inside].max(initial=-np.inf)
            few.iterate(20)


def test_an_order_among_equals_lowers_the_bound():
    """Pairs of clients at one place, whose costs differ: the dearer one is worth nothing without the other."""
    rng = np.random.default_rng(2)
    apart = np.triu(rng.random((8, 8)), 1)
    kinds = np.repeat(np.arange(8), 2)
    h = (apart + apart.T)[np.ix_(kinds, kinds)]
    scaled = ScaledProblem.of(DispersionProblem(h, np.tile([0.0, 0.01], 8), size=5, weight=0.1))
    order = dominance(scaled.quadratic, scaled.linear, 5)
    assert len(order.pairs) >= 8
    bounds = []
    for used in (None, order):
        relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, 5, order=used)
        relaxation.iterate(3_000)
        bounds.append(relaxation.bound())
    v = values(scaled)[1]
    assert v.max() - 2 * scaled.error <= bounds[1]
    assert bounds[1] < bounds[0] - 1e-6
    relaxation.nonnegative[1::2, 1::2] -= np.eye(8) / 10  # sums that are off lower no bound below the optimum
    assert v.max() - 2 * scaled.error <= relaxation.bound()
    assert relaxation.form().tangent(np.full(16, 5 / 16)) >= v.max() - 2 * scaled.error


def test_a_converged_relaxation_fixes_clients_and_its_tangent_is_its_bound():
    """The two bounds are one in theory; the tangent was four times the gap's unit where costs were not in its slack."""
    rng = np.random.default_rng(1)
    points = rng.dirichlet(np.full(8, 0.5), 30)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    problem = DispersionProblem(h, rng.random(30) * 0.3, size=4, weight=1 / 12)
    scaled = ScaledProblem.of(problem)
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)
    for _ in range(6):
        relaxation.iterate(60)
        relaxation.separate(90)
    relaxation.iterate(200)
    bound, s, v = relaxation.bound(), *values(scaled)
    assert relaxation.cuts.constant >= 0
    tangent = relaxation.form().tangent(Hypersimplex(30, 4).project(relaxation.x))
    assert bound - 1e-9 <= tangent <= bound + 0.01
    left = relaxation.bounds_with(bound - v.max()) > v.max() - 1e-9
    assert left.sum() < 20
    assert left[s[v.argmax()] == 1].all()


def positive_semidefinite(matrix: list[list[Fraction]]) -> bool:
    """By exact elimination."""
    a = [row[:] for row in matrix]
    n = len(a)
    for k in range(n):
        if a[k][k] < 0 or (a[k][k] == 0 and any(a[i][k] != 0 for i in range(k, n))):
            return False
        if a[k][k] == 0:
            continue
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            for j in range(k, n):
                a[i][j] -= factor * a[k][j]
    return True


@pytest.mark.parametrize("seed", range(20))
def test_certificate_in_rational_arithmetic(seed):
    """The multipliers, read as rational numbers, prove the bound without any rounding; also any others, however large.

    And no better one is proved by much: what is certified is what the multipliers say.
    """
    rng = np.random.default_rng(seed)
    n, m = 6, int(rng.integers(2, 5))
    h = np.triu(rng.random((n, n)), 1) * 10.0 ** rng.integers(-6, 7)
    scaled = ScaledProblem.of(DispersionProblem(h + h.T, rng.normal(size=n) * h.max(), size=m, weight=0.5))
    relaxation = relaxed(scaled, rng, 2)
    if seed % 2:
        size = 10.0 ** rng.integers(-3, 9)
        relaxation.diagonal = size * rng.normal(size=n)
        raised = np.triu(rng.random((n, n)), 1) * size
        relaxation.nonnegative = raised + raised.T
        held = relaxation.cuts.cuts
        relaxation.cuts = CutMultipliers(held, size * rng.random(len(held)))
    bound = Fraction(relaxation.bound())
    half = [Fraction(float(d)) for d in relaxation.diagonal / (2 * m)]
    weights = [Fraction(float(t)) for t in relaxation.cuts.weights]
    matrix = [
        [-half[i] - half[j] - Fraction(float(scaled.quadratic[i, j] + (scaled.linear[i] if i == j else 0)))
         - Fraction(float(relaxation.nonnegative[i, j])) for j in range(n)]
        for i in range(n)
    ]  # fmt: skip
    constant = Fraction(0)
    cuts = relaxation.cuts.cuts
    for members, signs, k, t in zip(cuts.members, cuts.signs, cuts.k, weights, strict=True):
        b = [0] * n
        for place, sign in zip(members, signs, strict=True):
            b[place] += int(sign)
        constant += t * int(k) * int(k + 1) / 2
        for i in range(n):
            for j in range(n):
                matrix[i][j] -= t * b[i] * b[j] / 2
            matrix[i][i] += t * (2 * int(k) + 1) * b[i] / 2
    level = (bound - constant) / m
    for i in range(n):
        matrix[i][i] += 2 * m * half[i]
    largest = float(np.abs(np.array(matrix, dtype=float)).max())
    assert float(level) <= -np.linalg.eigvalsh(np.array(matrix, dtype=float))[0] + 1e-10 * largest
    for i in range(n):
        matrix[i][i] += level
    assert (relaxation.nonnegative >= 0).all()
    assert (relaxation.cuts.weights >= 0).all()
    assert positive_semidefinite(matrix)


@pytest.mark.parametrize("seed", few_of(range(60), 6))
def test_cuts_hold_for_every_selection(seed):
    """Also for what they say once some clients are fixed; and they were violated."""
    rng = np.random.default_rng(seed)
    n = 9
    found: list[Cuts] = []
    while not found:  # not every random matrix violates one
        x = rng.dirichlet(np.ones(n)) * int(rng.integers(2, 7))
        products = np.cov(rng.normal(size=(200, n)).T) * 0.05 + np.outer(x, x)
        products[np.arange(n), np.arange(n)] = np.clip(x, 0.01, 0.99)
        found = [
            cuts for cuts in (triangle_inequalities(products, 200), gap_inequalities(products, 50, rng)) if len(cuts)
        ]
    every = np.array(list(itertools.product((0, 1), repeat=n)))
    for cuts in found:
        assert (cuts.excess(products) > 0).all()
        t, limits = cuts.matrix(), cuts.limits
        for s in every:
            assert (t @ np.outer(s, s).ravel() <= limits + 1e-12).all()
        kept = np.sort(rng.choice(n, 6, replace=False))
        chosen = np.array([c for c in range(n) if c not in kept and rng.random() < 0.5], dtype=np.int64)
        inner, stays = cuts.within(kept, chosen)
        assert len(inner) == stays.sum()
        part, bounds = inner.matrix(), inner.limits
        for s in itertools.product((0, 1), repeat=6):
            full = np.zeros(n)
            full[kept], full[chosen] = s, 1
            assert (part @ np.outer(s, s).ravel() <= bounds + 1e-12).all()
            lack = limits[stays] - t[np.flatnonzero(stays)] @ np.outer(full, full).ravel()
            assert lack == pytest.approx(bounds - part @ np.outer(s, s).ravel())


def test_the_slack_says_what_selections_lack():
    """Whatever the multipliers are: m times the level less the value and what the products are held non-negative by."""
    rng = np.random.default_rng(4)
    scaled = ScaledProblem.of(uniform_problem(7, 3))
    relaxation = relaxed(scaled, rng, 1)
    s, v = values(scaled)
    raised = np.einsum("ki,ij,kj->k", s, relaxation.nonnegative, s)
    assert raised.max() > 1e-3
    slack = np.einsum("ki,ij,kj->k", s, relaxation.dual_slack(), s)
    assert slack == pytest.approx(3 * relaxation.level - v - raised)


def test_a_pair_is_forbidden_when_twice_its_multiplier_exceeds_the_gap():
    """Both orders of the pair count, and neither less nor more; a pair once forbidden stays so."""
    scaled = ScaledProblem.of(uniform_problem(5, 2))
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, 2)
    for (i, j), multiplier in {(0, 1): 1.001, (0, 2): 0.999, (1, 3): 0.7}.items():
        relaxation.nonnegative[[i, j], [j, i]] = multiplier
    relaxation.forbid(2.0)
    assert np.argwhere(relaxation.forbidden).tolist() == [[0, 1], [1, 0]]
    relaxation.nonnegative[:] = 0.0
    relaxation.forbid(2.0)
    assert np.argwhere(relaxation.forbidden).tolist() == [[0, 1], [1, 0]]


def test_joining_cuts_knows_the_same_cut_again():
    cuts = Cuts.of(np.array([[0, 1, 2]]), np.array([[1, 1, -1]]), np.array([0]), 5)
    same = Cuts.of(np.array([[2, 1, 0], [0, 1, 3]]), np.array([[-1, 1, 1], [1, 1, -1]]), np.array([0, 0]), 5)
    both, fresh = cuts.joined(same)
    assert (len(both), fresh) == (2, 1)


@pytest.mark.parametrize("seed", range(5))
def test_no_weaker_than_the_semidefinite_bound(seed):
    problem = uniform_problem(24, 6, seed)
    plain = solve(problem, "dnn", cuts=0)
    assert plain.bound <= solve(problem, "sdp", strength="nonnegative").bound + 1e-4 * problem.scale
    assert solve(problem, "dnn").bound <= plain.bound + 1e-4 * problem.scale


@pytest.mark.parametrize("seed", range(40))
def test_form_is_the_objective_at_selections(seed):
    rng = np.random.default_rng(seed)
    scaled = ScaledProblem.of(uniform_problem(9, 4, seed))
    form = relaxed(scaled, rng, 2).form()
    s, v = values(scaled)
    exact = np.einsum("ki,ij,kj->k", s, form.exact, s) + s @ form.linear
    curved = np.einsum("ki,ij,kj->k", s, form.curved, s) + s @ form.linear
    assert exact == pytest.approx(v, abs=1e-12)
    assert (curved >= exact - 1e-12).all()
    assert form.tangent(rng.dirichlet(np.ones(9)) * 4) >= v.max()


def test_a_stopped_run_is_weaker_and_valid():
    problem = uniform_problem(40, 8)
    best = solve(problem, "branch-and-bound")
    short = solve(problem, "dnn", iterations=1)
    full = solve(problem, "dnn")
    assert short.bound >= full.bound >= best.objective - 1e-9
    assert full.objective <= best.objective + 1e-9
    assert full.details["iterations"] > 1
    limited = solve(uniform_problem(300, 30), "dnn", time_limit=0.5)
    assert limited.bound >= limited.objective


def test_long_after_convergence_the_bound_is_still_there():
    """Residuals that are rounding do not drive the penalty anywhere."""
    for problem in (uniform_problem(8, 3), DispersionProblem(np.ones((9, 9)) - np.eye(9), np.zeros(9), size=4)):
        scaled = ScaledProblem.of(problem)
        relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)
        relaxation.iterate(1_000)
        settled = relaxation.bound()
        relaxation.iterate(4_000)
        assert relaxation.bound() == pytest.approx(settled, rel=1e-6)


def test_large_and_marginal_problems_have_a_bound():
    rng = np.random.default_rng(0)
    for m in (1, 5, 6):
        h = np.triu(rng.random((6, 6)), 1)
        problem = DispersionProblem(h + h.T, rng.random(6), size=m)
        assert solve(problem, "dnn").bound >= solve(problem, "brute-force").objective - 1e-9


@pytest.mark.parametrize("options", [{"cuts": -1}, {"iterations": 0}])
def test_refused_options(options):
    with pytest.raises(InvalidOption):
        solve(uniform_problem(8, 3), "dnn", **options)


@pytest.mark.parametrize("seed", range(30))
def test_a_child_starts_from_the_bound_of_its_parent(seed):
    """Whoever is fixed, the parent's multipliers are carried over so that they say as much, up to single precision."""
    rng = np.random.default_rng(seed)
    problem = uniform_problem(16, 7, seed)
    scaled = ScaledProblem.of(problem)
    relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)
    relaxation.iterate(int(rng.integers(1, 120)))
    ones, zeros = rng.permutation(16)[: rng.integers(1, 6)], rng.permutation(16)[: rng.integers(0, 4)]
    ids = np.setdiff1d(np.arange(16), np.union1d(ones, zeros))
    ones = np.setdiff1d(ones, zeros)
    child = DNNRelaxation(
        scaled.quadratic[np.ix_(ids, ids)],
        scaled.linear[ids] + 2 * scaled.quadratic[np.ix_(ids, ones)].sum(axis=1),
        scaled.size - ones.size,
    )
    child.start(relaxation.warm(np.arange(16)), ids, ones)
    constant = scaled.linear[ones].sum() + scaled.quadratic[np.ix_(ones, ones)].sum()
    before = relaxation.bound()
    assert child.bound() + constant <= before + 1e-5 * max(1.0, abs(before))


@pytest.mark.parametrize("seed", range(20))
def test_conditioned_products_are_bounded(seed):
    """Also where the products are of no distribution; where they are, nothing is cut off."""
    rng = np.random.default_rng(seed)
    x = rng.random(60)
    noise = rng.normal(size=(60, 60)) * 0.03
    products = np.outer(x, x) + noise + noise.T
    products[np.arange(60), np.arange(60)] = x + rng.normal(size=60) * 0.02
    order = rng.permutation(60)
    kept, chosen = np.sort(order[:10]), order[10:25]
    assert np.abs(condition_products(products, kept, chosen)).max() < 25
    s = (rng.random((400, 12)) < 0.4).astype(float)
    moments = s.T @ s / 400
    mean, covariance = s.mean(axis=0), np.cov(s.T, bias=True)
    share = covariance[:, 0] / (covariance[0, 0] + 1e-3)
    after = np.clip(mean + share * (1 - mean[0]), 0, 1)
    expected = covariance - np.outer(share, covariance[0]) + np.outer(after, after)
    assert condition_products(moments, np.arange(1, 12), np.array([0])) == pytest.approx(expected[1:, 1:])
