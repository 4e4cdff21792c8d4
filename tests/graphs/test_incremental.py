"""Incremental distances against starting over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import IncrementalDistances, SimilarityError, distances, edge_weights, similarity

pytestmark = pytest.mark.filterwarnings("ignore::graphs.GraphWarning")

OPTIONS = [
    {"preset": "reference"},
    {"preset": "reference", "bounds": (-1, 1)},
    {"preset": "reference", "bounds": (0, 1), "epsilon": 0.4},
    {"preset": "paper", "epsilon": 0.3, "sigma2": 0.1},
    {"preset": "paper", "epsilon": 0, "sigma2": 0.001},  # underflows
]


def fresh(S, options):
    return distances(edge_weights(S, **options))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("repair_at_most", [0.0, 1.0])  # always afresh, always pair by pair
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 9))
@settings(deadline=None, max_examples=25)
def test_any_history_ends_where_starting_over_does(options, repair_at_most, seed, size):
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(size + 6, 3))
    S = similarity(U[:size]) if size else np.zeros((0, 0))
    known = IncrementalDistances(S if size else None, repair_at_most=repair_at_most, **options)
    for _ in range(8):
        if len(known) < 2 or (rng.random() < 0.4 and len(known) < len(U)):
            index = known.add(similarity(U[: len(known) + 1])[-1, :-1])
            assert index == len(known) - 1
        else:
            client = int(rng.integers(len(known)))
            U[client] = rng.normal(size=3)
            known.update(client, similarity(U[: len(known)])[client])
        np.testing.assert_allclose(known.distances(), fresh(similarity(U[: len(known)]), options), atol=1e-12)


def test_meeting_clients_one_by_one_needs_no_rebuild_with_fixed_bounds():
    U = np.random.default_rng(0).dirichlet(np.full(10, 0.3), 60)
    V = similarity(U)
    options = {"preset": "reference", "bounds": (0, 1)}
    known = IncrementalDistances(**options)
    for k in range(60):
        known.add(V[k, :k])
    assert known.rebuilds == 0
    np.testing.assert_allclose(known.distances(), fresh(V, options), atol=1e-12)
    assert known.graph().number_of_edges() == np.isfinite(edge_weights(V, **options)[np.triu_indices(60, 1)]).sum()


def test_new_extremes_rescale_everything():
    known = IncrementalDistances([[1, 0.5], [0.5, 1]])
    known.add([0.1, 0.2])
    assert known.rebuilds == 1  # the construction itself
    known.add([0.0, 0.9, 0.0])
    assert known.rebuilds == 2


@pytest.mark.parametrize("repair_at_most", [0.0, 1.0])
def test_a_removed_shortcut_is_found_again_by_long_paths(repair_at_most):
    # A ring of forty in random order; client 0 is a hub that shortens everything, then leaves. Paths of up
    # to twenty hops must be put together again, more than one pass over the pairs can do.
    around = 1 + np.random.default_rng(0).permutation(40)
    ring = np.zeros((41, 41))
    ring[around, np.roll(around, 1)] = ring[np.roll(around, 1), around] = 0.5
    hub = ring.copy()
    hub[0, 1:] = hub[1:, 0] = 1.0
    options = {"preset": "paper", "epsilon": 0.1, "sigma2": 1.0}
    known = IncrementalDistances(hub, repair_at_most=repair_at_most, **options)
    known.update(0, ring[0])
    np.testing.assert_allclose(known.distances(), fresh(ring, options), atol=1e-12)
    assert known.path_lengths()[around[0], around[20]] == pytest.approx(20 * np.exp(-0.5))
    assert np.isinf(known.path_lengths()[0, 1])
    assert known.rebuilds == 1  # the construction


def test_what_is_handed_out_is_a_copy():
    known = IncrementalDistances([[1, 0.5], [0.5, 1]])
    known.distances()[:] = 7
    known.similarity[:] = 7
    known.path_lengths()[:] = 7
    assert known.distances().tolist() == [[0, 1], [1, 0]]
    assert known.similarity[0, 1] == 0.5


def test_bad_input_gets_a_sentence_and_changes_nothing():
    known = IncrementalDistances([[1, 0.5], [0.5, 1]])
    with pytest.raises(SimilarityError, match=r"must be one number per known client, \(2,\); got shape \(3,\)"):
        known.add([1, 2, 3])
    with pytest.raises(SimilarityError, match="the similarity to client 1 must be a finite number; got nan"):
        known.add([0.1, np.nan])
    with pytest.raises(SimilarityError, match="client must be an index from 0 to 1; got 2"):
        known.update(2, [0.1, 0.1])
    with pytest.raises(SimilarityError, match="no client is known yet"):
        IncrementalDistances().graph()
    with pytest.raises(SimilarityError, match="preset must be 'reference' or 'paper'; got 'x'"):
        IncrementalDistances(preset="x")
    with pytest.raises(SimilarityError, match="repair_at_most must be a share from 0 to 1; got 2"):
        IncrementalDistances(repair_at_most=2)
    assert len(known) == 2
    assert known.distances().tolist() == [[0, 1], [1, 0]]
