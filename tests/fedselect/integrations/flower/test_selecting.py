"""`select_with`: a strategy of Flower's samples and weighs by a selector; the rest of it, and the clients, stay."""

from __future__ import annotations

import importlib
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx

from fedselect.errors import ConfigError, FedselectError
from fedselect.integrations.flower import LocalGrid, say_partition, select_with
from fedselect.rounds.protocol import EndOfRun, Outcome, Selection
from fedselect.selectors import AFL, E3CS, DivFL, FedGS, PowerOfChoice, TiFL, Uniform
from fedselect.training.settings import one_thread
from tests.fedselect.integrations.flower.processes import Federation
from tests.thoroughly import few_of

N = 6
SIZES = np.arange(10, 10 + N)
EXAMPLES = Path(__file__).parents[4] / "examples"
START = np.array([1.0, -2.0], dtype=np.float32)


def model(values) -> ArrayRecord:
    """Two arrays of floats, and one of whole numbers, as a model with batch norm has."""
    values = np.asarray(values, dtype=np.float32)
    return ArrayRecord({"w": Array(values[:1]), "b": Array(values[1:]), "steps": Array(np.array([7]))})


def vector(arrays: ArrayRecord) -> np.ndarray:
    return np.concatenate([arrays["w"].numpy(), arrays["b"].numpy()])


def client_app(*, mods=(say_partition,), fails=(), is_evaluated=True) -> ClientApp:
    """A client app as Flower's users write it: client k adds (k, 1) to the model, and its loss is k."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(msg: Message, context) -> Message:
        client = context.node_config["partition-id"]
        if client in fails:
            raise OSError("data not mounted")
        moved = vector(msg.content["arrays"]) + np.array([client, 1.0], dtype=np.float32)
        metrics = {"train_loss": float(client), "num-examples": int(SIZES[client]), "lr": msg.content["config"]["lr"]}
        return Message(RecordDict({"arrays": model(moved), "metrics": MetricRecord(metrics)}), reply_to=msg)

    def evaluate(msg: Message, context) -> Message:
        client = context.node_config["partition-id"]
        metrics = {"eval_loss": 10.0 + client, "num-examples": 2}
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)

    if is_evaluated:
        app.evaluate()(evaluate)
    return app


class Fixed:
    """Select the same clients with the same weights, and remember what it is told."""

    def __init__(self, clients, weights, on_failure="keep"):
        self.choice, self.seen, self.told = (
            Selection(np.array(clients), np.array(weights), on_failure=on_failure),
            [],
            [],
        )

    def select(self, round):
        self.seen.append(round)
        return self.choice

    def update(self, feedback):
        self.told.append(feedback)


def play(selector, base=FedAvg, *, app=None, rounds=1, clients=N, grid=None, options=None, **how):
    strategy = type("Selected", (select_with(selector, clients, **how), base), {})(**(options or {}))
    grid = grid or LocalGrid(app or client_app(), N)
    result = strategy.start(grid, model(START), rounds, train_config=ConfigRecord({"lr": 0.5}))
    return strategy, result


@pytest.mark.parametrize("weights", [[0.25, 0.75], [0.5, 1.5], [0.1, 0.2], [0.0, 1.0]])
def test_weights_are_absolute(weights):
    selector = Fixed([1, 4], weights)
    strategy, result = play(selector)
    change = weights[0] * np.array([1.0, 1.0]) + weights[1] * np.array([4.0, 1.0])
    np.testing.assert_allclose(vector(result.arrays), START + change, rtol=1e-6)
    np.testing.assert_allclose(result.arrays["steps"].numpy(), 7)  # averaged, as Flower does
    assert strategy.history.selections.tolist() == [0, 1, 0, 0, 1, 0]
    (told,) = selector.told
    assert told.losses == {1: 1.0, 4: 4.0}
    np.testing.assert_allclose(told.updates[4], [4.0, 1.0])


def test_metrics_of_clients_stay_as_they_came():
    """An aggregation of metrics of one's own sees the samples of each client, and the weight beside it."""
    seen = []

    def total(records, weighted_by_key):
        sets = [next(iter(record.metric_records.values())) for record in records]
        seen.extend((each["num-examples"], each["lr"], each[weighted_by_key]) for each in sets)
        return MetricRecord({"samples": sum(each["num-examples"] for each in sets)})

    strategy, result = play(Fixed([1, 4], [0.25, 0.75]), options={"train_metrics_aggr_fn": total})
    assert seen == [(SIZES[1], 0.5, 0.25), (SIZES[4], 0.5, 0.75)]
    assert result.train_metrics_clientapp[1] == {"samples": SIZES[1] + SIZES[4]}
    assert strategy.weighted_by_key == "num-examples"
    _, result = play(Fixed([1, 4], [0.25, 0.75]))
    assert set(result.train_metrics_clientapp[1]) == {"train_loss", "lr"}  # as of Flower


def test_nodes_of_this_process_take_a_run_config():
    app = ClientApp()

    @app.train()
    def train(msg, context):
        metrics = MetricRecord({"num-examples": context.run_config["batch"]})
        return Message(RecordDict({"arrays": model(START), "metrics": metrics}), reply_to=msg)

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    strategy.train_metrics_aggr_fn = lambda records, key: MetricRecord({"n": records[0]["metrics"]["num-examples"]})
    grid = LocalGrid(app, 1, run_config={"batch": 32})
    assert strategy.start(grid, model(START), 1).train_metrics_clientapp[1]["n"] == 32


def test_the_strategy_keeps_its_own_weights_where_that_is_asked_for():
    """By the samples that clients say, whatever the selection's weights are; the metrics are averaged by them, too."""
    strategy, result = play(Fixed([1, 4], [5.0, -1.0]), weights="strategy")
    shares = SIZES[[1, 4]] / SIZES[[1, 4]].sum()
    np.testing.assert_allclose(vector(result.arrays), START + np.array([shares @ [1, 4], 1.0]), rtol=1e-6)
    assert result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(shares @ [1, 4])
    assert "selection-weight" not in result.train_metrics_clientapp[1]
    assert strategy.history.selections.tolist() == [0, 1, 0, 0, 1, 0]
    with pytest.raises(ConfigError, match="weights must be"):
        select_with(Uniform(2), N, weights="mine")
    with pytest.raises(ConfigError, match="patience must be a number of at least 0; got -1"):
        select_with(Uniform(2), N, patience=-1)


def test_weights_of_zero_change_nothing_and_negative_ones_are_refused():
    _, result = play(Fixed([1, 4], [0.0, 0.0]))
    assert len(result.arrays) == 0  # of Flower, where no round has a model
    with pytest.raises(ConfigError, match="averages with weights from 0; the selection has -1"):
        play(Fixed([1, 4], [-1.0, 2.0]))


def test_with_its_weights_by_data_flower_s_own_average_comes_out():
    """The whole federation, weighed by its samples: to the bit what FedAvg makes without a selector."""
    own = FedAvg(fraction_train=1.0, fraction_evaluate=0.0)
    expected = own.start(LocalGrid(client_app(), N), model(START), 1, train_config=ConfigRecord({"lr": 0.5})).arrays
    _, result = play(Fixed(range(N), SIZES / SIZES.sum()))
    np.testing.assert_allclose(vector(result.arrays), vector(expected), rtol=1e-6)


@pytest.mark.parametrize("base", [FedAvg, FedProx, FedAdam])
def test_the_rest_of_the_strategy_stays(base):
    """What the base makes of a round with these clients and weights: its own configuration, its own server step."""
    options = {"proximal_mu": 0.1} if base is FedProx else {}
    selector = Fixed([0, 5], [0.5, 0.5])
    strategy, result = play(selector, base, rounds=3, options=options)
    assert strategy.history.selections.tolist() == [3, 0, 0, 0, 0, 3]
    assert len(result.train_metrics_clientapp) == len(result.evaluate_metrics_clientapp) == 3
    assert result.train_metrics_clientapp[1]["lr"] == 0.5
    assert "partition-id" not in result.train_metrics_clientapp[1]
    assert "partition-id" not in result.evaluate_metrics_clientapp[1]
    assert result.train_metrics_clientapp[1]["train_loss"] == 2.5
    if base is FedAdam:  # whose step is not the mean change
        assert np.abs(vector(result.arrays) - START - 3 * np.array([2.5, 1.0])).min() > 0.1
    else:
        np.testing.assert_allclose(vector(result.arrays), START + 3 * np.array([2.5, 1.0]), rtol=1e-6)
    assert (strategy.fraction_train, strategy.min_available_nodes) == (1.0, 2)


@pytest.mark.parametrize(
    "selector",
    [
        Uniform(2),
        FedGS(2, distances=1.0 - np.eye(N)),
        E3CS(2, N, rounds=8),
        AFL(2, N),
        DivFL(2, importance=np.ones(N) / N),
        PowerOfChoice(2, candidates=4),
    ],
    ids=lambda selector: type(selector).__name__,
)
def test_selectors_play(selector):
    strategy, _ = play(selector, rounds=8)
    assert strategy.history.selections.sum() == 16
    assert strategy.history.returns.sum() == 16


def test_clients_are_those_that_nodes_say_they_are():
    """Nodes in another order than their partitions; the first selection is by known data."""
    grid = LocalGrid(client_app(), 0)
    for partition in (3, 0, 5, 1, 4, 2):
        grid.connect(partition)
    grid.partitions = N
    selector = Fixed([2], [1.0])
    _, result = play(selector, grid=grid)
    np.testing.assert_allclose(vector(result.arrays), START + np.array([2.0, 1.0]))


def test_sizes_are_learned():
    selector = Fixed([1, 4], [0.5, 0.5])
    play(selector, rounds=2)
    assert selector.seen[0].sizes.tolist() == [2] * N  # of the first evaluation
    assert selector.seen[1].sizes.tolist() == [2, 11, 2, 2, 14, 2]
    selector = Fixed([1, 4], [0.5, 0.5])
    play(selector, rounds=2, clients=SIZES)
    assert selector.seen[1].sizes.tolist() == SIZES.tolist()


def test_who_fails_is_failed_and_weights_are_kept_or_renormalised():
    for on_failure, expected in (("keep", [1.0, 0.25]), ("renormalise", [4.0, 1.0])):
        selector = Fixed([2, 4], [0.75, 0.25], on_failure)
        strategy, result = play(selector, app=client_app(fails={2}))
        np.testing.assert_allclose(vector(result.arrays), START + expected)
        assert selector.told[0].outcomes[[2, 4]].tolist() == [Outcome.FAILED, Outcome.RETURNED]
        assert strategy.history.returns.tolist() == [0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "kind",
    ["no model", "two models", "another shape", "not finite", "steps of another shape", "endless steps", "no metrics"],
)
def test_an_answer_that_cannot_be_averaged_is_one_clients_failure(kind, caplog):
    app = ClientApp(mods=[say_partition])
    good = client_app()

    @app.evaluate()
    def evaluate(msg: Message, context) -> Message:
        return good(msg, context)

    @app.train()
    def train(msg: Message, context) -> Message:
        reply = good(msg, context)
        if context.node_config["partition-id"] == 2:
            if kind == "no model":
                del reply.content["arrays"]
            if kind == "two models":
                reply.content["more"] = model(START)
            if kind == "another shape":
                reply.content["arrays"] = model([1.0, 2.0, 3.0])
            if kind == "not finite":
                reply.content["arrays"] = model([1.0, np.nan])
            if kind == "steps of another shape":
                reply.content["arrays"]["steps"] = Array(np.array([7, 8]))
            if kind == "endless steps":
                reply.content["arrays"]["steps"] = Array(np.array([np.inf]))
            if kind == "no metrics":
                del reply.content["metrics"]
        return reply

    selector = Fixed([2, 4], [0.5, 0.5])
    strategy, result = play(selector, app=app)
    np.testing.assert_allclose(vector(result.arrays), START + 0.5 * np.array([4.0, 1.0]))
    assert selector.told[0].outcomes[[2, 4]].tolist() == [Outcome.FAILED, Outcome.RETURNED]
    assert "client 2 failed: its" in caplog.text
    assert strategy.history.returns.tolist() == [0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("given", ["third", -1, 2.5, True, "", "9" * 20])
def test_a_partition_that_is_no_number_is_a_sentence(given):
    context = SimpleNamespace(node_config={"partition-id": given})
    content = RecordDict({"metrics": MetricRecord({"loss": 1.0})})
    reply = SimpleNamespace(has_error=lambda: False, content=content)
    with pytest.raises(ConfigError, match=r"must say which client it is, as a whole number from 0.*; got "):
        say_partition(reply, context, lambda message, context: message)


def test_clients_that_say_nothing_are_numbered_where_that_is_asked_for():
    strategy, _ = play(Uniform(2), app=client_app(mods=[], is_evaluated=False), rounds=3, identity=None,
                       options={"fraction_evaluate": 0.0})  # fmt: skip
    assert strategy.history.selections.sum() == 6


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        (lambda: client_app(mods=[]), r"its metric 'partition-id' is None; accepted .*mods=\[say_partition\]"),
        (lambda: client_app(is_evaluated=False), "it could not say who it is: ValueError: No evaluate function"),
    ],
)
def test_where_no_node_says_who_it_is_the_run_ends_at_once(app, sentence, caplog):
    with pytest.raises(FedselectError, match=rf"no node says which client it is.*of 6.*{sentence}"):
        play(Uniform(2), app=app())
    assert "takes no part" in caplog.text


def test_where_fewer_nodes_than_clients_say_nothing_the_run_ends_when_patience_does():
    with pytest.raises(FedselectError, match=r"no node says which client it is.*of 2 that answered"):
        play(Uniform(2), grid=LocalGrid(client_app(mods=[]), 2), patience=0.1)


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        (TiFL(2), "this round has no clock"),
        (PowerOfChoice(2, candidates=4), "asked for its metric 'accuracy': no such metric"),
    ],
)  # fmt: skip
def test_what_flower_s_clients_do_not_send_is_said_at_the_start(selector, sentence):
    with pytest.raises(ConfigError, match=sentence):
        play(selector, eval_loss="accuracy")


@pytest.mark.parametrize("clients", [0, -1, [], [3, 0], [[1]], [[1], [1, 2]], [1.5]])
def test_bad_numbers_of_clients_are_refused(clients):
    with pytest.raises(ConfigError, match="clients must be their number, or one positive number of samples"):
        select_with(Uniform(1), clients)


# -- an existing project -------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The project of the examples, with the five lines that the how-to shows."""
    folder = tmp_path / "flower_app"
    shutil.copytree(EXAMPLES / "flower_app", folder)
    patch = EXAMPLES / "flower_app.diff"
    subprocess.run(["git", "apply", "--unsafe-paths", f"--directory={folder}", str(patch)], check=True, cwd=tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "pytorchexample"]:
        del sys.modules[name]


@pytest.mark.deployment
def test_it_runs_with_a_superlink_and_two_supernodes(project, tmp_path):
    settings = project / "pyproject.toml"
    text = settings.read_text(encoding="utf-8").replace("num-server-rounds = 5", "num-server-rounds = 2")
    settings.write_text(text.replace("final_model.pt", str(tmp_path / "model.pt")), encoding="utf-8")
    folder = tmp_path / "processes"
    folder.mkdir()
    with Federation(folder) as federation:
        federation.superlink()
        for client in (2, 7):
            federation.supernode(client, 10)
        assert federation.run(project).wait(timeout=300) == 0, federation.logs()
    assert (tmp_path / "model.pt").stat().st_size > 1000


@pytest.mark.parametrize("rounds", few_of([2, 4], 1))
def test_five_lines_are_all_that_an_existing_project_needs(project, rounds):
    lines = (EXAMPLES / "flower_app.diff").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= 5
    server, client = (importlib.import_module(f"pytorchexample.{name}_app") for name in ("server", "client"))
    grid = LocalGrid(client.app, 10)
    settings = {"fraction-train": 0.3, "num-server-rounds": rounds, "learning-rate": 0.1, "local-epochs": 1,
                "batch-size": 16, "output": str(project / "model.pt")}  # fmt: skip
    for context in grid._contexts.values():
        context.run_config.update(settings)
    server.app(grid, next(iter(grid._contexts.values())))
    assert (project / "model.pt").stat().st_size > 1000


# -- a selector that ends the run ----------------------------------------------------------------------------------


class Ends(Uniform):
    """Select two clients for so many rounds."""

    def __init__(self, rounds):
        super().__init__(2)
        self.rounds = rounds

    def select(self, round):
        if round.round == self.rounds:
            raise EndOfRun("that will do")
        return super().select(round)


def test_a_selector_ends_a_strategy_of_flowers_with_what_there_is(caplog):
    class Selected(select_with(Ends(2), clients=N), FedAvg): ...

    seen = []
    strategy = Selected(min_available_nodes=N)
    with caplog.at_level("INFO", "flwr"):
        result = strategy.start(
            LocalGrid(client_app(), N), model(START), 9, train_config=ConfigRecord({"lr": 0.1}),
            evaluate_fn=lambda t, arrays: seen.append(t) or MetricRecord({"w": float(vector(arrays)[0])}),
        )  # fmt: skip
    assert strategy.history.rounds == 2
    assert seen == [0, 1, 2]
    assert sorted(result.train_metrics_clientapp) == sorted(result.evaluate_metrics_clientapp) == [1, 2]
    assert result.evaluate_metrics_serverapp[2]["w"] == vector(result.arrays)[0] != START[0]
    assert "The selector ends the run: that will do" in caplog.text

    class Never(select_with(Ends(0), clients=N), FedAvg): ...

    assert vector(Never(min_available_nodes=N).start(LocalGrid(client_app(), N), model(START), 9).arrays).tolist() == [
        1,
        -2,
    ]


def test_flad_on_the_page_ends_when_the_mean_score_does_not_rise(caplog):
    page = (EXAMPLES.parent / "docs/how_to/flower.md").read_text(encoding="utf-8")
    section = page[page.index("(flad)=") : page.index("## An experiment, exported")]
    cells = re.findall(r"```{code-cell} python\n(?::tags:[^\n]*\n)?(.*?)```", section, re.DOTALL)
    assert len(cells) == 3
    assert len(cells[0].splitlines()) <= 42
    names = {}
    with one_thread(), caplog.at_level(logging.ERROR, logger="flwr"):  # the page sets it for good
        for cell in cells:
            exec(cell, names)
    history, flad = names["strategy"].history, names["flad"]
    assert 5 < history.rounds < 1000
    assert flad.waited == flad.patience + 1
    assert flad.best > 0.5
    assert history.counts.max() < history.rounds + 1
    assert (history.counts < history.rounds).any()  # those that are ahead need not train
    changed = names["result"].arrays["weight"].numpy()
    assert np.isfinite(changed).all()
