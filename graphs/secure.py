"""Secure two-party scalar products with a commodity server: parties and messages as objects."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import ProtocolError, choice, number, real_array
from graphs.similarities import feature_matrix

# -- fixed-point numbers ---------------------------------------------------------------------------------------


#: Integers modulo 2⁶⁴.
Words = NDArray[np.uint64]


def dot(left: Words, right: Words) -> Words:
    """Return the scalar product modulo 2⁶⁴, as an array of one so that wrapping is silent."""
    return np.multiply(left, right).sum(keepdims=True, dtype=np.uint64)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale the vector to length 1, without overflow; zero stays zero."""
    largest = np.abs(vector).max()
    if largest == 0:
        return vector
    vector = vector / largest
    return vector / np.sqrt(vector @ vector)


def encode(name: str, vector: ArrayLike, fraction_bits: int, room: float = 0.0) -> Words:
    """Return a party's vector in fixed point, with ``room`` for noise in its products; see `Party`."""
    try:
        values = real_array(vector)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ProtocolError(f"the vector of {name} cannot be read as real numbers: {reason}.") from None
    if values.ndim != 1 or values.size == 0:
        raise ProtocolError(f"the vector of {name} must be a non-empty (d,); got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise ProtocolError(f"the vector of {name} holds a value that is not finite.")
    scaled = np.rint(values * 2.0**fraction_bits)
    largest = np.sqrt(max(0.0, 2.0**63 - room))
    limit = largest / 2.0**fraction_bits
    # A millionth below the limit, because the norm itself is rounded.
    if not (np.linalg.norm(scaled) < largest * (1 - 1e-6)):
        raise ProtocolError(
            f"the norm of the vector of {name} must lie below {limit:g} with fraction_bits = {fraction_bits}; got "
            f"{np.linalg.norm(values):g}. Scale the vectors down or use fewer bits."
        )
    return scaled.astype(np.int64).view(np.uint64)


def check_bits(fraction_bits: int) -> None:
    """Raise `ProtocolError` unless this is a number of bits after the binary point."""
    if isinstance(fraction_bits, bool) or not isinstance(fraction_bits, Integral):
        raise ProtocolError(f"fraction_bits must be a whole number; got {fraction_bits!r:.80}.")
    if not 0 <= fraction_bits <= 31:
        raise ProtocolError(f"fraction_bits must lie in 0 to 31; got {fraction_bits}.")


# -- messages --------------------------------------------------------------------------------------------------


COMMODITY_SERVER = "commodity server"
AGGREGATOR = "aggregator"


@dataclass(frozen=True)
class Message:
    """Message from one participant to another.

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


def digest(message: Message) -> bytes:
    """Return 16 bytes that tell a message from every other one; all that is kept of masks after their run."""
    told = repr((message.sender, message.kind, message.pair)).encode()
    return hashlib.blake2b(told + message.payload.tobytes(), digest_size=16).digest()


@dataclass
class Transcript:
    """Messages in the order in which they were sent.

    Attributes
    ----------
    keep
        Whether messages are kept, or only counted.
    messages
        The messages themselves, where they are kept.
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
        """Return the messages to a participant that were kept."""
        return [message for message in self.messages if message.receiver == name]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


# -- participants ----------------------------------------------------------------------------------------------


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
    """Issue correlated masks to two parties before they send anything to each other; receive nothing.

    Parameters
    ----------
    rng
        Source of the masks; ``None`` (default) is the operating system's cryptographic one. A NumPy
        generator makes a run repeatable, and predictable from the seed: for tests only.
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
    """Client with a private vector.

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
        If the name is that of a server, the vector is no finite (d,), or an option is out of range; if the encoded
        vector's norm reaches 2^31.5 (less, with noise). Each party checks its own, and by Cauchy–Schwarz the product
        of any two, with its noise, then fits a signed 64-bit integer.
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
        noise = number("noise", noise, ProtocolError)
        if not (noise >= 0 and np.isfinite(noise)):
            raise ProtocolError(f"noise must be a standard deviation, finite and not negative; got {noise}.")
        check_bits(fraction_bits)
        self.name = name
        self._deviation = noise / np.sqrt(2.0) * 4.0**fraction_bits
        self._encoded = encode(name, vector, fraction_bits, room=2 * 8.6 * self._deviation)
        self._random = Randomness(rng)
        self._used: set[bytes] = set()  # digests of all masks that came, those of finished runs among them
        self._commodities: dict[tuple[str, str], Words] = {}
        self._masked: dict[tuple[str, str], Words] = {}
        self._shares: dict[tuple[str, str], Words] = {}

    def receive(self, message: Message) -> None:
        """Take a message in.

        Who sends it is checked, so that the other party cannot issue masks and read the vector under them; that
        the name of the sender is true is the transport's business.

        Raises
        ------
        ProtocolError
            If the message is for another participant, of the wrong sender, kind or length, or comes twice or too early.
        """
        pair, length = message.pair, len(self._encoded)
        if message.receiver != self.name or self.name not in pair or len(set(pair)) != 2:
            raise ProtocolError(f"{self.name} got a {message.kind} message for {message.receiver} about {pair}.")
        other = self._other(pair)
        # A blinded number goes from the second party of a pair to the first alone.
        senders = {"commodity": COMMODITY_SERVER, "masked": other, "blinded": other if pair[0] == self.name else None}
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
            known = digest(message)
            if pair in self._commodities or pair in self._shares or known in self._used:
                raise ProtocolError(f"{self.name} got masks for {pair} twice; each run needs fresh ones.")
            self._used.add(known)
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
            commodity, masked = self._take_both(pair)
            self._shares[pair] = message.payload - dot(commodity[:-1], masked) + commodity[-1:]

    def mask(self, pair: tuple[str, str]) -> Message:
        """Step 2: send the own vector plus its mask to the other party of the pair."""
        if pair not in self._commodities:
            raise ProtocolError(f"{self.name} has no masks for {pair}; the commodity server issues them first.")
        return Message(self.name, self._other(pair), "masked", pair, self._encoded + self._commodities[pair][:-1])

    def blind(self, pair: tuple[str, str]) -> Message:
        """Step 3, second party: draw its share v2 and send w = a'·b + r_b − v2 to the first."""
        if pair[1] != self.name:
            raise ProtocolError(f"{self.name} is not the second party of {pair}.")
        commodity, masked = self._take_both(pair)
        share = self._random.draw(1)
        self._shares[pair] = share
        return Message(self.name, pair[0], "blinded", pair, dot(masked, self._encoded) + commodity[-1:] - share)

    def share(self, pair: tuple[str, str]) -> Message:
        """Step 5: send the own share, uniform by itself, with its noise to the aggregator, and forget it."""
        share = self._take(self._shares, pair, "a share")
        if self._deviation:
            share = share + np.rint([self._deviation * self._random.normal()]).astype(np.int64).view(np.uint64)
        return Message(self.name, AGGREGATOR, "share", pair, share)

    def _other(self, pair: tuple[str, str]) -> str:
        return pair[1] if pair[0] == self.name else pair[0]

    def _take_both(self, pair: tuple[str, str]) -> tuple[Words, Words]:
        """Forget the masks and the other's masked vector, and return both; neither is forgotten if one is missing."""
        if pair not in self._commodities:
            raise ProtocolError(f"{self.name} has no masks for {pair}; the steps were run out of order.")
        masked = self._take(self._masked, pair, "masked vector of the other")
        return self._commodities.pop(pair), masked

    def _take(self, kept: dict[tuple[str, str], Words], pair: tuple[str, str], what: str) -> Words:
        if pair not in kept:
            raise ProtocolError(f"{self.name} has no {what} for {pair}; the steps were run out of order.")
        return kept.pop(pair)


class Aggregator:
    """The federated server: adds the two shares of each pair, and so learns the product."""

    def __init__(self) -> None:
        self._added: set[bytes] = set()  # digests of all shares that came
        self._waiting: dict[tuple[str, str], tuple[str, Words]] = {}
        self.products: dict[tuple[str, str], int] = {}

    def receive(self, message: Message) -> None:
        """Take a share in.

        Raises
        ------
        ProtocolError
            If it is no share of a pair the sender belongs to, is not one number, or comes twice, after the run too.
        """
        is_share = message.kind == "share" and message.receiver == AGGREGATOR and message.payload.size == 1
        if not is_share or message.sender not in message.pair:
            raise ProtocolError(
                f"the aggregator takes shares of a pair from its parties; got a {message.kind} message about "
                f"{message.pair} from {message.sender} for {message.receiver}."
            )
        known = digest(message)
        waiting = self._waiting.get(message.pair)
        if known in self._added or (waiting is not None and waiting[0] == message.sender):
            raise ProtocolError(f"{message.sender} sent its share of {message.pair} twice.")
        self._added.add(known)
        if waiting is None:
            self._waiting[message.pair] = (message.sender, message.payload)
            return
        _, payload = self._waiting.pop(message.pair)
        self.products[message.pair] = int((payload + message.payload).view(np.int64)[0])


# -- the protocol ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecureProduct:
    """A scalar product, and how it came about.

    Attributes
    ----------
    value
        a·b of the encoded vectors, with the noise, as a float.
    integer
        The same times 2^(2·fraction_bits), exactly.
    fraction_bits
        Bits after the binary point of each factor.
    transcript
        The messages sent.
    """

    value: float
    integer: int
    fraction_bits: int
    transcript: Transcript


@dataclass(frozen=True)
class SecureSimilarity:
    """A similarity matrix computed pair by pair under masks.

    Attributes
    ----------
    matrix
        N×N, for `dependency_graph`. The diagonal is 1 for the cosine and 0 for the dot product, whose
        diagonal would be the clients' squared norms: the graph does not need them, so they are not computed.
    fraction_bits
        Bits after the binary point of each factor.
    transcript
        The messages sent, or their sizes alone where they are not kept.
    """

    matrix: NDArray[np.float64]
    fraction_bits: int
    transcript: Transcript


def secure_product(
    a: ArrayLike,
    b: ArrayLike,
    *,
    fraction_bits: int = 24,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
) -> SecureProduct:
    """Compute a·b of two private vectors without either party, or any server, seeing both.

    1. The commodity server C draws vectors R_a, R_b and a number r_a, sets r_b = R_a·R_b − r_a, and sends
       (R_a, r_a) to the first party and (R_b, r_b) to the second.
    2. The first sends a' = a + R_a to the second, the second sends b' = b + R_b to the first.
    3. The second draws v2 and sends w = a'·b + r_b − v2 to the first.
    4. The first computes v1 = w − R_a·b' + r_a, and v1 + v2 = a·b.
    5. Both send their share to the aggregator, which adds them.

    Arithmetic is on integers modulo 2⁶⁴ holding fixed-point numbers, so that each message by itself is uniform, and
    without noise the product of the encoded vectors is exact. Rounding to 2^−f beforehand
    moves it by at most about 2^−(f+1) · (‖a‖₁ + ‖b‖₁).

    Parameters
    ----------
    a, b
        Vectors of the same length d. They live in two `Party` objects that only exchange messages.
    fraction_bits
        f, from 0 to 31; public. Norms must stay below 2^(31.5 − f): 181 for the default 24.
    noise
        Standard deviation of the normal noise that the two parties together add to the product; 0 for none.
    rng
        For repeatable tests. ``None`` (default) draws masks from the operating system.

    Returns
    -------
    SecureProduct

    Raises
    ------
    ProtocolError
        If the vectors are not of one length, hold a value that is not finite, or are too long for
        `fraction_bits`, or if that or `noise` is out of range.

    Notes
    -----
    Source: Du and Zhan (2002), which FedGS (Sec. 3.2) names as one way to build the oracle 3DG without
    seeing label distributions. We have not read FedGS's Appendix D, which adapts it; who plays C is our
    choice: a separate object.

    What it protects, and what it does not:

    * The participants are taken to follow the protocol and merely look (semi-honest). Wrong numbers in a message
      give a wrong product, unnoticed.
    * C must not collude. C and one party together recover the other's vector: b = b' − R_b. If the
      aggregator plays C, then a', b' and w must travel where it cannot read them.
    * Masks are good for one run, after which a `Party` forgets them. Used twice, differences leak.
    * Messages from the wrong sender are refused, but a sender is only a name here: see the last point.
    * The products themselves speak. All of them together determine the clients' vectors up to
      rounding and a rotation or reflection, so an aggregator with d independent clients on its side solves for any
      vector. A product of 0 of label distributions says that the label sets are disjoint.
    * One exact product may be enough. Counts are few: of all 1 307 504 ways to spread 15 samples over 10
      labels, a single exact cosine with one known vector of random entries fits one, the client's own. Who knows one
      client's vector and the number of samples of another may recover that one's counts. Rounding
      (``fraction_bits``) and ``noise`` leave more that fit; `secure_similarity` has what they cost.
    * Lengths, names and who runs with whom are in the clear. There is no transport here: encrypting and
      authenticating the messages is the deployment's business.

    Each run costs 2d + 2 numbers from C in advance and 2d + 1 between the parties in two rounds.

    Examples
    --------
    >>> from graphs import secure_product
    >>> product = secure_product([0.5, 0.25, 0.25], [0.0, 0.5, 0.5])
    >>> product.value
    0.25
    >>> [message.kind for message in product.transcript]
    ['commodity', 'commodity', 'masked', 'masked', 'blinded', 'share', 'share']
    """
    first, second = (Party(k, v, fraction_bits, rng, noise=noise) for k, v in (("first", a), ("second", b)))
    transcript = Transcript()
    integer = run(CommodityServer(rng), first, second, Aggregator(), transcript, np.size(a))
    return SecureProduct(integer / 4**fraction_bits, integer, fraction_bits, transcript)


def secure_similarity(
    features: ArrayLike | Sequence[ArrayLike],
    kind: Literal["cosine", "dot"] = "cosine",
    *,
    fraction_bits: int | None = None,
    noise: float = 0.0,
    keep_transcript: bool = True,
    rng: np.random.Generator | None = None,
) -> SecureSimilarity:
    """Compute the similarity of every pair of clients with `secure_product`'s protocol.

    For the cosine each client scales its vector to length 1 before encoding it, so that the dot product is
    the cosine.

    Parameters
    ----------
    features
        One private vector per client, shape (N, d). Each becomes a `Party`; they are together in one array
        only because this is a simulation of N machines in one process.
    kind
        ``"cosine"`` or ``"dot"``.
    fraction_bits
        As for `secure_product`; default 30 for the cosine (error below
        1e-8 at d = 10) and 24 for the dot product. Few bits round what a product reveals.
    noise
        As for `secure_product`, on the scale of the similarity.
    keep_transcript
        Whether to keep all 7·N(N−1)/2 messages; their sizes are counted in any case.
    rng
        For repeatable tests. ``None`` (default) draws masks from the operating system.

    Returns
    -------
    SecureSimilarity

    Raises
    ------
    ProtocolError
        As for `secure_product`, or if `kind` is unknown.
    FeatureError
        If the features are not one finite vector of equal length per client.

    Notes
    -----
    What a single cosine with a vector that the attacker has chosen reveals, and what rounding and noise
    cost: how many of the 1 307 504 ways to spread 15 samples over 10 labels agree with it (fewest and
    median of 20 clients; with noise, to within two standard deviations), and the F1 of the 3DG's edges
    (`edge_scores`; 50 clients, preset ``"reference"``, labels from a Dirichlet distribution of concentration 0.2, or
    two for each client; mean of ten federations) against those of the exact similarities.
    ``python tests/benchmarks/bench_secure.py``, 2026-11-28:

    =============  ======  =======  =======  =============  ==============
    fraction_bits  noise   fewest   median   F1, Dirichlet  F1, two labels
    =============  ======  =======  =======  =============  ==============
    30             0       1        1        1.000          1.000
    8              0       6        35       0.999          1.000
    5              0       252      2 446    0.988          1.000
    4              0       288      10 786   0.971          1.000
    3              0       4 214    43 708   0.936          1.000
    30             0.0001  276      1 250    1.000          1.000
    30             0.001   2 910    12 529   0.998          1.000
    30             0.01    33 389   121 232  0.984          0.883
    30             0.03    117 154  359 019  0.965          0.758
    =============  ======  =======  =======  =============  ==============

    Where many similarities are exactly 0, noise near the threshold (0.01) turns them into edges; an
    ``epsilon`` of four times the noise removes those again, and true edges that are weaker. Neither is a guarantee:
    several products of one client together say more than one, and a party that colludes subtracts its own half of the
    noise. No cosine is negative where no feature is: noise below 0 is cut off.
    """
    choice("kind", kind, ("cosine", "dot"), ProtocolError)
    if fraction_bits is None:
        fraction_bits = 30 if kind == "cosine" else 24
    vectors = feature_matrix(features).astype(np.float64)
    size, length = vectors.shape
    parties = [
        Party(f"client {k}", unit(vector) if kind == "cosine" else vector, fraction_bits, rng, noise=noise)
        for k, vector in enumerate(vectors)
    ]
    server, aggregator, transcript = CommodityServer(rng), Aggregator(), Transcript(keep_transcript)
    matrix = np.eye(size) if kind == "cosine" else np.zeros((size, size))
    for i, j in itertools.combinations(range(size), 2):
        integer = run(server, parties[i], parties[j], aggregator, transcript, length)
        matrix[i, j] = matrix[j, i] = integer / 4**fraction_bits
    if kind == "cosine":
        # The encoded vectors' lengths are 1 only to rounding.
        # No cosine of counts is negative. A graph scales from the least similarity: noise must not be that.
        np.clip(matrix, -1.0 if vectors.min(initial=0.0) < 0 else 0.0, 1.0, out=matrix)
    return SecureSimilarity(matrix, fraction_bits, transcript)


def run(
    server: CommodityServer,
    first: Party,
    second: Party,
    aggregator: Aggregator,
    transcript: Transcript,
    length: int,
) -> int:
    """Run the five steps between two parties, and return the product as an integer."""
    pair = (first.name, second.name)
    for_first, for_second = server.issue(*pair, length)
    first.receive(transcript.record(for_first))
    second.receive(transcript.record(for_second))
    second.receive(transcript.record(first.mask(pair)))
    first.receive(transcript.record(second.mask(pair)))
    first.receive(transcript.record(second.blind(pair)))
    aggregator.receive(transcript.record(first.share(pair)))
    aggregator.receive(transcript.record(second.share(pair)))
    return aggregator.products[pair]
