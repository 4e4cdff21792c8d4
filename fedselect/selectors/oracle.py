"""What an oracle knows: the scenario's true rates, for the selectors that are defined with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability import Independent
from fedselect.errors import ConfigError
from fedselect.scenario import Scenario

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
    return lambda round: _stated(scenario.availability, "rates", round, scenario.clients)


def success_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Probability that each client returns once it was selected, as a function of the round."""
    model = scenario.dropout
    if hasattr(model, "rate"):  # one number: the probability of going missing
        return lambda round: 1.0 - _stated(model, "rate", round, scenario.clients)
    return lambda round: _stated(model, "rates", round, scenario.clients)


def participation_rates(scenario: Scenario) -> Callable[[int], NDArray[np.float64]]:
    """Probability that each client is available and returns, as a function of the round."""
    there, back = availability_rates(scenario), success_rates(scenario)
    return lambda round: there(round) * back(round)


def correlations(scenario: Scenario) -> NDArray[np.float64]:
    """Second eigenvalue λ of each client's two-state availability chain; 0 where rounds are independent."""
    if isinstance(scenario.availability, Independent):
        return np.zeros(scenario.clients)
    return _stated(scenario.availability, "correlation", 0, scenario.clients)


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


def _stated(model: Any, name: str, round: int, clients: int) -> NDArray[np.float64]:
    """What a model says about itself: an attribute, or a method of the round; one number, or one per client.

    The one place that knows both shapes.
    """
    value = getattr(model, name, None)
    if value is not None:
        return np.broadcast_to(np.asarray(value(round) if callable(value) else value, dtype=np.float64), (clients,))
    raise ConfigError(
        f"{type(model).__name__} does not state its {name}, which this selector takes from it as an oracle; "
        "use a selector that estimates, or another model"
    )
