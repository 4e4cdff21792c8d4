r"""Three-point bound: products of three clients, averaged over the problem's symmetries.

For a selection s and a group of symmetries, let :math:`t_{abc}` be the average of :math:`s_a s_b s_c` over all images
of the three clients (equal ones allowed: pairs and single clients are among them). It depends on the orbit of
{a, b, c} alone, the objective is linear in it, and

* for every client r, :math:`M_{ij} = t_{rij}` and :math:`\bar M_{ij} = t_{ijj} - t_{rij}` are averages of matrices
  :math:`s_r s s^\top` and :math:`(1 - s_r) s s^\top`, so both are positive semidefinite;
* :math:`\sum_j t_{rij} = m \, t_{rii}`;
* the eight products of :math:`s_i` or :math:`1 - s_i`, for three clients, are non-negative.

This is Schrijver's three-point bound for codes (New code upper bounds from the Terwilliger algebra, IEEE Trans. Inf.
Theory 51, 2005) for selections of a given size: at least as strong as the doubly nonnegative relaxation, with products
of one factor more. A torus of 256 cells leaves some 1 500 unknowns, and the symmetries that keep r split its matrices
into blocks. Without symmetries it is refused for more than 14 clients.

Multipliers are certified in floating point: a Cholesky factorisation bounds the smallest eigenvalue of the multiplier
of each matrix, and what is left of the dual residual counts with the worst value of its unknown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from examples.records.checker import KIND, check
from examples.records.interior import Iterate, Program
from solvers.certificates import Certificate, problem_digest
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import ScaledProblem, certified_level

Matrix = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

#: Of the products of each three clients, in the order of `_inequalities`: those with the factor 1 − s, as bits.
_SIDES = np.array([0, 4, 3, 1, 6, 2, 5, 7])


@dataclass(frozen=True)
class Averages:
    """The unknowns: orbits of at most three clients.

    Attributes
    ----------
    size : int
        m.
    clients : (c,) ndarray of int
        One client r of every orbit.
    weights : (c,) ndarray of int
        How many there are in it.
    triples : (c, n, n) ndarray of int
        Unknown of {r, i, j}.
    pairs : (n, n) ndarray of int
        Unknown of {i, j}.
    members : (k, 3) ndarray of int
        Three clients of each unknown.
    kept : list of (s, n) ndarray of int
        The symmetries that keep each r.
    """

    size: int
    clients: NDArray[np.int64]
    weights: NDArray[np.int64]
    triples: NDArray[np.int64]
    pairs: NDArray[np.int64]
    members: NDArray[np.int64]
    kept: list[NDArray[np.int64]]


def averages(group: NDArray[np.int64], size: int) -> Averages:
    """Number the orbits of triples of clients under a closed group of permutations.

    Some symmetry takes any triple to one {r, i, j} where r is the smallest client of its orbit c: written (c, i, j).
    Several such forms stand for the same orbit of triples. They are linked, and connected components are orbits:

    * (c, i, j) with (c, j, i), as a set has no order;
    * (c, i, j) with (c, g(i), g(j)) for every symmetry g that keeps r;
    * (c, i, j) with (c', h(r), h(j)), where h takes i to the smallest client of its orbit c'.
    """
    n = group.shape[1]
    smallest = group.min(axis=0)  # client of each one's orbit
    clients = np.unique(smallest)
    home = np.searchsorted(clients, smallest)
    to = group[(group == smallest).argmax(axis=0)]  # for each client, one symmetry that takes it there
    i, j = np.divmod(np.arange(n * n), n)
    kept, edges = [], []
    for c, r in enumerate(clients.tolist()):
        here = c * n * n
        stabiliser = group[group[:, r] == r]
        kept.append(stabiliser)
        images = [here + j * n + i, *(here + g[i] * n + g[j] for g in stabiliser)]
        images.append(home[i] * n * n + to[i, r] * n + to[i, j])
        edges.append(np.stack([np.broadcast_to(here + np.arange(n * n), (len(images), n * n)), np.array(images)]))
    ends = np.concatenate([e.reshape(2, -1) for e in edges], axis=1)
    forms = clients.size * n * n
    graph = scipy.sparse.coo_matrix((np.ones(ends.shape[1], dtype=np.int8), (ends[0], ends[1])), shape=(forms, forms))
    _, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
    triples = label.reshape(clients.size, n, n).astype(np.int64)
    pairs = triples[home[i], smallest[i], to[i, j]].reshape(n, n)  # {i, j} is the triple {i, i, j}
    _, place = np.unique(label, return_index=True)
    members = np.column_stack([clients[place // (n * n)], *np.divmod(place % (n * n), n)])
    return Averages(size, clients, np.bincount(home), triples, pairs, members, kept)


def program(scaled: ScaledProblem, given: Averages) -> tuple[Program, list[list[Matrix]]]:
    """The semidefinite program (to be minimised), and for each client r the bases that its two matrices are split by.

    Its blocks are, client by client and basis by basis, those of M and of the other matrix.
    """
    count, n = len(given.members), given.pairs.shape[0]
    rows, right, _ = _equations(given)
    inequalities, constant = _inequalities(given)
    blocks, bases = [], []
    for r, triples, stay in zip(given.clients.tolist(), given.triples, given.kept, strict=True):
        others = np.delete(np.arange(n), r)
        place = np.full(n, -1, dtype=np.int64)
        place[others] = np.arange(n - 1)
        bases.append(block_diagonalise(place[stay[:, others]]))
        for basis in bases[-1]:
            chosen = _coefficients(triples[np.ix_(others, others)], basis, count)
            blocks += [chosen, _coefficients(given.pairs[np.ix_(others, others)], basis, count) - chosen]
    gains = scaled.quadratic.copy()
    gains[np.diag_indices(n)] += scaled.linear
    objective = -np.bincount(given.pairs.ravel(), weights=gains.ravel(), minlength=count).astype(np.float64)
    return Program(objective, rows, right, inequalities, constant, blocks), bases


def uniform_start(given: Averages) -> NDArray[np.float64]:
    """The averages over all selections: strictly feasible if 3 ≤ m ≤ n − 3."""
    n, m = given.pairs.shape[0], given.size
    chance = np.cumprod([(m - k) / (n - k) for k in range(3)])
    return chance[_distinct(given) - 1]


def certified(
    scaled: ScaledProblem, given: Averages, program: Program, bases: list[list[Matrix]], point: Iterate
) -> float:
    """A bound on every selection of the problem, in the units of `ScaledProblem`, from any multipliers.

    Unknowns are between 0 and 1, and the trace of either matrix is at most m.
    """
    n, m = given.pairs.shape[0], given.size
    weights = np.maximum(point.rows, 0.0)
    left = program.objective - program.equations.T @ point.equations - program.rows.T @ weights
    size = abs(program.objective) + abs(program.equations).T @ abs(point.equations) + abs(program.rows).T @ weights
    value = float(program.right @ point.equations - program.constant @ weights)
    size_of_value = float(abs(program.right) @ abs(point.equations) + abs(program.constant) @ weights)
    multipliers = iter(point.matrices)
    for r, triples, split_by in zip(given.clients.tolist(), given.triples, bases, strict=True):
        others = np.delete(np.arange(n), r)
        block = np.ix_(others, others)
        whole = _whole(split_by, multipliers)
        value -= m * sum(max(0.0, certified_level(z, float(abs(z).max()))) for z in whole)
        for unknowns, z in ((triples[block], whole[0] - whole[1]), (given.pairs[block], whole[1])):
            left -= np.bincount(unknowns.ravel(), weights=z.ravel(), minlength=left.size)
            size += np.bincount(unknowns.ravel(), weights=abs(whole).sum(axis=0).ravel(), minlength=left.size)
    terms = 2 * len(given.clients) * n * n + len(program.constant) + len(program.right) + 16
    value += float(np.minimum(left, 0.0).sum())
    return -value + terms * _EPS * (float(size.sum()) + size_of_value) + scaled.error


def _whole(split_by: list[Matrix], multipliers: Iterator[Matrix]) -> NDArray[np.float64]:
    """The multipliers of M and of the other matrix of a client, from those of their blocks."""
    whole = np.zeros((2, len(split_by[0]), len(split_by[0])))
    for basis in split_by:
        for k in range(2):
            whole[k] += basis @ next(multipliers) @ basis.T
    return (whole + whole.transpose(0, 2, 1)) / 2


def written(
    problem: DispersionProblem,
    symmetries: NDArray[np.int64],
    given: Averages,
    bases: list[list[Matrix]],
    point: Iterate,
) -> Certificate:
    """Write the multipliers down in whole numbers (`examples.records.checker`), with the bound they prove."""
    n, factor = problem.n, ScaledProblem.of(problem).factor
    weights, multipliers = np.maximum(point.rows, 0.0) / factor, iter(point.matrices)
    matrices = np.zeros((len(given.clients), 2, n, n))
    for matrix, r, split_by in zip(matrices, given.clients.tolist(), bases, strict=True):
        others = np.delete(np.arange(n), r)
        matrix[:, others[:, None], others] = _whole(split_by, multipliers) / factor
    about, slopes = _equations(given)[2], point.equations / factor
    largest = max(float(abs(values).max(initial=0.0)) for values in (matrices, weights, slopes))
    data = max(problem.weight * problem.diameter, float(abs(problem.costs).max()))
    grid = max(math.frexp(largest)[1] - 39, math.frexp(data)[1] - 39, math.frexp(data * problem.size**2)[1] - 60)
    whole, weight, slope = (np.rint(np.ldexp(v, -grid)).astype(np.int64) for v in (matrices, weights, slopes))
    # Twice what it takes, and 64: for the rounding of eigenvalues, and of the checker's factor.
    room = [2 * math.ceil(max(0.0, -np.linalg.eigvalsh(matrix)[0])) + 64 for pair in whole for matrix in pair]
    three = given.members[_distinct(given) == 3]
    products, kept = np.tile(three, (len(_SIDES), 1)), np.flatnonzero(weight)
    lower, all_of = np.tril_indices(n), about[:, 0] < 0
    arrays = {
        "symmetry": symmetries.ravel(),
        "client": given.clients,
        "chosen": whole[:, 0, *lower].ravel(),
        "left": whole[:, 1, *lower].ravel(),
        "room": np.array(room),
        "product": products[kept].ravel(),
        "sides": np.repeat(_SIDES, len(three))[kept],
        "weight": weight[kept],
        "equation": about[~all_of].ravel(),
        "slope": slope[~all_of],
        "level": np.array([int(slope[all_of].sum()) + round(math.ldexp(problem.common_cost, -grid))]),
    }
    said = Certificate(KIND, problem_digest(problem), sys.float_info.max, grid, arrays)
    return replace(said, bound=check(problem, said))


def _equations(given: Averages) -> tuple[Matrix, NDArray[np.float64], NDArray[np.int64]]:
    """``Σ_j t_rij = m t_rii`` and ``Σ_r t_rrr = m``, whole numbers all, without those that follow from others.

    The last array has r and i of each of them, -1 for that of all clients.
    """
    count, m = len(given.members), given.size
    about = [(-1, -1)]
    rows = np.zeros((1, count))
    np.add.at(rows[0], given.triples[np.arange(len(given.clients)), given.clients, given.clients], given.weights)
    for r, triples in zip(given.clients.tolist(), given.triples, strict=True):
        first = np.unique(triples[r], return_index=True)[1]
        sums = np.array([np.bincount(triples[i], minlength=count) for i in first], dtype=np.float64)
        sums[np.arange(first.size), triples[r, first]] -= m
        rows = np.concatenate([rows, sums])
        about += [(r, i) for i in first.tolist()]
    right = np.zeros(len(rows))
    right[0] = m
    _, triangle, order = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)
    diagonal = abs(triangle.diagonal())
    kept = np.sort(order[: int((diagonal > 1e-9 * diagonal[0]).sum())])
    return rows[kept], right[kept], np.array(about)[kept]


def _inequalities(given: Averages) -> tuple[Any, NDArray[np.float64]]:
    """The products of s_i or 1 − s_i over three clients, as rows and constants; each once."""
    single = given.pairs.diagonal()
    three = given.members[_distinct(given) == 3]
    corner = given.pairs
    a, b, c = three.T
    t = np.flatnonzero(_distinct(given) == 3)
    one = np.ones(t.size)
    parts = [([(t, one)], 0.0)]  # in the order of `_SIDES`
    for i, j, k in ((a, b, c), (b, c, a), (c, a, b)):
        parts.append(([(corner[i, j], one), (t, -one)], 0.0))
        parts.append(([(single[k], one), (corner[i, k], -one), (corner[j, k], -one), (t, one)], 0.0))
    singles, pairs = [(single[i], -one) for i in (a, b, c)], [(corner[i, j], one) for i, j in ((a, b), (b, c), (c, a))]
    parts.append(([*singles, *pairs, (t, -one)], 1.0))
    matrices = []
    for terms, _ in parts:
        row = np.tile(np.arange(t.size), len(terms))
        column, value = (np.concatenate([term[k] for term in terms]) for k in (0, 1))
        matrices.append(scipy.sparse.csr_matrix((value, (row, column)), shape=(t.size, len(given.members))))
    constants = np.repeat([constant for _, constant in parts], t.size)
    return scipy.sparse.vstack(matrices).tocsr(), constants


def _coefficients(unknowns: NDArray[np.int64], basis: Matrix, count: int) -> NDArray[np.float64]:
    """``Vᵀ A_k V`` for the indicator A_k of each unknown's places."""
    n, d = basis.shape
    order = np.argsort(unknowns, axis=None, kind="stable")
    ends = np.searchsorted(unknowns.ravel()[order], np.arange(count + 1))
    found = np.zeros((count, d, d))
    for k in np.unique(unknowns).tolist():
        i, j = np.divmod(order[ends[k] : ends[k + 1]], n)
        found[k] = basis[i].T @ basis[j]
    return (found + found.transpose(0, 2, 1)) / 2


def _distinct(given: Averages) -> NDArray[np.int64]:
    """How many different clients an unknown has."""
    a, b, c = given.members.T
    return 1 + (a != b) + ((c != a) & (c != b)).astype(np.int64)


def block_diagonalise(group: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Block-diagonalise the matrices M that a group keeps: bases V_b with ``M ⪰ 0`` iff all ``V_bᵀ M V_b ⪰ 0``.

    Two random such matrices tell (Murota, Kanno, Kojima and Kojima, A numerical algorithm for block-diagonal
    decomposition of matrix *-algebras, Japan J. Industr. Appl. Math. 27, 2010): the eigenspaces of one are the
    irreducible representations, and the other one links those of the same kind and says how they correspond, so that
    one vector of each is enough.

    Parameters
    ----------
    group : (g, n) ndarray of int
        The permutations, closed under composition.

    Returns
    -------
    list of (n, d) ndarray
        A basis for every kind of representation.
    """
    rng = np.random.default_rng(0)
    orbits = _orbitals(group)

    def invariant() -> NDArray[np.float64]:
        matrix = rng.normal(size=int(orbits.max()) + 1)[orbits]
        return (matrix + matrix.T) / 2

    values, vectors = np.linalg.eigh(invariant())
    steps = np.flatnonzero(np.diff(values) > 1e-8 * np.abs(values).max()) + 1
    spaces = np.split(np.arange(len(values)), steps)
    links = vectors.T @ invariant() @ vectors
    bases, open_ = [], list(range(len(spaces)))
    while open_:
        first = spaces[open_.pop(0)]
        columns, apart = [vectors[:, first[0]]], []
        for k in open_:
            link = links[np.ix_(first, spaces[k])]
            norm = float(np.linalg.norm(link))
            if len(spaces[k]) != len(first) or norm < 1e-8:
                apart.append(k)
                continue
            columns.append(vectors[:, spaces[k]] @ link[0] * (np.sqrt(len(first)) / norm))
        open_ = apart
        bases.append(np.column_stack(columns))
    return bases


def _orbitals(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The orbit of each pair (i, j)."""
    n = group.shape[1]
    i, j = np.divmod(np.arange(n * n), n)
    ends = (np.tile(np.arange(n * n), len(group)), (group[:, i] * n + group[:, j]).ravel())
    graph = scipy.sparse.coo_matrix((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(n * n, n * n))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1].reshape(n, n).astype(np.int64)
