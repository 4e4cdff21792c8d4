"""Certificates of coverage problems: the Lagrangian tree once more, written down as it goes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, problem_digest
from solvers.certificates.schema import ENTRIES
from solvers.coverage.lagrangian import Subproblem, Tree
from solvers.coverage.problem import CoverageProblem
from solvers.run import Run
from solvers.solution import Solution

#: Iterations from one that fixes candidates to the next: one that does is a vector of multipliers in the certificate.
_EVERY = 10

#: Bits that a sum over the rows of similarities and multipliers may take.
_BITS = 60

#: The part of what counts as optimal that rounding to whole numbers may take, and that of the time for the search.
_SPARE, _SHARE = 0.25, 0.6


class _Recorded(Tree):
    """A tree that keeps, of every node, where it lies, what is left of it and the multipliers that it used."""

    def __init__(self, problem: CoverageProblem, run: Run) -> None:
        super().__init__(problem, run)
        self.every = _EVERY
        self.origins: list[int] = []
        self.looks: list[list[NDArray[np.float64]]] = []
        self.left: list[Subproblem | None] = []
        self.branches: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self._origin = -1

    def _child(
        self, node: Subproblem, is_with: bool, chosen: NDArray[np.int64], free: NDArray[np.int64]
    ) -> Subproblem | None:
        number = self.numbers[id(node)]
        self.branches[number], self._origin = node.branch, 2 * number + is_with
        return super()._child(node, is_with, chosen, free)

    def bounded(
        self,
        chosen: NDArray[np.int64],
        free: NDArray[np.int64],
        multipliers: NDArray[np.float64],
        iterations: int,
        known: float = np.inf,
    ) -> Subproblem | None:
        """Bound a subproblem as the tree does, and keep it."""
        self.origins.append(self._origin)
        self.looks.append([])
        found = super().bounded(chosen, free, multipliers, iterations, known)
        if found is not None:
            self.numbers[id(found)] = len(self.left)
        self.left.append(found)
        if (sum(map(len, self.looks)) + len(self.looks)) * multipliers.size > ENTRIES // 2:
            self.run.time_limit = 0.0  # more could not be read
        return found

    def _used(self, u: NDArray[np.float64]) -> None:
        self.looks[-1].append(u)

    def certificate(self) -> Certificate | None:
        """State what was recorded in whole numbers; what is open still gets its best multipliers."""
        problem, run = self.problem, self.run
        assert run.bound is not None
        assert run.objective is not None
        for number, node in enumerate(self.left[:]):
            if node is None:
                continue
            if number not in self.branches:
                self.looks[number].append(node.multipliers)
                continue
            for origin in {2 * number, 2 * number + 1} - set(self.origins):  # the time was over
                self.origins.append(origin)
                self.looks.append([node.multipliers])
        rows = len(problem.similarity)
        vectors = np.array([u for each in self.looks for u in each]).reshape(-1, rows)
        ends = (problem.similarity.max(), problem.similarity.min(), vectors.max(initial=0), vectors.min(initial=0))
        largest = max(abs(float(end)) for end in ends) * rows + problem.largest_cost
        grid = max(math.frexp(largest)[1] - _BITS + 2, -900)
        claim = max(run.bound, self.target) + _SPARE * problem.tolerance_at(run.objective)
        if grid > 900:
            return None
        arrays = {
            "goal": np.array([math.floor(math.ldexp(claim, -grid))]),
            "origin": np.array(self.origins),
            "client": np.array([self.branches.get(k, -1) for k in range(len(self.origins))]),
            "looks": np.array([len(each) for each in self.looks]),
            "multiplier": np.rint(np.ldexp(vectors, -grid)).astype(np.int64).ravel(),
        }
        return Certificate("coverage", problem_digest(problem), claim, grid, arrays)


@certificate_writer(CoverageProblem)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """Search again from the decision that is known; ``relaxed``: write the root down alone."""
    problem = solution.problem
    assert isinstance(problem, CoverageProblem)
    run = Run(problem, "certificate", None if math.isinf(time_limit) else _SHARE * time_limit, 0)
    run.offer(solution.x)  # type: ignore[arg-type]
    tree = _Recorded(problem, run)
    tree.search(root_only=relaxed)
    return tree.certificate()
