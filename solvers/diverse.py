"""Pools whose members differ from each other: one solve after the other, with a quota for each member before."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from solvers.constraints import Quota
from solvers.errors import InvalidProblem, NoSelection
from solvers.registry import find
from solvers.run import Run
from solvers.search import DiverseIncumbents
from solvers.subsets import ConstrainedProblem


def solve_diverse(problem: ConstrainedProblem, run: Run, pool: DiverseIncumbents, method: str, **options: Any) -> None:
    """Find one member after the other: the best selection that has few clients in common with each one before.

    Parameters
    ----------
    problem : ConstrainedProblem
        A problem that selects m of n clients.
    run : Run
        Its run.
    pool : DiverseIncumbents
        The run's pool.
    method, **options
        What finds each.
    """
    request, quotas = pool.request, list(problem.quotas)
    most = problem.size - request.diverse
    while len(pool.accepted) < request.size and not run.expired:
        try:
            part = replace(problem, quotas=quotas)
        except InvalidProblem:  # the quotas contradict each other
            pool.close()
            break
        left = run.limits(problem.n)
        alone = replace(request, size=1, within=None, diverse=0)
        limit, work = left["time_limit"], left.get("work_limit")
        inner = Run(part, run.method, limit, run.seed, pool=alone, halt=run.halt, work_limit=work)
        assert inner.pool is not None
        inner.pool.vetoed |= pool.vetoed
        try:
            find(part, method).function(part, inner, **options)
        except NoSelection as error:
            if error.proved:
                inner.infeasible()
        found = inner.solution()
        run.spend(problem.n * (found.work or 0))
        pool.vetoed |= inner.pool.vetoed
        pool.calls += inner.pool.calls
        if found.status == "infeasible":
            pool.close()
            break
        if not found.pool_complete or found.x is None or found.objective is None or found.bound is None:
            pool.tighten(math.inf if found.bound is None else found.bound)
            break
        run.offer(found.x)
        if not pool.accepted:
            run.tighten(found.bound)
        if not pool.accept(found.x, found.objective, found.bound):
            pool.is_closed = True
            break
        pool.is_closed = len(pool.accepted) == request.size or most < 0
        if most < 0:  # no other selection differs in so many
            pool.close()
            break
        quotas.append(Quota(tuple(found.selected.tolist()), at_most=most))
    if pool.is_closed and not pool.accepted:
        run.infeasible()
