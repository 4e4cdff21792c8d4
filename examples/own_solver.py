r"""
Bring your own solver
=====================

A method is a function of a problem and a run. Registered, it is a method like any other: `solve` finds it, a benchmark
compares it, a selector may use it, and ``fedselect ... --load own_solver.py`` brings it to the command
line. What is below ``if __name__ == "__main__"`` runs in the script alone, not where it is loaded. The problem:

.. math:: \max_{s \in \{0,1\}^n} \; w\, s^\top H s - c^\top s \quad \text{subject to} \quad 1^\top s = m .
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect.availability import lognormal
from fedselect.data import digits
from fedselect.selectors import FedGS
from fedselect.training.fedavg import FedAvg
from graphs import dependency_graph, distances, similarity
from solvers import method, solve
from solvers.benchmark import figures, run_benchmark
from solvers.dispersion import DispersionProblem

# %%
# The method
# ----------
# Far and cheap: those whose distances to all others outweigh their costs; then random swaps while there is time. The
# run evaluates what is offered, keeps the best, and writes the trace. It needs no return value.


@method(DispersionProblem, "far-and-cheap", kind="heuristic")
def far_and_cheap(problem, run, *, swaps: int = 300):
    """Take those whose distances to all others outweigh their costs, and try random swaps."""
    x = np.zeros(problem.n, dtype=int)
    x[np.argsort(problem.costs - problem.weight * problem.distances.sum(axis=1))[: problem.size]] = 1
    best = problem.objective(x)
    run.offer(x)
    for _ in range(swaps):
        if run.expired or problem.size == problem.n:
            return
        y = x.copy()
        y[run.rng.choice(np.flatnonzero(x))], y[run.rng.choice(np.flatnonzero(x == 0))] = 0, 1
        if problem.objective(y) > best:
            x, best = y, problem.objective(y)
            run.offer(x)


# %%
# One problem, exactly and with it
# --------------------------------

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    points = rng.random((50, 2))
    problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), rng.random(50), size=8, weight=0.1)
    mine, exact = solve(problem, "far-and-cheap", seed=1), solve(problem, "branch-and-bound", time_limit=10)
    print(f"exact {exact.objective:.4f} ({exact.status}); mine {mine.objective:.4f}")
    print(f"mine lies {(exact.bound - mine.objective) / abs(exact.bound):.2%} below the bound")

# %%
# A comparison on recorded instances
# ----------------------------------
# Every answer is evaluated again by the problem; a wrong claim would be named in ``verdict``.

if __name__ == "__main__":
    compared = run_benchmark(
        {"mine": "far-and-cheap", "greedy": "greedy", "tabu": "tabu"},
        ["fedgs-digits-twolabel-n30-m5-lognormal-r10", "fedgs-digits-dirichlet-n100-m10-ideal-r5"],
        time_limits=[0.5],
        jobs=1,
    )
    print(compared.table[["instance", "method", "verdict", "objective", "gap_to_best"]].to_string(index=False))
    figure = figures.win_figure(compared.table)
    figure.suptitle("How often each method beats another")

# %%
# Twenty rounds in the loop
# -------------------------

if __name__ == "__main__":
    federation = digits(n_clients=100)
    H = distances(dependency_graph(similarity(federation.label_distributions)))
    availability = lognormal(federation, beta=0.5)
    loop = FedAvg(
        federation, FedGS(10, distances=H, method="far-and-cheap", bound_by="branch-and-bound"), availability, seed=0
    )
    rounds = [loop.step() for _ in range(20)]
    gaps = [done.selection.solution.gap for done in rounds]
    print(f"accuracy {rounds[-1].accuracy:.3f}; gap in the mean {np.mean(gaps):.3%}, at most {np.max(gaps):.3%}")
    plt.show()

# %%
# **What to conclude.** The benchmark, not the author, says how good a method is: this one finds the optimum of the
# small problem, is near the best known value of the larger one, and is behind tabu search there. In the loop
# ``bound_by`` certifies every round that it decided.
