"""A selector drives somebody else's training; what contradicts its selection is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect import rounds
from fedselect.availability import Independent
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.errors import ConfigError
from fedselect.rounds import Outcome, Scenario, Selection, World, play
from fedselect.selectors import SELECTORS, Oort

N = 12
SIZES = np.arange(1, N + 1) * 10


def _selector(name, **options):
    world = Independent(np.full(N, 0.6), seed=5)
    return SELECTORS.build(name, Scenario(SIZES, world, seed=5, size=3, rounds=10), **options), world


@pytest.mark.parametrize("name", ["uniform", "e3cs", "f3ast"])
def test_ten_lines_drive_another_training_to_the_decisions_of_our_own_rounds(name):
    selector, availability = _selector(name)
    own = []
    for t in range(6):
        context = rounds.context(t, availability.available(t), SIZES, seed=5)
        selection = selector.select(context)
        own.append(selection)
        selector.update(rounds.feedback(context, selection, returned=selection.clients))
    other, _ = _selector(name)
    played = list(play(other, World(SIZES, availability, seed=5), 6))
    for mine, theirs in zip(own, played, strict=True):
        np.testing.assert_array_equal(mine.clients, theirs.selection.clients)
        np.testing.assert_array_equal(mine.weights, theirs.selection.weights)


def _asked():
    available = np.arange(N) % 2 == 0
    return rounds.context(3, available, SIZES, 1), Selection([2, 4, 8], [0.5, 0.25, 0.25])


def test_seconds_of_an_own_loop_reach_the_selector():
    """Oort learns durations that a loop has measured; with the clock of a run it decides as in the run."""
    clock = Clock(lognormal(N), SIZES, ClockSettings(model_bytes=100_000))
    oort, blind = Oort(3), Oort(3)
    for t in range(4):
        there = np.ones(N, dtype=bool)
        for selector, given in ((oort, {"clock": clock, "seconds": 5.0 * t}), (blind, {})):
            context = rounds.context(t, there, SIZES, 5, **given)
            selection = selector.select(context)
            took = dict(zip(selection.clients.tolist(), clock.expected[selection.clients].tolist(), strict=True))
            selector.update(rounds.feedback(context, selection, durations=took, seconds=max(took.values())))
            told = clock.expected[selector._last > 0]
            np.testing.assert_array_equal(selector._duration[selector._last > 0], told)
    heard = np.sort(clock.expected[blind._last > 0])
    assert blind.preferred_duration() == heard[int(heard.size * 0.3)]
    with pytest.raises(ConfigError, match="durations of client 4 must be a number of seconds from 0; got -1"):
        rounds.feedback(*_asked(), durations={4: -1.0})
    with pytest.raises(ConfigError, match="seconds must be a number of seconds from 0; got nan"):
        rounds.context(0, there, SIZES, seconds=float("nan"))
    with pytest.raises(ConfigError, match="durations are given of clients that did not return"):
        rounds.feedback(*_asked(), returned=[2], durations={4: 1.0})
    with pytest.raises(ConfigError, match="the clock must be of 12 clients; it is of 3"):
        rounds.context(0, there, SIZES, clock=Clock(lognormal(3), [1, 1, 1]))


def test_outcomes_and_numbers_of_a_round():
    context, selection = _asked()
    told = rounds.feedback(
        context, selection, returned=[8, 2], failed=[4], losses={2: 0.5, 8: 1}, updates={2: np.array([3.0, 4.0])}
    )
    assert told.outcomes[[1, 0, 2, 4, 8]].tolist() == [
        Outcome.UNAVAILABLE,
        Outcome.IDLE,
        Outcome.RETURNED,
        Outcome.FAILED,
        Outcome.RETURNED,
    ]
    assert told.norms == {2: 5.0}
    assert rounds.feedback(context, selection, failed=[2]).outcomes[[2, 4]].tolist() == [
        Outcome.FAILED,
        Outcome.RETURNED,
    ]
    assert rounds.feedback(context, selection, returned=[]).outcomes[4] == Outcome.MISSING


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"returned": [2, 3]}, r"returned names clients that were not selected: 3 \(selected: 2, 4, 8\)"),
        ({"returned": [2, 2]}, "returned names a client twice"),
        ({"returned": [True, False, True]}, "returned must be a list of client ids"),
        ({"returned": [2, 4], "failed": [4]}, "both have returned and failed: 4"),
        ({"returned": [2], "losses": {4: 1.0}}, r"losses are given of clients that did not return: 4 \(returned: 2\)"),
        ({"returned": [2], "losses": {2: float("nan")}}, "losses of client 2 must be a finite number"),
        ({"returned": [2, 4], "losses": {2: 1.0, 4: None}}, "losses of client 4 must be a finite number; got None"),
        ({"returned": [2], "norms": {2: 10**400}}, "norms of client 2 must be a finite number; got 1000"),
        ({"returned": [2], "durations": {2: "long"}}, "durations of client 2 must be a finite number; got long"),
        ({"returned": [2], "updates": {8: np.zeros(2)}}, "norms are given of clients that did not return: 8"),
    ],
)
def test_what_contradicts_the_selection_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        rounds.feedback(*_asked(), **options)


def test_a_selection_of_the_absent_or_of_nobody_there_is_refused():
    context, _ = _asked()
    with pytest.raises(ConfigError, match="not available in round 3: 1, 3"):
        rounds.feedback(context, Selection([1, 2, 3], [1, 1, 1]))
    with pytest.raises(ConfigError, match="names client 12, and there are 12 clients"):
        rounds.feedback(context, Selection([12], [1.0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [0, 3], SIZES), r"available must say True or False for each of the 12 clients; got \[0, 3\] \(of ids"),
        ((0, [True] * 3, SIZES), "one entry a client each; got 3 and 12"),
        ((0, [True] * N, SIZES / 3), "sizes must be one positive whole number"),
        ((0, [True] * N, [[1], [1, 2]]), "available and sizes must have one entry a client each"),
        ((-1, [True] * N, SIZES), "round must be a whole number from 0; got -1"),
        ((0, [True] * N, SIZES, 0.5), "seed must be a whole number from 0; got 0.5"),
    ],
)
def test_a_context_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        rounds.context(*arguments)
