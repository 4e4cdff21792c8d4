r"""The problem rewritten so that it is concave on the slice :math:`1^\top s = m`, with a certificate in floating point.

See docs/mathematics/dispersion.md, *Concave where it counts*; docs/mathematics/dispersion_relaxations.md has symbols
and names.

Terms that vanish, or do no harm, at the points that count:

* :math:`d_i (s_i - s_i^2)`, zero on 0/1 vectors, for any :math:`d_i`;
* :math:`p_{ij} (s_j - s_i s_j)`, zero wherever i is chosen whenever j is (`solvers.dispersion.relaxations.dominance`);
* :math:`r_{ij} s_i s_j` with :math:`r_{ij} \ge 0`: never negative, so it can only raise a bound;
* cuts (`solvers.dispersion.relaxations.cuts`), and products of side constraints' rows
  (`solvers.dispersion.relaxations.row_products`), with multipliers of at least 0: not negative there either.

With multipliers that make the sum concave on the slice, any point y gives the bound
:math:`f(y) + \max_{1^\top x = m,\, 0 \le x \le 1} \nabla f(y)^\top (x - y)`, and the maximum is a sum of the m largest
entries of the gradient. This is the reformulation of Billionnet, Elloumi and Plateau (QCR, Discrete Appl. Math. 157,
2009) with the equality projected out; for distances of negative type (Euclidean ones) d may be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.feasible_set import Hypersimplex

_EPS = float(np.finfo(np.float64).eps)

#: Rows up to which a matrix is factorised by NumPy, which does not keep other threads waiting.
_PARALLEL = 2_000


@dataclass(frozen=True)
class Multipliers:
    """Multipliers and fractional solution of the relaxation.

    Attributes
    ----------
    diagonal : (n,) ndarray
        Multiplier of each :math:`s_i - s_i^2`, of any sign.
    dominated : (k,) ndarray
        Multiplier of :math:`s_j - s_i s_j` for each dominated pair (i, j).
    nonnegative : (l,) ndarray
        Multiplier, at least 0, of :math:`s_i s_j` for each pair held non-negative.
    x : (n,) ndarray
        The fractional solution.
    products : (n, n) ndarray
        The relaxed products X.
    bound, gap : float
        Dual value (not certified) and its distance to the primal one.
    rows : (r,) ndarray
        Multiplier, at least 0, of each product of affine functions.
    """

    diagonal: NDArray[np.float64]
    dominated: NDArray[np.float64]
    nonnegative: NDArray[np.float64]
    x: NDArray[np.float64]
    products: NDArray[np.float64]
    bound: float
    gap: float
    iterations: int
    rows: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, diagonal: NDArray[np.float64], x: NDArray[np.float64]) -> Multipliers:
        """Multipliers of the diagonal alone, which come from elsewhere, and a point."""
        none = np.zeros(0)
        return cls(diagonal, none, none, x, np.outer(x, x), np.inf, np.inf, 0)


@dataclass(frozen=True)
class ScaledProblem:
    """``max sᵀQs + lᵀs`` on the slice, scaled by a power of two so that gains are about 1.

    ``value`` and ``original`` translate objectives to these units and back, `certified` a bound that covers rounding;
    ``error`` bounds, in these units, what rounding can have changed about the objective of any selection.
    """

    quadratic: NDArray[np.float64]
    linear: NDArray[np.float64]
    size: int
    factor: float
    offset: float
    error: float

    @classmethod
    def of(cls, problem: DispersionProblem) -> ScaledProblem:
        """State ``problem`` in these units."""
        factor, offset, linear = units(problem)
        quadratic = np.multiply(problem.distances, problem.weight * factor, dtype=np.float64)
        return cls(quadratic, linear, problem.size, factor, offset, problem.rounding * factor)

    def value(self, objective: float) -> float:
        """An objective of the problem in these units."""
        return (objective + self.offset) * self.factor

    def restricted(
        self, ids: NDArray[np.int64], ones: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Fix ``ones`` to one, all but ``ids`` to zero: the quadratic and linear term over ``ids``, and a constant."""
        quadratic = np.ascontiguousarray(self.quadratic[np.ix_(ids, ids)])
        linear = self.linear[ids] + 2 * self.quadratic[np.ix_(ids, ones)].sum(axis=1)
        return quadratic, linear, float(self.linear[ones].sum() + self.quadratic[np.ix_(ones, ones)].sum())

    def original(self, value: float) -> float:
        """A value in these units as an objective of the problem."""
        return value / self.factor - self.offset

    def certified(self, bound: float) -> float:
        """A bound in these units as one on the problem's objective that covers rounding."""
        return self.original(bound) + 2 * (self.error / self.factor)


def units(problem: DispersionProblem) -> tuple[float, float, NDArray[np.float64]]:
    """A power of two that makes gains about 1, the objective's constant part, and the linear term in these units."""
    unit = 2 * problem.weight * problem.diameter * max(problem.size - 1, 1) + problem.spread
    factor = math.ldexp(1.0, min(-math.frexp(unit)[1], 1000)) if unit > 0 else 1.0
    return factor, problem.common_cost * problem.size, problem.linear * factor


@dataclass(frozen=True)
class SliceForm:
    """A function that is ``exact`` at admissible 0/1 points and, with ``curved``, concave on the slice and no smaller.

    Attributes
    ----------
    curved, exact : (n, n) ndarray
        The quadratic terms; equal unless products are held non-negative or there are cuts.
    linear : (n,) ndarray
        The linear term of both.
    size : int
        m.
    margin : float
        Bounds the rounding of a tangent bound after any number of steps the tree allows itself.
    """

    curved: NDArray[np.float64]
    exact: NDArray[np.float64]
    linear: NDArray[np.float64]
    size: int
    margin: float

    @classmethod
    def build(
        cls,
        quadratic: NDArray[np.float64],
        linear: NDArray[np.float64],
        size: int,
        diagonal: NDArray[np.float64],
        dominated: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
        nonnegative: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> SliceForm:
        """Apply multipliers (pairs and values each), and raise the diagonal by what the certificate asks for."""
        exact, linear = quadratic.copy(), linear.copy()
        if dominated is not None:
            pairs, values = dominated
            np.subtract.at(exact, (pairs[:, 0], pairs[:, 1]), values / 2)
            np.subtract.at(exact, (pairs[:, 1], pairs[:, 0]), values / 2)
            np.add.at(linear, pairs[:, 1], values)
        raised = np.zeros_like(exact)
        if nonnegative is not None:
            pairs, values = nonnegative
            np.add.at(raised, (pairs[:, 0], pairs[:, 1]), np.maximum(values, 0.0) / 2)
            np.add.at(raised, (pairs[:, 1], pairs[:, 0]), np.maximum(values, 0.0) / 2)
        diagonal = diagonal + certified_excess(exact + raised, diagonal)
        index = np.arange(linear.size)
        exact[index, index] -= diagonal
        linear += diagonal
        curved = exact if nonnegative is None else exact + raised
        return cls(curved, exact, linear, size, tangent_margin(curved, linear, size))

    def shifted(self, shift: float) -> SliceForm:
        """The same function on 0/1 points, more concave between them: ``shift`` (s - s²) is added for each client."""
        index = np.arange(self.linear.size)
        curved, exact = self.curved.copy(), self.exact.copy()
        curved[index, index] -= shift
        exact[index, index] -= shift
        linear = self.linear + shift
        return SliceForm(curved, exact, linear, self.size, self.margin + tangent_margin(curved, linear, self.size))

    def tangent(self, y: NDArray[np.float64]) -> float:
        """The bound that the tangent at ``y`` (on the slice) gives."""
        towards = self.curved @ y
        gradient = self.linear + 2 * towards
        return Hypersimplex(gradient.size, self.size).support(gradient) - float(y @ towards) + self.margin


def tangent_margin(curved: NDArray[np.float64], linear: NDArray[np.float64], size: int) -> float:
    """Bound the rounding error of a tangent bound whose gradient was updated by at most 20 n + 100 swaps.

    Every entry of the gradient is at most G = max|l| + 2 m max|M|; summing it takes n operations and each swap two
    more, all with relative error eps/2, and it meets differences x − y of at most 2 m in sum.
    """
    n = linear.size
    largest = float(np.abs(linear).max()) + 2 * size * float(np.abs(curved).max())
    return 2 * size * (2 * (20 * n + 100) + 2 * n + 16) * _EPS * largest


def certified_excess(matrix: NDArray[np.float64], diagonal: NDArray[np.float64]) -> float:
    r"""A number e ≥ 0 for which ``matrix − Diag(diagonal + e)`` is certainly negative semidefinite on ``1ᵀz = 0``.

    On that hyperplane :math:`u 1^\top + 1 u^\top + t 1 1^\top` vanishes, so it is enough that
    :math:`A = D + u 1^\top + 1 u^\top + t 1 1^\top - M` is positive semidefinite up to e, for any u and t. If the
    floating-point Cholesky factorisation of A + e₁ runs to its end, the smallest eigenvalue of A is at least
    :math:`-e_1 - \gamma \, \mathrm{tr}(A + e_1) / (1 - \gamma)`, :math:`\gamma = (n + 1) \, eps/2` (Rump, Verification
    of positive definiteness, BIT 46, 2006); forming A costs another 4 eps · n · max|terms|.
    """
    n = diagonal.size
    # With u the row means (less half the grand mean), A has no part that couples the direction 1 to the hyperplane.
    means = matrix.mean(axis=1) - diagonal / n
    u = means - means.mean() / 2
    t = max(float(np.abs(diagonal).max()), float(np.abs(matrix).max())) / max(n, 1)
    a = (u[:, None] + u) + t - matrix
    index = np.arange(n)
    a[index, index] += diagonal
    largest = float(np.abs(matrix).max() + 2 * np.abs(u).max() + t + np.abs(diagonal).max())
    if largest == 0:
        return 0.0  # all is zero; nothing would be added below
    start = a.diagonal().copy()
    added = 0.0
    for attempt in range(60):
        a[index, index] = start + added
        excess = cholesky_excess(a.copy(order="F"), largest + added)
        if excess is not None:
            return added + excess
        least = 16 * _EPS * n * (largest + added)
        if attempt == 0:
            a[index, index] = start
            smallest = eigenvalue(a, 0)
            added = max(-smallest, 0.0) + least
        else:
            added = 4 * added + least
    raise AssertionError("a matrix with a dominant diagonal has a Cholesky factor")


def eigenvalue(matrix: NDArray[np.float64], index: int) -> float:
    """Eigenvalue of a symmetric matrix by its place in ascending order.

    LAPACK's fastest method for one of them (``syevr``) may end with an internal error on matrices between clients that
    are all equally far, of which all eigenvalues but one coincide. Then all are computed, by another method.
    """
    try:
        return float(scipy.linalg.eigh(matrix, subset_by_index=[index, index], eigvals_only=True)[0])
    except np.linalg.LinAlgError:
        return float(np.linalg.eigvalsh(matrix)[index])


def certified_level(matrix: NDArray[np.float64], largest: float) -> float:
    """A number τ, of any sign, for which ``matrix + τI`` is certainly positive semidefinite.

    ``matrix`` was formed by additions whose terms sum up to at most ``largest`` for each entry.
    """
    if largest == 0:
        return 0.0  # all is zero; nothing would be added below
    n = len(matrix)
    index = np.arange(n)
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    level = -smallest + 4 * _EPS * n * largest
    while True:
        shifted = matrix.copy(order="F")
        shifted[index, index] += level
        excess = cholesky_excess(shifted, largest + abs(level))
        if excess is not None:
            return level + excess
        level += 4 * _EPS * n * largest + 1e-3 * abs(level)


def cholesky_excess(a: NDArray[np.float64], largest: float) -> float | None:
    """How far below zero the smallest eigenvalue of ``a`` can be; ``None`` if the factorisation breaks down.

    ``a`` (Fortran order, overwritten) was formed by at most four additions of terms up to ``largest``.
    """
    n = len(a)
    gamma = (n + 1) * _EPS / 2
    trace = float(np.maximum(a.diagonal(), 0).sum())
    if n <= _PARALLEL:
        try:
            np.linalg.cholesky(a)  # unlike SciPy's, it lets other threads work meanwhile; but it needs memory
        except np.linalg.LinAlgError:
            return None
    elif scipy.linalg.lapack.dpotrf(a, lower=1, clean=0, overwrite_a=1)[1] != 0:
        return None
    return gamma / (1 - gamma) * trace + 4 * _EPS * n * largest


def apply(
    normal_quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    size: int,
    multipliers: Multipliers,
    dominated: NDArray[np.int64],
    nonnegative: NDArray[np.int64],
) -> SliceForm:
    """The slice form of the multipliers that the semidefinite relaxation found."""
    return SliceForm.build(
        normal_quadratic,
        linear,
        size,
        multipliers.diagonal,
        (dominated, multipliers.dominated) if len(dominated) else None,
        (nonnegative, multipliers.nonnegative) if len(nonnegative) else None,
    )
