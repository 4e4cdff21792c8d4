"""The FedAvg loop: it asks a selector, trains the selected clients, applies the weights, tells the selector."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.availability import DROPOUT, Availability, Dropout
from fedselect.data import Federation, Samples
from fedselect.errors import ConfigError, MissingExtraError
from fedselect.protocol import Outcome, RoundContext, RoundFeedback, Selection, Selector
from fedselect.randomness import generator
from fedselect.training.models import MODELS
from fedselect.training.settings import TrainingSettings

try:
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.utils import parameters_to_vector, vector_to_parameters
except ImportError as error:
    raise MissingExtraError("training needs PyTorch, which is not installed: pip install 'fedselect[fl]'") from error

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
    loss, accuracy : float
        Mean cross-entropy and share of correct answers on the server's test set, after the round.
    select_seconds, train_seconds : float
        Wall time of the decision and of the local training.
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    applied: NDArray[np.float64]
    loss: float
    accuracy: float
    select_seconds: float
    train_seconds: float


class FedAvg:
    r"""Federated averaging driven by a selector.

    Every round: who is available; the selector decides; the selected train for ``local_steps`` of SGD from the
    current model; :math:`w \leftarrow w + \sum_i a_i \Delta_i` in client order; the selector learns the outcomes.
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
        self.settings = settings or TrainingSettings()
        self.seed, self.time_limit = seed, time_limit
        self.round = 0
        self.device = _device(self.settings.device)
        self._model = MODELS.build(self.settings.model, federation).to(self.device)
        _initialise(self._model, seed)
        self._weights = parameters_to_vector(self._model.parameters()).detach().clone()
        self._clients = [_tensors(samples, self.device) for samples in federation.clients]
        self._test = _tensors(federation.test, self.device)

    @property
    def weights(self) -> NDArray[np.float32]:
        """The global model's parameters as one vector (a copy)."""
        return self._weights.cpu().numpy().copy()

    def step(self) -> Round:
        """Run one round and evaluate the model after it."""
        t = self.round
        available = self.availability.available(t)
        context = RoundContext(
            round=t,
            available=available,
            sizes=self.federation.sizes,
            rng=generator(self.seed, "selector", t),
            time_limit=self.time_limit,
            probe=self.losses,
        )
        start = time.perf_counter()
        selection = self.selector.select(context)
        select_seconds = time.perf_counter() - start
        absent = selection.clients[~available[selection.clients]]
        if absent.size:
            raise ConfigError(f"the selector chose clients that are not available in round {t}: {absent.tolist()}")

        returned = self.dropout.returned(t)[selection.clients]
        outcomes = np.where(available, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
        outcomes[selection.clients] = np.where(returned, Outcome.RETURNED, Outcome.MISSING)
        applied = selection.applied_weights(returned)

        start = time.perf_counter()
        losses, norms = {}, {}
        change = torch.zeros_like(self._weights)
        for client, weight, there in zip(selection.clients.tolist(), applied.tolist(), returned, strict=True):
            if there:
                update, losses[client] = self._train(client)
                norms[client] = float(update.norm())
                change += weight * update
        self._weights += change
        train_seconds = time.perf_counter() - start

        self.selector.update(RoundFeedback(t, selection, outcomes, losses, norms))
        self.round += 1
        loss, accuracy = self.evaluate()
        return Round(t, selection, outcomes, applied, loss, accuracy, select_seconds, train_seconds)

    def evaluate(self) -> tuple[float, float]:
        """Mean cross-entropy and accuracy of the global model on the server's test set."""
        features, labels = self._test
        with torch.no_grad():
            outputs = self._load(self._weights)(features)
            loss = float(cross_entropy(outputs, labels))
            accuracy = float((outputs.argmax(dim=1) == labels).double().mean())
        return loss, accuracy

    def losses(self, clients: Any) -> NDArray[np.float64]:
        """Mean training loss of the global model at each of these clients, shape (len(clients),)."""
        model = self._load(self._weights)
        with torch.no_grad():
            return np.array([float(cross_entropy(model(x), y)) for x, y in (self._clients[int(c)] for c in clients)])

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on."""
        return {"round": self.round, "weights": self.weights, "selector": self.selector.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, to the same bits as without the break."""
        self.round = int(state["round"])
        self._weights = torch.as_tensor(np.asarray(state["weights"]), device=self.device).clone()
        self.selector.load_state_dict(state["selector"])

    def _train(self, client: int) -> tuple[torch.Tensor, float]:
        """Train one client from the global model; return its update and the mean loss over its steps."""
        settings = self.settings
        features, labels = self._clients[client]
        model = self._load(self._weights)
        rate = settings.learning_rate * settings.decay**self.round
        total = 0.0
        for batch in _batches(len(labels), settings, generator(self.seed, "training", self.round, client)):
            rows = torch.as_tensor(batch, device=self.device)
            loss = cross_entropy(model(features[rows]), labels[rows])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= rate * gradient
            total += float(loss.detach())
        trained = parameters_to_vector(model.parameters()).detach()
        return trained - self._weights, total / settings.local_steps

    def _load(self, weights: torch.Tensor) -> torch.nn.Module:
        vector_to_parameters(weights.clone(), self._model.parameters())
        return self._model


def _batches(n: int, settings: TrainingSettings, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """``local_steps`` batches from shuffled passes over ``n`` samples; each pass keeps its short last batch."""
    batches: list[NDArray[np.int64]] = []
    while len(batches) < settings.local_steps:
        order = rng.permutation(n)
        batches += [order[i : i + settings.batch_size] for i in range(0, n, settings.batch_size)]
    return batches[: settings.local_steps]


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


def _tensors(samples: Samples, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(samples.features).to(device), torch.from_numpy(samples.labels).to(device)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "training: device 'cuda' was asked for, but PyTorch sees no CUDA device (use 'auto' or 'cpu')"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
