"""The registry of methods, and ``solve``."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from numpy.typing import ArrayLike

from solvers.errors import InvalidOption, InvalidProblem, MissingBackend, UnknownMethod
from solvers.problem import Problem
from solvers.run import Run
from solvers.solution import Solution, TracePoint

__all__ = ["Method", "method", "methods", "solve"]

Kind = Literal["exact", "relaxation", "heuristic"]
Function = TypeVar("Function", bound=Callable[..., Any])

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
    packages = (requires,) if isinstance(requires, str) else tuple(requires)

    def register(function: Function) -> Function:
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
    order = ("exact", "relaxation", "heuristic")
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
    if name not in known:
        kind = problem if isinstance(problem, type) else type(problem)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownMethod(
            f"there is no method {name!r} for a {kind.__name__}{hint} (known: {', '.join(sorted(known))})"
        )
    entry = known[name]
    if entry.missing:
        raise MissingBackend(
            f"method {name!r} needs {', '.join(entry.missing)}, which is not installed: pip install '{entry.install}'"
        )
    return entry


def solve(
    problem: Problem,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    seed: int = 0,
    start: ArrayLike | None = None,
    watch: Callable[[TracePoint], None] | None = None,
    **options: Any,
) -> Solution:
    """Solve a problem with a registered method.

    Parameters
    ----------
    problem : Problem
        What to solve.
    method : str
        A name from `methods`; ``"auto"`` is the best choice we know for the problem.
    time_limit : float, optional
        Wall-clock seconds; the incumbent comes back when they are over. No limit by default.
    seed : int
        Makes the run repeatable (where a time limit does not cut it short).
    start : array-like, optional
        A feasible decision to start from; the answer is never worse than it.
    watch : callable, optional
        Called with every improvement as it is found, in the solve's own thread: what enters ``Solution.trace``.
    **options
        Options of the method itself; see ``Method.options``.

    Returns
    -------
    Solution
        The best decision found with its bound; Ctrl-C returns what there was, with ``stopped="interrupted"``.

    Raises
    ------
    UnknownMethod, MissingBackend
        When the method is not there to be run.
    InvalidOption
        When the time limit, the seed, ``start`` or an option is not accepted.
    InvalidAnswer
        When the method returned an infeasible decision or an impossible bound.
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(f"solve takes a problem object, not a {type(problem).__name__}")
    entry = find(problem, method)
    if time_limit is not None and not (time_limit > 0 and math.isfinite(time_limit)):
        raise InvalidOption(f"time_limit must be a positive number of seconds or None; got {time_limit!r}")
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed < 0:
        raise InvalidOption(f"seed must be a non-negative integer; got {seed!r}")
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        accepted = ", ".join(sorted(entry.options)) or "none"
        raise InvalidOption(f"method {method!r} has no option {unknown[0]!r} (accepted: {accepted})")
    run = Run(problem, method, time_limit, int(seed), watch)
    if start is not None:
        violation = problem.violation(start)
        if not violation <= problem.tolerance:
            raise InvalidOption(f"start must be feasible; it violates a constraint by {violation:.6g}")
        run.offer(start)
    try:
        decision = entry.function(problem, run, **options)
        if decision is not None:
            run.offer(decision)
    except KeyboardInterrupt:
        run.stop("interrupted")
    return run.solution()
