"""DivFL, Fed-CBS, clustered sampling, AFL, DELTA, FedCor, and the selectors that know availability ahead."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from fedselect.availability import Independent
from fedselect.errors import ConfigError, DataError
from fedselect.rounds.engine import simulate
from fedselect.rounds.history import History
from fedselect.rounds.protocol import RoundFeedback
from fedselect.selectors import AFL, Clairvoyant, ClusteredSampling, Delta, DivFL, FedCBS, FedCor, MDSample, Rolling
from fedselect.selectors.base import equal_importance
from fedselect.selectors.clustered import filled_urns, urns_of_groups
from fedselect.selectors.fedcor import correlated_choice, loss_factors
from fedselect.selectors.updates import UpdateStore
from solvers import solve
from solvers.schedule import ScheduleProblem
from tests.fedselect.driving import context, drive, everybody, outcomes


def told(selector, selection, available, updates, round=0, **known):
    """Tell the selector that all of its selected clients returned, with these updates."""
    rows = {int(k): np.asarray(updates[k], dtype=np.float32) for k in selection.clients}
    selector.update(RoundFeedback(round, selection, outcomes(available, selection), updates=rows, **known))


# -- updates and DivFL -------------------------------------------------------------------------------------------------


def test_distances_and_angles_are_those_of_the_latest_updates():
    rng = np.random.default_rng(0)
    store, there = UpdateStore(6, "divfl"), np.ones(6, bool)
    rows = rng.normal(size=(2, 6, 40))
    divfl = DivFL(4, importance=equal_importance(6))
    for t in range(2):
        selection = divfl.select(context(there, t))
        told(store_only(store), selection, there, rows[t], t)
        divfl = DivFL(4, importance=equal_importance(6))
    assert store.known.sum() >= 4
    latest = store._vectors[store.known]
    ids = np.flatnonzero(store.known)
    straight = np.linalg.norm(latest[:, None].astype(float) - latest, axis=2)
    assert store.distances(ids, ids) == pytest.approx(straight, abs=1e-3)
    assert (store.distances(ids, ids).diagonal() == 0).all()
    unit = latest / np.linalg.norm(latest, axis=1)[:, None]
    angles = store.angles(np.arange(6))
    assert np.cos(angles[np.ix_(ids, ids)]) == pytest.approx(unit @ unit.T, abs=1e-5)
    unheard = np.flatnonzero(~store.known)
    assert angles[np.ix_(unheard, ids)] == pytest.approx(np.pi / 2)


def store_only(store):
    class Keeper:
        update = staticmethod(store.observe)

    return Keeper


def test_divfl_hears_everybody_first_and_then_minimises_the_distance_to_the_nearest_selected():
    rng = np.random.default_rng(1)
    there, updates = np.ones(9, bool), rng.normal(size=(9, 5))
    importance = rng.dirichlet(np.ones(9))
    selector = DivFL(3, importance=importance, method="auto")
    heard: set[int] = set()
    for t in range(3):
        selection = selector.select(context(there, t))
        assert not heard & set(selection.clients.tolist())
        heard |= set(selection.clients.tolist())
        told(selector, selection, there, updates, t)
    assert heard == set(range(9))
    there[4] = False  # the clients away are represented all the same
    selection = selector.select(context(there, 3))
    d = np.linalg.norm(updates[:, None] - updates, axis=2)
    candidates = np.flatnonzero(there)
    best = min(itertools.combinations(candidates, 3), key=lambda s: d[:, s].min(axis=1).sum())
    assert selection.clients.tolist() == sorted(best)
    assert selection.solution.status == "optimal"
    owner = selection.clients[d[:, selection.clients].argmin(axis=1)]
    assert selection.weights == pytest.approx([importance[owner == k].sum() for k in selection.clients])


def test_divfl_by_given_features_needs_no_updates_and_equal_clients_stand_for_themselves():
    selector = DivFL(2, importance=equal_importance(4), features=np.zeros((4, 3)))
    selection = selector.select(context(np.ones(4, bool)))
    assert selection.weights == pytest.approx([0.75, 0.25])
    assert selector.state_dict() == {}


def test_divfl_warms_up_on_everybody_and_refuses_a_simulation_without_updates():
    there = np.ones(5, bool)
    selector = DivFL(2, importance=equal_importance(5), warmup=1)
    selection = selector.select(context(there))
    assert selection.clients.tolist() == [0, 1, 2, 3, 4]
    assert not selection.weights.any()
    told(selector, selection, there, np.eye(5))
    assert selector.select(context(there, 1)).clients.size == 2
    with pytest.raises(ConfigError, match="'divfl' compares clients by their updates, and the engine has none"):
        list(drive(DivFL(2, importance=equal_importance(5)), 2, everybody(5)))
    with pytest.raises(ConfigError, match="updates have 3 numbers in round 1; those before have 5"):
        told(selector, selector.select(context(there, 1)), there, np.ones((5, 3)), 1)
    with pytest.raises(ConfigError, match="warmup must be 0 where features are given"):
        DivFL(2, importance=equal_importance(5), features=np.eye(5), warmup=1)
    for features in (np.ones((4, 2)), "labels", [[1.0], [2.0, 3.0]]):
        with pytest.raises(ConfigError, match="one row of numbers for each client"):
            DivFL(2, importance=equal_importance(5), features=features)


# -- Fed-CBS -----------------------------------------------------------------------------------------------------------

FIGURE_3 = [[5] * 6, [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]


def test_fed_cbs_proves_the_papers_figure_and_samples_it_seldom():
    """The balanced client comes first; then the better pair is 25 times as likely as either half of the optimum."""
    there = np.ones(4, bool)
    exact = FedCBS(3, label_counts=FIGURE_3, method="auto").select(context(there))
    assert exact.clients.tolist() == [0, 2, 3]
    assert (exact.solution.objective, exact.solution.status) == (0.0, "optimal")
    sampled = FedCBS(3, label_counts=FIGURE_3)
    found = [sampled.select(context(there, 0, seed=seed)).clients.tolist() for seed in range(120)]
    assert sum(clients == [0, 2, 3] for clients in found) / 120 == pytest.approx(2 / 27, abs=0.1)


def test_fed_cbs_explores_those_seldom_drawn_by_the_papers_bonus():
    counts = [[6, 4], [6, 4], [4, 6]]
    selector = FedCBS(1, label_counts=counts, exploration=50.0)
    selector.counts[:] = [0, 24, 24]
    imbalance = 0.02  # 0.6² + 0.4² − 1/2
    t = 99
    chance = 1 / imbalance + 50.0 * np.sqrt(1.5 * math.log(t + 1) / (selector.counts + 1))
    drawn = [selector.select(context(np.ones(3, bool), t, seed=seed)).clients[0] for seed in range(250)]
    shares = np.bincount(drawn, minlength=3) / 250
    assert shares == pytest.approx(chance / chance.sum(), abs=4 * math.sqrt(0.25 / 250))


def test_fed_cbs_refuses_clients_without_samples():
    with pytest.raises(DataError, match="every client must have a sample; client 1 has none"):
        FedCBS(1, label_counts=[[1, 2], [0, 0]])
    with pytest.raises(ConfigError, match="exploration must be a number of at least 0; got -1"):
        FedCBS(1, label_counts=[[1, 2]], exploration=-1)


# -- clustered sampling ------------------------------------------------------------------------------------------------


def test_urns_have_exact_marginals_and_less_variance_than_draws_from_one_distribution():
    rng = np.random.default_rng(2)
    for _ in range(60):
        n, m = int(rng.integers(2, 12)), int(rng.integers(1, 14))
        sizes = rng.integers(1, 50, n) ** int(rng.integers(1, 3))
        by_size, shares = np.zeros((m, n), dtype=np.int64), m * sizes
        filled_urns(shares, by_size, np.argsort(-sizes, kind="stable"))
        assert not shares.any()
        by_group = urns_of_groups(sizes, m, linkage(rng.normal(size=(n, 3)), "ward"))
        for urns in (by_size, by_group):
            assert urns.min() >= 0
            assert urns.sum(axis=1).tolist() == [sizes.sum()] * m
            assert urns.sum(axis=0).tolist() == (m * sizes).tolist()
            chance, p = urns / sizes.sum(), sizes / sizes.sum()
            assert ((chance * (1 - chance)).sum(axis=0) <= m * p * (1 - p) + 1e-12).all()


def test_groups_of_alike_clients_have_an_urn_each():
    # Sizes 1: four clients, two urns; the dendrogram pairs 0 with 2 and 1 with 3.
    merges = linkage(np.array([[0.0], [9.0], [0.1], [9.1]]), "ward")
    assert urns_of_groups(np.ones(4, np.int64), 2, merges).tolist() in (
        [[2, 0, 2, 0], [0, 2, 0, 2]],
        [[0, 2, 0, 2], [2, 0, 2, 0]],
    )


@pytest.mark.parametrize("by", ["sizes", "updates"])
def test_clustered_sampling_is_unbiased_over_those_present(by):
    rng = np.random.default_rng(3)
    there, sizes = np.array([1, 1, 0, 1, 1, 1, 1], bool), np.array([5, 10, 99, 20, 40, 3, 90])
    selector = ClusteredSampling(4, 7, by=by)
    if by == "updates":
        told(selector, selector.select(context(there, sizes=sizes)), there, rng.normal(size=(7, 4)))
    total, seen, draws = np.zeros(7), np.zeros(7), 400
    for seed in range(draws):
        selection = selector.select(context(there, 1, sizes, seed))
        total[selection.clients] += selection.weights
        seen[selection.clients] += 1
        assert selection.weights.sum() == pytest.approx(1.0)
    target = np.where(there, sizes, 0) / sizes[there].sum()
    spread = np.sqrt(target * (1 - target) / 4 / draws)
    assert (np.abs(total / draws - target) <= 5 * spread).all()
    assert (np.abs(seen / draws - selection.inclusion) <= 5 * np.sqrt(0.25 / draws)).all()
    once = MDSample(4).select(context(there, 1, sizes)).inclusion
    assert selection.inclusion.sum() >= once.sum()  # more different clients


def test_the_codes_linkage_clusters_rows_of_the_matrix():
    rng = np.random.default_rng(4)
    there, updates = np.ones(8, bool), rng.normal(size=(8, 3))
    urns = {}
    for convention in ("paper", "code"):
        selector = ClusteredSampling(8, 8, by="updates", convention=convention)
        for t in range(6):
            told(selector, selector.select(context(there, t)), there, updates, t)
        selector.size = 3
        urns[convention] = selector._urns(np.full(8, 10), np.arange(8))
    assert urns["paper"].sum(axis=0).tolist() == urns["code"].sum(axis=0).tolist() == [30] * 8
    with pytest.raises(ConfigError, match="the convention is of the clustering by updates"):
        ClusteredSampling(3, 8, convention="code")


# -- AFL and DELTA -----------------------------------------------------------------------------------------------------


def test_afl_leaves_out_the_smallest_valuations_but_for_the_uniform_share():
    sizes, loss = np.array([4, 4, 4, 16, 16, 100]), np.array([1.0, 2.0, 3.0, 1.0, 3.0, 0.1])
    there = np.ones(6, bool)
    greedy = AFL(2, 6, excluded=0.6, temperature=1e3, uniform=0.0)
    selection = greedy.select(context(there, 0, sizes, losses=loss))
    assert greedy.valuations.tolist() == [2.0, 4.0, 6.0, 4.0, 12.0, 1.0]  # √n · loss
    assert selection.clients.tolist() == [2, 4]
    assert selection.weights == pytest.approx([4 / 20, 16 / 20])
    told(greedy, selection, there, np.zeros((6, 1)), losses={2: 9.0, 4: 0.5}, received_losses={4: 1.0})
    assert greedy.valuations.tolist() == [2.0, 4.0, 18.0, 4.0, 4.0, 1.0]
    drawn = [
        AFL(2, 6, excluded=0.7, uniform=0.5).select(context(there, 0, sizes, seed=s, losses=loss)) for s in range(9)
    ]
    assert len({client for selection in drawn for client in selection.clients.tolist()}) > 3
    with pytest.raises(ConfigError, match="'afl' asks clients for their losses"):
        AFL(2, 6).select(context(there))


def test_afl_draws_in_proportion_to_exponentials():
    loss = np.log([1.0, 2.0, 4.0, 1.0])
    there, sizes = np.ones(4, bool), np.ones(4, int)
    first = [
        AFL(1, 4, excluded=0.0, temperature=1.0, uniform=0.0).select(context(there, 0, sizes, s, loss)).clients[0]
        for s in range(400)
    ]
    assert np.bincount(first, minlength=4) / 400 == pytest.approx([1 / 8, 2 / 8, 4 / 8, 1 / 8], abs=0.1)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_never_learnt(bad):
    """Losses and durations are refused by the feedback, whoever reads it, updates by whoever compares them."""
    there, rows = np.ones(4, bool), np.ones((4, 3))
    afl = AFL(4, 4)
    selection = afl.select(context(there, losses=np.ones(4)))
    before = afl.valuations.copy()
    for name in ("losses", "received_losses", "durations"):
        with pytest.raises(ConfigError, match=f"^{name} of client 2 must be a finite number; got {bad}"):
            told(afl, selection, there, rows, **{name: {0: 1.0, 2: bad}})
    assert (afl.valuations == before).all()
    told(afl, selection, there, rows, losses={0: 1e308, 2: 1e308})  # finite each, and not their sum
    rows[3, 1] = bad
    for selector in (
        Delta(4, importance=equal_importance(4)),
        DivFL(4, importance=equal_importance(4)),
        ClusteredSampling(4, 4, by="updates"),
    ):
        with pytest.raises(ConfigError, match="that of client 3 in round 0 has numbers that are not finite"):
            told(selector, selection, there, rows)


def test_delta_draws_by_diversity_and_is_unbiased():
    there, importance = np.ones(4, bool), np.array([0.1, 0.2, 0.3, 0.4])
    selector = Delta(6, importance=importance, smoothing=0.0)
    updates = np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 4.0], [1.0, 0.0]])
    for t in range(40):
        selection = selector.select(context(there, t))
        if selection.clients.size == 4:
            break
    told(selector, selection, there, updates, t)
    assert selector.diversity == pytest.approx(np.linalg.norm(updates - updates.mean(axis=0), axis=1))
    p = importance * selector.diversity / (importance * selector.diversity).sum()
    total, draws = np.zeros(4), 500
    for seed in range(draws):
        selection = selector.select(context(there, 1, seed=seed))
        total[selection.clients] += selection.weights
    assert selection.inclusion == pytest.approx(1 - (1 - p) ** 6, abs=1e-5)
    spread = importance * np.sqrt((1 - p) / p / 6 / draws)
    assert (np.abs(total / draws - importance) <= 5 * spread).all()
    with pytest.raises(ConfigError, match="'delta' compares clients by their updates"):
        list(drive(Delta(2, importance=importance), 1, everybody(4)))


# -- FedCor ------------------------------------------------------------------------------------------------------------


def test_the_choice_is_the_greedy_one_of_the_gaussian_process():
    rng = np.random.default_rng(5)
    for _ in range(20):
        factors, weights, noise = rng.normal(size=(3, 9)), rng.dirichlet(np.ones(9)), 0.2
        discount, allowed = rng.uniform(0.5, 1, 9), rng.random(9) < 0.8
        sigma, chosen = factors.T @ factors + noise * np.eye(9), []
        for _ in range(int(allowed.sum())):
            score = discount * (sigma @ weights) / np.sqrt(np.maximum(sigma.diagonal(), 1e-12 * noise))
            score[~allowed | np.isin(np.arange(9), chosen)] = -np.inf
            k = int(score.argmax())
            sigma = sigma - np.outer(sigma[k], sigma[k]) / sigma[k, k]
            chosen.append(k)
        assert correlated_choice(factors, noise, weights, discount, allowed, len(chosen)).tolist() == chosen


def test_factors_are_the_maximum_likelihood_ones():
    rng = np.random.default_rng(6)
    truth = rng.normal(size=(2, 30))
    changes = rng.normal(size=(4000, 2)) @ truth + 0.1 * rng.normal(size=(4000, 30))
    factors, noise = loss_factors(changes, 2, 1e-9)
    assert noise == pytest.approx(0.01, rel=0.05)
    assert factors.T @ factors == pytest.approx(truth.T @ truth, abs=0.15 * np.abs(truth.T @ truth).max())
    assert loss_factors(np.full((3, 5), np.nan), 2, 0.01)[0].shape == (2, 5)


def test_fedcor_measures_in_uniform_rounds_alone():
    asked = []
    rng = np.random.default_rng(7)
    selector = FedCor(2, importance=equal_importance(6), warmup=3, interval=4)
    for t in range(12):
        asked_before = len(asked)
        round = context(np.ones(6, bool), t, losses=rng.random(6))
        inner = round.probe
        object.__setattr__(round, "probe", lambda clients, inner=inner, t=t: asked.append(t) or inner(clients))
        selection = selector.select(round)
        told(selector, selection, np.ones(6, bool), np.zeros((6, 1)), t)
        assert len(asked) - asked_before == (t in (0, 1, 2, 3, 4, 5, 8, 9))
    assert len(selector.changes) == 5  # after rounds 0, 1, 2, 4 and 8
    assert selector.chosen.sum() == 2 * 3  # of rounds 9, 10 and 11, since the last measurement


# -- availability known ahead ------------------------------------------------------------------------------------------


def played(selector, rates, rounds, size=3):
    availability = Independent(np.asarray(rates), 0)
    history = History.collect(
        simulate(selector, availability, sizes=np.ones(len(rates), int), rounds=rounds), len(rates)
    )
    table = np.array([availability.available(t) for t in range(rounds)])
    return history.counts.var(), solve(ScheduleProblem(table, size)).objective


def test_the_clairvoyant_reaches_the_least_variance_and_who_knows_less_does_not_beat_it():
    rates = np.random.default_rng(8).beta(0.5, 1.0, 15)
    availability = Independent(rates, 0)
    clairvoyant = Clairvoyant(3, 15, availability=availability, rounds=30)
    variance, least = played(clairvoyant, rates, 30)
    assert variance == pytest.approx(least)
    seeing = Rolling(3, 15, horizon=30, forecast="known", availability=availability)
    assert played(seeing, rates, 30)[0] == pytest.approx(least)
    for forecast in ("rates", "persistent"):
        assert played(Rolling(3, 15, forecast=forecast), rates, 30)[0] >= least - 1e-12
    greedy, _ = played(Rolling(3, 15, horizon=1), rates, 30)
    assert greedy >= least - 1e-12


def test_the_clairvoyant_plans_anew_where_others_are_there_and_after_the_last_round():
    availability = Independent(np.ones(6), 0)
    selector = Clairvoyant(2, 6, availability=availability, rounds=3)
    first = np.array([0, 0, 1, 1, 1, 1], bool)  # two are not connected
    for t in range(9):
        mask = first if t == 0 else np.ones(6, bool)
        selection = selector.select(context(mask, t))
        assert mask[selection.clients].all()
        told(selector, selection, mask, np.zeros((6, 1)), t)
    assert selector.counts.tolist() == [3] * 6


def test_bad_options_are_sentences():
    with pytest.raises(ConfigError, match="forecast must be 'known', 'persistent' or 'rates'; got 'oracle'"):
        Rolling(2, 5, forecast="oracle")
    with pytest.raises(ConfigError, match="horizon must be a positive integer; got 0"):
        Rolling(2, 5, horizon=0)
    with pytest.raises(ConfigError, match=r"forecast 'known' looks .* up in the run's availability: give it"):
        Rolling(2, 5, forecast="known")
    with pytest.raises(ConfigError, match="by must be 'sizes' or 'updates'; got 'labels'"):
        ClusteredSampling(2, 5, by="labels")
    with pytest.raises(ConfigError, match=r"excluded must lie in \[0, 1\); got 1"):
        AFL(2, 5, excluded=1.0)
    with pytest.raises(ConfigError, match="the number of clients must be a positive integer; got -5"):
        AFL(2, -5)
    with pytest.raises(ConfigError, match="interval must be an integer of at least 2; got 1"):
        FedCor(2, importance=equal_importance(5), interval=1)
