"""Names of clients, and problems as JSON text."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from solvers import InvalidProblem, Problem, Solution, load, solve
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.deadline import DeadlineProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem, QuadraticProblem
from solvers.participation import CutoffProblem
from solvers.problem import FAMILIES, digest
from solvers.schedule import DiverseScheduleProblem, ScheduleProblem
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from solvers.weighting.problem import AggregationProblem

for family in FAMILIES:
    importlib.import_module(f"solvers.{family}")

RNG = np.random.default_rng(5)
WHERE = RNG.random((6, 2))
H = np.linalg.norm(WHERE[:, None] - WHERE, axis=2)
NAMES = ["phone-1", "phone-2", "Köln", 17, "日本", "x y"]
SIDES = {
    "quotas": [Quota([0, 1], at_least=1, name="north")],
    "budgets": [Budget(RNG.random(6), 2.5)],
    "conflicts": [(2, 3)],
}

SELECTIONS: list[Problem] = [
    DispersionProblem(H, RNG.random(6), size=2, names=NAMES),
    DispersionProblem(H.astype(np.float32), size=3, clients=[1, 4, 6, 7, 9, 20], names=NAMES),
    DispersionProblem(H, size=2, names=NAMES, include=[0], **SIDES),
    PointDispersionProblem(WHERE, RNG.random(6), size=2, metric="euclidean", names=NAMES, **SIDES),
    KindDispersionProblem(H[:2, :2], [0, 1, 0, 1, 1, 1], size=2, names=NAMES),
    QuadraticProblem(RNG.normal(size=(6, 6)), size=2, sense="min", names=NAMES),
    CoverageProblem(RNG.normal(size=(4, 6)), size=2, names=NAMES, **SIDES),
    BalanceProblem(RNG.integers(1, 9, (6, 3)), size=2, names=NAMES),
    DeadlineProblem(RNG.random(6), RNG.random(6), 2.0, RNG.random(6), names=NAMES),
]  # fmt: skip

OTHERS: list[Problem] = [
    ScheduleProblem(RNG.random((3, 5)) < 0.7, size=2),
    DiverseScheduleProblem(RNG.random((3, 6)) < 0.7, size=2, distances=H, weight=0.1),
    ExclusionProblem(np.full(4, 0.25), RNG.random(4), 1.0, availability=RNG.random(4), correlation=np.zeros(4)),
    OptimizationErrorProblem([0.5, 1.0], [1.0, 1.0], 0.1, 1.0),
    TotalErrorProblem([0.5, 1.0], [1.0, 1.0], 0.1, 1.0, importance=[0.5, 0.5], bias="tv"),
    CappingProblem(log_weights=[1e4, 0.1, -1e4], size=1),
    AllocationProblem([6, 4, 5], [1.0, 0.0, 2.0], 6, upper=[5, 4, 1]),
    CutoffProblem([0.3, 0.6], 20),
]


def named(problem: Problem) -> str:
    return type(problem).__name__


def test_every_type_is_tried():
    package = {kind for kind in Problem.types() if kind.__module__.startswith("solvers.")}
    assert package - {AggregationProblem} == {type(problem) for problem in SELECTIONS + OTHERS}


@pytest.mark.parametrize("problem", SELECTIONS + OTHERS, ids=named)
def test_json_makes_the_same_problem_to_the_last_bit(problem, tmp_path):
    text = problem.to_json(indent=1)
    again = type(problem).from_json(text)
    assert digest(again) == digest(problem)
    assert getattr(again, "names", ()) == getattr(problem, "names", ())
    assert again.to_json(indent=1) == text
    assert digest(Problem.from_json(text.encode())) == digest(problem)
    (tmp_path / "problem.json").write_text(text, encoding="utf-8")
    assert digest(load(tmp_path / "problem.json")) == digest(problem)
    assert (solve(again).x == solve(problem).x).all()


@pytest.mark.parametrize("problem", SELECTIONS, ids=named)
def test_names_come_back_with_the_selection(problem, tmp_path):
    assert problem.names == tuple(NAMES)
    solution = solve(problem)
    assert solution.selected_names == tuple(NAMES[k] for k in np.flatnonzero(solution.x))
    assert len(solution.selected_names) == solution.selected.size
    assert json.loads(solution.to_json())["selected_names"] == list(solution.selected_names)
    problem.save(tmp_path / "problem.npz")
    assert load(tmp_path / "problem.npz").names == tuple(NAMES)
    assert Solution.load(solution.save(tmp_path / "solution.npz")).selected_names == solution.selected_names


@pytest.mark.parametrize("metric", ["euclidean", "hellinger", "manhattan"])
def test_the_matrix_of_points_has_their_names(metric):
    shares = WHERE / WHERE.sum(axis=1, keepdims=True)
    assert DispersionProblem.from_points(shares, size=2, metric=metric, names=NAMES).names == tuple(NAMES)


def test_a_folder_is_no_problem_file(tmp_path):
    with pytest.raises(InvalidProblem, match="is not a problem file"):
        load(tmp_path)


def test_names_change_neither_digest_nor_certificate():
    plain, called = (DispersionProblem(H, size=3, names=names) for names in ((), NAMES))
    assert digest(plain) == digest(called)
    first, second = (solve(problem, certificate=True) for problem in (plain, called))
    assert first.certificate.digest == second.certificate.digest
    assert (first.x == second.x).all()


def test_a_round_has_the_names_of_those_available():
    problem = DispersionProblem.fedgs(H, np.zeros(6), [1, 0, 1, 1, 0, 1], 2, 1.0, names=NAMES)
    assert problem.names == ("phone-1", "Köln", 17, "x y")


def test_labels_of_numpy_become_plain():
    problem = DispersionProblem(H, size=2, names=np.array(list("abcdef")))
    assert problem.names == tuple("abcdef")
    assert all(type(name) is str for name in problem.names)
    assert all(type(name) is int for name in DispersionProblem(H, size=2, names=np.arange(6)).names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "names must have one entry per client, 6; got 2"),
        (["a", "b", "a", "c", "d", "e"], "names must differ; 'a' is there twice"),
        ("abcdef", "names must be a sequence with a name for each client; got the text 'abcdef'"),
        ([1.5, *"abcde"], "names must be text or whole numbers; got 1.5"),
        ([None, *"abcde"], "names must be text or whole numbers; got None"),
        ([True, *"abcde"], "names must be text or whole numbers; got True"),
        (3, "names must be a sequence with a name for each client; got 3"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(InvalidProblem, match=message):
        DispersionProblem(H, size=2, names=names)


def test_without_names_there_are_none_to_ask_for():
    with pytest.raises(AttributeError, match=r"this DispersionProblem has no names; state it with names=\[...\]"):
        _ = solve(DispersionProblem(H, size=2)).selected_names


def broken(**changes: object) -> str:
    table = json.loads(DispersionProblem(H, size=2).to_json())
    table["arrays"]["costs"] |= changes
    return json.dumps(table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not JSON of a problem"),
        ("[1]", "it must be a table with arrays, as to_json writes it"),
        ('{"arrays": {}}', "has format None"),
        (broken().replace('"DispersionProblem"', '"SubsetProblem"'), "holds a SubsetProblem, which no imported module"),
        (broken(values=[1.0, 2.0]), "the array costs cannot be read: cannot reshape"),
        (broken(values=["one"] * 6), "the array costs must hold numbers; got 'one'"),
        (broken(values=[[1.0]] * 6), "the array costs must hold numbers; got \\[1.0\\]"),
        (broken(values=[1e300] * 6, dtype="<f4"), "the array costs has a number that float32 does not hold"),
        (broken(dtype="O"), "the array costs must hold numbers, not object"),
        (broken(dtype="what"), "the array costs cannot be read"),
        (broken(dtype=3), "the array costs: dtype must be"),
        (broken(shape=[-1]), "the shape of the array costs must not be negative"),
        (broken(shape="6"), "the array costs: shape must be"),
        (CutoffProblem([0.3], 5).to_json(), "the text holds a CutoffProblem; a DispersionProblem was asked for"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(InvalidProblem, match=message):
        DispersionProblem.from_json(text)
