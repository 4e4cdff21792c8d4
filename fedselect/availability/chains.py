"""Availability with memory: two-state Markov chains, whose state at any round is found directly; CA-Fed's classes."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.protocol import AVAILABILITY, check_choice, check_rates
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator

__all__ = ["Chain", "TwoState", "ca_fed", "markov"]


class Chain:
    r"""Two-state chains driven by one uniform number per client and round.

    In round t a client's number u decides: :math:`u < a_t`: it is available; :math:`u \ge b_t`: it is not; between
    the two it keeps its last state, or takes the opposite one where the chain is negatively correlated. So the
    state at t is that of the last round that decided, and looking back from t to there gives it exactly, whatever
    was asked before. The last answer is remembered: a forward sweep costs one draw per client and round, a jump (a
    run that is resumed) about ln(N) / ln(1/λ) of them, for the largest λ, and never more than the rounds before.

    Subclasses give the thresholds (`_thresholds`) and the probabilities (`rates`).

    Parameters
    ----------
    clients : int
        Number of clients N.
    seed : int
        Seed of the run; client k's number in round t depends on (seed, t, k) alone.
    """

    def __init__(self, clients: int, seed: int) -> None:
        self.clients, self.seed = clients, seed
        self._last: tuple[int, NDArray[np.bool_]] | None = None

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to be available in ``round``, shape (N,)."""
        raise NotImplementedError

    def _thresholds(self, round: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The thresholds a and b of ``round`` > 0, shape (N,) each."""
        raise NotImplementedError

    def _flips(self) -> NDArray[np.bool_] | None:
        """Clients that take the opposite state between the thresholds; None when there are none."""
        return None

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        last = self._last  # taken once: another thread may replace it
        if last is not None and last[0] == round:
            return last[1].copy()
        flips = self._flips()
        state = np.empty(self.clients, dtype=bool)
        odd = np.zeros(self.clients, dtype=bool)  # opposite to the state of the round looked at
        open_: NDArray[np.int64] | slice = slice(None)  # clients not decided yet; all of them at first
        for t in range(round, -1, -1):
            if last is not None and t == last[0]:
                state[open_] = last[1][open_] ^ odd[open_]
                break
            u = generator(self.seed, "availability", t).random(self.clients)[open_]
            if t == 0:
                state[open_] = (u < self.rates(0)[open_]) ^ odd[open_]
                break
            low, high = self._thresholds(t)
            sure = u < low[open_]
            state[open_] = sure ^ odd[open_]
            undecided = np.flatnonzero(~sure & (u < high[open_]))
            open_ = undecided if isinstance(open_, slice) else open_[undecided]
            if open_.size == 0:
                break
            if flips is not None:
                odd[open_] ^= flips[open_]
        self._last = (round, state)
        return state.copy()


class TwoState(Chain):
    r"""Stationary two-state chains, each given by its availability and its correlation.

    Client k has stationary probability :math:`\pi_k` and eigenvalue :math:`\lambda_k`, so that
    P(available | available) = :math:`\lambda + (1-\lambda)\pi`, P(available | not) = :math:`(1-\lambda)\pi`, and the
    autocorrelation at lag h is :math:`\lambda^h`. Mean run lengths are :math:`1 / ((1-\lambda)(1-\pi))` rounds
    available and :math:`1 / ((1-\lambda)\pi)` rounds not (CA-Fed, Section III). The chain starts in its stationary
    distribution: every round is available with probability π.

    Parameters
    ----------
    stationary : (N,) array-like
        π, in [0, 1].
    correlation : (N,) array-like or float
        λ, in [max(1 - 1/π, 1 - 1/(1-π)), 1]; 0 is independence. At 1 a client keeps its first state for ever.
    seed : int
        Seed of the run.

    Raises
    ------
    ConfigError
        When a value is out of range, or every π is 0.
    """

    def __init__(self, stationary: ArrayLike, correlation: ArrayLike, seed: int) -> None:
        pi = check_rates(np.asarray(stationary, dtype=np.float64))
        if not (pi > 0).any():
            raise ConfigError("every client's availability rate is 0, so nobody would ever be there to select")
        lam = np.broadcast_to(np.asarray(correlation, dtype=np.float64), pi.shape).copy()
        least = lowest_correlation(pi)
        good = (lam >= least - 1e-12) & (lam <= 1)
        if not good.all():
            k = int(np.flatnonzero(~good)[0])
            raise ConfigError(
                f"client {k} with availability {pi[k]:g} can have a correlation between {least[k]:.6g} and 1; "
                f"got {lam[k]:g}"
            )
        super().__init__(pi.size, seed)
        self.stationary, self.correlation = pi, lam
        stay, rise = lam + (1 - lam) * pi, (1 - lam) * pi
        self._low, self._high = np.minimum(stay, rise).clip(0, 1), np.maximum(stay, rise).clip(0, 1)
        self._negative = lam < 0 if (lam < 0).any() else None

    @classmethod
    def from_transitions(cls, up: ArrayLike, down: ArrayLike, seed: int) -> TwoState:
        """Build from P(available | not), ``up``, and P(not | available), ``down``, shape (N,) each, not both 0."""
        up, down = check_rates(np.asarray(up), "up"), check_rates(np.asarray(down), "down")
        if not (up + down > 0).all():
            k = int(np.flatnonzero(up + down == 0)[0])
            raise ConfigError(f"client {k} never changes its state (up and down are 0): no stationary distribution")
        return cls(up / (up + down), 1 - up - down, seed)

    @property
    def transitions(self) -> NDArray[np.float64]:
        """Transition probabilities, shape (N, 2, 2): entry [k, i, j] is P(j next | i now), 1 being available."""
        up = (1 - self.correlation) * self.stationary
        down = (1 - self.correlation) * (1 - self.stationary)
        return np.stack([np.stack([1 - up, up], axis=1), np.stack([down, 1 - down], axis=1)], axis=1)

    def rates(self, round: int) -> NDArray[np.float64]:
        """Stationary probabilities π, shape (N,): the chain starts in them."""
        return self.stationary.copy()

    def _thresholds(self, round: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._low, self._high

    def _flips(self) -> NDArray[np.bool_] | None:
        return self._negative


def lowest_correlation(stationary: NDArray[np.float64]) -> NDArray[np.float64]:
    """Smallest eigenvalue that a two-state chain of stationary probability π can have, shape (N,)."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.maximum(1 - 1 / stationary, 1 - 1 / (1 - stationary))


@AVAILABILITY.register("markov")
def markov(federation: Federation, seed: int = 0, *, rate: float = 0.5, correlation: float = 0.9) -> TwoState:
    """Give every client a two-state Markov chain of the same rate and correlation λ (see `TwoState`)."""
    return TwoState(np.full(len(federation), float(rate)), correlation, seed)


@AVAILABILITY.register("ca-fed")
def ca_fed(
    federation: Federation,
    seed: int = 0,
    *,
    gap: float = 0.4,
    correlation: float = 0.9,
    noise: float = 0.01,
    convention: Literal["paper", "code"] = "paper",
) -> TwoState:
    r"""Build two-state chains in classes: more or less available, correlated or hardly so (CA-Fed, Section V).

    Two conventions of the classes:

    ``"paper"``
        inside each group of clients (`Federation.groups`; one group where the data have none) half are available
        with π = 1/2 + g and half with 1/2 - g, uniformly at random; each half is split in two again: λ = ν, and
        λ ~ N(0, ε²). With 24 clients in two groups there are three in each of the eight cells.
    ``"code"``
        the authors' code: half of *all* clients are more available whatever their group, and none of these is
        correlated; of the less available, half have λ = ν. The rest have λ = (x + ε)/2 with x ~ N(0, ε²), that is
        mean and standard deviation ε/2.

    The classes are drawn once per seed. Odd groups are split with the larger part first.

    Parameters
    ----------
    federation : Federation
        Its clients.
    seed : int
        Seed of the run.
    gap : float
        g in [0, 1/2].
    correlation : float
        ν, the eigenvalue λ of the correlated clients, up to 1.
    noise : float
        ε ≥ 0; draws of λ that no chain of that π can have are set to the nearest possible value.
    convention : {"paper", "code"}
        Reading of the classes, as above.

    Raises
    ------
    ConfigError
        When an option is out of range.
    """
    if not 0 <= gap <= 0.5:
        raise ConfigError(f"gap must lie in [0, 0.5]; got {gap}")
    if not (noise >= 0 and np.isfinite(noise)):
        raise ConfigError(f"noise must be a number of at least 0; got {noise}")
    check_choice("convention", convention, "paper", "code")
    n = len(federation)
    rng = generator(seed, "profile")
    weak = noise * rng.standard_normal(n)
    groups = np.zeros(n, dtype=np.int64)
    if convention == "paper" and federation.groups is not None:
        groups = federation.groups
    more, correlated = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    for group in np.unique(groups):
        upper, lower = np.array_split(rng.permutation(np.flatnonzero(groups == group)), 2)
        more[upper] = True
        for half in (upper, lower) if convention == "paper" else (lower,):
            correlated[np.array_split(half, 2)[0]] = True
    if convention == "code":
        weak = (weak + noise) / 2
    pi = np.where(more, 0.5 + gap, 0.5 - gap)
    weak = np.clip(weak, lowest_correlation(pi), 1.0)
    return TwoState(pi, np.where(correlated, correlation, weak), seed)
