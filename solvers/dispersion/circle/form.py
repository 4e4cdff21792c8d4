"""A dispersion problem on a circle or a line, in the numbers that its kernels take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.circle.shape import Shape
from solvers.dispersion.problem import SelectionProblem

__all__ = ["Form"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Form:
    """``max scale · Σ_ij distance_ij s_i s_j + linear · s`` over clients in order of position, about 1 in size.

    Attributes
    ----------
    problem : SelectionProblem
        Whose decisions these are.
    shape : Shape
        Where its clients lie.
    cosine, sine : (n,) ndarray
        Of half the positions.
    linear : (n,) ndarray
        Less the costs, and their median.
    scale : float
        Weight and scale of the distances.
    curve : float
        Curvature of the separable part of a distance: 1/(2π), or 0 on a line.
    factor, offset : float
        Units: a power of two, and the constant part of the costs.
    margin : float
        In the problem's units: what bounds in these numbers lack for rounding, and for distances that are not quite
        the shape's.
    """

    problem: SelectionProblem
    shape: Shape
    cosine: NDArray[np.float64]
    sine: NDArray[np.float64]
    linear: NDArray[np.float64]
    scale: float
    curve: float
    factor: float
    offset: float
    margin: float

    @classmethod
    def of(cls, problem: SelectionProblem, shape: Shape) -> Form:
        """State a problem whose clients have this shape."""
        m = problem.size
        middle = float(np.median(problem.costs))
        linear = middle - problem.costs[shape.order]
        unit = 4 * problem.weight * shape.scale * m + float(np.abs(linear).max())
        factor = math.ldexp(1.0, min(-math.frexp(unit)[1], 1000)) if unit > 0 else 1.0
        scale, curve = problem.weight * shape.scale * factor, 1 / (2 * math.pi) if shape.chords else 0.0
        linear = linear * factor
        wrong = problem.weight * m * (m - 1) * shape.error
        margin = _rounding(shape, linear, scale, curve, m) / factor + wrong + 2 * problem.rounding
        half = shape.at / 2
        return cls(problem, shape, np.cos(half), np.sin(half), linear, scale, curve, factor, middle * m, margin)

    @property
    def entries(self) -> int:
        """Entries of the table of longest paths."""
        n, m = self.problem.n, self.problem.size
        return (n + 1) * (min(m, n - m) + 4)

    def value(self, objective: float) -> float:
        """An objective of the problem in these units."""
        return (objective + self.offset) * self.factor

    def original(self, value: float) -> float:
        """A value in these units as an objective of the problem."""
        return value / self.factor - self.offset

    def decision(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The decision that selects the clients at some places."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        x[self.shape.order[places]] = 1
        return x

    def places(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the clients that a decision selects, rising."""
        return np.flatnonzero(x[self.shape.order]).astype(np.int64)


def _rounding(shape: Shape, linear: NDArray[np.float64], scale: float, curve: float, size: int) -> float:
    """Bound what rounding can take off a bound.

    The gain of a client is a sum of terms of at most ``most``, of which the n-fold ones come from sums over prefixes of
    the point; a path adds up m of them, and the tangent's constant n products.
    """
    n, reach = shape.at.size, float(np.abs(shape.at).max())
    sums = scale * size * (2 * reach + 6 * curve * reach**2)
    remainder = scale * size * (4 + 2 * reach + 4 * curve * reach**2) if shape.chords else 0.0
    most = sums + 2 * remainder + float(np.abs(linear).max())
    return 4 * size * (n + size + 32) * _EPS * most
