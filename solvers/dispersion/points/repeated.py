"""Points that many clients share: then they are kinds."""

from __future__ import annotations

from solvers.dispersion.kinds import KindDispersionProblem, equal_rows
from solvers.dispersion.points.problem import PointDispersionProblem

__all__ = ["repeated"]

#: Different points that are worth counting, at most.
_MOST = 300

#: Clients of whom at least some must share a point, or nobody looks further.
_SAMPLE = 1_000


def repeated(problem: PointDispersionProblem) -> KindDispersionProblem | None:
    """The same problem between kinds, clients at one point being of one kind; ``None`` if few points are shared.

    A sample that holds too many different points already answers for all.
    """
    n = problem.n
    rows = problem.points
    sample = equal_rows(rows[:: max(1, n // _SAMPLE)])[1]
    if int(sample.max()) + 1 > min(_MOST, sample.size // 2):
        return None
    first, kinds = equal_rows(rows)
    if first.size > min(_MOST, n // 2):
        return None
    return KindDispersionProblem(
        problem.distances(first),
        kinds,
        problem.costs,
        size=problem.size,
        weight=problem.weight,
        clients=problem.clients,
    )
