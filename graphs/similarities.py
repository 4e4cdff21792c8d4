"""How alike two clients' data are: one N×N matrix from one feature vector per client."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import FeatureError, GraphWarning, SimilarityError, choice, mirror, square_symmetric
from graphs.reproducible import gram

Kind = Literal["cosine", "dot", "update", "functional"]
Clip = Literal["none", "zero"]

KINDS = ("cosine", "dot", "update", "functional")


def similarity(
    features: ArrayLike | Sequence[ArrayLike],
    kind: Kind = "cosine",
    *,
    clip: Clip | None = None,
) -> NDArray[np.float64]:
    """Return the similarity V of every pair of clients.

    Parameters
    ----------
    features
        One feature vector per client, shape (N, d). Axes after the first are flattened, so a list of N
        equally shaped weight matrices will do. For ``kind="update"`` these are the model updates
        θ_k − θ of one common round, for ``kind="functional"`` the averaged embeddings e_k.
    kind
        ``"cosine"``: u_i·u_j / (‖u_i‖ ‖u_j‖). ``"dot"``: u_i·u_j. ``"update"``: Eq. 11, cosine of model
        updates, negatives at 0. ``"functional"``: Eq. 12, cosine of averaged embeddings, negatives at 0.
    clip
        What happens to negative values: ``"none"`` keeps them, ``"zero"`` sets them to 0. ``None``
        (default) is what the paper does for this kind: ``"zero"`` for update and functional, else ``"none"``.
        The authors' training code clips nothing; that is ``clip="none"``.

    Returns
    -------
    ndarray of shape (N, N)
        Symmetric, and the same bits on every processor. The diagonal is each client's similarity
        to itself (1 for a cosine); graph functions do not read it.

    Raises
    ------
    FeatureError
        If the features have no common length, are empty, or are no finite real numbers within float64.
    SimilarityError
        If `kind` or `clip` is unknown, or dot products overflow.

    Warns
    -----
    GraphWarning
        If a cosine is asked of an all-zero vector. It has no direction; its similarity to every other
        client is set to 0. At the presets' thresholds that leaves it without edges where no similarity is negative.

    Notes
    -----
    Source: FedGS (AAAI 2023), Eq. 10-12. Eq. 10 only asks for a similarity in [0, 1]; the authors train
    with the cosine and score Table 3 with the dot product of label distributions.

    Examples
    --------
    >>> from graphs import similarity
    >>> similarity([[1, 0], [1, 1], [0, 1]]).round(3)
    array([[1.   , 0.707, 0.   ],
           [0.707, 1.   , 0.707],
           [0.   , 0.707, 1.   ]])
    """
    choice("kind", kind, KINDS, SimilarityError)
    if clip is None:
        clip = "zero" if kind in ("update", "functional") else "none"
    choice("clip", clip, ("none", "zero"), SimilarityError)
    vectors = feature_matrix(features)
    matrix = _dot(vectors) if kind == "dot" else _cosine(vectors)
    if clip == "zero":
        np.maximum(matrix, 0.0, out=matrix)
    return matrix


def min_max(similarity: ArrayLike) -> NDArray[np.float64]:
    """Scale a similarity matrix to [0, 1] the way the authors' training code does.

    V_ij = (S_ij − lo) / (hi − lo) with lo = min(0, min S_ij) and hi = max(0, max S_ij) over i ≠ j: the
    extremes are taken over the whole matrix with a zero diagonal, so non-negative similarities are only
    divided by the largest, and negative ones shift the whole scale.

    Parameters
    ----------
    similarity
        N×N, symmetric. The diagonal is not read.

    Returns
    -------
    ndarray of shape (N, N)
        Values in [0, 1], 1 on the diagonal. If all similarities are 0 (so lo = hi) the result is 0 beside it.

    Raises
    ------
    SimilarityError
        If the matrix is not square, symmetric and finite, or its range overflows.
    """
    matrix = square_symmetric("similarity", similarity).copy()
    np.fill_diagonal(matrix, 0.0)
    low, high = float(matrix.min()), float(matrix.max())
    if not np.isfinite(high - low):
        raise SimilarityError(f"similarities from {low:g} to {high:g} have no range in float64; scale them down.")
    if high > low:
        matrix -= low
        matrix /= high - low
    np.fill_diagonal(matrix, 1.0)
    return matrix


def feature_matrix(features: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.floating]:
    """Return features as one finite (N, d) matrix of floats of 64 bits at most, or say what is wrong."""
    try:
        matrix = np.asarray(features)
    except ValueError:
        shapes = sorted({_shape(f) for f in features})  # type: ignore[union-attr]
        raise FeatureError(
            f"the clients' features must be vectors of one length; got shapes {', '.join(shapes[:4])}."
        ) from None
    if matrix.ndim < 2 or matrix.size == 0:
        raise FeatureError(f"features must be one non-empty vector per client, (N, d); got shape {matrix.shape}.")
    if matrix.dtype.kind in "biu":
        matrix = matrix.astype(np.float64)
    if matrix.dtype.kind != "f":
        raise FeatureError(f"features must be real numbers; got {matrix.dtype}.")
    if matrix.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float64)
    matrix = matrix.reshape(matrix.shape[0], -1)
    for client, row in enumerate(matrix):
        if not np.isfinite(row).all():
            raise FeatureError(
                f"features must be finite; got {row[~np.isfinite(row)][0]} of client {client} "
                "(did local training diverge?)."
            )
    return matrix


def _shape(feature: ArrayLike) -> str:
    try:
        return str(np.shape(feature))
    except ValueError:
        return "of rows of different lengths"


def _dot(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = gram(vectors)
    if not np.isfinite(matrix).all():
        raise SimilarityError(
            f"dot products overflow: the largest feature is {float(np.abs(vectors).max()):g}; "
            "scale the features down, or use kind='cosine'."
        )
    return matrix


def _cosine(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    # Dividing by the largest entry first keeps squares of 1e200 and 1e-200 inside float64.
    scales = np.maximum(vectors.max(axis=1), -vectors.min(axis=1)).astype(np.float64)
    empty = scales == 0
    if empty.any():
        clients = ", ".join(map(str, np.flatnonzero(empty)[:5]))
        warnings.warn(
            f"{int(empty.sum())} client(s) have an all-zero feature vector (first: {clients}); a zero vector "
            "has no direction, so their similarity to every other client is set to 0.",
            GraphWarning,
            stacklevel=3,
        )
    matrix = gram(vectors, np.where(empty, 1.0, scales))
    norms = np.sqrt(np.diagonal(matrix))
    norms = np.where(empty, 1.0, norms)
    matrix /= norms[:, None]
    matrix /= norms
    # Rounding may push a cosine to 1 + 2e-16, and two divisions in a row are not symmetric to the last bit.
    mirror(matrix)
    np.clip(matrix, -1.0, 1.0, out=matrix)
    np.fill_diagonal(matrix, 1.0)
    return matrix
