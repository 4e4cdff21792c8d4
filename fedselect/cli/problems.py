"""What the commands about instances share: which problem an argument names, and what can be completed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from fedselect.errors import ConfigError
from solvers import Problem, instances, load, methods
from solvers.instances import InstanceInfo
from solvers.problem import FAMILIES

__all__ = ["Instance", "complete_family", "complete_instance", "complete_method", "problem_of"]


def problem_of(text: str, size: int | None = None) -> tuple[Problem, InstanceInfo | None]:
    """The problem that an argument names, and what the library knows of it.

    Parameters
    ----------
    text : str
        Path of a problem file (``.npz``) or of an MDPLIB file (``.txt``), or a name in the library.
    size : int, optional
        Clients to choose, for an MDPLIB file.
    """
    path = Path(text)
    if size is not None and path.suffix != ".txt":
        raise ConfigError(f"--size is for MDPLIB files (.txt), which can be asked for another m; got {text!r}")
    if path.suffix in (".npz", ".txt"):
        if not path.is_file():
            raise ConfigError(f"there is no file {text}")
        if path.suffix == ".npz":
            return load(path), None
        from solvers.dispersion import read_mdplib

        return read_mdplib(path, size), None
    return instances.load(text), instances.info(text)


def complete_instance(incomplete: str) -> list[str]:
    """Names in the library."""
    return [name for name in instances.names() if name.startswith(incomplete)]


def complete_family(incomplete: str) -> list[str]:
    """Families of problems."""
    return [name for name in FAMILIES if name.startswith(incomplete)]


def complete_method(ctx: typer.Context, incomplete: str) -> list[str]:
    """Methods for the instance on the command line, or for anything where there is none."""
    words = [ctx.params.get("instance"), *ctx.args]  # an unfinished command line leaves its arguments in the latter
    names = [word for word in words if word in instances.names()]
    families = [instances.info(names[0]).family] if names else list(FAMILIES)
    for family in families:
        importlib.import_module(f"solvers.{family}")
    kinds = [kind for kind in Problem.types() if kind.family in families and kind.__module__.startswith("solvers.")]
    found = {method.name for kind in kinds for method in methods(kind)}
    return sorted(method for method in found if method.startswith(incomplete))


Instance = Annotated[
    str,
    typer.Argument(
        help="Name in the library ('fedselect instances list'), or a .npz problem file, or an MDPLIB .txt file.",
        autocompletion=complete_instance,
        show_default=False,
    ),
]
