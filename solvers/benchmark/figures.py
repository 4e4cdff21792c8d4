"""Pictures of a benchmark; each function returns a Matplotlib figure.

They are readable in black and white: methods differ in dashes and markers as well as in colour, and the colours
(Okabe and Ito) stay apart for colour-blind readers. What is drawn of a table comes from `solvers.benchmark.profiles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from solvers.benchmark.profiles import (
    Measure,
    cost_against_size,
    gap_over_time,
    performance_profile,
    win_matrix,
)
from solvers.solution import Solution, TracePoint, draw_trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches that a picture on a page is wide.
_WIDTH = 11.0

#: Letters that fit side by side below a picture, and sizes that do.
_LETTERS, _TICKS = 120, 8

_HATCHES = ("", "///", "\\\\\\", "...", "xxx")

#: Gaps below this are drawn at it: they are proofs up to rounding.
_SMALLEST_GAP = 1e-6

_NAMES = {
    "time_to_proof": "time to proof",
    "time_to_incumbent": "time to final decision",
    "seconds": "time",
    "primal_integral": "primal integral",
    "gap": "|bound − objective| / |objective|",
    "gap_to_best": "|objective − best known| / |best known|",
}


def profile_figure(table: pd.DataFrame, measure: Measure = "time_to_proof") -> Figure:
    """Draw the performance profiles of Dolan and Moré, a panel per time limit; see `performance_profile`."""
    by_limit = [(limit, rows) for limit, rows in table.groupby("time_limit", dropna=False)] or [(np.nan, table)]
    profiles = [performance_profile(rows, measure) for _, rows in by_limit]
    figure = _empty_figure(_WIDTH, 4.2)
    axes = figure.subplots(1, len(profiles), sharey=True, squeeze=False)[0]
    right = max(2.0, 1.3 * max(each["ratio"].to_numpy(dtype=float).max(initial=1.0) for each in profiles))
    for panel, profile, (limit, _) in zip(axes, profiles, by_limit, strict=True):
        for method, curve, style in _curves(profile, table):
            ratio = np.append(curve["ratio"], right)
            share = np.append(curve["share"], curve["share"].iloc[-1])
            panel.step(ratio, share, where="post", label=method, markevery=max(1, len(ratio) // 8), **style)
        panel.set_xscale("log")
        panel.set_xlim(1.0, right)
        if len(profiles) > 1:
            panel.set_title("no time limit" if np.isnan(limit) else f"time limit {limit:g} s", fontsize=10)
            panel.grid(alpha=0.3)
    label = f"{_NAMES[measure]}, as a multiple of the best method's"
    _ = figure.supxlabel(label, fontsize=10) if len(profiles) > 1 else axes[0].set_xlabel(label)
    axes[0].set_ylim(-0.02, 1.02)
    axes[0].set_ylabel("share of solves")
    return _finished(figure, axes[0])


def gap_figure(table: pd.DataFrame, traces: pd.DataFrame, to: Literal["best", "bound"] = "best") -> Figure:
    """Draw the gap over time: the median over instances and seeds, with the band of the middle half.

    See `gap_over_time`.
    """
    gaps = gap_over_time(table, traces, to)
    figure, axes = _figure(_WIDTH, 4.2)
    for place, (method, curve, style) in enumerate(_curves(gaps, table)):
        curve = curve.assign(**{key: curve[key].clip(lower=_SMALLEST_GAP) for key in ("median", "low", "high")})
        axes.plot(curve["second"], curve["median"], drawstyle="steps-post", label=method, markevery=12, **style)
        axes.fill_between(
            curve["second"],
            curve["low"],
            curve["high"],
            step="post",
            facecolor=style["color"],
            edgecolor=style["color"],
            alpha=0.15,
            hatch=_HATCHES[place % len(_HATCHES)],
            linewidth=0,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("|objective − best known| / larger of the two" if to == "best" else _NAMES["gap"])
    return _finished(figure, axes)


def trajectory_figure(trace: pd.DataFrame | Solution, title: str = "", until: float | None = None) -> Figure:
    """Draw objective and bound of one solve over its seconds, with the gap between them shaded.

    Parameters
    ----------
    trace : Solution or DataFrame
        What `solvers.solve` gave, or ``second, objective, bound`` of one solve: rows of ``Benchmark.traces``.
    title : str
        Above the picture.
    until : float, optional
        Seconds at which the solve ended, to which the last values last; a solution's own, or else the last point's.
    """
    points = trace.trace if isinstance(trace, Solution) else trace[list(TracePoint._fields)].to_numpy(dtype=float)
    until = trace.seconds if until is None and isinstance(trace, Solution) else until
    figure, axes = _figure(_WIDTH, 4.2)
    draw_trace(axes, points, [_style(place) | {"markevery": max(1, len(points) // 12)} for place in range(2)], until)
    axes.set_title(title, fontsize=10)
    return _finished(figure, axes)


def win_figure(table: pd.DataFrame, measure: Measure = "gap_to_best") -> Figure:
    """Draw wins, ties and losses of each method (row) against each other one (column); see `win_matrix`."""
    pairs = win_matrix(table, measure)
    methods = list(dict.fromkeys(table.loc[~table["relaxed"], "method"]))
    place = {method: number for number, method in enumerate(methods)}
    share = np.full((len(methods), len(methods)), np.nan)
    figure, axes = _figure(max(_WIDTH, 1.6 + 0.95 * len(methods)), 1.2 + 0.6 * len(methods))
    for pair in pairs.itertuples():
        row, column = place[pair.method], place[pair.against]
        share[row, column] = (pair.wins - pair.losses) / max(1, pair.wins + pair.ties + pair.losses)
        # White letters on the dark ends; the number says what the shade does.
        ink = "white" if abs(share[row, column]) > 0.6 else "black"
        text = f"{pair.wins}/{pair.ties}/{pair.losses}"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=ink)
    axes.imshow(share, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    # Names lie flat where the page has room for all of them side by side.
    flat = len(methods) * max(map(len, methods), default=0) <= _LETTERS
    slope: dict[str, Any] = {} if flat else {"rotation": 30, "ha": "right"}
    axes.set_xticks(range(len(methods)), methods, fontsize=8, **slope)
    axes.set_yticks(range(len(methods)), methods, fontsize=8)
    axes.set_title(f"wins/ties/losses of the row by {_NAMES[measure]}", fontsize=9)
    return figure


def cost_figure(table: pd.DataFrame, measure: Measure = "seconds") -> Figure:
    """Draw a measure against the problem's size, both logarithmic, with bars from lowest to highest."""
    costs = cost_against_size(table, measure)
    figure, axes = _figure(_WIDTH, 4.2)
    smallest = _SMALLEST_GAP if measure in ("gap", "gap_to_best") else 0.0
    for method, curve, style in _curves(costs.dropna(), table):
        median = curve["median"].clip(lower=smallest)
        reach = [median - curve["low"].clip(lower=smallest), curve["high"].clip(lower=smallest) - median]
        axes.errorbar(curve["n"], median, yerr=reach, capsize=2, label=method, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size n")
    sizes = sorted(set(costs.dropna()["n"]))
    apart = np.diff(np.log(sizes)).min(initial=np.inf) > 0.05 * np.log(sizes[-1] / sizes[0]) if sizes else False
    if len(sizes) <= _TICKS and apart:  # the sizes themselves, instead of powers of ten that are none of them
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.set_xticks([], minor=True)
    axes.set_ylabel(_NAMES[measure] + ("" if "gap" in measure else ", s"))
    return _finished(figure, axes)


def _empty_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = _empty_figure(width, height)
    return figure, figure.subplots()


def _style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.5,
    }


def _curves(frame: pd.DataFrame, table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """Each method with its rows and its style, which is the same in every picture of the table."""
    for place, method in enumerate(dict.fromkeys(table["method"])):
        curve = frame[frame["method"] == method]
        if len(curve):
            yield method, curve, _style(place)


def _finished(figure: Figure, axes: Axes) -> Figure:
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    if handles:  # beside the curves, where it hides none of them
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    else:
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", va="center", color="0.4")
    return figure


#: Okabe and Ito's colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
