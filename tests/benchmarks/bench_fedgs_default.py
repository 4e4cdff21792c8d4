"""FedGS as it is by default beside its swap search alone, 10 of 1 000 clients: time, counts, loss, objective.

    python tests/benchmarks/bench_fedgs_default.py [--out FILE] [--clients N] [--size M] [--rounds T] [--turns K]

Letters, Dirichlet 0.1, log-normal availability; both train the same way under the same seeds, in turns. Processor
seconds count on a busy machine. Kernels are compiled, and loaded, by rounds that do not count.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import load_data  # noqa: E402
from fedselect.rounds.scenario import Scenario  # noqa: E402
from fedselect.selectors import SELECTORS  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.settings import TrainingSettings, one_thread  # noqa: E402

#: Options of FedGS by label.
VARIANTS = {"default": {}, "local-search": {"method": "local-search"}}


def played(label: str, data, given, seed: int, rounds: int) -> dict[str, object]:
    """Play a run, and measure it."""
    there = AVAILABILITY.build("lognormal", data, seed, beta=0.5)
    scenario = Scenario(data.sizes, there, seed=seed, size=given.size, rounds=rounds, data=data, time_limit=5.0)
    selector = SELECTORS.build("fedgs", scenario, **VARIANTS[label])
    settings = TrainingSettings(evaluate_every=rounds)
    began = time.perf_counter(), time.process_time()
    with one_thread():
        loop = FedAvg.within(scenario, selector, settings=settings)
        done = [loop.step() for _ in range(rounds)]
    wall, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    counts = np.bincount(np.concatenate([each.selection.clients for each in done]), minlength=len(data))
    solutions = [each.selection.solution for each in done]
    return {
        "fedgs": label,
        "seed": seed,
        "wall_seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "selecting_seconds": round(sum(each.select_seconds for each in done), 2),
        "count_variance": round(float(counts.var(ddof=1)), 4),
        "mean_objective": float(np.mean([each.objective for each in solutions])),
        "test_loss": round(float(done[-1].loss), 6),
        "proved": sum(each.status == "optimal" for each in solutions),
        "clients": len(data),
        "size": given.size,
        "rounds": rounds,
    }


def main() -> None:
    """Print a row per run, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    for name, value in (("clients", 1000), ("size", 10), ("rounds", 100), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    table = []
    data = load_data("letters", n_clients=given.clients, partition="dirichlet", concentration=0.1)
    for label in VARIANTS:
        played(label, data, given, 0, 2)
    for turn in range(given.turns):
        for label in VARIANTS:
            table.append(played(label, data, given, turn, given.rounds))
            print(", ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
            if given.out:
                with given.out.open("w", newline="") as stream:
                    writer = csv.DictWriter(stream, table[0])
                    writer.writeheader()
                    writer.writerows(table)


if __name__ == "__main__":
    main()
