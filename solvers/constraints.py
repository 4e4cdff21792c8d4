r"""Side constraints of a selection: clients that must come or must not, quotas, budgets and conflicts.

A problem that selects m of n clients takes ``include``, ``exclude``, ``quotas``, ``budgets`` and ``conflicts``. They
are checked where the problem is made, and brought into one form, `Constraints`, which methods read: a state for
each client, and rows :math:`l \le a^\top s \le u` with the names of what they state.

A budget is kept by a selection that uses at most its limit and 1e-9 of it: sums of decimal fractions are no decimal
fractions in binary, and 0.1 + 0.2 is to keep a limit of 0.3.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.checks import integer, number, vector
from solvers.errors import Contradiction, InvalidProblem
from solvers.feasible_set import FREE, ONE, ZERO
from solvers.labels import Labels, aligned, labels_of, where_ids_are
from solvers.options import AtLeast, AtMost

#: Largest uses of a budget that squares and quotients by other data are computed with, without under- or overflow.
_SMALLEST, _LARGEST = 1e-100, 1e100

#: Share of a budget's limit by which a selection may exceed it, for the rounding of decimal fractions and of sums.
_OVER = 1e-9


@dataclass(frozen=True)
class Quota:
    """Least and largest number of clients to select from a group.

    Parameters
    ----------
    members : sequence of int
        Ids of the group's clients, each once.
    at_least : int
        Clients of the group to select at least.
    at_most : int, optional
        Clients of the group to select at most; any number by default.
    name : str
        What messages, prices and models call it.

    Raises
    ------
    InvalidProblem
        When members are no integers or one stands twice, numbers are no integers, negative or beyond 64 bits, or
        contradict each other, more clients are asked for than the group has, or the name is no text.
    """

    members: Sequence[int]
    at_least: int = 0
    at_most: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        what = _named("quota", _text(self.name, "quota"))
        members = _ids(self.members, f"the members of {what}")
        least = integer(self.at_least, f"at_least of {what}", AtLeast(0))
        limits = AtLeast(0), AtMost(2**63 - 1)
        most = None if self.at_most is None else integer(self.at_most, f"at_most of {what}", *limits)
        if most is not None and least > most:
            sentence = f"{what} contradicts itself: at_least {least} is more than at_most {most}"
            raise Contradiction.of_quota(sentence, self.name, least, most)
        if least > len(members):
            has = f"{len(members)} member(s)" if members else "no member"
            sentence = f"{what} asks for at least {least} client(s), but it has {has}"
            raise Contradiction.of_quota(sentence, self.name, least, len(members))
        _set(self, members=members, at_least=least, at_most=most)


@dataclass(frozen=True, eq=False)
class Budget:
    """Largest sum of what the selected clients use: seconds, bytes, energy, money.

    Parameters
    ----------
    use : (n,) array-like
        Use of each client of the problem, not negative, in the order of the problem's clients. The largest is 0 or lies
        between 1e-100 and 1e100.
    limit : float
        Sum not to exceed (by more than 1e-9 of it), not negative, in the same unit.
    name : str
        What messages, prices and models call it.

    Raises
    ------
    InvalidProblem
        When the uses are no vector of numbers, a use or the limit is negative or not finite, the largest use is out of
        range, or the name is no text.
    """

    use: NDArray[np.float64]
    limit: float
    name: str = ""

    def __post_init__(self) -> None:
        what = _named("budget", _text(self.name, "budget"))
        labels = labels_of(self.use, f"use of {what}")
        use = vector(self.use, f"use of {what}", AtLeast(0))
        if (most := float(use.max())) and not _SMALLEST <= most <= _LARGEST:
            raise InvalidProblem(
                f"the largest use of {what} must be 0 or lie between {_SMALLEST:g} and {_LARGEST:g}; got {most:g} "
                "(rescale uses and limit)"
            )
        _set(self, use=use, limit=number(self.limit, f"limit of {what}", AtLeast(0)))
        self.__dict__["labels"] = labels

    def among(self, labels: Labels | None) -> Budget:
        """Return the budget with its uses in the order of a problem's labels, where it has labels itself."""
        own = self.__dict__.get("labels")
        if own is None or labels is None or own == labels:
            return self
        import pandas as pd

        return replace(self, use=aligned(pd.Series(self.use, own), f"use of {_named('budget', self.name)}", labels))


@dataclass(frozen=True, eq=False)
class LinearRow:
    """Row ``low ≤ Σ coefficients · s ≤ high`` over the clients at ``places`` of a problem, with the name of its cause.

    Attributes
    ----------
    name : str
        Name of the quota or budget, or the ids in conflict; no other row of the problem has it.
    kind : {"quota", "budget", "conflict"}
        What it states; coefficients of quotas and conflicts are 1.
    places : (k,) ndarray of int
        Positions of the clients, rising.
    coefficients : (k,) ndarray
        Their coefficients.
    low, high : float
        The limits, infinite where there is none. A decision keeps them exactly (see `activity`).
    """

    name: str
    kind: Literal["quota", "budget", "conflict"]
    places: NDArray[np.intp]
    coefficients: NDArray[np.float64]
    low: float
    high: float

    @property
    def label(self) -> str:
        """Kind and name, as messages say them."""
        return f"conflict of clients {self.name}" if self.kind == "conflict" else _named(self.kind, self.name)

    def activity(self, x: NDArray[Any]) -> float:
        """Return the sum of the chosen clients' coefficients, correctly rounded."""
        chosen = self.coefficients * x[self.places]
        return math.fsum(chosen) if self.kind == "budget" else float(chosen.sum())

    def violation(self, x: NDArray[Any]) -> float:
        """Return by how much a decision misses the row."""
        return max(0.0, (used := self.activity(x)) - self.high, self.low - used)

    def slack(self, x: NDArray[Any]) -> float:
        """Return how far a decision's sum is from the nearer limit: 0 where the row binds, negative where it is missed.

        A budget's limit is the one that was stated.
        """
        used = self.activity(x)
        high = self.high / (1 + _OVER) if self.kind == "budget" else self.high
        return min(high - used, used - self.low)

    def dense(self, n: int) -> NDArray[np.float64]:
        """Return the coefficients of all n clients."""
        full = np.zeros(n)
        full[self.places] = self.coefficients
        return full


@dataclass(frozen=True, eq=False)
class Constraints:
    """Side constraints of a selection of ``size`` of n clients, in positions: what methods read.

    Attributes
    ----------
    states : (n,) ndarray of int8
        FREE, ONE (included) or ZERO (excluded, or in conflict with an included client).
    size : int
        Clients to select, the included ones among them.
    rows : tuple of LinearRow
        Quotas, budgets, and conflicts merged to cliques, of which at most one client may be selected.
    """

    states: NDArray[np.int8]
    size: int
    rows: tuple[LinearRow, ...] = ()

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.states.size

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing is constrained but the size."""
        return not self.rows and not self.states.any()

    def violation(self, x: NDArray[np.int64]) -> float:
        """Return the largest miss of a row, at least 1 where a client is out of its state."""
        wrong = (x[self.states == ONE] != 1).any() or (x[self.states == ZERO] != 0).any()
        return max([float(wrong), *(row.violation(x) for row in self.rows)])

    def arguments(self, drawn_in: float = 0.0) -> dict[str, Any]:
        """Return the constraints as arguments of a problem over clients 0 … n-1.

        Parameters
        ----------
        drawn_in : float
            Share of each budget's limit that is not to be used, so that no rounding of what a part is left with matters
            to the whole.
        """
        quotas, budgets = [], []
        for row in self.rows:
            if row.kind == "budget":
                limit = max(row.high, 0.0) / (1 + _OVER) * (1 - drawn_in)
                budgets.append(Budget(row.dense(self.n), limit, row.name))
            elif row.low > 0 or row.high < row.places.size:
                most = None if math.isinf(row.high) else math.floor(row.high)
                quotas.append(Quota(row.places.tolist(), math.ceil(max(row.low, 0)), most, row.name))
        fixed = {name: np.flatnonzero(self.states == state) for name, state in (("include", ONE), ("exclude", ZERO))}
        return fixed | {"quotas": quotas, "budgets": budgets}

    def restricted(self, states: NDArray[np.int8]) -> tuple[NDArray[np.intp], Constraints]:
        """Return the free clients of a subproblem that fixes more clients, and the constraints of these alone.

        Parameters
        ----------
        states : (n,) ndarray of int8
            FREE, ONE or ZERO; what is fixed here already stays so.

        Returns
        -------
        free : ndarray of int
            Positions of the clients that are left.
        constraints : Constraints
            Over these, with the limits less what the chosen ones use. May have no feasible decision.
        """
        fixed = np.where(self.states == FREE, states, self.states)
        free = np.flatnonzero(fixed == FREE)
        number = np.full(self.n, -1)
        number[free] = np.arange(free.size)
        rows = []
        for row in self.rows:
            there = number[row.places]
            used = row.activity(fixed == ONE)
            # Rounded outwards: a row of the part must not cut off what keeps the row of the whole.
            low, high = row.low - used, row.high - used
            if row.kind == "budget":
                high = float(np.nextafter(high + 1e-15 * row.high, np.inf))
            keep = there >= 0
            rows.append(LinearRow(row.name, row.kind, there[keep], row.coefficients[keep], low, high))
        size = self.size - int((fixed == ONE).sum())
        return free, Constraints(np.zeros(free.size, dtype=np.int8), size, tuple(rows))


#: The arguments, in the order of the constructor.
ARGUMENTS = ("include", "exclude", "quotas", "budgets", "conflicts")


def among(stated: Mapping[str, Any], ids: NDArray[np.int64], n: int) -> dict[str, Any]:
    """Return side constraints that are stated over clients 0 … n-1 for some of these, the only ones to select from.

    Parameters
    ----------
    stated : mapping
        Arguments ``include``, ``exclude``, ``quotas``, ``budgets`` and ``conflicts``; any may be missing.
    ids : ndarray of int
        The clients that are left.
    n : int
        Number of all clients.

    Raises
    ------
    InvalidProblem
        When an argument is not as described, an included client is not among them, or a quota asks for more than are.
    """
    normal_form(np.arange(n), n, **stated)  # says what names a client that there is not
    checked = checked_statement(stated)
    return statement_among(checked, set(ids.tolist()), ids)


def normal_form(clients: NDArray[np.int64], size: int, **stated: Any) -> Constraints:
    """Return the normal form of side constraints of a selection of ``size`` of these clients.

    Parameters
    ----------
    clients : (n,) ndarray of int
        Ids, rising.
    size : int
        Clients to select.
    **stated
        Arguments of a `ConstrainedProblem`; any may be missing.

    Raises
    ------
    InvalidProblem
        When one is not as described there.
    """
    return normalised(checked_statement(stated), clients, size)


def checked_statement(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Check arguments by themselves, without the problem's clients."""
    return {
        "include": _ids(stated.get("include"), "include"),
        "exclude": _ids(stated.get("exclude"), "exclude"),
        "quotas": _each(stated.get("quotas"), Quota, "quotas"),
        "budgets": _each(stated.get("budgets"), Budget, "budgets"),
        "conflicts": _groups(stated.get("conflicts")),
    }


def statement_among(stated: Mapping[str, Any], left: set[int], places: NDArray[np.intp]) -> dict[str, Any]:
    """Return checked arguments for the clients that are left, at these positions of budgets' uses."""
    if gone := [client for client in stated["include"] if client not in left]:
        raise InvalidProblem(f"include names client {gone[0]}, who is not among those to select from")
    quotas = []
    for each in stated["quotas"]:
        members = [k for k in each.members if k in left]
        if each.at_least > len(members):
            sentence = (
                f"{_named('quota', each.name)} asks for at least {each.at_least} client(s), but {len(members)} of it "
                "can be selected from"
            )
            raise Contradiction.of_quota(sentence, each.name, each.at_least, len(members))
        quotas.append(Quota(members, each.at_least, each.at_most, each.name))
    conflicts = [tuple(k for k in group if k in left) for group in stated["conflicts"]]
    return {
        "include": stated["include"],
        "exclude": tuple(k for k in stated["exclude"] if k in left),
        "quotas": tuple(quotas),
        "budgets": tuple(Budget(each.use[places], each.limit, each.name) for each in stated["budgets"]),
        "conflicts": tuple(group for group in conflicts if len(group) > 1),
    }


# -- statement to normal form ------------------------------------------------------------------------------------------


def normalised(stated: Mapping[str, Any], clients: NDArray[np.int64], size: int) -> Constraints:
    """Bring checked arguments into the normal form for a problem of these clients."""
    n = clients.size

    def places(ids: Iterable[int], what: str) -> NDArray[np.intp]:
        wanted = np.asarray(list(ids), dtype=np.int64)
        found = np.minimum(np.searchsorted(clients, wanted), n - 1)
        if wanted.size and (missing := wanted[clients[found] != wanted]).size:
            known = f"0 to {n - 1}" if clients[-1] == n - 1 else f"{n} ids from {clients[0]} to {clients[-1]}"
            raise InvalidProblem(f"{what} names client {missing[0]}, whom the problem does not have ({known})")
        return np.sort(found)

    states = np.zeros(n, dtype=np.int8)
    states[places(stated["exclude"], "exclude")] = ZERO
    included = places(stated["include"], "include")
    if (both := included[states[included] == ZERO]).size:
        raise Contradiction(f"client {clients[both[0]]} is both included and excluded")
    states[included] = ONE
    rows: list[LinearRow] = []
    for k, quota in enumerate(stated["quotas"]):
        name = constraint_name("quotas", k, quota)
        members = places(quota.members, _named("quota", name))
        most = math.inf if quota.at_most is None else float(quota.at_most)
        rows.append(LinearRow(name, "quota", members, np.ones(members.size), float(quota.at_least), most))
    for k, budget in enumerate(stated["budgets"]):
        name = constraint_name("budgets", k, budget)
        if budget.use.size != n:
            raise InvalidProblem(
                f"use of {_named('budget', name)} must have one entry per client, {n}; got {budget.use.size}"
            )
        rows.append(budget_row(budget, name))
    names = [row.name for row in rows]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidProblem(f"two constraints are named {twice[0]!r}; names must differ")
    groups = [places(group, f"conflicts[{k}]") for k, group in enumerate(stated["conflicts"])]
    for k, group in enumerate(groups):
        if (ones := group[states[group] == ONE]).size > 1:
            pair = f"clients {clients[ones[0]]} and {clients[ones[1]]}"
            raise Contradiction(f"{pair} are both included, but conflicts[{k}] forbids them together")
        if ones.size:
            states[group[states[group] == FREE]] = ZERO
    for clique in _cliques(groups):
        name = ", ".join(str(clients[k]) for k in clique)
        while name in names:
            name += "'"
        rows.append(LinearRow(name, "conflict", np.array(clique), np.ones(len(clique)), -math.inf, 1.0))
    states.setflags(write=False)
    return Constraints(states, size, tuple(rows))


def constraint_name(what: str, place: int, one: Quota | Budget) -> str:
    """Return the name of a quota or budget; its place in ``what`` where it has none of its own."""
    return one.name or f"{what}[{place}]"


def budget_row(budget: Budget, name: str) -> LinearRow:
    """Return the row of a budget, with what a selection may exceed the limit by."""
    using = np.flatnonzero(budget.use)
    high = min(budget.limit * (1 + _OVER), sys.float_info.max)
    return LinearRow(name, "budget", using, budget.use[using], -math.inf, high)


def _cliques(groups: Sequence[NDArray[np.intp]]) -> list[list[int]]:
    """Cover the conflicts by cliques, each grown greedily from a conflict that is not covered yet."""
    near: dict[int, set[int]] = {}
    for group in groups:
        members = set(group.tolist())
        for k in members:
            near.setdefault(k, set()).update(members - {k})
    covered: set[tuple[int, int]] = set()
    found = []
    for i in sorted(near):
        for j in sorted(near[i]):
            if j < i or (i, j) in covered:
                continue
            clique, common = [i, j], near[i] & near[j]
            while common:
                # Who has most conflicts in common with the others comes next; ties go to the lower place.
                best = max(common, key=lambda k: (len(near[k] & common), -k))
                clique.append(best)
                common = common & near[best]
            clique.sort()
            covered.update((a, b) for a in clique for b in clique if a < b)
            found.append(clique)
    return found


def _ids(value: Any, what: str) -> tuple[int, ...]:
    """Return ids as a tuple of integers, each once."""
    if value is None:
        return ()
    given = value if isinstance(value, np.ndarray) else list(_iterable(value, what))
    try:
        array = np.asarray(given)
    except ValueError as error:  # lists of different lengths
        raise InvalidProblem(f"{what} must be ids of clients, whole numbers; got {value!r:.80}") from error
    if array.size == 0:
        return ()
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidProblem(f"{what} must be ids of clients, whole numbers; got {value!r:.80}{where_ids_are(array)}")
    ids, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise InvalidProblem(f"{what} must be different; client {ids[counts > 1][0]} stands twice")
    return tuple(ids.astype(np.int64).tolist())


def _groups(value: Any) -> tuple[tuple[int, ...], ...]:
    """Return groups of ids in conflict, each of two or more."""
    groups = tuple(_ids(each, f"conflicts[{k}]") for k, each in enumerate(_iterable(value, "conflicts")))
    for k, group in enumerate(groups):
        if len(group) < 2:
            raise InvalidProblem(f"conflicts[{k}] must name two clients or more; got {len(group)}")
    return groups


def _each(value: Any, kind: type, what: str) -> tuple[Any, ...]:
    """Return constraints of a kind; one that is given as a table is made of it."""
    made = []
    for k, each in enumerate(_iterable(value, what)):
        if isinstance(each, Mapping):
            try:
                each = kind(**each)
            except TypeError as error:
                raise InvalidProblem(f"{what}[{k}] does not state a {kind.__name__}: {error}") from error
        if not isinstance(each, kind):
            raise InvalidProblem(f"{what} must hold {kind.__name__} objects; {what}[{k}] is {each!r:.80}")
        made.append(each)
    return tuple(made)


def _iterable(value: Any, what: str) -> Iterable[Any]:
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping | Quota | Budget) or not isinstance(value, Iterable):
        raise InvalidProblem(f"{what} must be a list; got {value!r:.80}")
    return value


def _text(name: Any, kind: str) -> str:
    if not isinstance(name, str):
        raise InvalidProblem(f"the name of a {kind} must be text; got {name!r:.80}")
    return name


def _named(kind: str, name: str) -> str:
    """Return what a message calls a constraint; a place such as ``quotas[0]`` needs no quotes."""
    return kind if not name else name if name.startswith(f"{kind}s[") else f"{kind} {name!r}"


def _set(target: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)
