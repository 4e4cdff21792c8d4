"""The papers' numbers as data: every one has a source, a table and a place in it, once."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

import comparison
from comparison import published_cells, published_table
from fedselect.errors import ConfigError

FILES = sorted((Path(comparison.__file__).parent / "papers").glob("*.csv"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_has_its_place(path):
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    place = ["source", "table", "group", "row", "column"]
    assert list(table.columns) == [*place, "value"]
    assert (table != "").all().all()
    assert table["value"].map(float).dtype == float  # "NaN" where the paper prints that, never nothing
    assert not table.duplicated(place).any()


def test_reads_a_table_by_group_and_row():
    assert published_table("ca_fed", "Table I, %")["clustered"]["CA-Fed"] == (79.03, 76.22, 0.28)
    with pytest.raises(ConfigError, match="no table 'Table 9'; it has Table I"):
        published_table("ca_fed", "Table 9")


def test_reads_a_table_by_cell():
    found = published_cells("e3cs", "Table II")
    assert list(found)[:2] == [("A, iid", "E3CS-0", "rounds to 65 %"), ("A, non-iid", "E3CS-0", "rounds to 65 %")]
    assert found["P, non-iid", "Random", "final accuracy"] == 84.64
    assert math.isnan(found["P, non-iid", "Random", "rounds to 85 %"])
