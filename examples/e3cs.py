r"""
E3CS: probabilities with a floor and a cap
==========================================

E3CS (Huang et al., IEEE Internet of Things Journal 2022) learns which clients return, by exponential weights
:math:`w`, and turns them into probabilities that sum to :math:`k`, leave each client a quota :math:`\sigma` and never
exceed 1:

.. math:: p_i = \sigma + (k - K\sigma) \frac{\min(w_i, c)}{\sum_j \min(w_j, c)} , \qquad p_i \le 1 .

The cap :math:`c` is found by sorting, without a tolerance; a single clipping pass loses mass.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect.availability import Independent, success_classes
from fedselect.data import digits
from fedselect.selectors import E3CS
from fedselect.simulation import simulate
from fedselect.training.fedavg import FedAvg
from solvers import solve
from solvers.capping import CappingProblem, madow, successive_inclusion

# %%
# One round's probabilities, exactly and by one pass
# --------------------------------------------------

rng = np.random.default_rng(0)
problem = CappingProblem(weights=rng.lognormal(0, 2, 16), size=6, floor=0.1)
exact = solve(problem, "exact-search")
p, clipped = exact.x, solve(problem, "one-pass").raw
print(f"{exact.status}: sum {p.sum():.6f}, between {p.min():.3f} and {p.max():.3f}; gap {exact.gap:.1e}")
print(f"one clipping pass allots {clipped.sum():.3f} of {problem.size} draws")

# %%
# Water in a basin: weights above the level are cut, and every client stands on the floor.

order = np.argsort(-p)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.bar(range(16), p[order], color="tab:blue", label="exact")
axes.plot(range(16), clipped[order], "kx", label="one pass")
axes.axhline(problem.floor, linestyle=":", color="grey", label="floor σ")
axes.set(xlabel="clients, by weight", ylabel="probability", title="Inclusion probabilities with a floor and a cap")
axes.legend(frameon=False)

# %%
# A draw that keeps its promise
# -----------------------------
# Madow's draw includes client i with probability exactly :math:`p_i`. Drawing one after the other, as
# `torch.multinomial` does, does not.

drawn = np.mean([np.isin(np.arange(16), madow(p, rng)) for _ in range(4000)], axis=0)
print(f"Madow, 4000 draws: at most {np.abs(drawn - p).max():.3f} from p, which is chance")
print(f"successive draws:  {np.abs(successive_inclusion(p) - p).max():.3f} from p, which is bias")

# %%
# What a quota does
# -----------------
# Four classes of clients return 10, 30, 60 and 90 % of the time. A thousand rounds without training show the turns.

always = Independent(np.ones(40), 0)
returning = success_classes(40)
for quota in (0.0, 0.5):
    selector = E3CS(8, 40, quota=quota)
    played = list(simulate(selector, always, returning, sizes=np.full(40, 10), rounds=1000))
    turns = np.bincount(np.concatenate([done.selection.clients for done in played]), minlength=40)
    print(f"quota {quota}: turns of the four classes {turns.reshape(4, 10).sum(axis=1)} of 8000")

# %%
# Twenty rounds in the loop
# -------------------------

federation = digits(n_clients=40)
for quota in (0.0, 0.5):
    loop = FedAvg(federation, E3CS(8, 40, quota=quota), always, dropout=returning, seed=0)
    for _ in range(20):
        done = loop.step()
    print(f"quota {quota}: accuracy {done.accuracy:.3f}")
plt.show()

# %%
# **What to conclude.** Two short cuts change what was computed: clipping once gives away draws, and drawing
# one after the other includes clients with other probabilities. The exact probabilities with Madow's draw do neither.
# A quota gives rarely returning clients turns, most of which return nothing; accuracy is lower with it in this run.
