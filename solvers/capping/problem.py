"""The capping problem: inclusion probabilities close to given weights, above a floor and below 1 (E3CS, Eqs. 17-23)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import integer, number, takes_duals, vector
from solvers.errors import InvalidProblem
from solvers.options import Above, AtLeast
from solvers.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class CappingProblem(Problem):
    r"""Give each of K clients a floor of probability, and share out the rest by weight, up to 1 each.

    With the residual mass :math:`q = k - K\sigma` and the proportional shares :math:`v_i = q\, w_i / \sum_j w_j`,

    .. math:: \min_p \; \sum_i r_i \log\frac{r_i}{v_i} - r_i + v_i, \quad r = p - \sigma, \quad
              \text{s.t.} \quad \sum_i r_i = q, \quad 0 \le r_i \le 1 - \sigma

    the generalised Kullback-Leibler projection of the shares on the shifted capped simplex. It is strictly convex;
    its solution is :math:`r_i = \min(w_i / \alpha,\, 1 - \sigma)`, which is E3CS's ProbAlloc (Huang et al.,
    IEEE Internet of Things Journal 2022, Algorithm 2 and Eqs. 17-23, read so that no probability exceeds 1: see
    `as_printed`). The objective is 0 when nothing exceeds 1 and grows with what has to be taken from the capped
    clients.

    With σ > 0 this is *not* the projection of the weights on :math:`\{\sigma \le p \le 1\}`, whose solution is
    :math:`\mathrm{clip}(\lambda w_i, \sigma, 1)`: the floor is given to every client first.

    Parameters
    ----------
    weights : (K,) array-like, optional
        Positive weights w. Give these or ``log_weights``.
    log_weights : (K,) array-like, optional
        Logarithms of the weights; ±1e4 neither overflows nor underflows.
    size : int
        Expected number k of clients drawn, 1 ≤ k ≤ K: the sum of the probabilities.
    floor : float
        Smallest probability σ of any client (the fairness quota), 0 ≤ σ ≤ k/K.

    Raises
    ------
    InvalidProblem
        When an argument is not as described.

    Notes
    -----
    Decisions are probabilities. `violation` measures the sum relative to ``size``.

    Examples
    --------
    >>> from solvers import solve
    >>> problem = CappingProblem(weights=[8.0, 4.0, 1.0, 1.0, 1.0, 1.0], size=3, floor=0.2)
    >>> solution = solve(problem)
    >>> solution.x.round(3).tolist(), round(solution.details["alpha"], 6), solution.details["overflow"].tolist()
    ([1.0, 0.7, 0.325, 0.325, 0.325, 0.325], 8.0, [0])
    """

    weights: NDArray[np.float64] | None = None
    log_weights: NDArray[np.float64] | None = None
    size: int
    floor: float = 0.0

    sense: ClassVar[Literal["min"]] = "min"
    family: ClassVar[str] = "capping"
    tolerance: ClassVar[float] = 1e-11

    def __post_init__(self) -> None:
        if (self.weights is None) == (self.log_weights is None):
            given = "neither" if self.weights is None else "both"
            raise InvalidProblem(f"give weights or log_weights, one of the two; got {given}")
        name = "log_weights" if self.weights is None else "weights"
        limits, hint = ((), "") if self.weights is None else ((Above(0),), "where weights underflow, give log_weights")
        array = vector(getattr(self, name), name, *limits, hint=hint)
        n, size = array.shape[0], integer(self.size, "size")
        if not 1 <= size <= n:
            raise InvalidProblem(f"size must lie between 1 and the number of clients, {n}; got {size}")
        floor = number(self.floor, "floor", AtLeast(0))
        highest = size / n
        if not floor <= highest * (1 + 1e-12):
            raise InvalidProblem(f"floor must lie between 0 and size / clients, {highest:g}; got {floor:g}")
        self._freeze(**{name: array}, size=size, floor=min(floor, highest))

    @property
    def n(self) -> int:
        """Number of clients K."""
        array = self.log_weights if self.weights is None else self.weights
        assert array is not None
        return array.shape[0]

    @cached_property
    def mass(self) -> float:
        """Residual mass q = k − Kσ, what is left to share out once every client has the floor; 0 if it is rounding."""
        mass = self.size - self.n * self.floor
        return mass if mass > 1e-12 * self.size else 0.0

    @property
    def room(self) -> float:
        """Largest probability above the floor, 1 − σ."""
        return 1.0 - self.floor

    @cached_property
    def logs(self) -> NDArray[np.float64]:
        """Logarithms of the weights."""
        if self.log_weights is not None:
            return self.log_weights
        assert self.weights is not None  # one of the two is given
        logs: NDArray[np.float64] = np.log(self.weights)
        logs.setflags(write=False)
        return logs

    @cached_property
    def log_total(self) -> float:
        """Logarithm of the sum of the weights."""
        return log_sum(self.logs)

    @cached_property
    def log_shares(self) -> NDArray[np.float64]:
        """Logarithms of the proportional shares v, which sum to `mass`; defined where `mass` is positive."""
        below = self.logs - self.logs.max()  # relative to the largest, so that a common factor costs no precision
        shares = below - (log_sum(below) - math.log(self.mass))
        shares.setflags(write=False)
        return shares

    @property
    def scale(self) -> float:
        """Mass times one plus the range of the log-weights: a size of what the objective adds up."""
        return self.mass * (1.0 + float(self.logs.max() - self.logs.min()))

    def decision(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return ``x`` as a vector of K floats; raises `ValueError` for another shape."""
        return self._vector(x, "probability per client", np.float64)

    def objective(self, x: ArrayLike) -> float:
        """Generalised KL divergence of ``x − floor`` from the proportional shares; never negative."""
        if self.mass == 0:
            return 0.0
        r = np.maximum(self.decision(x) - self.floor, 0.0)
        with np.errstate(divide="ignore"):
            logs = np.log(r)
        terms = np.where(r > 0, r * (np.maximum(logs, -1e300) - self.log_shares), 0.0)
        return max(0.0, float(terms.sum()) + (self.mass - float(r.sum())))

    def violation(self, x: ArrayLike) -> float:
        """Return the largest of: excess over 1, shortfall below the floor, and ``|Σx − size| / size``."""
        p = self.decision(x)
        return float(max(p.max() - 1.0, self.floor - p.min(), abs(p.sum() - self.size) / self.size, 0.0))

    def share_out(self, capped: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
        """Probabilities, multiplier and overflow set that follow from clients known to overflow; see `share_out`."""
        if self.mass == 0:
            return np.full(self.n, self.size / self.n), 0.0, np.zeros(self.n, dtype=bool)
        return share_out(self.log_shares, self.size, self.floor, capped)

    def overflow(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted ids of the clients that ``x`` holds at 1 and whose share, of what the others at 1 leave, exceeds it.

        This is the paper's S_t, whose weights the round leaves unchanged (Eq. 16). A client whose share is 1 exactly
        has probability 1 too, but is not in it. Where every client has probability 1, those of the smallest weight
        are not in it either.

        Parameters
        ----------
        x : (K,) array-like
            Probabilities, as a method returned them.
        """
        _, _, capped = self.share_out(np.zeros(self.n, dtype=bool))
        return np.flatnonzero(capped & (self.decision(x) >= 1.0 - 1e-9))

    def dual_bound(self, multiplier: float) -> float:
        r"""Return a valid lower bound from any multiplier μ of the sum, with a margin for its rounding.

        .. math:: d(\mu) = q (1 + \mu) - \sum_i \psi(\log v_i + \mu), \qquad
                  \psi(t) = \begin{cases} e^t & e^t \le 1 - \sigma \\
                  (1 - \sigma)(1 + t - \log(1 - \sigma)) & \text{otherwise} \end{cases}

        the Lagrangian minimised over each :math:`0 \le r_i \le 1 - \sigma` by itself. It is largest, and equal to
        the optimum, at :math:`\mu = \log(r_i / v_i)` of the clients that are not capped.
        """
        if self.mass == 0:
            return 0.0
        shares, top = self.log_shares, math.log(self.room)
        capped = shares + multiplier > top
        m = int(capped.sum())
        free, held = np.exp(shares[~capped] + multiplier), 1.0 + shares[capped] - top
        # The multiplier's parts of q(1 + μ) and of the capped terms are taken together: each alone may be far larger.
        left = (self.size - m) - (self.n - m) * self.floor
        value = left * multiplier + self.mass - float(free.sum()) - self.room * float(held.sum())
        # A logarithm errs by its own rounding, which an exponential turns into a relative error; a pairwise sum by
        # log2(K) roundings of its terms. Doubled.
        size = abs(left * multiplier) + self.mass + float(free.sum()) + self.room * float(np.abs(held).sum())
        logs = float((free * (np.abs(shares[~capped]) + abs(multiplier))).sum())
        logs += self.room * float(np.abs(shares[capped]).sum())
        # Decisions are doubles that sum to k only up to k roundings, and the multiplier is the price of that.
        sums = 2.0 * self.size * (1.0 + abs(multiplier))
        margin = 2.0 * np.finfo(np.float64).eps * ((math.log2(self.n + 1) + 16.0) * size + 2.0 * logs + sums)
        return max(0.0, value - margin)

    @takes_duals
    def kkt_residuals(self, x: ArrayLike, multiplier: float, upper: NDArray[np.float64]) -> dict[str, float]:
        r"""Return the distance of ``x`` and the duals from the optimality conditions, in units of probability.

        Parameters
        ----------
        x : (K,) array-like
            Probabilities.
        multiplier : float
            μ of the sum: :math:`\log(r_i / v_i) - \mu + \nu_i = 0`.
        upper : (K,) ndarray
            ν ≥ 0 of the bound :math:`r_i \le 1 - \sigma`.

        Returns
        -------
        dict
            ``stationarity`` :math:`\max |r_i - v_i e^{\mu - \nu_i}|`, ``complementarity``
            :math:`\max \nu_i (1 - p_i)`, ``dual_violation`` :math:`\max(-\nu_i, 0)`.
        """
        p = self.decision(x)
        wanted = np.zeros(self.n) if self.mass == 0 else np.exp(self.log_shares + (multiplier - upper))
        return {
            "stationarity": float(np.abs(p - self.floor - wanted).max()) if self.mass else 0.0,
            "complementarity": float(np.abs(upper * (1.0 - p)).max()),
            "dual_violation": float(max(0.0, -upper.min())),
        }


#: A share above the ceiling by less than this is rounding of an exact tie.
TIE = 1e-12


def share_out(
    log_shares: NDArray[np.float64], size: int, floor: float, capped: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
    """Cap ``capped``, share the rest out in proportion, and cap the clients that this lifts above 1, until none is.

    Starting from any subset of the overflow set (the empty one included) this ends at the overflow set: a client
    above 1 stays above it when more clients are capped.

    Parameters
    ----------
    log_shares : (K,) ndarray
        Logarithms of the proportional shares, which sum to the mass above the floor; the mass must be positive.
    size : int
        Sum k of the probabilities.
    floor : float
        Smallest probability σ.
    capped : (K,) ndarray of bool
        Clients known to overflow.

    Returns
    -------
    x : (K,) ndarray
        The probabilities.
    multiplier : float
        μ, the logarithm of probability above the floor over proportional share, for clients not capped.
    capped : (K,) ndarray of bool
        The overflow set.
    """
    t, n, k, room = log_shares, log_shares.shape[0], size, 1.0 - floor
    if k == n:  # every client has 1, and the level is not unique: the highest is the smallest share's
        return np.ones(n), math.log(room) - float(t.min()), t > t.min()
    while True:
        m = int(capped.sum())
        free = t if m == 0 else t[~capped]
        top = float(free.max())
        parts = np.exp(free - top)
        # (k - m) - (K - m)σ rather than q - m(1 - σ): the integers are exact.
        left, total = (k - m) - (n - m) * floor, float(parts.sum())
        parts *= left / total
        over = parts > room * (1 + TIE)
        if not over.any() or over.all():
            break
        capped = capped.copy()
        capped[~capped] = over
    x = np.ones(n)
    x[~capped] = np.minimum(parts + floor, 1.0)
    multiplier = 0.0 if m == 0 else math.log(left) - top - math.log(total)
    return x, multiplier, capped


def tail_sums(descending: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithms of R_m: the sum over ``rest`` and ``descending[m:]``, for each m."""
    base = [log_sum(rest)] if rest.size else [-math.inf]
    return np.logaddexp.accumulate(np.concatenate([base, descending[::-1]]))[:0:-1]


def log_sum(logs: NDArray[np.float64]) -> float:
    """Return the logarithm of the sum of exponentials."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
