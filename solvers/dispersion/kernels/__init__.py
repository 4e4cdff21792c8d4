"""Kernels: the inner loops, each written once, run by Python or compiled by numba.

`solvers.dispersion.kernels.loader` says when they are compiled, `solvers.dispersion.kernels.compiler` how.
"""

from __future__ import annotations

from solvers.dispersion.kernels.loader import (
    Clock,
    cache_folder,
    is_loaded,
    load,
    preload,
    register,
    registered,
    seconds_loading,
    warm_up,
)

__all__ = [
    "Clock", "cache_folder", "is_loaded", "load", "preload", "register", "registered", "seconds_loading", "warm_up",
]  # fmt: skip
