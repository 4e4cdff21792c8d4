"""Selectors with a clock: Oort by its formulas in both readings, TiFL, FedCS, over-selecting uniform."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from fedselect.clock import Clock, ClockSettings, Devices, lognormal
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.rounds import History, Scenario, play
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors import SELECTORS, Oort, TiFL, Uniform
from tests.fedselect.driving import everybody

SIZES = np.array([10, 20, 30, 40, 50, 60])


class Always:
    def __init__(self, n_clients):
        self.available = everybody(n_clients)


def times(expected):
    """A clock whose clients take so many seconds, nearly all of it for training."""
    n = len(expected)
    devices = Devices(np.asarray(expected, dtype=float), np.full(n, 1e6), np.full(n, 1e6))
    return Clock(devices, np.ones(n), ClockSettings(model_bytes=1))


def asked(t, clock=None, sizes=SIZES):
    everyone = np.ones(len(sizes), dtype=bool)
    return RoundContext(t, everyone, sizes, generator(0, "selector", t), clock=clock)


def told(selector, t, clients, losses, durations):
    """Feedback of a round in which these clients were selected, and returned with these numbers."""
    outcomes = np.full(6, Outcome.IDLE, dtype=np.int8)
    outcomes[clients] = Outcome.RETURNED
    selection = Selection(np.sort(clients), np.ones(len(clients)))
    named = [dict(zip(clients, each, strict=True)) for each in (losses, durations)]
    selector.update(RoundFeedback(t, selection, outcomes, losses=named[0], durations=named[1]))


def scripted(convention, **options):
    """Clients 0 to 3 have returned, in rounds 1, 1, 2 and 3."""
    selector = Oort(3, convention=convention, clip=1.0, percentile=50.0, **options)
    selector.select(asked(0, times([1, 2, 3, 4, 5, 6])))
    told(selector, 0, [0, 1], [2.0, 1.0], [1.0, 2.0])
    told(selector, 1, [2], [0.5], [8.0])
    told(selector, 2, [3], [1.5], [4.0])
    return selector


def test_oorts_scores_are_the_papers_step_by_step():
    selector = scripted("paper")
    # Durations 1, 2, 8, 4 seen, 5 and 6 expected: place 3 of the sorted six is 5 s.
    assert selector.preferred_duration() == pytest.approx(5.0, abs=1e-3)
    limit = selector.preferred_duration()
    utility = [10 * 2.0, 20 * 1.0, 30 * 0.5, 40 * 1.5]
    stale = [math.sqrt(0.1 * math.log(4) / last) for last in (1, 1, 2, 3)]
    penalty = [1.0, 1.0, (limit / 8.0) ** 2, 1.0]
    wanted = [(u + s) * p for u, s, p in zip(utility, stale, penalty, strict=True)]
    assert selector.scores(np.arange(4), 4, np.arange(6)) == pytest.approx(wanted)


def test_oorts_scores_are_the_codes_step_by_step():
    selector = scripted("code")
    limit = selector.preferred_duration()
    everyone = [20.0, 20.0, 15.0, 60.0, 50.0, 60.0]  # the unexplored count their samples
    least, most = 0.999 * min(everyone), max(everyone)
    stale = [math.sqrt(0.1 * math.log(4) / last) for last in (1, 1, 2, 3)]
    wanted = [(u - least) / (most - least) + s for u, s in zip(everyone[:4], stale, strict=True)]
    wanted[2] *= (limit / 8.0) ** 2
    assert selector.scores(np.arange(4), 4, np.arange(6)) == pytest.approx(wanted)


def test_utilities_are_clipped_at_the_quantile():
    selector = scripted("paper")
    selector.clip = 0.5  # place 2 of 15, 20, 20, 60
    scores = selector.scores(np.arange(4), 1, np.arange(6))
    assert scores[3] == 20.0


def test_oort_exploits_above_the_cut_off_and_explores_the_rest(asserted):
    rounds = asserted(60)
    for t in range(3, 63):
        selector = scripted("paper", exploration=0.3)  # floor(0.7 * 3) = 2 of the explored
        selector.exploration = 0.3
        selector._duration[5] = 1e9
        chosen = set(selector.select(asked(t)).clients.tolist())
        # Scores are near 20, 20, 6 and 60: the second largest is near 20, and 0.95 of it leaves client 2 out.
        assert len(chosen & {0, 1, 3}) == 2
        assert chosen >= {4}  # of the unexplored the one that is 10^9 times as fast
        rounds()


def test_the_exploration_decays_and_differs_in_its_first_round():
    paper, code = Oort(5), Oort(5, convention="code")
    for t in range(3):
        paper.select(asked(t))
        code.select(asked(t))
    assert paper.exploration == pytest.approx(0.9 * 0.98**3) == code.exploration
    for t in range(3, 120):
        paper.select(asked(t))
    assert paper.exploration == 0.2
    first = Oort(1, exploration=0.0, decay=1.0)
    assert first.select(asked(0)).clients.size == 1  # nobody is explored yet


@pytest.mark.parametrize(
    ("convention", "before", "now", "moved"),
    [
        ("paper", 10.0, 9.0, 5.0),
        ("paper", 10.0, 10.5, 0.0),
        ("code", 10.0, 10.9, 5.0),
        ("code", 10.0, 12.0, 0.0),
        ("code", 10.0, 60.0, -5.0),
        ("code", 10.0, 4.0, 0.0),
    ],
)
def test_the_pacer_moves_as_stated(convention, before, now, moved):
    selector = Oort(2, convention=convention, pacer_step=2)
    selector._history = np.array([before / 2, before / 2, now / 2, now / 2])
    selector.select(asked(3))  # round 4 of the paper's count
    assert selector.percentile == 30.0 + moved
    selector.select(asked(4))  # not a round of the pacer's
    assert selector.percentile == 30.0 + moved


def test_the_code_explores_by_samples_and_speed_within_its_window():
    selector = Oort(2, convention="code", window=1.0, percentile=50.0)
    clock = times([1, 1, 1, 1, 1, 9])
    # 60 samples at 9 s against T = 1 s count 60 / 81; so 50 and 40 samples come first, and the window is as wide.
    assert selector.select(asked(0, clock)).clients.tolist() == [3, 4]


def test_who_has_had_enough_turns_is_left_out_while_there_are_others():
    selector = scripted("code", most_turns=1, exploration=0.0)
    selector._turns[:] = [5, 0, 0, 0, 0, 0]
    assert all(0 not in selector.select(asked(t)).clients for t in range(3, 20))
    everyone = Oort(6, most_turns=1)
    everyone.select(asked(0))
    everyone._turns[:] = 9
    assert everyone.select(asked(1)).clients.size == 6


def test_tifl_deals_tiers_and_pays_credits():
    selector = TiFL(2, n_tiers=3, credits=1)
    clock = times([5, 1, 3, 4, 2, 6])
    seen = [selector.select(asked(t, clock)).clients.tolist() for t in range(3)]
    assert selector.tiers.tolist() == [2, 0, 1, 1, 0, 2]
    assert sorted(seen) == [[0, 5], [1, 4], [2, 3]]  # each tier once, then nobody has credits
    assert selector.select(asked(3, clock)).clients.size == 2
    selector.tier, selector.losses = 1, np.array([1.0, 3.0, 2.0])
    selector._look()
    assert selector.shares.tolist() == pytest.approx([1 / 3] * 3)  # 3 is less than nothing known
    selector._look()
    assert selector.shares.tolist() == pytest.approx([0.0, 2 / 3, 1 / 3])  # no better: the worst served come first


def test_tifl_deals_nothing_to_tiers_for_their_speed_alone():
    """Rounds without losses, and tiers of which nothing is known yet, which are the worst together."""
    selector = TiFL(2, n_tiers=3, interval=4)
    world = Scenario(np.full(6, 10), Always(6), None, 0, None, times([5, 1, 3, 4, 2, 6]), size=2, rounds=300)
    played = History.collect(play(selector, world, 300), 6)
    assert selector.shares.tolist() == pytest.approx([1 / 3] * 3)
    assert played.selections.min() > 80
    selector.tier, selector.losses, selector.previous = 0, np.array([1.0, math.inf, math.inf]), np.full(3, 1.0)
    selector._look()
    assert selector.shares.tolist() == pytest.approx([0.0, 0.5, 0.5])


def fedcs(clock, n_clients, **options):
    world = Scenario(np.full(n_clients, 10), Always(n_clients), None, 0, None, clock, size=3, rounds=5)
    return SELECTORS.build("fedcs", world, **options), world


def test_fedcs_is_the_published_rule_and_the_exact_one_takes_no_fewer(asserted):
    better = asserted(2)
    for seed in range(12):
        devices = lognormal(9, seed, link_spread=1.5)
        settings = ClockSettings("deadline", 4.0, links="shared-uplink", model_bytes=400_000)
        clock = Clock(devices, np.full(9, 100), settings, seed)
        taken = []
        for method in ("fedcs", "auto"):
            selector, world = fedcs(clock, 9, method=method)
            played = next(play(selector, world, 1))
            assert played.times.arrived.all()  # without jitter all that were planned arrive
            taken.append(played.selection.clients.size)
        most = max(
            size
            for size in range(10)
            for some in itertools.combinations(range(9), size)
            if clock.play(0, np.array(some, dtype=np.int64)).arrived.all()
        )
        assert taken[0] <= taken[1] == most
        if taken[0] < taken[1]:
            better()


def test_a_deadline_that_nobody_meets_selects_nobody_and_says_so():
    clock = Clock(times([5, 6]).devices, [1, 1], ClockSettings("deadline", 2.0, model_bytes=1, idle_seconds=9.0))
    selector, world = fedcs(clock, 2)
    played = next(play(selector, world, 1))
    assert played.selection.clients.size == 0
    assert played.times.seconds == 9.0
    assert played.selection.notes["nobody"] == (
        "nobody meets the deadline of 2 s: the quickest of 2, client 0, takes 5 s"
    )


def test_over_selecting_uniform_takes_the_first():
    clock = times(np.arange(1, 41))
    world = Scenario(np.full(40, 10), Always(40), None, 0, None, clock, size=10, rounds=5)
    selector = SELECTORS.build("uniform", world, over=1.3)
    for played in play(selector, world, 4):
        chosen = played.selection.clients
        assert chosen.size == 13
        assert chosen[played.outcomes[chosen] == Outcome.RETURNED].tolist() == chosen[:10].tolist()
        assert played.applied.sum() == pytest.approx(1.0)
        assert played.times.seconds == pytest.approx(chosen[9] + 1, abs=1e-3)
    with pytest.raises(ConfigError, match="takes the updates that arrive first, and this round has no clock"):
        Uniform(2, over=1.3).select(asked(0))


@pytest.mark.parametrize("latencies", [[1.0, np.nan], ["a", "b"], [[1.0], [2.0]], [1.0, -1.0], 3.0])
def test_latencies_that_are_none_are_a_sentence(latencies):
    with pytest.raises(ConfigError, match="latencies must be one number of seconds, from 0, for each client; got"):
        TiFL(1, n_tiers=2, latencies=latencies)


@pytest.mark.parametrize("name", ["oort", "tifl"])
@pytest.mark.parametrize("convention", ["paper", "code"])
def test_a_run_that_is_resumed_makes_the_same_decisions(name, convention):
    devices = lognormal(30, 1)
    clock = Clock(devices, np.full(30, 10), ClockSettings(jitter=0.3, model_bytes=1000), 1)
    world = Scenario(np.arange(1, 31), Always(30), None, 1, None, clock, size=4, rounds=40)
    options = {"convention": convention} if name == "oort" else {}
    whole = History.collect(play(SELECTORS.build(name, world, **options), world, 40), 30)
    first, second = (SELECTORS.build(name, world, **options) for _ in range(2))
    list(itertools.islice(play(first, world, 40), 17))
    second.load_state_dict(first.state_dict())
    for t in range(17, 40):
        context = dataclasses.replace(
            asked(t, clock, np.arange(1, 31)), rng=generator(1, "selector", t), available=np.ones(30, dtype=bool)
        )
        selection = second.select(context)
        assert selection.clients.tolist() == whole.selected[t].tolist()
        outcomes = np.full(30, Outcome.IDLE, dtype=np.int8)
        outcomes[selection.clients] = Outcome.RETURNED
        ends = clock.play(t, selection.clients).ends.tolist()
        durations = dict(zip(selection.clients.tolist(), ends, strict=True))
        second.update(RoundFeedback(t, selection, outcomes, durations=durations))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("tifl", {}, "give the run a \\[clock\\]"),
        ("fedcs", {"deadline": 3.0}, "takes deadline where there is a clock"),
        ("fedcs", {"method": "auto"}, "takes method where there is a clock"),
        ("fedcs", {"values": "samples"}, "takes values where there is a clock"),
        ("uniform", {"over": 1.3}, "over asks more clients than are wanted, and takes the first: give the run a"),
        ("uniform", {"over": 0.5}, "over must be a number of at least 1"),
        ("oort", {"cut_off": 1.5}, r"cut_off must lie in \[0, 1\]"),
    ],
)
def test_what_needs_a_clock_says_so(name, options, says):
    world = Scenario(SIZES, Always(6), size=3, rounds=5)
    with pytest.raises(ConfigError, match=says):
        SELECTORS.build(name, world, **options)


def test_fedcs_with_a_clock_needs_a_deadline():
    with pytest.raises(ConfigError, match="needs a deadline in seconds"):
        fedcs(times([1, 2]), 2)
