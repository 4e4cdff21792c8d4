"""The checker of certificates: those it accepts are true, and what was tampered with is refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from solvers.certificates import Certificate, CertificateError, check
from solvers.certificates.exact.concave import Rounded
from solvers.certificates.exact.dispersion import FREE, ONE, ZERO, CheckedForm, decided, fixed, implied
from solvers.dispersion import DispersionProblem
from solvers.dispersion.tree.certificate_builder import CertificateBuilder, on_grain
from tests.thoroughly import few_of

GRAIN = 1 << 12


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
    """A plain branch and bound over one root form, written down: shift by the largest eigenvalue, uniform points."""
    record = CertificateBuilder(problem)
    q = problem.weight * problem.distances
    n, m = problem.n, problem.size
    shift = float(np.linalg.eigvalsh(q)[-2 if n > 2 else -1]) + 0.1 * problem.weight * float(problem.distances.max())
    pairs = np.array([pair for pair in itertools.permutations(range(n), 2) if dominance and certainly(problem, *pair)])
    pairs = pairs.reshape(-1, 2).astype(np.int64)
    index, form = record.form(pairs[:0, 0], np.arange(n), np.full(n, shift), better=pairs)
    multipliers = CheckedForm(form, pairs, GRAIN)
    whole = math.floor((Fraction(goal) - record.data.error) / record.data.unit)
    nodes = []

    def visit(origin, state, above):
        if decided(record.data, state) is not None or any(each.closes(state, m, whole) for each in above):
            return
        free, chosen = state == FREE, state == ONE
        y = np.where(chosen, 1.0, np.where(free, (m - chosen.sum()) / free.sum(), 0.0))
        point = on_grain(y, m, GRAIN)
        tangent = multipliers.tangent(point, state)
        left, number = fixed(tangent, state, m, whole), len(nodes)
        closed = left is None or not implied(left, multipliers.better) or decided(record.data, left) is not None
        client = -1 if closed else int(np.flatnonzero(left == FREE)[0])
        nodes.append((index, np.array([origin]), np.array([client]), point[None]))
        for value in () if closed else (ONE, ZERO):
            child = left.copy()
            child[client] = value
            if implied(child, multipliers.better):
                visit(2 * number + (value == ONE), child, (*above, tangent))

    visit(-1, np.zeros(n, dtype=np.int8), ())
    return record.certificate(goal + 1e-6 * problem.scale, whole, GRAIN, nodes)


def certainly(problem, i, j):
    """Whether exchanging j for i gains something beside any others."""
    others = np.setdiff1d(np.arange(problem.n), [i, j])
    gains = np.sort(problem.distances[i, others] - problem.distances[j, others])[: problem.size - 1]
    return 2 * problem.weight * gains.sum() - problem.costs[i] + problem.costs[j] > 1e-9 * problem.scale


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


def test_what_is_decided():
    """One selection left is evaluated; none is worth nothing at all; of several nothing is said."""
    problem = DispersionProblem(np.rint(random_problem(np.random.default_rng(0), 4, 2, "uniform").distances), size=2)
    data = Rounded.of(problem, 0)
    for state, left in (
        ((ONE, FREE, ONE, FREE), (0, 2)),  # as many as there are to be
        ((ONE, FREE, ZERO, ZERO), (0, 1)),  # all that are left
        ((ZERO, ZERO, FREE, FREE), (2, 3)),
        ((ONE, ZERO, ZERO, ZERO), None),  # too few
        ((ONE, ONE, FREE, ONE), None),  # too many
    ):
        worth = -math.inf if left is None else problem.objective(np.isin(np.arange(4), left).astype(int))
        assert decided(data, np.array(state, dtype=np.int8)) == worth
    assert decided(data, np.array([ONE, FREE, FREE, ZERO], dtype=np.int8)) is None


@pytest.mark.parametrize("seed", range(40))
def test_what_is_implied_holds_in_everything_left_and_nothing_else(seed):
    """Beside all 0/1 vectors that agree with what is fixed, and in which the first of a pair comes with the second."""
    rng = np.random.default_rng(seed)
    better = rng.random((5, 5)) < 0.15
    np.fill_diagonal(better, False)
    state = rng.choice([FREE, FREE, FREE, ONE, ZERO], 5).astype(np.int8)
    agree = [
        s
        for s in itertools.product((0, 1), repeat=5)
        if all(known == FREE or (known == ONE) == chosen for known, chosen in zip(state, s, strict=True))
        and all(s[i] or not s[j] for i, j in np.argwhere(better))
    ]
    assert implied(state, better) == bool(agree)
    if agree:
        always, never = np.all(agree, axis=0), ~np.any(agree, axis=0)
        assert state.tolist() == np.where(always, ONE, np.where(never, ZERO, FREE)).tolist()


def test_another_problem_is_refused():
    rng = np.random.default_rng(1)
    one, other = (random_problem(rng, 7, 3, "uniform") for _ in range(2))
    with pytest.raises(CertificateError, match="another problem"):
        check(other, searched(one, goal=optimum(one) + 1))


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
    with np.load(good.save(path)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays["header"]))
    for change, sentence in (
        ({"goal": arrays["goal"] + 1}, "was changed or damaged"),
        ({"header": np.array(json.dumps({**header, "grid": float(good.grid)}))}, "its grid is"),
        ({"header": np.array(json.dumps({**header, "bound": (good.bound - 1).hex()}))}, "was changed or damaged"),
        ({"header": np.array(json.dumps({**header, "format": "solvers-certificate/2"}))}, "it has format"),
        ({"goal": arrays["goal"].astype(float)}, "must hold whole numbers"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(CertificateError, match=sentence):
            Certificate.load(path)
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, header=np.array({"format": "x"}, dtype=object))
    with pytest.raises(CertificateError, match="not a certificate file"):
        Certificate.load(pickled)
