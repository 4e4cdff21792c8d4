"""Arguments of selectors, checked: each function returns what it was given, or raises a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from fedselect.errors import ConfigError

__all__ = ["check_choice", "check_number", "check_size"]


def check_size(size: int, what: str = "the number of clients to select") -> int:
    """Return ``size`` if it is a positive integer; raise `ConfigError` that says ``what`` it is otherwise."""
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ConfigError(f"{what} must be a positive integer; got {size!r}")
    return int(size)


def check_number(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> float:
    """Return ``value`` if it is a number in [low, high] (or (low, high]); raise `ConfigError` otherwise."""
    accepted = f"{'(' if open_low else '['}{low:g}, {high:g}]"
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be a number in {accepted}; got {value!r}") from error
    if not low <= number <= high or (open_low and number == low):
        raise ConfigError(f"{name} must lie in {accepted}; got {value}")
    return number


def check_choice(name: str, value: str, accepted: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``accepted``; raise `ConfigError` otherwise."""
    if value not in accepted:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, accepted))}; got {value!r}")
    return value
