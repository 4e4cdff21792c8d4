"""The exclusion problem: which clients to keep in the aggregation (CA-Fed, Eqs. 15-19)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import Problem
from solvers.weighting.checks import distribution, non_negative, per_client, probabilities

__all__ = ["ExclusionProblem"]


#: Smallest scale whose relative rounding, 2.2e-16, is a normal number: below it the margins of bounds underflow.
_SMALLEST = 1e-280


@dataclass(frozen=True, eq=False)
class ExclusionProblem(Problem):
    r"""Choose which clients to keep, so that the error estimate of CA-Fed is smallest.

    .. math:: \min_{\emptyset \ne S} \; \hat\epsilon(S) = \sum_k p_k e_k + d_{TV}^2(\alpha, p) \, \Gamma',
              \qquad p_k \propto \pi_k q_k, \quad q_k = \alpha_k / \pi_k \text{ on } S, \; 0 \text{ elsewhere}

    with the loss gaps :math:`e_k = \hat F_k - \hat F_k^*` (Rodio et al., INFOCOM 2023, Eqs. 15-19). The availability
    cancels in :math:`p_k = \alpha_k / \alpha(S)` and the total variation is the excluded importance, so

    .. math:: \hat\epsilon(S) = \frac{\sum_S \alpha_k e_k}{\alpha(S)} + (1 - \alpha(S))^2 \, \Gamma'.

    Availability and correlation thus decide only in which *order* Algorithm 1 (method ``ca-fed``) examines clients.

    Parameters
    ----------
    importance : (n,) array-like
        Target importance α > 0 of each client; sums to 1 (to 1e-9; it is normalised).
    loss_gaps : (n,) array-like
        Estimated loss minus estimated smallest loss of each client, in units of loss. Of any sign: the paper's
        running minimum makes them non-negative, the constant estimate in the authors' code need not.
    heterogeneity : float or None
        Γ' ≥ 0, in units of loss; ``None`` for Eq. 18, the largest loss gap over all clients. Multiply it to weigh
        the bias against the loss (the paper's footnote 4).
    availability : (n,) array-like
        Probability π of being available, in (0, 1].
    correlation : (n,) array-like
        Second eigenvalue λ of each client's two-state availability chain, in [-1, 1].
    threshold : float
        τ ≥ 0 of Algorithm 1, in units of loss: a client is excluded where that lowers the estimate by at least τ.
        It steers ``ca-fed`` alone; the objective does not contain it.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """

    importance: NDArray[np.float64]
    loss_gaps: NDArray[np.float64]
    heterogeneity: float | None
    availability: NDArray[np.float64]
    correlation: NDArray[np.float64]
    threshold: float = 0.0

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "weighting"

    def __post_init__(self) -> None:
        importance = distribution(self.importance, "importance")
        n = importance.shape[0]
        loss_gaps = per_client(self.loss_gaps, "loss_gaps", n)
        availability = probabilities(self.availability, "availability", n)
        correlation = per_client(self.correlation, "correlation", n)
        if (wrong := np.abs(correlation) > 1).any():
            k = int(np.flatnonzero(wrong)[0])
            raise InvalidProblem(f"correlation must lie in [-1, 1]; client {k} has {correlation[k]:g}")
        if self.heterogeneity is None:
            heterogeneity = float(loss_gaps.max())
            if heterogeneity < 0:
                raise InvalidProblem(
                    f"heterogeneity=None takes the largest loss gap, which is {heterogeneity:g}; "
                    "it must be non-negative, so state heterogeneity yourself"
                )
        else:
            heterogeneity = non_negative(self.heterogeneity, "heterogeneity")
        values = {
            "importance": importance,
            "loss_gaps": loss_gaps,
            "heterogeneity": heterogeneity,
            "availability": availability,
            "correlation": correlation,
            "threshold": non_negative(self.threshold, "threshold"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if 0 < self.scale < _SMALLEST:
            raise InvalidProblem(
                f"the largest loss gap and the heterogeneity are at most {self.scale:g}, too small to be computed with "
                f"(accepted: 0, or from {_SMALLEST:g}); rescale them"
            )

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.importance.shape[0]

    @property
    def gamma(self) -> float:
        """Γ' as a number: ``heterogeneity``, which the constructor has filled in."""
        return float(self.heterogeneity)  # type: ignore[arg-type]

    @property
    def scale(self) -> float:
        """Largest absolute loss gap plus Γ'."""
        return float(np.abs(self.loss_gaps).max()) + self.gamma

    @property
    def rounding(self) -> float:
        """A bound on the floating-point error of a value computed from sums over the clients, in its units."""
        return 4.0 * (self.n + 10) * float(np.finfo(np.float64).eps) * self.scale

    def decision(self, x: ArrayLike) -> NDArray[np.bool_]:
        """``x`` as a mask of the kept clients; raises `ValueError` for another shape or entries beside 0 and 1."""
        array = np.asarray(x)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one entry per client, {self.n}; got shape {array.shape}")
        if array.dtype == np.bool_:
            return array
        mask = array.astype(np.bool_)
        if not np.array_equal(mask, array):
            raise ValueError("x must hold booleans or 0 and 1; it has other entries (round a solver's answer first)")
        return mask

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted ids of the kept clients."""
        return np.flatnonzero(self.decision(x))

    def objective(self, x: ArrayLike) -> float:
        """The error estimate ε̂ (Eq. 19) of keeping ``x``; infinite when nobody is kept."""
        kept = self.decision(x)
        mass = float(self.importance[kept].sum())
        if mass == 0.0:
            return math.inf
        gap = float((self.importance[kept] * self.loss_gaps[kept]).sum()) / mass
        excluded = float(self.importance[~kept].sum())
        return gap + excluded * excluded * self.gamma

    def violation(self, x: ArrayLike) -> float:
        """1 when nobody is kept, else 0."""
        return 0.0 if self.decision(x).any() else 1.0

    def weights(self, x: ArrayLike) -> NDArray[np.float64]:
        """Aggregation weights q = α/π on the kept clients, 0 elsewhere; not renormalised, as in Algorithm 1."""
        return np.where(self.decision(x), self.importance / self.availability, 0.0)
