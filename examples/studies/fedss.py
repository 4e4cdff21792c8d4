"""FedSS (Tang & Wong, INFOCOM 2023): the bias of Lemma 1, and Tables I and II.

100 clients have one label in the main; groups of one label come and go together. First nothing is trained: a client's
vector is its label distribution, to which Lemmas 1 and 2 apply as to its model. By Lemma 1 a uniform draw from the
available clients (FedAvg) has all the bias of availability, whatever the number drawn; by Lemma 2 a stratified one
(FedSS) has none of it, as long as every group has a client there. Then all algorithms train: rounds to a target loss.

The paper's availability trace is not public, and it states neither model, step size, batch, local epochs nor seeds.
Groups here rise and fall like time zones (`fedselect.availability.group_trace`), with at least one client of each there
unless said otherwise. Without the paper's data, training is on scikit-learn's digits: speed-ups compare, not rounds.
In training each seed has its own split of the data, its own trace and its own model.

Ten groups and ten clients a round leave -O and -P one client of each group: while all groups are there they are one
algorithm, to the last bit. In Table I the paper has up to 20 % between them (39 and 47 rounds), which is then what
chance makes of one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import baseline_values, beside_paper, holm, long_form, published_cells, stacked
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.experiments.figures import panels_figure
from fedselect.measures import late_deviation, rounds_to
from fedselect.rounds.protocol import Outcome
from fedselect.statistics import compare_means, half_width
from fedselect.training.settings import TrainingSettings
from formulas import availability_bias
from solvers.allocation import group_clients
from study import Picture, Rows, Study, Table, curves, main, select_without_training

# -- setting -----------------------------------------------------------------------------------------------------------

RATIOS = ("80 %", "90 %", "95 %")
CLIENTS, LABELS = 100, 10
FEDSS_O = Choice("fedss", {"largest": LABELS})
FEDSS_P = Choice("fedss", {"largest": LABELS, "variant": "proportional"})


@dataclass(frozen=True)
class Task:
    """Training on a data set. Only the target loss of MNIST and CIFAR-10 is the paper's; the rest it leaves open."""

    published: str
    targets: tuple[float, ...]  # the first is the one that is shown
    rounds: int
    steps: tuple[float, ...]  # local; the first has all the settings, the last Tables I and II, others Table I
    settings: dict[str, Any]


TASKS = {
    "digits": Task("mnist", (0.5, 1.0, 0.3), 400, (0.05, 0.5, 1.0), {"model": "mlp"}),
    "mnist": Task("mnist", (0.1,), 200, (0.05,), {"model": "cnn-fashion"}),
    "cifar10": Task("cifar10", (1.5,), 400, (0.05,), {"model": "cnn-cifar", "batch_size": 50}),
}


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    traces: int  # seeds of the part without training
    days: int  # of 24 rounds in each
    rounds: float  # share of the task's
    seeds: int
    ratios: tuple[str, ...]
    sizes: tuple[int, ...]  # clients a round in Table II


QUICK = Scale(20, 2, 0.5, 3, ("80 %", "95 %"), (10, 30))
PAPER = Scale(200, 2, 1.0, 10, RATIOS, (10, 20, 30))


def experiment(dataset, root, ratio="95 %", size=10, per_group=1, seed=0):
    """Build a run in the paper's setting, as far as it is stated; the seed is the run's and the data's."""
    data = {"partition": "sorted-blocks", "ratio": float(ratio.strip(" %")) / 100, "n_clients": CLIENTS, "seed": seed}
    if dataset != "digits":
        data["root"] = str(root)
    return Experiment(
        seed=seed,
        clients_per_round=size,
        checkpoint_every=50,
        data=Choice(dataset, data),
        availability=Choice("group-trace", {"per_group": per_group}),
        training=TrainingSettings(**{"decay": 1.0, "local_epochs": 5, "batch_size": 10} | TASKS[dataset].settings),
    )


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


def published(table, dataset):
    """Read rounds to the target loss by column and row: Table I by non-IID ratio, II by clients a round (at 95 %)."""
    cells = published_cells("fedss", table).items()
    return {(column, name): rounds for (group, name, column), rounds in cells if group == dataset}


# -- bias, without training --------------------------------------------------------------------------------------------

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
    "weight goes to the others"
}


def watch(federation, strata, draw, rounds, seed):
    """Draw without training: by round, the average's label mix minus the population's, and Eq. 7."""
    choice, size, per_group, _ = DRAWS[draw]
    setting = experiment("digits", Path(), size=size, per_group=per_group)
    scenario = build_scenario(replace(setting, rounds=rounds, seed=seed), federation)
    if choice.name == "fedss":
        choice = Choice("fedss", {**choice.options, "groups": strata})
    vectors = federation.label_distributions
    groups = scenario.availability.groups  # a group trace's own
    sizes = np.bincount(groups)
    means = np.stack([vectors[groups == k].mean(axis=0) for k in range(sizes.size)])
    found, lemma, variation = [], [], []
    # One sample each, as the lemmas have it: clients differ by one otherwise.
    for played in select_without_training(scenario, choice, sizes=[1] * CLIENTS):
        present = np.bincount(groups[played.outcomes != Outcome.UNAVAILABLE], minlength=sizes.size)
        found.append(played.applied @ vectors[played.selection.clients] - vectors.mean(axis=0))
        lean = availability_bias(sizes, present)
        lemma.append(lean @ means)
        variation.append(np.abs(lean).sum() / 2)
    return {"found": np.array(found), "lemma": np.array(lemma), "variation": np.array(variation)}


def draws(setup):
    """Plan every draw from every trace."""
    # Digits, whatever is trained later: only the labels count here.
    federation = experiment("digits", Path()).federation()
    strata = group_clients(federation.label_distributions, LABELS).labels.tolist()  # once, as it takes a second
    rounds = 24 * setup.scale.days
    return {
        (draw, seed): (federation, strata, draw, rounds, seed) for seed in range(setup.scale.traces) for draw in DRAWS
    }


def biases(drawn):
    """Compute the share of Lemma 1's bias that each draw has, one row per trace and measure."""
    rows = []
    for (draw, seed), watched in drawn.items():
        found, lemma = watched["found"], watched["lemma"]
        # Regression of what happened on Eq. 7; given who is there, the draw only adds noise of mean zero.
        share = float((found * lemma).sum() / (lemma**2).sum())
        values = {"share of Lemma 1's bias": share, "TV of availability": float(watched["variation"].mean())}
        rows += [
            {"part": "bias", "draw": draw, "seed": seed, "measure": measure, "value": value}
            for measure, value in values.items()
        ]
    return pd.DataFrame(rows)


# -- what is run -------------------------------------------------------------------------------------------------------


def training_grid(setup):
    """Plan everything that is trained by step size, ratio, clients a round, clients per group, algorithm and seed."""
    scale, task = setup.scale, TASKS[setup.dataset]
    first, worst = task.steps[0], scale.ratios[-1]
    ends = dict.fromkeys((first, task.steps[-1]))
    settings = [(step, ratio, 10, 1, name) for step in task.steps for ratio in scale.ratios for name in ALGORITHMS]
    settings += [(step, worst, s, 1, name) for step in ends for s in scale.sizes if s != 10 for name in IN_TABLE_2]
    settings += [(first, worst, 10, 0, name) for name in ("FedAvg", "FedSS-P", "CS-UCB-Q")]
    grid = {}
    for seed in range(scale.seeds):
        for step, ratio, size, per_group, name in settings:
            selector, proximal = ALGORITHMS[name]
            base = experiment(setup.dataset, setup.root, ratio, size, per_group, seed)
            grid[step, ratio, size, per_group, name, seed] = replace(
                base,
                name=f"ratio{ratio.strip(' %')}-{size}-clients",
                rounds=max(1, round(task.rounds * scale.rounds)),
                selector=selector,
                training=replace(base.training, learning_rate=step, proximal=proximal),
            )
    return grid


def measures(run):
    """Measure one run, accuracies in per cent."""
    table, task = run.rounds(), TASKS[run.experiment.data.name]
    values = {f"rounds to loss {loss:g}": rounds_to(table, loss, "loss") for loss in task.targets}
    values["rounds to 80 % accuracy"] = rounds_to(table, 0.8)
    values["final accuracy"] = 100 * run.summary()["final_accuracy"]
    values["accuracy after 30 rounds"] = 100 * table["accuracy"].iloc[min(30, len(table)) - 1]
    return values | {"late deviation of accuracy": 100 * late_deviation(table["accuracy"])}


# -- tables ------------------------------------------------------------------------------------------------------------

WHY_PROX = "μ = 0.01 hardly moves a step: as many rounds as FedAvg; the paper's go both ways, 199 to 114 and 41 to 67"
WHY_DIGITS = "smaller data and model, another trace: a round moves the model less, so that biases of a day even out"
WHY_SIZE = (
    "the paper's FedAvg falls to 34 rounds with 20 clients; its bias does not depend on S (Remark 2), so that fall is "
    "variance, Lemma 3's 1/S, which takes large steps to show: compare the step sizes"
)
WHY_DATA = "model, step size, batch, local epochs and trace are not stated in the paper, which has one run"


def why(dataset, task, column):
    """Give the reasons why speed-ups differ, by step size, column of the paper's table and algorithm."""
    steps = [str(step) for step in task.steps]
    found = {(step, here, "FedProx"): WHY_PROX for step in steps for here in column}
    found |= {(step, "10"): WHY_SIZE for step in steps}  # of Table II
    return found | {(): WHY_DIGITS if dataset == "digits" else WHY_DATA}


def restricted(rows, horizon):
    """Let a run that never reaches a target count as the horizon: less than it would need, but it is not dropped."""
    censored = rows["measure"].str.startswith("rounds to") & rows["value"].isna()
    return rows.assign(value=rows["value"].mask(censored, horizon))


def speed_ups(rows):
    """Divide FedAvg's rounds by those of each algorithm, within a seed and setting."""
    cell = [*(key for key in KEYS if key != "algorithm"), "seed"]
    return rows.assign(value=baseline_values(rows, "algorithm", "FedAvg", cell) / rows["value"])


def beside(rows, paper, column, why):
    """Put the speed-ups of one of the paper's tables beside ours; ``column`` names its columns."""
    ours = speed_ups(rows)
    ours = ours[ours["algorithm"] != "FedAvg"]
    keys = ["step", column, "algorithm"]
    theirs = {
        (step, here, name): paper[here, "FedAvg"] / paper[here, name]
        for step, here, name in ours[keys].drop_duplicates().itertuples(index=False)
    }
    return beside_paper(ours, theirs, keys, "value", why, margin=0.1, runs=1)


def interval(values):
    """Format mean and half its 95 % confidence interval, as text."""
    return f"{values.mean():.2f} ± {half_width(values):.2f}" if values.count() else "never"


def claims(rows, task, scale):
    """Test the paper's statements about its results on ours, by paired seeds, with Holm's adjustment for all."""
    target, early = f"rounds to loss {task.targets[0]:g}", "accuracy after 30 rounds"
    late = "late deviation of accuracy"
    mild, worst, largest = scale.ratios[0], scale.ratios[-1], str(scale.sizes[-1])
    table = rows.set_index([*KEYS, "measure", "seed"])["value"].sort_index()
    found = []
    for step in map(str, task.steps):

        def runs(name, what=target, ratio=worst, size="10", at=step):
            return table.loc[at, ratio, size, 1, name, what]

        def gain(**where):
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
            each = {"step": step, "positive if it holds": claim, "ours": interval(values), "mean": values.mean()}
            found.append(each | {"p": compare_means(values, margin=0.1).p})
    claimed = pd.DataFrame(found)
    claimed["adjusted"] = holm(claimed["p"])
    sign = np.where(claimed["mean"] > 0, "holds", "contradicted")
    claimed["verdict"] = np.where(claimed["adjusted"] < 0.05, sign, "not beyond chance")
    return claimed.drop(columns="mean")


def averages(rows, horizon):
    """Average every setting and measure over seeds, and say where some seeds never reach a target."""

    def told(values):
        there = f" ({values.count()} of {len(values)} there)" if values.isna().any() else ""
        return interval(values.fillna(horizon)) + there if values.count() else "never"

    table = rows.groupby([*KEYS, "measure"], sort=False)["value"].apply(told).unstack("measure", sort=False)
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


def accuracy_figure(runs, task, ratios):
    """Draw Fig. 2: test accuracy, means over seeds; for some with the band from lowest to highest."""
    first = runs[(runs["step"] == task.steps[0]) & (runs["size"] == 10) & (runs["per_group"] == 1)]
    panels = {}
    for names in CURVES:
        for ratio in dict.fromkeys((ratios[0], ratios[-1])):
            drawn = curves(first[first["ratio"] == ratio], "ratio", "algorithm")[ratio]
            panels[f"{names[0]}, non-IID ratio {ratio}"] = {name: drawn[name] for name in names if name in drawn}
    banded = ("FedAvg", "FedSS-P", "FedProx", "FedProxSS-P")
    return panels_figure(panels, STYLES, "test accuracy", banded=banded, size=(4 * len(panels), 3.2))


def shares_figure(rounds=(0, 4, 8, 12, 16, 20)):
    """Draw Fig. 1 (a): each group's share of all clients, and of those available at some hours of the day."""
    setting = replace(experiment("digits", Path()), rounds=24)
    scenario = build_scenario(setting)
    groups = scenario.availability.groups  # a group trace's own
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
    axis.set(xlabel="clients, and those available in a round", ylabel="share of each group")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return figure


def bias_figure(watched, rows):
    """Draw (left) a label's share in the round's average over two days, (right) the share of Lemma 1's bias."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))

    def mean(draw, what, label=0):
        return np.mean([each[what][:, label] for (mine, _), each in watched.items() if mine == draw], axis=0)

    left.plot(mean("FedAvg, S = 10", "lemma"), "k-", linewidth=1, label="who is available (Lemma 1)")
    for draw, marker, colour in (
        ("FedAvg, S = 10", "o", "#D55E00"),
        ("CS-UCB-Q, S = 10", "^", "#009E73"),
        ("FedSS, S = 10", "s", "#0072B2"),
    ):
        left.plot(mean(draw, "found"), marker, color=colour, markersize=3.5, label=draw.partition(",")[0])
    left.axhline(0, color="0.6", linewidth=0.8)
    left.set(xlabel="round", ylabel="share of one label minus its share\nin the population, mean over traces")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    grouped = rows[rows["measure"] == "share of Lemma 1's bias"].groupby("draw", sort=False)["value"]
    names, means = list(grouped.groups), grouped.mean()
    right.barh(names, means, xerr=1.96 * grouped.sem(), color="0.75", edgecolor="black", capsize=2)
    right.invert_yaxis()
    right.set(xlabel="share of Lemma 1's bias")
    right.tick_params(axis="y", labelsize=7)
    return figure


def results(setup):
    """Yield the tables and figures of both."""
    scale, dataset, task = setup.scale, setup.dataset, TASKS[setup.dataset]
    experiment(dataset, setup.root).federation()  # missing files are noticed now, not after the first part

    drawn = setup.parts("draws", watch, draws(setup), ".npz")
    bias = biases(drawn)
    share = bias[bias["measure"] == "share of Lemma 1's bias"]
    lemmas = {(draw,): expected for draw, (*_, expected) in DRAWS.items() if expected is not None}
    title = "Lemmas 1 and 2: share of FedAvg's bias"
    tables = {title: beside_paper(share, lemmas, ["draw"], "value", WHY_BIAS, margin=0.02, runs=None)}
    yield Table(tables[title], title)

    runs = setup.runs("training", (*KEYS, "seed"), training_grid(setup), measures)
    trained = long_form(runs, (*KEYS, "seed"), part="training").astype({"size": str, "step": str})
    horizon = max(run.experiment.rounds for run in runs["run"])
    raw, trained = trained, restricted(trained, horizon)
    first = trained["measure"] == f"rounds to loss {task.targets[0]:g}"
    guaranteed = first & (trained["per_group"] == 1)
    by_ratio = trained[guaranteed & (trained["size"] == "10")]
    by_size = trained[guaranteed & (trained["ratio"] == scale.ratios[-1]) & trained["algorithm"].isin(IN_TABLE_2)]
    by_size = by_size[by_size["step"].isin([str(task.steps[0]), str(task.steps[-1])])]
    target = f"speed-up over FedAvg to loss {task.targets[0]:g} on {dataset}"
    compared = {
        f"Table I: {target}; the paper's on {task.published}": beside(
            by_ratio, published("Table I", task.published), "ratio", why(dataset, task, scale.ratios)
        ),
        f"Table II: {target} by clients a round, {scale.ratios[-1]}; the paper's on cifar10, 95 %": beside(
            by_size, published("Table II", "cifar10"), "size", why(dataset, task, [str(size) for size in scale.sizes])
        ),
    }
    for title, table in compared.items():
        yield Table(table, title, digits=2)
    title = "What the paper says of its results, paired by seed, ± half the 95 % interval"
    yield Table(claims(trained, task, scale), title, "claims")
    yield Table(averages(raw, horizon), "Everything measured, mean ± half the 95 % interval", "means")
    yield Rows(pd.concat([bias, raw]), "results")
    both = tables | compared
    yield Table(stacked(both), file="beside-paper")
    yield Picture(bias_figure(drawn, bias), "bias")
    yield Picture(shares_figure(), "shares")
    yield Picture(accuracy_figure(runs, task, scale.ratios), "accuracy")


STUDY = Study(__doc__, QUICK, PAPER, results, tuple(TASKS))


if __name__ == "__main__":
    main(STUDY)
