"""Edge scores by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from graphs import EdgeScores, GraphError, edge_scores


def test_by_hand():
    true = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    predicted = nx.Graph([(0, 1), (2, 1), (0, 4)])
    predicted.add_node(3)
    scores = edge_scores(predicted, true)
    assert (scores.true_positives, scores.predicted, scores.true) == (2, 3, 4)
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(1 / 2)
    assert scores.f1 == pytest.approx(4 / 7)
    counted = edge_scores(predicted, true, self_loops=True)
    assert (counted.true_positives, counted.predicted, counted.true) == (7, 8, 9)
    assert counted.f1 == pytest.approx(14 / 17)


@pytest.mark.parametrize(("true_positives", "predicted", "true"), [(1347, 1380, 1898), (1264, 1295, 1781)])
def test_both_readings_of_table_3s_fashion_row(true_positives, predicted, true):
    # Counts that give the published .9761, .7097 and .8218, with self-loops and without.
    wanted, guessed = np.zeros((100, 100), dtype=bool), np.zeros((100, 100), dtype=bool)
    rows, columns = np.triu_indices(100, 1)
    wanted[rows[:true], columns[:true]] = True
    start = true - true_positives
    guessed[rows[start : start + predicted], columns[start : start + predicted]] = True
    scores = edge_scores(guessed | guessed.T, wanted | wanted.T)
    assert [round(v, 4) for v in (scores.precision, scores.recall, scores.f1)] == [0.9761, 0.7097, 0.8218]


def test_empty_graphs_have_defined_scores():
    empty, full = nx.empty_graph(3), nx.complete_graph(3)
    assert edge_scores(empty, empty).f1 == 1
    assert (
        edge_scores(empty, full).precision,
        edge_scores(empty, full).recall,
        edge_scores(empty, full).f1,
    ) == (1, 0, 0)
    assert (edge_scores(full, empty).precision, edge_scores(full, empty).recall) == (0, 1)


def test_scores_show_themselves():
    assert repr(EdgeScores(3, 4, 5, False)) == (
        "<edges: 3 common, 4 predicted, 5 true; F1 0.667, precision 0.750, recall 0.600>"
    )


def test_node_order_does_not_matter_and_self_loops_are_not_read():
    true = nx.Graph([("a", "b"), ("b", "c")])
    predicted = nx.Graph([("c", "b"), ("b", "a"), ("a", "a")])
    assert edge_scores(predicted, true).f1 == 1


def test_bad_input_gets_a_sentence():
    with pytest.raises(GraphError, match="different nodes, for example 3"):
        edge_scores(nx.path_graph(4), nx.path_graph(3))
    with pytest.raises(
        GraphError, match=r"true must be a graph or a boolean adjacency matrix .*; got a matrix of float64"
    ):
        edge_scores(nx.path_graph(3), np.ones((3, 3)))
    with pytest.raises(GraphError, match="predicted has 2 nodes and true has 3"):
        edge_scores(np.ones((2, 2), dtype=bool), nx.path_graph(3))
    with pytest.raises(GraphError, match="a boolean adjacency matrix: setting an array element"):
        edge_scores(np.ones((2, 2), dtype=bool), [[True], [True, False]])
    with pytest.raises(GraphError, match="not symmetric"):
        edge_scores(np.triu(np.ones((2, 2), dtype=bool)), nx.path_graph(2))
