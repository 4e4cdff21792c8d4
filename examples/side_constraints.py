r"""
What a deadline costs
=====================

A round of FedGS with a budget of seconds, quotas on regions and a client that must come: select within them, look at
what each limit leaves, and tighten the deadline step by step.

.. math:: \max_s \; w\, s^\top H s - c^\top s \quad \text{s.t.} \quad 1^\top s = m, \; t^\top s \le b, \;
    l_g \le \sum_{i \in g} s_i \le u_g
"""

import matplotlib.pyplot as plt
import numpy as np

from solvers import InvalidProblem, solve
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem

rng = np.random.default_rng(4)
n, m = 40, 6
places = rng.random((n, 2))
distances = np.linalg.norm(places[:, None] - places, axis=2)
seconds = rng.lognormal(1.0, 0.8, size=n)
regions = np.digitize(places[:, 0], [0.3, 0.7])  # west, middle, east


def round_of(limit=None):
    """The round, with or without a deadline."""
    quotas = [
        Quota(np.flatnonzero(regions == k).tolist(), 1, 3, name) for k, name in enumerate(("west", "middle", "east"))
    ]
    budgets = [] if limit is None else [Budget(seconds, limit, "seconds")]
    return DispersionProblem(distances, size=m, weight=0.5, include=[12], quotas=quotas, budgets=budgets)


# %%
# Without and with a deadline
# ---------------------------

free = solve(round_of(), time_limit=10)
used = seconds[free.selected].sum()
tight = solve(round_of(0.6 * used), time_limit=10)
for name, solution in (("no deadline", free), ("60 % of its seconds", tight)):
    print(f"{name}: {solution.objective:.3f}, {seconds[solution.selected].sum():.1f} s, clients {solution.selected}")
for row in tight.problem.constraints.rows:
    print(f"  {row.name}: {row.activity(tight.x):.3g} used, {row.slack(tight.x):.3g} left")

# %%
# What is not possible says why
# -----------------------------

try:
    round_of(0.01 * used)
except InvalidProblem as error:
    print(error)

# %%
# The price of time
# -----------------
# Every limit below is a problem of its own; the optimum of a looser one is never worth less.

limits, values = [], []
for share in np.linspace(0.25, 1.05, 12):
    try:
        solution = solve(round_of(share * used), "tabu", moves=5_000)
    except InvalidProblem:
        continue  # not even the fastest clients that meet the quotas are quick enough
    limits.append(share * used)
    values.append(solution.objective)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.step(limits, np.maximum.accumulate(values), where="post", marker=".")
left.axhline(free.objective, linestyle="--", color="0.5", label="no deadline")
left.set(xlabel="budget of seconds", ylabel="dispersion", title="What a deadline costs")
left.legend()
right.scatter(*places.T, s=8 * seconds, facecolor="none", edgecolor="0.6", label="clients, by seconds")
for solution, marker, name in ((free, "s", "no deadline"), (tight, "x", "60 % of its seconds")):
    right.scatter(*places[solution.selected].T, marker=marker, label=name)
right.set(title="Selected clients", xticks=[], yticks=[])
right.legend(fontsize="small")

# %%
# **What to conclude.** What constraints cost of the objective can be computed, and those that cannot be met are
# refused with a sentence. The curve is the price of a deadline: here the first seconds that are taken away cost
# little, the last ones much. The slack says which constraint to loosen.
