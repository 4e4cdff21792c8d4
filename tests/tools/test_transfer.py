"""A bound carried over to a problem that hardly differs is a bound there, in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers.dispersion import DispersionProblem
from solvers.participation import CutoffProblem
from tests.thoroughly import tried
from tests.tools.maintain_library import transferred_bound


def optimum(problem: DispersionProblem) -> Fraction:
    """By enumeration and without rounding."""
    H, c = problem.distances.tolist(), problem.costs.tolist()
    return max(
        Fraction(problem.weight) * sum(Fraction(H[i][j]) for i in chosen for j in chosen)
        - sum(Fraction(c[i]) for i in chosen)
        for chosen in combinations(range(problem.n), problem.size)
    )


def matrix(rng: np.random.Generator, n: int) -> np.ndarray:
    upper = np.triu(rng.random((n, n)), 1)
    return upper + upper.T


@tried(25, 100, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-16, 1e-9, 0.1]), st.sampled_from([0.0, 1e-16, 0.3]))
def test_no_decision_beats_a_transferred_bound(seed, farther, dearer):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    known = DispersionProblem(
        matrix(rng, n), rng.standard_normal(n), size=int(rng.integers(1, n + 1)), weight=rng.random()
    )
    changed = replace(
        known,
        distances=known.distances + farther * matrix(rng, n),
        costs=known.costs - dearer * rng.random(n),
    )
    bound = float(optimum(known))
    bound = bound if Fraction(bound) >= optimum(known) else float(np.nextafter(bound, np.inf))
    moved = transferred_bound(known, bound, changed)
    assert moved is not None
    assert Fraction(moved) >= optimum(changed)
    if farther == dearer == 0:
        assert moved == bound


def test_a_uniform_change_moves_the_bound_by_just_that():
    known = DispersionProblem(np.ones((5, 5)) - np.eye(5), np.zeros(5), size=3, weight=0.5)
    changed = replace(known, distances=known.distances * 1.25, costs=np.full(5, -0.5))
    assert transferred_bound(known, 3.0, changed) == pytest.approx(float(optimum(changed)), rel=1e-11)


@pytest.mark.parametrize("change", [{"size": 2}, {"weight": 2.0}, {"clients": np.arange(1, 5)}])
def test_other_problems_are_refused(change):
    known = DispersionProblem(np.ones((4, 4)) - np.eye(4), np.zeros(4), size=3)
    assert transferred_bound(known, 1.0, replace(known, **change)) is None
    assert transferred_bound(known, 1.0, CutoffProblem(rates=[0.5], horizon=10)) is None
