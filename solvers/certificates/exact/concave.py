"""Linearisation bounds in whole numbers: the problem rounded to a grid, multipliers on it, concavity seen for certain.

Sums of 64 bits are bounded by what `solvers.certificates.schema` and `Rounded.of` leave possible: at most 2^16 clients,
numbers of the rounded problem below 2^40 of which m² sum to less than 2^61, multipliers below 2^40 and each pair's
given once, a diagonal raised by less than 2^44.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.exact.sides import Sides
from solvers.certificates.schema import CLIENTS, FACTOR, WIDTH
from solvers.errors import CertificateError

#: Numbers of the rounded problem are smaller.
LARGEST = 1 << 40

#: Allowance for products of weight and distance that vanish, in units of the grid: it is at least 2^-900.
_VANISHED = Fraction(1, 1 << 100)

#: Pairs of members of all cuts of a form.
_PAIRS = 1 << 22

#: Arrays of a form; those of all forms stand one after the other.
FORM = ("ones", "ids", "diagonal", "nonnegative", "dominated", "cut", "cut_member", "row")

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Rounded:
    """The problem in units of 2^grid: ``sᵀ pair s − costᵀs``, and by how much a selection's value can be off."""

    pair: Integers
    cost: Integers
    size: int
    unit: Fraction
    error: Fraction

    @classmethod
    def of(cls, problem: Any, grid: int) -> Rounded:
        """Round ``problem``; refuse a grid so fine that sums would leave 64 bits.

        The product of weight and distance is rounded to a double, by a part of 2^-53 of it (or, where it is subnormal,
        by 2^-1075), and that to the grid, by half of its unit. Scaling by a power of two is exact upwards, and from
        below 2^-1022 it is not; so what is exact is seen by scaling back, where no number is below 2^-900 but 0.
        """
        unit = Fraction(2) ** grid
        m, h = int(problem.size), np.asarray(problem.distances, dtype=np.float64)
        weight, c = float(problem.weight), np.asarray(problem.costs, dtype=np.float64)
        if c.size > CLIENTS:
            raise CertificateError(f"certificates of dispersion are read up to {CLIENTS} clients; here are {c.size}")
        largest = Fraction(weight) * Fraction(float(h.max())) / unit
        extremes = [abs(Fraction(float(end))) / unit for end in (c.min(), c.max())]
        if max(largest, *extremes) >= min(LARGEST, (1 << 61) // (m * m)):
            raise CertificateError(f"the grid 2^{grid} is too fine for the problem's numbers")
        products = weight * h
        pair, cost = (np.rint(np.ldexp(values, -grid)).astype(np.int64) for values in (products, c))
        # A power of two leaves a product as exact as it was, unless it vanishes.
        exact = math.frexp(weight)[0] == 0.5 and bool((np.abs(products[h > 0]) >= 2.0**-1000).all())
        exact = (exact and np.array_equal(np.ldexp(pair.astype(np.float64), grid), products)) or largest == 0
        error = Fraction(0) if exact else m * (m - 1) * (Fraction(1, 2) + largest / (1 << 52) + _VANISHED)
        error += Fraction(0) if np.array_equal(np.ldexp(cost.astype(np.float64), grid), c) else Fraction(m, 2)
        return cls(pair, cost, m, unit, error * unit)

    def value(self, chosen: list[int]) -> int:
        """The value of a selection of the rounded problem."""
        return int(self.pair[np.ix_(chosen, chosen)].sum()) - int(self.cost[chosen].sum())


class WholeForm:
    """One set of multipliers where ``ones`` are chosen and ``ids`` open, made concave there.

    The diagonal is raised by ``room``, which must suffice; by twice what that takes where it is left out, and 64, since
    other machines round otherwise. Side constraints are needed where it has multipliers of products of their rows.
    """

    def __init__(
        self, data: Rounded, part: Mapping[str, Integers], room: int | None = None, sides: Sides | None = None
    ) -> None:
        ones, ids = part["ones"], part["ids"]
        n = data.cost.size
        if np.unique(np.concatenate([ones, ids])).size != ones.size + ids.size:
            raise CertificateError("a form names a client twice")
        self.ones, self.ids = ones, ids
        self.clients, self.open = n, data.size - ones.size
        self.constant = data.value(ones.tolist())
        matrix = data.pair[np.ix_(ids, ids)].copy()
        # At most 2^40 and, of numbers below 2^40, twice as many as are chosen.
        self.linear = -data.cost[ids] + 2 * data.pair[np.ix_(ids, ones)].sum(axis=1)
        diagonal = part["diagonal"]
        raised, dominated = (part[k].reshape(-1, 3) for k in ("nonnegative", "dominated"))
        for triples in (raised, dominated):
            pairs = triples[:, :2]
            if pairs.size and (
                int(pairs.min()) < 0 or int(pairs.max()) >= ids.size or (pairs[:, 0] == pairs[:, 1]).any()
            ):
                raise CertificateError("a multiplier's pair is not one of two different open clients of its form")
        # The product of i and j is that of j and i; who comes before whom is not.
        if _repeated(np.sort(raised[:, :2], axis=1), ids.size) or _repeated(dominated[:, :2], ids.size):
            raise CertificateError("a form gives the multiplier of a pair twice")
        if (raised[:, 2] < 0).any():
            raise CertificateError("a multiplier of a product, which may only raise the objective, is negative")
        # An entry is that of the problem, one of ``raised`` and two of ``dominated``, each below 2^40.
        for triples, sign in ((raised, 1), (dominated, -1)):  # half of the product's multiplier on either side
            np.add.at(matrix, (triples[:, 0], triples[:, 1]), sign * triples[:, 2])
            np.add.at(matrix, (triples[:, 1], triples[:, 0]), sign * triples[:, 2])
        # At most one for each other client: with the above, below 2^40 (1 + 2 m + 2 n) <= 2^59.
        np.add.at(self.linear, dominated[:, 1], 2 * dominated[:, 2])
        self._add_cuts(matrix, part["cut"].reshape(-1, 3).tolist(), part["cut_member"].reshape(-1, 2).tolist())
        if (rows := part.get("row", diagonal[:0])).size:
            if sides is None:
                raise CertificateError("products of rows are given where there are none")
            # Below 2^40 in an entry of the matrix, and 2^59 in one of the linear term.
            constant, linear, products = sides.products(rows.reshape(-1, 3).tolist(), ones, ids)
            self.constant, self.linear = self.constant + constant, self.linear + linear
            matrix += products
        self.dominated = [(int(ids[i]), int(ids[j])) for i, j, _ in dominated]
        self.raised = raised
        least = excess(matrix, diagonal)
        if room is not None and room < least:
            raise CertificateError("the multipliers do not make the objective concave")
        self.room = 2 * least + 64 if room is None else room
        diagonal = diagonal + self.room  # below 2^40 + 2^44
        self.matrix = matrix
        self.matrix[np.arange(ids.size), np.arange(ids.size)] -= diagonal
        self.linear = self.linear + diagonal

    def _add_cuts(self, matrix: Integers, cuts: list[list[int]], members: list[list[int]]) -> None:
        """Add t (b's - k) (b's - k - 1) for each cut: b's is a whole number, between which and the next lies none.

        A cut is its multiplier t, its k and its number of members; these follow, with their factors in b, cut by cut.
        Sums are those of Python before they are seen to leave an entry of the matrix below 2^43.
        """
        if sum(count for _, _, count in cuts) != len(members) or any(
            t < 0 or not 0 <= count <= WIDTH for t, _, count in cuts
        ):
            raise CertificateError("a cut has a negative multiplier, other members than it states, or too many")
        if sum(count**2 for _, _, count in cuts) > _PAIRS:
            raise CertificateError(f"the cuts of a form have more than {_PAIRS} pairs of members")
        if any(not 0 <= i < self.ids.size or abs(b) > FACTOR for i, b in members):
            raise CertificateError("a member of a cut is not an open client of its form, or its factor too large")
        curved, slopes, at = dict[tuple[int, int], int](), dict[int, int](), 0
        for t, k, count in cuts:
            own, at = members[at : at + count], at + count
            self.constant += t * k * (k + 1)
            for i, b in own:
                slopes[i] = slopes.get(i, 0) - t * (2 * k + 1) * b
                for j, c in own:
                    curved[i, j] = curved.get((i, j), 0) + t * b * c
        if max(map(abs, curved.values()), default=0) >= 1 << 42 or max(map(abs, slopes.values()), default=0) >= 1 << 60:
            raise CertificateError("the multipliers of cuts are too large")
        for (i, j), value in curved.items():
            matrix[i, j] += value
        for i, value in slopes.items():
            self.linear[i] += value


def excess(matrix: Integers, diagonal: Integers) -> int:
    """A whole number e for which ``matrix − Diag(diagonal + e)`` is negative semidefinite where ``1ᵀz = 0``.

    There ``u1ᵀ + 1uᵀ + t11ᵀ`` vanishes, and A = that − matrix + Diag is seen to be positive semidefinite.
    """
    n = len(diagonal)
    if n < 2:
        return 0
    # Entries are below 2^43 and rows of 2^16 sum to less than 2^59; u, t and a are below 2^46.
    means = (matrix.sum(axis=1) - diagonal) / n
    u = np.rint(means - means.mean() / 2).astype(np.int64)
    t = max(largest_of(matrix), largest_of(diagonal)) // n
    a = u[:, None] + u + t - matrix
    index = np.arange(n)
    a[index, index] += diagonal
    return level(a)


def level(a: Integers) -> int:
    """A whole number e for which ``A + eI`` is positive semidefinite.

    A is compared with LLᵀ of its Cholesky factor: its smallest eigenvalue is at least minus the largest row sum of
    |A − LLᵀ|. Of that, what rounding in doubles can hide is added: a sum of n products is off by at most
    n 2⁻⁵³ / (1 − n 2⁻⁵³) of their absolute values, in whatever order (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.5); those of LLᵀ are at most |Lᵢ| |Lⱼ|, and twice that also covers the rounding of this allowance.
    """
    n = len(a)
    index = np.arange(n)
    added = 0
    for attempt in range(60):
        if largest_of(a) + added >= 1 << 52:  # up to here doubles are exact
            break
        shifted = a.astype(np.float64)
        shifted[index, index] += added
        try:
            factor = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            least = 0.0 if attempt else float(np.linalg.eigvalsh(shifted)[0])
            added = max(2 * added + 1, math.ceil(-least))
            continue
        lengths = np.sqrt((factor * factor).sum(axis=1))
        hidden = (n + 8) * 2.0**-52 * lengths * lengths.sum()
        row = float((np.abs(shifted - factor @ factor.T).sum(axis=1) + hidden).max())
        if not row < 1 << 44:
            break
        return added + math.ceil(1.0001 * row)
    raise CertificateError("the multipliers do not make the objective concave")


def curvatures(matrix: Integers) -> NDArray[np.float64]:
    r"""Return c for which ``−zᵀ matrix z ≥ cᵢ zᵢ²`` for every i and all z that sum to 0; zeros where none is certain.

    With A as in `excess`, L a factor for which :math:`A - L L^\top` is semidefinite, and any X near :math:`L^{-1}`,
    :math:`z_i = (L^{-1} e_i)^\top L^\top z`, so that c is :math:`1 / |L^{-1} e_i|^2`. Of that the residual
    :math:`R = I - L X` knows: :math:`L^{-1} = X + X (I - R)^{-1} R`. Sums are allowed for as in `level`.
    """
    n = len(matrix)
    none, eps = np.zeros(n), 2.0**-52
    if n < 2:
        return none
    means = matrix.sum(axis=1) / n
    u = np.rint(means - means.mean() / 2).astype(np.int64)
    whole = u[:, None] + u + largest_of(matrix) // n - matrix
    if largest_of(whole) >= 1 << 52 or int(whole.diagonal().min()) <= 0:
        return none
    a, index = whole.astype(np.float64), np.arange(n)
    roots = np.sqrt(a.diagonal())
    lift = math.ceil(2 * (n + 8) * eps * float(roots.max() * roots.sum()))
    a[index, index] -= lift
    try:
        factor = np.linalg.cholesky(a)
        inverse = np.linalg.solve(factor, np.eye(n))
    except np.linalg.LinAlgError:
        return none
    lengths = np.sqrt((factor * factor).sum(axis=1))
    hidden = (n + 8) * eps * lengths * lengths.sum()
    if not float((np.abs(a - factor @ factor.T).sum(axis=1) + hidden).max()) <= 0.999 * lift:
        return none
    norms = np.sqrt((inverse * inverse).sum(axis=0))
    residual = factor @ inverse
    residual[index, index] -= 1.0
    off = np.sqrt((residual * residual).sum(axis=0)) + (n + 8) * eps * float(lengths.sum()) * norms + n * eps
    total = float(np.sqrt((off * off).sum()))
    if not total < 0.5:
        return none
    reach = (norms + float(np.sqrt((norms * norms).sum())) * off / (1 - total)) * (1 + (2 * n + 16) * eps)
    return (1 - 16 * eps) / reach**2 if np.isfinite(reach).all() else none


def part_of(arrays: Mapping[str, Any], name: str, index: int) -> Integers:
    """Part ``index`` of the arrays that are kept one after the other: those of a form, or the points."""
    start, end = arrays[f"{name}_start"][index : index + 2].tolist()
    part: Integers = arrays[name][start:end]
    return part


def _repeated(pairs: Integers, n: int) -> bool:
    """Whether a pair of numbers below n stands there twice."""
    return np.unique(pairs[:, 0] * n + pairs[:, 1]).size != len(pairs)


def largest_of(values: Integers) -> int:
    """The largest absolute value, which for -2^63 is no number of 64 bits."""
    return max(-int(values.min()), int(values.max())) if values.size else 0
