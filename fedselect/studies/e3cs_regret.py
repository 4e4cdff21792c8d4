"""E3CS (Huang et al., IEEE IoT-J 2022): regret beside Theorem 1's bound, and Fig. 7's k = 10, 20 and 30.

    python -m fedselect.studies.e3cs_regret
    python -m fedselect.studies.e3cs_regret --paper

Regret is what the best fixed allocation would have had in effective participations beyond what E3CS's probabilities
promise (Definition 1 with one q* for all rounds, for which alone Theorem 1 is true): known afterwards, as it is drawn
for every client whether it would have come back. η is the paper's 0.5 and the η* that minimises the bound. At σ = 0 the
bound is unproved (Fact 8 needs η ≤ Kσ / (k − Kσ)), and the successive draw has other inclusion probabilities than the
theorem assumes: both are shown, and the last column says where the theorem holds.

Then Fig. 7: everybody trains with k = 10, 20 and 30 clients a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fedselect.experiments import Choice, Experiment, build_scenario, read_records, read_summary
from fedselect.experiments.figures import panels_figure, save_figure
from fedselect.experiments.metrics import learning_curve, round_table
from fedselect.studies.e3cs_setting import CLIENTS, QUOTAS, SCHEMES, STYLES, TASKS, experiment, selector
from fedselect.studies.grid import run_grid, without_training
from fedselect.studies.parts import kept, write_tables
from fedselect.studies.printing import show
from fedselect.studies.script import run_script, study_arguments
from solvers.capping.theory import best_rate, constant_floors, incremental_floors, regret_bound

SIZES = (10, 20, 30)


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    rounds: int
    seeds: int
    draws: tuple[str, ...]
    training_share: float
    training_seeds: int


QUICK = Scale(rounds=500, seeds=3, draws=("madow", "successive"), training_share=0.25, training_seeds=1)
PAPER = Scale(rounds=2500, seeds=10, draws=("madow", "successive"), training_share=1.0, training_seeds=3)


def floors(scheme: str, size: int, rounds: int) -> NDArray[np.float64]:
    """Quotas σ_t of a scheme, shape (T,)."""
    quota = QUOTAS[scheme]
    if isinstance(quota, str):
        return incremental_floors(CLIENTS, size, rounds)
    return constant_floors(CLIENTS, size, rounds, float(quota))


def best_fixed(returns: ArrayLike, floors: ArrayLike, size: int) -> float:
    r"""Effective participations of the best fixed allocation, known afterwards (Eqs. 24 and 25).

    It gives client i the probability :math:`\sigma_t + (k - K\sigma_t) q_i` in round t, with q on the simplex and no
    probability above 1: all that the quota leaves goes to the clients who came back most, in the rounds in which
    something is left.

    Parameters
    ----------
    returns : (T, K) array-like of bool
        Whether each client would have come back in each round.
    floors : (T,) array-like
        σ_t.
    size : int
        k.
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


def played(scheme: str, size: int, draw: str, rate: float, rounds: int, seed: int) -> pd.DataFrame:
    """One row: the regret, what the probabilities promised, and the success ratio of a run without training."""
    scenario = build_scenario(
        Experiment(rounds=rounds, seed=seed, clients_per_round=size, dropout=Choice("success-classes"))
    )
    chosen = Choice("e3cs", {"quota": QUOTAS[scheme], "draw": draw, "rate": rate})
    promised, real, returns = 0.0, 0, np.zeros((rounds, CLIENTS), dtype=np.bool_)
    for each in without_training(scenario, chosen, sizes=[1] * CLIENTS):
        returns[each.round] = scenario.dropout.returned(each.round)
        assert each.selection.solution is not None  # E3CS states its probabilities in every round
        promised += float(np.asarray(each.selection.solution.x) @ returns[each.round])
        real += int(returns[each.round][each.selection.clients].sum())
    best = best_fixed(returns, floors(scheme, size, rounds), size)
    row = {"best": best, "promised": promised, "regret": best - promised, "success ratio": real / (rounds * size)}
    return pd.DataFrame([row])


def regrets(scale: Scale, out: Path) -> pd.DataFrame:
    """Regret beside its bound, means over seeds; η = 0.5 and η*."""
    rows = []
    for size in SIZES:
        for scheme in QUOTAS:
            sigma = floors(scheme, size, scale.rounds)
            for name, rate in (("0.5", 0.5), ("best", best_rate(CLIENTS, size, sigma))):
                bound = regret_bound(CLIENTS, size, sigma, rate)
                rest = np.maximum(size - CLIENTS * sigma, 0.0)
                proved = bool((rate * rest <= CLIENTS * sigma * (1 + 1e-12))[rest > 0].all())
                for draw in scale.draws:
                    found = pd.concat(
                        kept(
                            out / "regret" / f"{scheme}-{size}-{name}-{draw}-{scale.rounds}-s{seed}.csv",
                            *(played, scheme, size, draw, rate, scale.rounds, seed),
                        )
                        for seed in range(scale.seeds)
                    )
                    row = {"k": size, "scheme": scheme, "draw": draw, "η": f"{name} ({rate:.3f})"}
                    row |= {"regret": found["regret"].mean(), "largest": found["regret"].max(), "bound": bound}
                    row |= {"regret / bound": found["regret"].mean() / bound}
                    row |= {"success ratio": found["success ratio"].mean(), "seeds": len(found)}
                    rows.append(row | {"theorem holds": "yes" if proved and draw != "successive" else "no"})
    return pd.DataFrame(rows)


def figure_7(scale: Scale, dataset: str, root: Path, out: Path, jobs: int) -> pd.DataFrame:
    """Train every scheme with k = 10, 20 and 30, FedAvg; one row a run, and the figure below ``out``."""
    rounds, grid = max(1, round(TASKS[dataset].rounds * scale.training_share)), {}
    for seed in range(scale.training_seeds):
        for size in SIZES:
            for scheme in SCHEMES:
                chosen = selector(scheme, "madow")
                grid[size, scheme, seed] = experiment(
                    dataset, root, "non-iid", seed, size=size, name=f"k{size}", rounds=rounds, selector=chosen
                )
    rows = []
    panels: dict[str, dict[str, list[pd.Series]]] = {f"k = {size}": {name: [] for name in SCHEMES} for size in SIZES}
    for (size, scheme, seed), folder in run_grid(grid, out / "runs", jobs, "training").items():
        end = read_summary(folder)
        rows.append(
            {"k": size, "scheme": scheme, "seed": seed, "final accuracy": 100 * end["final_accuracy"]}
            | {"mean accuracy": 100 * end["mean_accuracy"], "success ratio": end["success_ratio"]}
        )
        panels[f"k = {size}"][scheme].append(learning_curve(round_table(read_records(folder))))
    save_figure(panels_figure(panels, STYLES, "test accuracy", size=(13, 3.6)), out / "sizes.png", dpi=110)
    return pd.DataFrame(rows)


def main(argv: Sequence[str] | None = None, scale: Scale | None = None) -> Path:
    """Run what is missing of the study, and show it; return the folder of tables and figures."""
    arguments = study_arguments((__doc__ or "").partition("\n")[0], "e3cs_regret", tuple(TASKS), argv)
    scale, out = scale or (PAPER if arguments.paper else QUICK), arguments.out
    experiment(arguments.dataset, arguments.root, "iid").federation()  # missing files are noticed now, not later
    regret = regrets(scale, out)
    show(regret, f"Regret in {scale.rounds} rounds, in effective participations, beside Theorem 1's bound")
    trained = figure_7(scale, arguments.dataset, arguments.root, out, arguments.jobs)
    means = trained.groupby(["k", "scheme"], sort=False).mean().drop(columns="seed").reset_index()
    show(means, f"Fig. 7 on {arguments.dataset}: accuracy by clients a round, per cent", 2)
    write_tables(out, {"regret": regret, "sizes": trained})
    return out


if __name__ == "__main__":
    run_script(main)
