"""The hypersimplex against enumeration of its selections."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import Constraints
from solvers.feasible_set import ONE, ZERO, Hypersimplex
from tests.thoroughly import tried


@st.composite
def sets(draw):
    """A hypersimplex and a linear function with ties."""
    n = draw(st.integers(1, 7))
    g = np.array(draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n)), dtype=float)
    return Hypersimplex(n, draw(st.integers(0, n))), g


def decisions(feasible: Hypersimplex) -> list[np.ndarray]:
    return [feasible.decision(clients) for clients in feasible.selections()]


@tried(25, 100, sets())
def test_the_maximum_of_a_linear_function_is_that_of_the_selections(case):
    feasible, g = case
    values = [float(g @ x) for x in decisions(feasible)]
    assert len(values) == feasible.count == math.comb(feasible.n, feasible.size)
    assert feasible.support(g) == max(values)
    best = feasible.best(g)
    assert feasible.violation(best) == 0
    assert g @ best == max(values)
    if feasible.size:
        assert feasible.threshold(g) == min(g[best == 1])


@tried(25, 100, sets(), st.floats(0, 8))
def test_fixed_clients_are_so_in_every_selection_that_is_good_enough(case, room):
    feasible, g = case
    state = feasible.fixed(g, room)
    good = [x for x in decisions(feasible) if g @ x >= feasible.support(g) - room]
    assert all((x[state == ONE] == 1).all() and (x[state == ZERO] == 0).all() for x in good)
    if room == 0 and len(good) == 1 and not feasible.is_single:
        assert (state != 0).all()


@tried(25, 100, sets(), st.sampled_from([0.0, 2.0**-4, 2.0**-30]), st.integers(0, 2**32 - 1))
def test_projections_lie_in_the_set(case, grain, seed):
    feasible, _ = case
    y = feasible.project(np.random.default_rng(seed).normal(0.5, 1.0, feasible.n), grain)
    assert (y >= 0).all()
    assert (y <= 1 + 1e-15).all()
    assert y.sum() == pytest.approx(feasible.size, abs=1e-12)
    if grain:
        assert y.sum() == feasible.size
        assert (y % grain == 0).all()
    assert feasible.violation(feasible.round(y)) == 0
    for x in decisions(feasible):
        assert np.array_equal(feasible.round(feasible.project(x.astype(float), grain)), x)


@tried(25, 100, sets(), st.integers(0, 2**32 - 1))
def test_draws_rows_and_centre_agree_with_membership(case, seed):
    feasible, _ = case
    x = feasible.draw(np.random.default_rng(seed))
    assert feasible.violation(x) == 0
    for point in (x, feasible.centre):
        assert all(row.low - 1e-12 <= row.coefficients @ point <= row.high + 1e-12 for row in feasible.rows())
    assert feasible.violation(x + 1) == max(feasible.n, 1 if x.any() else 0)
    assert feasible.violation(-x) == max(2 * feasible.size, 0)


def test_growing_repairing_and_swaps_of_the_hypersimplex_are_those_without_rows():
    """What callers ask of either set: the set with empty rows answers the same."""
    rng, compared = np.random.default_rng(2), 0
    for _ in range(60):
        n = int(rng.integers(2, 9))
        m = int(rng.integers(1, n))
        plain = Hypersimplex(n, m)
        rows = ConstrainedSelections.of(Constraints(np.zeros(n, dtype=np.int8), m))
        pairs, g = rng.random((n, n)), rng.integers(0, 4, n).astype(float)
        grown = plain.grown(g, pairs.__getitem__)
        assert grown.tolist() == rows.grown(g, pairs.__getitem__).tolist()
        assert grown.sum() == m
        x = (rng.random(n) < 0.5).astype(np.int64)
        repaired = plain.repaired(x, g)
        assert plain.violation(repaired) == 0
        kept = int((repaired & x).sum())
        assert kept == min(m, x.sum())  # no more is changed than must be
        assert g[(repaired == 1) & (x == 0)].sum() == np.sort(g[x == 0])[::-1][: m - kept].sum()
        inside, outside = np.flatnonzero(repaired), np.flatnonzero(repaired == 0)
        assert (plain.swaps(repaired, inside, outside) == rows.swaps(repaired, inside, outside)).all()
        value, reduced, top = plain.relaxed(g, np.zeros(0))
        other = rows.relaxed(g, np.zeros(0))
        assert (value, reduced[top].sum()) == (other[0], other[1][other[2]].sum())
        assert plain.losses(g, other[2]).tolist() == rows.losses(g, other[2]).tolist()
        compared += 1
    assert compared == 60
