r"""Linear bounds from how many clients of each group are chosen, where distances follow shared labels.

See docs/mathematics/dispersion_relaxations.md, *Counts of groups*, which has the formulas.

Where clients hold whole labels, two of them are nearer to each other by a constant for each label that they share. In
symbols, with groups :math:`a_g \in \{0, 1\}^n` and weights :math:`\gamma_g \ge 0`,

.. math:: Q_{ij} = u_i + u_j - \sum_g \gamma_g a_{gi} a_{gj} + R_{ij}, \qquad i \ne j,

with few rests R. A selection is then worth a linear function less :math:`\sum_g \gamma_g c_g^2`, up to the rests, with
:math:`c_g = a_g^\top s` a whole number: :math:`c_g^2 \ge (2k + 1) c_g - k (k + 1)` for every integer k. So there is a
linear program. With its price of a count, whatever that is, the best whole count gives :math:`\pi c - \gamma c^2` at
most, and a linear function above the objective is left: a bound for all selections, and one with each client chosen and
with each left out.

The inequalities are gap inequalities of whole groups (`solvers.dispersion.relaxations.cuts`). For two labels a client
the program chooses edges of a graph of labels, with costs of edges and convex costs of degrees: a matching problem, but
for the number of edges and the rests (Edmonds, Maximum matching and a polyhedron with 0,1-vertices, J. Res. Nat. Bur.
Standards 69B, 1965).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.cuts import WIDTH, Cuts
from solvers.dispersion.relaxations.fixing import ClientBounds, exchanges

_EPS = float(np.finfo(np.float64).eps)

#: Rests below this part of the largest entry are rounding (of distances in single precision, say): half of what they
#: add goes to each client of a pair.
_SMALL = 1e-6

#: Kinds that make a group, at least: three clients who share labels two by two are none.
_LEAST = 4

#: Kinds, at most, and groups that are looked for: each look takes the square of the number of kinds.
_KINDS, _LOOKS = 1_000, 256

#: Every so many looks, groups are given up where those to come, each with so many times the pairs of one so far, would
#: leave too many rests: in a random graph every look finds a small clique.
_AGAIN, _FASTER = 16, 2

#: More than what underflow changes in any sum here.
_TINY = 1e-290

#: Steps of the iteration for u: each halves its error.
_STEPS = 60


@dataclass(frozen=True)
class CountPrices:
    """What the linear program says.

    Attributes
    ----------
    x : (n,) ndarray
        The fractional solution.
    counts : (g,) ndarray
        Price of one more client of each group.
    order : (p,) ndarray
        Multiplier, at least 0, of each pair of one kind.
    shared : (r,) ndarray
        Of each pair's rest, where it is positive, the part that the first client has; where it is negative, the part
        that is not dropped.
    """

    x: NDArray[np.float64]
    counts: NDArray[np.float64]
    order: NDArray[np.float64]
    shared: NDArray[np.float64]


@dataclass(frozen=True)
class GroupCounts:
    """The objective as counts of groups, of n clients.

    Attributes
    ----------
    linear : (n,) ndarray
        What each client adds beside counts and rests.
    shares : (n,) ndarray
        u.
    groups : (g, n) ndarray of bool
        Members of each group.
    weights : (g,) ndarray
        γ.
    order : (p, 2) ndarray of int
        Clients of one kind, next to each other: the first is chosen wherever the second is.
    kinds, place : (n,) ndarrays of int
        Kind of each client, and how many of its kind come before it.
    alike : (n,) ndarray
        The rest of two clients of each one's kind.
    pairs : (r, 2) ndarray of int
        Clients of two kinds that have a rest.
    rests : (r,) ndarray
        What both of a pair add together. (Of two of a kind the second is there with the first only, so that their rest
        is in ``linear``.)
    size : int
        m.
    error : float
        Bounds what rounding has changed about the value of a selection.
    """

    linear: NDArray[np.float64]
    shares: NDArray[np.float64]
    groups: NDArray[np.bool_]
    weights: NDArray[np.float64]
    order: NDArray[np.int64]
    kinds: NDArray[np.int64]
    place: NDArray[np.int64]
    alike: NDArray[np.float64]
    pairs: NDArray[np.int64]
    rests: NDArray[np.float64]
    size: int
    error: float

    @classmethod
    def of(
        cls,
        quadratic: NDArray[np.float64],
        linear: NDArray[np.float64],
        size: int,
        kinds: NDArray[np.int64],
        rank: NDArray[np.int64],
        most: int,
        expired: Callable[[], bool] = lambda: False,
    ) -> GroupCounts | None:
        """State ``max sᵀQs + lᵀs, 1ᵀs = m`` by counts of groups; None without groups or with more than ``most`` rests.

        Parameters
        ----------
        quadratic : (n, n) ndarray
            Q, symmetric, 0 on the diagonal.
        linear : (n,) ndarray
            l.
        size : int
            m.
        kinds : (n,) ndarray of int
            Kind of each client, from 0: those of one have the same entries of Q beside all others.
        rank : (n,) ndarray of int
            Of two of a kind the one of lower rank is worth no less.
        most : int
            Pairs with a rest, at most.
        expired : callable, optional
            Whether to end, without groups.
        """
        n = linear.size
        order = np.lexsort((rank, kinds))
        start = np.searchsorted(kinds[order], np.arange(int(kinds.max()) + 2))
        ends = order[start[:-1]], order[start[1:] - 1]
        between = quadratic[np.ix_(*ends)]
        tolerance = _SMALL * float(np.abs(between).max())
        if tolerance == 0 or not _LEAST <= len(between) <= _KINDS:
            return None
        shares = _shares(between, expired)
        rest = between - (shares[:, None] + shares)
        if np.count_nonzero(np.abs(rest) <= tolerance) < rest.size / 2:
            return None
        sizes = np.diff(start)
        found = _groups(rest, tolerance, sizes, 2 * most, expired)
        if found is None:
            return None
        groups, weights = found
        is_rest = np.abs(rest) > tolerance
        np.fill_diagonal(is_rest, False)
        small = np.where(is_rest, 0.0, np.maximum(rest, 0.0))
        np.fill_diagonal(small, 0.0)
        own = linear + 2 * (size - 1) * shares[kinds] + weights @ groups[:, kinds]
        place = np.empty(n, dtype=np.int64)  # of each client among its kind
        place[order] = np.arange(n) - start[kinds[order]]
        own += 2 * rest.diagonal()[kinds] * place + (small @ sizes)[kinds]
        is_next = kinds[order[1:]] == kinds[order[:-1]]
        pairs = np.argwhere(np.triu(is_rest[np.ix_(kinds, kinds)]))
        largest = float(np.abs(between).max() + 2 * np.abs(shares).max() + weights.sum())
        terms = size * (len(weights) + 8) * _EPS * largest
        terms += (len(weights) + 8) * _EPS * (float(np.abs(linear).max()) + 4 * size * largest)
        return cls(
            own,
            shares[kinds],
            groups[:, kinds],
            weights,
            np.column_stack([order[:-1], order[1:]])[is_next],
            kinds,
            place,
            rest.diagonal()[kinds],
            pairs,
            2 * rest[tuple(kinds[pairs].T)],
            size,
            size * terms,
        )

    @np.errstate(over="ignore", invalid="ignore")  # of what is not finite there is no bound
    def bounds(self, prices: CountPrices) -> ClientBounds | None:
        """Return bounds on the selections that keep the order, of any prices; None where they are not finite."""
        chain, shared = prices.order, prices.shared
        m, (first, second) = self.size, self.pairs.T
        value, constant, largest = self.linear.copy(), 0.0, np.abs(self.linear)
        for members, weight, price in zip(self.groups, self.weights, prices.counts, strict=True):
            count = np.arange(min(int(members.sum()), m) + 1.0)
            value[members] -= price
            largest[members] += abs(price)
            constant += float((price * count - weight * count**2).max())
        # A pair is there no oftener than either of it, and no seldomer than both together less one.
        gains = self.rests > 0
        other = self.rests * np.where(gains, 1 - shared, shared)
        constant -= float((self.rests * shared)[~gains].sum())
        added = [(self.order[:, 0], chain), (self.order[:, 1], -chain), (first, self.rests * shared), (second, other)]
        for clients, amount in added:
            np.add.at(value, clients, amount)
            np.add.at(largest, clients, np.abs(amount))
        counted = len(self.weights) + len(self.order) + len(self.pairs) + value.size
        counts = np.minimum(self.groups.sum(axis=1), m).astype(np.float64)
        scale = m * float(largest.max()) + float(self.weights @ counts**2 + np.abs(prices.counts) @ counts)
        scale += float(np.abs(self.rests).sum())
        top, out, into = exchanges(value, m)
        bound = constant + top + self.error + (counted + 64) * _EPS * scale
        bound += 8 * _EPS * (abs(constant) + abs(bound))
        exact = 1 - 8 * _EPS
        return ClientBounds(bound, bound - exact * out, bound - exact * into, prices.x) if np.isfinite(bound) else None

    def form(
        self, prices: CountPrices, shift: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[Cuts, NDArray[np.float64]], NDArray[np.float64]] | None:
        r"""Return multipliers with which the objective is linear but for a shift; None where a group is too wide.

        Those of each :math:`s_i - s_i^2`, halves of those of products, cuts with their multipliers of
        :math:`(b^\top s - k)(b^\top s - k - 1)`, and an (n, n) matrix of those of :math:`s_j - s_i s_j`, i above j.
        """
        n, g = self.linear.size, len(self.weights)
        sizes = self.groups.sum(axis=1)
        if sizes.max() > WIDTH:
            return None
        # The square of a count by its two chords next to the best whole one.
        counts = np.arange(self.size + 1.0)[:, None]
        best = (prices.counts * counts - self.weights * counts**2).argmax(axis=0)
        upper = np.clip((prices.counts - self.weights * (2 * best - 1)) / 2, 0.0, self.weights)
        (first, second), shared, rests = self.pairs.T, prices.shared, self.rests
        (above, below), up, down = self.order.T, rests > 0, rests < 0
        # Half of a product of that kind is s_i - s_i s_j, or s_j - s_i s_j, or 1 + s_i s_j - s_i - s_j.
        plus = np.concatenate([below, second[up], first[up], first[down]])
        minus = np.concatenate([above, first[up], second[up], second[down]])
        halves = [prices.order, (rests * shared)[up], (rests * (1 - shared))[up], -(rests * shared)[down]]
        pair = np.concatenate(halves) / 2
        both = np.arange(plus.size) >= plus.size - np.count_nonzero(down)
        members = np.zeros((2 * g + plus.size, WIDTH), dtype=np.int64)
        signs = np.zeros_like(members)
        for row, group in enumerate(self.groups):
            members[[2 * row, 2 * row + 1], : sizes[row]] = np.flatnonzero(group)
            signs[[2 * row, 2 * row + 1], : sizes[row]] = 1
        members[2 * g :, 0], members[2 * g :, 1] = plus, minus
        signs[2 * g :, 0], signs[2 * g :, 1] = 1, np.where(both, 1, -1)
        levels = np.concatenate([np.column_stack([best - 1, best]).ravel(), both.astype(np.int64)])
        weights = np.concatenate([np.column_stack([self.weights - upper, upper]).ravel(), pair])
        diagonal = shift - 2 * self.shares + self.weights @ self.groups
        np.add.at(diagonal, plus, pair)
        np.add.at(diagonal, minus, pair)
        held = np.zeros((n, n))
        held[first[down], second[down]] = -(rests * (1 - shared))[down] / 2
        is_above = (self.kinds[:, None] == self.kinds) & (self.place[:, None] < self.place)
        dominated = np.where(is_above, 2 * self.alike, 0.0)
        dominated[above, below] -= prices.order
        return diagonal, held + held.T, (Cuts.of(members, signs, levels, n), weights), dominated

    def prices(self, seconds: float) -> CountPrices | None:
        """Solve the linear program over s, c, the squares q ≥ c² and products z of pairs with a rest.

        None where HiGHS does not end with an optimum: where so many ``seconds`` are too few.
        """
        from scipy import optimize, sparse

        n, g, r = self.linear.size, len(self.weights), len(self.rests)
        highest = np.minimum(self.groups.sum(axis=1), self.size)
        group, k = np.repeat(np.arange(g), highest), np.concatenate([np.arange(each) for each in highest])
        first, second = self.pairs.T
        up, down = np.flatnonzero(self.rests > 0), np.flatnonzero(self.rests < 0)

        def rows(count: int, *parts: tuple[NDArray[np.int64], float | NDArray[np.float64]]) -> Any:
            """Rows with an entry for each of the parts: columns, and value or values."""
            row = np.tile(np.arange(count), len(parts))
            column = np.concatenate([part[0] for part in parts])
            value = np.concatenate([np.broadcast_to(np.asarray(part[1]), count) for part in parts])
            return sparse.csr_array((value, (row, column)), shape=(count, n + 2 * g + r))

        above, below = self.order.T
        parts = [
            (rows(k.size, (n + group, 2.0 * k + 1), (n + g + group, -1.0)), k * (k + 1.0)),
            (rows(above.size, (below, 1.0), (above, -1.0)), np.zeros(above.size)),
            (rows(up.size, (n + 2 * g + up, 1.0), (first[up], -1.0)), np.zeros(up.size)),
            (rows(up.size, (n + 2 * g + up, 1.0), (second[up], -1.0)), np.zeros(up.size)),
            (rows(down.size, (first[down], 1.0), (second[down], 1.0), (n + 2 * g + down, -1.0)), np.ones(down.size)),
        ]
        chosen = sparse.csr_array(np.concatenate([np.ones(n), np.zeros(2 * g + r)])[None])
        counted = sparse.hstack([self.groups.astype(float), -sparse.eye_array(g), sparse.csr_array((g, g + r))])
        goal = np.concatenate([-self.linear, np.zeros(g), self.weights, -self.rests])
        unit = float(np.abs(goal).max())  # HiGHS's tolerances are not relative
        answer = optimize.linprog(
            goal / unit,
            A_ub=sparse.vstack([matrix for matrix, _ in parts]),
            b_ub=np.concatenate([limits for _, limits in parts]),
            A_eq=sparse.vstack([chosen, counted]),
            b_eq=np.concatenate([[self.size], np.zeros(g)]),
            bounds=np.array([(0, 1)] * n + [(None, None)] * (2 * g) + [(0, 1)] * r),
            method="highs",
            options={"time_limit": seconds} if np.isfinite(seconds) else {},
        )
        if answer.status != 0:
            return None
        multipliers = unit * np.maximum(-answer.ineqlin.marginals, 0.0)
        starts = np.cumsum([len(limits) for _, limits in parts])[:-1]
        _, chain, of_first, of_second, both = np.split(multipliers, starts)
        shared = np.zeros(r)
        shared[up] = np.where(of_first + of_second > 0, of_first / np.maximum(of_first + of_second, _TINY), 0.5)
        shared[down] = np.minimum(both / -self.rests[down], 1.0)
        return CountPrices(np.clip(answer.x[:n], 0.0, 1.0), -unit * answer.eqlin.marginals[1:], chain, shared)


def _shares(between: NDArray[np.float64], expired: Callable[[], bool]) -> NDArray[np.float64]:
    """Return u such that most of the entries off the diagonal are ``u_i + u_j``, where there are such numbers."""
    k = len(between)
    others, middle, shares = ~np.eye(k, dtype=bool), (k - 1) // 2, np.zeros(k)
    for _ in range(_STEPS):
        if expired():
            break
        left = (between - shares)[others].reshape(k, k - 1)
        shares = (shares + np.partition(left, middle, axis=1)[:, middle]) / 2
    return shares


def _groups(
    rest: NDArray[np.float64], tolerance: float, sizes: NDArray[np.int64], most: int, expired: Callable[[], bool]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]] | None:
    """Take groups off the rest, which is changed: cliques in which all of it is -γ or less.

    None where there are none, or more than ``most`` pairs of clients, each counted twice, keep a rest.
    """
    k = len(rest)
    groups: list[NDArray[np.bool_]] = []
    weights: list[float] = []
    is_open = ~np.eye(k, dtype=bool)  # pairs in which a group may still be found

    def left(*, is_above: bool = False) -> int:
        """Pairs of clients that have a rest; with ``is_above`` a positive one, which groups make larger only."""
        is_rest = (rest if is_above else np.abs(rest)) > tolerance
        np.fill_diagonal(is_rest, False)
        return int(sizes @ is_rest @ sizes)

    if left(is_above=True) > most:
        return None
    first = left()
    for look in range(_LOOKS):
        if expired():
            return None
        if look and look % _AGAIN == 0:
            now = left()
            if now - _FASTER * (first - now) / look * (_LOOKS - look) > most:
                return None
        levels, often = np.unique(np.round(-rest[is_open & (rest < -tolerance)] / tolerance), return_counts=True)
        if not levels.size:
            break
        level = float(levels[often.argmax()]) * tolerance
        near = is_open & (rest <= tolerance / 2 - level)
        members = _clique(near)
        if members.size < _LEAST:  # the busiest one is in no group
            is_open[members[0]] = is_open[:, members[0]] = False
            continue
        pairs = np.ix_(members, members)
        found = rest[pairs][~np.eye(members.size, dtype=bool)]
        weight = -float(np.median(found[found >= found.max() - tolerance]))
        rest[pairs] += weight
        groups.append(np.isin(np.arange(k), members))
        weights.append(weight)
    return (np.array(groups), np.array(weights)) if groups and left() <= most else None


def _clique(near: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a large clique of a graph: from its busiest node, always the one with the most neighbours in common."""
    node = int(near.sum(axis=1).argmax())
    members, common = [node], np.flatnonzero(near[node])
    while common.size:
        among = near[np.ix_(common, common)]
        place = int(among.sum(axis=1).argmax())
        members.append(int(common[place]))
        common = common[among[place]]
    return np.array(members)
