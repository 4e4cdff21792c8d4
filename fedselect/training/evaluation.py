"""Scoring a model on samples, in batches that bound memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

__all__ = ["client_means", "scores"]

#: Samples a batch.
_BATCH = 1024


def scores(model: nn.Module, features: Tensor, labels: Tensor) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Cross-entropy (n,) of each sample, and whether it is classified correctly (n,)."""
    losses, correct = [], []
    model.eval()
    with torch.no_grad():
        for x, y in zip(features.split(_BATCH), labels.split(_BATCH), strict=True):
            outputs = model(x)
            losses.append(cross_entropy(outputs, y, reduction="none"))
            correct.append(outputs.argmax(dim=1) == y)
    return torch.cat(losses).double().cpu().numpy(), torch.cat(correct).cpu().numpy()


def client_means(
    model: nn.Module, clients: Sequence[tuple[Tensor, Tensor]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean cross-entropy and accuracy on each client's samples, shapes (len(clients),).

    Small clients share a batch: a thousand of them cost a few passes through the model, not a thousand.
    """
    losses, accuracies, start = [], [], 0
    while start < len(clients):
        end, samples = start, 0
        while end < len(clients) and (samples == 0 or samples + len(clients[end][1]) <= _BATCH):
            samples += len(clients[end][1])
            end += 1
        group = clients[start:end]
        loss, correct = scores(model, torch.cat([x for x, _ in group]), torch.cat([y for _, y in group]))
        sizes = np.array([len(y) for _, y in group])
        places = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        losses.append(np.add.reduceat(loss, places) / sizes)
        accuracies.append(np.add.reduceat(correct.astype(np.float64), places) / sizes)
        start = end
    if not losses:
        return np.empty(0), np.empty(0)
    return np.concatenate(losses), np.concatenate(accuracies)
