"""Callbacks that write a run into other tools' trackers: TensorBoard, Weights & Biases, MLflow.

Each is a callback of `fedselect.experiments.run` and `fedselect.training.fedavg.FedAvg.fit`, takes a place and a
configuration, and imports its package when it is made (`fedselect.errors.MissingExtraError` says how to install it). A
command line names them: ``--logger tensorboard``, ``--logger mlflow=runs/mlflow``.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from fedselect.errors import ConfigError, MissingExtraError
from fedselect.experiments import Experiment
from fedselect.measures import round_row
from solvers.environment import how_to_install
from solvers.options import did_you_mean

#: Characters of a parameter of MLflow's, at most.
_LONGEST = 500


@contextmanager
def _needed(package: str, extra: str) -> Iterator[None]:
    """Say which ``pip install`` brings a package that cannot be imported inside the block."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{package} is not installed: {how_to_install(extra)}") from error


@contextmanager
def _writing(name: str, place: str | Path) -> Iterator[None]:
    """Make a logger's folder, and say so where it, or what is written to it inside the block, cannot be."""
    try:
        Path(place).mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"logger {name!r} cannot write to {str(place)!r}: {error.strerror or error}") from None


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a round that are known, by name, as in ``metrics.csv``."""
    return {name: float(value) for name, value in round_row(record).items() if isinstance(value, int | float)}


class Logger(ABC):
    """A callback that writes the numbers of rounds, and is closed at the end."""

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Write a round."""
        self.log(numbers_of(record), record["round"] + 1)

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Write the numbers of the round ``step`` (from 1)."""

    @abstractmethod
    def close(self) -> None:
        """Flush what is left, and end the run."""


class TensorBoardLogger(Logger):
    """Write rounds' numbers as scalars of TensorBoard; ``tensorboard --logdir FOLDER`` shows them."""

    def __init__(self, folder: str | Path, config: Mapping[str, Any] | None = None, name: str | None = None) -> None:
        with _needed("TensorBoard", "fl,tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        with _writing("tensorboard", folder):
            self._writer = SummaryWriter(str(folder))
        if config is not None:
            self._writer.add_text("configuration", "\n".join(f"    {key}: {value}" for key, value in config.items()))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Write the numbers of the round ``step``."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, global_step=step)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


class WandbLogger(Logger):
    """Log rounds' numbers as a run of Weights & Biases; offline by default (``wandb sync``)."""

    def __init__(
        self, folder: str | Path, config: Mapping[str, Any] | None = None, name: str | None = None, **options: Any
    ) -> None:
        with _needed("Weights & Biases", "wandb"):
            import wandb
        options = {"project": "fedselect", "mode": "offline"} | options
        settings = wandb.Settings(silent=True, console="off")
        with _writing("wandb", folder):
            self._run = wandb.init(dir=str(folder), name=name, config=dict(config or {}), settings=settings, **options)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of the round ``step``."""
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MlflowLogger(Logger):
    """Log rounds' numbers as a run of MLflow, in a folder or behind a tracking URI (``http://``, ``sqlite:``)."""

    def __init__(self, store: str | Path, config: Mapping[str, Any] | None = None, name: str | None = None) -> None:
        self._client, home = self.home(store)
        self._run = self._client.create_run(home, run_name=name).info.run_id
        for key, value in (config or {}).items():
            self._client.log_param(self._run, key, str(value)[:_LONGEST])

    @staticmethod
    def home(store: str | Path, experiment: str = "fedselect") -> tuple[Any, str]:
        """Return a client of the store, and the id of the experiment there, which is made if need be."""
        with _needed("MLflow", "mlflow"):
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        uri = str(store)
        if "://" not in uri:
            uri = Path(store).resolve().as_uri()
            # MLflow keeps its store of files behind this word; a folder of a run's own is what it is good for.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            client = MlflowClient(tracking_uri=uri)
            known = client.get_experiment_by_name(experiment)
            return client, known.experiment_id if known is not None else client.create_experiment(experiment)
        except (MlflowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"MLflow cannot use {store} as its store (a folder, or a tracking URI): {reason}"
            ) from error

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the numbers of the round ``step``."""
        for name, value in numbers.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)


LOGGERS: dict[str, type[Any]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MlflowLogger}


def open_logger(text: str, folder: Path, tables: Mapping[str, Mapping[str, Any]], *, several: bool = False) -> Logger:
    """Open the logger that a text names.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME=WHERE``; a folder named after the logger below ``folder`` if left out.
    folder : pathlib.Path
        The run's; its name is what Weights & Biases and MLflow call the run.
    tables : mapping
        Its configuration (`fedselect.experiments.Experiment.tables`), logged as ``section.key``.
    several : bool
        Whether other runs write to the same place: TensorBoard, which tells runs apart by folders, gets one per run.

    Raises
    ------
    ConfigError
        When there is no such logger, or it cannot write to the place.
    MissingExtraError
        When its package is not installed.
    """
    name, where = _named(text)
    config = {f"{section}.{key}": value for section, table in tables.items() for key, value in table.items()}
    place = Path(where) / folder.name if where and several and name == "tensorboard" else where or folder / name
    logger: Logger = LOGGERS[name](place, config, name=folder.name)
    return logger


def open_loggers(
    texts: Iterable[str], folder: Path, experiment: Experiment, *, several: bool = True
) -> Iterator[Logger]:
    """Open the loggers of a run as they are asked for: the ``callbacks`` of `fedselect.experiments.compare`."""
    for text in texts:
        yield open_logger(text, folder, experiment.tables(), several=several)


def check_loggers(texts: Iterable[str]) -> None:
    """Raise `ConfigError` or `MissingExtraError` for loggers that cannot be opened; make the places that they name."""
    named = [_named(text) for text in texts]
    for name, _ in named:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"{name} is not installed: {how_to_install('fl,' + name)}")
    for name, where in named:
        if name == "mlflow" and where:
            MlflowLogger.home(where)
        elif where:
            with _writing(name, where), TemporaryFile(dir=where):  # a folder that is there may refuse files
                pass


def _named(text: str) -> tuple[str, str]:
    """Return name and place of a logger."""
    name, _, where = text.partition("=")
    if name not in LOGGERS:
        raise ConfigError(
            f"there is no logger {name!r}{did_you_mean(name, LOGGERS)} (known: {', '.join(LOGGERS)}); "
            "metrics.csv is written without one"
        )
    return name, where
