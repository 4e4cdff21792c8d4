"""Method ``cp-sat``: an integer linearisation solved by OR-Tools' CP-SAT."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvers.backends import cut_short, follower, offer_answer, run_cp_sat, solver_for, stated_choice
from solvers.dispersion.neighbourhood import ascend, incumbent
from solvers.dispersion.prelude import dispersion_method
from solvers.dispersion.problem import DispersionProblem
from solvers.run import Run

FORMULATIONS = ("rlt", "glover", "product", "tangent")

#: The scaled objective stays below 2⁴⁴ in size: far from CP-SAT's 64-bit overflow, exact in a float64, and fine
#: enough that rounding the coefficients costs a relative 1e-10 or so.
_LARGEST_OBJECTIVE = 2.0**44


@dispersion_method(DispersionProblem, "cp-sat", start="greedy", kind="exact", constraints=True)
def cp_sat(
    problem: DispersionProblem,
    run: Run,
    *,
    formulation: Literal["rlt", "glover", "product", "tangent"] = "rlt",
    threads: int | None = None,
) -> None:
    r"""Linearise the objective and hand the model in integers to CP-SAT.

    Coefficients of the objective are multiplied by a power of two and rounded, so that CP-SAT's arithmetic is exact;
    the largest error this can make on any selection is added to its bound. The search starts from the greedy selection
    improved by swaps (or from ``start``, if better).

    Parameters
    ----------
    formulation : {"rlt", "glover", "product", "tangent"}
        * ``"product"``: :math:`y_{ij} \le s_i, y_{ij} \le s_j`, the textbook linearisation; weak.
        * ``"rlt"``: the same with the valid equalities :math:`\sum_j y_{ij} = (m - 1) s_i` (first-level
          reformulation-linearisation of the cardinality row), which make CP-SAT's bound much stronger.
        * ``"glover"``: one variable per client, :math:`z_i \le U_i s_i` and
          :math:`z_i \le \sum_j q_{ij} s_j - L_i (1 - s_i)` (Glover 1975; U and L as in
          `solvers.dispersion.formats.file_model`), for n too large for n²/2 products. Its
          bound hardly moves without the sub-solvers that CP-SAT starts from about 8 threads on.
        * ``"tangent"``: outer approximation of the objective made concave on the slice. One integer variable below
          tangents, whose coefficients are rounded up; solved again with the tangent at its own answer until that
          closes the gap, or repeats an answer. It starts from the bound of the semidefinite relaxation.
    threads : int, optional
        CP-SAT threads. By default one, which repeats exactly under one seed (unless time runs out), and 8 for
        ``"glover"``.
    """
    if threads is None:
        threads = 8 if formulation == "glover" else 1
    with run.loading():
        from ortools.sat.python import cp_model
    if formulation == "tangent":
        _tangent(problem, run, threads)
        return
    with run.building():
        model, chosen, integers = state(problem, formulation, run)
        if model is None:  # the time went into stating it
            return
        hint = incumbent(run)
        for variable, value in zip(chosen, hint.tolist(), strict=True):
            model.add_hint(variable, value)

    run.nodes, optimal = 0, True
    while optimal and not (run.expired or run.proved):
        solver = solver_for(run, threads)
        status = run_cp_sat(run, solver, model, follower(run, solver, chosen, integers.bound))
        run.nodes += int(solver.num_branches)
        run.message = solver.status_name(status)
        run.details["native_status"] = run.message.lower()
        cut_short(run, model, status)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return
        x = np.array([int(solver.boolean_value(variable)) for variable in chosen])
        # 0, not a bound, under any other status.
        run.tighten(integers.bound(solver.best_objective_bound), is_claimed=True)
        offer_answer(problem, run, x)
        optimal = status == cp_model.OPTIMAL and _forbid(problem, model, chosen, x)


def _forbid(problem: DispersionProblem, model: Any, chosen: list[Any], x: NDArray[np.int64]) -> bool:
    """Forbid an answer that misses a row by what rounding lets through; say whether it was one."""
    if problem.violation(x) == 0:
        return False
    model.add_bool_or([~chosen[k] for k in np.flatnonzero(x).tolist()])
    return True


def state(problem: DispersionProblem, formulation: str, run: Run | None = None) -> tuple[Any, list[Any], _Integers]:
    """State the integer model: CP-SAT's model (``None`` when the run's time is over), its Booleans, the scaling."""
    from ortools.sat.python import cp_model

    integers = _Integers(problem)
    model = cp_model.CpModel()
    chosen = stated_choice(problem.feasible, model)
    if formulation == "glover":
        integers.counted = 2
        pair_terms = _state_rows(problem, model, chosen, integers, run)
    else:
        pair_terms = _state_products(problem, model, chosen, integers, run, rlt=formulation == "rlt")
    if pair_terms is None:
        return None, chosen, integers
    costs = (integers.counted * integers.costs).tolist()
    model.maximize(pair_terms - cp_model.LinearExpr.weighted_sum(chosen, costs))
    return model, chosen, integers


def _tangent(problem: DispersionProblem, run: Run, threads: int) -> None:
    """Outer approximation: solve, add the tangent at the answer, solve again."""
    from ortools.sat.python import cp_model

    from solvers.dispersion.relaxations.semidefinite import OuterApproximation

    tangents = OuterApproximation(problem, run)
    scale = 2.0**36  # values are about m in these units
    points = tangents.first(incumbent(run))
    model = cp_model.CpModel()
    chosen = stated_choice(problem.feasible, model)
    value = model.new_int_var(-(2**60), 2**60, "value")
    model.maximize(value)
    run.nodes = 0
    answers: set[bytes] = set()
    while not (run.expired or run.proved):
        for y in points:
            constant, g = tangents.at(y)
            # Rounded up, and multiplied by 0 or 1, the row still lies above the tangent.
            coefficients = np.ceil(g * scale).astype(np.int64).tolist()
            row = cp_model.LinearExpr.weighted_sum(chosen, coefficients)
            model.add(value <= row + math.ceil(constant * scale))
        model.clear_hints()
        for variable, bit in zip(chosen, incumbent(run).tolist(), strict=True):
            model.add_hint(variable, bit)
        solver = solver_for(run, threads)
        status = run_cp_sat(
            run, solver, model, follower(run, solver, chosen, lambda bound: tangents.original(bound / scale))
        )
        run.nodes += int(solver.num_branches)
        run.message = solver.status_name(status)
        run.details["native_status"] = run.message.lower()
        cut_short(run, model, status)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return  # without a solution the bound may be CP-SAT's initial 0, which means nothing
        run.tighten(tangents.original(solver.best_objective_bound / scale), is_claimed=True)
        x = np.array([int(solver.boolean_value(variable)) for variable in chosen])
        offer_answer(problem, run, x)
        run.offer(ascend(problem, x if problem.violation(x) == 0 else incumbent(run), run))
        points = [x.astype(np.float64)]
        if not _forbid(problem, model, chosen, x) and x.tobytes() in answers:
            return  # its tangent is in the model already: this is as near as integers of this scale come
        answers.add(x.tobytes())
        if status != cp_model.OPTIMAL:
            return


class _Integers:
    """The objective in integers: ``round(scale · value)`` for each coefficient.

    ``pairs[i, j]`` and ``costs[i]`` are the integer coefficients; the costs' common part is taken out first, since it
    is a constant under ``1ᵀs = m`` and would only spend digits. A model states ``counted`` times this objective.
    """

    counted = 1

    def __init__(self, problem: DispersionProblem) -> None:
        m = problem.size
        self.shift = problem.common_cost * m
        pairs = 2 * problem.weight * problem.distances.astype(np.float64) * (m > 1)  # no pair of a single client counts
        costs = -problem.linear
        largest = float(pairs.max()) * m * (m - 1) / 2 + float(np.abs(costs).max()) * m
        # A power of two scales exactly, so that rounding to integers is the only error made here.
        exponent = math.floor(math.log2(_LARGEST_OBJECTIVE / largest)) if largest > 0 else 0
        self.scale = math.ldexp(1.0, min(exponent, 1000))
        self.pairs: NDArray[np.int64] = np.rint(pairs * self.scale).astype(np.int64)
        self.costs: NDArray[np.int64] = np.rint(costs * self.scale).astype(np.int64)
        # Each of the m(m-1)/2 pairs and m costs of a selection is off by at most one half.
        self.slack = (0.5 * (m * (m - 1) / 2 + m) / self.scale if largest > 0 else 0.0) + problem.rounding

    def bound(self, integer_bound: float) -> float:
        """The valid bound on the real objective that a bound on the integer objective gives."""
        return integer_bound / self.counted / self.scale - self.shift + self.slack


def _state_products(
    problem: DispersionProblem, model: Any, chosen: list[Any], integers: _Integers, run: Run | None, *, rlt: bool
) -> Any:
    """State one Boolean per pair; the expression counts each pair once. ``None`` when the time is over."""
    from ortools.sat.python import cp_model

    n = problem.n
    products: list[Any] = []
    coefficients: list[int] = []
    of_client: list[list[Any]] = [[] for _ in range(n)]
    for i in range(n):
        if run is not None and run.expired:
            return None
        for j in range(i + 1, n):
            product = model.new_bool_var(f"y{i}_{j}")
            model.add_implication(product, chosen[i])
            model.add_implication(product, chosen[j])
            products.append(product)
            coefficients.append(int(integers.pairs[i, j]))
            of_client[i].append(product)
            of_client[j].append(product)
    if rlt:
        for i in range(n):
            model.add(cp_model.LinearExpr.sum(of_client[i]) == (problem.size - 1) * chosen[i])
    return cp_model.LinearExpr.weighted_sum(products, coefficients)


def _state_rows(problem: DispersionProblem, model: Any, chosen: list[Any], integers: _Integers, run: Run | None) -> Any:
    """State one integer per client; the expression counts each pair twice. ``None`` when the time is over."""
    from ortools.sat.python import cp_model

    m = problem.size
    parts: list[Any] = []
    for i in range(problem.n):
        if run is not None and run.expired:
            return None
        row = integers.pairs[i]
        ordered = np.sort(np.delete(row, i))
        most = int(ordered[::-1][: m - 1].sum())
        least = int(ordered[:m].sum())  # reached by any m others while i is not chosen
        part = model.new_int_var(0, most, f"z{i}")
        model.add(part <= most * chosen[i])
        reached = cp_model.LinearExpr.weighted_sum(chosen, row.tolist())
        model.add(part <= reached - least + least * chosen[i])
        parts.append(part)
    return cp_model.LinearExpr.sum(parts)
