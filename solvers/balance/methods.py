"""Methods for balance problems: greedy, swaps, Fed-CBS's sampling, exact balance, and proofs by dispersion's engine."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from solvers.backends import cut_short, offer_answer, run_cp_sat, solver_for, stated_choice
from solvers.balance.collisions import balance_exactly
from solvers.balance.problem import BalanceProblem
from solvers.balance.sampling import draw_fed_cbs
from solvers.dispersion import DispersionProblem
from solvers.diverse import solve_diverse
from solvers.errors import InvalidOption, NoSelection
from solvers.options import Above, AtLeast
from solvers.registry import method
from solvers.run import Run
from solvers.search import NodeOutcome, add_outcomes
from solvers.search.pool import DiverseIncumbents, conclude_pool, offer_best
from solvers.solving import solve
from solvers.subsets import from_clients, from_row, in_order

_EPS = float(np.finfo(np.float64).eps)


def _greedy(problem: BalanceProblem) -> NDArray[np.int64]:
    """Return the greedy selection in its order; the next client is the best that leaves a way to keep all constraints.

    Raises
    ------
    NoSelection
        When there is none, or none was found, under side constraints.
    """
    order: list[int] = []
    included = problem.feasible.included
    sums, total = problem.deviations[included].sum(axis=0), int(problem.samples[included].sum())

    def worth() -> NDArray[np.float64]:
        return -problem.imbalances(sums + problem.deviations, total + problem.samples)

    def after(client: int) -> NDArray[np.float64]:
        nonlocal sums, total
        order.append(client)
        sums, total = sums + problem.deviations[client], total + int(problem.samples[client])
        return worth()

    return in_order(problem.feasible.grown(worth(), after), order)


@method(BalanceProblem, "greedy", kind="heuristic", constraints=True)
def greedy(problem: BalanceProblem, run: Run) -> None:
    """Take the client that balances those before best, again and again; ties by id."""
    run.offer(from_clients(_greedy(problem), problem.n))


def _swap(problem: BalanceProblem, run: Run, chosen: NDArray[np.int64]) -> None:
    """Offer a selection and improve it by the best swap until none does."""
    chosen = chosen.copy()
    run.offer(from_clients(chosen, problem.n))
    rows = max(1, 2_000_000 // (problem.n * problem.classes))  # selected clients whose swaps are looked at together
    while not run.expired and not run.proved and chosen.size < problem.n:
        run.spend(2 * chosen.size * problem.n * problem.classes)
        outside = np.setdiff1d(np.arange(problem.n), chosen)
        sums, total = problem.deviations[chosen].sum(axis=0), int(problem.samples[chosen].sum())
        now = float(problem.imbalances(sums, np.array(total)))
        best, swap = now * (1 - 1e-12), None
        for start in range(0, chosen.size, rows):
            out = chosen[start : start + rows]
            deviations = sums + problem.deviations[outside] - problem.deviations[out][:, None]
            totals = total + problem.samples[outside] - problem.samples[out][:, None]
            values = problem.imbalances(deviations, totals)
            if problem.is_constrained:
                values[~problem.feasible.swaps(from_clients(chosen, problem.n), out, outside)] = math.inf
            place = int(values.argmin())
            if values.flat[place] < best:
                best, swap = float(values.flat[place]), (start + place // outside.size, place % outside.size)
        if swap is None:
            return
        chosen[swap[0]] = outside[swap[1]]
        run.offer(from_clients(chosen, problem.n))


@method(BalanceProblem, "local-search", kind="heuristic", constraints=True)
def local_search(problem: BalanceProblem, run: Run, *, kicks: Annotated[int, AtLeast(0)] = 20) -> None:
    """Improve the greedy selection by the best swap until none does; then kick it and improve it again.

    Parameters
    ----------
    kicks : int
        Exchanges of two clients at random, without an improvement, after which it ends.
    """
    _swap(problem, run, _greedy(problem))
    exchanged, failed = min(2, problem.size, problem.n - problem.size), 0
    while exchanged and failed < kicks and run.x is not None and not (run.proved or run.expired):
        best = run.objective
        _swap(problem, run, problem.feasible.exchanged(run.x, exchanged, run.rng))
        failed = 0 if run.objective != best else failed + 1


@method(BalanceProblem, "fed-cbs", kind="heuristic")
def fed_cbs(
    problem: BalanceProblem,
    run: Run,
    *,
    draws: Annotated[int, AtLeast(1)] = 1,
    exponent: Annotated[float, Above(0)] | None = None,
    bonus: np.ndarray | None = None,
) -> None:
    """Draw as Fed-CBS does; see `solvers.balance.draw_fed_cbs`.

    Parameters
    ----------
    draws : int
        Selections drawn, of which the best is kept; the paper draws one.
    exponent : float, optional
        β of every place; the place itself by default.
    bonus : (n,) ndarray, optional
        What is added for the first place, to explore; nothing by default.
    """
    for _ in range(draws):
        run.offer(from_clients(draw_fed_cbs(problem, run.rng, exponent=exponent, bonus=bonus), problem.n))
        if run.expired:
            return


def as_dispersion(problem: BalanceProblem, price: float = 0.0) -> tuple[DispersionProblem, float]:
    r"""State :math:`\min \lVert \sum_S \beta_i \rVert^2 - \kappa (\sum_S q_i)^2` as a dispersion problem.

    With :math:`G_{ij} = \beta_i^\top \beta_j - \kappa q_i q_j`, distances :math:`C + (G_{ii} + G_{jj}) / 2 - G_{ij}`
    and costs :math:`m G_{ii}` have the value :math:`C m (m - 1) - s^\top G s` at every selection; C makes distances
    non-negative, and is 0 for κ = 0, where they are half the squares of Euclidean ones.

    Parameters
    ----------
    problem : BalanceProblem
        The problem.
    price : float
        κ ≥ 0.

    Returns
    -------
    DispersionProblem, float
        The problem, and the constant C m (m − 1).
    """
    beta, q = problem.deviations.astype(np.float64), problem.samples.astype(np.float64)
    gram = beta @ beta.T - price * np.outer(q, q)
    own = gram.diagonal().copy()
    distances = (own[:, None] + own) / 2 - gram
    distances = (distances + distances.T) / 2
    shift = max(0.0, -float(distances.min()))
    distances = np.maximum(distances + shift, 0.0)
    np.fill_diagonal(distances, 0.0)
    m = problem.size
    return DispersionProblem(distances, m * own, size=m, **problem.stated_constraints()), shift * m * (m - 1)


def _begin(problem: BalanceProblem, run: Run) -> None:
    """Offer what swaps find, unless side constraints leave nothing in sight, and the bound that needs no search."""
    run.tighten(problem.bound())
    try:
        local_search(problem, run)
    except NoSelection:
        run.note("neither a greedy choice nor its repair found a selection that keeps all constraints")


def _find_pool(problem: BalanceProblem, run: Run) -> None:
    """Find the members of the run's pool as those of the engine's problem: of equal sizes it has the same order."""
    assert run.pool is not None
    if not problem.has_equal_sizes:
        raise InvalidOption(
            "pools of a balance problem are found where all clients have equally many samples, so that the engine of "
            f"the dispersion problem has the same order; here they have from {problem.samples.min()} to "
            f"{problem.samples.max()} (use 'brute-force')"
        )
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, run.method)
        return
    _begin(problem, run)
    engine, constant = as_dispersion(problem)
    request = run.pool.request

    def is_refused(clients: NDArray[np.int64]) -> bool:
        x = from_clients(clients, problem.n)
        run.offer(x)
        return tuple(clients.tolist()) in run.pool.vetoed  # type: ignore[union-attr]

    asked: dict[str, Any] = {"pool": request.size, "within": request.within, **run.limits(problem.n)}
    if request.veto is not None:
        asked["veto"] = is_refused
    found = solve(engine, "auto", seed=run.seed, **asked)
    run.spend(problem.n * (found.work or 0))
    run.nodes = found.nodes
    counted = found.details.get("outcomes", {})
    add_outcomes(run.details, [counted.get(outcome.label, 0) for outcome in NodeOutcome])
    for member in found.pool:
        run.offer(from_clients(member.selected, problem.n))
    if found.pool_bound is not None:
        magnitude = float(engine.distances.max()) * problem.size**2
        magnitude += float(np.abs(engine.costs).max()) * problem.size + abs(constant)
        least = math.ceil(constant - found.pool_bound - 16 * _EPS * magnitude)
        run.pool.tighten(float(Fraction(max(0, least), (problem.classes * problem.fewest_samples) ** 2)))
    if found.pool_complete:
        last = run.pool.threshold
        run.pool.tighten(math.inf if last is None else last)
    conclude_pool(run)


@method(BalanceProblem, "branch-and-bound", kind="exact", constraints=True, pool=True, work=True)
def branch_and_bound(problem: BalanceProblem, run: Run) -> None:
    r"""Prove by the engine of the dispersion problem: once where sizes are equal, else in Dinkelbach's steps.

    A selection of QCID :math:`\kappa / B^2` is optimal if :math:`\min_S \lVert \sum_S \beta_i \rVert^2 - \kappa
    (\sum_S q_i)^2` is 0; a smaller value is that of a better selection, whose κ is next. A bound −δ on it is a bound
    :math:`(\kappa - \delta / M_{\min}^2) / B^2` on QCID, wherever the engine ends. Where sizes are equal κ is 0, and
    what is bounded is a whole number, so that the bound is rounded up.
    """
    if run.pool is not None:
        _find_pool(problem, run)
        return
    _begin(problem, run)
    if not problem.is_constrained:
        balance_exactly(problem, run)
    classes, equal = problem.classes, problem.has_equal_sizes
    fewest = classes * problem.fewest_samples
    # Distances and costs have a few roundings of the largest of them; m² of the ones and m of the others are summed.
    while not (run.proved or run.expired):
        # Under side constraints there may be no selection yet: at κ = 0 the engine finds one, or proves that none is.
        price = 0.0 if equal or run.x is None else float(run.objective or 0.0) * classes**2
        engine, constant = as_dispersion(problem, price)
        known = run.objective
        found = solve(engine, "auto", seed=run.seed, start=run.x, **run.limits(problem.n))
        run.spend(problem.n * (found.work or 0))
        run.message = f"dispersion: {found.status} by {found.stopped}"
        run.nodes = (run.nodes or 0) + (found.nodes or 0)
        counted = found.details.get("outcomes", {})
        add_outcomes(run.details, [counted.get(outcome.label, 0) for outcome in NodeOutcome])
        if found.x is not None:
            run.offer(found.x)
        elif found.status == "infeasible":
            run.infeasible()
            return
        if found.bound is not None:
            m = problem.size
            magnitude = float(engine.distances.max()) * m * m + float(np.abs(engine.costs).max()) * m
            least = constant - found.bound - 16 * _EPS * (magnitude + constant)
            if equal:
                run.tighten(Fraction(max(0, math.ceil(least)), fewest**2))
            else:
                run.tighten(Fraction(price) / classes**2 + Fraction(min(0.0, least)) / fewest**2)
        if found.stopped == "interrupted":
            run.stop("interrupted")
            return
        if equal or found.status != "optimal" or run.objective in (known, None):
            if not run.proved and not run.expired:
                run.stop("iterations", "the engine's tolerance is reached")
            return


#: What CP-SAT's numbers may add up to.
_LARGEST = 2**60


def _needed_scale(problem: BalanceProblem) -> int:
    """Denominator of κ at which its rounding changes the bound on QCID by less than a quarter of what counts as proved.

    A κ that is 1/d too large lowers the bound by the square of the ratio of most to fewest samples, over d B².
    """
    ratio = problem.most_samples / problem.fewest_samples
    return 1 if problem.has_equal_sizes else 1 << math.ceil(math.log2(4e6 * ratio**2 / problem.classes**2 + 1))


def _fits(problem: BalanceProblem) -> str | None:
    squares = 2 * problem.classes * (problem.classes * problem.most_samples // problem.unit) ** 2
    if squares * _needed_scale(problem) <= _LARGEST:
        return None
    return f"cp-sat would add up squares to {squares:.3g}, too many for its numbers: state samples in a larger unit"


@method(BalanceProblem, "cp-sat", kind="exact", accepts=_fits, constraints=True)
def cp_sat(problem: BalanceProblem, run: Run, *, threads: Annotated[int, AtLeast(1)] = 1) -> None:
    """State squares of the classes' sums in CP-SAT; Dinkelbach's steps where clients differ in size.

    Parameters
    ----------
    threads : int
        Threads of the solver.
    """
    with run.loading():
        from ortools.sat.python import cp_model

    _begin(problem, run)
    equal, unit, scale = problem.has_equal_sizes, problem.unit, _needed_scale(problem)
    fewest, most = problem.fewest_samples // unit, problem.most_samples // unit
    reach = problem.classes * most
    while not (run.proved or run.expired):
        with run.building():
            model = cp_model.CpModel()
            chosen = stated_choice(problem.feasible, model)
            squares = []
            for column in (problem.deviations // unit).T.tolist():
                deviation = model.new_int_var(-reach, reach, "")
                model.add(deviation == cp_model.LinearExpr.weighted_sum(chosen, column))
                squares.append(model.new_int_var(0, reach * reach, ""))
                model.add_multiplication_equality(squares[-1], [deviation, deviation])
            price = 0
            if not equal:
                total, square = model.new_int_var(fewest, most, ""), model.new_int_var(fewest**2, most**2, "")
                model.add(total == cp_model.LinearExpr.weighted_sum(chosen, (problem.samples // unit).tolist()))
                model.add_multiplication_equality(square, [total, total])
                # κ as a fraction of a power of two, rounded up, so that what is minimised is never too large.
                price = math.ceil(Fraction(run.objective or 0.0) * problem.classes**2 * scale)
                model.minimize(scale * cp_model.LinearExpr.sum(squares) - price * square)
            else:
                model.minimize(cp_model.LinearExpr.sum(squares))
            for variable, value in zip(chosen, [] if run.x is None else run.x.tolist(), strict=False):
                model.add_hint(variable, value)
        solver, known = solver_for(run, threads), run.objective
        status = run_cp_sat(run, solver, model)
        run.message = f"cp-sat: {solver.status_name(status)}"
        run.nodes = (run.nodes or 0) + solver.num_branches
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            offer_answer(problem, run, np.array([int(solver.value(variable)) for variable in chosen]))
            least = math.ceil(solver.best_objective_bound - 1e-6)
            value = Fraction(least, fewest**2) if equal else price + min(Fraction(0), Fraction(least, fewest**2))
            run.tighten(value / (scale * problem.classes**2), is_claimed=True)
        if status == cp_model.INFEASIBLE and problem.is_constrained:
            run.infeasible()
            return
        if cut_short(run, model, status) or status != cp_model.OPTIMAL or run.objective == known:
            return


@method(BalanceProblem, "brute-force", kind="exact", constraints=True, pool=True, work=True)
def brute_force(problem: BalanceProblem, run: Run) -> None:
    """Evaluate every selection.

    Raises
    ------
    InvalidProblem
        When there are more than 20 million.
    """
    if isinstance(run.pool, DiverseIncumbents):
        solve_diverse(problem, run, run.pool, run.method)
        return
    run.nodes, best = 0, math.inf
    for clients in problem.selection_blocks(max(1, 500_000 // (problem.size * problem.classes))):
        sums, totals = problem.deviations[clients].sum(axis=1), problem.samples[clients].sum(axis=1)
        values = problem.imbalances(sums, totals)
        if run.pool is not None:
            lowered = values * (1 - 8 * (problem.classes + 2) * _EPS)
            offer_best(run, lowered, partial(from_row, clients, problem.n))
        run.spend(2 * clients.size * problem.classes)
        top = int(values.argmin())
        if values[top] < best:
            best = float(values[top])
            run.offer(from_clients(clients[top], problem.n))
        run.nodes += len(clients)
        if run.expired:
            return
    if run.pool is not None:
        run.pool.tighten(run.pool.cutoff)
        conclude_pool(run)
        return
    if run.x is None:
        run.infeasible()
        return
    run.tighten(best, 8 * (problem.classes + 2) * _EPS * best)


@method(BalanceProblem, "auto", kind="exact", constraints=True, pool=True, work=True)
def auto(problem: BalanceProblem, run: Run) -> None:
    """``branch-and-bound``: swaps and meeting in the middle decide, the engine of the dispersion problem proves."""
    branch_and_bound(problem, run)
