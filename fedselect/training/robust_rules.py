r"""Server rules against clients that lie: coordinate-wise ones, and those that keep the updates closest to each other.

With n updates that returned in a round, of which a share of at most ``liars`` lies (f of them, rounded down: 1 of 8 at
0.2). Where 2 of 10 clients lie and 8 return, both may be among these: that asks for 0.25.

================  =====================================================================================================
``median``        Median of every coordinate.
``trimmed-mean``  Mean of every coordinate without its f smallest and f largest values (Yin et al., ICML 2018).
``krum``          The update with the least sum of squared distances to its n − f − 2 nearest (Blanchard et al., NeurIPS
                  2017).
``multikrum``     The n − f updates of the least such sums.
``closest``       The n − f updates with the least sum of squared distances among each other, by an exact method of
                  `solvers.dispersion.closest`: what Krum's sums stand for.
================  =====================================================================================================

The updates that the last three keep are weighed by the selection's weights, rescaled to the sum of all. The first two
weigh all clients alike, times that sum. Each is a `ServerRule` in `SERVER_RULES`; `fedselect.training.corruption` has
clients that lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from fedselect.training.server_rules import SERVER_RULES, ServerRule, weighted_sum
from solvers import solve
from solvers.dispersion import closest
from solvers.options import AtLeast, Below

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Closest", "Krum", "Median", "MultiKrum", "TrimmedMean"]

Share = Annotated[float, AtLeast(0), Below(0.5)]


def squared_distances(updates: Tensor) -> NDArray[np.float64]:
    """Return the squared Euclidean distances between updates, each from differences, symmetric to the bit."""
    rows = updates.detach().double()
    found = np.zeros((len(rows), len(rows)))
    for k in range(1, len(rows)):
        found[k, :k] = found[:k, k] = (rows[:k] - rows[k]).square().sum(dim=1).cpu().numpy()
    return found


class _Middle(ServerRule):
    """Mean of the middle values of every coordinate."""

    def _cut(self, count: int) -> int:
        """Return how many values are left out at either end."""
        raise NotImplementedError

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived."""
        if not len(clients):
            return None
        cut = self._cut(len(clients))
        kept: Tensor = updates.sort(dim=0).values[cut : len(clients) - cut].mean(dim=0)
        return kept * float(sum(weights))


@SERVER_RULES.register("median")
class Median(_Middle):
    """Median of every coordinate."""

    def _cut(self, count: int) -> int:
        return (count - 1) // 2


@SERVER_RULES.register("trimmed-mean")
class TrimmedMean(_Middle):
    """Mean of every coordinate without the smallest and the largest values."""

    def __init__(self, *, liars: Share = 0.2) -> None:
        self.liars = liars

    def _cut(self, count: int) -> int:
        return int(self.liars * count)


class _Keeping(ServerRule):
    """The weighted sum of some of the updates."""

    def __init__(self, *, liars: Share = 0.2) -> None:
        self.liars = liars

    def kept(self, distances: NDArray[np.float64], honest: int) -> Sequence[int]:
        """Return the places of the updates to keep, of which so many are honest, by their squared distances."""
        raise NotImplementedError

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived."""
        if not len(clients):
            return None
        honest = len(clients) - int(self.liars * len(clients))
        places = sorted(self.kept(squared_distances(updates), honest))
        own = [weights[place] for place in places]
        rescaled = float(sum(weights)) / float(sum(own)) if sum(own) else 0.0
        return weighted_sum([weight * rescaled for weight in own], updates[places])


def krum_sums(distances: NDArray[np.float64], honest: int) -> NDArray[np.float64]:
    """Return Krum's sum of each update: its squared distances to the ``honest`` − 2 nearest others, one at least."""
    nearest = np.sort(distances, axis=1)[:, 1 : 1 + max(honest - 2, 1)]
    return nearest.sum(axis=1)


@SERVER_RULES.register("multikrum")
class MultiKrum(_Keeping):
    """The updates with the nearest neighbours, as many as are honest."""

    def kept(self, distances: NDArray[np.float64], honest: int) -> Sequence[int]:
        """Return the places of the updates to keep."""
        return np.argsort(krum_sums(distances, honest), kind="stable")[:honest].tolist()


@SERVER_RULES.register("krum")
class Krum(_Keeping):
    """The one update with the nearest neighbours."""

    def kept(self, distances: NDArray[np.float64], honest: int) -> Sequence[int]:
        """Return the place of the update to keep."""
        return [int(krum_sums(distances, honest).argmin())]


@SERVER_RULES.register("closest")
class Closest(_Keeping):
    """The updates that are closest to each other, proved to be unless a time limit ends the proof.

    Parameters
    ----------
    liars : float
        Share of clients that may lie.
    time_limit : float, optional
        Seconds for the proof in a round; the best selection found counts when they are over.
    """

    def __init__(self, *, liars: Share = 0.2, time_limit: float | None = None) -> None:
        super().__init__(liars=liars)
        self.time_limit = time_limit

    def kept(self, distances: NDArray[np.float64], honest: int) -> Sequence[int]:
        """Return the places of the updates to keep."""
        krum = np.zeros(len(distances), dtype=np.int64)
        krum[np.argsort(krum_sums(distances, honest), kind="stable")[:honest]] = 1
        return solve(closest(distances, honest), start=krum, time_limit=self.time_limit).selected.tolist()
