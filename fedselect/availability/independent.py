"""Availability drawn independently for every client and round from its own rate; the modes of FedGS and FedAWE's."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.protocol import AVAILABILITY, check_rates
from fedselect.data import Federation
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator
from graphs.reproducible import exponential

#: How rates change with the round.
Pattern = Literal["sine", "interleaved", "staircase", "stationary"]


class Independent:
    r"""Each client is available with its own rate :math:`p_k`, independently of everything else.

    Subclasses whose rates change with the round override `base_rates`.

    Parameters
    ----------
    rates : (N,) array-like
        Probability of each client, in [0, 1].
    seed : int
        Seed of the run; client k's draw in round t depends on (seed, t, k) alone, unless the round is drawn again.
    empty : {"pass", "redraw"}
        What happens when none is drawn: the round passes without available clients, or is drawn again until there is
        one, as in FedGS's code. The second conditions the distribution: client k is then available with
        probability :math:`p_k / (1 - \prod_i (1 - p_i))`. A round in which every rate is 0 passes all the same.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1] or NaN, all are zero (no client would ever be available), or ``empty`` is unknown.
    """

    def __init__(self, rates: NDArray[np.float64], seed: int, *, empty: str = "pass") -> None:
        self._rates = check_rates(rates, some=True)
        self.seed = seed
        self.empty = check_choice("empty", empty, "pass", "redraw")

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self._rates

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability of each client to be available in ``round``, shape (N,)."""
        rates = self.base_rates(round)
        if self.empty == "pass":
            return rates.copy()
        some = _some(rates)
        return rates / some if some > 0 else rates.copy()

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Correlation of each client's rounds, as `TwoState` has one: 0, shape (N,)."""
        return np.zeros(self._rates.size)

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        rng = generator(self.seed, "availability", round)
        rates = self.base_rates(round)
        there = rng.random(rates.size) < rates
        if self.empty == "redraw" and not there.any() and (rates > 0).any():
            # Given that some client is there: the first of them from its conditional law, the later ones as ever.
            with np.errstate(divide="ignore"):
                first_by = -np.expm1(np.cumsum(np.log1p(-rates)))
            first = min(int(np.searchsorted(first_by, rng.random() * first_by[-1], side="right")), rates.size - 1)
            while rates[first] == 0:  # only rounding can land behind the last client that is ever there
                first -= 1
            there = rng.random(rates.size) < rates
            there[:first] = False
            there[first] = True
        return there


def _some(rates: NDArray[np.float64]) -> float:
    """Probability that at least one client is available."""
    with np.errstate(divide="ignore"):
        return float(-np.expm1(np.log1p(-rates).sum()))


@AVAILABILITY.register("ideal", "IDL")
def ideal(federation: Federation, seed: int = 0) -> Independent:
    """Make every client available in every round (FedGS's IDL)."""
    return Independent(np.ones(len(federation)), seed)


@AVAILABILITY.register("bernoulli")
def bernoulli(federation: Federation, seed: int = 0, *, rate: float = 0.5) -> Independent:
    """Make every client available with the same rate."""
    return Independent(np.full(len(federation), rate), seed)


#: Where the clients' log-normal rates come from.
Convention = Literal["paper", "code"]


@AVAILABILITY.register("lognormal", "LN", "LogNormal")
def lognormal(
    federation: Federation, seed: int = 0, *, beta: float = 0.5, convention: Convention = "paper"
) -> Independent:
    r"""Draw log-normal rates over the clients (FedGS's LN).

    :math:`p_k = c_k / \max_i c_i` with :math:`\log c_k \sim N(0, \sigma^2)`, :math:`\sigma = \ln(1 / (1 - \beta))`.
    The paper leaves open whether its second parameter is σ or σ²; the authors' code takes it for σ, and so does this.
    The rates are drawn once per seed. At N = 100 and β = 0.5 about 23 clients are available a round, on average over
    seeds.

    Parameters
    ----------
    beta : float
        Heterogeneity β in [0, 1): 0 makes all available always.
    convention : {"paper", "code"}
        Where the log c_k come from: the distribution, by this toolkit's generator, or the normal numbers of FedGS's
        code, the first N of NumPy's legacy generator of seed 21 + ``seed``, times this σ.
    """
    return Independent(_profile(len(federation), seed, beta, convention), seed)


class SinLognormal(Independent):
    r"""Fixed rates times a sinusoid of 24 rounds: :math:`p_k^t = q_k f(t \bmod 24)`.

    :math:`f(j) = 0.5 + 0.4 \sin(2 \pi j / 23)`. The authors' grid has both ends of the circle, so that rounds 0 and 23
    of a cycle are alike. f(j) lies in [0.101, 0.899] and has mean 0.5.

    Parameters
    ----------
    rates : (N,) array-like
        q_k, in [0, 1].
    seed, empty
        As for `Independent`.
    """

    #: f(0), ..., f(23).
    factors: NDArray[np.float64] = 0.5 + 0.4 * np.sin(2 * np.pi * np.arange(24) / 23)

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self._rates * self.factors[round % 24]


@AVAILABILITY.register("sin-lognormal", "SLN", "SinLogNormal")
def sin_lognormal(
    federation: Federation, seed: int = 0, *, beta: float = 0.5, empty: str = "pass", convention: Convention = "paper"
) -> SinLognormal:
    r"""Draw log-normal rates that rise and fall over 24 rounds (FedGS's SLN).

    See `SinLognormal` for the formula and `lognormal` for the rates q_k, which are the same as LN's under one seed.

    Parameters
    ----------
    beta : float
        Heterogeneity β in [0, 1) of the rates.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws.
    convention : {"paper", "code"}
        As for `lognormal`.
    """
    return SinLognormal(_profile(len(federation), seed, beta, convention), seed, empty=empty)


def _profile(n_clients: int, seed: int, beta: float, convention: Convention) -> NDArray[np.float64]:
    sigma = -math.log1p(-check_number("beta", beta, 0, 1, open_high=True))
    check_choice("convention", convention, "paper", "code")
    normal = generator(seed, "profile") if convention == "paper" else np.random.RandomState(21 + seed)
    logs = sigma * normal.standard_normal(n_clients)
    return exponential(logs - logs.max())


@AVAILABILITY.register("more-data-first", "MDF", "MoreDataFirst")
def more_data_first(federation: Federation, seed: int = 0, *, beta: float = 0.7) -> Independent:
    r"""Make clients with more data available more often (FedGS's MDF).

    :math:`p_k = (n_k / \max_i n_i)^\beta`, n_k the training samples. This is what the authors' code executes; its
    docstring speaks of tanh(-n ln β). Its default β of 1e-5 makes nearly all available; the settings of its plots
    name 0.7 on Synthetic and 0.9 on CIFAR10.

    Parameters
    ----------
    beta : float
        β ≥ 0; 0 makes all available always.
    """
    return Independent((federation.sizes / federation.sizes.max()) ** check_number("beta", beta), seed)


@AVAILABILITY.register("less-data-first", "LDF", "LessDataFirst")
def less_data_first(federation: Federation, seed: int = 0, *, beta: float = 0.7) -> Independent:
    r"""Make clients with less data available more often (FedGS's LDF).

    :math:`p_k = (\min_i n_i / n_k)^\beta`, n_k the training samples; executed by the authors' code, whose docstring
    speaks of (1-β)^(-n). β as for `more_data_first`.
    """
    return Independent((federation.sizes.min() / federation.sizes) ** check_number("beta", beta), seed)


@AVAILABILITY.register("max-label-first", "YMF", "YMaxFirst")
def max_label_first(federation: Federation, seed: int = 0, *, beta: float = 0.9, empty: str = "pass") -> Independent:
    r"""Make clients without small labels available more often (FedGS's YMF, from MIFA).

    :math:`p_k = \beta \min(Y_k) / \max(1, L - 1) + 1 - \beta` with Y_k the client's labels and L the number of
    classes. In spite of its name it is the *smallest* label a client holds that counts, in MIFA as in FedGS's code.

    Parameters
    ----------
    beta : float
        β in [0, 1]; FedGS's FashionMNIST has 0.9. At 1 a client with label 0 is never available.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws.
    """
    beta = check_number("beta", beta, 0, 1)
    smallest = np.argmax(federation.label_counts > 0, axis=1)
    return Independent(beta * smallest / max(1, federation.outputs - 1) + (1 - beta), seed, empty=empty)


class LabelCycle(Independent):
    r"""Independent rates under a window that moves over the labels: a client with a label inside is there more often.

    :math:`p_k^t = \beta I_k(t) + 1 - \beta`.

    Parameters
    ----------
    inside : (P, N) array-like of bool
        Whether client k is inside the window in rounds t with ``(t // hold) % P`` equal to the row.
    hold : int
        Rounds each row lasts.
    beta, seed, empty
        As for `label_cycle`.
    """

    def __init__(self, inside: NDArray[np.bool_], hold: int, beta: float, seed: int, *, empty: str = "pass") -> None:
        self.inside = np.asarray(inside, dtype=bool)
        self.hold, self.beta = check_count("hold", hold), check_number("beta", beta, 0, 1)
        super().__init__(self.beta * self.inside.mean(axis=0) + (1 - self.beta), seed, empty=empty)

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self.beta * self.inside[(round // self.hold) % len(self.inside)] + (1 - self.beta)


@AVAILABILITY.register("label-cycle", "YC", "YCycle")
def label_cycle(
    federation: Federation,
    seed: int = 0,
    *,
    beta: float = 0.9,
    convention: Literal["code", "flgo"] = "code",
    rounds_per_label: int = 10,
    empty: str = "pass",
) -> LabelCycle:
    r"""Make clients available more often while one of their labels has its turn (FedGS's YC).

    :math:`p_k^t = \beta I_k(t) + 1 - \beta`. Two conventions of the window :math:`I_k`:

    ``"code"``
        the authors' code: :math:`I_k(t) = 1` when some label y of the client has :math:`y/L < r_t \le (y+1)/L`,
        :math:`r_t = (1 + t \bmod T)/T`, T = 10 L. That is, each label is on for ten rounds in turn, or for
        ``rounds_per_label``.
    ``"flgo"``
        its successor FLGo: T = 24, and :math:`I_k(t) = 1` when r_t lies between the client's smallest and largest
        label, both divided by L - 1.

    Parameters
    ----------
    beta : float
        β in [0, 1]; FedGS's FashionMNIST has 0.9, the code's default is 0.5.
    convention : {"code", "flgo"}
        Window, as above.
    rounds_per_label : int
        Rounds a label is on in a row, under ``"code"``.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws, FLGo's does not.

    """
    check_choice("convention", convention, "code", "flgo")
    holds = federation.label_counts > 0
    check_count("rounds_per_label", rounds_per_label)
    if convention == "code":
        return LabelCycle(holds.T, rounds_per_label, beta, seed, empty=empty)
    smallest = holds.argmax(axis=1)
    largest = federation.outputs - 1 - holds[:, ::-1].argmax(axis=1)
    # r = turn / 24 and label / (L - 1), compared without division.
    turn = np.arange(1, 25)[:, None] * max(1, federation.outputs - 1)
    return LabelCycle((24 * smallest <= turn) & (turn <= 24 * largest), 1, beta, seed, empty=empty)


class NonStationary(Independent):
    r"""Rates :math:`p_k^t = p_k f(t)` of independent rounds; ``"interleaved"`` has 0 where that is below 0.1.

    Parameters
    ----------
    rates : (N,) array-like
        :math:`p_k`, in [0, 1].
    seed : int
        As for `Independent`.
    pattern : {"sine", "interleaved", "staircase", "stationary"}
        See `fedawe`.
    gamma : float
        γ of the sine, in [0, 0.5].
    """

    def __init__(self, rates: NDArray[np.float64], seed: int, *, pattern: Pattern = "sine", gamma: float = 0.3) -> None:
        super().__init__(rates, seed)
        self.pattern = check_choice("pattern", pattern, "sine", "interleaved", "staircase", "stationary")
        self.gamma = check_number("gamma", gamma, 0, 0.5)

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round``, shape (N,)."""
        if self.pattern == "stationary":
            return self._rates
        if self.pattern == "staircase":
            return self._rates * (0.4 if round // 10 % 2 else 1.0)
        rates = self._rates * (self.gamma * np.sin(2 * np.pi * (round % 20) / 20) + 1.0 - self.gamma)
        return np.where(rates < 0.1, 0.0, rates) if self.pattern == "interleaved" else rates


@AVAILABILITY.register("fedawe")
def fedawe(federation: Federation, seed: int = 0, *, pattern: Pattern = "sine", gamma: float = 0.3) -> NonStationary:
    r"""Draw non-stationary rates tied to the labels (Xiang et al., NeurIPS 2024).

    :math:`p_k = \sum_b f_{kb} u_b`, with f the client's label distribution and u drawn uniformly from [0, 1] for the
    first half of the classes (the larger, where their number is odd) and from [0, 1/2] for the others. Then
    ``"sine"``: :math:`p_k^t = p_k (\gamma \sin(2 \pi t / 20) + 1 - \gamma)`, γ = 0.3, 0.2 or 0.1 in the paper;
    ``"interleaved"``: the same, and 0 where it is below 0.1; ``"staircase"``: ten rounds at :math:`p_k` and ten at
    0.4 :math:`p_k` in turn; ``"stationary"``: :math:`p_k`.

    Parameters
    ----------
    pattern : {"sine", "interleaved", "staircase", "stationary"}
        How rates change.
    gamma : float
        γ in [0, 0.5].
    """
    half = (federation.outputs + 1) // 2
    top = np.where(np.arange(federation.outputs) < half, 1.0, 0.5)
    u = top * generator(seed, "profile").random(federation.outputs)
    rates = (federation.label_distributions * u).sum(axis=1)
    return NonStationary(np.minimum(rates, 1.0), seed, pattern=pattern, gamma=gamma)
