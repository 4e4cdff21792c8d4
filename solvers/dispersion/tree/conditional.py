"""Search below one concave form by conditioning it on one client after the other.

See docs/mathematics/dispersion_relaxations.md, *Quadratic fixing*, and `solvers.dispersion.kernels.conditioning`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import Order
from solvers.dispersion.relaxations.dominance import Dominance
from solvers.dispersion.relaxations.slice_form import SliceForm
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)

#: Curvature along 1 in units of the largest entry; any would do, as the inverse's part along 1 is taken out again.
_ALONG = 1.0


@dataclass(frozen=True)
class Conditioned:
    """What a search found.

    Attributes
    ----------
    is_done : bool
        Whether every selection of interest was visited, or is worth at most the target.
    nodes : int
        Nodes.
    entries : int
        Entries of inverses that were updated.
    best : (n,) ndarray of int
        The best selection visited; all zero where none was.
    settled : (k,) ndarray of int
        Twice the client, and one more where it is chosen, of those that every other selection of interest has so.
    """

    is_done: bool
    nodes: int
    entries: int
    best: NDArray[np.int64]
    settled: NDArray[np.int64]


def search_conditioned(
    form: SliceForm, target: float, most: float, room: int, run: Run, order: Dominance | None = None
) -> Conditioned:
    """Search for selections worth more than ``target`` until all are visited or dropped, or work or room is used up.

    Parameters
    ----------
    form : SliceForm
        The objective, concave on the slice, of 0 < m < n.
    target : float
        What a selection has to exceed to be of interest.
    most : float
        Entries of inverses to update, at most.
    room : int
        Entries of inverses to keep on the way down, at most.
    run : Run
        Its clock stands still while the kernel is compiled.
    order : Dominance, optional
        Clients of which some best selection, if not each, contains the first wherever it contains the second. Then the
        search is for such selections, and what is settled holds for these.
    """
    n, m = form.linear.size, form.size
    nothing = Conditioned(False, 0, 0, np.zeros(n, dtype=np.int64), np.zeros(0, dtype=np.int64))
    started = inverse_on_slice(form.curved, form.linear, m)
    if started is None:
        return nothing
    inverse, centre = started
    best, trail = np.zeros(n, dtype=np.int8), np.zeros(n + 1, dtype=np.int64)
    kernel = load("conditioning", run)
    lists = Order.empty(n) if order is None else order.lists
    unit = (4 * n + 64) * _EPS * float(np.abs(form.curved).max())
    arrays = (np.ascontiguousarray(form.curved), np.ascontiguousarray(form.exact), form.linear)
    scratch = (np.ascontiguousarray(inverse), centre, target, int(most), best, trail, np.empty(room))
    how, nodes, entries, settled = kernel.explore(*arrays, m, form.margin, unit, lists, *scratch)
    return Conditioned(how == kernel.DONE, int(nodes), int(entries), best.astype(np.int64), trail[:settled])


def inverse_on_slice(
    curved: NDArray[np.float64], linear: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the inverse of ``-curved`` on the slice, and the maximiser of the form there, as rounding leaves them.

    None where it shows not to be definite, or the numbers are out of range.
    """
    n = linear.size
    means = curved.mean(axis=1)
    matrix = means[:, None] + means - curved
    matrix -= means.mean()
    along = _ALONG * float(np.abs(curved).max())
    matrix += along
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    inverse = (inverse + inverse.T) / 2 - 1 / (along * n * n)
    gradient = linear + (2 * size / n) * (curved.sum(axis=1))
    centre = size / n + inverse @ gradient / 2
    if not (np.isfinite(centre).all() and inverse.diagonal().min() > 0):
        return None
    return inverse, centre
