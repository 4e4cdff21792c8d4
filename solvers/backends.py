"""CP-SAT and Clarabel inside a run's time: answers are evaluated again, bounds of CP-SAT rest on its word."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.feasible_set import Hypersimplex
from solvers.run import Run
from solvers.subsets import ConstrainedProblem


def solver_for(run: Run, threads: int = 1, spare: float = 0.0) -> Any:
    """Return a CP-SAT solver with the run's seed and what is left of its time, less ``spare`` seconds."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = threads
    solver.parameters.random_seed = run.seed % 2**31
    # Its own handler writes a log line, and so asks for memory in the middle of whatever the signal interrupts: where
    # that is a request for memory, too, the process waits for itself for ever. `run_cp_sat` hears Ctrl-C instead.
    solver.parameters.catch_sigint_signal = False
    if math.isfinite(run.remaining):
        solver.parameters.max_time_in_seconds = max(run.remaining - spare, 1e-3)
    return solver


#: Seconds between looks at whether CP-SAT is to end: a cancellation is to take less than 0.05.
_BETWEEN_LOOKS = 0.02

#: Whole coefficients of a row from here on are scaled, as fractions are, to this many bits.
_ROW_BITS = 24
_LARGEST_WHOLE = 2.0**_ROW_BITS


def stated_choice(feasible: Hypersimplex, model: Any) -> list[Any]:
    """State a feasible set in a CP-SAT model: a Boolean for each client, which are returned, and the rows.

    Coefficients of a row in which some are no whole numbers, or reach 2²⁴, are multiplied by a power of two and rounded
    down, so that no selection that keeps a budget is lost; what the row lets through in excess is some 1e-7 of its
    largest coefficient for each client selected. Finer ones are not safe: with coefficients of 2³⁴ CP-SAT 9.15's
    presolve cuts off optima and calls what is left optimal.
    """
    from ortools.sat.python import cp_model

    chosen = [model.new_bool_var(f"s{i}") for i in range(feasible.n)]
    for _, coefficients, low, high in feasible.rows():
        largest = float(coefficients.max())
        if largest >= _LARGEST_WHOLE or (coefficients != np.rint(coefficients)).any():
            unit = 2.0 ** (_ROW_BITS - math.ceil(math.log2(largest)))
            coefficients, high = np.floor(coefficients * unit), high * unit
        total = cp_model.LinearExpr.weighted_sum(chosen, coefficients.astype(np.int64).tolist())
        limits = (math.ceil(low) if low > -math.inf else 0, math.floor(min(high, 2.0**60)))
        model.add_linear_constraint(total, *limits)
    return chosen


def offer_answer(problem: ConstrainedProblem, run: Run, x: NDArray[np.int64]) -> None:
    """Offer an external solver's answer; one that misses a side constraint by its tolerance is repaired before."""
    if problem.violation(x) > 0:
        x = problem.feasible.repaired(x, x.astype(np.float64))
    run.offer(x)


def follower(run: Run, solver: Any, chosen: Sequence[Any], bound: Callable[[float], float]) -> Any:
    """Return a callback for ``solver.solve`` that hands bounds and incumbents to the run, whose end ends CP-SAT.

    Parameters
    ----------
    run : Run
        Whose gap, time and cancellation are looked at.
    solver : cp_model.CpSolver
        Its bounds are followed, too.
    chosen : sequence
        The Booleans that are the decision.
    bound : callable
        Makes CP-SAT's bound one on the problem's objective.
    """
    from ortools.sat.python import cp_model

    def tightened(value: float) -> None:
        run.tighten(bound(value), is_claimed=True)
        if run.enough or run.is_cancelled:
            solver.stop_search()

    class Incumbents(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            x = run.problem.decision([int(self.boolean_value(variable)) for variable in chosen])
            if run.problem.violation(x) <= run.problem.tolerance:  # rounded rows may let through what misses them
                run.offer(x)
            if run.enough or run.is_cancelled:
                self.stop_search()

    solver.best_bound_callback = tightened
    return Incumbents()


def run_cp_sat(run: Run | None, solver: Any, model: Any, callback: Any = None) -> Any:
    """Solve a model by CP-SAT in a thread, so that Ctrl-C and a cancellation end it with its incumbent.

    Parameters
    ----------
    run : Run or None
        Whose cancellation ends CP-SAT.
    solver : cp_model.CpSolver
        From `solver_for`.
    model : cp_model.CpModel
        The model.
    callback : cp_model.CpSolverSolutionCallback, optional
        Hears of solutions; an error in it is raised here.

    Returns
    -------
    int
        CP-SAT's status; `cut_short` tells an interruption from the limit.
    """
    answer: Future[Any] = Future()

    def work() -> None:
        try:
            answer.set_result(solver.solve(model, callback))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        while not answer.done():
            wait([answer], timeout=_BETWEEN_LOOKS)  # a wait without a limit does not hear Ctrl-C on every system
            if run is not None and run.is_cancelled:
                solver.stop_search()  # again each time: it is lost where CP-SAT has not begun yet
    except KeyboardInterrupt:
        while not answer.done():  # a second Ctrl-C does not wait for the incumbent
            solver.stop_search()
            wait([answer], timeout=0.05)
    return answer.result()


def cut_short(run: Run, model: Any, status: int, spare: float = 0.0) -> bool:
    """Record in the run why CP-SAT ended without a proof; return whether it was ended before its time.

    Parameters
    ----------
    run : Run
        Learns whether this was its time limit, an interruption or an error.
    model : cp_model.CpModel
        What was solved; it has a feasible point.
    status : int
        CP-SAT's.
    spare : float
        As given to `solver_for`.

    Returns
    -------
    bool
        True after an interruption or an error, when nothing more is to be solved; False after a proof, or where the
        run is over: by its time, its gap or a cancellation.
    """
    from ortools.sat.python import cp_model

    if status == cp_model.OPTIMAL:
        return False
    if status == cp_model.MODEL_INVALID:
        run.stop("error", f"CP-SAT refused the model: {model.validate()}")
        return True
    if status == cp_model.INFEASIBLE:
        run.stop("error", "CP-SAT calls a model infeasible that has a feasible point")
        return True
    # Ctrl-C makes CP-SAT return its incumbent early; at the limit it ends a moment before it.
    # A run whose gap is good enough has no time left either.
    early = not run.expired and (run.time_limit is None or run.remaining > 0.2 + 0.1 * run.time_limit + spare)
    run.stop("interrupted" if early else "time-limit", run.message)
    return early


def clarabel_point(model: Any, variable: Any, run: Run, *, accuracy: float = 1e-12) -> NDArray[np.float64] | None:
    """Solve a model, and return the variable's value where there is a finite one.

    Parameters
    ----------
    model : cvxpy.Problem
        A convex problem.
    variable : cvxpy.Variable
        Whose value is wanted.
    run : Run
        Its remaining time is the limit; it records the native status, and why it stopped where there is no value.
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


def into_box(x: NDArray[np.float64], lower: Any, upper: Any, total: float) -> NDArray[np.float64]:
    """Clip a solver's point to its bounds, then move it by a share of the slack until the sum is right.

    Entries that lie on a bound move last.
    """
    x = np.clip(x, lower, upper)
    missing = total - float(x.sum())
    slack = upper - x if missing > 0 else x - lower
    inside = np.where((x > lower) & (x < upper), slack, 0.0)
    slack = inside if float(inside.sum()) >= abs(missing) else slack
    if (room := float(slack.sum())) > 0:
        x = np.clip(x + slack * (missing / room), lower, upper)
    return x
