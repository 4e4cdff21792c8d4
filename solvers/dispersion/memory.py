"""Warm starts between rounds: multipliers and selections reused by the next problem on the same graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.neighbourhood import gains
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.sifting import CoreMultipliers
from solvers.dispersion.relaxations.slice_form import units
from solvers.errors import InvalidOption


class Memory:
    """Multipliers and selections of earlier problems over the same clients, by client id.

    Concavity on the slice depends on the distances alone, and survives leaving clients out: the diagonal that made
    one round's objective concave serves a later one with other counts, over some of its clients. Methods certify what
    they take from here: a memory of another graph's problems costs time, and makes no bound wrong.

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
        """Return earlier selections as decisions of this problem, brought to its size greedily."""
        decisions = []
        for clients in self._selections:
            x = np.isin(problem.clients, clients).astype(np.int64)
            decisions.append(complete(problem, x))
        return decisions

    def diagonal(self, problem: DispersionProblem) -> NDArray[np.float64] | None:
        """Return the diagonal kept for these clients, times the weight; ``None`` if some client is new."""
        try:
            values = [self._diagonal[int(client)] for client in problem.clients]
        except KeyError:
            return None
        return np.array(values) * problem.weight

    def core(self, problem: DispersionProblem) -> NDArray[np.int64]:
        """Places of the clients of the last core (`solvers.dispersion.relaxations.sifting`) that are there."""
        return np.flatnonzero(np.isin(problem.clients, self._core))

    def multipliers(self, problem: DispersionProblem, among: NDArray[np.int64]) -> CoreMultipliers | None:
        """Multipliers of the last core's clients among these places; ``None`` without any that are usable.

        Also where half of the core's clients or more are missing.
        """
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
        """Remember clients of a core, given by their places, and multipliers of those among them."""
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
        """Everything remembered, as arrays."""
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
        """Restore what `state_dict` returned.

        Raises
        ------
        InvalidOption
            When an array is missing, or has another shape or type than it was kept with; those of a core may be left
            out together. Numbers may be any.
        """
        elite, clients = _checked(state, "elite", "iu", ndim=2), _checked(state, "clients", "iu", ndim=1)
        values = _checked(state, "diagonal", "f", shape=clients.shape)
        core = _checked(state, "core", "iu", ndim=1) if "core" in state else np.zeros(0)  # older states have none
        multipliers = None
        if "core_slack" in state:
            ids = _checked(state, "core_clients", "iu", ndim=1)
            linear = _checked(state, "core_linear", "f", shape=ids.shape)
            slack, products = (_checked(state, f"core_{name}", "f", shape=2 * ids.shape) for name in _SQUARE)
            level, penalty = (float(_checked(state, f"core_{name}", "f", shape=())) for name in ("level", "penalty"))
            multipliers = CoreMultipliers(ids, linear, slack, products, level, penalty)
        self._selections = [row[row >= 0] for row in elite.astype(np.int64)]
        self._diagonal = dict(zip(clients.tolist(), values.tolist(), strict=True))
        self._core, self._multipliers = core.astype(np.int64), multipliers


#: Multipliers of pairs of the core.
_SQUARE = ("slack", "products")


def _checked(
    state: Mapping[str, Any], name: str, kinds: str, ndim: int | None = None, shape: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """Return an array of a memory's state with this kind of numbers and these dimensions, or this shape."""
    if name not in state:
        raise InvalidOption(f"the state of a memory has no array {name!r}")
    array = np.array(state[name])
    is_right = array.ndim == ndim if shape is None else array.shape == shape
    if (array.size and array.dtype.kind not in kinds) or not is_right:
        what = f"{ndim} dimension(s)" if shape is None else f"shape {shape}"
        number = "whole numbers" if kinds == "iu" else "floats"
        raise InvalidOption(
            f"{name!r} in the state of a memory must hold {number} in {what}; got {array.dtype} of shape {array.shape}"
        )
    return array


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
