"""Certificates of pools: what they list, what they bound, and what a liar cannot say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers import Solution, solve
from solvers.certificates import Certificate, CertificateError, check, check_certificate, check_pool
from solvers.certificates.check_certificate import pool_lines
from solvers.dispersion import DispersionProblem, KindDispersionProblem
from solvers.dispersion.quadratic import QuadraticProblem
from tests.solvers.certificates.test_soundness import as_read, second
from tests.solvers.test_pool import every_selection, random_problem
from tests.thoroughly import few_of


def agree(problem, certificate) -> float | None:
    """What both checkers say; None where they refuse."""
    try:
        one = check(problem, certificate)
    except CertificateError:
        one = None
    assert one == second(problem, certificate)
    return one


@pytest.mark.parametrize("statement", ["matrix", "kinds"])
@pytest.mark.parametrize("seeds", few_of([range(8), range(8, 300)], 1))
def test_both_checkers_prove_the_pool_and_no_liar_passes(statement, seeds, asserted):
    """Omit a member, list one twice, call one vetoed, hide a better one among the vetoed, exchange two, invent one."""
    pools, lies = asserted(len(seeds) // 2), asserted(len(seeds))
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        problem = random_problem(rng, statement)
        if problem is None:
            continue
        asked = {"pool": int(rng.integers(1, 8))}
        if rng.random() < 0.3:
            asked["diverse"] = int(rng.integers(1, 3))
        veto = (lambda ids: int(ids.sum()) % 3 == 0) if rng.random() < 0.3 else None
        found = solve(problem, certificate=True, veto=veto, **asked)
        certificate = found.certificate
        if certificate is None:
            assert found.status == "infeasible", found.certificate_report
            continue
        assert agree(problem, certificate) is not None
        proof = check_pool(problem, certificate, veto)
        assert [ids for ids, _ in proof.members] == [tuple(each.selected.tolist()) for each in found.pool]
        assert set(proof.vetoed) == {tuple(each.selected.tolist()) for each in found.vetoed}
        assert proof.is_complete
        pools()
        if asked.get("diverse", 1) == 1:
            listed = {ids for ids, _ in proof.members} | set(proof.vetoed)
            others = [value for value, ids in every_selection(problem) if ids not in listed]
            assert all(value <= proof.bound + problem.rounding for value in others)
        for lie in forged(problem, found, rng):
            lists = lie.arrays["pool"].size + lie.arrays["vetoed"].size > 0
            if agree(problem, lie) is not None and lists:  # what passes says something true
                assert is_true(problem, check_pool(problem, lie)), (seed, lie.arrays["pool"])
            lies()


def is_true(problem, proof) -> bool:
    """Whether what a certificate proves holds by enumeration."""
    every = {ids: value for value, ids in every_selection(problem)}
    listed = {ids for ids, _ in proof.members} | set(proof.vetoed)
    near = proof.error + problem.rounding
    if any(abs(every[ids] - value) > near for ids, value in proof.members):
        return False
    for ids, value in every.items():
        is_near = any(len(set(ids) - set(other)) < proof.diverse and value <= v + near for other, v in proof.members)
        if ids not in listed and not is_near and value > proof.bound + near:
            return False
    last = proof.members[-1][1] if proof.members else None
    return not proof.is_complete or (last is not None and proof.bound <= last + problem.tolerance_at(last))


def forged(problem, found: Solution, rng) -> list[Certificate]:
    """Certificates that state another pool over the same search."""
    certificate, m = found.certificate, problem.size
    assert certificate is not None
    pool = np.asarray(certificate.arrays["pool"]).reshape(-1, m)
    arrays = dict(certificate.arrays)
    vetoed = np.asarray(arrays.get("vetoed", np.zeros(0, dtype=np.int64))).reshape(-1, m)
    other = np.sort(rng.permutation(problem.n)[:m])
    changed = [
        {"pool": np.delete(pool, rng.integers(len(pool)), axis=0), "vetoed": vetoed},
        {"pool": np.concatenate([pool, pool[:1]]), "vetoed": vetoed},
        {"pool": pool, "vetoed": np.concatenate([vetoed, pool[:1]])},
        {"pool": pool[1:], "vetoed": np.concatenate([vetoed, pool[:1]])},
        {"pool": pool[::-1], "vetoed": vetoed},
        {"pool": np.concatenate([pool, other[None]]), "vetoed": vetoed},
        {"pool": pool[:, ::-1], "vetoed": vetoed},
    ]
    return [
        replace(certificate, arrays=arrays | {name: each.astype(np.int64).ravel() for name, each in one.items()})
        for one in changed
    ]


@pytest.fixture(scope="module")
def problem() -> DispersionProblem:
    points = np.random.default_rng(5).random((20, 2))
    return DispersionProblem.from_points(points, np.arange(20.0) / 40, size=5)


@pytest.fixture(scope="module")
def found(problem) -> Solution:
    return solve(problem, pool=5, certificate=True)


def listing(certificate, **arrays):
    kept = {name: each for name, each in certificate.arrays.items() if name not in arrays}
    return replace(certificate, arrays=kept | {name: np.array(each) for name, each in arrays.items()})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda pool: pool[1:], "worth more than the goal, and is not listed"),
        (lambda pool: pool[[0, 2, 3, 4]], "worth more than the goal, and is not listed"),
        (lambda pool: pool[[0, 0, 1, 2, 3, 4]], "listed twice"),
        (lambda pool: pool[[1, 0, 2, 3, 4]], "best first"),
        (lambda pool: pool[:, ::-1], "rising order"),
        (lambda pool: pool.ravel()[1:], "5 clients each"),
    ],
)
def test_another_list_is_refused_by_both(problem, found, change, sentence):
    pool = np.asarray(found.certificate.arrays["pool"]).reshape(-1, problem.size)
    lie = listing(found.certificate, pool=change(pool).ravel())
    with pytest.raises(CertificateError, match=sentence):
        check(problem, lie)
    assert second(problem, lie) is None


def test_a_member_that_breaks_a_constraint_is_refused(problem):
    sides = DispersionProblem(problem.distances, problem.costs, size=5, conflicts=[(0, 1)])
    certificate = solve(sides, pool=2, certificate=True).certificate
    pool = np.asarray(certificate.arrays["pool"])
    lie = listing(certificate, pool=np.concatenate([pool, [0, 1, 2, 3, 4]]))
    with pytest.raises(CertificateError, match="does not keep the side constraints"):
        check(sides, lie)
    assert second(sides, lie) is None


def test_members_that_are_too_near_are_refused(problem, found):
    near = listing(found.certificate, diverse=[5])
    with pytest.raises(CertificateError, match="differ in fewer than 5 clients"):
        check(problem, near)
    assert second(problem, near) is None


def test_a_veto_must_say_what_the_certificate_says(problem):
    best = set(solve(problem).selected)
    solution = solve(problem, pool=2, veto=lambda ids: set(ids) == best, certificate=True)
    certificate = solution.certificate
    assert len(check_pool(problem, certificate, lambda ids: set(ids) == best).vetoed) == 1
    with pytest.raises(CertificateError, match="as refused, which the veto does not refuse"):
        check_pool(problem, certificate, lambda ids: False)
    with pytest.raises(CertificateError, match="as a member, which the veto refuses"):
        check_pool(problem, certificate, lambda ids: True)
    # The bound is one of all selections, of what was refused as well; that of the solution is not.
    assert check(problem, certificate) >= solution.vetoed[0].objective > solution.bound
    again = solve(problem, start=solution)
    assert set(again.selected) == best


def test_the_one_file_prints_what_is_listed(problem, found, tmp_path, capsys):
    files = [str(problem.save(tmp_path / "p.npz")), str(found.certificate.save(tmp_path / "c.npz"))]
    assert check_certificate.main(files) == 0
    printed = capsys.readouterr().out.splitlines()
    proof = check_pool(problem, found.certificate)
    assert printed[1] == f"every selection but 5 is no better than {proof.bound!r}:"
    assert [line.split(": ")[1] for line in printed[2:]] == [str(list(ids)) for ids, _ in proof.members]
    assert pool_lines(as_read(problem)) == []


def test_a_quadratic_problem_has_its_pool_in_its_own_units(asserted):
    cases = asserted(8)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        half = rng.normal(size=(8, 8))
        problem = QuadraticProblem(half + half.T, size=3, sense=("max", "min")[seed % 2], constant=5.0)
        solution = solve(problem, pool=4, certificate=True)
        values = [problem.objective(each) for each in selections(problem)]
        sign = 1 if problem.sense == "max" else -1
        wanted = sorted(values, reverse=sign > 0)[:4]
        assert np.allclose([each.objective for each in solution.pool], wanted)
        proof = check_pool(problem, solution.certificate)
        assert np.allclose([value for _, value in proof.members], wanted)
        assert sign * (proof.bound - wanted[-1]) <= 1e-6
        best = max(values, key=lambda value: sign * value)
        near = [value for value in values if sign * (best - value) <= 0.2 * abs(best)]
        assert len(solve(problem, within=0.2).pool) == len(near)
        cases()


def selections(problem):
    return (problem.feasible.decision(np.array(each)) for each in problem.feasible.selections())


def test_no_certificate_of_a_pool_where_there_is_no_form(problem, found):
    plain = solve(problem, certificate=True).certificate
    with pytest.raises(CertificateError, match="lists no selections"):
        check_pool(problem, plain)
    kinds = KindDispersionProblem(np.ones((2, 2)), np.arange(8) % 2, size=3)
    refused = solve(kinds, veto=lambda ids: True, certificate=True)
    assert refused.certificate is None
    assert "a veto refuses every selection" in refused.certificate_report["none"]
