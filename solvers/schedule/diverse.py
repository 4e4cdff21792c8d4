"""Methods for diverse schedules: rounds one after the other, rounds in turn, and proofs by prices of a turn."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion import DispersionProblem
from solvers.problem import certified
from solvers.registry import method
from solvers.run import Run
from solvers.schedule.problem import DiverseScheduleProblem
from solvers.search import NodeOutcome, add_outcomes
from solvers.solving import solve

_EPS = float(np.finfo(np.float64).eps)

#: Selections of a round that are enumerated once, instead of solving it as a dispersion problem each time.
_FEW = 20_000

#: Steps of the multipliers, and those without a better bound after which steps are halved; 2026-11-23, by hand.
_STEPS, _PATIENCE = 300, 8

#: Numbers of the array that the search makes of vectors of counts and selections at a time; it keeps a tenth as many.
_CHUNK = 10_000_000


class _Few(NamedTuple):
    """All selections of a round: clients, (C, m), and the weighted distances of each, (C,)."""

    clients: NDArray[np.int64]
    worth: NDArray[np.float64]


class Rounds:
    """The rounds of a diverse schedule, each with the cheapest selection at prices of a turn.

    Parameters
    ----------
    problem : DiverseScheduleProblem
        The problem.
    run : Run
        Clock.
    """

    def __init__(self, problem: DiverseScheduleProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.ids = [np.flatnonzero(there) for there in problem.available]
        self.few = [self._few(t) for t in range(len(self.ids))]
        self.is_over = False

    def _few(self, t: int) -> _Few | None:
        ids, m = self.ids[t], int(self.problem.sizes[t])
        if math.comb(ids.size, m) > _FEW:
            return None
        each = list(itertools.combinations(ids.tolist(), m))
        chosen = np.array(each, dtype=np.int64).reshape(len(each), m)
        worth = np.zeros(len(chosen))
        for i, j in itertools.permutations(range(m), 2):
            worth += self.problem.distances[chosen[:, i], chosen[:, j]]
        return _Few(chosen, self.problem.weight * worth)

    def cheapest(self, t: int, price: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float] | None:
        """Select for a round where a turn of client k costs ``price[k]``; None where the time is over.

        Returns
        -------
        (N,) ndarray of bool, float
            The selection, and a lower bound of what every selection costs: prices less weighted distances.
        """
        problem, few, ids = self.problem, self.few[t], self.ids[t]
        row = np.zeros(problem.n, dtype=np.bool_)
        if few is not None:
            cost = price[few.clients].sum(axis=1) - few.worth
            place = int(cost.argmin())
            row[few.clients[place]] = True
            return row, float(cost[place])
        left = self.run.remaining
        if self.is_over or left <= 0.0:
            return None
        engine = DispersionProblem(
            problem.distances[np.ix_(ids, ids)], price[ids], size=int(problem.sizes[t]), weight=problem.weight
        )
        limit = None if math.isinf(left) else left
        found = solve(engine, "auto", time_limit=limit, seed=self.run.seed, stop=self.run.halt)
        if found.stopped == "interrupted":
            self.run.stop("interrupted")
        if found.stopped == "interrupted" or found.x is None or found.bound is None:
            self.is_over = True
            return None
        row[ids[found.x == 1]] = True
        return row, -float(found.bound)

    def bound(self, price: NDArray[np.float64]) -> tuple[float, NDArray[np.bool_], NDArray[np.int64]] | None:
        r"""Bound the objective from below: any prices λ give a bound, which is the Lagrangian one of :math:`v`.

        .. math:: \sum_k \min_v (v^2 / N - \lambda_k v) + \sum_k \lambda_k c_k - \bar v^2
                  + \sum_t \min_x (\lambda^\top x - w\, x^\top H x)

        Returns
        -------
        float, (T, N) ndarray of bool, (N,) ndarray of int
            The bound, the schedule of the cheapest selections, and the counts at which squares are least.
        """
        problem, n = self.problem, self.problem.n
        rows, values = [], []
        for t in range(len(self.ids)):
            found = self.cheapest(t, price)
            if found is None:
                return None
            rows.append(found[0])
            values.append(found[1])
        turns = self.least(price)
        mean = float(problem.counts.sum() + problem.sizes.sum()) / n
        parts = [*(turns * (turns / n - price)), *(price * problem.counts), -(mean**2), *values]
        size = math.fsum(np.abs(np.concatenate([turns * turns / n, price * turns, price * problem.counts])))
        size += mean**2 + self.magnitude(price)
        error = 8.0 * _EPS * (problem.size**2 + 8) * size
        return certified(math.fsum(parts), error, "min"), np.array(rows), turns

    def magnitude(self, price: NDArray[np.float64]) -> float:
        """Sum of what the rounds' costs are made of, for the rounding of their sums."""
        problem = self.problem
        m = problem.sizes.astype(np.float64)
        largest = problem.weight * float(problem.distances.max())
        return float((m * m * largest + m * float(np.abs(price).max())).sum())

    def least(self, price: NDArray[np.float64]) -> NDArray[np.int64]:
        """Counts within reach at which v²/N less the price of v turns is least."""
        fewest, most = self.problem.reachable()
        near = np.rint(price * self.problem.n / 2).astype(np.int64)
        return np.clip(near, fewest, most)


def _in_turn(problem: DiverseScheduleProblem, run: Run, rounds: Rounds, table: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Select each round anew, those of all others given, until none gets better by more than rounding."""
    turns, worth = problem.turns(table), [problem.worth(row) for row in table]
    stale, t = 0, 0
    while stale < len(table) and not run.expired:
        price = (2 * (turns - table[t]) + 1) / problem.n  # what another turn adds to the sum of squares over N
        found = rounds.cheapest(t, price)
        stale, here = stale + 1, t
        t = (t + 1) % len(table)
        if found is None:
            break
        row, value = found[0], problem.worth(found[0])
        gain = float(price[table[here]].sum() - price[row].sum()) + value - worth[here]
        if gain > 1e-12 * (rounds.magnitude(price) + 1.0):
            turns, stale = turns - table[here] + row, 0
            table[here], worth[here] = row, value
    return table


def _one_by_one(problem: DiverseScheduleProblem, rounds: Rounds) -> NDArray[np.bool_]:
    """Select for each round at the prices of the turns so far; where the time is over, those of the fewest turns."""
    table = np.zeros_like(problem.available)
    turns = problem.counts.copy()
    for t, size in enumerate(problem.sizes.tolist()):
        found = rounds.cheapest(t, (2 * turns + 1) / problem.n)
        if found is None:
            ids = rounds.ids[t]
            table[t, ids[np.argsort(turns[ids], kind="stable")[:size]]] = True
        else:
            table[t] = found[0]
        turns += table[t]
    return table


@method(DiverseScheduleProblem, "round-by-round", kind="heuristic")
def one_by_one(problem: DiverseScheduleProblem, run: Run) -> None:
    """Solve the rounds one after the other, given the turns so far, as FedGS does without knowing the future."""
    run.offer(_one_by_one(problem, Rounds(problem, run)))


@method(DiverseScheduleProblem, "local-search", kind="heuristic")
def local_search(problem: DiverseScheduleProblem, run: Run) -> None:
    """Solve each round anew, the turns of all others given, until no round gets better alone."""
    rounds = Rounds(problem, run)
    table = _one_by_one(problem, rounds)
    run.offer(table)
    run.offer(_in_turn(problem, run, rounds, table))


@method(DiverseScheduleProblem, "auto", kind="exact")
def auto(problem: DiverseScheduleProblem, run: Run) -> None:
    r"""Prove by prices of a turn: rounds decide alone at them, and a search joins those that are nearly as cheap.

    The counts :math:`v_k` are tied to the rounds by multipliers, raised along subgradients (Polyak's steps towards the
    best objective). What the rounds select is feasible, and is improved round by round. Where the selections of every
    round can be enumerated, those are kept that cost more than the cheapest by less than the gap. The counts that they
    reach are enumerated round by round, without those whose bound is above the incumbent; where they are too many, the
    cheapest are followed for a better incumbent, as long as there is one. A gap may then be left, as where a round has
    more than 20 000 selections.
    """
    run.tighten(problem.bound())
    rounds = Rounds(problem, run)
    table = _one_by_one(problem, rounds)
    run.offer(table)
    run.offer(_in_turn(problem, run, rounds, table))
    price = 2.0 * problem.turns(table) / problem.n
    best, step, stale = (-math.inf, price), 1.0, 0
    for _ in range(_STEPS):
        if run.proved or run.expired or (found := rounds.bound(price)) is None:
            break
        value, table, turns = found
        run.tighten(value)
        stale += 1
        if value > best[0]:
            best, stale = (value, price), 0
            run.offer(_in_turn(problem, run, rounds, table.copy()))
        elif stale == _PATIENCE:
            step, stale, price = step / 2, 0, best[1]
        slope = (problem.turns(table) - turns).astype(np.float64)
        assert run.objective is not None
        if not slope.any() or run.objective <= value:
            break
        price = price + step * (run.objective - value) / float(slope @ slope) * slope
    if not math.isfinite(best[0]) or any(few is None for few in rounds.few):
        return
    known = math.inf
    while not (run.proved or run.expired) and run.objective is not None and run.objective < known:
        known = run.objective
        reached = _search(problem, run, rounds, *best)
        if reached is not None:
            run.offer(_in_turn(problem, run, rounds, reached))


def _search(
    problem: DiverseScheduleProblem, run: Run, rounds: Rounds, bound: float, price: NDArray[np.float64]
) -> NDArray[np.bool_] | None:
    """Enumerate the counts that selections nearly as cheap as the cheapest reach, at prices with this bound.

    A schedule's objective is the sum of the bound, what its selections cost beyond the cheapest, and what its counts
    lose against those at which squares are least. Where counts become too many, those that look cheapest are kept, and
    nothing is proved. Returns the best schedule found.
    """
    assert run.objective is not None
    n, is_whole = problem.n, True
    margin = 64.0 * _EPS * (problem.size + 8) * (rounds.magnitude(price) + abs(bound) + abs(run.objective) + 1.0)
    gap = run.objective - bound + margin
    lowest = rounds.least(price)
    lowest_value = lowest * (lowest / n - price)
    there = problem.available.astype(np.int64)
    ahead: NDArray[np.int64] = there[::-1].cumsum(axis=0)[::-1] - there  # turns in the rounds after each
    counts, beyond = problem.counts[None, :].copy(), np.zeros(1)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for few, most in zip(rounds.few, ahead, strict=True):
        if not len(counts):
            break
        assert few is not None
        cost = price[few.clients].sum(axis=1) - few.worth
        cost -= cost.min()
        near = np.flatnonzero(cost <= gap)
        one = np.zeros((near.size, n), dtype=np.int64)
        np.put_along_axis(one, few.clients[near], 1, axis=1)
        pieces: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = []
        width, outcomes = max(1, _CHUNK // (near.size * n)), [0] * len(NodeOutcome)
        for first in range(0, len(counts), width):
            if run.expired:
                return None
            after = (counts[first : first + width, None] + one).reshape(-1, n)
            extra = (beyond[first : first + width, None] + cost[near]).ravel()
            most_likely = np.clip(lowest, after, after + most)
            all_in = extra + (most_likely * (most_likely / n - price) - lowest_value).sum(axis=1)
            alive = np.flatnonzero(all_in <= gap)
            outcomes[NodeOutcome.FATHOMED_BY_BOUND] += all_in.size - alive.size
            pieces.append((after[alive], extra[alive], all_in[alive], alive + first * near.size))
        after, extra, all_in, origin = (np.concatenate(each) for each in zip(*pieces, strict=True))
        order = np.lexsort((extra, *after.T))
        is_new = np.append(True, (after[order[1:]] != after[order[:-1]]).any(axis=1))[: order.size]
        outcomes[NodeOutcome.DOMINATED] = order.size - int(is_new.sum())
        order = order[is_new]
        if order.size > _CHUNK // (10 * n):
            order = order[np.argsort(all_in[order], kind="stable")[: _CHUNK // (10 * n)]]
            is_whole = False
        counts, beyond = after[order], extra[order]
        steps.append((origin[order] // near.size, near[origin[order] % near.size]))
        run.nodes = (run.nodes or 0) + order.size
        outcomes[NodeOutcome.BRANCHED if len(steps) < len(ahead) else NodeOutcome.SOLVED] = order.size
        add_outcomes(run.details, outcomes)
    table = None
    if len(counts):
        value = beyond + (counts * (counts / n - price)).sum(axis=1)
        place, table = int(value.argmin()), np.zeros_like(problem.available)
        for t in range(len(steps) - 1, -1, -1):
            few = rounds.few[t]
            assert few is not None
            table[t, few.clients[steps[t][1][place]]] = True
            place = int(steps[t][0][place])
        run.offer(table)
    if is_whole:
        run.tighten(min(run.objective, bound + gap), margin + problem.rounding_at(run.objective))
    return table
