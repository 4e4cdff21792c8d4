"""Record the problems that a selector solves while a federation runs, or that a paper states about the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.experiments import Experiment, build, build_scenario, build_selector
from fedselect.options import Registry
from fedselect.rounds.engine import play
from fedselect.rounds.protocol import EndOfRun, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import availability_rates, participation_rates
from fedselect.training.settings import one_thread
from solvers import Problem
from solvers.participation import CutoffProblem
from solvers.weighting import (
    ConvergenceConstants,
    OptimizationErrorProblem,
    TotalErrorProblem,
    convergence_constants,
)

if TYPE_CHECKING:
    from fedselect.training.fedavg import FedAvg

#: Functions ``(state, *, options) -> Problem`` by name.
PROBLEMS: Registry = Registry("problem")

#: No client's gradient variance counts as less than this share of the mean: one with a single sample has none.
_LEAST = 1e-3


class State:
    """A federation on its way through the rounds.

    Attributes
    ----------
    scenario, experiment
        The setting.
    round : int
        Rounds played so far.
    loop : FedAvg or None
        The training; ``None`` where clients do not train.
    losses, least : (N,) ndarray
        Every client's mean training loss of the current model, and the smallest it has had before any round; empty
        where clients do not train.
    """

    def __init__(self, scenario: Scenario, experiment: Experiment, loop: FedAvg | None = None) -> None:
        self.scenario, self.experiment, self.loop = scenario, experiment, loop
        self.round = 0
        self.losses = self.least = np.zeros(0)
        if loop is not None:
            self._initial = loop.weights
            self.losses = self.least = loop.losses(range(scenario.n_clients))

    def advance(self, round: int) -> None:
        """Play until ``round`` rounds are over."""
        while self.round < round:
            if self.loop is not None:
                try:
                    self.loop.step(evaluate=False)
                except EndOfRun:
                    raise _ended(self.experiment, self.round, round) from None
                self.losses = self.loop.losses(range(self.scenario.n_clients))
                self.least = np.minimum(self.least, self.losses)
            self.round += 1

    @property
    def distance(self) -> float:
        """Euclidean distance of the model from the initial one."""
        return float(np.linalg.norm(self.trained.weights - self._initial))

    @property
    def trained(self) -> FedAvg:
        """The training; raises `ConfigError` where there is none."""
        if self.loop is None:
            raise ConfigError("this problem is about a model in training; record it with training")
        return self.loop

    def gradient_deviations(self) -> NDArray[np.float64]:
        """σ_k: standard deviation of each client's stochastic gradient of the current model, shape (N,)."""
        import torch

        from fedselect.training.models import MODELS
        from fedselect.training.stacks import Functional, dense

        settings, federation = self.experiment.training, self.scenario.federation
        model = MODELS.build(settings.model, federation, **settings.model_options)
        gradients_of, weights = dense(model) or Functional(model), torch.from_numpy(self.trained.weights)
        variances = []
        for samples in federation.datasets:
            n = len(samples)
            one_each = torch.from_numpy(samples.features).unsqueeze(1), torch.from_numpy(samples.labels).unsqueeze(1)
            _, gradients = gradients_of(weights.expand(n, -1), *one_each, torch.ones(n, 1))
            # Sampling b of n without replacement, every sample's gradient being one draw with this variance.
            variances.append(float(gradients.double().var(dim=0, correction=0).sum()) / min(settings.batch_size, n))
        found = np.array(variances)
        return np.sqrt(np.maximum(found, _LEAST * found.mean()))


@PROBLEMS.register("cutoff")
def cutoff(state: State) -> CutoffProblem:
    """FedAU's cutoff for the rounds planned, at the true participation rates (Theorem 3)."""
    rates = participation_rates(state.scenario)(state.round)
    return CutoffProblem(rates, state.experiment.rounds)


@PROBLEMS.register("optimization-error")
def optimization_error(state: State, *, condition: float = 1.0, states: float = 2.0) -> OptimizationErrorProblem:
    """CA-Fed's Eq. 27 with the variances and the distance of the model at hand; see `constants`."""
    pi = availability_rates(state.scenario)(state.round)
    return constants(state, pi, condition, states).optimization_error(pi)


@PROBLEMS.register("total-error")
def total_error(
    state: State, *, bias: Literal["chi2", "tv"] = "chi2", condition: float = 1.0, states: float = 2.0
) -> TotalErrorProblem:
    """CA-Fed's Eq. 13 (χ²) or 14 (total variation); see `constants`.

    The heterogeneity is Eq. 18's estimate: the largest loss of a client above the smallest it has had so far.
    """
    pi = availability_rates(state.scenario)(state.round)
    found = constants(state, pi, condition, states)
    alpha = state.experiment.training.importances(state.scenario.sizes)
    return found.total_error(pi, alpha, float((state.losses - state.least).max()), bias)


def constants(state: State, pi: NDArray[np.float64], condition: float, states: float) -> ConvergenceConstants:
    """Theorem 2's A and B for a training as far as it has come.

    The gradients' variances are measured at the current model; the distance to the optimum is estimated by how far
    the model has moved; Q is what unbiased weights α/π sum to. The condition number κ and the number of states M of
    the availability chain, which is 2ⁿ and makes the theorem's B astronomical, are taken as given. C, which moves the
    value alone, is 0.
    """
    settings, rounds = state.experiment.training, state.experiment.rounds
    if settings.local_steps is None:
        raise ConfigError("Theorem 2 counts local steps; give training.local_steps instead of local_epochs")
    unknown: dict[str, Any] = {"gradient_bound": 0.0, "gradient_moment": 0.0, "loss_range": 1.0, "correlation": 0.5}
    found = convergence_constants(
        smoothness=condition,
        strong_convexity=1.0,
        deviations=state.gradient_deviations(),
        step_sizes=[settings.rate(t) for t in range(rounds + 1)],
        local_steps=settings.local_steps,
        total=float((settings.importances(state.scenario.sizes) / pi).sum()),
        heterogeneity=0.0,
        distance=state.distance,
        states=states,
        **unknown,
    )
    return replace(found, psi=0.0, phi=0.0)


def record(
    experiment: Experiment,
    rounds: Iterable[int],
    *,
    train: bool = False,
    problem: str = "selector",
    options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[int, Problem]]:
    """Play a federation and keep the problems of some rounds.

    Everything random is a function of the experiment's seeds, so the same experiment gives the same problems, to the
    bit on one machine, as long as the selector's own method does: one that runs until its time limit need not. On
    another processor the last bits may differ, and more so where clients had to train, as PyTorch's kernels differ.
    FedGS's problems have the same bits there, too, as its distances do (`graphs.reproducible`), unless they train.

    Parameters
    ----------
    experiment : Experiment
        Federation, availability, selector and, where they train, how.
    rounds : iterable of int
        Rounds to keep, from 0 and below ``experiment.rounds``.
    train : bool
        Whether clients train. Selectors that look at losses or updates (CA-Fed, say; FedSS for its deviations) need it;
        others see the same rounds without.
    problem : str
        ``"selector"`` for the problem behind the selector's decision, or a name in
        `PROBLEMS`: a problem that a paper states about the whole federation.
    options : mapping, optional
        Of the latter.

    Yields
    ------
    (int, Problem)
        The round and its problem.

    Raises
    ------
    ConfigError
        When a round or an option is out of range, a problem needs training, or there was no problem to solve in one of
        the rounds: then and where the selector ends the run before one, after those before were yielded.
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
        played = 0
        for t, selection in _selections(experiment, scenario, wanted[-1] + 1, train):
            played = t + 1
            if t in wanted:
                if selection.solution is None:
                    why = "it solves none" if selection.clients.size else "nobody was selected"
                    raise ConfigError(f"selector {experiment.selector.name!r} has no problem in round {t}: {why}")
                yield t, selection.solution.problem
        if played <= wanted[-1]:
            raise _ended(experiment, played, next(t for t in wanted if t >= played))


def _ended(experiment: Experiment, played: int, wanted: int) -> ConfigError:
    """Return the error of a selector that ends the run before a round that is to be recorded."""
    name = experiment.selector.name
    return ConfigError(f"selector {name!r} ends the run after {played} rounds, so that there is no round {wanted}")


def _selections(
    experiment: Experiment, scenario: Scenario, rounds: int, train: bool
) -> Iterator[tuple[int, Selection]]:
    if train:
        loop = build(experiment, scenario)
        with suppress(EndOfRun):
            for t in range(rounds):
                yield t, loop.step(evaluate=False).selection
        return
    for played in play(build_selector(experiment.selector, scenario), scenario, rounds):
        yield played.round, played.selection
