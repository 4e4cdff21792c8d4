"""External solvers of quadratic models: Gurobi, CPLEX and SCIP, called as a user would, and given our reformulation.

`QuadraticModel` states variables, objective and rows once, and takes what a solver reports; a method translates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.backends import offer_answer
from solvers.dispersion.neighbourhood import incumbent
from solvers.dispersion.prelude import dispersion_method, one_thread
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.semidefinite import OuterApproximation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.errors import InvalidOption, InvalidProblem
from solvers.feasible_set import Row
from solvers.options import AtLeast
from solvers.run import Run

#: Share of the scale by which bounds are widened. The solvers are asked for 1e-9 or less in feasibility, reduced costs
#: and integrality, in units where gains are about 1, and for no gap at all; this leaves 250 of these errors in a row,
#: and is a quarter of what a proof may leave open.
_TOLERANCE = 2.5e-7


#: The objective as it is, or made concave on the slice by the multipliers of our relaxation.
Formulation = Literal["nonconvex", "projected"]


@dataclass(frozen=True)
class QuadraticModel:
    """``max xᵀQx + lᵀx + constant`` over binary x that satisfy ``rows``, in units where gains are about 1.

    ``slack`` is what a solver's bound is widened by, in these units.
    """

    problem: DispersionProblem
    quadratic: NDArray[np.float64]
    linear: NDArray[np.float64]
    constant: float
    rows: list[Row]
    scaled: ScaledProblem
    slack: float

    @classmethod
    def of(cls, problem: DispersionProblem, run: Run, formulation: Formulation) -> QuadraticModel | None:
        """State a problem; ``None`` where the run is at its end before there is anything to solve.

        Parameters
        ----------
        problem : DispersionProblem
            The problem.
        run : Run
            Is given the bound of the relaxation that ``"projected"`` needs.
        formulation : {"nonconvex", "projected"}
            The objective as it is, or the concave one on the slice with the multipliers of our relaxation.
        """
        scaled, rows = ScaledProblem.of(problem), [row.scaled() for row in problem.feasible.rows()]
        slack = _TOLERANCE * problem.scale * scaled.factor + scaled.error
        with run.building():
            if formulation == "nonconvex":
                return cls(problem, scaled.quadratic, scaled.linear, 0.0, rows, scaled, slack)
            form = OuterApproximation(problem, run).form
            if run.enough:
                return None
            # Concave everywhere: the direction 1 is bent down, and paid back as a constant on the slice.
            bend = 2 * float(np.abs(form.curved).sum(axis=1).max()) / problem.n
            means = form.curved.mean(axis=1)
            half = means - means.mean() / 2
            quadratic = form.curved - np.add.outer(half, half) - bend  # symmetric to the last bit
            linear = form.linear + 2 * problem.size * half
            return cls(problem, quadratic, linear, float(bend * problem.size**2), rows, scaled, slack)

    def sides(self) -> list[tuple[str, NDArray[np.float64], str, float]]:
        """Return equations and inequalities of all rows."""
        return [side for row in self.rows for side in row.sides()]

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.linear.size

    def report(self, run: Run, x: ArrayLike | None, bound: float) -> bool:
        """Hand over a decision and a bound in these units, widened; True where the solver may end."""
        if x is not None:
            offer_answer(self.problem, run, np.rint(x).astype(np.int64))
        if np.isfinite(bound):
            run.tighten(self.scaled.original(float(bound) + self.slack), is_claimed=True)
        return run.enough or run.is_cancelled

    def finish(self, run: Run, status: str, nodes: int, x: ArrayLike | None, bound: float) -> None:
        """Hand over what a solver ends with, and its own word for why it did."""
        run.message = run.details["native_status"] = status
        run.nodes = nodes
        if self.report(run, x, bound):
            run.message = ""  # the solver would say "interrupted"
        elif status in ("interrupted", "time limit"):
            run.stop("interrupted" if status == "interrupted" else "time-limit", status)


@dispersion_method(
    DispersionProblem, "gurobi", start="greedy", kind="exact", constraints=True, requires="gurobipy", install="gurobipy"
)
@one_thread
def gurobi(
    problem: DispersionProblem,
    run: Run,
    *,
    formulation: Formulation = "nonconvex",
    threads: int = 0,
    mip_gap: Annotated[float, AtLeast(0)] = 0.0,
) -> None:
    """Gurobi on the quadratic model (its free licence takes up to 200 clients).

    Parameters
    ----------
    formulation : {"nonconvex", "projected"}
        ``"nonconvex"`` states the objective as it is, as the authors of FedGS do; ``"projected"`` the concave one
        on the slice, with the multipliers of our semidefinite relaxation.
    threads : int
        Gurobi's parameter Threads; 0 leaves it to Gurobi.
    mip_gap : float
        Gurobi's MIPGap, 0 or more. What it leaves open is missing from the proof.

    Raises
    ------
    InvalidOption
        When Gurobi refuses the number of threads.
    InvalidProblem
        When Gurobi's licence does not take the model.

    Notes
    -----
    Gurobi's bound comes from its floating-point search; it is widened by 2.5e-7 of the objective's scale. So its
    proofs count here, except where the scale is more than 4, and more than four times the objective's amount;
    ``Solution.native_status`` is what Gurobi itself says, in its own tolerances.
    """
    with run.loading():
        import gurobipy as gp
    stated = QuadraticModel.of(problem, run, formulation)
    if stated is None:
        return
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
        chosen = model.addMVar(stated.n, vtype="B")
        for _, coefficients, sense, limit in stated.sides():
            total = coefficients @ chosen
            model.addConstr(total == limit if sense == "=" else total <= limit if sense == "<=" else total >= limit)
        value = chosen @ stated.quadratic @ chosen + stated.linear @ chosen + stated.constant
        model.setObjective(value, gp.GRB.MAXIMIZE)
        chosen.setAttr("Start", incumbent(run))
        if run.time_limit is not None:
            model.Params.TimeLimit = max(run.remaining, 0.01)

        def follow(model: Any, where: int) -> None:
            """Hand over what Gurobi finds as it finds it; end it at a gap that is good enough."""
            if where == gp.GRB.Callback.MIPSOL:
                stated.report(run, model.cbGetSolution(chosen), np.inf)
            elif where == gp.GRB.Callback.MIP:
                stated.report(run, None, model.cbGet(gp.GRB.Callback.MIP_OBJBND))
            if run.enough or run.is_cancelled:
                model.terminate()

        try:
            model.optimize(follow)
        except gp.GurobiError as error:
            raise InvalidProblem(f"gurobi does not take this model of {stated.n} clients: {error}") from error
        kinds = gp.GRB.Status
        names = {getattr(kinds, name): name.lower().replace("_", " ") for name in dir(kinds) if name.isupper()}
        status = names.get(model.Status, f"status {model.Status}")
        stated.finish(run, status, int(model.NodeCount), chosen.X if model.SolCount else None, model.ObjBound)
    finally:
        environment.dispose()


@dispersion_method(
    DispersionProblem, "cplex", start="greedy", kind="exact", constraints=True, requires="cplex", install="cplex"
)
@one_thread
def cplex(problem: DispersionProblem, run: Run, *, formulation: Formulation = "nonconvex", threads: int = 0) -> None:
    """CPLEX on the quadratic model (its free edition takes up to 1000 clients).

    Parameters
    ----------
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
    CPLEX's bound is widened by 2.5e-7 of the objective's scale, as for ``gurobi``; ``Solution.native_status`` is
    what CPLEX itself says, in its own tolerances.
    """
    with run.loading():
        import cplex as ibm
    stated = QuadraticModel.of(problem, run, formulation)
    if stated is None:
        return
    everyone = list(range(stated.n))
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
        model.variables.add(obj=stated.linear.tolist(), types="B" * stated.n)
        for _, coefficients, sense, limit in stated.sides():
            row = ibm.SparsePair(everyone, coefficients.tolist())
            model.linear_constraints.add([row], {"=": "E", "<=": "L", ">=": "G"}[sense], [limit])
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
            raise InvalidProblem(f"cplex does not take this model of {stated.n} clients: {error}") from error
        solution = model.solution
        # CPLEX says "integer optimal solution", and what limit it met instead.
        proved = solution.get_status() in (solution.status.MIP_optimal, solution.status.optimal_tolerance)
        bound = float(solution.MIP.get_best_objective())
        stated.finish(
            run,
            "optimal" if proved else str(solution.get_status_string()),
            int(solution.progress.get_num_nodes_processed()),
            solution.get_values() if solution.is_primal_feasible() else None,
            bound if abs(bound) < ibm.infinity else np.inf,
        )
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
            x = None
            if self.has_incumbent() and self.get_incumbent_objective_value() > best:
                best, x = self.get_incumbent_objective_value(), self.get_incumbent_values()
            if stated.report(run, x, self.get_best_objective_value()):
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


@dispersion_method(
    DispersionProblem, "scip", start="greedy", kind="exact", constraints=True, requires="pyscipopt", install="pyscipopt"
)
@one_thread
def scip(problem: DispersionProblem, run: Run, *, formulation: Formulation = "nonconvex") -> None:
    """SCIP on the quadratic model.

    Parameters
    ----------
    formulation : {"nonconvex", "projected"}
        The objective as it is, or made concave on the slice by our multipliers.

    Notes
    -----
    SCIP's bound is widened by 2.5e-7 of the objective's scale, as for ``gurobi``; ``Solution.native_status`` is
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
        chosen = [model.addVar(vtype="B", name=f"x{i}") for i in range(stated.n)]
        terms = _scip_terms(run, chosen, stated.quadratic, stated.linear)
        if terms is None:
            run.stop("time-limit", "stating the model would take all the time there is")
            return
        for _, coefficients, sense, limit in stated.sides():
            row = pyscipopt.quicksum(value * each for value, each in zip(coefficients.tolist(), chosen, strict=True))
            model.addCons(row == limit if sense == "=" else row <= limit if sense == "<=" else row >= limit)
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
    status = str(model.getStatus())
    stated.finish(run, _SCIP_STATUS.get(status, status), int(model.getNNodes()), *_scip_best(model, chosen, stated))


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
            if stated.report(run, *_scip_best(self.model, chosen, stated)):
                self.model.interruptSolve()

    model.includeEventhdlr(Follow(), "follow", "reports to the run")


def _scip_best(model: Any, chosen: list[Any], stated: QuadraticModel) -> tuple[list[float] | None, float]:
    """SCIP's best decision and bound."""
    best = model.getBestSol() if model.getNSols() else None
    bound = float(model.getDualbound())
    x = None if best is None else [best[variable] for variable in chosen]
    return x, bound + stated.constant if abs(bound) < model.infinity() else np.inf


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
