"""Linear files: HiGHS and CBC read them and come to the optimum."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem, write_lp, write_mps
from tests.solvers.dispersion.cases import uniform_problem


def cases():
    base = uniform_problem(8, 3, 3)
    spread = np.random.default_rng(1).random((7, 2)) * 1e3
    far = np.linalg.norm(spread[:, None] - spread, axis=2)
    return {
        "ids": DispersionProblem(base.distances, base.costs - 0.4, size=3, weight=0.8, clients=np.arange(8) * 3 - 8),
        "points": DispersionProblem(far, None, size=4, weight=0.5),
        "all": DispersionProblem(far, None, size=7, weight=0.5),
        "one": DispersionProblem(base.distances, base.costs, size=1, weight=1.0),
        "near zero": DispersionProblem(np.zeros((4, 4)), [1.0, 2.0, 0.5, 3.0], size=2, weight=1.0),
        "single": DispersionProblem(np.zeros((1, 1)), [2.0], size=1, weight=1.0),
    }


def client(variable):
    """The client of a variable ``x...``, where ``n`` stands for a minus."""
    return int(variable[1:].replace("n", "-"))


def highs(path):
    """Optimum, and the clients whose variable is 1."""
    highspy = pytest.importorskip("highspy")
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 0.0)
    assert model.readModel(str(path)) == highspy.HighsStatus.kOk
    model.run()
    assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    names, values = model.getLp().col_names_, model.getSolution().col_value
    chosen = sorted(client(name) for name, value in zip(names, values, strict=True) if name[0] == "x" and value > 0.5)
    value = model.getInfo().objective_function_value
    return -value if path.suffix == ".mps" else value, chosen


def cbc(path):
    """The same by CBC: the program on the path, or the one that PuLP brings."""
    program = shutil.which("cbc")
    if program is None:
        pulp = pytest.importorskip("pulp", reason="neither cbc nor PuLP, which brings it, is installed")
        program = pulp.PULP_CBC_CMD().path
    answer = path.with_suffix(".sol")
    done = subprocess.run([program, path, "ratio", "0", "solve", "solution", answer], capture_output=True, text=True)
    assert "with 0 errors" in done.stdout or path.suffix == ".lp", done.stdout
    head, *lines = answer.read_text().splitlines()
    assert head.startswith("Optimal - objective value")
    rows = [line.split()[-3:] for line in lines]  # behind a mark, where a value breaks a bound, and the row's number
    chosen = sorted(client(name) for name, value, _ in rows if name[0] == "x" and float(value) > 0.5)
    value = float(head.split()[-1])
    return -value if path.suffix == ".mps" else value, chosen


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize(("write", "suffix"), [(write_lp, "lp"), (write_mps, "mps")])
@pytest.mark.parametrize("formulation", ["rlt", "glover", "tangent"])
@pytest.mark.parametrize("read", [highs, cbc])
def test_others_come_to_the_optimum(tmp_path, case, write, suffix, formulation, read):
    problem = cases()[case]
    best = solve(problem, "brute-force").objective
    write(problem, tmp_path / f"model.{suffix}", formulation)
    value, chosen = read(tmp_path / f"model.{suffix}")
    scale = max(1.0, abs(best))
    decision = np.isin(problem.clients, chosen).astype(int)
    if formulation == "tangent":  # a bound
        assert problem.violation(decision) == 0
        assert best - 1e-6 * scale <= value <= problem.trivial_bound() + 1e-6 * scale
    else:
        assert value == pytest.approx(best, abs=1e-6 * scale)
        assert problem.objective(decision) == pytest.approx(best, abs=1e-6 * scale)


def test_an_unknown_formulation_is_a_sentence(tmp_path):
    with pytest.raises(
        InvalidOption, match="formulation must be one of quadratic, rlt, glover, tangent; got 'mccormick'"
    ):
        write_lp(uniform_problem(4, 2), tmp_path / "a.lp", "mccormick")
