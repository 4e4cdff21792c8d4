"""What the participants of the protocol send each other, and the record of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from graphs.secure.fixed_point import Words

__all__ = ["AGGREGATOR", "COMMODITY_SERVER", "Message", "Transcript"]

COMMODITY_SERVER = "commodity server"
AGGREGATOR = "aggregator"


@dataclass(frozen=True)
class Message:
    """What one participant sends another.

    Attributes
    ----------
    sender, receiver
        Names of the participants.
    kind
        ``"commodity"`` (masks for one run), ``"masked"`` (a vector plus its mask), ``"blinded"`` (the number
        that lets the first party compute its share) or ``"share"`` (one half of the product).
    pair
        The (first, second) party of the run it belongs to.
    payload
        Integers modulo 2⁶⁴, read-only.
    """

    sender: str
    receiver: str
    kind: Literal["commodity", "masked", "blinded", "share"]
    pair: tuple[str, str]
    payload: Words

    def __post_init__(self) -> None:
        # A copy, so that no two participants share memory, as on a network.
        payload = np.array(self.payload, dtype=np.uint64)
        payload.flags.writeable = False
        object.__setattr__(self, "payload", payload)


@dataclass
class Transcript:
    """Every message sent, in order.

    Attributes
    ----------
    keep
        Whether messages are kept, or only counted.
    messages
        The messages themselves.
    sent
        How many 64-bit numbers were sent, by kind of message; always counted.
    """

    keep: bool = True
    messages: list[Message] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)

    def record(self, message: Message) -> Message:
        """Note a message and pass it on."""
        self.sent[message.kind] = self.sent.get(message.kind, 0) + message.payload.size
        if self.keep:
            self.messages.append(message)
        return message

    def received_by(self, name: str) -> list[Message]:
        """Return what a participant was sent, which with its own secrets is all it knows."""
        return [message for message in self.messages if message.receiver == name]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)
