"""Problems whose decision selects clients: the 0/1 vector, its ids, and the enumeration of all selections."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.checks import integer
from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import (
    ARGUMENTS,
    Budget,
    Constraints,
    Quota,
    checked_statement,
    constraint_name,
    normalised,
    statement_among,
)
from solvers.errors import Contradiction, InvalidProblem
from solvers.feasible_set import Hypersimplex
from solvers.options import AtLeast
from solvers.problem import Problem


class SubsetProblem(Problem):
    """Base class of the problems that select ``size`` of ``n`` clients, numbered from 0.

    A subclass that selects as many as it likes has a `violation` of its own, one whose clients have ids a `selected`.
    """

    size: int

    def decision(self, x: ArrayLike) -> NDArray[np.int64]:
        """``x`` as a vector of n integers; raises `ValueError` for another shape, or entries that are none."""
        array = np.asarray(x)
        if array.shape != (self.n,):
            raise ValueError(f"x must have one entry per client, {self.n}; got shape {array.shape}")
        try:
            integers = array.astype(np.int64)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"x must be a 0/1 vector: {error}") from None
        if not np.array_equal(integers, array):
            raise ValueError("x must be a 0/1 vector; it has fractional entries (round a solver's answer first)")
        return integers

    def selected(self, x: ArrayLike) -> NDArray[np.int64]:
        """Sorted ids of the clients that ``x`` selects."""
        return np.flatnonzero(self.decision(x))

    def violation(self, x: ArrayLike) -> float:
        """Largest of: excess over 0/1, and distance of ``1ᵀx`` from ``size``."""
        decided = self.decision(x)
        return float(max(abs(int(decided.sum()) - self.size), decided.max() - 1, -decided.min()))


def from_clients(clients: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the 0/1 vector of length n that selects these clients."""
    x = np.zeros(n, dtype=np.int64)
    x[np.asarray(clients, dtype=np.intp)] = 1
    return x


def from_row(clients: NDArray[np.int64], n: int, row: int) -> NDArray[np.int64]:
    """Return the 0/1 vector of length n that selects the clients of a row."""
    return from_clients(clients[row], n)


def in_order(x: NDArray[np.int64], order: list[int]) -> NDArray[np.int64]:
    """Return the selected clients, those of a list in its order first; what else the list has is left out."""
    listed = [client for client in order if x[client]]
    return np.array([*listed, *np.setdiff1d(np.flatnonzero(x), listed)], dtype=np.int64)


def checked_names(names: Any, n: int) -> tuple[str | int, ...]:
    """Return the names of n clients as a tuple of text and whole numbers; empty where there are none.

    Raises
    ------
    InvalidProblem
        When there is not one name per client, two are alike, or one is neither text nor a whole number.
    """
    if isinstance(names, str):
        raise InvalidProblem(f"names must be a sequence with a name for each client; got the text {names!r:.80}")
    if not (names is None or isinstance(names, Iterable)):
        raise InvalidProblem(f"names must be a sequence with a name for each client; got {names!r:.80}")
    found = tuple([] if names is None else np.asarray(names, dtype=object).tolist())
    if not found:
        return ()
    if len(found) != n:
        raise InvalidProblem(f"names must have one entry per client, {n}; got {len(found)}")
    plain = tuple(name.item() if isinstance(name, np.generic) else name for name in found)
    if wrong := [name for name in plain if not isinstance(name, str | int) or isinstance(name, bool)]:
        raise InvalidProblem(f"names must be text or whole numbers; got {wrong[0]!r:.80}")
    seen: set[str | int] = set()
    twice = next((name for name in plain if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
    if twice is not None:
        raise InvalidProblem(f"names must differ; {twice!r:.80} is there twice")
    return plain


def checked_size(size: Any, n: int) -> int:
    """Return ``size`` as an integer from 1 to n, or raise `InvalidProblem`."""
    found = integer(size, "size", AtLeast(1))
    if found > n:
        raise InvalidProblem(f"size must not exceed the number of clients, {n}; got {found}")
    return found


#: Selections that brute force is willing to look at.
LARGEST_ENUMERATION = 20_000_000


def check_enumerable(count: int) -> None:
    """Raise `InvalidProblem` for more selections than brute force looks at."""
    if count > LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force would look at {count:.3g} selections; it accepts at most {LARGEST_ENUMERATION} (use 'auto')"
        )


def selection_blocks(n: int, size: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """Enumerate the selections of ``size`` of n clients, ``at_once`` rows of ids at a time.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million.
    """
    check_enumerable(math.comb(n, size))
    every = itertools.combinations(range(n), size)
    while block := list(itertools.islice(every, at_once)):
        yield np.array(block, dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstrainedProblem(SubsetProblem):
    """Base class of the problems whose selections may have side constraints.

    Parameters
    ----------
    include, exclude : sequence of int
        Ids of clients that must be selected, and that must not.
    quotas : sequence of Quota
        Groups with a least and a largest number of selected clients; groups may overlap. A table with `Quota`'s
        parameters is taken for one.
    budgets : sequence of Budget
        Sums over the selected clients, with a limit each; tables as for quotas.
    conflicts : sequence of sequences of int
        Pairs, or larger groups, of ids of which at most one is selected.
    names : sequence of str or int
        What each client is called, in their order and all different: for `Solution.selected_names`, and in files. No
        decision depends on them.
    """

    include: Sequence[int] = ()
    exclude: Sequence[int] = ()
    quotas: Sequence[Quota] = ()
    budgets: Sequence[Budget] = ()
    conflicts: Sequence[Sequence[int]] = ()
    names: Sequence[str | int] = ()

    def _complete_constraints(self, clients: NDArray[np.int64], size: int) -> None:
        """Check, normalise and freeze names and side constraints of a problem of these clients."""
        self._freeze(names=checked_names(self.names, len(clients)))
        given = (self.include, self.exclude, self.quotas, self.budgets, self.conflicts)
        if all(value is None or (isinstance(value, tuple) and not value) for value in given):
            self._freeze(**dict.fromkeys(ARGUMENTS, ()))
            return
        stated = checked_statement({name: getattr(self, name) for name in ARGUMENTS})
        labels = self.__dict__.get("labels")
        stated["budgets"] = tuple(budget.among(labels) for budget in stated["budgets"])
        self._freeze(**stated)
        try:
            self._freeze(_normal_form=normalised(stated, clients, size))
            if self.is_constrained and (why := self.feasible.contradiction()) is not None:
                raise Contradiction(f"no selection keeps all constraints: {why}")
        except Contradiction as error:
            error.statement = stated, clients, size
            raise

    @cached_property
    def feasible(self) -> Hypersimplex:
        """The feasible set, relaxed to fractional decisions; a `ConstrainedSelections` where there are constraints."""
        return ConstrainedSelections.of(self.constraints) if self.is_constrained else Hypersimplex(self.n, self.size)

    def violation(self, x: ArrayLike) -> float:
        """Return the largest of: excess over 0/1, distance of ``1ᵀx`` from ``size``, misses of side constraints."""
        return self.feasible.violation(self.decision(x))

    def selection_blocks(self, at_once: int) -> Iterator[NDArray[np.int64]]:
        """Enumerate the selections that keep all constraints, ``at_once`` rows of positions at a time at most.

        Raises
        ------
        InvalidProblem
            When more than 20 million would be looked at.
        """
        if not self.is_constrained:
            yield from selection_blocks(self.n, self.size, at_once)
            return
        check_enumerable(self.feasible.count)
        every = self.feasible.selections()
        while block := list(itertools.islice(every, at_once)):
            yield np.array(block, dtype=np.int64)

    @cached_property
    def constraints(self) -> Constraints:
        """The side constraints in their normal form; `Constraints.is_empty` where there are none."""
        empty = Constraints(np.zeros(self.n, dtype=np.int8), self.size)
        return self.__dict__.get("_normal_form", empty)

    @property
    def is_constrained(self) -> bool:
        """Whether anything but the size is asked of a selection."""
        return "_normal_form" in self.__dict__ and not self.constraints.is_empty

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of quotas and budgets, then those of ``include``, ``exclude`` and ``conflicts`` that are stated."""
        quotas = [constraint_name("quotas", k, quota) for k, quota in enumerate(self.quotas)]
        budgets = [constraint_name("budgets", k, budget) for k, budget in enumerate(self.budgets)]
        return (*quotas, *budgets, *(name for name in ("include", "exclude", "conflicts") if getattr(self, name)))

    def without(self, *names: str) -> Self:
        """Return the problem without some side constraints, or without all where none is named.

        Parameters
        ----------
        *names : str
            Of `constraint_names`; a quota or budget without a name of its own is ``"quotas[0]"`` or ``"budgets[0]"``.

        Raises
        ------
        InvalidProblem
            When there is no such constraint.
        """
        if unknown := [name for name in names if name not in self.constraint_names]:
            has = ", ".join(map(repr, self.constraint_names)) or "none"
            raise InvalidProblem(f"the problem has no constraint {unknown[0]!r} (it has {has})")
        left: dict[str, Any] = {name: () if name in names else getattr(self, name) for name in ARGUMENTS}
        known = iter(self.constraint_names)
        for what in ("quotas", "budgets"):
            each = [replace(one, name=next(known)) for one in getattr(self, what)]  # a place would be another's
            left[what] = [one for one in each if one.name not in names]
        return replace(self, **(left if names else dict.fromkeys(ARGUMENTS, ())))

    def stated_constraints(self, places: NDArray[np.intp] | None = None) -> dict[str, Any]:
        """Return the side constraints as arguments of a problem over the same clients, or over those at ``places``.

        Clients that are left out count as not selected.
        """
        stated = {name: getattr(self, name) for name in ARGUMENTS}
        if places is None or not self.is_constrained:
            return stated
        ids: NDArray[np.int64] = getattr(self, "clients", np.arange(self.n))
        return statement_among(stated, set(ids[places].tolist()), places)
