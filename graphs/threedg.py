"""The data-distribution-dependency graph (3DG): which clients are alike, and how near that makes them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import GraphWarning, SimilarityError, choice, number, square_symmetric
from graphs.reproducible import exponential
from graphs.similarities import min_max

if TYPE_CHECKING:
    import networkx as nx

PresetName = Literal["reference", "paper"]


@dataclass(frozen=True)
class Preset:
    """One convention for turning similarities into edges.

    Attributes
    ----------
    name
        How `dependency_graph` is asked for it.
    scaled
        Whether similarities are min–max scaled first (`min_max`).
    strict
        Whether an edge needs V > ε (else V ≥ ε).
    power
        The p of the edge weight exp(−V^p / σ²).
    epsilon, sigma2
        Defaults of the threshold ε and of σ².
    """

    name: str
    scaled: bool
    strict: bool
    power: int
    epsilon: float
    sigma2: float

    def edges(self, scaled: NDArray[np.float64], epsilon: float) -> NDArray[np.bool_]:
        """Return where there is an edge, given similarities on this preset's scale."""
        return scaled > epsilon if self.strict else scaled >= epsilon

    def weigh(self, scaled: NDArray[np.float64], sigma2: float) -> NDArray[np.float64]:
        """Return exp(−V^p / σ²), without a unit."""
        # Asked of all similarities, edges or not: those of no edge may be negative and overflow.
        with np.errstate(under="ignore", over="ignore"):
            powered = scaled if self.power == 1 else scaled**self.power
            return exponential(powered / -sigma2)


PRESETS = {
    # What the authors' training code executes: its class also sets epsilon = .1 and sigma = .01, but
    # never passes them on, so these are the function's own defaults.
    "reference": Preset("reference", scaled=True, strict=True, power=2, epsilon=0.01, sigma2=0.1),
    "paper": Preset("paper", scaled=False, strict=False, power=1, epsilon=0.1, sigma2=0.01),
}


def dependency_graph(
    similarity: ArrayLike,
    preset: PresetName = "reference",
    epsilon: float | None = None,
    sigma2: float | None = None,
    *,
    nodes: Sequence[Hashable] | None = None,
) -> nx.Graph:
    """Return the 3DG over the clients as a NetworkX graph.

    Parameters
    ----------
    similarity
        N×N, symmetric, finite, from `similarity` or elsewhere. The diagonal is not read.
    preset
        ``"reference"`` (default) is what the authors' training code executes: similarities min–max scaled
        (`min_max`), an edge iff V > ε, weight exp(−V²/σ²), ε = 0.01, σ² = 0.1. ``"paper"`` is the paper's
        text: similarities as they are, an edge iff V ≥ ε, weight exp(−V/σ²), ε = 0.1, σ² = 0.01.
        The default is the one with usable numbers: the paper's weights reach down to e^−100.
    epsilon
        The threshold ε, on the preset's own scale; ``None`` takes the preset's.
    sigma2
        σ², positive; ``None`` takes the preset's. It divides V² in ``"reference"`` and V in ``"paper"``.
    nodes
        Names of the clients, in the order of the matrix; default 0 … N−1.

    Returns
    -------
    networkx.Graph
        One node per client in the order of the matrix, no self-loops. Edges carry ``similarity`` (on the
        scale the threshold is applied to) and ``weight`` (the length Floyd–Warshall adds up). Clients
        below the threshold to everyone are isolated nodes. ``graph.graph`` records ``preset``,
        ``epsilon`` and ``sigma2``.

    Raises
    ------
    SimilarityError
        If the matrix is not square, symmetric and finite, an option is unknown or out of range, or `nodes` are not N
        distinct names.

    Warns
    -----
    GraphWarning
        If the graph has no edge although there is more than one client, if all similarities among three or
        more clients are the same and edges, or if weights underflow to 0. A zero-weight edge is
        an edge: its ends are at distance 0.

    Notes
    -----
    Source: FedGS (AAAI 2023), the adjacency matrix R after Eq. 10.

    An edge is a Python dictionary here, and a dense graph has N²/2 of them: from some two thousand clients on, use
    `edge_weights`, which `distances` takes as well. A matrix of ten thousand clients takes 0.8 GB.

    Examples
    --------
    >>> from graphs import dependency_graph, similarity
    >>> graph = dependency_graph(similarity([[1, 0], [1, 1], [0, 1]]))
    >>> sorted(graph.edges)
    [(0, 1), (1, 2)]
    """
    import networkx as nx

    rule, scaled, epsilon, sigma2 = _prepare(similarity, preset, epsilon, sigma2)
    size = len(scaled)
    names = _names(nodes, size)
    rows, columns = np.nonzero(np.triu(rule.edges(scaled, epsilon), 1))
    values = scaled[rows, columns]
    weights = rule.weigh(values, sigma2)
    constant = len(values) > 0 and bool(values[0] == values.min() == values.max())
    _warn(size, len(weights), int(np.count_nonzero(weights == 0)), constant, rule, epsilon, sigma2)

    graph = nx.Graph(preset=rule.name, epsilon=epsilon, sigma2=sigma2)
    graph.add_nodes_from(names)
    graph.add_edges_from(
        (names[i], names[j], {"similarity": value, "weight": weight})
        for i, j, value, weight in zip(rows.tolist(), columns.tolist(), values.tolist(), weights.tolist(), strict=True)
    )
    return graph


def edge_weights(
    similarity: ArrayLike,
    preset: PresetName = "reference",
    epsilon: float | None = None,
    sigma2: float | None = None,
) -> NDArray[np.float64]:
    """Return the 3DG as a weight matrix, without building a NetworkX graph.

    For thousands of clients the graph object costs more than the shortest paths do: 12 million edges at
    N = 5 000. ``distances(edge_weights(V))`` equals ``distances(dependency_graph(V))``.

    Parameters
    ----------
    similarity, preset, epsilon, sigma2
        As for `dependency_graph`.

    Returns
    -------
    ndarray of shape (N, N)
        The matrix R of the paper: 0 on the diagonal, the edge weight where there is an edge (which may be
        0 where it underflows), inf where there is none. Exactly symmetric.

    Raises
    ------
    SimilarityError
        As for `dependency_graph`.

    Warns
    -----
    GraphWarning
        As for `dependency_graph`.
    """
    rule, scaled, epsilon, sigma2 = _prepare(similarity, preset, epsilon, sigma2)
    weights = np.empty_like(scaled)
    edges = zeros = 0
    low, high = np.inf, -np.inf
    # Row by row, reading the upper triangle only, so that the answer is symmetric and no second N×N
    # temporary is needed.
    for i in range(len(scaled)):
        values = scaled[i, i + 1 :]
        edge = rule.edges(values, epsilon)
        row = np.where(edge, rule.weigh(values, sigma2), np.inf)
        edges += int(np.count_nonzero(edge))
        zeros += int(np.count_nonzero(row == 0))
        low, high = min(low, values.min(initial=np.inf)), max(high, values.max(initial=-np.inf))
        weights[i, i + 1 :] = row
        weights[i + 1 :, i] = row
        weights[i, i] = 0.0
    _warn(len(scaled), edges, zeros, bool(low == high), rule, epsilon, sigma2)
    return weights


def _prepare(
    similarity: ArrayLike, preset: str, epsilon: float | None, sigma2: float | None
) -> tuple[Preset, NDArray[np.float64], float, float]:
    """Return the preset, similarities on its scale, ε and σ², or say which option is wrong."""
    choice("preset", preset, PRESETS, SimilarityError)
    rule = PRESETS[preset]
    epsilon = rule.epsilon if epsilon is None else number("epsilon", epsilon, SimilarityError)
    sigma2 = rule.sigma2 if sigma2 is None else number("sigma2", sigma2, SimilarityError)
    if not np.isfinite(epsilon):
        raise SimilarityError(f"epsilon must be a finite threshold; got {epsilon}.")
    if epsilon < 0 and not rule.scaled:
        # exp(−V/σ²) of a negative V grows without bound, and past e^709 an edge would be infinitely long.
        raise SimilarityError(
            f"epsilon must be 0 or more with preset {preset!r}, whose weights are meant for V ≥ 0; got {epsilon}."
        )
    if not (np.isfinite(sigma2) and sigma2 > 0):
        raise SimilarityError(f"sigma2 must be a positive finite number; got {sigma2}.")
    scaled = min_max(similarity) if rule.scaled else square_symmetric("similarity", similarity)
    return rule, scaled, epsilon, sigma2


def _names(nodes: Sequence[Hashable] | None, size: int) -> list[Hashable]:
    if nodes is None:
        return list(range(size))
    if not isinstance(nodes, Iterable):
        raise SimilarityError(f"nodes must be {size} distinct names; got {nodes!r:.80}.")
    names = list(nodes)
    if any(name is None for name in names):
        raise SimilarityError("nodes must not be None, which NetworkX takes for no node.")
    try:
        distinct = len(set(names))
    except TypeError as error:
        raise SimilarityError(f"nodes must be names that have a hash: {error}.") from None
    if len(names) != size or distinct != size:
        raise SimilarityError(
            f"nodes must be {size} distinct names, one per row of the similarity matrix; got {len(names)} names, "
            f"{distinct} of them distinct."
        )
    return names


def _warn(size: int, edges: int, zeros: int, constant: bool, rule: Preset, epsilon: float, sigma2: float) -> None:
    if size > 1 and edges == 0:
        sign = ">" if rule.strict else "≥"
        warnings.warn(
            f"the 3DG of {size} clients has no edge: no similarity is {sign} epsilon = {epsilon:g}, so every "
            "pair of clients is equally far apart (distance 1) and the graph tells the selector nothing.",
            GraphWarning,
            stacklevel=3,
        )
    if size > 2 and constant and edges == size * (size - 1) // 2:
        warnings.warn(
            f"all {edges} similarities are the same, so every pair of the {size} clients is equally far "
            "apart (distance 1) and the graph tells the selector nothing.",
            GraphWarning,
            stacklevel=3,
        )
    if zeros:
        warnings.warn(
            f"{zeros} of {edges} edge weights underflow to 0 at sigma2 = {sigma2:g}; these edges stay, with "
            "length 0, so their clients count as identical. A larger sigma2 tells them apart.",
            GraphWarning,
            stacklevel=3,
        )
