"""The numbers of a round that a tracker draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["numbers_of"]


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """What a record says in numbers: loss, accuracy and metrics where evaluated, counts, the solver's value and gap."""
    solution = record.get("solution") or {}
    found = {"loss": record["loss"], "accuracy": record["accuracy"], **record.get("metrics", {})}
    found |= {f"clients/{name}": len(record[name]) for name in ("available", "selected", "returned", "failed")}
    found |= {f"solver/{name}": solution.get(name) for name in ("objective", "bound", "gap")}
    found |= {f"seconds/{name}": record[f"{name}_seconds"] for name in ("select", "train")}
    return {name: float(value) for name, value in found.items() if value is not None}
