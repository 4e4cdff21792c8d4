"""How well one 3DG predicts the edges of another (Table 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import GraphError, choice, square_symmetric
from graphs.threedg import PRESETS, PresetName

if TYPE_CHECKING:
    import networkx as nx

# The authors' script sweeps .2 as well, which the paper leaves out.
EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)


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


@dataclass(frozen=True)
class Sweep:
    """Scores of one similarity at several thresholds.

    Attributes
    ----------
    epsilons
        The thresholds tried, increasing.
    scores
        One `EdgeScores` for each.
    epsilon, best
        The threshold with the highest F1 (the largest of several), and its scores.
    """

    epsilons: tuple[float, ...]
    scores: tuple[EdgeScores, ...]
    epsilon: float
    best: EdgeScores


def edge_scores(predicted: nx.Graph | ArrayLike, true: nx.Graph | ArrayLike, *, self_loops: bool = False) -> EdgeScores:
    """Return precision, recall and F1 of predicting the true graph's edges.

    Parameters
    ----------
    predicted, true
        Graphs over the same nodes (in any order), or boolean N×N adjacency matrices, symmetric.
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
        If the graphs have different nodes, or a matrix is not boolean, square and symmetric.

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
    return _score(guessed[upper], wanted[upper], len(wanted) if self_loops else 0)


def epsilon_sweep(
    similarity: ArrayLike,
    true: nx.Graph | ArrayLike,
    epsilons: Sequence[float] | Literal["all"] = EPSILONS,
    *,
    preset: PresetName = "reference",
    self_loops: bool = False,
) -> Sweep:
    """Score the graphs one similarity matrix gives at several thresholds, and name the best.

    Parameters
    ----------
    similarity
        N×N, in the order of the true graph's nodes, on the scale the thresholds are meant for: nothing is
        scaled here. Table 3 uses clipped cosines.
    true
        The oracle's graph, or its boolean adjacency matrix.
    epsilons
        Thresholds to try; default the authors'. ``"all"`` tries every one that makes a difference, which is
        the best this similarity could do.
    preset
        Whether an edge needs V > ε (``"reference"``, as the authors' script) or V ≥ ε (``"paper"``: with
        ε = 0 and clipped similarities that is the complete graph).
    self_loops
        As for `edge_scores`.

    Returns
    -------
    Sweep

    Raises
    ------
    GraphError
        If the matrix does not fit the graph, or no threshold is given.
    """
    choice("preset", preset, PRESETS)
    matrix = square_symmetric("similarity", similarity)
    wanted = _adjacency("true", true, None)
    if wanted.shape != matrix.shape:
        raise GraphError(f"similarity is of {len(matrix)} clients and true has {len(wanted)} nodes; they must agree.")
    upper = np.triu_indices(len(wanted), 1)
    values, truth = matrix[upper], wanted[upper]
    loops = len(wanted) if self_loops else 0
    strict = PRESETS[preset].strict
    if isinstance(epsilons, str):
        choice("epsilons", epsilons, ("all",))
        distinct = np.unique(values)
        beyond = np.nextafter(distinct[:1], -np.inf) if strict else np.nextafter(distinct[-1:], np.inf)
        thresholds = np.sort(np.concatenate([distinct, beyond]))
    else:
        thresholds = np.unique(np.asarray(list(epsilons), dtype=np.float64))
    if not len(thresholds) or not np.isfinite(thresholds).all():
        raise GraphError(f"epsilons must be at least one number, all finite; got {list(thresholds)}.")
    # Sorted once, every threshold is a cut: what is above it is predicted.
    order = np.argsort(values)
    hits_above = np.concatenate([np.cumsum(truth[order][::-1])[::-1], [0]])
    cuts = np.searchsorted(values[order], thresholds, side="right" if strict else "left")
    scores = tuple(
        EdgeScores(int(hits_above[cut]) + loops, len(values) - int(cut) + loops, int(truth.sum()) + loops, self_loops)
        for cut in cuts
    )
    best = max(range(len(scores)), key=lambda i: (scores[i].f1, i))
    return Sweep(tuple(thresholds.tolist()), scores, float(thresholds[best]), scores[best])


def _score(guessed: NDArray[np.bool_], wanted: NDArray[np.bool_], loops: int) -> EdgeScores:
    return EdgeScores(
        true_positives=int(np.count_nonzero(guessed & wanted)) + loops,
        predicted=int(np.count_nonzero(guessed)) + loops,
        true=int(np.count_nonzero(wanted)) + loops,
        self_loops=loops > 0,
    )


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
    matrix = np.asarray(graph)
    if matrix.dtype != bool:
        raise GraphError(
            f"{name} must be a graph or a boolean adjacency matrix (of weights R: numpy.isfinite(R)); "
            f"got a matrix of {matrix.dtype}."
        )
    square_symmetric(name, matrix, GraphError)
    return matrix
