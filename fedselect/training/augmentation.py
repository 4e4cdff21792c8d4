"""Change of images in training: shifts and mirrors of a batch."""

from __future__ import annotations

import numpy as np
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["crop_and_flip"]

#: Pixels added on every side before the crop.
_PAD = 4


def crop_and_flip(images: Tensor, rng: np.random.Generator, *, flip: bool = True) -> Tensor:
    """Shift a batch by up to four pixels each way, and mirror it half of the time.

    What comes in from outside is 0, the mean colour of normalised images. All images of a batch are changed alike, as
    in FedAU's code, where torchvision transforms the batch as one tensor.

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
    padded = pad(images, (_PAD, _PAD, _PAD, _PAD))
    found = padded[..., down : down + height, right : right + width]
    return found.flip(-1) if flip and mirrored else found
