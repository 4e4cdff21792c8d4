"""Does exact selection matter? Every heuristic's gap to the certified optimum, and what the gap did to the federation.

    python fedselect/studies/exact_vs_heuristic.py
    python fedselect/studies/exact_vs_heuristic.py --paper

FedGS, CA-Fed, FedSS and E3CS each solve an optimisation problem every round. Here whole federations are run once with
the exact method and once with each heuristic, under paired seeds: the same availability, batches and initial model.
Beside every decision of a heuristic stands the exact method's bound for the same round, so the gap is known; what it
did is the paired difference in fairness (variance of the selection counts, Jain's index, longest absence) and in
learning (test loss and accuracy of the last model). "no optimisation" is a random or a plain scheme of the same paper:
it says how large a difference could be.

Intervals are Student's t at 95 %, one at a time. Stars take into account how many comparisons there are: of the starred
differences of heuristics (and of those of "no optimisation", apart), at most 5 % are expected to be none (Benjamini and
Hochberg). Exact and heuristic decisions may be different optima of equal value: then runs differ without any gap. Where
everybody is there, FedGS's selections are the same under every seed, and so is their difference: it is certain, of one
federation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import false_discovery_control, ttest_1samp

from fedselect.experiments import read_records, read_summary
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import half_width
from fedselect.studies.parts import write_tables
from fedselect.studies.printing import show
from fedselect.studies.regimes import LIGHT, PAPER, QUICK, Regime
from fedselect.studies.script import run_script, study_arguments

# -- settings --------------------------------------------------------------------------------------------------------

#: What is compared, by its name in a run's summary: heading and decimals.
OUTCOMES = {
    "count_variance": ("variance of counts", 1),
    "jain_index": ("Jain", 4),
    "longest_absence": ("longest absence", 1),
    "final_loss": ("test loss", 4),
    "final_accuracy": ("accuracy", 4),
}

# -- what is run -----------------------------------------------------------------------------------------------------


def play(regimes: Sequence[Regime], rounds: int | None, seeds: int, out: Path, jobs: int) -> pd.DataFrame:
    """One row a run: gap, share of proved decisions, seconds, and the outcomes."""
    # Seeds outside, so that a study cut short has all methods under the seeds it reached.
    grid = {
        (regime.paper, regime.title, method, seed): replace(
            regime.setting,
            name=f"{regime.paper}-{regime.title}".replace("/", "over"),
            rounds=rounds or regime.setting.rounds,
            seed=seed,
            checkpoint_every=25,
            time_limit=2.0,
            selector=selector,
        )
        for seed in range(seeds)
        for regime in regimes
        for method, selector in {"exact": regime.exact, **regime.others}.items()
    }
    rows = []
    for cell, folder in run_grid(grid, out / "runs", jobs).items():
        summary = read_summary(folder)
        seconds = summary["median_solve_seconds"]
        rows.append(
            dict(zip(("paper", "regime", "method", "seed"), cell, strict=True))
            | decisions(read_records(folder), grid[cell].clients_per_round)
            | {"ms": np.nan if seconds is None else 1e3 * seconds}
            | {outcome: summary[outcome] for outcome in OUTCOMES}
        )
    return pd.DataFrame(rows)


def decisions(records: Sequence[dict[str, Any]], size: int) -> dict[str, float]:
    """A run's gap, the sum of the gaps of its rounds over that of the bounds, and the share of proved decisions.

    The gap of E3CS's one pass, which is no feasible decision, is the share of the k draws that it does not allot.
    """
    solutions = [record["solution"] for record in records if record["solution"] is not None]
    if not solutions:
        return {"gap": np.nan, "proved": np.nan}
    if any("shortfall" in each["details"] for each in solutions):
        gap = sum(each["details"]["shortfall"] for each in solutions) / (size * len(solutions))
    else:
        bounds = sum(abs(each["bound"]) for each in solutions)
        gap = sum(abs(each["bound"] - each["objective"]) for each in solutions) / bounds if bounds else 0.0
    return {"gap": gap, "proved": float(np.mean([each["status"] == "optimal" for each in solutions]))}


# -- tables ----------------------------------------------------------------------------------------------------------


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Paired differences to the exact runs: mean, 95 % interval, p-value, and p adjusted for their number."""
    rows = []
    for (paper, regime), group in runs.groupby(["paper", "regime"], sort=False):
        by_method = {name: each.set_index("seed").sort_index() for name, each in group.groupby("method", sort=False)}
        exact = by_method.pop("exact")
        for method, other in by_method.items():
            for outcome in OUTCOMES:
                rows.append(
                    {"paper": paper, "regime": regime, "method": method, "outcome": outcome}
                    | {"exact": exact[outcome].mean(), "gap": other.gap.mean()}
                    | paired((other[outcome] - exact[outcome]).to_numpy(dtype=float))
                )
    effects = pd.DataFrame(rows)
    for part in (effects.method == LIGHT, effects.method != LIGHT):  # the clear effects of one are none of the other's
        effects.loc[part, "adjusted"] = false_discovery_control(effects.p[part])
    return effects


def paired(differences: np.ndarray) -> dict[str, float]:
    """Mean difference, half of its 95 % interval, and the p-value of "no difference", over seeds."""
    mean = float(differences.mean())
    if np.ptp(differences) == 0.0:
        return {"difference": mean, "half": 0.0, "p": 1.0 if mean == 0.0 else 0.0}
    test = ttest_1samp(differences, 0.0)
    return {"difference": mean, "half": half_width(pd.Series(differences)), "p": float(test.pvalue)}


def printed(runs: pd.DataFrame, effects: pd.DataFrame) -> pd.DataFrame:
    """One row a method: its gap and its differences; the exact row has the values themselves."""
    cells = {(row.paper, row.regime, row.method, row.outcome): row for row in effects.itertuples()}
    rows = []
    for key, group in runs.groupby(["paper", "regime", "method"], sort=False):
        row: dict[str, Any] = dict(zip(("paper", "regime", "decided by"), key, strict=True))
        row |= {"gap %": 100 * group.gap.mean(), "proved %": 100 * group.proved.mean(), "ms": group.ms.median()}
        for outcome, (heading, digits) in OUTCOMES.items():
            found = cells.get((*key, outcome))
            if found is None:
                row[heading] = f"{group[outcome].mean():.{digits}f}"
            elif found.difference == found.half == 0.0:
                row[heading] = "same"
            else:
                star = "*" if found.adjusted < 0.05 else ""
                row[heading] = f"{found.difference:+.{digits}f} ± {found.half:.{digits}f}{star}"
        rows.append(row)
    return pd.DataFrame(rows)


def verdict(effects: pd.DataFrame) -> Iterator[str]:
    """The answer in words, computed."""
    fairness, learning = list(OUTCOMES)[:3], list(OUTCOMES)[3:]
    for paper, group in effects.groupby("paper", sort=False):
        for kind in ("heuristics", LIGHT):
            part = group[(group.method == LIGHT) == (kind == LIGHT)]
            found = []
            for what, names in (("fairness", fairness), ("learning", learning)):
                cells = part[part.outcome.isin(names)]
                starred = cells[cells.adjusted < 0.05]
                named = (f"{row.method} at {row.regime}" for row in starred.itertuples() if kind != LIGHT)
                where = "; ".join(dict.fromkeys(named))
                found.append(f"{len(starred)} of {len(cells)} in {what}" + (f" ({where})" if where else ""))
            gap = "" if part.gap.isna().all() else f" (mean gap up to {100 * part.gap.max():.2g} %)"
            yield f"{paper}, {kind}{gap}: {', '.join(found)} differ"


# -- figures ---------------------------------------------------------------------------------------------------------


def effects_figure(effects: pd.DataFrame) -> Figure:
    """Effects on counts and on test loss against the gap, with 95 % intervals; full marks have a star in the table."""
    least, unknown = 0.003, 300.0  # where gaps of nothing, and those that are not known, are drawn
    papers = list(effects.paper.unique())
    figure = Figure(figsize=(2.5 * len(papers) + 0.8, 4.6), layout="constrained")
    axes = figure.subplots(2, len(papers), squeeze=False)
    methods = [method for method in effects.method.unique() if method != LIGHT]
    markers = dict(zip([*methods, LIGHT], "osD^vPX*"[: len(methods)] + "x", strict=True))
    for column, paper in enumerate(papers):
        for axis, outcome in zip(axes[:, column], ("count_variance", "final_loss"), strict=True):
            for row in effects[(effects.paper == paper) & (effects.outcome == outcome)].itertuples():
                share = 100 / abs(row.exact)
                axis.errorbar(
                    unknown if np.isnan(row.gap) else max(100 * row.gap, least),
                    share * row.difference,
                    share * row.half,
                    fmt=markers[row.method],
                    color="0.6" if row.method == LIGHT else "black",
                    fillstyle="full" if row.adjusted < 0.05 else "none",
                    markersize=5,
                    linewidth=0.8,
                )
            axis.axhline(0.0, color="black", linewidth=0.6)
            axis.set_xscale("log")
            axis.set_xlim(0.6 * least, 1.6 * unknown)
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.3)
        axes[0, column].set_yscale("symlog", linthresh=10)
        axes[0, column].set_title(paper, fontsize=10)
        axes[1, column].set_xlabel("gap (%; none: left edge)", fontsize=9)
    axes[0, 0].set_ylabel("variance of counts,\n% of exact's", fontsize=9)
    axes[1, 0].set_ylabel("test loss,\n% of exact's", fontsize=9)
    for method, marker in markers.items():
        axes[0, 0].plot([], [], marker, color="0.6" if method == LIGHT else "black", fillstyle="none", label=method)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def main(
    argv: Sequence[str] | None = None,
    regimes: Sequence[Regime] | None = None,
    rounds: int | None = None,
    seeds: int | None = None,
) -> Path:
    """Run every federation that is not there yet, show what gaps did, and return the folder of tables and figures."""
    arguments = study_arguments(__doc__.partition("\n")[0], "exact_vs_heuristic", argv=argv)
    regimes = regimes or (PAPER if arguments.paper else QUICK)
    if not arguments.paper:
        rounds = rounds or 60
    seeds = seeds or (8 if arguments.paper else 4)
    runs = play(regimes, rounds, seeds, arguments.out, arguments.jobs)
    effects = compare(runs)
    write_tables(arguments.out, {"runs": runs, "results": effects})
    table = printed(runs, effects)
    table.to_csv(arguments.out / "table.csv", index=False, float_format="%.4g")
    show(table, f"The gap and what it did: differences to exact, {seeds} paired seeds")
    for sentence in verdict(effects):
        print(sentence)
    effects_figure(effects).savefig(arguments.out / "exact_vs_heuristic.png", dpi=80)
    print(f"results and figure: {arguments.out}")
    return arguments.out


if __name__ == "__main__":
    run_script(main)
