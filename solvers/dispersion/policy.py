"""Tuning constants of dispersion's searches: what `auto` tries, its trees and heuristics, and who works when.

A constant changes what is found and how long it takes, not whether a bound is valid.

They were chosen by hand, or are ratios of measured times. The date beside a constant is that of the change that set it,
and "not swept" means that no other value was tried on a suite when it was set. ``bench_policy.py`` below
``tests/benchmarks`` varies some of them, one at a time, and docs/benchmarks/policy.md has its table; ``bench_hard.py``,
``bench_dispersion.py``, ``bench_few_of_many.py`` and ``bench_auto_beside_parts.py`` are what others were judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """What searches decide by and no theorem says.

    Work is counted in updates of gradient entries: one Frank-Wolfe step at a node of n clients is n of them. Compiled
    nodes do some 150 million a second on one core.
    """

    # -- auto: which stages apply --

    #: Selections that are all evaluated, by `auto` and at a node of the DNN tree, which takes milliseconds. 2026-11-21.
    enumerable: int = 5_000
    #: Clients of a matrix, from which on stages before the trees pay: types, quadratic fixing, the level-1 RLT bound,
    #: its core. With fewer the trees have mostly proved it before. Points up to as many become a matrix, whose methods
    #: need no compilation for a first answer. 2026-11-23, not swept.
    few_clients: int = 150
    #: The same for clients that are stated by types, whose tree over counts is quicker. Not swept.
    few_clients_of_kinds: int = 60
    #: Clients to a type, on average, from which on counting beats telling them apart. Not swept.
    clients_per_kind: int = 3
    #: Different points that are worth counting, at most, and points of the sample of many that is looked at first, up
    #: to twice as many. Not swept.
    most_kinds: int = 300
    kinds_sample: int = 1_000
    #: Share of the time for the tree over counts, which proves what it can prove at once, and its nodes at most. Not
    #: swept.
    kinds_time_share: float = 0.1
    kinds_nodes: int = 5_000
    #: Seconds between two looks of that tree at the clock, and its open nodes, at most: with depth first there are
    #: about as many as a branch is deep. Not swept.
    kinds_seconds: float = 0.05
    kinds_stack: int = 5_000
    #: Where work is limited instead of time: nodes between two looks, and work of a node for each type. Not swept.
    kinds_spell: int = 50
    kinds_node_work: int = 100
    #: Up to so many types the costs of each are sorted by themselves, which takes a tenth of the time. Not swept.
    kinds_sorted_apart: int = 500
    #: Clients that the trees take; with more there is a bound of the root alone. As many points under quotas or
    #: conflicts have a matrix made for the tree. Not swept.
    largest_tree: int = 2_000

    #: Entries of the table of longest paths on a line, at most (8 bytes each), and blocks of a matrix of distances that
    #: are compared with it where there is no clock to stop a longer look. Not swept.
    line_table: int = 20_000_000
    line_looks: int = 40

    #: Pairs that the first-order tree holds non-negative per free client, at most. 2026-11-21.
    products: float = 3.0

    # -- auto: better selections first --

    #: Tabu moves before quadratic fixing, the level-1 RLT bound and the trees: some tens of milliseconds. Not swept.
    tabu_moves: int = 3_000
    #: Under side constraints, moves before the first nodes and between two looks at whether the bound is met: some
    #: milliseconds. Not swept.
    constrained_moves: int = 300
    #: From so many clients on, and with a relative gap of more than this after one shift for all of them, hardly
    #: anything is proved in a time limit: this share of it goes to better selections first where the other part has
    #: time for a DNN bound, and all where it has not, so that trees would leave the bound as it is. 2026-11-23, uniform
    #: distances, n = 2 000, 20 s: with half, and tabu search before that, `memetic` was ahead by 3e-4 of the objective;
    #: the bound was the same.
    search_from: int = 1_000
    search_gap: float = 0.01
    search_time_share: float = 0.5
    search_slice: int = 1_000

    #: After quadratic fixing, with a relative gap of more than this, so many moves of a memetic search, for this share
    #: of the time at most. 2026-11-28, ten random Q of 400 clients, 40 to choose, 3 s: without it
    #: `memetic` was ahead in three of them, with it in none. Not swept.
    far_search_gap: float = 0.1
    far_search_moves: int = 100_000
    far_search_time_share: float = 0.1

    # -- auto: a short search, and quadratic fixing --

    #: Entries of the matrix that a first-order tree reads before quadratic fixing, and before the multipliers of
    #: products, on the clients that are left then. 2026-11-24, 34 recorded rounds that were proved within a second
    #: before these stages were there: none takes more than 1.6 times as long; without a short search six took 12 to 150
    #: times as long.
    short_search: float = 4e7
    products_search: float = 8e7

    #: Most clients, as a bound takes 24 n² bytes; and its seconds, in units of n³, which the clock has to allow.
    #: 2026-11-24.
    fixing_largest: int = 4_000
    fixing_seconds: float = 6e-11
    #: Most clients where a certificate is wanted: what both checkers read, the one file in some 35 s. 2026-11-24.
    fixing_certified: int = 2_048
    #: Weight of the penalty and sweeps of the low-rank multipliers: the next ones where these fix too few. 2026-11-24:
    #: twenty sweeps with .1 are as good as eighty in rounds of FedGS, drawn and played, but for two with two labels a
    #: client, which want more of them; between points, where many of n choose none, the price does not settle but with
    #: .2.
    fixing_tries: tuple[tuple[float, int], ...] = ((0.1, 20), (0.2, 20), (0.05, 80))
    #: Part of the clients to choose by which the fractional solution's sum may be off: where it is off by less, and
    #: hardly anything is fixed, other multipliers of the diagonal will not fix much either. Not swept.
    fixing_settled: float = 0.01
    #: Shifts of the multipliers, in units of their mean, from large to small. 2026-11-24, the same rounds: the best
    #: single one was 3e-4 to 3e-3.
    fixing_shifts: tuple[float, ...] = (1e-2, 2e-3, 5e-4, 1e-4)
    #: Part of the clients that has to be fixed for another pass over those that are left. Not swept.
    fixing_least: float = 0.02
    #: Multipliers of products are for more clients than this, which trees take longer for; sweeps before and after
    #: their steps, steps between two bounds, their length in units of the largest distance, the part by which the gap
    #: has to fall for more of them, and the share of the time. 2026-11-24, a played round of 1 000 clients: after 240
    #: steps of .003, .01 and .03 the gap was .53, .17 and .13 %; with 300 clients, .1 left more than .03.
    fixing_few: int = 60
    #: Clients to one that is chosen, at most, for multipliers of products: with 20 and more the level-1 RLT bound and
    #: its core get further. 2026-11-24, six rounds of 300 to 1 000 clients, 3 s.
    fixing_ratio: int = 15
    fixing_sweeps: int = 40
    fixing_steps: int = 80
    fixing_step: float = 0.03
    fixing_progress: float = 0.1
    fixing_time_share: float = 0.7
    #: Work of a bound, in units of n³, and of a sweep, in units of n² √(2n): ratios of measured times, 1 000 clients.
    #: 2026-11-24.
    fixing_work: float = 0.0075
    fixing_sweep_work: float = 0.008
    #: Counts of groups: different entries of a row of distances, at most (whole labels give four to ten), pairs of
    #: clients that groups do not tell, at most, and work in units of n². 2026-11-28, two labels a client, 2 000
    #: clients: 144 and 6 255 pairs took .1 and .15 s.
    groups_values: int = 64
    groups_rests: int = 10_000
    groups_work: float = 30.0
    #: What is left, up to so many clients, is closed by doubly nonnegative multipliers with cuts and a search below
    #: their form: iterations between two bounds, shifts of these and of the search in units of the largest distance,
    #: the part to which the gap has to fall within so many bounds, the share of the time. 2026-11-24, rounds of 500 and
    #: 1 000 clients, played: shifts of 5e-4 in the search took up to eleven times as many nodes. The search has as many
    #: operations as the multipliers; while these take the gap to the part `fixing_again` and less within
    #: `fixing_falling` bounds, the square of this share of them, and the share where the gap has fallen as much since
    #: the last such search. 2026-11-27, rounds with two labels a client: with as many from the
    #: start it took four of five seconds, for nothing.
    fixing_closed: int = 600
    fixing_chunk: int = 50
    fixing_form_shifts: tuple[float, ...] = (6e-3, 2e-3, 5e-4)
    fixing_search_shift: float = 2e-3
    fixing_fall: float = 0.95
    fixing_patience: int = 8
    fixing_again: float = 0.9
    fixing_falling: int = 4
    fixing_search_share: float = 0.5
    #: Entries a second that the conditioned search updates, for the time that it has. 2026-11-27: 7e8 with 400 clients,
    #: 9e8 with 77, on one core.
    conditioning_rate: float = 5e8
    fixing_close_time_share: float = 0.95
    #: Entries of inverses that a search keeps on its way down, and the operations of an ADMM iteration in units of n³,
    #: where that of an entry is one; its work. 2026-11-24: ratios of measured times.
    fixing_room: int = 8_000_000
    fixing_iteration: float = 1.5
    conditioning_work: float = 0.075

    #: Under side constraints: entries that the tree reads before clients are fixed, and the part of them that may at
    #: most be left, else it goes on as it was.
    #: 2026-11-24, thirty rounds of 300 and 500 clients: what the tree proves in half a second it proves before.
    constrained_search: float = 2e7
    constrained_left: float = 0.8

    # -- auto: the level-1 RLT bound and its core --

    #: Clients to one that is chosen from which on the level-1 RLT bound comes before the trees. 2026-11-24, rounds with
    #: ten to one and 150 to 400 clients: proved 1.2 to 9 times as fast as with 12, which leaves them to the trees, but
    #: for one that takes 40 ms more (docs/benchmarks/policy.md). 2026-11-23, 18 rounds with 30 % of 1 000 clients
    #: there: with 10, and cores for 150 clients and more, 11 were proved in 5 seconds; with 20 and 300, 6.
    rlt_ratio: int = 10
    #: Most clients: the multipliers take 8 n² bytes.
    rlt_largest: int = 6_000
    #: The same where multipliers of products follow, and no certificate is wanted. 2026-11-27, played rounds: with this
    #: bound first 300 clients take 1.3 and 1.5 seconds, without it 1.5 and 1.3; 500 clients 6.3 and 2.2.
    rlt_beside_products: int = 400
    #: Share of the time for this bound, and of what is then left for the core. 2026-11-23, not swept.
    rlt_time_share: float = 0.3
    core_time_share: float = 0.8
    #: The second where the bound leaves all of at most `most_bounded` clients, and more than this gap. 2026-11-27, 40
    #: of 400 with random values of either sign, 10 s: a gap of 29 % with .8, of 8.7 % with .2, of 7.8 % by the trees
    #: alone. They begin with 8 % of the shifted objective here; a round of 300 that needs its core with 2.4 %.
    far_core_time_share: float = 0.2
    far_core_gap: float = 0.05
    #: Iterations between two looks at which clients can be left out, and those after which a bound that leaves all
    #: clients is not worth further ones before the core. 2026-11-23, not swept.
    rlt_chunk: int = 100
    rlt_first_iterations: int = 300
    #: Entries that its iterations look at between two looks at whether the run is to end, some 10 ms. 2026-11-24.
    rlt_slice: int = 250_000
    #: The core no longer helps where so many in a row close no more than this part of the gap each. Not swept.
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
    #: Clients of the first core, those that may join at a time, and the size from which on idle ones leave it. These
    #: and all that follow to `core_progress`, but where another date stands: 2026-11-22, the eight rounds of
    #: bench_few_of_many.py, run once each; first choices.
    first_core: int = 100
    joining_core: int = 80
    crowded_core: int = 250
    #: The size from which on idle ones leave a core beside which more than `shrunk` of all clients may still be chosen:
    #: a smaller one proves nothing. 2026-11-23, 12 rounds of 1 000 clients with two labels each: after 5 s of
    #: processor time three gaps of 33 to 82 % became .9 to 5.8; 500 instead changed nothing, and did harm after 15.
    largest_core: int = 400
    #: ADMM steps over the first core and over each one after, and how many lie between two certificates.
    first_core_steps: int = 150
    core_steps: int = 75
    core_chunk: int = 25
    #: Swaps of weight for each client outside the core, first over the core, then over all; RLT steps on what is left.
    weight_swaps: int = 300
    second_weight_swaps: int = 100
    core_row_steps: int = 400
    #: Where more than so many others are worth this part of τ and more beside the first core, so many join it before it
    #: is extended; swaps that their worth is estimated with. 2026-11-23, six rounds of 1 000 clients: after 5 s of
    #: processor time the gaps were .4 to 4.5 % instead of .4 to 10.5.
    many_near_core: int = 150
    near_core: float = 0.9
    core_growth: int = 160
    pricing_swaps: int = 150
    #: A swap of weight is worth its while from this part of τ/m on.
    weight_swap: float = 1e-4
    #: A fractional value below which a client is idle.
    idle_share: float = 1e-4
    #: The part of τ that does not count: by which a row may exceed it, and by which the last steps before a certificate
    #: lower a bound over a core that has settled.
    core_progress: float = 1e-3

    #: The step of an iteration: this part of what would reach the target if the bound were linear, multiplied by .7
    #: after some steps without success; below the second the multipliers have converged. 2026-11-22, single runs of the
    #: eight rounds that bench_few_of_many.py began with.
    rlt_step: float = 0.1
    rlt_least_step: float = 1e-4

    # -- bounds as methods --

    #: Rounds of products held non-negative that are violated, of `sdp` and under side constraints of `dnn`; pairs per
    #: client that one of them adds. Not swept.
    separations: int = 4
    separated_pairs: int = 2
    #: Seconds below which not even some steps of `sdp` and the certificate fit, in units of n³. 2026-11-21.
    least_sdp_seconds: float = 3e-9
    #: Moves of weight between two looks at the clock, where a bound is a tangent's, and so many looks in a row that
    #: hardly lower a uniform shift's bound, after which it is over. Not swept.
    climb_slice: int = 2_000
    stale_climbs: int = 20
    #: Most clients of `dnn`: an iteration takes some n³ / 5e9 seconds. Not swept.
    dnn_largest: int = 3_000
    #: `dnn` ends when so many chunks of iterations lower the bound by no more than this part of the objective's scale.
    #: Not swept.
    dnn_memory: int = 5
    dnn_progress: float = 1e-6
    #: Seconds below which a uniform shift gives the better bound, in units of n³: some 25 iterations. 2026-11-21.
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
    #: A smaller problem of points is worth its own relaxation when it has at most this share of the clients. Not swept.
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

    #: Entries of the gains that one call of tabu search may update, some 7 ms (20 where many are equal), and what a
    #: move's entries count times under side constraints. 2026-11-24; it was 2 million before.
    tabu_work: int = 1_000_000
    looks_to_update: int = 8
    #: Steps that Python makes for a move, beside some for each client, where nothing is compiled. 2026-11-22.
    move_steps: int = 200
    #: Moves of tabu search, and children of a population, where there is neither a time limit nor a number. Not swept.
    endless_moves: int = 200_000
    endless_generations: int = 300
    #: Parents that differ in fewer clients have a child that is one of them, changed by random swaps. Not swept.
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
    #: Seconds that the first DNN bound takes, in units of n³; with less time left the DNN tree is not begun.
    #: 2026-11-22.
    first_dnn_bound: float = 6e-9
    #: A gap of the first-order tree so many times the other's counts as no more than that, so that it does not wait for
    #: ever. 2026-11-22.
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
    #: Penalty of the augmented Lagrangian of rows where the form is hardly curved, in units of the spread of the linear
    #: term. Not swept.
    linear_penalty: float = 0.05
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
    #: Relaxations take at most so many times the work of nodes, beside the first one of a small problem. 2026-11-22.
    relaxation_ratio: int = 3
    #: Work of one of its steps, in units of n² (n + k): a twentieth. Of the uniform shift, an eigenvalue and its
    #: certificate, in units of n³. 2026-11-24.
    interior_work: float = 0.15
    shift_work: float = 0.01
    #: Work of a relaxation with k active products: a constant, and so many times n² (n + k). 2026-11-22.
    relaxation_start: int = 1_000_000
    relaxation_each: int = 3

    # -- doubly nonnegative relaxation --

    #: ADMM iterations between two looks at the balance of the residuals; where the penalty settles, since the bound
    #: suffers from what the dual point lacks, so that this residual is kept smaller; and the penalty's range, in units
    #: of 1/m, so that residuals that are mere rounding do not drive it away. 2026-11-21, not swept.
    penalty_window: int = 10
    residual_ratio: float = 16.0
    least_penalty: float = 1e-4
    most_penalty: float = 1e4
    #: The part of the gap, for each of m - 1 partners, that swaps for each client's bound are worth. 2026-11-23, two
    #: rounds of 300 clients: 40 swaps left out a tenth of what 200 did, in half of the time; `weight_swaps` are made.
    client_bound_accuracy: float = 0.02
    #: Times that coordinate descent goes through the cuts' multipliers in an iteration, and clients with the largest
    #: products that are looked at for triangles with a client, what n = 1 000 can afford. Not swept.
    cut_sweeps: int = 3
    triangle_clients: int = 200
    #: Nearest clients of each with which a group grows whose chosen ones are counted. 2026-11-27.
    near_partners: int = 8
    #: PSD projection: up to so many rows a decomposition is as cheap as a turn of the eigenvectors; turns from one
    #: decomposition to the next, and from one diagonalisation of the small side to the next; columns of the other side
    #: that are diagonalised with it. Not swept.
    decomposed_rows: int = 32
    turns: int = 20
    turns_refined: int = 4
    refined_columns: int = 4
    #: Denominators are at least this part of the largest eigenvalue; a turn is at most so large (Frobenius norm).
    turn_floor: float = 1e-3
    largest_turn: float = 0.3

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
    #: The bound has stalled where the last so many chunks lowered the gap by less than this part of it on average. A
    #: node starts from its parent's bound, which its first iterations do not improve. 2026-11-22.
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

    # -- search logs --

    #: Points of the slice are kept in units of the first, which makes small files, up to so many clients; where a node
    #: costs more, finer points, which save some, are worth their bytes. 2026-11-22.
    log_coarse_grain: float = 2.0**-8
    log_fine_grain: float = 2.0**-11
    log_coarse_clients: int = 120
    #: Nodes that are logged at a time, and shares of clients altogether, some bytes each before compression.
    log_batch: int = 2_000
    log_shares: int = 3_000_000
    #: Pairs of clients that differ by no more than rounding which are compared in exact arithmetic, a tenth of a
    #: millisecond each.
    log_compared: int = 200
    #: Part of what a bound may exceed the incumbent by that the rounding of the problem may take.
    log_rounding: float = 0.1
    #: Seconds that the multipliers of one bound take to be tried and read, for each pair of clients (three of 1 000
    #: clients took 2.2 s of processor time, 2026-11-23), and the part of a run's time limit that is kept for them.
    multipliers_seconds: float = 0.7e-6
    multipliers_time_share: float = 0.17

    # -- trees of certificates, written after a search: 2026-11-22 and 23, by hand, but where another source stands --

    #: Pairs held non-negative per open client, and rounds of separating them at the root.
    certificate_pairs: int = 1
    certificate_rounds: int = 2
    #: How well a node that does not close is solved: better than in a search, since fixing clients costs no
    #: multipliers; and what rounding a form for the checker may cost, of the goal.
    certificate_accuracy: float = 0.02
    certificate_rounding: float = 1e-9
    #: Fewest open clients whose DNN relaxation is tried where the semidefinite one leaves them open (`fewest_relaxed`
    #: get multipliers of their own); share of a form's clients that are still open when it is made anew.
    certificate_fewest_dnn: int = 16
    certificate_shrunk: float = 0.5
    #: Progress at the root as `root_progress`: the bound is known to be within reach. Part of the value to beat that
    #: the DNN bound has to go below it, for what a tangent after finitely many steps leaves.
    certificate_progress: float = 0.005
    certificate_margin: float = 2e-5
    #: With more clients one multiplier for all of them serves for a certificate of one node.
    certificate_relaxed: int = 600
    #: Seconds that a semidefinite relaxation takes a client cubed, generously, and the iterations of the DNN one that
    #: take as long, measured at 50 clients.
    certificate_seconds: float = 6e-8
    certificate_iterations: int = 15
    #: Clients cubed that relaxations may take where no time limit ends a tree: some ten seconds by the figure above,
    #: and counted, so that the same seed writes the same certificate. A tree that needs more is given up.
    certificate_work: float = 1.5e8
    #: Entries of inverses that a conditioned search may take for it to be written down, and pairs of clients that the
    #: tangents of what is written may have together: the one file takes some 60 ns for each. 2026-11-28, played rounds
    #: of 300 to 1 000 clients: 3e7 to 7e8 entries, and 5e7 to 4e8 pairs.
    certificate_conditioned: float = 1e9
    certificate_conditioned_pairs: float = 5e8
    #: Clients of whom conditioning closes a side, from which on a node of that search has a tangent that fixes some of
    #: them together. 2026-11-28, nodes and seconds of the one file, played, 1 000 clients with shares of .3 and half of
    #: them with two labels: none 8 544 and 42, 15 768 and 27; 8: 2 791 and 49, 12 807 and 25; 3: 2 080 and 35, 10 151
    #: and 20; 1: - and -, 9 254 and 27.
    certificate_fixed_together: int = 3
    #: Pairs of clients that are alike, for each client, of which a form may say which comes first: a checker tests
    #: each, in a millisecond or less. 500 clients at eight places have 15 596 pairs. Not swept.
    certificate_order: int = 3
    #: Parts of the time after which a tree is given up, to leave some for a certificate of one leaf, and after which
    #: that is cut short, to leave some for reading it: reading takes a third of the time it took to write.
    certificate_time_share: float = 0.55
    leaf_time_share: float = 0.8

    def relaxation_work(self, n: int, products: int) -> int:
        """Work that a semidefinite relaxation of n clients with so many active products counts as."""
        return self.relaxation_start + self.relaxation_each * n * n * (n + products)

    def sweep_work(self, n: int, sweeps: int) -> float:
        """Work that sweeps of the low-rank relaxation over n clients count as."""
        return self.fixing_sweep_work * sweeps * n * n * math.isqrt(2 * n)

    def iteration_work(self, n: int) -> float:
        """Work that an ADMM iteration of the DNN relaxation over n clients counts as."""
        return self.iteration_cubic * n**3 + self.iteration_square * n**2

    def seconds_of_dnn(self, n: int) -> float:
        """Seconds that the first DNN bound over n clients takes."""
        return self.first_dnn_bound * n**3


#: The policy of the methods.
DEFAULT_POLICY = Policy()
