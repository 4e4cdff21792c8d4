r"""Constraints of the semidefinite relaxation on the slice, all of them products of two sparse vectors.

With :math:`z = 2s - 1` and a leading :math:`z_0 = 1`,
:math:`\langle \mathrm{sym}(u v^\top), zz^\top \rangle = (u^\top z)(v^\top z)`, and each constraint is one of

* binary: :math:`z_i^2 = 1`, that is :math:`u = v = e_i`;
* dominance, :math:`s_i s_j = s_j` where i is chosen whenever j is: :math:`(z_i - z_0)(z_j + z_0) = 0`;
* :math:`s_i s_j \ge 0`: :math:`(z_i + z_0)(z_j + z_0) \ge 0`.

:math:`1^\top s = m` is a direction in which :math:`zz^\top` vanishes: reflected onto
the first axis, it is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.run import Run

__all__ = ["Constraints"]

#: Steps that Python needs for a pair of constraints, where nothing is compiled yet.
_STEPS = 25


class Constraints:
    """Constraint k is the product :math:`(z_i + a z_0)(z_j + b z_0)`, equal to ``rhs`` or at least that.

    Parameters
    ----------
    n, size : int
        The slice.
    dominated, nonnegative : (k, 2) ndarray of int
        Pairs (i, j) of the last two kinds; the n + 1 binary constraints come first, then these.
    run : Run, optional
        Its clock stands still while kernels are compiled.
    """

    def __init__(
        self, n: int, size: int, dominated: NDArray[np.int64], nonnegative: NDArray[np.int64], run: Run | None = None
    ) -> None:
        self._run = run
        normal = np.ones(n + 1)
        normal[0] = n - 2 * size
        self.mirror = _mirror(normal)
        every = np.arange(n + 1)
        self.i = np.concatenate([every, 1 + dominated[:, 0], 1 + nonnegative[:, 0]])
        self.j = np.concatenate([every, 1 + dominated[:, 1], 1 + nonnegative[:, 1]])
        # a, b are 0 for the binary constraints, -1, 1 for dominance, else 1.
        self.b = (np.arange(self.i.size) > n).astype(np.float64)
        self.a = self.b.copy()
        self.a[n + 1 : n + 1 + len(dominated)] = -1.0
        self.plain = self.i.size == n + 1
        self.inequality = np.arange(self.i.size) > n + len(dominated)
        self.rhs = (np.arange(self.i.size) <= n).astype(np.float64)

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
        i, j, a, b = self.i, self.j, self.a, self.b
        full = self.extend(matrix)
        return full[i, j] + b * full[i, 0] + a * full[0, j] + a * b * full[0, 0]

    def adjoint(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The constraints' matrices, times ``y``, in sum."""
        if self.plain:
            return self.restrict(np.diag(y))
        n, (i, j, a, b) = len(self.mirror), (self.i, self.j, self.a, self.b)
        total = np.zeros((n, n))
        np.add.at(total, (i, j), y)
        np.add.at(total, (i, np.zeros_like(i)), b * y)
        np.add.at(total, (np.zeros_like(j), j), a * y)
        total[0, 0] += float((a * b) @ y)
        return self.restrict((total + total.T) / 2)

    def schur(self, z: NDArray[np.float64], inverse: NDArray[np.float64]) -> NDArray[np.float64]:
        """``<A_k, z A_l inverse>`` for all pairs of constraints."""
        outer, inner = self.extend(z), self.extend(inverse)
        if self.plain:
            return outer * inner
        schur = load("schur", self._run, steps=_STEPS * self.i.size**2)
        return schur.assemble(outer, inner, self.i, self.j, self.a, self.b)


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
