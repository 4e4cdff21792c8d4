"""Method ``cplex``: the peer, called as a user would, and given our reformulation."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.bounds.slice_form import Normal
from solvers.dispersion.bounds.tangents import concave_everywhere
from solvers.dispersion.methods.branch_and_bound import marginal
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision, incumbent
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption, InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["cplex"]

#: Share of the scale by which bounds are widened, as for ``gurobi``: CPLEX is asked for 1e-9 in feasibility and
#: reduced costs, for no gap at all and for exact integrality.
_TOLERANCE = 2.5e-7


@method(DispersionProblem, "cplex", kind="exact", requires="cplex", install="cplex")
@one_thread
def cplex(problem: DispersionProblem, run: Run, *, formulation: str = "nonconvex", threads: int = 0) -> None:
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
    InvalidOption
        When the formulation is unknown.
    InvalidProblem
        When CPLEX's licence does not take the model.

    Notes
    -----
    CPLEX's bound is widened by 2.5e-7 of the objective's scale, as for ``gurobi``; ``details["native_status"]`` is
    what CPLEX itself says, in its own tolerances.
    """
    if formulation not in ("nonconvex", "projected"):
        raise InvalidOption(f"formulation must be nonconvex or projected; got {formulation!r}")
    import cplex as ibm

    run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    run.offer(ascend(problem, greedy_decision(problem), run))
    if run.expired or run.proved:
        return
    normal = Normal.of(problem)
    everyone = list(range(problem.n))
    with run.building():
        quadratic, linear, constant = normal.quadratic, normal.linear, 0.0
        if formulation == "projected":
            quadratic, linear, constant = concave_everywhere(problem, run)
        model = ibm.Cplex()
        for silence in (model.set_log_stream, model.set_results_stream, model.set_warning_stream):
            silence(None)
        model.set_error_stream(None)
        settings = model.parameters
        settings.randomseed.set(run.seed % 2**31)
        settings.threads.set(threads)
        settings.simplex.tolerances.feasibility.set(1e-9)
        settings.simplex.tolerances.optimality.set(1e-9)
        for tolerance in (settings.mip.tolerances.mipgap, settings.mip.tolerances.absmipgap):
            tolerance.set(0.0)
        settings.mip.tolerances.integrality.set(0.0)
        model.objective.set_sense(model.objective.sense.maximize)
        model.objective.set_offset(constant)
        model.variables.add(obj=linear.tolist(), types="B" * problem.n)
        row = ibm.SparsePair(everyone, [1.0] * problem.n)
        model.linear_constraints.add(lin_expr=[row], senses="E", rhs=[float(problem.size)])
        model.objective.set_quadratic([ibm.SparsePair(everyone, each) for each in (2 * quadratic).tolist()])
        start = ibm.SparsePair(everyone, incumbent(run).astype(float).tolist())
        model.MIP_starts.add(start, model.MIP_starts.effort_level.check_feasibility)
    try:
        if run.time_limit is not None:
            settings.timelimit.set(max(run.remaining, 0.01))
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
            slack = _TOLERANCE * problem.scale * normal.factor + normal.error
            run.tighten(normal.original(bound + slack))
    finally:
        model.end()
