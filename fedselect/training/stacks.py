"""Clients trained in stacks: one batched computation takes a step of all of them.

**Who.** Not clients with layers that draw (dropout), buffers, another optimizer than SGD, augmented images, or samples
that are read when used: these train one by one. Under ``batching = "never"`` all do; ``"always"`` is refused for these.

**Where.** Dense networks (linear and ReLU layers, so logistic regression too) under the cross-entropy have closed-form
gradients of a whole stack: on a CPU as many are stacked as fit the cache with their batches (2¹⁹ numbers, so models of
up to about 2¹⁸ parameters), on CUDA up to 2²⁷. Other models are stacked by ``torch.func.vmap`` on CUDA; on a CPU they
train one by one, as it may cost more than it saves. ``batching = "always"`` overrides this, ``"timed"`` measures it in
the first round of two clients or more, and ``"captured"`` keeps to it, and lets CUDA capture the steps
(`fedselect.training.captured`).

**Padding.** A client's batches are padded to a width that depends on the client alone (the next power of two of its
samples, at most the batch size); padded rows count 0 in the loss.

**Gradients** are in closed form for dense networks under the cross-entropy, and by ``torch.func`` for all else. Both
take a *stack*: one row of parameters and one batch per client, and give every client's loss and gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import pad

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.training.captured import Captured, cuda_graph
from fedselect.training.losses import Measure, Objective, cross_entropy_loss
from fedselect.training.models import has_dropout, name_of, trained
from fedselect.training.settings import TrainingSettings

#: Features (m, b, ...), labels (m, b) and shares (m, b) of the samples in their client's loss, 0 for padding; of a
#: client that trains alone without the first dimension, and without shares.
Batch = tuple[Tensor, Tensor, Tensor | None]

#: Losses (m,) and gradients (m, d) of each client's Σ_j shares_j · loss_j, of parameters (m, d) and a batch.
Gradients = Callable[..., tuple[Tensor, Tensor]]


#: Each layer's matrices (m, outputs, inputs) and biases (m, outputs).
Layers = list[tuple[Tensor, Tensor]]


class Dense:
    """Linear layers with biases and ReLU between them; with one layer, multinomial logistic regression.

    Parameters
    ----------
    widths : list of int
        Inputs, hidden units of each layer, outputs.
    one_logit : bool
        Whether the one output is the logit of class 1, beside a constant 0 for class 0.
    """

    def __init__(self, widths: list[int], one_logit: bool = False) -> None:
        self.widths, self.one_logit = widths, one_logit
        self._at: tuple[Tensor, Layers, Tensor, Layers] | None = None

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Backpropagation written out with batched matrix products; the gradients are there until the next call."""
        if self._at is None or self._at[0] is not weights:
            empty = torch.empty_like(weights)
            self._at = weights, self._layers(weights), empty, self._layers(empty)
        (*hidden, (matrix, bias)), gradients = self._at[1], self._at[2]
        # Samples are rows in hidden layers, and columns of the few outputs: these are the faster products.
        inputs = [features.flatten(2)]
        for inner, shift in hidden:
            inputs.append(torch.baddbmm(shift.unsqueeze(1), inputs[-1], inner.transpose(1, 2)).relu_())
        answers = torch.baddbmm(bias.unsqueeze(2), matrix, inputs[-1].transpose(1, 2))
        logs = torch.log_softmax(pad(answers, (0, 0, 1, 0)) if self.one_logit else answers, dim=1)
        true = labels.unsqueeze(1)
        losses = -(logs.gather(1, true).squeeze(1) * shares).sum(dim=1)
        # The derivative of the loss by the last layer's outputs: softmax minus the true class, times the share.
        error = logs.exp_()
        error.scatter_add_(1, true, torch.full_like(shares, -1.0).unsqueeze(1))
        error *= shares.unsqueeze(1)
        if self.one_logit:
            error = error[:, 1:]
        for place, (matrix, bias) in reversed(list(enumerate(self._at[3]))):
            torch.bmm(error, inputs[place], out=matrix)
            torch.sum(error, dim=2, out=bias)
            if place:
                error = torch.bmm(error.transpose(1, 2), self._at[1][place][0])
                error = torch.ops.aten.threshold_backward(error, inputs[place], 0).transpose(1, 2)
        return losses, gradients

    def _layers(self, weights: Tensor) -> Layers:
        """Each layer's matrices (m, outputs, inputs) and biases (m, outputs), as views of ``weights``."""
        found, start = [], 0
        for inputs, outputs in zip(self.widths, self.widths[1:], strict=False):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            found.append((weights[:, start:middle].unflatten(1, (outputs, inputs)), weights[:, middle:end]))
            start = end
        return found


def dense(model: nn.Module) -> Dense | None:
    """Return the closed form of ``model``, or None when it is no ``Sequential`` of flatten, linear and ReLU layers.

    A padding of one zero before a single output, as model ``"logistic"`` has it, may end it. None as well where some
    parameters are not trained.
    """
    if not isinstance(model, nn.Sequential) or not all(each.requires_grad for each in model.parameters()):
        return None
    modules = list(model)
    if modules and type(modules[0]) is nn.Flatten and (modules[0].start_dim, modules[0].end_dim) == (1, -1):
        modules = modules[1:]
    last = modules[-1] if modules else None
    one_logit = isinstance(last, nn.ConstantPad1d) and (tuple(last.padding), last.value) == ((1, 0), 0.0)
    if one_logit:
        modules = modules[:-1]
    linear, between = modules[::2], modules[1::2]
    if len(modules) % 2 == 0 or any(type(module) is not nn.ReLU for module in between):
        return None
    if any(type(module) is not nn.Linear or module.bias is None for module in linear):
        return None
    if one_logit and linear[-1].out_features != 1:
        return None
    return Dense([linear[0].in_features, *(module.out_features for module in linear)], one_logit)


class Functional:
    """Any model whose samples do not see each other, through ``torch.func.vmap``.

    Parameters
    ----------
    model : torch.nn.Module
        Gives architecture; its own parameter values are not used.
    measure : callable
        The loss of each sample, ``(outputs, labels) -> (b,)``.
    """

    def __init__(self, model: nn.Module, measure: Measure = cross_entropy_loss) -> None:
        self._shapes = {
            name: parameter.shape for name, parameter in model.named_parameters() if parameter.requires_grad
        }

        def loss(parameters: dict[str, Tensor], features: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
            outputs = functional_call(model, parameters, (features,))
            return (measure(outputs, labels) * shares).sum()

        self._gradients = vmap(grad_and_value(loss))

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Differentiate by function transforms."""
        rows = weights.split([shape.numel() for shape in self._shapes.values()], dim=1)
        parameters = {
            name: row.unflatten(1, shape) for (name, shape), row in zip(self._shapes.items(), rows, strict=True)
        }
        gradients, losses = self._gradients(parameters, features, labels, shares)
        return losses, torch.cat([gradients[name].flatten(1) for name in self._shapes], dim=1)


#: Numbers in a stack (parameters and a batch of features): a CPU's cache, and what surely fits a device's memory.
_CACHE, _MEMORY = 2**19, 2**27


def stacking(
    model: nn.Module,
    objective: Objective,
    federation: Federation,
    settings: TrainingSettings,
    device: torch.device,
    *,
    sgd: bool = True,
) -> Stacks | None:
    """Put clients' data into stacks, where that can be and pays.

    Parameters
    ----------
    model : torch.nn.Module
        The architecture.
    objective : Objective
        The loss.
    federation : Federation
        Whose clients train.
    settings : TrainingSettings
        How.
    device : torch.device
        Where.
    sgd : bool
        Whether the clients' optimizer is SGD.

    Returns
    -------
    Stacks or None
        None where clients are sooner trained one by one.

    Raises
    ------
    ConfigError
        When ``batching`` is ``"always"``, and clients must train one by one.
    """
    who, has = "", None if sgd else "another optimizer than sgd"
    if settings.augmentation != "none":
        who = "clients that augment their images"
    elif federation.is_lazy:
        who = "clients whose samples are read when used"
    elif has := has or (
        "dropout layers" if has_dropout(model) else "buffers" if any(True for _ in model.buffers()) else None
    ):
        who = f"model {name_of(model, settings)} has {has}, whose clients"
    if who and settings.batching == "always":
        raise ConfigError(f"training: {who} train one by one; batching must not be 'always'")
    if who or settings.batching == "never":
        return None
    always, cuda = settings.batching == "always", device.type == "cuda"
    batch = min(settings.batch_size, int(federation.sizes.max()))
    features = math.prod(federation.test.shape)
    size = sum(parameter.numel() for parameter in trained(model)) + batch * features
    largest = (_MEMORY if cuda or always else _CACHE) // size
    closed = dense(model) if objective.is_cross_entropy else None
    is_tried = closed is None and settings.batching == "timed"
    if not always and (largest < 2 or (closed is None and not cuda and not is_tried)):
        return None
    gradients: Gradients = closed or Functional(model, objective.loss)
    if settings.batching == "captured":
        gradients = Captured(gradients, partial(cuda_graph, device=device) if cuda else lambda step: step)
    return Stacks(federation, gradients, max(largest, 1), settings.batch_size, device)


class Stacks:
    """All clients' data as one tensor on the device, of which batches of stacks are taken.

    Parameters
    ----------
    federation : Federation
        Whose clients train.
    gradients : callable
        Loss and gradient of every client in a stack.
    largest : int
        Clients in a stack at most.
    batch_size : int
        Samples a client and step.
    device : torch.device
        Where.

    Attributes
    ----------
    datasets : list of (tensor, tensor)
        Each client's features and labels, views of the one tensor.
    """

    def __init__(
        self, federation: Federation, gradients: Gradients, largest: int, batch_size: int, device: torch.device
    ) -> None:
        self.gradients, self.largest, self.device = gradients, largest, device
        # One tensor, so that one look-up gathers the batches of all.
        features = torch.from_numpy(np.concatenate([samples.features for samples in federation.datasets]))
        labels = torch.from_numpy(np.concatenate([samples.labels for samples in federation.datasets]))
        self._pool = features.to(device), labels.to(device)
        sizes = federation.sizes.tolist()
        self.datasets = list(zip(self._pool[0].split(sizes), self._pool[1].split(sizes), strict=True))
        self._offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self._widths = [min(batch_size, 1 << (min(batch_size, size) - 1).bit_length()) for size in sizes]

    def groups(self, clients: Sequence[int], plans: Sequence[list[NDArray[np.int64]]]) -> Iterator[list[int]]:
        """Yield places of the clients that train together: equal widths, most steps first."""
        widths: dict[int, list[int]] = {}
        for place, client in enumerate(clients):
            widths.setdefault(self._widths[client], []).append(place)
        for places in widths.values():
            places.sort(key=lambda place: -len(plans[place]))
            for start in range(0, len(places), self.largest):
                yield places[start : start + self.largest]

    def batches(self, clients: Sequence[int], plans: Sequence[list[NDArray[np.int64]]]) -> Iterator[Batch]:
        """Yield the batch of each step of a stack, of the clients that still have one; most steps come first."""
        width = self._widths[clients[0]]
        lengths = np.zeros((len(clients), len(plans[0])), dtype=np.int64)
        for place, plan in enumerate(plans):
            lengths[place, : len(plan)] = [len(batch) for batch in plan]
        filled = np.arange(width) < lengths[:, :, None]
        rows = np.zeros(filled.shape, dtype=np.int64)
        rows[filled] = np.concatenate([batch for plan in plans for batch in plan])
        rows += self._offsets[clients][:, None, None]
        shares = (filled / np.maximum(lengths, 1)[:, :, None]).astype(np.float32)
        rows_of_step = torch.from_numpy(rows.swapaxes(0, 1).copy()).to(self.device)
        shares_of_step = torch.from_numpy(shares.swapaxes(0, 1).copy()).to(self.device)
        active = np.count_nonzero(lengths, axis=0).tolist()
        start, most = 0, max(_CACHE // 4 // (filled[:, 0].size * self._pool[0][0].numel()), 1)
        while start < len(active):  # as many steps at once as fit the cache, of as many clients each
            m = active[start]
            end = min(start + most, len(active) - active[::-1].index(m))
            index = rows_of_step[start:end, :m].reshape(-1)
            parts = [part.index_select(0, index).unflatten(0, (end - start, m, width)) for part in self._pool]
            yield from zip(*(part.unbind() for part in (*parts, shares_of_step[start:end, :m])), strict=True)
            start = end
