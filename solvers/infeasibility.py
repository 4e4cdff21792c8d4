"""Why no selection keeps all constraints: an irreducible set of named ones that contradict each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers.backends import run_cp_sat, stated_choice
from solvers.checks import seconds_or_none
from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import Constraints, LinearRow, budget_row, constraint_name
from solvers.errors import Contradiction, InvalidProblem, NoSelection
from solvers.feasible_set import FREE, ONE, ZERO
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.subsets import ConstrainedProblem

__all__ = ["Conflict", "Relaxation", "conflict"]

Item = TypeVar("Item")

#: Selections that are looked at one by one before CP-SAT is asked: some tens of milliseconds.
_ENUMERABLE = 20_000

#: Answers of CP-SAT in excess of a budget by its rounding that are forbidden one by one, and better sums looked for.
_MOST_ANSWERS = 200

#: Seconds for the sentence in the message of an infeasible solve.
_CHEAP_SECONDS = 1.0


class Relaxation(NamedTuple):
    """How far one number must move for the other constraints of a conflict to be kept.

    Attributes
    ----------
    name : str
        The constraint.
    stated : float
        Its limit.
    allowed : float
        The nearest limit that the others of the conflict allow.
    overall : float or None
        The nearest limit that all other constraints of the problem allow; None where there is none, or it is not known.
    """

    name: str
    stated: float
    allowed: float
    overall: float | None


@dataclass(frozen=True)
class Conflict:
    """Constraints that no selection keeps together; `is_minimal` says whether each of them is needed for that.

    Attributes
    ----------
    names : tuple of str
        Of ``problem.constraint_names``, and ``"size"`` where the number of clients takes part.
    labels : tuple of str
        The same with the numbers and clients that take part.
    relaxation : Relaxation or None
        How far one number must move: the limit of the only budget among ``names``; without a budget that of the only
        quota, else the size where it is among them. None elsewhere, or where it was not found.
    is_only : bool
        Whether the problem has a selection without any one of them: it has no other conflict. False of a quota that
        contradicts itself, whose problem is not known.
    is_minimal : bool
        Whether some selection keeps the others where any one of them is left out. False where that was not decided,
        as when time ran out: some of them may not be needed.
    sentence : str
        All this in words.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    relaxation: Relaxation | None
    is_only: bool
    is_minimal: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def conflict(problem: Problem | Contradiction, time_limit: float | None = None) -> Conflict | None:
    """Find constraints that contradict each other, as few as deletion leaves.

    Each constraint is left out in turn. Where the others are proved to contradict each other without it, it is dropped.
    What is left is irreducible if `Conflict.is_minimal` says so: without any one of them, a selection was found.

    Parameters
    ----------
    problem : Problem or Contradiction
        A problem that takes side constraints, or the error by which one, or a quota by itself, was refused.
    time_limit : float, optional
        Seconds; no limit by default.

    Returns
    -------
    Conflict or None
        None where a selection keeps all constraints.

    Raises
    ------
    InvalidProblem
        When it is neither.
    InvalidOption
        When the time limit is no positive number.
    NoSelection
        When a selection was neither found nor proved not to exist, as when time ran out before.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import conflict
    >>> from solvers.constraints import Budget, Quota
    >>> from solvers.dispersion import DispersionProblem
    >>> seconds = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    >>> stated = {"quotas": [Quota([0, 1, 2], 2, name="north")], "budgets": [Budget(seconds, 3.0, "seconds")]}
    >>> print(conflict(DispersionProblem(np.ones((6, 6)) - np.eye(6), size=2, **stated)))
    None
    >>> stated["budgets"] = [Budget(seconds, 2.5, "seconds")]
    >>> try:
    ...     DispersionProblem(np.ones((6, 6)) - np.eye(6), size=2, **stated)
    ... except InvalidProblem as error:
    ...     print(conflict(error).names)
    ('north', 'seconds')
    """
    seconds = seconds_or_none(time_limit)
    if isinstance(problem, Contradiction) and problem.statement is not None:
        return _explained(_Statement(*problem.statement), seconds)
    if isinstance(problem, Contradiction) and problem.quota is not None:
        name, least, allowed = problem.quota
        label = f"{name} (at least {least})"
        return Conflict((name,), (label,), Relaxation(name, least, allowed, None), False, True, str(problem))
    if isinstance(problem, Exception):
        raise InvalidProblem(f"the error is no contradiction of constraints, so there is no more to it than: {problem}")
    if not isinstance(problem, ConstrainedProblem):
        raise InvalidProblem(
            "conflict explains problems that take side constraints (dispersion, coverage, balance), or the error by "
            f"which one was refused; got {type(problem).__name__}"
        )
    if not problem.is_constrained:
        return None
    clients = getattr(problem, "clients", np.arange(problem.n))
    return _explained(_Statement(problem.stated_constraints(), clients, problem.size), seconds)


def with_conflict(solution: Solution, left: float) -> str:
    """Return the message of an infeasible solution with its conflict, if found within a second and ``left`` seconds."""
    if left <= 0:
        return solution.message
    try:
        found = conflict(solution.problem, min(left, _CHEAP_SECONDS))
    except NoSelection:
        return solution.message
    return "; ".join(part for part in (solution.message, str(found)) if part) if found else solution.message


# -- the statement in parts --------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Part of a named constraint: the size, a client's state, one limit of a quota, a budget, or a conflict."""

    name: str
    kind: str
    row: LinearRow | None = None
    client: int = -1


class _Statement:
    """Checked arguments of a problem over some clients, in parts that can be left out."""

    def __init__(self, stated: Mapping[str, Any], clients: NDArray[np.int64], size: int) -> None:
        self.clients, self.size, self.n = clients, size, clients.size
        self.parts = [_Part("size", "size")]
        for kind in ("include", "exclude"):
            self.parts += [_Part(kind, kind, client=place) for place in self._places(stated[kind]).tolist()]
        for k, group in enumerate(stated["conflicts"]):
            places = self._places(group)
            row = LinearRow(f"conflicts[{k}]", "conflict", places, np.ones(places.size), -math.inf, 1.0)
            self.parts.append(_Part("conflicts", "conflict", row))
        for k, quota in enumerate(stated["quotas"]):
            name, places = constraint_name("quotas", k, quota), self._places(quota.members)
            ones = np.ones(places.size)
            if quota.at_least:
                self.parts.append(
                    _Part(name, "least", LinearRow(name, "quota", places, ones, float(quota.at_least), math.inf))
                )
            if quota.at_most is not None:
                self.parts.append(
                    _Part(name, "most", LinearRow(name, "quota", places, ones, -math.inf, float(quota.at_most)))
                )
        for k, budget in enumerate(stated["budgets"]):
            name = constraint_name("budgets", k, budget)
            self.parts.append(_Part(name, "budget", budget_row(budget, name)))
        #: Stated limits of budgets, without what they may be exceeded by.
        self.limits = {constraint_name("budgets", k, each): each.limit for k, each in enumerate(stated["budgets"])}

    def _places(self, ids: Iterable[int]) -> NDArray[np.intp]:
        return np.searchsorted(self.clients, np.sort(np.asarray(list(ids), dtype=np.int64)))

    def feasible(self, parts: Sequence[_Part], *further: LinearRow) -> ConstrainedSelections | None:
        """Return the feasible set of some parts; None where clients are both included and excluded.

        Where the size is none of them, as many clients again stand for those that are not selected.
        """
        has_size = any(part.kind == "size" for part in parts)
        states = np.full(self.n if has_size else 2 * self.n, FREE, dtype=np.int8)
        for kind, state in (("include", ONE), ("exclude", ZERO)):
            places = [part.client for part in parts if part.kind == kind]
            if (states[places] != FREE).any():
                return None
            states[places] = state
        rows = [part.row for part in parts if part.row is not None]
        size = self.size if has_size else self.n
        return ConstrainedSelections.of(Constraints(states, size, (*rows, *further)))

    def label(self, name: str, parts: Sequence[_Part]) -> str:
        """Say a constraint with those of its parts that take part."""
        if parts[0].kind == "size":
            return f"size {self.size}"
        if parts[0].kind in ("include", "exclude"):
            ids = [str(self.clients[part.client]) for part in parts]
            shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
            return f"{name} of client{'s' if len(ids) > 1 else ''} {shown}"
        if parts[0].kind == "conflict":
            groups = [
                ", ".join(str(k) for k in self.clients[part.row.places][:5].tolist())
                + ("" if part.row.places.size <= 5 else ", ...")
                for part in parts
                if part.row is not None
            ]
            more = f" and {len(groups) - 5} more" if len(groups) > 5 else ""
            return f"conflict{'s' if len(groups) > 1 else ''} of clients {'; of clients '.join(groups[:5])}{more}"
        said, label = [], name
        for part in parts:
            assert part.row is not None
            label = part.row.label
            if part.kind == "least":
                said.append(f"at least {part.row.low:g}")
            else:
                said.append(
                    f"at most {self.limits.get(name, part.row.high) if part.kind == 'budget' else part.row.high:.12g}"
                )
        return f"{label} ({', '.join(said)})"


# -- selections that keep parts, or the proof that none does -----------------------------------------------------------


class _Clock:
    """Seconds that are left."""

    def __init__(self, seconds: float | None) -> None:
        self._ends = math.inf if seconds is None else time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._ends - time.perf_counter())

    def check(self) -> None:
        """Raise `NoSelection`, not proved, where the time is over."""
        if not self.left:
            raise NoSelection(False)


def _selection(feasible: ConstrainedSelections | None, n: int, clock: _Clock) -> NDArray[np.int64] | None:
    """Return a selection of a set over n clients, and others that stand for none; None is a proof that there is none.

    Raises
    ------
    NoSelection
        When neither was found in time.
    """
    clock.check()
    if feasible is None or feasible.contradiction() is not None:
        return None
    found = _by_swaps(feasible, clock)
    if found is not None:
        return found
    if feasible.count <= _ENUMERABLE:
        return next((feasible.decision(each) for each in feasible.selections()), None)
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = stated_choice(feasible, model)
    for _ in range(_MOST_ANSWERS):
        status, x = _answer(model, chosen, clock)
        if status == cp_model.INFEASIBLE:
            return None
        if x is None:
            break
        if feasible.violation(x) == 0:
            return x
        # Rounding let it through; it is as infeasible whatever stands for those that are not selected.
        model.add_bool_or([chosen[k].negated() if x[k] else chosen[k] for k in range(n)])
    raise NoSelection(False)


def _by_swaps(feasible: ConstrainedSelections, clock: _Clock) -> NDArray[np.int64] | None:
    """Mend the best selection of the laminar groups by swaps; None where that ends elsewhere."""
    total = np.zeros(feasible.n)
    for row in feasible.priced:
        sign = -1.0 if row.low > 0 else 1.0
        total += sign * row.dense(feasible.n) / (float(row.coefficients.max(initial=0)) or 1.0)
    x = feasible.core.best(-total)
    for _ in range(4 * feasible.size):
        if feasible.violation(x) == 0:
            return x
        if not clock.left or (swap := feasible.mending_swap(x, -total)) is None:
            break
        x[swap[0]], x[swap[1]] = 0, 1
    return x if feasible.violation(x) == 0 else None


def _answer(model: Any, chosen: list[Any], clock: _Clock) -> tuple[int, NDArray[np.int64] | None]:
    """Ask CP-SAT; return its status, and its answer where it has one."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.catch_sigint_signal = False  # see `solvers.backends.solver_for`
    if math.isfinite(clock.left):
        solver.parameters.max_time_in_seconds = max(clock.left, 1e-3)
    status = run_cp_sat(None, solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status, None
    return status, np.array([int(solver.value(variable)) for variable in chosen])


def _least(statement: _Statement, parts: Sequence[_Part], row: LinearRow, sign: int, clock: _Clock) -> float | None:
    """Return the least (sign 1) or largest (−1) sum of a row over the selections that keep parts, exactly.

    None where there is none, or that is not known in time.
    """
    feasible = statement.feasible(parts)
    try:
        x = _selection(feasible, statement.n, clock)
        if feasible is None or x is None:
            return None
        goal = -sign * row.dense(feasible.n)
        if feasible.is_exact:
            return row.activity(feasible.core.best(goal))
        if feasible.count <= _ENUMERABLE:
            return sign * min(sign * row.activity(feasible.decision(each)) for each in feasible.selections())
        found = row.activity(x)
        x = _optimised(feasible, goal, clock)
        if x is not None and feasible.violation(x) == 0:
            found = sign * min(sign * found, sign * row.activity(x))
        for _ in range(_MOST_ANSWERS):
            if sign > 0:
                better = replace(row, low=-math.inf, high=float(np.nextafter(found, -math.inf)))
            else:
                better = replace(row, low=found + 1, high=math.inf)
            x = _selection(statement.feasible(parts, better), statement.n, clock)
            if x is None:
                return found
            found = row.activity(x)
    except NoSelection:
        pass
    return None


def _optimised(feasible: ConstrainedSelections, g: NDArray[np.float64], clock: _Clock) -> NDArray[np.int64] | None:
    """Return a selection of nearly the largest gᵀx, which may miss a budget by rounding."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = stated_choice(feasible, model)
    unit = 2.0**30 / (float(np.abs(g).max()) or 1.0)
    model.maximize(cp_model.LinearExpr.weighted_sum(chosen, np.rint(g * unit).astype(np.int64).tolist()))
    return _answer(model, chosen, clock)[1]


# -- deletion ----------------------------------------------------------------------------------------------------------


def _reduced(items: Sequence[Item], contradict: Callable[[list[Item]], bool], width: int) -> list[Item]:
    """Delete items, so many at a time and then fewer, as long as the others contradict each other."""
    kept = list(items)
    while True:
        start = 0
        while start < len(kept):
            others = kept[:start] + kept[start + width :]
            if contradict(others):
                kept = others
            else:
                start += width
        if width == 1:
            return kept
        width = max(1, width // 2)


def _explained(statement: _Statement, seconds: float | None) -> Conflict | None:
    """Find the conflict of a statement."""
    clock, undecided = _Clock(seconds), 0
    if _selection(statement.feasible(statement.parts), statement.n, clock) is not None:
        return None

    def contradict(parts: list[_Part]) -> bool:
        nonlocal undecided
        try:
            return _selection(statement.feasible(parts), statement.n, clock) is None
        except NoSelection:
            undecided += 1
            return False

    def of(names: Sequence[str]) -> list[_Part]:
        return [part for part in statement.parts if part.name in names]

    every = list(dict.fromkeys(part.name for part in statement.parts))
    names = _reduced(every, lambda left: contradict(of(left)), 1)
    parts = of(names)
    for name in names:  # of each constraint, what takes part
        others, own = [part for part in parts if part.name != name], [part for part in parts if part.name == name]
        if len(own) > 1:
            own = _reduced(own, lambda left, others=others: contradict(others + left), max(1, len(own) // 2))  # type: ignore[misc]
            parts = others + own
    is_minimal = not undecided
    has_other = any(contradict([part for part in statement.parts if part.name != name]) for name in names)
    is_only = not (has_other or undecided)
    relaxation, said = _relaxation(statement, names, parts, clock)
    labels = tuple(statement.label(name, [part for part in parts if part.name == name]) for name in names)
    sentence = _joined(labels) + (" contradict each other" if len(labels) > 1 else " cannot be kept")
    if not is_minimal:
        sentence += " (some of them may not be needed: time ran out)"
    elif is_only:
        sentence += f"; without {'either' if len(labels) == 2 else 'any one of them'} the problem is feasible"
    elif has_other:
        sentence += "; beside them the problem has another conflict"
    return Conflict(tuple(names), labels, relaxation, is_only, is_minimal, sentence + (f"; {said}" if said else ""))


def _joined(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _relaxation(
    statement: _Statement, names: Sequence[str], parts: Sequence[_Part], clock: _Clock
) -> tuple[Relaxation | None, str]:
    """Return how far one number must move, and its sentence: of the only budget, else the only quota, else the size."""
    budgets = [part for part in parts if part.kind == "budget"]
    quotas = [part for part in parts if part.kind in ("least", "most")]
    if len(budgets) == 1:
        part = budgets[0]
    elif not budgets and len(quotas) == 1:
        part = quotas[0]
    elif not budgets and "size" in names:
        part = next(part for part in parts if part.kind == "size")
    else:
        return None, ""
    row = part.row
    if row is None:
        row = LinearRow("size", "quota", np.arange(statement.n), np.ones(statement.n), 0.0, math.inf)
    others = [each for each in statement.parts if each.name in names and each != part]
    rest = [each for each in statement.parts if each != part]
    signs = {"budget": (1,), "most": (1,), "least": (-1,), "size": (1, -1)}[part.kind]
    stated = statement.limits[part.name] if part.kind == "budget" else float(statement.size)
    if part.kind in ("least", "most"):
        stated = row.low if part.kind == "least" else row.high
    for sign in signs:
        allowed = _least(statement, others, row, sign, clock)
        if allowed is None or sign * allowed <= sign * stated:
            continue
        overall = _least(statement, rest, row, sign, clock)
        of = "" if part.kind == "size" else f" of {row.label}"
        if part.kind == "budget":
            said = f"the least limit{of} that allows the other{'s' if len(names) > 2 else ''} is {allowed:.12g}"
        else:
            most, verb = ("least", "must") if sign > 0 else ("most", "can")
            said = (
                f"with the other{'s' if len(names) > 2 else ''}, at {most} {allowed:g} client(s){of} {verb} be selected"
            )
        if overall is not None and overall != allowed:
            said += f" ({overall:.12g} with all constraints)"
        return Relaxation(part.name, stated, allowed, overall), said
    return None, ""
