"""Selection by any quadratic objective: in the user's units, whatever is added inside."""

import copy
import io
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest

from solvers import InvalidOption, InvalidProblem, load, method, methods, solve
from solvers.certificates import Certificate, CertificateError, check, check_certificate
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem, QuadraticProblem
from tests.thoroughly import few_of


def drawn(rng, n):
    q = rng.normal(size=(n, n))
    sort = int(rng.integers(4))
    if sort == 0:
        return np.rint(9 * q)
    if sort == 1:
        return 1e6 * q - 3e6
    return np.triu(q) if sort == 2 else 1e-3 * q


def enumerated(problem):
    every = itertools.combinations(range(problem.n), problem.size)
    decisions = (np.isin(np.arange(problem.n), chosen).astype(int) for chosen in every)
    values = [problem.objective(x) for x in decisions if problem.violation(x) == 0]
    return (max if problem.sense == "max" else min)(values, default=None)


@pytest.mark.parametrize("cases", few_of([30, 120], 1))
def test_as_enumeration(cases, tmp_path):
    """Decision, bound and certificate in the units of Q, with side constraints and without, by both checkers."""
    rng, proved = np.random.default_rng(0), 0
    refused = 0
    for _ in range(cases):
        n = int(rng.integers(2, 9))
        m = int(rng.integers(1, n + 1))
        facts = {"sense": str(rng.choice(["max", "min"])), "constant": float(rng.choice([0.0, -5.5, 100.0]))}
        if rng.random() < 0.4:
            facts["quotas"] = [Quota(range(n // 2), at_most=m // 2, name="half")]
            facts["budgets"] = [Budget(rng.random(n), 0.7 * m)]
        q = drawn(rng, n)
        try:
            problem = DispersionProblem.from_quadratic(q, m, **facts)
        except InvalidProblem:  # a budget that no selection keeps
            refused += 1
            continue
        best = enumerated(problem)
        solution = solve(problem, certificate=True)
        if best is None:
            assert solution.status == "infeasible"
            continue
        x, sign = solution.x, 1.0 if problem.sense == "max" else -1.0
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(x @ q @ x + problem.constant, rel=1e-12, abs=1e-9 * problem.scale)
        assert solution.objective == pytest.approx(best, rel=1e-12)
        assert 0 <= sign * (solution.bound - best) <= problem.tolerance_at(best)
        assert all(point.bound is None or sign * (point.bound - best) >= 0 for point in solution.trace)
        verified = check(problem, solution.certificate)
        assert 0 <= sign * (verified - best) <= 1e-6 * problem.scale
        problem.save(tmp_path / "problem.npz")
        solution.certificate.save(tmp_path / "certificate.npz")
        again = check_certificate.check_files(tmp_path / "problem.npz", tmp_path / "certificate.npz")
        assert again == pytest.approx(verified, rel=1e-9, abs=1e-9 * problem.scale)
        assert check(load(tmp_path / "problem.npz"), Certificate.load(tmp_path / "certificate.npz")) == verified
        beyond = np.nextafter(best, -sign * np.inf)
        with pytest.raises(CertificateError, match="proves only"):
            check(problem, replace(solution.certificate, bound=float(beyond)))
        proved += 1
    assert proved > 2 * cases // 3
    assert refused < cases // 6


def test_a_range_of_numbers_as_enumeration(tmp_path):
    """Any number, or one of a range: decision, bound and certificate are those of all selections of such numbers."""
    rng, fewer = np.random.default_rng(4), 0
    for _ in range(40):
        n = int(rng.integers(2, 8))
        most = int(rng.integers(1, n + 1))
        least = int(rng.integers(0, most + 1))
        sense, q = str(rng.choice(["max", "min"])), np.rint(9 * rng.normal(size=(n, n)))
        limit = float(rng.integers(3, 9))
        facts = {"budgets": [Budget(np.arange(n) % 3 + 1, limit)], "exclude": [0]} if rng.random() < 0.4 else {}
        every = [c for k in range(least, most + 1) for c in itertools.combinations(range(n), k)]
        if facts:
            every = [c for c in every if 0 not in c and sum(k % 3 + 1 for k in c) <= limit]
        if not every:
            continue
        problem = DispersionProblem.from_quadratic(q, (least, most), sense, constant=2.0, **facts)
        value = {c: q[np.ix_(c, c)].sum() + 2.0 for c in every}
        best = (max if sense == "max" else min)(value.values())
        solution, sign = solve(problem, certificate=True), 1 if sense == "max" else -1
        assert solution.status == "optimal"
        assert solution.objective == best == value[tuple(solution.selected.tolist())]
        assert 0 <= sign * (solution.bound - best) <= problem.tolerance_at(best)
        verified = check(problem, solution.certificate)
        problem.save(tmp_path / "problem.npz")
        solution.certificate.save(tmp_path / "certificate.npz")
        again = check_certificate.check_files(tmp_path / "problem.npz", tmp_path / "certificate.npz")
        assert again == pytest.approx(verified, rel=1e-9)
        loaded = load(tmp_path / "problem.npz")
        assert (loaded.fillers, loaded.size) == (most - least, most)
        assert loaded.selected(solution.x).tolist() == solution.selected.tolist()
        fewer += len(solution.selected) < most
    assert fewer > 10


def test_starts_and_names_leave_fillers_out():
    q = np.array([[1, -4, 2], [0, 0, 5], [0, 0, -1]])
    problem = DispersionProblem.from_quadratic(q, (0, 2), names=["a", "b", "c"])
    assert problem.n == 5
    solution = solve(problem)
    assert (solution.objective, solution.selected_names) == (4.0, ("b", "c"))
    for start in ([], [0], [1, 2], np.array([0, 1, 1]), solution, solution.x):
        assert solve(problem, "random", start=start).objective >= 0
    assert solve(problem, start=[1, 2], time_limit=10).objective == 4.0
    for wrong, sentence in (
        ([0, 0], "names a client twice"),
        ([7], "names client 7; this problem's are 3 from 0 to 2"),
        ([0, 1, 2], "names 3 clients; this problem selects 0 to 2"),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            solve(problem, start=wrong)
    with pytest.raises(InvalidOption, match="need a problem that says how many are chosen; this one has a range"):
        solve(problem, pool=2)
    with pytest.raises(InvalidProblem, match="are fillers, whose entries are 0"):
        QuadraticProblem(q, 2, clients=[0, 1, 2**62])


def test_the_gap_is_that_of_the_objective_asked():
    """A constant of 50 for each pair would make of 17 % a gap of 3 %."""
    rng = np.random.default_rng(1)
    q = rng.integers(-50, 51, (60, 60))
    problem = DispersionProblem.from_quadratic(q + q.T, 20)
    solution = solve(problem, "greedy", bound_by="sdp")
    chosen = solution.selected
    assert solution.objective == (q + q.T)[np.ix_(chosen, chosen)].sum()
    assert solution.gap == pytest.approx((solution.bound - solution.objective) / solution.objective)
    inner = problem.solved_as
    shifted = inner.objective(solution.x)
    assert shifted > 2 * solution.objective  # the shift is large, so the gap would look small
    assert (solution.bound - solution.objective) / shifted < solution.gap / 2


def names():
    return {entry.name for entry in methods(DispersionProblem)}


def test_a_gap_to_stop_at_and_the_log_are_in_its_units():
    rng = np.random.default_rng(2)
    problem = DispersionProblem.from_quadratic(rng.normal(size=(40, 40)) - 20, 12, sense="min")
    log = io.StringIO()
    solution = solve(problem, "branch-and-bound", gap=0.01, log=log)
    assert solution.gap <= 0.01
    assert solution.stopped in ("gap", "proved")
    assert "(min, n = 40)" in log.getvalue()
    values = [float(line.split()[2]) for line in log.getvalue().splitlines()[2:] if line.split()[1:2] == ["-"]]
    assert values
    assert max(values) < 0  # every one of the shifted problem's is positive


@pytest.mark.parametrize("sense", ["max", "min"])
def test_phases_are_in_its_units(sense):
    """The last says what the solution says, and the summary whose the bound was."""
    q = np.random.default_rng(3).integers(-50, 50, (30, 30))
    solution = solve(DispersionProblem.from_quadratic(q + q.T, 8, sense), "branch-and-bound")
    last = solution.details["phases"][-1]
    assert (last["objective"], last["bound"]) == (solution.objective, pytest.approx(solution.bound, rel=1e-12))
    assert "(the bound)" in solution.summary()


def test_a_pool_is_in_its_units():
    rng, members = np.random.default_rng(3), 0
    for sense in ("max", "min"):
        problem = DispersionProblem.from_quadratic(rng.normal(size=(9, 9)) - 4, 3, sense, constant=1.0)
        values = [problem.objective(np.isin(np.arange(9), c)) for c in itertools.combinations(range(9), 3)]
        values.sort(reverse=sense == "max")
        found = solve(problem, pool=5)
        assert [each.objective for each in found.pool] == pytest.approx(values[:5], rel=1e-12)
        assert found.objective == found.pool[0].objective
        assert found.pool_bound == pytest.approx(values[5], rel=1e-4)
        near = solve(problem, within=0.2)
        assert len(near.pool) == sum(abs(value - values[0]) <= 0.2 * abs(values[0]) for value in values)
        assert near.pool_complete
        members += len(near.pool)
    assert members > 2


def test_copies_and_methods():
    problem = DispersionProblem.from_quadratic(-np.ones((5, 5)), 2)
    assert isinstance(problem, QuadraticProblem)
    for same in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), replace(problem)):
        assert solve(same).objective == -4
    assert {entry.name for entry in methods(problem)} <= names()
    with pytest.raises(InvalidOption, match="solved by the methods of a DispersionProblem"):
        method(QuadraticProblem, "mine", kind="heuristic")


@pytest.mark.parametrize(
    ("q", "fields", "sentence"),
    [
        (np.ones((2, 3)), {}, "must be a square matrix"),
        (np.zeros((0, 0)), {}, "must be a square matrix"),
        ([[0, np.nan], [np.nan, 0]], {}, "must be finite"),
        (np.ones((3, 3)), {"size": 4}, "between 1 and the number of clients, 3; got 4"),
        (np.ones((3, 3)), {"sense": "most"}, "sense must be 'max' or 'min'; got 'most'"),
        (np.ones((3, 3)), {"constant": np.inf}, "constant must be finite"),
        (np.ones((3, 3)), {"colour": 1}, "no argument 'colour'|unexpected|has no"),
        (1e300 * np.ones((3, 3)), {}, "cannot be computed with.*rescale"),
        ([["a", "b"], ["c", "d"]], {}, "must be real numbers|must be numbers"),
    ],
)
def test_sentences(q, fields, sentence):
    with pytest.raises((InvalidProblem, InvalidOption, TypeError), match=sentence):
        DispersionProblem.from_quadratic(q, **{"size": 2, **fields})
