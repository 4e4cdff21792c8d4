"""Models of others, read as the choice of m of n clients: QUBO, QPLIB, dimod's BQM and CQM, LP and MPS.

A reader makes a `SelectionModel` of what stands in the file, and `selection` makes a problem of that: binary variables,
a quadratic objective, rows that say how many are chosen, if any do, and other linear rows as side constraints.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import frozen_array, integer
from solvers.constraints import Budget, Quota
from solvers.dispersion.problem import EXPANDABLE
from solvers.dispersion.quadratic import QuadraticProblem
from solvers.errors import InvalidProblem, MissingBackend
from solvers.options import AtLeast, AtMost
from solvers.reading import Unreadable, read_json, read_text
from solvers.solution import Solution

PathLike = str | os.PathLike[str]

Reals = NDArray[np.float64]

#: Variables or constraints that a file may declare however few words it has: 8 MB of a matrix.
_DECLARED = 1000

#: A number of variables to choose, or the least and the largest one.
Size = int | tuple[int, int]


@dataclass
class SelectionModel:
    """A quadratic objective over binary variables with linear rows, as a file states it.

    Attributes
    ----------
    names : list of str
        Of the variables.
    quadratic : (n, n) ndarray
        Q of the objective xᵀQx, with linear terms on the diagonal.
    sense : {"max", "min"}
        What is wanted of it.
    constant : float
        Added to it.
    rows : list of (str, ndarray, float, float)
        Name, coefficients, least and largest value.
    """

    names: list[str]
    quadratic: Reals
    sense: Literal["max", "min"]
    constant: float = 0.0
    rows: list[tuple[str, Reals, float, float]] = field(default_factory=list)


def selection(model: SelectionModel, path: PathLike, size: Size | None = None) -> QuadraticProblem:
    """State a model as the choice of m of n clients, or of a range of numbers of them.

    Where each name is a number, alone or after letters, and these increase (``x3``, ``x7``), clients have them; else
    0 … n−1.

    Parameters
    ----------
    model : SelectionModel
        The model.
    path : path-like
        Where it comes from, for messages.
    size : int or (int, int), optional
        Clients to choose, or the least and largest number, where no row says it. Any number where nothing does.

    Raises
    ------
    InvalidProblem
        When rows contradict each other or the size, a row cannot be kept, or a number is not finite or out of range.
    """
    n = len(model.names)
    clients = _numbered(model.names)
    stated: dict[str, list[Any]] = {name: [] for name in ("include", "exclude", "quotas", "budgets")}
    others, ranges, said = [], [], None
    for name, row, low, high in model.rows:
        used = np.flatnonzero(row)
        _check_row(name, row, low, high, path)
        if used.size == n > 1 and np.ptp(row) == 0:
            least, most = sorted((low / row[0], high / row[0]))
            if least == most:
                said = _whole(most, name, path) if said is None else said
                if said != most:
                    raise InvalidProblem(f"rows of {path} contradict each other: {said} and {most:g} are to be chosen")
            else:
                ranges.append((name, least, most))
            continue
        if used.size == 1:
            _fix(int(used[0]), row, low, high, clients, stated)
        elif used.size:
            others.append((name, row, low, high))
        elif not low <= 0 <= high:
            raise InvalidProblem(f"row {name!r} of {path} has no variable, and 0 does not lie from {low:g} to {high:g}")
    ends = (0, n) if size is None else size if isinstance(size, tuple | list) else (size, size)
    if len(ends) != 2:
        raise InvalidProblem(f"size must be a number, or a pair of the least and the largest; got {size!r:.80}")
    least, most = (integer(each, "size") for each in ends)
    if said is not None:
        if not least <= said <= most:
            raise InvalidProblem(f"{path} says that {said} are chosen; the size given is {_written(least, most)}")
        least = most = said
    asked = _written(least, most)
    for name, low, high in ranges:
        least, most = max(least, math.ceil(max(low, 0) - 1e-9)), min(most, math.floor(min(high, n) + 1e-9))
        if least > most:
            raise InvalidProblem(f"row {name!r} of {path} asks for {low:g} to {high:g} of {n}; the size is {asked}")
    chosen: Any = most if least == most else (least, most)
    for name, row, low, high in others:
        _side(name, row, low, high, most, most - least, clients, stated)
    ids = np.array(clients, dtype=np.int64)
    kept: dict[str, Any] = {name: value for name, value in stated.items() if value}
    return QuadraticProblem(model.quadratic, chosen, model.sense, model.constant, ids, **kept)


def _check_row(name: str, row: Reals, low: float, high: float, path: PathLike) -> None:
    """Raise a sentence for a row of other coefficients than numbers, or one that no value keeps."""
    if not (np.isfinite(row).all() and low <= high):
        raise InvalidProblem(f"row {name!r} of {path} is no row of numbers: from {low:g} to {high:g}")
    if low == math.inf or high == -math.inf:
        raise InvalidProblem(f"row {name!r} of {path} accepts no number: it goes from {low:g} to {high:g}")


def _written(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _numbered(names: list[str]) -> list[int]:
    """Return the numbers that names end with, if they increase; places otherwise."""
    found = [re.fullmatch(r"[A-Za-z_]*\[?(\d{1,18})\]?", name) for name in names]
    numbers = [int(each[1]) if each else -1 for each in found]
    increase = all(a < b for a, b in itertools.pairwise(numbers))
    return numbers if increase and min(numbers, default=-1) >= 0 else list(range(len(names)))


def _whole(value: float, name: str, path: PathLike) -> int:
    if not math.isfinite(value) or abs(value - round(value)) > 1e-9:
        raise InvalidProblem(f"row {name!r} of {path} asks for {value:g} of the variables, which is no whole number")
    return round(value)


def _fix(place: int, row: Reals, low: float, high: float, clients: list[int], stated: dict[str, list[Any]]) -> None:
    """Keep a row of one variable: it fixes that, or says nothing."""
    may = [value for value in (0, 1) if low - 1e-9 <= row[place] * value <= high + 1e-9]
    if may != [0, 1]:
        for name, value in (("include", 1), ("exclude", 0)):  # both, where neither is allowed: a contradiction
            if may in ([value], []) and clients[place] not in stated[name]:
                stated[name].append(clients[place])


def _side(
    name: str,
    row: Reals,
    low: float,
    high: float,
    size: int,
    fillers: int,
    clients: list[int],
    stated: dict[str, list[Any]],
) -> None:
    """State a row as a quota, where its coefficients are equal, or as budgets, in which fillers use nothing."""
    used = np.flatnonzero(row)
    factor = row[used[0]]
    if (row[used] == factor).all():
        least, most = sorted((low / factor, high / factor))
        at_least = max(0, math.ceil(least - 1e-9)) if math.isfinite(least) else 0
        at_most = math.floor(most + 1e-9) if math.isfinite(most) else None
        members = [clients[k] for k in used]
        if at_most is not None and at_most < 0:
            raise InvalidProblem(f"row {name!r} asks for at most {most:g} of {len(members)} variables")
        if at_least > 0 or at_most is not None:
            stated["quotas"].append(Quota(members, at_least, at_most, name))
        return
    # As all decisions choose m, the same may be added to every coefficient and m times as much to the limit.
    for sign, limit, end in ((1.0, high, ""), (-1.0, -low, " least")):
        if math.isfinite(limit):
            use = np.append(sign * row, np.zeros(fillers))
            raised = max(0.0, -float(use.min()))
            stated["budgets"].append(Budget(use + raised, limit + raised * size, name + end))


def _square(n: int, path: PathLike, words: int | None = None) -> Reals:
    """Return a matrix of zeros for n variables; raise where it would be too large, or beyond the file's words."""
    if n < 1:
        raise InvalidProblem(f"{path} has no variable")
    if n > EXPANDABLE:
        raise InvalidProblem(
            f"{path} has {n} variables, whose matrix takes {8 * n * n / 2**30:.3g} GiB; up to {EXPANDABLE} are read"
        )
    if words is not None:
        _check_declared(n, words, "variables", path)
    return np.zeros((n, n))


def _check_declared(number: int, words: int, what: str, path: PathLike) -> None:
    """Refuse a number that a file of fewer words declares, as memory for its square is asked for."""
    if number > max(_DECLARED, words):
        raise InvalidProblem(f"{path} declares {number} {what}, in {words} words")


# -- QUBO ------------------------------------------------------------------------------------------------------------


def read_qubo(path: PathLike, size: Size | None = None) -> QuadraticProblem:
    r"""Read a QUBO, lines ``i j value``, as the choice of ``size`` of its variables.

    The energy :math:`x^\top Q x` is to be smallest; entries ``i j`` and ``j i`` add up. Lines that begin with ``c``
    or ``#`` are comments; a line ``p qubo 0 maxnodes nodes couplers`` or ``n entries`` may stand before the others.
    Where no variable is 0, and the largest number is the header's n or there is no header, they are counted from
    1, and clients keep these numbers. A comment ``energy + number``, which `write_qubo` writes, is a constant.

    A QUBO has no row that says how many are chosen. Without ``size`` it is taken from the penalty, where one is there
    that provably suffices (`Penalty`): then every smallest energy has so many variables. Else any number may be chosen.

    Parameters
    ----------
    path : path-like
        The file.
    size : int or (int, int), optional
        Variables to choose, or the least and the largest number of them.

    Returns
    -------
    QuadraticProblem
        Its value is the energy, with the constant; `Penalty.verdict` says whether the penalty alone keeps the number.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is not of this format, has more than 20 000 variables, or more than 1 000 and more than it has
        words, or the size does not fit.
    """
    entries: list[tuple[int, int, float]] = []
    n, constant = None, 0.0
    places: dict[tuple[int, int], int] = {}
    for number, line in enumerate(_text(path, "a QUBO").splitlines(), 1):
        words = line.split()
        if not words or words[0][0] in "c#":
            said = re.search(r"energy \+ ([-+.\deE]+)\)?", line)
            constant = float(said[1]) if said and _is_number(said[1]) else constant
        elif words[0] == "p" and len(words) == 6 and _is_whole(words[3]):
            n = int(words[3])
        elif len(words) == 2 and not entries and all(_is_whole(word) for word in words):
            n = int(words[0])
        elif len(words) == 3 and _is_whole(words[0]) and _is_whole(words[1]) and _is_number(words[2]):
            i, j, value = int(words[0]), int(words[1]), float(words[2])
            if (i, j) in places:
                raise InvalidProblem(f"{path} is no QUBO: line {number} lists {i} {j} again (line {places[i, j]} does)")
            places[i, j] = number
            entries.append((i, j, value))
        else:
            raise InvalidProblem(f"{path} is no QUBO: line {number} must be i j value; got {line.strip()[:80]!r}")
    if not entries:
        raise InvalidProblem(f"{path} is no QUBO: it has no line i j value")
    largest, smallest = (f(max(i, j) if f is max else min(i, j) for i, j, _ in entries) for f in (max, min))
    first = 1 if smallest > 0 and (n is None or largest == n) else 0
    n = largest + 1 - first if n is None else n
    if largest - first >= n:
        raise InvalidProblem(f"{path} is no QUBO: its header has {n} variables, and one is {largest}")
    matrix = _square(n, path, 3 * len(entries))
    for i, j, value in entries:
        matrix[i - first, j - first] += value / 2
        matrix[j - first, i - first] += value / 2
    model = SelectionModel([str(k + first) for k in range(n)], matrix, "min", constant)
    return selection(model, path, _size_of(model, size))


def read_bqm(path: PathLike, size: Size | None = None) -> QuadraticProblem:
    """Read a binary quadratic model of dimod in JSON (``json.dumps(bqm.to_serializable())``).

    Parameters
    ----------
    path : path-like
        The file.
    size : int or (int, int), optional
        Variables to choose, or the least and largest number; else from a penalty or any number, as for `read_qubo`.

    Returns
    -------
    QuadraticProblem
        Its value is the energy, offset included.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is not of this format, its variables are spins or more than 20 000, or the size does not fit.
    """
    try:
        table = read_json(path)
        if not isinstance(table, dict) or table.get("type") != "BinaryQuadraticModel":
            named = table.get("type") if isinstance(table, dict) else type(table).__name__
            raise ValueError(f"its type is {named!r}")
        if table.get("variable_type") == "SPIN":
            raise ValueError("its variables are spins, -1 or 1: bqm.change_vartype('BINARY') states them as 0 or 1")
        if table.get("variable_type") != "BINARY" or table.get("use_bytes"):
            raise ValueError("only to_serializable() of binary variables is read, with numbers in lists")
        n = len(table["linear_biases"])
        names = [str(name) for name in table["variable_labels"]]
        if len(names) != n:
            raise ValueError(f"it has {len(names)} labels for {n} variables")
        matrix = _square(n, path)
        matrix[np.arange(n), np.arange(n)] = np.array(table["linear_biases"], dtype=np.float64)
        stated = [np.array(table[f"quadratic_{end}"], dtype=np.float64) for end in ("head", "tail")]
        biases = np.array(table["quadratic_biases"], dtype=np.float64)
        if not np.isin(np.concatenate(stated), np.arange(n)).all():
            raise ValueError(f"an interaction names another variable than 0 to {n - 1}")
        heads, tails = (each.astype(np.int64) for each in stated)
        if heads.shape != tails.shape or heads.shape != biases.shape:
            raise ValueError("the lists of its interactions differ in length")
        np.add.at(matrix, (heads, tails), biases / 2)
        np.add.at(matrix, (tails, heads), biases / 2)
        offset = float(table["offset"])
    except (Unreadable, KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise InvalidProblem(f"{path} is no binary quadratic model of dimod: {reason}") from error
    model = SelectionModel(names, matrix, "min", offset)
    return selection(model, path, _size_of(model, size))


def _size_of(model: SelectionModel, size: Size | None) -> Size | None:
    """Return the size given, or that of a penalty that suffices; None where neither is."""
    if size is not None:
        return size
    found = Penalty.of(frozen_array(model.quadratic, "the QUBO's matrix", ndim=2))
    return None if found is None else found.size


@dataclass(frozen=True)
class Penalty:
    r"""What keeps the number of chosen variables in a QUBO, as a penalty :math:`P (\sum x - k)^2` does.

    Attributes
    ----------
    size : int
        How many are to be chosen.
    margin : float
        A lower bound on the energy that is saved by adding any variable where fewer than k are chosen, or by leaving
        one out where more are. Above 0 every decision of least energy has k variables. Otherwise the penalty may still
        do; see `verdict`.
    """

    size: int
    margin: float

    @property
    def is_sufficient(self) -> bool:
        """Whether every decision of least energy is proved to choose ``size`` variables."""
        return self.margin > 0

    @classmethod
    def of(cls, quadratic: ArrayLike, size: int | None = None) -> Penalty | None:
        """Return the penalty in a QUBO that is to be smallest.

        Parameters
        ----------
        quadratic : (n, n) array-like
            Q of the energy xᵀQx.
        size : int, optional
            The number that is to be kept, 0 to n. Without it, the one from 1 on that provably is kept; None where none
            is.

        Raises
        ------
        InvalidProblem
            When Q is no square matrix of finite numbers, or ``size`` is no such number.
        """
        q = frozen_array(quadratic, "quadratic", ndim=2)
        if q.shape[0] != q.shape[1] or not q.size:
            raise InvalidProblem(f"quadratic must be a square matrix, a row per variable; got shape {q.shape}")
        q = q / 2 + q.T / 2
        n = len(q)
        own = q.diagonal()
        pairs = np.sort(2 * q[~np.eye(n, dtype=bool)].reshape(n, n - 1), axis=1)
        up, down = np.zeros((n, n)), np.zeros((n, n))
        np.cumsum(pairs, axis=1, out=down[:, 1:])
        np.cumsum(pairs[:, ::-1], axis=1, out=up[:, 1:])
        # What adding a variable to j others costs at most, and at least; j = 0 … n-1.
        most, least = (own[:, None] + up).max(axis=0), (own[:, None] + down).min(axis=0)
        slack = 1e-12 * n * float(np.abs(q).sum(axis=1).max())
        adding = np.append(math.inf, np.minimum.accumulate(-most))  # gained by filling up to k, for k = 0 … n
        leaving = np.append(np.minimum.accumulate(least[::-1])[::-1], math.inf)
        margins = np.minimum(adding, leaving) - slack
        if size is not None:
            size = integer(size, "size", AtLeast(0), AtMost(n))
            return cls(size, float(margins[size]))
        best = int(margins[1:].argmax()) + 1
        return cls(best, float(margins[best])) if margins[best] > 0 else None

    @classmethod
    def verdict(cls, solution: Solution) -> str:
        """Say whether the QUBO of a solution's problem would have kept the number chosen by its penalty alone.

        Parameters
        ----------
        solution : Solution
            Of a `QuadraticProblem` that is minimised, over selections of one size.

        Raises
        ------
        InvalidProblem
            When it is of a problem of another class, or one that is maximised.
        """
        problem = solution.problem
        if not isinstance(problem, QuadraticProblem) or problem.sense != "min":
            raise InvalidProblem("a verdict on a penalty is about the solution of a QUBO that is minimised")
        found = cls.of(problem.quadratic, problem.size)
        assert found is not None
        if found.is_sufficient:
            return (
                f"its penalty suffices: one variable more or fewer than {found.size} costs {found.margin:.6g} at least"
            )
        if solution.x is None:
            return f"its penalty is not proved to keep {found.size}"
        own, x = problem.quadratic.diagonal(), solution.x
        change = (1 - 2 * x) * (own + 2 * problem.quadratic @ x - 2 * own * x)  # of the energy, by a flip of each
        place = int(change.argmin())
        if change[place] < -1e-9 * max(1.0, abs(float(solution.objective or 0.0))):
            step = "without" if solution.x[place] else "with"
            return (
                f"its penalty does not suffice: {step} variable {problem.clients[place]} the energy is lower by "
                f"{-change[place]:.6g}, at {found.size + (-1 if solution.x[place] else 1)} variables"
            )
        return f"its penalty is not proved to keep {found.size}, nor shown not to"


# -- QPLIB -----------------------------------------------------------------------------------------------------------


def read_qplib(path: PathLike, size: Size | None = None) -> QuadraticProblem:
    """Read an instance of QPLIB (Furini et al., 2019) with binary variables and linear rows: types ?BN, ?BB and ?BL.

    Parameters
    ----------
    path : path-like
        The file.
    size : int or (int, int), optional
        Variables to choose, or the least and largest number, where no row says it; any number where nothing does.

    Returns
    -------
    QuadraticProblem
        Clients are 0 … n−1 in the order of the variables.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is not of this format, states another problem, has more than 20 000 variables, or more than 1 000
        and more than it has words, or the size does not fit.
    """
    split = (line.split("#")[0].split("%")[0].split() for line in _text(path, "a QPLIB file").splitlines()[1:])
    lines = [line for line in split if line]
    words = iter(lines)
    try:
        kind = next(words)[0].upper()
        sense = next(words)[0].lower()
        if not re.fullmatch("[LDCQ][CBMIG][NBLDCQ]", kind) or sense not in ("maximize", "minimize"):
            raise ValueError(f"its type is {kind!r}, its sense {sense!r}")
        if kind[1] != "B" or kind[2] not in "NBL":
            raise InvalidProblem(
                f"{path} is of type {kind}: binary variables and linear rows are read, types like QBL and QBN"
            )
        n = int(next(words)[0])
        count = int(next(words)[0]) if kind[2] == "L" else 0
        length = sum(map(len, lines))
        matrix = _square(n, path, length)
        _check_declared(count, length, "constraints", path)
        for i, j, value in _entries(words, 3) if kind[0] != "L" else ():
            a, b = _place(i, n), _place(j, n)
            matrix[a, b] += value / 2
            if a != b:  # the lower triangle of a symmetric matrix is listed
                matrix[b, a] += value / 2
        matrix[np.arange(n), np.arange(n)] += _vector(words, n)
        constant = float(next(words)[0])
        rows = np.zeros((count, n))
        if count:
            for i, j, value in _entries(words, 3):
                rows[_place(i, count), _place(j, n)] += value
        infinity = float(next(words)[0])
        ends = [_vector(words, count) for _ in range(2)] if count else [np.zeros(0)] * 2
        low, high = (np.where(np.abs(each) >= infinity, np.copysign(np.inf, each), each) for each in ends)
    except InvalidProblem:
        raise
    except (StopIteration, ValueError, IndexError, OverflowError, MemoryError) as error:
        reason = "it ends too early" if isinstance(error, StopIteration) else error
        raise InvalidProblem(f"{path} is not a QPLIB file: {reason}") from error
    names = [str(k) for k in range(n)]
    stated = [(f"row {k + 1}", rows[k], float(low[k]), float(high[k])) for k in range(count)]
    wanted: Literal["max", "min"] = "max" if sense == "maximize" else "min"
    return selection(SelectionModel(names, matrix, wanted, constant, stated), path, size)


def _entries(words: Iterator[list[str]], wide: int) -> Iterator[tuple[int, int, float]]:
    """Read a count, and so many lines of indices and a value."""
    for _ in range(int(next(words)[0])):
        line = next(words, None)
        if line is None:
            raise ValueError("it ends too early")
        if len(line) != wide:
            raise ValueError(f"a line must be i j value; got {' '.join(line)[:80]!r}")
        yield int(line[0]), int(line[1]), float(line[2])


def _vector(words: Iterator[list[str]], n: int) -> Reals:
    """Read a default, and the entries that differ from it."""
    found = np.full(n, float(next(words)[0]))
    for _ in range(int(next(words)[0])):
        place, value = next(words)
        found[_place(int(place), n)] = float(value)
    return found


def _place(number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise ValueError(f"numbers go from 1 to {n}; got {number}")
    return number - 1


# -- LP, MPS and CQM ---------------------------------------------------------------------------------------------------


def read_lp(path: PathLike, size: Size | None = None) -> QuadraticProblem:
    """Read a CPLEX LP file (name ends in ``.lp``) or an MPS file (``.mps``), both by HiGHS.

    The objective is linear or quadratic, variables are binary.

    Parameters
    ----------
    path : path-like
        The file.
    size : int or (int, int), optional
        Variables to choose, or the least and largest number, where no row says it; any number where nothing does.

    Returns
    -------
    QuadraticProblem
        Rows of several variables beside those of the cardinality are quotas, where their coefficients are equal, or
        budgets; rows that fix one variable include or exclude a client.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When HiGHS cannot read the file, a variable is not binary, there are more than 20 000, or `selection` cannot
        state the model.
    """
    import highspy

    text = _text(path, "a model")  # a sentence where it is no text, or none
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(os.fspath(path)) == highspy.HighsStatus.kError or not text.strip():
        raise InvalidProblem(f"{path} is not a model that HiGHS reads: an LP file ends in .lp, an MPS file in .mps")
    model = solver.getModel()
    lp, hessian = model.lp_, model.hessian_
    n = lp.num_col_
    matrix = _square(n, path)
    names = list(lp.col_names_) or [f"x{k}" for k in range(n)]
    lower, upper = np.array(lp.col_lower_), np.array(lp.col_upper_)
    whole = [kind == highspy.HighsVarType.kInteger for kind in lp.integrality_] or [False] * n
    fixed = []
    for k in range(n):
        if not whole[k] or lower[k] < 0 or upper[k] > 1:
            raise InvalidProblem(
                f"variable {names[k]!r} of {path} is not binary (from {lower[k]:g} to {upper[k]:g}, "
                f"{'whole' if whole[k] else 'real'}): only selections of m of n are read"
            )
        if (lower[k], upper[k]) != (0.0, 1.0):
            fixed.append((f"bounds of {names[k]}", np.eye(1, n, k)[0], float(lower[k]), float(upper[k])))
    if hessian.dim_:
        starts, index, value = (np.array(each) for each in (hessian.start_, hessian.index_, hessian.value_))
        column = np.repeat(np.arange(hessian.dim_), np.diff(starts[: hessian.dim_ + 1]))
        away = index != column
        matrix[index, column] += value / 2
        matrix[column[away], index[away]] += value[away] / 2
    matrix[np.arange(n), np.arange(n)] += np.array(lp.col_cost_)
    rows = np.zeros((lp.num_row_, n))
    a = lp.a_matrix_
    major = np.repeat(np.arange(len(a.start_) - 1), np.diff(np.array(a.start_)))
    at = (
        (np.array(a.index_, dtype=int), major)
        if a.format_ == highspy.MatrixFormat.kColwise
        else (major, np.array(a.index_, dtype=int))
    )
    rows[at] = np.array(a.value_)
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
    titles = list(lp.row_names_) or [f"row {k + 1}" for k in range(lp.num_row_)]
    stated = [(titles[k], rows[k], float(low[k]), float(high[k])) for k in range(lp.num_row_)]
    sense: Literal["max", "min"] = "max" if lp.sense_ == highspy.ObjSense.kMaximize else "min"
    return selection(SelectionModel(names, matrix, sense, float(lp.offset_), stated + fixed), path, size)


def read_cqm(path: PathLike, size: Size | None = None) -> QuadraticProblem:
    """Read a constrained quadratic model of dimod, as its ``to_file`` writes it; needs ``dimod``.

    Parameters
    ----------
    path : path-like
        The file.
    size : int or (int, int), optional
        Variables to choose, or the least and largest number, where no constraint says it; any number where nothing
        does.

    Returns
    -------
    QuadraticProblem
        Linear constraints of several variables beside those of the cardinality are quotas or budgets; those that fix
        one variable include or exclude a client.

    Raises
    ------
    MissingBackend
        When dimod is not installed.
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is none of dimod's, a variable is not binary, there are more than 20 000, a constraint is soft or
        not linear, or `selection` cannot state the model.
    """
    try:
        import dimod
    except ImportError:
        raise MissingBackend(f"{path} is read by dimod, which is not installed: pip install dimod") from None
    try:
        with open(path, "rb") as stream:
            cqm = dimod.ConstrainedQuadraticModel.from_file(stream)
    except FileNotFoundError:
        raise
    except Exception as error:  # its decoders raise whatever falls
        raise InvalidProblem(f"{path} is no constrained quadratic model of dimod: {error}") from error
    labels = list(cqm.variables)
    for label in labels:
        if cqm.vartype(label) is not dimod.BINARY:
            raise InvalidProblem(
                f"variable {label!r} of {path} is {cqm.vartype(label).name}: only binary ones are read"
            )
    place = {label: k for k, label in enumerate(labels)}
    matrix = _square(len(labels), path)

    def linear(expression: Any) -> Reals:
        found = np.zeros(len(labels))
        for label, bias in expression.linear.items():
            found[place[label]] = bias
        return found

    np.fill_diagonal(matrix, linear(cqm.objective))
    for (first, second), bias in cqm.objective.quadratic.items():
        matrix[place[first], place[second]] += bias / 2
        matrix[place[second], place[first]] += bias / 2
    rows = []
    for title, each in cqm.constraints.items():
        if each.lhs.quadratic:
            raise InvalidProblem(f"constraint {title!r} of {path} is not linear: only linear ones are read")
        if each.lhs.is_soft():
            raise InvalidProblem(f"constraint {title!r} of {path} is soft: only hard ones are read")
        right = float(each.rhs) - float(each.lhs.offset)
        low = -math.inf if each.sense.value == "<=" else right
        high = math.inf if each.sense.value == ">=" else right
        rows.append((str(title), linear(each.lhs), low, high))
    model = SelectionModel([str(label) for label in labels], matrix, "min", float(cqm.objective.offset), rows)
    return selection(model, path, size)


def _text(path: PathLike, what: str) -> str:
    try:
        return read_text(path)
    except Unreadable as error:
        raise InvalidProblem(f"{path} is not {what}: {error}") from error


def _is_whole(word: str) -> bool:
    """Whether a word is a whole number from 0 on, of a size that variables may have."""
    return word.isascii() and word.isdigit() and len(word) <= 18


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


#: Readers by the ending of a file's name.
READERS: dict[str, Callable[[PathLike, int | None], QuadraticProblem]] = {
    ".qubo": read_qubo,
    ".bqm": read_bqm,
    ".cqm": read_cqm,
    ".qplib": read_qplib,
    ".lp": read_lp,
    ".mps": read_lp,
}
