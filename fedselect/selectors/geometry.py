"""Geometries of FedGS's distances: a matrix, points, kinds; a matrix that is learned. Each states a round's problem."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice
from fedselect.rounds.scenario import Scenario
from graphs import (
    dependency_graph,
    distances,
    edge_scores,
    edge_weights,
    similarity,
)
from graphs.threedg import PresetName
from solvers import InvalidProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.formats import read_points
from solvers.dispersion.kinds import equal_rows

#: Kinds that a matrix between them has room for.
_MOST_KINDS = 5_000

Metric = Literal["hellinger", "euclidean"]
Scale = Literal["pairs", "paper", "turns"]


class ClientDistances:
    """Clients and their distances, which state a round's problem over those available."""

    problem: ClassVar[Any]  #: the type of the problems

    @property
    def _data(self) -> tuple[NDArray[Any], ...]:
        """First arguments of the problem's ``fedgs``, the last with an entry for each client."""
        raise NotImplementedError

    @property
    def n_clients(self) -> int:
        """Number of clients N."""
        return len(self._data[-1])

    def state(
        self,
        counts: NDArray[np.int64],
        available: NDArray[np.bool_],
        size: int,
        alpha: float,
        scale: Scale,
        **constraints: Any,
    ) -> Any:
        """Return the problem of one round over the available clients; see `DispersionProblem.fedgs`."""
        return self.problem.fedgs(*self._data, counts, available, size, alpha, scale, **constraints)


@dataclass(frozen=True, eq=False)
class Matrix(ClientDistances):
    """Distances between all clients, (N, N)."""

    distances: NDArray[np.float64]
    problem: ClassVar[Any] = DispersionProblem

    @property
    def _data(self) -> tuple[NDArray[Any], ...]:
        return (self.distances,)


@dataclass(frozen=True, eq=False)
class Points(ClientDistances):
    """A point for each client, (N, d): label distributions or embeddings; no matrix, in O(N·d).

    Rounds are stated between ``roots``, at Euclidean distances: the points, or the roots that Hellinger's are between.
    """

    points: NDArray[np.float64]
    metric: Metric = "euclidean"
    problem: ClassVar[Any] = PointDispersionProblem

    @cached_property
    def roots(self) -> NDArray[np.float64]:
        """The points in the Euclidean space of their distances, (N, d)."""
        points = np.asarray(self.points, dtype=np.float64)
        try:
            checked = PointDispersionProblem(points, np.zeros(len(points)), size=1, metric=self.metric)
        except InvalidProblem as error:
            raise DataError(f"FedGS cannot select between these points: {error}") from error
        roots = np.sqrt(checked.points / 2) if self.metric == "hellinger" else checked.points
        roots.setflags(write=False)
        return roots

    @property
    def _data(self) -> tuple[NDArray[Any], ...]:
        return (self.roots,)


@dataclass(frozen=True, eq=False)
class Kinds(ClientDistances):
    """Distances between kinds of clients, (k, k), and the kind of each client, (N,)."""

    distances: NDArray[np.float64]
    kinds: NDArray[np.int64]
    problem: ClassVar[Any] = KindDispersionProblem

    @property
    def _data(self) -> tuple[NDArray[Any], ...]:
        return self.distances, self.kinds

    @classmethod
    def of_rows(
        cls,
        rows: NDArray[np.float64],
        metric: Metric | None = None,
        *,
        preset: PresetName = "reference",
        epsilon: float | None = None,
    ) -> Kinds:
        """Find the kinds: clients with equal rows are of one kind.

        Without a metric the distances are the 3DG's, and the very ones that the graph over all clients gives: two
        clients of each kind stand for it, as a shortest path visits no kind twice but between clients of one kind.
        """
        first, kinds = equal_rows(rows)
        if first.size > _MOST_KINDS:
            raise DataError(
                f"{first.size} of {len(rows)} clients differ from each other, and kinds are for up to {_MOST_KINDS}; "
                "points need no matrix"
            )
        if metric is None:
            number = np.where(np.bincount(kinds) > 1, 2, 1)
            h = distances(dependency_graph(similarity(rows[np.repeat(first, number)]), preset=preset, epsilon=epsilon))
            last = np.cumsum(number) - 1
            return cls(np.ascontiguousarray(h[np.ix_(last - number + 1, last)]), kinds)
        problem = PointDispersionProblem(rows[first], np.zeros(first.size), size=1, metric=metric)
        return cls(problem.geometry.distances(np.arange(first.size)), kinds)


#: Options of ``fedgs`` that a geometry has no use for; kinds at a metric have none for the graph's either.
_UNUSED = {
    "graph": ("metric", "points_file"),
    "points": ("noise", "fraction_bits", "warmup", "distances_file", "graph", "epsilon"),
    "kinds": ("noise", "fraction_bits", "warmup", "distances_file"),
}


def check_geometry(geometry: str, given: Mapping[str, Any]) -> None:
    """Raise `ConfigError` where the geometry is unknown, or has no use for one of the options of ``fedgs`` given."""
    check_choice("selector 'fedgs': geometry", geometry, "graph", "points", "kinds")
    with_metric = geometry == "kinds" and "metric" in given
    unused = (*_UNUSED[geometry], *(("graph", "epsilon") if with_metric else ()))
    if found := [name for name in unused if name in given]:
        where = f"geometry {geometry!r}{' with a metric' if with_metric else ''}"
        raise ConfigError(f"selector 'fedgs': {where} has no use for {found[0]}; leave that out")


def check_unused(selector: str, file: str, unused: Sequence[str]) -> None:
    """Raise `ConfigError` for the first of the options that have no use beside a file of distances or points."""
    if unused:
        raise ConfigError(f"selector {selector!r}: beside {file} there is no use for {unused[0]}; leave that out")


def without_matrix(
    scenario: Scenario,
    geometry: str,
    metric: Metric | None,
    features: str,
    points_file: str | None,
    graph: PresetName,
    epsilon: float | None,
) -> Points | Kinds:
    """Return the geometry ``"points"`` or ``"kinds"`` of a scenario's clients, by the options of selector ``fedgs``."""
    if points_file is not None:
        check_unused("fedgs", "points_file", ["features"] if features != "labels" else [])
        try:
            rows = read_points(points_file)
        except (OSError, InvalidProblem) as error:
            raise DataError(f"cannot read points from {points_file}: {error}") from error
        if len(rows) != scenario.n_clients:
            raise DataError(f"{points_file} holds {len(rows)} points; there are {scenario.n_clients} clients")
    elif features in ("labels", "parameters"):
        rows = oracle_features(scenario, features)
    else:
        raise ConfigError(
            f"selector 'fedgs': {geometry} are made of 'labels' or 'parameters' features, or of a points_file; "
            f"got {features!r}"
        )
    if geometry == "kinds":
        return Kinds.of_rows(rows, metric, preset=graph, epsilon=epsilon)
    if metric is None:
        metric = "hellinger" if points_file is None and features == "labels" else "euclidean"
    return Points(np.ascontiguousarray(rows, dtype=np.float64), metric)


def oracle_features(scenario: Scenario, features: str) -> NDArray[np.float64]:
    """Return features that the server does not know: label distributions, or generating parameters."""
    if features != "parameters":
        return scenario.federation.label_distributions
    if scenario.federation.parameters is None:
        raise ConfigError(f"selector 'fedgs': {scenario.federation.name} has no generating parameters; use labels")
    return scenario.federation.parameters


class LearnedGraph:
    """A 3DG over N clients, from one feature vector of each that arrives in training.

    A client without a feature has no edge: it is as far from all others as can be, at distance 1. A client's first
    feature counts: the paper builds its graph once.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    kind : {"functional", "update"}
        How features are compared: FedGS Eq. 12 or 11; see `graphs.similarity`.
    preset : {"reference", "paper"}
        How similarities become edges; see `graphs.dependency_graph`.
    epsilon : float, optional
        Least similarity of an edge; the preset's by default.
    """

    def __init__(
        self,
        n_clients: int,
        kind: Literal["functional", "update"],
        *,
        preset: PresetName = "reference",
        epsilon: float | None = None,
    ) -> None:
        self.kind, self.preset, self.epsilon = kind, preset, epsilon
        self.known = np.zeros(n_clients, dtype=np.bool_)
        self._features: NDArray[np.float32] | None = None
        self._weights = self._weighed()

    @property
    def distances(self) -> NDArray[np.float64]:
        """Present distances H, N x N."""
        return distances(self._weights)

    @property
    def edges(self) -> NDArray[np.bool_]:
        """Present edges, N x N."""
        return np.isfinite(self._weights) & ~np.eye(self.known.size, dtype=np.bool_)

    def wants(self, client: int) -> bool:
        """Whether a feature of this client would be used."""
        return not self.known[client]

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
        self._weights = self._weighed()
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return which clients' features are known, and these."""
        return {"known": self.known.copy(), "features": self._features}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.known = np.array(state["known"], dtype=np.bool_)
        features = state["features"]
        self._features = None if features is None else np.array(features, dtype=np.float32)
        self._weights = self._weighed()

    def _weighed(self) -> NDArray[np.float64]:
        """Lengths of the edges, inf where there is none."""
        present = np.flatnonzero(self.known)
        if present.size < 2 or self._features is None:
            return np.where(np.eye(self.known.size, dtype=np.bool_), 0.0, np.inf)
        found = np.zeros((self.known.size, self.known.size))
        found[np.ix_(present, present)] = similarity(self._features[present], self.kind)
        return edge_weights(found, self.preset, self.epsilon)


def adjacency(similarities: NDArray[np.float64], preset: PresetName, epsilon: float | None = None) -> NDArray[np.bool_]:
    """Mask of the edges of `graphs.dependency_graph`, N x N."""
    edges = np.isfinite(edge_weights(similarities, preset, epsilon))
    np.fill_diagonal(edges, False)
    return edges


def described(edges: NDArray[np.bool_], truth: NDArray[np.bool_] | None) -> dict[str, Any]:
    """Describe a graph for a run's record: its edges and, where there is an oracle, how many of them are right."""
    scores = None if truth is None else edge_scores(edges, truth)
    return {
        "edges": encode_edges(edges),
        "precision": None if scores is None else scores.precision,
        "recall": None if scores is None else scores.recall,
        "f1": None if scores is None else scores.f1,
    }


def encode_edges(edges: NDArray[np.bool_]) -> str:
    """Encode the upper triangle of a symmetric N x N matrix of bool as text: packed bits in base 64."""
    return base64.b64encode(np.packbits(edges[np.triu_indices(len(edges), 1)]).tobytes()).decode()


def decode_edges(text: str, n_clients: int) -> NDArray[np.bool_]:
    """Return the (N, N) matrix that `encode_edges` encoded."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8))
    edges = np.zeros((n_clients, n_clients), dtype=np.bool_)
    upper = np.triu_indices(n_clients, 1)
    edges[upper] = bits[: upper[0].size].astype(np.bool_)
    return edges | edges.T
