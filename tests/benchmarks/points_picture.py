"""The picture of cost against the number of clients: ``python tests/benchmarks/points_picture.py scale.png``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers import solve
from solvers.dispersion import KindDispersionProblem, PointDispersionProblem

SIZES = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]

#: Seconds for one solve, and clients up to which a matrix is tried.
LIMIT, MATRIX = 100.0, 1_000


def points(n: int) -> PointDispersionProblem:
    """Uniform points in ten dimensions, a tenth of them chosen and 1 000 at most."""
    return PointDispersionProblem(
        np.random.default_rng(0).random((n, 10)), np.zeros(n), size=min(1_000, n // 10), weight=0.5
    )


def kinds(n: int) -> KindDispersionProblem:
    """Clients with two labels of ten, Hellinger distances, costs of a few rounds' counts."""
    rng = np.random.default_rng(0)
    roots = np.zeros((45, 10))
    roots[np.arange(45)[:, None], np.array([(i, j) for i in range(10) for j in range(i)])] = 0.5
    d = np.linalg.norm(roots[:, None] - roots, axis=2)
    of_client = np.concatenate([np.arange(45), rng.integers(0, 45, n - 45)])
    m = min(1_000, n // 10)
    return KindDispersionProblem(d, of_client, rng.integers(0, 4, n) / n, size=m, weight=1.0 / (m * (m - 1)))


def processor_seconds(make: Callable[[int], Any], sizes: list[int]) -> tuple[list[int], list[float], list[bool]]:
    """Seconds of processor a solve takes, and whether it ended in a proof."""
    seconds, proved = [], []
    for n in sizes:
        problem = make(n)
        start = time.process_time()
        solution = solve(problem, time_limit=LIMIT)
        seconds.append(time.process_time() - start)
        proved.append(solution.status == "optimal")
        print(f"{make.__name__:<8}{n:>9} {seconds[-1]:9.3f} s  {solution.status}  gap {solution.gap:.1e}", flush=True)
    return sizes, seconds, proved


def matrix(n: int) -> Any:
    """The points' matrix."""
    return points(n).expanded()


def main(path: str) -> None:
    """Measure and draw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for make in (points, kinds, matrix):
        solve(make(400), time_limit=LIMIT)  # loads the compiled code
    figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    for make, label, style in (
        (points, "points, ten dimensions", "o-"),
        (kinds, "45 kinds of two-label clients", "s-"),
        (matrix, "the points' matrix", "^-"),
    ):
        sizes, seconds, proved = processor_seconds(make, [n for n in SIZES if make is not matrix or n <= MATRIX])
        (line,) = axes.loglog(sizes, seconds, style, label=label)
        for n, second, done in zip(sizes, seconds, proved, strict=True):
            if not done:
                axes.plot(n, second, line.get_marker(), color=line.get_color(), markerfacecolor="white")
    axes.set_xlabel("clients N (of whom a tenth, and 1 000 at most, are chosen)")
    axes.set_ylabel("seconds of processor to a proof")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False, title="open markers: time was up before the proof")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "points_scale.png")
