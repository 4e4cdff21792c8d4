"""Relaxations, and how their multipliers become bounds that are valid in floating point."""
