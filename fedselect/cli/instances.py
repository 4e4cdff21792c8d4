"""``fedselect instances``: the library of recorded problems, and more of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedselect.cli.common import (
    Ended,
    Format,
    Load,
    Overrides,
    key_values,
    say,
    seed_list,
    text,
    writing,
)
from fedselect.cli.problems import (
    Costs,
    Instance,
    Instances,
    Size,
    SizeGiven,
    Weight,
    complete_family,
    complete_instance,
    matched,
    problem_of,
)
from fedselect.errors import ConfigError
from fedselect.terminal import print_table
from solvers import Problem, instances, relative_gap
from solvers.instances import InstanceInfo, digest
from solvers.problem import parts

app = typer.Typer(
    help="Selection problems recorded from federations: list, show, export, record, fetch.", no_args_is_help=True
)


@app.command("list")
def list_(
    family: Annotated[str | None, typer.Option(help="Only this family.", autocompletion=complete_family)] = None,
    proved: Annotated[
        bool | None, typer.Option("--proved/--unproved", help="Only those whose best known value is (not) proved.")
    ] = None,
    at_least: Annotated[int, typer.Option(help="Only those of so many clients at least.")] = 0,
    at_most: Annotated[int | None, typer.Option(help="Only those of so many clients at most.")] = None,
    format: Format = "text",
) -> None:
    """Show the library: what each instance is, and what is known about it."""
    found = [
        known
        for known in map(instances.info, instances.names(family))
        if proved in (None, known.proved) and at_least <= known.n <= (known.n if at_most is None else at_most)
    ]
    if format == "json":
        print(json.dumps([asdict(known) for known in found], indent=1))
        return
    rows = [
        (known.name, known.type, str(known.n), text(known.best_known), _proof(known), f"{known.bytes / 1024:.1f}")
        for known in found
    ]
    print_table(("name", "problem", "n", "best known", "proof", "KiB"), rows, ("KiB", "problem"))
    done = sum(known.proved for known in found)
    say(f"{len(found)} instances, {done} proved, {sum(known.bytes for known in found) / 1024:.0f} KiB")


def _proof(known: InstanceInfo) -> str:
    if known.proved or known.best_known is None or known.bound is None:
        return "optimal" if known.proved else "-"
    return f"gap {100 * relative_gap(known.best_known, known.bound):.2g} %"


@app.command("show")
def show(instance: Instances, size: Size = None, format: Format = "text") -> None:
    """Show one instance: its problem, what is known about it, how it was recorded. Of several: a line each."""
    names = matched(instance)
    described = [_facts(name, size) for name in names]
    several = names != instance or len(names) > 1  # a pattern is a list, however few it matches
    if format == "json":
        print(json.dumps(described if several else described[0], indent=1))
        return
    if several:
        lines = [(facts["name"], facts["type"], str(facts["n"]), text(facts.get("best_known"))) for facts in described]
        print_table(("name", "problem", "n", "best known"), lines, ("problem",))
        return
    facts = described[0]
    best = np.atleast_1d(facts.pop("best", []))
    rows = [(key.replace("_", " "), text(value)) for key, value in facts.pop("data").items()]
    rows = [(key.replace("_", " "), text(value)) for key, value in facts.items()] + rows
    problem, _ = problem_of(names[0], size)
    if best.size and hasattr(problem, "selected"):
        rows.append(("best selection", " ".join(map(str, problem.selected(best)))))
    print_table(("", ""), rows)


def _facts(name: str, size: SizeGiven) -> dict[str, Any]:
    problem, known = problem_of(name, size)
    header, arrays = parts(problem)
    facts: dict[str, Any] = {"name": name, "family": problem.family, "type": header["type"], "sense": problem.sense}
    facts |= {"n": problem.n, "digest": digest(problem)} if known is None else asdict(known)
    facts |= {"data": header["scalars"] | {name: list(array.shape) for name, array in arrays.items()}}
    if known is not None:
        facts["best"] = instances.best(name).tolist()
    return facts


@app.command("submit")
def submit(
    file: Annotated[
        Path, typer.Argument(help="What 'fedselect solve NAME --out' or Solution.save wrote, or a certificate (.npz).")
    ],
    check: Annotated[bool, typer.Option("--check", help="Judge the file, as is done without it.", hidden=True)] = True,
    format: Format = "text",
) -> None:
    """Judge a better decision, bound or proof for an instance of the library.

    The decision is evaluated again, and the certificate checked. What is better enters the ledger by a change to the
    repository that includes the file.

    Exit codes: 0 better than what the ledger has; 2 no such file, one without a feasible decision or a certificate, or
    about no instance of the library; 3 refused; 4 sound, but no better.
    """
    name, verdict = instances.submit(file)
    if format == "json":
        print(json.dumps({"instance": name, **asdict(verdict)}))
    else:
        say(f"{name}: {'accepted' if verdict.accepted else 'REFUSED'}: {verdict.sentence}")
    if not verdict.improves:
        raise Ended(4 if verdict.accepted else 3)


@app.command("export")
def export(
    instance: Instance,
    file: Annotated[
        Path,
        typer.Argument(
            help=".npz, .lp, .mps, .qplib, .pb or .pbtxt (CP-SAT), .qubo, .txt (MDPLIB).", show_default=False
        ),
    ],
    size: Size = None,
    costs: Costs = None,
    weight: Weight = None,
    formulation: Annotated[
        str | None,
        typer.Option(help="A linear .lp or .mps: 'rlt', 'glover', or 'tangent' (a relaxation). Quadratic if left out."),
    ] = None,
    format: Format = "text",
) -> None:
    """Write one instance in a format of other tools; the file's ending says which.

    A problem of any family can be written as .npz; the other formats take a DispersionProblem or a
    PointDispersionProblem.
    HiGHS and CBC take no quadratic objective of binaries: give them a --formulation. A linear .mps minimises minus the
    objective.
    """
    from solvers.dispersion import PointDispersionProblem

    problem, _ = problem_of(instance, size, costs, weight)
    write: Callable[..., Any] = _writer(file, problem)
    if formulation is not None:
        if file.suffix not in (".lp", ".mps"):
            raise ConfigError(f"--formulation is for .lp and .mps files; got {file}")
        write = partial(write, formulation=formulation)
    if file.suffix != ".npz" and isinstance(problem, PointDispersionProblem):
        problem = problem.expanded()
    with writing(file):
        write(problem, file)
    size_written = file.stat().st_size
    if format == "json":
        print(json.dumps({"instance": instance, "file": str(file), "bytes": size_written}))
    else:
        linear = ", quadratic: HiGHS and CBC want --formulation glover or rlt"
        quadratic = linear if formulation is None and file.suffix in (".lp", ".mps") else ""
        say(f"{file}: {size_written / 1024:.1f} KiB{quadratic}")


def _writer(file: Path, problem: Problem) -> Callable[[Any, Path], Any]:
    from solvers import dispersion

    writers: dict[str, Callable[[Any, Path], Any]] = {
        ".npz": lambda problem, path: problem.save(path),
        ".lp": dispersion.write_lp,
        ".mps": dispersion.write_mps,
        ".pb": dispersion.write_cp_sat,
        ".pbtxt": dispersion.write_cp_sat,
        ".qplib": dispersion.write_qplib,
        ".qubo": dispersion.write_qubo,
        ".txt": dispersion.write_mdplib,
    }
    if file.suffix not in writers:
        raise ConfigError(f"the file must end in {', '.join(writers)}, which says its format; got {file}")
    written = (dispersion.DispersionProblem, dispersion.PointDispersionProblem)
    if file.suffix != ".npz" and not isinstance(problem, written):
        kind = type(problem).__name__
        raise ConfigError(f"{kind}s can be written as .npz alone; {file.suffix} takes a DispersionProblem")
    return writers[file.suffix]


@app.command("record")
def record(
    what: Annotated[
        str,
        typer.Argument(
            help="Name in the library, or the TOML file of an experiment.",
            autocompletion=complete_instance,
            show_default=False,
        ),
    ],
    rounds: Annotated[
        str | None, typer.Option(help="Rounds of an experiment to record, from 0: '10', '5,25' or '0-9'.")
    ] = None,
    set: Overrides = [],  # noqa: B006
    train: Annotated[
        bool, typer.Option("--train", help="Let clients train: for selectors that look at losses or updates.")
    ] = False,
    problem: Annotated[
        str, typer.Option(help="'selector', 'cutoff', 'optimization-error' or 'total-error'.")
    ] = "selector",
    option: Annotated[
        list[str], typer.Option(help="Option of a problem that is no selector's, as key=value. May be repeated.")
    ] = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="Folder for the .npz problem files.")] = Path("instances"),
    load: Load = [],  # noqa: B006
    format: Format = "text",
) -> None:
    """Record the selection problems of some rounds of an experiment, or an instance of the library once more.

    Exit code 4 says that an instance of the library came out with other bits than the shipped one's, as another machine
    or other versions of the libraries beneath may round differently.
    """
    written = []
    if what.endswith(".toml"):
        if rounds is None:
            raise ConfigError("say which rounds to record: --rounds 10, --rounds 5,25 or --rounds 0-9")
        from fedselect.experiments import read_config
        from fedselect.recording import record as record_rounds

        experiment, _ = read_config(what, set, load, trusted=False)
        numbers, options = seed_list(rounds, "round"), key_values(option)
        for t, found in record_rounds(experiment, numbers, train=train, problem=problem, options=options):
            written.append(_save(f"{experiment.name}-r{t}", found, out))
    else:
        from fedselect.plugins import load_plugins
        from fedselect.recording import recipe

        load_plugins(load)  # the data of one recipe are of examples/studies/letters.py
        for name, found in recipe(what).record(only=what):
            written.append(_save(name, found, out) | {"as_shipped": digest(found) == instances.info(name).digest})
    if format == "json":
        print(json.dumps(written, indent=1))
    else:
        for entry in written:
            bits = {None: "", True: ", to the library's bits", False: ", NOT to the library's bits"}
            say(f"{entry['file']}: {entry['type']}, {entry['n']} clients{bits[entry.get('as_shipped')]}")
    if any(entry.get("as_shipped") is False for entry in written):
        raise Ended(4)


def _save(name: str, problem: Problem, out: Path) -> dict[str, Any]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        path = problem.save(out / f"{name}.npz")
    except OSError as error:
        raise ConfigError(f"cannot write to {out}: {error.strerror or error}") from error
    facts = {"name": name, "file": str(path), "family": problem.family, "type": type(problem).__name__}
    return facts | {"n": problem.n, "digest": digest(problem)}


@app.command("fetch")
def fetch(
    where: Annotated[
        str, typer.Argument(help="URL or path of a .zip archive or .txt file, or a folder.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("mdplib"),
    best_known: Annotated[
        Path | None,
        typer.Option(help="CSV with columns name, m, best_known, source; best_known.csv beside the files if left out."),
    ] = None,
    format: Format = "text",
) -> None:
    """Bring instances of the maximum diversity library (MDPLIB) into a folder, after checking that each one parses.

    They have distances, without costs.
    """
    from fedselect.recording import fetch_mdplib

    fetched = fetch_mdplib(where, out, best_known)
    if format == "json":
        print(json.dumps([asdict(entry) | {"path": str(entry.path)} for entry in fetched], indent=1))
        return
    rows = [(str(e.path), str(e.n), str(e.size), text(e.best_known), e.source) for e in fetched]
    print_table(("file", "n", "m", "best known", "source"), rows, ("source",))
