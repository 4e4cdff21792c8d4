"""The price of myopia: what a selector loses that decides round by round, against one that knows who will be there.

Selectors balance how often each client is selected, and see one round at a time. Where availability is known for all
rounds, the most even counts are a flow, solved exactly (`solvers.schedule`): no selector of as many clients reaches a
smaller variance. Between the two stand planners that look some rounds ahead, plan these exactly, select as planned for
one, and plan anew: by who will really be there, or by a forecast. The forecast knows each chain's rates and who is
there now, and takes for there who is there with probability above one half. Uniform selection, the control, balances
nothing.

In counts
    100 clients, 10 a round. The unit of replication is a draw of the availability; ratios to the clairvoyant's variance
    are paired by it, with 95 % intervals of Student's t.
In loss
    The same selections train on digits, with two labels per client, or with one main label that decides how often a
    client is there. The unit of replication is a split of the data; draw and training have its seed, and all planners
    of a split the same clients, batches and initial model. Measured are the test loss after the last round, its mean
    over the last fifth of the rounds ("late"), the accuracy, and the mean loss of the worst tenth of the clients.
    Differences to the clairvoyant are paired by split, with 95 % intervals. ``adjusted`` is a difference's p-value, for
    all of them together (Holm), ``within`` that of the two one-sided tests: below 0.05 the difference is within 2 % of
    the clairvoyant's mean. Many schedules have the least variance. The one played is made from round by round's by
    exchanges, so that the two share most selections; ``shared`` is the share of the clairvoyant's selections that a
    planner makes, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import baseline_values, by_cell, holm
from fedselect.availability import AVAILABILITY, TwoState
from fedselect.data import digits
from fedselect.experiments import Choice
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import SelectorBase, aggregate
from fedselect.statistics import compare_means, half_width
from solvers import solve
from solvers.schedule import ScheduleProblem
from study import Picture, Rows, Study, Table, main, select_without_training


@dataclass(frozen=True)
class Kind:
    """A kind of availability, and the options of the digits whose split is trained on; counts alone where None."""

    availability: Choice
    data: Mapping[str, Any] | None = None


TWO_LABELS = {"partition": "two-label"}

#: Kinds of availability by name.
KINDS = {
    "LN 0.5": Kind(Choice("lognormal", {"beta": 0.5}), TWO_LABELS),
    "SLN 0.5": Kind(Choice("sin-lognormal", {"beta": 0.5})),
    "chains, 0.9 and 0.1 there, λ = 0.9 or 0": Kind(Choice("ca-fed"), TWO_LABELS),
    "chains, half the time there, λ = 0.9": Kind(Choice("markov", {"rate": 0.5, "correlation": 0.9}), TWO_LABELS),
    "ten groups over a day": Kind(Choice("group-trace")),
    "chains, labels decide, 0.1 to 1 there": Kind(
        Choice("fedau-markov", {"mean": 0.4, "least": 0.1}), {"partition": "sorted-blocks", "ratio": 0.8}
    ),
}

UNIFORM, ROUND_BY_ROUND, CLAIRVOYANT = "uniform", "round by round", "clairvoyant"

#: What is measured of a training.
OUTCOMES = ("loss", "late loss", "accuracy", "worst tenth")

#: Differences of less than this share of the clairvoyant's mean are of no account.
MARGIN = 0.02


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    rounds: int
    draws: int
    horizons: tuple[int, ...]
    n_clients: int = 100
    size: int = 10


QUICK = Scale(rounds=100, draws=20, horizons=(2, 5, 10))
PAPER = Scale(rounds=1000, draws=50, horizons=(2, 5, 10, 50))


def forecast(chains, there, horizon):
    r"""Predict who is there in the next ``horizon`` rounds, the present one first: those with probability above 1/2.

    .. math:: P(k \in A_{t+h} \mid A_t) = \pi_k + \lambda_k^h \, ([k \in A_t] - \pi_k)

    ``there`` (N,) is who is there now, and the first row of what is returned, (horizon, N); ``chains`` know π and λ.
    """
    steps = np.arange(horizon)[:, None]
    chance = chains.stationary + chains.correlation**steps * (there - chains.stationary)
    chance[0] = there
    return chance > 0.5


def with_forecast(chains, available, size, horizon):
    """Plan ``horizon`` forecast rounds exactly, select as planned for one, and plan anew; return the plan, (T, N)."""
    table = np.zeros_like(available)
    for t, there in enumerate(available):
        expected = forecast(chains, there, min(horizon, len(available) - t))
        expected = expected[expected.any(axis=1)]  # the problem has no rounds without clients
        if there.any():
            plan = solve(ScheduleProblem(expected, size, table.sum(axis=0)), seed=t).x
            table[t] = plan[0]
    return table


def plans(world, horizons):
    """Play every planner: its selections of all rounds, (T, N), and the status, by name."""
    available = np.array([world.availability.available(t) for t in range(world.rounds)])
    uniform = np.zeros_like(available)
    for each in select_without_training(world, Choice("uniform")):
        uniform[each.round, each.selection.clients] = True
    problem, seed = ScheduleProblem(available, world.size), world.seed
    solved = {ROUND_BY_ROUND: solve(problem, method="round-by-round", seed=seed)}
    solved |= {f"{h} rounds known": solve(problem, method="rolling", horizon=h, seed=seed) for h in horizons}
    solved[CLAIRVOYANT] = solve(problem, seed=seed)
    found = {UNIFORM: (uniform, "feasible")}
    found |= {
        planner: (np.asarray(solution.x, dtype=np.bool_), solution.status) for planner, solution in solved.items()
    }
    if isinstance(world.availability, TwoState):
        for h in horizons:
            found[f"{h} rounds forecast"] = (with_forecast(world.availability, available, world.size, h), "feasible")
    return found


class Planned(SelectorBase):
    """Select as a plan has it, (T, N)."""

    def __init__(self, plan):
        self.plan = plan

    def _choose(self, round, present):
        return aggregate(np.flatnonzero(self.plan[round.round]), round.sizes, "samples")


def trained(world, plan):
    """Train on the selections of a plan, and measure what is in `OUTCOMES`."""
    import torch

    from fedselect.training.fedavg import FedAvg

    torch.set_num_threads(1)
    loop = FedAvg.within(world, Planned(plan))
    late = world.rounds - max(1, world.rounds // 5)
    rounds = [loop.step(evaluate=t >= late) for t in range(world.rounds)]
    losses = [each.loss for each in rounds[late:] if each.loss is not None]
    own = np.sort(loop.losses(range(world.n_clients)))
    values = (losses[-1], float(np.mean(losses)), rounds[-1].accuracy, float(own[-max(1, own.size // 10) :].mean()))
    return dict(zip(OUTCOMES, values, strict=True))


def trains(planner, horizons):
    """Whether a planner's selections train: all but those of the shorter forecasts."""
    return not planner.endswith("forecast") or planner == f"{max(horizons)} rounds forecast"


def priced(name, n, size, rounds, horizons, draw):
    """Play one draw of the availability; a row per planner with the variance of the counts, and what came of them."""
    kind = KINDS[name]
    federation = digits(n_clients=n) if kind.data is None else digits(n_clients=n, seed=draw, **kind.data)
    there = AVAILABILITY.build(kind.availability.name, federation, draw, **kind.availability.options)
    world = Scenario(federation.sizes, there, seed=draw, size=size, rounds=rounds, data=federation)
    rows = []
    found = plans(world, horizons)
    best, _ = found[CLAIRVOYANT]
    for planner, (plan, status) in found.items():
        variance = float(ScheduleProblem(plan, size).variance(plan.sum(axis=0)))
        row = {"availability": name, "draw": draw, "planner": planner, "variance": variance, "status": status}
        row["shared"] = (plan & best).sum() / best.sum()
        outcomes = dict.fromkeys(OUTCOMES, np.nan)
        if kind.data is not None and trains(planner, horizons):
            outcomes = trained(world, plan)
        rows.append(row | outcomes)
    return pd.DataFrame(rows)


def prices(rows):
    """Average variances over draws, with their ratios to the clairvoyant's; infinite where that is 0 in some draw.

    The mean of the ratios stands beside the ratio of the means, which no single draw of small variance decides.
    """
    theirs = baseline_values(rows, "planner", CLAIRVOYANT, ["availability", "draw"], "variance")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(rows["variance"].to_numpy() == theirs, 1.0, rows["variance"].to_numpy() / theirs)

    def measure(part):
        finite = bool(np.isfinite(part["ratio"]).all())
        return (
            {"variance": part["variance"].mean(), "± variance": half_width(part["variance"])}
            | {"of clairvoyant's": part["ratio"].mean() if finite else np.inf}
            | {"±": half_width(part["ratio"]) if finite else np.nan}
            | {"draws": len(part), "proved": int((part["status"] == "optimal").sum())}
        )

    table = by_cell(rows.assign(ratio=ratio), ["availability", "planner"], measure)
    best = table[table["planner"] == CLAIRVOYANT].set_index("availability")["variance"]
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio of means"] = table["variance"].to_numpy() / best[table["availability"]].to_numpy()
    return table


def losses(rows):
    """Compute the differences to the clairvoyant, paired by split: a row for each planner and outcome."""
    found = []
    for name, kind in rows.dropna(subset="loss").groupby("availability", sort=False):
        by_planner = {planner: part.set_index("draw") for planner, part in kind.groupby("planner", sort=False)}
        best = by_planner.pop(CLAIRVOYANT)
        for (planner, part), outcome in itertools.product(by_planner.items(), OUTCOMES):
            mean = float(best[outcome].mean())
            test = compare_means(part[outcome] - best[outcome], margin=MARGIN * mean)
            found.append(
                {"availability": name, "planner": planner, "variance": part["variance"].mean()}
                | {"clairvoyant's variance": best["variance"].mean(), "shared": part["shared"].mean()}
                | {"outcome": outcome, "clairvoyant's": mean, "difference": test.difference, "±": test.half}
                | {"in %": 100 * test.difference / mean, "± %": 100 * test.half / mean}
                | {"adjusted": test.p, "within": test.p_equivalent, "splits": test.n}
            )
    table = pd.DataFrame(found)
    return table.assign(adjusted=holm(table["adjusted"]))


def verdict(table):
    """Count for each planner how many of its differences are beyond chance, and how many within the margin."""
    for planner, part in table.groupby("planner", sort=False):
        differ, same = int((part["adjusted"] < 0.05).sum()), int((part["within"] < 0.05).sum())
        yield (
            f"{planner}, against clairvoyant: of {len(part)} differences {differ} are beyond chance, "
            f"{same} within {100 * MARGIN:g} %"
        )


def price_figure(table, horizons):
    """Draw the variance over the clairvoyant's by the rounds that a planner looks ahead; forecasts are dashed."""
    figure = Figure(figsize=(6.5, 5.0), layout="constrained")
    axis = figure.subplots()
    known = [ROUND_BY_ROUND, *(f"{h} rounds known" for h in horizons)]
    guessed = [ROUND_BY_ROUND, *(f"{h} rounds forecast" for h in horizons)]
    for colour, (name, part) in zip(
        ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7"),
        table.groupby("availability", sort=False),
        strict=False,
    ):
        cells = part.set_index("planner")
        if not np.isfinite(cells["of clairvoyant's"]).all():
            name = f"{name} (clairvoyant: 0 in some draw)"
        for planners, dashes in ((known, "-"), (guessed, "--")):
            if planners[-1] in cells.index:
                y, half = (cells.loc[planners, column].to_numpy(dtype=float) for column in ("of clairvoyant's", "±"))
                label = name if dashes == "-" else None
                axis.errorbar(
                    range(len(y)), y, half, color=colour, linestyle=dashes, marker=".", elinewidth=0.6, label=label
                )
    axis.axhline(1.0, color="grey", linewidth=0.6)
    axis.set_xticks(range(len(known)), ["1", *map(str, horizons)])
    axis.set(
        xlabel="rounds that the planner looks at (dashed: forecast, not known)",
        ylabel="variance of the counts,\nof the clairvoyant optimum's",
    )
    figure.legend(loc="outside upper center", ncols=2)
    axis.grid(alpha=0.3)
    return figure


def loss_figure(table):
    """Draw the differences of the losses to the clairvoyant, in per cent of its, by planner; the margin is shaded."""
    kinds = table.groupby("availability", sort=False)
    rows = (kinds.ngroups + 1) // 2
    figure = Figure(figsize=(10.5, 2.8 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, 2, sharex=True, squeeze=False).ravel()
    drawn = {
        "late loss": "test loss, last fifth of the rounds",
        "worst tenth": "loss of the worst tenth of the clients",
    }
    ticks = [-10, -5, -2, 0, 2, 5, 10, 20, 50]
    for axis, (name, kind) in zip(axes, kinds, strict=False):
        kind = kind.sort_values("variance", kind="stable")
        planners = kind.drop_duplicates("planner")
        place = np.arange(len(planners))
        for outcome, colour, marker, shift in zip(drawn, ("#0072B2", "#D55E00"), "os", (0.15, -0.15), strict=True):
            part = kind[kind["outcome"] == outcome]
            axis.errorbar(
                part["in %"],
                place + shift,
                xerr=part["± %"],
                fmt=marker,
                color=colour,
                markersize=4,
                label=drawn[outcome],
            )
        axis.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.9", zorder=0)
        axis.axvline(0.0, color="grey", linewidth=0.6)
        axis.set_xscale("symlog", linthresh=5)
        axis.set_xticks(ticks, list(map(str, ticks)))
        axis.minorticks_off()
        axis.set_yticks(place, [f"{row.planner} ({row.variance:.1f})" for row in planners.itertuples()])
        best = kind["clairvoyant's variance"].iloc[0]
        axis.set(title=f"{name} (clairvoyant: {best:.1f})")
        axis.tick_params(labelsize=8, labelbottom=True)
        axis.grid(alpha=0.3, axis="x")
    figure.supxlabel("difference to the clairvoyant's, % (shaded: margin; in brackets: variance of counts)", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def draws(setup):
    """Plan every draw of every availability, by its place."""
    scale = setup.scale
    return {
        (place, draw): (name, scale.n_clients, scale.size, scale.rounds, scale.horizons, draw)
        for draw in range(scale.draws)
        for place, name in enumerate(KINDS)
    }


def results(setup):
    """Yield both tables and figures."""
    scale = setup.scale
    parts = setup.parts("draws", priced, draws(setup))
    rows = pd.concat(parts.values(), ignore_index=True)
    yield Rows(rows, "draws")
    table = prices(rows)
    yield Table(table, f"Variance of the counts after {scale.rounds} rounds, by what the planner knows", "prices", 2)
    yield Picture(price_figure(table, scale.horizons), "prices")
    found = losses(rows)
    yield Table(found, f"Losses after {scale.rounds} rounds, and differences to the clairvoyant", "losses", 3, "%.5g")
    yield from verdict(found)
    yield Picture(loss_figure(found), "losses")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
