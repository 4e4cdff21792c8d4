"""The page of a suite's run, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from solvers.benchmark.profiles import win_matrix
from solvers.benchmark.summary import SHIFT, lost

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["page"]

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
    "and the processor seconds are means a race. *late*: solves that took more than 10 % or 0.2 s beyond the limit."
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
    """Facts, a table for each limit, pictures, lost races, wins, what failed, and a row a release.

    Parameters
    ----------
    title : str
        Its heading.
    facts : mapping of str to str
        Machine, versions, protocol.
    sums : DataFrame
        From `solvers.benchmark.summary.summary`.
    table : DataFrame
        The benchmark's table.
    releases : DataFrame
        A row a release and limit, for its first method.
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
    lines += ["## A row a release", "", *_table(list(releases.columns), releases.to_numpy().tolist()), ""]
    return "\n".join(lines)


def _losses(table: pd.DataFrame, ours: Sequence[str]) -> list[str]:
    races = lost(table, ours[0], lambda method: method not in ours)
    head = ["limit", "instance", "how", "by", "theirs", f"{ours[0]}'s"]
    rows = [[f"{r.time_limit:g} s", r.instance, r.how, r.by, r.theirs, r.ours] for r in races.itertuples()]
    more = [f"{len(rows) - _MOST} more are in the Parquet file.", ""] if len(rows) > _MOST else []
    said = (
        f"Races in which another's method did better than `{ours[0]}`: *proof*: it proved what `{ours[0]}` did not "
        "(seconds); *sooner*: it proved in less than half the time, and at least 0.1 s sooner; *decision*: its "
        "decision is better (objectives); *bound*: nobody proved it, and its gap is less than 0.9 of ours."
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
