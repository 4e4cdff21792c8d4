"""Participation of the clients in a run: available, selected and returned in every round, with which weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.engine import Round
from fedselect.rounds.protocol import Outcome

__all__ = ["History"]


@dataclass(frozen=True, eq=False)
class History:
    """The participation of a run; it takes memory for the selected, not for all clients, of every round.

    Attributes
    ----------
    n_clients : int
        Number of clients N.
    available : (N,) ndarray of int
        Rounds in which each client was available.
    selected : tuple of (m_t,) ndarray of int
        Selected clients of each round, sorted.
    returned : tuple of (m_t,) ndarray of bool
        Which of them returned a usable update.
    applied : tuple of (m_t,) ndarray of float
        Weights a_i applied, 0 for those that did not return.
    """

    n_clients: int
    available: NDArray[np.int64]
    selected: tuple[NDArray[np.int64], ...]
    returned: tuple[NDArray[np.bool_], ...]
    applied: tuple[NDArray[np.float64], ...]

    @classmethod
    def collect(cls, rounds: Iterable[Round], n_clients: int) -> History:
        """Collect the participation of rounds as they are played, by `simulate` or by the training loop."""
        available = np.zeros(n_clients, dtype=np.int64)
        selected, returned, applied = [], [], []
        for played in rounds:
            chosen = played.selection.clients
            available += played.outcomes != Outcome.UNAVAILABLE
            selected.append(chosen)
            returned.append(played.outcomes[chosen] == Outcome.RETURNED)
            applied.append(played.applied)
        return cls(n_clients, available, tuple(selected), tuple(returned), tuple(applied))

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], n_clients: int) -> History:
        """Read the records of a run folder (`fedselect.experiments.read_records`)."""
        available = np.zeros(n_clients, dtype=np.int64)
        selected, returned, applied = [], [], []
        for record in records:
            chosen = np.asarray(record["selected"], dtype=np.int64)
            available[record["available"]] += 1
            selected.append(chosen)
            returned.append(np.isin(chosen, record["returned"]))
            applied.append(np.asarray(record["applied"], dtype=np.float64))
        return cls(n_clients, available, tuple(selected), tuple(returned), tuple(applied))

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self.selected)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rounds in which each client was selected, v, shape (N,)."""
        return np.bincount(_joined(self.selected, np.int64), minlength=self.n_clients)

    @property
    def returns(self) -> NDArray[np.int64]:
        """Number of updates that arrived from each client, shape (N,)."""
        arrived = _joined(self.selected, np.int64)[_joined(self.returned, np.bool_)]
        return np.bincount(arrived, minlength=self.n_clients)

    @property
    def total_weights(self) -> NDArray[np.float64]:
        """Sum over rounds of the weights applied to each client's updates, shape (N,)."""
        total = np.zeros(self.n_clients)
        np.add.at(total, _joined(self.selected, np.int64), _joined(self.applied, np.float64))
        return total

    def participation(self) -> NDArray[np.bool_]:
        """Mask of the updates that arrived, shape (T, N), as `solvers.participation.weight_error` reads it."""
        matrix = np.zeros((self.rounds, self.n_clients), dtype=bool)
        for row, chosen, back in zip(matrix, self.selected, self.returned, strict=True):
            row[chosen[back]] = True
        return matrix


def _joined(parts: tuple[NDArray[Any], ...], kind: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)
