"""Objective of a training: a loss of each sample and metrics beside it; scores of a model on samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedselect.data import Federation, Samples
from fedselect.data.lazy import LazySamples
from fedselect.errors import ConfigError
from fedselect.options import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

#: Losses ``(outputs, labels) -> one number a sample, shape (b,)``, by name.
LOSSES: Registry = Registry("loss")

#: ``(outputs, labels) -> (b,)``.
Measure = Callable[["Tensor", "Tensor"], "Tensor"]

#: Metrics as they may be given.
Metrics = Mapping[str, Any] | Sequence[Any] | Measure


#: Metrics by name: of each sample, as losses, or of the whole set, see `whole_set`.
METRICS: Registry = Registry("metric")


def whole_set(metric: Callable[[Tensor, Tensor], float]) -> Callable[[Tensor, Tensor], float]:
    """Declare a metric ``(outputs, labels) -> float`` that needs the answers to all samples at once."""
    metric.whole_set = True  # type: ignore[attr-defined]
    return metric


@METRICS.register("f1")
@whole_set
def f1(outputs: Tensor, labels: Tensor) -> float:
    """Macro F1: the mean over the classes that are there, in labels or answers, of 2 TP / (2 TP + FP + FN)."""
    from sklearn.metrics import f1_score

    answers = outputs.argmax(dim=1)
    return float(f1_score(labels.cpu().numpy(), answers.cpu().numpy(), average="macro", zero_division=0.0))


@METRICS.register("auroc")
@whole_set
def auroc(outputs: Tensor, labels: Tensor) -> float:
    """Macro AUROC, one class against the rest, over the classes that some samples have and others have not.

    NaN where there is no such class.
    """
    from sklearn.metrics import roc_auc_score

    shares, true = outputs.softmax(dim=1).double().cpu().numpy(), labels.cpu().numpy()
    there = [k for k in range(shares.shape[1]) if 0 < int((true == k).sum()) < len(true)]
    return float(np.mean([roc_auc_score(true == k, shares[:, k]) for k in there])) if there else float("nan")


@METRICS.register("balanced-accuracy")
@whole_set
def balanced_accuracy(outputs: Tensor, labels: Tensor) -> float:
    """Mean over the classes of the share of their samples that are classified correctly."""
    right, true = (outputs.argmax(dim=1) == labels).cpu().numpy(), labels.cpu().numpy()
    return float(np.mean([right[true == k].mean() for k in np.unique(true)]))


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
        More numbers of each sample, ``(outputs, labels) -> (b,)``, that an evaluation averages, or metrics of the
        whole set (`whole_set`).
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
        whole = "; one of the whole test set is marked by losses.whole_set" if what.startswith("metric") else ""
        raise ConfigError(
            f"{what} must give one number a sample, shape ({labels.shape[0]},); got shape {shape}: "
            f"leave the mean over samples to the loop (PyTorch's losses: reduction='none'){whole}"
        )
    return values


def objective_of(
    name: str,
    loss: Measure | None,
    metrics: Metrics | None,
    federation: Federation,
    named: Sequence[str] = (),
) -> Objective:
    """Build the objective of a loop.

    Parameters
    ----------
    name : str
        Of `LOSSES`; ``"auto"`` is cross-entropy where labels are classes, and the squared error where they are not.
    loss : callable, optional
        Instead of a name: ``(outputs, labels) -> (b,)``, or one of PyTorch's loss modules, used without its reduction.
    metrics : mapping, sequence or callable, optional
        More metrics by name, or functions that are called by their names, or names in `METRICS`. If left out, the
        absolute error where labels are no classes, else none.
    federation : Federation
        Whose labels it is for.
    named : sequence of str
        Names in `METRICS` of metrics beside these.
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
    found = _by_name(named) | _by_name(metrics)
    if not classes and (wrong := [each for each, metric in found.items() if metric in _OF_CLASSES]):
        raise ConfigError(f"training: metric {wrong[0]!r} needs classes, and {federation.name!r} has real numbers")
    return Objective(loss, classes, found)


#: Metrics that only classes have.
_OF_CLASSES = (f1, auroc, balanced_accuracy)


def names_in(text: str) -> list[str]:
    """Return the names of metrics in a text: ``"f1, auroc"``, or a list as a shell leaves it, ``[f1,auroc]``."""
    return [name for each in text.strip("[] ").split(",") if (name := each.strip(" '\""))]


def _by_name(metrics: Metrics) -> dict[str, Any]:
    """Return metrics by name."""
    if isinstance(metrics, str):
        metrics = names_in(metrics)
    elif not isinstance(metrics, Mapping | Sequence):
        metrics = [metrics]
    if not isinstance(metrics, Mapping):
        metrics = {each if isinstance(each, str) else _name_of(each): each for each in metrics}
    found = {name: METRICS[each] if isinstance(each, str) else each for name, each in metrics.items()}
    if wrong := [each for each in found.values() if not callable(each)]:
        raise ConfigError(f"a metric is a function (outputs, labels) -> (b,), or a name in METRICS; got {wrong[0]!r}")
    return found


def _name_of(metric: Any) -> str:
    return getattr(metric, "__name__", type(metric).__name__)


#: Samples on a device: features and labels, or those that are read when they are used.
Data: TypeAlias = "tuple[Tensor, Tensor] | LazySamples"

#: Samples per batch, which bounds memory.
_BATCH = 1024


def on_device(samples: Samples, device: torch.device) -> Data:
    """Put samples on a device."""
    import torch

    if isinstance(samples, LazySamples):
        return samples.to(device)
    return torch.from_numpy(samples.features).to(device), torch.from_numpy(samples.labels).to(device)


def batch_of(data: Data, places: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return the samples at these places: inputs of the model, and labels."""
    import torch

    if isinstance(data, LazySamples):
        return data.batch(places)
    rows = torch.from_numpy(places).to(data[1].device)
    return data[0].index_select(0, rows), data[1].index_select(0, rows)


def _parts(data: Data) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of all samples, in order."""
    if isinstance(data, LazySamples):
        return data.parts()
    return zip(data[0].split(_BATCH), data[1].split(_BATCH), strict=True)


def count(data: Data) -> int:
    """Count samples."""
    return len(data) if isinstance(data, LazySamples) else len(data[1])


def scores(model: nn.Module, data: Data, objective: Objective) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Loss (n,) of each sample, and 1 where it is classified correctly (n,): NaN where there are no classes."""
    import torch

    losses, correct = [], []
    model.eval()
    with torch.no_grad():
        for x, y in _parts(data):
            outputs = model(x)
            losses.append(objective.each(outputs, y))
            if objective.classes:
                correct.append(outputs.argmax(dim=1) == y)
    found = torch.cat(losses).double().cpu().numpy()
    right = torch.cat(correct).double().cpu().numpy() if objective.classes else np.full(found.shape, np.nan)
    return found, right


def measured(model: nn.Module, data: Data, metrics: Mapping[str, Measure]) -> dict[str, float]:
    """Mean of each metric over samples, or its value on all of them."""
    import torch

    whole = {name: metric for name, metric in metrics.items() if _is_whole(metric)}
    of_samples = {name: metric for name, metric in metrics.items() if name not in whole}
    sums = dict.fromkeys(of_samples, 0.0)
    answers, labels = [], []
    model.eval()
    with torch.no_grad():
        for x, y in _parts(data):
            outputs = model(x)
            answers += [outputs] if whole else []
            labels += [y] if whole else []
            for name, measure in of_samples.items():
                sums[name] += float(per_sample(f"metric {name!r}", measure(outputs, y), y).double().sum())
    found = {name: total / count(data) for name, total in sums.items()}
    found |= {name: _on_all(metric, torch.cat(answers), torch.cat(labels)) for name, metric in whole.items()}
    return {name: found[name] for name in metrics}


def _is_whole(metric: Any) -> bool:
    """Whether a metric takes all answers at once: one of `whole_set`, or an object of torchmetrics."""
    return getattr(metric, "whole_set", False) or all(hasattr(metric, each) for each in ("update", "compute", "reset"))


def _on_all(metric: Any, outputs: Tensor, labels: Tensor) -> float:
    if not hasattr(metric, "compute"):
        return float(metric(outputs, labels))
    metric.reset()
    metric.update(outputs, labels)
    return float(metric.compute())


def client_means(
    model: nn.Module, clients: Sequence[Data], objective: Objective
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean loss and accuracy on each client's samples, shapes (len(clients),)."""
    import torch

    losses, accuracies, start = [], [], 0
    room = [_BATCH if isinstance(each, LazySamples) else count(each) for each in clients]  # the lazy go alone
    while start < len(clients):
        end, samples = start, 0
        while end < len(clients) and (samples == 0 or samples + room[end] <= _BATCH):
            samples += room[end]
            end += 1
        group = clients[start:end]
        together = group[0] if len(group) == 1 else tuple(map(torch.cat, zip(*group, strict=True)))
        loss, correct = scores(model, together, objective)
        sizes = np.array([count(each) for each in group])
        places = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        losses.append(np.add.reduceat(loss, places) / sizes)
        accuracies.append(np.add.reduceat(correct, places) / sizes)
        start = end
    if not losses:
        return np.empty(0), np.empty(0)
    return np.concatenate(losses), np.concatenate(accuracies)


def client_scores(model: nn.Module, clients: Sequence[Data], objective: Objective) -> dict[str, NDArray[np.float64]]:
    """Mean loss, accuracy and each further metric on each client's samples, by name; shapes (len(clients),)."""
    found = dict(zip(("loss", "accuracy"), client_means(model, clients, objective), strict=True))
    if objective.metrics:
        each = [measured(model, samples, objective.metrics) for samples in clients]
        found |= {name: np.array([values[name] for values in each]) for name in objective.metrics}
    return found
