"""A small trace that asks for much: refused before memory is taken, with the limit."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from fedselect.availability import read_trace, write_trace
from fedselect.errors import DataError


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("round,client\n10000000000,0\n", "1 entries for 10000000001 rounds of 1 clients"),
        ("round,client\n0,10000000000\n", "1 entries for 1 rounds of 10000000001 clients"),
        ("round,client\n4000000000,4000000000\n0,0\n", "2 entries for 4000000001 rounds"),
        ("round,0\n10000000000,1\n", "for 10000000001 rounds"),
        ("round\n1\n", "one column a client"),
        ("round,round,client\n1,1,1\n", "column"),
    ],
)
def test_a_trace_is_as_large_as_what_it_lists(tmp_path, text, sentence):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_trace(tmp_path / "trace.csv")


def test_a_compressed_trace_that_unpacks_to_too_much(tmp_path):
    part = gzip.compress(b"0,0\n" * 2**20)  # a file of many parts is read as one
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(b"round,client\n") + 64 * part + gzip.compress(b"\n" * 2**10))
    with pytest.raises(DataError, match="it unpacks to more than 268435456 bytes"):
        read_trace(tmp_path / "trace.csv.gz")
    whole = gzip.compress(b"round,client\n" + b"0,0\n" * 1000)
    (tmp_path / "trace.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot read the trace"):
        read_trace(tmp_path / "trace.csv.gz")


def test_a_parquet_file_that_declares_too_much_or_other_types(tmp_path):
    pytest.importorskip("pyarrow")
    ones = np.ones(6_000_000, dtype=np.int8)
    pd.DataFrame({"round": ones, "client": ones}).to_parquet(tmp_path / "bomb.parquet", index=False)
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="it declares 12000000 cells, in"):
        read_trace(tmp_path / "bomb.parquet")
    pd.DataFrame({"round": ["a"], "client": [1]}).to_parquet(tmp_path / "text.parquet")
    with pytest.raises(DataError, match=r"column 'round' holds .*string; accepted are integers and booleans"):
        read_trace(tmp_path / "text.parquet")
    there = np.random.default_rng(0).random((40, 30)) < 0.5
    for layout in ("long", "wide"):
        write_trace(tmp_path / "whole.parquet", there, layout)
        np.testing.assert_array_equal(read_trace(tmp_path / "whole.parquet"), there)
