r"""The optimiser's curse: whether a decision nearer to the optimum of its objective makes a better update.

Selectors optimise a surrogate. FedGS selects clients that are far apart on the 3DG, and its Theorem 1 says that their
update is then near that of all clients. DivFL selects the clients that represent all others best. FedSS-O divides the
round among groups of clients so that a bound on the variance is smallest. CA-Fed leaves out clients so that an estimate
of the error is smallest. Here the surrogate is optimised more and more, up to the certified optimum. What it stands for
is measured: the distance of the aggregate from the update of all clients, relative to the latter. The error of a
decision is given as its percentile among random decisions: 50 is as good as a random one, 0 better than all of them,
100 worse.

All of 100 clients of digits are available, but for CA-Fed. A model is trained by uniform selection, one for each round
that is looked at: for none and for ten rounds. Then every client trains from it, so that every decision's update is
known.

dispersion, 3DG
    FedGS's objective on the oracle's graph of label distributions (Eq. 14 with equal counts: the distances alone, as
    where α is large).
dispersion, updates
    The same with the distances between the clients' updates of this very round: a surrogate that is as well informed
    as one can be.
coverage, updates
    DivFL's facility location, on the same distances.
allocation, labels
    FedSS-O's variance (Eq. 20) with groups by label distribution, at most 10, whose deviations :math:`H_g` are those of
    the label distributions. The decision is how many clients of each group are drawn. The error is the root of the
    exact mean square over draws, :math:`\sum_g (N_g/N)^2 (1/m_g - 1/N_g) S_g^2`, with :math:`S_g^2` of the true
    updates. Random decisions are all allocations of as many clients with one of each group at least, equally likely.
    With 10 groups and 10 clients a round there is one allocation only, so that M is 20 and 30.
allocation, updates
    The same with the deviations of the updates themselves. Surrogate and truth then coincide, so that the optimum is
    the best there is: it says how much an allocation can matter.
total error, losses
    CA-Fed's error estimate (Eq. 19) on the losses of this model, with smallest losses of 0 (as the authors' code has on
    images) and the true rates π of its classes: half of the clients are available 90 % of the time, the others 10 %.
    The decision is which clients are left out. The others weigh :math:`\alpha_k / \pi_k` when available, as published:
    weights are not renormalised, so that leaving out clients also makes the server's step smaller. Clients are
    independent, so that the mean square over availability is exact:
    :math:`\|\sum_k (p_k - \alpha_k) \Delta_k\|^2 + \sum_k p_k^2 (1/\pi_k - 1) \|\Delta_k\|^2` with
    :math:`p_k = \alpha_k` on the kept S and 0 elsewhere. Chains are stationary: λ plays no part in one round. Random
    decisions leave out as many clients as the decision itself: they say whether the right ones are left out. Whether
    as many should be says the control, which leaves out none. Beside it stands what the estimate cannot see, as π
    cancels in it: the rarely available half is left out. All may take part, hence M = N.
total error, best factor
    The same decisions, where every decision's aggregate is multiplied by the factor of least mean squared error, as
    the server's learning rate may make up for a factor. Only an oracle knows that factor.

For the last four, clients are equally important (α = 1/N), as FedSS's theory has it. For the others α are the shares of
samples. What is measured is the error of one round, where a variance that later rounds average out counts as much as a
bias.

From 10 random decisions, steepest moves lead to a local optimum: swaps of two clients, transfers of one place from
group to group, and taking one client in or out. Every decision on the way has a gap to the certified bound. The exact
method and what is published (greedy selection, allocation in proportion to sizes, Algorithm 1) stand beside. The unit
of replication is a split of the data, with CA-Fed's classes of its own; intervals are 95 % ones of Student's t over
splits. A decision is called better or worse than random after Holm's adjustment for all rows. It is called the same
within 5 points by two one-sided tests of each row alone. Errors beside a control's are paired: proportional allocation,
leaving out none, and for selections the exact one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import by_cell, holm
from fedselect.availability import AVAILABILITY, ideal
from fedselect.data import digits
from fedselect.randomness import generator
from fedselect.rounds.protocol import Selection
from fedselect.selectors import Uniform
from fedselect.statistics import FEWEST, compare_means, half_width
from formulas import dissimilarity, estimator_error
from graphs import dependency_graph, distances, similarity
from solvers import InvalidAnswer, Problem, solve
from solvers.allocation import AllocationProblem, group_clients
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem
from solvers.weighting import ExclusionProblem
from study import Picture, Rows, Study, Table, main

DATA = {
    "two labels": {"partition": "two-label"},
    "Dirichlet 0.5": {"partition": "dirichlet-prior", "concentration": 0.5},
    "Dirichlet 0.1": {"partition": "dirichlet-prior", "concentration": 0.1},
}

#: Decisions that percentiles are among, and starts of the ways to a local optimum.
RANDOM, STARTS = 1000, 10

#: Relative gaps to the bound, in per cent, into which decisions on the way are put; the last has all larger ones.
GAPS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, np.inf)

#: Points of a percentile, and per cent of a control's error, within which decisions are called the same.
MARGIN, CLOSE = 5.0, 1.0


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: int
    rounds: tuple[int, ...]  #: trained before all updates are looked at
    sizes: tuple[int, ...]  #: clients a round
    allotted: tuple[int, ...] = (20, 30)  #: clients a round of allocations
    groups: int = 10  #: most groups of clients
    clients: int = 100
    data: tuple[str, ...] = tuple(DATA)


QUICK = Scale(splits=20, rounds=(0, 10), sizes=(3, 10, 20))
PAPER = Scale(splits=50, rounds=(0, 10, 50), sizes=(3, 10, 20))


# -- updates of all clients --------------------------------------------------------------------------------------------


class Checkpoint(NamedTuple):
    """Answers of all clients that train from one model."""

    updates: Any  #: Δ, (N, d)
    losses: Any  #: means over the local steps, (N,)
    norms: Any  #: of the updates
    received: Any  #: losses of the first batches
    probed: Any  #: losses of all samples


class Observed(Uniform):
    """Uniform selection up to the round in which every client trains, and its answer is kept."""

    model: Checkpoint

    def __init__(self, size, last):
        super().__init__(size)
        self.last = last
        self._probed = np.empty(0)

    def select(self, round):
        """Select all clients, of weight 0, in the last round."""
        if round.round < self.last:
            return super().select(round)
        clients = np.flatnonzero(round.available)
        self._probed = round.probe(clients.tolist())
        return Selection(clients, np.zeros(clients.size))

    def update(self, feedback):
        """Keep what the clients sent in the last round."""
        if feedback.round == self.last:
            clients = feedback.selection.clients.tolist()
            sent = (feedback.losses, feedback.norms, feedback.received_losses)
            losses, norms, received = (np.array([each[client] for client in clients]) for each in sent)
            updates = np.stack([feedback.updates[client] for client in clients])
            self.model = Checkpoint(updates, losses, norms, received, self._probed)


def observed(federation, rounds, seed):
    """Train for some rounds by uniform selection of a tenth of the clients, and return what all send in the next."""
    import torch

    from fedselect.training.fedavg import FedAvg

    torch.set_num_threads(1)
    selector = Observed(max(1, len(federation) // 10), rounds)
    loop = FedAvg(federation, selector, ideal(federation, seed), seed=seed)
    for _ in range(rounds + 1):
        loop.step(evaluate=False)
    return selector.model


def errors_of(selected, sizes, updates):
    r"""Compute how far the updates of selections (..., N) are from that of all, relative to it; samples n (N,).

    .. math:: \Big\| \sum_{k \in S} \frac{n_k}{n_S} \Delta_k - \Delta \Big\| / \|\Delta\|,
              \quad \Delta = \sum_k \frac{n_k}{n} \Delta_k
    """
    shares = selected * sizes
    shares = shares / shares.sum(axis=-1, keepdims=True) - sizes / sizes.sum()
    whole = float(np.linalg.norm(sizes @ updates / sizes.sum()))
    return np.linalg.norm(shares @ updates, axis=-1) / whole


def errors_of_allocations(drawn, groups, updates):
    """Compute the root mean squared errors of stratified draws (FedSS, Eq. 13), relative to the mean update.

    ``drawn`` (k, K) are clients of each group, at least 1; ``groups`` (N,) is each client's.
    """
    found = dissimilarity(updates, groups)
    squares = [estimator_error(found.sizes, each, found.within) for each in drawn]
    return np.sqrt(squares) / float(np.linalg.norm(updates.mean(axis=0)))


def errors_of_kept(kept, rates, updates, *, best_factor=False):
    r"""Compute the root mean squared errors of CA-Fed's aggregate, relative to the mean update, for α = 1/N.

    .. math:: E \Big\| c \sum_{k \in S} \frac{\xi_k}{N \pi_k} \Delta_k - \Delta \Big\|^2, \qquad
              \xi_k \sim \text{Bernoulli}(\pi_k) \text{ independent}

    ``kept`` (k, N) are the clients S, ``rates`` π; with ``best_factor`` c ≥ 0 is, for every S, the factor of least
    error, instead of the published 1.
    """
    gram = updates @ updates.T
    scaled = kept / len(gram)
    variances = (1.0 / rates - 1.0) * np.diag(gram)
    if best_factor:
        squares = ((scaled @ gram) * scaled).sum(axis=-1) + scaled**2 @ variances
        scaled *= (np.maximum(scaled @ gram.mean(axis=1), 0.0) / squares)[:, None]
    off = scaled - 1.0 / len(gram)
    return np.sqrt((((off @ gram) * off).sum(axis=-1) + scaled**2 @ variances) / gram.mean())


# -- moves -------------------------------------------------------------------------------------------------------------

# A move takes a decision to the best one that is one move away, and says its value. Swaps value all swaps of a
# selection, (m, n): client i of it leaves, j of the others joins.


def dispersion_swaps(h):
    """Evaluate the sum of all pairs' distances, each counted twice, after every swap."""

    def values(inside, outside):
        sums = h[:, inside].sum(axis=1)
        after = sums[outside][None, :] - sums[inside][:, None] - h[np.ix_(inside, outside)]
        return sums[inside].sum() + 2 * after

    return values


def coverage_swaps(s):
    """Evaluate how well all clients are represented after every swap."""

    def values(inside, outside):
        rest = np.array([s[:, np.delete(inside, i)].max(axis=1, initial=-np.inf) for i in range(inside.size)])
        return np.maximum(rest[:, :, None], s[None, :, outside]).sum(axis=1)

    return values


def by_swaps(swaps):
    """Move from a selection (N,) of bool by the best swap."""

    def move(x):
        inside, outside = np.flatnonzero(x), np.flatnonzero(~x)
        values = swaps(inside, outside)
        leaves, joins = np.unravel_index(int(values.argmax()), values.shape)
        after = x.copy()
        after[[inside[leaves], outside[joins]]] = False, True
        return after, float(values[leaves, joins])

    return move


def by_transfers(problem):
    """Move from an allocation (K,) by the best transfer of one client from a group to another."""

    def move(x):
        terms = problem.terms(x)
        less = np.where(x > problem.first, problem.terms(x - 1) - terms, np.inf)
        more = np.where(x < problem.upper, problem.terms(x + 1) - terms, np.inf)
        values = terms.sum() + less[:, None] + more[None, :]
        np.fill_diagonal(values, np.inf)
        giver, taker = np.unravel_index(int(values.argmin()), values.shape)
        after = x.copy()
        after[[giver, taker]] += -1, 1
        return after, float(values[giver, taker])

    return move


def by_flips(problem):
    """Move from the kept clients (N,) of bool by the best flip of one client, in or out; one at least is kept."""
    importance, gaps = problem.importance, problem.loss_gaps

    def move(x):
        signed = np.where(x, -importance, importance)
        mass, loss = importance[x].sum() + signed, importance[x] @ gaps[x] + signed * gaps
        alone = x & (x.sum() == 1)
        values = np.where(alone, np.inf, loss / np.where(alone, 1.0, mass) + (1.0 - mass) ** 2 * problem.gamma)
        flipped = int(values.argmin())
        after = x.copy()
        after[flipped] = not x[flipped]
        return after, float(values[flipped])

    return move


def way(problem, moves, start):
    """Yield a decision and those that steepest moves lead to, with their values."""
    sign = 1.0 if problem.sense == "max" else -1.0
    x, value = start, problem.objective(start)
    seen = set()  # of values near 0 rounding might lead in a circle
    while x.tobytes() not in seen:
        yield x, value
        seen.add(x.tobytes())
        after, found = moves(x)
        if sign * (found - value) <= 1e-9 * abs(value):
            return
        x, value = after, found


# -- surrogates --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Objective of a round, ways to its optimum, and what its decisions are worth."""

    problem: Problem  #: states the objective
    moves: Callable
    end: str  #: names the local optimum that moves lead to
    starts: Any  #: random decisions that ways begin at, (k, n)
    judge: Callable  #: errors of decisions (k, n), and their percentiles among random ones
    heuristics: Mapping[str, tuple[str, Mapping]] = field(default_factory=dict)  #: methods beside the exact one
    others: Mapping[str, Any] = field(default_factory=dict)  #: decisions by name that no method makes

    def solved(self, seed):
        """Solve the problem exactly and by its heuristics."""
        # A machine under load must not decide how far a search gets: no time limit, a gap of 1 %.
        exact = {"exact": solve(self.problem, gap=0.01, seed=seed)}
        return exact | {
            name: solve(self.problem, method=method, seed=seed, **options)
            for name, (method, options) in self.heuristics.items()
        }

    def table(self, solved):
        """Measure every decision: who decided, the gap to the bound in per cent, the error and its percentile."""
        bound = solved["exact"].bound
        named = {name: np.asarray(each.x) for name, each in solved.items()} | dict(self.others)
        found = [(name, x, self.problem.objective(x)) for name, x in named.items()]
        for start in self.starts:
            steps = list(way(self.problem, self.moves, start))
            found += [("random", *steps[0]), *(("on the way", *each) for each in steps[1:-1]), (self.end, *steps[-1])]
        errors, percentiles = self.judge(np.array([x for _, x, _ in found], dtype=self.starts.dtype))
        behind = [bound - value if self.problem.sense == "max" else value - bound for _, _, value in found]
        for (name, _, value), each in zip(found, behind, strict=True):
            if each < -self.problem.tolerance_at(value, 1e-9):
                raise InvalidAnswer(
                    f"the decision of {name!r} has objective {value!r}, beyond the certified bound {bound!r} of a "
                    f"{self.problem.sense}imisation"
                )
        return {
            "decided by": [name for name, _, _ in found],
            "gap %": [100 * each / abs(bound) if each > 0 else 0.0 for each in behind],
            "error": errors.tolist(),
            "percentile": percentiles.tolist(),
        }


def percentiles_of(errors, random):
    """Return the percentiles of errors among random decisions' sorted ones; equal ones count half."""
    places = np.searchsorted(random, errors, "left") + np.searchsorted(random, errors, "right")
    return 50 * places / random.size


def among(errors, random):
    """Judge decisions among the same random ones, (k, n)."""
    sorted_ = np.sort(errors(random))

    def judge(decisions):
        found = errors(decisions)
        return found, percentiles_of(found, sorted_)

    return judge


def among_as_many(errors, orders):
    """Judge selections among random ones of as many clients: the first of random orders, (k, N)."""

    def judge(decisions):
        found, percentiles, counts = errors(decisions), np.empty(len(decisions)), decisions.sum(axis=1)
        for count in np.unique(counts):
            random = np.sort(errors(_masks(orders[:, :count], decisions.shape[1])))
            percentiles[counts == count] = percentiles_of(found[counts == count], random)
        return found, percentiles

    return judge


GREEDY = {"greedy": ("greedy", {})}

GRAPH = "dispersion, 3DG"


def selections(graph, updates, samples, drawn):
    """State the surrogates of a round that select as many clients as each of the random selections, (k, M)."""
    n, size = len(graph), drawn.shape[1]
    random = _masks(drawn, n)
    judge = among(lambda selected: errors_of(selected, samples, updates), random)
    products = updates @ updates.T
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0))
    apart = (apart + apart.T) / 2 * (1 - np.eye(len(apart)))
    near = apart.max() - apart
    stated = {
        GRAPH: (DispersionProblem(graph, size=size), dispersion_swaps(graph)),
        "dispersion, updates": (DispersionProblem(apart, size=size), dispersion_swaps(apart)),
        "coverage, updates": (CoverageProblem(near, size), coverage_swaps(near)),
    }
    return {
        name: Surrogate(problem, by_swaps(swaps), "swap ascent", random[:STARTS], judge, GREEDY)
        for name, (problem, swaps) in stated.items()
    }


LABELS = "allocation, labels"

PROPORTIONAL, NONE_OUT, RARE_OUT = "proportional", "none left out", "rare left out"


def allocations(distributions, groups, updates, size, rng):
    """State the surrogates of a round that allot clients to groups; distributions (N, L) are of labels."""
    heuristics = {PROPORTIONAL: ("proportional", {}), "largest remainder": ("largest-remainder", {})}
    random = random_allocations(np.bincount(groups), size, RANDOM, rng)
    judge = among(lambda drawn: errors_of_allocations(drawn, groups, updates), random)
    found = {}
    for name, features in ((LABELS, distributions), ("allocation, updates", updates)):
        spread = dissimilarity(features, groups)
        problem = AllocationProblem(spread.sizes, np.sqrt(spread.within), size)
        found[name] = Surrogate(problem, by_transfers(problem), "transfers", random[:STARTS], judge, heuristics)
    return found


def random_allocations(sizes, total, count, rng):
    """Draw from all allocations of ``total`` clients with at least one of each group, equally likely; (count, K)."""
    most, rest = sizes - 1, total - sizes.size
    ways = np.zeros((sizes.size + 1, rest + 1))  # of the groups from k on to share so many
    ways[-1, 0] = 1.0
    for k in reversed(range(sizes.size)):
        ways[k] = np.convolve(ways[k + 1], np.ones(most[k] + 1))[: rest + 1]
    drawn, left = np.ones((count, sizes.size), dtype=np.int64), np.full(count, rest)
    for k in range(sizes.size):
        after = left[:, None] - np.arange(min(most[k], rest) + 1)
        upto = np.where(after >= 0, ways[k + 1][np.maximum(after, 0)], 0.0).cumsum(axis=1)
        more = (upto <= (rng.random(count) * ways[k][left])[:, None]).sum(axis=1)
        drawn[:, k] += more
        left -= more
    return drawn


#: CA-Fed's weights as published, and every aggregate times the factor of least error.
LOSSES, FACTOR = "total error, losses", "total error, best factor"


def exclusions(losses, rates, correlation, updates, orders, rng):
    """State the surrogates of a round that leave out clients; random ones keep the first of random orders, (k, N)."""
    n = losses.size
    problem = ExclusionProblem(np.full(n, 1.0 / n), losses, None, rates, correlation)
    starts = np.zeros((min(STARTS, len(orders)), n), dtype=np.bool_)
    for start, order in zip(starts, orders, strict=False):
        start[order[: rng.integers(1, n)]] = True
    return {
        name: Surrogate(
            problem,
            by_flips(problem),
            "flips",
            starts,
            among_as_many(partial(errors_of_kept, rates=rates, updates=updates, best_factor=name == FACTOR), orders),
            {"Algorithm 1": ("ca-fed", {"ties": "keep"})},
            {NONE_OUT: np.ones(n, dtype=np.bool_), RARE_OUT: rates >= rates.mean()},
        )
        for name in (LOSSES, FACTOR)
    }


def curse_of(data, scale, split):
    """Measure one split: a row per decision, with its gap to the bound in per cent and the percentile of its error."""
    n = scale.clients
    federation = digits(n_clients=n, seed=split, **DATA[data])
    labels = federation.label_distributions
    samples, graph = federation.sizes, distances(dependency_graph(similarity(labels)))
    groups = group_clients(labels, scale.groups, seed=split).labels
    chains = AVAILABILITY.build("ca-fed", federation, split)
    found = []
    known = {}  # surrogates of labels are the same in all rounds
    for t in scale.rounds:
        model, rng = observed(federation, t, split), generator(split, "selector", t)
        updates = model.updates.astype(np.float64)
        orders = np.argsort(rng.random((RANDOM, n)), axis=1)
        of_round = [(size, selections(graph, updates, samples, orders[:, :size])) for size in scale.sizes]
        of_round += [(size, allocations(labels, groups, updates, size, rng)) for size in scale.allotted]
        of_round += [(n, exclusions(model.probed, chains.rates(t), chains.correlation, updates, orders, rng))]
        for size, named in of_round:
            for name, surrogate in named.items():
                solved = known.get((name, size)) or surrogate.solved(split)
                if name in (GRAPH, LABELS):
                    known[name, size] = solved
                cell = {"data": data, "split": split, "round": t, "M": size, "surrogate": name}
                found.append(pd.DataFrame(cell | surrogate.table(solved)))
    return pd.concat(found, ignore_index=True)


def _masks(selections, n):
    """Return selections as a table of truth values, (k, n)."""
    masks = np.zeros((len(selections), n), dtype=np.bool_)
    for mask, chosen in zip(masks, selections, strict=True):
        mask[chosen] = True
    return masks


# -- tables and figure -------------------------------------------------------------------------------------------------

CELL = ["surrogate", "data", "round", "M"]


#: Decisions that others are measured beside; where there is none of these, beside the exact one.
CONTROLS = (PROPORTIONAL, NONE_OUT)


def by_split(rows):
    """Average over the decisions of each kind in each split, without those on the way: all that tables need."""
    made = rows[rows["decided by"] != "on the way"]
    means = made.groupby([*CELL, "decided by", "split"], sort=False)[["gap %", "error", "percentile"]].mean()
    return means.reset_index()


def decisions(rows):
    """Average the error's percentile over splits, by who decided, and say whether it is better than random."""

    def measure(group):
        of_split = group.groupby("split")[["gap %", "error", "percentile"]].mean()
        test = compare_means(of_split["percentile"], 50.0, margin=MARGIN)
        return (
            {"gap %": of_split["gap %"].mean(), "error": of_split["error"].mean()}
            | {"error +-": half_width(of_split["error"]), "percentile": 50 + test.difference, "+-": test.half}
            | {"splits": test.n, "p": test.p, "verdict": test.verdict}
        )

    table = by_cell(rows[rows["decided by"] != "on the way"], [*CELL, "decided by"], measure)
    # Percentiles are among random ones, and there is one way only to leave out none.
    return judged(table, ~table["decided by"].isin(["random", NONE_OUT]), table["percentile"] - 50, "than random")


def beside_controls(rows):
    """Average over splits how much larger the error is than a control's, by who decided."""
    found = []
    for key, group in rows[rows["decided by"] != "on the way"].groupby(CELL, sort=False):
        errors = group.groupby(["split", "decided by"], sort=False)["error"].mean().unstack()
        controls = errors.columns.intersection(CONTROLS)
        for control in controls if controls.size else ["exact"]:
            for name in errors.columns.drop(control):
                test = compare_means(100 * (errors[name] / errors[control] - 1), margin=CLOSE)
                found.append(
                    dict(zip(CELL, key, strict=True))
                    | {"decided by": name, "control": control, "error %": test.difference, "+-": test.half}
                    | {"splits": test.n, "p": test.p, "verdict": test.verdict}
                )
    columns = [*CELL, "decided by", "control", "error %", "+-", "splits", "p", "verdict"]
    table = pd.DataFrame(found, columns=columns)
    return judged(table, table["splits"] > 0, table["error %"], "than control")


def judged(table, tested, more, verdict):
    """Adjust p-values for the rows that are tested (Holm), and call them better, worse, the same or inconclusive."""
    table["adjusted"] = np.nan
    table.loc[tested, "adjusted"] = holm(table.loc[tested, "p"])
    alone = table["verdict"].replace({"agrees": "the same", "higher": "inconclusive", "lower": "inconclusive"})
    table[verdict] = alone.mask(table["adjusted"] < 0.05, more.lt(0).map({True: "better", False: "worse"}))
    table.loc[~tested, verdict] = ""
    return table.drop(columns=["p", "verdict"])


#: Decisions that a curve is of; heuristics that begin elsewhere are not on a way to the optimum.
ON_THE_WAY = ("random", "on the way", "swap ascent", "transfers", "flips", "exact")


def curve_by_split(rows):
    """Average the error's percentile by gap and split, of all decisions on ways from random ones to the exact."""
    labelled = rows[rows["decided by"].isin(ON_THE_WAY)]
    between = [f"{low:g}-{high:g}" for low, high in itertools.pairwise(GAPS[1:-1])]
    names = [f"up to {GAPS[1]:g}", *between, f"> {GAPS[-2]:g}"]
    labelled = labelled.assign(gap=pd.cut(labelled["gap %"], GAPS, labels=names, include_lowest=True))
    return labelled.groupby([*CELL, "gap", "split"], sort=False, observed=True)["percentile"].mean().reset_index()


def curve(of_split):
    """Average the percentiles of `curve_by_split` over splits."""
    groups = of_split.groupby([*CELL, "gap"], sort=False, observed=True)["percentile"]
    table = groups.agg(percentile="mean", half=half_width, splits="count").reset_index()
    return table.sort_values([*CELL, "gap"], kind="stable").rename(columns={"gap": "gap, %", "half": "+-"})


#: Surrogates of the figure, a column each; with the updates' own deviations an allocation's optimum is the best.
DRAWN = (GRAPH, "dispersion, updates", "coverage, updates", LABELS, LOSSES)


def curse_figure(table):
    """Draw the error's percentile against the gap: a column per surrogate, a row per M, a line per data and round."""
    sizes = table.groupby("surrogate", observed=True)["M"].unique()
    shown = {name: [(name, size) for size in sorted(sizes[name])] for name in DRAWN}
    shown[LOSSES] += [(FACTOR, size) for _, size in shown[LOSSES]]
    height = max(map(len, shown.values()))
    figure = Figure(figsize=(2.15 * len(shown), 2.15 * height + 0.7), layout="constrained")
    axes = figure.subplots(height, len(shown), squeeze=False, sharex=True, sharey=True)
    gaps = list(table["gap, %"].cat.categories)[::-1]
    colours = dict(zip(table["data"].unique(), ("#0072B2", "#E69F00", "#D55E00", "#009E73"), strict=False))
    dashes = dict(zip(sorted(table["round"].unique()), ("-", "--", ":", "-."), strict=False))
    for column, panels in zip(axes.T, shown.values(), strict=True):
        for axis in column[len(panels) :]:
            axis.set_visible(False)
        for axis, (name, size) in zip(column, panels, strict=False):
            part = table[(table["M"] == size) & (table["surrogate"] == name) & (table["splits"] >= FEWEST)]
            for (data, t), mine in part.groupby(["data", "round"], sort=False, observed=True):
                look = {"color": colours[data], "linestyle": dashes[t], "label": f"{data}, round {t}", "marker": "."}
                places = [gaps.index(gap) for gap in mine["gap, %"]]
                axis.errorbar(places, mine["percentile"], mine["+-"], linewidth=1.2, elinewidth=0.6, **look)
            axis.axhline(50, color="grey", linewidth=0.6)
            axis.set(ylim=(0, 100))
            axis.set_xticks(range(len(gaps)), gaps, rotation=60)
            axis.set(title=name if name in (LOSSES, FACTOR) else f"{name}, M = {size}")
        column[len(panels) - 1].tick_params(labelbottom=True)
        column[len(panels) - 1].set_xlabel("gap to the certified bound, %")
    for axis in axes[:, 0]:
        axis.set(ylabel="error of the update,\npercentile of random")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def results(setup):
    """Yield decisions, curves, controls and figure; tables of a surrogate each, which keeps them short."""
    scale = setup.scale
    plan = {(data, split): (data, scale, split) for split in range(scale.splits) for data in scale.data}
    rows = pd.concat(setup.parts("splits", curse_of, plan).values(), ignore_index=True)
    of_split = curve_by_split(rows)
    yield Rows(by_split(rows), "splits")
    yield Rows(of_split, "curve-splits")
    by_gap = curve(of_split)
    for table, title, file in (
        (decisions(rows), "error of the update, percentile of random decisions", "decisions"),
        (by_gap, "the same by the gap to the certified bound", "curve"),
        (beside_controls(rows), "error of the update beside a control's, %", "controls"),
    ):
        for name, part in table.groupby("surrogate", sort=False):
            ending = str(name).lower().replace(",", "").replace(" ", "-")
            yield Table(part, f"{name}: {title}", f"{file}-{ending}", 1)
    yield Picture(curse_figure(by_gap), "curve")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
