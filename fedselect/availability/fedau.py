"""FedAU's participation: rates tied to the clients' labels, under Bernoulli, Markov and cyclic patterns."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.chains import TwoState
from fedselect.availability.independent import Independent
from fedselect.availability.protocol import AVAILABILITY, check_rates
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator


def label_rates(
    federation: Federation, seed: int = 0, *, mean: float = 0.1, least: float = 0.02, concentration: float = 0.1
) -> NDArray[np.float64]:
    r"""Draw participation rates that depend on a client's labels (FedAU's code).

    :math:`p_n = \min(1, \max(p_{min}, \bar p\, C \langle f_n, v \rangle))` with f_n the client's label distribution,
    C the number of classes and v ~ Dir(α 1) one vector for the run. The upper clip is not in the code, whose
    Bernoulli rounds stop with an error where a rate passes 1. The lower clip raises the mean of the rates, the upper
    one lowers it.

    Parameters
    ----------
    federation : Federation
        Its clients.
    seed : int
        Seed of the run; fixes v.
    mean : float
        Target mean :math:`\bar p`, in (0, 1].
    least : float
        Smallest rate, in [0, 1].
    concentration : float
        α > 0 of the Dirichlet distribution.

    Returns
    -------
    (N,) ndarray of float

    """
    check_number("mean", mean, 0, 1, open_low=True)
    check_number("least", least, 0, 1)
    check_number("concentration", concentration, open_low=True)
    v = generator(seed, "profile").dirichlet(np.full(federation.outputs, concentration))
    return np.clip(mean * federation.outputs * (federation.label_distributions * v).sum(axis=1), least, 1.0)


@AVAILABILITY.register("fedau-bernoulli")
def fedau_bernoulli(
    federation: Federation, seed: int = 0, *, mean: float = 0.1, least: float = 0.02, concentration: float = 0.1
) -> Independent:
    """Draw independent rounds at rates tied to the labels (FedAU; see `label_rates`)."""
    return Independent(label_rates(federation, seed, mean=mean, least=least, concentration=concentration), seed)


@AVAILABILITY.register("fedau-markov")
def fedau_markov(
    federation: Federation,
    seed: int = 0,
    *,
    mean: float = 0.1,
    least: float = 0.02,
    concentration: float = 0.1,
    up: float = 0.05,
) -> TwoState:
    r"""Build two-state chains at rates tied to the labels (FedAU's "markov-0.05").

    P(available | not) is ``up`` and P(not | available) = up (1/p - 1); where the latter would pass 1 it is 1 and the
    former p/(1 - p), so that the stationary rate p is kept. The chain starts in its stationary distribution.

    Parameters
    ----------
    mean, least, concentration
        See `label_rates`; with ``least = 0``, a client of rate 0 is refused.
    up : float
        Largest P(available | not), in (0, 1].

    """
    check_number("up", up, 0, 1, open_low=True)
    p = label_rates(federation, seed, mean=mean, least=least, concentration=concentration)
    if not (p > 0).all():
        raise ConfigError("fedau-markov needs a positive least rate: a client of rate 0 has no such chain")
    down = up * (1 / p - 1)
    rises = np.where(down > 1, up / np.maximum(down, 1), up)
    return TwoState.from_transitions(rises, np.minimum(down, 1), seed)


class Cyclic:
    """Clients that are available for some rounds, away for some (or none), and so on.

    Parameters
    ----------
    on, off : (N,) array-like of int
        Rounds available and rounds away of each cycle, at least 1 and 0.
    start : (N,) array-like of int
        Round in which the first full stretch of availability begins, in [0, starts).
    starts : (N,) array-like of int
        The start was drawn uniformly from {0, ..., starts - 1}, at most on + off; gives `rates`.

    Raises
    ------
    ConfigError
        When a length or a start is out of range.
    """

    def __init__(
        self, on: NDArray[np.int64], off: NDArray[np.int64], start: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> None:
        self.on, self.off = np.asarray(on, dtype=np.int64), np.asarray(off, dtype=np.int64)
        self.start, self.starts = np.asarray(start, dtype=np.int64), np.asarray(starts, dtype=np.int64)
        if (self.on < 1).any() or (self.off < 0).any():
            raise ConfigError("a cycle needs at least one round available and none fewer than 0 away")
        if (self.start < 0).any() or (self.start >= self.starts).any() or (self.starts > self.on + self.off).any():
            raise ConfigError("a cycle's start must lie below the number of starts, at most one cycle")

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients available in ``round``."""
        return (round - self.start) % (self.on + self.off) < self.on

    def rates(self, round: int) -> NDArray[np.float64]:
        """Probability over the random start that each client is available in ``round``, shape (N,)."""
        cycle = self.on + self.off
        last = round % cycle  # starts last - on + 1, ..., last (modulo the cycle) are available now
        first = last - self.on + 1
        held = np.minimum(last, self.starts - 1) - np.maximum(first, 0) + 1
        wrapped = np.minimum(cycle - 1, self.starts - 1) - (first + cycle) + 1
        return (np.maximum(held, 0) + np.where(first < 0, np.maximum(wrapped, 0), 0)) / self.starts


@AVAILABILITY.register("fedau-cyclic")
def fedau_cyclic(
    federation: Federation,
    seed: int = 0,
    *,
    mean: float = 0.1,
    least: float = 0.02,
    concentration: float = 0.1,
    cycle: int = 100,
    convention: Literal["paper", "code"] = "paper",
) -> Cyclic:
    """Build regular cycles at rates tied to the labels (FedAU's "cyclic-100").

    A cycle has a = max(1, round(c p)) rounds available and b = max(1, c - a) away, so that the rate is a/(a + b), p
    up to rounding and at least 1/c; a client of rate 1 is away for one round in c + 1.

    Parameters
    ----------
    mean, least, concentration
        See `label_rates`.
    cycle : int
        c, at least 2 rounds.
    convention : {"paper", "code"}
        ``"paper"`` starts anywhere in the cycle, as FedAU's poster says; then every round has rate a/(a + b).
        ``"code"`` is what the authors run: no client starts in the middle of a stretch of availability, so that the
        first rounds see fewer clients.

    """
    check_count("cycle", cycle, least=2)
    check_choice("convention", convention, "paper", "code")
    p = check_rates(label_rates(federation, seed, mean=mean, least=least, concentration=concentration))
    on = np.maximum(1, np.rint(cycle * p)).astype(np.int64)
    off = np.maximum(1, cycle - on)
    starts = on + off if convention == "paper" else off
    # Round 0 of "availability": the start is the only draw of the pattern, apart from those of the rates.
    first = generator(seed, "availability").integers(starts)
    return Cyclic(on, off, first, starts)
