"""The optimisation-error problem (Eqs. 27-29): closed form, CVXPY in two forms, and the KKT conditions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

import solvers
from solvers import InvalidOption, InvalidProblem, solve
from solvers.weighting import OptimizationErrorProblem, TotalErrorProblem
from tests.thoroughly import tried


def instance(rng, n):
    return OptimizationErrorProblem(
        rng.uniform(0.02, 1, n),
        rng.uniform(0.1, 3, n),
        float(rng.choice([0.0, 0.01, 1.0, 30.0])),
        float(rng.choice([0.5, 1.0, 20.0])),
        constant=float(rng.choice([0.0, 2.5])),
    )


def test_by_hand():
    """Two clients, v = 1, Q = 1, π = (1, ½), q = (1 − z, z).

    The ratio is (½ − z + ¾z² + B) / (1 − z/2); its derivative vanishes where z² − 4z + 2 = 4B/3, so that
    z = 2 − √(2 + 4B/3): ½ at B = 3/16, and 0 from B = 3/2 on.
    """
    for offset, z in ((0.0, 2 - np.sqrt(2)), (3 / 16, 0.5), (1.5, 0.0), (4.0, 0.0)):
        problem = OptimizationErrorProblem([1.0, 0.5], [1.0, 1.0], offset, 1.0)
        assert solve(problem, "dinkelbach").x == pytest.approx([1 - z, z], abs=1e-12)
    problem = OptimizationErrorProblem([1.0, 0.5], [1.0, 1.0], 1 / 16, 1.0)
    assert problem.objective([0.5, 0.5]) == pytest.approx((0.5 * (0.25 + 0.125) + 1 / 16) / 0.75)


def test_guideline_a_needs_a_large_offset():
    """θ's sign decides: at a large B rare clients get nothing, at a small one they get the *larger* weights."""
    availability = np.array([0.1] * 4 + [0.9] * 4)
    rare = solve(OptimizationErrorProblem(availability, np.ones(8), 5.0, 1.0))
    assert rare.duals["theta"] > 0
    assert (rare.x[:4] == 0).all()
    assert rare.x[4:] == pytest.approx(0.25)
    common = solve(OptimizationErrorProblem(availability, np.ones(8), 0.001, 1.0))
    assert common.duals["theta"] < 0
    assert (common.x > 0).all()
    assert common.x[0] > 2 * common.x[4]


def test_three_way_agreement():
    """Water-filling, CVXPY in q, and CVXPY in the paper's (y, s): one optimum."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 24, 100):
        for _ in range(4):
            problem = instance(rng, n)
            fast = solve(problem, "dinkelbach")
            assert fast.status == "optimal"
            assert fast.gap < 1e-10
            for form in ("perspective", "q"):
                slow = solve(problem, "cvxpy", form=form)
                assert slow.objective == pytest.approx(fast.objective, rel=1e-8)
                assert slow.objective >= fast.bound
                assert slow.bound <= fast.objective


def test_bound_holds_in_exact_arithmetic():
    """Availability down to 1e-8 and offsets over 16 orders of magnitude: against the value of the answer's weights."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        n = int(rng.integers(1, 6))
        pi, v = 10.0 ** rng.uniform(-8, 0, n), 10.0 ** rng.uniform(-6, 6, n)
        problem = OptimizationErrorProblem(pi, v, float(10.0 ** rng.uniform(-8, 8)), float(10.0 ** rng.uniform(-3, 3)))
        solution = solve(problem)
        q = [Fraction(float(w)) for w in solution.x]
        q = [w * Fraction(problem.total) / sum(q) for w in q]
        reach = sum(Fraction(float(a)) * w for a, w in zip(pi, q, strict=True))
        energy = sum(Fraction(float(a)) * Fraction(float(b)) * w * w for a, b, w in zip(pi, v, q, strict=True))
        assert Fraction(solution.bound) <= (energy / 2 + Fraction(problem.offset)) / reach


def test_kkt_residuals_and_the_two_identities():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        problem = instance(rng, int(rng.integers(1, 30)))
        solution = solve(problem, "dinkelbach")
        residuals = solution.residuals()
        assert set(residuals) >= {"stationarity", "ratio_identity", "theta_identity", "complementarity"}
        assert max(residuals.values()) < 1e-11
        assert solution.duals["ratio"] == pytest.approx(solution.objective - problem.constant, rel=1e-12)
    slow = solve(problem, "cvxpy").residuals()
    assert max(slow.values()) < 1e-4


def test_residuals_can_fail():
    """Other weights, or other multipliers, are told apart from the optimum."""
    problem = OptimizationErrorProblem([0.2, 0.9], [1.0, 1.0], 1.0, 1.0)
    solution = solve(problem)
    wrong = problem.kkt_residuals([0.5, 0.5], **solution.duals)
    assert wrong["stationarity"] > 1e-2
    assert wrong["ratio_identity"] > 1e-2
    duals = dict(solution.duals) | {"theta": 0.0}
    assert problem.kkt_residuals(solution.x, **duals)["theta_identity"] > 1e-2


@tried(40, 300, st.data())
def test_any_weights_give_a_bound_below_any_weights(data):
    n = data.draw(st.integers(1, 6))

    def vector(low, high):
        return np.array(data.draw(st.lists(st.floats(low, high), min_size=n, max_size=n)))

    total = data.draw(st.floats(0.01, 100))
    problem = OptimizationErrorProblem(vector(1e-3, 1), vector(1e-3, 1e3), data.draw(st.floats(0, 1e3)), total)
    first, second = (w / w.sum() * total for w in (vector(1e-6, 1), vector(1e-6, 1)))
    assert problem.lower_bound(first) <= problem.objective(second)
    solution = solve(problem)
    assert solution.objective <= problem.objective(first) * (1 + 1e-12)
    assert solution.status == "optimal"


def test_time_limit_returns_a_point():
    problem = instance(np.random.default_rng(2), 50)
    for method in ("cvxpy", "dinkelbach"):
        solution = solve(problem, method, time_limit=1e-6)
        assert solution.x is not None
        assert solution.bound <= solution.objective


def test_file(tmp_path):
    problem = instance(np.random.default_rng(3), 5)
    copy = solvers.load(problem.save(tmp_path / "q.npz"))
    assert solve(copy).objective == solve(problem).objective


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], [], 1.0, 1.0), "at least one client"),
        (([0.5, 0.0], [1, 1], 1.0, 1.0), r"availability must be positive and at most 1; client 1 has 0"),
        (([0.5, 0.5], [1, 0], 1.0, 1.0), "variances must be positive; client 1 has 0"),
        (([0.5, 0.5], [1], 1.0, 1.0), "variances must have one entry per client, 2; got 1"),
        (([0.5], [1], -1.0, 1.0), "offset must be finite and non-negative; got -1"),
        (([0.5], [1], 1.0, 0.0), "total must be finite and positive; got 0"),
        (([0.5], [np.nan], 1.0, 1.0), "variances must be finite"),
        (([0.5], [1], 1.0, 1.0, np.inf), "constant must be finite; got inf"),
        (([1e-300], [1e100], 1.0, 1.0), "overflow"),
    ],
)
def test_bad_data_is_a_sentence(arguments, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        OptimizationErrorProblem(*arguments)


def test_weights_of_nobody_are_worth_nothing():
    """Where πᵀq is 0, what q is worth is infinite, not an error; with a bias term beside it, too."""
    problem = OptimizationErrorProblem([0.5, 1.0], 1.0, 0.3, 1.0)
    assert problem.objective([0.0, 0.0]) == np.inf
    assert problem.violation([0.0, 0.0]) == 1.0
    for bias in ("chi2", "tv"):
        assert TotalErrorProblem([0.5, 1.0], 1.0, 0.3, 1.0, [0.5, 0.5], bias).objective([0.0, 0.0]) == np.inf


def test_bad_option_and_decision():
    problem = OptimizationErrorProblem([0.5], [1.0], 1.0, 1.0)
    with pytest.raises(InvalidOption, match="'perspective' or 'q'"):
        solve(problem, "cvxpy", form="y")
    with pytest.raises(ValueError, match="one weight per client, 1"):
        problem.objective([0.5, 0.5])
    assert problem.violation([0.5]) == 0.5
    assert problem.violation([-1.0]) == 2.0
