"""The optimiser's curse: whether a selection nearer to the optimum of its objective makes a better update.

Selectors optimise a surrogate. FedGS takes clients that are far apart on the 3DG, and its Theorem 1 says that their
update is then near everybody's; DivFL takes clients that represent all others best. Here the surrogate is optimised
more and more, up to the certified optimum, and what it stands for is measured: the distance of the selected clients'
update from that of all clients, relative to the latter. The error of a selection is given as its percentile among
random selections: 50 is as good as a random one, 0 better than all of them, 100 worse.

All of 100 clients of digits are there. A model is trained by uniform selection; in the first round and ten rounds on,
every client trains from it, so that every selection's update is known, and nothing is trained further. Counts are
equal: the objective is that of the distances alone, as it is where α is large.

dispersion, 3DG
    FedGS's objective on the oracle's graph of label distributions (Eq. 14 with equal counts).
dispersion, updates
    The same with the distances between the clients' updates of this very round: a surrogate that is as well informed
    as one can be.
coverage, updates
    DivFL's facility location, on the same distances.

From 10 random selections, swaps of steepest ascent lead to a local optimum; every selection on the way has a gap to
the certified bound. Greedy and the exact method stand beside. The unit of replication is a split of the data;
intervals are 95 % ones of Student's t over splits, and a selection is called better or worse than random after Holm's
adjustment for all rows, and as good within 5 points (two one-sided tests).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedselect.availability import ideal
from fedselect.data import Federation, digits
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.selectors import Uniform
from fedselect.statistics import compare_means, half_width, holm
from fedselect.studies.study import Parts, Picture, Setup, Study, Table
from graphs import dependency_graph, distances, similarity
from solvers import Solution, solve
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem

DATA = {
    "two labels": {"partition": "two-label"},
    "Dirichlet 0.5": {"partition": "dirichlet", "concentration": 0.5},
    "Dirichlet 0.1": {"partition": "dirichlet", "concentration": 0.1},
}

#: Selections that percentiles are among, and starts of ascents.
RANDOM, STARTS = 1000, 10

#: Relative gaps to the bound, in per cent, into which selections on the way are put; the last has all larger ones.
GAPS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, np.inf)

#: Points of a percentile that are of no account.
MARGIN = 5.0


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: int
    rounds: tuple[int, ...]  #: in which all updates are looked at
    sizes: tuple[int, ...]
    clients: int = 100
    data: tuple[str, ...] = tuple(DATA)


QUICK = Scale(splits=20, rounds=(0, 10), sizes=(10,))
PAPER = Scale(splits=50, rounds=(0, 10, 50), sizes=(3, 10, 20))


# -- updates of all clients --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Answers of all clients that train from one model.

    Attributes
    ----------
    updates : (N, d) ndarray of float32
        Updates Δ.
    losses, norms, received, probed : (N,) ndarray
        Mean losses over the local steps, norms of the updates, losses of the first batches, and of all samples.
    """

    updates: NDArray[np.float32]
    losses: NDArray[np.float64]
    norms: NDArray[np.float64]
    received: NDArray[np.float64]
    probed: NDArray[np.float64]


class Observed(Uniform):
    """Uniform selection, but for rounds in which every client trains, its answer is kept, and nothing is applied."""

    def __init__(self, size: int, rounds: tuple[int, ...]) -> None:
        super().__init__(size)
        self.rounds = rounds
        self.models: dict[int, Checkpoint] = {}
        self._probed = np.empty(0)

    def select(self, round: RoundContext) -> Selection:
        """Select all clients, of weight 0, in a round that is looked at."""
        if round.round not in self.rounds:
            return super().select(round)
        clients = np.flatnonzero(round.available)
        assert round.probe is not None
        self._probed = round.probe(clients.tolist())
        return Selection(clients, np.zeros(clients.size))

    def update(self, feedback: RoundFeedback) -> None:
        """Keep what the clients sent."""
        if feedback.round in self.rounds:
            clients = feedback.selection.clients.tolist()
            sent = (feedback.losses, feedback.norms, feedback.received_losses)
            losses, norms, received = (np.array([each[client] for client in clients]) for each in sent)
            updates = np.stack([feedback.updates[client] for client in clients])
            self.models[feedback.round] = Checkpoint(updates, losses, norms, received, self._probed)


def observed(federation: Federation, rounds: tuple[int, ...], seed: int) -> dict[int, Checkpoint]:
    """Train a federation by uniform selection of a tenth of the clients, and return what all send in some rounds."""
    import torch

    from fedselect.training.fedavg import FedAvg

    torch.set_num_threads(1)
    selector = Observed(max(1, len(federation) // 10), rounds)
    loop = FedAvg(federation, selector, ideal(federation, seed), seed=seed)
    for _ in range(max(rounds) + 1):
        loop.step(evaluate=False)
    return selector.models


def errors_of(selected: NDArray[np.bool_], sizes: NDArray, updates: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Compute how far selections' updates are from that of all, relative to it.

    .. math:: \Big\| \sum_{k \in S} \frac{n_k}{n_S} \Delta_k - \Delta \Big\| / \|\Delta\|,
              \quad \Delta = \sum_k \frac{n_k}{n} \Delta_k

    Parameters
    ----------
    selected : (..., N) array of bool
        Selections.
    sizes : (N,) array
        Samples n.
    updates : (N, d) array
        Updates Δ.
    """
    shares = selected * sizes
    shares = shares / shares.sum(axis=-1, keepdims=True) - sizes / sizes.sum()
    whole = float(np.linalg.norm(sizes @ updates / sizes.sum()))
    return np.linalg.norm(shares @ updates, axis=-1) / whole


# -- surrogates --------------------------------------------------------------------------------------------------------

GRAPH = "dispersion, 3DG"

#: Values of all swaps of a selection, (m, n): client i of it leaves, j of the others joins.
Swaps = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


def dispersion_swaps(h: NDArray[np.float64]) -> Swaps:
    """Evaluate the sum of all pairs' distances, each counted twice, after every swap."""

    def values(inside: NDArray[np.int64], outside: NDArray[np.int64]) -> NDArray[np.float64]:
        sums = h[:, inside].sum(axis=1)
        after: NDArray[np.float64] = sums[outside][None, :] - sums[inside][:, None] - h[np.ix_(inside, outside)]
        return sums[inside].sum() + 2 * after

    return values


def coverage_swaps(s: NDArray[np.float64]) -> Swaps:
    """Evaluate how well all clients are represented after every swap."""

    def values(inside: NDArray[np.int64], outside: NDArray[np.int64]) -> NDArray[np.float64]:
        rest = np.array([s[:, np.delete(inside, i)].max(axis=1, initial=-np.inf) for i in range(inside.size)])
        return np.maximum(rest[:, :, None], s[None, :, outside]).sum(axis=1)

    return values


def ascent(swaps: Swaps, start: NDArray[np.int64], n: int) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Yield a selection and those that steepest ascent by swaps leads to, with their values."""
    inside = start
    outside = np.setdiff1d(np.arange(n), inside)
    value = -np.inf
    while True:
        values = swaps(inside, outside)
        leaves, joins = np.unravel_index(int(values.argmax()), values.shape)
        if value == -np.inf:  # the start's own: swap a client with itself
            value = float(swaps(inside, inside)[0, 0])
            yield inside, value
        if values[leaves, joins] <= value + 1e-9 * abs(value):
            return
        value = float(values[leaves, joins])
        joining = outside[joins]
        inside = np.sort(np.append(np.delete(inside, leaves), joining))
        outside = np.setdiff1d(np.arange(n), inside)
        yield inside, value


def surrogates(
    graph: NDArray[np.float64], updates: NDArray[np.float64], size: int
) -> dict[str, tuple[DispersionProblem | CoverageProblem, Swaps]]:
    """State the surrogates of a round, each with its swaps."""
    products = updates @ updates.T
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0))
    apart = (apart + apart.T) / 2 * (1 - np.eye(len(apart)))
    near = apart.max() - apart
    return {
        GRAPH: (DispersionProblem(graph, size=size), dispersion_swaps(graph)),
        "dispersion, updates": (DispersionProblem(apart, size=size), dispersion_swaps(apart)),
        "coverage, updates": (CoverageProblem(near, size), coverage_swaps(near)),
    }


def curse_of(data: str, n: int, rounds: tuple[int, ...], sizes: tuple[int, ...], split: int) -> pd.DataFrame:
    """Measure one split: a row per selection, with its gap to the bound in per cent and the percentile of its error."""
    federation = digits(n_clients=n, seed=split, **DATA[data])  # type: ignore[arg-type]
    samples, graph = federation.sizes, distances(dependency_graph(similarity(federation.label_distributions)))
    models = observed(federation, rounds, split)
    rng = np.random.default_rng(split)
    rows: list[dict[str, object]] = []
    known: dict[int, tuple[Solution, Solution]] = {}  # the graph's surrogate is the same in all rounds
    for t, model in models.items():
        of_round = model.updates.astype(np.float64)
        for size in sizes:
            drawn = np.argsort(rng.random((RANDOM, n)), axis=1)[:, :size]
            random = np.sort(errors_of(_masks(drawn, n), samples, of_round))
            for name, (problem, swaps) in surrogates(graph, of_round, size).items():
                if name != GRAPH or size not in known:
                    # A machine under load must not decide how far a search gets: no time limit, a gap of 1 %.
                    solved = solve(problem, gap=0.01, seed=split), solve(problem, method="greedy", seed=split)
                    known |= {size: solved} if name == GRAPH else {}
                exact, greedy = known[size] if name == GRAPH else solved
                assert exact.bound is not None
                assert exact.objective is not None
                assert greedy.objective is not None
                reference = abs(exact.bound)
                found = [("exact", exact.selected, exact.objective), ("greedy", greedy.selected, greedy.objective)]
                for start in drawn[:STARTS]:
                    way = [("on the way", *each) for each in ascent(swaps, np.sort(start), n)]
                    found += [("random", *way[0][1:]), *way[1:-1], ("swap ascent", *way[-1][1:])]
                errors = errors_of(_masks([chosen for _, chosen, _ in found], n), samples, of_round)
                places = np.searchsorted(random, errors, "left") + np.searchsorted(random, errors, "right")
                cell = {"data": data, "split": split, "round": t, "M": size, "surrogate": name}
                rows += [
                    cell
                    | {"decided by": label, "gap %": 100 * max(0.0, exact.bound - value) / reference}
                    | {"error": error, "percentile": 50 * place / RANDOM}
                    for (label, _, value), error, place in zip(found, errors, places, strict=True)
                ]
    return pd.DataFrame(rows)


def _masks(selections: list[NDArray[np.int64]] | NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """Return selections as a table of truth values, (k, n)."""
    masks = np.zeros((len(selections), n), dtype=np.bool_)
    for mask, chosen in zip(masks, selections, strict=True):
        mask[chosen] = True
    return masks


# -- tables and figure -------------------------------------------------------------------------------------------------

CELL = ["surrogate", "data", "round", "M"]


def decisions(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the error's percentile over splits, by who decided, and say whether it is better than random."""
    found = []
    for key, group in rows[rows["decided by"] != "on the way"].groupby([*CELL, "decided by"], sort=False):
        of_split = group.groupby("split")[["gap %", "error", "percentile"]].mean()
        test = compare_means(of_split["percentile"], 50.0, margin=MARGIN)
        found.append(
            dict(zip([*CELL, "decided by"], key, strict=True))
            | {"gap %": of_split["gap %"].mean(), "error": of_split["error"].mean()}
            | {"percentile": 50 + test.difference, "+-": test.half, "splits": test.n, "p": test.p}
            | {"same": test.verdict == "agrees"}
        )
    table = pd.DataFrame(found)
    tested = table["decided by"] != "random"  # percentiles are among random ones
    table["adjusted"] = np.nan
    table.loc[tested, "adjusted"] = holm(table.loc[tested, "p"])
    table["than random"] = np.where(
        table["adjusted"] < 0.05,
        np.where(table["percentile"] < 50, "better", "worse"),
        np.where(table["same"], "the same", "inconclusive"),
    )
    table.loc[~tested, "than random"] = ""
    return table.drop(columns=["p", "same"])


def curve(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the error's percentile over splits by the gap, of all selections but greedy's."""
    labelled = rows[rows["decided by"] != "greedy"]
    between = [f"{low:g}-{high:g}" for low, high in itertools.pairwise(GAPS[1:-1])]
    names = [f"up to {GAPS[1]:g}", *between, f"> {GAPS[-2]:g}"]
    labelled = labelled.assign(gap=pd.cut(labelled["gap %"], GAPS, labels=names, include_lowest=True))
    of_split = labelled.groupby([*CELL, "gap", "split"], sort=False, observed=True)["percentile"].mean()
    groups = of_split.groupby(level=[*CELL, "gap"], sort=False, observed=True)
    table = groups.agg(percentile="mean", half=half_width, splits="count").reset_index()
    return table.sort_values([*CELL, "gap"], kind="stable").rename(columns={"gap": "gap, %", "half": "+-"})


def curse_figure(table: pd.DataFrame) -> Figure:
    """Draw the error's percentile against the gap: panels by surrogate and M, a line per data and round."""
    surrogates_, sizes = table["surrogate"].unique(), table["M"].unique()
    figure = Figure(figsize=(3.6 * len(surrogates_), 2.7 * len(sizes)), layout="constrained")
    axes = figure.subplots(len(sizes), len(surrogates_), squeeze=False, sharex=True, sharey=True)
    gaps = list(table["gap, %"].cat.categories)[::-1]
    colours = dict(zip(table["data"].unique(), ("#0072B2", "#E69F00", "#D55E00", "#009E73"), strict=False))
    rounds = sorted(table["round"].unique())
    for line, size in zip(axes, sizes, strict=True):
        for axis, name in zip(line, surrogates_, strict=True):
            part = table[(table["M"] == size) & (table["surrogate"] == name)]
            for (data, t), mine in part.groupby(["data", "round"], sort=False, observed=True):
                mine = mine[mine["splits"] >= 3]
                places = [gaps.index(gap) for gap in mine["gap, %"]]
                axis.errorbar(
                    places,
                    mine["percentile"],
                    mine["+-"],
                    color=colours[data],
                    linestyle="-" if t == rounds[0] else "--",
                    linewidth=1.2,
                    elinewidth=0.6,
                    marker=".",
                    label=f"{data}, round {t}",
                )
            axis.axhline(50, color="grey", linewidth=0.6)
            axis.set_ylim(0, 100)
            axis.set_xticks(range(len(gaps)), gaps, rotation=60, fontsize=7)
            axis.set_title(f"{name}, M = {size}", fontsize=9)
        line[0].set_ylabel("error of the update,\npercentile of random", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("gap to the certified bound, %", fontsize=8)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def splits(setup: Setup[Scale]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Plan every split of every kind of data."""
    scale = setup.scale
    return {
        (data, split): (data, scale.clients, scale.rounds, scale.sizes, split)
        for split in range(scale.splits)
        for data in scale.data
    }


def results(setup: Setup[Scale]) -> Iterator[Table | Picture | str]:
    """Yield decisions, curve and figure."""
    rows = pd.concat(setup["splits"].values(), ignore_index=True)
    table = curve(rows)
    yield Table(
        decisions(rows), "Error of the selected clients' update, percentile of random selections", "decisions", 1
    )
    yield Table(table, "The same by the gap to the certified bound", "curve", 1)
    yield Picture(curse_figure(table), "curve")


STUDY = Study(__doc__, QUICK, PAPER, results, data={"splits": Parts(splits, curse_of)})
