"""One node of the tree over staircases, against all selections in it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers.dispersion import PointDispersionProblem
from solvers.dispersion.kernels import load
from solvers.dispersion.shape import from_points
from solvers.dispersion.tree.circle import Form
from tests.solvers.dispersion.circle.cases import random_circle


def form_of(problem: PointDispersionProblem) -> Form:
    shape = from_points(problem.geometry.coordinates.T, problem.diameter)
    assert shape is not None
    return Form.of(problem, shape)


def selections(form: Form) -> np.ndarray:
    problem = form.problem
    return np.array(list(itertools.combinations(range(problem.n), problem.size)))


def values(form: Form, chosen: np.ndarray) -> np.ndarray:
    return np.array([form.value(form.problem.objective(form.decision(places))) for places in chosen])


def ranks(chosen: np.ndarray, n: int) -> np.ndarray:
    """How many of the first 0 … n clients each selection has."""
    return (chosen[:, None, :] < np.arange(n + 1)[:, None]).sum(axis=2)


def look(form: Form, lower, upper, sums, least, steps, atoms=None, x=None):
    kernels = load("circle")
    n, m = form.problem.n, form.problem.size
    room, weights = np.zeros((40, m), np.int64), np.zeros(40)
    if atoms is not None:
        room[: len(atoms)], weights[: len(atoms)] = atoms, 1 / len(atoms)
    best, found = np.zeros(m, np.int64), np.zeros(2)
    answer = kernels.look(
        *(form.shape.at, form.cosine, form.sine, form.linear, form.scale, form.curve, form.shape.chords),
        *(lower, upper, sums, room, weights, np.full(n, m / n) if x is None else x, least, steps),
        *(np.empty(form.entries), best, found),
    )
    return answer, best, found


def test_the_kernel_values_selections_as_the_problem_does():
    rng = np.random.default_rng(0)
    kernels = load("circle")
    for _ in range(200):
        form = form_of(random_circle(rng))
        chosen = selections(form)
        chosen = chosen[rng.permutation(len(chosen))[:10]]
        s = form.shape
        told = [
            kernels.value(s.at, form.cosine, form.sine, form.linear, form.scale, s.chords, places) for places in chosen
        ]
        assert told == pytest.approx(values(form, chosen), abs=form.margin * form.factor)


@pytest.mark.parametrize("seed", range(4))
def test_no_selection_of_a_node_is_above_its_bound_or_cut_off(seed, asserted):
    """Any ranks, any interval for the sum, any point on the slice, any number of steps."""
    rng = np.random.default_rng(seed)
    narrowed, open_ = 0, asserted(at_least=10)
    for _ in range(60):
        form = form_of(random_circle(rng, 10))
        n, m, at = form.problem.n, form.problem.size, form.shape.at
        every = selections(form)
        worth, sums = values(form, every), at[every].sum(axis=1)
        # Around one selection: ranks up to two off, sums up to a half of their range.
        middle = rng.integers(len(every))
        count = ranks(every[middle : middle + 1], n)[0]
        lower = np.maximum(0, count - rng.integers(0, 3, n + 1))
        upper = np.minimum(m, count + rng.integers(0, 3, n + 1))
        lower[0] = upper[0] = 0
        lower[n] = upper[n] = m
        half = np.ptp(sums) * rng.choice([0.0, 0.1, 0.5])
        interval = np.array([sums[middle] - half, sums[middle] + half * rng.random()])
        steps = ranks(every, n)
        slack = 1e-9
        inside = ((steps >= lower) & (steps <= upper)).all(axis=1)
        inside &= (sums >= interval[0] - slack) & (sums <= interval[1] + slack)
        least = float(rng.choice([-np.inf, np.quantile(worth, 0.5), worth.max()]))
        x = rng.dirichlet(np.ones(len(every))) @ np.eye(n)[every].sum(axis=1)
        atoms = every[rng.integers(0, len(every), 3)] if rng.random() < 0.5 else None
        before = (upper - lower).sum()
        (end, bound, place, rank), best, found = look(
            form, lower, upper, interval, least, int(rng.integers(1, 20)), atoms, x
        )
        margin = form.margin * form.factor
        assert max(bound, least) + margin >= worth[inside].max()
        narrowed += before - (upper - lower).sum()
        # What counts is still in the node, and in one of its children.
        count_ = inside & (worth > max(least, -1e300) + margin)
        assert end != 0 or not count_.any()
        if end == 0:
            continue
        open_()
        kept = ((steps >= lower) & (steps <= upper)).all(axis=1)
        kept &= (sums >= interval[0] - slack) & (sums <= interval[1] + slack)
        assert (kept | ~count_).all()
        assert found[0] == pytest.approx(values(form, best[None])[0], abs=margin)
        if end == 1:
            assert lower[place] <= rank < upper[place]
        if end == 2:
            assert interval[0] < found[1] < interval[1]
    assert narrowed > 0


def test_a_node_without_staircases_is_dropped():
    form = form_of(random_circle(np.random.default_rng(8), 9))
    n, m = form.problem.n, form.problem.size
    lower, upper = np.zeros(n + 1, np.int64), np.full(n + 1, m)
    upper[0], lower[n], upper[n] = 0, m, m - 1
    (end, bound, _, _), _, _ = look(form, lower, upper, np.array([-1e9, 1e9]), -np.inf, 5)
    assert (end, bound) == (0, -np.inf)


def test_bounds_do_not_get_worse_with_more_steps():
    rng = np.random.default_rng(9)
    for _ in range(30):
        form = form_of(random_circle(rng))
        n, m = form.problem.n, form.problem.size
        bounds = []
        for steps in (1, 3, 30):
            lower, upper = np.maximum(0, np.arange(n + 1) - (n - m)), np.minimum(np.arange(n + 1), m)
            (_, bound, _, _), _, _ = look(form, lower, upper, np.array([-1e9, 1e9]), -np.inf, steps)
            bounds.append(bound)
        assert bounds == sorted(bounds, reverse=True)
