"""What the benchmark harness costs, and how it scales; prints two ratios.

    python tests/benchmarks/bench_benchmark.py [--solves 1000]

Overhead: wall time a solve of ``run_benchmark``, in one worker and after its solver process is up, less that of calling
``solve`` in a loop, on many small solves of ``greedy``. Scaling: the same number of small solves that each compute
for a given processor time, in one worker and in two. Both parts of a ratio are measured in one run; the rows that fill
the workers before the clock starts are left out, and the solves are not repeated. On a machine that does other things
too, wall times say little; so the speed-up that two idle cores allow is worked out from the processor time of all the
harness's processes beside it: (one worker's a row) / (half of two workers' a row). That needs Linux's /proc.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

from solvers import method, solve  # noqa: E402
from solvers.benchmark import run_benchmark  # noqa: E402
from solvers.dispersion import DispersionProblem  # noqa: E402


@method(DispersionProblem, "busy", kind="heuristic")
def busy(problem: DispersionProblem, run, *, seconds: float = 0.02) -> np.ndarray:
    """Compute for some seconds of the process's own time, so that a busy machine makes it slower."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return np.arange(problem.n) < problem.size


class Clock:
    """Seconds of wall and of processor time from a run's tenth part to its last row, when the workers are up."""

    def __call__(self, done: int, total: int) -> None:
        """Take the times."""
        if done == total // 10:
            self.start, self.rows = np.array([time.perf_counter(), processor_time()]), total - done
        if done == total:
            self.end = np.array([time.perf_counter(), processor_time()])

    @property
    def each(self) -> tuple[float, float]:
        """Wall and processor seconds a row."""
        wall, processor = (self.end - self.start) / self.rows
        return wall, processor


def processor_time() -> float:
    """Seconds of processor time of this process and all below it that are alive."""
    parents, seconds = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        parents[int(entry.name)] = int(fields[1])
        seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    mine, below = set(), {os.getpid()}
    while below:
        mine |= below
        below = {process for process, parent in parents.items() if parent in below}
    return sum(seconds.get(process, 0.0) for process in mine)


def timed(name: str, options: dict, problem: DispersionProblem, solves: int, jobs: int) -> tuple[float, float]:
    """Wall and processor seconds a row of a benchmark of one method under many seeds, kept in a folder."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        run_benchmark(
            {name: (name, options)},
            {"small": problem},
            seeds=range(solves),
            out=folder,
            jobs=jobs,
            repeat=False,
            progress=clock,
        )
    return clock.each


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--solves", type=int, default=1000)
    solves = parser.parse_args().solves
    rng = np.random.default_rng(0)
    points = rng.random((100, 3))
    problem = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), costs=rng.random(100), size=10)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {solves} solves\n")

    solve(problem, "greedy")
    start = time.perf_counter()
    for seed in range(solves):
        solve(problem, "greedy", seed=seed)
    direct = (time.perf_counter() - start) / solves
    for jobs in (1, 2):
        each = timed("greedy", {}, problem, solves, jobs)[0] * jobs
        print(
            f"greedy, n = 100, {jobs} worker(s): solve {1e3 * direct:.2f} ms, compare {1e3 * each:.2f} ms a row and "
            f"worker, overhead {1e3 * (each - direct):.2f} ms (target 5 ms)"
        )

    for seconds in (0.005, 0.02):
        one, two = (timed("busy", {"seconds": seconds}, problem, solves, jobs) for jobs in (1, 2))
        print(
            f"{1e3 * seconds:.0f} ms of work, one worker and two: {1e3 * one[0]:.2f} and {1e3 * two[0]:.2f} ms a row, "
            f"speed-up {one[0] / two[0]:.2f} (target 1.7); processor time {1e3 * one[1]:.2f} and {1e3 * two[1]:.2f} ms "
            f"a row, which allows {2 * one[1] / two[1]:.2f} on idle cores"
        )


if __name__ == "__main__":
    main()
