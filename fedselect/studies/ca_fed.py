"""CA-Fed's Table I and Figures 1 to 3, as its paper and as its code have them (Rodio et al., INFOCOM 2023).

    python fedselect/studies/ca_fed.py
    python fedselect/studies/ca_fed.py --paper
    python fedselect/studies/ca_fed.py --paper --dataset swapped-mnist --root DATA

``--paper`` has the paper's grid of learning rates and the scripts' nine seeds; swapped-mnist is Table I's second
column. Four readings stand side by side:

paper
    What the text says. What it leaves open is as in the authors' scripts: 150 rounds, 2 local epochs, batches of 32
    (MNIST: 64), 12 clients a round for F3AST. Learning rates come from the paper's grid: the highest time average of
    the accuracy on another draw of the data, under another seed; by what the authors chose is not said.
code's classes
    The same but for who is there: in the authors' code nobody who is often there is correlated in time.
code
    Sizes, momentum (which clients keep between rounds), weight decay at the server, learning rates, filter and loss
    minima are the code's too. Not reproduced: selection by the clients' *test* loss.
code, equal rates
    The same with CA-Fed's learning rates for all: the scripts let it take steps 3.3 times those of Unbiased.

Table I says neither over which rounds an average goes nor what a deviation is of. The authors' code takes means over
the rounds it logs, after rounds 2, 5, ..., 38 and then every tenth, and draws running means: both statistics stand
beside those over all rounds and of the accuracy itself. The linear model of the synthetic data has one logit.

The data are drawn once, with the authors' seed 42 (our generator is another, so the draw is too); under one seed all
methods meet the same clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from fedselect.experiments import Choice, Experiment, read_records, read_summary
from fedselect.experiments.figures import save_figure
from fedselect.experiments.metrics import late_deviation, learning_curve, round_table
from fedselect.progress import progress_bar
from fedselect.studies.ca_fed_pictures import (
    CLASSES,
    accuracy_figure,
    activity,
    activity_figure,
    classes,
    importance_figure,
)
from fedselect.studies.ca_fed_setting import PAPER, QUICK, READINGS, SCRIPTS, Scale, experiments
from fedselect.studies.grid import run_grid
from fedselect.studies.paired import of_baseline
from fedselect.studies.parts import write_tables
from fedselect.studies.printing import show
from fedselect.studies.published import beside_paper, published_table
from fedselect.studies.script import run_script, study_arguments
from fedselect.studies.tuning import tune

# -- the paper's numbers ---------------------------------------------------------------------------------------------

#: Table I, in per cent.
TABLE_I = published_table("ca_fed", "Table I, %")

# -- statistics -----------------------------------------------------------------------------------------------------

#: What may be meant by the columns of Table I: the column's place, and the statistic of a run's accuracies by round.
MEASURES: Mapping[str, tuple[int, Callable[[pd.Series], float]]] = {
    "maximum": (0, lambda curve: curve.max()),
    "time average": (1, lambda curve: curve.mean()),
    "time average, logged rounds": (1, lambda curve: curve[logged(curve.size)].mean()),
    "late deviation": (2, lambda curve: late_deviation(curve)),
    "late deviation, running mean": (2, lambda curve: late_deviation(curve.expanding().mean())),
}


#: Where the code's statistic is another one than the obvious.
ELSEWHERE: Mapping[str, str] = {
    "time average": "the paper's is of the rounds that the code logs: see 'time average, logged rounds'",
    "late deviation": "the paper's is of the running mean: see 'late deviation, running mean'",
}

AVERAGES = ("time average", "time average, logged rounds")


def logged(rounds: int) -> NDArray[np.int64]:
    """Rounds, from 0, after which the authors' code logs; it also does before the first, where all methods agree."""
    found = [t for t in range(rounds) if t + 1 in range(2, 39, 3) or (t + 1 > 38 and (t + 1) % 10 == 0)]
    return np.array(found, dtype=np.int64)


# -- what is run -----------------------------------------------------------------------------------------------------


def with_rates(dataset: str, root: Path, scale: Scale, out: Path, jobs: int) -> dict[tuple[str, str], Experiment]:
    """All experiments by (reading, method), with the scripts' learning rates where they are asked for, else tuned."""
    ready, elsewhere = {}, {}
    for name, reading in READINGS.items():
        for method, each in experiments(name, dataset, root, scale.rounds).items():
            ready[name, method] = each
            known = SCRIPTS[dataset].get("CA-Fed" if reading.equal_rates else method.removesuffix(", no oracle"))
            if reading.code and known is not None:
                local, server = known
                training = replace(each.training, learning_rate=local, server_learning_rate=server)
                ready[name, method] = replace(each, training=training)
            else:
                data = Choice(dataset, {**each.data.options, "seed": 43})
                elsewhere[name, method] = [replace(each, name="tuning", seed=42, data=data)]
    grid = {"learning_rate": scale.local, "server_learning_rate": scale.server}
    with progress_bar("tuning", 1) as progress:
        best, _ = tune(elsewhere, grid, out, jobs, progress, criterion="mean accuracy")
    return ready | {cell: replace(ready[cell], training=training) for cell, training in best.items()}


def run_seeds(ready: Mapping[tuple[str, str], Experiment], seeds: Sequence[int], out: Path, jobs: int) -> pd.DataFrame:
    """Run everything under every seed; one row a run, accuracies in per cent."""
    planned = {(*cell, seed): replace(each, seed=seed) for seed in seeds for cell, each in ready.items()}
    rows = []
    for (reading, method, seed), folder in run_grid(planned, out, jobs).items():
        each, summary = planned[reading, method, seed], read_summary(folder)
        curve = 100 * learning_curve(round_table(read_records(folder))).to_numpy()
        rows.append(
            {"reading": reading, "method": method, "seed": seed}
            | {"local rate": each.training.learning_rate, "server rate": each.training.server_learning_rate}
            | {measure: statistic(pd.Series(curve)) for measure, (_, statistic) in MEASURES.items()}
            | {"importance distance": summary["importance_distance"], "folder": folder, "experiment": each}
        )
    return pd.DataFrame(rows)


# -- tables ----------------------------------------------------------------------------------------------------------


def table_one(runs: pd.DataFrame, dataset: str, why: Mapping[tuple[str, ...], str]) -> pd.DataFrame:
    """Table I beside ours; then the distances from Unbiased, paired by seed, which no level of the data moves."""
    ours = runs.melt(["reading", "method", "seed"], list(MEASURES), "measure", "value")
    base = of_baseline(ours, "method", "Unbiased", ["measure", "reading", "seed"])
    beyond = ours.assign(value=ours["value"] - base, measure=ours["measure"] + " - Unbiased's")
    beyond = beyond[beyond["method"] != "Unbiased"]
    paper = {}
    for method, numbers in TABLE_I[dataset].items():
        for measure, (column, _) in MEASURES.items():
            number, least = numbers[column], TABLE_I[dataset]["Unbiased"][column]
            for reading in READINGS:
                paper[measure, reading, method] = number
                if method != "Unbiased":
                    paper[f"{measure} - Unbiased's", reading, method] = number - least
    return weighed(beside_paper(pd.concat([ours, beyond]), paper, ["measure", "reading", "method"], "value", why))


#: Runs that the paper averages.
_RUNS = 3


def weighed(table: pd.DataFrame) -> pd.DataFrame:
    """Verdicts that say no more than they can.

    A level that meets the paper's where Unbiased's does not is no agreement: levels are the draw's. And what is open
    gets the probability of such a distance if the paper's number is a mean of three runs that deviate as ours do
    (Welch's t with our degrees of freedom), which `beside_paper` takes for exact.
    """
    found = table.copy()
    base = found[found["method"] == "Unbiased"].set_index(["measure", "reading"])["verdict"]
    for place, row in table.iterrows():
        if row["verdict"] == "agrees" and base.get((row["measure"], row["reading"]), "") in ("higher", "lower"):
            found.loc[place, ["verdict", "why"]] = "coincides", "Unbiased's level does not: see the distance from it"
        if row["why"].startswith("open"):
            error = row["deviation"] * math.sqrt(1 / _RUNS + 1 / row["seeds"])
            p = 2 * float(student.sf(abs(row["ours"] - row["paper"]) / error, row["seeds"] - 1))
            found.loc[place, "why"] = f"{row['why']}; p = {p:.2f} for means of {_RUNS} and {row['seeds']} runs"
    return found


def reasons(ready: Mapping[tuple[str, str], Experiment]) -> dict[tuple[str, ...], str]:
    """What explains that our numbers are not the table's."""
    why: dict[tuple[str, ...], str] = {}
    for name, reading in READINGS.items():
        if reading.code and not reading.equal_rates:
            adafed = "open: AdaFed's own paper was not to be had"
            why |= {(f"{measure} - Unbiased's", name, "AdaFed"): adafed for measure in MEASURES}
        federation = ready[name, "CA-Fed"].federation()
        if federation.parameters is not None:  # MNIST has no true model
            right = (federation.test.features @ federation.parameters[0] > 0) == federation.test.labels
            text = f"another draw of the data: the model that made the labels has {100 * right.mean():.1f}"
            why[("maximum", name)] = text
            if not reading.code:
                text = "rates tuned for this very average are the grid's largest; the paper's are not given"
            why |= {(measure, name): text for measure in AVERAGES}
        if not reading.code:
            text = "grows with the learning rates, which the paper does not give"
            why |= {(measure, name): text for measure in ("late deviation", "late deviation, running mean")}
        if not reading.code or reading.equal_rates:
            text = "comes with the scripts' learning rates, which differ by method: see 'code'"
            why |= {(f"{measure} - Unbiased's", name, "CA-Fed"): text for measure in MEASURES}
        else:
            for measure, text in ELSEWHERE.items():
                why |= {(measure, name): text, (f"{measure} - Unbiased's", name): text}
        rest = "open"
        if reading.equal_rates:
            rest = "the scripts' learning rates differ by method: see 'code'"
        elif not reading.code:
            rest = "tuned rates take all methods to the best model within few rounds; for the scripts' see 'code'"
        for measure in MEASURES:
            why.setdefault((f"{measure} - Unbiased's", name), rest)
            why.setdefault((measure, name), rest)
    return why


def exclusions(runs: pd.DataFrame) -> pd.DataFrame:
    """Per cent of the rounds it is active in that CA-Fed excludes a client, by class; over all seeds."""
    rows = []
    ca_fed = runs[runs["method"].str.startswith("CA-Fed")]
    for (reading, method), group in ca_fed.groupby(["reading", "method"], sort=False):
        of_client = [classes(each) for each in group["experiment"]]
        states = [activity(read_records(path), len(own)) for path, own in zip(group["folder"], of_client, strict=True)]
        row = {"reading": reading, "method": method}
        for number, name in enumerate(CLASSES):
            own = np.concatenate(states)[np.concatenate(of_client) == number]
            active = int((own > 0).sum())
            row[name.replace("\n", " ")] = 100 * int((own == 1).sum()) / active if active else math.nan
        rows.append(row)
    return pd.DataFrame(rows)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the study; see this file's first lines; return the folder of tables and figures."""
    arguments = study_arguments(__doc__.partition("\n")[0], "ca_fed", ("clustered", "swapped-mnist"), argv)
    out, scale = arguments.out, PAPER if arguments.paper else QUICK
    ready = with_rates(arguments.dataset, arguments.root, scale, out / "runs", arguments.jobs)
    runs = run_seeds(ready, scale.seeds, out / "runs", arguments.jobs)
    table, excluded = table_one(runs, arguments.dataset, reasons(ready)), exclusions(runs)

    rates = runs.groupby(["reading", "method"], sort=False)[["local rate", "server rate", "importance distance"]].mean()
    show(rates.reset_index(), "Learning rates, and total variation between target and realised importance", 4)
    for reading, part in table.groupby("reading", sort=False):
        show(part.drop(columns="reading"), f"Table I ({arguments.dataset}), test accuracy in per cent: {reading}", 2)
    show(excluded, "How often CA-Fed excludes an active client, per cent of its active rounds", 1)
    results = runs.drop(columns=["folder", "experiment"])
    write_tables(out, {"results": results, "table1": table, "exclusions": excluded})
    pictures = {"activity": activity_figure, "importance": importance_figure, "accuracy": accuracy_figure}
    for name, draw in pictures.items():
        print(save_figure(draw(runs), out / f"{name}.png"))
    return out


if __name__ == "__main__":
    run_script(main)
