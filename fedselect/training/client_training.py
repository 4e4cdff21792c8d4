"""Local training: the selected clients' SGD from the global model, together in a stack or one by one.

**Which, under** ``batching = "auto"``: a stack where `fedselect.training.batched_clients` says that it pays, one by one
elsewhere. Models with dropout layers or buffers are trained one by one everywhere, and so is who augments images.
``"always"`` and ``"never"`` override the rule.

**What is promised.** A run repeats to the same bits: same settings, same machine and library versions, same number of
PyTorch threads (runs use one). Stacked and one by one agree within float error, not in bits; so does one client's
update in two runs whose selections differ, as libraries may choose another kernel for another stack. On CUDA it holds
as far as PyTorch's kernels are deterministic.

**Buffers** (running statistics of batch normalisation, and whatever else a model keeps beside its parameters).
Updates of the parameters do not carry them. Every client starts from the server's, and the server takes the average of
those that arrived, weighed by the selection's weights, scaled to sum to one (those below zero count as zero; where
nothing counts, the server keeps its own): b ← b + Σ a_i (b_i − b) / Σ a_i, so that a buffer that never changes keeps
its bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.batched_clients import StackedTraining, stacking
from fedselect.training.losses import Objective, objective_of
from fedselect.training.settings import TrainingSettings, epochs_of
from fedselect.training.sgd_step import augmented, batches, check_images, clipping, descend

__all__ = [
    "Buffers",
    "LocalTraining",
    "Trained",
    "averaged",
]


class Buffers:
    """A model's buffers as one vector of float32."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = list(model.buffers())

    def __len__(self) -> int:
        return sum(buffer.numel() for buffer in self._buffers)

    def read(self) -> Tensor:
        """Return the values that the model holds now, shape (q,)."""
        return torch.cat([buffer.detach().reshape(-1).float() for buffer in self._buffers])

    def write(self, values: Tensor) -> None:
        """Put (q,) values into the model; whole numbers are rounded."""
        with torch.no_grad():
            for buffer, part in zip(self._buffers, values.split([b.numel() for b in self._buffers]), strict=True):
                part = part.view_as(buffer)
                buffer.copy_(part if buffer.is_floating_point() else part.round())


def averaged(server: Tensor, arrived: Tensor, weights: NDArray[np.float64]) -> Tensor:
    """Average the server's buffers (q,) with those of m clients (m, q) that arrived with these weights (m,)."""
    shares = np.maximum(weights, 0.0)
    if not shares.sum() > 0:
        return server
    shares = torch.from_numpy((shares / shares.sum()).astype(np.float32)).to(server.device)
    return server + shares @ (arrived - server)


@dataclass(frozen=True, eq=False)
class Trained:
    """Answers of the clients that trained.

    Attributes
    ----------
    updates : (m, d) tensor
        Δ_k, one client a row.
    losses : (m,) ndarray of float
        Mean loss over the client's steps.
    received_losses : (m,) ndarray of float
        Loss of the received model on the first batch.
    buffers : (m, q) tensor, optional
        Buffers of each client's model, where it has any.
    """

    updates: Tensor
    losses: NDArray[np.float64]
    received_losses: NDArray[np.float64]
    buffers: Tensor | None = None

    def of(self, places: Sequence[int]) -> Trained:
        """Return the answers at these places, sorted; itself where these are all."""
        if len(places) == len(self.losses):
            return self
        rows = list(places)
        buffers = None if self.buffers is None else self.buffers[rows]
        return Trained(self.updates[rows], self.losses[rows], self.received_losses[rows], buffers)


class LocalTraining:
    """Clients' data on the device, and their SGD.

    Parameters
    ----------
    model : torch.nn.Module
        The architecture, on the device; its parameter values are scratch.
    federation : Federation
        Whose clients train.
    settings : TrainingSettings
        How.
    seed : int
        Seed of the batches.
    device : torch.device
        Where.
    objective : Objective, optional
        The loss; that of the settings if left out.
    optimizer : callable, optional
        Makes the clients' optimizer of parameters and step size, in the place of the one that the settings name.

    Raises
    ------
    ConfigError
        When batching is ``"always"`` and clients must train one by one, or a batch would have one sample to normalise.
    """

    def __init__(
        self,
        model: nn.Module,
        federation: Federation,
        settings: TrainingSettings,
        seed: int,
        device: torch.device,
        objective: Objective | None = None,
        optimizer: MakesOptimizer | None = None,
    ) -> None:
        self._optimizer = named_optimizer(settings) if optimizer is None else _checked(optimizer)
        self.objective = objective or objective_of(settings.loss, None, None, federation)
        self.settings, self.seed, self.device = settings, seed, device
        self._model = model
        self._parameters = list(model.parameters())
        self._sizes = federation.sizes
        self._epochs = epochs_of(len(federation), settings, seed)
        self._random = any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())
        self.buffers: Buffers | None = None
        if any(True for _ in model.buffers()):
            self.buffers = Buffers(model)
        normalises = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
        self._least = 2 if normalises else 1  #: samples a batch has at least
        if normalises and min(int(self._sizes.min()), settings.batch_size) < 2:
            raise ConfigError(
                f"training: model {name_of(model, settings)} normalises over batches, which need 2 samples, and "
                + (f"client {self._sizes.argmin()} has 1" if settings.batch_size > 1 else "batch_size is 1")
            )
        if settings.augmentation != "none":
            check_images(federation.test.features.shape[1:])
        self._stacked = self._stacking(federation)
        if self._stacked is not None:
            self.datasets = self._stacked.datasets
        else:
            self.datasets = [
                (torch.from_numpy(samples.features).to(device), torch.from_numpy(samples.labels).to(device))
                for samples in federation.datasets
            ]

    @property
    def stack(self) -> int:
        """Clients trained together at most; 1 means one by one."""
        return 1 if self._stacked is None else self._stacked.largest

    def train(self, clients: Sequence[int], weights: Tensor, round: int, buffers: Tensor | None = None) -> Trained:
        """Train clients from the same model.

        Parameters
        ----------
        clients : sequence of int
            Who trains.
        weights : (d,) tensor
            The global model; left as it is.
        round : int
            Round index: gives the step size and the batches.
        buffers : (q,) tensor, optional
            The global model's buffers, where it has any.

        Returns
        -------
        Trained
            In the order of ``clients``.
        """
        m = len(clients)
        schedules = [
            batches(
                int(self._sizes[client]),
                self.settings,
                int(self._epochs[client]),
                generator(self.seed, "training", round, client),
                self._least,
            )
            for client in clients
        ]
        updates = torch.empty((m, weights.numel()), dtype=weights.dtype, device=self.device)
        losses = torch.empty((2, m), dtype=torch.float64, device=self.device)
        self._model.train()
        rate = self.settings.rate(round)
        kept = None
        if self._stacked is None:
            left = []
            for place, client in enumerate(clients):
                if buffers is not None and self.buffers is not None:
                    self.buffers.write(buffers)
                with self._own_dropout(round, client):
                    updates[place], losses[:, place] = self._alone(client, schedules[place], weights, round)
                if buffers is not None and self.buffers is not None:
                    left.append(self.buffers.read())
            kept = torch.stack(left) if left else None
        else:
            for places, found, of_steps in self._stacked.train(clients, schedules, weights, rate):
                updates[places], losses[:, places] = found, of_steps
        mean, received = losses.cpu().numpy()
        return Trained(updates, mean, received, kept)

    def _stacking(self, federation: Federation) -> StackedTraining | None:
        """Training in stacks; None where clients train one by one."""
        always = self.settings.batching == "always"
        if self.settings.augmentation != "none":
            if always:
                raise ConfigError("training: clients that augment their images train one by one; leave batching")
            return None
        alone = "dropout layers" if self._random else "buffers" if self.buffers is not None else None
        alone = "another optimizer than sgd" if self._optimizer is not None else alone
        if always and alone is not None:
            raise ConfigError(
                f"training: model {name_of(self._model, self.settings)} has {alone}, whose clients train one by one; "
                "batching must be 'auto' or 'never'"
            )
        if self.settings.batching == "never" or alone is not None:
            return None
        how = stacking(self._model, self.objective, federation, self.settings, self.device)
        return None if how is None else StackedTraining(federation, *how, self.settings, self.device)

    def _alone(
        self, client: int, schedule: list[NDArray[np.int64]], start: Tensor, round: int
    ) -> tuple[Tensor, Tensor]:
        """Train one client by automatic differentiation; return its update (d,) and the two losses (2,)."""
        features, labels = self.datasets[client]
        rate, augmentation = self.settings.rate(round), self.settings.augmentation
        # Batches use the same generator's first draws, dropout layers its first child; the second is independent.
        images = generator(self.seed, "training", round, client).spawn(2)[1]
        weights = start.clone()
        vector_to_parameters(weights, self._parameters)  # views: what changes the model changes ``weights``
        parts = [parameter.data for parameter in self._parameters]
        sizes = [part.numel() for part in parts]
        starts = [part.view_as(like) for part, like in zip(start.split(sizes), parts, strict=True)]
        buffers: list[Tensor | None] = [None] * len(parts)
        if self.settings.momentum:
            buffers = [torch.zeros_like(part) for part in parts]
        optimizer = None if self._optimizer is None else self._optimizer(self._parameters, rate)
        losses = []
        for places in schedule:
            rows = torch.from_numpy(places).to(self.device)
            batch = augmented(features.index_select(0, rows), augmentation, images)
            loss = self.objective.mean(self._model(batch), labels.index_select(0, rows))
            gradients = torch.autograd.grad(loss, self._parameters)
            if self.settings.clip_gradient is not None:
                norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]))
                gradients = tuple(gradient * clipping(norm, self.settings.clip_gradient) for gradient in gradients)
            losses.append(loss.detach().double())
            if optimizer is not None:
                for parameter, gradient, origin in zip(self._parameters, gradients, starts, strict=True):
                    pull = self.settings.proximal
                    parameter.grad = gradient.add(parameter.data - origin, alpha=pull) if pull else gradient
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                continue
            for part, gradient, buffer, origin in zip(parts, gradients, buffers, starts, strict=True):
                descend(part, gradient, buffer, origin, rate, self.settings)
        return weights - start, torch.stack((torch.stack(losses).mean(), losses[0]))

    @contextmanager
    def _own_dropout(self, round: int, client: int) -> Iterator[None]:
        """Let dropout layers draw from this client's randomness: they know only PyTorch's own, which is put back."""
        if not self._random:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        # Batches use the same generator's first draws; a spawned one is independent of them.
        seed = int(generator(self.seed, "training", round, client).spawn(1)[0].integers(2**63))
        with torch.random.fork_rng(devices=devices):
            if devices:
                torch.cuda.manual_seed(seed)
            else:
                torch.default_generator.manual_seed(seed)
            yield


#: Makes an optimizer of parameters and step size.
MakesOptimizer = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]


def named_optimizer(settings: TrainingSettings) -> MakesOptimizer | None:
    """Return what makes the optimizer that settings name; None for SGD, whose steps are written out."""
    if settings.optimizer == "sgd":
        return None
    kind = next(each for name, each in vars(torch.optim).items() if name.lower() == settings.optimizer)
    options = dict(settings.optimizer_options)
    if settings.weight_decay:
        options["weight_decay"] = settings.weight_decay
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}

    def make(parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        try:
            return kind(parameters, lr=rate, **options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"training: optimizer {settings.optimizer!r} does not take {options}: {error}") from error

    return make


def _checked(optimizer: MakesOptimizer) -> MakesOptimizer:
    """Return what makes an optimizer; raise `ConfigError` for what does not take parameters and a step size."""
    try:
        inspect.signature(optimizer).bind([], 0.1)
    except TypeError as error:
        raise ConfigError(
            "optimizer is called with the parameters and the step size of the round, as in "
            "optimizer=lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate); "
            f"got {optimizer!r:.80}"
        ) from error
    except ValueError:  # it does not tell its parameters
        pass
    return optimizer


def name_of(model: nn.Module, settings: TrainingSettings) -> str:
    """Name of a model in messages: the registered one, or its class."""
    is_named = isinstance(model, nn.Sequential) and not getattr(model, "is_own", False)
    return repr(settings.model) if is_named else type(model).__name__
