r"""Clients on a line: recognised from their distances or coordinates, and chosen by one longest path.

In the order of their places :math:`p_1 \le \dots \le p_n`, the distances of a selection add up to

.. math:: \sum_{i, j} |p_i - p_j| s_i s_j = \sum_{r = 0}^{m - 1} 2 (2 r - m + 1) \, p_{(r)},

where :math:`p_{(r)}` is the place of the selected client of rank r. So a client counts by its place and its rank, and
the best selection is a longest path through (r of the first j clients), found in O(nm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.geometry import PointGeometry
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.run import Run
from solvers.search import NodeOutcome, add_outcomes

_EPS = float(np.finfo(np.float64).eps)

#: Distances may differ from those of the line by this part of the largest: a tenth of the gap that counts as optimal.
_ACCEPTED = 1e-7

#: Entries of a matrix compared at a time.
_ENTRIES = 100_000


@dataclass(frozen=True)
class Line:
    """Clients on a line.

    Attributes
    ----------
    order : (n,) ndarray of int
        The clients by place.
    at : (n,) ndarray
        Their places in that order; 0 is halfway between the first and the last.
    error : float
        No distance differs from that of two places by more.
    """

    order: NDArray[np.int64]
    at: NDArray[np.float64]
    error: float


def line_of(problem: SelectionProblem, run: Run | None = None) -> Line | None:
    """Return the line that a problem's clients lie on, or None; none is looked for between kinds.

    None also where the run's time is over before every distance of a matrix has been looked at. Without a run at most
    some millions of them are looked at, and the error is theirs.
    """
    if isinstance(problem, DispersionProblem):
        return _from_distances(problem, run)
    if isinstance(problem.geometry, PointGeometry):
        return _from_points(problem.geometry.coordinates.T, problem.diameter)
    return None


def too_large(problem: SelectionProblem) -> str | None:
    """Return why the table of longest paths would be too large; None where it fits."""
    largest = DEFAULT_POLICY.line_table
    if problem.n * problem.size <= largest:
        return None
    return (
        f"line makes a table of {problem.n} clients by {problem.size} ranks; it accepts at most {largest:.3g} entries "
        "(use 'auto')"
    )


def choose(problem: SelectionProblem, line: Line, run: Run) -> None:
    """Offer the selection of the longest path, and tell the bound that it proves."""
    n, m, weight = problem.n, problem.size, problem.weight
    linear = problem.linear[line.order]
    paths = np.empty((m, n))  # the most that r + 1 clients are worth, the last of them at this place or before it
    before = np.zeros(n)
    for r in range(m):
        np.maximum.accumulate(before + (2 * weight * (2 * r - m + 1) * line.at + linear), out=paths[r])
        before = np.append(-np.inf, paths[r, :-1])
    chosen, end = [], n
    for r in range(m - 1, -1, -1):
        end = int(np.searchsorted(paths[r, :end], paths[r, end - 1]))
        chosen.append(line.order[end])
    run.nodes = (run.nodes or 0) + 1
    add_outcomes(run.details, [outcome == NodeOutcome.SOLVED for outcome in NodeOutcome])
    run.offer(problem.feasible.decision(np.sort(chosen)))
    # A path adds m terms of at most so much, each with some roundings, and no computed maximum is below any path's sum.
    largest = 2 * weight * (m - 1) * float(np.abs(line.at).max()) + float(np.abs(linear).max())
    margin = 2 * _EPS * (m + 8) * m * largest + weight * m * (m - 1) * line.error + 2 * problem.rounding
    run.tighten(float(paths[-1, -1]) - m * problem.common_cost + margin)


def _from_distances(problem: DispersionProblem, run: Run | None) -> Line | None:
    """The places are the distances from one end, which is the client farthest from the first."""
    h, n = problem.distances, problem.n
    places = h[int(h[0].argmax())].astype(np.float64)
    unit = float(places[0])  # the largest distance is less than twice as large
    if np.abs(np.abs(places - unit) - h[0]).max() > 2 * _ACCEPTED * unit:
        return None
    order, at = _in_order(places)
    accepted, worst, rows = _ACCEPTED * problem.diameter, 0.0, max(1, _ENTRIES // n)
    begins = range(0, n, rows)
    for begin in begins if run is not None else begins[:: -(-len(begins) // DEFAULT_POLICY.line_looks)]:
        block = slice(begin, min(begin + rows, n))
        given = problem.distances[np.ix_(order[block], order)]
        worst = max(worst, float(np.abs(given - np.abs(at[block, None] - at)).max()))
        if worst > accepted or (run is not None and run.expired):
            return None
    return Line(order, at, worst + 16 * _EPS * problem.diameter)


def _from_points(points: NDArray[np.float64], diameter: float) -> Line | None:
    """The line goes through the first point and the one farthest from it, in O(n·d)."""
    apart = points - points[0]
    lengths = np.linalg.norm(apart, axis=1)
    far = int(lengths.argmax())
    along = apart[far] / lengths[far] if lengths[far] > 0 else np.zeros(points.shape[1])
    places = apart @ along
    # No distance differs by more than two points do from their images.
    error = 2 * float(np.linalg.norm(apart - places[:, None] * along, axis=1).max())
    error += (points.shape[1] + 64) * _EPS * (diameter + float(np.abs(points).max()))
    if error > _ACCEPTED * diameter and diameter > 0:
        return None
    return Line(*_in_order(places), error)


def _in_order(places: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    order = np.argsort(places, kind="stable")
    at = places[order]
    return order, at - (at[0] / 2 + at[-1] / 2)
