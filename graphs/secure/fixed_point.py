"""Vectors as integers modulo 2⁶⁴: fixed-point numbers, whose scalar products are exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import ProtocolError

__all__ = ["Words", "decode", "dot", "encode", "unit"]

#: Integers modulo 2⁶⁴.
Words = NDArray[np.uint64]


def dot(left: Words, right: Words) -> Words:
    """Scalar product modulo 2⁶⁴, as an array of one so that wrapping is silent."""
    return np.multiply(left, right).sum(keepdims=True, dtype=np.uint64)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector at length 1, without overflow; zero stays zero."""
    largest = np.abs(vector).max()
    if largest == 0:
        return vector
    vector = vector / largest
    return vector / np.sqrt(vector @ vector)


def encode(name: str, vector: ArrayLike, fraction_bits: int, room: float = 0.0) -> Words:
    """Return a party's vector in fixed point, with ``room`` for noise in its products; see `Party`."""
    if not 0 <= fraction_bits <= 31:
        raise ProtocolError(f"fraction_bits is {fraction_bits}; accepted are 0 to 31.")
    values = np.asarray(vector, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ProtocolError(f"the vector of {name} has shape {values.shape}; accepted is a non-empty (d,).")
    if not np.isfinite(values).all():
        raise ProtocolError(f"the vector of {name} holds a value that is not finite.")
    scaled = np.rint(values * 2.0**fraction_bits)
    largest = np.sqrt(max(0.0, 2.0**63 - room))
    limit = largest / 2.0**fraction_bits
    # A millionth below the limit, because the norm itself is rounded.
    if not (np.linalg.norm(scaled) < largest * (1 - 1e-6)):
        raise ProtocolError(
            f"the vector of {name} has norm {np.linalg.norm(values):g}; with fraction_bits = {fraction_bits} "
            f"accepted are norms below {limit:g}. Scale the vectors down or use fewer bits."
        )
    return scaled.astype(np.int64).view(np.uint64)


def decode(integer: int, fraction_bits: int) -> float:
    """The real product that the product of two encoded vectors stands for."""
    return integer / (1 << (2 * fraction_bits))
