"""Certificates of level-1 RLT multipliers: any numbers against enumeration, and what a liar would write."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from solvers import solve
from solvers.certificates import CertificateError, check
from solvers.certificates.exact.concave import Rounded
from solvers.certificates.exact.rlt import row_values
from solvers.certificates.schema import SCHEMAS, validated
from solvers.dispersion import DispersionProblem
from solvers.dispersion.methods.rlt import descend, sift
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.tree.rlt_log import RltLog
from solvers.run import Run
from tests.solvers.certificates.test_soundness import alike, integers, refused, second, with_rlt
from tests.solvers.dispersion.instances import KINDS, random_problem
from tests.thoroughly import few_of


def exact_best(problem):
    """The optimum as a fraction: of the doubles of the problem, in exact arithmetic."""
    weight, h, c = Fraction(problem.weight), problem.distances, problem.costs
    values = []
    for chosen in problem.feasible.selections():
        pairs = sum(Fraction(float(h[i, j])) for i in chosen for j in chosen)
        values.append(weight * pairs - sum(Fraction(float(c[i])) for i in chosen))
    return max(values)


def least_goal(problem, certificate):
    """The smallest goal that each of the stages alone proves, over all clients: the m largest values."""
    data = Rounded.of(problem, certificate.grid)
    arrays = validated(SCHEMAS["rlt"], problem, certificate.grid, certificate.arrays)
    everybody = np.arange(problem.n)
    return [int(np.sort(row_values(data, arrays, k, everybody))[-problem.size :].sum()) for k in (0, 1)]


@pytest.mark.parametrize("batch", few_of(range(60), 1))
def test_any_multipliers_prove_a_bound(batch):
    """Prices, cores, squares and moves at random, of either sign, twice for a pair: 50 cases a batch, both checkers."""
    rng, proofs = np.random.default_rng(batch), 0
    for case in range(50):
        problem = random_problem(rng, int(rng.integers(3, 8)), 2, KINDS[case % len(KINDS)])
        if problem.n > 4:
            problem = replace(problem, size=int(rng.integers(1, problem.n)))
        grid = int(np.frexp(problem.scale)[1]) - int(rng.integers(4, 12))
        some = with_rlt(problem, rng, bits=int(rng.integers(1, 12)), grid=grid)
        best = exact_best(problem)
        for goal in {*least_goal(problem, some), int(best / Fraction(2) ** grid)}:
            stated = replace(some, arrays=some.arrays | {"goal": integers(goal)})
            try:
                proved = check(problem, stated)
            except CertificateError:  # clients are left, and no search says anything of them
                assert second(problem, stated) is None
            else:
                assert Fraction(proved) >= best
                assert second(problem, stated) == proved
                proofs += 1
    assert proofs > 25


@pytest.mark.parametrize("seed", few_of(range(40), 1))
def test_what_the_method_writes_is_its_bound(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 14, int(rng.integers(2, 5)), ["uniform", "euclidean", "graph"][seed % 3])
    solution = solve(problem, "rlt", certificate=True)
    proved = check(problem, solution.certificate)
    # What swaps and the bound at the start prove leaves nothing to write down.
    assert solution.certificate.kind == ("rlt" if solution.details["iterations"] else "dispersion")
    assert second(problem, solution.certificate) == proved == solution.certificate.bound
    assert Fraction(proved) >= exact_best(problem)
    assert proved <= solution.bound + 1e-3 * (solution.bound - solution.objective) + 1e-6 * problem.scale
    below = float(exact_best(problem)) - 1e-6 * problem.scale  # nearer, attainable values may make up for it
    refused(problem, replace(solution.certificate, bound=below), "proves only")


def sifted(seed):
    """A problem, its run, and the stages of multipliers over cores of few clients."""
    rng = np.random.default_rng(seed)
    points = rng.dirichlet(np.full(8, 0.5), 26)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    problem = DispersionProblem(h, rng.integers(0, 3, 26) * 0.05, size=3, weight=1 / 6)
    run, stages = Run(problem, "rlt", None, 0), RltLog(problem)
    run.offer(solve(problem, "local-search").x)
    run.tighten(problem.trivial_bound())
    rows = RowRelaxation(ScaledProblem.of(problem), run)
    descend(problem, run, rows, 5, stages)
    sift(problem, run, rows, stages=stages)
    return problem, run, stages


@pytest.mark.parametrize("seed", few_of(range(12), 1))
def test_squares_of_a_core_are_written_down(seed):
    problem, run, stages = sifted(seed)
    certificate = stages.certificate(run)
    assert any(stage.factor.size for stage in stages.stages)
    proved = check(problem, certificate)
    assert second(problem, certificate) == proved
    assert Fraction(proved) >= exact_best(problem)
    assert proved <= run.bound + 0.01 * problem.scale


@pytest.mark.parametrize(("n", "size", "labels"), few_of([(150, 4, 8), (160, 5, 12)], 1))
def test_auto_writes_rows_and_a_tree_over_whom_they_leave(n, size, labels):
    rng = np.random.default_rng(n)
    points = rng.dirichlet(np.full(labels, 0.3), n)
    h = np.linalg.norm(points[:, None] - points, axis=2)
    problem = DispersionProblem(h, rng.integers(0, 4, n) * 0.05, size=size, weight=1 / (size * (size - 1)))
    solution = solve(problem, certificate=True)
    assert (solution.status, solution.certificate.kind) == ("optimal", "rlt")
    proved = check(problem, solution.certificate)
    assert solution.objective <= proved <= solution.objective + 1e-6
    assert second(problem, solution.certificate) == proved
    nodes = solution.certificate.arrays["origin"].size  # where the rows leave more than one selection
    below = replace(solution.certificate, bound=solution.objective - 1e-6)
    refused(problem, below, "proves only|missing")
    assert nodes < 20


def test_by_hand():
    """Three clients, two chosen, all one apart: worth 2, and the halves of a pair sum to 2 whatever moves."""
    problem = alike(3, 2)
    plain = with_rlt(problem, np.random.default_rng(0), grid=0)
    none = {f"stage_{name}": integers() for name in ("ids", "price", "core", "factor", "moved")}
    starts = {f"{name}_start": integers(0, 0) for name in none}
    plain = replace(plain, arrays=plain.arrays | none | starts | {"stage_halvings": integers(0)})

    def proves(goal, **arrays):
        stated = {f"stage_{name}": integers(*numbers) for name, numbers in arrays.items()}
        stated |= {f"{name}_start": integers(0, array.size) for name, array in stated.items()}
        one = replace(plain, arrays=plain.arrays | stated | {"goal": integers(goal)})
        try:
            proved = check(problem, one)
        except CertificateError:
            assert second(problem, one) is None
            return False
        assert second(problem, one) == proved == goal
        return True

    assert proves(2)
    assert not proves(1)
    # Client 0 takes 3 more of the pair with 1, which gets 1 - 3: values 4, 1 and 1.
    assert proves(5, moved=[0, 1, 3])
    assert not proves(4, moved=[0, 1, 3])
    # A price of 1 more for client 0: its shares are 2, the others' 0 with it and 1 among each other.
    assert proves(3, ids=[0], price=[1])
    assert not proves(2, ids=[0], price=[1])
    # Client 0 is the core and takes 2 · 1 of each pair: the same.
    assert proves(3, ids=[0], price=[1], core=[0])
    # (s0 - s1)² adds 1 for each of the two, and -1 to their pair's halves: values 2, 2 and 1.
    squared = {"ids": [0, 1], "price": [0, 0], "factor": [1, -1]}
    assert proves(4, **squared)
    assert proves(3, **squared)  # client 2 is left out, and the one selection of the others is evaluated
    assert not proves(2, **squared)


def test_lies_are_refused():
    problem = DispersionProblem(alike(8, 3).distances, np.arange(8.0), size=3)
    true = solve(random_problem(np.random.default_rng(1), 12, 3, "uniform"), "rlt", certificate=True).certificate
    few = with_rlt(problem, np.random.default_rng(3), grid=0)
    assert true.kind == "rlt"

    def told(match, **arrays):
        stated = {f"stage_{name}": array for name, array in arrays.items()}
        refused(problem, replace(few, arrays={**few.arrays, **stated}), match)

    def first_stage(**given):
        """Arrays of which the first stage has all."""
        found = {}
        for name, array in given.items():
            found |= {name: integers(*array), f"{name}_start": integers(0, len(array), len(array))}
        return found

    assert check(problem, few) < 1e300
    told("names a client twice", **first_stage(ids=[2, 2], price=[1, 1], factor=[]))
    told("are no rows", **first_stage(ids=[1, 2], price=[1, 1], factor=[1, 1, 1]))
    told("are no rows", **first_stage(ids=[], price=[], factor=[1]))
    told("are no rows", **first_stage(ids=[1], price=[1], factor=[1] * 513))
    told("not of two clients", **first_stage(moved=[0, 8, 1]))
    told("not of two clients", **first_stage(moved=[-1, 0, 1]))
    told("groups of 3|whole number of groups", **first_stage(moved=[0, 1]))
    told("as long as", **first_stage(ids=[1, 2], price=[1], factor=[]))
    told("between", halvings=integers(41, 0))
    told("entries", halvings=integers(0))
    huge = {"ids": [0, 1], "price": [0, 0], "factor": [1 << 26] * 1024}
    told("too large", **first_stage(**huge), halvings=integers(0, 0))
    # What a client gets the other lacks: a goal below the optimum closes nothing.
    refused(problem, replace(few, arrays=few.arrays | {"goal": integers(-3)}), "missing")
