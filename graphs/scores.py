"""How well one 3DG predicts the edges of another (Table 3)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import GraphError, square_symmetric

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class EdgeScores:
    """Agreement of a predicted edge set with the true one.

    Attributes
    ----------
    true_positives, predicted, true
        Numbers of edges: in both graphs, in the predicted one, in the true one.
    self_loops
        Whether the N self-loops are counted in all three.
    """

    true_positives: int
    predicted: int
    true: int
    self_loops: bool

    @property
    def precision(self) -> float:
        """Share of the predicted edges that are true; 1 if none is predicted, for then none is wrong."""
        return self.true_positives / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Share of the true edges that are predicted; 1 if there is none, for then none is missed."""
        return self.true_positives / self.true if self.true else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall: 2·TP / (predicted + true), 1 if both graphs are empty."""
        total = self.predicted + self.true
        return 2 * self.true_positives / total if total else 1.0

    def __repr__(self) -> str:
        loops = ", self-loops counted" if self.self_loops else ""
        return (
            f"<edges: {self.true_positives} common, {self.predicted} predicted, {self.true} true; "
            f"F1 {self.f1:.3f}, precision {self.precision:.3f}, recall {self.recall:.3f}{loops}>"
        )


def edge_scores(predicted: nx.Graph | ArrayLike, true: nx.Graph | ArrayLike, *, self_loops: bool = False) -> EdgeScores:
    """Return precision, recall and F1 of predicting the true graph's edges.

    Parameters
    ----------
    predicted, true
        Graphs over the same nodes (in any order; directions are not looked at), or boolean N×N adjacency matrices,
        symmetric.
    self_loops
        Count one self-loop per client, in both graphs. The authors' script does, because the diagonal of
        its weight matrix is finite; it lifts all three numbers, so the default leaves them out. Self-loops
        that are in the graphs themselves are not read.

    Returns
    -------
    EdgeScores

    Raises
    ------
    GraphError
        If the graphs have different nodes or sizes, or a matrix is not boolean, square and symmetric.

    Notes
    -----
    Source: FedGS (AAAI 2023), Sec. 4.4 and Table 3.

    Examples
    --------
    >>> import networkx as nx
    >>> from graphs import edge_scores
    >>> scores = edge_scores(nx.path_graph(4), nx.cycle_graph(4))
    >>> scores.precision, scores.recall
    (1.0, 0.75)
    """
    nodes = _nodes(true)
    wanted = _adjacency("true", true, nodes)
    guessed = _adjacency("predicted", predicted, nodes)
    if guessed.shape != wanted.shape:
        raise GraphError(f"predicted has {len(guessed)} nodes and true has {len(wanted)}; they must be the same.")
    upper = np.triu_indices(len(wanted), 1)
    loops = len(wanted) if self_loops else 0
    hits, found, there = (int(np.count_nonzero(each[upper])) + loops for each in (guessed & wanted, guessed, wanted))
    return EdgeScores(hits, found, there, self_loops)


def _nodes(graph: Any) -> list[Hashable] | None:
    return list(graph) if hasattr(graph, "adj") else None


def _adjacency(name: str, graph: Any, nodes: list[Hashable] | None) -> NDArray[np.bool_]:
    if hasattr(graph, "adj"):
        order = list(graph) if nodes is None else nodes
        if set(order) != set(graph):
            strangers = sorted(map(repr, set(order) ^ set(graph)))
            raise GraphError(f"the two graphs have different nodes, for example {strangers[0]}.")
        index = {node: i for i, node in enumerate(order)}
        matrix = np.zeros((len(order), len(order)), dtype=bool)
        for u, v in graph.edges:
            matrix[index[u], index[v]] = matrix[index[v], index[u]] = True
        return matrix
    try:
        matrix = np.asarray(graph)
    except ValueError as reason:  # rows of different lengths
        raise GraphError(f"{name} must be a graph or a boolean adjacency matrix: {reason}.") from None
    if matrix.dtype != bool:
        raise GraphError(
            f"{name} must be a graph or a boolean adjacency matrix (of weights R: numpy.isfinite(R)); "
            f"got a matrix of {matrix.dtype}."
        )
    square_symmetric(name, matrix, GraphError)
    return matrix
