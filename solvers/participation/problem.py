"""The cutoff problem: the longest interval FedAU lets count (Theorem 3, Corollary 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import count
from solvers.participation.weights import check_rates
from solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class CutoffProblem(Problem):
    r"""Choose the cutoff K that minimises Theorem 3's bound on the weight error.

    .. math:: \min_{K \in \{1, 2, \dots\}} \; \frac{K \ln T}{T} + \frac1N \sum_n (1 - p_n)^{2K}

    (FedAU, Wang & Ji, ICLR 2024). The theorem is stated up to a constant factor, which is taken as 1 here: the
    minimiser says how K should grow, not which K is best to the unit. A small K has low variance and high bias.

    Parameters
    ----------
    rates : (N,) array-like
        Participation rates p in (0, 1], Bernoulli.
    horizon : int
        Number of rounds T, 2 ≤ T ≤ 10¹⁵.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """

    rates: NDArray[np.float64]
    horizon: int

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "participation"

    def __post_init__(self) -> None:
        self._freeze(rates=check_rates(self.rates), horizon=count(self.horizon, "horizon", 2))

    @property
    def n(self) -> int:
        """Number of clients N."""
        return self.rates.shape[0]

    @property
    def price(self) -> float:
        """``ln T / T``, what one more round of cutoff costs in variance."""
        return math.log(self.horizon) / self.horizon

    @property
    def rounding(self) -> float:
        """Relative floating-point error of one value, however large K is within reach of the optimum."""
        reach = self.horizon + self.rates.shape[0]
        return 4.0 * (reach + 10) * float(np.finfo(np.float64).eps)

    def decision(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return ``x`` as one integer (an array of no dimensions); raises `ValueError` for anything else."""
        array = np.asarray(x)
        if array.shape != () or array.dtype.kind not in "biuf":
            raise ValueError(f"x must be a single number, the cutoff; got {x!r}")
        if not float(array).is_integer() or abs(float(array)) >= 2**62:
            raise ValueError(f"x must be an integer below 2^62; got {array}")
        return array.astype(np.int64)

    def objective(self, x: ArrayLike) -> float:
        """``K ln T / T + mean((1 − p)^(2K))``."""
        k = int(self.decision(x))
        with np.errstate(divide="ignore"):
            return k * self.price + (float(np.exp(2.0 * k * np.log1p(-self.rates)).mean()) if k else 1.0)

    def violation(self, x: ArrayLike) -> float:
        """Return the distance by which K is below 1."""
        return float(max(1 - int(self.decision(x)), 0))
