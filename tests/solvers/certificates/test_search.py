"""Searches that were written down: the reader finds the same bound by itself, and what was tampered with is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from solvers import solve
from solvers.certificates import CertificateError, check
from solvers.certificates.exact.concave import excess
from solvers.dispersion import DispersionProblem
from solvers.dispersion.kernels import load, loader
from solvers.dispersion.policy import Policy
from solvers.dispersion.tree import first_order
from tests.thoroughly import few_of

#: The tree that is written down is not left for the other one, however wide the gap.
FIRST_ORDER = Policy(wide_gap=math.inf, stall_growth=math.inf)


@pytest.fixture(autouse=True)
def _compiled():
    load("tree")


def random_problem(seed, n, m, kind="uniform"):
    rng = np.random.default_rng(seed)
    if kind == "whole":  # few values, and clients that are alike
        points = rng.integers(0, 3, (n, 2))
        h = np.abs(points[:, None] - points).sum(axis=2).astype(float)
        return DispersionProblem(h, rng.integers(0, 3, n).astype(float), size=m)
    h = np.triu(rng.uniform(0, 10, (n, n)), 1)
    scale = {"tiny": 1e-9, "huge": 1e9}.get(kind, 1.0)
    return DispersionProblem((h + h.T) * scale, rng.normal(size=n) * scale, size=m, weight=0.3)


def optimum(problem):
    best = -math.inf
    for chosen in itertools.combinations(range(problem.n), problem.size):
        x = np.zeros(problem.n, dtype=int)
        x[list(chosen)] = 1
        best = max(best, problem.objective(x))
    return best


def searched(problem, **options):
    solution = solve(problem, "branch-and-bound", certificate=True, **{"policy": FIRST_ORDER} | options)
    assert solution.certificate_report["check_seconds"] == 0  # the search wrote it down itself
    return solution


@pytest.mark.parametrize("kind", ["uniform", "whole", "tiny", "huge"])
@pytest.mark.parametrize(("n", "m"), [(10, 3), (12, 6), (14, 12)])
def test_what_it_proves_is_true_and_tight(kind, n, m):
    problem = random_problem(n, n, m, kind)
    best = optimum(problem)
    for cuts in (0, 3):
        solution = searched(problem, cuts=cuts)
        told = solution.certificate_report
        verified = check(problem, solution.certificate)
        assert best <= verified <= best + 1e-6 * min(max(1.0, abs(best)), problem.scale)
        assert told["bound"] == solution.certificate.bound >= verified


def test_multipliers_made_below_the_root():
    """Forms beside clients that are chosen, with products held non-negative in them."""
    problem = random_problem(3, 36, 9)
    solution = searched(problem, policy=replace(FIRST_ORDER, spell=2_000, relaxation_ratio=1_000_000_000))
    certificate = solution.certificate
    assert solution.status == "optimal"
    assert len(certificate.arrays["form_room"]) > 3
    assert certificate.arrays["form_ones"].size
    assert certificate.arrays["form_nonnegative"].size
    assert solution.objective <= check(problem, certificate) <= solution.objective * (1 + 1e-6)


def test_interpreted_nodes_are_written_down_alike(monkeypatch):
    problem = random_problem(4, 14, 5)
    compiled = searched(problem, moves=0).certificate
    monkeypatch.setattr(first_order, "load", lambda name, *_, **__: loader._interpreted(name))
    spells = replace(FIRST_ORDER, interpreted_spell=100)  # many short ones
    interpreted = searched(problem, moves=0, policy=spells).certificate
    assert interpreted.bound == compiled.bound
    for name, array in compiled.arrays.items():
        np.testing.assert_array_equal(interpreted.arrays[name], array)


@pytest.mark.parametrize("trials", few_of([250, 1000], 1))
def test_no_mutation_proves_anything_false(trials):
    """Single numbers changed: refused with a sentence, or what is accepted is still true."""
    rng = np.random.default_rng(0)
    problem = random_problem(1, 14, 5)
    solution = searched(problem, moves=0, policy=replace(FIRST_ORDER, spell=500))
    best, good = solution.objective, solution.certificate
    assert good.arrays["client"].max() >= 0
    lower = {**good.arrays, "goal": good.arrays["goal"] - int(1e-3 / 2.0**good.grid)}
    claims_too_little = replace(good, bound=best - 1e-4, arrays=lower)
    names, refused = [name for name, array in good.arrays.items() if array.size], 0
    for trial in range(trials):
        base = claims_too_little if trial % 2 else good
        arrays = {name: array.astype(np.int64).copy() for name, array in base.arrays.items()}
        name = names[int(rng.integers(len(names)))]
        place = int(rng.integers(arrays[name].size))
        old = arrays[name].flat[place]
        arrays[name].flat[place] = rng.choice([old + 1, old - 1, -old, 0, int(rng.integers(-(2**40), 2**40)), 2**62])
        try:
            proved = check(problem, replace(base, arrays=arrays))
        except CertificateError:
            refused += 1
            continue
        assert proved >= best
        assert base is good
    assert refused >= trials // 2


def test_what_is_missing_is_named():
    problem = random_problem(1, 14, 5)
    good = searched(problem).certificate
    branching = int(np.flatnonzero(good.arrays["client"] >= 0)[0])
    closed = {**good.arrays, "client": np.full_like(good.arrays["client"], -1)}
    with pytest.raises(CertificateError, match=rf"node {branching}: it is said to be closed"):
        check(problem, replace(good, arrays=closed))
    adrift = {**good.arrays, "origin": np.where(good.arrays["origin"] == -1, -3, good.arrays["origin"])}
    with pytest.raises(CertificateError, match="entries of 'origin' must lie between -1 and"):
        check(problem, replace(good, arrays=adrift))
    empty = {
        name: array[:0] if name in ("origin", "client", "form", "point") else array
        for name, array in good.arrays.items()
    }
    with pytest.raises(CertificateError, match="the root is missing"):
        check(problem, replace(good, arrays=empty))
    elsewhere = {**good.arrays, "client": good.arrays["client"].astype(int) + 1000}
    with pytest.raises(CertificateError, match="entries of 'client' must lie between -1 and 13"):
        check(problem, replace(good, arrays=elsewhere))
    with pytest.raises(CertificateError, match="another problem"):
        check(random_problem(2, 14, 5), good)


def test_multipliers_that_are_not_concave_are_refused():
    problem = random_problem(1, 14, 5)
    good = searched(problem).certificate
    arrays = {**good.arrays, "form_diagonal": good.arrays["form_diagonal"].astype(np.int64) - 2**33}
    with pytest.raises(CertificateError, match="do not make the objective concave"):
        check(problem, replace(good, arrays=arrays))


@pytest.mark.parametrize("seed", range(5))
def test_excess_is_enough(seed):
    """The smallest eigenvalue on the hyperplane, in rationals of a basis: differences of neighbours."""
    rng = np.random.default_rng(seed)
    n = 7
    a = rng.integers(-(2**20), 2**20, (n, n))
    matrix = (a + a.T).astype(np.int64)
    np.fill_diagonal(matrix, 0)
    diagonal = rng.integers(-(2**20), 2**20, n).astype(np.int64)
    found = excess(matrix, diagonal)
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0][:, 1:]
    top = np.linalg.eigvalsh(basis.T @ (matrix - np.diag(diagonal)) @ basis)[-1]
    assert top - 1e-6 <= found <= max(top, 0) + 10


@pytest.mark.parametrize("seed", range(30))
def test_rounds_that_one_node_settles(seed):
    """Alike clients, small gaps: dominance and reduced costs do what is left, and have to be told."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(15, 40))
    points = rng.integers(0, 4, (n, 2)).astype(float)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    m = int(rng.integers(2, n - 1))
    problem = DispersionProblem(h, rng.normal(size=n).round(1) * m, size=m)
    solution = solve(problem, "branch-and-bound", certificate=True)
    assert solution.objective - 2 * problem.rounding <= check(problem, solution.certificate)
    assert check(problem, solution.certificate) <= max(solution.bound, solution.certificate.bound)


@pytest.mark.parametrize("seed", [9, 10, 15])
def test_costs_that_dwarf_the_distances(seed):
    """The grid of a search's certificate is coarser here than what was proved: another kind says it."""
    points = np.random.default_rng(seed).normal(size=(27, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=2) * 1e-7
    problem = DispersionProblem(distances, np.full(27, 1e-2), size=2)
    solution = solve(problem, "branch-and-bound", certificate=True, moves=0, cuts=0.0)
    assert solution.status == "optimal"
    assert check(problem, solution.certificate) >= solution.objective
