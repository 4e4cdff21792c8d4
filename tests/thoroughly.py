"""Random cases of which every run tries a few, and the thorough part (``-m thorough``) all the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def few_of(cases: Iterable[object], few: int) -> list[object]:
    """Parameters for ``pytest.mark.parametrize``: the first ``few`` as they are, the others marked ``thorough``."""
    whole = list(cases)
    later = [case if isinstance(case, tuple) else (case,) for case in whole[few:]]
    return [*whole[:few], *(pytest.param(*case, marks=pytest.mark.thorough) for case in later)]
