"""Heuristics of other packages, as baselines for comparisons: D-Wave's tabu search and pymoo's genetic algorithm."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.formats import to_qubo
from solvers.dispersion.neighbourhood import ascend, greedy_decision
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.registry import method
from solvers.run import Run

#: Milliseconds of the first read (D-Wave's own default), and of the longest: the search cannot be interrupted.
_FIRST, _LONGEST = 20, 1000

#: Restarts of the one read that is made without a time limit.
_RESTARTS = 2


@method(DispersionProblem, "dwave-tabu", kind="heuristic", requires=("dwave", "dimod"), install="dwave-samplers")
def dwave_tabu(problem: DispersionProblem, run: Run, *, formulation: Literal["penalty", "centred"] = "penalty") -> None:
    """Multistart tabu search over single flips (Palubeckis 2004), as ``dwave.samplers.TabuSampler`` has it.

    Parameters
    ----------
    formulation : {"penalty", "centred"}
        ``"penalty"`` is the QUBO of `solvers.dispersion.to_qubo`, from a random start, later from the best selection;
        samples of another size are lost. ``"centred"`` takes out of the distances what is a constant on the slice, so
        that a smaller penalty does, starts from the greedy selection, and brings samples to ``size`` clients and to a
        local optimum.
    """
    with run.loading():
        import dimod
        from dwave.samplers import TabuSampler
    with run.building():
        centred = formulation == "centred"
        q = _centred(problem) if centred else to_qubo(problem)[0]
        model = dimod.BinaryQuadraticModel(2 * np.triu(q, 1) + np.diag(q.diagonal()), "BINARY")
    start: NDArray[np.int64] | None = None
    if centred:
        start = ascend(problem, greedy_decision(problem), run)
        run.offer(start)
    sampler, length = TabuSampler(), _FIRST
    while not run.expired:
        limited = run.time_limit is not None
        settings: dict[str, Any] = (
            {"timeout": max(int(1000 * min(run.remaining, length / 1000)), 1)} if limited else _unlimited()
        )
        if start is not None:
            settings["initial_states"] = start[None, :]
        found = sampler.sample(model, seed=int(run.rng.integers(2**31)), **settings)
        x = found.record.sample[0].astype(np.int64)
        if centred:
            x = ascend(problem, _of_size(problem, x), run)
        if x.sum() == problem.size:
            run.offer(x)
            start = run.x.astype(np.int64) if run.x is not None else x
        length = min(2 * length, _LONGEST)
        if not limited:
            break
    if run.x is None:
        run.stop("error", f"no sample had {problem.size} clients")


def _unlimited() -> dict[str, int]:
    """Settings that end by counting, so that the seed decides; the timeout is a day."""
    return {"num_restarts": _RESTARTS, "timeout": 86_400_000}


def _centred(problem: DispersionProblem) -> NDArray[np.float64]:
    r"""A QUBO whose pairs have rows of mean zero.

    On the slice :math:`\sum_{ij} (a_i + a_j) s_i s_j = 2 m \sum_i a_i s_i`.
    The penalty is the spread of the gains at the greedy selection: too small to forbid a selection of another size,
    large enough to keep it near.
    """
    scaled = ScaledProblem.of(problem)
    n, m = problem.n, problem.size
    means = scaled.quadratic.mean(axis=1)
    half = means - means.mean() / 2
    pair, linear = scaled.quadratic - half - half[:, None], scaled.linear + 2 * m * half
    linear = linear - linear.mean()
    gains = linear + 2 * pair @ greedy_decision(problem)
    penalty = max(float(np.ptp(gains)), 1e-9)
    q = penalty - pair
    q[np.arange(n), np.arange(n)] -= linear + 2 * m * penalty
    return q


def _of_size(problem: DispersionProblem, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """The selection with clients left out, or taken in, one by one where that costs least."""
    x = x.copy()
    gains = 2 * problem.weight * (problem.distances.astype(np.float64) @ x) - problem.costs
    while (excess := int(x.sum()) - problem.size) != 0:
        client = int(
            np.where(x == 1, gains, np.inf).argmin() if excess > 0 else np.where(x == 0, gains, -np.inf).argmax()
        )
        x[client] ^= 1
        gains += (2 * x[client] - 1) * 2 * problem.weight * problem.geometry.row(client)
    return x


#: Generations without a time limit, and how many selections make one (pymoo's default).
_GENERATIONS, _POPULATION = 50, 100


@method(DispersionProblem, "pymoo", kind="heuristic", constraints=True, requires="pymoo", install="pymoo")
def pymoo(problem: DispersionProblem, run: Run, *, formulation: Literal["constraint", "subset"] = "constraint") -> None:
    """A genetic algorithm on 0/1 vectors, pymoo's own.

    Parameters
    ----------
    formulation : {"constraint", "subset"}
        ``"constraint"``: pymoo's operators for binary variables, and the size as an equality constraint; a population
        may have no selection of that size. ``"subset"``: the operators of pymoo's case study of subset selection,
        which keep the size, with the greedy selection in the first population.
    """
    with run.loading():
        from pymoo.algorithms.soo.nonconvex.ga import GA
        from pymoo.core.termination import NoTermination
    statement = _pymoo_problem(problem)
    if formulation == "subset":
        greedy = ascend(problem, greedy_decision(problem), run)
        run.offer(greedy)
        settings = _subset_operators(problem, greedy)
    else:
        settings = _binary_operators()
    # A population as large as the set of all selections could not renew itself.
    population = min(_POPULATION, max(math.comb(problem.n, problem.size) // 2, 4))
    algorithm = GA(pop_size=population, eliminate_duplicates=True, **settings)
    algorithm.setup(statement, termination=NoTermination(), seed=int(run.rng.integers(2**31)), verbose=False)
    generation = 0
    while not run.expired and algorithm.has_next() and (run.time_limit is not None or generation < _GENERATIONS):
        algorithm.next()
        generation += 1
        best = algorithm.opt[0]
        x = best.X.astype(np.int64)
        if best.CV[0] <= 0 and problem.violation(x) == 0:
            run.offer(x)
    run.details["generations"] = generation
    if run.x is None:
        kept = " and kept the constraints" if problem.is_constrained else ""
        run.stop("error", f"no vector of the population had {problem.size} clients{kept}")


def _pymoo_problem(problem: DispersionProblem) -> Any:
    """The problem as pymoo has it: to be minimised, the size as an equation, side constraints as inequalities."""
    from pymoo.core.problem import Problem

    scaled = ScaledProblem.of(problem)

    rows = [row.scaled() for row in problem.feasible.rows()[1:]]
    above = [(row.coefficients, row.high) for row in rows if row.high < math.inf]
    below = [(-row.coefficients, -row.low) for row in rows if row.low > -math.inf]
    sides = np.array([row for row, _ in above + below]).reshape(-1, problem.n)
    limits = np.array([limit for _, limit in above + below])

    class Statement(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=problem.n, n_obj=1, n_eq_constr=1, n_ieq_constr=limits.size, vtype=bool)

        def _evaluate(self, x: NDArray[Any], out: dict[str, Any], *_: Any, **__: Any) -> None:
            chosen = x.astype(np.float64)
            out["F"] = -((chosen @ scaled.quadratic) * chosen).sum(axis=1) - chosen @ scaled.linear
            out["H"] = (chosen.sum(axis=1) - problem.size)[:, None]
            if limits.size:
                out["G"] = chosen @ sides.T - limits

    return Statement()


def _binary_operators() -> dict[str, Any]:
    from pymoo.operators.crossover.pntx import TwoPointCrossover
    from pymoo.operators.mutation.bitflip import BitflipMutation
    from pymoo.operators.sampling.rnd import BinaryRandomSampling

    return {"sampling": BinaryRandomSampling(), "crossover": TwoPointCrossover(), "mutation": BitflipMutation()}


def _subset_operators(problem: DispersionProblem, greedy: NDArray[np.int64]) -> dict[str, Any]:
    """Sampling, crossover and mutation that keep the size, as in pymoo's case study "Subset Selection Problem"."""
    from pymoo.core.crossover import Crossover
    from pymoo.core.mutation import Mutation
    from pymoo.core.sampling import Sampling

    n, m = problem.n, problem.size

    class Selections(Sampling):
        def _do(self, _: Any, count: int, *args: Any, random_state: Any, **__: Any) -> NDArray[np.bool_]:
            x = np.zeros((count, n), dtype=bool)
            for row in x:
                row[random_state.permutation(n)[:m]] = True
            x[0] = greedy == 1
            return x

    class CommonFirst(Crossover):
        """The clients that both parents choose, and some that one of them chooses."""

        def __init__(self) -> None:
            super().__init__(2, 1)

        def _do(self, _: Any, x: NDArray[Any], *args: Any, random_state: Any, **__: Any) -> NDArray[np.bool_]:
            child = x[0] & x[1]
            for row, one in zip(child, x[0] ^ x[1], strict=True):
                row[random_state.permutation(np.flatnonzero(one))[: m - int(row.sum())]] = True
            return child[None]

    class Exchange(Mutation):
        """One chosen client for one that is not."""

        def _do(self, _: Any, x: NDArray[Any], *args: Any, random_state: Any, **__: Any) -> NDArray[np.bool_]:
            changed = x.astype(bool).copy()
            for row in changed:
                inside, outside = np.flatnonzero(row), np.flatnonzero(~row)
                if inside.size and outside.size:
                    row[random_state.choice(inside)], row[random_state.choice(outside)] = False, True
            return changed

    return {"sampling": Selections(), "crossover": CommonFirst(), "mutation": Exchange()}
