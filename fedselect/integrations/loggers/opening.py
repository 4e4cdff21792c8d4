"""Loggers by name, as a command line says them: ``--logger tensorboard``, ``--logger mlflow=runs/mlflow``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fedselect.errors import ConfigError
from fedselect.integrations.loggers.mlflow_logger import MlflowLogger
from fedselect.integrations.loggers.tensorboard_logger import TensorBoardLogger
from fedselect.integrations.loggers.wandb_logger import WandbLogger
from solvers.suggestions import did_you_mean

__all__ = ["LOGGERS", "open_logger"]


class Logger(Protocol):
    """A callback that is closed at the end."""

    def on_round(self, record: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


LOGGERS: dict[str, type[Any]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "mlflow": MlflowLogger}


def open_logger(text: str, folder: Path, tables: Mapping[str, Mapping[str, Any]]) -> Logger:
    """The logger that a text names.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME=WHERE``; a folder named after the logger below ``folder`` if left out.
    folder : pathlib.Path
        The run's.
    tables : mapping
        Its configuration (`fedselect.experiments.Experiment.tables`), logged as ``section.key``.

    Raises
    ------
    ConfigError
        When there is no such logger.
    MissingExtraError
        When its package is not installed.
    """
    name, _, where = text.partition("=")
    if name not in LOGGERS:
        raise ConfigError(f"there is no logger {name!r}{did_you_mean(name, LOGGERS)} (known: {', '.join(LOGGERS)})")
    config = {f"{section}.{key}": value for section, table in tables.items() for key, value in table.items()}
    return LOGGERS[name](where or folder / name, config)
