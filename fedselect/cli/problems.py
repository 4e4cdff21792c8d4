"""Problems that arguments of commands name: readers of files, patterns, completion."""

from __future__ import annotations

import dataclasses
import glob
import importlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedselect.errors import ConfigError
from solvers import InvalidProblem, Problem, Solution, instances, load, methods
from solvers.instances import InstanceInfo
from solvers.problem import FAMILIES
from solvers.reading import Unreadable, read_json, read_matrix

#: A number of clients to choose, the least and the largest one, or nothing.
SizeGiven = int | tuple[int, int] | None


def problem_of(
    text: str, size: SizeGiven = None, costs: Path | None = None, weight: float | None = None
) -> tuple[Problem, InstanceInfo | None]:
    """Return the problem that an argument names, and what the library knows of it.

    Parameters
    ----------
    text : str
        A name in the library, or a path whose ending says the format: ``.npz`` and ``.json`` (of this package),
        ``.txt`` (MDPLIB), ``.dat`` (a graph for its densest subgraph), ``.tsp`` (TSPLIB), ``.qubo``, ``.qplib``,
        ``.lp``, ``.mps``, ``.bqm`` and ``.json`` (dimod's BinaryQuadraticModel), ``.cqm`` (its
        ConstrainedQuadraticModel), ``.npy`` and ``.csv`` (a matrix of distances where it is square with a diagonal of
        zeros or nearly symmetric, else points).
    size : int or (int, int), optional
        Clients to choose, where the file does not say, or says another number; of a model also the least and largest.
    costs : path-like, optional
        File of a cost for each client (``.npy``, or text with commas), instead of the problem's.
    weight : float, optional
        Weight of the distances, instead of the problem's.
    """
    problem, known = _read(text, size)
    if costs is None and weight is None:
        return problem, known
    fields = {field.name for field in dataclasses.fields(problem)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for name, value in (("costs", costs), ("weight", weight)):
        if value is not None and name not in fields:
            raise ConfigError(f"--{name} is for problems of dispersion; {text} holds a {type(problem).__name__}")
    if costs is not None:
        try:
            changes["costs"] = read_matrix(costs).ravel()
        except (OSError, Unreadable) as error:
            raise ConfigError(f"cannot read the costs in {costs}: {error}") from error
    if weight is not None:
        changes["weight"] = weight
    return dataclasses.replace(problem, **changes), None  # type: ignore[type-var]


def _read(text: str, size: SizeGiven) -> tuple[Problem, InstanceInfo | None]:
    """Read the problem that an argument names."""
    path = Path(text)
    if isinstance(size, tuple) and path.suffix not in (*_MODELS, ".json"):
        raise ConfigError(f"--size {size[0]}-{size[1]} is a range, which QUBOs and models take; give {text} a number")
    if path.suffix not in _READERS:
        if path.is_file():
            raise ConfigError(f"{text}: {_endings()}")
        if size is not None:
            raise ConfigError(f"--size is for files that leave it open ({_OPEN}); got {text!r}")
        return instances.load(text), instances.info(text)
    if not path.is_file():
        raise ConfigError(f"there is no file {text}")
    try:
        return _READERS[path.suffix](path, size), None
    except Unreadable as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _stored(path: Path, size: int | None) -> Problem:
    """Read a problem's file, or the problem that a solution's file holds beside it."""
    try:
        problem = load(path)
    except InvalidProblem as error:
        try:
            problem = Solution.load(path).problem
        except InvalidProblem:
            raise error from None
    _settled(path, size)
    return problem


def _mdplib(path: Path, size: int | None) -> Problem:
    from solvers.dispersion import read_mdplib

    return read_mdplib(path, size)


def _json(path: Path, size: Any) -> Problem:
    table = read_json(path)
    if isinstance(table, dict) and "arrays" in table:
        return _stored(path, size)
    if not isinstance(table, dict) or table.get("type") != "BinaryQuadraticModel":
        raise ConfigError(f"{path} is no problem (a solution is kept as JSON; --start takes it); {_endings()}")
    return _model(path, size)


def _model(path: Path, size: Any) -> Problem:
    from solvers.dispersion.models import READERS, read_bqm

    return READERS.get(path.suffix, read_bqm)(path, size)


def _dat(path: Path, size: int | None) -> Problem:
    from solvers.dispersion import read_densest_subgraph

    return read_densest_subgraph(path, _needed(path, size))


def _tsplib(path: Path, size: int | None) -> Problem:
    from solvers.dispersion import read_tsplib

    return read_tsplib(path, _needed(path, size))


def _array(path: Path, size: int | None) -> Problem:
    import numpy as np

    from solvers.dispersion import DispersionProblem, PointDispersionProblem, read_points

    array = read_points(path)
    chosen, costs = _needed(path, size), np.zeros(len(array))
    # A square array that has one mark of distances is meant as such, and refused for the other: no points have it.
    if len(array) > 1 and array.shape[0] == array.shape[1] and _looks_like_distances(array):
        return DispersionProblem(array, costs, size=chosen, weight=0.5)
    return PointDispersionProblem(array, costs, size=chosen, weight=0.5)


def _looks_like_distances(array: Any) -> bool:
    """Whether a square array has zeros on its diagonal, or equals its transpose in most entries."""
    import numpy as np

    same = np.isclose(array, array.T, rtol=1e-6, atol=0.0, equal_nan=True)
    return not array.diagonal().any() or bool(same[np.triu_indices(len(array), 1)].mean() > 0.9)


def _endings() -> str:
    return f"a file of a problem ends in {', '.join(_READERS)}, which says its format"


def _needed(path: Path, size: int | None) -> int:
    if size is None:
        raise ConfigError(f"{path} does not say how many to choose: give --size")
    return size


def _settled(path: Path, size: int | None) -> None:
    if size is not None:
        raise ConfigError(f"--size is for files that leave it open ({_OPEN}); {path} says how many to choose")


#: Endings of models, in which any number may be chosen.
_MODELS = (".qubo", ".bqm", ".cqm", ".qplib", ".lp", ".mps")

#: How a file with this ending is read.
_READERS: dict[str, Callable[[Path, Any], Problem]] = {
    ".npz": _stored,
    ".txt": _mdplib,
    ".dat": _dat,
    ".tsp": _tsplib,
    ".npy": _array,
    ".csv": _array,
    ".json": _json,
    **dict.fromkeys(_MODELS, _model),
}
_OPEN = "MDPLIB .txt, TSPLIB .tsp, points or distances .npy or .csv, a graph .dat, a QUBO or a model"


def matched(texts: Sequence[str], family: str | None = None) -> list[str]:
    """Expand arguments, each result once: one with ``*``, ``?`` or ``[`` the files, or the library's names, it matches.

    Of the library's, those of a ``family`` where one is given.
    """
    found: list[str] = []
    for text in texts:
        if Path(text).exists() or not any(letter in text for letter in "*?["):
            found.append(text)
            continue
        files = sorted(each for each in glob.glob(text, recursive=True) if Path(each).is_file())
        names = files or [name for name in instances.names(family) if fnmatchcase(name, text)]
        if not names:
            which = "instance" if family is None else f"{family} instance"
            raise ConfigError(f"no file and no {which} of the library matches {text!r}")
        found += names
    return list(dict.fromkeys(found))


def complete_instance(incomplete: str) -> list[str]:
    """Complete names in the library."""
    return [name for name in instances.names() if name.startswith(incomplete)]


def complete_family(incomplete: str) -> list[str]:
    """Complete families of problems."""
    return [name for name in FAMILIES if name.startswith(incomplete)]


def complete_method(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete methods for the instance on the command line, or for the families where there is none."""
    given = ctx.params.get("instance") or []
    words = [*([given] if isinstance(given, str) else given), *ctx.args]  # an unfinished line's are in the latter
    names = [word for word in words if word in instances.names()]
    families = [instances.info(names[0]).family] if names else list(FAMILIES)
    for family in families:
        importlib.import_module(f"solvers.{family}")
    kinds = [kind for kind in Problem.types() if kind.family in families and kind.__module__.startswith("solvers.")]
    found = {method.name for kind in kinds for method in methods(kind)}
    return sorted(method for method in found if method.startswith(incomplete))


_argument: Any = partial(typer.Argument, autocompletion=complete_instance, show_default=False)
#: The formats, for help texts.
FILES = (
    "a file: .npz or .json (a problem), .txt (MDPLIB), .dat (a graph), .tsp, .npy or .csv (distances, points), .qubo, "
    ".bqm, .cqm, .qplib, .lp or .mps"
)

Instance = Annotated[str, _argument(help=f"Name in the library ('fedselect instances list'), or {FILES}.")]

Instances = Annotated[
    list[str],
    _argument(
        help=f"Name in the library ('fedselect instances list'), or {FILES}; several, or a pattern like 'a*.txt'."
    ),
]


def _size(text: str) -> SizeGiven:
    """Return the number, or the least and the largest one, that an option says."""
    try:
        ends = [int(part) for part in str(text).split("-")]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2):
        raise typer.BadParameter(
            f"a number like 20, or a range like 0-400 where any of these may be chosen; got {text}"
        )
    return ends[0] if len(ends) == 1 else (ends[0], ends[1])


Size = Annotated[
    Any,
    typer.Option(
        parser=_size,
        metavar="M",
        help=f"Clients to choose, where a file leaves it open: {_OPEN}. 0-400 where any of these may be chosen, of the "
        "last two.",
    ),
]

Costs = Annotated[
    Path | None, typer.Option(help="A cost for each client, instead of the instance's: .npy, or text with commas.")
]

Weight = Annotated[
    float | None, typer.Option(help="Weight of the distances, instead of the instance's (0.5 for .npy and .csv).")
]
