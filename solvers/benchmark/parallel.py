"""Hand tasks to workers through joblib, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from solvers.benchmark.worker import Task, close, run_task
from solvers.errors import BenchmarkError

__all__ = ["executor", "run_tasks"]


def executor(jobs: int | None, backend: str | None) -> tuple[Any, bool]:
    """A joblib executor that hands a task to whichever worker is free, and whether it returns answers as they come."""
    import joblib

    options = {"n_jobs": jobs, "backend": backend, "batch_size": 1}
    if jobs == 0:
        raise BenchmarkError("jobs must be a positive number, -1 for every core, or None; got 0")
    try:
        return joblib.Parallel(**options, return_as="generator_unordered"), True
    except ValueError:  # multiprocessing, and Ray on top of it, return lists; anything else fails once more
        try:
            return joblib.Parallel(**options), False
        except ValueError as error:
            raise BenchmarkError(f"joblib does not accept jobs={jobs!r}, backend={backend!r}: {error}") from error


def run_tasks(tasks: list[Task], parallel: Any, streaming: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Answers as they come; in waves of a few for every worker where the backend only returns lists."""
    import joblib

    if not tasks:
        return
    try:
        with parallel:
            wave = len(tasks) if streaming else 8 * joblib.effective_n_jobs(parallel.n_jobs)
            for start in range(0, len(tasks), wave):
                yield from parallel(joblib.delayed(run_task)(task) for task in tasks[start : start + wave])
    finally:
        close(tasks[0].benchmark)
