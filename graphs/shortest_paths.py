"""Shortest-path distances on the 3DG, by two methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from graphs.errors import DistanceError, choice, square_symmetric
from graphs.min_plus import COMPILED, close

if TYPE_CHECKING:
    import networkx as nx

Method = Literal["auto", "floyd-warshall", "dijkstra"]


def distances(
    graph: nx.Graph | NDArray[np.float64], method: Method = "auto", *, weight: str = "weight"
) -> NDArray[np.float64]:
    """Return the scaled shortest-path distances H between all clients.

    Parameters
    ----------
    graph
        An undirected graph whose edges carry lengths, such as `dependency_graph` returns, or the matrix of
        `edge_weights`: N×N, symmetric, inf where there is no edge (a 0 off the diagonal is an edge of
        length 0).
    method
        ``"floyd-warshall"``: O(N³); from N = 1 000 on compiled and on all processors.
        ``"dijkstra"``: SciPy's, N·(edges + N log N), for sparse graphs. ``"auto"`` chooses by size and density. They
        agree to 1e-12 in the scaled result.
    weight
        The edge attribute to read lengths from, when `graph` is a graph.

    Returns
    -------
    ndarray of shape (N, N)
        Symmetric, in node order, 0 on the diagonal, in [0, 1]: path lengths divided by the largest finite
        one, unreachable pairs at 1. If every finite path has length 0 (an edgeless graph, or all weights
        underflown) there is nothing to divide by: reachable pairs are at 0 and the others at 1.

    Raises
    ------
    DistanceError
        If the graph is directed, a multigraph or empty, an edge has no length, or a length is negative or
        not a number; if a matrix is not square and symmetric; or if the method is unknown.

    Notes
    -----
    Source: FedGS (AAAI 2023), Algorithm 1 line 3. The paper gives neither the division nor what to do with
    unreachable pairs; both are what the authors' training code does, and without them the paper's own σ²
    gives distances near 0 and a disconnected graph an infinite objective. `path_lengths` returns the
    paper's raw numbers.

    N = 5 000 takes some 7 s of processor time, N = 10 000 some 50 s and 1.8 GiB. For more
    clients state points or kinds, which need no matrix.

    Examples
    --------
    >>> from graphs import dependency_graph, distances, similarity
    >>> distances(dependency_graph(similarity([[1, 0], [1, 1], [0, 1]])))
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0.5],
           [1. , 0.5, 0. ]])
    """
    return scaled(path_lengths(graph, method, weight=weight))


def path_lengths(
    graph: nx.Graph | NDArray[np.float64], method: Method = "auto", *, weight: str = "weight"
) -> NDArray[np.float64]:
    """Return the shortest-path lengths as they are, inf between unreachable clients.

    Parameters, errors and methods are those of `distances`.

    Returns
    -------
    ndarray of shape (N, N)
        Sums of edge weights, in node order; the paper's H before any scaling.
    """
    choice("method", method, ("auto", *_METHODS), DistanceError)
    lengths = graph_weights(graph, weight)
    return _METHODS[_choose(lengths) if method == "auto" else method](lengths)


def scaled(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide path lengths by the largest finite one, in place, and set infinite ones to 1."""
    finite = np.isfinite(lengths)
    largest = float(lengths.max(where=finite, initial=0.0))
    if largest > 0:
        lengths /= largest
    lengths[~finite] = 1.0
    return lengths


def graph_weights(graph: nx.Graph | NDArray[np.float64], weight: str = "weight") -> NDArray[np.float64]:
    """Return edge lengths as a fresh N×N matrix in node order: 0 on the diagonal, inf without an edge.

    A self-loop changes no shortest path and is dropped.

    Raises
    ------
    DistanceError
        As for `distances`.
    """
    if hasattr(graph, "adj"):
        return _from_graph(graph, weight)
    matrix = square_symmetric("the weight matrix", graph, DistanceError, infinite=True).copy()
    np.fill_diagonal(matrix, 0.0)
    for i, row in enumerate(matrix):
        if row.min() < 0:
            j = int(row.argmin())
            raise DistanceError(f"the length of edge {i}-{j} must be 0 or more; got {matrix[i, j]}.")
    return matrix


def _from_graph(graph: nx.Graph, weight: str) -> NDArray[np.float64]:
    if graph.is_directed() or graph.is_multigraph():
        raise DistanceError(
            "the graph must be an undirected networkx.Graph with at most one edge between two clients, such as "
            f"dependency_graph returns; got a {type(graph).__name__}."
        )
    size = graph.number_of_nodes()
    if size == 0:
        raise DistanceError("the graph is empty; at least one client is needed.")
    index = {node: i for i, node in enumerate(graph)}
    matrix = np.full((size, size), np.inf)
    # A row at a time, straight from the adjacency: graph.edges(data=...) takes three times as long.
    for i, (node, neighbours) in enumerate(graph.adjacency()):
        lengths = [attributes.get(weight) for attributes in neighbours.values()]
        try:
            values = np.fromiter(lengths, np.float64, len(lengths))
            usable = bool((values >= 0).all())  # false for NaN
        except (TypeError, ValueError, OverflowError):
            usable = False
        if not usable:
            other, bad = next(pair for pair in zip(neighbours, lengths, strict=True) if not _is_length(pair[1]))
            raise DistanceError(
                f"the edge {node!r}-{other!r} has {weight} {bad!r}; every edge needs a number of 0 or more there."
            )
        matrix[i, np.fromiter(map(index.__getitem__, neighbours), np.intp, len(lengths))] = values
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _is_length(value: object) -> bool:
    try:
        return isinstance(value, int | float | np.number) and float(value) >= 0  # false for NaN
    except (TypeError, OverflowError):
        return False


def _choose(lengths: NDArray[np.float64]) -> str:
    size = len(lengths)
    edges = (int(np.count_nonzero(np.isfinite(lengths))) - size) / 2
    # Dijkstra relaxes every edge twice from every node, at some ten times the cost of one Floyd–Warshall step (heap
    # and indirection), some hundred and fifty times where that is compiled; see tests/benchmarks/bench_graphs.py.
    if (20 if size < COMPILED else 300) * edges < size * size / 2:
        return "dijkstra"
    return "floyd-warshall"


def _dijkstra(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    import scipy.sparse
    from scipy.sparse.csgraph import dijkstra

    edge = np.isfinite(lengths)
    np.fill_diagonal(edge, False)
    rows, columns = np.nonzero(edge)
    # Built from coordinates so that zero-length edges are stored; both directions are there, so the
    # directed search does half the work of the undirected one.
    matrix = scipy.sparse.coo_array((lengths[rows, columns], (rows, columns)), shape=lengths.shape).tocsr()
    found = np.asarray(dijkstra(matrix, directed=True))
    # From i to j and from j to i the same lengths are added in another order.
    return np.minimum(found, found.T)


_METHODS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "floyd-warshall": close,
    "dijkstra": _dijkstra,
}
