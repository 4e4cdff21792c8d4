"""CA-Fed's Table I and Figures 1 to 3, as its paper and as its code have them (Rodio et al., INFOCOM 2023).

``--paper`` has the paper's grid of learning rates and the scripts' nine seeds; swapped-mnist is Table I's second
column. The quick plan has the two readings that need no tuning on the synthetic data, "code" and "code, equal rates",
in full. Of four readings:

paper
    What the text says. What it leaves open is as in the authors' scripts: 150 rounds, 2 local epochs, batches of 32
    (MNIST: 64), 12 clients a round for F3AST. Learning rates come from the paper's grid, widened where the best lies on
    its edge: the highest time average of the accuracy on another draw of the data, under another seed; by what the
    authors chose is not said.
code's classes
    The same but for who is there: in the authors' code nobody who is often there is correlated in time.
code
    Data and classes are the authors' own, of their seed 42, and the classes stay under every seed (on swapped-mnist
    the classes are drawn under each, as in "code's classes"). Sizes, momentum,
    weight decay at the server, learning rates, filter and loss minima are the code's too. Not reproduced: selection by
    the clients' *test* loss, and momentum that clients keep between rounds, which fedselect 0.2 had
    (``ca_fed_0_2_results.csv`` in the gallery).
code, equal rates
    The same with CA-Fed's learning rates for all: the scripts let it take steps 3.3 times those of Unbiased.

Table I says neither over which rounds an average goes nor what a deviation is of. The authors' code takes means over
the rounds it logs, after rounds 2, 5, ..., 38 and then every tenth, and draws running means: both statistics stand
beside those over all rounds and of the accuracy itself. The linear model of the synthetic data has one logit.

The data are drawn once, under seed 42; the authors' very numbers are those of "code" on the synthetic data alone. Under
one seed all methods meet the same clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from comparison import baseline_values, beside_paper, published_table
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.experiments.figures import panels_figure
from fedselect.measures import late_deviation, realised_importance
from fedselect.rounds.history import History
from fedselect.training.settings import TrainingSettings
from study import Picture, Rows, Study, Table, curves, main

# -- setting -----------------------------------------------------------------------------------------------------------

#: Local and server learning rates in the authors' scripts, where these have them.
SCRIPTS = {
    "clustered": {"Unbiased": (0.03, 0.03), "F3AST": (0.03, 0.03), "AdaFed": (0.001, 1.0), "CA-Fed": (0.01, 0.3)},
    "swapped-mnist": {"CA-Fed": (0.001, 0.1)},
}


@dataclass(frozen=True)
class Reading:
    """Parts of the setting that are the authors' code's: availability, the rest, one pair of rates for all methods."""

    classes: str
    code: bool = False
    equal_rates: bool = False


READINGS = {
    "paper": Reading(classes="paper"),
    "code's classes": Reading(classes="code"),
    "code": Reading(classes="authors", code=True),
    "code, equal rates": Reading(classes="authors", code=True, equal_rates=True),
}


@dataclass(frozen=True)
class Scale:
    """Amount that is run: rounds, seeds, and the learning rates that are tried."""

    rounds: int
    seeds: tuple[int, ...]
    local: tuple[float, ...]
    server: tuple[float, ...]
    readings: tuple[str, ...] = tuple(READINGS)
    screening: None = None


#: How often a method's grid of rates may grow by half a decade where its best lies on an edge.
WIDENINGS = 4

PAPER = Scale(
    rounds=150,
    seeds=(12, 123, 1234, 12345, 57, 1453, 1927, 1956, 2011),  # the scripts'; the paper averages three runs
    local=(1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1),
    server=(1e-2, 10**-1.5, 1e-1, 10**-0.5, 1.0),
)
#: The tuned readings alone, from the corner of that grid on, where its best rates all are.
CORNER = replace(PAPER, readings=("paper", "code's classes"), local=PAPER.local[-2:], server=PAPER.server[-2:])
QUICK = replace(PAPER, readings=("code", "code, equal rates"))  # those that need no tuning

#: The authors' optimisers where they differ from the paper's text.
CODE_OPTIMISERS = {"momentum": 0.9, "server_momentum": 0.9, "server_weight_decay": 0.01}


def experiments(reading, dataset, root, rounds):
    """Plan the runs of a reading by method, but for seeds and learning rates."""
    code, images = READINGS[reading].code, dataset == "swapped-mnist"
    data = {"samples": 150, "test_samples": 500}
    if images:
        data = {"root": str(root), "swapped": "both" if code else "second", "validation_fraction": 0.0 if code else 0.2}
    elif code:
        data = {"samples": 50, "test_samples": 150, "convention": "authors"}
    authors = {"convention": "code", "beta": 1.0 if images else 0.8} if code else {}
    methods = {
        "Unbiased": Choice("unbiased"),
        "F3AST": Choice("f3ast", {"convention": "ca-fed"}),
        "AdaFed": Choice("adafed"),
        "CA-Fed": Choice("ca-fed", {"oracle": True, **authors}),
        "CA-Fed, no oracle": Choice("ca-fed", authors),  # estimates π and λ (the code: with a prior at the truth)
    }
    base = Experiment(
        name="ca-fed",
        rounds=rounds,
        clients_per_round=12,
        checkpoint_every=25,
        data=Choice(dataset, {"seed": 42, **data}),
        availability=Choice("ca-fed", {"convention": "code" if images and code else READINGS[reading].classes}),
        training=TrainingSettings(
            "linear" if images else "logistic",
            decay=1.0,
            local_epochs=2,
            batch_size=64 if images else 32,
            weight_decay=0.01,
            **(CODE_OPTIMISERS if code else {}),
        ),
    )
    return {method: replace(base, selector=choice) for method, choice in methods.items()}


# -- measures ----------------------------------------------------------------------------------------------------------

#: Table I, in per cent.
TABLE_I = published_table("ca_fed", "Table I, %")

#: What may be meant by the columns of Table I: the column's place, and the statistic of a run's accuracies by round.
MEASURES = {
    "maximum": (0, lambda curve: curve.max()),
    "time average": (1, lambda curve: curve.mean()),
    "time average, logged rounds": (1, lambda curve: curve[logged(curve.size)].mean()),
    "late deviation": (2, lambda curve: late_deviation(curve)),
    "late deviation, running mean": (2, lambda curve: late_deviation(curve.expanding().mean())),
}


#: Where the code's statistic is another one than the obvious.
ELSEWHERE = {
    "time average": "the paper's is of the rounds that the code logs: see 'time average, logged rounds'",
    "late deviation": "the paper's is of the running mean: see 'late deviation, running mean'",
}

AVERAGES = ("time average", "time average, logged rounds")


def logged(rounds):
    """List the rounds, from 0, after which the authors' code logs; it also logs before the first, where all agree."""
    found = [t for t in range(rounds) if t + 1 in range(2, 39, 3) or (t + 1 > 38 and (t + 1) % 10 == 0)]
    return np.array(found, dtype=np.int64)


CLASSES = ("often there,\ncorrelated", "often there", "seldom there,\ncorrelated", "seldom there")


def classes(experiment):
    """Return the class of each client, shape (N,), as an index into `CLASSES`."""
    chains = build_scenario(experiment).availability  # two-state chains, which know more than any availability
    return 2 * (chains.stationary < 0.5) + (chains.correlation < 0.5)


def activity(records, clients):
    """Compute each client's state in each round, shape (N, T): 0 inactive, 1 active but excluded, 2 selected."""
    states = np.zeros((clients, len(records)), dtype=np.int64)
    for t, record in enumerate(records):
        states[record["available"], t] = 1
        states[record["selected"], t] = 2
    return states


def measures(run):
    """Measure one run, accuracies in per cent."""
    training, accuracies = run.experiment.training, 100 * run.curve().reset_index(drop=True)
    return (
        {"local rate": training.learning_rate, "server rate": training.server_learning_rate}
        | {measure: statistic(accuracies) for measure, (_, statistic) in MEASURES.items()}
        | {"importance distance": run.summary()["importance_distance"]}
    )


# -- what is run -------------------------------------------------------------------------------------------------------


def planned(setup):
    """Iterate over (reading, method) with the experiment, and whether the scripts have its learning rates."""
    for name in setup.scale.readings:
        reading = READINGS[name]
        for method, each in experiments(name, setup.dataset, setup.root, setup.scale.rounds).items():
            known = SCRIPTS[setup.dataset].get("CA-Fed" if reading.equal_rates else method.removesuffix(", no oracle"))
            if reading.code and known is not None:
                training = replace(each.training, learning_rate=known[0], server_learning_rate=known[1])
                yield (name, method), replace(each, training=training), True
            else:
                yield (name, method), each, False


def to_tune(setup):
    """Plan the tuning of the others, on another draw of the data."""
    return {
        cell: [replace(each, name="tuning", seed=42, data=Choice(setup.dataset, {**each.data.options, "seed": 43}))]
        for cell, each, known in planned(setup)
        if not known
    }


def tried(trials):
    """Tabulate the rates that were tried, and the criterion: the mean accuracy in per cent."""
    return pd.DataFrame(
        dict(zip(("reading", "method"), trial.label, strict=True))
        | {"local rate": trial.settings["learning_rate"], "server rate": trial.settings["server_learning_rate"]}
        | {"mean accuracy": -100 * trial.value}
        for trial in trials
    )


def grid(setup, tuned):
    """Plan all experiments by (reading, method, seed), at the scripts' learning rates or at tuned ones."""
    ready = {cell: replace(each, training=tuned.get(cell, each.training)) for cell, each, _ in planned(setup)}
    return {(*cell, seed): replace(each, seed=seed) for seed in setup.scale.seeds for cell, each in ready.items()}


# -- tables ------------------------------------------------------------------------------------------------------------


def table_one(runs, dataset, why):
    """Put Table I beside ours; then the distances from Unbiased, paired by seed, which no level of the data moves."""
    ours = runs.melt(["reading", "method", "seed"], list(MEASURES), "measure", "value")
    base = baseline_values(ours, "method", "Unbiased", ["measure", "reading", "seed"])
    beyond = ours.assign(value=ours["value"] - base, measure=ours["measure"] + " - Unbiased's")
    beyond = beyond[beyond["method"] != "Unbiased"]
    paper = {}
    for method, numbers in TABLE_I[dataset].items():
        for measure, (column, _) in MEASURES.items():
            number, least = numbers[column], TABLE_I[dataset]["Unbiased"][column]
            for reading in runs["reading"].unique():
                paper[measure, reading, method] = number
                if method != "Unbiased":
                    paper[f"{measure} - Unbiased's", reading, method] = number - least
    keys = ["measure", "reading", "method"]
    # The paper averages three runs; a quarter of a point is of no account.
    return weighed(beside_paper(pd.concat([ours, beyond]), paper, keys, "value", why, margin=0.25, runs=3))


def weighed(table):
    """Call a level that meets the paper's a coincidence where Unbiased's does not: levels are the draw's."""
    found = table.copy()
    base = found[found["method"] == "Unbiased"].set_index(["measure", "reading"])["verdict"]
    for place, row in table.iterrows():
        if row["verdict"] == "agrees" and base.get((row["measure"], row["reading"]), "") in ("higher", "lower"):
            found.loc[place, ["verdict", "why"]] = "coincides", "Unbiased's level does not: see the distance from it"
    return found


def reasons(runs):
    """Give the reasons why our numbers are not the table's."""
    why = {}
    for name, group in runs.groupby("reading", sort=False):
        reading = READINGS[name]
        if reading.code and not reading.equal_rates:
            adafed = "open: AdaFed's own paper was not to be had"
            why |= {(f"{measure} - Unbiased's", name, "AdaFed"): adafed for measure in MEASURES}
        federation = group["run"].iloc[0].experiment.federation()  # the same for all methods
        if federation.parameters is not None:  # MNIST has no true model
            right = (federation.test.features @ federation.parameters[0] > 0) == federation.test.labels
            text = f"the paper's data are another draw: the model that made these labels has {100 * right.mean():.1f}"
            why[("maximum", name)] = text
            if not reading.code:
                text = "rates tuned for this very average; the paper's are not given"
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


def exclusion_rows(runs):
    """Count the rounds of each class's clients in which CA-Fed has them available, and excludes them, in each run."""
    rows = []
    for run, labels in zip(runs["run"], runs[["reading", "method", "seed"]].to_dict("records"), strict=True):
        if not labels["method"].startswith("CA-Fed"):
            continue
        of_client = classes(run.experiment)
        states = activity(run.records(), len(of_client))
        for number, name in enumerate(CLASSES):
            own = states[of_client == number]
            counts = {"active": int((own > 0).sum()), "excluded": int((own == 1).sum())}
            rows.append(labels | {"class": name.replace("\n", " ")} | counts)
    return pd.DataFrame(rows)


def exclusions(rows):
    """Compute the share (per cent) of its active rounds in which CA-Fed excludes a client, by class; over all seeds."""
    sums = rows.groupby(["reading", "method", "class"], sort=False)[["active", "excluded"]].sum()
    shares = 100 * sums["excluded"] / sums["active"].where(sums["active"] > 0)
    return shares.unstack("class", sort=False).rename_axis(columns=None).reset_index()


# -- figures -----------------------------------------------------------------------------------------------------------

_STYLES = {
    "Unbiased": ("#000000", ":", "o"),
    "F3AST": ("#E69F00", "-.", "s"),
    "AdaFed": ("#56B4E9", "--", "^"),
    "CA-Fed": ("#D55E00", "-", "D"),
}


def of_first_seed(runs, reading, method):
    """Read a method's first run in a reading: its records, and its clients' classes."""
    run = runs[(runs["reading"] == reading) & (runs["method"] == method)].iloc[0]["run"]
    return run.records(), classes(run.experiment)


def activity_figure(runs):
    """Draw Figure 1: when each client is inactive, active but excluded by CA-Fed, or selected; one run."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    shown = [reading for reading in ("paper", "code") if (runs["reading"] == reading).any()]
    for axis, reading in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        records, of_client = of_first_seed(runs, reading, "CA-Fed")
        states = activity(records, of_client.size)[np.argsort(of_client, kind="stable")]
        colours = ListedColormap(["white", "#E07050", "black"])
        axis.imshow(states, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="none")
        _mark_classes(axis.set_yticks, axis.axhline, of_client)
        axis.set(title=f"reading: {reading}", xlabel="round (white: inactive, red: excluded, black: selected)")
    return figure


def importance_figure(runs):
    """Draw Figure 2: the share of each client in all applied weights, beside the target; one run."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    shown = [reading for reading in ("paper", "code") if (runs["reading"] == reading).any()]
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axis, reading in zip(axes, shown, strict=True):
        for method, (colour, _, marker) in _STYLES.items():
            records, of_client = of_first_seed(runs, reading, method)
            share = realised_importance(History.from_records(records, of_client.size))
            order = np.argsort(of_client, kind="stable")
            axis.plot(share[order], marker, color=colour, label=method, markersize=4, fillstyle="none")
        axis.axhline(1 / of_client.size, color="grey", linewidth=0.8)
        _mark_classes(axis.set_xticks, axis.axvline, of_client)
        axis.set(title=f"reading: {reading} (grey: target importance)")
    axes[0].set(ylabel="realised importance")
    axes[0].legend()
    return figure


def accuracy_figure(runs):
    """Draw Figure 3: time average of the test accuracy up to each round, mean over seeds."""
    shown = runs[runs["method"].isin(_STYLES)]
    shown = shown.assign(reading="reading: " + shown["reading"])
    panels = curves(shown, "reading", "method", lambda run: 100 * run.curve().expanding().mean())
    return panels_figure(panels, _STYLES, "mean accuracy so far, %", size=(11, 3), sharey=False)


def _mark_classes(ticks, line, of_client):
    """Name the classes along an axis of clients in class order, with lines between them."""
    ends = np.cumsum(np.bincount(of_client, minlength=len(CLASSES)))
    starts = np.concatenate(([0], ends[:-1]))
    there = ends > starts
    ticks((starts + ends)[there] / 2 - 0.5, np.array(CLASSES)[there])
    for end in ends[there][:-1]:
        line(end - 0.5, color="grey", linewidth=0.6)


def results(setup):
    """Yield Table I, the exclusions and Figures 1 to 3."""
    tuned, trials = setup.tuned(to_tune(setup), "mean accuracy", widenings=WIDENINGS)
    if trials:
        yield Rows(tried(trials), "tuning")
    runs = setup.runs("runs", ("reading", "method", "seed"), grid(setup, tuned), measures)
    table = table_one(runs, setup.dataset, reasons(runs))

    rates = runs.groupby(["reading", "method"], sort=False)[["local rate", "server rate", "importance distance"]].mean()
    title = "Learning rates, and total variation between target and realised importance"
    yield Table(rates.reset_index(), title, digits=4)
    for reading, part in table.groupby("reading", sort=False):
        title = f"Table I ({setup.dataset}), test accuracy in per cent: {reading}"
        yield Table(part.drop(columns="reading"), title, digits=2)
    title = "How often CA-Fed excludes an active client, per cent of its active rounds"
    excluded = exclusion_rows(runs)
    yield Table(exclusions(excluded), title, "exclusions", 1)
    yield Rows(excluded, "exclusions")
    yield Table(runs, file="results")
    yield Table(table, file="table1")
    pictures = {"activity": activity_figure, "importance": importance_figure, "accuracy": accuracy_figure}
    for name, draw in pictures.items():
        yield Picture(draw(runs), name, dpi=150)


STUDY = Study(__doc__, QUICK, PAPER, results, ("clustered", "swapped-mnist"), {"corner": CORNER})


if __name__ == "__main__":
    main(STUDY)
