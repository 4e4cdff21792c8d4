"""Method ``gurobi``: the peer, called as a user would, and given our reformulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.dispersion.methods.quadratic_model import QuadraticModel
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption, InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["gurobi"]


@method(DispersionProblem, "gurobi", kind="exact", requires="gurobipy", install="gurobipy")
@one_thread
def gurobi(
    problem: DispersionProblem, run: Run, *, formulation: str = "nonconvex", threads: int = 0, mip_gap: float = 0.0
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
        When the formulation is unknown, or Gurobi refuses the number of threads.
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
