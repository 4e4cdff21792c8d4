"""The registry of selectors."""

from __future__ import annotations

from fedselect.options import Registry

__all__ = ["SELECTORS"]

#: Builders ``(scenario, *, options) -> Selector`` by name.
SELECTORS: Registry = Registry("selector")
