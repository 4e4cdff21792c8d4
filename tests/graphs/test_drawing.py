"""What is in the pictures, read from the figures' own objects."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PatchCollection

from graphs import GraphError, dependency_graph, draw, similarity


def graph_of(clients, seed=0):
    U = np.random.default_rng(seed).dirichlet(np.full(5, 0.4), clients)
    return dependency_graph(similarity(U)), U


def patches(figure):
    pies, rims, rings = (c for c in figure.axes[0].collections if isinstance(c, PatchCollection))
    return pies, rims, rings


def centres(collection):
    return np.array([path.vertices[:-1].mean(axis=0) for path in collection.get_paths()])


@pytest.mark.parametrize("clients", [1, 2, 20, 200])
def test_every_client_is_drawn_and_none_hides_another(clients):
    graph, U = graph_of(clients)
    selected = list(range(0, clients, 7))
    figure = draw(graph, selected, labels=U)
    _, rims, rings = patches(figure)
    assert len(rings.get_paths()) == len(selected)
    assert len(rims.get_paths()) == clients - len(selected)
    assert figure.axes[0].get_title().startswith(f"{clients} clients")
    boxes = [p.get_extents() for c in (rims, rings) for p in c.get_paths()]
    middle = np.array([[(b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2] for b in boxes])
    radius = np.array([(b.x1 - b.x0) / 2 for b in boxes])
    apart = np.linalg.norm(middle[:, None] - middle[None], axis=2) - radius[:, None] - radius[None]
    np.fill_diagonal(apart, 1)
    assert apart.min() > 0


def test_pies_show_the_label_mix():
    graph = nx.empty_graph(2)
    graph.nodes[0]["labels"] = [3, 1]  # counts will do
    graph.nodes[1]["labels"] = [0, 2]
    pies, *_ = patches(draw(graph))
    assert len(pies.get_paths()) == 3
    assert len({tuple(c) for c in pies.get_facecolors()}) == 2


def test_unselected_clients_are_paler():
    graph = nx.empty_graph(2)
    pies, *_ = patches(draw(graph, [1], labels=[[1.0], [1.0]]))
    first, second = pies.get_facecolors()
    assert first.sum() > second.sum()
    alone, *_ = patches(draw(graph, labels=[[1.0], [1.0]]))
    assert (alone.get_facecolors() == second).all()


def test_only_the_strongest_edges_are_drawn_and_the_figure_says_so():
    graph, _ = graph_of(30)
    figure = draw(graph, edges_per_client=2)
    lines = next(c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    assert 30 <= len(lines.get_segments()) <= 60 < graph.number_of_edges()
    assert any("2 strongest" in text.get_text() for text in figure.axes[0].texts)
    everything = draw(graph, edges_per_client=30)
    lines = next(c for c in everything.axes[0].collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == graph.number_of_edges()


def test_equal_neighbours_share_the_edges_round():
    figure = draw(nx.complete_graph(20), edges_per_client=2)
    lines = next(c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    ends, counts = np.unique(np.array(lines.get_segments()).reshape(-1, 2), axis=0, return_counts=True)
    assert len(ends) == 20
    assert set(counts) == {4}


def test_same_seed_same_picture_and_positions_are_obeyed():
    graph, _ = graph_of(12)
    first, second, other = (centres(patches(draw(graph, seed=s))[1]) for s in (1, 1, 2))
    assert (first == second).all()
    assert not np.allclose(first, other)
    placed = patches(draw(graph, positions={k: (k, 0) for k in graph}))[1]
    np.testing.assert_allclose([p.get_extents().x0 + p.get_extents().x1 for p in placed.get_paths()], 2 * np.arange(12))


def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys, networkx as nx; from graphs import draw; draw(nx.path_graph(4), [1]);"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_names_of_labels_may_be_an_array():
    graph, _ = graph_of(4)
    legend = draw(graph, labels=np.ones((4, 2)), label_names=np.array(["cat", "dog"])).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["cat", "dog"]


def test_bad_input_gets_a_sentence():
    graph, _ = graph_of(4)
    with pytest.raises(GraphError, match="selected names 9, which is none of the 4 clients"):
        draw(graph, [9])
    with pytest.raises(GraphError, match="graph is empty"):
        draw(nx.Graph())
    with pytest.raises(GraphError, match=r"labels must be a row of shares .* of 4 clients; got shape \(3, 2\)"):
        draw(graph, labels=np.ones((3, 2)))
    with pytest.raises(GraphError, match="labels must be a row of shares"):
        draw(graph, labels=[[{}, 1]] * 4)
    with pytest.raises(GraphError, match="1 names for 2 labels"):
        draw(graph, labels=np.ones((4, 2)), label_names=["cat"])
    with pytest.raises(GraphError, match="no place for client 1"):
        draw(graph, positions={0: (0, 0)})
    for place in ((1.0,), (0.0, np.nan), "x"):
        with pytest.raises(GraphError, match=r"positions must have a finite \(x, y\) for every client"):
            draw(graph, positions={k: place if k == 1 else (0, 0) for k in graph})
