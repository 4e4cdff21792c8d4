"""Nodes of the strong tree: the doubly nonnegative relaxation, what it fixes, what it leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.relaxations.doubly_nonnegative import Relaxation, WarmStart
from solvers.dispersion.relaxations.slice_form import Normal, SliceForm

__all__ = ["Node", "Outcome", "Setting", "examine"]

#: Selections that are enumerated instead of relaxed.
_ENUMERABLE = 5_000

#: Iterations between two looks at the bound; most of them at a node, and at the root.
CHUNK, _MOST, _MOST_ROOT = 20, 120, 1_000

#: A node goes on while the gap falls by this share a look, over so many looks: a start from the parent's has
#: the parent's bound, which the first iterations do not improve.
_PROGRESS, _BACK = 0.1, 3
_PROGRESS_ROOT, _BACK_ROOT = 0.02, 5

#: A node is split after so many looks if the relaxation is about to leave this part of its first gap, unless the last
#: look has brought so many times what they bring on average: then the iteration has only just got under way.
_TRIED, _FAR, _UNDER_WAY = 2, 0.15, 1.5

#: Cuts added at once, per free client.
_CUTS = 5


@dataclass(frozen=True)
class Node:
    """An open sub-problem: who is free (sorted), who is chosen, a bound, and a relaxation to start from.

    ``paused`` is the node's own relaxation, with the bounds it has had, where it was left before it was done.
    """

    ids: NDArray[np.int64]
    ones: NDArray[np.int64]
    bound: float
    warm: WarmStart | None = None
    paused: tuple[Relaxation, list[float]] | None = None


@dataclass(frozen=True)
class Setting:
    """What all nodes of a tree share.

    Attributes
    ----------
    normal : Normal
        The problem.
    dominated : (k, 2) ndarray of int
        Pairs (i, j): some best selection that contains j contains i.
    group : (g, n) ndarray of int or None
        Permutations of the clients that change nothing, closed under composition.
    """

    normal: Normal
    dominated: NDArray[np.int64]
    group: NDArray[np.int64] | None = None


@dataclass
class Outcome:
    """What became of a node: a bound on what is left, its children (none: closed), selections found, iterations."""

    bound: float
    children: list[Node] = field(default_factory=list)
    selections: list[NDArray[np.int64]] = field(default_factory=list)
    iterations: int = 0


def examine(
    setting: Setting,
    node: Node,
    target: float,
    expired: Callable[[], bool],
    progress: Callable[[float], None] = lambda bound: None,
) -> Outcome:
    """Bound a node, and close or split it.

    Parameters
    ----------
    setting : Setting
        The problem.
    node : Node
        The node.
    target : float
        Selections of at most this value are of no interest.
    expired : callable
        Whether to stop; the outcome is valid all the same.
    progress : callable
        Told of every better bound on the way.
    """
    normal, ids, ones = setting.normal, node.ids, node.ones
    m = normal.size - ones.size
    if m < 0 or m > ids.size:
        return Outcome(-math.inf)
    quadratic = np.ascontiguousarray(normal.quadratic[np.ix_(ids, ids)])
    linear = normal.linear[ids] + 2 * normal.quadratic[np.ix_(ids, ones)].sum(axis=1)
    constant = float(normal.linear[ones].sum() + normal.quadratic[np.ix_(ones, ones)].sum())
    constant += 2 * normal.error  # rounding of these sums
    if m <= 1 or math.comb(ids.size, m) <= _ENUMERABLE:
        value, best = _enumerate(quadratic, linear, m)
        return Outcome(min(node.bound, constant + value), selections=[np.sort(np.concatenate([ones, ids[best]]))])
    known = target - constant
    if node.paused is not None:
        relaxation, values = node.paused
    else:
        relaxation, values = Relaxation(quadratic, linear, m, _inherited(node)), []
        if node.warm is not None:
            relaxation.start(node.warm, ids, ones)
    before = relaxation.iterations
    approach(
        relaxation,
        known,
        expired,
        lambda better: progress(min(node.bound, constant + better)),
        values,
        root=node.warm is None,
    )
    outcome = Outcome(min(node.bound, constant + min(values)), iterations=relaxation.iterations - before)
    if outcome.bound <= target:
        return outcome
    x = np.clip(relaxation.x, 0.0, 1.0)
    outcome.selections.append(np.sort(np.concatenate([ones, ids[np.argsort(-x, kind="stable")[:m]]])))
    if expired():
        outcome.children = [Node(ids, ones, outcome.bound, node.warm, (relaxation, values))]
        return outcome
    relaxation.forbid(relaxation.bound() - known)  # of these multipliers, not of the best ones on the way
    state, better = fix(relaxation.form(), onto_slice(x, m), known, relaxation.forbidden, _among(setting, ids))
    outcome.bound = min(outcome.bound, constant + better)
    if state is None:
        outcome.bound = min(outcome.bound, target)
    else:
        outcome.children = _split(setting, relaxation, node, state, x, outcome.bound)
    return outcome


def approach(
    relaxation: Relaxation,
    known: float,
    expired: Callable[[], bool],
    progress: Callable[[float], None],
    values: list[float],
    *,
    root: bool,
) -> None:
    """Iterate until the bound passes ``known``, stagnates, or has cost enough; append the bounds to ``values``."""
    if not values:
        values.append(relaxation.bound())
    gaps = list(np.minimum.accumulate(values) - known)
    best = gaps[-1] + known
    most, back, share = (_MOST_ROOT, _BACK_ROOT, _PROGRESS_ROOT) if root else (_MOST, _BACK, _PROGRESS)
    while best > known and relaxation.iterations < most and not expired():
        due = len(gaps) % 2 == (1 if root else 0)
        fresh = relaxation.separate(_CUTS * relaxation.n) if due else 0
        relaxation.iterate(CHUNK, expired)
        values.append(relaxation.bound())
        if values[-1] < best:
            best = values[-1]
            progress(best)
        gaps.append(best - known)
        looks, slow = len(gaps) - 1, (gaps[-2] - gaps[-1]) * (len(gaps) - 1) <= _UNDER_WAY * (gaps[0] - gaps[-1])
        if not root and looks >= _TRIED and slow and relaxation.estimate() - known > _FAR * gaps[0]:
            break  # it will not be closed: the sooner it is split, the better
        if len(gaps) <= max(back, 2) + 1 or fresh > relaxation.n // 4:
            continue
        estimate = relaxation.estimate()
        if estimate > known and best - estimate < 0.3 * (best - known):
            break
        if gaps[-1 - back] - gaps[-1] < share * back * gaps[-1]:
            break


def fix(
    form: SliceForm,
    point: NDArray[np.float64],
    known: float,
    forbidden: NDArray[np.bool_],
    dominated: NDArray[np.int64],
) -> tuple[NDArray[np.int8] | None, float]:
    """Who can be fixed (1 chosen, 2 left out) by reduced costs, forbidden pairs and dominance; and the tangent's bound.

    ``None`` instead when nothing worth finding is left.
    """
    n, m = form.linear.size, form.size
    state = np.zeros(n, dtype=np.int8)
    gradient = form.linear + 2 * (form.curved @ point)
    value = form.tangent(point)
    room = value - known
    if room <= 0:
        return None, value
    order = np.sort(gradient)
    state[gradient - order[n - m - 1] >= room * (1 + 1e-9)] = 1
    state[order[n - m] - gradient >= room * (1 + 1e-9)] = 2
    while True:
        before = state.copy()
        chosen, free = state == 1, state == 0
        left = m - int(chosen.sum())
        if left < 0 or left > int(free.sum()) or forbidden[np.ix_(chosen, chosen)].any():
            return None, value
        companions = (~forbidden[:, free]).sum(axis=1) - 1
        state[free & (forbidden[chosen].any(axis=0) | (companions < left - 1))] = 2
        if len(dominated):
            first, second = dominated.T
            if (state[second[state[first] == 2]] == 1).any():
                return None, value
            state[first[state[second] == 1]] = 1
            state[second[state[first] == 2]] = 2
        if np.array_equal(state, before):
            return state, value


def onto_slice(x: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """A point of the slice near ``x``, which lies in [0, 1]."""
    total = float(x.sum())
    if total > m:
        return x * (m / total)
    return x + (1 - x) * ((m - total) / max(x.size - total, 1e-300))


def _split(
    setting: Setting,
    relaxation: Relaxation,
    node: Node,
    state: NDArray[np.int8],
    x: NDArray[np.float64],
    bound: float,
) -> list[Node]:
    """Two children, on the free client with the largest x and whoever a symmetry makes of it; one, if all is fixed.

    Leaving a client out gains the more, the larger its x, and choosing it the less; where m is not small against n the
    most fractional client gains least on both sides together.
    """
    ids = node.ids
    warm = relaxation.warm(ids)
    free = state == 0
    ones = np.concatenate([node.ones, ids[state == 1]])
    if not free.any():
        return [Node(ids[free], ones, bound, warm)]
    pick = int(np.where(free, x, -1.0).argmax())
    orbit = np.isin(ids, _orbit(setting.group, int(ids[pick]), ids[free], ones, setting.normal.linear.size))
    rest = free & ~orbit
    without = Node(ids[rest], ones, bound, warm)
    rest = free & ~relaxation.forbidden[pick]
    rest[pick] = False
    return [Node(ids[rest], np.append(ones, ids[pick]), bound, warm), without]


def _orbit(
    group: NDArray[np.int64] | None, client: int, free: NDArray[np.int64], ones: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Where the symmetries that keep the chosen and the free clients among themselves take ``client``."""
    if group is None:
        return np.array([client])
    label = np.zeros(n, dtype=np.int8)
    label[free], label[ones] = 1, 2
    kept = (label[group] == label).all(axis=1)
    return np.unique(group[kept, client])


def _inherited(node: Node) -> NDArray[np.bool_] | None:
    if node.warm is None:
        return None
    kept = np.searchsorted(node.warm.ids, node.ids)
    return node.warm.forbidden[np.ix_(kept, kept)]


def _among(setting: Setting, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The dominated pairs among ``ids``, in their own numbers."""
    place = np.full(setting.normal.linear.size, -1, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    pairs = place[setting.dominated]
    return pairs[(pairs >= 0).all(axis=1)]


def _enumerate(quadratic: NDArray[np.float64], linear: NDArray[np.float64], m: int) -> tuple[float, NDArray[np.int64]]:
    """The best of all selections of m."""
    n = linear.size
    chosen = np.array(list(itertools.combinations(range(n), m)), dtype=np.int64).reshape(math.comb(n, m), m)
    values = linear[chosen].sum(axis=1)
    values += quadratic[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2))
    best = int(values.argmax())
    return float(values[best]), chosen[best]
