"""The papers' theorems in numbers, as the studies ask them: FedSS's, FedAU's Theorem 2, and CA-Fed's guideline B."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers import InvalidProblem, solve

# -- FedSS -------------------------------------------------------------------------------------------------------------


def availability_bias(sizes, available):
    r"""Lemma 1, Eq. 7: how far FedAvg's expected average leans towards each group of N_k clients, A_k of them there.

    Sampling uniformly from the available clients, FedAvg's mean is off by :math:`\sum_k (A_k / A - N_k / N)\,
    \bar\omega^k`; these are the coefficients, (K,). Stratified sampling has none of it, as long as every group has a
    client sampled (Lemma 2).
    """
    n, a = np.asarray(sizes, dtype=np.float64), np.asarray(available, dtype=np.float64)
    return a / a.sum() - n / n.sum()


def estimator_error(sizes, allocation, variances):
    r"""Eq. 13: mean squared error of the stratified average, :math:`\sum_k (N_k/N)^2 (1/S_k - 1/N_k)\, s_k^2`.

    ``variances`` are s_k², those of the models within each group with divisor N_k − 1; with H_k² instead this is the
    objective (20).
    """
    n, s, v = (np.asarray(each, dtype=np.float64) for each in (sizes, allocation, variances))
    if not ((s > 0) & (s <= n)).all():
        raise InvalidProblem(f"an allocation is at least one and at most the size of each group; got {s} of {n}")
    return float(((n / n.sum()) ** 2 * (1.0 / s - 1.0 / n) * v).sum())


def stratified_term(sizes, allocation, deviations, epochs, batches):
    """Eq. 18: C₂ of FedSS, 4E²M² times the objective (20) of N_k, S_k and H_k."""
    return 4.0 * (epochs * batches) ** 2 * estimator_error(sizes, allocation, np.square(deviations))


def fedavg_term(n_clients, total, deviation, epochs, batches):
    """C₂ of FedAvg, 4E²M²(1/S − 1/N)H²; valid only while availability is proportional (A_k/A = N_k/N)."""
    return 4.0 * (epochs * batches) ** 2 * (1.0 / total - 1.0 / n_clients) * deviation**2


def training_term(variances, heterogeneity, smoothness, gradient, epochs, batches):
    """Eq. 17: C₁ = Σσ_n²/N² + 6βΓ + 8β(EM − 1)²R², the part of the bound that sampling does not touch.

    ``variances`` are σ_n² of each client's stochastic gradients (Assumption 3), ``heterogeneity`` is
    Γ = F(ω*) − Σ f_n(ω_n*) / N, ``gradient`` bounds the norms of gradients (Assumption 4).
    """
    v, steps = np.asarray(variances, dtype=np.float64), epochs * batches - 1
    return float(v.sum() / v.size**2 + 6.0 * smoothness * heterogeneity + 8.0 * smoothness * steps**2 * gradient**2)


def precision_bound(training, sampling, distance, smoothness, convexity, epochs, batches, rounds):
    r"""Theorem 1, Eq. 16: expected loss above the optimum after T rounds, at most.

    .. math:: B = \frac{2\beta}{\alpha_1 + TEM}
              \Big(\frac{C_1 + C_2}{\mu^2} + \frac{2\beta \|\omega_0 - \omega^*\|^2}{\mu}\Big),
              \qquad \alpha_1 = \max\{8\beta/\mu - 1,\, EM\}

    As printed. Where EM > 8β/μ − 1 its proof arrives at another last term, but the printed one still bounds the loss,
    as gradients bounded by R on a μ-strongly convex loss imply :math:`R^2 \ge \mu^2 \|\omega_0 - \omega^*\|^2`.
    ``training`` and ``sampling`` are C₁ and C₂, ``distance`` is squared.
    """
    if not 0 < convexity <= smoothness < math.inf:
        raise InvalidProblem(f"smoothness >= convexity > 0 must hold; got {smoothness:g} and {convexity:g}")
    steps = epochs * batches
    horizon = max(8.0 * smoothness / convexity - 1.0, steps) + rounds * steps
    return 2.0 * smoothness / horizon * ((training + sampling) / convexity**2 + 2.0 * smoothness * distance / convexity)


class Dissimilarity(NamedTuple):
    """Dissimilarity of clients' gradients (FedSS, Eqs. 11 and 21)."""

    sizes: NDArray[np.int64]  #: clients N_k of each group
    within: NDArray[np.float64]  #: H_k², squared distance from the group's mean, divisor N_k − 1; 0 for a group of one
    overall: float  #: H², the same over all clients


def dissimilarity(gradients, groups):
    """Measure H_k² and H² on clients' gradients (N, d), or updates, at one model; groups (N,) are numbered from 0."""
    vectors, labels = np.asarray(gradients, dtype=np.float64), np.asarray(groups)
    sizes = np.bincount(labels)
    if (sizes == 0).any():
        raise InvalidProblem(f"group {int(np.argmin(sizes))} has no client; number groups from 0 without gaps")
    means = np.stack([vectors[labels == k].mean(axis=0) for k in range(sizes.size)])
    apart = ((vectors - means[labels]) ** 2).sum(axis=1)
    within = np.bincount(labels, weights=apart) / np.maximum(sizes - 1, 1)
    return Dissimilarity(sizes, within, float(((vectors - vectors.mean(axis=0)) ** 2).sum()) / (len(vectors) - 1))


# -- FedAU -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Smoothness:
    """The constants of FedAU's assumptions."""

    lipschitz: float  #: L > 0: gradients change at most by L times the distance
    noise: float  #: σ² ≥ 0, variance of a stochastic gradient
    divergence: float  #: δ² ≥ 0, squared distance of a client's gradient from the mean one
    gap: float  #: F = f(x₀) − f* ≥ 0
    #: Ψ_G ≥ 0. The poster says "defined in the paper", which was not to be had; a bound on the squared norm of the
    #: global gradient, by what is said of it elsewhere.
    gradient: float = 0.0


def convergence_terms(constants, *, n_clients, rounds, steps, local_rate, server_rate, second_moment, weight_error):
    r"""Evaluate Theorem 2 (Wang & Ji, ICLR 2024), with 1 for the factor that its O leaves open.

    Parameters
    ----------
    constants : Smoothness
        L, σ², δ², F, Ψ_G.
    n_clients, rounds, steps : int
        N, T and I.
    local_rate, server_rate : float
        γ and η.
    second_moment, weight_error : float
        :math:`Q = \max_t \frac1N \sum_n p_n (\omega_t^n)^2` and :math:`\frac{1}{NT} \sum_{t,n} E[(p_n \omega_t^n -
        1)^2]`, from `solvers.participation`.

    Returns
    -------
    start, weights, sampling, drift : float
        :math:`F / (\gamma\eta IT)`, :math:`\Psi_G + \delta^2 + \gamma^2L^2I\sigma^2` times the weight error,
        :math:`\gamma\eta LQ(I\delta^2 + \sigma^2) / N` and :math:`\gamma^2L^2I(I\delta^2 + \sigma^2)`: together the
        mean squared gradient norm over the rounds.

    Raises
    ------
    InvalidProblem
        When the rates are larger than the theorem allows: :math:`\gamma \le 1 / (4\sqrt{15} L I)`, :math:`\gamma\eta
        \le \min\{1/(4LI), N/(54LIQ)\}`. (In one place the poster's root covers L and I too.)
    """
    both, scale = local_rate * server_rate, constants.lipschitz * steps
    local, product = 1 / (4 * math.sqrt(15) * scale), min(1 / (4 * scale), n_clients / (54 * scale * second_moment))
    if local_rate > local * (1 + 1e-12) or both > product * (1 + 1e-12):
        raise InvalidProblem(
            f"Theorem 2 needs a local rate of at most {local:g} and a product of both of at most {product:g}; "
            f"got {local_rate:g} and {both:g}"
        )
    squared = (local_rate * constants.lipschitz) ** 2 * steps
    spread = steps * constants.divergence + constants.noise
    return (
        constants.gap / (both * steps * rounds),
        (constants.gradient + constants.divergence + squared * constants.noise) * weight_error,
        both * constants.lipschitz * second_moment * spread / n_clients,
        squared * spread,
    )


# -- CA-Fed ------------------------------------------------------------------------------------------------------------


def sweep_correlation(problem, correlation, phi):
    r"""Minimise the total error where leaving clients out also lowers the correlation (guideline B).

    Of independent clients only those with q > 0 shape the chain, so that
    :math:`C = \psi + \phi / \ln(1/\lambda(P'))` with :math:`\lambda(P') = (\max_{q_k > 0} \lambda_k + 1)/2` (Rodio
    et al., INFOCOM 2023, Sec. III-D) depends on the *support* of q, but only through its largest λ. For each
    distinct λ the problem over the clients of at most that λ is convex; the best of them is the optimum. They are
    solved from the largest λ down: the rest of the error only grows as clients leave, so a threshold whose constant
    plus that rest cannot win is skipped. (φ, C_P, T_P and M would shrink with the support too; like the paper's
    guideline this keeps them.)

    Parameters
    ----------
    problem : TotalErrorProblem
        With ``bias="tv"`` (χ² is infinite as soon as a client is left out) and ``constant`` ψ alone.
    correlation : (n,) array-like
        λ_k in (-1, 1) of each client.
    phi : float
        φ ≥ 0 of Theorem 2.

    Returns
    -------
    (n,) ndarray
        The best weights q over all clients, 0 on those left out.
    """
    if problem.bias != "tv":
        raise InvalidProblem("guideline B needs bias='tv': χ² is infinite as soon as a client is left out")
    lam = np.asarray(correlation, dtype=np.float64)
    solved = []
    rest, best = -math.inf, math.inf  # a lower bound on the error without the correlation's constant; the best so far
    for threshold in np.unique(lam)[::-1].tolist():
        constant = phi / math.log(2.0 / (threshold + 1.0))
        if rest + constant >= best:
            continue
        answer = solve(problem.restricted(lam <= threshold))
        rest = max(rest, -math.inf if answer.bound is None else answer.bound)
        solved.append((threshold, answer.objective + constant, answer))
        best = min(best, answer.objective + constant)
    threshold, _, answer = min(solved, key=lambda entry: entry[1])
    x = np.zeros(problem.n)
    x[lam <= threshold] = answer.x
    return x
