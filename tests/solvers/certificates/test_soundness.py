"""Certificates that a liar would write: each broke a rule of the checker that was missing; both refuse them now."""

from __future__ import annotations

import functools
import itertools
import tempfile
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from solvers import solve
from solvers.allocation import AllocationProblem
from solvers.capping import CappingProblem
from solvers.certificates import (
    Certificate,
    CertificateError,
    check,
    check_certificate,
    problem_digest,
    schema,
)
from solvers.certificates.exact import concave
from solvers.dispersion import DispersionProblem, KindDispersionProblem
from solvers.participation import CutoffProblem

NONE = np.zeros(0, dtype=np.int64)


def integers(*numbers):
    return np.array(numbers, dtype=np.int64)


def uniform(seed, n, m, weight=1.0):
    h = np.triu(np.random.default_rng(seed).uniform(0, 1, (n, n)), 1)
    return DispersionProblem(h + h.T, size=m, weight=weight)


def alike(n, m, distance=1.0):
    """All clients at the same distance: optimum m (m - 1) times it."""
    return DispersionProblem(distance * (1.0 - np.eye(n)), size=m)


def one_node(problem, *, bound, grid, goal, diagonal=0, room=0, grain=1, triples=NONE, share=None):
    """A search of one node that one form over all clients closes; by default at the first clients."""
    n, m = problem.n, problem.size
    point = integers(*[grain] * m, *[0] * (n - m)) if share is None else np.full(n, share)
    arrays = {
        "order": np.arange(n),
        "form_ones": NONE,
        "form_ones_start": integers(0, 0),
        "form_ids": np.arange(n),
        "form_ids_start": integers(0, n),
        "form_diagonal": np.full(n, diagonal),
        "form_diagonal_start": integers(0, n),
        "form_nonnegative": triples,
        "form_nonnegative_start": integers(0, triples.size),
        "form_dominated": NONE,
        "form_dominated_start": integers(0, 0),
        "form_better": NONE,
        "form_better_start": integers(0, 0),
        "form_room": integers(room),
        "goal": integers(goal),
        "grain": integers(grain),
        "origin": integers(-1),
        "client": integers(-1),
        "form": integers(0),
        "point": point,
    }
    return Certificate("dispersion", problem_digest(problem), float(bound), grid, arrays)


def every_branch(problem, *, grid, room=100, goal=0):
    """A search that branches until one selection is left, and whose tangents close and fix nothing."""
    n, m = problem.n, problem.size
    one = one_node(problem, bound=0.0, grid=grid, goal=goal, room=room, grain=n, share=m)
    origins, clients = [], []

    def visit(origin, client, chosen):
        if 0 < m - chosen < n - client:
            number = len(origins)
            origins.append(origin)
            clients.append(client)
            visit(2 * number, client + 1, chosen)
            visit(2 * number + 1, client + 1, chosen + 1)

    visit(-1, 0, 0)
    count = len(origins)
    nodes = {"origin": integers(*origins), "client": integers(*clients), "form": np.zeros(count, dtype=np.int64)}
    return replace(one, arrays={**one.arrays, **nodes, "point": np.full(count * n, m)})


def with_rlt(problem, rng, *, bits=7, grid=-8):
    """A search without nodes after two stages of any multipliers, and a goal that no sum of theirs exceeds."""
    n, arrays = problem.n, dict(one_node(problem, bound=0.0, grid=grid, goal=1 << 60).arrays)
    for name in ("origin", "client", "form", "point", "form_room"):
        arrays[name] = NONE
    arrays |= {name: NONE for name in arrays if name.startswith("form_") and not name.endswith("_start")}
    arrays |= {name: integers(0) for name in arrays if name.endswith("_start")}
    parts = {name: [] for name in ("ids", "price", "core", "factor", "moved")}
    for _ in range(2):
        ids = np.sort(rng.choice(n, int(rng.integers(0, n + 1)), replace=False))
        moved = int(rng.integers(0, 3 * n))
        most = 1 << bits
        parts["ids"].append(ids)
        parts["price"].append(rng.integers(-most, most, ids.size))
        parts["core"].append(rng.integers(0, n, int(rng.integers(0, n))))
        parts["factor"].append(rng.integers(-most, most, ids.size * int(rng.integers(0, 4))))
        triples = [rng.integers(0, n, moved), rng.integers(0, n, moved), rng.integers(-most, most, moved)]
        parts["moved"].append(np.column_stack(triples).ravel())
    for name, each in parts.items():
        arrays[f"stage_{name}"] = np.concatenate(each).astype(np.int64)
        arrays[f"stage_{name}_start"] = np.cumsum([0, *(part.size for part in each)])
    arrays["stage_halvings"] = rng.integers(0, 2 * bits, 2)
    return Certificate("rlt", problem_digest(problem), 1e300, grid, arrays)


def with_cuts(certificate, cuts, members):
    """The same with cuts in its only form: multiplier, k and number of members of each; place and factor of these."""
    new = {"form_cut": integers(*cuts), "form_cut_member": integers(*members)}
    starts = {f"{name}_start": integers(0, array.size) for name, array in new.items()}
    return replace(certificate, arrays={**certificate.arrays, **new, **starts})


@functools.cache
def as_read(problem):
    """A problem as the second checker reads it, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        return check_certificate.problem_of(problem.save(Path(folder) / "problem.npz"))


def second(problem, certificate):
    """The verdict of the one file on a problem and a certificate: the bound, or None; nothing else is raised."""
    arrays = {name: array.tolist() for name, array in certificate.arrays.items()}
    facts = certificate.kind, certificate.problem, certificate.bound, certificate.grid
    try:
        return check_certificate.check(SimpleNamespace(**vars(as_read(problem))), *facts, arrays)
    except check_certificate.Refused:
        return None


def refused(problem, certificate, match):
    """Refused by a sentence of this error and no other, and by the second checker, where a file can say the like."""
    with pytest.raises(CertificateError, match=match) as caught:
        check(problem, certificate)
    assert type(caught.value) is CertificateError
    lists = isinstance(certificate.arrays, dict) and all(map(is_list, certificate.arrays.values()))
    if type(problem).__module__.startswith("solvers.") and isinstance(certificate.kind, str) and lists:
        assert second(problem, certificate) is None


def is_list(array):
    """Whether a file can hold an array, and the second checker reads it as one list."""
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"


# -- the grid ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [2000, 1100, 10**10, -(10**10), 44.0, True, "0", None, np.int64(3)])
def test_grid_is_a_python_int_in_its_range(grid):
    """At 2^2000 all data became 0 and that counted as exact; 2^(10^10) took all memory; a float made all inexact."""
    problem = uniform(0, 6, 3)
    refused(
        problem, one_node(problem, bound=0.0, grid=grid, goal=0), "the grid must be a whole number from -900 to 900"
    )
    allocation = AllocationProblem([8, 5], [1.0, 2.0], 6)
    good = solve(allocation, certificate=True).certificate
    refused(allocation, replace(good, grid=float(good.grid)), "the grid must be a whole number")
    refused(allocation, replace(good, grid=10**10), "the grid must be a whole number")


@pytest.mark.parametrize("grid", [100, 600, 900])
def test_data_that_vanish_on_a_coarse_grid_are_not_exact(grid):
    """At 2^900 the smallest doubles become 0 when they are scaled, not only when they are rounded."""
    tiny = DispersionProblem((1.0 - np.eye(6)) * 2.0**-200, size=3)
    for problem in (uniform(0, 6, 3), tiny, DispersionProblem(np.zeros((6, 6)), np.full(6, -(2.0**-200)), size=3)):
        data = concave.Rounded.of(problem, grid)
        assert not data.pair.any()
        assert data.error >= Fraction(2) ** grid
        refused(problem, every_branch(problem, grid=grid), "proves only")
    assert check(alike(6, 3), replace(every_branch(alike(6, 3), grid=0), bound=6.0)) == 6.0


def test_products_that_vanish_are_not_exact():
    """Weight times distance underflows to 0, which a power of two as weight does not make exact."""
    distances = 1.0 - np.eye(4)
    exact = DispersionProblem(distances, size=2, weight=2.0**-100)
    assert concave.Rounded.of(exact, -110).error == 0
    distances[0, 1] = distances[1, 0] = 2.0**-1000
    assert concave.Rounded.of(DispersionProblem(distances, size=2, weight=2.0**-100), -110).error > 0


def test_a_product_may_be_rounded_twice_in_one_direction():
    """To a double that lies between two whole numbers, and from there to the farther of them: by more than a half."""
    distances, found = np.zeros((2, 2)), 0
    for seed in range(300):
        weight = float(np.random.default_rng(seed).uniform(1, 2))
        distances[0, 1] = distances[1, 0] = (2**39 - seed - 0.5) / weight
        problem = DispersionProblem(distances, size=2, weight=weight)
        data = concave.Rounded.of(problem, 0)
        off = abs(2 * Fraction(weight) * Fraction(distances[0, 1]) - data.value([0, 1]))
        assert off <= data.error
        found += off > 1
    assert found > 10


# -- multipliers -------------------------------------------------------------------------------------------------------


def test_a_diagonal_that_wraps_is_refused():
    """1 + (2^63 - 1) is -2^63, whose absolute value is negative: concavity was not tested."""
    problem = alike(6, 2, 0.5)
    lie = one_node(problem, bound=0.0, grid=-1, goal=0, diagonal=1, room=2**63 - 1, grain=6, share=2)
    refused(problem, lie, "entries of 'form_room' must lie between 0 and")


def test_a_diagonal_of_the_least_number_is_refused():
    problem = alike(6, 2, 0.5)
    lie = one_node(problem, bound=0.0, grid=-1, goal=0, diagonal=-(2**63), grain=6, share=2)
    refused(problem, lie, "entries of 'form_diagonal' must lie between")


def test_multipliers_that_are_not_concave_are_refused():
    """Without curvature the tangent at a vertex is below the optimum elsewhere."""
    problem = DispersionProblem(np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 9], [1, 1, 9, 0]], dtype=float), size=2)
    refused(problem, one_node(problem, bound=0.0, grid=0, goal=0), "do not make the objective concave")


def test_a_multiplier_given_twice_is_refused():
    """Many of one product wrap to a negative one; a few cancel what is then thought to be small."""
    problem = alike(4, 2)
    for pair in ((0, 1), (1, 0)):
        triples = integers(0, 1, 2**39, *pair, 2**39)
        lie = one_node(problem, bound=2.0, grid=-1, goal=4, diagonal=2**36, room=2**42, triples=triples)
        refused(problem, lie, "gives the multiplier of a pair twice")
    certificate = one_node(problem, bound=2.0, grid=-1, goal=4, diagonal=2, room=100)
    dominated = {"form_dominated": integers(0, 1, 5, 0, 1, -5), "form_dominated_start": integers(0, 6)}
    refused(problem, replace(certificate, arrays={**certificate.arrays, **dominated}), "of a pair twice")


@pytest.mark.parametrize(
    ("triple", "match"),
    [
        ((0, 1, -1), "entries of 'form_nonnegative' must lie between 0 and"),
        ((0, 1, 2**40), "entries of 'form_nonnegative' must lie between 0 and"),
        ((0, 0, 1), "two different open clients"),
        ((0, 9, 1), "two different open clients"),
    ],
)
def test_a_multiplier_is_of_two_clients_and_not_negative(triple, match):
    problem = alike(4, 2)
    refused(problem, one_node(problem, bound=2.0, grid=-1, goal=4, diagonal=2, triples=integers(*triple)), match)


@pytest.mark.parametrize(
    ("cuts", "members", "match"),
    [
        ((-1, 0, 2), (0, 1, 1, -1), "a negative multiplier"),
        ((1, 0, 3), (0, 1, 1, -1), "other members than it states"),
        ((1, 0, -1, 1, 0, 3), (0, 1, 1, -1), "other members than it states"),
        ((1, 0, 65), (0, 1) * 65, "or too many"),
        ((1, 0, 2), (0, 1, 4, -1), "not an open client"),
        ((1, 0, 2), (0, 1, -1, -1), "not an open client"),
        ((1, 0, 2), (0, 1, 1, 1025), "or its factor too large"),
        ((2**40 - 1, 0, 2), (0, 4, 1, 1), "of cuts are too large"),
        ((2**40 - 1, 2**39, 2), (0, 1, 1, 1), "of cuts are too large"),
        ((2**40, 0, 2), (0, 1, 1, 1), "entries of 'form_cut' must lie between"),
    ],
)
def test_a_cut_is_of_open_clients_and_never_negative(cuts, members, match):
    problem = alike(4, 2)
    good = one_node(problem, bound=2.0, grid=-1, goal=4, diagonal=2, room=20)
    refused(problem, with_cuts(good, cuts, members), match)


@pytest.mark.parametrize("point", [(0, 0, 0, 0), (2, 2, 2, 0), (4, 0, 0, 0), (1, 1, 1, 0)])
def test_a_point_beside_the_slice_is_refused(point):
    """A form is concave where shares sum to m and nowhere else: from 0 the tangent was -1600, the optimum is 2000."""
    problem = alike(4, 2, 1000.0)
    good = one_node(problem, bound=2200.0, grid=0, goal=2200, diagonal=-900, room=100, grain=2, share=1)
    assert check(problem, good) == 2200.0
    lie = replace(good, bound=0.0, arrays={**good.arrays, "goal": integers(0), "point": integers(*point)})
    refused(problem, lie, "does not lie on the slice")


def test_a_form_is_the_objective_and_what_is_said_of_its_multipliers():
    """At every selection that agrees with it: 2 h for a product, 2 t where j is chosen without i, diagonals nothing."""
    problem = DispersionProblem(np.rint(8 * uniform(1, 7, 4).distances), [3, 1, 0, 2, 1, 0, 5], size=4)
    ones, ids = integers(5), integers(0, 2, 3, 4, 6)  # client 1 is left out
    products, dominated = [(0, 1, 4), (3, 1, 9), (4, 2, 1)], [(1, 0, 7), (0, 1, 2), (2, 4, -6)]
    part = dict.fromkeys(concave.FORM, NONE) | {"ones": ones, "ids": ids, "diagonal": integers(9, -4, 0, 30, 2)}
    part |= {"nonnegative": integers(*sum(products, ())), "dominated": integers(*sum(dominated, ()))}
    form = concave.WholeForm(concave.Rounded.of(problem, 0), part, 200)
    for chosen in itertools.combinations(range(5), 3):
        x, s = np.isin(np.arange(5), chosen).astype(int), np.zeros(7, dtype=int)
        s[5], s[ids] = 1, x
        added = sum(2 * h * x[i] * x[j] for i, j, h in products)
        added += sum(2 * t * (x[j] - x[i] * x[j]) for i, j, t in dominated)
        assert x @ form.matrix @ x + form.linear @ x + form.constant == problem.objective(s) + added
    assert np.array_equal(form.matrix, form.matrix.T)
    assert form.dominated == [(2, 0), (0, 2), (3, 6)]


@pytest.mark.parametrize("least", [2**39, 2**40])
def test_numbers_of_the_rounded_problem_are_below_two_to_the_forty(least):
    """What the sums of both checkers rest on; m is small, so that no other limit is met."""
    for problem in (alike(4, 2, least), DispersionProblem(np.zeros((4, 4)), np.full(4, -least), size=2)):
        certificate = one_node(problem, bound=1e300, grid=0, goal=2**50, room=2**43)
        if least < 2**40:
            assert check(problem, certificate) == 2.0**50
        else:
            refused(problem, certificate, "too fine for the problem's numbers")


def test_a_cut_raises_nothing_but_what_lies_between_two_whole_numbers():
    """The form is worth what the objective is, and t (b's - k) (b's - k - 1) for each cut: both checkers' own."""
    problem = DispersionProblem(4 * alike(6, 3).distances, [0, 1, 2, 3, 4, 5], size=3)
    cuts, members = [3, 0, 3, 5, 1, 3, 2, -2, 2], [0, 1, 4, 1, 2, -1, 1, 1, 2, 1, 3, 1, 5, -1, 5, -2]
    given = with_cuts(every_branch(problem, grid=0, room=200), cuts, members)
    arrays = schema.validated(schema.SCHEMAS["dispersion"], problem, 0, given.arrays)
    part = {name: concave.part_of(arrays, f"form_{name}", 0) for name in concave.FORM}
    form = concave.WholeForm(concave.Rounded.of(problem, 0), part, 200)
    vectors = [({0: 1, 4: 1, 2: -1}, 3, 0), ({1: 1, 2: 1, 3: 1}, 5, 1), ({5: -3}, 2, -2)]
    for chosen in itertools.combinations(range(6), 3):
        x = np.isin(np.arange(6), chosen).astype(int)
        sums = [(sum(b.get(i, 0) for i in chosen), t, k) for b, t, k in vectors]
        added = sum(t * (total - k) * (total - k - 1) for total, t, k in sums)
        assert added >= 0
        assert x @ form.matrix @ x + form.linear @ x + form.constant == problem.objective(x) + added
    assert check(problem, replace(given, bound=21.0)) == 21.0  # 24 less the costs of the cheapest three
    refused(problem, replace(given, bound=20.9), "proves only 21.0")


def test_sums_that_could_leave_64_bits_are_refused():
    """Each number is in its range, and what is added up of them is not."""
    n = 200
    problem = alike(n, 100)
    lie = one_node(problem, bound=0.0, grid=0, goal=0, diagonal=2**40 - 1, room=2**44 - 1, grain=2**14)
    refused(problem, lie, "multipliers are too large for the grid|proves only|tangent lies above")
    big = DispersionProblem(problem.distances * 2.0**45, size=100)
    refused(big, one_node(big, bound=0.0, grid=-4, goal=0), "too fine for the problem's numbers")


# -- pairs, sides, points ----------------------------------------------------------------------------------------------


def one_far_pair():
    """Clients 2 and 3 are far apart, all others near each other: the optimum is 18, and any other pair is worth 2."""
    h = 1.0 - np.eye(4)
    h[2, 3] = h[3, 2] = 9.0
    return DispersionProblem(h, size=2)


def with_part(certificate, name, *numbers):
    arrays = {f"form_{name}": integers(*numbers), f"form_{name}_start": integers(0, len(numbers))}
    return replace(certificate, arrays={**certificate.arrays, **arrays})


def test_a_pair_that_is_no_better_is_refused():
    """0 whenever 2 and 1 whenever 3 leave out the optimum: what was left of the tree was worth 2."""
    problem = one_far_pair()
    tree = one_node(problem, bound=2.0, grid=0, goal=0, room=100, grain=4, share=2)
    nodes = {"origin": integers(-1, 0), "client": integers(2, 3), "form": integers(0, 0), "point": np.full(8, 2)}
    lie = with_part(replace(tree, arrays={**tree.arrays, **nodes}), "better", 0, 2, 1, 3)
    refused(problem, lie, "exchanging client 2 for 0 can be a loss")
    refused(problem, with_part(lie, "better", 0, 9), "not one of its form's clients|entries of 'form_better'")
    refused(problem, with_part(tree, "dominated", 0, 2, -8), "exchanging client 2 for 0 can be a loss")


def test_of_a_pair_alike_the_order_says_which_comes_first():
    """Exchanging two that are alike gains nothing: both ways at once would leave out every selection of one of them."""
    problem = alike(4, 2)
    tree = one_node(problem, bound=1e9, grid=0, goal=2, room=100, grain=4, share=2)
    found = with_part(replace(tree, arrays={**tree.arrays, "client": integers(0)}), "better", 0, 1)
    with pytest.raises(CertificateError, match="the side with whom node 0 branches on is missing"):
        check(problem, found)  # the pair is accepted
    refused(problem, with_part(found, "better", 1, 0), "exchanging client 0 for 1 can be a loss, or go on without end")
    turned = replace(found, arrays={**found.arrays, "order": integers(1, 0, 2, 3)})
    refused(problem, turned, "exchanging client 1 for 0 can be a loss, or go on without end")
    twice = replace(found, arrays={**found.arrays, "order": integers(1, 1, 2, 3)})
    refused(problem, twice, "does not name each of them once")


@pytest.mark.parametrize("goal", [0, 5])
def test_a_side_that_is_missing_is_closed_by_a_tangent_or_by_nothing(goal):
    problem = alike(6, 3)
    whole = every_branch(problem, grid=0, goal=goal)
    assert check(problem, replace(whole, bound=6.0)) == 6.0
    last = whole.arrays["origin"].size - 1
    cut = {name: whole.arrays[name][:last] for name in ("origin", "client", "form")}
    point = whole.arrays["point"].reshape(6, -1)[:, :last].ravel()
    refused(problem, replace(whole, arrays={**whole.arrays, **cut, "point": point}), "is missing, and no tangent")


def test_every_node_has_a_point_and_a_place_of_its_own():
    problem = alike(6, 3)
    whole = replace(every_branch(problem, grid=0), bound=6.0)
    for point in (whole.arrays["point"][:-1], np.append(whole.arrays["point"], 0), whole.arrays["point"][:6]):
        refused(problem, replace(whole, arrays={**whole.arrays, "point": point}), "not one share for each open client")
    for place, wrong in ((1, -1), (1, 3), (2, 4), (2, 5)):
        origin = whole.arrays["origin"].copy()
        origin[place] = wrong
        refused(problem, replace(whole, arrays={**whole.arrays, "origin": origin}), "two nodes lie|lies above itself")


@pytest.mark.parametrize("change", [{"form_ones": (0, 1)}, {"form_ids": (0, 1, 2, 3)}])
def test_a_form_takes_nobody_for_decided_who_is_open(change):
    """A form where 0 is chosen, or where 4 and 5 are left out, says nothing of the root."""
    problem = alike(6, 3)
    good = one_node(problem, bound=6.0, grid=0, goal=100, room=100, grain=6, share=3)
    for name, (first, *others) in change.items():
        kept = integers(*others) if name == "form_ones" else integers(first, *others)
        ids = np.setdiff1d(np.arange(6), kept) if name == "form_ones" else kept
        arrays = {"form_ids": ids, "form_ids_start": integers(0, ids.size), "form_diagonal": np.zeros_like(ids)}
        arrays |= {"form_diagonal_start": integers(0, ids.size), "form_ones": kept[: name == "form_ones"]}
        arrays |= {"form_ones_start": integers(0, arrays["form_ones"].size)}
        open_ = 3 - arrays["form_ones"].size
        arrays["point"] = integers(*[6] * open_, *[0] * (ids.size - open_))
        refused(problem, replace(good, arrays={**good.arrays, **arrays}), "takes for decided what is open here")


# -- problems ----------------------------------------------------------------------------------------------------------


def test_a_certificate_of_clients_is_none_of_their_kinds():
    """As many kinds as clients: read as if kind i were client i, the bound was 1 and the optimum 10."""
    distances = np.array([[10.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    kinds = KindDispersionProblem(distances, kinds=[0, 0, 1, 2], size=2, weight=0.5)
    lie = one_node(alike(3, 2, 0.5), bound=1.0, grid=-1, goal=2, diagonal=1, room=10)
    refused(kinds, replace(lie, problem=problem_digest(kinds)), "about a DispersionProblem, not about a KindDisp")


def test_kinds_are_read_up_to_a_few_thousand_clients():
    """Each gets a row of its own: more would take all memory."""
    kinds = KindDispersionProblem([[0.0, 1.0], [1.0, 0.0]], kinds=np.arange(4_097) % 2, size=2)
    refused(kinds, replace(one_node(kinds, bound=2.0, grid=0, goal=2), kind="kinds"), "read up to 4096|too many")


def test_a_subclass_is_another_problem():
    @dataclass(frozen=True, eq=False)
    class Doubled(DispersionProblem):
        def objective(self, x):
            return 2 * super().objective(x)

    problem = alike(4, 2)
    other = Doubled(problem.distances, size=2)
    refused(
        other, replace(one_node(problem, bound=2.0, grid=0, goal=2), problem=problem_digest(other)), "not about a Doub"
    )
    for thing in (None, 3, "problem", np.ones(3), object()):
        refused(thing, one_node(problem, bound=2.0, grid=0, goal=2), "is about a DispersionProblem")


def test_a_class_of_the_same_name_elsewhere_is_another_problem():
    problem = alike(4, 2)
    namesake = type("DispersionProblem", (DispersionProblem,), {"__module__": "elsewhere"})
    other = namesake(problem.distances, size=2)
    refused(other, replace(one_node(problem, bound=2.0, grid=0, goal=2), problem=problem_digest(other)), "is about a")


@pytest.mark.parametrize("kind", [None, 3, ["dispersion"], {}, "dispersion-search", ""])
def test_a_kind_is_one_of_those_known(kind):
    problem = alike(4, 2)
    refused(problem, replace(one_node(problem, bound=2.0, grid=0, goal=2), kind=kind), "are not known")


# -- form --------------------------------------------------------------------------------------------------------------


def certificates(seed=5):
    """One small certificate of each kind, with its problem."""
    from solvers.balance import BalanceProblem
    from solvers.coverage import CoverageProblem
    from solvers.dispersion import PointDispersionProblem, QuadraticProblem
    from solvers.schedule import ScheduleProblem
    from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem

    rng = np.random.default_rng(seed)
    common = rng.uniform(0.1, 1, 4), rng.uniform(0.1, 3, 4), 1.0, 2.0
    problems = [
        AllocationProblem([8, 5, 3], [1.0, 2.0, 1.0], 6),
        CappingProblem(weights=[8.0, 4.0, 1.0, 1.0], size=2, floor=0.1),
        CutoffProblem([0.2, 0.5, 0.9], 500),
        ExclusionProblem([0.2, 0.3, 0.5], [1.0, 0.2, 0.4], 0.5, [0.5] * 3, [0.0] * 3),
        OptimizationErrorProblem(*common),
        TotalErrorProblem(*common, importance=[0.25] * 4, bias="tv", bias_weight=0.3),
        PointDispersionProblem(rng.normal(size=(6, 2)), size=3),
        uniform(seed, 7, 3),
        KindDispersionProblem(np.array([[2.0, 5.0], [5.0, 0.0]]), [0, 1, 0, 1, 1, 0], rng.random(6), size=3),
        CoverageProblem(rng.random((5, 6)), 2),
        BalanceProblem(rng.integers(1, 9, (6, 3)), 3),
        ScheduleProblem(rng.random((5, 6)) < 0.5, 2),
        QuadraticProblem(rng.integers(-9, 9, (6, 6)), 3, "min"),
    ]
    found = [(problem, solve(problem, certificate=True).certificate) for problem in problems]
    clients = alike(6, 3)
    searched = replace(every_branch(clients, grid=0), bound=6.0)
    few = uniform(seed, 9, 3)
    found.append((few, solve(few, "rlt", certificate=True).certificate))
    few = QuadraticProblem(1.0 - few.distances, 3, "min", constant=-2.5)
    found.append((few, solve(few, "rlt", certificate=True).certificate))
    return [*found, (clients, searched), (clients, with_cuts(searched, [1, 0, 3], [0, 1, 4, 1, 2, -1]))]


@pytest.fixture(scope="module")
def each_kind():
    found = certificates()
    assert {certificate.kind for _, certificate in found} == set(schema.SCHEMAS)
    for problem, certificate in found:
        assert np.isfinite(check(problem, certificate))
    return found


RECORD = np.zeros(1, dtype=[("a", np.int64)])
SHAPES = {
    "no dimension": lambda array: np.array(3),
    "two dimensions": lambda array: np.array([array, array]) if array.size else np.zeros((1, 1), np.int64),
    "doubles": lambda array: array.astype(float),
    "text": lambda array: array.astype(str),
    "bytes": lambda array: array.astype("S8"),
    "booleans": lambda array: array.astype(bool),
    "complex": lambda array: array.astype(complex),
    "dates": lambda array: array.astype("M8[s]"),
    "objects": lambda array: array.astype(object),
    "records": lambda array: RECORD,
    "beyond 64 bits": lambda array: np.array([2**64 - 1], dtype=np.uint64),
    "a list": lambda array: array.tolist(),
    "nothing": lambda array: None,
    "longer": lambda array: np.append(array, 0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_array_has_its_form(each_kind, shape):
    """Whatever stands in the place of an array of whole numbers: a sentence, and no other error."""
    tried = 0
    for problem, certificate in each_kind:
        for name, array in certificate.arrays.items():
            if (
                shape == "longer"
                and schema.SCHEMAS[certificate.kind].arrays.get(name, schema.Array(0, 0)).length is None
            ):
                continue
            arrays = {**certificate.arrays, name: SHAPES[shape](array)}
            refused(problem, replace(certificate, arrays=arrays), "the certificate|entries|parts")
            tried += 1
    assert tried >= (8 if shape == "longer" else 30)


def test_every_entry_has_its_range(each_kind):
    for problem, certificate in each_kind:
        forms = certificate.arrays["form_room"].size if "form_room" in certificate.arrays else 0
        lasts = {"last": problem.n - 1, "last form": forms - 1}
        for name, rule in schema.SCHEMAS[certificate.kind].arrays.items():
            if name not in certificate.arrays or not certificate.arrays[name].size:
                continue
            most = lasts.get(rule.most, rule.most)
            for wrong in {rule.least - 1, -(2**63), most + 1, 2**63 - 1} - {2**63, most}:
                changed = certificate.arrays[name].astype(np.int64)
                changed[-1] = wrong
                sentence = rf"the entries of '{name}' must lie between {rule.least} and {most}; one is {wrong}$"
                refused(problem, replace(certificate, arrays={**certificate.arrays, name: changed}), sentence)


def test_every_array_is_there_and_no_other(each_kind):
    for problem, certificate in each_kind:
        for name in certificate.arrays:
            arrays = {key: array for key, array in certificate.arrays.items() if key != name}
            refused(problem, replace(certificate, arrays=arrays), f"lacks the array '{name}'")
        refused(
            problem, replace(certificate, arrays={**certificate.arrays, "more": NONE}), "none of its kind has: 'more'"
        )
        refused(problem, replace(certificate, arrays=[1, 2]), "arrays must be a mapping")


def test_parts_follow_each_other(each_kind):
    for problem, certificate in each_kind:
        for name, rule in schema.SCHEMAS[certificate.kind].arrays.items():
            if rule.parts is None or name not in certificate.arrays:
                continue
            starts = certificate.arrays[f"{name}_start"].astype(np.int64)
            size = certificate.arrays[name].size
            others = [starts + 1, np.append(starts, size), starts[:-1], np.append(starts[:-1], size + 1), starts[:0]]
            others += [np.append(rule.group, starts[1:])] if size else []  # the first group is nobody's
            for wrong in others:
                arrays = {**certificate.arrays, f"{name}_start": wrong}
                refused(problem, replace(certificate, arrays=arrays), "parts of|entries of|must have")


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), None, "1", 10**400, 1 + 2j, True])
def test_the_claim_is_a_number(each_kind, bound):
    for problem, certificate in each_kind:
        refused(problem, replace(certificate, bound=bound), "which is no number")
        refused(problem, replace(certificate, kind=bound), "are not known")


# -- decimals ----------------------------------------------------------------------------------------------------------


def test_capping_claims_nothing_beyond_rounding():
    """Terms that cancel were allowed for by what was left of them: 10^-59 was accepted, and the optimum is 0."""
    problem = CappingProblem(weights=[1.0, 1.0, 1.0], size=1)
    assert solve(problem).objective == 0.0
    for raw, grid in itertools.product((1, -1, 2**52, -(2**52)), range(-230, -100, 7)):
        arrays = {"multiplier": integers(raw)}
        certificate = Certificate("capping", problem_digest(problem), -1.0, grid, arrays)
        assert check(problem, certificate) == 0.0
        refused(problem, replace(certificate, bound=1e-80), "proves only 0.0")


def test_the_allowance_of_decimals_is_a_part_of_everything_added_up():
    """Of what is taken off, too: 10^-40 of 7 where 1 is left."""
    assert check_certificate.below([Decimal(4), Decimal(-3)]) == 1 - Fraction(7, 10**40)


@pytest.mark.parametrize("sign", [1, -1])
def test_capping_reads_exponents_up_to_a_hundred_million(sign):
    """The allowance for rounding is computed up to there: e to that power is neither infinite nor 0 yet."""
    problem = CappingProblem(weights=[3.0, 1.0, 1.0], size=1, floor=0.1)
    best = solve(problem).objective
    for multiplier, spread, accepted in (
        (10**8, 1, True),
        (10**8 + 1, 1, False),
        (1, 10**8, True),
        (1, 10**8 + 1, False),
    ):
        wide = problem if spread == 1 else CappingProblem(log_weights=[0.0, 0.0, -float(spread)], size=1, floor=0.1)
        arrays = {"multiplier": integers(sign * multiplier)}
        certificate = Certificate("capping", problem_digest(wide), -1.0, 0, arrays)
        if accepted:
            assert 0.0 <= check(wide, certificate) <= solve(wide).objective + 1e-12
        else:
            refused(wide, certificate, r"between -10\^8 and 10\^8|differ by more than 10\^8")
    assert best > 0.0


def test_capping_is_below_the_optimum_whatever_the_multiplier():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(2, 6))
        size = int(rng.integers(1, n + 1))
        problem = CappingProblem(log_weights=rng.normal(0, 5, n), size=size, floor=float(rng.uniform(0, size / n)))
        best = solve(problem).objective
        for raw in rng.integers(-(2**52), 2**52, 20).tolist():
            arrays = {"multiplier": integers(raw)}
            assert check(problem, Certificate("capping", problem_digest(problem), -1.0, -50, arrays)) <= best + 1e-12


def test_a_cutoff_beside_a_better_one_is_refused():
    problem = CutoffProblem([0.2, 0.5, 0.9], 500)
    best = int(solve(problem).x)
    for k in (best - 1, best + 1, 1, 10**12):
        arrays = {"cutoff": integers(k)}
        if k != best:
            refused(problem, Certificate("cutoff", problem_digest(problem), -1.0, 0, arrays), "is no worse than")
