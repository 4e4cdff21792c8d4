"""The search for exactly balanced unions: its lists against enumeration, its estimate against a count, its answers."""

from __future__ import annotations

import itertools
import math

import numpy as np

from solvers import solve
from solvers.balance import BalanceProblem, kernels
from solvers.balance.collisions import balance_exactly, expected_solutions
from solvers.run import Run
from solvers.subsets import from_clients


def test_fours_of_a_residue_are_listed_once_and_meet_pairs_exactly():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 50, 9).astype(np.uint64)
    lower, upper = np.triu_indices(9, 1)
    sums = values[lower] + values[upper]
    for classes, residue in ((1, 0), (3, 2), (7, 5)):
        residues = (sums % np.uint64(classes)).astype(np.int64)
        order = np.argsort(residues, kind="stable")
        ends = np.searchsorted(residues[order], np.arange(classes + 1))
        found, first, second = np.empty(200, np.uint64), np.empty(200, np.int32), np.empty(200, np.int32)
        count = kernels.join(sums, lower, upper, order, ends, residue, found, first, second)
        listed = [
            tuple(sorted([lower[x], upper[x], lower[y], upper[y]]))
            for x, y in zip(first[:count], second[:count], strict=True)
        ]
        fours = [four for four in itertools.combinations(range(9), 4) if values[list(four)].sum() % classes == residue]
        assert sorted(listed) == fours
        assert found[:count].tolist() == [values[list(four)].sum() for four in listed]
    table = np.zeros((2, 1 << 24), dtype=np.uint8)
    wanted = rng.integers(1 << 63, size=20).astype(np.uint64)
    kernels.mark(wanted, table)
    pairs = np.array([0, 5], np.uint64)
    left = np.concatenate([wanted[:3], wanted[3:6] - np.uint64(5), rng.integers(1 << 63, size=50).astype(np.uint64)])
    four, pair = np.empty(100, np.int32), np.empty(100, np.int32)
    count = kernels.meet(left, pairs, table, four, pair)
    hits = set(zip(four[:count].tolist(), pair[:count].tolist(), strict=True))
    assert hits >= {(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)}
    assert len(hits) <= 8  # two bits of 27 are rarely set by chance


def test_the_estimate_of_solutions_is_near_their_number():
    vectors = np.random.default_rng(1).integers(-2, 3, (15, 2))
    for need in ([0, 0], [3, -2]):
        count = sum((vectors[list(ten)].sum(axis=0) == need).all() for ten in itertools.combinations(range(15), 10))
        assert abs(expected_solutions(vectors, np.array(need)) - math.log(count)) < 1.2


def test_unions_become_as_balanced_as_whole_counts_can_be():
    rng = np.random.default_rng(2)
    for size, samples in ((10, 20), (12, rng.integers(10, 40, 60)), (11, 7)):
        problem = BalanceProblem(rng.multinomial(samples, rng.dirichlet(np.ones(4), 60)), size)
        run = Run(problem, "collisions", None, 0)
        run.tighten(problem.bound())
        run.offer(from_clients(np.arange(size), 60))
        balance_exactly(problem, run)
        assert run.x.sum() == size
        assert run.objective == problem.objective(run.x)
        assert run.proved
        assert solve(problem).objective <= run.objective + 1e-6


def test_what_cannot_be_exchanged_is_left_as_it_is():
    rng = np.random.default_rng(3)
    alike = np.tile([[9, 0, 0]], (30, 1))
    for counts, size in ((rng.integers(1, 9, (30, 3)), 9), (rng.integers(1, 9, (15, 3)), 10), (alike, 12)):
        run = Run(problem := BalanceProblem(counts, size), "collisions", None, 0)
        run.offer(start := from_clients(np.arange(size), len(counts)))
        balance_exactly(problem, run)
        np.testing.assert_array_equal(run.x, start)
