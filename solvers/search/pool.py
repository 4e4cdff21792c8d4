"""Pools: the k best selections, or all within a tolerance, with a bound on every selection that is not among them."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.checks import integer, number
from solvers.errors import InvalidOption
from solvers.options import AtLeast

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EMPTY", "DiverseIncumbents", "Incumbents", "Pool", "PoolMember", "PoolRequest"]

#: Members of a pool for which only a tolerance is given, at most.
MOST_WITHIN = 1_000


class PoolMember(NamedTuple):
    """A selection of a pool: sorted ids of its clients (what `solvers.Solution.selected` gives), and its objective."""

    selected: NDArray[np.int64]
    objective: float


class Pool(tuple[PoolMember, ...]):
    """Members of a pool, best first; a tuple."""

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per member: ``place`` from 1, ``objective``, and the ids as a tuple."""
        import pandas as pd

        rows = [
            {"place": k, "objective": each.objective, "selected": tuple(np.ravel(each.selected).tolist())}
            for k, each in enumerate(self, start=1)
        ]
        return pd.DataFrame(rows, columns=["place", "objective", "selected"])

    def to_list(self) -> list[dict[str, Any]]:
        """Return the members as JSON values."""
        return [{"selected": np.asarray(each.selected).tolist(), "objective": each.objective} for each in self]

    @classmethod
    def from_list(cls, members: Iterable[Any]) -> Pool:
        """Read what `to_list` returned; raises `ValueError` for anything else."""
        read = []
        try:
            for each in members:
                selected, objective = np.array(each["selected"], dtype=np.int64), each["objective"]
                if selected.size and np.asarray(each["selected"]).dtype.kind != "i":  # else 1.5 and "1" are client 1
                    raise ValueError(f"its pool has the selection {each['selected']!r:.80}, which is no list of ids")
                if not isinstance(objective, float | int) or not math.isfinite(objective):
                    raise ValueError(f"its pool has the objective {objective!r}")
                read.append(PoolMember(selected, float(objective)))
        except (TypeError, LookupError, OverflowError) as error:
            raise ValueError(f"its pool is no list of members: {members!r:.80}") from error
        return cls(read)


#: A pool without members.
EMPTY = Pool()


@dataclass(frozen=True)
class PoolRequest:
    """What `solvers.solve` is asked for beside one selection.

    Attributes
    ----------
    size : int
        Most members.
    within : float or None
        Share of the optimum that a member's objective may be worse by; None for any.
    diverse : int
        Clients of a member that are not in a better one, at least; 0 for any.
    veto : callable or None
        ``veto(selected)`` returns True for ids of a selection that is refused.
    """

    size: int
    within: float | None = None
    diverse: int = 0
    veto: Callable[[NDArray[np.int64]], object] | None = None

    def incumbents(self, problem: Any, answer: Callable[[float], float] | None = None) -> Incumbents:
        """Return the empty pool of a problem; ``answer`` as for `Incumbents`."""
        return (DiverseIncumbents if self.diverse else Incumbents)(problem, self, answer)

    @classmethod
    def of(cls, pool: Any, within: Any, diverse: Any, veto: Any) -> PoolRequest | None:
        """Check the arguments of `solvers.solve`; None where nothing is asked for."""
        if pool is None and within is None and diverse is None and veto is None:
            return None
        if within is not None:
            hint = "0.001 is a tenth of a per cent of the optimum"
            within = float(number(within, "within", AtLeast(0), error=InvalidOption, hint=hint))
        if veto is not None and not callable(veto):
            raise InvalidOption(
                f"veto must be a function of the ids of a selection, which returns True for one that it refuses; got "
                f"{veto!r:.80}"
            )
        if diverse is not None:
            diverse = integer(diverse, "diverse", AtLeast(1), error=InvalidOption)
            if pool is None and within is None:
                raise InvalidOption("diverse says how far members of a pool differ: say how many, as in pool=10")
        if pool is None:
            pool = 1 if within is None else MOST_WITHIN
        size = integer(pool, "pool", AtLeast(1), error=InvalidOption)
        return cls(size, within, diverse or 0, veto)


class Incumbents:
    """The best distinct selections found so far, and a bound on every other one.

    Members are ordered by the objective as the problem evaluates it. Objectives that differ by no more than rounding
    are equal, and of equal ones the smallest ids come first. A search offers what it finds (`offer`), prunes what
    cannot enter (`threshold`), and states what bounds the selections it has not offered (`tighten`).

    Parameters
    ----------
    problem : Problem
        The problem.
    request : PoolRequest
        What is asked for.
    answer : callable, optional
        Value of an objective in the problem that was asked, where that differs by a constant: what a tolerance is a
        share of.

    Attributes
    ----------
    rest : float
        Bound on every selection that was never offered; infinite while nothing is known.
    vetoed : dict
        Refused selections: signed objective (less is better) and decision, by the places of their clients.
    calls : int
        How often the veto was asked.
    has_lost_ties : bool
        Whether more selections are tied at the last place than are told apart: a search need not find further ones,
        and those kept are not proved to have the smallest ids.
    """

    #: Selections tied at the last place that are told apart: a number, and so many times those asked for.
    MOST_TIED = (2_000, 20)

    def __init__(self, problem: Any, request: PoolRequest, answer: Callable[[float], float] | None = None) -> None:
        self.problem, self.request, self._answer = problem, request, answer
        self.sign = 1.0 if problem.sense == "max" else -1.0
        self.near = 2.0 * float(getattr(problem, "rounding", 0.0))
        self.rest = self.sign * math.inf
        self.vetoed: dict[tuple[int, ...], tuple[float, NDArray[Any]]] = {}
        self.calls = 0
        self.has_lost_ties = False
        self._members: list[tuple[float, tuple[int, ...]]] = []  # signed so that the smallest is the best
        self._known: dict[tuple[int, ...], NDArray[Any]] = {}
        self._dropped = math.inf  # signed objective of the best selection that was offered and is no member
        self._best = math.inf

    def __len__(self) -> int:
        return min(len(self._members), self.request.size)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over the decisions found, best first."""
        return iter([self._known[places] for _, places in self._members])

    @property
    def threshold(self) -> float | None:
        """Objective that a selection must reach to become a member, ties among them; None while any may."""
        signed = self._signed_threshold
        return None if signed == math.inf else -self.sign * signed

    @property
    def cutoff(self) -> float:
        """Objective that is neither a member's nor tied with one, in spite of rounding: a search ends there."""
        return -self.sign * (self._signed_threshold + 2 * self.near)

    @property
    def _signed_threshold(self) -> float:
        last = self._members[self.request.size - 1][0] if len(self._members) >= self.request.size else math.inf
        return min(last, self._signed_cut)

    @property
    def _signed_cut(self) -> float:
        """Signed objective beyond which a selection is not within the tolerance of the best one found."""
        if self.request.within is None or self._best == math.inf:
            return math.inf
        best = -self.sign * self._best
        asked = getattr(self.problem, "asked", None)  # the problem in whose units this one is answered
        return self._best + self.request.within * abs(best if asked is None else asked.answer_of(best)) + self.near

    def offer(self, x: NDArray[Any], objective: float) -> bool:
        """Take a feasible decision where it may be a member; False where the veto refuses it.

        The veto is asked about selections that would be members.
        """
        signed = -self.sign * objective
        places = tuple(np.flatnonzero(x).tolist())
        if places in self.vetoed:
            return False
        if places in self._known:
            return True
        if signed > self._signed_threshold + self.near:
            self._dropped = min(self._dropped, signed)
            return True
        if self.request.veto is not None:
            self.calls += 1
            if self.request.veto(self._ids(x)):
                self.vetoed[places] = (signed, np.array(x))
                return False
        kept = np.array(x)
        kept.setflags(write=False)
        self._known[places] = kept
        insort(self._members, (signed, places))
        self._best = self._members[0][0]
        self._trim()
        return True

    def tighten(self, bound: float) -> None:
        """State a bound on every selection that was never offered; the tightest counts."""
        if self.sign * bound < self.sign * self.rest:
            self.rest = bound

    def close(self) -> None:
        """State that there is no other selection."""
        self.rest = -self.sign * math.inf

    def _trim(self) -> None:
        """Drop what is worse than the last place by more than rounding."""
        limit = self._signed_threshold + self.near
        while self._members[-1][0] > limit:
            self._drop()
        base, each = self.MOST_TIED
        if len(self._members) > self.request.size * (1 + each) + base:
            self.has_lost_ties = True
            self._drop()

    def _drop(self) -> None:
        signed, places = self._members.pop()
        del self._known[places]
        self._dropped = min(self._dropped, signed)

    def _ids(self, x: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = self.problem.selected(x) if hasattr(self.problem, "selected") else np.array(x)
        return found

    # -- the answer ----------------------------------------------------------------------------------------------

    def ranked(self) -> list[tuple[float, tuple[int, ...]]]:
        """Return what was found, best first, ties by ids; the objectives are signed."""
        ordered: list[tuple[float, tuple[int, ...]]] = []
        group: list[tuple[float, tuple[int, ...]]] = []
        for member in self._members:
            if group and member[0] > group[0][0] + self.near:
                ordered += sorted(group, key=lambda each: each[1])
                group = []
            group.append(member)
        return ordered + sorted(group, key=lambda each: each[1])

    def result(self) -> PoolResult:
        """Return members, bound and completeness as they stand."""
        ranked = self.ranked()
        kept, others = ranked[: self.request.size], ranked[self.request.size :]
        dropped = min([self._dropped, *(signed for signed, _ in others)])
        members = [PoolMember(self._ids(self._known[places]), -self.sign * signed) for signed, places in kept]
        # What was offered is worth what it was evaluated to, but for rounding.
        rounding = self.near / 2
        others_bound = -self.sign * dropped + self.sign * rounding if dropped < math.inf else -self.sign * math.inf
        bound = max(self.sign * self.rest, self.sign * others_bound) * self.sign
        last = self._signed_threshold if len(kept) == self.request.size else self._signed_cut
        is_complete = -self.sign * self.rest >= last if math.isfinite(last) else self.rest == -self.sign * math.inf
        is_complete = is_complete and not self.has_lost_ties
        if bound == -self.sign * math.inf and members:  # there is no other selection
            bound = members[-1].objective
        beside = min(dropped, -self.sign * self.rest)
        is_tied = len(kept) == self.request.size and beside <= kept[-1][0] + self.near
        worst = self._signed_threshold + self.near
        refused = [
            PoolMember(self._ids(x), -self.sign * signed)
            for signed, x in sorted(self.vetoed.values(), key=lambda each: (each[0], np.flatnonzero(each[1]).tolist()))
            if signed <= worst
        ]
        return PoolResult(
            members=Pool(members),
            vetoed=Pool(refused),
            bound=bound if math.isfinite(bound) else None,
            is_complete=is_complete,
            is_tied=is_tied,
            x=self._known[kept[0][1]] if kept else None,
        )


def offer_best(run: Any, values: NDArray[np.float64], decision: Callable[[int], NDArray[Any]]) -> None:
    """Offer evaluated decisions to a run with a pool, the best first, as long as they may be members.

    Parameters
    ----------
    run : Run
        Its pool says what may be one.
    values : (k,) ndarray
        Objectives, to rounding.
    decision : callable
        Makes the decision of a place of ``values``.
    """
    pool: Incumbents = run.pool
    may_be_member = np.isfinite(values) & (pool.sign * values >= pool.sign * pool.cutoff)
    places = np.flatnonzero(may_be_member)
    for place in places[np.argsort(-pool.sign * values[places], kind="stable")].tolist():
        if pool.sign * values[place] < pool.sign * pool.cutoff:
            break
        run.offer(decision(place))


def conclude_pool(run: Any) -> None:
    """Bound the best selection of a run by what bounds those that were not offered."""
    pool: Incumbents = run.pool
    found = pool.result()
    if found.members:
        best = found.members[0].objective
        run.tighten(pool.sign * max(pool.sign * pool.rest, pool.sign * best), pool.near / 2)
    elif found.is_complete:
        run.infeasible()


class DiverseIncumbents(Incumbents):
    """Members that differ from each other, each the best of those that differ from the ones before.

    A search states each by `accept`; what it offers besides is refused by the veto or not, and no member.
    """

    def __init__(self, problem: Any, request: PoolRequest, answer: Callable[[float], float] | None = None) -> None:
        super().__init__(problem, request, answer)
        self.accepted: list[NDArray[Any]] = []
        self.is_closed = False

    def offer(self, x: NDArray[Any], objective: float) -> bool:
        """Say whether the veto lets a decision be; none becomes a member."""
        if self.request.veto is None:
            return True
        places = tuple(np.flatnonzero(x).tolist())
        if places not in self.vetoed and places not in self._known:
            self.calls += 1
            if self.request.veto(self._ids(x)):
                self.vetoed[places] = (-self.sign * objective, np.array(x))
            else:
                self._known[places] = np.array(x)
        return places not in self.vetoed

    def close(self) -> None:
        """State that there is no further member."""
        super().close()
        self.is_closed = True

    def accept(self, x: NDArray[Any], objective: float, bound: float) -> bool:
        """Take the next member, where it is within the tolerance; ``bound`` bounds all that could be in its place."""
        signed = -self.sign * objective
        self.rest = bound
        self._best = min(self._best, signed)
        if signed > self._signed_cut:
            return False
        self.accepted.append(np.array(x))
        self._members.append((signed, tuple(np.flatnonzero(x).tolist())))
        return True

    def result(self) -> PoolResult:
        """Return members, bound and completeness as they stand."""
        members = Pool(
            PoolMember(self._ids(x), -self.sign * signed)
            for x, (signed, _) in zip(self.accepted, self._members, strict=True)
        )
        refused = Pool(PoolMember(self._ids(x), -self.sign * signed) for signed, x in self.vetoed.values())
        bound = self.rest if math.isfinite(self.rest) else members[-1].objective if members and self.is_closed else None
        first = self.accepted[0] if self.accepted else None
        return PoolResult(members, refused, bound, self.is_closed, False, first)


class PoolResult(NamedTuple):
    """Members, refused selections, bound, completeness, whether the last place is tied, and the best decision."""

    members: Pool
    vetoed: Pool
    bound: float | None
    is_complete: bool
    is_tied: bool
    x: NDArray[Any] | None
