"""First guesses of new users: what they type works, or is answered by one sentence with the right hint.

Each guess is a line of Python or of the command line, and what is to come of it: ``WORKS``, or words that the sentence
must have. A traceback of anything but this package's errors, or of a `TypeError` or `AttributeError` that names what
was meant, is a failure. ``python tests/test_first_guesses.py --out FILE`` tables what is answered to each.
"""

# ruff: noqa: F401  (the names that guesses use are there to be looked up)

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from fedselect import plugins
from solvers import registry
from solvers.problem import _types as problem_types

WORKS = None


@pytest.fixture(scope="module", autouse=True)
def _pictures():
    """Draw nothing: pictures only have to be there."""
    from tests.fedselect.conftest import small_pictures  # not where this file is a script

    with small_pictures(blank=True):
        yield


#: What people write in Python about problems and solving. `h` are distances of 8 clients, `c` costs, `p` a problem.
SOLVING: list[tuple[str, str | None]] = [
    ("solve(p, timelimit=5)", "time_limit"),
    ("solve(p, TimeLimit=5)", "time_limit"),
    ("solve(p, timeout=5)", "time_limit"),
    ("solve(p, max_time=5)", "time_limit"),
    ("solve(p, time=5)", "time_limit"),
    ("solve(p, mip_gap=0.01)", "'gap'"),
    ("solve(p, MIPGap=0.01)", "'gap'"),
    ("solve(p, tol=0.01)", "'gap'"),
    ("solve(p, verbose=True)", "'log'"),
    ("solve(p, OutputFlag=0)", "'log'"),
    ("solve(p, random_state=0)", "'seed'"),
    ("solve(p, rng=0)", "'seed'"),
    ("solve(p, n_jobs=2)", "'threads'"),
    ("solve(p, workers=2)", "'threads'"),
    ("solve(p, x0=[0, 1, 2])", "'start'"),
    ("solve(p, warm_start=[0, 1, 2])", "'start'"),
    ("solve(p, initial_solution=[0, 1, 2])", "'start'"),
    ("solve(p, callback=print)", "'watch'"),
    ("solve(p, solver='tabu')", "'method'"),
    ("solve(p, 'tabuu')", "tabu"),
    ("solve(p, 'bnb')", "did you mean 'branch-and-bound'"),
    ("solve(p, 'simulated_annealing')", "annealing"),
    ("solve(p, 'local_search')", "local-search"),
    ("solve(p, 'ortools')", "did you mean 'cp-sat'"),
    ("solve(p, 'highs')", "did you mean 'milp'"),
    ("solve(p, 'exact')", "did you mean 'auto'"),
    ("solve(p, 'bruteforce')", "brute-force"),
    ("solve(p, threads=-1)", "at least 1"),
    ("solve(p, time_limit='5')", "positive number of seconds"),
    ("solve(p, gap=-1)", "non-negative"),
    ("solve(p, start=[0, 1, 2])", WORKS),
    ("solve(p, start=[0, 1, 9])", "client 9|below 8|0 to 7"),
    ("solve(p, start=[0, 1])", "3"),
    ("solve(p, start=solve(p))", WORKS),
    ("solve(p, start=[1, 1, 1, 0, 0, 0, 0, 0])", WORKS),
    ("solve(p, start=np.array([True] * 3 + [False] * 5))", WORKS),
    ("solve(p, start=solve(p).selected)", WORKS),
    ("solve(h, 3)", "problem object"),
    ("solve(DispersionProblem)", "problem object"),
    ("DispersionProblem(h, c, m=3)", "'size'"),
    ("DispersionProblem(h, c, k=3)", "'size'"),
    ("DispersionProblem(h, cost=c, size=3)", "'costs'"),
    ("DispersionProblem(h, c, size=3, weights=1)", "'weight'"),
    ("DispersionProblem(h, c, size=3, alpha=1.0)", "'weight'"),
    ("DispersionProblem(H=h, costs=c, size=3)", "'distances'"),
    ("DispersionProblem(h, 3)", "size=3"),
    ("DispersionProblem(h, c)", "size"),
    ("DispersionProblem(h, size=3)", WORKS),
    ("DispersionProblem(h, c, 3)", "by name: size="),
    ("DispersionProblem(np.ones(28), size=3)", "squareform"),
    ("DispersionProblem(h.astype('M8[s]'), size=3)", "dates"),
    ("solve(p).plot('x.png')", "savefig"),
    ("DispersionProblem(h[0], c, size=3)", "square|2 dimension"),
    ("DispersionProblem(np.random.default_rng(0).random((9, 2)), size=3)", "PointDispersionProblem"),
    ("DispersionProblem(np.random.default_rng(0).random((8, 8)), c, size=3)", r"symmetric.*\(D \+ D"),
    ("DispersionProblem(np.ma.masked_equal(h, h[0, 1]), c, size=3)", "missing|masked"),
    ("DispersionProblem(h, np.ma.masked_equal(c, c[1]), size=3)", "missing|masked"),
    ("DispersionProblem(h.astype(complex), c, size=3)", "complex|real"),
    ("DispersionProblem(scipy.sparse.csr_matrix(h), c, size=3)", "sparse.*toarray"),
    ("DispersionProblem(h.astype(str), c, size=3)", "numbers"),
    ("DispersionProblem(h.tolist(), c.tolist(), size=3)", WORKS),
    ("DispersionProblem(pd.DataFrame(h), pd.Series(c), size=3)", WORKS),
    ("PointDispersionProblem(h, size=3, metric='manhattan')", "DispersionProblem.*cdist"),
    ("PointDispersionProblem(h, size=3, metric='cityblock')", "from_points"),
    ("DispersionProblem.from_points(h, size=3, metric='cityblock')", "did you mean 'manhattan'"),
    ("PointDispersionProblem(h, size=3, metric='cosine')", "cdist"),
    ("CappingProblem(c, 3)", "size=|keyword"),
    ("CappingProblem(weights=c, k=3, floor=0.1)", "'size'"),
    ("CappingProblem(weights=c, size=3, sigma=0.1)", "'floor'"),
    ("CappingProblem(weights=c, size=3, floor=0.5)", "floor"),
    ("AllocationProblem(c, c, k=20)", "'total'"),
    ("ExclusionProblem(importance=np.full(8, 0.125), loss_gaps=c)", WORKS),
    ("OptimizationErrorProblem(c, variances=1.0, offset=0.1, total=2.0)", WORKS),
    ("methods('dispersion')", "DispersionProblem"),
    ("methods(DispersionProblem)", WORKS),
    ("exec('from solvers import *\\nfrom solvers.dispersion import *\\nmethods(p)', {'p': p})", WORKS),
    ("Solution.load(there('x.json'))", WORKS),
    ("solve(p).value", "did you mean 'objective'"),
    ("solve(p).ids", "did you mean 'selected'"),
    ("DispersionProblem('D.npy', size=3)", "numpy.load"),
    ("DispersionProblem(networkx.path_graph(4), size=1)", r"graphs\.distances"),
    ("DispersionProblem(h, size=3, weight=[1, 2])", "weight must be finite"),
    ("Solution.load(there('notes.txt'))", "not a solution file|no solution"),
    ("load(there('x.json'))", "Solution.load|solution"),
    ("check(p, solve(p, certificate=True))", WORKS),
    ("check(p, solve(p, certificate=True).certificate)", WORKS),
    ("check(solve(p, certificate=True).certificate, p)", WORKS),
    ("check(p, solve(p))", "certificate=True"),
    ("without_sense()", "sense"),
    ("run_benchmark(['greedy'], {'p': p}, seeds=2, time_limits=[1], out=there('b1'), repeat=False)", "range.2"),
    ("run_benchmark(['greedy'], {'p': p}, seeds=[0], time_limit=1, out=there('b2'), repeat=False)", "time_limits"),
    ("run_benchmark('greedy', p, seeds=[0], time_limits=1, out=there('b3'), repeat=False)", "sequence"),
]  # fmt: skip

#: What people write in Python about runs. `fed` are clients of digits, `there` all of them in every round.
TRAINING: list[tuple[str, str | None]] = [
    ("FedAvg(fed, 'fedgs', ideal)", "SELECTORS|FedGS"),
    ("FedAvg(fed, Uniform, ideal)", "instance"),
    ("FedAvg(fed, Uniform(3), 'ideal')", "availability"),
    ("FedAvg(fed, Uniform(3), None)", "got None for an availability model"),
    ("FedAvg(fed, Uniform(3), ideal, patience=3)", "StopIteration"),
    ("FedAvg(fed, Uniform(3), ideal, metrics=[lambda outputs, labels: 0.5]).fit(1)", "whole_set"),
    ("Federation.from_tensors(sets, test=sets[0])", "from_datasets"),
    ("dependency_graph(secure_similarity([[1.0], [2.0], [3.0]]))", r"similarity\.matrix"),
    ("FedAvg(fed, Uniform(3), ideal, settings={'learning_rate': 0.1}).fit(1)", WORKS),
    ("FedAvg(fed, Uniform(3), ideal, settings={'lr': 0.1})", "learning_rate"),
    ("FedAvg(fed, Uniform(3), ideal, lr=0.1)", "learning_rate"),
    ("FedAvg(fed, Uniform(3), ideal, epochs=2)", "local_epochs"),
    ("FedAvg(fed, Uniform(3), ideal, optimizer='adam').fit(1)", WORKS),
    ("FedAvg(fed, Uniform(3), ideal, optimizer=lambda p: torch.optim.Adam(p)).fit(1)", "parameters, rate"),
    ("FedAvg(fed, Uniform(3), ideal).fit(1, patience=3)", "StopIteration"),
    ("FedAvg(fed, Uniform(3), ideal, device='cpu')", "device"),
    ("FedAvg(fed, Uniform(3), ideal, batch_size=4)", "batch_size"),
    ("FedAvg(fed, Uniform(3), ideal, metrics=[top2]).fit(1)", WORKS),
    ("FedAvg(fed, Uniform(3), ideal, metrics=top2).fit(1)", WORKS),
    ("FedAvg(fed, Uniform(3), ideal, model='resnet18')", "model"),
    ("FedAvg(fed, Uniform(3), ideal, model='linear')", WORKS),
    ("FedAvg(fed, Uniform(3), ideal, loss='cross_entropy')", "cross-entropy|loss"),
    ("FedAvg(fed, Uniform(3), ideal).fit(1, callbacks=print)", WORKS),
    ("FedAvg(fed, Uniform(3), ideal).fit(1, callbacks=Stop())", WORKS),
    ("FedAvg(fed, Uniform(3), ideal).fit(rounds='2')", "rounds"),
    ("FedAvg(fed, Ids(), ideal).fit(1)", WORKS),
    ("FedAvg(fed, Nothing(), ideal).fit(1)", "None|select"),
    ("FedAvg(fed, type('Twice', (Ids,), {'answer': [2, 2]})(), ideal).fit(1)", "client 2 more than once"),
    ("FedAvg(fed, NoUpdate(), ideal).fit(1)", WORKS),
    ("FedAvg(loaders, Uniform(3), ideal)", "Federation.from_datasets|from_datasets"),
    ("Federation.from_datasets(loaders, test=loaders[0])", r"\.dataset"),
    ("TrainingSettings(lr=0.1)", "learning_rate"),
    ("TrainingSettings(epochs=2)", "local_epochs"),
    ("TrainingSettings(E=2)", "local_epochs|local_steps"),
    ("TrainingSettings(batchsize=4)", "batch_size"),
    ("TrainingSettings(mu=0.1)", "proximal"),
    ("TrainingSettings(optimiser='adam')", "optimizer"),
    ("TrainingSettings(optimizer='adam')", WORKS),
    ("TrainingSettings(optimizer='adamm')", "adam"),
    ("TrainingSettings(optimizer='LBFGS')", "optimizer"),
    ("TrainingSettings(lr_scheduler='cosine')", "schedule"),
    ("TrainingSettings(schedule='cosine')", WORKS),
    ("TrainingSettings(server_optimizer='fedadam')", "server_rule"),
    ("TrainingSettings(server_rule='FedAdam')", WORKS),
    ("TrainingSettings(grad_clip=1.0)", "clip_gradient"),
    ("TrainingSettings(max_grad_norm=1.0)", "clip_gradient"),
    ("TrainingSettings(early_stopping=3)", "stop|patience"),
    ("TrainingSettings(learning_rate='0.1')", "learning_rate must be a number|learning_rate"),
    ("TrainingSettings(learning_rate=lambda t: 0.1)", "schedule|learning_rate"),
    ("TrainingSettings(device='gpu')", "cuda"),
    ("TrainingSettings(metrics=['f1'])", WORKS),
    ("TrainingSettings(metrics='f1')", WORKS),
    ("TrainingSettings(metrics=['roc'])", "auroc"),
    ("Experiment(n_rounds=3)", "'rounds'"),
    ("Experiment(epochs=3)", "'rounds'"),
    ("Experiment(clients=3)", "clients_per_round"),
    ("Experiment(lr=0.1)", "learning_rate"),
    ("Experiment(selector='fedgs')", WORKS),
    ("Experiment(selector='random')", "uniform"),
    ("Experiment(selector=Choice('fedavg'))", "uniform"),
    ("Experiment(selector=Choice('power_of_choice'))", "power-of-choice"),
    ("Experiment(selector=Choice('pow-d'))", WORKS),
    ("Experiment(selector=Choice('fedgs', {'Alpha': 1}))", "alpha"),
    ("Experiment(data=Choice('mnist', {'n_client': 10}))", "n_clients"),
    ("Experiment(data=Choice('cifar'))", "cifar10"),
    ("Experiment(data=Choice('digits', {'partition': 'non-iid'}))", "dirichlet|known"),
    ("Experiment(data=Choice('digits', {'partition': 'dirichlet', 'alpha': 0.5}))", "concentration"),
    ("Experiment(training={'learning_rate': 0.1})", WORKS),
    ("run(Experiment(rounds=1), callbacks=Stop(), out=there('r'))", WORKS),
    ("run('demo.toml')", "read_config"),
    ("compare(small, ['uniform', 'all-available'], seeds=2, out=there('c'))", "range.3"),
    ("compare(small, {'u': 'uniform'}, seeds=[1], out=there('c'))", WORKS),
    ("compare(small, ['uniform', 'all-available'], seeds=[0], out=there('c'))", WORKS),
    ("compare(small, {'u': Choice('uniform')}, [0], out=there('c'), callbacks=[print])", "function"),
    ("Trace(there('long.csv'))", "read_trace"),
    ("FedGS(3)", "distances"),
    ("FedGS(size=3, distances=h, m=3)", "size"),
    ("build_mine()", r"\(scenario, \*"),
    ("secure_similarity(h, kind='cosin')", "cosine|kind"),
]  # fmt: skip

#: What people type on the command line.
TYPED: list[tuple[str, str | None]] = [
    ("solve p.npz --start 0,1,2", WORKS),
    ("solve p.npz --start x.json", WORKS),
    ("solve p.npz --start 0,1", "3"),
    ("solve D.npy --size 3 --costs c.npy", WORKS),
    ("solve D.npy --size 3 --costs c.npy --weight 0.5", WORKS),
    ("solve D.npy c.npy --size 3", "--costs"),
    ("solve D.npy", "--size"),
    ("solve D.npy --size 3", WORKS),
    ("solve D.csv --size 3", WORKS),
    ("solve asymmetric.npy --size 3", "symmetric"),
    ("solve similarity.npy --size 3", "diagonal"),
    ("solve holes.npy --size 3", "distances must be finite"),
    ("report x.json", "Solution.load"),
    ("solve header.txt", "--size"),
    ("solve header.txt --size 3", WORKS),
    ("solve p.npz --out made.json", WORKS),
    ("solve p.npz -o made2.json", WORKS),
    ("solve p.npz --timelimit 5", "--time-limit"),
    ("solve p.npz --timeout 5", "--time-limit"),
    ("solve p.npz --option time_limit=5", "--time-limit"),
    ("solve p.npz --option seed=5", "--seed"),
    ("solve p.npz --method tabuu", "tabu"),
    ("solve p.npz --json", "--format"),
    ("solve p.npz --certificate made.cert.npz --require-certificate 0.5", WORKS),
    ("solve missing.npz", "there is no file"),
    ("solve p.npz --start ids.txt", WORKS),
    ("solve p.npz --plot made.png", r"Solution\.load"),
    ("solve x.json", "solution|a file of a problem ends in"),
    ("verify x.json", "solution|certificate"),
    ("verify proof.npz --problem solved.npz", WORKS),
    ("verify proof.npz --problem D.npy --size 3 --costs c.npy", WORKS),
    ("verify proof.npz --size 3", "--problem"),
    ("instances export D.npy made.lp --size 3 --costs c.npy --weight 1", WORKS),
    ("solve raw.npz --size 3", "holds the arrays D"),
    ("verify notes.txt", "certificate"),
    ("instances submit x.json", "no instance of the library"),
    ("instances submit notes.txt --check", "'fedselect solve NAME --out FILE'"),
    ("instances submit p.npz --check", "'fedselect solve NAME --out FILE'"),
    ("bench knapsack --load knap.py --instances k.npz --methods ratio --out made-b --no-repeat", WORKS),
    ("bench dispersion --instances p.npz --methods gurobi --out made-g --no-repeat", "gurobipy|WLS|license"),
    ("bench dispersion --instances p.npz --methods greedyy --out made-h", "greedy"),
    ("bench p.npz", "dispersion|family"),
    ("bench --methods tabu --instances p.npz", "name the family first"),
    ("bench dispersion --time-limits 1", "--time-limit"),
    ("list --load knap.py ratio", WORKS),
    ("solve k.npz --load knap.py", "name one"),
    ("list --load knap.py knapsack", WORKS),
    ("list losses", WORKS),
    ("list selectr", "selector"),
    ("list optimizers", WORKS),
    ("list metrics", WORKS),
    ("report made-b --as latex", "tex"),
    ("report made-b --as csv", "results.csv"),
    ("trace show wide.csv", WORKS),
    ("trace show wide-bool.csv", WORKS),
    ("trace show wide-names.csv", WORKS),
    ("trace show wide-index.csv", WORKS),
    ("trace show wide-plain.csv", WORKS),
    ("trace show wide.npy", WORKS),
    ("run small.toml -c training.lr=0.1", "learning_rate"),
    ("run small.toml -c selector=fedgs", "selector.name"),
    ("run small.toml --rounds 2", "experiment.rounds"),
    ("run small.toml --logger csv", "metrics.csv is written"),
    ("run small.toml -c experiment.logger=wandb", "--logger"),
    ("run small.toml --epochs 2", "local_epochs|experiment.rounds"),
    ("run small", "small.toml"),
    ("run small.toml --load sized:First -c selector.name=First --out made-first", WORKS),
    ("run small.toml --load p3.py:MySelector", "p3.py"),
    ("compare small.toml --selectors uniform,random", "did you mean 'uniform'"),
    ("compare small.toml --selectors unifrom", "did you mean 'uniform'"),
    ("compare small.toml --sweep selector.size=2,3", "experiment.clients_per_round"),
    ("compare small.toml --selectors uniform,fedavg", "uniform"),
    ("compare small.toml --seeds 3", WORKS),
    ("compare small.toml --selector uniform", "--selectors"),
    ("run small.toml -c training.metrics=f1 --out made-f1", WORKS),
    ("config keys learnig", "learning_rate"),
    ("solv p.npz", "solve"),
]

#: A plugin with a problem of the user's own, two methods for it, and nothing that says more than it must.
KNAPSACK = '''
from dataclasses import dataclass
import numpy as np
from solvers import Problem, method

@dataclass(frozen=True, eq=False)
class Knap(Problem):
    values: np.ndarray
    weights: np.ndarray
    room: float
    sense = "max"
    family = "knapsack"
    def objective(self, x): return float(np.dot(self.values, x))
    def violation(self, x): return max(0.0, float(np.dot(self.weights, x)) - self.room)

@method(Knap, "ratio", kind="heuristic")
def ratio(problem, run):
    """Take the best values per weight that fit."""
    x, room = np.zeros(len(problem.values), int), problem.room
    for i in np.argsort(-problem.values / problem.weights):
        if problem.weights[i] <= room:
            x[i], room = 1, room - problem.weights[i]
    return x
'''

SMALL = """
[experiment]
name = "small"
rounds = 1
clients_per_round = 2
[data]
name = "digits"
n_clients = 8
[compare.uniform]
name = "uniform"
[compare.all-available]
name = "all-available"
"""


def write_files(folder: Path) -> None:
    """Write the files that guesses name."""
    from solvers.dispersion import DispersionProblem

    h, c = distances_and_costs()
    problem = DispersionProblem(h, c, size=3)
    problem.save(folder / "p.npz")
    np.save(folder / "D.npy", h)
    np.save(folder / "c.npy", c)
    wrong = {"asymmetric": ((0, 1), 9.0), "similarity": ((range(8), range(8)), 1.0), "holes": ((0, 5), np.nan)}
    for name, (entries, value) in wrong.items():
        matrix = h.copy()
        matrix[entries] = value
        np.save(folder / f"{name}.npy", matrix)
    np.savez(folder / "raw.npz", D=h)
    np.savetxt(folder / "D.csv", h, delimiter=",")
    with cli_in(folder):
        answered("fedselect solve p.npz --out x.json")
        answered("fedselect solve D.npy --size 3 --costs c.npy --certificate proof.npz --out solved.npz")
    pairs = "\n".join(f"{i} {j} {h[i, j]:.6f}" for i in range(8) for j in range(i + 1, 8))
    (folder / "header.txt").write_text(f"8\n{pairs}\n")
    (folder / "notes.txt").write_text("to do\n")
    (folder / "ids.txt").write_text("0, 1, 2\n")
    (folder / "small.toml").write_text(SMALL)
    (folder / "knap.py").write_text(KNAPSACK)
    (folder / "sized.py").write_text(
        "class First:\n    def __init__(self, n_clients, size):\n        self.size = size if n_clients == 8 else 0\n"
        "    def select(self, round):\n        return round.available.nonzero()[0][: self.size].tolist()\n"
    )
    (folder / "p3.py").write_text("class MySelector:\n    pass\n")
    there = np.random.default_rng(0).random((5, 4)) < 0.6
    there[:, 0] = True
    rows = there.astype(int).tolist()
    text = {
        "wide.csv": [["client_0", "client_1", "client_2", "client_3"], *rows],
        "wide-names.csv": [["ann", "bob", "cy", "dee"], *rows],
        "wide-bool.csv": [["0", "1", "2", "3"], *there.tolist()],
        "wide-index.csv": [["", "0", "1", "2", "3"], *([t, *row] for t, row in enumerate(rows))],
        "wide-plain.csv": rows,
        "long.csv": [["round", "client"], *np.argwhere(there).tolist()],
    }
    for name, lines in text.items():
        (folder / name).write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    np.save(folder / "wide.npy", there)
    with cli_in(folder):
        from fedselect.plugins import load_plugins
        from solvers.problem import Problem

        load_plugins(["knap.py"])
        knap = next(kind for kind in Problem.types() if kind.__name__ == "Knap")
        knap(np.array([3.0, 2.0, 1.0]), np.array([2.0, 1.0, 1.0]), 2.0).save("k.npz")


def distances_and_costs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points = rng.random((8, 2))
    return np.abs(points[:, None] - points).sum(axis=2), rng.random(8)


@cache
def namespace() -> dict[str, Any]:
    """Return what a user has in hand after the first lines of a script."""
    import networkx
    import pandas as pd
    import scipy.sparse
    import torch

    from fedselect.availability import AVAILABILITY, Trace
    from fedselect.data import Federation, digits
    from fedselect.experiments import Choice, Experiment, build_scenario, compare, run
    from fedselect.rounds import Selection
    from fedselect.selectors import SELECTORS, FedGS, Uniform
    from fedselect.training.fedavg import FedAvg
    from fedselect.training.settings import TrainingSettings
    from graphs import dependency_graph, secure_similarity
    from solvers import Problem, Solution, load, methods, solve
    from solvers.allocation import AllocationProblem
    from solvers.benchmark import run_benchmark
    from solvers.capping import CappingProblem
    from solvers.certificates import check
    from solvers.dispersion import DispersionProblem, PointDispersionProblem
    from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

    h, c = distances_and_costs()
    p = DispersionProblem(h, c, size=3)
    fed = digits(n_clients=8)
    ideal = AVAILABILITY.build("ideal", fed, 0)
    small = Experiment(name="tiny", rounds=1, clients_per_round=2, data=Choice("digits", {"n_clients": 8}))
    scenario = build_scenario(small, fed)
    sets = [torch.utils.data.TensorDataset(torch.rand(6, 3), torch.arange(6) % 2) for _ in range(3)]
    loaders = [torch.utils.data.DataLoader(each, batch_size=2) for each in sets]
    total_error = TotalErrorProblem(
        c / 2 + 0.2, np.ones(8), offset=0.1, total=2.0, importance=np.full(8, 0.125), bias="chi2", bias_weight=1.0
    )

    def top2(outputs: Any, labels: Any) -> Any:
        return (outputs.topk(2).indices == labels[:, None]).any(1).float()

    class Stop:
        def on_round(self, record: Any) -> None:
            raise StopIteration

    class Ids:
        answer = (0, 2)

        def select(self, round: Any) -> Any:
            return list(self.answer)

        def update(self, feedback: Any) -> None:
            """Learn nothing."""

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None:
            """Keep nothing."""

    class Nothing(Ids):
        def select(self, round: Any) -> Any:
            return None

    class NoUpdate:
        def select(self, round: Any) -> Any:
            return Selection([0, 2], [0.5, 0.5])

    class Knapsack(Problem):
        family = "knapsack"

        def __init__(self, values: Any, room: float) -> None:
            self.values, self.room = values, room

        def objective(self, x: Any) -> float:
            return float(np.dot(self.values, x))

        def violation(self, x: Any) -> float:
            return 0.0

    def without_sense() -> Any:
        return solve(Knapsack(np.ones(3), 2))

    def mine(scenario: Any, size: int) -> Any:
        return Ids()

    def build_mine() -> Any:
        SELECTORS.register("mine")(mine)
        try:
            return SELECTORS.build("mine", scenario)
        finally:
            SELECTORS.discard("mine")

    return {**locals(), "np": np}


@contextlib.contextmanager
def cli_in(folder: Path):
    with contextlib.chdir(folder), mock.patch.dict(os.environ, {"COLUMNS": "200"}):
        yield


def answered(guess: str) -> tuple[bool, str]:
    """Try a guess; return whether it worked, and what was answered; raises what is no sentence."""
    from fedselect.cli import main
    from fedselect.errors import TOOLKIT_ERRORS

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if guess.startswith("fedselect "):
            with mock.patch.object(sys, "argv", guess.split()):
                try:
                    main()
                    code: Any = 0
                except SystemExit as end:
                    code = end.code
            return code in (0, None), out.getvalue().strip()
        try:
            value = eval(guess, {**namespace(), "there": str})
        except (*TOOLKIT_ERRORS, TypeError, AttributeError) as error:
            return False, f"{type(error).__name__}: {error}"
    return True, out.getvalue().strip() or repr(value)[:100]


def right(guess: str, expected: str | None, works: bool, answer: str) -> bool:
    """Whether the guess works as it is to, or the answer has the hint in a sentence or two."""
    if expected is WORKS:
        return works
    if "Traceback" in answer or re.search(r"object has no attribute|unexpected keyword|positional argument", answer):
        return False
    flat = " ".join(re.sub("[│╭╮╰╯─]", " ", answer).split())
    return re.search(expected, flat) is not None


GUESSES = [*SOLVING, *TRAINING, *((f"fedselect {line}", expected) for line, expected in TYPED)]

#: Guesses that start solver processes, or train longer than a moment.
SLOW = re.compile("run_benchmark|fedselect bench|fedselect report|certificate|fedselect (compare|run) small.toml$")


def parametrised() -> list[Any]:
    """Return the guesses for pytest: those that take longer are left to the thorough suite."""
    return [
        pytest.param(guess, expected, id=guess, marks=[pytest.mark.thorough] if SLOW.search(guess) else [])
        for guess, expected in GUESSES
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the files that guesses name; the registries forget afterwards what they loaded."""
    folder = tmp_path_factory.mktemp("guesses")
    before, path, kinds = registry.snapshot(), list(sys.path), dict(problem_types)
    write_files(folder)
    yield folder
    for known in plugins.loaded_plugins():
        plugins._forget(known)
    registry.restore(before)
    problem_types.clear()
    problem_types.update(kinds)
    sys.path[:] = path


@pytest.mark.parametrize(("guess", "expected"), parametrised())
def test_a_first_guess_works_or_says_what_was_meant(place, guess, expected):
    with cli_in(place):
        works, answer = answered(guess)
    assert right(guess, expected, works, answer), answer


def test_there_are_as_many_guesses_as_are_claimed():
    assert len({guess for guess, _ in GUESSES}) >= 120


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print what is answered to each guess.")
    parser.add_argument("only", nargs="?", default="", help="regular expression: only these")
    parser.add_argument("--out", type=Path, help="a CSV file of them")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    write_files(place)
    table = []
    with cli_in(place):
        for guess, expected in GUESSES:
            if not re.search(asked.only, guess):
                continue
            try:
                works, answer = answered(guess)
                ok = right(guess, expected, works, answer)
            except BaseException as error:
                works, ok, answer = False, False, f"TRACEBACK {type(error).__name__}: {error}"
            print(f"{'ok ' if ok else 'BAD'} {guess}\n      {answer[-400:]}", flush=True)
            flat = " ".join(re.sub("[─-╿]", " ", answer).replace(str(place), "FOLDER").split())
            table.append((guess, "right" if ok else "WRONG", "works" if works else flat[:300]))
    print(sum(each[1] == "right" for each in table), "of", len(table))
    if asked.out:
        with asked.out.open("w", newline="") as stream:
            csv.writer(stream).writerows([("guess", "verdict", "answer"), *table])
