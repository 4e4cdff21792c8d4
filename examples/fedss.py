r"""
FedSS: how many from each group
===============================

FedSS (Tang and Wong, INFOCOM 2023) groups similar clients and draws from every group that is there. With :math:`N_k`
clients in group :math:`k`, whose updates deviate by :math:`H_k`, the variance of the average is smallest for

.. math:: \min_S \; \sum_k \Big(\frac{N_k}{N}\Big)^2 \Big(\frac{1}{S_k} - \frac{1}{N_k}\Big) H_k^2
          \quad \text{subject to} \quad \sum_k S_k = S, \quad 1 \le S_k \le A_k ,

in whole clients, at least one a group and no more than are available. Neyman's closed form knows none of the three.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect.availability import group_trace
from fedselect.data import digits
from fedselect.selectors import FedSS, Uniform
from fedselect.training.fedavg import FedAvg
from solvers import solve
from solvers.allocation import AllocationProblem, group_clients

# %%
# One allocation, exactly and heuristically
# -----------------------------------------
# Six groups, twenty draws. For this problem greedy is exact (the marginal gains fall), and the bound says so.

problem = AllocationProblem(
    sizes=[40, 25, 15, 10, 6, 4], deviations=[0.4, 1.0, 0.2, 3.0, 1.5, 0.5], total=20, upper=[30, 20, 10, 4, 6, 2]
)
exact = solve(problem, "greedy")
print("exact             ", exact.x, exact.status)
for method in ("largest-remainder", "proportional"):
    rounded = solve(problem, method)
    print(f"{method:18}", rounded.x, f"{(rounded.objective - exact.bound) / exact.bound:.2%} above the bound")

# %%
# In real numbers the solution follows the KKT conditions, and lies between the same bounds.

relaxed = solve(problem, "kkt")
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
places = np.arange(6)
axes.bar(places - 0.2, relaxed.x, 0.4, label="real numbers")
axes.bar(places + 0.2, exact.x, 0.4, label="whole clients")
axes.plot(places, problem.upper, "k_", markersize=18, label="available")
axes.set(xlabel="group", ylabel="clients drawn", title="Twenty draws over six groups")
axes.legend(frameon=False)

# %%
# Twenty rounds in the loop
# -------------------------
# Clients are grouped by their labels and come and go in groups, by the hour. A uniform draw follows the tide; the
# stratified one gives each group that is there its weight.

federation = digits(n_clients=60, partition="two-label")
groups = group_clients(federation.label_distributions, largest=10, seed=0).labels
print(groups.max() + 1, "groups of", np.bincount(groups), "clients")
availability = group_trace(federation)
for name, selector in (("uniform", Uniform(10)), ("FedSS", FedSS(10, groups=groups))):
    loop = FedAvg(federation, selector, availability, seed=0)
    for _ in range(20):
        done = loop.step()
    print(f"{name:8} accuracy {done.accuracy:.3f}")
plt.show()

# %%
# **What to conclude.** For these six groups, allocating by their sizes alone nearly doubles the variance, and rounding
# the optimum of real numbers costs nothing. In training, groups that come and go together bias a uniform draw. The
# stratified one is more accurate in this run, which is one seed of twenty rounds.
