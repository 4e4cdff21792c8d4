"""Local training: what the selected clients do between the received model and their updates.

`fedselect.training.optimizers.sgd` is a client's work, or that of several clients in a stack: so many steps, each with
a batch of (seed, round, client). Gradients of one client are PyTorch's (`fedselect.training.workers`, on several
threads); who trains in a stack, and where that pays, is in `fedselect.training.stacks`.

**What is promised.** Local training repeats to the same bits: same settings, same machine and library versions, same
number of PyTorch threads (runs use one). Not so where ``batching = "timed"`` decides anew by the clock, or where a
model draws otherwise than by PyTorch's layers of dropout, ``RReLU``, recurrence or attention. Stacked and one by one
agree within float error, not in bits; so does one client's update in two runs whose selections differ, as libraries may
choose another kernel for another stack. On CUDA it holds as far as PyTorch's kernels are deterministic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.augmentation import crop_and_flip
from fedselect.training.corruption import CORRUPTIONS, Corrupts, sent
from fedselect.training.losses import Data, Objective, batch_of, objective_of, on_device
from fedselect.training.models import has_dropout, name_of, read_buffers, write_buffers
from fedselect.training.optimizers import MakesOptimizer, checked, named_optimizer, sgd, stepper
from fedselect.training.settings import TrainingSettings, epochs_of
from fedselect.training.stacks import Batch, Functional, Stacks, stacking
from fedselect.training.workers import Autograd, Lent, Workers

_log = logging.getLogger(__name__)

#: Answers of m clients: updates (m, d), two losses (2, m) (mean over the steps, and of the received model on the first
#: batch), and the buffers (m, q) of each client's model, where it has any.
Answers = tuple[Tensor, NDArray[np.float64], Tensor | None]


def batches(
    size: int, settings: TrainingSettings, epochs: int, rng: np.random.Generator, least: int = 1
) -> list[NDArray[np.int64]]:
    """Draw the client's batches of one round, in order.

    Parameters
    ----------
    size : int
        The client's samples.
    settings : TrainingSettings
        Batch size, and the number of steps unless clients train by epochs.
    epochs : int
        Passes over the samples where clients train by epochs (`fedselect.training.settings.epochs_of`); 0 where they
        train by steps.
    rng : numpy.random.Generator
        ``generator(seed, "training", round, client)``.
    least : int
        A last batch of fewer samples joins the one before it.

    Returns
    -------
    list of (b,) ndarray of int
        Positions among the client's samples; every pass is a fresh shuffle and keeps its short last batch.
    """
    found: list[NDArray[np.int64]] = []
    starts = list(range(0, size, settings.batch_size))
    if len(starts) > 1 and size - starts[-1] < least:
        starts.pop()
    steps = settings.local_steps or epochs * len(starts)
    while len(found) < steps:
        order = rng.permutation(size)
        found += [order[start:end] for start, end in zip(starts, [*starts[1:], size], strict=True)]
    return found[:steps]


def channels_last(images: Tensor) -> Tensor:
    """Copy images (b, channels, height, width) pixel by pixel, so that layers behind choose kernels for that.

    Strides are written out: with one channel, PyTorch's own conversion keeps those of the first format.
    """
    channels, height, width = images.shape[1:]
    strides = channels * height * width, 1, width * channels, channels
    return torch.empty_strided(images.shape, strides, dtype=images.dtype, device=images.device).copy_(images)


class LocalTraining:
    """Clients' data on the device, and their training.

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
    corrupt : callable, optional
        What clients that lie send, in the place of the corruption that the settings name.

    Attributes
    ----------
    datasets : list of (tensor, tensor) or LazySamples
        Each client's features and labels, or samples that are read when they are used.
    stack : int
        Clients trained together at most; 1 means one by one.

    Raises
    ------
    ConfigError
        When batching is ``"always"`` and clients must train one by one, a batch would have one sample to normalise, or
        a setting is for images and features are none.
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
        corrupt: Corrupts | None = None,
    ) -> None:
        if corrupt is None and settings.corrupt is not None:
            corrupt = CORRUPTIONS.build(settings.corrupt, len(federation), seed, **settings.corrupt_options)
        self._corrupt = corrupt
        self._optimizer = named_optimizer(settings) if optimizer is None else checked(optimizer)
        self.objective = objective or objective_of(settings.loss, None, None, federation)
        self.settings, self.seed, self.device, self.model = settings, seed, device, model
        self._sizes, self._epochs = federation.sizes, epochs_of(len(federation), settings, seed)
        self._drops = has_dropout(model)
        normalises = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
        self._least = 2 if normalises else 1  #: samples a batch has at least
        if normalises and min(int(self._sizes.min()), settings.batch_size) < 2:
            raise ConfigError(
                f"training: model {name_of(model, settings)} normalises over batches, which need 2 samples, and "
                + (f"client {self._sizes.argmin()} has 1" if settings.batch_size > 1 else "batch_size is 1")
            )
        for name, plain in (("augmentation", "none"), ("memory_format", "contiguous")):
            if getattr(settings, name) != plain and len(shape := federation.test.shape) != 3:
                raise ConfigError(f"training: {name} needs images (channels, height, width); got features of {shape}")
        self._stacks = stacking(model, self.objective, federation, settings, device, sgd=self._optimizer is None)
        self.stack = 1 if self._stacks is None else self._stacks.largest
        #: Whether clients are trained together, where the first round is to decide that; None until it has.
        self.decided: bool | None = None
        self._is_timed = settings.batching == "timed" and isinstance(
            getattr(self._stacks, "gradients", None), Functional
        )
        # Dropout layers draw from PyTorch's one generator, and a stack is one computation: for these one worker.
        self._one = Workers(model, self.objective, 1)
        alone = settings.workers > 1 and not self._drops and (self._stacks is None or self._is_timed)
        self._workers = Workers(model, self.objective, settings.workers) if alone else self._one
        self._lent = Lent()
        self.datasets: Sequence[Data] = (
            [on_device(samples, device) for samples in federation.datasets]
            if self._stacks is None
            else self._stacks.datasets
        )

    def train(self, clients: Sequence[int], weights: Tensor, round: int, buffers: Tensor | None = None) -> Answers:
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
        Answers
            In the order of ``clients``.
        """
        if self._is_timed and self.decided is None and len(clients) > 1:
            self.decided = self._time(clients, weights, round)
        stacks = self._stacks if self.decided or not self._is_timed else None
        updates, losses, left = self._trained(clients, weights, round, buffers, stacks)
        if (together := getattr(self._corrupt, "together", None)) is not None:
            together(list(clients), updates, round)
        elif self._corrupt is not None:
            for client, update in zip(clients, updates, strict=True):
                update.copy_(sent(self._corrupt, client, update, round))
        return updates, losses, left

    def _time(self, clients: Sequence[int], weights: Tensor, round: int) -> bool:
        """Train both ways, the second time by the clock; return whether together is sooner."""
        took = []
        for stacks in (self._stacks, None):
            try:
                self._trained(clients, weights, round, None, stacks)
            except (RuntimeError, NotImplementedError) as error:  # what vmap cannot do, it says in one of these
                _log.info("batching: clients of this model train one by one: %s", str(error).partition("\n")[0])
                return False
            start = time.perf_counter()
            self._trained(clients, weights, round, None, stacks)
            took.append(time.perf_counter() - start)
        better = took[0] < took[1]
        _log.info(
            "batching: %d clients take %.3g s together and %.3g s one by one; training.batching = '%s' is the same",
            *(len(clients), *took, "always" if better else "never"),
        )
        return better

    def _trained(
        self, clients: Sequence[int], weights: Tensor, round: int, buffers: Tensor | None, stacks: Stacks | None
    ) -> Answers:
        """Train clients in these stacks, or one by one; what they would send, all of them honest."""
        plans = []
        for client in clients:
            rng, n, epochs = generator(self.seed, "training", round, client), self._sizes[client], self._epochs[client]
            plans.append(batches(int(n), self.settings, int(epochs), rng, self._least))
        updates = self._lent.tensor(len(clients), weights)
        losses = torch.empty((2, len(clients)), dtype=torch.float64, device=self.device)
        rate = self.settings.rate(round)

        def train(alone: Autograd, places: list[int]) -> Tensor | None:
            """Train clients together, or one alone; return the buffers that it leaves."""
            members, steps = [clients[place] for place in places], [plans[place] for place in places]
            optimizer = None if self._optimizer is None else partial(stepper, self._optimizer, alone.parameters, rate)
            alone.model.train()
            if buffers is not None:
                write_buffers(alone.model, buffers)
            with self._own_dropout(round, members[0]):
                of_each, counts = self._batches(members, steps, round, stacks), [len(plan) for plan in steps]
                gradients = alone if stacks is None else copy(stacks.gradients)
                room = alone.room(weights) if stacks is None else None
                found, losses[:, places] = sgd(
                    weights, counts, of_each, gradients, rate, self.settings, optimizer, room
                )
            if places == list(range(places[0], places[0] + len(places))):
                torch.sub(found, weights, out=updates[places[0] : places[0] + len(places)])
            else:
                updates[places] = found - weights
            return None if buffers is None else read_buffers(alone.model)

        groups = [[place] for place in range(len(clients))] if stacks is None else list(stacks.groups(clients, plans))
        workers = self._workers if stacks is None else self._one
        left = [part for part in workers.map(train, groups) if part is not None]
        return updates, losses.cpu().numpy(), torch.stack(left) if left else None

    def _batches(
        self, members: list[int], plans: list[list[NDArray[np.int64]]], round: int, stacks: Stacks | None
    ) -> Iterator[Batch]:
        """Yield the batches of clients that train together; of one that trains alone, augmented as settings have it."""
        if stacks is not None:
            yield from stacks.batches(members, plans)
            return
        [client], [plan] = members, plans
        name = self.settings.augmentation
        # Batches use the same generator's first draws, dropout layers its first child; the second is independent.
        images = generator(self.seed, "training", round, client).spawn(2)[1] if name != "none" else None
        for places in plan:
            batch, labels = batch_of(self.datasets[client], places)
            if images is not None:
                batch = crop_and_flip(batch, images, flip=name == "crop-flip")
            if self.settings.memory_format == "channels_last":
                batch = channels_last(batch)
            yield batch, labels, None

    @contextmanager
    def _own_dropout(self, round: int, client: int) -> Iterator[None]:
        """Let dropout layers draw from this client's randomness: they know only PyTorch's own, which is put back."""
        if not self._drops:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        # Batches use the same generator's first draws; a spawned one is independent of them.
        seed = int(generator(self.seed, "training", round, client).spawn(1)[0].integers(2**63))
        with torch.random.fork_rng(devices=devices):
            (torch.cuda if devices else torch.default_generator).manual_seed(seed)
            yield
