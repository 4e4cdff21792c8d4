"""Who takes part in the protocol: the commodity server, the parties and the aggregator, each with its own secrets."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike

from graphs.errors import ProtocolError
from graphs.secure.fixed_point import Words, dot, encode
from graphs.secure.messages import AGGREGATOR, COMMODITY_SERVER, Message

__all__ = ["Aggregator", "CommodityServer", "Party"]


class Randomness:
    """Uniform integers modulo 2⁶⁴: from the operating system, or from a generator for repeatable tests."""

    def __init__(self, rng: np.random.Generator | None) -> None:
        self._rng = rng

    def draw(self, count: int) -> Words:
        """Draw so many."""
        if self._rng is None:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        return self._rng.integers(0, 1 << 64, size=count, dtype=np.uint64)

    def normal(self) -> float:
        """Draw a standard normal number; at most 8.6 in size (Box and Muller's, of two uniform numbers)."""
        uniform = (self.draw(2) >> np.uint64(11)) * 2.0**-53
        return float(np.sqrt(-2.0 * np.log1p(-uniform[0])) * np.cos(2.0 * np.pi * uniform[1]))


class CommodityServer:
    """Hands out correlated masks before anyone speaks; never sees a vector, a masked vector or a share.

    Parameters
    ----------
    rng
        Source of the masks; ``None`` (default) is the operating system's cryptographic one. A NumPy
        generator makes a run repeatable, and predictable to whoever knows the seed: for tests only.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self._random = Randomness(rng)

    def issue(self, first: str, second: str, length: int) -> tuple[Message, Message]:
        """Return masks R_a, R_b and numbers r_a + r_b = R_a·R_b for one run between two parties."""
        drawn = self._random.draw(2 * length + 1)
        masks_a, masks_b, number_a = drawn[:length], drawn[length : 2 * length], drawn[2 * length :]
        number_b = dot(masks_a, masks_b) - number_a
        pair = (first, second)
        return (
            Message(COMMODITY_SERVER, first, "commodity", pair, np.concatenate([masks_a, number_a])),
            Message(COMMODITY_SERVER, second, "commodity", pair, np.concatenate([masks_b, number_b])),
        )


class Party:
    """A client with a private vector.

    Parameters
    ----------
    name
        Its name, distinct among all participants.
    vector
        Its private vector, shape (d,).
    fraction_bits
        Bits after the binary point, the same for all parties. Entries are rounded to the nearest multiple
        of 2^−fraction_bits.
    rng
        As for `CommodityServer`.
    noise
        Standard deviation of what both parties of a product together add to it; each adds a normal number of
        variance noise²/2 to its share. The same for all parties; 0 (default) is the exact product.

    Raises
    ------
    ProtocolError
        If the encoded vector's norm reaches 2^31.5 (less, with noise). Each party checks its own, and by
        Cauchy–Schwarz the product of any two, with its noise, then fits a signed 64-bit integer.
    """

    def __init__(
        self,
        name: str,
        vector: ArrayLike,
        fraction_bits: int,
        rng: np.random.Generator | None = None,
        *,
        noise: float = 0.0,
    ) -> None:
        if name in (COMMODITY_SERVER, AGGREGATOR):
            raise ProtocolError(f"the name of a party must not be that of a server; got {name!r}.")
        if not (noise >= 0 and np.isfinite(noise)):
            raise ProtocolError(f"noise must be a standard deviation, finite and not negative; got {noise}.")
        self.name = name
        self._deviation = noise / np.sqrt(2.0) * 4.0 ** min(fraction_bits, 31) if noise else 0.0
        self._encoded = encode(name, vector, fraction_bits, room=2 * 8.6 * self._deviation)
        self._random = Randomness(rng)
        self._commodities: dict[tuple[str, str], Words] = {}
        self._masked: dict[tuple[str, str], Words] = {}
        self._shares: dict[tuple[str, str], Words] = {}

    def receive(self, message: Message) -> None:
        """Take a message in.

        Who sends it is checked, so that a peer cannot issue masks and read the vector under them; that the name of
        the sender is true is the transport's business.

        Raises
        ------
        ProtocolError
            If the message is for somebody else, of the wrong sender, kind or length, or comes twice or too early.
        """
        pair, length = message.pair, len(self._encoded)
        if message.receiver != self.name or self.name not in pair or len(set(pair)) != 2:
            raise ProtocolError(f"{self.name} got a {message.kind} message for {message.receiver} about {pair}.")
        peer = pair[1] if pair[0] == self.name else pair[0]
        # A blinded number goes from the second party of a pair to the first alone.
        senders = {"commodity": COMMODITY_SERVER, "masked": peer, "blinded": peer if pair[0] == self.name else None}
        if message.kind not in senders or senders[message.kind] != message.sender:
            raise ProtocolError(
                f"{self.name} got a {message.kind} message about {pair} from {message.sender}; it takes masks from the "
                f"{COMMODITY_SERVER}, a masked vector from the other party, and a blinded number from the second."
            )
        expected = {"commodity": length + 1, "masked": length, "blinded": 1}[message.kind]
        if message.payload.size != expected:
            raise ProtocolError(
                f"{self.name} got a {message.kind} message of {message.payload.size} numbers from "
                f"{message.sender} and expects {expected}; all vectors must have the same length."
            )
        if message.kind == "commodity":
            if pair in self._commodities or pair in self._shares:
                raise ProtocolError(f"{self.name} got masks for {pair} twice; each run needs fresh ones.")
            self._commodities[pair] = message.payload
        elif message.kind == "masked":
            if pair not in self._commodities or pair in self._masked:
                raise ProtocolError(
                    f"{self.name} got a masked vector for {pair} twice or before its masks; the steps were run out "
                    "of order."
                )
            self._masked[pair] = message.payload
        else:
            # Step 4: v1 = w − R_a·b' + r_a. The masks have done their work and are forgotten.
            commodity = self._take(self._commodities, pair, "masks")
            masked = self._take(self._masked, pair, "the other's masked vector")
            self._shares[pair] = message.payload - dot(commodity[:-1], masked) + commodity[-1:]

    def mask(self, pair: tuple[str, str]) -> Message:
        """Step 2: send the own vector plus its mask to the other party of the pair."""
        if pair not in self._commodities:
            raise ProtocolError(f"{self.name} has no masks for {pair}; the commodity server issues them first.")
        other = pair[1] if pair[0] == self.name else pair[0]
        return Message(self.name, other, "masked", pair, self._encoded + self._commodities[pair][:-1])

    def blind(self, pair: tuple[str, str]) -> Message:
        """Step 3, second party: draw its share v2 and send w = a'·b + r_b − v2 to the first."""
        if pair[1] != self.name:
            raise ProtocolError(f"{self.name} is not the second party of {pair}.")
        masked = self._take(self._masked, pair, "the other's masked vector")
        commodity = self._take(self._commodities, pair, "masks")
        share = self._random.draw(1)
        self._shares[pair] = share
        return Message(self.name, pair[0], "blinded", pair, dot(masked, self._encoded) + commodity[-1:] - share)

    def share(self, pair: tuple[str, str]) -> Message:
        """Step 5: send the own share, uniform by itself, with its noise to the aggregator, and forget it."""
        share = self._take(self._shares, pair, "a share")
        if self._deviation:
            share = share + np.rint([self._deviation * self._random.normal()]).astype(np.int64).view(np.uint64)
        return Message(self.name, AGGREGATOR, "share", pair, share)

    def _take(self, kept: dict[tuple[str, str], Words], pair: tuple[str, str], what: str) -> Words:
        if pair not in kept:
            raise ProtocolError(f"{self.name} has no {what} for {pair}; the steps were run out of order.")
        return kept.pop(pair)


class Aggregator:
    """The federated server: adds the two shares of each pair, and learns the product and nothing else."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], tuple[str, Words]] = {}
        self.products: dict[tuple[str, str], int] = {}

    def receive(self, message: Message) -> None:
        """Take a share in.

        Raises
        ------
        ProtocolError
            If it is no share of a pair the sender belongs to, is not one number, or comes twice.
        """
        is_share = message.kind == "share" and message.receiver == AGGREGATOR and message.payload.size == 1
        if not is_share or message.sender not in message.pair:
            raise ProtocolError(
                f"the aggregator takes shares of a pair from its parties; got a {message.kind} message about "
                f"{message.pair} from {message.sender} for {message.receiver}."
            )
        if message.pair not in self._waiting:
            self._waiting[message.pair] = (message.sender, message.payload)
            return
        sender, payload = self._waiting[message.pair]
        if sender == message.sender:
            raise ProtocolError(f"{message.sender} sent its share of {message.pair} twice.")
        del self._waiting[message.pair]
        self.products[message.pair] = int((payload + message.payload).view(np.int64)[0])
