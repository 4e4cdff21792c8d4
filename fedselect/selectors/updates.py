"""Latest updates of the clients that were heard, and how far these are from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundFeedback


def returned_updates(feedback: RoundFeedback, name: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Gather who returned in a round, (m,), and their updates, (m, d), for the selector of this name.

    Raises
    ------
    ConfigError
        When the engine has none of a client that returned, or one that is not finite: engines count those as failed.
    """
    clients = np.flatnonzero(feedback.outcomes == Outcome.RETURNED)
    missing = [client for client in clients.tolist() if client not in feedback.updates]
    if missing:
        raise ConfigError(
            f"selector {name!r} compares clients by their updates, and the engine has none of client {missing[0]}; "
            "a simulation without training has no updates"
        )
    if not clients.size:
        return clients, np.empty((0, 0), dtype=np.float32)
    rows = np.stack([np.asarray(feedback.updates[client], dtype=np.float32).ravel() for client in clients.tolist()])
    if (wrong := np.flatnonzero(~np.isfinite(rows).all(axis=1))).size:
        raise ConfigError(
            f"selector {name!r} compares clients by their updates, and that of client {clients[wrong[0]]} in round "
            f"{feedback.round} has numbers that are not finite (is it one that failed?)"
        )
    return clients, rows


class UpdateStore:
    """Latest update of every client and the inner products of all, N·d and N·N numbers of memory and of a checkpoint.

    A round changes the rows of those that returned: m·N·d multiplications.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    name : str
        Registered name of the selector that keeps them, for messages.
    """

    def __init__(self, n_clients: int, name: str) -> None:
        self.name = name
        self.known = np.zeros(n_clients, dtype=np.bool_)
        self._vectors = np.zeros((0, 0), dtype=np.float32)
        self._products = np.zeros((n_clients, n_clients), dtype=np.float32)

    def observe(self, feedback: RoundFeedback) -> None:
        """Keep the updates that returned in a round; raise `ConfigError` as `returned_updates` does."""
        clients, rows = returned_updates(feedback, self.name)
        if not clients.size:
            return
        if not self._vectors.size:
            self._vectors = np.zeros((self.known.size, rows.shape[1]), dtype=np.float32)
        if rows.shape[1] != self._vectors.shape[1]:
            raise ConfigError(
                f"updates have {rows.shape[1]} numbers in round {feedback.round}; those before have "
                f"{self._vectors.shape[1]}"
            )
        self._vectors[clients] = rows
        self.known[clients] = True
        products = rows @ self._vectors.T
        self._products[clients] = products
        self._products[:, clients] = products.T

    def distances(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Euclidean distances of the updates of some clients to those of others, (len(rows), len(columns))."""
        squares = self._products.diagonal().astype(np.float64)
        products = self._products[np.ix_(rows, columns)].astype(np.float64)
        found = np.sqrt(np.maximum(squares[rows][:, None] + squares[columns] - 2.0 * products, 0.0))
        found[rows[:, None] == columns] = 0.0
        return found

    def angles(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Angles between the updates of some clients, in [0, π].

        A client that was not heard, or is at rest, is at π/2 from those that are not, and at 0 from others like it.
        """
        norms = np.sqrt(self._products.diagonal()[clients].astype(np.float64))
        scale = np.where(norms > 0, 1.0 / np.maximum(norms, 1e-300), 0.0)
        cosines = self._products[np.ix_(clients, clients)] * scale[:, None] * scale
        cosines[(norms == 0)[:, None] & (norms == 0)] = 1.0  # nothing tells them apart
        np.fill_diagonal(cosines, 1.0)
        return np.arccos(np.clip(cosines, -1.0, 1.0))

    def state_dict(self) -> dict[str, Any]:
        """Return which clients were heard, their updates and the inner products."""
        return {"known": self.known.copy(), "vectors": self._vectors.copy(), "products": self._products.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.known = np.array(state["known"], dtype=np.bool_)
        self._vectors = np.array(state["vectors"], dtype=np.float32)
        self._products = np.array(state["products"], dtype=np.float32)
