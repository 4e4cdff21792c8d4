"""History of a run: clients available, selected and returned in every round, with which weights; losses, accuracies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.engine import Round


@dataclass(frozen=True, eq=False)
class History:
    """The rounds of a run.

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
    loss, accuracy : (T,) ndarray of float
        Of the global model on the server's test set after each round; NaN where it was not evaluated.
    """

    n_clients: int
    available: NDArray[np.int64]
    selected: tuple[NDArray[np.int64], ...]
    returned: tuple[NDArray[np.bool_], ...]
    applied: tuple[NDArray[np.float64], ...]
    loss: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    accuracy: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def collect(cls, rounds: Iterable[Round], n_clients: int) -> History:
        """Collect rounds as they are played, by `simulate` or by the training loop."""
        each = ((r.available, r.selection.clients, r.returned, r.applied, r.loss, r.accuracy) for r in rounds)
        return cls._of(each, n_clients)

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], n_clients: int) -> History:
        """Read the records of a run folder (`fedselect.experiments.read_records`)."""

        def parts(record: Mapping[str, Any]) -> tuple[Any, ...]:
            chosen = np.asarray(record["selected"], dtype=np.int64)
            applied = np.asarray(record["applied"], dtype=np.float64)
            back = np.isin(chosen, record["returned"])
            return record["available"], chosen, back, applied, record.get("loss"), record.get("accuracy")

        return cls._of(map(parts, records), n_clients)

    @classmethod
    def _of(cls, rounds: Iterable[tuple[Any, ...]], n_clients: int) -> History:
        """Count who was available (a mask or ids) in each round; keep the rest."""
        available, kept = np.zeros(n_clients, dtype=np.int64), []
        for there, *rest in rounds:
            available[there] += 1
            kept.append(rest)
        selected, returned, applied, *scores = zip(*kept, strict=True) if kept else ((),) * 5
        loss, accuracy = (np.array([np.nan if x is None else x for x in each], dtype=np.float64) for each in scores)
        return cls(n_clients, available, selected, returned, applied, loss, accuracy)

    def __len__(self) -> int:
        return len(self.selected)

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self.selected)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rounds in which each client was selected, v, shape (N,)."""
        return np.bincount(_joined(self.selected, np.int64), minlength=self.n_clients)

    @property
    def selections(self) -> NDArray[np.int64]:
        """The same as `counts`."""
        return self.counts

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
