"""Runs on another statement of a problem, or on a part of it, that serve the run on the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.problem import Problem
from solvers.registry import find
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP


class SubproblemRun(Run):
    """Run on a problem whose decisions are some of another's, which ends when that one is proved.

    The value of a decision in the whole is its value here and ``constant``, to within ``slack``.

    Parameters
    ----------
    problem : Problem
        The same problem with another geometry, or a part of it.
    whole : Run
        The run on the whole problem: its clock counts, and it receives decisions and bounds.
    slack : float
        As above.
    map_back : callable, optional
        The whole decision of a decision here; the same by default.
    constant : float
        As above.
    outside : float or None
        No decision that is not one of these is worth more. With None a bound says nothing about the whole.
    share : float
        Part of the remaining time to use.
    """

    def __init__(
        self,
        problem: Problem,
        whole: Run,
        slack: float,
        *,
        map_back: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
        constant: float = 0.0,
        outside: float | None = -math.inf,
        share: float = 1.0,
    ) -> None:
        self.whole, self._nodes_before = whole, whole.nodes or 0
        super().__init__(problem, whole.method, None, whole.seed, halt=whole.halt)
        self.rng, self.details = whole.rng, whole.details
        self.slack, self.map_back, self.constant, self.outside = slack, map_back, constant, outside
        self.reserve = (1.0 - share) * whole.remaining if math.isfinite(whole.remaining) else 0.0
        self.is_quick = getattr(whole.problem, "size", 0) <= DEFAULT_POLICY.evaluated_at_once
        if map_back is None and whole.x is not None:
            super().offer(whole.x)

    @property
    def is_part(self) -> bool:
        """Whether the problem leaves clients of the whole out, or in; otherwise it is the same in another geometry."""
        return self.map_back is not None or (isinstance(self.whole, SubproblemRun) and self.whole.is_part)

    @property
    def nodes(self) -> int | None:
        """Search-tree nodes of this run; the whole run counts them beside its own."""
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: int | None) -> None:
        self._nodes = nodes
        if nodes is not None:
            self.whole.nodes = self._nodes_before + nodes

    @property
    def remaining(self) -> float:
        """Seconds left to the whole run, less what it keeps; 0 when it is proved."""
        return 0.0 if self.enough else max(0.0, self.whole.remaining - self.reserve)

    @property
    def counts_work(self) -> bool:
        """As `Run.counts_work`, of the whole run."""
        return self.whole.counts_work

    def spend(self, entries: float) -> None:
        """As `Run.spend`, of the whole run."""
        self.whole.spend(entries)

    @property
    def is_cancelled(self) -> bool:
        """Whether the whole run is ended from outside."""
        return self.whole.is_cancelled

    @property
    def enough(self) -> bool:
        """Whether bound and objective prove the whole problem."""
        if self.objective is None or self.bound is None or self.outside is None:
            return False
        value = self.objective + self.constant
        if self.whole.objective is not None:
            value = max(value, self.whole.objective)
        return self._whole_bound - value <= self.whole.problem.tolerance_at(value, 0.9 * OPTIMALITY_GAP)

    @property
    def _whole_bound(self) -> float:
        assert self.bound is not None
        assert self.outside is not None
        return max(self.bound + self.constant + self.slack, self.outside)

    @contextmanager
    def loading(self, *, is_interruptible: bool = False) -> Iterator[None]:
        """As `Run.loading`, for the whole run's clock, which is the one that counts."""
        with self.whole.loading(is_interruptible=is_interruptible):
            yield

    def offer(self, x: ArrayLike) -> float:
        """As `Run.offer`; what is better goes to the whole run at once where that is cheap."""
        known = self.objective
        value = super().offer(x)
        if self.is_quick and (known is None or value > known):
            self.hand_over()
        return value

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """As `Run.phase`, with objective and bound of the whole run, in its log."""
        with self.whole.phase(name):
            yield

    def note(self, text: str) -> None:
        """As `Run.note`, in the whole run's log."""
        self.whole.note(text)

    def log(self, text: str) -> None:
        """As `Run.log`, in the whole run's log."""
        self.whole.log(text)

    def hand_over(self) -> None:
        """Offer the best decision to the whole run, if it is better there too."""
        if self.x is None or self.objective is None:
            return
        known = self.whole.objective
        if known is None or self.objective + self.constant > known - self.slack:
            self.whole.offer(self.x if self.map_back is None else self.map_back(self.x))

    def tighten(self, bound: float | Fraction, error: float | Fraction = 0.0, *, is_claimed: bool = False) -> None:
        """As `Run.tighten`, for the whole run as well, unless ``outside`` is None."""
        super().tighten(bound, error, is_claimed=is_claimed)
        if self.outside is not None and self.bound is not None:
            self.whole.tighten(self._whole_bound, is_claimed=is_claimed)

    def infeasible(self) -> None:
        """As `Run.infeasible`: nothing is worth more than what is left out, or the whole has no decision either."""
        super().infeasible()
        if self.outside is not None and math.isfinite(self.outside):
            self.whole.tighten(self.outside)
        elif self.outside is not None:
            self.whole.infeasible()


def as_matrix(problem: Any, run: Run, method: str, **options: Any) -> None:
    """Solve a `solvers.dispersion.problem.SelectionProblem` by a method for the matrix of its distances."""
    small = problem.expanded()
    inner = SubproblemRun(small, run, problem.rounding + small.rounding)
    try:
        find(small, method).function(small, inner, **options)
    finally:
        inner.hand_over()
