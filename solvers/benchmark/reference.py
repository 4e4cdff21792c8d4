"""The reference job: a fixed piece of work, to compare machines by and to see how busy one is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

import numpy as np

__all__ = ["Reference"]


@dataclass(frozen=True)
class Reference:
    """Seconds of the reference job by the processor (the least of three) and by the wall (of the same one)."""

    processor: float
    wall: float

    @classmethod
    def measured(cls) -> Self:
        """Do the job three times."""
        from threadpoolctl import threadpool_limits

        matrix = np.cos(np.arange(300)[:, None] * np.arange(300) * 0.37)
        best = cls(np.inf, np.inf)
        for _ in range(3):
            processor, wall = time.process_time(), time.perf_counter()
            with threadpool_limits(1):
                for _ in range(5):
                    np.linalg.eigvalsh(matrix + matrix.T)
            total = 0
            for k in range(1_000_000):
                total += k & 7
            found = cls(time.process_time() - processor, time.perf_counter() - wall)
            best = found if found.processor < best.processor else best
        return best
