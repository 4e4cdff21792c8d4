"""Sums of a benchmark: profiles, wins, gap over time, cost against size, means for each limit, and lost races.

Rows that answer a relaxation in real numbers take no part. A row whose verdict is not "ok" counts as a failure, and
`lost` leaves it out. In `summary` both count, but prove nothing. What a method did not take (`taken`) is a failure in
profiles and costs alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.benchmark.table import primal_gap
from solvers.errors import BenchmarkError
from solvers.solution import OPTIMALITY_GAP, relative_gap

if TYPE_CHECKING:
    import pandas as pd

Measure = Literal["time_to_proof", "time_to_incumbent", "seconds", "primal_integral", "gap", "gap_to_best"]

#: What one race is: methods are compared within one of these.
_RACE = ["instance", "seed", "time_limit"]

#: Gaps below this are proofs, or ties, up to rounding; times have no such floor.
_FLOORS = {"gap": OPTIMALITY_GAP, "gap_to_best": OPTIMALITY_GAP}

#: Verdicts of rows that count neither for nor against a method: a licence that does not take the problem, no package.
_NOT_TAKEN = ("refused", "missing")


def performance_profile(table: pd.DataFrame, measure: Measure = "time_to_proof") -> pd.DataFrame:
    r"""Compute Dolan and Moré's performance profile: the share of races a method ends within a factor of the best.

    .. math:: r_{p,s} = \frac{t_{p,s}}{\min_s t_{p,s}}, \qquad
              \rho_s(\tau) = \frac{|\{p : r_{p,s} \le \tau\}|}{|P|}

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.
    measure : str
        The column t, where less is better; ``time_to_proof`` by default. Gaps count as at least 1e-6, so that a ratio
        of two proofs is one.

    Returns
    -------
    DataFrame
        ``method, ratio, share``: the steps of each ρ, from ratio 1 on. Races are (instance, seed, time limit), those
        that no method finishes included: ρ ends at the share that a method finished, without those in which another
        one's value is 0.

    Raises
    ------
    BenchmarkError
        When there is no such measure.

    References
    ----------
    E. D. Dolan and J. J. Moré, "Benchmarking optimization software with performance profiles", Mathematical
    Programming 91:201-213, 2002, doi:10.1007/s101070100263.
    """
    import pandas as pd

    values = _races(table, measure).replace(math.inf, math.nan)  # an infinite gap reaches no ratio
    best = values.min(axis=1)
    # The best of a race stands at 1 even where it took no time at all; then the others are infinitely worse.
    ratios = values.div(best, axis=0).mask(values.eq(best, axis=0), 1.0)
    steps = []
    for method in ratios:
        reached = np.sort(ratios[method].dropna().to_numpy())
        reached = reached[np.isfinite(reached)]
        ratio, count = np.unique(np.append(reached, 1.0), return_counts=True)
        count[0] -= 1  # the 1 that was added, so that every curve begins there
        steps.append(pd.DataFrame({"method": method, "ratio": ratio, "share": np.cumsum(count) / len(ratios)}))
    return pd.concat(steps, ignore_index=True) if steps else pd.DataFrame(columns=["method", "ratio", "share"])


def win_matrix(
    table: pd.DataFrame, measure: Measure = "gap_to_best", tolerance: float = OPTIMALITY_GAP
) -> pd.DataFrame:
    """Count how often each method beat each other one, on the races that both have a row in.

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.
    measure : str
        The column that decides, where less is better.
    tolerance : float
        Values closer than this are a tie. A method that failed loses to one that did not; a race that one of the two
        did not take (a licence refuses it, a package is missing) is none of theirs.

    Returns
    -------
    DataFrame
        ``method, against, wins, ties, losses``, for every ordered pair.

    Raises
    ------
    BenchmarkError
        When there is no such measure.
    """
    import pandas as pd

    values, present = _races(table, measure, floor=False), _present(table)
    failed = values.isna()
    rows = []
    for first in values:
        for second in values:
            if first == second:
                continue
            both = present[first] & present[second]
            a, b = values.loc[both, first], values.loc[both, second]
            a_failed, b_failed = failed.loc[both, first], failed.loc[both, second]
            wins = int(((b - a > tolerance) | (~a_failed & b_failed)).sum())
            losses = int(((a - b > tolerance) | (a_failed & ~b_failed)).sum())
            rows.append((first, second, wins, int(both.sum()) - wins - losses, losses))
    return pd.DataFrame(rows, columns=["method", "against", "wins", "ties", "losses"])


def gap_over_time(
    table: pd.DataFrame,
    traces: pd.DataFrame,
    to: Literal["best", "bound"] = "best",
    band: tuple[float, float] = (0.25, 0.75),
    points: int = 100,
) -> pd.DataFrame:
    """Return the gap of the incumbent as seconds pass: median over the rows of a method, and a band around it.

    Parameters
    ----------
    table, traces : DataFrame
        Of a `Benchmark`.
    to : {"best", "bound"}
        `solvers.benchmark.primal_gap` to the best known value; or the gap to the method's own bound at that second,
        `solvers.relative_gap`, 1 at most.
    band : pair of float
        Quantiles of the band.
    points : int
        Seconds to look at, evenly spaced on a logarithmic scale.

    Returns
    -------
    DataFrame
        ``method, second, median, low, high, rows``. The gap is 1 until there is one, and stays where it was when a
        method ends. Rows that failed count as 1 throughout; races that a method did not take are left out, and for
        "best" those without a best known value.
    """
    import pandas as pd

    table = taken(_ranked(table))
    columns = ["method", "second", "median", "low", "high", "rows"]
    # A race without any best known value has no gap to speak of.
    table = table[table["best_known"].notna()] if to == "best" else table
    if table.empty:
        return pd.DataFrame(columns=columns)
    steps = dict(iter(_with_limit(traces).groupby(["method", *_RACE])))
    first = traces["second"][traces["second"] > 0].min()
    last = np.nanmax([table["time_limit"].max(), table["seconds"].max()])
    grid = np.geomspace(min(first, last / 2) if first == first else last / 1000, last, points)
    curves: dict[str, list[NDArray[np.float64]]] = {}
    for row in _with_limit(table).itertuples():
        trace = steps.get((row.method, row.instance, row.seed, row.time_limit))
        failed = trace is None or row.verdict != "ok"
        curve = np.ones(points) if failed else _curve(trace, grid, row.best_known if to == "best" else None)
        curves.setdefault(row.method, []).append(curve)
    parts = []
    for method, many in curves.items():
        low, median, high = np.quantile(np.array(many), [band[0], 0.5, band[1]], axis=0)
        parts.append(
            pd.DataFrame(
                {"method": method, "second": grid, "median": median, "low": low, "high": high, "rows": len(many)}
            )
        )
    return pd.concat(parts, ignore_index=True)


def cost_against_size(table: pd.DataFrame, measure: Measure = "seconds") -> pd.DataFrame:
    """Sum a measure up by size of the problem: median, lowest and highest over the rows of a method that were solved.

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.
    measure : str
        The column.

    Returns
    -------
    DataFrame
        ``method, n, median, low, high, rows, failed``, the last of them the rows that have no such value.
    """
    import pandas as pd

    rows = []
    for (method, n), group in _ranked(table).sort_values("n", kind="stable").groupby(["method", "n"], sort=False):
        values = group.loc[group["verdict"] == "ok", measure].dropna()
        spread = (values.median(), values.min(), values.max()) if len(values) else (math.nan,) * 3
        rows.append((method, n, *spread, len(values), len(group) - len(values)))
    return pd.DataFrame(rows, columns=["method", "n", "median", "low", "high", "rows", "failed"])


def taken(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a method took, solved or not."""
    return table[~table["verdict"].isin(_NOT_TAKEN)]


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["relaxed"]]


def _races(table: pd.DataFrame, measure: str, floor: bool = True) -> pd.DataFrame:
    """Return the measure with a race per row and a method per column, in the table's order; NaN where one failed."""
    if measure not in Measure.__args__:  # type: ignore[attr-defined]
        raise BenchmarkError(f"measure must be one of {', '.join(Measure.__args__)}; got {measure!r}")  # type: ignore[attr-defined]
    ranked = _ranked(table)
    values = ranked[measure].where(ranked["verdict"] == "ok")
    if floor and measure in _FLOORS:
        values = values.clip(lower=_FLOORS[measure])
    return _pivot(ranked.assign(value=values))


def _present(table: pd.DataFrame) -> pd.DataFrame:
    ranked = _ranked(table)
    return _pivot(ranked.assign(value=np.where(ranked["verdict"].isin(_NOT_TAKEN), np.nan, 1.0))).notna()


def _pivot(table: pd.DataFrame) -> pd.DataFrame:
    wide = _with_limit(table).set_index([*_RACE, "method"])["value"].unstack("method")
    return wide[list(dict.fromkeys(table["method"]))]


def _with_limit(frame: pd.DataFrame) -> pd.DataFrame:
    """No limit is a limit like any other in a key; NaN would not be equal to itself."""
    return frame.assign(time_limit=frame["time_limit"].fillna(math.inf))


def _curve(trace: pd.DataFrame, grid: NDArray[np.float64], best: float | None) -> NDArray[np.float64]:
    """Return the gap at each second of the grid, read off the steps of a trace."""
    gaps = [1.0]
    for objective, bound in zip(trace["objective"], trace["bound"], strict=True):
        if math.isnan(objective):
            gaps.append(1.0)
        elif best is not None:
            gaps.append(primal_gap(objective, best))
        else:
            gaps.append(1.0 if math.isnan(bound) else min(1.0, relative_gap(objective, bound)))
    return np.array(gaps)[np.searchsorted(trace["second"].to_numpy(), grid, side="right")]


#: Seconds by which times are shifted, so that differences of milliseconds do not count.
SHIFT = 1.0


def shifted_geometric_mean(values: ArrayLike, shift: float = SHIFT) -> float:
    r""":math:`\exp(\operatorname{mean} \log(t + s)) - s`; NaN of nothing."""
    times = np.asarray(values, dtype=np.float64)
    return float(np.exp(np.log(times + shift).mean()) - shift) if times.size else float("nan")


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Sum a benchmark up in one row per time limit and method.

    Parameters
    ----------
    table : DataFrame
        A benchmark's table.

    Returns
    -------
    DataFrame
        ``time_limit, method, rows, ok``; ``proved`` by our own check of bound and objective and ``native`` by what the
        backend says of itself; ``mean_all`` the shifted geometric mean of the seconds to a proof, where there is none
        the limit (without one the solve's seconds); ``mean_common`` the same over the races that every method with a
        proof in this limit has proved, and ``common`` how many those are; ``best`` how often the best known value was
        reached, the mean ``primal_integral`` (seconds) and that of the table's first method over the same races,
        ``primal_of_first``, the mean processor seconds, ``cpu_seconds``, and how many solves were ``late``: beyond
        their limit by more than 10 % and by more than 0.2 s. Means are over the races that the method took (`taken`).
    """
    import pandas as pd

    rows = []
    for limit, block in table.groupby("time_limit", dropna=False):
        proved = block.assign(done=(block["verdict"] == "ok") & block["time_to_proof"].notna())
        race = proved.groupby(["instance", "seed"])
        able = proved.loc[proved["done"], "method"].nunique()
        shared = race["done"].sum() == able if able else race["done"].sum() < 0
        common = set(shared[shared].index)
        first = block[block["method"] == block["method"].iloc[0]].set_index(["instance", "seed"])["primal_integral"]
        for method, group in proved.groupby("method", sort=False):
            own = taken(group)
            time = own["time_to_proof"].where(own["done"], own["time_limit"].fillna(own["seconds"]))
            there = first.reindex(pd.MultiIndex.from_frame(own[["instance", "seed"]]))
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
                    "primal_integral": float(own["primal_integral"].mean()),
                    "primal_of_first": float(there.mean()),
                    "cpu_seconds": float(own["cpu_seconds"].mean()),
                    "late": int(
                        (group["seconds"] > group["time_limit"] + np.maximum(0.2, 0.1 * group["time_limit"])).sum()
                    ),
                }
            )
    return pd.DataFrame(rows)


def lost(table: pd.DataFrame, ours: str = "auto", others: Callable[[str], bool] | None = None) -> pd.DataFrame:
    """Return the races in which another method did better than ``ours``, of those in which ours gave a sound answer.

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
        (seconds to a proof: less than half of ours, and 0.1 s less), "decision" (objectives, by more than 1e-6 of the
        best known) or "bound" (gaps of what none proved, less than 0.9 of ours); ``by`` is the best of them. One row
        per race, the first of these that holds.
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
    """Return how another row is better, which method's, and both numbers; None where none is."""
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
