"""Price of not knowing the future: variance of the counts of each selector beside the least in hindsight.

    python tests/benchmarks/bench_hindsight.py [--out FILE] [--clients N] [--size M] [--rounds T] [--seeds K]

Selectors that decide without training, on three models of availability; means over seeds. The least is of a schedule
of as many selections per round that knows all of the availability (`fedselect.measures`).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import digits  # noqa: E402
from fedselect.measures import least_count_variance  # noqa: E402
from fedselect.rounds.engine import play, round_record  # noqa: E402
from fedselect.rounds.scenario import Scenario  # noqa: E402
from fedselect.selectors import SELECTORS  # noqa: E402

#: Selectors by label: registered name and options.
RULES = {
    "uniform": ("uniform", {}),
    "md-sample": ("md-sample", {}),
    "clustered-sampling": ("clustered-sampling", {}),
    "fedss": ("fedss", {"variant": "proportional"}),
    "divfl (labels)": ("divfl", {"features": "labels"}),
    "fed-cbs": ("fed-cbs", {}),
    "e3cs": ("e3cs", {}),
    "f3ast": ("f3ast", {}),
    "cs-ucb-q": ("cs-ucb-q", {}),
    "fedgs": ("fedgs", {"method": "local-search", "scale": "pairs"}),
    "rolling, fewest turns": ("rolling", {"horizon": 1}),
    "rolling 10, rates": ("rolling", {}),
    "rolling 10, persistent": ("rolling", {"forecast": "persistent"}),
    "rolling 10, known": ("rolling", {"forecast": "known"}),
    "clairvoyant": ("clairvoyant", {}),
}


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    for name, value in (("clients", 50), ("size", 5), ("rounds", 100), ("seeds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    models = ("lognormal", "sin-lognormal", "fedau-cyclic")
    found: dict[str, dict[str, list[tuple[float, float]]]] = {label: {model: [] for model in models} for label in RULES}
    for model in models:
        for seed in range(given.seeds):
            data = digits(n_clients=given.clients, partition="dirichlet-prior", concentration=0.3, seed=seed)
            there = AVAILABILITY.build(model, data, seed)
            scenario = Scenario(data.sizes, there, seed=seed, size=given.size, rounds=given.rounds, data=data)
            for label, (name, options) in RULES.items():
                selector = SELECTORS.build(name, scenario, **options)
                records = [round_record(done) for done in play(selector, scenario, given.rounds)]
                chosen = np.concatenate([each["selected"] for each in records]).astype(int)
                variance = np.bincount(chosen, minlength=given.clients).var(ddof=1)
                found[label][model].append((variance, least_count_variance(records, given.clients)))
    table = []
    for label, by_model in found.items():
        row = {"selector": label}
        for model, values in by_model.items():
            own, least = np.mean(values, axis=0)
            row |= {model: f"{own:.1f}", f"{model}, least": f"{least:.1f}"}
        table.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if given.out:
        with given.out.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, table[0])
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
