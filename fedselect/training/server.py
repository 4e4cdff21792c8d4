r"""Server's half of federated averaging: ask the selector, screen and apply the updates, report the outcomes.

Who trains is the caller's: `fedselect.training.fedavg.FedAvg` in this process, `fedselect.integrations.flower` on other
machines. What varies enters as two callables beside it: the screen of what clients send (`fedselect.training.screen`),
and the rule by which updates make the change of the model (`fedselect.training.server_rules`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedselect.errors import ConfigError
from fedselect.rounds.engine import Round, check_built_for, conclude, decide
from fedselect.rounds.protocol import OfClients, Probe, Selector
from fedselect.rounds.scenario import World
from fedselect.training.client import Answers
from fedselect.training.models import averaged
from fedselect.training.screen import Screen, clipped
from fedselect.training.server_rules import ServerRule, build_rule
from fedselect.training.settings import TrainingSettings


class Server:
    r"""Server of a round: the global model and the selector, which meet in `decide`, then `conclude`.

    An update that is not finite or wildly large makes its client *failed* and is not applied, and no sum that is not
    finite is kept. :math:`w \leftarrow w + \eta \sum_i a_i \Delta_i` is summed in client order, or another server rule
    combines the updates.

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
    rule : callable, optional
        Makes the server's rule of the initial model, in the place of the one that the settings name.
    """

    def __init__(
        self,
        selector: Selector,
        world: World,
        weights: Tensor,
        *,
        settings: TrainingSettings | None = None,
        model_bytes: int | None = None,
        buffers: Tensor | None = None,
        rule: Callable[[Tensor], ServerRule] | None = None,
    ) -> None:
        if world.clock is not None:
            size = weights.numel() * weights.element_size() if model_bytes is None else model_bytes
            world = replace(world, clock=world.clock.sized(size))
        check_built_for(selector, world)
        self.selector, self.world = selector, world
        self.seconds = 0.0  #: since the start, on the clock of the world
        self.settings = settings = settings or TrainingSettings()
        self.round = 0
        self.device = weights.device
        self._weights, self._buffers = weights.detach().clone(), buffers
        self._velocity = torch.zeros_like(self._weights) if settings.server_momentum else None
        self._screen = Screen(settings.update_limit, self._weights, buffers)
        named = partial(build_rule, settings, settings.importances(world.sizes))
        self._rule: ServerRule = (rule or named)(self._weights)

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
    ) -> Round:
        """Ask the selector for this round; see `fedselect.rounds.decide`."""
        more: dict[str, Any] = {"probe": probe, "validation_probe": validation_probe, "connected": connected}
        return decide(self.selector, self.world, self.round, seconds=self.seconds, **more)

    def conclude(
        self,
        decided: Round,
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
        decided : Round
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
        settings, selection, rate = self.settings, decided.selection, self.settings.rate(self.round)
        updates, losses, buffers = answers
        norms = torch.linalg.vector_norm(updates, dim=1).cpu().numpy()
        changes = None if buffers is None or self._buffers is None else buffers - self._buffers
        refused = self._screen(updates, norms, losses, changes, rate if self._rule.stores else None)
        if settings.clip_norm is not None:
            updates, norms = clipped(updates, norms, settings.clip_norm)
        while True:
            places = [place for place in range(len(clients)) if place not in refused]
            usable, rows = [clients[place] for place in places], places if refused else slice(None)
            arrived = _among(selection.clients, usable)
            applied = selection.applied_weights(arrived)[arrived]
            change = self._rule.change(usable, applied.tolist(), updates[rows], rate)
            moved = self._moved(change, None if buffers is None else buffers[rows], applied)
            if moved is not None or not usable:
                break
            # Finite updates make a sum that is not: the largest of them is left out until it is.
            largest = places[int(np.argmax(np.abs(applied) * norms[places]))]
            refused[largest] = "its update is the largest of a sum that is not finite in single precision"
        start = self._rule.start if self._rule.own_models else lambda client: self._weights
        updates, (means, received) = updates[rows], losses[:, places].tolist()
        done = conclude(
            self.selector,
            decided,
            arrived,
            _among(selection.clients, [*clients, *failed]),
            losses=dict(zip(usable, means, strict=True)),
            norms=dict(zip(usable, norms[places].tolist(), strict=True)),
            received_losses=dict(zip(usable, received, strict=True)),
            updates=OfClients(usable, lambda place: updates[place].cpu().numpy()),
            embeddings=OfClients(
                usable if self.embeds else [],
                lambda place: self.embedding(start(usable[place]) + updates[place]),
            ),
        )
        if moved is not None:  # after the selector's update, which may ask for embeddings of trained models
            self._weights, self._velocity, self._buffers = moved
            self._rule.keep(usable, updates, rate, self._weights)
        self.round += 1
        self.seconds = self.seconds if done.times is None else done.times.end
        reasons = {clients[place]: reason for place, reason in sorted(refused.items())}
        every = settings.evaluate_clients_every
        test = self.round % settings.evaluate_every == 0 if evaluate is None else evaluate
        found = self.report(test, every is not None and self.round % every == 0)
        return replace(done, train_seconds=train_seconds, refused=reasons, **found)

    def _moved(
        self, change: Tensor | None, buffers: Tensor | None, applied: NDArray[np.float64]
    ) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """Return weights, velocity and buffers after the change of the rule; None where they overflow."""
        settings, weights, velocity = self.settings, self._weights, self._velocity
        own = self._buffers if buffers is None or self._buffers is None else averaged(self._buffers, buffers, applied)
        if change is not None:
            if settings.server_weight_decay:
                change = change.sub(weights, alpha=settings.server_weight_decay)
            if velocity is not None:
                change = velocity = velocity.mul(settings.server_momentum).add_(change)
            weights = weights.add(change, alpha=settings.server_learning_rate)
            if settings.projection is not None and (norm := float(weights.norm())) > settings.projection:
                weights.mul_(settings.projection / norm)
        state = weights, velocity, own
        return state if all(_is_finite(part) for part in state if part is not None) else None

    # -- what a server without data and architecture does not know -----------------------------------------------

    #: Whether this server can compute embeddings.
    embeds: bool = False

    def embedding(self, weights: Tensor) -> NDArray[np.float32]:
        """Average the answers to the server's noise of the model that a client trained."""
        raise NotImplementedError

    def report(self, test: bool, clients: bool) -> dict[str, Any]:
        """Evaluate the model, on the server's test set and at the clients: fields of `Round`."""
        return {}

    @property
    def trains_own_models(self) -> bool:
        """Whether the rule trains clients from models of their own, and not from the global one."""
        return self._rule.own_models

    # -- checkpoints -----------------------------------------------------------------------------------------------

    @property
    def has_selector_state(self) -> bool:
        """Whether the selector can be continued; a run of one that cannot begins again at its first round."""
        return callable(getattr(self.selector, "state_dict", None))

    def _tensors(self) -> dict[str, Tensor]:
        """The model and what goes with it, as far as it is there."""
        found = {"weights": self._weights, "velocity": self._velocity, "buffers": self._buffers}
        return {name: part for name, part in found.items() if part is not None}

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on beside what the loop was built of."""
        return {name: part.cpu().numpy().copy() for name, part in self._tensors().items()} | {
            "round": self.round,
            "server": _kept(self._rule.state_dict()),
            "screen": self._screen.state_dict(),
            "selector": _kept(self.selector.state_dict()) if self.has_selector_state else {},
            **({} if self.world.clock is None else {"seconds": self.seconds}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, to the bits of an unbroken run on this machine."""
        self.round = int(state["round"])
        self.seconds = 0.0 if self.world.clock is None else float(state["seconds"])
        for name in self._tensors():  # new ones: those of now may be of a state that somebody holds
            setattr(self, f"_{name}", torch.from_numpy(np.array(state[name], dtype=np.float32)).to(self.device))
        self._rule.load_state_dict(state["server"])
        self._screen.load_state_dict(state["screen"])
        if not self.has_selector_state:
            raise ConfigError(
                f"the selector, a {type(self.selector).__name__}, has no state_dict and load_state_dict(state) to "
                "continue by; begin at the first round, or give it the two"
            )
        self.selector.load_state_dict(state["selector"])


def _kept(state: Any) -> Any:
    """Return a state whose tensors are copies: those of a module's ``state_dict`` go on changing with it."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: _kept(value) for key, value in state.items()}
    return type(state)(map(_kept, state)) if type(state) in (list, tuple) else state


def _is_finite(values: Tensor) -> bool:
    """Whether all entries are finite: they are where their sum is, which is found sooner."""
    return math.isfinite(float(values.sum())) or bool(torch.isfinite(values).all())


def _among(clients: NDArray[np.int64], some: Collection[int]) -> NDArray[np.bool_]:
    """Mask of the selected clients that are among some; for the few of a round quicker than `numpy.isin`."""
    found = set(some)
    return np.array([client in found for client in clients.tolist()], dtype=bool)
