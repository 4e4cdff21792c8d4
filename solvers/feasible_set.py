"""Feasible set of a selection problem as one object."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: States of a client: not fixed, chosen, left out.
FREE, ONE, ZERO = 0, 1, 2


class Row(NamedTuple):
    """Linear constraint ``low ≤ coefficientsᵀx ≤ high``, for an external solver."""

    name: str
    coefficients: NDArray[np.float64]
    low: float
    high: float

    def sides(self) -> list[tuple[str, NDArray[np.float64], Literal["=", "<=", ">="], float]]:
        """Return the row as one equation, or as an inequality for each limit, each with a name of its own."""
        if self.low == self.high:
            return [(self.name, self.coefficients, "=", self.high)]
        both: list[tuple[str, Literal["=", "<=", ">="], float]] = [
            (self.name, "<=", self.high), (f"{self.name} least", ">=", self.low)
        ]  # fmt: skip
        return [(name, self.coefficients, sense, limit) for name, sense, limit in both if math.isfinite(limit)]

    def scaled(self) -> Row:
        """Return the row in units of its largest coefficient, in which solvers' tolerances are meant."""
        unit = float(np.abs(self.coefficients).max()) or 1.0
        return Row(self.name, self.coefficients / unit, self.low / unit, self.high / unit)


@dataclass(frozen=True)
class Hypersimplex:
    r"""Hypersimplex :math:`\{x \in [0, 1]^n : 1^\top x = m\}`, the convex hull of the selections of m of n clients.

    A feasible set with further constraints answers the same questions in its own way.

    Parameters
    ----------
    n : int
        Clients to choose from.
    size : int
        Clients to choose, m, from 0 to n.
    """

    n: int
    size: int

    @property
    def count(self) -> int:
        """Number of selections."""
        return math.comb(self.n, self.size)

    @property
    def is_single(self) -> bool:
        """Whether there is nothing to choose: no client, or all."""
        return self.size in (0, self.n)

    @property
    def is_movable(self) -> NDArray[np.bool_]:
        """Which clients may be chosen or not."""
        return np.ones(self.n, dtype=bool)

    @property
    def by_client(self) -> tuple[NDArray[Any], ...] | None:
        """Side constraints client by client, for compiled code; None where there are none."""
        return None

    def selections(self) -> Iterator[tuple[int, ...]]:
        """Enumerate the selections as rising tuples of clients, in lexicographic order."""
        return itertools.combinations(range(self.n), self.size)

    def decision(self, clients: ArrayLike) -> NDArray[np.int64]:
        """Return the decision that chooses the given clients, whether or not it is feasible."""
        x = np.zeros(self.n, dtype=np.int64)
        x[np.asarray(clients, dtype=np.intp)] = 1
        return x

    def violation(self, x: NDArray[np.int64]) -> float:
        """Return the largest of the excess over 0/1 and the distance of ``1ᵀx`` from m."""
        return float(max(abs(int(x.sum()) - self.size), x.max(initial=0) - 1, -x.min(initial=0)))

    def contradiction(self) -> str | None:
        """A sentence that says why there is no selection; None where nothing shows that."""
        return None

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a decision, each with the same probability."""
        return self.decision(rng.choice(self.n, size=self.size, replace=False))

    def exchanged(self, x: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the clients of a selection of which ``count`` were exchanged for others, drawn at random."""
        clients, outside = np.flatnonzero(x), np.flatnonzero(x == 0)
        places = rng.choice(self.size, count, replace=False)
        clients[places] = rng.choice(outside, count, replace=False)
        return clients

    def grown(self, g: NDArray[np.float64], after: Callable[[int], NDArray[np.float64]]) -> NDArray[np.int64]:
        """Add the client of largest gain that leaves a selection to be completed, until ``size`` are chosen.

        Parameters
        ----------
        g : (n,) ndarray
            Gains beside the clients that must be chosen; ties go to the lower place.
        after : callable
            ``after(client)`` returns the gains once this client is chosen, too.

        Returns
        -------
        (n,) ndarray of int
            A selection.
        """
        taken = np.zeros(self.n)
        for left in range(self.size, 0, -1):
            client = int(np.argmax(g - taken))
            taken[client] = np.inf
            if left > 1:
                g = after(client)
        return (taken > 0).astype(np.int64)

    def repaired(self, x: NDArray[np.int64], g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Bring a decision into the set: drop the chosen clients of least g, or add the others of largest."""
        return self.decision(np.lexsort((-g, -x))[: self.size])

    def swaps(self, x: NDArray[np.int64], inside: NDArray[np.intp], outside: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which swaps of a chosen client (row) for another (column) stay in the set: all."""
        return np.ones((inside.size, outside.size), dtype=bool)

    @property
    def included(self) -> NDArray[np.intp]:
        """Clients that all selections choose by the statement: none."""
        return np.zeros(0, dtype=np.intp)

    # -- linear functions ----------------------------------------------------------------------------------------

    def support(self, g: NDArray[np.float64]) -> float:
        """Maximise gᵀx over the set and return the value: the sum of the m largest entries."""
        return float(np.partition(g, self.n - self.size)[self.n - self.size :].sum()) if self.size else 0.0

    def best(self, g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Maximise gᵀx over the set and return a decision that does; ties go to the lower place."""
        return self.decision(np.argsort(-g, kind="stable")[: self.size])

    def threshold(self, g: NDArray[np.float64]) -> float:
        """Return the m-th largest entry: a price per client at which the maximiser of gᵀx is free to stop."""
        return float(np.partition(g, self.n - self.size)[self.n - self.size])

    def fixed(self, g: NDArray[np.float64], room: float) -> NDArray[np.int8]:
        """Fix by reduced costs.

        Parameters
        ----------
        g : (n,) ndarray
            A linear function that no selection worth looking at falls below its maximum by more than ``room``.
        room : float
            What the maximum may lose.

        Returns
        -------
        (n,) ndarray of int8
            ONE and ZERO for clients that all such selections choose or leave out, else FREE.
        """
        state = np.full(self.n, FREE, dtype=np.int8)
        if self.is_single:
            state[:] = ONE if self.size else ZERO
            return state
        order = np.argpartition(g, self.n - self.size)
        inside, outside = order[self.n - self.size :], order[: self.n - self.size]
        least, most = float(g[inside].min()), float(g[outside].max())
        state[inside[g[inside] - most > room]] = ONE
        state[outside[least - g[outside] > room]] = ZERO
        return state

    def relaxed(
        self, g: NDArray[np.float64], prices: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.intp]]:
        """Bound gᵀx where rows have prices, of which there are none here.

        Parameters
        ----------
        g : (n,) ndarray
            Linear function.
        prices : (r,) ndarray
            A price for each of `priced_numbers`.

        Returns
        -------
        bound : float
            No selection is worth more: here the sum of the m largest entries, to the rounding of a sum.
        reduced : (n,) ndarray
            The linear function that is maximised in its place.
        top : (m,) ndarray of int
            The clients of a decision that maximises it, in any order.
        """
        top = np.argpartition(-g, self.size)[: self.size]
        return float(g[top].sum()), g, top

    @property
    def priced_numbers(self) -> list[int]:
        """Numbers, among the rows of side constraints, of those that have prices in `relaxed`."""
        return []

    def losses(self, g: NDArray[np.float64], top: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what the bound of `relaxed` loses, at least, where each client's entry is changed.

        Parameters
        ----------
        g : (n,) ndarray
            The function maximised.
        top : (m,) ndarray of int
            The clients of a decision that maximises it.
        """
        inside, others = g[top], g.copy()
        others[top] = -np.inf
        loss = float(inside.min()) - g
        loss[top] = inside - float(others.max())
        return loss

    def slopes(self, top: NDArray[np.intp], prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the subgradient of the bound of `relaxed` in the prices, at the clients ``top`` that maximise it."""
        return np.zeros(0)

    def restricted(self, states: NDArray[np.int8]) -> Hypersimplex:
        """Return the feasible set of the clients that are FREE, beside those that are ONE; it may be empty."""
        free, ones = int((states == FREE).sum()), int((states == ONE).sum())
        return Hypersimplex(free, self.size - ones)

    # -- points --------------------------------------------------------------------------------------------------

    @property
    def centre(self) -> NDArray[np.float64]:
        """Mean of all selections."""
        return np.full(self.n, self.size / self.n)

    def project(self, x: NDArray[np.float64], grain: float = 0.0) -> NDArray[np.float64]:
        """Return a point of the set near ``x``: entries are clipped, then scaled towards 0, or towards 1.

        Parameters
        ----------
        x : (n,) ndarray
            Any point.
        grain : float
            Where it is positive, entries become multiples of it whose sum is m; 1/grain is a whole number.
        """
        x = np.clip(x, 0.0, 1.0)
        total, m = float(x.sum()), self.size
        x = x * (m / total) if total > m else x + (1 - x) * ((m - total) / max(self.n - total, 1e-300))
        if not grain:
            return x
        units = np.floor(x / grain)
        missing = round(m / grain - float(units.sum()))
        units[np.argsort(units - x / grain, kind="stable")[:missing]] += 1
        return units * grain

    def round(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the decision nearest to a fractional point; ties go to the lower place."""
        return self.best(x)

    # -- models --------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Return the constraints beside 0 ≤ x ≤ 1, for external solvers."""
        return [Row("size", np.ones(self.n), float(self.size), float(self.size))]
