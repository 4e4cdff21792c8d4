"""Pictures of runs and comparisons; each function returns a Matplotlib figure and touches no global state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedselect.measures import run_gaps, selection_counts, success_ratio
from fedselect.rounds.history import History
from solvers.benchmark.figures import COLOURS, DASHES, MARKERS
from solvers.files import appearing_whole, own_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "counts_figure",
    "curves_figure",
    "gap_figure",
    "known_curves",
    "panels_figure",
    "run_timeline_figure",
    "save_figure",
    "seconds_figure",
    "success_figure",
    "sweep_figure",
    "swept_values",
    "timeline_figure",
]

#: Inches that a picture on a page is wide; a page shows them at their size.
_WIDTH = 11.0

#: Panels side by side, before they go on below.
_PANELS = 4

#: Letters beyond which a name does not stay on one line above one of four panels.
_LONG_NAME = 36

#: Gaps below this are drawn at it: they are proofs up to rounding.
_SMALLEST_GAP = 1e-6


def _figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _legend_beside(figure: Figure, axis: Any) -> None:
    """The legend of one panel to the right of all, where it hides no curve; of a single label it would say nothing."""
    handles, labels = axis.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)


def _draw_seeds(
    axis: Any,
    x: NDArray[np.int64],
    values: NDArray[np.float64],
    label: str,
    colour: str,
    dashes: Any,
    *,
    linewidth: float = 1.5,
    band: bool = True,
) -> None:
    """Mean over seeds of values of shape (seeds, points), with the band from lowest to highest."""
    axis.plot(x, values.mean(axis=0), linestyle=dashes, color=colour, label=label, linewidth=linewidth)
    if band and len(values) > 1:
        axis.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, linewidth=0)


def counts_figure(runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], clients: int) -> Figure:
    """Draw how often each client was selected, one panel per label (FedGS Fig. 4).

    Parameters
    ----------
    runs : mapping of str to sequence of record lists
        The records of each label's runs, one list per seed.
    clients : int
        Number of clients N.

    Returns
    -------
    matplotlib.figure.Figure
        Bars are the mean over seeds; clients stand in the order of how often they were available.
    """
    presence = np.zeros(clients)
    for records in next(iter(runs.values())):
        for record in records:
            presence[record["available"]] += 1
    order = np.argsort(-presence, kind="stable")
    most = 2 if max(map(len, runs)) > _LONG_NAME else _PANELS
    rows = -(-len(runs) // most)
    columns = -(-len(runs) // rows)  # five as three and two, not as four and one
    figure, axes = _figure(_WIDTH, 3.2 * rows, rows, columns, sharey=True)
    for axis in axes.flat[len(runs) :]:
        axis.set_axis_off()
    for place, (axis, (label, seeds)) in enumerate(zip(axes.flat, runs.items(), strict=False)):
        counts = np.array([selection_counts(records, clients) for records in seeds])
        axis.bar(np.arange(clients), counts.mean(axis=0)[order], width=1.0, color=COLOURS[place % len(COLOURS)])
        variance = counts.var(axis=1, ddof=1).mean() if clients > 1 else float("nan")
        axis.set_title(f"{label}\nvariance {variance:.1f}", fontsize=9)
        axis.set_xlabel("clients, most available first")
        axis.margins(x=0)
    for axis in axes[:, 0]:
        axis.set_ylabel("times selected")
    return figure


def curves_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw test loss and accuracy over rounds: mean over seeds, with the band from lowest to highest.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        The round tables (`fedselect.measures.round_table`) of each label's runs, one per seed.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each of the two that every run measured.
    """
    known = known_curves(runs)
    figure, axes = _figure(_WIDTH, 3.8, columns=max(len(known), 1))
    if not known:
        axes[0, 0].set_axis_off()
        axes[0, 0].text(0.5, 0.5, "no round was evaluated", ha="center", va="center", color="0.4")
    for axis, column in zip(axes[0], known, strict=False):
        for place, (label, tables) in enumerate(runs.items()):
            evaluated = [table[["round", column]].dropna() for table in tables]
            points = min(len(table) for table in evaluated)
            values = np.array([table[column].to_numpy()[:points] for table in evaluated])
            x = evaluated[0]["round"].to_numpy()[:points] + 1
            _draw_seeds(axis, x, values, label, COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)])
        axis.set_xlabel("round")
        axis.set_ylabel(f"test {column}")
        axis.grid(alpha=0.3)
    _legend_beside(figure, axes[0, 0])
    return figure


def swept_values(labels: Iterable[str]) -> dict[str, dict[str, tuple[float, str]]]:
    """Return, for each key that a sweep gave several numbers (``fedgs alpha=0.5``), the value and the rest by label."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for label in labels:
        words = label.split(" ")
        for place, word in enumerate(words):
            key, equals, value = word.partition("=")
            with suppress(ValueError):
                if equals:
                    found.setdefault(key, {})[label] = float(value), " ".join(words[:place] + words[place + 1 :])
    return {key: each for key, each in found.items() if len({value for value, _ in each.values()}) > 1}


def sweep_figure(means: pd.DataFrame) -> Figure:
    """Draw the final test loss and accuracy over the swept numbers: means over seeds, with standard deviations.

    Parameters
    ----------
    means : DataFrame
        One row per label, from `fedselect.experiments.comparison.mean_table`.

    Returns
    -------
    matplotlib.figure.Figure
        A row of panels for each measure, a column for each key, and a line for each value of everything else.
    """
    rows = means.set_index("selector")
    swept = swept_values(rows.index)
    measures = [each for each in ("final_loss", "final_accuracy") if rows[each].notna().all()]
    figure, axes = _figure(_WIDTH, 3.2 * len(measures), len(measures), len(swept), sharex="col")
    for column, (key, each) in enumerate(swept.items()):
        others = list(dict.fromkeys(other for _, other in each.values()))
        for axis, measure in zip(axes[:, column], measures, strict=True):
            for place, other in enumerate(others):
                labels = sorted(
                    (label for label, (_, rest) in each.items() if rest == other), key=lambda label: each[label]
                )
                values = [[each[label][0], *rows.loc[label, [measure, f"{measure}_std"]]] for label in labels]
                x, mean, spread = np.array(values, dtype=float).T
                style = {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}
                axis.errorbar(x, mean, np.nan_to_num(spread), label=other, marker="o", capsize=3, **style)
            axis.set_ylabel(measure.replace("final_", "test "))
            axis.grid(alpha=0.3)
        axes[-1, column].set_xlabel(key)
        axes[0, column].legend(fontsize=8)
    return figure


def client_curves_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw the accuracy at the clients (the loss, where there is none) over rounds: mean, and from worst to best.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        `fedselect.measures.client_rounds` of each label's runs, one per seed, where there are scores; seeds are
        averaged.

    Returns
    -------
    matplotlib.figure.Figure
        Made without pyplot.
    """
    figure, axes = _figure(_WIDTH, 3.8)
    axis = axes[0, 0]
    column = "accuracy" if all(each["accuracy"].notna().any() for seeds in runs.values() for each in seeds) else "loss"
    for place, (label, seeds) in enumerate(runs.items()):
        by_round = [each.groupby("round")[column].agg(["mean", "min", "max"]) for each in seeds]
        drawn = pd.concat(by_round).groupby(level=0).mean().astype(float)
        colour = COLOURS[place % len(COLOURS)]
        axis.plot(drawn.index + 1, drawn["mean"], linestyle=DASHES[place % len(DASHES)], color=colour, label=label)
        axis.fill_between(drawn.index + 1, drawn["min"], drawn["max"], color=colour, alpha=0.15, linewidth=0)
    axis.set_xlabel("round")
    axis.set_ylabel(f"{column} at the clients")
    axis.grid(alpha=0.3)
    _legend_beside(figure, axis)
    return figure


def known_curves(runs: Mapping[str, Sequence[pd.DataFrame]]) -> list[str]:
    """Return those of loss and accuracy that every run measured: a regression has no accuracy."""
    return [name for name in ("loss", "accuracy") if all(each[name].notna().any() for t in runs.values() for each in t)]


def panels_figure(
    panels: Mapping[str, Mapping[str, Sequence[pd.Series]]],
    styles: Mapping[str, tuple[Any, ...]],
    ylabel: str,
    *,
    size: tuple[float, float] = (9.0, 3.4),
    banded: Sequence[str] = (),
    sharey: bool = True,
) -> Figure:
    """Draw any curve over rounds, mean over seeds, one panel per setting.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of Series
        For each panel's title, the curves of each label, one per seed: values by round, counted from 1.
    styles : mapping of str to tuple
        Colour and dashes of each label (what follows them is left out).
    ylabel : str
        What the curves are.
    size : (float, float)
        Width and height in inches.
    banded : sequence of str
        Labels that get a band from lowest to highest.
    sharey : bool
        Whether the panels have one scale.

    Returns
    -------
    matplotlib.figure.Figure
        The legend stands beside the last panel.
    """
    figure, axes = _figure(*size, columns=len(panels), sharey=sharey)
    for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for label, seeds in curves.items():
            colour, dashes, *_ = styles[label]
            values = pd.concat(seeds, axis=1)
            x, drawn = values.index.to_numpy(), values.to_numpy().T
            _draw_seeds(axis, x, drawn, label, colour, dashes, linewidth=1.3, band=label in banded)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("round")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel(ylabel)
    by_label = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if by_label:
        figure.legend(by_label.values(), by_label.keys(), loc="outside right upper", fontsize=7)
    return figure


def success_figure(runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], clients: int) -> Figure:
    """Draw the success ratio up to each round: share of the selections whose update arrived (E3CS Fig. 4).

    Parameters
    ----------
    runs : mapping of str to sequence of record lists
        The records of each label's runs, one list per seed.
    clients : int
        Number of clients N.

    Returns
    -------
    matplotlib.figure.Figure
        Mean over seeds, with the band from lowest to highest.
    """
    figure, axes = _figure(_WIDTH, 3.8)
    axis = axes[0, 0]
    for place, (label, seeds) in enumerate(runs.items()):
        rounds = min(len(records) for records in seeds)
        ratios = np.array([success_ratio(History.from_records(records, clients))[:rounds] for records in seeds])
        x = np.arange(1, rounds + 1)
        _draw_seeds(axis, x, ratios, label, COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)])
    axis.set_xlabel("round")
    axis.set_ylabel("success ratio")
    axis.grid(alpha=0.3)
    _legend_beside(figure, axis)
    return figure


def gap_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw the certified gap of every decision against its seconds.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        Round tables by label; rounds without a gap are left out.

    Returns
    -------
    matplotlib.figure.Figure
        Both axes logarithmic; gaps are `fedselect.measures.run_gaps`, in units of each run's mean
        |objective|, and decisions that are proved optimal stand on the lowest line.
    """
    figure, axes = _figure(_WIDTH, 4)
    axis = axes[0, 0]
    for place, (label, tables) in enumerate(runs.items()):
        found = [each.assign(gap=run_gaps(each).mask(each["status"] == "optimal", _SMALLEST_GAP)) for each in tables]
        table = pd.concat(found)[["solve_seconds", "gap"]].dropna().astype(float)
        if table.empty:
            continue
        axis.scatter(
            table["solve_seconds"],
            table["gap"].clip(lower=_SMALLEST_GAP),
            s=14,
            alpha=0.5,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            label=label,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.axhline(_SMALLEST_GAP, color="grey", linewidth=0.8)
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axis.annotate("proved optimal", (1, _SMALLEST_GAP), (-4, 6), ha="right", va="bottom", **where)
    axis.set_xlabel("seconds for the decision")
    axis.set_ylabel("|bound − objective| / mean |objective|")
    axis.grid(alpha=0.3)
    _legend_beside(figure, axis)
    return figure


#: Points of time at which curves over seconds are averaged over seeds.
_POINTS = 200


def seconds_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw test loss and accuracy over seconds: median over seeds, with the band from lowest to highest.

    A run keeps the value of its last evaluation until the next, and a line ends where the first of its runs does.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        Round tables of runs with a clock, one per seed.
    """
    from matplotlib.figure import Figure

    known = known_curves(runs)
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    for axis, column in zip(np.atleast_1d(figure.subplots(1, max(len(known), 1))), known, strict=False):
        for place, (label, tables) in enumerate(runs.items()):
            curves = [table[["seconds", column]].dropna() for table in tables]
            first = max(float(each["seconds"].iloc[0]) for each in curves)
            last = min(float(each["seconds"].iloc[-1]) for each in curves)
            x = np.linspace(min(first, last), last, _POINTS)
            places = [np.searchsorted(each["seconds"].to_numpy(), x, side="right") - 1 for each in curves]
            values = np.array(
                [each[column].to_numpy()[np.maximum(at, 0)] for each, at in zip(curves, places, strict=True)]
            )
            colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
            axis.plot(x, np.median(values, axis=0), color=colour, linestyle=dash, label=label, linewidth=1.6)
            if len(curves) > 1:
                axis.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axis.set_xlabel("seconds")
        axis.set_ylabel(f"test {column}")
        axis.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    return figure


#: Parts of a client's round, and their colours.
_PARTS = {"download": "#56B4E9", "training": "#009E73", "upload": "#E69F00", "waiting for the uplink": "0.85"}


def timeline_figure(record: Mapping[str, Any]) -> Figure:
    """Draw a round with a clock: a bar per selected client, of download, training, waiting and upload.

    Parameters
    ----------
    record : mapping
        A record of the round (`fedselect.rounds.engine.round_record`). Bars end with the round; a cross marks clients
        whose update was not used.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    times, clients = record["clock"], list(record["selected"])
    length = record["seconds"] - times["start"]
    order = sorted(range(len(clients)), key=lambda k: (times["ends"][k] is None, times["ends"][k] or 0.0))
    figure = Figure(figsize=(9.0, max(2.2, min(8.0, 0.28 * len(clients) + 1.2))), layout="constrained")
    axis = figure.subplots()
    for row, k in enumerate(order):
        until = min(length, *(each for each in (times["stops"][k], length) if each is not None))
        ready = times["download"][k] + times["compute"][k]
        begin = until if times["begins"][k] is None else times["begins"][k]
        edges = (0.0, times["download"][k], ready, begin, begin + times["upload"][k])
        for left, right, part in zip(
            edges[:-1], edges[1:], ("download", "training", "waiting for the uplink", "upload"), strict=True
        ):
            left, right = min(left, until), min(right, until)
            if right > left:
                axis.barh(row, right - left, left=left, color=_PARTS[part], height=0.8)
        if clients[k] not in record["returned"]:
            axis.plot(until, row, "x", color="#D55E00", markersize=6, clip_on=False)
    axis.axvline(length, color="k", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(order)), [str(clients[k]) for k in order], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel(f"seconds since the start of round {record['round'] + 1}")
    axis.set_ylabel("client")
    axis.set_title(f"Round {record['round'] + 1}: {length:.4g} s, {len(record['returned'])} of {len(clients)} used")
    handles = [Patch(facecolor=colour) for colour in _PARTS.values()]
    figure.legend(handles, list(_PARTS), loc="outside right upper", fontsize=8)
    return figure


#: Clients of a run's timeline at most, those that worked the longest.
_MOST_BARS = 60


def run_timeline_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a run with a clock: for each client a bar in every round it works in, by whether its update was used."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    used: dict[int, list[tuple[float, float]]] = {}
    wasted: dict[int, list[tuple[float, float]]] = {}
    for record in records:
        times, back = record["clock"], set(record["returned"])
        length = record["seconds"] - times["start"]
        for client, end, stop in zip(record["selected"], times["ends"], times["stops"], strict=True):
            until = min(each for each in (end, stop, length) if each is not None)
            (used if client in back else wasted).setdefault(client, []).append((times["start"], until))
    total = {
        client: sum(each for _, each in [*used.get(client, []), *wasted.get(client, [])]) for client in {*used, *wasted}
    }
    shown = sorted(sorted(total, key=lambda client: -total[client])[:_MOST_BARS])
    figure = Figure(figsize=(10.0, max(2.4, min(8.0, 0.16 * len(shown) + 1.2))), layout="constrained")
    axis = figure.subplots()
    for row, client in enumerate(shown):
        for bars, colour in ((used, "#0072B2"), (wasted, "#D55E00")):
            axis.broken_barh(bars.get(client, []), (row - 0.4, 0.8), facecolors=colour)
    axis.set_yticks(range(len(shown)), [str(client) for client in shown], fontsize=5)
    axis.invert_yaxis()
    axis.set_xlabel("seconds")
    axis.set_ylabel("client")
    handles = [Patch(facecolor=colour) for colour in ("#0072B2", "#D55E00")]
    figure.legend(handles, ["update used", "update not used"], loc="outside right upper", fontsize=8)
    return figure


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a figure as PNG, making its folder; with a palette of 256 colours, which makes a third of the size."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, pil_kwargs={"compress_level": 0})
    own_folder(path.parent)
    with appearing_whole(path) as stream:
        Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
    return path
