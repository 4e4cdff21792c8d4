"""Fixtures for every test."""

from __future__ import annotations

import pytest

from solvers import registry


@pytest.fixture
def scratch_registry(monkeypatch):
    """Let a test register methods that are gone after it."""
    monkeypatch.setattr(registry, "_registry", {problem: dict(known) for problem, known in registry._registry.items()})
