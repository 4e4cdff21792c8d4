"""Tuning constants of dispersion's searches: what `auto` tries, its trees and heuristics, and who works when.

A constant changes how long a proof takes, never whether it is valid: every bound is certified whatever led to it.

All of them were chosen by hand. The date beside a constant is that of the change that set it, and "not swept" means
that no other value was tried on a suite when it was set. ``bench_policy.py`` below ``tests/benchmarks`` varies one at a
time, and docs/benchmarks/policy.md has its table; ``bench_hard.py``, ``bench_dispersion.py`` and
``bench_auto_beside_parts.py`` are what the others were judged by.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Everything that a search decides by and that no theorem says.

    Work is counted in updates of gradient entries: one Frank-Wolfe step at a node of n clients is n of them. Compiled
    nodes do some 150 million a second on one core.
    """

    # -- auto: which stages apply --

    #: Selections that are all evaluated, by `auto` and at a node of the DNN tree, which takes milliseconds. 2026-11-21.
    enumerable: int = 5_000
    #: Clients of a matrix, from which on stages that leave some of them out pay: types, the level-1 RLT bound, its
    #: core. With fewer the trees have proved it before. Points up to as many become a matrix, whose methods need no
    #: compilation for a first answer. 2026-11-23, not swept.
    few_clients: int = 150
    #: The same for clients that are stated by types, whose tree over counts is quicker. Not swept.
    few_clients_of_kinds: int = 60
    #: Clients to a type, on average, from which on counting beats telling them apart. Not swept.
    clients_per_kind: int = 3
    #: Different points that are worth counting, at most, and the clients of which some must share one. Not swept.
    most_kinds: int = 300
    kinds_sample: int = 1_000
    #: Share of the time for the tree over counts, which proves what it can prove at once; its nodes where there is no
    #: limit. Not swept.
    kinds_time_share: float = 0.1
    kinds_nodes: int = 5_000
    #: Clients that the trees take; with more there is a bound of the root alone. As many points under quotas or
    #: conflicts have a matrix made for the tree. Not swept.
    largest_tree: int = 2_000

    #: Pairs that the first-order tree holds non-negative per free client, at most. 2026-11-21.
    products: float = 3.0

    # -- auto: better selections first --

    #: Tabu moves before the trees, and before the level-1 RLT bound: some tens of milliseconds. Not swept.
    tabu_moves: int = 3_000
    #: Under side constraints, moves before the first nodes and between two looks at whether the bound is met: some
    #: milliseconds. Not swept.
    constrained_moves: int = 300
    #: From so many clients on, and with a relative gap of more than this after one shift for all of them, nothing is
    #: proved in a time limit: this share of it goes to better selections first where the other part has time for a DNN
    #: bound, and all where it has not, so that trees would leave the bound as it is. 2026-11-23, uniform distances, n =
    #: 2 000, 20 s: with half, and tabu search before that, `memetic` was ahead by 3e-4 of the objective; the bound was
    #: the same.
    search_from: int = 1_000
    search_gap: float = 0.01
    search_time_share: float = 0.5
    search_slice: int = 1_000

    # -- auto: the level-1 RLT bound and its core --

    #: Clients to one that is chosen from which on the level-1 RLT bound comes before the trees. 2026-11-24, rounds with
    #: ten to one and 150 to 400 clients: 1.2 to 9 times as fast as with 12, which leaves them to the trees, but for one
    #: that takes 40 ms more (docs/benchmarks/policy.md). 2026-11-23, 18 rounds with 30 % of 1 000 clients there: with
    #: 10, and cores for 150 clients and more, 11 were proved in 5 seconds; with 20 and 300, 6.
    rlt_ratio: int = 10
    #: Most clients: the multipliers take 8 n² bytes.
    rlt_largest: int = 6_000
    #: Share of the time for this bound, and of what is then left for the core. 2026-11-23, not swept.
    rlt_time_share: float = 0.3
    core_time_share: float = 0.8
    #: Iterations between two looks at the clock, and those after which a bound that leaves all clients is not worth
    #: further ones before the core. 2026-11-23, not swept.
    rlt_chunk: int = 100
    rlt_first_iterations: int = 300
    #: The core no longer helps where so many in a row close less than this part of the gap each. Not swept.
    idle_cores: int = 3
    idle_core_gain: float = 0.05
    #: The same where another round's multipliers start the core, which is near its end from the first one on.
    #: 2026-11-23, five rounds of 1 000 clients after 55 and 85: a round has .2 to .7 s more for the trees, and smaller
    #: gaps or a proof sooner in all five.
    idle_known_cores: int = 1
    idle_known_core_gain: float = 0.1
    #: Each client has a bound by the relaxation where no more are left: it takes .2 s of 400. 2026-11-23.
    most_bounded: int = 400
    #: Clients of a core that the next round over the same distances begins with. 2026-11-23, not swept.
    core_kept: int = 200

    # -- bounds as methods --

    #: Rounds of products held non-negative that are violated, of `sdp` and under side constraints of `dnn`; pairs per
    #: client that one of them adds. Not swept.
    separations: int = 4
    separated_pairs: int = 2
    #: Seconds below which not even some steps of `sdp` and the certificate fit, in units of n³. 2026-11-21.
    least_sdp_seconds: float = 3e-9
    #: Most clients of `dnn`: an iteration takes some n³ / 5e9 seconds. Not swept.
    dnn_largest: int = 3_000
    #: `dnn` ends when a hundred iterations lower the bound by less than this part of the objective's scale. Not swept.
    dnn_progress: float = 1e-6
    #: Seconds that a certificate takes, in units of n³, until it has been measured; seconds below which a uniform shift
    #: gives the better bound, in the same units: some 25 iterations. 2026-11-21.
    certificate_seconds: float = 4e-10
    least_dnn_seconds: float = 5e-9

    # -- points --

    #: Selections of up to this many clients are evaluated in the whole as they are found in a subproblem, larger ones
    #: at the end. Not swept.
    evaluated_at_once: int = 3_000

    #: Clients of a small problem with a matrix: those on the wrong side of the threshold, and those nearest to it; and
    #: where the trees are left too many. Types of clients have about as many. Not swept.
    nearest: int = 600
    nearest_at_last: int = 2_000
    #: Clients whose mean distance says how far out a client lies. Not swept.
    point_sample: int = 64
    #: Candidates of the greedy selection, at least, and the batches in which clients are added. Not swept.
    candidates: int = 4_096
    greedy_batches: int = 512
    #: Tabu moves in a small problem, and small problems one after the other. Not swept.
    nearest_moves: int = 5_000
    nearest_rounds: int = 20
    #: A smaller problem of points is worth its own relaxation when it leaves out this share of the clients. Not swept.
    shrunk_points: float = 0.8
    #: Points under side constraints up to which all distances are stored: 128 MB. Not swept.
    points_stored: int = 4_000
    #: Changes of the rows' prices, climbs for each, and a relative gap below which no further price pays. Not swept.
    pricings: int = 30
    climbs: int = 6
    pricing_gap: float = 1e-5
    #: Changes of the prices after which the bound has to be lower by this share of the gap, else swaps go on. Not
    #: swept.
    pricing_memory: int = 4
    pricing_progress: float = 0.02
    #: Steps of Frank-Wolfe that find where to round from under side constraints, and their share of a limit. Not swept.
    first_steps: int = 12
    first_steps_time_share: float = 0.4

    # -- tabu search and populations --

    #: Proposed swaps of annealing between two looks at the clock, at most. Not swept.
    annealing_slice: int = 20_000

    #: Entries of the gains that one call of tabu search may update, some 50 ms, and gains that are looked at in the
    #: time of one such update under side constraints. 2026-11-21.
    tabu_work: int = 2_000_000
    looks_to_update: int = 8
    #: Steps that Python makes for a move, beside some for each client, where nothing is compiled. 2026-11-22.
    move_steps: int = 200
    #: Moves of tabu search, and children of a population, where there is neither a time limit nor a number. Not swept.
    endless_moves: int = 200_000
    endless_generations: int = 300
    #: Parents that differ in fewer clients have a child that is changed by some random swaps as well. Not swept.
    alike_parents: int = 4
    #: A population whose last children, so many times its members, were all rejected has collapsed. Not swept.
    rejected: int = 3
    #: Moves of tabu search without improvement, for each client and at least, after which a population takes over. Not
    #: swept.
    stalled: int = 20
    stalled_least: int = 10_000
    #: Populations one after the other without a better selection after which the search ends before its time. Not
    #: swept.
    stagnant: int = 50

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

    #: Iterations between two certified bounds; most of them at a node, and at the root. 2026-11-22.
    chunk: int = 20
    node_iterations: int = 120
    root_iterations: int = 1_000
    #: Chunks of the root between two looks at which clients can be left out, and the part of them that may at most stay
    #: for it to be worth a start with fewer. 2026-11-23.
    shrinking: int = 5
    shrunk: float = 0.9
    #: Violated cuts added at once, per free client; 2026-11-21. The bound is not judged while more than one new cut per
    #: so many clients has just been added; 2026-11-21.
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
    #: Seconds of an ADMM iteration, in units of n³, until a longer one is measured, which is done from so many clients;
    #: the time of so many iterations is kept back for the certificate. 2026-11-21.
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
