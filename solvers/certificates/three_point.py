r"""Checker of bounds from products of three clients, averaged over the problem's symmetries, in whole numbers.

F(s) is the objective rounded to multiples of 2^grid. On the selections of m clients it is at most

.. math::

   P(s) = F(s) + \sum_r \left[ s_r \, s^\top Y_r s + (1 - s_r) \, s^\top Z_r s \right] + \sum \lambda \, p(s)
          + \sum \mu \, s_r s_i \left( 1^\top s - m \right) + \nu \left( 1^\top s - m \right)

as every Y and Z is positive semidefinite, no λ is negative, no product p of three factors :math:`s_i` or
:math:`1 - s_i` is, and what μ and ν multiply is zero. P is a sum of coefficients times products of at most three
clients, because :math:`s_i^2 = s_i`. A symmetry g changes no entry of the rounded problem, so that
:math:`F(s) = F(gs) \le P(gs)`, and the average of P(gs) over all symmetries bounds F(s), too: there a product counts
with its share of the coefficients of its orbit, whose products average to a number from 0 to 1. Hence F(s) is at most
P's constant and, for each orbit, the sum of its coefficients where that is positive. Where rounding changed nothing,
every objective is a multiple of the common divisor of the entries, and the bound is rounded down to one.

Schrijver, New code upper bounds from the Terwilliger algebra, IEEE Trans. Inf. Theory 51, 2005, has the relaxation.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.concave import Rounded, level
from solvers.errors import CertificateError

__all__ = ["check_three_point"]

Integers = NDArray[np.int64]

#: Most numbers of all symmetries together, and most coefficients that are added up.
_LISTED, _TERMS = 1 << 23, 1 << 24

#: Coefficients are below 2^62; their lower bits and their upper ones are added apart, so that no sum leaves 64 bits.
_LOW = 30


def check_three_point(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the bound that the multipliers prove.

    ``symmetry`` has one permutation after the other (client i goes to its entry i), which need not be closed under
    composition; ``client`` the clients r; ``chosen`` and ``left`` the lower triangles of their Y and Z, row by row,
    whose diagonals are raised by ``room``, Y before Z; ``product`` three clients for each λ of ``weight``, and bit k of
    ``sides`` is 1 where the k-th of them has the factor 1 − s; ``equation`` two clients for each μ of ``slope``;
    ``level`` is ν.
    """
    data = Rounded.of(problem, grid)
    n, m = data.cost.size, data.size
    orbits = _Orbits(_group(arrays["symmetry"], data))
    everybody = np.arange(n)
    first, second = np.triu_indices(n, 1)
    orbits.add(first, first, second, 2 * data.pair[first, second])
    orbits.add(everybody, everybody, everybody, np.diag(data.pair) - data.cost)
    clients, rooms = arrays["client"].tolist(), arrays["room"].tolist()
    row, column = np.tril_indices(n)
    for name in ("chosen", "left"):
        _require(arrays[name].size == len(clients) * row.size, f"{name!r} must hold one triangle for each client")
    _require(len(rooms) == 2 * len(clients), "'room' must have two entries for each client")
    for r, y, z, *room in zip(
        clients,
        *(arrays[name].reshape(-1, row.size) for name in ("chosen", "left")),
        rooms[::2],
        rooms[1::2],
        strict=True,
    ):
        at = np.full(row.size, r)
        for values, raised in zip((y, z), room, strict=True):
            matrix = np.zeros((n, n), dtype=np.int64)
            matrix[row, column] = matrix[column, row] = values
            _require(level(matrix) <= raised, "a matrix of multipliers has a negative eigenvalue")
        twice = 2 - (row == column)
        y, z = (twice * values + raised * (row == column) for values, raised in zip((y, z), room, strict=True))
        orbits.add(at, row, column, y - z)
        orbits.add(row, row, column, z)
    constant = _add_products(orbits, arrays)
    r, i = arrays["equation"].reshape(-1, 2).T if arrays["equation"].size % 2 == 0 else (everybody, everybody[:0])
    _require(r.size == i.size == arrays["slope"].size, "'equation' must name two clients for each slope")
    for k in everybody.tolist():
        orbits.add(r, i, np.full(r.size, k), arrays["slope"])
    orbits.add(r, r, i, -m * arrays["slope"])
    nu = int(arrays["level"][0])
    orbits.add(everybody, everybody, everybody, np.full(n, nu))
    bound = constant - m * nu + sum(total for total in orbits.totals() if total > 0)
    if data.error == 0:
        step = gcd(*(2 * data.pair[first, second]).tolist(), *data.cost.tolist())
        bound = bound // step * step if step else 0
    return bound * data.unit + data.error


def _add_products(orbits: _Orbits, arrays: Mapping[str, Any]) -> int:
    """Add λ times the products; return what they have without any client."""
    clients, sides, weight = arrays["product"], arrays["sides"], arrays["weight"]
    _require(clients.size == 3 * weight.size, "'product' must name three clients for each weight")
    places, constant = clients.reshape(-1, 3), 0
    for plain, taken in product(range(8), range(8)):
        if taken & plain != plain:  # of a factor s its term s, of a factor 1 - s either term
            continue
        here = sides == 7 & ~plain
        values = weight[here] * (-1) ** (taken & ~plain).bit_count()
        kept = [places[here, k] for k in range(3) if taken >> k & 1]
        if kept:
            orbits.add(kept[0], kept[1 % len(kept)], kept[-1], values)
        else:
            constant += sum(values.tolist())
    return constant


def _group(generators: Integers, data: Rounded) -> Integers:
    """Return all products of the generators, permutations that change no entry of the rounded problem."""
    n = data.cost.size
    _require(generators.size % n == 0, "'symmetry' must have an entry for every client of each permutation")
    given = generators.reshape(-1, n)
    everybody = np.arange(n)
    for g in given:
        _require(np.array_equal(np.sort(g), everybody), "a symmetry is no permutation of the clients")
        same = np.array_equal(data.pair[np.ix_(g, g)], data.pair) and np.array_equal(data.cost[g], data.cost)
        _require(same, "a symmetry changes the problem")
    found, fresh = {everybody.tobytes(): everybody}, [everybody]
    while fresh:
        products = [g[element] for element in fresh for g in given]
        fresh = []
        for each in products:
            if each.tobytes() not in found:
                found[each.tobytes()] = each
                fresh.append(each)
                _require(len(found) * n <= _LISTED, f"the symmetries make more than {_LISTED // n} permutations")
    return np.array(list(found.values()))


class _Orbits:
    """Sums of coefficients over the orbits of sets of at most three clients."""

    def __init__(self, group: Integers) -> None:
        self.group, self.n = group, group.shape[1]
        home = group.min(axis=0)  # the first client of each one's orbit
        # For every client the symmetries that take it there; where others have more of them, the last one again.
        there = [np.flatnonzero(group[:, x] == home[x]) for x in range(self.n)]
        widest = max(found.size for found in there)
        self.there = np.array([np.concatenate([f, np.full(widest - f.size, f[-1])]) for f in there])
        self.keys: list[Integers] = []
        self.values: list[Integers] = []
        self.terms = 0

    def add(self, a: Integers, b: Integers, c: Integers, values: Integers) -> None:
        """Add coefficients of the products of a, b and c, which may be equal."""
        self.terms += values.size
        _require(self.terms <= _TERMS, f"there are more than {_TERMS} coefficients")
        self.keys.append(self._key(a, b, c))
        self.values.append(values)

    def _key(self, *clients: Integers) -> Integers:
        """Number sets: in order, and the first one again where two or all are equal."""
        a, b, c = np.sort(np.stack(clients), axis=0)
        return (a * self.n + np.where(b == c, a, b)) * self.n + c

    def totals(self) -> list[int]:
        """Return the sum of each orbit."""
        keys, place = np.unique(np.concatenate(self.keys), return_inverse=True)
        low, high = self._sums(place, np.concatenate(self.values), keys.size)
        low, carried = low & ((1 << _LOW) - 1), low >> _LOW  # high and what is carried are below 2^60
        _, orbit = np.unique(self._first(keys), return_inverse=True)
        sums = [0] * (int(orbit.max()) + 1)
        for k, above, below in zip(orbit.tolist(), (high + carried).tolist(), low.tolist(), strict=True):
            sums[k] += (above << _LOW) + below
        return sums

    def _sums(self, place: Integers, values: Integers, count: int) -> tuple[Integers, Integers]:
        found = np.zeros((2, count), dtype=np.int64)
        np.add.at(found[0], place, values & ((1 << _LOW) - 1))
        np.add.at(found[1], place, values >> _LOW)
        return found[0], found[1]

    def _first(self, keys: Integers) -> Integers:
        """Of each set's images the least among those that take one of its clients to the first of its orbit."""
        width = self.there.shape[1]
        step = max(1, (1 << 22) // width)
        found = []
        for at in range(0, keys.size, step):
            rest, c = np.divmod(keys[at : at + step], self.n)
            clients = (*np.divmod(rest, self.n), c)
            least = np.full(c.size, self.n**3)
            for x in clients:
                g = self.there[x]  # the set's images, one column for each symmetry
                images = self._key(*(self.group[g, each[:, None]] for each in clients))
                least = np.minimum(least, images.min(axis=1))
            found.append(least)
        return np.concatenate(found)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise CertificateError(sentence)
