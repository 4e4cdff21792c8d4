"""FedGS as it is by default beside its swap search alone, 10 of 1 000 clients: time, counts, loss, objective.

    python tests/benchmarks/bench_fedgs_default.py [--availability ideal] [--seeds K] [--rounds T] [--out FILE]
    python tests/benchmarks/bench_fedgs_default.py --simulate --seeds 20 --out fedgs_default_counts.csv

Letters, Dirichlet 0.1; all train the same way under the same seeds, in turns whose order rotates. ``local-search
again`` is the same once more: what two runs of one setting differ by. Processor seconds count on a busy machine.
Kernels are compiled, and loaded, by rounds that do not count. With ``--simulate`` nothing is trained, and every fifth
round of the default is decided by ``local-search`` as well, from the same state and the same seed: by how much the
default's objective is better, at least and on average, and what its selected clients' counts cost more. Started again
with the same ``--out``, it plays the runs that are missing there.
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
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "studies")]

import numpy as np  # noqa: E402

import letters  # noqa: E402, F401  (registers the data set)
from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import load_data  # noqa: E402
from fedselect.rounds import Scenario, play  # noqa: E402
from fedselect.selectors import SELECTORS  # noqa: E402
from fedselect.statistics import half_width  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.settings import TrainingSettings, one_thread  # noqa: E402
from solvers import solve  # noqa: E402

#: Options of FedGS by label.
PAIRS, SWAPS = {"scale": "pairs"}, {"method": "local-search", "scale": "pairs"}
VARIANTS = {"default": PAIRS, "local-search": SWAPS, "local-search again": SWAPS}


def timed(selector):
    """Add up the processor seconds of a selector's decisions in ``spent``."""
    decide, selector.spent = selector.select, 0.0

    def select(round):
        began = time.process_time()
        selection = decide(round)
        selector.spent += time.process_time() - began
        return selection

    selector.select = select
    return selector


def beside_swaps(solution) -> tuple[float, float]:
    """Return by how much a decision is better than the swap search's, and by how much its costs are higher."""
    other = solve(solution.problem, "local-search", seed=solution.seed)
    return solution.objective - other.objective, float(solution.problem.costs @ (solution.x - other.x))


def played(label: str, data, given, seed: int, rounds: int) -> dict[str, object]:
    """Play a run, and measure it."""
    there = AVAILABILITY.build(given.availability, data, seed)
    scenario = Scenario(data.sizes, there, seed=seed, size=given.size, rounds=rounds, data=data, time_limit=5.0)
    selector = timed(SELECTORS.build("fedgs", scenario, **VARIANTS[label]))
    loop = FedAvg.within(scenario, selector, settings=TrainingSettings(evaluate_every=rounds))
    began = time.perf_counter(), time.process_time()
    counts, objectives, proved, ahead, loss = np.zeros(len(data), dtype=np.int64), [], 0, [], None
    with one_thread():
        turns = play(selector, scenario, rounds) if given.simulate else (loop.step() for _ in range(rounds))
        for k, each in enumerate(turns):
            counts[each.selection.clients] += 1
            objectives.append(each.selection.solution.objective)
            proved += each.selection.solution.status == "optimal"
            loss = each.loss
            if given.simulate and label == "default" and k % 5 == 0:
                ahead.append(beside_swaps(each.selection.solution))
    wall, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    row = {
        "fedgs": label,
        "seed": seed,
        "wall_seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "selecting_processor_seconds": round(selector.spent, 2),
        "count_variance": round(float(counts.var(ddof=1)), 4),
        "mean_objective": float(np.mean(objectives)),
        "proved": proved,
    }
    if not given.simulate:
        return row | {"test_loss": round(float(loss), 6)}
    worst, mean, dearer = ("", "", "") if not ahead else (min(a for a, _ in ahead), *np.mean(ahead, axis=0))
    return row | {"least_ahead": worst, "mean_ahead": mean, "mean_counts_dearer": dearer}


def summary(table: list[dict[str, object]]) -> list[str]:
    """Say how the variants differ in pairs under the same seeds, with 95 % intervals over seeds."""
    values = {label: {row["seed"]: row for row in table if row["fedgs"] == label} for label in VARIANTS}
    said = []
    for label in ("default", "local-search again"):
        if not values[label]:
            continue
        pairs = [(row, values["local-search"][seed]) for seed, row in values[label].items()]
        for name in ("processor_seconds", "selecting_processor_seconds"):
            ratios = np.array([one[name] / other[name] for one, other in pairs])
            said.append(
                f"{label}: {name} {ratios.mean():.3f} +- {half_width(ratios):.3f} times local-search's "
                f"({ratios.min():.2f} to {ratios.max():.2f}, {len(ratios)} seeds)"
            )
        for name in ("count_variance", "mean_objective", "test_loss"):
            if name in pairs[0][0]:
                apart = np.array([one[name] - other[name] for one, other in pairs])
                said.append(f"{label}: {name} {apart.mean():+.5f} +- {half_width(apart):.5f} beside local-search's")
    return said


def _number(text: str) -> object:
    """Read a cell of the table again."""
    try:
        return float(text) if not text.isdigit() else int(text)
    except ValueError:
        return text


def main() -> None:
    """Print a row per run and what they differ by; write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--simulate", action="store_true", help="select without training, and audit decisions")
    parser.add_argument("--availability", default="ideal")
    for name, value in (("clients", 1000), ("size", 10), ("rounds", 100), ("seeds", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    table: list[dict[str, object]] = []
    if given.out and given.out.exists():
        with given.out.open(newline="") as stream:
            table = [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(stream)]
    data = load_data("letters", n_clients=given.clients, partition="dirichlet-prior", concentration=0.1)
    for label in list(VARIANTS)[:2]:
        played(label, data, given, 0, 2)
    for seed in range(given.seeds):
        order = list(VARIANTS)[: 2 if given.simulate else 3]
        turn = seed % len(order)
        for label in order[turn:] + order[:turn]:
            if any((row["fedgs"], row["seed"]) == (label, seed) for row in table):
                continue
            table.append(played(label, data, given, seed, given.rounds))
            print(", ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
            if given.out:
                with given.out.open("w", newline="") as stream:
                    writer = csv.DictWriter(stream, table[0])
                    writer.writeheader()
                    writer.writerows(table)
    print(*summary(table), sep="\n")


if __name__ == "__main__":
    main()
