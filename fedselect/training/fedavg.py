"""The FedAvg loop: it asks a selector, trains the selected clients, applies the weights, tells the selector."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.availability import DROPOUT, Availability, Dropout
from fedselect.data import Federation
from fedselect.errors import ConfigError, MissingExtraError
from fedselect.protocol import RoundFeedback, Selection, Selector
from fedselect.randomness import generator
from fedselect.rounds import decide
from fedselect.training.models import MODELS
from fedselect.training.settings import TrainingSettings

try:
    import torch
    from torch.nn.utils import parameters_to_vector, vector_to_parameters
except ImportError as error:
    raise MissingExtraError("training needs PyTorch, which is not installed: pip install 'fedselect[fl]'") from error

from fedselect.training.evaluation import client_means, scores
from fedselect.training.local import LocalTraining
from fedselect.training.server import server_rule

__all__ = ["FedAvg", "Round"]


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
        Mean cross-entropy and share of correct answers on the server's test set, after the round; None in rounds
        without an evaluation.
    select_seconds, train_seconds : float
        Wall time of the decision and of the local training.
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    applied: NDArray[np.float64]
    loss: float | None
    accuracy: float | None
    select_seconds: float
    train_seconds: float


class FedAvg:
    r"""Federated averaging driven by a selector.

    Every round: who is available; the selector decides; those of the selected who return have trained from the current
    model (`fedselect.training.local`); an update that is not finite makes its client *failed* and is not applied;
    :math:`w \leftarrow w + \eta \sum_i a_i \Delta_i` in client order, or what another server rule makes of the updates
    (`fedselect.training.server`); the selector learns the outcomes.

    All randomness is a function of (seed, purpose, round, client), so that two selectors under one seed meet the
    same availability, dropouts, batches and initial model, and a loop restored from `state_dict` continues to the
    same bits.

    Parameters
    ----------
    federation : Federation
        Clients and test set.
    selector : Selector
        Who decides.
    availability : Availability
        Who is there.
    dropout : Dropout, optional
        Who comes back; everyone by default.
    settings : TrainingSettings, optional
        How clients train.
    seed : int
        Seed of initial model, batches and the selector's draws.
    time_limit : float, optional
        Seconds a selector may take for a decision (FedGS's τ_max is 5).
    """

    def __init__(
        self,
        federation: Federation,
        selector: Selector,
        availability: Availability,
        *,
        dropout: Dropout | None = None,
        settings: TrainingSettings | None = None,
        seed: int = 0,
        time_limit: float | None = 5.0,
    ) -> None:
        self.federation, self.selector, self.availability = federation, selector, availability
        self.dropout = dropout or DROPOUT.build("none", len(federation), seed)
        self.settings = settings = settings or TrainingSettings()
        self.seed, self.time_limit = seed, time_limit
        self.round = 0
        self.device = _device(settings.device)
        self._model = MODELS.build(settings.model, federation, **settings.model_options).to(self.device)
        _initialise(self._model, seed)
        self._weights = parameters_to_vector(self._model.parameters()).detach().clone()
        self._velocity = torch.zeros_like(self._weights) if settings.server_momentum else None
        self._local = LocalTraining(self._model, federation, settings, seed, self.device)
        self._rule = server_rule(settings, settings.importances(federation.sizes), self._weights.numel(), self.device)
        test = federation.test
        self._test = (torch.from_numpy(test.features).to(self.device), torch.from_numpy(test.labels).to(self.device))

    @property
    def weights(self) -> NDArray[np.float32]:
        """The global model's parameters as one vector (a copy)."""
        return self._weights.cpu().numpy().copy()

    @property
    def stack(self) -> int:
        """Clients trained together at most (see `fedselect.training.local`); 1 means one by one."""
        return self._local.stack

    def step(self, evaluate: bool | None = None) -> Round:
        """Run one round.

        Parameters
        ----------
        evaluate : bool, optional
            Whether to evaluate the model afterwards; by default as ``settings.evaluate_every`` has it.

        Returns
        -------
        Round
        """
        t = self.round
        decision = decide(
            self.selector,
            self.availability,
            self.dropout,
            round=t,
            sizes=self.federation.sizes,
            seed=self.seed,
            time_limit=self.time_limit,
            probe=self.losses,
        )
        selection = decision.selection

        start = time.perf_counter()
        trained = self._local.train(selection.clients[decision.returned].tolist(), self._weights, t)
        norms = torch.linalg.vector_norm(trained.updates, dim=1).cpu().numpy()
        finite = np.isfinite(norms)
        for place in np.flatnonzero(~finite):  # the norm of finite numbers may overflow
            finite[place] = bool(torch.isfinite(trained.updates[place]).all())
        arrived = decision.returned.copy()
        arrived[decision.returned] = finite
        updates = trained.updates if finite.all() else trained.updates[torch.from_numpy(finite).to(self.device)]
        applied = selection.applied_weights(arrived)
        clients = selection.clients[arrived].tolist()
        self._apply(self._rule.change(clients, applied[arrived].tolist(), updates, self.settings.rate(t)))
        train_seconds = time.perf_counter() - start

        outcomes = decision.outcomes(failed=decision.returned & ~arrived)
        feedback = RoundFeedback(
            t,
            selection,
            outcomes,
            losses=dict(zip(clients, trained.losses[finite].tolist(), strict=True)),
            norms=dict(zip(clients, norms[finite].tolist(), strict=True)),
            received_losses=dict(zip(clients, trained.received_losses[finite].tolist(), strict=True)),
            updates=_Updates(clients, updates),
        )
        self.selector.update(feedback)
        self.round += 1
        if evaluate is None:
            evaluate = self.round % self.settings.evaluate_every == 0
        loss, accuracy = self.evaluate() if evaluate else (None, None)
        return Round(t, selection, outcomes, applied, loss, accuracy, decision.seconds, train_seconds)

    def evaluate(self) -> tuple[float, float]:
        """Mean cross-entropy and accuracy of the global model on the server's test set."""
        losses, correct = scores(self._loaded(), *self._test)
        return float(losses.mean()), float(correct.mean())

    def losses(self, clients: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean training loss of the global model at each of these clients, shape (len(clients),)."""
        return client_means(self._loaded(), [self._local.clients[int(client)] for client in clients])[0]

    def client_scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean cross-entropy and accuracy of the global model on every client's own training samples, shapes (N,)."""
        return client_means(self._loaded(), self._local.clients)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on."""
        return {
            "round": self.round,
            "weights": self.weights,
            "velocity": None if self._velocity is None else self._velocity.cpu().numpy().copy(),
            "server": self._rule.state_dict(),
            "selector": self.selector.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, to the same bits as without the break."""
        self.round = int(state["round"])
        self._weights.copy_(torch.from_numpy(np.asarray(state["weights"])))
        if self._velocity is not None:
            self._velocity.copy_(torch.from_numpy(np.asarray(state["velocity"])))
        self._rule.load_state_dict(state["server"])
        self.selector.load_state_dict(state["selector"])

    def _apply(self, change: torch.Tensor | None) -> None:
        """Move the global model by what the server's rule gave."""
        if change is None:
            return
        settings = self.settings
        if self._velocity is not None:
            change = self._velocity.mul_(settings.server_momentum).add_(change)
        self._weights.add_(change, alpha=settings.server_learning_rate)
        if settings.projection is not None and (norm := float(self._weights.norm())) > settings.projection:
            self._weights.mul_(settings.projection / norm)

    def _loaded(self) -> torch.nn.Module:
        """The model, holding a copy of the global parameters."""
        vector_to_parameters(self._weights.clone(), self._model.parameters())
        return self._model


class _Updates(Mapping[int, NDArray[np.float32]]):
    """The updates by client, fetched from the device when looked up."""

    def __init__(self, clients: Sequence[int], updates: torch.Tensor) -> None:
        self._places = {client: place for place, client in enumerate(clients)}
        self._updates = updates

    def __getitem__(self, client: int) -> NDArray[np.float32]:
        return self._updates[self._places[client]].cpu().numpy()

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _initialise(model: torch.nn.Module, seed: int) -> None:
    """Set weights from U(±1/√fan-in), PyTorch's default for linear layers, and biases to 0, without its generator."""
    rng = generator(seed, "model")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                bound = 1 / math.sqrt(math.prod(parameter.shape[1:]))
                values = rng.uniform(-bound, bound, size=tuple(parameter.shape)).astype(np.float32)
                parameter.copy_(torch.from_numpy(values))
            else:
                parameter.zero_()


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "training: device 'cuda' was asked for, but PyTorch sees no CUDA device (use 'auto' or 'cpu')"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
