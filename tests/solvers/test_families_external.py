"""Coverage, balance and schedule beside Gurobi and CPLEX, whose free licences suffice for small ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from solvers import solve
from solvers.balance import BalanceProblem
from solvers.coverage import CoverageProblem
from solvers.schedule import ScheduleProblem


class Model(NamedTuple):
    """Minimise c z + the sum of d z^2 over whole z from 0 to ``most``, where A z = b or, if ``is_less``, A z <= b."""

    c: np.ndarray
    d: np.ndarray
    a: np.ndarray
    b: np.ndarray
    is_less: np.ndarray
    most: np.ndarray


def coverage(problem):
    """State the p-median: who serves a row, and who is selected."""
    n, rows = problem.n, len(problem.similarity)
    served, opened = np.kron(np.eye(rows), np.ones(n)), np.tile(-np.eye(n), (rows, 1))
    a = np.block(
        [
            [served, np.zeros((rows, n))],
            [np.eye(rows * n), opened],
            [np.zeros(rows * n), np.ones(n)],
        ]
    )
    b = np.concatenate([np.ones(rows), np.zeros(rows * n), [problem.size]])
    is_less = np.concatenate([np.zeros(rows), np.ones(rows * n), [0]]).astype(bool)
    c = np.concatenate([-problem.similarity.ravel(), np.zeros(n)])
    return Model(c, 0 * c, a, b, is_less, np.ones(c.size)), lambda value: -value


def balance(problem):
    """State the samples of each class, whose squares are summed; all clients have as many."""
    n, classes, total = problem.n, problem.classes, problem.size * int(problem.samples[0])
    a = np.block([[problem.label_counts.T, -np.eye(classes)], [np.ones(n), np.zeros(classes)]])
    b = np.append(np.zeros(classes), problem.size)
    d = np.append(np.zeros(n), np.ones(classes))
    most = np.append(np.ones(n), np.full(classes, total))
    return Model(0 * d, d, a, b, b < 0, most), lambda value: value / total**2 - 1 / classes


def schedule(problem):
    """State the turns of each client, whose squares are summed."""
    rounds, n = problem.available.shape
    a = np.block(
        [
            [np.kron(np.eye(rounds), np.ones(n)), np.zeros((rounds, n))],
            [np.tile(np.eye(n), rounds), -np.eye(n)],
        ]
    )
    b = np.concatenate([problem.sizes, -problem.counts])
    d = np.append(np.zeros(rounds * n), np.ones(n))
    most = np.append(problem.available.ravel().astype(float), np.full(n, rounds + problem.counts.max()))
    mean = (problem.counts.sum() + problem.sizes.sum()) / n
    return Model(0 * d, d, a, b, b < -np.inf, most), lambda value: value / n - mean**2


def gurobi(model):
    """Return the optimum by Gurobi."""
    gurobipy = pytest.importorskip("gurobipy")
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as stated:
        z = stated.addMVar(model.c.size, ub=model.most, vtype="I")
        stated.setMObjective(np.diag(model.d), model.c, 0.0, z, z, z)
        stated.addMConstr(model.a, z, np.where(model.is_less, "<", "="), model.b)
        stated.Params.MIPGap = stated.Params.MIPGapAbs = 0
        stated.optimize()
        assert stated.Status == gurobipy.GRB.OPTIMAL
        return stated.ObjVal


def cplex(model):
    """Return the optimum by CPLEX."""
    with pytest.importorskip("cplex").Cplex() as stated:
        for stream in (stated.set_results_stream, stated.set_log_stream, stated.set_warning_stream):
            stream(None)
        n = model.c.size
        stated.variables.add(obj=model.c.tolist(), ub=model.most.tolist(), types="I" * n)
        rows = [[np.flatnonzero(row).tolist(), row[row != 0].tolist()] for row in model.a]
        stated.linear_constraints.add(
            rows, senses="".join("L" if less else "E" for less in model.is_less), rhs=model.b.tolist()
        )
        if model.d.any():
            stated.objective.set_quadratic((2 * model.d).tolist())
        stated.parameters.mip.tolerances.mipgap.set(0.0)
        stated.parameters.mip.tolerances.absmipgap.set(0.0)
        stated.solve()
        assert stated.solution.get_status() == stated.solution.status.MIP_optimal
        return stated.solution.get_objective_value()


@pytest.mark.parametrize("solver", [gurobi, cplex])
@pytest.mark.parametrize("family", [coverage, balance, schedule])
def test_small_ones_have_the_same_optimum(family, solver):
    rng = np.random.default_rng(0)
    for seed in range(6):
        if family is coverage:
            where = rng.random((22, 3))
            problem = CoverageProblem(2 - np.linalg.norm(where[:, None] - where, axis=2), int(rng.integers(2, 8)))
        elif family is balance:
            problem = BalanceProblem(rng.multinomial(30, rng.dirichlet(np.full(5, 0.2), 20)), int(rng.integers(2, 8)))
        else:
            there = rng.random((6, 9)) < rng.beta(1, 1, 9)
            problem = ScheduleProblem(there, 3, rng.integers(0, 4, 9))
        model, back = family(problem)
        theirs, ours = back(solver(model)), solve(problem)
        assert ours.status == "optimal", seed
        assert theirs == pytest.approx(ours.objective, abs=2e-6 * max(1.0, abs(ours.objective)))
