"""FedGS's Table 2 and Figures 4 and 5, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedselect.experiments import read_records
from fedselect.experiments.figures import panels_figure
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.rounds.history import History

#: Test losses by (mode, method).
Losses = Mapping[tuple[str, str], float]


def table_2_figure(panels: Mapping[str, Losses], modes: Sequence[str]) -> Figure:
    """Table 2 as a picture, losses in units of UniformSample's under IDL."""
    shown = ["UniformSample", "MDSample", "Power-of-Choice", "FedProx μ=0.01", "FedGS α=0", "FedGS α=1", "FedGS α=5"]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, losses) in zip(axes, panels.items(), strict=True):
        for place, (name, marker) in enumerate(zip(shown, "os^Dvx+", strict=True)):
            values = [losses[mode, name] / losses["IDL", "UniformSample"] for mode in modes]
            grey = "black" if name.startswith("FedGS") else "0.55"
            axis.plot(np.arange(len(modes)) + 0.06 * (place - 3), values, marker, color=grey, label=name, markersize=5)
        axis.set_xticks(range(len(modes)), modes)
        axis.set_title(title, fontsize=10)
        axis.grid(axis="y", alpha=0.3)
    figure.axes[0].set_ylabel("test loss, UniformSample under IDL = 1")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


#: The curves of Fig. 5.
CURVES = {
    "UniformSample": ("black", "--"),
    "MDSample": ("0.5", ":"),
    "Power-of-Choice": ("#009E73", "-."),
    "FedGS α=1": ("#D55E00", "-"),
}


def loss_figure(runs: pd.DataFrame, modes: Sequence[str]) -> Figure:
    """Fig. 5: test loss over the rounds, means over seeds with the band from smallest to largest."""
    panels: dict[str, dict[str, list[pd.Series]]] = {}
    for mode in modes:
        for method in CURVES:
            chosen = runs[(runs["mode"] == mode) & (runs["method"] == method)]
            curves = [learning_curve(round_table(read_records(folder)), "loss") for folder in chosen["folder"]]
            panels.setdefault(mode, {})[method] = curves
    return panels_figure(panels, CURVES, "test loss", size=(4 * len(panels), 3.2), banded=list(CURVES), sharey=False)


def counts_figure(counted: Mapping[str, Mapping[str, History]]) -> Figure:
    """Fig. 4: one bar a client, the most available first; the line is how often it was there."""
    columns = len(next(iter(counted.values())))
    figure = Figure(figsize=(2.6 * columns, 2.1 * len(counted)), layout="constrained")
    rows = figure.subplots(len(counted), columns, sharey="row", squeeze=False)
    for axes, (split, histories) in zip(rows, counted.items(), strict=True):
        top = 1.1 * max(history.counts.max() for history in histories.values())
        for axis, (label, history) in zip(axes, histories.items(), strict=True):
            order = np.argsort(-history.available, kind="stable")
            axis.bar(np.arange(history.clients), history.counts[order], width=1.0, color="0.35")
            axis.plot(history.available[order], "k--", linewidth=0.8)
            axis.set_ylim(0, top)
            axis.set_title(f"{label}: variance {history.counts.var(ddof=1):.0f}", fontsize=9)
            axis.tick_params(labelsize=8)
        axes[0].set_ylabel(f"{split}\ntimes selected", fontsize=9)
    for axis in rows[-1]:
        axis.set_xlabel("clients, most available first", fontsize=9)
    return figure
