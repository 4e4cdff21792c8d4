"""Linear algebra in one thread, as long as the matrices are small.

Semidefinite relaxations factorise matrices of n rows thousands of times. Up to a few hundred rows a second BLAS thread
brings nothing; on a machine that is busy otherwise, threads that wait for each other cost a hundred times what the work
takes, and a time limit with it. One thread also makes the bits independent of the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from solvers.dispersion.problem import DispersionProblem
from solvers.run import Run

__all__ = ["calm", "one_thread"]

P = ParamSpec("P")
R = TypeVar("R")

#: Clients up to which one thread is enough.
_SMALL = 2000


def one_thread(
    function: Callable[Concatenate[DispersionProblem, Run, P], R],
) -> Callable[Concatenate[DispersionProblem, Run, P], R]:
    """Decorate a method so that BLAS uses one thread within it, unless the problem is large."""

    @wraps(function)
    def alone(problem: DispersionProblem, run: Run, /, *args: P.args, **options: P.kwargs) -> R:
        with calm(problem):
            return function(problem, run, *args, **options)

    return alone


def calm(problem: DispersionProblem) -> Any:
    """A context in which BLAS uses one thread, unless the problem is large."""
    return nullcontext() if problem.n > _SMALL else _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (it brings a BLAS of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
