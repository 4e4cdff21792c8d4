"""`solve(..., certificate=True)`: whatever method found the bound, what is kept proves it to the reader."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest

from solvers import Solution, instances, solve
from solvers.certificate_writers import with_certificate
from solvers.certificates import CertificateError, check
from solvers.certificates.exact.attainable import attainable
from solvers.dispersion import DispersionProblem, KindDispersionProblem
from solvers.dispersion.certificates import write_certificate
from solvers.dispersion.kernels import loader
from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.tree.certificate import CertificateTree

SMALL = "fedgs-digits-twolabel-n30-m5-lognormal-r10"


def random_problem(seed, n, m, *, whole=False):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, (n, 3)) if whole else rng.normal(size=(n, 3))
    h = np.abs(points[:, None] - points).sum(axis=2).astype(float)
    costs = rng.integers(0, 3, n).astype(float) if whole else rng.normal(size=n)
    return DispersionProblem(h, costs, size=m, weight=1.0 if whole else 0.7)


def values(problem):
    for chosen in itertools.combinations(range(problem.n), problem.size):
        x = np.zeros(problem.n, dtype=int)
        x[list(chosen)] = 1
        yield problem.objective(x)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4, 6, 8, 9, 10])
def test_every_size_is_proved(size, whole):
    problem = random_problem(size, 10, size, whole=whole)
    solution = solve(problem, certificate=True)
    verified = check(problem, solution.certificate)
    assert max(values(problem)) <= verified <= solution.objective + 1e-6 * max(1.0, abs(solution.objective))


@pytest.mark.parametrize("method", ["auto", "branch-and-bound", "sdp", "dnn", "brute-force", "milp"])
def test_the_proof_is_of_the_bound_whatever_the_method(method):
    problem = random_problem(1, 14, 5)
    solution = solve(problem, method, certificate=True)
    verified = check(problem, solution.certificate)
    told = solution.certificate_report
    assert told["bound"] == solution.certificate.bound
    assert verified >= max(values(problem))
    if solution.status == "optimal" or method == "milp":
        assert verified <= max(solution.bound, solution.objective + 1e-6 * abs(solution.objective))
    else:  # a relaxation's: one leaf
        assert solution.certificate.arrays["origin"].tolist() == [-1]


def test_instances_of_the_library():
    for name in (SMALL, "fedgs-digits-dirichlet-n60-m10-markov-r5", "fedgs-synthetic-n30-m6-moredata-r20"):
        problem = instances.load(name)
        solution = solve(problem, certificate=True)
        known = instances.info(name)
        assert known.best_known <= check(problem, solution.certificate) <= known.best_known + 1e-6


def test_values_that_can_be_had_settle_what_the_tree_leaves():
    """Whole data: the reader rounds the tree's bound down to the next value a selection can have."""
    problem = random_problem(3, 9, 4, whole=True)
    all_values = sorted(set(values(problem)))
    for bound in (all_values[-1] + 0.4, all_values[2] + 0.9, all_values[0]):
        rounded = attainable(problem, Fraction(bound))
        assert max(v for v in all_values if v <= bound) <= rounded <= bound
    assert attainable(problem, Fraction(all_values[-1]) + Fraction(1, 3)) <= all_values[-1] + Fraction(1, 3)
    noisy = DispersionProblem(problem.distances * (1 / 3), problem.costs / 3, size=4)
    best = max(values(noisy))
    assert best <= attainable(noisy, Fraction(best) + Fraction(1, 10**13)) <= best + 1e-12


def test_values_of_one_client_and_of_too_many_to_list():
    one = DispersionProblem([[0.0]], [0.25], size=1)
    assert attainable(one, Fraction(3)) == Fraction(-1, 4)
    rng = np.random.default_rng(0)
    distances = np.triu(rng.random((12, 12)), 1)
    many = DispersionProblem(distances + distances.T, size=9)  # costs take one value, distances 66
    assert attainable(many, Fraction(10)) == 10
    costly = DispersionProblem(1.0 - np.eye(12), rng.random(12), size=9)
    assert attainable(costly, Fraction(10)) == 10
    empty = DispersionProblem(1.0 - np.eye(4), np.full(4, 0.5), size=3)  # 6 less 1.5: the only value there is
    for bound, found in ((7, Fraction(9, 2)), (Fraction(9, 2), Fraction(9, 2)), (4, 4)):
        assert attainable(empty, Fraction(bound)) == found


def test_no_certificate_is_kept_unless_asked_for_and_no_time_says_so():
    problem = random_problem(2, 12, 5)
    solution = solve(problem)
    assert solution.certificate is None
    late = with_certificate(solution, 0.0)
    assert late.certificate is None
    assert late.certificate_report == {"none": "no time was left"}
    assert with_certificate(solve(problem, "greedy")).certificate is None


def test_it_survives_copies_and_files(tmp_path):
    problem = random_problem(2, 12, 5)
    solution = solve(problem, certificate=True)
    assert solution.to_dict()["certificate"]["digest"] == solution.certificate.digest
    read = Solution.load(solution.save(tmp_path / "solution.npz"))
    for other in (pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution), read):
        assert other.certificate.digest == solution.certificate.digest
        assert math.isfinite(check(other.problem, other.certificate))


@pytest.mark.parametrize("seconds", [1e-3, 60.0])
def test_what_ran_out_of_time_still_keeps_a_certificate(seconds):
    """One leaf, whose bound is found at once, or is better where there is time."""
    problem = random_problem(5, 120, 25)
    solution = with_certificate(solve(problem, "cp-sat", time_limit=0.3), seconds, relaxed=True)
    verified = check(problem, solution.certificate)
    assert solution.objective <= solution.bound <= verified < 1.5 * solution.objective
    assert solution.certificate_report["bound"] == verified


def test_a_proof_that_says_more_improves_the_bound():
    problem = random_problem(6, 30, 8)
    best = solve(problem)
    loose = with_certificate(
        solve(problem, "cp-sat", time_limit=0.2).with_bound(1.3 * best.objective), 60.0, relaxed=True
    )
    assert loose.bound == loose.certificate_report["bound"]
    assert best.objective <= loose.bound < 1.3 * best.objective


def test_a_tree_without_a_time_limit_is_given_up_after_counted_work():
    """The effort is counted in clients cubed, so that the same seed writes the same certificate on every machine."""
    rng = np.random.default_rng(0)
    distances = np.triu(rng.random((30, 30)), 1)
    problem = DispersionProblem(distances + distances.T, size=6)
    best = solve(problem, "branch-and-bound").bound
    whole = CertificateTree(problem, best, lambda: False)
    assert whole.tree()
    assert whole.work > 2 * 30**3  # more than the root's relaxations, or the limit below would cut nothing
    given_up = CertificateTree(problem, best, lambda: False, most_work=2 * 30**3)
    assert not given_up.tree()
    assert given_up.work <= 5 * 30**3


def test_a_certificates_time_stands_still_while_kernels_are_compiled(monkeypatch):
    distances = np.triu(np.random.default_rng(0).random((30, 30)), 1)
    problem = DispersionProblem(distances + distances.T, size=6)
    solution = solve(problem, "branch-and-bound")
    expected = write_certificate(solution, math.inf, relaxed=False)
    loaded, now, later = dict(loader._loaded), time.perf_counter, [0.0]

    def slowly(name, precision):
        later[0] += 1e6
        return loaded[name, precision]

    monkeypatch.setattr(loader, "_loaded", {})
    monkeypatch.setattr(loader, "_waited", 0.0)
    monkeypatch.setattr(loader, "_obtained", slowly)
    monkeypatch.setattr(time, "perf_counter", lambda: now() + later[0])
    assert write_certificate(solution, 1e5, relaxed=False).bound == expected.bound
    assert later[0] > 0


def test_only_a_time_limit_lifts_the_limit_on_counted_work(monkeypatch):
    limits = []
    monkeypatch.setattr(CertificateTree, "tree", lambda tree: limits.append(tree.most_work))
    solution = solve(random_problem(0, 12, 4), "branch-and-bound")
    for seconds in (math.inf, 60.0):
        assert with_certificate(solution, seconds).certificate_report["bound"] >= solution.objective
    assert limits == [DEFAULT_POLICY.certificate_work, math.inf]
    assert math.isfinite(DEFAULT_POLICY.certificate_work)


def test_every_certificate_without_a_time_limit_is_given_up_so():
    """The limit is passed on: one leaf is left where a tree would take more work, and a tree where it has enough."""
    distances = np.triu(np.random.default_rng(0).random((30, 30)), 1)
    problem = DispersionProblem(distances + distances.T, size=6)
    solution = solve(problem, "branch-and-bound")
    assert solution.status == "optimal"
    leaf = write_certificate(solution, math.inf, relaxed=False, most_work=1.0)
    tree = write_certificate(solution, math.inf, relaxed=False)
    timed = write_certificate(solution, 1e6, relaxed=False, most_work=1.0)  # the clock alone ends it
    assert leaf.arrays["origin"].tolist() == [-1]
    assert leaf.bound > 1.001 * solution.bound
    assert tree.bound == timed.bound == solution.bound


def test_doubly_nonnegative_nodes_prove_what_semidefinite_ones_leave():
    """Multipliers of all products and of cuts: few nodes, where pairs alone would take many."""
    rng = np.random.default_rng(3)
    distances = np.triu(rng.random((26, 26)), 1)
    problem = DispersionProblem(distances + distances.T, rng.normal(size=26), size=6)
    best = solve(problem, "branch-and-bound")
    tree = CertificateTree(problem, best.bound, lambda: False)
    assert tree.tree()
    found = tree.certificate(best.bound)
    assert found.arrays["origin"].size < 40
    assert found.arrays["form_cut"].size > 0
    assert best.objective <= check(problem, found) <= best.bound


@pytest.mark.parametrize("seed", range(6))
def test_kinds_of_clients_are_proved(seed):
    """A problem between kinds has a certificate, of its own kind, about its clients."""
    rng = np.random.default_rng(seed)
    within = rng.random((3, 3)) * (1 if seed % 2 else 1 - np.eye(3))
    kinds = np.concatenate([np.arange(3), rng.integers(0, 3, 7)])
    problem = KindDispersionProblem(within + within.T, kinds, rng.normal(size=10), size=1 + seed, weight=0.7)
    solution = solve(problem, certificate=True)
    assert solution.certificate.kind == "kinds"
    assert max(values(problem)) <= check(problem, solution.certificate)
    assert solution.certificate.bound <= solution.objective + 1e-6 * max(1.0, abs(solution.objective))
    expanded = solve(problem.expanded(), certificate=True)
    with pytest.raises(CertificateError, match="is about a"):
        check(problem.expanded(), solution.certificate)
    with pytest.raises(CertificateError, match="is about a"):
        check(problem, expanded.certificate)


def test_a_certificate_that_proves_less_says_so():
    rng = np.random.default_rng(1)
    distances = np.triu(rng.random((30, 30)), 1)
    problem = DispersionProblem(distances + distances.T, size=6)
    weaker = with_certificate(solve(problem, "branch-and-bound"), relaxed=True)
    assert weaker.certificate.bound > weaker.bound
    assert weaker.certificate_report["distance"] == weaker.certificate.bound - weaker.bound
    assert "weaker than the bound); with more time solvers.certificate_writers.with_certificate(" in weaker.summary()
    assert with_certificate(weaker).certificate_report["distance"] == 0  # what the sentence promises
    assert "weaker" not in with_certificate(weaker).summary()


def test_what_is_not_written_whatever_the_time_says_why():
    kinds = KindDispersionProblem([[1.0, 2.0], [2.0, 1.0]], np.arange(1_001) % 2, size=2)
    solution = solve(kinds, "greedy", bound_by="tangent", certificate=True)
    assert solution.certificate is None
    assert solution.certificate_report["none"].endswith("for up to 1000 clients, and there are 1001")
