"""The clock: rounds by hand, an independent simulation of events, determinism, settings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedselect.clock import Clock, ClockSettings, Devices, build_clock, check_clock, lognormal
from fedselect.errors import ConfigError
from fedselect.measures import RunData, summary
from fedselect.randomness import generator
from fedselect.rounds import simulate
from fedselect.rounds.engine import round_record
from fedselect.rounds.protocol import Outcome
from fedselect.selectors import Uniform

#: Three clients and a model of 1000 bytes: 8, 4 and 1 s down, 2, 4 and 16 s of training, 4, 4 and 1 s up.
DEVICES = Devices([0.5, 1.0, 4.0], [1.0, 2.0, 8.0], [2.0, 2.0, 8.0])
EVERY = np.arange(3)


def clock(**settings):
    enough = settings.pop("enough", None)
    return Clock(DEVICES, [4, 4, 4], ClockSettings(model_bytes=1000, **settings), enough=enough)


def test_durations_of_three_clients_by_hand():
    three = clock()
    assert three.download.tolist() == [8.0, 4.0, 1.0]
    assert three.compute.tolist() == [2.0, 4.0, 16.0]
    assert three.upload.tolist() == [4.0, 4.0, 1.0]
    assert three.expected.tolist() == [14.0, 12.0, 18.0]
    half = clock(compression=0.5)
    assert half.upload.tolist() == [2.0, 2.0, 0.5]
    assert half.play(0, EVERY).sent.tolist() == [1500.0] * 3


def test_a_round_that_waits_for_all_ends_with_the_slowest():
    times = clock(server_seconds=2.0).play(5, EVERY, start=100.0)
    assert (times.start, times.seconds, times.end) == (100.0, 20.0, 120.0)
    assert times.ends.tolist() == [14.0, 12.0, 18.0]
    assert times.arrived.all()
    assert times.busy.tolist() == [14.0, 12.0, 18.0]
    assert times.sent.tolist() == [2000.0] * 3


def test_a_deadline_leaves_the_late_behind():
    times = clock(policy="deadline", deadline=14.0).play(0, EVERY)
    assert times.arrived.tolist() == [True, True, False]
    assert times.late.tolist() == [False, False, True]
    assert times.seconds == 14.0
    assert times.busy.tolist() == [14.0, 12.0, 14.0]
    assert times.sent.tolist() == [2000.0, 2000.0, 1000.0]  # the third has not begun to upload
    assert clock(policy="deadline", deadline=13.0).play(0, EVERY).sent[0] == 1000.0 + 1000.0 * 3 / 4
    assert clock(policy="deadline", deadline=13.0).play(0, np.array([1])).seconds == 12.0  # nobody is waited for


def test_over_selection_takes_the_first_and_ends_with_them():
    times = clock(policy="over-selection", enough=2).play(0, EVERY)
    assert times.arrived.tolist() == [True, True, False]
    assert times.seconds == 14.0
    assert clock().play(0, EVERY, enough=1).arrived.tolist() == [False, True, False]
    lost = clock(policy="over-selection", enough=2).play(0, EVERY, np.array([True, False, True]))
    assert lost.seconds == 18.0
    assert lost.late.tolist() == [False, False, False]


def test_one_uplink_carries_one_upload_at_a_time():
    times = clock(links="shared-uplink").play(0, EVERY)
    assert times.begins.tolist() == [12.0, 8.0, 17.0]  # ready at 10, 8 and 17
    assert times.ends.tolist() == [16.0, 12.0, 18.0]
    assert times.busy.tolist() == [14.0, 12.0, 18.0]  # waiting is not work
    two = clock(links="shared-uplink").play(0, np.array([0, 1]), leaves=np.array([math.inf, 9.0]))
    assert two.ends.tolist() == [14.0, math.inf]
    assert two.begins.tolist() == [10.0, 8.0]
    assert two.busy.tolist() == [14.0, 9.0]


def test_who_drops_out_or_leaves_costs_the_time_until_it_is_noticed():
    dropped = clock().play(0, EVERY, np.array([True, True, False]))
    assert dropped.seconds == 18.0  # when its update was due
    assert dropped.busy.tolist() == [14.0, 12.0, 17.0]
    assert not dropped.late.any()
    assert clock(policy="deadline", deadline=30.0).play(0, EVERY, np.array([True, True, False])).seconds == 30.0
    left = clock().play(0, EVERY, start=10.0, leaves=np.array([math.inf, 13.0, math.inf]))
    assert left.arrived.tolist() == [True, False, True]
    assert left.seconds == 18.0
    assert left.busy[1] == 3.0
    assert left.sent[1] == 750.0
    assert clock().play(0, np.array([1]), leaves=np.array([12.0])).arrived.all()  # it leaves as its upload ends


def test_a_round_without_clients_has_a_length_too():
    nobody = np.empty(0, dtype=np.int64)
    assert clock(idle_seconds=7.0, server_seconds=1.0).play(0, nobody).seconds == 8.0


def stepped(parts, back, leaves, shared, limit, wanted):
    """The same round as a simulation from event to event, in whole ticks; shares nothing with the clock."""
    left = [[round(part[k] * 2**20) for part in parts] for k in range(len(back))]  # of each client's three stages
    due = [sum(each) for each in left]
    leaving = [math.inf if math.isinf(each) else round(each * 2**20) for each in leaves]
    limit = math.inf if limit is None else round(limit * 2**20)
    stage, gone, ready, arrived = [0] * len(back), [False] * len(back), {}, []
    holder, now = None, 0

    def works(k):
        return not gone[k] and (stage[k] < 2 or (stage[k] == 2 and (not shared or holder == k)))

    def is_known(k):  # the server need not wait for this one
        return stage[k] == 3 or now >= leaving[k] or (not back[k] and now >= due[k])

    while True:
        for k in range(len(back)):
            if stage[k] == 2 and left[k][2] == 0 and not gone[k]:
                arrived.append(k)
                stage[k], holder = 3, None if holder == k else holder
                if len(arrived) == wanted:
                    return sorted(arrived), now
        for k in range(len(back)):
            while stage[k] < 2 and left[k][stage[k]] == 0 and not gone[k]:
                stage[k] += 1
            if stage[k] == 2 and k not in ready:
                ready[k] = now
            gone[k] |= stage[k] < 3 and (leaving[k] <= now or (not back[k] and stage[k] == 2))
        if holder is None or gone[holder]:
            waiting = [k for k in ready if stage[k] == 2 and not gone[k]]
            holder = min(waiting, key=lambda k: (ready[k], k), default=None)
        known = len(arrived) == len(back) if limit < math.inf else all(map(is_known, range(len(back))))
        if known or now >= limit:
            return sorted(arrived), now
        moments = [now + left[k][stage[k]] for k in range(len(back)) if works(k)]
        moments += [each for each in (*leaving, *due, limit) if now < each < math.inf]
        step = min(moments) - now
        for k in range(len(back)):
            if works(k):
                left[k][stage[k]] -= step
        now += step


def test_rounds_agree_with_a_simulation_of_events(asserted):
    agrees = asserted(400)
    rng = np.random.default_rng(3)
    for case in range(400):
        n = int(rng.integers(1, 7))
        devices = Devices(*(rng.choice([0.5, 1.0, 1.5, 2.0, 4.0], n) for _ in range(3)))
        limit = float(rng.integers(1, 30)) if case % 3 == 0 else None
        wanted = int(rng.integers(1, n + 1)) if case % 2 else None
        shared = bool(rng.random() < 0.5)
        policy = "over-selection" if wanted else "deadline" if limit else "all"
        links = "shared-uplink" if shared else "parallel"
        settings = ClockSettings(policy, limit, links=links, model_bytes=500, jitter=0.3 * (case % 5 == 0))
        one = Clock(devices, rng.integers(1, 6, n), settings, seed=case, enough=wanted)
        back = rng.random(n) < 0.8
        leaves = np.where(rng.random(n) < 0.3, rng.integers(1, 25, n), math.inf)
        times = one.play(case, np.arange(n), back, leaves=leaves)
        arrived, end = stepped(one.parts(case, np.arange(n)), back, leaves, shared, limit, wanted or n + 1)
        assert np.flatnonzero(times.arrived).tolist() == arrived, case
        assert times.seconds * 2**20 == end, case
        agrees()


def test_times_are_a_function_of_seed_round_and_client():
    devices = lognormal(40, 7)
    one = Clock(devices, np.full(40, 50), ClockSettings(jitter=0.4, link_jitter=0.4, model_bytes=10**6), seed=7)
    some, more = np.array([3, 30]), np.array([1, 3, 9, 30])
    few, many = one.parts(5, some), one.parts(5, more)
    for part, other in zip(few, many, strict=True):
        assert part.tolist() == other[[1, 3]].tolist()
    assert one.parts(6, some)[1].tolist() != few[1].tolist()
    steady = Clock(devices, np.full(40, 50), ClockSettings(jitter=0.4, model_bytes=10**6), seed=7)
    assert steady.parts(5, some)[1].tolist() == few[1].tolist()  # link jitter moves no other stream
    assert steady.parts(5, some)[0].tolist() == steady.download[some].tolist()


@pytest.mark.parametrize("n_clients", [3, 60_000])  # drawn for some rounds at once, and one by one
def test_jitter_is_the_clients_draw_in_the_round_in_whatever_order_rounds_are_asked(n_clients):
    sizes = np.arange(n_clients) % 7 + 1
    one = Clock(lognormal(n_clients, 2), sizes, ClockSettings(jitter=0.3, link_jitter=0.4, model_bytes=10_000), 2)
    some = np.array([0, 2, n_clients - 1])
    for round in (40, 3, 16, 15, 40) if n_clients == 3 else (4, 1):
        work, links = (
            np.exp(sigma * generator(2, purpose, round).standard_normal(n_clients))[some]
            for sigma, purpose in ((0.3, "computation"), (0.4, "links"))
        )
        wanted = one.download[some] * links, one.compute[some] * work, one.upload[some] * links
        for part, seconds in zip(one.parts(round, some), wanted, strict=True):
            assert part.tolist() == (np.rint(seconds * 2.0**20) / 2.0**20).tolist()


def test_the_size_of_the_model_is_that_of_the_settings_or_else_the_real_one():
    open_ = Clock(DEVICES, [1, 1, 1])
    with pytest.raises(ConfigError, match="give the clock model_bytes"):
        open_.play(0, EVERY)
    assert open_.sized(500).download.tolist() == [4.0, 2.0, 0.5]
    assert clock().sized(7).model_bytes == 1000


def test_over_selection_asks_more():
    options = {"policy": "over-selection", "model_bytes": 10}
    assert build_clock("constant", np.ones(100), 10, 0, options)[1] == 13
    assert build_clock("constant", np.ones(100), 10, 0, options | {"ask": 1.1})[1] == 11  # 1.1 * 10 > 11 in binary
    assert build_clock("constant", np.ones(12), 10, 0, options)[1] == 12
    assert build_clock("constant", np.ones(12), 10)[1] == 10


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "deadline"}, "needs a deadline, in seconds"),
        ({"deadline": 3.0}, "policy 'all' waits for everybody"),
        ({"policy": "deadline", "deadline": 0}, "clock: deadline must be a positive number; got 0"),
        ({"policy": "none"}, "clock: policy must be .*'over-selection'.*; got 'none'"),
        ({"links": 3}, "clock: links must be .*; got 3"),
        ({"jitter": -0.1}, "clock: jitter must be a number of at least 0; got -0.1"),
        ({"compression": 0.0}, "clock: compression must be a positive number; got 0"),
        ({"ask": 0.9}, "clock: ask must be a number of at least 1; got 0.9"),
        ({"model_bytes": 0}, "clock: model_bytes must be a positive integer; got 0"),
        ({"jiter": 1.0}, "clock 'constant' has no key 'jiter'; did you mean 'jitter'"),
        ({"down_kbps": "fast"}, "clock 'constant': .*down_kbps"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        check_clock("constant", options)


def test_clocks_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="samples must be one number for each of 3 clients"):
        Clock(DEVICES, [1, 2])
    with pytest.raises(ConfigError, match="enough is the number of updates wanted"):
        Clock(DEVICES, [1, 2, 3], enough=2)
    with pytest.raises(ConfigError, match=r"a training of 5e\+12 s is too long; accepted is at most 4.29e\+09 s"):
        Clock(DEVICES, [1e13, 2, 3], ClockSettings(model_bytes=1))


class Some:
    """Availability of a mask that does not change."""

    def __init__(self, mask):
        self.mask = np.asarray(mask)

    def available(self, round):
        return self.mask


def played(selector, n, *, mask=None, dropout=None, rounds=3, **settings):
    enough = settings.pop("enough", None)
    timed = Clock(lognormal(n), np.full(n, 10), ClockSettings(model_bytes=50_000, **settings), enough=enough)
    there = Some(np.ones(n, dtype=bool) if mask is None else mask)
    return list(simulate(selector, there, dropout, sizes=np.full(n, 10), rounds=rounds, clock=timed))


def test_a_round_in_which_all_are_late_lasts_until_the_deadline():
    for done in played(Uniform(4), 12, policy="deadline", deadline=1e-3):
        assert (done.outcomes[done.selection.clients] == Outcome.MISSING).all()
        assert done.times.late.all()
        assert done.times.seconds == 1e-3
        assert not done.applied.any()


def test_over_selection_of_fewer_than_are_wanted_waits_for_all_of_them():
    mask = np.arange(12) < 3
    for done in played(Uniform(8), 12, mask=mask, policy="over-selection", enough=6):
        assert done.selection.clients.tolist() == [0, 1, 2]
        assert done.times.arrived.all()
        assert done.times.seconds == done.times.ends.max()
    idle = played(Uniform(8), 12, mask=np.zeros(12, dtype=bool), policy="over-selection", enough=6, idle_seconds=7.0)
    assert [done.times.end for done in idle] == [7.0, 14.0, 21.0]


def test_who_ends_at_the_deadline_is_in_time_and_ties_go_to_the_smaller_id():
    assert clock(policy="deadline", deadline=18.0).play(0, EVERY).arrived.all()
    just = clock(policy="deadline", deadline=18.0 - 2.0**-20).play(0, EVERY)
    assert just.arrived.tolist() == [True, True, False]
    alike = Clock(Devices([1.0] * 4, [8.0] * 4, [8.0] * 4), [1] * 4, ClockSettings(model_bytes=1000))
    assert alike.play(0, np.arange(4), enough=2).arrived.tolist() == [True, True, False, False]
    jittered = clock(policy="deadline", deadline=18.0, jitter=0.5)
    expected = jittered.play(3, EVERY)
    ends = sum(jittered.parts(3, EVERY))
    assert expected.arrived.tolist() == (ends <= 18.0).tolist()
    exactly = clock(policy="deadline", deadline=float(ends.max()), jitter=0.5).play(3, EVERY)
    assert exactly.arrived.all()


def test_what_takes_no_time_costs_none_and_has_no_rate():
    quick = Clock(Devices([1e-9] * 2, [1e12] * 2, [1e12] * 2), [1, 1], ClockSettings(model_bytes=1))
    times = quick.play(0, np.arange(2))
    assert times.seconds == 0.0
    assert times.arrived.all()
    assert times.sent.tolist() == [2.0, 2.0]
    rounds = simulate(Uniform(2), Some([True, True]), sizes=np.array([1, 1]), rounds=2, clock=quick)
    found = summary(RunData([round_record(done) for done in rounds], np.full(2, 0.5)))
    assert found["rounds_per_hour"] is None
    assert found["wasted_seconds"] is None


@pytest.mark.parametrize("links", ["parallel", "shared-uplink"])
def test_late_and_lost_are_missing_and_five_outcomes_stay_five(links):
    class Half:
        def returned(self, round):
            return np.arange(40) % 2 == round % 2

    mask = np.arange(40) < 30
    seen = set()
    for done in played(
        Uniform(20), 40, mask=mask, dropout=Half(), policy="deadline", deadline=0.5, links=links, jitter=1.0
    ):
        chosen, times = done.selection.clients, done.times
        lost = ~Half().returned(done.round)[chosen]
        assert not (times.arrived & lost).any()
        assert not (times.late & lost).any()
        expected = np.where(mask, Outcome.IDLE, Outcome.UNAVAILABLE)
        expected[chosen] = np.where(times.arrived, Outcome.RETURNED, Outcome.MISSING)
        assert done.outcomes.tolist() == expected.tolist()
        seen |= {(bool(a), bool(b)) for a, b in zip(lost, times.late, strict=True)}
    assert seen == {(True, False), (False, True), (False, False)}


@pytest.mark.parametrize("name", ["deadline", "idle_seconds", "server_seconds"])
def test_seconds_that_a_clock_cannot_add_are_refused(name):
    with pytest.raises(ConfigError, match=name):
        ClockSettings(**{"policy": "deadline", "deadline": 1.0, name: 1e12})


def test_a_jitter_that_overflows_is_refused():
    with pytest.raises(ConfigError, match="too long"):
        clock(jitter=1e6).play(0, EVERY)
