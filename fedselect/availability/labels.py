"""FedGS's modes that tie availability to the labels a client holds: YMF and YC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.independent import Independent
from fedselect.availability.protocol import AVAILABILITY, check_share
from fedselect.data import Federation
from fedselect.errors import ConfigError

__all__ = ["LabelCycle", "label_cycle", "max_label_first"]


@AVAILABILITY.register("max-label-first", "YMF", "YMaxFirst")
def max_label_first(federation: Federation, seed: int, *, beta: float = 0.9, empty: str = "pass") -> Independent:
    r"""Clients without small labels are available more often (FedGS's YMF, from MIFA).

    :math:`p_k = \beta \min(Y_k) / \max(1, L - 1) + 1 - \beta` with Y_k the client's labels and L the number of
    classes. In spite of its name it is the *smallest* label a client holds that counts, in MIFA as in FedGS's code.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    beta : float
        β in [0, 1]; FedGS's FashionMNIST has 0.9.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws.

    Raises
    ------
    ConfigError
        When ``beta`` is outside [0, 1], or nobody would ever be available (β = 1 and everyone holds label 0).
    """
    beta = check_share("beta", beta)
    smallest = np.argmax(federation.label_counts > 0, axis=1)
    return Independent(beta * smallest / max(1, federation.outputs - 1) + (1 - beta), seed, empty=empty)


class LabelCycle(Independent):
    r"""A window moves over the labels; whoever holds one inside is available more often.

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
        self.hold, self.beta = hold, check_share("beta", beta)
        super().__init__(self.beta * self.inside.mean(axis=0) + (1 - self.beta), seed, empty=empty)

    def base_rates(self, round: int) -> NDArray[np.float64]:
        """Rates in ``round`` before any redraw, shape (N,)."""
        return self.beta * self.inside[(round // self.hold) % len(self.inside)] + (1 - self.beta)


@AVAILABILITY.register("label-cycle", "YC", "YCycle")
def label_cycle(
    federation: Federation,
    seed: int,
    *,
    beta: float = 0.9,
    reading: str = "fedgs",
    rounds_per_label: int = 10,
    empty: str = "pass",
) -> LabelCycle:
    r"""Clients are available more often while one of their labels has its turn (FedGS's YC).

    :math:`p_k^t = \beta I_k(t) + 1 - \beta`. Two readings of the window :math:`I_k`:

    ``"fedgs"``
        the authors' code: :math:`I_k(t) = 1` when some label y of the client has :math:`y/L < r_t \le (y+1)/L`,
        :math:`r_t = (1 + t \bmod T)/T`, T = 10 L. That is, each label is on for ten rounds in turn.
    ``"flgo"``
        its successor FLGo: T = 24, and :math:`I_k(t) = 1` when r_t lies between the client's smallest and largest
        label, both divided by L - 1.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    beta : float
        β in [0, 1]; FedGS's FashionMNIST has 0.9, the code's default is 0.5.
    reading : {"fedgs", "flgo"}
        Which window.
    rounds_per_label : int
        Rounds a label is on in a row, under ``"fedgs"``.
    empty : {"pass", "redraw"}
        See `Independent`; FedGS's code redraws, FLGo's does not.

    Raises
    ------
    ConfigError
        When an option is out of range.
    """
    holds = federation.label_counts > 0
    if rounds_per_label < 1:
        raise ConfigError(f"rounds_per_label must be at least 1; got {rounds_per_label}")
    if reading == "fedgs":
        return LabelCycle(holds.T, rounds_per_label, beta, seed, empty=empty)
    if reading != "flgo":
        raise ConfigError(f"reading must be 'fedgs' or 'flgo'; got {reading!r}")
    smallest = holds.argmax(axis=1)
    largest = federation.outputs - 1 - holds[:, ::-1].argmax(axis=1)
    # r = turn / 24 and label / (L - 1), compared without division.
    turn = np.arange(1, 25)[:, None] * max(1, federation.outputs - 1)
    return LabelCycle((24 * smallest <= turn) & (turn <= 24 * largest), 1, beta, seed, empty=empty)
