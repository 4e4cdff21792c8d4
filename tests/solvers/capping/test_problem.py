"""The capping problem itself: what it accepts, evaluates, saves and bounds."""

import doctest
import importlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidProblem, load, solve
from solvers.capping import CappingProblem
from tests.thoroughly import tried

# The package exports functions under some of its modules' names, so the module is fetched by its path.
problem_module = importlib.import_module("solvers.capping.problem")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"size": 1}, "one of the two; got neither"),
        ({"weights": [1.0], "log_weights": [0.0], "size": 1}, "one of the two; got both"),
        ({"weights": [], "size": 1}, "at least one client"),
        ({"weights": [[1.0]], "size": 1}, "1 dimension"),
        ({"weights": [1.0, np.nan], "size": 1}, "finite; entry 1 is nan"),
        ({"weights": [1.0, 0.0], "size": 1}, "positive; client 1 has 0"),
        ({"weights": [1.0, -2.0], "size": 1}, "positive; client 1 has -2"),
        ({"log_weights": [0.0, np.inf], "size": 1}, "finite; entry 1 is inf"),
        ({"weights": ["a"], "size": 1}, "must be numbers"),
        ({"weights": [1.0, 2.0], "size": 0}, "between 1 and the number of clients, 2; got 0"),
        ({"weights": [1.0, 2.0], "size": 3}, "between 1 and the number of clients, 2; got 3"),
        ({"weights": [1.0, 2.0], "size": 1.5}, "size must be an integer; got 1.5"),
        ({"weights": [1.0, 2.0], "size": True}, "size must be an integer"),
        ({"weights": [1.0, 2.0], "size": 1, "floor": 0.51}, "between 0 and size / clients, 0.5; got 0.51"),
        ({"weights": [1.0, 2.0], "size": 1, "floor": -0.1}, "got -0.1"),
        ({"weights": [1.0, 2.0], "size": 1, "floor": np.nan}, "got nan"),
        ({"weights": [1.0, 2.0], "size": 1, "floor": "much"}, "floor must be finite and non-negative; got 'much'"),
    ],
)
def test_bad_input_is_a_sentence(arguments, sentence):
    with pytest.raises(InvalidProblem, match=sentence.replace("(", r"\(")):
        CappingProblem(**arguments)


def test_the_objective_is_the_generalised_divergence_from_the_shares():
    problem = CappingProblem(weights=[10.0, 1.0, 1.0, 1.0], size=2)
    v = 2 * np.array([10, 1, 1, 1]) / 13
    p = np.array([0.8, 0.4, 0.4, 0.4])
    assert problem.objective(p) == pytest.approx(np.sum(p * np.log(p / v) - p + v), rel=1e-14)
    assert problem.objective([1.0, 1.0, 0.0, 0.0]) == pytest.approx(np.log(13 / 20) + np.log(13 / 2), rel=1e-14)


def test_the_objective_does_not_change_with_the_scale_of_the_weights():
    logs = np.array([3.0, 1.0, 0.5, -1.0, 0.0])
    p = np.array([1.0, 0.7, 0.5, 0.5, 0.3])
    values = [CappingProblem(log_weights=logs + shift, size=3, floor=0.1).objective(p) for shift in (0, 1e3, -1e4)]
    np.testing.assert_allclose(values, values[0], rtol=1e-10)


def test_violation_names_the_worst_constraint():
    problem = CappingProblem(weights=[1.0, 1.0, 1.0, 1.0], size=2, floor=0.25)
    assert problem.violation([0.5] * 4) == 0
    assert problem.violation([1.1, 0.4, 0.25, 0.25]) == pytest.approx(0.1)
    assert problem.violation([0.5, 0.5, 0.85, 0.15]) == pytest.approx(0.1)
    assert problem.violation([0.5, 0.5, 0.5, 0.3]) == pytest.approx(0.1)  # 0.2 of 2
    with pytest.raises(ValueError, match="one probability per client, 4"):
        problem.objective([0.5])


def test_the_problem_is_immutable_and_survives_a_file(tmp_path):
    weights = np.array([5.0, 4, 1, 1, 1])
    problem = CappingProblem(weights=weights, size=3, floor=0.2)
    weights[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        problem.weights[0] = 1
    again = load(problem.save(tmp_path / "capping.npz"))
    assert isinstance(again, CappingProblem)
    assert (again.size, again.floor, again.log_weights) == (3, 0.2, None)
    np.testing.assert_array_equal(solve(again).x, solve(problem).x)
    logs = CappingProblem(log_weights=[1e4, -1e4, 0.0], size=2)
    np.testing.assert_array_equal(CappingProblem.load(logs.save(tmp_path / "logs.npz")).log_weights, [1e4, -1e4, 0])


@tried(
    40,
    200,
    logs=st.lists(st.floats(-20, 20), min_size=2, max_size=12),
    size=st.integers(1, 12),
    quota=st.floats(0, 1),
    multiplier=st.floats(-30, 30),
)
def test_every_multiplier_gives_a_valid_bound(logs, size, quota, multiplier):
    size = min(size, len(logs))
    problem = CappingProblem(log_weights=logs, size=size, floor=quota * size / len(logs))
    best = solve(problem)
    assert problem.dual_bound(multiplier) <= best.objective + 1e-15


def test_importing_the_family_loads_no_backend():
    code = (
        "import sys, solvers.capping, solvers.allocation; "
        "print([m for m in ('cvxpy', 'ortools', 'sklearn', 'scipy', 'torch', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_docstring_example_holds():
    assert doctest.testmod(problem_module) == (0, 4)
