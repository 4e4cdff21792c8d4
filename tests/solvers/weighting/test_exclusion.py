"""The exclusion problem: its data, its objective, its file."""

import numpy as np
import pytest

import solvers
from solvers import InvalidProblem, methods, solve
from solvers.weighting import ExclusionProblem


def literal_estimate(problem: ExclusionProblem, q: np.ndarray) -> float:
    """Eq. 19 as printed, from aggregation weights q."""
    p = problem.availability * q / (problem.availability @ q)
    variation = 0.5 * np.abs(problem.importance - p).sum()
    return float(problem.loss_gaps @ p + variation**2 * problem.gamma)


def data(**changes):
    values = {
        "importance": [0.5, 0.3, 0.2],
        "loss_gaps": [1.0, 2.0, 4.0],
        "heterogeneity": None,
        "availability": [0.9, 0.5, 0.1],
        "correlation": [0.0, 0.9, -0.1],
    }
    return values | changes


def test_objective_by_hand():
    """Keeping the first two: mean gap (0.5·1 + 0.3·2)/0.8, excluded 0.2, Γ' = 4."""
    problem = ExclusionProblem(**data())
    assert problem.gamma == 4.0
    assert problem.objective([1, 1, 0]) == pytest.approx(1.1 / 0.8 + 0.04 * 4.0, abs=1e-15)
    assert problem.objective([True, True, True]) == pytest.approx(0.5 + 0.6 + 0.8, abs=1e-15)
    assert problem.objective([0, 0, 0]) == np.inf
    assert problem.violation([0, 0, 0]) == 1.0
    assert problem.violation([0, 0, 1]) == 0.0
    assert problem.selected([1, 0, 1]).tolist() == [0, 2]
    np.testing.assert_allclose(problem.weights([1, 0, 1]), [0.5 / 0.9, 0.0, 2.0])


def test_objective_is_equation_19():
    """The closed form (availability cancels) equals the printed estimate from q, on every set of random instances."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 7))
        problem = ExclusionProblem(
            rng.dirichlet(np.ones(n)), rng.normal(1, 1, n), 2.0, rng.uniform(0.05, 1, n), rng.uniform(-1, 1, n)
        )
        for subset in range(1, 1 << n):
            x = np.array([subset >> k & 1 for k in range(n)])
            assert problem.objective(x) == pytest.approx(literal_estimate(problem, problem.weights(x)), abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"importance": []}, "importance is empty"),
        ({"importance": [0.5, 0.5, 0.5]}, r"must sum to 1; it sums to 1\.5"),
        ({"importance": [0.5, 0.5, 0.0]}, "client 2 has 0"),
        ({"importance": [0.5, np.nan, 0.5]}, "entry 1 is nan"),
        ({"loss_gaps": [1.0, 2.0]}, "one entry per client, 3; got 2"),
        ({"loss_gaps": [1.0, np.inf, 0.0]}, "loss_gaps must be finite"),
        ({"availability": [0.0, 0.5, 0.1]}, r"must be positive and at most 1; client 0 has 0"),
        ({"availability": [0.1, 0.5, 1.1]}, "client 2 has 1.1"),
        ({"correlation": [0.0, 1.5, 0.0]}, r"must be at least -1 and at most 1; client 1 has 1.5"),
        ({"heterogeneity": -1.0}, "heterogeneity must be finite and non-negative; got -1"),
        ({"heterogeneity": "much"}, "heterogeneity must be finite and non-negative; got 'much'"),
        ({"loss_gaps": [-1.0, -2.0, -3.0]}, "state heterogeneity yourself"),
        ({"threshold": -0.1}, "threshold must be finite and non-negative"),
    ],
)
def test_bad_data_is_a_sentence(changes, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        ExclusionProblem(**data(**changes))


def test_bad_decisions():
    problem = ExclusionProblem(**data())
    with pytest.raises(ValueError, match="one entry per client, 3"):
        problem.objective([1, 0])
    with pytest.raises(ValueError, match="booleans or 0 and 1"):
        problem.objective([0.5, 1, 0])


def test_file_holds_the_same_problem(tmp_path):
    problem = ExclusionProblem(**data(threshold=0.25))
    copy = solvers.load(problem.save(tmp_path / "exclusion.npz"))
    assert isinstance(copy, ExclusionProblem)
    assert copy.heterogeneity == 4.0
    assert copy.threshold == 0.25
    np.testing.assert_array_equal(copy.importance, problem.importance)
    assert solve(copy).objective == solve(problem).objective


def test_methods_are_listed_exact_first():
    assert [(m.name, m.kind) for m in methods(ExclusionProblem)] == [
        ("auto", "exact"),
        ("brute-force", "exact"),
        ("cp-sat", "exact"),
        ("sorting", "exact"),
        ("convex", "relaxation"),
        ("ca-fed", "heuristic"),
    ]
