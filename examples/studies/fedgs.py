"""FedGS (Wang et al., AAAI 2023): Table 2, Figs. 4 and 5 and Table 3, the paper's numbers beside ours.

The default is the paper's Synthetic(0.5, 0.5) with its 30 clients, whose data are generated; Fig. 4's counts and Table
3's graphs are then those of scikit-learn's digits, split as the paper splits FashionMNIST (two labels each) and CIFAR10
(Dirichlet). With the files of either, ``--dataset`` runs all three on it.

The paper does not say how many clients a round selects (M), for how many rounds (T), or the β of most availability
modes, and its appendix is not to be had. Assumed here: M = 6 of 30 (the share in the authors' code, 0.2) and 10 of 100;
β = 0.5 for LN and SLN, 0.7 for LDF and MDF (on CIFAR10 0.9), 0.9 for YMF and YC (their plot
configurations). Synthetic(0.5, 0.5) names a distribution, and its draw sets the level of all losses: the table is of
the authors' own draw (``convention = "code"``, seed 0), and ``--paper`` runs M = 10 as well, under the first seed
alone.

Four readings of Table 2 were chosen because they fit its cells on Synthetic, so that these cells are no test of
them: M = 6; T = 1 000 (their plot configuration has T = 300, which leaves every loss above the table's); MD sampling in
which a client counts once however often it is drawn; and FedProx among all clients, the absent dropped. The published
code draws FedProx's clients among the available; the paper's variant (``nfedprox_mu0.01``) is not published. Both stand
in the table, as do both ways to count. What was not fitted would be the columns of CIFAR-10 and FashionMNIST. What can
be held out on Synthetic is a mode of availability at a time: the reading that fits the other modes best is judged by
the mode left out, under the first seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import baseline_values, beside_paper, by_cell, holm, published_cells
from fedselect.availability import ideal
from fedselect.data import Samples, load_data
from fedselect.embeddings import client_embeddings
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.experiments.figures import panels_figure
from fedselect.rounds.history import History
from fedselect.selectors import SelectAll
from fedselect.statistics import compare_means
from fedselect.training.settings import TrainingSettings
from graphs import dependency_graph, edge_scores, similarity
from study import Picture, Rows, Study, Table, curves, main, select_without_training

#: Test losses by (mode, method).
Losses = Mapping[tuple[str, str], float]

# -- setting -----------------------------------------------------------------------------------------------------------

DIGITS = {
    "two labels": Choice("digits", {"partition": "two-label"}),
    "Dirichlet": Choice("digits", {"partition": "dirichlet-unequal"}),
}


@dataclass(frozen=True)
class Setting:
    """Setting of a data set: the paper's, and assumptions where it is silent."""

    data: Choice
    training: TrainingSettings
    rounds: int
    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    beta: float
    features: str = "labels"
    graphs: Mapping[str, Choice] = field(default_factory=lambda: DIGITS)


def settings(root):
    """Return the settings by data set; files are looked for below ``root``."""
    images = {"root": str(root), "validation_fraction": 0.2}
    fashion = Choice("fashion-mnist", {"partition": "two-label", **images})
    cifar = Choice("cifar10", {"partition": "dirichlet-unequal", **images})
    small, five = TrainingSettings(), ("IDL", "LN", "SLN", "LDF", "MDF")
    of_fashion = TrainingSettings("cnn-fashion", batch_size=32)
    drawn = Choice("synthetic", {"convention": "code"})
    of_cifar = TrainingSettings("cnn-cifar", learning_rate=0.03, batch_size=32)
    return {
        "synthetic": Setting(drawn, small, 1000, (6, 10), five, 0.7, "parameters"),
        "digits": Setting(DIGITS["Dirichlet"], small, 300, (10,), five, 0.7),
        "cifar10": Setting(cifar, of_cifar, 1000, (10,), five, 0.9, graphs={"Dirichlet": cifar}),
        "fashion-mnist": Setting(
            fashion, of_fashion, 300, (10,), ("IDL", "YMF", "YC"), 0.9, graphs={"two labels": fashion}
        ),
    }


@dataclass(frozen=True)
class Plan:
    """Amount that is run."""

    rounds: int | None  #: the setting's where None
    seeds: int
    sizes: int  #: of the setting's values of M, so many are tried; all but the first under the first seed alone
    count_rounds: int  #: of Fig. 4
    rates: tuple[float, ...]  #: local step sizes of Table 3
    alphas: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 5.0)
    image_rounds: int | None = None  #: of convolutional networks, the setting's where None

    def rounds_of(self, setting):
        """Return how many rounds a run has."""
        fewer = self.image_rounds if setting.training.model.startswith("cnn") else None
        return self.rounds or fewer or setting.rounds


#: All rounds, since losses are still falling after a tenth of them; one seed, which is too few for a verdict.
QUICK = Plan(None, seeds=1, sizes=1, count_rounds=1000, rates=(0.1,), alphas=(0.0, 1.0), image_rounds=100)
PAPER = Plan(rounds=None, seeds=3, sizes=2, count_rounds=1000, rates=(0.03, 0.1, 0.3))


def availability(mode, beta):
    """Return one of the paper's availability modes; the authors' code draws a round again when no client is there."""
    return {
        "IDL": Choice("ideal"),
        "LN": Choice("lognormal", {"beta": 0.5, "convention": "code"}),
        "SLN": Choice("sin-lognormal", {"beta": 0.5, "empty": "redraw", "convention": "code"}),
        "LDF": Choice("less-data-first", {"beta": beta}),
        "MDF": Choice("more-data-first", {"beta": beta}),
        "YMF": Choice("max-label-first", {"beta": 0.9, "empty": "redraw"}),
        "YC": Choice("label-cycle", {"beta": 0.9, "empty": "redraw"}),
    }[mode]


def methods(features, alphas=Plan.alphas):
    """Return the rows of Table 2: selector and FedProx's μ."""
    rows = {
        "UniformSample": (Choice("uniform"), 0.0),
        "MDSample": (Choice("md-sample"), 0.0),
        "MDSample, once each": (Choice("md-sample", {"duplicates": "once"}), 0.0),  # not in the paper, nor its code
        "Power-of-Choice": (Choice("power-of-choice", {"convention": "fedgs"}), 0.0),
        "FedProx μ=0.01": (Choice("md-sample"), 0.01),  # among the available, as in the published code
        "FedProx μ=0.01, among all": (Choice("md-sample", {"among": "all"}), 0.01),  # a reading: it fits the table
    }
    for alpha in alphas:
        rows[f"FedGS α={alpha:g}"] = (Choice("fedgs", {"alpha": alpha, "scale": "pairs", "features": features}), 0.0)
    return rows


def published(dataset):
    """Read the paper's Table 2 (smallest test loss, mean of three seeds); empty for a data set it does not have."""
    cells = published_cells("fedgs", "Table 2").items()
    return {(mode, method): loss for (group, method, mode), loss in cells if group == dataset}


# -- what is run -------------------------------------------------------------------------------------------------------


def table_2_grid(setup):
    """Plan the runs of Table 2, and of what else it might have been, by draw, M, mode, method and seed."""
    plan, setting, grid = setup.scale, settings(setup.root)[setup.dataset], {}
    for size in setting.sizes[: plan.sizes]:
        main = size == setting.sizes[0]
        rows = methods(setting.features, plan.alphas if main else QUICK.alphas)
        for seed, mode, method in itertools.product(range(plan.seeds if main else 1), setting.modes, rows):
            selector, proximal = rows[method]
            grid[0, size, mode, method, seed] = Experiment(
                name=f"{mode}-m{size}-draw0",
                rounds=plan.rounds_of(setting),
                seed=seed,
                clients_per_round=size,
                checkpoint_every=50,
                data=Choice(setting.data.name, {**setting.data.options, "seed": 0}),
                availability=availability(mode, setting.beta),
                selector=selector,
                training=replace(setting.training, proximal=proximal),
            )
    return grid


def counts(data, split, rounds):
    """Select without training. Swap ascent is enough here: `exact_vs_heuristic` shows what it misses."""
    there = availability("YMF" if split == "two labels" else "LN", 0.9)
    scenario = build_scenario(Experiment(rounds=rounds, clients_per_round=10, data=data, availability=there))
    selectors = {
        "UniformSample": Choice("uniform"),
        "MDSample": Choice("md-sample"),
        "FedGS α=1": Choice("fedgs", {"scale": "pairs", "method": "local-search"}),
    }
    return {
        label: History.collect(select_without_training(scenario, each), scenario.n_clients)
        for label, each in selectors.items()
    }


class UpdateKeeper(SelectAll):
    """Selector of all available clients that keeps their updates."""

    def update(self, feedback):
        """Keep the updates, one row per client."""
        self.updates = np.stack([feedback.updates[client] for client in feedback.selection.clients.tolist()])


def graphs_grid(setup):
    """Plan the graphs of Table 3 by split, seed and step size."""
    setting = settings(setup.root)[setup.dataset]
    model = setting.training.model if setting.training.model.startswith("cnn") else "cnn-fashion"
    return {
        (split, seed, rate): (
            data,
            TrainingSettings(model, learning_rate=rate, batch_size=setting.training.batch_size),
            seed,
        )
        for split, data in setting.graphs.items()
        for seed in range(setup.scale.seeds)
        for rate in setup.scale.rates
    }


def recovery(setup):
    """Compute Table 3: one row per score, over splits, seeds, step sizes and methods."""
    return pd.DataFrame(
        (split, f"{rate:g}", method, score, seed, value)
        for (split, seed, rate), found in setup.parts("graphs", recovered, graphs_grid(setup), ".npz").items()
        for method, scores in found.items()
        for score, value in scores.items()
    ).set_axis(["split", "rate", "method", "score", "seed", "value"], axis=1)


#: Least similarities of an edge that are tried; the authors' script has .2 as well, which the paper leaves out.
THRESHOLDS = (0.5, 0.2, 0.1, 0.05, 0.01, 0.0)


def recovered(data, training, seed):
    """Train all clients for a round, and score the 3DG of their updates at the best of `THRESHOLDS`."""
    import torch
    from torch.nn.utils import vector_to_parameters

    from fedselect.training.fedavg import FedAvg
    from fedselect.training.models import MODELS

    torch.set_num_threads(1)
    federation, selector = as_images(load_data(data.name, **{**data.options, "seed": seed})), UpdateKeeper()
    loop = FedAvg(federation, selector, ideal(federation, seed), settings=training, seed=seed)
    start = loop.weights
    loop.step(evaluate=False)

    def models():
        network = MODELS.build(training.model, federation)
        for update in selector.updates:
            vector_to_parameters(torch.from_numpy(start + update), network.parameters())
            yield network

    # The noise of Eq. 12 has the moments of inputs that the server has; nothing is evaluated on these here.
    noise = client_embeddings(models(), federation.test.features, np.random.default_rng(seed))
    oracle = dependency_graph(similarity(federation.label_distributions, "dot"), "paper")
    found = {"func-sim": similarity(noise, "functional"), "cos-sim": similarity(selector.updates, "update")}
    best = {
        method: max((edge_scores(matrix > epsilon, oracle) for epsilon in THRESHOLDS), key=lambda scores: scores.f1)
        for method, matrix in found.items()
    }
    return {name: {"precision": b.precision, "recall": b.recall, "F1": b.f1} for name, b in best.items()}


def as_images(federation):
    """Reshape digits to 1 x 8 x 8 images, for a convolutional network; leave images as they are."""
    if federation.test.features.ndim > 2:
        return federation

    def image(samples):
        return Samples(samples.features.reshape(-1, 1, 8, 8), samples.labels)

    return replace(federation, datasets=tuple(map(image, federation.datasets)), test=image(federation.test))


# -- tables ------------------------------------------------------------------------------------------------------------

#: What else stands between a row of Table 2 and ours.
ROWS = {
    "Power-of-Choice": "; validation losses decide, and a few samples of them",
    "FedProx μ=0.01": "; the paper's variant is not published: here the published one; see 'among all'",
}


def reasons(setting, plan):
    """Give reasons why a cell of Table 2 may differ."""
    if (rounds := plan.rounds_of(setting)) < setting.rounds:
        return {(): f"the quick plan has {rounds} rounds of {setting.rounds}: losses have not come down yet"}
    why, usual = {}, "M, T and β are assumed"
    if setting.data.name == "synthetic":
        usual = "the authors' draw, other random numbers of training and availability; M, T and β are assumed"
        once = "the table fits means that count a client once however often it is drawn: see 'once each'"
        why = {(mode, "MDSample"): once for mode in ("LDF", "MDF")}
    return why | {(mode, row): f"{usual}{text}" for mode in setting.modes for row, text in ROWS.items()} | {(): usual}


def variants(runs, paper):
    """Collect Table 2 as the paper has it, and as it is for every M."""
    means = runs.groupby(["draw", "m", "mode", "method"], sort=False).best_loss.mean()
    ours = {
        f"draw {draw}, M = {m}": {cell[2:]: loss for cell, loss in part.items()}
        for (draw, m), part in means.groupby(level=[0, 1], sort=False)
    }
    return ({"paper": paper} if paper else {}) | ours


#: Rounds in the authors' plot configuration.
PLOTTED = 300


def measures(run):
    """Measure one run: its summary, and the smallest loss by the round at which the authors' plots end."""
    curve = run.curve("loss")
    return {**run.summary(), "best_loss_plotted": float(curve[curve.index <= PLOTTED].min())}


def readings(runs, paper):
    """Compute distances from Table 2 under every reading of M, T, duplicates and FedProx, by mode; the first seed.

    Cells are those of the methods that were run with every M, so that readings of another M are compared on the same.
    """
    first = runs[(runs["draw"] == 0) & (runs["seed"] == 0)]
    first = first[first.groupby("method")["m"].transform("nunique") == first["m"].nunique()]
    found = []
    for m, part in first.groupby("m", sort=False):
        for rounds, column in (("all", "best_loss"), (f"{PLOTTED}", "best_loss_plotted")):
            losses = part.set_index(["mode", "method"])[column]
            for once, everyone in itertools.product((", once each", ""), (", among all", "")):
                row = {"M": m, "T": rounds, "duplicates": "once" if once else "as drawn"}
                row["FedProx among"] = "all" if everyone else "the available"
                instead = {"MDSample": f"MDSample{once}", "FedProx μ=0.01": f"FedProx μ=0.01{everyone}"}
                apart = {}
                for (mode, method), theirs in paper.items():
                    ours = losses.get((mode, instead.get(method, method)))
                    if ours is not None:
                        apart.setdefault(mode, []).append(abs(ours - theirs))
                found.append(row | {mode: float(np.mean(each)) for mode, each in apart.items()})
    return pd.DataFrame(found).dropna(axis=1)


def held_out(fits):
    """Choose a reading by all modes but one, and say how far it is from the mode left out, beside the best there."""
    names = ["M", "T", "duplicates", "FedProx among"]
    modes = [column for column in fits.columns if column not in names]
    rows = []
    for mode in modes:
        others = fits[[each for each in modes if each != mode]].mean(axis=1)
        chosen = fits.loc[others.idxmin()]
        rows.append({"left out": mode} | {name: chosen[name] for name in names})
        rows[-1] |= {"apart in the others": others.min(), "apart in it": chosen[mode], "least": fits[mode].min()}
    return pd.DataFrame(rows)


def claims(tables, modes):
    """Compute what the paper's text says of Table 2, from its numbers and from ours."""
    fedgs = [name for name in methods("labels") if name.startswith("FedGS")]
    rows = []
    for title, losses in tables.items():
        table = pd.Series(losses).unstack(sort=False).reindex(columns=list(methods("labels")))  # a row for each mode
        worst = 100 * (table.loc[list(modes)].max() / table.loc["IDL"] - 1)
        best = [mode for mode in modes if table.loc[mode].idxmin() in fedgs]
        rows.append(
            {"data": title}
            | {"UniformSample's worst mode, % over IDL": worst["UniformSample"]}
            | {"MDSample's": worst["MDSample"]}
            | {"FedGS's, worst α": worst[fedgs].max()}
            | {"FedGS is best in": " ".join(best) or "none"}
            | {
                "Power-of-Choice / UniformSample, IDL": losses["IDL", "Power-of-Choice"]
                / losses["IDL", "UniformSample"]
            }
        )
    return pd.DataFrame(rows)


def ratios(tables, modes):
    """Compute FedGS's loss in units of UniformSample's."""
    return pd.DataFrame(
        {"data": title, **{mode: losses[mode, "FedGS α=1"] / losses[mode, "UniformSample"] for mode in modes}}
        for title, losses in tables.items()
    )


def leads(runs):
    """Compute FedGS's smallest loss (α = 1) less that of the paper's other rows, paired by seed; Holm over all."""
    fedgs = runs.assign(fedgs=baseline_values(runs, "method", "FedGS α=1", ["mode", "seed"], "best_loss"))
    others = fedgs[fedgs["method"].isin(["UniformSample", "MDSample", "Power-of-Choice", "FedProx μ=0.01"])]

    def measure(part):
        found = compare_means(part["fedgs"] - part["best_loss"], margin=0.01)
        return {"difference": found.difference, "+-": found.half, "seeds": found.n, "p": found.p}

    table = by_cell(others, ["mode", "method"], measure)
    return table.assign(adjusted=holm(table["p"]))


def spread(counted):
    """Put the counts in a few numbers; the paper has them as bars alone."""
    rows = []
    for split, histories in counted.items():
        for label, history in histories.items():
            v = history.counts
            row = {"split": split, "method": label, "variance": float(v.var(ddof=1))}
            rows.append(row | {"smallest": v.min(), "largest": v.max(), "never selected": (v == 0).sum()})
    return pd.DataFrame(rows)


# -- figures -----------------------------------------------------------------------------------------------------------


def table_2_figure(panels, modes):
    """Draw Table 2, losses in units of UniformSample's under IDL."""
    shown = ["UniformSample", "MDSample", "Power-of-Choice", "FedProx μ=0.01", "FedGS α=0", "FedGS α=1", "FedGS α=5"]
    shown = [name for name in shown if all((modes[0], name) in losses for losses in panels.values())]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, losses) in zip(axes, panels.items(), strict=True):
        for place, (name, marker) in enumerate(zip(shown, "os^Dvx+", strict=False)):
            values = [losses[mode, name] / losses["IDL", "UniformSample"] for mode in modes]
            grey = "black" if name.startswith("FedGS") else "0.55"
            axis.plot(np.arange(len(modes)) + 0.06 * (place - 3), values, marker, color=grey, label=name, markersize=5)
        axis.set_xticks(range(len(modes)), modes)
        axis.set(title=title)
        axis.grid(axis="y", alpha=0.3)
    figure.axes[0].set(ylabel="test loss, UniformSample under IDL = 1")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


#: The curves of Fig. 5.
CURVES = {
    "UniformSample": ("black", "--"),
    "MDSample": ("0.5", ":"),
    "Power-of-Choice": ("#009E73", "-."),
    "FedGS α=1": ("#D55E00", "-"),
}


def loss_figure(runs, modes):
    """Draw Fig. 5: test loss over the rounds, means over seeds with the band from smallest to largest."""
    shown = runs[runs["mode"].isin(modes) & runs["method"].isin(CURVES)]
    panels = curves(shown, "mode", "method", lambda run: run.curve("loss"))
    return panels_figure(panels, CURVES, "test loss", size=(4 * len(panels), 3.2), banded=list(CURVES), sharey=False)


def counts_figure(counted):
    """Draw Fig. 4: one bar per client, the most available first; the line is how often it was there."""
    columns = len(next(iter(counted.values())))
    figure = Figure(figsize=(2.6 * columns, 2.1 * len(counted)), layout="constrained")
    rows = figure.subplots(len(counted), columns, sharey="row", squeeze=False)
    for axes, (split, histories) in zip(rows, counted.items(), strict=True):
        top = 1.1 * max(history.counts.max() for history in histories.values())
        for axis, (label, history) in zip(axes, histories.items(), strict=True):
            order = np.argsort(-history.available, kind="stable")
            axis.bar(np.arange(history.n_clients), history.counts[order], width=1.0, color="0.35")
            axis.plot(history.available[order], "k--", linewidth=0.8)
            axis.set(ylim=(0, top), title=f"{label}: variance {history.counts.var(ddof=1):.0f}")
            axis.tick_params(labelsize=8)
        axes[0].set(ylabel=f"{split}\ntimes selected")
    for axis in rows[-1]:
        axis.set(xlabel="clients, most available first")
    return figure


def results(setup):
    """Run Table 2, count, compare graphs, and yield the tables and figures."""
    plan, setting = setup.scale, settings(setup.root)[setup.dataset]
    rows = methods(setting.features, plan.alphas)
    paper = {cell: loss for cell, loss in published(setup.dataset).items() if cell[1] in rows}
    labels = ("draw", "m", "mode", "method", "seed")
    runs = setup.runs("Table 2, rounds", labels, table_2_grid(setup), measures)
    runs = runs.astype({"proved": float, "max_gap": float})
    main_runs = runs[(runs.draw == 0) & (runs.m == setting.sizes[0])]
    why = reasons(setting, plan)
    table = beside_paper(main_runs, paper, ("mode", "method"), "best_loss", why, margin=0.01, runs=3)
    yield Table(table, f"Table 2, {setup.dataset}: smallest test loss, M = {setting.sizes[0]}")
    tables = variants(runs, paper)
    yield Table(claims(tables, setting.modes), "What the paper says of Table 2", "claims", 2)
    yield Table(ratios(tables, setting.modes), "Loss of FedGS α=1 over that of UniformSample", "ratios")
    title = "Smallest loss of FedGS α=1 less that of other rows, paired by seed, with half the 95 % interval"
    yield Table(leads(main_runs), title, "leads", 4)
    if paper and setting.data.name == "synthetic":
        fits = readings(runs, paper)
        yield Table(fits, "Mean distance from Table 2 by reading and mode, first seed", "readings", 4, "%.5g")
        yield Table(held_out(fits), "Readings chosen by all modes but one, and the one left out", "held-out", 4, "%.5g")
    proofs = main_runs[main_runs.method.str.startswith("FedGS")]
    yield f"FedGS: {100 * proofs.proved.mean():.1f} % of the decisions proved, largest gap {proofs.max_gap.max():.1e}"

    counted = {title: counts(choice, title, plan.count_rounds) for title, choice in setting.graphs.items()}
    spreads = spread(counted)
    yield Table(spreads, "Fig. 4: how often clients were selected")

    edges_paper = {
        (split, f"{rate:g}", name, score): value
        for (split, name, score), value in published_cells("fedgs", "Table 3").items()
        for rate in plan.rates
        if split in setting.graphs
    }
    why = {(): "other data and network; the paper's local training before the graph is not described"}
    found = recovery(setup)
    edges = beside_paper(found, edges_paper, ("split", "rate", "method", "score"), "value", why, margin=0.05, runs=1)
    yield Table(edges, "Table 3: edges of the oracle's 3DG found after one round of local training")

    shown = {"Table 2": table, "Fig. 4": spreads, "Table 3": edges}
    everything = pd.concat([each.assign(table=title) for title, each in shown.items()])
    everything.insert(0, "table", everything.pop("table"))
    yield Rows(runs, "runs")
    yield Rows(found, "edges")
    yield Table(everything, file="results")
    # The paper's: FashionMNIST under YMF, CIFAR-10 under LN.
    shown_modes = [mode for mode in setting.modes if mode in ("LN", "YMF")] or list(setting.modes[:1])
    yield Picture(loss_figure(main_runs, shown_modes), "loss", 100)
    yield Picture(table_2_figure(dict(itertools.islice(tables.items(), 2)), setting.modes), "table2", 100)
    yield Picture(counts_figure(counted), "counts", 90)


STUDY = Study(__doc__, QUICK, PAPER, results, ("synthetic", "digits", "cifar10", "fashion-mnist"))


if __name__ == "__main__":
    main(STUDY)
