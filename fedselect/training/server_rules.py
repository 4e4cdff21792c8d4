r"""Rules by which the server combines the updates that arrived, by name.

``fedavg`` is the selection's own formula, :math:`\sum_i a_i \Delta_i`, and ``fedavgm`` the same with momentum.
``fedadam`` and ``fedyogi`` (Reddi et al., ICLR 2021, Alg. 2) take that sum Δ for a gradient:
:math:`m \leftarrow \beta_1 m + (1 - \beta_1) \Delta`, the change is :math:`m / (\sqrt v + \tau)`, with
:math:`v \leftarrow \beta_2 v + (1 - \beta_2) \Delta^2`, or Yogi's
:math:`v \leftarrow v - (1 - \beta_2) \Delta^2 \operatorname{sign}(v - \Delta^2)`; v starts at τ². Nothing happens where
no update arrived.

A rule of one's own is a `ServerRule`: an object for ``FedAvg(server_rule=...)``; registered in `SERVER_RULES`, its
class or a function that makes one has a name for configurations, and its keyword-only arguments are
``training.server_rule_options``::

    @SERVER_RULES.register("largest")
    class Largest(ServerRule):
        def change(self, clients, weights, updates, rate):
            return updates.max(dim=0).values if len(clients) else None

``examples/studies/stored_updates.py`` has three that keep something of every client, and
`fedselect.training.robust_rules` five against clients that lie.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from fedselect.training.settings import TrainingSettings

#: Builders of a `ServerRule` by name, classes or functions. They get those of these three that they name: ``settings``,
#: `TrainingSettings`; ``importance``, the objective's α of the clients, (N,); ``weights``, the initial model, (d,).
SERVER_RULES: Registry = Registry("server rule")


class ServerRule:
    """Base of the rules: turns the updates of a round into the change of the model, and keeps nothing."""

    #: Whether the rule keeps updates, per unit of step size.
    stores = False
    #: Whether clients train from models of their own, which `start` returns, and not from the global one.
    own_models = False

    def start(self, client: int) -> Tensor:
        """Return the model that a client trains from, where clients have their own; (d,), to be left as it is."""
        raise NotImplementedError

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived; the rule itself stays as it is until `keep`.

        Parameters
        ----------
        clients : sequence of int
            Clients that returned, sorted.
        weights : sequence of float
            The weight a_i applied to each.
        updates : (len(clients), d) tensor
            Their updates.
        rate : float
            Local step size γ of the round.

        Returns
        -------
        (d,) tensor or None
            None: the model is left as it is.
        """
        raise NotImplementedError

    def keep(self, clients: Sequence[int], updates: Tensor, rate: float, weights: Tensor) -> None:
        """Store the part of a round that later ones need, once its change has been applied and made ``weights``."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next change depends on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""


class FedAvgRule(ServerRule):
    """The selection's formula, summed in client order."""

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived."""
        return weighted_sum(weights, updates) if len(clients) else None


class Adaptive(FedAvgRule):
    """FedAdam or FedYogi: the selection's sum as a gradient of the server's optimizer (see this module)."""

    def __init__(self, settings: TrainingSettings, weights: Tensor) -> None:
        self.beta1, self.beta2, self.tau = settings.server_beta1, settings.server_beta2, settings.server_tau
        self.is_yogi = settings.server_rule == "fedyogi"
        self.first, self.second = weights.new_zeros(weights.shape), weights.new_full(weights.shape, self.tau**2)
        self._next = self.first, self.second

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived, scaled by the moments."""
        delta = super().change(clients, weights, updates, rate)
        self._next = self.first, self.second
        if delta is None:
            return None
        square = delta.square()
        first = self.beta1 * self.first + (1 - self.beta1) * delta
        if self.is_yogi:
            second = self.second - (1 - self.beta2) * square * (self.second - square).sign()
        else:
            second = self.beta2 * self.second + (1 - self.beta2) * square
        self._next = first, second
        return first / (second.sqrt() + self.tau)

    def keep(self, clients: Sequence[int], updates: Tensor, rate: float, weights: Tensor) -> None:
        """Keep the moments of the change that was applied."""
        self.first, self.second = self._next

    def state_dict(self) -> dict[str, Any]:
        """Return both moments."""
        return {name: getattr(self, name).cpu().numpy().copy() for name in ("first", "second")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore both moments."""
        for name in ("first", "second"):
            moment: Tensor = getattr(self, name)
            moment.copy_(moment.new_tensor(np.asarray(state[name], dtype=np.float32)))


@SERVER_RULES.register("fedavg")
@SERVER_RULES.register("fedavgm")
def _averaging(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> ServerRule:
    """Apply the selection's weighted sum of updates; momentum is the server's."""
    return FedAvgRule()


@SERVER_RULES.register("fedadam")
@SERVER_RULES.register("fedyogi")
def _adaptive(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> ServerRule:
    """Scale the weighted sum by its moments."""
    return Adaptive(settings, weights.detach())


def build_rule(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> ServerRule:
    """Build the server rule that settings name.

    Parameters
    ----------
    settings : TrainingSettings
        Name of the rule, and its options.
    importance : (N,) ndarray of float
        The objective's α of the clients.
    weights : (d,) tensor
        The initial model.

    Raises
    ------
    ConfigError
        When what was registered makes no `ServerRule`.
    """
    name, options = settings.server_rule, settings.server_rule_options
    SERVER_RULES.check(name, options)
    named = inspect.signature(SERVER_RULES[name]).parameters
    known = {"settings": settings, "importance": importance, "weights": weights}
    rule = SERVER_RULES[name](**{key: value for key, value in known.items() if key in named}, **options)
    if not isinstance(rule, ServerRule):
        raise ConfigError(f"server rule {name!r} must be a ServerRule, or make one; it made {rule!r:.80}")
    return rule


def weighted_sum(weights: Sequence[float], updates: Tensor) -> Tensor:
    """Sum updates, one after the other, each times its weight."""
    total = updates.new_zeros(updates.shape[1:])
    for weight, update in zip(weights, updates, strict=True):
        total.add_(update, alpha=weight)
    return total


from fedselect.training import robust_rules  # noqa: E402, F401  (rules against lying clients register themselves)
