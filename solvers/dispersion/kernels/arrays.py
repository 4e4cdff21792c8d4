"""Operations on arrays that several kernels share."""

from __future__ import annotations

from solvers.dispersion.kernels.compiler import part

#: No function of this module makes an array.
ALLOCATES = False

__all__ = ["copy", "select"]


def _copy(source, target):
    target[:] = source[: target.size]


@part(numpy=_copy)
def copy(source, target):
    """Like ``target[:] = source[: target.size]``, which numba takes half a second to compile."""
    for i in range(target.size):
        target[i] = source[i]


@part
def select(values, length, rank):
    """Reorder ``values[:length]`` so that the ``rank`` largest come first; return the smallest of those."""
    left, right, target = 0, length - 1, rank - 1
    while left < right:
        middle = (left + right) // 2
        # Median of three, left in the middle.
        if values[middle] > values[left]:
            values[middle], values[left] = values[left], values[middle]
        if values[right] > values[left]:
            values[right], values[left] = values[left], values[right]
        if values[right] > values[middle]:
            values[right], values[middle] = values[middle], values[right]
        pivot = values[middle]
        i, j = left, right
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            right = j
        elif target >= i:
            left = i
        else:
            break
    return values[target]
