"""Gradients of many clients' models at once: in closed form for dense networks, by ``torch.func`` for any other.

Both take a *stack*: one row of parameters and one batch per client, and give every client's loss and gradient. No
client's numbers enter another's.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import pad

from fedselect.training.losses import Measure, cross_entropy_loss

__all__ = ["Dense", "Functional", "StackedGradients", "dense"]


class StackedGradients(Protocol):
    """Loss and gradient of every client in a stack."""

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Differentiate each client's Σ_j shares_j · loss_j.

        Parameters
        ----------
        weights : (m, d) tensor
            Parameters, one client a row, in the order of ``model.parameters()``.
        features : (m, b, ...) tensor
            One batch a client.
        labels : (m, b) tensor of int64
            Class of each sample.
        shares : (m, b) tensor
            Weight of each sample in its client's loss; 0 for the padding of short batches.

        Returns
        -------
        losses : (m,) tensor
        gradients : (m, d) tensor
        """
        ...


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

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Backpropagation written out with batched matrix products."""
        # Samples are columns: matrix times samples is a faster product than samples times a transposed matrix.
        layers = self._layers(weights)
        inputs = [features.flatten(2).transpose(1, 2)]
        for place, (matrix, bias) in enumerate(layers):
            outputs = torch.baddbmm(bias.unsqueeze(2), matrix, inputs[-1])
            inputs.append(outputs.relu_() if place < len(layers) - 1 else outputs)
        answers = inputs.pop()
        logs = torch.log_softmax(pad(answers, (0, 0, 1, 0)) if self.one_logit else answers, dim=1)
        true = labels.unsqueeze(1)
        losses = -(logs.gather(1, true).squeeze(1) * shares).sum(dim=1)
        # The derivative of the loss by the last layer's outputs: softmax minus the true class, times the share.
        error = logs.exp_()
        error.scatter_add_(1, true, torch.full_like(shares, -1.0).unsqueeze(1))
        error *= shares.unsqueeze(1)
        if self.one_logit:
            error = error[:, 1:]
        gradients = torch.empty_like(weights)
        for place, (matrix, bias) in reversed(list(enumerate(self._layers(gradients)))):
            torch.bmm(error, inputs[place].transpose(1, 2), out=matrix)
            torch.sum(error, dim=2, out=bias)
            if place:
                error = torch.bmm(layers[place][0].transpose(1, 2), error) * (inputs[place] > 0)
        return losses, gradients

    def _layers(self, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Each layer's matrices (m, outputs, inputs) and biases (m, outputs), as views of ``weights``."""
        found, start = [], 0
        for inputs, outputs in zip(self.widths, self.widths[1:], strict=False):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            found.append((weights[:, start:middle].unflatten(1, (outputs, inputs)), weights[:, middle:end]))
            start = end
        return found


def dense(model: nn.Module) -> Dense | None:
    """Return the closed form of ``model``, or None when it is no ``Sequential`` of flatten, linear and ReLU layers.

    A padding of one zero before a single output, as model ``"logistic"`` has it, may end it.
    """
    if not isinstance(model, nn.Sequential):
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
        self._shapes = {name: parameter.shape for name, parameter in model.named_parameters()}

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
