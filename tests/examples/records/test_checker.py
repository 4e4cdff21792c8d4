"""Certificates of products of three clients: their bounds against enumeration, and what a liar would write."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from examples.records import (
    checker,
    tai256c,
    three_point,  # noqa: F401  (registers its method)
)
from examples.records.checker import check
from examples.records.grey import grey_pattern, torus_symmetries
from solvers import certificates, solve
from solvers.certificates import Certificate, CertificateError, problem_digest
from solvers.dispersion import DispersionProblem
from tests.examples.records.test_three_point import symmetric_problem
from tests.thoroughly import few_of


def integers(*numbers):
    return np.array(numbers, dtype=np.int64)


def alike(n, m, distance=1.0):
    """All clients at the same distance: optimum m (m - 1) times it."""
    return DispersionProblem(distance * (1.0 - np.eye(n)), size=m)


def refused(problem, certificate, match):
    with pytest.raises(CertificateError, match=match):
        check(problem, certificate)


def stated(problem, symmetry, grid=0, **arrays):
    """A certificate of one client, 0, without multipliers but for those given; its claim is the largest number."""
    triangle = problem.n * (problem.n + 1) // 2
    empty = integers()
    common = {"symmetry": np.asarray(symmetry).ravel(), "client": integers(0), "room": integers(2, 2)}
    matrices = {"chosen": np.zeros(triangle, dtype=np.int64), "left": np.zeros(triangle, dtype=np.int64)}
    rest = {"product": empty, "sides": empty, "weight": empty, "equation": empty, "slope": empty, "level": integers(0)}
    whole = {**common, **matrices, **rest, **arrays}
    return Certificate("three-point", problem_digest(problem), 1e300, grid, whole)


def best_of(problem):
    chosen = itertools.combinations(range(problem.n), problem.size)
    return max(float(problem.objective(np.isin(np.arange(problem.n), each).astype(int))) for each in chosen)


@pytest.mark.parametrize("seed", few_of(range(40), 3))
def test_what_the_method_writes_is_its_bound(seed):
    """Of problems with and without symmetries, costs and digits: no lower than the optimum, and near the method's."""
    problem, group = symmetric_problem(np.random.default_rng(seed))
    solution = solve(problem, "three-point", symmetries=group, certificate=True)
    reader = check if solution.certificate.kind == checker.KIND else certificates.check
    proved = reader(problem, solution.certificate)
    assert proved == solution.certificate.bound
    assert proved >= best_of(problem)
    assert proved <= solution.bound + 1e-6 * problem.scale
    if solution.certificate.kind == "three-point":
        refused(problem, replace(solution.certificate, bound=float(np.nextafter(proved, -np.inf))), "proves only")
    else:  # a tree, where another bound than that of the averages is the solution's
        assert solution.status == "optimal"


@pytest.mark.parametrize("rows", few_of([4, 5], 1))
def test_grey_patterns(rows):
    """Whole numbers make the bound one, rounded down to an even one."""
    problem = grey_pattern(rows, rows, 6)
    solution = solve(problem, "three-point", symmetries=torus_symmetries(rows, rows), certificate=True)
    proved = check(problem, solution.certificate)
    assert proved % 2 == 0
    assert solve(problem, "brute-force").objective <= proved <= solution.bound


@pytest.mark.parametrize("seed", few_of(range(60), 4))
def test_any_multipliers_prove_a_bound(seed):
    """Random ones, several of a set or an equation, clients named twice in a product: never below the optimum."""
    rng = np.random.default_rng(seed)
    problem, group = symmetric_problem(rng, 7)
    n, low = problem.n, np.tril_indices(problem.n)
    clients = rng.integers(0, n, int(rng.integers(0, 3)))
    roots = rng.integers(-9, 10, (2, clients.size, n, n))
    matrices = roots @ roots.transpose(0, 1, 3, 2)
    count, equations = int(rng.integers(0, 30)), int(rng.integers(0, 8))
    arrays = {
        "client": clients,
        "room": rng.integers(2, 50, 2 * clients.size),
        "chosen": matrices[0][:, low[0], low[1]].ravel(),
        "left": matrices[1][:, low[0], low[1]].ravel(),
        "product": rng.integers(0, n, 3 * count),
        "sides": rng.integers(0, 8, count),
        "weight": rng.integers(0, 40, count),
        "equation": rng.integers(0, n, 2 * equations),
        "slope": rng.integers(-40, 40, equations),
        "level": rng.integers(-60, 60, 1),
    }
    generators = group[rng.integers(0, len(group), 2)]
    grid = int(np.frexp(problem.scale)[1]) - int(rng.integers(4, 12))
    assert check(problem, stated(problem, generators, grid, **arrays)) >= best_of(problem)


@pytest.mark.parametrize(("symmetry", "averaged"), [([], 25.0), (list(itertools.permutations(range(4)))[1:], 22.0)])
def test_by_hand(symmetry, averaged):
    """Four clients, all at distance 1 of each other, two of them chosen: twice six pairs, as if all were chosen."""
    problem = alike(4, 2)
    none = dict.fromkeys(("client", "room", "chosen", "left"), integers())

    def bound(**arrays):
        return check(problem, stated(problem, integers(*itertools.chain(*symmetry)), **arrays))

    assert bound(**none) == 12.0
    # s0 1's + (1 - s0) 1's, twice: 2 for each client.
    assert bound() == 12.0 + 8.0
    # s0 s1 (1's - 2): nothing for the pair, and 1 for both triples that hold it.
    assert bound(**none, equation=integers(0, 1), slope=integers(1)) == 14.0
    # -3 (1's - 2): a client is worth less than nothing, and 6 stand alone.
    assert bound(**none, level=integers(-3)) == 18.0
    # 4 (1 - s0) (1 - s1) (1 - s2) + 3 (1's - 2): 4 - 6 stand alone, three clients are worth -1 and one 3 (on average
    # nothing), three pairs 2 and three 6.
    three = {"product": integers(0, 1, 2), "sides": integers(7), "weight": integers(4)}
    assert bound(**none, **three, level=integers(3)) == averaged - averaged % 2


def test_lies_are_refused():
    """Of a small torus: each change breaks one rule, and would otherwise be accepted with a smaller bound."""
    problem = grey_pattern(3, 3, 4)
    true = solve(problem, "three-point", symmetries=torus_symmetries(3, 3), certificate=True).certificate
    proved = check(problem, true)

    def told(match, **arrays):
        refused(problem, replace(true, bound=1e300, arrays={**true.arrays, **arrays}), match)

    symmetry, n = true.arrays["symmetry"], problem.n
    told("is no permutation", symmetry=np.append(symmetry, [0] * n))
    told("changes", symmetry=np.append(symmetry, [1, 0, *range(2, n)]))
    told("has no entry", symmetry=symmetry[1:])
    told("rooms", client=np.append(true.arrays["client"], 0))
    told("triangle", chosen=true.arrays["chosen"][1:])
    told("triangle", left=np.append(true.arrays["left"], 0))
    told("rooms", room=np.append(true.arrays["room"], 0))
    told("eigenvalue", chosen=-true.arrays["chosen"])
    told("eigenvalue", left=-true.arrays["left"])
    told("weight must lie", weight=-true.arrays["weight"])
    told("three clients", product=true.arrays["product"][1:])
    told("two clients", equation=true.arrays["equation"][1:])
    told("two clients", slope=np.append(true.arrays["slope"], 1))
    told("must have 1 entry", level=integers(0, 0))
    assert proved < 1e300


def test_a_symmetry_of_the_distances_alone_is_none():
    """Costs that differ: averaged over the clients, the dearest would count as much as the cheapest."""
    problem = DispersionProblem(np.ones((6, 6)) - np.eye(6), [0.0, 9.0, 9.0, 9.0, 9.0, 9.0], size=3)
    refused(problem, stated(problem, [[1, 2, 3, 4, 5, 0]]), "changes")


def test_sums_beyond_64_bits():
    """Multipliers as large as they may be: what they add up to is known to the last digit."""
    problem = alike(6, 3)
    most, three = (1 << 40) - 1, list(itertools.combinations(range(6), 3))
    largest = {
        "product": integers(*itertools.chain(*three)),
        "sides": integers(*[0] * len(three)),
        "weight": integers(*[most] * len(three)),
        "level": integers((1 << 62) - 1),
    }
    bound = check(problem, stated(problem, integers(), **largest))
    # The triples, the pairs, the clients with their rooms and ν, and what stands alone.
    total = 20 * most + 2 * 15 + 6 * (2 + (1 << 62) - 1) - 3 * ((1 << 62) - 1)
    assert total <= bound <= float(np.nextafter(float(total), np.inf))


def test_repeated_symmetries_are_one():
    """All permutations of eight clients, given again and again: as soon read as once, and worth the same."""
    problem, group = alike(8, 3), integers(*itertools.chain(*itertools.permutations(range(8))))[: 8 * 200]
    once, often = (stated(problem, np.tile(group, times)) for times in (1, 500))
    assert check(problem, often) == check(problem, once)


def test_what_would_take_too_long_is_refused_before_it_begins(monkeypatch):
    """Each part of the work is counted; here at most 300 steps are allowed."""
    problem = alike(8, 3)
    shift, swap = [*range(1, 8), 0], [1, 0, *range(2, 8)]
    none = dict.fromkeys(("client", "room", "chosen", "left"), integers())
    parts = {
        "matrices": stated(problem, integers()),
        "equations": stated(problem, integers(), **none, equation=integers(*[0] * 400), slope=integers(*[1] * 200)),
        "symmetries": stated(problem, list(itertools.islice(itertools.permutations(range(8)), 20)), **none),
        "products of symmetries": stated(problem, [shift, swap], **none),
        "orbits": stated(problem, [swap], **none, equation=integers(*range(8)), slope=integers(1, 1, 1, 1)),
    }
    for certificate in parts.values():
        assert check(problem, certificate) >= best_of(problem)
    monkeypatch.setattr(checker, "STEPS", 300)
    for what, certificate in parts.items():
        refused(problem, certificate, f"its {what} would take")


def test_the_test_of_eigenvalues_is_needed(monkeypatch):
    """Without it, minus three times the matrix of ones proves a bound below the optimum."""
    problem, ones = alike(6, 3), np.ones(21, dtype=np.int64)
    common = {"client": np.arange(6), "room": np.full(12, 2)}
    honest = stated(problem, integers(), **common, chosen=np.tile(ones, 6), left=np.tile(ones, 6))
    lie = stated(problem, integers(), **common, chosen=np.tile(-3 * ones, 6), left=np.tile(-3 * ones, 6))
    assert check(problem, honest) >= best_of(problem)
    refused(problem, lie, "negative eigenvalue")
    monkeypatch.setattr(checker, "is_positive_semidefinite", lambda rows: True)
    assert check(problem, lie) < best_of(problem)


def test_the_bound_of_tai256c(monkeypatch, capsys):
    """The record that the documentation states, by the command that it names."""
    monkeypatch.setattr("sys.argv", ["tai256c.py"])
    tai256c.main()
    assert "at least 44,445,816, 0.70 % below" in capsys.readouterr().out
