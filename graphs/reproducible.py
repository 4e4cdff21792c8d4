"""Products and exponentials that have the same bits on every processor.

BLAS sums in an order, and fuses multiplications with additions, as suits the processor it finds; NumPy's exponential
is another program with AVX-512 than without. The last bit of a distance then decides a tie in which clients to select,
and two machines part ways. What is here rounds each step as IEEE 754 says, in an order that nothing changes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# Columns multiplied at a time. Model updates have a million columns and arrive in float32; a float64 copy of all of
# them would be the largest object in the process.
_BLOCK = 1 << 11

# Bits in a slice of a row: 2^11 products of two integers up to 2^21 sum to at most 2^53, which float64 holds exactly.
_BITS = 21

# ln 2 in two parts. The first has 32 bits, so that its product with an exponent is exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10

# 1/k! for k = 13 … 2: Taylor's remainder on |r| ≤ ln 2 / 2 is below 5·10⁻¹⁸.
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))


def gram(vectors: NDArray[np.floating], scales: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Inner products of all pairs of rows, to the same bits on every processor.

    Each row is cut into slices of 21 bits below its largest entry. The product of two slices is a sum of integers that
    float64 holds exactly, so BLAS gives the same in whichever order it sums; only how the slices' products are put
    together rounds, and that is fixed here.

    Parameters
    ----------
    vectors
        Shape (N, d), of any float type.
    scales
        What each row is divided by first, shape (N,), or ``None``.

    Returns
    -------
    ndarray of shape (N, N)
        Exactly symmetric. Beside the rounding of a few additions per 2 048 columns an entry is off by at most
        d · 2⁻⁶¹ times the largest entries of its two rows.

    Notes
    -----
    Source: Ozaki, Ogita, Oishi, Rump, Error-free transformations of matrix multiplication, Numerical Algorithms 59
    (2012), with three slices and the products of the first and the second order kept.
    """
    size, length = vectors.shape
    total = np.zeros((size, size))
    slices = np.empty((4, size, min(length, _BLOCK)))
    for start in range(0, length, _BLOCK):
        columns = vectors[:, start : start + _BLOCK]
        total += _sliced(columns, scales, slices[:, :, : columns.shape[1]])
    return total


def _sliced(
    columns: NDArray[np.floating], scales: NDArray[np.float64] | None, slices: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute `gram` of at most `_BLOCK` columns; writes their slices into the first three arrays of ``slices``."""
    first, second, third, rest = slices
    np.divide(columns, 1.0 if scales is None else scales[:, None], out=rest)
    largest = np.maximum(rest.max(axis=1), -rest.min(axis=1))
    exponents = np.maximum(np.frexp(largest)[1], -900)  # so that 2 to minus an exponent is finite
    rest *= np.ldexp(1.0, -exponents)[:, None]
    for cut in (first, second, third):
        rest *= 1 << _BITS
        np.rint(rest, out=cut)
        rest -= cut
    result = second @ second.T
    for product in (first @ third.T, first @ second.T):
        product += product.T.copy()
        result += product
        result *= 0.5**_BITS
    result += first @ first.T
    exponents -= _BITS
    return np.ldexp(result, exponents[:, None] + exponents, out=result)


def exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return eˣ entry by entry, to the same bits on every processor and within one unit in the last place.

    Parameters
    ----------
    x
        Any shape, no NaN. From 710 on the result is infinite, below −746 it is 0.

    Returns
    -------
    ndarray
        As `x`.
    """
    x = np.clip(x, -746.0, 710.0)
    k = np.rint(x * math.log2(math.e))
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    series = np.zeros_like(r)
    for factor in _TAYLOR:
        series = series * r + factor
    with np.errstate(under="ignore", over="ignore"):
        return np.ldexp((r * r * series + r) + 1.0, k.astype(np.int64))
