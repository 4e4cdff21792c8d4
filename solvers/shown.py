"""Solutions as people look at them: a summary, a picture, HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from solvers.outline import html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from solvers.solution import Solution

__all__ = ["html_of_solution", "plot", "summary"]


def summary(solution: Solution) -> str:
    """What a solver log ends with, a fact a line."""
    return "\n".join(f"{name:<14} {value}" for name, value in _facts(solution))


def html_of_solution(solution: Solution) -> str:
    """The summary as an HTML table."""
    return html_table(f"Solution of a {type(solution.problem).__name__}", _facts(solution))


def plot(solution: Solution, axes: Axes | None = None) -> Axes:
    """Objective and bound over the seconds, with the gap between them shaded; see `Solution.plot`."""
    if axes is None:
        from matplotlib.figure import Figure

        axes = Figure(figsize=(5.6, 3.8), layout="constrained").subplots()
    end = max([solution.seconds, *(point.second for point in solution.trace)])
    seconds = [*(point.second for point in solution.trace), end]
    lines = []
    for name, style in (("objective", "-"), ("bound", "--")):
        values = [np.nan if (value := getattr(point, name)) is None else value for point in solution.trace]
        values.append(values[-1] if values else np.nan)
        axes.step(seconds, values, style, where="post", label=name)
        lines.append(np.array(values, dtype=np.float64))
    axes.fill_between(seconds, lines[0], lines[1], step="post", alpha=0.15, linewidth=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("value")
    axes.set_title(f"{solution.method}: {solution.status}", fontsize=10)
    axes.legend()
    return axes


def _facts(solution: Solution) -> list[tuple[str, str]]:
    told = [("method", solution.method), ("status", solution.status), ("stopped", solution.stopped)]
    if solution.message:
        told.append(("message", solution.message))
    if native := solution.details.get("native_status"):
        told.append(("native status", str(native)))
    told.append(("objective", _number(solution.objective)))
    by = solution.details.get("certified_by")
    told.append(("bound", _number(solution.bound) + (f" (by {by})" if by else "")))
    gap, absolute = solution.gap, solution.absolute_gap
    if gap is not None and absolute is not None:
        told.append(("gap", f"{100 * gap:.4g} % ({absolute:.4g} absolute)"))
    if solution.nodes is not None:
        told.append(("nodes", str(solution.nodes)))
    told.append(("seconds", f"{solution.seconds:.3f}"))
    phases: Sequence[Any] = solution.details.get("phases", ())
    told += [(f"  {each['name']}", f"{each['seconds']:.3f} s") for each in phases if "seconds" in each]
    return told


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.12g}"
