"""An experiment as the two apps of Flower, and both written as an app that ``flwr run`` starts."""

from __future__ import annotations

import logging
import tomllib
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import decode_source
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from fedselect.availability import DROPOUT, Dropout
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.experiments.config import Experiment
from fedselect.experiments.folder import RunFolder
from fedselect.experiments.running import build
from fedselect.integrations.flower.client import DroppedOut, Update, client_app
from fedselect.integrations.flower.messages import partition_of
from fedselect.integrations.flower.strategy import SelectorStrategy
from fedselect.options import seen_from
from fedselect.plugins import load_plugins
from fedselect.training.client import LocalTraining
from fedselect.training.losses import Data, client_means, on_device
from fedselect.training.models import build_model, write_weights
from fedselect.training.settings import one_thread, pick_device


class _OutOfPatience(Exception):
    """Raised through Flower's loop where the test loss has not fallen for as long as the experiment waits."""


def run_on(grid: Grid, experiment: Experiment, out: str | Path = "runs", **options: Any) -> Path:
    """Run an experiment over a Flower grid into its run folder, or continue it where it was stopped.

    The folder is that of `fedselect.experiments.run`, its records with ``faults`` beside the rest. With the clients of
    `experiment_client_app` the final model has the same bits where each client trains alone there as here
    (``batching = "never"``), on the same kind of machine, every client is connected in every round, clients do not
    lie together, no time limit ends a solve, and no client fails that the configuration does not make fail.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    experiment : Experiment
        What to run.
    out : path-like
        Directory below which the folder is made.
    **options
        ``timeout``, ``identity_timeout``, ``patience`` and ``validate`` of `SelectorStrategy`.

    Returns
    -------
    pathlib.Path
        The run folder.

    Raises
    ------
    FedselectError
        As `fedselect.experiments.run` does; when no node says which client it is; `ConfigError` when the model keeps
        buffers (running statistics of batch normalisation, say), which no message carries, or the server's rule trains
        clients from models of their own.
    """
    folder = RunFolder.of(experiment, out)
    folder.check()
    if folder.finished:
        return folder.path
    loop = build(experiment)
    if "buffers" in loop.state_dict():
        raise ConfigError(
            f"training: model {experiment.training.model!r} keeps running statistics or other buffers, which no "
            "message to and from Flower's clients carries"
        )

    def keep(record: dict[str, Any]) -> None:
        folder.append(record, loop)
        if folder.out_of_patience:
            raise _OutOfPatience

    with folder.opened(loop), one_thread():
        strategy = SelectorStrategy(loop, on_round=keep, **options)
        if not folder.out_of_patience:
            with suppress(_OutOfPatience):
                strategy.run(grid, experiment.rounds)
        if not any(record["available"] for record in folder.records):
            logging.getLogger("flwr").warning(
                "no client took part in any round, and the model is the first one: none had said who it is within "
                "%g s (patience; flwr run --run-config 'patience=600' waits longer)",
                strategy.patience,
            )
        folder.finish(loop.federation, loop.client_scores(), model=loop.model.state_dict())
    return folder.path


def server_app(experiment: Experiment) -> ServerApp:
    """Return the ``ServerApp`` of an experiment.

    Flower's run configuration may give ``out``, ``timeout``, ``identity-timeout`` and ``patience``. The app runs
    `run_on`, which refuses models with buffers.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        keys = ("timeout", "identity-timeout", "patience")
        options = {key.replace("-", "_"): float(config[key]) for key in keys if key in config}
        run_on(grid, experiment, str(config.get("out", "runs")), **options)

    return app


def experiment_client_app(experiment: Experiment) -> ClientApp:
    """Return an experiment's ``ClientApp``: a node of ``partition-id`` k is its client k."""
    return client_app(partial(_client, tomli_w.dumps(experiment.tables())))


def _client(config: str, context: Context) -> _ExperimentClient:
    return _ExperimentClient(config, partition_of(context))


class _ClientContext:
    """Data, model, batches and dropout that the clients of one experiment have in common."""

    def __init__(self, experiment: Experiment) -> None:
        settings, seed = experiment.training, experiment.seed
        self.federation: Federation = experiment.federation()
        self.dropout: Dropout = DROPOUT.build(
            experiment.dropout.name, len(self.federation), seed, **experiment.dropout.options
        )
        self.device = pick_device(settings.device)
        self.model = build_model(None, self.federation, settings, seed).to(self.device)
        self.local = LocalTraining(self.model, self.federation, settings, seed, self.device)


@lru_cache(maxsize=1)
def _client_context(config: str) -> _ClientContext:
    """Build it once a process: a simulation asks the same workers for client after client."""
    tables = tomllib.loads(config)
    load_plugins(tables["experiment"].get("load", ()))
    return _ClientContext(Experiment.from_tables(tables))


class _ExperimentClient:
    """One client of an experiment, trained by our loop's code on our loop's batches.

    Data and model are built for the first message that needs them: a SuperNode starts a process per message, and the
    first message only asks which client it is.
    """

    def __init__(self, config: str, client: int) -> None:
        self._config, self.client = config, client

    @property
    def _shared(self) -> _ClientContext:
        return _client_context(self._config)

    def train(self, weights: NDArray[np.float32], round: int) -> Update:
        shared = self._shared
        if not shared.dropout.returned(round)[self.client]:
            raise DroppedOut(f"client {self.client} drops out of round {round}, as the dropout model has it")
        with one_thread():
            updates, losses, _ = shared.local.train([self.client], torch.from_numpy(weights).to(shared.device), round)
        return Update(
            updates[0].cpu().numpy(),
            float(losses[0, 0]),
            float(losses[1, 0]),
            len(shared.federation.datasets[self.client]),
        )

    def loss(self, weights: NDArray[np.float32]) -> float:
        return self._mean_loss(weights, self._shared.local.datasets[self.client])

    def validation_loss(self, weights: NDArray[np.float32]) -> float:
        shared = self._shared
        if not shared.federation.validation or not len(shared.federation.validation[self.client]):
            raise ConfigError(f"client {self.client} has held no sample out of training")
        own = shared.federation.validation[self.client]
        return self._mean_loss(weights, on_device(own, shared.device))

    def _mean_loss(self, weights: NDArray[np.float32], part: Data) -> float:
        shared = self._shared
        write_weights(shared.model, torch.from_numpy(weights).to(shared.device))
        with one_thread():
            return float(client_means(shared.model, [part], shared.local.objective)[0][0])


_APP = '''\
"""Flower's two apps for the experiment in config.toml, beside this file."""

from pathlib import Path

from fedselect.experiments import read_config
from fedselect.integrations.flower import experiment_client_app, server_app

experiment, _ = read_config(Path(__file__).with_name("config.toml"))
server = server_app(experiment)
client = experiment_client_app(experiment)
'''


def export_app(experiment: Experiment, folder: str | Path) -> Path:
    """Write a Flower app: ``pyproject.toml``, and a package of one module and the resolved ``config.toml``.

    Flower's run configuration has four keys: ``out``, the directory of the run folder on the server (``runs`` below
    ``folder``, as an absolute path, because Flower runs apps elsewhere), ``timeout``, ``identity-timeout`` and
    ``patience`` (see `fedselect.integrations.flower.SelectorStrategy`). An app of a model with buffers is written, and
    refused when it runs (`run_on`).

    Parameters
    ----------
    experiment : Experiment
        What it runs. Server and clients read the options that name files, so give them as paths that all have.
    folder : path-like
        New or empty directory.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    ConfigError
        When the folder holds something already, or cannot be written, two scripts have one name, or one cannot be
        decoded.
    """
    folder = Path(folder)
    project = {
        "project": {
            "name": "federation",
            "version": "1.0.0",
            "description": f"fedselect's experiment {experiment.name}",
            "license": "Apache-2.0",
            "dependencies": ["fedselect[fl,flower]"],
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "fedselect",
                    "components": {"serverapp": "federation.app:server", "clientapp": "federation.app:client"},
                    "config": {
                        "out": str(folder.resolve() / "runs"),
                        "timeout": 3600.0,
                        "identity-timeout": 30.0,
                        "patience": 60.0,
                    },
                }
            }
        },
    }
    scripts = {Path(source).name: Path(source) for source in experiment.load if source.endswith(".py")}
    if len(scripts) < sum(source.endswith(".py") for source in experiment.load):
        raise ConfigError("two scripts of the same name cannot both go into a Flower app; rename one")
    tables = experiment.tables(partial(seen_from, Path(folder) / "federation"))
    if experiment.load:  # beside the configuration, on whatever machine
        tables["experiment"]["load"] = [Path(s).name if s.endswith(".py") else s for s in experiment.load]
    texts = {
        "pyproject.toml": tomli_w.dumps(project),
        "federation/__init__.py": "",
        "federation/app.py": _APP,
        "federation/config.toml": tomli_w.dumps(tables),
    }
    files = {name: text.encode() for name, text in texts.items()}
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; a Flower app is written into a directory of its own")
        files |= {f"federation/{name}": _script(path) for name, path in scripts.items()}
        (folder / "federation").mkdir(parents=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"cannot write the Flower app {folder}: {error}") from error
    return folder


def _script(path: Path) -> bytes:
    """Return a script as it is; raise `ConfigError` where Python could not read it."""
    data = path.read_bytes()
    try:
        decode_source(data)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} is not in UTF-8, nor in an encoding that its first lines name: {error}") from error
    return data
