"""Models of others: what is written comes back as the same problem, and what is none is a sentence."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedselect.cli import app
from solvers import InvalidProblem, solve
from solvers.certificates import check
from solvers.constraints import Budget, Quota
from solvers.dispersion import (
    DispersionProblem,
    Penalty,
    QuadraticProblem,
    read_bqm,
    read_lp,
    read_qplib,
    read_qubo,
    to_qubo,
    write_lp,
    write_mps,
    write_qplib,
    write_qubo,
)


def drawn(seed, *, sides=True, whole=False):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, n + 1))
    h = np.triu(rng.integers(0, 9, (n, n)) if whole else rng.random((n, n)), 1)
    stated = {}
    if sides and rng.random() < 0.7:
        stated["quotas"] = [Quota(range(n // 2 + 1), at_most=min(m, n // 2 + 1), name="half"), Quota([0], name="first")]
        stated["budgets"] = [Budget(rng.random(n), float(m), "seconds")]
        stated["conflicts"] = [(0, n - 1)] if m < n else []
    costs = rng.integers(-5, 5, n) if whole else rng.normal(size=n)
    return DispersionProblem(h + h.T, costs, size=m, weight=0.5 if whole else 0.7, **stated)


def every(problem):
    for chosen in itertools.combinations(range(problem.n), problem.size):
        yield np.isin(np.arange(problem.n), chosen).astype(int)


seeds = st.integers(0, 2**32 - 1)
often = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("write", "read", "suffix"),
    [(write_lp, read_lp, "lp"), (write_mps, read_lp, "mps"), (write_qplib, read_qplib, "qplib")],
)
@often
@given(seed=seeds)
def test_round_trips_with_side_constraints(tmp_path, write, read, suffix, seed):
    """Every selection has the same value, and is feasible where it was."""
    problem = drawn(seed)
    write(problem, tmp_path / f"a.{suffix}")
    again = read(tmp_path / f"a.{suffix}")
    assert (again.n, again.size, again.sense) == (problem.n, problem.size, "max")
    seen = 0
    for x in every(problem):
        assert again.objective(x) == pytest.approx(problem.objective(x), rel=1e-12, abs=1e-12)
        assert (again.violation(x) == 0) == (problem.violation(x) == 0)
        seen += 1
    assert seen
    if suffix != "qplib":
        assert again.clients.tolist() == problem.clients.tolist()


@often
@given(seed=seeds)
def test_qubo_round_trip_finds_the_cardinality(tmp_path, seed):
    """The default penalty suffices, so that the reader finds m; energies of selections are minus their values."""
    problem = drawn(seed, sides=False)
    write_qubo(problem, tmp_path / "a.qubo")
    q, offset, penalty = to_qubo(problem)
    again = read_qubo(tmp_path / "a.qubo")
    assert again.size == problem.size
    for x in every(problem):
        assert again.objective(x) == pytest.approx(-problem.objective(x), abs=1e-9 * (1 + penalty) * problem.n**2)
    assert again.quadratic == pytest.approx(q)
    assert again.constant == offset


@often
@given(seed=seeds, factor=st.floats(0.02, 1.5), whole=st.booleans())
def test_what_is_said_of_a_penalty_is_true(seed, factor, whole):
    """By all energies: a margin above 0 keeps the number, and the margin is no larger than what a variable costs."""
    problem = drawn(seed, sides=False, whole=whole)
    q, _, _ = to_qubo(problem, factor * to_qubo(problem)[2])
    energies = {x: np.array(x) @ q @ np.array(x) for x in itertools.product((0, 1), repeat=problem.n)}
    least = min(energies.values())
    best = {sum(x) for x, energy in energies.items() if energy <= least + 1e-9 * abs(least)}
    found = Penalty.of(q)
    if found is not None:
        assert found.is_sufficient
        assert best == {found.size}
        inside = min(energy for x, energy in energies.items() if sum(x) == found.size)
        outside = [energy for x, energy in energies.items() if sum(x) != found.size]
        assert min(outside) >= inside + found.margin - 1e-9 * abs(inside)
    solution = solve(QuadraticProblem(q, problem.size, "min"))
    said = Penalty.verdict(solution)
    if "does not suffice" in said:
        assert least < solution.objective
    elif "suffices" in said:
        assert best == {problem.size}
    else:
        assert "not proved" in said


@pytest.mark.parametrize("size", [-1, 4, 2.0, 2**70])
def test_a_penalty_keeps_a_number_of_the_variables(size):
    with pytest.raises(InvalidProblem, match=f"size must be an integer of at least 0 and at most 3; got {size}"):
        Penalty.of(np.eye(3), size)


@pytest.mark.parametrize(
    ("quadratic", "sentence"),
    [
        (np.zeros((2, 3)), r"quadratic must be a square matrix, a row per variable; got shape \(2, 3\)"),
        (np.zeros((0, 0)), "quadratic must be a square matrix"),
        (np.zeros(3), r"quadratic must have 2 dimension\(s\); got shape \(3,\)"),
        ([[np.nan]], "quadratic must be finite"),
    ],
)
def test_a_penalty_is_that_of_a_square_matrix(quadratic, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        Penalty.of(quadratic)


def bqm(**changes):
    """The JSON of dimod 0.12.23's to_serializable for three variables, as it wrote it."""
    table = {
        "type": "BinaryQuadraticModel", "version": {"bqm_schema": "3.0.0"}, "use_bytes": False, "index_type": "int32",
        "bias_type": "float64", "num_variables": 3, "num_interactions": 2, "variable_labels": [0, 1, "c"],
        "variable_type": "BINARY", "offset": 1.5, "info": {}, "linear_biases": [1.0, 2.0, -3.0],
        "quadratic_biases": [2.0, 4.0], "quadratic_head": [0, 1], "quadratic_tail": [1, 2],
    }  # fmt: skip
    return {**table, **changes}


def test_a_model_of_dimod(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(bqm()))
    problem = read_bqm(tmp_path / "a.json", 2)
    assert [problem.objective(x) for x in ([1, 1, 0], [1, 0, 1], [0, 1, 1])] == [6.5, -0.5, 4.5]
    free = read_bqm(tmp_path / "a.json")
    assert (free.size, free.fillers) == (3, 3)
    solution = solve(free)
    assert (solution.objective, solution.selected.tolist()) == (-1.5, [2])


def test_dimod_reads_and_writes_the_same(tmp_path):
    dimod = pytest.importorskip("dimod")
    from solvers.dispersion import read_cqm

    rng = np.random.default_rng(4)
    problem = drawn(4, sides=False)
    q, offset, _ = to_qubo(problem)
    written = dimod.BinaryQuadraticModel(q, "BINARY")
    written.offset = offset
    (tmp_path / "a.bqm").write_text(json.dumps(written.to_serializable()))
    again = read_bqm(tmp_path / "a.bqm")
    assert again.size == problem.size
    cqm = dimod.ConstrainedQuadraticModel()
    cqm.set_objective(dimod.BinaryQuadraticModel(q, "BINARY"))
    cqm.add_constraint([(k, 1) for k in range(problem.n)], "==", rhs=problem.size, label="m")
    use = rng.normal(size=problem.n)
    most = float(np.sort(use)[-problem.size :].sum()) - 0.1
    cqm.add_constraint([(k, float(use[k])) for k in range(problem.n)], ">=", rhs=most, label="use")
    with cqm.to_file() as stream:
        (tmp_path / "a.cqm").write_bytes(stream.read())
    constrained = read_cqm(tmp_path / "a.cqm")
    for x in every(problem):
        assert again.objective(x) == pytest.approx(written.energy(dict(enumerate(x.tolist()))))
        assert constrained.objective(x) == pytest.approx(x @ q @ x)
        assert (constrained.violation(x) == 0) == (use @ x >= most)


@pytest.mark.parametrize(
    ("text", "size", "sentence"),
    [
        ("", 1, "no line i j value"),
        ("0 1 x\n", 1, "line 1 must be i j value; got '0 1 x'"),
        ("0 1 nan\n", 1, "line 1 must be i j value; got '0 1 nan'"),
        ("0 1 1\n0 1 2\n", 1, "line 2 lists 0 1 again .line 1 does"),
        ("p qubo 0 2 2 1\n0 2 1\n", 1, "its header has 2 variables, and one is 2"),
        ("0 1 1\n0 1", 1, "line 2 must be i j value"),
        ("0 1000000 1\n", 1, "1000001 variables, whose matrix takes 7.45e.03 GiB; up to 20000 are read"),
        ("0 1 1\n", (0, 3), "size must range from 0 or more to 2 or fewer, 1 at least; got .0, 3."),
        ("0 1 1\n", (0, 1, 2), "size must be a number, or a pair of the least and the largest"),
        ("0 1 1\n", 3, "between 1 and the number of clients, 2; got 3"),
        ("-1 1 1\n", 1, "line 1 must be i j value"),
        ("\N{SUPERSCRIPT TWO} 3 1\n", 1, "line 1 must be i j value"),
        (f"0 {10**200} 1\n", 1, "line 1 must be i j value"),
        (f"{'9' * 5000} 1 1\n", 1, "line 1 must be i j value"),
    ],
)
def test_what_is_no_qubo_is_a_sentence(tmp_path, text, size, sentence):
    (tmp_path / "a.qubo").write_text(text)
    with pytest.raises(InvalidProblem, match=sentence):
        read_qubo(tmp_path / "a.qubo", size)


def test_a_qubo_with_a_header_counted_from_one(tmp_path):
    (tmp_path / "a.qubo").write_text("# a comment\n3 3\n1 1 -1\n1 2 3\n3 2 5.5\n")
    problem = read_qubo(tmp_path / "a.qubo", 2)
    assert problem.clients.tolist() == [1, 2, 3]
    assert [problem.objective(x) for x in ([1, 1, 0], [1, 0, 1], [0, 1, 1])] == [2.0, -1.0, 5.5]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"variable_type": "SPIN"}, "its variables are spins"),
        ({"type": "SampleSet"}, "its type is 'SampleSet'"),
        ({"linear_biases": [1.0, 2.0]}, "3 labels for 2 variables"),
        ({"linear_biases": [1.0, None, 2.0]}, "must be finite|is no binary quadratic model"),
        ({"quadratic_head": [0, 3]}, "names another variable than 0 to 2"),
        ({"quadratic_head": [0, 1.5]}, "names another variable than 0 to 2"),
        ({"quadratic_biases": [2.0]}, "differ in length"),
        ({"offset": "x"}, "could not convert"),
        ({"offset": 10**400}, "too large to convert to float"),
        ({"linear_biases": [10**400, 0.0, 0.0]}, "too large to convert to float"),
        ({"quadratic_head": [0, 2**70]}, "is no binary quadratic model"),
        ({"use_bytes": True}, "only to_serializable"),
    ],
)
def test_what_is_no_bqm_is_a_sentence(tmp_path, changes, sentence):
    (tmp_path / "a.json").write_text(json.dumps(bqm(**changes)))
    with pytest.raises(InvalidProblem, match=sentence):
        read_bqm(tmp_path / "a.json", 1)


LP = "Minimize\n obj: 2 x1 - x2 + [ 4 x1 * x2 ] / 2\nSubject To\n{rows}\nBinary\n x1 x2 x3\nEnd\n"


@pytest.mark.parametrize(
    ("text", "size", "sentence"),
    [
        (
            LP.format(rows=" c: x1 + x2 + x3 <= 1\n d: x1 + x2 + x3 >= 2"),
            None,
            "'d' .*asks for 2 to inf of 3; the size is 0 to 3",
        ),
        (LP.format(rows=" c: x1 + x2 + x3 = 3"), (0, 2), "says that 3 are chosen; the size given is 0 to 2"),
        (LP.format(rows=" c: x1 + x2 + x3 <= 2"), 3, "asks for -inf to 2 of 3; the size is 3"),
        (LP.format(rows=" c: 2 x1 + 2 x2 + 2 x3 = 3"), None, "asks for 1.5 of the variables"),
        (LP.format(rows=" c: x1 + x2 + x3 = 2"), 1, "says that 2 are chosen; the size given is 1"),
        (LP.format(rows=" c: x1 + x2 + x3 = 2\n d: 2 x1 + 2 x2 + 2 x3 = 2"), None, "contradict each other: 2 and 1"),
        (LP.format(rows=" c: x1 + x2 = 1").replace("x1 x2 x3", "x1 x2"), 3, "the size given is 3"),
        (LP.format(rows=" c: x1 + x2 + x3 = 2").replace(" x1 x2 x3\nEnd", " x1 x2\nEnd"), None, "'x3'.* is not binary"),
        (LP.format(rows=" c: x1 + x2 + x3 = 2")[:30], None, "has no row|is not a model|is not binary"),
        ("hello", None, "has no variable"),
        ("", None, "is not a model that HiGHS reads"),
    ],
)
def test_what_is_no_selection_is_a_sentence(tmp_path, text, size, sentence):
    (tmp_path / "a.lp").write_text(text)
    with pytest.raises(InvalidProblem, match=sentence):
        read_lp(tmp_path / "a.lp", size)


def test_models_without_a_number_are_solved_as_they_stand(tmp_path):
    """Any number, or what a row leaves open; a row of several coefficients counts no filler. Enumerated."""
    rng, ranged = np.random.default_rng(8), 0
    for low, high in ((None, None), (None, 3), (2, 4), (1, 6)):
        q, use = rng.integers(-9, 10, 6), rng.integers(-3, 8, 6)
        pairs = [(i, j, int(v)) for i in range(6) for j in range(i) if (v := rng.integers(-9, 10))]
        rows = [" + ".join(f"{c} x{k}" for k, c in enumerate(use)).replace("+ -", "- ") + " <= 9"]
        rows += [" + ".join(f"x{k}" for k in range(6)) + f" >= {low}"] if low is not None else []
        rows += [" + ".join(f"x{k}" for k in range(6)) + f" <= {high}"] if high is not None else []
        linear = " + ".join(f"{c} x{k}" for k, c in enumerate(q))
        products = " + ".join(f"{2 * v} x{i} * x{j}" for i, j, v in pairs)
        goal = f"{linear} + [ {products} ] / 2".replace("+ -", "- ")
        text = f"Minimize\n obj: {goal}\nSubject To\n" + "\n".join(f" r{k}: {row}" for k, row in enumerate(rows))
        (tmp_path / "a.lp").write_text(text + "\nBinary\n " + " ".join(f"x{k}" for k in range(6)) + "\nEnd\n")
        decisions = [np.array(x) for x in itertools.product((0, 1), repeat=6)]
        values = {
            tuple(x): x @ q + sum(v * x[i] * x[j] for i, j, v in pairs)
            for x in decisions
            if use @ x <= 9 and (low or 0) <= x.sum() <= (6 if high is None else high)
        }
        problem = read_lp(tmp_path / "a.lp")
        solution = solve(problem, certificate=True)
        assert solution.status == "optimal"
        assert solution.objective == min(values.values())
        assert values[tuple(np.isin(np.arange(6), solution.selected).astype(int))] == solution.objective
        assert check(problem, solution.certificate) <= solution.objective
        ranged += 0 < problem.fillers < 6
    assert ranged == 3


def test_rows_of_every_sort(tmp_path):
    """Equal coefficients are quotas, others budgets with what is added to all; a fixed variable is included."""
    rows = " c: x1 + x2 + x3 + x4 = 2\n q: - x1 - x2 >= -1\n b: 2 x1 - 3 x2 + x3 <= 0.5\n e: x1 + 2 x3 = 2\n f: x3 = 1"
    text = LP.format(rows=rows).replace("x1 x2 x3", "x1 x2 x3 x4")
    (tmp_path / "a.lp").write_text(text)
    problem = read_lp(tmp_path / "a.lp")
    assert problem.include == (3,)
    assert [quota.name for quota in problem.quotas] == ["q"]
    assert [budget.name for budget in problem.budgets] == ["b", "e", "e least"]
    feasible = [x.tolist() for x in every(problem) if problem.violation(x) == 0]
    assert feasible == [[0, 1, 1, 0]]  # x3 and x4 break b, x1 and x3 break e
    assert problem.objective([0, 1, 1, 0]) == -1.0


@pytest.mark.parametrize("cut", range(1, 21, 3))
def test_a_truncated_qplib_is_a_sentence(tmp_path, cut):
    write_qplib(drawn(5, sides=False), tmp_path / "a.qplib")
    lines = (tmp_path / "a.qplib").read_text().splitlines()
    (tmp_path / "a.qplib").write_text("\n".join(lines[:cut]))
    with pytest.raises(InvalidProblem, match="is not a QPLIB file"):
        read_qplib(tmp_path / "a.qplib")


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("end", ["inf", "-inf"])
def test_a_row_of_qplib_that_no_number_keeps_is_a_sentence(tmp_path, width, end):
    """From infinity on, or up to minus infinity: rows of one variable, of two, and of all."""
    limit = f"{'-' * (end[0] == '-')}1e30"
    row = f"{width}\n" + "".join(f"1 {k} 1\n" for k in range(1, width + 1))
    text = f"name\nLBL\nminimize\n3\n1\n0\n0\n0\n{row}1e30\n{limit}\n0\n{limit}\n0\n"
    (tmp_path / "a.qplib").write_text(text)
    with pytest.raises(InvalidProblem, match=f"row 'row 1' of .* accepts no number: it goes from {end} to {end}"):
        read_qplib(tmp_path / "a.qplib")


def test_other_types_of_qplib_are_refused(tmp_path):
    write_qplib(drawn(5, sides=False), tmp_path / "a.qplib")
    (tmp_path / "a.qplib").write_text((tmp_path / "a.qplib").read_text().replace("QBL", "QCL"))
    with pytest.raises(InvalidProblem, match="is of type QCL: binary variables and linear rows are read"):
        read_qplib(tmp_path / "a.qplib")


def test_the_command_line_reads_proves_and_says_what_the_penalty_does(tmp_path, monkeypatch):
    """A QUBO goes in, an optimum with a certificate comes out, and the file checks it."""
    monkeypatch.setenv("COLUMNS", "200")
    problem = drawn(6, sides=False)
    write_qubo(problem, tmp_path / "good.qubo")
    write_qubo(problem, tmp_path / "weak.qubo", penalty=1e-3)
    run, kept = CliRunner(), str(tmp_path / "c.npz")
    good = run.invoke(app, ["solve", str(tmp_path / "good.qubo"), "--certificate", kept])
    assert good.exit_code == 0, good.output
    assert "its penalty suffices" in good.output
    assert run.invoke(app, ["verify", kept, "--problem", str(tmp_path / "good.qubo")]).exit_code == 0
    assert "number chosen" not in good.output
    free = run.invoke(app, ["solve", str(tmp_path / "weak.qubo"), "--certificate", kept])
    assert f"where 0 to {problem.n} may be" in free.output
    assert "penalty" not in free.output
    assert run.invoke(app, ["verify", kept, "--problem", str(tmp_path / "weak.qubo")]).exit_code == 0
    weak = run.invoke(app, ["solve", str(tmp_path / "weak.qubo"), "--size", str(problem.size), "--format", "json"])
    found = json.loads(weak.stdout)
    assert found["penalty"].startswith("its penalty does not suffice")
    assert found["objective"] == pytest.approx(-solve(problem).objective)
    (tmp_path / "s.json").write_text("{}")
    assert "is no problem" in str(run.invoke(app, ["solve", str(tmp_path / "s.json")]).exception)
