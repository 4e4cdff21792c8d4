"""Certificates of the weighting problems: weights with the multiplier of their bias; for exclusion, a tree.

The tree branches over the importance that is kept, and over how many clients are kept of each group of equal
importance.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from solvers.certificate_writers import certificate_writer, whole_numbers
from solvers.certificates import Certificate, problem_digest
from solvers.certificates.exact.exclusion import IMPORTANCE, LEAF, Box, Groups
from solvers.solution import Solution
from solvers.weighting.problem import AggregationProblem, ExclusionProblem, TotalErrorProblem


@certificate_writer(AggregationProblem)
def write_weights_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """Write down the solution's weights; for the total variation its value there, for χ² the best level."""
    problem, x = solution.problem, solution.x
    assert isinstance(problem, AggregationProblem)
    assert solution.bound is not None
    if x is None:
        return None
    q = np.maximum(problem.decision(x), 0.0)
    if not isinstance(problem, TotalErrorProblem):
        grid, numbers = whole_numbers(q)
        arrays = {"q": numbers}
        return Certificate("optimization-error", problem_digest(problem), float(solution.bound), grid, arrays)
    p = problem.biased_importance(q)
    multiplier = math.sqrt(problem.bias_term(p)) if problem.bias == "tv" else problem.chi2_depth(problem.slopes(q))
    grid, numbers = whole_numbers([*q, multiplier])
    arrays = {"q": numbers[:-1], "multiplier": numbers[-1:]}
    return Certificate("total-error", problem_digest(problem), float(solution.bound), grid, arrays)


#: Numbers in a tree beyond which it is given up, and steps of the search for a slope.
_MOST, _STEPS = 400_000, 40


@certificate_writer(ExclusionProblem)
def write_exclusion_certificate(solution: Solution, time_limit: float, *, relaxed: bool) -> Certificate | None:
    """A tree that proves the solution's bound; None where time or room does not suffice, or a set is worth less."""
    assert isinstance(solution.problem, ExclusionProblem)
    assert solution.bound is not None
    problem = solution.problem
    ends = time.perf_counter() + time_limit
    # Fine enough that slopes and importance, of the size of 1 or of the loss, lose nothing worth having.
    grid = math.frexp(max(problem.scale, 1.0))[1] - 60
    target = math.floor(Fraction(float(solution.bound)) / Fraction(2) ** grid)
    tree = _Tree(problem, grid, target, lambda: time.perf_counter() > ends)
    if not tree.grow():
        return None
    arrays = {"tree": np.array(tree.codes, dtype=np.int64), "target": np.array([target], dtype=np.int64)}
    bound = math.nextafter(float(Fraction(target) * Fraction(2) ** grid), -math.inf)
    return Certificate("exclusion", problem_digest(problem), min(float(solution.bound), bound), grid, arrays)


class _Tree:
    def __init__(self, problem: ExclusionProblem, grid: int, target: int, expired: Callable[[], bool]) -> None:
        self.groups, self.unit, self.expired = Groups(problem), Fraction(2) ** grid, expired
        self.rho, self.codes = target * self.unit, list[int]()
        groups = self.groups
        self.weights = [float(a) for a in groups.weights]
        self.gaps = [[float(e) for e in each] for each in groups.gaps]
        self.sums = [[float(e) for e in each] for each in groups.sums]
        self.total, self.gamma, self.price = float(groups.total), float(groups.gamma), float(self.rho)

    def grow(self) -> bool:
        """Write the tree, depth first; False where it was given up."""
        stack = [self.groups.everything()]
        while stack:
            if self.expired() or len(self.codes) > _MOST:
                return False
            box = self._tight(stack.pop())
            slope = self._slope(box)
            number = round(Fraction(slope) / self.unit)
            bound = self.groups.leaf(box, self.rho, number * self.unit)
            if bound is None or bound >= 0:
                self.codes += [LEAF, number]
                continue
            if all(k == j for k, j in zip(box[0], box[1], strict=True)):
                return False  # one set is left, and it is worth less
            code, number = self._split(box, slope)
            self.codes += [code, number]
            at = number * self.unit if code == IMPORTANCE else number
            stack += reversed(self.groups.branches(box, code, at))
        return True

    def _tight(self, box: Box) -> Box:
        """The box with the importance that its numbers leave possible."""
        low, high, least, most = box
        ends = (
            sum((a * k for a, k in zip(self.groups.weights, side, strict=True)), Fraction(0)) for side in (low, high)
        )
        first, last = ends
        return low, high, max(least, first), min(most, last)

    def _slope(self, box: Box) -> float:
        """The slope of the best bound, which is concave in it: by golden section."""
        reach = self.gamma * self.total**2 + max(abs(e) for each in self.gaps for e in each) + abs(self.price)
        a, b, golden = -reach, reach, (math.sqrt(5) - 1) / 2
        x, y = b - golden * (b - a), a + golden * (b - a)
        fx, fy = (self._value(box, s) for s in (x, y))
        for _ in range(_STEPS):
            if fx >= fy:
                b, y, fy = y, x, fx
                x = b - golden * (b - a)
                fx = self._value(box, x)
            else:
                a, x, fx = x, y, fy
                y = a + golden * (b - a)
                fy = self._value(box, y)
        return x if fx >= fy else y

    def _value(self, box: Box, slope: float) -> float:
        """`Groups.leaf` in floating point."""
        low, high, least, most = box[0], box[1], float(box[2]), float(box[3])
        bound, price = self._intercept(slope, least, most), self.price - slope
        for a, each, sums, k, j in zip(self.weights, self.gaps, self.sums, low, high, strict=True):
            kept = min(max(bisect_left(each, price), k), j)
            bound += a * (sums[kept] - price * kept)
        return bound

    def _intercept(self, slope: float, least: float, most: float) -> float:
        def value(a: float) -> float:
            return self.gamma * a * (self.total - a) ** 2 - slope * a

        found = min(value(least), value(most))
        if self.gamma == 0 or most <= 2 * self.total / 3:
            return found
        root = math.sqrt(max(self.total**2 + 3 * slope / self.gamma, 0.0))
        return min(found, value(min(max((2 * self.total + root) / 3, least, 2 * self.total / 3), most)))

    def _split(self, box: Box, slope: float) -> tuple[int, int]:
        """Halve the importance while it spans several clients; then split the group whose price is nearest."""
        low, high, least, most = box
        open_groups = [g for g, (k, j) in enumerate(zip(low, high, strict=True)) if k < j]
        widest = max(self.weights[g] for g in open_groups)
        if float(most - least) > 2 * widest:
            return IMPORTANCE, round((least + most) / 2 / self.unit)
        price = self.price - slope

        def away(g: int) -> float:
            """Return the distance of the price from the nearest loss gap that could tip the group, by importance."""
            inside = self.gaps[g][low[g] : high[g]]
            return min(abs(e - price) for e in inside) * self.weights[g]

        g = min(open_groups, key=away)
        kept = min(max(bisect_left(self.gaps[g], price), low[g]), high[g])
        below = kept > low[g] and (
            kept == high[g] or abs(self.gaps[g][kept - 1] - price) <= abs(self.gaps[g][kept] - price)
        )
        return g, kept - 1 if below else kept
