"""Method ``cplex``: the peer, called as a user would, and given our reformulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.methods.quadratic_model import QuadraticModel
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import incumbent
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["cplex"]


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

        model.register_callback(_follower(run, stated))
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


def _follower(run: Run, stated: QuadraticModel) -> Any:
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
