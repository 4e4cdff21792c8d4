"""The quadratic model that ``gurobi``, ``cplex`` and ``scip`` are given, and the way their answers come back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.relaxations.tangents import Tangents
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision
from solvers.dispersion.trivial import solve_trivial
from solvers.errors import InvalidOption
from solvers.run import Run

__all__ = ["QuadraticModel"]

#: Share of the scale by which bounds are widened. The solvers are asked for 1e-9 in feasibility, reduced costs and
#: integrality, in units where gains are about 1, and for no gap at all; this leaves 250 of these errors in a row, and
#: is a quarter of what a proof may leave open.
_TOLERANCE = 2.5e-7


@dataclass(frozen=True)
class QuadraticModel:
    """``max xᵀQx + lᵀx + constant`` over binary x with ``1ᵀx = m``, in units where gains are about 1.

    ``slack`` is what a solver's bound is widened by, in these units.
    """

    quadratic: NDArray[np.float64]
    linear: NDArray[np.float64]
    constant: float
    normal: Normal
    slack: float

    @classmethod
    def of(cls, problem: DispersionProblem, run: Run, formulation: str) -> QuadraticModel | None:
        """State a problem; ``None`` where the run is at its end before there is anything to solve.

        Parameters
        ----------
        problem : DispersionProblem
            The problem.
        run : Run
            Is offered the greedy decision improved by swaps, which the solver is to start from.
        formulation : {"nonconvex", "projected"}
            The objective as it is, or the concave one on the slice with the multipliers of our relaxation.

        Raises
        ------
        InvalidOption
            When the formulation is unknown.
        """
        if formulation not in ("nonconvex", "projected"):
            raise InvalidOption(f"formulation must be nonconvex or projected; got {formulation!r}")
        run.tighten(problem.trivial_bound())
        if solve_trivial(problem, run):
            return None
        run.offer(ascend(problem, greedy_decision(problem), run))
        if run.expired or run.proved:
            return None
        normal = Normal.of(problem)
        slack = _TOLERANCE * problem.scale * normal.factor + normal.error
        with run.building():
            if formulation == "nonconvex":
                return cls(normal.quadratic, normal.linear, 0.0, normal, slack)
            form = Tangents(problem, run).form
            if run.enough:
                return None
            # Concave everywhere: the direction 1 is bent down, and paid back as a constant on the slice.
            bend = 2 * float(np.abs(form.curved).sum(axis=1).max()) / problem.n
            means = form.curved.mean(axis=1)
            half = means - means.mean() / 2
            quadratic = form.curved - np.add.outer(half, half) - bend  # symmetric to the last bit
            linear = form.linear + 2 * problem.size * half
            return cls(quadratic, linear, float(bend * problem.size**2), normal, slack)

    def bound(self, value: float) -> float:
        """A solver's bound, the constant included, as a valid one on the problem's objective."""
        return self.normal.original(value + self.slack)
