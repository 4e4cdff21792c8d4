"""Reference pages made from the code itself: commands, options of every registered part, methods of every problem."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("commands", _commands()), ("methods", _methods()), ("parts", _parts())):
        text = "\n".join(lines) + "\n"
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _commands() -> Iterator[str]:
    from typer.main import get_command

    from fedselect.cli import app

    yield "# Commands"
    yield "\nGenerated from the command line itself; `fedselect COMMAND --help` prints the same.\n"
    yield from _command(get_command(app), ["fedselect"])


def _command(command: click.Command, path: list[str]) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name in sorted(children):
            yield from _command(children[name], [*path, name])
        return
    context = click.Context(command, info_name=" ".join(path))
    yield f"\n## {' '.join(path)}\n"
    yield _sentence(command.help)
    yield f"\n```text\n{command.get_usage(context)}\n```\n"
    rows = [_row(parameter, context) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield "| argument or option | what it is | default |\n|---|---|---|"
        yield from rows


def _row(parameter: click.Parameter, context: click.Context) -> str:
    names = parameter.opts + parameter.secondary_opts
    shown = ", ".join(f"`{name}`" for name in names) if isinstance(parameter, click.Option) else f"`{parameter.name}`"
    default = parameter.get_default(context)
    empty = default is None or default == [] or default == () or default is False or callable(default)
    return f"| {shown} | {_cell(getattr(parameter, 'help', '') or '')} | {'' if empty else f'`{_plain(default)}`'} |"


def _methods() -> Iterator[str]:
    import importlib

    from solvers import methods
    from solvers.problem import FAMILIES, Problem

    for family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    yield "# Methods"
    yield "\nEvery method that is registered, by problem. Options are keyword arguments of `solve` and `--option` of"
    yield "`fedselect solve`.\n"
    for problem in Problem.types():
        entries = methods(problem)
        if not entries:
            continue
        yield f"\n## {problem.__name__}\n"
        yield "| method | kind | what it does | options and defaults |\n|---|---|---|---|"
        for entry in entries:
            options = ", ".join(f"`{name}={_plain(value)}`" for name, value in entry.options.items())
            needs = f" Needs `{entry.install}`." if entry.requires else ""
            yield f"| `{entry.name}` | {entry.kind} | {_cell(entry.summary)}{needs} | {options} |"


def _parts() -> Iterator[str]:
    from fedselect.availability import AVAILABILITY, DROPOUT
    from fedselect.data import DATASETS, PARTITIONS
    from fedselect.selectors import SELECTORS
    from fedselect.training.models import MODELS

    yield "# Selectors, availability, data, models"
    yield "\nEvery registered part with its options: keys of the section of a configuration file that names it.\n"
    for title, registry in (
        ("Selectors", SELECTORS),
        ("Availability", AVAILABILITY),
        ("Dropout", DROPOUT),
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


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str) -> str:
    """One line that a table can hold; reStructuredText's roles and double backticks become Markdown's."""
    import re

    text = re.sub(r":math:`([^`]*)`", r"$\1$", _sentence(text))
    return text.replace("``", "`").replace("|", "\\|")


def _plain(value: Any) -> str:
    return str(value).replace("|", "\\|")
