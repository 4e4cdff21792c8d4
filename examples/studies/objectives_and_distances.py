r"""Objectives and distances: the rest of the table of ``objective_on_the_graph.py``, after its later amendments.

The plan is ``plans/objective_on_the_graph.md``; what ``--plan`` takes are its items. Rows are as there.

runs
    Loss of runs, one factor at a time away from that study's cells: other numbers of clients a round, concentrations of
    labels (a class), two labels a client; other distances and objectives; synthetic(1, 1); 1 000 clients; all
    available, or by labels. Holm's adjustment is over all differences of a plan.
errors
    Error of one round's update, of decisions without counts: objective by distances by concentration by clients a
    round. ``max-min`` is farthest first from every client, the best of these (within a factor of 2 of the optimum).
    Distances are those of the 3DG, of the 3DG with clients exchanged at random, between label mixes, between the
    updates of this round, and between its losses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import by_cell, tested
from fedselect.randomness import generator
from fedselect.statistics import compare_means
from fedselect.training.settings import one_thread
from objective_on_the_graph import (
    AVAILABLE,
    CELL,
    COVERAGE,
    DRAWN,
    FEDGS,
    LOSS_MARGIN,
    TWO,
    UNIFORM,
    UPDATE_MARGIN,
    Scale,
    Until,
    compared,
    described,
    errors_of,
    euclidean,
    farthest_first,
    fixed_distances,
    masks,
    observed,
    play,
    predictions,
    runs_of,
    select,
    split_of,
    there,
    tuned,
)
from objective_on_the_graph import decided as to_the_gap
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem
from study import Picture, Rows, Study, Table, main

COUNTS = "counts alone"

RULES = (COVERAGE, FEDGS, UNIFORM, COUNTS)

#: Differences in the loss that are tested: of the first rule to the second.
DIFFERENCES = ((COVERAGE, FEDGS), (COVERAGE, UNIFORM), (COVERAGE, COUNTS), (FEDGS, COUNTS))

#: Columns of a cell of this table.
WIDE = [*CELL, "selected"]


@dataclass(frozen=True)
class Errors:
    """Cells of errors, and how their decisions are made."""

    data: tuple[str, ...]
    concentrations: tuple[object, ...]
    n: int
    sizes: tuple[int, ...]
    distances: tuple[str, ...]
    splits: tuple[int, ...]
    how: Until
    available: tuple[str, ...] = ("all",)

    def plan(self):
        """Return what `errors` is called with, by data, concentration, availability and split."""
        cells = itertools.product(self.data, self.concentrations, self.available, self.splits)
        return {cell: (*cell, self.n, self.sizes, self.distances, self.how) for cell in cells}


@dataclass(frozen=True)
class Runs:
    """Cells of runs, by concentration and clients a round; each with all available, and by labels."""

    data: str
    cells: tuple[tuple[object, int], ...]
    scale: Scale
    rules: tuple[str, ...] = RULES

    def plan(self):
        """Return what `trained` is called with, by data, concentration, availability, size and rule."""
        cells = itertools.product(self.cells, AVAILABLE, self.rules)
        return {
            (self.data, labels, available, size, rule): (
                self.data,
                labels,
                available,
                rule,
                replace(self.scale, size=size),
            )
            for (labels, size), available, rule in cells
        }


@dataclass(frozen=True)
class Wide:
    """Amount that is run."""

    runs: Runs | None
    errors: Errors | None


LEVELS = (0.05, 0.1, 0.5, 1, 10, TWO)

DISTANCES = ("3DG", "3DG, permuted", "label mixes", "updates", "losses")

#: Distances that only the models tell.
LEARNED = ("updates", "losses")

#: Decisions on these, which are solved anew in each round of each run, and the rate of these runs.
QUICKLY, LEARNED_RATE = Until(1e-2, 2.0), 3.0

#: Every rule with a graph and counts.
GRAPHS = (
    *(f"{rule} on {name}" if name != "3DG" else rule for rule in (COVERAGE, FEDGS) for name in DISTANCES),
    "max-min, α = 1",
    "dispersion, α = 0.1",
)

_TUNED = tuple(range(90, 93))
_SPLITS = tuple(range(160, 170))
_RUNS = Scale(splits=_SPLITS, tuned_on=_TUNED)
#: One factor at a time away from 10 clients a round at 0.1 and 0.5 a class.
_CELLS = (*itertools.product((0.1, 0.5), (3, 20)), *itertools.product((0.05, 1, 10, TWO), (10,)))
_ERRORS = Errors(("digits", "letters"), LEVELS, 100, (3, 10, 20), DISTANCES, tuple(range(130, 140)), Until(1e-3, 2.0))
_FEW = (160, 161, 162)

PLANS = {
    "errors": Wide(None, _ERRORS),  # sixth amendment; those below are of the seventh
    "runs": Wide(Runs("digits", _CELLS, replace(_RUNS, splits=tuple(range(160, 175)))), None),
    "labels": Wide(None, replace(_ERRORS, splits=_SPLITS, available=("by labels",))),
    "synthetic": Wide(
        Runs("synthetic", ((DRAWN, 10),), _RUNS),
        replace(_ERRORS, data=("synthetic",), concentrations=(DRAWN,), splits=_SPLITS, available=tuple(AVAILABLE)),
    ),
    "many": Wide(  # as the eighth has it
        Runs(
            "letters",
            ((0.1, 10), (0.1, 100)),
            replace(_RUNS, splits=_SPLITS[:5], tuned_on=(90,), n_clients=1000, how=Until(1e-2, 1.0)),
        ),
        Errors(
            ("letters",),
            (0.1, 0.5),
            1000,
            (10, 100),
            ("3DG", "3DG, permuted", "label mixes"),
            _SPLITS[:5],
            Until(1e-2, 10.0),
            tuple(AVAILABLE),
        ),
    ),
    "distances": Wide(
        Runs(
            "digits",
            tuple(itertools.product((0.1, 0.5), (10,))),
            _RUNS,
            (*GRAPHS, "coverage, no counts", COUNTS, UNIFORM),
        ),
        None,
    ),
}
PAPER = Wide(PLANS["runs"].runs, _ERRORS)
QUICK = Wide(
    replace(PAPER.runs, cells=_CELLS[:4], scale=replace(_RUNS, splits=_FEW, tuned_on=(90,))),
    replace(_ERRORS, splits=_FEW),
)


def decided(objective, apart, present, size, seed, how):
    """Decide by an objective on distances: the clients, and the gap in per cent, none for a heuristic."""
    among = apart[np.ix_(present, present)]
    if objective == "max-min":
        return present[farthest_first(among, size)], np.nan
    is_spread = objective == "dispersion"
    problem = (
        DispersionProblem(among, size=size) if is_spread else CoverageProblem(apart.max() - apart[:, present], size)
    )
    places, gap, _ = to_the_gap(problem, seed, how)
    return present[places], gap


def errors(data, concentration, available, split, n, sizes, names, how):
    """Measure the error of decisions on a split: a row per round, size, objective and distances."""
    federation, _ = split_of(data, concentration, n, split)
    availability, fixed = there(federation, available, split), fixed_distances(data, concentration, n, split)
    rows, known = [], {}
    for t in (0, 10):
        model, rng = observed(federation, t, split), generator(split, "selector", 20_000 + t)
        updates, losses = model.updates.astype(np.float64), np.asarray(model.probed, dtype=np.float64)
        learned = {"updates": euclidean(updates), "losses": np.abs(losses[:, None] - losses)}
        present = np.flatnonzero(availability.available(t))
        orders = present[np.argsort(rng.random((1000, present.size)), axis=1)]
        for wanted in sizes:
            size = min(wanted, present.size)
            random = errors_of(masks(orders[:, :size], n), federation.sizes, updates)
            cell = {"round": t, "selected": wanted}
            rows.append(cell | {"objective": "random", "distances": "", "error": random.mean(), "percentile": 50.0})
            for objective, name in itertools.product(("dispersion", "coverage", "max-min"), names):
                key = (objective, name, size, present.tobytes())
                if name in learned or key not in known:
                    known[key] = decided(objective, (fixed | learned)[name], present, size, split, how)
                chosen, left = known[key]
                error = float(errors_of(masks([chosen], n), federation.sizes, updates)[0])
                rank = 50 * ((random < error).mean() + (random <= error).mean())
                found = {"objective": objective, "distances": name, "error": error, "percentile": rank, "gap %": left}
                rows.append(cell | found)
    return pd.DataFrame(rows)


class Onlooker:
    """Decides by distances between what all clients send, or lose, at the model of the round: no server knows these."""

    def __init__(self, rule, federation, availability, split, scale):
        self.rule, _, self.distances = rule.partition(" on ")
        self.federation, self.availability, self.split, self.scale = federation, availability, split, scale
        self.counts, self.found = np.zeros(len(federation), dtype=np.int64), []

    def __len__(self):
        return self.scale.rounds

    def __call__(self, t, stack, model):
        """Select the clients of a round."""
        present = np.flatnonzero(self.availability.available(t))
        if present.size:
            rng = generator(self.split, "selector", t)
            h = self.apart(t, stack, model)
            found = select(self.rule, h, self.counts, present, self.scale.size, rng, self.split, QUICKLY)
        else:
            found = present, 0.0, True
        self.counts[found[0]] += 1
        self.found.append(found)
        return found[0]

    def apart(self, t, stack, model):
        """Compute the distances of a round."""
        if self.distances == "updates":
            everybody = np.arange(len(self.federation))
            updates = stack.train(model[None], [(self.split, everybody)], t, [LEARNED_RATE])[0] - model
            return euclidean(updates.numpy().astype(np.float64))
        samples = stack.data[self.split]
        losses = stack.losses(model, samples).numpy().astype(np.float64)
        means = np.add.reduceat(losses, samples.first[:-1]) / self.federation.sizes
        return np.abs(means[:, None] - means)


def trained(data, concentration, available, rule, scale):
    """Run a rule in a cell, at its own learning rate where distances are fixed: a row per split."""
    if rule.partition(" on ")[2] not in LEARNED:
        trials = tuned(data, concentration, available, rule, scale)
        rows = runs_of(data, concentration, available, rule, float(trials["best"].iloc[0]), scale)
        return rows.assign(interior=bool(trials["interior"].iloc[0]))
    plans = []
    for split in scale.splits:
        federation, _ = split_of(data, concentration, scale.n_clients, split)
        plans.append((split, federation, Onlooker(rule, federation, there(federation, available, split), split, scale)))
    with one_thread():
        losses = play(plans, [LEARNED_RATE] * len(plans), scale.last, tuning=False)
    rows = [described(data, concentration, split, own.found, own.counts, scale) for split, _, own in plans]
    return pd.DataFrame(rows).assign(rate=LEARNED_RATE, loss=losses, interior=True)


def of_runs(runs, pairs=DIFFERENCES):
    """Test differences of the loss in every cell, in per cent of uniform selection's."""

    def measure(part, first, second):
        loss = part.pivot(index="split", columns="rule", values="loss")
        return compared(100 * (loss[first] - loss[second]) / loss[UNIFORM], LOSS_MARGIN)

    tables = [
        by_cell(runs, WIDE, lambda part, pair=pair: measure(part, *pair)).assign(rule=pair[0], to=pair[1])
        for pair in pairs
    ]
    table = pd.concat(tables, ignore_index=True).assign(margin=LOSS_MARGIN)
    return tested(table)[
        [*WIDE, "rule", "to", "difference %", "+-", "splits", "p", "adjusted", "same", "margin", "verdict"]
    ]


def of_errors(rows):
    """Test coverage against dispersion on the 3DG in every cell, in per cent of a random selection's error."""

    def measure(part):
        name = part["objective"].mask(part["distances"].ne("") & part["distances"].ne("3DG"))
        mean = part.groupby(["split", name])["error"].mean().unstack()
        return compared(100 * (mean["coverage"] - mean["dispersion"]) / mean["random"], UPDATE_MARGIN)

    return tested(by_cell(rows, WIDE, measure).assign(margin=UPDATE_MARGIN))


def by_objective(rows):
    """Average errors and percentiles over splits, in every cell. Exploratory."""
    random = rows[rows["objective"] == "random"].groupby([*WIDE, "split"])["error"].mean()
    mean = rows.groupby([*WIDE, "objective", "distances", "split"], sort=False)
    mean = mean.agg({"error": "mean", "percentile": "mean", "gap %": "max"}).reset_index()
    theirs = random.reindex(pd.MultiIndex.from_frame(mean[[*WIDE, "split"]])).to_numpy()
    mean["error, % of random"] = 100 * mean["error"] / theirs

    def measure(part):
        test = compare_means(part["error, % of random"], 100.0, margin=UPDATE_MARGIN)
        found = {"error, % of random": 100 + test.difference, "+-": test.half, "splits": test.n}
        return found | {"percentile": part["percentile"].mean(), "largest gap %": part["gap %"].max()}

    return by_cell(mean[mean["objective"] != "random"], [*WIDE, "objective", "distances"], measure)


def figure_of(table):
    """Draw the differences of the loss: a panel for each pair of rules, a line for each cell."""
    pairs = list(table.groupby(["rule", "to"], sort=False))
    figure = Figure(figsize=(10, 0.8 + 0.22 * len(pairs[0][1])), layout="constrained")
    axes = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
    for axis, ((rule, to), part) in zip(axes, pairs, strict=True):
        names = [f"{row.concentration}, {row.selected} a round, {row.available}" for row in part.itertuples()]
        axis.axvline(0, color="grey", linewidth=0.6)
        axis.errorbar(part["difference %"], names, xerr=part["+-"], fmt="o", markersize=3, color="#0072B2")
        axis.set(title=f"{rule}\nless {to}", xlabel="loss, %")
    axes[0].invert_yaxis()
    return figure


def what_predicts(runs, first):
    """Fit functions of error, bias and evenness to losses, with every rule and without coverage that has no counts."""
    tables = [
        predictions(part, first).assign(rules=part["rule"].nunique())
        for part in (runs, runs[runs["rule"] != "coverage, no counts"])
    ]
    return pd.concat(tables, ignore_index=True)


def results(setup):
    """Yield the runs' differences, then those of errors."""
    runs, cells = setup.scale.runs, setup.scale.errors

    def gathered(name, compute, plan, labels):
        parts = setup.parts(name, compute, plan, ".parquet")
        rows = pd.concat([part.assign(**dict(zip(labels, key, strict=True))) for key, part in parts.items()])
        rows["concentration"] = rows["concentration"].astype(str)
        return rows[[*labels, *rows.columns.difference(labels, sort=False)]].reset_index(drop=True)

    if runs is not None:
        rows = gathered("runs", trained, runs.plan(), [*WIDE, "rule"])
        yield Rows(rows, "runs")
        has_more = set(runs.rules) > set(RULES)
        pairs = tuple(itertools.product(GRAPHS, (UNIFORM, COUNTS))) if has_more else DIFFERENCES
        table = of_runs(rows, pairs)
        yield Table(table, "loss of runs, % of uniform selection's", "runs")
        if not has_more:
            yield Picture(figure_of(table), "runs")
        else:
            middle = runs.scale.splits[len(runs.scale.splits) // 2]
            yield Table(what_predicts(rows, middle), "what predicts a rule's loss", "predictions")
        means = ["loss", "error", "bias", "variance of counts", "rate", "proved"]
        table = rows.groupby([*WIDE, "rule"], sort=False)[means].mean().reset_index()
        yield Table(table, "what each rule has, means over splits", "rules")
        searched = rows[~rows["rule"].str.rpartition(" on ")[2].isin(LEARNED)]  # the others have a given rate
        edges = searched.groupby([*WIDE, "rule"])["interior"].all()
        yield f"searches for a learning rate that end at an edge of the grid: {(~edges).sum()} of {len(edges)}"

    if cells is not None:
        rows = gathered("errors", errors, cells.plan(), [*CELL, "split"])
        yield Rows(rows, "errors")
        title = f"error of the update on the 3DG of {cells.n} clients, coverage to dispersion, % of random's"
        yield Table(of_errors(rows), title, "errors")
        for size, part in by_objective(rows).groupby("selected"):
            title = f"errors by objective and distances, {size} selected (exploratory)"
            yield Table(part, title, f"errors-objectives-{size}", 1)


STUDY = Study(__doc__, QUICK, PAPER, results, plans=PLANS)


if __name__ == "__main__":
    main(STUDY)
