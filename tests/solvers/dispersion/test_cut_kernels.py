"""Compiled and plain: cuts found, multipliers, entrywise steps; and positive parts by turning a basis."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers.dispersion.kernels import load, loader
from solvers.dispersion.relaxations import cuts as cut_module
from solvers.dispersion.relaxations.cuts import (
    WIDTH,
    CutMultipliers,
    Cuts,
    gap_inequalities,
    near_inequalities,
    triangle_inequalities,
)
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.psd_projection import PsdProjection
from tests.thoroughly import few_of


def by_python(name: str, *_: object, **__: object) -> object:
    """What `load` gives where nothing is compiled."""
    return loader._interpreted(name)


def products_of(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.dirichlet(np.ones(n)) * (n // 4 + 1)
    products = np.cov(rng.normal(size=(n, 3 * n))) * 0.05 + np.outer(x, x)
    products[np.arange(n), np.arange(n)] = np.clip(x, 0.01, 0.99)
    return products


def symmetric(n: int, rng: np.random.Generator) -> np.ndarray:
    a = rng.normal(size=(n, n))
    return a + a.T


@pytest.mark.parametrize(("n", "most"), few_of([*itertools.product((4, 9, 30), (3, 100, 5_000)), (220, 100)], 9))
def test_the_same_cuts_with_and_without_compilation(n, most, monkeypatch):
    products = products_of(n, np.random.default_rng(n))
    apart = np.abs(symmetric(n, np.random.default_rng(7)))

    def every_kind() -> tuple[Cuts, ...]:
        wide = gap_inequalities(products, n, np.random.default_rng(1))
        return triangle_inequalities(products, most), wide, near_inequalities(products, apart, most)

    found = every_kind()
    monkeypatch.setattr(cut_module, "load", by_python)
    plain = every_kind()
    for one, other in zip(found, plain, strict=True):
        assert np.array_equal(one.members, other.members)
        assert np.array_equal(one.signs, other.signs)
        assert np.array_equal(one.k, other.k)


def spread_over_labels(counts: list[int], each: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clients of so many labels, near those of the same; of each label a part is chosen that is no whole number."""
    labels = np.random.default_rng(4).permutation(np.repeat(np.arange(len(counts)), counts))
    apart = (labels[:, None] != labels).astype(float)
    x = each / np.array(counts)[labels]
    own = np.where(
        apart == 0, (each * (each - 1) + 0.05) / np.array([k * (k - 1) for k in counts])[labels], np.outer(x, x)
    )
    own[np.arange(labels.size), np.arange(labels.size)] = x
    return labels, apart, own


def test_what_a_whole_label_lacks_is_found():
    """No pair or triple says it; the group that lacks most is the label, all of its clients and no others."""
    labels, apart, products = spread_over_labels([8, 9, 11, 14], 2.5)
    assert len(triangle_inequalities(products, 1_000)) == 0
    found = near_inequalities(products, apart, 100, partners=2)
    groups = [tuple(row[signs == 1]) for row, signs in zip(found.members, found.signs, strict=True)]
    assert sorted(groups) == sorted(tuple(np.flatnonzero(labels == label)) for label in range(4))
    assert (found.k == 2).all()
    assert found.excess(products) == pytest.approx(0.1)
    assert len(near_inequalities(products, apart, 3, partners=2)) == 3


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_groups_of_near_clients_hold_for_every_decision(seed):
    """Whatever the products are, and for 0/1 vectors of any sum; each is violated by what was asked of it."""
    rng = np.random.default_rng(seed)
    vectors = ((np.arange(2**9)[:, None] >> np.arange(9)) & 1).astype(float)
    squares, seen = np.einsum("ki,kj->kij", vectors, vectors).reshape(len(vectors), -1).T, 0
    for _ in range(8):
        products = products_of(9, rng)
        points = rng.integers(0, 4, (9, 2)).astype(float)
        cuts = near_inequalities(products, np.linalg.norm(points[:, None] - points, axis=2), 50, least=0.005)
        seen += len(cuts)
        assert (cuts.excess(products) > 0.005).all()
        assert (cuts.matrix() @ squares <= cuts.limits[:, None] + 1e-12).all()
    assert seen > 2


def test_terms_of_narrow_and_wide_cuts():
    """The same as in the sparse matrix, in the order of the cuts."""
    rng = np.random.default_rng(6)
    n, widths = 60, [2, 48, 3, 17, 3, 1, 48]
    members, signs = np.zeros((len(widths), WIDTH), dtype=np.int64), np.zeros((len(widths), WIDTH), dtype=np.int64)
    for row, width in enumerate(widths):
        members[row, :width] = rng.permutation(n)[:width]
        signs[row, :width] = rng.choice([-1, 1], width)
    cuts = Cuts.of(members, signs, rng.integers(0, 3, len(widths)), n)
    cut, row, column, value = cuts.entries()
    assert (np.diff(cut) >= 0).all()
    assert (row <= column).all()
    whole = np.zeros((len(widths), n, n))
    whole[cut, row, column] = value
    whole[cut, column, row] = value
    np.testing.assert_array_equal(whole.reshape(len(widths), -1), cuts.matrix().toarray())


def test_equal_violations_are_ranked_alike(monkeypatch):
    """Many ties: those seen first are kept."""
    products = np.round(products_of(40, np.random.default_rng(2)), 2)
    products = (products + products.T) / 2
    found = triangle_inequalities(products, 50)
    monkeypatch.setattr(cut_module, "load", by_python)
    assert np.array_equal(found.members, triangle_inequalities(products, 50).members)


def some_cuts(n: int, rng: np.random.Generator) -> Cuts:
    """Distinct ones of three to five clients."""
    members = np.array([rng.permutation(n)[:5] for _ in range(3 * n)])
    signs = rng.choice([-1, 1], members.shape)
    signs[: 2 * n, 3:] = 0
    return Cuts.none(n).joined(Cuts.of(members, signs, rng.integers(-1, 2, 3 * n), n))[0]


@pytest.mark.parametrize("seed", range(8))
def test_multipliers_converge(seed, monkeypatch):
    """To the least of the strictly convex function of Tᵀt, as conditions of Kuhn and Tucker show; every step lowers it.

    By Python the same bits.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 16))
    cuts = some_cuts(n, rng)
    start, residual = rng.random(len(cuts)), symmetric(n, rng)
    block = CutMultipliers(cuts, start)
    assert block.sum.ravel() == pytest.approx(cuts.matrix().T @ start)

    def value() -> float:
        return 0.5 * float(((residual + block.sum) ** 2).sum()) + 0.3 * block.constant

    with monkeypatch.context() as patch:
        patch.setattr(cut_module, "load", by_python)
        plain = CutMultipliers(cuts, start)
        plain.move(residual.copy(), 0.3)
    before = value()
    block.move(residual.copy(), 0.3)
    assert value() <= before
    np.testing.assert_array_equal(block.weights, plain.weights)
    np.testing.assert_array_equal(block.sum, plain.sum)
    assert block.rounding == plain.rounding
    for _ in range(600):
        block.move(residual.copy(), 0.3)
    assert (block.weights >= 0).all()
    assert block.sum.ravel() == pytest.approx(cuts.matrix().T @ block.weights, abs=1e-9)
    slope = cuts.matrix() @ (residual + block.sum).ravel() + 0.3 * cuts.limits
    assert slope.min() > -1e-6
    assert slope[block.weights > 1e-6] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("pairs", [[], [[0, 3], [0, 5], [2, 5], [2, 7]]])
@pytest.mark.parametrize("free", [False, True])
def test_entrywise_steps(free, pairs):
    """As the formulas say, and by Python the same bits."""
    rng = np.random.default_rng(3)
    n = 17
    cost, products, others, slack, cuts = (symmetric(n, rng) for _ in range(5))
    half, own = rng.normal(size=(2, n))
    forbidden = symmetric(n, rng) > 1.5
    order = Dominance.of(np.array(pairs, dtype=np.int64).reshape(-1, 2), np.ones(len(pairs), dtype=bool), n)
    found = []
    for kernel in (load("admm"), by_python("admm")):
        shifted, rest, nonnegative, after = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), products.copy()
        kernel.admm_target(cost, products, others, half, own, 0.7, shifted, rest)
        answer = kernel.admm_update(shifted, slack, forbidden, free, order.lists, 0.7, 1.6, cuts, nonnegative, after)
        found.append([shifted, rest, nonnegative, after, *answer])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    shifted, rest, nonnegative, after, square, rows, both = found[0]
    assert shifted == pytest.approx(np.diag(own) - half[:, None] - half - cost - 0.7 * products)
    assert rest == pytest.approx(shifted - others)
    positive = np.maximum(shifted - slack, np.where(forbidden & free, -np.inf, 0.0))
    np.fill_diagonal(positive, 0.0)
    for j in {j for _, j in pairs}:  # the nearest entries that sum up to 0
        places = [(j, j), *((i, j) for i, k in pairs if k == j), *((j, i) for i, k in pairs if k == j)]
        entries = np.array([(shifted - slack)[place] for place in places])
        for place, entry in zip(places, entries - entries.mean(), strict=True):
            positive[place] = entry
    lack = shifted + 0.7 * products - positive - slack
    assert nonnegative == pytest.approx(positive)
    assert after == pytest.approx(products - 1.6 / 0.7 * lack)
    assert square == pytest.approx((lack**2).sum())
    assert rows == pytest.approx(after.sum(axis=1))
    assert both == pytest.approx((positive + slack - cuts).sum(axis=1))
    assert (nonnegative < 0).any() == (free or len(pairs) > 0)
    if not pairs:
        assert (nonnegative[~forbidden] >= 0).all()


@pytest.mark.parametrize(("n", "share"), [(20, 0.5), (60, 0.2), (60, 0.8), (90, 0.5), (50, 0.0), (50, 1.0)])
def test_positive_parts_of_matrices_that_move(n, share):
    """Eigenvectors turn and eigenvalues change their signs; few decompositions are made."""
    rng = np.random.default_rng(n)
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.where(np.arange(n) < share * n, -1.0, 1.0) * rng.uniform(0.05, 1, n)
    drift = np.where(rng.random(n) < 0.1, -0.01 * np.sign(values), 0.0)
    turn = rng.normal(size=(n, n)) * 1e-3
    turn = np.linalg.qr(np.eye(n) + turn - turn.T)[0]
    turn *= np.sign(turn.diagonal())
    part = PsdProjection()
    for _ in range(40):
        matrix = (vectors * values) @ vectors.T
        truth = (vectors * np.maximum(values, 0)) @ vectors.T
        assert np.abs(part(matrix) - truth).max() < 0.02
        vectors, values = turn @ vectors, values + drift
    assert part(matrix, exact=True) == pytest.approx(truth, abs=1e-12)
    assert part.decompositions + part.turns == 41
    if n > 32:
        assert part.decompositions < 20


def test_a_matrix_unlike_the_last_is_decomposed():
    rng = np.random.default_rng(0)
    part = PsdProjection()
    for _ in range(5):
        matrix = symmetric(50, rng)
        values, vectors = np.linalg.eigh(matrix)
        assert part(matrix) == pytest.approx((vectors * np.maximum(values, 0)) @ vectors.T, abs=1e-9)
    assert part.decompositions == 5
