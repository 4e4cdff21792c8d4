"""FedSS's Lemmas 1 and 2: how much of the bias of who is available a draw has; nothing is trained.

A client's vector is its label distribution, to which the lemmas apply as to its model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedselect.data import Federation
from fedselect.experiments import Choice, build_scenario
from fedselect.progress import progress_bar
from fedselect.rounds.protocol import Outcome
from fedselect.studies.fedss_setting import CLIENTS, FEDSS_P, LABELS, Scale, experiment
from fedselect.studies.grid import without_training
from fedselect.studies.parts import kept
from solvers.allocation import availability_bias, availability_variation, group_clients

#: Selector, clients a round and clients at least there in each group; and how much of Lemma 1's bias it should have.
DRAWS = {
    "FedAvg, S = 10": (Choice("uniform"), 10, 1, 1.0),
    "FedAvg, S = 20": (Choice("uniform"), 20, 1, 1.0),
    "FedAvg, S = 30": (Choice("uniform"), 30, 1, 1.0),
    "FedSS, S = 10": (FEDSS_P, 10, 1, 0.0),
    "FedSS, S = 30": (FEDSS_P, 30, 1, 0.0),
    "FedSS, S = 10, groups may be empty": (FEDSS_P, 10, 0, 0.0),
    "CS-UCB-Q, S = 10": (Choice("cs-ucb-q"), 10, 1, None),
}

WHY_BIAS = {
    ("FedSS, S = 10, groups may be empty",): "Lemma 2 needs a client of every group each round; an absent group's "
    "weight goes to the others",
}


def watch(federation: Federation, strata: list[int], draw: str, rounds: int, seed: int) -> dict[str, np.ndarray]:
    """Draw without training: by round, the label mix that the average stands for minus the population's, and Eq. 7."""
    choice, size, per_group, _ = DRAWS[draw]
    setting = experiment("digits", Path(), size=size, per_group=per_group)
    scenario = build_scenario(replace(setting, rounds=rounds, seed=seed), federation)
    if choice.name == "fedss":
        choice = Choice("fedss", {**choice.options, "groups": strata})
    vectors = federation.label_distributions
    groups: np.ndarray = scenario.availability.groups  # type: ignore[attr-defined]  # a group trace's own
    sizes = np.bincount(groups)
    means = np.stack([vectors[groups == k].mean(axis=0) for k in range(sizes.size)])
    found, lemma, variation = [], [], []
    # One sample each, as the lemmas have it: clients differ by one otherwise.
    for played in without_training(scenario, choice, sizes=[1] * CLIENTS):
        present = np.bincount(groups[played.outcomes != Outcome.UNAVAILABLE], minlength=sizes.size)
        found.append(played.applied @ vectors[played.selection.clients] - vectors.mean(axis=0))
        lemma.append(availability_bias(sizes, present) @ means)
        variation.append(availability_variation(sizes, present))
    return {"found": np.array(found), "lemma": np.array(lemma), "variation": np.array(variation)}


def biases(scale: Scale, out: Path) -> tuple[pd.DataFrame, dict[str, list[dict[str, np.ndarray]]]]:
    """Share of Lemma 1's bias that each draw has, one row a trace, and the rounds behind it."""
    # Digits, whatever is trained later: only the labels count here.
    federation = experiment("digits", Path()).federation()
    strata = group_clients(federation.label_distributions, LABELS).labels.tolist()  # once, as it takes a second
    rounds = 24 * scale.days
    rows: list[dict[str, Any]] = []
    watched: dict[str, list[dict[str, np.ndarray]]] = {draw: [] for draw in DRAWS}
    with progress_bar("drawing", scale.traces * len(DRAWS)) as update:
        for seed in range(scale.traces):
            for draw, mine in watched.items():
                path = out / "draws" / f"{draw.replace(' ', '')}-{rounds}-s{seed}.npz"
                mine.append(kept(path, watch, federation, strata, draw, rounds, seed))
                found, lemma = mine[-1]["found"], mine[-1]["lemma"]
                # Regression of what happened on Eq. 7; given who is there, the draw only adds noise of mean zero.
                share = float((found * lemma).sum() / (lemma**2).sum())
                values = {"share of Lemma 1's bias": share, "TV of availability": float(mine[-1]["variation"].mean())}
                rows += [
                    {"part": "bias", "draw": draw, "seed": seed, "measure": measure, "value": value}
                    for measure, value in values.items()
                ]
                update(len(rows) // 2, scale.traces * len(DRAWS))
    return pd.DataFrame(rows), watched


def shares_figure(rounds: Sequence[int] = (0, 4, 8, 12, 16, 20)) -> Figure:
    """Fig. 1 (a): each group's share of the clients, and of those who are there at some hours of the day."""
    setting = replace(experiment("digits", Path()), rounds=24)
    scenario = build_scenario(setting)
    groups: np.ndarray = scenario.availability.groups  # type: ignore[attr-defined]  # a group trace's own
    bars = {"all": np.bincount(groups) / groups.size}
    for t in rounds:
        there = np.bincount(groups[scenario.availability.available(t)], minlength=groups.max() + 1)
        bars[str(t)] = there / there.sum()
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axis, bottom = figure.subplots(), np.zeros(len(bars))
    for group, heights in enumerate(np.column_stack(list(bars.values()))):
        axis.bar(
            list(bars), heights, bottom=bottom, width=0.75, label=f"group {group}", edgecolor="white", linewidth=0.4
        )
        bottom += heights
    axis.set_xlabel("clients, and those available in a round")
    axis.set_ylabel("share of each group")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


def bias_figure(watched: Mapping[str, list[dict[str, np.ndarray]]], rows: pd.DataFrame) -> Figure:
    """Left: a label's share in the round's average over two days. Right: how much of Lemma 1's bias a draw has."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    label = 0
    lemma = np.mean([each["lemma"][:, label] for each in watched["FedAvg, S = 10"]], axis=0)
    left.plot(lemma, "k-", linewidth=1, label="who is available (Lemma 1)")
    for draw, marker, colour in (
        ("FedAvg, S = 10", "o", "#D55E00"),
        ("CS-UCB-Q, S = 10", "^", "#009E73"),
        ("FedSS, S = 10", "s", "#0072B2"),
    ):
        mean = np.mean([each["found"][:, label] for each in watched[draw]], axis=0)
        left.plot(mean, marker, color=colour, markersize=3.5, label=draw.partition(",")[0])
    left.axhline(0, color="0.6", linewidth=0.8)
    left.set_xlabel("round")
    left.set_ylabel("share of one label minus its share\nin the population, mean over traces")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4, fontsize=8)
    grouped = rows[rows["measure"] == "share of Lemma 1's bias"].groupby("draw", sort=False)["value"]
    names, means = list(grouped.groups), grouped.mean()
    right.barh(names, means, xerr=1.96 * grouped.sem(), color="0.75", edgecolor="black", capsize=2)
    right.invert_yaxis()
    right.set_xlabel("share of Lemma 1's bias")
    right.tick_params(axis="y", labelsize=7)
    return figure
