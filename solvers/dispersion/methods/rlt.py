"""Method ``rlt``: the level-1 RLT bound by Lagrange multipliers, for few of many clients."""

from __future__ import annotations

from typing import Annotated

from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.prelude import dispersion_method
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.options import AtLeast
from solvers.run import Run

__all__ = ["LARGEST", "descend", "rlt"]

#: Iterations between two looks at the clock.
_CHUNK = 100

#: Most clients: the multipliers take 8 n² bytes.
LARGEST = 6_000


@dispersion_method(DispersionProblem, "rlt", start="some", kind="relaxation")
def rlt(problem: DispersionProblem, run: Run, *, iterations: Annotated[int, AtLeast(1)] = 100_000) -> None:
    r"""Bound by the level-1 RLT relaxation, by steps on its Lagrange multipliers, and round its choices.

    Each client is worth what it earns with the m − 1 partners that pay it best; multipliers move the worth of a pair
    from one of the two to the other until the m best clients are worth as little as possible
    (`solvers.dispersion.relaxations.rlt`). An iteration looks at few rows of the matrix, so that a thousand clients
    take a second. The bound is strong where few of many are chosen, and is exact in whole numbers.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock and incumbent.
    iterations : int
        Most iterations.
    """
    if problem.n > LARGEST:
        run.stop(
            "iterations",
            f"no level-1 RLT bound: multipliers are kept for {LARGEST} clients at most; there are {problem.n}",
        )
        return
    descend(problem, run, RowRelaxation(Normal.of(problem), run), iterations)


def descend(problem: DispersionProblem, run: Run, relaxation: RowRelaxation, iterations: int = 100_000) -> None:
    """Lower the bound until it has converged, and leave out clients that no better selection contains."""
    normal = relaxation.normal
    margin = 2 * (normal.error + problem.rounding * normal.factor)
    while relaxation.iterations < iterations and not (relaxation.has_converged or run.expired or run.proved):
        # No selection that is worth at most this in exact arithmetic is better than the incumbent.
        target = normal.value(run.objective) - 2 * margin  # type: ignore[arg-type]  # a start is always offered
        relaxation.descend(target, min(_CHUNK, iterations - relaxation.iterations))
        bound = normal.original(relaxation.bound() + margin)
        run.tighten(max(bound, float(run.objective)))  # type: ignore[arg-type]  # as above
        run.offer(ascend(problem, problem.feasible.decision(relaxation.chosen()), run))
        relaxation.leave_out(target)
    run.details["iterations"] = relaxation.iterations
    run.details["left"] = relaxation.ids.size
