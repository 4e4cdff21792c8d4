"""Optimizers of ``torch.optim``, of the clients and of the server.

SGD is written out on both sides (`fedselect.training.client.sgd`, `fedselect.training.server.Server`): loading
``torch.optim`` takes a process longer than a small run.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedselect.errors import ConfigError
from fedselect.training.server_rules import FedAvgRule
from fedselect.training.settings import TrainingSettings

#: Makes an optimizer of parameters and step size.
MakesOptimizer = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]


def named_optimizer(settings: TrainingSettings) -> MakesOptimizer | None:
    """Return the maker of the clients' optimizer that settings name; None for SGD."""
    if settings.optimizer == "sgd":
        return None
    kind = next(each for name, each in vars(torch.optim).items() if name.lower() == settings.optimizer)
    options = dict(settings.optimizer_options)
    if settings.weight_decay:
        options["weight_decay"] = settings.weight_decay
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}

    def make(parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        try:
            return kind(parameters, lr=rate, **options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"training: optimizer {settings.optimizer!r} does not take {options}: {error}") from error

    return make


def checked(optimizer: MakesOptimizer) -> MakesOptimizer:
    """Return a maker of optimizers; raise `ConfigError` for one that does not take parameters and a step size."""
    try:
        inspect.signature(optimizer).bind([], 0.1)
    except TypeError as error:
        raise ConfigError(
            "optimizer is called with the parameters and the step size of the round, as in "
            "optimizer=lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate); "
            f"got {optimizer!r:.80}"
        ) from error
    except ValueError:  # it does not tell its parameters
        pass
    return optimizer


class OptimizerRule(FedAvgRule):
    """The selection's sum as a step downhill: its negative is the gradient of an optimizer of the server.

    Parameters
    ----------
    make : callable
        Makes the optimizer of the parameters: ``lambda parameters: torch.optim.Adam(parameters, lr=0.01)``.
    weights : (d,) tensor
        The initial model.
    """

    def __init__(self, make: Callable[[list[Tensor]], torch.optim.Optimizer], weights: Tensor) -> None:
        self._weights = weights.detach().clone().requires_grad_()
        self._optimizer = make([self._weights])
        if not isinstance(self._optimizer, torch.optim.Optimizer):
            raise ConfigError(
                "server_rule is a name, or makes an optimizer of torch.optim, as in server_rule=lambda parameters: "
                f"torch.optim.Adam(parameters, lr=0.01); it made {self._optimizer!r:.80}"
            )
        self._kept = copy.deepcopy(self._optimizer.state_dict())

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Take a step, and go back to the model of before."""
        delta = super().change(clients, weights, updates, rate)
        self._optimizer.load_state_dict(self._kept)  # that of before, where a step of this round was too large
        if delta is None:
            return None
        before = self._weights.detach().clone()
        self._weights.grad = -delta
        self._optimizer.step()
        change = self._weights.detach() - before
        self._weights.data.copy_(before)
        return change

    def keep(self, clients: Sequence[int], updates: Tensor, rate: float, weights: Tensor) -> None:
        """Keep the optimizer's state and the model of after the round."""
        self._weights.data.copy_(weights)
        self._kept = copy.deepcopy(self._optimizer.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return the model, and the optimizer's state by name."""
        state = self._kept["state"].get(0, {})
        tensors = {name: value.cpu().numpy().copy() for name, value in state.items() if isinstance(value, Tensor)}
        return {"weights": self._weights.detach().cpu().numpy().copy(), "state": tensors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore both."""
        device = self._weights.device
        self._weights.data.copy_(torch.from_numpy(np.array(state["weights"], dtype=np.float32)))
        tensors = {name: torch.from_numpy(np.array(value)).to(device) for name, value in state["state"].items()}
        self._kept = self._kept | {"state": {0: tensors} if tensors else {}}
        self._optimizer.load_state_dict(self._kept)
