"""Data sets, and the ways to split them over clients."""

from collections.abc import Callable

from fedselect.data.digits import digits
from fedselect.data.federation import Federation, Samples
from fedselect.data.partitions import PARTITIONS

__all__ = ["DATASETS", "PARTITIONS", "Federation", "Samples", "digits"]

#: Data sets by name: ``builder(clients=, partition=, test_fraction=, seed=, **partition_options) -> Federation``.
DATASETS: dict[str, Callable[..., Federation]] = {"digits": digits}
