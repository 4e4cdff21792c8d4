"""The three-point bound against enumeration, from good, bad and random multipliers, with and without symmetry."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from examples.records.averages import averages, block_diagonalise, certified, program, uniform_start
from examples.records.grey import grey_pattern, torus_symmetries
from examples.records.interior import Iterate, iterates, residual
from solvers import InvalidOption, solve
from solvers.dispersion import DispersionProblem
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.symmetry import closure
from tests.solvers.dispersion.cases import random_problem, uniform_problem
from tests.thoroughly import few_of


def symmetric_problem(rng: np.random.Generator, largest: int = 8) -> tuple[DispersionProblem, np.ndarray]:
    """A small problem of any kind, made invariant under permutations by summing over the group."""
    n = int(rng.integers(6, largest + 1))
    m = int(rng.integers(3, n - 2))
    generators = [np.roll(np.arange(n), rng.integers(n))]
    if rng.random() < 0.3:
        generators = [rng.permutation(n)]
    elif rng.random() < 0.5:
        generators.append(np.arange(n)[::-1])
    group = closure(DispersionProblem(np.ones((n, n)) - np.eye(n), np.zeros(n), size=m), generators)
    h = np.triu(rng.integers(0, 50, (n, n)), 1)
    h = h + h.T
    costs = rng.integers(-60, 60, n) * int(rng.integers(0, 2))
    h = sum(h[np.ix_(g, g)] for g in group) * 2.0 ** rng.integers(-30, 30)
    return DispersionProblem(h, sum(costs[g] for g in group) * float(h.max() > 0), size=m, weight=0.5), group


@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_never_below_the_optimum(seed):
    """Every iterate's bound is one; the last is as good as interior-point methods are."""
    rng = np.random.default_rng(seed)
    problem, group = symmetric_problem(rng)
    scaled = ScaledProblem.of(problem)
    given = averages(group, problem.size)
    relaxation, bases = program(scaled, given)
    start = uniform_start(given)
    assert np.allclose(relaxation.equations @ start, relaxation.right)
    best = scaled.value(solve(problem, "brute-force").objective)
    bounds = []
    for point in iterates(relaxation, start):
        bounds.append(certified(scaled, given, relaxation, bases, point))
        primal = -float(relaxation.objective @ point.unknowns)
        assert bounds[-1] >= best
        assert bounds[-1] >= primal - 1e-6 * max(1.0, abs(primal))  # weak duality
    assert min(bounds) <= primal + 1e-5 * max(1.0, abs(primal))
    # Any multipliers will do.
    for size in (1e-6, 1.0, 1e3):
        noise = [size * rng.normal(size=z.shape) for z in point.matrices]
        wild = Iterate(
            point.unknowns,
            point.equations + size * rng.normal(size=point.equations.size),
            point.rows + size * rng.normal(size=point.rows.size),
            [z + e + e.T for z, e in zip(point.matrices, noise, strict=True)],
        )
        assert certified(scaled, given, relaxation, bases, wild) >= best


@pytest.mark.parametrize("seed", range(6))
def test_multipliers_of_the_rows_in_rational_arithmetic(seed):
    """Whatever they are, without the matrices: never below what they prove exactly, and hardly above."""
    rng = np.random.default_rng(seed)
    problem, group = symmetric_problem(rng, 7)
    scaled = ScaledProblem.of(problem)
    given = averages(group, problem.size)
    relaxation, bases = program(scaled, given)
    size = 10.0 ** rng.integers(-3, 7)
    point = Iterate(
        uniform_start(given),
        size * rng.normal(size=relaxation.right.size),
        size * rng.normal(size=relaxation.constant.size),
        [np.zeros(a.shape[1:]) for a in relaxation.blocks],
    )

    def exact(numbers: np.ndarray) -> list[Fraction]:
        return [Fraction(x) for x in numbers.tolist()]

    y, z = exact(point.equations), exact(np.maximum(point.rows, 0.0))  # negative ones count as none
    matrix = np.vstack([relaxation.equations, relaxation.rows.toarray()])
    left = [
        c - sum(t * a for t, a in zip([*y, *z], exact(column), strict=True) if a)
        for c, column in zip(exact(relaxation.objective), matrix.T, strict=True)
    ]  # an unknown lies between 0 and 1
    proved = sum(a * t for a, t in zip(exact(relaxation.constant), z, strict=True))
    proved -= sum(a * t for a, t in zip(exact(relaxation.right), y, strict=True)) + sum(min(x, 0) for x in left)
    bound = certified(scaled, given, relaxation, bases, point)
    assert proved + Fraction(scaled.error) <= bound <= proved + Fraction(scaled.error + 1e-8 * (1 + size))
    # What the objective's own rounding may be comes on top, however large it is stated.
    assert certified(replace(scaled, error=64.0), given, relaxation, bases, point) >= proved + 64


@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_any_problem_without_symmetry(seed):
    problem = random_problem(np.random.default_rng(seed), 8)
    best = solve(problem, "brute-force").objective
    assert solve(problem, "three-point").bound >= best - problem.rounding


def test_a_selection_is_feasible():
    """Its averages over the group satisfy what the program asks of the unknowns."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem, group = symmetric_problem(rng)
        given = averages(group, problem.size)
        relaxation, _ = program(ScaledProblem.of(problem), given)
        s = np.zeros(problem.n)
        s[rng.permutation(problem.n)[: problem.size]] = 1
        t = np.array([s[group[:, triple]].prod(axis=1).mean() for triple in given.members])
        assert np.allclose(relaxation.equations @ t, relaxation.right)
        assert (relaxation.rows @ t + relaxation.constant).min() > -1e-12
        for a in relaxation.blocks:
            assert np.linalg.eigvalsh(np.tensordot(t, a, 1))[0] > -1e-10


def test_blocks_tell_what_the_matrix_tells():
    """Eigenvalues of an invariant matrix are those of its blocks."""
    problem = grey_pattern(4, 4, 5)
    group = closure(problem, torus_symmetries(4, 4))
    bases = block_diagonalise(group)
    of_blocks = np.concatenate([np.linalg.eigvalsh(v.T @ problem.distances @ v) for v in bases])
    whole = np.linalg.eigvalsh(problem.distances)
    assert sum(v.shape[1] for v in bases) < problem.n  # some are repeated
    assert all(np.isclose(whole, value).any() for value in of_blocks)
    assert all(np.isclose(of_blocks, value).any() for value in whole)


def test_tighter_than_the_doubly_nonnegative_bound():
    """Without its cuts: on the torus, and for a problem without symmetry; and it ends with a vanishing residual."""
    problem = grey_pattern(5, 5, 9)
    symmetric = solve(problem, "three-point", symmetries=torus_symmetries(5, 5))
    optimum = solve(problem, "branch-and-bound", symmetries=torus_symmetries(5, 5)).objective
    assert optimum <= symmetric.bound < solve(problem, "dnn", cuts=0).bound
    plain = uniform_problem(12, 4)
    assert solve(plain, "three-point").bound <= solve(plain, "dnn", cuts=0).bound + 1e-6
    scaled = ScaledProblem.of(problem)
    relaxation, _ = program(scaled, averages(closure(problem, torus_symmetries(5, 5)), 9))
    *_, point = iterates(relaxation, uniform_start(averages(closure(problem, torus_symmetries(5, 5)), 9)))
    assert abs(residual(relaxation, point)).max() < 1e-9


@pytest.mark.parametrize(("n", "m"), [(8, 2), (8, 6), (60, 20)])
def test_what_it_is_not_for_gets_a_plain_bound(n, m):
    solution = solve(uniform_problem(n, m), "three-point")
    assert solution.stopped == "iterations"
    assert "no three-point bound" in solution.message
    assert solution.bound >= solution.objective


def test_no_distances_at_all():
    costs = np.random.default_rng(0).random(8)
    for size in (2, 4):
        solution = solve(DispersionProblem(np.zeros((8, 8)), costs, size=size), "three-point")
        assert solution.bound >= -np.sort(costs)[:size].sum() - 1e-12
        assert solution.gap < 1e-5


def test_too_little_time_leaves_a_bound():
    solution = solve(grey_pattern(6, 6, 9), "three-point", symmetries=torus_symmetries(6, 6), time_limit=1e-4)
    assert solution.bound >= solution.objective


def test_refuses_what_is_no_symmetry():
    with pytest.raises(InvalidOption, match="leave distances and costs"):
        solve(uniform_problem(8, 3), "three-point", symmetries=[[1, 0, 2, 3, 4, 5, 6, 7]])
