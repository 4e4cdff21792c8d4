"""Node outcomes: why a node of a tree search needs no further look."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

__all__ = ["NodeOutcome", "add_outcomes"]


class NodeOutcome(IntEnum):
    """Reason for which a processed node is open no longer."""

    #: No selection below it is better than the incumbent, by its bound.
    FATHOMED_BY_BOUND = 0
    #: Reduced costs, or what they forbid, leave one selection or none.
    REDUCED = 1
    #: Dominance contradicts what is fixed there.
    DOMINATED = 2
    #: The size and the side constraints leave no selection.
    INFEASIBLE = 3
    #: All its selections were evaluated.
    SOLVED = 4
    #: It has children.
    BRANCHED = 5

    @property
    def label(self) -> str:
        """Name in words."""
        return self.name.lower().replace("_", " ")


def add_outcomes(details: dict[str, Any], counts: Sequence[int]) -> None:
    """Add counts, by outcome, to ``details["outcomes"]``, which names those that occurred."""
    known = details.setdefault("outcomes", {})
    for outcome in NodeOutcome:
        if counts[outcome]:
            known[outcome.label] = known.get(outcome.label, 0) + int(counts[outcome])
