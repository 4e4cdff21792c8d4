"""Does the annealer fail, or the objective? The mutually closest updates, exactly, by Krum and by simulated annealing.

Against clients that lie, a server may keep the n − f updates with the least sum of squared distances among each other.
Multi-Krum approximates that by sums over neighbours. As a QUBO, with a penalty (Σx − k)² for the number kept, it has
been proposed for annealers, which were reported to fail at some hundred clients (arXiv 2605.16438). Here all of them
meet the same updates, whose optimum `solvers.dispersion.closest` proves, with a certificate.

Updates are normal, in 50 dimensions around a common direction; f of n clients lie:

* ``none``: they do not (they are marked all the same);
* ``sign flip``: they send the opposite of their updates, three times as long;
* ``gaussian``: normal noise of ten times the deviation in place of the update;
* ``a little``: *a little is enough* (Baruch et al., NeurIPS 2019): all send the mean of all updates less z standard
  deviations in every coordinate, z = 0.7;
* ``sparse``: as ``a little`` with z = 3 in a tenth of the coordinates, and the mean itself elsewhere.

Simulated annealing is dwave-samplers' (`pip install dwave-samplers`; left out where it is not there), 100 reads
(``--paper``: 1 000), on the QUBO with a penalty that provably suffices times 1 and .05; ``slice`` is annealing by swaps
that keep the number (method ``annealing`` here). Columns: whether the number is kept; the distance from the optimum (of
the answer repaired greedily where the number is not kept); the share of the liars that is kept; seconds; whether the
exact answer is proved, and how far its certificate is below.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from comparison import by_cell
from fedselect.training.robust_rules import krum_sums
from solvers import solve
from solvers.certificates import check
from solvers.dispersion import DispersionProblem, closest, to_qubo
from study import Study, Table, main

DIMENSIONS = 50
ATTACKS = ("none", "sign flip", "gaussian", "a little", "sparse")


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    clients: tuple[int, ...]
    share: float
    seeds: int
    reads: int


QUICK = Scale(clients=(15, 50, 100, 200), share=0.2, seeds=3, reads=100)
PAPER = Scale(clients=(15, 50, 100, 200), share=0.2, seeds=20, reads=1000)


def updates(n, liars, attack, seed):
    """Draw the updates of n clients, of which the first so many lie."""
    rng = np.random.default_rng([seed, n])
    found = 0.5 + rng.normal(size=(n, DIMENSIONS))
    mean, deviation = found.mean(axis=0), found.std(axis=0)
    if attack == "sign flip":
        found[:liars] *= -3
    elif attack == "gaussian":
        found[:liars] = 10 * rng.normal(size=(liars, DIMENSIONS))
    elif attack == "a little":
        found[:liars] = mean - 0.7 * deviation
    elif attack == "sparse":
        found[:liars] = mean - 3 * deviation * (np.arange(DIMENSIONS) < DIMENSIONS // 10)
    return found


def answers(n, attack, seed, share, reads):
    """Answer one case by every method; a row each."""
    liars = int(share * n)
    rows = updates(n, liars, attack, seed)
    far = ((rows[:, None] - rows) ** 2).sum(axis=2)
    far = (far + far.T) / 2
    problem = closest(far, n - liars)
    best = solve(problem)
    proved = check(problem, solve(problem, start=best, certificate=True).certificate)
    exact = DispersionProblem(problem.solved_as.distances, size=n - liars, weight=1.0)

    def row(method, x, seconds):
        chosen = np.asarray(x) == 1
        kept = repaired(far, chosen, n - liars)
        return {
            "method": method,
            "number kept": float(chosen.sum() == n - liars),
            "above optimum": problem.objective(kept.astype(int)) / best.objective - 1,
            "liars kept": int(kept[:liars].sum()) / liars,
            "seconds": seconds,
            "proved": float(best.status == "optimal"),
            "certificate below": 1 - proved / best.objective,
        }

    found = [row("exact", best.x, best.seconds)]
    begun = time.perf_counter()
    krum = np.isin(np.arange(n), np.argsort(krum_sums(far, n - liars), kind="stable")[: n - liars])
    found.append(row("multikrum", krum, time.perf_counter() - begun))
    slice_ = solve(problem, "annealing", seed=seed)
    found.append(row("slice annealing", slice_.x, slice_.seconds))
    if importlib.util.find_spec("dwave") is not None:
        from dwave.samplers import SimulatedAnnealingSampler

        enough = to_qubo(exact)[2]
        for factor in (1.0, 0.05):
            q = to_qubo(exact, factor * enough)[0]
            begun = time.perf_counter()
            sample = SimulatedAnnealingSampler().sample_qubo(
                {(i, j): (1 if i == j else 2) * q[i, j] for i in range(n) for j in range(i, n)},
                num_reads=reads,
                seed=seed,
            )
            x = np.array([sample.first.sample[k] for k in range(n)])
            found.append(row(f"QUBO annealing, penalty x {factor:g}", x, time.perf_counter() - begun))
    return pd.DataFrame(found)


def repaired(far, chosen, size):
    """Return a selection of so many: the farthest leave, or the nearest enter, one by one."""
    kept = chosen.copy()
    while kept.sum() > size:
        sums = np.where(kept, far[:, kept].sum(axis=1), -np.inf)
        kept[int(sums.argmax())] = False
    while kept.sum() < size:
        sums = np.where(kept, np.inf, far[:, kept].sum(axis=1))
        kept[int(sums.argmin())] = True
    return kept


def results(setup):
    """Answer every case, and yield the means over seeds and all answers."""
    scale = setup.scale
    cases = {
        (n, attack, seed): (n, attack, seed, scale.share, scale.reads)
        for n in scale.clients
        for attack in ATTACKS
        for seed in range(scale.seeds)
    }
    parts = setup.parts("answers", answers, cases)
    frames = [part.assign(clients=n, attack=attack, seed=seed) for (n, attack, seed), part in parts.items()]
    every = pd.concat(frames, ignore_index=True)
    measured = ("number kept", "above optimum", "liars kept", "seconds", "proved", "certificate below")
    table = by_cell(every, ["clients", "attack", "method"], lambda group: {key: group[key].mean() for key in measured})
    yield Table(table, "Exact, heuristic and annealed selections of the closest updates", "annealers")
    yield Table(every, file="answers")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
