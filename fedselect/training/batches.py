"""Which samples a client trains on, step by step: a function of (seed, round, client) alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.randomness import generator
from fedselect.training.settings import TrainingSettings

__all__ = ["batches", "epochs_of"]


def batches(
    size: int, settings: TrainingSettings, epochs: int, rng: np.random.Generator, least: int = 1
) -> list[NDArray[np.int64]]:
    """The client's batches of one round, in order.

    Parameters
    ----------
    size : int
        The client's samples.
    settings : TrainingSettings
        Batch size, and the number of steps unless clients train by epochs.
    epochs : int
        Passes over the samples where clients train by epochs, from `epochs_of`; 0 where they train by steps.
    rng : numpy.random.Generator
        ``generator(seed, "training", round, client)``.
    least : int
        A last batch of fewer samples joins the one before it.

    Returns
    -------
    list of (b,) ndarray of int
        Positions among the client's samples; every pass is a fresh shuffle and keeps its short last batch.
    """
    found: list[NDArray[np.int64]] = []
    starts = list(range(0, size, settings.batch_size))
    if len(starts) > 1 and size - starts[-1] < least:
        starts.pop()
    steps = settings.local_steps or epochs * len(starts)
    while len(found) < steps:
        order = rng.permutation(size)
        found += [order[start:end] for start, end in zip(starts, [*starts[1:], size], strict=True)]
    return found[:steps]


def epochs_of(clients: int, settings: TrainingSettings, seed: int) -> NDArray[np.int64]:
    """Local epochs of each client for the whole run, shape (N,); zeros where clients train by steps."""
    choices = settings.epoch_choices
    if len(choices) < 2:
        return np.full(clients, choices[0] if choices else 0, dtype=np.int64)
    return np.asarray(choices, dtype=np.int64)[generator(seed, "effort").integers(len(choices), size=clients)]
