"""Training settings by grid search, on runs of their own: what papers mean by "tuned via grid search"."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from fedselect.errors import ConfigError
from fedselect.experiments.config import Experiment
from fedselect.experiments.folder import read_summary
from fedselect.experiments.running import run_all
from fedselect.training.settings import TrainingSettings

__all__ = ["Trial", "tune"]

K = TypeVar("K", bound=Hashable)
Point = Mapping[str, Any]

#: Key of the summary, and its sign where smaller is better.
_CRITERIA = {"objective": ("client_loss_mean", 1.0), "mean accuracy": ("mean_accuracy", -1.0)}


@dataclasses.dataclass(frozen=True)
class Trial(Generic[K]):
    """Setting of a grid, and the values of its runs.

    Attributes
    ----------
    label : hashable
        Names the setting's purpose.
    settings : dict
        Fields of `TrainingSettings` that were tried.
    rounds : int
        How long the runs were.
    values : tuple of float
        The criterion of each run; infinite where a run's was not finite, or where updates failed.
    """

    label: K
    settings: Point
    rounds: int
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """Average the values over the runs; the smaller the better."""
        return float(np.mean(self.values))


def tune(
    experiments: Mapping[K, Sequence[Experiment]],
    grid: Mapping[str, Sequence[Any]],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    criterion: Literal["objective", "mean accuracy"] = "objective",
    screening: tuple[int, int] | None = None,
) -> tuple[dict[K, TrainingSettings], list[Trial[K]]]:
    """Find the training settings that serve each label best, of all combinations of a grid.

    Of equal values the first in the grid's order wins; a setting under which a run's value is not
    finite, or under which updates fail because they are not finite or too large, never does.
    Runs are those of `run_all`: finished ones are not repeated.

    Parameters
    ----------
    experiments : mapping of hashable to sequence of Experiment
        What a label's settings have to serve, equally long: one run, or several seeds or surroundings, whose values
        are averaged. Report results under other seeds.
    grid : mapping of str to sequence
        Values to try, by field of `TrainingSettings`; all combinations are. A single one is taken without a run.
    out, jobs, progress
        As for `run_all`.
    criterion : {"objective", "mean accuracy"}
        ``"objective"``: the lowest training loss of the final model, averaged over all clients; that is Σ α_k F_k
        where clients are equally important, and no test sample is looked at. ``"mean accuracy"``: the highest test
        accuracy on average over the rounds, which rewards speed; tune on another draw of the data then.
    screening : (int, int), optional
        Rounds, and how many settings of each label go on from there to the full length. Left out, all are run in full.
        A short horizon prefers large steps, so let several go on.

    Returns
    -------
    settings : dict of hashable to TrainingSettings
        The best of each label.
    trials : list of Trial
        Everything that was tried, those of the screening first.

    Raises
    ------
    ConfigError
        When there is nothing to try, a field or criterion is unknown, or no setting of a label has a finite value.
    """
    known = [each.name for each in dataclasses.fields(TrainingSettings)]
    if unknown := [name for name in grid if name not in known]:
        raise ConfigError(f"training: there is no {unknown[0]!r} to tune (accepted: {', '.join(known)})")
    if not all(len(values) for values in grid.values()):
        raise ConfigError("every setting to tune needs at least one value")
    if criterion not in _CRITERIA:
        raise ConfigError(f"criterion must be one of {', '.join(map(repr, _CRITERIA))}; got {criterion!r}")
    points: list[Point] = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    trials: list[Trial[K]] = []
    candidates = dict.fromkeys(experiments, points)
    if len(points) > 1:
        stages = [(None, 1)] if screening is None else [screening, (None, 1)]
        for rounds, kept in stages:
            planned = {label: [_shortened(each, rounds) for each in own] for label, own in experiments.items()}
            judged = _judge(planned, candidates, out, jobs, progress, criterion)
            trials += judged
            candidates = {label: _best(label, judged, kept) for label in experiments}
    found = {label: dataclasses.replace(own[0].training, **candidates[label][0]) for label, own in experiments.items()}
    return found, trials


def _shortened(experiment: Experiment, rounds: int | None) -> Experiment:
    return experiment if rounds is None else dataclasses.replace(experiment, rounds=rounds)


def _judge(
    experiments: Mapping[K, Sequence[Experiment]],
    candidates: Mapping[K, Sequence[Point]],
    out: str | Path,
    jobs: int,
    progress: Callable[[int, int], None] | None,
    criterion: str,
) -> list[Trial[K]]:
    """Run every candidate of every label, in the candidates' order."""
    cells = [(label, point) for label, points in candidates.items() for point in points]
    planned = [
        dataclasses.replace(each, training=dataclasses.replace(each.training, **point))
        for label, point in cells
        for each in experiments[label]
    ]
    values = (_value(folder, *_CRITERIA[criterion]) for folder in run_all(planned, out, jobs, progress, plots=False))
    return [
        Trial(label, point, experiments[label][0].rounds, tuple(itertools.islice(values, len(experiments[label]))))
        for label, point in cells
    ]


def _best(label: K, trials: Sequence[Trial[K]], kept: int) -> list[Point]:
    """A label's settings with the smallest values, best first."""
    ordered = sorted((each for each in trials if each.label == label), key=lambda each: each.value)
    if not math.isfinite(ordered[0].value):
        raise ConfigError(f"{label}: no setting of the grid led to a finite loss; try smaller learning rates")
    return [each.settings for each in ordered[:kept]]


def _value(folder: Path, key: str, sign: float) -> float:
    """Read the criterion of a finished run; the smaller the better."""
    summary = read_summary(folder)
    # Refused updates leave the model as it was: its loss says nothing about a setting under which they diverge.
    diverged = summary["failed"] > 0
    value = sign * summary[key]
    return value if math.isfinite(value) and not diverged else math.inf
