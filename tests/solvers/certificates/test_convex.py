"""Certificates of the convex families: true at random problems, tight, and refused where a number was changed."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from solvers import Solution, instances, solve
from solvers.allocation import AllocationProblem
from solvers.capping import CappingProblem
from solvers.certificate_writers import with_certificate
from solvers.certificates import Certificate, CertificateError, check, check_certificate, problem_digest
from solvers.certificates.exact.exclusion import IMPORTANCE, Groups
from solvers.instances import ledger
from solvers.participation import CutoffProblem
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from tests.solvers.certificates.test_soundness import refused, second


def random_problem(kind, rng):
    n = int(rng.integers(2, 9))
    if kind == "allocation":
        sizes = rng.integers(1, 30, n)
        return AllocationProblem(
            sizes, rng.uniform(0, 2, n) * rng.integers(0, 2, n), int(rng.integers(n, sizes.sum() + 1))
        )
    if kind == "capping":
        size = int(rng.integers(1, n + 1))
        return CappingProblem(log_weights=rng.normal(0, 3, n), size=size, floor=float(rng.uniform(0, size / n)))
    if kind == "cutoff":
        return CutoffProblem(rng.uniform(0.01, 1, n), int(rng.integers(2, 5000)))
    if kind == "exclusion":
        equal, thirds = np.ones(n), rng.integers(1, 4, n).astype(float)
        importance = (equal, thirds, rng.dirichlet(np.ones(n)))[int(rng.integers(3))]
        gaps = rng.exponential(size=n) - float(rng.choice([0.0, 0.5]))
        gamma = float(rng.choice([0.0, 0.1, 1.0, 3.0]))
        return ExclusionProblem(importance / importance.sum(), gaps, gamma, np.full(n, 0.5), np.zeros(n))
    common = rng.uniform(0.05, 1, n), rng.uniform(0.1, 3, n), float(rng.uniform(0, 5)), float(rng.uniform(0.5, 3))
    if kind == "optimization-error":
        return OptimizationErrorProblem(*common, constant=float(rng.normal()))
    return TotalErrorProblem(
        *common,
        importance=rng.dirichlet(np.ones(n)),
        bias=kind.removeprefix("total-error "),
        bias_weight=rng.uniform(0, 4),
    )


def feasible(problem, rng):
    """Random decisions of a problem."""
    n = problem.n
    for _ in range(40):
        if isinstance(problem, AllocationProblem):
            x = problem.first.copy()
            while x.sum() < problem.total:
                room = np.flatnonzero(x < problem.upper)
                x[rng.choice(room)] += 1
            yield x
        elif isinstance(problem, CappingProblem):
            # Half of the way from the middle to somewhere else, as far as the bounds allow.
            x, to = np.full(n, problem.size / n), rng.normal(size=n)
            to -= to.mean()
            room = min(((1 - x) / np.maximum(to, 1e-9)).min(), ((x - problem.floor) / np.maximum(-to, 1e-9)).min())
            yield x + rng.uniform(0, 0.99) * max(room, 0) * to
        elif isinstance(problem, ExclusionProblem):
            yield rng.permutation(n) <= rng.integers(n)
        elif isinstance(problem, CutoffProblem):
            yield np.asarray(int(rng.integers(1, 200)))
        else:
            yield problem.total * rng.dirichlet(np.ones(n))


KINDS = ["exclusion", "allocation", "capping", "cutoff", "optimization-error", "total-error tv", "total-error chi2"]


@pytest.mark.parametrize("kind", KINDS)
def test_true_and_tight(kind):
    rng = np.random.default_rng(0)
    for _ in range(25):
        problem = random_problem(kind, rng)
        solution = solve(problem, certificate=True)
        verified = check(problem, solution.certificate)
        for x in [solution.x, *feasible(problem, rng)]:
            assert problem.objective(x) >= verified - 1e-13 * max(1.0, abs(verified))
        assert solution.objective - verified <= 1e-6 * min(max(1.0, abs(solution.objective)), problem.scale) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_no_mutation_proves_anything_false(kind):
    """Whatever numbers stand in a certificate, what is accepted is no more than the optimum."""
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(5):
        problem = random_problem(kind, rng)
        solution = solve(problem, certificate=True)
        for trial in range(60):
            arrays = {name: array.astype(np.int64).copy() for name, array in solution.certificate.arrays.items()}
            name = sorted(arrays)[trial % len(arrays)]
            place = int(rng.integers(arrays[name].size))
            old = int(arrays[name][place])
            arrays[name][place] = rng.choice([old + 1, 2 * old, -old, 0, int(rng.integers(-(2**40), 2**40)), 2**62])
            claim = rng.choice([-1e300, solution.bound])
            changed = replace(solution.certificate, arrays=arrays, bound=float(claim))
            try:
                assert check(problem, changed) <= solution.objective + 1e-12 * max(1.0, abs(solution.objective))
            except CertificateError:
                refused += 1
    assert refused >= 5  # a capping problem in which nothing is capped has the bound 0 whatever stands there


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_above_the_optimum_or_another_problem_is_refused(kind):
    rng = np.random.default_rng(2)
    problem, other = random_problem(kind, rng), random_problem(kind, rng)
    good = solve(problem, certificate=True).certificate
    above = replace(good, bound=good.bound + 1e-5 * max(1.0, abs(good.bound)))
    with pytest.raises(CertificateError, match="proves only"):
        check(problem, above)
    with pytest.raises(CertificateError, match="another problem"):
        check(other, good)
    with pytest.raises(CertificateError, match="which is no number"):
        check(problem, replace(good, bound=float("nan")))
    with pytest.raises(CertificateError, match="lacks the array"):
        check(problem, replace(good, arrays={}))
    with pytest.raises(CertificateError, match="is about a DispersionProblem, not about a"):
        check(problem, replace(good, kind="dispersion"))


def test_real_allocations_have_a_price_of_their_own():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = random_problem("allocation", rng)
        solution = solve(problem, "kkt", certificate=True)
        verified = check(problem, solution.certificate)
        assert solution.objective - 1e-9 <= verified + 1e-9
        assert verified <= solution.objective + 1e-13


def test_every_set_counts_in_a_tree_over_them():
    """Beside brute force: the optimum is proved to rounding, and nothing above it, whatever tree is tried."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        problem = random_problem("exclusion", rng)
        best = solve(problem, "brute-force")
        found = with_certificate(best.with_bound(best.objective - 1e-10)).certificate
        assert check(problem, found) >= best.objective - 2e-10
        unit = Fraction(2) ** found.grid
        target = np.array([math.ceil(Fraction(best.objective + 1e-9) / unit)])
        for slope in range(-20, 21):
            leaf = np.array([-1, round(slope * problem.scale / 5 / unit)])
            with pytest.raises(CertificateError, match=r"below zero|proves only"):
                check(problem, replace(found, bound=best.objective + 1e-9, arrays={"target": target, "tree": leaf}))
        with pytest.raises(CertificateError, match="a branch is missing"):
            check(problem, replace(found, arrays={**found.arrays, "tree": found.arrays["tree"][:-1]}))


@pytest.mark.parametrize("seed", range(30))
def test_the_cubic_is_bounded_below_on_any_interval(seed):
    """By both checkers, beside its exact values: concave up to two thirds of the whole, convex from there."""
    rng = np.random.default_rng(seed)
    gamma, total, slope = (Fraction(float(v)) for v in (rng.exponential(), rng.uniform(0.1, 3), rng.normal()))
    least, most = sorted(total * Fraction(int(k), 100) for k in rng.integers(0, 101, 2))
    values = [
        gamma * a * (total - a) ** 2 - slope * a
        for a in (least + (most - least) * Fraction(k, 200) for k in range(201))
    ]
    groups = SimpleNamespace(gamma=gamma, total=total)
    for found in (
        Groups.intercept(groups, slope, least, most),
        check_certificate.cubic_floor(gamma, total, slope, least, most),
    ):
        assert found <= min(values)
        assert found >= min(values) - Fraction(1, 1000) * (gamma * total**3 + abs(slope) * total)


def test_the_sides_of_a_branch_leave_nothing_out():
    problem = ExclusionProblem(np.full(8, 0.125), np.arange(8.0), 0.5, np.full(8, 0.5), np.zeros(8))
    groups = Groups(problem)
    box = ((1,), (5,), Fraction(1, 8), Fraction(5, 8))
    for at in range(-1, 8):
        sides = groups.branches(box, 0, at)
        for count in range(1, 6):
            assert sum(low[0] <= count <= high[0] for low, high, _, _ in sides) == 1
        fewer, more = groups.branches(box, IMPORTANCE, Fraction(at, 8))
        for kept in (Fraction(k, 16) for k in range(2, 11)):
            assert any(least <= kept <= most for _, _, least, most in (fewer, more))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_tree_over_a_group_covers_every_number_kept(sign):
    """One group split anywhere, with the leaves' best slopes: proved up to the optimum, refused by both above it."""
    rng = np.random.default_rng(6)
    n = 6
    gaps = rng.exponential(size=n) - 0.4
    problem = ExclusionProblem(np.full(n, 1 / n), gaps, 0.8, np.full(n, 0.5), np.zeros(n))
    found, groups, grid = solve(problem, "brute-force"), Groups(problem), -50
    target = round((found.objective + sign * 1e-4) * 2.0**-grid)
    unit, slopes = Fraction(2) ** grid, [round(slope * 2.0**-grid) for slope in np.linspace(-3, 3, 601)]

    def closing(low, high, depth=4):
        """A tree below a range of numbers, halved until a leaf closes it: as good as any."""
        box = (low,), (high,), groups.weights[0] * low, groups.weights[0] * high
        leaves = {slope: groups.leaf(box, target * unit, slope * unit) or 0 for slope in slopes}
        best, at = max(leaves, key=leaves.get), (low + high) // 2
        if depth == 0 or low >= high or leaves[best] >= 0:
            return [-1, best]
        return [0, at, *closing(low, at, depth - 1), *closing(at + 1, high, depth - 1)]

    arrays = {"target": np.array([target]), "tree": np.array(closing(0, n))}
    certificate = Certificate("exclusion", problem_digest(problem), float(target * unit) - 1e-12, grid, arrays)
    kept = int(found.x.sum())  # below: a tree for all numbers but the best one
    others = [0, kept - 1, *closing(0, kept - 1), *closing(kept + 1, n)]
    if sign < 0:
        assert check(problem, certificate) == second(problem, certificate) > found.objective - 2e-4
    else:
        refused(problem, certificate, "leaves .* below zero")
        refused(problem, replace(certificate, arrays={**arrays, "tree": np.array(others)}), "leaves .* below zero")


def test_groups_without_deviation_may_be_left_out():
    """Nobody of them costs nothing: their least number is what the price is for."""
    problem = AllocationProblem([5, 6, 7], [0.0, 2.0, 3.0], 6, lower=[0, 1, 1])
    solution = solve(problem, certificate=True)
    assert solution.objective - 1e-6 <= check(problem, solution.certificate) <= solution.objective
    arrays = {"price": np.array([1 << 20]), "whole": np.array([1])}
    for grid in (-30, -22, -10):
        bound = Certificate("allocation", problem_digest(problem), -1e300, grid, arrays)
        assert check(problem, bound) == pytest.approx(second(problem, bound), rel=1e-12)
        assert check(problem, bound) <= solution.objective


@pytest.mark.parametrize("family", ["allocation", "capping", "participation"])
def test_the_library(family):
    names = instances.names(family)[:3]
    assert names
    for name in names:
        problem = instances.load(name)
        solution = solve(problem, certificate=True)
        assert Fraction(check(problem, solution.certificate)) >= Fraction(solution.bound)


WHOLE = AllocationProblem([60, 25, 10, 5], [1.0, 1.0, 1.0, 1.0], 10)


def test_a_bound_of_whole_clients_says_so(tmp_path, capsys):
    """Real allocations are decisions, too, and better: the verdict of both checkers names those it holds for."""
    whole, real = (solve(WHOLE, name, certificate=True) for name in ("greedy", "kkt"))
    assert whole.certificate.is_of_whole
    assert check(WHOLE, whole.certificate) > real.objective
    assert WHOLE.violation(real.x) <= WHOLE.tolerance
    assert not real.certificate.is_of_whole
    path = WHOLE.save(tmp_path / "problem.npz")
    for solution, said in ((whole, " for decisions in whole numbers alone"), (real, "")):
        saved = solution.certificate.save(tmp_path / "certificate.npz")
        verified = check(WHOLE, solution.certificate)
        assert ledger.judged(WHOLE, solution.certificate).sentence == f"the bound {verified!r} is proved{said}"
        assert check_certificate.main([str(path), str(saved)]) == 0
        assert capsys.readouterr().out == f"verified: the bound {verified!r} is proved{said}\n"
    for kind in ("exclusion", "cutoff"):
        found = solve(random_problem(kind, np.random.default_rng(1)), certificate=True).certificate
        assert found.holds_for == "every decision"


def test_no_real_decision_is_optimal_by_a_bound_of_whole_clients():
    """It lies 1e-8 from the whole one: below its bound, and was said to be optimal."""
    whole, real = (solve(WHOLE, name, certificate=True) for name in ("greedy", "kkt"))
    near = 1e-9 * real.x + (1 - 1e-9) * whole.x
    assert "is optimal" in ledger.judged(WHOLE, whole.certificate, whole.x).sentence
    assert "is optimal" not in ledger.judged(WHOLE, whole.certificate, near).sentence
    assert "is optimal" in ledger.judged(WHOLE, real.certificate, real.x).sentence


@pytest.mark.parametrize("method", ["kkt", "cvxpy"])
def test_a_start_with_a_bound_of_whole_clients(tmp_path, method):
    """It is no bound of what these methods find: the method was blamed for its better decision."""
    if method == "cvxpy":
        pytest.importorskip("cvxpy")
    whole = solve(WHOLE, "greedy", certificate=True)
    received = Solution.load(whole.save(tmp_path / "solution.npz"))
    assert received.is_received
    for start in (whole, received, replace(whole, certificate=None)):
        found = solve(WHOLE, method, start=start)
        assert found.objective < whole.bound
        assert found.bound <= found.objective
    again = solve(WHOLE, "proportional", start=received)
    assert again.bound == pytest.approx(whole.bound)
