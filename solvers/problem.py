"""Base class of the optimisation problems: evaluation, violation, repr, saving and loading."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.certificates.certificate import NAMES, Certificate, problem_fields
from solvers.certificates.certificate import problem_digest as digest  # noqa: F401  (problems have it from here)
from solvers.errors import InvalidProblem
from solvers.files import appearing_whole
from solvers.options import check_keywords
from solvers.reading import Unreadable, check_facts, is_json, parse_json, read_arrays, read_json

FORMAT = "solvers-problem/1"

#: Difference of bound and objective, in the units of `tolerance_at`, at which a decision is called optimal: what MIP
#: solvers ask for, and some 1e4 times the rounding of the largest sums here.
OPTIMALITY_GAP = 1e-6

#: Problem types by class name, filled as their modules are imported.
_types: dict[str, type[Problem]] = {}


class Problem(ABC):
    """Base class of the problems: a frozen dataclass that validates on construction.

    A subclass is declared ``@dataclass(frozen=True, eq=False)``, checks its fields in ``__post_init__`` (raising
    `InvalidProblem` with a sentence) and implements `objective` and `violation`.

    Attributes
    ----------
    sense : {"max", "min"}
        Whether larger or smaller objectives are better.
    family : str
        Name of the module below ``solvers`` that holds the problem and its methods; for a type defined elsewhere, any
        other name.
    tolerance : float
        Largest `violation` of a decision that still counts as feasible: 0 for discrete decisions.
    """

    sense: ClassVar[Literal["max", "min"]]
    family: ClassVar[str]
    tolerance: ClassVar[float] = 0.0

    #: The type whose methods solve it, by `solved_as`; None where it has methods of its own.
    methods_of: ClassVar[type[Problem] | None] = None

    @property
    def solved_as(self) -> Problem:
        """The problem that methods are given: another statement with the same decisions, or by default itself."""
        return self

    def bound_of(self, bound: float) -> float:
        """Return what a bound of `solved_as` says in the units of this problem, rounded to the safe side."""
        return bound

    def certificate_of(self, certificate: Certificate) -> Certificate:
        """Return a certificate about `solved_as` as one about this problem."""
        return certificate

    @property
    def is_constrained(self) -> bool:
        """Whether side constraints (`solvers.constraints`) limit its selections."""
        return False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = _types.get(cls.__name__)
        # A file names its type, and a namesake defined elsewhere must not be what the toolkit's own files are read as.
        # Nor may what cloudpickle makes before it finds that the class is here already, which states nothing.
        is_skeleton = known is not None and _place(known) == _place(cls) and set(cls.__dict__) <= _SAYING_NOTHING
        if known is None or not (is_skeleton or (_is_own(known) and not _is_own(cls))):
            _types[cls.__name__] = cls
        if "__repr__" not in cls.__dict__:
            # Here, before the dataclass decorator gives it one that prints whole arrays.
            cls.__repr__ = Problem.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        if not dataclasses.is_dataclass(self):
            return f"<{type(self).__name__}, which is no dataclass>"
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in outline(self))})"

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__} ({self.sense})", outline(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What is read-only before it is pickled or copied is read-only afterwards.
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)

    @staticmethod
    def types() -> list[type[Problem]]:
        """Return the problem types of the modules imported so far.

        What some of them share, without a family, is none.
        """
        return [kind for kind in _types.values() if hasattr(kind, "family")]

    def decision(self, x: ArrayLike) -> NDArray[Any]:
        """Return ``x`` as an array of the type this problem decides in (float64 unless a subclass says otherwise)."""
        return np.asarray(x, dtype=np.float64)

    def _vector(self, x: ArrayLike, what: str, dtype: Any = None) -> NDArray[Any]:
        """Return ``x`` as a vector of n entries, ``what`` for each; raises `ValueError` for another shape."""
        array = np.asarray(x, dtype=dtype)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one {what}, {self.n}; got shape {array.shape}")
        return array

    def _freeze(self, **values: Any) -> None:
        """Set fields in ``__post_init__``, to what was checked."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def objective(self, x: ArrayLike) -> float:
        """Return the value of decision ``x``; defined whether or not ``x`` is feasible."""

    @abstractmethod
    def violation(self, x: ArrayLike) -> float:
        """Return the distance of ``x`` from feasible (0: feasible), in the units of the most violated constraint."""

    def __new__(cls, *values: Any, **given: Any) -> Self:
        """Refuse an argument that there is not, with the name that was meant."""
        check_keywords(cls.__name__, cls.__init__, given)
        return super().__new__(cls)

    @property
    def n(self) -> int:
        """Number of clients (groups, for an allocation) to decide about."""
        raise AttributeError(f"a {type(self).__name__} does not say how many clients it decides about")

    @property
    def scale(self) -> float:
        """Size of the terms the objective adds up; `math.inf` where the problem states none.

        Optimality is declared at a difference of 1e-6 · min(max(1, |objective|), scale) between bound and objective,
        so that a problem whose values are all tiny is not called solved at its first feasible point.
        """
        return float("inf")

    def is_better(self, x: NDArray[Any], other: NDArray[Any]) -> bool:
        """Return whether ``x`` is better than another decision, though both have the same double as `objective`."""
        return False

    def tolerance_at(self, value: float, relative: float = OPTIMALITY_GAP) -> float:
        """Return the difference from ``value`` that is too small to matter: see `tolerance_at` and `scale`."""
        return tolerance_at(value, self.scale, relative)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the problem to ``path`` as a NumPy ``.npz`` archive; the file appears whole or not at all.

        The archive holds one array per array field, under the field's name, and ``header``: a JSON text with
        ``format`` ("solvers-problem/1"), ``family``, ``type`` (the class name), ``scalars`` (the other fields), and
        ``names`` where the clients have any.
        Nothing is pickled, so a file from a stranger can be read.

        Parameters
        ----------
        path : path-like
            Where to write; written exactly there, whatever its suffix.

        Returns
        -------
        pathlib.Path
            The path written.
        """
        header, arrays = parts(self)
        target = Path(path)
        with appearing_whole(target) as stream:
            np.savez_compressed(stream, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
        return target

    def to_json(self, indent: int | None = None) -> str:
        """Return the problem as JSON text, from which `from_json` makes the same problem to the last bit.

        The header of `save` with ``arrays``: of each its ``dtype``, ``shape`` and ``values`` row after row. Infinite
        numbers, which JSON does not have, are the texts ``"inf"`` and ``"-inf"``.
        """
        header, arrays = parts(self)
        told = {name: _array_as_json(array) for name, array in arrays.items()}
        return json.dumps({**header, "arrays": told}, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Make a problem from the text of `to_json`.

        Raises
        ------
        InvalidProblem
            When the text is not JSON of a problem, states no valid one, or one of another type.
        """
        try:
            problem = _from_table(parse_json(text), "the text")
        except Unreadable as error:
            raise InvalidProblem(f"the text is not JSON of a problem: {error}") from error
        return _of_type(problem, cls, "the text")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a problem as `solvers.load` does; raises `InvalidProblem` also when the file holds another type."""
        return _of_type(load(path), cls, str(path))


def _of_type(problem: Problem, wanted: type[Any], source: str) -> Any:
    if not isinstance(problem, wanted):
        raise InvalidProblem(f"{source} holds a {type(problem).__name__}; a {wanted.__name__} was asked for")
    return problem


def tolerance_at(value: float, scale: float, relative: float = OPTIMALITY_GAP) -> float:
    """Return ``relative`` · min(max(1, |value|), scale), a tolerance for objectives near ``value``."""
    return relative * min(max(1.0, abs(value)), scale)


def certified(value: float | Fraction, error: float | Fraction, sense: Literal["max", "min"]) -> float:
    """Return the nearest float on the side of ``value`` on which a bound holds, in spite of its rounding error.

    Computed in fractions: what comes out is off the exact sum or difference of value and error by less than a unit in
    the last place, and to the safe side.

    Parameters
    ----------
    value : float, int or Fraction
        The bound as it was computed; an exact value where it is a fraction or a whole number.
    error : float or Fraction
        Largest error of ``value``, not negative.
    sense : {"max", "min"}
        Upper bounds are rounded up, lower bounds down.

    Returns
    -------
    float
        ``value`` itself where it is a float without an error; infinite, which says nothing, where it is out of range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> certified(Fraction(1, 10), 0.0, "min") <= Fraction(1, 10) <= certified(Fraction(1, 10), 0.0, "max")
    True
    """
    if isinstance(value, np.integer):  # beyond 2^53 a double would round it to either side
        value = int(value)
    if not isinstance(value, int | Fraction) and (not error or not math.isfinite(value)):
        return float(value)
    unknown = math.inf if sense == "max" else -math.inf
    if not math.isfinite(error):
        return unknown
    exact = Fraction(value) + (Fraction(error) if sense == "max" else -Fraction(error))
    try:
        near = float(exact)
    except OverflowError:
        return unknown
    is_beyond = near < exact if sense == "max" else near > exact
    return math.nextafter(near, unknown) if is_beyond else near


def load(path: str | os.PathLike[str]) -> Problem:
    """Read any problem written by `Problem.save`, or the JSON of `Problem.to_json`.

    Parameters
    ----------
    path : path-like
        An ``.npz`` archive in the format described at `Problem.save`, or a file of JSON.

    Returns
    -------
    Problem
        The problem, validated again by its constructor.

    Raises
    ------
    InvalidProblem
        When the file is neither, its data do not state a valid problem, or its type is defined elsewhere and not
        imported.
    FileNotFoundError
        When there is no such file.
    """
    arrays: dict[str, NDArray[Any]] = {}
    is_table = False
    try:
        if is_table := is_json(path):
            table = read_json(path)
            if isinstance(table, dict) and "arrays" in table:
                return _from_table(table, str(path))
        arrays = read_arrays(path)
        header = parse_json(str(arrays.get("header", "")))
    except Unreadable as error:
        reason = "it is JSON, as solutions are: Solution.load reads those" if is_table else str(error)
        if str(path).endswith(".txt"):
            reason = "of an MDPLIB file solvers.dispersion.read_mdplib reads it"
        if arrays and "header" not in arrays:
            reason = f"it holds the arrays {', '.join(arrays)}; a matrix or points alone are read from .npy and .csv"
        raise InvalidProblem(f"{path} is not a problem file ({FORMAT}): {reason}") from error
    del arrays["header"]
    return assembled(header, arrays, str(path))


def parts(problem: Problem) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a problem as the header that `Problem.save` describes and its array fields by name."""
    arrays, scalars = problem_fields(problem)
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    header = {"format": FORMAT, "family": problem.family, "type": type(problem).__name__, "scalars": scalars}
    if names := getattr(problem, NAMES, ()):
        header[NAMES] = list(names)
    return header, arrays


def _array_as_json(array: NDArray[Any]) -> dict[str, Any]:
    values = array.ravel().tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = [value if math.isfinite(value) else str(value) for value in values]
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": values}


def _array_of_json(name: str, told: Any, source: str) -> NDArray[Any]:
    """Make an array of what `_array_as_json` says of it, or raise `InvalidProblem`."""
    try:
        check_facts(f"{source}: the array {name}", told, {"dtype": str, "shape": list[int], "values": list})
        dtype, values = np.dtype(told["dtype"]), told["values"]
        if dtype.kind not in "biuf":
            raise Unreadable(f"{source}: the array {name} must hold numbers, not {dtype}")
        numbers = [float(value) if value in ("inf", "-inf") else value for value in values]
        if wrong := [value for value in numbers if not isinstance(value, int | float)]:
            raise Unreadable(f"{source}: the array {name} must hold numbers; got {wrong[0]!r:.80}")
        if any(length < 0 for length in told["shape"]):
            raise Unreadable(f"{source}: the shape of the array {name} must not be negative; got {told['shape']}")
        with np.errstate(over="ignore"):
            array = np.array(numbers, dtype=dtype)
        if array.tolist() != numbers:
            raise Unreadable(f"{source}: the array {name} has a number that {dtype} does not hold")
        return array.reshape(told["shape"])
    except Unreadable as error:
        raise InvalidProblem(str(error)) from error
    except (TypeError, ValueError, OverflowError, SyntaxError) as error:
        raise InvalidProblem(f"{source}: the array {name} cannot be read: {error}") from error


def _from_table(table: Any, source: str) -> Problem:
    """Put together a problem from what JSON says of it."""
    if not isinstance(table, dict) or not isinstance(table.get("arrays"), dict):
        raise InvalidProblem(f"{source} is not JSON of a problem: it must be a table with arrays, as to_json writes it")
    arrays = {name: _array_of_json(name, told, source) for name, told in table["arrays"].items()}
    return assembled(table, arrays, source)


def assembled(header: dict[str, Any], arrays: dict[str, NDArray[Any]], path: str) -> Problem:
    """Put together again what `parts` took apart, through the constructor; ``path`` names the source in messages."""
    import importlib

    if not isinstance(header, dict):
        raise InvalidProblem(f"{path} is not a problem file ({FORMAT}): its header is no table")
    if str(header.get("format")).startswith("solvers-solution/"):
        raise InvalidProblem(f"{path} holds a solution: Solution.load reads it, and its problem is there")
    if header.get("format") != FORMAT:
        raise InvalidProblem(f"{path} has format {header.get('format')!r}; this version reads {FORMAT!r}")
    name, family, scalars = (header.get(key) for key in ("type", "family", "scalars"))
    if not (isinstance(name, str) and isinstance(scalars, dict)):
        raise InvalidProblem(f"{path} is not a problem file ({FORMAT}): its header lacks the type or the scalars")
    if name not in _types and family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    if not hasattr(_types.get(name), "family"):
        raise InvalidProblem(
            f"{path} holds a {name}, which no imported module defines (import it, or name its script with --load)"
        )
    if family != _types[name].family:
        raise InvalidProblem(
            f"{path} states a {name} of family {family!r}; a {name} is of family {_types[name].family!r}"
        )
    named = {NAMES: header[NAMES]} if NAMES in header else {}
    try:
        return _types[name](**arrays, **scalars, **named)
    except TypeError as error:  # fields that are missing, unknown, or no numbers
        raise InvalidProblem(f"{path} does not state a {name}: {error}") from error


#: Attributes of a class with an empty body.
_SAYING_NOTHING = {
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
    "__abstractmethods__",
    "_abc_impl",
}


def _place(kind: type[Problem]) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _is_own(kind: type[Problem]) -> bool:
    return kind.__module__.split(".")[0] == __name__.split(".")[0]


#: Families `load` may import by itself, so that a file can name nothing but these.
FAMILIES = (
    "dispersion",
    "weighting",
    "capping",
    "allocation",
    "participation",
    "deadline",
    "coverage",
    "schedule",
    "balance",
)


def families() -> list[str]:
    """Return the families that there are: the package's, then those of problems defined elsewhere, sorted."""
    return [*FAMILIES, *sorted({kind.family for kind in Problem.types()} - set(FAMILIES))]


#: Text longer than this is left out of a repr.
_LONGEST = 40


def outline(data: Any) -> list[tuple[str, str]]:
    """Describe the fields of a data class for a repr: scalars as they are, arrays by their shapes."""
    fields = []
    for name in _own_first(type(data), [field.name for field in dataclasses.fields(data)]):
        value = getattr(data, name)
        if isinstance(value, tuple) and not value:
            continue  # no constraint of this kind
        if isinstance(value, np.ndarray):
            fields.append((name, "×".join(map(str, value.shape)) or "()"))
        else:
            text = f"{value:.6g}" if isinstance(value, float) else repr(value)
            if isinstance(value, tuple):
                text = str(len(value))
            fields.append((name, text if len(text) <= _LONGEST else type(value).__name__))
    return fields


def _own_first(kind: type, names: Sequence[str]) -> list[str]:
    """Return names of fields, those that a class has from others at the end, the farthest last."""
    above = [list(inspect.get_annotations(each)) for each in kind.__mro__]
    return sorted(names, key=lambda name: next(depth for depth, own in enumerate(above) if name in own))


def html_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return names and values as an HTML table with a caption."""
    body = "".join(f"<tr><th>{escape(name.strip())}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
