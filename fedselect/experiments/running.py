"""Runs: built from a configuration, played into their folders, one or many in parallel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.clock import Clock, build_clock
from fedselect.data import Federation
from fedselect.errors import ConfigError, RunError, missing_extra
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.folder import RunFolder
from fedselect.plugins import load_payload, worker_payload
from fedselect.rounds.engine import Callback, Callbacks, listeners, round_record
from fedselect.rounds.protocol import EndOfRun, Selector
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS
from fedselect.signals import interrupt_again
from fedselect.training.settings import one_thread, samples_trained
from solvers.environment import how_to_install

if TYPE_CHECKING:
    from fedselect.training.fedavg import FedAvg

#: Methods of a selector (`fedselect.rounds.protocol.Selector`) that come in pairs or not at all.
_STATE = ("state_dict", "load_state_dict")


def build_scenario(experiment: Experiment, federation: Federation | None = None) -> Scenario:
    """Build the setting of an experiment: clients, availability, dropout and clock.

    Parameters
    ----------
    experiment : Experiment
        Configures it.
    federation : Federation, optional
        Use this instead of loading the experiment's data set.

    Returns
    -------
    Scenario
    """
    federation = federation or experiment.federation()
    availability, dropout, seed = experiment.availability, experiment.dropout, experiment.seed
    clock: Clock | None = None
    ask = experiment.clients_per_round
    if experiment.clock is not None:
        work = samples_trained(federation.sizes, experiment.training, seed)
        clock, ask = build_clock(experiment.clock.name, work, ask, seed, experiment.clock.options)
    return Scenario(
        federation.sizes,
        AVAILABILITY.build(availability.name, federation, seed, **availability.options),
        DROPOUT.build(dropout.name, len(federation), seed, **dropout.options),
        seed,
        experiment.time_limit,
        clock,
        size=ask,
        rounds=experiment.rounds,
        data=federation,
    )


def build_selector(choice: Choice, scenario: Scenario) -> Selector:
    """Build the selector that a configuration chooses; raise `ConfigError` for a class that is none."""
    selector = SELECTORS.build(choice.name, scenario, **choice.options)
    missing = [name for name in ("select", *_STATE) if not callable(getattr(selector, name, None))]
    if "select" in missing or len(missing) == 1:
        raise ConfigError(
            f"selector {choice.name!r} is a {type(selector).__name__}, which has no {', '.join(missing)}: a selector "
            "has select(round) and, where it learns, update(feedback), state_dict() and load_state_dict(state)"
        )
    return selector


def build(experiment: Experiment, scenario: Scenario | None = None) -> FedAvg:
    """Build the loop of an experiment at round 0; ``scenario`` is its `build_scenario`, where there is one already."""
    from fedselect.training.fedavg import FedAvg

    scenario = scenario or build_scenario(experiment)
    return FedAvg.within(scenario, build_selector(experiment.selector, scenario), settings=experiment.training)


_log = logging.getLogger(__name__)


def run(
    experiment: Experiment,
    out: str | Path = "runs",
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
    fresh: bool = False,
    strict: bool = False,
    callbacks: Callbacks = (),
) -> Path:
    """Run an experiment into its folder, or continue it where it was stopped.

    The folder holds ``config.toml`` (resolved), ``origin.json`` (provenance: versions, commit, digests of the plugins'
    code and of files), ``rounds.jsonl`` (one line per round, written as it ends), ``checkpoint.npz`` and, once
    finished, ``metrics.csv``, ``clients.csv``, ``client_rounds.csv``, ``model.pt`` (the final model's ``state_dict``,
    for ``torch.load``), ``summary.json`` and ``plots/``. A finished run is not repeated; one of other code or versions
    counts, with a warning, and one of other files is refused. A stopped run whose selector has no ``state_dict`` begins
    again at the first round.

    Parameters
    ----------
    experiment : Experiment
        The configuration.
    out : path-like
        Directory below which the folder is made.
    progress : callable, optional
        Called with (rounds done, rounds in all) after every round.
    plots : bool
        Whether to draw ``plots/`` once the run is finished.
    fresh : bool
        Whether to begin afresh, in a folder beside it, where a run of this configuration is there whose code, files or
        versions were others.
    strict : bool
        Whether a run of this configuration whose code or versions were others is an error.
    callbacks : iterable
        Called with the record of every round that is played now (not of those in the folder already); see
        `fedselect.training.fedavg.FedAvg.fit`. One that raises `StopIteration` before the last round leaves the run
        as a kill would.

    Returns
    -------
    pathlib.Path
        The run folder.

    Raises
    ------
    FedselectError, solvers.SolversError
        When the experiment cannot be built (nothing is written then), the folder holds another run or one of other
        files, cannot be written, or another process is at work in it; when the selector raises one, has a state that
        cannot be saved, or ends the run before its first round.
    """
    if not isinstance(experiment, Experiment):
        raise ConfigError(
            f"run takes an Experiment; got {experiment!r:.80} "
            "(experiment, variants = read_config(file) reads a configuration)"
        )
    return run_into(RunFolder.of(experiment, out, fresh, strict), progress, plots=plots, callbacks=callbacks)


def run_into(
    folder: RunFolder,
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
    callbacks: Callbacks = (),
) -> Path:
    """Run into a folder from `RunFolder.of`; see `run`."""
    folder.check()
    experiment = folder.experiment
    if folder.finished:
        _log.info("%s: found finished", folder.path)
        return folder.path
    loop = build(experiment)
    with folder.opened(loop), listeners(callbacks) as tell, one_thread():
        while loop.round < experiment.rounds and not folder.out_of_patience:
            last = loop.round + 1 == experiment.rounds
            try:
                record = round_record(loop.step(evaluate=True if last else None))
            except EndOfRun as reason:
                _log.info("%s: the selector ends the run: %s", folder.path, reason)
                break
            folder.append(record, loop)
            if progress is not None:
                progress(loop.round, experiment.rounds)
            if not tell(record) and not last:
                return folder.path
        folder.finish(loop.federation, loop.client_scores(), plots, loop.model.state_dict())
    return folder.path


#: Makes the callbacks of a run, in the process that plays it.
RunCallbacks = Callable[[Path, Experiment], Iterable[Callback | Callable[[dict[str, Any]], Any]]]


def run_all(
    experiments: Sequence[Experiment],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    plots: bool = True,
    fresh: bool = False,
    strict: bool = False,
    callbacks: RunCallbacks | None = None,
) -> list[Path]:
    """Run many experiments; finished ones are not repeated, interrupted ones continue.

    They go through joblib, and so to a cluster where one is: ``with carried_by("ray"): run_all(experiments, out, 64)``,
    or ``with joblib.parallel_config("dask")`` behind a ``dask.distributed.Client``. ``out`` must be a directory that
    its machines share.

    Parameters
    ----------
    experiments : sequence of Experiment
        Those with the same run folder are one run.
    out : path-like
        Directory below which the run folders are made.
    jobs : int
        Runs side by side, in processes of their own where there are two or more; -1 for as many as there are
        processors. Results depend on it where the clock decides: by a time limit, or ``batching = "timed"``.
    progress : callable, optional
        Called about twice a second with (rounds done, rounds in all), from a thread of its own, and once at the end.
    plots : bool
        Whether each finished run gets pictures of its own; where there are hundreds of short ones, drawing takes longer
        than training.
    fresh, strict : bool
        As for `fedselect.experiments.run`.
    callbacks : callable, optional
        Called with the path and the experiment of each run that is not finished yet, in the process that plays it;
        returns its callbacks.

    Returns
    -------
    list of pathlib.Path
        The run folders, in the order of the experiments.

    Raises
    ------
    ConfigError
        When ``jobs`` is neither positive nor -1, or a plugin's component cannot be sent to a worker (nothing is run
        then); or when one of the runs cannot be built.
    RunError
        When a folder holds a run that is refused (nothing is run then), cannot be written, or another process is at
        work in it. A run's other errors are those of `fedselect.experiments.run`.
    """
    from solvers.benchmark.jobs import JobRunner

    if jobs < 1 and jobs != -1:
        raise ConfigError(f"jobs must be at least 1, or -1 for all processors; got {jobs}")
    # A worker may stand in another directory.
    folders = [RunFolder.of(each, Path(out).resolve(), fresh, strict) for each in experiments]
    once = {folder.path: folder for folder in folders}
    for folder in once.values():
        folder.check()
    payload = worker_payload({part for folder in once.values() for part in folder.experiment.parts})
    with _watch({path: folder.experiment.rounds for path, folder in once.items()}, progress):
        runner = JobRunner(jobs, wave=0, error=RunError)
        for _ in runner.run(_run, [(payload, each, plots, callbacks) for each in once.values()]):
            interrupt_again()
    return [Path(out) / folder.path.parent.name / folder.path.name for folder in folders]


def _run(payload: bytes, folder: RunFolder, plots: bool, callbacks: RunCallbacks | None) -> Path:
    """Run in a worker, which first registers the components of the calling process."""
    load_payload(payload)
    told = () if callbacks is None or folder.finished else callbacks(folder.path, folder.experiment)
    return run_into(folder, plots=plots, callbacks=told)


@contextmanager
def carried_by(backend: str | None) -> Iterator[None]:
    """Let `run_all` use another backend than processes of this machine inside the block.

    Parameters
    ----------
    backend : str or None
        ``"ray"``: the cluster that ``RAY_ADDRESS`` names, or a Ray of this machine, with at least two ``jobs``; or a
        backend that joblib knows. With None the block runs as without it.

    Raises
    ------
    ConfigError
        When joblib cannot use the backend, or nothing answers at ``RAY_ADDRESS``.
    MissingExtraError
        When Ray is not installed.
    """
    import joblib

    if backend is None:
        yield
        return
    from solvers.benchmark.jobs import register_backend

    try:
        register_backend(backend)
    except ImportError as error:
        raise missing_extra("ray", f"Ray is not installed: {how_to_install('flower')}", error) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
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
