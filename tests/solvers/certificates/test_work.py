"""Small files whose check would take all memory, or hours: both checkers refuse them before they begin."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import comb

import numpy as np
import pytest

from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.certificates import (
    Certificate,
    CertificateError,
    check,
    check_certificate,
    checking,
    problem_digest,
    schema,
)
from solvers.certificates.exact import attainable
from solvers.constraints import Quota
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.participation import CutoffProblem
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from tests.solvers.certificates.test_soundness import NONE, as_read, every_branch, integers, one_node
from tests.thoroughly import few_of


def by_one_file(problem, certificate):
    arrays = {name: array.tolist() for name, array in certificate.arrays.items()}
    facts = certificate.kind, certificate.problem, certificate.bound, certificate.grid
    return check_certificate.check(check_certificate.SimpleNamespace(**vars(as_read(problem))), *facts, arrays)


def spine(count, n=None):
    """Nodes each of which lies on the side with the client of the one before it."""
    origin = np.concatenate([[-1], 2 * np.arange(count - 1) + 1])
    return {"origin": origin, "client": np.arange(count) % (n or count)}


def exclusion_bomb():
    n = 4096
    importance = np.arange(1, n + 1) / (n * (n + 1) / 2)
    problem = ExclusionProblem(importance, np.ones(n), 1.0, np.ones(n), np.zeros(n))
    tree = np.column_stack([np.arange(2**15) % n, np.zeros(2**15, int)]).ravel()
    return problem, "exclusion", {"target": integers(0), "tree": tree}


def coverage_bomb():
    n = 1 << 17
    problem = CoverageProblem(np.zeros((1, n)), n - 1)
    return (
        problem,
        "coverage",
        {
            "goal": integers(-1),
            **spine(n),
            "looks": np.ones(n, int),
            "multiplier": np.zeros(n, int),
        },
    )


def points_bomb(n, wide, shares):
    problem = PointDispersionProblem(np.zeros((n, wide)), size=2)
    share = np.zeros(shares, int)
    share[:2] = schema.POINT
    return problem, "points", {"clients": np.arange(shares), "shares": share}


def balance_bomb():
    problem = BalanceProblem(np.eye(2040, dtype=int), 4)
    arrays = {name: integers(0) if name.endswith("_start") else NONE for name in as_arrays()}
    return (
        problem,
        "balance",
        {**arrays, "order": np.arange(2040), "goal": integers(0), "grain": integers(1)}
        | {
            "level": integers(1),
            "fine": integers(0),
        },
    )


def as_arrays():
    one = one_node(DispersionProblem(1.0 - np.eye(4), size=2), bound=0.0, grid=0, goal=0)
    return list(one.arrays)


def forms_bomb():
    """Forms of all clients, each used once."""
    n, count = 256, 300
    problem = DispersionProblem(1.0 - np.eye(n), size=2)
    one = one_node(problem, bound=0.0, grid=0, goal=0)
    arrays = {name: np.tile(array, count) for name, array in one.arrays.items() if array.size and name != "order"}
    starts = {name: np.zeros(count + 1, int) for name in one.arrays if name.endswith("_start")}
    starts |= {f"form_{name}_start": n * np.arange(count + 1) for name in ("ids", "diagonal")}
    arrays |= {**starts, **spine(count, n), "form": np.arange(count), "goal": integers(0), "grain": integers(1)}
    return problem, "dispersion", {**one.arrays, **arrays, "order": np.arange(n)}


def fractions_bomb(kind):
    n = 6_000
    ones = np.ones(n)
    if kind == "allocation":
        problem = AllocationProblem(np.full(n, 9), ones, 2 * n)
        return problem, kind, {"price": integers(1), "whole": integers(1)}
    problem = TotalErrorProblem(ones, ones, 1.0, 1.0, importance=ones / n, bias="tv")
    return problem, kind, {"q": np.ones(n, int), "multiplier": integers(1)}


def decimals_bomb():
    n = 2_200_000
    return CutoffProblem(np.ones(n), 500), "cutoff", {"cutoff": integers(10**12)}


def stages_bomb():
    """Many stages of wide factors: products of all pairs of clients."""
    n, count = 512, 30
    problem = DispersionProblem(1.0 - np.eye(n), size=2)
    one = one_node(problem, bound=0.0, grid=0, goal=0)
    arrays = {name: integers(0) if name.endswith("_start") else NONE for name in one.arrays}
    arrays |= {"order": np.arange(n), "goal": integers(-(2**60)), "grain": integers(1)}
    starts = n * np.arange(count + 1)
    arrays |= {"stage_ids": np.tile(np.arange(n), count), "stage_ids_start": starts}
    arrays |= {"stage_price": np.zeros(n * count, int), "stage_price_start": starts}
    arrays |= {"stage_factor": np.ones(512 * n * count, np.int8), "stage_factor_start": 512 * starts}
    for name in ("core", "moved"):
        arrays |= {f"stage_{name}": NONE, f"stage_{name}_start": np.zeros(count + 1, int)}
    return problem, "rlt", arrays | {"stage_halvings": np.zeros(count, int)}


def cuts_bomb():
    """Cuts of 64 members each: every one adds 4 096 products."""
    problem = DispersionProblem(1.0 - np.eye(128), size=2)
    one, count = one_node(problem, bound=0.0, grid=0, goal=0), 1100
    cuts, members = (
        np.tile([1, 0, 64], count),
        np.tile(np.column_stack([np.arange(64), np.ones(64, int)]).ravel(), count),
    )
    found = {"form_cut": cuts, "form_cut_member": members}
    return (
        problem,
        "dispersion",
        {**one.arrays, **found} | {f"{name}_start": integers(0, array.size) for name, array in found.items()},
    )


#: Bombs, and what both say; the first number is only the package's where it computes with arrays, which take less time.
BOMBS = {
    "a spine over groups": (exclusion_bomb, "steps; at most"),
    "a spine over candidates": (coverage_bomb, "steps; at most"),
    "wide points": (lambda: points_bomb(2**10, 2**10, 2**10), "steps; at most"),
    "many points": (lambda: points_bomb(2**14, 2**6, 2**12), "steps; at most"),
    "an identity of classes": (balance_bomb, "steps; at most"),
    "forms of all clients": (forms_bomb, "more than 16777216 numbers"),
    "fractions of groups": (lambda: fractions_bomb("allocation"), "steps; at most"),
    "fractions of weights": (lambda: fractions_bomb("total-error"), "steps; at most"),
    "powers": (decimals_bomb, "steps; at most"),
    "cuts of many members": (cuts_bomb, "pairs of members"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_work_is_bounded_before_it_is_done(name):
    make, said = BOMBS[name]
    problem, kind, arrays = make()
    lie = Certificate(kind, problem_digest(problem), 1e300 if problem.sense == "max" else -1e300, 0, arrays)
    with pytest.raises(CertificateError, match=said):
        check(problem, lie)
    with pytest.raises(check_certificate.Refused, match=said):
        by_one_file(problem, lie)


def test_stages_of_wide_factors_are_too_many_for_the_one_file():
    problem, kind, arrays = stages_bomb()
    lie = Certificate(kind, problem_digest(problem), 1e300, 0, arrays)
    with pytest.raises(check_certificate.Refused, match="steps; at most"):
        by_one_file(problem, lie)


@pytest.mark.parametrize("n", few_of([1_000, 2_000], 1))
def test_a_long_spine_is_walked_without_copies(n):
    """Each of n open sides held a table of all groups, or a state of all candidates: now a few numbers each."""
    importance = np.arange(1, n + 1) / (n * (n + 1) / 2)
    problem = ExclusionProblem(importance, np.ones(n), 0.0, np.ones(n), np.zeros(n))
    tree = np.column_stack([np.arange(n), np.zeros(n, int)]).ravel()
    lie = Certificate("exclusion", problem_digest(problem), -1e300, 0, {"target": integers(0), "tree": tree})
    as_read(problem)
    for reader, error in ((check, CertificateError), (by_one_file, check_certificate.Refused)):
        tracemalloc.start()
        with pytest.raises(error, match="a branch"):
            reader(problem, lie)
        assert tracemalloc.get_traced_memory()[1] < 2 * n * n
        tracemalloc.stop()
    cover = CoverageProblem(np.zeros((1, n)), n - 1)
    arrays = {"goal": integers(-1), **spine(n - 1), "looks": np.zeros(n - 1, int), "multiplier": NONE}
    lie = Certificate("coverage", problem_digest(cover), 1e300, 0, arrays)
    as_read(cover)
    assert check(cover, lie) == by_one_file(cover, lie) == 0.0


def test_side_constraints_are_followed_so_far(monkeypatch):
    """A thousand quotas of which each fixes one client more: the steps are counted on the way."""
    problem = DispersionProblem(np.zeros((9, 9)), size=4, quotas=[Quota(range(k + 2), 1, 3) for k in range(6)])
    tree = replace(every_branch(problem, grid=0, goal=5), bound=1e3)
    arrays = {**tree.arrays, "form": np.full(tree.arrays["form"].size, -1), "point": NONE}
    tree = replace(tree, arrays=arrays)
    assert check(problem, tree) == by_one_file(problem, tree)
    monkeypatch.setattr(check_certificate, "WORK", 150_000)
    monkeypatch.setattr("solvers.certificates.exact.sides._STEPS", 150_000)
    with pytest.raises(CertificateError, match="to follow the side constraints takes more than"):
        check(problem, tree)
    monkeypatch.setattr(check_certificate, "afford_all", lambda kind, problem, given: None)
    monkeypatch.setattr(check_certificate, "WORK", 2_000)
    with pytest.raises(check_certificate.Refused, match="to read side constraints takes"):
        by_one_file(problem, tree)


def test_values_that_can_be_had_are_counted_without_their_number():
    """Choices of 2 000 000 pairs among 3 000 distances: their number alone took minutes."""
    assert not attainable._are_few(3_000, 2_000_000)
    assert attainable._are_few(1, 10**9)
    for values in range(1, 9):
        for count in range(9):
            few = comb(count + values - 1, count) <= attainable.MOST
            assert attainable._are_few(values, count) == few == check_certificate.has_few_sums(values, count)


def test_kinds_are_few_in_the_one_file():
    kinds = KindDispersionProblem([[0.0, 1.0], [1.0, 0.0]], kinds=np.arange(2_049) % 2, size=2)
    lie = replace(one_node(kinds, bound=2.0, grid=0, goal=2), kind="kinds")
    with pytest.raises(check_certificate.Refused, match=r"too many clients|steps"):
        by_one_file(kinds, lie)


def test_shortage_of_memory_is_a_refusal(monkeypatch):
    """Whatever is left: no other error than one that is named."""
    problem = OptimizationErrorProblem(np.ones(2), np.ones(2), 1.0, 1.0)
    good = Certificate("optimization-error", problem_digest(problem), -1e300, 0, {"q": integers(1, 1)})
    assert np.isfinite(check(problem, good))
    equal = DispersionProblem(1.0 - np.eye(4), size=2)
    other = replace(every_branch(equal, grid=0), bound=1e300)
    assert np.isfinite(check(equal, other))
    for error in (MemoryError(), RecursionError(), OverflowError(), ZeroDivisionError()):

        def fails(*_, error=error):
            raise error

        monkeypatch.setitem(check_certificate.CHECKS, good.kind, fails)
        monkeypatch.setitem(checking.CHECKERS, other.kind, fails)
        with pytest.raises(CertificateError):
            check(problem, good)
        with pytest.raises(CertificateError):
            check(equal, other)


def test_masked_arrays_are_no_numbers():
    problem = OptimizationErrorProblem(np.ones(2), np.ones(2), 1.0, 1.0)
    for mask in (True, False, [True, False]):
        masked = np.ma.MaskedArray(integers(1, 1), mask=mask)
        lie = Certificate("optimization-error", problem_digest(problem), -1e300, 0, {"q": masked})
        with pytest.raises(CertificateError, match="must hold whole numbers, not MaskedArray"):
            check(problem, lie)
