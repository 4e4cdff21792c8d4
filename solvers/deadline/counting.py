"""Branching on the number of clients on a line: values that are a multiple of the upload plus or less a constant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.deadline.chain import WHOLE, Chain, Counts, Multipliers, exchanged, exchanged_in_pairs, search
from solvers.deadline.problem import DeadlineProblem
from solvers.run import Run
from solvers.search import BestFirstQueue, NodeOutcome, add_outcomes
from solvers.subsets import from_clients

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_EPS = float(np.finfo(np.float64).eps)


class Part(NamedTuple):
    """Selections with numbers of members among the first k + 1 in ranges, by k, and with some clients decided."""

    ranges: dict[int, tuple[int, int]]
    decided: dict[int, bool]


def on_a_line(chain: Chain) -> tuple[NDArray[np.bool_], bool] | None:
    """Find the clients whose value is a·upload + b or nearly so; None where they are few.

    Returned are who they are, (n,), and whether b is no rounding. The line goes through the medians of slopes and
    of what they leave.
    """
    n = chain.clients.size
    order, half = np.argsort(chain.upload, kind="stable"), n // 2
    short, long = order[: n - half], order[half:]
    length = (chain.upload[long] - chain.upload[short]).astype(np.float64)
    if n < 4 or not (length > 0).any():
        return None
    slope = float(np.median(((chain.values[long] - chain.values[short]) / np.maximum(length, 1.0))[length > 0]))
    rest = chain.values - slope * chain.upload
    constant = float(np.median(rest))
    for share in _CLOSE:
        close = share * float(chain.values.mean())
        members = np.abs(rest - constant) <= close
        if int(members.sum()) > half:
            return members, abs(constant) > close
    return None


#: Distances from the line, as shares of the mean value: exactly on it, but for roundings, or near it. A client beside
#: the line that counted as a member would be worth its distance in the bound.
_CLOSE = (1e-9, 0.01)

#: Nodes after which the other methods take over; a thousand clients of the hard classes need some ten.
_NODES = 100

#: States of the search where all numbers are whole.
_STATES = 1_000


class Node(NamedTuple):
    """Relaxation of a part: multipliers, whose bound is valid in floating point, and a selection, (n,)."""

    known: Multipliers
    x: NDArray[np.float64]

    @property
    def bound(self) -> float:
        """Bound of the values of all selections of the part."""
        return float(self.known.ahead[0]) + self.known.margin


def relaxed(chain: Chain, members: NDArray[np.bool_], part: Part, rows: csr_array) -> Node:
    r"""Solve the linear relaxation of a part.

    With falling prices of time :math:`\pi_k \ge 0` and prices :math:`z_k` of a place among the first k, whatever they
    are, :math:`M_j = \sum_{k \ge j} z_k` for a member and 0 for others,

    .. math:: \sum_j \max(0, w_j - \pi_j u_j - M_j) + \sum_k (\pi_k - \pi_{k+1})\, d_k
              + \sum_k \max(z_k h_k, z_k l_k)

    bounds the values of selections with :math:`l_k` to :math:`h_k` members among the first k; the prices of the linear
    solver are put in. The term of a client that is decided is that of its decision in place of the larger one.
    """
    from scipy import optimize, sparse

    n, unit = chain.clients.size, float(chain.room.max()) or 1.0
    upload, room = chain.upload / unit, chain.room / unit
    places = np.array(sorted(part.ranges), dtype=np.int64)
    low, high = (np.array([part.ranges[k][side] for k in places.tolist()], dtype=np.float64) for side in (0, 1))
    least, most = np.zeros(n), np.ones(n)
    for j, is_in in part.decided.items():
        least[j] = most[j] = float(is_in)
    counts = sparse.csr_array(((np.arange(n) <= places[:, None]) & members).astype(np.float64))
    rooms = 2 * places.size
    both = sparse.hstack(
        [sparse.vstack([counts, -counts]), sparse.csr_array((rooms, n)), -sparse.eye_array(rooms, format="csr")]
    )
    # A number out of its range costs more than all values: whether there is a solution at all is the bound's to say.
    outside = 2.0 * float(chain.values.sum()) + 1.0
    answer = optimize.linprog(
        np.concatenate([-chain.values, np.zeros(n), np.full(rooms, outside)]),
        A_ub=both,
        b_ub=np.concatenate([high, -low]),
        A_eq=sparse.hstack([rows, sparse.csr_array((n, rooms))]),
        b_eq=np.zeros(n),
        bounds=np.stack(
            [
                np.concatenate([least, np.zeros(n + rooms)]),
                np.concatenate([most, room, np.full(rooms, math.inf)]),
            ],
            axis=1,
        ),
        method="highs-ds",
    )
    prices = np.zeros(n) if answer.x is None else np.nan_to_num(answer.eqlin.marginals)
    price = np.maximum.accumulate(np.maximum(prices, 0.0)[::-1])[::-1]
    above = below = np.zeros(places.size)
    if answer.x is not None:
        above, below = np.split(np.maximum(-np.nan_to_num(answer.ineqlin.marginals), 0.0), 2)
    place, ends = np.zeros(n), np.zeros(n)
    place[places], ends[places] = above - below, above * high - below * low
    beyond = np.append(np.cumsum(place[::-1])[::-1], 0.0)
    falls = price - np.append(price[1:], 0.0)
    gains = chain.values - price * upload - np.where(members, beyond[:-1], 0.0)
    gains = np.maximum(gains * least, gains * most)
    ahead = np.append(np.cumsum((gains + falls * room + ends)[::-1])[::-1], 0.0)
    size = float((above * high + below * low).sum() + (price * room).sum() + n * np.abs(beyond).max())
    size += float(chain.values.sum() + np.abs(gains).sum())
    fewest, largest = np.zeros(n, dtype=np.int64), np.full(n, n)
    fewest[places], largest[places] = low.astype(np.int64), high.astype(np.int64)
    x = np.zeros(n) if answer.x is None else answer.x[:n]
    counts = Counts(members, fewest, largest, beyond)
    return Node(Multipliers(np.append(price, 0.0) / unit, ahead, 8.0 * (n + 8) * _EPS * size, counts), x)


def running_times(chain: Chain) -> csr_array:
    """State the rows by which the time after each client is that before it and its upload, in units of the last room.

    Columns are the clients, and the times after each.
    """
    from scipy import sparse

    n, unit = chain.clients.size, float(chain.room.max()) or 1.0
    after = sparse.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, -1])
    return sparse.csr_array(sparse.hstack([-sparse.diags_array(chain.upload / unit), after]))


#: Work of a linear relaxation for each client, by HiGHS. 2026-11-24.
_RELAXATION_WORK = 2_000


def branch_on_counts(
    problem: DeadlineProblem, run: Run, chain: Chain, within: Chain, members: NDArray[np.bool_]
) -> float:
    """Bound by branching on how many members are selected before each full room; return the largest bound left open.

    Values of members differ from a price of time by the same constant, so that the relaxation takes a part of a
    client too many before every full room, and their number there decides. The largest bound first; every node's
    whole part is improved by exchanges. Where all numbers are whole and a gap is left, pairs are exchanged, and a
    client off the line that the relaxation still cuts is branched on.

    Parameters
    ----------
    problem : DeadlineProblem
        Whose decisions are offered.
    run : Run
        Clock and incumbent.
    chain, within : Chain
        Clients with times rounded down, for bounds, and up, for decisions.
    members : (n,) ndarray of bool
        Clients on a line, along the chain.
    """
    rows = running_times(chain)
    assert run.objective is not None
    everything = Part({}, {})
    root = relaxed(chain, members, everything, rows)
    queue = BestFirstQueue[tuple[Part, Node]]()
    queue.push(root.bound, (everything, root))
    number, closed, outcomes = 0, -math.inf, [0] * len(NodeOutcome)
    while queue and number < _NODES and not run.expired:
        if queue.bound <= run.objective + 0.5 * problem.tolerance_at(run.objective):
            outcomes[NodeOutcome.FATHOMED_BY_BOUND] += len(queue)
            break
        bound, (part, here) = queue.pop()
        taken = exchanged(within, _whole_part(within, here.x), run)
        run.offer(from_clients(within.clients[taken].tolist(), problem.n))
        halves = _by_count(chain, members, part, here.x)
        if halves is None:
            left = min(bound, search(chain, here.known, problem, run, _STATES))
            if left > run.objective + 0.5 * problem.tolerance_at(run.objective):
                taken = exchanged_in_pairs(within, taken, here.x * members)
                run.offer(from_clients(within.clients[taken].tolist(), problem.n))
                halves = _by_client(members, part, here.x)
            if halves is None:
                closed = max(closed, left)
                outcomes[NodeOutcome.SOLVED] += 1
                continue
        outcomes[NodeOutcome.BRANCHED] += 1
        for half in halves:
            node = relaxed(chain, members, half, rows)
            run.nodes = (run.nodes or 0) + 1
            run.spend(_RELAXATION_WORK * members.size)
            number += 1
            queue.push(min(bound, node.bound), (half, node))
    add_outcomes(run.details, outcomes)
    return max(closed, queue.bound)


def _by_count(chain: Chain, members: NDArray[np.bool_], part: Part, x: NDArray[np.float64]) -> tuple[Part, Part] | None:
    """Split a part by the number of members before the full room that parts one most; None where none is parted."""
    parts = np.cumsum(x * members)
    is_full = np.cumsum(x * chain.upload) >= chain.room * (1.0 - 1e-9) - 1e-7 * float(chain.room.max())
    is_full[-1] = True
    parted = np.where(is_full, np.abs(parts - np.rint(parts)), 0.0)
    k = int(parted.argmax())
    if parted[k] < WHOLE:
        return None
    low, high = part.ranges.get(k, (0, x.size))
    floor = math.floor(parts[k])
    few, many = (part._replace(ranges=part.ranges | {k: side}) for side in ((low, floor), (floor + 1, high)))
    return few, many


def _by_client(members: NDArray[np.bool_], part: Part, x: NDArray[np.float64]) -> tuple[Part, Part] | None:
    """Split a part by a client off the line that the relaxation cuts; None where it cuts none.

    Members that are cut give way to each other and cost nothing; a client beside the line has no such other.
    """
    cut = np.where(members, 0.0, np.abs(x - np.rint(x)))
    j = int(cut.argmax())
    if cut[j] < WHOLE:
        return None
    out, with_it = (part._replace(decided=part.decided | {j: side}) for side in (False, True))
    return out, with_it


def _whole_part(chain: Chain, x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Clients that a fractional selection takes wholly, fewer where these are late by a rounding."""
    taken = x > 1.0 - 1e-7
    while (late := np.flatnonzero((chain.slack(taken) < 0) & taken)).size:
        taken[late[0]] = False
    return taken
