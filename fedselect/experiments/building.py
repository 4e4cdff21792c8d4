"""What an experiment's configuration names, built: its scenario, its selector, its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.experiments.config import Choice, Experiment
from fedselect.rounds.protocol import Selector
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import SELECTORS

if TYPE_CHECKING:
    from fedselect.training.fedavg import FedAvg

__all__ = ["build", "build_scenario", "build_selector"]

#: What a run asks of a selector (`fedselect.rounds.protocol.Selector`).
_METHODS = ("select", "update", "state_dict", "load_state_dict")


def build_scenario(experiment: Experiment, federation: Federation | None = None) -> Scenario:
    """The setting of an experiment: clients, availability and dropout, built; it needs no PyTorch.

    Parameters
    ----------
    experiment : Experiment
        What to build.
    federation : Federation, optional
        Use this instead of loading the experiment's data set.

    Returns
    -------
    Scenario
    """
    federation = federation or experiment.federation()
    availability, dropout, seed = experiment.availability, experiment.dropout, experiment.seed
    return Scenario(
        federation.sizes,
        AVAILABILITY.build(availability.name, federation, seed, **availability.options),
        DROPOUT.build(dropout.name, len(federation), seed, **dropout.options),
        seed,
        experiment.time_limit,
        size=experiment.clients_per_round,
        rounds=experiment.rounds,
        data=federation,
    )


def build_selector(choice: Choice, scenario: Scenario) -> Selector:
    """The selector that a configuration chooses, for a scenario; raises `ConfigError` for a class that is none."""
    selector = SELECTORS.build(choice.name, scenario, **choice.options)
    lacking = [name for name in _METHODS if not callable(getattr(selector, name, None))]
    if lacking:
        raise ConfigError(
            f"selector {choice.name!r} is a {type(selector).__name__}, which has no {', '.join(lacking)}: a selector "
            "has select(round), update(feedback), state_dict() and load_state_dict(state)"
        )
    return selector


def build(experiment: Experiment, scenario: Scenario | None = None) -> FedAvg:
    """Build the loop of an experiment, nothing run yet.

    Parameters
    ----------
    experiment : Experiment
        What to build.
    scenario : Scenario, optional
        From `build_scenario`, where it stands already.

    Returns
    -------
    FedAvg
        At round 0.
    """
    from fedselect.training.fedavg import FedAvg

    scenario = scenario or build_scenario(experiment)
    return FedAvg.within(scenario, build_selector(experiment.selector, scenario), settings=experiment.training)
