"""Do near-optimal selections train differently? Federations on which FedGS goes on with another selection.

    python tests/benchmarks/bench_near_optima.py --splits 20 --out docs/benchmarks/near_optima.csv

FedGS selects 10 of 100 clients of digits (linear model) for some rounds. From the state that this leaves, with the same
counts, availability and batches, training goes on with the optimum, with selections drawn among those whose value is
within .1 % or 1 % of the optimum's, and with selections drawn among all (the control); in every round afresh. A draw
is the end of a Metropolis walk of swaps that never leaves the set, and whose limit is the uniform distribution on what
the walk reaches. The unit of replication is a split of the data, with availability, batches and initial model of its
own; draws within a split are averaged first.

What was fixed before the first run: a mean difference of the test loss from the optimum's is of no account below 2 % of
the latter, as in the study ``exact_vs_heuristic``, after one round and after the last one; "agrees" is said by two
one-sided tests at 5 %, "higher" and "lower" where 0 is outside of the 95 % interval. ``spread``: standard deviation of
the loss between the draws of a split, in per cent of the optimum's loss. ``gap``: how far the selections' values are
below the proved bound, the optimum's among them: some rounds are not proved; ``differ``: clients of the first draw that
are not in the optimum.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.rounds.protocol import Selection
from fedselect.selectors import FedGS
from fedselect.selectors.base import data_weights
from fedselect.statistics import compare_means
from fedselect.training.fedavg import FedAvg
from solvers import solve

FEDERATIONS = {
    "Dirichlet .5, all available": ({"partition": "dirichlet-prior", "concentration": 0.5}, "ideal"),
    "Dirichlet .5, log-normal": ({"partition": "dirichlet-prior", "concentration": 0.5}, "lognormal"),
    "two labels, all available": ({"partition": "two-label"}, "ideal"),
}

#: Share of the bound that a drawn selection may be worse by.
TOLERANCES = {"optimum": None, "within .1 %": 1e-3, "within 1 %": 1e-2, "any": np.inf}

#: Differences of less than this share of the optimum's loss are of no account.
MARGIN = 0.02

#: Rows of the matrix that a proof may read, some .1 s; where it is not enough, its bound is further away.
WORK = 100_000


def walk(problem, x: np.ndarray, least: float, rng: np.random.Generator, steps: int = 200) -> np.ndarray:
    """Return the end of a Metropolis walk of swaps among selections of at least that value."""

    def swaps(x):
        inside, outside = np.flatnonzero(x), np.flatnonzero(x == 0)
        slopes = 2 * problem.weight * (problem.distances @ x) - problem.costs
        pairs = 2 * problem.weight * problem.distances[np.ix_(inside, outside)]
        values = problem.objective(x) + slopes[outside] - slopes[inside][:, None] - pairs
        return [(inside[i], outside[j]) for i, j in zip(*np.nonzero(values >= least), strict=True)]

    x, moves = x.copy(), swaps(x)
    for _ in range(steps if moves else 0):
        leaves, joins = moves[rng.integers(len(moves))]
        after = x.copy()
        after[[leaves, joins]] = 0, 1
        theirs = swaps(after)
        if rng.random() * len(theirs) <= len(moves):
            x, moves = after, theirs
    return x


class NearOptimal(FedGS):
    """FedGS whose selections are drawn among those near the optimum."""

    def __init__(self, size, *, within, draw, **options):
        super().__init__(size, scale="pairs", **options)
        self.within, self.draw = within, draw
        self.gap, self.differ = [], []

    def select(self, round):
        """Solve the round's problem, and walk away from the optimum."""
        problem = self.geometry.state(self.counts, round.available, self.size, self.alpha, self.scale)
        rng = np.random.default_rng([self.draw, round.round])
        if self.within == np.inf:
            x = np.zeros(problem.n, dtype=np.int64)
            x[rng.choice(problem.n, problem.size, replace=False)] = 1
        else:
            solution = solve(problem, work_limit=WORK)
            x = solution.x
            if self.within is not None:
                best = problem.objective(x)
                x = walk(problem, x, best - self.within * abs(best), rng)
            self.gap.append((solution.bound - problem.objective(x)) / abs(solution.bound))
            self.differ.append(int(solution.x @ (1 - x)))
        clients = problem.clients[x == 1]
        return Selection(clients, data_weights(round.sizes, clients))


def losses(name: str, split: int, warm: int, rounds: int, draws: int) -> list[dict]:
    """Train on one split, and return a row per tolerance and draw."""
    options, availability = FEDERATIONS[name]
    federation = digits(n_clients=100, seed=split, **options)

    def loop(within, draw=0):
        selector = NearOptimal.of(federation, 10, within=within, draw=draw)
        return FedAvg(federation, selector, AVAILABILITY.build(availability, federation, split), seed=split)

    start = loop(None)
    start.fit(warm)
    state, rows = start.state_dict(), []
    for label, within in TOLERANCES.items():
        for draw in range(1 if within is None else draws):
            one = loop(within, draw)
            one.load_state_dict(state)
            played = [*one.fit(1), *one.fit(rounds - 1)]
            gap, differ = one.selector.gap or [np.nan], one.selector.differ or [np.nan]
            row = {"federation": name, "selection": label, "split": split, "draw": draw}
            row |= {"one round": played[0].loss, "last round": played[-1].loss}
            rows.append(row | {"gap": np.mean(gap), "differ": differ[0]})
    return rows


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the losses with the optimum's, paired over splits."""
    found = []
    for (name, label), part in rows.groupby(["federation", "selection"], sort=False):
        best = rows[(rows.federation == name) & (rows.selection == "optimum")].set_index("split")
        for when in ("one round", "last round"):
            values, mean = part.groupby("split")[when], float(best[when].mean())
            row = {"federation": name, "selection": label, "after": when, "loss": values.mean().mean()}
            if label != "optimum":
                said = compare_means((values.mean() - best[when]) / mean, margin=MARGIN)
                row |= {"difference %": 100 * said.difference, "half %": 100 * said.half, "verdict": said.verdict}
                row |= {"p_equivalent": said.p_equivalent, "spread %": 100 * np.sqrt(values.var().mean()) / mean}
            gap, differ = 100 * part["gap"].mean(), part["differ"].mean()
            found.append(row | {"gap %": gap, "differ": differ, "splits": values.ngroups})
    return pd.DataFrame(found)


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20, help="splits of the data")
    parser.add_argument("--warm", type=int, default=5, help="rounds of FedGS before")
    parser.add_argument("--rounds", type=int, default=10, help="rounds that differ")
    parser.add_argument("--draws", type=int, default=2, help="draws per split and tolerance")
    parser.add_argument("--out", type=Path, help="CSV file of the table")
    options = parser.parse_args()
    rows = []
    for split in range(options.splits):
        for name in FEDERATIONS:
            rows += losses(name, split, options.warm, options.rounds, options.draws)
        print(f"split {split + 1} of {options.splits}", file=sys.stderr, flush=True)
    found = table(pd.DataFrame(rows))
    print(found.to_string(index=False, float_format="%.3f"))
    if options.out is not None:
        found.to_csv(options.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
