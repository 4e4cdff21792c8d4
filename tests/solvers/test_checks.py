"""Checks of arguments: what they accept, and the sentence for what they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers.backends import into_box
from solvers.checks import distribution, frozen_array, integer, number, one_of, seconds_or_none, vector
from solvers.errors import BenchmarkError, InvalidOption, InvalidProblem
from solvers.options import Above, AtLeast, AtMost, Below
from tests.thoroughly import tried


def test_accepted_values_come_back_as_plain_numbers_of_any_library():
    assert (integer(np.int32(3), "n", AtLeast(1)), type(integer(np.int32(3), "n"))) == (3, int)
    assert (number(np.float32(0.5), "x", Above(0)), type(number(2, "x"))) == (0.5, float)
    assert (seconds_or_none(None), seconds_or_none(2)) == (None, 2.0)
    assert not vector([1, 2], "w", AtLeast(1)).flags.writeable
    assert distribution([0.5 + 4e-10, 0.5], "p").sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("check", "error", "sentence"),
    [
        (lambda: integer(True, "n"), InvalidProblem, "n must be an integer; got True"),
        (lambda: integer(2.0, "n", AtLeast(1)), InvalidProblem, "n must be an integer of at least 1; got 2.0"),
        (lambda: integer(9, "n", AtLeast(1), Below(9)), InvalidProblem, "an integer of at least 1 and below 9; got 9"),
        (lambda: number("2", "x"), InvalidProblem, "x must be finite; got '2'"),
        (lambda: number(np.complex128(2), "x"), InvalidProblem, "x must be finite; got np.complex128"),
        (lambda: number(math.inf, "x", AtLeast(0)), InvalidProblem, "x must be finite and non-negative; got inf"),
        (lambda: number(0, "x", Above(0), error=InvalidOption), InvalidOption, "x must be finite and positive; got 0"),
        (lambda: seconds_or_none(0, "limit", BenchmarkError), BenchmarkError, "limit must be a positive number of sec"),
        (lambda: one_of("tv2", "bias", ("chi2", "tv")), InvalidProblem, "'chi2' or 'tv'; got 'tv2'; did you mean 'tv'"),
        (lambda: vector([[1], [1, 2]], "w"), InvalidProblem, "w must be numbers: its rows differ in length"),
        (lambda: vector(["1", "2"], "w"), InvalidProblem, "w must be real numbers; got text"),
        (lambda: vector([np.complex128(1j)], "w"), InvalidProblem, "w must be real numbers; got complex ones"),
        (lambda: vector([10**400], "w"), InvalidProblem, "w must be numbers: int too large"),
        (lambda: frozen_array([0.5, 1], "k", dtype=np.int64), InvalidProblem, "k must be whole numbers; got"),
        (lambda: frozen_array([2**70], "k", dtype=np.int64), InvalidProblem, "k must be numbers: Python int too large"),
        (lambda: vector([], "w"), InvalidProblem, "w is empty; there must be at least one client"),
        (lambda: vector([1], "w", n=2, of="group"), InvalidProblem, "w must have one entry per group, 2; got 1"),
        (lambda: vector([1, 2], "w", Above(0), AtMost(1)), InvalidProblem, "positive and at most 1; client 1 has 2"),
        (lambda: distribution([0.5, 0.6], "p"), InvalidProblem, r"p must sum to 1; it sums to 1\.1"),
    ],
)
def test_what_is_not_accepted_is_a_sentence(check, error, sentence):
    with pytest.raises(error, match=sentence):
        check()


@tried(25, 100, st.lists(st.floats(-2, 2), min_size=1, max_size=6), st.floats(0, 1))
def test_a_point_is_moved_into_its_box_and_onto_the_sum(values, share):
    x, lower, upper = np.array(values), np.full(len(values), -0.5), np.full(len(values), 0.75)
    total = float((lower + share * (upper - lower)).sum())
    moved = into_box(x, lower, upper, total)
    assert (moved >= lower).all()
    assert (moved <= upper).all()
    assert moved.sum() == pytest.approx(total, abs=1e-12)
