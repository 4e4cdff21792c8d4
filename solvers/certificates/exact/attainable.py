"""The values a selection can have at all, where distances and costs take few of them: in exact arithmetic."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any

import numpy as np

#: Sums of distances, or of costs, that are worth listing.
MOST = 100_000


def attainable(problem: Any, bound: Fraction) -> Fraction:
    """The largest sum up to ``bound`` of as many distances and costs as a selection has; ``bound`` if these are many.

    A selection's value is such a sum, of m (m − 1) / 2 distances times twice the weight, less a sum of m costs; not
    every such sum is a selection's. Distances that nearly agree are taken together, with the largest in their place,
    and what that can add is allowed for.
    """
    n, m = int(problem.costs.size), int(problem.size)
    pairs = m * (m - 1) // 2
    products, spread = _distinct(np.asarray(problem.distances, dtype=np.float64)[np.triu_indices(n, 1)])
    costs, cost_spread = _distinct(-np.asarray(problem.costs, dtype=np.float64))
    weight = 2 * Fraction(float(problem.weight))
    if not (_are_few(len(products), pairs) and _are_few(len(costs), m)) or weight < 0:
        return bound
    products = [weight * value for value in products]
    unit = math.lcm(*(value.denominator for value in [*products, *costs]))
    slack = math.ceil((weight * pairs * spread + m * cost_spread) * unit)
    first = sorted(_sums([int(value * unit) for value in products], pairs))
    # What lies in (value - slack, value] stands at value: so the look goes up to bound + slack.
    limit, best = math.floor(bound * unit) + slack, None
    for total in _sums([int(value * unit) for value in costs], m):
        place = bisect_right(first, limit - total)
        if place and (best is None or first[place - 1] + total > best):
            best = first[place - 1] + total
    return bound if best is None else min(Fraction(best, unit), bound)


def _are_few(values: int, count: int) -> bool:
    """Whether ``count`` of the values, with repetition, are at most `MOST` choices; the number may have any length."""
    choices = 1
    for k in range(1, values):
        choices = choices * (count + k) // k
        if choices > MOST:
            return False
    return True


def _distinct(values: Any) -> tuple[list[Fraction], Fraction]:
    """The largest of each group of nearly equal values, and the widest group."""
    unique = np.unique(values)
    if unique.size == 0:
        return [Fraction(0)], Fraction(0)
    ends = np.append(np.flatnonzero(np.diff(unique) > 1e-13 * np.abs(unique).max()), unique.size - 1)
    starts = np.append(0, ends[:-1] + 1)
    widest = max(Fraction(float(unique[b])) - Fraction(float(unique[a])) for a, b in zip(starts, ends, strict=True))
    return [Fraction(float(unique[b])) for b in ends], widest


def _sums(values: list[int], count: int) -> set[int]:
    """All sums of ``count`` of the values, with repetition."""
    sums: dict[int, set[int]] = {0: {0}}
    for value in values[:-1]:
        larger: dict[int, set[int]] = {}
        for used, totals in sums.items():
            for more in range(count - used + 1):
                larger.setdefault(used + more, set()).update(total + more * value for total in totals)
        sums = larger
    return {total + (count - used) * values[-1] for used, totals in sums.items() for total in totals}
