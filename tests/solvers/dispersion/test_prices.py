"""Prices of side constraints: the bound of a tangent is the linear maximum, for every kind of quota."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers.dispersion.kernels.tree_data import Sides
from solvers.dispersion.relaxations.prices import priced_bound
from solvers.dispersion.relaxations.slice_form import SliceForm


def quotas(group, low, high):
    """State quotas of disjoint groups alone."""
    n, none = len(group), np.zeros(0)
    start, whole = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.zeros((0, n), dtype=np.int64)
    return Sides(group, low, high, np.zeros((0, n)), none, none, none, order, start, whole)


def test_a_linear_objective_is_bounded_by_its_maximum():
    rng, exact, seen = np.random.default_rng(0), 0, 0
    for _ in range(400):
        n, kinds = int(rng.integers(5, 9)), int(rng.integers(1, 4))
        group = rng.integers(kinds, size=n)
        members = np.bincount(group, minlength=kinds)
        low = rng.integers(0, members + 1)
        high = np.where(rng.random(kinds) < 0.4, low, rng.integers(low, members + 1))
        sides = quotas(group, low, high)
        if low.sum() == high.sum() == 0:
            continue
        size = int(rng.integers(max(1, low.sum()), high.sum() + 1))
        linear = np.round(rng.standard_normal(n), 1)  # with ties
        form = SliceForm(np.zeros((n, n)), np.zeros((n, n)), linear, size, 0.0)
        best = max(
            linear[list(chosen)].sum()
            for chosen in itertools.combinations(range(n), size)
            if all(low[g] <= (group[list(chosen)] == g).sum() <= high[g] for g in range(kinds))
        )
        found = priced_bound(form, sides, np.full(n, size / n), np.zeros(0))
        assert found.value == pytest.approx(best, abs=1e-9)
        assert found.value >= best
        exact += bool((low == high).any())
        seen += 1
    assert seen > 300
    assert exact > 100
