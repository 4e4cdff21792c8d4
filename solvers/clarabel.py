"""Run a CVXPY model through Clarabel inside a run's time, trusting nothing of what comes back."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.run import Run

__all__ = ["clarabel_point"]


def clarabel_point(model: Any, variable: Any, run: Run, *, accuracy: float = 1e-12) -> NDArray[np.float64] | None:
    """Solve a model, and return the variable's value where there is a finite one.

    Parameters
    ----------
    model : cvxpy.Problem
        A convex problem.
    variable : cvxpy.Variable
        Whose value is wanted.
    run : Run
        Its remaining time is the limit; it is told the native status, and why it stopped where there is no value.
    accuracy : float
        Tolerance on gap and feasibility; where that is more than Clarabel can do, it is tried with its own 1e-8.

    Returns
    -------
    ndarray or None
        The value, as inaccurate as the solver left it; ``None`` after an error or when time ran out before any.
    """
    import cvxpy as cp

    error: Exception | None = None
    for tolerance in (accuracy, 1e-8):
        if run.expired:
            return None
        options = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}
        if math.isfinite(run.remaining):
            options["time_limit"] = max(run.remaining, 1e-3)
        try:
            with warnings.catch_warnings():
                # That Clarabel could not reach the last digit is no news: the bound says how far the answer is.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                model.solve(solver=cp.CLARABEL, **options)
        except cp.error.SolverError as raised:
            error = raised
            continue
        run.message = f"clarabel: {model.status}"
        run.details["solver_time"] = model.solver_stats.solve_time
        if variable.value is None or not np.isfinite(variable.value).all():
            run.stop("time-limit" if run.expired else "error", run.message)
            return None
        return np.asarray(variable.value, dtype=np.float64)
    run.stop("error", f"clarabel: {str(error).partition(chr(10))[0]}")
    return None
