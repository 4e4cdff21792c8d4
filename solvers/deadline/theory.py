"""The published greedy rule of FedCS."""

from __future__ import annotations

import heapq

import numpy as np

from solvers.deadline.problem import DeadlineProblem


def fedcs_order(problem: DeadlineProblem, *, strict: bool = False) -> list[int]:
    r"""Select by Algorithm 3 of FedCS (Nishio and Yonetani, ICC 2019), in the order in which it selects.

    Again and again the client that adds the least elapsed time, :math:`u_k + \max(0, r_k - \Theta)`, ties by id; it is
    kept where its upload then ends by the deadline. As the elapsed time only grows, the first client that does
    not fit ends the algorithm: nobody who adds more fits either. O(n log n).

    Parameters
    ----------
    problem : DeadlineProblem
        The problem; its values are not looked at.
    strict : bool
        Ask for an end *before* the deadline, as the paper's pseudo-code does, not at it.

    Returns
    -------
    list of int
        Ids of the selected clients.
    """
    ready, upload, deadline, _ = problem.whole
    by_ready = np.argsort(problem.ready, kind="stable").tolist()
    waiting = [(ready[k] + upload[k], k) for k in range(problem.n)]  # ends there if it goes next, once it is ready
    heapq.heapify(waiting)
    present: list[tuple[int, int]] = []  # upload and id of those who are ready
    is_waiting = [True] * problem.n
    chosen: list[int] = []
    # The paper's clock starts with the round; here with whoever is ready first, which changes no difference.
    elapsed, seen = ready[by_ready[0]], 0
    while True:
        while seen < problem.n and ready[by_ready[seen]] <= elapsed:
            k = by_ready[seen]
            seen += 1
            if is_waiting[k]:
                is_waiting[k] = False
                heapq.heappush(present, (upload[k], k))
        while waiting and not is_waiting[waiting[0][1]]:
            heapq.heappop(waiting)
        candidates = [(elapsed + present[0][0], present[0][1])] if present else []
        candidates += waiting[:1]
        if not candidates:
            return chosen
        end, k = min(candidates)
        if end > deadline or (strict and end == deadline):
            return chosen
        if is_waiting[k]:
            is_waiting[k] = False
        else:
            heapq.heappop(present)
        chosen.append(k)
        elapsed = end
