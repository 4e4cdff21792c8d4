"""The 3DG as a server comes to know it in training: what clients send is compared, and distances follow."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from graphs import GraphWarning, IncrementalDistances, edge_scores, edge_weights, similarity
from graphs.threedg import PresetName

__all__ = ["LearnedGraph", "decode_edges", "encode_edges"]

#: Above this share of the clients, new features are cheaper to compare and close all at once than one by one.
_AT_ONCE = 0.05


class LearnedGraph:
    """A 3DG over N clients, from one feature vector of each that arrives in training.

    A client without a feature has no edge: it is as far from all others as can be, at distance 1. The first features
    of many clients make the graph afresh, with the numbers that `graphs.distances` has of the same features; those of
    a few revise it client by client (`graphs.IncrementalDistances`).

    Parameters
    ----------
    clients : int
        Number of clients N.
    kind : {"functional", "update"}
        How features are compared: FedGS Eq. 12 or 11; see `graphs.similarity`.
    preset : {"reference", "paper"}
        How similarities become edges; see `graphs.dependency_graph`.
    epsilon : float, optional
        Least similarity of an edge; the preset's by default.
    refresh : bool
        Whether a client's later features replace its first one. The paper builds its graph once.
    """

    def __init__(
        self,
        clients: int,
        kind: Literal["functional", "update"],
        *,
        preset: PresetName = "reference",
        epsilon: float | None = None,
        refresh: bool = False,
    ) -> None:
        self.kind, self.preset, self.epsilon, self.refresh = kind, preset, epsilon, refresh
        self.known = np.zeros(clients, dtype=np.bool_)
        self._features: NDArray[np.float32] | None = None
        self._paths = self._closed(np.zeros((clients, clients)))

    @property
    def distances(self) -> NDArray[np.float64]:
        """Present distances H, N x N (a copy)."""
        return self._paths.distances()

    @property
    def edges(self) -> NDArray[np.bool_]:
        """Present edges, N x N."""
        if self.known.sum() < 2:
            return np.zeros((self.known.size, self.known.size), dtype=np.bool_)
        return adjacency(self._paths.similarity, self.preset, self.epsilon)

    def wants(self, client: int) -> bool:
        """Whether a feature of this client would be used."""
        return self.refresh or not self.known[client]

    def observe(self, features: Mapping[int, NDArray[np.float32]]) -> bool:
        """Take in the features of some clients, vectors of one length; return whether the graph has changed."""
        clients = [client for client in sorted(features) if self.wants(client)]
        if not clients:
            return False
        if self._features is None:
            self._features = np.zeros((self.known.size, np.size(features[clients[0]])), dtype=np.float32)
        for client in clients:
            if np.shape(features[client]) != self._features.shape[1:]:
                raise ConfigError(
                    f"the feature of client {client} has shape {np.shape(features[client])}; those before have "
                    f"{self._features.shape[1:]}"
                )
            self._features[client] = features[client]
        self.known[clients] = True
        present = np.flatnonzero(self.known)
        found = self._paths.similarity
        found[np.ix_(present, present)] = similarity(self._features[present], self.kind)
        if len(clients) > _AT_ONCE * self.known.size:
            self._paths = self._closed(found)
        else:
            for client in clients:
                self._paths.update(client, found[client])
        return True

    def state_dict(self) -> dict[str, Any]:
        """Everything the next graph depends on: features, similarities and path lengths, to the bit."""
        return {"known": self.known.copy(), "features": self._features, "paths": self._paths.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.known = np.array(state["known"], dtype=np.bool_)
        features = state["features"]
        self._features = None if features is None else np.array(features, dtype=np.float32)
        self._paths.load_state_dict(state["paths"])

    def _closed(self, similarities: NDArray[np.float64]) -> IncrementalDistances:
        with warnings.catch_warnings():
            if self.known.sum() < 2:  # that a graph of which nothing is known has no edge is no news
                warnings.simplefilter("ignore", GraphWarning)
            return IncrementalDistances(similarities, self.preset, self.epsilon)


def adjacency(similarities: NDArray[np.float64], preset: PresetName, epsilon: float | None = None) -> NDArray[np.bool_]:
    """Where `graphs.dependency_graph` has edges, N x N."""
    edges = np.isfinite(edge_weights(similarities, preset, epsilon))
    np.fill_diagonal(edges, False)
    return edges


def described(edges: NDArray[np.bool_], truth: NDArray[np.bool_] | None) -> dict[str, Any]:
    """What a run's record says of a graph: its edges and, where there is an oracle, how many of them are right."""
    scores = None if truth is None else edge_scores(edges, truth)
    return {
        "edges": encode_edges(edges),
        "precision": None if scores is None else scores.precision,
        "recall": None if scores is None else scores.recall,
        "f1": None if scores is None else scores.f1,
    }


def encode_edges(edges: NDArray[np.bool_]) -> str:
    """The upper triangle of a symmetric N x N matrix of bool as text: packed bits in base 64."""
    return base64.b64encode(np.packbits(edges[np.triu_indices(len(edges), 1)]).tobytes()).decode()


def decode_edges(text: str, clients: int) -> NDArray[np.bool_]:
    """The (N, N) matrix that `encode_edges` was given."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8))
    edges = np.zeros((clients, clients), dtype=np.bool_)
    upper = np.triu_indices(clients, 1)
    edges[upper] = bits[: upper[0].size].astype(np.bool_)
    return edges | edges.T
