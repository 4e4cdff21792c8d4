"""Edges, weights and attributes of the 3DG under both presets."""

from __future__ import annotations

import math
import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import GraphWarning, SimilarityError, dependency_graph, distances, edge_weights, similarity
from graphs.shortest_paths import graph_weights


def matrix(a: float, b: float, c: float) -> np.ndarray:
    return np.array([[9, a, b], [a, 9, c], [b, c, 9]], dtype=float)  # the diagonal must not matter


def test_paper_edges_by_hand():
    graph = dependency_graph(matrix(0.1, 0.0999, 0.5), preset="paper")
    assert set(graph.edges) == {(0, 1), (1, 2)}  # V ≥ ε keeps the 0.1
    assert graph[0][1]["weight"] == pytest.approx(np.exp(-10), rel=1e-12)
    assert graph[1][2]["weight"] == pytest.approx(np.exp(-50), rel=1e-12)
    assert graph[1][2]["similarity"] == 0.5
    assert graph.graph == {"preset": "paper", "epsilon": 0.1, "sigma2": 0.01}


def test_reference_edges_by_hand():
    # lo = −0.1, hi = 0.4: V = 1, 0, (0.15 + 0.1)/0.5 = 0.5
    graph = dependency_graph(matrix(0.4, -0.1, 0.15))
    assert set(graph.edges) == {(0, 1), (1, 2)}
    assert graph[0][1]["weight"] == pytest.approx(np.exp(-10), rel=1e-12)
    assert graph[1][2]["similarity"] == pytest.approx(0.5)
    assert graph[1][2]["weight"] == pytest.approx(np.exp(-2.5), rel=1e-12)


def test_the_reference_threshold_is_strict():
    S = matrix(1.0, 0.01, 0.02)
    assert set(dependency_graph(S).edges) == {(0, 1), (1, 2)}
    assert dependency_graph(S, epsilon=0.0).number_of_edges() == 3


def test_options_override_the_preset():
    graph = dependency_graph(matrix(0.3, 0.6, 0.9), "paper", epsilon=0.5, sigma2=2.0, nodes=["a", "b", "c"])
    assert list(graph) == ["a", "b", "c"]
    assert set(graph.edges) == {("a", "c"), ("b", "c")}
    assert graph["a"]["c"]["weight"] == pytest.approx(np.exp(-0.3))


@given(st.integers(1, 12), st.sampled_from(["reference", "paper"]), st.integers(0, 2**32 - 1))
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore::graphs.GraphWarning")
def test_the_array_path_holds_the_same_edges(size, preset, seed):
    rng = np.random.default_rng(seed)
    V = similarity(rng.normal(size=(size, 3)))
    graph = dependency_graph(V, preset)
    assert isinstance(graph, nx.Graph)
    assert list(graph) == list(range(size))
    assert nx.number_of_selfloops(graph) == 0
    np.testing.assert_array_equal(graph_weights(graph), edge_weights(V, preset))


def test_attributes_are_plain_floats():
    graph = dependency_graph(matrix(0.3, 0.6, 0.9))
    assert {type(v) for *_, data in graph.edges(data=True) for v in data.values()} == {float}


def test_an_edgeless_graph_is_said_in_a_sentence():
    with pytest.warns(GraphWarning, match="3DG of 3 clients has no edge: no similarity is ≥ epsilon = 0.1"):
        graph = dependency_graph(np.eye(3), "paper")
    assert graph.number_of_edges() == 0
    with pytest.warns(GraphWarning, match="no similarity is > epsilon = 0.01"):
        edge_weights(np.eye(3))


def test_constant_similarity_is_a_complete_graph_of_equal_edges_and_says_so():
    with pytest.warns(GraphWarning, match="all 6 similarities are the same, so every pair of the 4 clients"):
        graph = dependency_graph(np.full((4, 4), 0.7))
    with pytest.warns(GraphWarning, match="all 6 similarities are the same"):
        weights = edge_weights(np.full((4, 4), 0.7))
    assert distances(weights).tolist() == distances(graph).tolist() == (1 - np.eye(4)).tolist()
    assert graph.number_of_edges() == 6
    ((weight,),) = [{data["weight"] for *_, data in graph.edges(data=True)}]
    assert weight == pytest.approx(math.exp(-10), rel=3e-16, abs=0)


def test_underflow_keeps_the_edge_and_says_so():
    with pytest.warns(GraphWarning, match="1 of 2 edge weights underflow to 0 at sigma2 = 0.01"):
        graph = dependency_graph(matrix(8.0, 0.0, 0.5), "paper")
    assert graph[0][1]["weight"] == 0.0


def test_rounding_asymmetry_is_mended_from_the_upper_triangle():
    S = matrix(0.3, 0.6, 0.9)
    S[1, 0] += 1e-13
    graph, weights = dependency_graph(S, "paper"), edge_weights(S, "paper")
    assert graph[0][1]["similarity"] == 0.3
    assert (weights == weights.T).all()
    skewed = weights.copy()
    skewed[2, 0] += 1e-25
    H = distances(skewed, "dijkstra")
    assert (distances(weights, "dijkstra") == H).all()
    assert S[1, 0] != S[0, 1]  # the input is left alone


def test_one_client_is_a_graph_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dependency_graph([[1.0]]).number_of_nodes() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"similarity": np.zeros((2, 3))}, r"must have one row and one column per client, N×N; got shape \(2, 3\)"),
        ({"similarity": np.zeros((0, 0))}, "is empty"),
        ({"similarity": [[1, 0.5], [0.4, 1]]}, r"not symmetric: entry \[0, 1\] is 0.5 and \[1, 0\] is 0.4"),
        ({"similarity": [[1, np.nan], [np.nan, 1]]}, r"must hold finite numbers; got nan at \[0, 1\]"),
        ({"similarity": [[1, np.inf], [np.inf, 1]]}, r"must hold finite numbers; got inf at \[0, 1\]"),
        ({"similarity": [["x"]]}, "cannot be read as a matrix"),
        ({"similarity": [[1, 10**400], [10**400, 1]]}, "cannot be read as a matrix of numbers: int too large"),
        ({"similarity": np.array([[1, 1j], [1j, 1]])}, "cannot be read as a matrix of numbers: complex numbers"),
        ({"epsilon": "small"}, "epsilon must be a finite number; got 'small'"),
        ({"sigma2": 10**400}, "sigma2 must be a finite number; got 1000"),
        ({"epsilon": np.complex128(0.1)}, "epsilon must be a finite number"),
        ({"nodes": ["a", None]}, "nodes must not be None"),
        ({"nodes": 2}, "nodes must be 2 distinct names; got 2"),
        ({"nodes": [["a"], ["b"]]}, "nodes must be names that have a hash: unhashable type: 'list'"),
        ({"preset": "code"}, "preset must be 'reference' or 'paper'; got 'code'"),
        ({"sigma2": 0}, "sigma2 must be a positive finite number; got 0.0"),
        ({"sigma2": np.nan}, "sigma2 must be a positive finite number; got nan"),
        ({"epsilon": np.inf}, "epsilon must be a finite threshold; got inf"),
        ({"preset": "paper", "epsilon": -0.5}, "epsilon must be 0 or more with preset 'paper', .* got -0.5"),
        ({"nodes": ["a", "a"]}, "must be 2 distinct names, .* got 2 names, 1 of them distinct"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    with pytest.raises(SimilarityError, match=message):
        dependency_graph(**{"similarity": [[1, 0.5], [0.5, 1]], **arguments})
