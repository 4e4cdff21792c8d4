"""Methods for exclusion problems: exact ones, the relaxation, and CA-Fed's Algorithm 1."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.backends import cut_short, run_cp_sat, solver_for
from solvers.errors import InvalidOption, InvalidProblem, SolversError
from solvers.registry import method
from solvers.run import Run
from solvers.search import BestFirstQueue, NodeOutcome, add_outcomes
from solvers.search.pool import DiverseIncumbents, conclude_pool, offer_best
from solvers.weighting.problem import ExclusionProblem


@method(ExclusionProblem, "sorting", kind="exact", work=True)
def sorting(problem: ExclusionProblem, run: Run) -> None:
    """Keep the k smallest loss gaps, for the best k; exact for equal importance, in O(n log n).

    For equal α the bias depends on the *number* of kept clients alone, so that for each number the clients with the
    smallest loss gaps are best: n candidates, evaluated by prefix sums.

    Raises
    ------
    InvalidProblem
        When the importance is not the same for every client.
    """
    low, high = float(problem.importance.min()), float(problem.importance.max())
    if low != high:
        raise InvalidProblem(
            f"sorting is exact only when every client has the same importance; here it ranges from {low:.9g} to "
            f"{high:.9g} (use 'cp-sat' or 'auto')"
        )
    order, values = prefixes(problem)
    run.spend(20 * problem.n)
    size = int(values.argmin()) + 1
    run.offer(keep(order[:size], problem.n))
    # Every candidate was evaluated to within the rounding of its sums.
    run.tighten(float(values[size - 1]), problem.rounding)


def prefixes(problem: ExclusionProblem) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the clients by ascending loss gap, and the estimate of keeping the first 1, 2, …, n of them."""
    order = np.argsort(problem.loss_gaps, kind="stable")
    importance = problem.importance[order]
    mass = np.cumsum(importance)
    excluded = np.maximum(1.0 - mass, 0.0)
    values = np.cumsum(importance * problem.loss_gaps[order]) / mass + excluded * excluded * problem.gamma
    return order, values


def keep(clients: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """Return the decision that keeps these clients."""
    x = np.zeros(n, dtype=np.bool_)
    x[clients] = True
    return x


class Relaxation(NamedTuple):
    """The relaxation's minimiser ``p`` (a distribution over clients), a valid lower bound, and sets next to it."""

    p: NDArray[np.float64]
    bound: float
    kept: tuple[NDArray[np.bool_], ...]


@method(ExclusionProblem, "convex", kind="relaxation")
def convex(problem: ExclusionProblem, run: Run) -> None:
    r"""Let the set be fractional at every kept importance a: a lower bound, and a rounded decision.

    With a alone fixed, the least loss of a set with a part of one client is a fractional knapsack, which sorting
    solves: the clients of least loss gap, and a part of the next. Its value over a plus
    :math:`(1 - a)^2 \Gamma'` is then minimised over a, in O(n log n). The clients kept in whole, and those with the
    one kept in part, are offered as the decision; ``raw`` is the fractional set's distribution.
    """
    found = relax(problem)
    run.details["raw"] = found.p
    run.tighten(found.bound)
    for kept in found.kept:
        run.offer(kept)


def relax(problem: ExclusionProblem) -> Relaxation:
    r"""Return the best fractional set and its value as a bound.

    Between the masses of the first k and k + 1 clients the value is :math:`e_k - c_k / a + \Gamma' (1 - a)^2` with
    :math:`c_k = e_k A_k - L_k \ge 0` (mass and loss of the first k). Its derivative has the sign of
    :math:`c_k / (2 \Gamma') - a^2 (1 - a)`, so that within a segment it is smallest at an end, or at the root from
    2/3 on. Where bisection ends beside it, the derivative is 0 but for rounding on all of what lies between.
    """
    order, values = prefixes(problem)
    gaps, importance = problem.loss_gaps[order], problem.importance[order]
    mass = np.concatenate([[0.0], np.cumsum(importance)])
    loss = np.concatenate([[0.0], np.cumsum(importance * gaps)])
    first, last = mass[:-1], mass[1:]
    behind = np.maximum(gaps * first - loss[:-1], 0.0)
    level = behind / (2.0 * problem.gamma) if problem.gamma > 0 else np.full(problem.n, math.inf)
    low, high = np.full(problem.n, 2.0 / 3.0), np.ones(problem.n)
    for _ in range(60):
        middle = (low + high) / 2
        is_before = middle * middle * (1.0 - middle) > level
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    at = np.clip(low, first, last)
    inside = np.where(first > 0, gaps - behind / np.maximum(at, 2.0 / 3.0) + (1.0 - at) ** 2 * problem.gamma, math.inf)
    inside[at < 2.0 / 3.0] = math.inf
    best, place = int(values.argmin()), int(inside.argmin())
    is_whole = values[best] <= inside[place]
    k, part = (best, 1.0) if is_whole else (place, float((at[place] - first[place]) / importance[place]))
    p = np.zeros(problem.n)
    p[order[:k]] = importance[:k]
    p[order[k]] = part * importance[k]
    sizes = {k + 1} if is_whole else {k, k + 1}
    kept = tuple(keep(order[:size], problem.n) for size in sorted(sizes) if size)
    return Relaxation(p / p.sum(), float(min(values[best], inside[place])) - problem.rounding, kept)


#: Clients that brute force is willing to enumerate the subsets of: 2.7e8 subsets.
LARGEST_ENUMERATION = 28

_LOW = 16


@method(ExclusionProblem, "brute-force", kind="exact", pool=True, work=True)
def brute_force(problem: ExclusionProblem, run: Run) -> None:
    """Evaluate all 2ⁿ − 1 non-empty sets.

    Raises
    ------
    InvalidProblem
        When there are more than 28 clients.
    """
    if isinstance(run.pool, DiverseIncumbents):
        raise InvalidOption(
            "diverse is for problems that select a stated number of clients; an exclusion problem does not"
        )
    n = problem.n
    if n > LARGEST_ENUMERATION:
        raise InvalidProblem(
            f"brute-force would look at all subsets of {n} clients; it accepts at most {LARGEST_ENUMERATION} clients "
            "(use 'cp-sat' or 'auto')"
        )
    run.tighten(relax(problem).bound)
    low = min(n, _LOW)
    mass, loss = subset_sums(problem.importance[:low]), subset_sums((problem.importance * problem.loss_gaps)[:low])
    high_mass = subset_sums(problem.importance[low:])
    high_loss = subset_sums((problem.importance * problem.loss_gaps)[low:])
    best = math.inf
    for block in range(1 << (n - low)):
        run.spend(mass.size)
        kept = mass + high_mass[block]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (loss + high_loss[block]) / kept + (1.0 - kept) ** 2 * problem.gamma
        if block == 0:
            values[0] = math.inf  # no client is kept
        if run.pool is not None:
            lowered = values - problem.rounding
            offer_best(run, lowered, partial(_subset, n, block << low))
        top = int(values.argmin())
        if values[top] < best:
            best = float(values[top])
            run.offer(_subset(n, block << low, top))
        if run.expired:
            return
    if run.pool is not None:
        run.pool.tighten(run.pool.cutoff)
        conclude_pool(run)
        return
    # Every set was evaluated, each to within the rounding of its sums.
    run.tighten(best, problem.rounding)


def _subset(n: int, high: int, low: int) -> NDArray[np.bool_]:
    """Return the decision of the bits of two numbers together."""
    return np.array([(high | low) >> k & 1 == 1 for k in range(n)])


def subset_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over all subsets; bit k of the index says whether value k is in."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


@method(ExclusionProblem, "ca-fed", kind="heuristic")
def ca_fed(
    problem: ExclusionProblem,
    run: Run,
    *,
    order: Literal["signed", "absolute"] = "signed",
    ties: Literal["exclude", "keep"] = "exclude",
) -> None:
    r"""Exclude clients one by one, most correlated first, then least available first (Algorithm 1).

    Each of two passes examines the kept clients once and excludes those whose exclusion lowers the estimate by at least
    τ. With :math:`\bar e` the mean loss gap of the kept, a their importance and m = 1 − a, excluding j lowers it by
    :math:`\alpha_j (e_j - \bar e) / (a - \alpha_j) - \alpha_j (2m + \alpha_j) \Gamma'`. Equal keys are examined by
    client id. The last client is never excluded (the authors' code has this guard, the paper's pseudo-code would divide
    zero by zero).

    Parameters
    ----------
    order : {"signed", "absolute"}
        First pass by descending λ, as Algorithm 1 says, or by descending \|λ\|, as the authors' code does. They
        differ for clients with λ < 0, whose spells are shorter than those of independent rounds: ``"signed"``
        examines them last.
    ties : {"exclude", "keep"}
        Whether an exclusion is made that lowers the estimate by τ exactly: at τ = 0, one that changes nothing.
        Algorithm 1's ``≥ τ`` makes it. So at τ = 0 a single client is left where *all* loss gaps and Γ' are zero,
        as in the first round under the running minimum of Sec. IV-B. ``"keep"`` asks for more than τ.
    """
    run.offer(passes(problem, order, strict=ties == "keep"))


def passes(problem: ExclusionProblem, order: str = "signed", strict: bool = False) -> NDArray[np.bool_]:
    """Return the clients that both passes keep."""
    correlation = problem.correlation if order == "signed" else np.abs(problem.correlation)
    first = np.argsort(-correlation, kind="stable")
    second = np.argsort(problem.availability, kind="stable")
    importance, gaps = problem.importance.tolist(), problem.loss_gaps.tolist()
    gamma, threshold = problem.gamma, problem.threshold
    kept = [True] * problem.n
    count = problem.n
    mass = exact = math.fsum(importance)
    loss = math.fsum(a * e for a, e in zip(importance, gaps, strict=True))
    excluded = 0.0
    for k in (*first.tolist(), *second.tolist()):
        if not kept[k]:
            continue
        if count == 1:
            break
        a = importance[k]
        rest = mass - a
        if rest <= 1e-3 * exact:
            # Subtracting has left rounding behind: sum afresh before it matters beside what is left.
            others = [j for j in range(problem.n) if kept[j] and j != k]
            rest = math.fsum(importance[j] for j in others)
            mass = exact = rest + a
            loss = math.fsum(importance[j] * gaps[j] for j in others) + a * gaps[k]
        gain = a * ((gaps[k] - loss / mass) / rest - (2.0 * excluded + a) * gamma)
        if gain > threshold or (gain == threshold and not strict):
            kept[k] = False
            count -= 1
            mass = rest
            loss -= a * gaps[k]
            excluded += a
    return np.array(kept)


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
    bounds every set in the slice. Slices that cannot beat ρ are fathomed; a better set lowers ρ; else the slice is
    split.

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


class _Search:
    def __init__(self, problem: ExclusionProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.order = np.argsort(problem.loss_gaps, kind="stable")
        self.mass = np.concatenate([[0.0], np.cumsum(problem.importance[self.order])])
        self.loss = np.concatenate([[0.0], np.cumsum((problem.importance * problem.loss_gaps)[self.order])])
        # What stating a knapsack and CP-SAT's presolve may take beyond its time limit, measured as 10 µs a client.
        self.overrun = 1e-5 * problem.n
        self.ended = False  # whether CP-SAT was interrupted

    @property
    def best(self) -> float:
        assert self.run.objective is not None  # seed_incumbent has offered a set
        return self.run.objective

    @property
    def target(self) -> float:
        """Value that a slice's knapsack has to reach: nine tenths of the way to what `Run.proved` accepts."""
        return self.best - 0.9 * self.tolerance

    @property
    def tolerance(self) -> float:
        return self.problem.tolerance_at(self.best)

    def is_fathomed(self, bound: float, low: float, high: float) -> bool:
        """Return whether a slice of this bound reaches `target`, but for what rounding took off."""
        return bound >= self.target - max(0.05 * self.tolerance, 2.0 * self.margin * min(high / low, 4.0))

    def run_to_proof(self) -> None:
        problem, run = self.problem, self.run
        least = float(problem.importance.min()) * (1.0 - 1e-9)
        edges = [least, *(j / _SLICES for j in range(1, _SLICES) if j / _SLICES > least), 1.0 + 1e-9]
        closed, outcomes = math.inf, [0] * len(NodeOutcome)
        queue = BestFirstQueue[tuple[float, float]]()  # of negative bounds: this is a minimisation
        for low, high in itertools.pairwise(edges):
            queue.push(-self.fractional_bound(low, high), (low, high))
        run.nodes = 0
        while queue and not run.proved and not self.ended and run.remaining > 3 * self.overrun:
            negative, (low, high) = queue.pop()
            known = -negative
            bound = known if self.is_fathomed(known, low, high) else max(known, self.knapsack_bound(low, high))
            is_fathomed = self.is_fathomed(bound, low, high)
            if is_fathomed or high - low < 1e-12 * high:
                closed = min(closed, bound)
                outcomes[NodeOutcome.FATHOMED_BY_BOUND if is_fathomed else NodeOutcome.SOLVED] += 1
            else:
                outcomes[NodeOutcome.BRANCHED] += 1
                middle = 0.5 * (low + high) if high < 4.0 * low else math.sqrt(low * high)
                for a, b in ((low, middle), (middle, high)):
                    queue.push(-max(bound, self.fractional_bound(a, b)), (a, b))
            run.tighten(min(closed, -queue.bound, self.best), is_claimed=True)
        run.tighten(min(closed, -queue.bound, self.best), is_claimed=True)
        outcomes[NodeOutcome.FATHOMED_BY_BOUND] += len(queue) if run.proved else 0
        add_outcomes(run.details, outcomes)
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
        """Bound of a slice from the knapsack's continuous relaxation, by prefix sums."""
        slope, intercept = self.affine(low, high)
        price = self.best - slope  # clients of smaller loss gap lower the cost
        count = int(np.searchsorted(self.problem.loss_gaps, price, sorter=self.order))
        mass = min(max(float(self.mass[count]), low), high, float(self.mass[-1]))
        cost = float(np.interp(mass, self.mass, self.loss)) - price * mass + intercept
        mean = float(np.interp(low, self.mass, self.loss)) / low  # the smallest mean gap of that importance
        ends = mean + max(0.0, 1.0 - high) ** 2 * self.problem.gamma
        return max(self.ratio(self.best, cost, low, high), ends - self.margin)

    def ratio(self, parameter: float, cost: float, low: float, high: float) -> float:
        """Bound ε̂ over a slice by its parametric cost, whose rounding grows with the importance."""
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
            solver = solver_for(run, spare=self.overrun)
        parameter = self.best
        status = run_cp_sat(run, solver, model)
        run.nodes = (run.nodes or 0) + int(solver.num_branches)
        if status == cp_model.MODEL_INVALID:
            raise SolversError(f"CP-SAT rejected the model of a slice: {model.validate()}")
        if status in (cp_model.UNKNOWN, cp_model.FEASIBLE):
            self.ended = cut_short(run, model, status, spare=self.overrun)
        if status == cp_model.UNKNOWN:
            return -math.inf  # out of time before any bound; the slice keeps the one it had
        smallest = cap
        if status != cp_model.INFEASIBLE:
            smallest = min(cap, math.floor(solver.best_objective_bound))
            run.offer(np.array([solver.value(v) for v in x], dtype=np.bool_))
        return self.ratio(parameter, smallest / factor + intercept, low, high)


@method(ExclusionProblem, "auto", kind="exact")
def auto(problem: ExclusionProblem, run: Run) -> None:
    """``sorting`` for equal importance, else ``cp-sat``; give a time limit where you cannot wait."""
    if problem.importance.min() == problem.importance.max():
        sorting(problem, run)
    else:
        cp_sat(problem, run)
