"""The work of a check, bounded before it is done: what would take more than minutes is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import CertificateError

Integers = NDArray[np.int64]

#: Steps of Python's numbers, and of arrays, some minutes of either.
_STEPS, _MANY = 1 << 31, 1 << 35

#: Numbers of the matrices of all forms together, or of the tangents above a node.
NUMBERS = 1 << 24


def afford(kind: str, problem: Any, arrays: Mapping[str, Integers]) -> None:
    """Raise `CertificateError` where the check of a kind could take more steps than are taken.

    A step is a product of two numbers, or less; a node costs some thousand. Small kinds are bounded by the one file.
    """
    n, steps, most = _clients(problem), 0, _STEPS
    if kind == "coverage":
        rows, n = problem.similarity.shape
        steps = n * (rows * (int(arrays["looks"].sum()) + 1) + 4 * arrays["origin"].size) + 4096 * arrays["origin"].size
        most = _MANY
    elif "form_ids" in arrays:
        steps, most = _of_search(n, arrays) + listed_steps(arrays["origin"].size, arrays, int(problem.size)), _MANY
        if kind == "balance" and n * n * (problem.label_counts.shape[1] + 64) > _STEPS:
            steps = n * n * problem.label_counts.shape[1] << 32
    if steps > most:
        raise CertificateError(f"to read the certificate takes {steps} steps; at most {most} are taken")


def _of_search(n: int, arrays: Mapping[str, Integers]) -> int:
    """Steps of a walk through a tree with its forms, and of the stages before it."""
    sizes, rows = (np.diff(arrays[f"form_{name}_start"]).tolist() for name in ("ids", "row"))
    if sum(k * k for k in sizes) > NUMBERS:
        raise CertificateError(f"the forms of the certificate have more than {NUMBERS} numbers")
    formed, nodes = arrays["form"][arrays["form"] >= 0], arrays["origin"].size
    steps = sum(k**3 // 6 + k**2 * (1 + 16 * row // 3) for k, row in zip(sizes, rows, strict=True))
    steps += sum(2 * sizes[k] ** 3 for k in np.unique(arrays["curved"]).tolist())
    steps += sum(count * sizes[k] ** 2 for k, count in enumerate(np.bincount(formed, minlength=len(sizes)).tolist()))
    steps += nodes * (n + 8192) + n * (n + arrays["price"].size)
    steps += 16 * n * (arrays["form_better"].size + arrays["form_dominated"].size)
    stages = arrays["stage_halvings"].size if "stage_halvings" in arrays else 0
    return int(steps + n * (16 * n * stages + (arrays["stage_factor"].size if stages else 0)))


def listed_steps(nodes: int, arrays: Mapping[str, Integers], size: int) -> int:
    """Steps that the selections which a certificate lists add: their values, and comparisons at every node."""
    many = arrays["pool"].size + arrays["vetoed"].size
    return int(many * (size + 64) + (nodes * many if arrays["diverse"].size else 0))


def _clients(problem: Any) -> int:
    """Clients of a problem, by its own count; groups of an allocation."""
    return int(problem.n)
