"""Edge scores by hand and the sweep against scoring one graph at a time."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import EPSILONS, GraphError, dependency_graph, edge_scores, epsilon_sweep


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


def test_node_order_does_not_matter_and_self_loops_are_not_read():
    true = nx.Graph([("a", "b"), ("b", "c")])
    predicted = nx.Graph([("c", "b"), ("b", "a"), ("a", "a")])
    assert edge_scores(predicted, true).f1 == 1


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.booleans(), st.sampled_from(["reference", "paper"]))
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore::graphs.GraphWarning")
def test_the_sweep_scores_the_graphs_it_would_build(seed, size, loops, preset):
    rng = np.random.default_rng(seed)
    # Two decimals, so that thresholds tie with values.
    S = np.round(np.triu(rng.random((size, size)), 1), 1)
    S += S.T
    truth = np.triu(rng.random((size, size)) < 0.4, 1)
    truth |= truth.T
    sweep = epsilon_sweep(S, truth, preset=preset, self_loops=loops)
    assert sweep.epsilons == EPSILONS
    for epsilon, scores in zip(sweep.epsilons, sweep.scores, strict=True):
        predicted = epsilon < S if preset == "reference" else epsilon <= S
        np.fill_diagonal(predicted, False)
        assert scores == edge_scores(predicted, truth, self_loops=loops)
        if preset == "paper":
            assert scores == edge_scores(
                dependency_graph(S, preset, epsilon=epsilon), nx.from_numpy_array(truth), self_loops=loops
            )
    assert sweep.best.f1 == max(scores.f1 for scores in sweep.scores)
    assert sweep.scores[sweep.epsilons.index(sweep.epsilon)] == sweep.best


@given(st.integers(0, 2**32 - 1), st.sampled_from(["reference", "paper"]))
@settings(deadline=None)
def test_all_thresholds_beat_any_threshold(seed, preset):
    rng = np.random.default_rng(seed)
    S = np.triu(rng.normal(size=(7, 7)), 1)
    S += S.T
    truth = np.triu(rng.random((7, 7)) < 0.4, 1)
    truth |= truth.T
    best = epsilon_sweep(S, truth, "all", preset=preset).best
    assert best.f1 >= epsilon_sweep(S, truth, rng.normal(size=50), preset=preset).best.f1
    everything = truth.sum() / 42  # predicting the complete graph is among them
    assert best.f1 >= 2 * everything / (1 + everything) - 1e-12


def test_bad_input_gets_a_sentence():
    with pytest.raises(GraphError, match="different nodes, for example 3"):
        edge_scores(nx.path_graph(4), nx.path_graph(3))
    with pytest.raises(
        GraphError, match=r"true must be a graph or a boolean adjacency matrix .*; got a matrix of float64"
    ):
        edge_scores(nx.path_graph(3), np.ones((3, 3)))
    with pytest.raises(GraphError, match="predicted has 2 nodes and true has 3"):
        edge_scores(np.ones((2, 2), dtype=bool), nx.path_graph(3))
    with pytest.raises(GraphError, match="not symmetric"):
        edge_scores(np.triu(np.ones((2, 2), dtype=bool)), nx.path_graph(2))
    with pytest.raises(GraphError, match="similarity is of 2 clients and true has 3 nodes"):
        epsilon_sweep(np.eye(2), nx.path_graph(3))
    with pytest.raises(GraphError, match="epsilons must be at least one number"):
        epsilon_sweep(np.eye(3), nx.path_graph(3), [])
    with pytest.raises(GraphError, match="epsilons must be 'all'; got 'every'"):
        epsilon_sweep(np.eye(3), nx.path_graph(3), "every")
