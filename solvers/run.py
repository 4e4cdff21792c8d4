"""Run of a method: clock, randomness, incumbent, bound, trace, and the log of it."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from types import FrameType
from typing import IO, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificates import Certificate
from solvers.errors import InvalidAnswer, InvalidOption
from solvers.labels import where_ids_are
from solvers.problem import Problem, certified
from solvers.program import execute
from solvers.search.pool import Incumbents, Pool, PoolMember, PoolRequest
from solvers.solution import Solution, Status, Stopped, TracePoint, decides, proves, relative_gap

#: Entries of the matrix that count as a second where work is limited instead of time: compiled nodes of the trees read
#: about as many on one core. A share of the time that is left is then a share of the work, and a stage that would take
#: too long is left out, as with a time limit. 2026-11-24.
ENTRIES_PER_SECOND = 1.5e8


class Event(Protocol):
    """What ends a solve from another thread once it is set, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Whether the solve is to end."""


class Run:
    """One execution of one method on one problem.

    A method offers decisions with `offer` and bounds with `tighten` as it finds them, and looks at `expired`. The
    run evaluates every decision through the problem, keeps the best of each, and records the anytime trace; what
    it holds when the method ends, is interrupted or runs out of time becomes the `Solution`.

    Attributes
    ----------
    problem : Problem
        The problem that the method solves: `Problem.solved_as` of the one that was asked.
    asked : Problem
        The problem that was asked, and that the solution is about.
    value : float or None
        Best objective so far, as the problem that was asked states it.
    method : str
        Name under which the method is registered.
    time_limit : float or None
        Seconds allowed, counted from the making of the run, without those inside `loading`; ``None`` for no limit.
    seed : int
        Seed of the run; `rng` derives from it.
    gap : float or None
        The relative gap that is good enough; ``None`` where nothing but a proof is.
    target : float or None
        A value of which it is enough to know whether a decision can be as good.
    work_limit : float or None
        Rows of the problem's matrix that may be read, n entries each, see `spend`; ``None`` for no limit.
    halt : Event or None
        Ends the run once it is set; a nested solve is given it as ``stop``.
    rng : numpy.random.Generator
        The only source of randomness a method may use.
    x : ndarray or None
        Best feasible decision so far (read-only).
    objective, bound : float or None
        Best objective and best bound so far.
    nodes : int or None
        Search-tree nodes, set by methods that count them.
    recording : bool
        Whether a certificate is wanted: a method that can write one down as it goes hands it over as ``recorded``.
    recorded : Certificate or None
        What proves the bound that the method ended with. It must be one that `solvers.certificates.check` accepts.
    pool : Incumbents or None
        Where the k best selections are wanted, or a veto is given: receives what is offered. A method that is
        registered with ``pool=True`` offers all that may be members, and bounds the others by ``pool.tighten``.
    duals, details : dict
        Filled by the method; they end up on the `Solution`.
    """

    #: Called with True where `loading` begins and with False where it ends, where a supervisor times the process.
    loading_watcher: ClassVar[Callable[[bool], None] | None] = None

    def __init__(
        self,
        problem: Problem,
        method: str,
        time_limit: float | None,
        seed: int,
        watch: Callable[[TracePoint], object] | None = None,
        log: Log | None = None,
        gap: float | None = None,
        recording: bool = False,
        pool: PoolRequest | None = None,
        halt: Event | None = None,
        work_limit: float | None = None,
    ) -> None:
        self.asked, self.problem = problem, problem.solved_as
        self.value: float | None = None
        self.method = method
        self.time_limit = time_limit
        self.seed = seed
        self.gap = gap
        self.target: float | None = None
        self.recording = recording
        self.recorded: Certificate | None = None
        self.pool = None if pool is None else pool.incumbents(self.problem, getattr(problem, "answer_of", None))
        self.rng = np.random.default_rng(seed)
        self.x: NDArray[Any] | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.nodes: int | None = None
        self.duals: dict[str, Any] = {}
        self.details: dict[str, Any] = {}
        self.message = ""
        self.build_seconds = 0.0
        self._proved_bound: float | None = None
        self._stopped: Stopped | None = None
        self._infeasible = False
        self._trace: list[TracePoint] = []
        self.halt = halt
        self.work_limit = work_limit
        self._entries = 0
        self._row = max(1, int(getattr(problem, "n", 1))) if work_limit is not None else 1
        self._is_cancelled = False
        self._watch = watch
        self._log = log or Log(None)
        self._start = time.perf_counter()
        self._loads = 0  # `loading` blocks that are open: in several threads, or one inside another
        self._stood_still = 0.0  # when the first of them was entered
        self._clock_lock = threading.RLock()  # inside which no other lock is asked for
        self._lock = threading.RLock()  # a decision and its value change together for `solution` in another thread

    # -- clock ---------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds that count: wall-clock time since the run was made, without what passed inside `loading`."""
        with self._clock_lock:
            return (self._stood_still if self._loads else time.perf_counter()) - self._start

    @property
    def remaining(self) -> float:
        """Seconds left, never negative; `math.inf` without a limit.

        None are left once the gap is good enough, the target is decided or the run is cancelled. Work that is left
        counts as seconds at a fixed rate; where time is limited, too, the fewer of both are left.
        """
        if self.is_cancelled or self.enough:
            return 0.0
        left = self._time_left
        return left if self.work_limit is None else min(left, self._work_left / ENTRIES_PER_SECOND)

    @property
    def is_limited(self) -> bool:
        """Whether time or work is limited."""
        return self.time_limit is not None or self.work_limit is not None

    @property
    def counts_work(self) -> bool:
        """Whether work is limited, so that nothing may depend on a clock but the end of a time limit beside it."""
        return self.work_limit is not None

    def spend(self, entries: float) -> None:
        """Count work: entries of the matrix that were read, or what takes as long.

        A method that is registered with ``work=True`` counts all it does that may take long, in amounts that are a
        function of the problem, options and seed, and asks no other clock than `remaining` and `expired`.
        """
        self._entries += int(entries)

    def limits(self, n: int) -> dict[str, Any]:
        """Return what a nested solve of a problem of n clients is given: what is left of the limits, and the event.

        What it reads is counted by ``run.spend(n * (solution.work or 0))`` afterwards.
        """
        given: dict[str, Any] = {"stop": self.halt, "time_limit": None}
        left = self._time_left if self.counts_work else self.remaining
        if math.isfinite(left):
            given["time_limit"] = max(left, 1e-3)  # it may just have run out
        if self.counts_work:
            given["work_limit"] = max(1.0, self._work_left / n)
        return given

    @property
    def work(self) -> int:
        """Rows of the problem's matrix that were read so far, or what takes as long."""
        return -(-self._entries // max(1, int(getattr(self.problem, "n", 1))))

    @property
    def _time_left(self) -> float:
        return math.inf if self.time_limit is None else max(0.0, self.time_limit - self.seconds)

    @property
    def _work_left(self) -> float:
        assert self.work_limit is not None
        return max(0.0, self.work_limit * self._row - self._entries)

    @property
    def expired(self) -> bool:
        """Whether the method is to end: a limit has passed, gap or target is reached, or the run is cancelled."""
        return self.remaining <= 0.0

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is ended from outside, by its event or by a ``watch`` that returned True."""
        if not self._is_cancelled and self.halt is not None and self.halt.is_set():
            self._is_cancelled = True
        return self._is_cancelled

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count the time inside the ``with`` block as `build_seconds`; the clock goes on."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.build_seconds += time.perf_counter() - start

    @contextmanager
    def loading(self, *, is_interruptible: bool = False) -> Iterator[None]:
        """Stop the clock inside the ``with`` block, which imports a package or compiles a kernel: once.

        Ctrl-C is held back until its end, as an interrupted import leaves modules half made. It ends a block that is
        interruptible: one that waits for another thread.
        """
        with self._clock_lock:
            if not self._loads:
                self._stood_still = time.perf_counter()
            self._loads += 1
        if (watcher := Run.loading_watcher) is not None:
            watcher(True)
        try:
            with nullcontext() if is_interruptible else interrupts_held_back():
                yield
        finally:
            with self._clock_lock:
                self._loads -= 1
                if not self._loads:
                    self._start += time.perf_counter() - self._stood_still
            if watcher is not None:
                watcher(False)

    # -- what the method does ------------------------------------------------------------------------------------

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Keep, in ``details["phases"]``, the time inside the ``with`` block and what was known at its end.

        Each entry is a dict of ``name``, ``seconds`` (blocks inside counted, `loading` not), ``objective`` and
        ``bound``, as the problem that was asked states them. Phases stand in the order they begin; a block inside
        another is a phase of its own.
        """
        entry: dict[str, Any] = {"name": name}
        self.details.setdefault("phases", []).append(entry)
        self._log.note(name)
        start = self.seconds
        try:
            yield
        finally:
            entry |= {"seconds": self.seconds - start, "objective": self.value, "bound": self.value_bound}

    def note(self, text: str) -> None:
        """Keep a sentence about what the method did in ``details["notes"]``; the log shows it as it comes."""
        notes = self.details.setdefault("notes", [])
        if text not in notes:  # what `solution` says, it says each time it is asked
            notes.append(text)
            self._log.note(text)

    def log(self, text: str) -> None:
        """Write a sentence to the log and keep it nowhere."""
        self._log.note(text)

    # -- what the method found -----------------------------------------------------------------------------------

    @property
    def value_bound(self) -> float | None:
        """The best bound so far, as the problem that was asked states it."""
        return None if self.bound is None else self.asked.bound_of(self.bound)

    @property
    def is_decided(self) -> bool:
        """Whether it is known if a decision can be as good as `target`."""
        return self.target is not None and decides(self.asked, self.value, self.value_bound, self.target) is not None

    @property
    def enough(self) -> bool:
        """Whether objective and bound are as near to each other as `gap` asks, or one of them decides `target`."""
        if self.is_decided:
            return True
        if self.gap is None or self.value is None or self.value_bound is None:
            return False
        return relative_gap(self.value, self.value_bound) <= self.gap

    @property
    def proved(self) -> bool:
        """Whether the best bound proves the incumbent optimal; see `solvers.solution.proves`."""
        return proves(self.asked, self.value, self.value_bound)

    def offer(self, x: ArrayLike) -> float:
        """Offer a feasible decision; the run keeps it if it is the best so far and no veto refuses it.

        Parameters
        ----------
        x : array-like
            The decision, or ids of the selected clients. It is copied when kept.

        Returns
        -------
        float
            ``problem.objective(x)``.

        Raises
        ------
        InvalidAnswer
            When ``x`` is no decision, is infeasible or its objective is not finite: a method must never offer one.
        """
        try:
            x = self.problem.decision(
                decision_of_ids(self.problem, np.asarray(x)) if hasattr(self.problem, "selected") else x
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidAnswer(
                f"method {self.method!r} returned no decision of this {type(self.problem).__name__}: {error}"
            ) from error
        violation = self.problem.violation(x)
        if not violation <= self.problem.tolerance:
            raise InvalidAnswer(
                f"method {self.method!r} returned an infeasible decision: it violates a constraint by {violation:.6g} "
                f"(accepted: {self.problem.tolerance:g})"
            )
        objective = float(self.problem.objective(x))
        if not math.isfinite(objective):
            raise InvalidAnswer(f"method {self.method!r} returned a decision whose objective is {objective}")
        with self._lock:
            if self.pool is not None and not self.pool.offer(x, objective):
                return objective
            known = self.objective
            if known is not None and not (self._better(objective, known) or self._breaks_tie(x, objective)):
                return objective
            self.x = x.copy()
            self.x.setflags(write=False)
            self.objective = objective
            self.value = objective if self.asked is self.problem else float(self.asked.objective(x))
            if self.bound is not None and self.bound != self._proved_bound and self._contradicts(self.bound):
                self._withdraw()
        self._record()
        return objective

    def tighten(self, bound: float | Fraction, error: float | Fraction = 0.0, *, is_claimed: bool = False) -> None:
        """Report a valid bound; the run keeps it if it is the tightest so far.

        The method vouches for validity in floating point: a backend's bound is to be widened by its rounding first.

        Parameters
        ----------
        bound : float or Fraction
            The bound; an exact fraction is rounded to the side on which it holds.
        error : float or Fraction
            Largest rounding error of ``bound``, by which it is moved, see `solvers.problem.certified`.
        is_claimed : bool
            Whether it rests on an external solver's word. Where a decision contradicts it, the solver has proved
            nothing, and the bound is withdrawn.

        Raises
        ------
        InvalidAnswer
            When the bound is NaN. An infinite one is not looked at.
        """
        bound = certified(bound, error, self.problem.sense)
        if math.isnan(bound):
            raise InvalidAnswer(f"method {self.method!r} reported NaN as its bound")
        if not math.isfinite(bound):
            return
        if is_claimed and self._contradicts(bound):
            self._disregard(bound)
            return
        if not is_claimed and (self._proved_bound is None or self._better(self._proved_bound, bound)):
            self._proved_bound = bound
        if self.bound is None or self._better(self.bound, bound):
            self.bound = bound
            self._record()

    def execute(
        self, command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, first: int = 0
    ) -> NDArray[np.int64] | None:
        """Run a program that prints the rows it selects, and return them as a decision.

        The program is killed when the run expires, with what it has started (on Windows, it alone).

        Parameters
        ----------
        command : str, path or sequence of them
            The program and its arguments; a text is split as a shell does.
        first : int
            Number that the program gives to the first row: 0 in MDPLIB files, 1 in QPLIB.

        Returns
        -------
        ndarray or None
            A 0/1 vector, for `offer` or to return; None where the program was killed.

        Raises
        ------
        InvalidOption
            When the command is empty, or has a quotation that does not end.
        MissingBackend
            When there is no such program, or it cannot be run.
        InvalidAnswer
            When it fails, or prints nothing, or anything but numbers of rows, each once.
        """
        return execute(self, command, first=first)

    def stop(self, reason: Stopped, message: str = "") -> None:
        """State why the method ended, where it is neither a proof nor the time limit; keep the native message."""
        self._stopped = reason
        self.message = message or self.message

    def infeasible(self) -> None:
        """Report that the problem was proved to have no feasible decision."""
        self._infeasible = True

    # -- the answer ----------------------------------------------------------------------------------------------

    def solution(self) -> Solution:
        """Return what was found so far, as a `Solution`; another thread may ask."""
        with self._lock:
            return self._solution()

    def _solution(self) -> Solution:
        pooled: dict[str, Any] = {}
        if self.pool is not None:
            pooled = self._pooled(self.pool)
        status: Status
        stopped: Stopped
        if self._infeasible and self.x is None:
            status = "infeasible"
        elif self.x is None:
            status = "unknown"
        else:
            status = "optimal" if self.proved else "feasible"
        if status in ("optimal", "infeasible"):
            stopped = "proved"
        elif self.enough and self._stopped != "interrupted":
            stopped = "target" if self.is_decided else "gap"
        elif self.is_cancelled:
            stopped = "cancelled"
        elif self._stopped is not None:
            stopped = self._stopped
        else:
            stopped = "time-limit" if self.expired else "iterations"
        if stopped == "time-limit" and self.work_limit is not None and self._time_left > 0:
            stopped = "work-limit"
        if self._entries:
            self.details["work"] = self.work
        if self.target is not None:
            self.details["target"] = self.target
        return Solution(
            problem=self.asked,
            method=self.method,
            x=self.x,
            objective=self.value,
            bound=None if status == "infeasible" else self.value_bound,  # one of the values that no decision has
            status=status,
            stopped=stopped,
            message=self.message,
            seconds=self.seconds,
            build_seconds=self.build_seconds,
            nodes=self.nodes,
            trace=tuple(self._trace),
            seed=self.seed,
            duals=self.duals,
            details=self.details,
            **pooled,
        )

    def _pooled(self, pool: Incumbents) -> dict[str, Any]:
        """Return the solution's fields of a pool, whose first member becomes the decision; note what it says."""
        if self._infeasible:
            pool.close()
        found, request = pool.result(), pool.request
        if found.x is not None:
            self.x, self.objective = found.x, found.members[0].objective
            self.value = float(self.asked.objective(found.x))
        if found.vetoed:
            self.note(f"the veto refused {len(found.vetoed)} selections that are as good as the last one of the pool")
            if self.x is None and found.is_complete:
                self.infeasible()
                self.message = f"the veto refuses every selection, {len(found.vetoed)} of them"
        if found.is_tied:
            told = "which has the smallest ids"
            if pool.has_lost_ties:
                told = "more than are told apart: the pool has the best values, not surely the smallest ids"
            self.note(f"further selections are as good as the last one of the pool, {told}")
        bound = self.bound if found.bound is None else found.bound  # that of all bounds those outside as well
        asked = {"size": request.size, "within": request.within, "diverse": request.diverse, "tied": found.is_tied}
        self.details["pool"] = asked | ({"veto_calls": pool.calls} if request.veto is not None else {})
        return {
            "pool": self._stated(found.members),
            "pool_bound": None if bound is None else self.asked.bound_of(bound),
            "pool_complete": found.is_complete,
            "vetoed": self._stated(found.vetoed),
        }

    def _stated(self, members: Pool) -> Pool:
        """Return members with the objectives of the problem that was asked."""
        if self.asked is self.problem:
            return members
        ids = self.asked.selected(np.ones(self.asked.n))  # type: ignore[attr-defined]
        every = [(each.selected, np.isin(ids, each.selected).astype(np.int64)) for each in members]
        return Pool(PoolMember(selected, float(self.asked.objective(x))) for selected, x in every)

    def _breaks_tie(self, x: NDArray[Any], objective: float) -> bool:
        """Return whether a decision is better than the incumbent by less than doubles can say."""
        return objective == self.objective and self.x is not None and self.problem.is_better(x, self.x)

    def _contradicts(self, bound: float) -> bool:
        """Return whether the incumbent is better than a bound by more than rounding."""
        if self.objective is None:
            return False
        wrong = self.objective - bound if self.problem.sense == "max" else bound - self.objective
        return wrong > self.problem.tolerance_at(self.objective, 1e-9)

    def _withdraw(self) -> None:
        """Go back to the bound that this package proved, in the trace as well."""
        assert self.bound is not None
        self._disregard(self.bound)
        self._trace = [
            point._replace(bound=None) if point.bound is not None and self._contradicts(point.bound) else point
            for point in self._trace
        ]
        self.bound = self._proved_bound

    def _disregard(self, bound: float) -> None:
        self.note(f"the external solver's bound {bound:.9g} contradicts a decision of {self.objective:.9g}: not used")

    def _better(self, first: float, second: float) -> bool:
        return first > second if self.problem.sense == "max" else first < second

    def _record(self) -> None:
        self._trace.append(TracePoint(self.seconds, self.value, self.value_bound))
        self._log.improved(self)
        if self._watch is not None and is_true(self._watch(self._trace[-1])):
            self._is_cancelled = True


def is_true(value: object) -> bool:
    """Return whether a callback returned True itself; what else it may return, such as a count, says nothing."""
    return isinstance(value, bool | np.bool_) and bool(value)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the ``with`` block; elsewhere than in the main thread there is none to hold."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield
        return
    held = 0

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal held
        held += 1

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            signal.raise_signal(signal.SIGINT)


def decision_of_ids(problem: Any, start: NDArray[Any]) -> NDArray[Any]:
    """Return the decision that selects the clients of these ids; whatever has an entry for each client is one.

    As many whole numbers as there are clients are ids where they cannot be the entries of a feasible 0/1 vector.
    """
    if getattr(problem, "fillers", 0) and start.ndim == 1 and start.shape != (problem.n,):
        return problem.completed(start)
    if hasattr(problem, "n") and start.ndim == 1 and (hint := where_ids_are(start)):
        raise InvalidOption(f"it takes ids of clients, whole numbers; got {start.tolist()!r:.80}{hint}")
    if not hasattr(problem, "n") or start.ndim != 1 or start.dtype.kind not in "iu":
        return start
    size = getattr(problem, "size", None)
    if start.shape == (problem.n,) and np.isin(start, (0, 1)).all():
        are_ids = size == problem.n and not start.all() and np.unique(start).size == problem.n  # [0] or [0, 1]
        if not are_ids:
            return start
    ids = problem.selected(np.ones(problem.n, dtype=np.int64))
    unknown = np.setdiff1d(start, ids)
    if unknown.size:
        raise InvalidOption(f"it names client {unknown[0]}; this problem's are {problem.n} from {ids[0]} to {ids[-1]}")
    if size is not None and start.size != size:
        raise InvalidOption(f"it names {start.size} clients; this problem selects {size}")
    if np.unique(start).size != start.size:
        raise InvalidOption(f"it names a client twice: {start.tolist()}")
    return np.isin(ids, start).astype(np.int64)


class Log:
    """Writer of a run's progress; silent where there is nowhere to write to.

    Parameters
    ----------
    write : callable or None
        Given each line, without its end.
    """

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write = write
        self.muted: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, log: bool | IO[str] | Callable[[str], object] | None) -> Log:
        """Make a log of what `solve` takes: False, True, a text stream, or a callable given each line."""
        if log is None or log is False:
            return cls(None)
        if log is True:
            return cls(_to(sys.stdout))
        if hasattr(log, "write"):
            return cls(_to(log))
        if callable(log):
            return cls(log)
        raise InvalidOption(f"log must be true or false, a text stream, or a callable given each line; got {log!r}")

    def begin(self, run: Run) -> None:
        """Say what is solved, and what the columns are."""
        problem = run.asked
        size = f", n = {problem.n}" if hasattr(problem, "n") else ""
        limit = "" if run.time_limit is None else f", {run.time_limit:g} s"
        self._line(f"{run.method} on a {type(problem).__name__} ({problem.sense}{size}), seed {run.seed}{limit}")
        self._line(f"{'seconds':>9} {'nodes':>9} {'incumbent':>16} {'bound':>16} {'gap':>9}")

    def improved(self, run: Run) -> None:
        """Write a line with the newest point of the run's trace."""
        if self._write is None:
            return
        gap = None if run.value is None or run.value_bound is None else relative_gap(run.value, run.value_bound)
        nodes = "-" if run.nodes is None else str(run.nodes)
        cells = f"{run.seconds:9.2f} {nodes:>9} {_cell(run.value):>16} {_cell(run.value_bound):>16}"
        self._line(f"{cells} {'-' if gap is None else f'{100 * gap:.3g} %':>9}")

    def note(self, text: str) -> None:
        """Write a line of words."""
        self._line(f"{'':>9} {text}")

    def end(self, solution: Solution) -> None:
        """Write the summary."""
        if self._write is not None:
            for line in solution.summary().splitlines():
                self._write(line)

    def _line(self, text: str) -> None:
        if self._write is not None and not self.muted():
            self._write(text)


def _to(stream: Any) -> Callable[[str], object]:
    def write(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return write


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.9g}"
