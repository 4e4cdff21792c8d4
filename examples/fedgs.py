"""FedGS on handwritten digits: build the 3DG, select far-apart clients, train, and look at what it did.

Run it with ``python examples/fedgs.py``; it takes about half a minute and writes ``fedgs.png``.
"""

from pathlib import Path

import numpy as np

from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.selectors import FedGS, Uniform
from fedselect.training.fedavg import FedAvg
from graphs import dependency_graph, distances, draw, similarity

ROUNDS, CLIENTS, SIZE, SEED = 60, 100, 10, 0

# 100 clients with two labels each; a test set that neither the graph nor a selector ever sees.
federation = digits(clients=CLIENTS, partition="two-label")

# Similar label distributions -> edges of the 3DG -> shortest-path distances between clients.
graph = dependency_graph(similarity(federation.label_distributions), preset="reference")
h = distances(graph)

# Some clients are nearly always there, others hardly ever. Every selector meets the same availability.
availability = AVAILABILITY.build("lognormal", federation, SEED, beta=0.5)

selectors = {
    "uniform": Uniform(SIZE),
    "FedGS, greedy": FedGS(h, SIZE, alpha=1.0, method="greedy"),
    "FedGS, exact": FedGS(h, SIZE, alpha=1.0, method="auto", time_limit=2.0),
}

print(
    f"{'selector':>14}  {'variance of counts':>18}  {'test loss':>9}  {'accuracy':>8}  {'proved':>6}  {'mean gap':>9}"
)
for name, selector in selectors.items():
    loop = FedAvg(federation, selector, availability, seed=SEED)
    counts, gaps, proved = np.zeros(CLIENTS), [], 0
    for _ in range(ROUNDS):
        done = loop.step()
        counts[done.selection.clients] += 1
        solution = done.selection.solution  # the optimisation behind the decision, if there was one
        if solution is not None and solution.gap is not None:
            gaps.append(solution.gap)
            proved += solution.status == "optimal"
    gap = f"{np.mean(gaps):9.1e}" if gaps else "        -"
    share = f"{proved / ROUNDS:6.0%}" if gaps else "     -"
    variance = counts.var(ddof=1)
    print(f"{name:>14}  {variance:18.1f}  {done.loss:9.3f}  {done.accuracy:8.3f}  {share}  {gap}", flush=True)

figure = draw(graph, selected=done.selection.clients.tolist(), labels=federation.label_distributions)
figure.savefig(Path("fedgs.png"), dpi=120)
print("the 3DG with the last selection marked: fedgs.png")
