"""Provenance of a run: versions and commit, plugins' code, processor, and the files that its configuration names.

A run folder is named by its configuration. What the configuration only *names* may change while the name stays. A
folder whose run had other files is refused. Other code and versions, and of a stopped run another processor, are said
in a warning (refused, where a run is strict), and kept in the folder of a run that is continued.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import platform
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedselect.errors import RunError
from fedselect.measures import MEASURES
from fedselect.options import placed
from fedselect.plugins import is_user_defined, module_name
from solvers import Method, methods
from solvers.environment import commit, installed, machine
from solvers.files import write_atomically
from solvers.problem import Problem
from solvers.reading import Unreadable, read_json

if TYPE_CHECKING:
    from fedselect.experiments.config import Experiment

_FILE = "origin.json"
_FORMAT = "run-origin/2"

#: Packages whose versions a run records.
_PACKAGES = (
    *("fedselect", "numpy", "scipy", "numba", "networkx", "cvxpy", "ortools", "highspy", "scikit-learn", "torch"),
    *("flwr", "ray"),
)

#: Facts among the versions that decide no number: what transports a run, and the machine's name.
_NOT_DECIDING = ("flwr", "ray", "machine")

#: Larger files are known by their size and their two ends.
_WHOLE = 256 * 2**20
_END = 2**20

#: Folders with more files are known by their files' names and sizes.
_MANY = 5000


@dataclass(frozen=True)
class Origin:
    """Provenance of a run.

    Attributes
    ----------
    files : dict of str to str
        Digests of the files and folders that the configuration names.
    code : dict of str to str
        Digests of the code of plugins, by component: "selector 'mine' (my_parts.py)".
    versions : dict of str to str
        Versions of Python and packages, the commit where the code lies in a checkout (``-dirty`` where files differ
        from it), and the machine.
    processor : str
        Machine and vector instructions, on which the bits of a sum depend.
    changes : tuple of str
        What was different when the run was continued, a sentence each time.
    """

    files: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    processor: str = ""
    changes: tuple[str, ...] = ()

    def difference(self, before: Origin) -> str:
        """Say of a file that has changed since ``before``; empty where none has."""
        changed = [path for path, digest in self.files.items() if before.files.get(path) != digest]
        return f"{changed[0]} has changed since" if changed else ""

    def changed_since(self, before: Origin, finished: bool) -> str:
        """Say which code and versions, and of a stopped run which processor, were others before; empty where none."""
        said = [
            f"the code of {what} has changed since" if what in before.code else f"it was made without {what}"
            for what, of in self.code.items()
            if before.code.get(what) != of
        ]
        for package, version in before.versions.items():
            here = self.versions.get(package, version)
            if package not in _NOT_DECIDING and here != version:
                said.append(f"it was made with {package} {version}, and here is {here}")
        if not finished and before.processor != self.processor:
            said.append(f"it was begun on another processor ({before.processor}), and does not go on to the same bits")
        return "; ".join(said)

    def write(self, path: Path) -> None:
        """Write it to a file, ``origin.json`` where ``path`` is a folder."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        write_atomically(path / _FILE if path.is_dir() else path, text.encode())


def read_origin(path: Path) -> Origin | None:
    """Read the file of `Origin.write`; None where there is none, `RunError` where it cannot be read."""
    path = path / _FILE if path.is_dir() else path
    if not path.exists():
        return None
    try:
        found = read_json(path)
        if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
            raise Unreadable(f"it is not of the format {_FORMAT!r}")
        changes = found.pop("changes", [])
        for key in ("files", "code", "versions"):
            if not (isinstance(found.get(key), dict) and all(isinstance(each, str) for each in found[key].values())):
                raise Unreadable(f"its {key} must be texts by name")
        if not isinstance(changes, list) or not all(
            isinstance(each, str) for each in [found.get("processor"), *changes]
        ):
            raise Unreadable("its processor must be text, and its changes a list of texts")
        return Origin(**found, changes=tuple(changes))
    except (OSError, Unreadable, TypeError) as error:
        raise RunError(f"cannot read {path}: {error}; remove it or choose another output folder") from error


def origin_of(experiment: Experiment) -> Origin:
    """Return the provenance of a run of this experiment, as it would be made now."""
    builders = {f"{registry.kind} {choice.name!r}": registry[choice.name] for registry, choice in experiment.choices}
    builders |= {f"method {each.name!r}": each.function for each in _methods(experiment.selector.options)}
    # Those of a model are among the choices, as a configuration names them.
    own = [each for each in MEASURES.snapshot()[0].values() if each.of != "model" and is_user_defined(each)]
    builders |= {f"measure {each.name!r}": each.compute for each in own}
    code = {f"{what} ({place(each)})": code_digest(each) for what, each in builders.items() if is_user_defined(each)}
    return Origin(files_of(experiment), code, _versions(), _processor())


def files_of(experiment: Experiment) -> dict[str, str]:
    """Return digests of the files and folders that a configuration names."""
    paths = [path for registry, choice in experiment.choices for path in registry.files(choice.name, choice.options)]
    if experiment.training.initial_model is not None:
        paths.append(Path(experiment.training.initial_model))
    return {placed(str(path)): file_digest(path) for path in paths}


def _methods(options: Mapping[str, Any]) -> Iterator[Method]:
    """Yield the solver methods that an option names."""
    named = {value for value in options.values() if isinstance(value, str)}
    for problem in Problem.types():
        yield from (each for each in methods(problem) if each.name in named)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    known = commit()
    return installed(_PACKAGES) | ({} if known is None else {"commit": known}) | {"machine": machine()}


def _processor() -> str:
    """Return the machine and the vector instructions that NumPy found, which decide how its sums are rounded."""
    features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__  # as numpy.show_runtime has it
    found = [name for name in ("AVX2", "FMA3", "AVX512F", "AVX512_SKX", "ASIMD", "SVE") if features.get(name)]
    return " ".join([platform.machine(), *found])


def place(builder: Any) -> str:
    """Name the place of a user's function or class: its file, or itself where it has none."""
    file = getattr(sys.modules.get(module_name(builder)), "__file__", None)
    return Path(file).name if file else f"{getattr(builder, '__qualname__', builder)}, defined at a prompt"


def code_digest(builder: Any) -> str:
    """Return sixteen hexadecimal digits of the text of a function or class; empty where there is none.

    It is the text of its whole module, but of the definition alone in a script that is run, or a notebook, where the
    same text holds the experiment and what is done with its results.
    """
    module = sys.modules.get(module_name(builder))
    file = getattr(module, "__file__", None)
    if file is not None and module is not None and module.__name__ not in ("__main__", "__mp_main__"):
        return file_digest(file)
    try:
        return hashlib.sha256(inspect.getsource(builder).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def file_digest(path: str | Path) -> str:
    """Return sixteen hexadecimal digits of the content of a file or a folder; ``"missing"`` where there is none.

    Names of a folder's files count, its own name and times do not. Of a file above 256 MiB its size and its two ends
    count, of a folder with more than 5 000 files their names and sizes. What cannot be read is ``"missing"``, too.

    Raises
    ------
    RunError
        When it is a pipe or a device, which may have no end.
    """
    path = Path(path)
    try:
        if not path.is_dir():
            return _one_file(path)
        found = sorted(each for each in path.rglob("*") if each.is_file())
        digest = hashlib.sha256()
        for each in found:
            held = str(each.stat().st_size) if len(found) > _MANY else _one_file(each)
            digest.update(f"{each.relative_to(path).as_posix()}\0{held}\n".encode())
        return digest.hexdigest()[:16] if found else "missing"
    except OSError:
        return "missing"


def _one_file(path: Path) -> str:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise RunError(f"cannot read {path}: it is a pipe or a device, and no file or folder")
    return _digest(str(path.resolve()), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=100_000)
def _digest(path: str, size: int, modified: int) -> str:
    """Size and time are there to ask again when they change."""
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as stream:
        if size <= _WHOLE:
            while block := stream.read(_END):
                digest.update(block)
        else:
            digest.update(stream.read(_END))
            stream.seek(-_END, 2)
            digest.update(stream.read(_END))
    return digest.hexdigest()[:16]
