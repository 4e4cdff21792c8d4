"""Runs with a clock: records, resumption to the same bits, summaries, time to a target, pictures, damaged records."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedselect.clock import lognormal
from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, RecordedRun, compare, read_config, read_records, read_summary, run
from fedselect.experiments.comparison import median_time, time_table
from fedselect.experiments.config import starting_file
from fedselect.experiments.figures import run_timeline_figure, seconds_figure, timeline_figure
from fedselect.integrations.loggers import numbers_of
from fedselect.measures import RunData, client_table, round_table, seconds_to
from fedselect.reports.runs import run_report, selectors_report

CLOCK = Choice("lognormal", {"policy": "deadline", "deadline": 1.0, "jitter": 0.5, "links": "shared-uplink"})
EXPERIMENT = Experiment(
    "timed", 6, 1, 4, data=Choice("digits", {"n_clients": 12}), selector=Choice("oort"), clock=CLOCK
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("torch")
    return run(EXPERIMENT, tmp_path_factory.mktemp("runs"), plots=False)


def test_records_have_seconds_that_add_up(folder):
    records = read_records(folder)
    start = 0.0
    for record in records:
        times, chosen = record["clock"], record["selected"]
        assert times["start"] == start
        start = record["seconds"]
        ends = [math.inf if end is None else end for end in times["ends"]]
        assert record["returned"] == [k for k, end in zip(chosen, ends, strict=True) if end <= 1.0]
        assert times["late"] == record["missing"]
        assert start - times["start"] == (1.0 if record["missing"] else max(ends))
    # digits' linear model has 650 float32 numbers.
    rates = lognormal(12, 1).up_kbps[records[0]["selected"]]
    assert records[0]["clock"]["upload"] == pytest.approx(8 * 4 * 650 / (1000 * rates), abs=1e-6)
    assert any(record["missing"] for record in records)


def test_a_run_that_is_stopped_ends_with_the_same_bits(folder, tmp_path):
    wall = ("select_seconds", "train_seconds")
    for last in range(5):

        def stop(record, last=last):
            if record["round"] == last:
                raise StopIteration

        run(EXPERIMENT, tmp_path / str(last), plots=False, callbacks=[stop])
        again = run(EXPERIMENT, tmp_path / str(last), plots=False)
        for old, new in zip(read_records(folder), read_records(again), strict=True):
            assert {k: v for k, v in old.items() if k not in wall} == {k: v for k, v in new.items() if k not in wall}


def test_the_summary_counts_what_the_records_say(folder):
    records, results = read_records(folder), read_summary(folder)
    assert results["seconds"] == records[-1]["seconds"]
    assert results["rounds_per_hour"] == pytest.approx(3600 * 6 / records[-1]["seconds"])
    late = sum(len(record["clock"]["late"]) for record in records)
    assert results["stragglers"] == late / 24
    wasted, busy = (sum(record["clock"][f"{name}_seconds"] for record in records) for name in ("wasted", "busy"))
    assert results["wasted_seconds"] == pytest.approx(wasted / busy)
    sizes = np.full(12, 10)
    table = client_table(RunData(records, sizes / 120, {"loss": np.zeros(12), "accuracy": np.zeros(12)}, sizes))
    assert table["late"].sum() == late
    assert numbers_of(records[0])["seconds"] == records[0]["seconds"]


def test_without_a_clock_nothing_is_added(tmp_path):
    pytest.importorskip("torch")
    plain = replace(EXPERIMENT, clock=None, rounds=1, selector=Choice("uniform"))
    folder = run(plain, tmp_path, plots=False)
    assert "clock" not in (folder / "config.toml").read_text()
    assert not {"seconds", "clock"} & set(read_records(folder)[0])
    assert "seconds" not in read_summary(folder)
    assert "late" not in (folder / "clients.csv").read_text()
    with pytest.raises(ConfigError, match=r"its configuration has no \[clock\]"):
        seconds_to(round_table(read_records(folder)), 0.5)


def test_the_configuration_is_read_back(folder, tmp_path):
    read, _ = read_config(folder / "config.toml")
    assert (read.digest, read.name, read.seed) == (EXPERIMENT.digest, EXPERIMENT.name, EXPERIMENT.seed)
    assert read.clock.options["link_jitter"] == 0.0  # a default
    assert replace(EXPERIMENT, clock=None).digest != EXPERIMENT.digest
    text = starting_file()
    (tmp_path / "first.toml").write_text(text)
    assert read_config(tmp_path / "first.toml")[0].clock is None
    turned_on = text.replace("# [clock]", "[clock]").replace("#: name: left out", 'name = "tiers"')
    (tmp_path / "second.toml").write_text(turned_on)
    assert read_config(tmp_path / "second.toml", ["clock.policy=over-selection"])[0].clock == Choice(
        "tiers", {"policy": "over-selection"}
    )
    with pytest.raises(ConfigError, match=r"clock: policy 'deadline' needs a deadline"):
        read_config(tmp_path / "second.toml", ["clock.policy=deadline"])
    with pytest.raises(ConfigError, match=r"there is no clock 'sundial'"):
        replace(EXPERIMENT, clock=Choice("sundial"))


def test_time_to_a_target_is_that_of_the_first_round_that_reaches_it():
    table = pd.DataFrame({"round": [0, 1, 2], "accuracy": [0.1, np.nan, 0.6], "seconds": [5.0, 7.0, 12.5]})
    assert seconds_to(table, 0.1) == 5.0
    assert seconds_to(table, 0.5) == 12.5
    assert seconds_to(table, 0.7) is None
    [near, far] = time_table({"a": [table, table]}, [0.5, 0.7])["a"]
    assert (near.median, near.reached) == (12.5, 2)
    assert (far.median, far.reached, str(far)) == (math.inf, 0, "not reached [not reached, not reached], 0 of 2")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([],), r"times must be one number of seconds for each run, and at least one; got \[\]"),
        ((3.0,), "and at least one; got 3.0"),
        ((["soon"],), "times must be numbers of seconds: could not convert"),
        (([1.0], 95), r"level must lie in \[0, 1\]; got 95"),
    ],
)
def test_what_has_no_median_time_is_a_sentence(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        median_time(*arguments)


def test_the_interval_of_a_median_needs_no_distribution_and_takes_censored_times():
    five = median_time([3.0, 1.0, math.nan, 2.0, math.inf])
    assert (five.median, five.low, five.high, five.reached) == (3.0, 1.0, math.inf, 3)
    assert five.coverage == 0.9375
    nine = median_time(range(1, 10))
    assert (nine.median, nine.low, nine.high) == (5.0, 2.0, 8.0)  # 1 - 2 * 10 / 512
    assert nine.coverage == pytest.approx(0.9609375)
    assert median_time([4.0, 6.0]).median == 5.0
    rng = np.random.default_rng(0)
    held = [
        low <= 1.0 <= high for low, high in (median_time(rng.exponential(1 / math.log(2), 9))[1:3] for _ in range(2000))
    ]
    assert np.mean(held) == pytest.approx(0.961, abs=0.02)


def test_reports_show_seconds(folder, tmp_path):
    timed = RecordedRun.read(folder)
    names = [picture.key for picture in run_report(timed).pictures]
    assert {"seconds", "timeline", "slowest-round"} <= set(names)
    report = selectors_report("timed", {"oort": {1: timed}})
    assert {"seconds", "time-to-accuracy"} <= {table.key for table in report.tables}
    assert report.tables[0].texts[0][-1] == "length of the run (s)"
    bars = timeline_figure(timed.records[0]).axes[0]
    assert len(bars.get_yticks()) == 4
    assert run_timeline_figure(timed.records).axes[0].get_xlabel() == "seconds"
    assert len(seconds_figure({"a": [timed.table]}).axes) == 2


def test_comparisons_have_the_seconds_to_a_target(tmp_path):
    pytest.importorskip("torch")
    base = replace(EXPERIMENT, rounds=2, name="both")
    found = compare(base, {"a": Choice("uniform"), "b": Choice("uniform", {"over": 1.5})}, [0], tmp_path)
    assert found.seconds_to(0.0)["seconds"].notna().all()
    assert found.seconds_to(2.0)["seconds"].isna().all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.update(seconds="soon"), "seconds must be a number; got 'soon'"),
        (lambda record: record["clock"].pop("start"), "clock: start is missing"),
        (lambda record: record["clock"].update(late=[99]), "late must be a list of clients below 12"),
        (lambda record: record["clock"]["ends"].pop(), "ends must be a list with a number for each client"),
        (lambda record: record["clock"].update(upload=["x"] * 4), "upload must be a list with a number"),
        (lambda record: record.update(clock=[]), "clock must be a table; got"),
    ],
)
def test_damaged_records_are_refused(folder, tmp_path, change, says):
    record = json.loads((folder / "rounds.jsonl").read_text().splitlines()[0])
    change(record)
    (tmp_path / "rounds.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(RunError, match=says):
        read_records(tmp_path, 12)
