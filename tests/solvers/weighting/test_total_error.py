"""The total-error problem (Eqs. 13-14), guideline B, and the paper's convexity claim."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

import solvers
from solvers import InvalidProblem, solve
from solvers.weighting import OptimizationErrorProblem, TotalErrorProblem
from tests.thoroughly import tried


def instance(rng, n, bias, weight=None):
    return TotalErrorProblem(
        rng.uniform(0.05, 1, n),
        rng.uniform(0.1, 3, n),
        float(rng.choice([0.01, 1.0, 30.0])),
        float(rng.choice([1.0, 20.0])),
        rng.dirichlet(np.full(n, 3.0)),
        bias,
        float(rng.choice([0.1, 1.0, 100.0])) if weight is None else weight,
    )


def chi2(pi, q):
    n = len(pi)
    p = pi * q / (pi @ q)
    return float(((1 / n - p) ** 2 / p).sum())


def test_chi2_is_not_convex_in_q():
    """Counter-example to Appendix E: the middle of two weightings is worse than the mean of both."""
    pi = np.array([0.1004, 0.8442, 0.0977])
    a, b = (np.array(q) / sum(q) for q in ([0.0694, 0.1017, 0.8289], [0.0919, 0.3572, 0.551]))
    assert chi2(pi, a) == pytest.approx(2.235, abs=2e-3)
    assert chi2(pi, b) == pytest.approx(4.278, abs=2e-3)
    assert chi2(pi, (a + b) / 2) == pytest.approx(3.292, abs=2e-3)
    assert chi2(pi, (a + b) / 2) > 0.5 * (chi2(pi, a) + chi2(pi, b)) + 0.03
    # The problem's own bias term is the same function.
    problem = TotalErrorProblem(pi, np.ones(3), 0.0, 1.0, np.full(3, 1 / 3), "chi2", 1.0)
    assert problem.bias_term(problem.biased_importance(a)) == pytest.approx(chi2(pi, a), rel=1e-12)


@tried(40, 300, st.integers(0, 10**6), st.sampled_from(["chi2", "tv"]), st.integers(2, 6))
def test_convex_in_the_biased_importance(seed, bias, n):
    rng = np.random.default_rng(seed)
    problem = instance(rng, n, bias)
    p, r = rng.dirichlet(np.ones(n), 2)
    value = [problem.objective(problem.from_importance(x)) for x in (p, (p + r) / 2, r)]
    assert value[1] <= 0.5 * (value[0] + value[2]) * (1 + 1e-12)


@pytest.mark.parametrize("bias", ["chi2", "tv"])
def test_best_of_random_weights_and_bound(bias):
    """No weights do better, and the bound of any weights is below every value."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(1, 7))
        problem = instance(rng, n, bias)
        solution = solve(problem)
        assert solution.gap < 1e-6
        near = [problem.biased_importance(solution.x) * np.exp(0.05 * rng.normal(size=n)) for _ in range(20)]
        points = [problem.from_importance(p) for p in [*near, *rng.dirichlet(np.ones(n), 20)]]
        values = [problem.objective(q) for q in points]
        assert solution.objective <= min(values) * (1 + 1e-9)
        assert max(problem.lower_bound(q) for q in points) <= solution.objective


def test_newton_is_cvxpy():
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 10, 60):
        for _ in range(3):
            problem = instance(rng, n, "chi2")
            fast, slow = solve(problem, "newton"), solve(problem, "cvxpy")
            assert fast.status == "optimal"
            assert fast.gap < 1e-9
            assert slow.objective == pytest.approx(fast.objective, rel=1e-6)
            assert slow.bound <= fast.objective
            assert (fast.x > 0).all()


def test_newton_converges_quadratically():
    """Twenty steps are enough, which a wrong Hessian would not allow."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        assert solve(instance(rng, 20, "chi2"), "newton", steps=20).gap < 1e-10


def test_newton_over_eight_orders_of_magnitude():
    """Importance, variances, offset and weight far apart: always proved."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        n = int(rng.integers(1, 8))
        problem = TotalErrorProblem(
            10.0 ** rng.uniform(-3, 0, n),
            10.0 ** rng.uniform(-3, 3, n),
            float(10.0 ** rng.uniform(-4, 4)),
            float(10.0 ** rng.uniform(-1, 2)),
            rng.dirichlet(np.full(n, 0.5)) * (1 - 1e-6 * n) + 1e-6,
            "chi2",
            float(10.0 ** rng.uniform(-4, 4)),
        )
        assert solve(problem, "newton").status == "optimal"


def test_total_variation_is_certified_on_its_face():
    """The interior point alone leaves gaps near 1e-6; sharpened on its face the bound closes to rounding."""
    rng = np.random.default_rng(7)
    for n in (3, 24, 200):
        for _ in range(4):
            problem = instance(rng, n, "tv")
            assert solve(problem).gap < 1e-8
            assert solve(problem.restricted(np.arange(n) > 0)).gap < 1e-8


def test_the_two_ends_of_the_weight():
    """Without bias it is the optimisation error; with a crushing bias the weights are the unbiased ones."""
    rng = np.random.default_rng(2)
    for bias in ("chi2", "tv"):
        free = instance(rng, 12, bias, weight=0.0)
        plain = OptimizationErrorProblem(free.availability, free.variances, free.offset, free.total)
        assert solve(free).objective == pytest.approx(solve(plain).objective, rel=1e-7)
        heavy = instance(rng, 12, bias, weight=1e9)
        assert solve(heavy).x == pytest.approx(heavy.unbiased(), rel=1e-3)


def test_total_variation_keeps_exact_zeros_out_of_chi2():
    """At a large offset rare clients lose their weight under TV; χ² is infinite there and says so."""
    problem = TotalErrorProblem([0.05, 0.9, 0.9], np.ones(3), 50.0, 1.0, [0.2, 0.4, 0.4], "tv", 0.01)
    assert solve(problem).x[0] < 1e-6
    other = TotalErrorProblem([0.05, 0.9, 0.9], np.ones(3), 50.0, 1.0, [0.2, 0.4, 0.4], "chi2", 0.01)
    assert other.objective([0.0, 0.5, 0.5]) == math.inf
    assert solve(other).x[0] > 0


def test_restricted_counts_the_excluded_in_full():
    problem = TotalErrorProblem([0.2, 0.5, 0.9], np.ones(3), 1.0, 1.0, [0.2, 0.3, 0.5], "tv", 2.0)
    part = problem.restricted([1, 0, 1])
    assert part.excluded == pytest.approx(0.3)
    assert part.objective([0.4, 0.6]) == pytest.approx(problem.objective([0.4, 0.0, 0.6]), rel=1e-14)


def test_file(tmp_path):
    problem = instance(np.random.default_rng(5), 5, "tv").restricted([1, 1, 0, 1, 1])
    copy = solvers.load(problem.save(tmp_path / "q.npz"))
    assert copy.excluded == problem.excluded
    assert copy.objective(problem.unbiased()) == problem.objective(problem.unbiased())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"importance": [0.5, 0.6]}, r"must sum to 1; they sum to 1\.1"),
        ({"importance": [0.0, 1.0]}, "importance must be positive; client 0 has 0 .bias='chi2'"),
        ({"importance": [-0.5, 1.5], "bias": "tv"}, "importance must be non-negative; client 0 has -0.5 .bias='tv'"),
        ({"bias": "kl"}, "bias must be 'chi2' or 'tv'; got 'kl'"),
        ({"bias_weight": -1.0}, "bias_weight must be finite and non-negative"),
        ({"excluded": 0.1, "importance": [0.4, 0.5]}, "excluded must be 0 for bias='chi2'"),
    ],
)
def test_bad_data_is_a_sentence(changes, sentence):
    values = {"importance": [0.5, 0.5], "bias": "chi2", "bias_weight": 1.0} | changes
    with pytest.raises(InvalidProblem, match=sentence):
        TotalErrorProblem([0.5, 0.5], [1.0, 1.0], 1.0, 1.0, **values)


def test_refusals():
    tv = TotalErrorProblem([0.5, 0.5], [1.0, 1.0], 1.0, 1.0, [0.5, 0.5], "tv", 1.0)
    with pytest.raises(InvalidProblem, match="newton needs bias='chi2'"):
        solve(tv, "newton")
    with pytest.raises(InvalidProblem, match="mask of 2 booleans"):
        tv.restricted([0, 0])
    with pytest.raises(InvalidProblem, match="kept must be numbers: its rows differ in length"):
        tv.restricted([[1], [1, 0]])


@pytest.mark.parametrize(("bias", "method"), [("chi2", "newton"), ("chi2", "cvxpy"), ("tv", "cvxpy")])
def test_multipliers_prove_the_optimum_and_nothing_else(bias, method):
    """The problem is convex in p, so that vanishing residuals are a proof; the unbiased weights have none."""
    rng = np.random.default_rng(5)
    for weight in (0.01, 0.3, 5.0):
        problem = instance(rng, 7, bias, weight)
        solution = solve(problem, method)
        names = {"stationarity", "complementarity", "bias_slope"}
        assert set(solution.duals) == {"theta", "mu", "slope"}
        worst = max(solution.residuals()[name] for name in names)
        assert worst < (1e-9 if method == "newton" else 1e-3)
        away = problem.unbiased()
        assert problem.objective(away) > solution.objective * (1 + 1e-6)
        assert max(problem.kkt_residuals(away, **problem.multipliers(away)).values()) > 10 * worst


def test_the_multiplier_of_the_sum_by_hand():
    """Two clients alike but for nothing: p = α = 1/2, where d has slope 1 and χ² slope -w."""
    problem = TotalErrorProblem([0.5, 0.5], [1.0, 1.0], 0.75, 1.0, [0.5, 0.5], "chi2", 0.25)
    duals = solve(problem).duals
    # q = 1/2: slopes v q + (B/Q - energy)/π = 0.5 + (0.75 - 0.125) / 0.5 = 1.75, and t = -0.25.
    assert duals["theta"] == pytest.approx(1.5)
    np.testing.assert_allclose(duals["slope"], -0.25)
    np.testing.assert_allclose(duals["mu"], 0.0, atol=1e-12)
