"""Arguments of the tree kernel: objective, dominance, side constraints, open nodes, goal, log, scratch arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.feasible_set import FREE, ONE, ZERO

__all__ = ["FREE", "ONE", "ZERO", "Form", "Goal", "Log", "Order", "SideScratch", "Sides", "Stack", "Workspace"]


class Form(NamedTuple):
    """Objective: the slice form, its rounding, and each client's weight in the choice of the branching variable."""

    curved: NDArray[np.float64]
    exact: NDArray[np.float64]
    linear: NDArray[np.float64]
    size: int
    margin: float
    importance: NDArray[np.float64]


class Order(NamedTuple):
    """Dominance as adjacency lists: the clients at least as good as i, and those that i is at least as good as."""

    above_start: NDArray[np.int64]
    above: NDArray[np.int64]
    below_start: NDArray[np.int64]
    below: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> Order:
        """No dominance among n clients."""
        start, none = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return cls(start, none, start, none)


class Stack(NamedTuple):
    """Up to n + 5 nodes: fixed clients, a point near the slice, an upper bound, the node above and the side of it.

    Behind the shares of a point stand the multipliers of rows.
    """

    states: NDArray[np.int8]
    points: NDArray[np.float64]
    bounds: NDArray[np.float64]
    origins: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int, rows: int = 0) -> Stack:
        """Arrays for n clients, none of them fixed, under so many rows."""
        states, points = np.zeros((n + 5, n), dtype=np.int8), np.zeros((n + 5, n + rows))
        return cls(states, points, np.zeros(n + 5), np.zeros(n + 5, dtype=np.int64))


class Goal(NamedTuple):
    """When a node is dropped, when it is solved well enough, and how much work is allowed.

    Nodes whose bound is at most ``incumbent + tolerance`` are dropped; others are solved until the bound is within
    ``accuracy`` times its distance to the incumbent. ``budget`` counts updates of gradient entries.
    """

    incumbent: float
    tolerance: float
    accuracy: float
    budget: int


class Log(NamedTuple):
    """Log of every node that is bounded, as far as there is room: see `solvers.dispersion.tree.search_log`.

    ``origins`` are twice the number of the node above, and one more where the client it branched on is chosen;
    ``clients`` those that the nodes branch on themselves, -1 where they do not; ``points`` where its tangent is taken,
    in units of ``grain``. ``used[0]`` nodes are written; the first of them has number ``first``.
    """

    origins: NDArray[np.int64]
    clients: NDArray[np.int64]
    points: NDArray[np.int16]
    used: NDArray[np.int64]
    first: int
    grain: float

    @classmethod
    def empty(cls, nodes: int, n: int, first: int = 0, grain: float = 0.0) -> Log:
        """A log of so many nodes over n clients; with 0 of them nothing is written or rounded."""
        origins, clients = np.zeros((2, nodes), dtype=np.int64)
        points = np.zeros((nodes, n), dtype=np.int16)
        return cls(origins, clients, points, np.zeros(1, dtype=np.int64), first, grain)


class Workspace(NamedTuple):
    """Scratch arrays for the node at hand: clients fixed there and in its child, its point, gradient, linear term."""

    state: NDArray[np.int8]
    child: NDArray[np.int8]
    y: NDArray[np.float64]
    g: NDArray[np.float64]
    slope: NDArray[np.float64]
    scratch: NDArray[np.float64]
    free: NDArray[np.int64]
    todo: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> Workspace:
        """Arrays for n clients."""
        states, reals, indices = np.empty((2, n), np.int8), np.empty((4, n)), np.empty((2, n + 1), np.int64)
        return cls(*states, *reals, *indices)


class Sides(NamedTuple):
    """Constraints beside ``1ᵀs = size``: quotas of disjoint groups, rows, conflicts.

    ``group`` of each client, of which between ``low`` and ``high`` are chosen; ``rows s <= limits``, with the
    ``largest`` absolute entry of each row, the ``penalty`` of its augmented Lagrangian, and in ``order`` the clients by
    rising entries; clients ``conflict[conflict_start[i]:conflict_start[i + 1]]`` are not chosen with i.
    """

    group: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    rows: NDArray[np.float64]
    limits: NDArray[np.float64]
    largest: NDArray[np.float64]
    penalty: NDArray[np.float64]
    order: NDArray[np.int64]
    conflict_start: NDArray[np.int64]
    conflict: NDArray[np.int64]


class SideScratch(NamedTuple):
    """Scratch arrays for side constraints: counts of each group, marks of clients, multipliers and use of each row."""

    chosen: NDArray[np.int64]
    open: NDArray[np.int64]
    need: NDArray[np.int64]
    capacity: NDArray[np.int64]
    taken: NDArray[np.int64]
    top: NDArray[np.int64]
    bottom: NDArray[np.int64]
    mark: NDArray[np.int64]
    sorted: NDArray[np.int64]
    total: NDArray[np.float64]
    goal: NDArray[np.float64]
    best_out: NDArray[np.float64]
    worst_in: NDArray[np.float64]
    rest: NDArray[np.float64]
    use: NDArray[np.float64]
    mu: NDArray[np.float64]
    price: NDArray[np.float64]
    key: NDArray[np.float64]

    @classmethod
    def empty(cls, n: int, groups: int, rows: int) -> SideScratch:
        """Arrays for n clients in so many groups, under so many rows."""
        lengths = {"mark": n, "sorted": n, "key": n}
        lengths |= dict.fromkeys(("rest", "use", "mu", "price"), rows)
        arrays: dict[str, Any] = {}
        for name, kind in cls.__annotations__.items():
            arrays[name] = np.zeros(lengths.get(name, groups), np.int64 if "int64" in str(kind) else np.float64)
        return cls(**arrays)
