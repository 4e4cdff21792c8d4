"""What one secure cosine reveals, and what rounding and noise cost: ``python tests/benchmarks/bench_secure.py``.

*Fit*: how many of the 1 307 504 ways to spread 15 samples over 10 labels agree with one observed cosine, to a vector
that the attacker has chosen (uniform entries); it knows how vectors are encoded and, with noise of standard deviation
s, keeps all within 2 s. Fewest and median of 20 victims with labels from a Dirichlet distribution of concentration 1.
*F1*: edges of the 3DG of 50 clients with 100 samples each from the secure similarities, against those from the exact
ones; mean of 10 federations, with Dirichlet labels (0.2) and with two labels for each client.
"""

from __future__ import annotations

import itertools

import numpy as np

from graphs import dependency_graph, edge_scores, secure_similarity, similarity

SAMPLES, LABELS = 15, 10
OPTIONS = [(30, 0.0), (8, 0.0), (5, 0.0), (4, 0.0), (3, 0.0), (30, 1e-4), (30, 1e-3), (30, 1e-2), (30, 3e-2)]


def count_vectors(samples: int, labels: int) -> np.ndarray:
    """All ways to spread samples over labels, shape (C(samples + labels - 1, labels - 1), labels)."""
    bars = np.fromiter(
        itertools.chain.from_iterable(itertools.combinations(range(samples + labels - 1), labels - 1)), dtype=np.int16
    ).reshape(-1, labels - 1)
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), samples + labels - 1)])
    return np.diff(edges, axis=1) - 1


def counts(rng: np.random.Generator, clients: int, samples: int, kind: str) -> np.ndarray:
    """Samples of each label at each client, shape (clients, LABELS)."""
    if kind == "dirichlet":
        return np.array([rng.multinomial(samples, p) for p in rng.dirichlet(np.full(LABELS, 0.2), clients)])
    if kind == "even":
        return np.array([rng.multinomial(samples, p) for p in rng.dirichlet(np.ones(LABELS), clients)])
    two = np.zeros((clients, LABELS), dtype=int)
    for row in two:
        row[rng.choice(LABELS, 2, replace=False)] = samples // 2
    return two


def fitting(encoded: np.ndarray, victim: np.ndarray, bits: int, noise: float, rng) -> int:
    """Number of count vectors that agree with the cosine of one victim and one known client."""
    known = rng.random(LABELS)
    seen = secure_similarity(np.stack([victim, known]), fraction_bits=bits, noise=noise, rng=rng).matrix[0, 1]
    mine = np.rint(known / np.linalg.norm(known) * 2.0**bits).astype(np.int64)
    products = np.clip(encoded @ mine / 4.0**bits, -1, 1)
    return int((np.abs(products - seen) <= (2 * noise if noise else 0)).sum())


def main() -> None:
    """Print the table."""
    everything = count_vectors(SAMPLES, LABELS)
    lengths = np.linalg.norm(everything, axis=1, keepdims=True)
    print("| fraction_bits | noise | fit: fewest | fit: median | F1, Dirichlet | F1, two labels |")
    print("|---:|---:|---:|---:|---:|---:|")
    for bits, noise in OPTIONS:
        encoded = np.rint(everything / lengths * 2.0**bits).astype(np.int64)
        rng = np.random.default_rng(0)
        found = [fitting(encoded, counts(rng, 1, SAMPLES, "even")[0], bits, noise, rng) for _ in range(20)]
        f1 = []
        for kind in ("dirichlet", "two"):
            scores = []
            for seed in range(10):
                federation = counts(np.random.default_rng(seed), 50, 100, kind)
                exact = dependency_graph(similarity(federation))
                rough = secure_similarity(
                    federation, fraction_bits=bits, noise=noise, keep_transcript=False, rng=np.random.default_rng(seed)
                )
                scores.append(edge_scores(dependency_graph(rough.matrix), exact).f1)
            f1.append(np.mean(scores))
        print(
            f"| {bits} | {noise:g} | {min(found):,} | {int(np.median(found)):,} | {f1[0]:.3f} | {f1[1]:.3f} |".replace(
                ",", " "
            )
        )


if __name__ == "__main__":
    main()
