"""What a picture says of a client: chosen or not, and the colours of its labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["INK", "PAPER", "PLAIN", "chosen_among", "label_mix", "palette", "towards_white"]

INK = "#222222"
PAPER = "white"
PLAIN = "#7c93b8"


def chosen_among(selected: Iterable[Hashable], nodes: Sequence[Hashable]) -> set[Hashable]:
    """The selected nodes as a set, or a sentence where one is not in the picture."""
    chosen = set(selected)
    strangers = chosen - set(nodes)
    if strangers:
        raise GraphError(
            f"selected names {sorted(map(repr, strangers))[0]}, which is none of the {len(nodes)} clients."
        )
    return chosen


def label_mix(graph: nx.Graph, labels: ArrayLike | None) -> NDArray[np.float64] | None:
    """Label shares by row, from the argument or the nodes; an empty row stays empty."""
    if labels is None:
        rows = [attributes.get("labels") for _, attributes in graph.nodes(data=True)]
        if any(row is None for row in rows):
            return None
        labels = rows
    try:
        mix = np.asarray(labels, dtype=np.float64)
    except ValueError:
        mix = np.zeros(0)
    if mix.ndim != 2 or len(mix) != len(graph) or not np.isfinite(mix).all() or (mix < 0).any():
        raise GraphError(
            f"labels have shape {mix.shape}; accepted is a row of shares of 0 or more for each of the "
            f"{len(graph)} clients."
        )
    return mix / np.maximum(mix.sum(axis=1, keepdims=True), 1e-300)


def palette(count: int) -> list[tuple[float, ...]]:
    """So many colours that stay apart."""
    from matplotlib import colormaps

    if count <= 20:
        colours = colormaps["tab10" if count <= 10 else "tab20"]
        return [tuple(colours(i)[:3]) for i in range(count)]
    return [tuple(colormaps["hsv"](i / count)[:3]) for i in range(count)]


def towards_white(colour: Any, keep: float) -> tuple[float, ...]:
    """A colour paled, to the share ``keep`` of its distance from white."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - keep * (1.0 - channel) for channel in to_rgb(colour))
