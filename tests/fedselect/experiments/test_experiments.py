"""Configurations, run folders that survive a kill, comparisons and reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tomli_w

from fedselect.errors import ConfigError, FedselectError, RunError
from fedselect.experiments import Choice, Experiment, compare, read_config, read_records, run, run_all, run_folder
from fedselect.experiments.folder import RunFolder, load_checkpoint, save_checkpoint
from fedselect.experiments.reading import RecordedRun
from fedselect.experiments.running import build, build_scenario, run_into
from fedselect.measures import RunData, selection_counts, summary
from fedselect.reports import read_report, results_table, write_report
from fedselect.rounds import EndOfRun, play
from fedselect.selectors import SELECTORS, Uniform
from tests.waiting import HANG, until

CONFIG = """
[experiment]
name = "small"
rounds = 6
clients_per_round = 3

[data]
name = "digits"
n_clients = 12

[availability]
name = "lognormal"
beta = 0.3

[selector]
name = "fedgs"
method = "brute-force"

[compare.even]
name = "uniform"

[compare.apart]
name = "fedgs"
method = "greedy"
bound_by = "brute-force"
"""

#: What differs between two runs of the same experiment.
TIMES = ("select_seconds", "train_seconds")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


def timeless(records):
    stripped = []
    for record in records:
        record = {key: value for key, value in record.items() if key not in TIMES}
        if record["solution"]:
            timed = ("seconds", "build_seconds", "details")
            record["solution"] = {k: v for k, v in record["solution"].items() if k not in timed}
        stripped.append(record)
    return stripped


# -- configuration -------------------------------------------------------------------------------------------------


def test_config_is_read_with_defaults_and_variants(config):
    experiment, variants = read_config(config)
    assert experiment.selector == Choice("fedgs", {"method": "brute-force"})
    assert experiment.dropout == Choice("none")
    assert experiment.training.decay == 0.998
    assert list(variants) == ["even", "apart"]


def test_resolved_tables_read_back(config):
    experiment, _ = read_config(config, ["training.model=mlp", "training.model_options={hidden = 7}"])
    assert experiment.training.model_options == {"hidden": 7}
    assert tomllib.loads(tomli_w.dumps(experiment.tables())) == experiment.tables()
    assert Experiment.from_tables(experiment.tables()) == experiment


def test_overrides_replace_single_values(config):
    experiment, _ = read_config(config, ["experiment.rounds=2", "selector.alpha=0.5", "data.partition=dirichlet"])
    assert experiment.rounds == 2
    assert experiment.selector.options["alpha"] == 0.5
    assert experiment.data.options["partition"] == "dirichlet"


def test_digest_names_everything_but_name_and_seed(config):
    experiment, _ = read_config(config)
    assert replace(experiment, seed=9, name="other").digest == experiment.digest
    assert replace(experiment, checkpoint_every=5).digest == experiment.digest
    assert replace(experiment, rounds=7).digest != experiment.digest


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("experiment.round=3", "experiment: unknown key 'round'; did you mean 'rounds'"),
        ("experimint.rounds=3", "the configuration: unknown key 'experimint'"),
        ("experiment.rounds=0", "rounds must be an integer, at least 1, at most .*; got 0"),
        ("experiment.rounds=2.5", "experiment: rounds must be an integer, at least 1, at most .*; got 2.5"),
        ("experiment.clients_per_round=13", "clients_per_round is 13, but there are only 12 clients"),
        ("experiment.name=a/b", "usable as a folder name; got 'a/b'"),
        ("experiment.time_limit=0", "time_limit must be a number, above 0; got 0"),
        ("selector.name=fedgz", "there is no selector 'fedgz'; did you mean 'fedgs'"),
        ("selector.alfa=1", "selector 'fedgs' has no option 'alfa'; did you mean 'alpha'"),
        ("availability.rate=0.5", "availability 'lognormal' has no option 'rate'"),
        ("dropout.name=often", "there is no dropout 'often'"),
        ("data.name=cifar", "there is no data set 'cifar'"),
        ("data.concentration=0.5", "no option 'concentration' for data set 'digits' with partition 'two-label'"),
        ("data.n_clients=many", "option 'n_clients' must be an integer; got 'many'"),
        ("training.momentun=0.9", "training: unknown key 'momentun'; did you mean 'momentum'"),
        ("training.local_epochs=often", "training: local_epochs must be an integer or a list of entries"),
        ("training.local_epochs=1.5", "training: local_epochs must be an integer or a list of entries"),
        ("training.model_options=3", "training: model_options must be a table; got 3"),
        ("training.model_options={hidden = 3}", "model 'linear' has no option 'hidden'"),
        ("training.projection=near", "training: projection must be a number; got 'near'"),
        ("experiment.checkpoint_every=0", "checkpoint_every must be an integer, at least 1, at most .*; got 0"),
        ("training.batch_size=0", "batch_size must be a positive integer; got 0"),
        ("rounds=3", "an override reads section.key=value; got 'rounds=3'"),
        (
            "availability.name=ideal",
            "no option 'beta' .*; if it was meant for another .*, availability.beta= leaves out",
        ),
        ("availability.gamma=", "availability.gamma= leaves out what the file says there, and it says nothing"),
    ],
)
def test_bad_configurations_are_sentences(config, override, sentence):
    with pytest.raises(ConfigError, match=sentence):
        read_config(config, [override])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rounds": 10**400}, "rounds must be an integer, at least 1, at most 1e\\+15; got 1000"),
        ({"rounds": True}, "rounds must be an integer"),
        ({"name": 3}, "name must be text; got 3"),
        ({"seed": -1}, "seed must be an integer, at least 0; got -1"),
        ({"time_limit": float("nan")}, "time_limit must be a number, above 0; got nan"),
        ({"patience": 0}, "patience must be an integer, at least 1"),
    ],
)
def test_the_constructor_is_the_configuration(given, sentence):
    """What a file may not say, Python may not either; integers of any library are integers."""
    with pytest.raises(ConfigError, match=f"experiment: {sentence}"):
        Experiment(**given)
    assert Experiment(rounds=np.int64(3), time_limit=2).rounds == 3
    with pytest.raises(ConfigError, match="load must be a list of scripts or modules"):
        Experiment.from_tables({"experiment": {"load": 5}})


def test_an_override_without_a_value_leaves_the_key_out(config):
    experiment, _ = read_config(config, ["availability.name=ideal", "availability.beta="])
    assert (experiment.availability.name, dict(experiment.availability.options)) == ("ideal", {})


def test_unreadable_configurations_are_sentences(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*none.toml"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("[experiment\n")
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*broken.toml"):
        read_config(tmp_path / "broken.toml")


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_checkpoints_keep_nested_arrays_and_values(tmp_path):
    state = {"round": 3, "weights": np.arange(4, dtype=np.float32), "selector": {"counts": np.arange(3), "k": None}}
    save_checkpoint(tmp_path / "c.npz", state)
    again = load_checkpoint(tmp_path / "c.npz")
    assert again["round"] == 3
    assert again["selector"]["k"] is None
    assert again["weights"].dtype == np.float32
    assert np.array_equal(again["selector"]["counts"], np.arange(3))
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


# -- runs ----------------------------------------------------------------------------------------------------------

torch = pytest.importorskip("torch")
import stored_updates  # noqa: E402, F401  (registers FedVARP and MIFA)


def test_a_run_folder_holds_what_the_readme_says(config, tmp_path):
    experiment, _ = read_config(config)
    folder = run(experiment, tmp_path)
    assert folder == run_folder(experiment, tmp_path)
    assert folder.name == f"fedgs-{experiment.digest}-s0"
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert found == {
        "config.toml",
        "origin.json",
        "rounds.jsonl",
        "checkpoint.npz",
        "metrics.csv",
        "clients.csv",
        "client_rounds.csv",
        "model.pt",
        "summary.json",
        "plots/counts.png",
        "plots/curves.png",
    }
    tables = tomllib.loads((folder / "config.toml").read_text())
    read = Experiment.from_tables(tables)
    assert (read.digest, read.training) == (experiment.digest, experiment.training)
    assert tables["selector"] == {  # every default is written out; what is left out has none
        "name": "fedgs",
        "alpha": 1.0,
        "scale": "turns",
        "method": "brute-force",
        "ties": "id",
        "within": 0.0,
        "graph": "reference",
        "features": "labels",
        "noise": 0.0,
        "geometry": "graph",
    }
    assert tables["data"]["labels_per_client"] == 2  # of the partition
    assert replace(experiment, selector=Choice("fedgs", {"method": "brute-force", "alpha": 2.0})).digest != read.digest
    stated = {name: value for name, value in vars(experiment.training).items() if value is not None}
    assert tables["training"] == stated  # all of them, defaults too
    records = read_records(folder)
    assert [record["round"] for record in records] == list(range(6))
    for record in records:
        assert set(record["selected"]) <= set(record["available"])
        assert record["returned"] == record["selected"]
        assert sum(record["weights"]) == pytest.approx(1)
        assert record["solution"]["status"] == "optimal"
    results = json.loads((folder / "summary.json").read_text())
    clients = pd.read_csv(folder / "clients.csv")
    scores = {name: clients[name].to_numpy() for name in ("loss", "accuracy")}
    again = summary(RunData(records, clients["importance"].to_numpy(), scores))
    assert results == pytest.approx(again, rel=1e-12)
    assert results["count_variance"] == pytest.approx(np.var(selection_counts(records, 12), ddof=1))
    assert 0 <= results["least_count_variance"] <= results["count_variance"] + 1e-12


def test_a_finished_run_is_not_repeated(config, tmp_path):
    experiment, _ = read_config(config)
    folder = run(experiment, tmp_path, plots=False)
    before = (folder / "rounds.jsonl").stat().st_mtime_ns
    calls = []
    run(experiment, tmp_path, lambda done, total: calls.append(done))
    assert calls == []
    assert (folder / "rounds.jsonl").stat().st_mtime_ns == before


def test_runs_without_pictures_are_the_same_runs(config, tmp_path):
    experiment, _ = read_config(config)
    with_them = run(experiment, tmp_path / "with")
    [without] = run_all([experiment], tmp_path / "without", plots=False)
    assert (with_them / "plots").is_dir()
    assert not (without / "plots").exists()
    assert (without / "clients.csv").read_bytes() == (with_them / "clients.csv").read_bytes()


@pytest.mark.parametrize(
    ("stop_at", "rule"), [(1, "fedavg"), (4, "fedavg"), (4, "fedvarp"), (3, "mifa")], ids=lambda value: str(value)
)
def test_an_interrupted_run_continues_to_the_same_bits(config, tmp_path, stop_at, rule):
    experiment, _ = read_config(config, [f"training.server_rule={rule}", "training.server_momentum=0.5"])
    whole = run(experiment, tmp_path / "whole", plots=False)

    def stop(done, total):
        if done == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment, tmp_path / "parts", stop, plots=False)
    folder = run_folder(experiment, tmp_path / "parts")
    assert not (folder / "summary.json").exists()
    # A line whose checkpoint was never written, and half a line: what a kill can leave.
    with (folder / "rounds.jsonl").open("a") as lines:
        lines.write(json.dumps({"round": stop_at}) + "\n" + '{"round"')
    calls = []
    run(experiment, tmp_path / "parts", lambda done, total: calls.append(done), plots=False)
    assert calls == list(range(stop_at + 1, 7))
    assert timeless(read_records(folder)) == timeless(read_records(whole))
    first, second = (load_checkpoint(f / "checkpoint.npz")["weights"] for f in (whole, folder))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("kills", "overrides"),
    [
        pytest.param((4,), ["experiment.rounds=20"], id="every round saved"),
        pytest.param((7,), ["experiment.rounds=30"], id="every round saved, longer", marks=pytest.mark.thorough),
        pytest.param((5, 25), ["experiment.rounds=60"], id="twice", marks=pytest.mark.thorough),
        pytest.param(
            (14,),
            [
                "experiment.rounds=60",
                "training.server_rule=fedadam",
                "experiment.checkpoint_every=4",
                "dropout.name=bernoulli",
            ],
            id="fedadam, every fourth saved",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_killed_process_loses_nothing_that_was_finished(config, tmp_path, kills, overrides):
    """``kill -9`` at some moment of a real process; what continues it equals the unbroken run: here, or the command."""
    experiment, _ = read_config(config, overrides)
    whole = run(experiment, tmp_path / "whole", plots=False)
    command = [sys.executable, "-m", "fedselect", "run", str(config), "--out", str(tmp_path / "parts")]
    command += [part for override in overrides for part in ("-c", override)]
    folder = run_folder(experiment, tmp_path / "parts")
    lines = folder / "rounds.jsonl"
    reached = []
    for goal in kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(lambda goal=goal: lines.exists() and lines.read_bytes().count(b"\n") >= goal, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        reached.append(int(load_checkpoint(folder / "checkpoint.npz")["round"]))
    assert reached[0] > 0
    assert sorted(set(reached)) == reached
    if len(kills) == 1:
        assert run(experiment, tmp_path / "parts", plots=False) == folder
    else:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0, done.stderr
    assert timeless(read_records(folder)) == timeless(read_records(whole))
    first, second = (load_checkpoint(f / "checkpoint.npz") for f in (whole, folder))
    assert np.array_equal(first["weights"], second["weights"])
    for name in first["server"]:
        assert np.array_equal(first["server"][name], second["server"][name])


def test_saving_less_often_is_the_same_run(config, tmp_path):
    """A run that was stopped may continue with another ``checkpoint_every``; only whole checkpoints count."""
    experiment, _ = read_config(config)
    whole = run(experiment, tmp_path / "whole", plots=False)

    def stop(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(replace(experiment, checkpoint_every=4), tmp_path / "parts", stop)
    calls = []
    again = RunFolder.of(experiment, tmp_path / "parts")
    folder = run_into(again, lambda done, total: calls.append(done), plots=False)
    assert calls == [5, 6]
    assert again.resumed == 4
    assert timeless(read_records(folder)) == timeless(read_records(whole))


class FirstThere:
    """Ids alone, and nothing that learns or is saved; its count is state that only playing again restores."""

    def __init__(self, scenario):
        self.size, self.asked = scenario.size, 0

    def select(self, round):
        self.asked += 1
        return np.roll(np.flatnonzero(round.available), self.asked)[: self.size]


def test_a_selector_with_select_alone_runs_and_is_played_again_from_the_first_round(
    config, tmp_path, caplog, restoring
):
    restoring(SELECTORS)
    SELECTORS.register("first-there")(FirstThere)
    experiment, _ = read_config(config, ["experiment.rounds=3"])
    experiment = replace(experiment, selector=Choice("first-there"))
    whole = run(experiment, tmp_path / "whole", plots=False)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment, tmp_path / "parts", stop)
    calls = []
    folder = run(experiment, tmp_path / "parts", lambda done, total: calls.append(done), plots=False)
    assert calls == [1, 2, 3]
    assert "begins again at the first round: its selector has no state_dict" in caplog.text
    assert timeless(read_records(folder)) == timeless(read_records(whole))


def test_rounds_without_evaluation_are_recorded_as_such(config, tmp_path):
    """Every fourth round and the last one are evaluated; tables, pictures and the summary cope."""
    experiment, _ = read_config(config, ["training.evaluate_every=4", "training.metrics=f1"])
    folder = run(experiment, tmp_path)
    losses = [record["loss"] for record in read_records(folder)]
    assert [loss is not None for loss in losses] == [False, False, False, True, False, True]
    table = pd.read_csv(folder / "metrics.csv")
    assert table["accuracy"].notna().sum() == table["f1"].notna().sum() == 2
    results = json.loads((folder / "summary.json").read_text())
    assert results["best_loss"] == min(losses[3], losses[5])
    every, _ = read_config(config)
    assert losses[3] == read_records(run(every, tmp_path, plots=False))[3]["loss"]


def test_scores_at_the_clients_are_on_their_own_tests_and_over_the_rounds(config, tmp_path):
    changes = ["data.client_test_fraction=0.3", "training.evaluate_clients_every=2", "experiment.rounds=4"]
    experiment, _ = read_config(config, changes)
    folder = run(experiment, tmp_path, plots=False)
    whole = pd.read_csv(folder / "client_rounds.csv")
    records, chosen = read_records(folder), whole[whole["selected"] == 1]
    assert [chosen[chosen["round"] == t]["client"].tolist() for t in range(4)] == [each["selected"] for each in records]
    assert chosen["weight"].tolist() == [weight for each in records for weight in each["applied"]]
    assert list(whole.columns) == ["round", "client", "selected", "weight", "loss", "accuracy", "seconds"]
    assert whole["seconds"].isna().all()  # without a clock nobody knows
    curves = whole.dropna(subset="loss")
    assert curves.groupby("client")["round"].apply(list).tolist() == [[1, 3]] * 12
    last = curves[curves["round"] == 3]["accuracy"].to_numpy()
    np.testing.assert_array_equal(pd.read_csv(folder / "clients.csv")["accuracy"], last)
    shares = [len(held) for held in experiment.federation().client_tests]
    np.testing.assert_allclose(last * shares, np.rint(last * shares), atol=1e-9)  # of as many samples
    assert json.loads((folder / "summary.json").read_text())["client_accuracy_worst"] == last.min()
    assert [each.key for each in read_report(folder).pictures if each.key == "clients"] == ["clients"]


def test_the_clients_table_says_what_became_of_each(config, tmp_path):
    experiment, _ = read_config(config, ["training.importance=equal"])
    folder = run(experiment, tmp_path, plots=False)
    clients, records = pd.read_csv(folder / "clients.csv"), read_records(folder)
    assert clients["selected"].tolist() == selection_counts(records, 12).tolist()
    assert clients["importance"].tolist() == pytest.approx([1 / 12] * 12)
    assert clients["realised_importance"].sum() == pytest.approx(1)
    results = json.loads((folder / "summary.json").read_text())
    assert results["client_accuracy_worst"] == pytest.approx(clients["accuracy"].min())
    assert results["importance_distance"] == pytest.approx(
        (clients["importance"] - clients["realised_importance"]).abs().sum() / 2
    )


def test_a_folder_of_another_configuration_is_refused(config, tmp_path):
    experiment, _ = read_config(config)
    folder = run_folder(experiment, tmp_path)
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[experiment]\n")
    with pytest.raises(RunError, match="holds a run of another configuration"):
        run(experiment, tmp_path)


def test_two_processes_do_not_write_one_run(config, tmp_path):
    """The second to come is told so, from inside the first; afterwards the folder is free again."""
    experiment, _ = read_config(config)
    refusals = []

    def intrude(done, total):
        try:
            run(experiment, tmp_path)
        except RunError as error:
            refusals.append(str(error))

    folder = run(experiment, tmp_path, intrude, plots=False)
    assert refusals == [f"another process is running {folder}; wait for it or stop it"] * 6
    assert [record["round"] for record in read_records(folder)] == list(range(6))


def test_comparisons_report_rounds_as_they_stand(config, tmp_path):
    experiment, _ = read_config(config)
    seen = []
    compare(experiment, {"even": Choice("uniform")}, [0, 1], tmp_path, progress=lambda *done: seen.append(done))
    assert seen[-1] == (12, 12)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_run_that_cannot_be_built_writes_nothing(config, tmp_path):
    np.save(tmp_path / "nan.npy", np.full((12, 12), np.nan))
    for override in (f"selector.distances_file={tmp_path / 'nan.npy'}", "availability.beta=1.5", "data.n_clients=5000"):
        experiment, _ = read_config(config, [override])
        with pytest.raises(FedselectError):
            run(experiment, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unwritable_output_is_a_sentence(config, tmp_path):
    (tmp_path / "file").write_text("")
    experiment, _ = read_config(config)
    with pytest.raises(RunError, match="cannot write the run folder"):
        run(experiment, tmp_path / "file")


def test_reading_what_is_no_run_is_a_sentence(tmp_path):
    with pytest.raises(RunError, match="is not a run folder"):
        read_records(tmp_path)


# -- comparisons ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    (folder / "small.toml").write_text(CONFIG)
    experiment, tables = read_config(folder / "small.toml")
    variants = {label: Choice(t["name"], {k: v for k, v in t.items() if k != "name"}) for label, t in tables.items()}
    return compare(experiment, variants, [0, 1], folder), folder


def test_everyone_met_the_same_availability(comparison):
    done, _ = comparison
    for even, apart in zip(done.folders["even"], done.folders["apart"], strict=True):
        assert [r["available"] for r in read_records(even)] == [r["available"] for r in read_records(apart)]


@pytest.mark.thorough
def test_workers_change_nothing(comparison, tmp_path):
    done, _ = comparison
    together = compare(done.experiment, done.variants, done.seeds[:1], tmp_path, jobs=2)
    for label in done.variants:
        assert timeless(read_records(done.folders[label][0])) == timeless(read_records(together.folders[label][0]))


def test_table_has_one_row_a_run_and_gaps_only_where_there_is_a_problem(comparison):
    table = comparison[0].table()
    assert table[["selector", "seed"]].to_numpy().tolist() == [["even", 0], ["even", 1], ["apart", 0], ["apart", 1]]
    assert table[table.selector == "even"]["mean_gap"].isna().all()
    assert (table[table.selector == "apart"]["mean_gap"] >= 0).all()


def test_rounds_to_a_target_of_every_run(comparison):
    table = comparison[0].rounds_to(10.0, "loss")
    assert table["rounds"].tolist() == [1.0] * 4
    assert comparison[0].rounds_to(1.1)["rounds"].isna().all()


def test_report_is_written_whole(comparison, drawn):
    done, folder = comparison
    path = write_report(done, folder / "report")
    names = {p.name for p in path.parent.iterdir()}
    assert names == {"report.html", "report.md", "results.csv", "counts.png", "curves.png", "gap.png", "graph.png"}
    text = path.read_text()
    assert "| even |" in text
    assert "| longest absence (rounds) |" in text
    assert all(f"]({name})" in text for name in names if name.endswith(".png"))
    assert [row[0] for row in results_table(done.means()).texts] == ["selector", "even", "apart"]


def test_report_shows_the_success_ratio_where_clients_go_missing(config, tmp_path, drawn):
    experiment, _ = read_config(config, ["dropout.name=bernoulli", "dropout.rate=0.5", "experiment.rounds=3"])
    done = compare(experiment, {"even": Choice("uniform")}, [0], tmp_path)
    path = write_report(done, tmp_path / "report")
    assert (path.parent / "success.png").stat().st_size > 1000
    assert "](success.png)" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({}, [0]), "at least one selector"),
        (({"u": Choice("uniform")}, []), "at least one selector and one seed"),
        ((["uniform", Choice("uniform")], [0]), "selectors without labels must have different names"),
        (({"u": Choice("uniform")}, [1, 1]), "seeds of a comparison must differ"),
        (({"u": Choice("uniform")}, [0], "runs", 0), "jobs must be at least 1, or -1 for all processors; got 0"),
        (({"u": Choice("unifrm")}, [0]), "there is no selector 'unifrm'"),
    ],
)
def test_bad_comparisons_are_sentences(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        compare(Experiment(), *arguments)


def test_patience_ends_a_run_which_is_then_finished(config, tmp_path):
    """A step size of 1e-9 never improves the loss by more than rounding, 1e3 makes it worse at once."""
    experiment, _ = read_config(config, ["experiment.patience=2", "training.learning_rate=1000.0"])
    experiment = replace(experiment, rounds=50, selector=Choice("uniform"))
    folder = run(experiment, tmp_path / "out", plots=False)
    losses = [record["loss"] for record in read_records(folder)]
    assert 3 <= len(losses) < 50
    assert min(losses[-2:]) >= min(losses[:-2])
    assert RecordedRun.read(folder).finished
    assert run(experiment, tmp_path / "out", plots=False) == folder
    assert len(read_records(folder)) == len(losses)
    with pytest.raises(ConfigError, match="patience must be an integer, at least 1"):
        replace(experiment, patience=0)


class EndsAt(Uniform):
    """Select two clients, up to a round."""

    def __init__(self, size, *, end: int):
        super().__init__(size)
        self.end = end

    def select(self, round):
        if round.round >= self.end:
            raise EndOfRun("it is enough")
        return super().select(round)


def test_a_selector_ends_a_run_and_its_folder_is_finished(config, tmp_path, scratch_registry):
    SELECTORS.register("ends-at")(EndsAt)
    changes = ["selector.name=ends-at", "selector.method=", "selector.end=3", "experiment.rounds=9"]
    experiment, _ = read_config(config, changes)
    folder = run(experiment, tmp_path, plots=False)
    assert len(list(read_records(folder))) == json.loads((folder / "summary.json").read_text())["rounds"] == 3
    assert run(experiment, tmp_path, plots=False) == folder
    assert RecordedRun.read(folder).rounds == 3
    assert read_report(folder).tables
    loop = build(experiment)
    assert [done.round for done in loop.fit(9)] == [0, 1, 2]
    world = build_scenario(experiment)
    assert len(list(play(SELECTORS.build("ends-at", world, end=2), world, 9))) == 2
    with pytest.raises(RunError, match="the selector ended the run before its first round"):
        run(read_config(config, [*changes, "selector.end=0"])[0], tmp_path, plots=False)
