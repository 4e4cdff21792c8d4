"""Results of a benchmark: the tidy table of its rows, and the measures of one solve, from its anytime trace."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvers.benchmark.store import read_manifest, read_records
from solvers.errors import BenchmarkError
from solvers.problem import tolerance_at
from solvers.solution import relative_gap

if TYPE_CHECKING:
    import pandas as pd

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
    """Return the table of a benchmark, in the order of its grid.

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
    """Return the row whose decision is best; `solvers.benchmark.verify` has evaluated it."""
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
    """Return the measures of a row that need the best known value or the trace; NaN where they say nothing."""
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


Trace = Sequence[Sequence[float | None]]


def is_better(first: float, second: float, sense: str) -> bool:
    """Return whether objective ``first`` is strictly better than ``second`` for ``sense`` "max" or "min"."""
    return first > second if sense == "max" else first < second


def slack(value: float, scale: float) -> float:
    """Difference at which two objectives count as one: rounding, 1e-9 · min(max(1, |value|), scale)."""
    return tolerance_at(value, scale, 1e-9)


def distance(objective: float, best: float) -> float:
    """Return the distance of an objective from the best one: |objective − best| / |best|, inf where only best is 0.

    This is `solvers.relative_gap` of the best value.
    """
    return relative_gap(best, objective)


def primal_gap(objective: float | None, best: float) -> float:
    """Return the primal gap γ ∈ [0, 1] of Berthold (2013): |best − objective| / max(|best|, |objective|).

    1 without an objective and where the two have different signs, 0 where they are equal. It changes, as `distance`
    does, when a constant is added to the objective.
    """
    if objective is None:
        return 1.0
    if objective == best:
        return 0.0
    if objective * best < 0:
        return 1.0
    return abs(best - objective) / max(abs(best), abs(objective))


def primal_integral(trace: Trace, best: float, end: float) -> float:
    r"""Return the primal integral :math:`P(T) = \int_0^T p(t)\,dt` of Berthold (2013), in seconds.

    p(t) is `primal_gap` of the incumbent at t, and 1 before there is one. P is 0 for a method that holds the best known
    decision at once, T for one that finds nothing. A method that ends before T keeps its last incumbent.

    Parameters
    ----------
    trace : sequence of (second, objective, bound)
        The anytime trace.
    best : float
        Best known objective.
    end : float
        T in seconds: the time limit, or where there is none the length of the solve.

    References
    ----------
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41(6):611-614, 2013,
    doi:10.1016/j.orl.2013.08.007.
    """
    total, since, gap = 0.0, 0.0, 1.0
    for second, objective, _ in trace:
        assert second is not None
        now = min(max(second, since), end)
        total += gap * (now - since)
        since, gap = now, primal_gap(objective, best)
    return total + gap * (end - since)


def time_to_incumbent(trace: Trace) -> float:
    """Return the second at which the final objective was first held; NaN without one."""
    found, value = math.nan, None
    for second, objective, _ in trace:
        if objective is not None and objective != value:
            assert second is not None
            found, value = second, objective
    return found


def time_to_proof(trace: Trace, bound_gap: float) -> float:
    """Return the second at which objective and bound first lay within ``bound_gap`` of each other; NaN if never."""
    for second, objective, bound in trace:
        if objective is not None and bound is not None and abs(bound - objective) <= bound_gap:
            assert second is not None
            return second
    return math.nan


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two benchmarks compare together; raise where one name means two things."""
    found = dict(first)
    if first["conditions"] != second["conditions"]:
        ours, theirs = first["conditions"], second["conditions"]
        apart = [
            f"{name} is {ours.get(name)} and {theirs.get(name)}" for name in ours if ours[name] != theirs.get(name)
        ]
        raise BenchmarkError(f"conditions differ: {', '.join(apart) or 'one states more than the other'}")
    for axis, what in (("methods", "method"), ("code", "code of method"), ("kinds", "kind of method")):
        for name, value in second[axis].items():
            if first[axis].get(name, value) != value:
                raise BenchmarkError(f"the {what} {name!r} is not the same in both benchmarks")
        found[axis] = {**first[axis], **second[axis]}
    found["instances"] = {**first["instances"]}
    for name, entry in second["instances"].items():
        known = found["instances"].setdefault(name, entry)
        if known["digest"] != entry["digest"]:
            raise BenchmarkError(f"the instance {name!r} is another problem in each benchmark")
        values = [each for each in (known, entry) if each["best_known"] is not None]
        pick = max if entry["sense"] == "max" else min
        found["instances"][name] = pick(values, key=lambda each: each["best_known"]) if values else entry
    for axis in ("seeds", "time_limits"):
        found[axis] = list(dict.fromkeys([*first[axis], *second[axis]]))
    for fact in ("platform", "commit"):
        found[fact] = first[fact] if first[fact] == second[fact] else f"{first[fact]}; {second[fact]}"
    versions = {**first["versions"], **second["versions"]}
    for name in set(first["versions"]) & set(second["versions"]):
        ours, theirs = first["versions"][name], second["versions"][name]
        versions[name] = ours if ours == theirs else f"{ours}; {theirs}"
    return found | {"versions": versions}


@dataclass(frozen=True, eq=False, repr=False)
class Benchmark:
    """Rows of a benchmark, finished or not.

    Attributes
    ----------
    manifest : dict
        What is compared: methods, instances, seeds, time limits, conditions, versions.
    records : list of dict
        The stored rows; `table` is made from them.
    folder : pathlib.Path or None
        Where it is kept.
    """

    manifest: dict[str, Any]
    records: list[dict[str, Any]]
    folder: Path | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Benchmark:
        """Read a benchmark's folder; it may be unfinished, or still running.

        Raises
        ------
        BenchmarkError
            When the folder holds no benchmark of this format, or one that cannot be read.
        """
        return cls(read_manifest(folder), read_records(folder), Path(folder))

    @classmethod
    def merge(cls, *benchmarks: Benchmark) -> Benchmark:
        """Put benchmarks together as one: best known values, refuted bounds and wins are those of all rows.

        Rows that no benchmark has are `missing`. A row that several have must have the same answer in each: status,
        objective, bound and verdict. The first one's is taken, with its seconds.

        Parameters
        ----------
        *benchmarks : Benchmark
            Of the same conditions; methods and instances of one name must be the same.

        Raises
        ------
        BenchmarkError
            When they are not, a row differs, or none is given.
        """
        if not benchmarks:
            raise BenchmarkError("merge takes at least one benchmark")
        manifest: dict[str, Any] = {**benchmarks[0].manifest}
        rows: dict[str, dict[str, Any]] = {}
        for each in benchmarks:
            manifest = _merged(manifest, each.manifest)
            for record in each.records:
                cell = json.dumps([record[name] for name in ("instance", "method", "seed", "time_limit")])
                first = rows.setdefault(cell, record)
                others = [name for name in ("status", "objective", "bound", "verdict") if first[name] != record[name]]
                if others:
                    raise BenchmarkError(
                        f"the row {cell} is in two benchmarks, with another {others[0]} ({first[others[0]]} and "
                        f"{record[others[0]]}): let one of them run without this method"
                    )
        return cls(manifest, list(rows.values()))

    def __repr__(self) -> str:
        total = len(self.records) + self.missing
        verdicts = Counter(record["verdict"] for record in self.records)
        lines = [f"Benchmark of {len(self.records)} rows of {total}, in {self.folder or 'no folder'}"]
        for axis in ("methods", "instances", "seeds", "time_limits"):
            names = list(map(str, self.manifest[axis]))
            shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
            lines.append(f"  {axis.replace('_', ' ')} ({len(names)}): {shown}")
        lines.append("  verdicts: " + (", ".join(f"{count} {name}" for name, count in verdicts.items()) or "none"))
        return "\n".join([*lines, "  .table has a row a solve, .traces every improvement"])

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a solve; `run_benchmark` describes the columns."""
        return tidy(self.manifest, self.records)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """Every improvement of every solve: instance, method, seed, time_limit, second, objective, bound."""
        return traces(self.records)

    @property
    def missing(self) -> int:
        """Number of rows that are still to come."""
        axes = ("instances", "methods", "seeds", "time_limits")
        cells = 1
        for axis in axes:
            cells *= len(self.manifest[axis])
        return cells - len(self.records)
