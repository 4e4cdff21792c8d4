"""TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedselect.errors import MissingExtraError
from fedselect.integrations.loggers.scalars import numbers_of

__all__ = ["TensorBoardLogger"]


class TensorBoardLogger:
    """A callback that writes every round's numbers as scalars.

    Parameters
    ----------
    folder : path-like
        For the event files; ``tensorboard --logdir FOLDER`` shows them.
    config : mapping, optional
        Written as text, once.

    Raises
    ------
    MissingExtraError
        When TensorBoard is not installed.
    """

    def __init__(self, folder: str | Path, config: Mapping[str, Any] | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("TensorBoard is not installed: pip install 'fedselect[fl,tensorboard]'") from error
        self._writer = SummaryWriter(str(folder))
        if config is not None:
            rows = "\n".join(f"    {key}: {value}" for key, value in config.items())
            self._writer.add_text("configuration", rows)

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Write a round."""
        for name, value in numbers_of(record).items():
            self._writer.add_scalar(name, value, global_step=record["round"] + 1)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()
