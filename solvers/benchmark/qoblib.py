"""Benchmarks as the table that QOBLIB, the Quantum Optimization Benchmarking Library, takes as a submission."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from solvers.benchmark.table import Benchmark, distance
from solvers.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

#: Columns in the order that its checker asks for (github.com/ZIB-AOPT/QOBLIB, ``misc/ci/check_submission.py``, 2026).
COLUMNS = (
    "Problem", "Submitter", "Affiliation", "Date", "Reference", "Best Objective Value", "Optimality Bound",
    "Modeling Approach", "# Decision Variables", "# Binary Variables", "# Integer Variables", "# Continuous Variables",
    "# Non-Zero Coefficients", "Coefficients Type", "Coefficients Range", "Workflow", "Algorithm Type", "Paradigm",
    "# Runs", "# Feasible Runs", "# Successful Runs", "Success Threshold", "Hardware Specifications", "Total Runtime",
    "Time to Solution", "CPU Runtime", "GPU Runtime", "QPU Runtime", "Other HW Runtime", "Remarks",
)  # fmt: skip

#: What stands where there is nothing to say.
_NONE = "N/A"


def submission(
    benchmark: Benchmark, problems: Mapping[str, Problem], threshold: float = 1e-6, **stated: str
) -> pd.DataFrame:
    """Return a submission to QOBLIB: a row per instance, method and time limit, summed up over the seeds.

    Parameters
    ----------
    benchmark : Benchmark
        The rows.
    problems : mapping of str to Problem
        The instances by name. The model is described for dispersion problems of a matrix, or of points that have one
        (up to 20 000); others have ``N/A`` there.
    threshold : float
        A run is successful when its value is within this share of the best one of its method.
    **stated : str
        ``submitter``, ``affiliation``, ``reference`` and ``date``; the date is today's if left out, the others empty.

    Returns
    -------
    pandas.DataFrame
        `COLUMNS`. Times are means in seconds, over the seeds whose run gave a sound answer.

    References
    ----------
    T. Koch et al., "Quantum Optimization Benchmark Library: The Intractable Decathlon", arXiv 2504.03832, 2025.
    """
    import pandas as pd

    told = {"Date": datetime.date.today().isoformat(), **{name.capitalize(): text for name, text in stated.items()}}
    keys = ["instance", "method", "time_limit"]
    rows = [
        {
            "Problem": instance,
            **{name: told.get(name, "") for name in ("Submitter", "Affiliation", "Date", "Reference")},
            **_answers(group, threshold),
            **_model(problems[instance]),
            **_work(benchmark, group),
        }
        for (instance, _, _), group in benchmark.table.groupby(keys, sort=False, dropna=False)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _answers(group: pd.DataFrame, threshold: float) -> dict[str, Any]:
    """Values, bounds and times of one method on one instance."""
    sound = group[group["verdict"].isin(("ok", "nondeterministic")) & ~group["relaxed"]]
    feasible, is_max = sound[sound["objective"].notna()], group["sense"].iloc[0] == "max"
    best = float(feasible["objective"].max() if is_max else feasible["objective"].min()) if len(feasible) else math.nan
    bound = float(sound["bound"].min() if is_max else sound["bound"].max())
    near = sum(distance(value, best) <= threshold for value in feasible["objective"])
    times = {"Total Runtime": "seconds", "Time to Solution": "time_to_incumbent", "CPU Runtime": "cpu_seconds"}
    return {
        "Best Objective Value": _or_none(best),
        "Optimality Bound": _or_none(bound),
        "# Runs": len(group),
        "# Feasible Runs": len(feasible),
        "# Successful Runs": near,
        "Success Threshold": threshold,
        **{name: _or_none(float(sound[column].astype(float).mean())) for name, column in times.items()},
        **dict.fromkeys(("GPU Runtime", "QPU Runtime", "Other HW Runtime"), _NONE),
        "Remarks": f"{'maximised' if is_max else 'minimised'}; proved optimal, to a tolerance of 1e-6, "
        f"in {int((sound['status'] == 'optimal').sum())} of {len(group)} runs",
    }


def _or_none(value: float) -> Any:
    return value if math.isfinite(value) else _NONE


def _model(problem: Problem) -> dict[str, Any]:
    """Describe variables and coefficients as `solvers.dispersion.write_qplib` writes them."""
    from solvers.dispersion import DispersionProblem, PointDispersionProblem
    from solvers.dispersion.problem import EXPANDABLE

    if isinstance(problem, PointDispersionProblem) and problem.n <= EXPANDABLE:
        problem = problem.expanded()
    if not isinstance(problem, DispersionProblem):
        names = [name for name in COLUMNS if name.startswith(("# Non", "Coefficients")) or name.endswith("Variables")]
        return {"Modeling Approach": f"{problem.family} problem of fedselect", **dict.fromkeys(names, _NONE)}
    rows = problem.feasible.rows()
    parts = [2 * problem.weight * problem.distances[np.triu_indices(problem.n, 1)], problem.costs]
    values = np.concatenate([*parts, *(row.coefficients for row in rows)])
    values = values[values != 0]
    whole = "Integer" if np.array_equal(values, np.rint(values)) else "Continuous"
    return {
        "Modeling Approach": f"quadratic objective of binaries, {len(rows)} linear constraint{'s'[: len(rows) > 1]}",
        "# Decision Variables": problem.n,
        "# Binary Variables": problem.n,
        "# Integer Variables": 0,
        "# Continuous Variables": 0,
        "# Non-Zero Coefficients": len(values),
        "Coefficients Type": whole,
        "Coefficients Range": f"[{values.min():.6g}, {values.max():.6g}]",
    }


def _work(benchmark: Benchmark, group: pd.DataFrame) -> dict[str, Any]:
    """Describe the method and the machine."""
    row, manifest = group.iloc[0], benchmark.manifest
    options = "".join(f" {name}={value}" for name, value in json.loads(row["options"]).items())
    limit = "no time limit" if math.isnan(row["time_limit"]) else f"time limit {row['time_limit']:g} s"
    software = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    seeds, commit = ", ".join(map(str, group["seed"])), manifest.get("commit", "not known")
    return {
        "Workflow": f"{row['registered']}{options}, {limit}, seeds {seeds}; {software}; commit {commit}",
        "Algorithm Type": "Stochastic" if row["kind"] == "heuristic" else "Deterministic",
        "Paradigm": "Classical",
        "Hardware Specifications": manifest["platform"],
    }
