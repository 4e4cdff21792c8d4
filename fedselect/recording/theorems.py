"""Problems that a paper states about a whole federation, from what can be known of one: rates, gradients, losses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.experiments import Experiment
from fedselect.options import Registry
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import availability_rates, participation_rates
from solvers.participation import CutoffProblem
from solvers.weighting import (
    ConvergenceConstants,
    OptimizationErrorProblem,
    TotalErrorProblem,
    convergence_constants,
)

if TYPE_CHECKING:
    from fedselect.training.fedavg import FedAvg

__all__ = ["PROBLEMS", "State"]

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
        Every client's mean training loss of the current model, and the smallest it has had before any round.
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
            self.round += 1
            if self.loop is not None:
                self.loop.step(evaluate=False)
                self.losses = self.loop.losses(range(self.scenario.n_clients))
                self.least = np.minimum(self.least, self.losses)

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

        from fedselect.training.batched_clients import Functional, dense
        from fedselect.training.models import MODELS

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
    alpha = state.experiment.training.importances(state.scenario.sizes)
    gap = float((state.losses - state.least).max())
    return constants(state, pi, condition, states).total_error(pi, alpha, gap, bias)


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
