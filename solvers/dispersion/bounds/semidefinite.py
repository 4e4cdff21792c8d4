r"""The semidefinite relaxation on the slice, solved by an interior-point method made for it.

With :math:`z = 2s - 1` and a leading :math:`z_0 = 1`, every condition used here is a product of two sparse vectors,
:math:`\langle \mathrm{sym}(u v^\top), zz^\top \rangle = (u^\top z)(v^\top z)`:

* binary: :math:`z_i^2 = 1`, that is :math:`u = v = e_i`;
* dominance, :math:`s_i s_j = s_j` where i is chosen whenever j is: :math:`(z_i - z_0)(z_j + z_0) = 0`;
* :math:`s_i s_j \ge 0`: :math:`(z_i + z_0)(z_j + z_0) \ge 0`.

and :math:`1^\top s = m` is a direction in which :math:`zz^\top` vanishes, so that it is projected out once and for
all. The method is that of Helmberg, Rendl, Vanderbei and Wolkowicz (An interior-point method for semidefinite
programming, SIAM J. Optim. 6, 1996), with Mehrotra's corrector: the Schur complement of products costs a few
elementwise multiplications of n × n matrices. 100 clients take about ten milliseconds, where a general solver takes
a second.

Nothing here has to be trusted: the multipliers go to `solvers.dispersion.bounds.slice_form`, which certifies them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from solvers.dispersion.compiled import compiled

__all__ = ["Multipliers", "relax"]

_NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Multipliers:
    """What the relaxation found.

    Attributes
    ----------
    diagonal : (n,) ndarray
        Multiplier of each :math:`s_i - s_i^2`, of any sign.
    dominated : (k,) ndarray
        Multiplier of :math:`s_j - s_i s_j` for each dominated pair (i, j).
    nonnegative : (l,) ndarray
        Multiplier, at least 0, of :math:`s_i s_j` for each pair held non-negative.
    x : (n,) ndarray
        The relaxed decision.
    products : (n, n) ndarray
        The relaxed products X.
    bound, gap : float
        Dual value (not certified) and its distance to the primal one.
    """

    diagonal: NDArray[np.float64]
    dominated: NDArray[np.float64]
    nonnegative: NDArray[np.float64]
    x: NDArray[np.float64]
    products: NDArray[np.float64]
    bound: float
    gap: float
    iterations: int


def relax(
    quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    size: int,
    *,
    dominated: NDArray[np.int64] = _NO_PAIRS,
    nonnegative: NDArray[np.int64] = _NO_PAIRS,
    tolerance: float = 1e-6,
    incumbent: float | None = None,
    iterations: int = 60,
    expired: Callable[[], bool] = lambda: False,
) -> Multipliers:
    """Relax ``max sᵀQs + lᵀs, 1ᵀs = m``; 2 ≤ m ≤ n − 2.

    Parameters
    ----------
    quadratic : (n, n) ndarray
        Q, symmetric.
    linear : (n,) ndarray
        l.
    size : int
        m.
    dominated, nonnegative : (k, 2) ndarray of int
        Pairs (i, j) of the last two kinds of condition above.
    tolerance : float
        Stop when the duality gap is below this, in units of the objective,
    incumbent : float, optional
        or below a fiftieth of the distance from here to the bound.
    iterations : int
        Largest number of steps.
    expired : callable
        Stop early when it returns True; what was found until then is valid all the same.
    """
    n = linear.size
    assembly = compiled("schur")
    cost = np.zeros((n + 1, n + 1))
    cost[1:, 1:] = quadratic / 4
    cost[0, 1:] = cost[1:, 0] = quadratic.sum(axis=1) / 4 + linear / 4
    cost[0, 0] = quadratic.sum() / 4 + linear.sum() / 2
    normal = np.ones(n + 1)
    normal[0] = n - 2 * size
    mirror = _mirror(normal)  # reflects the normal onto the first axis, which is then left out

    def restrict(full: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.ascontiguousarray(_reflect(full, mirror)[1:, 1:])

    def extend(part: NDArray[np.float64]) -> NDArray[np.float64]:
        full = np.zeros((n + 1, n + 1))
        full[1:, 1:] = part
        return _reflect(full, mirror)

    # Condition k is (z_i + a z_0)(z_j + b z_0); a, b are 0 for the binary conditions, -1, 1 for dominance, else 1.
    every = np.arange(n + 1)
    i = np.concatenate([every, 1 + dominated[:, 0], 1 + nonnegative[:, 0]])
    j = np.concatenate([every, 1 + dominated[:, 1], 1 + nonnegative[:, 1]])
    b = (np.arange(i.size) > n).astype(np.float64)
    a = b.copy()
    a[n + 1 : n + 1 + len(dominated)] = -1.0
    k = i.size
    plain = k == n + 1
    inequality = np.zeros(k, dtype=bool)
    inequality[n + 1 + len(dominated) :] = True
    rhs = np.zeros(k)
    rhs[: n + 1] = 1.0

    def adjoint(y: NDArray[np.float64]) -> NDArray[np.float64]:
        if plain:
            return restrict(np.diag(y))
        total = np.zeros((n + 1, n + 1))
        np.add.at(total, (i, j), y)
        np.add.at(total, (i, np.zeros_like(i)), b * y)
        np.add.at(total, (np.zeros_like(j), j), a * y)
        total[0, 0] += float((a * b) @ y)
        return restrict((total + total.T) / 2)

    def conditions(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        full = extend(matrix)
        return full[i, j] + b * full[i, 0] + a * full[0, j] + a * b * full[0, 0]

    def schur(z: NDArray[np.float64], inverse: NDArray[np.float64]) -> NDArray[np.float64]:
        outer, inner = extend(z), extend(inverse)
        return outer * inner if plain else assembly.assemble(outer, inner, i, j, a, b)

    # The average over all selections is strictly feasible but for dominance.
    x, both = size / n, size * (size - 1) / (n * (n - 1))
    average = np.full((n + 1, n + 1), 4 * both - 4 * x + 1)
    average[0, :] = average[:, 0] = 2 * x - 1
    np.fill_diagonal(average, 1.0)
    z = restrict(average)
    projected = restrict(cost)
    y = np.zeros(k)
    magnitude = max(float(np.abs(cost).max()), 1e-300)
    y[: n + 1] = 1.1 * np.abs(cost).sum(axis=1) + 1e-3 * magnitude
    y[inequality] = -1e-2 * magnitude
    slack = np.where(inequality, np.maximum(conditions(z) - rhs, 1e-3), 1.0)
    dual = adjoint(y) - projected
    while not _definite(dual):
        y[: n + 1] *= 2
        dual = adjoint(y) - projected

    count = n + int(inequality.sum())
    gap = np.inf
    inverse, factor = z, None

    def direction(
        mu: float, correction: NDArray[np.float64] | float, corrected: NDArray[np.float64] | float
    ) -> tuple[NDArray[np.float64], ...]:
        """Changes of y, dual, z and slack towards the point of the central path at mu, from the current iterate."""
        target = mu * inverse - correction
        right = conditions(target) - rhs
        right[inequality] -= (mu - corrected) / -y[inequality]
        dy = linalg.cho_solve(factor, right, check_finite=False)
        ddual = adjoint(dy)
        moved = z @ ddual @ inverse
        dz = target - z - (moved + moved.T) / 2
        dslack = np.zeros(k)
        towards = (mu - corrected + slack[inequality] * dy[inequality]) / -y[inequality]
        dslack[inequality] = towards - slack[inequality]
        return dy, ddual, dz, dslack

    step = 0
    while step < iterations:
        step += 1
        inverse = _inverse(dual)
        gap = float(np.vdot(z, dual)) + float((slack * -y)[inequality].sum())
        mu = gap / count
        near = tolerance if incumbent is None else max(tolerance, 0.02 * (float(rhs @ y) - incumbent))
        if gap <= near or expired():
            break
        matrix = schur(z, inverse)
        matrix[inequality, inequality] += slack[inequality] / -y[inequality]
        factor = _factor(matrix)
        if factor is None:
            break

        dy, ddual, dz, dslack = direction(0.0, 0.0, 0.0)
        primal_step = _step(z, dz, slack, dslack, inequality)
        dual_step = _step(dual, ddual, -y, -dy, inequality)
        predicted = float(np.vdot(z + primal_step * dz, dual + dual_step * ddual))
        predicted += float(((slack + primal_step * dslack) * -(y + dual_step * dy))[inequality].sum())
        centre = mu * min(1.0, max(predicted / gap, 0.0) ** 2 + 0.02)
        second_order = dz @ ddual @ inverse
        dy, ddual, dz, dslack = direction(centre, (second_order + second_order.T) / 2, -(dslack * dy)[inequality])
        primal_step = 0.97 * _step(z, dz, slack, dslack, inequality)
        dual_step = 0.97 * _step(dual, ddual, -y, -dy, inequality)
        z, slack = z + primal_step * dz, slack + primal_step * dslack
        y, dual = y + dual_step * dy, dual + dual_step * ddual
        if max(primal_step, dual_step) < 1e-4:
            break
    lifted = extend(z)
    signs = lifted[0, 1:]
    return Multipliers(
        diagonal=4 * y[1 : n + 1],
        dominated=4 * y[n + 1 : n + 1 + len(dominated)],
        nonnegative=np.maximum(-4 * y[inequality], 0.0),
        x=np.clip((1 + signs) / 2, 0.0, 1.0),
        products=(lifted[1:, 1:] + signs[:, None] + signs + 1) / 4,
        bound=float(rhs @ y),
        gap=gap,
        iterations=step,
    )


def _mirror(normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vector of the Householder reflection that takes ``normal`` to the first axis."""
    v = normal / np.linalg.norm(normal)
    v[0] += 1.0 if v[0] >= 0 else -1.0
    return v / np.linalg.norm(v)


def _reflect(matrix: NDArray[np.float64], mirror: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric matrix reflected on both sides, in O(n²)."""
    along = matrix @ mirror
    twice = np.outer(mirror, along - (mirror @ along) * mirror)
    return matrix - 2 * (twice + twice.T)


def _definite(matrix: NDArray[np.float64]) -> bool:
    return bool(linalg.lapack.dpotrf(matrix, clean=0)[1] == 0)


def _factor(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool] | None:
    """Cholesky factor with as little regularisation as it takes (redundant conditions make the matrix singular)."""
    diagonal = np.diagonal(matrix).copy()
    for least in (1e-13, 1e-10, 1e-7):
        try:
            return linalg.cho_factor(matrix + np.diag(least * diagonal), check_finite=False)
        except linalg.LinAlgError:
            continue
    return None


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    factor, _ = linalg.lapack.dpotrf(matrix, clean=0)
    upper, _ = linalg.lapack.dpotri(factor)
    return np.triu(upper) + np.triu(upper, 1).T


def _step(
    matrix: NDArray[np.float64],
    change: NDArray[np.float64],
    scalars: NDArray[np.float64],
    scalar_change: NDArray[np.float64],
    bounded: NDArray[np.bool_],
) -> float:
    """A step, at most 1, that keeps the matrix definite and the bounded scalars positive."""
    step = 1.0
    falling = bounded & (scalar_change < 0)
    if falling.any():
        step = min(step, float((-scalars[falling] / scalar_change[falling]).min()))
    while step > 1e-8 and not _definite(matrix + step * change):
        step *= 0.85
    return step
