"""Series and frames of pandas about the same clients: put in one order by their labels, or refused."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from solvers import InvalidProblem, solve
from solvers.constraints import Budget
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem

NAMES = list("abcdefgh")


def stated(rng, n=8):
    h = np.triu(rng.random((n, n)), 1)
    return h + h.T, rng.random(n), rng.random(n)


def test_costs_and_budgets_follow_the_labels_of_the_distances():
    """Shuffled costs, uses and columns state the same problem as arrays in one order."""
    rng, differ = np.random.default_rng(0), 0
    for _ in range(20):
        h, costs, use = stated(rng)
        limit = float(np.sort(use)[:4].sum())
        plain = DispersionProblem(h, costs, size=3, budgets=[Budget(use, limit)])
        frame = pd.DataFrame(h, NAMES, NAMES)[list(rng.permutation(NAMES))]
        series = [pd.Series(each, NAMES).sample(frac=1, random_state=int(rng.integers(99))) for each in (costs, use)]
        problem = DispersionProblem(frame, series[0], size=3, budgets=[Budget(series[1], limit)])
        assert np.array_equal(problem.distances, plain.distances)
        assert np.array_equal(problem.costs, plain.costs)
        assert np.array_equal(problem.budgets[0].use, plain.budgets[0].use)
        assert solve(problem).objective == solve(plain).objective
        differ += not np.array_equal(series[0].to_numpy(), costs)
        points = pd.DataFrame(rng.random((8, 2)), NAMES)
        assert np.array_equal(PointDispersionProblem(points, series[0], size=2).costs, costs)
        kinds = pd.Series([0, 1] * 4, NAMES)
        assert np.array_equal(KindDispersionProblem(np.ones((2, 2)), kinds, series[0], size=2).costs, costs)
        there = pd.Series(rng.random(8) < 0.9, NAMES)
        counts = pd.Series(rng.integers(0, 5, 8), NAMES)
        first = DispersionProblem.fedgs(h, counts.to_numpy(), there.to_numpy(), 3, 1.0)
        again = DispersionProblem.fedgs(frame, counts.iloc[::-1], there.sort_index(ascending=False), 3, 1.0)
        assert np.array_equal(first.costs, again.costs)
        assert np.array_equal(first.clients, again.clients)
        turned = DispersionProblem.from_quadratic(frame, 3, budgets=[Budget(series[1], limit)])
        assert np.array_equal(turned.budgets[0].use, use)
        for each in (problem, turned):
            found = solve(each)
            assert found.selected_names == tuple(NAMES[k] for k in found.selected)
        assert solve(again).selected_names == tuple(NAMES[k] for k in solve(again).selected)
        later = replace(problem, costs=series[0].iloc[::-1])  # the matrix has no labels any more, but there are names
        assert np.array_equal(later.costs, costs)
    assert differ > 10


def test_what_has_no_labels_is_taken_by_position():
    h, costs, _ = stated(np.random.default_rng(1))
    for distances, given in (
        (h, pd.Series(costs, NAMES)),
        (pd.DataFrame(h), pd.Series(costs, NAMES)),
        (pd.DataFrame(h, NAMES, NAMES), costs),
        (pd.DataFrame(h, NAMES, NAMES), pd.Series(costs)),
    ):
        assert np.array_equal(DispersionProblem(distances, given, size=3).costs, costs)


@pytest.mark.parametrize(
    ("rows", "columns", "labels", "sentence"),
    [
        (NAMES, NAMES, [*NAMES[:-1], "z"], "costs has no 'h'.*costs.to_numpy"),
        (NAMES, NAMES, [*NAMES, "z"], "distances has no 'z'"),
        (NAMES, NAMES, [*NAMES[:-1], "a"], "label 'a' stands twice in the index of costs"),
        (NAMES, [*NAMES[:-1], "z"], NAMES, "rows and columns of distances have other labels: 'z' is not in both"),
        ([*NAMES[:-1], "a"], NAMES, NAMES, "label 'a' stands twice in the index of distances"),
    ],
)
def test_other_labels_are_a_sentence(rows, columns, labels, sentence):
    h, costs, _ = stated(np.random.default_rng(2))
    series = pd.Series(np.resize(costs, len(labels)), labels)
    with pytest.raises(InvalidProblem, match=sentence):
        DispersionProblem(pd.DataFrame(h, rows, columns), series, size=3)


def test_solvers_loads_no_pandas():
    code = "import sys, solvers.dispersion; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
