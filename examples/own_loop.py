r"""
A selector in a loop of one's own
=================================

You have a training loop and want the decision alone. Two functions are the border: `rounds.context` is what a selector
is asked, `rounds.feedback` what it is told. What it answers are clients and absolute weights:

.. math:: w \leftarrow w + \sum_{i \in S} a_i \Delta_i .

Here the loop is linear regression in plain NumPy, without PyTorch, and the selector is FedGS:

.. math:: \max_{s \in \{0,1\}^n} \; \frac{\alpha}{m (m - 1)} s^\top H s - z^\top s
          \quad \text{subject to} \quad 1^\top s = m .
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect import rounds
from fedselect.selectors import FedGS
from graphs import dependency_graph, distances, similarity

# %%
# Forty clients of four kinds
# ---------------------------
# Each kind sees another corner of the space; the truth is one for all.

rng = np.random.default_rng(0)
truth = rng.normal(size=8)
kinds = np.arange(40) % 4
sizes = rng.integers(10, 60, 40)
features = [
    rng.normal(0, np.where(np.arange(8) // 2 == k, 2.0, 0.2), (n, 8)) for k, n in zip(kinds, sizes, strict=True)
]
targets = [x @ truth + rng.normal(0, 0.1, len(x)) for x in features]
moments = np.array([np.square(x).mean(axis=0) for x in features])  # what clients say of their data
H = distances(dependency_graph(similarity(moments, kind="cosine")))


def trained(w, client):
    """Five steps of gradient descent on one client: its update and its last loss."""
    x, y, v = features[client], targets[client], w.copy()
    for _ in range(5):
        v -= 0.05 * x.T @ (x @ v - y) / len(y)
    return v - w, float(np.square(x @ v - y).mean() / 2)


# %%
# Twenty rounds, exactly and heuristically
# ----------------------------------------
# A tenth of the selected, on average, do not answer; the selector is told, and decides what becomes of the weights.

figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for method in ("branch-and-bound", "greedy"):
    selector, w, errors, gaps = FedGS(8, distances=H, method=method, bound_by="branch-and-bound"), np.zeros(8), [], []
    world = np.random.default_rng(1)
    for t in range(20):
        context = rounds.context(t, world.random(40) < 0.7, sizes, seed=0, time_limit=5.0)
        selection = selector.select(context)
        returned = world.random(selection.clients.size) < 0.9
        results = {int(k): trained(w, k) for k in selection.clients[returned]}
        for client, weight in zip(selection.clients.tolist(), selection.applied_weights(returned), strict=True):
            w = w + weight * results[client][0] if client in results else w
        losses = {client: loss for client, (_, loss) in results.items()}
        selector.update(rounds.feedback(context, selection, returned=list(results), losses=losses))
        errors.append(np.linalg.norm(w - truth))
        gaps.append(selection.solution.gap)
    axes.semilogy(errors, label=method)
    print(f"{method:17} error {errors[-1]:.3f} after 20 rounds; largest gap {max(gaps):.2%}")
axes.set(xlabel="round", ylabel="distance to the truth", title="FedGS in a loop of one's own")
axes.legend(frameon=False)
plt.show()

# %%
# **What to conclude.** Two calls a round connect a selector to any loop. Exact and greedy selection end alike: greedy
# is within a hundredth of a per cent of the optimum in every round here, and the gap says so without a second run.
