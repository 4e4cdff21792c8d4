"""What went wrong with whom, and when: the part of a round's record that only a real federation has."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from flwr.app import Error

__all__ = ["Fault", "reason_of"]

#: Characters of a reason that are kept.
_LONGEST = 500
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Fault:
    """Something that went wrong with one client or node; the round went on.

    Attributes
    ----------
    reason : str
        What.
    client, node : int or None
        Whose it was, as far as that is known; the node is Flower's id of the connection.
    code : int or None
        Flower's code, where an error message came.
    at : str
        When the server noticed: date and time, UTC. Two faults that differ in it alone are equal.
    """

    reason: str
    client: int | None = None
    node: int | None = None
    code: int | None = None
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"), compare=False)

    def table(self) -> dict[str, Any]:
        """As the record of the round has it; a client may say as much as it likes, but not there."""
        return dataclasses.asdict(self) | {"reason": self.reason[:_LONGEST]}


def reason_of(error: Error) -> str:
    """The last line of an error's reason: Flower sends a whole traceback, in colours where Ray made it."""
    lines = [line.strip() for line in _COLOURS.sub("", error.reason or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
