"""Who is told of every round: callbacks of a loop or a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from fedselect.errors import ConfigError

__all__ = ["Callback", "listeners"]

#: A round, as ``rounds.jsonl`` has it.
Record = dict[str, Any]


class Callback(Protocol):
    """Told of every round; where it has ``close()``, that is called when the training ends, however it ends."""

    def on_round(self, record: Record) -> Any:
        """Take note of a round."""
        ...


@contextmanager
def listeners(
    callbacks: Iterable[Callback | Callable[[Record], Any]],
) -> Iterator[Callable[[Record], bool]]:
    """Tell callbacks of rounds inside the block, and close them behind it.

    Yields
    ------
    callable
        ``tell(record)``: False where a callback asks to stop, by raising `StopIteration`.

    Raises
    ------
    ConfigError
        When a callback is neither a function nor has ``on_round``.
    """
    told: list[Callable[[Record], Any]] = []
    with ExitStack() as stack:
        for callback in callbacks:
            hear = getattr(callback, "on_round", callback)
            if not callable(hear) or isinstance(callback, type):
                raise ConfigError(f"a callback is a function of a record, or has on_round(record); got {callback!r}")
            told.append(hear)
            if callable(close := getattr(callback, "close", None)):
                stack.callback(close)

        def tell(record: Record) -> bool:
            going = True
            for hear in told:
                try:
                    hear(record)
                except StopIteration:
                    going = False
            return going

        yield tell
