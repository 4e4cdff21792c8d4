"""Partitions and reference computations the graph tests share."""

from __future__ import annotations

import numpy as np


def two_label_partition(clients: int, labels: int = 10, seed: int = 0) -> np.ndarray:
    """FedGS's FashionMNIST partition: each client deals itself two of the least used labels."""
    rng = np.random.default_rng(seed)
    owned = np.zeros((clients, labels))
    used = np.zeros(labels)
    for client in range(clients):
        for _ in range(2):
            free = np.flatnonzero(owned[client] == 0)
            label = rng.choice(free[used[free] == used[free].min()])
            owned[client, label] = 1
            used[label] += 1
    return owned / 2


def dirichlet_partition(clients: int, concentration: float = 1.75, labels: int = 10, seed: int = 0) -> np.ndarray:
    """FedGS's CIFAR-10 partition: label shares from Dir(concentration · p), p uniform."""
    return np.random.default_rng(seed).dirichlet(np.full(labels, concentration / labels), clients)


def authors_distances(features: np.ndarray) -> np.ndarray:
    """H as the authors' training code computes it, loop by loop, with nothing taken from the package."""
    size = len(features)
    S = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i != j:
                S[i, j] = features[i] @ features[j] / np.sqrt((features[i] ** 2).sum() * (features[j] ** 2).sum())
    V = (S - S.min()) / (S.max() - S.min())
    R = np.where(V > 0.01, np.exp(-(V**2) / 0.1), np.inf)
    np.fill_diagonal(R, 0.0)
    H = triple_loop(R)
    largest = H[np.isfinite(H)].max()
    H /= largest
    H[np.isinf(H)] = 1.0
    return H


def triple_loop(weights: np.ndarray) -> np.ndarray:
    """Textbook Floyd–Warshall."""
    D = weights.tolist()
    nodes = range(len(D))
    for k in nodes:
        for i in nodes:
            for j in nodes:
                if D[i][k] + D[k][j] < D[i][j]:
                    D[i][j] = D[i][k] + D[k][j]
    return np.array(D)
