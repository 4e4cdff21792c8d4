"""Reports of runs: of one, finished or not, and of a comparison of selectors."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedselect.data import PARTITIONS
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.comparison import (
    Comparison,
    by_task,
    choice_table,
    difference_table,
    mean_table,
    summary_table,
    tasks_of,
    time_table,
    verdict_of,
)
from fedselect.experiments.reading import RecordedRun
from fedselect.measures import Measure, RunData, known_run_measures, run_gaps, summary
from fedselect.reports.constraints import batteries_table, constraints_table, gave_way_in
from fedselect.reports.document import (
    Cell,
    Column,
    Report,
    Table,
    count,
    frame_table,
    number,
    percent,
    save,
    seconds,
    value_table,
    word,
)
from fedselect.reports.pictures import participation_pictures, pictures_of, sweep_pictures, timelines
from fedselect.rounds.history import History
from fedselect.selectors.fedgs import outweighed
from solvers.files import spreadsheet_csv, write_atomically
from solvers.options import did_you_mean, matches
from solvers.reading import read_text

_ROUNDS = (
    "Every round; a dash where nothing is known or was measured. Gaps are |bound − objective| over the mean "
    "|objective| of the run, as a round's own objective may be near zero (over 1 where the mean itself is at most "
    "1e-12)."
)


def run_report(run: RecordedRun, columns: Sequence[str] = ()) -> Report:
    """Make the report of a run: its results (these columns, or all), tables of rounds and clients, pictures."""
    head, label = run.config["experiment"], run.config["selector"].get("name", "?")
    summary_line = (
        f"{label} on {split_of(run.config['data'])}: {run.n_clients} clients, "
        f"{head['clients_per_round']} a round, {run.rounds} rounds, seed {run.seed}."
    )
    notes = [] if run.finished else [f"The run is not finished: {run.state} are played. All numbers are so far."]
    notes += [f"The run was continued: {change}." for change in run.origin.changes]
    notes += _outweighed([run])
    if not run.records:
        return Report(f"{head['name']}: {label}", summary_line, facts_of([run]), tuple(notes))
    # What the updates were worth is not known before the end: it needs the sizes, which the federation has.
    results = run.results or summary(RunData(run.records, np.full(run.n_clients, math.nan)))
    if columns:
        results = {name: results[name] for name in known_columns(columns, list(results))}
    stated = [table({label: run.records}) for table in (constraints_table, batteries_table)]
    tables = [
        value_table("results", "The run in a few numbers.", results),
        *filter(None, stated),
        frame_table("clients", "Every client.", _clients(run)),
        frame_table("rounds", _ROUNDS, run.table.assign(gap=run_gaps(run.table))),
    ]
    pictures, missing = pictures_of({label: [run]})
    missing = [*missing, *_gave_way({label: run.records}), *_idle({label: run.records})]
    pictures = (*participation_pictures(run.records, run.n_clients), *pictures, *timelines(run.records))
    return Report(
        f"{head['name']}: {label}", summary_line, facts_of([run]), (*notes, *missing), tuple(tables), pictures
    )


def split_of(data: Mapping[str, Any]) -> str:
    """Name a data set with its partition and the options of that, for the head line of a page."""
    name, partition = str(data.get("name", "?")), data.get("partition")
    if not isinstance(partition, str):
        return name
    known = PARTITIONS.options(partition) if partition in PARTITIONS.snapshot()[0] else {}
    options = "".join(f", {key} = {data[key]}" for key in known if key in data)
    return f"{name} ({partition}{options})"


def facts_of(runs: Iterable[RecordedRun], selectors: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[Any, ...]:
    """List configuration and versions of runs, as names and values.

    Parameters
    ----------
    runs : iterable of RecordedRun
        The first one's configuration is shown, and the versions of all.
    selectors : mapping, optional
        The selectors' tables by label, where there are several.

    Returns
    -------
    tuple of (str, str)
    """
    runs = list(runs)
    config = dict(runs[0].config)
    head = dict(config.pop("experiment"))
    if selectors is not None:
        del config["selector"]
        head.pop("seed", None)
    facts = [(key.replace("_", " "), str(value)) for key, value in head.items()]
    facts += [(section, choice_text(table)) for section, table in config.items()]
    if selectors is not None and "seed" in config.get("data", {}):
        facts.append(("split", "the same under every seed: that of the data is its own"))
    facts += [(f"selector {label}", choice_text(table)) for label, table in (selectors or {}).items()]
    versions: dict[str, list[str]] = {}
    for run in runs:
        for package, version in run.origin.versions.items():
            seen = versions.setdefault(package, [])
            if version not in seen:
                seen.append(version)
    facts += [(package, " and ".join(seen)) for package, seen in versions.items()]
    return tuple(facts)


def choice_text(table: Mapping[str, Any]) -> str:
    """Write a choice by name, with its options in brackets."""
    options = ", ".join(f"{key} = {value}" for key, value in table.items() if key != "name" and value != {})
    name = str(table.get("name", ""))
    return f"{name} ({options})" if name and options else name or options


def _clients(run: RecordedRun) -> pd.DataFrame:
    path = run.path / "clients.csv"
    if path.exists():
        try:
            return pd.read_csv(io.StringIO(read_text(path)))
        except (OSError, ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
            raise RunError(f"cannot read {path}: {error}") from error
    history = History.from_records(run.records, run.n_clients)
    return pd.DataFrame(
        {
            "client": np.arange(run.n_clients),
            "available": history.available,
            "selected": history.counts,
            "returned": history.returns,
        }
    )


# -- comparison of selectors -------------------------------------------------------------------------------------------

#: The runs of each label by seed; None for those that have not begun.
Runs = Mapping[str, Mapping[int, RecordedRun | None]]


def write_report(comparison: Comparison, folder: str | Path) -> Path:
    """Write the comparison as a folder: ``report.html``, ``report.md``, ``results.csv`` and pictures.

    Parameters
    ----------
    comparison : Comparison
        Finished runs.
    folder : path-like
        Where to write; made if missing.

    Returns
    -------
    pathlib.Path
        ``report.md``; ``report.html`` is beside it.
    """
    runs = {
        label: {seed: RecordedRun.read(path) for seed, path in zip(comparison.seeds, paths, strict=True)}
        for label, paths in comparison.folders.items()
    }
    _, path, *_ = save(selectors_report(comparison.experiment.name, runs), folder, ("html", "md"))
    write_atomically(path.parent / "results.csv", spreadsheet_csv(comparison.table()))
    return path


def selectors_report(name: str, runs: Runs, columns: Sequence[str] = ()) -> Report:
    """Make the report of a comparison.

    Parameters
    ----------
    name : str
        Its name.
    runs : mapping of str to mapping of int to RecordedRun or None
        The runs of each label by seed; None for one that has not begun.
    columns : sequence of str
        Measures that the table of results has, in this order. The tables of the course and of the clock are then left
        out, and the differences are those of these measures.

    Returns
    -------
    Report
        Numbers and pictures are over the seeds under which all selectors have finished; its notes say what is left out.

    Raises
    ------
    ConfigError
        When there is no measure of the name of a column; this is not looked at before a seed is finished.
    """
    finished = [{seed for seed, run in each.items() if run and run.finished} for each in runs.values()]
    seeds = sorted(set.intersection(*finished))
    compared = {label: [run for seed in seeds if (run := each[seed]) is not None] for label, each in runs.items()}
    begun = [run for each in runs.values() for run in each.values() if run is not None]
    notes = [*_left_out(runs, seeds), *_outweighed(begun)]
    tables = [_runs_table(runs)]
    pictures: tuple[Any, ...] = ()
    result = ""
    if seeds:
        every = summary_table(
            ((label, run.seed, run.results or {}) for label, each in compared.items() for run in each),
            tasks_of({label: each[0].config for label, each in compared.items()}),
        )
        means = mean_table(every)
        pictures, missing = pictures_of(compared)
        pictures = (*sweep_pictures(means), *pictures)
        records = {label: [record for run in each for record in run.records] for label, each in compared.items()}
        notes += [*_warnings(means), *same_decisions(records), *missing, *_gave_way(records), *_idle(records)]
        apart = difference_table(every)
        known_columns(columns, [each.name for each in known_run_measures(means)])
        differences = [differences_table(apart, columns)] if len(apart) else []
        differences = [table for table in differences if len(table.columns) > 2]
        clocked = [None if columns else _seconds_table(means), _time_table(compared)] if "seconds" in means else []
        stated = [constraints_table(records), batteries_table(records)]
        timed = [each for each in (*clocked, *stated) if each]
        tested = bool(begun[0].config["data"].get("client_test_fraction"))
        course = [] if columns else [_course_table(means, tested)]
        tables = [results_table(means, columns), *differences, *timed, *course, *tables]
        result = result_of(every)
    config = begun[0].config
    head = config["experiment"]
    return Report(
        name,
        f"{begun[0].n_clients} clients on {split_of(config['data'])}, {head['rounds']} rounds, "
        f"{head['clients_per_round']} clients a round, availability {config.get('availability', {}).get('name', '?')}, "
        f"seeds {', '.join(map(str, seeds)) or 'none yet'}.",
        facts_of(begun, {label: _selector(each) for label, each in runs.items()}),
        tuple(notes),
        tuple(tables),
        pictures,
        result,
    )


def _outweighed(runs: Iterable[RecordedRun]) -> list[str]:
    """Return what `fedselect.selectors.fedgs.outweighed` says of these runs, each sentence once."""
    said = []
    for run in runs:
        selector, head = run.config["selector"], run.config["experiment"]
        alpha, scale = selector.get("alpha"), selector.get("scale")
        if selector.get("name") == "fedgs" and isinstance(alpha, int | float) and scale in ("turns", "pairs", "paper"):
            said.append(outweighed(alpha, scale, run.n_clients, head["clients_per_round"], head["rounds"]))
    return [f"{sentence}." for sentence in dict.fromkeys(said) if sentence]


#: Sums of weights that differ by more than this factor are said above the tables.
_SUMS_APART = 1.2


def _gave_way(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Say where constraints were not kept: what is proved is the best of what was left."""
    found = gave_way_in(records)
    return [f"Rounds in which quotas or other constraints were not kept: {'; '.join(found)}."] if found else []


def _idle(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Say in how many rounds with a clock no client was selected: they take its idle seconds."""
    found = []
    for label, each in records.items():
        clocked = [record for record in each if "clock" in record]
        if idle := sum(not record["selected"] for record in clocked):
            found.append(f"{label}: {idle} of {len(clocked)}")
    said = "Rounds in which nobody was selected, whose idle seconds count in the run's length and rounds per hour"
    return [f"{said}: {'; '.join(found)}."] if found else []


def _warnings(means: pd.DataFrame) -> list[str]:
    """Return a sentence where the selectors' weights do not sum to about the same."""
    sums = means.set_index("selector")["weight_sum"].dropna()
    if sums.empty or not sums.max() > _SUMS_APART * sums.min():
        return []
    said = ", ".join(f"{label} {value:.2g}" for label, value in sums.items())
    return [
        f"The weights of a round do not sum to the same ({said}): a smaller sum is a shorter step, so that losses and "
        "accuracies compare steps as well as selections."
    ]


def same_decisions(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return a sentence for each group of labels whose runs selected the same clients, with equal weights, throughout.

    ``records`` are those of each label's runs, one after another under the same seeds.
    """
    groups: dict[str, list[str]] = {}
    for label, each in records.items():
        groups.setdefault(json.dumps([(one["selected"], one["weights"]) for one in each]), []).append(label)
    return [
        f"{', '.join(labels[:-1])} and {labels[-1]} made the same decisions: the same clients with the same weights in "
        "every round."
        for labels in groups.values()
        if len(labels) > 1
    ]


def result_of(table: pd.DataFrame) -> str:
    """Say which value of each swept selector is chosen, which selector did best, and whether that may be chance.

    Parameters
    ----------
    table : DataFrame
        One row per run, from `fedselect.experiments.comparison.summary_table`.

    Returns
    -------
    str
        Sentences; empty where there is nothing to compare: no losses, or those of one variant.
    """
    if "task" in table:
        of_each = [(task, result_of(rows)) for task, rows in by_task(table)]
        apart = "; ".join(task or "as stated" for task, _ in of_each)
        said = [f"Runs under {apart} have other tasks: nothing is chosen or compared across these."]
        return " ".join([*said, *(f"{task or 'As stated'}: {result}" for task, result in of_each if result)])
    choice, verdict = choice_table(mean_table(table)), verdict_of(table)
    said = [_chosen(choice)]
    if verdict is not None and len(choice) > 1:
        of = " of these" if (choice["values"] > 1).any() else ""
        said.append(f"Least test loss{of}: {verdict}.")
    elif verdict is not None:
        said.append(f"Its test loss beside the closest other value: {verdict}.")
    return " ".join(filter(None, said))


def _chosen(choice: pd.DataFrame) -> str:
    """Say what is chosen of each selector's values or, where none has several, of the selectors on validation."""
    swept = choice[choice["values"] > 1]
    if swept.empty:
        if len(choice) < 2 or choice["validation_loss"].isna().any():
            return ""
        row = choice.loc[choice["validation_loss"].idxmin()]
        return (
            f"Chosen on validation: {row['variant']} ({row['validation_loss']:.3f}); "
            f"its test loss: {row['test_loss']:.3f}."
        )
    measure = swept["chosen_on"].iloc[0]
    if pd.isna(measure):
        return ""
    held_out = measure == "validation_loss"
    said = [
        f"{row['variant']} of {row['values']} values ("
        + (
            f"{row['validation_loss']:.3f}; its test loss: {row['test_loss']:.3f})"
            if held_out
            else f"{row[measure]:.3f})"
        )
        for row in swept.to_dict("records")
    ]
    fixed = [f"{row['variant']} has one" for row in choice[choice["values"] == 1].to_dict("records")]
    listed = f"{', '.join((*said, *fixed))}."
    if held_out:
        return f"Chosen on validation: {listed}"
    return (
        f"Chosen by the test loss itself: {listed} The least of several is too good: data.validation_fraction = 0.2 "
        "gives a validation loss to choose by."
    )


def read_runs(folder: Path, manifest: Mapping[str, Any]) -> dict[str, dict[int, RecordedRun | None]]:
    """Read the runs in a folder by label and seed.

    Parameters
    ----------
    folder : pathlib.Path
        Holds run folders.
    manifest : mapping
        Its ``comparison.json``, which says what was compared and how it is called; without it (empty), the runs are
        told apart by their configurations and named after what differs.

    Returns
    -------
    dict of str to dict of int to RecordedRun or None
        None for a run that the manifest names and that has not begun.

    Raises
    ------
    RunError
        When the manifest is not one, or a file of a run cannot be read.
    """
    if manifest:
        seeds, runs = manifest.get("seeds", []), manifest.get("runs")
        if (
            not matches(seeds, list[int])
            or not isinstance(runs, dict)
            or not all(matches(names, list[str]) and len(names) == len(seeds) for names in runs.values())
        ):
            raise RunError(f"the comparison.json of {folder} does not give a run for every label and seed")
        for name in (name for names in runs.values() for name in names):
            if (folder / name).resolve().parent != folder.resolve():
                raise RunError(f"the comparison.json of {folder} names {name!r}, which is no folder inside")
        pairs = {label: list(zip(seeds, names, strict=True)) for label, names in runs.items()}
        return {label: {seed: _begun(folder / name) for seed, name in each} for label, each in pairs.items()}
    groups: dict[str, list[RecordedRun]] = {}
    for path in sorted(folder.iterdir()):
        if RecordedRun.here(path):
            run = RecordedRun.read(path)
            groups.setdefault(json.dumps(_flat(run.config), sort_keys=True, default=str), []).append(run)
    labels = _labels([_flat(each[0].config) for each in groups.values()])
    return {
        label: {run.seed: run for run in sorted(each, key=lambda run: run.seed)}
        for label, each in sorted(zip(labels, groups.values(), strict=True), key=lambda pair: pair[0])
    }


def _measures(known: Iterable[str], table: str) -> list[Measure]:
    """Return the measures that are columns of a table."""
    return [each for each in known_run_measures(known) if table in each.tables]


def _cell(measure: Measure, row: Mapping[str, Any]) -> Cell:
    """Write a measure of a run or of a selector."""
    value = row.get(measure.name)
    if measure.form == "s":
        return seconds(value)
    if measure.form.endswith(" %"):
        return percent(value, measure.form.removesuffix(" %"))
    return number(value, measure.form, row.get(f"{measure.name}_std"))


def known_columns(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return names of columns, without repetitions; raise `ConfigError` for one that is not among those known."""
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"there is no column {unknown[0]!r}{did_you_mean(unknown[0], known)} (columns: {', '.join(known)})"
        )
    return list(dict.fromkeys(names))


def results_table(means: pd.DataFrame, columns: Sequence[str] = ()) -> Table:
    """Tabulate the results of `fedselect.experiments.Comparison.means`, one row per selector: these columns, or all."""
    table = _selectors_table("results", "", means, columns)
    heads = {each.heading for each in table.columns}
    about = {each.name: each.title for each in known_run_measures(means)}
    spread = ", ± standard deviation" if any("±" in text for row in table.texts[1:] for text in row) else ""
    said = [f"Means over seeds{spread}."]
    if heads & {about.get("mean_gap"), about.get("max_gap")}:
        said.append("Gaps are relative to the mean |objective| of a run.")
    if about.get("least_count_variance") in heads:
        said.append(
            "No schedule of as many selections a round reaches less than the variance in hindsight, availability known."
        )
    return replace(table, caption=" ".join(said))


def less_needed(means: pd.DataFrame) -> list[str]:
    """Return the headings of `results_table` that a narrow terminal leaves out, in this order."""
    return [each.title for each in sorted(_measures(means, "results"), key=lambda each: each.drop) if each.drop]


def _selectors_table(key: str, caption: str, means: pd.DataFrame, columns: Sequence[str] = ()) -> Table:
    """Tabulate the measures that belong to a table, or those that are named, one row per selector."""
    named = {each.name: each for each in known_run_measures(means)} if columns else {}
    shown = [named[name] for name in dict.fromkeys(columns)] or _measures(means, key)
    rows = tuple((word(row["selector"]), *(_cell(each, row) for each in shown)) for row in means.to_dict("records"))
    return Table(key, caption, _columns(*(each.title for each in shown)), rows)


def differences_table(differences: pd.DataFrame, columns: Sequence[str] = ()) -> Table:
    """Tabulate paired differences from a reference, as of `fedselect.experiments.Comparison.differences`.

    Of ``columns`` those that differences are taken of; all that are where none are given.
    """
    shown = sorted(_measures(differences, "differences"), key=lambda each: each.drop)  # the most needed first
    shown = [each for each in shown if not columns or each.name in columns]
    rows = tuple(
        (
            word(f"{row['selector']} - {row['reference']}"),
            count(row["seeds"]),
            *(_difference(row[each.name], row[f"{each.name}_half_width"], each.form) for each in shown),
        )
        for row in differences.to_dict("records")
    )
    caption = (
        "Paired differences under the same seeds: mean ± half the 95 % interval (Student's t); * where the interval "
        "leaves out 0. What a seed changes for all selectors alike is in the spread of the table above, and not here. "
        "A seed does not change the split of the data, which has its own, data.seed."
    )
    heads = (Column("difference", numeric=False), Column("seeds"), *(Column(each.title) for each in shown))
    return Table("paired-differences", caption, heads, rows)


def _difference(value: float, half: float, form: str) -> Cell:
    """Return a difference with its interval, and a star where that leaves out 0."""
    form = form if form.startswith("{:") and form.endswith("}") else "{:.4g}"
    cell = number(value, form.replace("{:", "{:+"))
    if cell.value is None or not math.isfinite(half):
        return cell
    return Cell(f"{cell.text} ± {form.format(half)}{' *' if abs(value) > half else ''}", cell.value)


def _course_table(means: pd.DataFrame, tested: bool) -> Table:
    """Tabulate the course of the runs, one row per selector; worst absence of the seeds."""
    caption = (
        "Participation and learning over the whole run: means over seeds, the longest absence of any. Measures of the "
        f"worst client are on its {'own test' if tested else 'training'} samples."
    )
    return _selectors_table("course", caption, means)


#: Targets of the table of times: shares of the best accuracy that any of the runs reached.
_TARGETS = (0.5, 0.8, 0.9, 0.95)


def _seconds_table(means: pd.DataFrame) -> Table:
    """Tabulate what the clock says of each selector."""
    caption = "The clock: means over seeds. Wasted is work of clients whose update was not used; stragglers were late."
    return _selectors_table("seconds", caption, means)


def _time_table(compared: Mapping[str, list[RecordedRun]]) -> Table | None:
    """Tabulate the time to shares of the best accuracy; None where there is no accuracy."""
    runs = {label: [run.table for run in each] for label, each in compared.items()}
    best = max((table["accuracy"].max() for each in runs.values() for table in each), default=math.nan)
    if math.isnan(best):
        return None
    found = time_table(runs, [share * best for share in _TARGETS])
    covered = next(iter(found.values()))[0]
    interval = f" [interval of coverage {covered.coverage:.3g}], runs that reached it" if covered.runs > 1 else ""
    caption = (
        f"Seconds until a share of the best accuracy of all runs, {best:.3f}: median over seeds{interval}. A run that "
        "does not reach it counts as later than all that do."
    )
    columns = (
        Column("selector", numeric=False),
        *(Column(f"{share:.0%}: accuracy {share * best:.3f}", numeric=False) for share in _TARGETS),
    )
    rows = tuple((word(label), *(Cell(str(each)) for each in times)) for label, times in found.items())
    return Table("time-to-accuracy", caption, columns, rows)


def _runs_table(runs: Runs) -> Table:
    """Tabulate every run, finished or not."""
    every = [(label, seed, run) for label, each in runs.items() for seed, run in each.items()]
    shown = _measures({name for _, _, run in every for name in (run and run.results) or {}}, "runs")
    rows = tuple(
        (
            word(label),
            count(seed),
            Cell(run.state if run else "not begun"),
            *(_cell(each, (run and run.results) or {}) for each in shown),
        )
        for label, seed, run in every
    )
    heads = (Column("selector", numeric=False), Column("seed"), Column("state", numeric=False))
    caption = "Every run. Gaps are relative to the mean |objective| of a run."
    return Table("runs", caption, (*heads, *(Column(each.title) for each in shown)), rows, detail=True)


def _columns(*headings: str) -> tuple[Column, ...]:
    return (Column("selector", numeric=False), *map(Column, headings))


def _left_out(runs: Runs, seeds: list[int]) -> list[str]:
    """Return sentences about the runs that are in no number."""
    every = [(f"{label} under seed {seed}", seed, run) for label, each in runs.items() for seed, run in each.items()]
    unfinished = [
        f"{name} ({run.state if run else 'not begun'})" for name, _, run in every if not (run and run.finished)
    ]
    alone = [name for name, seed, run in every if run and run.finished and seed not in seeds]
    notes = []
    if unfinished:
        notes.append(f"Not finished: {', '.join(unfinished)}.")
    if alone:
        notes.append(f"Finished, but left out, as not every selector has finished under its seed: {', '.join(alone)}.")
    if not seeds:
        notes.append("No seed has finished runs of every selector, so there is nothing to compare yet.")
    return notes


def _begun(path: Path) -> RecordedRun | None:
    return RecordedRun.read(path) if RecordedRun.here(path) else None


def _selector(runs: Mapping[int, RecordedRun | None]) -> Mapping[str, Any]:
    return next((run.config["selector"] for run in runs.values() if run), {"name": "(not begun)"})


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a configuration to ``section.key: value``, less keys that do not tell a comparison's runs apart."""
    flat = {f"{section}.{key}": value for section, table in config.items() for key, value in table.items()}
    for key in ("name", "seed", "checkpoint_every"):
        flat.pop(f"experiment.{key}", None)
    return flat


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """Name configurations by their selectors, with the differing options in brackets."""
    labels = []
    for config in configs:
        name = config.get("selector.name")
        peers = [other for other in configs if other.get("selector.name") == name]
        differing = {
            key
            for key in set().union(*configs)
            for others in [peers if key.startswith("selector.") else configs]
            if any(other.get(key) != config.get(key) for other in others)
        }
        options = [f"{key.removeprefix('selector.')} = {config[key]}" for key in sorted(differing) if key in config]
        labels.append(f"{name} ({', '.join(options)})" if options else str(name))
    return labels
