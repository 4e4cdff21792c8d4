"""Trace files: two layouts, two formats, in and out."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, DROPOUT, Trace, read_trace, record, write_trace
from fedselect.data import digits
from fedselect.errors import ConfigError, DataError, MissingExtraError

#: Rounds without anybody, in the middle and at the end, and a last client who never comes.
THERE = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=12)


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("there", [THERE, THERE[:1], THERE[:, :1], ~THERE], ids=["gaps", "round", "client", "full"])
def test_what_is_written_is_read(tmp_path, layout, ending, there):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    write_trace(tmp_path / f"t{ending}", there, layout)
    assert np.array_equal(read_trace(tmp_path / f"t{ending}"), there)


def test_a_recorded_model_plays_back(federation, tmp_path):
    model = AVAILABILITY.build("markov", federation, 0)
    path = tmp_path / "chain.csv"
    write_trace(path, record(model, 30))
    back = AVAILABILITY.build("trace", federation, 99, path=str(path))
    assert all(np.array_equal(back.available(t), model.available(t)) for t in range(30))
    assert np.array_equal(back.available(31), model.available(1))
    assert back.rates(0) == pytest.approx(np.mean([model.available(t) for t in range(30)], axis=0))


def test_returns_play_back(tmp_path):
    write_trace(tmp_path / "r.csv", THERE)
    back = DROPOUT.build("trace", 4, 0, path=str(tmp_path / "r.csv"))
    assert np.array_equal([back.returned(t) for t in range(4)], THERE)


def test_what_follows_the_end():
    assert Trace(THERE, after="repeat").available(6).tolist() == THERE[2].tolist()
    assert Trace(THERE[:3], after="hold").available(50).tolist() == THERE[2].tolist()
    assert not Trace(THERE[:3], after="nobody").available(3).any()


def test_files_by_hand(tmp_path):
    """Rows in any order, no column of zeros and ones, rounds and clients left out."""
    path = tmp_path / "hand.csv"
    path.write_text("client,round,available\n2,3,1\n0,1,1\n4,0,0\n")
    assert np.argwhere(read_trace(path, n_clients=5)).tolist() == [[1, 0], [3, 2]]
    assert read_trace(path, n_clients=5).shape == (4, 5)
    path.write_text("client,round\n2,3\n0,1\n")
    assert read_trace(path).shape == (4, 3)
    path.write_text("round,1,0\n2,True,False\n0,False,True\n")
    assert np.argwhere(read_trace(path)).tolist() == [[0, 0], [2, 1]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "cannot read the trace"),
        ("round,client\n", "has no row"),
        ("time,client\n0,1\n", "a long trace has a column 'round'; found time, client"),
        ("round,client\n0,1.5\n", "column 'client' counts from 0 in whole numbers"),
        ("round,client\n-1,1\n", "column 'round' counts from 0 in whole numbers"),
        ("round,client,available\n0,1,2\n", "holds 0 and 1, or false and true"),
        ("round,client,battery\n0,1,2\n", "found 'battery' too"),
        ("round,client\n3,1\n3,1\n", "client 1 is listed twice in round 3"),
        ("round,client\n0,12\n", "this trace has 13 clients, the federation 12; clients count from 0$"),
        ("round,client\n0,9\n", "this trace has 10 clients, the federation 12; a row of 0 for client 11 would say"),
        ("round,0,1\n0,1,1\n", "this trace has 2 clients, the federation 12; a row of 0"),
        ("round,0,2\n0,1,1\n", "one column a client, numbered 0 to N - 1"),
        ("round,0,1\n0,1,1\n0,1,1\n", "lists every round once"),
        ("round,client_id,available\n0,1,1\n0,2,1\n", "columns are named round, client .* are round, client_id, avail"),
        ("round,0,1\n0,1,0.5\n", "holds 0 and 1, or false and true, and nothing else; column '1' holds '0.5'"),
        ("timestamp,0,1\n170,1,0\n180,1,1\n", "column 'timestamp' holds '170' .a column of times is left out"),
        ("t,user\n0,3\n1,4\n", "column 'user' holds '3' .*a long trace's columns are named round, client"),
        ("round,client,available\n0,11,0\n", "no client is ever there in this trace"),
    ],
)
def test_bad_files_are_sentences(federation, tmp_path, text, sentence):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        AVAILABILITY.build("trace", federation, 0, path=str(path))


def test_a_missing_file_and_a_damaged_one_are_sentences(federation, tmp_path):
    with pytest.raises(DataError, match=r"cannot read the trace .*none.csv"):
        AVAILABILITY.build("trace", federation, 0, path=str(tmp_path / "none.csv"))
    (tmp_path / "bad.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"cannot read the trace .*bad.csv.gz"):
        AVAILABILITY.build("trace", federation, 0, path=str(tmp_path / "bad.csv.gz"))


def test_a_damaged_parquet_file_is_a_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"cannot read the trace .*bad.parquet"):
        read_trace(tmp_path / "bad.parquet")


def test_without_pyarrow_the_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").touch()
    for call in (lambda p: write_trace(p, THERE), read_trace):
        with pytest.raises(MissingExtraError, match=r"pip install '.*\[parquet\]'"):
            call(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: write_trace("t.json", THERE), r"ends in .csv, .csv.gz or .parquet; got t.json"),
        (lambda: write_trace("t.csv", THERE, "tall"), "layout is 'long' or 'wide'; got 'tall'"),
        (lambda: Trace(THERE, after="stop"), "after must be 'repeat', 'hold' or 'nobody'; got 'stop'"),
    ],
)
def test_bad_calls_are_sentences(call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call()


WIDE = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("ann,bob,cy\n1,1,0\n1,0,0\n0,1,1\n", WIDE),
        ("1,1,0\n1,0,0\n0,1,1\n", WIDE),  # no header
        ("True,True,False\nTrue,False,False\nFalse,True,True\n", WIDE),
        ("true,false\nfalse,true\n", np.eye(2, dtype=bool)),  # two clients: no row is lost
        ("1,1\n0,1\n", np.array([[1, 1], [0, 1]], dtype=bool)),
        ("ann,bob\n1,0\n0,1\n", np.eye(2, dtype=bool)),
        ("1\n0\n", np.array([[1], [0]], dtype=bool)),
        (",0,1,2\n0,1,1,0\n1,1,0,0\n2,0,1,1\n", WIDE),  # pandas' index
        ("2,0,1\n0,1,1\n0,1,0\n1,0,1\n", WIDE),  # numbered columns are clients
        ("0,1,2\nTrue,True,False\nTrue,False,False\nFalse,True,True\n", WIDE),
    ],
)
def test_wide_tables_are_read_as_people_have_them(tmp_path, text, there):
    path = tmp_path / "wide.csv"
    path.write_text(text)
    assert np.array_equal(read_trace(path), there)
    np.save(tmp_path / "wide.npy", there)
    assert np.array_equal(read_trace(tmp_path / "wide.npy", there.shape[1]), there)


@pytest.mark.parametrize("first", ["0,1", "1,0", "0"])
def test_a_first_line_that_may_be_names_or_a_round_is_refused(tmp_path, first):
    """Read as names, the round would be lost; read as a round, the names would be one."""
    path = tmp_path / "wide.csv"
    path.write_text(f"{first}\n{first}\n{first.replace('0', '1')}\n")
    with pytest.raises(DataError, match=f"its first line, {first}, may name clients or be a round"):
        read_trace(path)
    path.write_text(f"round,{first}\n0,{first}\n1,{first.replace('0', '1')}\n")
    assert read_trace(path).shape == (2, len(first.split(",")))


def test_a_wide_trace_with_rounds_may_call_clients_by_any_names(tmp_path):
    (tmp_path / "t.csv").write_text("round,bob,alice\n1,0,1\n0,1,0\n")
    np.testing.assert_array_equal(read_trace(tmp_path / "t.csv"), [[True, False], [False, True]])


def test_rounds_of_unequal_length_are_no_trace():
    with pytest.raises(DataError, match="a trace has a row per round and a column per client"):
        Trace([[True, False], [True]])


def test_numbers_that_do_not_count_from_0_are_no_clients_beside_rounds(tmp_path):
    (tmp_path / "t.csv").write_text("round,1,2\n0,0,1\n1,1,0\n")
    with pytest.raises(DataError, match=r"numbered 0 to N - 1; found \['1', '2'\]"):
        read_trace(tmp_path / "t.csv")
