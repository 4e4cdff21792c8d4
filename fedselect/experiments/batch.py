"""Many runs, side by side in processes of their own, with one count of the rounds that are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fedselect.errors import ConfigError, missing_extra
from fedselect.experiments.config import Experiment
from fedselect.experiments.folder import RunFolder
from fedselect.experiments.running import run_into
from fedselect.plugins import load_payload, worker_payload
from fedselect.training.callbacks import Callback

__all__ = ["RunCallbacks", "carried_by", "run_all"]

#: The callbacks of a run, made where it is played.
RunCallbacks = Callable[[Path, Experiment], Iterable[Callback | Callable[[dict[str, Any]], Any]]]


def run_all(
    experiments: Sequence[Experiment],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    plots: bool = True,
    fresh: bool = False,
    callbacks: RunCallbacks | None = None,
) -> list[Path]:
    """Run many experiments; finished ones are not repeated, interrupted ones continue.

    They go through joblib, and so to a cluster where one is: ``with carried_by("ray"): run_all(experiments, out, 64)``,
    or ``with joblib.parallel_config("dask")`` behind a ``dask.distributed.Client``. ``out`` must be a directory that
    all machines share.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to run. Those with the same run folder are one run.
    out : path-like
        Directory below which the run folders are made.
    jobs : int
        Runs side by side, each in a process of its own; -1 for as many as there are processors. The number changes
        nothing in the results (but a busy machine solves less within a time limit).
    progress : callable, optional
        Called about twice a second with (rounds done, rounds in all), from a thread of its own.
    plots : bool
        Whether each finished run gets pictures of its own; where there are hundreds of short ones, drawing takes longer
        than training.
    fresh : bool
        As for `fedselect.experiments.run`.
    callbacks : callable, optional
        Called with the path and the experiment of every run that is not finished yet, in the process that plays it;
        gives the callbacks that are told of its rounds.

    Returns
    -------
    list of pathlib.Path
        The run folders, in the order of the experiments.

    Raises
    ------
    ConfigError
        When ``jobs`` is neither positive nor -1, or a part of one's own cannot be sent to a worker; nothing is run
        then.
    RunError
        When a folder holds a run that was made of something else; nothing is run then.
    """
    import joblib

    if jobs < 1 and jobs != -1:
        raise ConfigError(f"jobs must be at least 1, or -1 for all processors; got {jobs}")
    # A worker may stand in another directory.
    folders = [RunFolder.of(each, Path(out).resolve(), fresh) for each in experiments]
    once = {folder.path: folder for folder in folders}
    for folder in once.values():
        folder.check()
    payload = worker_payload({part for folder in once.values() for part in folder.experiment.parts})
    with _watch({path: folder.experiment.rounds for path, folder in once.items()}, progress):
        joblib.Parallel(n_jobs=jobs)(joblib.delayed(_run)(payload, each, plots, callbacks) for each in once.values())
    return [Path(out) / folder.path.parent.name / folder.path.name for folder in folders]


def _run(payload: bytes, folder: RunFolder, plots: bool, callbacks: RunCallbacks | None) -> Path:
    """A run in a worker, which has to learn first what was registered where the run was asked for."""
    load_payload(payload)
    told = () if callbacks is None or folder.finished else callbacks(folder.path, folder.experiment)
    return run_into(folder, plots=plots, callbacks=told)


@contextmanager
def carried_by(backend: str | None) -> Iterator[None]:
    """Let another engine than processes of this machine carry what `run_all` runs inside the block.

    Parameters
    ----------
    backend : str or None
        ``"ray"``: the cluster that ``RAY_ADDRESS`` names, or a Ray of this machine, with at least two ``jobs``; or any
        backend that joblib knows. None changes nothing.

    Raises
    ------
    ConfigError
        When joblib does not know the backend, or it is not ready.
    MissingExtraError
        When Ray is not installed.
    """
    import joblib

    if backend is None:
        yield
        return
    if backend == "ray":
        try:
            from ray.util.joblib import register_ray
        except ImportError as error:
            raise missing_extra("ray", "Ray is not installed: pip install 'fedselect[flower]'", error) from error
        register_ray()
    try:
        config = joblib.parallel_config(backend)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"joblib cannot use the backend {backend!r}: {error}") from error
    with config:
        yield


@contextmanager
def _watch(rounds: dict[Path, int], progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Report the rounds that stand in the run folders while the block runs, whichever process writes them."""
    if progress is None:
        yield
        return
    total = sum(rounds.values())

    def done() -> int:
        paths = [folder / "rounds.jsonl" for folder in rounds]
        return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())

    over = Event()

    def report() -> None:
        while not over.wait(0.5):
            progress(done(), total)

    watcher = Thread(target=report, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    progress(total, total)
