"""Reconstruct FedGS Table 3 on digits: which similarity of local models finds the oracle's graph.

Clients train for one round from a common model. The server compares their updates (Eq. 11) or their
answers to Gaussian noise (Eq. 12), and is scored on the edges of the graph that label distributions would
have given: dot product at least 0.1, as in the paper. Each method gets the threshold that suits it best.

    python examples/table3_graph_recovery.py
    python examples/table3_graph_recovery.py --model cnn --rate 0.3

The paper finds functional similarity far ahead. Here that depends on how far local training goes: with the
convolutional network at rate 0.3 it is (F1 .99 against .69 on two labels each), at the default rate 0.1 both
recover two-label graphs almost perfectly and the cosine is a little ahead on the Dirichlet ones.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
import torch
from sklearn.datasets import load_digits

from fedselect.embeddings import client_embeddings
from graphs import dependency_graph, epsilon_sweep, label_distribution, similarity

LABELS = 10


def two_labels(y: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Give each client two of the least used labels, and its owners an equal share of each label."""
    owned = np.zeros((clients, LABELS), dtype=bool)
    for client in range(clients):
        for _ in range(2):
            free = np.flatnonzero(~owned[client])
            used = owned[:, free].sum(axis=0)
            owned[client, rng.choice(free[used == used.min()])] = True
    parts: list[list[int]] = [[] for _ in range(clients)]
    for label in range(LABELS):
        owners = np.flatnonzero(owned[:, label])
        shares = np.array_split(rng.permutation(np.flatnonzero(y == label)), len(owners))
        for owner, share in zip(owners, shares, strict=True):
            parts[owner] += share.tolist()
    return [np.array(part) for part in parts]


def dirichlet(y: np.ndarray, clients: int, rng: np.random.Generator, concentration: float = 1.75) -> list[np.ndarray]:
    """Give equally many samples to each client, labels drawn from its own Dir(concentration · p)."""
    shares = rng.dirichlet(np.full(LABELS, concentration / LABELS), clients)
    size = len(y) // clients
    pools = [rng.permutation(np.flatnonzero(y == label)).tolist() for label in range(LABELS)]
    parts: list[list[int]] = [[] for _ in range(clients)]
    # One sample each in turn, from the labels that are left, so that late clients get their share too.
    for _ in range(size):
        for client in range(clients):
            stock = np.array([len(pool) for pool in pools])
            left = shares[client] * (stock > 0) + 1e-12 * stock
            parts[client].append(pools[rng.choice(LABELS, p=left / left.sum())].pop())
    return [np.array(part) for part in parts]


def network(kind: str) -> torch.nn.Module:
    """Return one hidden layer (4 810 parameters), or the paper's FashionMNIST network here (188 810)."""
    nn = torch.nn
    if kind == "mlp":
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, LABELS))
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, LABELS),
    )  # fmt: skip


def train(
    model: torch.nn.Module,
    X: torch.Tensor,
    y: torch.Tensor,
    steps: int,
    rate: float,
    rng: np.random.Generator,
) -> torch.nn.Module:
    """Run local SGD on a copy of the model: batches of 10 from shuffled passes over the client's data."""
    local = copy.deepcopy(model)
    optimiser = torch.optim.SGD(local.parameters(), lr=rate)
    order: list[int] = []
    for _ in range(steps):
        if not order:
            order = rng.permutation(len(y)).tolist()
        batch, order = order[:10], order[10:]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(local(X[batch]), y[batch]).backward()
        optimiser.step()
    return local


def flat(model: torch.nn.Module) -> np.ndarray:
    """Return all parameters as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()


def recover(partition: str, seed: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return the numbers of one row of the table for each method."""
    rng = np.random.default_rng([seed, ["two-label", "dirichlet"].index(partition)])
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    X, y = digits.data[order] / 16.0, digits.target[order]
    validation, X, y = X[:297], X[297:], y[297:]
    parts = (two_labels if partition == "two-label" else dirichlet)(y, options.clients, rng)
    counts = np.array([np.bincount(y[part], minlength=LABELS) for part in parts])
    labels = label_distribution(counts)
    oracle = dependency_graph(similarity(labels, "dot"), "paper")

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = network(options.model)
    inputs, targets = torch.from_numpy(X).float(), torch.from_numpy(y)
    models = [train(model, inputs[p], targets[p], options.steps, options.rate, rng) for p in parts]
    features = {
        "cos-sim": similarity([flat(local) - flat(model) for local in models], "update"),
        "func-sim, paper's noise": similarity(client_embeddings(models, validation, rng), "functional"),
        "func-sim, authors' noise": similarity(
            client_embeddings(models, validation, rng, moments="reference"), "functional"
        ),
        "(every pair an edge)": np.ones((options.clients, options.clients)),
    }
    rows = {}
    for name, V in features.items():
        sweep = epsilon_sweep(V, oracle)
        loops = epsilon_sweep(V, oracle, self_loops=True).best.f1
        reachable = epsilon_sweep(V, oracle, "all").best.f1
        best = sweep.best
        rows[name] = [best.precision, best.recall, best.f1, sweep.epsilon, loops, reachable]
    return rows


def main() -> None:
    """Print one table per partition, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="local SGD steps, the paper's E")
    parser.add_argument("--rate", type=float, default=0.1, help="local learning rate")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for partition in ("two-label", "dirichlet"):
        runs = [recover(partition, seed, options) for seed in range(options.seeds)]
        print(
            f"\ndigits, {options.model}, {partition}, {options.clients} clients, "
            f"{options.steps} local steps at rate {options.rate}, mean of {options.seeds} seeds"
        )
        head = ("precision", "recall", "F1", "epsilon", "F1+loops", "F1, any eps")
        print(" " * 26 + "".join(f"{name:>13}" for name in head))
        for name in runs[0]:
            mean = np.mean([run[name] for run in runs], axis=0)
            print(f"{name:<26}" + "".join(f"{value:>13.4f}" for value in mean))


if __name__ == "__main__":
    main()
