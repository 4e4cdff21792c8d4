"""What a model is trained and scored by: a loss of each sample, and metrics beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import Registry

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LOSSES", "Objective", "absolute_error", "cross_entropy_loss", "objective_of", "squared_error"]

#: Losses ``(outputs, labels) -> one number a sample, shape (b,)``, by name.
LOSSES: Registry = Registry("loss")

#: ``(outputs, labels) -> (b,)``.
Measure = Callable[["Tensor", "Tensor"], "Tensor"]


@LOSSES.register("cross-entropy")
def cross_entropy_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the softmax of (b, classes) answers and (b,) classes."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(outputs, labels, reduction="none")


@LOSSES.register("squared-error")
def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Squared difference, its mean where a sample has several targets."""
    return _difference(outputs, labels).square().flatten(1).mean(dim=1)


@LOSSES.register("absolute-error")
def absolute_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Absolute difference, its mean where a sample has several targets."""
    return _difference(outputs, labels).abs().flatten(1).mean(dim=1)


def _difference(outputs: Tensor, labels: Tensor) -> Tensor:
    """Answers less targets, (b, t); answers of (b, 1) and targets of (b,) are not spread over each other."""
    if outputs.numel() != labels.numel():
        raise ConfigError(
            f"the model answers {tuple(outputs.shape)} and the targets are {tuple(labels.shape)}: "
            "it needs one output a target"
        )
    return (outputs.reshape(labels.shape) - labels).reshape(labels.shape[0], -1)


class Objective:
    """A loss and metrics, as the loop uses them.

    Parameters
    ----------
    loss : callable
        ``(outputs, labels) -> (b,)``.
    classes : bool
        Whether labels are classes, so that accuracy is a word.
    metrics : mapping of str to callable
        More numbers of each sample, ``(outputs, labels) -> (b,)``, that an evaluation averages.
    """

    def __init__(self, loss: Measure, classes: bool, metrics: Mapping[str, Measure]) -> None:
        self.loss, self.classes, self.metrics = loss, classes, dict(metrics)
        self.is_cross_entropy = loss is cross_entropy_loss

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Mean loss of a batch."""
        if self.is_cross_entropy:  # PyTorch's own mean, whose bits every recorded run has
            from torch.nn.functional import cross_entropy

            return cross_entropy(outputs, labels)
        return self.each(outputs, labels).mean()

    def each(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Loss of each sample."""
        return per_sample("the loss", self.loss(outputs, labels), labels)


def per_sample(what: str, values: Any, labels: Tensor) -> Tensor:
    """``values``, or a `ConfigError` where they are not one number a sample."""
    if tuple(getattr(values, "shape", ())) != tuple(labels.shape[:1]):
        shape = tuple(getattr(values, "shape", ()))
        raise ConfigError(
            f"{what} must give one number a sample, shape ({labels.shape[0]},); got shape {shape}: "
            "leave the mean over samples to the loop (PyTorch's losses: reduction='none')"
        )
    return values


def objective_of(
    name: str, loss: Measure | None, metrics: Mapping[str, Measure] | None, federation: Federation
) -> Objective:
    """The objective of a loop.

    Parameters
    ----------
    name : str
        Of `LOSSES`; ``"auto"`` is cross-entropy where labels are classes, and the squared error where they are not.
    loss : callable, optional
        Instead of a name: ``(outputs, labels) -> (b,)``, or one of PyTorch's loss modules, whose reduction is left out.
    metrics : mapping, optional
        More metrics by name; the absolute error where labels are no classes, nothing else, if left out.
    federation : Federation
        Whose labels it is for.
    """
    classes = federation.classes is not None
    if loss is None:
        loss = LOSSES["cross-entropy" if classes else "squared-error"] if name == "auto" else LOSSES[name]
    elif getattr(loss, "reduction", "none") != "none":  # nn.MSELoss(), say
        from copy import copy

        loss = copy(loss)
        loss.reduction = "none"  # type: ignore[attr-defined]
    if not callable(loss):
        raise ConfigError(f"a loss is a function (outputs, labels) -> (b,), or a name in LOSSES; got {loss!r}")
    if loss is cross_entropy_loss and not classes:
        raise ConfigError(f"training: loss 'cross-entropy' needs classes, and {federation.name!r} has real numbers")
    if metrics is None:
        metrics = {} if classes else {"absolute_error": absolute_error}
    return Objective(loss, classes, metrics)
