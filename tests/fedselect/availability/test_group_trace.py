"""Groups that come and go together: rates, sessions, and a least number in each group."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.availability import AVAILABILITY, GroupTrace
from fedselect.data import clustered, digits
from fedselect.errors import ConfigError, DataError

PAIRS = np.repeat([0, 1], 10_000)


@pytest.mark.parametrize("session", [0.0, 0.7])
def test_shares_of_each_group_are_the_rates(session):
    """10 000 exchangeable clients a group: five standard errors of at most 0.005."""
    model = GroupTrace(PAIRS, 3, session=session)
    for t in [*range(40), 700]:
        there = model.available(t)
        for group, rate in enumerate(model.group_rates(t)):
            assert there[group == PAIRS].mean() == pytest.approx(rate, abs=5 * 0.005)
            assert (model.rates(t)[group == PAIRS] == rate).all()


def test_the_wave_is_shifted_by_group():
    model = GroupTrace(np.arange(4), 0, noise=0.0, amplitude=0.8, mean=0.5, least=0.2)
    t = np.arange(48)
    for group in range(4):
        expected = np.clip(0.5 * (1 + 0.8 * np.sin(2 * np.pi * (t / 24 + group / 4))), 0.2, 1)
        assert [model.group_rates(int(s))[group] for s in t] == pytest.approx(expected)


def test_the_disturbance_is_a_stationary_ar_process():
    """A mean of 0.5 without amplitude leaves the disturbance: standard deviation 0.05, lag-1 correlation 0.8."""
    model = GroupTrace(np.arange(200), 0, amplitude=0.0, noise=0.05, noise_memory=0.8)
    found = np.array([model.group_rates(t) for t in range(400)]) - 0.5
    assert found[0].std() == pytest.approx(0.05, rel=0.25)  # five standard errors of 1/sqrt(400)
    assert found.std() == pytest.approx(0.05, rel=0.05)
    assert np.corrcoef(found[:-1].ravel(), found[1:].ravel())[0, 1] == pytest.approx(0.8, abs=0.02)
    later = GroupTrace(np.arange(200), 0, amplitude=0.0, noise=0.05, noise_memory=0.8)
    later.group_rates(5)  # the past is drawn again, the same, when a later round is asked for
    assert np.array_equal(later.group_rates(399), model.group_rates(399))


def test_sessions_last():
    """With constant rates the correlation from round to round is the session's; N = 20 000."""
    model = GroupTrace(PAIRS, 0, amplitude=0.0, noise=0.0, mean=0.3, session=0.7)
    before, now = model.available(10), model.available(11)
    assert np.corrcoef(before, now)[0, 1] == pytest.approx(0.7, abs=5 / np.sqrt(20_000))


def test_turns_have_one_group_at_a_time():
    model = GroupTrace(np.arange(100) % 4, 0, pattern="turns", mean=1.0, least=0.0, period=24)
    for t in range(60):
        assert np.array_equal(model.available(t), np.arange(100) % 4 == t // 6 % 4)


def test_the_published_calibration_of_the_generator():
    """Ten groups of ten, mean 0.5, swing 0.9: a total variation of about 0.305, 11 % empty groups, 50 available."""
    groups = np.repeat(np.arange(10), 10)
    model = GroupTrace(groups, 0, noise=0.0)
    counts = np.array([np.bincount(groups[model.available(t)], minlength=10) for t in range(960)])
    variation = 0.5 * np.abs(counts / counts.sum(axis=1, keepdims=True) - 0.1).sum(axis=1)
    assert variation.mean() == pytest.approx(0.305, abs=0.015)
    assert (counts == 0).mean() == pytest.approx(0.11, abs=0.015)
    assert counts.sum(axis=1).mean() == pytest.approx(50, abs=1)


@pytest.mark.parametrize("session", [0.0, 0.6])
def test_per_group_calls_members_in_and_rates_know(session):
    """Three groups of 4, 2 and 1 clients, at least two in each: rates against 4 000 rounds, five standard errors."""
    groups = np.array([0, 1, 0, 2, 1, 0, 0])
    options = {"amplitude": 0.0, "noise": 0.0, "mean": 0.3, "session": session}
    model = GroupTrace(groups, 1, per_group=2, **options)
    seen = np.array([model.available(t) for t in range(4000)])
    assert (seen[:, groups == 0].sum(axis=1) >= 2).all()
    assert seen[:, groups != 0].all()
    assert model.rates(0)[groups != 0] == pytest.approx(1)
    expected = model.rates(0)[0]
    # E max(X, 2) / 4, X ~ Bin(4, 0.3)
    assert expected == pytest.approx(
        (2 * (0.7**4 + 4 * 0.3 * 0.7**3 + 6 * 0.09 * 0.49) + 3 * 4 * 0.027 * 0.7 + 4 * 0.0081) / 4
    )
    spread = 0.5 / np.sqrt(4000) * np.sqrt((1 + session) / (1 - session))
    assert np.abs(seen[:, groups == 0].mean(axis=0) - expected).max() < 5 * spread
    # The chain goes on as if nobody had been called in.
    free = GroupTrace(groups, 1, **options)
    assert all((seen[t] >= free.available(t)).all() for t in range(50))


def test_groups_are_main_labels_or_clusters():
    federation = digits(n_clients=30)
    model = AVAILABILITY.build("fedss", federation, 0)
    assert np.array_equal(model.groups, np.unique(federation.label_counts.argmax(axis=1), return_inverse=True)[1])
    pairs = clustered(samples=2, test_samples=1)
    assert np.array_equal(AVAILABILITY.build("group-trace", pairs, 0, groups="cluster").groups, pairs.groups)
    with pytest.raises(DataError, match="needs data with clusters of clients; digits has none"):
        AVAILABILITY.build("group-trace", federation, 0, groups="cluster")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pattern": "tide"}, "pattern must be 'wave' or 'turns'; got 'tide'"),
        ({"groups": "country"}, "groups must be 'label' or 'cluster'; got 'country'"),
        ({"mean": 1.5}, r"mean must lie in \[0, 1\]; got 1.5"),
        ({"session": 1.0}, r"session must lie in \[0, 1\); got 1.0"),
        ({"period": 0}, "period must be a positive integer; got 0"),
        ({"noise": -0.1}, "noise must be a number of at least 0; got -0.1"),
        ({"mean": 0.0, "least": 0.0, "noise": 0.0}, "none would ever be there"),
    ],
)
def test_bad_options_are_sentences(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AVAILABILITY.build("group-trace", digits(n_clients=20), 0, **options)
