"""Fairness by constraint or by cost: FedGS with ``include_after`` against its cost term, paired over data splits.

    python tests/benchmarks/bench_include_after.py docs/benchmarks/include_after.csv [--splits 20] [--rounds 60]

Handwritten digits dealt to 40 clients by Dirichlet(0.3), lognormal availability, 5 clients a round, one linear model.
Arms: FedGS as it is (alpha = 1), its distances alone (alpha = 10 000, beside which counts cost nothing), these with
``include_after = 10``, and FedGS with it. Every split is a seed
under which all arms meet the same clients, availability and batches. The table has each arm's mean and the mean paired
difference to the cost term with the half width of its 95 % interval: standard deviation of the counts, the longest wait
in rounds in which a client was there, and the final test loss.
"""

from __future__ import annotations

import argparse
import csv

import numpy as np

from fedselect.experiments import Experiment, build
from fedselect.rounds.protocol import Outcome
from fedselect.statistics import half_width

ARMS = {
    "cost term": {"alpha": 1.0},
    "distances alone": {"alpha": 1e4},
    "distances, include_after 10": {"alpha": 1e4, "constraints": {"include_after": 10}},
    "cost term, include_after 10": {"alpha": 1.0, "constraints": {"include_after": 10}},
}
MEASURES = ("counts, standard deviation", "longest wait", "test loss")


def play(arm: str, seed: int, rounds: int) -> list[float]:
    """Run one arm on one split and return the three measures."""
    experiment = Experiment.from_tables(
        {
            "experiment": {"name": "wait", "rounds": rounds, "clients_per_round": 5, "seed": seed},
            "data": {"name": "digits", "n_clients": 40, "partition": "dirichlet-prior", "concentration": 0.3},
            "availability": {"name": "lognormal"},
            "selector": {"name": "fedgs", "method": "local-search", "scale": "pairs", **ARMS[arm]},
            "training": {"model": "linear", "learning_rate": 0.1, "local_steps": 10, "batch_size": 10},
        }
    )
    loop = build(experiment)
    counts, waits, longest = np.zeros(40), np.zeros(40), 0.0
    for t in range(rounds):
        done = loop.step(evaluate=t + 1 == rounds)
        selected, idle = done.outcomes >= Outcome.RETURNED, done.outcomes == Outcome.IDLE
        counts += selected
        waits = np.where(selected, 0, waits + idle)
        longest = max(longest, float(waits.max()))
    return [float(counts.std()), longest, float(done.loss or 0.0)]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    found = {arm: [] for arm in ARMS}
    for seed in range(options.splits):
        for arm, rows in found.items():
            rows.append(play(arm, seed, options.rounds))
        print(seed, {arm: rows[-1] for arm, rows in found.items()}, flush=True)
    known = {arm: np.array(rows) for arm, rows in found.items()}
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["arm", "splits", "rounds", "measure", "mean", "paired difference", "half width of 95 %"])
        for arm, rows in known.items():
            for k, measure in enumerate(MEASURES):
                less = rows[:, k] - known["cost term"][:, k]
                numbers = [rows[:, k].mean(), less.mean(), half_width(less) if less.any() else 0.0]
                writer.writerow([arm, options.splits, options.rounds, measure, *(f"{value:.4g}" for value in numbers)])


if __name__ == "__main__":
    main()
