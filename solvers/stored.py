"""Solutions as plain data and as files."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solvers.certificates import Certificate
from solvers.errors import InvalidProblem
from solvers.files import appearing_whole
from solvers.plain import plain
from solvers.problem import Problem, assembled, digest, parts

if TYPE_CHECKING:
    from solvers.solution import Solution

__all__ = ["as_dict", "read", "write"]

FORMAT = "solvers-solution/1"

#: Fields that are told as they are; the others need words of their own.
_FACTS = (
    "method", "objective", "bound", "status", "stopped", "message", "seconds", "build_seconds", "nodes", "seed",
)  # fmt: skip


def as_dict(solution: Solution) -> dict[str, Any]:
    """Everything about a solution as JSON values, with the problem's name and digest in place of its data."""
    problem = solution.problem
    told: dict[str, Any] = {"format": FORMAT, "problem": _named(problem)}
    told |= {name: plain(getattr(solution, name)) for name in _FACTS}
    told |= {"absolute_gap": plain(solution.absolute_gap), "gap": plain(solution.gap), "x": plain(solution.x)}
    if solution.x is not None and hasattr(problem, "selected"):
        told["selected"] = plain(solution.selected)
    told["trace"] = [list(point) for point in solution.trace]
    told["certificate"] = None if solution.certificate is None else _claim(solution.certificate)
    return told | {"duals": plain(solution.duals), "details": plain(solution.details)}


def write(solution: Solution, path: str | os.PathLike[str]) -> Path:
    """Write a solution and its problem to an ``.npz`` archive; see `Solution.save`."""
    header, arrays = parts(solution.problem)
    kept = {f"problem.{name}": array for name, array in arrays.items()}
    if solution.x is not None:
        kept["x"] = np.asarray(solution.x)
    kept |= {f"duals.{name}": np.asarray(value) for name, value in solution.duals.items()}
    told = {name: getattr(solution, name) for name in _FACTS}
    told |= {"format": FORMAT, "problem": header, "details": plain(solution.details)}
    told["trace"] = [list(point) for point in solution.trace]
    if solution.certificate is not None:
        told["certificate"] = _claim(solution.certificate)
        kept |= {f"certificate.{name}": array for name, array in solution.certificate.arrays.items()}
    target = Path(path)
    with appearing_whole(target) as stream:
        text = json.dumps(told, default=plain)
        np.savez_compressed(stream, header=np.array(text), **kept)  # type: ignore[arg-type]
    return target


def read(path: str | os.PathLike[str]) -> Solution:
    """Read what `write` wrote; the problem and the bound are checked again by their constructors."""
    from solvers.solution import Solution, TracePoint

    try:
        with np.load(path, allow_pickle=False) as archive:
            told = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        if told.get("format") != FORMAT:
            raise ValueError(f"its format is {told.get('format')!r}")
        problem = assembled(told["problem"], _below(arrays, "problem."), str(path))
        known = {name: told[name] for name in _FACTS}
        trace = tuple(TracePoint(*point) for point in told["trace"])
        details = told["details"]
        certificate = None
        if claim := told.get("certificate"):
            facts = (str(claim["kind"]), str(claim["problem"]), float(claim["bound"]), int(claim["grid"]))
            certificate = Certificate(*facts, _below(arrays, "certificate."))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, TypeError, AttributeError) as error:
        raise InvalidProblem(f"{path} is not a solution file ({FORMAT}): {error}") from error
    x = arrays.get("x")
    if x is not None:
        x.setflags(write=False)
    duals = {name: value if value.ndim else value.item() for name, value in _below(arrays, "duals.").items()}
    return Solution(problem=problem, x=x, trace=trace, duals=duals, details=details, certificate=certificate, **known)


def _claim(certificate: Certificate) -> dict[str, Any]:
    facts = {name: getattr(certificate, name) for name in ("kind", "problem", "bound", "grid")}
    return facts | {"digest": certificate.digest}


def _below(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _named(problem: Problem) -> dict[str, Any]:
    named = {"family": problem.family, "type": type(problem).__name__, "sense": problem.sense}
    return named | {"n": getattr(problem, "n", None), "digest": digest(problem)}
