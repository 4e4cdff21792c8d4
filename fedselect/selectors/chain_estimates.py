"""Estimates of two-state availability chains, for CA-Fed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.selectors.checks import check_choice, check_size
from fedselect.selectors.oracle import Rates, rates_at

__all__ = ["ChainEstimates", "KnownChains"]


class ChainEstimates:
    r"""Bayesian estimates of each client's availability π and eigenvalue λ from what is observed (CA-Fed, §IV-B).

    With a Beta prior of H pseudo-observations,

    .. math:: \hat\pi = \frac{\text{rounds active} + H \pi_0}{\text{rounds} + H}, \quad
              \hat s_a = \frac{n_{aa} + H s_{a,0}}{n_{a\cdot} + H}, \quad
              \hat s_i = \frac{n_{ii} + H s_{i,0}}{n_{i\cdot} + H}, \quad \hat\lambda = \hat s_a + \hat s_i - 1,

    where :math:`n_{xy}` counts transitions between consecutive rounds (the first round gives none), and the stay
    probabilities of the prior are :math:`s_a = \lambda + (1 - \lambda) \pi` and :math:`s_i = 1 - (1 - \lambda) \pi`.
    λ is trace minus one of the 2 x 2 transition matrix. The defaults are Beta(1, 1) for π and for each row.

    Parameters
    ----------
    clients : int
        Number of clients N.
    strength : float
        H > 0, in rounds.
    availability, correlation : float or (N,) array-like
        π_0 in (0, 1) and λ_0 of the prior.
    denominator : {"row", "total"}
        ``"row"``: as above, consistent. ``"total"``: as the authors' code has it, both rows over all rounds, and a
        phantom transition from inactive to inactive before the first round; that tends to :math:`-2\pi(1 - \pi)(1 -
        \lambda)` and not to λ. (Their prior is H = 100 at the *true* values.)

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(
        self,
        clients: int,
        *,
        strength: float = 2.0,
        availability: ArrayLike = 0.5,
        correlation: ArrayLike = 0.0,
        denominator: Literal["row", "total"] = "row",
    ) -> None:
        n = check_size(clients, "the number of clients")
        pi, lam = np.broadcast_to(availability, n).astype(float), np.broadcast_to(correlation, n).astype(float)
        if not strength > 0:
            raise ConfigError(f"the strength of the prior must be a positive number of rounds; got {strength}")
        if not ((pi > 0) & (pi <= 1) & (np.abs(lam) <= 1)).all():
            raise ConfigError("the prior's availability must lie in (0, 1] and its correlation in [-1, 1]")
        check_choice("denominator", denominator, ("row", "total"))
        self.strength, self.denominator = strength, denominator
        self._prior = np.stack([pi, lam + (1 - lam) * pi, 1 - (1 - lam) * pi])  # π, s_a, s_i
        self._rounds = 0
        #: Rounds active; transitions from active, of these to active; from inactive, of these to inactive.
        self._counts = np.zeros((5, n), dtype=np.int64)
        self._before = np.zeros(n, dtype=np.bool_)

    def observe(self, round: int, available: NDArray[np.bool_]) -> None:
        """Record who is available in one more round."""
        if self._rounds > 0 or self.denominator == "total":
            before = self._before
            self._counts[1:] += np.stack([before, before & available, ~before, ~before & ~available])
        self._counts[0] += available
        self._rounds += 1
        self._before = available.copy()

    @property
    def availability(self) -> NDArray[np.float64]:
        """Estimate of π, shape (N,), in (0, 1]."""
        return (self._counts[0] + self.strength * self._prior[0]) / (self._rounds + self.strength)

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Estimate of λ, shape (N,), in [-1, 1]."""
        _, left, stay, idle, stay_idle = self._counts
        if self.denominator == "total":
            left = idle = np.full_like(left, self._rounds)
        active = (stay + self.strength * self._prior[1]) / (left + self.strength)
        inactive = (stay_idle + self.strength * self._prior[2]) / (idle + self.strength)
        return np.clip(active + inactive - 1.0, -1.0, 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"rounds": self._rounds, "counts": self._counts.copy(), "before": self._before.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts."""
        self._rounds = int(state["rounds"])
        self._counts = np.array(state["counts"], dtype=np.int64)
        self._before = np.array(state["before"], dtype=np.bool_)


class KnownChains:
    """The true availability and correlation, from an oracle.

    Parameters
    ----------
    availability : (N,) array-like, or callable ``round -> (N,)``
        π in [0, 1].
    correlation : (N,) array-like
        λ in [-1, 1].
    """

    def __init__(self, availability: Rates, correlation: ArrayLike) -> None:
        self._rates = availability
        self.correlation = np.array(correlation, dtype=np.float64)
        self.availability = np.empty(0)

    def observe(self, round: int, available: NDArray[np.bool_]) -> None:
        """Look up the round's true availability."""
        self.availability = np.maximum(rates_at(self._rates, round), 1e-12)  # a client that is never there stays last

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the truth has no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing."""
