"""One PyTorch thread, as in a run: on a busy machine, threads that wait for each other cost more than they bring."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
