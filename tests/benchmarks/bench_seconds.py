"""Time to accuracy of six rules on one clock: three models of devices, digits and letters; a CSV row per run.

    python tests/benchmarks/bench_seconds.py docs/benchmarks/time_to_accuracy.csv [--seeds 0 1 2 3 4]
    python tests/benchmarks/bench_seconds.py docs/benchmarks/clock_cost.csv --part cost

Sixty clients, ten wanted per round, a deadline of 6 s and one uplink that carries a model of half a megabyte. A run
ends after 900 seconds of the clock, so that all times are censored there. Runs that the file has are not repeated.
The second command measures what a clock adds to a run and to a simulation of 100 000 clients, a deadline of as many,
and an Oort decision. `docs/mathematics/clock.md` reads
both files.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from pathlib import Path
from typing import Any, Literal

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "studies")]

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from scipy.stats import binom  # noqa: E402

from fedselect.availability import ideal  # noqa: E402
from fedselect.availability.independent import Independent  # noqa: E402
from fedselect.clock import Clock, ClockSettings, build_clock, lognormal  # noqa: E402
from fedselect.data import Federation, digits  # noqa: E402
from fedselect.measures import RunData, round_table, seconds_to, summary  # noqa: E402
from fedselect.randomness import generator  # noqa: E402
from fedselect.rounds import Scenario, simulate  # noqa: E402
from fedselect.rounds.engine import round_record  # noqa: E402
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback  # noqa: E402
from fedselect.selectors import SELECTORS, Oort, Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.settings import TrainingSettings, samples_trained  # noqa: E402
from letters import letters  # noqa: E402
from solvers import solve  # noqa: E402
from solvers.deadline import DeadlineProblem  # noqa: E402

#: Rules by label: registered name and options. FedCS asks half of the clients for their resources, and takes of these.
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform": ("uniform", {}),
    "over-selection": ("uniform", {"over": 1.3}),
    "TiFL": ("tifl", {}),
    "Oort": ("oort", {}),
    "FedCS as published": ("fedcs", {"candidates": 30}),
    "FedCS exactly": ("fedcs", {"candidates": 30, "method": "auto"}),
}
DEVICES = ("constant", "lognormal", "tiers")
#: Accuracies to reach, near and far.
TARGETS = {"digits": (0.80, 0.90), "letters": (0.25, 0.35)}
LOCAL: dict[str, Any] = {"method": "local-search", "scale": "pairs"}
CLIENTS, SIZE, HORIZON, EVERY = 60, 10, 900.0, 60
CLOCK = {"policy": "deadline", "deadline": 6.0, "links": "shared-uplink", "model_bytes": 500_000, "jitter": 0.2}
TRAINING = {
    "digits": TrainingSettings(local_epochs=2, learning_rate=0.1),
    "letters": TrainingSettings(model="mlp", local_steps=10, batch_size=20, learning_rate=0.2),
}


def federation_of(data: str, seed: int) -> Federation:
    """Split the digits, or twelve thousand letters with little noise, over sixty clients."""
    if data == "digits":
        return digits(n_clients=CLIENTS, partition="two-label", seed=seed)
    options = {"concentration": 0.5, "images": 12_000, "test_images": 520, "noise": 0.05}
    return letters(n_clients=CLIENTS, partition="dirichlet-prior", seed=seed, **options)  # type: ignore[arg-type]


def row_of(data: str, devices: str, label: str, seed: int, federation: Federation) -> dict[str, Any]:
    """Play one run to the horizon, and return its row: times, clients, work, and accuracy every thirty seconds."""
    settings = TRAINING[data]
    clock, ask = build_clock(devices, samples_trained(federation.sizes, settings, seed), SIZE, seed, CLOCK)
    scenario = Scenario(
        federation.sizes, ideal(federation, seed), None, seed, None, clock, size=ask, rounds=1000, data=federation
    )
    name, options = RULES[label]
    loop = FedAvg.within(scenario, SELECTORS.build(name, scenario, **options), settings=settings)
    records = []
    while loop.seconds < HORIZON:
        records.append(round_record(loop.step(evaluate=True)))
    table = round_table(records)
    table = table[table["seconds"] <= HORIZON]  # the last round may end later: it counts for nobody
    near, far = (seconds_to(table, target) for target in TARGETS[data])
    at = {
        f"at_{second}": table.loc[table["seconds"] <= second, "accuracy"].iloc[-1:].squeeze()
        for second in range(EVERY, int(HORIZON) + 1, EVERY)
    }
    work = summary(RunData(records[: len(table)], np.full(len(federation), 1 / len(federation))))
    return {
        "data": data, "devices": devices, "rule": label, "seed": seed, "rounds": len(table),
        "selected": table["selected"].mean(), "arrived": table["returned"].mean(),
        "wasted_seconds": work["wasted_seconds"], "stragglers": work["stragglers"], "to_near": near, "to_far": far,
    } | at  # fmt: skip


def cost_of_clock(
    rule: str, options: dict[str, Any], model: str = "linear", turns: int = 40, rounds: int = 40
) -> dict[str, Any]:
    """Measure rounds with and without a clock in turns, one by one; a ratio of medians of processor time per turn."""
    federation, settings = digits(n_clients=100), TrainingSettings(model=model)
    ratios, plain = [], []
    for turn in range(turns):
        loops = []
        for is_timed in (False, True):
            work = samples_trained(federation.sizes, settings, turn)
            clock = build_clock("lognormal", work, SIZE, turn, {"jitter": 0.2})[0] if is_timed else None
            world = Scenario(
                federation.sizes,
                ideal(federation, turn),
                None,
                turn,
                None,
                clock,
                size=SIZE,
                rounds=rounds,
                data=federation,
            )
            loops.append(FedAvg.within(world, SELECTORS.build(rule, world, **options), settings=settings))
        took = np.empty((rounds + 2, 2))
        for played in range(rounds + 2):
            for place in (0, 1) if (played + turn) % 2 else (1, 0):
                start = time.process_time()
                round_record(loops[place].step(evaluate=True))
                took[played, place] = time.process_time() - start
        without, with_clock = np.median(took[2:], axis=0)
        ratios.append(with_clock / without)
        plain.append(without)
    inner = int(binom.ppf(0.025, turns, 0.5))  # order statistics that cover the median with probability 0.95 or more
    low, high = np.sort(ratios)[[inner - 1, turns - inner]]
    return {
        "what": f"a run with a clock beside one without, {rule}, {model}", "number": f"{np.median(ratios):.3f}",
        "interval or worst": f"{low:.3f} to {high:.3f}", "unit": "ratio",
        "of": f"rounds of {1e3 * np.median(plain):.2f} ms",
    }  # fmt: skip


def cost_of_simulation(clients: int = 100_000, turns: int = 40) -> dict[str, Any]:
    """Measure rounds of a simulation with and without a clock in turns: what it adds, per client and round."""
    sizes, rng = np.full(clients, 100), np.random.default_rng(0)
    settings = ClockSettings(model_bytes=1_000_000, jitter=0.2, link_jitter=0.2, policy="deadline", deadline=60.0)
    rounds, there = turns + 2, Independent(rng.random(clients), 0)
    games = [
        simulate(Uniform(clients // 10), there, sizes=sizes, rounds=rounds, clock=clock)
        for clock in (None, Clock(lognormal(clients), sizes, settings))
    ]
    took = np.empty((rounds, 2))
    for turn in range(rounds):
        for place in (0, 1) if turn % 2 else (1, 0):
            start = time.process_time()
            round_record(next(games[place]))
            took[turn, place] = time.process_time() - start
    added = 1e6 * (took[2:, 1] - took[2:, 0]) / clients
    return {
        "what": f"simulate with a clock, {clients // 10} of {clients}: added", "number": f"{np.median(added):.3f}",
        "interval or worst": f"{added.max():.3f}", "unit": "us per client and round",
        "of": f"{1e6 * np.median(took[2:, 0]) / clients:.3f} us without",
    }  # fmt: skip


def cost_of_deadline(clients: int = 100_000, turns: int = 20) -> dict[str, Any]:
    """Measure exact FedCS decisions of many clients, whose times are log-normal."""
    took = []
    for turn in range(turns + 1):
        rng = np.random.default_rng(turn)
        problem = DeadlineProblem(rng.lognormal(3, 1, clients), rng.lognormal(0, 1, clients), 2000.0)
        start = time.process_time()
        found = solve(problem)
        took.append(1e3 * (time.process_time() - start))
        assert found.status == "optimal"
    return {
        "what": f"a deadline of {clients} clients, exactly", "number": f"{np.median(took[1:]):.0f}",
        "interval or worst": f"{max(took[1:]):.0f}", "unit": "ms", "of": "processor time",
    }  # fmt: skip


def cost_of_oort(size: int, convention: Literal["paper", "code"], clients: int = 100_000) -> list[dict[str, Any]]:
    """Measure Oort's decisions and what it learns, in processor milliseconds, over twelve rounds after the first."""
    rng = np.random.default_rng(0)
    sizes, losses = rng.integers(20, 500, clients), rng.random(clients)
    clock = Clock(lognormal(clients), sizes, ClockSettings(model_bytes=1_000_000))
    selector, took = Oort(size, convention=convention), []
    for t in range(13):
        context = RoundContext(t, np.ones(clients, dtype=bool), sizes, generator(0, "selector", t), clock=clock)
        start = time.process_time()
        selection = selector.select(context)
        decided = time.process_time()
        outcomes = np.full(clients, Outcome.IDLE, dtype=np.int8)
        outcomes[selection.clients] = Outcome.RETURNED
        ids = selection.clients.tolist()
        told = (
            dict(zip(ids, losses[ids].tolist(), strict=True)),
            dict(zip(ids, clock.expected[ids].tolist(), strict=True)),
        )
        feedback = RoundFeedback(
            t, selection, outcomes, dict.fromkeys(ids, 1.0), told[0], durations=told[1], seconds=60.0
        )
        begun = time.process_time()
        selector.update(feedback)
        took.append((decided - start, time.process_time() - begun))
    milliseconds = 1e3 * np.array(took[1:])
    name = f"Oort as in the {convention}, {size} of {clients}"
    return [
        {"what": f"{name}: {part}", "number": f"{np.median(column):.1f}", "interval or worst": f"{column.max():.1f}",
         "unit": "ms", "of": "processor time"}
        for part, column in zip(("decision", "learning"), milliseconds.T, strict=True)
    ]  # fmt: skip


def measure_cost(out: Path) -> None:
    """Write what a clock and an Oort decision cost."""
    rows: list[dict[str, Any]] = []
    for rule, options, model in (("uniform", {}, "linear"), ("uniform", {}, "mlp"), ("fedgs", LOCAL, "linear")):
        rows.append(cost_of_clock(rule, options, model))
        print(rows[-1], flush=True)
    for row in (cost_of_simulation(), cost_of_deadline()):
        rows.append(row)
        print(row, flush=True)
    for convention in ("paper", "code"):
        for size in (100, 1000, 10_000):
            rows += cost_of_oort(size, convention)  # type: ignore[arg-type]
            print(rows[-2:], flush=True)
    pd.DataFrame(rows).to_csv(out, index=False)


def main() -> None:
    """Play what the file does not have."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--part", choices=("runs", "cost"), default="runs")
    given = parser.parse_args()
    if given.part == "cost":
        measure_cost(given.out)
        return
    known = set()
    if given.out.exists():
        known = set(pd.read_csv(given.out)[["data", "devices", "rule", "seed"]].itertuples(index=False, name=None))
    for seed in given.seeds:
        for data in TARGETS:
            federation = federation_of(data, seed)
            for devices, label in ((each, rule) for each in DEVICES for rule in RULES):
                if (data, devices, label, seed) in known:
                    continue
                row = row_of(data, devices, label, seed, federation)
                with given.out.open("a", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(row), lineterminator="\n")
                    if not file.tell():
                        writer.writeheader()
                    writer.writerow(
                        {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
                    )
                print(data, devices, label, seed, row["rounds"], row["to_near"], row["to_far"], flush=True)


if __name__ == "__main__":
    main()
