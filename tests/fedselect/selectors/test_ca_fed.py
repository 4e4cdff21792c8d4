"""CA-Fed, its estimators and the baselines of its comparison, without training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import Samples, digits
from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import F3AST, SELECTORS, CAFed, ChainEstimates, KnownChains, OracleF3AST, SelectAll
from fedselect.selectors.base import availability_rates
from solvers import UnknownMethod, solve
from tests.fedselect.driving import bernoulli, context, drive, everybody, outcomes
from tests.thoroughly import few_of


def chains(availability, correlation, rounds, clients, seed=0):
    """Two-state chains with stationary rate and eigenvalue, started stationary; (rounds, clients) of bool."""
    rng = np.random.default_rng(seed)
    state = rng.random(clients) < availability
    history = np.empty((rounds, clients), dtype=bool)
    for t in range(rounds):
        history[t] = state
        state = rng.random(clients) < correlation * state + (1 - correlation) * availability
    return history


def observed(history, **options):
    estimates = ChainEstimates(history.shape[1], **options)
    for t, mask in enumerate(history):
        estimates.observe(t, mask)
    return estimates


@pytest.mark.parametrize(("rounds", "mean"), [(150, 0.71), (2000, 0.89)])
def test_correlation_is_estimated_consistently(rounds, mean):
    """(π, λ) = (0.9, 0.9) with Beta(1, 1): means of an independent simulation; 1 000 chains."""
    estimates = observed(chains(0.9, 0.9, rounds, 1000))
    assert estimates.correlation.mean() == pytest.approx(mean, abs=0.015)
    assert estimates.availability.mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("correlation", "rounds", "mean"), [(0.9, 50, 0.59), (0.9, 150, 0.35), (0.9, 2000, 0.025), (0.0, 150, -0.11)]
)
def test_the_authors_estimator_is_not_consistent(correlation, rounds, mean):
    """Both rows over all rounds, prior of 100 rounds at the truth: it tends to −2π(1 − π)(1 − λ)."""
    truth = {"availability": 0.9, "correlation": correlation}
    estimates = observed(chains(0.9, correlation, rounds, 1000), strength=100.0, denominator="total", **truth)
    assert estimates.correlation.mean() == pytest.approx(mean, abs=0.01)


def test_estimates_by_hand():
    """Client 0: 1 1 0 1; client 1: 0 0 0 0. Beta(1, 1): π̂ = (3 + 1)/6, rows 1/2 → (1 + 1)/4, 0/1 → (0 + 1)/3."""
    estimates = observed(np.array([[1, 0], [1, 0], [0, 0], [1, 0]], dtype=bool))
    assert estimates.availability == pytest.approx([4 / 6, 1 / 6])
    assert estimates.correlation == pytest.approx([1 / 2 + 1 / 3 - 1, 1 / 2 + 4 / 5 - 1])


def test_before_anything_is_seen_chains_are_uncorrelated():
    assert ChainEstimates(3).correlation.tolist() == [0, 0, 0]
    with pytest.raises(ConfigError, match="denominator must be 'row' or 'total'"):
        ChainEstimates(3, denominator="column")
    with pytest.raises(ConfigError, match="strength must be a positive number; got 0"):
        ChainEstimates(3, strength=0)
    for prior in ([0.5, 0.5], "half"):
        with pytest.raises(ConfigError, match="the prior must be one number, or one for each of 3 clients"):
            ChainEstimates(3, availability=prior)
    with pytest.raises(ConfigError, match=r"the availability must lie in \[0, 1\]; client 1 has 2.0"):
        KnownChains([0.5, 2.0], [0.0, 0.0])
    with pytest.raises(ConfigError, match=r"the correlation must lie in \[-1, 1\]; got \[0.0, 5.0\]"):
        KnownChains([0.5, 0.5], [0.0, 5.0])


def run(selector, masks, losses):
    """Select round after round; the selections."""
    selections = []
    for t, (mask, loss) in enumerate(zip(masks, losses, strict=True)):
        selection = selector.select(context(mask, t, losses=loss))
        selector.update(RoundFeedback(t, selection, outcomes(mask, selection)))
        selections.append(selection)
    return selections


def test_loss_estimates_by_hand():
    """β = 0.5. Client 2 is first seen in round 1: it has the mean of round 0, and its first loss is filtered."""
    selector = CAFed(importance=np.full(3, 1 / 3), beta=0.5)
    masks = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
    losses = np.array([[2.0, 4.0, 9.0], [9.0, 2.0, 5.0], [3.0, 5.0, 1.0]])
    gaps = []
    for selection in run(selector, masks, losses):
        gaps.append(selection.solution.problem.loss_gaps.tolist())
    assert gaps[0] == [0, 0, 0]
    assert gaps[1] == [0, 0, 1]  # client 1: 4 → 3, its new minimum; client 2: 3 → 4, above its minimum 3
    # Client 0: 2 → 2.5, minimum 2. Client 1: 3 → 4, minimum 3. Client 2: 4 → 2.5, its minimum.
    assert gaps[2] == [0.5, 1.0, 0.0]
    assert selection.solution.problem.gamma == 1.0


def published_ca_fed(importance, availability, order, masks, losses, beta, weak):
    """Algorithm 1 with Eqs. 15-19 as printed, for known π and λ: the selected clients of every round.

    ``weak`` decides an exclusion that changes nothing (the paper's ≥ at τ = 0). Shares no code with the package.
    """
    n, estimate, minimum, chosen = len(importance), None, None, []
    for mask, observed in zip(masks, losses, strict=True):
        if not mask.any():
            chosen.append([])
            continue
        if estimate is None:
            estimate = [observed[k] if mask[k] else observed[mask].mean() for k in range(n)]
            minimum = list(estimate)
        else:
            for k in range(n):
                if mask[k]:
                    estimate[k] = (1 - beta) * estimate[k] + beta * observed[k]
                    minimum[k] = min(minimum[k], estimate[k])

        def error(q, estimate=estimate, minimum=minimum):
            biased = [availability[k] * q[k] for k in range(n)]
            biased = [each / sum(biased) for each in biased]
            gap = [estimate[k] - minimum[k] for k in range(n)]
            distance = sum(abs(importance[k] - biased[k]) for k in range(n)) / 2
            return sum(gap[k] * biased[k] for k in range(n)) + distance**2 * max(gap)

        q = [importance[k] / availability[k] for k in range(n)]
        for ranking in order:
            for k in ranking:
                without = [0.0 if j == k else q[j] for j in range(n)]
                if q[k] == 0 or not any(without):
                    continue
                gain = error(q) - error(without)
                if gain > 1e-12 or (weak and gain > -1e-12):
                    q = without
        chosen.append([k for k in range(n) if mask[k] and q[k] > 0])
    return chosen


@pytest.mark.parametrize("beta", few_of([0.2, 0.8], 1))  # the paper's, and that of the scripts' smoothness 0.2
def test_selections_are_those_of_the_published_recursion(beta):
    """24 clients of the paper's classes, half of them seldom there: many are first seen late in the run."""
    rng = np.random.default_rng(3)
    availability, correlation = np.repeat([0.9, 0.1], 12), np.tile([0.9, 0.0], 12)
    importance = rng.dirichlet(np.full(24, 8.0))  # unequal, so that no two exclusions tie
    masks = chains(availability, correlation, 150, 24, seed=5)
    assert np.argmax(masks, axis=0).max() > 10
    losses = 0.7 * np.exp(-np.arange(150)[:, None] / 60) + 0.3 * rng.random((150, 24)) + 0.2 * rng.random(24)
    rankings = [np.argsort(-correlation, kind="stable"), np.argsort(availability, kind="stable")]
    expected = published_ca_fed(importance, availability, rankings, masks, losses, beta, weak=False)
    selector = CAFed(importance=importance, chains=KnownChains(availability, correlation), beta=beta)
    found = run(selector, masks, losses)
    assert [selection.clients.tolist() for selection in found] == expected
    excluded = sum(int(mask.sum()) - len(each) for mask, each in zip(masks, expected, strict=True))
    assert excluded > 50


def test_a_restored_ca_fed_goes_on_as_if_nothing_had_happened():
    rng = np.random.default_rng(7)
    masks, losses = rng.random((20, 6)) < 0.4, rng.random((20, 6))
    whole, first, second = (CAFed(importance=np.full(6, 1 / 6)) for _ in range(3))
    expected = [each.clients.tolist() for each in run(whole, masks, losses)]
    found = [each.clients.tolist() for each in run(first, masks[:9], losses[:9])]
    second.load_state_dict(first.state_dict())
    for t in range(9, 20):
        selection = second.select(context(masks[t], t, losses=losses[t]))
        found.append(selection.clients.tolist())
    assert found == expected


def test_the_decision_is_algorithm_1_on_the_estimates():
    rng = np.random.default_rng(0)
    importance = rng.dirichlet(np.full(20, 5.0))
    masks = rng.random((40, 20)) < 0.5
    losses = 1 + rng.random((40, 20))
    estimates = ChainEstimates(20)
    excluded = 0
    for t, selection in enumerate(run(CAFed(importance=importance), masks, losses)):
        estimates.observe(t, masks[t])
        problem = selection.solution.problem
        assert np.array_equal(problem.availability, estimates.availability)
        assert np.array_equal(problem.correlation, estimates.correlation)
        greedy = solve(problem, "ca-fed", ties="keep")
        assert selection.solution.objective == greedy.objective
        kept = selection.solution.x & masks[t]
        assert selection.clients.tolist() == np.flatnonzero(kept).tolist()
        assert selection.weights == pytest.approx(problem.weights(selection.solution.x)[kept])
        excluded += int((masks[t] & ~selection.solution.x).sum())
    assert excluded > 50  # so that the test sees exclusions


def test_without_gaps_everybody_is_kept_unless_ties_exclude():
    """Algorithm 1 to the letter excludes all but one client where nothing is known; the last one never."""
    masks, losses = np.ones((1, 6), bool), np.arange(6.0)[None]
    assert run(CAFed(importance=np.full(6, 1 / 6)), masks, losses)[0].clients.size == 6
    assert run(CAFed(importance=np.full(6, 1 / 6), ties="exclude"), masks, losses)[0].clients.size == 1
    assert run(CAFed(importance=np.full(6, 1 / 6), method="auto"), masks, losses)[0].clients.size == 6


def test_exact_methods_do_no_worse_than_the_greedy():
    rng = np.random.default_rng(1)
    masks, losses = rng.random((30, 12)) < 0.5, 1 + rng.random((30, 12))
    greedy = run(CAFed(importance=np.full(12, 1 / 12)), masks, losses)
    exact = run(CAFed(importance=np.full(12, 1 / 12), method="sorting"), masks, losses)
    for g, e in zip(greedy, exact, strict=True):
        if e.solution is not None:
            assert e.solution.status == "optimal"
            assert e.solution.objective <= g.solution.objective + 1e-12


def test_bound_by_puts_a_bound_beside_algorithm_1_and_changes_nothing_else():
    """Unequal importance, where Algorithm 1 stops short of the optimum in some rounds."""
    rng = np.random.default_rng(4)
    importance = rng.dirichlet(np.ones(8))
    selectors = {
        bound_by: CAFed(importance=importance, bias_weight=0.5, bound_by=bound_by) for bound_by in (None, "brute-force")
    }
    exact = []
    for t in range(40):
        losses = rng.random(8)
        there = rng.random(8) < 0.7
        plain, certified = (selector.select(context(there, t, losses=losses)) for selector in selectors.values())
        assert certified.clients.tolist() == plain.clients.tolist()
        assert certified.weights.tolist() == plain.weights.tolist()
        best = solve(certified.solution.problem, "brute-force").objective
        assert certified.solution.bound == pytest.approx(best, abs=1e-9)
        exact.append(certified.solution.objective <= best + 1e-9)
    assert not all(exact)
    with pytest.raises(UnknownMethod, match="no method 'proof'"):
        CAFed(importance=importance, bound_by="proof")


@pytest.mark.parametrize("correlated", [1, 2])
def test_the_most_correlated_is_examined_first(correlated):
    """Clients 1 and 2 have loss gap 1 and Γ' = 2: excluding one gains 1/6 for 1/8, the other then 1/3 for 3/8.

    So the one that is examined first goes, which is the one that the oracle calls correlated.
    """
    correlation = np.where(np.arange(4) == correlated, 0.9, 0.0)
    selector = CAFed(importance=np.full(4, 0.25), chains=KnownChains([0.5] * 4, correlation), beta=1.0, bias_weight=2.0)
    losses = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 2.0, 1.0]])
    last = run(selector, np.ones((2, 4), dtype=bool), losses)[-1]
    assert last.clients.tolist() == [k for k in range(4) if k != correlated]
    assert last.weights == pytest.approx(np.full(3, 0.5))  # α/π, not scaled up


def test_a_full_step_has_the_weights_sum_of_excluding_none():
    """The same clients in the same proportions, and Σ α/π of all who are there; without exclusions nothing changes."""
    rng = np.random.default_rng(5)
    importance = rng.dirichlet(np.full(12, 2.0))
    masks, losses = rng.random((30, 12)) < 0.6, 1 + rng.random((30, 12))
    estimates = ChainEstimates(12)
    longer = 0
    published, full = (run(CAFed(importance=importance, step=step), masks, losses) for step in ("published", "full"))
    for t, (plain, scaled) in enumerate(zip(published, full, strict=True)):
        estimates.observe(t, masks[t])
        assert scaled.clients.tolist() == plain.clients.tolist()
        if plain.clients.size:
            ratios = scaled.weights / plain.weights
            assert ratios == pytest.approx(np.full(ratios.size, ratios[0]))
            assert scaled.weights.sum() == pytest.approx((importance / estimates.availability)[masks[t]].sum())
            longer += ratios[0] > 1 + 1e-9
    assert 5 < longer < 30
    with pytest.raises(ConfigError, match="step must be 'published' or 'full'; got 'longer'"):
        CAFed(importance=importance, step="longer")


def test_what_is_no_number_for_each_client_is_a_sentence():
    for importance in ("samples", None, [0.5, None], [1 + 0j], [10**400]):
        with pytest.raises(ConfigError, match="importance must be one positive number for each client; got"):
            CAFed(importance=importance)
    for minima in ("least", np.zeros(4), [0.0, 3 + 0j, 0.0], [0.0, 10**400, 0.0]):
        with pytest.raises(ConfigError, match="minima must be one number for each of 3 clients"):
            CAFed(importance=np.full(3, 1 / 3), minima=minima)
    for chains_of_four in (ChainEstimates(4), KnownChains(np.ones(4), np.zeros(4))):
        with pytest.raises(ConfigError, match="the chains are of 4 clients, the importance of 3"):
            CAFed(importance=np.full(3, 1 / 3), chains=chains_of_four)
    with pytest.raises(ConfigError, match=r"minima must be finite; got \[0.0, nan, 0.0\]"):
        CAFed(importance=np.full(3, 1 / 3), minima=[0.0, np.nan, 0.0])


def test_known_minima_are_constants():
    selector = CAFed(importance=np.full(3, 1 / 3), minima=np.zeros(3))
    selection = run(selector, np.ones((1, 3), bool), np.array([[1.0, 2.0, 3.0]]))[0]
    assert selection.solution.problem.loss_gaps.tolist() == [1, 2, 3]


def test_bias_weight_keeps_more():
    rng = np.random.default_rng(2)
    masks, losses = np.ones((30, 12), bool), 1 + rng.random((30, 12))
    few = run(CAFed(importance=np.full(12, 1 / 12), bias_weight=0.1), masks, losses)
    many = run(CAFed(importance=np.full(12, 1 / 12), bias_weight=100.0), masks, losses)
    assert sum(s.clients.size for s in few) < sum(s.clients.size for s in many)


def test_ca_fed_says_what_it_needs():
    alpha = np.full(3, 1 / 3)
    with pytest.raises(ConfigError, match="'ca-fed' asks clients for their losses, and this round has no probe"):
        CAFed(importance=alpha).select(context(np.ones(3)))
    with pytest.raises(ConfigError, match=r"finite loss per client.*has the model diverged"):
        CAFed(importance=alpha).select(context(np.ones(3), losses=[1.0, np.nan, 1.0]))
    with pytest.raises(ConfigError, match=r"beta must lie in \(0, 1\]; got 0"):
        CAFed(importance=alpha, beta=0)
    with pytest.raises(UnknownMethod, match="no method 'greedy'"):
        CAFed(importance=alpha, method="greedy")
    with pytest.raises(ConfigError, match="the importance must sum to 1; it sums to 2"):
        CAFed(importance=np.full(4, 0.5))


def scenario(availability="ideal", **options):
    federation = digits(n_clients=24)
    there = AVAILABILITY.build(availability, federation, 0, **options)
    return Scenario(
        federation.sizes,
        there,
        DROPOUT.build("bernoulli", 24, 0, rate=0.5),
        size=12,
        rounds=150,
        data=federation,
    )


def test_oracles_take_the_truth_from_the_scenario():
    setting = scenario("lognormal")
    truth = availability_rates(setting)(0)
    selector = SELECTORS.build("ca-fed", setting, oracle=True)
    selector.chains.observe(0, np.ones(24, dtype=bool))
    assert np.array_equal(selector.chains.availability, truth)
    assert selector.chains.correlation.tolist() == [0] * 24
    sizes = setting.federation.sizes
    present = context(np.ones(24), sizes=sizes)
    unbiased = SELECTORS.build("unbiased", setting).select(present)
    assert unbiased.weights == pytest.approx(sizes / sizes.sum() / (truth * 0.5))  # half of the updates get lost
    known = SELECTORS.build("known-participation", setting).select(present)
    assert known.weights == pytest.approx(1 / 24 / (truth * 0.5))
    authors = SELECTORS.build("ca-fed", setting, convention="code")
    assert authors.chains.availability == pytest.approx(truth)
    assert authors.chains.correlation == pytest.approx(np.zeros(24), abs=1e-12)
    assert (authors.order, authors.ties) == ("absolute", "exclude")


def test_the_authors_smallest_losses_are_those_of_a_fit_on_each_clients_samples(asserted):
    base, fitted = scenario(), asserted(at_least=20)
    minima = SELECTORS.build("ca-fed", base, convention="code").minima
    for samples, smallest in zip(base.federation.datasets, minima, strict=True):
        if np.unique(samples.labels).size == 1:
            assert smallest == 0
            continue
        guess = np.bincount(samples.labels) / len(samples)
        entropy = -sum(share * np.log(share) for share in guess[guess > 0])
        assert 0 < smallest < entropy  # better than the best constant answer
        fitted()
    everybody = (*base.federation.datasets, base.federation.test)
    *pictures, test = [Samples(each.features[:, None, None], each.labels) for each in everybody]
    images = replace(base, data=replace(base.federation, datasets=tuple(pictures), test=test))
    assert SELECTORS.build("ca-fed", images, convention="code").minima.tolist() == [0] * 24


def test_a_model_that_does_not_state_its_rates_is_named():
    class Silent:
        def available(self, round):
            return np.ones(24, dtype=bool)

    base = scenario()
    silent = replace(base, availability=Silent())
    with pytest.raises(ConfigError, match="Silent does not state its rates"):
        SELECTORS.build("unbiased", silent).select(context(np.ones(24)))

    class Memoryless(Silent):
        def rates(self, round):
            return np.ones(24)

    memoryless = replace(base, availability=Memoryless())
    with pytest.raises(ConfigError, match="Memoryless does not state its correlation"):
        SELECTORS.build("ca-fed", memoryless, oracle=True)


def test_rates_may_be_a_function_of_the_round():
    class Daily:
        def available(self, round):
            return np.ones(24, dtype=bool)

        def rates(self, round):
            return np.full(24, 1.0 / (round + 1))

    base = scenario()
    daily = replace(base, availability=Daily(), dropout=None)
    selector = SELECTORS.build("unbiased", daily, importance="equal")
    assert selector.select(context(np.ones(24), 3)).weights == pytest.approx(np.full(24, 4 / 24))


def realised(selector, rates, rounds, normalise=False):
    total = np.zeros(len(rates))
    for selection, happened in drive(selector, rounds, bernoulli(rates)):
        assert (happened[selection.clients] == Outcome.RETURNED).all()
        total[selection.clients] += selection.weights
    return total / rounds


def test_unbiased_is_and_adafed_is_not():
    """12 clients there at rate 0.9 and 12 at 0.1, equal importance: halves for one, 0.60 and 0.40 for the other.

    4 000 rounds; a group's mean of 1{there}/π has deviation at most 0.014, and five of these are allowed.
    """
    rates = np.repeat([0.9, 0.1], 12)
    alpha = np.full(24, 1 / 24)
    unbiased = realised(SelectAll("unbiased", rates=rates, importance=alpha), rates, 4000)
    assert unbiased[:12].sum() == pytest.approx(0.5, abs=0.035)
    assert unbiased[12:].sum() == pytest.approx(0.5, abs=0.035)
    adafed = realised(SelectAll("adafed", rates=rates, importance=alpha), rates, 4000)
    assert adafed[:12].sum() / adafed.sum() == pytest.approx(0.60, abs=0.01)


def test_one_step_of_f3ast_by_hand():
    """α²/r² = (1, 0.36, 0.16): client 0; its rate moves from 0.5 to 0.505, and 0.5/0.505 is its weight."""
    selector = F3AST(1, importance=[0.5, 0.3, 0.2], start=[0.5, 0.5, 0.5])
    selection = selector.select(context(np.ones(3)))
    assert selection.clients.tolist() == [0]
    assert selection.weights == pytest.approx([0.5 / 0.505])
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(3), selection)))
    assert selector.rate == pytest.approx([0.505, 0.495, 0.495])
    absent = selector.select(context([0, 1, 1], 1))
    assert absent.clients.tolist() == [1]


@pytest.mark.parametrize(("rounds", "burn", "off"), few_of([(5000, 3000, 0.04), (9000, 4000, 0.03)], 1))
def test_f3ast_gives_everybody_its_importance_in_the_long_run(rounds, burn, off):
    """5 of 20 with unequal importance and availability: weight per round near α once the rates settle.

    The rate that divides has moved with the selection itself, which leaves a bias of order β/r: hence a small β.
    """
    rng = np.random.default_rng(0)
    alpha, rates = rng.dirichlet(np.full(20, 10.0)), rng.uniform(0.3, 1, 20)
    selector = F3AST(5, importance=alpha, beta=0.002)
    total = np.zeros(20)
    for t, (selection, _) in enumerate(drive(selector, rounds, bernoulli(rates))):
        if t >= burn:
            total[selection.clients] += selection.weights
    assert total / (rounds - burn) == pytest.approx(alpha, rel=off)


def test_f3asts_own_start_makes_the_first_steps_too_large():
    alpha = np.full(100, 0.01)
    reachable = F3AST(10, importance=alpha).select(context(np.ones(100)))
    published = F3AST(10, importance=alpha, start=alpha).select(context(np.ones(100)))
    assert reachable.weights.sum() == pytest.approx(1 / 1.09)  # 10 · 0.01 / (0.99 · 0.1 + 0.01)
    assert published.weights.sum() == pytest.approx(10 / 1.99)


def test_f3ast_as_ca_feds_authors_have_it():
    """π = (0.9, 0.1, 0.5), b = 0.1: r = (0.91, 0.19, 0.55); the two least available, at α/r."""
    selector = OracleF3AST(2, importance=np.full(3, 1 / 3), rates=[0.9, 0.1, 0.5], beta=0.1)
    selection = selector.select(context(np.ones(3)))
    assert selection.clients.tolist() == [1, 2]
    assert selection.weights == pytest.approx([1 / 3 / 0.19, 1 / 3 / 0.55])
    built = SELECTORS.build("f3ast", scenario(), convention="ca-fed", importance="equal")
    assert (built.beta, built.size) == (1 / 150, 12)
    assert built.select(context(np.ones(24))).clients.tolist() == list(range(12))


def test_rates_of_another_number_of_clients_are_refused_when_the_selector_is_built():
    alpha = np.full(3, 1 / 3)
    for build in (partial(OracleF3AST, 2), partial(SelectAll, "unbiased")):
        for rates in ([0.9, 0.1, 0.5, 0.5], [0.9, 0.1], 0.5):
            with pytest.raises(ConfigError, match="rates must be one number for each of 3 clients; got shape"):
                build(importance=alpha, rates=rates)


def test_f3ast_rotates_among_equals():
    counts = np.zeros(6)
    for selection, _ in drive(F3AST(2, importance=np.full(6, 1 / 6)), 300, everybody(6)):
        counts[selection.clients] += 1
    assert np.ptp(counts) <= 1
