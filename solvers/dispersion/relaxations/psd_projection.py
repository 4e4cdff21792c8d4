r"""The positive semidefinite part of matrices that change little from one to the next.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength*, which has a table of symbols and names.

An eigendecomposition finds eigenvectors, N of the smaller side of the spectrum (of the negative eigenvalues, say) and P
of the other. For the next matrix A they are nearly right: with :math:`E = P^\top A N` and the eigenvalues μ of the one
side, λ of the other, turning N by :math:`X_{ij} = E_{ij} / (\mu_j - \lambda_i)` removes E to first order, and the signs
keep the denominators from vanishing (Stewart, Error and perturbation bounds for subspaces associated with certain
eigenvalue problems, SIAM Review 15, 1973). That takes products of matrices in single precision. Every few turns the
small side is diagonalised together with the few columns nearest to it, so that an eigenvalue that changes its sign is
seen; a turn that is too large calls for a decomposition anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.policy import DEFAULT_POLICY, Policy


class PsdProjection:
    """Call it with one symmetric matrix after the other.

    Parameters
    ----------
    policy : Policy
        Tuning constants.

    Attributes
    ----------
    decompositions, turns : int
        Made so far.
    """

    def __init__(self, policy: Policy = DEFAULT_POLICY) -> None:
        self.policy = policy
        self.decompositions = self.turns = 0
        self._since: int | None = None  # turns since the last decomposition
        self._sign = 1.0
        self._values = np.zeros(0, dtype=np.float32)  # of the small side first
        self._basis = np.zeros((0, 0), dtype=np.float32)
        self._small = 0

    def __call__(self, matrix: NDArray[np.float64], *, exact: bool = False) -> NDArray[np.float64]:
        """Return the nearest positive semidefinite matrix, up to rounding if ``exact``."""
        turned = None
        if (
            not exact
            and self._since is not None
            and self._since < self.policy.turns
            and len(matrix) > self.policy.decomposed_rows
        ):
            turned = self._turned(matrix.astype(np.float32))
        part = self._decomposed(matrix) if turned is None else turned.astype(np.float64)
        return matrix + part if self._sign > 0 else part

    def _decomposed(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The part on the smaller side, as a positive semidefinite matrix."""
        values, vectors = np.linalg.eigh(matrix)
        negative = int(np.searchsorted(values, 0.0))
        self._sign, self._small = 1.0, negative
        if 2 * negative > len(matrix):
            self._sign, self._small = -1.0, len(matrix) - negative
            values, vectors = -values[::-1], vectors[:, ::-1]
        self._values = values.astype(np.float32)
        self._basis = np.ascontiguousarray(vectors.T, dtype=np.float32)
        self._since = 0
        self.decompositions += 1
        root = vectors[:, : self._small] * np.sqrt(-values[: self._small])
        return np.asarray(root @ root.T)

    def _turned(self, matrix: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The same by turning the basis; ``None`` where it would have to be turned too far."""
        assert self._since is not None
        refined = self._small == 0 or self._since % self.policy.turns_refined == self.policy.turns_refined - 1
        k = min(self._small + self.policy.refined_columns, len(matrix)) if refined else self._small
        near, far = self._basis[:k], self._basis[k:]  # rows are eigenvectors
        image = near @ matrix
        if self._sign < 0:
            np.negative(image, out=image)
        inner, across = image @ near.T, far @ image.T
        floor = self.policy.turn_floor * max(-self._values[0], self._values[-1])
        angle = across / np.minimum(inner.diagonal() - self._values[k:, None], -floor)
        if np.linalg.norm(angle) > self.policy.largest_turn:
            return None
        moved = angle.T @ far
        far -= angle @ (near + moved / 2)  # orthonormal up to the fourth power of the angle
        near += moved - (angle.T @ angle / 2) @ near
        inner += (across.T @ angle + angle.T @ across) / 2
        self._since += 1
        self.turns += 1
        if not refined:
            self._values[:k] = inner.diagonal()
            try:
                root = np.linalg.cholesky(-inner).T @ near
                return np.asarray(root.T @ root)
            except np.linalg.LinAlgError:
                pass  # an eigenvalue has changed its sign
        self._values[:k], inwards = np.linalg.eigh(inner)
        near[:] = inwards.T @ near
        self._small = int(np.searchsorted(self._values[:k], 0.0))
        scaled = near[: self._small] * np.sqrt(-self._values[: self._small, None])
        return np.asarray(scaled.T @ scaled)
