"""Random crops, flips and colours of a batch of images, as functions of a client's own randomness.

All images of a batch are changed alike, as in FedAU's code, where torchvision transforms the batch as one tensor.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedselect.data.image_files import CIFAR_MEAN, CIFAR_STD
from fedselect.errors import ConfigError, MissingExtraError

__all__ = ["augmented", "check_images", "crop_and_flip", "recolour"]

#: Pixels added on every side before the crop.
_PAD = 4


def augmented(images: Tensor, name: str, rng: np.random.Generator) -> Tensor:
    """Change a batch as the setting ``augmentation`` of this name says.

    Parameters
    ----------
    images : (b, channels, height, width) tensor
        The batch, normalised; left as it is.
    name : {"none", "crop", "crop-flip", "fedau-cifar100"}
        What happens.
    rng : numpy.random.Generator
        The client's own.
    """
    if name == "none":
        return images
    if name == "fedau-cifar100":
        images = recolour(images, rng)
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


def recolour(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Change a batch's colours as FedAU's code does with CIFAR-100, by torchvision's operations on bytes.

    In this order: sharpness doubled (half of the time), brightness times U(0.95, 1.05) and hue shifted by
    U(-0.05, 0.05) of the circle (in random order), two bits a channel (half of the time), histogram equalised (half of
    the time).

    Parameters
    ----------
    images : (b, 3, height, width) tensor
        The batch, normalised with CIFAR's mean and deviation; so is what is returned.
    rng : numpy.random.Generator
        Draws three coins (sharpness, bits, histogram), brightness, hue and a coin (hue first), always all of them.

    Raises
    ------
    MissingExtraError
        When torchvision is not installed.
    """
    try:
        from torchvision.transforms.v2 import functional as tv
    except ImportError as error:
        raise MissingExtraError("augmenting colours needs torchvision: pip install 'fedselect[fl]'") from error
    sharper, fewer_bits, equalised = (rng.random(3) < 0.5).tolist()
    brightness, hue = rng.uniform(0.95, 1.05), rng.uniform(-0.05, 0.05)
    hue_first = bool(rng.integers(2))

    mean, std = (images.new_tensor(each)[:, None, None] for each in (CIFAR_MEAN, CIFAR_STD))
    pixels = ((images * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    if sharper:
        pixels = tv.adjust_sharpness(pixels, 2.0)
    if hue_first:
        pixels = tv.adjust_hue(pixels, hue)
    pixels = tv.adjust_brightness(pixels, brightness)
    if not hue_first:
        pixels = tv.adjust_hue(pixels, hue)
    if fewer_bits:
        pixels = tv.posterize(pixels, 2)
    if equalised:
        pixels = tv.equalize(pixels)
    return (pixels.to(images.dtype) / 255 - mean) / std


def check_images(shape: tuple[int, ...], name: str) -> None:
    """Raise `ConfigError` unless samples of this shape are images that the augmentation of this name can change."""
    if len(shape) != 3:
        raise ConfigError(f"training: augmentation needs images (channels, height, width); got features of {shape}")
    if name == "fedau-cifar100" and shape[0] != 3:
        raise ConfigError(f"training: augmentation 'fedau-cifar100' needs three channels; got features of {shape}")
