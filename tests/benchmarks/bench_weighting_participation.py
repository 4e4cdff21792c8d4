"""Speed of ``solvers.weighting`` and ``solvers.participation``, and how far Algorithm 1 is from the optimum.

Run with ``python tests/benchmarks/bench_weighting_participation.py``. One thread; every time is the median of several
runs of construction plus solve (or of one ``update``), and the worst of them stands beside it.
"""

import time
from collections.abc import Callable

import numpy as np

from solvers import solve
from solvers.participation import CutoffProblem, ParticipationWeights
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem


def exclusion(n: int, seed: int, equal: bool = False, factor: float = 1.0) -> ExclusionProblem:
    rng = np.random.default_rng(seed)
    importance = np.full(n, 1 / n) if equal else rng.dirichlet(np.full(n, 2.0)) + 1e-9
    gaps = 1 + 0.2 * rng.random(n) if seed % 2 else rng.gamma(1.0, 1.0, n)
    gamma = factor * float(gaps.max())
    return ExclusionProblem(
        importance / importance.sum(), gaps, gamma, rng.uniform(0.05, 1, n), rng.uniform(-0.1, 0.95, n)
    )


def measure(action: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), max(seconds)


def row(what: str, times: tuple[float, float], remark: str = "") -> None:
    print(f"{what:<58} {1e3 * times[0]:>10.3f} {1e3 * times[1]:>10.3f}   {remark}")


def speed() -> None:
    solve(exclusion(12, 0, factor=4.0), "cp-sat")  # imports OR-Tools
    print(f"{'':<58} {'median ms':>10} {'worst ms':>10}")
    for n in (24, 1_000, 10_000, 100_000):
        data = exclusion(n, 0)
        arrays = (data.importance, data.loss_gaps, None, data.availability, data.correlation)
        row(f"exclusion, ca-fed, n = {n}", measure(lambda a=arrays: solve(ExclusionProblem(*a), "ca-fed")))
    for n in (10_000, 1_000_000):
        data = exclusion(n, 0, equal=True)
        arrays = (data.importance, data.loss_gaps, None, data.availability, data.correlation)
        row(f"exclusion, sorting, n = {n}", measure(lambda a=arrays: solve(ExclusionProblem(*a), "sorting"), 5))
    for n in (24, 100, 1_000):
        for factor in (1.0, 4.0):
            times, gaps, optimal = [], [], 0
            for seed in range(6):
                problem = exclusion(n, seed, factor=factor)
                solution = solve(problem, "cp-sat", time_limit=20)
                times.append(solution.seconds)
                optimal += solution.status == "optimal"
                gaps.append(solve(problem, "ca-fed").objective / solution.objective - 1)
            mean, worst = 100 * float(np.mean(gaps)), 100 * max(gaps)
            remark = f"{optimal}/6 proved; ca-fed {mean:.2f} % above on average, {worst:.2f} % at worst"
            row(f"exclusion, cp-sat, n = {n}, Γ' = {factor:g}·max gap", (float(np.median(times)), max(times)), remark)


def weights() -> None:
    print("\nOptimisation error: dinkelbach against CVXPY (CLARABEL), both with construction")
    print(
        f"{'n':>8} {'B':>6} {'dinkelbach ms':>14} {'CVXPY ms':>10} {'ratio':>7} "
        f"{'objective difference':>21} {'own gap':>9}"
    )
    for n in (10, 100, 1_000):
        for offset in (0.01, 1.0, 100.0):
            rng = np.random.default_rng(n)
            data = (rng.uniform(0.02, 1, n), rng.uniform(0.1, 3, n), offset, 1.0)
            solve(OptimizationErrorProblem(*data), "cvxpy")
            fast, _ = measure(lambda d=data: solve(OptimizationErrorProblem(*d), "dinkelbach"), 21)
            slow, _ = measure(lambda d=data: solve(OptimizationErrorProblem(*d), "cvxpy"), 5)
            first, second = (solve(OptimizationErrorProblem(*data), name) for name in ("dinkelbach", "cvxpy"))
            difference = second.objective - first.objective
            print(
                f"{n:>8} {offset:>6g} {1e3 * fast:>14.3f} {1e3 * slow:>10.2f} {slow / fast:>7.0f} "
                f"{difference:>21.1e} {first.gap:>9.1e}"
            )
    print("\nTotal error: own bound's relative gap")
    print(f"{'n':>8} {'bias':>6} {'method':>8} {'ms':>8} {'gap':>9}")
    for n in (24, 1_000):
        rng = np.random.default_rng(n)
        data = (rng.uniform(0.02, 1, n), rng.uniform(0.1, 3, n), 5.0, 1.0, rng.dirichlet(np.full(n, 3.0)))
        for bias, name in (("chi2", "newton"), ("chi2", "cvxpy"), ("tv", "cvxpy")):
            problem = TotalErrorProblem(*data, bias, 1.0)
            solution = solve(problem, name)
            median, _ = measure(lambda p=problem, m=name: solve(p, m), 5)
            print(f"{n:>8} {bias:>6} {name:>8} {1e3 * median:>8.2f} {solution.gap:>9.1e}")


def participation() -> None:
    print()
    rng = np.random.default_rng(0)
    for cutoff in (None, 50):
        for rate in (0.02, 0.5, 1.0):
            online = ParticipationWeights(1_000_000, cutoff)
            times = []
            for _ in range(30):
                participated = rng.random(1_000_000) < rate
                start = time.perf_counter()
                online.update(participated)
                assert online.weights.size == 1_000_000
                times.append(time.perf_counter() - start)
            row(f"participation, one round, n = 1e6, K = {cutoff}, p = {rate}", (float(np.median(times)), max(times)))
    rates = np.maximum(0.02, rng.random(1_000))
    row("cutoff, enumerate, n = 1000, T = 10000", measure(lambda: solve(CutoffProblem(rates, 10_000), "enumerate")))


if __name__ == "__main__":
    speed()
    weights()
    participation()
