"""Target importance α: how much each client is to count in the objective."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.checks import check_size

__all__ = ["check_importance", "equal_importance", "target_importance"]


def check_importance(importance: ArrayLike) -> NDArray[np.float64]:
    """Target importance α: positive and summing to 1 (to 1e-9), shape (N,); raise `ConfigError` otherwise."""
    alpha = np.array(importance, dtype=np.float64)
    if alpha.ndim != 1 or alpha.size == 0 or not (np.isfinite(alpha) & (alpha > 0)).all():
        raise ConfigError(f"the importance must be one positive number for each client; got {importance!r}")
    if abs(alpha.sum() - 1.0) > 1e-9:
        raise ConfigError(f"the importance must sum to 1; it sums to {alpha.sum():.12g}")
    alpha.setflags(write=False)
    return alpha


def equal_importance(clients: int) -> NDArray[np.float64]:
    """α = 1/N for every client, shape (N,)."""
    return np.full(check_size(clients, "the number of clients"), 1.0 / clients)


def target_importance(scenario: Scenario, importance: Literal["samples", "equal"]) -> NDArray[np.float64]:
    """Target importance α by name, shape (N,): shares of the samples, or 1/N."""
    if importance == "equal":
        return equal_importance(scenario.clients)
    sizes = scenario.sizes
    return sizes / sizes.sum()
