"""Tables of users: what is written is read again, and a write that does not come to its end leaves the old file."""

from __future__ import annotations

import pandas as pd
import pytest

from fedselect.tables import read_table, write_table


class Breaks:
    def __str__(self):
        raise OSError("the disk is full")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_table_appears_whole_or_not_at_all(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path, table = tmp_path / f"table.{ending}", pd.DataFrame({"client": range(4), "on": [0.5, 1.0, 2.0, 3.0]})
    write_table(path, table, "table")
    before = path.read_bytes()
    pd.testing.assert_frame_equal(read_table(path, "table", numbers=True), table)
    with pytest.raises((OSError, ValueError, TypeError)):
        write_table(path, table.assign(on=[0.5, 1.0, 2.0, Breaks()]), "table")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
