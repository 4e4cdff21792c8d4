"""Nodes of the strong tree: the doubly nonnegative relaxation, what it fixes, what it leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.bounds.doubly_nonnegative import Relaxation, Warm
from solvers.dispersion.bounds.slice_form import Normal, SliceForm

__all__ = ["Effort", "Node", "Outcome", "examine"]

#: Selections that are enumerated instead of relaxed.
_ENUMERABLE = 2_000


@dataclass(frozen=True)
class Node:
    """An open sub-problem: who is free (sorted), who is chosen, a bound, and a relaxation to start from."""

    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    bound: float
    warm: Warm | None = None


@dataclass(frozen=True)
class Effort:
    """How much a node may cost.

    Attributes
    ----------
    chunk : int
        Iterations between two looks at the bound.
    iterations : int
        Most iterations of a node; the root may take four times as many.
    cuts : float
        Cuts added at once, per free client; 0 for none.
    finish : float
        Gaps up to this, in the units of the objective, are left to the first-order tree,
    budget : int
        with this much work.
    """

    chunk: int = 20
    iterations: int = 200
    cuts: float = 5.0
    finish: float = 0.0
    budget: int = 0


@dataclass
class Outcome:
    """What became of a node: a bound on what is left, its children (none: closed), selections found, and counts."""

    bound: float
    children: list[Node] = field(default_factory=list)
    selections: list[NDArray[np.int64]] = field(default_factory=list)
    iterations: int = 0
    cheap: int = 0
    finished: bool | None = None
    gap: float = 0.0


def examine(
    normal: Normal,
    node: Node,
    target: float,
    effort: Effort,
    tree: ModuleType | None,
    expired: Callable[[], bool],
) -> Outcome:
    """Bound a node, and close or split it.

    Parameters
    ----------
    normal : Normal
        The problem.
    node : Node
        The node.
    target : float
        What is worth looking for: selections of at most this value are of no interest.
    effort : Effort
        How much it may cost.
    tree : module, optional
        The compiled first-order tree.
    expired : callable
        Whether to stop; the outcome is valid all the same.
    """
    ids, ones = node.ids, node.ones
    m = normal.size - ones.size
    quadratic = np.ascontiguousarray(normal.quadratic[np.ix_(ids, ids)])
    linear = normal.linear[ids] + 2 * normal.quadratic[np.ix_(ids, ones)].sum(axis=1)
    constant = float(normal.linear[ones].sum() + normal.quadratic[np.ix_(ones, ones)].sum())
    constant += 2 * normal.error  # rounding of these sums
    known = target - constant
    if m < 0 or m > ids.size:
        return Outcome(-math.inf)
    if math.comb(ids.size, m) <= _ENUMERABLE:
        value, best = _enumerate(quadratic, linear, m)
        return Outcome(constant + value, selections=[np.sort(np.concatenate([ones, ids[best]]))])
    forbidden = None
    if node.warm is not None and node.warm.forbidden is not None:
        kept = np.searchsorted(node.warm.ids, ids)
        forbidden = node.warm.forbidden[np.ix_(kept, kept)]
    if m == 1:
        best = np.array([linear.argmax()])
        return Outcome(constant + float(linear.max()), selections=[np.sort(np.concatenate([ones, ids[best]]))])
    relaxation = Relaxation(quadratic, linear, m, forbidden)
    if node.warm is not None:
        relaxation.start(node.warm, ids, ones)
    value = _solve(relaxation, node, known, effort, expired)
    outcome = Outcome(min(node.bound, constant + value), iterations=relaxation.iterations)
    if value <= known:
        return outcome
    outcome.gap = outcome.bound - target
    x = np.clip(relaxation.x, 0.0, 1.0)
    outcome.selections.append(np.sort(np.concatenate([ones, ids[np.argsort(-x, kind="stable")[:m]]])))
    if expired():
        outcome.children = [Node(ids, ones, outcome.bound, relaxation.warm(ids))]
        return outcome
    forbidden = forbid(relaxation, value - known)
    form = relaxation.form()
    point = onto_slice(x, m)
    state, better = fix(form, point, known, forbidden)
    outcome.bound = min(outcome.bound, constant + better)
    if state is None:
        outcome.bound = target
        return outcome
    if tree is not None and outcome.gap <= effort.finish:
        outcome.finished = _finish(tree, form, point, state, known, effort, outcome, ids, ones)
        if outcome.finished:
            outcome.bound = target
            return outcome
    outcome.children = _split(relaxation, node, state, x, outcome.bound, forbidden)
    return outcome


def _solve(
    relaxation: Relaxation, node: Node, known: float, effort: Effort, expired: Callable[[], bool]
) -> float:
    """Iterate until the bound passes ``known``, stagnates, or has cost enough; return it."""
    root = node.warm is None
    most = effort.iterations * (4 if root else 1)
    best = min(relaxation.bound(), math.inf)
    gap = best - known
    looks = 0
    while relaxation.iterations < most and not expired():
        relaxation.iterate(effort.chunk, expired)
        best = min(best, relaxation.bound())
        if best <= known:
            break
        looks += 1
        fresh = 0
        if effort.cuts > 0 and (looks % 2 == 0 or (looks == 1 and not root)):
            fresh = relaxation.separate(int(effort.cuts * relaxation.n))
        estimate = relaxation.estimate()
        progress, gap = gap - (best - known), best - known
        if looks < 2 or fresh > relaxation.n // 4:
            continue
        hopeless = estimate > known and best - estimate < 0.3 * gap
        if hopeless or progress < 0.1 * gap:
            break
    return best


def forbid(relaxation: Relaxation, gap: float) -> NDArray[np.bool_]:
    """Pairs that no selection worth finding contains: together they cost ``2 S_ij`` of the bound."""
    forbidden = 2 * relaxation.nonnegative > gap * (1 + 1e-9)
    if relaxation.forbidden is not None:
        forbidden |= relaxation.forbidden
    return forbidden


def fix(
    form: SliceForm, point: NDArray[np.float64], known: float, forbidden: NDArray[np.bool_]
) -> tuple[NDArray[np.int8] | None, float]:
    """Who can be fixed (1 chosen, 2 left out) by reduced costs and forbidden pairs, and the tangent's bound.

    ``None`` instead when nothing worth finding is left.
    """
    n, m = form.linear.size, form.size
    state = np.zeros(n, dtype=np.int8)
    gradient = form.linear + 2 * (form.curved @ point)
    value = form.tangent(point)
    order = np.sort(gradient)
    lowest_in, highest_out = order[n - m], order[n - m - 1]
    room = value - known
    if room <= 0:
        return None, value
    state[gradient - highest_out >= room] = 1
    state[lowest_in - gradient >= room] = 2
    while True:
        chosen, free = state == 1, state == 0
        if (forbidden[np.ix_(chosen, chosen)]).any():
            return None, value
        out = free & forbidden[chosen].any(axis=0)
        left = m - int(chosen.sum())
        companions = (~forbidden[:, free]).sum(axis=1) - 1
        out |= free & (companions < left - 1)
        if not out.any():
            break
        state[out] = 2
    if left < 0 or left > int((state == 0).sum()):
        return None, value
    return state, value


def onto_slice(x: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """A point of the slice near ``x``, which lies in [0, 1]."""
    total = float(x.sum())
    if total > m:
        return x * (m / total)
    return x + (1 - x) * ((m - total) / max(x.size - total, 1e-300))


def _split(
    relaxation: Relaxation,
    node: Node,
    state: NDArray[np.int8],
    x: NDArray[np.float64],
    bound: float,
    forbidden: NDArray[np.bool_],
) -> list[Node]:
    """Two children, on the most fractional free client; one, if all that is left follows."""
    ids = node.ids
    relaxation.forbidden = forbidden
    warm = relaxation.warm(ids)
    free = state == 0
    ones = np.concatenate([node.ones, ids[state == 1]])
    if not free.any():
        return [Node(ids[free], ones, bound, warm)]
    fractional = np.where(free, np.minimum(x, 1 - x), -1.0)
    pick = int(fractional.argmax())
    rest = free.copy()
    rest[pick] = False
    without = Node(ids[rest], ones, bound, warm)
    rest = rest & ~forbidden[pick]
    return [Node(ids[rest], np.append(ones, ids[pick]), bound, warm), without]


def _finish(
    tree: ModuleType,
    form: SliceForm,
    point: NDArray[np.float64],
    state: NDArray[np.int8],
    known: float,
    effort: Effort,
    outcome: Outcome,
    ids: NDArray[np.int64],
    ones: NDArray[np.int64],
) -> bool:
    """Let the first-order tree look at everything below; whether it came to an end within its budget."""
    n = form.linear.size
    states = np.zeros((n + 5, n), dtype=np.int8)
    points, bounds, best = np.zeros((n + 5, n)), np.zeros(n + 5), np.zeros(n, dtype=np.int8)
    states[0], points[0], bounds[0] = state, point, form.tangent(point)
    means = form.curved.mean(axis=0)
    importance = np.maximum(2 * means - means.mean() - form.curved.diagonal(), 1e-12)
    start, none = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    budget, left = effort.budget, 1
    while left and budget > 0:
        nodes, work, left, value = tree.explore(
            form.curved, form.exact, form.linear, form.size, importance, start, none, start, none,
            states, points, bounds, left, known, 0.0, form.margin, best, budget, 0.2,
        )
        outcome.cheap += nodes
        budget -= work
        if value > known:
            outcome.selections.append(np.sort(np.concatenate([ones, ids[best == 1]])))
            known = value
        elif left and work == 0:
            break
    return left == 0


def _enumerate(
    quadratic: NDArray[np.float64], linear: NDArray[np.float64], m: int
) -> tuple[float, NDArray[np.int64]]:
    """The best of all selections."""
    n = linear.size
    chosen = np.array(list(itertools.combinations(range(n), m)), dtype=np.int64).reshape(-1, m)
    values = linear[chosen].sum(axis=1)
    values += quadratic[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2))
    best = int(values.argmax())
    return float(values[best]), chosen[best]
