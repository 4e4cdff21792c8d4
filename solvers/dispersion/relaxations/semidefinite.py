r"""Semidefinite relaxation on the slice by an interior-point method made for it.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has a table of symbols and names.

With :math:`z = 2s - 1` and a leading :math:`z_0 = 1` it maximises :math:`\langle C, zz^\top \rangle` under
constraints that are products of two sparse vectors,
:math:`\langle \mathrm{sym}(u v^\top), zz^\top \rangle = (u^\top z)(v^\top z)`:

* binary: :math:`z_i^2 = 1`, that is :math:`u = v = e_i`;
* dominance, :math:`s_i s_j = s_j` where i is chosen whenever j is: :math:`(z_i - z_0)(z_j + z_0) = 0`;
* :math:`s_i s_j \ge 0`: :math:`(z_i + z_0)(z_j + z_0) \ge 0`;
* products of two affine functions that no feasible selection makes negative: what rows of side constraints leave.

:math:`1^\top s = m` is a direction in which :math:`zz^\top` vanishes: reflected onto the first axis, it is left out.

The method is that of Helmberg, Rendl, Vanderbei and Wolkowicz (An interior-point method for semidefinite
programming, SIAM J. Optim. 6, 1996), with Mehrotra's corrector: the Schur complement of products costs a few
elementwise multiplications of n × n matrices.

The multipliers go to `solvers.dispersion.relaxations.slice_form`, which certifies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import Multipliers, ScaledProblem, SliceForm, apply
from solvers.run import Run

#: Steps that Python needs for a pair of constraints, where nothing is compiled yet.
_STEPS = 25


class Constraints:
    r"""Constraint k is the product :math:`(z_i + a z_0)(z_j + b z_0)`, equal to ``rhs`` or at least that.

    Parameters
    ----------
    n, size : int
        The slice.
    dominated, nonnegative : (k, 2) ndarray of int
        Pairs (i, j) of two kinds; the n + 1 binary constraints come first, then these.
    rows : (2, l, n + 1) ndarray
        Pairs of affine functions of s, constants first, whose products are not negative; they come last.
    run : Run, optional
        Its clock stands still while kernels are compiled.
    """

    def __init__(
        self,
        n: int,
        size: int,
        dominated: NDArray[np.int64],
        nonnegative: NDArray[np.int64],
        rows: NDArray[np.float64],
        run: Run | None = None,
    ) -> None:
        self._run = run
        # In z = 2s - 1, and of norm 1 there.
        self.factors = rows.reshape(2, -1, n + 1) / 2
        self.factors[:, :, 0] += self.factors.sum(axis=2)
        norms = np.linalg.norm(self.factors, axis=2)
        norms[norms == 0] = 1.0
        self.factors /= norms[:, :, None]
        self.unit = norms.prod(axis=0)
        scaled = np.ones(n + 1)
        scaled[0] = n - 2 * size
        self.mirror = _mirror(scaled)
        every = np.arange(n + 1)
        self.i = np.concatenate([every, 1 + dominated[:, 0], 1 + nonnegative[:, 0]])
        self.j = np.concatenate([every, 1 + dominated[:, 1], 1 + nonnegative[:, 1]])
        # a, b are 0 for the binary constraints, -1, 1 for dominance, else 1.
        self.b = (np.arange(self.i.size) > n).astype(np.float64)
        self.a = self.b.copy()
        self.a[n + 1 : n + 1 + len(dominated)] = -1.0
        self.plain = self.i.size == n + 1
        every = np.arange(self.i.size + self.unit.size)
        self.inequality = every > n + len(dominated)
        self.rhs = (every <= n).astype(np.float64)

    def restrict(self, full: NDArray[np.float64]) -> NDArray[np.float64]:
        """A matrix over (1, s) as one over the hyperplane."""
        return np.ascontiguousarray(_reflect(full, self.mirror)[1:, 1:])

    def extend(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """A matrix over the hyperplane as one over (1, s)."""
        full = np.zeros((len(part) + 1, len(part) + 1))
        full[1:, 1:] = part
        return _reflect(full, self.mirror)

    def values(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate every constraint at a matrix over the hyperplane."""
        return self._at(self.extend(matrix))

    def _at(self, full: NDArray[np.float64]) -> NDArray[np.float64]:
        i, j, a, b = self.i, self.j, self.a, self.b
        found = full[i, j] + b * full[i, 0] + a * full[0, j] + a * b * full[0, 0]
        if not self.unit.size:
            return found
        return np.concatenate([found, ((self.factors[0] @ full) * self.factors[1]).sum(axis=1)])

    def adjoint(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The constraints' matrices, times ``y``, in sum."""
        if self.plain and not self.unit.size:
            return self.restrict(np.diag(y))
        i, j, a, b = self.i, self.j, self.a, self.b
        y, prices = y[: i.size], y[i.size :]
        total = (self.factors[0].T * prices) @ self.factors[1]
        np.add.at(total, (i, j), y)
        np.add.at(total, (i, np.zeros_like(i)), b * y)
        np.add.at(total, (np.zeros_like(j), j), a * y)
        total[0, 0] += float((a * b) @ y)
        return self.restrict((total + total.T) / 2)

    def schur(self, z: NDArray[np.float64], inverse: NDArray[np.float64]) -> NDArray[np.float64]:
        """``<A_k, z A_l inverse>`` for all pairs of constraints."""
        outer, inner = self.extend(z), self.extend(inverse)
        if self.plain:
            sparse = outer * inner
        else:
            schur = load("schur", self._run, steps=_STEPS * self.i.size**2)
            sparse = schur.assemble(outer, inner, self.i, self.j, self.a, self.b)
        if not self.unit.size:
            return sparse
        count = self.i.size
        whole = np.empty((self.rhs.size, self.rhs.size))
        whole[:count, :count] = sparse
        (first, second), (third, fourth) = self.factors @ outer, self.factors @ inner
        for k in range(self.unit.size):
            mixed = np.outer(first[k], fourth[k]) + np.outer(second[k], third[k])
            whole[count + k] = whole[:, count + k] = self._at((mixed + mixed.T) / 4)
        return whole


def _mirror(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vector of the Householder reflection that takes ``scaled`` to the first axis."""
    v = scaled / np.linalg.norm(scaled)
    v[0] += 1.0 if v[0] >= 0 else -1.0
    return v / np.linalg.norm(v)


def _reflect(matrix: NDArray[np.float64], mirror: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric matrix reflected on both sides, in O(n²)."""
    along = matrix @ mirror
    twice = np.outer(mirror, along - (mirror @ along) * mirror)
    return matrix - 2 * (twice + twice.T)


_NO_PAIRS = np.zeros((0, 2), dtype=np.int64)
#: No products of affine functions.
NO_ROWS = np.zeros((2, 0, 0))


def most_negative_products(
    products: NDArray[np.float64], known: NDArray[np.int64], most: int, least: float = 1e-5
) -> NDArray[np.int64]:
    """Separate: return at most ``most`` pairs that are not known and violated by over ``least``, the worst first."""
    upper = np.column_stack(np.triu_indices(len(products), 1))
    values = products.copy()
    values[known[:, 0], known[:, 1]] = values[known[:, 1], known[:, 0]] = 0.0
    flat = values[upper[:, 0], upper[:, 1]]
    worst = np.argsort(flat, kind="stable")[: max(most, 0)]
    return upper[worst[flat[worst] < -least]]


def relax(
    quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    size: int,
    *,
    dominated: NDArray[np.int64] = _NO_PAIRS,
    nonnegative: NDArray[np.int64] = _NO_PAIRS,
    rows: NDArray[np.float64] = NO_ROWS,
    tolerance: float = 1e-6,
    incumbent: float | None = None,
    stop_below: float = -np.inf,
    iterations: int = 60,
    expired: Callable[[], bool] = lambda: False,
    run: Run | None = None,
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
        Pairs (i, j) of the second and third kind of constraint above.
    rows : (2, l, n + 1) ndarray
        Pairs of affine functions of s, constants first, whose products are not negative at feasible selections.
    tolerance : float
        Stop when the duality gap is at most this, in units of the objective.
    incumbent : float, optional
        With it, stop also when the gap is at most a fiftieth of the distance from this value to the bound.
    stop_below : float
        Stop as soon as the bound is below this.
    iterations : int
        Largest number of steps.
    expired : callable
        Stop early when it returns True; what was found until then is valid all the same.
    run : Run, optional
        Stop early when it has expired; its clock stands still while kernels are compiled.
    """
    constraints = Constraints(linear.size, size, dominated, nonnegative, rows, run)
    n, held = linear.size, constraints.inequality
    cost = np.zeros((n + 1, n + 1))
    cost[1:, 1:] = quadratic / 4
    cost[0, 1:] = cost[1:, 0] = quadratic.sum(axis=1) / 4 + linear / 4
    cost[0, 0] = quadratic.sum() / 4 + linear.sum() / 2
    here = _start(constraints, cost, size)
    count = n + int(held.sum())
    gap = np.inf
    step = 0
    while step < iterations:
        step += 1
        if run is not None:
            run.spend(DEFAULT_POLICY.interior_work * n * n * count)
        inverse = _inverse(here.dual)
        gap = here.gap(held)
        value = float(constraints.rhs @ here.y)
        near = tolerance if incumbent is None else max(tolerance, 0.02 * (value - incumbent))
        if gap <= near or value < stop_below or expired() or (run is not None and run.expired):
            break
        factor = _factor(constraints.schur(here.z, inverse), held, here.slack[held] / -here.y[held])
        if factor is None:
            break
        system = _System(constraints, inverse, factor)
        here, reached = _predict_and_correct(system, here, gap, gap / count)
        if reached < 1e-4:
            break
    lifted = constraints.extend(here.z)
    signs = lifted[0, 1:]
    return Multipliers(
        diagonal=4 * here.y[1 : n + 1],
        dominated=4 * here.y[n + 1 : n + 1 + len(dominated)],
        nonnegative=np.maximum(-4 * here.y[n + 1 + len(dominated) : constraints.i.size], 0.0),
        x=np.clip((1 + signs) / 2, 0.0, 1.0),
        products=(lifted[1:, 1:] + signs[:, None] + signs + 1) / 4,
        bound=float(constraints.rhs @ here.y),
        gap=gap,
        iterations=step,
        rows=np.maximum(-here.y[constraints.i.size :], 0.0) / constraints.unit,
    )


class _Iterate(NamedTuple):
    """A primal and dual point, or a change of one.

    ``z`` and ``dual`` are definite matrices on the hyperplane, ``y`` the multipliers of the constraints, and ``slack``
    what the inequalities have to spare (of no meaning for the equalities).
    """

    z: NDArray[np.float64]
    slack: NDArray[np.float64]
    y: NDArray[np.float64]
    dual: NDArray[np.float64]

    def moved(self, change: _Iterate, primal: float, dual: float) -> _Iterate:
        """The point after steps of these lengths along ``change``."""
        return _Iterate(
            self.z + primal * change.z,
            self.slack + primal * change.slack,
            self.y + dual * change.y,
            self.dual + dual * change.dual,
        )

    def gap(self, held: NDArray[np.bool_]) -> float:
        """The duality gap; ``held`` are the inequalities."""
        return float(np.vdot(self.z, self.dual)) + float((self.slack * -self.y)[held].sum())

    def steps(self, change: _Iterate, held: NDArray[np.bool_]) -> tuple[float, float]:
        """How far one can go along ``change``, at most 1: primal and dual."""
        return (
            _step(self.z, change.z, self.slack, change.slack, held),
            _step(self.dual, change.dual, -self.y, -change.y, held),
        )


class _System(NamedTuple):
    """The linear system of an iteration: the constraints, the inverse of the dual matrix, the Schur complement."""

    constraints: Constraints
    inverse: NDArray[np.float64]
    factor: tuple[NDArray[np.float64], bool]

    def direction(
        self,
        here: _Iterate,
        mu: float,
        correction: NDArray[np.float64] | float = 0.0,
        corrected: NDArray[np.float64] | float = 0.0,
    ) -> _Iterate:
        """The change towards the point of the central path at ``mu``; the corrections are of second order."""
        constraints, held = self.constraints, self.constraints.inequality
        target = mu * self.inverse - correction
        right = constraints.values(target) - constraints.rhs
        right[held] -= (mu - corrected) / -here.y[held]
        dy = scipy.linalg.cho_solve(self.factor, right, check_finite=False)
        ddual = constraints.adjoint(dy)
        product = here.z @ ddual @ self.inverse
        dz = target - here.z - (product + product.T) / 2
        dslack = np.zeros(dy.size)
        dslack[held] = (mu - corrected + here.slack[held] * dy[held]) / -here.y[held] - here.slack[held]
        return _Iterate(dz, dslack, dy, ddual)


def _start(constraints: Constraints, cost: NDArray[np.float64], size: int) -> _Iterate:
    """The average over all selections, strictly feasible but for dominance; and multipliers large enough."""
    n, held = len(cost) - 1, constraints.inequality
    x, both = size / n, size * (size - 1) / max(n * (n - 1), 1)
    average = np.full((n + 1, n + 1), 4 * both - 4 * x + 1)
    average[0, :] = average[:, 0] = 2 * x - 1
    np.fill_diagonal(average, 1.0)
    z = constraints.restrict(average)
    projected = constraints.restrict(cost)
    y = np.zeros(held.size)
    magnitude = max(float(np.abs(cost).max()), 1e-300)
    y[: n + 1] = 1.1 * np.abs(cost).sum(axis=1) + 1e-3 * magnitude
    y[held] = -1e-2 * magnitude
    slack = np.where(held, np.maximum(constraints.values(z) - constraints.rhs, 1e-3), 1.0)
    dual = constraints.adjoint(y) - projected
    while not _definite(dual):
        y[: n + 1] *= 2
        dual = constraints.adjoint(y) - projected
    return _Iterate(z, slack, y, dual)


def _predict_and_correct(system: _System, here: _Iterate, gap: float, mu: float) -> tuple[_Iterate, float]:
    """One step of Mehrotra's kind: the next point, and the longer of the primal and the dual step."""
    held = system.constraints.inequality
    guess = system.direction(here, 0.0)
    predicted = here.moved(guess, *here.steps(guess, held)).gap(held)
    centre = mu * min(1.0, max(predicted / gap, 0.0) ** 2 + 0.02)
    second_order = guess.z @ guess.dual @ system.inverse
    change = system.direction(here, centre, (second_order + second_order.T) / 2, -(guess.slack * guess.y)[held])
    primal, dual = (0.97 * step for step in here.steps(change, held))
    return here.moved(change, primal, dual), max(primal, dual)


def _definite(matrix: NDArray[np.float64]) -> bool:
    return bool(scipy.linalg.lapack.dpotrf(matrix, clean=0)[1] == 0)


def _factor(
    matrix: NDArray[np.float64], held: NDArray[np.bool_], ratio: NDArray[np.float64]
) -> tuple[NDArray[np.float64], bool] | None:
    """Cholesky factor with as little regularisation as it takes (redundant constraints make the matrix singular).

    The inequalities' slacks over multipliers are added to the diagonal first; ``matrix`` is overwritten.
    """
    matrix[held, held] += ratio
    diagonal = np.diagonal(matrix).copy()
    for least in (1e-13, 1e-10, 1e-7):
        try:
            return scipy.linalg.cho_factor(matrix + np.diag(least * diagonal), check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
    return None


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    factor, _ = scipy.linalg.lapack.dpotrf(matrix, clean=0)
    upper, _ = scipy.linalg.lapack.dpotri(factor)
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


class OuterApproximation:
    """Tangents of the reformulated objective as linear rows, in units of `ScaledProblem`: a strong root.

    ``θ ≤ k + gᵀs`` at any point of the slice; at the tangent of a selection it holds with equality there, up to
    rounding, so that a linear model that is solved again with its own answer's tangent added ends at the optimum (outer
    approximation).
    """

    def __init__(self, problem: DispersionProblem, run: Run | None = None) -> None:
        self.scaled = ScaledProblem.of(problem)
        found = relax(self.scaled.quadratic, self.scaled.linear, problem.size, run=run)
        self.form: SliceForm = apply(
            self.scaled.quadratic, self.scaled.linear, problem.size, found, _NO_PAIRS, _NO_PAIRS
        )
        self.x = problem.feasible.project(found.x)
        if run is not None:
            run.tighten(self.original(self.form.tangent(self.x)))

    def at(self, y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """``k`` and ``g`` of the tangent at y, rounding included."""
        towards = self.form.curved @ y
        return float(-y @ towards) + self.form.margin, self.form.linear + 2 * towards

    def original(self, value: float) -> float:
        """A bound in these units as a bound on the problem's objective."""
        return self.scaled.original(value + self.scaled.error)

    def first(self, start: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Points whose tangents make a good first model: the fractional solution, the incumbent, and on the way."""
        binary = start.astype(np.float64)
        return [self.x + share * (binary - self.x) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
