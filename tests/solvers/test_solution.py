"""A solution can be carried, kept and looked at; `solve` can put another method's bound beside a decision, and log."""

import copy
import io
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from solvers import InvalidAnswer, InvalidProblem, Solution, relative_gap, solve, with_bound
from solvers.allocation import AllocationProblem
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem
from solvers.problem import digest
from solvers.solution import TracePoint, jsonable, proves


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


def test_a_file_of_another_problem_than_the_one_given_is_refused(tmp_path):
    problem = points(12, 4)
    path = solve(problem, "greedy").save(tmp_path / "solution.npz")
    assert Solution.load(path, problem).problem is problem
    with pytest.raises(InvalidProblem, match="holds a solution of another problem than the one given"):
        Solution.load(path, points(12, 5))


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


def test_plot_draws_what_is_used_of_groups_and_budgets():
    free = points(12, 4)
    seconds = Budget(np.arange(12.0), 20.0, "seconds")
    quotas = [Quota([0, 1, 2], at_least=2, name="north"), Quota([3, 4, 5, 6], 1, 1, name="south")]
    problem = DispersionProblem(free.distances, free.costs, size=4, quotas=quotas, budgets=[seconds])
    solution = solve(problem, "brute-force")
    beside = solution.plot().figure.axes[1]
    assert [text.get_text() for text in beside.get_yticklabels()] == [
        "quota 'north'",
        "quota 'south'",
        "budget 'seconds'",
    ]
    used = [row.activity(solution.x) / unit for row, unit in zip(problem.constraints.rows, (2, 1, 20), strict=True)]
    assert [bar.get_width() for bar in beside.patches] == pytest.approx(used, abs=1e-6)
    given = Figure().subplots()
    assert solution.plot(given) is given
    assert len(given.figure.axes) == 1  # on given axes the course alone


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


# -- a solution put together by hand, all of whose facts are known -----------------------------------------------------

#: Three clients at distance 1 of each other, two to choose: every selection is worth 2.
THREE = DispersionProblem(1.0 - np.eye(3), size=2)

#: A minimisation whose values are larger than 1, so that tolerances are those of `THREE`.
LEAST = AllocationProblem(sizes=[5, 6, 7], deviations=[100.0, 200.0, 300.0], total=6)


def by_hand(**facts):
    stated = {"x": np.array([1, 0, 1], dtype=np.int8), "objective": 2.0, "bound": 2.5, "status": "feasible"}
    return Solution(**{"problem": THREE, "method": "own", "stopped": "gap", **stated, **facts})


def test_what_a_method_leaves_out_is_nothing():
    solution = by_hand(x=None, objective=None, bound=None)
    assert (solution.message, solution.seconds, solution.build_seconds, solution.nodes) == ("", 0.0, 0.0, None)
    assert (solution.trace, solution.seed, dict(solution.duals), dict(solution.details)) == ((), 0, {}, {})
    assert (solution.gap, solution.absolute_gap, solution.raw, solution.certificate) == (None, None, None, None)
    assert (solution.native_status, solution.bound_by, solution.bound_seconds) == (None, None, 0.0)
    assert solution.certificate_report == {}
    assert solution.residuals() == {}
    with pytest.raises(AttributeError, match="'own' found no feasible decision"):
        solution.selected  # noqa: B018
    with pytest.raises(AttributeError, match="a AllocationProblem decides quantities, it does not select clients"):
        solve(GROUPS, "kkt").selected  # noqa: B018


def test_what_a_method_puts_into_details_has_a_name():
    details = {"native_status": "GOOD", "bound_by": "sdp", "bound_seconds": 2, "raw": [1, 2], "certificate": {"a": 1}}
    solution = by_hand(details=details)
    assert (solution.native_status, solution.bound_by, solution.bound_seconds) == ("GOOD", "sdp", 2.0)
    assert solution.raw.dtype == np.float64
    assert solution.raw.tolist() == [1.0, 2.0]
    assert solution.certificate_report == {"a": 1}


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "absolute"),
    [(2.0, 2.5, 0.25, 0.5), (-2.0, -1.5, 0.25, 0.5), (0.0, 1.0, math.inf, 1.0), (0.0, 0.0, 0.0, 0.0)],
)
def test_gaps(objective, bound, gap, absolute):
    solution = by_hand(objective=objective, bound=bound)
    assert (solution.gap, solution.absolute_gap) == (gap, absolute)
    assert relative_gap(objective, bound) == gap
    for lacking in ({"objective": None}, {"bound": None}):
        other = by_hand(**{"objective": objective, "bound": bound, **lacking})
        assert (other.gap, other.absolute_gap) == (None, None)


def test_a_proof_is_a_difference_of_a_millionth_and_no_more():
    assert proves(THREE, 0.0, 1e-6)
    assert proves(THREE, 0.0, -1e-6)
    assert not proves(THREE, 0.0, math.nextafter(1e-6, 1))
    assert not proves(THREE, None, 1.0)
    assert not proves(THREE, 1.0, None)


@pytest.mark.parametrize(("problem", "sign"), [(THREE, 1.0), (LEAST, -1.0)])
def test_a_bound_is_beyond_the_objective_by_a_billionth_at_most(problem, sign):
    assert by_hand(problem=problem, objective=0.0, bound=-sign * 1e-9).bound == 0.0
    assert by_hand(problem=problem, objective=0.0, bound=sign * 1e-9).bound == sign * 1e-9
    with pytest.raises(InvalidAnswer, match=rf"'own' .* no bound of a {problem.sense}imisation can lie on that side"):
        by_hand(problem=problem, objective=0.0, bound=-sign * math.nextafter(1e-9, 1))


@pytest.mark.parametrize("objective", [2.0, None])
def test_a_bound_is_a_number(objective):
    with pytest.raises(InvalidAnswer, match="'own' reported NaN as its bound"):
        by_hand(objective=objective, bound=math.nan)


@pytest.mark.parametrize(("problem", "sign"), [(THREE, 1.0), (LEAST, -1.0)])
def test_of_two_bounds_the_tighter_counts(problem, sign):
    start = by_hand(problem=problem, objective=sign * 2.0, bound=sign * 3.0, details={"a": 1})
    for other, kept in ((4.0, 3.0), (2.5, 2.5)):
        found = start.with_bound(sign * other, b=2)
        assert (found.bound, found.status, dict(found.details)) == (sign * kept, "feasible", {"a": 1, "b": 2})
    assert start.with_bound(None).bound == sign * 3.0
    assert replace(start, bound=None).with_bound(None).bound is None
    assert replace(start, bound=None).with_bound(sign * 3.0).bound == sign * 3.0
    assert start.with_bound(sign * 2.0 + sign * 1e-6).status == "optimal"


def test_residuals_of_what_is_stated():
    assert by_hand(objective=2.5, bound=3.0).residuals() == {"objective_error": 0.5, "violation": 0.0}
    assert by_hand(objective=None).residuals()["objective_error"] == 2.0
    assert by_hand(duals={"price": 1.0}).residuals() == by_hand().residuals()  # no KKT conditions of a selection
    convex = solve(GROUPS, "kkt")
    assert set(convex.residuals()) > {"objective_error", "violation"}
    assert set(replace(convex, duals={}).residuals()) == {"objective_error", "violation"}


def test_as_data():
    trace = (TracePoint(0.5, None, 3.0), TracePoint(1.0, 2.0, 2.5))
    named = {"family": "dispersion", "type": "DispersionProblem", "sense": "max", "n": 3, "digest": digest(THREE)}
    found = by_hand(trace=trace, seconds=1.5, build_seconds=0.25, nodes=7, seed=3, details={"far": math.inf}).to_dict()
    assert found == {
        "format": "solvers-solution/1",
        "problem": named,
        "method": "own", "objective": 2.0, "bound": 2.5, "status": "feasible", "stopped": "gap", "message": "",
        "seconds": 1.5, "build_seconds": 0.25, "nodes": 7, "seed": 3, "absolute_gap": 0.5, "gap": 0.25,
        "x": [1, 0, 1], "selected": [0, 2], "trace": [[0.5, None, 3.0], [1.0, 2.0, 2.5]], "certificate": None,
        "duals": {}, "details": {"far": None},
    }  # fmt: skip
    nothing = by_hand(x=None, objective=None).to_dict()
    assert nothing["x"] is None
    assert "selected" not in nothing
    assert "selected" not in solve(GROUPS, "kkt").to_dict()  # quantities are no selection


def test_as_json_values():
    values = [np.arange(2), np.float64(0.5), (1, [2.0]), {3: math.nan}, None, True, "a", -math.inf, 1j]
    assert jsonable(values) == [[0, 1], 0.5, [1, [2.0]], {"3": None}, None, True, "a", None, "1j"]


def test_summary_says_every_fact_once():
    details = {"native_status": "GOOD", "bound_by": "sdp", "certificate": {"bound": 2.75, "distance": 0.25}}
    details["phases"] = [
        {"name": "shift", "seconds": 0.25, "bound": 3.0},
        {"name": "root", "seconds": 0.5, "bound": 2.5},
    ]
    details["phases"] += [{"name": "tree", "seconds": 0.125, "bound": 2.5}, {"name": "under way"}]
    told = by_hand(message="said", nodes=3, seconds=1.25, details=details).summary()
    assert told.splitlines() == [
        "method         own",
        "status         feasible",
        "stopped        gap",
        "message        said",
        "native status  GOOD",
        "objective      2",
        "bound          2.5 (by sdp)",
        "gap            25 % (0.5 absolute)",
        "certificate    proves 2.75 (0.25 weaker than the bound)",
        "nodes          3",
        "seconds        1.250",
        "  shift        0.250 s",
        "  root         0.500 s (the bound)",
        "  tree         0.125 s",
    ]
    told = by_hand(x=None, objective=None, details={"certificate": {"none": "too large"}}).summary()
    assert told.splitlines() == [
        "method         own",
        "status         feasible",
        "stopped        gap",
        "objective      -",
        "bound          2.5",
        "certificate    none: too large",
        "seconds        0.000",
    ]
    assert "weaker" not in by_hand(details={"certificate": {"bound": 2.5, "distance": 0.0}}).summary()


def test_plot_draws_what_is_known_when():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    solution = by_hand(trace=(TracePoint(0.5, None, 3.0), TracePoint(1.0, 2.0, 2.5)), seconds=1.5)
    assert solution.plot(axes) is axes
    objective, bound = axes.get_lines()
    assert list(objective.get_xdata()) == list(bound.get_xdata()) == [0.5, 1.0, 1.5]
    np.testing.assert_array_equal(objective.get_ydata(), [np.nan, 2.0, 2.0])
    assert list(bound.get_ydata()) == [3.0, 2.5, 2.5]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("own: feasible", "seconds", "value")
    empty = by_hand(seconds=2.0).plot(Figure().subplots())
    assert list(empty.get_lines()) == []  # nothing is known, and nothing drawn
    once = replace(solution, trace=solution.trace[1:]).plot(Figure().subplots())
    assert list(once.get_lines()[0].get_xdata()) == [1.0, 1.5]
    late = replace(solution, seconds=0.0).plot(Figure().subplots())
    assert late.get_lines()[0].get_xdata()[-1] == 1.0  # a trace may end later than the time that was kept


def test_files_keep_numbers_and_arrays_apart(tmp_path):
    duals = {"price": 0.5, "each": np.array([1.0, 2.0])}
    solution = by_hand(duals=duals, details={"note": "said"}, trace=(TracePoint(0.5, 2.0, None),), seconds=1.0)
    found = Solution.load(solution.save(tmp_path / "solution.npz"))
    assert isinstance(found.duals["price"], float)
    assert found.duals["price"] == 0.5
    assert found.duals["each"].tolist() == [1.0, 2.0]
    assert (found.trace, dict(found.details), found.seconds) == (solution.trace, {"note": "said"}, 1.0)
    assert type(found.trace[0]) is TracePoint
    assert Solution.load(by_hand(x=None, objective=None).save(tmp_path / "none.npz")).x is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "solvers-solution/2"}, "its format is 'solvers-solution/2'"),
        ({"status": "good"}, "its status is 'good'; accepted is"),
        ({"seconds": "1"}, "its seconds is '1'; accepted is"),
        ({"objective": 99.0}, "its objective is 99.0, and its decision is worth"),
        ({"nodes": 1.5}, "its nodes is 1.5; accepted is"),
        ({"trace": [[0.0, "2", None]]}, "its trace must hold numbers"),
        ({"trace": [[0.0, 2.0]]}, "is not a solution file"),
        ({"bound": -1.0}, "is not a solution file .* reported the bound -1.0, but its own decision"),
    ],
)
def test_a_header_that_says_something_else(change, sentence, tmp_path):
    path = by_hand().save(tmp_path / "solution.npz")
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays.pop("header")))
    np.savez(path, header=np.array(json.dumps({**header, **change})), **arrays)
    with pytest.raises(InvalidProblem, match=sentence):
        Solution.load(path)


@pytest.mark.parametrize(("x", "sentence"), [([1, 1, 1], "its decision is not feasible"), ([1, 0], "x must have")])
def test_a_file_whose_decision_is_none_of_its_problem(x, sentence, tmp_path):
    path = by_hand().save(tmp_path / "solution.npz")
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **{**arrays, "x": np.array(x, dtype=np.int8)})
    with pytest.raises(InvalidProblem, match=sentence):
        Solution.load(path)


def test_a_bound_that_contradicts_is_laid_to_the_method_that_stated_it():
    problem = DispersionProblem(np.ones((6, 6)) - np.eye(6), size=3)
    found = solve(problem, "greedy")
    with pytest.raises(InvalidAnswer, match=r"method 'theirs' reported the bound 1\.0, but the one of 'greedy' has"):
        found.with_bound(1.0, bound_by="theirs")
