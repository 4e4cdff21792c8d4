"""What runs in a joblib worker: one task, in the solver process that this worker keeps."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

from solvers.benchmark.child import Request
from solvers.benchmark.process import SolverProcess

__all__ = ["Task", "close", "run_task"]

#: Time limit of the untimed first call of a method in a solver process.
_WARM_UP_LIMIT = 0.01

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
        Seconds allowed for that untimed first call; 0 for none.
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
    answer = _warm_up(process, task) or process.ask(task.request)
    if task.repeat and answer["failed"] is None and answer["stopped"] not in ("time-limit", "gap"):
        answer["again"] = process.ask(task.request)
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


def _warm_up(process: SolverProcess, task: Task) -> dict[str, Any] | None:
    """Let a method import and compile before it is timed; returns an answer only where this ended the process."""
    if not task.warm_up or task.variant in process.notes:
        return None
    answer = process.ask(replace(task.request, time_limit=_WARM_UP_LIMIT, patience=task.warm_up, untimed=True))
    if answer["failed"] in ("crashed", "hung"):
        return {**answer, "message": f"in the untimed call before the first timed one, {answer['message']}"}
    process.notes.add(task.variant)
    return None


def close(benchmark: str) -> None:
    """End the solver processes that this process keeps for a benchmark."""
    for key in [key for key in list(_processes) if key[0] == benchmark]:
        _processes.pop(key).close()
