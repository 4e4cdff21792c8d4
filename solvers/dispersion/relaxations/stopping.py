"""Stopping rule of the doubly nonnegative relaxation: when more iterations are not worth their time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation


@dataclass(frozen=True)
class StoppingRule:
    """Rule that judges iterations by the certified bounds after each chunk of them.

    With the best bound b_k after the k-th chunk and the value to beat L, g_k = b_k - L. Typically ::

        g_0 ████████████████████
        g_1 ███████████████          cuts are added every other chunk
        g_2 ████████████
        g_3 ██████████▌
        g_4 ██████████               has_stalled: g_1 - g_4 < 3 · progress · g_4
            ▲ L = 0     ▲ estimate of the limit: where it is above L, near b_4, it has_converged

    Attributes
    ----------
    known : float
        L: iterations end where the bound is no larger.
    iterations : int
        Most iterations.
    memory : int
        Chunks that are looked at.
    progress, least : float
        The bound has stalled where these chunks lower it by no more than this part of the gap for each, on average, and
        this much together.
    clients_per_fresh_cut : int
        The bound is not judged while more than one new cut per so many clients has just been added.
    converged : float
        The bound has converged where less than this part of its gap lies between it and the estimate of its limit.
    hopeless : float
        Iterations end where the estimated limit leaves more than this part of the first gap ...
    tried : int
        ... after so many chunks ...
    under_way : float
        ... unless the last one brought so many times the average one.
    """

    known: float
    iterations: int
    memory: int
    progress: float
    least: float = 0.0
    clients_per_fresh_cut: int = 1
    converged: float = -math.inf
    hopeless: float = math.inf
    tried: int = 0
    under_way: float = 0.0

    @classmethod
    def at_node(cls, policy: Policy, known: float, *, is_root: bool) -> StoppingRule:
        """Return the rule at a node of a tree, which is given up for branching; the root is not."""
        return cls(
            known,
            policy.root_iterations if is_root else policy.node_iterations,
            policy.root_memory if is_root else policy.node_memory,
            policy.root_progress if is_root else policy.node_progress,
            clients_per_fresh_cut=policy.clients_per_fresh_cut,
            converged=policy.converged,
            hopeless=math.inf if is_root else policy.hopeless,
            tried=policy.tried,
            under_way=policy.under_way,
        )

    @classmethod
    def of_bound(cls, policy: Policy, iterations: int, scale: float) -> StoppingRule:
        """Return the rule where the bound itself is wanted, of an objective of this scale."""
        return cls(
            -math.inf,
            iterations,
            policy.dnn_memory,
            0.0,
            least=policy.dnn_progress * scale,
            clients_per_fresh_cut=policy.clients_per_fresh_cut,
        )

    @classmethod
    def over_core(cls, policy: Policy) -> StoppingRule:
        """Return the rule over a core of the clients, whose bound is judged by its own size."""
        return cls(0.0, policy.core_steps, 1, policy.core_progress)

    def ends(self, bests: Sequence[float], fresh: int, relaxation: DNNRelaxation) -> bool:
        """Return whether iterations are to end, by the best bound after each chunk; ``fresh`` cuts have been added."""
        if self._is_hopeless(bests, relaxation):
            return True
        if len(bests) <= max(self.memory, 2) + 1 or fresh > relaxation.n // self.clients_per_fresh_cut:
            return False  # the last gaps say little
        return self._has_converged(bests[-1], relaxation) or self.has_stalled(bests)

    def has_stalled(self, bests: Sequence[float]) -> bool:
        """Return whether the last few chunks have on average taken off no more than a certain part of the gap."""
        part = self.progress * self.memory * abs(bests[-1] - self.known) if self.progress else 0.0
        return bests[-1 - self.memory] - bests[-1] <= part + self.least

    def _is_hopeless(self, bests: Sequence[float], relaxation: DNNRelaxation) -> bool:
        """The estimated limit leaves much of the first gap, and iterations have got under way: branching is better."""
        chunks = len(bests) - 1
        if self.hopeless == math.inf or chunks < self.tried:
            return False
        has_settled = (bests[-2] - bests[-1]) * chunks <= self.under_way * (bests[0] - bests[-1])
        return has_settled and relaxation.estimate() - self.known > self.hopeless * (bests[0] - self.known)

    def _has_converged(self, best: float, relaxation: DNNRelaxation) -> bool:
        """The bound is near the estimate of its limit, which is too large to beat."""
        if self.converged == -math.inf:
            return False
        limit = relaxation.estimate()
        return limit > self.known and best - limit < self.converged * (best - self.known)


def tighten(
    relaxation: DNNRelaxation,
    rule: StoppingRule,
    bounds: list[float],
    expired: Callable[[], bool],
    cuts: int,
    chunk: int,
    *,
    begins_with_cuts: bool = True,
) -> Iterator[float]:
    """Iterate until the bound is at most ``rule.known``, or the rule or the clock ends it.

    Parameters
    ----------
    relaxation : DNNRelaxation
        The relaxation, which changes.
    rule : StoppingRule
        The rule.
    bounds : list of float
        Bounds that it has had; those after each chunk are appended.
    expired : callable
        Whether to stop.
    cuts : int
        Violated cuts added at a time, at most; they are looked for before every other chunk.
    chunk : int
        Iterations between two certified bounds.
    begins_with_cuts : bool
        Whether they are looked for before the first one.

    Yields
    ------
    float
        The best bound, after each chunk.
    """
    if not bounds:
        bounds.append(relaxation.bound())
    bests = list(np.minimum.accumulate(bounds).tolist())
    while bests[-1] > rule.known and relaxation.iterations < rule.iterations and not expired():
        fresh = relaxation.separate(cuts) if cuts and len(bests) % 2 == int(begins_with_cuts) else 0
        relaxation.iterate(min(chunk, rule.iterations - relaxation.iterations), expired)
        bounds.append(relaxation.bound())
        bests.append(min(bests[-1], bounds[-1]))
        yield bests[-1]
        if rule.ends(bests, fresh, relaxation):
            return
