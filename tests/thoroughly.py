"""Random cases of which every run tries a few, and the thorough part (``-m thorough``) all the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def few_of(cases: Iterable[object], few: int) -> list[object]:
    """Parameters for ``pytest.mark.parametrize``: the first ``few`` as they are, the others marked ``thorough``."""
    marked = (
        case if place < few else pytest.param(case, marks=pytest.mark.thorough) for place, case in enumerate(cases)
    )
    return list(marked)
