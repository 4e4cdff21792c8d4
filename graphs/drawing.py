"""Pictures of the 3DG, as Matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import GraphError, real_array

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

#: Two nodes and their similarity.
Edge = tuple[Hashable, Hashable, float]


def strongest(graph: nx.Graph, per_client: int) -> list[Edge]:
    """Return the edges to the most similar neighbours of each node, every edge once."""
    size = len(graph)
    index = {node: i for i, node in enumerate(graph)}
    kept: dict[frozenset[Hashable], Edge] = {}
    for node, i in index.items():
        # Among equals the next in order, going round: were it the lowest index, the first few clients
        # would collect the edges of all.
        ranked = sorted(
            (-float(data.get("similarity", 1.0)), (index[other] - i) % size, other)
            for other, data in graph[node].items()
            if other != node
        )
        for value, _, other in ranked[: max(per_client, 0)]:
            kept.setdefault(frozenset((node, other)), (node, other, -value))
    return list(kept.values())


def placed(positions: Mapping[Hashable, Sequence[float]], nodes: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return the caller's positions in node order."""
    missing = [node for node in nodes if node not in positions]
    if missing:
        raise GraphError(f"positions has no place for client {missing[0]!r}.")
    try:
        place = real_array([positions[node] for node in nodes])
    except (TypeError, ValueError, OverflowError):
        place = np.zeros(0)
    if place.shape != (len(nodes), 2) or not np.isfinite(place).all():
        raise GraphError("positions must have a finite (x, y) for every client.")
    return place


def layout(graph: nx.Graph, edges: list[Edge], radius: float, seed: int) -> NDArray[np.float64]:
    """Lay the drawn edges out as springs in about a unit square, then pull the nodes apart."""
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
    """Push points, 200 times at most, until no two are nearer than ``gap``, or nearly so."""
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


INK = "#222222"
PAPER = "white"
PLAIN = "#7c93b8"


def chosen_among(selected: Iterable[Hashable], nodes: Sequence[Hashable]) -> set[Hashable]:
    """Return the selected nodes as a set, or raise a sentence where one is not in the picture."""
    chosen = set(selected)
    strangers = chosen - set(nodes)
    if strangers:
        raise GraphError(
            f"selected names {sorted(map(repr, strangers))[0]}, which is none of the {len(nodes)} clients."
        )
    return chosen


def label_mix(graph: nx.Graph, labels: ArrayLike | None) -> NDArray[np.float64] | None:
    """Return label shares by row, from the argument or the nodes; an empty row stays empty."""
    if labels is None:
        rows = [attributes.get("labels") for _, attributes in graph.nodes(data=True)]
        if any(row is None for row in rows):
            return None
        labels = rows
    try:
        mix = real_array(labels)
    except (TypeError, ValueError, OverflowError):
        mix = np.zeros(0)
    if mix.ndim != 2 or len(mix) != len(graph) or not np.isfinite(mix).all() or (mix < 0).any():
        raise GraphError(
            f"labels must be a row of shares of 0 or more for each of {len(graph)} clients; got shape {mix.shape}."
        )
    return mix / np.maximum(mix.sum(axis=1, keepdims=True), 1e-300)


def palette(count: int) -> list[tuple[float, ...]]:
    """Return ``count`` colours."""
    from matplotlib import colormaps

    if count <= 20:
        colours = colormaps["tab10" if count <= 10 else "tab20"]
        return [tuple(colours(i)[:3]) for i in range(count)]
    return [tuple(colormaps["hsv"](i / count)[:3]) for i in range(count)]


def towards_white(colour: Any, keep: float) -> tuple[float, ...]:
    """Pale a colour to the share ``keep`` of its distance from white."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - keep * (1.0 - channel) for channel in to_rgb(colour))


class Look:
    """Sizes, which depend on how many clients share the picture; radii in units of the layout, the side in inches.

    Selected clients are a little larger, the others a little smaller: in print a ring alone is lost among 200.
    """

    def __init__(self, clients: int) -> None:
        self.radius = 0.36 / math.sqrt(clients + 3)
        self.large, self.small = 1.18 * self.radius, 0.92 * self.radius
        self.side = 6.0 + 3.0 * min(1.0, clients / 200)
        self.named = clients <= 60
        self.opacity, self.width, self.ring = (0.32, 1.6, 3.0) if self.named else (0.18, 0.8, 2.0)
        self.font = 10 if clients <= 30 else 8


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
        Nodes to mark. Where there are any, the others are paled.
    labels
        Label mix of each client in node order, shape (N, C), counts or shares. Default: each node's
        ``labels`` attribute; without either, all clients have one colour.
    label_names
        C names for the legend, which there is for up to 20 labels; default 0 … C−1.
    positions
        Where each node goes, as (x, y) in about the unit square, for which the pies are sized; default a spring
        layout of the strongest edges, pulled apart so that pies overlap little or not.
    edges_per_client
        Draw only each client's so many most similar neighbours: at 200 clients a full 3DG has thousands of
        edges and looks like felt. Where some are left out, a line below the picture says so.
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
        If the graph is empty, a selected node is not in it, a node has no finite (x, y), or ``labels`` or
        ``label_names`` do not fit.

    Notes
    -----
    After FedGS (AAAI 2023), Fig. 3. Every client is drawn: a few hundred can be told apart, thousands take minutes to
    lay out and cannot. Draw the subgraph of the clients in question then.
    """
    from matplotlib.figure import Figure

    nodes = list(graph)
    if not nodes:
        raise GraphError("the graph is empty; there is nothing to draw.")
    chosen = chosen_among(selected, nodes)
    mix = label_mix(graph, labels)
    if label_names is not None and (mix is None or len(label_names) != mix.shape[1]):
        count = 0 if mix is None else mix.shape[1]
        raise GraphError(f"label_names holds {len(label_names)} names for {count} labels; they must agree.")
    look = Look(len(nodes))
    edges = strongest(graph, edges_per_client)
    place = layout(graph, edges, look.radius, seed) if positions is None else placed(positions, nodes)
    marked = np.array([node in chosen for node in nodes])

    figure = Figure(figsize=(look.side + 1.2, look.side), layout="constrained", facecolor=PAPER)
    axes: Any = figure.subplots()
    colours = palette(0 if mix is None else mix.shape[1])
    _draw_edges(axes, edges, nodes, place, look)
    _draw_clients(axes, place, marked, mix, colours, look)
    if look.named if names is None else names:
        _write_names(axes, nodes, place, marked, look)
    low, high = place.min(axis=0) - 1.6 * look.radius, place.max(axis=0) + 1.6 * look.radius
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    if title is None:
        title = f"{len(nodes)} clients, {graph.number_of_edges()} edges"
        title += f", {len(chosen)} selected" if chosen else ""
    axes.set_title(title, color=INK, fontsize=13)
    if mix is not None and mix.shape[1] <= 20:
        from matplotlib.patches import Patch

        words = range(mix.shape[1]) if label_names is None else label_names
        handles = [Patch(color=colour, label=str(word)) for colour, word in zip(colours, words, strict=True)]
        axes.legend(handles=handles, title="label", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    if len(edges) < graph.number_of_edges():
        axes.annotate(
            f"edges drawn: each client's {edges_per_client} strongest ({len(edges)})",
            (0.5, 0.0), xycoords="axes fraction", ha="center", va="top", fontsize=9, color="#666666",
        )  # fmt: skip
    return figure


def _draw_edges(
    axes: Any, edges: list[Edge], nodes: Sequence[Hashable], place: NDArray[np.float64], look: Look
) -> None:
    """Draw the edges, the stronger the darker and wider."""
    from matplotlib.collections import LineCollection

    if not edges:
        return
    index = {node: i for i, node in enumerate(nodes)}
    ends = np.array([(index[u], index[v]) for u, v, _ in edges])
    strength = np.array([value for _, _, value in edges])
    share = (strength - strength.min()) / (np.ptp(strength) or 1.0)
    colours = [(0.30, 0.33, 0.38, look.opacity + 0.37 * each) for each in share]
    axes.add_collection(
        LineCollection(place[ends], colors=colours, linewidths=look.width * (0.5 + share / 2), zorder=1)
    )


def _draw_clients(
    axes: Any,
    place: NDArray[np.float64],
    marked: NDArray[np.bool_],
    mix: NDArray[np.float64] | None,
    colours: Sequence[tuple[float, ...]],
    look: Look,
) -> None:
    """Draw a pie of its labels for every client, paled where others are selected, in a rim or, if selected, a ring."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle, Wedge

    slices, fills = [], []
    for i, selected in enumerate(marked):
        keep = 1.0 if selected or not marked.any() else 0.55
        start, radius = 90.0, look.large if selected else look.small
        shares = np.ones(1) if mix is None else mix[i]
        for label in np.flatnonzero(shares).tolist():
            stop = start - 360.0 * float(shares[label])
            slices.append(Wedge(place[i], radius, stop, start))
            fills.append(towards_white(PLAIN if mix is None else colours[label], keep))
            start = stop
    axes.add_collection(PatchCollection(slices, facecolors=fills, linewidths=0, zorder=2))
    for those, radius, colour, width in ((~marked, look.small, "#999999", 0.6), (marked, look.large, INK, look.ring)):
        circles = PatchCollection([Circle(point, radius) for point in place[those]], facecolors="none", zorder=3)
        circles.set(edgecolors=colour, linewidths=width)
        axes.add_collection(circles)


def _write_names(
    axes: Any, nodes: Sequence[Hashable], place: NDArray[np.float64], marked: NDArray[np.bool_], look: Look
) -> None:
    from matplotlib.patheffects import withStroke

    style = {"ha": "center", "va": "center", "fontsize": look.font, "color": INK, "zorder": 5}
    halo = [withStroke(linewidth=2.4, foreground=PAPER)]
    for node, point, selected in zip(nodes, place, marked, strict=True):
        axes.text(*point, str(node), fontweight="bold" if selected else "normal", path_effects=halo, **style)
