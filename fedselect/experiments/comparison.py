"""Several selectors under several seeds, side by side."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedselect.errors import ConfigError, RunError
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.folder import RunFolder, read_records, read_summary
from fedselect.experiments.metrics import round_table, rounds_to
from fedselect.experiments.running import RunCallbacks, run_all
from solvers.files import write_atomically
from solvers.reading import Unreadable, read_json

__all__ = ["FORMAT", "Comparison", "compare", "mean_table", "read_manifest", "summary_table"]

#: What ``comparison.json`` says of itself.
FORMAT = "selectors-comparison/1"
_MANIFEST = "comparison.json"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs of several selectors.

    Attributes
    ----------
    experiment : Experiment
        What the runs have in common.
    variants : dict of str to Choice or Experiment
        The selectors, or whole configurations, by label, in the order given.
    folders : dict of str to list of pathlib.Path
        Run folders of each label, one a seed, in the order of ``seeds``.
    seeds : tuple of int
        Seeds; under one seed every variant met the same availability.
    found_finished : int
        How many of the runs were there already.
    """

    experiment: Experiment
    variants: dict[str, Choice | Experiment]
    folders: dict[str, list[Path]]
    seeds: tuple[int, ...]
    found_finished: int = 0

    def __repr__(self) -> str:
        runs = sum(map(len, self.folders.values()))
        return f"<comparison {self.experiment.name!r}: {', '.join(self.variants)}; {runs} runs, seeds {self.seeds}>"

    def _repr_html_(self) -> str:
        return self.means().to_html(index=False, border=0)

    def table(self) -> pd.DataFrame:
        """One row a run: its label, seed and summary (see `fedselect.experiments.metrics.summary`)."""
        return summary_table(
            (label, seed, read_summary(folder))
            for label, folders in self.folders.items()
            for seed, folder in zip(self.seeds, folders, strict=True)
        )

    def rounds_to(self, target: float, column: str = "accuracy") -> pd.DataFrame:
        """One row a run: rounds until a target (see `fedselect.experiments.metrics.rounds_to`), NaN if never."""
        rows = [
            {"selector": label, "seed": seed, "rounds": rounds_to(round_table(read_records(folder)), target, column)}
            for label, folders in self.folders.items()
            for seed, folder in zip(self.seeds, folders, strict=True)
        ]
        return pd.DataFrame(rows).astype({"rounds": float})

    def means(self) -> pd.DataFrame:
        """One row a label: means over seeds (largest of the maxima), and standard deviations of loss and accuracy."""
        return mean_table(self.table())


def summary_table(runs: Iterable[tuple[str, int, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row a run, of labels, seeds and summaries (see `Comparison.table`)."""
    table = pd.DataFrame([{"selector": label, "seed": seed, **results} for label, seed, results in runs])
    # What no run has (None in every summary) is a column of NaN, not one that means over seeds leave out.
    return table.astype({column: float for column in table.columns if table[column].isna().all()})


def mean_table(table: pd.DataFrame) -> pd.DataFrame:
    """One row a label, of a table with one row a run (see `Comparison.means`)."""
    grouped = table.drop(columns=["seed"]).groupby("selector", sort=False)
    means = grouped.mean(numeric_only=True)
    for column in ("max_gap", "max_solve_seconds", "longest_absence"):
        means[column] = grouped[column].max()
    for column in ("final_loss", "final_accuracy"):
        means[f"{column}_std"] = grouped[column].std()
    return means.reset_index()


def compare(
    experiment: Experiment,
    variants: Mapping[str, Choice] | Mapping[str, Choice | Experiment],
    seeds: Sequence[int],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    *,
    fresh: bool = False,
    callbacks: RunCallbacks | None = None,
) -> Comparison:
    """Run every selector under every seed; finished runs are not repeated, interrupted ones continue.

    Beside the run folders stands ``comparison.json``, which says how the selectors are called here.

    Parameters
    ----------
    experiment : Experiment
        Everything but selector and seed.
    variants : mapping of str to Choice or Experiment
        Selectors by label; or whole configurations of the same name, as `fedselect.experiments.sweep` makes them.
    seeds : sequence of int
        Seeds of the runs.
    out : path-like
        Directory below which the run folders are made.
    jobs : int
        Runs side by side, each in a process of its own; -1 for as many as there are processors. The number changes
        nothing in the results (but a busy machine solves less within a time limit).
    progress : callable, optional
        Called about twice a second with (rounds done, rounds in all), from a thread of its own.
    fresh : bool
        As for `fedselect.experiments.run`.
    callbacks : callable, optional
        ``callbacks(path, experiment)`` gives the callbacks of one run, in the process that plays it.

    Returns
    -------
    Comparison

    Raises
    ------
    ConfigError
        When there is nothing to compare, or a configuration is not accepted; nothing is run then.
    RunError
        When a folder holds a run that was made of something else; nothing is run then.
    """
    if not variants or not seeds:
        raise ConfigError("a comparison needs at least one selector and one seed")
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"the seeds of a comparison must differ; got {list(seeds)}")
    # Seeds outside, so that a comparison cut short has all selectors under the seeds it reached.
    grid = [(label, _configured(experiment, variant, seed)) for seed in seeds for label, variant in variants.items()]
    found = [RunFolder.of(each, out, fresh) for _, each in grid]
    already = sum(folder.finished for folder in found)
    folders: dict[str, list[Path]] = {label: [] for label in variants}
    for (label, _), folder in zip(grid, found, strict=True):
        folders[label].append(folder.path)
    try:
        run_all([each for _, each in grid], out, jobs, progress, fresh=fresh, callbacks=callbacks)
    finally:
        if any(folder.path.exists() for folder in found):
            _write_manifest(Path(out) / experiment.name, folders, seeds)
    return Comparison(experiment, dict(variants), folders, tuple(seeds), already)


def _configured(experiment: Experiment, variant: Choice | Experiment, seed: int) -> Experiment:
    if isinstance(variant, Choice):
        return dataclasses.replace(experiment, seed=seed, selector=variant)
    if variant.name != experiment.name:
        raise ConfigError(f"a comparison's runs have one name; got {experiment.name!r} and {variant.name!r}")
    return dataclasses.replace(variant, seed=seed)


def _write_manifest(folder: Path, folders: Mapping[str, Sequence[Path]], seeds: Sequence[int]) -> None:
    """Write down which runs were compared and how they are called: a report of the folder needs no more."""
    runs = {label: [path.name for path in each] for label, each in folders.items()}
    manifest = {"format": FORMAT, "seeds": [int(seed) for seed in seeds], "runs": runs}
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The ``comparison.json`` of a folder, empty where there is none.

    Raises
    ------
    RunError
        When it cannot be read.
    """
    path = folder / _MANIFEST
    if not path.exists():
        return {}
    try:
        manifest = read_json(path)
    except (OSError, Unreadable) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), str):
        raise RunError(f"{path} does not say its format")
    return manifest
