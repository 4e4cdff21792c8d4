"""Seeded points on circles and lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion import PointDispersionProblem

KINDS = ("uniform", "lattice", "arc", "threefold", "regular", "two ends", "line", "steps")


def positions(rng: np.random.Generator, n: int, kind: str) -> NDArray[np.float64]:
    """Angles, or places where the kind is a line."""
    if kind == "uniform":
        return rng.uniform(0, 2 * np.pi, n)
    if kind == "lattice":
        return 2 * np.pi * rng.integers(0, 12, n) / 12
    if kind == "arc":
        return rng.normal(size=n) * 10.0 ** rng.integers(-3, 1)
    if kind == "threefold":
        return np.repeat(rng.uniform(0, 2 * np.pi, -(-n // 3)), 3)[:n]
    if kind == "regular":
        return 2 * np.pi * np.arange(n) / n
    if kind == "two ends":
        return rng.choice([0, np.pi], n) + 0.1 * rng.normal(size=n)
    return rng.normal(size=n) if kind == "line" else rng.integers(0, 6, n).astype(float)


def plane(rng: np.random.Generator, n: int, kind: str) -> NDArray[np.float64]:
    """Points of the plane, turned and shifted; the circle's radius, or the line's unit, is 1."""
    at = positions(rng, n, kind)
    p = np.column_stack([at, 0 * at] if kind in ("line", "steps") else [np.cos(at), np.sin(at)])
    t = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    return p @ turn + rng.normal(size=2) * rng.choice([0, 1, 100])


def random_circle(rng: np.random.Generator, largest: int = 12) -> PointDispersionProblem:
    """A problem of one of the kinds, at any scale, with costs of either sign from none to all that counts."""
    n = int(rng.integers(2, largest + 1))
    m = int(rng.integers(1, n + 1))
    radius = 10.0 ** rng.integers(-6, 7)
    costs = rng.normal(size=n) * radius * rng.choice([0, 0.01, 1, m, 10 * m])
    points = radius * plane(rng, n, KINDS[rng.integers(len(KINDS))])
    return PointDispersionProblem(points, costs, size=m, weight=float(rng.choice([0.5, 1.0, 0.01])))


def circle(n: int, m: int, seed: int = 0, costs: NDArray[np.float64] | None = None) -> PointDispersionProblem:
    """Uniform angles, radius 50."""
    at = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    return PointDispersionProblem(50 * np.column_stack([np.cos(at), np.sin(at)]), costs, size=m, weight=0.5)
