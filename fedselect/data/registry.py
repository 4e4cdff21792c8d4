"""Data sets by name, with their own options and those of the partition they are split by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedselect.data.federation import Federation
from fedselect.data.partitions import PARTITIONS
from fedselect.errors import ConfigError
from fedselect.options import Registry

__all__ = ["DATASETS", "check_data", "load_data"]

#: Builders ``(*, clients, seed, options) -> Federation`` by name. A builder with an option ``partition`` also takes
#: the options of that partition; the others come with clients of their own.
DATASETS: Registry = Registry("data set")


def check_data(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` when the data set, its partition, or an option of either is unknown or of the wrong type."""
    own, rest, partition = _split(name, options)
    DATASETS.check(name, own)
    known = PARTITIONS.options(partition) if partition is not None else {}
    with_partition = "" if partition is None else f" with partition {partition!r}"
    for key in rest:
        if key not in known:
            accepted = ", ".join(sorted({*DATASETS.options(name), *known}))
            raise ConfigError(
                f"data: there is no option {key!r} for data set {name!r}{with_partition} (accepted: {accepted})"
            )
    if partition is not None:
        PARTITIONS.check(partition, rest)


def load_data(name: str, **options: Any) -> Federation:
    """Load, generate and split a data set.

    Parameters
    ----------
    name : str
        Name in `DATASETS`.
    **options
        Options of the data set and of its partition.

    Returns
    -------
    Federation

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        When an option is not accepted, the files are not there, or an optional part of the installation is missing.
    """
    check_data(name, options)
    return DATASETS[name](**options)


def _split(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """The data set's own options, the others, and the partition they are for."""
    known = DATASETS.options(name)
    own = {key: value for key, value in options.items() if key in known}
    rest = {key: value for key, value in options.items() if key not in known}
    partition = options.get("partition", known["partition"]) if "partition" in known else None
    return own, rest, partition
