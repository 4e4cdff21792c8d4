"""The solver process: a fresh interpreter that solves what it is sent."""

from __future__ import annotations

import faulthandler
import importlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from solvers import registry
from solvers.environment import installed
from solvers.errors import InvalidAnswer, InvalidProblem, MissingBackend, is_out_of_memory
from solvers.problem import Problem, load
from solvers.registry import Method
from solvers.run import Run
from solvers.solving import OFF_THE_CLOCK, solve

#: A solver process that is asked nothing for this long ends by itself.
IDLE_SECONDS = 60.0


#: What these errors of a method mean; others are an "error".
_VERDICTS: dict[type[BaseException], str] = {
    InvalidAnswer: "invalid",
    InvalidProblem: "refused",
    MissingBackend: "missing",
}

#: Why methods cannot be used here, by name.
_unusable: dict[str, str] = {}


@dataclass(frozen=True)
class Request:
    """One call of `solvers.solve`, for a problem in a file.

    ``patience`` is when its sender gives it up, in seconds, beside at most ``loading`` seconds in which the method
    loads what it needs; ``untimed`` marks a call that is there to warm up, after which kernels are compiled.
    """

    problem: str
    method: str
    options: dict[str, Any]
    seed: int
    time_limit: float | None
    patience: float
    loading: float = 0.0
    untimed: bool = False


def main(descriptor: int) -> None:
    """Answer requests from the socket ``descriptor`` until it closes, or none has come for a minute.

    The first message is ``(packages, methods)``: distributions whose versions are returned, and pairs of a
    method's name and its pickled `Method` entry, those of the user's own script included. Later ones are `Request`.
    """
    connection = Connection(descriptor)
    packages, methods = pickle.loads(connection.recv_bytes())
    for name, entry in methods:
        _register(name, entry)
    for module in OFF_THE_CLOCK:  # else the first solve would import them, on its sender's clock
        importlib.import_module(module)
    connection.send(installed(packages))
    process, sending = os.getpid(), threading.Lock()

    def send(message: dict[str, Any] | bool) -> None:
        with sending:
            connection.send(message)

    watcher = Run.loading_watcher = _watcher(send)
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    while True:
        try:
            request = requests.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            os._exit(0)
        # Where no supervisor is left to end a method that holds the interpreter, this thread of C does.
        faulthandler.dump_traceback_later(request.patience + request.loading + 5.0, exit=True)
        answer = _answer(request)
        if os.getpid() != process:  # a copy that the method forked, and that came back from there
            os._exit(0)
        if request.untimed and (kernels := sys.modules.get("solvers.dispersion.kernels")) is not None:
            watcher(True)
            kernels.preload(if_used=True)
            watcher(False)
        faulthandler.cancel_dump_traceback_later()
        send(answer)


def _watcher(send: Callable[[bool], None]) -> Callable[[bool], None]:
    """Return a callable that reports when loading begins and ends, of several methods at once from the first on."""
    lock, depth = threading.Lock(), 0

    def tell(begins: bool) -> None:
        nonlocal depth
        with lock:
            depth += 1 if begins else -1
            if depth == int(begins):  # from none to one, or from one to none
                send(begins)

    return tell


def _listen(connection: Connection, requests: queue.SimpleQueue[Request]) -> None:
    """Take requests while the main thread solves; end the process when the supervisor closes the pipe."""
    while True:
        try:
            requests.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)


def _register(name: str, pickled: bytes) -> None:
    """Take a method over; one that cannot be, for instance for want of its module, answers with the reason."""
    try:
        entry: Method = pickle.loads(pickled)
    except Exception as error:
        _unusable[name] = f"it cannot be loaded in a solver process: {type(error).__name__}: {error}"
    else:
        registry.put(entry)


@lru_cache(maxsize=4)
def _problem(path: str) -> Problem:
    return load(path)


def _answer(request: Request) -> dict[str, Any]:
    """Solve, and say what came out in plain numbers; ``failed`` is set where nothing did."""
    start = time.perf_counter()
    try:
        if request.method in _unusable:
            raise ImportError(_unusable[request.method])
        problem = _problem(request.problem)
        start, worked = time.perf_counter(), time.process_time()
        solution = solve(problem, request.method, time_limit=request.time_limit, seed=request.seed, **request.options)
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
        x = None if solution.x is None else np.asarray(solution.x)
        if x is not None and x.dtype.kind not in "biuf":
            raise TypeError(f"a decision is an array of numbers; this one has type {x.dtype}")
        return {
            "failed": None,
            "status": str(solution.status),
            "stopped": str(solution.stopped),
            "message": str(solution.message),
            "native_status": solution.native_status,
            "x": x,
            "objective": _number(solution.objective),
            "bound": _number(solution.bound),
            "seconds": seconds,
            "cpu_seconds": worked,
            "build_seconds": float(solution.build_seconds),
            "nodes": None if solution.nodes is None else int(solution.nodes),
            "trace": [(float(second), _number(value), _number(bound)) for second, value, bound in solution.trace],
        }
    except BaseException as error:  # whatever a method raises, SystemExit included, is its own row
        failed = _VERDICTS.get(type(error), "error")
        sentence = str(error) if failed != "error" else f"{type(error).__name__}: {error}"
        if is_out_of_memory(error):
            sentence = f"memory is short in its process: {sentence}"
        return {"failed": failed, "message": sentence, "seconds": time.perf_counter() - start}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
