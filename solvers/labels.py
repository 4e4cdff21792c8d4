"""Labels of clients in pandas' series and frames: data of the same clients are put in one order, or refused."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem

Labels = tuple[Any, ...]


def labels_of(value: Any, name: str = "", axis: str = "index") -> Labels | None:
    """Return the labels of a series or frame of pandas, one for each client; None where there are none.

    The index that pandas gives by itself, 0 … n−1, labels nothing.

    Raises
    ------
    InvalidProblem
        When a label stands twice.
    """
    pandas = sys.modules.get("pandas")
    # Another thread may be importing it just now: nobody has a frame before.
    frames = tuple(getattr(pandas, name) for name in ("Series", "DataFrame") if hasattr(pandas, name))
    if pandas is None or not isinstance(value, frames):
        return None
    index = getattr(value, axis)
    if isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    if not index.is_unique:
        raise InvalidProblem(f"label {index[index.duplicated()][0]!r} stands twice in the {axis} of {name}")
    return tuple(index.tolist())


def aligned(value: ArrayLike, name: str, labels: Labels | None, of: str = "distances") -> Any:
    """Return a value with an entry or row for each client in the order of ``labels``.

    What has no labels is taken by position, as is everything where ``labels`` is None. Then, and where the order is
    right, the value is returned as it is.

    Raises
    ------
    InvalidProblem
        When its labels are others.
    """
    own = labels_of(value, name)
    if own is None or labels is None or own == labels:
        return value
    if set(own) != set(labels):
        missing = [label for label in labels if label not in set(own)] or [
            label for label in own if label not in labels
        ]
        where = f"{name} has no" if missing[0] in labels else f"{of} has no"
        raise InvalidProblem(
            f"{name} and {of} have other labels: {where} {missing[0]!r} (where the order of "
            f"both is the same, give {name}.to_numpy())"
        )
    return value.loc[list(labels)].to_numpy()  # type: ignore[union-attr]


def names_of(labels: Labels | None) -> tuple[str | int, ...]:
    """Return labels as names of clients: texts and whole numbers as they are, others as text."""
    return tuple(each if isinstance(each, str | int) else str(each) for each in labels or ())


def reconciled(labels: Labels | None, names: Any) -> tuple[Labels | None, Any]:
    """Return the labels that others must have, and the names: either stands for the other where that is left out."""
    given = isinstance(names, list | tuple | np.ndarray)
    if given and len(names):
        return labels or tuple(names), names
    return labels, names_of(labels) if given else names


def square(value: ArrayLike, name: str) -> tuple[Any, Labels | None]:
    """Return a square frame with its columns in the order of its rows, and the labels; other values as they are."""
    labels = labels_of(value, name)
    columns = labels_of(value, name, "columns") if labels is not None and np.ndim(value) == 2 else None
    if labels is None or columns is None or columns == labels:
        return value, labels
    if set(columns) != set(labels):
        other = next(label for label in (*columns, *labels) if (label in columns) != (label in labels))
        raise InvalidProblem(f"rows and columns of {name} have other labels: {other!r} is not in both")
    return value[list(labels)], labels  # type: ignore[call-overload,index]


def where_ids_are(given: NDArray[Any]) -> str:
    """Return how ids are found, for the sentence that refuses names where ids are taken; nothing for other values."""
    name = next((each for each in given.ravel().tolist() if isinstance(each, str)), None)
    if name is None:
        return ""
    return (
        f" (an id is the client's place: names.index({name!r}), or frame.index.get_indexer([{name!r}, ...]) of a "
        "table; in a problem with clients, what stands at that place of them)"
    )
