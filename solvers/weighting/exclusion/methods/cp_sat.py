"""Method ``cp-sat``: exact for any importance, by CP-SAT on slices of the kept importance."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import NamedTuple

import numpy as np

from solvers.cp_sat import cut_short, solver_for
from solvers.errors import SolversError
from solvers.registry import method
from solvers.run import Run
from solvers.weighting.exclusion.methods.ca_fed import passes
from solvers.weighting.exclusion.methods.convex import relax
from solvers.weighting.exclusion.methods.sorting import keep, prefixes
from solvers.weighting.exclusion.problem import ExclusionProblem

__all__ = ["cp_sat", "seed_incumbent"]

#: Importance is rounded down to multiples of about 1/_UNITS of the slice's upper end; the capacity is widened by what
#: that may lose.
_UNITS = 2.0**31

#: The knapsack's costs are scaled by a power of two so that they sum to about this much, then rounded down.
_COSTS = 2.0**40

#: Slices of the kept importance to begin with, a multiple of three: a(1 − a)² turns convex at a = 2/3.
_SLICES = 48


@method(ExclusionProblem, "cp-sat", kind="exact")
def cp_sat(problem: ExclusionProblem, run: Run) -> None:
    r"""Dinkelbach's parametric step on slices of the kept importance, each a knapsack solved by CP-SAT.

    With :math:`a = \alpha(S)` and the best value ρ so far, a set beats ρ exactly when
    :math:`\sum_S \alpha_k (e_k - \rho) + \Gamma' a (1 - a)^2 < 0`. On a slice :math:`l \le a \le u` the cubic lies
    above an affine function (the chord where it is concave, a tangent where it is convex), and the left side above
    a linear cost v(S): minimising it is a knapsack with two-sided capacity, and :math:`\rho + \min(v, 0) / l`
    bounds every set in the slice. Slices that cannot beat ρ are closed; a better set lowers ρ; else the slice is
    halved, which quarters the error of the affine function.

    The knapsack is stated in integers: importance rounded down to multiples of about 2⁻³¹ of the slice's upper end
    (the capacity widened by n units), costs rounded down after scaling by a power of two. Every rounding thus
    *lowers* the slice's bound, and CP-SAT's arithmetic on integers is exact.
    """
    seed_incumbent(problem, run)
    _Search(problem, run).run_to_proof()


def seed_incumbent(problem: ExclusionProblem, run: Run) -> None:
    """Offer what is cheap: Algorithm 1's decision, the best prefix by loss gap, and the relaxation's bound."""
    run.tighten(relax(problem).bound)
    run.offer(passes(problem))
    order, values = prefixes(problem)
    run.offer(keep(order[: int(values.argmin()) + 1], problem.n))


class _Slice(NamedTuple):
    bound: float
    low: float
    high: float


class _Search:
    def __init__(self, problem: ExclusionProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.order = np.argsort(problem.loss_gaps, kind="stable")
        self.mass = np.concatenate([[0.0], np.cumsum(problem.importance[self.order])])
        self.loss = np.concatenate([[0.0], np.cumsum((problem.importance * problem.loss_gaps)[self.order])])
        # What stating a knapsack and CP-SAT's presolve may take beyond its time limit, measured as 10 µs a client.
        self.patience = 1e-5 * problem.n
        self.ended = False  # whether CP-SAT was interrupted

    @property
    def best(self) -> float:
        assert self.run.objective is not None  # seed_incumbent has offered a set
        return self.run.objective

    @property
    def target(self) -> float:
        """What a slice's knapsack has to reach: nine tenths of the way to what `Run.proved` accepts."""
        return self.best - 0.9 * self.tolerance

    @property
    def tolerance(self) -> float:
        return self.problem.tolerance_at(self.best)

    def settled(self, bound: float, low: float, high: float) -> bool:
        """Whether a slice of this bound needs no more work: it reaches `target` but for what rounding took off."""
        return bound >= self.target - max(0.05 * self.tolerance, 2.0 * self.margin * min(high / low, 4.0))

    def run_to_proof(self) -> None:
        problem, run = self.problem, self.run
        least = float(problem.importance.min()) * (1.0 - 1e-9)
        edges = [least, *(j / _SLICES for j in range(1, _SLICES) if j / _SLICES > least), 1.0 + 1e-9]
        closed = math.inf
        queue = [_Slice(self.fractional_bound(low, high), low, high) for low, high in itertools.pairwise(edges)]
        heapq.heapify(queue)
        run.nodes = 0
        while queue and not run.proved and not self.ended and run.remaining > 3 * self.patience:
            known, low, high = heapq.heappop(queue)
            bound = known if self.settled(known, low, high) else max(known, self.knapsack_bound(low, high))
            if self.settled(bound, low, high) or high - low < 1e-12 * high:
                closed = min(closed, bound)
            else:
                middle = 0.5 * (low + high) if high < 4.0 * low else math.sqrt(low * high)
                for a, b in ((low, middle), (middle, high)):
                    heapq.heappush(queue, _Slice(max(bound, self.fractional_bound(a, b)), a, b))
            run.tighten(min(closed, queue[0].bound if queue else math.inf, self.best))
        run.tighten(min(closed, queue[0].bound if queue else math.inf, self.best))
        if queue and not run.proved and not self.ended:
            run.stop("time-limit", "too little time was left for another knapsack")

    def affine(self, low: float, high: float) -> tuple[float, float]:
        """Slope and intercept of an affine function below Γ'·a(1 − a)² on [low, high]."""
        gamma = self.problem.gamma
        if high <= 2.0 / 3.0:
            left, right = low * (1.0 - low) ** 2, high * (1.0 - high) ** 2
            slope = (right - left) / (high - low)
            return gamma * slope, gamma * (left - slope * low)
        at = 0.5 * (low + high)
        slope = (1.0 - at) * (1.0 - 3.0 * at)
        return gamma * slope, gamma * (at * (1.0 - at) ** 2 - slope * at)

    def fractional_bound(self, low: float, high: float) -> float:
        """Bound of a slice from the knapsack's continuous relaxation, in O(log n) by prefix sums."""
        slope, intercept = self.affine(low, high)
        price = self.best - slope  # clients of smaller loss gap lower the cost
        count = int(np.searchsorted(self.problem.loss_gaps, price, sorter=self.order))
        mass = min(max(float(self.mass[count]), low), high, float(self.mass[-1]))
        cost = float(np.interp(mass, self.mass, self.loss)) - price * mass + intercept
        mean = float(np.interp(low, self.mass, self.loss)) / low  # the smallest mean gap of that importance
        ends = mean + max(0.0, 1.0 - high) ** 2 * self.problem.gamma
        return max(self.ratio(self.best, cost, low, high), ends - self.margin)

    def ratio(self, parameter: float, cost: float, low: float, high: float) -> float:
        """The bound on ε̂ over a slice from one on its parametric cost, whose rounding grows with the importance."""
        cost -= self.margin * high
        return parameter + cost / (low if cost < 0 else high)

    @property
    def margin(self) -> float:
        return self.problem.rounding + 64.0 * float(np.finfo(np.float64).eps) * abs(self.best)

    def knapsack_bound(self, low: float, high: float) -> float:
        """Minimise the parametric cost over the slice by CP-SAT; offers what it finds, returns the slice's bound."""
        problem, run = self.problem, self.run
        with run.loading():
            from ortools.sat.python import cp_model
        slope, intercept = self.affine(low, high)
        costs = problem.importance * (problem.loss_gaps - self.best + slope)
        total = float(np.abs(costs).sum())
        factor = 2.0 ** math.floor(math.log2(_COSTS / total)) if total > 0 else 1.0
        integers = np.floor(costs * factor).astype(np.int64)
        # A set of this cost or more is no better than the target, whatever its importance in the slice.
        cap = math.ceil((low * (self.target - self.best) - intercept) * factor)
        cap = int(min(max(cap, -4 * _COSTS), 4 * _COSTS))  # beyond what any set costs
        units = _UNITS / 2.0 ** math.ceil(math.log2(high))
        weights = np.minimum(np.floor(problem.importance * units), 4.0 * _UNITS).astype(np.int64)
        with run.building():
            model = cp_model.CpModel()
            x = [model.new_bool_var("") for _ in range(problem.n)]
            capacity = cp_model.LinearExpr.weighted_sum(x, weights.tolist())
            cost = cp_model.LinearExpr.weighted_sum(x, integers.tolist())
            model.add_linear_constraint(capacity, math.ceil(low * units) - problem.n, math.floor(high * units))
            model.add_bool_or(x)
            model.add(cost <= cap)
            model.minimize(cost)
            solver = solver_for(run, spare=self.patience)
        parameter = self.best
        status = solver.solve(model)
        run.nodes = (run.nodes or 0) + int(solver.num_branches)
        if status == cp_model.MODEL_INVALID:
            raise SolversError(f"CP-SAT rejected the model of a slice: {model.validate()}")
        if status in (cp_model.UNKNOWN, cp_model.FEASIBLE):
            self.ended = cut_short(run, model, status, spare=self.patience)
        if status == cp_model.UNKNOWN:
            return -math.inf  # out of time before any bound; the slice keeps the one it had
        smallest = cap
        if status != cp_model.INFEASIBLE:
            smallest = min(cap, math.floor(solver.best_objective_bound))
            run.offer(np.array([solver.value(v) for v in x], dtype=np.bool_))
        return self.ratio(parameter, smallest / factor + intercept, low, high)
