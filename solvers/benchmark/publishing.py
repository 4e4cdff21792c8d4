"""The folder of a suite's results that a release keeps: rows, sums, pictures, and the page made of them in Markdown."""

from __future__ import annotations

import datetime
import importlib.util
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from solvers.benchmark.figures import gap_figure, profile_figure
from solvers.benchmark.profiles import SHIFT, lost, summary, win_matrix
from solvers.benchmark.table import Benchmark
from solvers.environment import commit, machine
from solvers.files import write_atomically
from solvers.version import __version__

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reference", "page", "publish"]


@dataclass(frozen=True)
class Reference:
    """Seconds that a fixed piece of work takes: to compare machines by, and to see how busy one is.

    ``processor`` is the least processor time of three runs, ``wall`` the wall time of the same run.
    """

    processor: float
    wall: float

    @classmethod
    def measured(cls) -> Self:
        """Run the job three times and keep the fastest."""
        from threadpoolctl import threadpool_limits

        matrix = np.cos(np.arange(300)[:, None] * np.arange(300) * 0.37)
        best = cls(np.inf, np.inf)
        for _ in range(3):
            processor, wall = time.process_time(), time.perf_counter()
            with threadpool_limits(1):
                for _ in range(5):
                    np.linalg.eigvalsh(matrix + matrix.T)
            total = 0
            for k in range(1_000_000):
                total += k & 7
            found = cls(time.process_time() - processor, time.perf_counter() - wall)
            best = found if found.processor < best.processor else best
        return best


def publish(folder: str | Path, name: str, benchmark: Benchmark, ours: Sequence[str], command: str) -> Path:
    """Write a run's rows (Parquet where pyarrow is installed, else CSV), its sums, its pictures, and the page of them.

    Parameters
    ----------
    folder : path-like
        One per release, beside those of earlier releases, whose sums the page repeats.
    name : str
        The suite's.
    benchmark : Benchmark
        The run.
    ours : sequence of str
        Methods that are this project's, the one that is compared with others first.
    command : str
        The line that makes this page again.

    Returns
    -------
    pathlib.Path
        The page.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table = benchmark.table
    if importlib.util.find_spec("pyarrow") is not None:
        table.to_parquet(folder / f"{name}.parquet", index=False, compression="zstd")
    else:
        table.to_csv(folder / f"{name}.csv", index=False)
    reference, sums = Reference.measured(), summary(table)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    stamped = sums.assign(version=__version__, date=today, reference=round(reference.processor, 3))
    stamped.to_csv(folder / f"{name}-summary.csv", index=False, float_format="%.6g")
    path = folder / f"{name}.md"
    facts = _facts(benchmark, reference, command, today)
    pictures = _pictures(folder, name, benchmark, ours)
    text = page(f"Suite {name}, {__version__}", facts, sums, table, _releases(folder.parent, name), pictures, ours)
    write_atomically(path, text.encode())
    return path


def _facts(benchmark: Benchmark, reference: Reference, command: str, today: str) -> dict[str, str]:
    table = benchmark.table
    solved = table[(table["cpu_seconds"] > 0.05) & (table["verdict"] == "ok")]
    share = f"{(solved['seconds'] / solved['cpu_seconds']).median():.2f}" if len(solved) else "not measured"
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg()) if hasattr(os, "getloadavg") else "not known"
    versions = benchmark.manifest.get("versions", {})
    return {
        "date, commit": f"{today}, {commit() or 'no checkout'}",
        "command": f"`{command}`",
        "machine": machine(),
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "reference job": f"{reference.processor:.3f} processor s, {reference.wall:.3f} wall s",
        "how busy the machine was": (
            f"load average over 1, 5 and 15 minutes at the end: {load}; a solve's wall seconds over its processor "
            f"seconds, median: {share} (1 is a core of one's own)"
        ),
        "protocol": (
            "one thread per solve, seed 0, untimed calls of 10 ms and, where cut short, 0.3 s before the first, wall "
            "seconds; every answer is checked from outside"
        ),
    }


def _pictures(folder: Path, name: str, benchmark: Benchmark, ours: Sequence[str]) -> list[tuple[str, str]]:
    """Draw performance and anytime profiles at the longest limit: our methods, and each external solver's best form."""
    table, traces = benchmark.table, benchmark.traces
    limits = table["time_limit"]
    if limits.notna().any():
        table, traces = table[limits == limits.max()], traces[traces["time_limit"] == limits.max()]
    limit = f"{limits.max():g} s" if limits.notna().any() else "no limit"
    proofs, answers = (_best_forms(table, ours, measure) for measure in ("time_to_proof", "primal_integral"))
    anytime = f"Distance to the best value over time, {limit}: median and middle half."
    drawn: list[tuple[str, str, Any]] = [
        ("profile", f"Performance profile of the time to a proof, {limit}.", profile_figure(proofs)),
        ("anytime", anytime, gap_figure(answers, traces)),
    ]
    found = []
    for kind, caption, figure in drawn:
        figure.savefig(folder / f"{name}-{kind}.png", dpi=100, metadata={"Software": None})
        found.append((f"{name}-{kind}.png", caption))
    return found


def _best_forms(table: pd.DataFrame, ours: Sequence[str], measure: str) -> pd.DataFrame:
    """Return the rows of our methods, and of each external solver's best form (label ``solver:form``).

    The best form is that of the least mean measure, where the time limit stands for a missing one.
    """
    value = table[measure].fillna(table["time_limit"].fillna(table["seconds"])).groupby(table["method"]).mean()
    best: dict[str, str] = {}
    for label in dict.fromkeys(table["method"]):
        solver = label if label in ours else label.partition(":")[0]
        if solver not in best or value[label] < value[best[solver]]:
            best[solver] = label
    decided = table.groupby("method")[measure].count()
    kept = [label for label in best.values() if decided[label]]
    return table[table["method"].isin(kept)]


def _releases(above: Path, name: str) -> pd.DataFrame:
    """Return a row per release and limit: what its first method did, from the sums beside each other."""
    import pandas as pd

    columns = [
        "version",
        "date",
        "time_limit",
        "method",
        "rows",
        "proved",
        "mean_all",
        "best",
        "primal_integral",
        "reference",
    ]
    parts = [pd.read_csv(path, dtype={"version": str}) for path in sorted(above.glob(f"*/{name}-summary.csv"))]
    rows = pd.concat([part[part["method"] == part["method"].iloc[0]] for part in parts])
    return rows[columns].rename(columns={"reference": "reference job s"})


#: Lost races that the page lists; the rows are all in the Parquet file.
_MOST = 60

_HEADS = {
    "method": "method",
    "ok": "sound",
    "proved": "proved",
    "native": "says so itself",
    "mean_all": "mean s, all",
    "mean_common": "mean s, common",
    "best": "best value",
    "primal_integral": "primal integral s",
    "cpu_seconds": "processor s",
    "late": "late",
}

_MEANING = (
    "*proved*: decision and bound meet to 1e-6, by our own check; *says so itself*: what the backend calls optimal, in "
    f"its own tolerances. Means are shifted geometric ones of the seconds to a proof, shift {SHIFT:g} s: over *all* "
    "races, with the limit where nothing was proved, and over the *common* races, which every method that proves "
    "anything has proved. *best value*: races in which the best value known was reached (to 1e-6). The primal integral "
    "and the processor seconds are means per race. *late*: solves that took more than 10 % or 0.2 s beyond the limit."
)


def page(
    title: str,
    facts: Mapping[str, str],
    sums: pd.DataFrame,
    table: pd.DataFrame,
    releases: pd.DataFrame,
    pictures: Sequence[tuple[str, str]] = (),
    ours: Sequence[str] = ("auto",),
) -> str:
    """Write facts, a table for each limit, pictures, lost races, wins, what failed, and a row per release.

    Parameters
    ----------
    title : str
        Its heading.
    facts : mapping of str to str
        Machine, versions, protocol.
    sums : DataFrame
        From `solvers.benchmark.profiles.summary`.
    table : DataFrame
        The benchmark's table.
    releases : DataFrame
        A row per release and limit, for its first method.
    pictures : sequence of (file, caption)
        Beside the page.
    ours : sequence of str
        Methods that are this project's: the first is compared with those that are not.
    """
    lines = [f"# {title}", "", *(f"* **{name}**: {value}" for name, value in facts.items()), ""]
    for limit, block in sums.groupby("time_limit", dropna=False):
        races = int(block["rows"].max())
        lines += [f"## {_limit(limit)}: {races} races", ""]
        heads = {**_HEADS, "mean_common": f"mean s, common ({int(block['common'].max())})"}
        lines += [
            *_table([heads[key] for key in heads], [[row[key] for key in heads] for _, row in block.iterrows()]),
            "",
        ]
    lines += [_MEANING, ""]
    for file, caption in pictures:
        lines += [f"![{caption}]({file})", "", caption, ""]
    lines += _losses(table, ours)
    lines += _wins(table)
    lines += _failures(table)
    lines += ["## A row per release", "", *_table(list(releases.columns), releases.to_numpy().tolist()), ""]
    return "\n".join(lines)


def _losses(table: pd.DataFrame, ours: Sequence[str]) -> list[str]:
    races = lost(table, ours[0], lambda method: method not in ours)
    head = ["limit", "instance", "how", "by", "theirs", f"{ours[0]}'s"]
    rows = [[f"{r.time_limit:g} s", r.instance, r.how, r.by, r.theirs, r.ours] for r in races.itertuples()]
    more = [f"{len(rows) - _MOST} more are in the Parquet file.", ""] if len(rows) > _MOST else []
    said = (
        f"Races in which another's method did better than `{ours[0]}`: *proof*: it proved what `{ours[0]}` did not "
        "(seconds); *sooner*: it proved in less than half the time, and at least 0.1 s sooner; *decision*: its "
        "decision is better (objectives); *bound*: neither proved it, and its gap is less than 0.9 of ours."
    )
    body = _table(head, rows[:_MOST]) if rows else ["None."]
    return [f"## Lost races: {len(rows)}", "", said, "", *body, "", *more]


def _wins(table: pd.DataFrame) -> list[str]:
    last = table[table["time_limit"] == table["time_limit"].max()] if table["time_limit"].notna().any() else table
    lines = [
        "## Wins",
        "",
        "Races won and lost by the row against the column at the longest limit; the rest are ties.",
        "",
    ]
    for measure, what in (("gap_to_best", "better decision"), ("time_to_proof", "sooner proof, by more than 0.1 s")):
        pairs = win_matrix(last, measure, 1e-6 if measure == "gap_to_best" else 0.1)  # type: ignore[arg-type]
        if pairs.empty:
            continue
        cells = {(r.method, r.against): f"{r.wins}-{r.losses}" for r in pairs.itertuples()}
        names = list(dict.fromkeys(pairs["method"]))
        rows = [[name, *(cells.get((name, other), "") for other in names)] for name in names]
        lines += [f"By {what}:", "", *_table([what, *names], rows), ""]
    return lines


def _failures(table: pd.DataFrame) -> list[str]:
    """Rows that are not sound, and sound ones that left their time limit, by method."""
    wrong = table[table["verdict"] != "ok"]
    lines = ["## What failed", ""]
    if wrong.empty:
        return [*lines, "Nothing: every row is sound.", ""]
    rows = [
        [method, verdict, len(group), ", ".join(f"{limit:g} s" for limit in sorted(set(group["time_limit"]))),
         str(group["message"].iloc[0])[:160].replace("|", "/").replace("\n", " ")]
        for (method, verdict), group in wrong.groupby(["method", "verdict"], sort=False)
    ]  # fmt: skip
    return [*lines, *_table(["method", "verdict", "rows", "limits", "the first says"], rows), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if value != value else f"{value:.7g}" if abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)


def _limit(limit: object) -> str:
    return f"{limit:g} s" if isinstance(limit, float) and limit == limit else "no limit"
