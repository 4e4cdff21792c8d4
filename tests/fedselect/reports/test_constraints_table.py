"""Side constraints in a report: means, prices and where they gave way, by hand."""

from __future__ import annotations

from fedselect.reports.constraints import constraints_table


def note(used, slack, prices=None, **gave_way):
    found = {"used": {"seconds": used}, "slack": {"seconds": slack}} | gave_way
    return {"notes": {"constraints": found | ({"prices": {"seconds": prices}} if prices is not None else {})}}


def test_a_table_by_hand():
    records = {
        "fedgs": [note(6.0, 2.0, 0.5), note(8.0, 0.0, 1.5), note(7.0, 1.0, size=4), {"round": 3}],
        "uniform": [{"round": 0, "notes": {}}],
    }
    table = constraints_table(records)
    (row,) = table.rows
    assert [cell.text for cell in row] == ["fedgs", "seconds", "3", "7", "1", "0", "1", "1", "1.5"]
    assert "fedgs: 1 of 3" in table.caption
    assert [column.heading for column in table.columns][:3] == ["selector", "constraint", "rounds"]


def test_nothing_where_nothing_is_constrained():
    assert constraints_table({"uniform": [{"round": 0}]}) is None
