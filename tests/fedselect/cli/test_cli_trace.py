"""``fedselect trace``: make a file from a model, and show what is in one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, read_trace, write_trace
from fedselect.cli.trace import picture, summary
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
