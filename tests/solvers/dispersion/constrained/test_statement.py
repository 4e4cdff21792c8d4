"""Side constraints as they are stated: what is refused and in which words, files, digests, rounds of FedGS."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest

from solvers import InvalidProblem, methods, solve
from solvers.constraints import Budget, Quota
from solvers.dispersion import (
    DispersionProblem,
    KindDispersionProblem,
    PointDispersionProblem,
    write_lp,
    write_mdplib,
    write_mps,
    write_qubo,
)
from solvers.problem import digest, load

N, M = 12, 4
POINTS = np.random.default_rng(0).random((N, 2))
DISTANCES = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
SECONDS = np.arange(1.0, N + 1)


def stated(**constraints):
    return DispersionProblem(DISTANCES, size=M, **constraints)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Quota([1, 2], 2, 1, "north"), "quota 'north' contradicts itself: at_least 2 is more than at_most 1"),
        (lambda: Quota([], 1, name="north"), "quota 'north' asks for at least 1 client(s), but it has no member"),
        (lambda: Quota([1, 2, 1], name="north"), "members of quota 'north' must be different; client 1 stands twice"),
        (lambda: Quota([1.5], name="north"), "members of quota 'north' must be ids of clients"),
        (lambda: Quota([[1], [2, 3]], name="north"), "members of quota 'north' must be ids of clients"),
        (lambda: Quota([1], name=3), "the name of a quota must be text; got 3"),
        (lambda: Budget(SECONDS, 9, None), "the name of a budget must be text; got None"),
        (lambda: Quota([1], -1, name="north"), "at_least of quota 'north' must be an integer of at least 0"),
        (lambda: Quota([1], 0, 10**400, "north"), "at_most of quota 'north' must be an integer of at least 0 and"),
        (lambda: Budget(-SECONDS, 9, "seconds"), "use of budget 'seconds' must be non-negative; client 0 has -1"),
        (lambda: Budget(SECONDS, float("nan"), "seconds"), "limit of budget 'seconds' must be finite"),
        (lambda: Budget(SECONDS, -1, "seconds"), "limit of budget 'seconds' must be finite and non-negative"),
        (lambda: Budget(1e101 * SECONDS, 9, "s"), "largest use of budget 's' must be 0 or lie between 1e-100"),
        (lambda: Budget([0, 1e-310], 9, "s"), "largest use of budget 's' must be 0 or lie between 1e-100"),
        (lambda: stated(include=[3, 3]), "include must be different; client 3 stands twice"),
        (lambda: stated(include=[12]), "include names client 12, whom the problem does not have (0 to 11)"),
        (lambda: stated(include=[3], exclude=[3]), "client 3 is both included and excluded"),
        (lambda: stated(include=[3, 4], conflicts=[(3, 4)]), "clients 3 and 4 are both included, but conflicts[0]"),
        (lambda: stated(include=[0, 1, 2, 3, 4]), "at least 5 clients must be selected"),
        (lambda: stated(conflicts=[(3,)]), "conflicts[0] must name two clients or more; got 1"),
        (lambda: stated(conflicts=3), "conflicts must be a list; got 3"),
        (lambda: stated(quotas=[Quota([12], name="a")]), "quota 'a' names client 12"),
        (lambda: stated(quotas=[{"member": [1]}]), "quotas[0] does not state a Quota"),
        (lambda: stated(quotas=Quota([1])), "quotas must be a list"),
        (lambda: stated(budgets=[Budget(SECONDS[:5], 9, "s")]), "budget 's' must have one entry per client, 12; got 5"),
        (
            lambda: stated(quotas=[Quota([0, 1], 2, name="two"), Quota(range(5), 0, 1, "five")]),
            "quota 'five' allows at most 1 client(s), but at least 2 of it must be selected",
        ),
        (lambda: stated(quotas=[Quota([0], name="a"), Quota([1], name="a")]), "two constraints are named 'a'"),
        (lambda: stated(quotas=[Quota(range(N), 5, name="all")]), "at least 5 clients must be selected"),
        (
            lambda: stated(quotas=[Quota([10, 11], 1)], budgets=[Budget(SECONDS, 16, "seconds")]),
            "the cheapest 4 clients that meet the quotas use 17 of budget 'seconds', whose limit is 16",
        ),
    ],
)  # fmt: skip
def test_what_is_no_constraint_is_refused_by_a_sentence_that_names_it(make, sentence):
    with pytest.raises(InvalidProblem) as error:
        make()
    assert sentence in str(error.value)


def test_one_form_holds_states_rows_and_merged_conflicts():
    problem = stated(include=[3], conflicts=[(3, 5), (7, 8), (8, 9), (7, 9)], quotas=[Quota([0, 1], 1)])
    assert np.flatnonzero(problem.constraints.states).tolist() == [3, 5]
    assert [(row.name, row.kind) for row in problem.constraints.rows] == [
        ("quotas[0]", "quota"),
        ("3, 5", "conflict"),
        ("7, 8, 9", "conflict"),
    ]


def test_a_sum_of_decimal_fractions_keeps_its_limit():
    problem = DispersionProblem(1 - np.eye(3), size=2, budgets=[Budget([0.1, 0.2, 9.0], 0.3)])
    assert problem.violation([1, 1, 0]) == 0
    assert problem.violation([1, 0, 1]) == pytest.approx(8.8)


def test_members_are_ids_of_clients():
    problem = DispersionProblem(DISTANCES, size=2, clients=np.arange(100, 112), include=[103], exclude=[100, 101])
    assert 103 in solve(problem, "brute-force").selected
    assert np.flatnonzero(problem.constraints.states == 1).tolist() == [3]


ALL = {
    "include": [1],
    "exclude": [2],
    "quotas": [Quota([3, 4, 5], 1, 2, "north")],
    "budgets": [Budget(SECONDS, 24.5, "seconds")],
    "conflicts": [(6, 7)],
}


@pytest.mark.parametrize(
    "plain",
    [
        stated(),
        PointDispersionProblem(POINTS, size=M),
        KindDispersionProblem(DISTANCES[:3, :3], np.arange(N) % 3, size=M),
    ],
)
def test_files_and_digests_carry_constraints(tmp_path, plain):
    data = {field.name: getattr(plain, field.name) for field in fields(plain) if field.name not in ALL}
    problem = type(plain)(**data, **ALL)
    same = load(problem.save(tmp_path / "problem.npz"))
    assert digest(same) == digest(problem) != digest(plain)
    assert same.stated_constraints() | {"budgets": 0} == problem.stated_constraints() | {"budgets": 0}
    assert np.array_equal(same.budgets[0].use, SECONDS)
    assert len({digest(type(plain)(**data, **{name: value})) for name, value in ALL.items()}) == 5
    assert digest(type(plain)(**data, **dict.fromkeys(ALL, ()))) == digest(plain)


def test_a_method_that_does_not_keep_constraints_says_so_before_it_runs():
    problem = stated(include=[1])
    kept = {each.name for each in methods(problem)}
    assert {"auto", "brute-force", "greedy"} <= kept
    for each in methods(stated()):
        if each.name not in kept and not each.missing:
            with pytest.raises(InvalidProblem, match="does not keep side constraints; methods of this problem that do"):
                solve(problem, each.name)


def test_a_second_bound_and_a_start_do_not_ignore_constraints():
    problem = stated(include=[1])
    others = {each.name for each in methods(stated()) if each.kind != "heuristic" and not each.missing} - {
        each.name for each in methods(problem)
    }
    for name in others:
        with pytest.raises(InvalidProblem):
            solve(problem, "greedy", bound_by=name)
    with pytest.raises(ValueError, match="start must be feasible"):
        solve(problem, "local-search", start=[0] * (N - M) + [1] * M)


@pytest.mark.parametrize("size", [1, N - 1, N])
def test_what_is_trivial_without_constraints_keeps_them(size):
    others = [k for k in range(N) if k != 5]
    for h in (DISTANCES, np.zeros((N, N))):
        for constraints in ({"include": [5]}, {"budgets": [Budget(SECONDS != 6, size - 1)]}):
            problem = DispersionProblem(h, np.arange(N) == 5, size=size, **constraints)
            for name in ("auto", "brute-force", "milp", "greedy", "local-search"):
                assert 5 in solve(problem, name, time_limit=20).selected, (name, constraints)
    if size < N:
        problem = DispersionProblem(DISTANCES, SECONDS, size=size, quotas=[Quota(others, size)])
        assert 5 not in solve(problem, "auto", time_limit=20).selected


@pytest.mark.parametrize("least", [2, 3])
def test_at_least_so_many_regions_are_quotas_of_one_fewer(least):
    """A selection lies in fewer regions exactly if it lies in the union of some of one fewer."""
    regions, size = [{0, 1, 2, 3}, {4, 5}, {6, 7}, {8, 9}], 4
    unions = [set().union(*some) for some in itertools.combinations(regions, least - 1)]
    quotas = [Quota(sorted(union), at_most=size - 1) for union in unions]
    problem = DispersionProblem(np.ones((10, 10)) - np.eye(10), size=size, quotas=quotas)
    kept = 0
    for selection in itertools.combinations(range(10), size):
        touched = sum(bool(region & set(selection)) for region in regions)
        feasible = problem.violation(np.isin(np.arange(10), selection).astype(int)) == 0
        assert feasible == (touched >= least)
        kept += feasible
    assert 0 < kept < 210


def test_a_round_has_the_constraints_of_those_who_are_available():
    available = np.arange(N) % 2 == 0
    problem = DispersionProblem.fedgs(
        DISTANCES, np.zeros(N), available, 3, 1.0, budgets=[Budget(SECONDS, 20.0)], exclude=[1, 2],
        quotas=[Quota([0, 1, 2, 4], 1, name="north")], conflicts=[(4, 6), (6, 7)],
    )  # fmt: skip
    assert problem.quotas[0].members == (0, 2, 4)
    assert problem.conflicts == ((4, 6),)
    assert problem.exclude == (2,)
    assert np.array_equal(problem.budgets[0].use, SECONDS[::2])
    with pytest.raises(InvalidProblem, match="include names client 1, who is not among those to select from"):
        DispersionProblem.fedgs(DISTANCES, np.zeros(N), available, 3, 1.0, include=[1])
    with pytest.raises(InvalidProblem, match="quota 'odd' asks for at least 1 client"):
        DispersionProblem.fedgs(DISTANCES, np.zeros(N), available, 3, 1.0, quotas=[Quota([1, 3], 1, name="odd")])
    with pytest.raises(TypeError, match="did you mean 'quotas'"):
        DispersionProblem.fedgs(DISTANCES, np.zeros(N), available, 3, 1.0, quota=[])


@pytest.mark.parametrize(("write", "suffix"), [(write_lp, "lp"), (write_mps, "mps")])
def test_model_files_have_the_rows(tmp_path, write, suffix):
    import highspy

    problem = stated(**ALL)
    write(problem, path := tmp_path / f"model.{suffix}", "rlt")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    found = [round(value) for value in highs.getSolution().col_value][:N]
    best = solve(problem, "brute-force")
    assert problem.objective(found) == pytest.approx(best.objective)
    assert problem.violation(found) == 0
    assert best.objective < solve(stated(), "brute-force").objective - 1e-3


@pytest.mark.parametrize("write", [write_mdplib, write_qubo])
def test_formats_without_rows_refuse_them(tmp_path, write):
    with pytest.raises(InvalidProblem, match="side constraints"):
        write(stated(**ALL), tmp_path / "file")
