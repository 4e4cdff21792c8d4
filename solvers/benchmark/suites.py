"""Suites: fixed sets of instances, methods, seeds and limits, so that results of different days can be compared.

* ``selection``: the recorded rounds of FedGS;
* ``constrained``: recorded rounds of FedGS under side constraints, for the methods that keep these;
* ``diversity``: max-sum diversity of foreign origin. Made by recipe: points on spheres and in cubes, distances drawn
  from U(0, 10), k-clusters of random graphs. From a folder, where one is given: instances of MDPLIB and
  TSPLIB, which are not shipped, known by the digest of what they state;
* ``tenth``: rounds of FedGS with a tenth of 300 to 2 000 clients, made by recipe: counts drawn at random, or played,
  with all clients available or half of them;
* ``convex``: the recorded problems of every other family.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solvers import instances
from solvers.benchmark.rounds import tenths
from solvers.errors import BenchmarkError
from solvers.instances import ledger
from solvers.options import did_you_mean
from solvers.problem import FAMILIES, Problem
from solvers.registry import methods as registered

SUITES = ("selection", "constrained", "diversity", "tenth", "convex")

#: What the names of instances with side constraints begin with.
_CONSTRAINED = "constrained-"

#: The protocol: solves one after another, these seeds and seconds a solve.
SEEDS, LIMITS = (0,), (1.0, 10.0, 60.0)

#: Our methods in the suites over selections.
OURS = ("auto", "branch-and-bound", "tabu", "local-search", "greedy")

#: External solvers there: each as its users call it, then given a reformulation of ours. One thread each. Those
#: whose package is missing, and models that a free licence does not take, are rows that say so.
_EXTERNAL: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "cp-sat": (("product", "rlt", "tangent"), {"threads": 1}),
    "milp": (("glover", "tangent"), {}),
    "scip": (("nonconvex", "projected"), {}),
    "gurobi": (("nonconvex", "projected"), {"threads": 1}),
    "cplex": (("nonconvex", "projected"), {"threads": 1}),
    "dwave-tabu": (("penalty", "centred"), {}),
    "pymoo": (("constraint", "subset"), {}),
}

#: (n, m) of the instances made by recipe.
_SIZES = ((50, 5), (50, 10), (100, 10), (100, 20))

#: (vertices, edges' share in per cent, k) of the random graphs.
_GRAPHS = ((40, 25, 10), (40, 50, 20), (80, 25, 20), (80, 50, 40))

#: Files of public libraries, with their number of clients to choose where the file has none, and digests of the
#: problems that they state.
_FILES: dict[str, tuple[int | None, str]] = {
    "GKD-b_11_n50_m5.txt": (None, "4c6145136165ca0cccb03bd89237ae2569baa08c342b5aecbd074b7a1e73b8c6"),
    "GKD-b_21_n100_m10.txt": (None, "11ddbdd49a4d35e8cf097ad73fb6027a7884aea97ddca0d32748b5ffe04bfe6b"),
    "GKD-b_27_n100_m30.txt": (None, "20c227c1a900f32c62e78ed7213b9dce17602f0a13c2afb7722961731d335e36"),
    "GKD-b_41_n150_m15.txt": (None, "898d5b8bb2412df11f093f7b3930ffe969cd57b5068496115a3b3fe0d9cef8d2"),
    "GKD-c_1_n500_m50.txt": (None, "c3f082dfcccd9064dcc337324ff1314abfc43aa7b1727b06914a675fb460ae29"),
    "MDG-a_1_n500_m50.txt": (None, "bd1bb082c74bf80b09a2e9be06405bac4720545f680eafd7b18e7dc93ad5077f"),
    "SOM-b_11_n300_m90.txt": (None, "cf423cb07965304097f62ab074cff482a44a01e10da331170a515c2a65cf7cc1"),
    "a280.tsp": (28, "b2b3cc65476367e8aa4229d1095cc8409e75c0c4cba5e7581e99ab2ce38ff975"),
    "pcb1173.tsp": (118, "3e5bddf8cd4ae306b6cb9e79b41afd33d75ca46c1f478a873a170f4c916d587e"),
}


@dataclass(frozen=True)
class Suite:
    """Arguments of `solvers.benchmark.run_benchmark`."""

    name: str
    methods: Mapping[str, tuple[str, dict[str, Any]]]
    instances: dict[str, Problem | str | Callable[[], Problem]]


def suite(name: str, tier: str | None = None, data: str | Path | None = None) -> Suite:
    """Return one of `SUITES`, or of its instances those of one tier of the ledger.

    Parameters
    ----------
    name : str
        The suite.
    tier : str, optional
        ``"easy"``, ``"benchmark"`` or ``"open"``; not for "diversity" and "tenth".
    data : path-like, optional
        For "diversity": a folder with files of MDPLIB and TSPLIB, searched with its folders; those of the suite that
        are there take part.

    Raises
    ------
    BenchmarkError
        When there is no such suite or tier, the suite takes no tier or no ``data``, or nothing is left; when ``data``
        is no folder, has none of the files, or a file in it states another problem than the one of its name.
    InvalidProblem
        When one of these files cannot be read.
    """
    if name not in SUITES:
        raise BenchmarkError(f"there is no suite {name!r}{did_you_mean(name, SUITES)} (known: {', '.join(SUITES)})")
    if name == "diversity":
        if tier is not None:
            raise BenchmarkError("the suite 'diversity' has no tiers: its instances are made by recipe")
        return Suite(name, _selecting(), {**_foreign(), **_filed(data)})
    if name == "tenth" and tier is not None:
        raise BenchmarkError("the suite 'tenth' has no tiers: its instances are made by recipe")
    if data is not None:
        raise BenchmarkError("a folder of files is for the suite 'diversity'; the other suites are shipped")
    if name == "tenth":
        return Suite(name, _selecting(), dict(tenths()))
    selects = name in ("selection", "constrained")
    families = ["dispersion"] if selects else [family for family in FAMILIES if family != "dispersion"]
    known = [each for family in families for each in instances.names(family)]
    if selects:
        known = [each for each in known if each.startswith(_CONSTRAINED) == (name == "constrained")]
    chosen = [each for each in known if tier is None or ledger.entry(each).tier == tier]
    if not chosen:
        raise BenchmarkError(f"the suite {name!r} has no instance of the tier {tier!r} (easy, benchmark, open)")
    methods = _selecting(chosen[0]) if selects else {each: (each, {}) for each in _common(chosen)}
    return Suite(name, methods, {each: each for each in chosen})


def _common(names: list[str]) -> tuple[str, ...]:
    """Return the methods that every problem type among these instances has; ``auto`` first."""
    sets = []
    for family in {instances.info(name).family for name in names}:
        importlib.import_module(f"solvers.{family}")
    for kind in {type(instances.load(name)) for name in names}:
        sets.append({method.name for method in registered(kind)})
    shared = set.intersection(*sets)
    return ("auto", *sorted(shared - {"auto"}))


def _selecting(example: str | None = None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Ours, then every external solver in each of its forms, labelled ``solver:form``; those that take an instance."""
    able = None if example is None else {each.name for each in registered(instances.load(example))}
    external = {
        f"{solver}:{form}": (solver, {"formulation": form, **options})
        for solver, (forms, options) in _EXTERNAL.items()
        for form in forms
        if able is None or solver in able
    }
    return {each: (each, {}) for each in OURS} | external


def _foreign() -> dict[str, Problem | str]:
    from solvers.dispersion import DispersionProblem

    made: dict[str, Problem | str] = {}
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
    for n, share, k in _GRAPHS:
        edges = np.triu(np.random.default_rng([n, share, k]).random((n, n)) < share / 100, 1).astype(float)
        made[f"cluster-n{n}-d{share}-k{k}"] = DispersionProblem(edges + edges.T, size=k, weight=0.5)
    return made


def _filed(data: str | Path | None) -> dict[str, Problem | str]:
    """Return the public instances that lie in a folder."""
    if data is None:
        return {}
    from solvers.dispersion import read_mdplib, read_tsplib

    if not Path(data).is_dir():
        raise BenchmarkError(f"there is no folder {data}")
    found: dict[str, Problem | str] = {}
    for name, (size, digest) in _FILES.items():
        path = next(iter(sorted(Path(data).rglob(name))), None)
        if path is None:
            continue
        stated = read_mdplib(path) if size is None else read_tsplib(path, size)
        if instances.digest(stated) != digest:
            raise BenchmarkError(f"{path} states another problem than the {name} of this suite (its digest differs)")
        found[path.stem if size is None else f"{path.stem}-m{size}"] = _with_matrix(stated)
    if not found:
        raise BenchmarkError(f"{data} has none of the files of this suite: {', '.join(_FILES)}")
    return found


def _with_matrix(stated: Any) -> Problem:
    from solvers.dispersion import DispersionProblem

    if isinstance(stated, DispersionProblem):
        return stated
    distances = np.linalg.norm(stated.points[:, None] - stated.points, axis=2)
    return DispersionProblem(distances, stated.costs, size=stated.size, weight=stated.weight)
