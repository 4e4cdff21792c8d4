"""Certificates of balance problems: those of the dispersion problems that they are stated as."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from solvers.balance.problem import BalanceProblem
from solvers.certificate_writers import certificate_writer
from solvers.certificates import Certificate, problem_digest
from solvers.certificates.exact.balance import restated
from solvers.certificates.schema import MULTIPLIER, SCHEMAS
from solvers.dispersion import DispersionProblem
from solvers.dispersion.certificates import write_certificate as write_dispersion
from solvers.problem import OPTIMALITY_GAP
from solvers.solution import Solution

#: Bits of the fraction that stands for κ, which its rounding down changes by less than a millionth of what is proved.
_BITS = 40

#: The part of what counts as optimal that the proof may fall short by, since a tree for less is a larger one.
_SPARE = 0.5


@certificate_writer(BalanceProblem, constraints=True)
def write_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """Prove the bound as that of a dispersion problem; without a node where whole counts alone prove as much.

    κ is the bound times B², rounded down: where sizes are equal it is 0, and what is proved is a whole number.
    """
    problem = solution.problem
    assert isinstance(problem, BalanceProblem)
    if solution.bound is None:
        return None
    spare = _SPARE * OPTIMALITY_GAP
    if solution.bound <= problem.bound() + spare:
        return _without_nodes(problem)
    level, fine, kappa = 0, 0, solution.bound * problem.classes**2
    if not problem.has_equal_sizes:
        fine = min(60, max(0, _BITS - math.frexp(kappa)[1]))
        level = min(math.floor(math.ldexp(kappa, fine)), MULTIPLIER - 1)
    stated, constant, _ = restated(problem, level, fine)
    engine = DispersionProblem(stated.distances, stated.costs, size=problem.size, **problem.stated_constraints())
    # The least value of |sum of beta|^2 - kappa M^2 that is to be proved.
    square = float(problem.classes * problem.fewest_samples) ** 2
    least = -spare * square if level else solution.bound * square - max(0.9, spare * square)
    claim = Solution(engine, solution.method, solution.x, None, float(constant) - least, "feasible", "iterations")
    if solution.x is not None:
        claim = replace(claim, objective=engine.objective(solution.x))
    found = write_dispersion(claim, time_limit, relaxed=relaxed)
    if found is None:
        return None
    arrays = {**found.arrays, "level": np.array([level]), "fine": np.array([fine])}
    return Certificate("balance", problem_digest(problem), solution.bound, found.grid, arrays)


def _without_nodes(problem: BalanceProblem) -> Certificate:
    """Return the certificate of the least imbalance of whole counts, which the checker knows by itself."""
    none, rules = np.zeros(0, dtype=np.int64), SCHEMAS["balance"].arrays
    arrays = {name: np.array([rule.least]) if rule.length == 1 else none for name, rule in rules.items()}
    arrays |= {f"{name}_start": np.zeros(1, dtype=np.int64) for name, rule in rules.items() if rule.parts}
    arrays["order"] = np.arange(problem.n)
    return Certificate("balance", problem_digest(problem), problem.bound(), 0, arrays)
