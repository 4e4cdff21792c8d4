"""When iterations of the doubly nonnegative relaxation end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solvers.dispersion.policy import DEFAULT_POLICY
from solvers.dispersion.relaxations.doubly_nonnegative import DNNRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.relaxations.stopping import StoppingRule, tighten
from tests.solvers.dispersion.instances import random_problem


def relaxation() -> DNNRelaxation:
    scaled = ScaledProblem.of(random_problem(np.random.default_rng(3), 20, 5, "uniform"))
    return DNNRelaxation(scaled.quadratic, scaled.linear, scaled.size)


def never() -> bool:
    return False


@pytest.mark.parametrize(("last", "stalled"), [(9.7, False), (9.8, True)])
def test_a_bound_has_stalled_by_its_part_of_the_gap(last, stalled):
    rule = StoppingRule(known=5.0, iterations=100, memory=2, progress=0.025)
    assert rule.has_stalled([30.0, 10.0, 9.9, last]) is stalled  # .3 or .2 where .23 is asked for


def test_a_bound_that_is_wanted_for_itself_stalls_by_its_scale():
    rule = StoppingRule.of_bound(DEFAULT_POLICY, 100, 1e6)  # by one in five chunks
    assert not rule.has_stalled([9.0, 8.0, 8.0, 8.0, 8.0, 7.5])
    assert rule.has_stalled([9.0, 8.0, 8.0, 8.0, 8.0, 8.0])


def test_new_cuts_put_the_end_off():
    rule, part = StoppingRule(0.0, 100, 2, 0.1, clients_per_fresh_cut=4), relaxation()
    assert rule.ends([5.0] * 4, 5, part)
    assert not rule.ends([5.0] * 4, 6, part)
    assert not rule.ends([5.0] * 3, 0, part)


def test_a_node_that_will_not_be_fathomed_is_given_up_and_the_root_is_not():
    part, bounds = relaxation(), list[float]()
    list(tighten(part, StoppingRule(-math.inf, 300, 3, 0.0), bounds, never, 0, 20))
    limit = part.estimate()
    bests = [limit + gap for gap in (1.0, 0.6, 0.5)]
    node = StoppingRule.at_node(DEFAULT_POLICY, limit - 1.0, is_root=False)
    assert node.ends(bests, 20, part)
    assert not StoppingRule.at_node(DEFAULT_POLICY, limit - 1.0, is_root=True).ends(bests, 20, part)
    assert not StoppingRule.at_node(DEFAULT_POLICY, limit - 0.1, is_root=False).ends(bests, 20, part)


def test_iterations_end_at_the_value_to_beat_and_at_their_number():
    part, bounds = relaxation(), list[float]()
    found = list(tighten(part, StoppingRule(-math.inf, 45, 3, 0.0), bounds, never, 0, 20))
    assert (part.iterations, len(found), len(bounds)) == (45, 3, 4)
    assert found == np.minimum.accumulate(bounds)[1:].tolist()
    assert list(tighten(part, StoppingRule(bounds[-1], 500, 3, 0.0), bounds, never, 0, 20)) == []
    part, bounds = relaxation(), []
    assert list(tighten(part, StoppingRule(-math.inf, 45, 3, 0.0), bounds, lambda: True, 0, 20)) == []
    assert len(bounds) == 1
