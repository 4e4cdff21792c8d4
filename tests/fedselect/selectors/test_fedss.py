"""FedSS and the baselines of its comparison, without training."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation, Samples, digits
from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import CSUCBQ, SELECTORS, FedSS, Uniform
from fedselect.selectors.fedss import group_presence
from tests.fedselect.driving import bernoulli, context, drive, everybody, outcomes
from tests.thoroughly import few_of

SIXTY_FORTY = np.repeat([0, 1], [60, 40])


def ten_and_thirty(rng):
    """10 of the 60, and 30 of the 40, are there."""
    present = np.zeros(100, dtype=bool)
    present[rng.choice(60, 10, replace=False)] = True
    present[60 + rng.choice(40, 30, replace=False)] = True
    return present


def test_the_coefficients_of_fedavgs_bias():
    """Lemma 1 (Eq. 7): groups of 60 and 40 of which 10 and 30 are there weigh 0.25 and 0.75, −0.35 and +0.35 off.

    2 000 draws of 10 from 40: the share of a group has deviation 0.12, its mean 0.0027; five of these are allowed.
    """
    present = ten_and_thirty(np.random.default_rng(0))
    shares = np.zeros(2)
    for t in range(2000):
        selection = Uniform(10).select(context(present, t))
        shares += np.bincount(SIXTY_FORTY[selection.clients], selection.weights, minlength=2)
    coefficients = shares / 2000 - [0.6, 0.4]
    assert coefficients == pytest.approx([-0.35, 0.35], abs=0.0135)
    assert coefficients == pytest.approx([-0.35, 0.35], abs=0.0135)


@pytest.mark.parametrize("rounds", few_of([600, 3000], 1))
@pytest.mark.parametrize("variant", ["optimal", "proportional"])
def test_stratified_sampling_gives_groups_their_weight_in_the_population(variant, rounds):
    """Lemma 2: every round the groups weigh 0.6 and 0.4 exactly, whoever is there; 5 sd for every client's 1/100."""
    selector = FedSS(10, groups=SIXTY_FORTY, variant=variant)
    rng = np.random.default_rng(1)
    total, squares = np.zeros(100), np.zeros(100)
    for t in range(rounds):
        selection = selector.select(context(ten_and_thirty(rng), t))
        shares = np.bincount(SIXTY_FORTY[selection.clients], selection.weights)
        assert shares == pytest.approx([0.6, 0.4])
        total[selection.clients] += selection.weights
        squares[selection.clients] += selection.weights**2
    mean = total / rounds
    error = np.sqrt((squares / rounds - mean**2) / rounds)
    assert np.all(np.abs(mean - 0.01) < 5 * error)
    assert error.max() < 0.002 * np.sqrt(3000 / rounds)


@pytest.mark.parametrize("rounds", few_of([600, 3000], 1))
def test_given_who_is_there_it_estimates_the_mean_over_those(rounds):
    present = ten_and_thirty(np.random.default_rng(2))
    selector = FedSS(10, groups=SIXTY_FORTY)
    total = np.zeros(100)
    for t in range(rounds):
        selection = selector.select(context(present, t))
        total[selection.clients] += selection.weights
    assert not total[~present].any()
    sd = 0.0015 * np.sqrt(3000 / rounds)
    assert total[:60][present[:60]] / rounds == pytest.approx(np.full(10, 0.06), abs=5 * sd)


def test_inclusion_is_by_group_and_sums_to_the_draws():
    selection = FedSS(10, groups=SIXTY_FORTY, variant="proportional").select(
        context(ten_and_thirty(np.random.default_rng(0)))
    )
    assert np.unique(selection.inclusion[:60]).tolist() == [0.0, 0.6]  # 6 of the 10
    assert np.unique(selection.inclusion[60:]) == pytest.approx([0.0, 4 / 30])
    assert selection.inclusion.sum() == pytest.approx(10)


def groups_of(*sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize(
    ("sizes", "deviations", "total", "there", "drawn"),
    [
        ((50, 30, 20), (1, 2, 4), 10, (50, 30, 20), [3, 3, 4]),
        ((50, 30, 20), (1, 2, 4), 10, (20, 3, 2), [5, 3, 2]),
        ((10, 40, 50), (4, 2, 3), 10, (10, 40, 50), [2, 3, 5]),
        ((60, 25, 10, 5), (1, 1, 1, 1), 10, (60, 25, 10, 5), [6, 2, 1, 1]),
        ((50, 30, 20), (1, 2, 4), 10, (2, 0, 3), [2, 0, 3]),
    ],
)
def test_allocations_of_known_optima(sizes, deviations, total, there, drawn):
    groups = groups_of(*sizes)
    selector = FedSS(total, groups=groups)
    selector.variances = np.square(deviations).astype(float)
    present = np.concatenate([np.arange(n) < a for n, a in zip(sizes, there, strict=True)])
    selection = selector.select(context(present))
    assert np.bincount(groups[selection.clients], minlength=len(sizes)).tolist() == drawn
    assert selection.solution.status == "optimal"
    assert selection.weights.sum() == pytest.approx(1)
    covered = sum(n for n, a in zip(sizes, there, strict=True) if a) / sum(sizes)
    assert selection.solution.problem.covered == pytest.approx(covered)


def test_weights_follow_the_data_within_and_between_groups():
    """D = (1, 3 | 4, 8): W = (4, 12)/16, and within a group by data."""
    selection = FedSS(4, groups=[0, 0, 1, 1]).select(context(np.ones(4), sizes=[1, 3, 4, 8]))
    assert selection.weights == pytest.approx([1 / 16, 3 / 16, 4 / 16, 8 / 16])
    alone = FedSS(4, groups=[0, 0, 1, 1]).select(context([1, 0, 0, 1], sizes=[1, 3, 4, 8]))
    assert alone.weights == pytest.approx([4 / 16, 12 / 16])


def test_horvitz_thompson_weights_are_unbiased_where_groups_may_be_absent():
    """All 32 cases of who is there, clients of a group alike: every client's mean weight is 1/5; else it is not."""
    groups, rates = np.array([0, 0, 1, 1, 1]), np.array([0.2, 0.2, 0.5, 0.5, 0.5])
    assert group_presence(rates, groups) == pytest.approx([0.36, 0.875])
    means = []
    for presence in (group_presence(rates, groups), None):
        selector, mean = FedSS(2, groups=groups, presence=presence), np.zeros(5)
        for there in itertools.product((False, True), repeat=5):
            selection = selector.select(context(there))
            weight = np.zeros(2)
            weight[groups[selection.clients]] = selection.weights  # one client of each group present
            given = 0.0 if selection.inclusion is None else selection.inclusion * weight[groups]
            mean += given * np.where(there, rates, 1 - rates).prod()
        means.append(mean)
    assert means[0] == pytest.approx(np.full(5, 0.2))
    assert means[1][0] < 0.15
    with pytest.raises(ConfigError, match=r"rate must lie in \(0, 1\]"):
        FedSS(2, groups=groups, presence=[0.0, 1.0]).select(context(np.ones(5)))


def test_the_oracle_of_absent_groups_comes_from_the_scenario():
    federation = digits(n_clients=20)
    there = AVAILABILITY.build("bernoulli", federation, 0, rate=0.1)
    world = Scenario(federation.sizes, there, size=4, rounds=5, data=federation)
    groups = np.arange(20) % 4
    oracle = SELECTORS.build("fedss", world, groups=groups.tolist(), absent="horvitz-thompson")
    assert oracle.presence(0) == pytest.approx(group_presence(there.rates(0), groups))
    with pytest.raises(ConfigError, match="'absent' must be 'rescale' or 'horvitz-thompson'; got 'drop'"):
        SELECTORS.build("fedss", world, absent="drop")


@pytest.mark.parametrize("told", ["updates", "norms"])
def test_deviations_are_learnt_online(told):
    """Groups of 50, 30, 20 whose updates spread with H = 1, 2, 4: from 5, 3, 2 to the optimum 3, 3, 4.

    The spread of updates in 20 dimensions is found whatever their mean. Norms about a mean of 100 vary as the updates
    do along it, a lower bound of the same ratios.
    """
    groups = groups_of(50, 30, 20)
    spread_of = np.array([1.0, 2.0, 4.0])[groups]
    selector = FedSS(10, groups=groups)
    first = selector.select(context(np.ones(100)))
    assert np.bincount(groups[first.clients]).tolist() == [5, 3, 2]
    rng = np.random.default_rng(3)
    drawn = []
    for t in range(300):
        selection = selector.select(context(np.ones(100), t))
        drawn.append(np.bincount(groups[selection.clients]))
        updates = 100 / np.sqrt(20) + spread_of[:, None] * rng.standard_normal((100, 20))
        norms = {int(i): float(np.linalg.norm(updates[i])) for i in selection.clients}
        told_updates = {int(i): updates[i] for i in selection.clients} if told == "updates" else {}
        happened = outcomes(np.ones(100), selection)
        selector.update(RoundFeedback(t, selection, happened, norms=norms, updates=told_updates))
    if told == "updates":
        ratios = selector.deviations / selector.deviations[0]
        assert ratios == pytest.approx([1, 2, 4], rel=0.3)
    # Estimates from a few clients fluctuate; on average they come close to (3, 3, 4).
    assert np.mean(drawn[50:], axis=0) == pytest.approx([3, 3, 4], abs=0.5)


def test_the_measured_variance_by_hand():
    """Updates (0, 0), (2, 0), (1, 3): mean (1, 1), squared distances 2 + 2 + 4, over 2. Groups of one tell nothing."""
    selector = FedSS(5, groups=[0, 0, 0, 0, 1], smoothing=0.25)
    selection = selector.select(context(np.ones(5)))
    vectors = dict(enumerate(np.array([[0, 0], [2, 0], [1, 3], [9, 9], [5, 5]], dtype=np.float32)))
    happened = outcomes(np.ones(5), selection, [1, 1, 1, 0, 1])  # client 3 does not return
    selector.update(RoundFeedback(0, selection, happened, updates=vectors))
    assert selector.variances[0] == pytest.approx(4)
    assert np.isnan(selector.variances[1])
    doubled = {i: 2 * vector for i, vector in vectors.items()}
    selector.update(RoundFeedback(1, selection, happened, updates=doubled))
    assert selector.variances[0] == pytest.approx(0.75 * 4 + 0.25 * 16)


def test_fedss_p_measures_nothing():
    selector = FedSS(4, groups=[0, 0, 1, 1], variant="proportional")
    selection = selector.select(context(np.ones(4)))
    selector.update(RoundFeedback(0, selection, outcomes(np.ones(4), selection), norms=dict.fromkeys(range(4), 1.0)))
    assert np.isnan(selector.variances).all()


def test_groups_not_measured_count_as_the_largest_and_none_as_nothing():
    selector = FedSS(6, groups=groups_of(5, 5, 5))
    assert selector.deviations.tolist() == [1, 1, 1]
    selector.variances = np.array([0.0, np.nan, 2.0])
    assert selector.deviations == pytest.approx(np.sqrt([0.05, 2, 2]))
    selector.variances = np.zeros(3)
    assert selector.deviations.tolist() == [1, 1, 1]


def test_bad_groups_are_sentences():
    with pytest.raises(ConfigError, match="3 groups and only 2 clients to draw"):
        FedSS(2, groups=[0, 1, 2])
    with pytest.raises(ConfigError, match="group 1 has no client"):
        FedSS(3, groups=[0, 2, 2])
    with pytest.raises(ConfigError, match="one whole number"):
        FedSS(3, groups=[0.5, 1.0])
    with pytest.raises(ConfigError, match="variant must be 'optimal' or 'proportional'; got 'best'"):
        FedSS(3, groups=[0, 1], variant="best")


def test_bound_by_bounds_an_allocation_and_leaves_the_draw_alone():
    """Deviations 1 and 3: in proportion 6 and 4, the best 3 and 7; who is drawn stays the same."""
    selections = {}
    for bound_by in (None, "auto"):
        selector = FedSS(10, groups=SIXTY_FORTY, method="proportional", bound_by=bound_by)
        selector.variances[:] = [1.0, 9.0]
        selections[bound_by] = selector.select(context(np.ones(100), seed=3))
    plain, certified = selections.values()
    assert certified.clients.tolist() == plain.clients.tolist()
    problem = certified.solution.problem
    assert certified.solution.x.tolist() == [6, 4]
    assert certified.solution.bound == pytest.approx(problem.objective(np.array([3, 7])), rel=1e-9)
    assert certified.solution.status == "feasible"


def test_allocations_in_fractions_are_refused():
    selector = FedSS(10, groups=groups_of(60, 25, 10, 5), method="kkt")
    with pytest.raises(ConfigError, match="'kkt' allots fractions of clients"):
        selector.select(context(np.ones(100)))


def one_label_each(clients, classes):
    """Clients with samples of one label, in turn."""
    parts = [Samples(np.zeros((4, 2)), np.full(4, c % classes)) for c in range(clients)]
    return Federation("one label", tuple(parts), parts[0], classes)


def scenario(federation, size):
    return Scenario(
        federation.sizes, AVAILABILITY.build("ideal", federation, 0), size=size, rounds=100, data=federation
    )


def test_groups_are_found_by_clustering_labels():
    federation = one_label_each(12, 3)
    selector = SELECTORS.build("fedss", scenario(federation, 6))
    assert selector.groups.tolist() == [0, 1, 2] * 4
    stated = SELECTORS.build("fedss", scenario(federation, 6), groups=[0] * 6 + [1] * 6)
    assert stated.group_sizes.tolist() == [6, 6]
    with pytest.raises(ConfigError, match="one entry per client, 12; got 2"):
        SELECTORS.build("fedss", scenario(federation, 6), groups=[0, 1])


def test_never_more_groups_than_draws():
    selector = SELECTORS.build("fedss", scenario(digits(n_clients=30), 4))
    assert 1 <= selector.group_sizes.size <= 4


def test_cs_ucb_q_by_hand():
    """Two of three clients; c = 0.5 each; client 2 never returns."""
    selector = CSUCBQ(2, fractions=[0.5] * 3)
    assert selector.queue.tolist() == [0.5] * 3  # max{0 + c − 0, 0}
    first = selector.select(context(np.arange(3) > 0))  # client 0 is away
    assert first.clients.tolist() == [1, 2]
    assert first.weights.tolist() == [0.5, 0.5]
    selector.update(RoundFeedback(0, first, outcomes(np.arange(3) > 0, first, [1, 1, 0])))
    assert selector.queue.tolist() == [1.0, 0.0, 0.0]
    assert selector.reward.tolist() == [0.0, 1.0, 0.0]
    assert selector.times.tolist() == [0, 1, 1]
    # Round 1, t = 2: sqrt(2 ln 2) > 1, so that every estimate is 1 and the queues decide.
    second = selector.select(context(np.ones(3), 1))
    assert second.clients[0] == 0
    selector.times[:] = 1000  # then estimates are 0.05 + (0, 1, 0), and (1 − β) 1 beats β · 0.9
    selector.queue[:] = [0.9, 0.0, 0.1]
    assert selector.select(context(np.ones(3), 1)).clients.tolist() == [0, 1]
    selector.queue[:] = [0.9, 0.0, 1.2]
    assert selector.select(context(np.ones(3), 1)).clients.tolist() == [1, 2]


def test_cs_ucb_q_rotates_when_everybody_returns():
    """Of equal rewards the longest queue is first: 30 rounds of 2 of 6 serve everybody 10 times."""
    counts = np.zeros(6)
    for selection, _ in drive(CSUCBQ(2, fractions=[1 / 3] * 6), 30, everybody(6)):
        counts[selection.clients] += 1
    assert counts.tolist() == [10] * 6


def test_cs_ucb_q_keeps_its_promise_to_rare_clients():
    """Client 0 is there in half of the rounds and owed 0.3; it gets close to that although it returns least."""
    rates = np.array([0.5, 1, 1, 1, 1, 1])
    back = bernoulli([0.1, 0.9, 0.9, 0.9, 0.9, 0.9], purpose="dropout")
    counts = np.zeros(6)
    for selection, _ in drive(CSUCBQ(2, fractions=[0.3] * 6), 2000, bernoulli(rates), back):
        counts[selection.clients] += 1
    assert counts.min() / 2000 > 0.28
