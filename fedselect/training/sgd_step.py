"""Step of a client's SGD: its batch, the augmentation of its images, and the move of the weights.

Which samples a batch has is a function of (seed, round, client) alone. All images of a batch are changed alike, as in
FedAU's code, where torchvision transforms the batch as one tensor.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedselect.errors import ConfigError
from fedselect.training.settings import TrainingSettings

__all__ = [
    "augmented",
    "batches",
    "check_images",
    "clipping",
    "crop_and_flip",
    "descend",
]


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


#: Pixels added on every side before the crop.
_PAD = 4


def augmented(images: Tensor, name: str, rng: np.random.Generator) -> Tensor:
    """Change a batch as the setting ``augmentation`` of this name says.

    Parameters
    ----------
    images : (b, channels, height, width) tensor
        The batch, normalised; left as it is.
    name : {"none", "crop", "crop-flip"}
        What happens.
    rng : numpy.random.Generator
        The client's own.
    """
    if name == "none":
        return images
    return crop_and_flip(images, rng, flip=name != "crop")


def crop_and_flip(images: Tensor, rng: np.random.Generator, *, flip: bool = True) -> Tensor:
    """Shift a batch by up to four pixels each way, and mirror it half of the time.

    What comes in from outside is 0, the mean colour of normalised images.

    Parameters
    ----------
    images : (b, channels, height, width) tensor
        The batch.
    rng : numpy.random.Generator
        Draws two offsets and a coin, whether ``flip`` or not.
    flip : bool
        Whether to mirror at all (SVHN's digits are not).
    """
    down, right = rng.integers(0, 2 * _PAD + 1, size=2).tolist()
    mirrored = bool(rng.integers(2))
    height, width = images.shape[-2:]
    padded = torch.nn.functional.pad(images, (_PAD, _PAD, _PAD, _PAD))
    found = padded[..., down : down + height, right : right + width]
    return found.flip(-1) if flip and mirrored else found


def check_images(shape: tuple[int, ...]) -> None:
    """Raise `ConfigError` unless samples of this shape are images."""
    if len(shape) != 3:
        raise ConfigError(f"training: augmentation needs images (channels, height, width); got features of {shape}")


def clipping(norms: Tensor, most: float) -> Tensor:
    """Return the factors that scale gradients of these norms down to at most ``most``; 1 for shorter ones."""
    return torch.clamp(most / norms.clamp(min=torch.finfo(norms.dtype).tiny), max=1.0)


def descend(
    weights: Tensor, gradient: Tensor, buffer: Tensor | None, start: Tensor, rate: float, settings: TrainingSettings
) -> None:
    """Take one step, in place, with the settings' weight decay, proximal term and momentum.

    Parameters
    ----------
    weights : tensor
        What is changed: a stack of clients' weights (m, d), or one parameter of one client.
    gradient : tensor
        Of the loss, in the shape of ``weights``.
    buffer : tensor or None
        Of momentum, in the same shape, changed too; None without momentum.
    start : tensor
        The received model, which the proximal term pulls to; (d,) for a stack, else in the shape of ``weights``.
    rate : float
        Step size.
    settings : TrainingSettings
        How.
    """
    if settings.weight_decay:
        gradient = gradient.add(weights, alpha=settings.weight_decay)
    if settings.proximal:
        gradient = gradient.add(weights - start, alpha=settings.proximal)
    if buffer is not None:
        gradient = buffer.mul_(settings.momentum).add_(gradient)
    weights.sub_(gradient, alpha=rate)
