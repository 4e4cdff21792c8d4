"""Studies draw small pictures on one PyTorch thread: what is in them is looked at, and not how they look."""

from __future__ import annotations

import sys

import pytest

from tests.fedselect.conftest import small_pictures


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def _pictures():
    with small_pictures():
        yield
