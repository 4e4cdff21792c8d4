"""Command bench: compare solver methods on one family of problems."""

from __future__ import annotations

import importlib
import json
import math
import shlex
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from fedselect.cli.common import (
    Format,
    Gap,
    Load,
    Threads,
    key_values,
    plain_rows,
    say,
    seed_list,
    text,
    writing,
)
from fedselect.cli.problems import FILES, Size, SizeGiven, matched, problem_of
from fedselect.errors import ConfigError
from fedselect.plugins import load_plugins
from fedselect.signals import interrupt_again
from fedselect.terminal import print_table, progress_bar
from solvers import instances as library
from solvers import methods as registered
from solvers.files import spreadsheet_csv, write_atomically
from solvers.options import did_you_mean
from solvers.problem import FAMILIES, Problem, families

#: Meaning of the table's columns, printed below it.
_CAPTION = (
    "proved: by a certified bound; native: what the backend itself calls optimal, in its own tolerances. "
    "gap: |bound - objective| / |objective|; gap to best: |objective - best known| / |best known|. Medians."
)

#: Verdicts that say a method went wrong; "nondeterministic", "refused" and "missing" are findings, not failures.
_FAILURES = ("crashed", "hung", "error", "invalid")


def bench(
    family: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}; none with --suite.")] = None,
    instances: Annotated[
        str,
        typer.Option(
            help=f"With commas, patterns too: library names, {FILES}; of a suite, its names. The whole family, or "
            "suite, if left out."
        ),
    ] = "*",
    size: Size = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Names of methods, with commas; without these and variants auto, or those of the suite."),
    ] = None,
    variant: Annotated[
        list[str], typer.Option(help="A method with options: 'LABEL=NAME option=value ...'. May be repeated.")
    ] = [],  # noqa: B006  (typer copies defaults)
    seeds: Annotated[str, typer.Option(help="Seeds: '0-2', '0,3,7'.")] = "0",
    time_limit: Annotated[
        str, typer.Option(help="Seconds a solve, several with commas; 'none' for no limit. 10, or 1,10,60 for a suite.")
    ] = "",
    gap: Gap = None,
    threads: Threads = None,
    suite: Annotated[
        str | None,
        typer.Option(help="A fixed set of instances and methods: selection, constrained, diversity, tenth or convex."),
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Of a suite, the tier of the ledger: easy, benchmark, open.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For the suite diversity: folder with files of MDPLIB and TSPLIB, which then take part."),
    ] = None,
    publish: Annotated[Path | None, typer.Option(help="Folder for the suite's results and the page of them.")] = None,
    qoblib: Annotated[Path | None, typer.Option(help="CSV file for the rows as a submission to QOBLIB.")] = None,
    jobs: Annotated[int, typer.Option(help="Solves side by side; -1: one a core.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="What carries --jobs 2 or more: 'ray', or one of joblib's.")
    ] = None,
    load: Load = [],  # noqa: B006
    repeat: Annotated[bool, typer.Option(help="Solve finished rows twice, to see that the seed decides.")] = True,
    grace: Annotated[float, typer.Option(help="Seconds beyond its limit after which a method is ended.")] = 5.0,
    retry: Annotated[str, typer.Option(help="Verdicts of stored rows to solve again, with commas.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of the benchmark; the same command continues it.")] = Path("bench"),
    format: Format = "text",
) -> None:
    """Compare solver methods: methods x instances x seeds x time limits, with answers checked.

    Exit code 0: no row went wrong; 2: the command is not accepted; 3: the benchmark is finished, but some row crashed,
    hung, raised an error or is invalid, or all are refused or lack their method's package; 130: interrupted, the same
    command continues.
    """
    from fedselect.reports.suites import publish as publish_run
    from solvers.benchmark import run_benchmark
    from solvers.benchmark.suites import OURS

    load_plugins(load)
    limits = [_seconds(part) for part in _parts(time_limit or ("10" if suite is None else "1,10,60"))]
    compared, problems = _compared(family, suite, tier, data, methods, variant, instances, size)
    compared = _ending(compared, family, gap, threads)
    if publish is not None and suite is None:
        raise ConfigError("--publish is for the results of a --suite")
    if publish is not None and instances != "*":
        raise ConfigError("--publish is for the results of a whole suite: leave out --instances")
    if jobs == 0:
        raise ConfigError("--jobs must be a number of solves side by side, or -1 for one a core; got 0")
    with progress_bar("solves", 1) as advance, writing(out):

        def report(done: int, of: int) -> None:
            interrupt_again()
            advance(done, of)

        benchmark = run_benchmark(
            compared,
            problems,
            seed_list(seeds),
            limits,
            out,
            jobs=jobs,
            backend=backend,
            repeat=repeat,
            grace=grace,
            retry=_parts(retry),
            progress=report,
        )
    table = benchmark.table
    failures = table[table["verdict"].isin(_FAILURES)]
    _say_rows(table, out, format)
    if publish is not None and suite is not None:
        command = _command(suite, tier, limits, seeds, jobs, repeat)
        with writing(publish):
            say(f"page: {publish_run(publish, suite, benchmark, OURS, command)}")
    if qoblib is not None:
        _submit(qoblib, benchmark, problems)
    if len(failures) or table["verdict"].isin(("missing", "refused")).all():
        raise typer.Exit(3)


def _say_rows(table: Any, out: Path, format: str) -> None:
    """Print the rows as JSON, or a summary of them and what went wrong."""
    if format == "json":
        opened = table.assign(**{column: table[column].map(json.loads) for column in ("options", "versions")})
        print(json.dumps({"folder": str(out), "rows": plain_rows(opened)}, indent=1))
        return
    _print(table)
    for row in table[table["verdict"].isin((*_FAILURES, "refused"))].itertuples():
        say(f"{row.verdict}: {row.method} on {row.instance}, seed {row.seed}: {row.message}")
    for (method, message), rows in table[table["verdict"] == "missing"].groupby(["method", "message"], sort=False):
        say(f"missing: {method}, {len(rows)} rows: {message}")
    say(f"benchmark: {out}")


def _submit(file: Path, benchmark: Any, problems: dict[str, Any]) -> None:
    """Write the table for QOBLIB."""
    from solvers.benchmark.plan import resolve_instance
    from solvers.benchmark.qoblib import submission

    stated = {name: resolve_instance(source).problem for name, source in problems.items()}
    with writing(file):
        write_atomically(file, spreadsheet_csv(submission(benchmark, stated)))


def _compared(
    family: str | None,
    suite: str | None,
    tier: str | None,
    data: Path | None,
    methods: str | None,
    variant: list[str],
    instances: str,
    size: SizeGiven,
) -> tuple[Any, dict[str, Any]]:
    """Methods and instances: a suite's, or those that the command line names."""
    if suite is not None:
        from solvers.benchmark.suites import suite as suite_named

        if family is not None or size is not None:
            raise ConfigError("a suite has instances of its own: give neither a family nor --size with --suite")
        found = suite_named(suite, tier, data)
        chosen = _methods(methods, variant, found.methods) if methods is not None or variant else dict(found.methods)
        return chosen, _part_of(found, _parts(instances))
    if tier is not None or data is not None:
        raise ConfigError(f"{'--tier' if tier is not None else '--data'} is for a --suite")
    if family is None:
        raise ConfigError(
            "name the family first, as in 'fedselect bench dispersion --instances ...', or give --suite (families: "
            f"{', '.join(families())})"
        )
    if family not in families():
        hint = "; instances are given with --instances" if Path(family).exists() else did_you_mean(family, families())
        raise ConfigError(f"there is no family {family!r}{hint} (known: {', '.join(families())}); or give --suite")
    _say_missing(family, methods, variant)
    return _methods(methods, variant), _instances(family, instances, size)


def _part_of(suite: Any, patterns: list[str]) -> dict[str, Any]:
    """Instances of a suite that some pattern matches; each pattern must match one."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in suite.instances):
            hint = did_you_mean(pattern, list(suite.instances))
            raise ConfigError(f"the suite {suite.name!r} has no instance {pattern!r}{hint}")
    return {
        name: source
        for name, source in suite.instances.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _say_missing(family: str, methods: str | None, variants: list[str]) -> None:
    """Name the methods compared that a missing package keeps from running."""
    if family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    there = {each.name: each for kind in Problem.types() if kind.family == family for each in registered(kind)}
    for value in _methods(methods, variants).values():
        name = value if isinstance(value, str) else value[0]
        if name in there and there[name].missing:
            lacking = ", ".join(there[name].missing)
            print(
                f"fedselect: {name} needs {lacking}: pip install '{there[name].install}'; its rows are missing",
                file=sys.stderr,
            )


def _print(table: Any) -> None:
    """Print one line per method: how its rows ended, and medians of the main measures."""
    head = ("method", "rows", "ok", "proved", "native", "best", "gap to best", "gap", "seconds")
    rows = []
    for method, group in table.groupby("method", sort=False):
        sound = group[group["verdict"] == "ok"]
        said = sound["native_status"].dropna()
        native = str((said == "optimal").sum()) if len(said) else "-"
        proved, best = sound["time_to_proof"].notna().sum(), (sound["gap_to_best"] <= 1e-6).sum()
        medians = [sound[column].median() for column in ("gap_to_best", "gap", "seconds")]
        cells = [None if math.isnan(value) else float(value) for value in medians]
        rows.append((method, *map(str, (len(group), len(sound), proved, native, best)), *map(text, cells)))
    print_table(head, rows, ("rows", "best"), _CAPTION)


def _methods(names: str | None, variants: list[str], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Methods by label, the plain names first, auto where nothing is given; ``known`` says what labels stand for."""
    plain = _parts(names) if names is not None else [] if variants else ["auto"]
    labelled: dict[str, Any] = {name: (known or {}).get(name, name) for name in plain}
    for variant in variants:
        head, *options = shlex.split(variant)
        label, equals, name = head.partition("=")
        if not (label and equals and name):
            raise ConfigError(f"a variant reads like 'LABEL=NAME option=value'; got {variant!r}")
        if label in labelled:
            raise ConfigError(f"method label {label!r} is given twice")
        named = [each.function for kind in Problem.types() for each in registered(kind) if each.name == name]
        labelled[label] = (name, key_values(options, named))
    return labelled


def _ending(compared: Any, family: str | None, gap: float | None, threads: int | None) -> Any:
    """The methods with what ``--gap`` and ``--threads`` ask of those that have a bound, or an option for threads."""
    if gap is None and threads is None:
        return compared
    if family is None:
        raise ConfigError("a suite's protocol is fixed: give neither --gap nor --threads with --suite")
    if family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    known = [each for kind in Problem.types() if kind.family == family for each in registered(kind)]
    completed: dict[str, Any] = {}
    for label, value in compared.items():
        name, options = (value, {}) if isinstance(value, str) else value
        parallel = any(each.threads for each in known if each.name == name)
        if gap is not None and any(each.name == name and each.kind != "heuristic" for each in known):
            options = {"gap": gap} | options
        if threads is not None and parallel and "threads" not in options:
            options = {"threads": threads} | options
        completed[label] = (name, options)
    for option, given in (("gap", gap), ("threads", threads)):
        if given is not None and not any(option in options for _, options in completed.values()):
            has = "a bound" if option == "gap" else "an option for threads"
            raise ConfigError(f"--{option}: none of the methods compared ({', '.join(completed)}) has {has}")
    return completed


def _instances(family: str, names: str, size: SizeGiven) -> dict[str, Any]:
    """Problems of the family by name, from files and from the library."""
    known = library.names(family)
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source in known if names == "*" else matched(_parts(names), family):
        if source not in library.names() and not Path(source).is_file():
            hint = did_you_mean(source, known)
            raise ConfigError(f"there is neither a file nor a {family} instance {source!r}{hint}")
        problem, recorded = problem_of(source, size)
        if problem.family != family:
            raise ConfigError(f"{source} is a problem of family {problem.family!r}, not {family!r}")
        name = source if recorded is not None else Path(source).stem
        if name in found:
            raise ConfigError(f"two instances are called {name!r}: {sources[name]} and {source}")
        found[name], sources[name] = (source if recorded is not None else problem), source
    return found


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _seconds(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"a time limit is a number of seconds or 'none'; got {text!r}") from None


def _command(suite: str, tier: str | None, limits: list[float | None], seeds: str, jobs: int, repeat: bool) -> str:
    """The line that runs a suite again."""
    words = ["fedselect bench --suite", suite, *(["--tier", tier] if tier else []), "--time-limit"]
    words += [",".join("none" if limit is None else f"{limit:g}" for limit in limits)]
    words += [*(["--seeds", seeds] if seeds != "0" else []), "--jobs", str(jobs)]
    return " ".join([*words, *([] if repeat else ["--no-repeat"])])
