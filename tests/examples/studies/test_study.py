"""The frame of the studies: verdicts, cached parts, runs, results."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from comparison import beside_paper, long_form, print_table
from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, build_scenario, run_folder
from study import (
    FinishedRun,
    Parts,
    Picture,
    Runs,
    Setup,
    Study,
    Table,
    cached,
    curves,
    run_study,
    select_without_training,
)
from tests.thoroughly import few_of


def measured(**cells):
    """One row a seed: mode "LN", a method, a loss."""
    return pd.DataFrame(
        [{"mode": "LN", "method": method, "loss": loss} for method, losses in cells.items() for loss in losses]
    )


def compared(paper, why=None, **cells):
    published = {("LN", method): value for method, value in paper.items()}
    table = beside_paper(measured(**cells), published, ("mode", "method"), "loss", why, margin=0.022, runs=None)
    return table.set_index("method")


def test_a_study_has_a_folder_for_each_mode_and_data_set(tmp_path):
    seen = []
    study = Study("About.", "few", "many", lambda setup: seen.append(setup) or [], ("digits", "cifar10"))
    assert run_study(study, tmp_path) == tmp_path / "quick-digits"
    assert run_study(study, tmp_path, paper=True, dataset="cifar10", jobs=4) == tmp_path / "paper-cifar10"
    run_study(study, tmp_path, scale="one")
    assert [(setup.scale, setup.dataset, setup.jobs) for setup in seen] == [
        ("few", "digits", 2),
        ("many", "cifar10", 4),
        ("one", "digits", 2),
    ]
    with pytest.raises(ConfigError, match="must be one of 'digits', 'cifar10'; got 'mnist'"):
        run_study(study, tmp_path, dataset="mnist")


def test_results_are_printed_and_written_in_their_order(tmp_path, capsys):
    def results(setup):
        frame = pd.DataFrame({"mode": ["LN"], "loss": [0.123456], "run": [object()]})
        yield Table(frame, "Printed alone", digits=2)
        yield "a sentence"
        yield Table(frame, "Both", "both")
        yield Table(frame, file="written", number="%.2g")
        yield Picture(Figure(figsize=(1, 1)), "drawn")

    out = run_study(Study("About.", None, None, results), tmp_path)
    printed = capsys.readouterr().out
    places = [printed.index(text) for text in ("Printed alone", "0.12 ", "a sentence", "Both", "0.123 ")]
    assert places == sorted(places)
    assert "object" not in printed
    assert sorted(path.name for path in out.iterdir()) == ["both.csv", "drawn.png", "written.csv"]
    assert (out / "both.csv").read_text() == "mode,loss\nLN,0.123456\n"
    assert (out / "written.csv").read_text() == "mode,loss\nLN,0.12\n"
    assert "verdicts" not in printed


def test_verdicts_of_all_tables_are_counted_at_the_end(tmp_path, capsys):
    def results(setup):
        yield Table(pd.DataFrame({"verdict": ["agrees", "too few", "agrees"]}), "Printed")
        yield Table(pd.DataFrame({"verdict": ["too few", "agrees", "lower"]}), file="written")

    run_study(Study("About.", None, None, results), tmp_path)
    assert capsys.readouterr().out.splitlines()[-2] == "verdicts: 3 agrees, 2 too few, 1 lower"


def test_verdicts():
    """Of three seeds with s = 0.01 the 90 % interval is 2.920 s/√3 = 0.0169, the 95 % one 0.0248; s = 0.1: tenfold."""
    close, wide = (0.99, 1.00, 1.01), (0.9, 1.0, 1.1)
    paper = {"inside": 1.005, "edge": 1.01, "below": 1.03, "above": 0.97, "wide": 1.2, "one": 1.0}
    table = compared(
        paper, inside=close, edge=close, below=close, above=close, wide=wide, one=[1.0], ours=close
    )  # fmt: skip
    expected = {"inside": "agrees", "edge": "inconclusive", "below": "lower", "above": "higher"}
    expected |= {"wide": "inconclusive", "one": "too few", "ours": ""}
    assert table.verdict.to_dict() == expected
    assert table.why.to_dict() == {method: "unexplained" * (method in ("below", "above")) for method in expected}
    assert table.ours.tolist() == pytest.approx([1.0] * 7)
    assert table.margin.tolist() == [0.022] * 7
    assert math.isnan(table.paper["ours"])


def test_a_margin_may_be_a_cells_own():
    ours = measured(a=(0.99, 1.00, 1.01), b=(0.99, 1.00, 1.01))
    paper = {("LN", "a"): 1.0, ("LN", "b"): 1.0}
    table = beside_paper(
        ours, paper, ("mode", "method"), "loss", margin=lambda cell: {"a": 1.0, "b": 0.001}[cell[1]], runs=3
    )
    assert table.verdict.tolist() == ["agrees", "inconclusive"]


def test_a_reason_explains_all_cells_that_begin_with_its_key():
    paper = {"a": 1.0, "b": 1.0}
    both = compared(paper, {("LN",): "other data"}, a=[2.0] * 3, b=[3.0] * 3)
    assert both.why.tolist() == ["other data"] * 2
    first = compared(paper, {("LN", "b"): "other method", (): "anything"}, a=[2.0] * 3, b=[3.0] * 3)
    assert first.why.tolist() == ["anything", "other method"]


def test_a_number_of_the_paper_that_nothing_stands_beside_is_an_error():
    with pytest.raises(ConfigError, match=r"the paper has a number for \('LN', 'c'\), but nothing was measured there"):
        compared({"c": 1.0}, a=[1.0])


def test_a_printed_table_cuts_nothing_off_and_prints_each_reason_once(capsys):
    reason = "[a reason] " + "that is long " * 20
    rows = [{"method": "m" * 60, "loss": 0.12345, "none": None, "why": why} for why in (reason, reason, "", "short")]
    print_table(pd.DataFrame(rows), "Title", digits=2)
    printed = capsys.readouterr().out
    assert "m" * 60 in printed
    assert "0.12 " in printed
    assert printed.count("that is long " * 20) == 1
    assert printed.count("[1]") == 3  # two rows and the note
    assert "[2] short" in printed


def test_a_part_is_computed_once(tmp_path):
    """What comes back is what the file says, at once and later."""
    calls = []

    def table(first):
        calls.append("table")
        return pd.DataFrame({"K": [first, math.inf], "error": [0.1 + 0.2, math.nan]}, index=[5, 6])

    def state(clients):
        calls.append("state")
        return {"counts": np.arange(clients), "scores": {"F1": 0.1 + 0.2}}

    for name, make, argument in (("tables/a.csv", table, 1.0), ("states/a.npz", state, 3)):
        first, second = (cached(tmp_path / name, make, argument) for _ in range(2))
        assert str(first) == str(second)
    assert calls == ["table", "state"]
    assert second["scores"] == {"F1": 0.1 + 0.2}
    assert second["counts"].tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"kept as \.csv or \.npz; got 'a\.json'"):
        cached(tmp_path / "a.json", state, 3)


def squares(split, size):
    return pd.DataFrame({"split": split, "value": np.arange(size) ** 2})


@pytest.mark.parametrize("jobs", few_of([1, 2], 1))
def test_parts_come_in_their_order_whoever_computes_them(tmp_path, jobs):
    parts = Parts(lambda setup: {("a b", split): (split, setup.scale) for split in (2, 0, 1)}, squares)
    found = Setup(3, "digits", tmp_path, tmp_path, jobs, {"squares": parts})["squares"]
    assert list(found) == [("a b", 2), ("a b", 0), ("a b", 1)]
    assert found["a b", 0].to_dict("list") == {"split": [0] * 3, "value": [0, 1, 4]}
    assert sorted(path.name for path in tmp_path.glob("squares/*.csv")) == [f"ab-{split}.csv" for split in range(3)]


@dataclasses.dataclass(frozen=True)
class Scale:
    clients: int


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_a_part_for_other_arguments_is_not_taken(tmp_path, name):
    """A study's `Scale` decides its parts and is not in their names."""

    def make(seed, scale):
        values = np.arange(scale.clients) + seed
        return pd.DataFrame({"value": values}) if name == "a.csv" else {"value": values}

    def other(seed, scale):
        return make(seed, scale)

    assert len(cached(tmp_path / name, make, 0, Scale(3))["value"]) == 3
    with pytest.raises(RunError, match=r"its argument 'scale' has changed since; choose another --out"):
        cached(tmp_path / name, make, 0, Scale(4))
    with pytest.raises(RunError, match=r"code of other \(test_study.py\) has changed since"):
        cached(tmp_path / name, other, 0, Scale(3))
    assert len(cached(tmp_path / name, make, 0, Scale(3))["value"]) == 3
    (tmp_path / f"{name}.origin.json").unlink()
    with pytest.raises(RunError, match="may be made of something else: it does not say of what"):
        cached(tmp_path / name, make, 0, Scale(3))


def test_runs_are_measured_by_their_labels(tmp_path):
    pytest.importorskip("torch")
    base = Experiment(name="grid", rounds=2, clients_per_round=2, data=Choice("digits", {"n_clients": 4}))
    planned = {(name, seed): dataclasses.replace(base, seed=seed, selector=Choice(name))
               for seed in (0, 1) for name in ("uniform", "md-sample")}  # fmt: skip
    grid = Runs(("method", "seed"), lambda _: planned, lambda run: {"rounds": run.summary()["rounds"], "loss": None})
    setup = Setup(None, "digits", tmp_path, tmp_path, data={"runs": grid})
    rows = setup["runs"]
    assert setup["runs"] is rows
    assert list(zip(rows["method"], rows["seed"], strict=True)) == list(planned)
    assert rows["rounds"].tolist() == [2] * 4
    assert [run.folder for run in rows["run"]] == [run_folder(each, tmp_path / "runs") for each in planned.values()]
    assert [run.experiment for run in rows["run"]] == list(planned.values())
    assert not list(tmp_path.rglob("*.png"))

    long = long_form(rows, ("method", "seed"), part="training")
    assert list(long.columns) == ["part", "method", "seed", "measure", "value"]
    assert long.iloc[:2, 1:4].to_numpy().tolist() == [["uniform", 0, "rounds"], ["uniform", 0, "loss"]]
    assert long["value"].dtype == float
    drawn = curves(rows, "method", "seed", lambda run: run.curve("loss"))
    assert {name: list(each) for name, each in drawn.items()} == {"uniform": [0, 1], "md-sample": [0, 1]}
    assert drawn["uniform"][1][0].index.tolist() == [1, 2]
    with pytest.raises(RunError, match=r"grid holds no finished run: it has no summary\.json"):
        FinishedRun(tmp_path / "grid", base).summary()


def test_rounds_without_training_are_those_of_the_trained_run(tmp_path):
    pytest.importorskip("torch")
    data, there = Choice("digits", {"n_clients": 12, "partition": "dirichlet"}), Choice("lognormal")
    trained = Experiment(rounds=5, seed=3, clients_per_round=3, data=data, availability=there, selector=Choice("fedgs"))
    (run,) = Setup(None, "digits", tmp_path, tmp_path).run({"": trained}).values()
    played = select_without_training(build_scenario(trained), trained.selector)
    assert [each.selection.clients.tolist() for each in played] == [each["selected"] for each in run.records()]
