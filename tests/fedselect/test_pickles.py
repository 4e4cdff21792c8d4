"""Pickles of strangers: containers, numbers and texts come out as they went in; nothing else does, and nothing runs."""

from __future__ import annotations

import json
import os
import pickle
import pickletools

import numpy as np
import pytest

from fedselect.availability.times import read_intervals, read_power
from fedselect.clock import CLOCKS, read_devices
from fedselect.errors import DataError
from fedselect.pickles import read_pickle
from solvers.reading import Unreadable


class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_containers_come_out_as_they_went_in(tmp_path):
    value = {3: {"active": [0, 5.5], "inactive": (1, 9), "finish_time": 10**30}, "x": [None, True], "b": b"\0"}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):  # bytes are no type of their own before 3
        kept = value if protocol > 2 else {3: value[3], "x": value["x"]}
        (tmp_path / "file").write_bytes(pickle.dumps(kept, protocol))
        assert read_pickle(tmp_path / "file") == kept


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Runs()),
        pickle.dumps([Runs()], 0),
        pickle.dumps(np.zeros(3)),
        pickle.dumps(os.system),
        b"\x80\x04\x82\x01.",  # a registered class
        b"P1\n.",  # something outside itself
        b"\x80\x04K\x01r\xff\xff\xff\xff",  # the last place of a memo of four thousand million
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",  # a text longer than any file
        b"(lp0\n0.",
        b"",
        b"no pickle",
    ],
)
def test_nothing_else_is_read_and_nothing_runs(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.pkl").write_bytes(data)
    with pytest.raises(Unreadable, match=r"only containers|outside itself|no pickle"):
        read_pickle(tmp_path / "file.pkl")
    assert sorted(os.listdir(tmp_path)) == ["file.pkl"]


def test_damaged_pickles_end_in_a_sentence(tmp_path):
    """Every prefix of a pickle, and every byte of it changed, is read or refused; no other exception comes out."""
    good = pickle.dumps({1: {"active": [1, 2], "inactive": [2, 3]}, "two": (1.5, None)})
    assert list(pickletools.genops(good))
    read = refused = 0
    for place in range(len(good)):
        for data in (good[:place], good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :]):
            (tmp_path / "file").write_bytes(data)
            try:
                read_pickle(tmp_path / "file")
                read += 1
            except Unreadable:
                refused += 1
    assert read + refused == 2 * len(good)
    assert refused > len(good)


def test_what_fedscale_publishes(tmp_path, call):
    trace = {7: {"duration": 9, "active": [0, 20], "inactive": [10], "finish_time": 30},
             2: {"duration": 9, "active": [5], "inactive": [15], "finish_time": 30}}  # fmt: skip
    (tmp_path / "client_behave_trace").write_bytes(pickle.dumps(trace))
    who, on, off = read_intervals(tmp_path / "client_behave_trace")
    assert {*zip(who.tolist(), on.tolist(), off.tolist(), strict=True)} == {(7, 0, 10), (7, 20, 30), (2, 5, 15)}
    capacity = {1: {"computation": 20.0, "communication": 1000.0}, 2: {"computation": 5, "communication": 50}}
    (tmp_path / "client_device_capacity").write_bytes(pickle.dumps(capacity))
    devices = read_devices(tmp_path / "client_device_capacity")
    assert devices.seconds_per_sample.tolist() == [0.02, 0.005]
    assert devices.down_kbps.tolist() == devices.up_kbps.tolist() == [1000.0, 50.0]
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Runs()))
    for reader in (read_intervals, read_devices):
        with pytest.raises(DataError, match=r"cannot read .*evil\.pkl: it names .*system"):
            reader(tmp_path / "evil.pkl")
    out = tmp_path / "out.csv"
    assert call("trace", "convert", str(tmp_path / "client_behave_trace"), "--out", str(out))[0] == 0
    assert out.read_text().splitlines()[0] == "client,on,off"


def test_solar_power_of_fedzero(tmp_path):
    path = tmp_path / "solar.csv"
    path.write_text(
        "datetime,Berlin,Cologne\n2022-07-15 00:05:00,0,0.2\n2022-07-15 00:10:00,0.5,0\n2022-07-15 00:15:00,0.7,0.1\n"
    )
    who, on, off = read_power(path)
    assert [*zip(who.tolist(), on.tolist(), off.tolist(), strict=True)] == [(0, 300, 900), (1, 0, 300), (1, 600, 900)]
    rows = [{"Time": t, "a": a} for t, a in ((0, 1.0), (60, 0.0))]
    (tmp_path / "power.json").write_text(json.dumps(rows))
    (tmp_path / "power.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("power.json", "power.jsonl"):
        assert [each.tolist() for each in read_power(tmp_path / name)] == [[0], [0.0], [60.0]]
    (tmp_path / "power.json").write_text(json.dumps([*rows, {"Time": 120}]))
    with pytest.raises(DataError, match="every row of power has the columns of the first; row 3 has others"):
        read_power(tmp_path / "power.json")
    who, on, _ = read_power(path, least=0.6)
    assert (who.tolist(), on.tolist()) == ([0], [600])
    for text, sentence in (
        ("t,a\n0,1\n", "two rows at least"),
        ("t,a\n5,1\n0,1\n", "whose times increase"),
        ("t\n0\n1\n", "a column a client"),
        ("t,a\n0,x\n1,2\n", "power is a number"),
        ("t,a\n0,\n1,2\n", "power is finite"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=sentence):
            read_power(path)


def test_links_of_flash_s_phones():
    devices = CLOCKS.build("flash", 2000, 3)
    pairs = {*zip(devices.down_kbps.tolist(), devices.up_kbps.tolist(), strict=True)}
    assert len(pairs) == 19
    assert (7491.4, 4935.2) in pairs
    assert devices.down_kbps.tolist() == CLOCKS.build("flash", 2000, 3).down_kbps.tolist()
