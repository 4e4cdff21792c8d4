"""Method ``scip``: the free peer for quadratic models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.slice_form import Normal
from solvers.dispersion.bounds.tangents import Tangents
from solvers.dispersion.methods.branch_and_bound import marginal
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision, incumbent
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["scip"]

#: SCIP's words for why it ended, apart.
_STATUS = {
    "timelimit": "time limit",
    "userinterrupt": "interrupted",
    "gaplimit": "gap limit",
    "memlimit": "memory limit",
    "nodelimit": "node limit",
}

#: Share of the scale by which bounds are widened. SCIP is asked for 1e-9 in feasibility and reduced costs, in units
#: where gains are about 1, and for no gap at all; this leaves 250 of these errors in a row, and is a quarter of what a
#: proof may leave open.
_TOLERANCE = 2.5e-7

#: Stating the model takes SCIP this many times as long as writing its terms down in Python did.
_STATING = 1.5


@method(DispersionProblem, "scip", kind="exact", requires="pyscipopt", install="pyscipopt")
@one_thread
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

    Notes
    -----
    SCIP's bound is widened by 2.5e-7 of the objective's scale, as for ``gurobi``; ``details["native_status"]`` is
    what SCIP itself says, in its own tolerances. Where stating the model would take all the time there is, the
    decision is the incumbent that SCIP would have started from.
    """
    if formulation not in ("nonconvex", "projected"):
        raise InvalidOption(f"formulation must be nonconvex or projected; got {formulation!r}")
    import pyscipopt

    run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    run.offer(ascend(problem, greedy_decision(problem), run))
    if run.expired or run.proved:
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
        for tolerance in ("feastol", "dualfeastol"):
            model.setParam(f"numerics/{tolerance}", 1e-9)
        model.setParam("randomization/randomseedshift", run.seed % 2**31)
        chosen = [model.addVar(vtype="B", name=f"x{i}") for i in range(n)]
        terms = _terms(run, chosen, quadratic, linear)
        if terms is None:
            run.stop("time-limit", "stating the model would take all the time there is")
            return
        model.addCons(pyscipopt.quicksum(chosen) == problem.size)
        value = model.addVar(lb=None, name="value")
        model.addCons(value <= pyscipopt.quicksum(terms))
        model.setObjective(value, "maximize")
        start = model.createPartialSol()
        for variable, bit in zip(chosen, incumbent(run).tolist(), strict=True):
            model.setSolVal(start, variable, bit)
        model.addSol(start)
    if run.time_limit is not None:
        # SCIP looks at its clock between steps, the longest of which take about as long as stating the model did.
        model.setParam("limits/time", max(run.remaining - run.build_seconds, 0.01))
    model.optimize()
    run.message = run.details["native_status"] = _STATUS.get(str(model.getStatus()), str(model.getStatus()))
    run.nodes = int(model.getNNodes())
    if model.getNSols():
        best = model.getBestSol()
        run.offer([round(best[variable]) for variable in chosen])
    bound = float(model.getDualbound())
    if abs(bound) < model.infinity():
        slack = _TOLERANCE * problem.scale * normal.factor + normal.error
        run.tighten(normal.original(bound + constant + slack))
    if run.message in ("interrupted", "time limit"):
        run.stop("interrupted" if run.message == "interrupted" else "time-limit", run.message)


def _terms(
    run: Run, chosen: list[Any], quadratic: NDArray[np.float64], linear: NDArray[np.float64]
) -> list[Any] | None:
    """The terms of the objective; None as soon as it is foreseen that the model cannot be stated in time."""
    n, started = len(chosen), run.seconds
    terms: list[Any] = []
    for i, variable in enumerate(chosen):
        terms.append(float(linear[i]) * variable)
        if quadratic[i, i]:
            terms.append(float(quadratic[i, i]) * variable * variable)
        row = 2 * quadratic[i]
        terms += [float(row[j]) * variable * chosen[j] for j in range(i + 1, n) if row[j]]
        share = 1 - (1 - (i + 1) / n) ** 2  # of a triangle
        spent = run.seconds - started
        if spent > 0.05 and (1 + _STATING) * spent / share - spent > run.remaining:
            return None
    return terms
