"""Certificates of dispersion between points: true beside every selection, tight for many, refused when changed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from types import SimpleNamespace

import numpy as np
import pytest

from solvers import solve
from solvers.certificates import Certificate, CertificateError, check, check_certificate, problem_digest
from solvers.certificates.schema import POINT
from solvers.dispersion import PointDispersionProblem
from tests.solvers.certificates.test_soundness import as_read, refused


def random_problem(rng):
    n = int(rng.integers(3, 10))
    costs = rng.normal(size=n) * int(rng.integers(0, 2))
    return PointDispersionProblem(
        rng.normal(size=(n, int(rng.integers(1, 4)))), costs, size=int(rng.integers(1, n + 1)), weight=0.7
    )


def best_value(problem):
    chosen = itertools.combinations(range(problem.n), problem.size)
    return max(problem.objective(np.isin(np.arange(problem.n), each).astype(int)) for each in chosen)


def test_no_selection_is_better_whatever_point_is_written():
    """The tangent at any point bounds; a certificate is accepted for no less than the optimum."""
    rng = np.random.default_rng(0)
    accepted = refused = 0
    for _ in range(25):
        problem = random_problem(rng)
        best, found = best_value(problem), solve(problem, certificate=True).certificate
        assert check(problem, found) >= best - 1e-12 * problem.scale
        for trial in range(40):
            arrays = {name: array.copy() for name, array in found.arrays.items()}
            shares, step = arrays["shares"], int(rng.integers(-(2**19), 2**19))
            if trial % 2 and shares.size > 1:  # another point of the slice, where it stays within 0 and 1
                shares[0], shares[1] = shares[0] - step, shares[1] + step
            else:
                name = ("shares", "clients")[trial // 2 % 2]
                arrays[name][int(rng.integers(arrays[name].size))] += int(rng.choice([1, -1, step]))
            claim = rng.choice([1e300, found.bound, best - 1e-6 * problem.scale])
            try:
                verified = check(problem, replace(found, arrays=arrays, bound=float(claim)))
            except CertificateError:
                refused += 1
            else:
                accepted += 1
                assert verified >= best - 1e-12 * problem.scale
    assert accepted > 50
    assert refused > 200


def exactly(problem, arrays):
    """The tangent's bound in fractions, which the one file computes for both checkers."""
    given = SimpleNamespace(**{name: array.tolist() for name, array in arrays.items()}, price=[])
    return check_certificate.check_points(as_read(problem), Fraction(1), given)


def test_the_tangent_in_exact_numbers():
    """Where roots are whole the bound is a fraction of small numbers; where they are not it lies above by little."""
    line = PointDispersionProblem([[0.0], [3.0], [7.0]], [1.0, 0.0, 4.0], size=2, weight=0.5)
    half = {"clients": np.array([0, 2]), "shares": np.array([POINT, POINT])}
    # The gradient is 7 - 1, 7 - 0, 7 - 4; of its two largest entries w y'Dy = 7 comes off. Each reach is raised by 2.
    assert exactly(line, half) == 6 + Fraction(4, 1 << 24)
    corner = PointDispersionProblem([[0.0, 0.0], [1.0, 1.0], [5.0, 0.0]], size=3, weight=1.0)
    all_of_it = {"clients": np.arange(3), "shares": np.full(3, POINT)}
    root = [Fraction(isqrt(square << 400), 1 << 200) for square in (2, 25, 17)]
    assert exactly(corner, all_of_it) > 2 * sum(root)


def test_the_root_is_tight_where_many_are_chosen():
    problem = PointDispersionProblem(np.random.default_rng(1).uniform(size=(300, 2)), None, size=150)
    solution = solve(problem, certificate=True)
    verified = check(problem, solution.certificate)
    assert solution.status == "optimal"
    assert 0 <= verified - solution.objective + 1e-9 <= 1e-4 * solution.objective


def test_what_is_not_read_says_so():
    rng = np.random.default_rng(2)
    other = PointDispersionProblem(rng.dirichlet(np.ones(3), 8), None, size=3, metric="hellinger")
    unwritten = solve(other, certificate=True)
    assert unwritten.certificate is None
    assert "of Euclidean distances, and these are hellinger" in unwritten.certificate_report["none"]
    shares = {"clients": np.arange(3), "shares": np.full(3, POINT)}
    with pytest.raises(CertificateError, match="only Euclidean distances"):
        check(other, Certificate("points", problem_digest(other), 1e300, 0, shares))
    problem = PointDispersionProblem(rng.normal(size=(8, 2)), None, size=3)
    found = solve(problem, certificate=True).certificate
    with pytest.raises(CertificateError, match="whose shares sum to the size"):
        check(problem, replace(found, arrays={**found.arrays, "shares": found.arrays["shares"] // 2}))
    twice = {"clients": np.array([0, 1, 1]), "shares": np.full(3, POINT)}
    refused(problem, replace(found, arrays=twice), "must name different clients")
    with pytest.raises(CertificateError, match="another problem"):
        check(other, found)
