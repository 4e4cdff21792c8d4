"""What registered methods promise, each promise as a function of a problem type and a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.allocation import AllocationProblem
from solvers.errors import InvalidOption, SolversError
from solvers.problem import Problem
from solvers.registry import Method, methods
from solvers.solution import proves
from solvers.solving import solve
from solvers.testing.cases import CASES, COUNTED, TOLERANT, accepted, attempt, cases, ranked, rounding


class ContractBroken(AssertionError):
    """A method does not keep a promise; the sentence says which, and on which case."""


def _need(holds: Any, sentence: str) -> None:
    if not holds:
        raise ContractBroken(sentence)


def decision_bound_and_status(kind: type[Problem], entry: Method) -> None:
    """On every case the decision is feasible, the bound valid and the status true; an exact method proves its optimum.

    A relaxation may give a bound alone, and external solvers (`TOLERANT`) may miss a proof by their tolerance. Cases
    that a method does not accept, or ends with an error and a message, are left out.
    """
    answered = 0
    for name, problem in cases(kind):
        try:
            solution = attempt(problem, entry)
        except Exception as error:
            what = str(error) if isinstance(error, SolversError) else f"{type(error).__name__}: {error}"
            raise ContractBroken(f"on the case {name!r} method {entry.name!r} fails: {what}") from error
        if solution is None:
            continue
        best, worst = ranked(problem)[0][0], ranked(problem)[-1][0]
        sign = 1.0 if problem.sense == "max" else -1.0
        on = f"on the case {name!r} method {entry.name!r}"
        if solution.bound is not None:
            beyond = sign * (solution.bound - best) >= -rounding(problem, best)
            _need(beyond, f"{on} states the bound {solution.bound!r}, but a decision is worth {best!r}")
        if solution.x is None:
            if entry.kind == "relaxation" and solution.bound is not None and solution.stopped != "error":
                answered += 1
                continue
            _need(solution.stopped == "error", f"{on} has no decision, and ended by {solution.stopped!r}")
            _need(solution.message, f"{on} ended in an error without a message")
            continue
        answered += 1
        _need(problem.violation(solution.x) <= problem.tolerance, f"{on} decides infeasibly")
        _need(
            solution.objective == problem.objective(solution.x), f"{on} states an objective that is not its decision's"
        )
        real = isinstance(problem, AllocationProblem) and solution.x.dtype.kind == "f"
        if isinstance(problem, COUNTED) and not real:
            is_between = sign * (best - solution.objective) >= -rounding(problem, best)
            is_between &= sign * (solution.objective - worst) >= -rounding(problem, worst)
            _need(is_between, f"{on} has the objective {solution.objective!r}, which no decision has")
        if solution.status == "optimal" and not real:
            near = sign * (best - solution.objective) <= 2e-6 * min(max(1.0, abs(best)), problem.scale)
            _need(near, f"{on} calls {solution.objective!r} optimal; {best!r} is")
        if entry.kind == "exact" and entry.name in TOLERANT:
            near = abs(solution.objective - best) <= rounding(problem, best)
            _need(near, f"{on} is exact, but finds {solution.objective!r}; the optimum is {best!r}")
            near = solution.bound is not None and abs(solution.bound - best) <= 1e-4 * problem.scale
            _need(near, f"{on} is exact, but its bound is {solution.bound!r}; the optimum is {best!r}")
        elif entry.kind == "exact":
            how = f"status {solution.status!r}, stopped by {solution.stopped!r}"
            is_proved = solution.status == "optimal" and solution.stopped == "proved"
            _need(is_proved, f"{on} is exact, but does not prove its decision: {how}")
            _need(proves(problem, solution.objective, solution.bound), f"{on}: its bound does not prove its decision")
    _need(answered, f"method {entry.name!r} answers none of the cases of a {kind.__name__}")


def the_seed_decides(kind: type[Problem], entry: Method) -> None:
    """Two solves with one seed have the same decision, objective, bound and status."""
    problem = accepted(kind, entry)
    first, second = (solve(problem, entry.name, seed=5) for _ in range(2))
    same = (first.objective, first.bound, first.status) == (second.objective, second.bound, second.status)
    same = same and np.array_equal(np.asarray(first.x), np.asarray(second.x))
    _need(same, f"method {entry.name!r} answers differently under the same seed: {first!r} and {second!r}")
    _need(first.seed == 5, f"method {entry.name!r} changed the seed to {first.seed}")


def start_and_watch(kind: type[Problem], entry: Method) -> None:
    """The answer is never worse than the start, and what is watched is the trace."""
    problem = accepted(kind, entry)
    sign = 1.0 if problem.sense == "max" else -1.0
    for value, start in (ranked(problem)[0], ranked(problem)[-1]):
        seen: list[Any] = []
        solution = solve(problem, entry.name, start=start, watch=seen.append)
        found = solution.objective
        _need(found is not None and sign * (found - value) >= 0, f"method {entry.name!r} is worse than its start")
        _need(tuple(seen) == solution.trace, f"what is watched of method {entry.name!r} is not its trace")
        _need(seen[0].objective == value, f"the trace of method {entry.name!r} does not begin with its start")


def options_are_checked(kind: type[Problem], entry: Method) -> None:
    """An unknown option, and a value of another type, is refused by its name."""
    problem = accepted(kind, entry)
    wrong: dict[str, Any] = {"colour": "red"} | {option: object() for option in entry.options}
    for option, value in wrong.items():
        try:
            solve(problem, entry.name, **{option: value})
        except InvalidOption as error:
            _need(option in str(error), f"the sentence about option {option!r} does not name it: {error}")
        else:
            raise ContractBroken(
                f"method {entry.name!r} takes {value!r:.40} as its option {option!r}; annotate it, as in {option}: int"
            )


#: What is promised, by name.
PROMISES: dict[str, Callable[[type[Problem], Method], None]] = {
    each.__name__: each for each in (decision_bound_and_status, the_seed_decides, start_and_watch, options_are_checked)
}


def check_method(name: str, problem: type[Problem] | None = None) -> list[str]:
    """Play a registered method on small problems of its type, and hold its answers against decisions that are known.

    Parameters
    ----------
    name : str
        The name it is registered by, of a method of this package or of one's own.
    problem : type, optional
        The problem type; by default the types with cases that have a method of this name.

    Returns
    -------
    list of str
        What was tested, ``"DispersionProblem: the_seed_decides"`` for one.

    Raises
    ------
    ContractBroken
        When a promise is not kept; the sentence says which, and on which case.
    SolversError
        When there is no such method, or no cases of the type.

    Examples
    --------
    >>> from solvers.dispersion import DispersionProblem
    >>> check_method("greedy", DispersionProblem)[0]
    'DispersionProblem: decision_bound_and_status'
    """
    if problem is not None and problem not in CASES:
        known = ", ".join(kind.__name__ for kind in CASES)
        raise SolversError(f"there are no cases of a {getattr(problem, '__name__', problem)} (there are of {known})")
    kinds = [problem] if problem is not None else list(CASES)
    found = [(kind, entry) for kind in kinds for entry in methods(kind) if entry.name == name]
    if not found:
        raise SolversError(f"no method {name!r} is registered for a {' or a '.join(kind.__name__ for kind in kinds)}")
    tested = []
    for kind, entry in found:
        for promise, keeps in PROMISES.items():
            keeps(kind, entry)
            tested.append(f"{kind.__name__}: {promise}")
    return tested
