"""CA-Fed's problems: clients to keep (Eqs. 15-19), weights of fastest convergence (27-29), of least error (13-14)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import distribution, frozen_array, number, one_of, takes_duals, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast, AtMost
from solvers.problem import Problem


def transport(costs: NDArray[np.float64], importance: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    r"""Minimise :math:`\langle d, p \rangle + \Gamma d_{TV}^2(\alpha, p)` over the simplex, by sorting, in O(n log n).

    Mass leaves the dearest clients and goes to the cheapest one, until the next unit saves less than the bias it adds.

    Parameters
    ----------
    costs : (n,) ndarray
        Linear cost d of each client.
    importance : (n,) ndarray
        α ≥ 0, of sum at most 1; what is missing belongs to clients that p cannot serve.
    gamma : float
        Weight Γ ≥ 0 of the squared total variation.

    Returns
    -------
    (n,) ndarray
        p ≥ 0 with sum 1.
    """
    order = np.argsort(-costs, kind="stable")
    least = float(costs[order[-1]])
    mass = np.cumsum(importance[order])
    missing = max(0.0, 1.0 - float(mass[-1]))
    saving = costs[order] - least
    if gamma > 0:
        # A unit of client j saves saving_j; at total variation t it costs 2Γt. Both are monotone along the order.
        with np.errstate(over="ignore"):
            moved = float(np.minimum(mass, saving / (2.0 * gamma) - missing).max())
        moved = max(0.0, moved)
    else:
        moved = float(mass[-1])
    p = np.zeros_like(importance)
    before = np.concatenate([[0.0], mass[:-1]])
    p[order] = importance[order] - np.clip(moved - before, 0.0, importance[order])
    p[order[-1]] += moved + missing
    return p / p.sum()


def transport_bound(
    costs: NDArray[np.float64], importance: NDArray[np.float64], gamma: float, variation: float
) -> float:
    r"""Return a lower bound on the minimum of `transport`, valid for any ``variation`` t ≥ 0.

    It is tight at the minimiser's total variation.

    From :math:`x^2 \ge 2tx - t^2` the problem becomes a transport with unit cost 2Γt, whose optimum is explicit:
    :math:`\sum_k \alpha_k d_k - \sum_k \alpha_k (d_k - d_{\min} - 2\Gamma t)_+ - \Gamma t^2` (with the missing
    importance at infinite cost). A margin for the rounding of the sums is subtracted.
    """
    least = float(costs.min())
    missing = max(0.0, 1.0 - float(importance.sum()))
    price = 2.0 * gamma * variation
    value = float((importance * np.minimum(costs, least + price)).sum())
    value += missing * (least + price) - gamma * variation * variation
    margin = 4.0 * (costs.shape[0] + 10) * float(np.finfo(np.float64).eps)
    return value - margin * (float(np.abs(costs).max()) + gamma * (1.0 + variation) ** 2)


#: Smallest scale that is accepted, beside 0: its relative rounding, 2.2e-16, is still a normal number. Far below it the
#: margins of bounds underflow.
_SMALLEST = 1e-280


@dataclass(frozen=True, eq=False)
class ExclusionProblem(Problem):
    r"""Choose which clients to keep, so that the error estimate of CA-Fed is smallest.

    .. math:: \min_{\emptyset \ne S} \; \hat\epsilon(S) = \sum_k p_k e_k + d_{TV}^2(\alpha, p) \, \Gamma',
              \qquad p_k \propto \pi_k q_k, \quad q_k = \alpha_k / \pi_k \text{ on } S, \; 0 \text{ elsewhere}

    with the loss gaps :math:`e_k = \hat F_k - \hat F_k^*` (Rodio et al., INFOCOM 2023, Eqs. 15-19). The availability
    cancels in :math:`p_k = \alpha_k / \alpha(S)` and the total variation is the excluded importance, so

    .. math:: \hat\epsilon(S) = \frac{\sum_S \alpha_k e_k}{\alpha(S)} + (1 - \alpha(S))^2 \, \Gamma'.

    In the choice, availability and correlation thus decide only in which *order* Algorithm 1 (method ``ca-fed``)
    examines clients. `weights` divides by the availability.

    Parameters
    ----------
    importance : (n,) array-like
        Target importance α > 0 of each client; sums to 1 (to 1e-9; it is normalised).
    loss_gaps : (n,) array-like
        Estimated loss minus estimated smallest loss of each client, in units of loss. Of any sign: the paper's
        running minimum makes them non-negative, the constant estimate in the authors' code need not.
    heterogeneity : float, optional
        Γ' ≥ 0, in units of loss; by default (``None``) Eq. 18, the largest loss gap over all clients, which must
        not be negative then. Multiply it to weigh the bias against the loss (the paper's footnote 4).
    availability : (n,) array-like, optional
        Probability π of being available, in (0, 1]; 1 by default.
    correlation : (n,) array-like, optional
        Second eigenvalue λ of each client's two-state availability chain, in [-1, 1]; 0 by default.
    threshold : float
        τ ≥ 0 of Algorithm 1, in units of loss: a client is excluded where that lowers the estimate by at least τ.
        It steers ``ca-fed``, whose answer ``cp-sat`` begins with; the objective does not contain it.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or loss gaps and heterogeneity are too small to be computed with.
    """

    importance: NDArray[np.float64]
    loss_gaps: NDArray[np.float64]
    heterogeneity: float | None = None
    availability: NDArray[np.float64] = None  # type: ignore[assignment]  # the constructor fills both in
    correlation: NDArray[np.float64] = None  # type: ignore[assignment]
    threshold: float = 0.0

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "weighting"

    def __post_init__(self) -> None:
        importance = distribution(self.importance, "importance", Above(0), hint="leave clients of no weight out")
        n = importance.shape[0]
        loss_gaps = vector(self.loss_gaps, "loss_gaps", n=n)
        available = np.ones(n) if self.availability is None else self.availability
        availability = vector(available, "availability", Above(0), AtMost(1), n=n)
        correlated = np.zeros(n) if self.correlation is None else self.correlation
        correlation = vector(correlated, "correlation", AtLeast(-1), AtMost(1), n=n)
        if self.heterogeneity is None:
            heterogeneity = float(loss_gaps.max())
            if heterogeneity < 0:
                raise InvalidProblem(
                    f"heterogeneity=None takes the largest loss gap, which is {heterogeneity:g}; "
                    "it must be non-negative, so state heterogeneity yourself"
                )
        else:
            heterogeneity = number(self.heterogeneity, "heterogeneity", AtLeast(0))
        values = {
            "importance": importance,
            "loss_gaps": loss_gaps,
            "heterogeneity": heterogeneity,
            "availability": availability,
            "correlation": correlation,
            "threshold": number(self.threshold, "threshold", AtLeast(0)),
        }
        self._freeze(**values)
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
        """Return ``x`` as a mask of the kept clients.

        Raises `ValueError` for another shape or entries beside 0 and 1.
        """
        array = self._vector(x, "entry per client")
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
        """Return the error estimate ε̂ (Eq. 19) of keeping ``x``; infinite when none is kept."""
        kept = self.decision(x)
        mass = float(self.importance[kept].sum())
        if mass == 0.0:
            return math.inf
        gap = float((self.importance[kept] * self.loss_gaps[kept]).sum()) / mass
        excluded = float(self.importance[~kept].sum())
        return gap + excluded * excluded * self.gamma

    def violation(self, x: ArrayLike) -> float:
        """Return 1 when no client is kept, else 0."""
        return 0.0 if self.decision(x).any() else 1.0

    def weights(self, x: ArrayLike) -> NDArray[np.float64]:
        """Aggregation weights q = α/π on the kept clients, 0 elsewhere; not renormalised, as in Algorithm 1."""
        return np.where(self.decision(x), self.importance / self.availability, 0.0)


@dataclass(frozen=True, eq=False)
class AggregationProblem(Problem):
    """Base of the two problems over aggregation weights q ≥ 0, Σq = Q: Theorem 2's ratio and its geometry.

    Parameters
    ----------
    availability : (n,) array-like
        π in (0, 1].
    variances : (n,) array-like or float
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
        availability = vector(self.availability, "availability", Above(0), AtMost(1))
        total, n = number(self.total, "total", Above(0)), availability.shape[0]
        is_one = not isinstance(self.variances, list | tuple) and np.ndim(self.variances) == 0
        variances = np.full(n, self.variances) if is_one else self.variances
        values = {
            "availability": availability,
            "variances": vector(variances, "variances", Above(0), n=n),
            "offset": number(self.offset, "offset", AtLeast(0)),
            "total": total,
        }
        self._freeze(**values)
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
        """Return ``x`` as n weights; raises `ValueError` for another shape."""
        return self._vector(x, "weight per client", np.float64)

    def violation(self, x: ArrayLike) -> float:
        """Return the largest of |Σq − Q| and −min q, relative to Q."""
        q = self.decision(x)
        worst = max(abs(float(q.sum()) - self.total), -float(q.min(initial=0.0))) / self.total
        return worst if not math.isnan(worst) else math.inf

    def ratio(self, q: NDArray[np.float64]) -> float:
        """Return Theorem 2's ratio ``(½ qᵀAq + B) / πᵀq``; infinite where πᵀq is 0."""
        reached = float((self.availability * q).sum())
        return (0.5 * float((self.curvature * q * q).sum()) + self.offset) / reached if reached else math.inf

    def biased_importance(self, x: ArrayLike) -> NDArray[np.float64]:
        """``p = π⊙q / πᵀq``, the importance with which training really weighs each client (n,)."""
        share = self.availability * self.decision(x)
        return share / share.sum()

    def from_importance(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights q with Σq = Q whose biased importance is ``p``."""
        q = np.maximum(p, 0.0) / self.availability
        return q * (self.total / q.sum())

    def slopes(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Return the gradient of the ratio as a function of the biased importance p.

        With :math:`h_k = 1 / (Q \pi_k)` and s = h·p (= 1/πᵀq) the ratio is
        :math:`\tfrac12 \sum_k (v_k/\pi_k) p_k^2 / s + B s`: convex in p and homogeneous of degree 1. Hence the
        ratio is at least ``slopes(q)·p`` at *every* p, whatever the q.
        """
        return self.variances * q + (self.offset / self.total - self.energy(q)) / self.availability

    def slope_errors(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a bound on the floating-point error of each of the `slopes`."""
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
    variances : (n,) array-like or float
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
        When an argument is not as described, or they overflow beside a small availability.
    """

    constant: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._freeze(constant=number(self.constant, "constant"))

    @property
    def scale(self) -> float:
        """The ratio at equal weights."""
        return self.ratio(np.full(self.n, self.total / self.n))

    def objective(self, x: ArrayLike) -> float:
        """``(½ qᵀAq + B) / πᵀq + C``; infinite where πᵀq is 0."""
        return self.ratio(self.decision(x)) + self.constant

    def lower_bound(self, x: ArrayLike) -> float:
        """Return a valid lower bound on the optimum, tight at the optimal weights; any q ≥ 0 gives one.

        The smallest of `slopes`, with C and a margin for rounding: the optimum over the simplex of the ratio's
        linear minorant at ``x``.
        """
        q = self.decision(x)
        return float((self.slopes(q) - self.slope_errors(q)).min()) + self.constant

    @takes_duals
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
            ``stationarity`` max|A q − λπ + θ − μ| / λ, ``dual_violation`` max(−μ, 0) / λ, ``complementarity``
            max(μ q) / (λ Q), and the identities ``ratio_identity`` |λ − (½qᵀAq + B)/πᵀq| / λ and
            ``theta_identity`` |θ − (B − ½qᵀAq)/Q| / λ. All are dimensionless and 0 at the optimum.
        """
        q = self.decision(x)
        gradient = self.curvature * q - ratio * self.availability + theta - mu
        return {
            "stationarity": float(np.abs(gradient).max()) / ratio,
            "dual_violation": float(np.maximum(-mu, 0.0).max()) / ratio,
            "complementarity": float(np.abs(mu * q).max()) / (ratio * self.total),
            "ratio_identity": abs(ratio - self.ratio(q)) / ratio,
            "theta_identity": abs(theta - (self.offset / self.total - self.energy(q))) / ratio,
        }


@dataclass(frozen=True, eq=False)
class TotalErrorProblem(AggregationProblem):
    r"""Aggregation weights that minimise the bound on optimisation error plus bias.

    .. math:: \min_{q \ge 0, \; 1^\top q = Q} \; \frac{\tfrac12 q^\top A q + B}{\pi^\top q} + C + w \, b(\alpha, p),
              \qquad p = \frac{\pi \odot q}{\pi^\top q}

    with :math:`b = \chi^2_{\alpha\|p} = \sum_k \alpha_k^2 / p_k - 1` (``bias="chi2"``, Rodio et al., INFOCOM 2023,
    Theorem 1 and Eq. 13) or :math:`b = d_{TV}^2(\alpha, p)` (``bias="tv"``, Theorem 3 and Eq. 14, with Γ' held
    fixed: in truth it depends on q, which makes Eq. 14 non-convex).

    **Not convex in q.** Appendix E claims that the χ² term is convex in q "by direct inspection". For three or more
    clients of different availability it need not be (the tests hold a counter-example), nor need the total variation.
    In y = q/πᵀq and s = 1/πᵀq, hence in p = π⊙y with s = Σₖ pₖ/(Qπₖ), both *are* convex, and that is how the
    problem is solved.

    Parameters
    ----------
    availability, variances, offset, total
        As in `OptimizationErrorProblem`: π, v, B and Q.
    importance : (n,) array-like
        Target importance α ≥ 0; together with ``excluded`` it sums to 1 (to 1e-9). χ² needs all of them positive.
    bias : {"chi2", "tv"}
        The bias term.
    bias_weight : float
        w ≥ 0 in the units of the ratio: κ²ΓΣηₜ for χ² and 4κ²Γ'Σηₜ for the total variation, which makes the value
        that of Eqs. 13-14 divided by 2κ²/Σηₜ (see `ConvergenceConstants.bias_weight`).
    constant : float
        C.
    excluded : float
        Importance of clients left out of the problem altogether, with p = 0; it counts in full in the total
        variation, and χ² (infinite then) does not accept it.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, or they overflow beside a small availability.
    """

    importance: NDArray[np.float64]
    bias: Literal["chi2", "tv"] = "chi2"
    bias_weight: float = 1.0
    constant: float = 0.0
    excluded: float = 0.0

    family: ClassVar[str] = "weighting"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.bias, "bias", ("chi2", "tv"))
        limit = Above(0) if self.bias == "chi2" else AtLeast(0)
        importance = vector(self.importance, "importance", limit, n=self.n, hint=f"bias={self.bias!r}")
        excluded = number(self.excluded, "excluded", AtLeast(0))
        if excluded > 0 and self.bias == "chi2":
            raise InvalidProblem(f"excluded must be 0 for bias='chi2', which is infinite otherwise; got {excluded:g}")
        whole = float(importance.sum()) + excluded
        if not abs(whole - 1.0) <= 1e-9:
            raise InvalidProblem(f"importance and excluded must sum to 1; they sum to {whole:.12g}")
        if abs(whole - 1.0) > np.finfo(np.float64).eps * (self.n + 1):
            importance, excluded = importance / whole, excluded / whole
            importance.setflags(write=False)
        values = {
            "importance": importance,
            "bias_weight": number(self.bias_weight, "bias_weight", AtLeast(0)),
            "constant": number(self.constant, "constant"),
            "excluded": excluded,
        }
        self._freeze(**values)

    @property
    def scale(self) -> float:
        """The ratio at the unbiased weights, plus the bias term there times its weight; the constant is left out."""
        q = self.unbiased()
        return self.ratio(q) + self.bias_weight * self.bias_term(self.biased_importance(q))

    def unbiased(self) -> NDArray[np.float64]:
        """Return the weights q ∝ α/π, whose bias term is the smallest there is."""
        return self.from_importance(self.importance if self.importance.any() else np.ones(self.n))

    def bias_term(self, p: NDArray[np.float64]) -> float:
        """χ² or squared total variation of a distribution ``p`` from the importance; infinite where χ² meets a 0."""
        if self.bias == "tv":
            return (0.5 * (float(np.abs(self.importance - p).sum()) + self.excluded)) ** 2
        if (p <= 0).any():
            return math.inf
        return float(((self.importance - p) ** 2 / p).sum())

    def objective(self, x: ArrayLike) -> float:
        """``(½ qᵀAq + B) / πᵀq + C + w · bias``; infinite where χ² is, or πᵀq is 0."""
        q = self.decision(x)
        ratio = self.ratio(q)
        if math.isinf(ratio):
            return ratio
        bias = self.bias_weight * self.bias_term(self.biased_importance(q)) if self.bias_weight > 0 else 0.0
        return ratio + self.constant + bias

    def multipliers(self, x: ArrayLike) -> dict[str, Any]:
        r"""Compute the multipliers of the problem in p, its convex form, that fit the weights ``x`` best.

        In p = π⊙q / πᵀq the problem is :math:`\min_p d(p) + w\,b(\alpha, p)` on :math:`1^\top p = 1, p \ge 0`, d the
        ratio. Its optimality conditions are :math:`\nabla d + t = \theta 1 + \mu`, with t a (sub)gradient of the
        bias term: :math:`t_k = -w\,\alpha_k^2/p_k^2` for χ², and for the squared total variation V² anything in
        [0, 2wV] where :math:`p_k = \alpha_k`, its upper end above and its lower end below.

        Returns
        -------
        dict
            ``theta``, θ of Σp = 1, the derivative of the optimum in that sum; ``mu`` (n,), μ ≥ 0 of p ≥ 0, what it
            costs per share to weigh a client that has no weight; ``slope`` (n,), t. They are the ``duals`` of the
            methods' solutions.
        """
        q = self.decision(x)
        p, costs, w = self.biased_importance(q), self.slopes(q), self.bias_weight
        if w == 0 or self.bias == "chi2":
            with np.errstate(divide="ignore"):
                slope = -w * (self.importance / p) ** 2 if w else np.zeros(self.n)
            theta = float(p @ (costs + slope))
        else:
            steepest = 2.0 * w * math.sqrt(self.bias_term(p))
            off = np.abs(p - self.importance) > 1e-7 * np.maximum(p, self.importance)
            slope = np.where(p > self.importance, steepest, 0.0)
            free = off & (p > 0)
            if free.any():
                theta = float(np.average((costs + slope)[free], weights=p[free]))
            else:  # between what the kinks allow
                theta = float(max(costs.max(), 0.0) if costs.max() <= costs.min() + steepest else np.median(costs))
            slope = np.where(off, slope, np.clip(theta - costs, 0.0, steepest))
        return {"theta": theta, "mu": np.maximum(costs + slope - theta, 0.0), "slope": slope}

    @takes_duals
    def kkt_residuals(
        self, x: ArrayLike, *, theta: float, mu: NDArray[np.float64], slope: NDArray[np.float64]
    ) -> dict[str, float]:
        """Return the distance of ``x`` and the `multipliers` from the optimality conditions of the problem in p.

        Returns
        -------
        dict of str to float
            ``stationarity`` max|∇d + t − θ − μ|·p̃, p̃ the larger of p and 1/n, ``complementarity`` max(μ p), both in
            units of `scale`, and ``bias_slope``, how far t is from the bias term's (sub)gradients, likewise.
        """
        q = self.decision(x)
        p, costs, w = self.biased_importance(q), self.slopes(q), self.bias_weight
        low = high = np.zeros(self.n)
        if w and self.bias == "chi2":
            low = high = -w * (self.importance / p) ** 2
        elif w:
            steepest = 2.0 * w * math.sqrt(self.bias_term(p))
            close = 1e-7 * np.maximum(p, self.importance)
            low = np.where(p > self.importance + close, steepest, 0.0)
            high = np.where(p < self.importance - close, 0.0, steepest)
        share = np.maximum(p, 1.0 / self.n)
        return {
            "stationarity": float((np.abs(costs + slope - theta - mu) * share).max()) / self.scale,
            "complementarity": float((np.abs(mu) * p).max()) / self.scale,
            "bias_slope": float((np.maximum(np.maximum(low - slope, slope - high), 0.0) * share).max()) / self.scale,
        }

    def lower_bound(self, x: ArrayLike) -> float:
        r"""Return a valid lower bound on the optimum, tight at the optimal weights; any q ≥ 0 gives one.

        The ratio is replaced by its linear minorant ``d·p`` at ``x`` (`slopes`), and
        :math:`\min_p d \cdot p + w \, b(\alpha, p)` over the simplex is bounded from its dual: for the total
        variation in closed form, for χ² by :math:`\max_{\nu < \min d} \; \nu + 2 \sum_k \alpha_k \sqrt{w (d_k - \nu)}
        - w`, which is valid at every ν. A margin for rounding is subtracted.
        """
        q = self.decision(x)
        costs = self.slopes(q) - self.slope_errors(q)
        if self.bias_weight == 0:
            return float(costs.min()) + self.constant
        if self.bias == "tv":
            p = transport(costs, self.importance, self.bias_weight)
            variation = math.sqrt(self.bias_term(p))
            return transport_bound(costs, self.importance, self.bias_weight, variation) + self.constant
        return self._chi2_bound(costs) + self.constant

    def chi2_depth(self, costs: NDArray[np.float64]) -> float:
        r"""Return by how much the multiplier ν of Σp = 1 lies below the least cost d: Σ α √(w / (d − ν)) = 1 there.

        The sum is at most 1 at depth w, and at least 1 at w·α² of the cheapest client; by bisection.
        """
        w, rise = self.bias_weight, costs - float(costs.min())
        low, high = w * float(self.importance[costs.argmin()]) ** 2, w
        for _ in range(80):
            depth = math.sqrt(low * high) if low > 0 else 0.5 * high
            if float((self.importance * np.sqrt(w / (rise + depth))).sum()) > 1.0:
                low = depth
            else:
                high = depth
        return high

    def _chi2_bound(self, costs: NDArray[np.float64]) -> float:
        w, least, depth = self.bias_weight, float(costs.min()), self.chi2_depth(costs)
        roots = self.importance * np.sqrt(w * (costs - least + depth))
        value = least - depth + 2.0 * float(roots.sum()) - w
        return value - self.rounding * (abs(least) + depth + float(roots.sum()) + w)

    def restricted(self, kept: ArrayLike) -> TotalErrorProblem:
        """Return the same problem over the clients of a mask alone; the others' importance becomes ``excluded``.

        Raises
        ------
        InvalidProblem
            When the mask is no mask of n clients, or keeps no client, or the bias is χ² and a client is left out.
        """
        mask = frozen_array(kept, "kept")
        if mask.shape != (self.n,) or not np.isin(mask, (0, 1)).all() or not mask.any():
            raise InvalidProblem(f"kept must be a mask of {self.n} booleans, not all false; got shape {mask.shape}")
        mask = mask.astype(np.bool_)
        fields: dict[str, Any] = {
            "availability": self.availability[mask],
            "variances": self.variances[mask],
            "importance": self.importance[mask],
            "excluded": self.excluded + float(self.importance[~mask].sum()),
        }
        return TotalErrorProblem(
            **fields,
            offset=self.offset,
            total=self.total,
            bias=self.bias,
            bias_weight=self.bias_weight,
            constant=self.constant,
        )
