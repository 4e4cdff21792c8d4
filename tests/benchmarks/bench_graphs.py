"""Speed of the graphs package, as one table: ``python tests/benchmarks/bench_graphs.py``.

Every number is from this run, on one thread; ratios are between rows of this run. Takes about two minutes
and, for N = 5 000, up to 2 GiB. ``--quick`` leaves N = 5 000 out.
"""

from __future__ import annotations

import os

# Before NumPy is imported: BLAS reads it once.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from graphs import (  # noqa: E402
    dependency_graph,
    distances,
    edge_weights,
    path_lengths,
    secure_similarity,
    similarity,
)

spec = importlib.util.spec_from_file_location("graph_examples", ROOT / "tests/graphs/examples.py")
assert spec is not None
assert spec.loader is not None
examples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(examples)


def timed(function: Callable[..., Any], *arguments: Any, repeat: int = 1) -> tuple[float, Any]:
    """Shortest of several runs, and the answer."""
    best, answer = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        answer = function(*arguments)
        best = min(best, time.perf_counter() - start)
    return best, answer


def row(name: str, seconds: float, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{name:<66} {seconds:10.3f} s   {note}", flush=True)


def pipeline() -> None:
    """N = 1 000 from features through the NetworkX graph to distances."""
    U = examples.dirichlet_partition(1000)
    a, V = timed(similarity, U)
    b, graph = timed(dependency_graph, V)
    c, H = timed(distances, graph)
    row("N=1000 features -> NetworkX graph -> distances", a + b + c, "target 4 s")
    row("    similarity", a)
    row("    dependency_graph", b, f"{graph.number_of_edges()} edges")
    row("    distances", c)
    d, A = timed(lambda: distances(edge_weights(similarity(U))))
    row("N=1000 features -> weights -> distances (array path)", d, f"differs by {np.abs(A - H).max():.1e}")


def baselines() -> None:
    """Against the authors' triple loop and NetworkX's NumPy version, graph in, lengths out."""
    for size in (300, 2000):
        graph = dependency_graph(similarity(examples.dirichlet_partition(size)))
        ours, D = timed(path_lengths, graph, repeat=3)
        row(f"N={size} path lengths, ours (graph in, method auto)", ours)
        theirs, E = timed(lambda graph=graph: np.asarray(nx.floyd_warshall_numpy(graph)))
        off = np.abs(D - E).max() / E.max()
        row(
            f"N={size} networkx.floyd_warshall_numpy",
            theirs,
            f"{theirs / ours:.1f}x ours, differs by {off:.0e}",
        )
        if size == 300:  # N = 1 000 would take a minute and say the same
            weights = nx.to_numpy_array(graph, nonedge=np.inf)
            np.fill_diagonal(weights, 0.0)
            loop, F = timed(examples.triple_loop, weights)
            off = np.abs(D - F).max() / F.max()
            row(f"N={size} triple loop in Python", loop, f"{loop / ours:.0f}x ours, differs by {off:.0e}")


def densities() -> None:
    """Where the sparse methods start to pay."""
    rng = np.random.default_rng(0)
    for size in (300, 2000):
        for share in (0.002, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0):
            W = np.where(rng.random((size, size)) < share, rng.random((size, size)), np.inf)
            W = np.minimum(W, W.T)
            np.fill_diagonal(W, 0)
            density = (np.isfinite(W).sum() - size) / (size * (size - 1))
            times = {m: timed(path_lengths, W, m)[0] for m in ("floyd-warshall", "dijkstra")}
            text = "  ".join(f"{m} {t:.3f}" for m, t in times.items())
            print(
                f"    N={size} density {density:.2f}:  {text}  auto {timed(path_lengths, W)[0]:.3f}",
                flush=True,
            )


def secure() -> None:
    """Run the protocol for every pair of 100 clients."""
    seconds, found = timed(secure_similarity, examples.dirichlet_partition(100))
    row("N=100, 10 labels, secure similarity matrix", seconds, f"{len(found.transcript)} messages; target 5 s")


def large(partition: str) -> None:
    """N = 5 000 by the array path, in a process of its own so that its peak memory is its own."""
    U = getattr(examples, partition)(5000)
    seconds, H = timed(lambda: distances(edge_weights(similarity(U))))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Checked against SciPy's Dijkstra from three clients: all 5 000 would take minutes.
    import scipy.sparse
    from scipy.sparse.csgraph import dijkstra

    W = edge_weights(similarity(U))
    edges = int((np.isfinite(W).sum() - 5000) // 2)
    rows, columns = np.nonzero(np.isfinite(W))
    D = dijkstra(scipy.sparse.csr_array((W[rows, columns], (rows, columns)), W.shape), indices=[0, 17, 4999])
    # H's scale is the longest of all paths, which three rows need not hold: compare up to a factor.
    ratio = D[np.isfinite(D)].max() / H[[0, 17, 4999]][np.isfinite(D)].max()
    off = float(np.abs(D / ratio - H[[0, 17, 4999]]).max())
    print(json.dumps({"seconds": seconds, "peak": peak, "edges": edges, "off": off}))


def huge() -> None:
    """Path lengths of dense graphs of thousands, on all processors."""
    for size, target in ((5_000, 10), (10_000, 80)):
        W = np.random.default_rng(0).random((size, size))
        W[W > 0.3] = np.inf
        W = np.minimum(W, W.T)
        np.fill_diagonal(W, 0)
        before = time.process_time()
        seconds, _ = timed(path_lengths, W)
        note = f"target {target} s; {time.process_time() - before:.1f} s of processor"
        row(f"N={size} path lengths, half of all edges", seconds, note)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave N = 5 000 out")
    parser.add_argument("--large", metavar="PARTITION", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large:
        large(options.large)
        return
    pipeline()
    baselines()
    secure()
    print("path lengths by density, seconds")
    densities()
    if options.quick:
        return
    huge()
    for partition in ("dirichlet_partition", "two_label_partition"):
        command = [sys.executable, __file__, "--large", partition]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        row(
            f"N=5000 {partition}: features -> distances (array path)",
            found["seconds"],
            f"{found['edges']} edges, peak {found['peak'] / 2**20:.2f} GiB, differs from Dijkstra by "
            f"{found['off']:.0e}; targets 120 s, 2 GiB",
        )


if __name__ == "__main__":
    main()
