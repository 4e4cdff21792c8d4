"""The record's method is registered for its own tests alone: all others see what the packages register."""

from __future__ import annotations

import pytest

from solvers import registry
from solvers.dispersion import DispersionProblem

_before = registry.snapshot()
from examples.records import three_point  # noqa: E402, F401  (registers it)

_METHOD = registry.find(DispersionProblem, "three-point")
registry.restore(_before)


@pytest.fixture(autouse=True)
def _registered():
    before = registry.snapshot()
    registry.put(_METHOD)
    yield
    registry.restore(before)
