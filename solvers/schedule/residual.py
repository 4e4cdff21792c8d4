"""Exchanges along rounds: paths of the residual graph from clients with many turns to clients with few."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from solvers.run import Run
from solvers.schedule.problem import ScheduleProblem


def round_by_round(
    available: NDArray[np.bool_], sizes: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator | None
) -> NDArray[np.bool_]:
    """Select in each round those of the fewest turns so far; ties at random, or by id without a generator."""
    turns = counts.copy()
    table = np.zeros(available.shape, dtype=np.bool_)
    for t in range(available.shape[0]):
        there = np.flatnonzero(available[t])
        ties = there if rng is None else rng.random(there.size)
        chosen = there[np.lexsort((ties, turns[there]))[: sizes[t]]]
        table[t, chosen] = True
        turns[chosen] += 1
    return table


def even_out(available: NDArray[np.bool_], counts: NDArray[np.int64], run: Run, table: NDArray[np.bool_]) -> bool:
    r"""Move turns from clients with many to clients with few until no path of exchanges does; True once none does.

    Client k gives its turn in round t to a client available there, that one its turn in another round to a third, and
    so on: a path of the residual graph. It lowers :math:`\sum v^2` where its ends differ by two turns or more, and
    where there is none the counts are optimal. From the highest count h down: all clients of h turns send one to
    clients of at most h − 2, by blocking flows in layers (Dinic). Clients that can then be reached from those that are
    left have h − 1 turns or more, and no later path leads out of them: they are put aside.

    Parameters
    ----------
    available : (T, N) ndarray of bool
        Which clients are available in which round.
    counts : (N,) ndarray of int
        How often each was selected before.
    run : Run
        Clock; ``table`` is feasible at any moment.
    table : (T, N) ndarray of bool
        The schedule to begin with; changed in place.
    """
    turns = counts + table.sum(axis=0)
    active = np.ones(turns.size, dtype=np.bool_)
    while active.any():
        high = int(turns[active].max())
        if not (active & (turns <= high - 2)).any():
            return True
        while True:
            if run.expired:
                return False
            run.spend(4 * available.size)
            levels, ends = _layers(available, table, turns, high, active)
            if not ends.size:
                break
            for path in _blocking(available, table, turns, levels, ends, high):
                _exchange(table, path)
                turns[path[0]] -= 1
                turns[path[-1]] += 1
        active &= levels < 0  # those whom clients of so many turns still reach are put aside
    return True


def find_exchange(problem: ScheduleProblem, table: NDArray[np.bool_]) -> list[int] | None:
    """Find a path of exchanges that lowers the variance; None proves that the schedule is optimal.

    Parameters
    ----------
    problem : ScheduleProblem
        The problem.
    table : (T, N) ndarray of bool
        A feasible schedule.

    Returns
    -------
    list of int or None
        Clients and rounds in turn: client, round in which it gives its turn to the next client, and so on.
    """
    turns, everybody = problem.turns(table), np.ones(problem.n, dtype=np.bool_)
    for high in np.unique(turns)[::-1].tolist():
        if turns.min() > high - 2:
            return None
        levels, ends = _layers(problem.available, table, turns, high, everybody)
        if ends.size:
            return next(_blocking(problem.available, table, turns, levels, ends, high))
    return None


def _layers(
    available: NDArray[np.bool_],
    table: NDArray[np.bool_],
    turns: NDArray[np.int64],
    high: int,
    active: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distances from the active clients of ``high`` turns, in exchanges (−1: not reached), and the first with room."""
    levels = np.where(active & (turns == high), 0, -1)
    fresh, waiting = np.flatnonzero(levels == 0), np.ones(available.shape[0], dtype=np.bool_)
    depth = 0
    while fresh.size:
        if (ends := fresh[turns[fresh] <= high - 2]).size:
            return levels, ends
        # Rounds in which a client reached last has a turn to give; each is opened once.
        opened = np.flatnonzero(waiting)[table[np.ix_(waiting, fresh)].any(axis=1)]
        waiting[opened] = False
        depth += 1
        taking = (available[opened] & ~table[opened]).any(axis=0)
        fresh = np.flatnonzero(taking & active & (levels < 0))
        levels[fresh] = depth
    return levels, fresh


def _blocking(
    available: NDArray[np.bool_],
    table: NDArray[np.bool_],
    turns: NDArray[np.int64],
    levels: NDArray[np.int64],
    ends: NDArray[np.int64],
    high: int,
) -> Iterator[list[int]]:
    """Shortest paths that share no exchange, walked back from the ends; the caller makes each exchange at once."""
    depth = int(levels[ends[0]])
    tried: dict[tuple[int, int], list[int]] = {}  # clients of a layer that could still give their turn in a round
    rounds: dict[int, list[int]] = {}  # rounds in which a client could still take a turn
    spent = np.zeros(turns.size, dtype=np.bool_)

    def givers(t: int, level: int) -> list[int]:
        if (t, level) not in tried:
            tried[t, level] = np.flatnonzero(table[t] & (levels == level)).tolist()
        return tried[t, level]

    for end in ends.tolist():
        while turns[end] <= high - 2:
            path = [end]
            while path:
                client, level = path[-1], depth - len(path) // 2
                if level == 0:
                    break
                if client not in rounds:
                    rounds[client] = np.flatnonzero(available[:, client] & ~table[:, client]).tolist()
                # A round is left once nobody of the layer below gives a turn in it.
                while rounds[client]:
                    t = rounds[client][-1]
                    below = givers(t, level - 1)
                    while below and (spent[below[-1]] or not table[t, below[-1]]):
                        below.pop()
                    if below and not table[t, client]:
                        path += [t, below[-1]]
                        break
                    rounds[client].pop()
                else:
                    spent[client] = True  # nothing leads here any more
                    del path[-2:]
            if not path:
                break
            spent[path[-1]] = True  # a source has one turn too many
            yield path[::-1]


def _exchange(table: NDArray[np.bool_], path: list[int]) -> None:
    """Let each client of the path give its turn in the round after it to the next client."""
    for place in range(0, len(path) - 1, 2):
        table[path[place + 1], path[place]] = False
        table[path[place + 1], path[place + 2]] = True
