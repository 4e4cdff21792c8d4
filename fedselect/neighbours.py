"""Are ``solvers`` and ``graphs`` ours? Both names are taken on the package index, and are easily given to a script."""

from __future__ import annotations

import importlib.util
from pathlib import Path

__all__ = ["check_neighbours"]


def check_neighbours() -> None:
    """Raise `ImportError`, with the file that shadows, where another ``solvers`` or ``graphs`` would be imported.

    The packages are installed side by side, so that ours are the ones beside this one.
    """
    home = Path(__file__).resolve().parents[1]
    for name in ("solvers", "graphs"):
        try:
            specification = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # a module without a specification: made by hand
            continue
        if specification is None:
            raise ImportError(f"fedselect needs its own package {name!r}, which is missing: reinstall fedselect")
        origin = specification.origin or next(iter(specification.submodule_search_locations or ()), "an unknown place")
        if Path(origin).resolve() != home / name / "__init__.py":
            raise ImportError(
                f"fedselect needs its own package {name!r}, but {origin} shadows it: rename or move that, or "
                f"uninstall the package it belongs to"
            )
