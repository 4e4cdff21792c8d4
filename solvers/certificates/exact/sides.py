"""Side constraints in whole numbers: rows that every selection keeps, and what they decide for single clients.

Quotas and conflicts are rows of ones. A budget's uses are rounded down and its limit up, in units of 2^-40 of the
largest use, so that what keeps the budget keeps the row. A limit is taken for larger by a part of 2^-29, which is more
than the part of 10^-9 by which `solvers.constraints` lets a selection exceed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError

Integers = NDArray[np.int64]
States = NDArray[np.int8]

#: States of a client.
FREE, ONE, ZERO = 0, 1, 2

#: Units of a budget's largest use, and the share of a limit that rounding may exceed it by.
UNIT, OVER = 1 << 40, Fraction(1, 1 << 29)

#: Numbers of all rows; steps of all `Sides.consequences` of one reader, some minutes.
_NUMBERS, _STEPS = 1 << 26, 1 << 35


class Sides:
    """Rows ``coefficients s <= limits`` of whole numbers, ``units`` of which are one of the constraint, and a state.

    The rows come in the order of the problem: each quota's upper limit, where it has one, then its lower one, where it
    is not 0; each budget that somebody uses; each conflict.
    """

    def __init__(self, problem: Any) -> None:
        self.size, n, self.steps = int(problem.size), len(problem.costs), 0
        stated = [len(getattr(problem, name, ())) for name in ("quotas", "quotas", "budgets", "conflicts")]
        if n * sum(stated) > _NUMBERS:
            raise CertificateError(f"the side constraints have more than {_NUMBERS} numbers")
        ids = np.arange(n) if getattr(problem, "clients", None) is None else np.asarray(problem.clients)
        self.place = {client: k for k, client in enumerate(ids.tolist())}
        self.start = np.full(n, FREE, dtype=np.int8)
        self.start[self._places(getattr(problem, "include", ()))] = ONE
        out = self._places(getattr(problem, "exclude", ()))
        self.is_contradictory = bool((self.start[out] == ONE).any())
        self.start[out] = ZERO
        rows: list[Integers] = []
        self.limits: list[int] = []
        self.units: list[int] = []
        for quota in getattr(problem, "quotas", ()):
            ones = np.zeros(n, dtype=np.int64)
            ones[self._places(quota.members)] = 1
            if quota.at_most is not None:
                self._add(rows, ones, int(quota.at_most), 1)
            if int(quota.at_least) > 0:
                self._add(rows, -ones, -int(quota.at_least), 1)
        for budget in getattr(problem, "budgets", ()):
            use = [Fraction(float(each)) for each in budget.use]
            if len(use) != n or min(use) < 0:
                raise CertificateError("a budget has not one use for each client, or a negative one")
            if (most := max(use)) > 0:
                whole = np.array([int(each * UNIT / most) for each in use], dtype=np.int64)
                limit = -(-Fraction(float(budget.limit)) * (1 + OVER) * UNIT // most)
                self._add(rows, whole, min(int(limit), self.size * UNIT), UNIT)  # more than that is no limit
        for group in getattr(problem, "conflicts", ()):
            ones = np.zeros(n, dtype=np.int64)
            ones[self._places(group)] = 1
            self._add(rows, ones, 1, 1)
        self.rows = np.array(rows, dtype=np.int64).reshape(len(rows), n)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is constrained but the size."""
        return not self.limits and not self.start.any()

    def _places(self, clients: Iterable[Any]) -> list[int]:
        try:
            places = [self.place[int(client)] for client in clients]
        except KeyError as error:
            raise CertificateError(f"a constraint names client {error}, whom the problem does not have") from None
        if len(set(places)) != len(places):
            raise CertificateError("a constraint names a client twice")
        return places

    def _add(self, rows: list[Integers], row: Integers, limit: int, unit: int) -> None:
        rows.append(row)
        self.limits.append(limit)
        self.units.append(unit)

    def charge(self, prices: Integers) -> tuple[int, NDArray[Any]]:
        """Return a number and one for each client that their sum over a selection does not exceed, at prices >= 0.

        What clients are charged is rounded down, what the limits are charged up, in the units of the prices.
        """
        paid, each = 0, np.zeros(self.start.size, dtype=object)
        for row, limit, unit, price in zip(self.rows, self.limits, self.units, prices.tolist(), strict=True):
            if price:
                paid += -(-price * limit // unit)
                each += price * row.astype(object) // unit
        return paid, each

    def products(
        self, triples: list[list[int]], ones: Integers, ids: Integers
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Return constant, linear and quadratic terms over ``ids`` beside ``ones`` of products of what rows leave.

        A triple (r, t, p) is p times what row r leaves of its limit, times what row t leaves; for t = r times what row
        r comes to beyond the least that ``size`` clients do. No selection makes it negative, nor a product of clients:
        so every coefficient may be rounded up. Multipliers below 2^40 in sum leave coefficients below 2^59.
        """
        if sum(price for _, _, price in triples) >= 1 << 40:
            raise CertificateError("the multipliers of rows' products are too large in sum")
        constant, linear = 0, np.zeros(ids.size, dtype=object)
        matrix = np.zeros((ids.size, ids.size), dtype=object)
        for r, t, price in triples:
            if max(r, t) >= len(self.limits):
                raise CertificateError("a product is of a row that the constraints do not have")
            a, b, unit = self.rows[r], self.limits[r], self.units[r]
            c, d, other = self.rows[t], self.limits[t], self.units[t]
            if t == r:
                c, d = -a, -int(np.sort(a)[: self.size].sum())
            if abs(b) > self.size * unit or abs(d) > self.size * other:
                raise CertificateError("a product is of a row whose limit is no limit")
            b, d, whole = b - int(a[ones].sum()), d - int(c[ones].sum()), unit * other
            a, c = a[ids].astype(object), c[ids].astype(object)
            both = np.outer(a, c)
            constant += -(-price * b * d // whole)
            linear += -(price * (d * a + b * c) // whole)
            matrix += -(-price * (both + both.T) // (2 * whole))
        return constant, linear.astype(np.int64), matrix.astype(np.int64)

    def consequences(self, state: States) -> States | None:
        """Fix the clients that no selection of a state can do with, or without; None where a row leaves no selection.

        The least that a row can come to is the chosen clients' sum and the smallest numbers of so many free ones as
        are missing; with another client in it, or without one, it is more by a single exchange.
        """
        state = state.copy()
        changed = True
        while changed:
            changed = False
            free = np.flatnonzero(state == FREE)
            missing = self.size - int((state == ONE).sum())
            if missing < 0 or missing > free.size:
                return None
            for row, limit in zip(self.rows, self.limits, strict=True):
                self.steps += row.size + 4096
                if self.steps > _STEPS:
                    raise CertificateError(f"to follow the side constraints takes more than {_STEPS} steps")
                order = free[np.argsort(row[free], kind="stable")]
                least, rest = order[:missing], order[missing:]
                spare = limit - int(row[state == ONE].sum()) - int(row[least].sum())
                if spare < 0:
                    return None
                out = rest[row[rest] - row[least[-1]] > spare] if missing else rest[:0]
                needed = least[row[rest[0]] - row[least] > spare] if rest.size else least[:0]
                if out.size or needed.size:
                    state[out], state[needed] = ZERO, ONE
                    changed = True
                    break
        return state
