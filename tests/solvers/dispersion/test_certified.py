"""Certified numbers of the relaxations in exact arithmetic: excess, level, tangent, dominance, units."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ldexp
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from solvers.certificates import check
from solvers.dispersion import DispersionProblem
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.relaxations import slice_form, uniform_shift
from solvers.dispersion.relaxations.dominance import Dominance, dominance
from solvers.dispersion.relaxations.semidefinite import OuterApproximation
from solvers.dispersion.relaxations.slice_form import (
    ScaledProblem,
    SliceForm,
    certified_excess,
    certified_level,
    cholesky_excess,
    eigenvalue,
    tangent_margin,
    units,
)
from solvers.dispersion.relaxations.uniform_shift import top_eigenvalue, uniform_shift_bound
from solvers.dispersion.tree.certificate import CertificateTree
from solvers.run import Run
from tests.solvers.dispersion.cases import selections, uniform_problem

EPS = 2.0**-52


def fractions(matrix):
    return [[Fraction(value) for value in row] for row in np.asarray(matrix, dtype=np.float64).tolist()]


def positive_semidefinite(matrix):
    """Whether a symmetric matrix of fractions is, by elimination."""
    rows = [list(row) for row in matrix]
    while rows:
        pivot = rows[0][0]
        if pivot < 0 or (pivot == 0 and any(rows[0])):
            return False
        rest = rows[1:]
        if pivot > 0:
            rest = [[a - row[0] * b / pivot for a, b in zip(row, rows[0], strict=True)] for row in rest]
        rows = [row[1:] for row in rest]
    return True


def concave_on_the_slice(matrix, diagonal):
    """Whether ``matrix − Diag(diagonal)`` is negative semidefinite where 1ᵀz = 0: on the basis e_i − e_n."""
    a = fractions(matrix)
    for i, d in enumerate(diagonal):
        a[i][i] -= d
    last = len(a) - 1
    return positive_semidefinite(
        [[a[i][last] + a[last][j] - a[i][j] - a[last][last] for j in range(last)] for i in range(last)]
    )


@pytest.mark.parametrize("seed", range(40))
def test_excess_suffices_in_exact_arithmetic(seed):
    """Also where the matrix vanishes on the slice but for rounding, which a computed eigenvalue does not show."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    upper = rng.normal(size=(n, n))
    u, diagonal = rng.normal(size=n), rng.normal(size=n)
    matrix, diagonal = [(upper + upper.T, diagonal), (u[:, None] + u, np.zeros(n))][seed % 2]
    excess = certified_excess(matrix, diagonal)
    assert excess >= 0
    assert concave_on_the_slice(matrix, [Fraction(d) + Fraction(excess) for d in diagonal.tolist()])
    on_slice = np.eye(n) - 1 / n
    needed = np.linalg.eigvalsh(on_slice @ (matrix - np.diag(diagonal)) @ on_slice)[-1]
    assert excess <= max(needed, 0.0) + 1e-11


def test_nothing_needs_no_excess():
    assert certified_excess(np.zeros((3, 3)), np.zeros(3)) == 0.0
    assert certified_level(np.zeros((3, 3)), 0.0) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_level_suffices_in_exact_arithmetic(seed):
    """Of any sign, and near the smallest eigenvalue; every other matrix is singular."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    factor = rng.integers(-3, 4, (n, n - 1 if seed % 2 else n)).astype(float)
    matrix = factor @ factor.T + (0.0 if seed % 2 else 2.0) * np.eye(n)
    level = certified_level(matrix, float(np.abs(matrix).max()))
    shifted = fractions(matrix)
    for i in range(n):
        shifted[i][i] += Fraction(level)
    assert positive_semidefinite(shifted)
    assert level <= -np.linalg.eigvalsh(matrix)[0] + 1e-11
    assert seed % 2 or level < 0


def test_what_a_cholesky_factor_can_hide():
    """γ tr / (1 − γ) with γ = (n + 1) eps / 2, and 4 eps n for what the matrix was formed of (Rump, BIT 46, 2006)."""
    gamma = 4 * EPS / 2
    assert cholesky_excess(np.diag([2.0, 3.0, 4.0]).copy(order="F"), 5.0) == gamma / (1 - gamma) * 9 + 4 * EPS * 3 * 5
    assert cholesky_excess(np.diag([2.0, -1e-3, 4.0]).copy(order="F"), 5.0) is None


def test_margin_of_a_tangent():
    """2 m (2 (20 n + 100) + 2 n + 16) eps G, with G = max|l| + 2 m max|M|: as derived in its docstring."""
    margin = tangent_margin(np.array([[0.0, -3.0], [2.0, 0.0]]), np.array([1.0, -5.0]), 3)
    assert margin == 2 * 3 * (2 * (40 + 100) + 4 + 16) * EPS * (5 + 2 * 3 * 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_tangent_bounds_its_form_in_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    n, m = 6, 3
    upper = np.triu(rng.normal(size=(n, n)) * 10.0 ** rng.integers(-3, 4, (n, n)), 1)
    pairs = (np.array([[0, 1], [2, 3]]), rng.normal(size=2))
    quadratic, given = upper + upper.T, rng.normal(size=n)
    form = SliceForm.build(quadratic, given, m, rng.normal(size=n), pairs, pairs)
    y = rng.dirichlet(np.ones(n)) * m
    curved, linear, point = fractions(form.curved), fractions([form.linear])[0], fractions([y])[0]
    towards = [sum(a * b for a, b in zip(row, point, strict=True)) for row in curved]
    gradient = sorted((b + 2 * a for a, b in zip(towards, linear, strict=True)), reverse=True)
    exact = sum(gradient[:m]) - sum(a * b for a, b in zip(towards, point, strict=True))
    assert exact <= Fraction(form.tangent(y)) <= exact + 2 * Fraction(form.margin)
    assert concave_on_the_slice(form.curved, [Fraction(0)] * n)
    # Products may only raise the objective, and what pairs add vanishes where the first comes with the second.
    assert (form.curved >= form.exact).all()
    for s in selections(n, m):
        if s[0] >= s[1] and s[2] >= s[3]:
            value = s @ form.exact @ s + form.linear @ s
            assert value == pytest.approx(s @ quadratic @ s + given @ s, abs=1e-9 * np.abs(form.exact).max())


def test_units_are_a_power_of_two_that_makes_gains_about_one():
    for scale in (1.0, 1e-200, 1e200):
        problem = DispersionProblem(scale * (1.0 - np.eye(4)), scale * np.array([1.0, 1.0, 1.0, 3.0]), size=2)
        factor, offset, linear = units(problem)
        gains = 2 * scale + 2 * scale  # 2 w d (m − 1), and the costs' spread
        assert 0.5 <= factor * gains < 1
        assert np.frexp(factor)[0] == 0.5
        assert offset == pytest.approx(2 * problem.common_cost)
        np.testing.assert_array_equal(linear, problem.linear * factor)
        scaled = ScaledProblem.of(problem)
        assert scaled.original(scaled.value(5 * scale)) == pytest.approx(5 * scale, rel=1e-14)
        assert scaled.error == problem.rounding * factor
    assert units(DispersionProblem(np.zeros((3, 3)), size=2))[0] == 1.0
    assert units(DispersionProblem((1.0 - np.eye(3)) * 1e-270, size=2, weight=1e-10))[0] <= ldexp(1.0, 1000)


def test_restricted_is_the_objective_of_those_left():
    scaled = ScaledProblem.of(uniform_problem(8, 4))
    ids, ones = np.array([1, 3, 4, 6]), np.array([0, 7])
    quadratic, linear, constant = scaled.restricted(ids, ones)
    for bits in range(16):
        s = np.array([bits >> k & 1 for k in range(4)], dtype=float)
        x = np.zeros(len(scaled.linear))
        x[ids], x[ones] = s, 1.0
        whole = x @ scaled.quadratic @ x + scaled.linear @ x
        assert s @ quadratic @ s + linear @ s + constant == pytest.approx(whole, abs=1e-12)


def test_dominance_of_twins():
    """Clients 0 and 1 are alike, 2 is like them and dearer: ties go by index and are not certain."""
    quadratic = np.ones((4, 4)) - np.eye(4)
    quadratic[3, :3] = quadratic[:3, 3] = 5.0
    found = dominance(quadratic, np.array([0.0, 0.0, -1.0, -9.0]), 2)
    known = {tuple(pair): bool(sure) for pair, sure in zip(found.pairs.tolist(), found.certain, strict=True)}
    assert known[0, 1] is False
    assert known[0, 2] is known[1, 2] is True
    assert not {(1, 0), (2, 0), (2, 1)} & set(known)
    for size, most in ((4, 400), (2, 3)):
        assert len(dominance(quadratic, np.zeros(4), size, most=most).pairs) == 0
    assert len(dominance(quadratic, np.zeros(4), 3, most=4).pairs) > 0


def test_adjacency_of_dominance():
    pairs, certain = np.array([[0, 2], [1, 0], [1, 2], [3, 2]]), np.array([True, False, True, True])
    found = Dominance.of(pairs, certain, 4)

    def lists(start, entries):
        return [entries[a:b].tolist() for a, b in itertools.pairwise(start)]

    assert lists(found.above_start, found.above) == [[1], [], [0, 1, 3], []]
    assert lists(found.below_start, found.below) == [[2], [0, 2], [], [2]]


def test_tangents_hold_at_every_selection_and_touch_their_own():
    problem = uniform_problem(8, 3)
    tangents = OuterApproximation(problem)
    every = selections(8, 3)
    values = [problem.objective(s) for s in every]
    start = every[int(np.argmax(values))]
    first = tangents.first(start)
    np.testing.assert_array_equal(first[0], tangents.x)
    np.testing.assert_allclose(first[2], (tangents.x + start) / 2)
    np.testing.assert_array_equal(first[4], start)
    for y in first:
        constant, gradient = tangents.at(y)
        bounds = [tangents.original(constant + float(gradient @ s)) for s in every]
        assert all(bound >= value for bound, value in zip(bounds, values, strict=True))
    assert bounds[int(np.argmax(values))] == pytest.approx(max(values), rel=1e-9)
    run = Run(problem, "own", None, 0)
    assert OuterApproximation(problem, run).form.tangent(tangents.x) == pytest.approx(tangents.form.tangent(tangents.x))
    assert max(values) <= run.bound <= 1.2 * max(values)


@pytest.mark.parametrize("n", [2, 40, 300, 301])
def test_the_top_eigenvalue_on_the_slice(n):
    distances = uniform_problem(n, 1).distances
    on_slice = np.eye(n) - 1 / n
    exact = np.linalg.eigvalsh(on_slice @ distances @ on_slice)
    found = top_eigenvalue(distances)
    assert exact[-1] - 1e-9 * n <= found or n == 2  # for two clients the slice's one eigenvalue is not positive
    assert found == pytest.approx(exact[-1] if n > 2 else -distances[0, 1], rel=5e-3, abs=1e-9)


def test_no_bound_is_begun_that_the_clock_does_not_allow():
    problem = uniform_problem(60, 10)
    for seconds, known in ((3e-11 * 60**3, False), (60.0, True)):
        run = Run(problem, "own", seconds, 0)
        run.offer(np.repeat([1, 0], [10, 50]))
        uniform_shift_bound(problem, run)
        assert (run.bound is not None) is known
    assert run.bound >= run.objective


def test_rounding_is_allowed_for_by_the_largest_terms(monkeypatch):
    """Each entry of the factorised matrix is a sum; how far it can be off is a part of the terms' absolute values."""
    given = []

    def largest_terms(matrix, largest):
        given.append(largest)
        return cholesky_excess(matrix, largest)

    for module in (slice_form, uniform_shift):
        monkeypatch.setattr(module, "cholesky_excess", largest_terms)
    # Row means 1.5 less 1 / 2, of which u takes half off: 0.5. t = 3 / 2. So 3 + 2 |u| + t and the diagonal's 1.
    certified_excess(np.array([[0.0, 3.0], [3.0, 0.0]]), np.ones(2))
    assert given.pop() == 3 + 1 + 1.5 + 1
    level = certified_level(np.array([[2.0, 1.0], [1.0, 2.0]]), 7.0)
    assert given[-1] == pytest.approx(7 + abs(level), rel=1e-12)
    # Distances 3 between two clients, a shift of 1: row means 1.5, u = 0.75, t = 3 / 2.
    problem = DispersionProblem([[0, 3], [3, 0]], size=1)
    uniform_shift._certify(problem, 1.0, 1.0, 0.0)
    assert given[-1] == 3 + 1.5 + 1.5 + 1


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_products_of_distances_and_shares_are_summed_in_double(precision):
    """In blocks of the clients that have a share, also more than one."""
    rng = np.random.default_rng(0)
    h = np.triu(rng.random((600, 600)), 1).astype(precision)
    problem = DispersionProblem(h + h.T, size=300)
    y = np.where(rng.random(600) < 0.7, rng.random(600), 0.0)
    exact = (h + h.T).astype(np.float64) @ y
    np.testing.assert_allclose(uniform_shift._times(problem, y), exact, rtol=1e-13)


@pytest.mark.parametrize("index", [0, 1, 4])
def test_an_eigenvalue_where_the_fast_way_ends_with_an_error(index, monkeypatch):
    """As LAPACK's does on some matrices between clients that are all equally far."""
    matrix = 0.3 * (1.0 - np.eye(5))
    fast = eigenvalue(matrix, index)

    def fails(*_, **__):
        raise np.linalg.LinAlgError("Internal Error.")

    monkeypatch.setattr(scipy.linalg, "eigh", fails)
    assert eigenvalue(matrix, index) == pytest.approx(fast, abs=1e-14) == pytest.approx(1.2 if index == 4 else -0.3)


@pytest.mark.parametrize("seed", range(40))
def test_one_shift_is_tight_where_all_are_equally_far(seed):
    """The objective is linear on the slice then: the bound is the optimum, but for rounding on the safe side."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 20))
    m = int(rng.integers(2, n - 1))
    distance, costs = float(rng.random()), rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    problem = DispersionProblem(distance * (1.0 - np.eye(n)), costs, size=m, weight=float(rng.random()))
    exact = m * (m - 1) * Fraction(problem.weight) * Fraction(distance)
    exact -= sum(sorted(map(Fraction, costs.tolist()))[:m])
    run = Run(problem, "own", None, 0)
    run.offer(rng.permutation(np.repeat([1, 0], [m, n - m])))
    uniform_shift_bound(problem, run, accuracy=1e-9)
    assert exact <= Fraction(run.bound) <= exact + Fraction(1e-4 * problem.scale)
    tree = CertificateTree(problem, problem.trivial_bound(), lambda: False)
    tree.root(0.0)
    assert exact <= check(problem, tree.certificate(1e300))


@pytest.mark.parametrize("seed", range(10))
def test_one_shift_is_a_bound(seed):
    problem = uniform_problem(9, 4, seed)
    best = max(problem.objective(s) for s in selections(9, 4))
    run = Run(problem, "own", None, 0)
    run.offer(np.repeat([1, 0], [4, 5]))
    uniform_shift_bound(problem, run)
    shift = top_eigenvalue(problem.distances) * problem.weight
    assert best <= run.bound <= best + 4 * (1 - 4 / 9) * (shift + problem.weight * problem.diameter)


def test_steps_that_get_nowhere_come_to_an_end(monkeypatch, watchdog):
    """Whatever rounding does to them: after some looks that hardly lower the bound it is over."""
    looks = []
    idle = SimpleNamespace(climb=lambda *_: looks.append(1) or 1.0)
    monkeypatch.setattr(uniform_shift, "load", lambda *_, **__: idle)
    problem = uniform_problem(9, 4)
    run = Run(problem, "own", None, 0)
    run.offer(np.repeat([1, 0], [4, 5]))
    uniform_shift_bound(problem, run, accuracy=0.0)
    assert len(looks) == DEFAULT_POLICY.stale_climbs + 1


def test_rounding_of_the_sums_is_added_to_a_bound():
    tangents = OuterApproximation(uniform_problem(8, 3))
    scaled = tangents.scaled
    assert scaled.error > 0
    assert tangents.original(1.0) == scaled.original(1.0 + scaled.error)
