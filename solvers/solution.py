"""Solution of a problem: decision, re-evaluated objective, bound, status, trace; files and display."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.certificates import Certificate
from solvers.errors import InvalidAnswer, InvalidProblem
from solvers.files import appearing_whole
from solvers.options import describe_type, did_you_mean, matches
from solvers.problem import (
    OPTIMALITY_GAP,  # noqa: F401  (solutions have it from here)
    Problem,
    assembled,
    digest,
    html_table,
    load,
    parts,
)
from solvers.reading import is_json, parse_json, read_arrays
from solvers.search.pool import EMPTY, Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Stopped = Literal[
    "proved", "gap", "target", "time-limit", "work-limit", "iterations", "interrupted", "cancelled", "error",
    "running",
]  # fmt: skip

#: Reasons to end that come from outside: nothing more is solved or proved after them.
ENDED_FROM_OUTSIDE = ("interrupted", "cancelled")

FORMAT = "solvers-solution/1"

#: Fields that are written as they are, with what a file may say of each; the others have a form of their own.
_FACTS: dict[str, Any] = {
    "method": str, "objective": float | None, "bound": float | None, "status": Status, "stopped": Stopped,
    "message": str, "seconds": float, "build_seconds": float, "nodes": int | None, "seed": int,
}  # fmt: skip

#: The same where a pool was asked for.
_POOL_FACTS: dict[str, Any] = {"pool_bound": float | None, "pool_complete": bool}


class TracePoint(NamedTuple):
    """One step of the anytime trace.

    ``second`` counts from the start of `solvers.solve`, without loading and compiling; ``objective`` is the best
    feasible value so far and ``bound`` the best bound so far, each ``None`` until there is one.
    """

    second: float
    objective: float | None
    bound: float | None

    @property
    def gap(self) -> float | None:
        """`relative_gap` of the two; ``None`` while either is unknown."""
        return None if self.objective is None or self.bound is None else relative_gap(self.objective, self.bound)


def draw_trace(
    axes: Axes, points: Sequence[Any], styles: Sequence[Mapping[str, Any]], until: float | None = None
) -> None:
    """Draw objective and bound of trace points over the seconds, each in its style, the gap between them shaded.

    The last values last to the end of the solve, ``until`` (seconds), where it is given.
    """
    if until is not None and len(points) and until > points[-1][0]:
        points = [*points, (until, *points[-1][1:])]
    seconds, objective, bound = np.array(points, dtype=np.float64).reshape(-1, 3).T
    if seconds.size:
        for name, values, style in zip(("objective", "bound"), (objective, bound), styles, strict=True):
            axes.step(seconds, values, where="post", label=name, **style)
        shade: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.6", "hatch": "///", "linewidth": 0, "alpha": 0.5}
        axes.fill_between(seconds, objective, bound, step="post", **shade)
    axes.set_xlabel("seconds")
    axes.set_ylabel("value")
    axes.ticklabel_format(useOffset=False)


def draw_constraints(axes: Axes, rows: Sequence[Any], x: NDArray[Any]) -> None:
    """Draw what a selection uses of each quota and budget as a share of its limit, a line at the least that it must.

    A row without an upper limit is drawn as a share of its lower one. Conflicts are left out.
    """
    shown = [row for row in rows if row.kind != "conflict"]
    for place, row in enumerate(shown):
        upper = row.high if math.isfinite(row.high) else row.low
        unit = upper if upper > 0 else 1.0
        binds = row.slack(x) <= 1e-9 * unit
        axes.barh(place, row.activity(x) / unit, color="C1" if binds else "C0", hatch="//" if binds else None)
        if row.low > 0:
            axes.plot([row.low / unit] * 2, [place - 0.4, place + 0.4], color="black")
    axes.axvline(1.0, color="0.4", linestyle=":")
    axes.set_yticks(range(len(shown)), [row.label for row in shown], fontsize=8)
    axes.set_xlabel("used, as a share of the limit (hatched: it binds)")
    axes.invert_yaxis()


def relative_gap(objective: float, bound: float) -> float:
    """``|bound − objective| / |objective|``, as MIP solvers state it.

    0 where they are equal, `math.inf` where the objective alone is 0: an objective that may cross zero needs a scale
    of its own.
    """
    difference = abs(bound - objective)
    if difference == 0.0:
        return 0.0
    return difference / abs(objective) if objective else math.inf


def decides(problem: Problem, objective: float | None, bound: float | None, target: float | None) -> bool | None:
    """Return whether a value can be reached: True where ``objective`` is as good, False where ``bound`` is worse.

    None where neither says so.
    """
    sign = 1.0 if problem.sense == "max" else -1.0
    if target is None:
        return None
    if objective is not None and sign * objective >= sign * target:
        return True
    return False if bound is not None and sign * bound < sign * target else None


def proves(problem: Problem, objective: float | None, bound: float | None) -> bool:
    """Return whether ``bound`` proves ``objective`` optimal, at 1e-6 · min(max(1, |objective|), scale) or less from it.

    See `Problem.tolerance_at` for the unit.
    """
    if objective is None or bound is None:
        return False
    return abs(bound - objective) <= problem.tolerance_at(objective)


@dataclass(frozen=True, eq=False)
class Solution:
    """A decision and what is known about how good it is.

    The objective is the problem's own evaluation of ``x``. A bound lies on the right side
    of the objective by construction: one on the wrong side by more than rounding raises `InvalidAnswer`, and one within
    rounding is moved onto the objective.

    Attributes
    ----------
    problem : Problem
        The problem that was solved.
    method : str
        Registered name of the method.
    x : ndarray or None
        The decision (0/1 vector or table, allocation, probabilities, weights or a number, as the problem decides);
        ``None`` if no feasible point was found.
    objective : float or None
        ``problem.objective(x)``.
    bound : float or None
        A value no feasible decision can beat, but for those of ``vetoed``; ``None`` when nothing is known.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        What is known: a feasible point, and whether it is proved optimal (to `OPTIMALITY_GAP`).
    stopped : str
        ``"proved"``, ``"gap"``, ``"target"``, ``"time-limit"``, ``"work-limit"``, ``"iterations"``, ``"interrupted"``,
        ``"cancelled"``, ``"error"`` or ``"running"``.
        Why the solve ended; ``"gap"``, ``"target"``: at what `solvers.solve` was to stop at; ``"iterations"``: by the
        method's own rule; ``"interrupted"``: by Ctrl-C; ``"cancelled"``: by its event, or by a ``watch`` that returned
        True; ``"error"``: by one, see ``message``. ``"running"``: it has not, see ``solution_so_far`` of
        `solvers.submit`.
    message : str
        The native message of the backend, or what the method has to say about its end; empty where there is none.
    seconds, build_seconds : float
        Wall time of the whole solve, without loading and compiling, and its part spent stating the model to a backend.
    nodes : int or None
        Nodes of the search tree, or what the method counts in their place, such as branches of CP-SAT; ``None`` where
        it counts none.
    trace : tuple of TracePoint
        Every improvement of the objective or the bound, in order.
    seed : int
        The seed the method was given.
    duals : Mapping[str, ndarray or float]
        Dual multipliers, for methods that produce them.
    details : Mapping[str, object]
        What else the method has to say, by name.
    certificate : Certificate or None
        What proves the bound to `solvers.certificates.check`, where `solvers.solve` was asked for it; it may claim a
        weaker one than ``bound``, and says which in ``certificate.bound``.
    is_received : bool
        Whether it was read from a file: then its bound is a claim, unless its certificate proves it. From ``.npz`` its
        objective is the file's, to the tolerance that `load` checks: `residuals` evaluates it again.
    pool : Pool
        Where `solvers.solve` was asked for a pool: the best selections, distinct, best first, of equal ones (but for
        rounding) the smallest ids first. A tuple; each has ``selected`` and ``objective``, and the first is the
        decision. ``pool.to_frame()`` is a table.
    pool_bound : float or None
        A value that no selection outside the pool can beat, but for those of ``vetoed`` and, where members differ in d
        clients at least, those that differ in fewer from a member; ``None`` when nothing is known.
    pool_complete : bool
        Whether the members are proved to be the best ones, or all within the tolerance.
    vetoed : Pool
        Selections as good as the last member that the veto refused; all that it refused where members must differ.
    """

    problem: Problem
    method: str
    x: NDArray[Any] | None
    objective: float | None
    bound: float | None
    status: Status
    stopped: Stopped
    message: str = ""
    seconds: float = 0.0
    build_seconds: float = 0.0
    nodes: int | None = None
    trace: tuple[TracePoint, ...] = ()
    seed: int = 0
    duals: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    is_received: bool = False
    pool: Pool = EMPTY
    pool_bound: float | None = None
    pool_complete: bool = False
    vetoed: Pool = EMPTY

    def __post_init__(self) -> None:
        object.__setattr__(self, "duals", MappingProxyType(dict(self.duals)))
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))
        if self.bound is not None and np.isnan(self.bound):
            raise InvalidAnswer(f"method {self.method!r} reported NaN as its bound")
        if self.objective is None or self.bound is None:
            return
        # How far the bound lies beyond the objective, on the side where it must not be.
        sign = 1.0 if self.problem.sense == "max" else -1.0
        wrong = sign * (self.objective - self.bound)
        if wrong > self.problem.tolerance_at(self.objective, 1e-9):
            second = self.details.get("bound_by")
            by, whose = (self.method, "its own decision") if second is None else (second, f"the one of {self.method!r}")
            raise InvalidAnswer(
                f"method {by!r} reported the bound {self.bound!r}, but {whose} has objective {self.objective!r}; no "
                f"bound of a {self.problem.sense}imisation can lie on that side"
            )
        if wrong > 0:
            object.__setattr__(self, "bound", self.objective)

    @property
    def absolute_gap(self) -> float | None:
        """``|bound − objective|``; ``None`` when either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        return abs(self.bound - self.objective)

    @property
    def gap(self) -> float | None:
        """``|bound − objective| / |objective|``, see `relative_gap`; ``None`` when either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        return relative_gap(self.objective, self.bound)

    def reaches(self, target: float) -> bool | None:
        """Return whether the best value is as good as ``target``; ``None`` where neither bound nor objective tells."""
        return False if self.status == "infeasible" else decides(self.problem, self.objective, self.bound, target)

    @property
    def target(self) -> float | None:
        """The claim that `solvers.solve` was to decide; ``None`` where there was none."""
        return self.details.get("target")

    @property
    def target_verdict(self) -> str | None:
        """Sentence that says whether a decision as good as `target` was found, excluded, or neither."""
        if self.target is None:
            return None
        value, bound = _number(self.objective), _number(self.bound)
        claim = f"{_number(self.target)} or {'more' if self.problem.sense == 'max' else 'less'}"
        answer = self.reaches(self.target)
        if answer:
            return f"reached: this decision is worth {value}, and the claim was {claim}"
        if self.status == "infeasible":
            return f"refuted: there is no feasible decision, so none is worth {claim}"
        if answer is False:
            return f"refuted: no decision is worth {claim}, as the bound is {bound}"
        known = "no decision is known" if self.objective is None else f"the best decision known is worth {value}"
        ends = "no bound is known" if self.bound is None else f"the bound is {bound}"
        within = ", and the claim lies within the tolerance of the proof" if self.status == "optimal" else ""
        return f"not decided: the claim is {claim}, {known}, and {ends}{within}"

    @property
    def selected(self) -> NDArray[np.int64]:
        """Sorted ids of the selected clients, for problems that select.

        Raises
        ------
        AttributeError
            When the problem does not select clients, or no feasible decision was found.
        """
        if self.x is None:
            raise AttributeError(f"method {self.method!r} found no feasible decision, so nothing is selected")
        if not hasattr(self.problem, "selected"):
            kind = type(self.problem).__name__
            hint = f" (selects where {kind} has a method selected(x))" if np.isin(self.x, (0, 1)).all() else ""
            raise AttributeError(f"a {kind} decides quantities, it does not select clients{hint}")
        return self.problem.selected(self.x)

    @property
    def selected_names(self) -> tuple[str | int, ...]:
        """Names of the selected clients, in the order of `selected`, for problems that have ``names``.

        Raises
        ------
        AttributeError
            When the problem has none, or no feasible decision was found.
        """
        names = getattr(self.problem, "names", ())
        if not names:
            raise AttributeError(f"this {type(self.problem).__name__} has no names; state it with names=[...]")
        selected = self.selected
        every = self.problem.selected(np.ones_like(np.asarray(self.x)))  # type: ignore[attr-defined]  # it selects
        return tuple(names[place] for place in np.flatnonzero(np.isin(every, selected)))

    @property
    def work(self) -> int | None:
        """Rows of the problem's matrix that were read, or what takes as long: what ``work_limit`` counts.

        ``None`` where none was counted.
        """
        return self.details.get("work")

    @property
    def native_status(self) -> str | None:
        """Name that an external solver has for its answer, in its own tolerances; ``None`` where none is kept."""
        return self.details.get("native_status")

    @property
    def bound_by(self) -> str | None:
        """Method whose bound was put beside the decision, see `solvers.with_bound`; ``None`` where none was."""
        return self.details.get("bound_by")

    @property
    def bound_seconds(self) -> float:
        """Seconds that the method `bound_by` took; 0 where there is none."""
        return float(self.details.get("bound_seconds", 0.0))

    @property
    def raw(self) -> NDArray[np.float64] | None:
        """Numbers that the method computed before it made a decision of them, where it keeps them.

        Inclusion probabilities as ``as-printed`` and ``one-pass`` leave them, an allocation in real numbers before it
        is rounded, or the importance that weights, or a set in fractions, give the clients. It need be no decision.
        """
        found = self.details.get("raw")
        return None if found is None else np.asarray(found, dtype=np.float64)

    @property
    def certificate_report(self) -> Mapping[str, Any]:
        """Report of `solvers.certificate_writers.with_certificate`; empty where no certificate was asked for."""
        return self.details.get("certificate", {})

    @property
    def prices(self) -> Mapping[str, float]:
        """Price of each quota, budget and conflict by name: what a bound rises by with one unit more of its limit.

        In units of the objective per unit of the constraint: positive where an upper limit costs (``at_most``, a
        budget's ``limit``, a conflict), negative where a lower one does (``at_least``), 0 where the bound does not rest
        on it. The bound is `priced_bound`: with a limit moved by d, no decision is worth more than that plus the price
        times d. Of a `solvers.dispersion.QuadraticProblem` both are those of the dispersion problem that it is solved
        as. They are for problems of dispersion whose side constraints ``auto`` or ``branch-and-bound`` keeps in its
        tree over a matrix of all clients, and are computed when they are first looked at. Elsewhere they are empty,
        as between points of which only a part has a matrix.
        """
        found: Mapping[str, float] = self.details.get("prices", {})
        return found

    @property
    def priced_bound(self) -> float | None:
        """Bound that `prices` are the multipliers of; ``None`` where there are none."""
        return getattr(self.prices, "bound", self.details.get("priced_bound")) if self.prices else None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if isinstance(getattr(type(self), name, None), property):  # which raised its own AttributeError
                return object.__getattribute__(self, name)
            hint = "" if name.startswith("_") else did_you_mean(name, (*self.__dataclass_fields__, *vars(Solution)))
            raise AttributeError(f"a Solution has no attribute {name!r}{hint}", name=name, obj=self)

    def _plain_details(self) -> Any:
        """Return ``details`` as JSON can hold them, with what is computed when it is looked at."""
        priced = {"priced_bound": self.priced_bound} if self.prices else {}
        return jsonable({**self.details, **priced})

    def _pool_values(self) -> dict[str, Any]:
        """Return the fields of a pool as JSON values; none where none was asked for."""
        if self.pool_bound is None and not (self.pool or self.vetoed or self.pool_complete):
            return {}
        facts = {name: getattr(self, name) for name in _POOL_FACTS}
        return {"pool": self.pool.to_list(), **facts, "vetoed": self.vetoed.to_list()}

    @property
    def slack(self) -> Mapping[str, float]:
        """Slack that the decision leaves of each quota, budget and conflict by name, in its units; 0 where it binds.

        A budget may be exceeded by 1e-9 of its limit, so that its slack may be as far below 0.
        """
        if self.x is None or not self.problem.is_constrained:
            return {}
        rows = self.problem.constraints.rows  # type: ignore[attr-defined]  # it is constrained
        return {row.name: row.slack(self.x) for row in rows}

    @property
    def dropped(self) -> Mapping[str, Mapping[str, float | None]]:
        """``objective`` and ``bound`` without each side constraint, by its name, and without all of them, by ``"all"``.

        Empty but for what `solvers.with_dropped_constraints` returns.
        """
        found: Mapping[str, Mapping[str, float | None]] = self.details.get("dropped", {})
        return found

    @property
    def nodes_by_tree(self) -> Mapping[str, int]:
        """Nodes of each tree of a portfolio, by its name; empty where one tree or none was searched."""
        found: Mapping[str, int] = self.details.get("nodes", {})
        return found

    def with_bound(self, bound: float | None, **details: Any) -> Solution:
        """Return the same decision beside a bound found elsewhere, if that is tighter; ``details`` are added."""
        known = [b for b in (self.bound, bound) if b is not None]
        best = (min if self.problem.sense == "max" else max)(known, default=None)
        status = "optimal" if proves(self.problem, self.objective, best) else self.status
        return replace(self, bound=best, status=status, details={**self.details, **details})

    def residuals(self) -> dict[str, float]:
        """Evaluate this answer again from the problem, ``x`` and the duals.

        Returns
        -------
        dict of str to float
            ``objective_error`` (absolute difference of reported and recomputed objective) and ``violation``; and, for
            convex problems whose method returned duals, the KKT residuals that ``problem.kkt_residuals`` defines.
            Empty where there is no decision.
        """
        if self.x is None:
            return {}
        certificate = {
            "objective_error": abs(self.problem.objective(self.x) - (self.objective or 0.0)),
            "violation": self.problem.violation(self.x),
        }
        if self.duals and hasattr(self.problem, "kkt_residuals"):
            certificate |= self.problem.kkt_residuals(self.x, **self.duals)
        return certificate

    # -- as data, as text, as a picture ---------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the solution as JSON values: lists for arrays, None for numbers that are not finite.

        In place of the problem's data, and of a certificate's, stand names and digests; `save` keeps them.
        """
        problem = self.problem
        values: dict[str, Any] = {"format": FORMAT, "problem": _summary_of(problem)}
        values |= {name: jsonable(getattr(self, name)) for name in _FACTS}
        values |= {"absolute_gap": jsonable(self.absolute_gap), "gap": jsonable(self.gap), "x": jsonable(self.x)}
        if self.x is not None and hasattr(problem, "selected"):
            values["selected"] = jsonable(self.selected)
            if getattr(problem, "names", ()):
                values["selected_names"] = list(self.selected_names)
        values |= self._pool_values()
        values["trace"] = [list(point) for point in self.trace]
        values["certificate"] = None if self.certificate is None else _claim(self.certificate)
        return values | {"duals": jsonable(self.duals), "details": self._plain_details()}

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution with its problem to ``path``, a NumPy ``.npz`` archive that appears whole or not at all.

        Decision, duals and the problem's arrays keep their bits; ``details`` are kept as JSON can hold them. Nothing
        is pickled, so a file from a stranger can be read.
        """
        header, arrays = parts(self.problem)
        kept = {f"problem.{name}": array for name, array in arrays.items()}
        if self.x is not None:
            kept["x"] = np.asarray(self.x)
        kept |= {f"duals.{name}": np.asarray(value) for name, value in self.duals.items()}
        values = {name: getattr(self, name) for name in _FACTS}
        values |= {"format": FORMAT, "problem": header, "details": self._plain_details()}
        values |= self._pool_values()
        values["trace"] = [list(point) for point in self.trace]
        if self.certificate is not None:
            values["certificate"] = _claim(self.certificate)
            kept |= {f"certificate.{name}": array for name, array in self.certificate.arrays.items()}
        target = Path(path)
        with appearing_whole(target) as stream:
            text = json.dumps(values, default=jsonable)
            np.savez_compressed(stream, header=np.array(text), **kept)  # type: ignore[arg-type]
        return target

    @staticmethod
    def load(path: str | os.PathLike[str], problem: Problem | None = None) -> Solution:
        """Read what `save` wrote, or the JSON of ``fedselect solve --out`` and `to_json`.

        Parameters
        ----------
        path : path-like
            The file.
        problem : Problem, optional
            What the solution is about. One in JSON does not hold its problem; if left out it is looked for in the
            ``.npz`` that the JSON says it was read from.

        Raises
        ------
        InvalidProblem
            When the file holds no solution, or that of another problem, or its decision is not feasible; of JSON also
            when its problem is not found, or it has no decision; of ``.npz`` also when its decision has another
            objective than it says.
        FileNotFoundError
            When there is no such file.
        """
        return replace(_read(path, problem), is_received=True)

    def summary(self) -> str:
        """Return method, status, objective, bound, gap, times and what else is known, one line each."""
        return "\n".join(f"{name:<14} {value}" for name, value in self._rows())

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw objective and bound over the seconds, the gap between them shaded, on ``axes`` or on a new figure.

        On a new figure side constraints stand beside them, where there is a decision: what it uses of each quota and
        budget.
        """
        if isinstance(axes, (str, os.PathLike)):
            raise TypeError(f"plot draws on axes of matplotlib; plot().figure.savefig({str(axes)!r}) saves the picture")
        if axes is None:
            from matplotlib.figure import Figure

            if self.x is not None and self.problem.is_constrained:
                axes, beside = Figure(figsize=(9.6, 3.8), layout="constrained").subplots(1, 2)
                draw_constraints(beside, self.problem.constraints.rows, self.x)  # type: ignore[attr-defined]
            else:
                axes = Figure(figsize=(5.6, 3.8), layout="constrained").subplots()
        draw_trace(axes, self.trace, ({"linestyle": "-"}, {"linestyle": "--"}), self.seconds)
        axes.set_title(f"{self.method}: {self.status}", fontsize=10)
        if self.trace:
            axes.legend()
        return axes

    def __getstate__(self) -> dict[str, Any]:
        # Read-only views of dicts cannot be pickled or copied.
        return {**self.__dict__, "duals": dict(self.duals), "details": dict(self.details)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["x"], np.ndarray):
            state["x"].setflags(write=False)
        for name in ("duals", "details"):
            state[name] = MappingProxyType(state[name])
        self.__dict__.update(state)

    def _repr_html_(self) -> str:
        return html_table(f"Solution of a {type(self.problem).__name__}", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("method", self.method), ("status", self.status), ("stopped", self.stopped)]
        if self.message:
            rows.append(("message", self.message))
        if verdict := self.target_verdict:
            rows.append(("target", verdict))
        if native := self.native_status:
            rows.append(("native status", str(native)))
        rows.append(("objective", _number(self.objective)))
        by = self.bound_by
        rows.append(("bound", _number(self.bound) + (f" (by {by})" if by else "")))
        gap, absolute = self.gap, self.absolute_gap
        if gap is not None and absolute is not None:
            rows.append(("gap", f"{100 * gap:.4g} % ({absolute:.4g} absolute)"))
        if report := self.certificate_report:
            weaker = report.get("distance", 0.0)
            said = f"{_number(report.get('bound'))}" + (f" ({weaker:.4g} weaker than the bound)" if weaker > 0 else "")
            if absolute is not None and weaker > max(absolute, self.problem.tolerance_at(float(self.bound or 0.0))):
                said += "; with more time solvers.certificate_writers.with_certificate(solution) may prove the bound"
            rows.append(("certificate", f"none: {report['none']}" if "none" in report else f"proves {said}"))
        if self.pool or self.pool_bound is not None:
            count = f"{len(self.pool)} selection{'' if len(self.pool) == 1 else 's'}"
            is_all = "complete" if self.pool_complete else "not proved complete"
            rows.append(("pool", f"{count}, {is_all}, no other beyond {_number(self.pool_bound)}"))
        if self.nodes is not None:
            rows.append(("nodes", str(self.nodes)))
        if outcomes := self.details.get("outcomes"):
            rows.append(("  outcomes", ", ".join(f"{count} {name}" for name, count in outcomes.items())))
        if slack := self.slack:
            rows.append(("constraints", f"{sum(left <= 0 for left in slack.values())} of {len(slack)} bind"))
        for name, left in slack.items():
            price = f", price {self.prices[name]:.4g}" if self.prices.get(name) else ""  # 0 says nothing
            rows.append((f"  {name}", f"slack {left:.4g}{price}"))
        rows += [
            (f"  without {name}", f"objective {_number(each['objective'])}, bound {_number(each['bound'])}")
            for name, each in self.dropped.items()
        ]
        rows.append(("seconds", f"{self.seconds:.3f}"))
        phases: Sequence[Any] = self.details.get("phases", ())
        ended = [each for each in phases if "seconds" in each]
        won = [each for each in ended if self.bound is not None and each.get("bound") == self.bound][:1]
        rows += [
            (f"  {each['name']}", f"{each['seconds']:.3f} s" + (" (the bound)" if each in won else ""))
            for each in ended
        ]
        return rows + [("note", str(each)) for each in self.details.get("notes", ())]

    def __repr__(self) -> str:
        parts = [f"method={self.method!r}", f"status={self.status!r}", f"stopped={self.stopped!r}"]
        if self.objective is not None:
            parts.append(f"objective={self.objective:.9g}")
        if self.bound is not None:
            parts.append(f"bound={self.bound:.9g}")
        if self.gap is not None:
            parts.append(f"gap={self.gap:.3g}")
        if self.pool:
            parts.append(f"pool={len(self.pool)}{'' if self.pool_complete else ' (not proved complete)'}")
        parts.append(f"seconds={self.seconds:.3g}")
        return f"Solution({', '.join(parts)})"


def jsonable(value: Any) -> Any:
    """Convert a value to JSON's types: lists for arrays, null for numbers that are not finite, else its repr."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.12g}"


def _real(value: NDArray[Any]) -> bool:
    """Return whether an array holds finite real numbers alone."""
    return value.dtype.kind in "biuf" and bool(np.isfinite(value).all())


def _claim(certificate: Certificate) -> dict[str, Any]:
    facts = {name: getattr(certificate, name) for name in ("kind", "problem", "bound", "grid")}
    return facts | {"digest": certificate.digest}


def _below(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read(path: str | os.PathLike[str], problem: Problem | None) -> Solution:
    """Read either form of a solution."""
    try:
        if is_json(path):
            return _of_json(Path(path), problem)
        arrays = read_arrays(path)
        values = parse_json(str(arrays.pop("header", "")))
        if values.get("format") != FORMAT:
            raise ValueError(f"its format is {values.get('format')!r}")
        held = assembled(values["problem"], _below(arrays, "problem."), str(path))
        if problem is None:
            problem = held
        else:
            _check_about(path, problem, digest(held))
        known = {name: values[name] for name in _FACTS}
        if wrong := [name for name, kind in _FACTS.items() if not matches(known[name], kind)]:
            raise ValueError(f"its {wrong[0]} is {known[wrong[0]]!r}; accepted is {describe_type(_FACTS[wrong[0]])}")
        trace = tuple(TracePoint(*point) for point in values["trace"])
        if not all(matches(number, float | None) for point in trace for number in point):
            raise ValueError("its trace must hold numbers")
        details = dict(values["details"])
        known |= _pools(values)
        x, duals = arrays.get("x"), _below(arrays, "duals.")
        if wrong := [name for name, value in {"x": x, **duals}.items() if value is not None and not _real(value)]:
            raise ValueError(f"its {wrong[0]} must hold finite numbers")
        if x is not None:
            _check_decision(problem, x, known["objective"])
        certificate = None
        if claim := values.get("certificate"):
            facts = (str(claim["kind"]), str(claim["problem"]), float(claim["bound"]), int(claim["grid"]))
            certificate = Certificate(*facts, _below(arrays, "certificate."))
        if x is not None:
            x.setflags(write=False)
        known["duals"] = {name: value if value.ndim else value.item() for name, value in duals.items()}
        return Solution(problem=problem, x=x, trace=trace, details=details, certificate=certificate, **known)
    except _NoProblem:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, InvalidAnswer) as error:
        raise InvalidProblem(f"{path} is not a solution file ({FORMAT}): {error}") from error


def _pools(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pool of what a file holds; raise `ValueError` for what is none."""
    if "pool" not in values:
        return {}
    found = {name: values[name] for name in _POOL_FACTS}
    if wrong := [name for name, kind in _POOL_FACTS.items() if not matches(found[name], kind)]:
        raise ValueError(f"its {wrong[0]} is {found[wrong[0]]!r}; accepted is {describe_type(_POOL_FACTS[wrong[0]])}")
    return found | {name: Pool.from_list(values[name]) for name in ("pool", "vetoed")}


class _NoProblem(InvalidProblem):
    """A solution without the problem that it is about."""


def _check_about(path: str | os.PathLike[str], problem: Problem, known: str) -> None:
    """Raise a sentence where the solution is not about this problem, but about one of another digest."""
    if known != digest(problem):
        raise _NoProblem(f"{path} holds a solution of another problem than the one given")


def _check_decision(problem: Problem, x: NDArray[Any], objective: float | None = None) -> None:
    """Raise `ValueError` where a decision is not feasible, or not worth what is said of it."""
    if not problem.violation(x) <= problem.tolerance:
        raise ValueError("its decision is not feasible")
    worth = problem.objective(x)
    if objective is not None and not abs(worth - objective) <= problem.tolerance_at(worth):
        raise ValueError(f"its objective is {objective}, and its decision is worth {worth}")


def _of_json(path: Path, problem: Problem | None) -> Solution:
    """Read a solution without its problem; the objective is evaluated again."""
    values = parse_json(path.read_bytes())
    known = values["problem"]["digest"]
    if problem is None:
        problem = _problem_of(path, values)
    _check_about(path, problem, known)
    if values["x"] is None:
        raise ValueError("it holds no decision")
    x = problem.decision(values["x"])
    _check_decision(problem, x)
    x.setflags(write=False)
    facts = {name: values[name] for name in _FACTS if name in values}
    if wrong := [name for name, value in facts.items() if not matches(value, _FACTS[name])]:
        raise ValueError(f"its {wrong[0]} is {facts[wrong[0]]!r}; accepted is {describe_type(_FACTS[wrong[0]])}")
    facts["objective"] = problem.objective(x)
    facts |= _pools(values)
    trace = tuple(TracePoint(*point) for point in values.get("trace", ()))
    return Solution(problem=problem, x=x, trace=trace, details=dict(values.get("details") or {}), **facts)


def _problem_of(path: Path, values: dict[str, Any]) -> Problem:
    """Find the problem of a solution in JSON in the file that it says it was read from."""
    named = values.get("instance")
    if isinstance(named, str) and named.endswith(".npz"):
        for place in (Path(named), path.parent / named):
            if place.is_file():
                return load(place)
    raise _NoProblem(f"{path} does not hold its problem, as JSON does not: give it, Solution.load(path, problem=...)")


def _summary_of(problem: Problem) -> dict[str, Any]:
    named = {"family": problem.family, "type": type(problem).__name__, "sense": problem.sense}
    return named | {"n": getattr(problem, "n", None), "digest": digest(problem)}
