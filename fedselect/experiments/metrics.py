"""What the records of a run say about fairness, learning and the solver."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["round_table", "selection_counts", "summary"]


def selection_counts(records: Iterable[Mapping[str, Any]], clients: int) -> NDArray[np.int64]:
    """How often each client was selected, v, shape (clients,)."""
    counts = np.zeros(clients, dtype=np.int64)
    for record in records:
        counts[record["selected"]] += 1
    return counts


def round_table(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a round: loss, accuracy, numbers of available and selected clients, gap, status and seconds."""
    rows = []
    for record in records:
        solution = record["solution"] or {}
        rows.append(
            {
                "round": record["round"],
                "loss": record["loss"],
                "accuracy": record["accuracy"],
                "available": len(record["available"]),
                "selected": len(record["selected"]),
                "returned": len(record["returned"]),
                "objective": solution.get("objective"),
                "bound": solution.get("bound"),
                "gap": solution.get("gap"),
                "status": solution.get("status"),
                "solve_seconds": solution.get("seconds"),
                "select_seconds": record["select_seconds"],
                "train_seconds": record["train_seconds"],
            }
        )
    return pd.DataFrame(rows)


def summary(records: list[dict[str, Any]], clients: int) -> dict[str, Any]:
    """The run in a few numbers.

    Parameters
    ----------
    records : list of dict
        Records of every round, as in ``rounds.jsonl``.
    clients : int
        Number of clients N.

    Returns
    -------
    dict
        ``count_variance`` is FedGS's Eq. 6 (divisor N - 1); ``mean_gap`` and ``proved`` (share of rounds proved
        optimal) are ``None`` for selectors that do not optimise; ``median_solve_seconds`` likewise.
    """
    counts = selection_counts(records, clients)
    table = round_table(records)
    gaps = table["gap"].dropna().astype(float)
    solved = table["status"].dropna()
    seconds = table["solve_seconds"].dropna().astype(float)
    return {
        "rounds": len(records),
        "count_variance": float(counts.var(ddof=1)) if clients > 1 else math.nan,
        "count_min": int(counts.min()),
        "count_max": int(counts.max()),
        "final_loss": records[-1]["loss"],
        "final_accuracy": records[-1]["accuracy"],
        "mean_gap": float(gaps.mean()) if len(gaps) else None,
        "max_gap": float(gaps.max()) if len(gaps) else None,
        "proved": float((solved == "optimal").mean()) if len(solved) else None,
        "median_solve_seconds": float(seconds.median()) if len(seconds) else None,
        "max_solve_seconds": float(seconds.max()) if len(seconds) else None,
    }
