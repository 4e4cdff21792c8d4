"""Multipliers of level-1 RLT bounds, as a log in whole numbers as `solvers.certificates.exact.rlt` reads them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate, check
from solvers.certificates.exact.concave import Rounded
from solvers.certificates.exact.rlt import COLUMNS, left_by_rows, row_values
from solvers.certificates.schema import HALVINGS
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.tree.certificate_builder import CertificateBuilder, narrow, one_after_the_other
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP

#: Factors of squares have so many bits; what rounding them costs is some millionths of the bound.
_ROOT_BITS = 23

#: Squares whose part of the largest is smaller are left out.
_LEAST_SQUARE = 1e-10

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class RltMultipliers:
    """One bound's multipliers, in units of the objective; factors in the square root of these units."""

    ids: Integers
    prices: Reals
    core: Integers
    factor: Reals
    first: Integers
    second: Integers
    moved: Reals


class RltLog:
    """The multipliers of one bound after the other, each over the clients that those before leave.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    """

    def __init__(self, problem: DispersionProblem) -> None:
        self.problem = problem
        self.stages: list[RltMultipliers] = []

    def add(self, rows: RowRelaxation, embedding: Reals | None = None, slack: Reals | None = None) -> None:
        """Keep the multipliers of a relaxation; those of a raised one with M = E slack Eᵀ over its clients."""
        first, second, moved = rows.moves()
        factor, raised, none = rows.scaled.factor, rows.raised, np.zeros(0)
        ids, core, prices, roots = none.astype(np.int64), none.astype(np.int64), none, none
        if raised is not None:
            assert embedding is not None
            assert slack is not None
            values, vectors = np.linalg.eigh(slack)
            kept = np.flatnonzero(values > _LEAST_SQUARE * values[-1])[-COLUMNS:]
            roots = (embedding @ vectors[:, kept]) * np.sqrt(values[kept] / factor)
            ids, core, prices = raised.ids, raised.ids[raised.is_core], raised.prices / (2 * factor)
        self.stages.append(RltMultipliers(ids, prices, core, roots, first, second, moved / factor))

    def certificate(self, run: Run) -> Certificate | None:
        """State the stages with the least goal that they prove; None without a stage that helps, or time.

        Parameters
        ----------
        run : Run
            Has the incumbent, and the time limit.

        Returns
        -------
        Certificate or None
            Its bound is the one that it proves.
        """
        limit, seconds = run.time_limit, DEFAULT_POLICY.multipliers_seconds * self.problem.n**2 * len(self.stages)
        if run.x is None or (limit is not None and seconds > DEFAULT_POLICY.multipliers_time_share * limit):
            return None
        builder, kept = CertificateBuilder(self.problem), list[RltMultipliers]()
        left, goal = np.arange(self.problem.n), 1 << 61
        data, size = builder.data, self.problem.size
        least, best = cutoff(self.problem, run.x, data), -1
        for stage in self.stages:
            if left.size <= size:
                break
            values = row_values(data, wide(self._arrays([stage], builder.grid)), 0, left)
            bound, fewer = int(np.sort(values)[-size:].sum()), left_by_rows(left, values, size, least)
            if max(bound, least) < goal:
                best, goal = len(kept), max(bound, least)
            if fewer.size < left.size or best == len(kept):
                left, kept = fewer, [*kept, stage]
        if not kept:
            return None
        found = builder.certificate(sys.float_info.max, goal, 1, [])
        found = replace(found, kind="rlt", arrays=dict(found.arrays) | self._arrays(kept, builder.grid))
        return replace(found, bound=check(self.problem, found))

    def _arrays(self, stages: list[RltMultipliers], grid: int) -> dict[str, NDArray[np.int64]]:
        parts: dict[str, list[Integers]] = {name: [] for name in ("ids", "price", "core", "factor", "moved")}
        halvings = []
        for stage in stages:
            largest = float(np.abs(stage.factor).max(initial=0.0))
            # The largest factor takes _ROOT_BITS where h is this; the root of 2^(h - grid) need not be a whole number.
            h = 2 * (_ROOT_BITS - math.frexp(largest)[1]) + grid if largest > 0 else 0
            h = min(max(h, 0), HALVINGS)
            halvings.append(h)
            moved = np.rint(np.ldexp(stage.moved, -grid)).astype(np.int64)
            works = moved != 0
            triples = np.column_stack([stage.first[works], stage.second[works], moved[works]])
            parts["ids"].append(stage.ids)
            parts["price"].append(np.rint(np.ldexp(stage.prices, -grid)).astype(np.int64))
            parts["core"].append(stage.core)
            parts["factor"].append(np.rint(stage.factor * 2.0 ** ((h - grid) / 2)).astype(np.int64).ravel())
            parts["moved"].append(triples.astype(np.int64).ravel())
        arrays = {"stage_halvings": np.array(halvings, dtype=np.int64)}
        for name, each in parts.items():
            arrays |= one_after_the_other(f"stage_{name}", each)
        return {name: narrow(array) for name, array in arrays.items()}


def cutoff(problem: DispersionProblem, x: Integers, data: Rounded) -> int:
    """Return a goal that proves a decision optimal, in the units of the rounded problem."""
    enough = problem.tolerance_at(problem.objective(x), 0.5 * OPTIMALITY_GAP)
    return data.value(np.flatnonzero(x).tolist()) + int(enough / data.unit)


def left_by_rlt(certificate: Certificate, data: Rounded, goal: int) -> Integers:
    """Return the clients that the stages of a certificate leave for a goal."""
    left, arrays = np.arange(data.cost.size), wide(certificate.arrays)
    for stage in range(arrays["stage_halvings"].size):
        if left.size > data.size:
            left = left_by_rows(left, row_values(data, arrays, stage, left), data.size, goal)
    return left


def with_rlt(found: Certificate, stages: Certificate) -> Certificate:
    """Return a search over the clients that another certificate's stages leave, with these before it."""
    named = {name: array for name, array in stages.arrays.items() if name.startswith("stage_")}
    return replace(found, kind="rlt", arrays=dict(found.arrays) | named)


def wide(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Integers]:
    """Return the arrays of a certificate as 64 bits each, as its checker has them."""
    return {name: array.astype(np.int64) for name, array in arrays.items()}
