"""How clients train, as data; importable without PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedselect.errors import ConfigError
from fedselect.training.models import MODELS

__all__ = ["TrainingSettings"]


@dataclass(frozen=True)
class TrainingSettings:
    """How clients train.

    Attributes
    ----------
    model : str
        Name in `fedselect.training.models.MODELS`.
    learning_rate : float
        Local step size of the first round.
    decay : float
        The step size is multiplied by this after every round (FedGS: 0.998).
    local_steps : int
        SGD steps of each selected client, E. FedGS's E counts steps, not epochs.
    batch_size : int
        Samples a step; a client passes over its shuffled samples again and again, keeping short last batches.
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes CUDA when it is there.
    """

    model: str = "linear"
    learning_rate: float = 0.1
    decay: float = 0.998
    local_steps: int = 10
    batch_size: int = 10
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("learning_rate", "decay", "local_steps", "batch_size"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"training: {name} must be positive; got {value}")
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(f"training: device must be 'auto', 'cpu' or 'cuda'; got {self.device!r}")
        MODELS.check(self.model, {})
