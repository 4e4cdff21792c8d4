r"""Server rules of one's own: FedVARP and MIFA, which store updates, and FedAWE, which stores models.

Each is a `ServerRule` and a builder in `SERVER_RULES`; importing this module makes them known to
``TrainingSettings(server_rule=...)``, and ``fedselect run --load`` to a configuration file.

FedVARP and MIFA keep the latest update :math:`y_k` of every client, zero before its first, which takes N·d numbers of
memory and of every checkpoint. Both keep it per unit of the local step size, as MIFA's authors do (their :math:`G_k`):
under a constant step size this is the update itself; under a decaying one an old update is not applied with a step size
of the past. With :math:`\alpha` the objective's importance (1/N in the papers) and :math:`\gamma` the step size of the
round:

========  =============================================================================================================
fedvarp   :math:`\sum_i a_i (\Delta_i - \gamma y_i) + \gamma \sum_k \alpha_k y_k`, with y of before the round
          (Jhunjhunwala et al., UAI 2022, Alg. 1; the paper's :math:`a_i` is 1/\|S\|: selector weights that average the
          participants). Nothing when none returned, as in FedAU's code.
mifa      :math:`\gamma \sum_k \alpha_k y_k`, with y of after the round (Gu et al., NeurIPS 2021, Alg. 1), whether
          any returned or not. The selection's weights play no part. MIFA's authors train all clients once before the
          first round; here, as in FedAU's code, stored updates start at zero and learning starts at once.
fedawe    The mean of :math:`x_i + \tau_i \Delta_i` replaces the global model. Client i trained from its own model
          :math:`x_i`, the global one after the round in which it last took part (implicit gossiping), and was away for
          :math:`\tau_i - 1` rounds since, which its update echoes (Xiang et al., NeurIPS 2024, Alg. 1). The mean is
          weighed by the selection's weights, equal in the paper. The authors' code clips the mean of the echoes to the
          norm 0.5, of which the paper says nothing: ``clip_norm`` clips each client's. It keeps N·d numbers, too.
========  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedselect.training.server_rules import SERVER_RULES, ServerRule, weighted_sum
from fedselect.training.settings import TrainingSettings


class _Stored(ServerRule):
    """The latest update of every client, per unit of step size."""

    stores = True

    def __init__(self, importance: NDArray[np.float64], parameters: int, device: torch.device) -> None:
        self.importance = torch.from_numpy(importance.astype(np.float32)).to(device)
        self.stored = torch.zeros((importance.size, parameters), device=device)

    def state_dict(self) -> dict[str, Any]:
        """Return the stored updates."""
        return {"stored": self.stored.cpu().numpy().copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the stored updates."""
        self.stored.copy_(torch.from_numpy(np.asarray(state["stored"], dtype=np.float32)))

    def keep(self, clients: Sequence[int], updates: Tensor, rate: float, weights: Tensor) -> None:
        """Store the updates."""
        self._store(clients, updates, rate)

    def _store(self, clients: Sequence[int], updates: Tensor, rate: float) -> None:
        if len(clients):
            self.stored[list(clients)] = updates / rate

    def _mean(self) -> Tensor:
        return self.importance @ self.stored


class FedVarp(_Stored):
    """Stored updates as control variates (see this module)."""

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived with the stored ones."""
        if not len(clients):
            return None
        return weighted_sum(weights, updates - rate * self.stored[list(clients)]) + rate * self._mean()


class Mifa(_Stored):
    """Stored updates in place of those who are absent (see this module)."""

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine the updates that arrived with the stored ones."""
        rows = list(clients)
        before = self.stored[rows]
        self._store(clients, updates, rate)
        change = rate * self._mean()
        self.stored[rows] = before
        return change


class FedAwe(ServerRule):
    """Clients' own models, and echoes of the updates of those that were away (see this module).

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    weights : (d,) tensor
        The initial model, from which all begin.
    """

    own_models = True

    def __init__(self, n_clients: int, weights: Tensor) -> None:
        self.models = weights.detach().repeat(n_clients, 1)
        self.away = torch.ones(n_clients, device=weights.device)  #: rounds since a client last took part
        self._global = weights.detach().clone()

    def start(self, client: int) -> Tensor:
        """Return the model that a client received when it last took part."""
        return self.models[client]

    def change(self, clients: Sequence[int], weights: Sequence[float], updates: Tensor, rate: float) -> Tensor | None:
        """Combine models and echoed updates of those that arrived; nothing where these weigh nothing together."""
        total = sum(weights)
        if not len(clients) or total == 0:
            return None
        rows = list(clients)
        echoed = self.models[rows] - self._global + self.away[rows, None] * updates
        return weighted_sum([weight / total for weight in weights], echoed)

    def keep(self, clients: Sequence[int], updates: Tensor, rate: float, weights: Tensor) -> None:
        """Hand the new model to those that took part."""
        rows = list(clients)
        self._global = weights.detach().clone()
        self.models[rows] = self._global
        self.away += 1
        self.away[rows] = 1

    def state_dict(self) -> dict[str, Any]:
        """Return clients' models, how long they were away, and the global model."""
        return {name: getattr(self, name).cpu().numpy().copy() for name in ("models", "away", "_global")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore all of it."""
        for name in ("models", "away", "_global"):
            getattr(self, name).copy_(torch.from_numpy(np.asarray(state[name], dtype=np.float32)))


@SERVER_RULES.register("fedvarp")
def fedvarp(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> FedVarp:
    """Correct the participants' updates by the stored ones."""
    return FedVarp(importance, weights.numel(), weights.device)


@SERVER_RULES.register("mifa")
def mifa(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> Mifa:
    """Apply the latest update of every client."""
    return Mifa(importance, weights.numel(), weights.device)


@SERVER_RULES.register("fedawe")
def fedawe(settings: TrainingSettings, importance: NDArray[np.float64], weights: Tensor) -> FedAwe:
    """Train clients from their own models, and echo updates of those that were away."""
    return FedAwe(importance.size, weights)
