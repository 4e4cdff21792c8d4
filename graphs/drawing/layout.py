"""Where the nodes of a picture go, and which edges it shows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Edge", "layout", "placed", "strongest"]

#: Two nodes and their similarity.
Edge = tuple[Hashable, Hashable, float]


def strongest(graph: nx.Graph, per_client: int) -> list[Edge]:
    """Each node's so many most similar neighbours, every edge once."""
    size = len(graph)
    index = {node: i for i, node in enumerate(graph)}
    kept: dict[frozenset[Hashable], Edge] = {}
    for node, i in index.items():
        # Among equals the next in order, going round: were it the lowest index, the first few clients
        # would collect everybody's edges.
        ranked = sorted(
            (-float(data.get("similarity", 1.0)), (index[other] - i) % size, other)
            for other, data in graph[node].items()
            if other != node
        )
        for value, _, other in ranked[: max(per_client, 0)]:
            kept.setdefault(frozenset((node, other)), (node, other, -value))
    return list(kept.values())


def placed(positions: Mapping[Hashable, Sequence[float]], nodes: Sequence[Hashable]) -> NDArray[np.float64]:
    """The caller's positions in node order."""
    missing = [node for node in nodes if node not in positions]
    if missing:
        raise GraphError(f"positions has no place for client {missing[0]!r}.")
    return np.array([positions[node] for node in nodes], dtype=np.float64)


def layout(graph: nx.Graph, edges: list[Edge], radius: float, seed: int) -> NDArray[np.float64]:
    """Spring layout of the drawn edges in about a unit square, then pulled apart."""
    import networkx as nx

    drawn = nx.Graph()
    drawn.add_nodes_from(graph)
    drawn.add_weighted_edges_from((u, v, max(value, 0.0) + 0.05) for u, v, value in edges)
    if len(drawn) == 1:
        return np.zeros((1, 2))
    # An explicit method: NetworkX changes algorithm at 500 nodes, and with it the picture's character.
    found = nx.spring_layout(drawn, k=1.6 / math.sqrt(len(drawn)), iterations=120, seed=seed, method="force")
    place = np.array([found[node] for node in graph])
    place = (place - place.min(axis=0)) / np.maximum(np.ptp(place, axis=0), 1e-9)
    # A few isolated clients would fly far off and shrink the rest: even out by rank, half way.
    ranks = place.argsort(axis=0).argsort(axis=0) / (len(place) - 1)
    place = 0.5 * place + 0.5 * ranks
    return apart(place, 2.5 * radius)


def apart(place: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Push points until no two are nearer than `gap`, or nearly so."""
    for _ in range(200):
        offset = place[:, None] - place[None]
        length = np.sqrt((offset**2).sum(axis=2))
        np.fill_diagonal(length, np.inf)
        short = np.maximum(gap - length, 0.0)
        if short.max() < 0.02 * gap:
            break
        # Points in one place have no direction to part in; their index gives them one.
        same = length < 1e-12
        if same.any():
            angle = np.arange(len(place)) * 2.399963
            turn = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            offset = np.where(same[:, :, None], turn[:, None] - turn[None], offset)
            length = np.where(same, 1.0, length)
        place = place + 0.5 * (offset / length[:, :, None] * short[:, :, None]).sum(axis=1)
    return place
