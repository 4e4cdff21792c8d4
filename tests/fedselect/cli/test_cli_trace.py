"""``fedselect trace``: make a file from a model, and show what is in one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, read_intervals, read_trace, write_trace
from fedselect.cli.trace import picture, summary
from fedselect.clock import read_devices
from fedselect.data import load_data


@pytest.mark.parametrize(("file", "layout"), [("t.csv", "long"), ("t.csv.gz", "wide"), ("t.parquet", "long")])
def test_make_writes_what_the_model_says(call, tmp_path, file, layout):
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / file
    arguments = ("--n-clients", 20, "--rounds", 15, "--seed", 3, "--option", "beta=0.7", "--layout", layout)
    code, out, err = call("trace", "make", "lognormal", "--out", path, *arguments, "--format", "json")
    assert (code, err) == (0, "")
    model = AVAILABILITY.build("lognormal", load_data("digits", n_clients=20), 3, beta=0.7)
    expected = np.stack([model.available(t) for t in range(15)])
    np.testing.assert_array_equal(read_trace(path), expected)
    assert json.loads(out)["available"] == pytest.approx(expected.mean())


def test_make_returns_and_other_data(call, tmp_path):
    path = tmp_path / "r.csv"
    assert (
        call("trace", "make", "bernoulli", "--returns", "--option", "rate=0.4", "--n-clients", 9, "--out", path)[0] == 0
    )
    model = DROPOUT.build("bernoulli", 9, 0, rate=0.4)
    np.testing.assert_array_equal(read_trace(path), np.stack([model.returned(t) for t in range(100)]))
    arguments = ("--data", "synthetic", "--n-clients", 8, "--data-option", "samples=20", "--rounds", 4)
    assert call("trace", "make", "more-data-first", *arguments, "--out", path)[0] == 0
    assert read_trace(path).all()  # equal sizes: everybody is always there


def test_a_made_trace_runs_as_availability(call, tmp_path):
    path = tmp_path / "t.csv"
    call("trace", "make", "markov", "--n-clients", 10, "--rounds", 6, "--out", path)
    federation = load_data("digits", n_clients=10)
    there = AVAILABILITY.build("trace", federation, 0, path=str(path))
    model = AVAILABILITY.build("markov", federation, 0)
    assert all(np.array_equal(there.available(t), model.available(t)) for t in range(6))


def test_show(call, tmp_path):
    there = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)
    write_trace(tmp_path / "t.csv", there)
    found = json.loads(call("trace", "show", tmp_path / "t.csv", "--format", "json")[1])
    del found["file"]
    assert found == {
        "rounds": 4,
        "n_clients": 3,
        "available": 4 / 12,
        "fewest": 0,
        "most": 2,
        "rounds_without_anybody": 1,
        "clients_never_there": 1,
        "mean_spell": 2.0,
        "mean_absence": 8 / 4,  # client 0: 2; client 1: 1 and 1; client 2: 4
    }
    code, out, _ = call("trace", "show", tmp_path / "t.csv")
    assert code == 0
    assert "clients never there" in out
    assert "|██  |\n| ██ |\n|    |" in out
    assert "client 0" not in out
    write_trace(tmp_path / "from_1.csv", there[:, [2, 0, 1]])
    assert (
        "client 0 is never there: clients count from 0; if yours count from 1"
        in call("trace", "show", tmp_path / "from_1.csv")[1]
    )


def test_show_of_intervals_in_seconds(call, tmp_path):
    file = tmp_path / "phones.csv"
    file.write_text("client,on,off\na,0,100\nb,50,400\na,200,300\n")
    found = json.loads(call("trace", "show", file, "--format", "json")[1])
    assert (found["n_clients"], found["intervals"], found["last_second"]) == (2, 3, 400)
    assert found["available"] == pytest.approx(550 / 800)
    assert found["mean_seconds_there"] == pytest.approx(550 / 3)
    code, printed, _ = call("trace", "show", file)
    assert code == 0
    assert [line for line in printed.splitlines() if line.startswith("|")] == [
        "|" + " " * 8 + "█" * 56 + "|",  # b, who is there for longest: a column is 6.25 s
        "|" + "█" * 16 + " " * 16 + "█" * 16 + " " * 16 + "|",
    ]
    assert "availability 'seconds' with path" in printed
    file.write_text("client,on,off\n")
    assert call("trace", "show", file)[0] == 2


def test_summary_without_absence():
    assert summary(np.ones((3, 2), dtype=bool))["mean_absence"] is None


def test_picture_shades_say_none_and_all_exactly():
    there = np.zeros((640, 32), dtype=bool)
    there[:, :2] = True  # the first two of 32 clients fill the first of 16 rows
    there[0, 2] = True  # one of twenty client-rounds of a cell
    lines = picture(there, " .:*#").splitlines()
    assert len(lines) == 16
    assert lines[0] == "|" + "#" * 64 + "|"
    assert lines[1] == "|." + " " * 63 + "|"
    assert set(lines[2:]) == {"|" + " " * 64 + "|"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["make", "lognormall"], "did you mean 'lognormal'"),
        (["make", "lognormal", "--option", "gamma=1"], "has no option 'gamma'"),
        (["make", "lognormal", "--rounds", "0"], "a trace needs at least one round; got 0"),
        (["make", "lognormal", "--out", "t.txt"], "a trace's file ends in .csv"),
        (["make", "lognormal", "--out", "nowhere/t.csv"], "cannot write nowhere/t.csv"),
        (["make", "lognormal", "--layout", "tall"], "a trace's layout is 'long' or 'wide'"),
        (["show", "nothing.csv"], "cannot read the trace nothing.csv"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(call, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("trace", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("fedselect: ")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


PUBLISHED = {
    # FedScale's behaviour: client 9 is there for 50 s, and again until the end of its trace.
    "fedscale.json": json.dumps(
        {"10": {"active": [0], "inactive": [30], "finish_time": 90, "model": "A", "duration": 30},
         "9": {"active": [10, 70], "inactive": [60], "finish_time": 90}}
    ),
    # FLASH: there from 08:00:20 (charging, on Wi-Fi, locked) to 08:00:50 (unlocked), and from 08:01:20 to the end.
    "flash.json": json.dumps(
        {"u7": {"model": "B", "messages": "2020-01-28 08:00:00\tbattery_charged_on\n2020-01-28 08:00:10\twifi\n"
                "2020-01-28 08:00:20\tscreen_lock\n2020-01-28 08:00:30\t55.0%\n2020-01-28 08:00:50\tscreen_unlock\n"
                "2020-01-28 08:01:20\tscreen_off\n2020-01-28 08:01:40\tbattery_okay"},
         "u8": {"model": "C", "messages": "2020-01-28 08:00:00\tscreen_off\n2020-01-28 08:00:30\t4G"}}
    ),
    "plato.csv": "client,time,state\n3,0,online\n5,5,online\n3,20,offline\n5,40,offline\n",
    "pings.jsonl": '{"client": "b", "time": 0}\n{"client": "a", "time": 30}\n{"client": "b", "time": 50}\n',
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "options", "clients", "on", "off"),
    [
        ("fedscale.json", (), [0, 0, 1], [10, 70, 0], [60, 90, 30]),
        ("flash.json", ("--time-zone", "Asia/Shanghai"), [0, 0], [0, 60], [30, 80]),
        ("plato.csv", ("--kind", "transitions"), [0, 1], [0, 5], [20, 40]),
        ("pings.jsonl", ("--kind", "pings", "--timeout", 40), [0, 1, 1], [30, 0, 50], [70, 40, 90]),
    ],
)
def test_published_traces_are_converted_to_intervals(call, tmp_path, file, options, clients, on, off):
    (tmp_path / file).write_text(PUBLISHED[file], encoding="utf-8")
    code, out, err = call(
        "trace", "convert", tmp_path / file, *options, "--out", tmp_path / "t.csv", "--format", "json"
    )
    assert code == 0, err
    found = read_intervals(tmp_path / "t.csv", origin=0.0)
    assert [each.tolist() for each in found] == [clients, on, off]
    assert json.loads(out)["intervals"] == len(on)


def test_fedscales_devices_are_converted_to_a_table(call, tmp_path):
    capacities = {
        "11": {"computation": 20.0, "communication": 500.0},
        "9": {"computation": 162, "communication": 5648.1},
    }
    (tmp_path / "devices.json").write_text(json.dumps(capacities), encoding="utf-8")
    assert call("trace", "convert", tmp_path / "devices.json", "--kind", "devices", "--out", tmp_path / "d.csv")[0] == 0
    found = read_devices(tmp_path / "d.csv", 2)
    assert found.seconds_per_sample.tolist() == [0.162, 0.02]
    assert found.up_kbps.tolist() == found.down_kbps.tolist() == [5648.1, 500.0]


@pytest.mark.parametrize(
    ("file", "options", "on", "seconds", "left"),
    [
        # 9 and 10 have intervals, 10 and 11 devices; of FLASH's phones u7 has both; of Plato's clients 5.
        ("fedscale.json", (), [0.0], {"10": 20.0, "11": 162, "2": 7.0}, 1),
        ("flash.json", ("--time-zone", "Asia/Shanghai"), [0.0, 60.0], {"u10": 1.0, "u7": 20.0, "u8": 162}, 0),
        ("plato.csv", ("--kind", "transitions"), [5.0], {"5": 20.0}, 1),
        ("pings.jsonl", ("--kind", "pings"), [30.0, 0.0], {"a": 20.0, "b": 30.0}, 0),
        ("sites.csv", ("--kind", "power"), [600.0, 0.0], {"north": 20.0, "south": 30.0}, 1),
    ],
)
def test_times_and_devices_of_one_population_number_a_client_alike(
    call, tmp_path, file, options, on, seconds, left, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sites = "time,west,south,north\n0,1,1,0\n600,0,0,5\n1200,0,0,0\n"
    (tmp_path / file).write_text({**PUBLISHED, "sites.csv": sites}[file], encoding="utf-8")
    capacities = {client: {"computation": value, "communication": 500.0} for client, value in seconds.items()}
    (tmp_path / "capacity.json").write_text(json.dumps(capacities), encoding="utf-8")
    arguments = ("--devices", "capacity.json", "--out", "t.csv", "--devices-out", "d.csv", "--format", "json")
    code, out, err = call("trace", "convert", file, *options, *arguments)
    assert code == 0, err
    clients, begins, _ = read_intervals("t.csv", origin=0.0)
    assert begins.tolist() == on
    found = read_devices("d.csv")
    assert sorted({*clients.tolist()}) == list(range(len(found)))
    assert json.loads(out)["n_clients"] == len(found)
    assert json.loads(out)["clients_without_device"] == left
    wanted = [0.02, 0.03] if len(found) == 2 else [0.02]  # of each client, by its number
    assert found.seconds_per_sample.tolist() == wanted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--devices", "capacity.json"], "no client of plato.csv has a device in capacity.json, whose first client is"),
        (["--devices", "capacity.json", "--kind", "devices"], "--devices is about the clients of a file of times"),
        (["--devices", "table.csv", "--out", "t.csv", "--devices-out", "t.csv"], "name one file, t.csv"),
        (["--devices", "table.csv", "--devices-out", "d.txt"], "a trace's file ends in .csv"),
    ],
)
def test_devices_that_cannot_be_joined_are_refused(call, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plato.csv").write_text(PUBLISHED["plato.csv"], encoding="utf-8")
    (tmp_path / "capacity.json").write_text('{"77": {"computation": 20.0, "communication": 500.0}}', encoding="utf-8")
    rows = "".join(f"{client},0.1,100.0\n" for client in range(6))
    (tmp_path / "table.csv").write_text(f"client,seconds_per_sample,down_kbps\n{rows}", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    code, _, err = call("trace", "convert", "plato.csv", *["--kind", "transitions"], *options)
    assert code == 2
    assert says in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("file", "text", "kind", "says"),
    [
        ("t.pkl", "", "intervals", "it is no pickle, or a damaged one"),
        ("t.json", '{"4": {"messages": "2020-01-28 08:00:00 wifi"}}', "intervals", "a time, a tab and a state"),
        ("t.json", '{"4": {"active": [3]}}', "intervals", "FedScale"),
        ("t.json", '{"4": {"computation": 3}}', "devices", "client 4 needs numbers computation and communication"),
        ("t.json", "[]", "devices", "an object of clients"),
        ("t.json", '{"4": {"computation": 0, "communication": 1}}', "devices", "must be positive"),
        ("t.csv", "client,time\n0,1\n", "ping", "ping"),
    ],
)
def test_what_cannot_be_converted_is_refused(call, tmp_path, file, text, kind, says):
    (tmp_path / file).write_text(text, encoding="utf-8")
    code, _, err = call("trace", "convert", tmp_path / file, "--kind", kind, "--out", tmp_path / "out.csv")
    assert code != 0
    assert says in " ".join(err.split())
    assert not (tmp_path / "out.csv").exists()
