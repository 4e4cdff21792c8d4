"""FedSS (Tang & Wong, INFOCOM 2023): the bias of Lemma 1, and Tables I and II.

    python fedselect/studies/fedss.py
    python fedselect/studies/fedss.py --paper
    python fedselect/studies/fedss.py --paper --dataset cifar10 --root DATA

100 clients have one label in the main; groups of one label come and go together. First nothing is trained: a client's
vector is its label distribution, to which Lemmas 1 and 2 apply as to its model. By Lemma 1 a uniform draw from the
available clients (FedAvg) has all the bias of who is available, whatever the number drawn; by Lemma 2 a stratified one
(FedSS) has none of it, as long as every group has somebody there. Then everybody trains: rounds to a target loss.

The paper's availability trace is not public, and it states neither model, step size, batch, local epochs nor seeds.
Groups here rise and fall like time zones (`fedselect.availability.groups`), with at least one client of each there
unless said otherwise. Without the paper's data, training is on scikit-learn's digits: speed-ups compare, not rounds.

Ten groups and ten clients a round leave -O and -P one client of each group: they are one algorithm, here to the last
bit. In Table I the paper has up to 20 % between them (39 and 47 rounds), which is then what chance makes of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fedselect.experiments import Choice, read_records, read_summary
from fedselect.experiments.figures import panels_figure, save_figure
from fedselect.experiments.metrics import late_deviation, learning_curve, round_table, rounds_to
from fedselect.studies.fedss_bias import DRAWS, WHY_BIAS, bias_figure, biases, shares_figure
from fedselect.studies.fedss_setting import FEDSS_O, FEDSS_P, PAPER, QUICK, TASKS, Scale, Task, experiment
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import half_width, of_baseline
from fedselect.studies.parts import write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper, published_cells
from fedselect.studies.script import run_script, study_arguments

KEYS = ("step", "ratio", "size", "per_group", "algorithm")

#: Selector and FedProx's μ of each algorithm.
ALGORITHMS = {
    "FedAvg": (Choice("uniform"), 0.0),
    "FedSS-O": (FEDSS_O, 0.0),
    "FedSS-P": (FEDSS_P, 0.0),
    "FedProx": (Choice("uniform"), 0.01),
    "FedProxSS-O": (FEDSS_O, 0.01),
    "FedProxSS-P": (FEDSS_P, 0.01),
    "CS-UCB-Q": (Choice("cs-ucb-q"), 0.0),
}

IN_TABLE_2 = tuple(name for name in ALGORITHMS if name != "CS-UCB-Q")


def published(table: str, dataset: str) -> dict[tuple[str, str], float]:
    """Rounds to the target loss by column and row: of Table I by non-IID ratio, of II by clients a round (at 95 %)."""
    cells = published_cells("fedss", table).items()
    return {(column, name): rounds for (group, name, column), rounds in cells if group == dataset}


# -- what is run -------------------------------------------------------------------------------------------------------


def training(scale: Scale, dataset: str, root: Path, out: Path, jobs: int) -> tuple[pd.DataFrame, dict]:
    """Train everything; one row for each run and measure, and the accuracy curves."""
    task, grid = TASKS[dataset], {}
    rounds = max(1, round(task.rounds * scale.rounds))
    first, worst = task.steps[0], scale.ratios[-1]
    ends = dict.fromkeys((first, task.steps[-1]))
    settings = [(step, ratio, 10, 1, name) for step in task.steps for ratio in scale.ratios for name in ALGORITHMS]
    settings += [(step, worst, s, 1, name) for step in ends for s in scale.sizes if s != 10 for name in IN_TABLE_2]
    settings += [(first, worst, 10, 0, name) for name in ("FedAvg", "FedSS-P", "CS-UCB-Q")]
    for seed in range(scale.seeds):
        for step, ratio, size, per_group, name in settings:
            selector, proximal = ALGORITHMS[name]
            base = experiment(dataset, root, ratio, size, per_group)
            grid[step, ratio, size, per_group, name, seed] = replace(
                base,
                name=f"ratio{ratio.strip(' %')}-{size}-clients",
                rounds=rounds,
                seed=seed,
                selector=selector,
                training=replace(base.training, learning_rate=step, proximal=proximal),
            )
    rows: list[dict[str, Any]] = []
    curves: dict[tuple[Any, ...], list[pd.Series]] = {}
    for (*key, seed), folder in run_grid(grid, out / "runs", jobs, "training").items():
        table = round_table(read_records(folder))
        values: dict[str, float | None] = {
            f"rounds to loss {target:g}": rounds_to(table, target, "loss") for target in task.targets
        }
        values["rounds to 80 % accuracy"] = rounds_to(table, 0.8)
        values["final accuracy"] = 100 * read_summary(folder)["final_accuracy"]
        values["accuracy after 30 rounds"] = 100 * table["accuracy"].iloc[min(30, rounds) - 1]
        values["late deviation of accuracy"] = 100 * late_deviation(table["accuracy"])
        labels = dict(zip(KEYS, key, strict=True)) | {"seed": seed}
        rows += [{"part": "training", **labels, "measure": name, "value": value} for name, value in values.items()]
        curves.setdefault(tuple(key), []).append(learning_curve(table))
    return pd.DataFrame(rows).astype({"value": float, "size": str, "step": str}), curves


# -- tables ------------------------------------------------------------------------------------------------------------

WHY_PROX = "μ = 0.01 hardly moves a step: as many rounds as FedAvg; the paper's go both ways, 199 to 114 and 41 to 67"
WHY_DIGITS = "smaller data and model, another trace: a round moves the model less, so that biases of a day even out"
WHY_SIZE = (
    "the paper's FedAvg falls to 34 rounds with 20 clients; its bias does not depend on S (Remark 2), so that fall is "
    "variance, Lemma 3's 1/S, which takes large steps to show: compare the step sizes"
)
WHY_DATA = "model, step size, batch, local epochs and trace are not stated in the paper, which has one run"


def why(dataset: str, task: Task, column: Sequence[str]) -> dict[tuple[str, ...], str]:
    """What explains that speed-ups differ, by step size, column of the paper's table and algorithm."""
    steps = [str(step) for step in task.steps]
    found: dict[tuple[str, ...], str] = {(step, here, "FedProx"): WHY_PROX for step in steps for here in column}
    found |= {(step, "10"): WHY_SIZE for step in steps}  # of Table II
    return found | {(): WHY_DIGITS if dataset == "digits" else WHY_DATA}


def speed_ups(rows: pd.DataFrame) -> pd.DataFrame:
    """FedAvg's rounds divided by those of each algorithm, within a seed and setting."""
    cell = [*(key for key in KEYS if key != "algorithm"), "seed"]
    return rows.assign(value=of_baseline(rows, "algorithm", "FedAvg", cell) / rows["value"])


def beside(rows: pd.DataFrame, paper: Mapping[Any, float], column: str, why: Mapping) -> pd.DataFrame:
    """The speed-ups of one of the paper's tables beside ours; ``column`` names its columns."""
    ours = speed_ups(rows)
    ours = ours[ours["algorithm"] != "FedAvg"]
    keys = ["step", column, "algorithm"]
    theirs = {
        (step, here, name): paper[here, "FedAvg"] / paper[here, name]
        for step, here, name in ours[keys].drop_duplicates().itertuples(index=False)
    }
    return beside_paper(ours, theirs, keys, "value", why)


def interval(values: pd.Series) -> str:
    """Mean and half its 95 % confidence interval, as text."""
    return f"{values.mean():.2f} ± {half_width(values):.2f}" if values.count() else "never"


def claims(rows: pd.DataFrame, task: Task, scale: Scale) -> pd.DataFrame:
    """What the paper says about its results, held against ours by paired seeds."""
    target, early = f"rounds to loss {task.targets[0]:g}", "accuracy after 30 rounds"
    late = "late deviation of accuracy"
    mild, worst, largest = scale.ratios[0], scale.ratios[-1], str(scale.sizes[-1])
    table = rows.set_index([*KEYS, "measure", "seed"])["value"].sort_index()
    found = []
    for step in map(str, task.steps):

        def runs(name: str, what: str = target, ratio: str = worst, size: str = "10", at: str = step) -> pd.Series:
            return table.loc[at, ratio, size, 1, name, what]

        def gain(**where: str) -> pd.Series:
            return runs("FedAvg", **where) / runs("FedSS-P", **where)

        held = {f"FedSS-P needs fewer rounds than FedAvg, {r}: speed-up - 1": gain(ratio=r) - 1 for r in scale.ratios}
        held |= {
            f"the same to 80 % accuracy, {worst}: speed-up - 1": gain(what="rounds to 80 % accuracy") - 1,
            f"the speed-up grows with the ratio: {worst} - {mild}": gain() - gain(ratio=mild),
            f"CS-UCB-Q needs more rounds than FedSS-P, {worst}": runs("CS-UCB-Q") - runs("FedSS-P"),
            f"FedProx needs fewer rounds than FedAvg, {worst}": runs("FedAvg") - runs("FedProx"),
            f"{early}, {worst}: FedSS-P - FedAvg (points)": runs("FedSS-P", early) - runs("FedAvg", early),
            f"accuracy fluctuates less, {worst}: FedAvg's deviation - FedSS-P's (points)": (
                runs("FedAvg", late) - runs("FedSS-P", late)
            ),
        }
        if step in (str(task.steps[0]), str(task.steps[-1])):
            held |= {
                f"the speed-up shrinks with more clients a round: 10 - {largest}": gain() - gain(size=largest),
                f"FedSS-P with 10 clients about as fast as FedAvg with {largest}: rounds saved": (
                    runs("FedAvg", size=largest) - runs("FedSS-P")
                ),
            }
        for claim, values in held.items():
            mean, half = values.mean(), half_width(values)
            verdict = "holds" if mean > half else "contradicted" if mean < -half else "not beyond chance"
            found.append({"step": step, "positive if it holds": claim, "ours": interval(values), "verdict": verdict})
    return pd.DataFrame(found)


def averages(rows: pd.DataFrame) -> pd.DataFrame:
    """Every setting and measure, means over seeds."""
    table = rows.groupby([*KEYS, "measure"], sort=False)["value"].apply(interval).unstack("measure", sort=False)
    table = table.reset_index().replace({"per_group": {1: "always", 0: "not always"}})
    return table.rename(columns={"per_group": "every group there"})


# -- figures -----------------------------------------------------------------------------------------------------------

#: The curves of Fig. 2 (a, b) and of (c, d); CS-UCB-Q is not in the paper's.
CURVES = (("FedAvg", "FedSS-P", "FedSS-O", "CS-UCB-Q"), ("FedProx", "FedProxSS-P", "FedProxSS-O"))
STYLES = {
    "FedAvg": ("black", "--"),
    "FedSS-P": ("#0072B2", "-"),
    "FedSS-O": ("#56B4E9", ":"),
    "CS-UCB-Q": ("#009E73", "-."),
    "FedProx": ("black", "--"),
    "FedProxSS-P": ("#D55E00", "-"),
    "FedProxSS-O": ("#E69F00", ":"),
}


def accuracy_figure(curves: Mapping[tuple, list[pd.Series]], step: float, ratios: Sequence[str]) -> Figure:
    """Fig. 2: test accuracy, means over seeds; for some with the band from lowest to highest."""
    panels = {
        f"{names[0]}, non-IID ratio {ratio}": {
            name: curves[step, ratio, 10, 1, name] for name in names if name in ALGORITHMS
        }
        for names in CURVES
        for ratio in dict.fromkeys((ratios[0], ratios[-1]))
    }
    banded = ("FedAvg", "FedSS-P", "FedProx", "FedProxSS-P")
    return panels_figure(panels, STYLES, "test accuracy", banded=banded, size=(4 * len(panels), 3.2))


def main(argv: Sequence[str] | None = None, scale: Scale | None = None) -> Path:
    """Run what is missing of the study and show it; return the folder of its tables and figures."""
    arguments = study_arguments(__doc__.partition("\n")[0], "fedss", tuple(TASKS), argv)
    scale = scale or (PAPER if arguments.paper else QUICK)
    dataset, out, task = arguments.dataset, arguments.out, TASKS[arguments.dataset]
    experiment(dataset, arguments.root).federation()  # missing files are noticed now, not after the first part

    bias, watched = biases(scale, out)
    share = bias[bias["measure"] == "share of Lemma 1's bias"]
    lemmas = {(draw,): expected for draw, (*_, expected) in DRAWS.items() if expected is not None}
    title = "Lemmas 1 and 2: share of FedAvg's bias"
    tables = {title: beside_paper(share, lemmas, ["draw"], "value", WHY_BIAS)}
    show(tables[title], title)

    trained, curves = training(scale, dataset, arguments.root, out, arguments.jobs)
    first = trained["measure"] == f"rounds to loss {task.targets[0]:g}"
    guaranteed = first & (trained["per_group"] == 1)
    by_ratio = trained[guaranteed & (trained["size"] == "10")]
    by_size = trained[guaranteed & (trained["ratio"] == scale.ratios[-1]) & trained["algorithm"].isin(IN_TABLE_2)]
    by_size = by_size[by_size["step"].isin([str(task.steps[0]), str(task.steps[-1])])]
    target = f"speed-up over FedAvg to loss {task.targets[0]:g} on {dataset}"
    tables[f"Table I: {target}; the paper's on {task.published}"] = beside(
        by_ratio, published("Table I", task.published), "ratio", why(dataset, task, scale.ratios)
    )
    tables[f"Table II: {target} by clients a round, {scale.ratios[-1]}; the paper's on cifar10, 95 %"] = beside(
        by_size, published("Table II", "cifar10"), "size", why(dataset, task, [str(size) for size in scale.sizes])
    )
    for title in list(tables)[1:]:
        show(tables[title], title, 2)
    held = claims(trained, task, scale)
    show(held, "What the paper says of its results, paired by seed, ± half the 95 % interval")
    everything = averages(trained)
    show(everything, "Everything measured, mean ± half the 95 % interval")

    beside_all = pd.concat([table.assign(table=title) for title, table in tables.items()])
    results = pd.concat([bias, trained])
    write_tables(out, {"results": results, "beside-paper": beside_all, "claims": held, "means": everything})
    save_figure(bias_figure(watched, bias), out / "bias.png", dpi=110)
    save_figure(shares_figure(), out / "shares.png", dpi=110)
    save_figure(accuracy_figure(curves, task.steps[0], scale.ratios), out / "accuracy.png", dpi=110)
    print(f"tables, results.csv and figures: {out}")
    return out


if __name__ == "__main__":
    run_script(main)
