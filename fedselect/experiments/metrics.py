"""Measures of a run: fairness, participation, learning, decisions of the solver."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.history import History
from solvers import solve
from solvers.participation import second_moment, weight_error
from solvers.schedule import ScheduleProblem

__all__ = [
    "absences",
    "client_curves",
    "client_table",
    "effective_participation",
    "jain_index",
    "late_deviation",
    "learning_curve",
    "least_count_variance",
    "mean_weight_sum",
    "proof_cost",
    "realised_importance",
    "round_table",
    "rounds_to",
    "second_moment",
    "seconds_to",
    "selection_counts",
    "success_ratio",
    "summary",
    "total_variation",
    "weight_error",
]

#: Objectives up to this are zero but for rounding, and no unit to state a gap in.
_ROUNDING = 1e-12

#: Proofs are notable that took so many seconds, and such a share of a run: below, a heuristic would save nothing.
_NOTABLE_SECONDS, _NOTABLE_SHARE = 1.0, 0.1


# -- participation and fairness ------------------------------------------------------------------------------------


def selection_counts(records: Iterable[Mapping[str, Any]], n_clients: int) -> NDArray[np.int64]:
    """Count how often each client was selected, v, shape (N,)."""
    return History.from_records(records, n_clients).counts


def jain_index(counts: ArrayLike) -> float:
    r"""Jain's fairness index :math:`(\sum_k v_k)^2 / (N \sum_k v_k^2)`: 1 when all are equal, 1/N when one has all.

    Jain, Chiu and Hawe, DEC TR-301, 1984. NaN when all counts are zero.
    """
    v = np.asarray(counts, dtype=np.float64)
    squares = float((v**2).sum())
    return float(v.sum()) ** 2 / (v.size * squares) if squares else math.nan


#: Rounds times clients up to which the least variance of the counts is found, and not only bounded; some seconds.
_LARGEST_SCHEDULE = 1_000_000


def least_count_variance(records: Sequence[Mapping[str, Any]], n_clients: int) -> float:
    """Least variance of the counts that any schedule reaches that selects as many clients in each round, divisor N - 1.

    In hindsight: the schedule knows all of the run's availability (`solvers.schedule.ScheduleProblem`). For more than
    a million rounds times clients it is a lower bound of that, of counts that add up.
    """
    sizes = np.array([len(record["selected"]) for record in records])
    if len(records) * n_clients > 50 * _LARGEST_SCHEDULE or n_clients < 2:
        return math.nan
    available = np.zeros((len(records), n_clients), dtype=np.bool_)
    for row, record in zip(available, records, strict=True):
        row[record["available"]] = True
    problem = ScheduleProblem(available, max(1, int(sizes.max())), sizes=sizes)
    exact = available.size <= _LARGEST_SCHEDULE
    least = solve(problem).objective if exact else problem.bound()
    assert least is not None
    return least * n_clients / (n_clients - 1)


def absences(history: History) -> NDArray[np.int64]:
    """Participation gap of each client: the most rounds in a row without an update of it, shape (N,).

    FedAU's intervals count the round of the return too, so the longest interval is one more; rounds before the first
    participation and after the last count here.
    """
    longest = np.zeros(history.n_clients, dtype=np.int64)
    next_due = np.zeros(history.n_clients, dtype=np.int64)  # the round after the last participation
    for t, (chosen, back) in enumerate(zip(history.selected, history.returned, strict=True)):
        here = chosen[back]
        longest[here] = np.maximum(longest[here], t - next_due[here])
        next_due[here] = t + 1
    return np.maximum(longest, history.rounds - next_due)


def effective_participation(history: History) -> NDArray[np.int64]:
    """Cumulative effective participation CEP_t: updates that arrived up to each round, shape (T,) (E3CS, Sec. VI)."""
    return np.cumsum([int(back.sum()) for back in history.returned], dtype=np.int64)


def success_ratio(history: History) -> NDArray[np.float64]:
    """Share of the selections up to each round whose update arrived, shape (T,); E3CS's CEP_T / (T k).

    The divisor is the number of selections made: T k, or less where fewer than k clients were available. NaN before
    the first selection.
    """
    made = np.cumsum([chosen.size for chosen in history.selected], dtype=np.float64)
    return np.divide(effective_participation(history), made, out=np.full(made.shape, np.nan), where=made > 0)


def mean_weight_sum(records: Sequence[Mapping[str, Any]]) -> float:
    """Mean over the rounds with a selection of the sum of the weights that were applied to updates; NaN without any.

    Rules whose sums differ take steps of different lengths, which their losses show, whatever they select.
    """
    sums = [math.fsum(record["applied"]) for record in records if record["selected"]]
    return math.fsum(sums) / len(sums) if sums else math.nan


def realised_importance(history: History) -> NDArray[np.float64]:
    """Compute each client's share of all applied weights, shape (N,): the objective in effect (CA-Fed, Fig. 2).

    NaN when the applied weights sum to zero.
    """
    total = history.total_weights
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / total.sum()


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    r"""Total variation distance :math:`\frac12 \sum_k |p_k - q_k|` of two importance vectors, in [0, 1]."""
    return 0.5 * float(np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)).sum())


# -- learning ------------------------------------------------------------------------------------------------------


def learning_curve(table: pd.DataFrame, column: str = "accuracy") -> pd.Series:
    """Return a column of a round table (see `round_table`) by round, counted from 1, where it was evaluated."""
    return table.set_index(table["round"] + 1)[column].dropna()


def late_deviation(values: ArrayLike) -> float:
    """Standard deviation (divisor n) of the second half of a curve, rounded up in length (CA-Fed, Table I).

    The paper does not say which divisor. NaN for an empty curve.
    """
    curve = np.asarray(values, dtype=np.float64)
    late = curve[curve.size // 2 :]
    return float(late.std()) if late.size else math.nan


def rounds_to(table: pd.DataFrame, target: float, column: str = "accuracy") -> int | None:
    """Count the rounds until a curve first reaches a target (FedSS: a loss; E3CS: an accuracy).

    Parameters
    ----------
    table : DataFrame
        From `round_table`.
    target : float
        Value to reach: at least it for ``"accuracy"``, at most it for ``"loss"``.
    column : {"accuracy", "loss"}
        Which curve.

    Returns
    -------
    int or None
        A count, so 1 when the first round suffices; None when it is never reached.

    Raises
    ------
    ConfigError
        When ``column`` is neither.
    """
    place = _first_reached("rounds_to", table, target, column)
    return None if place is None else int(table["round"].iloc[place]) + 1


def seconds_to(table: pd.DataFrame, target: float, column: str = "accuracy") -> float | None:
    """Return the seconds until a curve first reaches a target, on the clock of the run; None where it never does.

    Parameters are those of `rounds_to`; raises `ConfigError` for a run without a clock, too.
    """
    if "seconds" not in table:
        raise ConfigError("seconds_to needs a run with a clock: its configuration has no [clock]")
    place = _first_reached("seconds_to", table, target, column)
    return None if place is None else float(table["seconds"].iloc[place])


def _first_reached(name: str, table: pd.DataFrame, target: float, column: str) -> int | None:
    """Return the place of the first row that reaches a target."""
    if column not in ("accuracy", "loss"):
        raise ConfigError(f"{name} looks at 'accuracy' or 'loss'; got {column!r}")
    values = table[column].to_numpy(dtype=np.float64)
    reached = values >= target if column == "accuracy" else values <= target
    return int(np.argmax(reached)) if reached.any() else None


# -- tables --------------------------------------------------------------------------------------------------------


def round_table(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate records, one row per round: loss and accuracy where evaluated, numbers of clients, gap, seconds.

    Further metrics of the training are columns of their names behind these, NaN in rounds without an evaluation.
    """
    rows = []
    for record in records:
        solution = record["solution"] or {}
        row = {
            "round": record["round"],
            "loss": record["loss"],
            "accuracy": record["accuracy"],
            "available": len(record["available"]),
            "selected": len(record["selected"]),
            "returned": len(record["returned"]),
            "failed": len(record["failed"]),
            "objective": solution.get("objective"),
            "bound": solution.get("bound"),
            "gap": solution.get("gap"),
            "status": solution.get("status"),
            "solve_seconds": solution.get("seconds"),
            "select_seconds": record["select_seconds"],
            "train_seconds": record["train_seconds"],
        } | clock_columns(record)
        further = record.get("metrics", {})
        rows.append(row | {name: value for name, value in further.items() if name not in row})
    return pd.DataFrame(rows).astype({"loss": float, "accuracy": float})


#: Sums over a round's selected clients in ``clock`` of its record.
_SPENT = ("busy_seconds", "wasted_seconds", "sent_bytes", "wasted_bytes")


def clock_columns(record: Mapping[str, Any]) -> dict[str, float]:
    """Return what a round's record says of seconds, for a row of a table; nothing where it has no clock."""
    if "clock" not in record:
        return {}
    times = record["clock"]
    return {"seconds": record["seconds"], "late": len(times["late"]), **{name: times[name] for name in _SPENT}}


def clock_summary(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise the seconds of a run: length, rounds per hour, shares of wasted seconds and bytes, of stragglers."""
    if "seconds" not in table:
        return {}
    seconds, selected = float(table["seconds"].iloc[-1]), float(table["selected"].sum())
    spent = {name: float(table[name].sum()) for name in _SPENT}

    def share(part: float, whole: float) -> float | None:
        return part / whole if whole else None

    return {
        "seconds": seconds,
        "rounds_per_hour": share(3600.0 * len(table), seconds),
        "wasted_seconds": share(spent["wasted_seconds"], spent["busy_seconds"]),
        "wasted_bytes": share(spent["wasted_bytes"], spent["sent_bytes"]),
        "stragglers": share(float(table["late"].sum()), selected),
    }


def run_gaps(table: pd.DataFrame) -> pd.Series:
    """Compute each round's gap in units of the run: |bound − objective| over the mean |objective| of its rounds.

    A round's own objective is no measure where it may cross zero, as FedGS's does once counts weigh as much as
    distances. Where the mean itself is rounding (1e-12 at most), the unit is 1.

    Parameters
    ----------
    table : DataFrame
        A `round_table`.

    Returns
    -------
    Series
        NaN in rounds that have no bound.
    """
    objective, bound = table["objective"].astype(float), table["bound"].astype(float)
    unit = objective.abs().mean()
    return (bound - objective).abs() / (unit if unit > _ROUNDING else 1.0)


def proof_cost(records: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str | None:
    """Say in a line what proofs cost a run, and which setting asks for more or for less.

    Parameters
    ----------
    records : list of dict
        Records of rounds.
    options : mapping
        Options of the selector that decided them.

    Returns
    -------
    str or None
        None where no round has a bound, and where all were proved in less than a second or a tenth of the run.
    """
    bounded = [each["solution"] for each in records if (each["solution"] or {}).get("bound") is not None]
    open_ = [each for each in bounded if each["status"] != "optimal"]
    whole = sum(each["select_seconds"] + each["train_seconds"] for each in records)
    proved = sum(each["seconds"] for each in bounded if each["status"] == "optimal")
    if not open_:
        if proved < max(_NOTABLE_SECONDS, _NOTABLE_SHARE * whole):
            return None
        line = f"all {len(bounded)} rounds proved, in {proved:.3g} s of {whole:.3g} s of selecting and training"
        return f"{line}; a heuristic decides without proofs (fedgs: selector.method=local-search)"
    unproved = sum(each.get("details", {}).get("proof_seconds", each["seconds"]) for each in open_)
    line = f"{len(bounded) - len(open_)} of {len(bounded)} rounds proved, in {proved:.3g} s; the others' proofs took"
    line += f" {unproved:.3g} s"
    line += f" of {whole:.3g} s of selecting and training"
    if any("proof_seconds" in each.get("details", {}) for each in open_):
        return f"{line}; selector.time_limit=5 would spend up to 5 s on each, selector.method=local-search none"
    if "time_limit" in options:
        return f"{line}; without selector.time_limit they stay within a tenth of the run"
    return f"{line}; a shorter time limit, or a heuristic as selector.method, saves that"


def client_table(
    records: Sequence[Mapping[str, Any]],
    sizes: NDArray[np.int64],
    importance: NDArray[np.float64],
    scores: Mapping[str, NDArray[np.float64]],
) -> pd.DataFrame:
    """Tabulate clients: samples, rounds available, selected and returned, longest absence, importance, final scores."""
    history = History.from_records(records, len(sizes))
    late = np.zeros(len(sizes), dtype=np.int64)
    for record in records:
        late[record.get("clock", {}).get("late", [])] += 1
    table = pd.DataFrame(
        {
            "client": np.arange(len(sizes)),
            "samples": sizes,
            "available": history.available,
            "selected": history.counts,
            "returned": history.returns,
            "longest_absence": absences(history),
            "importance": importance,
            "realised_importance": realised_importance(history),
            **scores,
        }
    )
    return table.assign(late=late) if any("clock" in record for record in records) else table


def client_curves(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate the model's loss and accuracy at every client over the rounds in which they were evaluated.

    Returns
    -------
    DataFrame
        ``round`` (from 0), ``client``, ``loss``, ``accuracy``; without rows where no round has them
        (``training.evaluate_clients_every``).
    """
    parts = [
        pd.DataFrame({"round": record["round"], "client": np.arange(len(scores["loss"])), **scores})
        for record in records
        if (scores := record.get("client_scores"))
    ]
    columns = ["round", "client", "loss", "accuracy"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def summary(
    records: Sequence[Mapping[str, Any]],
    importance: NDArray[np.float64],
    scores: Mapping[str, NDArray[np.float64]] | None = None,
) -> dict[str, Any]:
    """Summarise a run in a few numbers.

    Parameters
    ----------
    records : list of dict
        Records of every round, as in ``rounds.jsonl``.
    importance : (N,) ndarray of float
        The objective's importance α of each client.
    scores : mapping of str to (N,) ndarray of float, optional
        Loss, accuracy and further metrics of the final model at each client (`FedAvg.client_scores`); NaN where it was
        not tested.

    Returns
    -------
    dict
        ``count_variance`` is FedGS's Eq. 6 (divisor N - 1), `least_count_variance` what hindsight would reach.
        ``weight_sum`` is `mean_weight_sum`; ``jain_index`` is of the selection counts;
        ``longest_absence`` the largest participation gap; ``returned`` and ``success_ratio`` are E3CS's CEP and its
        share of all selections; ``failed`` counts updates that were not finite; ``importance_distance`` is the total
        variation between target and realised importance. ``best_*`` are the extremes over rounds, ``mean_accuracy``
        the time average and ``late_accuracy_deviation`` the second half's standard deviation (CA-Fed, Table I).
        ``client_*`` say how the final model serves the clients. ``mean_gap`` and ``max_gap`` are `run_gaps`, in units
        of the run's mean |objective|; these, ``proved`` (share of rounds proved optimal) and the seconds are ``None``
        for selectors that do not optimise. With a clock, ``seconds`` is the length of the run, ``wasted_seconds`` and
        ``wasted_bytes`` the shares of clients' work whose update was not used, and ``stragglers`` the share of the
        selected that were late.
    """
    history = History.from_records(records, len(importance))
    counts = history.counts
    table = round_table(records)
    curve = table[["loss", "accuracy"]].dropna(how="all")
    gaps = run_gaps(table).dropna()
    solved = table["status"].dropna()
    seconds = table["solve_seconds"].dropna().astype(float)
    results: dict[str, Any] = {
        "rounds": len(records),
        "count_variance": float(counts.var(ddof=1)) if len(counts) > 1 else None,
        "least_count_variance": _number(least_count_variance(records, len(importance))),
        "count_min": int(counts.min()),
        "count_max": int(counts.max()),
        "jain_index": _number(jain_index(counts)),
        "longest_absence": int(absences(history).max()),
        "returned": int(history.returns.sum()),
        "success_ratio": _number(float(success_ratio(history)[-1])),
        "failed": int(table["failed"].sum()),
        "weight_sum": _number(mean_weight_sum(records)),
        "importance_distance": _number(total_variation(importance, realised_importance(history))),
        "final_loss": float(table["loss"].iloc[-1]),
        "final_accuracy": _number(float(table["accuracy"].iloc[-1])),
        "best_loss": float(curve["loss"].min()),
        "best_accuracy": _number(float(curve["accuracy"].max())),
        "mean_accuracy": _number(float(curve["accuracy"].mean())),
        "late_accuracy_deviation": _number(late_deviation(curve["accuracy"])),
    }
    results |= {f"final_{name}": value for name, value in records[-1].get("metrics", {}).items()}
    if scores is not None:
        losses, accuracies = scores["loss"], scores["accuracy"]
        results |= {
            "client_loss_mean": _number(float(pd.Series(losses).mean())),  # a client without tests has no score
            "client_loss_worst": _number(float(pd.Series(losses).max())),
            "client_accuracy_mean": _number(float(pd.Series(accuracies).mean())),
            "client_accuracy_worst": _number(float(pd.Series(accuracies).min())),
        }
    return results | {
        "mean_gap": _number(float(gaps.mean())) if len(gaps) else None,
        "max_gap": _number(float(gaps.max())) if len(gaps) else None,
        "proved": float((solved == "optimal").mean()) if len(solved) else None,
        "median_solve_seconds": float(seconds.median()) if len(seconds) else None,
        "max_solve_seconds": float(seconds.max()) if len(seconds) else None,
        **clock_summary(table),
    }


def _number(value: float) -> float | None:
    """Return a number that JSON has; None for NaN and infinity."""
    return value if math.isfinite(value) else None
