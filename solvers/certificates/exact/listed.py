"""Selections that a certificate lists: the members of a pool and those that were refused, which its goal is not about.

``pool`` has m places of clients for each member, best first, ``vetoed`` m for each refused selection, ``diverse`` the
number d of clients that a member has beside each better one, where that is more than one. A search with either
evaluates every other selection that no tangent closes: it is worth no more than the goal, or no better than a member
with which it shares all but fewer than d clients. Dominance proves nothing then: it is about the best selection alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solvers.certificates.exact.concave import Integers, Rounded
from solvers.certificates.exact.sides import ONE, ZERO, Sides
from solvers.errors import CertificateError


class Listed:
    """The selections that a certificate lists, checked.

    Parameters
    ----------
    data : Rounded
        The problem in whole numbers.
    sides : Sides
        Its side constraints.
    arrays : mapping of str to array of int
        As `solvers.certificates.schema` passes them.

    Attributes
    ----------
    pool : list of tuple of int
        Members, best first.
    values : list of int
        What they are worth in the rounded problem.
    vetoed : set of tuple of int
        Refused selections.
    most : list of int
        What the best listed selection is worth, refused or not; empty where nothing is listed.

    Raises
    ------
    CertificateError
        Where one is no selection, does not keep the side constraints, is listed twice, or is not in its place; where
        members differ in too few clients.
    """

    def __init__(self, data: Rounded, sides: Sides, arrays: Mapping[str, Integers]) -> None:
        self.pool, refused = (self._selections(arrays[name], data.size) for name in ("pool", "vetoed"))
        self.vetoed = set(refused)
        if len({*self.pool, *refused}) < len(self.pool) + len(refused):
            raise CertificateError("a selection is listed twice")
        for chosen in (*self.pool, *refused):
            state = np.full(sides.start.size, ZERO, dtype=np.int8)
            state[list(chosen)] = ONE
            differs = (sides.start != state) & (sides.start != 0)
            uses = sides.rows[:, list(chosen)].sum(axis=1)
            if differs.any() or any(use > limit for use, limit in zip(uses.tolist(), sides.limits, strict=True)):
                raise CertificateError(f"the listed selection {list(chosen)} does not keep the side constraints")
        self.most = [max(data.value(list(chosen)) for chosen in (*self.pool, *refused))] if self.pool or refused else []
        if arrays["diverse"].size > 1:
            raise CertificateError("members differ in more than one number of clients")
        self.diverse = int(arrays["diverse"][0]) if arrays["diverse"].size else 1
        self.values = [data.value(list(chosen)) for chosen in self.pool]
        spare = 2 * data.error / data.unit
        if any(first + spare < second for first, second in zip(self.values, self.values[1:], strict=False)):
            raise CertificateError("the pool is not listed best first")
        for k, chosen in enumerate(self.pool if self.diverse > 1 else ()):
            if any(len({*chosen} - {*other}) < self.diverse for other in self.pool[:k]):
                raise CertificateError(f"members of the pool differ in fewer than {self.diverse} clients")
        self.places = dict(zip(self.pool, self.values, strict=True))

    @staticmethod
    def _selections(places: Integers, size: int) -> list[tuple[int, ...]]:
        if places.size % size:
            raise CertificateError(f"the listed selections do not have {size} clients each")
        found = places.reshape(-1, size)
        if (np.diff(found, axis=1) <= 0).any():
            raise CertificateError("the clients of a listed selection are not in rising order")
        return [tuple(each) for each in found.tolist()]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is listed."""
        return not self.pool and not self.vetoed

    def excepts(self, chosen: tuple[int, ...], value: int) -> bool:
        """Whether the goal is not about a selection: it is listed, or too near to a member that is no worse."""
        if chosen in self.vetoed or chosen in self.places:
            return True
        return self.diverse > 1 and any(
            len({*chosen} - {*other}) < self.diverse and value <= worth for other, worth in self.places.items()
        )
