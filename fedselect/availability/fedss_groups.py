"""Traces in which whole groups of clients come and go together, as streamers of one language do (FedSS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.chains import Chain
from fedselect.availability.protocol import AVAILABILITY, check_share
from fedselect.data import Federation
from fedselect.errors import ConfigError, DataError
from fedselect.randomness import generator

__all__ = ["GroupTrace", "group_trace"]


class GroupTrace(Chain):
    r"""Clients of a group share one rate that changes with the round; inside a group they are exchangeable.

    The rate of group g in round t is :math:`\pi_g(t)`, clipped to [least, 1], in one of two patterns:

    ``"wave"``
        :math:`\bar\pi (1 + a \sin(2\pi (t/P + g/G))) + \epsilon_g(t)`: time zones, with an AR(1) disturbance;
    ``"turns"``
        :math:`\bar\pi` for the one group whose turn it is, P/G rounds each, and ``least`` for the others: as far
        from the population as an availability can be.

    Parameters
    ----------
    groups : (N,) array-like of int
        Group of each client, from 0; G is the largest plus 1.
    seed : int
        Seed of the run.
    pattern, mean, amplitude, period, noise, noise_memory, least, session, per_group
        See `group_trace`.

    Raises
    ------
    ConfigError
        When an option is out of range or nobody would ever be available.
    """

    def __init__(
        self,
        groups: NDArray[np.int64],
        seed: int,
        *,
        pattern: str = "wave",
        mean: float = 0.5,
        amplitude: float = 0.9,
        period: int = 24,
        noise: float = 0.05,
        noise_memory: float = 0.8,
        least: float = 0.01,
        session: float = 0.0,
        per_group: int = 0,
    ) -> None:
        self.groups = np.asarray(groups, dtype=np.int64)
        if self.groups.ndim != 1 or self.groups.size == 0 or self.groups.min() < 0:
            raise ConfigError("groups must be one number from 0 for each client")
        super().__init__(self.groups.size, seed)
        if pattern not in ("wave", "turns"):
            raise ConfigError(f"pattern must be 'wave' or 'turns'; got {pattern!r}")
        if period < 1 or per_group < 0:
            raise ConfigError(f"period must be at least 1 and per_group at least 0; got {period} and {per_group}")
        if not (noise >= 0 and np.isfinite(noise)) or not (amplitude >= 0 and np.isfinite(amplitude)):
            raise ConfigError(f"noise and amplitude must be numbers of at least 0; got {noise} and {amplitude}")
        self.pattern, self.amplitude, self.period, self.noise = pattern, amplitude, period, noise
        self.mean, self.least = check_share("mean", mean), check_share("least", least)
        self.noise_memory = check_share("noise_memory", noise_memory, below_one=True)
        self.session = check_share("session", session, below_one=True)
        self.per_group = per_group
        if mean == 0 and least == 0 and per_group == 0 and (noise == 0 or pattern == "turns"):
            raise ConfigError("every client's availability rate is 0, so nobody would ever be there to select")
        self.sizes = np.bincount(self.groups)
        self._disturbance = np.empty((0, self.sizes.size))

    def group_rates(self, round: int) -> NDArray[np.float64]:
        """Rate of each group in ``round``, before ``per_group`` is seen to, shape (G,)."""
        places = np.arange(self.sizes.size)
        if self.pattern == "turns":
            turn = round // max(1, self.period // places.size) % places.size
            return np.where(places == turn, max(self.mean, self.least), self.least)
        wave = self.amplitude * np.sin(2 * np.pi * (round / self.period + places / places.size))
        return np.clip(self.mean * (1 + wave) + self._noise(round), self.least, 1.0)

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to be available in ``round``, shape (N,)."""
        rates = self.group_rates(round)
        if self.per_group:
            from scipy.stats import binom

            # max(X, m) with X ~ Bin(n, p) are there: E = n p P(Bin(n - 1, p) >= m) + m P(X <= m).
            m, n = np.minimum(self.per_group, self.sizes), np.maximum(self.sizes, 1)
            rates = rates * binom.sf(m - 1, n - 1, rates) + m / n * binom.cdf(m, n, rates)
        return rates[self.groups]

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        there = super().available(round)
        if self.per_group:
            counts = np.bincount(self.groups, weights=there, minlength=self.sizes.size)
            for group in np.flatnonzero(counts < np.minimum(self.per_group, self.sizes)):
                members = np.flatnonzero(self.groups == group)
                away = members[~there[members]]
                # A stream of its own: the chain goes on as if nobody had been called in.
                rng = generator(self.seed, "availability", round, 1 + int(group))
                missing = min(self.per_group, members.size) - int(counts[group])
                there[rng.choice(away, missing, replace=False)] = True
        return there

    def _thresholds(self, round: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Thresholds that keep a session with probability ``session`` where the rates' change leaves room."""
        before, now = self.group_rates(round - 1), self.group_rates(round)
        with np.errstate(divide="ignore", invalid="ignore"):
            keep = np.fmin(self.session, np.fmin(now / before, (1 - now) / (1 - before)))
        low = np.maximum(now - keep * before, 0.0)
        return low[self.groups], (low + keep)[self.groups]

    def _noise(self, round: int) -> NDArray[np.float64]:
        """Stationary AR(1) disturbance of each group in ``round``; the whole past is drawn again when it is short."""
        if self.noise == 0:
            return np.zeros(self.sizes.size)
        if round >= len(self._disturbance):
            rows = max(256, 2 * (round + 1))
            fresh = generator(self.seed, "profile").standard_normal((rows, self.sizes.size))
            fresh[1:] *= np.sqrt(1 - self.noise_memory**2)
            for t in range(1, rows):
                fresh[t] += self.noise_memory * fresh[t - 1]
            self._disturbance = self.noise * fresh
        return self._disturbance[round]


@AVAILABILITY.register("group-trace", "fedss")
def group_trace(
    federation: Federation,
    seed: int = 0,
    *,
    groups: str = "label",
    pattern: str = "wave",
    mean: float = 0.5,
    amplitude: float = 0.9,
    period: int = 24,
    noise: float = 0.05,
    noise_memory: float = 0.8,
    least: float = 0.01,
    session: float = 0.0,
    per_group: int = 0,
) -> GroupTrace:
    """Let groups of clients come and go together, as in FedSS's trace, which was never published.

    This is a generator in the spirit of FedSS's Section V, not its trace: that one is from a live-streaming
    platform, whose languages are on line at different hours. See `GroupTrace` for the formula.

    Parameters
    ----------
    federation : Federation
        Its clients.
    seed : int
        Seed of the run.
    groups : {"label", "cluster"}
        A client's group is its most frequent label (the smallest of equals), or `Federation.groups`.
    pattern : {"wave", "turns"}
        Whether the groups rise and fall like time zones, or take turns.
    mean, amplitude, period : float, float, int
        Mean rate in [0, 1], relative swing, and rounds of a day. An amplitude of 0 without noise leaves every group
        its share of the population on average.
    noise, noise_memory : float
        Standard deviation and lag-1 autocorrelation in [0, 1) of the groups' disturbance.
    least : float
        Smallest rate, in [0, 1].
    session : float
        Correlation λ in [0, 1) of a client from round to round, as far as the rates' change leaves room; 0 draws
        every round anew. A λ of 2/3 gives sessions of at least three rounds on average.
    per_group : int
        Clients that are there at least in every group (all, if it has fewer): short groups call in random members.
        FedSS's Lemma 2 needs at least one; without it 10 to 20 % of the groups of ten are empty.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range, or the data have no clusters.
    """
    if groups == "label":
        numbers = federation.label_counts.argmax(axis=1)
    elif groups == "cluster":
        if federation.groups is None:
            raise DataError(f"groups = 'cluster' needs data with clusters of clients; {federation.name} has none")
        numbers = federation.groups
    else:
        raise ConfigError(f"groups must be 'label' or 'cluster'; got {groups!r}")
    numbers = np.unique(numbers, return_inverse=True)[1]
    return GroupTrace(
        numbers,
        seed,
        pattern=pattern,
        mean=mean,
        amplitude=amplitude,
        period=period,
        noise=noise,
        noise_memory=noise_memory,
        least=least,
        session=session,
        per_group=per_group,
    )
