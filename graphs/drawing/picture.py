"""The picture of a 3DG."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.drawing.layout import Edge, layout, placed, strongest
from graphs.drawing.marks import INK, PAPER, PLAIN, chosen_among, label_mix, palette, towards_white
from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

__all__ = ["draw"]


@dataclass(frozen=True)
class Look:
    """Sizes, which depend on how many clients share the picture.

    Attributes
    ----------
    radius
        Of a pie, in the units of the layout; selected clients are a little larger, the others a little smaller:
        in print a ring alone is lost among 200.
    side
        Of the picture, in inches.
    opacity, width
        Of the weakest edge drawn, and of the strongest.
    ring
        Width of the ring around a selected client, in points.
    font
        Size of the names, in points.
    named
        Whether names are written unless the caller says otherwise.
    """

    radius: float
    side: float
    opacity: float
    width: float
    ring: float
    font: int
    named: bool

    @classmethod
    def of(cls, clients: int) -> Look:
        """The look of a picture of so many clients."""
        radius = 0.36 / math.sqrt(clients + 3)
        side = 6.0 + 3.0 * min(1.0, clients / 200)
        if clients <= 60:
            return cls(radius, side, opacity=0.32, width=1.6, ring=3.0, font=10 if clients <= 30 else 8, named=True)
        return cls(radius, side, opacity=0.18, width=0.8, ring=2.0, font=8, named=False)

    @property
    def large(self) -> float:
        """Radius of a selected client's pie."""
        return self.radius * 1.18

    @property
    def small(self) -> float:
        """Radius of the others' pies."""
        return self.radius * 0.92


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
    look = Look.of(len(nodes))
    edges = strongest(graph, edges_per_client)
    place = layout(graph, edges, look.radius, seed) if positions is None else placed(positions, nodes)
    marked = np.array([node in chosen for node in nodes])

    figure = Figure(figsize=(look.side + 1.2, look.side), layout="constrained", facecolor=PAPER)
    axes: Any = figure.subplots()
    colours = palette(0 if mix is None else mix.shape[1])
    _draw_edges(axes, edges, nodes, place, look)
    _draw_pies(axes, place, marked, mix, colours, look)
    _draw_rims(axes, place, marked, look)
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
        _write_legend(axes, colours, label_names or [str(label) for label in range(mix.shape[1])])
    if len(edges) < graph.number_of_edges():
        axes.annotate(
            f"edges drawn: each client's {edges_per_client} strongest ({len(edges)})",
            (0.5, 0.0), xycoords="axes fraction", ha="center", va="top", fontsize=9, color="#666666",
        )  # fmt: skip
    return figure


def _draw_edges(
    axes: Any, edges: list[Edge], nodes: Sequence[Hashable], place: NDArray[np.float64], look: Look
) -> None:
    """Lines, the stronger the darker and wider."""
    from matplotlib.collections import LineCollection

    if not edges:
        return
    index = {node: i for i, node in enumerate(nodes)}
    ends = np.array([(index[u], index[v]) for u, v, _ in edges])
    strength = np.array([value for _, _, value in edges])
    span = float(np.ptp(strength))
    share = (strength - strength.min()) / span if span > 0 else np.ones(len(strength))
    colours = np.tile([0.30, 0.33, 0.38, 0.0], (len(edges), 1))
    colours[:, 3] = look.opacity + 0.37 * share
    widths = look.width * (0.5 + 0.5 * share)
    axes.add_collection(LineCollection(place[ends], colors=colours, linewidths=widths, zorder=1))


def _draw_pies(
    axes: Any,
    place: NDArray[np.float64],
    marked: NDArray[np.bool_],
    mix: NDArray[np.float64] | None,
    colours: Sequence[tuple[float, ...]],
    look: Look,
) -> None:
    """A pie of its labels for every client, paled where others are selected."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Wedge

    slices, fills = [], []
    for i, selected in enumerate(marked):
        keep = 1.0 if selected or not marked.any() else 0.55
        shares = np.ones(1) if mix is None else mix[i]
        start = 90.0
        for label in np.flatnonzero(shares).tolist():
            stop = start - 360.0 * float(shares[label])
            slices.append(Wedge(place[i], look.large if selected else look.small, stop, start))
            fills.append(towards_white(PLAIN if mix is None else colours[label], keep))
            start = stop
    axes.add_collection(PatchCollection(slices, facecolors=fills, linewidths=0, zorder=2))


def _draw_rims(axes: Any, place: NDArray[np.float64], marked: NDArray[np.bool_], look: Look) -> None:
    """A thin rim around every client, a thick ring around the selected ones."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    rims = [Circle(point, look.small) for point in place[~marked]]
    axes.add_collection(PatchCollection(rims, facecolors="none", edgecolors="#999999", linewidths=0.6, zorder=3))
    rings = [Circle(point, look.large) for point in place[marked]]
    axes.add_collection(PatchCollection(rings, facecolors="none", edgecolors=INK, linewidths=look.ring, zorder=4))


def _write_names(
    axes: Any, nodes: Sequence[Hashable], place: NDArray[np.float64], marked: NDArray[np.bool_], look: Look
) -> None:
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.4, foreground=PAPER)]
    for node, point, selected in zip(nodes, place, marked, strict=True):
        weight = "bold" if selected else "normal"
        axes.text(
            *point, str(node), ha="center", va="center", fontsize=look.font, fontweight=weight,
            color=INK, zorder=5, path_effects=halo,
        )  # fmt: skip


def _write_legend(axes: Any, colours: Sequence[tuple[float, ...]], names: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    axes.legend(
        handles=[Patch(color=colour, label=name) for colour, name in zip(colours, names, strict=True)],
        title="label", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
    )  # fmt: skip
