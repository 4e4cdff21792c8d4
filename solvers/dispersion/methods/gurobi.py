"""Method ``gurobi``: the peer, called as a user would, and given our reformulation."""

from __future__ import annotations

import numpy as np

from solvers.dispersion.bounds.slice_form import Normal
from solvers.dispersion.bounds.tangents import concave_everywhere
from solvers.dispersion.methods.branch_and_bound import marginal
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision
from solvers.dispersion.search.threads import one_thread
from solvers.errors import InvalidOption, InvalidProblem
from solvers.registry import method
from solvers.run import Run

__all__ = ["gurobi"]

#: Share of the scale by which bounds are widened. Gurobi is asked for 1e-9 in feasibility, reduced costs and
#: integrality, in units where gains are about 1, and for no gap at all; this leaves 250 of these errors in a row, and
#: is a quarter of what a proof may leave open.
_TOLERANCE = 2.5e-7


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
        When the formulation is unknown.
    InvalidProblem
        When Gurobi's licence does not take the model.

    Notes
    -----
    Gurobi's bound comes from its floating-point search; it is widened by 2.5e-7 of the objective's scale. So its
    proofs count here, except where the scale is more than four times the objective's amount;
    ``details["native_status"]`` is what Gurobi itself says, in its own tolerances.
    """
    if formulation not in ("nonconvex", "projected"):
        raise InvalidOption(f"formulation must be nonconvex or projected; got {formulation!r}")
    import gurobipy as gp

    run.tighten(problem.trivial_bound())
    if marginal(problem, run):
        return
    run.offer(ascend(problem, greedy_decision(problem), run))
    if run.expired or run.proved:
        return
    normal = Normal.of(problem)
    n = problem.n
    with run.building():
        quadratic, linear = normal.quadratic, normal.linear
        constant: float = 0.0
        if formulation == "projected":
            quadratic, linear, constant = concave_everywhere(problem, run)
    environment = gp.Env(params={"OutputFlag": 0})
    try:
        model = gp.Model(env=environment)
        model.Params.Seed = run.seed % 2_000_000_000
        model.Params.Threads = threads
        model.Params.MIPGap, model.Params.MIPGapAbs = mip_gap, 0.0
        model.Params.FeasibilityTol = model.Params.OptimalityTol = model.Params.IntFeasTol = 1e-9
        model.Params.NonConvex = 2
        chosen = model.addMVar(n, vtype="B")
        model.addConstr(chosen.sum() == problem.size)
        model.setObjective(chosen @ quadratic @ chosen + linear @ chosen + constant, gp.GRB.MAXIMIZE)
        if run.x is not None:
            chosen.setAttr("Start", problem.decision(run.x))
        if run.time_limit is not None:
            model.Params.TimeLimit = max(run.remaining, 0.01)
        try:
            model.optimize()
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
            slack = _TOLERANCE * problem.scale * normal.factor + normal.error
            run.tighten(normal.original(float(model.ObjBound) + slack))
        if model.Status == gp.GRB.INTERRUPTED:
            run.stop("interrupted", run.message)
    finally:
        environment.dispose()
