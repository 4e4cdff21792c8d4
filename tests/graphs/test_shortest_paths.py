"""Distances against the authors' loops, NetworkX and hand-checked numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import DistanceError, dependency_graph, distances, edge_weights, min_plus, path_lengths, similarity
from graphs.min_plus import close
from graphs.shortest_paths import _choose, scaled
from tests.thoroughly import tried

spec = importlib.util.spec_from_file_location("graph_examples", Path(__file__).with_name("examples.py"))
examples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(examples)

METHODS = ("floyd-warshall", "dijkstra")


@st.composite
def weights(draw):
    """Random sparse or dense lengths over seven orders of magnitude, some exactly 0."""
    size = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    W = 10.0 ** rng.uniform(-6, 1, (size, size))
    W[rng.random((size, size)) < draw(st.sampled_from([0, 0.2]))] = 0.0
    W[rng.random((size, size)) < draw(st.sampled_from([0, 0.5, 0.9]))] = np.inf
    W = np.triu(W, 1)
    W = W + W.T
    return W


@pytest.mark.parametrize("method", ["auto", *METHODS])
@given(W=weights())
@settings(deadline=None, max_examples=40)
def test_every_method_gives_the_textbook_lengths(method, W):
    expected = examples.triple_loop(W)
    found = path_lengths(W, method)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found == found.T).all()


@pytest.mark.parametrize("method", METHODS)
@given(W=weights())
@settings(deadline=None, max_examples=20)
def test_graph_and_array_paths_agree(method, W):
    graph = nx.Graph()
    graph.add_nodes_from(f"c{i}" for i in range(len(W)))
    for i, j in zip(*np.nonzero(np.triu(np.isfinite(W), 1)), strict=True):
        graph.add_edge(f"c{i}", f"c{j}", weight=W[i, j])
    np.testing.assert_allclose(distances(graph, method), distances(W, "floyd-warshall"), atol=1e-12)


@tried(10, 40, weights())
def test_scaled_distances_are_a_metric_up_to_the_cap(W):
    H = distances(W)
    assert (np.diagonal(H) == 0).all()
    assert (H >= 0).all()
    assert (H <= 1).all()
    D = path_lengths(W)
    assert (H[np.isinf(D)] == 1).all()
    finite = np.where(np.isfinite(D), H, np.inf)
    assert (finite <= (finite[:, :, None] + finite[None]).min(axis=1) + 1e-12).all()
    if D[np.isfinite(D)].max() > 0:
        assert H[np.isfinite(D)].max() == 1


@pytest.mark.parametrize("tile", [1, 3, 7, 10, 14, 30, 64])
def test_tiles_of_any_size_give_the_same(tile):
    rng = np.random.default_rng(0)
    W = rng.uniform(0.1, 1, (30, 30))
    W[rng.random((30, 30)) < 0.7] = np.inf
    W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0)
    np.testing.assert_allclose(close(W.copy(), tile), examples.triple_loop(W), rtol=1e-13)


def test_several_tiles_of_the_default_size_against_networkx():
    W = edge_weights(similarity(examples.dirichlet_partition(450)))
    graph = nx.from_numpy_array(np.where(np.isfinite(W), W, 0.0))
    np.testing.assert_allclose(distances(W, "floyd-warshall"), scaled(nx.floyd_warshall_numpy(graph)), atol=1e-12)


@pytest.mark.parametrize(("size", "tile"), [(120, 16), (97, 32), (64, 64 // 3)])
def test_compiled_and_threaded_steps_change_no_bit(monkeypatch, size, tile):
    rng = np.random.default_rng(size)
    W = rng.uniform(0.1, 1, (size, size))
    W[rng.random((size, size)) < 0.8] = np.inf
    W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0)
    plain = close(W.copy(), tile)
    monkeypatch.setattr(min_plus, "COMPILED", 1)
    for threads in (1, 2, 5):
        monkeypatch.setattr(min_plus, "_processors", lambda threads=threads: threads)
        assert (close(W.copy(), tile) == plain).all()


@pytest.mark.parametrize("partition", [examples.two_label_partition, examples.dirichlet_partition])
def test_reference_h_is_the_authors_h(partition):
    U = partition(40)
    H = distances(dependency_graph(similarity(U), preset="reference"))
    np.testing.assert_allclose(H, examples.authors_distances(U), atol=1e-12)


def test_reference_h_with_negative_cosines_is_the_authors_h():
    U = np.random.default_rng(3).normal(size=(30, 20))
    H = distances(dependency_graph(similarity(U)))
    np.testing.assert_allclose(H, examples.authors_distances(U), atol=1e-12)


@pytest.mark.parametrize("preset", ["reference", "paper"])
def test_two_labels_each_take_four_values(preset):
    # Same labels ~0, one shared 1/3, two hops 2/3, three hops 1; the same for both presets. Most deals of the
    # labels leave no pair of clients three hops apart (and take the values 0, 1/2, 1); this one does.
    U = examples.two_label_partition(100, seed=88)
    H = distances(dependency_graph(similarity(U), preset))
    off = H[np.triu_indices(100, 1)]
    thirds = np.rint(3 * off)
    np.testing.assert_allclose(off, thirds / 3, atol=5e-4)
    assert set(thirds) == {0, 1, 2, 3}
    shared = U @ U.T > 0
    assert (thirds[shared[np.triu_indices(100, 1)]] <= 1).all()
    np.testing.assert_allclose(
        np.quantile(off, [0.05, 0.25, 0.5, 0.75, 0.95]), [1 / 3, 1 / 3, 2 / 3, 2 / 3, 2 / 3], atol=5e-4
    )


def test_lengths_and_edge_share_of_the_two_label_partition():
    V = similarity(examples.two_label_partition(100, seed=88))
    assert dependency_graph(V).number_of_edges() / 4950 == pytest.approx(0.362, abs=0.01)
    assert path_lengths(edge_weights(V)).max() == pytest.approx(0.246, abs=0.001)  # 3·exp(−2.5)
    assert path_lengths(edge_weights(V, "paper")).max() == pytest.approx(5.8e-22, rel=0.01)  # 3·exp(−50)


def test_dirichlet_graphs_are_nearly_complete_and_multi_hop():
    V = similarity(examples.dirichlet_partition(100))
    W = edge_weights(V)
    edges = np.isfinite(W[np.triu_indices(100, 1)])
    assert edges.mean() == pytest.approx(0.933, abs=0.04)
    direct = np.isclose(path_lengths(W), W, rtol=1e-12)[np.triu_indices(100, 1)]
    assert direct.mean() < 0.1  # about 4 % of shortest paths are one edge


@pytest.mark.parametrize("method", METHODS)
def test_distances_near_the_smallest_numbers_survive(method):
    # e^−1400 underflows; sums of subnormals must still scale to [0, 1].
    W = np.array([[0, 5e-320, np.inf], [5e-320, 0, 1e-319], [np.inf, 1e-319, 0]])
    np.testing.assert_allclose(distances(W, method), [[0, 1 / 3, 1], [1 / 3, 0, 2 / 3], [1, 2 / 3, 0]], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::graphs.GraphWarning")
def test_a_zero_weight_edge_is_an_edge(method):
    # 0 and 1 underflow to length 0, 2 is near 1, 3 is alone.
    V = np.array([[1, 9, 0, 0], [9, 1, 0.5, 0], [0, 0.5, 1, 0], [0, 0, 0, 1.0]])
    graph = dependency_graph(V, "paper")
    assert graph[0][1]["weight"] == 0
    assert distances(graph, method).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    assert np.isinf(path_lengths(graph, method)[3, :3]).all()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_divide_by(method):
    alone = np.full((3, 3), np.inf)
    assert distances(alone, method).tolist() == (1 - np.eye(3)).tolist()
    assert distances(np.zeros((3, 3)), method).tolist() == np.zeros((3, 3)).tolist()
    assert distances(np.zeros((1, 1)), method).tolist() == [[0]]


def test_input_is_left_alone():
    W = edge_weights(similarity(examples.dirichlet_partition(20)))
    before = W.copy()
    for method in METHODS:
        distances(W, method)
    np.testing.assert_array_equal(W, before)


def test_auto_goes_by_density():
    rng = np.random.default_rng(0)
    for size, share, expected in (
        (500, 0.01, "dijkstra"),
        (500, 0.9, "floyd-warshall"),
        (100, 0.9, "floyd-warshall"),
    ):
        W = np.where(rng.random((size, size)) < share, 1.0, np.inf)
        W = np.minimum(W, W.T)
        np.fill_diagonal(W, 0)
        assert _choose(W) == expected


def broken(**attributes):
    graph = nx.path_graph(3)
    graph[1][2].update(attributes)
    graph[0][1]["weight"] = 1.0
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (broken(), "the edge 1-2 has weight None; every edge needs a number"),
        (broken(weight="far"), "the edge 1-2 has weight 'far'"),
        (broken(weight=-1.0), "the edge 1-2 has weight -1.0"),
        (broken(weight=np.nan), "the edge 1-2 has weight nan"),
        (broken(weight=10**400), "the edge 1-2 has weight 1000"),
        (broken(weight=1j), "the edge 1-2 has weight 1j"),
        (nx.Graph(), "the graph is empty"),
        (nx.DiGraph([(0, 1)]), "the graph must be an undirected .*; got a DiGraph"),
        (nx.MultiGraph([(0, 1)]), "the graph must be an undirected .*; got a MultiGraph"),
        (np.array([[0, -1.0], [-1.0, 0]]), "the length of edge 0-1 must be 0 or more; got -1.0"),
        (np.array([[0, np.nan], [np.nan, 0]]), r"got nan at \[0, 1\]"),
        (np.array([[0, 1.0], [np.inf, 0]]), "not symmetric"),
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
    ],
)
def test_bad_graphs_get_a_sentence(graph, message):
    with pytest.raises(DistanceError, match=message):
        distances(graph)


def test_unknown_method_names_the_accepted_ones():
    with pytest.raises(DistanceError, match="method must be 'auto', 'floyd-warshall' or 'dijkstra'; got 'bfs'"):
        distances(nx.path_graph(2), "bfs")


def test_self_loops_and_infinite_edges_change_nothing():
    graph = nx.Graph()
    graph.add_nodes_from([0, 1, 2])
    graph.add_edge(0, 0, weight=5.0)
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(1, 2, weight=np.inf)
    assert distances(graph).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
