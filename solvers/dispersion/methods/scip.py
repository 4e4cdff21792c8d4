"""Method ``scip``: the free peer for quadratic models."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.bounds.slice_form import Normal
from solvers.dispersion.bounds.tangents import Tangents
from solvers.dispersion.methods.branch_and_bound import marginal
from solvers.dispersion.problem import DispersionProblem
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["scip"]

#: Share of the scale by which bounds are widened: SCIP's feasibility tolerance is 1e-6.
_TOLERANCE = 4e-6


@method(DispersionProblem, "scip", kind="exact", requires="pyscipopt", install="pyscipopt")
def scip(problem: DispersionProblem, run: Run, *, formulation: str = "nonconvex") -> None:
    """SCIP on the quadratic model.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"nonconvex", "projected"}
        The objective as it is, or made concave on the slice by our multipliers.

    Raises
    ------
    InvalidOption
        When the formulation is unknown.
    """
    if formulation not in ("nonconvex", "projected"):
        raise InvalidOption(f"formulation must be nonconvex or projected; got {formulation!r}")
    import pyscipopt

    run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    normal = Normal.of(problem)
    n = problem.n
    with run.building():
        quadratic, linear, constant = normal.quadratic, normal.linear, 0.0
        if formulation == "projected":
            form = Tangents(problem, run).form
            bend = 2 * float(np.abs(form.curved).sum(axis=1).max()) / n
            quadratic, linear, constant = form.curved - bend, form.linear, bend * problem.size**2
        model = pyscipopt.Model()
        model.hideOutput()
        model.setParam("randomization/randomseedshift", run.seed % 2**31)
        chosen = [model.addVar(vtype="B", name=f"x{i}") for i in range(n)]
        model.addCons(pyscipopt.quicksum(chosen) == problem.size)
        value = model.addVar(lb=None, name="value")
        terms = [float(quadratic[i, i]) * chosen[i] * chosen[i] for i in range(n) if quadratic[i, i]]
        terms += [
            float(2 * quadratic[i, j]) * chosen[i] * chosen[j]
            for i in range(n)
            for j in range(i + 1, n)
            if quadratic[i, j]
        ]
        terms += [float(linear[i]) * chosen[i] for i in range(n)]
        model.addCons(value <= pyscipopt.quicksum(terms))
        model.setObjective(value, "maximize")
        if run.time_limit is not None:
            model.setParam("limits/time", max(run.remaining, 0.01))
    model.optimize()
    run.message = str(model.getStatus())
    run.nodes = int(model.getNNodes())
    if model.getNSols():
        best = model.getBestSol()
        run.offer([round(best[variable]) for variable in chosen])
    bound = float(model.getDualbound())
    if abs(bound) < model.infinity():
        slack = _TOLERANCE * problem.scale * normal.factor + normal.error
        run.tighten(normal.original(bound + constant + slack))
    if run.message == "userinterrupt":
        run.stop("interrupted", run.message)
