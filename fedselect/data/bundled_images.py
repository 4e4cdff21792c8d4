"""An image set that needs no download: scikit-learn's handwritten digits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation
from fedselect.data.partitions import DATASETS


@DATASETS.register("digits")
def digits(
    *,
    n_clients: int = 100,
    partition: str = "two-label",
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split the 1 797 digits (8 x 8 pixels, 10 classes) over clients.

    A stratified share is held out as the test set first; the rest is partitioned. Runs of different training seeds
    share the partition, which follows ``seed``.

    Parameters
    ----------
    n_clients : int
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
    images, labels = _digits()
    return Federation.from_split(
        (images / 16.0, labels.copy()),
        partition,
        n_clients,
        test_fraction=test_fraction,
        validation_fraction=validation_fraction,
        classes=10,
        seed=seed,
        name="digits",
        **options,
    )


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the digits as scikit-learn's file has them; unpacking it takes longer than a short run."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.data, bunch.target
