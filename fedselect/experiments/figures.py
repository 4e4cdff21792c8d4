"""Pictures of runs and comparisons, as Matplotlib figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedselect.measures import gini, run_gaps, selection_counts, success_ratio, worst_tenth
from fedselect.rounds.history import History
from solvers.benchmark.figures import COLOURS, DASHES, MARKERS
from solvers.files import appearing_whole, own_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def _legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], fontsize: int = 8) -> Figure:
    """Put the legend to the right of all panels, where it hides no curve."""
    figure.legend(handles, labels, loc="outside right upper", fontsize=fontsize)
    return figure


def _legend_beside(figure: Figure, axis: Any) -> Figure:
    """Put the legend of one panel beside all; of a single label it would say nothing."""
    handles, labels = axis.get_legend_handles_labels()
    return _legend(figure, handles, labels) if len(handles) > 1 else figure


def _colours(figure: Figure, colours: Mapping[str, str], **look: Any) -> Figure:
    """Put a legend of coloured areas beside all panels."""
    from matplotlib.patches import Patch

    return _legend(figure, [Patch(facecolor=colour, **look) for colour in colours.values()], list(colours))


def _style(place: int) -> dict[str, Any]:
    """Return colour and dashes of the label at a place."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def _label(axis: Any, xlabel: str, ylabel: str) -> None:
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(alpha=0.3)


def _draw_band(
    axis: Any, x: Any, middle: Any, low: Any, high: Any, label: str, style: Mapping[str, Any], linewidth: float = 1.5
) -> None:
    """Draw a line, and the band around it where it has a width."""
    axis.plot(x, middle, label=label, linewidth=linewidth, **style)
    if low is not None:
        axis.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _draw_seeds(
    axis: Any,
    x: Any,
    values: NDArray[np.float64],
    label: str,
    style: Mapping[str, Any],
    linewidth: float = 1.5,
    band: bool = True,
) -> None:
    """Draw the mean over seeds of values of shape (seeds, points), with the band from lowest to highest."""
    low, high = (values.min(axis=0), values.max(axis=0)) if band and len(values) > 1 else (None, None)
    _draw_band(axis, x, values.mean(axis=0), low, high, label, style, linewidth)


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
        Bars are the mean over seeds; clients stand in the order of how often they were available in the first label's
        runs.
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
    """Draw losses and accuracy over rounds: mean over seeds, with the band from lowest to highest.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        The round tables (`fedselect.measures.round_table`) of each label's runs, one per seed.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each curve that all runs measured (`known_curves`), over as many evaluations as every seed of a
        label has.
    """
    known = known_curves(runs)
    figure, axes = _figure(_WIDTH, 3.8, columns=max(len(known), 1))
    if not known:
        axes[0, 0].set_axis_off()
        axes[0, 0].text(0.5, 0.5, "no round was evaluated", ha="center", va="center", color="0.4")
    for axis, column in zip(axes[0], known, strict=False):
        for place, (label, tables) in enumerate(runs.items()):
            evaluated = [table[["round", column]].dropna() for table in tables]
            points = min(map(len, evaluated))
            values = np.array([table[column].to_numpy()[:points] for table in evaluated])
            _draw_seeds(axis, evaluated[0]["round"].to_numpy()[:points] + 1, values, label, _style(place))
        _label(axis, "round", _of_what(column))
    return _legend_beside(figure, axes[0, 0])


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
        A row of panels for each measure, a column for each key, and a line for each value of the other keys.
    """
    rows = means.set_index("selector")
    swept = swept_values(rows.index)
    measures = [each for each in ("final_loss", "final_accuracy") if rows[each].notna().all()]
    figure, axes = _figure(_WIDTH, 3.2 * len(measures), len(measures), len(swept), sharex="col")
    for column, (key, each) in enumerate(swept.items()):
        others = list(dict.fromkeys(other for _, other in each.values()))
        for axis, measure in zip(axes[:, column], measures, strict=True):
            for place, other in enumerate(others):
                labels = sorted((label for label, (_, rest) in each.items() if rest == other), key=each.__getitem__)
                values = [[each[label][0], *rows.loc[label, [measure, f"{measure}_std"]]] for label in labels]
                x, mean, spread = np.array(values, dtype=float).T
                axis.errorbar(x, mean, np.nan_to_num(spread), label=other, marker="o", capsize=3, **_style(place))
            _label(axis, "", measure.replace("final_", "test "))
        axes[-1, column].set_xlabel(key)
        axes[0, column].legend(fontsize=8)
    return figure


#: Clients beyond which a line for each would hide the others.
_MOST_LINES = 200


def client_curve(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Literal["accuracy", "loss"]:
    """Return what `client_curves_figure` draws: accuracy where all runs have it, else the loss."""
    return "accuracy" if all(each["accuracy"].notna().any() for seeds in runs.values() for each in seeds) else "loss"


def client_curves_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw the accuracy at the clients (the loss, where not all runs have one) over rounds, and its Gini coefficient.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        `fedselect.measures.client_rounds` of each label's runs, one per seed, where there are scores; seeds are
        averaged.

    Returns
    -------
    matplotlib.figure.Figure
        Left the mean over clients and, dotted, that of the worst tenth; of a single run of at most 200 clients a thin
        line for each, else the band from lowest to highest. Right the Gini coefficient over clients.
    """
    figure, axes = _figure(_WIDTH, 3.8, columns=2, width_ratios=[2, 1])
    left, right = axes[0]
    column = client_curve(runs)
    better: Literal["less", "more"] = "more" if column == "accuracy" else "less"
    for place, (label, seeds) in enumerate(runs.items()):
        style = _style(place)
        statistics = ["mean", "min", "max", lambda each: worst_tenth(each, better), gini]
        by_round = [each.groupby("round")[column].agg(statistics).set_axis(_OF_CLIENTS, axis=1) for each in seeds]
        drawn = pd.concat(by_round).groupby(level=0).mean().astype(float)
        x = drawn.index.to_numpy() + 1
        alone = len(runs) == len(seeds) == 1 and seeds[0]["client"].nunique() <= _MOST_LINES
        if alone:
            lines = seeds[0].pivot(index="round", columns="client", values=column)
            left.plot(lines.index + 1, lines.to_numpy(), color="0.6", linewidth=0.5, alpha=0.7)
        low, high = (None, None) if alone else (drawn["min"], drawn["max"])
        _draw_band(left, x, drawn["mean"], low, high, label, style)
        left.plot(x, drawn["worst tenth"], linewidth=1.2, color=style["color"], linestyle=":")
        right.plot(x, drawn["gini"], linewidth=1.5, **style)
    _label(left, "round", f"{column} at the clients")
    _label(right, "round", f"Gini coefficient of {column}")
    return _legend_beside(figure, left)


#: Statistics over the clients of a round.
_OF_CLIENTS = ["mean", "min", "max", "worst tenth", "gini"]


def known_curves(runs: Mapping[str, Sequence[pd.DataFrame]]) -> list[str]:
    """Return those curves that all runs measured: a regression has no accuracy, few hold samples out to validate."""
    tables = [each for seeds in runs.values() for each in seeds]
    names = ("loss", "accuracy", "validation_loss")
    return [name for name in names if all(name in each and each[name].notna().any() for each in tables)]


def _of_what(column: str) -> str:
    """Return what a curve is, for its axis."""
    return "validation loss" if column == "validation_loss" else f"test {column}"


def panels_figure(
    panels: Mapping[str, Mapping[str, Sequence[pd.Series]]],
    styles: Mapping[str, tuple[Any, ...]],
    ylabel: str,
    *,
    size: tuple[float, float] = (9.0, 3.4),
    banded: Sequence[str] = (),
    sharey: bool = True,
) -> Figure:
    """Draw curves over rounds, mean over seeds, one panel per setting.

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
            style = dict(zip(("color", "linestyle"), styles[label], strict=False))
            values = pd.concat(seeds, axis=1)
            _draw_seeds(axis, values.index.to_numpy(), values.to_numpy().T, label, style, 1.3, label in banded)
        _label(axis, "round", "")
        axis.set_title(title, fontsize=9)
    axes[0, 0].set_ylabel(ylabel)
    by_label = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    return _legend(figure, list(by_label.values()), list(by_label), 7) if by_label else figure


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
    for place, (label, seeds) in enumerate(runs.items()):
        rounds = min(map(len, seeds))
        ratios = np.array([success_ratio(History.from_records(records, clients))[:rounds] for records in seeds])
        _draw_seeds(axes[0, 0], np.arange(1, rounds + 1), ratios, label, _style(place))
    _label(axes[0, 0], "round", "success ratio")
    return _legend_beside(figure, axes[0, 0])


def gap_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw the gaps of decisions, as far as they are known, against the seconds that these took.

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
            table["solve_seconds"], table["gap"].clip(lower=_SMALLEST_GAP), s=14, alpha=0.5, label=label,
            color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)],
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.axhline(_SMALLEST_GAP, color="grey", linewidth=0.8)
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axis.annotate("proved optimal", (1, _SMALLEST_GAP), (-4, 6), ha="right", va="bottom", **where)
    _label(axis, "seconds for the decision", "|bound − objective| / mean |objective|")
    return _legend_beside(figure, axis)


# -- seconds of a clock ----------------------------------------------------------------------------------------------

#: Points of time at which curves over seconds are averaged over seeds.
_POINTS = 200


def seconds_figure(runs: Mapping[str, Sequence[pd.DataFrame]]) -> Figure:
    """Draw losses and accuracy over seconds: median over seeds, with the band from lowest to highest.

    A run keeps the value of its last evaluation until the next, and a line ends where the first of its runs does.

    Parameters
    ----------
    runs : mapping of str to sequence of DataFrame
        Round tables of runs with a clock, one per seed.
    """
    known = known_curves(runs)
    figure, axes = _figure(10.0, 3.8, columns=max(len(known), 1))
    for axis, column in zip(axes[0], known, strict=False):
        for place, (label, tables) in enumerate(runs.items()):
            curves = [table[["seconds", column]].dropna() for table in tables]
            first = max(float(each["seconds"].iloc[0]) for each in curves)
            last = min(float(each["seconds"].iloc[-1]) for each in curves)
            x = np.linspace(min(first, last), last, _POINTS)
            places = [np.searchsorted(each["seconds"].to_numpy(), x, side="right") - 1 for each in curves]
            values = np.array(
                [each[column].to_numpy()[np.maximum(at, 0)] for each, at in zip(curves, places, strict=True)]
            )
            low, high = (values.min(axis=0), values.max(axis=0)) if len(curves) > 1 else (None, None)
            _draw_band(axis, x, np.median(values, axis=0), low, high, label, _style(place), 1.6)
        _label(axis, "seconds", _of_what(column))
    return _legend(figure, *axes[0, 0].get_legend_handles_labels())


#: Parts of a client's round, and their colours.
_PARTS = {"download": "#56B4E9", "training": "#009E73", "upload": "#E69F00", "waiting for the uplink": "0.85"}


def _bars(width: float, each: float, clients: Sequence[int], least: float, fontsize: int) -> tuple[Figure, Any]:
    """Return a figure with a row per client."""
    figure, axes = _figure(width, max(least, min(8.0, each * len(clients) + 1.2)))
    axes[0, 0].set_yticks(range(len(clients)), list(map(str, clients)), fontsize=fontsize)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_ylabel("client")
    return figure, axes[0, 0]


def timeline_figure(record: Mapping[str, Any]) -> Figure:
    """Draw a round with a clock: a bar per selected client, of download, training, waiting and upload.

    Parameters
    ----------
    record : mapping
        A record of the round (`fedselect.rounds.engine.round_record`). Bars end with the round; a cross marks clients
        whose update was not used.
    """
    times, clients = record["clock"], list(record["selected"])
    length = record["seconds"] - times["start"]
    order = sorted(range(len(clients)), key=lambda k: (times["ends"][k] is None, times["ends"][k] or 0.0))
    figure, axis = _bars(9.0, 0.28, [clients[k] for k in order], 2.2, 7)
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
    axis.set_xlabel(f"seconds since the start of round {record['round'] + 1}")
    axis.set_title(f"Round {record['round'] + 1}: {length:.4g} s, {len(record['returned'])} of {len(clients)} used")
    return _colours(figure, _PARTS)


#: Clients of a run's timeline at most, those that worked the longest.
_MOST_BARS = 60


def run_timeline_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a run with a clock: for each client a bar in every round it works in, by whether its update was used.

    Of more than 60 clients, those that worked the longest.
    """
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
    figure, axis = _bars(10.0, 0.16, shown, 2.4, 5)
    colours = {"update used": "#0072B2", "update not used": "#D55E00"}
    for row, client in enumerate(shown):
        for bars, colour in zip((used, wasted), colours.values(), strict=True):
            axis.broken_barh(bars.get(client, []), (row - 0.4, 0.8), facecolors=colour)
    axis.set_xlabel("seconds")
    return _colours(figure, colours)


# -- clients against rounds --------------------------------------------------------------------------------------------

#: Rows and columns beyond which neighbours share one: a cell would be less than two dots high, or wide.
MOST_ROWS, MOST_COLUMNS = 300, 600

#: States of a cell, the least telling first: of several clients or rounds, the last state counts.
STATES = ("unavailable", "available", "selected, update arrived", "selected, no update", "selected, update unusable")

#: Apart for colour-blind readers and, by lightness, on paper.
_SHADES = ("#ffffff", "#cfd5dc", "#0072B2", "#E69F00", "#8b1a1a")


@dataclass(frozen=True, eq=False)
class Raster:
    """Run as two pictures show it: a row per client, most available first, a column per round.

    Attributes
    ----------
    order : (N,) ndarray of int
        The clients in the order of the rows.
    states : (N, T) ndarray of int8
        Place in `STATES`, rows in that order.
    weights : (N, T) ndarray of float
        Weights applied, rows in that order; 0 where no update was.
    """

    order: NDArray[np.int64]
    states: NDArray[np.int8]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], clients: int) -> Raster:
        """Read the records of a run (``rounds.jsonl``)."""
        states = np.zeros((clients, len(records)), dtype=np.int8)
        weights = np.zeros((clients, len(records)))
        for t, record in enumerate(records):
            states[record["available"], t] = 1
            states[record["selected"], t] = 3  # until it is known to have come back
            states[record["returned"], t] = 2
            states[record["failed"], t] = 4
            weights[record["selected"], t] = record["applied"]
        order = np.argsort(-(states > 0).sum(axis=1), kind="stable")
        return cls(order, states[order], weights[order])

    def shared(self, shown: str) -> str:
        """Return a sentence on what a cell stands for, where that is not one client in one round; else an empty one."""
        parts = [
            f"{-(-length // most)} of the {length} {things}"
            for length, most, things in zip(
                self.states.shape, (MOST_ROWS, MOST_COLUMNS), ("clients", "rounds"), strict=True
            )
            if length > most
        ]
        return f" A cell stands for up to {' and '.join(parts)}, and shows the {shown}." if parts else ""


def presence_figure(raster: Raster) -> Figure:
    """Draw unavailable, available, selected with its outcome: a colour each."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    figure, axes = _figure(_WIDTH, _height(raster))
    levels = BoundaryNorm(np.arange(len(STATES) + 1) - 0.5, len(STATES))
    _show(axes[0, 0], raster, _banded(raster.states), cmap=ListedColormap(_SHADES), norm=levels)
    axes[0, 0].set_xlabel("round")
    there = [place for place in range(len(STATES)) if place < 3 or (raster.states == place).any()]
    return _colours(figure, {STATES[place]: _SHADES[place] for place in there}, edgecolor="0.6")


def weights_figure(raster: Raster) -> Figure:
    """Draw weights as shades, their sum per round below."""
    height, sums = _height(raster), raster.weights.sum(axis=0)
    figure, axes = _figure(_WIDTH, height + 1.4, 2, 1, sharex=True, height_ratios=[height, 1.4])
    above, below = axes[:, 0]
    low, high = min(0.0, float(raster.weights.min())), float(raster.weights.max())
    cells = np.ma.masked_equal(_banded(raster.weights), 0.0)
    shown = _show(above, raster, cells, cmap="cividis_r", vmin=low, vmax=high if high > low else low + 1.0)
    figure.colorbar(shown, ax=above, label="weight applied")
    below.step(np.arange(1, sums.size + 1), sums, where="mid", color="#0072B2", linewidth=1.2)
    below.set_ylim(bottom=min(0.0, float(sums.min())))
    _label(below, "round", "sum")
    return figure


def _height(raster: Raster) -> float:
    """Return the height in inches: one for fifteen clients, within the height of a screen."""
    return float(np.clip(len(raster.order) / 15, 2.4, 6.5))


def _show(axis: Axes, raster: Raster, cells: NDArray[Any], **colours: Any) -> Any:
    """Show cells, with axes that count clients by rank and rounds from 1."""
    clients, rounds = raster.states.shape
    axis.set_ylabel("clients, most available first")
    extent = (0.5, rounds + 0.5, clients + 0.5, 0.5)
    return axis.imshow(cells, aspect="auto", interpolation="nearest", extent=extent, **colours)


def _banded(values: NDArray[Any]) -> NDArray[Any]:
    """Take the largest (by amount) of neighbouring rows, and of neighbouring columns, where there are too many."""
    for axis, most in enumerate((MOST_ROWS, MOST_COLUMNS)):
        width = -(-values.shape[axis] // most)
        starts = np.arange(0, values.shape[axis], width)
        highest, lowest = (each.reduceat(values, starts, axis=axis) for each in (np.maximum, np.minimum))
        values = np.where(highest >= -lowest, highest, lowest)
    return values


# -- files -----------------------------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a figure as PNG with a palette of 256 colours, making its folder; return ``path``."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi, pil_kwargs={"compress_level": 0})
    own_folder(path.parent)
    with appearing_whole(path) as stream:
        Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
    return path
