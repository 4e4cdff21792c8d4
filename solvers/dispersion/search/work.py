"""What nodes and relaxations of the first-order tree have cost, and when nodes have earned the next relaxation.

A relaxation lowers the bounds of what is open, and nobody knows before whether nodes would have done without it. If
relaxations never take more than a certain multiple of the nodes' work, a search never takes much longer than without
any, however many problems are open.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Work", "relaxation"]

#: Relaxations take at most so many times the work of nodes.
_RELAXED = 3

#: What a relaxation with k pairs counts as: so many updates, and so many in units of n² (n + k).
_START, _EACH = 1_000_000, 3


@dataclass
class Work:
    """Updates of gradient entries, and what relaxations count as beside them."""

    nodes: int = 0
    relaxations: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.nodes + self.relaxations

    def lacking(self, cost: int) -> int:
        """Work that nodes have to do before a relaxation may cost so much."""
        return int((self.relaxations + cost) / _RELAXED) - self.nodes


def relaxation(n: int, pairs: int) -> int:
    """What a relaxation of n clients with so many pairs held non-negative counts as."""
    return _START + _EACH * n * n * (n + pairs)
