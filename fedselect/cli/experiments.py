"""Commands about experiments: run, compare, export-flower, config keys, config init (and init)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedselect.cli.common import (
    Format,
    Load,
    Overrides,
    check_no_link,
    check_writable,
    key_values,
    plain_rows,
    say,
    seed_list,
    text,
    writing,
)
from fedselect.errors import ConfigError
from fedselect.terminal import print_table, progress_bar
from solvers.files import write_atomically
from solvers.options import did_you_mean
from solvers.solution import jsonable

if TYPE_CHECKING:
    from fedselect.experiments import Choice, Comparison, Experiment

Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Begin afresh, beside it, where a run of this configuration had other code, files or versions."
    ),
]

Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a run of this configuration that had other code or versions.")
]

Config = Annotated[Path, typer.Argument(help="TOML file; unknown keys are errors.")]

Loggers = Annotated[
    list[str],
    typer.Option(help="Write rounds to a tracker: tensorboard, wandb or mlflow, or NAME=WHERE. May be repeated."),
]

Sweeps = Annotated[
    list[str],
    typer.Option(help="Try several values: selector.alpha=0,0.5,1 or seed=0-4. Repeated: every combination."),
]

Device = Annotated[
    str | None, typer.Option(help="Where clients train: auto, cpu, cuda, cuda:1; the configuration's if left out.")
]


def _with_device(overrides: list[str], device: str | None) -> list[str]:
    return overrides if device is None else [*overrides, f"training.device={device}"]


def complete_selectors(incomplete: str) -> list[str]:
    """Complete the last name of selectors in a list with commas."""
    from fedselect.selectors import SELECTORS

    done, comma, last = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in SELECTORS.names if name.startswith(last)]


def run(
    config: Config,
    set: Overrides = [],  # noqa: B006  (typer copies defaults)
    seed: Annotated[int | None, typer.Option(help="Replace the seed of the configuration.")] = None,
    device: Device = None,
    load: Load = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="Directory of the run folders.")] = Path("runs"),
    fresh: Fresh = False,
    strict: Strict = False,
    logger: Loggers = [],  # noqa: B006
    sweep: Sweeps = [],  # noqa: B006
    without_training: Annotated[
        bool,
        typer.Option(
            "--without-training",
            help="Select alone: the same clients are there and come back, nothing trains, no folder is written.",
        ),
    ] = False,
    format: Format = "text",
) -> None:
    """Run one experiment into a run folder; a run that was stopped continues. With --sweep, one run a combination."""
    from fedselect.experiments import read_config, read_records, read_summary
    from fedselect.experiments.folder import RunFolder
    from fedselect.experiments.running import run_into
    from fedselect.measures import proof_cost

    experiment, _ = read_config(config, _with_device(set, device), load)
    if seed is not None:
        experiment = replace(experiment, seed=seed)
    if without_training:
        given = {"--sweep": sweep, "--logger": logger, "--fresh": fresh, "--strict": strict}
        if refused := [name for name, value in given.items() if value]:
            raise ConfigError(f"{refused[0]} is about run folders, and --without-training writes none; leave one out")
        _select_alone(experiment, format)
        return
    if sweep:
        _run_sweep(experiment, _axes(sweep), seed, out, (fresh, strict), logger, format)
        return
    folder = RunFolder.of(experiment, out, fresh, strict)
    found = folder.finished
    callbacks = _loggers(logger)
    with progress_bar("rounds", experiment.rounds) as advance:
        run_into(folder, advance, callbacks=callbacks(folder.path, experiment, several=False) if callbacks else ())
    if folder.resumed:
        say(f"continued a run that was stopped, from round {folder.resumed + 1}")
    results = read_summary(folder.path)
    if format == "json":
        print(json.dumps({"folder": str(folder.path), "found_finished": found, **results}, indent=1))
        return
    if found:
        print("found finished; nothing was run")
    print_table(("measure", "value"), [(key.replace("_", " "), text(value)) for key, value in results.items()])
    records = read_records(folder.path)
    if line := proof_cost(records, experiment.selector.options):
        say(line)
    _say_what_gave_way({experiment.selector.name: records})
    say(f"run folder: {folder.path}")


#: Rounds of which `_select_alone` prints a line each.
_SHOWN = 20


def _select_alone(experiment: Experiment, format: str) -> None:
    """Play the rounds of an experiment without training; print participation, and what was selected."""
    from fedselect.experiments import build_scenario, build_selector
    from fedselect.measures import RunData, summary
    from fedselect.rounds import play
    from fedselect.rounds.engine import round_record

    scenario = build_scenario(experiment)
    selector = build_selector(experiment.selector, scenario)
    records = []
    with progress_bar("rounds", experiment.rounds) as advance:
        for done in play(selector, scenario, experiment.rounds):
            records.append(round_record(done))
            advance(len(records), experiment.rounds)
    if not records:
        raise ConfigError("the selector ended the run before its first round")
    run = RunData(records, scenario.sizes / scenario.sizes.sum())
    results = {name: value for name, value in summary(run).items() if value is not None}
    if format == "json":
        counts = run.history.counts.tolist()
        print(json.dumps({**results, "counts": counts, "selections": records}, indent=1))
        return
    print_table(("measure", "value"), [(key.replace("_", " "), text(value)) for key, value in results.items()])
    rows = [
        (str(each["round"]), str(len(each["available"])), " ".join(map(str, each["selected"])))
        for each in records[:_SHOWN]
    ]
    print_table(("round", "available", "selected"), rows)
    rest = f"; --format json has all {len(records)} rounds" if len(records) > _SHOWN else ""
    say(f"nothing was trained, and no folder written{rest}")


def compare(
    config: Config,
    selectors: Annotated[
        str | None,
        typer.Option(
            help="Labels of [compare.LABEL] tables or names of selectors, with commas; all tables if left out.",
            autocompletion=complete_selectors,
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds: '0-2', '0,3,7'; 0-2 if left out.")] = None,
    set: Overrides = [],  # noqa: B006
    sweep: Sweeps = [],  # noqa: B006
    device: Device = None,
    load: Load = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="Directory of the run folders.")] = Path("runs"),
    report: Annotated[Path | None, typer.Option(help="Report folder; OUT/NAME/report if left out.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side; -1 for as many as there are processors.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="What carries --jobs 2 or more: 'ray', or one of joblib's.")
    ] = None,
    fresh: Fresh = False,
    strict: Strict = False,
    logger: Loggers = [],  # noqa: B006
    format: Format = "text",
) -> None:
    """Run several selectors under the same seeds and write a report with tables and pictures.

    selector.key=value, set or swept, is for the selectors compared that have this option; compare.LABEL.key=value for
    one variant; a key of another section for all of them.
    """
    if backend is not None and jobs in (0, 1):
        raise ConfigError(f"--backend {backend} carries two jobs or more, and one runs here; give --jobs 2, say")
    from fedselect.experiments import carried_by, read_config
    from fedselect.experiments import sweep as sweep_over
    from fedselect.experiments.comparison import with_option
    from fedselect.reports import write_report

    axes = _axes(sweep)
    numbers = seed_list(_seeds(seeds, axes.pop("seed", None)))
    options = [each for each in set if each.strip().startswith("selector.") and not each.startswith("selector.name=")]
    experiment, tables = read_config(config, _with_device([each for each in set if each not in options], device), load)
    if selectors is None and not tables and axes:  # the configuration's own selector, with other values
        choices = {experiment.selector.name: experiment.selector}
    else:
        choices = _variants(selectors, tables)
    for option, value in key_values(options).items():
        choices = with_option(choices, option.removeprefix("selector."), value)
    variants = sweep_over(experiment, choices, axes)
    with carried_by(backend):
        comparison = _played(experiment, variants, numbers, out, jobs, (fresh, strict), logger)
    if report is None:
        report = out / experiment.name / "report"
        check_no_link(report)
    written = write_report(comparison, report)
    page = written.with_suffix(".html")
    if format == "json":
        print(json.dumps({"report": str(written), "page": str(page), **_facts(comparison)}, indent=1))
        return
    _print_results(comparison)
    say(f"report: {page}")


def _played(
    experiment: Experiment,
    variants: Mapping[str, Choice | Experiment],
    seeds: list[int],
    out: Path,
    jobs: int,
    found: tuple[bool, bool],
    logger: list[str],
) -> Comparison:
    """Play all runs, with a bar of their rounds; ``found`` are the options ``--fresh`` and ``--strict``."""
    from fedselect.experiments import Experiment, compare

    callbacks = _loggers(logger)
    rounds = [each.rounds if isinstance(each, Experiment) else experiment.rounds for each in variants.values()]
    with progress_bar("rounds", sum(rounds) * len(seeds)) as advance:
        return compare(
            experiment, variants, seeds, out, jobs, advance, fresh=found[0], strict=found[1], callbacks=callbacks
        )


def _loggers(texts: list[str]) -> Callable[..., Any] | None:
    """Return what opens the loggers of a run; raise before anything is written where one cannot be opened."""
    if not texts:
        return None
    from fedselect.integrations.loggers import check_loggers, open_loggers

    check_loggers(texts)
    return partial(open_loggers, texts)


def _run_sweep(
    experiment: Experiment,
    axes: dict[str, Any],
    seed: int | None,
    out: Path,
    found: tuple[bool, bool],
    logger: list[str],
    format: str,
) -> None:
    """Run every combination of values, and print a table of them."""
    from fedselect.experiments import sweep

    swept = axes.pop("seed", None)
    if seed is not None and swept is not None:
        raise ConfigError(f"--seed {seed} and --sweep seed={swept} both name the seeds; give one of them")
    seeds = [experiment.seed] if swept is None else seed_list(swept)
    variants = sweep(experiment, {experiment.selector.name: experiment.selector}, axes)
    comparison = _played(experiment, variants, seeds, out, 1, found, logger)
    folder = out / experiment.name
    if format == "json":
        print(json.dumps({"folder": str(folder), **_facts(comparison)}, indent=1))
        return
    _print_results(comparison)
    say(f"run folders: {folder}; fedselect report {folder} makes a page of them")


def _facts(comparison: Comparison) -> dict[str, Any]:
    """Return what JSON says of a comparison: what was chosen, how the chosen compare, and every run."""
    verdict = comparison.verdict()
    differences = comparison.differences()
    return {
        "found_finished": comparison.found_finished,
        "choice": plain_rows(comparison.choice()),
        "verdict": verdict and jsonable({**verdict._asdict(), "beyond_chance": verdict.beyond_chance}),
        "differences": plain_rows(differences),
        "runs": plain_rows(comparison.table()),
    }


def _print_results(comparison: Comparison) -> None:
    """Print the table of results, one line per variant."""
    from fedselect.experiments import Experiment
    from fedselect.measures import proof_cost
    from fedselect.reports import differences_table, less_needed, result_of, results_table, same_decisions

    if comparison.found_finished:
        runs = sum(map(len, comparison.folders.values()))
        say(f"found finished: {comparison.found_finished} of {runs} runs")
    if comparison.continued:
        say(f"continued runs that were stopped: {', '.join(comparison.continued)}")
    means = comparison.means()
    head, *rows = results_table(means).texts
    print_table(head, rows, less_needed(means))
    differences = comparison.differences()
    if len(differences):
        table = differences_table(differences)
        head, *rows = table.texts
        print_table(head, rows, ("count variance", "seeds"), table.caption)
    records = comparison.records()
    for line in (*same_decisions(records), result_of(comparison.table())):
        if line:
            say(line)
    for label, variant in comparison.variants.items():
        selector = variant.selector if isinstance(variant, Experiment) else variant
        if cost := proof_cost(records[label], selector.options):
            say(f"{label}: {cost}")
    _say_what_gave_way(records)


def _say_what_gave_way(records: Mapping[str, list[dict[str, Any]]]) -> None:
    """Say in how many rounds quotas or other constraints were not kept."""
    from fedselect.reports.constraints import gave_way_in

    if found := gave_way_in(records):
        say(f"rounds in which quotas or other constraints were not kept: {'; '.join(found)}")


def _axes(sweeps: list[str]) -> dict[str, Any]:
    """Return the swept values by key; those of ``seed`` as text."""
    from fedselect.experiments.comparison import sweep_values

    axes: dict[str, Any] = {}
    for each in sweeps:
        key = each.partition("=")[0].strip()
        if key in axes:
            raise ConfigError(f"{key} is swept twice: give all its values in one --sweep")
        axes[key] = each.partition("=")[2] if key == "seed" else sweep_values(each)[1]
    return axes


def _seeds(given: str | None, swept: str | None) -> str:
    if given is not None and swept is not None:
        raise ConfigError(f"--seeds {given} and --sweep seed={swept} both name the seeds; give one of them")
    return given or swept or "0-2"


def _variants(selectors: str | None, tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from fedselect.experiments import Choice
    from fedselect.selectors import SELECTORS

    if selectors is None:
        labels = list(tables)
        if not labels:
            raise ConfigError("nothing to compare: give --selectors, or [compare.LABEL] tables in the configuration")
    else:
        labels = [label.strip() for label in selectors.split(",") if label.strip()]
    variants = {}
    for label in labels:
        if label in tables:
            options = dict(tables[label])
            variants[label] = Choice(options.pop("name"), options)
        elif label in SELECTORS.names:
            variants[label] = Choice(label)
        else:
            known = ", ".join([*tables, *SELECTORS.names])
            hint = did_you_mean(label, [*tables, *SELECTORS.names])
            raise ConfigError(
                f"there is neither a [compare.{label}] table nor a selector {label!r}{hint} (known: {known})"
            )
    return variants


# -- configuration files and apps ------------------------------------------------------------------------------------

config_app = typer.Typer(help="Configuration files: their keys, and one to start from.", no_args_is_help=True)


@config_app.command("keys")
def config_keys(
    what: Annotated[str, typer.Argument(help="Only these: a section ('training') or part of a key ('rate').")] = "",
    format: Format = "text",
) -> None:
    """Show the keys of a configuration with meaning and default; 'fedselect list' has the options of parts."""
    from fedselect.experiments.config import configuration_keys, in_toml

    known = configuration_keys()
    found = [key for key in known if what.lower() in key.key]
    if not found:
        words = sorted({word for key in known for word in (key.key, *key.key.split("."))})
        raise ConfigError(f"there is no key {what!r}{did_you_mean(what, words)}")
    if format == "json":
        print(json.dumps([asdict(key) for key in found], indent=1))
        return
    rows = [(key.key, "left out" if key.default is None else in_toml(key.default), key.meaning) for key in found]
    print_table(("key", "default", "meaning"), rows)


@config_app.command("init")
def init(
    file: Annotated[Path, typer.Argument(help="The file to write; one that is there is not replaced.")] = Path(
        "experiment.toml"
    ),
    format: Format = "text",
) -> None:
    """Write a commented configuration that runs, with the meanings and defaults of its keys."""
    from fedselect.experiments.config import starting_file

    if file.suffix != ".toml":
        raise ConfigError(f"a configuration's name ends in .toml; got {file}")
    if file.exists():
        raise ConfigError(f"{file} is there already; name another file, or remove it")
    check_writable(file)
    with writing(file):
        write_atomically(file, starting_file(file.stem.lstrip(".") or "first").encode())
    if format == "json":
        print(json.dumps({"file": str(file)}))
    else:
        say(f"{file} is written; next: fedselect run {file}, or fedselect compare {file}")


def export_flower(
    config: Config,
    folder: Annotated[Path, typer.Argument(help="New or empty directory for the app.")],
    set: Overrides = [],  # noqa: B006  (typer copies defaults)
    load: Load = [],  # noqa: B006
) -> None:
    """Write an experiment as a Flower app: 'flwr run' starts it on a simulation or a real federation."""
    from fedselect.experiments import read_config
    from fedselect.integrations.flower import export_app

    experiment, _ = read_config(config, set, load, trusted=False)
    export_app(experiment, folder)
    clients = len(experiment.federation())
    print("The environment is this one: keep Flower from building another for every run, then start a simulation")
    print("  export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1")
    print(
        f"  flwr run {folder} local --stream --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
    )
    say(f"or a federation: {clients} SuperNodes with --node-config partition-id=0, ..., at the SuperLink NAME")
    say(f"  flwr run {folder} NAME --stream")
