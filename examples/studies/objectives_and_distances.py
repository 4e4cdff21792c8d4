r"""Objectives and distances: the rest of the table of ``objective_on_the_graph.py``, after its third amendment.

The plan is ``plans/objective_on_the_graph.md``. Rows are as there.

runs
    Loss of runs on digits, one factor at a time away from that study's cells: other numbers of clients a round, other
    concentrations of labels (a class), two labels a client; all available, or by labels. Coverage and FedGS stand
    beside uniform selection and beside counts alone. Holm's adjustment is over all differences.
errors
    Error of one round's update, of decisions without counts, all available: objective by distances by concentration by
    clients a round, on digits and letters. ``max-min`` is farthest first from every client, the best of these (within a
    factor of 2 of the optimum). Distances are those of the 3DG, of the 3DG with clients exchanged at random, between
    label mixes, between the updates of this round, and between its losses.
many
    The same on the 3DG for 1 000 clients, letters.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from comparison import by_cell, holm
from fedselect.randomness import generator
from fedselect.statistics import compare_means
from objective_on_the_graph import (
    AVAILABLE,
    CELL,
    COVERAGE,
    FEDGS,
    LOSS_MARGIN,
    TWO,
    UNIFORM,
    UPDATE_MARGIN,
    Scale,
    compared,
    errors_of,
    masks,
    observed,
    runs_of,
    split_of,
    tuned,
)
from solvers import solve
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem
from study import Rows, Study, Table, main

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
    gap: float
    seconds: float

    def plan(self):
        """Return what `errors` is called with, by data, concentration, availability and split."""
        how = (self.n, self.sizes, self.distances, self.gap, self.seconds)
        cells = itertools.product(self.data, self.concentrations, self.splits)
        return {(data, labels, "all", split): (data, labels, *how, split) for data, labels, split in cells}


@dataclass(frozen=True)
class Wide:
    """Amount that is run."""

    runs: Scale
    cells: tuple[tuple[object, int], ...]  #: concentration and clients a round, of the runs; none are run if empty
    errors: Errors
    many: Errors | None


#: One factor at a time away from 10 clients a round at 0.1 and 0.5 a class.
CELLS = (*itertools.product((0.1, 0.5), (3, 20)), *itertools.product((0.05, 1, 10, TWO), (10,)))

DISTANCES = ("3DG", "3DG, permuted", "label mixes", "updates", "losses")

#: The plan's.
PAPER = Wide(
    Scale(splits=tuple(range(100, 115)), tuned_on=tuple(range(90, 93))),
    CELLS,
    Errors(
        ("digits", "letters"),
        (0.05, 0.1, 0.5, 1, 10, TWO),
        100,
        (3, 10, 20),
        DISTANCES,
        tuple(range(100, 110)),
        1e-3,
        2.0,
    ),
    Errors(("letters",), (0.1, 0.5), 1000, (10, 100), ("3DG",), tuple(range(100, 105)), 1e-2, 10.0),
)
#: The errors again, on splits that no run had used (sixth amendment).
AGAIN = replace(PAPER, cells=(), errors=replace(PAPER.errors, splits=tuple(range(130, 140))), many=None)
QUICK = Wide(
    replace(PAPER.runs, splits=(100, 101, 102), tuned_on=(90,)),
    CELLS[:4],
    replace(PAPER.errors, splits=(100, 101, 102)),
    replace(PAPER.many, splits=(100, 101, 102)),
)


def euclidean(features):
    """Compute distances between rows, symmetric and zero on the diagonal."""
    squares = (features**2).sum(axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * features @ features.T, 0.0))
    return (apart + apart.T) / 2 * (1 - np.eye(len(apart)))


def farthest_first(distances, size):
    """Start at every client, add the farthest one each time; return the choice of largest least distance."""
    starts = np.arange(len(distances))
    chosen, near = starts[:, None], distances.copy()
    for _ in range(size - 1):
        near[starts[:, None], chosen] = -1.0  # not again
        added = near.argmax(axis=1)
        chosen = np.column_stack([chosen, added])
        near = np.minimum(near, distances[added])
    between = distances[chosen[:, :, None], chosen[:, None]] + np.where(np.eye(size, dtype=bool), np.inf, 0.0)
    return chosen[between.min(axis=(1, 2)).argmax()]


def decided(objective, apart, size, seed, gap, seconds):
    """Decide by an objective on distances: the clients, and the gap in per cent, none for a heuristic."""
    if objective == "max-min":
        return farthest_first(apart, size), np.nan
    is_spread = objective == "dispersion"
    problem = DispersionProblem(apart, size=size) if is_spread else CoverageProblem(apart.max() - apart, size)
    found = solve(problem, seed=seed, gap=gap, time_limit=seconds)
    return found.selected, 100 * found.gap


def errors(data, concentration, n, sizes, names, gap, seconds, split):
    """Measure the error of decisions on a split, all available: a row per round, size, objective and distances."""
    federation, graph = split_of(data, concentration, n, split)
    order = generator(split, "selector", 10_000).permutation(n)
    fixed = {"3DG": graph, "3DG, permuted": graph[np.ix_(order, order)]}
    fixed["label mixes"] = euclidean(federation.label_distributions)
    rows, known = [], {}
    for t in (0, 10):
        model, rng = observed(federation, t, split), generator(split, "selector", 20_000 + t)
        updates, losses = model.updates.astype(np.float64), np.asarray(model.probed, dtype=np.float64)
        learned = {"updates": euclidean(updates), "losses": np.abs(losses[:, None] - losses)}
        orders = np.argsort(rng.random((1000, n)), axis=1)
        for size in sizes:
            random = errors_of(masks(orders[:, :size], n), federation.sizes, updates)
            cell = {"split": split, "round": t, "selected": size}
            rows.append(cell | {"objective": "random", "distances": "", "error": random.mean(), "percentile": 50.0})
            for objective, name in itertools.product(("dispersion", "coverage", "max-min"), names):
                key = (objective, name, size)
                if name in learned or key not in known:
                    known[key] = decided(objective, (fixed | learned)[name], size, split, gap, seconds)
                chosen, left = known[key]
                error = float(errors_of(masks([chosen], n), federation.sizes, updates)[0])
                rank = 50 * ((random < error).mean() + (random <= error).mean())
                found = {"objective": objective, "distances": name, "error": error, "percentile": rank, "gap %": left}
                rows.append(cell | found)
    return pd.DataFrame(rows)


def trained(data, concentration, available, size, scale):
    """Run every rule in a cell at its own learning rate: a row per rule and split."""
    scale, found = replace(scale, size=size), []
    for rule in RULES:
        trials = tuned(data, concentration, available, rule, scale)
        rows = runs_of(data, concentration, available, rule, float(trials["best"].iloc[0]), scale)
        found.append(rows.assign(rule=rule, interior=bool(trials["interior"].iloc[0])))
    return pd.concat(found, ignore_index=True)


def tested(table):
    """Adjust a table's p-values, and say which differences are beyond chance and margin."""
    table["adjusted"] = holm(table["p"])
    is_clear = (table["adjusted"] < 0.05) & (table["difference %"].abs() >= table["margin"])
    alone = table["same"].lt(0.05).map({True: "the same", False: "inconclusive"})
    table["verdict"] = alone.mask(is_clear, table["difference %"].lt(0).map({True: "ahead", False: "behind"}))
    return table


def of_runs(runs):
    """Test the differences of the loss in every cell, in per cent of uniform selection's."""

    def measure(part, first, second):
        loss = part.pivot(index="split", columns="rule", values="loss")
        return compared(100 * (loss[first] - loss[second]) / loss[UNIFORM], LOSS_MARGIN)

    tables = [
        by_cell(runs, WIDE, lambda part, pair=pair: measure(part, *pair)).assign(rule=pair[0], to=pair[1])
        for pair in DIFFERENCES
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


def results(setup):
    """Yield the runs' differences, then those of errors, then the same among many clients."""
    scale = setup.scale

    def gathered(name, compute, plan, labels):
        parts = setup.parts(name, compute, plan, ".parquet")
        rows = pd.concat([part.assign(**dict(zip(labels, key, strict=False))) for key, part in parts.items()])
        rows["concentration"] = rows["concentration"].astype(str)
        return rows[[*labels, *rows.columns.difference(labels, sort=False)]].reset_index(drop=True)

    plan = {
        ("digits", concentration, available, size): ("digits", concentration, available, size, scale.runs)
        for (concentration, size), available in itertools.product(scale.cells, AVAILABLE)
    }
    if plan:
        runs = gathered("runs", trained, plan, WIDE)
        yield Rows(runs, "runs")
        yield Table(of_runs(runs), "loss of runs, % of uniform selection's", "runs")
        edges = (~runs["interior"]).sum()
        yield f"searches for a learning rate that end at an edge of the grid: {edges} of {len(runs)}"

    for name, cells in (("errors", scale.errors), ("many", scale.many)):
        if cells is None:
            continue
        rows = gathered(name, errors, cells.plan(), [*CELL, "split"])
        yield Rows(rows, name)
        title = f"error of the update on the 3DG of {cells.n} clients, coverage to dispersion, % of random's"
        yield Table(of_errors(rows), title, name)
        table = by_objective(rows)
        for size, part in table.groupby("selected"):
            title = f"{name} by objective and distances, {size} selected (exploratory)"
            yield Table(part, title, f"{name}-objectives-{size}", 1)


STUDY = Study(__doc__, QUICK, PAPER, results, plans={"errors": AGAIN})


if __name__ == "__main__":
    main(STUDY)
