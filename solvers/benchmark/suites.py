"""Suites: fixed sets of instances, methods, seeds and limits, so that results of different days can be compared.

* ``selection``: the recorded rounds of FedGS;
* ``diversity``: max-sum diversity of foreign origin, made by recipe: points on spheres and in cubes, distances drawn
  from U(0, 10), grey patterns;
* ``convex``: the recorded problems of every other family.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers import instances
from solvers.errors import BenchmarkError
from solvers.instances import ledger
from solvers.problem import FAMILIES, Problem
from solvers.registry import methods as registered
from solvers.suggestions import did_you_mean

__all__ = ["LIMITS", "SEEDS", "SUITES", "Suite", "reference_seconds", "suite"]

SUITES = ("selection", "diversity", "convex")

#: The protocol: solves one after another, these seeds and seconds a solve.
SEEDS, LIMITS = (0,), (1.0, 10.0, 60.0)

#: Methods of the suites over selections; those whose package is missing are rows that say so.
_SELECTING = ("auto", "branch-and-bound", "cp-sat", "milp", "scip", "gurobi", "tabu", "local-search", "greedy")

#: (n, m) of the instances made by recipe.
_SIZES = ((50, 5), (50, 10), (100, 10), (100, 20))


@dataclass(frozen=True)
class Suite:
    """What `solvers.benchmark.run_benchmark` is called with."""

    name: str
    methods: tuple[str, ...]
    instances: dict[str, Problem | str]


def suite(name: str, tier: str | None = None) -> Suite:
    """One of `SUITES`, or of its instances those of one tier of the ledger.

    Raises
    ------
    BenchmarkError
        When there is no such suite or tier, or nothing is left.
    """
    if name not in SUITES:
        raise BenchmarkError(f"there is no suite {name!r}{did_you_mean(name, SUITES)} (known: {', '.join(SUITES)})")
    if name == "diversity":
        if tier is not None:
            raise BenchmarkError("the suite 'diversity' has no tiers: its instances are made by recipe")
        return Suite(name, _SELECTING, _foreign())
    families = ["dispersion"] if name == "selection" else [family for family in FAMILIES if family != "dispersion"]
    known = [each for family in families for each in instances.names(family)]
    chosen = [each for each in known if tier is None or ledger.entry(each).tier == tier]
    if not chosen:
        raise BenchmarkError(f"the suite {name!r} has no instance of the tier {tier!r} (easy, benchmark, open)")
    return Suite(name, _SELECTING if name == "selection" else _common(chosen), {each: each for each in chosen})


def reference_seconds() -> float:
    """CPU seconds of a fixed piece of linear algebra and Python, the least of three: to compare machines by."""
    best = np.inf
    matrix = np.cos(np.arange(300)[:, None] * np.arange(300) * 0.37)
    for _ in range(3):
        begun = time.process_time()
        for _ in range(5):
            np.linalg.eigvalsh(matrix + matrix.T)
        total = 0
        for k in range(1_000_000):
            total += k & 7
        best = min(best, time.process_time() - begun)
    return float(best)


def _common(names: list[str]) -> tuple[str, ...]:
    """The methods that every problem type among these instances has; ``auto`` first."""
    sets = []
    for family in {instances.info(name).family for name in names}:
        importlib.import_module(f"solvers.{family}")
    for kind in {type(instances.load(name)) for name in names}:
        sets.append({method.name for method in registered(kind)})
    shared = set.intersection(*sets)
    return ("auto", *sorted(shared - {"auto"}))


def _foreign() -> dict[str, Problem | str]:
    from solvers.dispersion import DispersionProblem, grey_pattern

    made: dict[str, Problem | str] = {"grey-8x8-m12": grey_pattern(8, 8, 12), "tai256c": grey_pattern(16, 16, 92)}
    for n, m in _SIZES:
        rng = np.random.default_rng([n, m])
        sphere = rng.normal(size=(n, 3))
        points: dict[str, Any] = {
            "sphere": sphere / np.linalg.norm(sphere, axis=1, keepdims=True),
            "cube": rng.uniform(0, 100, (n, 10)),
        }
        for kind, x in points.items():
            made[f"{kind}-n{n}-m{m}"] = DispersionProblem(np.linalg.norm(x[:, None] - x, axis=2), size=m)
        drawn = np.triu(rng.uniform(0, 10, (n, n)), 1)
        made[f"uniform-n{n}-m{m}"] = DispersionProblem(drawn + drawn.T, size=m)
    return made
