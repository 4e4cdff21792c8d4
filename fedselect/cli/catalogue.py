"""``fedselect list``: what there is to choose from."""

from __future__ import annotations

import importlib
import json
from typing import Any

from fedselect.cli.common import Format, Load, check_format, print_table

__all__ = ["list_"]


def list_(
    load: Load = [],  # noqa: B006  (typer copies defaults)
    format: Format = "text",
) -> None:
    """Show what there is: selectors, availability and dropout models, data sets, partitions, models, solver methods."""
    from fedselect.availability import AVAILABILITY, DROPOUT
    from fedselect.data import DATASETS, PARTITIONS
    from fedselect.selectors import SELECTORS
    from fedselect.training.models import MODELS
    from solvers import methods
    from solvers.problem import FAMILIES, Problem

    check_format(format)
    if load:
        from fedselect.loading import load_parts

        load_parts(load)
    found: dict[str, list[dict[str, Any]]] = {}
    for registry in (SELECTORS, AVAILABILITY, DROPOUT, DATASETS, PARTITIONS, MODELS):
        found[registry.kind] = [
            {"name": name, "options": sorted(registry.options(name)), "summary": registry.summary(name)}
            for name in registry.names
        ]
    for family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    kinds = [kind for family in FAMILIES for kind in Problem.types() if kind.family == family]
    for problem in filter(methods, kinds):  # the rest are abstract
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
    print_table(("kind", "name", "options", ""), rows)
