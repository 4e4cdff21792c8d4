"""One step of a client's SGD, the same for a stack of clients and for one."""

from __future__ import annotations

from torch import Tensor

from fedselect.training.settings import TrainingSettings

__all__ = ["descend"]


def descend(
    weights: Tensor, gradient: Tensor, buffer: Tensor | None, start: Tensor, rate: float, settings: TrainingSettings
) -> None:
    """Take one step, in place, with the settings' weight decay, proximal term and momentum.

    Parameters
    ----------
    weights : tensor
        What is changed: a stack of clients' weights (m, d), or one parameter of one client.
    gradient : tensor
        Of the loss, in the shape of ``weights``.
    buffer : tensor or None
        Of momentum, in the same shape, changed too; None without momentum.
    start : tensor
        The received model, which the proximal term pulls to; (d,) for a stack, else in the shape of ``weights``.
    rate : float
        Step size.
    settings : TrainingSettings
        How.
    """
    if settings.weight_decay:
        gradient = gradient.add(weights, alpha=settings.weight_decay)
    if settings.proximal:
        gradient = gradient.add(weights - start, alpha=settings.proximal)
    if buffer is not None:
        gradient = buffer.mul_(settings.momentum).add_(gradient)
    weights.sub_(gradient, alpha=rate)
