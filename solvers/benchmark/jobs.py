"""Runner of jobs over joblib's workers, here or on a cluster; and the solver processes that such workers keep."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from typing import Any, TypeVar

from solvers.benchmark.child import IDLE_SECONDS, Request
from solvers.errors import BenchmarkError
from solvers.options import did_you_mean

Result = TypeVar("Result")

_STARTING_SECONDS = 120.0

#: Seconds between looks at whether a process that has not answered is still there.
_LOOK = 0.1

#: Time limits of the untimed first calls of a method in a solver process: a second one where the first was cut short,
#: before it had loaded what it needs. ``auto`` comes to its kernels after some tens of milliseconds.
_WARM_UP_LIMITS = (0.01, 0.3)


class SolverProcess:
    """One long-lived solver process and the pipe to it.

    It is a fresh interpreter, not a fork. It leads a session of its own, so that Ctrl-C reaches only the caller, and
    ending it ends the processes it started that stayed in its group.

    Parameters
    ----------
    setup : bytes
        The first message to it; see `solvers.benchmark.child.main`.

    Attributes
    ----------
    versions : dict of str to str
        Versions of Python and of the packages, as the process found them.
    """

    def __init__(self, setup: bytes) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._used = time.monotonic()
        self.versions: dict[str, str] = {}
        #: What the caller notes about this process, such as the methods it has run; forgotten when it ends.
        self.notes: set[str] = set()

    def ask(self, request: Request) -> dict[str, Any]:
        """Return the answer to a request; ``failed`` is "crashed" or "hung" where the process did not give one."""
        self.start()
        start = time.perf_counter()
        self._used = math.inf  # however long it takes, it is in use
        try:
            self._errors.truncate(0)
            self._connection.send(request)
            answer = self._wait(request)
        except (EOFError, OSError):
            answer = None
        except BaseException:  # Ctrl-C: the process must not go on alone
            self.close()
            raise
        finally:
            self._used = time.monotonic()
        if isinstance(answer, dict):
            return answer
        seconds = time.perf_counter() - start
        if answer == "hung":
            self.close()
            return {"failed": "hung", "message": f"was ended {seconds:.3g} s after it was asked", "seconds": seconds}
        return {"failed": "crashed", "message": self._exit_message(), "seconds": seconds}

    def _wait(self, request: Request) -> dict[str, Any] | str | None:
        """Return the answer, "hung" where the time is over, or None where the process is gone.

        The process says when it begins and ends to load what a method needs: that time does not count, up to
        ``request.loading`` seconds in all. What a method has forked may keep the pipe open after the process itself
        has ended, so that the process is looked at, too.
        """
        assert self._process is not None
        end = time.perf_counter() + request.patience
        allowance, since = request.loading, math.inf  # since: when it began to load
        while True:
            now = time.perf_counter()
            left = max(0.0, (end if since == math.inf else end + allowance) - now)
            gone = self._process.poll() is not None
            if self._connection.poll(0.0 if gone else min(left, _LOOK)):
                message = self._connection.recv()
                if isinstance(message, dict):
                    return message
                now = time.perf_counter()
                if message and since == math.inf:
                    since = now
                elif not message and since < math.inf:
                    loaded = min(now - since, allowance)
                    end, allowance, since = end + loaded, allowance - loaded, math.inf
            elif gone:
                return None
            elif left <= _LOOK:
                return "hung"

    def close(self) -> None:
        """End the process, and those of its group, at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._errors.close()
        self._process = None
        self.notes.clear()

    @property
    def retired(self) -> bool:
        """Whether the process was left alone for so long that it ends, or soon will, by itself."""
        return time.monotonic() - self._used > IDLE_SECONDS / 2

    def start(self) -> None:
        """Start the process, unless there is one that is alive and not about to retire."""
        if self._process is not None and self._process.poll() is None and not self.retired:
            return
        self.close()
        self._connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115  (closed with the process)
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from solvers.benchmark.child import main; main({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        try:
            self._connection.send_bytes(self._setup)
            if not self._connection.poll(_STARTING_SECONDS):
                raise EOFError
            self.versions = self._connection.recv()
            self._used = time.monotonic()
        except (EOFError, OSError):
            raise BenchmarkError(f"no solver process could be started: {self._exit_message()}") from None
        except BaseException:
            self.close()
            raise

    def _exit_message(self) -> str:
        """Say how the process ended, with the last line that it wrote to its standard error."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        code = self._process.returncode
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        self.close()
        if code is not None and code < 0:
            name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
            death = f"its process died of {name}"
            if name == "SIGKILL":
                death += ", as the system does where memory is short"
        else:
            death = f"its process ended with exit code {code}"
        return f"{death} ({lines[-1]})" if lines else death


#: Solver processes by (benchmark, thread): a worker is a process under loky, a thread under threading or Dask.
_processes: dict[tuple[str, int], SolverProcess] = {}


@dataclass(frozen=True)
class Task:
    """One solve to do.

    Attributes
    ----------
    number : int
        Its place among the benchmark's tasks.
    benchmark : str
        Unique to a call of `run_benchmark`.
    setup : bytes
        First message to a new solver process.
    request : Request
        What to solve.
    variant : str
        Problem type, method and options: what is warmed up once in every solver process.
    warm_up : float
        Seconds that may be spent on loading, which do not count towards the limits; 0: no untimed first call.
    repeat : bool
        Solve twice where neither the time limit nor a gap that is good enough cuts the solve short.
    """

    number: int
    benchmark: str
    setup: bytes
    request: Request
    variant: str
    warm_up: float
    repeat: bool


def run_task(task: Task) -> tuple[int, dict[str, Any]]:
    """Solve a task; returns its number and the answer, with ``versions`` and, where it was repeated, ``again``."""
    process = _own_process(task)
    process.start()
    request = replace(task.request, loading=task.warm_up)
    answer = _warm_up(process, task, request) or process.ask(request)
    if task.repeat and answer["failed"] is None and answer["stopped"] not in ("time-limit", "gap"):
        answer["again"] = process.ask(request)
    return task.number, {**answer, "versions": process.versions}


def _own_process(task: Task) -> SolverProcess:
    key = (task.benchmark, threading.get_ident())
    if key not in _processes:
        for other, process in list(_processes.items()):
            if process.retired:
                process.close()
                _processes.pop(other, None)
        _processes[key] = SolverProcess(task.setup)
    return _processes[key]


def _warm_up(process: SolverProcess, task: Task, request: Request) -> dict[str, Any] | None:
    """Let a method import and compile before it is timed; return an answer only where it hangs.

    It has as long as for a timed call, beside the loading. A method that fails in another way is called all the same:
    so short a limit may be what it cannot take.
    """
    if not task.warm_up or task.variant in process.notes:
        return None
    for limit in _WARM_UP_LIMITS:
        answer = process.ask(replace(request, time_limit=limit, untimed=True))
        if answer["failed"] == "hung":
            return {**answer, "message": f"in the untimed call before the first timed one, {answer['message']}"}
        process.start()
        if answer["failed"] is not None or answer["stopped"] != "time-limit":
            break
    process.notes.add(task.variant)
    return None


def close(benchmark: str) -> None:
    """End the solver processes that this process keeps for a benchmark."""
    for key in [key for key in list(_processes) if key[0] == benchmark]:
        _processes.pop(key).close()


#: Seconds in which a Ray cluster must accept a connection.
_CONNECT_SECONDS = 5.0


class JobRunner:
    """Calls of a function by free workers of joblib, here or on a cluster; results come as calls end, in any order.

    Parameters
    ----------
    jobs : int or None
        Calls side by side, as joblib counts them (-1: every core); ``None`` for what the surrounding
        ``joblib.parallel_config`` says.
    backend : str, optional
        A joblib backend, or "ray"; that of the surrounding ``joblib.parallel_config``, or ``loky``, if left out.
    wave : int
        Calls per worker that are handed over together where a backend returns lists alone; 0 for all at once.
    error : type
        The exception for settings that joblib does not accept, a worker that died, and a cluster out of reach.
    """

    def __init__(
        self,
        jobs: int | None,
        backend: str | None = None,
        *,
        wave: int = 8,
        error: type[Exception] = BenchmarkError,
    ) -> None:
        import joblib

        if jobs == 0:
            raise error("jobs must be a positive number, -1 for every core, or None; got 0")
        if jobs == 1 and backend not in (None, "sequential"):  # joblib would run a loop here, and not say so
            raise error(f"backend {backend!r} carries two jobs or more, and one runs here; give jobs=2 (--jobs 2), say")
        self.error, self.wave, self.streams, self.backend = error, wave, True, backend
        options = {"n_jobs": jobs, "backend": backend, "batch_size": 1}
        try:
            register_backend(backend)
        except ValueError as reason:
            raise error(str(reason)) from reason
        except ImportError as reason:
            raise error(f"joblib cannot use the backend {backend!r}: {reason}") from reason
        try:
            try:
                self.parallel = joblib.Parallel(**options, return_as="generator_unordered")
            except ValueError:  # multiprocessing, and Ray, return lists; anything else fails once more
                self.parallel, self.streams = joblib.Parallel(**options), False
        except (ValueError, ImportError) as reason:
            raise error(f"joblib cannot use jobs={jobs!r}, backend={backend!r}: {reason}") from reason

    def run(self, function: Callable[..., Result], calls: Sequence[tuple[Any, ...]]) -> Iterator[Result]:
        """Yield ``function(*call)`` of every call."""
        import joblib

        if not calls:
            return
        delayed, together = joblib.delayed(function), len(calls)
        try:
            with self.parallel as parallel:
                if self.wave and not self.streams:
                    together = self.wave * joblib.effective_n_jobs(parallel.n_jobs)
                if len(calls) == 1:
                    # A pool that was idle starts its workers after it last looked whom to watch, and looks again at the
                    # next call. Were there none, a worker's death would be seen when another has been idle for 300 s.
                    list(parallel([joblib.delayed(_nothing)()]))
                for start in range(0, len(calls), together):
                    yield from parallel(delayed(*call) for call in calls[start : start + together])
        except BrokenExecutor as reason:
            sentence = "a worker process died, as the system ends one where memory is short; what is finished is kept"
            raise self.error(sentence) from reason
        except ConnectionError as reason:  # an OSError, which callers that write files would take for a disk's
            around = type(getattr(self.parallel, "_backend", None)).__name__  # where a parallel_config says it
            if self.backend != "ray" and around != "RayBackend":
                raise
            where = os.environ.get("RAY_ADDRESS", "the address that Ray has found")
            said = (str(reason).strip() or "no reason given").splitlines()[0]
            raise self.error(
                f"cannot connect to the Ray cluster at {where}: {said} (is it running, and do both sides have the same "
                "RAY_AUTH_MODE and token?)"
            ) from reason


def _nothing() -> None:
    """Do nothing, for a pool to start its workers."""


def register_backend(name: str | None) -> None:
    """Make the backend "ray" known to joblib; other names must be known to it.

    Raises
    ------
    ImportError
        When Ray is not installed.
    ValueError
        When there is no such backend, or nothing answers where ``RAY_ADDRESS`` says that a cluster is. Ray itself
        would try for some minutes.
    """
    from joblib.parallel import BACKENDS, EXTERNAL_BACKENDS

    known = sorted({*BACKENDS, *EXTERNAL_BACKENDS, "ray"})
    if isinstance(name, str) and name not in known:
        raise ValueError(
            f"joblib cannot use the backend {name!r}: it accepts {', '.join(known)}{did_you_mean(name, known)}"
        )
    if name == "ray":
        from ray.util.joblib import register_ray

        _check_address(os.environ.get("RAY_ADDRESS", ""))
        register_ray()


def _check_address(address: str) -> None:
    """Raise `ValueError` where an address of the form host:port has nothing that accepts a connection."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):  # "auto", "local" or nothing: Ray looks by itself
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"nothing answers at {address}, where RAY_ADDRESS says that a Ray cluster is: {why}") from None


def run_tasks(tasks: list[Task], runner: JobRunner) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield answers to solves as they come, and end the solver processes of this process afterwards."""
    try:
        yield from runner.run(run_task, [(task,) for task in tasks])
    finally:
        for name in {task.benchmark for task in tasks}:
            close(name)
