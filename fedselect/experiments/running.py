"""One run, from its configuration to a finished folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedselect.experiments.building import build
from fedselect.experiments.config import Experiment
from fedselect.experiments.folder import RunFolder, run_folder
from fedselect.experiments.records import round_record
from fedselect.training.callbacks import Callback, listeners
from fedselect.training.threads import one_thread

__all__ = ["run"]


def run(
    experiment: Experiment,
    out: str | Path = "runs",
    progress: Callable[[int, int], None] | None = None,
    *,
    plots: bool = True,
    callbacks: Iterable[Callback | Callable[[dict[str, Any]], Any]] = (),
) -> Path:
    """Run an experiment into its folder, or continue it where it was stopped.

    The folder holds ``config.toml`` (resolved), ``versions.json``, ``rounds.jsonl`` (one line a round, written as it
    ends), ``checkpoint.npz`` and, once finished, ``metrics.csv``, ``clients.csv``, ``model.pt`` (the final model's
    ``state_dict``, for ``torch.load``), ``summary.json`` and ``plots/``. A finished run is not repeated.

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
        When the experiment cannot be built (nothing is written then), the folder holds another run, or another
        process is at work in it.
    """
    folder = RunFolder(run_folder(experiment, out), experiment)
    if folder.finished:
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
