"""Quadratic fixing in certificates: its curvature in both checkers, what is written, and lies about it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from solvers import solve
from solvers.benchmark.rounds import Round
from solvers.certificates import check, check_certificate
from solvers.certificates.exact.concave import curvatures, largest_of
from solvers.certificates.schema import POINT
from solvers.dispersion import DispersionProblem, certificates
from solvers.dispersion.methods.fixing import close_rest, fix_by_counts, fix_clients
from solvers.dispersion.policy import Policy
from solvers.dispersion.relaxations.cuts import Cuts
from solvers.dispersion.tree.certificate import CertificateTree
from solvers.run import Run
from solvers.solution import OPTIMALITY_GAP
from tests.solvers.certificates.test_soundness import every_branch, integers, refused, second
from tests.solvers.certificates.test_two_checkers import first
from tests.thoroughly import few_of


def lower_half(a):
    """The lower half of a matrix, row by row, in Python's numbers."""
    return [a[i, : i + 1].tolist() for i in range(len(a))]


def on_slice(matrix):
    """The matrix u1' + 1u' + t11' less this one, as the checkers have it, in whole numbers."""
    means = matrix.sum(axis=1) / len(matrix)
    u = np.rint(means - means.mean() / 2).astype(np.int64)
    return u[:, None] + u + largest_of(matrix) // len(matrix) - matrix


def concave(rng, n, bits):
    """A matrix of whole numbers that is negative definite where shares sum to 0, by more than rounding."""
    rows = rng.normal(size=(n, int(rng.integers(1, n + 2))))
    q = -rows @ rows.T
    q -= np.diag(np.full(n, 10.0 ** rng.uniform(-3, 0)) + (rng.random(n) < 0.2) * rng.random(n) * 30)
    q += np.add.outer(*[rng.normal(size=n) * rng.choice([0, 1, 10])] * 2)  # vanishes there
    q = np.rint(q / np.abs(q).max() * 2.0**bits).astype(np.int64)
    return (q + q.T) // 2


def by_one_file(q):
    """Return the curvatures that the one file finds, without what it takes off the shares; None where it finds none."""
    found = check_certificate.bends(lower_half(on_slice(q)))
    if found is None:
        return None
    norms, _, bits, digits = found
    return [math.ldexp(1 / norm, 2 * (digits - bits)) for norm in norms]


def plain_cholesky(rows, bits):
    """Return L row by row, with one product after the other: None where the rest is not dominated by its diagonal."""
    factor, room, off = [], [], []
    for i, given in enumerate(rows):
        row = []
        off.append(0)
        for j, other in enumerate(factor):
            left = (given[j] << 2 * bits) - sum(x * y for x, y in zip(row, other, strict=False))
            row.append((2 * left + other[j]) // (2 * other[j]))
            for k in (i, j):
                off[k] += abs(left - row[j] * other[j])
        left = (given[i] << 2 * bits) - sum(x * x for x in row)
        if left >> 2 * bits < 2:
            return None
        row.append(math.isqrt(left - (1 << 2 * bits)))
        room.append(left - row[i] ** 2)
        factor.append(row)
    return factor if all(r >= o for r, o in zip(room, off, strict=True)) else None


@pytest.mark.parametrize("seed", few_of(range(40), 1))
def test_packed_columns_are_the_factor_of_single_products(seed, asserted):
    """Of definite matrices, of some that are just not, and of any numbers up to 2^46, in blocks and beyond one."""
    rng, definite = np.random.default_rng(seed), asserted(1)
    for case in range(20):
        n = int(rng.choice([1, 2, 5, 20, 63, 64, 65, 130], p=[0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05]))
        bits = int(rng.choice([0, 3, 20, 40])) if case else 40
        a = (
            on_slice(concave(rng, n, int(rng.integers(3 if case else 30, 44))))
            if n > 1
            else rng.integers(-3, 2**46, (1, 1))
        )
        kind = rng.integers(4) if case else 3
        if kind == 0:
            a = a - np.eye(n, dtype=np.int64) * (int(np.linalg.eigvalsh(a.astype(float))[0]) + int(rng.integers(-2, 3)))
        elif kind == 1:
            a = rng.integers(-(2**46), 2**46, (n, n))
        elif kind == 2:
            a[rng.integers(n)] *= int(rng.choice([-1, 2]))
        wanted, found = plain_cholesky(lower_half(a), bits), check_certificate.cholesky(lower_half(a), bits, 1)
        assert found == wanted
        if found is not None:
            definite()


@pytest.mark.parametrize("seed", few_of(range(40), 1))
def test_curvatures_lie_below_the_exact_ones(seed, asserted):
    """By the pseudo-inverse on the slice, which is exact but for rounding; and near it, in both checkers."""
    rng, tight = np.random.default_rng(seed), asserted(8)
    for _ in range(10):
        n = int(rng.integers(2, 30))
        q = concave(rng, n, int(rng.integers(20, 41)))
        middle = np.eye(n) - 1 / n
        definite = np.linalg.eigvalsh(middle @ q @ middle)
        if definite[-1] > 1e-9 * float(np.abs(q).max()):  # by rounding to whole numbers
            assert not curvatures(q).any()
            assert by_one_file(q) is None
            continue
        exact = 1 / np.maximum(np.diag(np.linalg.pinv(-middle @ q @ middle, rcond=1e-9)), 1e-300)
        for found in (curvatures(q), by_one_file(q)):
            if found is None or not np.any(found):
                continue
            assert (np.array(found) <= exact * (1 + 1e-6)).all()
            if (np.array(found) >= 0.5 * exact).all():
                tight()


@pytest.mark.parametrize("least", [-1, 0])
def test_of_what_is_not_definite_there_is_no_curvature(least):
    """One direction in which the form is convex, or flat: whatever the others are."""
    q = np.diag([-5, -7, -9, -11]) * 1000
    x = np.array([1, -1, 0, 0])
    q = q + (12_000 // 4 - least * 1000) * np.outer(x, x) + np.diag([0, 2000, 0, 0])
    assert (x @ q @ x >= 0) == (least <= 0)
    assert not curvatures(q).any()
    assert by_one_file(q) is None


@pytest.fixture(scope="module")
def written():
    """A drawn round of 150 clients with its solution: all but a few are fixed at the root."""
    problem = Round(150, "0.3", "drawn")()
    return problem, solve(problem, certificate=True)


def with_arrays(certificate, **arrays):
    """The certificate with other arrays; None leaves one out."""
    changed = {**certificate.arrays, **arrays}
    return replace(certificate, arrays={name: array for name, array in changed.items() if array is not None})


def test_auto_fixes_and_both_checkers_see_it(written):
    problem, solution = written
    certificate = solution.certificate
    assert solution.status == "optimal"
    assert solution.details["fixed"] > 100
    sizes = np.diff(certificate.arrays["form_ids_start"])
    assert sizes[0] == 150
    assert sizes[1:].max(initial=0) < 50
    assert 0 in certificate.arrays["curved"]
    assert check(problem, certificate) == second(problem, certificate) <= certificate.bound
    assert certificate.bound <= solution.objective + problem.tolerance_at(solution.objective)


@pytest.mark.parametrize(
    ("n", "kind"), few_of([(300, "drawn"), (500, "drawn"), (500, "played"), (500, "half"), (1_000, "drawn")], 1)
)
def test_counts_of_groups_are_written_for_both_checkers(n, kind):
    """Two labels a client: some passes of quadratic fixing and one form that is linear but for rounding."""
    problem = Round(n, "two", kind)()
    run = Run(problem, "auto", None, 0)
    run.offer(solve(problem, method="tabu", moves=2_000, seed=0).x)
    fix_by_counts(fix_clients(problem, run))
    assert run.proved
    certificate = certificates.write_certificate(run.solution(), math.inf, relaxed=False)
    assert certificate is not None
    assert len(certificate.arrays["form"]) <= 4
    assert len(certificate.arrays["form_cut"]) > 0
    assert check(problem, certificate) == second(problem, certificate) <= certificate.bound
    assert run.bound <= certificate.bound < run.objective + problem.tolerance_at(run.objective)
    arrays = {name: array.astype(np.int64) for name, array in certificate.arrays.items()}
    cut = arrays["form_cut"].copy()
    cut[::3] = cut[::3] * 9 // 10
    refused(problem, with_arrays(certificate, form_cut=cut), "node|decided|open")
    moved = arrays["form_cut"].copy()
    moved[1::3] += 1
    refused(problem, with_arrays(certificate, form_cut=moved), "node|decided|open")


@pytest.mark.thorough
def test_a_weaker_bound_is_proved_of_what_fixing_leaves(written):
    """One tangent beside what is fixed, where a tree is given up: nearer than the tangent of all clients."""
    problem, solution = written
    bounds = []
    for n in (problem.n, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certificates, "DEFAULT_POLICY", Policy(fixing_certified=n))
            relaxed = certificates.write_certificate(solution, math.inf, relaxed=True)
        assert check(problem, relaxed) == second(problem, relaxed) >= solution.objective
        bounds.append(relaxed.bound - solution.objective)
        assert ("curved" in relaxed.arrays) == (n > 0)
    assert bounds[0] < 0.5 * bounds[1]


def test_nothing_is_fixed_without_the_curvature(written):
    problem, solution = written
    refused(problem, with_arrays(solution.certificate, curved=None), "node|decided|open")
    refused(problem, with_arrays(solution.certificate, curved=np.zeros(0, dtype=np.int64)), "node|decided|open")


@pytest.mark.parametrize("wrong", [-1, 99, 2**40])
def test_a_curved_form_is_one_of_them(written, wrong):
    problem, solution = written
    refused(problem, with_arrays(solution.certificate, curved=np.array([wrong])), "entries of 'curved'")


def lies(problem, certificate):
    """Certificates that fix more than is proved, by name."""
    arrays = {name: array.astype(np.int64) for name, array in certificate.arrays.items()}
    first = arrays["form_ids_start"][1]
    lower = arrays["form_diagonal"].copy()
    lower[:first] -= int(np.abs(lower[:first]).mean()) // 8
    yield "not definite", with_arrays(certificate, form_diagonal=lower)
    steep = arrays["form_diagonal"].copy()
    steep[0] = 2**40 - 1
    yield "one of them steep", with_arrays(certificate, form_diagonal=steep)
    yield "a room beyond the rest", with_arrays(certificate, form_room=np.full_like(arrays["form_room"], 2**44 - 1))
    goal = arrays["goal"] - int(abs(certificate.bound) * 0.01 / 2.0**certificate.grid)
    yield "a goal below the optimum", replace(with_arrays(certificate, goal=goal), bound=certificate.bound * 0.99)
    ids, start = arrays["form_ids"], arrays["form_ids_start"]
    if start.size > 2:
        k = start[1]  # the first one of the second form is fixed as well
        point = arrays["point"].copy()
        fewer = {
            name: np.where(np.arange(arrays[f"{name}_start"].size) > 1, arrays[f"{name}_start"] - 1, start[:0].sum())
            for name in ("form_ids", "form_diagonal")
        }
        for name, each in fewer.items():
            each[1] = arrays[f"{name}_start"][1]
        nodes = int((arrays["form"] == 1).sum())
        point = np.delete(point, np.arange(first, first + nodes))
        yield (
            "a client too many",
            with_arrays(
                certificate,
                form_ids=np.delete(ids, k),
                form_diagonal=np.delete(arrays["form_diagonal"], k),
                form_ids_start=fewer["form_ids"],
                form_diagonal_start=fewer["form_diagonal"],
                point=point,
            ),
        )


def test_lies_are_refused_by_both(written):
    problem, solution = written
    told = dict(lies(problem, solution.certificate))
    assert "a client too many" in told
    for lie in told.values():
        refused(problem, lie, "node|root|concave|claims|slice|given")


def shares_of(rng, n, total, grain):
    """Shares up to ``grain`` that sum to ``total``: at random, or near a selection."""
    point = np.zeros(n, dtype=np.int64)
    if rng.random() < 0.7:
        point += total // n
    while point.sum() < total:
        k = int(rng.integers(n))
        point[k] = min(grain, point[k] + total - point.sum())
    return point


def curved(problem, rng, best):
    """A tree of all branches with one curved form at every node, at any points, and a goal near the optimum."""
    n, m, grain = problem.n, problem.size, int(rng.choice([1, 12, 1 << 20]))
    goal = best + int(rng.choice([-1, 0, -(abs(best) // 50) - 1, abs(best) // 9]))
    tree = every_branch(problem, grid=0, goal=goal)
    middle = np.eye(n) - 1 / n
    diagonal = rng.integers(0, int(problem.distances.max()) + 2, n) * int(rng.integers(2))
    largest = np.linalg.eigvalsh(middle @ (problem.distances - np.diag(diagonal)) @ middle)[-1]
    room = max(0, int(largest * rng.choice([1, 1.01, 1.5]))) + int(rng.choice([n, 64, 10 * n]))
    nodes = tree.arrays["origin"].size
    points = [shares_of(rng, n, m * grain, grain) for _ in range(nodes)]
    arrays = {"form_diagonal": diagonal, "form_room": integers(room), "grain": integers(grain), "curved": integers(0)}
    return replace(with_arrays(tree, **arrays, point=np.column_stack(points).ravel()), bound=float(goal))


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_no_curved_form_proves_what_is_false(seed, asserted):
    """Of random points, diagonals and goals with numbers from 1 to 2^39, in both checkers, against enumeration."""
    rng = np.random.default_rng(seed)
    true, false = asserted(30), asserted(10)
    for _ in range(80):
        n = int(rng.integers(3, 8))
        m = int(rng.integers(1, n))
        h = np.triu(rng.integers(1, 2 ** int(rng.integers(1, 40)) + 1, (n, n)), 1).astype(float)
        problem = DispersionProblem(h + h.T, size=m)
        best = exact_best(problem)
        tree = curved(problem, rng, best)
        for found in first(problem, tree), second(problem, tree):
            if tree.bound < best:
                assert not isinstance(found, float)
                false()
            elif isinstance(found, float):
                assert found >= best
                true()


def exact_best(problem):
    """The optimum of a problem of whole numbers."""
    h, costs = problem.distances.astype(np.int64).tolist(), problem.costs.astype(np.int64).tolist()
    chosen = itertools.combinations(range(problem.n), problem.size)
    return max(
        2 * sum(h[i][j] for i, j in itertools.combinations(each, 2)) - sum(costs[i] for i in each) for each in chosen
    )


def is_proved(problem, certificate, best, target):
    """Check what claims a target: refused below the optimum; else both checkers find the same bound between the two."""
    if target < best:
        refused(problem, certificate, "claims")
        return False
    assert best <= check(problem, certificate) == second(problem, certificate) <= target
    return True


def concave_enough(whole, rng):
    """Multipliers of the diagonal that make a form concave on the slice, by little or by more than distances are."""
    middle = np.eye(len(whole)) - 1 / len(whole)
    spare = float(whole.max()) * 10.0 ** rng.uniform(-3, 0)
    return np.full(len(whole), np.linalg.eigvalsh(middle @ whole @ middle)[-1] + spare)


def written_below_one_form(problem, rng, target):
    """A search that conditions one form of all clients, with any multipliers of products and cuts, written down."""
    n, scale = problem.n, float(problem.distances.max())
    raised = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.3), 1) * scale / 40
    members = np.argsort(rng.random((3, n)), axis=1)[:, :3]
    cuts = Cuts.of(members, rng.choice([-1, 1], size=(3, 3)), rng.integers(0, 2, 3), n)
    weights = rng.random(3) * scale / 40
    moved = np.zeros((n, n))
    for own, signs, weight in zip(members, cuts.signs, weights, strict=True):
        moved[np.ix_(own, own)] += weight * np.outer(signs[:3], signs[:3])
    diagonal = concave_enough(problem.distances + raised + raised.T + moved, rng)
    tree = CertificateTree(problem, target, lambda: False)
    form = tree.form(diagonal, raised + raised.T, np.full(n, problem.size / n), (cuts, weights), is_curved=True)
    assert not tree.condition(form, 0)
    assert not tree.nodes
    assert tree.condition(form, 10**6)
    return tree.certificate(target)


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_a_conditioned_search_proves_what_is_true_alone(seed, asserted):
    """Against enumeration, in both checkers, with goals above the optimum and below it; and without one of its ends."""
    rng = np.random.default_rng(seed)
    true, false, several = asserted(4), asserted(2), asserted(2)
    for above in (-0.02, 1e-6, 0.01) * 3:
        n = int(rng.integers(7, 11))
        points = rng.normal(size=(n, 3))
        h = np.rint(np.linalg.norm(points[:, None] - points, axis=2) * 2 ** int(rng.integers(6, 20)))
        problem = DispersionProblem(h, size=int(rng.integers(2, n - 1)))
        best = exact_best(problem)
        target = best * (1 + above)
        certificate = written_below_one_form(problem, rng, target)
        if not is_proved(problem, certificate, best, target):
            false()
            continue
        true()
        ends = np.flatnonzero(certificate.arrays["form"] >= 0)
        if ends.size < 2:
            continue
        several()
        last, points = int(ends[-1]), certificate.arrays["point"].reshape(n, -1)
        kept = {name: np.delete(certificate.arrays[name], last) for name in ("origin", "client", "form")}
        origin = kept["origin"].astype(np.int64)
        kept["origin"] = np.where(origin >= 2 * last, origin - 2, origin)
        kept["point"] = np.delete(points, -1, axis=1).ravel()
        refused(problem, with_arrays(certificate, **kept), "missing|claims|below|node")
        middle = np.full_like(points, POINT * problem.size // n)
        middle[0] += POINT * problem.size - middle.sum(axis=0)
        blunt = with_arrays(certificate, point=middle.ravel())
        for found in first(problem, blunt), second(problem, blunt):
            assert not isinstance(found, float) or found >= best


def written_in_order(problem, rng, target):
    """As `written_below_one_form`, with multipliers of either sign of the pairs that the checkers accept."""
    n, scale = problem.n, float(problem.distances.max())
    tree = CertificateTree(problem, target, lambda: False)
    pairs = np.array([pair for pair in itertools.permutations(range(n), 2) if tree.accepts(*pair)]).reshape(-1, 2)
    prices = rng.normal(size=len(pairs)) * scale / 10
    whole = problem.distances.copy()
    for (i, j), price in zip(pairs.tolist(), prices.tolist(), strict=True):
        whole[i, j] -= price / 2
        whole[j, i] -= price / 2
    diagonal = concave_enough(whole, rng)
    form = tree.form(diagonal, None, np.full(n, problem.size / n), None, (pairs, prices), is_curved=True)
    if rng.integers(2):
        tree.fix(form)
        return (tree.certificate(target) if tree.tree() else None), pairs
    assert tree.condition(form, 10**6)
    return tree.certificate(target), pairs


@pytest.mark.parametrize("seed", few_of(range(20), 1))
def test_an_order_among_clients_that_are_alike_proves_what_is_true_alone(seed, asserted):
    """Clients of a place differ in their cost, or not at all; against enumeration, and with a pair the other way."""
    rng = np.random.default_rng(seed)
    true, false, searched, turned = asserted(5), asserted(2), asserted(2), asserted(2)
    for above in (-0.02, 1e-6, 0.01, 0.1) * 4:
        n = int(rng.integers(7, 11))
        several = rng.normal(size=(int(rng.integers(2, 5)), 3))
        places = several[rng.integers(0, len(several), n)]
        h = np.rint(np.linalg.norm(places[:, None] - places, axis=2) * 2 ** int(rng.integers(6, 20)))
        costs = rng.integers(0, 4, n) * float(2 ** int(rng.integers(0, 16)))
        problem = DispersionProblem(h, costs, size=int(rng.integers(2, n - 1)))
        best = exact_best(problem)
        target = best + above * problem.scale
        certificate, pairs = written_in_order(problem, rng, target)
        if certificate is None:
            continue
        if not is_proved(problem, certificate, best, target):
            false()
            continue
        true()
        if (certificate.arrays["form"] >= 0).sum() > 2:
            searched()
        differ = costs[pairs[:, 0]] < costs[pairs[:, 1]]
        held = certificate.arrays["form_dominated"].reshape(-1, 3)
        wrong = held.copy()
        for row, (i, j, _) in enumerate(held.tolist()):
            if costs[i] < costs[j]:
                wrong[row, :2] = j, i
        if differ.any() and (wrong != held).any():
            refused(problem, with_arrays(certificate, form_dominated=wrong.ravel()), "exchanging")
            turned()


def fixed_in_writing(problem, solution, policy):
    """A tree for the solution's value, with the nodes that fix clients by doubly nonnegative multipliers."""
    target = solution.objective + problem.tolerance_at(solution.objective, 0.5 * OPTIMALITY_GAP)
    tree = CertificateTree(problem, target, lambda: False)
    run = Run(problem, "certificate", None, 0)
    run.offer(solution.x)
    close_rest(certificates._WrittenFixing(tree, run), policy)
    return tree, target


@pytest.mark.parametrize(("n", "kind"), few_of([(120, "played"), (100, "played"), (150, "drawn")], 1))
def test_multipliers_of_an_order_are_written_for_both(n, kind):
    """Two labels a client: many clients are alike, and differ in their counts at most."""
    problem = Round(n, "two", kind)()
    solution = solve(problem)
    tree, target = fixed_in_writing(problem, solution, Policy(fixing_few=10))
    assert tree.tree()
    certificate = tree.certificate(target)
    assert certificate.arrays["form_dominated"].size > 0
    assert solution.objective <= check(problem, certificate) == second(problem, certificate) <= target


def test_without_time_the_bound_is_that_of_the_form_that_fixed_last():
    """One multiplier for all leaves per cents of it."""
    problem = Round(100, "1", "played")()
    solution = solve(problem)
    tree, _ = fixed_in_writing(problem, solution, Policy(fixing_few=60, fixing_patience=0))
    assert not tree.is_closed
    bound = tree.root(0.0)
    certificate = tree.certificate(bound)
    assert solution.objective <= check(problem, certificate) == second(problem, certificate) <= bound
    assert bound <= solution.objective * (1 + 2e-3)


@pytest.mark.thorough
def test_a_played_round_is_closed_by_conditioning_for_both():
    """The trees do not end below what multipliers of products leave of it in the work that they may take."""
    problem = Round(300, "1", "played")()
    solution = solve(problem, certificate=True)
    certificate = solution.certificate
    assert solution.status == "optimal"
    assert check(problem, certificate) == second(problem, certificate) <= certificate.bound
    assert certificate.bound <= solution.objective + problem.tolerance_at(solution.objective)
    last = np.flatnonzero(certificate.arrays["form"] == certificate.arrays["form"].max())
    assert last.size > 10  # tangents of one form
