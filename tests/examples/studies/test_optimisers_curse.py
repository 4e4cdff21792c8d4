"""The optimiser's curse: the error of an update, ascents, and a tiny study."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import optimisers_curse as study
from solvers import InvalidAnswer
from solvers.weighting import ExclusionProblem
from study import run_study


def test_the_error_of_an_update_by_hand():
    """Of updates (1, 0), (0, 1), (1, 1) and 1, 1, 2 samples: all of them move by (3, 3) / 4."""
    sizes, updates = np.array([1, 1, 2]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    selected = np.array([[True, True, True], [True, True, False], [False, False, True], [True, False, False]])
    found = study.errors_of(selected, sizes, updates)
    # (1, 1)/2 - (3, 3)/4 = (-1, -1)/4, a third of (3, 3)/4; (1, 1) likewise; (1, 0) - (3, 3)/4 = (1, -3)/4.
    np.testing.assert_allclose(found, [0.0, 1 / 3, 1 / 3, np.sqrt(10 / 18)], atol=1e-12)


def test_the_error_of_an_allocation_is_that_of_all_its_draws():
    """Every stratified draw of 2 of 4 and 1 of 3 clients: the mean of squared distances from the mean update."""
    rng = np.random.default_rng(0)
    updates, groups = rng.standard_normal((7, 3)), np.array([0, 1, 0, 0, 1, 0, 1])
    first, second = np.flatnonzero(groups == 0).tolist(), np.flatnonzero(groups == 1).tolist()
    whole = updates.mean(axis=0)
    squares = [
        np.sum((4 / 7 * updates[list(pair)].mean(axis=0) + 3 / 7 * updates[one] - whole) ** 2)
        for pair in itertools.combinations(first, 2)
        for one in second
    ]
    assert len(squares) == 18
    expected = np.sqrt(np.mean(squares)) / np.linalg.norm(whole)
    found = study.errors_of_allocations(np.array([[2, 1], [4, 3]]), groups, updates)
    np.testing.assert_allclose(found, [expected, 0.0], rtol=1e-12, atol=1e-12)


def test_the_error_of_the_kept_is_that_of_all_who_may_be_there():
    """Every combination of five clients' availability, by its probability, with CA-Fed's weights as published."""
    rng = np.random.default_rng(1)
    updates, rates = rng.standard_normal((5, 3)), np.array([0.1, 0.9, 0.5, 1.0, 0.3])
    kept = np.array([[True, False, True, True, True], [False, True, False, False, False], [True] * 5])
    weights = np.array([ExclusionProblem(np.full(5, 0.2), np.ones(5), None, rates).weights(each) for each in kept])
    whole = updates.mean(axis=0)

    def expected(factors):
        """Return the errors of the aggregates, each times a factor."""
        squares = np.zeros(3)
        for there in itertools.product([False, True], repeat=5):
            probability = np.where(there, rates, 1 - rates).prod()
            aggregates = factors[:, None] * ((weights * there) @ updates)
            squares += probability * np.sum((aggregates - whole) ** 2, axis=1)
        return np.sqrt(squares) / np.linalg.norm(whole)

    np.testing.assert_allclose(study.errors_of_kept(kept, rates, updates), expected(np.ones(3)), rtol=1e-12)
    best = study.errors_of_kept(kept, rates, updates, best_factor=True)
    grid = np.array([expected(np.full(3, factor)) for factor in np.linspace(0.0, 2.0, 401)])
    assert (best <= grid.min(axis=0) + 1e-12).all()
    np.testing.assert_allclose(best, grid.min(axis=0), rtol=1e-4)
    assert (best < grid[200] - 1e-3).any()  # the published factor is another


def test_no_factor_helps_an_aggregate_of_the_wrong_direction():
    updates = np.array([[1.0, 0.0], [-3.0, 0.0]])
    found = study.errors_of_kept(np.array([[True, False]]), np.ones(2), updates, best_factor=True)
    assert found.tolist() == [1.0]  # that of no step at all


@pytest.fixture(scope="module")
def surrogates():
    """All surrogates of a round of nine clients, of which 3 are selected, or 5 of three groups."""
    rng = np.random.default_rng(3)
    graph = rng.random((9, 9))
    graph = np.triu(graph, 1) + np.triu(graph, 1).T
    updates, orders = rng.standard_normal((9, 4)), np.argsort(rng.random((200, 9)), axis=1)
    groups = np.array([0, 0, 1, 2, 1, 0, 1, 0, 1])
    found = study.selections(graph, updates, np.arange(1, 10), orders[:, :3])
    found |= study.allocations(rng.dirichlet(np.ones(4), size=9), groups, updates, 5, rng)
    rates, correlation = np.where(np.arange(9) < 4, 0.9, 0.1), np.where(np.arange(9) % 2, 0.9, 0.0)
    return found | study.exclusions(rng.random(9) + 0.2, rates, correlation, updates, orders, rng)


SWAPPED = ["dispersion, 3DG", "dispersion, updates", "coverage, updates"]
NAMES = [*SWAPPED, "allocation, labels", "allocation, updates", "total error, losses", "total error, best factor"]


def neighbours(name, x):
    """List the decisions that are one swap, transfer or flip away."""
    steps = [(i, j) for i in range(x.size) for j in range(x.size) if i != j]
    if name in SWAPPED:
        steps = [(i, j) for i, j in steps if x[i] and not x[j]]
        return [np.where(np.isin(np.arange(x.size), step), ~x, x) for step in steps]
    if name.startswith("allocation"):
        return [x - np.eye(x.size, dtype=int)[i] + np.eye(x.size, dtype=int)[j] for i, j in steps]
    return [np.where(np.arange(x.size) == k, ~x, x) for k in range(x.size)]


@pytest.mark.parametrize("name", NAMES)
def test_moves_are_the_best_of_all_and_end_at_a_local_optimum(surrogates, name):
    surrogate = surrogates[name]
    problem, sign = surrogate.problem, 1.0 if surrogate.problem.sense == "max" else -1.0
    for start in surrogate.starts:
        steps = list(study.way(problem, surrogate.moves, start))
        assert steps[0][0].tolist() == start.tolist()
        for x, value in steps:
            assert problem.violation(x) == 0
            assert value == pytest.approx(problem.objective(x), rel=1e-12)
            near = [problem.objective(y) for y in neighbours(name, x) if problem.violation(y) == 0]
            after, found = surrogate.moves(x)
            assert found == pytest.approx(problem.objective(after), rel=1e-12)
            assert sign * found == pytest.approx(max(sign * each for each in near), rel=1e-12)
        values = [sign * value for _, value in steps]
        assert all(b > a for a, b in itertools.pairwise(values))
        assert values[-1] >= max(sign * each for each in near) - 1e-9 * abs(values[-1])  # of the last


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_decision_has_no_gap(surrogates, name):
    surrogate = surrogates[name]
    table = pd.DataFrame(surrogate.table(surrogate.solved(seed=0)))
    exact = table[table["decided by"] == "exact"].iloc[0]
    assert exact["gap %"] <= 1.0
    assert (table["decided by"] == "random").sum() == (table["decided by"] == surrogate.end).sum() == study.STARTS
    if name == "allocation, updates":  # the surrogate is the truth
        assert exact["error"] == pytest.approx(table["error"].min(), rel=1e-12)
        assert exact["gap %"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_gaps_are_to_the_bound_and_a_bound_on_the_wrong_side_is_an_error(surrogates, name):
    """A bound moved to the value of the worst random decision is beaten by the exact one."""
    surrogate = surrogates[name]
    problem, solved = surrogate.problem, surrogate.solved(seed=0)
    bound, sign = solved["exact"].bound, 1.0 if problem.sense == "max" else -1.0
    table = pd.DataFrame(surrogate.table(solved))
    values = np.array([problem.objective(start) for start in surrogate.starts])
    found = table.loc[table["decided by"] == "random", "gap %"]
    np.testing.assert_allclose(found, 100 * sign * (bound - values) / abs(bound), rtol=1e-9, atol=1e-9)
    beaten = float(np.min(sign * values)) * sign
    assert sign * (solved["exact"].objective - beaten) > 1e-6
    wrong = SimpleNamespace(x=solved["exact"].x, bound=beaten)
    with pytest.raises(InvalidAnswer, match="beyond the certified bound"):
        surrogate.table(solved | {"exact": wrong})


def test_a_way_ends_where_rounding_leads_in_a_circle():
    """Each of two decisions seems a little better from the other."""
    problem = SimpleNamespace(sense="min", objective=lambda x: 0.0)
    values = itertools.count(-1, -1)
    way = study.way(problem, lambda x: (~x, 1e-300 * next(values)), np.array([True, False]))
    assert len(list(itertools.islice(way, 100))) == 2


@pytest.mark.parametrize(("sizes", "total"), [([1, 2, 4], 5), ([3, 3, 3], 6), ([2, 5, 1, 3], 8)])
def test_random_allocations_are_equally_likely(sizes, total):
    drawn = study.random_allocations(np.array(sizes), total, 9000, np.random.default_rng(0))
    ways = [each for each in itertools.product(*(range(1, most + 1) for most in sizes)) if sum(each) == total]
    counts = np.array([(drawn == each).all(axis=1).sum() for each in ways])
    assert counts.sum() == 9000  # no others
    expected = 9000 / len(ways)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_clients_that_are_left_out_are_judged_among_as_many():
    """The error is the number of the first kept client: percentiles are of sets of the same size."""
    orders = np.array([[0, 1, 2], [1, 2, 0], [2, 1, 0], [1, 0, 2]])
    judge = study.among_as_many(lambda kept: kept.argmax(axis=1).astype(float), orders)
    errors, percentiles = judge(np.array([[False, True, False], [False, True, True], [True, True, True]]))
    assert errors.tolist() == [1.0, 1.0, 0.0]
    # One client: 0, 1, 2, 1. Two: {0, 1}, {1, 2}, {1, 2}, {0, 1}. Three: one set only.
    assert percentiles.tolist() == [50.0, 75.0, 50.0]


def test_a_verdict_is_of_splits_and_of_many():
    percentiles = {"exact": [90.0, 92.0, 91.0, 93.0], "greedy": [49.0, 51.0, 50.5, 49.5], "random": [50.0] * 4}
    rows = pd.DataFrame(
        {"surrogate": "s", "data": "d", "round": 0, "M": 3, "split": split, "decided by": who}
        | {"gap %": 0.0, "error": 1.0, "percentile": value}
        for who, values in percentiles.items()
        for split, value in enumerate(values)
        for _ in range(5)  # several selections of a split are averaged
    )
    table = study.decisions(rows).set_index("decided by")
    assert table["than random"].to_dict() == {"exact": "worse", "greedy": "the same", "random": ""}
    assert table["splits"].tolist() == [4, 4, 4]
    beside = study.beside_controls(rows).set_index("decided by")
    assert beside["control"].tolist() == ["exact"] * 2  # there is no other
    assert beside["than control"].to_dict() == {"greedy": "the same", "random": "the same"}
    drawn = study.curve(study.curve_by_split(rows))
    assert drawn["gap, %"].tolist() == ["up to 1"]
    assert drawn["percentile"].tolist() == pytest.approx([(91.5 + 50) / 2])  # without greedy


def test_two_splits_are_too_few_for_a_verdict():
    rows = pd.DataFrame(
        {"surrogate": "s", "data": "d", "round": 0, "M": 3, "split": split, "decided by": who}
        | {"gap %": 0.0, "error": error, "percentile": 20.0 + split}
        for who, error in (("exact", 1.0), ("proportional", 1.1))
        for split in range(2)
    )
    assert study.decisions(rows)["than random"].tolist() == ["too few"] * 2
    assert study.beside_controls(rows)["than control"].tolist() == ["too few"]


def test_rounds_of_the_figure_have_dashes_of_their_own(surrogates):
    rows = pd.concat(
        pd.DataFrame({"data": "d", "split": split, "round": t, "M": 3, "surrogate": name} | surrogate.table(solved))
        for name, surrogate in surrogates.items()
        for solved in [surrogate.solved(seed=0)]
        for t in (0, 10, 50)
        for split in range(3)
    )
    figure = study.curse_figure(study.curve(study.curve_by_split(rows)))
    lines = [container.lines[0].get_linestyle() for container in figure.axes[0].containers]
    assert len(set(lines)) == len(lines) == 3
    titles = {axis.get_title() for axis in figure.axes if axis.get_visible()}
    assert {"total error, losses", "total error, best factor"} < titles


def test_a_model_of_ten_rounds_on_is_trained_for_ten():
    """The model that all train from is that of as many rounds of FedAvg with uniform selection."""
    from fedselect.availability import ideal
    from fedselect.data import digits
    from fedselect.selectors import Uniform
    from fedselect.training.fedavg import FedAvg

    federation = digits(n_clients=20, seed=3, partition="dirichlet-prior", concentration=0.5)
    loop = FedAvg(federation, Uniform(2), ideal(federation, 3), seed=3)
    for _ in range(2):
        loop.step(evaluate=False)
    trained = study.observed(federation, 2, 3)
    np.testing.assert_array_equal(trained.probed, loop.losses(list(range(20))))
    assert not np.allclose(trained.probed, study.observed(federation, 1, 3).probed)


def test_errors_beside_a_control_are_paired():
    errors = {"proportional": [1.0, 2.0, 3.0, 4.0], "exact": [0.9, 1.8, 2.7, 3.6], "random": [1.1, 2.1, 2.9, 4.1]}
    rows = pd.DataFrame(
        {"surrogate": "s", "data": "d", "round": 0, "M": 3, "split": split, "decided by": who}
        | {"gap %": 0.0, "error": value, "percentile": 50.0}
        for who, values in errors.items()
        for split, value in enumerate(values)
    )
    table = study.beside_controls(rows).set_index("decided by")
    assert table["control"].tolist() == ["proportional"] * 2
    assert table["error %"].tolist() == pytest.approx([-10.0, np.mean([10.0, 5.0, -10 / 3, 2.5])])
    assert table["than control"].to_dict() == {"exact": "better", "random": "inconclusive"}


def test_a_small_study(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "STARTS", 2)
    scale = study.Scale(splits=1, rounds=(0,), sizes=(3,), allotted=(6,), groups=4, clients=16, data=("Dirichlet 0.1",))
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    files = sorted(out.glob("decisions-*.csv"))
    table = pd.concat(map(pd.read_csv, files))
    assert len(files) == len(list(out.glob("curve-*.csv"))) == len(NAMES)
    assert set(table["surrogate"]) == set(NAMES)
    assert dict(table.groupby("surrogate")["M"].first())["total error, losses"] == 16
    assert (table.loc[table["decided by"] == "exact", "gap %"] <= 1.01).all()
    assert table["percentile"].between(0, 100).all()
    beside = pd.concat(map(pd.read_csv, out.glob("controls-*.csv")))
    assert set(beside["than control"]) == {"too few"}
    assert set(beside["control"]) == {"proportional", "none left out", "exact"}
    assert (out / "curve.png").stat().st_size > 1000
    rows, of_split = (pd.read_parquet(out / f"{name}.parquet") for name in ("splits", "curve-splits"))
    assert study.decisions(rows)["percentile"].tolist() == pytest.approx(
        [row for name in NAMES for row in table.loc[table["surrogate"] == name, "percentile"]]
    )
    assert len(study.curve(of_split)) == len(pd.concat(map(pd.read_csv, out.glob("curve-*.csv"))))
    assert "percentile of random" in capsys.readouterr().out
