"""How many selections are as good as the best one? Pools of the recorded FedGS rounds, and what they cost.

    python tests/benchmarks/bench_pools.py --largest 100
    python tests/benchmarks/bench_pools.py --match twolabel --most 1000 --seconds 20

A row per recorded round of at most so many available clients: the optima, the selections within .1 % and 1 % of the
optimum (``+``: at least so many, where the number asked for or the time ended it), in how many of the m clients those
within 1 % differ from the best one (mean, most), how many clients are in any of them; processor seconds of one proof,
and of the ten best with their proof.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import Solution, instances, solve
from solvers.dispersion.kernels import warm_up


def timed(problem, **asked) -> tuple[Solution, float]:
    """A solution and its processor seconds."""
    began = time.process_time()
    solution = solve(problem, **asked)
    return solution, time.process_time() - began


def counted(problem, within: float, options: argparse.Namespace) -> tuple[str, Solution]:
    """How many selections are within a tolerance, in words, and the solution that has them."""
    found = solve(problem, within=within, pool=options.most, time_limit=options.seconds)
    is_all = found.pool_complete and not found.details["pool"]["tied"]
    return f"{len(found.pool)}{'' if is_all else '+'}", found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="part of the instances' names")
    parser.add_argument("--largest", type=int, default=100, help="most available clients")
    parser.add_argument("--most", type=int, default=1_000, help="members of a pool, at most")
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each solve")
    options = parser.parse_args()
    warm_up()
    head = ("n", "m", "optima", ".1 %", "1 %", "differ", "most", "clients", "proof s", "10 best s", "ratio")
    print(f"{'round':60s} " + " ".join(f"{name:>9}" for name in head))
    ratios, single, rounds = [], 0, 0
    for name in instances.names("dispersion"):
        if not name.startswith("fedgs") or options.match not in name:
            continue
        problem = instances.load(name)
        if problem.n > options.largest:
            continue
        (_, proof), (_, ten) = timed(problem, time_limit=options.seconds), timed(problem, pool=10)
        (optima, _), (near, _), (wide, found) = (counted(problem, within, options) for within in (0.0, 1e-3, 1e-2))
        best = set(found.selected.tolist())
        apart = [len(best - set(each.selected.tolist())) for each in found.pool[1:]] or [0]
        clients = len({client for each in found.pool for client in each.selected.tolist()})
        ratios.append(ten / proof)
        rounds, single = rounds + 1, single + (optima == "1")
        cells = (problem.n, problem.size, optima, near, wide, f"{np.mean(apart):.1f}", max(apart), clients)
        times = (f"{proof:.3f}", f"{ten:.3f}", f"{ten / proof:.1f}")
        print(f"{name:60s} " + " ".join(f"{cell!s:>9}" for cell in (*cells, *times)), flush=True)
    print(f"{single} of {rounds} rounds have one optimum; the median ratio of times is {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
