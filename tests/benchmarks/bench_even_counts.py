"""How even FedGS's scales keep the counts, from 50 to 10 000 clients and from 3 to 1 000 a round, without training.

    python tests/benchmarks/bench_even_counts.py --out docs/benchmarks/even_counts.csv

Clients hold Dirichlet(0.5) mixes of ten labels and are there with probabilities from 0.1 to 0.9. Rounds are as many as
give a client five selections in the mean, and 500 at most. Distances are Hellinger's between mixes, of up to 1 000
clients as a matrix. Every decision is swap ascent's, so that a row does not depend on the machine's speed.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from fedselect.availability import Independent
from fedselect.rounds import simulate
from fedselect.selectors import FedGS, Points, Uniform

CASES = ((50, 3), (50, 10), (100, 3), (100, 10), (1000, 10), (1000, 100), (10_000, 3), (10_000, 100), (10_000, 1000))


def play(n, size):
    """Yield a row for each rule: variance and range of the counts, mean distance of the pairs selected."""
    rng = np.random.default_rng(0)
    points = Points(rng.dirichlet(np.full(10, 0.5), n), "hellinger")
    rates = rng.permutation(np.linspace(0.1, 0.9, n))
    geometry = (
        points if n > 1000 else points.problem(points.roots, np.zeros(n), size=1).geometry.distances(np.arange(n))
    )
    rounds = min(500, round(5 * n / size))
    rules = {
        "uniform": Uniform(size),
        **{
            scale: FedGS(size, distances=geometry, scale=scale, method="local-search")
            for scale in ("turns", "pairs", "paper")
        },
    }
    for name, rule in rules.items():
        counts, apart = np.zeros(n, dtype=np.int64), []
        for done in simulate(rule, Independent(rates, 0), sizes=np.ones(n, int), rounds=rounds):
            chosen = done.selection.clients
            counts[chosen] += 1
            some = points.roots[chosen[:200]]
            gaps = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
            apart.append(gaps.sum() / max(1, some.shape[0] * (some.shape[0] - 1)))
        yield {
            "clients": n,
            "a round": size,
            "rounds": rounds,
            "rule": name,
            "turns of alpha": "" if name == "uniform" else f"{rule.alpha_in_turns:.3g}",
            "variance of counts": f"{counts.var():.3g}",
            "fewest": counts.min(),
            "most": counts.max(),
            "mean distance": f"{np.mean(apart):.3f}",
        }


def main() -> None:
    """Play every case; write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    rows = []
    for n, size in CASES:
        rows += play(n, size)
        pd.DataFrame(rows).to_csv(given.out, index=False)
        print(pd.DataFrame(rows[-4:]).to_string(index=False, header=len(rows) == 4), flush=True)


if __name__ == "__main__":
    main()
