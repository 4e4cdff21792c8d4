"""What FedGS's distances are stated by: a matrix, points, or kinds. The selection problem follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.rounds.scenario import Scenario
from graphs import dependency_graph, distances, similarity
from graphs.threedg import PresetName
from solvers import InvalidProblem, Problem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.formats import read_points
from solvers.dispersion.kinds import equal_rows

__all__ = ["Geometry", "Kinds", "Matrix", "Metric", "Points", "oracle_features", "without_matrix"]

#: Kinds that a matrix between them has room for.
_MOST_KINDS = 5_000

Metric = Literal["hellinger", "euclidean"]
Scale = Literal["pairs", "paper"]


class Geometry(Protocol):
    """States a round's problem over the clients who are available."""

    problem: ClassVar[type[Problem]]  #: the type of the problems

    @property
    def clients(self) -> int:
        """Number of clients N."""
        ...

    def state(
        self, counts: NDArray[np.int64], available: NDArray[np.bool_], size: int, alpha: float, scale: Scale
    ) -> Any:
        """The problem of one round; see `DispersionProblem.fedgs`."""
        ...


@dataclass(frozen=True, eq=False)
class Matrix:
    """Distances between all clients, (N, N)."""

    distances: NDArray[np.float64]
    problem: ClassVar[type[Problem]] = DispersionProblem

    @property
    def clients(self) -> int:
        """Number of clients N."""
        return len(self.distances)

    def state(
        self, counts: NDArray[np.int64], available: NDArray[np.bool_], size: int, alpha: float, scale: Scale
    ) -> DispersionProblem:
        """The problem of one round, with the distances between the available clients."""
        return DispersionProblem.fedgs(self.distances, counts, available, size, alpha, scale)


@dataclass(frozen=True, eq=False)
class Points:
    """A point for each client, (N, d): label distributions or embeddings; no matrix, in O(N·d).

    Rounds are stated between ``roots``, at Euclidean distances: the points, or what makes their Hellinger distances.
    """

    points: NDArray[np.float64]
    metric: Metric = "euclidean"
    problem: ClassVar[type[Problem]] = PointDispersionProblem

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
    def clients(self) -> int:
        """Number of clients N."""
        return len(self.points)

    def state(
        self, counts: NDArray[np.int64], available: NDArray[np.bool_], size: int, alpha: float, scale: Scale
    ) -> PointDispersionProblem:
        """The problem of one round, between the points of the available clients."""
        return PointDispersionProblem.fedgs(self.roots, counts, available, size, alpha, scale)


@dataclass(frozen=True, eq=False)
class Kinds:
    """Distances between kinds of clients, (k, k), and the kind of each client, (N,)."""

    distances: NDArray[np.float64]
    kinds: NDArray[np.int64]
    problem: ClassVar[type[Problem]] = KindDispersionProblem

    @property
    def clients(self) -> int:
        """Number of clients N."""
        return len(self.kinds)

    def state(
        self, counts: NDArray[np.int64], available: NDArray[np.bool_], size: int, alpha: float, scale: Scale
    ) -> KindDispersionProblem:
        """The problem of one round, between the kinds of the available clients."""
        return KindDispersionProblem.fedgs(self.distances, self.kinds, counts, available, size, alpha, scale)

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


def without_matrix(
    scenario: Scenario,
    geometry: str,
    metric: Metric | None,
    features: str,
    points_file: str | None,
    graph: PresetName,
    epsilon: float | None,
) -> Points | Kinds:
    """The geometry ``"points"`` or ``"kinds"`` of a scenario's clients, as selector ``fedgs`` is asked for it."""
    if geometry not in ("points", "kinds"):
        raise ConfigError(f"selector 'fedgs': geometry must be 'graph', 'points' or 'kinds'; got {geometry!r}")
    if points_file is not None:
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
    """What the server is not told: label distributions, or what generated the clients' data."""
    if features != "parameters":
        return scenario.federation.label_distributions
    if scenario.federation.parameters is None:
        raise ConfigError(f"selector 'fedgs': {scenario.federation.name} has no generating parameters; use labels")
    return scenario.federation.parameters
