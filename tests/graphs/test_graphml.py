"""GraphML: what is written comes back."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import GraphError, dependency_graph, distances, read_graphml, similarity, write_graphml


def same(left, right):
    assert list(left) == list(right)
    assert dict(left.nodes(data=True)) == dict(right.nodes(data=True))
    assert {frozenset(e[:2]): e[2] for e in left.edges(data=True)} == {
        frozenset(e[:2]): e[2] for e in right.edges(data=True)
    }
    assert left.graph == right.graph


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 8), named=st.booleans())
@settings(deadline=None, max_examples=20)
@pytest.mark.filterwarnings("ignore::graphs.GraphWarning")
def test_a_3dg_comes_back_to_the_last_bit_and_in_order(tmp_path_factory, seed, size, named):
    rng = np.random.default_rng(seed)
    order = rng.permutation(100)[:size].tolist()
    nodes = [f"client {k}" for k in order] if named else order
    graph = dependency_graph(similarity(rng.normal(size=(size, 3))), "paper", nodes=nodes)
    path = tmp_path_factory.mktemp("graphs") / "graph.graphml"
    write_graphml(graph, path)
    back = read_graphml(path)
    same(back, graph)
    assert (distances(back) == distances(graph)).all()


def test_every_kind_of_attribute(tmp_path):
    graph = nx.Graph(rounds=np.int64(3), note="ü < & >")
    graph.add_node(np.int64(7), labels=np.array([0.25, 0.75]), size=np.int32(4), on=np.bool_(True), far=np.inf)
    graph.add_node(2, labels=[1.0, 0.0], near=-np.inf, share=np.float32(0.5))
    graph.add_edge(7, 2, weight=np.float64(0.0), similarity=1)
    write_graphml(graph, tmp_path / "graph.graphml")
    expected = nx.Graph(rounds=3, note="ü < & >")
    expected.add_node(7, labels=[0.25, 0.75], size=4, on=True, far=np.inf)
    expected.add_node(2, labels=[1.0, 0.0], near=-np.inf, share=0.5)
    expected.add_edge(7, 2, weight=0.0, similarity=1)
    same(read_graphml(tmp_path / "graph.graphml"), expected)


def test_long_vectors_keep_their_order(tmp_path):
    graph = nx.Graph()
    graph.add_node(0, labels=list(range(12)))
    write_graphml(graph, tmp_path / "graph.graphml")
    assert read_graphml(tmp_path / "graph.graphml").nodes[0]["labels"] == list(range(12))


def test_other_programs_can_read_it(tmp_path):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=np.inf)
    graph.nodes[0]["labels"] = [0.5, 0.5]
    write_graphml(graph, tmp_path / "graph.graphml")
    root = ElementTree.parse(tmp_path / "graph.graphml").getroot()
    space = "{http://graphml.graphdrawing.org/xmlns}"
    names = {key.get("id"): (key.get("attr.name"), key.get("attr.type")) for key in root.iter(f"{space}key")}
    assert {("weight", "double"), ("labels[0]", "double"), ("labels[1]", "double")} <= set(names.values())
    texts = [d.text for d in root.iter(f"{space}data") if names[d.get("key")][0] == "weight"]
    assert texts == ["Infinity"]  # what Java's Double.parseDouble takes; it refuses "inf"


def test_files_of_other_programs_are_read(tmp_path):
    nx.write_graphml(nx.path_graph(["b", "a", "c"]), tmp_path / "graph.graphml")
    assert list(read_graphml(tmp_path / "graph.graphml").edges) == [("b", "a"), ("a", "c")]


def test_what_cannot_be_written_or_read_gets_a_sentence(tmp_path):
    path = tmp_path / "graph.graphml"
    with pytest.raises(GraphError, match=r"graph must be an undirected networkx\.Graph; got a DiGraph"):
        write_graphml(nx.DiGraph(), path)
    with pytest.raises(GraphError, match="nodes must be all int or all str; got int, str"):
        write_graphml(nx.Graph([(0, "a")]), path)
    with pytest.raises(GraphError, match="nodes must be all int or all str; got tuple"):
        write_graphml(nx.Graph([((0, 1), (1, 2))]), path)
    graph = nx.Graph()
    graph.add_node(0, owner=object())
    with pytest.raises(GraphError, match=r"owner of node 0 must be a number, .* got <object"):
        write_graphml(graph, path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        read_graphml(path)
    path.write_text("no xml")
    with pytest.raises(GraphError, match=r"graph\.graphml cannot be read as GraphML"):
        read_graphml(path)
    nx.write_graphml(nx.DiGraph([(0, 1)]), path)
    with pytest.raises(GraphError, match=r"must hold .* got a DiGraph"):
        read_graphml(path)
