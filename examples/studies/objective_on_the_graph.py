r"""Is it the graph, or the objective on it? FedGS's distances with dispersion, and with coverage, under its counts.

The plan, with its questions, margins and decisions, is ``plans/objective_on_the_graph.md``. The history does not show
that it is older than the runs of 24 November; it does for those of the fifth amendment (``digits-new`` and
``letters-208``), a confirmation on splits that no run had used. Clients that are far apart on the 3DG (max-sum
dispersion, FedGS's objective) stand beside clients that are near all others on the same graph (coverage, facility
location), in two outcomes.

updates
    Error of a round: the distance of the aggregate from the update of all clients, relative to the latter, of the
    decisions that are optimal without counts, at the first model and ten rounds on (mean of the two). "Random" is the
    mean over 1 000 random selections, "permuted" the coverage of a graph whose clients are exchanged at random.
runs
    Mean test loss of rounds 81 to 100 of runs that select by each rule, at a learning rate tuned for each rule and cell
    on other splits, by the loss of the clients' training samples.

A cell is a data set, a concentration of labels (a class), and an availability. Decisions are made to a gap of
0.1 %, for ten seconds at most; the share of proofs and the largest gap stand beside them. The unit of replication is a
split of the data, rules are paired on it, and intervals are 95 % ones of Student's t. Rows of each split are written as
Parquet.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch.nn.functional import cross_entropy

import letters
from comparison import by_cell, tested
from fedselect.availability import AVAILABILITY
from fedselect.data import digits, synthetic
from fedselect.randomness import generator
from fedselect.selectors.base import data_weights
from fedselect.selectors.coverage_gs import state_coverage
from fedselect.statistics import compare_means
from fedselect.training.client import batches
from fedselect.training.models import build_model, read_weights
from fedselect.training.settings import TrainingSettings, one_thread
from fedselect.training.stacks import Dense
from graphs import dependency_graph, distances, similarity
from optimisers_curse import errors_of, observed
from solvers import solve
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem
from study import Picture, Rows, Study, Table, main, widened

COVERAGE, FEDGS, UNIFORM = "coverage, α = 1", "dispersion, α = 1", "uniform"

#: Rules of the runs. Those behind the first three are exploratory.
RULES = (COVERAGE, FEDGS, UNIFORM, "counts alone", "coverage, no counts", "coverage, α = 100")

#: Availability: all, or rates of 0.1 to 1, of mean 0.4 before they are clipped, by the labels that a client has.
AVAILABLE = {"all": ("ideal", {}), "by labels": ("fedau-bernoulli", {"mean": 0.4, "least": 0.1})}

#: Images a client, on average.
IMAGES = {"letters": 52, "letters-208": 208}

#: What confirms, by its name on the command line: data, and splits that no run had used (fifth amendment).
CONFIRMED = {"digits-new": ("digits", tuple(range(115, 130))), "letters-208": ("letters-208", tuple(range(120, 130)))}

#: Rows of the runs on digits that came before, to which predictions are fitted.
BEFORE = Path(__file__).parents[2] / "docs" / "gallery" / "objective_on_the_graph_runs.parquet"

#: Stands for a concentration where clients have two labels each.
TWO = "two labels"

#: Stands for the concentration of synthetic(1, 1), which has none.
DRAWN = "as drawn"

#: Names of the columns of a cell.
CELL = ["data", "concentration", "available"]


class Until(NamedTuple):
    """Relative gap and seconds of a decision."""

    gap: float = 1e-3
    time_limit: float = 10.0


#: The plan's.
CLOSE = Until()

#: Margins, in per cent: of a random selection's error, and of uniform selection's loss.
UPDATE_MARGIN, LOSS_MARGIN = 5.0, 0.3


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: tuple[int, ...]
    tuned_on: tuple[int, ...]  #: splits
    concentrations: tuple[float, ...] = (0.1, 0.5)
    n_clients: int = 100
    size: int = 10
    rounds: int = 100
    last: int = 20  #: rounds whose losses are averaged
    rates: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)  #: learning rates
    widenings: int = 6  #: of the rates, at most
    random: int = 1000  #: random selections
    how: Until = CLOSE  #: decisions of runs


QUICK = Scale(splits=tuple(range(100, 115)), tuned_on=tuple(range(90, 93)))
PAPER = Scale(splits=tuple(range(100, 120)), tuned_on=tuple(range(90, 95)))


# -- a split -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def split_of(data, concentration, n, split):
    """Build the federation of a split, and the distances of its 3DG."""
    if data == "synthetic":
        federation = synthetic(n_clients=n, alpha=1.0, beta=1.0, seed=split)
        return federation, distances(dependency_graph(similarity(federation.parameters)))
    labels = {"partition": "dirichlet-per-class", "concentration": concentration}
    options = {"n_clients": n, "seed": split} | (labels if concentration != TWO else {"partition": "two-label"})
    if data == "digits":
        federation = digits(**options)
    else:
        federation = letters.letters(images=IMAGES[data] * n, test_images=2600, **options)
    return federation, distances(dependency_graph(similarity(federation.label_distributions)))


def euclidean(features):
    """Compute distances between rows, symmetric and zero on the diagonal."""
    squares = (features**2).sum(axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * features @ features.T, 0.0))
    return (apart + apart.T) / 2 * (1 - np.eye(len(apart)))


def fixed_distances(data, concentration, n, split):
    """Compute the distances of a split that no model changes, by their names."""
    federation, graph = split_of(data, concentration, n, split)
    order = generator(split, "selector", 10_000).permutation(n)
    mixes = euclidean(federation.label_distributions)
    return {"3DG": graph, "3DG, permuted": graph[np.ix_(order, order)], "label mixes": mixes}


def there(federation, available, split):
    """Build the availability of a cell."""
    name, options = AVAILABLE[available]
    return AVAILABILITY.build(name, federation, split, **options)


def decided(problem, seed, how=CLOSE):
    """Solve a problem to the gap or the limit; return places of the selected, gap in per cent, whether it is proved."""
    found = solve(problem, seed=seed, **how._asdict())
    return found.selected, 100 * found.gap, found.status == "optimal"


def farthest_first(distances, size, kept=()):
    """Start at those kept, or at every client in turn, and add the farthest one each time.

    Returned is the choice of the largest least distance.
    """
    if len(kept):
        chosen, near = np.asarray(kept)[None], distances[kept].min(axis=0)[None]
    else:
        chosen, near = np.arange(len(distances))[:, None], distances.copy()
    starts = np.arange(len(chosen))
    while chosen.shape[1] < size:
        near[starts[:, None], chosen] = -1.0  # not again
        added = near.argmax(axis=1)
        chosen = np.column_stack([chosen, added])
        near = np.minimum(near, distances[added])
    between = distances[chosen[:, :, None], chosen[:, None]] + np.where(np.eye(size, dtype=bool), np.inf, 0.0)
    return chosen[between.min(axis=(1, 2)).argmax()]


def spread(h, counts, present, size):
    """Select farthest first among those of equal counts, behind those whose counts are lower: max-min with α = 1."""
    last = np.sort(counts[present])[size - 1]
    among = present[counts[present] <= last]
    kept = np.flatnonzero(counts[among] < last)
    return np.sort(among[farthest_first(h[np.ix_(among, among)], size, kept)])


def select(rule, h, counts, present, size, rng, seed, how=CLOSE):
    """Decide a round by a rule: ids of the selected, the gap in per cent, and whether that is proved.

    A heuristic has neither gap nor proof.
    """
    size = min(size, present.size)
    if rule == UNIFORM:
        return np.sort(rng.choice(present, size, replace=False)), 0.0, True
    if rule == "counts alone":
        order = rng.permutation(present)  # equal counts in random order
        return np.sort(order[np.argsort(counts[order], kind="stable")[:size]]), 0.0, True
    if rule.startswith("max-min"):
        return spread(h, counts, present, size), np.nan, False
    if rule.startswith("dispersion"):
        mask = np.isin(np.arange(len(h)), present)
        problem = DispersionProblem.fedgs(h, counts, mask, size, float(rule.split()[-1]), "turns")
        return decided(problem, seed, how)
    if rule == "coverage, no counts":
        problem = CoverageProblem(h.max() - h[:, present], size)
    else:
        problem = state_coverage(h, counts, present, size, float(rule.split()[-1]))
    places, gap, proved = decided(problem, seed, how)
    return present[places], gap, proved


def schedule(rule, h, availability, scale, split):
    """Select in all rounds, before any training: no rule looks at a model. Equal problems are solved once."""
    counts, known, found = np.zeros(len(h), dtype=np.int64), {}, []
    for t in range(scale.rounds):
        present = np.flatnonzero(availability.available(t))
        if not present.size:
            found.append((present, 0.0, True))
            continue
        key = (present.tobytes(), (counts - counts.min()).tobytes() if rule != "coverage, no counts" else b"")
        chosen = known.get(key)
        if chosen is None:
            rng = generator(split, "selector", t)
            chosen = select(rule, h, counts, present, scale.size, rng, split, scale.how)
            if rule not in (UNIFORM, "counts alone"):
                known[key] = chosen
        counts[chosen[0]] += 1
        found.append(chosen)
    return found, counts


# -- updates -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def checkpoints(data, concentration, n, split):
    """Let all clients train from the first model, and from that of ten rounds of uniform selection."""
    federation = split_of(data, concentration, n, split)[0]
    return [observed(federation, t, split).updates.astype(np.float64) for t in (0, 10)]


def masks(selections, n):
    """Return selections as truth values, (k, N)."""
    return np.array([np.isin(np.arange(n), chosen) for chosen in selections])


def updates_of(data, concentration, available, scale, split):
    """Measure the error of the decisions without counts: a row per objective, with its gap in per cent."""
    federation, h = split_of(data, concentration, scale.n_clients, split)
    availability, n, sizes = there(federation, available, split), scale.n_clients, federation.sizes
    mixed = fixed_distances(data, concentration, n, split)["3DG, permuted"]
    rows, known = [], {}
    for t, updates in zip((0, 10), checkpoints(data, concentration, n, split), strict=True):
        present, rng = np.flatnonzero(availability.available(t)), generator(split, "selector", 20_000 + t)
        size = min(scale.size, present.size)
        near = h.max() - h[:, present]
        stated = {
            "dispersion": lambda: DispersionProblem(h[np.ix_(present, present)], size=size),  # noqa: B023
            "coverage": lambda: CoverageProblem(near, size),  # noqa: B023
            "coverage, permuted": lambda: CoverageProblem(mixed.max() - mixed[:, present], size),  # noqa: B023
        }
        drawn = [rng.choice(present, size, replace=False) for _ in range(scale.random)]
        random = errors_of(masks(drawn, n), sizes, updates)
        cell = {"split": split, "round": t}
        rows.append(
            cell | {"objective": "random", "error": random.mean(), "percentile": 50.0, "gap %": 0.0, "proved": True}
        )
        for name, problem in stated.items():
            key = (name, present.tobytes())
            if key not in known:
                known[key] = decided(problem(), split)
            places, gap, proved = known[key]
            error = float(errors_of(masks([present[places]], n), sizes, updates)[0])
            rank = 50 * ((random < error).mean() + (random <= error).mean())
            rows.append(cell | {"objective": name, "error": error, "percentile": rank, "gap %": gap, "proved": proved})
    return pd.DataFrame(rows)


# -- runs --------------------------------------------------------------------------------------------------------------


#: How clients train, but for the learning rate.
SETTINGS = TrainingSettings(model="linear", local_steps=10, batch_size=10, device="cpu")


class Samples(NamedTuple):
    """Samples of a federation one client after another: features (n, d), labels (n,), and where each client's begin."""

    features: torch.Tensor
    labels: torch.Tensor
    first: np.ndarray


def samples_of(parts):
    """Put clients' samples, or a test set alone, one after another."""
    features = torch.as_tensor(np.concatenate([each.features.reshape(len(each), -1) for each in parts]))
    labels = torch.as_tensor(np.concatenate([each.labels for each in parts]))
    return Samples(features.float(), labels.long(), np.cumsum([0, *map(len, parts)]))


class Stack:
    """Clients of some federations, by their splits, that train a linear model side by side."""

    def __init__(self, federations):
        self.federations = federations
        self.data = {split: samples_of(each.datasets) for split, each in federations.items()}
        first = next(iter(federations))
        self.outputs = federations[first].outputs
        self.layer = Dense([self.data[first].features.shape[1], self.outputs])
        self.begin = dict(
            zip(self.data, np.cumsum([0, *(len(each.labels) for each in self.data.values())]), strict=False)
        )
        self.features = torch.cat([each.features for each in self.data.values()])
        self.labels = torch.cat([each.labels for each in self.data.values()])

    def start(self, split):
        """Return the first model of a split."""
        return read_weights(build_model(None, self.federations[split], SETTINGS, split)).clone()

    def train(self, models, turns, t, rates):
        """Train the clients of each turn (split, clients) from its model: (turns, most clients, parameters).

        What is returned for a place without a client is of no meaning.
        """
        size, width, steps = max(len(clients) for _, clients in turns), SETTINGS.batch_size, SETTINGS.local_steps
        where = np.zeros((steps, len(turns), size, width), dtype=np.int64)
        shares, known = np.zeros(where.shape, dtype=np.float32), {}
        for turn, (split, clients) in enumerate(turns):
            for place, client in enumerate(clients.tolist()):
                if (split, client) not in known:
                    rng = generator(split, "training", t, client)
                    known[split, client] = batches(int(self.federations[split].sizes[client]), SETTINGS, 0, rng)
                begin = self.begin[split] + self.data[split].first[client]
                for step, batch in enumerate(known[split, client]):
                    where[step, turn, place, : batch.size] = begin + batch
                    shares[step, turn, place, : batch.size] = 1 / batch.size
        now = models.repeat_interleave(size, 0)
        rate = torch.tensor(rates, dtype=torch.float32).repeat_interleave(size)[:, None]
        for step in range(steps):
            taken = torch.as_tensor(where[step].reshape(-1, width))
            share = torch.as_tensor(shares[step].reshape(-1, width))
            _, gradient = self.layer(now, self.features[taken], self.labels[taken], share)
            now -= rate * SETTINGS.decay**t * gradient
        return now.unflatten(0, (len(turns), size))

    def losses(self, model, samples):
        """Compute the loss of a model on each of some samples."""
        matrix, bias = model[: -self.outputs].unflatten(0, (self.outputs, -1)), model[-self.outputs :]
        return cross_entropy(samples.features @ matrix.T + bias, samples.labels, reduction="none")


def play(plans, rates, last, *, tuning):
    """Train side by side, as `fedselect.training.fedavg.FedAvg` does one by one, in one stack of linear models.

    A plan (split, federation, clients selected in each round) has a rate. Instead of clients there may be something
    as long that is called with round, stack and model, and returns them. Returned is each one's mean test loss of the
    last rounds or, for tuning, that of all clients' training samples after every fourth of these.
    """
    stack = Stack({split: federation for split, federation, _ in plans})
    judged = stack.data if tuning else {split: samples_of([each.test]) for split, each in stack.federations.items()}
    weights, losses = torch.stack([stack.start(split) for split, *_ in plans]), []
    rounds = len(plans[0][2])
    for t in range(rounds):
        turns = [
            (split, own(t, stack, weights[run]) if callable(own) else own[t])
            for run, (split, _, own) in enumerate(plans)
        ]
        if any(clients.size for _, clients in turns):
            trained = stack.train(weights, turns, t, rates)
            weight = np.zeros(trained.shape[:2], dtype=np.float32)
            for run, (split, clients) in enumerate(turns):
                if clients.size:
                    weight[run, : clients.size] = data_weights(stack.federations[split].sizes, clients)
            weights = weights + (torch.as_tensor(weight)[:, :, None] * (trained - weights[:, None])).sum(dim=1)
        left = rounds - 1 - t
        if left < last and (not tuning or left % 4 == 0):
            losses.append(
                [stack.losses(weights[run], judged[split]).mean().item() for run, (split, *_) in enumerate(plans)]
            )
    means = np.mean(losses, axis=0)
    return np.where(np.isfinite(means), means, np.inf)


def planned(data, concentration, available, rule, scale, split):
    """Select a rule's clients on a split: its federation, gaps and proofs of the rounds, and the counts at the end.

    Behind "on" a rule may name distances; left out, they are the 3DG's.
    """
    federation, _ = split_of(data, concentration, scale.n_clients, split)
    rule, _, name = rule.partition(" on ")
    h = fixed_distances(data, concentration, scale.n_clients, split)[name or "3DG"]
    availability = there(federation, available, split)
    return federation, *schedule(rule, h, availability, scale, split)


def tuned(data, concentration, available, rule, scale):
    """Find the learning rate of a rule in a cell, by the training loss on other splits; a row per rate and split."""
    plans = []
    for split in scale.tuned_on:
        federation, found, _ = planned(data, concentration, available, rule, scale, split)
        plans.append((split, federation, [clients for clients, *_ in found]))
    grid, losses = {"rate": scale.rates}, {}
    for _ in range(scale.widenings + 1):
        new = [rate for rate in grid["rate"] if rate not in losses]
        with one_thread():
            found = play(plans * len(new), np.repeat(new, len(plans)).tolist(), scale.last, tuning=True)
        losses |= dict(zip(new, found.reshape(len(new), -1), strict=True))
        best = min(grid["rate"], key=lambda rate: losses[rate].mean())
        wider = widened(grid, {"rate": best})
        if wider == grid:
            break
        grid = wider
    rows = [
        {"rate": rate, "split": split, "training loss": loss}
        for rate, own in losses.items()
        for split, loss in zip(scale.tuned_on, own, strict=True)
    ]
    return pd.DataFrame(rows).assign(best=best, interior=grid["rate"][0] < best < grid["rate"][-1])


def described(data, concentration, split, found, counts, scale):
    """Describe what was selected: errors and bias of the first rounds, evenness of the counts, gaps and proofs."""
    federation, _ = split_of(data, concentration, scale.n_clients, split)
    chosen, errors, biases = [clients for clients, *_ in found], [], []
    for first, updates in zip((0, 10), checkpoints(data, concentration, scale.n_clients, split), strict=True):
        taken = masks([each for each in chosen[first : first + 10] if each.size], scale.n_clients)
        errors.append(errors_of(taken, federation.sizes, updates).mean())
        shares = taken * federation.sizes / (taken @ federation.sizes)[:, None]
        whole = federation.sizes @ updates / federation.sizes.sum()
        biases.append(np.linalg.norm(shares.mean(axis=0) @ updates - whole) / np.linalg.norm(whole))
    row = {"split": split, "error": np.mean(errors), "bias": np.mean(biases)}
    row |= {"variance of counts": counts.var(), "largest gap %": max(gap for _, gap, _ in found)}
    return row | {"proved": np.mean([proved for *_, proved in found])}


def runs_of(data, concentration, available, rule, rate, scale):
    """Run a rule on all splits: a row for each, as `described` has it, with its loss."""
    rows, plans = [], []
    for split in scale.splits:
        federation, found, counts = planned(data, concentration, available, rule, scale, split)
        plans.append((split, federation, [clients for clients, *_ in found]))
        rows.append(described(data, concentration, split, found, counts, scale) | {"rate": rate})
    with one_thread():
        losses = play(plans, [rate] * len(plans), scale.last, tuning=False)
    return pd.DataFrame(rows).assign(loss=losses)


# -- tables and figure -------------------------------------------------------------------------------------------------


def compared(differences, margin):
    """Compare paired differences, in per cent, with 0."""
    test = compare_means(differences, margin=margin)
    return {"difference %": test.difference, "+-": test.half, "splits": test.n, "p": test.p, "same": test.p_equivalent}


def primary(updates, runs):
    """Test both primary questions in every cell; negative differences are in favour of coverage."""

    def of_updates(part):
        mean = part.groupby(["split", "objective"])["error"].mean().unstack()
        return compared(100 * (mean["coverage"] - mean["dispersion"]) / mean["random"], UPDATE_MARGIN)

    def of_runs(than):
        def measure(part):
            loss = part.pivot(index="split", columns="rule", values="loss")
            return compared(100 * (loss[COVERAGE] - loss[than]) / loss[UNIFORM], LOSS_MARGIN)

        return measure

    tables = {
        "error: coverage - dispersion": (by_cell(updates, CELL, of_updates), UPDATE_MARGIN),
        "loss: coverage - FedGS": (by_cell(runs, CELL, of_runs(FEDGS)), LOSS_MARGIN),
        "loss: coverage - uniform": (by_cell(runs, CELL, of_runs(UNIFORM)), LOSS_MARGIN),
    }
    table = pd.concat(
        [each.assign(margin=margin, outcome=name) for name, (each, margin) in tables.items()], ignore_index=True
    )
    return tested(table)[
        ["outcome", *CELL, "difference %", "+-", "splits", "p", "adjusted", "same", "margin", "verdict"]
    ]


def by_rule(runs):
    """Average over splits what each rule has in each cell, its loss beside uniform selection's. Exploratory."""
    uniform = runs[runs["rule"] == UNIFORM].set_index([*CELL, "split"])["loss"]
    theirs = uniform.reindex(pd.MultiIndex.from_frame(runs[[*CELL, "split"]])).to_numpy()
    relative = runs.assign(**{"loss %": 100 * (runs["loss"] / theirs - 1)})

    def measure(part):
        test = compare_means(part["loss %"], margin=LOSS_MARGIN)
        means = part[["loss", "error", "bias", "variance of counts", "rate", "proved"]].mean().to_dict()
        return means | {"largest gap %": part["largest gap %"].max(), "loss %": test.difference, "+-": test.half}

    return by_cell(relative, [*CELL, "rule"], measure)


#: What may predict a rule's loss: columns of a row for each rule and cell.
FUNCTIONS = {
    "error": ("error",),
    "bias": ("bias",),
    "evenness": ("evenness",),
    "error and evenness": ("error", "evenness"),
    "bias and evenness": ("bias", "evenness"),
    "all three": ("error", "bias", "evenness"),
}


def predictions(runs, first):
    """Fit functions of error, bias and evenness to losses on the splits before ``first``, and test them on the others.

    Losses are relative to the cell's mean over rules, predictors too, so that rules are told apart and not cells.
    """
    halves = []
    for part in (runs[runs["split"] < first], runs[runs["split"] >= first]):
        mean = part.groupby([*CELL, "rule"])[["loss", "error", "bias", "variance of counts"]].mean()
        mean["evenness"] = np.log1p(mean.pop("variance of counts"))
        cells = mean.groupby(CELL)
        mean["loss"] = mean["loss"] / cells["loss"].transform("mean")
        halves.append(mean - mean.groupby(CELL).transform("mean"))
    rows = []
    for name, columns in FUNCTIONS.items():
        fitted, others = (half[list(columns)].to_numpy() for half in halves)
        weights, *_ = np.linalg.lstsq(fitted, halves[0]["loss"].to_numpy(), rcond=None)
        found = pd.DataFrame({"predicted": others @ weights, "loss": halves[1]["loss"]})
        rest = ((found["loss"] - found["predicted"]) ** 2).sum() / (found["loss"] ** 2).sum()
        ranks = [part["predicted"].corr(part["loss"], "spearman") for _, part in found.groupby(CELL)]
        rows.append({"function of": name, "R² on the test": 1 - rest, "mean Spearman": np.nanmean(ranks)})
        rows[-1] |= {"weights": "; ".join(f"{w:.3g}" for w in weights), "cells": len(ranks)}
    return pd.DataFrame(rows)


def figure_of(table):
    """Draw the differences of the primary outcomes, a panel each, a line per cell."""
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    parts = list(table.groupby("outcome", sort=False))
    for axis, (name, part) in zip(figure.subplots(1, len(parts), sharey=True), parts, strict=True):
        names = [f"{d}, {c:g}, {a}" for d, c, a in part[CELL].itertuples(index=False)]
        axis.axvspan(-part["margin"].iloc[0], part["margin"].iloc[0], color="0.9", label="margin")
        axis.axvline(0, color="grey", linewidth=0.6)
        axis.errorbar(part["difference %"], names, xerr=part["+-"], fmt="o", markersize=3, color="#0072B2")
        axis.set(title=f"{name}, %")
        axis.invert_yaxis()
    return figure


def results(setup):
    """Yield the primary outcomes, then what is exploratory."""
    data, splits = CONFIRMED.get(setup.dataset, (setup.dataset, setup.scale.splits))
    scale = replace(setup.scale, splits=splits)
    cells = list(itertools.product([data], scale.concentrations, AVAILABLE))

    def gathered(name, compute, plan, labels):
        parts = setup.parts(name, compute, plan, ".parquet")
        rows = pd.concat([part.assign(**dict(zip(labels, key, strict=False))) for key, part in parts.items()])
        return rows[[*labels, *rows.columns.difference(labels, sort=False)]].reset_index(drop=True)

    def trained(rules):
        labels, searches = [*CELL, "rule"], {(*cell, rule): (*cell, rule, scale) for cell in cells for rule in rules}
        tuning = gathered("tuning", tuned, searches, labels)
        rates = tuning.groupby(labels)["best"].first()
        return tuning, gathered("runs", runs_of, {key: (*key, float(rates[key]), scale) for key in searches}, labels)

    errors = {(*cell, split): (*cell, scale, split) for cell in cells for split in scale.splits}
    updates = gathered("updates", updates_of, errors, CELL)
    tuning, runs = trained(RULES[:3])
    yield Rows(updates, "updates")
    yield Rows(runs, "runs")
    table = primary(updates, runs)
    yield Table(table, "primary outcomes", "primary")
    yield Picture(figure_of(table), "objective_on_the_graph")
    how = {"error": "mean", "percentile": "mean", "proved": "mean", "gap %": "max"}
    objectives = updates.groupby([*CELL, "objective"], sort=False)[list(how)].agg(how).reset_index()
    yield Table(
        objectives, "error of the update by objective; exploratory but for the primary difference", "objectives"
    )
    more = trained(RULES[3:])
    tuning, runs = (pd.concat(each, ignore_index=True) for each in zip((tuning, runs), more, strict=True))
    yield Rows(tuning, "tuning")
    yield Rows(runs, "runs")
    yield Table(by_rule(runs), "runs by rule (exploratory), loss % beside uniform selection", "rules")
    if setup.dataset == "digits-new":
        both, first = pd.concat([pd.read_parquet(BEFORE), runs], ignore_index=True), splits[0]
    else:
        both, first = runs, splits[len(splits) // 2]
    yield Table(predictions(both, first), "what predicts a rule's loss (exploratory)", "predictions")
    ends = tuning.groupby([*CELL, "rule"])["interior"].all()
    yield f"searches for a learning rate that end at an edge of the grid: {(~ends).sum()} of {ends.size}"


STUDY = Study(__doc__, QUICK, PAPER, results, datasets=("digits", "digits-new", *IMAGES))


if __name__ == "__main__":
    main(STUDY)
