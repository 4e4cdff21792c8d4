"""Availability: pure functions of (seed, round, client), FedGS's modes, and the rates they promise."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fedselect.availability
from fedselect.availability import (
    AVAILABILITY,
    DROPOUT,
    Independent,
    LabelCycle,
    SinLognormal,
    bernoulli,
    ca_fed,
    label_cycle,
    lognormal,
    markov,
    record,
    success_classes,
)
from fedselect.data import Federation, Samples, digits, synthetic
from fedselect.errors import ConfigError

FILELESS = [name for name in AVAILABILITY.names if name not in ("trace", "seconds")]
FEDGS = ["IDL", "MDF", "LDF", "YMF", "YC", "LN", "SLN"]


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=100)


def holding(*labels, classes=10):
    """A federation whose client k holds the k-th list of labels."""
    clients = tuple(Samples(np.zeros((len(own), 1)), np.array(own)) for own in labels)
    return Federation("made up", clients, clients[0], classes)


@pytest.mark.parametrize("name", [*FILELESS, *FEDGS])
def test_a_round_is_the_same_whenever_it_is_asked_for(federation, name):
    rounds = 40
    forward = AVAILABILITY.build(name, federation, 3)
    expected = [forward.available(t) for t in range(rounds)]
    backward = AVAILABILITY.build(name, federation, 3)
    assert np.array_equal([backward.available(t) for t in reversed(range(rounds))], expected[::-1])
    jumping = AVAILABILITY.build(name, federation, 3)
    for t in np.random.default_rng(0).integers(rounds, size=60):
        assert np.array_equal(jumping.available(int(t)), expected[t])
    fresh = AVAILABILITY.build(name, federation, 3)
    assert np.array_equal(fresh.available(rounds - 1), expected[-1])


@pytest.mark.parametrize("name", FILELESS)
def test_answers_are_masks_and_probabilities_that_belong_to_the_caller(federation, name):
    model = AVAILABILITY.build(name, federation, 0)
    there, rates = model.available(4), model.rates(4)
    assert there.shape == rates.shape == (100,)
    assert there.dtype == bool
    assert ((rates >= 0) & (rates <= 1)).all()
    there[:] = ~there
    rates[:] = -1
    assert not np.array_equal(model.available(4), there)
    assert (model.rates(4) >= 0).all()


@pytest.mark.parametrize("name", FILELESS)
def test_no_model_touches_the_global_generator(federation, name):
    before = np.random.get_state()[1].copy()  # noqa: NPY002  (this is the point)
    AVAILABILITY.build(name, federation, 0).available(3)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_rounds_and_seeds_differ(federation):
    model = AVAILABILITY.build("bernoulli", federation, 0)
    other = AVAILABILITY.build("bernoulli", federation, 1)
    assert not np.array_equal(model.available(0), model.available(1))
    assert not np.array_equal(model.available(0), other.available(0))


def test_everyone_is_there_in_the_ideal_case(federation):
    assert AVAILABILITY.build("ideal", federation, 0).available(17).all()


def test_frequencies_approach_the_rates():
    """4 000 rounds: the standard error of a frequency is at most 0.008; five of them are allowed."""
    rates = np.linspace(0, 1, 11)
    model = Independent(rates, 5)
    frequency = np.mean([model.available(t) for t in range(4000)], axis=0)
    assert np.abs(frequency - rates).max() < 5 * 0.008
    assert frequency[0] == 0
    assert frequency[-1] == 1


@pytest.mark.parametrize(("beta", "mean"), [(0.1, 0.774), (0.5, 0.232), (0.7, 0.109), (0.9, 0.041)])
def test_lognormal_rates_have_the_published_means(federation, beta, mean):
    """Mean active rates over 200 seeds at N = 100, computed from the authors' formula."""
    rates = np.array([AVAILABILITY.build("lognormal", federation, seed, beta=beta).rates(0) for seed in range(200)])
    assert rates.max(axis=1).tolist() == [1.0] * 200
    assert rates.mean() == pytest.approx(mean, rel=0.06)


def test_lognormal_zero_is_full_availability(federation):
    assert (AVAILABILITY.build("lognormal", federation, 0, beta=0.0).rates(0) == 1).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f: AVAILABILITY.build("lognormal", f, 0, beta=1.0), r"beta must lie in \[0, 1\); got 1.0"),
        (lambda f: AVAILABILITY.build("bernoulli", f, 0, rate=0.0), "none would ever be there"),
        (lambda f: AVAILABILITY.build("bernoulli", f, 0, rate=1.5), "client 0 has 1.5"),
        (lambda f: Independent(np.array([0.5, np.nan]), 0), "client 1 has nan"),
        (lambda f: Independent(["often", "seldom"], 0), "availability rates must be one number per client: could not"),
        (lambda f: Independent([2**70, 1], 0), "client 0 has 1.18"),
        (lambda f: bernoulli(f, 0, rate=None), "availability rates must be one number per client|client 0 has nan"),
        (lambda f: markov(f, 0, rate="often"), "availability rates must be one number per client: could not convert"),
        (lambda f: success_classes(4, rates=[0.5, None]), "return rates must be one number|client 2 has nan"),
        (lambda f: AVAILABILITY.build("sometimes", f, 0), "there is no availability 'sometimes'"),
        (lambda f: DROPOUT.build("bernoulli", 5, 0, rate=-0.1), r"dropout rate must lie in \[0, 1\]; got -0.1"),
    ],
)
def test_bad_rates_are_sentences(federation, call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call(federation)


# -- FedGS's modes -------------------------------------------------------------------------------------------------


def test_more_and_less_data_first_are_power_laws_of_the_sizes():
    federation = holding([0] * 10, [0] * 40, [0] * 20)
    more = AVAILABILITY.build("MDF", federation, 0, beta=0.5).rates(7)
    less = AVAILABILITY.build("LDF", federation, 0, beta=0.5).rates(7)
    assert more == pytest.approx([0.5, 1, np.sqrt(0.5)])
    assert less == pytest.approx([1, 0.5, np.sqrt(0.5)])
    assert (AVAILABILITY.build("MDF", federation, 0, beta=0).rates(0) == 1).all()


def test_data_first_rates_on_synthetic_sizes_have_the_known_means():
    """About 0.58 for LDF-0.7 and 0.19 for MDF-0.7 (computed from the authors' formula), over 30 seeds."""
    means = {"LDF": [], "MDF": []}
    for seed in range(30):
        sizes = synthetic(seed=seed, dimension=1).sizes
        federation = holding(*([0] * n for n in sizes))
        for name, found in means.items():
            found.append(AVAILABILITY.build(name, federation, 0, beta=0.7).rates(0).mean())
    assert np.mean(means["LDF"]) == pytest.approx(0.58, abs=0.08)
    assert np.mean(means["MDF"]) == pytest.approx(0.19, abs=0.06)


def test_max_label_first_counts_the_smallest_label():
    """With β = 0.9 and ten classes, smallest labels 0 to 9 give 0.1, 0.2, ..., 1."""
    federation = holding(*([label, 9, 9] for label in range(10)))
    assert AVAILABILITY.build("YMF", federation, 0).rates(3) == pytest.approx(np.arange(1, 11) / 10)
    assert AVAILABILITY.build("YMaxFirst", holding([0], classes=1), 0, beta=0.5).rates(0) == pytest.approx([0.5])
    with pytest.raises(ConfigError, match="none would ever be there"):
        AVAILABILITY.build("YMF", holding([0, 3], [0]), 0, beta=1.0)


def test_label_cycle_is_the_authors_formula():
    """I = 1 when y/L < r <= (y+1)/L for some label y, r = (1 + t mod T)/T, T = 10 L; a label is on ten rounds."""
    labels = ([0, 3], [9], [4, 5, 6], [1])
    model = AVAILABILITY.build("YC", holding(*labels), 0, beta=0.5)
    for t in range(230):
        r = (1 + t % 100) / 100
        inside = [any(y / 10 < r <= (y + 1) / 10 for y in own) for own in labels]
        assert model.rates(t).tolist() == np.where(inside, 1.0, 0.5).tolist()


def test_label_cycle_as_in_flgo():
    """Its window is the interval from the smallest to the largest label, over 24 rounds."""
    labels = ([0, 3], [9], [4, 6])
    model = AVAILABILITY.build("YC", holding(*labels), 0, beta=0.9, convention="flgo")
    for t in range(60):
        r = (1 + t % 24) / 24
        inside = [min(own) / 9 <= r <= max(own) / 9 for own in labels]
        assert model.rates(t) == pytest.approx(np.where(inside, 1.0, 0.1))


def test_sin_lognormal_is_lognormal_times_a_sine_with_both_ends(federation):
    fixed = AVAILABILITY.build("LN", federation, 5).rates(0)
    model = AVAILABILITY.build("SLN", federation, 5)
    wave = 0.5 + 0.4 * np.sin(np.linspace(0, 2 * np.pi, 24))
    for t in (0, 5, 23, 24, 100):
        assert model.rates(t) == pytest.approx(fixed * wave[t % 24])
    assert SinLognormal.factors.mean() == pytest.approx(0.5)
    assert SinLognormal.factors.min() == pytest.approx(0.1009, abs=1e-4)
    assert SinLognormal.factors.max() == pytest.approx(0.8991, abs=1e-4)


@pytest.mark.parametrize(("beta", "mean"), [(0.1, 0.809), (0.5, 0.310), (0.7, 0.176), (0.9, 0.089)])
def test_lognormal_rates_of_thirty_clients(beta, mean):
    federation = holding(*([0] for _ in range(30)))
    rates = [AVAILABILITY.build("LN", federation, seed, beta=beta).rates(0) for seed in range(300)]
    assert np.mean(rates) == pytest.approx(mean, rel=0.08)


@pytest.mark.parametrize(
    ("clients", "first"),
    [(30, [0.31579, 0.303088, 0.673992, 0.137001, 0.548816]), (100, [0.142895, 0.137147, 0.30498, 0.061993, 0.248338])],
)
def test_lognormal_rates_are_the_authors_on_the_authors_numbers(monkeypatch, clients, first):
    """Their first five rates at β = 0.5 come from NumPy's seed 21; here its generator stands in for ours."""
    from fedselect.availability import independent

    monkeypatch.setattr(independent, "generator", lambda *_: np.random.RandomState(21))
    rates = AVAILABILITY.build("LN", holding(*([0] for _ in range(clients))), 0, beta=0.5).rates(0)
    assert rates[:5] == pytest.approx(first, abs=1e-5)


def test_lognormal_beta_sets_the_standard_deviation_of_the_logs():
    """Over 4 000 clients the standard error of a standard deviation is 1.1 %; five of them are allowed."""
    federation = holding(*([0] for _ in range(4000)))
    logs = np.log(AVAILABILITY.build("LN", federation, 0, beta=0.5).rates(0))
    assert logs.std() == pytest.approx(np.log(2), rel=0.056)


# -- nobody there --------------------------------------------------------------------------------------------------


def test_a_round_without_anybody_passes():
    model = Independent(np.array([0.01, 0.01]), 0)
    assert not all(model.available(t).any() for t in range(20))


def test_redraw_conditions_on_somebody_being_there():
    """The law given that somebody is there; 8 000 rounds, five standard errors of at most 0.0056."""
    rates = np.array([0.0, 0.05, 0.2, 0.1, 0.0])
    model = Independent(rates, 2, empty="redraw")
    drawn = np.array([model.available(t) for t in range(8000)])
    assert drawn.any(axis=1).all()
    expected = rates / (1 - np.prod(1 - rates))
    assert model.rates(0) == pytest.approx(expected)
    assert np.abs(drawn.mean(axis=0) - expected).max() < 5 * 0.0056
    both = (drawn[:, 1] & drawn[:, 2]).mean()  # pairs too: P(both | somebody)
    assert both == pytest.approx(0.05 * 0.2 / (1 - np.prod(1 - rates)), abs=5 * np.sqrt(0.032 / 8000))


def test_redraw_leaves_alone_rounds_in_which_somebody_is_there(federation):
    passing, redrawn = (AVAILABILITY.build("SLN", federation, 1, empty=empty) for empty in ("pass", "redraw"))
    assert all(np.array_equal(passing.available(t), redrawn.available(t)) for t in range(30))


def test_redraw_passes_rounds_in_which_nobody_can_come():
    """β = 1 and no client of label 0: the authors' loop would never end."""
    model = AVAILABILITY.build("YC", holding([1], [2]), 0, beta=1.0, empty="redraw")
    assert not model.available(0).any()
    assert model.rates(0).tolist() == [0, 0]
    assert model.available(10).tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("MDF", {"beta": -1.0}, "beta must be a number of at least 0; got -1.0"),
        ("YMF", {"beta": 1.1}, r"beta must lie in \[0, 1\]; got 1.1"),
        ("YC", {"convention": "paper"}, "option 'convention' must be .*'code'.*'flgo'.*; got 'paper'"),
        ("YC", {"rounds_per_label": 0}, "rounds_per_label must be a positive integer; got 0"),
        ("SLN", {"empty": "skip"}, "empty must be 'pass' or 'redraw'; got 'skip'"),
    ],
)
def test_bad_options_of_the_modes_are_sentences(federation, name, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AVAILABILITY.build(name, federation, 0, **options)


def test_the_authors_own_rates_by_seed():
    """The reference vector of seed 0, N = 30 and β = 0.5; another seed is another generator."""
    data = digits(n_clients=30)
    first, other = (AVAILABILITY.build("lognormal", data, seed, convention="code").rates(0) for seed in (0, 1))
    assert first[:5] == pytest.approx([0.31579, 0.303088, 0.673992, 0.137001, 0.548816], abs=1e-5)
    assert not np.allclose(first, other)
    sine = AVAILABILITY.build("sin-lognormal", data, 0, convention="code")
    assert sine.rates(5) == pytest.approx(first * sine.factors[5])


@pytest.mark.parametrize(("registry", "clients"), [(AVAILABILITY, "federation"), (DROPOUT, "n_clients")])
def test_every_model_is_a_function_of_one_shape_that_can_be_imported(registry, clients):
    """``lognormal(federation, seed=0, *, options)``; the registry holds that very function."""
    functions = [registry[name] for name in registry.names if name not in ("trace", "seconds")]
    functions = [each for each in functions if each.__module__.startswith("fedselect.")]
    assert len(functions) >= 4
    for function in functions:
        first, seed, *options = inspect.signature(function).parameters.values()
        assert (first.name, seed.name, seed.default) == (clients, "seed", 0)
        assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)
        assert getattr(fedselect.availability, function.__name__) is function
        assert function.__name__ in fedselect.availability.__all__


def test_a_function_builds_what_the_registry_builds(federation):
    built = AVAILABILITY.build("LN", federation, 3, beta=0.7)
    called = fedselect.availability.lognormal(federation, beta=0.7, seed=3)
    assert np.array_equal(record(called, 20), record(built, 20))
    same = DROPOUT.build("bernoulli", 9, 2, rate=0.4)
    assert np.array_equal(fedselect.availability.bernoulli_dropout(9, rate=0.4, seed=2).returned(5), same.returned(5))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda data: lognormal(data, convention="own"), "convention must be 'paper' or 'code'; got 'own'"),
        (lambda data: label_cycle(data, convention="fedgs"), "convention must be 'code' or 'flgo'; got 'fedgs'"),
        (
            lambda data: ca_fed(data, convention="design"),
            "'paper', 'code' or 'authors'; got 'design'",
        ),
    ],
)
def test_an_unknown_convention_is_a_sentence_without_the_registry_too(federation, call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call(federation)


def test_a_window_is_held_for_a_round_at_least():
    with pytest.raises(ConfigError, match="hold must be a positive integer; got 0"):
        LabelCycle(np.ones((2, 3)), 0, 0.5, 0)
