"""Certificates under side constraints: true beside every selection, read alike by both, refused where changed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from solvers import solve
from solvers.certificates import CertificateError, check, check_certificate, problem_digest
from solvers.certificates.exact.sides import FREE, ONE, OVER, Sides
from solvers.constraints import Budget, Quota
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from tests.solvers.certificates.test_soundness import as_read, every_branch, one_node, refused, second
from tests.solvers.dispersion.constrained.cases import draw_case, feasible_cases
from tests.thoroughly import few_of

SEEDS = few_of(
    [range(20_000, 20_010), range(20_010, 20_030), *(range(k, k + 30) for k in range(20_030, 22_000, 30))], 1
)


def value(problem, selection):
    h, w = problem.distances, Fraction(problem.weight)
    pairs = sum((Fraction(h[i, j]) for i in selection for j in selection), Fraction(0))
    return w * pairs - sum((Fraction(problem.costs[i]) for i in selection), Fraction(0))


def proved(problem):
    """A problem's certificate, by the branch and bound."""
    found = solve(problem, "branch-and-bound", certificate=True)
    assert found.certificate is not None, found.certificate_report
    return found.certificate


def round_of_clients(n=16, m=5):
    """A problem whose certificate has several nodes, with prices of a quota and of a budget."""
    rng = np.random.default_rng(3)
    h = rng.random((n, n))
    return DispersionProblem(
        np.triu(h, 1) + np.triu(h, 1).T, rng.random(n), size=m,
        quotas=[Quota(range(6), 1, 2, "north"), Quota(range(6, 11), 2, None, "south")],
        budgets=[Budget(rng.lognormal(size=n), 6.0, "seconds")], conflicts=[(0, 11), (12, 13, 14)],
    )  # fmt: skip


@pytest.mark.parametrize("seeds", SEEDS)
def test_both_checkers_verify_what_is_written_and_no_selection_is_better(seeds):
    for problem, kept in feasible_cases(seeds):
        certificate = proved(problem)
        bound = check(problem, certificate)
        assert Fraction(bound) >= max(value(problem, each) for each in kept)
        assert second(problem, certificate) == pytest.approx(bound, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seeds", SEEDS)
def test_consequences_keep_every_selection_that_keeps_the_constraints(seeds):
    for seed, (problem, kept) in enumerate(feasible_cases(seeds)):
        rng, sides = np.random.default_rng(seed), Sides(problem)
        state = sides.start.copy()
        state[rng.choice(problem.n)] = rng.choice([ONE, 3 - ONE])
        agree = [each for each in kept if all((i in each) == (state[i] == ONE) for i in np.flatnonzero(state != FREE))]
        left = sides.consequences(state)
        assert left is not None or not agree
        for each in agree:
            assert all((i in each) == (left[i] == ONE) for i in np.flatnonzero(left != FREE))


def test_rows_are_those_of_the_statement():
    problem = DispersionProblem(
        1 - np.eye(4), size=2, clients=[2, 3, 5, 7], include=[3], exclude=[7],
        quotas=[Quota([2, 3], 1, 2), Quota([5], 0, None)], budgets=[Budget([0, 1, 2, 4], 3.0)], conflicts=[(2, 5)],
    )  # fmt: skip
    sides = Sides(problem)
    assert sides.rows.tolist() == [[1, 1, 0, 0], [-1, -1, 0, 0], [0, 2**38, 2**39, 2**40], [1, 0, 1, 0]]
    assert sides.limits == [2, -1, -(-3 * 2**38 * (1 + OVER) // 1), 1]
    assert sides.start.tolist() == [0, 1, 0, 2]
    paid, each = sides.charge(np.array([0, 3, 5, 0]))
    assert (paid, each.tolist()) == (-3 + 4, [-3, -3 + 1, 2, 5])


@pytest.mark.parametrize("seeds", SEEDS)
def test_products_of_rows_are_not_negative_and_rounded_alike(seeds):
    for seed, (problem, kept) in enumerate(feasible_cases(seeds)):
        rng, sides = np.random.default_rng(seed), Sides(problem)
        fine = [r for r, limit in enumerate(sides.limits) if abs(limit) <= problem.size * sides.units[r]]
        if not fine:
            continue
        triples = [[*rng.choice(fine, 2).tolist(), int(rng.integers(2**39) >> rng.integers(39))] for _ in range(2)]
        chosen = kept[rng.integers(len(kept))]
        ones = np.array(chosen[: rng.integers(len(chosen) + 1)], dtype=int)
        ids = np.setdiff1d(np.arange(problem.n), ones)
        constant, linear, matrix = sides.products(triples, ones, ids)
        rules = check_certificate.Sides(as_read(problem), problem.n, problem.size, SimpleNamespace(price=[], origin=[]))
        assert rules.products(triples, ones.tolist(), ids.tolist()) == (constant, linear.tolist(), matrix.tolist())
        for x in (np.isin(np.arange(problem.n), each) for each in kept if set(ones.tolist()) <= set(each)):
            exact = Fraction(0)
            for r, t, price in triples:
                left = Fraction(sides.limits[r] - int(sides.rows[r][x].sum()), sides.units[r])
                other = Fraction(sides.limits[t] - int(sides.rows[t][x].sum()), sides.units[t])
                if r == t:
                    other = Fraction(
                        int(sides.rows[r][x].sum() - np.sort(sides.rows[r])[: problem.size].sum()), sides.units[r]
                    )
                exact += price * left * other
            value = constant + int(linear[x[ids]].sum()) + int(matrix[np.ix_(x[ids], x[ids])].sum())
            assert 0 <= exact <= value <= exact + len(triples) * (problem.size + 1) ** 2


@pytest.mark.parametrize("part", [0, 1, 2])
def test_products_of_rows_one_unit_low_prove_what_is_false(monkeypatch, part):
    """What fuzzing cannot see: at the optimum both rows leave nothing, so that one unit less of each is a false bound.

    It is one where a part (the constant, the linear term, the matrix) is made lower, and refused as it is.
    """
    costs, times = np.array([-(10.0**9), -(10.0**9), 0, 0, 0]), 20
    problem = DispersionProblem(np.zeros((5, 5)), costs, size=2, quotas=[Quota([0, 1], 0, 2), Quota([0, 1, 2], 0, 2)])
    optimum, point = 2 * 10**9, np.array([1, 1, 0, 0, 0])
    triples = np.tile([0, 1, 1, 1, 0, 3, 0, 0, 2], times)
    lie = one_form(problem, bound=optimum - 1.0, goal=optimum - 1, point=point, form_row=triples)
    refused(problem, lie, "proves only")
    assert check(problem, replace(lie, bound=float(optimum))) == optimum
    as_it_is, in_lists = Sides.products, check_certificate.Sides.products

    def low(sides, triples, ones, ids):
        found = list(as_it_is(sides, triples, ones, ids))
        found[part] = found[part] - len(triples)
        return found

    def low_in_lists(sides, triples, ones, ids):
        constant, linear, matrix = in_lists(sides, triples, ones, ids)
        less = len(triples)
        lower = constant - less, [x - less for x in linear], [[x - less for x in row] for row in matrix]
        return [lower[k] if k == part else whole for k, whole in enumerate((constant, linear, matrix))]

    monkeypatch.setattr(Sides, "products", low)
    monkeypatch.setattr(check_certificate.Sides, "products", low_in_lists)
    assert check(problem, lie) == second(problem, lie) == optimum - 1.0


def test_products_of_no_rows_are_refused():
    problem = told(quotas=[Quota([0, 1, 2], 0, 1), Quota([3, 4], 0, 9)])
    point = np.array([0, 1, 1, 0, 0])
    for triple, why in (
        ([2, 0, 1], "row"), ([0, 1, 1], "no limit"), ([0, 0, 2**40 - 1, 0, 0, 1], "too large in sum"),
    ):  # fmt: skip
        refused(problem, one_form(problem, bound=5e3, goal=5000, point=point, form_row=np.array(triple)), why)
    lie = one_form(problem, bound=5e3, goal=5000, point=point, form_row=np.array([0, 0, -1]))
    refused(problem, lie, "'form_row' must lie between 0")


def test_products_of_rows_close_a_root():
    """Equal quotas split what is equally far: without products of rows the root's bound is that of any split."""
    n, half = 12, np.arange(12) < 6
    h = np.where(half[:, None] == half, 0.2, 1.0) * (1 - np.eye(n))
    problem = DispersionProblem(h, np.linspace(0, 0.1, n), size=6, quotas=[Quota(range(6), 4, 4, "first")])
    certificate = proved(problem)
    assert "form_row" in certificate.arrays
    assert certificate.arrays["origin"].size == 1
    assert second(problem, certificate) == pytest.approx(check(problem, certificate), rel=1e-12)


@pytest.mark.parametrize("seeds", SEEDS)
def test_points_are_bounded_by_prices_of_all_rows(seeds):
    for seed, (other, kept) in enumerate(feasible_cases(seeds)[:6]):
        stated, places = other.stated_constraints(), np.random.default_rng(seed).random((other.n, 2))
        problem = PointDispersionProblem(places, other.costs, size=other.size, **stated)
        best = max(problem.objective(problem.feasible.decision(each)) for each in kept)
        certificate = solve(problem, "brute-force", certificate=True).certificate
        bound = check(problem, certificate)
        assert bound >= best - 1e-12
        assert second(problem, certificate) == pytest.approx(bound, rel=1e-12, abs=1e-12)
        price = np.zeros(len(Sides(problem).limits) + 1, dtype=np.int64)
        refused(problem, replace(certificate, arrays={**certificate.arrays, "price": price}), "price for each row")
    budget = PointDispersionProblem(np.eye(4), -_WORTH[:4], size=2, budgets=[Budget([3, 1, 1, 1], 3)])
    certificate = solve(budget, "brute-force", certificate=True).certificate
    assert certificate.bound < 16 + 8 + 2 * 2**0.5 - 1  # what it is without the budget


def lowest(problem):
    """A value that any so many clients exceed, or have."""
    return -np.sort(problem.costs)[-problem.size :].sum()


def test_that_there_is_no_selection_is_proved():
    drawn = [problem for problem, kept in map(draw_case, range(100, 220)) if problem is not None and not kept]
    use = np.random.default_rng(0).random(20)
    together = [Budget(use, 3.95, "a"), Budget(1 - use, 3.95, "b")]  # either alone can be kept
    drawn.append(DispersionProblem(1 - np.eye(20), size=8, budgets=together))
    for problem in drawn:
        found = solve(problem, "branch-and-bound", certificate=True)
        assert found.status == "infeasible"
        assert check(problem, found.certificate) < lowest(problem)
        assert second(problem, found.certificate) == pytest.approx(found.certificate.bound, rel=1e-9)
    assert found.certificate.arrays["origin"].size == 1
    arrays = {**found.certificate.arrays, "price": 0 * found.certificate.arrays["price"]}
    refused(problem, replace(found.certificate, arrays=arrays), "tangent lies above the goal")


def test_liars_are_refused():
    problem = round_of_clients()
    good = proved(problem)
    price, optimum = good.arrays["price"].astype(np.int64), solve(problem, "brute-force").objective
    assert price.any()

    def changed(**arrays):
        return replace(good, arrays={**good.arrays, **arrays})

    refused(problem, changed(price=-price), "'price' must lie between 0")
    refused(problem, changed(price=price[:-1]), "one price for each row")
    count = good.arrays["form_ids_start"].size
    follows = {"form_better": np.array([0, 1]), "form_better_start": np.array([0, *[2] * (count - 1)])}
    refused(problem, changed(**follows), "no client is chosen because another one is")
    refused(problem, replace(good, bound=optimum - 1e-3), "proves only")


def test_a_side_that_is_left_out_must_be_infeasible():
    """A tree that branches to the end needs no node where the constraints leave nothing, and every other one."""
    h = 1 - np.eye(5)
    problem = DispersionProblem(h, size=2, budgets=[Budget([4, 4, 1, 1, 1], 5.0)])
    tree = replace(every_branch(problem, grid=0, goal=-10), bound=2.0)
    assert check(problem, tree) == second(problem, tree) == 2.0
    for node in range(1, tree.arrays["origin"].size):
        # The node stands at the root's other place, which is none: its own is empty.
        origin = tree.arrays["origin"].copy()
        below = origin >= 2 * node
        lacking = {name: np.delete(tree.arrays[name], node) for name in ("origin", "client", "form")}
        lacking["origin"] = np.where(lacking["origin"] >= 2 * node, lacking["origin"] - 2, lacking["origin"])
        if below.any():
            continue
        forged = replace(tree, arrays={**tree.arrays, **lacking, "point": tree.arrays["point"][: -problem.n]})
        side = int(origin[node])
        if side == 1:  # with the first client, who uses 4, any of the last three may come
            refused(problem, forged, "missing")
        else:
            assert (second(problem, forged) is None) == _is_refused(problem, forged)


#: Values of selections of two of five: all different. A client's cost is its worth with the sign changed.
_WORTH = np.array([16.0, 8.0, 4.0, 2.0, 1.0])
_THIRDS = np.array([0.1, 0.2, 0.3, 0.1, 0.2])
_TOLD = {
    "included": ({"include": [4]}, 17),
    "excluded": ({"exclude": [0]}, 12),
    "ids that are not places": ({"clients": [2, 3, 5, 7, 11], "exclude": [2], "include": [11]}, 9),
    "at most": ({"quotas": [Quota([0, 1, 2], 0, 1)]}, 18),
    "none of": ({"quotas": [Quota([0, 1], 0, 0)]}, 6),
    "at least": ({"quotas": [Quota([3, 4], 1)]}, 18),
    "at least, all": ({"quotas": [Quota([3, 4], 2)]}, 3),
    "at most what is met": ({"quotas": [Quota([0, 1], 2, 2), Quota([2, 3, 4], 0, 0)]}, 24),
    "conflict": ({"conflicts": [(0, 1), (0, 2)]}, 18),
    "conflicts of three": ({"conflicts": [(0, 1, 2), (0, 3)]}, 17),
    "a limit that is met": ({"budgets": [Budget([3, 2, 1, 1, 1], 5)]}, 24),
    "a limit that is missed": ({"budgets": [Budget([3, 2, 1, 1, 1], 4.99)]}, 20),
    "a limit of decimals": ({"budgets": [Budget(_THIRDS, 0.1 + 0.2 - 1e-16)]}, 24),
    "a limit that is exceeded by what is allowed": ({"budgets": [Budget([1, 1, 0, 0, 0], 2 / (1 + 0.99e-9))]}, 24),
    "a limit of nothing": ({"budgets": [Budget([1, 1, 1, 0, 0], 0)]}, 3),
    "uses of very different size": ({"budgets": [Budget([1e9, 1e-9, 1e-9, 1e-9, 1], 2e-9)]}, 12),
    "two that leave one": ({"budgets": [Budget([5, 1, 1, 1, 1], 5)], "quotas": [Quota([3, 4], 1, 1)]}, 10),
}  # fmt: skip


def told(**stated):
    return DispersionProblem(np.zeros((5, 5)), -_WORTH, size=2, **stated)


@pytest.mark.parametrize("name", _TOLD)
def test_both_count_the_selections_of_the_statement_and_no_others(name):
    """A tree that closes nothing proves the largest value among what the constraints leave."""
    stated, optimum = _TOLD[name]
    problem = told(**stated)
    tree = replace(every_branch(problem, grid=0, goal=-100), bound=100.0)
    assert solve(problem, "brute-force").objective == optimum
    assert check(problem, tree) == second(problem, tree) == optimum


def test_kinds_are_read_with_the_ids_of_their_clients():
    stated = {"clients": [2, 3, 5, 7, 11], "exclude": [3], "quotas": [Quota([2, 5], 0, 1)]}
    problem = KindDispersionProblem([[0.0]], np.zeros(5, dtype=int), -_WORTH, size=2, **stated)
    tree = replace(every_branch(problem, grid=0, goal=-100), kind="kinds", bound=100.0)
    assert check(problem, tree) == second(problem, tree) == 18


def one_form(problem, *, bound, goal, **changed):
    """A single node over a form that its room makes concave, with the point at the first clients."""
    tree = one_node(problem, bound=bound, grid=0, goal=goal, room=1000)
    changed |= {f"{name}_start": np.array([0, array.size]) for name, array in changed.items() if "form_" in name}
    return replace(tree, arrays={**tree.arrays, **changed})


def test_a_negative_price_is_refused():
    """What is unused of a limit, taken off: without the rule bound 5 for an optimum of 12."""
    problem = told(exclude=[0], budgets=[Budget([1, 0, 0, 0, 0], 1)])
    point = np.array([0, 1, 1, 0, 0])
    fine = one_form(problem, bound=5000.0, goal=5000, point=point, price=np.array([7]))
    assert check(problem, fine) == second(problem, fine) == 5000
    lie = one_form(problem, bound=5.0, goal=5, point=point, price=np.array([-5000]))
    refused(problem, lie, "'price' must lie between 0")


def test_there_is_a_price_for_each_row_at_each_node():
    problem = told(quotas=[Quota([0, 1, 2], 1, 1)], conflicts=[(3, 4)])
    for count in (1, 2, 4):
        lie = one_form(problem, bound=6000.0, goal=6000, price=np.zeros(count, dtype=np.int64))
        refused(problem, lie, "one price for each row")
    free = told()
    refused(free, one_form(free, bound=6000.0, goal=6000, price=np.array([1])), "one price for each row")


def test_nobody_follows_another_beside_constraints():
    """Client 0 is always better than 1, but excluded: without the rule bounds below the optimum of 12."""
    problem = told(exclude=[0])
    tree = replace(every_branch(problem, grid=0, goal=-100), bound=-100.0)
    follows = {"form_better": np.array([0, 1, 0, 2, 0, 3]), "form_better_start": np.array([0, 6])}
    refused(problem, replace(tree, arrays={**tree.arrays, **follows}), "no client is chosen because another one is")
    dominated = np.array([(0, k, -(10**6)) for k in range(1, 5)]).ravel()
    lie = one_form(problem, bound=-50.0, goal=-50, form_dominated=dominated, point=np.array([0, 1, 1, 0, 0]))
    refused(problem, lie, "no client is chosen because another one is")


@pytest.mark.parametrize(
    "stated",
    [
        {"include": [7]},
        {"include": [0], "exclude": [0]},
        {"quotas": [{"members": [0, 0], "at_least": 0, "at_most": 0}]},
        {"quotas": [{"members": [0, 9], "at_least": 0, "at_most": 0}]},
        {"quotas": [{"members": [0], "at_least": 0, "at_most": 0.5}]},
        {"quotas": [{"members": [0], "at_least": "1", "at_most": None}]},
        {"conflicts": [[0, 0]]},
        {"clients": [0, 0, 1, 2, 3]},
        {"clients": [0.0, 1.0, 2.0, 3.0, 4.0]},
        {"budgets": [{"use": [1.0, 1.0], "limit": 0.0}]},
        {"budgets": [{"use": [-1.0, 1.0, 1.0, 1.0, 1.0], "limit": 0.0}]},
        {"budgets": [{"use": [1.0] * 5, "limit": float("inf")}]},
    ],
)
def test_the_one_file_reads_no_statement_that_cannot_be_made(stated):
    """Files that the package does not write: a constraint that is misread could leave too few selections."""
    problem = told()
    tree = every_branch(problem, grid=0, goal=-100)
    arrays = {name: array.tolist() for name, array in tree.arrays.items()}
    given = SimpleNamespace(**{**vars(as_read(problem)), **stated})
    with pytest.raises(check_certificate.Refused):
        check_certificate.check(given, tree.kind, tree.problem, 100.0, tree.grid, arrays)


def test_what_prices_charge_is_never_more_than_the_rows_allow():
    """Rounded uses are charged down: three thirds of a unit are less than one."""
    problem = DispersionProblem(np.zeros((5, 5)), size=3, budgets=[Budget([1, 1, 1, 3, 0], 3)])
    sides = Sides(problem)
    for price in (1, 2, 5, 2**39 + 1):
        paid, each = sides.charge(np.array([price]))
        given = SimpleNamespace(price=[price], origin=[-1])
        rules = check_certificate.Sides(as_read(problem), 5, 3, given)
        base, slope = rules.charge((0, [0] * 5), 0, 1)
        for kept in ([0, 1, 2], [0, 3, 4], [3, 4], [0, 1, 4]):
            if sum(problem.budgets[0].use[kept]) <= 3:
                assert paid >= sum(each[kept])
                assert base + sum(slope[k] for k in kept) >= 0
        assert (paid, (-each).tolist()) == (base, slope)


def test_both_close_a_node_at_the_same_goal():
    """Three nodes with prices of their own, in units of a fourth: the least goal that both accept is no lie."""
    stated = {"quotas": [Quota([0, 1, 2], 1, 1)], "budgets": [Budget([3, 2, 1, 1, 1], 4.5)], "conflicts": [(3, 4)]}
    problem = told(**stated)
    rng, least = np.random.default_rng(0), set()
    for _ in range(5):
        tree = one_node(problem, bound=1e9, grid=0, goal=0, room=100, grain=4)
        # Form by form, there client by client, the three nodes in their order.
        shares = np.array([rng.permutation([1, 3, 2, 2, 0]) for _ in range(3)]).T.ravel()
        nodes = {"origin": [-1, 0, 1], "client": [int(rng.integers(5)), -1, -1], "form": [0, 0, 0]}
        arrays = {**tree.arrays, **{k: np.array(v) for k, v in nodes.items()}, "point": shares}
        arrays["price"] = rng.integers(0, 90, 12)
        low, high = 0, 10_000
        while low < high:
            middle = (low + high) // 2
            trial = replace(tree, arrays={**arrays, "goal": np.array([middle])})
            verdict = not _is_refused(problem, trial)
            assert (second(problem, trial) is not None) == verdict
            low, high = (low, middle) if verdict else (middle + 1, high)
        assert low >= 18
        least.add(low)
    assert len(least) > 2


def test_every_constraint_is_in_the_digest():
    stated = {"clients": [2, 3, 5, 7, 11], "include": [11], "exclude": [2], "conflicts": [(3, 5)]}
    stated |= {"quotas": [Quota([3, 5], 0, 1)], "budgets": [Budget([1, 1, 1, 1, 2], 3)]}
    whole = problem_digest(told(**stated))
    others = [{**stated, name: value} for name, value in {
        "clients": [2, 3, 5, 8, 11], "include": (), "exclude": (), "conflicts": (), "quotas": [Quota([3, 5], 0, 2)],
        "budgets": [Budget([1, 1, 1, 1, 2], 3.5)],
    }.items() if name != "clients"]  # fmt: skip
    others += [{**stated, "budgets": [Budget([1, 1, 2, 1, 2], 3)]}, {**stated, "quotas": [Quota([3, 7], 0, 1)]}]
    assert len({whole, *(problem_digest(told(**other)) for other in others)}) == 1 + len(others)


def _is_refused(problem, certificate):
    try:
        check(problem, certificate)
    except CertificateError:
        return True
    return False


def test_certificates_of_other_constraints_prove_nothing_wrong():
    """Rows dropped, limits and uses off by a little: refused, or what is proved holds for the problem all the same."""
    problem = round_of_clients()
    good, stated = proved(problem), problem.stated_constraints()
    seconds = problem.budgets[0]
    others = {
        "no budget": {"budgets": ()},
        "no quota": {"quotas": ()},
        "no conflict": {"conflicts": ()},
        "limit": {"budgets": [Budget(seconds.use, 1.05 * seconds.limit)]},
        "use": {"budgets": [Budget(np.roll(seconds.use, 1), seconds.limit)]},
        "quota": {"quotas": [Quota(range(6), 1, 3), problem.quotas[1]]},
        "member": {"quotas": [Quota(range(1, 7), 1, 2), Quota(range(7, 11), 2)]},
    }
    outcomes = set()
    for change in others.values():
        other = DispersionProblem(problem.distances, problem.costs, size=problem.size, **{**stated, **change})
        forged, optimum = replace(good, problem=problem_digest(other)), solve(other, "brute-force").objective
        try:
            verdict = check(other, forged)
        except CertificateError:
            verdict = None
        assert (second(other, forged) is None) == (verdict is None)
        assert verdict is None or verdict >= optimum - 1e-9
        outcomes.add(verdict is None)
    assert True in outcomes


def test_changed_prices_never_prove_less_than_the_optimum():
    problem = round_of_clients()
    good, optimum = proved(problem), solve(problem, "brute-force").objective
    rng = np.random.default_rng(0)
    for _ in range(20):
        price = good.arrays["price"].astype(np.int64)
        price[rng.integers(price.size)] += int(rng.integers(1, 2**30))
        try:
            assert check(problem, replace(good, arrays={**good.arrays, "price": price})) >= optimum - 1e-9
        except CertificateError:
            continue
