"""The command line: ``fedselect run``, ``fedselect compare``, ``fedselect list``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fedselect.errors import ConfigError, FedselectError
from solvers import SolversError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Client selection in federated learning as explicit optimisation problems.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path, typer.Argument(help="TOML file; unknown keys are errors.")]
Overrides = Annotated[
    list[str], typer.Option("--set", "-c", help="Replace one value: section.key=value. May be repeated.")
]
Format = Annotated[str, typer.Option("--format", help="'text' or 'json'.")]


@app.command()
def run(
    config: Config,
    set: Overrides = [],  # noqa: B006  (typer copies defaults)
    seed: Annotated[int | None, typer.Option(help="Replace the seed of the configuration.")] = None,
    out: Annotated[Path, typer.Option(help="Directory of the run folders.")] = Path("runs"),
    format: Format = "text",
) -> None:
    """Run one experiment into a run folder; a run that was stopped continues."""
    from fedselect.experiments import read_config
    from fedselect.experiments import run as run_experiment

    _check_format(format)
    experiment, _ = read_config(config, set)
    if seed is not None:
        experiment = replace(experiment, seed=seed)
    with _progress("rounds", experiment.rounds) as advance:
        folder = run_experiment(experiment, out, advance)
    results = json.loads((folder / "summary.json").read_text())
    if format == "json":
        print(json.dumps({"folder": str(folder), **results}, indent=1))
        return
    _print_table(("measure", "value"), [(key.replace("_", " "), _text(value)) for key, value in results.items()])
    print(f"run folder: {folder}")


@app.command()
def compare(
    config: Config,
    selectors: Annotated[
        str | None,
        typer.Option(
            help="Labels of [compare.LABEL] tables or names of selectors, with commas; all tables if left out."
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds: '0-2', '0,3,7'.")] = "0-2",
    set: Overrides = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="Directory of the run folders.")] = Path("runs"),
    report: Annotated[Path | None, typer.Option(help="Report folder; OUT/NAME/report if left out.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 1,
    format: Format = "text",
) -> None:
    """Run several selectors under the same seeds and write a report with tables and pictures."""
    from fedselect.experiments import compare as compare_experiments
    from fedselect.experiments import read_config, write_report
    from fedselect.experiments.compare import results_rows

    _check_format(format)
    experiment, tables = read_config(config, set)
    variants = _variants(selectors, tables)
    numbers = _seeds(seeds)
    with _progress("rounds", experiment.rounds * len(variants) * len(numbers)) as advance:
        comparison = compare_experiments(experiment, variants, numbers, out, jobs, advance)
    written = write_report(comparison, report or out / experiment.name / "report")
    if format == "json":
        print(json.dumps({"report": str(written), "runs": comparison.table().to_dict("records")}, indent=1))
        return
    head, *rows = results_rows(comparison)
    _print_table(head, rows)
    print(f"report: {written}")


@app.command("list")
def list_(format: Format = "text") -> None:
    """Show what there is: selectors, availability and dropout models, data sets, partitions, models, solver methods."""
    from fedselect.availability import AVAILABILITY, DROPOUT
    from fedselect.data import DATASETS, PARTITIONS
    from fedselect.selectors import SELECTORS
    from fedselect.training.models import MODELS
    from solvers import methods
    from solvers.allocation import AllocationProblem
    from solvers.capping import CappingProblem
    from solvers.dispersion import DispersionProblem
    from solvers.participation import CutoffProblem
    from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

    _check_format(format)
    found: dict[str, list[dict[str, Any]]] = {}
    for registry in (SELECTORS, AVAILABILITY, DROPOUT, DATASETS, PARTITIONS, MODELS):
        found[registry.kind] = [
            {"name": name, "options": sorted(registry.options(name)), "summary": registry.summary(name)}
            for name in registry.names
        ]
    for problem in (
        DispersionProblem,
        ExclusionProblem,
        OptimizationErrorProblem,
        TotalErrorProblem,
        CappingProblem,
        AllocationProblem,
        CutoffProblem,
    ):
        found[f"method for a {problem.__name__}"] = [
            {
                "name": method.name,
                "options": sorted(method.options),
                "summary": f"{method.kind}: {method.summary}"
                + (f" (missing: pip install '{method.install}')" if method.missing else ""),
            }
            for method in methods(problem)
        ]
    if format == "json":
        print(json.dumps(found, indent=1))
        return
    rows = [
        (kind if place == 0 else "", entry["name"], ", ".join(entry["options"]), entry["summary"])
        for kind, entries in found.items()
        for place, entry in enumerate(entries)
    ]
    _print_table(("kind", "name", "options", ""), rows)


def main() -> None:
    """Run the command line; an error a person can mend is one sentence on stderr and exit code 2."""
    try:
        app()
    except (FedselectError, SolversError) as error:
        print(f"fedselect: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except SystemExit as end:
        if end.code == 130:  # typer has turned Ctrl-C into this
            print("fedselect: interrupted; what was finished is kept, and the same command continues", file=sys.stderr)
        raise


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
            raise ConfigError(f"there is neither a [compare.{label}] table nor a selector {label!r} (known: {known})")
    return variants


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ConfigError(f"seeds read like '0-4' or '0,3,7'; got {text!r}") from None
    if not seeds:
        raise ConfigError(f"no seed in {text!r}; seeds read like '0-4' or '0,3,7'")
    return seeds


def _check_format(format: str) -> None:
    if format not in ("text", "json"):
        raise ConfigError(f"--format must be 'text' or 'json'; got {format!r}")


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr where that is a terminal, silence elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    # In a pipe there is no width to fit into: lines are not to be broken there.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
