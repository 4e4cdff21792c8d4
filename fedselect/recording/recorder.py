"""Record the problems that a selector solves while a federation runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from fedselect.errors import ConfigError
from fedselect.experiments import Experiment, build, build_scenario, build_selector
from fedselect.recording.theorems import PROBLEMS, State
from fedselect.rounds.engine import play
from fedselect.rounds.protocol import Selection
from fedselect.rounds.scenario import Scenario
from fedselect.training.settings import one_thread
from solvers import Problem

__all__ = ["record"]


def record(
    experiment: Experiment,
    rounds: Iterable[int],
    *,
    train: bool = False,
    problem: str = "selector",
    options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[int, Problem]]:
    """Play a federation and keep the problems of some rounds.

    Everything random is a function of the experiment's seed, so the same experiment gives the same problems, to the
    bit on one machine, as long as the selector's own method does: one that runs until its time limit need not. On
    another processor FedGS's problems have the same bits, too, as its distances do (`graphs.reproducible`); E3CS's
    weights agree to 1e-12, and what clients had to train for to 1e-3, as PyTorch's kernels differ.

    Parameters
    ----------
    experiment : Experiment
        Federation, availability, selector and, where they train, how.
    rounds : iterable of int
        Rounds to keep, from 0 and below ``experiment.rounds``; nothing is played beyond the last of them.
    train : bool
        Whether clients train. Selectors that look at losses or updates (CA-Fed; FedSS for its deviations) need it;
        all others see the same rounds without, and sooner.
    problem : str
        ``"selector"`` for the problem behind the selector's decision, or a name in
        `fedselect.recording.theorems.PROBLEMS`: a problem that a paper states about the whole federation.
    options : mapping, optional
        Of the latter.

    Yields
    ------
    (int, Problem)
        The round and its problem.

    Raises
    ------
    ConfigError
        When a round or an option is out of range, or there was no problem to solve in one of the rounds.
    """
    wanted = sorted(set(rounds))
    if not wanted or wanted[0] < 0 or wanted[-1] >= experiment.rounds:
        raise ConfigError(f"rounds to record lie between 0 and {experiment.rounds - 1}; got {wanted or 'none'}")
    scenario = build_scenario(experiment)
    with one_thread() if train else nullcontext():
        if problem != "selector":
            PROBLEMS.check(problem, options or {})
            state = State(scenario, experiment, build(experiment, scenario) if train else None)
            for t in wanted:
                state.advance(t)
                yield t, PROBLEMS.build(problem, state, **(options or {}))
            return
        if options:
            raise ConfigError("options are for a problem stated by name; those of a selector are its own")
        for t, selection in _selections(experiment, scenario, wanted[-1] + 1, train):
            if t in wanted:
                if selection.solution is None:
                    why = "it solves none" if selection.clients.size else "nobody was selected"
                    raise ConfigError(f"selector {experiment.selector.name!r} has no problem in round {t}: {why}")
                yield t, selection.solution.problem


def _selections(
    experiment: Experiment, scenario: Scenario, rounds: int, train: bool
) -> Iterator[tuple[int, Selection]]:
    if train:
        loop = build(experiment, scenario)
        for t in range(rounds):
            yield t, loop.step(evaluate=False).selection
        return
    for played in play(build_selector(experiment.selector, scenario), scenario, rounds):
        yield played.round, played.selection
