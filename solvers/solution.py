"""The answer to a problem: decision, re-evaluated objective, bound, status, trace."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers import shown, stored
from solvers.certificates import Certificate
from solvers.errors import InvalidAnswer
from solvers.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OPTIMALITY_GAP", "Solution", "Status", "Stopped", "TracePoint", "proves", "relative_gap"]

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Stopped = Literal["proved", "gap", "time-limit", "iterations", "interrupted", "error"]

#: Difference of bound and objective at which a decision is called optimal, in the units that `proves` states.
OPTIMALITY_GAP = 1e-6


class TracePoint(NamedTuple):
    """One step of the anytime trace.

    ``second`` counts from the start of `solvers.solve`; ``objective`` is the best feasible value so far and
    ``bound`` the best bound so far, each ``None`` until there is one.
    """

    second: float
    objective: float | None
    bound: float | None


def relative_gap(objective: float, bound: float) -> float:
    """``|bound − objective| / |objective|``, as MIP solvers state it.

    0 where they are equal, `math.inf` where the objective alone is 0: an objective that may cross zero needs a scale
    of its own.
    """
    difference = abs(bound - objective)
    if difference == 0.0:
        return 0.0
    return difference / abs(objective) if objective else math.inf


def proves(problem: Problem, objective: float | None, bound: float | None) -> bool:
    """Whether ``bound`` proves ``objective`` optimal: they differ by 1e-6 · min(max(1, |objective|), scale) at most.

    A relative gap alone would ask the impossible where the objective is a difference of large terms and comes out
    near 0; see `Problem.scale` for why the problem's own scale takes part.
    """
    if objective is None or bound is None:
        return False
    return abs(bound - objective) <= OPTIMALITY_GAP * min(max(1.0, abs(objective)), problem.scale)


@dataclass(frozen=True, eq=False)
class Solution:
    """A decision and everything known about how good it is.

    The objective is the problem's own evaluation of ``x``, never a solver's. A bound lies on the right side of the
    objective by construction: one on the wrong side by more than rounding raises `InvalidAnswer`, and one within
    rounding is moved onto the objective.

    Attributes
    ----------
    problem : Problem
        The problem that was solved.
    method : str
        Registered name of the method.
    x : ndarray or None
        The decision (0/1 vector, allocation, probabilities or weights); ``None`` if no feasible point was found.
    objective : float or None
        ``problem.objective(x)``.
    bound : float or None
        A value no feasible decision can beat; ``None`` when nothing is known.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        What is known: a feasible point, and whether it is proved optimal (to `OPTIMALITY_GAP`).
    stopped : {"proved", "gap", "time-limit", "iterations", "interrupted", "error"}
        Why the method ended; ``"gap"``: at the gap that `solvers.solve` was to stop at.
    message : str
        The native message of the backend, if there is one.
    seconds, build_seconds : float
        Wall time of the whole solve, and the part of it spent stating the model to a backend.
    nodes : int or None
        Nodes of the search tree; ``None`` for methods without one.
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
        if wrong > 1e-9 * min(max(1.0, abs(self.objective)), self.problem.scale):
            raise InvalidAnswer(
                f"method {self.method!r} reported the bound {self.bound!r}, but its own decision has objective "
                f"{self.objective!r}; no bound of a {self.problem.sense}imisation can lie on that side"
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
            raise AttributeError(f"a {type(self.problem).__name__} decides quantities, it does not select clients")
        return self.problem.selected(self.x)

    def with_bound(self, bound: float | None, **details: Any) -> Solution:
        """The same decision beside a bound found elsewhere, if that is tighter; ``details`` are added."""
        known = [b for b in (self.bound, bound) if b is not None]
        best = (min if self.problem.sense == "max" else max)(known, default=None)
        status = "optimal" if proves(self.problem, self.objective, best) else self.status
        return replace(self, bound=best, status=status, details={**self.details, **details})

    def residuals(self) -> dict[str, float]:
        """Recompute the certificate of this answer from the problem, ``x`` and the duals.

        Returns
        -------
        dict of str to float
            ``objective_error`` (reported minus recomputed objective) and ``violation``; and, for convex problems
            whose method returned duals, the KKT residuals that ``problem.kkt_residuals`` defines.
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
        """Everything as JSON values: lists for arrays, None for numbers that are not finite.

        In place of the problem's data stand its name and digest; `save` keeps them.
        """
        return stored.as_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the solution with its problem to ``path``, a NumPy ``.npz`` archive that appears whole or not at all.

        Decision, duals and the problem's arrays keep their bits; ``details`` are kept as JSON can hold them. Nothing
        is pickled, so a file from a stranger can be read.
        """
        return stored.write(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Solution:
        """Read what `save` wrote; raises `InvalidProblem` when the file holds no solution."""
        return stored.read(path)

    def summary(self) -> str:
        """What a solver log ends with: status, objective, bound, gap and times, a line each."""
        return shown.summary(self)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw objective and bound over the seconds, on ``axes`` or on a new figure (with matplotlib)."""
        return shown.plot(self, axes)

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
        return shown.html_of_solution(self)

    def __repr__(self) -> str:
        parts = [f"method={self.method!r}", f"status={self.status!r}", f"stopped={self.stopped!r}"]
        if self.objective is not None:
            parts.append(f"objective={self.objective:.9g}")
        if self.bound is not None:
            parts.append(f"bound={self.bound:.9g}")
        if self.gap is not None:
            parts.append(f"gap={self.gap:.3g}")
        parts.append(f"seconds={self.seconds:.3g}")
        return f"Solution({', '.join(parts)})"
