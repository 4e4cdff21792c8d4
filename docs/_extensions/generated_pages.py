"""Pages made from the code itself (commands, parts, methods, errors), and short tables made from published results."""

from __future__ import annotations

import csv
import importlib
import inspect
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from solvers.options import annotation_of, default_in_words, describe_type
from solvers.registry import Method

#: The modules whose `__all__` is public, package by package; everything else may change without notice.
API = {
    "solvers": (
        "solvers",
        "solvers.dispersion",
        "solvers.weighting",
        "solvers.capping",
        "solvers.allocation",
        "solvers.participation",
        "solvers.deadline",
        "solvers.coverage",
        "solvers.schedule",
        "solvers.balance",
        "solvers.instances",
        "solvers.certificates",
        "solvers.benchmark",
    ),
    "graphs": ("graphs",),
    "fedselect": (
        "fedselect.rounds",
        "fedselect.selectors",
        "fedselect.availability",
        "fedselect.clock",
        "fedselect.data",
        "fedselect.training.fedavg",
        "fedselect.training.settings",
        "fedselect.experiments",
        "fedselect.reports",
        "fedselect.integrations.flower",
    ),
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _bars, priority=900)  # after numpydoc
    app.add_post_transform(LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class LinkedNames(SphinxPostTransform):
    """Link each code span that is the name of something public to its page."""

    default_priority = 400

    def run(self, **kwargs: Any) -> None:
        """Wrap the code spans of the document that are public names, unless they are links already."""
        here = self.env.docname
        for span in list(self.document.findall(nodes.literal)):
            page = _pages_of_names().get(span.astext())
            inside = span.parent
            while inside is not None and not isinstance(inside, nodes.reference | nodes.title):
                inside = inside.parent
            if page is None or page == here or inside is not None or self.app.builder.format != "html":
                continue
            link = nodes.reference("", "", internal=True, refuri=self.app.builder.get_relative_uri(here, page))
            span.replace_self(link)
            link += span


@cache
def _pages_of_names() -> dict[str, str]:
    """Document of each public name, under its short name where that is unique, and under its path."""
    paths = [path for _, path, _ in _public()]
    short = Counter(path.rsplit(".", 1)[1] for path in paths)
    pages = {path: f"reference/generated/api/{path}" for path in paths}
    return pages | {name: pages[path] for path in paths if short[name := path.rsplit(".", 1)[1]] == 1}


def _bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of ``|S|`` in prose, which would be substitutions; mathematics is left alone."""
    block: int | None = None  # indentation of the ".. math::" that a line may belong to
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent <= block:
            block = None
        if line.lstrip().startswith(".. "):
            block = indent
        if block is None and "|" in line:
            parts = re.split(r"(:math:`[^`]*`|``[^`]*``)", line)
            lines[place] = "".join(part if odd % 2 else part.replace("|", r"\|") for odd, part in enumerate(parts))


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    (folder / "api").mkdir(parents=True, exist_ok=True)
    pages = {"commands": _commands(Path(app.srcdir)), "methods": _methods(), "parts": _parts(), "errors": _errors()}
    pages |= {f"api-{package}": _api(package) for package in API}
    teaching = _teaching_pages(Path(app.srcdir))
    pages |= {f"api/{path}": _symbol(path, what, teaching) for _, path, what in _public()}
    texts = {f"{name}.md": "\n".join(lines) + "\n" for name, lines in pages.items()}
    tables = {"proved_at_one_second": _proved, "proved_of_common": _common, "primal": _primal, "what_gaps_did": _gaps}
    tables["simulators"] = _simulators
    texts |= {f"{name}.csv": table(Path(app.srcdir)) for name, table in tables.items()}
    for name, text in texts.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _commands(docs: Path) -> Iterator[str]:
    from fedselect.cli import command

    yield "# Commands"
    yield "\nGenerated from the command line itself; `fedselect COMMAND --help` prints the same.\n"
    blocks = [
        block for page in sorted(docs.glob("*/*.md")) for block in _SHELL.findall(page.read_text(encoding="utf-8"))
    ]
    shown = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    yield from _command(command(), ["fedselect"], shown)


def _command(command: click.Command, path: list[str], shown: list[str]) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name in sorted(children):
            yield from _command(children[name], [*path, name], shown)
        return
    context = click.Context(command, info_name=" ".join(path))
    yield f"\n## {' '.join(path)}\n"
    yield _sentence(command.help)
    yield f"\n```text\n{command.get_usage(context)}\n```\n"
    examples = [" ".join(line.split("#")[0].split()) for line in shown if line.split()[: len(path)] == path]
    if examples:
        yield f"For example:\n\n```sh\n{examples[0]}\n```\n"
    rows = [_row(parameter, context) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield "| argument or option | what it is | default |\n|---|---|---|"
        yield from rows


#: Blocks of shell on a page.
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _row(parameter: click.Parameter, context: click.Context) -> str:
    names = parameter.opts + parameter.secondary_opts
    shown = ", ".join(f"`{name}`" for name in names) if isinstance(parameter, click.Option) else f"`{parameter.name}`"
    default = parameter.get_default(context)
    empty = default is None or default in ([], (), "") or default is False or callable(default)
    return f"| {shown} | {_cell(getattr(parameter, 'help', '') or '')} | {'' if empty else f'`{_plain(default)}`'} |"


def _methods() -> Iterator[str]:
    from solvers import methods
    from solvers.problem import FAMILIES, Problem

    for family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    yield "# Methods"
    yield "\nEvery method that is registered, by problem. Options are keyword arguments of `solve` and `--option` of"
    yield "`fedselect solve`.\n"
    told: set[Any] = set()  # a method of a base class is one of its subclasses, too
    for problem in Problem.types():
        entries = methods(problem)
        if not entries:
            continue
        yield f"\n## {problem.__name__}\n"
        yield "| method | kind | what it does |\n|---|---|---|"
        for entry in entries:
            needs = f" Needs `{entry.install}`." if entry.requires else ""
            yield f"| `{entry.name}` | {entry.kind} | {_cell(entry.summary)}{needs} |"
        options = [row for entry in entries if entry.function not in told for row in _options(entry)]
        if any(entry.options and entry.function in told for entry in entries):
            yield "\nOptions of methods that another problem has, too, are listed there, above."
        told |= {entry.function for entry in entries}
        if options:
            yield "\n| method | option | accepted | default | what it is |\n|---|---|---|---|---|"
            yield from options


def _options(method: Method) -> Iterator[str]:
    """A row for each option of a method: type and default of its signature, meaning of its docstring."""
    from numpydoc.docscrape import NumpyDocString

    told = NumpyDocString(inspect.getdoc(method.function) or "")["Parameters"]
    meanings = {name: " ".join(each.desc) for each in told for name in each.name.split(", ")}
    for name, default in method.options.items():
        kind = annotation_of(method.function, name)
        accepted = "anything" if kind is None else describe_type(kind)
        cells = f"{_cell(accepted)} | `{_plain(default_in_words(default))}` | {_cell(meanings.get(name, ''))}"
        yield f"| `{method.name}` | `{name}` | {cells} |"


def _public() -> Iterator[tuple[str, str, Any]]:
    """Every public name once: its package, where to import it from, and what it is."""
    for package, modules in API.items():
        told: list[Any] = []
        for name in modules:
            module = importlib.import_module(name)
            for public in module.__all__:
                what = getattr(module, public)
                if not (inspect.ismodule(what) or any(what is each for each in told)):  # `methods` is every family's
                    told.append(what)
                    yield package, f"{name}.{public}", what


def _api(package: str) -> Iterator[str]:
    """The contents of one package: for each of its public modules a table of names, each with a page of its own."""
    yield f"# {package}\n"
    current = ""
    for owner, path, what in _public():
        if owner != package:
            continue
        module, name = path.rsplit(".", 1)
        if module != current:
            current = module
            yield f"\n## {module}\n\n{_first_line(importlib.import_module(module))}\n\n| name | what it is |\n|---|---|"
        yield f"| [`{name}`](api/{path}.md) | {_first_line(what) if callable(what) else ''} |"


def _symbol(path: str, what: Any, pages: dict[str, str]) -> Iterator[str]:
    """The page of one public name: how to import it, its docstring, and the pages that show it in use."""
    module, name = path.rsplit(".", 1)
    directive = "class" if inspect.isclass(what) else "function" if hasattr(what, "__name__") else "data"
    options = {"class": "\n   :members:", "function": "", "data": "\n   :no-value:"}[directive]
    yield "---\norphan: true\n---"
    yield f"# {name}\n\n```python\nfrom {module} import {name}\n```\n"
    yield f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n.. auto{directive}:: {name}{options}\n```\n"
    shown = [page for page, text in pages.items() if re.search(rf"\b{name}\b", text)][:6]
    if shown:
        yield "## Shown on\n"
        yield from (f"* {{doc}}`/{page}`" for page in shown)


def _teaching_pages(docs: Path) -> dict[str, str]:
    """The code of the pages and examples that teach, by document name."""
    pages = {
        f"examples/{path.stem}": path.read_text(encoding="utf-8")
        for path in sorted((docs.parent / "examples").glob("*.py"))
    }
    for path in sorted(
        [*docs.glob("*.md"), *docs.glob("get_started/*.md"), *docs.glob("how_to/*.md"), *docs.glob("mathematics/*.md")]
    ):
        text = path.read_text(encoding="utf-8")
        pages[str(path.relative_to(docs).with_suffix(""))] = "\n".join(
            re.findall(r"```\{code-cell\}.*?```", text, re.DOTALL)
        )
    return pages


def _first_line(what: Any) -> str:
    return _cell((inspect.getdoc(what) or "").split("\n\n")[0])


def _errors() -> Iterator[str]:
    import graphs.errors
    import solvers.errors
    from fedselect import errors

    yield "# Errors"
    yield "\nEvery error that is raised on purpose is one sentence: what was wrong, which value, what is accepted. The"
    yield "command line prints it; its exit code is 2, or 3 where a certificate is refused or constraints contradict"
    yield "each other. `TOOLKIT_ERRORS` holds the three roots, for `except`.\n"
    for module in (solvers.errors, graphs.errors, errors):
        yield f"\n## {module.__name__}\n\n| error | is a | when |\n|---|---|---|"
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and kind.__module__ == module.__name__:
                bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
                yield f"| `{name}` | {bases} | {_cell((kind.__doc__ or '').split(chr(10) * 2)[0])} |"


def _parts() -> Iterator[str]:
    from fedselect.availability import AVAILABILITY, DROPOUT
    from fedselect.clock import CLOCKS
    from fedselect.data import DATASETS, PARTITIONS
    from fedselect.selectors import SELECTORS
    from fedselect.training.models import MODELS

    yield "# Selectors, availability, clocks, data, models"
    yield "\nParts with their options: keys of the section of a configuration file that names them. `fedselect list`"
    yield "has server rules, losses, measures and what else is registered, too.\n"
    for title, registry in (
        ("Selectors", SELECTORS),
        ("Availability", AVAILABILITY),
        ("Dropout", DROPOUT),
        ("Clocks", CLOCKS),
        ("Data sets", DATASETS),
        ("Partitions", PARTITIONS),
        ("Models", MODELS),
    ):
        yield f"\n## {title}\n"
        yield "| name | what it is | options and defaults |\n|---|---|---|"
        for name in registry.names:
            options = ", ".join(
                f"`{key}`" if default is inspect.Parameter.empty else f"`{key}={_plain(default)}`"
                for key, default in registry.options(name).items()
            )
            yield f"| `{name}` | {_cell(registry.summary(name))} | {options} |"


def _proved(docs: Path) -> str:
    """What the methods of the suite of selections prove within a second, best first."""
    with sorted(docs.glob("benchmarks/*/selection-summary.csv"))[-1].open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if float(row["time_limit"]) == 1.0]
    rows.sort(key=lambda row: (-int(row["proved"]), -int(row["best"]), float(row["mean_all"])))
    table = [("method", "solves", "proved", "best value", "mean seconds")]
    for row in rows:
        table.append((row["method"], row["ok"], row["proved"], row["best"], f"{float(row['mean_all']):.2f}"))
    return _csv(table)


def _common(docs: Path) -> str:
    """What each solver proves of the rounds that all of them take: a row per release and time limit.

    Over several seeds that is the mean number of rounds.
    """
    import pandas as pd

    solvers = {"Gurobi": "gurobi", "CPLEX": "cplex", "SCIP": "scip", "HiGHS": "milp", "CP-SAT": "cp-sat"}
    table = [("release", "limit", "rounds that all take", "`auto`", *solvers)]
    for path in sorted(docs.glob("benchmarks/*/selection.parquet")):
        rows = pd.read_parquet(path)
        refused = rows.instance[rows.verdict.isin(["refused", "missing"])]
        rows = rows[~rows.instance.isin(set(refused))]
        for limit, at in rows.groupby("time_limit"):
            proved = at.time_to_proof.notna().groupby(at.method).sum() / at.seed.nunique()
            cells = [f"{proved['auto']:.3g}"]
            for name in solvers.values():
                own = proved[proved.index.str.startswith(f"{name}:")]
                given = {label.partition(":")[2]: count for label, count in own.items()}
                plain = [given.pop(way) for way in ("nonconvex", "product", "glover") if way in given]
                cells.append(", ".join(f"{count:.3g}" for count in [*plain, max(given.values())]))
            table.append((path.parent.name, f"{limit:g} s", str(at.instance.nunique()), *cells))
    return _csv(table)


def _primal(docs: Path) -> str:
    """Primal integral of each solver in the rounds that it takes, beside `auto`."""
    import pandas as pd

    rows = pd.read_parquet(sorted(docs.glob("benchmarks/*/selection.parquet"))[-1])
    rows = rows[~rows.verdict.isin(["refused", "missing"]) & (rows.time_limit == 1.0)]
    wide = rows.pivot_table(index="instance", columns="method", values="primal_integral")
    table = [("method", "rounds", "primal integral, ms", "`auto` there, ms")]
    for method in dict.fromkeys(rows.method):
        there = wide[method].dropna().index
        own, ours = wide.loc[there, method].mean(), wide.loc[there, "auto"].mean()
        cell = f"**{1e3 * own:.2f}**" if own < ours else f"{1e3 * own:.2f}"
        table.append((f"`{method}`", str(len(there)), cell, f"{1e3 * ours:.2f}"))
    return _csv(table)


def _gaps(docs: Path) -> str:
    """What each heuristic of the study of exact selection missed, and what came of it."""
    with (docs / "gallery" / "exact_vs_heuristic_table.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    table = [("paper, regime", "heuristic", "gap", "variance of the counts", "test loss")]
    for row in rows:
        if row["decided by"] == "exact":
            exact = row
        elif row["gap %"] and row["decided by"] != "counts alone":  # which solves another problem
            told = (f"{row[key]} ({exact[key]})" for key in ("variance of counts", "test loss"))
            gap = float(row["gap %"])
            shown = f"{gap:.2g} %" if gap >= 0.001 else "< 0.001 %"
            table.append((f"{row['paper']}, {row['regime']}", row["decided by"], shown, *told))
    return _csv(table)


#: Cases and engines of the same-work benchmark: what the page calls them, and their names in its table.
SIMULATED = {
    "linear, 10 of 100": "linear",
    "linear, 100 of 1 000": "many",
    "MLP, 10 of 100": "mlp",
    "CNN, 5 of 40": "cnn",
    "ResNet-18, 8 of 20": "resnet",
}
SIMULATORS = {
    "plain loop": "plain",
    "fedselect": "fedselect",
    "Flower, in process": "flower",
    "Flower, on Ray": "flower_ray",
    "pfl": "pfl",
    "fluke": "fluke",
    "FLGo": "flgo",
    "FedJAX": "fedjax",
    "BlazeFL": "blazefl",
}


def _simulators(docs: Path) -> str:
    """Milliseconds a round of each engine that did the same work, and how many times fedselect's; the best is bold."""
    with (docs / "benchmarks" / "simulators.csv").open(encoding="utf-8") as stream:
        rows = {(row["case"], row["cores"], row["engine"]): row for row in csv.DictReader(stream)}
    engines = {name: key for name, key in SIMULATORS.items() if any(place[2] == key for place in rows)}
    table = [("case", "cores", *engines)]
    for case, short in SIMULATED.items():
        for cores in ("1", "2"):
            found = {key: rows.get((short, cores, key), {"counts": "no"}) for key in engines.values()}
            times = {key: float(row["round_ms"]) for key, row in found.items() if row["counts"] == "yes"}
            cells = dict.fromkeys(found, "–")
            for key, took in times.items():
                ratio = f" ({float(found[key]['of_fedselect']):.3g}×)" if key != "fedselect" else ""
                cells[key] = f"{took:.3g}{ratio}"
                if took == min(times.values()):
                    cells[key] = f"**{cells[key]}**"
            if times:
                table.append((case, cores, *cells.values()))
    return _csv(table)


def _csv(rows: Iterable[tuple[str, ...]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str) -> str:
    """One line that a table can hold; reStructuredText's roles and double backticks become Markdown's."""
    text = re.sub(r":math:`([^`]*)`", r"$\1$", _sentence(text))
    return text.replace("``", "`").replace("|", "\\|")


def _plain(value: Any) -> str:
    return str(value).replace("|", "\\|")
