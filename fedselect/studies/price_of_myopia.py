"""The price of myopia: what a selector loses that decides round by round, against one that knows who will be there.

Selectors balance how often each client is selected, and see one round at a time. Where availability is known for all
rounds, the most even counts are a flow, solved exactly (`solvers.schedule`): no selector reaches a smaller variance.
Between the two stand planners that look some rounds ahead, plan these exactly, select as planned for one, and plan
anew: by who will really be there, or by a forecast. The forecast knows each chain's rates and who is there now, and
takes for there who is there with probability above one half.

100 clients, 10 a round. The unit of replication is a draw of the availability; ratios to the clairvoyant's variance are
paired by it, with 95 % intervals of Student's t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedselect.availability import AVAILABILITY, TwoState
from fedselect.data import digits
from fedselect.statistics import half_width
from fedselect.studies.study import Parts, Picture, Setup, Study, Table
from solvers import solve
from solvers.schedule import ScheduleProblem

#: Availability by name: registered name and options.
AVAILABILITIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "LN 0.5": ("lognormal", {"beta": 0.5}),
    "SLN 0.5": ("sin-lognormal", {"beta": 0.5}),
    "chains, 0.9 and 0.1 there, λ = 0.9 or 0": ("ca-fed", {}),
    "chains, half the time there, λ = 0.9": ("markov", {"rate": 0.5, "correlation": 0.9}),
    "ten groups over a day": ("group-trace", {}),
}

ROUND_BY_ROUND, CLAIRVOYANT = "round by round", "clairvoyant"


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    rounds: int
    draws: int
    horizons: tuple[int, ...]
    n_clients: int = 100
    size: int = 10


QUICK = Scale(rounds=100, draws=20, horizons=(2, 5, 10))
PAPER = Scale(rounds=1000, draws=50, horizons=(2, 5, 10, 50))


def forecast(chains: TwoState, there: NDArray[np.bool_], horizon: int) -> NDArray[np.bool_]:
    r"""Predict who is there in the next ``horizon`` rounds, the present one first: those with probability above 1/2.

    .. math:: P(k \in A_{t+h} \mid A_t) = \pi_k + \lambda_k^h \, ([k \in A_t] - \pi_k)

    Parameters
    ----------
    chains : TwoState
        Knows π and λ.
    there : (N,) ndarray of bool
        Who is there now.
    horizon : int
        Rounds, the present one among them.

    Returns
    -------
    (horizon, N) ndarray of bool
        The first row is ``there``.
    """
    steps = np.arange(horizon)[:, None]
    chance = chains.stationary + chains.correlation**steps * (there - chains.stationary)
    chance[0] = there
    return chance > 0.5


def with_forecast(chains: TwoState, available: NDArray[np.bool_], size: int, horizon: int) -> NDArray[np.int64]:
    """Plan ``horizon`` forecast rounds exactly, select as planned for one, and plan anew; return the turns, (N,)."""
    counts = np.zeros(available.shape[1], dtype=np.int64)
    for t, there in enumerate(available):
        expected = forecast(chains, there, min(horizon, len(available) - t))
        expected = expected[expected.any(axis=1)]  # the problem has no rounds without clients
        if there.any():
            plan = solve(ScheduleProblem(expected, size, counts), seed=t).x
            assert plan is not None
            counts += np.asarray(plan[0], dtype=np.int64)
    return counts


def priced(name: str, n: int, size: int, rounds: int, horizons: tuple[int, ...], draw: int) -> pd.DataFrame:
    """Play one draw of the availability; a row per planner with the variance of the counts."""
    registered, options = AVAILABILITIES[name]
    federation = digits(n_clients=n)
    model = AVAILABILITY.build(registered, federation, draw, **options)
    available = np.array([model.available(t) for t in range(rounds)])
    problem = ScheduleProblem(available, size)
    planners = {ROUND_BY_ROUND: solve(problem, method="round-by-round", seed=draw)}
    planners |= {f"{h} rounds known": solve(problem, method="rolling", horizon=h, seed=draw) for h in horizons}
    planners[CLAIRVOYANT] = solve(problem, seed=draw)
    found = {planner: (solution.objective, solution.status) for planner, solution in planners.items()}
    if isinstance(model, TwoState):
        for h in horizons:
            turns = with_forecast(model, available, size, h)
            found[f"{h} rounds forecast"] = (problem.variance(turns), "feasible")
    return pd.DataFrame(
        {"availability": name, "draw": draw, "planner": planner, "variance": variance, "status": status}
        for planner, (variance, status) in found.items()
    )


def prices(rows: pd.DataFrame) -> pd.DataFrame:
    """Average variances over draws, with their ratios to the clairvoyant's; infinite where that is 0 in some draw."""
    best = rows[rows["planner"] == CLAIRVOYANT].set_index(["availability", "draw"])["variance"]
    theirs = best.reindex(pd.MultiIndex.from_frame(rows[["availability", "draw"]])).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(rows["variance"].to_numpy() == theirs, 1.0, rows["variance"].to_numpy() / theirs)
    found = []
    for key, part in rows.assign(ratio=ratio).groupby(["availability", "planner"], sort=False):
        finite = bool(np.isfinite(part["ratio"]).all())
        found.append(
            dict(zip(["availability", "planner"], key, strict=True))
            | {"variance": part["variance"].mean(), "± variance": half_width(part["variance"])}
            | {"of clairvoyant's": part["ratio"].mean() if finite else np.inf}
            | {"±": half_width(part["ratio"]) if finite else np.nan}
            | {"draws": len(part), "proved": int((part["status"] == "optimal").sum())}
        )
    return pd.DataFrame(found)


def price_figure(table: pd.DataFrame, horizons: tuple[int, ...]) -> Figure:
    """Draw the variance over the clairvoyant's by the rounds that a planner looks ahead; forecasts are dashed."""
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axis = figure.subplots()
    known = [ROUND_BY_ROUND, *(f"{h} rounds known" for h in horizons)]
    guessed = [ROUND_BY_ROUND, *(f"{h} rounds forecast" for h in horizons)]
    for colour, (name, part) in zip(
        ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73"), table.groupby("availability", sort=False), strict=False
    ):
        cells = part.set_index("planner")
        if not np.isfinite(cells["of clairvoyant's"]).all():
            name = f"{name} (clairvoyant: 0)"
        for planners, dashes in ((known, "-"), (guessed, "--")):
            if planners[-1] in cells.index:
                y, half = (cells.loc[planners, column].to_numpy(dtype=float) for column in ("of clairvoyant's", "±"))
                label = name if dashes == "-" else None
                axis.errorbar(
                    range(len(y)), y, half, color=colour, linestyle=dashes, marker=".", elinewidth=0.6, label=label
                )
    axis.axhline(1.0, color="grey", linewidth=0.6)
    axis.set_xticks(range(len(known)), ["1", *map(str, horizons)])
    axis.set_xlabel("rounds that the planner looks at (dashed: forecast, not known)")
    axis.set_ylabel("variance of the counts,\nof the clairvoyant optimum's")
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    return figure


def draws(setup: Setup[Scale]) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Plan every draw of every availability, by its place."""
    scale = setup.scale
    return {
        (place, draw): (name, scale.n_clients, scale.size, scale.rounds, scale.horizons, draw)
        for draw in range(scale.draws)
        for place, name in enumerate(AVAILABILITIES)
    }


def results(setup: Setup[Scale]) -> Iterator[Table | Picture | str]:
    """Yield table and figure."""
    scale, table = setup.scale, prices(pd.concat(setup["draws"].values()))
    yield Table(table, f"Variance of the counts after {scale.rounds} rounds, by what the planner knows", "prices", 2)
    yield Picture(price_figure(table, scale.horizons), "prices")


STUDY = Study(__doc__, QUICK, PAPER, results, data={"draws": Parts(draws, priced)})
