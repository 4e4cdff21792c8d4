r"""A benchmark in tables: shifted geometric means, proved counts, primal integrals; and the races that we lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHIFT", "lost", "shifted_geometric_mean", "summary"]

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
        ``common`` how many those are; ``best`` how often the best known value was reached, the mean
        ``primal_integral`` (seconds), the mean processor seconds, ``cpu_seconds``, and how many solves were ``late``:
        more than 10 % or 0.2 s beyond their limit.
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
                    "cpu_seconds": float(group["cpu_seconds"].mean()),
                    "late": int(
                        (group["seconds"] > group["time_limit"] + np.maximum(0.2, 0.1 * group["time_limit"])).sum()
                    ),
                }
            )
    return pd.DataFrame(rows)


def lost(table: pd.DataFrame, ours: str = "auto", others: Callable[[str], bool] | None = None) -> pd.DataFrame:
    """The races in which another method did better than ``ours``.

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.
    ours : str
        The method that is looked at.
    others : callable, optional
        Which of the other methods count, by label; all if left out.

    Returns
    -------
    DataFrame
        ``time_limit, instance, seed, how, by, theirs, ours``: ``how`` is "proof" (seconds, ours missing), "sooner"
        (seconds to a proof: less than half of ours, and 0.1 s less), "decision" (objectives, by more than 1e-6) or
        "bound" (gaps of what nobody proved, less than 0.9 of ours); ``by`` is the best of them. One row a race, the
        first of these that holds.
    """
    import pandas as pd

    sound = table[(table["verdict"] == "ok") & ~table["relaxed"]]
    rows = []
    for (limit, instance, seed), race in sound.groupby(["time_limit", "instance", "seed"], dropna=False, sort=False):
        own, rest = race[race["method"] == ours], race[race["method"] != ours]
        rest = rest if others is None else rest[rest["method"].map(others)]
        if own.empty or rest.empty:
            continue
        found = _better(own.iloc[0], rest)
        if found is not None:
            rows.append((limit, instance, seed, *found))
    return pd.DataFrame(rows, columns=["time_limit", "instance", "seed", "how", "by", "theirs", "ours"])


def _better(own: pd.Series, rest: pd.DataFrame) -> tuple[str, str, float, float] | None:
    """Say how a bound was refuted, by which row, with the two numbers."""
    seconds, mine = rest["time_to_proof"], float(own["time_to_proof"])
    if seconds.notna().any():
        first = rest.loc[seconds.idxmin()]
        least = float(first["time_to_proof"])
        if np.isnan(mine):
            return "proof", first["method"], least, mine
        if least < min(0.5 * mine, mine - 0.1):
            return "sooner", first["method"], least, mine
    away = rest["gap_to_best"]
    if away.notna().any() and not float(own["gap_to_best"]) <= float(away.min()) + 1e-6:
        first = rest.loc[away.idxmin()]
        return "decision", first["method"], float(first["objective"]), float(own["objective"])
    gaps = rest["gap"]
    if np.isnan(mine) and gaps.notna().any() and not float(gaps.min()) >= 0.9 * float(own["gap"]):
        first = rest.loc[gaps.idxmin()]
        return "bound", first["method"], float(first["gap"]), float(own["gap"])
    return None
