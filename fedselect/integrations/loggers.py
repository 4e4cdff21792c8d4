"""Callbacks that write a run into other tools' trackers: TensorBoard, Weights & Biases, MLflow.

Each is a callback of `fedselect.experiments.run` and `fedselect.training.fedavg.FedAvg.fit`, and imports its package
when it is made (`fedselect.errors.MissingExtraError` says how to install it). A command line names them: ``--logger
tensorboard``, ``--logger mlflow=runs/mlflow``.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from fedselect.errors import ConfigError, MissingExtraError
from fedselect.experiments import Experiment
from fedselect.measures import round_row
from solvers.environment import how_to_install
from solvers.options import did_you_mean

__all__ = [
    "LOGGERS",
    "Logger",
    "MlflowLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "check_loggers",
    "numbers_of",
    "open_logger",
    "open_loggers",
]

#: Characters of a parameter of MLflow's, at most.
_LONGEST = 500


@contextmanager
def _needed(package: str, extra: str) -> Iterator[None]:
    """Say which ``pip install`` brings a package that cannot be imported inside the block."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{package} is not installed: {how_to_install(extra)}") from error


class Logger(ABC):
    """A callback that writes the numbers of every round, and is closed at the end."""

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Write a round."""
        for name, value in numbers_of(record).items():
            self._write(name, value, record["round"] + 1)

    @abstractmethod
    def _write(self, name: str, value: float, step: int) -> None:
        """Write a number of the round ``step`` (from 1)."""

    @abstractmethod
    def close(self) -> None:
        """Flush what is left, and end the run."""


class TensorBoardLogger(Logger):
    """Write every round's numbers as scalars of TensorBoard.

    Parameters
    ----------
    folder : path-like
        For the event files; ``tensorboard --logdir FOLDER`` shows them.
    config : mapping, optional
        Written as text, once.
    """

    def __init__(self, folder: str | Path, config: Mapping[str, Any] | None = None) -> None:
        with _needed("TensorBoard", "fl,tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        self._writer = SummaryWriter(str(folder))
        if config is not None:
            rows = "\n".join(f"    {key}: {value}" for key, value in config.items())
            self._writer.add_text("configuration", rows)

    def _write(self, name: str, value: float, step: int) -> None:
        self._writer.add_scalar(name, value, global_step=step)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


class WandbLogger(Logger):
    """Log every round's numbers as a run of Weights & Biases.

    Parameters
    ----------
    folder : path-like
        Below which ``wandb/`` is made.
    config : mapping, optional
        The run's configuration.
    project, name : str, optional
        What the run is filed under.
    mode : {"offline", "online"}
        Offline, nothing leaves the machine until ``wandb sync``.
    """

    def __init__(
        self,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        *,
        project: str = "fedselect",
        name: str | None = None,
        mode: Literal["offline", "online"] = "offline",
    ) -> None:
        with _needed("Weights & Biases", "wandb"):
            import wandb
        Path(folder).mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            dir=str(folder), project=project, name=name, mode=mode, config=dict(config or {}), settings=settings
        )

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()

    def _write(self, name: str, value: float, step: int) -> None:
        self._run.log({name: value}, step=step)  # what is logged of one step is kept together


class MlflowLogger(Logger):
    """Log every round's numbers as a run of MLflow.

    Parameters
    ----------
    store : str or path-like
        A tracking URI (``http://...``, ``sqlite:///...``), or a folder: MLflow's store of files.
    config : mapping, optional
        Logged as parameters.
    experiment, name : str, optional
        What the run is filed under.
    """

    def __init__(
        self,
        store: str | Path,
        config: Mapping[str, Any] | None = None,
        *,
        experiment: str = "fedselect",
        name: str | None = None,
    ) -> None:
        self._client, home = self.home(store, experiment)
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

    def _write(self, name: str, value: float, step: int) -> None:
        self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)


LOGGERS: dict[str, type[Any]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MlflowLogger}


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a round by name, as in ``metrics.csv``; none that is not known."""
    return {name: float(value) for name, value in round_row(record).items() if isinstance(value, int | float)}


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
        When there is no such logger.
    MissingExtraError
        When its package is not installed.
    """
    name, _, where = text.partition("=")
    _check_name(name)
    config = {f"{section}.{key}": value for section, table in tables.items() for key, value in table.items()}
    if name == "tensorboard":
        place = Path(where) / folder.name if where and several else Path(where) if where else folder / name
        return TensorBoardLogger(place, config)
    return LOGGERS[name](where or folder / name, config, name=folder.name)


def open_loggers(texts: Sequence[str], folder: Path, experiment: Experiment) -> list[Logger]:
    """Open the loggers of one run among several (`fedselect.experiments.compare`'s ``callbacks``, given the texts)."""
    return [open_logger(text, folder, experiment.tables(), several=True) for text in texts]


def check_loggers(texts: Iterable[str]) -> None:
    """Raise before anything runs, as `open_logger` would; then make the places where runs side by side will meet."""
    named = [text.partition("=")[::2] for text in texts]
    for name, _ in named:
        _check_name(name)
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"{name} is not installed: {how_to_install('fl,' + name)}")
    for name, where in named:
        if name == "mlflow" and where:
            MlflowLogger.home(where)
        elif where:
            try:
                Path(where).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"logger {name!r} cannot write to {where!r}: {error.strerror}") from None


def _check_name(name: str) -> None:
    if name not in LOGGERS:
        raise ConfigError(
            f"there is no logger {name!r}{did_you_mean(name, LOGGERS)} (known: {', '.join(LOGGERS)}); "
            "metrics.csv is written without one"
        )
