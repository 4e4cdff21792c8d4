"""The values a selection can have at all, where distances and costs take few different values.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has a table of symbols and names.

FedGS's two-label clients have few different distances and counts of a few rounds: with ten chosen, an objective is
then a sum of 45 of the former and 10 of the latter. When no such sum lies between the incumbent and a bound, the
incumbent is optimal.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.slice_form import ScaledProblem

#: Sums of distances, or of linear terms, that are worth listing.
_MOST = 100_000


class Attainable:
    """A superset of the objective values of all selections, in the units of `ScaledProblem`.

    Every value within `error` of an entry counts as attainable: nearly equal data are taken for equal.
    """

    def __init__(self, scaled: ScaledProblem) -> None:
        n, m = scaled.linear.size, scaled.size
        pairs = m * (m - 1) // 2
        self.known, self.error = False, scaled.error
        linears, linear_spread = _distinct(scaled.linear)
        if not (_few(_distinct(scaled.quadratic[0, 1:])[0].size, pairs) and _few(linears.size, m)):
            return  # one client's distances are too many already
        products, spread = _distinct(2 * scaled.quadratic[np.triu_indices(n, 1)])
        self.known = _few(products.size, pairs)
        self.error += pairs * spread + m * linear_spread
        if self.known:
            self.products = np.sort(_sums(products, pairs))
            self.linears = _sums(linears, m)
            scale = pairs * float(np.abs(products).max(initial=0)) + m * float(np.abs(linears).max())
            self.error += 8 * (pairs + m) * float(np.finfo(np.float64).eps) * scale

    def above(self, value: float) -> float:
        """The smallest attainable value that is larger than ``value`` by more than rounding, less `error`.

        ``value`` itself when nothing is known, `math.inf` when no selection can be better.
        """
        if not self.known:
            return value
        least = value + 2 * self.error
        places = np.searchsorted(self.products, least - self.linears, side="right")
        exists = places < self.products.size
        if not exists.any():
            return math.inf
        return max(value, float((self.products[places[exists]] + self.linears[exists]).min()) - self.error)


def _few(values: int, count: int) -> bool:
    """Whether the sums of ``count`` of so many values are few enough to list."""
    least = min(count, values - 1)
    return least < 20 and math.comb(count + values - 1, least) <= _MOST


def _distinct(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Representatives of the values, nearly equal ones taken together, and the largest distance from one."""
    unique = np.unique(values)
    if unique.size == 0:
        return np.zeros(1), 0.0
    breaks = np.flatnonzero(np.diff(unique) > 1e-13 * np.abs(unique).max()) + 1
    starts = np.concatenate([[0], breaks])
    ends = np.concatenate([breaks, [unique.size]]) - 1
    return unique[starts], float((unique[ends] - unique[starts]).max())


def _sums(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """All sums of ``count`` of the values, with repetition."""
    if values.size == 1:
        return count * values
    # Stars and bars: the positions of the bars tell how often each value is taken.
    k = values.size
    number = math.comb(count + k - 1, k - 1)
    flat = np.fromiter(
        itertools.chain.from_iterable(itertools.combinations(range(count + k - 1), k - 1)),
        dtype=np.int64,
        count=number * (k - 1),
    )
    bars = flat.reshape(number, k - 1)
    edges = np.column_stack([np.full(number, -1), bars, np.full(number, count + k - 1)])
    return (np.diff(edges, axis=1) - 1) @ values
