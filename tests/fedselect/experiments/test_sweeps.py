"""Sweeps over single keys: who is concerned, how the rows are called, and what the runs are made of."""

from __future__ import annotations

import json

import pytest

from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, read_config, read_records, sweep
from fedselect.experiments.comparison import sweep_values, with_option

CONFIG = """
[experiment]
name = "swept"
rounds = 2
clients_per_round = 3

[data]
name = "digits"
n_clients = 8

[compare.even]
name = "uniform"

[compare.apart]
name = "fedgs"
method = "greedy"
"""

VARIANTS = {"even": Choice("uniform"), "apart": Choice("fedgs", {"method": "greedy"})}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "swept.toml"
    path.write_text(CONFIG)
    return path


def test_an_option_concerns_those_who_have_it():
    found = sweep(Experiment(), VARIANTS, {"selector.alpha": [0, 0.5]})
    assert list(found) == ["even", "apart alpha=0", "apart alpha=0.5"]
    assert found["even"] == VARIANTS["even"]
    assert found["apart alpha=0.5"] == Choice("fedgs", {"method": "greedy", "alpha": 0.5})
    assert with_option(VARIANTS, "alpha", 5)["even"] == VARIANTS["even"]
    assert with_option(VARIANTS, "alpha", 5)["apart"].options["alpha"] == 5


def test_every_combination_has_its_row():
    axes = {"compare.apart.alpha": [1, 2], "training.local_epochs": [1, 3], "availability.name": ["ideal", "lognormal"]}
    found = sweep(Experiment(), VARIANTS, axes)
    assert len(found) == 2 * 2 + 2 * 2 * 2
    chosen = found["apart alpha=2 local_epochs=3 availability=lognormal"]
    assert chosen.selector.options["alpha"] == 2
    assert (chosen.training.local_epochs, chosen.training.local_steps) == (3, None)
    assert chosen.availability.name == "lognormal"
    assert len({(each.digest) for each in found.values()}) == len(found)


def test_without_axes_variants_are_what_they_were():
    assert sweep(Experiment(), VARIANTS, {}) == VARIANTS


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({"selector.alpah": [1]}, "did you mean 'alpha'"),
        ({"compare.far.alpha": [1]}, r"nothing compared is called 'far' \(compared: even, apart\)"),
        ({"compare.even.alpha": [1]}, "'uniform' has no option 'alpha'"),
        ({"selector.alpha": ["x"]}, "'alpha' must be a number; got 'x'"),
        ({"selector.alpha": [1, 1]}, "has 1 twice"),
        ({"selector.alpha": []}, "has no values"),
        ({"selector.alpha": [1], "compare.apart.alpha": [2]}, "sweep the same option"),
        ({"training.speed": [1]}, "training: unknown key 'speed'"),
        ({"experiment.seed": [1]}, "write seed=0-4"),
        ({"alpha": [1]}, "there is no key 'alpha'"),
    ],
)
def test_bad_sweeps_are_sentences(axes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        sweep(Experiment(), VARIANTS, axes)


def test_values_as_typed():
    assert sweep_values("a.b=0,0.5,true") == ("a.b", [0, 0.5, True])
    assert sweep_values("a.b=two-label, iid") == ("a.b", ["two-label", "iid"])
    assert sweep_values("a.b=[1, 2],3") == ("a.b", [[1, 2], 3])
    with pytest.raises(ConfigError, match="a sweep reads"):
        sweep_values("a.b")


def test_a_variant_s_own_key_on_the_command_line(config):
    _, tables = read_config(config, ["compare.apart.alpha=5", "compare.new.name=poc"])
    assert tables["apart"] == {"name": "fedgs", "method": "greedy", "alpha": 5}
    assert tables["new"] == {"name": "poc"}
    for override in ("compare.aprt.alpha=5", "compare.alpha=5"):
        with pytest.raises(ConfigError, match="there is no such table"):
            read_config(config, [override])


@pytest.mark.thorough
def test_compare_sweeps_and_ends_with_a_table(config, tmp_path, call):
    pytest.importorskip("torch")
    out = tmp_path / "runs"
    swept = ("--sweep", "selector.alpha=0,2", "--sweep", "training.learning_rate=0.1,0.2", "--sweep", "seed=3")
    code, printed, error = call("compare", config, *swept, "--out", out)
    assert code == 0, error
    labels = [
        f"{who} learning_rate={rate}" for who in ("even", "apart alpha=0", "apart alpha=2") for rate in (0.1, 0.2)
    ]
    for label in labels:
        assert label in printed
    manifest = json.loads((out / "swept" / "comparison.json").read_text())
    assert (list(manifest["runs"]), manifest["seeds"]) == (labels, [3])
    assert len({name for names in manifest["runs"].values() for name in names}) == 6
    code, printed, _ = call("compare", config, *swept, "--out", out, "--format", "json")
    assert json.loads(printed)["found_finished"] == 6
    assert call("report", out / "swept")[0] == 0


def test_a_set_option_touches_only_who_has_it(config, tmp_path, call):
    pytest.importorskip("torch")
    arguments = ("--selectors", "uniform,apart", "-c", "selector.alpha=5", "--seeds", "0", "--out", tmp_path / "runs")
    assert call("compare", config, *arguments)[0] == 0
    written = [path.read_text() for path in (tmp_path / "runs" / "swept").glob("*/config.toml")]
    assert sorted("alpha = 5" in text for text in written) == [False, True]
    code, _, error = call("compare", config, "--selectors", "uniform", "-c", "selector.alpha=5")
    assert (code, error.count("\n")) == (2, 1)
    assert "has an option 'alpha'" in error


def test_a_sweep_of_the_configuration_s_own_selector(tmp_path, call):
    pytest.importorskip("torch")
    path = tmp_path / "own.toml"
    path.write_text(CONFIG.partition("[compare")[0] + '[selector]\nname = "fedgs"\nmethod = "greedy"\n')
    sweeping = ("compare", path, "--sweep", "selector.alpha=0,1", "--seeds", "0", "--out", tmp_path / "runs")
    code, printed, _ = call(*sweeping, "--format", "json")
    assert code == 0
    facts = json.loads(printed)
    assert [row["selector"] for row in facts["runs"]] == ["fedgs alpha=0", "fedgs alpha=1"]
    least = min(facts["runs"], key=lambda row: row["final_loss"])
    (choice,) = facts["choice"]
    assert (choice["variant"], choice["chosen_on"]) == (least["selector"], "test_loss")
    assert (facts["verdict"]["reference"], facts["verdict"]["half_width"]) == (least["selector"], None)
    code, _, error = call(*sweeping, "--sweep", "seed=1")
    assert code == 2
    assert "both name the seeds" in error
    assert "swept twice" in call(*sweeping, "--sweep", "selector.alpha=3")[2]


@pytest.mark.thorough
def test_run_sweeps_too_and_tells_a_tracker(config, tmp_path, call):
    """Every combination is a run of the configuration's own selector; TensorBoard gets a folder a run."""
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed (extra tensorboard)")
    out, events = tmp_path / "runs", tmp_path / "events"
    arguments = ("run", config, "--sweep", "training.learning_rate=0.1,0.2", "--out", out)
    code, printed, error = call(*arguments, "--logger", f"tensorboard={events}", "--format", "json")
    assert code == 0, error
    runs = json.loads(printed)["runs"]
    assert [row["selector"] for row in runs] == ["uniform learning_rate=0.1", "uniform learning_rate=0.2"]
    folders = {path.parent.name for path in out.rglob("summary.json")}
    assert {path.parent.name for path in events.rglob("events.out.*")} == folders
    assert len(folders) == 2
    code, printed, _ = call(*arguments)
    assert code == 0
    assert "found finished: 2 of 2 runs" in printed
    assert "both name the seeds" in call(*arguments, "--sweep", "seed=0-1", "--seed", "3")[2]


def test_a_logger_that_is_none_stops_a_comparison_before_it_begins(config, tmp_path, call):
    pytest.importorskip("torch")
    code, _, error = call("compare", config, "--seeds", "0", "--logger", "mlfow", "--out", tmp_path / "runs")
    assert code == 2
    assert "there is no logger 'mlfow'; did you mean 'mlflow'?" in error
    first = f"tensorboard={tmp_path / 'events'}"
    assert call("run", config, "--logger", first, "--logger", "mlfow", "--out", tmp_path / "runs")[0] == 2
    (tmp_path / "file").touch()
    code, _, error = call("run", config, "--logger", f"tensorboard={tmp_path / 'file'}", "--out", tmp_path / "runs")
    assert code == 2
    assert "logger 'tensorboard' cannot write to " in error
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "events").exists()


def test_selection_alone_writes_nothing_and_selects_what_a_trained_run_selects(config, tmp_path, call):
    """E3CS learns who comes back, so that equal selections mean equal availability, dropout and draws."""
    pytest.importorskip("torch")
    options = ("-c", "selector.name=e3cs", "-c", "dropout.name=bernoulli", "-c", "dropout.rate=0.5")
    options += ("-c", "experiment.rounds=6", "-c", "availability.name=lognormal")
    out = tmp_path / "runs"
    code, printed, error = call("run", config, "--without-training", *options, "--out", out, "--format", "json")
    assert code == 0, error
    assert not out.exists()
    facts = json.loads(printed)
    assert sum(facts["counts"]) == sum(len(each["selected"]) for each in facts["selections"])
    assert call("run", config, *options, "--out", out)[0] == 0
    (folder,) = (out / "swept").iterdir()
    for alone, trained in zip(facts["selections"], read_records(folder), strict=True):
        for key in ("available", "selected", "returned", "weights"):
            assert alone[key] == trained[key]
    code, printed, _ = call("run", config, "--without-training", *options)
    assert code == 0
    assert "count variance" in printed
    assert "nothing was trained, and no folder written" in printed


def test_selection_alone_refuses_what_needs_training(config, call):
    code, _, error = call("run", config, "--without-training", "-c", "selector.name=afl")
    assert (code, error.count("\n")) == (2, 1)
    assert "this round has no probe" in error
    assert "--fresh is about run folders" in call("run", config, "--without-training", "--fresh")[2]
