r"""Selections under groups that are disjoint or nested: the linear maximum by a greedy choice, and all exchanges.

With least and largest numbers on the groups of a laminar family (any two disjoint, or one within the other) and the
size fixed, the selections are the bases of a matroid (Murota, *Discrete Convex Analysis*, 2003). A greedy choice,
group by group from the innermost, is therefore exact, and the best selection with one client exchanged differs from the
best one by a single swap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints, LinearRow
from solvers.feasible_set import FREE, ONE, ZERO


def laminar_rows(rows: Sequence[LinearRow]) -> list[int]:
    """Return the numbers of rows that form a laminar family: quotas first, then cliques, larger ones first."""
    candidates = [k for k, row in enumerate(rows) if row.kind != "budget" and row.places.size]
    candidates.sort(key=lambda k: (rows[k].kind != "quota", -rows[k].places.size))
    found: list[int] = []
    at: dict[int, list[int]] = {}
    for k in candidates:
        members = rows[k].places.tolist()
        shared = Counter(other for place in members for other in at.get(place, ()))
        if all(count in (len(members), rows[other].places.size) for other, count in shared.items()):
            found.append(k)
            for place in members:
                at.setdefault(place, []).append(k)
    return found


@dataclass(frozen=True, eq=False)
class LaminarSelections:
    """Selections of ``size`` clients under a laminar family of groups, with some clients fixed.

    Parameters
    ----------
    constraints : Constraints
        Size and states; rows whose numbers are not in ``numbers`` are not looked at.
    numbers : tuple of int
        Rows that form a laminar family.
    """

    constraints: Constraints
    numbers: tuple[int, ...]

    @cached_property
    def _nodes(self) -> list[int]:
        """Rows from the largest to the smallest: a parent stands before its children."""
        rows = self.constraints.rows
        return sorted(self.numbers, key=lambda k: -rows[k].places.size)

    @cached_property
    def _tree(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Innermost node of each client, and of each node its parent and depth; node 0 is the set of all clients."""
        rows = self.constraints.rows
        owner = np.zeros(self.constraints.n, dtype=np.intp)
        parent, depth = np.zeros(len(self._nodes) + 1, dtype=np.intp), np.zeros(len(self._nodes) + 1, dtype=np.intp)
        for node, k in enumerate(self._nodes, start=1):
            parent[node] = owner[rows[k].places[0]]
            depth[node] = depth[parent[node]] + 1
            owner[rows[k].places] = node
        return owner, parent, depth

    @cached_property
    def _levels(self) -> list[NDArray[Any]]:
        """Node of each client at each depth from the deepest to 1; 0 where it has none."""
        owner, parent, depth = self._tree
        levels, at = [], owner.copy()
        for level in range(int(depth.max(initial=0)), 0, -1):
            here = depth[at] == level
            # Short integers, which NumPy sorts in linear time.
            levels.append(np.where(here, at, 0).astype(np.int16 if depth.size < 2**15 else np.int64))
            at = np.where(here, parent[at], at)
        return levels

    @cached_property
    def _limits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Least and largest number of clients of each node, as its row states them."""
        rows, size = self.constraints.rows, self.constraints.size
        low = [size, *(int(np.ceil(max(rows[k].low, 0))) for k in self._nodes)]
        high = [size, *(int(np.floor(min(rows[k].high, size))) for k in self._nodes)]
        return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)

    @cached_property
    def contradiction(self) -> str | None:
        """A sentence that says why there is no such selection; None where there is one."""
        owner, parent, _ = self._tree
        low, high = self._limits
        states, rows = self.constraints.states, self.constraints.rows
        nodes = low.size
        least = np.bincount(owner[states == ONE], minlength=nodes)
        most = np.bincount(owner[states != ZERO], minlength=nodes)
        for node in range(nodes - 1, 0, -1):
            label = rows[self._nodes[node - 1]].label
            if most[node] < low[node]:
                return (
                    f"{label} asks for at least {low[node]} client(s), but at most {most[node]} can be selected of it"
                )
            if least[node] > high[node]:
                return (
                    f"{label} allows at most {high[node]} client(s), but at least {least[node]} of it must be selected"
                )
            least[parent[node]] += max(least[node], low[node])
            most[parent[node]] += min(most[node], high[node])
        if least[0] > low[0]:
            return f"at least {least[0]} clients must be selected, by quotas and include, but size is {low[0]}"
        if most[0] < low[0]:
            return f"at most {most[0]} clients can be selected, by quotas, conflicts and exclude, but size is {low[0]}"
        return None

    def best(self, g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Maximise gᵀx over the selections and return one that does; ties go to the lower place.

        A group's best k clients contain its best k − 1, from its least number on: each level of the family therefore
        says which clients of a group must come, and which are too many for it, and the next level goes on with these.
        """
        states = self.constraints.states
        if not (self._levels or states.any()):
            return _largest(g, self.constraints.size)
        low, high = self._limits
        order = np.argsort(-g, kind="stable")
        order = order[states[order] != ZERO]
        must = states == ONE
        for label in self._levels:
            if must.any():
                order = order[np.argsort(~must[order], kind="stable")]
            group = label[order]
            by_group = np.argsort(group, kind="stable")
            members = np.bincount(group, minlength=low.size)
            rank = np.empty(order.size, dtype=np.intp)
            rank[by_group] = np.arange(order.size) - np.repeat(np.cumsum(members) - members, members)
            inside = group > 0
            must[order[inside & (rank < low[group])]] = True
            order = order[~inside | (rank < high[group])]
        if must.any():
            order = order[np.argsort(~must[order], kind="stable")]
        x = np.zeros(states.size, dtype=np.int64)
        x[order[: self.constraints.size]] = 1
        return x

    def losses(self, g: NDArray[np.float64], x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the maximum of gᵀx loses where each client's entry in the best selection is changed.

        Parameters
        ----------
        g : (n,) ndarray
            Linear function.
        x : (n,) ndarray of int
            A selection of largest gᵀx.

        Returns
        -------
        (n,) ndarray
            Not negative but for rounding; infinite where no selection has the changed entry.
        """
        owner, parent, _ = self._tree
        low, high = self._limits
        states, nodes = self.constraints.states, low.size
        used = np.bincount(owner[x == 1], minlength=nodes)
        for node in range(nodes - 1, 0, -1):
            used[parent[node]] += used[node]
        full, bare = used >= high, used <= low
        leaving, coming = (x == 1) & (states == FREE), (x == 0) & (states == FREE)
        # Of each node, the cheapest to leave that no inner quota holds, and the best to come that none keeps out.
        out, into = np.full(nodes, np.inf), np.full(nodes, -np.inf)
        np.minimum.at(out, owner[leaving], g[leaving])
        np.maximum.at(into, owner[coming], g[coming])
        for node in range(nodes - 1, 0, -1):
            if not bare[node]:
                out[parent[node]] = min(out[parent[node]], out[node])
            if not full[node]:
                into[parent[node]] = max(into[parent[node]], into[node])
        # A client may take the place of any in its scope: up to the first group that is full (or bare, to leave it).
        for node in range(1, nodes):
            if not full[node]:
                out[node] = min(out[node], out[parent[node]])
            if not bare[node]:
                into[node] = max(into[node], into[parent[node]])
        loss = np.full(states.size, np.inf)
        loss[coming] = out[owner[coming]] - g[coming]
        loss[leaving] = g[leaving] - into[owner[leaving]]
        return loss


def _largest(g: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the decision for the largest entries; ties go to the lower place."""
    least = np.partition(g, g.size - count)[g.size - count] if count else np.inf
    x = (g > least).astype(np.int64)
    x[np.flatnonzero(g == least)[: count - int(x.sum())]] = 1
    return x
