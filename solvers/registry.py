"""The registry of methods."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from solvers.errors import InvalidOption, MissingBackend, UnknownMethod
from solvers.options import did_you_mean, fits, in_words, wanted
from solvers.problem import Problem

__all__ = ["Method", "find", "method", "methods"]

Kind = Literal["exact", "relaxation", "heuristic"]
Function = TypeVar("Function", bound=Callable[..., Any])

#: What `solvers.solve` takes for itself, so that no method would ever be given it.
_TAKEN = {"method", "time_limit", "gap", "seed", "start", "certify", "certificate", "watch", "log"}

#: What methods call their number of threads; `solvers.solve` takes it as ``threads`` for all of them.
_THREADS = ("threads", "workers")

_registry: dict[type[Problem], dict[str, Method]] = {}


@dataclass(frozen=True)
class Method:
    """A registered method.

    Attributes
    ----------
    name : str
        The name `solve` takes.
    kind : {"exact", "relaxation", "heuristic"}
        Exact methods prove optimality given time; relaxations give a bound; heuristics give decisions alone.
    problem : type
        The problem type it solves.
    function : callable
        ``function(problem, run, **options)``.
    requires : tuple of str
        Import names of the packages it needs beside the light core.
    install : str
        What ``pip install`` brings them.
    summary : str
        First line of the function's docstring.
    """

    name: str
    kind: Kind
    problem: type[Problem]
    function: Callable[..., Any]
    requires: tuple[str, ...] = ()
    install: str = ""
    summary: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The required packages that are not installed here."""
        return tuple(package for package in self.requires if importlib.util.find_spec(package) is None)

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options and their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def threads(self) -> str | None:
        """The option that says in how many threads the method runs; ``None`` where it has none."""
        return next((name for name in _THREADS if name in self.options), None)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise `InvalidOption` where an option is unknown, missing, or does not fit its annotation."""
        known = self.options
        for option, value in options.items():
            if option not in known:
                accepted = ", ".join(sorted(known)) or "none"
                hint = did_you_mean(option, known)
                raise InvalidOption(f"method {self.name!r} has no option {option!r}{hint} (accepted: {accepted})")
            kind = wanted(self.function, option)
            if kind is not None and not fits(value, kind):
                raise InvalidOption(f"method {self.name!r}: option {option!r} must be {in_words(kind)}; got {value!r}")
        for option, default in known.items():
            if default is inspect.Parameter.empty and option not in options:
                raise InvalidOption(f"method {self.name!r} needs the option {option!r}")

    def __repr__(self) -> str:
        return f"Method({self.name!r}, kind={self.kind!r}, requires={self.requires!r})"


def method(
    problem: type[Problem],
    name: str,
    *,
    kind: Kind,
    requires: tuple[str, ...] | str = (),
    install: str = "",
) -> Callable[[Function], Function]:
    """Register a function as a method for a problem type.

    The function is called as ``function(problem, run, **options)``; its options are its keyword-only parameters. It
    offers decisions and bounds through the `Run` as it finds them, or simply returns a decision.

    Parameters
    ----------
    problem : type
        The problem type; the method is offered for its subclasses too.
    name : str
        Name to solve by; registering it again for the same type replaces the earlier method.
    kind : {"exact", "relaxation", "heuristic"}
        What the method promises.
    requires : str or tuple of str
        Import names of packages beside the light core.
    install : str
        The argument of ``pip install`` that brings them; defaults to their names.

    Returns
    -------
    callable
        The decorator; it returns the function unchanged.

    Raises
    ------
    InvalidOption
        When the name is no text, the kind is none of the three, ``problem`` is no problem type, or an option has the
        name of one of `solve`'s own arguments.

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
    if not (isinstance(name, str) and name):
        raise InvalidOption(f"the name of a method is a text; got {name!r}")
    if kind not in get_args(Kind):
        hint = did_you_mean(kind, get_args(Kind))
        raise InvalidOption(f"there is no kind {kind!r} of methods{hint} (known: {', '.join(get_args(Kind))})")
    packages = (requires,) if isinstance(requires, str) else tuple(requires)

    def register(function: Function) -> Function:
        if taken := sorted(_TAKEN & set(inspect.signature(function).parameters)):
            raise InvalidOption(f"method {name!r} cannot have an option {taken[0]!r}: solve takes that for itself")
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        entry = Method(name, kind, problem, function, packages, install or " ".join(packages), summary)
        _registry.setdefault(problem, {})[name] = entry
        return function

    return register


def methods(problem: Problem | type[Problem]) -> list[Method]:
    """The methods registered for a problem or problem type: exact ones first, then by name.

    Parameters
    ----------
    problem : Problem or type
        A problem, or its class.

    Returns
    -------
    list of Method
        Methods that need a missing package are listed too; see `Method.missing`.
    """
    found = {entry.name: entry for entry in _entries(problem)}
    order = get_args(Kind)
    return sorted(found.values(), key=lambda entry: (order.index(entry.kind), entry.name))


def _entries(problem: Problem | type[Problem]) -> Iterator[Method]:
    kind = problem if isinstance(problem, type) else type(problem)
    for ancestor in reversed(kind.__mro__):
        yield from _registry.get(ancestor, {}).values()


def find(problem: Problem | type[Problem], name: str) -> Method:
    """The method registered under ``name``, ready to run.

    Raises
    ------
    UnknownMethod
        When there is none; the sentence lists those there are.
    MissingBackend
        When a package it needs is not installed; the sentence says what to install.
    """
    known = {entry.name: entry for entry in methods(problem)}
    if not isinstance(name, str) or name not in known:
        kind = problem if isinstance(problem, type) else type(problem)
        hint = did_you_mean(name, known)
        raise UnknownMethod(
            f"there is no method {name!r} for a {kind.__name__}{hint} (known: {', '.join(sorted(known))})"
        )
    entry = known[name]
    if entry.missing:
        raise MissingBackend(
            f"method {name!r} needs {', '.join(entry.missing)}, which is not installed: pip install '{entry.install}'"
        )
    return entry
