r"""A benchmark in a table: shifted geometric means, proved counts, primal integrals, and the page made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHIFT", "page", "shifted_geometric_mean", "summary"]

#: Seconds by which times are shifted, so that differences of milliseconds do not count.
SHIFT = 1.0


def shifted_geometric_mean(values: ArrayLike, shift: float = SHIFT) -> float:
    r""":math:`\exp(\operatorname{mean} \log(t + s)) - s`; NaN of nothing."""
    times = np.asarray(values, dtype=np.float64)
    return float(np.exp(np.log(times + shift).mean()) - shift) if times.size else float("nan")


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a time limit and method.

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.

    Returns
    -------
    DataFrame
        ``time_limit, method, rows, ok``; ``proved`` by our own check of bound and objective and ``native`` by what the
        backend says of itself; ``mean_all`` the shifted geometric mean of the seconds to a proof, the limit where there
        is none; ``mean_common`` the same over the races that every method with a proof in this limit has proved, and
        ``common`` how many those are; ``best`` how often the best known value was reached, and the mean
        ``primal_integral`` (seconds).
    """
    import pandas as pd

    rows = []
    for limit, block in table.groupby("time_limit", dropna=False):
        proved = block.assign(done=(block["verdict"] == "ok") & block["time_to_proof"].notna())
        race = proved.groupby(["instance", "seed"])
        able = proved.loc[proved["done"], "method"].nunique()
        shared = race["done"].sum() == able if able else race["done"].sum() < 0
        common = set(shared[shared].index)
        for method, group in proved.groupby("method", sort=False):
            time = group["time_to_proof"].where(group["done"], group["time_limit"].fillna(group["seconds"]))
            inside = np.array([key in common for key in zip(group["instance"], group["seed"], strict=True)])
            both = group[inside & group["done"]]
            rows.append(
                {
                    "time_limit": limit,
                    "method": method,
                    "rows": len(group),
                    "ok": int((group["verdict"] == "ok").sum()),
                    "proved": int(group["done"].sum()),
                    "native": int((group["native_status"] == "optimal").sum()),
                    "mean_all": shifted_geometric_mean(time.dropna()),
                    "mean_common": shifted_geometric_mean(both["time_to_proof"]),
                    "common": len(both),
                    "best": int((group["gap_to_best"] <= 1e-6).sum()),
                    "primal_integral": float(group["primal_integral"].mean()),
                }
            )
    return pd.DataFrame(rows)


def page(title: str, facts: dict[str, str], sums: pd.DataFrame) -> str:
    """The page of a run, in Markdown: machine and versions, then the table of `summary`."""
    lines = [f"# {title}", "", *(f"* {name}: {value}" for name, value in facts.items()), ""]
    lines += ["| " + " | ".join(sums.columns) + " |", "|" + " --- |" * len(sums.columns)]
    for row in sums.itertuples(index=False):
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    lines += [
        "",
        f"Means are shifted geometric ones of the seconds to a proof, shift {SHIFT:g} s: over all races, with the "
        "limit where nothing was proved, and over the races that every method with any proof has proved.",
    ]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
