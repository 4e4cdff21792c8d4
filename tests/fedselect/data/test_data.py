"""Partitions cover what they should, and digits keep the test set apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from fedselect.data import PARTITIONS, Federation, Samples, digits
from fedselect.data.partitions import (
    dirichlet,
    dirichlet_per_class,
    dirichlet_prior,
    feature_noise,
    iid,
    load_data,
    natural,
    two_label,
)
from fedselect.errors import ConfigError, DataError
from tests.thoroughly import tried


@st.composite
def labellings(draw):
    classes = draw(st.integers(2, 6))
    counts = draw(st.lists(st.integers(30, 60), min_size=classes, max_size=classes))
    labels = np.repeat(np.arange(classes), counts)
    return np.random.default_rng(draw(st.integers(0, 2**31))).permutation(labels)


@tried(
    25,
    100,
    labellings(),
    st.integers(1, 20),
    st.integers(0, 2**31),
    st.sampled_from(["iid", "two-label", "dirichlet", "dirichlet-prior"]),
)
def test_every_sample_goes_to_exactly_one_client(labels, clients, seed, name):
    parts = PARTITIONS.build(name, labels, clients, np.random.default_rng(seed))
    assert len(parts) == clients
    assert all(part.size > 0 for part in parts)
    held = np.sort(np.concatenate(parts))
    if name != "two-label" or 2 * clients >= np.unique(labels).size:
        assert held.tolist() == list(range(labels.size))
    assert np.unique(held).size == held.size


@tried(25, 100, labellings(), st.integers(1, 20), st.integers(0, 2**31))
def test_two_label_clients_have_two_labels_with_balanced_owners(labels, clients, seed):
    parts = two_label(labels, clients, np.random.default_rng(seed))
    held = [np.unique(labels[part]) for part in parts]
    assert all(each.size == 2 for each in held)
    owners = np.bincount(np.concatenate(held), minlength=np.unique(labels).size)
    assert owners.max() - owners.min() <= 1
    for label in np.flatnonzero(owners):
        sizes = [int((labels[part] == label).sum()) for part in parts if (labels[part] == label).any()]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("partition", [dirichlet, dirichlet_prior])
def test_concentration_moves_the_mix_from_one_label_to_all(partition):
    labels = np.repeat(np.arange(10), 400)
    spread = {}
    for concentration in (0.05, 1.0, 1000.0):
        parts = partition(labels, 20, np.random.default_rng(0), concentration=concentration)
        mixes = np.array([np.bincount(labels[part], minlength=10) / part.size for part in parts])
        spread[concentration] = float((mixes**2).sum(axis=1).mean())  # 1: one label each; 0.1: all alike
    assert spread[0.05] > 0.7 > 0.5 > spread[1.0] > 0.15 > spread[1000.0]


def test_dirichlet_is_the_convention_of_niid_bench_and_flower():
    """Each label is split by shares of a symmetric Dirichlet; clients that have their part get no more of it."""
    labels = np.repeat(np.arange(10), 400)

    def commonest(partition, **options):
        parts = [p for seed in range(5) for p in partition(labels, 50, np.random.default_rng(seed), **options)]
        return np.mean([np.bincount(labels[part]).max() / part.size for part in parts])

    rng, expected = np.random.default_rng(9), []
    for _ in range(40):
        gammas = rng.dirichlet(np.full(50, 0.1), size=10)
        expected += (gammas / gammas.sum(axis=0)).max(axis=0).tolist()
    assert commonest(dirichlet, concentration=0.1, balanced=False) == pytest.approx(np.mean(expected), abs=0.03)
    assert 0.68 < commonest(dirichlet, concentration=0.1) < 0.78
    assert commonest(dirichlet_per_class, concentration=0.1) == pytest.approx(np.mean(expected), abs=0.03)
    assert commonest(dirichlet_prior, concentration=0.1) > 0.9  # α is shared by the labels
    assert commonest(dirichlet_prior, concentration=1.0) == pytest.approx(np.mean(expected), abs=0.03)
    sizes = [p.size for p in dirichlet(labels, 50, np.random.default_rng(0), concentration=0.1)]
    assert max(sizes) <= 80 + 400  # a client below its part may still get one label whole
    held = np.zeros(50)
    for label, part in (
        (label, parts) for parts in [dirichlet(labels, 50, np.random.default_rng(1))] for label in range(10)
    ):
        here = np.array([int((labels[each] == label).sum()) for each in part])
        assert not here[held >= 80].any()
        held += here


def test_tiny_concentration_leaves_nobody_empty():
    parts = dirichlet(np.repeat(np.arange(3), 20), 30, np.random.default_rng(0), concentration=1e-4)
    assert min(part.size for part in parts) == 1
    assert sum(part.size for part in parts) == 60


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda rng: iid(np.zeros(3, int), 4, rng), "between 1 and the number of samples, 3; got 4"),
        (lambda rng: two_label(np.zeros(3, int), 2, rng), "labels_per_client must lie between 1 and 1; got 2"),
        (lambda rng: two_label(np.array([0, 0, 0, 1]), 3, rng), "label 1 has 1 samples for 3 clients"),
        (lambda rng: dirichlet(np.zeros(3, int), 2, rng, concentration=0), "concentration must be positive; got 0"),
    ],
)
def test_impossible_splits_are_sentences(call, sentence):
    with pytest.raises(DataError, match=sentence):
        call(np.random.default_rng(0))


def test_digits_keep_the_test_set_from_every_client():
    from sklearn.datasets import load_digits

    federation = digits(n_clients=50)
    held = np.concatenate([samples.features for samples in federation.datasets] + [federation.test.features])
    whole = (load_digits().data / 16).astype(np.float32)
    assert held.shape == whole.shape == (1797, 64)
    assert np.array_equal(np.unique(held, axis=0), np.unique(whole, axis=0))
    assert len(federation.test) == 360
    assert np.bincount(federation.test.labels).min() >= 34  # stratified: 10 classes of about 36


def test_digits_split_depends_on_its_seed_alone():
    first, again, other = digits(n_clients=20), digits(n_clients=20), digits(n_clients=20, seed=1)
    assert all(np.array_equal(a.features, b.features) for a, b in zip(first.datasets, again.datasets, strict=True))
    assert not np.array_equal(first.test.features, other.test.features)


def test_label_distributions_are_shares():
    federation = digits(n_clients=20, partition="dirichlet", concentration=0.3)
    assert federation.label_distributions.shape == (20, 10)
    assert np.allclose(federation.label_distributions.sum(axis=1), 1)
    assert federation.sizes.sum() == 1797 - 360


def test_unknown_partition_options_are_refused():
    with pytest.raises(ConfigError, match="partition 'iid' has no option 'concentration'"):
        digits(partition="iid", concentration=1.0)


def test_samples_and_federations_check_themselves():
    good = Samples(np.zeros((2, 3)), [0, 1])
    with pytest.raises(DataError, match="2 samples need as many labels"):
        Samples(np.zeros((2, 3)), [0])
    with pytest.raises(DataError, match="client 1 has no sample"):
        Federation("x", (good, Samples(np.zeros((0, 3)), [])), good, 2)


# -- the papers' partitions ----------------------------------------------------------------------------------------

CIFAR_LABELS = np.repeat(np.arange(10), 500)


def shares(labels, parts):
    return np.array([np.bincount(labels[part], minlength=10) / part.size for part in parts])


def test_fedgs_cifar_clients_have_lognormal_sizes_and_dirichlet_mixes():
    """As in the authors' generator: log-sizes with standard deviation 1, mixes Dir(1.75 p), nearly p on average."""
    parts = PARTITIONS.build("fedgs-cifar10", CIFAR_LABELS, 100, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(5000))
    sizes = np.array([part.size for part in parts])
    assert np.log(sizes).std() == pytest.approx(1, abs=0.35)
    assert sizes.max() > 5 * np.median(sizes) / 2
    # Under Dir(1.75 p) the expected sum of squared shares is (1.75/10 + 1) / (1.75 + 1) = 0.427.
    mixes = shares(CIFAR_LABELS, [part for part in parts if part.size >= 20])
    assert (mixes**2).sum(axis=1).mean() == pytest.approx(0.427, abs=0.08)


def test_unequal_sizes_without_spread_are_equal():
    parts = PARTITIONS.build(
        "dirichlet-unequal", CIFAR_LABELS, 20, np.random.default_rng(0), spread=0.0, concentration=1e5
    )
    away = sorted(abs(part.size - 250) for part in parts)
    assert away[-2] < 6  # as in the authors' code, one client takes what is left over, up to 1 % of all
    assert away[-1] <= 50 + 6


@tried(25, 100, labellings(), st.integers(1, 25), st.integers(0, 2**31), st.floats(0, 3))
def test_unequal_sizes_cover_every_sample(labels, clients, seed, spread):
    parts = PARTITIONS.build("dirichlet-unequal", labels, clients, np.random.default_rng(seed), spread=spread)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(labels.size))
    assert min(part.size for part in parts) >= 1


def test_fedau_clients_have_symmetric_dirichlet_mixes():
    """Dir(0.1) for each of ten classes: the expected sum of squared shares is 1.1 / 2 = 0.55 before sizes matter."""
    parts = PARTITIONS.build("fedau", np.repeat(np.arange(10), 5000), 250, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(50_000))
    found = np.array([np.bincount(np.repeat(np.arange(10), 5000)[p], minlength=10) / p.size for p in parts])
    assert (found**2).sum(axis=1).mean() == pytest.approx(0.55, abs=0.06)


def test_e3cs_clients_have_a_primary_label():
    parts = PARTITIONS.build("e3cs", CIFAR_LABELS, 100, np.random.default_rng(0), samples=200)
    mixes = shares(CIFAR_LABELS, parts)
    assert all(part.size == np.unique(part).size == 200 for part in parts)
    assert (mixes.max(axis=1) == 0.8).all()
    primary = np.bincount(mixes.argmax(axis=1), minlength=10)
    assert (primary > 0).sum() >= 8  # labels are drawn, not dealt
    assert (np.bincount(np.concatenate(parts), minlength=5000) > 1).any()  # clients draw by themselves
    assert (mixes > 0).sum(axis=1).mean() > 9  # the rest is spread over the other labels
    strict = PARTITIONS.build("primary-label", CIFAR_LABELS, 10, np.random.default_rng(0), samples=100, share=0.95)
    assert (shares(CIFAR_LABELS, strict).max(axis=1) == 0.95).all()


def test_iid_draws_overlap_between_clients_and_not_inside():
    parts = PARTITIONS.build("iid-draws", CIFAR_LABELS, 20, np.random.default_rng(0), samples=1000)
    assert all(np.unique(part).size == 1000 for part in parts)
    assert np.unique(np.concatenate(parts)).size < 5000 + 1
    assert shares(CIFAR_LABELS, parts).mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=0.01)


@pytest.mark.parametrize("ratio", [0.8, 0.9, 0.95])
def test_fedss_clients_have_a_sorted_block_and_an_iid_rest(ratio):
    parts = PARTITIONS.build("fedss", CIFAR_LABELS, 50, np.random.default_rng(0), ratio=ratio)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(5000))
    assert {part.size for part in parts} == {100}
    mixes = shares(CIFAR_LABELS, parts)
    # A block may straddle two labels; most clients have theirs from one, plus a tenth of the rest.
    assert np.median(mixes.max(axis=1)) == pytest.approx(ratio + (1 - ratio) / 10, abs=0.03)
    assert np.bincount(mixes.argmax(axis=1), minlength=10).min() >= 4


@pytest.mark.parametrize("clients", [7, 13, 100])
def test_fedss_blocks_cover_every_sample_of_odd_numbers(clients):
    labels = np.arange(1003) % 10
    for blocks in (1, 2):
        parts = PARTITIONS.build(
            "fedss", labels, clients, np.random.default_rng(1), ratio=0.9, blocks_per_client=blocks
        )
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1003))
        assert max(p.size for p in parts) - min(p.size for p in parts) <= 1 + blocks


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("fedgs-cifar10", {"concentration": 0.0}, "concentration must be positive; got 0.0"),
        ("fedgs-cifar10", {"spread": -1.0}, "spread must lie between 0 and 10; got -1.0"),
        ("fedau", {"concentration": -1.0}, "concentration must be positive; got -1.0"),
        ("e3cs", {"samples": 900}, "needs 720 samples of it and 180 of the others; there are 500 and 4500"),
        ("e3cs", {"share": 1.5}, "share lie in .*; got 500 and 1.5"),
        ("iid-draws", {"samples": 6000}, "between 1 and the number there is, 5000; got 6000"),
        ("fedss", {"ratio": 1.5}, "ratio must lie in .*; got 1.5 and 1"),
    ],
)
def test_bad_options_of_partitions_are_sentences(name, options, sentence):
    with pytest.raises(DataError, match=sentence):
        PARTITIONS.build(name, CIFAR_LABELS, 10, np.random.default_rng(0), **options)


def test_federations_check_what_comes_with_them():
    good = Samples(np.zeros((2, 3)), [0, 1])
    with pytest.raises(DataError, match="2 clients need as many entries of groups; got 1"):
        Federation("x", (good, good), good, 2, groups=np.zeros(1, dtype=int))


# -- sizes, owners, noise ------------------------------------------------------------------------------------------


def test_natural_clients_are_those_of_the_ids(tmp_path):
    labels, ids = np.arange(7) % 2, ["b", "a", "c", "a", "b", "c", "a"]
    parts = PARTITIONS.build("natural", labels, 3, np.random.default_rng(0), ids=ids)
    assert [part.tolist() for part in parts] == [[1, 3, 6], [0, 4], [2, 5]]
    (tmp_path / "ids.csv").write_text("client\n" + "\n".join(ids) + "\n")
    again = PARTITIONS.build("natural", labels, 3, np.random.default_rng(0), ids_file=str(tmp_path / "ids.csv"))
    assert [part.tolist() for part in again] == [part.tolist() for part in parts]
    seeds = (np.random.default_rng(seed) for seed in range(20))
    drawn = {tuple(map(tuple, PARTITIONS.build("natural", labels, 2, rng, ids=ids))) for rng in seeds}
    assert drawn == {((1, 3, 6), (0, 4)), ((1, 3, 6), (2, 5)), ((0, 4), (2, 5))}


def test_natural_ids_stay_with_their_samples_where_a_test_set_is_taken_out():
    ids = np.arange(90) % 9
    features = np.stack([ids, np.arange(90)], axis=1).astype(np.float32)
    split = Federation.from_split((features, np.arange(90) % 3), "natural", 9, ids=ids, test_fraction=0.3)
    assert [np.unique(each.features[:, 0]).tolist() for each in split.datasets] == [[k] for k in range(9)]
    numbers = Federation.from_split((features, np.linspace(0, 1, 90)), "natural", 9, ids=[f"c{k}" for k in ids])
    assert [np.unique(each.features[:, 0]).tolist() for each in numbers.datasets] == [[k] for k in range(9)]
    assert numbers.classes is None


def test_sizes_are_those_listed_and_the_rest_is_left_out():
    parts = PARTITIONS.build("sizes", np.zeros(50, dtype=int), 3, np.random.default_rng(0), sizes=[20, 5, 7])
    assert [part.size for part in parts] == [20, 5, 7]
    assert np.unique(np.concatenate(parts)).size == 32
    assert digits(n_clients=2, partition="sizes", sizes=[100, 30]).sizes.tolist() == [100, 30]


@tried(25, 100, st.integers(1, 30), st.integers(30, 400), st.floats(0, 50), st.integers(0, 1000))
def test_a_power_law_has_the_sizes_of_its_formula(clients, samples, exponent, seed):
    least = max(1, min(3, samples // clients))
    labels = np.zeros(samples, dtype=int)
    rng = np.random.default_rng(seed)
    parts = PARTITIONS.build("power-law", labels, clients, rng, exponent=exponent, least=least)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(samples))
    shares = np.arange(1, clients + 1) ** -float(exponent)
    wanted = least + (samples - clients * least) * shares / shares.sum()
    found = np.sort([part.size for part in parts])[::-1]
    assert found.min() >= least
    assert np.abs(found - wanted).max() <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("convention", "wanted"), [("paper", [0.2, 0.4, 0.6, 0.8]), ("code", [0.0, 0.64 / 9, 2.56 / 9, 0.64])]
)
def test_noise_of_features_grows_with_the_client_as_in_niid_bench(convention, wanted):
    options = {"n_clients": 4, "validation_fraction": 0.5, "seed": 3}
    plain = digits(partition="iid", **options)
    found = digits(partition="feature-noise", noise=0.8, convention=convention, **options)
    assert np.array_equal(plain.test.features, found.test.features)
    for kind in ("datasets", "validation"):
        added = [
            (b.features - a.features).astype(np.float64)
            for a, b in zip(getattr(plain, kind), getattr(found, kind), strict=True)
        ]
        np.testing.assert_allclose([each.var() for each in added], wanted, rtol=0.05)
        assert max(abs(each.mean()) for each in added) < 0.03
        assert all(
            np.array_equal(a.labels, b.labels) for a, b in zip(getattr(plain, kind), getattr(found, kind), strict=True)
        )
    again = digits(partition="feature-noise", noise=0.8, convention=convention, **options)
    assert all(np.array_equal(a.features, b.features) for a, b in zip(found.datasets, again.datasets, strict=True))
    assert np.array_equal(
        digits(partition="feature-noise", noise=0.0, **options).datasets[3].features, plain.datasets[3].features
    )


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("natural", {}, "natural ids are given as ids, a list, or in ids_file"),
        ("natural", {"ids": [1, 2]}, "one for each of the 1797 samples; got 2"),
        ("natural", {"ids": [0] * 1796 + ["a"]}, "whole numbers or texts, all of one kind"),
        ("natural", {"ids": [k % 3 for k in range(1797)]}, "there are 3 natural clients; n_clients = 4 were asked for"),
        ("natural", {"ids": [0.5] * 1797}, "option 'ids' must be"),
        (
            "sizes",
            {"sizes": [1, 2, 3]},
            "sizes must be 4 positive numbers, .* of at most 1437; got 3 from 1 on, of sum 6",
        ),
        ("sizes", {"sizes": [400] * 4}, "got 4 from 400 on, of sum 1600"),
        ("sizes", {"sizes": [1, 2, 3, 0]}, "from 0 on"),
        ("sizes", {}, "needs the option 'sizes'"),
        ("power-law", {"exponent": -1.0}, "exponent must be a number from 0; got -1"),
        ("power-law", {"least": 400}, "least must lie between 1 and 359"),
        ("feature-noise", {"noise": -0.1}, "noise must be a number from 0"),
        ("feature-noise", {"convention": "both"}, "convention"),
    ],
)
def test_what_these_partitions_refuse_is_a_sentence(name, options, sentence):
    with pytest.raises((DataError, ConfigError), match=sentence):
        Federation.from_split(_digits_pair(), name, 4, **options)


def test_tables_of_natural_ids_that_say_too_little_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("writer\n1\n")
    (tmp_path / "b.csv").write_text('client\n1\n""\n')
    for name, sentence in (
        ("a.csv", "has a column 'client'; found writer"),
        ("b.csv", "row 2 of column 'client' is empty"),
    ):
        with pytest.raises(DataError, match=sentence):
            PARTITIONS.build("natural", np.zeros(2, int), 1, np.random.default_rng(0), ids_file=str(tmp_path / name))


def _digits_pair():
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


@pytest.mark.parametrize("ids", [[1.5, 1.2], [None, 1], [True, False]])
def test_ids_that_are_no_whole_numbers_are_not_cut_to_them(ids):
    with pytest.raises(DataError, match="natural ids must be whole numbers or texts"):
        natural(np.zeros(2, dtype=np.int64), 1, np.random.default_rng(0), ids=ids)


def test_a_convention_of_noise_that_there_is_not_is_refused():
    with pytest.raises(DataError, match="convention must be 'paper' or 'code'; got 'both'"):
        feature_noise(np.zeros(4, dtype=np.int64), 2, np.random.default_rng(0), convention="both")


def test_whole_numbers_of_a_table_are_ids_and_others_are_not(tmp_path):
    pair = _digits_pair()
    for name, ids, accepted in (("a", [1.0, 2.0], True), ("b", [1.5, 2.0], False)):
        path = tmp_path / f"{name}.csv"
        path.write_text("client\n" + "".join(f"{ids[k % 2]}\n" for k in range(len(pair[1]))))
        if accepted:
            assert len(Federation.from_split(pair, "natural", 2, ids_file=str(path))) == 2
        else:
            with pytest.raises(DataError, match="natural ids must be whole numbers or texts"):
                Federation.from_split(pair, "natural", 2, ids_file=str(path))


@pytest.mark.parametrize(("name", "options"), [("synthetic", {}), ("clustered", {}), ("digits", {})])
def test_seeds_below_0_are_sentences(name, options):
    with pytest.raises(DataError, match="seed must be a non-negative integer; got -1"):
        load_data(name, seed=-1, **options)


def test_a_number_of_clients_in_words_is_a_sentence():
    with pytest.raises(DataError, match="there must be at least 1 client; got '5'"):
        Federation.from_split(_digits_pair(), "feature-noise", "5")
