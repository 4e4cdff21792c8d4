r"""Cuts from integrality, their separation, and their multipliers: no integer is strictly between k and k + 1.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has a table of symbols and names.

For an integer vector b and an integer k, every 0/1 vector has :math:`(b^\top s - k)(b^\top s - k - 1) \ge 0`, which is
linear in :math:`X = s s^\top`:

.. math:: b^\top X b - (2k + 1) \, b^\top \mathrm{diag}(X) + k (k + 1) \ge 0.

Two entries +1 and one −1 with k = 0 are the triangle inequality :math:`X_{ik} + X_{jk} \le X_{kk} + X_{ij}`; entries
+1, −1 give :math:`X_{ik} \le X_{kk}`; three entries +1 with k = 1 give
:math:`x_i + x_j + x_k \le 1 + X_{ij} + X_{ik} + X_{jk}` (Padberg, The Boolean quadric polytope, Math. Programming 45,
1989); longer vectors are the hypermetric and gap inequalities (Laurent and Poljak, Gap inequalities for the cut
polytope, Europ. J. Combinatorics 17, 1996), in words: the
variance of :math:`b^\top s` is at least that of a whole number with its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY

#: Most clients of one cut, and of one that local search finds. A label's clients that multipliers of products leave are
#: ten to forty. 2026-11-27.
WIDTH, SEARCHED = 48, 16


@dataclass(frozen=True)
class Cuts:
    r"""Cuts among n clients: row r has b = ``signs[r]`` on the clients ``members[r]`` (padded with sign 0) and k.

    In the form ``⟨T_r, X⟩ ≤ limits[r]``, :math:`T = ((2k + 1) Diag(b) - bb^\top) / 2`.
    """

    members: NDArray[np.int64]
    signs: NDArray[np.int64]
    k: NDArray[np.int64]
    n: int

    @classmethod
    def none(cls, n: int) -> Cuts:
        """No cut at all."""
        return cls(np.zeros((0, WIDTH), dtype=np.int64), np.zeros((0, WIDTH), dtype=np.int64), np.zeros(0, int), n)

    @classmethod
    def of(cls, members: NDArray[np.int64], signs: NDArray[np.int64], k: NDArray[np.int64], n: int) -> Cuts:
        """From arrays at most `WIDTH` wide."""
        short = WIDTH - members.shape[1]
        pad = ((0, 0), (0, short))
        return cls(np.pad(members, pad), np.pad(signs, pad), k, n)

    def __len__(self) -> int:
        return len(self.k)

    @property
    def limits(self) -> NDArray[np.float64]:
        """Right-hand sides."""
        return self.k * (self.k + 1) / 2

    def matrix(self) -> Any:
        """The maps T as a sparse (cuts, n²) matrix of symmetric rows."""
        from scipy.sparse import csr_matrix

        width = max(int((self.signs != 0).sum(axis=1).max(initial=1)), 1)
        place, b = self.members[:, :width], self.signs[:, :width]
        value = -(b[:, :, None] * b[:, None, :]) / 2
        diagonal = np.arange(width)
        value[:, diagonal, diagonal] += (2 * self.k + 1)[:, None] * b / 2
        column = place[:, :, None] * self.n + place[:, None, :]
        row = np.broadcast_to(np.arange(len(self))[:, None, None], column.shape)
        used = value != 0
        return csr_matrix((value[used], (row[used], column[used])), shape=(len(self), self.n * self.n))

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The maps T where they are not 0, on the diagonal and above it: cut (ascending), row, column, value."""
        count = (self.signs != 0).sum(axis=1)
        found = [self._entries_of(np.flatnonzero(count == width), width) for width in np.unique(count) if width > 0]
        cut, row, column, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(cut, kind="stable")
        return cut[order], row[order], column[order], value[order]

    def _entries_of(
        self, cuts: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The same for some cuts, all of so many clients."""
        place, b = self.members[cuts, :width], self.signs[cuts, :width]
        first, second = np.triu_indices(width)
        value = -(b[:, first] * b[:, second]) / 2
        own = first == second
        value[:, own] += (2 * self.k[cuts] + 1)[:, None] * b / 2
        cut, entry = np.nonzero(value)
        one, other = place[cut, first[entry]], place[cut, second[entry]]
        return cuts[cut], np.minimum(one, other), np.maximum(one, other), value[cut, entry]

    def within(self, kept: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[Cuts, NDArray[np.bool_]]:
        """Restrict the cuts to the clients ``kept`` when ``chosen`` are chosen and the others are not.

        Returns them in the new numbers, and which of these cuts they come from.
        """
        place = np.full(self.n, -1, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        ones = np.zeros(self.n, dtype=np.int64)
        ones[chosen] = 1
        moved = place[self.members]
        signs = np.where(moved >= 0, self.signs, 0)
        k = self.k - (self.signs * ones[self.members]).sum(axis=1)
        stays = (signs != 0).sum(axis=1) >= 2
        order = np.argsort(signs == 0, axis=1, kind="stable")  # the padding goes to the end
        signs = np.take_along_axis(signs, order, axis=1)
        members = np.where(signs != 0, np.take_along_axis(moved, order, axis=1), 0)
        return Cuts(members[stays], signs[stays], k[stays], kept.size), stays

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Cuts:
        """A part of these cuts."""
        return Cuts(self.members[which], self.signs[which], self.k[which], self.n)

    def joined(self, other: Cuts) -> tuple[Cuts, int]:
        """These cuts and those of ``other`` that are new, and how many those are."""
        known = set(self._keys())
        fresh = np.array([key not in known for key in other._keys()], dtype=bool)
        new = other.chosen(fresh)
        return (
            Cuts(
                np.concatenate([self.members, new.members]),
                np.concatenate([self.signs, new.signs]),
                np.concatenate([self.k, new.k]),
                self.n,
            ),
            len(new),
        )

    def _keys(self) -> list[bytes]:
        signed = np.sort(np.where(self.signs != 0, 4 * self.members + self.signs + 2, -1), axis=1)
        return [row.tobytes() for row in np.column_stack([signed, self.k])]

    def excess(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much ``products`` violate each cut, in the units of `limits`."""
        return self.matrix() @ products.ravel() - self.limits


def triangle_inequalities(
    products: NDArray[np.float64], most: int, least: float = 1e-3, near: int = DEFAULT_POLICY.triangle_clients
) -> Cuts:
    """Separate triangle inequalities: the ``most`` violated cuts of at most three clients, all by over ``least``.

    Beside a client with −1 only the ``near`` ones with the largest products with it are looked at, and three clients
    with +1 have shares above a quarter.
    """
    n = len(products)
    enough = np.full(n, -np.inf)
    if n - 1 > near:
        others = products - np.diag(np.full(n, np.inf))
        enough = np.partition(others, n - near, axis=1)[:, n - near].copy()
    found = load("cuts").triangles(np.ascontiguousarray(products), enough, least, max(most, 0), near)
    excess, order, cuts = found
    return _narrow(cuts[np.lexsort((order, -excess))], n)


def _narrow(rows: NDArray[np.int64], n: int) -> Cuts:
    """Cuts from rows (i, j, k, sign of j, sign of k, level); a pair has sign 0 for j."""
    members = rows[:, :3].copy()
    signs = np.column_stack([np.ones(len(rows), dtype=np.int64), rows[:, 3], rows[:, 4]])
    members[signs == 0] = 0
    # A pair keeps its sign in the second column.
    pair = rows[:, 3] == 0
    members[pair] = np.column_stack([rows[pair, 0], rows[pair, 2], np.zeros(int(pair.sum()), dtype=np.int64)])
    signs[pair] = [1, -1, 0]
    return Cuts.of(members, signs, rows[:, 5], n)


def gap_inequalities(
    products: NDArray[np.float64], most: int, rng: np.random.Generator, *, starts: int = 150, least: float = 0.01
) -> Cuts:
    r"""Separate gap inequalities: violated by more than ``least``, by local search from random starts.

    From b = a few entries 1, single entries of b are changed by one, within −1 … 1, as long as the variance of
    :math:`b^\top s` less that of a whole number with its mean falls.
    """
    n = len(products)
    x = products.diagonal()
    covariance = products - np.outer(x, x)
    b = np.zeros((starts, n))
    count = rng.integers(2, 8, starts)
    weight = rng.random((starts, n)) * np.sqrt(np.clip(x * (1 - x), 1e-12, None))
    b[np.argsort(np.argsort(-weight, axis=1), axis=1) < count[:, None]] = 1.0
    towards = b @ covariance
    variance = (b * towards).sum(axis=1)
    mean = b @ x
    load("cuts").descend(b, towards, variance, mean, covariance, x.copy(), SEARCHED)
    lack = _lack(variance, mean)
    found = np.flatnonzero(lack < -2 * least)
    found = found[np.argsort(lack[found], kind="stable")]
    _, first = np.unique(b[found], axis=0, return_index=True)
    found = found[np.sort(first)][:most]
    members = np.zeros((found.size, WIDTH), dtype=np.int64)
    signs = np.zeros((found.size, WIDTH), dtype=np.int64)
    for row, start in enumerate(found):
        place = np.flatnonzero(b[start])
        members[row, : place.size], signs[row, : place.size] = place, b[start, place].astype(np.int64)
    return Cuts(members, signs, np.floor(mean[found]).astype(np.int64), n)


def near_inequalities(
    products: NDArray[np.float64],
    apart: NDArray[np.float64],
    most: int,
    *,
    partners: int = DEFAULT_POLICY.near_partners,
    least: float = 0.01,
) -> Cuts:
    r"""Separate gap inequalities of clients near each other: of how many of them are chosen, by more than ``least``.

    From each client and each of its nearest ``partners`` on, the client nearest to those that are there joins, up to
    `WIDTH`; the most violated one of these groups counts. Two clients that share what they hold are seldom chosen
    together, so that a relaxation spreads over such a group evenly. Where clients hold two labels each, groups are
    often the clients of a label.

    Parameters
    ----------
    products : (n, n) ndarray
        X.
    apart : (n, n) ndarray
        Distances, or what grows with them.
    most : int
        Cuts, at most.
    partners : int
        Nearest clients of each from which a group grows.
    least : float
        By how much a cut has to be violated.
    """
    n = len(products)
    x = products.diagonal().copy()
    covariance = np.ascontiguousarray(products - np.outer(x, x))
    away = apart.copy()
    away[np.arange(n), np.arange(n)] = np.inf
    nearest = np.ascontiguousarray(np.argsort(away, axis=1, kind="stable")[:, : min(partners, n - 1)])
    size, lack, groups = load("cuts").gather(np.ascontiguousarray(apart), covariance, x, nearest, min(WIDTH, n))
    found = np.flatnonzero(lack < -2 * least)
    found = found[np.argsort(lack[found], kind="stable")]
    is_member = np.arange(groups.shape[1]) < size[found, None]
    members = np.sort(np.where(is_member, groups[found], n), axis=1)  # the padding goes to the end
    _, first = np.unique(members, axis=0, return_index=True)
    members = members[np.sort(first)][:most]
    signs = (members < n).astype(np.int64)
    members[signs == 0] = 0
    k = np.floor((x[members] * signs).sum(axis=1)).astype(np.int64)
    return Cuts.of(members, signs, k, n)


def _lack(variance: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    part = mean - np.floor(mean)
    return variance - part * (1 - part)


class CutMultipliers:
    """Cuts with multipliers t ≥ 0.

    Attributes
    ----------
    cuts, weights : Cuts and (k,) ndarray
        The cuts and t.
    sum : (n, n) ndarray
        ``Tᵀt``.
    """

    def __init__(self, cuts: Cuts, weights: NDArray[np.float64]) -> None:
        self.cuts, self.weights = cuts, weights.astype(np.float64)
        self.sum = np.zeros((cuts.n, cuts.n))
        if len(cuts) == 0:
            return
        self._cut, self._row, self._column, self._value = cuts.entries()
        self._start = np.searchsorted(self._cut, np.arange(len(cuts) + 1))
        self._limits = cuts.limits
        self._place = self._row * cuts.n + self._column
        # In the inner product of symmetric matrices.
        self._twice = self._value * np.where(self._row == self._column, 1.0, 2.0)
        self._mirror = self._column * cuts.n + self._row
        self._norm = np.add.reduceat(self._value * self._twice, self._start[:-1])
        self.sum = self._spread(self.weights)

    def __len__(self) -> int:
        return len(self.cuts)

    def move(self, residual: NDArray[np.float64], penalty: float, sweeps: int = DEFAULT_POLICY.cut_sweeps) -> None:
        """Decrease ``‖residual + Tᵀt‖²/2 + penalty · limitsᵀt`` by coordinate descent; ``residual`` is overwritten.

        It goes through the multipliers ``sweeps`` times.
        """
        pattern = (self._start, self._place, self._mirror, self._value, self._twice, self._norm)
        load("cuts").move(residual, *pattern, self._limits, self.weights, self.sum, penalty, sweeps)

    @property
    def constant(self) -> float:
        """``limitsᵀt``."""
        return float(self._limits @ self.weights) if len(self.cuts) else 0.0

    @property
    def rounding(self) -> float:
        """A bound on the error of an entry of ``Tᵀt``, in units of eps."""
        if len(self.cuts) == 0:
            return 0.0
        most = int(np.bincount(self._place).max())
        return most * float(np.bincount(self._place, abs(self._value) * self.weights[self._cut]).max())

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        n = self.cuts.n
        upper = np.bincount(self._place, self._value * weights[self._cut], n * n).reshape(n, n)
        return np.asarray(upper + np.triu(upper, 1).T, dtype=np.float64)
