"""Method ``rlt``: the level-1 RLT bound by Lagrange multipliers, for few of many clients."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.prelude import dispersion_method
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.rlt import RowRelaxation
from solvers.dispersion.relaxations.sifting import CoreMultipliers, SiftedRelaxation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.dispersion.tree.rlt_log import RltLog
from solvers.options import AtLeast
from solvers.run import Run


@dispersion_method(DispersionProblem, "rlt", start="some", kind="relaxation", work=True)
def rlt(problem: DispersionProblem, run: Run, *, iterations: Annotated[int, AtLeast(1)] = 100_000) -> None:
    r"""Bound by the level-1 RLT relaxation, by steps on its Lagrange multipliers, and round its choices.

    Each client is worth what it earns with the m − 1 partners that pay it best; multipliers move the worth of a pair
    from one of the two to the other until the m best clients are worth as little as possible
    (`solvers.dispersion.relaxations.rlt`). An iteration looks at few rows of the matrix. The bound is strong where few
    of many are chosen. With more than 6 000 clients the bound is the trivial one.

    Parameters
    ----------
    iterations : int
        Most iterations.
    """
    largest = DEFAULT_POLICY.rlt_largest
    if problem.n > largest:
        run.stop(
            "iterations",
            f"no level-1 RLT bound: multipliers are kept for {largest} clients at most; there are {problem.n}",
        )
        return
    stages = RltLog(problem) if run.recording else None
    descend(problem, run, RowRelaxation(ScaledProblem.of(problem), run), iterations, stages)
    if stages is not None:
        run.recorded = stages.certificate(run)


def descend(
    problem: DispersionProblem,
    run: Run,
    relaxation: RowRelaxation,
    iterations: int = 100_000,
    stages: RltLog | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> None:
    """Lower the bound until it has converged or a limit is reached; leave out clients that no better selection has.

    Where the multipliers are written down as ``stages``, clients are left out at the end alone, by the best of them.
    """
    while relaxation.iterations < iterations and not (relaxation.has_converged or run.expired or run.proved):
        target = _target(problem, run, relaxation)
        relaxation.descend(target, min(policy.rlt_chunk, iterations - relaxation.iterations))
        _report(problem, run, relaxation)
        if stages is None:
            relaxation.leave_out(target)
        else:
            relaxation.remember()
    if stages is not None and relaxation.least is not None:
        relaxation.restore()
        stages.add(relaxation)
        relaxation.leave_out(_target(problem, run, relaxation))
    run.details["iterations"] = relaxation.iterations
    run.details["left"] = relaxation.ids.size


def sift(
    problem: DispersionProblem,
    run: Run,
    rows: RowRelaxation,
    core: NDArray[np.int64] | None = None,
    known: CoreMultipliers | None = None,
    stages: RltLog | None = None,
    policy: Policy = DEFAULT_POLICY,
) -> SiftedRelaxation:
    """Strengthen the rows by a doubly nonnegative relaxation over a core, while it helps, from ``core`` on.

    With ``known`` the relaxation over the first core starts from these multipliers.
    """
    wanted = np.flatnonzero(incumbent(run))
    if core is not None:
        wanted = np.union1d(wanted, np.intersect1d(core, rows.ids))
    sifting, idle, least, cores = SiftedRelaxation(rows, wanted, known, policy), 0, run.bound, 0
    most, least_gain = policy.idle_cores, policy.idle_core_gain
    if known is not None:
        most, least_gain = policy.idle_known_cores, policy.idle_known_core_gain
    while idle < most and not (sifting.is_done or run.expired or run.proved):
        if not sifting.advance(
            _target(problem, run, rows), lambda: run.expired, None if stages is None else stages.add
        ):
            break
        cores += 1
        _report(problem, run, sifting.rows)
        run.offer(ascend(problem, problem.feasible.round(sifting.x), run))
        assert run.bound is not None
        assert run.objective is not None
        gained = least is None or least - run.bound > least_gain * (least - run.objective)
        idle, least = (0, run.bound) if gained else (idle + 1, least)
    run.details["cores"] = cores
    run.details["left"] = sifting.rows.ids.size
    return sifting


def survivors(
    problem: DispersionProblem, run: Run, sifting: SiftedRelaxation, policy: Policy = DEFAULT_POLICY
) -> NDArray[np.int64]:
    """Return the clients that are left after sifting, fewer where there are few and there is time to look at each."""
    ids = sifting.rows.ids
    if ids.size > policy.most_bounded or run.expired or run.proved or sifting.relaxation is None:
        return ids
    kept = sifting.survivors(_target(problem, run, sifting.rows), lambda: run.expired)
    run.details["left"] = kept.size
    return np.union1d(kept, np.flatnonzero(incumbent(run)))


def _margin(problem: DispersionProblem, scaled: ScaledProblem) -> float:
    """Rounding of an objective, in the units of `ScaledProblem`."""
    return 2 * (scaled.error + problem.rounding * scaled.factor)


def _target(problem: DispersionProblem, run: Run, relaxation: RowRelaxation) -> float:
    """A value such that no selection that is worth at most this in exact arithmetic is better than the incumbent."""
    scaled = relaxation.scaled
    assert run.objective is not None  # a start is always offered
    return scaled.value(run.objective) - 2 * _margin(problem, scaled)


def _report(problem: DispersionProblem, run: Run, relaxation: RowRelaxation) -> None:
    """Hand over the bound, and the clients of largest value improved by swaps."""
    scaled = relaxation.scaled
    bound = scaled.original(relaxation.bound() + _margin(problem, scaled))
    run.tighten(max(bound, float(run.objective)))  # type: ignore[arg-type]  # as above
    run.offer(ascend(problem, problem.feasible.decision(relaxation.chosen()), run))
