"""The scalar product protocol: exact, blind, and no more than it claims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import (
    Aggregator,
    CommodityServer,
    FeatureError,
    Message,
    Party,
    ProtocolError,
    Transcript,
    dependency_graph,
    distances,
    edge_scores,
    secure_product,
    secure_similarity,
    similarity,
)
from graphs.secure import run
from tests.thoroughly import tried

BITS = 16


def integers(vector, bits):
    return [round(float(x) * 2**bits) for x in vector]


@st.composite
def pair_of_vectors(draw):
    length = draw(st.integers(1, 12))
    # Up to 10 per entry: norms stay below 35 < 181, the limit of 24 bits.
    entries = st.lists(st.floats(-10, 10), min_size=length, max_size=length)
    return draw(entries), draw(entries)


@tried(25, 100, pair_of_vectors(), st.integers(0, 24))
def test_the_product_of_the_encoded_vectors_is_exact(vectors, bits):
    a, b = vectors
    result = secure_product(a, b, fraction_bits=bits)
    exact = sum(x * y for x, y in zip(integers(a, bits), integers(b, bits), strict=True))
    assert result.integer == exact
    assert result.value == exact / 4**bits


def test_the_largest_vectors_admitted_do_not_wrap():
    limit = 2.0**31.5 * (1 - 2e-6)
    for sign in (1, -1):
        result = secure_product([limit, 0], [sign * limit, 0], fraction_bits=0)
        assert result.integer == sign * round(limit) ** 2
    with pytest.raises(
        ProtocolError, match=r"norm of the vector of first must lie below .* with fraction_bits = 0; got 3\.1e\+09"
    ):
        secure_product([3.1e9], [1.0], fraction_bits=0)


def test_rounding_stays_within_the_stated_error():
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.normal(size=(2, 10))
        bound = 2.0**-25 * (np.abs(a).sum() + np.abs(b).sum()) * 1.01
        assert abs(secure_product(a, b).value - a @ b) <= bound


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_the_matrix_is_the_plain_one(kind):
    U = np.random.default_rng(1).dirichlet(np.full(10, 0.2), 12)
    found = secure_similarity(U, kind)
    off = ~np.eye(12, dtype=bool)
    np.testing.assert_allclose(found.matrix[off], similarity(U, kind)[off], atol=1e-6)
    assert (found.matrix == found.matrix.T).all()


def test_the_oracle_graph_is_rebuilt_without_seeing_labels():
    U = np.random.default_rng(1).dirichlet(np.full(10, 0.2), 15)
    plain, secure = dependency_graph(similarity(U)), dependency_graph(secure_similarity(U).matrix)
    assert set(plain.edges) == set(secure.edges)
    np.testing.assert_allclose(distances(secure), distances(plain), atol=1e-6)


def test_messages_go_where_the_protocol_says():
    transcript = secure_product([0.5, 1.0, 2.0], [1.0, 1.0, 1.0]).transcript
    assert [(m.sender, m.receiver, m.kind, m.payload.size) for m in transcript] == [
        ("commodity server", "first", "commodity", 4),
        ("commodity server", "second", "commodity", 4),
        ("first", "second", "masked", 3),
        ("second", "first", "masked", 3),
        ("second", "first", "blinded", 1),
        ("first", "aggregator", "share", 1),
        ("second", "aggregator", "share", 1),
    ]
    assert transcript.received_by("commodity server") == []
    assert [m.kind for m in transcript.received_by("aggregator")] == ["share", "share"]
    # 2d + 2 in advance, 2d + 1 online, one number per share
    assert transcript.sent == {"commodity": 8, "masked": 6, "blinded": 1, "share": 2}


def test_a_transcript_may_be_counted_and_not_kept():
    found = secure_similarity(np.eye(3), keep_transcript=False)
    assert len(found.transcript) == 0
    assert found.transcript.sent["masked"] == 3 * 2 * 3


def arrays_within(thing, seen=None):
    """Every array and number reachable from an object."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing.ravel()
        yield from arrays_within(thing.base, seen)
    elif isinstance(thing, dict):
        for entry in (*thing.keys(), *thing.values()):
            yield from arrays_within(entry, seen)
    elif isinstance(thing, list | tuple | set):
        for entry in thing:
            yield from arrays_within(entry, seen)
    elif hasattr(thing, "__dict__"):
        yield from arrays_within(vars(thing), seen)


def holds(thing, vector, bits):
    """Whether a vector lies anywhere within an object, plain or encoded, alone or inside a longer one."""
    encoded = np.array(integers(vector, bits), dtype=np.int64)
    for array in arrays_within(thing):
        for start in range(len(array) - len(vector) + 1):
            window = array[start : start + len(vector)]
            if (window.view(np.int64) == encoded).all() if window.dtype == np.uint64 else np.allclose(window, vector):
                return True
    return False


def test_no_participant_ever_holds_anothers_vector():
    a, b = [0.25, 0.5, 0.125, 0.125], [0.0, 0.75, 0.25, 0.0]
    pair = ("a", "b")
    server, aggregator = CommodityServer(), Aggregator()
    first, second = Party("a", a, BITS), Party("b", b, BITS)
    sent = []

    def send(message, receiver):
        sent.append(message)
        receiver.receive(message)
        assert holds(first, a, BITS)  # the search does find what is there
        assert holds(second, b, BITS)
        assert not holds(first, b, BITS)
        assert not holds(second, a, BITS)
        for outsider in (server, aggregator, sent):
            assert not holds(outsider, a, BITS)
            assert not holds(outsider, b, BITS)

    for message, receiver in zip(server.issue("a", "b", 4), (first, second), strict=True):
        send(message, receiver)
    send(first.mask(pair), second)
    send(second.mask(pair), first)
    send(second.blind(pair), first)
    send(first.share(pair), aggregator)
    send(second.share(pair), aggregator)
    assert aggregator.products[pair] / 4**BITS == np.dot(a, b)


@pytest.mark.parametrize("vectors", [([0.0] * 4, [0.0] * 4), ([1.0, 0, 0, 0], [90.0, 1, 2, 3])])
def test_every_message_is_uniform_whatever_the_vectors(vectors):
    # The top byte of each message over 2 000 seeded runs: a chi-square with 255 degrees of freedom has
    # mean 255 and standard deviation 22.6. Without masks it would be above 100 000.
    rng = np.random.default_rng(5)
    tops = {}
    for _ in range(2000):
        for place, message in enumerate(secure_product(*vectors, rng=rng).transcript):
            tops.setdefault(place, []).append(int(message.payload[0] >> np.uint64(56)))
    assert len(tops) == 7
    for values in tops.values():
        counts = np.bincount(values, minlength=256)
        assert ((counts - 2000 / 256) ** 2 / (2000 / 256)).sum() < 255 + 5 * 22.6


def test_masks_are_fresh_for_every_run_and_repeatable_on_demand():
    U = np.eye(3)
    commodities = [tuple(m.payload) for m in secure_similarity(U).transcript if m.kind == "commodity"]
    assert len(set(commodities)) == len(commodities) == 6
    payloads = [
        [m.payload.tolist() for m in secure_product([1], [2], rng=np.random.default_rng(s)).transcript]
        for s in (1, 1, 2)
    ]
    assert payloads[0] == payloads[1] != payloads[2]


def test_limit_a_commodity_server_and_a_party_together_see_the_other():
    b = [0.25, -0.5, 3.0]
    transcript = secure_product([1, 1, 1], b, fraction_bits=BITS).transcript
    mask = next(m.payload[:-1] for m in transcript if m.kind == "commodity" and m.receiver == "second")
    masked = next(m.payload for m in transcript if m.kind == "masked" and m.sender == "second")
    assert ((masked - mask).view(np.int64) / 2**BITS).tolist() == b


def test_limit_the_products_give_a_vector_away_to_who_knows_d_others():
    U = np.random.default_rng(0).dirichlet(np.ones(5), 6)
    products = secure_similarity(U, "dot").matrix
    np.testing.assert_allclose(np.linalg.solve(U[:5], products[:5, 5]), U[5], atol=1e-3)


def test_limit_a_wrong_message_goes_unnoticed():
    server, aggregator = CommodityServer(), Aggregator()
    first, second = Party("a", [1.0], BITS), Party("b", [1.0], BITS)
    pair = ("a", "b")
    for message, party in zip(server.issue("a", "b", 1), (first, second), strict=True):
        party.receive(message)
    honest = first.mask(pair)
    second.receive(Message("a", "b", "masked", pair, honest.payload + np.uint64(1 << BITS)))
    first.receive(second.mask(pair))
    first.receive(second.blind(pair))
    aggregator.receive(first.share(pair))
    aggregator.receive(second.share(pair))
    assert aggregator.products[pair] / 4**BITS == 2.0


def test_a_forged_commodity_of_the_peer_is_refused():
    """Masks that the peer chose would let it read the whole masked vector."""
    first, zeros = Party("a", [0.25, 0.5], BITS), np.zeros(3, dtype=np.uint64)
    with pytest.raises(
        ProtocolError, match=r"a got a commodity message about \('a', 'b'\) from b; it takes masks from"
    ):
        first.receive(Message("b", "a", "commodity", ("a", "b"), zeros))
    with pytest.raises(ProtocolError, match="a has no masks"):
        first.mask(("a", "b"))


@pytest.mark.parametrize("sender", ["a", "b", "c", "commodity server", "aggregator"])
@pytest.mark.parametrize("kind", ["commodity", "masked", "blinded", "share"])
@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
def test_a_message_counts_from_its_own_sender_alone(sender, kind, pair):
    """Every combination of sender, kind and place in the pair: those of the protocol pass, and no other."""
    server, party, other = CommodityServer(), Party("a", [1.0, 2.0], BITS), Party("b", [3.0, 4.0], BITS)
    messages = {m.receiver: m for m in server.issue(*pair, 2)}
    other.receive(messages["b"])
    sizes = {"commodity": 3, "masked": 2, "blinded": 1, "share": 1}
    if kind != "commodity":
        party.receive(messages["a"])
    if kind == "blinded":
        party.receive(other.mask(pair))
    right = {"commodity": "commodity server", "masked": "b", "blinded": "b" if pair[0] == "a" else None}
    message = Message(sender, "a", kind, pair, np.zeros(sizes[kind], dtype=np.uint64))
    if right.get(kind) == sender:
        party.receive(message)
    else:
        with pytest.raises(ProtocolError, match="a got a "):
            party.receive(message)


def test_a_masked_vector_comes_once_and_after_the_masks():
    party, pair = Party("a", [1.0, 2.0], BITS), ("a", "b")
    masked = Message("b", "a", "masked", pair, np.zeros(2, dtype=np.uint64))
    with pytest.raises(ProtocolError, match="twice or before its masks"):
        party.receive(masked)
    party.receive(CommodityServer().issue(*pair, 2)[0])
    party.receive(masked)
    with pytest.raises(ProtocolError, match="twice or before its masks"):
        party.receive(masked)


def test_a_step_out_of_order_loses_nothing():
    """A blinded number before the masked vector, and one that is to be sent before it: refused; then the product."""
    first, second, aggregator, pair = (
        Party("a", [1.0, 2.0], BITS),
        Party("b", [3.0, 4.0], BITS),
        Aggregator(),
        ("a", "b"),
    )
    for message, party in zip(CommodityServer().issue(*pair, 2), (first, second), strict=True):
        party.receive(message)
    with pytest.raises(ProtocolError, match="out of order"):
        first.receive(Message("b", "a", "blinded", pair, np.zeros(1, dtype=np.uint64)))
    with pytest.raises(ProtocolError, match="out of order"):
        second.blind(pair)
    second.receive(first.mask(pair))
    first.receive(second.mask(pair))
    first.receive(second.blind(pair))
    for party in (first, second):
        aggregator.receive(party.share(pair))
    assert aggregator.products[pair] / 4.0**BITS == 11.0


def test_what_is_sent_again_after_a_run_is_refused_and_a_further_run_goes_on():
    """No message of the first run is taken again, before the second, within it or after it; its product is right."""
    first, second, aggregator, pair = (
        Party("a", [1.0, 2.0], BITS),
        Party("b", [3.0, 4.0], BITS),
        Aggregator(),
        ("a", "b"),
    )
    by_name = {"a": first, "b": second, "aggregator": aggregator}
    transcripts = Transcript(), Transcript()

    def replayed():
        for message in transcripts[0]:
            with pytest.raises(ProtocolError, match=r"twice|out of order"):
                by_name[message.receiver].receive(message)

    assert run(CommodityServer(), first, second, aggregator, transcripts[0], 2) / 4.0**BITS == 11.0
    replayed()
    assert run(CommodityServer(), first, second, aggregator, transcripts[1], 2) / 4.0**BITS == 11.0
    replayed()
    aggregator.receive(Message("a", "aggregator", "share", pair, np.ones(1, dtype=np.uint64)))
    replayed()


def test_a_pair_is_of_two_and_no_party_has_a_servers_name():
    with pytest.raises(ProtocolError, match="must not be that of a server; got 'aggregator'"):
        Party("aggregator", [1.0], BITS)
    with pytest.raises(ProtocolError, match="a got a commodity message"):
        Party("a", [1.0], BITS).receive(
            Message("commodity server", "a", "commodity", ("a", "a"), np.zeros(2, dtype=np.uint64))
        )


# -- what a product reveals, and noise -----------------------------------------------------------------------------


def counts_that_fit(seen, mine, samples, bits, width):
    """Ways to spread samples over labels whose cosine with ``mine`` lies within ``width`` of what was seen."""
    bars = np.array(list(itertools.combinations(range(samples + mine.size - 1), mine.size - 1)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), samples + mine.size - 1)])
    everything = np.diff(edges, axis=1) - 1
    encoded = np.rint(everything / np.linalg.norm(everything, axis=1, keepdims=True) * 2.0**bits).astype(np.int64)
    known = np.rint(mine / np.linalg.norm(mine) * 2.0**bits).astype(np.int64)
    return everything[np.abs(encoded @ known / 4.0**bits - seen) <= width]


def test_limit_one_cosine_with_one_known_vector_reveals_small_counts():
    known, secret = np.random.default_rng(0).random(6), np.array([2, 0, 3, 1, 5, 1])
    exact = secure_similarity(np.stack([known, secret])).matrix[0, 1]
    assert counts_that_fit(exact, known, 12, 30, 0.0).tolist() == [secret.tolist()]  # one of 6 188
    noisy = secure_similarity(np.stack([known, secret]), noise=0.01, rng=np.random.default_rng(1)).matrix[0, 1]
    assert len(counts_that_fit(noisy, known, 12, 30, 0.02)) > 100
    rounded = secure_similarity(np.stack([known, secret]), fraction_bits=3).matrix[0, 1]
    assert len(counts_that_fit(rounded, known, 12, 3, 0.0)) > 20


@pytest.mark.parametrize("deviation", [1e-3, 0.5])
def test_noise_has_its_standard_deviation_and_no_bias(deviation):
    rng = np.random.default_rng(3)
    found = np.array([secure_product([0.6, 0.8], [1.0, 0.0], noise=deviation, rng=rng).value for _ in range(2000)])
    assert found.std() == pytest.approx(deviation, rel=0.08)
    assert found.mean() == pytest.approx(0.6, abs=4 * deviation / np.sqrt(2000))
    assert secure_product([0.6], [1.0], noise=deviation).value != secure_product([0.6], [1.0], noise=deviation).value


def test_noise_leaves_room_in_the_integers():
    """The largest vectors admitted with noise do not wrap, whatever the noise."""
    noise, bits = 0.01, 24
    limit = np.sqrt(2.0**63 - 2 * 8.6 * noise / np.sqrt(2) * 4.0**bits) / 2.0**bits * (1 - 2e-6)
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert secure_product([limit], [limit], noise=noise, rng=rng).value == pytest.approx(limit**2, abs=0.1)
    with pytest.raises(ProtocolError, match="norm of the vector of first must lie below"):
        secure_product([181.0193], [1.0], noise=1.0)
    for wrong in (None, 10**400, 1j):
        with pytest.raises(ProtocolError, match="noise must be a finite number"):
            secure_product([1.0], [1.0], noise=wrong)
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ProtocolError, match="noise must be a standard deviation"):
            secure_product([1.0], [1.0], noise=wrong)


def test_noise_costs_edges_and_a_higher_threshold_brings_them_back():
    """Two labels for each client: most products are 0, and noise makes edges of them under the preset's threshold."""
    rng = np.random.default_rng(2)
    U = np.zeros((20, 10))
    for row in U:
        row[rng.choice(10, 2, replace=False)] = 0.5
    exact = dependency_graph(similarity(U))
    rough = secure_similarity(U, noise=0.01, rng=np.random.default_rng(0)).matrix
    f1 = [edge_scores(dependency_graph(rough, epsilon=epsilon), exact).f1 for epsilon in (None, 0.25)]
    assert f1[0] < 0.9
    assert f1[1] == 1.0
    assert edge_scores(dependency_graph(secure_similarity(U).matrix), exact).f1 == 1.0


def test_steps_out_of_order_are_refused():
    party, pair = Party("a", [1.0, 2.0], BITS), ("a", "b")
    commodity, for_b = CommodityServer().issue("a", "b", 2)
    with pytest.raises(ProtocolError, match="a has no masks for"):
        party.mask(pair)
    with pytest.raises(ProtocolError, match="no a share"):
        party.share(pair)
    with pytest.raises(ProtocolError, match="not the second party"):
        party.blind(pair)
    with pytest.raises(ProtocolError, match="a got a commodity message for b"):
        party.receive(for_b)
    party.receive(commodity)
    with pytest.raises(ProtocolError, match=r"masks for .* twice; each run needs fresh ones"):
        party.receive(commodity)
    with pytest.raises(ProtocolError, match="expects 2; all vectors must have the same length"):
        party.receive(Message("b", "a", "masked", pair, np.zeros(3, dtype=np.uint64)))
    with pytest.raises(ProtocolError, match="the aggregator takes shares"):
        Aggregator().receive(commodity)
    share = Message("a", "aggregator", "share", pair, np.zeros(1, dtype=np.uint64))
    aggregator = Aggregator()
    aggregator.receive(share)
    with pytest.raises(ProtocolError, match=r"sent its share of .* twice"):
        aggregator.receive(share)


@pytest.mark.parametrize(
    ("a", "b", "bits", "message"),
    [
        ([1.0], [1.0, 2.0], 24, "all vectors must have the same length"),
        ([np.nan], [1.0], 24, "vector of first holds a value that is not finite"),
        ([[1.0]], [1.0], 24, r"vector of first must be a non-empty \(d,\); got shape \(1, 1\)"),
        ([], [], 24, r"shape \(0,\)"),
        ([1.0], [200.0], 24, "norm of the vector of second must lie below 181.* got 200"),
        ([1.0], [1.0], 32, "fraction_bits must lie in 0 to 31; got 32"),
        ([1.0], [1.0], 2.5, "fraction_bits must be a whole number; got 2.5"),
        ([1.0], [10**400], 24, "vector of second cannot be read as real numbers: int too large"),
        (np.array([1j]), [1.0], 24, "vector of first cannot be read as real numbers: complex numbers"),
    ],
)
def test_bad_vectors_get_a_sentence(a, b, bits, message):
    with pytest.raises(ProtocolError, match=message):
        secure_product(a, b, fraction_bits=bits)


@pytest.mark.parametrize("bits", [None, "x", 2.5, 32])
def test_bits_are_checked_before_the_noise_is_scaled_by_them(bits):
    with pytest.raises(ProtocolError, match="fraction_bits must"):
        secure_product([1.0], [1.0], fraction_bits=bits, noise=0.1)


def test_bad_features_get_a_sentence():
    with pytest.raises(ProtocolError, match="kind must be 'cosine' or 'dot'; got 'update'"):
        secure_similarity(np.eye(2), "update")
    with pytest.raises(FeatureError, match="features must be finite; got inf of client 0"):
        secure_similarity([[np.inf, 1], [1, 1]])


def test_payloads_cannot_be_changed_after_sending():
    message = secure_product([1.0], [1.0]).transcript.messages[0]
    with pytest.raises(ValueError, match="read-only"):
        message.payload[0] = 0


@given(st.integers(2, 6))
@settings(deadline=None, max_examples=5)
def test_a_zero_vector_is_like_nobody(size):
    U = np.vstack([np.zeros(3), np.ones((size - 1, 3))])
    assert secure_similarity(U).matrix[0, 1:].tolist() == [0.0] * (size - 1)


def test_a_threshold_of_four_times_the_noise_leaves_the_edges_of_counts():
    counts = np.array([[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]] * 3)
    exact = dependency_graph(similarity(counts))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        noisy = secure_similarity(counts, noise=0.01, keep_transcript=False, rng=rng).matrix
        assert noisy.min() == 0  # half of the noise on products of 0 is negative, and no cosine of counts is
        assert edge_scores(dependency_graph(noisy, epsilon=0.04), exact).f1 == 1
    signed = secure_similarity([[1.0, 0.0], [-1.0, 0.0]], noise=0.01).matrix
    assert signed[0, 1] < -0.9
