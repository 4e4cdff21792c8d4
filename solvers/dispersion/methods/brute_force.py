"""Method ``brute-force``: look at every selection."""

from __future__ import annotations

import itertools
import math

import numpy as np

from solvers.dispersion.prelude import solve_trivial
from solvers.dispersion.problem import EXPANDABLE, DispersionProblem, SelectionProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["LARGEST", "brute_force"]

#: Selections that brute force is willing to look at.
LARGEST = 20_000_000

_CHUNK = 20_000


def _accepts(problem: SelectionProblem) -> str | None:
    count = problem.feasible.count
    if count <= LARGEST:
        is_stored = isinstance(problem, DispersionProblem) or problem.n <= EXPANDABLE
        return None if is_stored else f"brute-force makes a matrix for up to {EXPANDABLE} clients; got {problem.n}"
    return (
        f"brute-force would look at {_rounded(count)} selections of {problem.size} out of {problem.n}; "
        f"it accepts at most {LARGEST:.3g} (use 'cp-sat' or 'auto')"
    )


@method(SelectionProblem, "brute-force", kind="exact", accepts=_accepts)
def brute_force(problem: SelectionProblem, run: Run) -> None:
    """Evaluate all n-choose-m selections; the reference that other methods are tested against.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million selections.
    """
    run.tighten(problem.trivial_bound())
    has_matrix = isinstance(problem, DispersionProblem)
    if not has_matrix and solve_trivial(problem, run):
        return  # where costs decide alone, the rounding of the matrix would leave the proof open
    matrix = problem.expanded()
    subsets = problem.feasible.selections()
    best = -math.inf
    while chunk := list(itertools.islice(subsets, _CHUNK)):
        chosen = np.array(chunk)
        pairs = matrix.distances[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2), dtype=np.float64)
        values = problem.weight * pairs - problem.costs[chosen].sum(axis=1)
        top = int(values.argmax())
        if values[top] > best:
            best = float(values[top])
            run.offer(problem.feasible.decision(chosen[top]))
        if run.expired:
            return
    # Every selection was evaluated, each to within the rounding of one evaluation, and of an entry of the matrix.
    run.tighten(best + problem.rounding + (0.0 if has_matrix else matrix.rounding))


def _rounded(count: int) -> str:
    """A number that may be too large for a float."""
    return f"{count:.3g}" if count < 10**15 else f"about 10^{math.floor(math.log10(count))}"
