"""Dropout: selected clients whose update does not arrive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.protocol import DROPOUT, check_rates
from fedselect.errors import ConfigError
from fedselect.options import check_number
from fedselect.randomness import generator


class IndependentDropout:
    r"""Each selected client returns with its own rate :math:`\rho_k`, independently of everything else.

    Parameters
    ----------
    rates : (N,) array-like
        Probability of each client to return, in [0, 1].
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1] or NaN.
    """

    def __init__(self, rates: NDArray[np.float64], seed: int) -> None:
        self._rates = check_rates(rates, "return rates")
        self.seed = seed

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in ``round`` if they were selected, shape (N,)."""
        # 1 - u <= rate: with the same draw a client of a higher rate returns whenever one of a lower rate does.
        return generator(self.seed, "dropout", round).random(self._rates.size) >= 1 - self._rates

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to return in ``round``, shape (N,)."""
        return self._rates.copy()


@DROPOUT.register("none")
def no_dropout(n_clients: int, seed: int = 0) -> IndependentDropout:
    """Let every selected client return."""
    return IndependentDropout(np.ones(n_clients), seed)


@DROPOUT.register("bernoulli")
def bernoulli_dropout(n_clients: int, seed: int = 0, *, rate: float = 0.1) -> IndependentDropout:
    """Let every selected client go missing with probability ``rate``."""
    check_number("the dropout rate", rate, 0, 1)
    return IndependentDropout(np.full(n_clients, 1.0 - rate), seed)


@DROPOUT.register("success-classes", "e3cs")
def success_classes(
    n_clients: int, seed: int = 0, *, rates: list[float] | None = None, shuffle: bool = False
) -> IndependentDropout:
    r"""Deal clients into classes that return more or less often (E3CS, Section VI: 0.1, 0.3, 0.6, 0.9).

    A selected client of class c returns with probability :math:`\rho_c`. Classes are equal in
    size (to within one client, the first being the larger).

    Parameters
    ----------
    n_clients : int
        Number of clients N, at least the number of classes.
    seed : int
        Seed of the run.
    rates : list of float, optional
        Probability of each class to return; E3CS's four by default.
    shuffle : bool
        False makes the first N/4 clients the first class, and so on; true deals the classes out at random, for data
        whose clients come in some order.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1], there is none, or there are fewer clients than classes.
    """
    classes = [0.1, 0.3, 0.6, 0.9] if rates is None else rates
    if not 1 <= len(classes) <= n_clients:
        raise ConfigError(f"{n_clients} clients can be in 1 to {n_clients} success classes; got {len(classes)}")
    parts = np.array_split(np.arange(n_clients), len(classes))
    own = np.concatenate([np.full(part.size, rate) for part, rate in zip(parts, classes, strict=True)])
    if shuffle:
        # "Round" 1 of the profile, so that classes and availability rates have nothing to do with each other.
        own = generator(seed, "profile", 1).permutation(own)
    return IndependentDropout(own, seed)


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
    """

    def __init__(self, medians: NDArray[np.float64], deadline: float, jitter: float, seed: int) -> None:
        self.medians = np.asarray(medians, dtype=np.float64)
        if not ((self.medians > 0) & np.isfinite(self.medians)).all():
            raise ConfigError("median times must be positive numbers")
        if deadline != np.inf:
            check_number("deadline", deadline, open_low=True)
        self.deadline, self.jitter, self.seed = deadline, check_number("jitter", jitter), seed

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
    n_clients: int,
    seed: int = 0,
    *,
    deadline: float = 2.0,
    spread: float = 0.5,
    jitter: float = 0.3,
    epochs: list[int] | None = None,
) -> Deadline:
    r"""Let slow clients miss the deadline often, as under E3CS's deadline aggregation (Eq. 5).

    The median time of client k is :math:`\tau_k = e_k e^{s z_k}`, z standard normal, e its local epochs, drawn once
    from a list. The paper fixes success rates by hand (`success_classes`) and epochs 1 to 4 independent of them;
    here the rates follow from times. The unit is a median client's time for one epoch.

    Parameters
    ----------
    deadline : float
        D > 0.
    spread : float
        s ≥ 0: how much clients differ in speed.
    jitter : float
        σ ≥ 0: how much a client's rounds differ.
    epochs : list of int, optional
        Epochs to draw from, at least 1 each; all have one by default, and E3CS has [1, 2, 3, 4].

    """
    check_number("spread", spread)
    work = np.array([1] if epochs is None else epochs)
    if work.size == 0 or (work < 1).any():
        raise ConfigError(f"epochs must be a list of numbers of at least 1; got {epochs}")
    # "Round" 1 of the profile, so that speeds and availability rates have nothing to do with each other.
    rng = generator(seed, "profile", 1)
    medians = np.exp(spread * rng.standard_normal(n_clients)) * rng.choice(work, n_clients)
    return Deadline(medians, deadline, jitter, seed)
