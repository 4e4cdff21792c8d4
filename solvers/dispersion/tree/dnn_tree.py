"""Branch and bound with the doubly nonnegative (DNN) relaxation: few nodes, each expensive.

See docs/mathematics/dispersion_relaxations.md, *Four levels of strength* for the relaxation, and
docs/mathematics/dispersion_search.md, *Search: two trees* for the tree, its warm starts and a table of
symbols. In the units of `ScaledProblem` the objective is sᵀQs + pᵀs over 1ᵀs = m, s binary.

**Invariant of an open node** (`DNNNode`): every selection that is worth more than ``target`` (incumbent plus
``prune_tolerance``) and has not been found contains the ``ones`` of exactly one open node and otherwise clients among
its ``ids`` only — up to a symmetry of the problem, where symmetries are given — and is worth at most its ``bound``.

**Algorithm.** ::

    open the root
    while a node is open:
        take the ``batch`` of largest bounds                     (threads process them; results are merged in order)
        process_node:
            enumerate, where there are few selections
            at the root, every ``shrinking`` chunks: leave out clients that no better selection contains
            tighten: ADMM iterations and cuts, a certified bound every ``chunk`` iterations
            fathom where bound <= target
            offer the m largest entries of x
            forbid pairs whose product's multiplier exceeds bound - target
            fix_clients: reduced costs, forbidden pairs, dominance
            branch on the free client with the largest x: with it, and without its orbit
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.kernels.tree_data import FREE, ONE, ZERO
from solvers.dispersion.neighbourhood import ascend
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation, WarmStart
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.slice_form import ScaledProblem, SliceForm
from solvers.dispersion.relaxations.stopping import StoppingRule, tighten
from solvers.dispersion.tree.first_order import FirstOrderTree
from solvers.feasible_set import Hypersimplex
from solvers.search import BestFirstQueue, NodeOutcome, add_outcomes

Reals = NDArray[np.float64]
Clients = NDArray[np.int64]


@dataclass(frozen=True)
class DNNNode:
    """An open subproblem.

    Attributes
    ----------
    ids : (k,) ndarray of int
        Free clients, sorted.
    ones : (f,) ndarray of int
        Clients fixed to one.
    bound : float
        Upper bound on its selections.
    parent : WarmStart, optional
        The parent's relaxation, to start from; ``None`` at the root.
    warm_state : (DNNRelaxation, list of float), optional
        The node's own relaxation and the bounds it has had, where it was begun and is not done.
    is_root : bool
        Whether nothing has been branched on; clients may have been left out.
    """

    ids: Clients
    ones: Clients
    bound: float
    parent: WarmStart | None = None
    warm_state: tuple[DNNRelaxation, list[float]] | None = None
    is_root: bool = False


@dataclass(frozen=True)
class Setting:
    """Data that all nodes of a tree share.

    Attributes
    ----------
    scaled : ScaledProblem
        The problem.
    dominated : (k, 2) ndarray of int
        Pairs (i, j): some best selection that contains j contains i.
    group : (g, n) ndarray of int or None
        Permutations of the clients that change nothing, closed under composition.
    policy : Policy
        Tuning constants.
    """

    scaled: ScaledProblem
    dominated: Clients
    group: Clients | None = None
    policy: Policy = DEFAULT_POLICY


@dataclass
class NodeResult:
    """Result of processing a node: a bound, children, selections, iterations; no outcome where it is not done."""

    bound: float
    children: list[DNNNode] = field(default_factory=list)
    selections: list[Clients] = field(default_factory=list)
    iterations: int = 0
    outcome: NodeOutcome | None = None


# -- the tree ----------------------------------------------------------------------------------------------------------


class DNNTree:
    """Queue of open nodes bounded by the doubly nonnegative relaxation, best bound first.

    Parameters
    ----------
    tree : FirstOrderTree
        The first-order tree over the same problem, whose incumbent and tolerances count.
    threads : int
        Threads that process nodes.
    group : (g, n) ndarray of int, optional
        The problem's symmetries; see `solvers.dispersion.symmetry`.
    """

    def __init__(self, tree: FirstOrderTree, threads: int = 1, group: Clients | None = None) -> None:
        self.tree, self.run, self.threads, self.policy = tree, tree.run, threads, tree.policy
        pairs = np.zeros((0, 2), dtype=np.int64)
        if group is None:  # an order among equals and an orbit of them must not both be used
            pairs = tree.order.pairs
        self.setting = Setting(tree.scaled, pairs, group, tree.policy)
        self.open = BestFirstQueue[DNNNode]()
        self.nodes = self.iterations = 0
        self.stopping = False
        self.clock_looks = math.inf  # after so many the root is left for a while
        for name in ("admm", "cuts", "ascent"):
            load(name, self.run)  # here, where the clock can be stopped
        self.iteration_seconds = self.policy.iteration_seconds

    @property
    def target(self) -> float:
        """Value that a selection must exceed to be of interest."""
        return self.tree.incumbent + self.tree.prune_tolerance

    @property
    def bound(self) -> float:
        """Upper bound on every selection, in the units of `ScaledProblem`."""
        return max(self.tree.incumbent + self.tree.fathom_margin, self.open.bound)

    def open_root(self, known: CoreMultipliers | None = None) -> None:
        """Put the root on the queue; with ``known``, multipliers of all clients, its relaxation starts from them."""
        scaled = self.setting.scaled
        root = DNNNode(np.arange(scaled.linear.size), np.zeros(0, dtype=np.int64), math.inf, is_root=True)
        if known is not None:
            relaxation = DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size, policy=self.policy)
            known.start(relaxation)
            root = replace(root, warm_state=(relaxation, []))
        self._push(root)

    def solve_root(self) -> None:
        """Bound the root and branch on it."""
        self.open_root()
        self.advance()

    def advance(self, iterations: float = math.inf) -> None:
        """Process the most promising open nodes; the root is left open after so many iterations, to be continued."""
        self.clock_looks = iterations * (1 + 1 / self.policy.chunk)  # one per iteration, and one per chunk
        batch: list[DNNNode] = []
        while self.open and len(batch) < self.policy.batch:
            bound, node = self.open.pop()
            if bound > self.target:
                batch.append(node)
        if not batch:
            return
        nodes = self.nodes
        for node, result in zip(batch, self._processed(batch, self.target), strict=True):
            if result.outcome is not None:
                self.nodes += 1
                add_outcomes(self.run.details, [result.outcome == outcome for outcome in NodeOutcome])
            self.iterations += result.iterations
            for selection in result.selections:
                self._offer(selection)
            for child in result.children:
                self._push(replace(child, bound=min(child.bound, node.bound)))
        self.tree.refresh_incumbent()
        self.run.nodes = (self.run.nodes or 0) + self.nodes - nodes

    def report(self) -> None:
        """Hand the tree's bound to the run."""
        self.run.tighten(self.tree.certified(self.bound))

    def _processed(self, batch: list[DNNNode], target: float) -> list[NodeResult]:
        def process(node: DNNNode) -> NodeResult:
            began, n = time.perf_counter(), node.ids.size
            # What is left must suffice for the iteration at hand and for a certificate.
            reserve = self.policy.reserved_iterations * self.iteration_seconds * n**3
            if self.stopping or self.run.remaining <= reserve:
                return NodeResult(node.bound, [node])
            looks = itertools.count()

            def expired() -> bool:
                self.run.spend(self.policy.iteration_work(n))
                is_over = self.stopping or self.run.remaining <= reserve
                return is_over or (node.is_root and next(looks) >= self.clock_looks)

            progress = self._report_root if node.is_root else (lambda bound: None)
            result = process_node(self.setting, node, target, expired, progress)
            if result.iterations and n > self.policy.timed_from and not self.run.counts_work:
                each = (time.perf_counter() - began) / result.iterations
                self.iteration_seconds = max(self.iteration_seconds, each / n**3)
            return result

        if self.threads == 1 or len(batch) == 1:
            return [process(node) for node in batch]
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                return list(pool.map(process, batch))
            except BaseException:
                self.stopping = True  # an interruption need not wait for the other nodes
                raise

    def _report_root(self, bound: float) -> None:
        """Report the root's bound while it is being computed: with a thousand clients that takes a while."""
        self.run.tighten(self.tree.certified(max(bound, self.tree.incumbent + self.tree.fathom_margin)))

    def _offer(self, selection: Clients) -> None:
        x = np.zeros(self.setting.scaled.linear.size, dtype=np.int64)
        x[selection] = 1
        self.run.offer(ascend(self.tree.problem, x, self.run))
        self.tree.refresh_incumbent()

    def _push(self, node: DNNNode) -> None:
        if node.bound > self.target:
            self.open.push(node.bound, node)


# -- a node ------------------------------------------------------------------------------------------------------------


def process_node(
    setting: Setting,
    node: DNNNode,
    target: float,
    expired: Callable[[], bool],
    progress: Callable[[float], None] = lambda bound: None,
) -> NodeResult:
    """Bound a node, and fathom it or branch on it.

    Parameters
    ----------
    setting : Setting
        The problem.
    node : DNNNode
        The node.
    target : float
        Value that a selection must exceed to be of interest.
    expired : callable
        Whether to stop; the result is valid all the same.
    progress : callable
        Called with the bound after each chunk of iterations.

    Returns
    -------
    NodeResult
        Its selections that are worth more than ``target`` are worth at most ``bound``, and each is in a child or among
        ``selections``.
    """
    scaled, ids, ones, policy = setting.scaled, node.ids, node.ones, setting.policy
    m = scaled.size - ones.size
    if m < 0 or m > ids.size:
        return NodeResult(-math.inf, outcome=NodeOutcome.INFEASIBLE)
    quadratic, linear, constant = scaled.restricted(ids, ones)
    constant += 2 * scaled.error  # rounding of these sums
    if m <= 1 or math.comb(ids.size, m) <= policy.enumerable:
        value, best = _enumerated(quadratic, linear, m)
        selection = np.sort(np.concatenate([ones, ids[best]]))
        return NodeResult(min(node.bound, constant + value), selections=[selection], outcome=NodeOutcome.SOLVED)
    known = target - constant
    if node.warm_state is not None:
        relaxation, bounds = node.warm_state
    else:
        relaxation, bounds = DNNRelaxation(quadratic, linear, m, _inherited_pairs(node), policy), []
        if node.parent is not None:
            relaxation.start(node.parent, ids, ones)
    before = relaxation.iterations
    rule, is_due_for_shrinking = StoppingRule.at_node(policy, known, is_root=node.is_root), False
    for better in tighten(
        *(relaxation, rule, bounds, expired, policy.cuts * relaxation.n, policy.chunk), begins_with_cuts=node.is_root
    ):
        progress(min(node.bound, constant + better))
        if node.is_root and len(bounds) % policy.shrinking == 0:
            is_due_for_shrinking = True  # later iterations take less time
            break
    result = NodeResult(min(node.bound, constant + min(bounds)), iterations=relaxation.iterations - before)
    if result.bound <= target:
        result.outcome = NodeOutcome.FATHOMED_BY_BOUND
        return result
    x = np.clip(relaxation.x, 0.0, 1.0)
    result.selections.append(np.sort(np.concatenate([ones, ids[np.argsort(-x, kind="stable")[:m]]])))
    if expired():
        result.children = [replace(node, bound=result.bound, warm_state=(relaxation, bounds))]
        return result
    gap = relaxation.bound() - known  # of these multipliers, not of the best ones on the way
    if is_due_for_shrinking:
        kept = relaxation.bounds_with(gap) > known
        if kept.sum() > policy.shrunk * kept.size or kept.sum() <= m:
            result.children = [replace(node, bound=result.bound, warm_state=(relaxation, bounds))]
        else:
            relaxation.forbid(gap)
            result.children = [DNNNode(ids[kept], ones, result.bound, relaxation.warm(ids), is_root=True)]
        return result
    relaxation.forbid(gap)
    form = relaxation.form()
    state, better = fix_clients(
        form,
        Hypersimplex(x.size, m).project(x),
        known,
        relaxation.forbidden,
        _among(setting, ids),
        relaxation.bounds_with(gap) <= known,
    )
    result.bound = min(result.bound, constant + better)
    if state is None:
        result.bound, result.outcome = min(result.bound, target), NodeOutcome.REDUCED
    else:
        result.outcome = NodeOutcome.BRANCHED if (state == FREE).any() else NodeOutcome.REDUCED
        result.children = _branched(setting, relaxation, node, state, x, result.bound)
    return result


def fix_clients(
    form: SliceForm,
    point: Reals,
    known: float,
    forbidden: NDArray[np.bool_],
    dominated: Clients,
    left_out: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int8] | None, float]:
    r"""Fix clients by reduced costs, forbidden pairs and dominance, until nothing follows.

    With the gradient g at ``point``, v its tangent's bound and g_(1) ≥ ... ≥ g_(n) sorted, a selection without a
    client i of the m largest is worth at most :math:`v - (g_i - g_{(m+1)})`, and one with another client i at most
    :math:`v - (g_{(m)} - g_i)`.

    Parameters
    ----------
    form : SliceForm
        The objective over n clients, concave on the slice.
    point : (n,) ndarray
        A point of the slice.
    known : float
        Value that a selection must exceed to be of interest.
    forbidden : (n, n) ndarray of bool
        Pairs that are together in no selection of interest.
    dominated : (k, 2) ndarray of int
        Pairs (i, j): a selection with j contains i.
    left_out : (n,) ndarray of bool, optional
        Clients that are in no selection of interest.

    Returns
    -------
    state : (n,) ndarray of int8 or None
        FREE, ONE or ZERO for each client; ``None`` where no selection of interest is left.
    bound : float
        The tangent's bound v.
    """
    n, m = form.linear.size, form.size
    state = np.full(n, FREE, dtype=np.int8)
    gradient = form.linear + 2 * (form.curved @ point)
    value = form.tangent(point)
    slack = value - known
    if slack <= 0:
        return None, value
    ascending = np.sort(gradient)
    state[gradient - ascending[n - m - 1] >= slack * (1 + 1e-9)] = ONE
    state[ascending[n - m] - gradient >= slack * (1 + 1e-9)] = ZERO
    if left_out is not None:
        if left_out[state == ONE].any():
            return None, value
        state[left_out] = ZERO
    while True:
        before = state.copy()
        chosen, free = state == ONE, state == FREE
        left = m - int(chosen.sum())
        if left < 0 or left > int(free.sum()) or forbidden[np.ix_(chosen, chosen)].any():
            return None, value
        compatible = (~forbidden[:, free]).sum(axis=1) - 1
        state[free & (forbidden[chosen].any(axis=0) | (compatible < left - 1))] = ZERO
        if len(dominated):
            first, second = dominated.T
            if (state[second[state[first] == ZERO]] == ONE).any():
                return None, value
            state[first[state[second] == ONE]] = ONE
            state[second[state[first] == ZERO]] = ZERO
        if np.array_equal(state, before):
            return state, value


def _branched(
    setting: Setting,
    relaxation: DNNRelaxation,
    node: DNNNode,
    state: NDArray[np.int8],
    x: Reals,
    bound: float,
) -> list[DNNNode]:
    """Branch on the free client with the largest x: with it, and without its orbit; one child where all are fixed.

    Leaving a client out lowers the bound the more, the larger its x, and choosing it the less; where m is not small
    against n the most fractional client lowers least on both sides together.
    """
    ids = node.ids
    parent = relaxation.warm(ids)
    free = state == FREE
    ones = np.concatenate([node.ones, ids[state == ONE]])
    if not free.any():
        return [DNNNode(ids[free], ones, bound, parent)]
    pick = int(np.where(free, x, -1.0).argmax())
    orbit = np.isin(ids, _orbit(setting.group, int(ids[pick]), ids[free], ones, setting.scaled.linear.size))
    rest = free & ~orbit
    without = DNNNode(ids[rest], ones, bound, parent)
    rest = free & ~relaxation.forbidden[pick]
    rest[pick] = False
    return [DNNNode(ids[rest], np.append(ones, ids[pick]), bound, parent), without]


def _orbit(group: Clients | None, client: int, free: Clients, ones: Clients, n: int) -> Clients:
    """Clients to which ``client`` is taken by the symmetries that keep the chosen and the free ones as sets."""
    if group is None:
        return np.array([client])
    label = np.zeros(n, dtype=np.int8)
    label[free], label[ones] = 1, 2
    kept = (label[group] == label).all(axis=1)
    return np.unique(group[kept, client])


def _inherited_pairs(node: DNNNode) -> NDArray[np.bool_] | None:
    """The parent's forbidden pairs among the node's free clients."""
    if node.parent is None:
        return None
    kept = np.searchsorted(node.parent.ids, node.ids)
    return node.parent.forbidden[np.ix_(kept, kept)]


def _among(setting: Setting, ids: Clients) -> Clients:
    """The dominated pairs among ``ids``, in positions of ``ids``."""
    place = np.full(setting.scaled.linear.size, -1, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    pairs = place[setting.dominated]
    return pairs[(pairs >= 0).all(axis=1)]


def _enumerated(quadratic: Reals, linear: Reals, m: int) -> tuple[float, Clients]:
    """Value and clients of the best of all selections of m."""
    n = linear.size
    chosen = np.array(list(itertools.combinations(range(n), m)), dtype=np.int64).reshape(math.comb(n, m), m)
    values = linear[chosen].sum(axis=1)
    values += quadratic[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2))
    best = int(values.argmax())
    return float(values[best]), chosen[best]
