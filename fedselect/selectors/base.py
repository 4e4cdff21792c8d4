"""Base of the selectors: their registry, checks of arguments, importance, weights, and probes for losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.rounds.protocol import RoundContext, RoundFeedback, Selection
from fedselect.rounds.scenario import Scenario

__all__ = [
    "SELECTORS",
    "Aggregation",
    "Described",
    "Part",
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
    "target_importance",
]


#: Builders ``(scenario, *, options) -> Selector`` by name.
SELECTORS: Registry = Registry("selector")


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


class Described:
    """Says in a line what it is: its plain settings, and nothing of its arrays."""

    def __repr__(self) -> str:
        plain = {name: value for name, value in vars(self).items() if isinstance(value, (bool, int, float, str))}
        told = ", ".join(f"{name}={value!r}" for name, value in plain.items() if not name.startswith("_"))
        return f"{type(self).__name__}({told})"


class Stateless(Described):
    """A selector that learns nothing from round to round."""

    def update(self, feedback: RoundFeedback) -> None:
        """Learn nothing: every round is decided afresh."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing: there is no state."""


def check_importance(importance: ArrayLike) -> NDArray[np.float64]:
    """Target importance α: positive and summing to 1 (to 1e-9), shape (N,); raise `ConfigError` otherwise."""
    alpha = np.array(importance, dtype=np.float64)
    if alpha.ndim != 1 or alpha.size == 0 or not (np.isfinite(alpha) & (alpha > 0)).all():
        raise ConfigError(f"the importance must be one positive number for each client; got {importance!r}")
    if abs(alpha.sum() - 1.0) > 1e-9:
        raise ConfigError(f"the importance must sum to 1; it sums to {alpha.sum():.12g}")
    alpha.setflags(write=False)
    return alpha


def equal_importance(n_clients: int) -> NDArray[np.float64]:
    """Return α = 1/N for every client, shape (N,)."""
    return np.full(check_size(n_clients, "the number of clients"), 1.0 / n_clients)


def target_importance(scenario: Scenario, importance: Literal["samples", "equal"]) -> NDArray[np.float64]:
    """Target importance α by name, shape (N,): shares of the samples, or 1/N."""
    if importance == "equal":
        return equal_importance(scenario.n_clients)
    sizes = scenario.sizes
    return sizes / sizes.sum()


#: How the updates of selected clients are weighted where a paper leaves it to the aggregation; see `aggregate`.
Aggregation = Literal["samples", "mean", "deadline"]


def nobody() -> Selection:
    """The selection of a round in which nobody is available."""
    return Selection(np.empty(0, dtype=np.int64), np.empty(0))


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


#: Samples that clients measure a loss on: those they train on, or those they have held out.
Part = Literal["training", "validation"]


def losses(round: RoundContext, clients: NDArray[np.int64], name: str, part: Part = "training") -> NDArray[np.float64]:
    """Probe the clients' losses, or say why there are none to be had (`ConfigError`)."""
    probe = round.probe if part == "training" else round.validation_probe
    if probe is None:
        if part == "validation":
            raise ConfigError(
                f"selector {name!r} asks clients for their validation losses, and nothing was held out of training; "
                "give the data set a validation_fraction"
            )
        raise ConfigError(f"selector {name!r} asks clients for their losses, and this round has no probe for them")
    values = np.asarray(probe(clients.tolist()), dtype=np.float64)
    if values.shape != clients.shape or not np.isfinite(values).all():
        raise ConfigError(
            f"selector {name!r} needs one finite loss per client; the probe gave {values} in round {round.round} "
            "(has the model diverged? a lower learning rate may help)"
        )
    return values
