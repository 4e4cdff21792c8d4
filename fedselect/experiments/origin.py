"""What a run is made of beside its configuration: code, files, versions, processor; and what has changed since.

A run folder is named by its configuration. What the configuration only *names* may change while the name stays: the
code of a selector of one's own, the lines of a trace, the packages that are installed. A run therefore writes down what
it was made of, and a folder whose run was made of something else is not taken for this one.
"""

from __future__ import annotations

import importlib
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import DATASETS, PARTITIONS
from fedselect.errors import RunError
from fedselect.experiments.code import code_digest, is_own, place
from fedselect.experiments.contents import contents, package_sources
from fedselect.options import Registry, placed
from fedselect.selectors import SELECTORS
from solvers import Method, methods
from solvers.environment import installed
from solvers.files import write_atomically
from solvers.problem import Problem
from solvers.reading import read_json

if TYPE_CHECKING:
    from fedselect.experiments.config import Choice, Experiment

__all__ = ["PACKAGES", "Origin", "files_of", "origin_here", "origin_of", "read_origin"]

_FILE = "origin.json"
_FORMAT = "run-origin/1"

#: Packages whose versions a run writes down.
PACKAGES = (
    "fedselect",
    "numpy",
    "scipy",
    "numba",
    "networkx",
    "cvxpy",
    "ortools",
    "highspy",
    "scikit-learn",
    "torch",
    "flwr",
    "ray",
)

#: Those that carry a run and compute nothing in it.
_CARRIERS = ("flwr", "ray")


@dataclass(frozen=True)
class Origin:
    """What a run is made of.

    Attributes
    ----------
    code : dict of str to str
        Digests of the code of parts that are not the toolkit's own, by what they are: "selector 'mine' (my_parts.py)".
    files : dict of str to str
        Digests of what the files and folders hold that the configuration names.
    sources : dict of str to str
        Digests of the toolkit's own code, by room.
    versions : dict of str to str
        Versions of Python and packages.
    processor : str
        What the bits of a sum depend on. A finished run of another processor is the same run, to rounding; a stopped
        one cannot be continued to the same bits.
    """

    code: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    processor: str = ""

    def since(self, before: Origin, finished: bool) -> str:
        """What has changed since ``before``, in words; empty where nothing has that a run depends on."""
        for what, digest in self.code.items():
            if before.code.get(what) != digest:
                return f"the code of {what} has changed since"
        for path, digest in self.files.items():
            if before.files.get(path) != digest:
                return f"{path} has changed since"
        for package, version in before.versions.items():
            if package not in _CARRIERS and self.versions.get(package, version) != version:
                return f"it was made with {package} {version}, and {self.versions[package]} is installed here"
        if changed := [room for room, digest in self.sources.items() if before.sources.get(room) != digest]:
            return f"the toolkit's own code has changed since: {', '.join(changed)}"
        if not finished and before.processor != self.processor:
            return f"it was begun on another processor ({before.processor}), and would not go on to the same bits"
        return ""

    def write(self, path: Path) -> None:
        """Write it down, as ``origin.json`` where ``path`` is a folder."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        write_atomically(path / _FILE if path.is_dir() else path, text.encode())


def read_origin(path: Path) -> Origin | None:
    """What `Origin.write` wrote; None where there is nothing, as of the time when runs did not say.

    Raises
    ------
    RunError
        When it cannot be read.
    """
    path = path / _FILE if path.is_dir() else path
    if not path.exists():
        return None
    try:
        told = read_json(path)
        if not isinstance(told, dict) or told.pop("format", None) != _FORMAT:
            raise ValueError(f"it is not of the format {_FORMAT!r}")
        for key, value in told.items():
            if not (isinstance(value, str) if key == "processor" else _by_name(value)):
                raise ValueError(f"its {key} must be {'text' if key == 'processor' else 'texts by name'}")
        return Origin(**told)
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"cannot read {path}: {error}; remove it or choose another output folder") from error


def _by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def origin_of(experiment: Experiment) -> Origin:
    """What a run of this experiment is made of, here and now."""
    builders = {f"{registry.kind} {choice.name!r}": registry[choice.name] for registry, choice in _parts(experiment)}
    builders |= {f"method {each.name!r}": each.function for each in _methods(experiment.selector.options)}
    code = {f"{what} ({place(each)})": code_digest(each) for what, each in builders.items() if is_own(each)}
    return origin_here(code, files_of(experiment))


def origin_here(code: dict[str, str], files: dict[str, str]) -> Origin:
    """These digests, with the toolkit's own code, versions and processor as they are here."""
    return Origin(code, files, package_sources(), _versions(), _processor())


def files_of(experiment: Experiment) -> dict[str, str]:
    """Digests of what the files and folders hold that a configuration names."""
    paths = [path for registry, choice in _parts(experiment) for path in registry.files(choice.name, choice.options)]
    return {placed(str(path)): contents(path) for path in paths}


def _parts(experiment: Experiment) -> Iterator[tuple[Registry, Choice]]:
    """Everything that a configuration names, with the registry it is in."""
    from fedselect.experiments.config import Choice
    from fedselect.training.losses import LOSSES
    from fedselect.training.models import MODELS

    yield SELECTORS, experiment.selector
    yield AVAILABILITY, experiment.availability
    yield DROPOUT, experiment.dropout
    yield DATASETS, experiment.data
    partition = experiment.data.options.get("partition", DATASETS.options(experiment.data.name).get("partition"))
    if isinstance(partition, str):
        yield PARTITIONS, Choice(partition)
    yield MODELS, Choice(experiment.training.model, experiment.training.model_options)
    if experiment.training.loss != "auto":
        yield LOSSES, Choice(experiment.training.loss)


def _methods(options: Mapping[str, Any]) -> Iterator[Method]:
    """Solver methods that an option names."""
    named = {value for value in options.values() if isinstance(value, str)}
    for problem in Problem.types():
        yield from (each for each in methods(problem) if each.name in named)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return installed(PACKAGES)


def _processor() -> str:
    """The machine and the vector instructions that NumPy found, which decide how its sums are rounded."""
    features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__  # as numpy.show_runtime has it
    told = [name for name in ("AVX2", "FMA3", "AVX512F", "AVX512_SKX", "ASIMD", "SVE") if features.get(name)]
    return " ".join([platform.machine(), *told])
