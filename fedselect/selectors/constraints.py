"""Side constraints of a selector's rounds: quotas by group, budgets, conflicts, and clients that waited long enough.

They are stated over all N clients and hold among those that are available. A round that cannot keep them all gives way
in a stated order (`RoundConstraints.of_round`), and its record says where it did; it is refused where no client can be
selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.options import check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import Stateful, availability_rates
from fedselect.tables import read_table
from solvers.constrained_set import ConstrainedSelections
from solvers.constraints import Budget, Constraints, Quota, among, constraint_name, normal_form
from solvers.errors import InvalidProblem
from solvers.problem import Problem
from solvers.registry import find, methods

#: What a budget of the clock may be over: times of a client's round, in seconds, or the bytes sent to and by it.
_TIMES = ("expected", "download", "compute", "upload", "bytes")


@dataclass(frozen=True)
class ClockBudget:
    """Largest sum, over the selected clients, of a time that the clock expects of each, or of the bytes sent.

    Parameters
    ----------
    time : {"expected", "download", "compute", "upload", "bytes"}
        The client's whole round, or a part of it, in seconds: an attribute of `fedselect.clock.Clock`. ``"bytes"`` are
        those of the model and of an update.
    limit : float
        Seconds, or bytes.
    name : str
        What messages and records call it; the time by default.
    """

    time: str
    limit: float
    name: str = ""

    def __post_init__(self) -> None:
        if self.time not in _TIMES:
            raise ConfigError(f"a budget's clock must be one of {', '.join(_TIMES)}; got {self.time!r}")
        check_number(f"a budget's limit of {self.name or self.time!r}", self.limit)

    def of_round(self, round: RoundContext) -> Budget:
        """Return the budget of a round, of the times that its clock expects."""
        if round.clock is None:
            raise ConfigError(f"a budget over the clock's {self.time!r} needs a clock, and this run has none ([clock])")
        if self.time == "bytes":
            both = round.clock.model_bytes * (1.0 + round.clock.settings.compression)
            return Budget(np.full(round.available.size, both), self.limit, self.name or self.time)
        return Budget(getattr(round.clock, self.time), self.limit, self.name or self.time)


@dataclass(frozen=True, eq=False)
class RunBudget:
    """Largest sum, over all rounds of a run, of what each client uses in a round that it is selected for: a battery.

    A client whose rest is less than a round takes is not available in that round. A selected client's use counts
    whether its update arrives or not.

    Parameters
    ----------
    use : (N,) array of float, or str
        What a round takes of each client; or a time of the clock, as a `ClockBudget` has it.
    limit : float or (N,) array of float
        What all clients have, or each.
    name : str
        What messages and records call it.
    """

    use: NDArray[np.float64] | str
    limit: ArrayLike
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.use, str):
            ClockBudget(self.use, 0.0)
        else:
            object.__setattr__(self, "use", _numbers(f"a budget over the run: use of {self.name!r}", self.use))
        object.__setattr__(self, "limit", _numbers(f"a budget over the run: limit of {self.name!r}", self.limit))

    def check(self, n_clients: int) -> None:
        """Raise `ConfigError` where use or limit are of another number of clients."""
        for what, values in (("use", self.use), ("limit", self.limit)):
            if (size := np.size(values)) not in (1, n_clients):
                raise ConfigError(f"a budget over the run: {what} has {size} numbers; there are {n_clients} clients")

    def of_round(self, round: RoundContext) -> NDArray[np.float64]:
        """Return what this round would take of each client, shape (N,)."""
        return ClockBudget(self.use, 0.0).of_round(round).use if isinstance(self.use, str) else self.use


def _numbers(what: str, given: Any) -> NDArray[np.float64]:
    """Return finite numbers from 0; raise `ConfigError` for others."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.ndim > 1 or not (np.isfinite(values) & (values >= 0)).all():
        raise ConfigError(f"{what} must be finite numbers from 0; got {given!r:.80}")
    return values


class RoundConstraints(Stateful):
    """Side constraints of a selector's rounds over N clients.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    include, exclude : sequence of int
        Clients that are selected whenever they are available (and a budget over the run has enough left), and never.
    quotas : sequence of Quota
        Least and largest numbers of clients selected of groups, which may overlap.
    budgets : sequence of Budget, ClockBudget or RunBudget
        Sums over the selected clients and their limits; ``use`` has an entry for each of the N. A `RunBudget` is each
        client's own, over all rounds.
    conflicts : sequence of sequences of int
        Pairs or larger groups, of which at most one client is selected in a round.
    include_after : int, optional
        Rounds in which a client is available and not selected, without one between in which it is, after which it is
        included in the next round in which it is available, as far as the other constraints allow. The longest wait
        comes first, then the lower id.

    Raises
    ------
    ConfigError
        When a constraint is not as described, or a client is to be included that is excluded, or in conflict with
        another that is.
    """

    state_names: ClassVar[tuple[str, ...]] = ("waited", "spent")

    def __init__(
        self,
        n_clients: int,
        *,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
        quotas: Sequence[Quota] = (),
        budgets: Sequence[Budget | ClockBudget | RunBudget] = (),
        conflicts: Sequence[Sequence[int]] = (),
        include_after: int | None = None,
    ) -> None:
        self.n_clients = check_count("the number of clients", n_clients)
        lists = {"include": include, "exclude": exclude, "quotas": quotas, "budgets": budgets, "conflicts": conflicts}
        for name, listed in lists.items():
            _check_list(name, listed)
        self.include_after = None if include_after is None else check_count("include_after", include_after)
        self.quotas, self.conflicts = tuple(quotas), tuple(conflicts)
        self.budgets = tuple(each for each in budgets if not isinstance(each, RunBudget))
        self.run_budgets = tuple(each for each in budgets if isinstance(each, RunBudget))
        for each in self.run_budgets:
            each.check(n_clients)
        names = [each.name for each in self.run_budgets if each.name]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"constraints: two budgets over the run are named {twice[0]!r}; names must differ")
        #: What each client has used of each budget over the run, (budgets, N).
        self.spent = np.zeros((len(self.run_budgets), n_clients))
        self._uses = np.zeros_like(self.spent)
        self._batteries: dict[str, dict[str, float]] = {}
        self.include, self.exclude = tuple(include), tuple(exclude)
        self.waited = np.zeros(n_clients, dtype=np.int64)
        none = np.zeros(n_clients)  # what a budget of the clock uses is not known before a round
        budgets = [
            Budget(none, each.limit, each.name or each.time) if isinstance(each, ClockBudget) else each
            for each in self.budgets
        ]
        try:
            normal_form(np.arange(n_clients), n_clients, **self._stated(), budgets=budgets)
        except InvalidProblem as error:
            raise ConfigError(f"constraints: {error}") from error

    def __repr__(self) -> str:
        names = ("include", "exclude", "quotas", "budgets", "run_budgets", "conflicts")
        counts = {name: len(getattr(self, name)) for name in names}
        shown = [f"{name}={count}" for name, count in counts.items() if count]
        return f"RoundConstraints({', '.join([*shown, f'include_after={self.include_after}'])})"

    def _stated(self) -> dict[str, Any]:
        names = ("include", "exclude", "quotas", "conflicts")
        return {name: getattr(self, name) for name in names}

    def within_budgets(self, round: RoundContext) -> RoundContext:
        """Return the round without the clients that have used up a budget over the run."""
        if not self.run_budgets:
            return round
        self._uses = np.stack([np.broadcast_to(each.of_round(round), self.n_clients) for each in self.run_budgets])
        limits = np.stack([np.broadcast_to(each.limit, self.n_clients) for each in self.run_budgets])
        enough = self.spent + self._uses <= limits * (1 + 1e-9)  # as other budgets have it
        there = round.available
        for k, budget in enumerate(self.run_budgets):
            left = np.maximum(limits[k] - self.spent[k], 0.0)[there]
            self._batteries[budget.name or f"run_budgets[{k}]"] = {
                "exhausted": int((there & ~enough[k]).sum()),
                "least_left": float(left.min()) if left.size else 0.0,
            }
        return replace(round, available=there & enough.all(axis=0))

    @property
    def over_run(self) -> dict[str, dict[str, float]]:
        """What the last round left of budgets over the run, by name; see `of_round`."""
        return {name: dict(facts) for name, facts in self._batteries.items()}

    def of_round(
        self,
        round: RoundContext,
        size: int,
        candidates: NDArray[np.bool_] | None = None,
        wanted: Sequence[int] = (),
    ) -> tuple[int, dict[str, Any], dict[str, Any]]:
        """Return the size and the side constraints of a round, and what gave way.

        A quota asks for no more clients of a group than are available of it. Where the constraints cannot be kept, one
        client less is selected, and so on. Of the clients that waited, the longest wait first, each is included with
        which the constraints can still be kept.

        Parameters
        ----------
        round : RoundContext
            The round.
        size : int
            Clients to select; all of the available if they are fewer.
        candidates : (N,) ndarray of bool, optional
            Clients to select from; all of the available by default.
        wanted : sequence of int
            Clients that the selector itself wants included, in order, each as far as the constraints can be kept.

        Returns
        -------
        size : int
            Clients to select.
        stated : dict
            Arguments of a problem's ``fedgs``, over all N clients.
        gave_way : dict
            ``size``, where it is smaller; ``not_included``, clients that are to wait on; ``short``, quotas by name and
            the number that they lack: none of these where everything is kept. ``over_run``, for each budget over the
            run: how many of the available clients it excludes (``exhausted``), and the least that one has left.

        Raises
        ------
        ConfigError
            When no client at all can be selected, or a budget is over times of a clock and the round has none.
        """
        there = round.available if candidates is None else candidates & round.available
        ids, most = np.flatnonzero(there), min(size, int(there.sum()))
        stated, gave_way = self._among(round, there)
        fixed = [client for client in self.include if there[client]]
        due = self._due(there)
        why = ""
        for m in range(most, 0, -1):
            if (reason := self._reason(ids, m, stated | {"include": fixed})) is not None:
                why = why or reason
                continue
            included = list(fixed)
            for client in [*due, *(each for each in wanted if there[each])]:
                more = [*included, client]
                if client not in included and len(more) <= m and not self._reason(ids, m, stated | {"include": more}):
                    included = more
            if m < most:
                gave_way["size"] = m
            if left := sorted(set(due) - set(included)):
                gave_way["not_included"] = left
            if self._batteries:
                gave_way["over_run"] = self.over_run
            return m, stated | {"include": tuple(included)}, gave_way
        raise ConfigError(f"round {round.round}: no client can be selected under the constraints ({why})")

    def check_clients(self, n_clients: int) -> None:
        """Raise `ConfigError` where the constraints are over another number of clients."""
        if self.n_clients != n_clients:
            raise ConfigError(f"constraints are stated over {self.n_clients} clients; there are {n_clients}")

    def awaited(self, available: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the available clients that are to be included, if that can be."""
        mask = np.zeros(self.n_clients, dtype=np.bool_)
        mask[[*self.include, *self._due(available)]] = True
        return mask & available

    def _reason(self, ids: NDArray[np.int64], size: int, stated: Mapping[str, Any]) -> str | None:
        """Return why no selection of ``size`` of these clients keeps the constraints; None where one does."""
        try:
            feasible_set(ids, size, stated, self.n_clients)
        except InvalidProblem as error:
            return str(error)
        return None

    def _due(self, there: NDArray[np.bool_]) -> list[int]:
        """Available clients that waited long enough, the longest wait first."""
        if self.include_after is None:
            return []
        waiting = np.flatnonzero(there & (self.waited >= self.include_after))
        waiting = waiting[~np.isin(waiting, self.exclude)]
        return waiting[np.argsort(-self.waited[waiting], kind="stable")].tolist()

    def _among(self, round: RoundContext, there: NDArray[np.bool_]) -> tuple[dict[str, Any], dict[str, Any]]:
        """State what does not depend on the size, with quotas that ask for no more than there are."""
        possible = there.copy()
        possible[list(self.exclude)] = False
        quotas, short = [], {}
        for k, quota in enumerate(self.quotas):
            members = [client for client in quota.members if there[client]]
            count = int(possible[members].sum())
            if quota.at_least > count:
                short[quota.name or f"quotas[{k}]"] = quota.at_least - count
            least = min(quota.at_least, count)
            quotas.append(Quota(members, least, quota.at_most, quota.name or f"quotas[{k}]"))
        budgets = [each.of_round(round) if isinstance(each, ClockBudget) else each for each in self.budgets]
        stated = {"exclude": self.exclude, "quotas": quotas, "budgets": budgets, "conflicts": self.conflicts}
        return stated, ({"short": short} if short else {})

    def update(self, feedback: RoundFeedback) -> None:
        """Count the wait of clients that were available and not selected; a selected client has waited no more."""
        self.spend(feedback)
        self.waited[feedback.outcomes == Outcome.IDLE] += 1
        self.waited[feedback.outcomes >= Outcome.RETURNED] = 0

    def spend(self, feedback: RoundFeedback) -> None:
        """Count what the selected clients have used of budgets over the run; a warm-up counts nothing else."""
        selected = feedback.outcomes >= Outcome.RETURNED
        self.spent[:, selected] += self._uses[:, selected]


def feasible_set(ids: NDArray[np.int64], size: int, stated: Mapping[str, Any], n_clients: int) -> ConstrainedSelections:
    """Return the selections of ``size`` of these clients that keep constraints stated over all N.

    Raises
    ------
    InvalidProblem
        When there are none.
    """
    feasible = ConstrainedSelections.of(normal_form(ids, size, **among(stated, ids, n_clients)))
    if (why := feasible.contradiction()) is not None:
        raise InvalidProblem(why)
    if feasible.priced:
        feasible.round(np.zeros(ids.size))
    return feasible


def over(ids: NDArray[np.int64], stated: Mapping[str, Any], n_clients: int) -> dict[str, Any]:
    """State constraints over all N clients for a problem whose clients are numbered by their place among ``ids``."""
    kept = among(stated, ids, n_clients)

    def places(clients: Sequence[int]) -> list[int]:
        return np.searchsorted(ids, np.asarray(clients, dtype=np.int64)).tolist()

    return {
        "include": places(kept["include"]),
        "exclude": places(kept["exclude"]),
        "quotas": [Quota(places(each.members), each.at_least, each.at_most, each.name) for each in kept["quotas"]],
        "budgets": kept["budgets"],
        "conflicts": [places(group) for group in kept["conflicts"]],
    }


def check_constraints(constraints: RoundConstraints, n_clients: int, problem: type[Problem], method: str) -> None:
    """Raise `ConfigError` where constraints are over other clients, or the method does not keep side constraints."""
    constraints.check_clients(n_clients)
    if not find(problem, method).constraints:
        able = ", ".join(repr(each.name) for each in methods(problem) if each.constraints)
        raise ConfigError(f"method {method!r} does not keep side constraints; choose one that does: {able}")


def describe(
    constraints: Constraints,
    x: NDArray[np.int64],
    stated: Mapping[str, Any],
    gave_way: Mapping[str, Any],
    prices: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Describe how a round's selection keeps its constraints, for the record.

    Parameters
    ----------
    constraints : Constraints
        Of the clients that were selected from.
    x : (n,) ndarray of int
        The decision about them.
    stated, gave_way : mapping
        What `RoundConstraints.of_round` returned.
    prices : mapping of str to float, optional
        What each costs at the margin, where a solver says so.

    Returns
    -------
    dict
        ``used``, ``slack`` and ``limits`` (least and most, None where there is none) of quotas and budgets by name,
        ``prices``, ``included``: clients that had to come; what gave way. Limits are as stated, and slack is the
        distance to the nearer: that few clients of a group are there makes no limit of it.
    """
    rows = {row.name: row for row in constraints.rows if row.kind != "conflict"}
    used = {name: row.activity(x) for name, row in rows.items()}
    slack = {name: row.slack(x) for name, row in rows.items()}
    limits: dict[str, list[float | None]] = {}
    for k, quota in enumerate(stated["quotas"]):
        name = constraint_name("quotas", k, quota)
        least = quota.at_least + gave_way.get("short", {}).get(name, 0)
        limits[name] = [least or None, quota.at_most]
        # A quota that gave way is measured against what it asked for in this round.
        sides = [used[name] - quota.at_least] if least else []
        sides += [] if quota.at_most is None else [quota.at_most - used[name]]
        slack[name] = min(sides, default=slack[name])  # the row's own where no limit is stated
    for k, budget in enumerate(stated["budgets"]):
        limits[constraint_name("budgets", k, budget)] = [None, float(budget.limit)]
    found: dict[str, Any] = {"used": used, "slack": slack, "limits": limits}
    if prices:
        found["prices"] = dict(prices)
    if stated["include"]:
        found["included"] = sorted(stated["include"])
    return found | dict(gave_way)


# -- configuration -----------------------------------------------------------------------------------------------------


def constraints_of(
    scenario: Scenario, stated: Mapping[str, Any] | RoundConstraints | None, clients_file: str | None = None
) -> RoundConstraints | None:
    """Build the constraints that a configuration states.

    Parameters
    ----------
    scenario : Scenario
        Its clients.
    stated : mapping
        ``include``, ``exclude``, ``conflicts``, ``include_after`` as for `RoundConstraints`. ``quotas``: tables with
        ``at_least`` and ``at_most`` and either ``members``, or ``by`` and perhaps ``value``: ``by`` is a column of the
        table of clients, ``"label"`` (the label that most of a client's samples have) or ``"availability"`` (``"rare"``
        and ``"common"``: below the median of round 0's true rates, or not), and without a value every group has the
        quota. ``budgets``: tables with ``limit``, perhaps ``name``, and one of ``use`` (a list), ``column`` (of the
        table of clients) and ``clock`` (see `ClockBudget`). With ``over = "run"`` each client has its own over all
        rounds, and ``limit`` may be a column, or a list, too (`RunBudget`).
    clients_file : str, optional
        Table of clients (CSV or Parquet) with a column ``client``, 0 to N - 1, and others.

    Raises
    ------
    ConfigError, DataError
        When it is not as described.
    """
    if stated is None or isinstance(stated, RoundConstraints):
        if stated is None and clients_file is not None:
            raise ConfigError("clients_file is the table that constraints speak of, and there are none")
        return stated
    known = ("include", "exclude", "conflicts", "include_after", "quotas", "budgets")
    _check_keys("constraints", stated, known)
    for name in ("quotas", "budgets"):
        _check_list(name, stated.get(name, ()))
    groups = _Groups(scenario, clients_file)
    plain = {name: stated[name] for name in known[:4] if name in stated}
    quotas = [quota for table in stated.get("quotas", ()) for quota in groups.quotas(table)]
    budgets = [groups.budget(table) for table in stated.get("budgets", ())]
    return RoundConstraints(scenario.n_clients, **plain, quotas=quotas, budgets=budgets)


class _Groups:
    """Groups and columns of a scenario's clients by name."""

    def __init__(self, scenario: Scenario, clients_file: str | None) -> None:
        self.scenario, self.file = scenario, clients_file
        self.table = None if clients_file is None else _read_clients(clients_file, scenario.n_clients)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the table of clients."""
        if self.table is None:
            raise ConfigError(f"constraints speak of the clients' column {name!r}: name their table in clients_file")
        if name not in self.table:
            raise ConfigError(f"{self.file} has no column {name!r}; it has {', '.join(map(str, self.table))}")
        return np.asarray(self.table[name])

    def quotas(self, table: Mapping[str, Any]) -> list[Quota]:
        """Return the quotas that a table states: one, or one for each group."""
        _check_keys("a quota", table, ("members", "by", "value", "at_least", "at_most", "name"))
        limits = {key: table[key] for key in ("at_least", "at_most") if key in table}
        try:
            if "members" in table:
                if said := [key for key in ("by", "value") if key in table]:
                    raise ConfigError(f"a quota has members, or by; beside members there is no use for {said[0]}")
                return [Quota(table["members"], name=table.get("name", ""), **limits)]
            if "by" not in table:
                raise ConfigError("a quota has members, or by: a column of clients_file, 'label' or 'availability'")
            by = table["by"]
            values = self._values(by)
            kinds = [table["value"]] if "value" in table else np.unique(values).tolist()
            if "value" in table and not (values == table["value"]).any():
                raise ConfigError(f"no client has the {by} {table['value']!r}")
            return [
                Quota(np.flatnonzero(values == kind).tolist(), name=table.get("name", "") or f"{by} {kind}", **limits)
                for kind in kinds
            ]
        except InvalidProblem as error:
            raise ConfigError(f"constraints: {error}") from error

    def _values(self, by: str) -> NDArray[Any]:
        if by == "label":
            return self.scenario.federation.label_distributions.argmax(axis=1)
        if by == "availability":
            rates = availability_rates(self.scenario)(0)
            return np.where(rates < np.median(rates), "rare", "common")
        return self.column(by)

    def budget(self, table: Mapping[str, Any]) -> Budget | ClockBudget | RunBudget:
        """Return the budget that a table states."""
        _check_keys("a budget", table, ("use", "column", "clock", "limit", "name", "over"))
        sources = [key for key in ("use", "column", "clock") if key in table]
        if len(sources) != 1 or "limit" not in table:
            found = ", ".join(table) or "nothing"
            raise ConfigError(f"a budget has a limit and one of use, column and clock; got {found}")
        if (over := table.get("over", "round")) not in ("round", "run"):
            raise ConfigError(
                f"a budget is over each 'round', of all selected together, or over the 'run', of each client; "
                f"got {over!r}"
            )
        if over == "run":
            use = table[sources[0]] if sources != ["column"] else self.column(table["column"])
            limit = self.column(table["limit"]) if isinstance(table["limit"], str) else table["limit"]
            if sources == ["use"] and isinstance(use, str):
                raise ConfigError(f"a budget's use is a number for each client; got {use!r}")
            return RunBudget(use, limit, table.get("name", "") or str(table.get("column", table.get("clock", ""))))
        if sources == ["clock"]:
            return ClockBudget(table["clock"], table["limit"], table.get("name", ""))
        use = table["use"] if sources == ["use"] else self.column(table["column"])
        try:
            return Budget(np.asarray(use), table["limit"], table.get("name", "") or str(table.get("column", "")))
        except InvalidProblem as error:
            raise ConfigError(f"constraints: {error}") from error


def _read_clients(path: str, n_clients: int) -> Any:
    """Return the table of clients, in the order of their ids."""
    table = read_table(path, "table of clients", numbers=True)
    if "client" not in table.columns:
        raise DataError(f"{path}: a table of clients has a column 'client'; found {', '.join(map(str, table.columns))}")
    ids = np.sort(np.asarray(table["client"]))
    if not np.array_equal(ids, np.arange(n_clients)):
        raise DataError(f"{path}: column 'client' must have the numbers 0 to {n_clients - 1}, each once")
    return table.sort_values("client").drop(columns="client")


def _check_list(name: str, listed: Any) -> None:
    if isinstance(listed, str | Mapping) or not isinstance(listed, Iterable):
        raise ConfigError(f"constraints: {name} must be a list; got {listed!r:.80}")


def _check_keys(what: str, table: Any, known: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{what} must be a table; got {table!r:.80}")
    if unknown := [key for key in table if key not in known]:
        raise ConfigError(f"{what} has no key {unknown[0]!r} (known: {', '.join(known)})")
    if not isinstance(name := table.get("name", ""), str):
        raise ConfigError(f"the name of {what} must be a text; got {name!r:.80}")
