"""Side constraints in a report: means, prices and where they gave way, by hand."""

from __future__ import annotations

import numpy as np

from fedselect.cli.experiments import _say_what_gave_way
from fedselect.experiments import Choice, Experiment, run
from fedselect.reports import read_report
from fedselect.reports.constraints import batteries_table, constraints_table, gave_way_in
from fedselect.reports.runs import _idle
from fedselect.rounds import context
from fedselect.selectors import FedGS
from fedselect.selectors.constraints import RoundConstraints
from solvers.constraints import Quota


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
        *("fedgs", "seconds", "-", "3", "2", "7", "6", "8", "1", "0", "1", "1", "1", "1.5"),
    ]
    assert "fedgs: 1 of 3" in table.caption
    assert gave_way_in(records) == ["fedgs: 1 of 3"]
    assert [column.heading for column in table.columns][:4] == ["selector", "constraint", "limit", "rounds"]


def test_a_quota_binds_where_it_stops_a_client_and_not_where_none_is_there():
    """Three rounds of a quota of at most 2: two of the group are there, none is, and all are."""
    limited = RoundConstraints(6, quotas=[Quota([0, 1, 2], at_most=2, name="east"), Quota([3, 4], 1, 1, name="gpu")])
    selector = FedGS(4, distances=1.0 - np.eye(6), method="brute-force", constraints=limited)
    kept = []
    for t, there in enumerate(([0, 3, 5], [3, 4, 5], [0, 1, 2, 3, 5], [0, 1, 5])):
        kept.append(selector.select(context(t, np.isin(np.arange(6), there), np.ones(6, dtype=int))).notes)
    table = constraints_table({"fedgs": [{"round": t, "notes": notes} for t, notes in enumerate(kept)]})
    east, gpu = (
        {column.heading: cell.text for column, cell in zip(table.columns, row, strict=True)} for row in table.rows
    )
    assert east["limit"] == "at most 2"
    assert [notes["constraints"]["slack"]["east"] for notes in kept] == [1, 2, 0, 0]
    assert (east["rounds"], east["rounds kept"], east["rounds it binds"], east["most used"]) == ("4", "4", "2", "2")
    assert (gpu["limit"], gpu["rounds short"], gpu["rounds it binds"]) == ("1", "1", "3")


def test_rounds_that_kept_nothing_are_said(capsys):
    _say_what_gave_way({"fedgs": [note(7.0, 1.0, short={"seconds": 2}), note(1.0, 0.0)], "uniform": [note(1.0, 0.0)]})
    assert "quotas or other constraints were not kept: fedgs: 1 of 2\n" in "".join(capsys.readouterr())
    _say_what_gave_way({"uniform": [note(1.0, 0.0)]})
    assert not any(capsys.readouterr())


def test_idle_rounds_of_the_clock_are_said():
    played, idle = {"clock": {}, "selected": [1]}, {"clock": {}, "selected": []}
    (said,) = _idle({"a": [played, idle, idle], "b": [played]})
    assert said.endswith("count in the run's length and rounds per hour: a: 2 of 3.")
    assert _idle({"a": [{"selected": []}]}) == []


def test_a_quota_without_limits_is_counted():
    limited = RoundConstraints(6, quotas=[Quota([0, 1], name="any")])
    selector = FedGS(4, distances=1.0 - np.eye(6), method="brute-force", constraints=limited)
    notes = selector.select(context(0, np.ones(6, dtype=bool), np.ones(6, dtype=int))).notes
    table = constraints_table({"fedgs": [{"round": 0, "notes": notes}]})
    (told,) = [dict(zip(table.texts[0], row, strict=True)) for row in table.texts[1:]]
    assert (told["limit"], told["rounds"], told["rounds kept"], told["rounds it binds"]) == ("-", "1", "1", "0")
    assert notes["constraints"]["limits"]["any"] == [None, None]


def test_a_limit_that_did_not_hold_is_seen():
    (row,) = constraints_table({"mine": [note(6.0, 2.0), note(9.0, -1.0)]}).rows
    assert [cell.text for cell in row][3:8] == ["2", "1", "7.5", "6", "9"]


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
    assert not any("not kept" in each for each in report.notes)
    (found,) = [table for table in report.tables if table.key == "batteries"]
    assert [cell.text for cell in found.rows[0]][:2] == ["uniform", "turns"]
    assert [cell.text for cell in found.rows[0]][3:] == ["6", "0"]


def test_the_page_says_beside_the_proofs_that_a_quota_was_not_kept(tmp_path):
    quota = {"members": [0, 1], "at_least": 2, "name": "both"}
    experiment = Experiment(
        rounds=4,
        clients_per_round=3,
        data=Choice("digits", {"n_clients": 6}),
        availability=Choice("bernoulli", {"rate": 0.5}),
        selector=Choice("fedgs", {"constraints": {"quotas": [quota]}}),
    )
    notes = read_report(run(experiment, tmp_path, plots=False)).notes
    assert any(each.startswith("Rounds in which quotas or other constraints were not kept: fedgs: ") for each in notes)
