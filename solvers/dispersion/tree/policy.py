"""Tuning constants of the branch-and-bound trees and of the portfolio that shares the work between them.

A constant changes how long a proof takes, never whether it is valid: every bound is certified whatever led to it.

All of them were chosen by hand, none was swept: no table of sensitivities exists. The date beside a constant is that of
the change that set it. ``bench_hard.py``, ``bench_dispersion.py`` and ``bench_auto_beside_parts.py`` below
``tests/benchmarks`` are what they were judged by, and show what another value does.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_POLICY", "Policy"]


@dataclass(frozen=True)
class Policy:
    """Everything that the trees decide by and that no theorem says.

    Work is counted in updates of gradient entries: one Frank-Wolfe step at a node of n clients is n of them. Compiled
    nodes do some 150 million a second on one core.
    """

    # -- portfolio: who works when --

    #: A gap of more than this, times the problem's scale and (100 / n)², is too wide for cheap nodes: the root of the
    #: DNN tree comes first, alone. 2026-11-22, when the wide gap was first told from the narrow one.
    wide_gap: float = 0.02
    #: The first-order tree has stalled once it has so many times the open problems that its first spell left; rounds of
    #: federations have fewer from the first spell on. 2026-11-22.
    stall_growth: float = 1.5
    #: The same where the search is written down: its log is a certificate at no cost, which DNN nodes are not. Twice
    #: the other since 2026-11-22.
    stall_growth_recording: float = 3.0
    #: Seconds that the first DNN bound takes, in units of n³; with less time left the DNN tree is not begun.
    #: 2026-11-22.
    first_dnn_bound: float = 6e-9
    #: A gap so many times the other tree's counts as no more than that, so that neither waits for ever. 2026-11-22.
    largest_gap_ratio: float = 100.0
    #: Share of the heuristic, and the first-order tree's work after which it takes part, some 0.2 s. 2026-11-22: a
    #: fifth, which was a tenth, where selections were still found late.
    heuristic_share: float = 0.2
    heuristic_from: int = 20_000_000
    #: Its share where half of all work, and so much at least, has brought no better selection. 2026-11-22.
    idle_heuristic_share: float = 0.1
    idle_heuristic_from: int = 200_000_000
    #: Work before another's turn: iterations of the DNN root, moves of the heuristic. 2026-11-22.
    dnn_slice: int = 40
    heuristic_slice: int = 500
    #: Work that an ADMM iteration counts as, in units of n³ and of n², and a tabu move, in units of n: ratios of
    #: measured times. 2026-11-22; the move's again when tabu search began to read rows only.
    iteration_cubic: float = 0.02
    iteration_square: float = 4.0
    move_work: int = 2

    # -- first-order tree --

    #: Work between two looks at the queue and at the clock: some 0.1 s. 2026-11-22; it was 30 million before.
    spell: int = 15_000_000
    #: Work that Python does at a time where nothing is compiled yet, and the interpreter's steps that it takes for each
    #: update. 2026-11-22.
    interpreted_spell: int = 20_000
    interpreted_steps: int = 20
    #: A node is solved until its bound is within this part of its distance to the incumbent. 2026-11-21.
    node_accuracy: float = 0.2
    #: Up to so many clients the semidefinite relaxation takes a fraction of a second and comes first. 2026-11-21.
    small_problem: int = 300
    #: Seconds that a relaxation takes, in units of n³: it is left out where the clock does not allow it. 2026-11-22.
    relaxation_seconds: float = 1.2e-8
    #: Part of the remaining time that is risked on a relaxation of the whole problem. 2026-11-22.
    root_time_share: float = 0.25
    #: A subproblem of fewer free clients gets no multipliers of its own. 2026-11-21.
    fewest_relaxed: int = 12
    #: Relaxations take at most so many times the work of nodes, so that a search never takes much longer than without
    #: any. 2026-11-22.
    relaxation_ratio: int = 3
    #: Work of a relaxation with k active products: a constant, and so many times n² (n + k). 2026-11-22.
    relaxation_start: int = 1_000_000
    relaxation_each: int = 3

    # -- nodes of the DNN tree --

    #: At a node of at most so many selections all are tried, which takes milliseconds. 2026-11-21.
    enumerable: int = 5_000
    #: Iterations between two certified bounds; most of them at a node, and at the root. 2026-11-22.
    chunk: int = 20
    node_iterations: int = 120
    root_iterations: int = 1_000
    #: Chunks of the root between two looks at which clients can be left out, and the part of them that may at most stay
    #: for it to be worth a start with fewer. 2026-11-23.
    shrinking: int = 5
    shrunk: float = 0.9
    #: Violated cuts added at once, per free client; 2026-11-21. The bound is not judged while more than one new cut
    #: per so many clients has just been added; 2026-11-21.
    cuts: int = 5
    clients_per_fresh_cut: int = 4
    #: The bound has stalled where the last so many chunks lowered the gap by less than this part of it each. A node
    #: starts from its parent's bound, which its first iterations do not improve. 2026-11-22.
    node_progress: float = 0.1
    node_memory: int = 3
    root_progress: float = 0.02
    root_memory: int = 5
    #: The bound has converged where less than this part of its gap lies between it and the estimate of its limit.
    #: 2026-11-21.
    converged: float = 0.3
    #: A node is given up after so many chunks where the estimated limit leaves more than this part of its first gap,
    #: unless the last chunk brought so many times the average one. 2026-11-22.
    tried: int = 2
    hopeless: float = 0.15
    under_way: float = 1.5
    #: Nodes processed before their results are merged, whatever the number of threads: the answer does not depend on
    #: it. 2026-11-21.
    batch: int = 4
    #: Seconds of an ADMM iteration, in units of n³, until a longer one is measured, which is done from so many
    #: clients; the time of so many iterations is kept back for the certificate. 2026-11-21.
    iteration_seconds: float = 3e-10
    timed_from: int = 200
    reserved_iterations: int = 3

    def relaxation_work(self, n: int, products: int) -> int:
        """Work that a semidefinite relaxation of n clients with so many active products counts as."""
        return self.relaxation_start + self.relaxation_each * n * n * (n + products)

    def iteration_work(self, n: int) -> float:
        """Work that an ADMM iteration of the DNN relaxation over n clients counts as."""
        return self.iteration_cubic * n**3 + self.iteration_square * n**2

    def seconds_of_dnn(self, n: int) -> float:
        """Seconds that the first DNN bound over n clients takes."""
        return self.first_dnn_bound * n**3


#: The policy of the methods.
DEFAULT_POLICY = Policy()
