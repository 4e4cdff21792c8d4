"""``fedselect warm-up``: compile once what is compiled."""

from __future__ import annotations

import time

from fedselect.cli.common import say
from fedselect.progress import progress_bar

__all__ = ["warm_up"]


def warm_up() -> None:
    """Compile every kernel once for this machine, so that nothing run after it has to."""
    from solvers.dispersion import kernels

    began = time.perf_counter()
    total = len(kernels.registered())
    done = 0
    with progress_bar("compiling", total) as update:

        def advance(name: str, precision: str, seconds: float) -> None:
            nonlocal done
            done += 1
            update(done, total)

        kernels.warm_up(advance)
    seconds = time.perf_counter() - began
    say(f"{total} kernels are ready, after {seconds:.1f} s; kept in {kernels.cache_folder() or 'no cache'}")
