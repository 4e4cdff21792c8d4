"""Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from fedselect.errors import MissingExtraError
from fedselect.integrations.loggers.scalars import numbers_of

__all__ = ["WandbLogger"]


class WandbLogger:
    """A callback that logs every round's numbers as a run of Weights & Biases.

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

    Raises
    ------
    MissingExtraError
        When the package is not installed.
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
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("Weights & Biases is not installed: pip install 'fedselect[wandb]'") from error
        Path(folder).mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            dir=str(folder), project=project, name=name, mode=mode, config=dict(config or {}), settings=settings
        )

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Log a round."""
        self._run.log(numbers_of(record), step=record["round"] + 1)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()
