"""Verification of answers from outside: the problem itself evaluates the decision, which claims are compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.benchmark.table import is_better, slack
from solvers.problem import Problem
from solvers.solution import proves


def examine(problem: Problem, answer: dict[str, Any], time_limit: float | None) -> dict[str, Any]:
    """Turn the answer of a solver process into the facts of a row.

    Parameters
    ----------
    problem : Problem
        The problem as the caller holds it, not as the method saw it.
    answer : dict
        From `solvers.benchmark.jobs.run_task`.
    time_limit : float or None
        What the method was given.

    Returns
    -------
    dict
        ``verdict`` and ``message``, and the numbers. ``objective`` is the problem's own value of the decision and
        ``None`` unless that is feasible, also in a row that is "invalid".
    """
    facts: dict[str, Any] = {
        "verdict": answer["failed"] or "ok",
        "status": answer.get("status"),
        "stopped": answer.get("stopped"),
        "native_status": answer.get("native_status"),
        "objective": None,
        "bound": _finite(answer.get("bound")),
        "seconds": answer["seconds"],
        "cpu_seconds": answer.get("cpu_seconds"),
        "build_seconds": answer.get("build_seconds"),
        "nodes": answer.get("nodes"),
        "relaxed": False,
        "message": answer["message"],
        "x": None,
        "trace": [(second, _finite(value), _finite(bound)) for second, value, bound in answer.get("trace", [])],
        "versions": answer["versions"],
    }
    if answer["failed"]:
        return facts
    lie = _decision(problem, answer, facts) or _claims(problem, answer, facts)
    if lie:
        return {**facts, "verdict": "invalid", "message": lie}
    if changed := _changed(answer):
        return {**facts, **changed}
    if time_limit is not None and facts["seconds"] > time_limit + max(0.2, 0.1 * time_limit):
        facts["message"] = f"took {facts['seconds']:.3g} s of {time_limit:g} s. {facts['message']}".strip()
    return facts


def _decision(problem: Problem, answer: dict[str, Any], facts: dict[str, Any]) -> str:
    """Evaluate the decision into ``facts``; returns what is wrong with it."""
    if answer["x"] is None:
        if answer["objective"] is not None:
            return f"claims the objective {answer['objective']:.12g} without a decision"
        return ""
    try:
        x = problem.decision(answer["x"])
        violation, objective = float(problem.violation(x)), float(problem.objective(x))
    except Exception as error:  # whatever the problem makes of what is no decision
        return f"returned a decision that cannot be evaluated: {error}"
    if not violation <= problem.tolerance:
        return f"returned an infeasible decision: it violates a constraint by {violation:.6g}"
    if not math.isfinite(objective):
        return f"returned a decision whose objective is {objective}"
    facts["objective"], facts["x"] = objective, x.tolist()
    if hasattr(problem, "integral"):
        facts["relaxed"] = not problem.integral(x)
    claimed = answer["objective"]
    if claimed is None or not abs(claimed - objective) <= slack(objective, problem.scale):
        said = "no objective" if claimed is None else f"the objective {claimed:.12g}"
        return f"claims {said}, but its decision is worth {objective:.12g}"
    return ""


def _claims(problem: Problem, answer: dict[str, Any], facts: dict[str, Any]) -> str:
    """Describe what is wrong with bound, status and trace, given the decision."""
    objective, bound = facts["objective"], answer["bound"]
    if bound is not None and not math.isfinite(bound):
        return f"claims the bound {bound}"
    if objective is None:
        if answer["status"] in ("optimal", "feasible"):
            return f"calls its answer {answer['status']} without a decision"
        return ""
    rounding = slack(objective, problem.scale)
    if bound is not None and is_better(objective, bound, problem.sense) and abs(objective - bound) > rounding:
        return f"claims the bound {bound:.12g}, which its own decision of {objective:.12g} refutes"
    if answer["status"] == "optimal" and not proves(problem, objective, bound):
        return "calls its answer optimal without a bound that proves it"
    for second, value, _ in answer["trace"]:
        if value is not None and is_better(value, objective, problem.sense) and abs(value - objective) > rounding:
            return f"its trace holds {value:.12g} at {second:.3g} s, better than its answer of {objective:.12g}"
    return ""


def _changed(answer: dict[str, Any]) -> dict[str, Any]:
    """Describe how a second solve with the same seed differs from the first, where both ran to their own end."""
    again = answer.get("again")
    if again is None:
        return {}
    if again["failed"]:
        return {"verdict": again["failed"], "message": f"repeated with the same seed, {again['message']}"}
    if again["stopped"] in ("time-limit", "gap"):
        return {}
    if answer["objective"] != again["objective"]:
        difference = f"objective {answer['objective']} first and {again['objective']} when repeated"
    elif answer["x"] is not None and not np.array_equal(answer["x"], again["x"]):
        difference = f"two decisions of the same objective, {answer['objective']}"
    else:
        return {}
    return {"verdict": "nondeterministic", "message": f"the same seed gave {difference}"}


def _finite(value: float | None) -> float | None:
    """JSON has no word for what is not finite, and a row no use."""
    return value if value is not None and math.isfinite(value) else None
