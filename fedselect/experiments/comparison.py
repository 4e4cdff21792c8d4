"""Comparison of selectors under the same seeds, and sweeps over values of keys as its variants."""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedselect.errors import ConfigError, RunError
from fedselect.experiments.config import Choice, Experiment
from fedselect.experiments.folder import RunFolder
from fedselect.experiments.reading import read_records, read_summary
from fedselect.experiments.running import RunCallbacks, run_all
from fedselect.measures import known_run_measures, round_table, rounds_to, seconds_to
from fedselect.options import check_number, parsed
from fedselect.selectors import SELECTORS
from fedselect.statistics import half_width
from solvers.files import write_atomically
from solvers.options import did_you_mean
from solvers.reading import Unreadable, read_json

#: Format of ``comparison.json``, named in it.
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
        Run folders of each label, one per seed, in the order of ``seeds``.
    seeds : tuple of int
        Seeds of the runs.
    found_finished : int
        How many of the runs were there already.
    continued : tuple of str
        Names of the run folders of those that had been stopped.
    """

    experiment: Experiment
    variants: dict[str, Choice | Experiment]
    folders: dict[str, list[Path]]
    seeds: tuple[int, ...]
    found_finished: int = 0
    continued: tuple[str, ...] = ()

    def __repr__(self) -> str:
        runs = sum(map(len, self.folders.values()))
        return f"<comparison {self.experiment.name!r}: {', '.join(self.variants)}; {runs} runs, seeds {self.seeds}>"

    def _repr_html_(self) -> str:
        return self.means().to_html(index=False, border=0)

    def table(self) -> pd.DataFrame:
        """Return one row per run: its label, seed, summary and, where there are several, task (see `summary_table`)."""
        alike = self.experiment.tables()
        tables = {
            label: each.tables() if isinstance(each, Experiment) else alike for label, each in self.variants.items()
        }
        runs = (
            (label, seed, read_summary(folder))
            for label, folders in self.folders.items()
            for seed, folder in zip(self.seeds, folders, strict=True)
        )
        return summary_table(runs, tasks_of(tables))

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Return the records of each label's runs, one run after another."""
        return {
            label: [record for folder in folders for record in read_records(folder)]
            for label, folders in self.folders.items()
        }

    def rounds_to(self, target: float, column: str = "accuracy") -> pd.DataFrame:
        """Return one row per run: rounds until a target (`fedselect.measures.rounds_to`), NaN if never."""
        return self._until("rounds", rounds_to, target, column)

    def seconds_to(self, target: float, column: str = "accuracy") -> pd.DataFrame:
        """Return one row per run: seconds until a target (`fedselect.measures.seconds_to`), NaN if never."""
        return self._until("seconds", seconds_to, target, column)

    def _until(self, unit: str, measure: Callable[..., float | None], *target: Any) -> pd.DataFrame:
        rows = [
            {"selector": label, "seed": seed, unit: measure(round_table(read_records(folder)), *target)}
            for label, folders in self.folders.items()
            for seed, folder in zip(self.seeds, folders, strict=True)
        ]
        return pd.DataFrame(rows).astype({unit: float})

    def differences(self, reference: str | None = None) -> pd.DataFrame:
        """Return the paired differences of the measures from those of a label; see `difference_table`."""
        return difference_table(self.table(), reference)

    def choice(self) -> pd.DataFrame:
        """Return one row per selector: which of its swept values is best, and by which loss; see `choice_table`."""
        return choice_table(self.means())

    def verdict(self) -> Verdict | None:
        """Return which selector has the least test loss, each at its chosen value; see `verdict_of`."""
        return verdict_of(self.table())

    def means(self) -> pd.DataFrame:
        """Return one row per label: means over seeds (of maxima the largest), deviations of the model's measures."""
        return mean_table(self.table())


#: Sections that say what is learned, and of whom: runs that differ in them play other tasks, and nothing is chosen of
#: these.
_TASK = ("data", "availability", "dropout", "clock")


def tasks_of(configurations: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the task of each label, by what tells it from the others' data, availability, dropout or clock.

    Parameters
    ----------
    configurations : mapping of str to mapping
        The tables of a configuration by label.

    Returns
    -------
    dict of str to str
        Such as ``"concentration=0.1"``; empty where all have the same task.
    """
    flat = {
        label: {f"{part}.{key}": value for part in _TASK for key, value in (tables.get(part) or {}).items()}
        for label, tables in configurations.items()
    }
    keys = dict.fromkeys(itertools.chain.from_iterable(flat.values()))
    apart = [key for key in keys if len({_shown(each.get(key)) for each in flat.values()}) > 1]
    tasks = {
        label: ", ".join(f"{_word(key)}={_shown(each[key])}" for key in apart if key in each)
        for label, each in flat.items()
    }
    return tasks if apart else {}


def summary_table(
    runs: Iterable[tuple[str, int, Mapping[str, Any]]], tasks: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return one row per run, of labels, seeds, summaries and, where there are several, ``task`` (`tasks_of`)."""
    table = pd.DataFrame([{"selector": label, "seed": seed, **results} for label, seed, results in runs])
    # A measure that no run has (None in every summary) is a column of NaN, not one that means over seeds leave out.
    table = table.astype({column: float for column in table.columns if table[column].isna().all()})
    return table.assign(task=table["selector"].map(tasks)) if tasks else table


def by_task(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return each task and its rows without the column; the whole table, under an empty name, where there is one."""
    if "task" not in table:
        return [("", table)]
    return [(str(task), rows.drop(columns="task")) for task, rows in table.groupby("task", sort=False)]


def difference_table(table: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """Return the mean difference of each label from a reference over the seeds that both have, with 95 % intervals.

    What variants share under a seed (availability, batches and initial model, where these do not depend on what is
    swept or selected) is taken out of a difference.

    Parameters
    ----------
    table : DataFrame
        One row per run, from `summary_table`.
    reference : str, optional
        The label to subtract; the first of the table if left out, and of a sweep the first selector's chosen value
        (`choice_table`); then each of several tasks has its own, and differences are within a task.

    Returns
    -------
    DataFrame
        One row per other label: ``selector``, ``reference``, ``seeds``, and per measure ``NAME`` and
        ``NAME_half_width``, half of Student's interval; NaN below two seeds.

    Raises
    ------
    ConfigError
        When no label is the reference.
    """
    labels = list(dict.fromkeys(table["selector"]))
    if reference is None and "task" in table:
        return pd.concat([difference_table(rows) for _, rows in by_task(table)], ignore_index=True)
    if reference is None:
        reference = str(choice_table(mean_table(table))["variant"].iloc[0])
    if reference not in labels:
        raise ConfigError(f"there is no selector {reference!r}{did_you_mean(reference, labels)} in this comparison")
    of = {label: rows.set_index("seed") for label, rows in table.groupby("selector", sort=False)}
    rows = []
    for label in labels:
        if label == reference:
            continue
        common = of[label].index.intersection(of[reference].index)
        row: dict[str, Any] = {"selector": label, "reference": reference, "seeds": len(common)}
        for measure in (each.name for each in known_run_measures(table) if "differences" in each.tables):
            found = (of[label].loc[common, measure] - of[reference].loc[common, measure]).astype(float).dropna()
            row[measure] = found.mean() if len(found) else float("nan")
            row[f"{measure}_half_width"] = half_width(found) if len(found) > 1 else float("nan")
        rows.append(row)
    return pd.DataFrame(rows)


def mean_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per label, of a table with one row per run (see `Comparison.means`)."""
    grouped = table.drop(columns=["seed"]).groupby("selector", sort=False)
    means = grouped.mean(numeric_only=True)
    for each in known_run_measures(means):
        if each.over_seeds == "max":
            means[each.name] = grouped[each.name].max()
        if each.spread:
            means[f"{each.name}_std"] = grouped[each.name].std()
    if "task" in table:
        means["task"] = grouped["task"].first()
    return means.reset_index()


def swept_selectors(labels: Iterable[str]) -> dict[str, list[str]]:
    """Return the labels of each selector, of labels as `sweep` makes them: ``fedgs alpha=0.5`` is of ``fedgs``."""
    found: dict[str, list[str]] = {}
    for label in labels:
        found.setdefault(re.split(r" (?=[\w-]+=)", label)[0], []).append(label)
    return found


def choice_table(means: pd.DataFrame) -> pd.DataFrame:
    """Choose each selector's value: that of the least validation loss or, where some label has none, test loss.

    Parameters
    ----------
    means : DataFrame
        One row per label, from `mean_table`.

    Returns
    -------
    DataFrame
        One row per selector: ``selector``, ``variant`` (the chosen label), ``values`` (how many it was chosen of),
        ``chosen_on`` (``"validation_loss"``, ``"test_loss"``, or missing of one value and where neither loss is known
        of all labels), ``validation_loss`` and ``test_loss`` of the chosen one, NaN where unknown. Where there are
        several tasks (`tasks_of`), one row per selector and ``task``: what is chosen is chosen within it.
    """
    if "task" in means:
        each = [choice_table(rows).assign(task=task) for task, rows in by_task(means)]
        return pd.concat([one.astype({"chosen_on": object}) for one in each], ignore_index=True)
    rows = means.set_index("selector")
    unknown = pd.Series(math.nan, rows.index)
    losses = {name: rows.get(f"final_{column}", unknown) for name, column in _LOSSES.items()}
    measure = next((name for name, each in losses.items() if each.notna().all()), None)
    found = []
    for selector, labels in swept_selectors(rows.index).items():
        several = len(labels) > 1 and measure is not None
        variant = losses[measure][labels].idxmin() if several and measure else labels[0]
        chosen = {"selector": selector, "variant": variant, "values": len(labels)}
        chosen["chosen_on"] = measure if several else None
        found.append(chosen | {name: float(each[variant]) for name, each in losses.items()})
    return pd.DataFrame(found)


#: Losses that a value is chosen by, the first that all have, and what a summary calls them after ``final_``.
_LOSSES = {"validation_loss": "validation_loss", "test_loss": "loss"}


class Verdict(NamedTuple):
    """Which selector has the least test loss, each at its chosen value, and a paired difference to another.

    Attributes
    ----------
    best : str
        Label of the least mean test loss; of one selector alone, its chosen value's.
    test_loss : float
        That loss.
    minuend, reference : str
        Labels that are compared: the best and the first selector or, where the first is the best, the closest other.
    difference, half_width : float
        Mean of minuend minus reference under the same seeds, and half its 95 % interval; infinite with one seed.
    seeds : int
        Seeds that both have.
    """

    best: str
    test_loss: float
    minuend: str
    reference: str
    difference: float
    half_width: float
    seeds: int

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the interval leaves out 0; None with one seed, which says nothing of chance."""
        return abs(self.difference) > self.half_width if math.isfinite(self.half_width) else None

    def __str__(self) -> str:
        said = f"{self.minuend} minus {self.reference} under the same seeds: {self.difference:+.3f}"
        if self.beyond_chance is None:
            return f"{self.best}, {self.test_loss:.3f} ({said}; one seed says nothing of chance)"
        beyond = "beyond chance" if self.beyond_chance else "which may be chance"
        interval = f"95 % interval of {self.seeds} seeds"
        return f"{self.best}, {self.test_loss:.3f} ({said} ± {self.half_width:.3f}, {interval}, {beyond})"


def verdict_of(table: pd.DataFrame) -> Verdict | None:
    """Compare the selectors by test loss, each at its chosen value; of one selector alone, its values.

    Parameters
    ----------
    table : DataFrame
        One row per run, from `summary_table`.

    Returns
    -------
    Verdict or None
        None where fewer than two losses are known, or not the first selector's, and of several tasks: see `by_task`.
    """
    if "task" in table:
        return None
    means = mean_table(table)
    choice = choice_table(means)
    labels, reference = list(choice["variant"]), choice["variant"].iloc[0]
    losses = means.set_index("selector")["final_loss"]
    alone = len(labels) == 1
    losses = (losses if alone else losses[labels]).dropna()
    if len(losses) < 2 or reference not in losses:
        return None
    best = str(reference if alone else losses.idxmin())
    differences = difference_table(table, reference).set_index("selector")
    others = differences.loc[losses.index.drop(reference), "final_loss"]
    minuend = str(others.abs().idxmin() if best == reference else best)
    row = differences.loc[minuend]
    half = float(row["final_loss_half_width"])
    half = half if math.isfinite(half) else math.inf
    return Verdict(best, float(losses[best]), minuend, str(reference), float(others[minuend]), half, int(row["seeds"]))


class MedianTime(NamedTuple):
    """Median of times of which some may be censored, and an interval for it.

    Attributes
    ----------
    median, low, high : float
        Seconds; infinite where it was not reached before the run ended.
    coverage : float
        Least probability that the interval holds the median of all seeds, whatever the distribution.
    reached, runs : int
        Runs that reached the target, and all.
    """

    median: float
    low: float
    high: float
    coverage: float
    reached: int
    runs: int

    def __str__(self) -> str:
        def shown(value: float) -> str:
            return f"{value:.4g}" if math.isfinite(value) else "not reached"

        if self.runs < 2:
            return shown(self.median)
        return f"{shown(self.median)} [{shown(self.low)}, {shown(self.high)}], {self.reached} of {self.runs}"


def median_time(times: ArrayLike, level: float = 0.95) -> MedianTime:
    """Estimate the median of times to a target over seeds.

    The interval is between two order statistics, k-th from below and from above, so that it needs no distribution and
    holds with censored times: its coverage is 1 − 2 P(Bin(n, ½) < k). The largest k that covers ``level`` is taken.
    Where none does, as for 0.95 and fewer than 6 runs, the interval is the range, with the coverage that it has (0.9375
    for 5 runs).

    Parameters
    ----------
    times : (n,) array-like
        Seconds of each run; NaN or infinite where the target was not reached.
    level : float
        Coverage that is wanted.

    Raises
    ------
    ConfigError
        When there is no time, one is no number, or the level no probability.
    """
    check_number("level", level, 0, 1)
    try:
        values = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"times must be numbers of seconds: {error}") from None
    if values.ndim != 1 or not values.size:
        raise ConfigError(f"times must be one number of seconds for each run, and at least one; got {times!r:.80}")
    values = np.sort(np.where(np.isnan(values), math.inf, values))
    n, k = values.size, 1
    while k + 1 <= (n + 1) // 2 and _coverage(n, k + 1) >= level:
        k += 1
    middle = values[(n - 1) // 2], values[n // 2]
    median = math.inf if math.isinf(middle[1]) else float(np.mean(middle))
    reached = int(np.isfinite(values).sum())
    return MedianTime(median, float(values[k - 1]), float(values[n - k]), _coverage(n, k), reached, n)


def _coverage(n: int, k: int) -> float:
    return 1.0 - 2.0 * sum(math.comb(n, j) for j in range(k)) / 2.0**n


def time_table(
    runs: Mapping[str, Sequence[pd.DataFrame]], targets: Sequence[float], column: str = "accuracy"
) -> dict[str, list[MedianTime]]:
    """Compute the time to each target of each label's runs, whose round tables are given."""
    return {
        label: [median_time([_or_never(seconds_to(table, target, column)) for table in tables]) for target in targets]
        for label, tables in runs.items()
    }


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def compare(
    experiment: Experiment,
    variants: Mapping[str, Choice] | Mapping[str, Choice | Experiment] | Sequence[str | Choice],
    seeds: Sequence[int],
    out: str | Path = "runs",
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    *,
    fresh: bool = False,
    strict: bool = False,
    callbacks: RunCallbacks | None = None,
) -> Comparison:
    """Run selectors under the same seeds; finished runs are not repeated, interrupted ones continue.

    Beside the run folders stands ``comparison.json``, which names the selectors as they are labelled here.

    Parameters
    ----------
    experiment : Experiment
        Everything but selector and seed.
    variants : mapping of str to Choice or Experiment
        Selectors by label, or a sequence of them or their names, each once; or whole configurations of the same name,
        as `fedselect.experiments.sweep` makes them.
    seeds : sequence of int
        Seeds of the runs.
    out, jobs, progress, fresh, strict, callbacks
        As for `run_all`.

    Returns
    -------
    Comparison

    Raises
    ------
    ConfigError
        When there is nothing to compare, seeds repeat, or a configuration is not accepted (nothing is run then); or
        when one of the runs cannot be built.
    RunError
        When a folder holds a run that is refused (nothing is run then), cannot be written, or another process is at
        work in it. A run's other errors are those of `fedselect.experiments.run`.
    """
    if isinstance(seeds, int) or not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds are a sequence, as in range(3) or [0, 1, 2]; got {seeds!r}")
    if callbacks is not None and not callable(callbacks):
        raise ConfigError(
            "callbacks of a comparison are a function (folder, experiment) that returns those of one run: "
            f"lambda folder, experiment: [...]; got {callbacks!r:.80}"
        )
    if not isinstance(variants, Mapping):
        named = [(each if isinstance(each, str) else each.name, each) for each in variants]
        variants = dict(named)  # type: ignore[arg-type]
        if len(variants) < len(named):
            raise ConfigError(
                f"selectors without labels must have different names; got {', '.join(name for name, _ in named)}: give "
                "a mapping of labels"
            )
    variants = {label: Choice(each) if isinstance(each, str) else each for label, each in variants.items()}
    if not variants or not seeds:
        raise ConfigError("a comparison needs at least one selector and one seed")
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"the seeds of a comparison must differ; got {list(seeds)}")
    # Seeds outside, so that a comparison cut short has all selectors under the seeds it reached.
    grid = [(label, _configured(experiment, variant, seed)) for seed in seeds for label, variant in variants.items()]
    found = [RunFolder.of(each, out, fresh, strict) for _, each in grid]
    already = sum(folder.finished for folder in found)
    stopped = tuple(each.path.name for each in found if not each.finished and (each.path / "checkpoint.npz").exists())
    folders: dict[str, list[Path]] = {label: [] for label in variants}
    for (label, _), folder in zip(grid, found, strict=True):
        folders[label].append(folder.path)
    try:
        run_all([each for _, each in grid], out, jobs, progress, fresh=fresh, strict=strict, callbacks=callbacks)
    finally:
        if any(folder.path.exists() for folder in found):
            _write_manifest(Path(out) / experiment.name, folders, seeds)
    return Comparison(experiment, dict(variants), folders, tuple(seeds), already, stopped)


def _configured(experiment: Experiment, variant: Choice | Experiment, seed: int) -> Experiment:
    if isinstance(variant, Choice):
        return replace(experiment, seed=seed, selector=variant)
    if variant.name != experiment.name:
        raise ConfigError(f"a comparison's runs have one name; got {experiment.name!r} and {variant.name!r}")
    return replace(variant, seed=seed)


def _write_manifest(folder: Path, folders: Mapping[str, Sequence[Path]], seeds: Sequence[int]) -> None:
    """Write which runs were compared under which labels: a report of the folder needs no more."""
    runs = {label: [path.name for path in each] for label, each in folders.items()}
    manifest = {"format": FORMAT, "seeds": [int(seed) for seed in seeds], "runs": runs}
    write_atomically(folder / _MANIFEST, json.dumps(manifest, indent=1).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the ``comparison.json`` of a folder, empty where there is none.

    Raises
    ------
    RunError
        When it cannot be read, or does not say its format.
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


# -- sweeps ----------------------------------------------------------------------------------------------------------

#: Sections whose keys make another experiment; a key of ``selector`` or ``compare.LABEL`` makes another selector.
_SECTIONS = ("experiment", "data", "availability", "dropout", "clock", "training")

#: Only one of these may be set; a sweep over one takes the place of the other.
_INSTEAD = {"local_steps": "local_epochs", "local_epochs": "local_steps"}


def sweep(
    experiment: Experiment, variants: Mapping[str, Choice], axes: Mapping[str, Sequence[Any]]
) -> dict[str, Choice | Experiment]:
    """Combine variants with the values of the keys that concern them, for `compare`.

    Parameters
    ----------
    experiment : Experiment
        What the variants have in common.
    variants : mapping of str to Choice
        Selectors by label.
    axes : mapping of str to sequence
        Values by key: ``selector.alpha`` concerns every variant whose selector has the option ``alpha``,
        ``compare.LABEL.alpha`` the variant of that label, and ``training.decay`` (or any other section's key) all.

    Returns
    -------
    dict of str to Choice or Experiment
        By labels like ``fedgs alpha=0.5``. A variant that no axis concerns keeps its label.

    Raises
    ------
    ConfigError
        When a key concerns nothing, has no values or one twice, a value is not accepted, or one option is swept by two
        keys.
    """
    concerned = {key: _concerned(key, variants) for key in axes}
    for key, values in axes.items():
        named = [_shown(value) for value in values]
        if twice := [each for each in named if named.count(each) > 1]:
            raise ConfigError(f"the sweep over {key} has {twice[0]} twice")
        if not named:
            raise ConfigError(f"the sweep over {key} has no values")
    found: dict[str, Choice | Experiment] = {}
    for label, choice in variants.items():
        keys = [key for key in axes if label in concerned[key]]
        _once(label, keys)
        for values in itertools.product(*(axes[key] for key in keys)):
            given = dict(zip(keys, values, strict=True))
            name = " ".join([label, *(f"{_word(key)}={_shown(value)}" for key, value in given.items())])
            found[name] = _with_values(experiment, choice, given)
    return found


def with_option(variants: Mapping[str, Choice], option: str, value: Any) -> dict[str, Choice]:
    """Set an option of the selectors that have it; raises `ConfigError` where none has."""
    having = _concerned(f"selector.{option}", variants)
    return {
        label: Choice(choice.name, {**choice.options, option: value}) if label in having else choice
        for label, choice in variants.items()
    }


def sweep_values(text: str) -> tuple[str, list[Any]]:
    """Read key and values of a text like ``selector.alpha=0,0.5,1``; values are read as TOML, or as text."""
    key, equals, values = text.partition("=")
    if not (equals and key.strip() and values.strip()):
        raise ConfigError(f"a sweep reads section.key=value,value,... or seed=0-4; got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"values = [{values}]")["values"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):  # bare words
        return key.strip(), [parsed(value.strip()) for value in values.split(",")]


def _meant(option: str, accepted: Sequence[str]) -> str:
    """Return what was meant by an option that no selector has: the number of clients is of the experiment."""
    if option in ("size", "m", "k", "n_selected", "clients_per_round"):
        return "; sweep experiment.clients_per_round=..., the number of clients to select"
    return did_you_mean(option, accepted)


def _concerned(key: str, variants: Mapping[str, Choice]) -> list[str]:
    """Return the labels of the variants that a key concerns."""
    section, _, rest = key.partition(".")
    if section in _SECTIONS and rest:
        if key in ("experiment.name", "experiment.seed", "experiment.load"):
            raise ConfigError(f"{key} cannot be swept" + (": write seed=0-4" if rest == "seed" else ""))
        return list(variants)
    if section == "compare":
        label = rest.rpartition(".")[0]
        if label not in variants:
            known = ", ".join(variants)
            raise ConfigError(f"{key}: nothing compared is called {label!r} (compared: {known})")
        return [label]
    if section == "selector" and rest:
        options = {label: SELECTORS.options(choice.name) for label, choice in variants.items()}
        having = [label for label in variants if rest in options[label]]
        if not having:
            accepted = sorted(set(itertools.chain.from_iterable(options.values())))
            raise ConfigError(
                f"none of the selectors compared ({', '.join(variants)}) has an option {rest!r}"
                f"{_meant(rest, accepted)} (accepted: {', '.join(accepted) or 'none'})"
            )
        return having
    sections = ", ".join(f"{each}.key" for each in ("selector", "compare.LABEL", *_SECTIONS))
    raise ConfigError(f"there is no key {key!r} to be set; keys are seed, {sections}")


def _once(label: str, keys: Iterable[str]) -> None:
    """Refuse two axes for one option of one variant."""
    seen: dict[str, str] = {}
    for key in keys:
        section, _, rest = key.partition(".")
        what = f"selector.{rest.rpartition('.')[2]}" if section in ("selector", "compare") else key
        if what in seen:
            raise ConfigError(f"{label}: {seen[what]} and {key} sweep the same option")
        seen[what] = key


def _with_values(experiment: Experiment, choice: Choice, given: Mapping[str, Any]) -> Choice | Experiment:
    """Return the variant with these values: a selector where all are options of selectors."""
    tables = experiment.tables()
    options, changed = dict(choice.options), False
    for key, value in given.items():
        section, _, rest = key.partition(".")
        if section in ("selector", "compare"):
            options[rest.rpartition(".")[2]] = value
            continue
        changed = True
        tables[section].pop(_INSTEAD.get(rest, ""), None)
        if section != "training" and rest == "name":
            tables[section] = {}  # another builder has other options
        tables.setdefault(section, {})[rest] = value
    choice = Choice(choice.name, options)
    SELECTORS.check(choice.name, choice.options)
    return replace(Experiment.from_tables(tables), selector=choice) if changed else choice


def _word(key: str) -> str:
    """Return the word for a key in a label: its last part; for a choice by name, its section."""
    return key.removesuffix(".name").rpartition(".")[2]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
