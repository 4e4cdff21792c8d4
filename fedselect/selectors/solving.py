"""Solve a round's problem as every selector does it, and check beforehand that it can be."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext
from solvers import Problem, Solution, solve, with_bound
from solvers.solving import plan

__all__ = ["check_solving", "solved"]


def check_solving(
    problem: type[Problem], method: str, bound_by: str | None = None, time_limit: float | None = None
) -> None:
    """Raise a sentence now rather than in the first round.

    Parameters
    ----------
    problem : type
        What the selector solves.
    method, bound_by : str
        Names of methods; None for a ``bound_by`` that is left out.
    time_limit : float, optional
        Seconds; None where the round's counts.

    Raises
    ------
    UnknownMethod
        When no such method is registered for the problem.
    InvalidOption
        When ``bound_by`` names a heuristic, which has no bound.
    ConfigError
        When the time limit is not positive.
    """
    plan(problem, method, bound_by=bound_by)
    if time_limit is not None and not time_limit > 0:
        raise ConfigError(f"time_limit must be a positive number of seconds; got {time_limit}")


def solved(
    problem: Problem,
    method: str,
    round: RoundContext,
    time_limit: float | None = None,
    *,
    bound_by: str | None = None,
    **options: Any,
) -> tuple[NDArray[Any], Solution]:
    """Solve a problem within the round's time and with its randomness.

    Parameters
    ----------
    problem : solvers.Problem
        What to solve.
    method : str
        A method registered for it.
    round : RoundContext
        Gives the seed, and the time limit where ``time_limit`` is ``None``.
    time_limit : float, optional
        Seconds.
    bound_by : str, optional
        A second method, given the same problem after the decision, whose bound is put on the decision's `Solution`:
        what a heuristic without a bound of its own is worth. It has as much time, and changes neither the decision,
        nor its ``seconds``, nor what is drawn afterwards.
    **options
        Passed on to `solvers.solve`.

    Returns
    -------
    (ndarray, solvers.Solution)
        The decision, and all that is known about it.

    Raises
    ------
    KeyboardInterrupt
        When the solve was interrupted: it returns its incumbent, but whoever trains is to stop all the same.
    ConfigError
        When the method found no decision in its time.
    """
    limit = round.time_limit if time_limit is None else time_limit
    seed = int(round.rng.integers(2**31))
    solution = solve(problem, method, time_limit=limit, seed=seed, **options)
    if solution.stopped == "interrupted":
        raise KeyboardInterrupt
    if solution.x is None:
        raise ConfigError(
            f"method {method!r} found no decision in round {round.round} ({solution.stopped}); "
            "give it more time, or choose another method"
        )
    if bound_by is not None:
        solution = with_bound(solution, bound_by, limit)
        if solution.stopped == "interrupted":
            raise KeyboardInterrupt
    assert solution.x is not None
    return solution.x, solution
