"""Base of the selectors: registry, state, weights, probes for losses, true rates for oracles, solving in a round."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import Registry, check_choice, check_count
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario
from solvers import Problem, Solution, solve, with_bound
from solvers.checks import seconds_or_none
from solvers.options import check_keywords
from solvers.solving import plan

#: What a scenario fills in where a selector's constructor has an argument of this name: no option of a configuration.
_FILLED: dict[str, Callable[[Scenario], Any]] = {
    **dict.fromkeys(("size", "m", "k", "clients_per_round", "n_select"), lambda scenario: scenario.size),
    **dict.fromkeys(("n_clients", "clients", "n", "num_clients"), lambda scenario: scenario.n_clients),
    "rounds": lambda scenario: scenario.rounds,
    "availability": lambda scenario: scenario.availability,
    "label_counts": lambda scenario: scenario.federation.label_counts,
}


def _of_class(kind: type) -> Callable[..., Any]:
    """Return a builder of a class whose constructor is its configuration.

    Arguments of the names in `_FILLED` come from the scenario. ``importance``, an array, is stated by name
    (``"samples"``, or ``"equal"`` where the constructor may go without); ``constraints`` is stated as a table
    (`fedselect.selectors.constraints.constraints_of`). All others are options as they stand. A class whose first
    argument is none of `_FILLED` takes the scenario itself.
    """
    given = list(inspect.signature(kind).parameters.values())
    if given and given[0].name.lower() not in _FILLED:
        return kind
    filled = {each.name: _FILLED[each.name.lower()] for each in given if each.name.lower() in _FILLED}
    stated: list[inspect.Parameter] = []
    for each in given:
        if each.name == "importance":
            stated.append(
                each.replace(annotation=Importance, default="samples" if each.default is each.empty else "equal")
            )
        elif each.name == "constraints":
            stated.append(each.replace(annotation=dict[str, Any] | None))
            stated.append(each.replace(name="clients_file", annotation=str | None))
        elif each.name not in filled:
            stated.append(each)

    def build(scenario: Scenario, **options: Any) -> Any:
        for each in stated:
            options.setdefault(each.name, each.default)
        if "importance" in options:
            options["importance"] = target_importance(scenario, options["importance"])
        if "constraints" in options:
            from fedselect.selectors.constraints import constraints_of  # which builds on this module

            options["constraints"] = constraints_of(scenario, options["constraints"], options.pop("clients_file"))
        return kind(**{name: fill(scenario) for name, fill in filled.items()}, **options)

    world = inspect.Parameter("scenario", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in stated]
    build.__signature__ = inspect.Signature([world, *others])  # type: ignore[attr-defined]
    build.__module__, build.__qualname__, build.__doc__ = kind.__module__, kind.__qualname__, kind.__doc__
    build.__wrapped__ = kind  # type: ignore[attr-defined]
    return build


class _Selectors(Registry):
    """Selectors by name; a class need not take a scenario."""

    def put(self, name: str, entry: Callable[..., Any], *aliases: str) -> None:
        """Register a builder, or a class as `_of_class` makes one of it."""
        super().put(name, _of_class(entry) if isinstance(entry, type) else entry, *aliases)

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Check options as every registry does; where side constraints are refused, say which selectors keep them."""
        own, budgets = self._apart(name, given)
        stated = budgets.get("constraints") or {"budgets": ()}
        tables = stated.get("budgets", ()) if isinstance(stated, Mapping) and set(stated) == {"budgets"} else (None,)
        tables = tables if isinstance(tables, Sequence) else (None,)
        if any(not isinstance(each, Mapping) or each.get("over") != "run" for each in tables):
            able = ", ".join(each for each in self.names if "constraints" in self.options(each))
            raise ConfigError(
                f"selector {name!r} keeps no constraints but budgets over the run (over = 'run'); selectors that keep "
                f"them: {able}"
            )
        super().check(name, own)

    def build(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Build a selector; one that keeps no constraints of its own is put under budgets over the run, where given."""
        self.check(name, options)
        own, budgets = self._apart(name, options)
        built = super().build(name, *arguments, **own)
        if isinstance(built, SelectorBase) and built.n_clients is None:
            built.n_clients = arguments[0].n_clients
        if not budgets:
            return built
        from fedselect.selectors.batteries import with_batteries
        from fedselect.selectors.constraints import constraints_of  # which build on this module

        stated = constraints_of(arguments[0], budgets.get("constraints"), budgets.get("clients_file"))
        return built if stated is None else with_batteries(built, stated)

    def _apart(self, name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the options of the selector itself, and those that say its budgets over the run."""
        known = self.options(name)
        theirs = () if "constraints" in known else ("constraints", *({"clients_file"} - set(known)))
        own = {key: value for key, value in given.items() if key not in theirs}
        return own, {key: value for key, value in given.items() if key in theirs}


#: Builders ``(scenario, *, options) -> Selector`` by name.
SELECTORS: Registry = _Selectors("selector")


class Stateful:
    """Base of what a run resumes: its state is the attributes that ``state_names`` lists.

    They are numbers, arrays, or objects with a state of their own; names in the state have no leading underscore.
    """

    state_names: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the attributes in ``state_names``: what later decisions need beside the arguments."""
        values = {name.lstrip("_"): getattr(self, name) for name in self.state_names}
        return {key: v.state_dict() if hasattr(v, "state_dict") else copy.copy(v) for key, v in values.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        for name in self.state_names:
            old, new = getattr(self, name), state[name.lstrip("_")]
            if hasattr(old, "load_state_dict"):
                old.load_state_dict(new)
            else:
                setattr(self, name, np.array(new, dtype=old.dtype) if isinstance(old, np.ndarray) else type(old)(new))


class SelectorBase(Stateful):
    """Base of a selector: nothing to do in a round without clients, and nothing to learn unless a subclass does.

    A subclass gives `_choose`, or `_select` where a round without clients is more than nothing. Arguments that are out
    of range mostly raise `ConfigError`, when it is built or in a round; for methods see `check_solving`.
    """

    #: Clients it was built for; None where it serves any number of them.
    n_clients: int | None = None

    def __new__(cls, *values: Any, **given: Any) -> Self:
        """Raise `TypeError` for arguments that do not fit the constructor, with the name that may have been meant."""
        check_keywords(cls.__name__, cls.__init__, given)
        signature = inspect.signature(cls.__init__)
        try:
            if values or given:  # a copy is made without any
                signature.bind(None, *values, **given)
        except TypeError as error:
            parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()][1:]
            called = signature.replace(parameters=parameters, return_annotation=signature.empty)
            raise TypeError(f"{cls.__name__}: {error}; write {cls.__name__}{called}") from None
        return super().__new__(cls)

    @classmethod
    def of(cls, federation: Federation, size: int, **options: Any) -> Self:
        """Build the selector for the clients of a federation.

        Parameters
        ----------
        federation : Federation
            Gives the constructor the number of clients and their label counts, where it has arguments for these, and
            shares of the samples as ``importance``, where it requires that.
        size : int
            Clients to select a round; a selector of all available clients has no use for it.
        **options
            Further arguments of the constructor; ``importance`` may also be ``"samples"`` or ``"equal"``.

        Raises
        ------
        ConfigError
            When ``federation`` is no `Federation`, ``size`` no positive integer, or an argument that the constructor
            requires is missing.
        TypeError
            When the constructor has no such option. Its own errors come beside.
        """
        check_federation(cls, federation)
        world = Scenario(federation.sizes, None, size=check_size(size), rounds=1, data=federation)  # type: ignore[arg-type]
        wanted = dict(inspect.signature(cls).parameters)
        check_keywords(f"{cls.__name__}.of", cls.__init__, options)
        for name in wanted:
            fill = _FILLED.get(name.lower())
            if fill is not None and name not in {"rounds", "availability", *options}:
                options[name] = fill(world)
        if "importance" in wanted and wanted["importance"].default is inspect.Parameter.empty:
            options.setdefault("importance", "samples")
        if isinstance(importance := options.get("importance"), str):
            check_choice("importance", importance, *get_args(Importance))
            options["importance"] = target_importance(world, importance)  # type: ignore[arg-type]
        if lacking := [name for name, each in wanted.items() if each.default is each.empty and name not in options]:
            raise ConfigError(f"{cls.__name__}.of needs {lacking[0]}=, which a federation does not say")
        built = cls(**options)
        if built.n_clients is None:
            built.n_clients = world.n_clients
        return built

    def select(self, round: RoundContext) -> Selection:
        """Select among the available clients.

        Raises
        ------
        ConfigError
            When the round is of another number of clients than the selector was built for. A subclass has further
            reasons.
        """
        n = round.available.size
        if self.n_clients not in (None, n):
            raise ConfigError(
                f"this {type(self).__name__} was built for {self.n_clients} clients, and round {round.round} has {n}: "
                "build one for the clients of the round"
            )
        return self._select(round)

    def _select(self, round: RoundContext) -> Selection:
        """Select among the available clients; none where none is available."""
        round = self.within_budgets(round)
        present = np.flatnonzero(round.available)
        return self._choose(round, present) if present.size else no_clients()

    def within_budgets(self, round: RoundContext) -> RoundContext:
        """Return the round without clients that have used up a budget over the run, where constraints state one."""
        constraints = getattr(self, "constraints", None)
        return round if constraints is None else constraints.within_budgets(round)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        """Select among the available clients, at least one, in the order of their ids."""
        raise NotImplementedError

    def update(self, feedback: RoundFeedback) -> None:
        """Learn from the outcomes."""

    def __repr__(self) -> str:
        plain = {name: value for name, value in vars(self).items() if isinstance(value, (bool, int, float, str))}
        shown = ", ".join(f"{name}={value!r}" for name, value in plain.items() if not name.startswith("_"))
        return f"{type(self).__name__}({shown})"


def check_federation(kind: type, federation: Federation) -> None:
    """Raise `ConfigError` where a selector is to be built of what is no `Federation`."""
    if not isinstance(federation, Federation):
        raise ConfigError(f"{kind.__name__}.of takes a Federation and a size; got {federation!r:.80}")


def check_size(size: int) -> int:
    """Return the number of clients to select if it is a positive integer; raise `ConfigError` otherwise."""
    return check_count("the number of clients to select", size)


def no_clients() -> Selection:
    """Return the selection of a round in which no client is available."""
    return Selection(np.empty(0, dtype=np.int64), np.empty(0))


def largest(
    scores: NDArray[np.float64], clients: NDArray[np.int64], size: int, ties: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Return the ids of the ``size`` clients of the largest scores, sorted; the earlier (or lower ``ties``) wins."""
    order = np.argsort(-scores, kind="stable") if ties is None else np.lexsort((ties, -scores))
    return np.sort(clients[order[:size]])


# -- weights -------------------------------------------------------------------------------------------------------

#: Target importance α by name: shares of the samples, or 1/N.
Importance = Literal["samples", "equal"]


def check_importance(importance: ArrayLike) -> NDArray[np.float64]:
    """Return target importance α, (N,), if it is positive and sums to 1 (to 1e-9); raise `ConfigError` otherwise."""
    try:
        alpha = np.array(importance, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        alpha = np.array(np.nan)
    if alpha.ndim != 1 or alpha.size == 0 or not (np.isfinite(alpha) & (alpha > 0)).all():
        raise ConfigError(f"the importance must be one positive number for each client; got {importance!r:.80}")
    if abs(alpha.sum() - 1.0) > 1e-9:
        raise ConfigError(f"the importance must sum to 1; it sums to {alpha.sum():.12g}")
    alpha.setflags(write=False)
    return alpha


def equal_importance(n_clients: int) -> NDArray[np.float64]:
    """Return α = 1/N for every client, shape (N,)."""
    return np.full(check_count("the number of clients", n_clients), 1.0 / n_clients)


def target_importance(scenario: Scenario, importance: Importance) -> NDArray[np.float64]:
    """Return the target importance α of a scenario's clients, shape (N,)."""
    return equal_importance(scenario.n_clients) if importance == "equal" else scenario.sizes / scenario.sizes.sum()


def data_weights(sizes: NDArray[np.int64], clients: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Return :math:`n_k / \sum_{i \in S} n_i` for the selected clients, shape (m,) (FedGS Eq. 18)."""
    chosen = sizes[clients].astype(np.float64)
    return chosen / chosen.sum() if clients.size else chosen


#: Weights of selected clients' updates where a paper leaves them to the aggregation; see `aggregate`.
Aggregation = Literal["samples", "mean", "deadline"]


def check_aggregation(aggregation: Aggregation) -> Aggregation:
    """Return the name of an aggregation if it is known; raise `ConfigError` otherwise."""
    check_choice("aggregation", aggregation, *get_args(Aggregation))
    return aggregation


def aggregate(
    clients: NDArray[np.int64],
    sizes: NDArray[np.int64],
    aggregation: Aggregation,
    inclusion: NDArray[np.float64] | None = None,
) -> Selection:
    r"""Weigh selected clients in one of the ways that the papers' baselines share.

    Parameters
    ----------
    clients : (m,) ndarray of int
        Selected clients, sorted.
    sizes : (N,) ndarray of int
        Training samples n of each client.
    aggregation : {"samples", "mean", "deadline"}
        ``"samples"``: :math:`n_k / \sum_{i \in S} n_i`, over those that return (FedGS Eq. 18, FedSS Eq. 3).
        ``"mean"``: 1/m, over those that return. ``"deadline"``: :math:`n_k / \sum_{\text{all}} n_i`, where the global
        model stands in for a client that does not return (E3CS Eq. 5), so that fewer returns make a smaller step.
    inclusion : (N,) ndarray, optional
        Inclusion probabilities, passed on.

    Returns
    -------
    Selection
        With ``on_failure="keep"`` for ``"deadline"``, ``"renormalise"`` for the others.
    """
    if aggregation == "deadline":
        return Selection(clients, sizes[clients] / sizes.sum(), inclusion, on_failure="keep")
    weights = data_weights(sizes, clients) if aggregation == "samples" else np.full(clients.size, 1 / clients.size)
    return Selection(clients, weights, inclusion, on_failure="renormalise")


# -- losses and rates ----------------------------------------------------------------------------------------------

#: Samples that clients measure a loss on: those they train on, or those they have held out.
Part = Literal["training", "validation"]


def losses(round: RoundContext, clients: NDArray[np.int64], name: str, part: Part = "training") -> NDArray[np.float64]:
    """Probe the clients' losses for the selector of this name; raise `ConfigError` without a finite one of each."""
    probe = round.probe if part == "training" else round.validation_probe
    if probe is None:
        if part == "validation":
            raise ConfigError(
                f"selector {name!r} asks clients for their validation losses, and nothing was held out of training; "
                "give the data set a validation_fraction"
            )
        raise ConfigError(
            f"selector {name!r} asks clients for their losses, and this round has no probe for them: a model that is "
            "trained has losses (fedselect run, FedAvg), and rounds without training have none; give your own in "
            "fedselect.rounds.context(..., probe=lambda clients: losses[clients])"
        )
    values = np.asarray(probe(clients.tolist()), dtype=np.float64)
    if values.shape != clients.shape or not np.isfinite(values).all():
        raise ConfigError(
            f"selector {name!r} needs one finite loss per client; the probe gave {values} in round {round.round} "
            "(has the model diverged? a lower learning rate may help)"
        )
    return values


#: Probability of each client, (N,): the same in every round, or a function of the round.
Rates = ArrayLike | Callable[[int], ArrayLike]


def availability_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Return the true probability that each client is available, as a function of the round."""
    return _stated(scenario.availability, "rates")


def success_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Return the true probability that each client returns once it was selected, as a function of the round."""
    return _stated(scenario.dropout, "rates")


def participation_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Return the true probability that each client is available and returns, as a function of the round."""
    there, back = availability_rates(scenario), success_rates(scenario)
    return lambda round: there(round) * back(round)


def correlations(scenario: Scenario) -> NDArray[np.float64]:
    """Return the second eigenvalue λ of each client's availability chain; 0 where rounds are independent."""
    return np.asarray(_stated(scenario.availability, "correlation"), dtype=np.float64)


def rates_at(rates: Rates, round: int) -> NDArray[np.float64]:
    """Return the rates of one round."""
    return np.asarray(rates(round) if callable(rates) else rates, dtype=np.float64)


def check_length(rates: Rates, n_clients: int) -> Rates:
    """Return rates that are a function, or one number for each client; raise `ConfigError` for others."""
    if not callable(rates) and np.shape(rates) != (n_clients,):
        raise ConfigError(f"rates must be one number for each of {n_clients} clients; got shape {np.shape(rates)}")
    return rates


def positive_rates(rates: Rates, round: int, clients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rates of available clients, to divide by; raise `ConfigError` for one outside (0, 1]."""
    values = rates_at(rates, round)[clients]
    if (wrong := ~((values > 0) & (values <= 1))).any():
        k = int(np.flatnonzero(wrong)[0])
        raise ConfigError(
            f"client {clients[k]} is available in round {round}, so its rate must lie in (0, 1]; it is given as "
            f"{values[k]:g}"
        )
    return values


def _stated(model: Any, name: str) -> Any:
    """Return an attribute of an availability or dropout model that only an oracle may know."""
    if not hasattr(model, name):
        raise ConfigError(
            f"{type(model).__name__} does not state its {name}, which this selector takes from it as an oracle; "
            "use a selector that estimates, or another model"
        )
    return getattr(model, name)


# -- solving -------------------------------------------------------------------------------------------------------


def check_solving(
    problem: type[Problem], method: str, bound_by: str | None = None, time_limit: float | None = None
) -> None:
    """Check the names of a selector's methods and its time limit when it is built, before the first round.

    Parameters
    ----------
    problem : type
        What the selector solves.
    method, bound_by : str
        Names of methods; None for a ``bound_by`` that is left out.
    time_limit : float, optional
        Seconds; None where the round's counts.

    Raises
    ------
    UnknownMethod
        When no such method is registered for the problem.
    InvalidOption
        When ``bound_by`` names a heuristic, which promises no bound.
    ConfigError
        When the time limit is no positive number.
    """
    plan(problem, method, bound_by=bound_by)
    seconds_or_none(time_limit, error=ConfigError)


def solved(
    problem: Problem,
    method: str,
    round: RoundContext,
    time_limit: float | None = None,
    *,
    bound_by: str | None = None,
    **options: Any,
) -> tuple[NDArray[Any], Solution]:
    """Solve a problem within the round's time and with its randomness.

    Parameters
    ----------
    problem : solvers.Problem
        What to solve.
    method : str
        A method registered for it.
    round : RoundContext
        Gives the seed, and the time limit where ``time_limit`` is ``None``.
    time_limit : float, optional
        Seconds.
    bound_by : str, optional
        A second method, given the same problem after the decision, whose bound is put on the decision's `Solution`:
        what a heuristic without a bound of its own is worth. It has as much time, and changes neither the decision,
        nor its ``seconds``, nor what is drawn afterwards.
    **options
        Passed on to `solvers.solve`.

    Returns
    -------
    (ndarray, solvers.Solution)
        The decision, and all that is known about it.

    Raises
    ------
    KeyboardInterrupt
        When the solve was interrupted: it returns its incumbent, but the training is to stop all the same.
    ConfigError
        When the method found no decision in its time. Errors of `solvers.solve` come beside.
    """
    limit = round.time_limit if time_limit is None else time_limit
    seed = int(round.rng.integers(2**31))
    solution = uninterrupted(solve(problem, method, time_limit=limit, seed=seed, **options))
    if solution.x is None:
        raise ConfigError(
            f"method {method!r} found no decision in round {round.round} ({solution.stopped}); "
            "give it more time, or choose another method"
        )
    if bound_by is not None:
        solution = uninterrupted(with_bound(solution, bound_by, limit))
    assert solution.x is not None
    return solution.x, solution


def uninterrupted(solution: Solution) -> Solution:
    """Return the solution, or raise `KeyboardInterrupt` again where Ctrl-C ended its solve."""
    if solution.stopped == "interrupted":
        raise KeyboardInterrupt
    return solution
