r"""
A graph of similarity from masked vectors
=========================================

FedGS needs the cosine between clients' vectors, :math:`V_{ij} = x_i^\top x_j`, and clients do not show :math:`x_i`.
With a commodity server that hands out masks :math:`r_i, r_j` and numbers :math:`u + v = r_i^\top r_j`, two parties
exchange masked vectors and a blinded number, and an aggregator adds two shares:

.. math:: (x_i^\top \hat x_j + \dots) + (\dots) = x_i^\top x_j .

Arithmetic is modulo :math:`2^{64}`: a masked vector is uniformly random. The products themselves are no secret: all of
them together determine the vectors up to a rotation or reflection, and the commodity server must not collude with a
party or the aggregator (`graphs.secure_product` says what is protected).
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect.availability import lognormal
from fedselect.data import digits
from fedselect.selectors import FedGS
from fedselect.training.fedavg import FedAvg
from graphs import dependency_graph, distances, draw, secure_product, secure_similarity, similarity
from solvers import solve
from solvers.dispersion import DispersionProblem

# %%
# One product, message by message
# -------------------------------

product = secure_product([0.5, -1.0, 2.0], [1.5, 0.25, 1.0])
for message in product.transcript:
    print(f"{message.sender:>10} -> {message.receiver:<10} {message.kind}")
print("product", product.value, "of", 0.5 * 1.5 - 1.0 * 0.25 + 2.0 * 1.0)

# %%
# All pairs
# ---------
# Twenty-four clients, their label distributions, 276 products. The graph is that of the open computation.

federation = digits(n_clients=24, partition="two-label")
secret = federation.label_distributions
secure = secure_similarity(secret, keep_transcript=False)
opened = similarity(secret, kind="cosine")
off = ~np.eye(24, dtype=bool)
print(f"largest difference to the open computation: {np.abs(secure.matrix - opened)[off].max():.1e}")
graph = dependency_graph(secure.matrix)
H = distances(graph)

# %%
# One selection on it, exactly and heuristically
# ----------------------------------------------

problem = DispersionProblem.fedgs(H, np.zeros(24, dtype=int), np.ones(24, dtype=bool), size=5, alpha=1.0)
exact, greedy = solve(problem, "branch-and-bound", time_limit=10), solve(problem, "greedy")
print(f"exact {exact.selected} ({exact.status}); greedy {1 - greedy.objective / exact.bound:.2%} below")
figure = draw(graph, exact.selected, labels=federation.label_counts, title="A 3DG made of masked messages")

# %%
# Twenty rounds in the loop
# -------------------------

availability = lognormal(federation, beta=0.5)
loop = FedAvg(federation, FedGS(5, distances=H), availability, seed=0)
for _ in range(20):
    done = loop.step()
print(f"accuracy after 20 rounds: {done.accuracy:.3f}")
plt.show()

# %%
# **What to conclude.** A client's vector is sent masked alone, and the graph is that of the open computation up to
# rounding to fixed point. Masks cost messages, one exchange for each pair of clients. What the products tell they do
# not hide.
