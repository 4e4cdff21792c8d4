"""E3CS (Huang et al., IEEE IoT-J 2022): Figs. 3 and 4, Tables II and III, with the paper's draw and with exact ones.

100 clients in four classes return with probability 0.1, 0.3, 0.6 and 0.9; 20 are drawn a round. First the seven
schemes select for 2 500 rounds (quick: 1 000; Figs. 3 and 4): nothing is trained, except for pow-d, which looks at
losses. Then they train. The paper draws by torch.multinomial and takes the probabilities it passes for inclusion
probabilities; they are not (``successive`` below). ``madow`` and ``dep-round`` keep them exactly, so E3CS is shown with
all three.

The paper prints its figures without numbers. What stands beside ours there is what its setting implies: the limit that
a scheme approaches when all that the quota leaves goes to the most reliable class, and, for E3CS, that clients
return as often as their probabilities promise (Eq. 9). Whether a client returns is drawn anew in every round, as the
paper says; a public implementation by others draws it once for the whole run, where E3CS-0 comes near 1.

Without the paper's data (``--dataset emnist-letters``), training is on scikit-learn's digits, all of it a tenth: 50
samples a client instead of 500, batches of 4 instead of 40, so that clients take as many steps. Then orders and
speed-ups compare, not rounds. 100 clients of 50 samples share 1 437 digits 3.5-fold, so that their losses do not tell
which trained: pow-d is another scheme on them. ``--dataset letters`` has 500 samples a client of 50 000 letters that
fonts drew, in 26 classes.

``--plan draws`` trains one scheme with both draws on thirty seeds, and nothing else (``plans/e3cs.md``).

The paper does not give pow-d's d; 30 is taken, with which its order of fairness holds (with 50 it does not under
the paper's draw).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import kendalltau

import letters  # noqa: F401  (registers the data set)
from comparison import baseline_values, beside_paper, holm, long_form, published_cells, stacked
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.experiments.figures import panels_figure
from fedselect.measures import jain_index, rounds_to, success_ratio
from fedselect.rounds.history import History
from fedselect.statistics import FEWEST, compare_means, half_width
from fedselect.training.settings import TrainingSettings
from study import Picture, Rows, Study, Table, curves, main, select_without_training

# -- setting -----------------------------------------------------------------------------------------------------------

CLIENTS, SIZE, RATES = 100, 20, (0.1, 0.3, 0.6, 0.9)
DRAWS = ("successive", "madow", "dep-round")
QUOTAS = {"E3CS-0": 0.0, "E3CS-0.5": 0.5, "E3CS-0.8": 0.8, "E3CS-inc": "incremental"}
BASELINES = {
    "Random": Choice("uniform", {"aggregation": "deadline"}),
    "FedCS": Choice("fedcs"),
    "pow-d": Choice("power-of-choice", {"candidates": 30, "aggregation": "deadline"}),
}
SCHEMES = (*QUOTAS, *BASELINES)

#: Rounds to three accuracies and the final accuracy (%), each iid and non-iid.
TABLES = {"emnist-letters": "Table II", "cifar10": "Table III"}
SCHEDULES = {"A": 0.0, "P": 0.5}  # FedAvg and FedProx, by their proximal coefficient


@dataclass(frozen=True)
class Task:
    """Training on a data set: paper's table, target accuracies, rounds, data, model."""

    published: str
    accuracies: tuple[int, int, int]
    rounds: int
    data: Mapping[str, Any]
    model: str
    batch: int


FILES = {"samples": 500, "validation_fraction": 0.1}
TASKS = {
    "digits": Task("emnist-letters", (65, 75, 85), 400, {"samples": 50}, "mlp", 4),
    "letters": Task("emnist-letters", (65, 75, 85), 400, FILES, "mlp", 40),
    "emnist-letters": Task("emnist-letters", (65, 75, 85), 400, FILES, "cnn-emnist", 40),
    "cifar10": Task("cifar10", (45, 55, 65), 2500, FILES, "cnn-cifar", 40),
}


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    selections: int  # rounds of Figs. 3 and 4
    selection_seeds: int
    training_share: float  # of the task's rounds
    training_seeds: int
    updates: tuple[str, ...]
    candidates: tuple[int, ...]  # pow-d's d, which the paper does not give, in Figs. 3 and 4


QUICK = Scale(1000, 4, 0.5, 2, ("A",), (30,))
PAPER = Scale(2500, 10, 1.0, 3, ("A", "P"), (30, 50, 70))


@dataclass(frozen=True)
class Draws:
    """A scheme that is trained with the exact draw and with the paper's, and the margin in points of accuracy."""

    scheme: str
    rounds: int
    seeds: tuple[int, ...]
    margin: float


BOTH_DRAWS = Draws("E3CS-0.5", 400, tuple(range(100, 130)), 0.44)

#: Colour and dashes of each scheme's curve.
STYLES = {
    "FedCS": ("black", ":"),
    "E3CS-0": ("#D55E00", "-"),
    "E3CS-0.5": ("#0072B2", (0, (6, 1))),
    "E3CS-inc": ("#CC79A7", "-."),
    "E3CS-0.8": ("#009E73", (0, (3, 1))),
    "Random": ("black", "--"),
    "pow-d": ("0.5", "-"),
}


def selector(scheme, draw):
    """Return the registered selector of a scheme."""
    return Choice("e3cs", {"quota": QUOTAS[scheme], "draw": draw}) if scheme in QUOTAS else BASELINES[scheme]


def pairs(draws):
    """Iterate over every scheme with every draw; a baseline has its own only."""
    for scheme in SCHEMES:
        yield from ((scheme, draw) for draw in draws) if scheme in QUOTAS else [(scheme, "")]


def experiment(dataset, root, partition, seed=0, update="A", size=SIZE, **more):
    """Build a training run in the paper's setting; data are dealt anew under every seed (FedCS keeps to k clients)."""
    task = TASKS[dataset]
    data = {**task.data, "partition": {"iid": "iid-draws", "non-iid": "primary-label"}[partition]}
    if dataset not in ("digits", "letters"):
        data["root"] = str(root)
    if seed:  # 0 is the default
        data["seed"] = seed
    return Experiment(
        seed=seed,
        clients_per_round=size,
        checkpoint_every=50,
        data=Choice(dataset, data),
        dropout=Choice("success-classes"),
        training=TrainingSettings(
            model=task.model,
            learning_rate=0.01,
            decay=1.0,
            momentum=0.9,
            local_epochs=[1, 2, 3, 4],
            batch_size=task.batch,
            proximal=SCHEDULES[update],
        ),
        **more,
    )


# -- selection: what is run --------------------------------------------------------------------------------------------


def selected(scheme, draw, rounds, seed):
    """Compute counts, success ratio after each round, and the ratio that p promised in it (Eq. 9), without training."""
    dropout = Choice("success-classes")  # 100 clients of digits; nothing looks at their data
    scenario = build_scenario(Experiment(rounds=rounds, seed=seed, clients_per_round=SIZE, dropout=dropout))
    played = list(select_without_training(scenario, selector(scheme, draw), sizes=[1] * CLIENTS))
    decisions = [(each.selection.solution, scenario.dropout.rates(each.round)) for each in played]
    solved = [(solution.x, rates) for solution, rates in decisions if solution is not None]
    promised = [float(np.asarray(p) @ rates) / SIZE for p, rates in solved]
    return _watched(History.collect(played, CLIENTS), np.array(promised))


def _watched(history, promised):
    return {"counts": history.counts, "ratio": success_ratio(history), "promised": promised}


def selection_grid(setup):
    """Plan what is behind Figs. 3 and 4 by scheme, draw and seed."""
    return {
        (scheme, draw, seed): (scheme, draw, setup.scale.selections, seed)
        for seed in range(setup.scale.selection_seeds)
        for scheme, draw in pairs(DRAWS)
        if scheme != "pow-d"
    }


def losses_grid(setup):
    """Plan the same for pow-d, which looks at losses and so has to train, by its d."""
    return {
        ("pow-d", f"d = {d}", seed): experiment(
            setup.dataset,
            setup.root,
            "non-iid",
            seed,
            name="pow-d",
            rounds=setup.scale.selections,
            selector=Choice("power-of-choice", {"candidates": d, "aggregation": "deadline"}),
        )
        for seed in range(setup.scale.training_seeds)
        for d in setup.scale.candidates
    }


def watched_run(run):
    """Measure the counts and the success ratio of a run that was trained."""
    return _watched(History.from_records(run.records(), CLIENTS), np.empty(0))


LABELS = ("scheme", "draw", "seed")


def selections(setup):
    """Collect all that is behind Figs. 3 and 4: one dictionary per run."""
    parts = setup.parts("selections", selected, selection_grid(setup), ".npz")
    played = [dict(zip(LABELS, key, strict=True)) | each for key, each in parts.items()]
    trained = setup.runs("pow-d, which has to train", LABELS, losses_grid(setup), watched_run)
    return played + trained.drop(columns="run").to_dict("records")


# -- selection: tables -------------------------------------------------------------------------------------------------

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


def limits():
    """Compute the success ratios when all that the quota leaves goes to the best class."""
    mean, best = float(np.mean(RATES)), max(RATES)
    uniform_share = {scheme: 0.75 if isinstance(quota, str) else quota for scheme, quota in QUOTAS.items()}
    found = {(scheme, draw): c * mean + (1 - c) * best for scheme, c in uniform_share.items() for draw in DRAWS}
    return found | {("Random", ""): mean, ("FedCS", ""): best}


def selection_rows(runs):
    """Measure the runs: one row per run and measure."""
    rows = []
    for run in runs:
        ratio, counts = run["ratio"], run["counts"]
        values = {"success ratio": ratio[-1], "effective participation": ratio[-1] * len(ratio) * SIZE}
        values |= {f"success ratio at {r}": ratio[r - 1] for r in (100, len(ratio) // 4) if r <= len(ratio)}
        of_class = dict(zip(RATES, counts.reshape(len(RATES), -1), strict=True))
        values |= {f"mean count, class {c}": v.mean() for c, v in of_class.items()}
        values |= {f"median count, class {c}": np.median(v) for c, v in of_class.items()}
        values["Jain index of counts"] = jain_index(counts)
        if run["promised"].size:
            # E3CS-0 keeps some poor clients: one lucky return at small p caps them, and capped weights are frozen.
            poor = np.concatenate(list(of_class.values())[:-1])
            values["poor clients selected in a fifth of the rounds"] = (poor > len(ratio) / 5).sum()
            values["success beyond the promised"] = ratio[-1] - run["promised"].mean()
        key = {"part": "selection", "scheme": run["scheme"], "draw": run["draw"], "seed": run["seed"]}
        rows += [key | {"measure": measure, "value": float(value)} for measure, value in values.items()]
    return pd.DataFrame(rows)


def count_table(rows):
    """Put Fig. 3 in numbers: mean count of each class (median in brackets), and the fairness index."""
    means = rows.groupby(["scheme", "draw", "measure"], sort=False)["value"].mean().unstack("measure")
    table = pd.DataFrame(index=means.index)
    for c in RATES:
        pair = means[[f"mean count, class {c}", f"median count, class {c}"]].to_numpy()
        table[f"class {c}"] = [f"{mean:.0f} ({median:.0f})" for mean, median in pair]
    table["Jain index"] = means["Jain index of counts"]
    table["poor favourites"] = means["poor clients selected in a fifth of the rounds"]
    return table.reset_index()


def fairness(rows):
    """Compare the order of fairness that the paper reads off Fig. 3, by Jain's index, for each draw and d of pow-d."""
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


# -- selection: figures ------------------------------------------------------------------------------------------------

POW_D = f"d = {BASELINES['pow-d'].options['candidates']}"


def counts_figure(runs):
    """Draw Fig. 3: how often each class's clients were selected; E3CS with the paper's draw and with an exact one."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    for axis, scheme in zip(axes, SCHEMES, strict=False):
        draws = DRAWS[:2] if scheme in QUOTAS else [POW_D if scheme == "pow-d" else ""]
        for draw, colour, shift in zip(draws, ("white", "0.55"), (-0.19, 0.19), strict=False):
            mine = [run["counts"] for run in runs if (run["scheme"], run["draw"]) == (scheme, draw)]
            mine = [counts.reshape(len(RATES), -1) for counts in mine]
            places = np.arange(len(RATES)) + (shift if len(draws) > 1 else 0)
            look = {"boxprops": {"facecolor": colour}, "medianprops": {"color": "black"}, "widths": 0.32}
            look |= {"flierprops": {"marker": ".", "markersize": 2}, "patch_artist": True, "manage_ticks": False}
            boxes = axis.boxplot(list(np.concatenate(mine, axis=1)), positions=places, **look)
            boxes["boxes"][0].set_label(draw)
        axis.set(title=f"pow-d, {POW_D}" if scheme == "pow-d" else scheme)
        axis.set_xticks(range(len(RATES)), [str(rate) for rate in RATES])
    axes[0].legend()
    axes[-1].axis("off")
    figure.supxlabel("class of clients, by the probability to return", fontsize=9)
    figure.supylabel("times selected", fontsize=9)
    return figure


def success_figure(runs):
    """Draw Fig. 4: success ratio and cumulative effective participation; exact draws thick, the paper's thin."""
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
    axes[0].set(ylabel="success ratio")
    axes[1].set(ylabel="effective participation (thousands)")
    for axis in axes:
        axis.set(xlabel="round")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


# -- training: what is run ---------------------------------------------------------------------------------------------


TRAINING = ("update", "partition", "scheme", "draw", "seed")


def training_grid(setup):
    """Plan the training of every scheme by update, partition, scheme, draw and seed."""
    rounds = max(1, round(TASKS[setup.dataset].rounds * setup.scale.training_share))
    grid = {}
    for seed in range(setup.scale.training_seeds):
        for update in setup.scale.updates:
            for partition in ("iid", "non-iid"):
                for scheme, draw in pairs(DRAWS[:2] if update == "A" else DRAWS[:1]):
                    changes = {"name": f"{partition}-{update}", "rounds": rounds}
                    changes["selector"] = selector(scheme, draw)
                    each = experiment(setup.dataset, setup.root, partition, seed, update, **changes)
                    grid[update, partition, scheme, draw, seed] = each
    return grid


def measures(run):
    """Measure a trained run: rounds to the accuracies, final accuracy, success ratio."""
    table, end, accuracies = run.rounds(), run.summary(), TASKS[run.experiment.data.name].accuracies
    values = {f"rounds to {a} %": rounds_to(table, a / 100) for a in accuracies}
    return values | {"final accuracy": 100 * end["final_accuracy"], "success ratio": end["success_ratio"]}


# -- training: tables --------------------------------------------------------------------------------------------------

WHY_ORDER = {
    "iid": "clients share samples 3.5-fold, so that losses do not follow who trained, and pow-d is quick; see letters",
    "non-iid": "pow-d as in iid, more so; FedCS keeps to 20 clients, whose main labels leave some of ten out",
}  # on digits


def why_training(dataset):
    """Give the reason why trained numbers differ."""
    if dataset == "digits":
        return "digits and one hidden layer instead of letters and a CNN: the order compares, the size does not"
    if dataset == "letters":
        return "letters that fonts drew and one hidden layer instead of handwriting and a CNN"
    return "evaluation, normalisation, pooling and pow-d's d are not stated in the paper"


def published(dataset):
    """Read the paper's table: (update, partition, scheme, measure) -> number."""
    cells = published_cells("e3cs", TABLES[TASKS[dataset].published]).items()
    return {(*group.split(", "), scheme, measure): value for (group, scheme, measure), value in cells}


#: Differences of no account: of a success ratio, of a speed-up, of an accuracy in points, of rounds.
SAME_RATIO, SAME_SPEED_UP, SAME_ACCURACY, SAME_ROUNDS = 0.005, 0.1, 1.0, 10.0


def same_training(cell):
    """Return the margin of a cell of the training tables, by its measure."""
    if "accuracy" in cell[-1]:
        return SAME_ACCURACY
    return SAME_SPEED_UP if cell[-1].startswith("speed-up") else SAME_ROUNDS


def against_random(rows, horizon=math.nan):
    """Compute speed-ups over Random, and accuracy above Random's, each within its seed.

    A run that never gets there counts as ``horizon`` rounds, which is less than it would need.
    """
    cell = ["update", "partition", "seed", "measure"]
    rows = rows[rows["measure"] != "success ratio"]
    is_rounds = rows["measure"].str.startswith("rounds")
    rows = rows.assign(value=rows["value"].where(~is_rounds | rows["value"].notna(), horizon))
    theirs = baseline_values(rows, "scheme", "Random", cell)
    return rows.assign(
        value=np.where(is_rounds, theirs / rows["value"], rows["value"] - theirs),
        measure=np.where(is_rounds, "speed-up" + rows["measure"].str[6:], "accuracy above Random's"),
    )


def beside(rows, dataset, relative, horizon=math.nan):
    """Put the paper's table beside ours; its E3CS is the one with the successive draw."""
    keys = ["update", "partition", "scheme", "draw", "measure"]
    paper = pd.DataFrame(
        [(*key[:3], "successive" if key[2] in QUOTAS else "", key[3], 0, v) for key, v in published(dataset).items()],
        columns=[*keys, "seed", "value"],
    )
    paper = paper[paper["update"].isin(rows["update"]) & paper["scheme"].isin(rows["scheme"])]
    ours, theirs = (against_random(rows, horizon), against_random(paper)) if relative else (rows, paper)
    if relative:  # Random against itself says nothing
        ours, theirs = (each[each["scheme"] != "Random"] for each in (ours, theirs))
    else:
        ours = ours[ours["measure"] != "success ratio"]
    numbers = theirs.set_index(keys)["value"].to_dict()
    return beside_paper(ours, numbers, keys, "value", {(): why_training(dataset)}, margin=same_training, runs=1)


def wide(table):
    """Reshape it to one column per measure: our mean, and the paper's number in brackets."""
    text = [
        f"{ours:.2f}" + ("" if np.isnan(paper) else f" ({paper:.2f})")
        for ours, paper in zip(table["ours"], table["paper"], strict=True)
    ]
    wide = table.assign(text=text).set_index(["update", "partition", "scheme", "draw", "measure"])["text"]
    return wide.unstack("measure", sort=False).reset_index()


def orders(rows, dataset, horizon=math.inf):
    """Compare the order of the seven schemes with the paper's, for every column of its table.

    A run that never gets there counts as ``horizon`` rounds. Of so many orders some agree by chance: what is called
    "agrees" or "reversed" does so after Holm's adjustment for all columns. With fewer than three seeds nothing does.
    """
    theirs, reasons = published(dataset), WHY_ORDER if dataset == "digits" else {}
    rows = rows[rows["draw"].isin(("successive", "")) & (rows["measure"] != "success ratio")]
    found = []
    for cell, part in rows.groupby(["update", "partition", "measure"], sort=False):
        # Where no seed gets there, the scheme comes last.
        slow = cell[2].startswith("rounds")
        ours = part.groupby("scheme", sort=False)["value"].apply(
            lambda v: np.inf if v.isna().all() else v.fillna(horizon).mean()
        )
        paper = pd.Series({s: theirs[(*cell[:2], s, cell[2])] for s in ours.index}).fillna(np.inf)
        tau, chance = kendalltau(paper.rank(), ours.rank())
        others = [scheme for scheme in ours.index if scheme != "pow-d"]
        theirs_first, ours_first = (" > ".join(each.sort_values(ascending=slow).index) for each in (paper, ours))
        found.append(
            dict(zip(("update", "partition", "measure"), cell, strict=True))
            | {"paper's order": theirs_first, "our order": ours_first, "tau": float(tau)}
            | {"without pow-d": float(kendalltau(paper[others].rank(), ours[others].rank()).statistic)}
            | {"p": float(chance)}
        )
    table = pd.DataFrame(found)
    table["adjusted"] = holm(table["p"])
    clear = table["adjusted"] < 0.05
    table["verdict"] = np.where(~clear, "not beyond chance", np.where(table["tau"] > 0, "agrees", "reversed"))
    if rows["seed"].nunique() < FEWEST:
        table["verdict"] = "too few"
    why = [reasons.get(partition, "unexplained") for partition in table["partition"]]
    return table.assign(why=np.where(table["verdict"] == "agrees", "", why))


def exact_minus_successive(rows):
    """Compute what an exact draw changes, paired by seed: mean difference and half its 95 % confidence interval."""
    both = rows[rows["draw"].isin(("successive", "madow")) & (rows["update"] == "A")]
    keys = ["partition", "scheme", "measure"]
    wide = both.pivot_table(index=[*keys, "seed"], columns="draw", values="value", sort=False)
    change = (wide["madow"] - wide["successive"]).groupby(keys, sort=False)
    text = change.apply(lambda each: f"{each.mean():+.3f} ± {half_width(each):.3f}")
    return text.unstack("measure", sort=False).reset_index()


# -- training: figures -------------------------------------------------------------------------------------------------


def accuracy_figure(runs):
    """Draw Figs. 5 and 6: test accuracy of every scheme, means over seeds, the paper's draw; (c, d) with FedProx."""
    shown = runs[runs["draw"].isin(("successive", ""))]
    shown = shown.assign(panel=shown["partition"] + " (" + shown["update"] + ")")
    panels = curves(shown, "panel", "scheme")
    return panels_figure(panels, STYLES, "test accuracy", size=(4.5 * len(panels), 3.6))


# -- exact draw: on more seeds -----------------------------------------------------------------------------------------

DRAWN = ("partition", "draw", "seed")


def draws_grid(setup):
    """Plan the training with both draws by partition, draw and seed."""
    scale = setup.scale
    return {
        (partition, draw, seed): experiment(
            setup.dataset,
            setup.root,
            partition,
            seed,
            name=partition,
            rounds=scale.rounds,
            selector=selector(scale.scheme, draw),
        )
        for seed in scale.seeds
        for partition in ("iid", "non-iid")
        for draw in DRAWS[:2]
    }


def late_measures(run):
    """Measure the accuracy (%) of the last tenth of the rounds, of the last and of all, and the success ratio."""
    curve, end = 100 * run.curve(), run.summary()
    late = curve[curve.index > 0.9 * run.experiment.rounds].mean()
    values = {"late accuracy": late, "final accuracy": 100 * end["final_accuracy"], "mean accuracy": curve.mean()}
    return values | {"success ratio": end["success_ratio"]}


def draw_effects(runs, margin):
    """Test the exact draw less the paper's, paired by seed; the late accuracy is the primary outcome."""
    rows = []
    for measure in runs.columns.drop([*DRAWN, "run"], errors="ignore"):
        for partition, part in runs.groupby("partition", sort=False):
            by_draw = part.pivot(index="seed", columns="draw", values=measure)
            change = by_draw["madow"] - by_draw["successive"]
            test = compare_means(change, margin=margin)
            rows.append(
                {"partition": partition, "measure": measure, "exact": by_draw["madow"].mean()}
                | {"paper's draw": by_draw["successive"].mean(), "difference": test.difference, "+-": test.half}
                | {"seeds": test.n, "p": test.p, "same": test.p_equivalent}
            )
    table = pd.DataFrame(rows)
    first = table["measure"] == "late accuracy"
    table["adjusted"] = holm(table["p"].where(first))
    table["same"] = table["same"].where(first)  # the margin is the late accuracy's
    is_clear = (table["adjusted"] < 0.05) & (table["difference"].abs() >= margin)
    said = table["same"].lt(0.05).map({True: "the same", False: "not known"})
    said = said.mask(is_clear, table["difference"].gt(0).map({True: "exact ahead", False: "exact behind"}))
    table["verdict"] = said.mask(table["seeds"] < FEWEST, "too few").where(first, "")
    return table.assign(margin=np.where(first, margin, np.nan))


def draw_results(setup):
    """Yield the rows, and what an exact draw changes."""
    runs = setup.runs("both draws", DRAWN, draws_grid(setup), late_measures)
    yield Rows(runs, "runs")
    title = f"{setup.scale.scheme}: exact draw less the paper's, paired by seed"
    yield Table(draw_effects(runs, setup.scale.margin), title, "effects")


# -- results -----------------------------------------------------------------------------------------------------------


def results(setup):
    """Yield the tables and figures of both."""
    if isinstance(setup.scale, Draws):
        yield from draw_results(setup)
        return
    scale, dataset, task = setup.scale, setup.dataset, TASKS[setup.dataset]
    experiment(dataset, setup.root, "iid").federation()  # missing files are noticed now, not later

    runs = selections(setup)
    chosen = selection_rows(runs)
    ratio = chosen[chosen["measure"] == "success ratio"]
    beyond = chosen[chosen["measure"] == "success beyond the promised"]
    cell, kept_promise = ["scheme", "draw"], {pair: 0.0 for pair in pairs(DRAWS) if pair[0] in QUOTAS}
    tables = {
        "Fig. 4: success ratio at the end, against its limit": beside_paper(
            ratio, limits(), cell, "value", WHY_LIMIT, margin=SAME_RATIO, runs=None
        ),
        "Success ratio minus what p promised, which the paper takes for 0": beside_paper(
            beyond, kept_promise, cell, "value", WHY_PROMISE, margin=SAME_RATIO, runs=None
        ),
    }
    title = f"Fig. 3: times selected in {scale.selections} rounds, mean (median) over a class"
    yield Table(count_table(chosen), title, "counts")
    yield Table(fairness(chosen), "Order of fairness: Jain's index of the counts", "fairness")
    for title, table in tables.items():
        yield Table(table, title, digits=4)

    trained_runs = setup.runs("training", TRAINING, training_grid(setup), measures)
    trained = long_form(trained_runs, TRAINING, part="training")
    horizon = max(run.experiment.rounds for run in trained_runs["run"])
    compared = {
        f"Training on {dataset}, against Random; the paper's on {task.published}": beside(
            trained, dataset, True, horizon
        )
    }
    if dataset == task.published:
        compared[f"Training on {dataset}: rounds and accuracy"] = beside(trained, dataset, False)
    for title, table in compared.items():
        yield Table(wide(table), f"{title}; ours (the paper's)")
    yield why_training(dataset) + "\n"
    title = "Order of the seven schemes, E3CS with the paper's draw, by Kendall's tau"
    yield Table(orders(trained, dataset, horizon), f"{title}; the paper's on {task.published}", "orders", 2)
    title = "Exact draw minus the paper's draw, paired by seed, ± half the 95 % interval"
    yield Table(exact_minus_successive(trained), title, "exact-draws")

    yield Rows(pd.concat([chosen, trained]), "results")
    both = tables | compared
    yield Table(stacked(both), file="beside-paper")
    yield Table(pd.concat(map(wide, compared.values())), file="training")
    yield Picture(counts_figure(runs), "selections")
    yield Picture(success_figure(runs), "success-ratio")
    yield Picture(accuracy_figure(trained_runs), "accuracy")


STUDY = Study(__doc__, QUICK, PAPER, results, tuple(TASKS), {"draws": BOTH_DRAWS})


if __name__ == "__main__":
    main(STUDY)
