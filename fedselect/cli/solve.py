"""Commands about solving: solve, verify (certificates), warm-up (of compiled kernels)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from fedselect.cli.common import (
    Ended,
    Format,
    Gap,
    Load,
    Threads,
    check_writable,
    key_values,
    say,
    text,
    warn,
    writing,
)
from fedselect.cli.problems import Costs, Instances, Size, Weight, complete_method, matched, problem_of
from fedselect.errors import TOOLKIT_ERRORS, ConfigError
from fedselect.plugins import load_plugins
from fedselect.terminal import print_table, progress_bar
from solvers import (
    Contradiction,
    Problem,
    Solution,
    SolversError,
    TracePoint,
    conflict,
    instances,
    methods,
    relative_gap,
)
from solvers.certificates import Certificate, CertificateError, problem_digest
from solvers.files import write_atomically
from solvers.instances import InstanceInfo
from solvers.instances.ledger import Verdict, judged, of_digest
from solvers.instances.ledger import verify as verify_instance
from solvers.reading import Unreadable, read_matrix, read_text, without_controls
from solvers.run import Log
from solvers.search import PoolRequest
from solvers.solution import jsonable
from solvers.solving import plan

#: Arguments of `solvers.solve` that no ``--option`` may be.
_OWN = (
    "time_limit",
    "work_limit",
    "gap",
    "target",
    "threads",
    "seed",
    "bound_by",
    "certificate",
    "log",
    "method",
    "pool",
    "within",
    "diverse",
)


#: Seconds to say which constraints of a file contradict each other.
_CONFLICT_SECONDS = 5.0


def solve(
    instance: Instances,
    method: Annotated[
        str, typer.Option(help="A registered method; 'fedselect list' names them.", autocompletion=complete_method)
    ] = "auto",
    time_limit: Annotated[float | None, typer.Option(help="Seconds; no limit if left out.")] = None,
    work_limit: Annotated[
        float | None,
        typer.Option(
            help="Rows of the matrix that may be read: without a time limit, the same answer on every run of a machine."
        ),
    ] = None,
    gap: Gap = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="End as soon as a decision is as good as this value, or the bound excludes it, and say which."
        ),
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Seed of the method.")] = 0,
    option: Annotated[list[str], typer.Option(help="Option of the method, as key=value. May be repeated.")] = [],  # noqa: B006  (typer copies defaults)
    bound_by: Annotated[
        str | None,
        typer.Option(help="A second method whose bound stands beside the decision.", autocompletion=complete_method),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Write what proves the bound to this .npz, for 'fedselect verify'.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Print a line for every improvement, to stderr.")] = False,
    pool: Annotated[int | None, typer.Option(help="So many of the best selections; the output says if proved.")] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="Selections worse than the best by this share at most, 0.001 for .1 per cent: as many as --pool says, "
            "or 1000."
        ),
    ] = None,
    diverse: Annotated[
        int | None, typer.Option(help="Clients that each selection of the pool has beside every better one, at least.")
    ] = None,
    size: Size = None,
    costs: Costs = None,
    weight: Weight = None,
    start: Annotated[
        str | None,
        typer.Option(help="Begin with these clients, '3,17,20', or with a file: of a solution, or of such ids (.txt)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write the solution, with decision and trace: JSON, or .npz with the problem."
        ),
    ] = None,
    require_proof: Annotated[bool, typer.Option("--require-proof", help="Exit with 4 unless optimality is proved.")] = (
        False
    ),
    require_certificate: Annotated[
        float | None,
        typer.Option(help="Exit with 4 unless the certificate proves a gap of at most this: 0.01 for one per cent."),
    ] = None,
    load: Load = [],  # noqa: B006
    format: Format = "text",
) -> None:
    """Solve one instance with one method, and print the decision's value beside its bound; of several, a line each.

    A .qubo file is minimised; to maximise, negate its values.

    Exit codes: 0 a decision was found (with --require-proof: and proved optimal); 2 bad input; 3 the problem is proved
    infeasible; 4 not proved, and --require-proof was given, or --require-certificate and the certificate proves less;
    5 nothing was found; 130 interrupted, with what was found so far printed. With --target: 0 a decision is as good; 3
    proved that none is; 4 not decided. Of several instances, the largest of their codes: one that cannot be read is
    refused, and the others are solved.
    """
    if load:
        load_plugins(load)
    names = matched(instance)
    several = names != instance or len(names) > 1  # a pattern is a list, however few it matches
    options = key_values(option)
    if taken := sorted(set(options) & set(_OWN)):
        raise ConfigError(f"{taken[0]} is no option of a method: write --{taken[0].replace('_', '-')}")
    _check_single(names, several, {"--certificate": certificate, "--start": start, "--costs": costs})
    if several and out is not None and out.suffix == ".npz":
        json_file = out.with_suffix(".json").name
        raise ConfigError(f"{out.name} would hold one solution; of several instances write JSON: --out {json_file}")
    if require_certificate is not None and certificate is None:
        raise ConfigError("--require-certificate is about the file that --certificate FILE.npz writes")
    for path in filter(None, (out, certificate)):
        check_writable(path)
    given: dict[str, Any] = {"time_limit": time_limit, "gap": gap, "target": target, "threads": threads, "seed": seed}
    given |= {"work_limit": work_limit, "bound_by": bound_by, "certificate": certificate is not None}
    given["pool"] = PoolRequest.of(pool, within, diverse, None)
    if start is not None:
        given["start"] = _begun(start, names[0], problem_of(names[0], size, costs, weight)[0])
    records, whole, code = [], [], 0
    try:
        for name in names:
            try:
                problem, known = problem_of(name, size, costs, weight)
            except TOOLKIT_ERRORS as error:
                records.append(_refused_record(name, method, error, several))
                whole.append(records[-1])
                code = max(code, 2 if records[-1]["status"] == "refused" else 3)
                continue
            options = key_values(option, [each.function for each in methods(problem) if each.name == method])
            solution = _solved(problem, method, log, **given, **options)
            if out is not None and out.suffix == ".npz" and not several:
                with writing(out):
                    solution.save(out)
            found = _record(name, solution, known)
            whole.append(found | {"trace": [list(point) for point in solution.trace], "options": options})
            if certificate is not None:
                found = found | {"certificate": _kept(solution, certificate)}
            if format == "text" and weight is None and name.endswith((".npy", ".csv")):
                found = found | {"weight": f"{found['weight']:g} (the default for .npy and .csv; Python's is 1)"}
            records.append(found)
            code = max(code, _exit_code(solution, require_proof), _certificate_code(solution, require_certificate))
            if solution.stopped == "interrupted":
                break
    finally:  # an error takes nothing from the instances before it
        if records:
            _print_records(records, whole, several, out, format)
    if code:
        raise Ended(code)


def _check_single(names: list[str], several: bool, given: dict[str, Any]) -> None:
    """Refuse options about one instance where there are several, and files of costs among these."""
    vectors = [each for each in names if each.endswith(".npy") and Path(each).is_file() and _is_vector(Path(each))]
    if several and vectors:
        raise ConfigError(f"{vectors[0]} holds one number per client: costs are given with --costs {vectors[0]}")
    for option, value in given.items():
        if several and value is not None:
            raise ConfigError(f"{option} is about one instance; got {len(names)}")


def _is_vector(path: Path) -> bool:
    try:
        return read_matrix(path).ndim == 1
    except Unreadable:
        return False


def _begun(text: str, name: str, problem: Problem) -> Any:
    """Return the start that an option names: ids with commas, or a file of `Solution.save` or of ``--out``."""
    if Path(text).is_file():
        if not text.endswith(".txt"):
            return Solution.load(text, None if text.endswith(".npz") else problem)
        text = read_text(text)
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ConfigError(
            f"--start takes ids of clients with commas, or what 'fedselect solve {name} --out FILE' wrote; got {text!r}"
        ) from None


def _certificate_code(solution: Solution, most: float | None) -> int:
    """Return the exit code of a certificate that is to prove a gap of at most ``most``."""
    if most is None or solution.objective is None:
        return 0
    found = solution.certificate
    return 4 if found is None or relative_gap(solution.objective, found.bound) > most else 0


class _Lines(Log):
    """Log on stderr; its summary is the table on stdout."""

    def end(self, solution: Solution) -> None:
        """Write nothing more."""


def _solved(problem: Problem, method: str, log: bool, start: Any = None, **options: Any) -> Solution:
    planned = plan(problem, method, **options)
    with nullcontext(None) if log else _progress(method) as watch:
        said = _Lines(partial(print, file=sys.stderr, flush=True)) if log else None
        return planned.execute(problem, start=start, watch=watch, log=said)


def _print_records(
    records: list[dict[str, Any]], whole: list[dict[str, Any]], several: bool, out: Path | None, format: str
) -> None:
    """Write and print the records: of one instance everything, of several one line each."""
    if out is not None and (several or out.suffix != ".npz"):
        with writing(out):
            write_atomically(out, (json.dumps(whole if several else whole[0], indent=1) + "\n").encode())
    if format == "json":
        print(json.dumps(records if several else records[0]))
    elif several:
        keys: tuple[str, ...] = ("instance", "method", "status", "objective", "bound", "gap", "seconds")
        if any("target" in found for found in records):
            keys = (*keys[:3], "reaches_target", *keys[3:])
        print_table(keys, [tuple(text(found.get(key)) for key in keys) for found in records], ("method", "gap"))
    else:
        _print(records[0])


def _kept(solution: Solution, path: Path) -> str:
    """Write the certificate; return in words its claim, or why there is none."""
    if solution.certificate is None:
        return f"none: {solution.certificate_report.get('none', 'the solve was interrupted')}"
    with writing(path):
        solution.certificate.save(path)
    said = f"{path} proves {text(solution.certificate.bound)}"
    if solution.objective is None or solution.bound is None:
        return said
    gap = relative_gap(solution.objective, solution.certificate.bound)
    weaker = abs(solution.certificate.bound - solution.bound) > solution.problem.tolerance_at(solution.bound)
    said += f", a gap of {text(gap)}"
    return f"{said}; WEAKER than the bound above (more time may certify it)" if weaker else said


def _exit_code(solution: Solution, require_proof: bool) -> int:
    if solution.stopped == "interrupted":
        return 130
    if solution.status == "infeasible":
        return 3
    reached = None if solution.target is None else solution.reaches(solution.target)
    if reached is False:
        return 3
    if solution.x is None:
        return 5
    if solution.target is not None and reached is None:
        return 4
    return 4 if require_proof and solution.status != "optimal" else 0


def _record(instance: str, solution: Solution, known: InstanceInfo | None) -> dict[str, Any]:
    from fedselect.rounds.engine import solution_record

    problem = solution.problem
    found = {"instance": instance, "type": type(problem).__name__, "sense": problem.sense, "seed": solution.seed}
    found |= solution_record(solution) | {"message": solution.message}
    found |= {
        key: value for key in ("native_status", "bound_by", "work") if (value := getattr(solution, key)) is not None
    }
    found |= {"problem": solution.to_dict()["problem"], "weight": getattr(problem, "weight", None)}
    if fillers := getattr(problem, "fillers", 0):
        most = problem.size  # type: ignore[attr-defined]  # it has fillers
        chosen = "none is known" if solution.x is None else str(len(solution.selected))
        found["number_chosen"] = f"{chosen}, where {most - fillers} to {most} may be"
    elif Path(instance).suffix in (".qubo", ".bqm", ".json") and type(problem).__name__ == "QuadraticProblem":
        from solvers.dispersion import Penalty

        found["penalty"] = Penalty.verdict(solution)
    if solution.target is not None:
        found |= {"target": solution.target, "reaches_target": solution.reaches(solution.target)}
        found["target_verdict"] = solution.target_verdict
    if solution.duals:
        found["duals"] = jsonable(solution.duals)
    if known is not None and known.best_known is not None:
        behind = None if solution.objective is None else relative_gap(known.best_known, solution.objective)
        found |= {"best_known": known.best_known, "gap_to_best_known": behind}
    if solution.x is not None:
        found["x"] = np.asarray(solution.x).tolist()
        if hasattr(problem, "selected"):
            found["selected"] = solution.selected.tolist()
            if getattr(problem, "names", ()):
                found["selected_names"] = list(solution.selected_names)
    whole = solution.to_dict()
    found |= {key: whole[key] for key in ("pool", "pool_bound", "pool_complete") if key in whole}
    return found


def _refused_record(instance: str, method: str, error: Exception, several: bool) -> dict[str, Any]:
    """Return the record of a file whose constraints contradict each other, which no method needs to prove.

    Or of one that is not accepted, which is raised where it is the only one.
    """
    if not isinstance(error, Contradiction):
        if not several:
            raise error
        warn(str(error))
        return {"instance": instance, "method": method, "status": "refused", "message": str(error)}
    try:
        why = conflict(error, _CONFLICT_SECONDS)
    except SolversError:
        why = None
    message = f"{error}; {why}" if why else str(error)
    return {"instance": instance, "method": method, "status": "infeasible", "stopped": "proved", "message": message}


def _print(found: dict[str, Any]) -> None:
    keys = [
        "instance",
        "method",
        "status",
        "stopped",
        "message",
        "target_verdict",
        "objective",
        "bound",
        "absolute_gap",
        "gap",
    ]
    keys += [
        "weight",
        "penalty",
        "number_chosen",
        "native_status",
        "bound_by",
        "work",
        "certificate",
        "best_known",
        "gap_to_best_known",
        "seconds",
        "nodes",
    ]
    words = {"target_verdict": "target"}
    rows = [
        (words.get(key, key.replace("_", " ")), text(found[key])) for key in keys if found.get(key) not in (None, "")
    ]
    if "selected" in found:
        rows.append(("selected", " ".join(map(str, found["selected"]))))
    if "selected_names" in found:
        rows.append(("names", ", ".join(map(without_controls, map(str, found["selected_names"])))))
    elif "x" in found:
        values = np.atleast_1d(found["x"])
        shown = " ".join(text(value) for value in values[:20].tolist())
        rows.append(("x", shown + (f" ... ({values.size} values; --out has all)" if values.size > 20 else "")))
    members = found.get("pool", ())
    if members:
        count = f"{len(members)} selection{'s' if len(members) > 1 else ''}"
        is_all = "complete" if found["pool_complete"] else "not proved complete"
        rows.append(("pool", f"{count}, {is_all}; no other beyond {text(found['pool_bound'])}"))
    print_table(("measure", "value"), rows)
    if members:
        cells = [
            (str(k), text(each["objective"]), " ".join(map(str, each["selected"]))) for k, each in enumerate(members, 1)
        ]
        print_table(("place", "objective", "selected"), cells)


@contextmanager
def _progress(method: str) -> Iterator[Callable[[TracePoint], None] | None]:
    """Show a line on stderr with incumbent, bound and gap where that is a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    line = _Line(method)
    with Live(line, console=console, refresh_per_second=8, transient=True):
        yield line.show


class _Line:
    """Line that Live draws: the newest point of the trace, and the time."""

    def __init__(self, method: str) -> None:
        self.method, self.start, self.point = method, time.perf_counter(), TracePoint(0.0, None, None)

    def show(self, point: TracePoint) -> None:
        """Take the newest point."""
        self.point = point

    def __rich__(self) -> Text:
        _, objective, bound = self.point
        gap = None if objective is None or bound is None else relative_gap(objective, bound)
        parts = (f"{name} {text(value)}" for name, value in (("objective", objective), ("bound", bound), ("gap", gap)))
        return Text("  ".join([self.method, f"{time.perf_counter() - self.start:.1f} s", *parts]))


def verify(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Certificates (.npz), or names in the library, whose certificates are shipped."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="The problem they are about (file or name); by default the library's that they name."),
    ] = None,
    size: Size = None,
    costs: Costs = None,
    weight: Weight = None,
    everything: Annotated[bool, typer.Option("--all", help="All certificates of the library.")] = False,
    format: Format = "text",
) -> None:
    """Check certificates with exact arithmetic, apart from the searches, and print what each proves.

    Exit codes: 0 the certificates prove what they claim; 2 bad input (no such file, or no problem to check against); 3
    at least one was refused, with the reason printed. solvers/certificates/check_certificate.py does the same in one
    file of Python's standard library, to be mailed with problem and certificate.
    """
    given = list(files or [])
    if everything:
        given += [name for name, entry in instances.ledger.entries().items() if entry.certified is not None]
    if not given:
        raise ConfigError("name at least one certificate or instance, or give --all")
    if problem is None and (size, costs, weight) != (None, None, None):
        raise ConfigError("--size, --costs and --weight are about the file that --problem names")
    about = None if problem is None else problem_of(problem, size, costs, weight)[0]
    rows: list[tuple[str, Verdict]] = [(text, _verdict(text, about)) for text in given]
    if format == "json":
        print(
            json.dumps(
                [
                    {"file": text, "verified": found.accepted, "bound": found.verified, "why": found.sentence}
                    for text, found in rows
                ],
                indent=1,
            )
        )
    else:
        words = [(text, "verified" if found.accepted else "REFUSED", found.sentence) for text, found in rows]
        print_table(("file", "verdict", "what was found"), words)
    if not all(found.accepted for _, found in rows):
        raise Ended(3)


def _verdict(text: str, about: Problem | None) -> Verdict:
    if text in instances.names():
        return verify_instance(text)
    if not Path(text).is_file():
        raise ConfigError(f"there is no file {text}, and no instance of that name in the library")
    try:
        found = Certificate.load(text)
    except CertificateError as error:
        return Verdict(False, str(error))
    if about is None:
        name = of_digest(found.problem)
        if name is None:
            raise ConfigError(f"{text} is about a problem that the library does not have: give it with --problem")
        about = instances.load(name)
    elif problem_digest(about) != found.problem:
        return Verdict(False, "the certificate is about another problem than the one given")
    return judged(about, found)


def warm_up() -> None:
    """Compile the kernels for this machine and keep them, so that what runs later need not."""
    from solvers.dispersion import kernels

    began = time.perf_counter()
    total = len(kernels.registered())
    done = 0
    with progress_bar("compiling", total) as update:

        def advance(name: str, precision: str, seconds: float) -> None:
            nonlocal done
            done += 1
            update(done, total)

        kernels.warm_up(advance)
    seconds = time.perf_counter() - began
    say(f"{total} kernels are ready, after {seconds:.1f} s; kept in {kernels.cache_folder() or 'no cache'}")
