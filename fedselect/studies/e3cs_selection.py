"""E3CS's Figs. 3 and 4: who is selected and who returns, with the paper's draw and with exact ones; nothing is trained.

Only pow-d has to train, as it looks at losses. `e3cs` says what stands beside our numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedselect.experiments import Choice, Experiment, build_scenario, read_records
from fedselect.experiments.metrics import jain_index, success_ratio
from fedselect.progress import progress_bar
from fedselect.rounds.history import History
from fedselect.studies.e3cs_setting import (
    BASELINES,
    CLIENTS,
    DRAWS,
    QUOTAS,
    RATES,
    SCHEMES,
    SIZE,
    STYLES,
    Scale,
    experiment,
    pairs,
    selector,
)
from fedselect.studies.grid import run_grid, without_training
from fedselect.studies.parts import kept

# -- what is run -------------------------------------------------------------------------------------------------------


def play(scheme: str, draw: str, rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """Select without training, once: see `selected`."""
    return kept(folder / f"{scheme}-{draw}-{rounds}-s{seed}.npz", selected, scheme, draw, rounds, seed)


def selected(scheme: str, draw: str, rounds: int, seed: int) -> dict[str, Any]:
    """Counts, success ratio after each round, and the ratio that p promised in it (Eq. 9); nothing is trained."""
    dropout = Choice("success-classes")  # 100 clients of digits; nothing looks at their data
    scenario = build_scenario(Experiment(rounds=rounds, seed=seed, clients_per_round=SIZE, dropout=dropout))
    played = list(without_training(scenario, selector(scheme, draw), sizes=[1] * CLIENTS))
    history = History.collect(played, CLIENTS)
    decisions = [(each.selection.solution, scenario.dropout.rates(each.round)) for each in played]
    solved = [(solution.x, rates) for solution, rates in decisions if solution is not None]
    promised = [float(np.asarray(p) @ rates) / SIZE for p, rates in solved]
    return {"counts": history.counts, "ratio": success_ratio(history), "promised": np.array(promised)}


def selections(scale: Scale, dataset: str, root: Path, out: Path, jobs: int) -> list[dict[str, Any]]:
    """All runs behind Figs. 3 and 4, one dictionary each."""
    schemes = [pair for pair in pairs(DRAWS) if pair[0] != "pow-d"]
    grid = [(*pair, seed) for seed in range(scale.selection_seeds) for pair in schemes]
    runs = []
    with progress_bar("selecting", len(grid)) as update:
        for scheme, draw, seed in grid:
            played = play(scheme, draw, scale.selections, seed, out / "selections")
            runs.append({"scheme": scheme, "draw": draw, "seed": seed, **played})
            update(len(runs), len(grid))
    losses = {}
    for seed in range(scale.training_seeds):
        for d in scale.candidates:
            chosen = Choice("power-of-choice", {"candidates": d, "aggregation": "deadline"})
            changes: dict[str, Any] = {"name": "pow-d", "rounds": scale.selections, "selector": chosen}
            losses[f"d = {d}", seed] = experiment(dataset, root, "non-iid", seed, **changes)
    for (name, seed), folder in run_grid(losses, out / "runs", jobs, "pow-d, which has to train").items():
        history = History.from_records(read_records(folder), CLIENTS)
        played = {"counts": history.counts, "ratio": success_ratio(history), "promised": np.empty(0)}
        runs.append({"scheme": "pow-d", "draw": name, "seed": seed, **played})
    return runs


# -- tables ------------------------------------------------------------------------------------------------------------

#: Section VI-B, from fair to unfair.
FAIRNESS = ("Random", "E3CS-0.8", "pow-d", "E3CS-0.5", "E3CS-0", "FedCS")

CHANCE = "chance: one in twenty such intervals misses the exact expectation"
MULTINOMIAL = "torch.multinomial includes large p too rarely, small p too often"
WHY_LIMIT = {
    ("pow-d",): "prefers clients of large loss, who are those that seldom return; d is not in the paper",
    ("Random",): CHANCE,
    ("FedCS",): CHANCE,
    ("E3CS-inc",): "as for E3CS-0 in the first quarter; uniform after it",
    ("E3CS-0", "successive"): "cost of learning, and a draw that misses clients with p = 1",
    ("E3CS-0",): "cost of learning, and a lucky poor client that stays: capped weights are frozen (Eq. 16)",
    ("E3CS-0.5", "successive"): MULTINOMIAL,
    ("E3CS-0.8", "successive"): MULTINOMIAL,
    ("E3CS-0.5",): "cost of learning",
    ("E3CS-0.8",): "cost of learning",
}
BIASED = "torch.multinomial's inclusion probabilities are not p; x/p is biased"
WHY_PROMISE = {(scheme, "successive"): BIASED for scheme in QUOTAS}
WHY_FAIRNESS = "pow-d's place depends on its d, which the paper does not give"


def limits() -> dict[tuple[str, ...], float]:
    """Success ratios when all that the quota leaves goes to the best class."""
    mean, best = float(np.mean(RATES)), max(RATES)
    uniform_share = {scheme: 0.75 if isinstance(quota, str) else quota for scheme, quota in QUOTAS.items()}
    found: dict[tuple[str, ...], float]
    found = {(scheme, draw): c * mean + (1 - c) * best for scheme, c in uniform_share.items() for draw in DRAWS}
    return found | {("Random", ""): mean, ("FedCS", ""): best}


def by_class(counts: np.ndarray) -> np.ndarray:
    """Counts as one row for each success class."""
    return counts.reshape(len(RATES), -1)


def selection_rows(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """One row for each run and measure."""
    rows = []
    for run in runs:
        ratio, counts = run["ratio"], run["counts"]
        values = {"success ratio": ratio[-1], "effective participation": ratio[-1] * len(ratio) * SIZE}
        values |= {f"success ratio at {r}": ratio[r - 1] for r in (100, len(ratio) // 4) if r <= len(ratio)}
        of_class = dict(zip(RATES, by_class(counts), strict=True))
        values |= {f"mean count, class {c}": v.mean() for c, v in of_class.items()}
        values |= {f"median count, class {c}": np.median(v) for c, v in of_class.items()}
        values["Jain index of counts"] = jain_index(counts)
        if run["promised"].size:
            # E3CS-0 keeps some poor clients: one lucky return at small p caps them, and capped weights are frozen.
            values["poor clients selected in a fifth of the rounds"] = (by_class(counts)[:-1] > len(ratio) / 5).sum()
            values["success beyond the promised"] = ratio[-1] - run["promised"].mean()
        key = {"part": "selection", "scheme": run["scheme"], "draw": run["draw"], "seed": run["seed"]}
        rows += [key | {"measure": measure, "value": float(value)} for measure, value in values.items()]
    return pd.DataFrame(rows)


def count_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Fig. 3 as numbers: mean count of each class (median in brackets), and the fairness index."""
    means = rows.groupby(["scheme", "draw", "measure"], sort=False)["value"].mean().unstack("measure")
    table = pd.DataFrame(index=means.index)
    for c in RATES:
        pair = means[[f"mean count, class {c}", f"median count, class {c}"]].to_numpy()
        table[f"class {c}"] = [f"{mean:.0f} ({median:.0f})" for mean, median in pair]
    table["Jain index"] = means["Jain index of counts"]
    table["poor favourites"] = means["poor clients selected in a fifth of the rounds"]
    return table.reset_index()


def fairness(rows: pd.DataFrame) -> pd.DataFrame:
    """The order of fairness that the paper reads off Fig. 3, by Jain's index, for each draw and each d of pow-d."""
    index = rows[rows["measure"] == "Jain index of counts"].groupby(["scheme", "draw"], sort=False)["value"].mean()
    found = []
    for draw in DRAWS:
        for d in index.loc["pow-d"].index:
            chosen = {s: index[s, draw if s in QUOTAS else d if s == "pow-d" else ""] for s in FAIRNESS if s in SCHEMES}
            ours = sorted(chosen, key=lambda s: -chosen[s])
            verdict, why = ("agrees", "") if ours == list(chosen) else ("differs", WHY_FAIRNESS)
            found.append(
                {"draw": draw, "pow-d": d, "paper": " > ".join(chosen)}
                | {"ours": " > ".join(f"{s} {chosen[s]:.2f}" for s in ours), "verdict": verdict, "why": why}
            )
    return pd.DataFrame(found)


# -- figures -----------------------------------------------------------------------------------------------------------

POW_D = f"d = {BASELINES['pow-d'].options['candidates']}"


def counts_figure(runs: list[dict[str, Any]]) -> Figure:
    """Fig. 3: how often the clients of each class were selected; E3CS with the paper's draw and with an exact one."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    for axis, scheme in zip(axes, SCHEMES, strict=False):
        draws = DRAWS[:2] if scheme in QUOTAS else [POW_D if scheme == "pow-d" else ""]
        for draw, colour, shift in zip(draws, ("white", "0.55"), (-0.19, 0.19), strict=False):
            mine = [by_class(run["counts"]) for run in runs if (run["scheme"], run["draw"]) == (scheme, draw)]
            boxes = axis.boxplot(
                list(np.concatenate(mine, axis=1)),
                positions=np.arange(len(RATES)) + (shift if len(draws) > 1 else 0),
                widths=0.32,
                patch_artist=True,
                boxprops={"facecolor": colour},
                medianprops={"color": "black"},
                flierprops={"marker": ".", "markersize": 2},
                manage_ticks=False,
            )
            boxes["boxes"][0].set_label(draw)
        axis.set_title(f"pow-d, {POW_D}" if scheme == "pow-d" else scheme, fontsize=9)
        axis.set_xticks(range(len(RATES)), [str(rate) for rate in RATES])
    axes[0].legend(fontsize=7)
    axes[-1].axis("off")
    figure.supxlabel("class of clients, by the probability to return", fontsize=9)
    figure.supylabel("times selected", fontsize=9)
    return figure


def success_figure(runs: list[dict[str, Any]]) -> Figure:
    """Fig. 4: success ratio and cumulative effective participation; thick with an exact draw, thin with the paper's."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for scheme, (colour, dash) in STYLES.items():
        for draw in ("madow", "successive", "", POW_D):
            ratios = [run["ratio"] for run in runs if (run["scheme"], run["draw"]) == (scheme, draw)]
            if ratios:
                thin = draw == "successive"
                x = np.unique(np.geomspace(1, ratios[0].size, 300).astype(int))
                mean = np.mean(ratios, axis=0)[x - 1]
                look = {"color": colour, "linestyle": dash, "linewidth": 0.7 if thin else 1.6}
                axes[0].plot(x, mean, label=None if thin else scheme, **look)
                axes[1].plot(x, mean * x * SIZE / 1000, **look)
    axes[0].set_ylabel("success ratio")
    axes[1].set_ylabel("effective participation (thousands)")
    for axis in axes:
        axis.set_xlabel("round")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure
