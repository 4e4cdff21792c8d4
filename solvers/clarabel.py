"""Run a CVXPY model through Clarabel inside a run's time, trusting nothing of what comes back."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.run import Run

__all__ = ["clarabel_point", "solved"]


def clarabel_point(model: Any, variable: Any, run: Run) -> NDArray[np.float64] | None:
    """Solve a model, and return the variable's value where there is a finite one.

    Parameters
    ----------
    model : cvxpy.Problem
        A convex problem.
    variable : cvxpy.Variable
        Whose value is wanted.
    run : Run
        Its remaining time is the limit; it is told the native status, and why it stopped where there is no value.

    Returns
    -------
    ndarray or None
        The value, as inaccurate as the solver left it; ``None`` after an error or when time ran out before any.
    """
    import cvxpy as cp

    limit = {} if math.isinf(run.remaining) else {"time_limit": max(run.remaining, 1e-3)}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # the bound says by how much
            model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, **limit)
    except cp.error.SolverError as error:
        run.stop("error", str(error).partition("\n")[0])
        return None
    if variable.value is None or not np.isfinite(variable.value).all():
        run.stop("time-limit" if run.expired else "error", f"clarabel: {model.status}")
        return None
    run.message = f"clarabel: {model.status}"
    run.details["solver_time"] = model.solver_stats.solve_time
    return np.asarray(variable.value, dtype=np.float64)


def solved(model: Any, run: Run) -> bool:
    """Run CLARABEL inside what is left of the time; whether it left a point to look at."""
    import cvxpy as cp

    if run.expired:
        return False
    error: Exception | None = None
    for accuracy in (1e-12, 1e-8):  # the second is CLARABEL's own, where the first is more than it can do
        options = {"tol_gap_abs": accuracy, "tol_gap_rel": accuracy, "tol_feas": accuracy}
        if math.isfinite(run.remaining):
            options["time_limit"] = max(run.remaining, 1e-3)
        try:
            with warnings.catch_warnings():
                # That CLARABEL could not reach the last digit is no news: the bound says how far the answer is.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                model.solve(solver=cp.CLARABEL, **options)
        except cp.error.SolverError as raised:
            error = raised
            continue
        run.message = f"CLARABEL: {model.status}"
        return True
    run.stop("error", f"CLARABEL: {error}")
    return False
