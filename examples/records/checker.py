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

The arithmetic is Python's own. The rounded problem and the test of eigenvalues are those of the checker that is one
file, `solvers.certificates.check_certificate`; nothing that computes the bound is used here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from solvers.certificates import Certificate, CertificateError, problem_digest
from solvers.certificates.check_certificate import Data, Refused, cholesky, need

KIND = "three-point"


def is_positive_semidefinite(rows: Sequence[Sequence[int]]) -> bool:
    """Whether a whole-number matrix (its lower half, row by row) has certainly no negative eigenvalue."""
    return cholesky([list(row) for row in rows], 40, 1) is not None


#: Of each array the least and the largest entry; "n" stands for the number of clients.
ARRAYS: dict[str, tuple[int, int | str]] = {
    "symmetry": (0, "n"),
    "client": (0, "n"),
    "chosen": (1 - (1 << 40), (1 << 40) - 1),
    "left": (1 - (1 << 40), (1 << 40) - 1),
    "room": (0, (1 << 44) - 1),
    "product": (0, "n"),
    "sides": (0, 7),
    "weight": (0, (1 << 40) - 1),
    "equation": (0, "n"),
    "slope": (1 - (1 << 40), (1 << 40) - 1),
    "level": (1 - (1 << 62), (1 << 62) - 1),
}

#: Most entries of an array, and most steps of each part of the check: some minutes. More is refused before it begins.
ENTRIES, STEPS = 1 << 23, 1 << 26

Group = list[tuple[int, ...]]


def check(problem: Any, certificate: Certificate) -> float:
    """Return the bound that a certificate proves, rounded up.

    Parameters
    ----------
    problem : DispersionProblem
        The problem that it is about.
    certificate : Certificate
        ``symmetry`` has one permutation after the other (client i goes to its entry i), which need not be closed under
        composition; ``client`` the clients r; ``chosen`` and ``left`` the lower triangles of their Y and Z, row by row,
        whose diagonals are raised by ``room``, Y before Z; ``product`` three clients for each λ of ``weight``, and bit
        k of ``sides`` is 1 where the k-th of them has the factor 1 − s; ``equation`` two clients for each μ of
        ``slope``; ``level`` is ν.

    Raises
    ------
    CertificateError
        When it is about another problem, is not of this form, or does not prove the bound that it claims.
    """
    claim, grid, named = certificate.bound, certificate.grid, type(problem).__name__
    try:
        need(certificate.kind == KIND, f"this checker reads certificates of kind {KIND!r}, not {certificate.kind!r}")
        need(named == "DispersionProblem", f"a certificate of kind {KIND!r} is about no {named}")
        need(certificate.problem == problem_digest(problem), "the certificate is about another problem")
        need(isinstance(claim, float) and math.isfinite(claim), f"the bound {claim!r} is no number")
        need(type(grid) is int and abs(grid) <= 900, f"the grid must be a whole number up to 900; got {grid!r}")
        given, unit = _validated(certificate.arrays, problem.n), Fraction(2) ** grid
        stated = {"distances": problem.distances.tolist(), "costs": problem.costs.tolist()}
        plain = SimpleNamespace(**stated, size=problem.size, weight=problem.weight)
        proved = _bound(Data(plain, unit, grid, list(range(problem.n))), unit, given)
        safe = float(proved)
        safe = safe if Fraction(safe) >= proved else math.nextafter(safe, math.inf)
        need(proved <= Fraction(claim), f"the certificate claims the bound {claim!r}, but proves only {safe!r}")
    except Refused as error:
        raise CertificateError(str(error)) from None
    except ArithmeticError as error:
        raise CertificateError(f"the certificate's numbers leave the range of those computed with: {error}") from error
    return safe


def _validated(arrays: Any, n: int) -> SimpleNamespace:
    """Return the arrays as lists, after every rule about their types, lengths and ranges has been tested."""
    need(set(arrays) == set(ARRAYS), f"the arrays must be {', '.join(sorted(ARRAYS))}")
    found = {}
    for name, (least, limit) in ARRAYS.items():
        array, most = arrays[name], n - 1 if isinstance(limit, str) else limit
        need(array.dtype.kind in "iu" and array.ndim == 1, f"{name} must be whole numbers, in one dimension")
        need(array.size <= ENTRIES, f"{name} must have at most {ENTRIES} entries")
        values = array.tolist()
        need(not values or (min(values) >= least and max(values) <= most), f"{name} must lie from {least} to {most}")
        found[name] = values
    given = SimpleNamespace(**found)
    triangle, count = n * (n + 1) // 2, len(given.client)
    need(len(given.room) == 2 * count, "there must be two rooms for each client")
    need(len(given.chosen) == len(given.left) == count * triangle, "there must be two triangles for each client")
    need(len(given.product) == 3 * len(given.weight), "there must be three clients for each weight")
    need(len(given.sides) == len(given.weight), "there must be one entry of sides for each weight")
    need(len(given.equation) == 2 * len(given.slope), "there must be two clients for each slope")
    need(len(given.level) == 1, "level must have 1 entry")
    _afford(2 * count * n**3, "matrices")
    _afford(len(given.slope) * n, "equations")
    return given


def _afford(steps: int, what: str) -> None:
    need(steps <= STEPS, f"its {what} would take {steps} steps, more than {STEPS}")


def _bound(data: Data, unit: Fraction, given: SimpleNamespace) -> Fraction:
    n, level = data.n, given.level[0]
    group = closure(data, given.symmetry)
    terms = _products(data, given)
    bound = terms.pop(frozenset(), 0) - data.m * level
    home = list(map(min, zip(*group, strict=True)))
    there = [[g for g in group if g[x] == home[x]] for x in range(n)]
    _afford(3 * len(terms) * max(map(len, there)), "orbits")
    orbits: dict[tuple[int, ...], int] = defaultdict(int)
    for some, value in terms.items():  # an orbit is known by the least of the images that take a client home
        if value:
            orbits[min(tuple(sorted(g[i] for i in some)) for x in some for g in there[x])] += value
    bound += sum(value for value in orbits.values() if value > 0)
    if data.error == 0:  # objectives are multiples of what divides every entry
        step = math.gcd(*(2 * x for row in data.pair for x in row), *data.cost)
        bound = bound // step * step if step else 0
    return bound * unit + data.error


def _products(data: Data, given: SimpleNamespace) -> dict[frozenset[int], int]:
    """Return P: the coefficient of every set of at most three clients."""
    n, m, triangle = data.n, data.m, data.n * (data.n + 1) // 2
    terms: dict[frozenset[int], int] = defaultdict(int)
    for i in range(n):
        terms[frozenset([i])] += data.pair[i][i] - data.cost[i] + given.level[0]
        for j in range(i):
            terms[frozenset([i, j])] += 2 * data.pair[i][j]
    for number, r in enumerate(given.client):
        rooms = given.room[2 * number : 2 * number + 2]
        for values, room, chosen in zip((given.chosen, given.left), rooms, (True, False), strict=True):
            entries = iter(values[number * triangle : (number + 1) * triangle])
            rows = [[next(entries) + room * (i == j) for j in range(i + 1)] for i in range(n)]
            need(is_positive_semidefinite(rows), "a matrix of multipliers may have a negative eigenvalue")
            for i, row in enumerate(rows):
                for j, entry in enumerate(row):
                    value = entry if i == j else 2 * entry
                    terms[frozenset([r, i, j])] += value if chosen else -value
                    terms[frozenset([i, j])] += 0 if chosen else value
    for number, (sides, weight) in enumerate(zip(given.sides, given.weight, strict=True)):
        three = given.product[3 * number : 3 * number + 3]
        for taken in range(8):  # of a factor s its term s, of a factor 1 - s either term
            if (taken | sides) == 7:
                some = frozenset(client for k, client in enumerate(three) if taken >> k & 1)
                terms[some] += weight * (-1) ** (taken & sides).bit_count()
    for r, i, slope in zip(given.equation[::2], given.equation[1::2], given.slope, strict=True):
        terms[frozenset([r, i])] -= m * slope
        for j in range(n):
            terms[frozenset([r, i, j])] += slope
    return terms


def closure(data: Data, symmetry: Sequence[int]) -> Group:
    """Return all products of permutations of the clients, given one after the other, that change no entry."""
    n = data.n
    need(len(symmetry) % n == 0, "a symmetry has no entry for every client")
    # Each once: every one multiplies the work.
    generators = list(dict.fromkeys(zip(*[iter(symmetry)] * n, strict=True)))
    _afford(len(generators) * n * n, "symmetries")
    for g in generators:
        need(sorted(g) == list(range(n)), "a symmetry is no permutation")
        need([data.cost[i] for i in g] == data.cost, "a symmetry changes a cost")
        moved = [[data.pair[a][b] for b in g] for a in g]
        need(moved == data.pair, "a symmetry changes a distance")
    found = {tuple(range(n))}
    fresh, steps = list(found), 0
    while fresh:
        steps += len(fresh) * len(generators) * n
        _afford(steps, "products of symmetries")
        fresh = list({tuple(g[i] for i in each) for each in fresh for g in generators} - found)
        found.update(fresh)
    return list(found)
