"""A population of selections: who has a child with whom, and who stays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem

__all__ = ["Population"]

#: Parents that differ in fewer clients have a child that is changed by some random swaps as well.
_ALIKE = 4


class Population:
    """Distinct selections, at most ``capacity`` of them.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    capacity : int
        Members; at least two.
    rng : numpy.random.Generator
        Who draws parents and crossovers.
    """

    def __init__(self, problem: DispersionProblem, capacity: int, rng: np.random.Generator) -> None:
        self.problem, self.capacity, self.rng = problem, capacity, rng
        self.clear()

    def clear(self) -> None:
        """Dismiss everybody."""
        self.members: list[NDArray[np.int64]] = []
        self.values: list[float] = []

    def __len__(self) -> int:
        return len(self.members)

    def enter(self, x: NDArray[np.int64], value: float) -> bool:
        """Admit a selection, in the place of the worst member when all are taken; False if it is no gain.

        It is none when it is a member, or no better than the worst.
        """
        if any(np.array_equal(x, member) for member in self.members):
            return False
        if len(self) < self.capacity:
            self.members.append(x)
            self.values.append(value)
            return True
        worst = int(np.argmin(self.values))
        if value <= self.values[worst]:
            return False
        self.members[worst], self.values[worst] = x, value
        return True

    def child(self) -> NDArray[np.int64]:
        """A selection of what two members have in common, and of one's own clients on either side.

        Some client is drawn, and of those that only one parent has, the child takes the first parent's nearest to it
        and the second's farthest from it. Where distances are those of places, parts of two patterns are put together
        that way and each stays as it was (Deaven and Ho 1995 cut clusters of atoms so); where they are not, these
        are as good as any.
        """
        rng, n = self.rng, self.problem.n
        first, second = rng.choice(len(self), 2, replace=False)
        x, other = self.members[first].copy(), self.members[second]
        mine, theirs = np.flatnonzero(x > other), np.flatnonzero(other > x)
        if mine.size < _ALIKE:
            _perturb(x, rng)
            return x
        near = self.problem.distances[rng.integers(n)]
        taken = int(rng.integers(mine.size // 4, mine.size - mine.size // 4))  # of the other parent
        x[_by(near, mine, rng)[mine.size - taken :]] = 0
        x[_by(near, theirs, rng)[mine.size - taken :]] = 1
        return x


def _by(near: NDArray[np.floating], clients: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The clients in the order of their distances, equal ones in a random order."""
    clients = rng.permutation(clients)
    return clients[np.argsort(near[clients], kind="stable")]


def _perturb(x: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Exchange some clients."""
    inside, outside = np.flatnonzero(x == 1), np.flatnonzero(x == 0)
    swaps = int(rng.integers(1, 2 + min(inside.size, outside.size) // 4))
    x[rng.choice(inside, swaps, replace=False)] = 0
    x[rng.choice(outside, swaps, replace=False)] = 1
