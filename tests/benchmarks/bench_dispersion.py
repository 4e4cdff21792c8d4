"""The dispersion methods on FedGS rounds and on public instances, beside their peers.

    python tests/benchmarks/bench_dispersion.py fedgs lognormal --rounds 30 --seconds 5
    python tests/benchmarks/bench_dispersion.py fedgs --rounds 5 --peers gurobi cp-sat
    python tests/benchmarks/bench_dispersion.py gkd-b gkd-c mdg-a som-b --mdplib FOLDER
    python tests/benchmarks/bench_dispersion.py n1000 n10000

Every line names what was measured; nothing is asserted. Run it on a quiet machine and compare within one run.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy is imported

import argparse
import csv
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedselect.data.partitions import dirichlet_prior, two_label
from graphs import dependency_graph, distances, similarity
from solvers import Solution, solve
from solvers.dispersion import DispersionProblem, read_mdplib

#: Peer name on the command line -> method and options.
PEERS = {
    "gurobi": ("gurobi", {"formulation": "nonconvex", "threads": 2}),
    "gurobi-projected": ("gurobi", {"formulation": "projected", "threads": 2}),
    "scip": ("scip", {"formulation": "nonconvex"}),
    "scip-projected": ("scip", {"formulation": "projected"}),
    "cp-sat": ("cp-sat", {"formulation": "rlt", "threads": 2}),
    "cp-sat-tangent": ("cp-sat", {"formulation": "tangent", "threads": 2}),
    "milp-tangent": ("milp", {"formulation": "tangent"}),
    "milp-glover": ("milp", {"formulation": "glover"}),
    "sdp": ("sdp", {}),
}


def graph(kind: str, clients: int, seed: int = 0) -> np.ndarray:
    """Distances of the oracle 3DG of two-label or Dirichlet(1.75 p) clients over ten balanced labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(10), max(6000, 6 * clients))
    parts = (
        two_label(labels, clients, rng)
        if kind == "two-label"
        else dirichlet_prior(labels, clients, rng, concentration=1.75)
    )
    shares = np.array([np.bincount(labels[part], minlength=10) / len(part) for part in parts])
    return distances(dependency_graph(similarity(shares), preset="reference"))


def rounds(kind: str, alpha: float, number: int, available: float | None, seed: int) -> Iterator[DispersionProblem]:
    """Consecutive FedGS rounds, N = 100, m = 10; the counts follow tabu search's selections.

    ``available`` is β of the log-normal availability, ``None`` for everyone.
    """
    h = graph(kind, 100, seed)
    rng = np.random.default_rng(seed + 1)
    rates = np.ones(100)
    if available is not None:
        logs = -np.log1p(-available) * rng.standard_normal(100)
        rates = np.exp(logs - logs.max())
    counts = np.zeros(100)
    for _ in range(number):
        mask = rng.random(100) < rates
        problem = DispersionProblem.fedgs(h, counts, mask, 10, alpha)
        yield problem
        counts[solve(problem, "tabu", moves=3000).selected] += 1


def first_time(solution: Solution, value: float) -> float:
    """Second at which the trace reached ``value``."""
    close = 1e-9 * max(1.0, abs(value))
    return next((p.second for p in solution.trace if p.objective is not None and p.objective >= value - close), np.inf)


def fedgs(options: argparse.Namespace, available: float | None) -> None:
    """Rows 1 and 2 of the table."""
    name = "everyone" if available is None else f"log-normal {available}"
    print(f"\n## FedGS rounds, N = 100, m = 10, {name}, seed {options.seed}, limit {options.seconds:g} s")
    print("graph      alpha  method            best  found by s  proven  median s   max s   worst gap  median nodes")
    methods = {"auto": ("auto", {}), **{peer: PEERS[peer] for peer in options.peers}}
    for kind in ("two-label", "dirichlet"):
        for alpha in (0.5, 1.0, 5.0):
            table: dict[str, list[Solution]] = {key: [] for key in methods}
            best = []
            for problem in rounds(kind, alpha, options.rounds, available, options.seed):
                reference = solve(problem, "tabu", moves=100_000, seed=1)
                values = [reference.objective]
                for key, (method, extra) in methods.items():
                    solution = solve(problem, method, time_limit=options.seconds, **extra)
                    table[key].append(solution)
                    values.append(solution.objective)
                best.append(max(v for v in values if v is not None))
            for key, solutions in table.items():
                hits = [s.objective >= b - 1e-9 for s, b in zip(solutions, best, strict=True)]
                found = max(first_time(s, b) for s, b in zip(solutions, best, strict=True))
                # A peer's bound is widened by its tolerances; its own word for a proof is what counts for its time.
                proved = [s.gap is not None and s.gap <= 1e-5 for s in solutions]
                seconds = [s.seconds for s in solutions]
                gaps = [np.inf if s.gap is None else s.gap for s in solutions]
                nodes = [s.nodes or 0 for s in solutions]
                print(
                    f"{kind:10s} {alpha:5g}  {key:16s} {np.mean(hits):5.0%}  {found:10.3f}  {np.mean(proved):6.0%}  "
                    f"{np.median(seconds):8.3f} {max(seconds):7.3f}  {max(gaps):10.2e}  {np.median(nodes):12.0f}",
                    flush=True,
                )


def instances(folder: str | None, prefix: str) -> Iterator[tuple[str, float, DispersionProblem]]:
    """Instances of the folder, with their best known values."""
    if folder is None:
        print(f"{prefix}: skipped, give --mdplib FOLDER or set MDPLIB")
        return
    with (Path(folder) / "best_known.csv").open() as stream:
        for row in csv.DictReader(stream):
            if row["name"].startswith(prefix):
                size = int(row["m"])
                problem = read_mdplib(Path(folder) / f"{row['name']}.txt", size)
                yield f"{row['name'].split('_n')[0]} n={problem.n} m={size}", float(row["best_known"]), problem


def library(options: argparse.Namespace, prefix: str, seconds: float) -> None:
    """Proofs on one family of the library."""
    print(f"\n## {prefix}, limit {seconds:g} s")
    for name, best, problem in instances(options.mdplib, prefix):
        for key, (method, extra) in {"auto": ("auto", {}), **{p: PEERS[p] for p in options.peers}}.items():
            try:
                s = solve(problem, method, time_limit=seconds, **extra)
            except ValueError as error:
                print(f"{name:26s} {key:16s} {error}")
                continue
            print(
                f"{name:26s} {key:16s} {s.status:8s} minus best known {s.objective - best:+.3f}  "
                f"gap {np.inf if s.gap is None else s.gap:.2e}  found {first_time(s, s.objective):6.2f} s  "
                f"{s.seconds:6.2f} s  nodes {s.nodes}",
                flush=True,
            )


def tabu(options: argparse.Namespace, prefix: str, seconds: float = 5.0) -> None:
    """Five seeds of tabu search on one family."""
    print(f"\n## {prefix}: tabu, {seconds:g} s, seeds 0-4: second at which the best known value was reached")
    for name, best, problem in instances(options.mdplib, prefix):
        times = []
        for seed in range(5):
            s = solve(problem, "tabu", time_limit=seconds, seed=seed)
            times.append(first_time(s, best - 2e-2))
        print(f"{name:26s} " + "  ".join(f"{t:5.2f}" for t in times), flush=True)


def large(options: argparse.Namespace, clients: int, limits: tuple[float, ...]) -> None:
    """FedGS rounds of many clients, choosing a tenth."""
    print(f"\n## FedGS rounds, N = {clients}, m = {clients // 10}, alpha 1, counts 0 or 1")
    rng = np.random.default_rng(options.seed)
    for kind in ("two-label", "dirichlet"):
        base = min(clients, 1000)
        h = graph(kind, base, options.seed)
        if clients > base:
            # Shortest paths over 10 000 clients take an hour; each of 1 000 clients is there ten times instead.
            copies = np.arange(clients) % base
            h = h.astype(np.float32)[np.ix_(copies, copies)]
            same = (copies[:, None] == copies) if clients <= 2000 else None
            if same is not None:
                h[same] = 0
        h[np.arange(clients), np.arange(clients)] = 0
        h.setflags(write=False)
        counts = rng.integers(0, 2, clients).astype(float)
        mean = counts.mean() + (clients // 10) / clients
        m = clients // 10
        costs = (2 * (counts - mean) + 1) / (clients - 1)
        problem = DispersionProblem(h, costs, size=m, weight=1.0 / (m * (m - 1)))
        del h
        for limit in limits:
            s = solve(problem, "auto", time_limit=limit)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            first = s.trace[0].second
            bound = next((p.second for p in s.trace if p.bound == s.bound), np.inf)
            print(
                f"{kind:10s} limit {limit:4g} s  first selection {first:6.2f} s, "
                f"best {first_time(s, s.objective):6.2f} s  gap {s.gap:.2e} (bound after {bound:6.2f} s)  "
                f"{s.status}  {s.seconds:6.2f} s  peak {peak:.1f} GiB",
                flush=True,
            )
        del problem


def main() -> None:
    """Run the cases asked for."""
    cases = {
        "fedgs": lambda o: fedgs(o, None),
        "lognormal": lambda o: fedgs(o, 0.5),
        "gkd-b": lambda o: library(o, "GKD-b", 30),
        "gkd-c": lambda o: library(o, "GKD-c", 10),
        "mdg-a": lambda o: (tabu(o, "MDG-a"), library(o, "MDG-a", 60)),
        "som-b": lambda o: (tabu(o, "SOM-b"), library(o, "SOM-b", 60)),
        "n1000": lambda o: large(o, 1000, (1.0, 30.0)),
        "n10000": lambda o: large(o, 10000, (60.0,)),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=cases)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--mdplib", default=os.environ.get("MDPLIB"))
    options = parser.parse_args()
    started = time.perf_counter()
    rng = np.random.default_rng(0)
    h = np.triu(rng.random((30, 30)), 1)
    solve(DispersionProblem(h + h.T, rng.random(30), size=6), "auto")  # load the compiled kernels
    print(f"kernels loaded in {time.perf_counter() - started:.1f} s")
    for case in options.cases:
        cases[case](options)


if __name__ == "__main__":
    main()
