"""Measures: what is recorded of rounds, clients, models and runs.

A `Measure` is a column or a number of what shows it: ``metrics.csv`` (of a round), ``clients.csv`` (of a
client), ``summary.json``, the tables of a comparison, paired differences, the glossary of a page, ``fedselect list
measure``. One of a user's own is a decorated function, in a script or in one that ``--load`` names::

    @measure("f2", of="model", better="more")
    def f2(outputs, labels):
        "Macro F2 of the answers."
        return fbeta_score(labels, outputs.argmax(1), beta=2, average="macro")
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.rounds.history import History
from fedselect.training.losses import METRICS, whole_set
from solvers import solve
from solvers.participation import second_moment, weight_error
from solvers.schedule import ScheduleProblem

if TYPE_CHECKING:  # it takes a quarter of a second, and shells ask for names of measures
    import pandas as pd

__all__ = [
    "MEASURES",
    "Measure",
    "RunData",
    "absences",
    "client_rounds",
    "client_table",
    "effective_participation",
    "gini",
    "jain_index",
    "late_deviation",
    "learning_curve",
    "least_count_variance",
    "mean_weight_sum",
    "measure",
    "measures_of",
    "proof_cost",
    "realised_importance",
    "round_row",
    "round_table",
    "rounds_to",
    "run_gaps",
    "run_measures",
    "second_moment",
    "seconds_to",
    "selection_counts",
    "success_ratio",
    "summary",
    "total_variation",
    "weight_error",
    "worst_tenth",
]

#: Objectives up to this are zero but for rounding, and no unit to state a gap in.
_ROUNDING = 1e-12

#: Proofs are notable that took so many seconds, and such a share of a run: below, a heuristic would save nothing.
_NOTABLE_SECONDS, _NOTABLE_SHARE = 1.0, 0.1

Of = Literal["model", "round", "client", "run"]
Table = Literal["results", "differences", "course", "seconds", "runs"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Measure:
    """What is measured, how, and how it is shown.

    Attributes
    ----------
    name : str
        Name in records, in JSON and in columns of CSV files.
    title : str
        Heading in the tables of a page.
    of : {"model", "round", "client", "run"}
        What is measured. A measure of a model is evaluated on the server's test set and on the samples of each client;
        it gives columns ``NAME`` of rounds and clients, and measures of a run, ``final_NAME``, ``client_NAME_mean``
        and, where less or more is better, ``client_NAME_worst``, ``_worst_tenth``, ``_deviation`` and ``_gini``.
    compute : callable, optional
        Of a model ``(outputs, labels) -> number``, of a round ``(record) -> number``, of clients ``(run) -> (N,)
        array``, of a run ``(run) -> number``, where run is a `RunData`. None where the loop has it from elsewhere.
    meaning : str
        A sentence for the glossary.
    form : str
        How numbers are written: a format, which ends in " %" for a share shown as per cent, or is "s" for durations.
    better : {"less", "more", ""}
        What is better.
    tables : tuple of str
        Tables of a comparison in which a measure of a run is a column.
    over_seeds : {"mean", "max"}
        How the runs of a selector are summed up.
    spread : bool
        Whether the standard deviation over seeds is shown.
    needs : {"", "clock", "scores", "validation"}
        What a run must have for it: a clock, scores of its final model at the clients, or samples held out of training.
    drop : int
        Place in the order in which columns are left out of a table that a terminal is too narrow for; 0 for those that
        stay.
    """

    name: str
    title: str
    of: Of
    compute: Callable[[Any], Any] | None = None
    meaning: str = ""
    form: str = "{:.4g}"
    better: Literal["less", "more", ""] = ""
    tables: tuple[Table, ...] = ()
    over_seeds: Literal["mean", "max"] = "mean"
    spread: bool = False
    needs: Literal["", "clock", "scores", "validation"] = ""
    drop: int = 0

    def __call__(self, data: Any) -> Any:
        """Compute it."""
        assert self.compute is not None
        return self.compute(data)


#: Measures by "OF NAME", in the order in which they are shown; those of a model give more (`run_measures`).
MEASURES: Registry = Registry("measure")


def measures_of(of: Of) -> list[Measure]:
    """Return the registered measures of rounds, say, in the order in which they are shown."""
    return [each for each in MEASURES.snapshot()[0].values() if each.of == of]


def measure(
    name: str,
    of: Of,
    title: str | None = None,
    tables: tuple[Table, ...] | None = None,
    **look: Any,
) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as a `Measure`; the first line of its docstring is the meaning.

    Parameters
    ----------
    name, of
        As in `Measure`. One of a model is computed where ``training.metrics`` names it.
    title : str, optional
        The name in words, if left out.
    tables : tuple of str, optional
        As in `Measure`; results, differences and runs, and that of the course for the worst client, if left out.
    **look
        Further attributes of `Measure`.
    """
    if of not in ("model", "round", "client", "run"):
        raise ConfigError(f"a measure is of 'model', 'round', 'client' or 'run'; got {of!r}")

    def decorate(function: Function) -> Function:
        meaning = (inspect.getdoc(function) or "").partition("\n")[0]
        shown = title or name.replace("_", " ").replace("-", " ")
        default: dict[str, Any] = {"form": "{:.3f}", "spread": True} if of == "model" else {}
        places = (_AND_WORST if of == "model" else _EVERYWHERE) if tables is None else tables
        MEASURES.put(f"{of} {name}", Measure(name, shown, of, function, meaning, tables=places, **default | look))
        if of == "model":
            METRICS.put(name, function if getattr(function, "whole_set", False) else whole_set(function))
        return function

    return decorate


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


def gini(values: ArrayLike) -> float:
    r"""Gini coefficient :math:`\sum_{ij} |x_i - x_j| / (2 n \sum_k x_k)` of n values.

    0 where all are equal, 1 - 1/n where one has all; NaN where all are 0, or one is negative.
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    total = float(x.sum())
    if not total or x[0] < 0:
        return math.nan
    return float(((2 * np.arange(1, x.size + 1) - x.size - 1) * x).sum()) / (x.size * total)


def worst_tenth(values: ArrayLike, better: Literal["less", "more"]) -> float:
    """Mean of the tenth of the values, rounded up, that are worst, where less or more is better; NaN of none."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    worst = x[::-1] if better == "less" else x
    return float(worst[: -(-x.size // 10)].mean()) if x.size else math.nan


#: Rounds times clients up to which the least variance of the counts is found, and not only bounded; some seconds.
_LARGEST_SCHEDULE = 1_000_000


def least_count_variance(records: Sequence[Mapping[str, Any]], n_clients: int) -> float:
    """Least variance of the counts that any schedule reaches that selects as many clients in each round, divisor N - 1.

    In hindsight: the schedule knows all of the run's availability (`solvers.schedule.ScheduleProblem`). For more than a
    million rounds times clients it is a lower bound of that; for more than fifty million, or a single client, NaN.
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

    Rules whose sums differ take steps of different lengths, which their losses show.
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


# -- data ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RunData:
    """What measures of clients and of a run are computed from.

    Attributes
    ----------
    records : list of dict
        Records of every round, as in ``rounds.jsonl``.
    importance : (N,) ndarray of float
        The objective's importance α of each client.
    scores : mapping of str to (N,) ndarray of float, optional
        Measures of the final model at each client (`FedAvg.client_scores`); NaN where it was not tested.
    sizes : (N,) ndarray of int, optional
        Samples of each client.
    """

    records: Sequence[Mapping[str, Any]]
    importance: NDArray[np.float64]
    scores: Mapping[str, NDArray[np.float64]] | None = None
    sizes: NDArray[np.int64] | None = None

    @cached_property
    def history(self) -> History:
        """Participation of the clients."""
        return History.from_records(self.records, len(self.importance))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each client was selected, shape (N,)."""
        return self.history.counts

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per round (`round_table`)."""
        return round_table(self.records)

    @cached_property
    def gaps(self) -> pd.Series:
        """Gaps of the rounds that have one (`run_gaps`)."""
        return run_gaps(self.table).dropna()

    @property
    def has_clock(self) -> bool:
        """Whether rounds have a length."""
        return any("clock" in record for record in self.records)

    def solved(self, statistic: str) -> float | None:
        """Return a statistic of the seconds of the solves; None without any."""
        seconds = self.table["solve_seconds"].dropna().astype(float)
        return float(getattr(seconds, statistic)()) if len(seconds) else None

    def share(self, part: str, whole: str) -> float | None:
        """Return the sum of a column of the table over that of another; None where that is 0."""
        total = float(self.table[whole].sum())
        return float(self.table[part].sum()) / total if total else None


# -- the measures ----------------------------------------------------------------------------------------------------


def _model(name: str, title: str, meaning: str, better: Literal["less", "more"], tables: tuple[Table, ...]) -> Measure:
    return Measure(name, title, "model", None, meaning, "{:.3f}", better, tables, spread=True)


def _round(name: str, meaning: str, compute: Callable[[Any], Any], needs: Literal["", "clock"] = "") -> Measure:
    return Measure(name, name.replace("_", " "), "round", compute, meaning, needs=needs)


def _client(name: str, meaning: str, compute: Callable[[RunData], Any], needs: Literal["", "clock"] = "") -> Measure:
    return Measure(name, name.replace("_", " "), "client", compute, meaning, needs=needs)


def _run(
    name: str, title: str, meaning: str, compute: Callable[[RunData], Any], form: str = "{:.3f}", **look: Any
) -> Measure:
    return Measure(name, title, "run", compute, meaning, form, **look)


def _solved(key: str) -> Callable[[Any], Any]:
    return lambda record: (record["solution"] or {}).get(key)


def _on_clock(key: str) -> Callable[[Any], Any]:
    return lambda record: record["clock"][key]


def _late(run: RunData) -> NDArray[np.int64]:
    late = np.zeros(len(run.importance), dtype=np.int64)
    for record in run.records:
        late[record.get("clock", {}).get("late", [])] += 1
    return late


def _curve(name: str, statistic: str | Callable[[pd.Series], float]) -> Callable[[RunData], float]:
    """Return a statistic, by name or a function, of a column of the rounds with an evaluation."""

    def compute(run: RunData) -> float:
        column = run.table[["loss", "accuracy"]].dropna(how="all")[name]
        return float(getattr(column, statistic)() if isinstance(statistic, str) else statistic(column))

    return compute


def _rounds_per_hour(run: RunData) -> float | None:
    seconds = float(run.table["seconds"].iloc[-1])
    return 3600.0 * len(run.table) / seconds if seconds else None


#: The loss on held-out samples among the metrics of a round.
_VALIDATION = "validation_loss"


def _validation_loss(run: RunData) -> float | None:
    return run.records[-1].get("metrics", {}).get(_VALIDATION)


def _validation_curve(run: RunData) -> pd.DataFrame:
    """Return the rounds with a validation loss."""
    return run.table.dropna(subset=_VALIDATION)


def _loss_at_best_validation(run: RunData) -> float:
    curve = _validation_curve(run)
    return float(curve["loss"].to_numpy()[curve[_VALIDATION].argmin()])


def _proved(run: RunData) -> float | None:
    solved = run.table["status"].dropna()
    return float((solved == "optimal").mean()) if len(solved) else None


_EVERYWHERE: tuple[Table, ...] = ("results", "differences", "runs")
_AND_WORST: tuple[Table, ...] = (*_EVERYWHERE, "course")
_COURSE: dict[str, Any] = {"tables": ("course",)}
_CLOCK: dict[str, Any] = {"tables": ("seconds",), "needs": "clock"}

_BUILT_IN = (
    _model("loss", "loss", "Mean loss", "less", _EVERYWHERE),
    _model("accuracy", "accuracy", "Share of the samples that are classified rightly", "more", _AND_WORST),
    _model("f1", "F1", "Macro F1, the mean over the classes of 2 TP / (2 TP + FP + FN)", "more", _AND_WORST),
    _model("auroc", "AUROC", "Macro AUROC, one class against the rest", "more", _AND_WORST),
    _model("balanced-accuracy", "balanced accuracy", "Mean of the classes' accuracies", "more", _AND_WORST),

    _round("available", "Clients that were available.", lambda record: len(record["available"])),
    _round("selected", "Clients that were selected.", lambda record: len(record["selected"])),
    _round("returned", "Clients whose update arrived and could be used.", lambda record: len(record["returned"])),
    _round("failed", "Clients that reported an error, or whose update could not be used.",
           lambda record: len(record["failed"])),
    _round("objective", "Objective of the decision.", _solved("objective")),
    _round("bound", "Bound on the objective of every decision.", _solved("bound")),
    _round("gap", "|bound - objective| of the decision over its |objective|.", _solved("gap")),
    _round("status", "Whether the decision is proved optimal.", _solved("status")),
    _round("solve_seconds", "Seconds of the solver.", _solved("seconds")),
    _round("select_seconds", "Seconds of the selector.", lambda record: record["select_seconds"]),
    _round("train_seconds", "Seconds of the local training.", lambda record: record["train_seconds"]),
    _round("seconds", "End of the round on the clock.", lambda record: record["seconds"], "clock"),
    _round("late", "Clients whose update came too late.", lambda record: len(record["clock"]["late"]), "clock"),
    _round("busy_seconds", "Seconds of the clients' work.", _on_clock("busy_seconds"), "clock"),
    _round("wasted_seconds", "Seconds of clients whose update was not used.", _on_clock("wasted_seconds"), "clock"),
    _round("sent_bytes", "Bytes to and from the clients.", _on_clock("sent_bytes"), "clock"),
    _round("wasted_bytes", "Bytes of clients whose update was not used.", _on_clock("wasted_bytes"), "clock"),

    _client("samples", "Samples of the client.", lambda run: run.sizes),
    _client("available", "Rounds in which it was available.", lambda run: run.history.available),
    _client("selected", "Rounds in which it was selected.", lambda run: run.counts),
    _client("returned", "Updates of it that arrived and could be used.", lambda run: run.history.returns),
    _client("longest_absence", "Most rounds in a row without an update of it.", lambda run: absences(run.history)),
    _client("importance", "Its importance in the objective.", lambda run: run.importance),
    _client("realised_importance", "Its share of all applied weights.", lambda run: realised_importance(run.history)),
    _client("late", "Rounds in which its update came too late.", _late, "clock"),

    _run("rounds", "rounds", "Rounds of the run.", lambda run: len(run.records), "{:.0f}"),
    _run("count_variance", "count variance",
         "Variance over clients of how often each was selected (divisor N - 1); 0 is the same for all.",
         lambda run: float(run.counts.var(ddof=1)) if len(run.counts) > 1 else None,
         "{:.1f}", better="less", tables=_EVERYWHERE, drop=3),
    _run("least_count_variance", "least in hindsight",
         "Least count variance of any schedule that selects as many clients a round, knowing all availability.",
         lambda run: least_count_variance(run.records, len(run.importance)),
         "{:.1f}", better="less", tables=("results",), drop=1),
    _run("count_min", "fewest selections", "Least selections of a client.", lambda run: int(run.counts.min())),
    _run("count_max", "most selections", "Most selections of a client.", lambda run: int(run.counts.max())),
    _run("jain_index", "Jain index",
         "Evenness of the selection counts: 1 where all are equal, 1/N where one has all.",
         lambda run: jain_index(run.counts), better="more", **_COURSE),
    _run("longest_absence", "longest absence (rounds)", "Most rounds in a row without an update of one client.",
         lambda run: int(absences(run.history).max()), "{:.0f}", better="less", over_seeds="max", **_COURSE),
    _run("returned", "updates", "Updates that arrived and could be used.", lambda run: int(run.history.returns.sum())),
    _run("success_ratio", "success ratio", "Share of the selections whose update arrived.",
         lambda run: float(success_ratio(run.history)[-1]), better="more", **_COURSE),
    _run("failed", "failed", "Selections that ended in an error, or in an update that could not be used.",
         lambda run: int(run.table["failed"].sum())),
    _run("final_validation_loss", "validation loss",
         "Mean loss of the final model on the samples that clients hold out of training (validation_fraction): what to "
         "choose settings by, as the test loss of the best of many is too good.", _validation_loss,
         better="less", tables=_EVERYWHERE, spread=True, needs="validation"),
    _run("best_validation_loss", "best validation loss", "Least validation loss of the evaluated rounds.",
         lambda run: float(_validation_curve(run)[_VALIDATION].min()), better="less", needs="validation", **_COURSE),
    _run("loss_at_best_validation", "test loss there",
         "Test loss after the round of the least validation loss: what a run has that stops where validation says so.",
         _loss_at_best_validation, better="less", needs="validation", **_COURSE),
    _run("weight_sum", "sum of weights",
         "Mean over rounds of the sum of the weights that were applied to the updates. A rule whose weights sum to 0.2 "
         "takes a fifth of the step of one whose weights sum to 1: their losses may differ for that alone.",
         lambda run: mean_weight_sum(run.records), "{:.2f}", tables=("results",)),
    _run("importance_distance", "distance to target importance",
         "Total variation distance, from 0 to 1, of the clients' shares of all applied weights from their importance "
         "in the objective (their samples, or 1/N).",
         lambda run: total_variation(run.importance, realised_importance(run.history)), better="less", **_COURSE),
    _run("best_loss", "best loss", "Least test loss of the evaluated rounds.", _curve("loss", "min"), better="less"),
    _run("best_accuracy", "best accuracy", "Largest test accuracy of the evaluated rounds.", _curve("accuracy", "max"),
         better="more", **_COURSE),
    _run("mean_accuracy", "mean accuracy", "Mean test accuracy of the evaluated rounds.",
         _curve("accuracy", "mean"), better="more", **_COURSE),
    _run("late_accuracy_deviation", "late deviation",
         "Standard deviation of the test accuracy over the later half of the evaluated rounds: how unsteady it stays.",
         _curve("accuracy", late_deviation), "{:.4f}", better="less", **_COURSE),
    _run("mean_gap", "mean gap",
         "|bound - objective| of a decision: how far it may be from the best, relative to the run's mean |objective|.",
         lambda run: float(run.gaps.mean()) if len(run.gaps) else None,
         "{:.3g} %", better="less", tables=("results", "runs"), drop=5),
    _run("max_gap", "largest gap", "Largest gap of a round, relative to the mean |objective| of the run.",
         lambda run: float(run.gaps.max()) if len(run.gaps) else None, "{:.3g} %", better="less", over_seeds="max"),
    _run("proved", "proved", "Solves, or rounds, whose decision is proved optimal, up to 1e-6.", _proved,
         "{:.0f} %", better="more", tables=("results",), drop=4),
    _run("median_solve_seconds", "solve time", "Median of the seconds that a decision took.",
         lambda run: run.solved("median"), "s", better="less", tables=("results", "runs"), drop=2),
    _run("max_solve_seconds", "longest solve", "Most seconds that a decision took.",
         lambda run: run.solved("max"), "s", better="less", tables=("results",), over_seeds="max", drop=2),
    _run("seconds", "length of the run (s)", "Seconds of the run on its clock.",
         lambda run: float(run.table["seconds"].iloc[-1]), "{:.4g}", better="less",
         needs="clock", tables=("results", "seconds")),
    _run("rounds_per_hour", "rounds per hour", "Rounds in an hour on the clock.", _rounds_per_hour,
         "{:.4g}", better="more", **_CLOCK),
    _run("wasted_seconds", "share of wasted seconds", "Share of the seconds of work whose update was not used.",
         lambda run: run.share("wasted_seconds", "busy_seconds"), better="less", **_CLOCK),
    _run("wasted_bytes", "share of wasted bytes", "Share of the bytes that were sent for updates that were not used.",
         lambda run: run.share("wasted_bytes", "sent_bytes"), better="less", **_CLOCK),
    _run("stragglers", "share of stragglers", "Share of the selections whose update came too late.",
         lambda run: run.share("late", "selected"), better="less", **_CLOCK),
)  # fmt: skip

for _each in _BUILT_IN:
    MEASURES.put(f"{_each.of} {_each.name}", _each)


def model_measure(name: str) -> Measure:
    """Return the measure of a model of this name; one that is said nowhere is shown by its name."""
    known = MEASURES.snapshot()[0].get(f"model {name}")
    return known or Measure(name, name.replace("_", " "), "model", meaning=name, form="{:.3f}", tables=_EVERYWHERE)


#: Samples that a client's score is of.
_SAMPLES = "those held out for testing where the data have a client_test_fraction, else those that it trained on"


def _of_test_set(each: Measure) -> Measure:
    """Return a model's measure as one of a run: of its final model, on the server's test set."""
    meaning = f"{each.meaning.rstrip('.')}: of the final model, on the server's test set."
    tables = tuple(table for table in each.tables if table != "course")

    def compute(run: RunData) -> float | None:
        last = run.records[-1]
        return last[each.name] if each.name in ("loss", "accuracy") else last.get("metrics", {}).get(each.name)

    name, title = f"final_{each.name}", f"test {each.title}"
    return replace(each, name=name, title=title, of="run", compute=compute, meaning=meaning, tables=tables)


def _at_clients(each: Measure) -> list[Measure]:
    """Return a model's measure as those of a run: of its final model, over the clients."""

    def over(statistic: Callable[[NDArray[np.float64]], Any]) -> Callable[[RunData], float | None]:
        def compute(run: RunData) -> float:
            scores = np.asarray((run.scores or {}).get(each.name, [math.nan]), dtype=np.float64)
            known = scores[~np.isnan(scores)]  # a client without tests has no score
            return float(statistic(known)) if known.size else math.nan

        return compute

    mean = replace(
        each,
        name=f"client_{each.name}_mean",
        title=f"clients' mean {each.title}",
        of="run",
        compute=over(np.mean),
        meaning=f"{each.meaning.rstrip('.')}: of the final model, mean over the clients' samples.",
        tables=(),
        spread=False,
        needs="scores",
    )
    if not each.better:
        return [mean]
    sign = -1 if each.better == "less" else 1  # the worst first, sorted by sign times score
    shown: tuple[Table, ...] = ("course",) if "course" in each.tables else ()

    def further(name: str, title: str, what: str, statistic: Callable[..., Any], **look: Any) -> Measure:
        meaning = f"{each.meaning.rstrip('.')}: of the final model, {what}."
        name = f"client_{each.name}_{name}"
        look = {"tables": shown, **look}
        return replace(mean, name=name, title=title, compute=over(statistic), meaning=meaning, **look)

    return [
        mean,
        further(
            "worst", f"worst client's {each.title}", f"on the samples of its worst client, {_SAMPLES}",
            lambda known: sign * (sign * known).min(), tables=(*shown, "differences") if shown else (),
        ),
        further(
            "worst_tenth", f"worst tenth's {each.title}",
            "mean over the tenth of the clients, rounded up, on whose samples it is worst",
            lambda known: worst_tenth(known, each.better),  # type: ignore[arg-type]  # not "", as said above
        ),
        further(
            "deviation", f"deviation of clients' {each.title}", "standard deviation over the clients' samples",
            np.std, better="less",
        ),
        further(
            "gini", f"Gini of clients' {each.title}",
            "Gini coefficient over the clients: 0 where all are equal, near 1 where one has all",
            gini, better="less",
        ),
    ]  # fmt: skip


def run_measures(names: Iterable[str] = ()) -> list[Measure]:
    """Return the measures of a run, in the order in which they are shown.

    Parameters
    ----------
    names : iterable of str
        Measures of its model beside loss and accuracy. Those on the test set and at clients are derived from each.
    """
    models = [model_measure(name) for name in dict.fromkeys(("loss", "accuracy", *names))]
    derived = [_of_test_set(each) for each in models]
    derived += [each for model in models for each in _at_clients(model)]
    own = measures_of("run")
    place = next(place for place, each in enumerate(own) if each.name == "weight_sum")
    return [*own[:place], *derived, *own[place:]]


#: Endings of columns that stand beside a measure in tables.
_BESIDE = ("_std", "_half_width")


def known_run_measures(columns: Iterable[str]) -> list[Measure]:
    """Return the measures of a run that are among these names of columns, in the order in which they are shown."""
    columns = set(columns)
    models = [each.name for each in measures_of("model")]
    models += [name[6:] for name in sorted(columns) if name.startswith("final_") and not name.endswith(_BESIDE)]
    models = [name for name in models if name != _VALIDATION]
    return [each for each in run_measures(models) if each.name in columns]


# -- tables ----------------------------------------------------------------------------------------------------------


def round_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures of a round, by name: a row of `round_table`."""
    row = {"round": record["round"], "loss": record["loss"], "accuracy": record["accuracy"]}
    row |= {each.name: each(record) for each in measures_of("round") if each.needs != "clock" or "clock" in record}
    further = record.get("metrics", {})
    return row | {name: value for name, value in further.items() if name not in row}


def round_table(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate records, one row per round (`Measure` of rounds).

    Further metrics of the training are columns of their names behind these, NaN in rounds without an evaluation.
    """
    import pandas as pd

    rows = list(map(round_row, records))
    stated = ("round", "loss", "accuracy", *(each.name for each in measures_of("round") if each.needs != "clock"))
    return pd.DataFrame(rows, columns=None if rows else stated).astype({"loss": float, "accuracy": float})


def client_table(run: RunData) -> pd.DataFrame:
    """Tabulate clients, one row each (`Measure` of clients), with the scores of the final model."""
    import pandas as pd

    known = [each for each in measures_of("client") if each.needs != "clock" or run.has_clock]
    columns = {"client": np.arange(len(run.importance)), **{each.name: each(run) for each in known}}
    return pd.DataFrame(columns | dict(run.scores or {}))


def client_rounds(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate clients by rounds: a row for each that was selected in a round, or at which its model was evaluated.

    Returns
    -------
    DataFrame
        ``round`` (from 0), ``client``, ``selected`` (0 or 1), ``weight`` (that was applied to its update; 0 where none
        was), ``loss`` and ``accuracy`` of the model at the client, NaN where they were not evaluated
        (``training.evaluate_clients_every``), ``seconds`` from the start of the round until its update was there, by
        the clock or, over Flower without one, of its training as it says; NaN where neither knows. Further measures
        of the model at the client follow.
    """
    import pandas as pd

    records = list(records)
    scores = [record.get("client_scores") or {} for record in records]
    names = dict.fromkeys(("loss", "accuracy", *(name for each in scores for name in each)))
    order = dict.fromkeys(("round", "client", "selected", "weight", "loss", "accuracy", "seconds", *names))
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in order}
    for record, scored in zip(records, scores, strict=True):
        chosen, evaluated = np.asarray(record["selected"], dtype=np.int64), len(scored.get("loss", ()))
        clients = np.union1d(chosen, np.arange(evaluated))
        weight = np.zeros(clients.size)
        weight[np.searchsorted(clients, chosen)] = record["applied"]
        row = {"round": np.full(clients.size, record["round"]), "client": clients, "weight": weight}
        row["selected"] = np.isin(clients, chosen).astype(np.int64)
        row["seconds"] = np.full(clients.size, math.nan)
        row["seconds"][np.searchsorted(clients, chosen)] = _client_seconds(record)
        for name in names:
            known = np.asarray(scored.get(name, [math.nan] * evaluated), dtype=np.float64)
            row[name] = known[clients] if evaluated else np.full(clients.size, math.nan)
        for name, values in row.items():
            columns[name].append(values)
    return pd.DataFrame({name: np.concatenate(values) if values else [] for name, values in columns.items()})


def _client_seconds(record: Mapping[str, Any]) -> list[float]:
    """Return the seconds of each selected client in a round, NaN where they are not known."""
    if "clock" in record:
        return [math.nan if end is None else end for end in record["clock"]["ends"]]
    took = record.get("client_seconds", {})
    return [took.get(str(client), math.nan) for client in record["selected"]]


def summary(run: RunData) -> dict[str, Any]:
    """Summarise a run in its measures, by name; None for one that is not known, as JSON has no other."""
    further = run.records[-1].get("metrics", {})
    wanted = {"": True, "clock": run.has_clock, "scores": run.scores is not None}
    wanted["validation"] = _VALIDATION in further
    models = [name for name in further if name != _VALIDATION]
    return {each.name: _number(each(run)) for each in run_measures(models) if wanted[each.needs]}


def _number(value: Any) -> Any:
    """Return a number that JSON has; None for NaN and infinity."""
    return value if value is None or math.isfinite(value) else None


def run_gaps(table: pd.DataFrame) -> pd.Series:
    """Compute each round's gap in units of the run: |bound − objective| over the mean |objective| of its rounds.

    Where the mean itself is rounding (1e-12 at most), the unit is 1.

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
        return f"{line}; a shorter one spends less, and without selector.time_limit fedgs rations the work of proofs"
    return f"{line}; a shorter time limit, or a heuristic as selector.method, saves that"
