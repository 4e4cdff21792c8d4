"""FedGS without a matrix: the same selections as with one, and many clients in little memory."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability.independent import Independent
from fedselect.errors import ConfigError, DataError
from fedselect.measures import absences, jain_index
from fedselect.rounds import History, simulate
from fedselect.selectors import FedGS
from fedselect.selectors.geometry import Kinds, Points
from graphs import dependency_graph, distances, similarity


def two_labels(clients: int, seed: int = 0) -> np.ndarray:
    """Label distributions of clients with two of ten labels each, evenly."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((clients, 10))
    for row in rows:
        row[rng.choice(10, 2, replace=False)] = 0.5
    return rows


def played(selector: FedGS, clients: int, rounds: int = 6) -> list:
    availability = Independent(np.full(clients, 0.6), 3)
    return list(simulate(selector, availability, sizes=np.ones(clients, dtype=int), rounds=rounds, seed=3))


@pytest.mark.parametrize("preset", ["reference", "paper"])
def test_the_graph_over_kinds_has_the_distances_of_the_graph_over_all(preset):
    rows = two_labels(120)
    whole = distances(dependency_graph(similarity(rows), preset=preset))
    kinds = Kinds.of_rows(rows, preset=preset)
    expanded = kinds.distances[np.ix_(kinds.kinds, kinds.kinds)]
    np.fill_diagonal(expanded, 0)
    np.testing.assert_allclose(expanded, whole, atol=1e-12)
    assert len(kinds.distances) <= 45


def test_kinds_select_as_well_as_the_graph():
    rows = two_labels(60)
    h = distances(dependency_graph(similarity(rows)))
    graph, kinds = (
        played(FedGS(8, distances=g, time_limit=1.0), 60, 1)[0].selection.solution for g in (h, Kinds.of_rows(rows))
    )
    assert kinds.objective <= graph.bound + 1e-12
    assert graph.objective <= kinds.bound + 1e-12


@pytest.mark.parametrize("metric", ["euclidean", "hellinger"])
def test_points_select_as_well_as_their_matrix(metric):
    rows = np.random.default_rng(1).dirichlet(np.full(6, 0.7), 50)
    roots = np.sqrt(rows / 2) if metric == "hellinger" else rows
    h = np.linalg.norm(roots[:, None] - roots, axis=2)
    with_matrix, without = (
        played(FedGS(6, distances=h), 50, 1)[0],
        played(FedGS(6, distances=Points(rows, metric)), 50, 1)[0],
    )
    assert without.selection.solution.objective == pytest.approx(with_matrix.selection.solution.objective, rel=3e-6)


@pytest.mark.thorough
def test_fifty_thousand_clients_are_simulated_and_reported():
    clients = 50_000
    points = np.random.default_rng(2).random((clients, 8))
    selector = FedGS(30, distances=Points(points), time_limit=1.0)
    availability = Independent(np.full(clients, 0.5), 1)
    history = History.collect(simulate(selector, availability, sizes=np.ones(clients, dtype=int), rounds=3), clients)
    assert history.counts.sum() == 90
    assert (selector.counts == history.counts).all()
    assert 0 < jain_index(history.counts) < 1
    assert absences(history).max() == 3


def test_state_is_saved_and_restored():
    rows = two_labels(40)
    one, other = FedGS(5, distances=Kinds.of_rows(rows)), FedGS(5, distances=Kinds.of_rows(rows))
    played(one, 40, 3)
    other.load_state_dict(one.state_dict())
    assert (one.counts == other.counts).all()


def test_what_cannot_be_is_said():
    with pytest.raises(DataError, match="distributions"):
        FedGS(2, distances=Points(np.ones((4, 2)), "hellinger"))
    with pytest.raises(DataError, match="finite"):
        FedGS(2, distances=Points(np.full((4, 2), np.nan)))
    with pytest.raises(DataError, match="points need no matrix"):
        Kinds.of_rows(np.random.default_rng(0).random((5_001, 2)))
    with pytest.raises(AttributeError, match="never all there"):
        _ = FedGS(2, distances=Points(np.eye(4))).distances


def test_the_registered_selector_takes_a_geometry(tmp_path):
    from fedselect.data import digits
    from fedselect.rounds.scenario import Scenario
    from fedselect.selectors import SELECTORS

    federation = digits(n_clients=20)
    scenario = Scenario(federation.sizes, Independent(np.ones(20), 0), size=4, rounds=2, data=federation)
    for options in ({"geometry": "points"}, {"geometry": "kinds"}, {"geometry": "kinds", "metric": "hellinger"}):
        selector = SELECTORS.build("fedgs", scenario, **options)
        assert played(selector, 20, 2)[0].selection.clients.size <= 4
    np.save(tmp_path / "points.npy", np.random.default_rng(0).random((20, 3)))
    file = str(tmp_path / "points.npy")
    assert SELECTORS.build("fedgs", scenario, geometry="points", points_file=file).geometry.points.shape == (20, 3)
    for options, words in (
        ({"geometry": "sphere"}, "'points' or 'kinds'"),
        ({"geometry": "points", "features": "update"}, "labels"),
        ({"geometry": "points", "noise": 0.1}, "geometry 'points' has no use for noise; leave that out"),
        ({"geometry": "kinds", "warmup": 2}, "geometry 'kinds' has no use for warmup"),
        ({"geometry": "kinds", "distances_file": "h.npy"}, "geometry 'kinds' has no use for distances_file"),
        ({"geometry": "points", "fraction_bits": 4}, "geometry 'points' has no use for fraction_bits"),
        ({"geometry": "points", "epsilon": 0.5}, "geometry 'points' has no use for epsilon"),
        ({"geometry": "points", "graph": "paper"}, "geometry 'points' has no use for graph"),
        ({"geometry": "kinds", "metric": "euclidean", "epsilon": 0.5}, "'kinds' with a metric has no use for epsilon"),
        ({"points_file": "rows.npy"}, "geometry 'graph' has no use for points_file"),
        ({"metric": "euclidean"}, "geometry 'graph' has no use for metric"),
        ({"geometry": "points", "points_file": str(tmp_path / "none.npy")}, "cannot read points"),
        ({"geometry": "points", "points_file": file, "features": "update"}, "beside points_file there is no use for f"),
        ({"geometry": "kinds", "points_file": file, "features": "parameters"}, "beside points_file there is no use"),
    ):
        with pytest.raises((ConfigError, DataError), match=words):
            SELECTORS.build("fedgs", scenario, **options)
