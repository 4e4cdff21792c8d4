"""Clients that miss a deadline: slow ones often, quick ones seldom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.dropout import DROPOUT
from fedselect.errors import ConfigError
from fedselect.randomness import generator

__all__ = ["Deadline", "deadline"]


class Deadline:
    r"""A selected client returns if its time for the round is within the deadline.

    Client k takes :math:`T_{k,t} = \tau_k e^{\sigma \epsilon_{k,t}}`, ε standard normal, so that it returns with
    probability :math:`\Phi(\ln(D / \tau_k) / \sigma)`.

    Parameters
    ----------
    medians : (N,) array-like
        Median time of each client τ, positive, in any unit.
    deadline : float
        D > 0, in the same unit.
    jitter : float
        σ ≥ 0; 0 makes every round of a client take the same time.
    seed : int
        Seed of the run.

    Raises
    ------
    ConfigError
        When a value is out of range.
    """

    def __init__(self, medians: NDArray[np.float64], deadline: float, jitter: float, seed: int) -> None:
        self.medians = np.asarray(medians, dtype=np.float64)
        if not ((self.medians > 0) & np.isfinite(self.medians)).all():
            raise ConfigError("median times must be positive numbers")
        if not deadline > 0:
            raise ConfigError(f"deadline must be a positive number; got {deadline}")
        if not (jitter >= 0 and np.isfinite(jitter)):
            raise ConfigError(f"jitter must be a number of at least 0; got {jitter}")
        self.deadline, self.jitter, self.seed = deadline, jitter, seed

    def times(self, round: int) -> NDArray[np.float64]:
        """Time each client would take in ``round``, shape (N,)."""
        rng = generator(self.seed, "dropout", round)
        return self.medians * np.exp(self.jitter * rng.standard_normal(self.medians.size))

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in time in ``round`` if they were selected, shape (N,)."""
        return self.times(round) <= self.deadline

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to return in time, shape (N,)."""
        from scipy.special import ndtr

        if self.jitter == 0:
            return (self.medians <= self.deadline).astype(np.float64)
        return ndtr(np.log(self.deadline / self.medians) / self.jitter)


@DROPOUT.register("deadline")
def deadline(
    clients: int,
    seed: int,
    *,
    deadline: float = 2.0,
    spread: float = 0.5,
    jitter: float = 0.3,
    epochs: list[int] | None = None,
) -> Deadline:
    r"""Slow clients miss the deadline often, as under E3CS's deadline aggregation (Eq. 5).

    The median time of client k is :math:`\tau_k = e_k e^{s z_k}`, z standard normal, e its local epochs, drawn once
    from a list. The paper fixes success rates by hand (`success_classes`) and epochs 1 to 4 independent of them;
    here the rates follow from times. The unit is a median client's time for one epoch.

    Parameters
    ----------
    clients : int
        Number of clients N.
    seed : int
        Seed of the run.
    deadline : float
        D > 0.
    spread : float
        s ≥ 0: how much clients differ in speed.
    jitter : float
        σ ≥ 0: how much a client's rounds differ.
    epochs : list of int, optional
        Epochs to draw from, at least 1 each; everyone has one by default, and E3CS has [1, 2, 3, 4].

    Raises
    ------
    ConfigError
        When an option is out of range.
    """
    if not (spread >= 0 and np.isfinite(spread)):
        raise ConfigError(f"spread must be a number of at least 0; got {spread}")
    work = np.array([1] if epochs is None else epochs)
    if work.size == 0 or (work < 1).any():
        raise ConfigError(f"epochs must be a list of numbers of at least 1; got {epochs}")
    # "Round" 1 of the profile, so that speeds and availability rates have nothing to do with each other.
    rng = generator(seed, "profile", 1)
    medians = np.exp(spread * rng.standard_normal(clients)) * rng.choice(work, clients)
    return Deadline(medians, deadline, jitter, seed)
