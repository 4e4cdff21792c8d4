"""Tangents of the reformulated objective as linear rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.semidefinite import relax
from solvers.dispersion.relaxations.slice_form import Normal, SliceForm, apply
from solvers.run import Run

__all__ = ["Tangents"]

_NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


class Tangents:
    """Tangents of the reformulated objective as linear rows, in units of `Normal`: a strong root for linear solvers.

    ``θ ≤ k + gᵀs`` at any point of the slice; at the tangent of a selection it holds with equality there, so that a
    linear model that is solved again with its own answer's tangent added ends at the optimum (outer approximation).
    """

    def __init__(self, problem: DispersionProblem, run: Run | None = None) -> None:
        self.normal = Normal.of(problem)
        found = relax(self.normal.quadratic, self.normal.linear, problem.size, run=run)
        self.form: SliceForm = apply(
            self.normal.quadratic, self.normal.linear, problem.size, found, _NO_PAIRS, _NO_PAIRS
        )
        self.x = problem.feasible.project(found.x)
        if run is not None:
            run.tighten(self.original(self.form.tangent(self.x)))

    def at(self, y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """``k`` and ``g`` of the tangent at y, rounding included."""
        towards = self.form.curved @ y
        return float(-y @ towards) + self.form.margin, self.form.linear + 2 * towards

    def original(self, value: float) -> float:
        """A bound in these units as a bound on the problem's objective."""
        return self.normal.original(value + self.normal.error)

    def first(self, start: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Points whose tangents make a good first model: the fractional solution, the incumbent, and on the way."""
        binary = start.astype(np.float64)
        return [self.x + share * (binary - self.x) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
