"""Own loop, in-process grid and Flower's simulation on Ray: the same records and the same bits."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import stored_updates  # noqa: F401  (registers FedVARP and MIFA)
from fedselect.errors import ConfigError
from fedselect.experiments import Choice, Experiment, read_config, read_records, run, run_folder
from fedselect.experiments.folder import load_checkpoint
from fedselect.integrations.flower import LocalGrid, experiment_client_app, run_on
from tests.fedselect.integrations.flower.processes import environment
from tests.thoroughly import few_of

CONFIG = """
[experiment]
name = "parity"
rounds = 6
clients_per_round = 4
seed = 3

[data]
name = "digits"
n_clients = 12

[availability]
name = "lognormal"
beta = 0.5

[dropout]
name = "bernoulli"
rate = 0.2

[training]
batching = "never"      # everyone trains alone on a machine of its own, so here, too

[compare.fedgs]
name = "fedgs"

[compare.e3cs]
name = "e3cs"

[compare.fedau]
name = "fedau"
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory) -> Experiment:
    path = tmp_path_factory.mktemp("parity") / "parity.toml"
    path.write_text(CONFIG)
    return read_config(path)[0]


def same(first: Path, second: Path) -> bool:
    """Whether two run folders hold the same model to the bit, the same state and, times aside, the same records."""

    def decisions(folder):
        other = ("select_seconds", "train_seconds", "solution", "faults", "client_seconds")
        return [{key: value for key, value in line.items() if key not in other} for line in read_records(folder)]

    states = [load_checkpoint(folder / "checkpoint.npz") for folder in (first, second)]
    assert states[0]["weights"].dtype == states[1]["weights"].dtype == np.float32
    return states[0]["weights"].tobytes() == states[1]["weights"].tobytes() and decisions(first) == decisions(second)


@pytest.mark.parametrize("selector", few_of(["fedgs", "power-of-choice", "e3cs", "fedau", "fedss"], 1))
def test_in_process_it_is_the_own_loop(experiment, tmp_path, selector):
    experiment = replace(experiment, selector=Choice(selector))
    own = run(experiment, tmp_path / "own", plots=False)
    grid = LocalGrid(experiment_client_app(experiment), 12)
    flower = run_on(grid, experiment, tmp_path / "flower")
    assert same(own, flower)
    assert {path.name for path in own.iterdir()} | {"plots"} == {path.name for path in flower.iterdir()}
    # Whoever drops out says so, and is missing, as in the own loop.
    for record in read_records(flower):
        assert [(fault["client"], fault["code"]) for fault in record["faults"]] == [(k, 101) for k in record["missing"]]


@pytest.mark.parametrize(
    "selector",
    few_of(
        [
            Choice("fedgs", {"features": "update", "warmup": 2}),
            Choice("power-of-choice", {"losses": "training"}),
            Choice("fedgs", {"features": "functional"}),
            Choice("fedgs", {"features": "secure"}),
            Choice("power-of-choice", {"convention": "fedgs"}),
        ],
        2,
    ),
    ids=["update", "training losses", "functional", "secure", "validation losses"],
)
def test_features_and_validation_losses_arrive_over_flower_too(experiment, tmp_path, selector):
    data = Choice("digits", {"n_clients": 12, "validation_fraction": 0.2})
    experiment = replace(experiment, selector=selector, data=data)
    own = run(experiment, tmp_path / "own", plots=False)
    flower = run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower")
    assert same(own, flower)
    held = [[record["metrics"]["validation_loss"] for record in read_records(path)] for path in (own, flower)]
    assert held[0] == held[1]
    graphs = [record["notes"]["graph"] for record in read_records(flower) if "notes" in record]
    assert len(graphs) == (6 if selector.name == "fedgs" else 0)


@pytest.mark.parametrize("selector", few_of(["fedgs", "fedss"], 1))
def test_constraints_hold_over_flower_too(experiment, tmp_path, selector):
    """Quotas by a table of clients, a budget of bytes on the clock, and waits that end: recorded as in the loop."""
    table = tmp_path / "clients.csv"
    table.write_text("client,region\n" + "\n".join(f"{k},{'north' if k % 3 else 'south'}" for k in range(12)) + "\n")
    stated = {
        "include_after": 2,
        "quotas": [{"by": "region", "value": "north", "at_most": 2}],
        "budgets": [{"clock": "bytes", "limit": 1e9}],
    }
    choice = Choice(selector, {"constraints": stated, "clients_file": str(table)})
    experiment = replace(experiment, selector=choice, rounds=4, clock=Choice("constant"))
    own = run(experiment, tmp_path / "own", plots=False)
    flower = run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower")
    assert same(own, flower)
    waited = np.zeros(12, dtype=int)
    for record in read_records(flower):
        note, chosen = record["notes"]["constraints"], record["selected"]
        assert note["used"]["region north"] == sum(k % 3 > 0 for k in chosen) <= 2
        assert note["slack"]["bytes"] > 0
        due = [k for k in record["available"] if waited[k] >= 2]
        assert set(due) <= set(chosen) | set(note.get("not_included", ()))
        waited[record["available"]] += 1
        waited[chosen] = 0


@pytest.mark.parametrize("rule", ["fedvarp", "mifa"])
def test_server_rules_and_momentum_are_those_of_the_loop(experiment, tmp_path, rule):
    training = replace(experiment.training, server_rule=rule, server_momentum=0.5, evaluate_every=4)
    experiment = replace(experiment, training=training)
    own = run(experiment, tmp_path / "own", plots=False)
    assert same(own, run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower"))


def test_a_stopped_server_continues_to_the_same_bits(experiment, tmp_path):
    """Between two rounds, and within one: what was not written down is played again, by nodes with other ids."""
    experiment = replace(experiment, selector=Choice("fedau"))
    own = run(experiment, tmp_path / "own", plots=False)

    class Stopped(LocalGrid):
        def __init__(self, trainings):
            super().__init__(experiment_client_app(experiment), 12)
            self.left = trainings

        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            if messages and messages[0].metadata.message_type == "train":
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            return super().send_and_receive(messages, timeout=timeout)

    for trainings in (1, 0, 3):
        with pytest.raises(KeyboardInterrupt):
            run_on(Stopped(trainings), experiment, tmp_path / "flower")
    folder = run_folder(experiment, tmp_path / "flower")
    assert len(read_records(folder)) == 4
    assert same(own, run_on(Stopped(2), experiment, tmp_path / "flower"))
    assert run_on(Stopped(0), experiment, tmp_path / "flower") == folder  # finished: nothing is played


def test_patience_ends_a_run_over_flower_too(experiment, tmp_path):
    """At the same round as the loop; a server that is stopped before it has finished plays no more."""
    training = replace(experiment.training, learning_rate=1000.0)
    experiment = replace(experiment, patience=2, training=training)
    own = run(experiment, tmp_path / "own", plots=False)
    flower = run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower")
    assert len(read_records(own)) < experiment.rounds
    assert same(own, flower)
    (flower / "summary.json").unlink()
    assert same(own, run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower"))


def test_a_run_without_any_client_says_so(experiment, tmp_path, caplog, monkeypatch):
    log = logging.getLogger("flwr")  # its messages do not reach the root, and what ran before may have made it quiet
    monkeypatch.setattr(log, "disabled", False)
    log.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.WARNING, logger="flwr"):
            run_on(LocalGrid(experiment_client_app(experiment), 0), experiment, tmp_path, patience=0.0)
    finally:
        log.removeHandler(caplog.handler)
    assert "no client took part in any round" in caplog.text


def test_together_and_alone_agree_to_float_error(experiment, tmp_path):
    """With batching the loop trains clients in stacks, nodes alone: equal decisions, and models a rounding apart."""
    experiment = replace(experiment, training=replace(experiment.training, batching="auto"), selector=Choice("fedau"))
    own = run(experiment, tmp_path / "own", plots=False)
    flower = run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower")
    first, second = (load_checkpoint(folder / "checkpoint.npz")["weights"] for folder in (own, flower))
    assert np.abs(first - second).max() < 1e-6


@pytest.mark.deployment
def test_on_ray_it_is_the_own_loop(experiment, tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "home").mkdir()
    (tmp_path / "parity.toml").write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("simulate.py"), tmp_path / "parity.toml", tmp_path / "ray"],
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for selector in ("fedgs", "e3cs", "fedau"):
        each = replace(experiment, selector=Choice(selector))
        assert same(run(each, tmp_path / "own", plots=False), run_folder(each, tmp_path / "ray"))


def test_a_rule_of_clients_own_models_is_refused(experiment, tmp_path):
    """FedAWE's clients train from models of their own; a round of Flower sends one to all."""
    experiment = replace(experiment, training=replace(experiment.training, server_rule="fedawe"))
    with pytest.raises(ConfigError, match="'fedawe' trains every client from its own model; a Flower round sends one"):
        run_on(LocalGrid(experiment_client_app(experiment), 12), experiment, tmp_path / "flower")
