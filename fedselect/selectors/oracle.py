"""What an oracle knows: the scenario's true rates, for the selectors that are defined with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.scenario import Scenario

__all__ = [
    "Rates",
    "availability_rates",
    "correlations",
    "participation_rates",
    "positive_rates",
    "rates_at",
    "success_rates",
]

#: Probability of each client, (N,): the same in every round, or a function of the round.
Rates = ArrayLike | Callable[[int], ArrayLike]


def availability_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Probability that each client is available, as a function of the round."""
    return _stated(scenario.availability, "rates")


def success_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Probability that each client returns once it was selected, as a function of the round."""
    return _stated(scenario.dropout, "rates")


def participation_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Probability that each client is available and returns, as a function of the round."""
    there, back = availability_rates(scenario), success_rates(scenario)
    return lambda round: there(round) * back(round)


def correlations(scenario: Scenario) -> NDArray[np.float64]:
    """Second eigenvalue λ of each client's two-state availability chain; 0 where rounds are independent."""
    return np.asarray(_stated(scenario.availability, "correlation"), dtype=np.float64)


def rates_at(rates: Rates, round: int) -> NDArray[np.float64]:
    """The rates of one round."""
    return np.asarray(rates(round) if callable(rates) else rates, dtype=np.float64)


def positive_rates(rates: Rates, round: int, clients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rates to divide by, of clients that are there; raise `ConfigError` for one outside (0, 1]."""
    values = rates_at(rates, round)[clients]
    if (wrong := ~((values > 0) & (values <= 1))).any():
        k = int(np.flatnonzero(wrong)[0])
        raise ConfigError(
            f"client {clients[k]} is available in round {round}, so its rate must lie in (0, 1]; it is given as "
            f"{values[k]:g}"
        )
    return values


def _stated(model: Any, name: str) -> Any:
    """What a model says about itself, or a sentence where it does not."""
    if not hasattr(model, name):
        raise ConfigError(
            f"{type(model).__name__} does not state its {name}, which this selector takes from it as an oracle; "
            "use a selector that estimates, or another model"
        )
    return getattr(model, name)
