"""Threads that train clients of a round beside each other, each on a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import TypeVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn

from fedselect.training.losses import Objective
from fedselect.training.models import trained, write_weights
from fedselect.training.settings import one_thread

Item = TypeVar("Item")
Found = TypeVar("Found")


class Autograd:
    """Loss and gradient of one client, by PyTorch's automatic differentiation of the model itself.

    What is as large as the model is kept from client to client and from round to round: new memory costs a large model
    more than the numbers in it.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective, self.parameters = model, objective, trained(model)
        self._room: Tensor | None = None
        self._gradient: Tensor | None = None
        self._last: tuple[Tensor, ...] = ()  # held until the next are there, so that their memory is not given back

    def room(self, weights: Tensor) -> Tensor:
        """Return memory for one client's weights, (1, d): the same each time, whose views the parameters are."""
        if self._room is None:
            self._room = torch.empty_like(weights).unsqueeze(0)
        return self._room

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: None = None) -> tuple[Tensor, Tensor]:
        """Differentiate the mean loss of a batch (b, ...) by parameters (1, d); that is there until the next call."""
        loss, gradients = self._differentiate(weights, features, labels)
        if self._gradient is None:
            self._gradient = torch.empty_like(weights[0])
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._gradient)
        return loss, self._gradient.unsqueeze(0)

    def descend(self, weights: Tensor, rate: float, features: Tensor, labels: Tensor, shares: None = None) -> Tensor:
        """Take a step of plain SGD, each parameter by its own gradient: the bits of one vector's; return the loss."""
        loss, gradients = self._differentiate(weights, features, labels)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.data.sub_(gradient, alpha=rate)
        return loss

    def _differentiate(self, weights: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Loss and gradient by each parameter; these are views of ``weights`` from now on."""
        if self.parameters[0].data_ptr() != weights.data_ptr():
            write_weights(self.model, weights[0])
        loss = self.objective.mean(self.model(features), labels)
        self._last = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return loss.detach().double(), self._last


class Lent:
    """Memory for the updates of a round, the same in each while nobody keeps those of the round before."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.float32)
        self._out: Callable[[], object] = object  # asks whether what was lent is still held

    def tensor(self, rows: int, like: Tensor) -> Tensor:
        """Return a tensor (rows, d) of any values, on the device of a vector (d,) and with its type."""
        size = rows * like.numel()
        if like.device.type != "cpu" or like.dtype != torch.float32:  # CUDA's own allocator keeps memory
            return torch.empty((rows, like.numel()), dtype=like.dtype, device=like.device)
        if self._out() is not None or self._memory.size < size:
            self._memory = np.empty(size, dtype=np.float32)
        lent = self._memory[:size]
        self._out = ref(lent)  # tensors hold the array that they are made of, and their views hold it, too
        return torch.from_numpy(lent).view(rows, like.numel())


class Workers:
    """Threads with models; results come in the order of what was asked.

    PyTorch releases the interpreter's lock in its kernels, so that models with work in them (convolutions) use several
    cores; each kernel runs on one thread then, so that results do not depend on the number of workers. (One worker
    alone takes as many threads as PyTorch has been given.)

    Parameters
    ----------
    model : torch.nn.Module
        The architecture: the first worker's own, copied for the others.
    objective : Objective
        The loss.
    count : int
        Number of workers; one works in the caller's thread.
    """

    def __init__(self, model: nn.Module, objective: Objective, count: int) -> None:
        self._count = count
        keep_memory()
        self._free = [Autograd(each, objective) for each in (model, *map(deepcopy, [model] * (count - 1)))]

    def map(self, work: Callable[[Autograd, Item], Found], items: Sequence[Item]) -> list[Found]:
        """Return ``work(model, item)`` of each item; of several that raise, the first one's error is raised."""

        def with_a_free_model(item: Item) -> Found:
            model = self._free.pop()
            try:
                return work(model, item)
            finally:
                self._free.append(model)

        if self._count == 1:
            return [with_a_free_model(item) for item in items]
        with one_thread(), ThreadPoolExecutor(self._count) as pool:
            return list(pool.map(with_a_free_model, items))


def keep_memory() -> None:
    """Let the C library keep up to 64 MB of memory that is freed, for the next step, and not fetch it anew in each.

    GNU's allocator takes the largest block that was asked for and freed (up to 32 MB) as the size of what is worth
    keeping; others are not changed by it.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)
