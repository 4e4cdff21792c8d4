"""``solve``: plan one method on one problem, then run it; where asked, with a second bound and a certificate."""

from __future__ import annotations

import importlib
import math
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.background import AnyEvent, Progress, SolutionFuture, abandonable, in_thread
from solvers.certificate_writers import with_certificate
from solvers.certificates import Certificate, CertificateError, check
from solvers.checks import integer, number, seconds_or_none
from solvers.errors import InvalidOption, InvalidProblem, NoSelection
from solvers.infeasibility import with_conflict
from solvers.options import AtLeast
from solvers.problem import Problem, digest
from solvers.registry import Method, find, methods
from solvers.run import Event, Log, Run, decision_of_ids, interrupts_held_back, is_true
from solvers.search.pool import PoolRequest
from solvers.solution import ENDED_FROM_OUTSIDE, Solution, TracePoint, decides, proves
from solvers.subsets import ConstrainedProblem

#: Share of a time limit that the methods get where a certificate is asked for; the rest is kept for proving it.
_BEFORE_PROOF = 0.85

#: What bounds and side constraints import inside a method, where an import would count against the time limit.
OFF_THE_CLOCK = ("scipy.optimize", "scipy.spatial.distance")

#: What becomes of an exception of ``watch``: it is raised with the solution, or the solution is returned.
OnError = Literal["raise", "keep"]


def solve(
    problem: Problem,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    work_limit: float | None = None,
    gap: float | None = None,
    target: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    start: ArrayLike | Solution | None = None,
    bound_by: str | None = None,
    certificate: bool = False,
    stop: Event | None = None,
    watch: Callable[[TracePoint], object] | None = None,
    on_error: OnError = "raise",
    log: bool | IO[str] | Callable[[str], object] = False,
    pool: int | None = None,
    within: float | None = None,
    diverse: int | None = None,
    veto: Callable[[NDArray[np.int64]], object] | None = None,
    **options: Any,
) -> Solution:
    """Solve a problem with a registered method.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    method : str
        A name from `methods`; ``"auto"`` is the best choice we know for the problem. A type of your own has no
        ``"auto"`` unless it inherits or registers one.
    time_limit : float, optional
        Seconds of the search; the incumbent comes back at the method's first look at the clock after them. No limit by
        default. Importing an external solver and compiling kernels, once in a process or on a machine, do not count: on
        the clock a first solve takes longer.
    work_limit : float, optional
        Rows of the problem's matrix that may be read (n entries each), or what takes as long at fixed rates: a limit
        that is no matter of the clock. Without a time limit beside it, decision, bound, nodes and certificate are the
        same to the bit on every run of a machine, cold or warm, idle or busy. The method ends at its first look after
        the limit, as after a time limit: looks are up to 1.6e7 entries apart (a tenth of a second), farther for a
        thousand clients and more. A limit that is smaller than that may be overshot many times over. `Solution.work`
        says what was used. A method that does not count refuses.
    gap : float, optional
        The relative gap (0.01 is one per cent) that is good enough: the method ends once it sees that its decision is
        that near to its bound, with ``stopped="gap"``, or ``"proved"`` where it is optimal. A heuristic takes none
        without ``bound_by``, and none goes with a pool or a veto.
    target : float, optional
        A claim about the best value: the method ends once it sees that a decision is as good, or that the bound says
        that none is; `Solution.reaches` says which. ``stopped`` is then ``"target"``, or ``"proved"`` where the
        decision is optimal. None goes with a pool or a veto.
    threads : int, optional
        Threads of the method, and of the second one; an error where neither has an option for it.
    seed : int
        Makes the run repeatable, unless a time limit, ``stop`` or Ctrl-C cuts it short, or an external solver's threads
        race.
    start : array-like or Solution, optional
        A feasible decision to start from: an array as ``Solution.x`` is one, ids of selected clients (what
        ``Solution.selected`` gives), or a `Solution`, whose selected clients may be of another problem over the same.
        The answer is never worse than it, unless a veto refuses it. A solution of the same problem brings its bound,
        too, unless a veto refused some as good; one read from a file brings what its certificate proves.
    bound_by : str, optional
        A second method, exact or a relaxation, whose bound is put beside the decision where the first one's does not
        prove it; see `with_bound`. The first method then has half of the time, the second one all that is left.
    certificate : bool
        Keep what proves the bound to `solvers.certificates.check` as ``Solution.certificate``: written down by the
        search as it goes, or else found after it, in the time that is left: 15 % of a time limit are kept for it.
        Without a time limit the effort is bounded, and what it proves may be weaker than ``bound``:
        ``Solution.certificate_report`` says by how much, or why there is none; see
        `solvers.certificate_writers.with_certificate`.
    stop : Event, optional
        Ends the solve once ``stop.is_set()``, as a `threading.Event` that another thread sets: some hundredths of a
        second later the incumbent is returned with its bound and its pool, with ``stopped="cancelled"`` unless it is
        proved. The method runs in a thread of its own, as does ``watch``. One that does not look at the event at once
        is left behind; HiGHS and Clarabel, which know no interruption, go on until their time limit or their own end.
    watch : callable, optional
        Called with every improvement, what enters ``Solution.trace``, by the thread that finds it. Where
        it returns True the solve ends, with ``stopped="cancelled"`` unless the decision is proved; where it raises,
        ``on_error`` says what follows.
    on_error : {"raise", "keep"}
        What an exception of ``watch``, which ends the solve, leads to: it is raised again, with what was found as
        ``error.solution``; or the solution is returned, with ``stopped="error"`` unless it is proved, and the exception
        in ``message``.
    log : bool, text stream or callable
        True prints a line for every improvement, and a summary at the end; a stream is written to, a callable is
        given each line.
    pool : int, optional
        How many of the best selections are wanted, as `Solution.pool`: distinct, best first, of equal ones the
        smallest ids first. `Solution.pool_complete` says that they are proved to be the best.
    within : float, optional
        Share of the optimum that a selection of the pool may be worse by (0.001 is a tenth of a per cent): all such
        selections, at most ``pool`` of them, or 1 000 where that is left out.
    diverse : int, optional
        Clients of each selection of the pool that are not in a better one of it, at least: the best selection, then
        the best of those that differ so far from it, and so on. It needs ``pool`` or ``within``, and a problem that
        selects a stated number of clients.
    veto : callable, optional
        ``veto(selected)`` returns True for ids of a selection that is refused. It must answer the same each time.
        `Solution.vetoed` has the refused selections that are as good as the pool's last one.
    **options
        Options of the method itself; see ``Method.options``.

    Returns
    -------
    Solution
        The best decision found with its bound; Ctrl-C returns what there was, with ``stopped="interrupted"``.

    Raises
    ------
    UnknownMethod, MissingBackend
        When there is no such method, or a package or program that it needs is missing.
    InvalidProblem
        When ``problem`` is no problem, or one that the method does not accept.
    InvalidOption
        When another argument or an option is not accepted; when ``threads``, ``work_limit`` or a pool is asked of a
        method that has none.
    InvalidAnswer
        When the method returned no decision of the problem, an infeasible one or an impossible bound, or its program
        failed.

    Examples
    --------
    Choose three of six clients on a line that are far apart; then ask how good a heuristic is.

    >>> import numpy as np
    >>> from solvers import solve
    >>> from solvers.dispersion import DispersionProblem
    >>> places = np.array([0.0, 1.0, 2.0, 3.0, 7.0, 9.0])
    >>> problem = DispersionProblem(np.abs(places[:, None] - places), size=3)
    >>> solution = solve(problem, time_limit=5)
    >>> solution.selected.tolist(), solution.objective, solution.status
    ([0, 1, 5], 36.0, 'optimal')
    >>> solve(problem, "greedy", bound_by="branch-and-bound").status
    'optimal'
    """
    _require_problem(problem)
    planned = plan(
        problem,
        method,
        time_limit=time_limit,
        work_limit=work_limit,
        gap=gap,
        target=target,
        threads=threads,
        seed=seed,
        bound_by=bound_by,
        certificate=certificate,
        pool=PoolRequest.of(pool, within, diverse, veto),
        **options,
    )
    return planned.execute(problem, start=start, stop=stop, watch=watch, on_error=on_error, log=Log.of(log))


def submit(
    problem: Problem,
    method: str = "auto",
    *,
    start: ArrayLike | Solution | None = None,
    stop: Event | None = None,
    watch: Callable[[TracePoint], object] | None = None,
    on_error: OnError = "raise",
    log: bool | IO[str] | Callable[[str], object] = False,
    pool: int | None = None,
    within: float | None = None,
    diverse: int | None = None,
    veto: Callable[[NDArray[np.int64]], object] | None = None,
    **options: Any,
) -> SolutionFuture:
    """Solve a problem in a thread, while the caller goes on.

    Parameters
    ----------
    problem, method, start, stop, watch, on_error, log, pool, within, diverse, veto, **options
        As for `solve`, all of whose arguments are taken.

    Returns
    -------
    SolutionFuture
        A `concurrent.futures.Future` of the solution, whose ``solution_so_far()`` may be asked before. Its ``cancel()``
        ends the solve within hundredths of a second; ``result()`` is then what had been found.

    Raises
    ------
    UnknownMethod, MissingBackend, InvalidProblem, InvalidOption
        As `solve` does, at once, for what the arguments but ``start`` show; what comes later, and a start that is
        refused, is raised by ``result()``.
    """
    _require_problem(problem)
    planned = plan(problem, method, pool=PoolRequest.of(pool, within, diverse, veto), **options)
    _check_ends(stop, on_error, watch)
    written, future = Log.of(log), SolutionFuture()
    halt = AnyEvent(stop, future.stop)
    future.set_running_or_notify_cancel()
    in_thread(
        lambda: planned.execute(
            problem, start=start, stop=halt, watch=watch, on_error=on_error, log=written, progress=future.progress
        ),
        future,
    )
    return future


@dataclass(frozen=True)
class Plan:
    """A solve whose arguments are resolved and checked, as far as `plan` takes them.

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
    time_limit, gap, work_limit, target : float or None
        As for `solve`.
    seed : int
        As for `solve`.
    certificate : bool
        As for `solve`.
    pool : PoolRequest or None
        What `solve` is asked for beside one selection.
    """

    method: Method
    options: dict[str, Any]
    bounding: Method | None
    bounding_options: dict[str, Any]
    time_limit: float | None
    gap: float | None
    seed: int
    certificate: bool
    pool: PoolRequest | None = None
    work_limit: float | None = None
    target: float | None = None

    def execute(
        self,
        problem: Problem,
        *,
        start: ArrayLike | Solution | None = None,
        stop: Event | None = None,
        watch: Callable[[TracePoint], object] | None = None,
        on_error: OnError = "raise",
        log: Log | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Run the plan on a problem of the type it was made for; see `solve`.

        ``progress`` receives what is found, for other threads to read.
        """
        _check_ends(stop, on_error, watch)
        progress, log = progress or Progress(), log or Log(None)
        watcher = None if watch is None else _Watcher(watch, progress)
        if stop is None:
            solution = self._execute(problem, start, None, watcher, log, progress)
        else:
            interruption = threading.Event()
            halt = AnyEvent(stop, interruption)
            solution = abandonable(
                lambda: self._execute(problem, start, halt, watcher, log, progress), progress, stop, interruption
            )
        log.end(solution)
        return solution if watcher is None else watcher.concluded(solution, on_error)

    def _execute(
        self,
        problem: Problem,
        start: ArrayLike | Solution | None,
        stop: Event | None,
        watch: Callable[[TracePoint], object] | None,
        log: Log,
        progress: Progress,
    ) -> Solution:
        """Run the methods, then write the certificate."""
        log.muted = lambda: progress.is_closed
        limit = self.time_limit
        ends = limit if limit is None or not self.certificate else _BEFORE_PROOF * limit
        share = ends if ends is None or self.bounding is None else ends / 2
        work = self.work_limit if self.work_limit is None or self.bounding is None else self.work_limit / 2
        recording = self.certificate
        bounds = self.method.kind != "heuristic" or self.bounding is not None or self.certificate
        if bounds or getattr(problem, "is_constrained", False):
            for name in OFF_THE_CLOCK:
                if name not in sys.modules:
                    with interrupts_held_back():
                        importlib.import_module(name)
        run = Run(problem, self.method.name, share, self.seed, watch, log, self.gap, recording, self.pool, stop, work)
        run.target = self.target
        if start is not None:
            run.offer(_start(problem, start))
        progress.run = run
        log.begin(run)
        try:
            decision = self.method.function(run.problem, run, **self.options)
            if decision is not None:
                run.offer(decision)
        except NoSelection as error:
            if run.x is None and error.proved:
                run.infeasible()
            run.stop("error" if run.x is None else "iterations", str(error))
        except (KeyboardInterrupt, SystemError) as error:
            if not _interrupted(error):
                raise
            run.stop("interrupted")
        solution = progress.solution = _beside_start(run.solution(), start, self.gap)
        if self.bounding is not None and solution.stopped not in (*ENDED_FROM_OUTSIDE, "target"):
            left = None if ends is None else ends - run.seconds
            work = None if self.work_limit is None else max(1.0, self.work_limit - run.work)
            if left is None or left > 0:
                log.note(f"bound by {self.bounding.name}")
                decided = {"decision_seconds": solution.seconds}
                solution = _bounded(solution, self._for_bound(left, work), watch, stop, progress)
                solution = replace(solution, seconds=run.seconds, details={**solution.details, **decided})
                if decides(problem, solution.objective, solution.bound, self.target) is not None:
                    solution = replace(solution, stopped="proved" if solution.status == "optimal" else "target")
                progress.solution = solution
        if self.certificate and solution.stopped not in ENDED_FROM_OUTSIDE:
            log.note("certificate")
            left = math.inf if limit is None else limit - run.seconds
            # What took all the time there was is not proved again in what is left.
            cut = self.method.kind == "relaxation" or solution.stopped in ("time-limit", "work-limit")
            weaker = cut and solution.status != "optimal"
            recorded = None if run.recorded is None else problem.certificate_of(run.recorded)
            solution = replace(with_certificate(solution, left, relaxed=weaker, recorded=recorded), seconds=run.seconds)
        if solution.status == "infeasible" and isinstance(problem, ConstrainedProblem):
            left = math.inf if limit is None else limit - run.seconds
            solution = replace(solution, message=with_conflict(solution, left), seconds=run.seconds)
        return solution

    def _for_bound(self, time_limit: float | None, work_limit: float | None) -> Plan:
        """Return the plan of the second method alone, within its time and work."""
        assert self.bounding is not None
        options, gap = self.bounding_options, self.gap
        return Plan(self.bounding, options, None, {}, time_limit, gap, self.seed, False, None, work_limit, self.target)


def plan(
    problem: Problem | type[Problem],
    method: str = "auto",
    *,
    time_limit: Any = None,
    work_limit: Any = None,
    gap: Any = None,
    target: Any = None,
    threads: Any = None,
    seed: Any = 0,
    bound_by: str | None = None,
    certificate: bool = False,
    pool: PoolRequest | None = None,
    **options: Any,
) -> Plan:
    """Resolve and check what `solve` is given, for a problem or beforehand for its type; raise as `solve` does."""
    if getattr(problem, "sense", None) not in ("max", "min"):
        named = problem.__name__ if isinstance(problem, type) else type(problem).__name__
        raise InvalidProblem(
            f"{named} must say whether larger objectives are better: a class attribute sense = 'max' or 'min'"
        )
    entry = find(problem, method)
    time_limit = seconds_or_none(time_limit)
    seed = integer(seed, "seed", AtLeast(0), error=InvalidOption)
    second = None if bound_by is None else _giving_bounds(find(problem, bound_by))
    _check_gap(gap, entry, second)
    target = None if target is None else number(target, "target", error=InvalidOption)
    options, bounding_options = _threaded(threads, problem, entry, second, options)
    entry.check(options)
    if pool is not None:
        entry.check_pool(problem)
        if target is not None:
            raise InvalidOption("target ends a solve before its pool is complete; give one of target and pool, within")
        if gap is not None:
            raise InvalidOption("gap ends a solve before its pool is complete; give one of gap and pool, within, veto")
    if work_limit is not None:
        _check_work(problem, work_limit, [entry] + ([] if second is None else [second]), threads)
    limits = time_limit, gap, seed, certificate, pool, work_limit, target
    return Plan(entry, options, second, bounding_options, *limits)


def with_bound(
    solution: Solution,
    method: str,
    time_limit: float | None = None,
    *,
    gap: float | None = None,
    stop: Event | None = None,
    watch: Callable[[TracePoint], object] | None = None,
    **options: Any,
) -> Solution:
    """Put the bound of a second method beside the same decision, where that is tighter.

    Parameters
    ----------
    solution : Solution
        A decision; one that is proved already, or within ``gap``, is returned as it is.
    method : str
        An exact method or a relaxation of its problem; it starts from the decision.
    time_limit : float, optional
        Seconds for the second method alone.
    gap : float, optional
        The relative gap that is good enough, as for `solve`.
    stop : Event, optional
        Ends the second method once it is set, as for `solve`.
    watch : callable, optional
        As for `solve`: called with the decision's value and every bound that is tighter than those before.
    **options
        Options of the second method.

    Returns
    -------
    Solution
        With ``bound_by`` and ``bound_seconds`` set, where the second method ran; the trace goes on with its bounds.
        ``seconds`` stays the first method's. What the second method decides is not looked at.

    Raises
    ------
    UnknownMethod, MissingBackend, InvalidProblem, InvalidOption, InvalidAnswer
        As for `solve`.
    """
    planned = plan(solution.problem, method, time_limit=time_limit, gap=gap, seed=solution.seed, **options)
    _giving_bounds(planned.method)
    _check_ends(stop, watch=watch)
    watcher = None if watch is None else _Watcher(watch, Progress())
    bounded = _bounded(solution, planned, watcher, stop)
    return bounded if watcher is None else watcher.concluded(bounded)


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


def _bounded(
    solution: Solution,
    planned: Plan,
    watch: Callable[[TracePoint], object] | None,
    stop: Event | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Run the plan of a second method from a decision, and put its bound beside that."""
    gap = planned.gap
    if solution.status == "optimal" or (gap is not None and solution.gap is not None and solution.gap <= gap):
        return solution
    trace = list(solution.trace)

    def follow(point: TracePoint) -> object:
        known = None if not trace else trace[-1].bound
        if point.bound is None or (known is not None and not _tighter(solution.problem, point.bound, known)):
            return None
        trace.append(TracePoint(solution.seconds + point.second, solution.objective, point.bound))
        if progress is not None:
            progress.solution = replace(
                solution.with_bound(point.bound, bound_by=planned.method.name), trace=tuple(trace)
            )
        return None if watch is None else watch(trace[-1])

    if progress is None:  # on its own
        second = planned.execute(solution.problem, start=solution.x, stop=stop, watch=follow)
    else:  # within a solve, which looks at the event
        second = planned._execute(solution.problem, solution.x, stop, follow, Log(None), Progress())
    found = {"bound_by": planned.method.name, "bound_seconds": second.seconds}
    if second.work is not None:
        found["work"] = second.work + (solution.work or 0)
    bounded = replace(solution.with_bound(second.bound, **found), trace=tuple(trace))
    if second.stopped in ENDED_FROM_OUTSIDE:
        return replace(bounded, stopped=second.stopped)
    return _judged(bounded, gap)


def _beside_start(solution: Solution, start: Any, gap: float | None) -> Solution:
    """Put the bound that a start states for the same problem beside the decision, where it is tighter."""
    if not isinstance(start, Solution) or start.bound is None or start.bound == solution.bound:
        return solution
    if start.problem is not solution.problem and digest(start.problem) != digest(solution.problem):
        return solution
    if start.vetoed:  # which may be better than what was bounded
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
    return kept if kept.stopped in ENDED_FROM_OUTSIDE else _judged(kept, gap)


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


class _Watcher:
    """A user's ``watch``, whose exception is kept and ends the solve as a returned True does.

    An exception that passes through a method, or through the callback of an external solver, would lose the incumbent.
    """

    def __init__(self, watch: Callable[[TracePoint], object], progress: Progress) -> None:
        self.watch, self.progress = watch, progress
        self.error: Exception | None = None
        self.has_ended = False

    def __call__(self, point: TracePoint) -> bool:
        if not (self.has_ended or self.progress.is_closed):
            try:
                self.has_ended = is_true(self.watch(point))
            except Exception as error:
                self.error, self.has_ended = error, True
        return self.has_ended

    def concluded(self, solution: Solution, on_error: OnError = "raise") -> Solution:
        """Return the solution, which says what the watch raised; or raise that again, with the solution."""
        if self.error is None:
            return solution
        message = f"watch raised {type(self.error).__name__}: {self.error}"
        solution = replace(solution, message=message, stopped="proved" if solution.stopped == "proved" else "error")
        if on_error == "keep":
            return solution
        self.error.solution = solution  # type: ignore[attr-defined]
        raise self.error


def _require_problem(problem: object) -> None:
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"solve takes a problem object, such as DispersionProblem(distances, costs, size=10); got "
            f"{type(problem).__name__}"
        )


def _check_ends(stop: Any, on_error: Any = "raise", watch: Any = None) -> None:
    """Raise `InvalidOption` unless these can end a solve, and say what follows an error."""
    if watch is not None and not callable(watch):
        raise InvalidOption(f"watch must be a function of a TracePoint; got {watch!r:.80}")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise InvalidOption(f"stop must have a method is_set, as threading.Event() has; got {stop!r}")
    if on_error not in get_args(OnError):
        raise InvalidOption(f"on_error must be 'raise' or 'keep'; got {on_error!r}")


def _interrupted(error: BaseException | None) -> bool:
    """Return True if Ctrl-C is behind an error: Numba wraps it where it falls into the hand-over of a result."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _giving_bounds(entry: Method) -> Method:
    """Return the method, which must be one that gives bounds."""
    if entry.kind == "heuristic":
        raise InvalidOption(
            f"bound_by takes an exact method or a relaxation; {entry.name!r} is a heuristic and promises no bound"
        )
    return entry


def _check_gap(gap: Any, entry: Method, second: Method | None) -> None:
    """Raise `InvalidOption` unless this is a gap that one of the methods can reach, or None."""
    if gap is None:
        return
    number(gap, "gap", AtLeast(0), error=InvalidOption, hint="0.01 is one per cent")
    if entry.kind == "heuristic" and second is None:
        raise InvalidOption(
            f"gap needs a bound, and {entry.name!r} is a heuristic, which promises none: "
            "name a second method with bound_by"
        )


def _check_work(problem: Problem | type[Problem], work_limit: Any, entries: list[Method], threads: Any) -> None:
    """Raise `InvalidOption` unless the methods can be limited so: they count, in one thread."""
    number(work_limit, "work_limit", AtLeast(1), error=InvalidOption, hint="rows of the matrix, of n entries each")
    for entry in entries:
        entry.check_work(problem)
    if threads is not None and threads > 1:
        raise InvalidOption(f"work is counted in one thread: give work_limit or threads={threads}")


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
            start = decision_of_ids(problem, np.asarray(start))
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


def _tighter(problem: Problem, bound: float, known: float) -> bool:
    return bound < known if problem.sense == "max" else bound > known
