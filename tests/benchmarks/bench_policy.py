"""What the thresholds of ``auto`` are worth: one field of `Policy` at a time, halved and doubled, on recorded rounds.

    python tests/benchmarks/bench_policy.py --csv docs/benchmarks/policy.csv
    python tests/benchmarks/bench_policy.py --fields rlt_ratio products --factors 0.25 4 --repeats 3

Rounds that the default proves are solved to a proof (``--seconds`` at most), the others for ``--open-seconds``:
processor seconds of one thread, so that a busy machine does not decide. A line a field and value, and in the table:
geometric means over the rounds of the processor seconds and of the nodes of the trees, as ratios to the default's
(the medians of ``--repeats``), the slowest round's ratio, the rounds proved, and the ratio of the gaps of those that
stay open.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import instances, solve
from solvers.dispersion.kernels import warm_up
from solvers.dispersion.policy import DEFAULT_POLICY, Policy

#: The fields that are asked about, by default.
FIELDS = ("few_clients", "rlt_ratio", "idle_cores", "tabu_moves", "products")
FIELDS += ("wide_gap", "stall_growth", "node_accuracy", "spell")

#: Rounds that are proved, from milliseconds to a second, and two that are not.
PROVED = (
    "fedgs-digits-dirichlet10-n100-m10-ideal-r5",
    "fedgs-digits-dirichlet10-n100-m20-bernoulli-alpha10-r10",
    "fedgs-digits-twolabel-n100-m10-ideal-r5",
    "fedgs-digits-dirichlet100-n150-m15-ideal-papergraph-r5",
    "fedgs-synthetic-n1000-m50-lognormal-r5",
    "fedgs-synthetic-n300-m30-lessdata-r10",
    "fedgs-synthetic-n1000-m100-fedaumarkov-r5",
    "fedgs-digits-dirichlet-n500-m50-bernoulli-r5",
    "fedgs-digits-iid-n200-m20-ideal-r3",
    "fedgs-digits-dirichlet10-n300-m30-ideal-paperscale-r7",
    "fedgs-synthetic-n1000-m20-bernoulli-r3",
    "constrained-conflicts-pairs-dirichlet-n100-m10-ideal-r4",
    "constrained-nested-dirichlet-n100-m10-ideal-r3",
    "constrained-budget-seconds-dirichlet-n100-m10-ideal-r5",
)
OPEN = ("fedgs-digits-twolabel-n300-m30-ideal-r7", "fedgs-synthetic-n1000-m50-ideal-r2")


class Solved(NamedTuple):
    """What one solve took."""

    seconds: float
    nodes: int
    is_proved: bool
    gap: float


def solved(name: str, policy: Policy, limit: float, repeats: int) -> Solved:
    """Solve a round so often; the median time."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        found = solve(instances.load(name), "auto", time_limit=limit, policy=policy)
        times.append(time.perf_counter() - began)
    return Solved(statistics.median(times), found.nodes or 0, found.status == "optimal", max(found.gap, 1e-12))


def main() -> None:
    """Run the fields asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", nargs="+", default=list(FIELDS))
    parser.add_argument("--factors", type=float, nargs="+", default=[0.5, 2.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of a round that the default proves")
    parser.add_argument(
        "--open-seconds", type=float, default=2.0, help="of a round that is not proved; 0 leaves it out"
    )
    parser.add_argument("--csv", type=Path, help="file for the table")
    options = parser.parse_args()
    warm_up()  # no kernel is to be compiled within a limit
    time.perf_counter = time.process_time  # type: ignore[assignment]
    open_rounds = OPEN if options.open_seconds else ()
    limits = dict.fromkeys(PROVED, options.seconds) | dict.fromkeys(open_rounds, options.open_seconds)
    for name in PROVED:  # what is loaded once in a process
        solve(instances.load(name), "auto", time_limit=options.seconds)
    default = {name: solved(name, DEFAULT_POLICY, limit, 3) for name, limit in limits.items()}
    proved = sum(default[name].is_proved for name in PROVED)
    table = [["field", "default", "value", "seconds", "nodes", "slowest_round", "proved", "gap"]]
    print(f"default: {sum(default[name].seconds for name in PROVED):.2f} s for {len(PROVED)} rounds, {proved} proved")
    for field in options.fields:
        standard = getattr(DEFAULT_POLICY, field)
        for factor in options.factors:
            value = type(standard)(round(standard * factor, 6))
            policy = replace(DEFAULT_POLICY, **{field: value})
            found = {name: solved(name, policy, limit, options.repeats) for name, limit in limits.items()}
            seconds = [found[name].seconds / default[name].seconds for name in PROVED]
            nodes = [(1 + found[name].nodes) / (1 + default[name].nodes) for name in PROVED]
            gaps = [found[name].gap / default[name].gap for name in open_rounds]
            means = [f"{statistics.geometric_mean(each):.2f}" for each in (seconds, nodes)]
            count = f"{sum(found[name].is_proved for name in PROVED)} of {len(PROVED)}"
            table.append([field, f"{standard:g}", f"{value:g}", *means, f"{max(seconds):.2f}", count])
            table[-1].append(f"{statistics.geometric_mean(gaps):.2f}" if gaps else "")
            print(*table[-1], sep="  ", flush=True)
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
