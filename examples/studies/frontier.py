r"""The frontier of fairness and fit: FedGS's problem with its constraint, every efficient point certified.

FedGS asks for the most even counts subject to a bound on the variance of the update (Eqs. 8 and 9), puts the mean
distance on the 3DG in the variance's place, and then adds the two with a weight α (Eq. 14). Here the constraint is
kept: the largest distance among selections that cost at most so many turns, the sum of the selected clients' counts
above the smallest one. A budget on turns states it, and turns are whole numbers, so that all efficient points of a
round are found, each proved. A point that lies below the line between two others is one that no α reaches.

In a round
    60 clients of digits, 80 % of the samples of each of one label, whose labels decide how often they are there
    (FedAU's rates, 0.1 to 1, of mean 0.4 unclipped). Counts are those of 20 rounds of uniform selection of 6.
Over rounds
    50 such clients for 20 rounds, 5 selected by every rule. The ε-constraint form allows ε turns for each selected
    client above the fewest possible, and takes the largest distance (certified to 1 %); ε = 0 is a round's most even
    selection, ε = ∞ the farthest apart. Two lines are certified as well: no rule that selects 5 has a smaller variance
    of the counts than the clairvoyant schedule, none a larger distance than the bounds of the rounds' problems.
In training
    Mean of the clients' losses after these rounds beside the worst client's, and the mean of the worst tenth.

Rules marked with an asterisk train all who are there, about 20 instead of 5. The unit of replication is a split of the
data with its own rates; intervals are 95 % ones of Student's t, differences to uniform selection are paired, and
adjusted for their number (Holm).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import by_cell, holm
from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.experiments import Choice
from fedselect.experiments.running import build_selector
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import SelectorBase, aggregate
from fedselect.statistics import compare_means, half_width
from graphs import dependency_graph, distances, similarity
from solvers import solve
from solvers.constraints import Budget
from solvers.dispersion import DispersionProblem
from solvers.schedule import ScheduleProblem
from study import Picture, Rows, Study, Table, main

#: Rules by name. Those that weigh by a deadline are given the others' weights, so that steps are equally long.
RULES = {
    "uniform": Choice("uniform"),
    "power-of-choice": Choice("power-of-choice"),
    "FedSS-P": Choice("fedss", {"variant": "proportional"}),
    "E3CS-0.8": Choice("e3cs", {"quota": 0.8, "aggregation": "samples"}),
    "CS-UCB-Q": Choice("cs-ucb-q"),
    "F3AST": Choice("f3ast"),
    "DivFL": Choice("divfl"),
    "Fed-CBS": Choice("fed-cbs"),
    "AFL": Choice("afl"),
    "FedGS, α = 1": Choice("fedgs", {"method": "local-search", "scale": "pairs"}),
    "all available*": Choice("all-available"),
    "FedAU, K = 50*": Choice("fedau", {"cutoff": 50}),
}

#: Relative gap to which a round's constrained problem is certified.
GAP = 0.01

#: Differences of a loss from uniform selection's that are of no account.
MARGIN = 0.02


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: int
    rounds: int
    turns: tuple[float, ...]  #: ε of the constrained form
    n_clients: int = 50
    size: int = 5
    round_clients: int = 60  #: of the round whose efficient points are all found
    round_size: int = 6


QUICK = Scale(splits=20, rounds=20, turns=(0.0, 0.5, 2.0, np.inf))
PAPER = Scale(splits=50, rounds=200, turns=(0.0, 0.25, 0.5, 1.0, 2.0, 5.0, np.inf))


# -- the constrained form ----------------------------------------------------------------------------------------------


def farthest(h, counts, clients, size, turns, **how):
    """Select so many of ``clients`` farthest apart, at distances h (N, N), that cost at most so many turns.

    Turns are the sum of the selected clients' ``counts`` (N,) above the smallest of ``clients``; infinite for any.
    ``how`` is passed on to `solvers.solve`.
    """
    use = (counts[clients] - counts[clients].min()).astype(np.float64)
    budgets = [Budget(use, turns, "turns")] if np.isfinite(turns) and turns < use.sum() else []
    return solve(DispersionProblem(h[np.ix_(clients, clients)], size=size, budgets=budgets), **how)


def fewest_turns(counts, clients, size):
    """Return the fewest turns that a selection of so many of these clients costs."""
    return int(np.sort(counts[clients] - counts[clients].min())[:size].sum())


class Constrained(SelectorBase):
    """Select the clients farthest apart that cost at most ``turns`` each above the fewest turns possible (Eqs. 8-9)."""

    def __init__(self, size, h, turns):
        self.size, self.h, self.turns = size, h, turns
        self.counts = np.zeros(len(h), dtype=np.int64)
        self.bounds = []  #: on each round's mean distance

    def _choose(self, round, present):
        m = min(self.size, present.size)
        limit = fewest_turns(self.counts, present, m) + m * self.turns
        solution = farthest(self.h, self.counts, present, m, limit, gap=GAP, seed=0)
        self.bounds.append(solution.bound / max(1, m * (m - 1)))
        return aggregate(present[solution.selected], round.sizes, "samples")

    def update(self, feedback):
        """Count the selected clients."""
        self.counts += feedback.outcomes >= Outcome.RETURNED


def efficient(h, counts, clients, size):
    """Find all efficient points of a round: turns, the largest mean distance at no more of them, and whether proved.

    A point is ``reached`` by some α if it lies on the concave hull of all.
    """
    rows, turns = [], np.inf
    fewest = fewest_turns(counts, clients, size)
    spent = counts[clients] - counts[clients].min()
    while turns >= fewest:
        solution = farthest(h, counts, clients, size, turns, seed=0)
        cost = int(spent[solution.selected].sum())
        rows.append((cost, solution.objective / (size * (size - 1)), solution.status == "optimal"))
        turns = cost - 1
    table = pd.DataFrame(rows[::-1], columns=["turns", "distance", "proved"])
    # Of points of equal distance the one of fewer turns is efficient.
    table = table[table["distance"].diff().fillna(np.inf) > 1e-6].reset_index(drop=True)
    x, y = table["turns"].to_numpy(dtype=float), table["distance"].to_numpy()
    hull = [0]
    while hull[-1] < len(x) - 1:
        at = hull[-1]
        slopes = (y[at + 1 :] - y[at]) / (x[at + 1 :] - x[at])
        hull.append(at + 1 + int(np.flatnonzero(slopes >= slopes.max() - 1e-12)[-1]))
    return table.assign(reached=np.isin(np.arange(len(table)), hull))


# -- one split ---------------------------------------------------------------------------------------------------------


def clients_of(n, split):
    """Return a split's federation, availability and distances on the 3DG."""
    federation = digits(n_clients=n, partition="sorted-blocks", ratio=0.8, seed=split)
    there = AVAILABILITY.build("fedau-bernoulli", federation, split, mean=0.4, least=0.1)
    return federation, there, distances(dependency_graph(similarity(federation.label_distributions)))


def round_of(scale, split):
    """Find the efficient points of the round after ``scale.rounds`` of uniform selection."""
    _, there, h = clients_of(scale.round_clients, split)
    counts = np.zeros(scale.round_clients, dtype=np.int64)
    for t in range(scale.rounds):
        present = np.flatnonzero(there.available(t))
        chosen = generator(split, "selector", t).choice(present, min(scale.round_size, present.size), replace=False)
        counts[chosen] += 1
    present = np.flatnonzero(there.available(scale.rounds))
    return efficient(h, counts, present, min(scale.round_size, present.size)).assign(split=split)


def training_of(scale, split):
    """Train under every rule on one split: a row each, with counts, distances and losses, and two certified lines."""
    import torch

    from fedselect.training.fedavg import FedAvg

    torch.set_num_threads(1)
    federation, there, h = clients_of(scale.n_clients, split)
    world = Scenario(federation.sizes, there, seed=split, size=scale.size, rounds=scale.rounds, data=federation)
    rules = {name: build_selector(choice, world) for name, choice in RULES.items()}
    rules |= {f"ε = {_turns(turns)}": Constrained(scale.size, h, turns) for turns in scale.turns}
    rows, edge = [], np.nan
    for name, selector in rules.items():
        loop, counts, apart = FedAvg.within(world, selector), np.zeros(scale.n_clients), []
        for _ in range(scale.rounds):
            clients = loop.step(evaluate=False).selection.clients
            counts[clients] += 1
            apart.append(h[np.ix_(clients, clients)].sum() / max(1, clients.size * (clients.size - 1)))
        losses = np.sort(loop.losses(range(scale.n_clients)))
        rows.append(
            {"split": split, "rule": name, "variance": counts.var(), "distance": float(np.mean(apart))}
            | {"loss": losses.mean(), "worst tenth": losses[-scale.n_clients // 10 :].mean(), "worst": losses[-1]}
        )
        if isinstance(selector, Constrained) and np.isinf(selector.turns):
            edge = float(np.mean(selector.bounds))
    schedule = solve(ScheduleProblem(np.array([there.available(t) for t in range(scale.rounds)]), scale.size), seed=0)
    return pd.DataFrame(rows).assign(least_variance=schedule.bound, largest_distance=edge)


def _turns(turns):
    return "∞" if np.isinf(turns) else f"{turns:g}"


# -- tables and figure -------------------------------------------------------------------------------------------------

MEASURES = ("variance", "distance", "loss", "worst tenth", "worst")


def rules_table(rows):
    """Average the rules over splits, with paired differences of the losses to uniform selection's."""
    base = rows[rows["rule"] == "uniform"].set_index("split")

    def measure(part):
        row = {"splits": len(part)}
        for column in MEASURES:
            row |= {column: part[column].mean(), f"± {column}": half_width(part[column])}
        for column in ("loss", "worst tenth"):
            apart = part.set_index("split")[column] - base[column]
            test = compare_means(apart, margin=MARGIN * float(base[column].mean()))
            row |= {f"{column}, to uniform's": test.difference, f"± {column}, to uniform's": test.half}
            row[f"adjusted {column}"] = np.nan if (part["rule"] == "uniform").all() else test.p
        return row

    table = by_cell(rows, ["rule"], measure)
    tests = ["adjusted loss", "adjusted worst tenth"]
    adjusted = holm(table[tests].to_numpy().ravel()).reshape(-1, 2)
    table = table.drop(columns=tests).assign(**dict(zip(tests, adjusted.T, strict=True)))
    return table.assign(
        **{"least variance": rows["least_variance"].mean(), "largest distance": rows["largest_distance"].mean()}
    )


def steps_table(rows):
    """Compare each ε rule with the next looser one: evenness is moved, by a rule that is otherwise the same.

    Means over splits of what changes, paired; the losses' p-values are adjusted for their number.
    """
    names = [name for name in dict.fromkeys(rows["rule"]) if name.startswith("ε")]
    found = []
    for tight, loose in itertools.pairwise(names):
        row = {"rule": tight, "to": loose}
        for column in ("variance", "distance", "loss", "worst tenth"):
            values = rows.pivot(index="split", columns="rule", values=column)
            test = compare_means(values[tight] - values[loose], margin=MARGIN * float(values[loose].mean()))
            row |= {column: test.difference, f"± {column}": test.half, f"adjusted {column}": test.p}
        found.append(row | {"splits": test.n})
    table, tests = pd.DataFrame(found), ["adjusted loss", "adjusted worst tenth"]
    table[tests] = holm(table[tests].to_numpy().ravel()).reshape(-1, 2)
    return table.drop(columns=["adjusted variance", "adjusted distance"])


def points_table(rows):
    """Count a round's efficient points, and those that no α reaches, by split."""
    by_split = rows.groupby("split")
    table = by_split.agg(points=("turns", "size"), reached=("reached", "sum"), proved=("proved", "sum")).reset_index()
    table["share not reached"] = 1 - table["reached"] / table["points"]
    gain = by_split["distance"].agg(["first", "last"])
    return table.assign(**{"distance, fewest turns": gain["first"].to_numpy(), "largest": gain["last"].to_numpy()})


def shown_split(points):
    """Choose the split of the first panel: the lower median of how far apart the smallest and largest distance are."""
    spread = points.groupby("split")["distance"].agg(np.ptp).sort_values(kind="stable")
    return int(spread.index[(len(spread) - 1) // 2])


def frontier_figure(points, table):
    """Draw one round's efficient points, rules over rounds between the certified lines, and mean and worst losses."""
    figure = Figure(figsize=(11.5, 4.0), layout="constrained")
    axes = figure.subplots(1, 3)
    first = points[points["split"] == shown_split(points)]
    axes[0].plot(first["turns"], first["distance"], color="#B0C4DE", linewidth=0.8)
    for reached, colour, label in ((True, "#0072B2", "on the hull"), (False, "#D55E00", "reached by no α")):
        part = first[first["reached"] == reached]
        axes[0].scatter(part["turns"], part["distance"], s=14, color=colour, label=label, zorder=2)
    axes[0].set(
        xlabel="turns above the fewest counts",
        ylabel="mean distance of the selected",
        title="a round, proved; split of median spread",
    )
    axes[0].legend()
    for axis, (x, y) in zip(axes[1:], (("variance", "distance"), ("loss", "worst tenth")), strict=True):
        for _, row in table.iterrows():
            colour = "#D55E00" if str(row["rule"]).startswith("ε") else "#0072B2"
            axis.errorbar(row[x], row[y], row[f"± {y}"], row[f"± {x}"], color=colour, marker=".", elinewidth=0.4)
            axis.annotate(str(row["rule"]), (row[x], row[y]), fontsize=6, xytext=(2, 2), textcoords="offset points")
    axes[1].axvline(float(table["least variance"].iloc[0]), color="grey", linewidth=0.8, linestyle="--")
    axes[1].axhline(float(table["largest distance"].iloc[0]), color="grey", linewidth=0.8, linestyle="--")
    axes[1].set(
        xscale="log", xlabel="variance of the counts (dashed: certified limits)", ylabel="mean distance of the selected"
    )
    axes[2].set(xlabel="mean loss of the clients", ylabel="loss of the worst tenth")
    axes[1].set(title="over rounds")
    axes[2].set(title="in training")
    return figure


def results(setup):
    """Yield a round's efficient points, the rules, and the figure."""
    scale = setup.scale
    plan = {(split,): (scale, split) for split in range(scale.splits)}
    points = pd.concat(setup.parts("rounds", round_of, plan).values(), ignore_index=True)
    rows = pd.concat(setup.parts("training", training_of, plan).values(), ignore_index=True)
    rules = rules_table(rows)
    yield Rows(rows, "splits")
    yield Table(points_table(points), "Efficient points of a round", "points", 3, "%.5g")
    yield Table(points, file="rounds", number="%.6g")
    yield Table(rules, "Rules over the rounds, and losses after them", "rules", 3, "%.5g")
    yield Table(steps_table(rows), "Evenness moved: each ε rule beside the next looser one", "steps", 3, "%.5g")
    yield Picture(frontier_figure(points, rules), "rules")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
