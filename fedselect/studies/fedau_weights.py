"""FedAU's weights against Theorem 3: how far they are from 1/p after T rounds with cutoff K; nothing is trained."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedselect.availability import AVAILABILITY
from fedselect.progress import progress_bar
from fedselect.studies.fedau_setting import PATTERNS, Scale, experiment
from fedselect.studies.parts import kept
from solvers import solve
from solvers.participation import CutoffProblem, ParticipationWeights, expected_weight, weight_error

CUTOFFS = (1, 2, 5, 10, 20, 50, 100, 200, None)

PATTERN_STYLES = {
    "Bernoulli": ("#0072B2", "-", "o"),
    "Markov": ("#D55E00", "--", "s"),
    "cyclic": ("#009E73", ":", "^"),
}


def histories(dataset: str, root: Path, scale: Scale, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Who participates in which round, (T, N), and the rates p, (N,), under each pattern; nothing is trained."""
    federation = experiment("Bernoulli", "MIFA", dataset, root, scale, seed).federation()
    found = {}
    for pattern, name in PATTERNS.items():
        availability = AVAILABILITY.build(name, federation, seed)
        rounds = [availability.available(t) for t in range(max(scale.horizons))]
        found[pattern] = np.array(rounds), availability.rates(0)
    return found


def weight_errors(dataset: str, root: Path, scale: Scale, out: Path) -> pd.DataFrame:
    """Weight error by pattern, seed, horizon T and cutoff K, with Theorem 3's bound (constant factor 1)."""
    parts = []
    with progress_bar("weights", len(scale.seeds)) as progress:
        for seed in scale.seeds:
            parts.append(kept(out / f"weights-{seed}.csv", weight_errors_of, seed, dataset, root, scale))
            progress(len(parts), len(scale.seeds))
    return pd.concat(parts, ignore_index=True)


def weight_errors_of(seed: int, dataset: str, root: Path, scale: Scale) -> pd.DataFrame:
    """The same under one seed."""
    rows = []
    for pattern, (history, rates) in histories(dataset, root, scale, seed).items():
        for horizon in scale.horizons:
            problem = CutoffProblem(rates, horizon)
            best = {"corollary 4": solve(problem, method="corollary").x, "bound's best": solve(problem).x}
            rows += [
                {"pattern": pattern, "seed": seed, "T": horizon, "K": k or math.inf}
                | {"error": weight_error(history[:horizon], rates, k)}
                | {"bound": problem.objective(k) if k else math.nan}
                | best
                for k in CUTOFFS
            ]
    return pd.DataFrame(rows)


def error_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Weight errors, means over seeds: a row for each T and K, a column for each pattern, beside the bound."""
    table = errors.pivot_table(index=["T", "K"], columns="pattern", values="error")[list(PATTERNS)]
    table["Theorem 3"] = errors[errors["pattern"] == "Bernoulli"].groupby(["T", "K"])["bound"].mean()
    table["Bernoulli / Theorem 3"] = table["Bernoulli"] / table["Theorem 3"]
    return table.reset_index()


def weights_figure(errors: pd.DataFrame, dataset: str, root: Path, scale: Scale) -> Figure:
    """Weight error against the cutoff, and what the weights of K = 50 become for clients of each rate."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    last = errors[errors["T"] == max(scale.horizons)]
    bounded = last[np.isfinite(last["K"])]
    for pattern, (colour, dashes, marker) in PATTERN_STYLES.items():
        means = last[last["pattern"] == pattern].groupby("K")["error"].mean()
        places = [min(k, 2.5 * bounded["K"].max()) for k in means.index]
        left.plot(places, means, dashes, color=colour, marker=marker, markersize=4, label=pattern)
    bound = bounded[bounded["pattern"] == "Bernoulli"].groupby("K")["bound"].mean()
    left.plot(bound.index, bound, color="grey", linewidth=2.5, alpha=0.6, label="Theorem 3, constant 1")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xticks(places, [f"{k:g}" if math.isfinite(k) else "∞" for k in means.index])
    left.minorticks_off()
    left.set_xlabel("cutoff K")
    left.set_ylabel(f"weight error, T = {max(scale.horizons)}")
    for pattern, (history, rates) in histories(dataset, root, scale, scale.seeds[0]).items():
        online = ParticipationWeights(rates.size, 50)
        for participated in history:
            online.update(participated)
        colour, _, marker = PATTERN_STYLES[pattern]
        right.plot(rates, rates * online.weights, marker, color=colour, markersize=3, fillstyle="none", alpha=0.6)
    grid = np.geomspace(0.01, 1, 100)
    right.plot(grid, grid * expected_weight(grid, 50), color="grey", label="limit under Bernoulli")
    right.set_xscale("log")
    right.set_xlabel("participation rate p")
    right.set_ylabel(f"p ω after {max(scale.horizons)} rounds, K = 50")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    return figure
