"""Pictures of the 3DG and of its distances, as Matplotlib figures that touch no global state."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.checks import choice, square_symmetric
from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

_INK = "#222222"
_PAPER = "white"
_PLAIN = "#7c93b8"


def draw(
    graph: nx.Graph,
    selected: Iterable[Hashable] = (),
    *,
    labels: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    positions: Mapping[Hashable, Sequence[float]] | None = None,
    edges_per_client: int = 4,
    names: bool | None = None,
    title: str | None = None,
    seed: int = 0,
) -> Figure:
    """Draw the 3DG: a pie of its label mix for every client, a ring around the selected ones.

    Parameters
    ----------
    graph
        From `dependency_graph`. Edges are read from ``similarity``.
    selected
        Nodes to mark. The others are paled.
    labels
        Label mix of each client in node order, shape (N, C), counts or shares. Default: each node's
        ``labels`` attribute; without either, all clients have one colour.
    label_names
        C names for the legend; default 0 … C−1.
    positions
        Where each node goes, as (x, y); default a spring layout of the strongest edges, pulled apart
        until no two pies overlap.
    edges_per_client
        Draw only each client's so many most similar neighbours: at 200 clients a full 3DG has thousands of
        edges and looks like felt. The legend says how many of how many are drawn.
    names
        Whether to write the nodes' names; default up to 60 clients.
    title
        Title above the picture; default says how many clients, edges and selected ones there are.
    seed
        Of the layout; the same graph and seed give the same picture.

    Returns
    -------
    matplotlib.figure.Figure
        Not known to pyplot; ``figure.savefig("graph.png")`` writes it.

    Raises
    ------
    GraphError
        If the graph is empty, a selected node or position is not in it, or labels do not fit its nodes.

    Notes
    -----
    After FedGS (AAAI 2023), Fig. 3.
    """
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, Patch, Wedge
    from matplotlib.patheffects import withStroke

    nodes = list(graph)
    if not nodes:
        raise GraphError("the graph is empty; there is nothing to draw.")
    chosen = _chosen(selected, nodes)
    mix = _mix(graph, labels)
    if label_names is not None and (mix is None or len(label_names) != mix.shape[1]):
        count = 0 if mix is None else mix.shape[1]
        raise GraphError(f"label_names holds {len(label_names)} names for {count} labels; they must agree.")
    edges = _strongest(graph, edges_per_client)
    radius = 0.36 / math.sqrt(len(nodes) + 3)
    place = _layout(graph, edges, radius, seed) if positions is None else _placed(positions, nodes)

    side = 6.0 + 3.0 * min(1.0, len(nodes) / 200)
    figure = Figure(figsize=(side + 1.2, side), layout="constrained", facecolor=_PAPER)
    axes: Any = figure.subplots()
    if edges:
        index = {node: i for i, node in enumerate(nodes)}
        ends = np.array([(index[u], index[v]) for u, v, _ in edges])
        strength = np.array([value for _, _, value in edges])
        span = float(np.ptp(strength))
        share = (strength - strength.min()) / span if span > 0 else np.ones(len(strength))
        colours = np.tile([0.30, 0.33, 0.38, 0.0], (len(edges), 1))
        colours[:, 3] = (0.32 if len(nodes) <= 60 else 0.18) + 0.37 * share
        width = (1.6 if len(nodes) <= 60 else 0.8) * (0.5 + 0.5 * share)
        axes.add_collection(LineCollection(place[ends], colors=colours, linewidths=width, zorder=1))

    palette = _palette(0 if mix is None else mix.shape[1])
    slices, fills = [], []
    for i, node in enumerate(nodes):
        # Selected clients are larger: in print a ring alone is lost among 200.
        size = radius * (1.18 if node in chosen else 0.92)
        pale = 1.0 if node in chosen or not chosen else 0.55
        shares = np.ones(1) if mix is None else mix[i]
        start = 90.0
        for label in np.flatnonzero(shares):
            stop = start - 360.0 * float(shares[label])
            slices.append(Wedge(place[i], size, stop, start))
            colour = _PLAIN if mix is None else palette[label]
            fills.append(_towards_white(colour, pale))
            start = stop
    axes.add_collection(PatchCollection(slices, facecolors=fills, linewidths=0, zorder=2))
    rims = [Circle(place[i], radius * 0.92) for i, node in enumerate(nodes) if node not in chosen]
    axes.add_collection(PatchCollection(rims, facecolors="none", edgecolors="#999999", linewidths=0.6, zorder=3))
    rings = [Circle(place[i], radius * 1.18) for i, node in enumerate(nodes) if node in chosen]
    axes.add_collection(
        PatchCollection(
            rings, facecolors="none", edgecolors=_INK, linewidths=3.0 if len(nodes) <= 60 else 2.0, zorder=4
        )
    )
    if names if names is not None else len(nodes) <= 60:
        halo = [withStroke(linewidth=2.4, foreground=_PAPER)]
        for i, node in enumerate(nodes):
            weight = "bold" if node in chosen else "normal"
            size = 10 if len(nodes) <= 30 else 8
            axes.text(
                *place[i], str(node), ha="center", va="center", fontsize=size, fontweight=weight,
                color=_INK, zorder=5, path_effects=halo,
            )  # fmt: skip
    low, high = place.min(axis=0) - 1.6 * radius, place.max(axis=0) + 1.6 * radius
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    if title is None:
        title = f"{len(nodes)} clients, {graph.number_of_edges()} edges"
        title += f", {len(chosen)} selected" if chosen else ""
    axes.set_title(title, color=_INK, fontsize=13)
    if mix is not None and mix.shape[1] <= 20:
        texts = label_names or [str(label) for label in range(mix.shape[1])]
        axes.legend(
            handles=[Patch(color=colour, label=text) for colour, text in zip(palette, texts, strict=True)],
            title="label", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
        )  # fmt: skip
    if len(edges) < graph.number_of_edges():
        axes.annotate(
            f"edges drawn: each client's {edges_per_client} strongest ({len(edges)})",
            (0.5, 0.0), xycoords="axes fraction", ha="center", va="top", fontsize=9, color="#666666",
        )  # fmt: skip
    return figure


def draw_distances(
    distances: ArrayLike,
    selected: Iterable[int] = (),
    *,
    order: Literal["cluster", "given"] | Sequence[int] = "cluster",
    title: str = "shortest-path distances between clients",
) -> Figure:
    """Draw a distance matrix as a heat map, similar clients beside each other.

    Parameters
    ----------
    distances
        N×N, symmetric, from `distances`.
    selected
        Indices of clients to mark on both axes.
    order
        ``"cluster"`` sorts by average-linkage clustering, so that groups show as blocks; ``"given"`` keeps
        the order; or a permutation of 0 … N−1.
    title
        Title above the picture.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    GraphError
        If the matrix is not square, symmetric and finite, `order` is no permutation, or a selected index is
        out of range.
    """
    from matplotlib.figure import Figure

    matrix = square_symmetric("distances", distances, GraphError).copy()
    np.fill_diagonal(matrix, 0.0)
    size = len(matrix)
    chosen = _chosen(selected, list(range(size)))
    arrangement = _arrangement(matrix, order)
    figure = Figure(figsize=(7.4, 6.4), layout="constrained", facecolor=_PAPER)
    axes: Any = figure.subplots()
    image = axes.imshow(matrix[np.ix_(arrangement, arrangement)], cmap="viridis", vmin=0.0, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="distance", shrink=0.85)
    if size <= 40:
        ticks, texts = np.arange(size), [str(i) for i in arrangement]
        axes.set_xticks(ticks, texts, fontsize=8, rotation=90)
        axes.set_yticks(ticks, texts, fontsize=8)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set(xlabel="client", ylabel="client")
    marks = np.flatnonzero([client in chosen for client in arrangement])
    if len(marks):
        # Just outside the map, where they hide no entry.
        outside = -0.5 - 0.012 * size
        style = {"color": "#d1495b", "s": 26, "clip_on": False, "linewidths": 0}
        axes.scatter(marks, np.full(len(marks), outside), marker="v", **style)
        axes.scatter(np.full(len(marks), size - 0.5 + 0.012 * size), marks, marker="<", **style)
        axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
        title += f" (▾ {len(marks)} selected)"
    axes.set_title(title, color=_INK, fontsize=13, pad=14)
    return figure


def _chosen(selected: Iterable[Hashable], nodes: Sequence[Hashable]) -> set[Hashable]:
    chosen = set(selected)
    strangers = chosen - set(nodes)
    if strangers:
        raise GraphError(
            f"selected names {sorted(map(repr, strangers))[0]}, which is none of the {len(nodes)} clients."
        )
    return chosen


def _mix(graph: nx.Graph, labels: ArrayLike | None) -> NDArray[np.float64] | None:
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


def _strongest(graph: nx.Graph, per_client: int) -> list[tuple[Hashable, Hashable, float]]:
    size = len(graph)
    index = {node: i for i, node in enumerate(graph)}
    kept: dict[frozenset[Hashable], tuple[Hashable, Hashable, float]] = {}
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


def _placed(positions: Mapping[Hashable, Sequence[float]], nodes: Sequence[Hashable]) -> NDArray[np.float64]:
    missing = [node for node in nodes if node not in positions]
    if missing:
        raise GraphError(f"positions has no place for client {missing[0]!r}.")
    return np.array([positions[node] for node in nodes], dtype=np.float64)


def _layout(
    graph: nx.Graph, edges: list[tuple[Hashable, Hashable, float]], radius: float, seed: int
) -> NDArray[np.float64]:
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
    return _apart(place, 2.5 * radius)


def _apart(place: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
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


def _palette(count: int) -> list[tuple[float, ...]]:
    from matplotlib import colormaps

    if count <= 20:
        colours = colormaps["tab10" if count <= 10 else "tab20"]
        return [tuple(colours(i)[:3]) for i in range(count)]
    return [tuple(colormaps["hsv"](i / count)[:3]) for i in range(count)]


def _towards_white(colour: Any, keep: float) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(1.0 - keep * (1.0 - channel) for channel in to_rgb(colour))


def _arrangement(matrix: NDArray[np.float64], order: str | Sequence[int]) -> NDArray[np.intp]:
    size = len(matrix)
    if isinstance(order, str):
        choice("order", order, ("cluster", "given"))
        if order == "given" or size < 3:
            return np.arange(size)
        from scipy.cluster.hierarchy import leaves_list, linkage
        from scipy.spatial.distance import squareform

        condensed = squareform(matrix, checks=False)
        # Optimal leaf ordering is cubic; past 300 clients plain leaves look the same.
        return np.asarray(leaves_list(linkage(condensed, "average", optimal_ordering=size <= 300)))
    arrangement = np.asarray(order)
    if arrangement.shape != (size,) or sorted(arrangement.tolist()) != list(range(size)):
        raise GraphError(f"order is not a permutation of 0 to {size - 1}.")
    return arrangement.astype(np.intp)
