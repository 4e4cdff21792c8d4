"""Fronts: a selection for each pair of two terms that no other pair beats, each with its proof."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from solvers.certificate_writers import with_certificate
from solvers.checks import integer, seconds_or_none
from solvers.constraints import Budget, budget_row, constraint_name
from solvers.errors import InvalidOption, InvalidProblem
from solvers.options import AtLeast
from solvers.search.pool import EMPTY
from solvers.solution import Solution
from solvers.solving import solve
from solvers.subsets import ConstrainedProblem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Front", "frontier"]

#: Selections of the same objective that are listed at each limit, to take the one whose second term is least.
_TIED = 16

#: Largest sum of whole numbers that budgets tell apart: their tolerance and roundings are some 1e-9 of it.
_LARGEST_WHOLE = 2**45

#: What `frontier` itself gives to `solvers.solve`.
_OWN = ("pool", "within", "diverse", "veto", "start", "bound_by", "gap")


class Point(NamedTuple):
    """Terms of a selection, exact for the numbers as they are written in decimals."""

    first: Fraction
    second: Fraction
    solution: Solution


@dataclass(frozen=True)
class Front(Sequence[Solution]):
    """Solutions of which none is at least as good as another in both terms, the second term rising.

    The problem of each solution has the second term as a budget, whose limit is what the solution uses (costs are
    counted from the least cost): its bound proves that no selection that uses as little has a better first term. Of
    supported pairs between the ends it is the problem with the weight at which the pair is best.

    Attributes
    ----------
    solutions : tuple of Solution
        One for each pair of terms.
    terms : (str, str)
        Names of the two terms.
    pairs : (k, 2) ndarray
        The first and the second term of each.
    complete : bool
        Whether every non-dominated pair is among them (every supported one, where these were asked for).
    message : str
        Where the front was cut, if it is not complete.
    """

    solutions: tuple[Solution, ...]
    terms: tuple[str, str]
    pairs: NDArray[np.float64]
    complete: bool
    message: str = ""

    @overload
    def __getitem__(self, place: int) -> Solution: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Solution, ...]: ...

    def __getitem__(self, place: int | slice) -> Solution | tuple[Solution, ...]:
        return self.solutions[place]

    def __len__(self) -> int:
        return len(self.solutions)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def __repr__(self) -> str:
        first, second = self.terms
        cut = "complete" if self.complete else self.message
        return f"Front({len(self)} solutions of {first} against {second}, {cut})"

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per solution: both terms, the solution's bound, status, seconds, ids as a tuple.

        A budget of the name of another column is "sum of" it.
        """
        import pandas as pd

        first, second = self.terms
        second = f"sum of {second}" if second in (first, "bound", "status", "seconds", "selected") else second
        rows = [
            {
                first: pair[0],
                second: pair[1],
                "bound": solution.bound,
                "status": solution.status,
                "seconds": solution.seconds,
                "selected": tuple(solution.selected.tolist()),
            }
            for pair, solution in zip(self.pairs.tolist(), self.solutions, strict=True)
        ]
        return pd.DataFrame(rows, columns=[first, second, "bound", "status", "seconds", "selected"])

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the first term over the second as steps, on ``axes`` or on a new figure."""
        if isinstance(axes, (str, os.PathLike)):
            raise TypeError(f"plot draws on axes of matplotlib; plot().figure.savefig({str(axes)!r}) saves the picture")
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5.6, 3.8), layout="constrained").subplots()
        axes.step(self.pairs[:, 1], self.pairs[:, 0], where="post", marker="o", markersize=4)
        axes.set_xlabel(self.terms[1])
        axes.set_ylabel(self.terms[0])
        axes.set_title(f"{len(self)} pairs, {'complete' if self.complete else 'not complete'}", fontsize=10)
        return axes


def frontier(
    problem: ConstrainedProblem,
    points: int | Literal["supported"] | None = None,
    time_limit: float | None = None,
    *,
    against: str | None = None,
    method: str = "auto",
    **options: Any,
) -> Front:
    r"""Find the non-dominated pairs of a problem's objective and a second term, each with its proof.

    Of a dispersion problem the two are the distance term :math:`w\,s^\top H s` and the cost term :math:`c^\top s`, of a
    coverage problem with costs the covered similarity and these. Of a problem with a budget they may be its objective
    and what that budget's use sums to, up to the limit. The second term is limited to less than what the selection
    found last uses (:math:`\varepsilon`-constraints). Costs, uses, similarities, and the
    distance term of a matrix, are compared as exact sums of the numbers as they are written in decimals. Other
    objectives are equal where they differ by no more than their rounding.

    Parameters
    ----------
    problem : ConstrainedProblem
        A problem that selects m of n clients.
    points : int or "supported", optional
        All pairs by default. A number, 2 or more: at most so many, at limits of the second term that are spread evenly.
        ``"supported"``: those that alone are best for some weight of the distance term, the corners of the hull: far
        fewer solves. It is for dispersion problems without ``against`` whose costs differ.
    time_limit : float, optional
        Seconds; no limit by default. What was proved until then is returned.
    against : str, optional
        Name of the budget that is the second term. By default the costs of a dispersion or coverage problem, else (or
        where all cost the same) the only budget.
    method : str
        An exact method that keeps pools: these list selections of one and the same objective.
    **options
        Further arguments of `solvers.solve`, such as ``certificate``, ``threads`` and ``seed``.

    Returns
    -------
    Front
        A sequence of solutions.

    Raises
    ------
    InvalidProblem
        When it is no `ConstrainedProblem`, has no second term, or not the named one.
    InvalidOption
        When ``points``, the time limit, or an option is not accepted, or the method keeps no pool of the problem.
    UnknownMethod, MissingBackend, InvalidAnswer
        As `solvers.solve` raises them.

    Examples
    --------
    >>> from solvers import frontier
    >>> from solvers.dispersion import DispersionProblem
    >>> distances = [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    >>> front = frontier(DispersionProblem(distances, costs=[1, 1, 2, 3], size=2))
    >>> front.pairs.tolist(), front.complete
    ([[2.0, 2.0], [4.0, 3.0], [6.0, 4.0]], True)
    """
    if not isinstance(problem, ConstrainedProblem):
        raise InvalidProblem(
            "frontier takes a problem that selects m of n clients (dispersion, coverage, balance); got "
            f"{type(problem).__name__}"
        )
    if taken := [name for name in _OWN if name in options]:
        raise InvalidOption(f"frontier has no argument {taken[0]!r}: it decides that itself at each limit")
    if points is not None and points != "supported":
        points = integer(points, "points", AtLeast(2), error=InvalidOption)
    sweep = _Sweep(problem, against, method, seconds_or_none(time_limit), options)
    if points == "supported":
        return sweep.supported()
    return sweep.everything() if points is None else sweep.spread(points)


def _decimal(value: float) -> Fraction:
    """Return a float as it is written: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


class _Unproved(Exception):
    """Raised where a solve ended before its proof."""


class _Sweep:
    """The two terms of a problem, and solves at limits of the second."""

    def __init__(
        self,
        problem: ConstrainedProblem,
        against: str | None,
        method: str,
        seconds: float | None,
        options: dict[str, Any],
    ) -> None:
        self.method, self.options = method, dict(options)
        self.is_certified = bool(self.options.pop("certificate", False))
        self.left = seconds
        names = [constraint_name("budgets", k, budget) for k, budget in enumerate(problem.budgets)]
        costs = getattr(problem, "costs", None)
        #: Whether the second term are the problem's costs, and whether the first has a weight beside them.
        self.is_cost = against is None and costs is not None and bool(np.ptp(costs) or not names)
        self.is_weighted = self.is_cost and hasattr(problem, "weight")
        self.costs_of: Any = None
        limit = math.inf
        if self.is_cost:
            self.costs_of = problem
            use = problem.costs  # type: ignore[attr-defined]
            self.base = replace(problem, costs=np.zeros(problem.n))  # type: ignore[call-arg]
            self.terms = ("distance term" if self.is_weighted else "covered similarity", "cost term")
        else:
            if against is None and len(names) == 1:
                against = names[0]
            if against not in names:
                has = ", ".join(map(repr, names)) or "none"
                asked = (
                    "against names the budget that is the second term"
                    if against is None
                    else f"there is no budget {against!r}"
                )
                raise InvalidProblem(f"{asked}; the problem's budgets: {has}")
            budget = problem.budgets[names.index(against)]
            use, limit = budget.use, budget.limit
            self.base = problem.without(against)
            self.terms = ("objective", against)
        self.sign = 1 if problem.sense == "max" else -1
        self.name = self.terms[1]
        while self.name in self.base.constraint_names:
            self.name += "'"
        self.use = [_decimal(each) for each in use.tolist()]
        self.least = min(self.use)
        shifted = [each - self.least for each in self.use] if self.is_cost else self.use
        unit = Fraction(1, math.lcm(*(each.denominator for each in shifted)))
        whole = [int(each / unit) for each in shifted]
        divisor = math.gcd(*whole) or 1
        #: Whether budgets tell all sums of uses apart, in units of ``unit``.
        self.is_whole = problem.size * max(whole) // divisor < _LARGEST_WHOLE
        self.unit = unit * divisor
        self.uses = np.array([float(each / self.unit) for each in shifted])
        if not self.is_whole:
            self.uses, self.unit = np.array([float(each) for each in shifted]), Fraction(1)
        self.offset = problem.size * self.least if self.is_cost else Fraction(0)
        self.limit = None if math.isinf(limit) else _decimal(limit) * (1 + Fraction(1, 10**9))
        self.near = 0.0
        self.first = self._first_term()

    def _first_term(self) -> Callable[[NDArray[np.int64]], Fraction]:
        """Return what evaluates the first term of positions that are selected; exactly where that is a sum of data."""
        base: Any = self.base
        if self.is_weighted and hasattr(base, "distances"):
            kinds = getattr(base, "kinds", np.arange(base.n))
            weight = _decimal(base.weight)

            def distance(chosen: NDArray[np.int64]) -> Fraction:
                own = kinds[chosen]
                table = base.distances[np.ix_(own, own)]
                return weight * sum(
                    (2 * _decimal(each) for each in table[np.triu_indices(own.size, 1)].tolist()), Fraction(0)
                )

            return distance
        if base.family == "coverage":

            def covered(chosen: NDArray[np.int64]) -> Fraction:
                worth = [*base.similarity[:, chosen].max(axis=1).tolist(), *(-base.costs[chosen]).tolist()]
                return sum(map(_decimal, worth), Fraction(0))

            return covered
        self.near = 4.0 * float(getattr(base, "rounding", 1e-12 * base.scale))
        return lambda chosen: Fraction(float(base.objective(base.feasible.decision(chosen))))

    def second(self, chosen: NDArray[np.int64]) -> Fraction:
        """Return the second term of positions that are selected."""
        return sum((self.use[k] for k in chosen.tolist()), Fraction(0))

    def at(self, limit: Fraction | None, *, is_strict: bool = False) -> Point | None:
        """Return the best first term where the second is at most a limit, or strictly below; of ties the least second.

        None is a proof that no selection is left; raises `_Unproved` where that, or the best, was not proved.
        """
        options: dict[str, Any] = dict(self.options)
        problem = self.base
        if limit is not None:
            # Whole sums are cut half a unit above or below; others are cut by a budget, and exactly by a veto.
            level = (limit - self.offset) / self.unit
            if self.is_whole:
                level = Fraction(2 * math.ceil(level) - 1 if is_strict else 2 * math.floor(level) + 1, 2)
            elif is_strict:
                options["veto"] = lambda ids: self.second(self._places(ids)) >= limit
            if level < 0:
                return None
            stated = float(level / (1 + Fraction(1, 10**9))) if self.is_whole else float(level)
            try:
                problem = replace(self.base, budgets=(*self._named_budgets(), Budget(self.uses, stated, self.name)))
            except InvalidProblem:  # the cheapest selection uses more
                return None
        return self._best(problem, options)

    def _named_budgets(self) -> list[Budget]:
        return [replace(each, name=constraint_name("budgets", k, each)) for k, each in enumerate(self.base.budgets)]

    def _best(self, problem: ConstrainedProblem, options: dict[str, Any]) -> Point | None:
        """Solve, and take the least second term among those of the best first term."""
        found = self._solved(problem, options)
        if not found:
            return None
        best = max(self.sign * point.first for point in found)
        tied = [point for point in found if self.sign * point.first >= best - Fraction(self.near)]
        point = min(tied, key=lambda point: point.second)
        return point._replace(solution=self._limited(point))

    def _limited(self, point: Point) -> Solution:
        """Return a solution of the problem whose second term is limited to what the selection uses.

        It leaves no selection that was not there, so that the bound holds.
        """
        solution = point.solution
        assert solution.x is not None
        used = math.fsum(self.uses[np.flatnonzero(solution.x)])
        budget = Budget(self.uses, used / (1 + 1e-9), self.name)
        while budget_row(budget, self.name).high < used:
            budget = replace(budget, limit=float(np.nextafter(budget.limit, math.inf)))
        problem = replace(self.base, budgets=(*self._named_budgets(), budget))
        details = {key: value for key, value in solution.details.items() if key not in ("pool", "notes")}
        solution = replace(
            solution,
            problem=problem,
            details=details,
            pool=EMPTY,
            pool_bound=None,
            pool_complete=False,
            vetoed=EMPTY,
        )
        return self._certified(solution)

    def _certified(self, solution: Solution) -> Solution:
        """Return the solution with a certificate, where these are wanted and time is left."""
        if not self.is_certified or (self.left is not None and self.left <= 0):
            return solution
        started = time.perf_counter()
        solution = with_certificate(solution, math.inf if self.left is None else self.left, relaxed=False)
        if self.left is not None:
            self.left -= time.perf_counter() - started
        return solution

    def _solved(self, problem: Any, options: dict[str, Any]) -> list[Point]:
        """Return the selections of the best objective, `_TIED` of them at most; none where there is no selection."""
        if self.left is not None and self.left <= 0:
            raise _Unproved
        solution = solve(problem, self.method, time_limit=self.left, pool=_TIED, within=0.0, **options)
        if self.left is not None:
            self.left -= solution.seconds
        if solution.status == "infeasible":
            return []
        if not solution.pool_complete or solution.x is None:
            raise _Unproved
        found = []
        for member in solution.pool:
            chosen = self._places(member.selected)
            x = problem.feasible.decision(chosen)
            one = replace(solution, x=x, objective=float(problem.objective(x)))
            found.append(Point(self.first(chosen), self.second(chosen), one))
        return found

    def _places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        clients = getattr(self.base, "clients", None)
        return ids if clients is None else np.searchsorted(clients, ids)

    # -- sweeps --------------------------------------------------------------------------------------------------

    def everything(self) -> Front:
        """Lower the limit from pair to pair."""
        found: list[Point] = []
        limit, is_strict = self.limit, False
        try:
            while (point := self.at(limit, is_strict=is_strict)) is not None:
                found.append(point)
                limit, is_strict = point.second, True
        except _Unproved:
            below = "" if limit is None else f" below {float(limit):.12g}"
            return self._front(found, f"cut by time: of {self.terms[1]}{below} nothing is known")
        return self._front(found)

    def spread(self, points: int) -> Front:
        """Spread limits evenly from the least second term to that of the best first term."""
        found: list[Point] = []
        try:
            top = self.at(self.limit)
            if top is None:
                return self._front([])
            found.append(top)
            low = self._cheapest()
            width, intervals = top.second - low, points - 1
            while found[-1].second > low:
                # The largest limit below what the pair before uses: at those between, it is the best again.
                k = math.ceil((found[-1].second - low) * intervals / width) - 1
                point = self.at(low + width * k / intervals)
                if point is not None and point.second >= found[-1].second:  # by the tolerance of the budget
                    point = self.at(found[-1].second, is_strict=True)
                if point is None:
                    break
                found.append(point)
        except _Unproved:
            return self._front(found, f"cut by time after {len(found)} of {points} limits of {self.terms[1]}")
        front = self._front(found)
        if len(front) > 1:
            return replace(front, complete=False, message=f"{len(front)} pairs at {points} limits of {self.terms[1]}")
        return front

    def _cheapest(self) -> Fraction:
        """Return the least second term."""
        feasible = self.base.feasible
        return self.second(np.flatnonzero(feasible.best(-self.uses)))

    def supported(self) -> Front:
        """Halve the directions between neighbours, as long as that finds a pair above the line between them."""
        if not self.is_weighted:
            raise InvalidOption(
                "points='supported' weighs distances against costs: it is for dispersion problems without against"
            )
        found: list[Point] = []
        try:
            top = self.at(self.limit)
            if top is not None:
                cheapest = self._weighted(replace(self.costs_of, weight=0.0), Fraction(0))
                low = None if cheapest is None else self.at(cheapest.second)
                found = [top]
                if low is not None and low.second < top.second:
                    found.append(low)
                    self._between(low, top, found)
        except _Unproved:
            return self._front(found, "cut by time: supported pairs between those listed may be missing")
        return self._front(found)

    def _between(self, low: Point, high: Point, found: list[Point]) -> None:
        """Add the supported pairs between two."""
        if not self.base.weight:  # type: ignore[attr-defined]
            return
        rise = high.first - low.first
        share = (high.second - low.second) / rise
        weighted = replace(self.costs_of, weight=float(share * _decimal(self.costs_of.weight)))
        point = self._weighted(weighted, share)
        if point is None or share * (point.first - low.first) <= point.second - low.second:
            return
        found.append(point)
        if point.second > low.second and point.first < high.first:
            self._between(low, point, found)
            self._between(point, high, found)

    def _weighted(self, problem: Any, share: Fraction) -> Point | None:
        """Return the best selection at a weight of the distance term, of ties the cheapest."""
        found = self._solved(problem, self.options)
        if not found:
            return None
        point = max(found, key=lambda point: (share * point.first - point.second, -point.second))
        return point._replace(solution=self._certified(point.solution))

    def _front(self, found: list[Point], cut: str = "") -> Front:
        """Drop what is dominated, and put the others in order."""
        kept: list[Point] = []
        for point in sorted(found, key=lambda each: (each.second, -self.sign * each.first)):
            if not kept or self.sign * point.first > self.sign * kept[-1].first + Fraction(self.near):
                kept.append(point)
        pairs = np.array([[float(point.first), float(point.second)] for point in kept]).reshape(-1, 2)
        return Front(tuple(point.solution for point in kept), self.terms, pairs, not cut, cut)
