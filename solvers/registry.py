"""Registries: entries by name, with checked options; and the registry of methods for each type of problem."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from solvers.environment import how_to_install
from solvers.errors import InvalidOption, InvalidProblem, MissingBackend, UnknownMethod
from solvers.options import annotation_of, check_options, default_in_words, describe_type, did_you_mean, options
from solvers.problem import Problem

Entry = TypeVar("Entry")
Function = TypeVar("Function", bound=Callable[..., Any])
Kind = Literal["exact", "relaxation", "heuristic"]


class Registry(Generic[Entry]):
    """Entries by name, and by the other names people know.

    An entry is a function or class whose keyword-only parameters are its options, or has such a ``function``.

    Parameters
    ----------
    kind : str
        What an entry is, for messages: "selector", say.
    error : type
        The exception for an unknown name and for options that are not accepted.
    """

    def __init__(self, kind: str, error: type[Exception] = InvalidOption) -> None:
        self.kind = kind
        self.error = error
        self._entries: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}

    def put(self, name: str, entry: Entry, *aliases: str) -> None:
        """Register an entry; one of the same name is replaced."""
        self._entries[name] = entry
        self._aliases.update(dict.fromkeys(aliases, name))

    def discard(self, name: str) -> None:
        """Forget an entry and its other names, where there is one."""
        self._entries.pop(name, None)
        self._aliases = {alias: known for alias, known in self._aliases.items() if known != name}

    def snapshot(self) -> tuple[dict[str, Entry], dict[str, str]]:
        """Return what is registered, for `restore`."""
        return dict(self._entries), dict(self._aliases)

    def restore(self, state: tuple[Mapping[str, Entry], Mapping[str, str]]) -> None:
        """Register what was registered at a `snapshot`; later entries are forgotten."""
        self._entries, self._aliases = dict(state[0]), dict(state[1])

    @property
    def names(self) -> list[str]:
        """Registered names, sorted, without aliases."""
        return sorted(self._entries)

    def name_of(self, name: object) -> str:
        """Return the registered name that a name or alias stands for; raise the registry's error when there is none."""
        if not isinstance(name, str):
            raise self.error(f"a {self.kind} is named by a text ({', '.join(self.names)}); got {name!r:.80}")
        name = self._aliases.get(name, name)
        if name not in self._entries:
            hint = did_you_mean(name, self._entries)
            raise self.error(f"there is no {self.kind} {name!r}{hint} (known: {', '.join(self.names)})")
        return name

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of this name or alias; raises the registry's error when there is none."""
        return self._entries[self.name_of(name)]

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of an entry and their defaults (``inspect.Parameter.empty`` where one is required)."""
        return options(_function(self[name]))

    def summary(self, name: str) -> str:
        """Return the first line of an entry's docstring."""
        return (inspect.getdoc(_function(self[name])) or "").partition("\n")[0]

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Raise the registry's error when the name or an option is unknown, missing or not accepted."""
        check_options(f"{self.kind} {name!r}", _function(self[name]), given, self.error)


def _function(entry: Any) -> Callable[..., Any]:
    return entry.function if isinstance(entry, Method) else entry


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # what it is a part of
        return False


#: What `solvers.solve` takes for itself, so that no method would ever be given it.
TAKEN = (
    "method", "time_limit", "gap", "target", "seed", "start", "bound_by", "certificate", "watch", "log",
    "pool", "within", "diverse", "veto", "stop", "on_error", "work_limit",
)  # fmt: skip

_methods: dict[type[Problem], Registry[Method]] = {}


@dataclass(frozen=True)
class Method:
    """A registered method.

    Attributes
    ----------
    name : str
        The name `solve` takes.
    kind : {"exact", "relaxation", "heuristic"}
        Exact methods can prove optimality, given time and a problem of a size that they manage; relaxations give a
        bound; heuristics promise a decision alone.
    problem : type
        The problem type it solves.
    function : callable
        ``function(problem, run, **options)``.
    requires : tuple of str
        Import names of the packages that it needs and that may be missing.
    install : str
        The argument of ``pip install`` that brings them.
    summary : str
        First line of the function's docstring.
    accepts : callable, optional
        ``accepts(problem)`` returns None where the method takes a problem, and a sentence that says why not elsewhere.
    constraints : bool
        Whether the method keeps side constraints (`solvers.constraints`); one that does not refuses a problem that has
        any.
    pool : bool
        Whether the method looks at ``run.pool``, where there is one: it offers every selection that may be a member,
        and bounds all others (`solvers.search.Incumbents`).
    work : bool
        Whether the method counts its work (`solvers.Run.spend`), so that ``work_limit`` ends it.
    """

    name: str
    kind: Kind
    problem: type[Problem]
    function: Callable[..., Any]
    requires: tuple[str, ...] = ()
    install: str = ""
    summary: str = ""
    accepts: Callable[[Any], str | None] | None = None
    constraints: bool = False
    pool: bool = False
    work: bool = False

    def check_work(self, problem: Problem | type[Problem]) -> None:
        """Raise `InvalidOption` unless the method counts its work; the sentence names those of the problem that do."""
        if not self.work:
            able = ", ".join(repr(each.name) for each in methods(problem) if each.work)
            raise InvalidOption(
                f"work_limit needs a method that counts its work, and {self.name!r} does not; methods of this problem "
                f"that do: {able or 'none'} (time_limit ends every method)"
            )

    def refusal(self, problem: Problem | type[Problem]) -> str | None:
        """Return why the method does not take a problem; None where it does, and for a type, of which all is open."""
        if isinstance(problem, Problem) and problem.is_constrained and not self.constraints:
            able = ", ".join(repr(each.name) for each in _known(problem).values() if each.constraints)
            return f"method {self.name!r} does not keep side constraints; methods of this problem that do: {able}"
        return None if self.accepts is None or isinstance(problem, type) else self.accepts(problem.solved_as)

    def check_pool(self, problem: Problem | type[Problem]) -> None:
        """Raise `InvalidOption` unless the method keeps a pool, and the problem states no range of sizes."""
        if not self.pool:
            able = ", ".join(repr(each.name) for each in methods(problem) if each.pool)
            raise InvalidOption(
                f"method {self.name!r} keeps no pool, so it takes none of pool, within, diverse and veto; methods of "
                f"this problem that do: {able or 'none'}"
            )
        if getattr(problem, "fillers", 0):
            raise InvalidOption(
                "pool, within, diverse and veto need a problem that says how many are chosen; this one has a range: "
                "state it with each number by itself"
            )

    @property
    def missing(self) -> tuple[str, ...]:
        """The required packages that are not installed here."""
        return tuple(package for package in self.requires if not _is_there(package))

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options and their defaults."""
        return options(self.function)

    @property
    def threads(self) -> bool:
        """Whether the method runs in several threads, as many as its option ``threads`` says."""
        return "threads" in self.options

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise `InvalidOption` where an option is unknown, missing, or does not match its annotation."""
        check_options(f"method {self.name!r}", self.function, given, InvalidOption, ("threads", *TAKEN))

    def describe(self) -> str:
        """Return what the method is and what it needs, and a line per option: what it accepts, and its default."""
        lines = [f"{self.name} ({self.kind}, for a {self.problem.__name__}): {self.summary}"]
        if self.requires:
            lines.append(f"  needs {', '.join(self.requires)}: pip install '{self.install}'")
        for option, default in self.options.items():
            kind = annotation_of(self.function, option)
            accepted = "anything" if kind is None else describe_type(kind)
            stands = "required" if default is inspect.Parameter.empty else default_in_words(default)
            lines.append(f"  {option}: {accepted}; {stands}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Method({self.name!r}, kind={self.kind!r}, requires={self.requires!r})"


def method(
    problem: type[Problem],
    name: str,
    *,
    kind: Kind,
    requires: tuple[str, ...] | str = (),
    install: str = "",
    accepts: Callable[[Any], str | None] | None = None,
    constraints: bool = False,
    pool: bool = False,
    work: bool = False,
) -> Callable[[Function], Function]:
    """Register a function as a method for a problem type.

    The function is called as ``function(problem, run, **options)``. Its options are its keyword-only parameters, and
    are checked against their annotations before it is called: ``restarts: Annotated[int, AtLeast(0)] = 0``. It offers
    decisions and bounds through the `Run` as it finds them, or simply returns a decision.

    Parameters
    ----------
    problem : type
        The problem type; the method is offered for its subclasses too.
    name : str
        Name to solve by; registering it again for the same type replaces the earlier method.
    kind : {"exact", "relaxation", "heuristic"}
        What the method promises.
    requires : str or tuple of str
        Import names of packages that it needs and that may be missing.
    install : str
        The argument of ``pip install`` that brings them; defaults to their names.
    accepts : callable, optional
        ``accepts(problem)`` returns None for a problem that the method takes, and the sentence of the error for any
        other; by default it takes all problems of the type. It must be quick beside the method itself.
    constraints : bool
        Whether every decision it offers keeps the problem's side constraints, and every bound holds for them. By
        default it is not run on a problem that has any.
    pool : bool
        Whether it keeps a pool, see `Method.pool`. By default it is not run where one is asked for.
    work : bool
        Whether it counts its work, see `Method.work`. By default it is not run where work is limited.

    Returns
    -------
    callable
        The decorator; it returns the function unchanged.

    Raises
    ------
    InvalidOption
        When the name is no text or empty, the kind is none of the three, ``problem`` is no problem type or one that is
        solved by another's methods, or an option has the name of one of `solve`'s own arguments but ``threads``.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import method, solve
    >>> from solvers.dispersion import DispersionProblem
    >>> @method(DispersionProblem, "cheapest", kind="heuristic")
    ... def cheapest(problem, run):
    ...     x = np.zeros(problem.n, dtype=int)
    ...     x[np.argsort(problem.costs, kind="stable")[: problem.size]] = 1
    ...     return x
    >>> problem = DispersionProblem(np.ones((3, 3)) - np.eye(3), costs=[3.0, 1.0, 2.0], size=2)
    >>> [int(client) for client in solve(problem, "cheapest").selected]
    [1, 2]
    """
    if not (isinstance(problem, type) and issubclass(problem, Problem)):
        raise InvalidOption(f"a method is registered for a subclass of Problem; got {problem!r}")
    if problem.methods_of is not None:
        raise InvalidOption(
            f"a {problem.__name__} is solved by the methods of a {problem.methods_of.__name__}: register it for that"
        )
    if not (isinstance(name, str) and name):
        raise InvalidOption(f"the name of a method is a text; got {name!r}")
    if kind not in get_args(Kind):
        hint = did_you_mean(kind, get_args(Kind))
        raise InvalidOption(f"there is no kind {kind!r} of methods{hint} (known: {', '.join(get_args(Kind))})")
    packages = (requires,) if isinstance(requires, str) else tuple(requires)

    def register(function: Function) -> Function:
        if taken := sorted(set(TAKEN) & set(inspect.signature(function).parameters)):
            raise InvalidOption(f"method {name!r} cannot have an option {taken[0]!r}: solve takes that for itself")
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        brings = install or " ".join(packages)
        put(Method(name, kind, problem, function, packages, brings, summary, accepts, constraints, pool, work))
        return function

    return register


def put(entry: Method) -> None:
    """Register a method that was made elsewhere: in another process, say."""
    known = _methods.setdefault(entry.problem, Registry(f"method for a {entry.problem.__name__}", UnknownMethod))
    known.put(entry.name, entry)


def method_registries() -> tuple[Registry[Method], ...]:
    """Return the registries of methods, one for each problem type that has any of its own."""
    return tuple(_methods.values())


def snapshot() -> dict[type[Problem], Any]:
    """Return all methods that are registered, for `restore`."""
    return {problem: known.snapshot() for problem, known in _methods.items()}


def restore(state: Mapping[type[Problem], Any]) -> None:
    """Register the methods that were registered at a `snapshot`; later ones are forgotten."""
    for problem, known in _methods.items():
        known.restore(state.get(problem, ({}, {})))


def methods(problem: Problem | type[Problem]) -> list[Method]:
    """Return the methods of a problem type, or those that accept a problem: exact, relaxations, heuristics; by name.

    Parameters
    ----------
    problem : Problem or type
        A problem, or its class.

    Returns
    -------
    list of Method
        Methods that need a missing package are listed too; see `Method.missing`. One that is listed may still refuse
        the problem when it runs, as ``brute-force`` refuses a large one.

    Raises
    ------
    InvalidProblem
        When it is neither.
    """
    if not isinstance(problem, Problem) and not (isinstance(problem, type) and issubclass(problem, Problem)):
        raise InvalidProblem(f"methods takes a problem or its class (DispersionProblem, say); got {problem!r:.80}")
    found = [entry for entry in _known(problem).values() if entry.refusal(problem) is None]
    order = get_args(Kind)
    return sorted(found, key=lambda entry: (order.index(entry.kind), entry.name))


def _known(problem: Problem | type[Problem]) -> dict[str, Method]:
    """Return all methods of a problem's type by name, those of a subclass in the place of inherited ones."""
    kind = _type(problem)
    ancestors = [_methods[each] for each in reversed((kind.methods_of or kind).__mro__) if each in _methods]
    return {name: known[name] for known in ancestors for name in known.names}


def find(problem: Problem | type[Problem], name: str) -> Method:
    """Return the method registered under ``name``, ready to run.

    Raises
    ------
    UnknownMethod
        When there is none; the sentence lists those there are.
    MissingBackend
        When a package it needs is not installed; the sentence says what to install.
    InvalidProblem
        When the method does not accept this problem; the sentence says why.
    """
    known = _known(problem)
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(name, known)
        if name == "auto":
            hint = ": name one, as a family of one's own has no default"
        raise UnknownMethod(
            f"there is no method {name!r} for a {_type(problem).__name__}{hint} (known: {', '.join(sorted(known))})"
        )
    entry = known[name]
    if entry.missing:
        raise MissingBackend(
            f"method {name!r} needs {', '.join(entry.missing)}, which is not installed: {_command(entry.install)}"
        )
    if (reason := entry.refusal(problem)) is not None:
        raise InvalidProblem(reason)
    return entry


def _command(install: str) -> str:
    """Return the command that brings a method's packages; an extra of this package from where it stands."""
    extra = re.fullmatch(r"fedselect\[(.+)\]", install)
    return how_to_install(extra[1]) if extra else f"pip install '{install}'"


def _type(problem: Problem | type[Problem]) -> type[Problem]:
    return problem if isinstance(problem, type) else type(problem)
