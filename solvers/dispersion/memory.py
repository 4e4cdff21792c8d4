"""Warm starts between rounds: multipliers and selections reused by the next problem on the same graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.neighbourhood import gains
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.slice_form import units

__all__ = ["Memory"]


class Memory:
    """Multipliers and selections of earlier problems over the same clients, by client id.

    Concavity on the slice depends on the distances alone, and survives leaving clients out: the diagonal that made
    one round's objective concave serves the next round whatever the counts and whoever is available. It is only ever
    a start: every method certifies what it takes from here, so that a memory fed with another graph's problem costs
    time and nothing else.

    Parameters
    ----------
    elite : int
        Selections kept, the most recent ones.
    """

    def __init__(self, elite: int = 5) -> None:
        self.elite = elite
        self._selections: list[NDArray[np.int64]] = []
        self._diagonal: dict[int, float] = {}
        self._core = np.zeros(0, dtype=np.int64)
        self._multipliers: CoreMultipliers | None = None

    def start(self, problem: DispersionProblem) -> list[NDArray[np.int64]]:
        """Return earlier selections as decisions of this problem, completed greedily where clients are missing."""
        decisions = []
        for clients in self._selections:
            x = np.isin(problem.clients, clients).astype(np.int64)
            decisions.append(complete(problem, x))
        return decisions

    def diagonal(self, problem: DispersionProblem) -> NDArray[np.float64] | None:
        """A diagonal d for which w·H − Diag(d) was concave on the slice; ``None`` if some client is new."""
        try:
            values = [self._diagonal[int(client)] for client in problem.clients]
        except KeyError:
            return None
        return np.array(values) * problem.weight

    def core(self, problem: DispersionProblem) -> NDArray[np.int64]:
        """Places of the clients of the last core (`solvers.dispersion.relaxations.sifting`) that are there."""
        return np.flatnonzero(np.isin(problem.clients, self._core))

    def multipliers(self, problem: DispersionProblem, among: NDArray[np.int64]) -> CoreMultipliers | None:
        """Multipliers of the last core's clients among these places; ``None`` if most of them are missing or no use."""
        known = self._multipliers
        if known is None:
            return None
        places = np.full(known.core.size, -1, dtype=np.int64)
        order = np.argsort(problem.clients, kind="stable")
        clients = problem.clients[order]
        at = np.minimum(np.searchsorted(clients, known.core), clients.size - 1)
        is_there = clients[at] == known.core
        places[is_there] = order[at[is_there]]
        is_there &= np.isin(places, among)
        if 2 * np.count_nonzero(is_there) <= known.core.size:
            return None
        found = known.among(is_there, units(problem)[0] * problem.weight)
        if not found.is_usable:  # of a damaged file
            return None
        order = np.argsort(places[is_there])
        return replace(found.among(order), core=places[is_there][order])

    def keep_core(
        self,
        problem: DispersionProblem,
        core: NDArray[np.int64],
        multipliers: CoreMultipliers | None = None,
    ) -> None:
        """Remember clients, given by their places, whose relaxation reached all others, and its multipliers."""
        self._core = np.array(problem.clients)[core]
        if multipliers is not None and problem.weight > 0:
            kept = np.flatnonzero(np.isin(multipliers.core, core))
            unit = 1 / (units(problem)[0] * problem.weight)
            found = multipliers.among(kept, unit, np.float32)
            self._multipliers = replace(found, core=np.array(problem.clients)[found.core])

    def keep(
        self, problem: DispersionProblem, x: NDArray[np.int64] | None, diagonal: NDArray[np.float64] | None = None
    ) -> None:
        """Remember a selection, and a diagonal in the units of the problem's objective."""
        if x is not None:
            self._selections = [problem.selected(x), *self._selections][: self.elite]
        if diagonal is not None and problem.weight > 0:
            self._diagonal.update(zip(problem.clients.tolist(), (diagonal / problem.weight).tolist(), strict=True))

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Everything remembered, as arrays: what is chosen among equals depends on it."""
        widest = max((len(clients) for clients in self._selections), default=0)
        elite = np.full((len(self._selections), widest), -1, dtype=np.int64)
        for row, clients in zip(elite, self._selections, strict=True):
            row[: len(clients)] = clients
        state: dict[str, NDArray[np.generic]] = {
            "elite": elite,
            "clients": np.array(list(self._diagonal), dtype=np.int64),
            "diagonal": np.array(list(self._diagonal.values()), dtype=np.float64),
            "core": self._core,
        }
        if self._multipliers is not None:
            named = vars(self._multipliers)
            state |= {f"core_{name}": np.asarray(value) for name, value in named.items() if name != "core"}
            state["core_clients"] = self._multipliers.core
        return state

    def load_state_dict(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Restore what `state_dict` returned."""
        self._selections = [row[row >= 0] for row in np.asarray(state["elite"], dtype=np.int64)]
        clients, values = np.asarray(state["clients"]).tolist(), np.asarray(state["diagonal"]).tolist()
        self._diagonal = dict(zip(clients, values, strict=True))
        self._core = np.asarray(state.get("core", ()), dtype=np.int64)  # older states have none
        self._multipliers = None
        if "core_slack" in state:
            linear, slack, products = (np.array(state[f"core_{name}"]) for name in ("linear", "slack", "products"))
            level, penalty = (float(state[f"core_{name}"]) for name in ("level", "penalty"))
            clients = np.array(state["core_clients"])
            self._multipliers = CoreMultipliers(clients, linear, slack, products, level, penalty)


def complete(problem: DispersionProblem, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the clients of largest gain, or drop those of smallest, until ``size`` are chosen."""
    x = x.copy()
    pair = 2 * problem.weight
    g = gains(problem, x)
    while (count := int(x.sum())) != problem.size:
        wanted = count < problem.size
        candidates = np.flatnonzero(x == (0 if wanted else 1))
        client = candidates[g[candidates].argmax() if wanted else g[candidates].argmin()]
        x[client] = int(wanted)
        g += (pair if wanted else -pair) * problem.geometry.row(client)
    return x
