"""Does coverage with counts lead the rules of others? `coverage-gs` beside FedGS, DivFL, power-of-choice and Oort.

`coverage-gs` is this project's own selector: exact coverage on FedGS's graph, with counts in the objective. Here it
stands beside the rules of others and its control, counts alone, each at a learning rate that was tuned for it in every
cell, on other splits, by the training loss. All else is this package's defaults. The plan, with its question, margin
and decision, is ``plans/coverage_gs.md``; it is older than the runs.

The unit of replication is a split of the data. Rules are paired on it: they meet the same data, availability, initial
model and batches. Intervals are 95 % ones of Student's t; p-values of the late loss are adjusted for their number
(Holm), others are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import letters  # noqa: F401  (registers the data set)
from comparison import by_cell, tested
from fedselect.experiments import Choice, Experiment
from fedselect.statistics import compare_means
from fedselect.training.settings import TrainingSettings
from study import Picture, Rows, Study, Table, main

OURS, UNIFORM = "coverage-gs", "uniform"

RULES = {
    OURS: Choice("coverage-gs"),
    "FedGS": Choice("fedgs"),
    "DivFL": Choice("divfl"),
    "power-of-choice": Choice("power-of-choice"),
    "Oort": Choice("oort"),
    UNIFORM: Choice("uniform"),
    "counts alone": Choice("fedgs", {"alpha": 0.0}),
}

#: Data by its name on the command line. On letters a client has 208 images on average.
DATA = {
    "digits": Choice("digits"),
    "letters-208": Choice("letters", {"images": 20_800, "test_images": 2600}),
}

#: All clients, or rates of 0.1 to 1, of mean 0.4 before they are clipped, by the labels that a client has.
AVAILABLE = {"all": Choice("ideal"), "by labels": Choice("fedau-bernoulli", {"mean": 0.4, "least": 0.1})}

CELL = ["concentration", "available"]

#: Per cent of uniform selection's loss: about half of FedGS's smallest lead on Synthetic in its Table 2.
MARGIN = 1.0

#: Outcomes; the first is the primary one. Late ones are means over the last fifth of the rounds.
OUTCOMES = ("late loss", "late accuracy", "worst tenth's loss", "variance of counts")

#: How clients train, but for the learning rate.
TRAINING = TrainingSettings(model="linear", local_steps=10, batch_size=10, device="cpu")


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: tuple[int, ...]
    tuned_on: tuple[int, ...]  #: splits
    rounds: int = 100
    concentrations: tuple[float, ...] = (0.1, 0.5)  #: a class
    clients: int = 100
    size: int = 10
    local: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)  #: learning rates
    server: tuple[float, ...] = (1.0,)
    screening: None = None
    widenings: int = 2


QUICK = Scale(splits=(140, 141, 142), tuned_on=(90,), rounds=40)
PAPER = Scale(splits=tuple(range(140, 155)), tuned_on=(90, 91, 92))


#: On letters, by the plan's amendment: splits, and rates around the best of an earlier study.
LETTERS = {"splits": tuple(range(180, 190)), "local": (0.01, 0.03, 0.1, 0.3, 1.0)}


def experiment(scale, concentration, available, rule, split, training=TRAINING, dataset="digits"):
    """Plan one run."""
    labels = {"partition": "dirichlet-per-class", "concentration": concentration, "n_clients": scale.clients}
    labels["seed"] = split  # the data's own: without it all splits are one partition
    return Experiment(
        name="coverage-gs",
        rounds=scale.rounds,
        seed=split,
        clients_per_round=scale.size,
        checkpoint_every=scale.rounds,
        data=replace(DATA[dataset], options=DATA[dataset].options | labels),
        availability=AVAILABLE[available],
        selector=RULES[rule],
        training=training,
    )


def measures(run):
    """Measure one run: the outcomes, and the share of proved decisions."""
    summary, last = run.summary(), max(1, run.experiment.rounds // 5)
    solved = [record["solution"] for record in run.records() if record["solution"] is not None]
    late = (run.curve("loss").tail(last).mean(), run.curve("accuracy").tail(last).mean())
    values = (*late, summary["client_loss_worst_tenth"], summary["count_variance"])
    found = dict(zip(OUTCOMES, map(float, values), strict=True))
    proved = np.mean([each["status"] == "optimal" for each in solved]) if solved else np.nan
    return found | {"rate": run.experiment.training.learning_rate, "proved": float(proved)}


def leads(runs):
    """Compare ours with each other rule in each cell: primary tests, adjusted together, and secondary ones."""

    def against(other, outcome):
        def measure(part):
            values = part.pivot(index="split", columns="rule", values=outcome)
            unit = values[UNIFORM].mean() / 100
            found = compare_means((values[OURS] - values[other]) / unit, margin=MARGIN)
            row = {"less": other, "outcome": outcome, "difference %": found.difference, "+-": found.half}
            return row | {"splits": found.n, "p": found.p, "same": found.p_equivalent}

        return measure

    others = [rule for rule in RULES if rule != OURS]
    tables = [by_cell(runs, CELL, against(other, outcome)) for outcome in OUTCOMES for other in others]
    table = pd.concat(tables, ignore_index=True)
    is_primary = table["outcome"] == OUTCOMES[0]
    judged = tested(table[is_primary].assign(margin=MARGIN))
    table["adjusted"] = judged["adjusted"]
    table["verdict"] = judged["verdict"].reindex(table.index, fill_value="")
    return table


def verdicts(table):
    """Say of each rule whether ours leads it: ahead in three of four cells or more, and behind in none."""
    primary = table[table["outcome"] == OUTCOMES[0]]
    for other, cells in primary.groupby("less", sort=False):
        count = cells["verdict"].value_counts()
        ahead, behind = int(count.get("ahead", 0)), int(count.get("behind", 0))
        is_leading = 4 * ahead >= 3 * len(cells) and behind == 0
        told = ", ".join(f"{name} in {number}" for name, number in count.items())
        yield f"{OURS} {'leads' if is_leading else 'does not lead'} {other}: {told} of {len(cells)} cells"


def figure_of(table):
    """Draw the primary differences: a panel for each cell, a line for each rule."""
    primary = table[table["outcome"] == OUTCOMES[0]]
    figure = Figure(figsize=(9, 2.4), layout="constrained")
    cells = list(primary.groupby(CELL, sort=False))
    for axis, ((concentration, available), part) in zip(
        figure.subplots(1, len(cells), sharey=True, squeeze=False)[0], cells, strict=True
    ):
        axis.axvspan(-MARGIN, MARGIN, color="0.9")
        axis.axvline(0, color="grey", linewidth=0.6)
        axis.errorbar(part["difference %"], part["less"], xerr=part["+-"], fmt="o", markersize=3, color="#0072B2")
        axis.set(title=f"{concentration:g} a class, {available}", xlabel="late loss, %")
        axis.invert_yaxis()
    return figure


def results(setup):
    """Yield the primary differences, the verdicts and what each rule has."""
    if setup.scale is PAPER and setup.dataset != "digits":
        setup = replace(setup, scale=replace(PAPER, **LETTERS))
    scale, dataset = setup.scale, setup.dataset
    cells = [(concentration, available) for concentration in scale.concentrations for available in AVAILABLE]
    tuned, trials = setup.tuned(
        {(*cell, rule): [experiment(scale, *cell, rule, split, dataset=dataset) for split in scale.tuned_on]
         for cell in cells for rule in RULES},
        widenings=scale.widenings,
    )  # fmt: skip
    grid = {  # splits outside: a study cut short has all rules and cells on those it reached
        (*cell, rule, split): experiment(scale, *cell, rule, split, tuned[*cell, rule], dataset)
        for split in scale.splits
        for cell in cells
        for rule in RULES
    }
    runs = setup.runs("runs", [*CELL, "rule", "split"], grid, measures).drop(columns="run")
    yield Rows(runs, "runs")
    tried = pd.DataFrame(
        {**dict(zip([*CELL, "rule"], each.label, strict=True)), "rate": each.settings["learning_rate"],
         "split": split, "training loss": loss}
        for each in trials for split, loss in zip(scale.tuned_on, each.values, strict=True)
    )  # fmt: skip
    yield Rows(tried, "tuning")
    table = leads(runs)
    yield Table(table, f"{OURS} less each other rule, % of uniform selection's", "leads")
    yield from verdicts(table)
    means = runs.groupby([*CELL, "rule"], sort=False)[[*OUTCOMES, "rate", "proved"]].mean().reset_index()
    yield Table(means, "what each rule has, means over splits", "rules")
    yield Picture(figure_of(table), "leads")
    edges = tried.groupby([*CELL, "rule"])["rate"].agg(["min", "max"])
    chosen = runs.groupby([*CELL, "rule"])["rate"].first()
    at_edge = int(((chosen <= edges["min"]) | (chosen >= edges["max"])).sum())
    yield f"searches for a learning rate that end at an edge of the grid: {at_edge} of {len(chosen)}"


STUDY = Study(__doc__, QUICK, PAPER, results, tuple(DATA))


if __name__ == "__main__":
    main(STUDY)
