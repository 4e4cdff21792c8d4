"""Optimizers of the clients and of the server: SGD, written out, and those of ``torch.optim``."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fedselect.errors import ConfigError
from fedselect.training.server_rules import FedAvgRule, ServerRule
from fedselect.training.settings import TrainingSettings
from fedselect.training.stacks import Batch, Gradients

#: Makes an optimizer of parameters and step size.
MakesOptimizer = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]

#: Makes the server's optimizer of its parameters.
MakesServerOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]


def sgd(
    start: Tensor,
    steps: Sequence[int],
    batches: Iterable[Batch],
    gradients: Gradients,
    rate: float,
    settings: TrainingSettings,
    optimizer: Callable[[Tensor], Callable[[Tensor], None]] | None = None,
    room: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Train one client, or several together, from the same model.

    Parameters
    ----------
    start : (d,) tensor
        The received model; left as it is.
    steps : sequence of int
        Steps of each of m clients, most first.
    batches : iterable of (features, labels, shares)
        One batch a step, of the clients that still have a step to take.
    gradients : callable
        Loss and gradient of every client, of their parameters (m, d) and a batch.
    rate : float
        Step size.
    settings : TrainingSettings
        Momentum, weight decay, proximal term, and the norm that gradients are clipped to.
    optimizer : callable, optional
        Of one client's parameters (1, d), makes the step of another optimizer: a function of the gradient.
    room : (m, d) tensor, optional
        Memory for the models that are trained; new if left out.

    Returns
    -------
    weights : (m, d) tensor
        The trained models.
    losses : (2, m) tensor of float64
        Mean loss over each client's steps, and its loss on the first batch.
    """
    m = len(steps)
    weights = now = start.repeat(m, 1) if room is None else room.copy_(start)
    velocity = moving = torch.zeros_like(weights) if settings.momentum else None
    losses = torch.zeros((2, m), dtype=torch.float64, device=start.device)
    total = losses[0]
    move = None if optimizer is None else optimizer(weights)
    more = settings.momentum or settings.weight_decay or settings.proximal or settings.clip_gradient is not None
    descend = None if more or move is not None else getattr(gradients, "descend", None)
    for step, batch in enumerate(batches):
        if steps[m - 1] <= step:
            m = sum(count > step for count in steps)
            now, total, moving = weights[:m], losses[0, :m], None if velocity is None else velocity[:m]
        if descend is not None:
            loss, gradient = descend(now, rate, *batch), None
        else:
            loss, gradient = gradients(now, *batch)
        total += loss
        if step == 0:
            losses[1] = loss
        if gradient is None:
            continue
        if settings.clip_gradient is not None:
            norms = torch.linalg.vector_norm(gradient, dim=1).clamp(min=torch.finfo(gradient.dtype).tiny)
            gradient = gradient * torch.clamp(settings.clip_gradient / norms, max=1.0).unsqueeze(1)
        if settings.weight_decay and move is None:
            gradient = gradient.add(now, alpha=settings.weight_decay)
        if settings.proximal:
            gradient = gradient.add(now - start, alpha=settings.proximal)
        if move is not None:
            move(gradient)
            continue
        if moving is not None:
            gradient = moving.mul_(settings.momentum).add_(gradient)
        now.sub_(gradient, alpha=rate)
    losses[0] /= torch.tensor(steps, device=start.device)
    return weights, losses


def stepper(
    make: MakesOptimizer, parameters: list[nn.Parameter], rate: float, weights: Tensor
) -> Callable[[Tensor], None]:
    """Make the step of an optimizer of ``torch.optim`` for one client's weights (1, d), which parameters view then."""
    vector_to_parameters(weights[0], parameters)
    optimizer = make(parameters, rate)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer must make an optimizer of torch.optim; it made {optimizer!r:.80}")
    sizes = [parameter.numel() for parameter in parameters]

    def move(gradient: Tensor) -> None:
        for parameter, part in zip(parameters, gradient[0].split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return move


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


def own_rule(given: ServerRule | MakesServerOptimizer, weights: Tensor) -> ServerRule:
    """Return a rule that was given as an object, a copy of it; or that of an optimizer that a function makes."""
    if isinstance(given, ServerRule):
        return copy.deepcopy(given)
    if (isinstance(given, type) and issubclass(given, ServerRule)) or not callable(given):
        raise ConfigError(
            "server_rule is a name in SERVER_RULES, an instance of a ServerRule, or a function of parameters that "
            f"makes an optimizer of torch.optim; got {given!r:.80}"
        )
    return OptimizerRule(given, weights)


class OptimizerRule(FedAvgRule):
    """The selection's sum as a step downhill: its negative is the gradient of an optimizer of the server.

    Parameters
    ----------
    make : callable
        Makes the optimizer of the parameters: ``lambda parameters: torch.optim.Adam(parameters, lr=0.01)``.
    weights : (d,) tensor
        The initial model.
    """

    def __init__(self, make: MakesServerOptimizer, weights: Tensor) -> None:
        self._weights = weights.detach().clone().requires_grad_()
        self._optimizer = make([self._weights])
        if not isinstance(self._optimizer, torch.optim.Optimizer):
            raise ConfigError(
                "server_rule is a name, a ServerRule, or makes an optimizer of torch.optim, as in "
                f"server_rule=lambda parameters: torch.optim.Adam(parameters, lr=0.01); it made {self._optimizer!r:.80}"
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
