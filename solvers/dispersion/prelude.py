"""Prelude of the methods: the trivial bound, problems that need no search, a first decision, one BLAS thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from solvers.dispersion.neighbourhood import ascend, ensure_incumbent, greedy_decision
from solvers.dispersion.problem import DispersionProblem, SelectionProblem
from solvers.registry import find, method
from solvers.run import Run

_EPS = float(np.finfo(np.float64).eps)

Function = Callable[..., None]


def dispersion_method(
    problem: type[SelectionProblem] | tuple[type[SelectionProblem], ...],
    name: str,
    *,
    start: Literal["none", "some", "greedy"] = "none",
    **registration: Any,
) -> Callable[[Function], Function]:
    """Register a method that begins with the trivial bound, and is not called where a problem needs no search.

    With a pool it is called for such problems, too.

    Parameters
    ----------
    problem, name, **registration
        As for `solvers.registry.method`; one type of problem or several.
    start : {"none", "some", "greedy"}
        The decision that a method with a matrix finds in its run: none but the caller's, the greedy selection improved
        by swaps where the caller has given none, or that one beside the caller's. With ``"greedy"`` the method is not
        called either where that is proved, or the time is over. Under side constraints a run without a decision is
        first given one by the costs alone, so that ``"some"`` adds none.
    """

    def register(function: Function) -> Function:
        @wraps(function)
        def begun(problem: Any, run: Run, **options: Any) -> None:
            if problem.is_constrained and run.x is None:
                run.offer(problem.feasible.round(problem.linear))  # or there is none
            run.tighten(problem.trivial_bound())
            if run.pool is None and solve_trivial(problem, run):
                return
            if registration["kind"] != "heuristic" and "scipy.linalg" not in sys.modules:
                with run.loading():
                    import scipy.linalg  # noqa: F401  (bounds factorise; the import does not count)
            if start == "some":
                ensure_incumbent(problem, run)
            elif start == "greedy":
                run.offer(ascend(problem, greedy_decision(problem), run))
            if start != "greedy" or not (run.expired or run.proved):
                function(problem, run, **options)

        for each in problem if isinstance(problem, tuple) else (problem,):
            method(each, name, **registration)(begun)
        return begun

    return register


def begin(problem: SelectionProblem, run: Run) -> None:
    """Give a run a decision if it has none, the greedy one, improved where swaps are cheap, and the trivial bound."""
    if isinstance(problem, DispersionProblem):
        ensure_incumbent(problem, run)
    elif run.x is None:
        find(problem, "greedy").function(problem, run)
    run.tighten(problem.trivial_bound())


def is_trivial(problem: SelectionProblem) -> bool:
    """Whether `solve_trivial` solves the problem."""
    if problem.is_constrained:
        exact = getattr(problem.feasible, "is_exact", False)
        return exact and (problem.size in (1, problem.n) or problem.pairs_are_alike)
    return problem.size in (1, problem.n) or problem.pairs_are_alike or _leaves_out_one(problem)


def solve_trivial(problem: SelectionProblem, run: Run) -> bool:
    r"""Solve a problem without a search where that is possible; False elsewhere.

    The decision is exact but for m = n − 1, and the bound is its computed value :math:`\hat f` and what rounding can
    have taken from that:

    * m = 1: the cheapest client. Its value is minus its cost, nothing is added up, and the bound is the value.
    * all selections have the same distances (m = n, weight 0, all points equal, one kind): the m cheapest clients,
      found by comparisons alone, are the optimum; its value is off by ``rounding`` at most. This and the first hold
      under side constraints too, unless there are budgets, or groups that are neither disjoint nor nested.
    * m = n − 1, without side constraints (of points 1 414 at most): leave out the client i of least gain
      :math:`2 w \sum_j H_{ij} - c_i`. With gains computed to an error e each, the client found is worse than the best
      one by 2e at most; its value is off by ``rounding``. The costs' common part is taken off the gains first, so that
      e is small beside ``rounding`` however large that part is, and the bound proves the decision.

    Parameters
    ----------
    problem : SelectionProblem
        The problem, in any geometry.
    run : Run
        Is given decision and bound.
    """
    if not is_trivial(problem):
        return False
    m = problem.size
    margin = 0.0 if m == 1 else problem.rounding
    if m == 1 or m == problem.n or problem.pairs_are_alike:
        x = problem.feasible.best(-problem.costs)
    else:
        sums, error = problem.geometry.sums()
        gains = 2 * problem.weight * sums + problem.linear
        x = np.ones(problem.n, dtype=np.int64)
        x[gains.argmin()] = 0
        largest = 2 * problem.weight * problem.diameter * problem.n + problem.spread
        margin += 2 * (2 * problem.weight * error + 4 * _EPS * largest)
    run.tighten(run.offer(x) + margin)
    return True


def _leaves_out_one(problem: SelectionProblem) -> bool:
    return problem.size == problem.n - 1 and problem.geometry.has_quick_sums


# -- threads -------------------------------------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")

#: Clients up to which one thread is enough.
_SMALL = 2000


def one_thread(
    function: Callable[Concatenate[DispersionProblem, Run, P], R],
) -> Callable[Concatenate[DispersionProblem, Run, P], R]:
    """Decorate a method so that BLAS uses one thread within it, unless there are more than 2 000 clients."""

    @wraps(function)
    def wrapped(problem: DispersionProblem, run: Run, /, *args: P.args, **options: P.kwargs) -> R:
        with single_threaded_blas(problem):
            return function(problem, run, *args, **options)

    return wrapped


def single_threaded_blas(problem: SelectionProblem, largest: int = _SMALL) -> Any:
    """Return a context in which BLAS uses one thread, unless the problem has more clients than ``largest``.

    Semidefinite relaxations factorise matrices of n rows many times. Up to a few hundred rows a second BLAS
    thread brings nothing; on a machine that is busy otherwise, threads that wait for each other cost far more than the
    work. One thread also makes the bits independent of the number of cores.
    """
    return nullcontext() if problem.n > largest else _one_blas_thread()


_blas_lock = threading.Lock()
_blas_users: list[Any] = []


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the last of several solves in threads to leave lifts the limit."""
    with _blas_lock:
        _blas_users.append(_controller().limit(limits=1, user_api="blas") if not _blas_users else _blas_users[-1])
    try:
        yield
    finally:
        with _blas_lock:
            limit = _blas_users.pop()
            if not _blas_users:
                limit.restore_original_limits()


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (it brings a BLAS of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
