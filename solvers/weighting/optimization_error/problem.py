"""The optimisation-error problem: aggregation weights of the fastest convergence (CA-Fed, Eqs. 27-29)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.problem import Problem
from solvers.weighting.checks import finite, non_negative, per_client, probabilities

__all__ = ["AggregationProblem", "OptimizationErrorProblem"]


@dataclass(frozen=True, eq=False)
class AggregationProblem(Problem):
    """Base of the two problems over aggregation weights q ≥ 0, Σq = Q: Theorem 2's ratio and its geometry.

    Parameters
    ----------
    availability : (n,) array-like
        π in (0, 1].
    variances : (n,) array-like
        v > 0, so that A = diag(v·π).
    offset : float
        B ≥ 0.
    total : float
        Q > 0.
    """

    availability: NDArray[np.float64]
    variances: NDArray[np.float64]
    offset: float
    total: float

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "weighting"
    tolerance: ClassVar[float] = 1e-12

    def __post_init__(self) -> None:
        n = np.asarray(self.availability).shape[0] if np.ndim(self.availability) == 1 else 0
        if n == 0:
            raise InvalidProblem("availability must be a vector with an entry for at least one client")
        availability = probabilities(self.availability, "availability", n)
        variances = per_client(self.variances, "variances", n)
        if (wrong := variances <= 0).any():
            k = int(np.flatnonzero(wrong)[0])
            raise InvalidProblem(f"variances must be positive; client {k} has {variances[k]:g}")
        total = non_negative(self.total, "total")
        if total == 0:
            raise InvalidProblem("total must be positive; got 0, which leaves nothing to aggregate")
        values = {
            "availability": availability,
            "variances": variances,
            "offset": non_negative(self.offset, "offset"),
            "total": total,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        with np.errstate(over="ignore", divide="ignore"):
            extremes = (self.variances / self.availability).max() * total, self.offset / (total * availability.min())
        if not np.isfinite(extremes).all():
            raise InvalidProblem("variances, offset and total overflow beside an availability this small; rescale them")

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.availability.shape[0]

    @property
    def curvature(self) -> NDArray[np.float64]:
        """Diagonal of A: ``variances · availability``."""
        return self.variances * self.availability

    @property
    def rounding(self) -> float:
        """Relative floating-point error of a sum over the clients, with room for the operations around it."""
        return 4.0 * (self.n + 10) * float(np.finfo(np.float64).eps)

    def decision(self, x: ArrayLike) -> NDArray[np.float64]:
        """``x`` as n weights; raises `ValueError` for another shape."""
        array = np.asarray(x, dtype=np.float64)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one weight per client, {self.n}; got shape {array.shape}")
        return array

    def violation(self, x: ArrayLike) -> float:
        """Largest of |Σq − Q| and −min q, relative to Q."""
        q = self.decision(x)
        worst = max(abs(float(q.sum()) - self.total), -float(q.min(initial=0.0))) / self.total
        return worst if not math.isnan(worst) else math.inf

    def ratio(self, q: NDArray[np.float64]) -> float:
        """Theorem 2's ratio ``(½ qᵀAq + B) / πᵀq``."""
        return (0.5 * float((self.curvature * q * q).sum()) + self.offset) / float((self.availability * q).sum())

    def biased_importance(self, x: ArrayLike) -> NDArray[np.float64]:
        """``p = π⊙q / πᵀq``, the importance with which training really weighs each client (n,)."""
        share = self.availability * self.decision(x)
        return share / share.sum()

    def from_importance(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights q with Σq = Q whose biased importance is ``p``."""
        q = np.maximum(p, 0.0) / self.availability
        return q * (self.total / q.sum())

    def slopes(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Gradient of the ratio as a function of the biased importance p.

        With :math:`h_k = 1 / (Q \pi_k)` and s = h·p (= 1/πᵀq) the ratio is
        :math:`\tfrac12 \sum_k (v_k/\pi_k) p_k^2 / s + B s`: convex in p and homogeneous of degree 1. Hence the
        ratio is at least ``slopes(q)·p`` at *every* p, whatever the q.
        """
        return self.variances * q + (self.offset / self.total - self.energy(q)) / self.availability

    def slope_errors(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """A bound on the floating-point error of each of the `slopes`."""
        return self.rounding * (self.variances * q + (self.offset / self.total + self.energy(q)) / self.availability)

    def energy(self, q: NDArray[np.float64]) -> float:
        """``½ qᵀAq / Q``."""
        return 0.5 * float((self.curvature * q * q).sum()) / self.total


@dataclass(frozen=True, eq=False)
class OptimizationErrorProblem(AggregationProblem):
    r"""Aggregation weights that minimise the bound on the optimisation error.

    .. math:: \min_{q \ge 0, \; 1^\top q = Q} \; \frac{\tfrac12 q^\top A q + B}{\pi^\top q} + C,
              \qquad A = \mathrm{diag}(v_k \pi_k)

    (Rodio et al., INFOCOM 2023, Theorem 2 without its factor 1/Σηₜ, and Eqs. 27-29). It is convex in q. At the
    optimum :math:`q_k = \max(\lambda \pi_k - \theta, 0) / A_k` with

    * λ = (½qᵀAq + B) / πᵀq, the optimal value less C, and
    * θ = (B − ½qᵀAq) / Q, which the paper does not print.

    The paper calls θ positive, so that rarely available clients get small weights or none (guideline A). That holds
    only for B > ½qᵀAq: below, no client is excluded and, at equal variances, the *less* available get larger weights.

    Parameters
    ----------
    availability : (n,) array-like
        Probability π of being available, in (0, 1].
    variances : (n,) array-like
        v > 0, Theorem 2's σ²·Σηₜ² (times 4 with Lemma 2's coefficient): see `convergence_constants`.
    offset : float
        B ≥ 0, Theorem 2's υ.
    total : float
        Q > 0, the sum of the weights.
    constant : float
        C, Theorem 2's ψ + φ/ln(1/λ(P)); it moves the value alone.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """

    constant: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "constant", finite(self.constant, "constant"))

    @property
    def scale(self) -> float:
        """The ratio at equal weights."""
        return self.ratio(np.full(self.n, self.total / self.n))

    def objective(self, x: ArrayLike) -> float:
        """``(½ qᵀAq + B) / πᵀq + C``."""
        return self.ratio(self.decision(x)) + self.constant

    def lower_bound(self, x: ArrayLike) -> float:
        """A valid lower bound on the optimum, tight at the optimal weights; any q ≥ 0 gives one.

        The smallest of `slopes`, with C and a margin for rounding: the optimum over the simplex of the ratio's
        linear minorant at ``x``.
        """
        q = self.decision(x)
        return float((self.slopes(q) - self.slope_errors(q)).min()) + self.constant

    def kkt_residuals(self, x: ArrayLike, *, ratio: float, theta: float, mu: NDArray[np.float64]) -> dict[str, float]:
        """Return the distance of ``x`` and the multipliers from the optimality conditions of Eqs. 28-29.

        Parameters
        ----------
        x : (n,) array-like
            Weights q.
        ratio : float
            λ, the multiplier of πᵀy = 1.
        theta : float
            θ, the multiplier of Σy = Qs.
        mu : (n,) ndarray
            μ ≥ 0, the multipliers of q ≥ 0.

        Returns
        -------
        dict of str to float
            ``stationarity`` max|A q − λπ + θ − μ| / λ, ``dual_infeasibility`` max(−μ, 0) / λ, ``complementarity``
            max(μ q) / (λ Q), and the identities ``ratio_identity`` |λ − (½qᵀAq + B)/πᵀq| / λ and
            ``theta_identity`` |θ − (B − ½qᵀAq)/Q| / λ. All are dimensionless and 0 at the optimum.
        """
        q = self.decision(x)
        gradient = self.curvature * q - ratio * self.availability + theta - mu
        return {
            "stationarity": float(np.abs(gradient).max()) / ratio,
            "dual_infeasibility": float(np.maximum(-mu, 0.0).max()) / ratio,
            "complementarity": float(np.abs(mu * q).max()) / (ratio * self.total),
            "ratio_identity": abs(ratio - self.ratio(q)) / ratio,
            "theta_identity": abs(theta - (self.offset / self.total - self.energy(q))) / ratio,
        }
