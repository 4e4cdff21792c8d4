"""The online weights against Algorithm 2 transcribed, the authors' variant, and the tables of limits."""

import numpy as np
import pytest
from hypothesis import strategies as st

from solvers import InvalidProblem
from solvers.participation import ParticipationWeights, expected_weight, weight_error
from tests.thoroughly import tried


def algorithm_2(history, cutoff):
    """Algorithm 2 for one client, line by line: the weights ω_0 … ω_T (one more than the history is long)."""
    completed, elapsed, weight = 0, 0, 1.0
    weights = [weight]
    for participated in history:
        elapsed += 1
        if participated or elapsed == cutoff:
            weight = elapsed if completed == 0 else (completed * weight + elapsed) / (completed + 1)
            completed += 1
            elapsed = 0
        weights.append(weight)
    return weights


def authors_variant(history, cutoff):
    """The official code's bookkeeping: a list of intervals and a counter of absences."""
    intervals, absent, weights = [], 0, []
    for participated in [*history, False]:
        weights.append(np.mean(intervals) if intervals else 1.0)
        if participated:
            intervals.append(absent + 1)
            absent = 0
        else:
            absent += 1
            if cutoff is not None and absent >= cutoff:
                intervals.append(absent)
                absent = 0
    return weights


def replay(history, cutoff):
    online = ParticipationWeights(history.shape[1], cutoff)
    weights = [online.weights]
    for participated in history:
        online.update(participated)
        weights.append(online.weights)
    return np.array(weights)


@pytest.mark.parametrize("cutoff", [1, 2, 5, 50, None])
def test_is_algorithm_2_and_the_official_code(cutoff):
    """300 rounds, rates from 0.01 to 1: equal to rounding."""
    rng = np.random.default_rng(0)
    history = rng.random((300, 20)) < np.linspace(0.01, 1.0, 20)
    weights = replay(history, cutoff)
    for client in range(20):
        np.testing.assert_allclose(weights[:, client], algorithm_2(history[:, client], cutoff), rtol=1e-13)
        np.testing.assert_allclose(weights[:, client], authors_variant(history[:, client], cutoff), rtol=1e-13)


def test_by_hand():
    """Client 0: rounds 2 and 3; client 1: never, cut every 3 rounds; client 2: always."""
    online = ParticipationWeights(3, cutoff=3)
    seen = [online.weights.tolist()]
    for participated in ([0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1]):
        online.update(participated)
        seen.append(online.weights.tolist())
    assert [w[0] for w in seen] == [1, 1, 1, 3, 2, 2, 2, 7 / 3]
    assert [w[1] for w in seen] == [1, 1, 1, 3, 3, 3, 3, 3]
    assert [w[2] for w in seen] == [1] * 8


@tried(40, 200, st.lists(st.booleans(), max_size=40), st.one_of(st.none(), st.integers(1, 10)))
def test_intervals_add_up(history, cutoff):
    """ω·M is the number of rounds up to the last completed interval; every interval lies in 1 … K."""
    online = ParticipationWeights(1, cutoff)
    for participated in history:
        online.update([participated])
    state = online.state_dict()
    completed, elapsed = int(state["completed"][0]), int(state["elapsed"][0])
    assert online.rounds == len(history) == round(completed * online.weights[0] * (completed > 0)) + elapsed
    if cutoff is not None:
        assert elapsed < cutoff
        assert 1.0 <= online.weights[0] <= max(cutoff, 1)
    if cutoff is None and completed:
        last = max(t for t, participated in enumerate(history) if participated)
        assert online.weights[0] == pytest.approx((last + 1) / sum(history))


def test_monte_carlo_means():
    """E[ω_T] of the reference table, T = 2000; 3000 clients, within five standard errors."""
    rng = np.random.default_rng(1)
    clients = 3000
    for rate, expected in ((0.02, {50: 31.8, None: 49.9}), (0.1, {50: 9.94, None: 9.99})):
        online = {cutoff: ParticipationWeights(clients, cutoff) for cutoff in expected}
        for _ in range(2000):
            participated = rng.random(clients) < rate
            for weights in online.values():
                weights.update(participated)
        for cutoff, mean in expected.items():
            sample = online[cutoff].weights
            assert abs(sample.mean() - mean) < 5 * sample.std() / np.sqrt(clients) + 0.05
            limit = expected_weight([rate], cutoff)[0]
            assert abs(sample.mean() - limit) < 5 * sample.std() / np.sqrt(clients) + 0.01 * limit


@pytest.mark.parametrize(("rate", "limit"), [(0.02, 100 / 3), (0.1, 100 / 11)])
def test_cyclic_limit(rate, limit):
    """A cycle of 100 rounds and K = 50: c / (a + ⌊b/K⌋), which is not 1/p."""
    active = round(100 * rate)
    online = ParticipationWeights(1, cutoff=50)
    for t in range(20_000):
        online.update([t % 100 >= 100 - active])
    assert online.weights[0] == pytest.approx(limit, rel=1e-2)


def test_expected_weight():
    np.testing.assert_allclose(expected_weight([0.5, 1.0], 2), [(1 - 0.25) / 0.5, 1.0])
    np.testing.assert_allclose(expected_weight([0.02, 1.0]), [50.0, 1.0])
    assert expected_weight([0.3], 1)[0] == pytest.approx(1.0)


def test_a_killed_run_resumes():
    """From the saved state the weights continue exactly; the state is a copy."""
    rng = np.random.default_rng(2)
    history = rng.random((60, 8)) < 0.2
    whole = replay(history, 7)
    first = ParticipationWeights(8, 7)
    for participated in history[:25]:
        first.update(participated)
    state = first.state_dict()
    first.update(history[25])
    second = ParticipationWeights(8, 7)
    second.load_state_dict(state)
    np.testing.assert_array_equal(second.weights, whole[25])
    for t in range(25, 60):
        second.update(history[t])
        np.testing.assert_array_equal(second.weights, whole[t + 1])


def test_weights_handed_out_do_not_change():
    online = ParticipationWeights(2)
    before = online.weights
    online.update([True, False])
    online.update([False, True])
    assert before.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        online.weights[0] = 5.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0,), "clients must be an integer of at least 1; got 0"),
        ((2.5,), "clients must be an integer"),
        ((2**70,), r"n_clients must be at most 10\^15; got a number of 22 digits"),
        ((3, 2**70), "cutoff must be at most"),
        ((3, 0), "cutoff must be an integer of at least 1; got 0"),
        ((3, 2.0), "cutoff must be an integer"),
    ],
)
def test_bad_construction_is_a_sentence(arguments, sentence):
    with pytest.raises(InvalidProblem, match=sentence):
        ParticipationWeights(*arguments)


def test_bad_input_is_a_sentence():
    online = ParticipationWeights(3, 4)
    with pytest.raises(InvalidProblem, match="one entry per client, 3; got shape"):
        online.update([True])
    with pytest.raises(InvalidProblem, match="not a list of client ids"):
        online.update([0, 1, 2])
    with pytest.raises(InvalidProblem, match="participated must be finite; entry 0"):
        online.update([None, 1, 0])
    with pytest.raises(InvalidProblem, match="participated must be an array; its rows differ in length"):
        online.update([[1], [0, 1], 0])
    with pytest.raises(InvalidProblem, match="history must be an array; its rows differ in length"):
        weight_error([[1, 0], [1]], [0.5, 0.5])
    assert online.rounds == 0
    with pytest.raises(InvalidProblem, match="has cutoff 5; this object has 4"):
        online.load_state_dict(ParticipationWeights(3, 5).state_dict())
    with pytest.raises(InvalidProblem, match="no entry 'completed'"):
        online.load_state_dict({"clients": 3, "cutoff": 4, "rounds": 0, "elapsed": [], "weights": []})
    with pytest.raises(InvalidProblem, match="do not add up to its 9 rounds"):
        online.load_state_dict(online.state_dict() | {"rounds": 9})
    for rounds in (None, 0.5, float("inf")):
        with pytest.raises(InvalidProblem, match="rounds must be an integer"):
            online.load_state_dict(online.state_dict() | {"rounds": rounds})
    with pytest.raises(InvalidProblem, match="rounds must be at most"):
        online.load_state_dict(online.state_dict() | {"rounds": 10**400})
    seen = {"rounds": 3, "completed": [1, 0, 1], "elapsed": [0, 3, 1], "weights": [3.0, 1.0, 2.0]}
    ParticipationWeights(3, 4).load_state_dict(online.state_dict() | seen)
    for wrong in ({"weights": [3.0, 9.0, 2.0]}, {"completed": [4, 0, 1], "weights": [0.75, 1.0, 2.0]}):
        with pytest.raises(InvalidProblem, match="weights are 1 before the first interval, and never less"):
            online.load_state_dict(online.state_dict() | seen | wrong)
    with pytest.raises(InvalidProblem, match="intervals are cut at 4 rounds"):
        online.load_state_dict(online.state_dict() | seen | {"rounds": 5, "elapsed": [2, 5, 3]})
    assert online.rounds == 0
    for rates in ([], [0.0], [1.1], [np.nan]):
        with pytest.raises(InvalidProblem, match="rates"):
            expected_weight(rates)
