"""Recognise points on a circle or a line, from their distances or their coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.geometry import PointGeometry
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.run import Run

__all__ = ["Shape", "from_distances", "from_points", "shape_of"]

_EPS = float(np.finfo(np.float64).eps)

#: Distances may differ from those of the shape by this part of the largest: a tenth of the gap that counts as optimal.
_ACCEPTED = 1e-7

#: No distance is more than twice the largest from one client; with some room for rounding.
_TWICE = 2.001

#: An arc of a circle this many times as large as the arc is a line, to parts in 10¹⁰.
_STRAIGHT = 1e4

#: Entries of a matrix compared at a time.
_ENTRIES = 100_000

#: So many times as many are compared where all would take seconds.
_LOOKS = 40


@dataclass(frozen=True)
class Shape:
    """Clients on a circle or a line.

    Attributes
    ----------
    order : (n,) ndarray of int
        The clients by position.
    at : (n,) ndarray
        Their positions in that order: angles within an interval of length 2π around 0, or places on the line.
    scale : float
        Distances are ``scale · 2 sin(|difference| / 2)`` on a circle, where it is the radius, and
        ``scale · |difference|`` on a line.
    chords : bool
        Whether it is a circle.
    error : float
        No distance differs from that by more.
    """

    order: NDArray[np.int64]
    at: NDArray[np.float64]
    scale: float
    chords: bool
    error: float

    @classmethod
    def line(cls, places: NDArray[np.float64]) -> Shape:
        """A line; of extent 2, so that squares and sums of positions are harmless numbers."""
        order = np.argsort(places, kind="stable")
        low, high = float(places[order[0]]), float(places[order[-1]])
        scale = high / 2 - low / 2
        at = (places[order] - (low / 2 + high / 2)) / scale if scale > 0 else np.zeros(places.size)
        return cls(order, at, scale, chords=False, error=math.inf)

    @classmethod
    def circle(cls, spokes: NDArray[np.float64], radius: float) -> Shape:
        """A circle, given by directions from its centre, cut open where the gap between neighbours is largest."""
        angles = np.arctan2(spokes[:, 1], spokes[:, 0])
        order = np.argsort(angles, kind="stable")
        angles = angles[order]
        gaps = np.append(np.diff(angles), angles[0] + 2 * math.pi - angles[-1])
        cut = (int(gaps.argmax()) + 1) % angles.size
        turned = np.append(angles[cut:], angles[:cut] + 2 * math.pi)
        return cls(np.roll(order, -cut), turned - (turned[0] + turned[-1]) / 2, radius, chords=True, error=math.inf)

    def with_error(self, error: float) -> Shape:
        """The same with another error."""
        return Shape(self.order, self.at, self.scale, self.chords, error)


def shape_of(problem: SelectionProblem, run: Run | None = None) -> Shape | None:
    """The circle or line that a problem's clients lie on; see `from_distances` and `from_points`. None for kinds."""
    if isinstance(problem, DispersionProblem):
        return from_distances(problem, run)
    if isinstance(problem.geometry, PointGeometry):
        return from_points(problem.geometry.coordinates.T, problem.diameter)
    return None


def from_distances(problem: DispersionProblem, run: Run | None = None) -> Shape | None:
    """The circle or line whose distances a matrix holds, in O(n²); ``None`` if there is none, nearly always in O(n).

    ``None`` also where the run's time is over before every distance has been looked at. Without a run some millions of
    the distances are looked at, and the shape's error is theirs.
    """
    h = problem.distances
    one = int(h[0].argmax())
    unit = float(h[0, one])
    if unit == 0:
        return None if problem.diameter > 0 else _checked(Shape.line(np.zeros(problem.n)), problem, run)
    # Coordinates from three clients that make a large triangle: far from the first, and from the line through both.
    first, end = h[0].astype(np.float64) / unit, h[one].astype(np.float64) / unit
    if end.max() > _TWICE:
        return None
    along = ((first - end) * (first + end) + 1) / 2
    height = (first - along) * (first + along)
    two = int(height.argmax())
    if height[two] > 1e-12:
        up, side = math.sqrt(float(height[two])), h[two].astype(np.float64) / unit
        if side.max() > _TWICE:
            return None
        across = ((first - side) * (first + side) + first[two] ** 2 - 2 * along[two] * along) / (2 * up)
        plane, slack = np.column_stack([along, across]), 1e-5 / up
        if np.abs(np.hypot(along, across) - first).max() > slack:
            return None
        fitted = _circle(plane, slack, unit)
        if fitted is not None:
            if (shape := _checked(fitted[0], problem, run)) is not None:
                return shape
            # Three distances a client are not many where they were rounded: use all of them.
            fitted = _circle(_scaled(problem, plane, unit), slack, unit)
            if fitted is not None and (shape := _checked(fitted[0], problem, run)) is not None:
                return shape
        if up > 1e-3:
            return None
    return _checked(Shape.line(h[int(end.argmax())].astype(np.float64)), problem, run)


def from_points(points: NDArray[np.float64], diameter: float) -> Shape | None:
    """The circle or line that points (n, d) lie on, no farther apart than so, in O(n·d²); ``None`` if there is none."""
    n, dimensions = points.shape
    probe = points[np.linspace(0, n - 1, min(n, 50)).astype(int)]
    if dimensions > 2 and np.linalg.matrix_rank(probe - probe.mean(axis=0), tol=1e-5 * diameter) > 2:
        return None
    mean = points.mean(axis=0)
    centred = points - mean
    axes = np.zeros((dimensions, 2))
    axes[:, : min(dimensions, 2)] = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    plane = centred @ axes
    rounding = (dimensions + 32) * _EPS * (diameter + float(np.abs(points).max()))

    def checked(shape: Shape, images: NDArray[np.float64]) -> Shape | None:
        # No distance differs by more than two points do from their images.
        error = 2 * float(np.linalg.norm(centred - images @ axes.T, axis=1).max())
        error += rounding + 32 * _EPS * shape.scale
        return shape.with_error(error) if error <= _ACCEPTED * diameter or diameter == 0 else None

    if float(np.abs(plane[:, 1]).max()) > 1e-9 * diameter:
        fitted = _circle(plane, 1e-5 * diameter, 1.0)
        if fitted is not None and (shape := checked(*fitted)) is not None:
            return shape
    return checked(Shape.line(plane[:, 0]), plane * [1.0, 0.0])


def _circle(plane: NDArray[np.float64], slack: float, unit: float) -> tuple[Shape, NDArray[np.float64]] | None:
    r"""The circle through points of the plane and their images on it; ``None`` if one is off by more than ``slack``.

    Points, images and slack are in units of ``unit``, the circle is not. By least squares:
    :math:`2 c \cdot p + (r^2 - c^2) = p^2` is linear in c and :math:`r^2 - c^2` (Kåsa 1976).
    """
    mean = plane.mean(axis=0)
    size = float(np.abs(plane - mean).max())
    moved = (plane - mean) / size
    solution = np.linalg.lstsq(np.column_stack([2 * moved, np.ones(len(moved))]), (moved**2).sum(axis=1), rcond=None)[0]
    centre, square = solution[:2], float(solution[2] + solution[:2] @ solution[:2])
    if not 0 < square < _STRAIGHT**2:
        return None
    radius, spokes = math.sqrt(square), moved - centre
    lengths = np.linalg.norm(spokes, axis=1)
    if np.abs(lengths - radius).max() * size > slack or not lengths.min() > 0:
        return None
    images = mean + size * (centre + radius * spokes / lengths[:, None])
    return Shape.circle(spokes, radius * size * unit), images


def _scaled(problem: DispersionProblem, plane: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Coordinates that fit all distances (classical scaling), from such that nearly do: one step of Rayleigh-Ritz."""

    def gram(v: NDArray[np.float64]) -> NDArray[np.float64]:
        square = np.array([(row.astype(np.float64) / unit) ** 2 @ v for row in problem.distances])
        return (square.mean(axis=0) - square) / 2

    basis = np.linalg.qr(gram(plane - plane.mean(axis=0)))[0]
    lengths, axes = np.linalg.eigh(basis.T @ gram(basis - basis.mean(axis=0)))
    return basis @ axes * np.sqrt(np.maximum(lengths, 0.0))


def _checked(shape: Shape, problem: DispersionProblem, run: Run | None) -> Shape | None:
    """The shape with its error, entry by entry; ``None`` where that is too large, or the time over."""
    n, accepted, worst = problem.n, _ACCEPTED * problem.diameter, 0.0
    half = shape.at / 2
    # The sine of half a difference is one of products: cosines and sines of n numbers, not of n².
    ahead, behind = 2 * shape.scale * np.array([np.cos(half), np.sin(half)]), np.array([np.sin(half), np.cos(half)])
    if not shape.chords:
        ahead, behind = shape.scale * np.array([np.ones(n), shape.at]), np.array([shape.at, np.ones(n)])
    rows = max(1, _ENTRIES // n)
    begins = range(0, n, rows)
    for begin in begins if run is not None else begins[:: -(-len(begins) // _LOOKS)]:
        block = slice(begin, min(begin + rows, n))
        given = problem.distances[np.ix_(shape.order[block], shape.order)]
        ideal = np.abs(np.outer(behind[0, block], ahead[0]) - np.outer(behind[1, block], ahead[1]))
        worst = max(worst, float(np.abs(given - ideal).max()))
        if worst > accepted or (run is not None and run.expired):
            return None
    # Differences of positions are rounded; on an arc that is nearly straight they are small beside the radius.
    return shape.with_error(worst + 16 * _EPS * (problem.diameter + shape.scale))
