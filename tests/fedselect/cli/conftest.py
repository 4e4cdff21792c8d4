"""What the tests of the command line share."""

from __future__ import annotations

import sys

import pytest

from fedselect import plugins
from solvers import registry


@pytest.fixture
def forgetting():
    """Let a test load parts of somebody's own into this process: registries and import path forget them afterwards."""
    before, path = registry.snapshot(), list(sys.path)
    yield
    for known in plugins.loaded_plugins():
        plugins._forget(known)
    registry.restore(before)
    sys.path[:] = path
