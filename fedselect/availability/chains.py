"""Availability with memory: two-state Markov chains, CA-Fed's classes of them, FedSS's groups that share a rate."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.protocol import AVAILABILITY, check_rates
from fedselect.data import Federation
from fedselect.data.generated import AuthorsDraw
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator


class Chain:
    r"""Two-state chains driven by one uniform number per client and round.

    In round t a client's number u decides: :math:`u < a_t`: it is available; :math:`u \ge b_t`: it is not; between
    the two it keeps its last state, or takes the opposite one where the chain is negatively correlated. So the
    state at t follows from the last round that decided, whatever was asked before.

    Subclasses give the thresholds (`_thresholds`) and the probabilities (`rates`).

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    seed : int
        Seed of the run; client k's number in round t depends on (seed, t, k) alone.
    """

    def __init__(self, n_clients: int, seed: int) -> None:
        self.n_clients, self.seed = n_clients, seed
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
        state = np.empty(self.n_clients, dtype=bool)
        odd = np.zeros(self.n_clients, dtype=bool)  # opposite to the state of the round looked at
        open_: NDArray[np.int64] | slice = slice(None)  # clients not decided yet; all of them at first
        for t in range(round, -1, -1):
            if last is not None and t == last[0]:
                state[open_] = last[1][open_] ^ odd[open_]
                break
            u = generator(self.seed, "availability", t).random(self.n_clients)[open_]
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
    available and :math:`1 / ((1-\lambda)\pi)` rounds not. The chain starts in its stationary distribution: every
    round is available with probability π.

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
        pi = check_rates(stationary, some=True)
        try:
            lam = np.broadcast_to(np.asarray(correlation, dtype=np.float64), pi.shape).copy()
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(
                f"the correlation must be one number, or one per client; got {correlation!r:.80}"
            ) from None
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
    return TwoState(np.full(len(federation), rate), correlation, seed)


@AVAILABILITY.register("ca-fed")
def ca_fed(
    federation: Federation,
    seed: int = 0,
    *,
    gap: float = 0.4,
    correlation: float = 0.9,
    noise: float = 0.01,
    convention: Literal["paper", "code", "authors"] = "paper",
    data_seed: int = 42,
) -> TwoState:
    r"""Build two-state chains in classes: more or less available, correlated or hardly so (CA-Fed, Section V).

    Three conventions of the classes:

    ``"paper"``
        inside each group of clients (`Federation.groups`; one group where the data have none) half are available
        with π = 1/2 + g and half with 1/2 - g, uniformly at random; each half is split in two again: λ = ν, and
        λ ~ N(0, ε²). With 24 clients in two groups there are three in each of the eight cells.
    ``"code"``
        the authors' code: half of *all* clients are more available whatever their group, and none of these is
        correlated; of the less available, half have λ = ν. The rest have λ = (x + ε)/2 with x ~ N(0, ε²), that is
        mean and standard deviation ε/2.
    ``"authors"``
        the classes of ``"code"`` as the authors' script draws them, after the data and by the same generator: they stay
        as they are under every seed of a run. The data are then `fedselect.data.clustered`'s of the same convention.

    But for the last, the classes are drawn once per seed of the run. Odd groups are split with the larger part first.

    Parameters
    ----------
    gap : float
        g in [0, 1/2].
    correlation : float
        ν, the eigenvalue λ of the correlated clients, up to 1; one that a chain of their π cannot have is refused.
    noise : float
        ε ≥ 0; drawn values of λ that no chain of that π can have are set to the nearest possible one.
    convention : {"paper", "code", "authors"}
        Reading of the classes, as above.
    data_seed : int
        Seed of the data, for ``"authors"``.

    """
    check_number("gap", gap, 0, 0.5)
    check_number("noise", noise)
    check_choice("convention", convention, "paper", "code", "authors")
    if convention == "authors":
        more, correlated, weak = _authors_classes(federation, noise, data_seed)
    else:
        more, correlated, weak = _drawn_classes(federation, noise, seed, convention)
    pi = np.where(more, 0.5 + gap, 0.5 - gap)
    weak = np.clip(weak, lowest_correlation(pi), 1.0)
    return TwoState(pi, np.where(correlated, correlation, weak), seed)


Classes = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]


def _authors_classes(federation: Federation, noise: float, data_seed: int) -> Classes:
    """Return the classes that belong to the authors' draw of the data, which is made again."""
    features, n = federation.datasets[0].features, len(federation)
    drawn = None
    if features.ndim == 2 and n % 2 == 0:
        drawn = AuthorsDraw(n, len(features), len(federation.test) // n, features.shape[1], seed=data_seed)
    if drawn is None or not np.array_equal(drawn.federation().datasets[0].features, features):
        raise ConfigError(
            "availability 'ca-fed' has the authors' classes for the authors' data alone: give data set 'clustered' "
            f'convention = "authors" and the seed {data_seed}, or the availability its data_seed'
        )
    return drawn.classes(noise)


def _drawn_classes(federation: Federation, noise: float, seed: int, convention: str) -> Classes:
    """Draw the classes under the seed of a run."""
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
    return more, correlated, weak


class GroupTrace(Chain):
    r"""Clients of a group share one rate that changes with the round; inside a group they are exchangeable.

    The rate of group g in round t is :math:`\pi_g(t)`, clipped to [least, 1], in one of two patterns:

    ``"wave"``
        :math:`\bar\pi (1 + a \sin(2\pi (t/P + g/G))) + \epsilon_g(t)`: time zones, with an AR(1) disturbance;
    ``"turns"``
        :math:`\bar\pi` for the one group whose turn it is, ⌊P/G⌋ rounds each (at least one), and ``least`` for the
        others.

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
        When an option is out of range or no client would ever be available.
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
        self.pattern = check_choice("pattern", pattern, "wave", "turns")
        self.period, self.per_group = check_count("period", period), check_count("per_group", per_group, least=0)
        self.amplitude, self.noise = check_number("amplitude", amplitude), check_number("noise", noise)
        self.mean, self.least = check_number("mean", mean, 0, 1), check_number("least", least, 0, 1)
        self.noise_memory = check_number("noise_memory", noise_memory, 0, 1, open_high=True)
        self.session = check_number("session", session, 0, 1, open_high=True)
        if mean == 0 and least == 0 and per_group == 0 and (noise == 0 or pattern == "turns"):
            raise ConfigError("every client's availability rate is 0, so none would ever be there to select")
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
                # A stream of its own: the chain goes on as if none had been called in.
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
    """Let groups of clients come and go together, in the spirit of FedSS's Section V.

    FedSS's own trace, of a live-streaming platform whose languages are on line at different hours, is not published.
    See `GroupTrace` for the formula.

    Parameters
    ----------
    groups : {"label", "cluster"}
        A client's group is its most frequent label (the smallest of equals), or `Federation.groups`.
    pattern : {"wave", "turns"}
        Whether the groups rise and fall like time zones, or take turns.
    mean, amplitude, period : float, float, int
        Mean rate in [0, 1], relative swing, and rounds of a day.
    noise, noise_memory : float
        Standard deviation and lag-1 autocorrelation in [0, 1) of the groups' disturbance.
    least : float
        Smallest rate, in [0, 1].
    session : float
        Correlation λ in [0, 1) of a client from round to round, as far as the rates' change leaves room; 0 draws
        every round anew. At a steady rate a λ of 2/3 gives sessions of at least three rounds on average.
    per_group : int
        Clients that are there at least in every group (all, if it has fewer): short groups call in random members.
        FedSS's Lemma 2 needs at least one; without it about 12 % of ten groups of ten are empty under the defaults.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range, or the data have no classes or clusters to group by.
    """
    if check_choice("groups", groups, "label", "cluster") == "label":
        found = federation.label_counts.argmax(axis=1)
    elif federation.groups is None:
        raise DataError(f"groups = 'cluster' needs data with clusters of clients; {federation.name} has none")
    else:
        found = federation.groups
    numbers = np.unique(found, return_inverse=True)[1]
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
