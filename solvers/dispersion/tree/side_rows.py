"""Side constraints as the first-order tree reads them: groups with quotas, rows with multipliers, conflicts.

See docs/mathematics/constraints.md. Constraints enter in one of three ways (`SideRows`):

* included and excluded clients are fixed at the root, and the search goes on over the others;
* disjoint groups, quotas first, then conflicts: the linear maximum over them is exact;
* every other row has a multiplier λ ≥ 0, of an augmented Lagrangian at each node. Conflicts that are in no group are
  kept by branching alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.constraints import Constraints
from solvers.dispersion.kernels.tree_data import Sides
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.relaxations.slice_form import SliceForm

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class SideRows:
    """Constraints of a problem as the kernel reads them, over all its clients.

    Attributes
    ----------
    size : int
        Clients to choose.
    group : (n,) ndarray of int
        Group of each client; the last group has no quota.
    low, high : (g,) ndarray of int
        Quotas of the groups.
    rows, limits : (k, n) and (k,) ndarray
        Rows ``a s <= b``, scaled by a power of two so that no coefficient exceeds 1; b is raised by what rounding can
        hide.
    scale : (k,) ndarray
        What each row was multiplied by.
    signs : (k,) ndarray
        1 for the upper limit of a constraint, -1 for its lower one.
    names, group_names : tuple of str
        Of the constraint that each row, and each group, states.
    conflicts : (n, n) ndarray of bool or None
        Pairs of which at most one is chosen.
    """

    size: int
    group: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    rows: NDArray[np.float64]
    limits: NDArray[np.float64]
    scale: NDArray[np.float64]
    signs: NDArray[np.float64]
    names: tuple[str, ...]
    group_names: tuple[str, ...]
    conflicts: NDArray[np.bool_] | None

    @classmethod
    def of(cls, constraints: Constraints) -> SideRows:
        """Sort the rows of a problem's constraints into groups, rows with multipliers, and conflicts."""
        n, m = constraints.n, constraints.size
        group = np.full(n, -1, dtype=np.int64)
        low, high, group_names = list[int](), list[int](), list[str]()
        rows, limits = list[NDArray[np.float64]](), list[float]()
        signs, names = list[float](), list[str]()
        conflicts = None
        by_size = sorted(constraints.rows, key=lambda row: (row.kind != "quota", -row.places.size))
        for row in by_size:
            if row.kind == "conflict":
                conflicts = np.zeros((n, n), dtype=bool) if conflicts is None else conflicts
                conflicts[np.ix_(row.places, row.places)] = True
            if row.kind != "budget" and (group[row.places] == -1).all():
                group[row.places] = len(low)
                low.append(max(int(row.low), 0) if math.isfinite(row.low) else 0)
                high.append(min(int(row.high), m) if math.isfinite(row.high) else m)
                group_names.append(row.name)
            elif row.kind != "conflict":
                dense = row.dense(n)
                for sign, limit in ((1.0, row.high), (-1.0, -row.low)):
                    if math.isfinite(limit) and float(np.sort(sign * dense)[-m:].sum()) > limit:
                        rows.append(sign * dense)
                        limits.append(limit)
                        signs.append(sign)
                        names.append(row.name)
        group[group == -1] = len(low)
        if conflicts is not None:
            np.fill_diagonal(conflicts, False)
        table = np.array(rows).reshape(len(rows), n)
        largest = np.abs(table).max(axis=1, initial=0.0)
        scale = np.ldexp(1.0, -np.frexp(np.where(largest > 0, largest, 1.0))[1])
        table, bound = table * scale[:, None], np.array(limits) * scale
        bound = bound + 8 * (n + 8) * _EPS * (m + np.abs(bound))
        least, most = np.array([*low, 0], dtype=np.int64), np.array([*high, m], dtype=np.int64)
        return cls(
            m, group, least, most, table, bound, scale, np.array(signs), tuple(names), tuple(group_names), conflicts
        )

    def within(self, ids: Clients, ones: Clients, penalty: float = 1.0) -> Sides:
        """Return the kernel's data over ``ids`` beside ``ones``, with a penalty for rows of unit coefficients."""
        taken = np.bincount(self.group[ones], minlength=self.low.size)
        rows = np.ascontiguousarray(self.rows[:, ids])
        limits = self.limits - self.rows[:, ones].sum(axis=1)
        square = (rows**2).mean(axis=1) if ids.size else np.ones(len(rows))
        if self.conflicts is None:
            start, conflict = np.zeros(ids.size + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        else:
            first, conflict = np.nonzero(self.conflicts[np.ix_(ids, ids)])
            start = np.searchsorted(first, np.arange(ids.size + 1)).astype(np.int64)
        return Sides(
            self.group[ids],
            np.maximum(self.low - taken, 0),
            self.high - taken,
            rows,
            limits,
            np.abs(rows).max(axis=1, initial=0.0),
            penalty / np.maximum(square, 1e-3),
            np.argsort(rows, axis=1, kind="stable").astype(np.int64).reshape(rows.shape),
            start,
            conflict.astype(np.int64),
        )

    def exchangeable(self, pairs: Clients) -> NDArray[np.bool_]:
        """Say of pairs (i, j) whether i certainly may take j's place in selections with j and without i."""
        i, j = pairs.T
        fine = (self.group[i] == self.group[j]) & (self.rows[:, i] <= self.rows[:, j]).all(axis=0)
        if self.conflicts is not None:
            more = self.conflicts[i] & ~self.conflicts[j]
            more[np.arange(i.size), j] = False
            fine &= ~more.any(axis=1)
        return np.asarray(fine)


def penalised(sides: Sides, form: SliceForm, linear: Reals) -> Sides:
    """Return constraints with the penalties of the augmented Lagrangian of a form.

    They are the form's curvature over the row's squared coefficients, in the units of `Sides`.
    """
    curvature = -2.0 * float(form.curved.diagonal().mean())
    penalty = max(curvature, DEFAULT_POLICY.linear_penalty * float(np.ptp(linear)), 1e-12)
    return sides._replace(penalty=penalty * sides.penalty)
