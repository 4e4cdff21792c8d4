"""Commercial and free solvers of quadratic models: called as a user would, and given our reformulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.prelude import dispersion_method
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.relaxations.tangents import Tangents
from solvers.dispersion.search.neighbourhood import incumbent
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption, InvalidProblem
from solvers.run import Run

__all__ = [
    "QuadraticModel",
    "cplex",
    "gurobi",
    "scip",
]

#: Share of the scale by which bounds are widened. The solvers are asked for 1e-9 in feasibility, reduced costs and
#: integrality, in units where gains are about 1, and for no gap at all; this leaves 250 of these errors in a row, and
#: is a quarter of what a proof may leave open.
_TOLERANCE = 2.5e-7


#: The objective as it is, or made concave on the slice by the multipliers of our relaxation.
Formulation = Literal["nonconvex", "projected"]


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
    def of(cls, problem: DispersionProblem, run: Run, formulation: Formulation) -> QuadraticModel | None:
        """State a problem; ``None`` where the run is at its end before there is anything to solve.

        Parameters
        ----------
        problem : DispersionProblem
            The problem.
        run : Run
            Is offered the greedy decision improved by swaps, which the solver is to start from.
        formulation : {"nonconvex", "projected"}
            The objective as it is, or the concave one on the slice with the multipliers of our relaxation.
        """
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


@dispersion_method(DispersionProblem, "gurobi", start="greedy", kind="exact", requires="gurobipy", install="gurobipy")
@one_thread
def gurobi(
    problem: DispersionProblem,
    run: Run,
    *,
    formulation: Formulation = "nonconvex",
    threads: int = 0,
    mip_gap: float = 0.0,
) -> None:
    """Gurobi on the quadratic model (its free licence takes up to 200 clients).

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"nonconvex", "projected"}
        ``"nonconvex"`` states the objective as it is, as the authors of FedGS do; ``"projected"`` the concave one
        on the slice, with the multipliers of our semidefinite relaxation.
    threads : int
        Gurobi's Threads.
    mip_gap : float
        Gurobi's MIPGap; none by default, as what it leaves open is missing from the proof.

    Raises
    ------
    InvalidOption
        When Gurobi refuses the number of threads.
    InvalidProblem
        When Gurobi's licence does not take the model.

    Notes
    -----
    Gurobi's bound comes from its floating-point search; it is widened by 2.5e-7 of the objective's scale. So its
    proofs count here, except where the scale is more than four times the objective's amount;
    ``details["native_status"]`` is what Gurobi itself says, in its own tolerances.
    """
    with run.loading():
        import gurobipy as gp
    stated = QuadraticModel.of(problem, run, formulation)
    if stated is None:
        return
    n = problem.n
    environment = gp.Env(params={"OutputFlag": 0})
    try:
        model = gp.Model(env=environment)
        model.Params.Seed = run.seed % 2_000_000_000
        try:
            model.Params.Threads = threads
        except gp.GurobiError as error:
            raise InvalidOption(f"gurobi does not take {threads} threads: {error}") from error
        model.Params.MIPGap, model.Params.MIPGapAbs = mip_gap, 0.0
        model.Params.FeasibilityTol = model.Params.OptimalityTol = model.Params.IntFeasTol = 1e-9
        model.Params.NonConvex = 2
        chosen = model.addMVar(n, vtype="B")
        model.addConstr(chosen.sum() == problem.size)
        value = chosen @ stated.quadratic @ chosen + stated.linear @ chosen + stated.constant
        model.setObjective(value, gp.GRB.MAXIMIZE)
        if run.x is not None:
            chosen.setAttr("Start", problem.decision(run.x))
        if run.time_limit is not None:
            model.Params.TimeLimit = max(run.remaining, 0.01)

        def follow(model: Any, where: int) -> None:
            """Hand over what Gurobi finds as it finds it; end it at a gap that is good enough."""
            if where == gp.GRB.Callback.MIPSOL:
                run.offer(np.rint(model.cbGetSolution(chosen)).astype(np.int64))
            elif where == gp.GRB.Callback.MIP:
                run.tighten(stated.bound(model.cbGet(gp.GRB.Callback.MIP_OBJBND)))
            if run.enough:
                model.terminate()

        try:
            model.optimize(follow)
        except gp.GurobiError as error:
            raise InvalidProblem(f"gurobi does not take this model of {n} clients: {error}") from error
        kinds = gp.GRB.Status
        names = {getattr(kinds, name): name.lower().replace("_", " ") for name in dir(kinds) if name.isupper()}
        run.message = names.get(model.Status, f"status {model.Status}")
        run.details["native_status"] = run.message
        run.nodes = int(model.NodeCount)
        if model.SolCount:
            run.offer(np.rint(chosen.X).astype(np.int64))
        if np.isfinite(model.ObjBound):
            run.tighten(stated.bound(float(model.ObjBound)))
        if run.enough:
            run.message = ""  # Gurobi would say "interrupted"
        elif model.Status == gp.GRB.INTERRUPTED:
            run.stop("interrupted", run.message)
    finally:
        environment.dispose()


@dispersion_method(DispersionProblem, "cplex", start="greedy", kind="exact", requires="cplex", install="cplex")
@one_thread
def cplex(problem: DispersionProblem, run: Run, *, formulation: Formulation = "nonconvex", threads: int = 0) -> None:
    """CPLEX on the quadratic model (its free edition takes up to 1000 clients).

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"nonconvex", "projected"}
        ``"nonconvex"`` states the objective as it is, which CPLEX makes concave or linear by itself; ``"projected"``
        the concave one on the slice, with the multipliers of our semidefinite relaxation.
    threads : int
        CPLEX's threads; 0 leaves it to CPLEX.

    Raises
    ------
    InvalidProblem
        When CPLEX's licence does not take the model.

    Notes
    -----
    CPLEX's bound is widened by 2.5e-7 of the objective's scale, as for ``gurobi``; ``details["native_status"]`` is
    what CPLEX itself says, in its own tolerances.
    """
    with run.loading():
        import cplex as ibm
    stated = QuadraticModel.of(problem, run, formulation)
    if stated is None:
        return
    everyone = list(range(problem.n))
    with run.building():
        model = _silent(ibm.Cplex())
        settings = model.parameters
        settings.randomseed.set(run.seed % 2**31)
        settings.threads.set(threads)
        settings.simplex.tolerances.feasibility.set(1e-9)
        settings.simplex.tolerances.optimality.set(1e-9)
        for tolerance in (settings.mip.tolerances.mipgap, settings.mip.tolerances.absmipgap):
            tolerance.set(0.0)
        settings.mip.tolerances.integrality.set(0.0)
        model.objective.set_sense(model.objective.sense.maximize)
        model.objective.set_offset(stated.constant)
        model.variables.add(obj=stated.linear.tolist(), types="B" * problem.n)
        row = ibm.SparsePair(everyone, [1.0] * problem.n)
        model.linear_constraints.add(lin_expr=[row], senses="E", rhs=[float(problem.size)])
        model.objective.set_quadratic([ibm.SparsePair(everyone, each) for each in (2 * stated.quadratic).tolist()])
        start = ibm.SparsePair(everyone, incumbent(run).astype(float).tolist())
        model.MIP_starts.add(start, model.MIP_starts.effort_level.check_feasibility)
    try:
        if run.time_limit is not None:
            settings.timelimit.set(max(run.remaining, 0.01))

        model.register_callback(_cplex_follower(run, stated))
        try:
            model.solve()
        except ibm.CplexError as error:
            raise InvalidProblem(f"cplex does not take this model of {problem.n} clients: {error}") from error
        solution = model.solution
        run.message = str(solution.get_status_string())
        # CPLEX says "integer optimal solution", and what limit it met instead.
        proved = solution.get_status() in (solution.status.MIP_optimal, solution.status.optimal_tolerance)
        run.details["native_status"] = "optimal" if proved else run.message
        run.nodes = int(solution.progress.get_num_nodes_processed())
        if solution.is_primal_feasible():
            run.offer(np.rint(solution.get_values()).astype(np.int64))
        bound = float(solution.MIP.get_best_objective())
        if abs(bound) < ibm.infinity:
            run.tighten(stated.bound(bound))
        if run.enough:
            run.message = ""  # CPLEX would say "aborted"
    finally:
        model.end()


def _silent(model: Any) -> Any:
    """The model with nothing to print to."""
    for silence in (model.set_log_stream, model.set_results_stream, model.set_warning_stream, model.set_error_stream):
        silence(None)
    return model


def _cplex_follower(run: Run, stated: QuadraticModel) -> Any:
    """A callback that hands over what CPLEX finds as it finds it, and ends it at a gap that is good enough."""
    from cplex.callbacks import MIPInfoCallback

    best = -np.inf

    class Follow(MIPInfoCallback):
        def __call__(self) -> None:
            nonlocal best
            if self.has_incumbent() and self.get_incumbent_objective_value() > best:
                best = self.get_incumbent_objective_value()
                run.offer(np.rint(self.get_incumbent_values()).astype(np.int64))
            run.tighten(stated.bound(self.get_best_objective_value()))
            if run.enough:
                self.abort()

    return Follow


#: SCIP's words for why it ended, apart.
_SCIP_STATUS = {
    "timelimit": "time limit",
    "userinterrupt": "interrupted",
    "gaplimit": "gap limit",
    "memlimit": "memory limit",
    "nodelimit": "node limit",
}

#: Stating the model takes SCIP this many times as long as writing its terms down in Python did.
_STATING = 1.5


@dispersion_method(DispersionProblem, "scip", start="greedy", kind="exact", requires="pyscipopt", install="pyscipopt")
@one_thread
def scip(problem: DispersionProblem, run: Run, *, formulation: Formulation = "nonconvex") -> None:
    """SCIP on the quadratic model.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"nonconvex", "projected"}
        The objective as it is, or made concave on the slice by our multipliers.

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
        terms = _scip_terms(run, chosen, stated.quadratic, stated.linear)
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
        _follow_scip(model, run, chosen, stated)
    if run.time_limit is not None:
        # SCIP looks at its clock between steps, the longest of which take about as long as stating the model did.
        model.setParam("limits/time", max(run.remaining - run.build_seconds, 0.01))
    model.optimize()
    run.message = run.details["native_status"] = _SCIP_STATUS.get(str(model.getStatus()), str(model.getStatus()))
    run.nodes = int(model.getNNodes())
    _report_scip(model, run, chosen, stated)
    if run.enough:
        run.message = ""  # SCIP would say "interrupted"
    elif run.message in ("interrupted", "time limit"):
        run.stop("interrupted" if run.message == "interrupted" else "time-limit", run.message)


def _follow_scip(model: Any, run: Run, chosen: list[Any], stated: QuadraticModel) -> None:
    """Have SCIP hand over what it finds as it finds it, and end at a gap that is good enough."""
    import pyscipopt

    events = pyscipopt.SCIP_EVENTTYPE.BESTSOLFOUND | pyscipopt.SCIP_EVENTTYPE.NODESOLVED

    class Follow(pyscipopt.Eventhdlr):
        def eventinit(self) -> None:
            self.model.catchEvent(events, self)

        def eventexit(self) -> None:
            self.model.dropEvent(events, self)

        def eventexec(self, event: Any) -> None:
            _report_scip(self.model, run, chosen, stated)
            if run.enough:
                self.model.interruptSolve()

    model.includeEventhdlr(Follow(), "follow", "reports to the run")


def _report_scip(model: Any, run: Run, chosen: list[Any], stated: QuadraticModel) -> None:
    """Hand SCIP's best decision and bound to the run."""
    if model.getNSols():
        best = model.getBestSol()
        run.offer([round(best[variable]) for variable in chosen])
    bound = float(model.getDualbound())
    if abs(bound) < model.infinity():
        run.tighten(stated.bound(bound + stated.constant))


def _scip_terms(
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
