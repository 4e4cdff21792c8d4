"""Training settings by grid search, on a run of their own: what papers mean by "tuned via grid search"."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from fedselect.errors import ConfigError
from fedselect.experiments.batch import run_all
from fedselect.experiments.config import Experiment
from fedselect.experiments.records import read_summary
from fedselect.training.settings import TrainingSettings

__all__ = ["tune"]

K = TypeVar("K", bound=Hashable)

#: Key of the summary, and its sign where smaller is better.
_CRITERIA = {"objective": ("client_loss_mean", 1.0), "mean accuracy": ("mean_accuracy", -1.0)}


def tune(
    experiments: Mapping[K, Experiment],
    grid: Mapping[str, Sequence[Any]],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    criterion: Literal["objective", "mean accuracy"] = "objective",
) -> dict[K, Experiment]:
    """Give each experiment the training settings that serve it best, of all combinations of a grid.

    Of equal values the first in the grid's order wins; a run whose value is not finite never does. Runs are those of
    `run_all`: finished ones are not repeated.

    Parameters
    ----------
    experiments : mapping of hashable to Experiment
        By label, with the seed to tune under. Report results under other seeds.
    grid : mapping of str to sequence
        Values to try, by field of `TrainingSettings`; all combinations are. A single one is taken without a run.
    out, jobs, progress
        As for `run_all`.
    criterion : {"objective", "mean accuracy"}
        ``"objective"``: the lowest training loss of the final model, averaged over all clients; that is Σ α_k F_k
        where clients are equally important, and no test sample is looked at. ``"mean accuracy"``: the highest test
        accuracy on average over the rounds, which rewards speed; tune on another draw of the data then.

    Returns
    -------
    dict of hashable to Experiment
        The experiments with the best settings each.

    Raises
    ------
    ConfigError
        When there is nothing to try, a field or criterion is unknown, or no run of an experiment has a finite value.
    """
    known = [each.name for each in dataclasses.fields(TrainingSettings)]
    if unknown := [name for name in grid if name not in known]:
        raise ConfigError(f"training: there is no {unknown[0]!r} to tune (accepted: {', '.join(known)})")
    if not all(len(values) for values in grid.values()):
        raise ConfigError("every setting to tune needs at least one value")
    if criterion not in _CRITERIA:
        raise ConfigError(f"criterion must be one of {', '.join(map(repr, _CRITERIA))}; got {criterion!r}")
    points: list[dict[str, Any]] = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    candidates = {
        label: [dataclasses.replace(each, training=dataclasses.replace(each.training, **point)) for point in points]
        for label, each in experiments.items()
    }
    if len(points) == 1:
        return {label: tried[0] for label, tried in candidates.items()}
    finished = iter(
        run_all([each for tried in candidates.values() for each in tried], out, jobs, progress, plots=False)
    )
    best = {}
    for label, tried in candidates.items():
        values = [_value(next(finished), *_CRITERIA[criterion]) for _ in tried]
        if not math.isfinite(min(values)):
            raise ConfigError(f"{label}: no setting of the grid led to a finite loss; try smaller learning rates")
        best[label] = tried[values.index(min(values))]
    return best


def _value(folder: Path, key: str, sign: float) -> float:
    """What a finished run is judged by; the smaller the better."""
    value = sign * read_summary(folder)[key]
    return value if math.isfinite(value) else math.inf
