"""scikit-learn's handwritten digits: real data that need no download."""

from __future__ import annotations

import numpy as np

from fedselect.data.federation import Federation, Samples
from fedselect.data.images import hold_out
from fedselect.data.partitions import PARTITIONS
from fedselect.data.registry import DATASETS
from fedselect.errors import DataError
from fedselect.randomness import generator

__all__ = ["digits"]


@DATASETS.register("digits")
def digits(
    *,
    clients: int = 100,
    partition: str = "two-label",
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split the 1 797 digits (8 x 8 pixels, 10 classes) over clients.

    A stratified share is held out as the test set first; the rest is partitioned. The partition depends on ``seed``
    alone, so that runs of different training seeds share it.

    Parameters
    ----------
    clients : int
        Number of clients.
    partition : str
        Name in `fedselect.data.PARTITIONS`; ``options`` are its options.
    test_fraction : float
        Share of the samples held out, between 0 and 1.
    validation_fraction : float
        Share of each client's own samples that it holds out of training, rounded down.
    seed : int
        Seed of the split.

    Returns
    -------
    Federation
        Features are scaled to [0, 1], shape (n, 64).

    Raises
    ------
    DataError, ConfigError
        When the test set or the split cannot be made as asked.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    samples = Samples(bunch.data / 16.0, bunch.target)
    rng = generator(seed, "data")
    try:
        train, test = train_test_split(
            np.arange(len(samples)),
            test_size=test_fraction,
            stratify=samples.labels,
            random_state=int(rng.integers(2**31)),
        )
    except ValueError as error:
        raise DataError(f"test_fraction {test_fraction} does not split {len(samples)} digits: {error}") from error
    train = np.sort(train)
    parts = PARTITIONS.build(partition, samples.labels[train], clients, rng, **options)
    kept, held = hold_out(parts, validation_fraction, rng)
    return Federation(
        name="digits",
        clients=tuple(samples.take(train[part]) for part in kept),
        test=samples.take(np.sort(test)),
        classes=10,
        validation=tuple(samples.take(train[part]) for part in held),
    )
