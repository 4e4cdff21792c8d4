"""Provenance of a run: digests of code and files, versions, processor; and what has changed since.

A run folder is named by its configuration. What the configuration only *names* may change while the name stays: the
code of a plugin's selector, the lines of a trace, the packages that are installed. A run therefore records its
provenance, and a folder whose run has another one is not taken for this one.

User-defined code (a selector, a model, a data set) is known by the text of its module, and by that of the user's
modules that it uses. In a script that is run, a notebook or at a prompt, where the same text holds the experiment and
what is done with its results, it is known by what it compiles to, with every function, class and value that it names:
a picture drawn at the end of a script is no reason to train again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import stat
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import fedselect
import graphs
import solvers
from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.clock import CLOCKS
from fedselect.data import DATASETS, PARTITIONS
from fedselect.errors import RunError
from fedselect.options import Registry, placed
from fedselect.plugins import TOOLKIT, is_user_defined, module_name
from fedselect.selectors import SELECTORS
from solvers import Method, methods
from solvers.environment import installed
from solvers.files import write_atomically
from solvers.problem import Problem
from solvers.reading import read_json

if TYPE_CHECKING:
    from fedselect.experiments.config import Choice, Experiment

__all__ = [
    "PACKAGES",
    "Origin",
    "code_digest",
    "file_digest",
    "files_of",
    "origin_here",
    "origin_of",
    "package_sources",
    "place",
    "read_origin",
]


#: Larger files are known by their size and their two ends.
_WHOLE = 256 * 2**20
_END = 2**20

#: Folders with more files are known by their files' names and sizes.
_MANY = 5000

#: Where the code is that decides a run. What only shows, records or drives it may change.
_DECIDING = (
    (
        fedselect,
        (
            "availability",
            "clock",
            "data",
            "rounds",
            "selectors",
            "training",
            "embeddings.py",
            "randomness.py",
            "tables.py",
        ),
    ),
    (graphs, (".",)),
    (solvers, (".",)),
)
_NOT_DECIDING = {"benchmark", "instances", "files.py", "reading.py", "environment.py"}


def file_digest(path: str | Path) -> str:
    """Return sixteen hexadecimal digits of the content of a file or a folder; ``"missing"`` where there is none.

    Names of a folder's files count, its own name and times do not. A file that cannot be read counts as missing: the
    code that needs it says so.

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


@lru_cache(maxsize=1)
def package_sources() -> dict[str, str]:
    """Return digests of the toolkit's own code that decides a run, by room: ``"fedselect/selectors"``, ``"graphs"``."""
    rooms: dict[str, str] = {}
    for package, parts in _DECIDING:
        home = Path(package.__path__[0])
        for part in parts:
            place = home / part
            files = [place] if place.is_file() else sorted(place.rglob("*.py"))
            digest = hashlib.sha256()
            for file in files:
                relative = file.relative_to(home)
                if package is solvers and relative.parts[0] in _NOT_DECIDING:
                    continue
                digest.update(f"{relative.as_posix()}\0".encode() + file.read_bytes())
            rooms[(Path(home.name) / part).as_posix()] = digest.hexdigest()[:16]
    return rooms


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


#: Attributes of a class that its text does not decide, or that are visited elsewhere.
_NOT_CODE = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}


def place(builder: Any) -> str:
    """Name the place of a user's function or class: its file, or itself where it has none."""
    file = getattr(sys.modules.get(module_name(builder)), "__file__", None)
    return Path(file).name if file else f"{getattr(builder, '__qualname__', builder)}, defined at a prompt"


def code_digest(builder: Any) -> str:
    """Return sixteen hexadecimal digits of the code of a function or class, and of all user's code that it uses."""
    digest = hashlib.sha256()
    for part in sorted(set(_texts(builder, set()))):
        digest.update(part.encode() + b"\n")
    return digest.hexdigest()[:16]


def _texts(thing: Any, seen: set[Any]) -> Iterator[str]:
    """Yield texts that determine ``thing``; none for what was seen, and for code of the toolkit or a package."""
    if isinstance(thing, (bool, int, float, complex, str, bytes, type(None))):
        yield repr(thing)
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, (tuple, list)):
        yield from _joined(thing, seen)
    elif isinstance(thing, dict):
        yield from _joined([part for item in thing.items() for part in item], seen)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype}{thing.shape}{hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
    elif isinstance(thing, ModuleType):
        yield from _module_texts(thing, seen)
    elif isinstance(thing, partial):
        yield from _joined([thing.func, thing.args, thing.keywords], seen)
    elif isinstance(thing, MethodType):
        yield from _texts(thing.__func__, seen)
    elif isinstance(thing, (FunctionType, type)) and is_user_defined(thing):
        yield from _definition(thing, seen)


def _definition(thing: FunctionType | type, seen: set[Any]) -> Iterator[str]:
    """Yield the texts of a function or class: its module's text with its closure, or its compiled code."""
    module = sys.modules.get(module_name(thing))
    if _elsewhere(module):
        return
    written = _source(module) is not None
    if written and module is not None:
        yield thing.__qualname__
        yield from _module_texts(module, seen)
    if isinstance(thing, type):
        yield from _class_texts(thing, seen)
    else:
        yield from _closure(thing, seen) if written else _function_texts(thing, seen)


def _joined(things: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the texts of a collection's members, and one that keeps the plain ones in their order."""
    found = [list(_texts(each, seen)) for each in things]
    yield f"[{', '.join(each[0] if len(each) == 1 else '...' for each in found)}]"
    for each in found:
        yield from each


def _module_texts(module: ModuleType, seen: set[Any]) -> Iterator[str]:
    """Yield name and digest of a user's module, and of those that it uses."""
    source = _source(module)
    if source is None or module.__name__ in seen:
        return
    seen.add(module.__name__)
    yield f"{source.name} {file_digest(source)}"
    for value in list(vars(module).values()):
        used = value if isinstance(value, ModuleType) else sys.modules.get(module_name(value))
        if used is not None and used is not module:
            yield from _module_texts(used, seen)


def _function_texts(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    named: set[str] = set()
    yield f"{function.__qualname__} {_compiled(function.__code__, named)}"
    yield from _closure(function, seen)
    for name in sorted(named & function.__globals__.keys()):
        yield from (f"{name} = {part}" for part in _texts(function.__globals__[name], seen))


def _closure(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    yield from _joined([function.__defaults__, function.__kwdefaults__], seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue
        if not isinstance(value, (list, dict, set)):  # these are state rather than settings
            yield from (f"{name} = {part}" for part in _texts(value, seen))


def _class_texts(kind: type, seen: set[Any]) -> Iterator[str]:
    for base in kind.__bases__:
        yield from _texts(base, seen)
    for name, value in vars(kind).items():
        if name not in _NOT_CODE:
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            yield from (f"{kind.__qualname__}.{name} = {part}" for part in _texts(inner, seen))


def _compiled(code: CodeType, named: set[str]) -> str:
    """Digest compiled code without lines and file names; the names it looks up go to ``named``."""
    named.update(code.co_names)
    constants = [
        _compiled(each, named)
        if isinstance(each, CodeType)
        else repr(sorted(each, key=repr) if isinstance(each, frozenset) else each)  # whose own order is of this process
        for each in code.co_consts
    ]
    text = f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"
    return hashlib.sha256(text.encode()).hexdigest()


def _source(module: ModuleType | None) -> Path | None:
    """Return the file of a user's imported module; None for a script, a notebook, the toolkit and packages."""
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    if file is None or name in ("__main__", "__mp_main__") or name.partition(".")[0] in TOOLKIT or _elsewhere(module):
        return None
    return Path(file)


def _elsewhere(module: ModuleType | None) -> bool:
    """Return True for a module of Python or an installed package, which are known by their versions."""
    if module is None or module.__name__ in ("__main__", "__mp_main__"):
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    homes = [Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(Path(file).resolve().is_relative_to(home) for home in homes)


_FILE = "origin.json"
_FORMAT = "run-origin/1"

#: Packages whose versions a run records.
PACKAGES = (
    *("fedselect", "numpy", "scipy", "numba", "networkx", "cvxpy", "ortools", "highspy", "scikit-learn", "torch"),
    *("flwr", "ray"),
)

#: Those that transport a run and compute nothing in it.
_TRANSPORTS = ("flwr", "ray")


@dataclass(frozen=True)
class Origin:
    """Provenance of a run.

    Attributes
    ----------
    code : dict of str to str
        Digests of the code of plugins, by component: "selector 'mine' (my_parts.py)".
    files : dict of str to str
        Digests of the files and folders that the configuration names.
    sources : dict of str to str
        Digests of the toolkit's own code, by room.
    versions : dict of str to str
        Versions of Python and packages.
    processor : str
        Machine and vector instructions, on which the bits of a sum depend. A finished run of another processor is the
        same run, to rounding; a stopped one cannot be continued to the same bits.
    """

    code: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    processor: str = ""

    def since(self, before: Origin, finished: bool) -> str:
        """Say what has changed since ``before``; empty where nothing has that a run depends on."""
        for what, digest in self.code.items():
            if before.code.get(what) != digest:
                return f"the code of {what} has changed since"
        for path, digest in self.files.items():
            if before.files.get(path) != digest:
                return f"{path} has changed since"
        for package, version in before.versions.items():
            if package not in _TRANSPORTS and self.versions.get(package, version) != version:
                return f"it was made with {package} {version}, and {self.versions[package]} is installed here"
        if changed := [room for room, digest in self.sources.items() if before.sources.get(room) != digest]:
            return f"the toolkit's own code has changed since: {', '.join(changed)}"
        if not finished and before.processor != self.processor:
            return f"it was begun on another processor ({before.processor}), and would not go on to the same bits"
        return ""

    def write(self, path: Path) -> None:
        """Write it to a file, ``origin.json`` where ``path`` is a folder."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        write_atomically(path / _FILE if path.is_dir() else path, text.encode())


def read_origin(path: Path) -> Origin | None:
    """Read the file of `Origin.write`; None where there is none.

    Raises
    ------
    RunError
        When it cannot be read.
    """
    path = path / _FILE if path.is_dir() else path
    if not path.exists():
        return None
    try:
        found = read_json(path)
        if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
            raise ValueError(f"it is not of the format {_FORMAT!r}")
        for key, value in found.items():
            if not (isinstance(value, str) if key == "processor" else _by_name(value)):
                raise ValueError(f"its {key} must be {'text' if key == 'processor' else 'texts by name'}")
        return Origin(**found)
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"cannot read {path}: {error}; remove it or choose another output folder") from error


def _by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def origin_of(experiment: Experiment) -> Origin:
    """Return the provenance of a run of this experiment, as it would be made now."""
    builders = {f"{registry.kind} {choice.name!r}": registry[choice.name] for registry, choice in _parts(experiment)}
    builders |= {f"method {each.name!r}": each.function for each in _methods(experiment.selector.options)}
    code = {f"{what} ({place(each)})": code_digest(each) for what, each in builders.items() if is_user_defined(each)}
    return origin_here(code, files_of(experiment))


def origin_here(code: dict[str, str], files: dict[str, str]) -> Origin:
    """Return a provenance of these digests, with the toolkit's code, versions and processor as they are here."""
    return Origin(code, files, package_sources(), _versions(), _processor())


def files_of(experiment: Experiment) -> dict[str, str]:
    """Return digests of the files and folders that a configuration names."""
    paths = [path for registry, choice in _parts(experiment) for path in registry.files(choice.name, choice.options)]
    return {placed(str(path)): file_digest(path) for path in paths}


def _parts(experiment: Experiment) -> Iterator[tuple[Registry, Choice]]:
    """Yield every choice of a configuration with its registry."""
    from fedselect.experiments.config import Choice
    from fedselect.training.losses import LOSSES
    from fedselect.training.models import MODELS

    yield SELECTORS, experiment.selector
    yield AVAILABILITY, experiment.availability
    yield DROPOUT, experiment.dropout
    if experiment.clock is not None:
        yield CLOCKS, experiment.clock
    yield DATASETS, experiment.data
    partition = experiment.data.options.get("partition", DATASETS.options(experiment.data.name).get("partition"))
    if isinstance(partition, str):
        yield PARTITIONS, Choice(partition)
    yield MODELS, Choice(experiment.training.model, experiment.training.model_options)
    if experiment.training.loss != "auto":
        yield LOSSES, Choice(experiment.training.loss)


def _methods(options: Mapping[str, Any]) -> Iterator[Method]:
    """Yield the solver methods that an option names."""
    named = {value for value in options.values() if isinstance(value, str)}
    for problem in Problem.types():
        yield from (each for each in methods(problem) if each.name in named)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return installed(PACKAGES)


def _processor() -> str:
    """Return the machine and the vector instructions that NumPy found, which decide how its sums are rounded."""
    features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__  # as numpy.show_runtime has it
    found = [name for name in ("AVX2", "FMA3", "AVX512F", "AVX512_SKX", "ASIMD", "SVE") if features.get(name)]
    return " ".join([platform.machine(), *found])
