"""Linear algebra in one thread, as long as the matrices are small.

Semidefinite relaxations factorise matrices of n rows thousands of times. Up to a few hundred rows a second BLAS thread
brings nothing; on a machine that is busy otherwise, threads that wait for each other cost a hundred times what the work
takes, and a time limit with it. One thread also makes the bits independent of the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from solvers.dispersion.problem import DispersionProblem
from solvers.run import Run

__all__ = ["one_thread"]

P = ParamSpec("P")
R = TypeVar("R")

#: Clients up to which one thread is enough.
_SMALL = 2000


def one_thread(
    function: Callable[Concatenate[DispersionProblem, Run, P], R],
) -> Callable[Concatenate[DispersionProblem, Run, P], R]:
    """Decorate a method so that BLAS uses one thread within it, unless the problem is large."""

    @wraps(function)
    def calm(problem: DispersionProblem, run: Run, /, *args: P.args, **options: P.kwargs) -> R:
        if problem.n > _SMALL:
            return function(problem, run, *args, **options)
        with _controller().limit(limits=1, user_api="blas"):
            return function(problem, run, *args, **options)

    return calm


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (it brings a BLAS of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
