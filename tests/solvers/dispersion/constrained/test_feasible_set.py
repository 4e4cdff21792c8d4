"""The feasible set with side constraints against enumeration, on random cases of every combination."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.constrained_set import ConstrainedSelections
from solvers.feasible_set import FREE, ONE, ZERO
from tests.solvers.dispersion.constrained.cases import draw_case, feasible_cases
from tests.thoroughly import few_of

#: Seeds a case: forty are tried every time, all thousands in the thorough part.
BLOCKS = few_of([range(40), range(40, 100), *(range(start, start + 100) for start in range(100, 4000, 100))], 1)


def _values(g: np.ndarray, kept: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([g[list(each)].sum() for each in kept])


@pytest.mark.parametrize("seeds", BLOCKS)
def test_a_problem_that_is_refused_has_no_selection(seeds):
    refused = [kept for problem, kept in map(draw_case, seeds) if problem is None]
    assert refused
    assert not any(refused)


@pytest.mark.parametrize("seeds", BLOCKS)
def test_its_selections_are_those_that_the_statement_allows(seeds):
    for problem, kept in feasible_cases(seeds):
        assert list(problem.feasible.selections()) == kept
        assert problem.feasible.count >= len(kept)


@pytest.mark.parametrize("seeds", BLOCKS)
def test_linear_functions_have_their_maximum_and_a_bound(seeds):
    rng = np.random.default_rng(1)
    for problem, kept in feasible_cases(seeds):
        feasible, g = problem.feasible, rng.normal(size=problem.n)
        top = _values(g, kept).max()
        best = feasible.best(g)
        assert feasible.violation(best) == 0
        assert g @ best == pytest.approx(top, abs=1e-6)
        assert feasible.support(g) >= top - 1e-12
        if feasible.is_exact:
            assert feasible.support(g) == pytest.approx(top, abs=1e-12)
        # Any prices bound it, however bad.
        assert feasible.at_prices(g, rng.normal(size=len(feasible.priced)))[0] >= top - 1e-12


@pytest.mark.parametrize("seeds", BLOCKS)
def test_fixing_never_cuts_off_what_is_worth_looking_at(seeds):
    rng = np.random.default_rng(2)
    for problem, kept in feasible_cases(seeds):
        feasible, g, room = problem.feasible, rng.normal(size=problem.n), 1.5 * rng.random()
        goal, state = feasible.support(g) - room, feasible.fixed(g, room)
        values, chosen = _values(g, kept), np.array([feasible.decision(each) for each in kept])
        for client in range(problem.n):
            for value, wanted in ((0, ONE), (1, ZERO)):
                top = values[chosen[:, client] == value].max(initial=-np.inf)
                if top >= goal + 1e-12:
                    assert state[client] != wanted
                elif feasible.is_exact and top < goal - 1e-9:
                    assert state[client] != FREE


@pytest.mark.parametrize("seeds", BLOCKS)
def test_rounding_drawing_and_swapping_keep_all_constraints(seeds):
    rng = np.random.default_rng(3)
    for problem, kept in feasible_cases(seeds):
        feasible, allowed = problem.feasible, set(kept)
        for x in (feasible.round(rng.random(problem.n)), feasible.draw(rng)):
            assert tuple(np.flatnonzero(x).tolist()) in allowed
            inside, outside = np.flatnonzero(x == 1), np.flatnonzero(x == 0)
            swaps = feasible.swaps(x, inside, outside)
            for i, j in np.ndindex(swaps.shape):
                swapped = tuple(sorted({*inside.tolist(), int(outside[j])} - {int(inside[i])}))
                assert swaps[i, j] == (swapped in allowed)


@pytest.mark.parametrize("seeds", BLOCKS)
def test_projection_comes_near_the_relaxation(seeds):
    rng = np.random.default_rng(4)
    for problem, _ in feasible_cases(seeds)[:8]:
        y = problem.feasible.project(rng.random(problem.n))
        assert y.sum() == pytest.approx(problem.size)
        assert y.min() >= -1e-12
        assert y.max() <= 1 + 1e-12
        for row in problem.constraints.rows:
            assert row.low - 0.1 <= row.coefficients @ y[row.places] <= row.high + 0.1


@pytest.mark.parametrize("seeds", BLOCKS)
def test_what_is_left_of_a_subproblem_are_its_selections(seeds):
    rng = np.random.default_rng(5)
    for problem, kept in feasible_cases(seeds):
        selection = kept[rng.integers(len(kept))]
        states = np.full(problem.n, FREE, dtype=np.int8)
        for client in rng.choice(problem.n, size=min(2, problem.n), replace=False):
            states[client] = ONE if client in selection else ZERO
        free, left = problem.constraints.restricted(states)
        ones = np.flatnonzero(np.where(problem.constraints.states == FREE, states, problem.constraints.states) == ONE)
        if left.size:
            whole = {
                tuple(sorted({*ones.tolist(), *free[list(each)].tolist()}))
                for each in ConstrainedSelections.of(left).selections()
            }
            wanted = {each for each in kept if all((k in each) == (states[k] == ONE) for k in np.flatnonzero(states))}
            assert whole == wanted
