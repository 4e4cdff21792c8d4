"""FedGS on graphs that nobody gave it: learned in training, or computed under masks."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

import graphs
from fedselect.availability import AVAILABILITY
from fedselect.data import clustered, digits
from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, build, build_scenario, read_records, run
from fedselect.randomness import generator
from fedselect.reports import read_report
from fedselect.rounds import context as round_context
from fedselect.rounds.protocol import RoundFeedback
from fedselect.selectors import SELECTORS, FedGS, fedgs
from fedselect.selectors.geometry import LearnedGraph, adjacency, decode_edges, encode_edges
from fedselect.training.settings import TrainingSettings
from graphs import dependency_graph, distances, edge_scores, similarity
from tests.fedselect.driving import context, outcomes

pytest.importorskip("torch")
import torch
from torch.nn.utils import vector_to_parameters

from fedselect.embeddings import client_embeddings
from fedselect.training.fedavg import FedAvg
from fedselect.training.models import MODELS

CLIENTS = 12


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=CLIENTS, validation_fraction=0.2)


def experiment(features, rounds=8, availability="ideal", **options):
    return Experiment(
        name="graph",
        rounds=rounds,
        clients_per_round=3,
        checkpoint_every=1,
        data=Choice("digits", {"n_clients": CLIENTS, "validation_fraction": 0.2}),
        availability=Choice(availability),
        selector=Choice("fedgs", {"features": features, "method": "brute-force", **options}),
        training=TrainingSettings(evaluate_every=100),
    )


class Told(FedGS):
    """What the clients' models answer is made to say what their labels say, so that the functional graph is right."""

    def __init__(self, labels, *arguments, **options):
        super().__init__(*arguments, **options)
        self.labels = labels

    def update(self, feedback):
        rows = {client: self.labels[client] for client in feedback.updates}
        super().update(replace(feedback, embeddings=rows))


@pytest.mark.parametrize("preset", ["reference", "paper"])
def test_on_the_oracles_graph_a_functional_run_is_the_oracles_to_the_bit(federation, preset):
    labels = federation.label_counts.astype(np.float32)
    oracle = distances(dependency_graph(similarity(labels), preset))
    ends = []
    for kind in ("oracle", "functional"):
        if kind == "oracle":
            selector = FedGS(3, distances=oracle, warmup=1)
        else:
            graph = LearnedGraph(CLIENTS, "functional", preset=preset)
            selector = Told(labels, 3, distances=graph.distances, learned=graph, warmup=1)
        loop = FedAvg(federation, selector, AVAILABILITY.build("ideal", federation, 0), seed=0)
        rounds = [loop.step(evaluate=False) for _ in range(8)]
        assert len(rounds[0].selection.clients) == CLIENTS
        ends.append((loop, rounds))
    (first, expected), (second, found) = ends
    assert np.array_equal(second.selector.distances, oracle)
    for here, there in zip(expected, found, strict=True):
        assert here.selection.clients.tolist() == there.selection.clients.tolist()
        assert here.selection.weights.tolist() == there.selection.weights.tolist()
    assert np.array_equal(first.weights, second.weights)
    assert len({tuple(each.selection.clients) for each in found}) > 3


def trained_everybody(federation):
    """Updates of all clients from the initial model, by a loop that FedGS has no part in."""
    everybody = SELECTORS.build("all-available", build_scenario(experiment("labels")))
    kept = {}
    everybody.update = lambda feedback: kept.update({k: feedback.updates[k].copy() for k in feedback.updates})
    loop = FedAvg(federation, everybody, AVAILABILITY.build("ideal", federation, 0), seed=0)
    start = loop.weights
    loop.step(evaluate=False)
    return start, np.stack([kept[k] for k in range(CLIENTS)])


@pytest.mark.parametrize("features", ["update", "functional"])
def test_the_warm_up_learns_the_graph_of_equations_11_and_12(federation, features):
    loop = build(experiment(features))
    start = loop.weights
    assert (loop.selector.distances[~np.eye(CLIENTS, dtype=bool)] == 1).all()  # nothing is known
    loop.step(evaluate=False)
    assert np.array_equal(loop.weights, start)  # what was trained for the graph is discarded
    assert not loop.selector.counts.any()
    assert loop.selector.cost == {"messages": 2 * CLIENTS, "numbers": 2 * CLIENTS * 650}

    origin, updates = trained_everybody(federation)
    assert np.array_equal(origin, start)
    matrix = similarity(updates, "update")
    if features == "functional":

        def models():
            network = MODELS.build("linear", federation)
            for update in updates:
                vector_to_parameters(torch.from_numpy(start + update), network.parameters())
                yield network

        held_out = np.concatenate([samples.features for samples in federation.validation])
        rows = client_embeddings(models(), held_out, generator(0, "noise"))
        matrix = similarity(rows, "functional")
    np.testing.assert_allclose(loop.selector.distances, distances(dependency_graph(matrix)), atol=1e-5)
    oracle = dependency_graph(similarity(federation.label_distributions))
    assert edge_scores(dependency_graph(matrix), oracle).f1 > 0.5


@pytest.mark.parametrize("features", ["update", "functional"])
def test_a_restored_run_has_the_same_graphs_to_the_bit(features):
    """Most clients are away in round 0, and join the graph as they are first heard."""
    plan = experiment(features, rounds=12, availability="lognormal", epsilon=0.2)
    whole, first, second = (build(plan) for _ in range(3))
    for _ in range(12):
        whole.step(evaluate=False)
    for _ in range(5):
        first.step(evaluate=False)
    assert 0 < first.selector.learned.known.sum() < CLIENTS
    second.load_state_dict(first.state_dict())
    for _ in range(7):
        second.step(evaluate=False)
    assert np.array_equal(whole.selector.distances, second.selector.distances)
    assert np.array_equal(whole.weights, second.weights)
    assert whole.selector.learned.known.sum() > first.selector.learned.known.sum()


def test_a_run_folder_has_the_graphs_their_scores_and_their_cost(tmp_path, federation):
    folder = run(experiment("update"), tmp_path, plots=False)
    notes = [record["notes"]["graph"] for record in read_records(folder)]
    assert notes[0]["messages"] == 0
    assert {note["messages"] for note in notes[1:]} == {2 * CLIENTS}
    truth = adjacency(similarity(federation.label_distributions), "reference")
    told = [note for note in notes if "edges" in note]
    assert len(told) == 2  # nothing, and what the warm-up has learned
    nothing, learned = (decode_edges(note["edges"], CLIENTS) for note in told)
    assert not nothing.any()
    assert learned.any()
    for edges, note in zip((nothing, learned), told, strict=True):
        assert note["f1"] == edge_scores(edges, truth).f1
    assert notes[1]["known"] == CLIENTS


def test_an_oracle_says_nothing_more_in_its_records(tmp_path):
    assert all("notes" not in record for record in read_records(run(experiment("labels"), tmp_path, plots=False)))


def test_the_secure_graph_is_the_oracles_and_states_its_messages(tmp_path, federation):
    secure, oracle = (build(experiment(features)).selector for features in ("secure", "labels"))
    np.testing.assert_allclose(secure.distances, oracle.distances, atol=1e-7)
    pairs = CLIENTS * (CLIENTS - 1) // 2
    # Masks 2(d + 1), masked vectors 2d, a blinded number and two shares, d = 10 classes.
    assert secure.cost == {"messages": 7 * pairs, "numbers": pairs * (22 + 20 + 1 + 2)}
    first, *others = read_records(run(experiment("secure"), tmp_path, plots=False))
    assert first["notes"]["graph"]["f1"] == 1
    assert all("edges" not in record["notes"]["graph"] for record in others)


@pytest.mark.parametrize("name", ["fedgs", "coverage-gs"])
def test_noise_on_the_secure_graph_is_repeatable_and_the_record_says_what_is_left(name, monkeypatch):
    warned = []
    monkeypatch.setattr(fedgs, "_said", set())
    monkeypatch.setattr(fedgs._log, "warning", warned.append)
    world = build_scenario(experiment("secure"))
    noisy, again, exact = (SELECTORS.build(name, world, features="secure", noise=noise) for noise in (0.1, 0.1, 0.0))
    assert np.array_equal(noisy.distances, again.distances)
    assert not np.array_equal(noisy.distances, exact.distances)
    everyone = round_context(0, np.ones(CLIENTS, dtype=bool), world.sizes)
    note, unharmed = (each.select(everyone).notes["graph"] for each in (noisy, exact))
    assert note["f1"] == edge_scores(noisy.edges, noisy.truth).f1 < 0.9
    assert unharmed["f1"] == 1
    (warning,) = warned  # once, of the noisy ones
    assert f"(F1 {note['f1']:.2f}); epsilon = 0.4, four times the noise, removes edges that" in warning
    SELECTORS.build(name, world, features="secure", noise=0.1, epsilon=0.9)
    assert "four times" not in warned[1]  # the advice was followed


def test_the_page_draws_the_graph_that_the_selector_used(tmp_path, monkeypatch):
    """Noise makes edges: the picture has those, all of them, and the caption says how many are right."""
    drawn = []
    monkeypatch.setattr(graphs, "draw", lambda graph, **shown: drawn.append((graph, shown)) or Figure())
    secure = replace(experiment("secure", rounds=1, noise=0.1), data=Choice("digits", {"n_clients": CLIENTS}))
    stricter = replace(experiment("labels", rounds=1, epsilon=0.6), data=secure.data)
    captions, folders = [], []
    for each in (secure, stricter):
        folders.append(run(each, tmp_path / each.selector.options["features"], plots=False))
        (picture,) = (picture for picture in read_report(folders[-1]).pictures if picture.key == "graph")
        captions.append(picture.caption)
    (noisy, shown), (strict, _) = drawn
    note = read_records(folders[0])[0]["notes"]["graph"]
    assert np.array_equal(decode_edges(note["edges"], CLIENTS), nx.to_numpy_array(noisy, weight=None) > 0)
    assert shown["edges_per_client"] == CLIENTS
    assert f"{noisy.number_of_edges()} edges, of which" in captions[0]
    assert f"F1 {note['f1']:.3f}). Masks hide each client's counts." in captions[0]
    assert "no differential privacy" in captions[0]
    assert captions[0].endswith("Marked: the last selection of fedgs.")
    assert strict.graph["epsilon"] == 0.6
    assert captions[1] == "The 3DG of the clients' label distributions. Marked: the last selection of fedgs."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"noise": 0.1}, "noise is of the masked similarities; give features = 'secure'"),
        ({"fraction_bits": 4, "features": "update"}, "fraction_bits is of the masked similarities"),
        ({"noise": -1.0, "features": "secure"}, "selector 'fedgs': noise must be a standard deviation"),
        ({"fraction_bits": 40, "features": "secure"}, "selector 'fedgs': fraction_bits must lie in 0 to 31"),
    ],
)
def test_bad_noise_of_a_private_graph_is_a_sentence(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SELECTORS.build("fedgs", build_scenario(experiment("labels")), **options)


def test_few_new_features_give_the_graph_of_all():
    """Client by client, as in a late round, and all at once: the same distances, to the bit."""
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.full(6, 0.4), 50).astype(np.float32)
    for preset in ("reference", "paper"):
        together, apart = (LearnedGraph(50, "functional", preset=preset) for _ in range(2))
        together.observe(dict(enumerate(rows)))
        for client, row in enumerate(rows):
            assert apart.observe({client: row})
        assert np.array_equal(apart.distances, together.distances)
        assert np.array_equal(apart.edges, together.edges)


def test_a_graph_is_built_once():
    graph, rows = LearnedGraph(3, "update"), np.eye(3, dtype=np.float32) + 0.3
    assert graph.observe(dict(enumerate(rows)))
    before = graph.distances
    assert not graph.observe({0: rows[1]})
    assert np.array_equal(graph.distances, before)


def test_edges_as_text():
    edges = np.triu(np.random.default_rng(0).random((9, 9)) < 0.4, 1)
    edges |= edges.T
    assert np.array_equal(decode_edges(encode_edges(edges), 9), edges)


def test_what_is_missing_is_said():
    scenario = build_scenario(replace(experiment("functional"), data=Choice("clustered")), clustered())
    with pytest.raises(ConfigError, match=r"functional features need held-out samples, and clustered has none"):
        SELECTORS.build("fedgs", scenario, features="functional")
    selector = build(experiment("functional")).selector
    selection = selector.select(context(np.ones(CLIENTS)))
    with pytest.raises(ConfigError, match=r"the engine has none of client 0: a simulation without training"):
        selector.update(RoundFeedback(0, selection, outcomes(np.ones(CLIENTS), selection)))
    graph = LearnedGraph(3, "update")
    graph.observe({0: np.ones(4, np.float32)})
    with pytest.raises(ConfigError, match=r"client 1 has shape \(5,\); those before have \(4,\)"):
        graph.observe({1: np.ones(5, np.float32)})
    with pytest.raises(ConfigError, match="warmup must be an integer of at least 0; got -1"):
        FedGS(2, distances=np.ones((3, 3)) - np.eye(3), warmup=-1)
