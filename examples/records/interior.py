r"""A primal-dual interior-point method for semidefinite programs over few free unknowns.

.. math:: \min_t \; c^\top t \quad \text{s.t.} \quad E t = f,\; G t + h \ge 0,\; F_b(t) = \sum_k t_k A_{bk} \succeq 0

from a strictly feasible t. With multipliers y, z ≥ 0 and :math:`Z_b \succeq 0`, the dual residual

.. math:: r = c - E^\top y - G^\top z - \sum_b A_b^*(Z_b)

vanishes at the optimum; a bound must account for it (a point on the way is not feasible in the dual).
Nesterov and Todd's direction with Mehrotra's predictor and corrector (Todd, Toh, Tütüncü, On the Nesterov-Todd
direction in semidefinite programming, SIAM J. Optim. 8, 1998): in the scaled space both matrices are the same diagonal
one, and the normal equations are one symmetric product of two matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dispersion.relaxations.slice_form import eigenvalue

Matrix = NDArray[np.float64]

#: Part of the way to the boundary that a step goes.
_STEP = 0.95

#: Iterations at most.
_MOST = 60


@dataclass(frozen=True)
class Program:
    """The data; ``blocks[b]`` has shape (unknowns, d, d), symmetric in its last axes; ``rows`` is sparse."""

    objective: NDArray[np.float64]
    equations: Matrix
    right: NDArray[np.float64]
    rows: Any
    constant: NDArray[np.float64]
    blocks: list[NDArray[np.float64]]


@dataclass
class Iterate:
    """Unknowns t, and the multipliers y, z and Z."""

    unknowns: NDArray[np.float64]
    equations: NDArray[np.float64]
    rows: NDArray[np.float64]
    matrices: list[Matrix]


@dataclass
class _Scaled:
    """A block in the space where F and Z are the diagonal ``d``; ``outward`` takes Z's steps back from there."""

    d: NDArray[np.float64]
    outward: Matrix
    map: Matrix


@dataclass
class _Newton:
    """The factorised normal equations of an iterate."""

    program: Program
    factor: Any
    towards: Matrix
    small: Any

    def solve(self, gradient: NDArray[np.float64], miss: NDArray[np.float64]) -> tuple[Any, Any]:
        """``H dt − Eᵀ dy = gradient`` and ``E dt = miss``."""
        dt = scipy.linalg.cho_solve(self.factor, gradient)
        dy = scipy.linalg.cho_solve(self.small, miss - self.program.equations @ dt)
        return dt + self.towards @ dy, dy


def iterates(program: Program, start: NDArray[np.float64]) -> Iterator[Iterate]:
    """Yield iterates from a strictly feasible ``start`` towards the optimum; the caller may stop at any of them.

    Each is the same object, changed. The last is the optimum, or as near to it as rounding and `_MOST` iterations
    allow.
    """
    slack = program.rows @ start + program.constant
    matrices = [np.tensordot(start, a, 1) for a in program.blocks]
    order = slack.size + sum(len(f) for f in matrices)
    mu = max(abs(float(program.objective @ start)), 1e-12) / order
    inverse = [np.linalg.inv(f) for f in matrices]
    point = Iterate(start, np.zeros(program.right.size), mu / slack, [mu * (i + i.T) / 2 for i in inverse])
    for _ in range(_MOST):
        try:
            gap = _advance(program, point, order)
        except np.linalg.LinAlgError:  # rounding: this is as near as it gets
            return
        yield point
        if gap <= 1e-9 * max(abs(float(program.objective @ point.unknowns)), 1e-12):
            return


def residual(program: Program, point: Iterate) -> NDArray[np.float64]:
    """r, as floating point gives it."""
    left = program.objective - program.equations.T @ point.equations - program.rows.T @ point.rows
    for a, z in zip(program.blocks, point.matrices, strict=True):
        left -= a.reshape(len(a), -1) @ z.ravel()
    return left


@dataclass
class Direction:
    """A change of an iterate: of t, y, G t + h and z, and of each F and Z in the scaled space."""

    unknowns: NDArray[np.float64]
    equations: NDArray[np.float64]
    slack: NDArray[np.float64]
    rows: NDArray[np.float64]
    primal: list[Matrix]
    dual: list[Matrix]


class _System:
    """Newton's equations at an iterate.

    Attributes
    ----------
    slack : ndarray
        G t + h.
    scaled : list of _Scaled
        The blocks, each in the space where its F and Z are the same diagonal D.
    gap : float
        Complementarity, zᵀ(G t + h) + Σ ⟨F, Z⟩.
    """

    def __init__(self, program: Program, point: Iterate) -> None:
        self.program, self.point = program, point
        self.slack = program.rows @ point.unknowns + program.constant
        self.scaled = [
            _scaled(a, np.tensordot(point.unknowns, a, 1), z)
            for a, z in zip(program.blocks, point.matrices, strict=True)
        ]
        self.gap = float(self.slack @ point.rows) + sum(float(s.d @ s.d) for s in self.scaled)
        self.newton = _normal(program, self.scaled, point.rows / self.slack)
        self.lack = residual(program, point)
        self.miss = program.right - program.equations @ point.unknowns

    def direction(self, mu: float, bends: list[Matrix], bend: NDArray[np.float64] | float) -> Direction:
        """Solve for the change after which F Z = μI and (G t + h) z = μ, to first order.

        In the scaled space that is dF + dZ = μD⁻¹ − D for each block, and dz = μ/slack − z − (z/slack) dslack;
        ``bends`` and ``bend`` are the second-order terms of Mehrotra's corrector, 0 for the predictor.
        """
        program, rows = self.program, self.point.rows
        wanted = (mu - bend) / self.slack - rows
        gradient = program.rows.T @ wanted - self.lack
        targets = []
        for s, b in zip(self.scaled, bends, strict=True):
            target = np.diag(mu / s.d - s.d) - b
            gradient = gradient + s.map @ _packed(target)
            targets.append(target)
        unknowns, equations = self.newton.solve(gradient, self.miss)
        slack = program.rows @ unknowns
        primal = [_unpacked(unknowns @ s.map, s.d.size) for s in self.scaled]
        dual = [target - change for target, change in zip(targets, primal, strict=True)]
        return Direction(unknowns, equations, slack, wanted - rows / self.slack * slack, primal, dual)

    def lengths(self, change: Direction) -> tuple[float, float]:
        """Return the primal and the dual step length: `_STEP` of the way to the boundary, at most 1."""
        primal = self._length(self.slack, change.slack, change.primal)
        return primal, self._length(self.point.rows, change.rows, change.dual)

    def _length(self, values: NDArray[np.float64], steps: NDArray[np.float64], changes: list[Matrix]) -> float:
        """D + ℓ·change is definite while ℓ times the least eigenvalue of D^-½ change D^-½ exceeds −1."""
        worst = float((-steps / values).max(initial=0.0))
        for s, change in zip(self.scaled, changes, strict=True):
            root = np.sqrt(s.d)
            worst = max(worst, -eigenvalue(change / (root[:, None] * root), 0))
        return min(1.0, _STEP / worst) if worst > 0 else 1.0

    def gap_after(self, change: Direction) -> float:
        """Return the complementarity gap after the longest steps along a direction."""
        primal, dual = self.lengths(change)
        gap = float((self.slack + primal * change.slack) @ (self.point.rows + dual * change.rows))
        for s, f, z in zip(self.scaled, change.primal, change.dual, strict=True):
            d = np.diag(s.d)
            gap += float(((d + primal * f) * (d + dual * z)).sum())
        return gap


def _advance(program: Program, point: Iterate, order: int) -> float:
    """Move the iterate by one predictor and corrector; return the complementarity gap before it."""
    system = _System(program, point)
    mu = system.gap / order
    none = [np.zeros((s.d.size, s.d.size)) for s in system.scaled]
    guess = system.direction(0.0, none, 0.0)
    centre = mu * min(max(system.gap_after(guess) / system.gap, 0.0), 1.0) ** 3
    bends = [
        (f @ z + z @ f) / (s.d[:, None] + s.d) for s, f, z in zip(system.scaled, guess.primal, guess.dual, strict=True)
    ]
    change = system.direction(max(centre, 1e-4 * mu), bends, guess.slack * guess.rows)
    primal, dual = system.lengths(change)
    point.unknowns = point.unknowns + primal * change.unknowns
    point.equations = point.equations + dual * change.equations
    point.rows = point.rows + dual * change.rows
    moved = [s.outward @ z @ s.outward.T for s, z in zip(system.scaled, change.dual, strict=True)]
    point.matrices = [z + dual * (d + d.T) / 2 for z, d in zip(point.matrices, moved, strict=True)]
    return system.gap


def _scaled(maps: NDArray[np.float64], f: Matrix, z: Matrix) -> _Scaled:
    """With F = LLᵀ, Z = MMᵀ and MᵀL = U D Vᵀ: ``P = D^½ Vᵀ L⁻¹`` gives P F Pᵀ = D = P⁻ᵀ Z P⁻¹."""
    lower = np.linalg.cholesky((f + f.T) / 2)
    _, d, vt = np.linalg.svd(np.linalg.cholesky(z).T @ lower)
    p = np.sqrt(d)[:, None] * scipy.linalg.solve_triangular(lower.T, vt.T, lower=False).T
    moved = np.matmul(np.matmul(p, maps), p.T)
    return _Scaled(d, p.T, _packed(moved))


def _packed(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lower triangle as a vector with the same inner product, over the last two axes."""
    i, j = np.tril_indices(matrix.shape[-1])
    packed = matrix[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0))
    return packed


def _unpacked(packed: NDArray[np.float64], d: int) -> Matrix:
    i, j = np.tril_indices(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = packed / np.where(i == j, 1.0, np.sqrt(2.0))
    return matrix + np.tril(matrix, -1).T


def _normal(program: Program, scaled: list[_Scaled], weights: NDArray[np.float64]) -> _Newton:
    hessian = (program.rows.T @ program.rows.multiply(weights[:, None])).toarray()
    for s in scaled:
        hessian += s.map @ s.map.T
    hessian[np.diag_indices_from(hessian)] *= 1 + 1e-14
    factor = scipy.linalg.cho_factor(hessian, lower=True, check_finite=False)
    towards = scipy.linalg.cho_solve(factor, program.equations.T)
    return _Newton(program, factor, towards, scipy.linalg.cho_factor(program.equations @ towards))
