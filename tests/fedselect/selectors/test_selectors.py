"""Selections and selectors, without any training."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.data import digits, synthetic
from fedselect.errors import ConfigError, DataError
from fedselect.experiments.folder import load_checkpoint, save_checkpoint
from fedselect.randomness import generator
from fedselect.rounds.engine import solution_record
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS, FedGS, Uniform
from graphs import dependency_graph, distances, similarity
from solvers import MissingBackend, UnknownMethod, method, solve
from solvers.dispersion import DispersionProblem


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=30)


def scenario(federation, size, has_clock=False):
    availability = AVAILABILITY.build("ideal", federation, 0)
    clock = Clock(lognormal(len(federation)), federation.sizes, ClockSettings(model_bytes=1000)) if has_clock else None
    return Scenario(federation.sizes, availability, clock=clock, size=size, rounds=100, data=federation)


def context(federation, round=0, available=None, seed=0, losses=None):
    n = len(federation)
    mask = np.ones(n, dtype=bool) if available is None else np.asarray(available, dtype=bool)
    rng = generator(seed, "selector", round)
    probe = None if losses is None else lambda clients: losses[list(clients)]
    return RoundContext(round, mask, federation.sizes, rng, time_limit=5.0, probe=probe)


def feedback(federation, selection, available=None, returned=None, round=0):
    mask = np.ones(len(federation), dtype=bool) if available is None else available
    back = np.ones(len(federation), dtype=bool) if returned is None else returned
    outcomes = np.where(mask, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
    chosen = selection.clients
    outcomes[chosen] = np.where(back[chosen], Outcome.RETURNED, Outcome.MISSING)
    norms = {int(i): 1.0 + int(i) % 7 for i in chosen if back[i]}
    updates = {i: np.sin(np.arange(1.0, 9.0) * (i + 1)).astype(np.float32) for i in norms}
    return RoundFeedback(round, selection, outcomes, norms, norms, updates=updates)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([2, 1], [0.5, 0.5]), "distinct and sorted"),
        (([1, 1], [0.5, 0.5]), "distinct and sorted"),
        (([1, 2], [1.0]), "one finite weight per client, 2"),
        (([1, 2], [1.0, math.nan]), "one finite weight per client, 2"),
        (([1, 2], [1.0, 1.0], None, "drop"), "on_failure must be 'keep' or 'renormalise'; got 'drop'"),
    ],
)
def test_bad_selections_are_sentences(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Selection(*arguments)


def test_weights_of_those_that_fail():
    keep = Selection([1, 4, 6], [0.5, 0.3, 0.2])
    scale = Selection([1, 4, 6], [0.5, 0.3, 0.2], on_failure="renormalise")
    back = np.array([True, False, True])
    assert keep.applied_weights(back).tolist() == [0.5, 0, 0.2]
    assert scale.applied_weights(back) == pytest.approx([0.5 / 0.7, 0, 0.2 / 0.7])
    assert scale.applied_weights(np.zeros(3, bool)).tolist() == [0, 0, 0]
    assert scale.applied_weights(np.ones(3, bool)) == pytest.approx([0.5, 0.3, 0.2])


#: Selectors that weigh everybody who is there, and those that draw fewer at times; all others select min(m, |A|).
EVERYBODY = {"adafed", "all-available", "average-all", "average-participating", "fedau", "known-participation"}
EVERYBODY |= {"unbiased"}
FEWER = {"ca-fed", "clustered-sampling", "delta", "md-sample", "tifl"}
NEED_A_CLOCK = {"tifl"}


@pytest.mark.parametrize("name", SELECTORS.names)
def test_every_selector_keeps_the_contract(federation, name, tmp_path):
    """Only available clients, sorted, as many as promised; nobody when nobody is there; a checkpoint resumes it."""
    assert set(SELECTORS.names) >= EVERYBODY | FEWER | NEED_A_CLOCK
    world = scenario(federation, 5, name in NEED_A_CLOCK)
    selector, restored = (SELECTORS.build(name, world) for _ in range(2))
    rng = np.random.default_rng(1)
    for t in range(12):
        mask = rng.random(30) < 0.3 if t != 2 else np.zeros(30, dtype=bool)
        back = rng.random(30) < 0.8
        asked = dataclasses.replace(context(federation, t, mask, losses=rng.random(30)), clock=world.clock)
        if t == 8:
            save_checkpoint(tmp_path / "state.npz", selector.state_dict())
            restored.load_state_dict(load_checkpoint(tmp_path / "state.npz"))
        selection = selector.select(asked)
        there = int(mask.sum())
        if name in EVERYBODY:
            assert selection.clients.size == there
        elif name in FEWER:
            assert (there > 0) <= selection.clients.size <= there
        else:
            assert selection.clients.size == min(5, there)
        assert mask[selection.clients].all()
        assert (selection.weights > 0).all()
        if selection.inclusion is not None:
            assert not selection.inclusion[~mask].any()
            if name not in FEWER:
                assert selection.inclusion.sum() == pytest.approx(selection.clients.size)
        if selection.solution is not None:
            json.dumps(solution_record(selection.solution), allow_nan=False)  # it goes into the run's record
        if t >= 8:
            again = restored.select(dataclasses.replace(asked, rng=generator(0, "selector", t)))
            assert np.array_equal(again.clients, selection.clients)
            assert np.array_equal(again.weights, selection.weights)
            restored.update(feedback(federation, again, mask, back, t))
        selector.update(feedback(federation, selection, mask, back, t))


def test_uniform_draws_everyone_alike(federation):
    """2 000 draws of 5 of 30: expected 333 each, standard deviation 16.7; five of them are allowed."""
    selector = Uniform(5)
    counts = np.zeros(30)
    for t in range(2000):
        counts[selector.select(context(federation, t)).clients] += 1
    assert np.abs(counts - 2000 * 5 / 30).max() < 5 * math.sqrt(2000 * (1 / 6) * (5 / 6))


def test_weights_are_data_shares(federation):
    selection = Uniform(5).select(context(federation))
    sizes = federation.sizes[selection.clients]
    assert selection.weights == pytest.approx(sizes / sizes.sum())


def test_fedgs_solves_the_stated_problem(federation):
    h = distances(dependency_graph(similarity(federation.label_distributions)))
    selector = FedGS(4, distances=h, alpha=2.0, method="brute-force")
    rng = np.random.default_rng(0)
    counts = np.zeros(30, dtype=int)
    for t in range(5):
        mask = rng.random(30) < 0.4
        selection = selector.select(context(federation, t, mask))
        problem = DispersionProblem.fedgs(h, counts, mask, 4, 2.0)
        assert selection.solution.objective == pytest.approx(solve(problem, "cp-sat").objective, abs=1e-9)
        assert selection.clients.tolist() == selection.solution.selected.tolist()
        selector.update(feedback(federation, selection, mask))
        counts[selection.clients] += 1
    assert selector.state_dict()["counts"].tolist() == counts.tolist()


def test_fedgs_without_distances_takes_the_least_selected(federation):
    selector = SELECTORS.build("fedgs", scenario(federation, 10), alpha=0.0)
    for t in range(9):
        selection = selector.select(context(federation, t))
        selector.update(feedback(federation, selection))
    assert selector.counts.tolist() == [3] * 30


def test_bound_by_puts_a_bound_beside_a_heuristic_and_changes_nothing_else(federation):
    plain = SELECTORS.build("fedgs", scenario(federation, 5), method="greedy").select(context(federation))
    builder = SELECTORS.build("fedgs", scenario(federation, 5), method="greedy", bound_by="brute-force")
    certified = builder.select(context(federation))
    assert plain.solution.bound is None
    assert certified.clients.tolist() == plain.clients.tolist()
    exact = SELECTORS.build("fedgs", scenario(federation, 5), method="brute-force").select(context(federation))
    assert certified.solution.bound == pytest.approx(exact.solution.objective, abs=1e-9)
    assert certified.solution.bound_by == "brute-force"


def test_an_interrupted_solve_stops_the_one_who_trains(federation, scratch_registry):
    @method(DispersionProblem, "interrupted-for-the-test", kind="relaxation")
    def interrupted(problem, run):
        raise KeyboardInterrupt

    for options in (
        {"method": "interrupted-for-the-test"},
        {"method": "greedy", "bound_by": "interrupted-for-the-test"},
    ):
        selector = SELECTORS.build("fedgs", scenario(federation, 6), **options)
        with pytest.raises(KeyboardInterrupt):
            selector.select(context(federation))


def test_a_method_that_decides_nothing_is_named(federation, scratch_registry):
    @method(DispersionProblem, "undecided-for-the-test", kind="heuristic")
    def undecided(problem, run):
        """Offer nothing."""

    selector = SELECTORS.build("fedgs", scenario(federation, 6), method="undecided-for-the-test")
    with pytest.raises(ConfigError, match="'undecided-for-the-test' found no decision in round 0"):
        selector.select(context(federation))


def test_distances_from_a_file(federation, tmp_path):
    h = np.ones((30, 30)) - np.eye(30)
    np.save(tmp_path / "h.npy", h)
    np.savetxt(tmp_path / "h.csv", h, delimiter=",")
    for name in ("h.npy", "h.csv"):
        selector = SELECTORS.build("fedgs", scenario(federation, 3), distances_file=str(tmp_path / name))
        assert np.array_equal(selector.distances, h)
    with pytest.raises(DataError, match=r"cannot read distances from .*none.npy"):
        SELECTORS.build("fedgs", scenario(federation, 3), distances_file=str(tmp_path / "none.npy"))
    np.save(tmp_path / "small.npy", h[:5, :5])
    with pytest.raises(DataError, match="30 clients need a square matrix"):
        SELECTORS.build("fedgs", scenario(federation, 3), distances_file=str(tmp_path / "small.npy"))


def test_fedgs_can_take_what_generated_the_data(federation):
    """On Synthetic(α, β) the authors' features are each client's own true model, not its labels."""
    generated = synthetic(n_clients=12)
    selector = SELECTORS.build("fedgs", scenario(generated, 3), features="parameters")
    expected = distances(dependency_graph(similarity(generated.parameters), preset="reference"))
    assert np.array_equal(selector.distances, expected)
    with pytest.raises(ConfigError, match="digits has no generating parameters"):
        SELECTORS.build("fedgs", scenario(federation, 3), features="parameters")
    with pytest.raises(ConfigError, match=r"option 'features' must be 'labels' or .* or 'update'; got 'models'"):
        SELECTORS.build("fedgs", scenario(federation, 3), features="models")


def test_fedgs_refuses_at_construction():
    h = np.ones((5, 5)) - np.eye(5)
    bad = h.copy()
    bad[1, 2] = np.nan
    with pytest.raises(DataError, match=r"entry \(1, 2\) is nan"):
        FedGS(2, distances=bad)
    bad[1, 2] = 0.5
    with pytest.raises(DataError, match=r"symmetric; entry \(1, 2\) is 0.5"):
        FedGS(2, distances=bad)
    with pytest.raises(UnknownMethod, match="no method 'exact'"):
        FedGS(2, distances=h, method="exact")
    with pytest.raises(ConfigError, match="must be a positive integer; got 0"):
        FedGS(0, distances=h)
    with pytest.raises(ConfigError, match="time_limit must be a positive"):
        FedGS(2, distances=h, time_limit=0)


def test_a_missing_backend_is_named_at_construction(scratch_registry):
    @method(DispersionProblem, "needs-what-is-missing", kind="exact", requires="no_such_xyz", install="fedselect[xyz]")
    def needs(problem, run):
        """Need what is not there."""

    with pytest.raises(MissingBackend, match=r"pip install '.*\[xyz\]'"):
        FedGS(1, distances=np.zeros((3, 3)), method="needs-what-is-missing")


def test_ties_are_broken_at_random_by_seed_and_round():
    """Of equal counts and no distances every selection is optimal: the lowest ids under every seed, or others."""
    far = np.zeros((8, 8))
    sizes, there = np.ones(8, dtype=int), np.ones(8, dtype=bool)

    def selected(ties, seed, t=0):
        selector = FedGS(2, distances=far, alpha=1.0, ties=ties)
        context = RoundContext(t, there, sizes, np.random.default_rng([seed, t]))
        return tuple(selector.select(context).clients.tolist())

    assert len({selected("id", seed) for seed in range(6)}) == 1
    assert len({selected("random", seed) for seed in range(12)}) > 4
    assert selected("random", 3, 1) == selected("random", 3, 1)
    counts = FedGS(2, distances=far, ties="random")
    counts.counts[:6] = 1  # one turn is more than any tie
    for seed in range(5):
        found = counts.select(RoundContext(0, there, sizes, np.random.default_rng(seed)))
        assert found.clients.tolist() == [6, 7]
        assert found.solution.objective == pytest.approx(
            counts.geometry.state(counts.counts, there, 2, 1.0, "pairs").objective(np.isin(np.arange(8), [6, 7])),
            abs=1e-6,
        )
    with pytest.raises(ConfigError, match="ties must be 'id' or 'random'; got 'coin'"):
        FedGS(2, distances=far, ties="coin")


@pytest.mark.parametrize("graph", ["reference", "paper"])
def test_fedgs_of_a_federation_is_the_configured_one(federation, graph):
    mine = FedGS.of(federation, 5, graph=graph, method="local-search")
    configured = SELECTORS.build("fedgs", scenario(federation, 5), graph=graph, method="local-search")
    for t in range(4):
        chosen = [each.select(context(federation, t)) for each in (mine, configured)]
        assert chosen[0].clients.tolist() == chosen[1].clients.tolist()
        for each, selection in zip((mine, configured), chosen, strict=True):
            each.update(feedback(federation, selection, round=t))


def test_a_constructor_is_the_configuration(scratch_registry, federation, restoring):
    """What a scenario knows is filled in by name; importance and constraints are stated as text and table."""
    restoring(SELECTORS)

    @SELECTORS.register("mine")
    class Mine(Uniform):
        def __init__(self, size, n_clients, rounds, *, importance, constraints=None, label_counts=None, rate=0.5):
            super().__init__(size)
            self.given = (n_clients, rounds, importance.sum(), constraints, label_counts.shape, rate)

    assert SELECTORS.options("mine") == {
        "importance": "samples",
        "constraints": None,
        "clients_file": None,
        "rate": 0.5,
    }
    built = SELECTORS.build("mine", scenario(federation, 5), importance="equal", rate=0.25)
    assert built.given == (30, 100, pytest.approx(1.0), None, federation.label_counts.shape, 0.25)
    with pytest.raises(ConfigError, match="option 'importance' must be 'samples' or 'equal'"):
        SELECTORS.build("mine", scenario(federation, 5), importance="most")
