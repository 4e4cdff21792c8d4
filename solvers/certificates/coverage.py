r"""Checker of a search over the selections of a coverage problem, in whole numbers.

Similarities are rounded up to multiples of 2^grid, so that no selection is worth more than before. With any multiplier
:math:`u_i` of each row, candidate j is worth :math:`\rho_j = \sum_i \max(0, s_{ij} - u_i)` and a selection at most
:math:`\sum_i u_i + \sum_{j \in S} \rho_j`, since :math:`\max_{j \in S} s_{ij} \le u_i + \sum_{j \in S} \max(0, s_{ij}
- u_i)`. What a candidate costs, rounded down, is taken off its worth. So the multipliers and the m largest worths sum
to a bound, and a candidate is fixed where the bound closes its other side. Of candidates that are alike in every row
the first one serves for all, where enough are left and all cost the same. Side constraints are not read: the bound is
of all selections of m candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates.exact.sides import FREE, ONE, ZERO
from solvers.errors import CertificateError

Integers = NDArray[np.int64]
States = NDArray[np.int8]

#: Sums over the rows of similarities and multipliers stay below.
_LARGEST = 1 << 61


class _Search:
    """The walk over what was written down; ``worth`` has a row per candidate."""

    def __init__(self, problem: Any, grid: int, arrays: Mapping[str, Integers]) -> None:
        given = np.asarray(problem.similarity)
        (rows, self.n), self.size = given.shape, int(problem.size)
        largest = max(float(given.max()), -float(given.min()))
        most = int(Fraction(largest) / Fraction(2) ** grid) + 1
        multipliers = arrays["multiplier"]
        most += max(int(multipliers.max(initial=0)), -int(multipliers.min(initial=0)))
        costs = np.asarray(problem.costs, dtype=np.float64)
        charged = self.size * (int(Fraction(float(np.abs(costs).max())) / Fraction(2) ** grid) + 1)
        if most * rows + charged >= _LARGEST:
            raise CertificateError(f"the grid 2^{grid} is too fine for the problem's numbers")
        values = given.T.astype(np.float64)
        whole = np.ceil(np.ldexp(values, -grid))
        # Scaling down may lose what is below the smallest double; scaling up again does not.
        whole += np.ldexp(whole, grid) < values
        self.worth = np.ascontiguousarray(whole, dtype=np.int64)
        least = np.floor(np.ldexp(costs, -grid))
        least -= np.ldexp(least, grid) > costs
        self.cost: Integers = least.astype(np.int64)
        (self.goal,), self.client, looks = arrays["goal"].tolist(), arrays["client"].tolist(), arrays["looks"]
        if multipliers.size != int(looks.sum()) * rows:
            raise CertificateError("there is not one multiplier for each row at each look")
        if max(self.client, default=-1) >= self.n:
            raise CertificateError("a node branches on a candidate that the problem does not have")
        self.looks = np.split(multipliers.reshape(-1, rows), np.cumsum(looks)[:-1]) if looks.size else []
        origins = arrays["origin"].tolist()
        self.node = {origin: node for node, origin in enumerate(origins)}
        if len(self.node) != len(origins) or any(origin >= 2 * node for node, origin in enumerate(origins)):
            raise CertificateError("two nodes lie on the same side of one, or one lies above itself")

    def start(self) -> States:
        """Leave out what is like a candidate before it, where enough are left and all candidates cost the same."""
        first: dict[bytes, int] = {}
        for j, row in enumerate(self.worth):
            first.setdefault(row.tobytes(), j)
        merges = len(first) >= self.size and (self.cost == self.cost[0]).all()
        state = np.full(self.n, ZERO if merges else FREE, dtype=np.int8)
        state[list(first.values())] = FREE
        return state

    def look(self, u: Integers, state: States) -> States | None:
        """Return a state with the candidates fixed whose other side the multipliers close; None if they close it."""
        rest = np.flatnonzero(state != ZERO)
        rho = np.maximum(self.worth[rest] - u, 0).sum(axis=1) - self.cost[rest]
        is_free = state[rest] == FREE
        missing = self.size - int((~is_free).sum())
        free = np.sort(rho[is_free])[::-1].tolist()
        bound = sum(u.tolist()) + sum(rho[~is_free].tolist()) + sum(free[:missing])
        if (loss := bound - self.goal) <= 0:
            return None
        last, following = free[missing - 1], free[missing]
        for k in np.flatnonzero(is_free).tolist():
            value = int(rho[k])
            if value >= last and value - following >= loss:
                state[rest[k]] = ONE
            elif value < last and last - value >= loss:
                state[rest[k]] = ZERO
        return state

    def decided(self, state: States) -> int | None:
        """Return the value of the only selection left, the goal if there is none; None if there are several."""
        ones, free = np.flatnonzero(state == ONE), np.flatnonzero(state == FREE)
        missing = self.size - ones.size
        if 0 < missing < free.size:
            return None
        if missing < 0 or missing > free.size:
            return int(self.goal)
        chosen = np.concatenate([ones, free]) if missing else ones
        return sum(self.worth[chosen].max(axis=0).tolist()) - sum(self.cost[chosen].tolist())

    def walk(self) -> int:
        """Return a number that no selection is worth more than, in units of the grid."""
        best, state = int(self.goal), self.start()
        # Whoever is fixed stands in ``fixed``, in its order, and is free again above there.
        fixed: list[int] = []
        stack: list[tuple[int, int, int, int]] = [(-1, 0, -1, FREE)]
        while stack:
            origin, depth, client, side = stack.pop()
            state[fixed[depth:]] = FREE
            del fixed[depth:]
            if client >= 0 and state[client] == FREE:
                state[client] = side
                fixed.append(client)
            node, closed = self.node.get(origin), False
            for u in self.looks[node] if node is not None else ():
                if self.decided(state) is not None:
                    break
                before = np.flatnonzero(state == FREE)
                if closed := self.look(u, state) is None:
                    break
                fixed += before[state[before] != FREE].tolist()
            if closed:
                continue
            if (value := self.decided(state)) is not None:
                best = max(best, value)
                continue
            if node is None:
                raise CertificateError(f"no node lies at {origin}, and several selections are left there")
            if (client := self.client[node]) < 0:
                raise CertificateError(f"node {node} is open, and has no sides")
            for side in (ZERO, ONE):
                if state[client] in (FREE, side):
                    stack.append((2 * node + (side == ONE), len(fixed), client, side))
        return best


def check_coverage(problem: Any, grid: int, arrays: Mapping[str, Integers]) -> Fraction:
    """Walk over a search that was written down and return the bound it proves, exactly.

    ``goal``: every part that multipliers close is worth at most so much, in units of 2^grid. ``origin``, ``client`` and
    ``looks``: of each node, where it lies (-1: the root; 2 k: below node k, without the candidate it branches on;
    2 k + 1: with), the candidate it branches on (-1: none) and its number of ``multiplier`` vectors, which follow each
    other in the order of the nodes, each of them one number per row of similarities.
    """
    return _Search(problem, grid, arrays).walk() * Fraction(2) ** grid
