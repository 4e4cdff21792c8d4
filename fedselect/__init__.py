"""Federated client selection: selectors, availability, data, the FedAvg loop, experiments."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def _check_shadowing() -> None:
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


_check_shadowing()

from solvers.version import __version__  # noqa: E402  (not before it is sure whose ``solvers`` this is)

__all__ = ["__version__"]
