"""FedSS's theory of an allocation: bias, error of the sampled average, precision of training, separation of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast

__all__ = [
    "Dissimilarity",
    "availability_bias",
    "availability_variation",
    "dissimilarity",
    "estimator_error",
    "fedavg_term",
    "neyman",
    "precision_bound",
    "proportional_advantage",
    "separation_threshold",
    "stratified_term",
    "training_term",
]


def neyman(sizes: ArrayLike, deviations: ArrayLike, total: float) -> NDArray[np.float64]:
    """Proposition 1, Eq. 19: S_k = S·N_kH_k / Σ N_jH_j, without bounds and in real numbers.

    It can ask for less than one client of a group, or for more than there are; `AllocationProblem` does not.

    Parameters
    ----------
    sizes, deviations : (K,) array-like
        N_k and H_k, not all products zero.
    total : float
        S.

    Returns
    -------
    (K,) ndarray
        The allocation.

    Raises
    ------
    InvalidProblem
        When every N_kH_k is zero, or an argument is negative.
    """
    a = _non_negative(sizes, "sizes") * _non_negative(deviations, "deviations")
    if not a.sum() > 0:
        raise InvalidProblem("neyman needs a group with positive size and deviation; all products are 0")
    return total * a / a.sum()


def availability_bias(sizes: ArrayLike, available: ArrayLike) -> NDArray[np.float64]:
    r"""Lemma 1, Eq. 7: how far FedAvg's expected average leans towards each group.

    Sampling uniformly from the available clients, FedAvg's mean is off by :math:`\sum_k (A_k / A - N_k / N)\,
    \bar\omega^k`; these are the coefficients. Neither S nor, for fixed ratios, the number available matters. Stratified
    sampling has none of it, as long as every group has a client sampled (Lemma 2).

    Parameters
    ----------
    sizes, available : (K,) array-like
        N_k and A_k.

    Returns
    -------
    (K,) ndarray
        Coefficients; they sum to 0.

    Raises
    ------
    InvalidProblem
        When no client is available, or an argument is negative.
    """
    n, a = _non_negative(sizes, "sizes"), _non_negative(available, "available")
    if n.shape != a.shape or not (n.sum() > 0 and a.sum() > 0):
        raise InvalidProblem(f"sizes and available must be over the same groups and not all 0; got {n.size}, {a.size}")
    return a / a.sum() - n / n.sum()


def availability_variation(sizes: ArrayLike, available: ArrayLike) -> float:
    """Return the total variation of available clients from all: half the sum of |`availability_bias`|, in [0, 1]."""
    return float(np.abs(availability_bias(sizes, available)).sum() / 2.0)


def estimator_error(sizes: ArrayLike, allocation: ArrayLike, variances: ArrayLike) -> float:
    r"""Eq. 13: mean squared error of the stratified average, :math:`\sum_k (N_k/N)^2 (1/S_k - 1/N_k)\, s_k^2`.

    Parameters
    ----------
    sizes, allocation : (K,) array-like
        N_k ≥ 1 and 0 < S_k ≤ N_k.
    variances : (K,) array-like
        s_k², the variance of the models within each group with divisor N_k − 1 (0 where N_k = 1); with H_k² instead
        this is the objective (20).

    Returns
    -------
    float
        The error, in the units of ``variances``.

    Raises
    ------
    InvalidProblem
        When an argument is out of range.
    """
    n = vector(sizes, "sizes", AtLeast(0), of="group")
    s = vector(allocation, "allocation", Above(0), n=n.size, of="group")
    v = vector(variances, "variances", AtLeast(0), n=n.size, of="group")
    if (s > n).any():
        group = int(np.argmax(s > n))
        raise InvalidProblem(f"allocation must be at most the size; group {group} has {s[group]:g} of {n[group]:g}")
    return float(((n / n.sum()) ** 2 * (1.0 / s - 1.0 / n) * v).sum())


def stratified_term(sizes: ArrayLike, allocation: ArrayLike, deviations: ArrayLike, epochs: int, batches: int) -> float:
    """Eq. 18: C₂ of FedSS, 4E²M² times the objective (20).

    Parameters
    ----------
    sizes, allocation, deviations : (K,) array-like
        N_k, S_k and H_k.
    epochs, batches : int
        E and M, local epochs and mini-batches in each.

    Returns
    -------
    float
        C₂, 0 when every client is sampled.
    """
    h = _non_negative(deviations, "deviations")
    return 4.0 * (epochs * batches) ** 2 * estimator_error(sizes, allocation, h**2)


def fedavg_term(n_clients: int, total: int, deviation: float, epochs: int, batches: int) -> float:
    """C₂ of FedAvg, 4E²M²(1/S − 1/N)H²; valid only while availability is proportional (A_k/A = N_k/N).

    Parameters
    ----------
    n_clients, total : int
        N and S.
    deviation : float
        H of Eq. 21, the dissimilarity over all clients.
    epochs, batches : int
        E and M.

    Returns
    -------
    float
        C₂.
    """
    return 4.0 * (epochs * batches) ** 2 * (1.0 / total - 1.0 / n_clients) * deviation**2


def training_term(
    variances: ArrayLike, heterogeneity: float, smoothness: float, gradient: float, epochs: int, batches: int
) -> float:
    """Eq. 17: C₁ = Σσ_n²/N² + 6βΓ + 8β(EM − 1)²R², the part of the bound that sampling does not touch.

    Parameters
    ----------
    variances : (N,) array-like
        σ_n² of each client's stochastic gradients (Assumption 3).
    heterogeneity : float
        Γ = F(ω*) − Σ f_n(ω_n*) / N.
    smoothness : float
        β.
    gradient : float
        R, the bound of the gradient norms (Assumption 4); R² enters.
    epochs, batches : int
        E and M.

    Returns
    -------
    float
        C₁.
    """
    v = _non_negative(variances, "variances")
    steps = epochs * batches - 1
    return float(v.sum() / v.size**2 + 6.0 * smoothness * heterogeneity + 8.0 * smoothness * steps**2 * gradient**2)


def precision_bound(
    training: float,
    sampling: float,
    distance: float,
    smoothness: float,
    convexity: float,
    epochs: int,
    batches: int,
    rounds: int,
) -> float:
    r"""Theorem 1, Eq. 16: expected loss above the optimum after T rounds, at most.

    .. math:: B = \frac{2\beta}{\alpha_1 + TEM}
              \Big(\frac{C_1 + C_2}{\mu^2} + \frac{2\beta \|\omega_0 - \omega^*\|^2}{\mu}\Big),
              \qquad \alpha_1 = \max\{8\beta/\mu - 1,\, EM\}

    As printed. Where EM > 8β/μ − 1 its proof arrives at another last term, but the printed one still bounds the loss,
    as gradients bounded by R on a μ-strongly convex loss imply :math:`R^2 \ge \mu^2 \|\omega_0 - \omega^*\|^2`; the
    arguments have to satisfy that.

    Parameters
    ----------
    training, sampling : float
        C₁ (`training_term`) and C₂ (`stratified_term` or `fedavg_term`).
    distance : float
        Squared distance of the first model from the optimum, ‖ω₀ − ω*‖².
    smoothness, convexity : float
        β ≥ μ > 0.
    epochs, batches, rounds : int
        E, M and T.

    Returns
    -------
    float
        B.

    Raises
    ------
    InvalidProblem
        When β ≥ μ > 0 does not hold.
    """
    return (
        2.0
        * smoothness
        / _horizon(smoothness, convexity, epochs, batches, rounds)
        * ((training + sampling) / convexity**2 + 2.0 * smoothness * distance / convexity)
    )


def proportional_advantage(
    sizes: ArrayLike,
    deviations: ArrayLike,
    deviation: float,
    total: int,
    smoothness: float,
    convexity: float,
    epochs: int,
    batches: int,
    rounds: int,
) -> float:
    r"""Corollary 1, Eq. 22: how much smaller the bound is for proportional FedSS than for FedAvg.

    .. math:: B^{AVG} - B^{SS\text{-}P} = \frac{8 \beta E^2 M^2}{\mu^2 (\alpha_1 + TEM)}
              \Big(\frac1S - \frac1N\Big) \Big(H^2 - \sum_k \frac{N_k H_k^2}{N}\Big)

    It is the difference for the real allocation S·N_k/N, and compares with a FedAvg whose availability is
    proportional.

    Parameters
    ----------
    sizes, deviations : (K,) array-like
        N_k and H_k.
    deviation : float
        H over all clients (Eq. 21).
    total : int
        S.
    smoothness, convexity, epochs, batches, rounds
        As for `precision_bound`.

    Returns
    -------
    float
        The difference; negative if the groups are more diverse inside than all clients together.

    Raises
    ------
    InvalidProblem
        When β ≥ μ > 0 does not hold, or an argument is negative.
    """
    n, h = _non_negative(sizes, "sizes"), _non_negative(deviations, "deviations")
    factor = 8.0 * smoothness * (epochs * batches) ** 2 / convexity**2
    factor /= _horizon(smoothness, convexity, epochs, batches, rounds)
    inside = float((n * h**2).sum() / n.sum())
    return factor * (1.0 / total - 1.0 / float(n.sum())) * (deviation**2 - inside)


def _horizon(smoothness: float, convexity: float, epochs: int, batches: int, rounds: int) -> float:
    """Return α₁ + TEM."""
    if not (0 < convexity <= smoothness and math.isfinite(smoothness)):
        raise InvalidProblem(f"smoothness >= convexity > 0 must hold; got {smoothness:g} and {convexity:g}")
    steps = epochs * batches
    return max(8.0 * smoothness / convexity - 1.0, steps) + rounds * steps


def _non_negative(value: ArrayLike, name: str) -> NDArray[np.float64]:
    return vector(value, name, AtLeast(0), of="group")


@dataclass(frozen=True, eq=False)
class Dissimilarity:
    """Dissimilarity of clients' gradients, within groups and overall (FedSS, Eqs. 11 and 21).

    Attributes
    ----------
    sizes : (K,) ndarray of int
        Clients N_k of each group.
    within : (K,) ndarray
        H_k², squared distance from the group's mean gradient, divisor N_k − 1; 0 for a group of one.
    overall : float
        H², the same over all clients.
    separation : float
        Smallest distance between two groups' mean gradients; infinite where there is one group.
    """

    sizes: NDArray[np.int64]
    within: NDArray[np.float64]
    overall: float
    separation: float

    @property
    def advantage(self) -> float:
        """H² − Σ N_k H_k² / N: positive where proportional strata beat a plain draw (Corollary 1, Proposition 2)."""
        return self.overall - float(self.sizes @ self.within) / float(self.sizes.sum())


def dissimilarity(gradients: ArrayLike, groups: ArrayLike) -> Dissimilarity:
    """Measure H_k² and H² on clients' gradients (or updates) at one model.

    Parameters
    ----------
    gradients : (N, d) array-like
        One vector a client, N ≥ 2.
    groups : (N,) array-like of int
        Group of each client, 0 to K − 1; none is empty.

    Returns
    -------
    Dissimilarity

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """
    vectors, labels = np.asarray(gradients, dtype=np.float64), np.asarray(groups)
    if vectors.ndim != 2 or len(vectors) < 2 or not np.isfinite(vectors).all():
        raise InvalidProblem(f"gradients must be finite, one row for each of two clients or more; got {vectors.shape}")
    if labels.shape != (len(vectors),) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise InvalidProblem(f"groups must be one integer from 0 for each of {len(vectors)} clients; got {groups!r}")
    sizes = np.bincount(labels)
    if (sizes == 0).any():
        raise InvalidProblem(f"group {int(np.argmin(sizes))} has no client; number groups from 0 without gaps")
    means = np.stack([vectors[labels == k].mean(axis=0) for k in range(sizes.size)])
    apart = ((vectors - means[labels]) ** 2).sum(axis=1)
    within = np.bincount(labels, weights=apart) / np.maximum(sizes - 1, 1)
    overall = float(((vectors - vectors.mean(axis=0)) ** 2).sum()) / (len(vectors) - 1)
    between = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(between, np.inf)
    return Dissimilarity(sizes, within, overall, float(between.min()))


def separation_threshold(sizes: ArrayLike, within: ArrayLike) -> float:
    r"""Return a χ with which Proposition 2 holds: gradients of any two groups farther apart than χ make its claim true.

    The paper proves that there is one. With the means :math:`\bar h_k` of the groups,

    .. math:: H^2 - \sum_k \frac{N_k}{N} H_k^2 = \frac{1}{N - 1} \Big[ \sum_{k < l} \frac{N_k N_l}{N} \|\bar h_k -
              \bar h_l\|^2 - \sum_k \big(1 - \frac{N_k}{N}\big) H_k^2 \Big],

    and the means lie in the convex hulls, so that :math:`\chi^2 = N \sum_k (1 - N_k / N) H_k^2 / \sum_{k<l} N_k N_l`
    serves. For two groups it is the smallest that does.

    Parameters
    ----------
    sizes : (K,) array-like of int
        N_k ≥ 1, of two groups or more.
    within : (K,) array-like
        H_k² ≥ 0.

    Returns
    -------
    float
        χ, in the unit of the gradients.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.
    """
    n = vector(sizes, "sizes", AtLeast(1), of="group")
    if n.size < 2:
        raise InvalidProblem(f"sizes must be numbers of clients of two groups or more; got {sizes!r}")
    spread = vector(within, "within", AtLeast(0), n=n.size, of="group")
    total = float(n.sum())
    pairs = (total**2 - float(n @ n)) / 2
    return math.sqrt(total * float((1 - n / total) @ spread) / pairs)
