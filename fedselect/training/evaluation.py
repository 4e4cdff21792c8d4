"""Scoring a model on samples, in batches that bound memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedselect.training.losses import Measure, Objective, per_sample

__all__ = ["client_means", "measured", "scores"]

#: Samples a batch.
_BATCH = 1024


def scores(
    model: nn.Module, features: Tensor, labels: Tensor, objective: Objective
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Loss (n,) of each sample, and 1 where it is classified correctly (n,): NaN where there are no classes."""
    losses, correct = [], []
    model.eval()
    with torch.no_grad():
        for x, y in zip(features.split(_BATCH), labels.split(_BATCH), strict=True):
            outputs = model(x)
            losses.append(objective.each(outputs, y))
            if objective.classes:
                correct.append(outputs.argmax(dim=1) == y)
    found = torch.cat(losses).double().cpu().numpy()
    right = torch.cat(correct).double().cpu().numpy() if objective.classes else np.full(found.shape, np.nan)
    return found, right


def measured(model: nn.Module, features: Tensor, labels: Tensor, metrics: Mapping[str, Measure]) -> dict[str, float]:
    """Mean of each metric over samples."""
    sums = dict.fromkeys(metrics, 0.0)
    model.eval()
    with torch.no_grad():
        for x, y in zip(features.split(_BATCH), labels.split(_BATCH), strict=True):
            outputs = model(x)
            for name, measure in metrics.items():
                sums[name] += float(per_sample(f"metric {name!r}", measure(outputs, y), y).double().sum())
    return {name: total / len(labels) for name, total in sums.items()}


def client_means(
    model: nn.Module, clients: Sequence[tuple[Tensor, Tensor]], objective: Objective
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean loss and accuracy on each client's samples, shapes (len(clients),).

    Small clients share a batch: a thousand of them cost a few passes through the model, not a thousand.
    """
    losses, accuracies, start = [], [], 0
    while start < len(clients):
        end, samples = start, 0
        while end < len(clients) and (samples == 0 or samples + len(clients[end][1]) <= _BATCH):
            samples += len(clients[end][1])
            end += 1
        group = clients[start:end]
        loss, correct = scores(model, torch.cat([x for x, _ in group]), torch.cat([y for _, y in group]), objective)
        sizes = np.array([len(y) for _, y in group])
        places = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        losses.append(np.add.reduceat(loss, places) / sizes)
        accuracies.append(np.add.reduceat(correct, places) / sizes)
        start = end
    if not losses:
        return np.empty(0), np.empty(0)
    return np.concatenate(losses), np.concatenate(accuracies)
