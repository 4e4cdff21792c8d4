"""Comparisons under paired seeds: what a baseline has in the same setting, and how sure a mean over seeds is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["half_width", "of_baseline"]


def half_width(values: pd.Series) -> float:
    """Half the 95 % confidence interval of a mean over seeds (Student's t).

    Parameters
    ----------
    values : Series of float
        One number a seed; NaN does not count.

    Returns
    -------
    float
        Infinite where there is one number only, NaN where there is none.
    """
    from scipy.stats import t

    n = int(values.count())
    if n < 2:
        return math.inf if n else math.nan
    return float(t.ppf(0.975, n - 1)) * float(values.std()) / math.sqrt(n)


def of_baseline(
    rows: pd.DataFrame,
    column: str,
    baseline: str,
    cell: Sequence[str],
    value: str = "value",
) -> NDArray[np.float64]:
    """What the baseline has in the setting and under the seed of each row.

    Parameters
    ----------
    rows : DataFrame
        One row a run and measure.
    column : str
        Column that names what is compared.
    baseline : str
        Its value in the baseline's rows.
    cell : sequence of str
        Columns in which a row and the baseline's have to agree: setting, seed, measure.
    value : str
        Column of the numbers.

    Returns
    -------
    (rows,) ndarray of float
        In the order of ``rows``; NaN where the baseline has no such row.
    """
    theirs = rows[rows[column] == baseline].set_index(list(cell))[value]
    return theirs.reindex(pd.MultiIndex.from_frame(rows[list(cell)])).to_numpy(dtype=float)
