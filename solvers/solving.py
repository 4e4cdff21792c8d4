"""``solve``: plan one method on one problem, then run it; where asked, with a second bound and a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificate_writers import with_certificate
from solvers.certificates import Certificate, CertificateError, check
from solvers.checks import integer, number, seconds_or_none
from solvers.errors import InvalidAnswer, InvalidOption, InvalidProblem, NoSelection
from solvers.options import AtLeast
from solvers.problem import Problem, digest
from solvers.registry import Method, find, methods
from solvers.run import Log, Run
from solvers.solution import Solution, TracePoint, proves
from solvers.subsets import ConstrainedProblem

#: Share of a time limit that the methods get where a certificate is asked for; the rest is kept for proving it.
_BEFORE_PROOF = 0.85


def solve(
    problem: Problem,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    start: ArrayLike | Solution | None = None,
    bound_by: str | None = None,
    certificate: bool = False,
    watch: Callable[[TracePoint], None] | None = None,
    log: bool | IO[str] | Callable[[str], object] = False,
    **options: Any,
) -> Solution:
    """Solve a problem with a registered method.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    method : str
        A name from `methods`; ``"auto"`` is the best choice we know for the problem.
    time_limit : float, optional
        Wall-clock seconds; the incumbent comes back when they are over. No limit by default. Importing a package and
        compiling kernels, once in a process or on a machine, do not count.
    gap : float, optional
        The relative gap (0.01 is one per cent) that is good enough: the method ends as soon as its decision is that
        near to its bound, with ``stopped="gap"``. A heuristic has no bound of its own; name one with ``bound_by``.
    threads : int, optional
        Threads of the method, and of the second one; an error where neither has an option for it.
    seed : int
        Makes the run repeatable (where a time limit does not cut it short).
    start : array-like or Solution, optional
        A feasible decision to start from: a vector with an entry for each client, ids of selected clients (what
        ``Solution.selected`` gives), or a `Solution`, whose selected clients may be of another problem over the same.
        The answer is never worse than it; a solution of the same problem brings its bound, too; one read
        from a file, what its certificate proves.
    bound_by : str, optional
        A second method, exact or a relaxation, whose bound is put beside the decision where the first one's does not
        prove it; see `with_bound`. The first method then has half of the time, the second one all that is left.
    certificate : bool
        Keep what proves the bound to `solvers.certificates.check` as ``Solution.certificate``: written down by the
        search as it goes, or else found after it, in the time that is left, of which at least 15 % are kept free.
        Without a time limit the effort is bounded, and what it proves may be weaker than ``bound``:
        ``Solution.certificate_report`` says by how much; see `solvers.certificate_writers.with_certificate`.
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
    InvalidProblem
        When ``problem`` is no problem, or one that the method does not accept.
    InvalidOption
        When the time limit, the gap, the seed, ``start``, ``bound_by`` or an option is not accepted; when ``threads``
        is given and no method that is to run has an option for it.
    InvalidAnswer
        When the method returned an infeasible decision or an impossible bound.
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"solve takes a problem object, such as DispersionProblem(distances, costs, size=10); got "
            f"{type(problem).__name__}"
        )
    planned = plan(
        problem,
        method,
        time_limit=time_limit,
        gap=gap,
        threads=threads,
        seed=seed,
        bound_by=bound_by,
        certificate=certificate,
        **options,
    )
    return planned.execute(problem, start=start, watch=watch, log=Log.of(log))


@dataclass(frozen=True)
class Plan:
    """A solve whose every argument but the start is resolved and checked, made by `plan`.

    Attributes
    ----------
    method : Method
        The method that decides.
    options : dict
        Its options, its number of threads among them.
    bounding : Method or None
        The method whose bound is put beside the decision.
    bounding_options : dict
        Its options.
    time_limit, gap : float or None
        As for `solve`.
    seed : int
        As for `solve`.
    certificate : bool
        As for `solve`.
    """

    method: Method
    options: dict[str, Any]
    bounding: Method | None
    bounding_options: dict[str, Any]
    time_limit: float | None
    gap: float | None
    seed: int
    certificate: bool

    def execute(
        self,
        problem: Problem,
        *,
        start: ArrayLike | Solution | None = None,
        watch: Callable[[TracePoint], None] | None = None,
        log: Log | None = None,
    ) -> Solution:
        """Run the plan on a problem of the type it was made for; see `solve`."""
        log = log or Log(None)
        limit = self.time_limit
        ends = limit if limit is None or not self.certificate else _BEFORE_PROOF * limit
        share = ends if ends is None or self.bounding is None else ends / 2
        run = Run(problem, self.method.name, share, self.seed, watch, log, self.gap, self.certificate)
        if start is not None:
            run.offer(_start(problem, start))
        log.begin(run)
        try:
            decision = self.method.function(problem, run, **self.options)
            if decision is not None:
                run.offer(_returned(problem, decision, self.method.name))
        except NoSelection as error:
            if run.x is None and error.proved:
                run.infeasible()
            run.stop("error" if run.x is None else "iterations", str(error))
        except (KeyboardInterrupt, SystemError) as error:
            if not _interrupted(error):
                raise
            run.stop("interrupted")
        solution = _beside_start(run.solution(), start, self.gap)
        if self.bounding is not None and solution.stopped != "interrupted":
            left = None if ends is None else ends - run.seconds
            if left is None or left > 0:
                log.note(f"bound by {self.bounding.name}")
                decided = {"decision_seconds": solution.seconds}
                solution = _bounded(solution, self._for_bound(left), watch)
                solution = replace(solution, seconds=run.seconds, details={**solution.details, **decided})
        if self.certificate and solution.stopped != "interrupted":
            log.note("certificate")
            left = math.inf if limit is None else limit - run.seconds
            # What took all the time there was is not proved again in what is left.
            cut = self.method.kind == "relaxation" or solution.stopped == "time-limit"
            weaker = cut and solution.status != "optimal"
            solution = replace(
                with_certificate(solution, left, relaxed=weaker, recorded=run.recorded), seconds=run.seconds
            )
        log.end(solution)
        return solution

    def _for_bound(self, time_limit: float | None) -> Plan:
        """Return the plan of the second method alone, within its time."""
        assert self.bounding is not None
        return Plan(self.bounding, self.bounding_options, None, {}, time_limit, self.gap, self.seed, False)


def plan(
    problem: Problem | type[Problem],
    method: str = "auto",
    *,
    time_limit: Any = None,
    gap: Any = None,
    threads: Any = None,
    seed: Any = 0,
    bound_by: str | None = None,
    certificate: bool = False,
    **options: Any,
) -> Plan:
    """Resolve and check what `solve` is given, for a problem or beforehand for its type; raise as `solve` does."""
    if getattr(problem, "sense", None) not in ("max", "min"):
        named = problem.__name__ if isinstance(problem, type) else type(problem).__name__
        raise InvalidProblem(
            f"{named} must say whether larger objectives are better: a class attribute sense = 'max' or 'min'"
        )
    entry = find(problem, method)
    seconds_or_none(time_limit)
    seed = integer(seed, "seed", AtLeast(0), error=InvalidOption)
    second = None if bound_by is None else _giving_bounds(find(problem, bound_by))
    _check_gap(gap, entry, second)
    options, bounding_options = _threaded(threads, problem, entry, second, options)
    entry.check(options)
    return Plan(entry, options, second, bounding_options, time_limit, gap, seed, certificate)


def with_bound(
    solution: Solution,
    method: str,
    time_limit: float | None = None,
    *,
    gap: float | None = None,
    watch: Callable[[TracePoint], None] | None = None,
    **options: Any,
) -> Solution:
    """Put the bound of a second method beside the same decision, where that is tighter.

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
        With ``bound_by`` and ``bound_seconds`` set; the trace goes on with the second method's bounds. ``seconds``
        stays the first method's. What the second method decides is not looked at.

    Raises
    ------
    UnknownMethod, MissingBackend, InvalidOption, InvalidAnswer
        As for `solve`.
    """
    planned = plan(solution.problem, method, time_limit=time_limit, gap=gap, seed=solution.seed, **options)
    _giving_bounds(planned.method)
    return _bounded(solution, planned, watch)


def with_dropped_constraints(
    solution: Solution, method: str = "auto", time_limit: float | None = None, **options: Any
) -> Solution:
    """Put beside a decision the objective without each of its problem's side constraints, and without all of them.

    Parameters
    ----------
    solution : Solution
        A decision under side constraints. Every further solve starts from it, so that no objective is worse.
    method : str
        A method of its problem.
    time_limit : float, optional
        Seconds for each of these problems.
    **options
        Options of the method.

    Returns
    -------
    Solution
        The same with `Solution.dropped` for each of the problem's ``constraint_names``, and ``"all"``.

    Raises
    ------
    InvalidProblem
        When the problem has no side constraints, or there is no decision.
    UnknownMethod, MissingBackend, InvalidOption, InvalidAnswer
        As for `solve`.
    """
    problem = solution.problem
    if solution.x is None or not isinstance(problem, ConstrainedProblem) or not problem.is_constrained:
        missing = "decision" if solution.x is None else "side constraints"
        raise InvalidProblem(f"the solution has no {missing}, so there are no constraints to do without")
    names = {name: (name,) for name in problem.constraint_names} | {"all": ()}
    options |= {"time_limit": time_limit, "seed": solution.seed}
    dropped = {}
    for name, gone in names.items():
        found = solve(problem.without(*gone), method, start=solution.x, **options)
        dropped[name] = {"objective": found.objective, "bound": found.bound}
    return replace(solution, details={**solution.details, "dropped": dropped})


def _bounded(solution: Solution, planned: Plan, watch: Callable[[TracePoint], None] | None) -> Solution:
    """Run the plan of a second method from a decision, and put its bound beside that."""
    gap = planned.gap
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

    second = planned.execute(solution.problem, start=solution.x, watch=follow)
    found = {"bound_by": planned.method.name, "bound_seconds": second.seconds}
    bounded = replace(solution.with_bound(second.bound, **found), trace=tuple(trace))
    if second.stopped == "interrupted":
        return replace(bounded, stopped="interrupted")
    return _judged(bounded, gap)


def _beside_start(solution: Solution, start: Any, gap: float | None) -> Solution:
    """Put the bound that a start states for the same problem beside the decision, where it is tighter."""
    if not isinstance(start, Solution) or start.bound is None or start.bound == solution.bound:
        return solution
    if start.problem is not solution.problem and digest(start.problem) != digest(solution.problem):
        return solution
    bound: float | None = start.bound
    if start.is_received:  # what a file states is believed where its certificate proves it, of such decisions
        bound = _certified(solution, start.certificate)
    elif np.asarray(start.x).dtype.kind in "iub" and np.asarray(solution.x).dtype.kind == "f":
        return solution  # allocations in real numbers may be better than every one in whole clients
    if bound is None or (solution.bound is not None and not _tighter(solution.problem, bound, solution.bound)):
        return solution
    kept = solution.with_bound(bound, bound_by=start.bound_by or start.method)
    kept = replace(kept, trace=(*solution.trace, TracePoint(solution.seconds, kept.objective, kept.bound)))
    return kept if kept.stopped == "interrupted" else _judged(kept, gap)


def _certified(solution: Solution, certificate: Certificate | None) -> float | None:
    """Return the bound that a certificate proves of decisions like a solution's; None where it proves nothing."""
    try:
        bound = None if certificate is None else check(solution.problem, certificate)
    except CertificateError:
        return None
    return bound if certificate is not None and certificate.covers(solution.x) else None


def _judged(bounded: Solution, gap: float | None) -> Solution:
    """Return the solution, stopped by what its bound from elsewhere makes of it."""
    if proves(bounded.problem, bounded.objective, bounded.bound):
        return replace(bounded, stopped="proved")
    if gap is not None and bounded.gap is not None and bounded.gap <= gap:
        return replace(bounded, stopped="gap")
    return bounded


def _interrupted(error: BaseException | None) -> bool:
    """Return True if Ctrl-C is behind an error: Numba wraps it where it falls into the hand-over of a result."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _giving_bounds(entry: Method) -> Method:
    """Return the method, which must be one that gives bounds."""
    if entry.kind == "heuristic":
        raise InvalidOption(
            f"bound_by takes an exact method or a relaxation; {entry.name!r} is a heuristic and has no bound"
        )
    return entry


def _check_gap(gap: Any, entry: Method, second: Method | None) -> None:
    """Raise `InvalidOption` unless this is a gap that one of the methods can reach, or None."""
    if gap is None:
        return
    number(gap, "gap", AtLeast(0), error=InvalidOption, hint="0.01 is one per cent")
    if entry.kind == "heuristic" and second is None:
        raise InvalidOption(
            f"gap needs a bound, and {entry.name!r} is a heuristic, which has none: name a second method with bound_by"
        )


def _threaded(
    threads: Any, problem: Problem | type[Problem], entry: Method, second: Method | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of both methods with their numbers of threads; refuse threads where neither has any."""
    first: dict[str, Any] = dict(options)
    bounding: dict[str, Any] = {}
    if threads is None:
        return first, bounding
    threads = integer(threads, "threads", AtLeast(1), error=InvalidOption)
    if entry.threads:
        first["threads"] = threads
    if second is not None and second.threads:
        bounding["threads"] = threads
    if not entry.threads and not bounding:
        with_one = ", ".join(each.name for each in methods(problem) if each.threads)
        raise InvalidOption(
            f"method {entry.name!r} has no option for threads (methods of this problem that have: {with_one or 'none'})"
        )
    return first, bounding


def _start(problem: Problem, start: ArrayLike | Solution) -> ArrayLike:
    """Return ``start``, a decision, ids of selected clients or a solution, as a feasible decision of the problem."""
    try:
        if isinstance(start, Solution):
            if start.x is None:
                raise InvalidOption(f"start must be a decision; method {start.method!r} found none")
            has_ids = hasattr(start.problem, "selected") and hasattr(start.problem, "n")
            start = start.selected if has_ids else start.x
        if hasattr(problem, "selected"):
            start = _of_ids(problem, np.asarray(start))
        violation = problem.violation(problem.decision(start))
        if not hasattr(problem, "n"):  # its shape may be wrong, which no one else has looked at
            problem.objective(problem.decision(start))
    except (TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        reason = "its rows differ in length" if "inhomogeneous" in str(error) else error
        hint = "" if hasattr(problem, "n") else " (ids are taken where a problem has n, how many it decides about)"
        raise InvalidOption(f"start must be a decision of this {type(problem).__name__}: {reason}{hint}") from error
    if not violation <= problem.tolerance:
        raise InvalidOption(f"start must be feasible; it violates a constraint by {violation:.6g}")
    return start


def _returned(problem: Problem, decision: Any, name: str) -> ArrayLike:
    """Return what a method has returned, a decision or ids of selected clients, as a decision of the problem."""
    try:
        found = _of_ids(problem, np.asarray(decision)) if hasattr(problem, "selected") else decision
        return problem.decision(found)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidAnswer(
            f"method {name!r} returned no decision of this {type(problem).__name__}: {error}"
        ) from error


def _of_ids(problem: Any, start: NDArray[Any]) -> NDArray[Any]:
    """Return the decision that selects the clients of these ids; whatever has an entry for each client is one."""
    if not hasattr(problem, "n") or start.shape == (problem.n,) or start.ndim != 1 or start.dtype.kind not in "iu":
        return start
    ids = problem.selected(np.ones(problem.n, dtype=np.int64))
    unknown = np.setdiff1d(start, ids)
    if unknown.size:
        raise InvalidOption(f"it names client {unknown[0]}; this problem's are {problem.n} from {ids[0]} to {ids[-1]}")
    if start.size != getattr(problem, "size", start.size):
        raise InvalidOption(f"it names {start.size} clients; this problem selects {problem.size}")
    if np.unique(start).size != start.size:
        raise InvalidOption(f"it names a client twice: {start.tolist()}")
    return np.isin(ids, start).astype(np.int64)


def _tighter(problem: Problem, bound: float, known: float) -> bool:
    return bound < known if problem.sense == "max" else bound > known
