"""scikit-learn's handwritten digits: real data that need no download."""

from __future__ import annotations

from fedselect.data.federation import Federation
from fedselect.data.from_arrays import from_split
from fedselect.data.registry import DATASETS

__all__ = ["digits"]


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

    A stratified share is held out as the test set first; the rest is partitioned. The partition depends on ``seed``
    alone, so that runs of different training seeds share it.

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
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return from_split(
        (bunch.data / 16.0, bunch.target),
        partition,
        n_clients,
        test_fraction=test_fraction,
        validation_fraction=validation_fraction,
        classes=10,
        seed=seed,
        name="digits",
        **options,
    )
