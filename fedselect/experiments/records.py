"""What a run folder says of a run, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedselect.errors import RunError
from fedselect.rounds.records import round_record, solution_record

__all__ = ["read_records", "read_summary", "round_record", "solution_record"]


def read_records(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's rounds, one dictionary a round; a line that is still being written does not count.

    Raises
    ------
    RunError
        When the folder holds no run, or a line of it is not a record.
    """
    path = Path(folder) / "rounds.jsonl"
    if not path.exists():
        raise RunError(f"{folder} is not a run folder: it has no rounds.jsonl")
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    for number, record in enumerate(records):
        if not isinstance(record, dict) or record.get("round") != number:
            raise RunError(f"cannot read {path}: line {number + 1} is not the record of round {number}")
    return records


def read_summary(folder: str | Path) -> dict[str, Any]:
    """The summary of a finished run (see `fedselect.experiments.metrics.summary`).

    Raises
    ------
    RunError
        When the folder holds no finished run, or its summary cannot be read.
    """
    path = Path(folder) / "summary.json"
    if not path.exists():
        raise RunError(f"{folder} holds no finished run: it has no summary.json")
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    if not isinstance(summary, dict):
        raise RunError(f"cannot read {path}: it must name results by measure")
    return summary
