"""The total-error problem: aggregation weights between fast convergence and small bias (CA-Fed, Eqs. 13-14)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.errors import InvalidProblem
from solvers.weighting import transport
from solvers.weighting.checks import finite, non_negative, per_client
from solvers.weighting.optimization_error.problem import AggregationProblem

__all__ = ["TotalErrorProblem"]


@dataclass(frozen=True, eq=False)
class TotalErrorProblem(AggregationProblem):
    r"""Aggregation weights that minimise the bound on optimisation error plus bias.

    .. math:: \min_{q \ge 0, \; 1^\top q = Q} \; \frac{\tfrac12 q^\top A q + B}{\pi^\top q} + C + w \, b(\alpha, p),
              \qquad p = \frac{\pi \odot q}{\pi^\top q}

    with :math:`b = \chi^2_{\alpha\|p} = \sum_k \alpha_k^2 / p_k - 1` (``bias="chi2"``, Rodio et al., INFOCOM 2023,
    Theorem 1 and Eq. 13) or :math:`b = d_{TV}^2(\alpha, p)` (``bias="tv"``, Theorem 3 and Eq. 14, with Γ' held
    fixed: in truth it depends on q, which makes Eq. 14 non-convex).

    **Not convex in q.** Appendix E claims that the χ² term is convex in q "by direct inspection". For three or more
    clients of different availability it is not (the tests hold a counter-example); neither is the total variation.
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
        When an argument is not as described.
    """

    importance: NDArray[np.float64]
    bias: Literal["chi2", "tv"] = "chi2"
    bias_weight: float = 1.0
    constant: float = 0.0
    excluded: float = 0.0

    family: ClassVar[str] = "weighting"

    def __post_init__(self) -> None:
        super().__post_init__()
        importance = per_client(self.importance, "importance", self.n)
        if self.bias not in ("chi2", "tv"):
            raise InvalidProblem(f"bias must be 'chi2' or 'tv'; got {self.bias!r}")
        smallest = float(importance.min())
        if smallest < 0 or (smallest == 0 and self.bias == "chi2"):
            wanted = "positive" if self.bias == "chi2" else "non-negative"
            raise InvalidProblem(f"importance must be {wanted} for bias={self.bias!r}; the smallest is {smallest:g}")
        excluded = non_negative(self.excluded, "excluded")
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
            "bias_weight": non_negative(self.bias_weight, "bias_weight"),
            "constant": finite(self.constant, "constant"),
            "excluded": excluded,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def scale(self) -> float:
        """The ratio at the unbiased weights, plus the bias term there."""
        q = self.unbiased()
        return self.ratio(q) + self.bias_weight * self.bias_term(self.biased_importance(q))

    def unbiased(self) -> NDArray[np.float64]:
        """The weights q ∝ α/π, whose bias term is the smallest there is."""
        return self.from_importance(self.importance if self.importance.any() else np.ones(self.n))

    def bias_term(self, p: NDArray[np.float64]) -> float:
        """χ² or squared total variation of a distribution ``p`` from the importance; infinite χ² where p is 0."""
        if self.bias == "tv":
            return (0.5 * (float(np.abs(self.importance - p).sum()) + self.excluded)) ** 2
        if (p <= 0).any():
            return math.inf
        return float(((self.importance - p) ** 2 / p).sum())

    def objective(self, x: ArrayLike) -> float:
        """``(½ qᵀAq + B) / πᵀq + C + w · bias``; infinite where χ² is."""
        q = self.decision(x)
        bias = self.bias_weight * self.bias_term(self.biased_importance(q)) if self.bias_weight > 0 else 0.0
        return self.ratio(q) + self.constant + bias

    def lower_bound(self, x: ArrayLike) -> float:
        r"""A valid lower bound on the optimum, tight at the optimal weights; any q ≥ 0 gives one.

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
            p = transport.cheapest(costs, self.importance, self.bias_weight)
            variation = math.sqrt(self.bias_term(p))
            return transport.lower_bound(costs, self.importance, self.bias_weight, variation) + self.constant
        return self._chi2_bound(costs) + self.constant

    def _chi2_bound(self, costs: NDArray[np.float64]) -> float:
        w, least = self.bias_weight, float(costs.min())
        # With ν = least − depth, Σ α √(w / (d − ν)) = 1 at the maximum; it is at most 1 at depth w, and more than 1
        # at w·α² of the cheapest client.
        low, high = w * float(self.importance[costs.argmin()]) ** 2, w
        rise = costs - least
        for _ in range(80):
            depth = math.sqrt(low * high) if low > 0 else 0.5 * high
            if float((self.importance * np.sqrt(w / (rise + depth))).sum()) > 1.0:
                low = depth
            else:
                high = depth
        roots = self.importance * np.sqrt(w * (rise + high))
        value = least - high + 2.0 * float(roots.sum()) - w
        return value - self.rounding * (abs(least) + high + float(roots.sum()) + w)

    def restricted(self, kept: ArrayLike) -> TotalErrorProblem:
        """The same problem over the clients of a mask alone; the others' importance becomes ``excluded``.

        Raises
        ------
        InvalidProblem
            When the mask is no mask of n clients, or keeps nobody, or the bias is χ² and someone is left out.
        """
        mask = np.asarray(kept)
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
