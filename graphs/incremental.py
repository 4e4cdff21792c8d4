"""Distances that follow the server as it meets clients, without starting over each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import SimilarityError, square_symmetric
from graphs.min_plus import close
from graphs.shortest_paths import path_lengths, scaled
from graphs.threedg import PresetName, dependency_graph, edge_weights, resolve

if TYPE_CHECKING:
    import networkx as nx

# A pair is recomputed if a path through the changed client is within this factor of its distance. Rounding
# is 1e-15, so no pair that needs it is missed; a pair recomputed in vain keeps its distance.
_SLACK = 1e-9


class IncrementalDistances:
    """Shortest-path distances on a 3DG that gains clients and revises what it knows of them.

    Adding a client, or raising its similarities, costs O(N²): the new node's distances are one min-plus
    product, and every other pair either keeps its path or goes through the new node. Lowering a similarity
    may lengthen paths; then only the pairs whose path led through that client are searched again. Both
    are exact: `distances` equals ``distances(edge_weights(similarity))`` to rounding.

    Under a preset that min–max scales, a similarity beyond the present extremes rescales every edge, and
    everything is computed afresh. Give `bounds` to fix the scale in advance, such as (0, 1) for the cosine of
    label distributions or (−1, 1) for cosines of updates.

    Parameters
    ----------
    similarity
        N×N similarities of the clients known so far; ``None`` for none.
    preset, epsilon, sigma2, bounds
        As for `dependency_graph`.
    repair_at_most : float
        Share of the pairs up to which those whose paths a change has cut are searched one by one; beyond it all are
        computed afresh. One pair costs some twenty times its share of a tiled Floyd–Warshall (hence 1/20).

    Attributes
    ----------
    rebuilds : int
        How often everything was computed afresh.

    Examples
    --------
    >>> from graphs import IncrementalDistances
    >>> known = IncrementalDistances([[1, 0.5], [0.5, 1]], bounds=(0, 1))
    >>> known.add([0.0, 0.5])
    2
    >>> known.distances()
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0.5],
           [1. , 0.5, 0. ]])
    >>> known.update(0, [1.0, 0.25, 0.0])
    >>> known.distances().round(3)
    array([[0.   , 0.867, 1.   ],
           [0.867, 0.   , 0.133],
           [1.   , 0.133, 0.   ]])
    """

    def __init__(
        self,
        similarity: ArrayLike | None = None,
        preset: PresetName = "reference",
        epsilon: float | None = None,
        sigma2: float | None = None,
        *,
        bounds: tuple[float, float] | None = None,
        repair_at_most: float = 0.05,
    ) -> None:
        if not 0 <= repair_at_most <= 1:
            raise SimilarityError(f"repair_at_most must be a share from 0 to 1; got {repair_at_most!r}.")
        self._rule, self._epsilon, self._sigma2 = resolve(preset, epsilon, sigma2, bounds)
        self._preset: PresetName = preset
        self._bounds = bounds
        self._repair_at_most = repair_at_most
        self._similarity = np.zeros((0, 0))
        self._weights = np.zeros((0, 0))
        self._lengths = np.zeros((0, 0))
        self._scale = (0.0, 0.0)
        self.rebuilds = 0
        if similarity is not None:
            self._similarity = square_symmetric("similarity", similarity).copy()
            self._rebuild()

    def __len__(self) -> int:
        return len(self._similarity)

    @property
    def similarity(self) -> NDArray[np.float64]:
        """The N×N similarities as given, a copy; 0 on the diagonal of clients added later."""
        return self._similarity.copy()

    def distances(self) -> NDArray[np.float64]:
        """Return H, scaled as by `graphs.distances`: an N×N copy."""
        return scaled(self._lengths.copy())

    def path_lengths(self) -> NDArray[np.float64]:
        """Return the unscaled path lengths, as `graphs.path_lengths` does: an N×N copy."""
        return self._lengths.copy()

    def state_dict(self) -> dict[str, Any]:
        """Return what is known, as arrays: lengths that were revised are not those of a fresh start to the last bit."""
        return {
            "similarity": self._similarity.copy(),
            "weights": self._weights.copy(),
            "lengths": self._lengths.copy(),
            "scale": list(self._scale),
            "rebuilds": self.rebuilds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, under the same preset, thresholds and bounds."""
        self._similarity, self._weights, self._lengths = (
            np.array(state[name], dtype=np.float64) for name in ("similarity", "weights", "lengths")
        )
        self._scale = (float(state["scale"][0]), float(state["scale"][1]))
        self.rebuilds = int(state["rebuilds"])

    def graph(self) -> nx.Graph:
        """Return the present 3DG as `dependency_graph` builds it."""
        self._need_clients()
        return dependency_graph(self._similarity, self._preset, self._epsilon, self._sigma2, bounds=self._bounds)

    def add(self, similarities: ArrayLike) -> int:
        """Add one client and return its index.

        Parameters
        ----------
        similarities
            Its similarity to each of the N clients known so far, in their order; shape (N,).

        Raises
        ------
        SimilarityError
            If there are not N of them, or one is not finite.
        """
        size = len(self)
        row = self._row(similarities, size)
        self._similarity = np.pad(self._similarity, (0, 1))
        self._similarity[size, :size] = self._similarity[:size, size] = row
        if self._needs_rescaling():
            self._rebuild()
            return size
        weights = self._weigh(row)
        self._weights = np.pad(self._weights, (0, 1))
        self._lengths = np.pad(self._lengths, (0, 1), constant_values=np.inf)
        self._weights[size, :size] = self._weights[:size, size] = weights
        self._lengths[size, size] = 0.0
        self._insert(size)
        return size

    def update(self, client: int, similarities: ArrayLike) -> None:
        """Replace what is known of one client.

        Parameters
        ----------
        client
            Its index.
        similarities
            Its similarity to each of the N clients, in their order; shape (N,). The entry for itself is
            not read.

        Raises
        ------
        SimilarityError
            If the client is unknown, there are not N similarities, or one is not finite.
        """
        size = len(self)
        if not 0 <= client < size:
            raise SimilarityError(f"client must be an index from 0 to {size - 1}; got {client}.")
        row = np.array(similarities, dtype=np.float64)
        if row.shape == (size,):
            row[client] = self._similarity[client, client]
        row = self._row(row, size)
        self._similarity[client] = self._similarity[:, client] = row
        if self._needs_rescaling():
            self._rebuild()
            return
        weights = self._weigh(row)
        weights[client] = 0.0
        longer = bool((weights > self._weights[client]).any())
        if longer:
            self._remove(client)
        self._weights[client] = self._weights[:, client] = weights
        self._insert(client)

    def _row(self, similarities: ArrayLike, size: int) -> NDArray[np.float64]:
        row = np.asarray(similarities, dtype=np.float64)
        if row.shape != (size,):
            raise SimilarityError(
                f"similarities must be one number per known client, ({size},); got shape {row.shape}."
            )
        if not np.isfinite(row).all():
            at = int(np.argmin(np.isfinite(row)))
            raise SimilarityError(f"the similarity to client {at} must be a finite number; got {row[at]}.")
        return row

    def _need_clients(self) -> None:
        if not len(self):
            raise SimilarityError("no client is known yet; add one first.")

    def _extremes(self) -> tuple[float, float]:
        off = self._similarity.copy()
        np.fill_diagonal(off, 0.0)
        return float(off.min()), float(off.max())

    def _needs_rescaling(self) -> bool:
        return self._rule.scaled and self._bounds is None and self._extremes() != self._scale

    def _rebuild(self) -> None:
        self.rebuilds += 1
        self._scale = self._bounds or self._extremes()
        self._weights = edge_weights(self._similarity, self._preset, self._epsilon, self._sigma2, bounds=self._bounds)
        self._lengths = path_lengths(self._weights)

    def _weigh(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights of one client's edges on the scale in force."""
        if self._rule.scaled:
            low, high = self._bounds or self._scale
            if high > low:
                row = np.clip((row - low) / (high - low), 0.0, 1.0)
        return np.where(self._rule.edges(row, self._epsilon), self._rule.weigh(row, self._sigma2), np.inf)

    def _insert(self, client: int) -> None:
        """Relax every pair through `client`, whose weights are set; the others' lengths are valid."""
        lengths = self._lengths
        reach = (self._weights[client][:, None] + lengths).min(axis=0)
        np.minimum(reach, lengths[client], out=reach)
        reach[client] = 0.0
        for i, through in enumerate(reach):
            if np.isfinite(through):
                np.minimum(lengths[i], through + reach, out=lengths[i])
        lengths[client] = lengths[:, client] = reach

    def _remove(self, client: int) -> None:
        """Find all lengths that do not pass through `client`, and leave it unreachable."""
        lengths, weights = self._lengths, self._weights
        to = lengths[client].copy()
        finite = np.isfinite(to)
        stale = np.zeros(lengths.shape, dtype=bool)
        stale[finite] = (to[finite, None] + to) <= lengths[finite] * (1 + _SLACK)
        stale &= np.isfinite(lengths)
        stale[client] = stale[:, client] = False
        np.fill_diagonal(stale, False)
        # Where the direct edge is as short as the path through the client, nothing is lost.
        stale &= lengths < weights
        weights[client] = weights[:, client] = np.inf
        weights[client, client] = 0.0
        lengths[client] = lengths[:, client] = np.inf
        lengths[client, client] = 0.0
        if np.count_nonzero(stale) > self._repair_at_most * stale.size:
            self._lengths = close(weights.copy())
            return
        lengths[stale] = weights[stale]
        rows = [(int(i), np.flatnonzero(stale[i])) for i in np.flatnonzero(stale.any(axis=1))]
        # Start from the direct edges and shorten through any third client until nothing changes. Paths
        # double in hops each pass, so this ends after about log2 of the longest.
        changed = True
        while changed:
            changed = False
            for i, columns in rows:
                shorter = (lengths[i] + lengths[columns]).min(axis=1)
                better = shorter < lengths[i, columns] * (1 - 1e-15)
                if better.any():
                    lengths[i, columns[better]] = lengths[columns[better], i] = shorter[better]
                    changed = True
