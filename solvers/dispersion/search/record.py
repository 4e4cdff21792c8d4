"""Write down a search as it goes, so that somebody else can check it: see `solvers.certificates`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate, problem_digest
from solvers.dispersion.problem import DispersionProblem

__all__ = ["BITS", "Record", "one_after_the_other"]

#: The largest number of the problem has so many bits on the grid.
BITS = 32

_POINT = 1 << 20
_MOST = 2.0**39
_FORM = ("ones", "ids", "diagonal", "nonnegative", "dominated")
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class Record:
    """Forms, points and nodes of one search tree, in the order in which `solvers.certificates` reads them.

    Nodes are written in preorder: `branch`, then everything below the side on which the client is chosen, then
    everything below the other. A search in another order keeps what each node said and writes it at the end.

    Parameters
    ----------
    problem : DispersionProblem
        What is solved.
    order : (n,) array-like of int, optional
        The clients in the order that decides exchanges that gain nothing, first the one to prefer; by index if left
        out.
    """

    def __init__(self, problem: DispersionProblem, order: Iterable[int] | None = None) -> None:
        self.problem = problem
        n = problem.n
        largest = max(problem.weight * problem.diameter, float(np.abs(problem.costs).max()), 1e-270)
        # What the largest number leaves is room for multipliers; the checker refuses beyond 2^40.
        self.grid = math.frexp(largest)[1] - BITS
        self.order = np.empty(n, dtype=np.int64)
        self.order[np.arange(n) if order is None else np.asarray(list(order))] = np.arange(n)
        self._tree: list[int] = []
        self._tangents: list[int] = []  # where in it the points' numbers stand
        self.forms: list[tuple[NDArray[np.int64], ...]] = []
        self.points: list[tuple[int, NDArray[np.int64]]] = []
        self._permutations: list[NDArray[np.int64]] = []

    def form(
        self,
        ones: NDArray[np.int64],
        ids: NDArray[np.int64],
        diagonal: NDArray[np.float64],
        nonnegative: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> int:
        """Keep multipliers and return their number.

        Parameters
        ----------
        ones, ids : array of int
            Clients (places in the problem) that are chosen and open where the form holds; the others are left out.
        diagonal : (len(ids),) ndarray
            Multipliers of :math:`s_i - s_i^2`, in units of the problem's objective.
        nonnegative, dominated : (pairs, values), optional
            Pairs by place in ``ids``, and the multipliers of :math:`s_i s_j` and of :math:`s_j - s_i s_j`.
        """
        parts = [ones, ids, self._whole(diagonal)]
        for given, least in ((nonnegative, 0.0), (dominated, -math.inf)):
            pairs, values = given if given is not None else (np.zeros((0, 2), dtype=np.int64), np.zeros(0))
            halves = self._whole(np.maximum(values, least) / 2)
            kept = halves != 0
            parts.append(np.column_stack([pairs[kept], halves[kept]]).astype(np.int64).ravel())
        self.forms.append(tuple(np.asarray(part, dtype=np.int64) for part in parts))
        return len(self.forms) - 1

    def point(self, form: int, y: NDArray[np.float64]) -> int:
        """Keep a point of the slice of a form, rounded so that it stays on the slice; return its number."""
        open_places = self.problem.size - self.forms[form][0].size
        exact = np.clip(y, 0.0, 1.0) * _POINT
        whole = np.floor(exact).astype(np.int64)
        missing = open_places * _POINT - int(whole.sum())
        order = np.argsort(whole - exact, kind="stable")  # those that lost most first
        while missing:
            room = whole < _POINT if missing > 0 else whole > 0
            chosen = order[room[order]][: abs(missing)]
            whole[chosen] += 1 if missing > 0 else -1
            missing = open_places * _POINT - int(whole.sum())
        self.points.append((form, whole))
        return len(self.points) - 1

    def permutation(self, g: NDArray[np.int64]) -> int:
        """Keep a symmetry, client i to g[i], and return its number."""
        self._permutations.append(np.asarray(g, dtype=np.int64))
        return len(self._permutations) - 1

    def branch(self, client: int) -> None:
        """Branch on a client: the nodes with it chosen come next, then those without."""
        self._tree.append(int(client))

    def tangent(self, point: int) -> None:
        """Close a node by the tangent at a point."""
        self._tree += [-1, int(point)]
        self._tangents.append(len(self._tree) - 1)

    def dominated(self, i: int, j: int) -> None:
        """Close a node in which j is chosen and i is not, though i is no worse."""
        self._tree += [-2, int(i), int(j)]

    def symmetric(self, permutation: int, depth: int) -> None:
        """Close a node that a symmetry carries to the chosen side of the branch at ``depth`` above it."""
        self._tree += [-3, int(permutation), int(depth)]

    def decided(self) -> None:
        """Close a node with at most one selection."""
        self._tree.append(-4)

    def certificate(self, bound: float) -> Certificate:
        """What was written, without forms and points that no leaf uses, as a certificate that claims ``bound``."""
        tree = np.array(self._tree, dtype=np.int64)
        kept, tree[self._tangents] = np.unique(tree[self._tangents], return_inverse=True)
        points = [self.points[k] for k in kept.tolist()]
        owners, numbers = np.unique(np.array([form for form, _ in points], dtype=np.int64), return_inverse=True)
        arrays = {
            "tree": tree,
            **one_after_the_other("point", [point for _, point in points]),
            "point_form": numbers.astype(np.int64),
            "permutations": np.array(self._permutations, dtype=np.int64).reshape(-1),
        }
        return self.told("dispersion", bound, arrays, owners.tolist())

    def told(self, kind: str, bound: float, arrays: dict[str, NDArray[Any]], forms: list[int]) -> Certificate:
        """A certificate of these arrays, the order of the clients, and these forms."""
        arrays["order"] = self.order
        for k, name in enumerate(_FORM):
            arrays |= one_after_the_other(f"form_{name}", [self.forms[form][k] for form in forms])
        narrowed = {name: _narrow(array) for name, array in arrays.items()}
        return Certificate(kind, problem_digest(self.problem), float(bound), self.grid, narrowed)

    def _whole(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        units = np.ldexp(np.asarray(values, dtype=np.float64), -self.grid)
        return np.rint(np.clip(units, -_MOST, _MOST)).astype(np.int64)


def one_after_the_other(name: str, parts: list[NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """The parts as one array ``name``, and where each of them starts."""
    starts = np.cumsum([0, *(part.size for part in parts)])
    return {name: np.concatenate(parts) if parts else _NONE, f"{name}_start": starts}


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest type, so that files are small."""
    if array.size == 0:
        return array.astype(np.int8)
    for kind in (np.int8, np.uint8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= array.min() and array.max() <= limits.max:
            return array.astype(kind)
    return array
