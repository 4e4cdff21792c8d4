"""Selections and selectors, without any training."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import json
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedselect import rounds, selectors
from fedselect.availability import AVAILABILITY, Independent, ideal
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.data import digits, synthetic
from fedselect.errors import ConfigError, DataError
from fedselect.experiments.folder import load_checkpoint, save_checkpoint
from fedselect.randomness import generator
from fedselect.rounds import simulate
from fedselect.rounds.engine import solution_record
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import E3CS, F3AST, SELECTORS, FedAU, FedGS, Points, Uniform
from fedselect.selectors.base import SelectorBase
from fedselect.selectors.fedgs import outweighed
from graphs import dependency_graph, distances, similarity
from solvers import MissingBackend, UnknownMethod, method, solve
from solvers.dispersion import DispersionProblem
from tests.thoroughly import few_of


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


#: What a federation does not say.
ASKED = {
    "Clairvoyant": {"availability": Independent(np.ones(30), 0), "rounds": 9},
    "FedCS": {"rates": np.ones(30)},
    "OracleF3AST": {"rates": np.ones(30)},
}
KINDS = [kind for name in selectors.__all__ if isinstance(kind := getattr(selectors, name), type)]
KINDS = [kind for kind in KINDS if issubclass(kind, selectors.base.SelectorBase) and kind is not selectors.Batteries]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_selector_is_built_of_a_federation_and_a_size(kind, federation):
    more = {"deadline": 9.0} if kind is selectors.TimedFedCS else {}  # or the clock has one
    selector = kind.of(federation, 4, **ASKED.get(kind.__name__, {}), **more)
    assert type(selector) is kind
    assert getattr(selector, "size", 4) == 4
    if isinstance(importance := getattr(selector, "importance", None), np.ndarray):
        equal = kind in (selectors.FedAU,)
        np.testing.assert_allclose(
            importance, np.full(30, 1 / 30) if equal else federation.sizes / sum(federation.sizes)
        )
    clock = scenario(federation, 4, has_clock=True).clock
    known = replace(context(federation, losses=np.arange(1.0, 31.0)), clock=clock)
    assert selector.select(known).clients.size > 0
    with pytest.raises((TypeError, ConfigError), match=r"sizes|siz"):
        kind.of(federation, 4, **ASKED.get(kind.__name__, {}), siz=3)
    if needed := list(ASKED.get(kind.__name__, {})):
        with pytest.raises(
            ConfigError, match=rf"{kind.__name__}.of needs {needed[0]}=, which a federation does not say"
        ):
            kind.of(federation, 4)


def test_of_takes_importance_by_name_and_refuses_what_it_cannot_begin_with(federation):
    assert selectors.Delta.of(federation, 4, importance="equal").importance == pytest.approx(np.full(30, 1 / 30))
    assert selectors.CSUCBQ.of(federation, 4, owed=0.0).fractions.sum() == 0
    assert selectors.FedSS.of(federation, 4, largest=2).group_sizes.size == 2
    with pytest.raises(ConfigError, match=r"Uniform.of takes a Federation and a size; got 4"):
        Uniform.of(4, 4)
    for kind in (selectors.FedGS, selectors.CoverageGS, selectors.FedSS, selectors.CSUCBQ):
        with pytest.raises(ConfigError, match=rf"{kind.__name__}.of takes a Federation and a size; got 4"):
            kind.of(4, 4)
    with pytest.raises(ConfigError, match="clients to select must be a positive integer; got 0"):
        Uniform.of(federation, 0)
    with pytest.raises(ConfigError, match="importance must be 'samples' or 'equal'; got 'size'"):
        selectors.Delta.of(federation, 4, importance="size")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([2, 1], [0.5, 0.5]), "distinct and sorted"),
        (([1, 1], [0.5, 0.5]), "distinct and sorted"),
        (([0.5, 1.7], [0.5, 0.5]), "clients must be whole numbers"),
        (([[1], [2, 3]], [0.5, 0.5]), "clients must be whole numbers"),
        (([False, True], [0.5, 0.5]), "clients must be whole numbers"),
        ((None, None), "clients must be whole numbers"),
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
#: Studies that other tests import register controls of their own.
OWN = [name for name in SELECTORS.names if SELECTORS[name].__module__.startswith("fedselect.")]


@pytest.mark.parametrize("name", OWN)
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


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("others", [40, 10])
def test_every_selector_refuses_rounds_of_another_number_of_clients(federation, name, others):
    selector = SELECTORS.build(name, scenario(federation, 5, name in NEED_A_CLOCK))
    asked = rounds.context(
        3, np.ones(others, dtype=bool), np.full(others, 9), probe=lambda clients: np.ones(len(clients))
    )
    with pytest.raises(ConfigError, match=rf"this \w+ was built for 30 clients, and round 3 has {others}: build one"):
        selector.select(asked)


@pytest.mark.parametrize(
    "build",
    [
        lambda of, shares: selectors.AFL(5, 30),
        lambda of, shares: selectors.CAFed(importance=shares),
        lambda of, shares: selectors.CSUCBQ(5, fractions=shares),
        lambda of, shares: selectors.ClusteredSampling(5, 30),
        lambda of, shares: selectors.Delta(5, importance=shares),
        lambda of, shares: selectors.E3CS(5, 30),
        lambda of, shares: selectors.F3AST(5, importance=shares),
        lambda of, shares: selectors.FedAU(30),
        lambda of, shares: selectors.FedCBS(5, label_counts=of.label_counts),
        lambda of, shares: selectors.FedCS(5, rates=shares),
        lambda of, shares: selectors.FedSS(5, groups=np.zeros(30, dtype=int)),
        lambda of, shares: selectors.FedGS.of(of, 5),
        lambda of, shares: selectors.OracleF3AST(5, importance=shares, rates=shares),
        lambda of, shares: selectors.Rolling(5, 30),
        lambda of, shares: selectors.SelectAll("unbiased", rates=shares),
        lambda of, shares: selectors.Uniform.of(of, 5),
    ],
)
def test_selectors_built_by_hand_know_their_number_of_clients_too(federation, build):
    selector = build(federation, np.full(30, 1 / 30))
    with pytest.raises(ConfigError, match="was built for 30 clients, and round 0 has 31"):
        selector.select(rounds.context(0, np.ones(31, dtype=bool), np.full(31, 9)))


def test_a_selector_for_other_clients_is_refused_before_the_first_round(federation):
    selector, there = selectors.FedCS(5, rates=np.full(31, 0.5)), Independent(np.ones(30), 0)
    with pytest.raises(ConfigError, match="this FedCS was built for 31 clients, and there are 30: build one"):
        simulate(selector, there, sizes=federation.sizes, rounds=1)
    pytest.importorskip("torch")
    from fedselect.training.fedavg import FedAvg

    with pytest.raises(ConfigError, match="this FedCS was built for 31 clients"):
        FedAvg(federation, selector, there)


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
        problem = DispersionProblem.fedgs(h, counts, mask, 4, 2.0, "turns")
        assert selection.solution.objective == pytest.approx(solve(problem, "cp-sat").objective, abs=1e-9)
        assert selection.clients.tolist() == selection.solution.selected.tolist()
        selector.update(feedback(federation, selection, mask))
        counts[selection.clients] += 1
    assert selector.state_dict()["counts"].tolist() == counts.tolist()


@pytest.mark.parametrize(("n", "size", "points"), few_of([(40, 3, False), (120, 30, False), (1500, 40, True)], 2))
def test_the_default_keeps_counts_more_even_than_a_uniform_draw(n, size, points):
    rng = np.random.default_rng(n)
    mixes = rng.dirichlet(np.full(5, 0.3), n)
    between = Points(mixes, "hellinger") if points else distances(dependency_graph(similarity(mixes)))
    there = Independent(np.full(n, 0.6), 0)
    variances = {}
    for name, selector in (
        ("uniform", Uniform(size)),
        ("default", FedGS(size, distances=between)),
        ("pairs", FedGS(size, distances=between, scale="pairs", method="local-search")),
    ):
        counts = np.zeros(n)
        for done in simulate(selector, there, sizes=np.ones(n, int), rounds=20):
            counts[done.selection.clients] += 1
        variances[name] = counts.var()
    assert variances["default"] < 0.5 * variances["uniform"]  # 0.485 is least for 800 among 1 500
    assert variances["default"] <= variances["pairs"]


def test_alpha_in_turns_is_what_a_swap_can_gain():
    """Selected and not, one pair of clients at the largest distance: the most that a swap gains, in turns."""
    for scale, size in itertools.product(("turns", "pairs", "paper"), (2, 3, 7)):
        n, h = 12, np.zeros((12, 12))
        h[:, 0] = h[0, :] = 1.0
        h[0, 0] = 0.0
        selector = FedGS(size, distances=h, alpha=1.5, scale=scale)
        one = DispersionProblem.fedgs(h, np.zeros(n, int), np.ones(n, bool), size, 1.5, scale)
        apart = np.isin(np.arange(n), range(size))
        alike = np.isin(np.arange(n), range(1, size + 1))
        gain = one.objective(apart.astype(int)) - one.objective(alike.astype(int))
        assert selector.alpha_in_turns == pytest.approx(gain / (2 / (n - 1)))
    assert FedGS(1, distances=h, scale="pairs").alpha_in_turns == 0.0


def test_fedgs_says_once_where_alpha_outweighs_turns(federation, caplog):
    for _ in range(2):
        SELECTORS.build("fedgs", scenario(federation, 2), scale="pairs", alpha=4.0)
    (said,) = [each for each in caplog.messages if each.startswith("FedGS: alpha = 4")]
    assert said == (
        "FedGS: alpha = 4 in scale 'pairs' is worth up to 58 turns, and a client has 6.67 in 100 rounds, so that "
        "distances outweigh the balance of the counts; scale = 'turns' with alpha = 1 keeps counts even"
    )
    caplog.clear()
    SELECTORS.build("fedgs", scenario(federation, 2))
    SELECTORS.build("fedgs", scenario(federation, 10), scale="pairs", alpha=2.0)
    assert not caplog.messages
    assert outweighed(20.0, "turns", 100, 10, 100).endswith("a smaller alpha keeps counts even")


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
    for option, value in (("features", "update"), ("features", "secure"), ("graph", "paper"), ("epsilon", 0.5)):
        for name in ("fedgs", "coverage-gs"):
            given = {"distances_file": str(tmp_path / "h.npy"), option: value}
            with pytest.raises(ConfigError, match=f"'{name}': beside distances_file there is no use for {option}"):
                SELECTORS.build(name, scenario(federation, 3), **given)
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


def test_random_ties_are_drawn_from_all_optima_with_known_probabilities():
    """Two pairs of clients at one place each: four optima of two clients; a wider tolerance has more to draw from."""
    far = np.array([[0, 0, 1, 1, 0.9], [0, 0, 1, 1, 0.9], [1, 1, 0, 0, 0.9], [1, 1, 0, 0, 0.9], [0.9] * 4 + [0]])
    sizes, there = np.ones(5, dtype=int), np.ones(5, dtype=bool)
    seen = set()
    for seed in range(40):
        selector = FedGS(2, distances=far, ties="random")
        found = selector.select(RoundContext(0, there, sizes, np.random.default_rng(seed)))
        assert found.notes["draw"] == {"among": 4, "within": 0.0, "is_all": True}
        assert found.inclusion.tolist() == [0.5, 0.5, 0.5, 0.5, 0.0]
        assert found.solution.status == "optimal"
        assert found.solution.selected.tolist() == found.clients.tolist()
        seen.add(tuple(found.clients.tolist()))
    assert seen == {(0, 2), (0, 3), (1, 2), (1, 3)}
    value = FedGS(2, distances=far).select(RoundContext(0, there, sizes, np.random.default_rng(0))).solution.objective
    wider = FedGS(2, distances=far, ties="random", within=0.5)
    found = wider.select(RoundContext(0, there, sizes, np.random.default_rng(7)))
    assert found.notes["draw"]["among"] == 8
    assert found.inclusion.sum() == pytest.approx(2)
    assert found.inclusion[4] == 0.5
    assert found.solution.objective >= 0.5 * value
    # A method without a pool draws by costs, and knows no probabilities.
    tabu = FedGS(2, distances=far, ties="random", method="tabu")
    found = tabu.select(RoundContext(0, there, sizes, np.random.default_rng(7)))
    assert found.inclusion is None
    assert "draw" not in found.notes
    with pytest.raises(ConfigError, match='within says among which selections ties="random" draws'):
        FedGS(2, distances=far, within=0.1)
    with pytest.raises(ConfigError, match="within must be"):
        FedGS(2, distances=far, ties="random", within=-0.1)


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


# -- how each is built ---------------------------------------------------------------------------------------------

#: Selectors of the package by their class, and the row that `own_loop.md` has of each.
CLASSES = {name: getattr(selectors, name) for name in selectors.__all__}
CLASSES = {name: each for name, each in CLASSES.items() if isinstance(each, type) and issubclass(each, SelectorBase)}
PAGE = (Path(__file__).parents[3] / "docs" / "how_to" / "own_loop.md").read_text(encoding="utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `([A-Z]\w+)\((.*?)\)` \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.M)}


def test_the_page_has_every_constructor_as_it_is():
    assert list(ROWS) == list(CLASSES)
    for name, each in CLASSES.items():
        known = inspect.signature(each).parameters.values()
        required = [one for one in known if one.default is one.empty]
        assert ROWS[name][0] == ", ".join(
            f"{one.name}=..." if one.kind is one.KEYWORD_ONLY else one.name for one in required
        )
        assert ROWS[name][1] == ", ".join(f"`{one.name}`" for one in known if one.default is not one.empty)


@pytest.mark.parametrize("name", [name for name in CLASSES if ROWS[name][2]])
def test_what_a_federation_does_not_say_is_on_the_page(name):
    first = ROWS[name][2].strip("`").split(",")[0]
    with pytest.raises(ConfigError, match=rf"of needs {first}, which a federation does not say"):
        CLASSES[name].of(digits(n_clients=8), 2)


#: What the sentence says of each thing that rounds without training lack.
LACKING = {"losses": "give your own in fedselect.rounds.context", "updates": "without training has no updates"}


@pytest.mark.parametrize("name", [name for name in CLASSES if not ROWS[name][2]])
def test_a_selector_plays_without_training_unless_the_page_says_what_it_lacks(name):
    federation, lacking = digits(n_clients=8), ROWS[name][3]
    played = simulate(CLASSES[name].of(federation, 2), ideal(federation), sizes=federation.sizes, rounds=2)
    with pytest.raises(ConfigError, match=LACKING.get(lacking, "clock")) if lacking else nullcontext():
        assert len(list(played)) == 2


def test_arguments_that_do_not_fit_are_said_with_the_constructor():
    with pytest.raises(
        TypeError, match=r"^FedAU: too many positional .*; write FedAU\(n_clients, \*, cutoff=None, imp"
    ):
        FedAU(5, 100)
    with pytest.raises(
        TypeError, match=r"^E3CS: missing a required argument: 'n_clients'; write E3CS\(size, n_clients"
    ):
        E3CS(5)
    with pytest.raises(
        TypeError, match=r"^F3AST: missing a required .*'importance'; write F3AST\(size, \*, importance"
    ):
        F3AST(5)
    assert copy.deepcopy(F3AST(5, importance=np.full(8, 0.125))).size == 5
