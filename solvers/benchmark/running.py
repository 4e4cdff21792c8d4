"""``run_benchmark``: run methods × instances × seeds × time limits, and what comes of it."""

from __future__ import annotations

import pickle
import platform
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solvers.benchmark.child import Request
from solvers.benchmark.jobs import JobRunner, Task, run_tasks
from solvers.benchmark.plan import Cell, Plan
from solvers.benchmark.store import Store
from solvers.benchmark.table import Benchmark
from solvers.benchmark.verify import examine
from solvers.checks import number
from solvers.environment import commit, installed, machine
from solvers.errors import BenchmarkError
from solvers.options import AtLeast, Below
from solvers.problem import Problem
from solvers.registry import methods as registered

#: What a row can be; `run_benchmark` explains them.
VERDICTS = ("ok", "crashed", "hung", "error", "invalid", "nondeterministic", "refused", "missing")

#: Distributions whose versions may change an answer or its time.
_PACKAGES = (
    "fedselect", "numpy", "scipy", "numba", "cvxpy", "clarabel", "ortools", "highspy", "gurobipy", "pyscipopt",
    "cplex", "dwave-samplers", "pymoo",
)  # fmt: skip


def run_benchmark(
    methods: Sequence[str] | Mapping[str, str | tuple[str, Mapping[str, Any]]],
    instances: Sequence[str | Path] | Mapping[str, Problem | str | Path | Callable[[], Problem]],
    seeds: Sequence[int] = (0,),
    time_limits: Sequence[float | None] | float | None = (None,),
    out: str | Path | None = None,
    *,
    jobs: int | None = 1,
    backend: str | None = None,
    best_known: Mapping[str, float] | None = None,
    repeat: bool = True,
    warm_up: float = 60.0,
    grace: float = 5.0,
    patience: float = 3600.0,
    retry: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Benchmark:
    r"""Solve every instance with every method, under every seed and time limit, and check every answer from outside.

    Methods run in solver processes, one kept by each joblib worker: one that dies, hangs or lies costs its own row.
    Rows are written as they come; the same call on the same folder does only what is missing.

    Parameters
    ----------
    methods : sequence of str, or mapping
        Names as `solvers.solve` takes them; or label → name, or label → (name, options).
    instances : sequence of str or path, or mapping of str to Problem, str, path or callable
        Problems, functions that make one, files (``.npz`` of `Problem.save`; text of MDPLIB) or names of the instance
        library. Other files are problems once their reader has made one, such as `solvers.dispersion.read_tsplib`;
        ``fedselect bench`` picks it by the ending.
    seeds : sequence of int
        Seeds of every method, from 0 and below 2⁶³.
    time_limits : sequence of float or None, or one of these
        Seconds a solve may take; ``None`` for no limit.
    out : path-like, optional
        The benchmark's folder; a temporary one if left out. Under a backend that spans machines it must be one that
        all of them see.
    jobs : int or None
        Solves side by side, as joblib counts them (-1: every core); loky gives each its share of the cores. ``None``
        takes what the surrounding ``joblib.parallel_config`` says.
    backend : str, optional
        A joblib backend, or "ray", for two jobs or more; ``loky`` unless a surrounding ``joblib.parallel_config`` says
        otherwise.
    best_known : mapping of str to float, optional
        Best objective known from elsewhere, by instance; the library's own where it is left out.
    repeat : bool
        Solve every row that has an answer, and that neither the time limit nor a gap cut short, a second time in the
        same process, untimed, to see that its seed determines it.
    warm_up : float
        Seconds that a method may spend on loading in a call, which do not count towards its limits: on what it imports
        and compiles inside ``with run.loading()``. Before its first timed call in a solver process there is an untimed
        one of 10 ms, and of 0.3 s where that cut it short, after which kernels are compiled; 0 leaves that out, and
        counts all.
    grace : float
        Seconds beyond the time limit after which a method counts as hung and is ended.
    patience : float
        The same for solves without a time limit, counted from their start.
    retry : collection of str
        Verdicts of stored rows that are to be solved again, such as ``["missing"]``.
    progress : callable, optional
        Called with (rows done, rows in all) at the start and after every row.

    Returns
    -------
    Benchmark
        Its ``table`` has one row a solve with these columns.

        ``family, instance, n, method, registered, options, seed, time_limit``
            What was solved: n is the problem's size, method the label, registered the method's name, options are JSON.
        ``verdict``
            "ok"; "crashed" (the process died); "hung" (it was ended ``grace`` after its limit, or after ``patience``);
            "error" (it raised); "invalid" (the decision is infeasible, its objective is not the one claimed, "optimal"
            has no proof, the trace is better than the answer, or a decision, of another row or the instance library,
            too, refutes the bound or "infeasible": the message says which); "nondeterministic" (the repetition
            differed); "refused" (the method, or a free licence, does not take this problem); "missing" (a package is
            not installed).
        ``status, stopped``
            As on `solvers.Solution`.
        ``native_status``
            What the backend itself says, in its own tolerances ("optimal", "time limit"); missing where there is none.
        ``objective``
            The problem's own value of the decision, where that is feasible.
        ``bound, gap``
            As claimed, and `solvers.relative_gap` of the two.
        ``best_known``
            The best of the value given and of the feasible decisions in the table, for the instance's sense.
        ``gap_to_best``
            `solvers.benchmark.distance` of objective and best known value; 0 is best.
        ``time_to_incumbent, time_to_proof``
            Seconds until the final decision was held, and until its bound proved it.
        ``primal_integral``
            `solvers.benchmark.primal_integral` up to the time limit, or to the end where there is none, in seconds.
        ``seconds, cpu_seconds, build_seconds, nodes, message``
            Wall time of the solve, processor time of all threads, the part of the wall time spent on stating the model;
            nodes; what there is to say.
        ``kind, sense, relaxed, versions`` (JSON)
            Kind of the method; "max" or "min"; whether the decision is real where whole numbers are asked for. Such
            rows answer a relaxation: their bounds count, but they have no gap to best, times to incumbent and proof, or
            primal integral, and no part in ``best_known``, profiles and wins.

    Raises
    ------
    BenchmarkError, UnknownMethod, InvalidOption, InvalidProblem
        When the benchmark is not stated well, a method cannot be sent to another process, or the folder holds
        another benchmark or is in use: nothing is run then. A BenchmarkError, too, when a worker dies, no solver
        process starts, or a cluster is out of reach: finished rows are kept in ``out``.

    Notes
    -----
    The folder holds ``benchmark.json`` (what is compared), ``rows.jsonl`` (a line a row, with decision and trace),
    ``instances/`` and, once finished, ``results.csv`` and ``results.parquet`` (with pyarrow, the
    extra ``parquet``). On a cluster::

        run_benchmark(methods, instances, out="/shared/folder", jobs=-1, backend="ray")

    and the same with ``joblib.parallel_config("dask")`` inside a ``dask.distributed.Client``. Methods defined in the
    script itself are sent along; modules they import must be installed where the workers are.
    """
    plan = Plan.of(methods, instances, seeds, time_limits, best_known)
    conditions = {"repeat": bool(repeat)} | {
        name: number(value, name, AtLeast(0), Below(1e6), error=BenchmarkError, hint="seconds")
        for name, value in (("warm_up", warm_up), ("grace", grace), ("patience", patience))
    }
    if unknown := sorted(set(retry) - set(VERDICTS)):
        raise BenchmarkError(f"there is no verdict {unknown[0]!r} to retry (known: {', '.join(VERDICTS)})")
    setup = _setup(plan)
    runner = JobRunner(jobs, backend)
    manifest = {
        **plan.manifest(),
        "conditions": conditions,
        "versions": installed(_PACKAGES),
        "platform": f"{machine()} ({platform.platform()})",
        "commit": commit() or "no checkout",
    }
    total = sum(1 for _ in plan.cells())
    with _folder(out) as folder, Store(folder).alone() as store:
        store.claim(manifest, retry)
        if progress is not None:
            progress(len(store.records), total)
        cells = [cell for cell in plan.cells() if cell not in store.records]
        tasks = _tasks(cells, plan, store, setup, conditions)
        problems = {each.name: each.problem for each in plan.instances}
        with store.writing() as write:
            for place, answer in run_tasks(tasks, runner):
                cell = cells[place]
                write(cell, examine(problems[cell.instance], answer, cell.time_limit))
                if progress is not None:
                    progress(len(store.records), total)
        benchmark = Benchmark(manifest, list(store.records.values()), None if out is None else folder)
        if out is not None:
            store.finish(benchmark.table)
    return benchmark


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            yield Path(folder)
        return
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchmarkError(f"cannot make the folder {out}: {error}") from error
    yield Path(out).resolve()


def _setup(plan: Plan) -> bytes:
    """Return the first message to every solver process: the methods registered here, by value where no module has them.

    Those that are not compared go along too, as a method may call others.
    """
    import cloudpickle  # type: ignore[import-untyped]

    compared = set(plan.entries().values())
    sent = []
    for kind in {type(each.problem) for each in plan.instances}:
        for entry in registered(kind):
            try:
                sent.append((entry.name, cloudpickle.dumps(entry)))
            except Exception as error:
                if entry in compared:
                    raise BenchmarkError(
                        f"method {entry.name!r} cannot be sent to a solver process: {error}"
                    ) from error
    return pickle.dumps((_PACKAGES, sent))


def _tasks(cells: list[Cell], plan: Plan, store: Store, setup: bytes, conditions: Mapping[str, Any]) -> list[Task]:
    """Return a task for each row that is missing, numbered as ``cells``."""
    variants = {each.label: each for each in plan.variants}
    instances = {each.name: each for each in plan.instances}
    files = {name: store.problem_file(instances[name]) for name in {cell.instance for cell in cells}}
    benchmark = uuid.uuid4().hex
    tasks = []
    for place, cell in enumerate(cells):
        variant, limit = variants[cell.method], cell.time_limit
        patience = conditions["patience"] if limit is None else limit + conditions["grace"]
        request = Request(files[cell.instance], variant.name, variant.options, cell.seed, limit, patience)
        kind = f"{type(instances[cell.instance].problem).__name__} {variant.label}"
        tasks.append(Task(place, benchmark, setup, request, kind, conditions["warm_up"], conditions["repeat"]))
    return tasks
