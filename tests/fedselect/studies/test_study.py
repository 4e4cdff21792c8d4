"""What the scripts of the papers share."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, build_scenario, read_records, read_summary, run_folder
from fedselect.studies.grid import run_grid, without_training
from fedselect.studies.parts import kept, write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper
from fedselect.studies.script import run_script, study_arguments


def measured(**cells):
    """One row a seed: mode "LN", a method, a loss."""
    return pd.DataFrame(
        [{"mode": "LN", "method": method, "loss": loss} for method, losses in cells.items() for loss in losses]
    )


def compared(paper, why=None, **cells):
    published = {("LN", method): value for method, value in paper.items()}
    table = beside_paper(measured(**cells), published, ("mode", "method"), "loss", why)
    return table.set_index("method")


def test_arguments_have_a_folder_for_each_mode_and_data_set():
    plain = study_arguments("About.", "study", ("digits", "cifar10"), [])
    assert (plain.paper, plain.dataset, plain.out) == (False, "digits", Path("studies/study/quick-digits"))
    chosen = study_arguments(
        "About.", "study", ("digits", "cifar10"), ["--paper", "--dataset", "cifar10", "--out", "x", "--jobs", "4"]
    )
    assert (chosen.paper, chosen.out, chosen.jobs) == (True, Path("x/paper-cifar10"), 4)


@pytest.mark.parametrize("bad", [["--dataset", "mnist"], ["--quick", "--paper"], ["--jobs", "two"]])
def test_arguments_that_are_not_accepted_end_the_script(bad, capsys):
    with pytest.raises(SystemExit):
        study_arguments("About.", "study", argv=bad)
    assert "error:" in capsys.readouterr().err


def test_verdicts():
    """The half-width is 4.303 s/√3: 0.0248 for s = 0.01, 0.248 for s = 0.1."""
    close, wide = (0.99, 1.00, 1.01), (0.9, 1.0, 1.1)
    paper = {"inside": 1.02, "below": 1.03, "above": 0.97, "wide": 1.2}
    table = compared(paper, inside=close, below=close, above=close, wide=wide, ours=close)
    expected = {"inside": "agrees", "below": "lower", "above": "higher", "wide": "inconclusive", "ours": ""}
    assert table.verdict.to_dict() == expected
    assert table.why.to_dict() == {method: "unexplained" * (method in ("below", "above")) for method in expected}
    assert table.ours.tolist() == pytest.approx([1.0] * 5)
    assert table.deviation.tolist() == pytest.approx([0.01, 0.01, 0.01, 0.1, 0.01])
    assert table.seeds.tolist() == [3] * 5
    assert math.isnan(table.paper["ours"])


def test_one_seed_has_no_interval():
    table = compared({"a": 1.0, "b": 1.0}, a=[1.0], b=[1.001])
    assert table.verdict.to_dict() == {"a": "agrees", "b": "higher"}


def test_a_reason_explains_all_cells_that_begin_with_its_key():
    paper = {"a": 1.0, "b": 1.0}
    both = compared(paper, {("LN",): "other data"}, a=[2.0], b=[3.0])
    assert both.why.tolist() == ["other data"] * 2
    first = compared(paper, {("LN", "b"): "other method", (): "anything"}, a=[2.0], b=[3.0])
    assert first.why.tolist() == ["anything", "other method"]


def test_a_number_of_the_paper_that_nothing_stands_beside_is_an_error():
    with pytest.raises(ConfigError, match=r"the paper has a number for \('LN', 'c'\), but nothing was measured there"):
        compared({"c": 1.0}, a=[1.0])


def test_show_cuts_nothing_off_and_prints_each_reason_once(capsys):
    reason = "[a reason] " + "that is long " * 20
    rows = [{"method": "m" * 60, "loss": 0.12345, "none": None, "why": why} for why in (reason, reason, "", "short")]
    show(pd.DataFrame(rows), "Title", digits=2)
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
        first, second = (kept(tmp_path / name, make, argument) for _ in range(2))
        assert str(first) == str(second)
    assert calls == ["table", "state"]
    assert second["scores"] == {"F1": 0.1 + 0.2}
    assert second["counts"].tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"kept as \.csv or \.npz; got 'a\.json'"):
        kept(tmp_path / "a.json", state, 3)


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

    assert len(kept(tmp_path / name, make, 0, Scale(3))["value"]) == 3
    with pytest.raises(RunError, match=r"its argument 'scale' has changed since; choose another --out"):
        kept(tmp_path / name, make, 0, Scale(4))
    with pytest.raises(RunError, match=r"code of other \(test_study.py\) has changed since"):
        kept(tmp_path / name, other, 0, Scale(3))
    assert len(kept(tmp_path / name, make, 0, Scale(3))["value"]) == 3
    (tmp_path / f"{name}.origin.json").unlink()
    with pytest.raises(RunError, match="may be made of something else: it does not say of what"):
        kept(tmp_path / name, make, 0, Scale(3))


def test_a_grid_gives_the_folder_of_each_label(tmp_path):
    pytest.importorskip("torch")
    base = Experiment(name="grid", rounds=2, clients_per_round=2, data=Choice("digits", {"clients": 4}))
    planned = {(name, seed): dataclasses.replace(base, seed=seed, selector=Choice(name))
               for seed in (0, 1) for name in ("uniform", "md-sample")}  # fmt: skip
    folders = run_grid(planned, tmp_path, 1)
    assert folders == {key: run_folder(each, tmp_path) for key, each in planned.items()}
    assert all(read_summary(folder)["rounds"] == 2 for folder in folders.values())
    assert not list(tmp_path.rglob("*.png"))
    with pytest.raises(RunError, match=r"grid holds no finished run: it has no summary\.json"):
        read_summary(tmp_path / "grid")


def test_tables_are_written_by_name(tmp_path):
    write_tables(tmp_path / "new", {"a": measured(x=[1.5]), "b": measured(y=[2.0])})
    assert (tmp_path / "new" / "a.csv").read_text() == "mode,method,loss\nLN,x,1.5\n"
    assert (tmp_path / "new" / "b.csv").exists()


def test_a_script_ends_with_a_sentence():
    def main():
        raise ConfigError("no such thing")

    with pytest.raises(SystemExit, match=r"^error: no such thing$"):
        run_script(main)
    with pytest.raises(ZeroDivisionError):  # a defect is not made to look like a mistake of the user
        run_script(lambda: 1 // 0)


def test_rounds_without_training_are_those_of_the_trained_run(tmp_path):
    pytest.importorskip("torch")
    data, there = Choice("digits", {"clients": 12, "partition": "dirichlet"}), Choice("lognormal")
    trained = Experiment(rounds=5, seed=3, clients_per_round=3, data=data, availability=there, selector=Choice("fedgs"))
    (folder,) = run_grid({"": trained}, tmp_path, 1).values()
    played = without_training(build_scenario(trained), trained.selector)
    assert [each.selection.clients.tolist() for each in played] == [each["selected"] for each in read_records(folder)]
