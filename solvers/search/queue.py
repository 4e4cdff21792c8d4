"""Queue of open nodes, best bound first."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Generic, TypeVar

__all__ = ["BestFirstQueue"]

Node = TypeVar("Node")


class BestFirstQueue(Generic[Node]):
    """Open nodes of a maximisation: the one with the largest bound comes first, among equals the oldest.

    A search that minimises pushes the negatives of its bounds. Nodes are never compared.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Node]] = []
        self._ages = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def bound(self) -> float:
        """Largest bound of an open node; -inf where none is open."""
        return -self._heap[0][0] if self._heap else -math.inf

    def push(self, bound: float, node: Node) -> None:
        """Add a node."""
        heapq.heappush(self._heap, (-bound, next(self._ages), node))

    def pop(self) -> tuple[float, Node]:
        """Remove the node with the largest bound; return its bound and the node."""
        key, _, node = heapq.heappop(self._heap)
        return -key, node

    def clear(self) -> None:
        """Remove all nodes."""
        self._heap.clear()
