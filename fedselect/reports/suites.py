"""The folder of a suite's results that a release keeps: rows, sums, pictures, and the report made of them."""

from __future__ import annotations

import datetime
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from fedselect.reports.document import Column, Picture, Report, Table, frame_table, number, plain, save, word
from fedselect.reports.methods import failures_table
from fedselect.tables import write_table
from solvers.benchmark.figures import gap_figure, profile_figure
from solvers.benchmark.profiles import SHIFT, lost, summary, win_matrix
from solvers.benchmark.table import Benchmark
from solvers.environment import machine
from solvers.version import __version__

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Reference:
    """Seconds that a fixed piece of work takes, to compare machines by.

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
        write_table(folder / f"{name}.parquet", table, "table", compression="zstd")
    else:
        write_table(folder / f"{name}.csv", table, "table")
    reference, sums = Reference.measured(), summary(table)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    stamped = sums.assign(version=__version__, date=today, reference=round(reference.processor, 3))
    write_table(folder / f"{name}-summary.csv", stamped, "table", float_format="%.6g")
    failed = table[table["verdict"] != "ok"]
    tables = [
        _sums_table(f"sums-{place}", block) for place, (_, block) in enumerate(sums.groupby("time_limit", dropna=False))
    ]
    tables += [_lost_table(table, ours), *_win_tables(table), *([failures_table(failed)] if len(failed) else [])]
    caption = "A row per release: what its first method did at each limit, and the seconds of the reference job there."
    report = Report(
        f"Suite {name}, {__version__}",
        f"{table['method'].nunique()} methods on {table['instance'].nunique()} instances. {_MEANING}",
        tuple(_facts(benchmark, reference, command, today).items()),
        () if len(failed) else ("Nothing failed: every row is sound.",),
        (*tables, frame_table("releases", caption, _releases(folder.parent, name), detail=False)),
        _pictures(name, benchmark, ours),
    )
    return save(report, folder, ["md"], name)[0]


def _facts(benchmark: Benchmark, reference: Reference, command: str, today: str) -> dict[str, str]:
    table = benchmark.table
    solved = table[(table["cpu_seconds"] > 0.05) & (table["verdict"] == "ok")]
    share = f"{(solved['seconds'] / solved['cpu_seconds']).median():.2f}" if len(solved) else "not measured"
    versions = benchmark.manifest.get("versions", {})
    return {
        "date, commit": f"{today}, {benchmark.manifest.get('commit') or 'no checkout'}",
        "command": command,
        "machine": machine(),
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "reference job": f"{reference.processor:.3f} processor s, {reference.wall:.3f} wall s",
        "how busy the machine was": (
            f"a solve's wall seconds over its processor seconds, median: {share} (1 is a core of one's own)"
        ),
        "protocol": (
            f"one thread per solve, {_seeds(table)}, untimed calls of 10 ms and, where cut short, 0.3 s before the "
            "first, wall seconds; every answer is checked from outside"
        ),
    }


def _seeds(table: pd.DataFrame) -> str:
    """Say which seeds there are, under each time limit where they differ."""
    said = {
        _limit(limit): ", ".join(map(str, sorted(rows["seed"].unique())))
        for limit, rows in table.groupby("time_limit", dropna=False)
    }
    if len(set(said.values())) == 1:
        return f"seed {next(iter(said.values()))}"
    return ", ".join(f"seed {seeds} at {limit}" for limit, seeds in said.items())


def _pictures(name: str, benchmark: Benchmark, ours: Sequence[str]) -> tuple[Picture, ...]:
    """Draw performance and anytime profiles at the longest limit: our methods, and each external solver's best form."""
    table, traces = _at_longest(benchmark.table), _at_longest(benchmark.traces)
    limit = _limit(table["time_limit"].max())
    proofs, answers = (_best_forms(table, ours, measure) for measure in ("time_to_proof", "primal_integral"))
    return (
        Picture(
            f"{name}-profile",
            f"Performance profile of the time to a proof, {limit}. Shown are methods that prove anything, of an "
            "external solver its best form.",
            "Step chart, horizontal axis logarithmic, with a rising line for every method shown.",
            profile_figure(proofs),
        ),
        Picture(
            f"{name}-anytime",
            f"Distance to the best value over time, {limit}: median and middle half. Of an external solver its best "
            "form is shown.",
            "Line chart, both axes logarithmic, with a falling line for every method shown.",
            gap_figure(answers, traces),
        ),
    )


def _at_longest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows under the longest time limit; all where there is none."""
    limits = rows["time_limit"]
    return rows[limits == limits.max()] if limits.notna().any() else rows


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
    "primal_of_first": "primal integral s of the first method there",
    "cpu_seconds": "processor s",
    "late": "late",
}

_MEANING = (
    "Proved: decision and bound meet to 1e-6, by our own check; says so itself: what the backend calls optimal, in "
    f"its own tolerances. Means are shifted geometric ones of the seconds to a proof, shift {SHIFT:g} s. They are over "
    "all races, with the limit where nothing was proved, and over the common races, which every method that proves "
    "anything has proved. Best value: races in which the best value known was reached (to 1e-6). The primal integral "
    "and the processor seconds are means per race. All means are over the races that a method took: what a licence "
    "refuses counts neither for nor against it. The first method's primal integral stands beside it over the same "
    "races. Starts of external solvers count in their time. Late: solves that ended beyond the limit by more than 10 % "
    "and by more than 0.2 s."
)


def _sums_table(key: str, block: pd.DataFrame) -> Table:
    """Tabulate the sums of a time limit by method."""
    heads = {**_HEADS, "mean_common": f"mean s, common ({int(block['common'].max())})"}
    heads["primal_of_first"] = f"primal integral s of {block['method'].iloc[0]} there"
    rows = tuple((word(row["method"]), *(plain(row[head]) for head in list(heads)[1:])) for _, row in block.iterrows())
    columns = tuple(Column(text, numeric=head != "method") for head, text in heads.items())
    return Table(key, f"{_limit(block['time_limit'].iloc[0])}: {int(block['rows'].max())} races", columns, rows)


def _lost_table(table: pd.DataFrame, ours: Sequence[str]) -> Table:
    """Tabulate the races that our first method lost to another's."""
    races = lost(table, ours[0], lambda method: method not in ours)
    heads = ("limit", "instance", "how", "by", "theirs", f"{ours[0]}'s")
    rows = tuple(
        (word(_limit(r.time_limit)), word(r.instance), word(r.how), word(r.by), number(r.theirs), number(r.ours))
        for r in races.head(_MOST).itertuples()
    )
    more = f" {len(races) - _MOST} more are in the file of all rows." if len(races) > _MOST else ""
    caption = (
        f"Lost races, {len(races)}: another's method did better than {ours[0]}. Proof: it proved what {ours[0]} did "
        "not (seconds). Sooner: it proved in less than half the time, and at least 0.1 s sooner. Decision: its "
        f"decision is better (objectives). Bound: neither proved it, and its gap is less than 0.9 of ours.{more}"
    )
    return Table("lost", caption, tuple(Column(head, numeric=place > 3) for place, head in enumerate(heads)), rows)


def _win_tables(table: pd.DataFrame) -> list[Table]:
    """Tabulate wins of the row against the column at the longest limit, by decision and by proof."""
    found, limit = [], _limit(table["time_limit"].max())
    for measure, least, what in (
        ("gap_to_best", 1e-6, "better decision"),
        ("time_to_proof", 0.1, "sooner proof, by more than 0.1 s"),
    ):
        pairs = win_matrix(_at_longest(table), measure, least)  # type: ignore[arg-type]
        if pairs.empty:
            continue
        cells = {(r.method, r.against): f"{r.wins}-{r.losses}" for r in pairs.itertuples()}
        names = list(dict.fromkeys(pairs["method"]))
        rows = tuple((word(name), *(word(cells.get((name, other))) for other in names)) for name in names)
        caption = (
            f"Wins by {what}, {limit}: races won and lost by the row against the column, of those that both took; the "
            "rest are ties."
        )
        columns = (Column("method", numeric=False), *map(Column, names))
        found.append(Table(f"wins-{measure.replace('_', '-')}", caption, columns, rows))
    return found


def _limit(limit: object) -> str:
    return f"{limit:g} s" if isinstance(limit, float) and limit == limit else "no limit"
