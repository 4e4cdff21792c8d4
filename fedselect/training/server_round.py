r"""Server's half of federated averaging: ask the selector, check and apply the updates, report the outcomes.

Where clients train is decided by the caller: `fedselect.training.fedavg.FedAvg` in this process,
`fedselect.integrations.flower` on other machines.

What clients send is screened first (`fedselect.training.screen`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedselect.errors import ConfigError
from fedselect.rounds.engine import Decision, Round, decide, learn
from fedselect.rounds.protocol import Probe, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import World
from fedselect.training.client import Answers, averaged
from fedselect.training.screen import Screen, clipped
from fedselect.training.server_rules import SERVER_RULES
from fedselect.training.settings import TrainingSettings

__all__ = ["Server"]


def _is_finite(values: Tensor) -> bool:
    """Whether all entries are finite: so they are where their sum is, which is found sooner."""
    return math.isfinite(float(values.sum())) or bool(torch.isfinite(values).all())


#: Weights, velocity and buffers of the global model.
_State = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


@dataclass(frozen=True, eq=False)
class _Accepted:
    """Answers of a round that are used, and the model's state after them (None: it stays)."""

    clients: list[int]
    updates: Tensor
    losses: NDArray[np.float64]
    norms: NDArray[np.float64]
    applied: NDArray[np.float64]
    state: _State | None
    refused: dict[int, str]


class Server:
    r"""Server of a round: the global model and the selector, which meet in `decide`, then `conclude`.

    An update that is not finite or wildly large makes its client *failed* and is not applied
    (`fedselect.training.server_round`), and no sum that is not finite is kept. :math:`w \leftarrow w + \eta \sum_i a_i
    \Delta_i` is summed in client order, or another server rule combines the updates
    (`fedselect.training.server_rules`).

    Parameters
    ----------
    selector : Selector
        Decides.
    world : World
        Clients, availability and dropout: a `fedselect.rounds.Scenario`, say.
    weights : (d,) tensor of float32
        The initial model as one vector, on the device that aggregates; it is copied.
    settings : TrainingSettings, optional
        How the server aggregates (and clients train).
    model_bytes : int, optional
        Size of the model that is sent, for a clock that does not state one; that of ``weights`` if left out.
    buffers : (q,) tensor, optional
        What the model keeps beside its parameters, if anything; clients then send theirs.
    """

    def __init__(
        self,
        selector: Selector,
        world: World,
        weights: torch.Tensor,
        *,
        settings: TrainingSettings | None = None,
        model_bytes: int | None = None,
        buffers: torch.Tensor | None = None,
    ) -> None:
        if world.clock is not None:
            size = weights.numel() * weights.element_size() if model_bytes is None else model_bytes
            world = replace(world, clock=world.clock.sized(size))
        self.selector, self.world = selector, world
        self.seconds = 0.0  #: since the start, on the clock of the world
        self.settings = settings = settings or TrainingSettings()
        self.round = 0
        self.device = weights.device
        self._weights = weights.detach().clone()
        self._buffers = buffers
        self._screen = Screen(settings.update_limit, self._weights, buffers)
        self._velocity = torch.zeros_like(self._weights) if settings.server_momentum else None
        importance = settings.importances(world.sizes)
        self._rule = SERVER_RULES.build(settings.server_rule, settings, importance, self._weights)

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
            seconds=self.seconds,
        )

    def conclude(
        self,
        decision: Decision,
        clients: Sequence[int],
        answers: Answers,
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
        answers : Answers
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
        accepted = self._accept(selection, clients, answers)
        usable, updates = accepted.clients, accepted.updates
        means, received = accepted.losses.tolist()

        heard = _among(selection.clients, [*clients, *failed])
        arrived = _among(selection.clients, usable)
        outcomes = replace(decision, returned=heard).outcomes(failed=heard & ~arrived)
        learn(
            self.selector,
            RoundFeedback(
                t,
                selection,
                outcomes,
                losses=dict(zip(usable, means, strict=True)),
                norms=dict(zip(usable, accepted.norms.tolist(), strict=True)),
                received_losses=dict(zip(usable, received, strict=True)),
                updates=_OfClients(usable, lambda place: updates[place].cpu().numpy()),
                embeddings=_OfClients(
                    usable if self.embeds else [],
                    lambda place: self.embedding(self._begun(usable[place]) + updates[place]),
                ),
                **decision.told(arrived),
            ),
        )
        if accepted.state is not None:  # after the selector's update, which may ask for embeddings of trained models
            self._weights, self._velocity, self._buffers = accepted.state
            self._rule.keep(usable, updates, self.settings.rate(t), self._weights)
        self.round += 1
        if decision.times is not None:
            self.seconds = decision.times.end
        if evaluate is None:
            evaluate = self.round % self.settings.evaluate_every == 0
        loss, accuracy = self.evaluate() if evaluate else (None, None)
        metrics = self.measure() if evaluate else {}
        every = self.settings.evaluate_clients_every
        at_clients = self.client_scores() if every is not None and self.round % every == 0 else None
        return Round(
            t,
            selection,
            outcomes,
            accepted.applied,
            loss,
            accuracy,
            decision.seconds,
            train_seconds,
            metrics,
            accepted.refused,
            decision.times,
            at_clients,
        )

    def client_scores(self) -> dict[str, NDArray[np.float64]] | None:
        """Scores of the global model at every client: not known to a server without their data."""
        return None

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

    @property
    def trains_own_models(self) -> bool:
        """Whether clients train from models of their own, which the server's rule keeps."""
        return bool(self._rule.own_models)

    def _begun(self, client: int) -> torch.Tensor:
        """Return the model that a client trained from in the round being concluded."""
        return self._rule.start(client) if self._rule.own_models else self._weights

    def embedding(self, weights: torch.Tensor) -> NDArray[np.float32]:
        """Average the answers to the server's noise of the model that a client trained."""
        raise NotImplementedError

    @property
    def has_selector_state(self) -> bool:
        """Whether the selector can be continued; a run of one that cannot is played again from its first round."""
        return callable(getattr(self.selector, "state_dict", None))

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on."""
        return {
            "round": self.round,
            "weights": self.weights,
            "velocity": None if self._velocity is None else self._velocity.cpu().numpy().copy(),
            "server": self._rule.state_dict(),
            "screen": self._screen.state_dict(),
            "selector": self.selector.state_dict() if self.has_selector_state else {},
        } | {
            **({} if self._buffers is None else {"buffers": self._buffers.cpu().numpy().copy()}),
            **({} if self.world.clock is None else {"seconds": self.seconds}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, to the bits of an unbroken run on this machine."""
        self.round = int(state["round"])
        if self.world.clock is not None:
            self.seconds = float(state["seconds"])
        self._weights.copy_(torch.from_numpy(np.asarray(state["weights"])))
        if self._velocity is not None:
            self._velocity.copy_(torch.from_numpy(np.asarray(state["velocity"])))
        if self._buffers is not None:
            self._buffers = torch.from_numpy(np.asarray(state["buffers"], dtype=np.float32)).to(self.device)
        self._rule.load_state_dict(state["server"])
        self._screen.load_state_dict(state["screen"])
        if not self.has_selector_state:
            raise ConfigError(
                f"the selector, a {type(self.selector).__name__}, has no state_dict and load_state_dict(state) to "
                "continue by; begin at the first round, or give it the two"
            )
        self.selector.load_state_dict(state["selector"])

    def _accept(self, selection: Selection, clients: Sequence[int], answers: Answers) -> _Accepted:
        """Check the answers, and compute what the model becomes, before anything of it is kept.

        Where the sum of finite updates is not finite, the largest of them is left out until it is.
        """
        settings, rate = self.settings, self.settings.rate(self.round)
        updates, losses, left = answers
        norms = torch.linalg.vector_norm(updates, dim=1).cpu().numpy()
        changes = None if left is None or self._buffers is None else left - self._buffers
        refused = self._screen(updates, norms, losses, changes, rate if self._rule.stores else None)
        if settings.clip_norm is not None:
            updates, norms = clipped(updates, norms, settings.clip_norm)
        while True:
            places = [place for place in range(len(clients)) if place not in refused]
            usable, all_of_them = [clients[place] for place in places], len(places) == len(clients)
            kept = updates if all_of_them else updates[places]
            buffers = left if all_of_them or left is None else left[places]
            arrived = _among(selection.clients, usable)
            applied = selection.applied_weights(arrived)
            change = self._rule.change(usable, applied[arrived].tolist(), kept, rate)
            state = self._moved(change, buffers, applied[arrived])
            if state is not None or not usable:
                reasons = {clients[place]: reason for place, reason in sorted(refused.items())}
                return _Accepted(usable, kept, losses[:, places], norms[places], applied, state, reasons)
            largest = int(np.argmax(np.abs(applied[arrived]) * norms[places]))
            refused[places[largest]] = "its update is the largest of a sum that is not finite in single precision"

    def _moved(
        self, change: torch.Tensor | None, arrived_buffers: torch.Tensor | None, applied: NDArray[np.float64]
    ) -> _State | None:
        """Compute weights, velocity and buffers after the change of the server's rule; None where they overflow."""
        settings, weights, velocity, buffers = self.settings, self._weights, self._velocity, self._buffers
        if arrived_buffers is not None and buffers is not None:
            buffers = averaged(buffers, arrived_buffers, applied)
        if change is not None:
            if settings.server_weight_decay:
                change = change.sub(weights, alpha=settings.server_weight_decay)
            if velocity is not None:
                change = velocity = velocity.mul(settings.server_momentum).add_(change)
            weights = weights.add(change, alpha=settings.server_learning_rate)
            if settings.projection is not None and (norm := float(weights.norm())) > settings.projection:
                weights.mul_(settings.projection / norm)
        state = weights, velocity, buffers
        return state if all(_is_finite(part) for part in state if part is not None) else None


def _among(clients: NDArray[np.int64], some: Collection[int]) -> NDArray[np.bool_]:
    """Mask of the selected clients that are among some; for the few of a round quicker than `numpy.isin`."""
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
