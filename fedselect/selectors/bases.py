"""What several selectors are made from: those without a memory, and those that select everybody."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection

__all__ = ["Described", "Everyone", "Stateless"]


class Described:
    """Says in a line what it is: its plain settings, and nothing of its arrays."""

    def __repr__(self) -> str:
        plain = {name: value for name, value in vars(self).items() if isinstance(value, (bool, int, float, str))}
        told = ", ".join(f"{name}={value!r}" for name, value in plain.items() if not name.startswith("_"))
        return f"{type(self).__name__}({told})"


class Stateless(Described):
    """A selector that learns nothing from round to round."""

    def update(self, feedback: RoundFeedback) -> None:
        """Learn nothing: every round is decided afresh."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing: there is no state."""


class Everyone(Stateless):
    """Select everybody who is available: the schemes that decide weights and not clients."""

    on_failure: Literal["keep", "renormalise"] = "keep"

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Absolute weights a_i of the available clients, shape (len(clients),)."""
        raise NotImplementedError

    def select(self, round: RoundContext) -> Selection:
        """Select everybody who is available, with this scheme's weights."""
        clients = np.flatnonzero(round.available)
        return Selection(clients, self.weights(round, clients), on_failure=self.on_failure)
