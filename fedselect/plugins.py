"""Plugins: scripts and modules that register selectors, models, data sets, availability and solver methods.

``fedselect run --load my_parts.py``, or ``load = ["my_parts.py"]`` in a configuration. A script is run once per
process, and again when it has changed; ``package.module`` is imported; of ``package.module:Name`` the class is
registered under its own name where the module does not do it: a ``torch.nn.Module`` as a model, a class with ``select``
as a selector.

`worker_payload` serialises what is registered here for another process, or another machine under Ray or Dask, where
`load_payload` registers it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.clock import CLOCKS
from fedselect.data import DATASETS, PARTITIONS
from fedselect.errors import TOOLKIT_ERRORS, ConfigError
from fedselect.measures import MEASURES, Measure
from fedselect.options import Registry
from fedselect.selectors import SELECTORS
from fedselect.training.corruption import CORRUPTIONS
from fedselect.training.losses import LOSSES, METRICS
from fedselect.training.models import MODELS
from fedselect.training.server_rules import SERVER_RULES
from solvers.options import did_you_mean
from solvers.reading import Unreadable, read_bytes
from solvers.registry import Method, method_registries, put

#: What a script may register, beside solver methods.
REGISTRIES: tuple[Registry, ...] = (
    SELECTORS,
    AVAILABILITY,
    DROPOUT,
    CLOCKS,
    DATASETS,
    PARTITIONS,
    MODELS,
    LOSSES,
    SERVER_RULES,
    CORRUPTIONS,
    METRICS,
    MEASURES,
)

_log = logging.getLogger(__name__)

#: Packages whose components are not a user's.
TOOLKIT = ("fedselect", "solvers", "graphs")

#: Registered components by kind and name: the function or class that builds one, a `Method` for solver methods.
Components = dict[tuple[str, str], Any]


@dataclass(frozen=True)
class Plugin:
    """One source of registered components.

    Attributes
    ----------
    source : str
        As it is to be written in a configuration: a script's absolute path, or what was given.
    text : bytes
        The script; empty for modules.
    parts : tuple of (str, str)
        Kind and name of the components that it registered.
    """

    source: str
    text: bytes
    parts: tuple[tuple[str, str], ...]


_loaded: dict[str, Plugin] = {}


def load_plugins(sources: Iterable[str], beside: str | Path | None = None) -> tuple[str, ...]:
    """Load scripts and modules; a script that is loaded already and unchanged, or a module, is left as it is.

    Parameters
    ----------
    sources : iterable of str
        Scripts (``.py``) or modules.
    beside : path-like, optional
        The folder that relative paths of scripts start from; the current one if left out.

    Returns
    -------
    tuple of str
        The sources as another process finds them: scripts with their absolute paths.

    Raises
    ------
    ConfigError
        When a source is no text, is named twice, is not there, cannot be imported, registers nothing, or registers a
        name that is taken.
    """
    found = find_sources(sources, beside)
    for name, source in found.items():
        _load(name, source)
    return tuple(found)


def find_sources(sources: Iterable[str], beside: str | Path | None = None) -> dict[str, str]:
    """Return the sources as another process finds them, with what was given.

    Raises
    ------
    ConfigError
        When a source is no text, or is named twice.
    """
    found: dict[str, str] = {}
    for source in sources:
        if not isinstance(source, str) or not source.strip():
            raise ConfigError(f"load names scripts or modules as texts; got {source!r}")
        name = str(Path(beside or ".", source).resolve()) if source.endswith(".py") else source
        if name in found:
            raise ConfigError(f"{source} is loaded twice; name it once")
        found[name] = source
    return found


def loaded_plugins() -> tuple[Plugin, ...]:
    """Return the plugins loaded in this process, in order."""
    return tuple(_loaded.values())


def user_plugins() -> Components:
    """Return the components registered here that are not the toolkit's, by kind and name."""
    return {key: part for key, part in _registered().items() if is_user_defined(part)}


def module_name(part: Any) -> str:
    """Return the name of the module in which a component is defined; empty where it has none."""
    name = getattr(_built(part), "__module__", None)
    return name if isinstance(name, str) else ""


def is_user_defined(part: Any) -> bool:
    """Return True for a function, class or `Method` that is not the toolkit's."""
    return module_name(part).partition(".")[0] not in TOOLKIT


def _load(name: str, typed: str) -> None:
    is_script = name.endswith(".py")
    if ".py:" in name:
        script, _, wanted = typed.partition(":")
        raise ConfigError(
            f"{typed} names a class of a script: give {Path(script).stem}:{wanted}, which registers it so, or "
            f"{script}, with @SELECTORS.register('my-selector') over {wanted} or a builder of it"
        )
    text = b""
    if is_script:
        try:
            text = read_bytes(name)
        except FileNotFoundError:
            raise ConfigError(f"there is no script {typed}") from None
        except Unreadable as error:
            raise ConfigError(f"cannot load {typed}: {error}") from None
    known = _loaded.get(name)
    if known is not None and known.text == text:
        return
    _log.info("loading %s, which executes it", name)
    before = _registered()
    if known is not None:  # the script has changed since, in a notebook, say
        before = {key: builder for key, builder in before.items() if key not in known.parts}
        _forget(known)
    try:
        module, wanted = _script(name) if is_script else _imported(name)
        if wanted:
            _register_class(module, wanted, name)
        parts = _new(before, name)
    except ConfigError:
        _put_back(before)
        raise
    _loaded[name] = Plugin(name, text, parts)


def _new(before: Components, name: str) -> tuple[tuple[str, str], ...]:
    """Return the keys registered since; raise `ConfigError` where there are none, or one was taken."""
    now = _registered()
    taken = [(key, before[key]) for key in before if now.get(key) is not before[key]]
    if taken:
        (kind, part), builder = taken[0]
        whose = next((each.source for each in _loaded.values() if (kind, part) in each.parts), module_name(builder))
        raise ConfigError(f"{name} registers {kind} {part!r}, which there is already, from {whose}; rename it")
    parts = tuple(key for key in user_plugins() if key not in before)
    if not parts and not name.endswith(".py"):  # an earlier import has registered them
        parts = tuple(key for key, part in user_plugins().items() if module_name(part) == name.partition(":")[0])
    if not parts:
        kinds = ", ".join(registry.kind for registry in REGISTRIES)
        raise ConfigError(
            f"{name} registers no part: decorate one, with @SELECTORS.register('my-selector') say "
            f"(there are registries of every {kinds}, and solvers.method)"
        )
    return parts


def _script(name: str) -> tuple[ModuleType, str]:
    """Run a script as a module."""
    import cloudpickle  # type: ignore[import-untyped]

    path = Path(name)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # Two scripts of one name are two modules.
    label = f"loaded_{path.stem}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    specification = importlib.util.spec_from_file_location(label, path)
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[label] = importlib.util.module_from_spec(specification)
    # No other process finds a module of this name: its definitions are sent by value.
    cloudpickle.register_pickle_by_value(module)
    with _loading(name):
        specification.loader.exec_module(module)
    return module, ""


def _imported(name: str) -> tuple[ModuleType, str]:
    if "" not in sys.path:
        sys.path.insert(0, "")
    module, _, wanted = name.partition(":")
    with _loading(name):
        return importlib.import_module(module), wanted


def _register_class(module: ModuleType, wanted: str, source: str) -> None:
    """Register the class that was named, where it is not yet."""
    thing = getattr(module, wanted, None)
    if thing is None:
        raise ConfigError(f"{module.__name__} has no {wanted!r}{did_you_mean(wanted, vars(module))}")
    if any(getattr(_built(part), "__wrapped__", _built(part)) is thing for part in user_plugins().values()):
        return
    if "torch" in sys.modules and isinstance(thing, type) and issubclass(thing, sys.modules["torch"].nn.Module):
        MODELS.register(wanted)(_maker(thing))
    elif isinstance(thing, type) and callable(getattr(thing, "select", None)):
        SELECTORS.register(wanted)(thing)
    else:
        raise ConfigError(
            f"{source}: {wanted} is neither a torch.nn.Module nor a class with select, and is not "
            "registered; register it in its module"
        )


def _maker(kind: type) -> Callable[..., Any]:
    def build(federation: Any) -> Any:
        from fedselect.training.models import made

        return made(kind, federation)

    build.__module__, build.__qualname__, build.__doc__ = kind.__module__, kind.__qualname__, kind.__doc__
    return build


def _registries() -> tuple[Any, ...]:
    """The toolkit's registries, and those of methods."""
    return (*REGISTRIES, *method_registries())


def _registered() -> Components:
    return {(registry.kind, name): registry[name] for registry in _registries() for name in registry.names}


def _put_back(before: Components) -> None:
    """Restore the registries, except for components that the toolkit registered meanwhile."""
    for key, builder in _registered().items():
        if key in before and before[key] is not builder:
            register(key[0], key[1], before[key])
        elif key not in before and key in user_plugins():
            _discard(*key)


def _forget(known: Plugin) -> None:
    for key in known.parts:
        _discard(*key)
    del _loaded[known.source]


def register(kind: str, name: str, builder: Any) -> None:
    """Register a component, as its decorator would."""
    if isinstance(builder, Method):
        put(builder)
    else:
        next(each for each in REGISTRIES if each.kind == kind).put(name, builder)


def _discard(kind: str, name: str) -> None:
    for registry in _registries():
        if registry.kind == kind:
            registry.discard(name)


def _built(part: Any) -> Any:
    return part.function if isinstance(part, Method) else part.compute if isinstance(part, Measure) else part


@contextmanager
def _loading(source: str) -> Iterator[None]:
    """Turn whatever a plugin raises into a sentence with the line it came from."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except TOOLKIT_ERRORS as error:
        raise ConfigError(f"cannot load {source}: {error}") from error
    except SyntaxError as error:
        raise ConfigError(f"cannot load {source}: line {error.lineno} of {error.filename}: {error.msg}") from error
    except BaseException as error:  # SystemExit too: a script that ends itself registers nothing
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = "".join(traceback.format_exception_only(error)).strip()
        where = "" if last.filename.startswith("<frozen") else f"line {last.lineno} of {last.filename}: "
        raise ConfigError(f"cannot load {source}: {where}{said}") from error


#: Digests of the payloads that this process has loaded.
_loaded_payloads: set[str] = set()


def worker_payload(needed: Collection[tuple[str, str]]) -> bytes:
    """Serialise the user-registered components for a worker process; empty where there are none.

    Scripts that were loaded are sent as text, importable modules by name, and all others (of a script that is run, a
    notebook, a test) by value.

    Parameters
    ----------
    needed : collection of (str, str)
        Kind and name of the components that must arrive; of the others those that can be sent are sent, too.

    Raises
    ------
    ConfigError
        When one that is needed cannot be sent.
    """
    own = user_plugins()
    if not own:
        return b""
    scripts = [(each.source, each.text) for each in loaded_plugins()]
    there = {part for each in loaded_plugins() for part in each.parts}
    modules, values = [], []
    for key, builder in own.items():
        if key in there:
            continue
        home = module_name(builder)
        if _importable(home):
            modules.append(home)
            continue
        try:
            values.append((*key, _by_value(builder, home)))
        except Exception as error:
            if key in needed:
                raise ConfigError(f"{key[0]} {key[1]!r} (of {home}) cannot be sent to a worker: {error}") from error
    return pickle.dumps((scripts, sorted(set(modules)), values))


def load_payload(packed: bytes) -> None:
    """Register in this process what `worker_payload` serialised in another; idempotent."""
    digest = hashlib.sha256(packed).hexdigest()
    if not packed or digest in _loaded_payloads:
        return
    scripts, modules, values = pickle.loads(packed)
    own = user_plugins()
    for source, text in scripts:
        load_plugins([_placed(source, text)])
    for module in modules:
        importlib.import_module(module)
    for kind, name, value in values:
        if (kind, name) not in own:
            register(kind, name, pickle.loads(value))
    _loaded_payloads.add(digest)


def _placed(source: str, text: bytes) -> str:
    """Return the script's path on this machine: its own, or a temporary one where that holds something else."""
    path = Path(source)
    if not source.endswith(".py"):
        return source
    try:
        if path.read_bytes() == text:
            return source
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"fedselect-{hashlib.sha256(text).hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(text)
    return str(folder / path.name)


def _importable(module: str) -> bool:
    """Return True if another process can import a module by its name."""
    if not module or module in ("__main__", "__mp_main__"):
        return False
    try:
        specification = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    known = getattr(sys.modules.get(module), "__file__", None)
    return specification is not None and (known is None or specification.origin == known)


def _by_value(builder: Any, home: str) -> bytes:
    import cloudpickle

    module = sys.modules.get(home)
    by_value = module is not None and home not in ("__main__", "__mp_main__")
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(builder)
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
