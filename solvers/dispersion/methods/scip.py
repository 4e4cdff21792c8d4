"""Method ``scip``: the free peer for quadratic models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.quadratic_model import QuadraticModel
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import incumbent
from solvers.dispersion.search.threads import one_thread
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
    with run.loading():
        import pyscipopt
    stated = QuadraticModel.of(problem, run, formulation)
    if stated is None:
        return
    with run.building():
        model = pyscipopt.Model()
        model.hideOutput()
        for tolerance in ("feastol", "dualfeastol"):
            model.setParam(f"numerics/{tolerance}", 1e-9)
        model.setParam("randomization/randomseedshift", run.seed % 2**31)
        chosen = [model.addVar(vtype="B", name=f"x{i}") for i in range(problem.n)]
        terms = _terms(run, chosen, stated.quadratic, stated.linear)
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
        _follow(model, run, chosen, stated)
    if run.time_limit is not None:
        # SCIP looks at its clock between steps, the longest of which take about as long as stating the model did.
        model.setParam("limits/time", max(run.remaining - run.build_seconds, 0.01))
    model.optimize()
    run.message = run.details["native_status"] = _STATUS.get(str(model.getStatus()), str(model.getStatus()))
    run.nodes = int(model.getNNodes())
    _report(model, run, chosen, stated)
    if run.enough:
        run.message = ""  # SCIP would say "interrupted"
    elif run.message in ("interrupted", "time limit"):
        run.stop("interrupted" if run.message == "interrupted" else "time-limit", run.message)


def _follow(model: Any, run: Run, chosen: list[Any], stated: QuadraticModel) -> None:
    """Have SCIP hand over what it finds as it finds it, and end at a gap that is good enough."""
    import pyscipopt

    events = pyscipopt.SCIP_EVENTTYPE.BESTSOLFOUND | pyscipopt.SCIP_EVENTTYPE.NODESOLVED

    class Follow(pyscipopt.Eventhdlr):
        def eventinit(self) -> None:
            self.model.catchEvent(events, self)

        def eventexit(self) -> None:
            self.model.dropEvent(events, self)

        def eventexec(self, event: Any) -> None:
            _report(self.model, run, chosen, stated)
            if run.enough:
                self.model.interruptSolve()

    model.includeEventhdlr(Follow(), "follow", "reports to the run")


def _report(model: Any, run: Run, chosen: list[Any], stated: QuadraticModel) -> None:
    """Hand SCIP's best decision and bound to the run."""
    if model.getNSols():
        best = model.getBestSol()
        run.offer([round(best[variable]) for variable in chosen])
    bound = float(model.getDualbound())
    if abs(bound) < model.infinity():
        run.tighten(stated.bound(bound + stated.constant))


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
