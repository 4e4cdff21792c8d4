r"""Checker of a search over the clients that Lagrange multipliers of the level-1 linearisation leave, in integers.

The data are rounded to multiples of 2^grid. A stage of multipliers leaves out clients that no selection worth more than
the goal contains, and the next one sees the others only; what is left goes to the search
(`solvers.certificates.exact.dispersion`), which has nothing to do where a stage leaves out all.

* **Squares**: factors F, a row for each client, raise the objective by :math:`|F^\top s|^2 / 2^h`, which is never
  negative. Entries are rounded up, and as :math:`s_i s_j \ge 0` that may only raise it further.
* **Shares**: the value :math:`2 q_{ij}` of a pair is divided between its clients, in whole numbers: half each, and
  :math:`p_i - p_j` moved from j to i; but a client of the core takes :math:`2 p_i` of each pair with a client outside
  it, which gets the rest. Multipliers, one for each pair given, move worth from the second client to the first. What
  one gets the other lacks, to the last unit.
* **Values**: :math:`v_i` is what client i brings alone and the m − 1 largest of its shares. A selection is worth the
  sum of its clients' v at most; with client i, v_i and the m − 1 largest of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.exact.concave import Rounded, largest_of, part_of
from solvers.certificates.exact.dispersion import check_dispersion
from solvers.errors import CertificateError

Integers = NDArray[np.int64]

#: Columns of the factors, at most: a sum of so many products of two numbers up to 2^26 is at most 2^61.
COLUMNS = 1 << 9


def check_rlt(problem: Any, grid: int, arrays: Mapping[str, Integers]) -> Fraction:
    """Return a number that no selection is worth more than.

    ``stage_*`` are one stage after the other: clients with factors (``stage_factor``, their rows one after the other)
    and with p (``stage_price``), the ``stage_core``, and triples of two clients and what the second one gives to the
    first (``stage_moved``); ``stage_halvings`` is h. Who is not named has none of it. All else is the search's.
    """
    data = Rounded.of(problem, grid)
    left = np.arange(data.cost.size)
    for stage in range(arrays["stage_halvings"].size):
        if left.size > data.size:
            left = left_by_rows(left, row_values(data, arrays, stage, left), data.size, int(arrays["goal"][0]))
    return check_dispersion(problem, grid, arrays, left)


def left_by_rows(left: Integers, values: Integers, size: int, goal: int) -> Integers:
    """Return those of ``left`` that a selection of ``size`` worth more than the goal may contain."""
    top = np.sort(values)[::-1][:size]
    return left[np.minimum(top[:-1].sum() + values, top.sum()) > goal]


def row_values(data: Rounded, arrays: Mapping[str, Integers], stage: int, left: Integers) -> Integers:
    """Return what each of ``left``, more than m clients, is worth by the multipliers of a stage."""
    n, m = data.cost.size, data.size
    ids, price, core, factor, moved = (
        part_of(arrays, f"stage_{name}", stage) for name in ("ids", "price", "core", "factor", "moved")
    )
    _require(np.unique(ids).size == ids.size, f"stage {stage} names a client twice")
    pair, linear = data.pair[np.ix_(left, left)], -data.cost[left]
    if factor.size:
        columns = factor.size // max(ids.size, 1)
        _require(columns * ids.size == factor.size and columns <= COLUMNS, f"factors of stage {stage} are no rows")
        rows = np.zeros((n, columns), dtype=np.int64)
        rows[ids] = factor.reshape(-1, columns)
        raised = -(-(rows[left] @ rows[left].T) >> int(arrays["stage_halvings"][stage]))
        pair, linear = pair + raised, linear + raised.diagonal()
    # Of numbers up to the limit no m times m add up to more than 2^61, and no share takes more than 63 bits.
    limit = (1 << 61) // m**2
    np.fill_diagonal(pair, 0)
    _require(largest_of(pair) <= limit, f"the factors of stage {stage} are too large")
    prices, is_core = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    prices[ids], is_core[core] = price, True
    shares = _divided(pair, prices[left], is_core[left]) + _moved(moved.reshape(-1, 3), left, n)
    np.fill_diagonal(shares, 0)
    _require(max(largest_of(shares), largest_of(linear)) <= limit, f"the multipliers of stage {stage} are too large")
    np.fill_diagonal(shares, -(1 << 62))
    cut = left.size - (m - 1)
    largest: Integers = np.partition(shares, min(cut, left.size - 1), axis=1)[:, cut:]
    return linear + largest.sum(axis=1)


def _divided(pair: Integers, price: Integers, is_core: NDArray[np.bool_]) -> Integers:
    """Divide the pairs' values by prices."""
    takes = is_core[:, None] & ~is_core
    shares = np.where(takes, 2 * price[:, None], pair + price[:, None] - price)
    return np.where(takes.T, 2 * pair - 2 * price, shares)


def _moved(triples: Integers, left: Integers, n: int) -> Integers:
    """Return what multipliers add to the shares: to one client's what the other's loses."""
    clients, change = triples[:, :2], np.zeros((left.size, left.size), dtype=np.int64)
    _require(((clients >= 0) & (clients < n)).all(), "a multiplier is not of two clients")
    place = np.full(n, -1)
    place[left] = np.arange(left.size)
    first, second = place[clients].T
    here = (first >= 0) & (second >= 0)
    # There are fewer than 2^22, each below 2^40.
    np.add.at(change, (first[here], second[here]), triples[here, 2])
    np.subtract.at(change, (second[here], first[here]), triples[here, 2])
    return change


def _require(condition: bool | np.bool_, sentence: str) -> None:
    if not condition:
        raise CertificateError(sentence)
