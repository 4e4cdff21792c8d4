r"""Quadratic fixing: clients that no better selection contains, or that each contains, from one matrix inverse.

See docs/mathematics/dispersion_relaxations.md, *Quadratic fixing*, which has a table of symbols and names.

For any diagonal d a selection s of m clients is worth

.. math:: s^\top Q s + l^\top s = f(s), \qquad f(s) = s^\top (Q - \mathrm{Diag}(d)) s + (l + d)^\top s,

and where :math:`A = \mathrm{Diag}(d) - Q` is positive definite on :math:`1^\top z = 0`, f is concave on the slice:
:math:`f(s) = f(y) + \nabla f(y)^\top (s - y) - (s - y)^\top A (s - y)` at any y. The first two terms are the tangent,
at most its m largest entries. The last is at least :math:`(s_i - y_i)^2 / (A^{-1})_{ii}` for any client i, which is a
Schur complement. So with one Cholesky factor and one inverse there are, for every client, a bound on the selections
that contain it and one on those that do not. At the best multipliers y is the maximiser of f in the box and on the
slice, and its gradient is constant: every linear reduced cost is 0, and the last term alone fixes clients.

Nothing is asked of d but definiteness, which a Cholesky factorisation certifies: multipliers may be stale, rounded, or
stopped early. A larger diagonal raises the bound by what :math:`\sum_i y_i (1 - y_i)` allows and lowers
:math:`(A^{-1})_{ii}`; which is best differs from client to client, so that several shifts are tried.

Source: Helmberg, Fixing variables in semidefinite relaxations (SIAM J. Matrix Anal. Appl. 21, 2000), in the form of
quadratic convex reformulation (Billionnet, Elloumi and Plateau, Discrete Appl. Math. 157, 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.feasible_set import Hypersimplex

_EPS = float(np.finfo(np.float64).eps)

#: A maximiser that is farther off says nothing about clients, and its square might overflow.
_FAR = 1e12

#: Curvature along 1, in units of the largest entry: so steep that the inverse is nearly that on the slice.
_STEEP = 64.0

#: More than what underflow changes in any sum here.
_TINY = 1e-290


@dataclass(frozen=True)
class ClientBounds:
    """Certified bounds, in the units of the problem that was given.

    Attributes
    ----------
    bound : float
        On every selection.
    left_out, chosen : (n,) ndarray
        On the selections without each client, and on those with it.
    x : (n,) ndarray
        Where the tangent was taken, in the box and on the slice.
    """

    bound: float
    left_out: NDArray[np.float64]
    chosen: NDArray[np.float64]
    x: NDArray[np.float64]

    def joined(self, other: ClientBounds) -> ClientBounds:
        """Return the better one of two bounds each."""
        return ClientBounds(
            min(self.bound, other.bound),
            np.minimum(self.left_out, other.left_out),
            np.minimum(self.chosen, other.chosen),
            other.x,
        )

    def ordered(self, pairs: NDArray[np.int64]) -> ClientBounds:
        """Return bounds on selections that contain the first client of each pair wherever they contain the second."""
        left_out, chosen = self.left_out.copy(), self.chosen.copy()
        np.minimum.at(chosen, pairs[:, 1], self.chosen[pairs[:, 0]])
        np.minimum.at(left_out, pairs[:, 0], self.left_out[pairs[:, 1]])
        return ClientBounds(self.bound, left_out, chosen, self.x)

    def raised(self, margin: float) -> ClientBounds:
        """Return bounds of a function that is at most ``margin`` larger."""
        return ClientBounds(self.bound + margin, self.left_out + margin, self.chosen + margin, self.x)


@np.errstate(over="ignore", invalid="ignore")  # of what is not finite there is no bound
def client_bounds(
    quadratic: NDArray[np.float64], linear: NDArray[np.float64], size: int, diagonal: NDArray[np.float64]
) -> ClientBounds | None:
    r"""Bound ``max sᵀQs + lᵀs, 1ᵀs = m`` with each client left out, and with each chosen; 1 ≤ m < n.

    In floating point: with :math:`\bar A = A + u 1^\top + 1 u^\top + t 1 1^\top`, which differs from A by functions
    that are linear on the slice, L is the computed Cholesky factor of :math:`\bar A - \theta`, where θ covers the
    rounding of the factorisation (Rump, BIT 46, 2006) and of the entries. So :math:`z^\top \bar A z \ge |L^\top z|^2
    \ge z_i^2 / |L^{-1} e_i|^2`, and the inverse X of L that LAPACK computes has :math:`L^{-1} e_i = x_i + X (I -
    F)^{-1} F e_i` with the residual :math:`F = I - L X`, which is computed too.

    Parameters
    ----------
    quadratic : (n, n) ndarray
        Q, symmetric.
    linear : (n,) ndarray
        l.
    size : int
        m.
    diagonal : (n,) ndarray
        d, any numbers.

    Returns
    -------
    ClientBounds or None
        None where A is not certainly definite on the slice, or numbers are out of range.
    """
    n = linear.size
    means = quadratic.mean(axis=1) - diagonal / n
    u = means - means.mean() / 2
    widest = max(float(np.abs(diagonal).max()), float(np.abs(quadratic).max()))
    t = _STEEP * widest / n
    matrix = (u[:, None] + u) + t - quadratic
    index = np.arange(n)
    matrix[index, index] += diagonal
    largest = 2 * widest + 2 * float(np.abs(u).max()) + t
    found = _inverse_norms(matrix, 4 * _EPS * largest)
    if found is None:
        return None
    inverse, variance = found
    lifted = linear + diagonal + 2 * size * u
    solved = inverse.T @ (inverse @ np.column_stack([lifted, np.ones(n)]))
    sums = solved.sum(axis=0)
    y = (solved[:, 0] - (sums[0] - 2 * size) / sums[1] * solved[:, 1]) / 2
    if not float(np.abs(y).max()) < _FAR:
        return None
    terms = float((np.abs(linear) + np.abs(diagonal) + 2 * size * np.abs(u)).max())
    form = (matrix, lifted, size, t, largest, terms)
    bounds = _at(y, variance, *form)
    if y.min() < 0 or y.max() > 1:
        bounds = bounds.joined(_at(Hypersimplex(n, size).project(y), variance, *form))
    return bounds if np.isfinite(bounds.bound) else None


def exchanges(values: NDArray[np.float64], size: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of the ``size`` largest values, and the least that each one left out, and each chosen, takes.

    The sum is as floating point gives it; 1 ≤ size < n.
    """
    order = np.sort(values)[::-1]
    enters, leaves = float(order[size - 1]), float(order[size])
    spare = 16 * _EPS * float(np.abs(values).max())
    out = np.maximum(np.where(values >= enters, values - leaves, 0.0) - spare, 0.0)
    into = np.maximum(np.where(values >= enters, 0.0, enters - values) - spare, 0.0)
    return float(order[:size].sum()), out, into


def _inverse_norms(matrix: NDArray[np.float64], entry: float) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the inverse of a Cholesky factor L that is no larger than the matrix, and bounds on ``|L⁻¹eᵢ|²``.

    ``entry`` is the rounding error of an entry. None where the matrix is not certainly definite.
    """
    n = len(matrix)
    gamma = (n + 1) * _EPS / 2
    trace = float(np.maximum(matrix.diagonal(), 0.0).sum())
    lowered = matrix.copy(order="F")
    index = np.arange(n)
    lowered[index, index] -= 2 * (gamma / (1 - gamma) * trace + n * entry)
    factor, failed = scipy.linalg.lapack.dpotrf(lowered, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    inverse, failed = scipy.linalg.lapack.dtrtri(factor, lower=1)
    if failed or not np.isfinite(inverse).all():
        return None
    residual = scipy.linalg.blas.dtrmm(-1.0, factor, inverse, lower=1)
    residual[index, index] += 1.0
    norms = np.linalg.norm(inverse, axis=0)
    whole = float(np.linalg.norm(norms))
    off = np.linalg.norm(residual, axis=0) + (n + 4) * _EPS * float(np.linalg.norm(factor)) * norms + n * _TINY
    off += 4 * _EPS
    total = float(np.linalg.norm(off))
    if not total < 0.5:
        return None
    variance = (norms + whole * off / (1 - total)) ** 2 * (1 + (2 * n + 16) * _EPS)
    return (inverse, variance) if np.isfinite(variance).all() else None


def _at(
    y: NDArray[np.float64],
    variance: NDArray[np.float64],
    matrix: NDArray[np.float64],
    lifted: NDArray[np.float64],
    size: int,
    t: float,
    largest: float,
    terms: float,
) -> ClientBounds:
    """Return the bounds of the tangent at y with the quadratic term; ``terms`` bounds those behind ``lifted``."""
    n = y.size
    towards = matrix @ y
    gradient = lifted - 2 * towards
    top, out, into = exchanges(gradient, size)
    base = float(y @ towards) + t * size * size
    steepest = float(np.abs(gradient).max())
    sums = float(np.abs(y).sum())
    # Of one entry of the product, of one of the gradient, and of the sums that follow.
    product = ((n + 2) * _EPS + 4 * _EPS) * largest * sums
    slope = 4 * _EPS * terms + 2 * product + 2 * _EPS * steepest
    margin = sums * product + (n + 4) * _EPS * float(np.abs(y) @ np.abs(towards)) + 8 * _EPS * t * size * size
    margin += size * slope + (size + 4) ** 2 * _EPS * steepest
    bound = base + top + margin
    bound += 16 * _EPS * (abs(base) + abs(top) + abs(bound)) + _TINY
    exact = 1 - 16 * _EPS
    left_out, chosen = out + y**2 / variance, into + (1 - y) ** 2 / variance
    return ClientBounds(bound, bound - exact * left_out, bound - exact * chosen, y)
