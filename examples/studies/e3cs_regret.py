"""E3CS (Huang et al., IEEE IoT-J 2022): regret beside Theorem 1's bound, and Fig. 7's k = 10, 20 and 30.

Regret is what the best fixed allocation would have had in effective participations beyond what E3CS's probabilities
promise (Definition 1 with one q* for all rounds, for which alone Theorem 1 is true): known afterwards, as it is drawn
for every client whether it would have come back. η is the paper's 0.5 and the η* that minimises the bound. At σ = 0 the
bound is unproved (Fact 8 needs η ≤ Kσ / (k − Kσ)), and the successive draw has other inclusion probabilities than the
theorem assumes: both are shown, and the last column says where the theorem holds.

Then Fig. 7: every scheme trains with k = 10, 20 and 30 clients a round, iid and not, E3CS with the paper's draw
(``--paper``: and with an exact one). The quick plan has a quarter of the rounds: orders at the end may be others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from comparison import baseline_values, by_cell, holm
from e3cs import CLIENTS, QUOTAS, STYLES, TASKS, experiment, pairs, selector
from fedselect.experiments import Choice, Experiment, build_scenario
from fedselect.experiments.figures import panels_figure
from fedselect.statistics import compare_means, half_width
from solvers.capping.theory import best_rate, constant_floors, incremental_floors, regret_bound
from study import Picture, Rows, Study, Table, curves, main, select_without_training

SIZES = (10, 20, 30)

#: Leads in accuracy over the rounds that are of no account, in points.
MARGIN = 1.0


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    rounds: int
    seeds: int
    draws: tuple[str, ...]
    training_share: float
    training_seeds: int
    training_draws: tuple[str, ...] = ("successive",)  #: the figure shows the first, which is the paper's


QUICK = Scale(rounds=500, seeds=3, draws=("madow", "successive"), training_share=0.25, training_seeds=3)
PAPER = Scale(2500, 10, QUICK.draws, training_share=1.0, training_seeds=5, training_draws=("successive", "madow"))


def floors(scheme, size, rounds):
    """Compute the quotas σ_t of a scheme, shape (T,)."""
    quota = QUOTAS[scheme]
    if isinstance(quota, str):
        return incremental_floors(CLIENTS, size, rounds)
    return constant_floors(CLIENTS, size, rounds, float(quota))


def best_fixed(returns, floors, size):
    r"""Compute the effective participations of the best fixed allocation, known afterwards (Eqs. 24 and 25).

    It gives client i the probability :math:`\sigma_t + (k - K\sigma_t) q_i` in round t, with q on the simplex and no
    probability above 1: all that the quota leaves goes to the clients that came back most, in the rounds in which
    something is left. ``returns`` (T, K) says whether each client would have come back, ``floors`` (T,) are σ_t.
    """
    came, sigma = np.asarray(returns, dtype=np.float64), np.asarray(floors, dtype=np.float64)
    clients = came.shape[1]
    rest = np.maximum(size - clients * sigma, 0.0)
    left = rest > 0
    if not left.any():
        return float(sigma @ came.sum(axis=1))
    most = min(1.0, float(((1 - sigma[left]) / rest[left]).min()))
    gains = np.sort(rest @ came)[::-1]
    share = np.clip(1.0 - most * np.arange(clients), 0.0, most)
    return float(sigma @ came.sum(axis=1) + share @ gains)


def played(scheme, size, draw, rate, rounds, seed):
    """Play a run without training; one row: the regret, what the probabilities promised, and the success ratio."""
    scenario = build_scenario(
        Experiment(rounds=rounds, seed=seed, clients_per_round=size, dropout=Choice("success-classes"))
    )
    chosen = Choice("e3cs", {"quota": QUOTAS[scheme], "draw": draw, "rate": rate})
    promised, real, returns = 0.0, 0, np.zeros((rounds, CLIENTS), dtype=np.bool_)
    for each in select_without_training(scenario, chosen, sizes=[1] * CLIENTS):
        returns[each.round] = scenario.dropout.returned(each.round)
        promised += float(np.asarray(each.selection.solution.x) @ returns[each.round])
        real += int(returns[each.round][each.selection.clients].sum())
    best = best_fixed(returns, floors(scheme, size, rounds), size)
    row = {"best": best, "promised": promised, "regret": best - promised, "success ratio": real / (rounds * size)}
    return pd.DataFrame([row])


def cells(scale):
    """Iterate over k, scheme and name of η, with η and the quotas."""
    for size in SIZES:
        for scheme in QUOTAS:
            sigma = floors(scheme, size, scale.rounds)
            yield (size, scheme, "0.5"), 0.5, sigma
            yield (size, scheme, "best"), best_rate(CLIENTS, size, sigma), sigma


def regret_grid(setup):
    """Plan the selections by k, scheme, η, draw and seed."""
    return {
        (*cell, draw, seed): (cell[1], cell[0], draw, rate, setup.scale.rounds, seed)
        for cell, rate, _ in cells(setup.scale)
        for draw in setup.scale.draws
        for seed in range(setup.scale.seeds)
    }


def played_rows(setup):
    """Play every run of the regret: one row per k, scheme, name of η, draw and seed."""
    parts = setup.parts("regret", played, regret_grid(setup))
    labels = ("k", "scheme", "η", "draw", "seed")
    return pd.concat([part.assign(**dict(zip(labels, key, strict=True))) for key, part in parts.items()])


def regrets(runs, scale):
    """Compute the regret beside its bound, means over seeds; η = 0.5 and η*."""
    rows, of_cell = [], runs.groupby(["k", "scheme", "η", "draw"])
    for (size, scheme, name), rate, sigma in cells(scale):
        bound = regret_bound(CLIENTS, size, sigma, rate)
        rest = np.maximum(size - CLIENTS * sigma, 0.0)
        proved = bool((rate * rest <= CLIENTS * sigma * (1 + 1e-12))[rest > 0].all())
        for draw in scale.draws:
            found = of_cell.get_group((size, scheme, name, draw))
            row = {"k": size, "scheme": scheme, "draw": draw, "η": f"{name} ({rate:.3f})"}
            row |= {"regret": found["regret"].mean(), "largest": found["regret"].max(), "bound": bound}
            row |= {"regret / bound": found["regret"].mean() / bound}
            row |= {"success ratio": found["success ratio"].mean(), "seeds": len(found)}
            rows.append(row | {"theorem holds": "yes" if proved and draw != "successive" else "no"})
    return pd.DataFrame(rows)


def training_grid(setup):
    """Plan the training of every scheme with k = 10, 20 and 30 by partition, k, scheme, draw and seed."""
    return {
        (partition, size, scheme, draw, seed): experiment(
            setup.dataset,
            setup.root,
            partition,
            seed,
            size=size,
            name=f"{partition}-k{size}",
            rounds=training_rounds(setup),
            selector=selector(scheme, draw),
        )
        for seed in range(setup.scale.training_seeds)
        for partition in ("iid", "non-iid")
        for size in SIZES
        for scheme, draw in pairs(setup.scale.training_draws)
    }


def training_rounds(setup):
    """Return how many rounds of training the scale has."""
    return max(1, round(TASKS[setup.dataset].rounds * setup.scale.training_share))


def measures(run):
    """Measure a trained run, accuracies in per cent."""
    end = run.summary()
    accuracies = {f"{which} accuracy": 100 * end[f"{which}_accuracy"] for which in ("final", "mean")}
    return accuracies | {"success ratio": end["success_ratio"]}


def results(setup):
    """Yield regret, training and the figure."""
    experiment(setup.dataset, setup.root, "iid").federation()  # missing files are noticed now, not later
    title = f"Regret in {setup.scale.rounds} rounds, in effective participations, beside Theorem 1's bound"
    played_runs = played_rows(setup)
    yield Table(regrets(played_runs, setup.scale), title, "regret")
    yield Rows(played_runs, "played")
    labels, share = ("partition", "k", "scheme", "draw", "seed"), setup.scale.training_share
    trained = setup.runs("training", labels, training_grid(setup), measures)
    yield Rows(trained, "runs")
    shown = trained.assign(panel=[f"{row.partition}, k = {row.k}" for row in trained.itertuples()])
    shown = shown[shown["draw"].isin(["", setup.scale.training_draws[0]])]
    figure = panels_figure(curves(shown, "panel", "scheme"), STYLES, "test accuracy", size=(16, 3.2))
    yield Picture(figure, "sizes")
    title = f"Fig. 7 on {setup.dataset}: accuracy by clients a round, per cent, mean ± 95 %"
    if share < 1:
        title += f"; {training_rounds(setup)} rounds, a share of {share:g} of the full plan's"
    yield Table(sizes_table(trained), title, "sizes", digits=2, number="%.5g")


def sizes_table(trained):
    """Average accuracies and success ratio over seeds, with half the 95 % intervals of the accuracies.

    The lead of the mean accuracy over Random's is paired by seed: both met the same data and clients that return. Its
    p-values are adjusted for the number of leads (Holm); below three seeds nothing is said of it.
    """
    cell = ["partition", "k", "seed"]
    leads = trained["mean accuracy"] - baseline_values(trained, "scheme", "Random", cell, "mean accuracy")
    trained = trained.assign(lead=leads.where(trained["scheme"] != "Random"))

    def measure(part):
        row = {}
        for column in ("final accuracy", "mean accuracy"):
            row |= {column: part[column].mean(), f"± {column}": half_width(part[column])}
        lead = compare_means(part["lead"], margin=MARGIN)
        row |= {"lead over Random": lead.difference, "± lead over Random": lead.half, "p": lead.p}
        within = {"agrees": "yes", "too few": "too few", "": ""}
        row |= {f"within {MARGIN:g} point": within.get(lead.verdict, "no")}
        return row | {"success ratio": part["success ratio"].mean(), "seeds": len(part)}

    table = by_cell(trained, ["partition", "k", "scheme", "draw"], measure)
    table.insert(table.columns.get_loc("p") + 1, "adjusted", holm(table["p"]))
    return table


STUDY = Study(__doc__, QUICK, PAPER, results, tuple(TASKS))


if __name__ == "__main__":
    main(STUDY)
