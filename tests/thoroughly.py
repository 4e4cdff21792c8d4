"""Random cases of which every run tries a few, and the thorough part (``-m thorough``) all the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings


def few_of(cases: Iterable[object], few: int) -> list[object]:
    """Parameters for ``pytest.mark.parametrize``: the first ``few`` as they are, the others marked ``thorough``."""
    whole = list(cases)
    later = [case if isinstance(case, tuple) else (case,) for case in whole[few:]]
    return [*whole[:few], *(pytest.param(*case, marks=pytest.mark.thorough) for case in later)]


def tried(
    few: int, many: int, *strategies: Any, **named: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Try a random test on a few examples in every run and on many in the thorough part, in place of ``given``."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", few_of([few, many], 1))
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(*strategies, **named)(check))()

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
