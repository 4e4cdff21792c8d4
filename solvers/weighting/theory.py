"""The constants of CA-Fed's Theorem 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import count, number, one_of, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast, Below
from solvers.weighting.problem import OptimizationErrorProblem, TotalErrorProblem


@dataclass(frozen=True, eq=False)
class ConvergenceConstants:
    """Constants of Theorem 2 for a training: the numbers A, B and C of the weight problems, and their parts.

    Attributes
    ----------
    variances : (n,) ndarray
        v, so that A = diag(v·π) is the paper's Σ (or 4Σ, see `convergence_constants`).
    offset : float
        B = υ.
    psi, phi : float
        ψ and φ.
    correlation : float
        λ(P), in (0, 1).
    total : float
        Q.
    step_sum : float
        Σηₜ over t = 1 … T.
    condition : float
        κ = L/μ.
    """

    variances: NDArray[np.float64]
    offset: float
    psi: float
    phi: float
    correlation: float
    total: float
    step_sum: float
    condition: float

    @property
    def constant(self) -> float:
        """C = ψ + φ / ln(1/λ(P))."""
        return self.psi + self.phi / float(np.log(1.0 / self.correlation))

    @property
    def factor(self) -> float:
        """2κ²/Σηₜ, which turns a value of the weight problems into one of ε_opt (+ ε_bias)."""
        return 2.0 * self.condition**2 / self.step_sum

    def bias_weight(self, heterogeneity: float, bias: Literal["chi2", "tv"]) -> float:
        """Weigh the bias term in units of the ratio: κ²ΓΣηₜ for χ² (Eq. 13), 4κ²Γ'Σηₜ for TV² (Eq. 14)."""
        weight = self.condition**2 * self.step_sum * number(heterogeneity, "heterogeneity", AtLeast(0))
        return weight if one_of(bias, "bias", ("chi2", "tv")) == "chi2" else 4.0 * weight

    def optimization_error(self, availability: ArrayLike) -> OptimizationErrorProblem:
        """Return the problem of Eq. 27 with these constants; its value times `factor` is the bound on ε_opt."""
        return OptimizationErrorProblem(
            np.asarray(availability), self.variances, self.offset, self.total, constant=self.constant
        )

    def total_error(
        self, availability: ArrayLike, importance: ArrayLike, heterogeneity: float, bias: Literal["chi2", "tv"]
    ) -> TotalErrorProblem:
        """Return the problem of Eq. 13 or 14 with these constants; its value times `factor` is the bound on ε."""
        return TotalErrorProblem(
            np.asarray(availability),
            self.variances,
            self.offset,
            self.total,
            np.asarray(importance),
            bias=bias,
            bias_weight=self.bias_weight(heterogeneity, bias),
            constant=self.constant,
        )


def convergence_constants(
    *,
    smoothness: float,
    strong_convexity: float,
    deviations: ArrayLike,
    step_sizes: ArrayLike,
    local_steps: int,
    total: float,
    gradient_bound: float,
    gradient_moment: float,
    loss_range: float,
    heterogeneity: float,
    distance: float,
    states: float,
    correlation: float,
    mixing_constant: float = 1.0,
    mixing_start: int = 0,
    convention: Literal["proof", "paper"] = "proof",
) -> ConvergenceConstants:
    r"""Compute the constants of Theorem 2 (Rodio et al., INFOCOM 2023).

    With :math:`S_2 = \sum_{t=1}^T \eta_t^2`:

    * :math:`v_k = 4 \sigma_k^2 S_2` (as printed: :math:`\sigma_k^2 S_2`),
    * :math:`\upsilon = \tfrac2E \|w_{0,0} - w^*\|^2 + \tfrac14 M Q \sum_t (\eta_t^2 + t^{-2})`,
    * :math:`\psi = (2 L (EQ + 2) \Gamma + \tfrac23 (E - 1)(2E - 1) G^2) S_2` (as printed: 4L for 2L),
    * :math:`\phi = 2 E D G Q \sum_t \ln(2 C_P H t) \, \eta_{t - J_t}^2` with
      :math:`J_t = \min\{\max\{\lceil \ln(2 C_P H t) / \ln(1/\lambda(P)) \rceil, T_P\}, t\}`.

    The theorem as printed disagrees with Lemma 2, from which it follows: the lemma has
    :math:`2 \sum_k \pi_k q_k^2 \sigma_k^2 S_2`, which is ½qᵀAq with A *four* times the printed Σ, and 2L where ψ has
    4L. The printed Σ is therefore not supported by the proof and is not the default.

    Parameters
    ----------
    smoothness, strong_convexity : float
        L and μ of every local loss, 0 < μ ≤ L.
    deviations : (n,) array-like
        σ_k > 0: standard deviation of each client's stochastic gradient.
    step_sizes : (T + 1,) array-like
        η₀, …, η_T > 0. The sums run over t = 1 … T; φ reaches back to η₀.
    local_steps : int
        E ≥ 1.
    total : float
        Q > 0, the sum of the aggregation weights.
    gradient_bound, gradient_moment : float
        D: largest norm of a local gradient (Eq. 6); G: root of the second moment of a stochastic one (Eq. 7).
    loss_range : float
        H > 0, the bound on \|F_k(w) − F_k(w_B*)\| (Eq. 8).
    heterogeneity : float
        Γ = max_k F_k(w*) − F_k* (Eq. 9).
    distance : float
        ‖w₀,₀ − w*‖. (Lemma 2 has the minimiser w_B* of the *biased* loss, which depends on q; where that matters,
        pass an upper bound that covers both.)
    states : float
        M, the number of states of the availability chain: 2ⁿ for n independent clients, which makes υ astronomical
        beyond a few clients; treat the offset as a free parameter then.
    correlation : float
        λ(P) in (0, 1); the paper takes (λ₂(P) + 1) / 2.
    mixing_constant, mixing_start : float, int
        C_P > 0 and T_P ≥ 0 of Eq. 5.
    convention : {"proof", "paper"}
        Lemma 2's coefficients, or those of the theorem as printed.

    Returns
    -------
    ConvergenceConstants
        With methods that state the weight problems.

    Raises
    ------
    InvalidProblem
        When a quantity is out of its range, or the constants overflow.
    """
    one_of(convention, "convention", ("proof", "paper"))
    for name, value in {
        "smoothness": smoothness,
        "strong_convexity": strong_convexity,
        "total": total,
        "loss_range": loss_range,
        "mixing_constant": mixing_constant,
        "states": states,
    }.items():
        number(value, name, Above(0))
    for name, value in {
        "gradient_bound": gradient_bound,
        "gradient_moment": gradient_moment,
        "heterogeneity": heterogeneity,
        "distance": distance,
        "mixing_start": mixing_start,
    }.items():
        number(value, name, AtLeast(0))
    if strong_convexity > smoothness:
        raise InvalidProblem(f"strong_convexity must not exceed smoothness {smoothness:g}; got {strong_convexity:g}")
    number(correlation, "correlation", Above(0), Below(1))
    count(local_steps, "local_steps")
    sigma = vector(deviations, "deviations", Above(0))
    eta = vector(step_sizes, "step_sizes", Above(0), of="round")
    if eta.shape[0] < 2:
        raise InvalidProblem("step_sizes must hold η₀, …, η_T with T ≥ 1; got one")
    t = np.arange(1, eta.shape[0])
    squares = float((eta[1:] ** 2).sum())
    logs = np.log(2.0 * mixing_constant * loss_range * t)
    mixing = np.minimum(np.maximum(np.ceil(logs / np.log(1.0 / correlation)), mixing_start), t).astype(np.int64)
    mixing = np.maximum(mixing, 0)
    e, q = float(local_steps), float(total)
    variance, smooth = (4.0, 2.0) if convention == "proof" else (1.0, 4.0)
    moment, away = float(gradient_moment), float(distance)
    drift = 2.0 / 3.0 * (e - 1.0) * (2.0 * e - 1.0) * (moment * moment)
    found = ConvergenceConstants(
        variances=variance * sigma**2 * squares,
        offset=2.0 / e * (away * away) + 0.25 * states * q * float((eta[1:] ** 2 + 1.0 / t**2).sum()),
        psi=(smooth * smoothness * (e * q + 2.0) * heterogeneity + drift) * squares,
        phi=2.0 * e * gradient_bound * moment * q * float((logs * eta[t - mixing] ** 2).sum()),
        correlation=float(correlation),
        total=q,
        step_sum=float(eta[1:].sum()),
        condition=smoothness / strong_convexity,
    )
    if not np.isfinite([*found.variances, found.offset, found.psi, found.phi, found.step_sum, found.condition]).all():
        raise InvalidProblem("the constants of these quantities overflow; state them in other units")
    return found
