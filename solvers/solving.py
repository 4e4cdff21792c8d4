"""``solve``: one method on one problem, and where it is asked for, a second method's bound beside the decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, Any

from numpy.typing import ArrayLike

from solvers.errors import InvalidOption, InvalidProblem
from solvers.log import Log
from solvers.problem import Problem
from solvers.proving import prove
from solvers.registry import Method, find, methods
from solvers.run import Run
from solvers.solution import Solution, TracePoint, proves

__all__ = ["certified", "solve"]

#: The part of a time limit that the methods have where a certificate is asked for: who needs all of it has none.
_BEFORE_PROOF = 0.85


def solve(
    problem: Problem,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    start: ArrayLike | None = None,
    certify: str | None = None,
    certificate: bool = False,
    watch: Callable[[TracePoint], None] | None = None,
    log: bool | IO[str] | Callable[[str], object] = False,
    **options: Any,
) -> Solution:
    """Solve a problem with a registered method.

    Parameters
    ----------
    problem : Problem
        What to solve.
    method : str
        A name from `methods`; ``"auto"`` is the best choice we know for the problem.
    time_limit : float, optional
        Wall-clock seconds; the incumbent comes back when they are over. No limit by default. Importing a package and
        compiling kernels, once in a process or on a machine, do not count.
    gap : float, optional
        The relative gap (0.01 is one per cent) that is good enough: the method ends as soon as its decision is that
        near to its bound, with ``stopped="gap"``. A heuristic has no bound of its own; name one with ``certify``.
    threads : int, optional
        Threads of the method, and of the second one; an error where neither has an option for it.
    seed : int
        Makes the run repeatable (where a time limit does not cut it short).
    start : array-like, optional
        A feasible decision to start from; the answer is never worse than it.
    certify : str, optional
        A second method, exact or a relaxation, whose bound is put beside the decision where the first one's does not
        prove it; see `certified`. The first method then has half of the time, the second one all that is left.
    certificate : bool
        Keep what proves the bound to `solvers.certificates.check` as ``Solution.certificate``: written down by the
        search as it goes, or else found after it, in the time that is left, of which at least 15 % are kept free; see
        `solvers.proving.prove`.
    watch : callable, optional
        Called with every improvement as it is found, in the solve's own thread: what enters ``Solution.trace``.
    log : bool, text stream or callable
        True prints a line for every improvement, and a summary at the end; a stream is written to, a callable is
        given each line.
    **options
        Options of the method itself; see ``Method.options``.

    Returns
    -------
    Solution
        The best decision found with its bound; Ctrl-C returns what there was, with ``stopped="interrupted"``.

    Raises
    ------
    UnknownMethod, MissingBackend
        When the method is not there to be run.
    InvalidOption
        When the time limit, the gap, the seed, ``start``, ``certify`` or an option is not accepted; when ``threads`` is
        given and no method that is to run has an option for it.
    InvalidAnswer
        When the method returned an infeasible decision or an impossible bound.
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(f"solve takes a problem object, not a {type(problem).__name__}")
    entry = find(problem, method)
    check_limit(time_limit)
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed < 0:
        raise InvalidOption(f"seed must be a non-negative integer; got {seed!r}")
    second = None if certify is None else check_certifier(problem, certify)
    check_gap(gap, entry, second)
    options, proving = threaded(threads, problem, entry, second, options)
    entry.check(options)
    lines = Log.of(log)
    ends = time_limit if time_limit is None or not certificate else _BEFORE_PROOF * time_limit
    share = ends if ends is None or second is None else ends / 2
    run = Run(problem, method, share, int(seed), watch, lines, gap, certificate)
    if start is not None:
        run.offer(_start(problem, start))
    lines.begin(run)
    try:
        decision = entry.function(problem, run, **options)
        if decision is not None:
            run.offer(decision)
    except (KeyboardInterrupt, SystemError) as error:
        if not _interrupted(error):
            raise
        run.stop("interrupted")
    solution = run.solution()
    if second is not None and solution.stopped != "interrupted":
        left = None if ends is None else ends - run.seconds
        if left is None or left > 0:
            lines.note(f"certified by {second.name}")
            decided = {"decision_seconds": solution.seconds}
            solution = certified(solution, second.name, left, gap=gap, watch=watch, **proving)
            solution = replace(solution, seconds=run.seconds, details={**solution.details, **decided})
    if certificate and solution.stopped != "interrupted":
        lines.note("certificate")
        left = math.inf if time_limit is None else time_limit - run.seconds
        # What took all the time there was is not proved again in what is left.
        cut = entry.kind == "relaxation" or solution.stopped == "time-limit"
        weaker = cut and solution.status != "optimal"
        solution = replace(prove(solution, left, relaxed=weaker, recorded=run.recorded), seconds=run.seconds)
    lines.end(solution)
    return solution


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: where it falls into the hand-over of a kernel's result, Numba wraps it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def certified(
    solution: Solution,
    method: str,
    time_limit: float | None = None,
    *,
    gap: float | None = None,
    watch: Callable[[TracePoint], None] | None = None,
    **options: Any,
) -> Solution:
    """The same decision, with the bound of a second method beside it where that is tighter.

    Parameters
    ----------
    solution : Solution
        A decision; one that is proved already is returned as it is.
    method : str
        An exact method or a relaxation of its problem; it starts from the decision.
    time_limit : float, optional
        Seconds for the second method alone.
    gap : float, optional
        The relative gap that is good enough, as for `solve`.
    watch : callable, optional
        As for `solve`: called with the decision's value and every bound that is tighter than those before.
    **options
        Options of the second method.

    Returns
    -------
    Solution
        ``details`` say ``certified_by`` and ``certify_seconds``; the trace goes on with the second method's bounds.
        ``seconds`` stays the first method's. What the second method decides is not looked at.

    Raises
    ------
    UnknownMethod, MissingBackend, InvalidOption, InvalidAnswer
        As for `solve`.
    """
    check_certifier(solution.problem, method)
    if solution.status == "optimal" or (gap is not None and solution.gap is not None and solution.gap <= gap):
        return solution
    trace = list(solution.trace)

    def follow(point: TracePoint) -> None:
        known = None if not trace else trace[-1].bound
        if point.bound is None or (known is not None and not _tighter(solution.problem, point.bound, known)):
            return
        trace.append(TracePoint(solution.seconds + point.second, solution.objective, point.bound))
        if watch is not None:
            watch(trace[-1])

    proof = solve(
        solution.problem,
        method,
        time_limit=time_limit,
        gap=gap,
        seed=solution.seed,
        start=solution.x,
        watch=follow,
        **options,
    )
    told = solution.with_bound(proof.bound, certified_by=method, certify_seconds=proof.seconds)
    if proof.stopped == "interrupted":
        return replace(told, trace=tuple(trace), stopped="interrupted")
    stopped = told.stopped
    if proves(told.problem, told.objective, told.bound):
        stopped = "proved"
    elif gap is not None and told.gap is not None and told.gap <= gap:
        stopped = "gap"
    return replace(told, trace=tuple(trace), stopped=stopped)


def check_certifier(problem: Problem | type[Problem], name: str) -> Method:
    """The method of this name, which must be one that gives bounds; raises as `solve` does."""
    entry = find(problem, name)
    if entry.kind == "heuristic":
        raise InvalidOption(f"certify takes an exact method or a relaxation; {name!r} is a heuristic and has no bound")
    return entry


def check_options(problem: Problem | type[Problem], entry: Method, options: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` unless `solve` takes these for a method; ``gap`` and ``threads`` may be among them."""
    given = dict(options)
    check_gap(given.pop("gap", None), entry, None)
    entry.check(threaded(given.pop("threads", None), problem, entry, None, given)[0])


def check_gap(gap: Any, entry: Method, second: Method | None) -> None:
    """Raise `InvalidOption` unless this is a gap that one of the methods can reach, or None."""
    if gap is None:
        return
    try:
        fine = gap >= 0 and math.isfinite(gap) and not isinstance(gap, bool)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidOption(f"gap must be a number from 0, such as 0.01 for one per cent; got {gap!r}")
    if entry.kind == "heuristic" and second is None:
        raise InvalidOption(
            f"gap needs a bound, and {entry.name!r} is a heuristic, which has none: name a second method with certify"
        )


def threaded(
    threads: Any, problem: Problem | type[Problem], entry: Method, second: Method | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of both methods with their numbers of threads; raises `InvalidOption` where neither has one."""
    first: dict[str, Any] = dict(options)
    proving: dict[str, Any] = {}
    if threads is None:
        return first, proving
    if isinstance(threads, bool) or not hasattr(threads, "__index__") or threads < 1:
        raise InvalidOption(f"threads must be a positive integer; got {threads!r}")
    if entry.threads:
        first["threads"] = int(threads)
    if second is not None and second.threads:
        proving["threads"] = int(threads)
    if not entry.threads and not proving:
        with_one = ", ".join(each.name for each in methods(problem) if each.threads)
        raise InvalidOption(
            f"method {entry.name!r} has no option for threads (methods of this problem that have: {with_one or 'none'})"
        )
    return first, proving


def check_limit(time_limit: Any) -> None:
    """Raise `InvalidOption` unless this is a positive number of seconds, or None."""
    try:
        fine = time_limit is None or (time_limit > 0 and math.isfinite(time_limit))
    except (TypeError, ValueError):
        fine = False
    if not fine or isinstance(time_limit, bool):
        raise InvalidOption(f"time_limit must be a positive number of seconds or None; got {time_limit!r}")


def _start(problem: Problem, start: ArrayLike) -> ArrayLike:
    """``start`` as a feasible decision of the problem."""
    try:
        violation = problem.violation(problem.decision(start))
    except (TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        raise InvalidOption(f"start must be a decision of this {type(problem).__name__}: {error}") from error
    if not violation <= problem.tolerance:
        raise InvalidOption(f"start must be feasible; it violates a constraint by {violation:.6g}")
    return start


def _tighter(problem: Problem, bound: float, known: float) -> bool:
    return bound < known if problem.sense == "max" else bound > known
