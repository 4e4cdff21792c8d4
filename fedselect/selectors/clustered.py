"""Selector ``clustered-sampling``: one client from each of m distributions (Fraboni et al., ICML 2021)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import SELECTORS, SelectorBase, check_size
from fedselect.selectors.updates import UpdateStore


def filled_urns(shares: NDArray[np.int64], urns: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
    """Pour what is left of some clients' shares into the urns that have room, in order; both are changed in place.

    Parameters
    ----------
    shares : (n,) ndarray of int
        What is left of each client's share.
    urns : (m, n) ndarray of int
        What each urn holds of each client; a full one holds as much as all clients have samples.
    clients : ndarray of int
        Whose shares to pour, in this order.
    """
    full = (int(shares.sum()) + int(urns.sum())) // len(urns)
    room = full - urns.sum(axis=1)
    urn = 0
    for client in clients.tolist():
        while shares[client]:
            while not room[urn]:
                urn += 1
            poured = min(int(shares[client]), int(room[urn]))
            urns[urn, client] += poured
            shares[client] -= poured
            room[urn] -= poured


def urns_of_groups(sizes: NDArray[np.int64], n_urns: int, merges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Fill urns by groups of alike clients: Algorithm 2, in whole numbers.

    A client whose share is an urn or more fills urns of its own first. Of the dendrogram, the largest subtrees whose
    remaining shares fit into one urn are the groups. The heaviest make an urn each, the others' clients fill what is
    left of them.

    Parameters
    ----------
    sizes : (n,) ndarray of int
        Samples of each client.
    n_urns : int
        Urns m.
    merges : (n − 1, 4) ndarray
        Merges of clients, as `scipy.cluster.hierarchy.linkage` returns them.

    Returns
    -------
    (m, n) ndarray of int
        Rows sum to Σ sizes, columns to m · sizes.
    """
    n, full = sizes.size, int(sizes.sum())
    shares = n_urns * sizes
    urns = np.zeros((n_urns, n), dtype=np.int64)
    filled = 0
    for client in np.flatnonzero(shares >= full).tolist():
        whole = int(shares[client]) // full
        urns[filled : filled + whole, client] = full
        shares[client] -= whole * full
        filled += whole
    groups: dict[int, list[int]] = {client: [client] for client in range(n)}
    weight = {client: int(shares[client]) for client in range(n)}
    for place, (first, second) in enumerate(merges[:, :2].astype(np.int64).tolist()):
        if first in groups and second in groups and weight[first] + weight[second] <= full:
            groups[n + place] = groups.pop(first) + groups.pop(second)
            weight[n + place] = weight[first] + weight[second]
    order = sorted(groups, key=lambda group: (-weight[group], groups[group][0]))
    for urn, group in zip(range(filled, n_urns), order, strict=False):
        urns[urn, groups[group]] = shares[groups[group]]
        shares[groups[group]] = 0
    rest = [client for group in order[n_urns - filled :] for client in groups[group]]
    filled_urns(shares, urns, np.array(rest, dtype=np.int64))
    return urns


@SELECTORS.register("clustered-sampling")
class ClusteredSampling(SelectorBase):
    r"""Draw one client from each of m distributions: unbiased, with no more variance than drawing m times from one.

    The distributions sum to :math:`m\, n_k / \sum_i n_i`. As `MDSample` it is unbiased: a client drawn c times weighs c
    / m, with expectation :math:`n_k / \sum_{i \in A} n_i`; the variance of the weights is never larger, and on average
    no fewer different clients train. The distributions are urns filled with clients' samples in whole numbers, so that
    the marginals are exact (public code scales to :math:`10^{10}` and cuts off).

    ``by="sizes"`` is Algorithm 1: clients in the order of their samples, largest first, fill one urn after the other.
    ``by="updates"`` is Algorithm 2: Ward's clustering of the latest updates by the angle between them makes the urns.
    Ward's clustering takes the angles as they are; ``convention="code"`` is the ``linkage(matrix)`` of public code,
    which takes the rows of the matrix for points (SciPy warns of it) and clusters by the distances of these, and has
    the angle 0 between a client that was not heard and every other one.

    Parameters
    ----------
    size : int
        Number of draws m.
    n_clients : int
        Number of clients N.
    by : {"sizes", "updates"}
        Algorithm 1 or 2.
    convention : {"paper", "code"}
        How Algorithm 2 clusters.
    on_failure : {"keep", "renormalise"}
        As for `MDSample`.
    """

    def __init__(
        self,
        size: int,
        n_clients: int,
        *,
        by: Literal["sizes", "updates"] = "sizes",
        convention: Literal["paper", "code"] = "paper",
        on_failure: Literal["keep", "renormalise"] = "keep",
    ) -> None:
        self.size, self.n_clients = check_size(size), check_count("the number of clients", n_clients)
        self.by = check_choice("by", by, "sizes", "updates")
        self.convention = check_choice("convention", convention, "paper", "code")
        if convention == "code" and by == "sizes":
            raise ConfigError("the convention is of the clustering by updates; leave it out with by = 'sizes'")
        self.on_failure: Literal["keep", "renormalise"] = on_failure
        check_choice("on_failure", on_failure, "keep", "renormalise")
        self.store: UpdateStore | None = None
        if by == "updates":
            self.store = UpdateStore(n_clients, "clustered-sampling")
            self.state_names = ("store",)  # type: ignore[misc]  # Algorithm 1 has nothing to remember

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        urns = self._urns(round.sizes[present], present)
        full = int(urns[0].sum())
        ends = round.rng.integers(full, size=(self.size, 1))
        drawn = (urns.cumsum(axis=1) <= ends).sum(axis=1)
        counts = np.bincount(drawn, minlength=present.size)
        inclusion = np.zeros(round.available.size)
        inclusion[present] = 1.0 - (1.0 - urns / full).prod(axis=0)
        chosen = np.flatnonzero(counts)
        weights = counts[chosen] / self.size
        return Selection(present[chosen], weights, inclusion, self.on_failure)

    def _urns(self, sizes: NDArray[np.int64], present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Distributions of the draws, (m, n) in samples; each row sums to all of them."""
        if self.store is None or present.size == 1:
            shares, urns = self.size * sizes, np.zeros((self.size, sizes.size), dtype=np.int64)
            filled_urns(shares, urns, np.argsort(-sizes, kind="stable"))
            return urns
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import pdist

        angles = self.store.angles(present)
        if self.convention == "paper":
            merges = linkage(angles[np.triu_indices(present.size, 1)], "ward")
        else:
            unheard = ~self.store.known[present]
            angles[unheard] = angles[:, unheard] = 0.0
            merges = linkage(pdist(angles), "ward")
        return urns_of_groups(sizes, self.size, merges)

    def update(self, feedback: RoundFeedback) -> None:
        """Keep the updates that came, where clients are compared by them."""
        if self.store is not None and (feedback.outcomes == Outcome.RETURNED).any():
            self.store.observe(feedback)
