"""Certificates of searches: forms and nodes in whole numbers, as `solvers.certificates.exact.dispersion` reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate, problem_digest
from solvers.certificates.exact.concave import FORM, Rounded, WholeForm
from solvers.certificates.exact.sides import Sides
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.cuts import Cuts

#: The largest number of the problem has so many bits on the grid.
BITS = 32

_MOST = 2.0**39
_NO_PAIRS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)

#: Nodes of one form: its number, their origins, the clients they branch on (-1: none), their points, a row each.
Nodes = tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[Any]]


class CertificateBuilder:
    """The multipliers of one search, and what its certificate is made of.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    order : (n,) array-like of int, optional
        The clients in the order that decides exchanges that gain nothing, first the one to prefer; by index if left
        out.
    sides : Sides, optional
        Side constraints as the checker has them.
    bits : int
        Of the largest number on the grid.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        order: Iterable[int] | None = None,
        sides: Sides | None = None,
        bits: int = BITS,
    ) -> None:
        self.problem, self.sides = problem, sides
        n = problem.n
        largest = max(problem.weight * problem.diameter, float(np.abs(problem.costs).max()), 1e-270)
        # What the largest number leaves is room for multipliers; the checker refuses beyond 2^40.
        self.grid = math.frexp(largest)[1] - bits
        self.data = Rounded.of(problem, self.grid)
        self.order = np.empty(n, dtype=np.int64)
        self.order[np.arange(n) if order is None else np.asarray(list(order))] = np.arange(n)
        self.forms: list[tuple[NDArray[np.int64], ...]] = []
        self.betters: list[NDArray[np.int64]] = []
        self.rooms: list[int] = []
        self.curved = set[int]()  # numbers of the forms whose curvature fixes clients

    def form(
        self,
        ones: NDArray[np.int64],
        ids: NDArray[np.int64],
        diagonal: NDArray[np.float64],
        nonnegative: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
        better: NDArray[np.int64] = _NO_PAIRS,
        cuts: tuple[Cuts, NDArray[np.float64]] | None = None,
        rows: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> tuple[int, WholeForm]:
        r"""Keep multipliers; return their number and the form that the checker will make of them.

        Parameters
        ----------
        ones, ids : array of int
            Clients (places in the problem) that are chosen and open where the form holds; the others are left out.
        diagonal : (len(ids),) ndarray
            Multipliers of :math:`s_i - s_i^2`, in units of the problem's objective.
        nonnegative, dominated : (pairs, values), optional
            Pairs by place in ``ids``, and the multipliers of :math:`s_i s_j` and of :math:`s_j - s_i s_j`.
        better : (k, 2) ndarray of int
            Pairs by place in ``ids``: the first is chosen whenever the second is.
        cuts : (Cuts, values), optional
            Cuts among ``ids``, and the multipliers of :math:`(b^\top s - k)(b^\top s - k - 1)`.
        rows : (pairs, values), optional
            Pairs of the checker's rows of side constraints, and the multipliers of the products of what they leave.
        """
        parts = [ones, ids, self._whole(diagonal)]
        for given, least in ((nonnegative, 0.0), (dominated, -math.inf)):
            pairs, values = given if given is not None else (_NO_PAIRS, np.zeros(0))
            halves = self._whole(np.maximum(values, least) / 2)
            kept = halves != 0
            parts.append(np.column_stack([pairs[kept], halves[kept]]).astype(np.int64).ravel())
        parts += [np.zeros(0, dtype=np.int64)] * 2 if cuts is None else self._whole_cuts(*cuts)
        if rows is None:
            rows = _NO_PAIRS, np.zeros(0)
        # Those of equal quotas may be anything, and 2^40 in sum is what the checker allows.
        prices = np.minimum(self._whole(np.maximum(rows[1], 0.0)), int(_MOST) // max(rows[1].size, 1))
        parts.append(np.column_stack([rows[0], prices])[prices > 0].ravel())
        kept_parts = tuple(np.asarray(part, dtype=np.int64) for part in parts)
        whole = WholeForm(self.data, dict(zip(FORM, kept_parts, strict=True)), sides=self.sides)
        self.forms.append(kept_parts)
        self.betters.append(_covering(better, ids.size))
        self.rooms.append(whole.room)
        return len(self.forms) - 1, whole

    def certificate(
        self,
        bound: float,
        goal: int,
        grain: int,
        nodes: Sequence[Nodes],
        *,
        searched: bool = True,
        prices: NDArray[np.int64] | None = None,
    ) -> Certificate:
        """Return a certificate of a search, without the forms that no node uses.

        Parameters
        ----------
        bound : float
            The bound it claims.
        goal : int
            Largest value of any closed part, in units of 2^grid.
        grain : int
            The points are multiples of 1 / grain.
        nodes : sequence of Nodes
            Batches in the order in which the nodes are numbered; form -1 for those without multipliers.
        searched : bool
            Whether a client may have been fixed by dominance.
        prices : (nodes, rows) ndarray of int, optional
            Prices of the rows of side constraints at each node.
        """
        used = sorted({form for form, *_ in nodes if form >= 0})
        number = {form: place for place, form in enumerate(used)} | {-1: -1}
        betters = [self.betters[form] if searched else self.betters[form][:0] for form in used]
        arrays: dict[str, NDArray[Any]] = {
            "order": self.order,
            "goal": np.array([goal]),
            "grain": np.array([grain]),
            "origin": _joined([origins for _, origins, _, _ in nodes]),
            "client": _joined([clients for _, _, clients, _ in nodes]),
            "form": _joined([np.full(origins.size, number[form]) for form, origins, _, _ in nodes]),
            # Client by client: from one node to the next a client's share hardly changes.
            "point": _joined(
                [np.concatenate([points for f, _, _, points in nodes if f == form]).T.ravel() for form in used]
            ),
            "form_room": np.array(self.rooms, dtype=np.int64)[used],
        }
        for k, name in enumerate(FORM):
            parts = [self.forms[form][k] for form in used]
            if name not in ("cut", "cut_member", "row") or any(part.size for part in parts):
                arrays |= one_after_the_other(f"form_{name}", parts)
        arrays |= one_after_the_other("form_better", betters)
        if curved := [number[form] for form in used if form in self.curved]:
            arrays["curved"] = np.array(curved)
        if prices is not None and prices.any():
            arrays["price"] = prices.ravel()
        narrowed = {name: narrow(array) for name, array in arrays.items()}
        return Certificate("dispersion", problem_digest(self.problem), float(bound), self.grid, narrowed)

    def _whole_cuts(self, cuts: Cuts, values: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """Multiplier, k and number of members of each cut, and the members with their signs, cut by cut."""
        weights = self._whole(values)
        cuts, weights = cuts.chosen(weights > 0), weights[weights > 0]
        cut, entry = np.nonzero(cuts.signs)
        members = np.column_stack([cuts.members[cut, entry], cuts.signs[cut, entry]])
        return [np.column_stack([weights, cuts.k, (cuts.signs != 0).sum(axis=1)]).ravel(), members.ravel()]

    def _whole(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        units = np.ldexp(np.asarray(values, dtype=np.float64), -self.grid)
        return np.rint(np.clip(units, -_MOST, _MOST)).astype(np.int64)


def on_grain(y: NDArray[np.float64], size: int, grain: int) -> NDArray[np.int64]:
    """Round a point near the slice to multiples of 1 / grain, so that its shares sum to ``size``."""
    exact = np.clip(y, 0.0, 1.0) * grain
    whole = np.floor(exact).astype(np.int64)
    missing = size * grain - int(whole.sum())
    order = np.argsort(whole - exact, kind="stable")  # those that lost most first
    while missing:
        room = whole < grain if missing > 0 else whole > 0
        chosen = order[room[order]][: abs(missing)]
        whole[chosen] += 1 if missing > 0 else -1
        missing = size * grain - int(whole.sum())
    return whole


def _covering(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The pairs that the others do not imply, one after the other."""
    table = np.zeros((n, n), dtype=np.float32)
    table[pairs[:, 0], pairs[:, 1]] = 1
    return np.argwhere((table > 0) & (table @ table == 0)).astype(np.int64).ravel()


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def one_after_the_other(name: str, parts: list[NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
    """The parts as one array ``name``, and where each of them starts."""
    return {name: _joined(parts), f"{name}_start": np.cumsum([0, *(part.size for part in parts)])}


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in a smaller type where they fit one."""
    if array.size == 0:
        return array.astype(np.int8)
    for kind in (np.int8, np.uint8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= array.min() and array.max() <= limits.max:
            return array.astype(kind)
    return array
