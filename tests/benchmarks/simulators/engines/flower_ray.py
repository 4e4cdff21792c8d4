"""Flower's simulation engine, on Ray."""

from simulators.engines.flower import run_on_ray as run

__all__ = ["run"]
