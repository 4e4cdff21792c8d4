"""Availability in seconds: intervals, files of three kinds, phones; who leaves is missing, with a clock and without."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, Intervals, read_intervals, read_pings, read_transitions
from fedselect.clock import Clock, ClockSettings, constant
from fedselect.data import digits
from fedselect.errors import ConfigError, DataError
from fedselect.rounds import Scenario, play
from fedselect.rounds.protocol import Outcome
from fedselect.selectors import SELECTORS


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=3)


def naive(intervals, n_clients, moment):
    """Mask and moments of leaving, by walking through all intervals."""
    there, leaves = np.zeros(n_clients, dtype=bool), np.full(n_clients, math.inf)
    for client in range(n_clients):
        end, grown = moment, True
        while grown:
            grown = False
            for who, on, off in intervals:
                if who == client and on <= end < off:
                    end, grown, there[client] = off, True, True
        if there[client]:
            leaves[client] = end
    return there, leaves


def test_moments_agree_with_a_walk_through_all_intervals(asserted):
    cases = asserted(100)
    rng = np.random.default_rng(1)
    for _ in range(10):
        rows = []
        for client in range(5):
            edges = np.sort(rng.choice(60, 2 * rng.integers(0, 5), replace=False)).astype(float)
            rows += [(client, on, off) for on, off in zip(edges[::2], edges[1::2], strict=True)]
            if len(edges) > 3:
                rows.append((client, edges[1], edges[2]))  # touches both neighbours
        who, on, off = (np.array(each) for each in zip(*rows, strict=True))
        model = Intervals(who, on, off, 5)
        for moment in [*rng.integers(-2, 62, 5), *(rng.random(5) * 60)]:
            there, leaves = naive(rows, 5, moment)
            assert model.available_at(moment).tolist() == there.tolist()
            assert model.leaves(moment).tolist() == leaves.tolist()
            cases()


def test_a_period_repeats_and_has_no_seam():
    model = Intervals([0, 0, 1, 2], [0, 80, 20, 0], [10, 100, 30, 100], 3, period=100.0)
    assert model.available_at(205.0).tolist() == [True, False, True]
    assert model.leaves(285.0).tolist() == [310.0, math.inf, math.inf]
    assert model.leaves(225.0).tolist() == [math.inf, 230.0, math.inf]
    assert model.rates(0).tolist() == pytest.approx([0.3, 0.1, 1.0])
    assert Intervals([0], [0], [50], 1, round_seconds=20.0).available(3).tolist() == [False]


def test_files_of_all_kinds_say_the_same(tmp_path, federation):
    (tmp_path / "i.csv").write_text("client,on,off\n0,100,200\n1,150,400\n2,100,150\n2,300,400\n")
    rows = [(0, 100, 1), (2, 100, 1), (1, 150, "on"), (2, 150, 0), (0, 200, "off"), (2, 300, "online"), (2, 400, 0)]
    moments = [dict(zip(("client", "time", "state"), row, strict=True)) for row in rows]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(each) + "\n" for each in moments))
    traced = {
        "0": {"active": [100], "inactive": [200], "finish_time": 400},
        "1": {"active": [150], "inactive": [], "finish_time": 400},
        "2": {"active": [100, 300], "inactive": [150, 400], "finish_time": 400},
    }
    (tmp_path / "f.json").write_text(json.dumps(traced))
    wanted = [[0, 1, 2, 2], [0.0, 50.0, 0.0, 200.0], [100.0, 300.0, 50.0, 300.0]]
    for found in (
        read_intervals(tmp_path / "i.csv"),
        read_transitions(tmp_path / "t.jsonl"),
        read_intervals(tmp_path / "f.json"),
    ):
        assert [each.tolist() for each in found] == wanted
    later = read_intervals(tmp_path / "i.csv", origin=150)
    assert later[1].tolist() == [-50.0, 0.0, -50.0, 150.0]
    built = AVAILABILITY.build("seconds", federation, 0, path=str(tmp_path / "i.csv"), round_seconds=60.0)
    assert built.available(1).tolist() == [True, True, False]


def test_pings_last_until_their_timeout(tmp_path):
    (tmp_path / "p.csv").write_text(
        "client,time\na,2020-01-30T08:00:00\nb,2020-01-30T09:00:00+09:00\na,2020-01-30T08:02:00\n"
    )
    clients, on, off = read_pings(
        tmp_path / "p.csv", timeout=150, time_zone="Asia/Shanghai", origin="2020-01-30T08:00:00"
    )
    assert clients.tolist() == [0, 1]
    assert on.tolist() == [0.0, 0.0]  # 8:00 in Shanghai is 9:00 in Tokyo
    assert off.tolist() == [270.0, 150.0]


@pytest.mark.parametrize(
    ("reader", "text", "says"),
    [
        (read_intervals, "client,on,off\n0,5,5\n", "row 1: client 0 has an interval from 5 to 5; it must end"),
        (
            read_intervals,
            "client,on,off\n0,2026-03-01T08:00:00,2026-03-01T07:54:00\n",
            "row 1: client 0 has an interval from 2026-03-01T08:00:00 to 2026-03-01T07:54:00; it must end",
        ),
        (
            read_intervals,
            "client,on,off\n0,1,5\n1,0,9\n0,4,8\n",
            r"client 0 has intervals that overlap: 1 to 5 \(row 1\) and 4 to 8 \(row 3\)",
        ),
        (read_intervals, "client,on\n0,5\n", "row 1 has no 'off'"),
        (
            read_intervals,
            "client,on,off\n0,soon,5\n",
            "row 1: a time is a number of seconds or a date .*; found 'soon'",
        ),
        (read_intervals, "client,on,off\n-1,0,5\n", "clients count from 0"),
        (read_intervals, "client,on,off\n0,0,inf\n", "times are finite; found inf"),
        (read_transitions, "client,time,state\n0,5,1\n0,4,0\n", "client 0 has 4 after 5"),
        (read_transitions, "client,time,state\nbo,5,1\nal,1,1\nbo,4,0\n", "client bo has 4 after 5"),
        (read_transitions, "client,time,state\n0,5,maybe\n", "a state is one of .*; found 'maybe'"),
    ],
)
def test_files_that_cannot_be_are_refused(tmp_path, reader, text, says):
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(DataError, match=says):
        reader(tmp_path / "f.csv")


def test_a_client_is_inactive_as_often_as_it_is_active(tmp_path):
    (tmp_path / "f.json").write_text('{"0": {"active": [1, 2, 3], "inactive": [4]}}')
    with pytest.raises(DataError, match="client 0 is active 3 times and inactive 2 times"):
        read_intervals(tmp_path / "f.json")


def test_clients_of_a_large_file_are_picked(tmp_path, federation):
    path = tmp_path / "i.csv"
    path.write_text("client,on,off\n" + "".join(f"{k},{k},{k + 1}\n" for k in range(9)))
    first = AVAILABILITY.build("seconds", federation, 0, path=str(path), pick="first")
    assert first.on.tolist() == [0.0, 1.0, 2.0]
    some = [
        AVAILABILITY.build("seconds", federation, seed, path=str(path), pick="random").on.tolist() for seed in (0, 0, 1)
    ]
    assert some[0] == some[1] != some[2]
    with pytest.raises(ConfigError, match='the file has 9 clients, the federation 3; pick = "first"'):
        AVAILABILITY.build("seconds", federation, 0, path=str(path))
    path.write_text("client,on,off\n0,0,360\n")
    few = "the file has 1 client, the federation 3; clients count from 0: give data.n_clients = 1, or a row of client 2"
    with pytest.raises(ConfigError, match=few):
        AVAILABILITY.build("seconds", federation, 0, path=str(path))
    with pytest.raises(ConfigError, match="there is no time zone 'Mars/Olympus'"):
        AVAILABILITY.build("seconds", federation, 0, path=str(path), time_zone="Mars/Olympus")


def test_who_leaves_before_its_update_arrived_is_missing():
    class Three(Intervals):
        pass

    there = Three([0, 1, 2], [0, 0, 30], [100, 25, 90], 3, round_seconds=20.0)
    sizes = np.full(3, 10)
    without = Scenario(sizes, there, size=3, rounds=3)
    played = list(play(SELECTORS.build("uniform", without), without, 3))
    assert [each.outcomes.tolist() for each in played] == [
        [Outcome.RETURNED, Outcome.RETURNED, Outcome.UNAVAILABLE],
        [Outcome.RETURNED, Outcome.MISSING, Outcome.UNAVAILABLE],
        [Outcome.RETURNED, Outcome.UNAVAILABLE, Outcome.RETURNED],
    ]
    clock = Clock(constant(3, seconds_per_sample=1.0), sizes, ClockSettings(model_bytes=1))  # 10 s and a little
    timed = Scenario(sizes, there, None, 0, None, clock, size=3, rounds=4)
    ends = [(each.times.end, each.outcomes[1]) for each in play(SELECTORS.build("uniform", timed), timed, 4)]
    assert ends[1][1] == Outcome.RETURNED
    assert ends[2] == (pytest.approx(30.0, abs=0.01), Outcome.MISSING)  # from 20 s on, it leaves at 25 s
    assert ends[3][1] == Outcome.UNAVAILABLE


def test_phones_come_at_night_four_times_as_often():
    model = AVAILABILITY.build("phones", digits(n_clients=300), 3)
    share = np.array([model.available_at(3600.0 * (24 * day + hour)).mean() for day in range(7) for hour in range(24)])
    by_hour = share.reshape(7, 24).mean(axis=0)
    assert 3.0 < by_hour.max() / by_hour[8:21].min() < 6.0
    assert by_hour[[1, 2, 3]].min() > 0.6
    assert model.available_at(3600.0).tolist() == model.available_at(3600.0 + 7 * 86400).tolist()
    again = AVAILABILITY.build("phones", digits(n_clients=300), 3)
    assert again.on.tobytes() == model.on.tobytes()
    spread = AVAILABILITY.build("phones", digits(n_clients=300), 3, zones=24.0)
    hours = [spread.available_at(3600.0 * (48 + hour)).mean() for hour in range(24)]
    assert max(hours) / min(hours) < 2.0


def test_sessions_by_day_are_few_enough_to_be_drawn(federation):
    with pytest.raises(ConfigError, match=r"day_sessions must lie in \[0, 1000\]; got 1e\+300"):
        AVAILABILITY.build("phones", federation, 0, day_sessions=1e300)
