"""From stored rows to the tidy table: what only all rows together can tell is worked out here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from solvers.benchmark.measures import (
    distance,
    is_better,
    primal_integral,
    slack,
    time_to_incumbent,
    time_to_proof,
)
from solvers.problem import tolerance_at
from solvers.solution import relative_gap

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "tidy", "traces"]

#: Columns of the table, in order; `solvers.benchmark.run_benchmark` says what they mean.
COLUMNS = (
    "family", "instance", "n", "method", "registered", "options", "seed", "time_limit", "verdict", "status", "stopped",
    "native_status",
    "objective", "bound", "gap", "best_known", "gap_to_best", "time_to_incumbent", "time_to_proof", "primal_integral",
    "seconds", "cpu_seconds", "build_seconds", "nodes", "message", "kind", "sense", "relaxed", "versions",
)  # fmt: skip

_NUMBERS = ("time_limit", *COLUMNS[COLUMNS.index("objective") : COLUMNS.index("nodes")])
_TYPES = dict.fromkeys(_NUMBERS, "float64") | {"n": "int64", "seed": "int64", "nodes": "Int64", "relaxed": "bool"}

Record = Mapping[str, Any]


def tidy(manifest: Mapping[str, Any], records: Sequence[Record]) -> pd.DataFrame:
    """The table of a benchmark, in the order of its grid.

    Parameters
    ----------
    manifest : mapping
        What is compared.
    records : sequence of mapping
        The stored rows, in any order.

    Returns
    -------
    pandas.DataFrame
        `COLUMNS`; see `solvers.benchmark.run_benchmark`.
    """
    import pandas as pd

    axes = ("instances", "methods", "seeds", "time_limits")
    place = {axis: {key: number for number, key in enumerate(manifest[axis])} for axis in axes}
    rows = []
    for name, instance in manifest["instances"].items():
        mine = [record for record in records if record["instance"] == name]
        rows += _instance_rows(manifest, name, instance, mine)
    rows.sort(
        key=lambda row: (
            place["instances"][row["instance"]],
            place["time_limits"][row["time_limit"]],
            place["seeds"][row["seed"]],
            place["methods"][row["method"]],
        )
    )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(_TYPES)


def traces(records: Sequence[Record]) -> pd.DataFrame:
    """Every step of every solve: instance, method, seed, time_limit, second, objective, bound."""
    import pandas as pd

    key = ("instance", "method", "seed", "time_limit")
    rows = [[*(record[column] for column in key), *step] for record in records for step in record["trace"]]
    types = {"seed": "int64"} | dict.fromkeys(("time_limit", "second", "objective", "bound"), "float64")
    return pd.DataFrame(rows, columns=[*key, "second", "objective", "bound"]).astype(types)


def _instance_rows(
    manifest: Mapping[str, Any], name: str, instance: Mapping[str, Any], records: Sequence[Record]
) -> list[dict[str, Any]]:
    sense, scale = instance["sense"], math.inf if instance["scale"] is None else instance["scale"]
    best = _best([record for record in records if not record["relaxed"]], sense)
    known: list[float] = [
        value for value in (instance["best_known"], best["objective"] if best else None) if value is not None
    ]
    best_known: float | None = (max if sense == "max" else min)(known, default=None)
    rows = []
    for record in records:
        method = manifest["methods"][record["method"]]
        verdict, message = record["verdict"], record["message"]
        # A bound on a relaxation is one on everything; a bound on whole decisions says nothing about real ones.
        rival = _best(records, sense) if record["relaxed"] else best
        witnesses = [] if rival is None else [(rival["objective"], _decided_by(rival))]
        if instance.get("witnessed"):
            witnesses.append((instance["best_known"], "the instance library, which holds a decision"))
        for value, witness in witnesses:
            if lie := _refuted(record, value, witness, sense, scale):
                verdict, message = "invalid", lie
                break
        rows.append(
            {
                "family": instance["family"],
                "instance": name,
                "n": instance["n"],
                "method": record["method"],
                "registered": method["name"],
                "options": json.dumps(method["options"]),
                "seed": record["seed"],
                "time_limit": record["time_limit"],
                "verdict": verdict,
                **{column: record[column] for column in ("status", "stopped", "objective", "bound")},
                "native_status": record.get("native_status"),
                **_measures(record, best_known, scale),
                "cpu_seconds": record.get("cpu_seconds"),  # rows of older versions have none
                **{column: record[column] for column in ("seconds", "build_seconds", "nodes", "relaxed")},
                "message": message,
                "kind": manifest["kinds"][f"{instance['type']}:{method['name']}"],
                "sense": sense,
                "versions": json.dumps(record["versions"]),
            }
        )
    return rows


def _best(records: Sequence[Record], sense: str) -> Record | None:
    """The row whose decision is best; `solvers.benchmark.verify` has evaluated it."""
    decided = [record for record in records if record["objective"] is not None]
    return (max if sense == "max" else min)(decided, key=lambda record: record["objective"], default=None)


def _decided_by(record: Record) -> str:
    limit = "" if record["time_limit"] is None else f", time limit {record['time_limit']:g} s"
    return f"{record['method']} (seed {record['seed']}{limit}), whose decision is"


def _refuted(record: Record, value: float, witness: str, sense: str, scale: float) -> str:
    """Describe how a decision of this value refutes a row's bound, or its claim that nothing is feasible."""
    bound = record["bound"]
    if record["status"] == "infeasible":
        return f"claims that no decision is feasible, which is refuted by {witness} worth {value:.12g}"
    if bound is not None and is_better(value, bound, sense) and abs(value - bound) > slack(value, scale):
        return f"claims the bound {bound:.12g}, which is refuted by {witness} worth {value:.12g}"
    return ""


def _measures(record: Record, best_known: float | None, scale: float) -> dict[str, float]:
    """The measures of a row that need the best known value or the trace; NaN where they say nothing."""
    objective, bound, trace = record["objective"], record["bound"], record["trace"]
    gap = math.nan if objective is None or bound is None else relative_gap(objective, bound)
    measures = {"gap": gap, "best_known": math.nan if best_known is None else best_known}
    absent = dict.fromkeys(("gap_to_best", "time_to_incumbent", "time_to_proof", "primal_integral"), math.nan)
    if record["relaxed"]:  # an answer to another question, in real numbers; not ranked
        return {**measures, **absent}
    measures |= {**absent, "time_to_incumbent": time_to_incumbent(trace)}
    if record["status"] == "infeasible":
        measures["time_to_proof"] = record["seconds"]
    if record["status"] == "optimal":
        proved = time_to_proof(trace, tolerance_at(objective or 0.0, scale))
        measures["time_to_proof"] = record["seconds"] if math.isnan(proved) else proved
    if best_known is not None:
        if objective is not None:
            measures["gap_to_best"] = distance(objective, best_known)
        end = record["seconds"] if record["time_limit"] is None else record["time_limit"]
        measures["primal_integral"] = primal_integral(trace, best_known, end)
    return measures
