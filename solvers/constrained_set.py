r"""Feasible set of a selection with side constraints: what `Hypersimplex` answers, with rows.

Groups that are disjoint or nested are handled exactly (`solvers.laminar`). All other rows have prices: for
any multipliers y, positive on upper limits and negative on lower ones,

.. math:: \max \{g^\top s\} \le \max \{(g - A^\top y)^\top s\} + \sum_r y_r b_r

over the laminar selections, which holds whatever the multipliers are. The best ones are the duals of the linear
relaxation, found by bisection for a single budget or conflict, and by HiGHS elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints, LinearRow
from solvers.errors import NoSelection
from solvers.feasible_set import FREE, ONE, ZERO, Hypersimplex, Row
from solvers.laminar import LaminarSelections, laminar_rows

_EPS = float(np.finfo(np.float64).eps)

#: Halvings of the interval of one price: to its last bits.
_HALVINGS = 60

#: Relative width of the interval of one price at which it is near enough, for each client: a millionth for 10⁵.
#: Any price gives a valid bound; every step takes a sort. Chosen on one round of 10⁵ points, not tuned.
_PRICE = 1e-11

#: Seconds for the mixed-integer program that finds a selection where swaps find none.
_LAST_RESORT = 10.0

#: Up to this many selections are looked at one by one where they are too near to limits for HiGHS.
_ENUMERABLE = 100_000

#: Swaps that are looked at in a step of a repair: the best of so many clients on each side.
_WIDTH = 400


@dataclass(frozen=True, eq=False)
class ConstrainedSelections(Hypersimplex):
    """Selections of ``size`` of n clients that keep side constraints, and their linear relaxation.

    Parameters
    ----------
    n, size : int
        As for `Hypersimplex`.
    constraints : Constraints
        States of the clients and rows.
    """

    constraints: Constraints = field(kw_only=True)

    @classmethod
    def of(cls, constraints: Constraints) -> ConstrainedSelections:
        """Return the feasible set of constraints."""
        return cls(constraints.n, constraints.size, constraints=constraints)

    @cached_property
    def core(self) -> LaminarSelections:
        """The selections under a laminar family of the rows, over which linear functions are maximised exactly."""
        return LaminarSelections(self.constraints, tuple(laminar_rows(self.constraints.rows)))

    @cached_property
    def priced(self) -> tuple[LinearRow, ...]:
        """The other rows, which have prices: budgets, and groups that cross others."""
        return tuple(self.constraints.rows[k] for k in self.priced_numbers)

    @property
    def included(self) -> NDArray[np.intp]:
        """Clients that must be selected."""
        return np.flatnonzero(self.constraints.states == ONE)

    @property
    def is_exact(self) -> bool:
        """Whether linear functions are maximised exactly over the selections: no row needs a price."""
        return not self.priced

    @property
    def count(self) -> int:
        """Number of selections that `selections` looks at, which are at least those there are."""
        states = self.constraints.states
        left = self.size - int((states == ONE).sum())
        return math.comb(int((states == FREE).sum()), left) if left >= 0 else 0

    @property
    def is_single(self) -> bool:
        """Whether states and size decide for all clients, or allow none."""
        return self.count <= 1

    def selections(self) -> Iterator[tuple[int, ...]]:
        """Enumerate the selections that keep all rows, as rising tuples of clients, in lexicographic order."""
        states = self.constraints.states
        ones = tuple(np.flatnonzero(states == ONE).tolist())
        free = np.flatnonzero(states == FREE).tolist()
        if len(ones) > self.size:
            return
        every = itertools.combinations(free, self.size - len(ones))
        tuples = (tuple(sorted((*ones, *rest))) for rest in every) if ones else every
        dense = [(row, row.dense(self.n)) for row in self.constraints.rows]
        while block := list(itertools.islice(tuples, 10_000)):
            kept = np.ones(len(block), dtype=bool)
            chosen = np.array(block, dtype=np.intp).reshape(len(block), self.size)
            for row, coefficients in dense:
                used = coefficients[chosen].sum(axis=1)
                near = self.size * _EPS * (abs(used) + abs(row.high if math.isfinite(row.high) else row.low))
                kept &= (used >= row.low - near) & (used <= row.high + near)
            for each in itertools.compress(block, kept):
                if all(
                    row.violation(self.decision(each)) == 0 for row in self.constraints.rows if row.kind == "budget"
                ):
                    yield each

    def violation(self, x: NDArray[np.int64]) -> float:
        """Return the largest of the violations of 0/1, of the size, of a client's state, and of the rows."""
        return max(super().violation(x), self.constraints.violation(x))

    def contradiction(self) -> str | None:
        """A sentence that says why no selection keeps all constraints, where the laminar groups or one row show it.

        None where they do not, which does not say that there is a selection.
        """
        if (sentence := self.core.contradiction) is not None:
            return sentence
        if not self.priced:
            return None
        some = self.core.best(-np.sign(self.matrix).sum(axis=0))  # few rows miss their limits there
        for row in self.priced:
            if row.violation(some) == 0:
                continue
            coefficients = row.dense(self.n)
            least = row.activity(self.core.best(-coefficients))
            if least > row.high:
                return _too_much(row, self.size, least, bool(self.core.numbers))
            if row.low > 0 and row.activity(most := self.core.best(coefficients)) < row.low:
                return (
                    f"{row.label} asks for at least {row.low:g} client(s), but at most {row.activity(most):g} can be "
                    "selected of it"
                )
        return None

    # -- linear functions ----------------------------------------------------------------------------------------

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Coefficients of the rows that have prices, one row each."""
        return np.array([row.dense(self.n) for row in self.priced]).reshape(len(self.priced), self.n)

    def at_prices(self, g: NDArray[np.float64], prices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Bound gᵀx by prices of the rows.

        Parameters
        ----------
        g : (n,) ndarray
            Linear function.
        prices : (r,) ndarray
            A price for each of `priced`: positive for its upper limit, negative for its lower one.

        Returns
        -------
        bound : float
            No selection is worth more, in spite of rounding; to that of a sum where no row has a price.
        reduced : (n,) ndarray
            The linear function that is maximised over the laminar selections.
        """
        bound, reduced, _ = self.relaxed(g, prices)
        return bound, reduced

    def relaxed(
        self, g: NDArray[np.float64], prices: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.intp]]:
        """Bound gᵀx by prices of the rows as `at_prices`, and return the clients of the laminar selection as well."""
        prices = self._signed(prices)
        reduced = g - prices @ self.matrix
        limits = np.array([row.high if y > 0 else row.low for row, y in zip(self.priced, prices, strict=True)])
        paid = float((prices[prices != 0] * limits[prices != 0]).sum())
        chosen = np.flatnonzero(self.core.best(reduced))
        terms = np.abs(g[chosen]).sum() + np.abs(prices) @ np.abs(self.matrix[:, chosen]).sum(axis=1) + abs(paid)
        margin = 2 * (self.size + prices.size + 4) * _EPS * float(terms) if prices.size else 0.0
        return float(reduced[chosen].sum()) + paid + margin, reduced, chosen

    @cached_property
    def priced_numbers(self) -> list[int]:
        """Numbers of the rows that have prices, in the order of `priced`."""
        exact = set(self.core.numbers)
        return [k for k in range(len(self.constraints.rows)) if k not in exact]

    def losses(self, g: NDArray[np.float64], top: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what the bound of `relaxed` loses, at least, where each client's entry is changed."""
        return self.core.losses(g, self.decision(top))

    def slopes(self, top: NDArray[np.intp], prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the subgradient of the bound of `relaxed` in the prices, at the clients ``top`` that maximise it."""
        x, found = self.decision(top), np.zeros(prices.size)
        for k, (row, price) in enumerate(zip(self.priced, prices.tolist(), strict=True)):
            used = row.activity(x)
            if price > 0 or (price == 0 and used > row.high):
                slope = row.high - used
            else:
                slope = row.low - used if price < 0 or used < row.low else 0.0
            found[k] = slope if math.isfinite(slope) else 0.0
        return found

    def restricted(self, states: NDArray[np.int8]) -> ConstrainedSelections:
        """Return the feasible set of the clients that are FREE, with the rows less what those that are ONE use."""
        return ConstrainedSelections.of(self.constraints.restricted(states)[1])

    def _signed(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices with those of limits that are not there, or that are not numbers, at 0."""
        high = np.array([math.isfinite(row.high) for row in self.priced], dtype=bool)
        low = np.array([math.isfinite(row.low) for row in self.priced], dtype=bool)
        kept = np.isfinite(prices) & np.where(prices > 0, high, low)
        return np.where(kept, prices, 0.0)

    def prices(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the prices of the linear relaxation of maximising gᵀx: the best ones of `at_prices`, but for rounding.

        They are zeros where the relaxation has no solution.
        """
        if not self.priced:
            return np.zeros(0)
        if len(self.priced) == 1 and not math.isfinite(self.priced[0].low):
            return self._one_price(g)
        from scipy import optimize, sparse

        scale, rows = float(np.abs(g).max()) or 1.0, self.constraints.rows
        sides = [(k, 1.0, high) for k, row in enumerate(rows) if math.isfinite(high := self._high(row))]
        sides += [(k, -1.0, -row.low) for k, row in enumerate(rows) if row.low > 0]
        if not sides:
            return np.zeros(len(self.priced))
        number, signs, limits = (np.array(column) for column in zip(*sides, strict=True))
        dense = np.array([row.dense(self.n) for row in rows])[number] * signs[:, None]
        units = np.maximum(np.abs(dense).max(axis=1), 1e-300)
        found = optimize.linprog(
            -g / scale,
            A_ub=sparse.csr_matrix(dense / units[:, None]),
            b_ub=limits / units,
            A_eq=np.ones((1, self.n)),
            b_eq=[self.size],
            bounds=np.column_stack(self._box()),
            method="highs",
        )
        if found.status != 0:
            return np.zeros(len(self.priced))
        net = np.zeros(len(rows))
        np.add.at(net, number, -found.ineqlin.marginals / units * scale * signs)
        return net[[k for k in range(len(rows)) if k not in self.core.numbers]]

    def _high(self, row: LinearRow) -> float:
        """Return a row's upper limit, infinite where all clients together keep it: in its unit it may be too large."""
        return row.high if row.high < row.activity(np.ones(self.n)) else math.inf

    def _one_price(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the price of a single upper limit by bisection."""
        row, use = self.priced[0], self.matrix[0]

        def excess(price: float) -> float:
            return float(use @ self.core.best(g - price * use)) - row.high

        # Where all clients are worth the same, the bound without a price is the best one.
        if excess(0.0) <= 0 or not (spread := float(np.ptp(g))):
            return np.zeros(1)
        low, high = 0.0, spread / float(use.max())
        for _ in range(_HALVINGS):
            if excess(high) <= 0:
                break
            low, high = high, 4 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if not low < middle < high or high - low <= _PRICE * high * self.n:
                break
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return np.array([high])

    def support(self, g: NDArray[np.float64]) -> float:
        """Bound gᵀx over the set: its maximum under laminar rows, the linear relaxation's (and rounding) elsewhere."""
        return self.at_prices(g, self.prices(g))[0]

    def best(self, g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Maximise gᵀx over the selections: exact under laminar rows, else to the accuracy of HiGHS.

        Raises
        ------
        NoSelection
            When there is none, or HiGHS finds none.
        """
        x = self.core.best(g)
        return x if self.violation(x) == 0 else self._by_milp(g)

    def threshold(self, g: NDArray[np.float64]) -> float:
        """Return the least entry of the maximiser of the linear relaxation, at its prices."""
        _, reduced = self.at_prices(g, self.prices(g))
        chosen = (self.core.best(reduced) == 1) & (self.constraints.states == FREE)
        return float(reduced[chosen].min()) if chosen.any() else 0.0

    def fixed(self, g: NDArray[np.float64], room: float) -> NDArray[np.int8]:
        """Fix by reduced costs, as `Hypersimplex.fixed`; the maximum is the value of `support`."""
        return self.fixed_at(g, self.prices(g), room)

    def fixed_at(self, g: NDArray[np.float64], prices: NDArray[np.float64], room: float) -> NDArray[np.int8]:
        """Fix by reduced costs at given prices; ``room`` counts from the bound of `at_prices`."""
        _, reduced = self.at_prices(g, prices)
        x = self.core.best(reduced)
        state = self.constraints.states.copy()
        gone = (state == FREE) & (self.core.losses(reduced, x) > room)
        state[gone] = np.where(x[gone] == 1, ONE, ZERO)
        return state

    # -- points --------------------------------------------------------------------------------------------------

    @cached_property
    def centre(self) -> NDArray[np.float64]:
        """Mean of sixteen selections that are drawn: a point within the linear relaxation."""
        rng = np.random.default_rng(0)
        return np.mean([self.draw(rng) for _ in range(16)], axis=0)

    def project(self, x: NDArray[np.float64], grain: float = 0.0) -> NDArray[np.float64]:
        """Return a point of the hypersimplex near ``x`` that keeps states, and rows to a small error.

        Rows are projected on in turn, each time less its last correction (Dykstra 1983); a bound from a tangent holds
        at any point.
        """
        dense = [(row.places, row.coefficients, row.low, row.high) for row in self.constraints.rows]
        moves = [0.0] * len(dense)
        y, beyond = np.array(x, dtype=np.float64), np.zeros(self.n)
        for _ in range(100):
            before = y.copy()
            for k, (places, a, low, high) in enumerate(dense):
                square = float(a @ a) or 1.0
                value = float(a @ y[places]) + moves[k] * square
                step = max((value - high) / square, 0.0) + min((value - low) / square, 0.0)
                y[places] += (moves[k] - step) * a
                moves[k] = step
            lifted = y + beyond
            y = _onto_slice(lifted, *self._box(), self.size)
            beyond = lifted - y
            if np.abs(y - before).max() < 1e-9:
                break
        return Hypersimplex(self.n, self.size).project(y, grain)

    def round(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a selection near a fractional point.

        Raises
        ------
        NoSelection
            When there is none, or neither swaps nor HiGHS within its time found one.
        """
        near = self.core.best(x)
        if self.violation(near) == 0:
            return near
        return self.repaired(self.core.best(x - self.prices(x) @ self.matrix), x)

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a selection: uniformly if a few uniform draws show one that keeps all rows, else any."""
        states = self.constraints.states
        free, ones = np.flatnonzero(states == FREE), np.flatnonzero(states == ONE)
        for _ in range(10):
            x = self.decision([*ones, *rng.choice(free, size=self.size - ones.size, replace=False)])
            if self.constraints.violation(x) == 0:
                return x
        keys = rng.random(self.n)
        return self.repaired(self.core.best(keys), keys)

    def exchanged(self, x: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the clients of a selection after so many swaps that keep all constraints, fewer where none is left."""
        x = x.copy()
        for _ in range(count):
            inside, outside = np.flatnonzero(x), np.flatnonzero(x == 0)
            allowed = np.argwhere(self.swaps(x, inside, outside))
            if not len(allowed):
                break
            a, b = allowed[rng.integers(len(allowed))]
            x[inside[a]], x[outside[b]] = 0, 1
        return np.flatnonzero(x)

    def grown(self, g: NDArray[np.float64], after: Callable[[int], NDArray[np.float64]]) -> NDArray[np.int64]:
        """Add the client of largest gain that leaves a way to keep the constraints, until ``size`` are chosen.

        As `Hypersimplex.grown`; repaired where the sums of several rows left no selection.

        Raises
        ------
        NoSelection
            When there is none, or neither swaps nor HiGHS within its time found one.
        """
        states = self.constraints.states.copy()
        while int((states == ONE).sum()) < self.size and (states == FREE).any():
            client = int(np.argmax(np.where(states == FREE, g, -np.inf)))
            states[client] = ONE
            _, left = self.constraints.restricted(states)
            if ConstrainedSelections.of(left).contradiction() is not None:
                states[client] = ZERO
                continue
            g = after(client)
        return self.repaired(self.completed(states == ONE), g)

    def grown_at_once(
        self, g: NDArray[np.float64], after: Callable[[int], NDArray[np.float64]]
    ) -> NDArray[np.int64] | None:
        """Return what `grown` does where no client that fits a row's upper limit is in the way; None elsewhere.

        It looks at the limits of each client's rows alone.
        """
        states, size = self.constraints.states.copy(), self.size
        left = np.array([row.high for row in self.constraints.rows])
        rows = [(row.places, row.coefficients) for row in self.constraints.rows]
        chosen = np.flatnonzero(states == ONE).tolist()
        for k, (places, coefficients) in enumerate(rows):
            left[k] -= coefficients[states[places] == ONE].sum()
        by_client: dict[int, list[tuple[int, float]]] = {}
        for k, (places, coefficients) in enumerate(rows):
            for place, coefficient in zip(places.tolist(), coefficients.tolist(), strict=True):
                by_client.setdefault(place, []).append((k, coefficient))
            states[places[(coefficients > left[k]) & (states[places] == FREE)]] = ZERO
        while len(chosen) < size and (states == FREE).any():
            client = int(np.argmax(np.where(states == FREE, g, -np.inf)))
            states[client] = ONE
            chosen.append(client)
            for k, coefficient in by_client.get(client, []):
                places, coefficients = rows[k]
                left[k] -= coefficient
                states[places[(coefficients > left[k]) & (states[places] == FREE)]] = ZERO
            g = after(client)
        if len(chosen) != size:
            return None
        x = self.decision(chosen)
        return x if self.violation(x) == 0 else None

    def completed(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return a decision under the laminar rows that has as many of the chosen clients as can be."""
        return self.core.best(chosen.astype(np.float64))

    def repaired(self, x: NDArray[np.int64], g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Bring a decision into the set by swaps, each the one that mends most, of those the one that is best by g.

        Raises
        ------
        NoSelection
            When there is none, or neither swaps nor HiGHS within its time find one.
        """
        x = x.copy()
        for _ in range(4 * self.size):
            if self.violation(x) == 0:
                return x
            if (swap := self.mending_swap(x, g)) is None:
                break
            x[swap[0]], x[swap[1]] = 0, 1
        return self._by_milp(g, _LAST_RESORT)

    def mending_swap(self, x: NDArray[np.int64], g: NDArray[np.float64]) -> tuple[int, int] | None:
        """Return the swap that mends the rows most, of those the best by g; None where none mends.

        Of more than 400 clients on a side it looks at 400 alone.
        """
        states, rows = self.constraints.states, self.constraints.rows
        inside = np.flatnonzero((x == 1) & (states != ONE))
        outside = np.flatnonzero((x == 0) & (states != ZERO))
        dense = np.array([row.dense(self.n) for row in rows])
        if max(inside.size, outside.size) > _WIDTH:
            weights = np.array([_missed(np.array(row.activity(x)), row) > 0 for row in rows]) @ dense
            inside = inside[np.argsort(-weights[inside], kind="stable")[:_WIDTH]]
            outside = outside[np.argsort(weights[outside], kind="stable")[:_WIDTH]]
        if not (inside.size and outside.size):
            return None
        missed = np.zeros((inside.size, outside.size))
        now = 0.0
        for row, coefficients in zip(rows, dense, strict=True):
            unit, used = float(coefficients.max(initial=0)) or 1.0, row.activity(x)
            change = coefficients[outside] - coefficients[inside][:, None]
            missed += _missed(used + change, row) / unit
            now += float(_missed(np.array(used), row)) / unit
        if missed.min() >= now * (1 - 1e-12):
            return None
        best = missed <= missed.min() + 1e-12 * now
        worth = np.where(best, g[outside] - g[inside][:, None], -np.inf)
        i, j = np.unravel_index(int(worth.argmax()), worth.shape)
        return int(inside[i]), int(outside[j])

    def swaps(self, x: NDArray[np.int64], inside: NDArray[np.intp], outside: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which swaps of a chosen client (row) for another (column) keep all constraints.

        Parameters
        ----------
        x : (n,) ndarray of int
            A selection.
        inside, outside : ndarray of int
            Clients that are chosen, and that are not.
        """
        states = self.constraints.states
        kept = (states[inside] != ONE)[:, None] & (states[outside] != ZERO)
        for row in self.constraints.rows:
            coefficients = row.dense(self.n)
            used = row.activity(x) + coefficients[outside] - coefficients[inside][:, None]
            # An unused limit may be far away; sums near a limit are taken for too much.
            near = self.size * _EPS * abs(row.high) if row.kind == "budget" else 0.0
            kept &= (used <= row.high - near) & (used >= row.low)
        return kept

    @cached_property
    def is_movable(self) -> NDArray[np.bool_]:
        """Which clients may be chosen or not: those that no state fixes and that exceed no row's limit alone."""
        movable = self.constraints.states == FREE
        for row in self.constraints.rows:
            movable[row.places[row.coefficients > row.high]] = False
        return movable

    @cached_property
    def by_client(self) -> tuple[NDArray[Any], ...]:
        """The rows client by client, for compiled code.

        Entries ``start[i]`` to ``start[i + 1]`` are the rows of client i and its coefficients there, in units of the
        row's largest one among the clients that do not exceed the limit alone; then lower and upper limits, and 0 for
        a client that must stay where it is. Budgets are drawn in by less than half of what a selection may exceed them
        by, so that no rounding of sums matters: no coefficient that is ever added exceeds the limit.
        """
        rows = self.constraints.rows
        usable = [row.coefficients[row.coefficients <= row.high] for row in rows]
        units = np.array([float(coefficients.max(initial=0)) or 1.0 for coefficients in usable])
        places = np.concatenate([*(row.places for row in rows), np.zeros(0, dtype=np.intp)])
        number = np.repeat(np.arange(len(rows)), [row.places.size for row in rows])
        values = np.concatenate([*(row.coefficients for row in rows), np.zeros(0)]) / units[number]
        order = np.argsort(places, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=self.n))])
        drawn = np.array([1 - 4e-10 if row.kind == "budget" else 1.0 for row in rows])
        low, high = np.array([row.low for row in rows]) / units, np.array([self._high(row) for row in rows]) / units
        high = high * drawn
        movable = self.is_movable.astype(np.int64)
        whole = [each.astype(np.int64) for each in (start, number[order])]
        return (*whole, np.ascontiguousarray(values[order]), low.reshape(-1), high.reshape(-1), movable)

    # -- models --------------------------------------------------------------------------------------------------

    def _box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        states = self.constraints.states
        return (states == ONE).astype(np.float64), (states != ZERO).astype(np.float64)

    def rows(self) -> list[Row]:
        """Return the constraints beside 0 ≤ x ≤ 1 for external solvers: size, side constraints, fixed clients.

        A client that exceeds a budget alone is fixed: beside it the row's other coefficients could be less than what
        solvers round.
        """
        made, states = super().rows(), self.constraints.states.copy()
        for row in self.constraints.rows:
            coefficients = row.dense(self.n)
            if row.kind == "budget":
                alone = (coefficients > row.high) & (states != ONE)
                states[alone], coefficients[alone] = ZERO, 0.0
            made.append(Row(row.name, coefficients, row.low, self._high(row)))
        for name, state in (("include", ONE), ("exclude", ZERO)):
            members = (states == state).astype(np.float64)
            if members.any():
                total = float(members.sum()) if state == ONE else 0.0
                made.append(Row(name, members, total, total))
        return made

    def _by_milp(self, g: NDArray[np.float64], seconds: float | None = None) -> NDArray[np.int64]:
        """Maximise gᵀx by HiGHS; raise `NoSelection` where there is no selection, or none was found in time.

        HiGHS keeps rows to 1e-6 of their unit: limits are drawn in a little where its answer misses one, and selections
        are looked at one by one where that leaves none.
        """
        from scipy import optimize

        if self.core.contradiction is not None:
            raise NoSelection(True)
        low, high = self._box()
        rows = [row.scaled() for row in self.rows()]
        dense = np.array([row.coefficients for row in rows])
        lows, highs = (np.array([getattr(row, side) for row in rows]) for side in ("low", "high"))
        whole = np.array([bool((row.coefficients == np.rint(row.coefficients)).all()) for row in rows])
        scale = float(np.abs(g).max()) or 1.0
        for drawn in (0.0, 1e-7, 1e-6, 1e-5):
            found = optimize.milp(
                -g / scale,
                integrality=np.ones(self.n),
                bounds=optimize.Bounds(low, high),
                constraints=optimize.LinearConstraint(dense, lows, highs - np.where(whole, 0, drawn)),
                options={"mip_rel_gap": 0.0} | ({"time_limit": seconds} if seconds else {}),
            )
            if found.x is None and drawn == 0:
                raise NoSelection(found.status == 2)
            if found.x is None:
                break
            x = np.rint(found.x).astype(np.int64)
            if self.violation(x) == 0:
                return x
        if self.count > _ENUMERABLE:
            raise NoSelection(False)
        every = [self.decision(each) for each in self.selections()]
        if not every:
            raise NoSelection(True)
        return every[int(np.argmax(np.array(every) @ g))]


def _onto_slice(
    y: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """Return the nearest point of the box whose entries have this sum, by bisection for what is taken off each."""
    least, most = float((y - high).min()), float((y - low).max())
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if np.clip(y - middle, low, high).sum() > total else (least, middle)
    return np.clip(y - most, low, high)


def _missed(used: NDArray[np.float64], row: LinearRow) -> NDArray[np.float64]:
    return np.maximum(used - row.high, 0.0) + np.maximum(row.low - used, 0.0)


def _too_much(row: LinearRow, size: int, least: float, in_groups: bool) -> str:
    if row.kind != "budget":
        return f"{row.label} allows at most {row.high:g} client(s), but at least {least:g} of it must be selected"
    that = " that meet the quotas" if in_groups else ""
    return f"the cheapest {size} clients{that} use {least:.6g} of {row.label}, whose limit is {row.high:.6g}"
