"""CA-Fed's Figures 1 to 3, and the classes of clients they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from fedselect.experiments import Experiment, build_scenario, read_records
from fedselect.experiments.figures import panels_figure
from fedselect.experiments.metrics import learning_curve, realised_importance, round_table
from fedselect.rounds.history import History

CLASSES = ("often there,\ncorrelated", "often there", "seldom there,\ncorrelated", "seldom there")


def classes(experiment: Experiment) -> np.ndarray:
    """The class of each client, shape (N,), as an index into `CLASSES`."""
    chains: Any = build_scenario(experiment).availability  # two-state chains, which know more than any availability
    return 2 * (chains.stationary < 0.5) + (chains.correlation < 0.5)


def activity(records: Sequence[Mapping[str, Any]], clients: int) -> np.ndarray:
    """State of each client in each round, shape (N, T): 0 inactive, 1 active but excluded, 2 selected."""
    states = np.zeros((clients, len(records)), dtype=np.int64)
    for t, record in enumerate(records):
        states[record["available"], t] = 1
        states[record["selected"], t] = 2
    return states


_STYLES = {
    "Unbiased": ("#000000", ":", "o"),
    "F3AST": ("#E69F00", "-.", "s"),
    "AdaFed": ("#56B4E9", "--", "^"),
    "CA-Fed": ("#D55E00", "-", "D"),
}


def of_first_seed(runs: pd.DataFrame, reading: str, method: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Records of a method's first run in a reading, and its clients' classes."""
    row = runs[(runs["reading"] == reading) & (runs["method"] == method)].iloc[0]
    return read_records(row["folder"]), classes(row["experiment"])


def activity_figure(runs: pd.DataFrame) -> Figure:
    """Figure 1: when each client is inactive, active but excluded by CA-Fed, or selected; one run."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axis, reading in zip(figure.subplots(1, 2), ("paper", "code"), strict=True):
        records, of_client = of_first_seed(runs, reading, "CA-Fed")
        states = activity(records, of_client.size)[np.argsort(of_client, kind="stable")]
        colours = ListedColormap(["white", "#E07050", "black"])
        axis.imshow(states, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="none")
        _mark_classes(axis.set_yticks, axis.axhline, of_client)
        axis.set_title(f"reading: {reading}", fontsize=9)
        axis.set_xlabel("round (white: inactive, red: excluded, black: selected)", fontsize=8)
        axis.tick_params(labelsize=7)
    return figure


def importance_figure(runs: pd.DataFrame) -> Figure:
    """Figure 2: the share of each client in all applied weights, beside the target; one run."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, reading in zip(axes, ("paper", "code"), strict=True):
        for method, (colour, _, marker) in _STYLES.items():
            records, of_client = of_first_seed(runs, reading, method)
            share = realised_importance(History.from_records(records, of_client.size))
            order = np.argsort(of_client, kind="stable")
            axis.plot(share[order], marker, color=colour, label=method, markersize=4, fillstyle="none")
        axis.axhline(1 / of_client.size, color="grey", linewidth=0.8)
        _mark_classes(axis.set_xticks, axis.axvline, of_client)
        axis.set_title(f"reading: {reading} (grey: target importance)", fontsize=9)
        axis.tick_params(labelsize=7)
    axes[0].set_ylabel("realised importance")
    axes[0].legend(fontsize=7)
    return figure


def accuracy_figure(runs: pd.DataFrame) -> Figure:
    """Figure 3: time average of the test accuracy up to each round, mean over seeds."""
    panels: dict[str, dict[str, list[pd.Series]]] = {}
    for row in runs[runs["method"].isin(_STYLES)].itertuples():
        curve = learning_curve(round_table(read_records(row.folder))).expanding().mean()
        panels.setdefault(f"reading: {row.reading}", {}).setdefault(row.method, []).append(100 * curve)
    return panels_figure(panels, _STYLES, "mean accuracy so far, %", size=(11, 3), sharey=False)


def _mark_classes(ticks: Any, line: Any, of_client: np.ndarray) -> None:
    """Name the classes along an axis of clients in class order, with lines between them."""
    ends = np.cumsum(np.bincount(of_client, minlength=len(CLASSES)))
    starts = np.concatenate(([0], ends[:-1]))
    there = ends > starts
    ticks((starts + ends)[there] / 2 - 0.5, np.array(CLASSES)[there])
    for end in ends[there][:-1]:
        line(end - 0.5, color="grey", linewidth=0.6)
