"""The entrywise part of an iteration of `solvers.dispersion.bounds.doubly_nonnegative`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.compiled import ready, start
from solvers.run import Run

__all__ = ["aim", "correct", "prepare"]


def prepare(run: Run) -> None:
    """Have the kernels compiled that iterations use, in the background; until then they do without."""
    for name in ("alternating", "cuts"):
        if ready(name, run) is None:
            start(name)


def aim(
    cost: NDArray[np.float64],
    products: NDArray[np.float64],
    others: NDArray[np.float64],
    half: NDArray[np.float64],
    own: NDArray[np.float64],
    penalty: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``τI + B(d) − C − σX``, and the same less ``others``; ``half`` is d/2m, ``own`` τ + d."""
    if (kernel := ready("alternating")) is not None:
        shifted, rest = np.empty_like(cost), np.empty_like(cost)
        kernel.aim(cost, products, others, half, own, penalty, shifted, rest)
        return shifted, rest
    shifted = -(half[:, None] + half)
    shifted -= cost
    shifted -= penalty * products
    index = np.arange(own.size)
    shifted[index, index] += own
    return shifted, shifted - others


def correct(
    shifted: NDArray[np.float64],
    slack: NDArray[np.float64],
    forbidden: NDArray[np.bool_],
    free: bool,
    penalty: float,
    step: float,
    cuts: NDArray[np.float64],
    nonnegative: NDArray[np.float64],
    products: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """S and X anew, in place; the error of the dual equality, the row sums of X and of ``S + slack − cuts``.

    ``free`` says whether any pair is ``forbidden``: S is free there.
    """
    if (kernel := ready("alternating")) is not None:
        square, rows, both = kernel.correct(shifted, slack, forbidden, free, penalty, step, cuts, nonnegative, products)
        return float(np.sqrt(square)), rows, both
    lack = shifted - slack
    nonnegative[:] = np.maximum(lack, np.where(forbidden, -np.inf, 0.0) if free else 0.0)
    np.fill_diagonal(nonnegative, 0.0)
    lack += penalty * products
    lack -= nonnegative
    products -= (step / penalty) * lack
    return float(np.linalg.norm(lack)), products.sum(axis=1), (nonnegative + slack - cuts).sum(axis=1)
