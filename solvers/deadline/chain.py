"""Nested knapsacks behind the deadline problem: their linear relaxation, and a search over times and values."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.deadline.problem import DeadlineProblem
from solvers.run import Run
from solvers.search import NodeOutcome, add_outcomes
from solvers.search.pool import offer_best
from solvers.subsets import from_clients

_EPS = float(np.finfo(np.float64).eps)

#: What is nearer to a whole number is one: the linear solver's rounding.
WHOLE = 1e-6

#: Selected clients, and others, whose pairs are exchanged.
_NEAR = 200

#: Pairs that are tried in the place of another: the longest that ends in time, and so many in all.
_SHORTER = 10

#: Exchanges of pairs that are tried: a tenth of a second.
_TRIED = 10_000


class Chain(NamedTuple):
    """Clients with due dates, read backwards from the deadline: the sum of the first k+1 uploads is at most room k.

    Times are whole numbers of 62 bits. Where the problem's own take more, they are rounded to a coarser unit, so that
    either no selection is lost ("down") or none is gained ("up"); ``coarser`` is the number of bits that are dropped.
    """

    clients: NDArray[np.int64]
    upload: NDArray[np.int64]
    room: NDArray[np.int64]
    values: NDArray[np.float64]
    coarser: int

    @staticmethod
    def of(problem: DeadlineProblem, rounding: Literal["down", "up"] = "down") -> Chain:
        """State the clients that meet the deadline alone."""
        ready, upload, deadline, _ = problem.whole
        clients = problem.sequence
        times = [upload[k] for k in clients]
        rooms = [deadline - ready[k] for k in clients]
        bits = max(rooms, default=0).bit_length() + len(clients).bit_length()
        coarser = max(0, bits - 62)
        if coarser and rounding == "down":
            times, rooms = [t >> coarser for t in times], [-(-room >> coarser) for room in rooms]
        elif coarser:
            times, rooms = [-(-t >> coarser) for t in times], [room >> coarser for room in rooms]
        values = problem.worth[clients]
        order = np.array(clients, dtype=np.int64)
        return Chain(order, np.array(times, np.int64), np.array(rooms, np.int64), values, coarser)

    @property
    def is_exact(self) -> bool:
        """Whether times are the problem's own, not rounded."""
        return self.coarser == 0

    @property
    def density(self) -> NDArray[np.float64]:
        """Value per unit of time; infinite for an upload that takes none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.upload > 0, self.values / self.upload, math.inf)

    def slack(self, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Compute the time that each room has left where the clients ``taken``, (n,) along the chain, are selected."""
        return self.room - np.cumsum(np.where(taken, self.upload, 0))

    def fits(self, taken: NDArray[np.bool_]) -> bool:
        """Return whether a selection ends in time by the chain, which may have rounded times up."""
        return bool((self.slack(taken)[taken] >= 0).all())


class Multipliers(NamedTuple):
    """Prices of time that fall along the chain, and the bound they give to what is left from each place on.

    ``ahead[j] − price[j]·t`` bounds the value of clients j, j+1, … where those before them take the time t; with
    numbers of some of the clients in ranges (`Counts`), less ``place[j]`` for each of these before j.
    """

    price: NDArray[np.float64]
    ahead: NDArray[np.float64]
    margin: float
    counts: Counts | None = None


class Counts(NamedTuple):
    """Ranges for the number of members among the first k + 1 clients, (n,), and prices of a place ahead, (n + 1,)."""

    members: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    place: NDArray[np.float64]


def multipliers(chain: Chain) -> Multipliers:
    r"""Solve the linear relaxation, in which uploads may be cut, by taking the densest first.

    The uploads that fit form a polymatroid, so that this is optimal: where a room is full, the density of the client
    that filled it is the price of time for everybody it held back. Any falling prices π ≥ 0 give a bound,

    .. math:: \sum_j \max(0, w_j - \pi_j u_j) + \sum_k (\pi_k - \pi_{k+1})\, d_k ,

    so that rounding of the prices costs nothing but sharpness; ``margin`` covers that of the sums.
    """
    n = chain.clients.size
    price, slack, density = np.zeros(n), chain.room.copy(), chain.density
    closed = 0  # clients before this place are held back by a full room
    for j in np.argsort(-density, kind="stable").tolist():
        if j < closed:
            continue
        left = slack[j:]
        least = int(left.min())
        if least >= chain.upload[j]:
            left -= chain.upload[j]
            continue
        left -= least
        last = j + int(np.flatnonzero(left == 0)[-1]) + 1
        price[closed:last] = density[j]
        closed = last
    falls = price - np.append(price[1:], 0.0)
    gains = np.maximum(chain.values - price * chain.upload, 0.0)
    rooms = falls * chain.room
    ahead = np.append(np.cumsum((gains + rooms)[::-1])[::-1], 0.0)
    # A term has a few roundings, a sum n of them; the largest term in which prices take part is price · room.
    size = float(chain.values.sum()) + float(ahead[0]) + float((price * chain.room).max(initial=0.0))
    return Multipliers(np.append(price, 0.0), ahead, 8.0 * (n + 8) * _EPS * size)


def exchanged(chain: Chain, taken: NDArray[np.bool_], run: Run) -> NDArray[np.bool_]:
    """Improve a selection, (n,) along the chain, by the insertion or exchange of most value until none is left."""
    taken = taken.copy()
    never = np.iinfo(np.int64).max
    while not run.expired:
        free = np.flatnonzero(~taken)
        run.spend(5 * taken.size * (taken.size - free.size + 1))
        most, best = 0.0, (-1, -1)
        for out in (-1, *np.flatnonzero(taken).tolist()):
            gains = chain.values[free] - (chain.values[out] if out >= 0 else 0.0)
            if not (gains > most).any():
                continue
            kept = taken.copy()
            if out >= 0:
                kept[out] = False
            time = np.cumsum(np.where(kept, chain.upload, 0))
            room = np.minimum.accumulate(np.where(kept, chain.room - time, never)[::-1])[::-1]
            slack = np.minimum(np.append(room[1:], never), chain.room - time)[free]
            gains = np.where(chain.upload[free] <= slack, gains, 0.0)
            place = int(gains.argmax())
            if gains[place] > most:
                most, best = float(gains[place]), (out, int(free[place]))
        if best[1] < 0:
            break
        if best[0] >= 0:
            taken[best[0]] = False
        taken[best[1]] = True
    return taken


def exchanged_in_pairs(chain: Chain, taken: NDArray[np.bool_], x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Exchange two clients for two others where that is worth more, by the most that ends in time.

    Looked at are clients whose uploads are about as long as one that the relaxation ``x`` cuts.
    """
    cut = np.flatnonzero(np.abs(x - np.rint(x)) > WHOLE)
    if not cut.size:
        return taken
    near = np.argsort(np.abs(chain.upload - chain.upload[cut[0]]), kind="stable")
    outs, ins = (
        each[np.stack(np.triu_indices(each.size, 1), axis=1)]
        for each in (near[taken[near]][:_NEAR], near[~taken[near]][:_NEAR])
    )
    if not ins.size:
        return taken
    ins = ins[np.argsort(chain.upload[ins].sum(axis=1), kind="stable")]
    left = int(chain.slack(taken)[cut[0] :].min())
    longest = np.searchsorted(chain.upload[ins].sum(axis=1), chain.upload[outs].sum(axis=1) + left, "right")
    places = np.maximum(longest[:, None] - 1 - np.arange(_SHORTER), -1)
    gains = chain.values[ins].sum(axis=1)[places] - chain.values[outs].sum(axis=1)[:, None]
    gains = np.where(places >= 0, gains, 0.0).ravel()
    for place in np.argsort(-gains, kind="stable")[: min(int((gains > 0.0).sum()), _TRIED)].tolist():
        other = taken.copy()
        other[outs[place // _SHORTER]], other[ins[places.flat[place]]] = False, True
        if chain.fits(other):
            return other
    return taken


#: Work that a state counts as, which is sorted among the others. 2026-11-24.
_STATE_WORK = 20

#: States that are kept in whole numbers of any length, by Python's own arithmetic: some tenths of a second a client.
_IN_WHOLE_NUMBERS = 100_000


def search_in_whole_numbers(chain: Chain, known: Multipliers, problem: DeadlineProblem, run: Run) -> float | None:
    """Enumerate as `search` does where times take more than 62 bits, losing no selection that ends at the deadline.

    Parameters
    ----------
    chain, known
        The clients, with times rounded down, and multipliers of theirs: their bounds hold for the exact times, too.
    problem : DeadlineProblem
        Whose decisions are offered.
    run : Run
        Clock and incumbent.

    Returns
    -------
    float or None
        A bound; None where states became too many, or the time is over.
    """
    ready, upload, deadline, _ = problem.whole
    assert run.objective is not None
    target = _target(problem, run)
    states: list[tuple[int, float, Any]] = [(0, 0.0, None)]  # time, value, and the clients as linked pairs
    for j, k in enumerate(chain.clients.tolist()):
        room, step, worth = deadline - ready[k] - upload[k], upload[k], float(chain.values[j])
        states += [(time + step, value + worth, (k, before)) for time, value, before in states if time <= room]
        states.sort(key=lambda state: (state[0], -state[1]))
        ahead, price, most, alive = float(known.ahead[j + 1]), float(known.price[j + 1]), -math.inf, []
        for state in states:
            time, value, _ = state
            if value > most and value + ahead - price * (time >> chain.coarser) + known.margin > target:
                alive.append(state)
            most = max(most, value)
        states = alive
        run.nodes = (run.nodes or 0) + len(states)
        run.spend(5 * _STATE_WORK * len(states))
        if run.expired or len(states) > _IN_WHOLE_NUMBERS:
            return None
    if not states:
        return target
    _, value, links = max(states, key=lambda state: state[1])
    chosen = []
    while links is not None:
        client, links = links
        chosen.append(client)
    run.offer(from_clients(chosen, problem.n))
    return max(target, value + known.margin)


def _target(problem: DeadlineProblem, run: Run) -> float:
    """Return the value that a state must exceed: half of what still counts as proved is given up among near ties."""
    assert run.objective is not None  # the empty selection, at the least, has been offered
    return run.objective + max(0.5 * problem.tolerance_at(run.objective), 0.999 if problem.has_whole_values else 0.0)


def search(chain: Chain, known: Multipliers, problem: DeadlineProblem, run: Run, width: int) -> float:
    """Enumerate times and values client by client; return a bound, and offer the best selection to the run.

    A state is the time that the selected clients so far take, and their value. One that takes longer and is worth no
    more than another is dominated; one whose bound does not exceed the incumbent is fathomed. Those that go on are the
    run's nodes; the outcomes count the others as well.

    Parameters
    ----------
    chain, known
        The clients, and multipliers of theirs.
    problem : DeadlineProblem
        Whose decisions are offered.
    run : Run
        Clock and incumbent.
    width : int
        States to keep; those of the smallest bounds are given up, and count in the bound that is returned.
    """
    lost = best = _target(problem, run)
    times, values, numbers = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    counts = known.counts
    nodes = np.zeros(1, np.int64)  # place of each state's last selected client in the log of those
    log_client, log_before, count = [np.full(1, -1)], [np.full(1, -1)], 1
    top = 0.0
    for j in range(chain.clients.size):
        fits = times <= chain.room[j] - chain.upload[j]
        longer, richer = times[fits] + chain.upload[j], values[fits] + chain.values[j]
        times = np.concatenate([times, longer])
        values = np.concatenate([values, richer])
        numbers = np.concatenate([numbers, numbers[fits] + int(counts is not None and counts.members[j])])
        taken = np.concatenate([np.full(nodes.size, -1), nodes[fits]])
        nodes = np.concatenate([nodes, np.zeros(longer.size, np.int64)])
        run.spend(_STATE_WORK * values.size)
        order = np.lexsort((-values, times) if counts is None else (-values, times, numbers))
        values, times, numbers, taken, nodes = values[order], times[order], numbers[order], taken[order], nodes[order]
        before, edges = np.full(values.size, -math.inf), np.flatnonzero(np.diff(numbers)) + 1
        for start, stop in itertools.pairwise((0, *edges.tolist(), values.size)):  # states of the same number
            np.maximum.accumulate(values[start : stop - 1], out=before[start + 1 : stop])
        bounds = values + known.ahead[j + 1] - known.price[j + 1] * times + known.margin
        alive = values > before
        outcomes = [0] * len(NodeOutcome)
        outcomes[NodeOutcome.DOMINATED] = alive.size - int(alive.sum())
        if counts is not None:
            bounds -= counts.place[j + 1] * numbers
            outside = alive & ((numbers < counts.low[j]) | (numbers > counts.high[j]))
            outcomes[NodeOutcome.INFEASIBLE] = int(outside.sum())
            alive &= ~outside
        outcomes[NodeOutcome.FATHOMED_BY_BOUND] = int((alive & (bounds <= best)).sum())
        alive &= bounds > best
        if int(alive.sum()) > width:
            places = np.flatnonzero(alive)
            places = places[np.argpartition(-bounds[places], width)]
            lost = max(lost, float(bounds[places[width:]].max()))
            alive = np.zeros(alive.size, dtype=bool)
            alive[places[:width]] = True
        values, times, taken, nodes = values[alive], times[alive], taken[alive], nodes[alive]
        numbers, bounds = numbers[alive], bounds[alive]
        new = np.flatnonzero(taken >= 0)
        log_client.append(np.full(new.size, chain.clients[j]))
        log_before.append(taken[new])
        nodes[new] = count + np.arange(new.size)
        count += new.size
        run.nodes = (run.nodes or 0) + values.size
        outcomes[NodeOutcome.BRANCHED if j + 1 < chain.clients.size else NodeOutcome.SOLVED] = values.size
        add_outcomes(run.details, outcomes)
        if not values.size:
            return lost
        top = float(bounds.max())
        if run.expired:
            lost = max(lost, top)
            break
    clients, previous = np.concatenate(log_client), np.concatenate(log_before)
    node, chosen = int(nodes[int(values.argmax())]), []
    while node > 0:
        chosen.append(int(clients[node]))
        node = int(previous[node])
    x = from_clients(chosen, problem.n)
    found = problem.violation(x) == 0.0
    if found:
        run.offer(x)
    return max(lost, top if not found else float(values.max()) + known.margin)


def search_all(chain: Chain, known: Multipliers, problem: DeadlineProblem, run: Run, width: int) -> float:
    """Enumerate all selections that may be members of the run's pool, and offer the best; bound those not offered.

    As `search`, but no state dominates another: two of one time and value are two selections.

    Parameters
    ----------
    chain, known
        The clients, with exact times, and multipliers of theirs.
    problem : DeadlineProblem
        Whose decisions are offered.
    run : Run
        Clock, incumbents and their pool.
    width : int
        States to keep; those of the smallest bounds are given up, and count in the bound that is returned.
    """
    assert run.pool is not None
    lost = -math.inf
    times, values, nodes = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    log_client, log_before, count = [np.full(1, -1)], [np.full(1, -1)], 1
    for j in range(chain.clients.size):
        fits = np.flatnonzero(times <= chain.room[j] - chain.upload[j])
        taken = np.concatenate([np.full(nodes.size, -1), nodes[fits]])
        nodes = np.concatenate([nodes, count + np.arange(fits.size)])
        times = np.concatenate([times, times[fits] + chain.upload[j]])
        values = np.concatenate([values, values[fits] + chain.values[j]])
        run.spend(_STATE_WORK * values.size)
        bounds = values + known.ahead[j + 1] - known.price[j + 1] * times + known.margin
        alive = bounds >= run.pool.cutoff
        outcomes = [0] * len(NodeOutcome)
        outcomes[NodeOutcome.FATHOMED_BY_BOUND] = alive.size - int(alive.sum())
        if int(alive.sum()) > width:
            places = np.flatnonzero(alive)
            places = places[np.argpartition(-bounds[places], width)]
            lost = max(lost, float(bounds[places[width:]].max()))
            alive = np.zeros(alive.size, dtype=bool)
            alive[places[:width]] = True
        times, values, nodes, taken = times[alive], values[alive], nodes[alive], taken[alive]
        new = np.flatnonzero(taken >= 0)
        nodes[new] = count + np.arange(new.size)
        log_client.append(np.full(new.size, chain.clients[j]))
        log_before.append(taken[new])
        count += new.size
        run.nodes = (run.nodes or 0) + values.size
        outcomes[NodeOutcome.BRANCHED if j + 1 < chain.clients.size else NodeOutcome.SOLVED] = values.size
        add_outcomes(run.details, outcomes)
        if run.expired and values.size:
            lost = max(lost, float(bounds[alive].max()))
            break
    clients, previous = np.concatenate(log_client), np.concatenate(log_before)

    def decision(place: int) -> NDArray[np.int64]:
        node, chosen = int(nodes[place]), []
        while node > 0:
            chosen.append(int(clients[node]))
            node = int(previous[node])
        return from_clients(chosen, problem.n)

    offer_best(run, values + known.margin, decision)
    return max(lost, run.pool.cutoff)
