"""Theorem 2's constants, by hand."""

import math

import pytest

from solvers import InvalidProblem, solve
from solvers.weighting import convergence_constants


def arguments(**changes):
    """Two rounds of steps 1/2 and 1/4 after η₀ = 1: Σηₜ = 3/4, Σηₜ² = 5/16."""
    values = {
        "smoothness": 4.0,
        "strong_convexity": 2.0,
        "deviations": [1.0, 2.0],
        "step_sizes": [1.0, 0.5, 0.25],
        "local_steps": 3,
        "total": 2.0,
        "gradient_bound": 5.0,
        "gradient_moment": 6.0,
        "loss_range": 1.5,
        "heterogeneity": 0.5,
        "distance": 3.0,
        "states": 4,
        "correlation": math.exp(-1.0),
    }
    return values | changes


def test_by_hand():
    """J₁ = min(⌈ln 3⌉, 1) = 1 and J₂ = ⌈ln 6⌉ = 2, so that φ sees η₀ twice; ln(1/λ) = 1."""
    printed = convergence_constants(**arguments(), convention="paper")
    assert printed.variances == pytest.approx([5 / 16, 20 / 16])
    assert printed.offset == pytest.approx(2 / 3 * 9 + 0.25 * 4 * 2 * (5 / 16 + 1.25))
    assert printed.psi == pytest.approx((4 * 4 * (3 * 2 + 2) * 0.5 + 2 / 3 * 2 * 5 * 36) * 5 / 16)
    assert printed.phi == pytest.approx(2 * 3 * 5 * 6 * 2 * (math.log(3) + math.log(6)))
    assert printed.constant == pytest.approx(printed.psi + printed.phi)
    assert printed.factor == pytest.approx(2 * 4 / 0.75)
    proof = convergence_constants(**arguments())
    assert proof.variances == pytest.approx(4 * printed.variances)
    assert proof.psi == pytest.approx((2 * 4 * (3 * 2 + 2) * 0.5 + 2 / 3 * 2 * 5 * 36) * 5 / 16)
    assert (proof.offset, proof.phi) == (printed.offset, printed.phi)


def test_problems_carry_equations_13_and_14():
    """Value times factor is 2κ²U + 2κ⁴Γχ² (Eq. 13) and 2κ²U + 8κ⁴Γ'TV² (Eq. 14), with κ = 2."""
    constants = convergence_constants(**arguments())
    pi, alpha, q = [0.2, 0.8], [0.6, 0.4], [1.5, 0.5]
    p = [0.3 / 0.7, 0.4 / 0.7]
    error = constants.optimization_error(pi)
    spread = 0.5 * sum(v * s * w * w for v, s, w in zip(constants.variances, pi, q, strict=True))
    assert error.objective(q) == pytest.approx((spread + constants.offset) / 0.7 + constants.constant)
    chi2 = sum((a - b) ** 2 / b for a, b in zip(alpha, p, strict=True))
    for bias, term in (("chi2", 2 * 16 * 0.5 * chi2), ("tv", 8 * 16 * 0.5 * (alpha[0] - p[0]) ** 2)):
        total = constants.total_error(pi, alpha, 0.5, bias)
        assert constants.factor * total.objective(q) == pytest.approx(constants.factor * error.objective(q) + term)
    assert solve(error).status == "optimal"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"strong_convexity": 5.0}, "must not exceed smoothness 4; got 5"),
        ({"correlation": 1.0}, "correlation must be finite and positive and below 1; got 1"),
        ({"local_steps": 0}, "integer of at least 1; got 0"),
        ({"local_steps": 10**400}, r"local_steps must be at most 10\^15"),
        ({"step_sizes": [0.1]}, "with T ≥ 1"),
        ({"deviations": [0.0]}, "deviations must be positive"),
        ({"total": 0.0}, "total must be finite and positive"),
        ({"distance": -1.0}, "distance must be finite and non-negative"),
        ({"convention": "lemma"}, "'proof' or 'paper'"),
        ({"distance": 1e200}, "the constants of these quantities overflow"),
        ({"gradient_moment": 10**200}, "the constants of these quantities overflow"),
    ],
)
def test_bad_data_is_a_sentence(changes, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        convergence_constants(**arguments(**changes))
