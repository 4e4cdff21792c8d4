"""Fixtures for every test."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from solvers import registry

# An example's time is the machine's affair: beside other work, or with kernels to compile, any of them may be slow.
settings.register_profile("fedselect", deadline=None)
settings.load_profile("fedselect")


@pytest.fixture
def scratch_registry(monkeypatch):
    """Let a test register methods that are gone after it."""
    monkeypatch.setattr(registry, "_registry", {problem: dict(known) for problem, known in registry._registry.items()})


@pytest.fixture
def interruptible():
    """Let Ctrl-C reach this process, as it does not where the suite was started with ``nohup`` or by some runners."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
