"""Method ``milp``: linear models for HiGHS."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvers.backends import offer_answer
from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.prelude import dispersion_method, one_thread
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.semidefinite import OuterApproximation
from solvers.dispersion.relaxations.slice_form import ScaledProblem
from solvers.run import Run

#: What SciPy's numbers mean.
_STATUS = {0: "optimal", 1: "time limit", 2: "infeasible", 3: "unbounded"}

FORMULATIONS = ("tangent", "glover")

#: HiGHS calls a row satisfied and a value whole within 1e-6; its bounds are widened by this share of the scale.
_TOLERANCE = 4e-6

#: HiGHS's relative gap where nothing but a proof will do.
_PROOF = 1e-7


@dispersion_method(DispersionProblem, "milp", start="greedy", kind="exact", constraints=True)
@one_thread
def milp(problem: DispersionProblem, run: Run, *, formulation: Literal["tangent", "glover"] = "tangent") -> None:
    r"""Linear models solved by HiGHS (as SciPy brings it).

    Parameters
    ----------
    formulation : {"tangent", "glover"}
        * ``"tangent"``: outer approximation of the reformulated concave objective. One variable θ below tangents;
          the model is solved again with the tangent at its own answer until that closes the gap, or repeats an answer.
        * ``"glover"``: one variable per client, :math:`z_i \le U_i s_i,\; z_i \le \sum_j h_{ij} s_j - L_i (1 - s_i)`
          (Glover 1975; U and L as in `solvers.dispersion.formats.file_model`).

    Notes
    -----
    HiGHS works with tolerances: its bounds are widened by some 4e-6 of the objective's scale, which is why its answers
    may be ``feasible`` where the exact methods say ``optimal``. SciPy hands no start over to HiGHS; the incumbent
    here is the better of both.
    """
    if formulation == "glover":
        _glover(problem, run)
    else:
        _tangent(problem, run)


def _tangent(problem: DispersionProblem, run: Run) -> None:
    n = problem.n
    tangents = OuterApproximation(problem, run)
    rows = [tangents.at(y) for y in tangents.first(incumbent(run))]
    objective = np.append(np.zeros(n), -1.0)
    answers: set[bytes] = set()
    while not (run.expired or run.proved):
        matrix = np.array([np.append(-g, 1.0) for _, g in rows])
        x, bound = _highs(run, problem, objective, matrix, np.array([k for k, _ in rows]))
        if bound is not None:
            run.tighten(tangents.original(-bound), is_claimed=True)
        if x is None:
            return
        selection = np.rint(x[:n]).astype(np.int64)
        offer_answer(problem, run, selection)
        if selection.tobytes() in answers:
            return  # its tangent is in the model already: this is as near as HiGHS's tolerances come
        answers.add(selection.tobytes())
        run.offer(ascend(problem, selection if problem.violation(selection) == 0 else incumbent(run), run))
        rows.append(tangents.at(selection.astype(np.float64)))


def _glover(problem: DispersionProblem, run: Run) -> None:
    scaled = ScaledProblem.of(problem)
    n, m = problem.n, problem.size
    with run.building():
        ordered = np.sort(scaled.quadratic + np.diag(np.full(n, np.inf)), axis=1)[:, : n - 1]
        most, least = ordered[:, n - m :].sum(axis=1), ordered[:, :m].sum(axis=1)
        index = np.arange(n)
        upper, reached = np.zeros((n, 2 * n)), np.zeros((n, 2 * n))
        upper[index, index], upper[index, n + index] = -most, 1.0
        reached[:, :n] = -scaled.quadratic
        reached[index, index] = -least
        reached[index, n + index] = 1.0
        matrix = np.vstack([upper, reached])
        limit = np.concatenate([np.zeros(n), -least])
    x, bound = _highs(run, problem, np.concatenate([-scaled.linear, -np.ones(n)]), matrix, limit)
    if bound is not None:
        run.tighten(scaled.original(-bound + scaled.error), is_claimed=True)
    if x is not None:
        offer_answer(problem, run, np.rint(x[:n]).astype(np.int64))


def _highs(
    run: Run,
    problem: DispersionProblem,
    objective: NDArray[np.float64],
    matrix: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> tuple[NDArray[np.float64] | None, float | None]:
    """Minimise over selections and free further variables; a point, and a bound that is widened."""
    with run.loading():
        from scipy import optimize
    n, extra = problem.n, objective.size - problem.n
    free = np.full(extra, np.inf)
    rows = [row.scaled() for row in problem.feasible.rows()]
    coefficients = np.array([np.append(row.coefficients, np.zeros(extra)) for row in rows])
    feasible = optimize.LinearConstraint(coefficients, [row.low for row in rows], [row.high for row in rows])
    options: dict[str, float] = {"mip_rel_gap": _native_gap(run, problem)}
    if math.isfinite(run.remaining):
        options["time_limit"] = max(run.remaining, 0.01)
    answer = optimize.milp(
        objective,
        integrality=np.append(np.ones(n), np.zeros(extra)),
        bounds=optimize.Bounds(np.append(np.zeros(n), -free), np.append(np.ones(n), free)),
        constraints=[feasible, optimize.LinearConstraint(matrix, -np.inf, limit)],
        options=options,
    )
    run.message = str(answer.message)
    run.details["native_status"] = _STATUS.get(answer.status, "other")
    run.nodes = (run.nodes or 0) + int(getattr(answer, "mip_node_count", 0) or 0)
    bound = getattr(answer, "mip_dual_bound", None)
    if bound is not None:
        # Units are those of ScaledProblem, in which the scale is about m.
        bound = float(bound) - _TOLERANCE * (1 + problem.size)
        bound = bound if math.isfinite(bound) else None
    return answer.x, bound


def _native_gap(run: Run, problem: DispersionProblem) -> float:
    """The gap at which HiGHS may end, relative to its own objective: half of what the run would be content with."""
    if run.gap is None or run.objective is None:
        return _PROOF
    scaled = ScaledProblem.of(problem)
    allowed = run.gap * abs(run.objective) * scaled.factor - _TOLERANCE * (1 + problem.size)
    value = abs(scaled.value(run.objective))
    return max(_PROOF, min(1.0, 0.5 * allowed / value)) if value > 0 else _PROOF
