"""Local training: the selected clients' SGD from the global model, together in a stack or one by one.

**Which, under** ``batching = "auto"``. Dense networks (linear and ReLU layers, so logistic regression too) have
closed-form gradients of a whole stack: on a CPU as many are stacked as fit the cache with their batches (2¹⁹ numbers,
so models of up to about 2¹⁸ parameters), on CUDA all. Other models are stacked by
``torch.func.vmap`` on CUDA; on a CPU it costs more than it saves (convolutions with one kernel per client become
grouped convolutions) and they are trained one by one. Models with dropout layers are trained one by one everywhere.
``"always"`` and ``"never"`` override the rule.

**Padding.** A client's batches are padded to a width that depends on the client alone (the next power of two of its
samples, at most the batch size); padded rows count 0 in the loss. So the shape of a client's computation does not
depend on its company.

**What is promised.** A run repeats to the same bits: same settings, same machine and library versions, same number of
PyTorch threads (runs use one). Stacked and one by one agree within float error, not in bits; so does one client's
update in two runs whose selections differ, as libraries may choose another kernel for another stack. On CUDA it holds
as far as PyTorch's kernels are deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.augmentation import check_images, crop_and_flip
from fedselect.training.batches import batches, epochs_of
from fedselect.training.buffers import Buffers
from fedselect.training.gradients import Functional, StackedGradients, dense
from fedselect.training.losses import Objective, objective_of
from fedselect.training.settings import TrainingSettings

__all__ = ["LocalTraining", "Trained"]

#: Numbers in a stack (parameters and a batch of features): a CPU's cache, and what surely fits a device's memory.
_CACHE, _MEMORY = 2**19, 2**27


@dataclass(frozen=True, eq=False)
class Trained:
    """What the clients send back.

    Attributes
    ----------
    updates : (m, d) tensor
        Δ_k, one client a row.
    losses : (m,) ndarray of float
        Mean loss over the client's steps.
    received_losses : (m,) ndarray of float
        Loss of the received model on the first batch.
    buffers : (m, q) tensor, optional
        What each client's model keeps beside its parameters (`fedselect.training.buffers`), where it keeps something.
    """

    updates: Tensor
    losses: NDArray[np.float64]
    received_losses: NDArray[np.float64]
    buffers: Tensor | None = None


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
    ) -> None:
        self.objective = objective or objective_of(settings.loss, None, None, federation)
        self.settings, self.seed, self.device = settings, seed, device
        self._model = model
        self._parameters = list(model.parameters())
        self._sizes = federation.sizes
        self._features = math.prod(federation.test.features.shape[1:])
        self._epochs = epochs_of(len(federation), settings, seed)
        self._random = any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())
        self.buffers: Buffers | None = None
        if any(True for _ in model.buffers()):
            self.buffers = Buffers(model, len(federation), settings.buffers == "local")
        normalises = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
        self._least = 2 if normalises else 1  #: samples a batch has at least
        if normalises and min(int(self._sizes.min()), settings.batch_size) < 2:
            raise ConfigError(
                f"training: model {name_of(model, settings)} normalises over batches, which need 2 samples, and "
                + (f"client {self._sizes.argmin()} has 1" if settings.batch_size > 1 else "batch_size is 1")
            )
        if settings.augmentation != "none":
            check_images(federation.test.features.shape[1:])
        self._gradients, self._stack = self._batching()
        if self._gradients is None:
            self._pool: tuple[Tensor, Tensor] | None = None
            self.clients = [
                (torch.from_numpy(samples.features).to(device), torch.from_numpy(samples.labels).to(device))
                for samples in federation.clients
            ]
        else:  # one tensor, so that one look-up gathers the batches of all; each client's own samples are a view
            features = torch.from_numpy(np.concatenate([samples.features for samples in federation.clients]))
            labels = torch.from_numpy(np.concatenate([samples.labels for samples in federation.clients]))
            self._pool = features.to(device), labels.to(device)
            sizes = self._sizes.tolist()
            self.clients = list(zip(self._pool[0].split(sizes), self._pool[1].split(sizes), strict=True))
        self._offsets = np.concatenate(([0], np.cumsum(self._sizes)[:-1]))
        self._kept: Tensor | None = None  #: every client's momentum buffer, one a row, where they are kept
        if settings.momentum and settings.momentum_buffers == "kept":
            self._kept = torch.zeros((len(federation), sum(p.numel() for p in self._parameters)), device=device)

    @property
    def stack(self) -> int:
        """Clients trained together at most; 1 means one by one."""
        return self._stack

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
        if self._gradients is None:
            left = []
            for place, client in enumerate(clients):
                if buffers is not None and self.buffers is not None:
                    self.buffers.receive(client, buffers)
                with self._own_dropout(round, client):
                    updates[place], losses[:, place] = self._alone(client, schedules[place], weights, round)
                if buffers is not None and self.buffers is not None:
                    left.append(self.buffers.leave(client))
            kept = torch.stack(left) if left else None
        else:
            for places in self._stacks(clients, schedules):
                members, plans = [clients[place] for place in places], [schedules[place] for place in places]
                updates[places], losses[:, places] = self._together(self._gradients, members, plans, weights, rate)
        mean, received = losses.cpu().numpy()
        return Trained(updates, mean, received, kept)

    def state_dict(self) -> dict[str, Any]:
        """What clients keep between rounds: momentum buffers and a model's own, where the settings say so."""
        kept = {} if self._kept is None else {"momentum": self._kept.cpu().numpy().copy()}
        return kept | ({} if self.buffers is None else self.buffers.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Give clients back what they kept."""
        if self._kept is not None:
            self._kept.copy_(torch.from_numpy(np.asarray(state["momentum"], dtype=np.float32)))
        if self.buffers is not None:
            self.buffers.load_state_dict(state)

    def _batching(self) -> tuple[StackedGradients | None, int]:
        """How gradients of stacks are computed (None: one by one), and the largest stack."""
        choice, cuda = self.settings.batching, self.device.type == "cuda"
        if self.settings.augmentation != "none":
            if choice == "always":
                raise ConfigError("training: clients that augment their images train one by one; leave batching")
            return None, 1
        alone = "dropout layers" if self._random else "buffers" if self.buffers is not None else None
        if choice == "always" and alone is not None:
            raise ConfigError(
                f"training: model {name_of(self._model, self.settings)} has {alone}, whose clients train one by one; "
                "batching must be 'auto' or 'never'"
            )
        if choice == "never" or alone is not None:
            return None, 1
        batch = min(self.settings.batch_size, int(self._sizes.max()))
        size = sum(parameter.numel() for parameter in self._parameters) + batch * self._features
        stack = (_MEMORY if cuda or choice == "always" else _CACHE) // size
        closed = dense(self._model) if self.objective.is_cross_entropy else None
        if choice == "always":
            return closed or Functional(self._model, self.objective.loss), max(stack, 1)
        if stack < 2 or (closed is None and not cuda):
            return None, 1
        return closed or Functional(self._model, self.objective.loss), stack

    def _width(self, client: int) -> int:
        batch = min(self.settings.batch_size, int(self._sizes[client]))
        return min(self.settings.batch_size, 1 << (batch - 1).bit_length())

    def _stacks(self, clients: Sequence[int], schedules: list[list[NDArray[np.int64]]]) -> Iterator[list[int]]:
        """Places of the clients that train together: equal widths, most steps first."""
        widths: dict[int, list[int]] = {}
        for place, client in enumerate(clients):
            widths.setdefault(self._width(client), []).append(place)
        for places in widths.values():
            places.sort(key=lambda place: -len(schedules[place]))
            for start in range(0, len(places), self._stack):
                yield places[start : start + self._stack]

    def _together(
        self,
        gradients: StackedGradients,
        clients: list[int],
        schedules: list[list[NDArray[np.int64]]],
        start: Tensor,
        rate: float,
    ) -> tuple[Tensor, Tensor]:
        """Train a stack of clients, most steps first; return updates (m, d) and the two losses (2, m)."""
        assert self._pool is not None
        steps = np.array([len(plan) for plan in schedules])
        lengths = np.zeros((len(clients), int(steps[0])), dtype=np.int64)
        for place, plan in enumerate(schedules):
            lengths[place, : len(plan)] = [len(batch) for batch in plan]
        width = self._width(clients[0])
        filled = np.arange(width) < lengths[:, :, None]
        rows = np.zeros(filled.shape, dtype=np.int64)
        rows[filled] = np.concatenate([batch for plan in schedules for batch in plan])
        rows += self._offsets[clients][:, None, None]
        shares = (filled / np.maximum(lengths, 1)[:, :, None]).astype(np.float32)
        rows_of_step = torch.from_numpy(rows.swapaxes(0, 1).copy()).to(self.device)
        shares_of_step = torch.from_numpy(shares.swapaxes(0, 1).copy()).to(self.device)

        weights = start.repeat(len(clients), 1)
        buffer = None
        if self.settings.momentum:
            buffer = torch.zeros_like(weights) if self._kept is None else self._kept[clients]
        losses = torch.zeros((2, len(clients)), dtype=torch.float64, device=self.device)
        for step in range(int(steps[0])):
            m = int(np.count_nonzero(steps > step))  # the clients that still have a step to take come first
            index = rows_of_step[step, :m].reshape(-1)
            shape = (m, width)
            features, labels = (part.index_select(0, index).unflatten(0, shape) for part in self._pool)
            loss, gradient = gradients(weights[:m], features, labels, shares_of_step[step, :m])
            self._descend(weights[:m], gradient, None if buffer is None else buffer[:m], start, rate)
            losses[0, :m] += loss
            if step == 0:
                losses[1] = loss
        if self._kept is not None and buffer is not None:
            self._kept[clients] = buffer
        losses[0] /= torch.from_numpy(steps).to(self.device)
        return weights - start, losses

    def _alone(
        self, client: int, schedule: list[NDArray[np.int64]], start: Tensor, round: int
    ) -> tuple[Tensor, Tensor]:
        """Train one client by automatic differentiation; return its update (d,) and the two losses (2,)."""
        features, labels = self.clients[client]
        rate, augmentation = self.settings.rate(round), self.settings.augmentation
        # Batches use the same generator's first draws, dropout layers its first child; the second is independent.
        images = generator(self.seed, "training", round, client).spawn(2)[1]
        weights = start.clone()
        vector_to_parameters(weights, self._parameters)  # views: what changes the model changes ``weights``
        parts = [parameter.data for parameter in self._parameters]
        sizes = [part.numel() for part in parts]
        starts = [part.view_as(like) for part, like in zip(start.split(sizes), parts, strict=True)]
        buffers: list[Tensor | None] = [None] * len(parts)
        if self.settings.momentum:  # views of the client's own row where it is kept
            own = torch.zeros_like(start) if self._kept is None else self._kept[client]
            buffers = [part.view_as(like) for part, like in zip(own.split(sizes), parts, strict=True)]
        losses = []
        for places in schedule:
            rows = torch.from_numpy(places).to(self.device)
            batch = features.index_select(0, rows)
            if augmentation != "none":
                batch = crop_and_flip(batch, images, flip=augmentation == "crop-flip")
            loss = self.objective.mean(self._model(batch), labels.index_select(0, rows))
            gradients = torch.autograd.grad(loss, self._parameters)
            for part, gradient, buffer, origin in zip(parts, gradients, buffers, starts, strict=True):
                self._descend(part, gradient, buffer, origin, rate)
            losses.append(loss.detach().double())
        return weights - start, torch.stack((torch.stack(losses).mean(), losses[0]))

    def _descend(self, weights: Tensor, gradient: Tensor, buffer: Tensor | None, start: Tensor, rate: float) -> None:
        """One step of SGD, in place; a stack of clients' weights, or one parameter of one client."""
        settings = self.settings
        if settings.weight_decay:
            gradient = gradient.add(weights, alpha=settings.weight_decay)
        if settings.proximal:
            gradient = gradient.add(weights - start, alpha=settings.proximal)
        if buffer is not None:
            gradient = buffer.mul_(settings.momentum).add_(gradient)
        weights.sub_(gradient, alpha=rate)

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


def name_of(model: nn.Module, settings: TrainingSettings) -> str:
    """What a message calls a model: the registered name, or its class."""
    return repr(settings.model) if isinstance(model, nn.Sequential) else type(model).__name__
