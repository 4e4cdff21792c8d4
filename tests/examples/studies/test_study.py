"""The frame of the studies: results, verdicts, what is kept, runs, tuning."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from comparison import beside_paper, by_cell, long_form, print_table
from fedselect.errors import ConfigError, RunError
from fedselect.experiments import Choice, Experiment, build_scenario, run_folder
from study import (
    Picture,
    Setup,
    Study,
    Table,
    Trial,
    cached,
    curves,
    main,
    plan_of,
    run_study,
    select_without_training,
    widened,
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
        yield Table(pd.DataFrame({"verdict": ["too few", "agrees", "lower", "", None]}), file="written")

    run_study(Study("About.", None, None, results), tmp_path)
    *_, counted, few, _ = capsys.readouterr().out.splitlines()
    assert counted == "verdicts: 3 agrees, 2 too few, 1 lower"
    assert few == (
        "too few: fewer than 3 seeds say nothing of chance, so such a cell is no evidence; --paper has more, in hours"
    )


def test_a_plan_is_said_beside_the_papers():
    Scale = namedtuple("Scale", "n_clients rounds seeds model is_tuned")
    quick, paper = Scale(250, 300, (1, 2), "mlp", True), Scale(250, 2000, (1, 2, 3), "cnn", False)
    assert plan_of(quick, paper) == (
        "plan: n clients 250, rounds 300 (paper's plan: 2000), seeds 1 2 (paper's plan: 1 2 3)"
    )


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


def squares(split, size):
    return pd.DataFrame({"split": split, "value": np.arange(size) ** 2})


@pytest.mark.parametrize("jobs", few_of([1, 2], 1))
def test_parts_come_in_their_order_whoever_computes_them(tmp_path, jobs):
    setup = Setup(3, "digits", tmp_path, tmp_path, jobs)
    found = setup.parts("squares", squares, {("a b", split): (split, 3) for split in (2, 0, 1)})
    assert list(found) == [("a b", 2), ("a b", 0), ("a b", 1)]
    assert found["a b", 0].to_dict("list") == {"split": [0] * 3, "value": [0, 1, 4]}
    assert sorted(path.name[:5] for path in tmp_path.glob("squares/*.csv")) == ["ab-0-", "ab-1-", "ab-2-"]
    more = setup.parts("squares", squares, {("a b", 0): (0, 4)})  # for other arguments it is another file
    assert more["a b", 0]["value"].tolist() == [0, 1, 4, 9]
    assert len(list(tmp_path.glob("squares/*.csv"))) == 4


def test_a_row_for_every_cell():
    rows = pd.DataFrame({"b": [2, 2, 1], "a": "x", "value": [1.0, 3.0, 5.0]})
    table = by_cell(rows, ["a", "b"], lambda part: {"mean": part["value"].mean()})
    assert table.to_dict("list") == {"a": ["x", "x"], "b": [2, 1], "mean": [2.0, 5.0]}


def test_runs_are_measured_by_their_labels(tmp_path):
    pytest.importorskip("torch")
    base = Experiment(name="grid", rounds=2, clients_per_round=2, data=Choice("digits", {"n_clients": 4}))
    planned = {
        (name, seed): replace(base, seed=seed, selector=Choice(name))
        for seed in (0, 1)
        for name in ("uniform", "md-sample")
    }
    setup, labels = Setup(None, "digits", tmp_path, tmp_path), ("method", "seed")
    rows = setup.runs("grid", labels, planned, lambda run: {"rounds": run.summary()["rounds"], "loss": None})
    assert list(zip(rows["method"], rows["seed"], strict=True)) == list(planned)
    assert rows["rounds"].tolist() == [2] * 4
    assert [run.folder for run in rows["run"]] == [run_folder(each, tmp_path / "runs") for each in planned.values()]
    assert [run.experiment for run in rows["run"]] == list(planned.values())
    assert not list(tmp_path.rglob("*.png"))

    long = long_form(rows, labels, part="training")
    assert list(long.columns) == ["part", "method", "seed", "measure", "value"]
    assert long.iloc[:2, 1:4].to_numpy().tolist() == [["uniform", 0, "rounds"], ["uniform", 0, "loss"]]
    assert long["value"].dtype == float
    drawn = curves(rows, "method", "seed", lambda run: run.curve("loss"))
    assert {name: list(each) for name, each in drawn.items()} == {"uniform": [0, 1], "md-sample": [0, 1]}
    assert drawn["uniform"][1][0].index.tolist() == [1, 2]
    with pytest.raises(RunError, match=r"grid holds no finished run: it has no summary\.json"):
        rows["run"][0]._replace(folder=tmp_path / "grid").summary()


def test_rounds_without_training_are_those_of_the_trained_run(tmp_path):
    pytest.importorskip("torch")
    data, there = Choice("digits", {"n_clients": 12, "partition": "dirichlet-prior"}), Choice("lognormal")
    trained = Experiment(rounds=5, seed=3, clients_per_round=3, data=data, availability=there, selector=Choice("fedgs"))
    (run,) = Setup(None, "digits", tmp_path, tmp_path).run([trained])
    played = select_without_training(build_scenario(trained), trained.selector)
    assert [each.selection.clients.tolist() for each in played] == [each["selected"] for each in run.records()]


# -- tuning ------------------------------------------------------------------------------------------------------------

SMALL = Experiment(
    name="tuning", rounds=2, clients_per_round=3, data=Choice("clustered", {"n_clients": 4, "samples": 20})
)
LOCAL, SERVER = (1e-3, 0.3, 1e-2), (1.0, 0.5)


def tune(experiments, out, local=LOCAL, server=SERVER, screening=None, **options):
    pytest.importorskip("torch")
    scale = SimpleNamespace(local=local, server=server, screening=screening)
    return Setup(scale, "clustered", out, out).tuned(experiments, **options)


def read(experiment, out, settings):
    """Read the summary of a run with these settings."""
    each = replace(experiment, training=replace(experiment.training, **settings))
    return json.loads((run_folder(each, out / "runs") / "summary.json").read_text())


@pytest.mark.parametrize(
    ("criterion", "key", "pick"), [("objective", "client_loss_mean", min), ("mean accuracy", "mean_accuracy", max)]
)
def test_the_best_of_all_combinations_is_found_and_nothing_is_run_twice(criterion, key, pick, tmp_path):
    labels = {"uniform": [SMALL], "everyone": [replace(SMALL, selector=Choice("all-available"))]}
    best, trials = tune(labels, tmp_path, criterion=criterion)
    assert [(each.label, each.rounds) for each in trials] == [(label, 2) for label in labels for _ in range(6)]
    for label, (experiment,) in labels.items():
        tried = [{"learning_rate": rate, "server_learning_rate": server} for rate in LOCAL for server in SERVER]
        values = [read(experiment, tmp_path, each)[key] for each in tried]
        assert best[label] == replace(experiment.training, **tried[values.index(pick(values))])
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/tuning/*/*")}
    assert tune(labels, tmp_path, criterion=criterion) == (best, trials)
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/tuning/*/*")}


def test_a_single_combination_is_taken_without_a_run(tmp_path):
    best, trials = tune({"uniform": [SMALL]}, tmp_path, (0.25,), (0.5,))
    assert (best, trials) == ({"uniform": replace(SMALL.training, learning_rate=0.25, server_learning_rate=0.5)}, [])
    assert tune({}, tmp_path) == ({}, [])
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_never_wins(tmp_path):
    everyone = {"everyone": [replace(SMALL, selector=Choice("all-available"))]}
    best, _ = tune(everyone, tmp_path, (1e20,), (1e20, 0.1))
    assert best["everyone"].server_learning_rate == 0.1
    with pytest.raises(ConfigError, match="everyone: no setting of the grid"):
        tune(everyone, tmp_path, (1e20,), (1e20, 1e21))


def test_a_loss_that_is_not_finite_never_wins_where_no_update_was_refused(tmp_path):
    """One step to a finite model whose loss overflows: a file of JSON has null for it."""
    once = replace(SMALL, rounds=1, selector=Choice("all-available"))
    best, trials = tune({"everyone": [once]}, tmp_path, (1.0,), (3e38, 0.5))
    assert [each.value for each in trials if each.settings["server_learning_rate"] == 3e38] == [np.inf]
    summary = read(once, tmp_path, {"learning_rate": 1.0, "server_learning_rate": 3e38})
    assert (summary["failed"], summary["client_loss_mean"]) == (0, None)
    assert best["everyone"].server_learning_rate == 0.5


def test_a_grid_grows_beyond_the_edge_on_which_the_best_lies():
    grid = {"learning_rate": (0.01, 0.1, 1.0), "server_learning_rate": (1.0,)}

    def after(rate):
        return widened(grid, {"learning_rate": rate, "server_learning_rate": 1.0})["learning_rate"]

    assert after(0.1) == grid["learning_rate"]
    assert after(0.01) == pytest.approx((0.001, 0.01, 0.1, 1.0))
    assert after(1.0) == pytest.approx((0.01, 0.1, 1.0, 10.0))
    assert widened(grid, {"learning_rate": 1.0, "server_learning_rate": 1.0})["server_learning_rate"] == (1.0,)


def test_a_search_goes_on_where_the_best_lies_on_an_edge(tmp_path):
    """Steps so small that the largest is the best: the grid grows until it is not, and nothing is run twice."""
    steps = {"uniform": [SMALL]}, tmp_path, (1e-4, 1e-3), (1.0,)
    best, trials = tune(*steps)
    assert best["uniform"].learning_rate == 1e-3
    assert len(trials) == 2
    best, trials = tune(*steps, widenings=2)
    assert best["uniform"].learning_rate == pytest.approx(0.1)
    assert sorted(each.settings["learning_rate"] for each in trials) == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert len(list(tmp_path.glob("runs/tuning/*"))) == 4
    best, trials = tune(*steps, widenings=20)  # no longer on an edge: it ends by itself
    rates = sorted(each.settings["learning_rate"] for each in trials)
    assert rates[0] < best["uniform"].learning_rate < rates[-1]
    assert len(rates) < 20


@pytest.mark.parametrize("rates", [(0.1, 1.0), (1.0, 10.0)])
def test_a_wider_grid_never_makes_the_best_worse(rates, tmp_path, monkeypatch):
    """After a short run larger steps look better; in full the larger, the worse, and those above 50 diverge."""

    def judged(setup, points, experiments, rounds, criterion):
        for label, each in points.items():
            for point in each:
                rate = point["learning_rate"]
                value = 1 / rate if rounds == 1 else rate if rate < 50 else np.inf
                yield Trial(label, point, rounds or 2, (value,))

    monkeypatch.setattr(Setup, "_judged", lambda *arguments: list(judged(*arguments)))
    for widenings in range(4):
        best, trials = tune({"uniform": [SMALL]}, tmp_path, rates, (1.0,), (1, 1), widenings=widenings)
        assert best["uniform"].learning_rate == rates[-1]
        assert len({(each.rounds, *each.settings.values()) for each in trials}) == len(trials)
        assert len(trials) == (3 if widenings == 0 else 5)


@pytest.mark.parametrize("screening", [None, (1, 1)])
def test_a_best_that_is_only_equalled_stays(screening, tmp_path):
    """Nobody is ever there, so all rates lead to the same model: the grid's first stays, however wide it grows."""
    nobody = replace(SMALL, availability=Choice("bernoulli", {"rate": 1e-9}))
    best, trials = tune({"uniform": [nobody]}, tmp_path, (0.1, 1.0), (1.0, 10.0), screening, widenings=3)
    assert len({each.value for each in trials}) == 1
    assert len(trials) > 4  # it was widened
    assert (best["uniform"].learning_rate, best["uniform"].server_learning_rate) == (0.1, 1.0)


def test_several_runs_count_alike_and_a_screening_lets_the_best_go_on(tmp_path):
    seeds = {"uniform": [replace(SMALL, seed=seed) for seed in (1, 2, 3)]}
    best, trials = tune(seeds, tmp_path, screening=(1, 3))
    short, full = ([each for each in trials if each.rounds == rounds] for rounds in (1, 2))
    assert len(short) == 6
    kept = sorted(short, key=lambda each: np.mean(each.values))[:3]
    assert [each.settings for each in full] == [each.settings for each in kept]
    # The best in full of those, by the mean over the three seeds, each found again in its own run folder.
    for trial in full:
        found = [read(run, tmp_path, trial.settings)["client_loss_mean"] for run in seeds["uniform"]]
        assert found == list(trial.values)
    winner = min(full, key=lambda each: np.mean(each.values))
    assert best["uniform"] == replace(SMALL.training, **winner.settings)


def test_a_study_that_is_interrupted_ends_in_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("study.end_as_by_ctrl_c", lambda: None)  # of the test's own process

    def results(setup):
        setup.parts("numbers", pd.DataFrame, {(1,): ({"a": [1]},)})
        raise KeyboardInterrupt
        yield

    scale = namedtuple("Scale", "rounds")(1)
    with pytest.raises(SystemExit) as end:
        main(Study("About.", scale, scale, results), ["--out", str(tmp_path), "--jobs", "1"])
    assert end.value.code == 130
    first, last = capsys.readouterr().err.splitlines()
    assert first == "numbers: 1 of 1 parts to compute"
    assert last.endswith(".py: interrupted; what was finished is kept, and the same command continues")
    assert (tmp_path / "quick-digits" / "numbers").exists()
