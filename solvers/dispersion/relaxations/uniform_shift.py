"""A certified bound for thousands of clients: one shift for all, and a tangent.

See docs/mathematics/dispersion.md, *Concave where it counts*; docs/mathematics/dispersion_relaxations.md has symbols
and names.

It takes the largest eigenvalue on the slice, of more than 300 clients by Lanczos, a Cholesky factorisation in double
precision that certifies it, and first-order steps towards the best tangent. The distances are read where they are, in
either precision; the factorisation takes 8 n² bytes.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.neighbourhood import incumbent
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import cholesky_excess, eigenvalue, units
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)


def uniform_shift_bound(problem: DispersionProblem, run: Run, *, accuracy: float = 1e-4) -> None:
    """Tighten the run's bound; stop when the tangent is within ``accuracy`` of the best one this shift can give.

    It ends before where the time is over, or steps hardly lower the bound.

    Parameters
    ----------
    problem : DispersionProblem
        The problem, with an incumbent in ``run``.
    run : Run
        Clock and incumbent.
    accuracy : float
        Relative to the objective's own scale.
    """
    n, m = problem.n, problem.size
    # A factorisation does n³/3 operations, some billions a second.
    if run.remaining < 4e-11 * n**3:
        return
    run.spend(DEFAULT_POLICY.shift_work * n**3)
    factor, offset, linear = units(problem)
    q = problem.weight * factor
    # Too large a shift costs at most m times the excess.
    enough = 1e-5 * m * problem.diameter
    shift = q * (top_eigenvalue(problem.distances, enough) + enough)
    if run.remaining < 3e-11 * n**3:
        return
    shift += _certify(problem, q, shift, q * enough)
    if run.expired:
        return
    linear = linear + shift
    y = incumbent(run).astype(np.float64)
    g = linear + 2 * (q * _times(problem, y) - shift * y)
    reach = float(np.abs(linear).max()) + 2 * m * (q * problem.diameter + abs(shift))
    margin = 2 * m * (2 * n + 16) * _EPS * reach + problem.rounding * factor
    best, known, stale = np.inf, np.inf, 0
    while not run.expired and stale < DEFAULT_POLICY.stale_climbs:
        run.spend(2 * DEFAULT_POLICY.climb_slice * n)
        climb = load("ascent", run, precision=problem.distances.dtype.name, steps=DEFAULT_POLICY.climb_slice * n).climb
        violation = climb(problem.distances, q, shift, y[None], g[None], DEFAULT_POLICY.climb_slice, 1e-9, 0.0)
        g = linear + 2 * (q * _times(problem, y) - shift * y)  # fresh, free of drift
        inner = float(y @ (linear - g)) / 2
        top = problem.feasible.support(g)
        value = inner + top + margin
        best = min(best, value)
        run.tighten(best / factor - offset + problem.rounding)
        # Rounding may keep the steps from their goal; the bound is finite and falls by so much, or it is over.
        known, stale = (best, 0) if best < known - 0.01 * accuracy * problem.terms * factor else (known, stale + 1)
        if run.proved or violation <= 1e-9 or top - float(y @ g) <= accuracy * problem.scale * factor:
            return


def top_eigenvalue(distances: NDArray[np.floating], enough: float = 0.0, steps: int = 60) -> float:
    """Largest eigenvalue of JHJ on ``1ᵀz = 0``; of more than 300 clients by Lanczos, plus the residual.

    Nothing relies on its accuracy.

    Parameters
    ----------
    distances : (n, n) ndarray
        H.
    enough : float
        Stop at this residual, or at a thousandth of the eigenvalue.
    steps : int
        Largest number of products with H.
    """
    n = len(distances)
    if n <= DEFAULT_POLICY.small_problem:
        means = distances.mean(axis=0, dtype=np.float64)
        low = float(distances.max())  # moves the direction 1 below all others
        dense = distances - means - means[:, None] + (means.mean() - low)
        return eigenvalue(dense, n - 1)
    v = np.cos(np.arange(n) ** 2 * 0.7)
    v -= v.mean()
    basis = np.zeros((steps, n))
    alphas, betas = np.zeros(steps), np.zeros(steps)
    beta = float(np.linalg.norm(v))
    top = residual = 0.0
    for k in range(steps):
        basis[k] = v / beta
        v = (distances @ basis[k].astype(distances.dtype)).astype(np.float64)
        alphas[k] = basis[k] @ v
        for _ in range(2):  # twice is enough
            v -= v.mean()
            v -= basis[: k + 1].T @ (basis[: k + 1] @ v)
        beta = betas[k] = float(np.linalg.norm(v))
        values, vectors = scipy.linalg.eigh_tridiagonal(alphas[: k + 1], betas[:k])
        top, residual = float(values[-1]), beta * abs(float(vectors[-1, -1]))
        if residual <= max(enough, 1e-3 * abs(top)) or beta == 0:
            break
    return top + residual


def _certify(problem: DispersionProblem, q: float, shift: float, step: float) -> float:
    """Return what has to be added to ``shift`` for certain concavity; see `slice_form.certified_excess`."""
    n = problem.n
    means = q * problem.distances.mean(axis=1, dtype=np.float64)
    u = means - means.mean() / 2
    t = max(abs(shift), q * problem.diameter) / n
    index = np.arange(n)
    added = 0.0
    while True:
        a = np.multiply(problem.distances, -q, dtype=np.float64, order="F")
        a += u
        a += u[:, None] + t
        a[index, index] += shift + added
        excess = cholesky_excess(a, q * problem.diameter + 2 * float(np.abs(u).max()) + t + abs(shift) + added)
        if excess is not None:
            return added + excess
        added = 4 * added + 10 * step + 0.01 * abs(shift) + 1e-300  # distances may all be zero


def _times(problem: DispersionProblem, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """``Hy`` with sums in double precision, without a double copy of H."""
    support = np.flatnonzero(y)
    total = np.zeros(problem.n)
    for start in range(0, support.size, 256):
        rows = support[start : start + 256]
        total += y[rows] @ problem.distances[rows].astype(np.float64)
    return total
