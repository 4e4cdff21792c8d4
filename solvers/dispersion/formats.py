"""Exchange with other people's tools: MDPLIB and TSPLIB text, graphs, points, LP, MPS, QPLIB, CP-SAT's proto, QUBO."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from solvers.checks import number
from solvers.dispersion.neighbourhood import greedy_decision
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem
from solvers.dispersion.relaxations.semidefinite import OuterApproximation
from solvers.errors import InvalidOption, InvalidProblem
from solvers.files import text_appearing_whole, write_atomically
from solvers.options import Above
from solvers.reading import Unreadable, read_matrix, read_text

PathLike = str | os.PathLike[str]

#: Vertices that a graph may have however few edges it lists: 8 MB of distances.
_VERTICES = 1000


def read_mdplib(path: PathLike, size: int | None = None) -> DispersionProblem:
    """Read an instance of the maximum diversity library: ``n m`` or ``n``, then lines ``i j d_ij`` with i < j from 0.

    Parameters
    ----------
    path : path-like
        The file.
    size : int, optional
        m, instead of the file's; needed where that is 0 or left out.

    Returns
    -------
    DispersionProblem
        With weight 0.5, so that the objective is the sum over the chosen pairs, as in the literature.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is not of this format, no size is known, or it does not fit.
    """
    try:
        lines = read_text(path).split("\n")
        n, *sizes = _sizes_of(lines)
        numbered = [(number, line.split()) for number, line in enumerate(lines[1:], 2) if line.strip()]
        rows = _numbers_of(numbered)
        if rows.shape != (n * (n - 1) // 2, 3):
            again = _listed_again(numbered, rows)
            other = "" if again else " (a QUBO of lines `i j value` is a file that ends in .qubo)"
            raise ValueError(f"{n} elements have {n * (n - 1) // 2} pairs; there are {len(rows)} lines{again}{other}")
        i, j = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
        wrong = (i >= j) | (i < 0) | (j >= n) | (i != rows[:, 0]) | (j != rows[:, 1])
        if wrong.any() or np.unique(i * n + j).size != len(rows):
            hint = " (are they numbered from 1?)" if len(rows) and i.min() == 1 and j.max() == n else ""
            at = f"; line {numbered[int(wrong.argmax())][0]} does not list one" if wrong.any() else ""
            raise ValueError(f"each pair 0 <= i < j < n must appear once{at}{_listed_again(numbered, rows)}{hint}")
    except ValueError as error:
        raise InvalidProblem(f"{path} is not an MDPLIB file: {error}") from error
    distances = np.zeros((n, n))
    distances[i, j] = distances[j, i] = rows[:, 2]
    m = size if size is not None else sizes[0] if sizes else 0
    if not m:
        raise InvalidProblem(f"{path} does not say how many to choose: give the size (--size on the command line)")
    return DispersionProblem(distances, np.zeros(n), size=m, weight=0.5)


def _sizes_of(lines: list[str]) -> list[int]:
    """Return n, and m where the first line says it; raises `ValueError` that says what else the file looks like."""
    words = lines[0].split()
    count = sum(1 for line in lines if line.strip())
    is_matrix = len(words) == count > 1 and all(len(line.split()) == count for line in lines if line.strip())
    if is_matrix:
        raise ValueError(
            f"it holds a matrix of {count} rows: with commas, as .csv, it is read as distances; a diagonal and values "
            "of any sign are for DispersionProblem.from_quadratic, or lines `i j value` in a file that ends in .qubo"
        )
    if not (1 <= len(words) <= 2 and all(word.isascii() and word.isdigit() for word in words)):
        hint = " (a QUBO of lines `i j value` is a file that ends in .qubo)" if len(words) == 3 else ""
        raise ValueError(
            f"its first line reads n m, or n alone, in whole numbers from 0 on; got {lines[0][:80]!r}{hint}"
        )
    return [int(word) for word in words]


def _numbers_of(numbered: list[tuple[int, list[str]]]) -> NDArray[np.float64]:
    """Return the numbers of lines ``i j distance`` as an array; raises `ValueError` that names the first other line."""
    try:
        return np.array([words for _, words in numbered], dtype=np.float64) if numbered else np.zeros((0, 3))
    except ValueError:
        for number, words in numbered:
            if len(words) != 3 or not all(_is_number(word) for word in words):
                raise ValueError(f"line {number} must be i j distance; got {' '.join(words)[:80]!r}") from None
        raise


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _listed_again(numbered: list[tuple[int, list[str]]], rows: NDArray[np.float64]) -> str:
    """Return words for the first line whose pair stands on a line before, if there is one."""
    if rows.ndim != 2 or rows.shape[1] < 2:
        return ""
    _, first, pair_of = np.unique(rows[:, :2], axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[pair_of.ravel()] != np.arange(len(rows)))
    return f"; line {numbered[again[0]][0]} lists a pair again" if again.size else ""


def read_tsplib(path: PathLike, size: int) -> PointDispersionProblem:
    """Read the coordinates of a TSPLIB file (G. Reinelt, ORSA Journal on Computing 3(4), 1991) as points.

    Distances are Euclidean and not rounded, as the literature on diversity has them, whatever EDGE_WEIGHT_TYPE says.

    Parameters
    ----------
    path : path-like
        A file with a NODE_COORD_SECTION of lines ``id x y`` (or ``id x y z``).
    size : int
        m.

    Returns
    -------
    PointDispersionProblem
        With weight 0.5, so that the objective is the sum over the chosen pairs, and places counted from 0.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file has no coordinates, or not as many as its DIMENSION says, or the size does not fit.
    """
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
        heads = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
        start = lines.index("NODE_COORD_SECTION") + 1
        rows = []
        for line in lines[start:]:
            if not line or line == "EOF" or line.endswith("SECTION"):
                break
            rows.append([float(word) for word in line.split()[1:]])
        points = np.array(rows, dtype=np.float64)
        if points.ndim != 2 or len(points) != int(heads.get("DIMENSION", len(points))):
            raise ValueError(f"{heads.get('DIMENSION')} points are announced, {len(rows)} lines are there")
    except ValueError as error:
        raise InvalidProblem(f"{path} is not a TSPLIB file with coordinates: {error}") from error
    return PointDispersionProblem(points, np.zeros(len(points)), size=size, weight=0.5)


def read_densest_subgraph(path: PathLike, size: int) -> DispersionProblem:
    """Read a graph for the densest ``size``-subgraph (k-cluster): edges are distances 1, or their weights.

    The file has ``n m``, then a line ``i j`` or ``i j w`` for each of the m edges, with i and j from 1. Lines that
    begin with ``c`` or ``#`` are comments; DIMACS's ``p edge n m`` and ``e i j`` are read as well. Weights must not be
    negative.

    Parameters
    ----------
    path : path-like
        The file.
    size : int
        Vertices to choose.

    Returns
    -------
    DispersionProblem
        With weight 0.5: the objective is the number (or weight) of the edges within the selection.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file is not of this format, names more than 1 000 vertices and more than it has words, or the size does
        not fit.
    """
    try:
        lines = [line.split() for line in read_text(path).splitlines()]
        rows = [row for row in lines if row and not row[0].startswith(("c", "#"))]
        if not rows:
            raise ValueError("it is empty")
        n, count = (int(word) for word in rows[0][-2:])
        edges = [row[1:] if row[0] == "e" else row for row in rows[1:]]
        if len(edges) != count:
            raise ValueError(f"its first line promises {count} edges; there are {len(edges)}")
        # Memory for n² distances is asked for by so many words, or by few vertices.
        if not 0 <= n <= max(_VERTICES, sum(map(len, rows))):
            raise ValueError(f"its first line promises {n} vertices, for {count} edges")
        distances = np.zeros((n, n))
        for edge in edges:
            i, j = int(edge[0]) - 1, int(edge[1]) - 1
            if not (0 <= i < n and 0 <= j < n and i != j and len(edge) <= 3):
                raise ValueError(f"an edge joins two different vertices from 1 to {n}; got {' '.join(edge)!r}")
            if distances[i, j]:
                raise ValueError(f"the edge {i + 1} {j + 1} appears twice")
            distances[i, j] = distances[j, i] = float(edge[2]) if len(edge) == 3 else 1.0
    except (ValueError, IndexError, MemoryError) as error:
        raise InvalidProblem(f"{path} is not a graph for the densest subgraph: {error}") from error
    return DispersionProblem(distances, np.zeros(n), size=size, weight=0.5)


def read_points(path: PathLike) -> NDArray[np.float64]:
    """Read points, one per row: a NumPy ``.npy`` file, or text with commas (what follows ``#`` is a comment).

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    (n, d) ndarray
        The points, for `PointDispersionProblem`.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    InvalidProblem
        When the file does not hold an array of numbers with rows and columns.
    """
    try:
        points = np.asarray(read_matrix(path), dtype=np.float64)
    except Unreadable as error:
        raise InvalidProblem(f"{path} does not hold points: {error}") from error
    if points.ndim != 2 or points.size == 0:
        raise InvalidProblem(f"{path} must hold one point a row; got shape {points.shape}")
    return points


def write_mdplib(problem: DispersionProblem, path: PathLike) -> None:
    """Write the format `read_mdplib` reads; distances are multiplied by ``2 · weight``, which keeps the objective.

    Costs that are all the same are left out: the file's objective is larger by m times that cost. Clients are numbered
    by their places.

    Raises
    ------
    InvalidProblem
        When there are side constraints, or costs that differ: the format has no place for them.
    """
    if problem.is_constrained:
        raise InvalidProblem("an MDPLIB file has no place for side constraints; write LP, MPS or a .npz file (save)")
    if np.ptp(problem.costs) > 0:
        raise InvalidProblem("an MDPLIB file has no place for costs; write LP, MPS or a .npz file (save) instead")
    with text_appearing_whole(path) as stream:
        stream.write(f"{problem.n} {problem.size}\n")
        for i, j, value in _pairs(problem):
            stream.write(f"{i} {j} {value!r}\n")


def write_lp(problem: DispersionProblem, path: PathLike, formulation: str = "quadratic") -> None:
    """Write a CPLEX LP file in binaries ``x<client>``; see `file_model` for the formulations.

    HiGHS and CBC take no quadratic objective of binaries: give them ``"rlt"`` or ``"glover"`` (or ``"tangent"``, a
    relaxation).
    """
    file_model(problem, formulation).write_lp(path)


def write_mps(problem: DispersionProblem, path: PathLike, formulation: str = "quadratic") -> None:
    """Write a free MPS file; see `file_model` for the formulations.

    HiGHS and CBC take no quadratic objective of binaries: give them ``"rlt"`` or ``"glover"`` (or ``"tangent"``, a
    relaxation). A linear model minimises minus the objective.
    """
    file_model(problem, formulation).write_mps(path)


def write_qplib(problem: DispersionProblem, path: PathLike) -> None:
    r"""Write QPLIB's format (Furini et al., Mathematical Programming Computation 11, 2019), type ``QBL``.

    Maximise :math:`\tfrac12 x^\top Q x + b^\top x` over binaries and linear constraints, with the
    symmetric :math:`Q = 2wH`, whose lower triangle is listed, and :math:`b = -c`. So GALAHAD reads the format; a reader
    that takes the triangle for the whole matrix halves the quadratic part. Variable j, counted from 1, is the j-th
    client; names are left out.

    Parameters
    ----------
    problem : DispersionProblem
        The problem; side constraints become rows.
    path : path-like
        The file.
    """
    rows = problem.feasible.rows()
    pairs = [(j + 1, i + 1, value) for i, j, value in _pairs(problem) if value]
    coefficients = [
        (place, column + 1, row.coefficients[column])
        for place, row in enumerate(rows, 1)
        for column in np.flatnonzero(row.coefficients)
    ]
    with text_appearing_whole(path) as stream:
        stream.write("dispersion\nQBL\nmaximize\n")
        stream.write(f"{problem.n} # variables\n{len(rows)} # constraints\n")
        stream.write(f"{len(pairs)} # quadratic terms of the objective, lower triangle of Q\n")
        stream.writelines(f"{i} {j} {value!r}\n" for i, j, value in pairs)
        _write_vector(stream, "linear terms of the objective", -problem.costs)
        stream.write("0 # constant of the objective\n")
        stream.write(f"{len(coefficients)} # linear terms of the constraints\n")
        stream.writelines(f"{row} {column} {float(value)!r}\n" for row, column, value in coefficients)
        stream.write(f"{_QPLIB_INFINITY!r} # infinity\n")
        for sides, values in (("left", [row.low for row in rows]), ("right", [row.high for row in rows])):
            _write_vector(stream, f"{sides}-hand sides", np.clip(values, -_QPLIB_INFINITY, _QPLIB_INFINITY))
        for what in ("starting values of the variables", "multipliers of the constraints", "multipliers of the bounds"):
            _write_vector(stream, what, np.zeros(1))
        stream.write("0 # names of variables\n0 # names of constraints\n")


#: What stands for no limit in a QPLIB file.
_QPLIB_INFINITY = 1e30


def _write_vector(stream: IO[str], what: str, values: NDArray[np.float64]) -> None:
    """Write a vector as QPLIB does: the most frequent value, and those that differ, counted from 1."""
    different, counts = np.unique(values + 0.0, return_counts=True)  # + 0.0: no minus zero
    usual = different[counts.argmax()]
    others = np.flatnonzero(values != usual)
    stream.write(f"{float(usual)!r} # default of the {what}\n{len(others)} # others\n")
    stream.writelines(f"{place + 1} {float(values[place])!r}\n" for place in others)


def write_cp_sat(problem: DispersionProblem, path: PathLike, formulation: str = "rlt") -> float:
    """Write the integer model of method ``cp-sat`` as a proto: text if the suffix ends in ``txt``, else binary.

    Returns
    -------
    float
        The scale: the model's objective divided by it is the problem's, but for rounding and a constant.

    Raises
    ------
    InvalidOption
        When the formulation is not "rlt" or "product".
    """
    from solvers.dispersion.methods.cp_sat import state

    if formulation not in ("rlt", "product"):
        raise InvalidOption(f"the formulation of a CP-SAT model must be 'rlt' or 'product'; got {formulation!r}")
    model, _, integers = state(problem, formulation)
    with tempfile.TemporaryDirectory(prefix="solvers-") as folder:  # CP-SAT itself would leave half a file
        written = Path(folder) / f"model{Path(path).suffix}"
        if not model.export_to_file(str(written)):
            raise OSError(f"CP-SAT could not write {path}")
        write_atomically(Path(path), written.read_bytes())
    return integers.scale * integers.counted


def to_qubo(problem: DispersionProblem, penalty: float | None = None) -> tuple[NDArray[np.float64], float, float]:
    r"""State the problem without a constraint: minimise :math:`x^\top Q x + \text{offset}` over 0/1 vectors.

    :math:`Q = \mathrm{Diag}(c) - wH + P \, (1 1^\top - 2 m I)`, offset :math:`P m^2`: minus the objective plus P
    times the squared violation.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    penalty : float, optional
        P. By default larger than any client's gain or loss, counted against all others, so that every minimiser is
        feasible.

    Returns
    -------
    (n, n) ndarray, float, float
        Q (symmetric), the offset, and the penalty used.

    Raises
    ------
    InvalidOption
        When the penalty is not positive and finite, or so large that Q overflows.
    InvalidProblem
        When there are side constraints.
    """
    if problem.is_constrained:
        raise InvalidProblem(
            "a QUBO has no rows for side constraints; write LP or MPS, or use a method that keeps them"
        )
    n, m = problem.n, problem.size
    reach = 2 * problem.weight * problem.distances.sum(axis=1, dtype=np.float64)
    if penalty is None:
        penalty = float(np.maximum(np.abs(reach - problem.costs), np.abs(problem.costs)).max()) * 1.001
        penalty = penalty if penalty > 0 else 1.0
    penalty = number(penalty, "penalty", Above(0), error=InvalidOption)
    if not math.isfinite(2 * m * m * penalty):
        raise InvalidOption(f"penalty {penalty:g} overflows with {m} clients to choose; give a smaller one")
    q = penalty - problem.weight * problem.distances.astype(np.float64)
    q[np.arange(n), np.arange(n)] += problem.costs - 2 * m * penalty
    return q, penalty * m * m, penalty


def write_qubo(problem: DispersionProblem, path: PathLike, penalty: float | None = None) -> None:
    """Write `to_qubo`'s matrix in the ``.qubo`` text format of annealers: ``i i q`` and ``i j q`` lines, i < j from 0.

    Energies are to be minimised; the offset stands in a comment. Clients are numbered by their places. What `to_qubo`
    raises is raised here, too.
    """
    q, offset, penalty = to_qubo(problem, penalty)
    n = problem.n
    pairs = [(i, j, 2 * q[i, j]) for i in range(n) for j in range(i + 1, n) if q[i, j]]
    with text_appearing_whole(path) as stream:
        stream.write(f"c objective = -(energy + {offset!r}) for feasible decisions; penalty {penalty!r}\n")
        stream.write(f"p qubo 0 {n} {n} {len(pairs)}\n")
        stream.writelines(f"{i} {i} {float(q[i, i])!r}\n" for i in range(n))
        stream.writelines(f"{i} {j} {float(value)!r}\n" for i, j, value in pairs)


def _pairs(problem: DispersionProblem) -> Iterator[tuple[int, int, float]]:
    """Each pair once, with its contribution to the objective."""
    for i in range(problem.n):
        values = (2 * problem.weight * problem.distances[i].astype(np.float64)).tolist()
        for j in range(i + 1, problem.n):
            yield i, j, values[j]


# -- models as files -----------------------------------------------------------------------------------------------

FORMULATIONS = ("quadratic", "rlt", "glover", "tangent")

_SENSES = {"<=": "L", ">=": "G", "=": "E"}

#: A coefficient and the name of its variable.
Terms = list[tuple[float, str]]


@dataclass
class FileModel:
    """Model for a file: maximise ``objective`` over ``rows``, ``binaries`` in {0, 1} and other variables.

    Attributes
    ----------
    objective : list of (float, str)
        Coefficients and names.
    rows : list of (str, list of (float, str), str, float)
        Name, terms, ``"<="``, ``">="`` or ``"="``, and right-hand side.
    binaries, nonnegative, free : list of str
        Names of the variables, by their domain.
    products : list of (float, str, str) or None
        Quadratic terms of the objective, each pair once; None where it is linear.
    """

    objective: Terms
    binaries: list[str]
    rows: list[tuple[str, Terms, str, float]] = field(default_factory=list)
    nonnegative: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    products: list[tuple[float, str, str]] | None = None

    def write_lp(self, path: str | os.PathLike[str]) -> None:
        """Write a CPLEX LP file."""
        with text_appearing_whole(path) as stream:
            stream.write("Maximize\n obj:")
            stream.writelines(f" {value:+.17g} {name}\n" for value, name in self.objective)
            if self.products is not None:
                stream.write(" + [\n")
                stream.writelines(f" {2 * value:+.17g} {first} * {other}\n" for value, first, other in self.products)
                if not self.products:  # the brackets must not be empty
                    stream.write(f" +0 {self.binaries[0]} ^ 2\n")
                stream.write(" ] / 2\n")
            stream.write("Subject To\n")
            for row, terms, sense, right in self.rows:
                stream.write(f" {row}:")
                stream.writelines(f" {value:+.17g} {name}\n" for value, name in terms)
                stream.write(f" {sense} {right:.17g}\n")
            if self.free:
                stream.write("Bounds\n")
                stream.writelines(f" {name} free\n" for name in self.free)
            stream.write("Binary\n")
            stream.writelines(f" {name}\n" for name in self.binaries)
            stream.write("End\n")

    def write_mps(self, path: str | os.PathLike[str]) -> None:
        """Write a free MPS file.

        A linear model minimises minus the objective: CBC ignores OBJSENSE, and would turn it around. A quadratic one
        has OBJSENSE and QUADOBJ sections (half of xᵀQx, lower triangle).
        """
        is_linear = self.products is None
        columns: dict[str, Terms] = {name: [] for name in (*self.binaries, *self.nonnegative, *self.free)}
        objective = [(-value, name) for value, name in self.objective] if is_linear else self.objective
        for row, terms in [("obj", objective), *((row, terms) for row, terms, _, _ in self.rows)]:
            for value, name in terms:
                columns[name].append((value, row))
        with text_appearing_whole(path) as stream:
            if is_linear:
                stream.write("* minimised is minus the objective of the problem\nNAME dispersion FREE\n")
            else:
                stream.write("NAME dispersion\nOBJSENSE\n MAX\n")
            stream.write("ROWS\n N obj\n")
            stream.writelines(f" {_SENSES[sense]} {row}\n" for row, _, sense, _ in self.rows)
            stream.write("COLUMNS\n MARKER 'MARKER' 'INTORG'\n")
            for place, (name, entries) in enumerate(columns.items()):
                if place == len(self.binaries):
                    stream.write(" MARKER 'MARKER' 'INTEND'\n")
                stream.writelines(f" {name} {row} {float(value)!r}\n" for value, row in entries)
            if len(columns) == len(self.binaries):
                stream.write(" MARKER 'MARKER' 'INTEND'\n")
            stream.write("RHS\n")
            stream.writelines(f" RHS {row} {float(right)!r}\n" for row, _, _, right in self.rows if right)
            stream.write("BOUNDS\n")
            stream.writelines(f" BV BND {name}\n" for name in self.binaries)
            stream.writelines(f" FR BND {name}\n" for name in self.free)
            if self.products is not None:
                stream.write("QUADOBJ\n")
                stream.writelines(f" {other} {first} {value!r}\n" for value, first, other in self.products)
            stream.write("ENDATA\n")


def file_model(problem: DispersionProblem, formulation: str) -> FileModel:
    r"""State the problem for a file; variables ``x<client>`` are the decision, ``xn3`` that of client -3.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    formulation : {"quadratic", "rlt", "glover", "tangent"}
        * ``"quadratic"``: the objective as it is.
        * ``"rlt"``: a variable per pair, :math:`y_{ij} \le x_i`, :math:`y_{ij} \le x_j` and
          :math:`\sum_j y_{ij} = (m - 1) x_i`. A strong relaxation, and n²/2 products beside the binaries.
        * ``"glover"``: a variable per client, :math:`z_i \le U_i x_i` and
          :math:`z_i \le \sum_j w h_{ij} x_j - L_i (1 - x_i)` (Glover, Management Science 22(4), 1975). :math:`U_i` is
          the sum of the m − 1 largest :math:`w h_{ij}`, :math:`L_i` of the m smallest. Small and weak.
        * ``"tangent"``: one variable below tangents of the objective made concave on the slice. The optimum of this
          model is an upper bound, and mostly not attained: for m < n there are n − m + 5 tangents, and selections at
          which there is none may be worth too much. The other formulations have the problem's optimum.

    Raises
    ------
    InvalidOption
        When the formulation is unknown.
    """
    if formulation not in FORMULATIONS:
        raise InvalidOption(f"formulation must be one of {', '.join(FORMULATIONS)}; got {formulation!r}")
    names = [f"x{client}".replace("-", "n") for client in problem.clients]  # a minus would be an operator in LP files
    costs = [(-cost, name) for name, cost in zip(names, problem.costs.tolist(), strict=True)]
    form = FileModel(costs, names)
    for name, coefficients, sense, limit in (side for row in problem.feasible.rows() for side in row.sides()):
        terms = [(value, each) for value, each in zip(coefficients.tolist(), names, strict=True) if value]
        form.rows.append((_row_name(name, len(form.rows)), terms, sense, limit))
    {"quadratic": _quadratic, "rlt": _products, "glover": _sums, "tangent": _tangents}[formulation](
        problem, names, form
    )
    return form


def _row_name(name: str, place: int) -> str:
    """Return a row's name in the letters that LP and MPS files take, with its place where that changed it."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)
    return name if plain == name and re.match("[A-DF-Za-df-z]", name) else f"c{place}_{plain}"


def _quadratic(problem: DispersionProblem, names: list[str], form: FileModel) -> None:
    form.products = [(value, names[i], names[j]) for i, j, value in _pairs(problem) if value]


def _products(problem: DispersionProblem, names: list[str], form: FileModel) -> None:
    of_client: list[Terms] = [[] for _ in names]
    for i, first in enumerate(names):
        values = (2 * problem.weight * problem.distances[i].astype(np.float64)).tolist()
        for j in range(i + 1, len(names)):
            second = names[j]
            product = f"y{first[1:]}_{second[1:]}"
            form.nonnegative.append(product)
            form.objective.append((values[j], product))
            form.rows.append((f"a{product}", [(1.0, product), (-1.0, first)], "<=", 0.0))
            form.rows.append((f"b{product}", [(1.0, product), (-1.0, second)], "<=", 0.0))
            of_client[i].append((1.0, product))
            of_client[j].append((1.0, product))
    for name, terms in zip(names, of_client, strict=True):
        form.rows.append((f"r{name}", [*terms, (1.0 - problem.size, name)], "=", 0.0))


def _sums(problem: DispersionProblem, names: list[str], form: FileModel) -> None:
    m = problem.size
    for i, name in enumerate(names):
        row = problem.weight * problem.distances[i].astype(np.float64)
        ordered = np.sort(np.delete(row, i))
        most, least = math.fsum(ordered[::-1][: m - 1]), math.fsum(ordered[:m])
        part = f"z{name[1:]}"
        form.free.append(part)
        form.objective.append((1.0, part))
        form.rows.append((f"u{part}", [(1.0, part), (-most, name)], "<=", 0.0))
        reached = [(-value, other) for value, other in zip(row.tolist(), names, strict=True) if other != name]
        form.rows.append((f"s{part}", [(1.0, part), *reached, (-least, name)], "<=", -least))


def _tangents(problem: DispersionProblem, names: list[str], form: FileModel) -> None:
    """Tangents at the fractional solution, at the greedy selection, between them, and where one client is exchanged."""
    form.objective = [(1.0, "theta")]
    form.free.append("theta")
    if problem.size == problem.n:  # nothing to decide, and nothing to relax
        form.rows.append(("t0", [(1.0, "theta")], "<=", problem.objective(np.ones(problem.n))))
        return
    tangents = OuterApproximation(problem)
    start = np.asarray(greedy_decision(problem))
    points = tangents.first(start)
    chosen, left = np.flatnonzero(start), np.flatnonzero(start == 0)
    for place, entering in enumerate(left):
        neighbour = start.astype(np.float64)
        neighbour[[chosen[place % len(chosen)], entering]] = 0.0, 1.0
        points.append(neighbour)
    scaled = tangents.scaled
    for place, point in enumerate(points):
        constant, gradient = tangents.at(point)
        terms = [(-value, name) for value, name in zip((gradient / scaled.factor).tolist(), names, strict=True)]
        form.rows.append((f"t{place}", [(1.0, "theta"), *terms], "<=", tangents.original(constant)))
