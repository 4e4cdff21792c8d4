"""The reader of certificates: proofs it accepts are true, and what was tampered with is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.certificates import Certificate, CertificateError, check
from solvers.dispersion import DispersionProblem
from solvers.dispersion.search.record import Record
from tests.thoroughly import few_of


def random_problem(rng, n, m, kind):
    if kind == "points":
        points = rng.normal(size=(n, 3))
        h = np.linalg.norm(points[:, None] - points, axis=2)
    else:
        h = rng.integers(0, 5, (n, n)).astype(float) if kind == "integers" else rng.uniform(0, 10, (n, n))
        h = np.triu(h, 1) + np.triu(h, 1).T
    scale = {"tiny": 1e-9, "huge": 1e9}.get(kind, 1.0)
    return DispersionProblem(h * scale, rng.normal(size=n) * scale, size=m, weight=float(rng.uniform(0.1, 2)))


def optimum(problem):
    best = -math.inf
    for chosen in itertools.combinations(range(problem.n), problem.size):
        x = np.zeros(problem.n, dtype=int)
        x[list(chosen)] = 1
        best = max(best, problem.objective(x))
    return best


def searched(problem, *, goal, dominance=False):
    """A plain branch and bound over one root form, written down: shift by the largest eigenvalue, uniform point."""
    record = Record(problem)
    q = problem.weight * problem.distances
    n, m = problem.n, problem.size
    shift = float(np.linalg.eigvalsh(q)[-2 if n > 2 else -1]) + 0.1 * problem.weight * problem.diameter
    form = record.form(np.zeros(0, dtype=int), np.arange(n), np.full(n, shift))
    matrix, linear = q - shift * np.eye(n), shift - problem.costs
    bound = -math.inf

    def visit(ones, zeros, y):
        nonlocal bound
        free = [i for i in range(n) if i not in ones and i not in zeros]
        missing = m - len(ones)
        if missing < 0 or missing > len(free) or missing in (0, len(free)):
            record.decided()
            if 0 <= missing <= len(free):
                x = np.zeros(n, dtype=int)
                x[[*ones, *(free if missing else [])]] = 1
                bound = max(bound, problem.objective(x))
            return
        if dominance:
            for j, i in itertools.product(ones, zeros):
                company = sorted(2 * q[i, k] - 2 * q[j, k] for k in free)[:missing]
                fixed = sum(2 * q[i, k] - 2 * q[j, k] for k in ones if k != j)
                if fixed + sum(company) - problem.costs[i] + problem.costs[j] > 1e-9:
                    record.dominated(i, j)
                    return
        y = np.where(np.isin(np.arange(n), ones), 1.0, np.where(np.isin(np.arange(n), zeros), 0.0, missing / len(free)))
        gradient = linear + 2 * matrix @ y
        value = gradient[ones].sum() + np.sort(gradient[free])[::-1][:missing].sum() - y @ matrix @ y
        if value < goal:
            record.tangent(record.point(form, y))
            bound = max(bound, value)
            return
        client = free[0]
        record.branch(client)
        visit([*ones, client], zeros, y)
        visit(ones, [*zeros, client], y)

    visit([], [], None)
    return record.certificate(bound + 1e-6 * problem.scale)


def proves(problem, certificate):
    try:
        return check(problem, certificate)
    except CertificateError:
        return None


CASES = [(kind, seed) for kind in ("points", "uniform", "integers", "tiny", "huge") for seed in range(6)]


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_what_it_accepts_is_true_and_tight(kind, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 9, int(rng.integers(1, 9)), kind)
    best = optimum(problem)
    goal = best + 0.05 * problem.scale
    verified = check(problem, searched(problem, goal=goal, dominance=seed % 2 == 1))
    assert verified >= best
    assert verified <= goal + 2e-6 * problem.scale


def test_a_claim_below_the_optimum_is_refused():
    problem = random_problem(np.random.default_rng(3), 8, 3, "uniform")
    good = searched(problem, goal=optimum(problem) + 0.1)
    lower = replace(good, bound=optimum(problem) - 1e-6)
    with pytest.raises(CertificateError, match="proves only"):
        check(problem, lower)


@pytest.mark.parametrize("block", few_of(range(5), 1))
def test_no_mutation_proves_anything_false(block):
    """Single numbers changed: refused with a sentence, or what is accepted is still true."""
    rng = np.random.default_rng(block)
    problem = random_problem(rng, 7, 3, "uniform")
    best = optimum(problem)
    good = searched(problem, goal=best + 0.3, dominance=True)
    claims_too_little = replace(good, bound=best - 1e-3)
    refused = 0
    names = [name for name, array in good.arrays.items() if array.size]
    for trial in range(400):
        base = claims_too_little if trial % 2 else good
        arrays = {name: array.astype(np.int64).copy() for name, array in base.arrays.items()}
        name = names[int(rng.integers(len(names)))]
        place = int(rng.integers(arrays[name].size))
        old = arrays[name].flat[place]
        arrays[name].flat[place] = rng.choice([old + 1, old - 1, -old, 0, int(rng.integers(-(2**40), 2**40)), 2**62])
        proved = proves(problem, replace(base, arrays=arrays))
        refused += proved is None
        assert proved is None or (proved >= best and base is good)
    assert refused >= 200


def test_missing_branches_are_named():
    problem = random_problem(np.random.default_rng(5), 8, 4, "uniform")
    good = searched(problem, goal=optimum(problem) + 0.1)
    cut = {**good.arrays, "tree": good.arrays["tree"][:-2]}
    with pytest.raises(CertificateError, match=r"ends before node \d+: a branch is missing"):
        check(problem, replace(good, arrays=cut))
    more = {**good.arrays, "tree": np.append(good.arrays["tree"], -4)}
    with pytest.raises(CertificateError, match="left over"):
        check(problem, replace(good, arrays=more))


def test_another_problem_is_refused():
    rng = np.random.default_rng(1)
    one, other = (random_problem(rng, 7, 3, "uniform") for _ in range(2))
    with pytest.raises(CertificateError, match="another problem"):
        check(other, searched(one, goal=optimum(one) + 1))


def test_symmetry_closes_the_other_side():
    """On a cycle every client is like every other: the first may be taken for chosen."""
    n, m = 8, 3
    around = np.abs(np.arange(n)[:, None] - np.arange(n))
    problem = DispersionProblem(np.minimum(around, n - around).astype(float), size=m)
    record = Record(problem)
    turns = [record.permutation((np.arange(n) + k) % n) for k in range(n)]
    rest = [0]

    def below(ones, zeros):
        free = [i for i in range(n) if i not in ones and i not in zeros]
        if m - len(ones) in (0, len(free)) or m - len(ones) > len(free):
            record.decided()
            return
        record.branch(free[0])
        below([*ones, free[0]], zeros)
        below(ones, [*zeros, free[0]])

    record.branch(0)
    below([0], [])
    for client in range(1, n):  # without 0: whoever is chosen can be turned onto 0
        if m > n - len(rest):
            break
        record.branch(client)
        record.symmetric(turns[-client % n], 0)
        rest.append(client)
    record.decided()
    certificate = record.certificate(optimum(problem))
    assert check(problem, certificate) == optimum(problem)
    wrong = certificate.arrays["permutations"].copy()
    wrong[2 * n + np.array([0, 1])] = wrong[2 * n + np.array([1, 0])]
    with pytest.raises(CertificateError, match="does not leave the distances"):
        check(problem, replace(certificate, arrays={**certificate.arrays, "permutations": wrong}))
    turned = {**certificate.arrays, "permutations": np.roll(certificate.arrays["permutations"], n)}
    with pytest.raises(CertificateError, match="does not carry it"):
        check(problem, replace(certificate, arrays=turned))


def test_files(tmp_path):
    problem = random_problem(np.random.default_rng(2), 8, 3, "points")
    good = searched(problem, goal=optimum(problem) + 0.1)
    path = good.save(tmp_path / "proof.npz")
    read = Certificate.load(path)
    assert read.digest == good.digest
    assert check(problem, read) == check(problem, good)
    content, refused = path.read_bytes(), 0
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(bytes(damaged))
        try:
            assert Certificate.load(path).digest == good.digest  # a time stamp, say
        except CertificateError:
            refused += 1
    assert refused > len(content) / 14
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, header=np.array({"format": "x"}, dtype=object))
    with pytest.raises(CertificateError, match="not a certificate file"):
        Certificate.load(pickled)
