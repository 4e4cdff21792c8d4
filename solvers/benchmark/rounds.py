"""Rounds of FedGS in which a tenth of the clients are chosen, made by recipe from seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.problem import Problem

#: Labels; rounds before the one that is stated; the graph's threshold and σ² (`graphs.dependency_graph`, "reference").
_LABELS, _ROUNDS, _THRESHOLD, _WIDTH = 26, 20, 0.01, 0.1

SIZES = (300, 500, 1_000, 2_000)
SHARES = ("0.1", "0.3", "1", "two")
KINDS: tuple[Kind, ...] = ("drawn", "played", "half")

Kind = Literal["drawn", "played", "half"]


@dataclass(frozen=True)
class Round:
    """Recipe of a round; calling it makes the problem, of one seed the same to the bit on one machine.

    Attributes
    ----------
    n_clients : int
        Clients of the federation, of which a tenth are chosen.
    share : str
        How 26 labels are spread over clients: a parameter of Dirichlet's distribution, or "two" labels in halves.
    kind : {"drawn", "played", "half"}
        All clients are available, with counts drawn at random; or counts after twenty rounds of greedy selections; the
        same with each client available in a round with probability 1/2.
    seed : int
        Of everything.
    """

    n_clients: int
    share: str
    kind: Kind
    seed: int = 0

    def __call__(self) -> Problem:
        """Make the problem."""
        from solvers.dispersion import DispersionProblem
        from solvers.dispersion.neighbourhood import greedy_decision

        n, size = self.n_clients, self.n_clients // 10
        distances = _distances(n, self.share, self.seed)
        rng = np.random.default_rng([self.seed, n, KINDS.index(self.kind)])
        counts = np.zeros(n, dtype=np.int64)
        if self.kind == "drawn":
            counts = rng.multinomial(_ROUNDS * size, np.full(n, 1 / n))
            return DispersionProblem.fedgs(distances, counts, np.ones(n, dtype=bool), size, 1.0)
        for played in range(_ROUNDS + 1):
            available = np.ones(n, dtype=bool) if self.kind == "played" else rng.random(n) < 0.5
            problem = DispersionProblem.fedgs(distances, counts, available, size, 1.0)
            if played < _ROUNDS:
                counts[problem.selected(greedy_decision(problem))] += 1
        return problem


def tenths() -> dict[str, Round]:
    """Return the recipes of the suite by name: four sizes, four ways to spread labels, three kinds of round."""
    return {
        f"{kind}-n{n}-{share if share == 'two' else f'dirichlet-{share}'}": Round(n, share, kind)
        for n in SIZES
        for share in SHARES
        for kind in KINDS
    }


@lru_cache(maxsize=1)
def _distances(n: int, share: str, seed: int) -> NDArray[np.float64]:
    """Distances in the graph of the clients' cosine similarities, as FedGS's code has them."""
    rng = np.random.default_rng([seed, n])
    if share == "two":
        labels = rng.permutation(np.arange(2 * n) % _LABELS).reshape(n, 2)
        held = np.eye(_LABELS)[labels].mean(axis=1)
    else:
        held = rng.dirichlet(np.full(_LABELS, float(share)), n)
    unit = held / np.linalg.norm(held, axis=1)[:, None]
    alike = unit @ unit.T
    np.fill_diagonal(alike, 0.0)
    alike = (alike - alike.min()) / (alike.max() - alike.min())
    length = np.where(alike > _THRESHOLD, np.exp(-(alike**2) / _WIDTH), np.inf).astype(np.float32)
    np.fill_diagonal(length, 0.0)
    length = np.minimum(length, length.T)
    for k in range(n):  # Floyd and Warshall's
        np.minimum(length, length[:, k, None] + length[k], out=length)
    longest = float(length[np.isfinite(length)].max())
    return np.where(np.isfinite(length), length / longest, 1.0).astype(np.float64)
