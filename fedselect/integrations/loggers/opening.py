"""Loggers by name, as a command line says them: ``--logger tensorboard``, ``--logger mlflow=runs/mlflow``."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedselect.errors import ConfigError, MissingExtraError
from fedselect.experiments import Experiment
from fedselect.integrations.loggers.mlflow_logger import MlflowLogger
from fedselect.integrations.loggers.tensorboard_logger import TensorBoardLogger
from fedselect.integrations.loggers.wandb_logger import WandbLogger
from solvers.options import did_you_mean

__all__ = ["LOGGERS", "check_logger", "open_logger", "open_loggers"]


class Logger(Protocol):
    """A callback that is closed at the end."""

    def on_round(self, record: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


LOGGERS: dict[str, type[Any]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MlflowLogger}


def open_logger(text: str, folder: Path, tables: Mapping[str, Mapping[str, Any]], *, several: bool = False) -> Logger:
    """The logger that a text names.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME=WHERE``; a folder named after the logger below ``folder`` if left out.
    folder : pathlib.Path
        The run's; its name is what Weights & Biases and MLflow call the run.
    tables : mapping
        Its configuration (`fedselect.experiments.Experiment.tables`), logged as ``section.key``.
    several : bool
        Whether other runs write to the same place: TensorBoard, which tells runs apart by folders, gets one a run.

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
    """The loggers of one run among several (`fedselect.experiments.compare`'s ``callbacks``, once texts are given)."""
    return [open_logger(text, folder, experiment.tables(), several=True) for text in texts]


def check_logger(text: str) -> None:
    """Raise before anything runs, as `open_logger` would; and make the place where runs side by side will meet."""
    name, _, where = text.partition("=")
    _check_name(name)
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(f"{name} is not installed: pip install 'fedselect[fl,{name}]'")
    if name == "mlflow" and where:
        MlflowLogger.home(where)


def _check_name(name: str) -> None:
    if name not in LOGGERS:
        raise ConfigError(f"there is no logger {name!r}{did_you_mean(name, LOGGERS)} (known: {', '.join(LOGGERS)})")
