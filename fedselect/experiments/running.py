"""One run, from its configuration to a finished folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedselect.experiments.building import build
from fedselect.experiments.config import Experiment
from fedselect.experiments.folder import RunFolder
from fedselect.experiments.records import round_record
from fedselect.training.callbacks import Callback, listeners
from fedselect.training.device import one_thread

__all__ = ["run", "run_into"]

_log = logging.getLogger(__name__)


def run(
    experiment: Experiment,
    out: str | Path = "runs",
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
    fresh: bool = False,
    callbacks: Iterable[Callback | Callable[[dict[str, Any]], Any]] = (),
) -> Path:
    """Run an experiment into its folder, or continue it where it was stopped.

    The folder holds ``config.toml`` (resolved), ``origin.json`` (what the run is made of: digests of code of one's own
    and of files, versions), ``versions.json``, ``rounds.jsonl`` (one line a round, written as it ends),
    ``checkpoint.npz`` and, once finished, ``metrics.csv``, ``clients.csv``, ``model.pt`` (the final model's
    ``state_dict``, for ``torch.load``), ``summary.json`` and ``plots/``. A finished run is not repeated; one that was
    made of something else is never taken for this one.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    out : path-like
        Directory below which the folder is made.
    progress : callable, optional
        Called with (rounds done, rounds in all) after every round.
    plots : bool
        Whether to draw ``plots/`` once the run is finished.
    fresh : bool
        Whether to begin afresh, in a folder beside it, where a run of this configuration is there whose code, files or
        versions were others; that is an error without.
    callbacks : iterable
        Told of every round that is played now (not of those that stand in the folder already); see
        `fedselect.training.fedavg.FedAvg.fit`. One that raises `StopIteration` leaves the run as a kill would.

    Returns
    -------
    pathlib.Path
        The run folder.

    Raises
    ------
    FedselectError
        When the experiment cannot be built (nothing is written then), the folder holds another run or one made of
        something else, which is named, cannot be written, or another process is at work in it.
    """
    return run_into(RunFolder.of(experiment, out, fresh), progress, plots=plots, callbacks=callbacks)


def run_into(
    folder: RunFolder,
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
    callbacks: Iterable[Callback | Callable[[dict[str, Any]], Any]] = (),
) -> Path:
    """`run`, for a folder that is found already."""
    folder.check()
    experiment = folder.experiment
    if folder.finished:
        _log.info("%s: found finished", folder.path)
        return folder.path
    loop = build(experiment)
    with folder.opened(loop), listeners(callbacks) as tell, one_thread():
        while loop.round < experiment.rounds:
            last = loop.round + 1 == experiment.rounds
            record = round_record(loop.step(evaluate=True if last else None))
            folder.append(record, loop)
            if progress is not None:
                progress(loop.round, experiment.rounds)
            if not tell(record) and not last:
                return folder.path
        folder.finish(loop.federation, loop.client_scores(), plots, loop.model.state_dict())
    return folder.path
