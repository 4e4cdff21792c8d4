"""Files and matrices that other tools read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, solve
from solvers.constraints import Budget, Quota
from solvers.dispersion import (
    DispersionProblem,
    read_densest_subgraph,
    read_mdplib,
    read_qubo,
    to_qubo,
    write_cp_sat,
    write_lp,
    write_mdplib,
    write_mps,
    write_qplib,
    write_qubo,
)
from tests.solvers.dispersion.cases import random_problem, uniform_problem


def test_mdplib_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    h = np.triu(rng.random((7, 7)), 1)
    problem = DispersionProblem(h + h.T, None, size=3, weight=0.7)
    write_mdplib(problem, tmp_path / "a.txt")
    again = read_mdplib(tmp_path / "a.txt")
    assert (again.n, again.size) == (7, 3)
    x = np.array([1, 0, 1, 0, 0, 1, 0])
    assert again.objective(x) == pytest.approx(problem.objective(x))
    assert read_mdplib(tmp_path / "a.txt", size=5).size == 5


def test_mdplib_round_trip_of_one_client(tmp_path):
    write_mdplib(DispersionProblem([[0.0]], size=1), tmp_path / "a.txt")
    assert read_mdplib(tmp_path / "a.txt").n == 1


def test_mdplib_has_no_place_for_costs(tmp_path):
    with pytest.raises(InvalidProblem, match="no place for costs"):
        write_mdplib(uniform_problem(5, 2), tmp_path / "a.txt")


@pytest.mark.parametrize(
    "text", ["", "3", "3 2\n0 1 1.0\n", "2 1\n1 0 1.0\n", "2 1\n0 1 x\n", "2 1\n0 1 -1\n", "2 9\n0 1 1\n"]
)
def test_a_broken_file_is_a_sentence(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InvalidProblem):
        read_mdplib(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3 2\n0 1 1\n\n0 x 1\n1 2 1\n", "line 4 must be i j distance; got '0 x 1'"),
        ("3 2\n0 1 1\n0 2\n1 2 1\n", "line 3 must be i j distance; got '0 2'"),
        ("3 2\n0 1 1\n0 2 1\n0 1 1\n1 2 1\n", "there are 4 lines; line 4 lists a pair again"),
        ("3 2\n0 1 1\n0 2 1\n0 2 1\n", "must appear once; line 4 lists a pair again"),
        ("-3 2\n0 1 2\n", "its first line reads n m, or n alone, in whole numbers from 0 on; got '-3 2'"),
        ("0 1 -4\n1 2 5\n", "got '0 1 -4' .a QUBO of lines `i j value`"),
        ("4.5 1 2\n1 5 -3\n2 -3 6\n", "it holds a matrix of 3 rows: .*from_quadratic, or lines `i j value`"),
        ("3 2\n1 2 1\n1 3 1\n2 3 1\n", "once; line 3 does not list one .are they numbered from 1"),
        ("3 2\n0 1 1\n0 2.9 1\n1 2 1\n", "must appear once; line 3 does not list one"),
    ],
)
def test_a_broken_file_names_its_line(tmp_path, text, sentence):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InvalidProblem, match=sentence):
        read_mdplib(tmp_path / "a.txt")


@pytest.mark.parametrize(("write", "suffix"), [(write_lp, "lp"), (write_mps, "mps")])
def test_another_solver_reads_the_model(tmp_path, write, suffix):
    """Gurobi's answer to the file is the optimum; ids of clients are the variables' names."""
    gurobipy = pytest.importorskip("gurobipy")
    base = uniform_problem(9, 4, 3)
    problem = DispersionProblem(base.distances, base.costs - 0.4, size=4, weight=0.8, clients=np.arange(9) * 3 + 5)
    write(problem, tmp_path / f"model.{suffix}")
    with gurobipy.Env(params={"OutputFlag": 0}) as environment:
        model = gurobipy.read(str(tmp_path / f"model.{suffix}"), environment)
        model.Params.OutputFlag = 0
        model.optimize()
        chosen = sorted(int(v.VarName[1:]) for v in model.getVars() if v.X > 0.5)
        value = model.ObjVal
    truth = solve(problem, "brute-force")
    assert value == pytest.approx(truth.objective, rel=1e-6)
    assert chosen == truth.selected.tolist()


def read_qplib(path):
    """Read a file of type QBL as its description has it: Q, b, the rows, their limits; nothing may be left over."""
    numbers = (line.split("#")[0].split() for line in path.read_text().splitlines())

    def count():
        (word,) = next(numbers)
        return int(word)

    def vector(length):
        (usual,) = next(numbers)
        values = np.full(length, float(usual))
        for _ in range(count()):
            place, value = next(numbers)
            values[int(place) - 1] = float(value)
        return values

    def matrix(rows, columns):
        entries = np.zeros((rows, columns))
        for _ in range(count()):
            row, column, value = next(numbers)
            entries[int(row) - 1, int(column) - 1] = float(value)
        return entries

    next(numbers)
    assert [next(numbers), next(numbers)] == [["QBL"], ["maximize"]]
    n, m = count(), count()
    lower = matrix(n, n)
    assert not np.triu(lower, 1).any()
    q, b = lower + np.tril(lower, -1).T, vector(n)
    assert next(numbers) == ["0"]
    a = matrix(m, n)
    infinity = float(next(numbers)[0])
    low, high = vector(m), vector(m)
    low[low <= -infinity], high[high >= infinity] = -np.inf, np.inf
    for length in (n, m, n):
        vector(length)
    assert [count(), count(), next(numbers, None)] == [0, 0, None]
    return q, b, a, low, high


@pytest.mark.parametrize("constrained", [False, True])
def test_qplib_has_the_objective_and_the_rows_of_every_subset(tmp_path, constrained):
    base = uniform_problem(9, 4, 3)
    budget = Budget(np.arange(9.0) + 0.25, 16.0, name="seconds")
    more = {"budgets": [budget], "quotas": [Quota([0, 2, 5], 1, 2)], "conflicts": [(4, 6)], "exclude": [7]}
    more = more if constrained else {"clients": np.arange(9) * 3}
    problem = DispersionProblem(base.distances, base.costs - 0.4, size=4, weight=0.8, **more)
    write_qplib(problem, tmp_path / "a.qplib")
    q, b, a, low, high = read_qplib(tmp_path / "a.qplib")
    allowed = 0
    for bits in itertools.product((0, 1), repeat=problem.n):
        x = np.array(bits)
        keeps = bool(((a @ x >= low) & (a @ x <= high)).all())
        assert keeps == (problem.violation(x) == 0)
        assert x @ q @ x / 2 + b @ x == pytest.approx(problem.objective(x), abs=1e-12)
        allowed += keeps
    assert 0 < allowed < 126 if constrained else allowed == 126


def test_cp_sat_proto(tmp_path):
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2

    problem = uniform_problem(8, 3)
    scale = write_cp_sat(problem, tmp_path / "model.txt")
    proto = text_format.Parse((tmp_path / "model.txt").read_text(), cp_model_pb2.CpModelProto())
    assert scale > 0
    assert len(proto.variables) == 8 + 28
    with pytest.raises(InvalidOption, match="must be 'rlt' or 'product'; got 'tangent'"):
        write_cp_sat(problem, tmp_path / "tangent.txt", "tangent")
    assert not (tmp_path / "tangent.txt").exists()


def test_qubo_minimisers_are_the_best_selections():
    rng = np.random.default_rng(5)
    for _ in range(25):
        problem = random_problem(rng, 8)
        q, offset, penalty = to_qubo(problem)
        assert penalty > 0
        bits = np.array(list(itertools.product((0, 1), repeat=problem.n)))
        values = np.einsum("ki,ij,kj->k", bits, q, bits) + offset
        best = bits[values.argmin()]
        truth = solve(problem, "brute-force")
        slack = 1e-9 * (problem.scale + penalty * problem.size**2)
        assert problem.violation(best) == 0 or values.min() >= -truth.objective - slack
        feasible = values[bits.sum(axis=1) == problem.size]
        assert feasible.min() == pytest.approx(-truth.objective, abs=slack)
        assert values.min() >= feasible.min() - slack


@pytest.mark.parametrize("penalty", [0.0, np.nan, np.inf, pytest.param(2**2000, id="2**2000"), "high"])
def test_qubo_penalty_is_checked(penalty):
    with pytest.raises(InvalidOption, match="penalty must be finite and positive; got"):
        to_qubo(uniform_problem(5, 2), penalty=penalty)


def test_a_qubo_penalty_that_overflows_is_refused():
    with pytest.raises(InvalidOption, match=r"penalty 1e\+308 overflows with 2 clients to choose"):
        to_qubo(uniform_problem(5, 2), 1e308)


def test_a_penalty_of_numpy_keeps_the_constant(tmp_path):
    problem = uniform_problem(5, 2)
    write_qubo(problem, tmp_path / "a.qubo", np.float64(3.0))
    assert read_qubo(tmp_path / "a.qubo", 2).constant == to_qubo(problem, 3.0)[1] == 12.0


@pytest.mark.parametrize(
    "text",
    ["5 6\n1 2\n1 3\n2 3\n3 4\n4 5\n2 4\n", "c five\np edge 5 6\ne 1 2\ne 1 3\ne 2 3\ne 3 4\ne 4 5\ne 2 4\n"],
)
def test_densest_subgraph(tmp_path, text):
    (tmp_path / "graph").write_text(text)
    problem = read_densest_subgraph(tmp_path / "graph", 4)
    answer = solve(problem, "brute-force")
    assert answer.objective == 5
    assert answer.selected.tolist() == [0, 1, 2, 3]


def test_weighted_subgraph(tmp_path):
    (tmp_path / "graph").write_text("# weighted\n3 2\n1 2 0.5\n2 3 4\n")
    problem = read_densest_subgraph(tmp_path / "graph", 2)
    assert solve(problem, "brute-force").objective == 4
    assert problem.distances[0, 1] == 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("3 2\n1 2\n", "promises 2 edges"),
        ("3 1\n1 4\n", "from 1 to 3"),
        ("3 1\n2 2\n", "two different"),
        ("3 2\n1 2\n2 1\n", "twice"),
        ("a b\n", "not a graph"),
    ],
)
def test_refused_graphs(tmp_path, text, words):
    (tmp_path / "graph").write_text(text)
    with pytest.raises(InvalidProblem, match=words):
        read_densest_subgraph(tmp_path / "graph", 2)
