"""Method ``pymoo``: the genetic algorithm that a user of pymoo would take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.slice_form import Normal
from solvers.dispersion.search.neighbourhood import ascend, greedy_decision
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["pymoo"]

#: Generations without a time limit, and how many selections make one (pymoo's default).
_GENERATIONS, _POPULATION = 50, 100


@method(DispersionProblem, "pymoo", kind="heuristic", requires="pymoo", install="pymoo")
def pymoo(problem: DispersionProblem, run: Run, *, formulation: str = "constraint") -> None:
    """A genetic algorithm on 0/1 vectors, with pymoo's own settings.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, seed and incumbent.
    formulation : {"constraint", "subset"}
        ``"constraint"``: pymoo's operators for binary variables, and the size as an equality constraint; a population
        may have no selection of that size. ``"subset"``: the operators of pymoo's case study of subset selection,
        which keep the size, with the greedy selection in the first population.

    Raises
    ------
    InvalidOption
        When the formulation is unknown.
    """
    if formulation not in ("constraint", "subset"):
        raise InvalidOption(f"formulation must be constraint or subset; got {formulation!r}")
    with run.loading():
        from pymoo.algorithms.soo.nonconvex.ga import GA
        from pymoo.core.termination import NoTermination
    statement = _statement(problem)
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
        if best.CV[0] <= 0:
            run.offer(best.X.astype(np.int64))
    run.details["generations"] = generation
    if run.x is None:
        run.stop("error", f"no vector of the population had {problem.size} clients")


def _statement(problem: DispersionProblem) -> Any:
    """The problem as pymoo has it: to be minimised, with the distance from the size as its one constraint."""
    from pymoo.core.problem import Problem

    normal = Normal.of(problem)

    class Statement(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=problem.n, n_obj=1, n_eq_constr=1, vtype=bool)

        def _evaluate(self, x: NDArray[Any], out: dict[str, Any], *_: Any, **__: Any) -> None:
            chosen = x.astype(np.float64)
            out["F"] = -((chosen @ normal.quadratic) * chosen).sum(axis=1) - chosen @ normal.linear
            out["H"] = (chosen.sum(axis=1) - problem.size)[:, None]

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
        """What both parents choose, and some of what one of them chooses."""

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
