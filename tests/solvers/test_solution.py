"""A solution can be carried, kept and looked at; `solve` can put another method's bound beside a decision, and log."""

import copy
import io
import json
import pickle

import numpy as np
import pytest

from solvers import InvalidProblem, Solution, solve, with_bound
from solvers.allocation import AllocationProblem
from solvers.dispersion import DispersionProblem


def points(n=40, size=8):
    place = np.random.default_rng(n).random((n, 2))
    return DispersionProblem(np.linalg.norm(place[:, None] - place[None], axis=-1), np.zeros(n), size=size)


GROUPS = AllocationProblem(sizes=np.array([5, 6, 7]), deviations=np.array([1.0, 2.0, 3.0]), total=6)


def carried(solution, tmp_path):
    yield pickle.loads(pickle.dumps(solution))
    yield copy.deepcopy(solution)
    yield copy.copy(solution)
    yield Solution.load(solution.save(tmp_path / "solution.npz"))


@pytest.mark.parametrize(("problem", "name"), [(GROUPS, "kkt"), (points(12, 4), "brute-force"), (points(), "greedy")])
def test_solutions_are_carried_whole(problem, name, tmp_path):
    solution = solve(problem, name)
    facts = ("method", "objective", "bound", "status", "stopped", "seconds", "nodes", "seed", "trace", "gap")
    for other in carried(solution, tmp_path):
        assert [getattr(other, fact) for fact in facts] == [getattr(solution, fact) for fact in facts]
        np.testing.assert_array_equal(other.x, solution.x)
        assert not other.x.flags.writeable
        assert set(other.duals) == set(solution.duals)
        assert other.residuals() == solution.residuals()
        with pytest.raises(TypeError):
            other.details["new"] = 1


def test_a_problem_that_was_pickled_is_still_read_only():
    problem = pickle.loads(pickle.dumps(points()))
    assert not problem.distances.flags.writeable


def test_json_is_json():
    solution = solve(points(12, 4), "brute-force")
    told = json.loads(solution.to_json())
    assert told["objective"] == solution.objective
    assert told["selected"] == solution.selected.tolist()
    assert told["problem"]["type"] == "DispersionProblem"
    assert told["gap"] == solution.gap


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 and no more"])
def test_a_file_that_holds_no_solution(content, tmp_path):
    (tmp_path / "file.npz").write_bytes(content)
    with pytest.raises(InvalidProblem, match="is not a solution file"):
        Solution.load(tmp_path / "file.npz")
    with pytest.raises(InvalidProblem, match="is not a solution file"):
        Solution.load(points().save(tmp_path / "problem.npz"))


def test_reprs_are_short():
    problem = points(300)
    solution = solve(problem, "greedy")
    assert "distances=300×300" in repr(problem)
    assert len(repr(problem)) < 200
    assert "<td>300×300</td>" in problem._repr_html_()
    assert "greedy" in solution._repr_html_()


def test_plot_draws_objective_and_bound():
    solution = solve(points(12, 4), "brute-force")
    axes = solution.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["objective", "bound"]
    assert axes.get_lines()[0].get_ydata()[-1] == solution.objective


def test_a_second_method_certifies_a_decision():
    problem = points()
    alone = solve(problem, "greedy")
    solution = solve(problem, "greedy", bound_by="sdp", time_limit=20)
    assert alone.bound is None
    np.testing.assert_array_equal(solution.x, alone.x)
    assert solution.bound >= solve(problem, "branch-and-bound", time_limit=20).objective
    assert solution.bound_by == "sdp"
    assert solution.seconds >= solution.bound_seconds > 0
    assert solution.trace[-1].bound == solution.bound
    assert solution.trace[-1].objective == solution.objective


def test_a_certified_optimum_is_one():
    problem = points(12, 4)
    solution = solve(problem, "local-search", bound_by="brute-force")
    assert (solution.status, solution.stopped) == ("optimal", "proved")
    assert with_bound(solution, "sdp") is solution


def test_a_better_decision_of_the_certifier_is_not_taken():
    problem = points(12, 4)
    start = solve(problem, "random")
    solution = with_bound(start, "brute-force")
    assert solution.objective == start.objective < solution.bound
    assert solution.seconds == start.seconds


@pytest.mark.parametrize("kind", ["stream", "callable", "print"])
def test_log_is_a_line_an_improvement(kind, capsys):
    stream, lines = io.StringIO(), []
    solution = solve(
        points(12, 4), "brute-force", log={"stream": stream, "callable": lines.append, "print": True}[kind]
    )
    text = {"stream": stream.getvalue(), "callable": "\n".join(lines), "print": capsys.readouterr().out}[kind]
    rows = text.splitlines()
    assert rows[0] == "brute-force on a DispersionProblem (max, n = 12), seed 0"
    assert rows[1].split() == ["seconds", "nodes", "incumbent", "bound", "gap"]
    assert len(rows) == 2 + len(solution.trace) + len(solution.summary().splitlines())
    assert rows[-len(solution.summary().splitlines()) :] == solution.summary().splitlines()


def test_phases_and_notes_are_kept():
    from solvers.run import Run

    problem = points(12, 4)
    run = Run(problem, "own", None, 0)
    with run.phase("look"):
        run.offer(np.repeat([1, 0], [4, 8]))
    run.note("nothing more to do")
    details = run.solution().details
    assert details["phases"][0]["name"] == "look"
    assert details["phases"][0]["objective"] == run.objective
    assert details["notes"] == ["nothing more to do"]
