"""Pictures of distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.checks import choice, square_symmetric
from graphs.drawing.marks import INK, PAPER, chosen_among
from graphs.errors import GraphError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_distances"]


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
    chosen = chosen_among(selected, list(range(size)))
    arrangement = arranged(matrix, order)
    figure = Figure(figsize=(7.4, 6.4), layout="constrained", facecolor=PAPER)
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
    axes.set_title(title, color=INK, fontsize=13, pad=14)
    return figure


def arranged(matrix: NDArray[np.float64], order: str | Sequence[int]) -> NDArray[np.intp]:
    """The order in which clients stand beside each other."""
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
