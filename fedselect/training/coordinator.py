"""The server's half of federated averaging: ask the selector, apply what arrived, tell the selector.

Who trains, and where, is the business of whoever drives it: `fedselect.training.fedavg.FedAvg` in this process,
`fedselect.integrations.flower` on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedselect.rounds.decision import Decision, decide
from fedselect.rounds.protocol import Probe, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import World
from fedselect.training.buffers import averaged
from fedselect.training.local import Trained
from fedselect.training.server import server_rule
from fedselect.training.settings import TrainingSettings

__all__ = ["Coordinator", "Round"]


@dataclass(frozen=True, eq=False)
class Round:
    """What happened in one round.

    Attributes
    ----------
    round : int
        Round index, from 0.
    selection : Selection
        The selector's decision.
    outcomes : (N,) ndarray of Outcome
        What became of every client.
    applied : (m,) ndarray of float
        Weights actually applied, in the order of ``selection.clients``.
    loss, accuracy : float or None
        Mean loss and share of correct answers on the server's test set, after the round; None in rounds without an
        evaluation, and the accuracy where labels are no classes.
    select_seconds, train_seconds : float
        Wall time of the decision and of the local training.
    metrics : dict of str to float
        Further numbers of an evaluation, where the loop has some.
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    applied: NDArray[np.float64]
    loss: float | None
    accuracy: float | None
    select_seconds: float
    train_seconds: float
    metrics: dict[str, float] = field(default_factory=dict)


class Coordinator:
    r"""The global model, the selector, and what passes between them in a round: `decide`, then `conclude`.

    An update that is not finite makes its client *failed* and is not applied; :math:`w \leftarrow w + \eta \sum_i a_i
    \Delta_i` is summed in client order, or is what another server rule makes of the updates
    (`fedselect.training.server`).

    Parameters
    ----------
    selector : Selector
        Who decides.
    world : World
        Who the clients are, when they are there and come back: a `fedselect.rounds.Scenario`, say.
    weights : (d,) tensor of float32
        The initial model as one vector, on the device that aggregates; it is copied.
    settings : TrainingSettings, optional
        How the server aggregates (and clients train).
    """

    def __init__(
        self, selector: Selector, world: World, weights: torch.Tensor, *, settings: TrainingSettings | None = None
    ) -> None:
        self.selector, self.world = selector, world
        self.settings = settings = settings or TrainingSettings()
        self.round = 0
        self.device = weights.device
        self._weights = weights.detach().clone()
        self._buffers: torch.Tensor | None = None  #: what the model keeps beside its parameters, if anything
        self._velocity = torch.zeros_like(self._weights) if settings.server_momentum else None
        self._rule = server_rule(settings, settings.importances(world.sizes), self._weights.numel(), self.device)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at round {self.round}: {self.selector!r}, {self._weights.numel()} parameters>"

    @property
    def weights(self) -> NDArray[np.float32]:
        """The global model's parameters as one vector (a copy)."""
        return self._weights.cpu().numpy().copy()

    def decide(
        self,
        connected: NDArray[np.bool_] | None = None,
        probe: Probe | None = None,
        validation_probe: Probe | None = None,
    ) -> Decision:
        """Ask the selector for this round; see `fedselect.rounds.decide`."""
        return decide(
            self.selector,
            self.world,
            self.round,
            probe=probe,
            validation_probe=validation_probe,
            connected=connected,
        )

    def conclude(
        self,
        decision: Decision,
        clients: Sequence[int],
        trained: Trained,
        *,
        failed: Collection[int] = (),
        train_seconds: float = 0.0,
        evaluate: bool | None = None,
    ) -> Round:
        """Apply what arrived, tell the selector, and go on to the next round.

        Parameters
        ----------
        decision : Decision
            From `decide`.
        clients : sequence of int
            The selected clients that sent an update, sorted.
        trained : Trained
            What they sent, in this order.
        failed : collection of int
            The selected clients that reported an error, or whose answer was refused.
        train_seconds : float
            Wall time of the local training.
        evaluate : bool, optional
            Whether to evaluate the model afterwards; by default as ``settings.evaluate_every`` has it.

        Returns
        -------
        Round
        """
        t, selection = self.round, decision.selection
        norms = torch.linalg.vector_norm(trained.updates, dim=1).cpu().numpy()
        finite = np.isfinite(norms)
        for place in np.flatnonzero(~finite):  # the norm of finite numbers may overflow
            finite[place] = bool(torch.isfinite(trained.updates[place]).all())
        if trained.buffers is not None:
            finite &= torch.isfinite(trained.buffers).all(dim=1).cpu().numpy()
        usable = [client for client, good in zip(clients, finite, strict=True) if good]
        arrived = _among(selection.clients, usable)
        updates = trained.updates if finite.all() else trained.updates[torch.from_numpy(finite).to(self.device)]
        applied = selection.applied_weights(arrived)
        change = self._rule.change(usable, applied[arrived].tolist(), updates, self.settings.rate(t))

        heard = _among(selection.clients, [*clients, *failed])
        outcomes = replace(decision, returned=heard).outcomes(failed=heard & ~arrived)
        self.selector.update(
            RoundFeedback(
                t,
                selection,
                outcomes,
                losses=dict(zip(usable, trained.losses[finite].tolist(), strict=True)),
                norms=dict(zip(usable, norms[finite].tolist(), strict=True)),
                received_losses=dict(zip(usable, trained.received_losses[finite].tolist(), strict=True)),
                updates=_OfClients(usable, lambda place: updates[place].cpu().numpy()),
                embeddings=_OfClients(usable if self.embeds else [], lambda place: self.embedding(updates[place])),
            )
        )
        if trained.buffers is not None and self._buffers is not None:
            arrived_buffers = trained.buffers[torch.from_numpy(finite).to(self.device)]
            self._buffers = averaged(self._buffers, arrived_buffers, applied[arrived])
        self._apply(change)  # behind the selector's update, which may ask for embeddings of the models as trained
        self.round += 1
        if evaluate is None:
            evaluate = self.round % self.settings.evaluate_every == 0
        loss, accuracy = self.evaluate() if evaluate else (None, None)
        metrics = self.measure() if evaluate else {}
        return Round(t, selection, outcomes, applied, loss, accuracy, decision.seconds, train_seconds, metrics)

    def evaluate(self) -> tuple[float | None, float | None]:
        """Loss and accuracy of the global model: not known to a server without a test set."""
        return None, None

    def measure(self) -> dict[str, float]:
        """Further metrics of the global model: none, unless a loop has some."""
        return {}

    @property
    def embeds(self) -> bool:
        """Whether this server can compute embeddings: one without the architecture cannot."""
        return False

    def embedding(self, update: torch.Tensor) -> NDArray[np.float32]:
        """What the model that a client trained in the round being concluded answers to the server's noise, averaged."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on."""
        return {
            "round": self.round,
            "weights": self.weights,
            "velocity": None if self._velocity is None else self._velocity.cpu().numpy().copy(),
            "server": self._rule.state_dict(),
            "selector": self.selector.state_dict(),
        } | ({} if self._buffers is None else {"buffers": self._buffers.cpu().numpy().copy()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, to the bits of an unbroken run on this machine."""
        self.round = int(state["round"])
        self._weights.copy_(torch.from_numpy(np.asarray(state["weights"])))
        if self._velocity is not None:
            self._velocity.copy_(torch.from_numpy(np.asarray(state["velocity"])))
        if self._buffers is not None:
            self._buffers = torch.from_numpy(np.asarray(state["buffers"], dtype=np.float32)).to(self.device)
        self._rule.load_state_dict(state["server"])
        self.selector.load_state_dict(state["selector"])

    def _apply(self, change: torch.Tensor | None) -> None:
        """Move the global model by what the server's rule gave."""
        if change is None:
            return
        settings = self.settings
        if settings.server_weight_decay:
            change = change.sub(self._weights, alpha=settings.server_weight_decay)
        if self._velocity is not None:
            change = self._velocity.mul_(settings.server_momentum).add_(change)
        self._weights.add_(change, alpha=settings.server_learning_rate)
        if settings.projection is not None and (norm := float(self._weights.norm())) > settings.projection:
            self._weights.mul_(settings.projection / norm)


def _among(clients: NDArray[np.int64], some: Collection[int]) -> NDArray[np.bool_]:
    """Which of the selected clients are some of these; for the few of a round quicker than `numpy.isin`."""
    found = set(some)
    return np.array([client in found for client in clients.tolist()], dtype=bool)


class _OfClients(Mapping[int, NDArray[np.float32]]):
    """Something of each client that is computed, or fetched from the device, when looked up."""

    def __init__(self, clients: Sequence[int], look_up: Callable[[int], NDArray[np.float32]]) -> None:
        self._places = dict(zip(clients, range(len(clients)), strict=True))
        self._look_up = look_up

    def __getitem__(self, client: int) -> NDArray[np.float32]:
        return self._look_up(self._places[client])

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
