"""Statistics of few runs: intervals, and equivalence.

Plain numbers in, plain numbers out; one number per unit of replication (a split of the data, or a seed). Everything
assumes that the units are independent and that their mean is about normal (Student's t), which few runs cannot show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError

#: Fewer units than this are too few for a verdict: with two, Student's t is 12.7, and any two values "agree".
FEWEST = 3


def half_width(values: ArrayLike, level: float = 0.95, runs: int | None = None) -> float:
    r"""Compute half the confidence interval of a mean (Student's t).

    Parameters
    ----------
    values : (n,) array-like of float
        One number per unit; NaN does not count.
    level : float
        Confidence, in (0, 1).
    runs : int, optional
        Give the prediction interval for the mean of so many further runs of the same spread instead, as where a paper
        prints the mean of k runs: :math:`t_{n-1} \, s \sqrt{1/n + 1/k}`.

    Returns
    -------
    float
        Infinite where there is one number only, NaN where there is none.
    """
    found = np.asarray(values, dtype=np.float64).ravel()
    found = found[~np.isnan(found)]
    if found.size < 2:
        return math.inf if found.size else math.nan
    return _quantile(0.5 + level / 2, found.size - 1) * _error(found, runs)


@dataclass(frozen=True)
class Comparison:
    """How far a mean is from a number, and what may be said of it.

    Attributes
    ----------
    difference : float
        Mean minus number.
    half : float
        Half the 95 % interval of the difference.
    p : float
        Probability of a difference at least so large if there were none; below `FEWEST` units it and
        ``p_equivalent`` are NaN.
    p_equivalent : float
        The larger p-value of the two one-sided tests (TOST) of a difference beyond the margin: below 0.05, the
        difference is within the margin.
    n : int
        Units.
    verdict : str
        "too few" below `FEWEST` units; "agrees" where the difference is within the margin; else "higher" or "lower"
        where it is none of chance; else "inconclusive". Empty where nothing could be compared.
    """

    difference: float
    half: float
    p: float
    p_equivalent: float
    n: int
    verdict: str


def compare_means(values: ArrayLike, number: float = 0.0, *, margin: float, runs: int | None = None) -> Comparison:
    r"""Compare the mean of some runs with a number: difference, equivalence, and a verdict that states neither as none.

    A difference that is not beyond chance is no agreement: agreement is a claim of its own, which needs a margin, the
    largest difference that is of no account, and enough units (Schuirmann's two one-sided tests at 5 %, that is, the
    90 % interval lies within the margin). A difference both within the margin and beyond chance agrees.

    Parameters
    ----------
    values : (n,) array-like of float
        One number per unit; NaN does not count. For paired runs, their differences.
    number : float
        What the mean is compared with.
    margin : float
        Largest difference of no account, above 0, in the unit of the values.
    runs : int, optional
        How many runs the number is a mean of, taken to deviate as ours do; exact (a theorem's, a limit) if left out.

    Returns
    -------
    Comparison
        All NaN but ``n``, and no verdict (""), where the number is NaN or there are no values.

    Raises
    ------
    ConfigError
        When the margin is not positive.
    """
    if not margin > 0:
        raise ConfigError(f"a margin must be positive, in the unit of what is compared; got {margin!r}")
    found = np.asarray(values, dtype=np.float64).ravel()
    found = found[~np.isnan(found)]
    n = found.size
    if n == 0 or math.isnan(number):
        return Comparison(math.nan, math.nan, math.nan, math.nan, n, "")
    difference = float(found.mean()) - number
    if n < FEWEST:
        return Comparison(difference, half_width(found, runs=runs), math.nan, math.nan, n, "too few")
    error = _error(found, runs)
    p = 2 * _beyond(abs(difference), error, n - 1)
    # Of "the difference is at least the margin" and "at most minus the margin", the one that is harder to reject.
    p_equivalent = _beyond(margin - abs(difference), error, n - 1)
    half = half_width(found, runs=runs)
    verdict = "inconclusive"
    if p_equivalent < 0.05:
        verdict = "agrees"
    elif p < 0.05:
        verdict = "higher" if difference > 0 else "lower"
    return Comparison(difference, half, p, p_equivalent, n, verdict)


def _error(values: NDArray[np.float64], runs: int | None) -> float:
    """Compute the standard error of the mean, or of its difference from the mean of so many further runs."""
    return float(values.std(ddof=1)) * math.sqrt(1 / values.size + (1 / runs if runs else 0.0))


def _quantile(level: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(level, freedom))


def _beyond(distance: float, error: float, freedom: int) -> float:
    """Compute P(T > distance / error); without any error, 0 beyond 0, 1/2 at 0 and 1 below."""
    from scipy.stats import t

    if error == 0.0:
        return 0.5 - 0.5 * math.copysign(1.0, distance) if distance else 0.5
    return float(t.sf(distance / error, freedom))
