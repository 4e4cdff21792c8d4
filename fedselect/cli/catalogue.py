"""Command list: the catalogue of what is chosen by name."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any

import typer

from fedselect.cli.common import Format, Load, say
from fedselect.errors import ConfigError
from fedselect.terminal import screen_width
from solvers.options import did_you_mean

#: Kinds to their entries.
Catalogue = dict[str, list[dict[str, Any]]]


def list_(
    what: Annotated[
        str, typer.Argument(help="Only these: a kind ('selectors', 'methods') or part of a name ('fedgs').")
    ] = "",
    load: Load = [],  # noqa: B006  (typer copies defaults)
    format: Format = "text",
) -> None:
    """Show what is chosen by name: selectors, data sets, models, server rules, measures, solver methods, ..."""
    if load:
        from fedselect.plugins import load_plugins

        load_plugins(load)
    found = _chosen(_everything(), what)
    if format == "json":
        print(json.dumps({kind.partition(" (family")[0]: entries for kind, entries in found.items()}, indent=1))
        return
    for kind, entries in found.items():
        print(kind)
        for entry in entries:
            _print_entry(entry, screen_width())
        print()


def _everything() -> Catalogue:
    from fedselect.measures import MEASURES, measures_of
    from fedselect.plugins import REGISTRIES
    from fedselect.training.settings import OPTIMIZERS
    from solvers import methods
    from solvers.problem import FAMILIES, Problem, families

    found: Catalogue = {}
    for registry in (each for each in REGISTRIES if each is not MEASURES):
        found[registry.kind] = [_entry(name, registry.options(name), registry.summary(name)) for name in registry.names]
    found[MEASURES.kind] = [
        _entry(each.name, {}, f"of a {each.of}: {each.meaning}")
        for kind in ("model", "round", "client", "run")
        for each in measures_of(kind)
    ]
    found["optimizer"] = [_entry(name, {}, "training.optimizer; its options are PyTorch's") for name in OPTIMIZERS]
    for family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    kinds = [kind for family in families() for kind in Problem.types() if kind.family == family]
    for problem in filter(methods, kinds):  # the rest are abstract
        found[f"method for a {problem.__name__} (family {problem.family})"] = [
            _entry(
                method.name,
                method.options,
                f"{method.kind}: {method.summary}"
                + (f" (missing: pip install '{method.install}')" if method.missing else ""),
            )
            for method in methods(problem)
        ]
    return found


def _entry(name: str, options: Mapping[str, Any], summary: str) -> dict[str, Any]:
    required = inspect.Parameter.empty
    defaults = {key: "required" if options[key] is required else _plain(options[key]) for key in sorted(options)}
    return {"name": name, "options": list(defaults), "defaults": defaults, "summary": _as_text(summary)}


def _plain(value: Any) -> Any:
    """Return a default as JSON can hold it; settings that are an object of their own by the name of its class."""
    if is_dataclass(value):
        return f"{type(value).__name__}()"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _as_text(summary: str) -> str:
    """Drop the markup of a docstring's line that only a documentation tool reads."""
    return re.sub(r":\w+:`([^`]*)`", r"\1", summary).replace("`", "")


def _chosen(found: Catalogue, what: str) -> Catalogue:
    """Filter: all entries of a kind, or those whose names contain the word."""
    if not what:
        return found
    wanted = what.lower()
    kinds = {kind: entries for kind, entries in found.items() if _singular(wanted) in kind.lower()}
    if kinds:
        return kinds
    named = {kind: [entry for entry in entries if wanted in entry["name"].lower()] for kind, entries in found.items()}
    if not any(named.values()):
        names = [*(f"{kind}s" for kind in found), *(entry["name"] for each in found.values() for entry in each)]
        raise ConfigError(f"there is no kind and no name {what!r}{did_you_mean(what, names)}")
    return {kind: entries for kind, entries in named.items() if entries}


def _singular(word: str) -> str:
    return word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s") if word != "loss" else word


def _print_entry(entry: dict[str, Any], width: int) -> None:
    """Print a name, and below it its summary and its options with their defaults."""
    say(f"  {entry['name']}")
    # A non-breaking space keeps an option and its default together.
    options = ", ".join(
        key if value == "required" else f"{key}\u00a0=\u00a0{'none' if value is None else json.dumps(value)}"
        for key, value in entry["defaults"].items()
    )
    for text in (entry["summary"], options and f"options: {options}"):
        for line in textwrap.wrap(text, width - 6, break_long_words=False, break_on_hyphens=False):
            say(f"      {line}".replace("\u00a0", " "))
