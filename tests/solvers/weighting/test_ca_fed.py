"""Method ``ca-fed`` against Algorithm 1 transcribed line by line."""

from fractions import Fraction

import numpy as np
import pytest

from solvers import InvalidOption, solve
from solvers.weighting import ExclusionProblem


def algorithm_1(problem: ExclusionProblem, absolute: bool = False) -> np.ndarray:
    """Lines 5-7 and 13-22 of Algorithm 1 on q itself, with the authors' last-client guard."""

    def estimate(q):
        p = problem.availability * q / (problem.availability @ q)
        return problem.loss_gaps @ p + (0.5 * np.abs(problem.importance - p).sum()) ** 2 * problem.gamma

    def get(q, rho):
        current = estimate(q)
        for k in sorted(range(problem.n), key=lambda k: -rho[k]):
            trial = q.copy()
            trial[k] = 0.0
            if not trial.any():
                break
            lower = estimate(trial)
            if current - lower >= problem.threshold:
                q, current = trial, lower
        return q

    q = problem.importance / problem.availability
    q = get(q, np.abs(problem.correlation) if absolute else problem.correlation)
    return get(q, -problem.availability) > 0


def random_instance(rng, n, threshold=0.0):
    gaps = rng.gamma(1.0, 1.0, n)
    return ExclusionProblem(
        rng.dirichlet(np.full(n, 2.0)),
        gaps,
        float(gaps.max() * rng.choice([1.0, 0.3, 0.05])),
        rng.choice([0.1, 0.9], n) if rng.random() < 0.5 else rng.uniform(0.05, 1.0, n),
        rng.choice([0.9, -0.1, 0.0], n) if rng.random() < 0.5 else rng.uniform(-0.5, 0.99, n),
        threshold,
    )


@pytest.mark.parametrize("order", ["signed", "absolute"])
def test_is_algorithm_1(order):
    """500 instances of 24 clients, half of them with tied keys, with and without a threshold."""
    rng = np.random.default_rng(1)
    different = 0
    for i in range(500):
        problem = random_instance(rng, 24, threshold=0.0 if i % 2 else 0.02)
        x = solve(problem, "ca-fed", order=order).x
        np.testing.assert_array_equal(x, algorithm_1(problem, order == "absolute"))
        different += not np.array_equal(x, solve(problem, "ca-fed", order="signed").x)
    assert (different > 0) == (order == "absolute")


def test_by_hand():
    """The most correlated client goes first; what remains is then better left alone.

    α = 1/4 each, gaps (0, 0, 4, 4), Γ' = 4. All: ε = 2. Without client 3: 4/3 + 1/4 = 1.583. Without both: 0 + 1 = 1.
    Without a zero-gap client as well: 0 + 9/4.
    """
    problem = ExclusionProblem([0.25] * 4, [0, 0, 4, 4], None, [0.5] * 4, [0.0, 0.1, 0.2, 0.9])
    solution = solve(problem, "ca-fed")
    assert solution.selected.tolist() == [0, 1]
    assert solution.objective == 1.0
    for threshold, kept in ((0.4, [0, 1]), (0.42, [0, 1, 2, 3])):  # the first step lowers ε by 5/12, the second by 7/12
        careful = ExclusionProblem([0.25] * 4, [0, 0, 4, 4], None, [0.5] * 4, [0.0, 0.1, 0.2, 0.9], threshold)
        assert solve(careful, "ca-fed").selected.tolist() == kept


def test_last_client_is_protected_and_ties_are_an_option():
    """All gaps zero: every exclusion changes nothing, Algorithm 1 makes it, and the guard keeps one client."""
    problem = ExclusionProblem([0.25] * 4, [0.0] * 4, None, [0.9, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
    assert solve(problem, "ca-fed").selected.tolist() == [0]
    assert solve(problem, "ca-fed", ties="keep").selected.tolist() == [0, 1, 2, 3]
    assert solve(ExclusionProblem([1.0], [3.0], None, [0.2], [0.9]), "ca-fed").selected.tolist() == [0]


def test_importance_over_many_magnitudes():
    """Running sums would lose the small clients once the large ones are gone: against Algorithm 1 in rationals."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        importance = np.sort(10.0 ** rng.uniform(-16, 0, 7))[::-1]
        importance /= importance.sum()
        gaps = np.sort(1.0 + rng.random(7))[::-1]  # so that the most important, examined first, tend to go
        problem = ExclusionProblem(importance, gaps, 1e-3, np.full(7, 0.5), np.linspace(0.9, 0.3, 7))
        alpha, e = ([Fraction(float(v)) for v in array] for array in (problem.importance, problem.loss_gaps))

        def estimate(kept, alpha=alpha, e=e):
            mass = sum(alpha[k] for k in kept)
            return sum(alpha[k] * e[k] for k in kept) / mass + (sum(alpha) - mass) ** 2 * Fraction(1e-3)

        kept = list(range(7))
        for k in [*range(7), *range(7)]:
            rest = [j for j in kept if j != k]
            if k in kept and rest and estimate(kept) - estimate(rest) >= 0:
                kept = rest
        assert solve(problem, "ca-fed").selected.tolist() == kept


@pytest.mark.parametrize("option", [{"order": "random"}, {"ties": "maybe"}])
def test_unknown_options(option):
    problem = ExclusionProblem([1.0], [1.0], None, [0.5], [0.0])
    with pytest.raises(InvalidOption, match="must be '"):
        solve(problem, "ca-fed", **option)
