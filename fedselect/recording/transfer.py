"""What a bound on one problem says about another that hardly differs."""

from __future__ import annotations

import math

import numpy as np

from solvers import Problem
from solvers.dispersion import DispersionProblem

__all__ = ["transferred_bound"]


def transferred_bound(known: Problem, bound: float, changed: Problem) -> float | None:
    r"""Move a bound from one problem to another by the most that their objectives can differ.

    For dispersion, over all decisions s with m clients: :math:`|f'(s) - f(s)| \le w \, m (m - 1) \max_{ij} |H'_{ij} -
    H_{ij}|` plus the m largest :math:`|c'_k - c_k|`. Recording again with another order of summation changes the
    last bits of H, and the bound, which may have taken hours, moves by as little.

    Parameters
    ----------
    known : Problem
        The problem the bound is for.
    bound : float
        Valid for it.
    changed : Problem
        The other problem.

    Returns
    -------
    float or None
        A bound for ``changed``; ``None`` where the problems are of another kind, weight, size or set of clients.
    """
    if not (isinstance(known, DispersionProblem) and isinstance(changed, DispersionProblem)):
        return None
    if known.size != changed.size or known.weight != changed.weight:
        return None
    if not np.array_equal(known.clients, changed.clients):
        return None
    m = known.size
    farther = float(np.abs(changed.distances.astype(np.float64) - known.distances).max())
    dearer = np.sort(np.abs(changed.costs - known.costs))[-m:]
    moved = known.weight * m * (m - 1) * farther + math.fsum(dearer)
    # Rounding: each difference and product is off by a few parts in 2^53, and the last sum by half a unit.
    return math.nextafter(bound + moved * (1 + 1e-12), math.inf) if moved > 0 else bound
