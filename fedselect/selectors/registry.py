"""The registry of selectors, and the checks and weights that several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection

__all__ = [
    "SELECTORS",
    "Aggregation",
    "Everyone",
    "Stateless",
    "aggregate",
    "check_choice",
    "check_importance",
    "check_number",
    "check_size",
    "data_weights",
    "equal_importance",
    "losses",
    "nobody",
]

#: Builders ``(scenario, *, options) -> Selector`` by name.
SELECTORS: Registry = Registry("selector")

#: How the updates of selected clients are weighted where a paper leaves it to the aggregation; see `aggregate`.
Aggregation = Literal["samples", "mean", "deadline"]


class Stateless:
    """A selector that learns nothing from round to round."""

    def update(self, feedback: RoundFeedback) -> None:
        """Learn nothing: every round is decided afresh."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing: there is no state."""


class Everyone(Stateless):
    """Select everybody who is available: the schemes that decide weights and not clients."""

    on_failure: Literal["keep", "renormalise"] = "keep"

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Absolute weights a_i of the available clients, shape (len(clients),)."""
        raise NotImplementedError

    def select(self, round: RoundContext) -> Selection:
        """Select everybody who is available, with this scheme's weights."""
        clients = np.flatnonzero(round.available)
        return Selection(clients, self.weights(round, clients), on_failure=self.on_failure)


def nobody() -> Selection:
    """The selection of a round in which nobody is available."""
    return Selection(np.empty(0, dtype=np.int64), np.empty(0))


def check_size(size: int, what: str = "the number of clients to select") -> int:
    """Return ``size`` if it is a positive integer; raise `ConfigError` that says ``what`` it is otherwise."""
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ConfigError(f"{what} must be a positive integer; got {size!r}")
    return int(size)


def check_number(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> float:
    """Return ``value`` if it is a number in [low, high] (or (low, high]); raise `ConfigError` otherwise."""
    accepted = f"{'(' if open_low else '['}{low:g}, {high:g}]"
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be a number in {accepted}; got {value!r}") from error
    if not low <= number <= high or (open_low and number == low):
        raise ConfigError(f"{name} must lie in {accepted}; got {value}")
    return number


def check_choice(name: str, value: str, accepted: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``accepted``; raise `ConfigError` otherwise."""
    if value not in accepted:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, accepted))}; got {value!r}")
    return value


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


def data_weights(sizes: NDArray[np.int64], clients: NDArray[np.int64]) -> NDArray[np.float64]:
    r""":math:`n_k / \sum_{i \in S} n_i` for the selected clients, shape (m,) (FedGS Eq. 18)."""
    chosen = sizes[clients].astype(np.float64)
    return chosen / chosen.sum() if clients.size else chosen


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
        ``"mean"``: 1/m, over those that return. ``"deadline"``: :math:`n_k / \sum_{\text{all}} n_i`, whoever does
        not return keeps the global model in its place (E3CS Eq. 5), so that fewer returns make a smaller step.
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


def losses(round: RoundContext, clients: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    """Probe the clients' losses, or say why there are none to be had (`ConfigError`)."""
    if round.probe is None:
        raise ConfigError(f"selector {name!r} asks clients for their losses, and this round has no probe for them")
    values = np.asarray(round.probe(clients.tolist()), dtype=np.float64)
    if values.shape != clients.shape or not np.isfinite(values).all():
        raise ConfigError(
            f"selector {name!r} needs one finite loss per client; the probe gave {values} in round {round.round} "
            "(has the model diverged? a lower learning rate may help)"
        )
    return values
