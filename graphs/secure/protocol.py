"""Scalar products of vectors nobody shows: the commodity-server protocol from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.checks import choice
from graphs.errors import ProtocolError
from graphs.secure.fixed_point import decode, unit
from graphs.secure.messages import Transcript
from graphs.secure.parties import Aggregator, CommodityServer, Party
from graphs.similarities import feature_matrix

__all__ = ["SecureProduct", "SecureSimilarity", "secure_product", "secure_similarity"]


@dataclass(frozen=True)
class SecureProduct:
    """A scalar product, and how it came about.

    Attributes
    ----------
    value
        a·b of the encoded vectors as a float.
    integer
        The same times 2^(2·fraction_bits), exactly.
    fraction_bits
        Bits after the binary point of each factor.
    transcript
        Every message sent.
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
        diagonal would be the clients' squared norms: the graph does not need them, so nobody computes them.
    fraction_bits
        Bits after the binary point of each factor.
    transcript
        Every message sent.
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

    All arithmetic is on integers modulo 2⁶⁴ holding fixed-point numbers, so every message but the sum of
    the shares is uniform, and the product of the encoded vectors is exact. Rounding to 2^−f beforehand
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
        `fraction_bits`.

    Notes
    -----
    Source: Du and Zhan (2002), which FedGS (Sec. 3.2) names as one way to build the oracle 3DG without
    seeing label distributions. FedGS's Appendix D, which adapts it, is not public, so who plays C is our
    choice: a separate object.

    What it protects, and what it does not:

    * All participants follow the protocol and merely look (semi-honest). A wrong message gives a wrong
      product that nobody notices.
    * C must not collude. C and one party together recover the other's vector: b = b' − R_b. If the
      aggregator plays C, then a', b' and w must travel where it cannot read them.
    * Masks are good for one run; a `Party` refuses a second use. Used twice, differences leak.
    * Messages from the wrong sender are refused, but a sender is only a name here: see the last point.
    * The products themselves speak. All of them together determine the clients' vectors up to a
      rotation, so an aggregator with d independent clients on its side solves for anyone's vector. A
      small product of label distributions says that the label sets are disjoint.
    * One exact product may be enough. Counts are few: of all 1 307 504 ways to spread 15 samples over 10
      labels, a single exact cosine with one known vector fits one, the client's own. Who knows one
      client's vector and the number of samples of another recovers that one's counts. Rounding
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
    first = Party("first", a, fraction_bits, rng, noise=noise)
    second = Party("second", b, fraction_bits, rng, noise=noise)
    aggregator = Aggregator()
    transcript = Transcript()
    length = np.size(a)
    integer = run(CommodityServer(rng), first, second, aggregator, transcript, length)
    return SecureProduct(decode(integer, fraction_bits), integer, fraction_bits, transcript)


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
    the cosine; FedGS's remark that the protocol serves dot products only is no restriction.

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
    median of 20 clients), and the F1 of the 3DG's edges (`edge_scores`; 50 clients, preset
    ``"reference"``, labels from a Dirichlet distribution of concentration 0.2, or two for each client)
    against those of the exact similarities. ``python tests/benchmarks/bench_secure.py``, 2026-11-22:

    =============  ======  =======  =======  =============  ==============
    fraction_bits  noise   fewest   median   F1, Dirichlet  F1, two labels
    =============  ======  =======  =======  =============  ==============
    30             0       1        1        1.000          1.000
    8              0       6        35       0.999          1.000
    5              0       252      2 446    0.988          1.000
    4              0       288      10 786   0.971          1.000
    3              0       4 214    43 708   0.936          1.000
    30             0.0001  276      1 250    1.000          1.000
    30             0.001   2 910    12 529   0.997          1.000
    30             0.01    33 389   121 232  0.976          0.548
    30             0.03    117 154  359 019  0.974          0.544
    =============  ======  =======  =======  =============  ==============

    Where many similarities are exactly 0, noise near the threshold (0.01) turns them into edges; an
    ``epsilon`` above four times the noise removes those again. Neither is a guarantee: several products of one client
    together say more than one, and a party that colludes subtracts its own half of the noise.
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
    for i in range(size):
        for j in range(i + 1, size):
            integer = run(server, parties[i], parties[j], aggregator, transcript, length)
            matrix[i, j] = matrix[j, i] = decode(integer, fraction_bits)
    if kind == "cosine":
        # The encoded vectors' lengths are 1 only to rounding.
        np.clip(matrix, -1.0, 1.0, out=matrix)
    return SecureSimilarity(matrix, fraction_bits, transcript)


def run(
    server: CommodityServer,
    first: Party,
    second: Party,
    aggregator: Aggregator,
    transcript: Transcript,
    length: int,
) -> int:
    """One run of the five steps between two parties; the product as an integer."""
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
