"""Pictures of the 3DG and of its distances, as Matplotlib figures that touch no global state."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure


def draw(
    graph: nx.Graph, selected: Iterable[Hashable] = (), *, labels: ArrayLike | None = None, seed: int = 0
) -> Figure:
    """Draw the 3DG with the selected clients marked.

    Parameters
    ----------
    graph
        From `dependency_graph`.
    selected
        Nodes to mark.
    labels
        Label mix of each client, shape (N, C), in node order.
    seed
        Of the layout.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import networkx as nx
    from matplotlib.figure import Figure

    chosen = set(selected)
    unknown = chosen - set(graph)
    if unknown:
        raise GraphError(f"selected names {sorted(map(repr, unknown))[:3]}, which are no nodes of the graph.")
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes: Any = figure.subplots()
    place = nx.spring_layout(graph, weight="similarity", seed=seed)
    dominant: Any = "#8da0cb" if labels is None else np.asarray(labels).argmax(axis=1)
    nx.draw_networkx_edges(graph, place, ax=axes, edge_color="#cccccc", width=0.5)
    nx.draw_networkx_nodes(
        graph,
        place,
        ax=axes,
        node_color=dominant,
        cmap="tab10",
        node_size=120,
        edgecolors=["black" if node in chosen else "white" for node in graph],
        linewidths=[2.0 if node in chosen else 0.5 for node in graph],
    )
    axes.set_axis_off()
    return figure
