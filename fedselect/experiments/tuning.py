"""Training settings by grid search, on a run of their own: what papers mean by "tuned via grid search"."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedselect.errors import ConfigError
from fedselect.experiments.batch import run_all
from fedselect.experiments.config import Experiment

__all__ = ["tune"]


def tune(
    experiments: Mapping[str, Experiment],
    grid: Mapping[str, Sequence[float]],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Experiment]:
    r"""Give each experiment the training settings of a grid under which it comes closest to its objective's minimum.

    The criterion is the final model's training loss, averaged over all clients (``client_loss_mean``): the objective
    Σ α_k F_k itself where clients are equally important. No test sample is looked at. Of equal values the first in
    the grid's order wins; a run whose loss is not finite never does. Runs are those of `run_all`: finished ones are
    not repeated.

    Parameters
    ----------
    experiments : mapping of str to Experiment
        By label, with the seed to tune under. Report results under other seeds.
    grid : mapping of str to sequence of float
        Values to try, by field of `TrainingSettings`; all combinations are. A single one is taken without a run.
    out, jobs, progress
        As for `run_all`.

    Returns
    -------
    dict of str to Experiment
        The experiments with the best settings each.

    Raises
    ------
    ConfigError
        When there is nothing to try, or no run of an experiment has a finite loss.
    """
    if not all(len(values) for values in grid.values()):
        raise ConfigError("every setting to tune needs at least one value")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    candidates = {
        label: [dataclasses.replace(each, training=dataclasses.replace(each.training, **point)) for point in points]
        for label, each in experiments.items()
    }
    if len(points) == 1:
        return {label: tried[0] for label, tried in candidates.items()}
    finished = iter(run_all([each for tried in candidates.values() for each in tried], out, jobs, progress))
    best = {}
    for label, tried in candidates.items():
        losses = [_objective(next(finished)) for _ in tried]
        if not math.isfinite(min(losses)):
            raise ConfigError(f"{label}: no setting of the grid led to a finite loss; try smaller learning rates")
        best[label] = tried[losses.index(min(losses))]
    return best


def _objective(folder: Path) -> float:
    loss = json.loads((folder / "summary.json").read_text())["client_loss_mean"]
    return loss if math.isfinite(loss) else math.inf
