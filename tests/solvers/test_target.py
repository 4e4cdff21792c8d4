"""``target``: a solve that ends as soon as a claim about the best value is decided."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedselect.cli import app
from solvers import InvalidOption, solve
from solvers.constraints import Budget
from solvers.dispersion import DispersionProblem


@pytest.fixture(scope="module")
def problem():
    """Half a minute for a proof; the bound at once is some per cent above the optimum."""
    rng = np.random.default_rng(3)
    h = np.triu(rng.random((60, 60)), 1)
    return DispersionProblem(h + h.T, rng.random(60), size=12)


def test_a_claim_is_decided_by_the_objective_or_the_bound(problem):
    best = solve(problem).objective
    for turned in (False, True):
        asked = problem
        if turned:
            q = np.diag(problem.costs) - problem.distances
            asked = DispersionProblem.from_quadratic(q, 12, "min")
        sign = -1.0 if turned else 1.0
        for near, answer in ((-0.3, True), (0.5, False)):
            claim = sign * best * (1 + near)
            solution = solve(asked, target=claim)
            assert solution.stopped == "target"
            assert solution.reaches(claim) is answer
            if answer:
                assert sign * solution.objective >= sign * claim
            else:
                assert sign * solution.bound < sign * claim
    proved = solve(problem, target=best)
    assert proved.reaches(best) is True
    assert proved.reaches(best + 1e-3) in (False, None)


def test_a_second_method_ends_there_too(problem):
    found = solve(problem, "greedy", bound_by="sdp", target=1e6)
    assert found.stopped == "target"
    assert found.reaches(1e6) is False
    assert solve(problem, "greedy", target=0.0).reaches(0.0) is True
    assert solve(problem, "greedy").reaches(1e6) is None


def test_what_is_no_target_is_a_sentence(problem):
    for wrong in ("high", np.nan, None.__class__):
        with pytest.raises(InvalidOption, match="target must be finite"):
            solve(problem, target=wrong)
    with pytest.raises(InvalidOption, match="target ends a solve before its pool is complete"):
        solve(problem, target=1.0, pool=3)


VERDICTS = [
    (1.0, "auto", 0, "reached: this decision is worth", True),
    (1e6, "auto", 3, "refuted: no decision is worth 1000000 or more, as the bound is", False),
    (1e6, "greedy", 4, "not decided: the claim is 1000000 or more, the best decision known is worth", None),
]


@pytest.mark.parametrize(("claim", "method", "code", "verdict", "answer"), VERDICTS)
def test_the_verdict_is_a_sentence_a_value_and_an_exit_code(
    problem, tmp_path, monkeypatch, claim, method, code, verdict, answer
):
    monkeypatch.setenv("COLUMNS", "200")
    solution = solve(problem, method, target=claim)
    assert solution.target == claim
    assert solution.target_verdict.startswith(verdict)
    assert verdict in solution.summary()
    problem.save(tmp_path / "p.npz")
    asked = ["solve", str(tmp_path / "p.npz"), "--target", str(claim), "--method", method]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == code
    assert verdict in done.output
    found = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).output)
    assert (found["target"], found["reaches_target"]) == (claim, answer)
    assert found["target_verdict"].startswith(verdict)


def test_of_several_each_has_its_verdict(problem, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name, size in (("few", 3), ("many", 12)):
        replace(problem, size=size).save(tmp_path / f"{name}.npz")
    claim = solve(replace(problem, size=3)).bound + 1.0
    files = [str(tmp_path / "few.npz"), str(tmp_path / "many.npz")]
    done = CliRunner().invoke(app, ["solve", *files, "--target", str(claim)])
    assert done.exit_code == 3
    assert [word for word in done.output.split() if word in ("True", "False")] == ["False", "True"]


def test_no_claim_no_verdict(problem):
    solution = solve(problem, "greedy")
    assert solution.target is None
    assert solution.target_verdict is None
    assert "target" not in solution.summary()


def test_what_is_infeasible_reaches_nothing_and_shows_no_bound(tmp_path, monkeypatch):
    """Two budgets of which each may be met: a search of some nodes has had a bound before it has proved that."""
    monkeypatch.setenv("COLUMNS", "200")
    points = np.random.default_rng(0).random((16, 2))
    use = np.arange(16) % 8 + 1.0
    budgets = [Budget(use, limit=17.0, name="day"), Budget(9 - use, limit=17.0, name="night")]
    asked = DispersionProblem(np.linalg.norm(points[:, None] - points, axis=2), size=4, budgets=budgets)
    solution = solve(asked, "branch-and-bound", target=0.1)
    assert solution.status == "infeasible"
    assert [point for point in solution.trace if point.bound is not None]
    assert solution.bound is None
    assert solution.reaches(0.1) is False
    assert solution.target_verdict == "refuted: there is no feasible decision, so none is worth 0.1 or more"
    asked.save(tmp_path / "p.npz")
    done = CliRunner().invoke(app, ["solve", str(tmp_path / "p.npz")])
    assert done.exit_code == 3
    assert "infeasible" in done.output
    assert "bound" not in done.output
