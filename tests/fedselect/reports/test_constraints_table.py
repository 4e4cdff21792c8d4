"""Side constraints in a report: means, prices and where they gave way, by hand."""

from __future__ import annotations

from fedselect.experiments import Choice, Experiment, run
from fedselect.reports import read_report
from fedselect.reports.constraints import batteries_table, constraints_table


def note(used, slack, prices=None, **gave_way):
    found = {"used": {"seconds": used}, "slack": {"seconds": slack}} | gave_way
    return {"notes": {"constraints": found | ({"prices": {"seconds": prices}} if prices is not None else {})}}


def test_a_table_by_hand():
    records = {
        "fedgs": [note(6.0, 2.0, 0.5), note(8.0, 0.0, 1.5), note(7.0, 1.0, short={"seconds": 2}), {"round": 3}],
        "uniform": [{"round": 0, "notes": {}}],
    }
    table = constraints_table(records)
    (row,) = table.rows
    assert [cell.text for cell in row] == [
        *("fedgs", "seconds", "3", "2", "7", "6", "8", "1", "0", "1", "1", "1", "1.5"),
    ]
    assert "fedgs: 1 of 3" in table.caption
    assert [column.heading for column in table.columns][:3] == ["selector", "constraint", "rounds"]


def test_a_limit_that_did_not_hold_is_seen():
    (row,) = constraints_table({"mine": [note(6.0, 2.0), note(9.0, -1.0)]}).rows
    assert [cell.text for cell in row][2:7] == ["2", "1", "7.5", "6", "9"]


def test_nothing_where_nothing_is_constrained():
    assert constraints_table({"uniform": [{"round": 0}]}) is None


def test_batteries_by_hand_and_of_a_selector_that_keeps_nothing_else(tmp_path):
    def over(t, exhausted, left):
        return {
            "round": t,
            "notes": {"constraints": {"over_run": {"energy": {"exhausted": exhausted, "least_left": left}}}},
        }

    table = batteries_table(
        {"a": [over(0, 0, 3.0), over(1, 0, 1.0), {"round": 2}, over(3, 2, 0.5)], "b": [{"round": 0}]}
    )
    (row,) = table.rows
    assert [cell.text for cell in row] == ["a", "energy", "4", "2", "0.5"]
    assert constraints_table({"a": [over(0, 0, 3.0)]}) is None
    assert batteries_table({"b": [{"round": 0, "notes": {}}]}) is None
    budget = {"use": [1.0] * 6, "limit": 2.0, "over": "run", "name": "turns"}
    experiment = Experiment(
        rounds=8,
        clients_per_round=3,
        data=Choice("digits", {"n_clients": 6}),
        selector=Choice("uniform", {"constraints": {"budgets": [budget]}}),
    )
    report = read_report(run(experiment, tmp_path, plots=False))
    (found,) = [table for table in report.tables if table.key == "batteries"]
    assert [cell.text for cell in found.rows[0]][:2] == ["uniform", "turns"]
    assert [cell.text for cell in found.rows[0]][3:] == ["6", "0"]
