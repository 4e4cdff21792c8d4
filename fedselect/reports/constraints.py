"""Side constraints in reports: what each left unused in a run's rounds, what it cost, and where it gave way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedselect.reports.document import Cell, Column, Table, count, number, word

#: Slack that counts as none, as a share of what is used: budgets may be exceeded by 1e-9 of their limit.
_BINDS = 1e-6

_HEADINGS = (
    "rounds",
    "rounds kept",
    "mean used",
    "least used",
    "most used",
    "mean slack",
    "least slack",
    "rounds it binds",
    "rounds short",
    "mean price",
    "largest price",
)


def constraints_table(records: Mapping[str, Iterable[Mapping[str, Any]]]) -> Table | None:
    """Tabulate what the records of rounds say of quotas and budgets; None where no selector has any.

    Parameters
    ----------
    records : mapping of str to iterable of mapping
        Records of rounds by selector, of all its runs.

    Returns
    -------
    Table or None
    """
    rows = []
    for label, each in records.items():
        kept = _noted(each)
        names = dict.fromkeys(name for note in kept for name in note.get("used", ()))
        rows += [(word(label), word(name), _limit(name, kept), *_numbers(name, kept)) for name in names]
    if not rows:
        return None
    gave_way = gave_way_in(records)
    said = f" Rounds in which one gave way: {'; '.join(gave_way)}." if gave_way else ""
    caption = (
        "Side constraints: what the selected of a round use of each, and how far that is from its limit (slack). Kept "
        "are the rounds in which the limit held as it is stated. It binds in a round whose selected use all of it. A "
        "price is what a bound on the objective rises by with one unit more of the limit, "
        "where a method says so. In a round that is short a quota asks for more clients than are available, and is "
        f"lowered to these.{said}"
    )
    said_first = (Column(heading, numeric=False) for heading in ("selector", "constraint", "limit"))
    columns = (*said_first, *map(Column, _HEADINGS))
    return Table("constraints", caption, columns, tuple(rows))


def gave_way_in(records: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Say in how many rounds a constraint gave way, of how many, for each selector that has such rounds."""
    counted = {label: _noted(each) for label, each in records.items()}
    missed = {
        label: sum(any(key in note for key in ("size", "short", "not_included")) for note in kept)
        for label, kept in counted.items()
    }
    return [f"{label}: {many} of {len(counted[label])}" for label, many in missed.items() if many]


def _noted(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [note for record in records if (note := record.get("notes", {}).get("constraints"))]


def batteries_table(records: Mapping[str, Iterable[Mapping[str, Any]]]) -> Table | None:
    """Tabulate what the records of rounds say of budgets over the run; None where no selector has any."""
    rows = []
    for label, each in records.items():
        said = [(record["round"], note.get("constraints", {}).get("over_run", {}))
                for record in each if (note := record.get("notes"))]  # fmt: skip
        for name in dict.fromkeys(name for _, noted in said for name in noted):
            noted = [(t, notes[name]["exhausted"], notes[name]["least_left"]) for t, notes in said if name in notes]
            out = [t + 1 for t, exhausted, _ in noted if exhausted]
            most, least = max(exhausted for _, exhausted, _ in noted), min(left for *_, left in noted)
            rows.append((word(label), word(name), count(min(out, default=None)), count(most), number(least)))
    if not rows:
        return None
    heads = ("first round in which a battery is too low", "most clients with too little", "least left")
    columns = (Column("selector", numeric=False), Column("budget over the run", numeric=False), *map(Column, heads))
    caption = (
        "Batteries: each client's own budget over all rounds. Clients that have less left than a round takes do not "
        "take part; counted are those that are there."
    )
    return Table("batteries", caption, columns, tuple(rows))


def _limit(name: str, kept: list[Mapping[str, Any]]) -> Cell:
    """Say the limit as it is stated; a dash where there is none, or a record of an older version does not say it."""
    stated = [note["limits"][name] for note in kept if name in note.get("limits", ())]
    if not stated:
        return number(None)
    least, most = stated[-1]
    if least is None and most is None:
        return number(None)
    if None not in (least, most):
        return word(f"{least:g}" if least == most else f"{least:g} to {most:g}")
    return word(f"at most {most:g}" if least is None else f"at least {least:g}")


def _numbers(name: str, kept: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    noted = [note for note in kept if name in note.get("used", ())]
    used, slack = (np.array([note[key][name] for note in noted], dtype=np.float64) for key in ("used", "slack"))
    prices = [float(note["prices"][name]) for note in noted if name in note.get("prices", {})]
    exceeded = slack < -_BINDS * np.maximum(np.abs(used), 1e-9)
    short = np.array([name in note.get("short", ()) for note in noted])
    binds = int((~short & (slack <= _BINDS * np.maximum(np.abs(used), 1e-9))).sum())
    return (
        count(len(noted)),
        count(int((~exceeded & ~short).sum())),
        number(used.mean()),
        number(used.min()),
        number(used.max()),
        number(slack.mean()),
        number(slack.min()),
        count(binds),
        count(int(short.sum())),
        number(np.mean(prices) if prices else None),
        number(max(prices, key=abs) if prices else None),
    )
