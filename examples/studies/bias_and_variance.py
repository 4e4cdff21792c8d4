r"""Bias and variance of 23 selectors: how far the aggregate is from all clients' update, and why.

A selector makes a random weight :math:`w_k` for every client, by who is there and by its own draw; the aggregate is
:math:`\sum_k w_k \Delta_k`, and :math:`\Delta = \sum_k \alpha_k \Delta_k` is what it stands for. At a stored model all
clients' updates are known, so that the mean squared distance of the two falls into three parts, exactly:

bias
    :math:`\|\sum_k (E w_k - \alpha_k) \Delta_k\|^2`: what no number of rounds averages out.
draw
    The variance given who is there and what the selector remembers: its own randomness.
rounds
    The variance of the conditional mean over rounds: who is there, and the selector's memory. A selector without
    randomness, which lets all have their turn, has the error of each single round here.

All are relative to :math:`\|\Delta\|^2`, and the weights are divided by their mean sum (``step``), as the server's
learning rate makes up for a constant factor. ``weight error`` is the root mean square of :math:`E w_k / \alpha_k - 1`.

100 clients of digits are equally important (α = 1/N); each has 80 % of its samples of one label, and its labels decide
how often it is there (FedAU's rates, 0.1 to 1, of mean 0.4 unclipped), independently in every round, or in spells
(two-state chains). One model is trained by uniform selection. Before the first round and after 20 of them all train
from it; then every selector plays 100 rounds with the same clients there, being told these same updates and losses. The
last 70 rounds are looked at (``--paper``: 1 000 and 800), every second one.

``law`` says where conditional means and variances come from: "exact" for draws without replacement (uniform, FedSS) and
with replacement (MD), and for selectors without a draw; else 8 draws in each round looked at, with the bias of the
estimates corrected. The bias is the product of the means of the first and second half of the rounds, so that the
variance is in it no more than below it: it is unbiased where these are independent, and may come out below 0.

Not here, among others: FedCor, which learns from losses that change, and selectors of seconds (Oort, TiFL, FedCS).
CA-Fed takes its smallest losses to be 0, as the authors' code does on images: at a model that does not move no loss
falls.

The unit of replication is a split of the data, with its own rates and model; intervals are 95 % ones of Student's t.
Ratios to uniform selection are paired, and adjusted for their number (Holm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import baseline_values, by_cell, holm
from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.experiments import Choice
from fedselect.experiments.running import build_selector
from fedselect.randomness import generator
from fedselect.rounds.engine import decide, learn
from fedselect.rounds.protocol import RoundContext, RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import CAFed, FedSS, MDSample, Uniform
from fedselect.selectors.base import equal_importance
from fedselect.statistics import compare_means, half_width
from optimisers_curse import observed
from study import Picture, Rows, Study, Table, main

#: Availability by name: registered name and options.
WORLDS = {
    "independent": ("fedau-bernoulli", {"mean": 0.4, "least": 0.1}),
    "in spells": ("fedau-markov", {"mean": 0.4, "least": 0.1}),
}

#: Selectors by name. ``groups`` of FedSS are put in by name: the clients' main labels, or as many in random order.
SELECTORS = {
    "uniform": Choice("uniform"),
    "MD": Choice("md-sample"),
    "clustered sampling, sizes": Choice("clustered-sampling"),
    "clustered sampling, updates": Choice("clustered-sampling", {"by": "updates"}),
    "FedSS-P": Choice("fedss", {"variant": "proportional", "groups": "labels"}),
    "FedSS-P, W/π": Choice("fedss", {"variant": "proportional", "groups": "labels", "absent": "horvitz-thompson"}),
    "FedSS-P, random groups": Choice("fedss", {"variant": "proportional", "groups": "random"}),
    "E3CS-0.5": Choice("e3cs", {"quota": 0.5}),
    "CS-UCB-Q": Choice("cs-ucb-q"),
    "power-of-choice": Choice("power-of-choice"),
    "AFL": Choice("afl"),
    "DELTA": Choice("delta"),
    "Fed-CBS": Choice("fed-cbs"),
    "DivFL": Choice("divfl"),
    "F3AST": Choice("f3ast"),
    "FedGS, α = 1": Choice("fedgs", {"method": "local-search", "scale": "pairs"}),
    "FedGS, α = 0": Choice("fedgs", {"method": "greedy", "alpha": 0.0}),
    "all available": Choice("all-available"),
    "Unbiased (oracle)": Choice("unbiased"),
    "AdaFed (oracle)": Choice("adafed"),
    "CA-Fed": Choice("ca-fed"),
    "FedAU, K = 50": Choice("fedau", {"cutoff": 50}),
    "FedAU, K = ∞": Choice("fedau"),
}

#: Those that draw in a way whose conditional mean and variance are estimated from so many draws.
DRAWN, DRAWS = {
    "clustered sampling, sizes", "clustered sampling, updates", "E3CS-0.5", "CS-UCB-Q", "power-of-choice", "AFL",
    "DELTA", "Fed-CBS",
}, 8  # fmt: skip

#: Relative difference of a mean squared error from uniform selection's that is of no account.
MARGIN = 0.05


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: int
    cells: tuple[tuple[str, int], ...]  #: availability, and the round of the model
    rounds: int = 100
    burn_in: int = 30
    every: int = 2
    n_clients: int = 100
    size: int = 10


CELLS = (("independent", 0), ("independent", 20), ("in spells", 20))
QUICK = Scale(splits=20, cells=CELLS)
PAPER = Scale(splits=50, cells=CELLS, rounds=1000, burn_in=200)


# -- conditional laws --------------------------------------------------------------------------------------------------


def law_of_strata(available, groups, selection, gram):
    r"""Compute mean weights (N,) and variance of draws without replacement from the available clients of each group.

    With S of A drawn and weight v each, the variance is :math:`v^2 S (1 - S/A)\, s^2`, s² that of the updates with
    divisor A - 1, summed over groups. ``selection`` is one draw: those of a group weigh the same in all. ``gram``
    (N, N) are the products of the updates.
    """
    mean, variance = np.zeros(available.size), 0.0
    drawn = np.bincount(groups[selection.clients], minlength=int(groups.max()) + 1)
    for group in np.unique(groups[selection.clients]).tolist():
        members = np.flatnonzero(available & (groups == group))
        weight = float(selection.weights[groups[selection.clients] == group][0])
        a, s = members.size, int(drawn[group])
        mean[members] = weight * s / a
        if a > 1:
            block = gram[np.ix_(members, members)]
            spread = (np.trace(block) - block.sum() / a) / (a - 1)
            variance += weight**2 * s * (1 - s / a) * float(spread)
    return mean, variance


def law_of_draws(shares, draws, gram):
    """Compute mean weights and variance of independent draws with these shares (N,), each of weight 1 / draws."""
    return shares, float(shares @ np.diag(gram) - shares @ gram @ shares) / draws


def law_of_samples(weights, gram):
    """Estimate mean weights and variance without bias from some draws' weights, (R, N)."""
    mean = weights.mean(axis=0)
    apart = weights - mean
    return mean, float(np.einsum("ri,ij,rj->", apart, gram, apart)) / (len(weights) - 1)


def dense(selection, n):
    """Return a selection's weights of all clients, (n,)."""
    weights = np.zeros(n)
    weights[selection.clients] = selection.weights
    return weights


# -- a selector at a model that does not move --------------------------------------------------------------------------


def played(selector, world, model, gram, looked_at, drawn):
    """Play a scenario's rounds at one model; return mean weights (T, N) and variances (T,) of the rounds looked at.

    Both are conditional on who is there, and estimated from draws where the selector is ``drawn``. It is told the same
    updates and losses in every round; ``gram`` (N, N) are the products of the updates.
    """
    means, variances = [], []
    told = (model.losses, model.norms, model.received)
    for t in range(world.rounds):
        state = selector.state_dict() if drawn and looked_at(t) else None
        decision = decide(selector, world, t, probe=lambda clients: model.probed[np.asarray(clients)])
        selection, available = decision.selection, decision.available
        if looked_at(t):
            found = dense(selection, world.n_clients), 0.0
            if state is not None and selection.clients.size:
                after, samples = selector.state_dict(), [found[0]]
                for draw in range(1, DRAWS):
                    selector.load_state_dict(state)
                    rng = generator(world.seed, "selector", t, draw)
                    context = RoundContext(
                        t, available, world.sizes, rng, probe=lambda clients: model.probed[np.asarray(clients)]
                    )
                    samples.append(dense(selector.select(context), world.n_clients))
                selector.load_state_dict(after)
                found = law_of_samples(np.array(samples), gram)
            elif isinstance(selector, Uniform) and selection.clients.size:
                found = law_of_strata(available, np.zeros(world.n_clients, dtype=np.int64), selection, gram)
            elif isinstance(selector, FedSS) and selection.clients.size:
                found = law_of_strata(available, selector.groups, selection, gram)
            elif isinstance(selector, MDSample) and selection.clients.size:
                found = law_of_draws(
                    np.where(available, world.sizes, 0) / world.sizes[available].sum(), world.size, gram
                )
            means.append(found[0])
            variances.append(found[1])
        clients = selection.clients.tolist()
        losses, norms, received = ({k: float(values[k]) for k in clients} for values in told)
        learn(
            selector,
            RoundFeedback(
                t, selection, decision.outcomes, losses, norms, received, {k: model.updates[k] for k in clients}
            ),
        )
    return np.array(means), np.array(variances)


def parts_of_error(means, variances, gram, draws):
    """Split the mean squared error of an aggregate, relative to all clients' update, α = 1/N.

    ``means`` (T, N) and ``variances`` (T,) are those of each round, given who is there, the means estimated from so
    many ``draws``, or exact where None; ``gram`` (N, N) are the products of the updates.
    """
    n = means.shape[1]
    step = float(means.sum(axis=1).mean())
    means, draw = means / step, float(variances.mean()) / step**2
    off = means - 1.0 / n
    whole = float(gram.sum()) / n**2
    squared = float(np.einsum("ti,ij,tj->", off, gram, off)) / len(off) - (draw / draws if draws else 0.0)
    first, second = (half.mean(axis=0) for half in np.array_split(off, 2))
    bias = float(first @ gram @ second)
    return {
        "bias": bias / whole,
        "draw": draw / whole,
        "rounds": (squared - bias) / whole,
        "error": (squared + draw) / whole,
        "weight error": float(np.sqrt(((n * off.mean(axis=0)) ** 2).mean())),
        "step": step,
    }


def built(name, labels, world):
    """Build a selector by its name here, with the groups that it names; labels (N,) are the clients' main ones."""
    choice, n = SELECTORS[name], world.n_clients
    if choice.name == "ca-fed":
        return CAFed(importance=equal_importance(n), minima=np.zeros(n))
    kind = choice.options.get("groups")
    if kind is not None:
        found = labels if kind == "labels" else generator(world.seed, "noise").permutation(labels)
        choice = Choice(choice.name, {**choice.options, "groups": np.unique(found, return_inverse=True)[1].tolist()})
    return build_selector(choice, world)


def split_of(scale, split):
    """Measure every selector on one split of the data; a row for each availability, model and selector."""
    federation = digits(n_clients=scale.n_clients, partition="sorted-blocks", ratio=0.8, seed=split)
    labels = federation.label_counts.argmax(axis=1)
    sizes = np.ones(scale.n_clients, dtype=np.int64)
    models = {t: observed(federation, t, split) for t in sorted({t for _, t in scale.cells})}
    rows = []
    for name, t in scale.cells:
        registered, options = WORLDS[name]
        there = AVAILABILITY.build(registered, federation, split, **options)
        gram = models[t].updates.astype(np.float64) @ models[t].updates.T.astype(np.float64)
        for who in SELECTORS:
            world = Scenario(sizes, there, seed=split, size=scale.size, rounds=scale.rounds, data=federation)
            selector = built(who, labels, world)
            means, variances = played(
                selector,
                world,
                models[t],
                gram,
                lambda u: u >= scale.burn_in and (u - scale.burn_in) % scale.every == 0,
                who in DRAWN,
            )
            found = parts_of_error(means, variances, gram, DRAWS if who in DRAWN else None)
            rows.append({"availability": name, "round": t, "split": split, "selector": who} | found)
    return pd.DataFrame(rows)


# -- table and figure --------------------------------------------------------------------------------------------------

PARTS = ("bias", "draw", "rounds", "error")


def table_of(rows):
    """Average over splits, with intervals and the error's paired ratio to uniform selection's."""
    cell = ["availability", "round"]
    ratio = rows["error"] / baseline_values(rows, "selector", "uniform", [*cell, "split"], "error")

    def measure(part):
        who = part["selector"].iloc[0]
        row = {"law": f"{DRAWS} draws" if who in DRAWN else "exact"}
        for column in (*PARTS, "weight error"):
            row |= {column: part[column].mean(), f"± {column}": half_width(part[column])}
        test = compare_means(np.log(part["ratio"]), margin=np.log1p(MARGIN))
        row |= {"step": part["step"].mean(), "of uniform's": part["ratio"].mean(), "±": half_width(part["ratio"])}
        return row | {"splits": len(part), "p": np.nan if who == "uniform" else test.p}

    table = by_cell(rows.assign(ratio=ratio), [*cell, "selector"], measure)
    table["adjusted"] = holm(table.pop("p"))
    return table


def figure_of(table):
    """Draw each selector's parts of the error as stacked bars, panels by availability and round of the model."""
    cells = list(table.groupby(["availability", "round"], sort=False))
    figure = Figure(figsize=(3.0 + 2.7 * len(cells), 5.8), layout="constrained")
    axes = figure.subplots(1, len(cells), squeeze=False, sharey=True)[0]
    colours = {"bias": "#D55E00", "draw": "#0072B2", "rounds": "#B0C4DE"}
    for axis, ((name, t), part) in zip(axes, cells, strict=True):
        left, places = np.zeros(len(part)), np.arange(len(part))[::-1]
        for column, colour in colours.items():
            width = np.maximum(part[column].to_numpy(), 0.0)
            axis.barh(places, width, left=left, color=colour, label=column)
            left += width
        axis.set_yticks(places, part["selector"])
        axis.axvline(float(part.loc[part["selector"] == "uniform", "error"].iloc[0]), color="grey", linewidth=0.6)
        axis.set(title=f"{name}, model of round {t}", xlabel="squared error of the update,\nof all clients' squared")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def results(setup):
    """Yield table and figure."""
    scale = setup.scale
    parts = setup.parts("splits", split_of, {(split,): (scale, split) for split in range(scale.splits)})
    rows = pd.concat(parts.values(), ignore_index=True)
    table = table_of(rows)
    yield Rows(rows, "splits")
    yield Table(table, "Squared error of the aggregate, of all clients' squared update", "table", 3, "%.5g")
    yield Picture(figure_of(table), "table")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
