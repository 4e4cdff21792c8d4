"""Exchange with other people's tools: MDPLIB and TSPLIB text, points, LP and MPS files, CP-SAT's model proto, QUBO."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.linear_form import linear_form
from solvers.dispersion.problem import DispersionProblem, PointDispersionProblem
from solvers.errors import InvalidOption, InvalidProblem
from solvers.files import text_appearing_whole, write_atomically
from solvers.reading import Unreadable, read_matrix, read_text

__all__ = [
    "read_mdplib",
    "read_points",
    "read_tsplib",
    "to_qubo",
    "write_cp_sat",
    "write_lp",
    "write_mdplib",
    "write_mps",
    "write_qubo",
]

PathLike = str | os.PathLike[str]


def read_mdplib(path: PathLike, size: int | None = None) -> DispersionProblem:
    """Read an instance of the maximum diversity library: ``n m``, then lines ``i j d_ij`` with i < j from 0.

    Parameters
    ----------
    path : path-like
        The file.
    size : int, optional
        m, instead of the file's.

    Returns
    -------
    DispersionProblem
        With weight 0.5, so that the objective is the sum over the chosen pairs, as in the literature.

    Raises
    ------
    InvalidProblem
        When the file is not of this format.
    """
    try:
        lines = read_text(path).split("\n")
        n, m = (int(word) for word in lines[0].split())
        rows = np.array([line.split() for line in lines[1:] if line.strip()], dtype=np.float64)
        if rows.shape != (n * (n - 1) // 2, 3):
            raise ValueError(f"{n} elements have {n * (n - 1) // 2} pairs; there are {len(rows)} lines")
        i, j = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
        if (n and ((i >= j) | (i < 0) | (j >= n)).any()) or np.unique(i * n + j).size != len(rows):
            raise ValueError("each pair 0 <= i < j < n must appear once")
    except ValueError as error:
        raise InvalidProblem(f"{path} is not an MDPLIB file: {error}") from error
    distances = np.zeros((n, n))
    distances[i, j] = distances[j, i] = rows[:, 2]
    return DispersionProblem(distances, np.zeros(n), size=m if size is None else size, weight=0.5)


def read_tsplib(path: PathLike, size: int) -> PointDispersionProblem:
    """Read the coordinates of a TSPLIB file (G. Reinelt, ORSA Journal on Computing 3(4), 1991) as points.

    Distances are Euclidean and not rounded, as the literature on diversity has them; TSPLIB's own are.

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
    InvalidProblem
        When the file has no coordinates, or not as many as its DIMENSION says.
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


def read_points(path: PathLike) -> NDArray[np.float64]:
    """Read points, one a row: a NumPy ``.npy`` file, or text with commas (lines with ``#`` are comments).

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

    Raises
    ------
    InvalidProblem
        When there are costs that differ: the format has no place for them.
    """
    if np.ptp(problem.costs) > 0:
        raise InvalidProblem("an MDPLIB file has no place for costs; write LP, MPS or a .npz file (save) instead")
    with text_appearing_whole(path) as stream:
        stream.write(f"{problem.n} {problem.size}\n")
        for i, j, value in _pairs(problem):
            stream.write(f"{i} {j} {value!r}\n")


def write_lp(problem: DispersionProblem, path: PathLike, formulation: str = "quadratic") -> None:
    """Write a CPLEX LP file in binaries ``x<client>``.

    Its objective is quadratic, unless ``formulation`` is one of `solvers.dispersion.linear_form.FORMULATIONS`.
    """
    if formulation != "quadratic":
        linear_form(problem, formulation).write_lp(path)
        return
    names = _names(problem)
    with text_appearing_whole(path) as stream:
        stream.write("Maximize\n obj:")
        for name, cost in zip(names, problem.costs.tolist(), strict=True):
            stream.write(f" {-cost:+.17g} {name}\n")
        stream.write(" + [\n")
        for i, j, value in _pairs(problem):
            if value:
                stream.write(f" {2 * value:+.17g} {names[i]} * {names[j]}\n")
        if problem.diameter == 0 or problem.weight == 0:  # the brackets must not be empty
            stream.write(f" +0 {names[0]} ^ 2\n")
        stream.write(" ] / 2\nSubject To\n size:")
        for name in names:
            stream.write(f" + {name}\n")
        stream.write(f" = {problem.size}\nBinary\n")
        stream.writelines(f" {name}\n" for name in names)
        stream.write("End\n")


def write_mps(problem: DispersionProblem, path: PathLike, formulation: str = "quadratic") -> None:
    """Write a free MPS file with OBJSENSE and QUADOBJ sections (half of xᵀQx, lower triangle).

    With one of `solvers.dispersion.linear_form.FORMULATIONS` it is a linear model instead, which minimises minus the
    objective: CBC reads such files, too, and takes no notice of OBJSENSE.
    """
    if formulation != "quadratic":
        linear_form(problem, formulation).write_mps(path)
        return
    names = _names(problem)
    with text_appearing_whole(path) as stream:
        stream.write("NAME dispersion\nOBJSENSE\n MAX\nROWS\n N obj\n E size\nCOLUMNS\n")
        stream.write(" MARKER 'MARKER' 'INTORG'\n")
        for name, cost in zip(names, problem.costs.tolist(), strict=True):
            stream.write(f" {name} obj {-cost!r} size 1\n")
        stream.write(f" MARKER 'MARKER' 'INTEND'\nRHS\n RHS size {problem.size}\nBOUNDS\n")
        stream.writelines(f" BV BND {name}\n" for name in names)
        stream.write("QUADOBJ\n")
        for i, j, value in _pairs(problem):
            if value:
                stream.write(f" {names[j]} {names[i]} {value!r}\n")
        stream.write("ENDATA\n")


def write_cp_sat(problem: DispersionProblem, path: PathLike, formulation: str = "rlt") -> float:
    """Write the integer model of method ``cp-sat`` as a proto: text if the name ends in ``txt``, else binary.

    Returns
    -------
    float
        The scale: the model's objective divided by it is the problem's, but for rounding and a constant.
    """
    from solvers.dispersion.methods.cp_sat import state

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
        feasible: adding or leaving out a client always pays less than P.

    Returns
    -------
    (n, n) ndarray, float, float
        Q (symmetric), the offset, and the penalty used.

    Raises
    ------
    InvalidOption
        When the penalty is not positive.
    """
    n, m = problem.n, problem.size
    reach = 2 * problem.weight * problem.distances.sum(axis=1, dtype=np.float64)
    if penalty is None:
        penalty = float(np.maximum(np.abs(reach - problem.costs), np.abs(problem.costs)).max()) * 1.001
        penalty = penalty if penalty > 0 else 1.0
    if not penalty > 0:
        raise InvalidOption(f"penalty must be positive; got {penalty}")
    q = penalty - problem.weight * problem.distances.astype(np.float64)
    q[np.arange(n), np.arange(n)] += problem.costs - 2 * m * penalty
    return q, penalty * m * m, penalty


def write_qubo(problem: DispersionProblem, path: PathLike, penalty: float | None = None) -> None:
    """Write `to_qubo`'s matrix in the ``.qubo`` text format of annealers: ``i i q`` and ``i j q`` lines, i < j from 0.

    Energies are to be minimised; the offset stands in a comment.
    """
    q, offset, penalty = to_qubo(problem, penalty)
    n = problem.n
    pairs = [(i, j, 2 * q[i, j]) for i in range(n) for j in range(i + 1, n) if q[i, j]]
    with text_appearing_whole(path) as stream:
        stream.write(f"c objective = -(energy + {offset!r}) for feasible decisions; penalty {penalty!r}\n")
        stream.write(f"p qubo 0 {n} {n} {len(pairs)}\n")
        stream.writelines(f"{i} {i} {float(q[i, i])!r}\n" for i in range(n))
        stream.writelines(f"{i} {j} {float(value)!r}\n" for i, j, value in pairs)


def _names(problem: DispersionProblem) -> list[str]:
    return [f"x{client}" for client in problem.clients]


def _pairs(problem: DispersionProblem) -> Iterator[tuple[int, int, float]]:
    """Each pair once, with its contribution to the objective."""
    for i in range(problem.n):
        values = (2 * problem.weight * problem.distances[i].astype(np.float64)).tolist()
        for j in range(i + 1, problem.n):
            yield i, j, values[j]
