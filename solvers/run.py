"""Run of a method: clock, randomness, incumbent, bound, trace, and the log of it."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import FrameType
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificates import Certificate
from solvers.errors import InvalidAnswer, InvalidOption
from solvers.problem import Problem, certified
from solvers.solution import Solution, Status, Stopped, TracePoint, proves, relative_gap


class Run:
    """One execution of one method on one problem.

    A method offers decisions with `offer` and bounds with `tighten` as it finds them, and looks at `expired`. The
    run evaluates every decision through the problem, keeps the best of each, and records the anytime trace; what
    it holds when the method ends, is interrupted or runs out of time becomes the `Solution`.

    Attributes
    ----------
    problem : Problem
        The problem to solve.
    method : str
        Name under which the method is registered.
    time_limit : float or None
        Seconds allowed, counted from the making of the run, without those inside `loading`; ``None`` for no limit.
    seed : int
        Seed of the run; `rng` derives from it.
    gap : float or None
        The relative gap that is good enough; ``None`` where nothing but a proof is.
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
        watch: Callable[[TracePoint], None] | None = None,
        log: Log | None = None,
        gap: float | None = None,
        recording: bool = False,
    ) -> None:
        self.problem = problem
        self.method = method
        self.time_limit = time_limit
        self.seed = seed
        self.gap = gap
        self.recording = recording
        self.recorded: Certificate | None = None
        self.rng = np.random.default_rng(seed)
        self.x: NDArray[Any] | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.nodes: int | None = None
        self.duals: dict[str, Any] = {}
        self.details: dict[str, Any] = {}
        self.message = ""
        self.build_seconds = 0.0
        self._stopped: Stopped | None = None
        self._infeasible = False
        self._trace: list[TracePoint] = []
        self._watch = watch
        self._log = log or Log(None)
        self._start = time.perf_counter()

    # -- clock ---------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds that count: wall-clock time since the run was made, without what passed inside `loading`."""
        return time.perf_counter() - self._start

    @property
    def remaining(self) -> float:
        """Seconds left, never negative; `math.inf` without a limit, and none once the gap is good enough."""
        if self.enough:
            return 0.0
        return math.inf if self.time_limit is None else max(0.0, self.time_limit - self.seconds)

    @property
    def expired(self) -> bool:
        """Whether the method is to end: the time limit has passed, or the gap is good enough."""
        return self.remaining <= 0.0

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count the time inside the ``with`` block as `build_seconds`; the clock goes on."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.build_seconds += time.perf_counter() - start

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Stop the clock inside the ``with`` block, which imports a package or compiles a kernel: once.

        Ctrl-C is held back until its end. An import that is interrupted leaves modules half made, which nothing in
        the process can use from then on.
        """
        start = time.perf_counter()
        if (watcher := Run.loading_watcher) is not None:
            watcher(True)
        try:
            with _interrupts_held_back():
                yield
        finally:
            self._start += time.perf_counter() - start
            if watcher is not None:
                watcher(False)

    # -- what the method does ------------------------------------------------------------------------------------

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Keep, in ``details["phases"]``, the time inside the ``with`` block and what was known at its end.

        Each entry is a dict of ``name``, ``seconds`` (the block's own, without `loading`), ``objective`` and ``bound``.
        Phases stand in the order they begin; a block inside another is a phase of its own.
        """
        entry: dict[str, Any] = {"name": name}
        self.details.setdefault("phases", []).append(entry)
        self._log.note(name)
        start = self.seconds
        try:
            yield
        finally:
            entry |= {"seconds": self.seconds - start, "objective": self.objective, "bound": self.bound}

    def note(self, text: str) -> None:
        """Keep a sentence about what the method did in ``details["notes"]``; the log shows it as it comes."""
        self.details.setdefault("notes", []).append(text)
        self._log.note(text)

    def log(self, text: str) -> None:
        """Write a sentence to the log and keep it nowhere."""
        self._log.note(text)

    # -- what the method found -----------------------------------------------------------------------------------

    @property
    def enough(self) -> bool:
        """Whether objective and bound are as near to each other as `gap` asks."""
        if self.gap is None or self.objective is None or self.bound is None:
            return False
        return relative_gap(self.objective, self.bound) <= self.gap

    @property
    def proved(self) -> bool:
        """Whether the best bound proves the incumbent optimal; see `solvers.solution.proves`."""
        return proves(self.problem, self.objective, self.bound)

    def offer(self, x: ArrayLike) -> float:
        """Offer a feasible decision; the run keeps it if it is the best so far.

        Parameters
        ----------
        x : array-like
            The decision. It is copied when kept.

        Returns
        -------
        float
            ``problem.objective(x)``.

        Raises
        ------
        InvalidAnswer
            When ``x`` is infeasible or its objective is not finite: a method must never offer one.
        """
        x = self.problem.decision(x)
        violation = self.problem.violation(x)
        if not violation <= self.problem.tolerance:
            raise InvalidAnswer(
                f"method {self.method!r} returned an infeasible decision: it violates a constraint by {violation:.6g} "
                f"(accepted: {self.problem.tolerance:g})"
            )
        objective = float(self.problem.objective(x))
        if not math.isfinite(objective):
            raise InvalidAnswer(f"method {self.method!r} returned a decision whose objective is {objective}")
        known = self.objective
        if known is None or self._better(objective, known) or self._breaks_tie(x, objective):
            self.x = x.copy()
            self.x.setflags(write=False)
            self.objective = objective
            self._record()
        return objective

    def tighten(self, bound: float | Fraction, error: float | Fraction = 0.0) -> None:
        """Report a valid bound; the run keeps it if it is the tightest so far.

        The method vouches for validity in floating point: a backend's bound is to be widened by its rounding first.

        Parameters
        ----------
        bound : float or Fraction
            The bound; an exact fraction is rounded to the side on which it holds.
        error : float or Fraction
            Largest rounding error of ``bound``, by which it is moved, see `solvers.problem.certified`.
        """
        bound = certified(bound, error, self.problem.sense)
        if math.isnan(bound):
            raise InvalidAnswer(f"method {self.method!r} reported NaN as its bound")
        if math.isfinite(bound) and (self.bound is None or self._better(self.bound, bound)):
            self.bound = bound
            self._record()

    def stop(self, reason: Stopped, message: str = "") -> None:
        """State why the method ended, where it is neither a proof nor the time limit; keep the native message."""
        self._stopped = reason
        self.message = message or self.message

    def infeasible(self) -> None:
        """Report that the problem was proved to have no feasible decision."""
        self._infeasible = True

    # -- the answer ----------------------------------------------------------------------------------------------

    def solution(self) -> Solution:
        """Return everything found so far, as a `Solution`."""
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
            stopped = "gap"
        elif self._stopped is not None:
            stopped = self._stopped
        else:
            stopped = "time-limit" if self.expired else "iterations"
        return Solution(
            problem=self.problem,
            method=self.method,
            x=self.x,
            objective=self.objective,
            bound=self.bound,
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
        )

    def _breaks_tie(self, x: NDArray[Any], objective: float) -> bool:
        """Return whether a decision is better than the incumbent by less than doubles can say."""
        return objective == self.objective and self.x is not None and self.problem.is_better(x, self.x)

    def _better(self, first: float, second: float) -> bool:
        return first > second if self.problem.sense == "max" else first < second

    def _record(self) -> None:
        self._trace.append(TracePoint(self.seconds, self.objective, self.bound))
        self._log.improved(self)
        if self._watch is not None:
            self._watch(self._trace[-1])


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
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


class Log:
    """Writer of a run's progress; silent where there is nowhere to write to.

    Parameters
    ----------
    write : callable or None
        Given each line, without its end.
    """

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write = write

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
        problem = run.problem
        size = f", n = {problem.n}" if hasattr(problem, "n") else ""
        limit = "" if run.time_limit is None else f", {run.time_limit:g} s"
        self._line(f"{run.method} on a {type(problem).__name__} ({problem.sense}{size}), seed {run.seed}{limit}")
        self._line(f"{'seconds':>9} {'nodes':>9} {'incumbent':>16} {'bound':>16} {'gap':>9}")

    def improved(self, run: Run) -> None:
        """Write a line with the newest point of the run's trace."""
        if self._write is None:
            return
        gap = None if run.objective is None or run.bound is None else relative_gap(run.objective, run.bound)
        nodes = "-" if run.nodes is None else str(run.nodes)
        cells = f"{run.seconds:9.2f} {nodes:>9} {_cell(run.objective):>16} {_cell(run.bound):>16}"
        self._line(f"{cells} {'-' if gap is None else f'{100 * gap:.3g} %':>9}")

    def note(self, text: str) -> None:
        """Write a line of words."""
        self._line(f"{'':>9} {text}")

    def end(self, solution: Solution) -> None:
        """Write the summary."""
        if self._write is not None:
            for line in solution.summary().splitlines():
                self._line(line)

    def _line(self, text: str) -> None:
        if self._write is not None:
            self._write(text)


def _to(stream: Any) -> Callable[[str], object]:
    def write(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return write


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.9g}"
