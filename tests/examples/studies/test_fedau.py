"""The FedAU study, with few clients and rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedau
from fedselect.availability import label_rates
from fedselect.training.settings import TrainingSettings
from study import Setup, run_study
from tests.fedselect.data.test_images import write

TINY = fedau.Scale(n_clients=10, rounds=6, seeds=(1,), horizons=(10, 40), equal=(1.0,))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("fedau")
    return run_study(fedau.STUDY, out, jobs=1, scale=TINY)


def only(patterns, monkeypatch):
    """Leave these patterns of participation to the study."""
    for table in ("PATTERNS", "TUNING_SEEDS"):
        monkeypatch.setattr(fedau, table, {name: getattr(fedau, table)[name] for name in patterns})


@pytest.mark.thorough
def test_it_writes_a_row_a_run_tables_and_figures(finished):
    runs = pd.read_csv(finished / "results.csv")
    assert runs.groupby(["pattern", "method"]).size().tolist() == [1] * 21
    assert runs["objective"].gt(0).all()
    rates = runs.set_index("method")[["local rate", "server rate"]].drop_duplicates()
    assert rates.loc["average all"].tolist() == [0.1, 10.0]
    assert len(pd.read_csv(finished / "leads.csv")) == 3 * 6
    equal = pd.read_csv(finished / "results-equal-rates.csv").set_index("method")
    assert equal[["local rate", "server rate"]].drop_duplicates().to_numpy().tolist() == [[0.1, 1.0]]
    leads = pd.read_csv(finished / "leads-equal-rates.csv")
    assert leads[["pattern", "method"]].to_numpy().tolist() == [[p, "known participation"] for p in fedau.PATTERNS]
    own = runs.set_index("method")
    assert own.loc["FedAU, K = 50", "accuracy"].tolist() == equal.loc["FedAU, K = 50", "accuracy"].tolist()
    assert runs["training accuracy"].between(0, 100).all()
    for name in ("weights", "curves"):
        assert (finished / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_a_method_has_one_pair_of_rates_tuned_over_all_patterns(tmp_path, monkeypatch):
    monkeypatch.setattr(fedau, "METHODS", {name: fedau.METHODS[name] for name in fedau.RIVALS})
    only(["Bernoulli", "cyclic"], monkeypatch)
    grid = {"local": (0.03, 0.3), "server": (1.0, 100.0)}
    scale = replace(TINY, n_clients=8, rounds=12, screening=(6, 2), **grid)
    rates, tried = (setup := Setup(scale, "digits", None, tmp_path)).tuned(
        fedau.to_tune(setup), widenings=fedau.WIDENINGS
    )
    tried = fedau.trials(tried)
    for method, own in tried[tried["rounds"] == 6].groupby("method"):
        local, server = own["local rate"].unique(), own["server rate"].unique()
        assert len(own) == len(local) * len(server)  # every pair, each once, of the grid and of what widened it
        assert {*grid["local"]} <= {*local}
        assert {*grid["server"]} <= {*server}
        assert max(len(local), len(server)) <= 2 + 2 * fedau.WIDENINGS
        unsettled = method in fedau.edges(rates, tried[tried["method"] == method])
        assert not unsettled or max(len(local), len(server)) >= 2 + fedau.WIDENINGS  # it was widened every time
    assert tried["objective"].to_numpy() == pytest.approx(tried[list(fedau.PATTERNS)].mean(axis=1))
    for method, own in tried[tried["rounds"] == 12].groupby("method"):
        assert own["objective"].nunique() == len(own) >= 2
        best = own.loc[own["objective"].idxmin()]
        assert (rates[method].learning_rate, rates[method].server_learning_rate) == tuple(best.iloc[2:4])


def test_optima_on_the_edge_of_what_was_tried_are_named():
    tuned = {
        "FedVARP": TrainingSettings(learning_rate=0.01, server_learning_rate=1.0),
        "MIFA": TrainingSettings(learning_rate=0.1, server_learning_rate=1.0),
    }
    rates = [(method, local, server) for method in tuned for local in (0.01, 0.1, 1.0) for server in (0.1, 1.0, 10.0)]
    tried = pd.DataFrame(rates, columns=["method", "local rate", "server rate"])
    assert fedau.edges(tuned, tried).endswith("rates: FedVARP")
    assert fedau.edges({"MIFA": tuned["MIFA"]}, tried[tried["method"] == "MIFA"]).endswith("rates: none")


@pytest.mark.thorough
def test_the_weight_error_without_memory_is_known(finished):
    """K = 1 keeps every weight at 1, so the error is the mean of (p - 1)²."""
    federation = fedau.experiment("Bernoulli", "MIFA", "digits", None, TINY, 1).federation()
    rates = label_rates(federation, 1)
    table = pd.read_csv(finished / "weights.csv").set_index(["T", "K"])
    assert table.loc[(40, 1.0), "Bernoulli"] == pytest.approx(np.mean((rates - 1) ** 2))
    bound = np.log(40) / 40 * 5 + np.mean((1 - rates) ** 10)
    assert table.loc[(40, 5.0), "Theorem 3"] == pytest.approx(bound)
    assert table.loc[(10, 50.0), "Markov"] == table.loc[(10, np.inf), "Markov"]  # no interval reaches 50 rounds


@pytest.mark.thorough
def test_nothing_is_run_twice(finished):
    kept = [*finished.glob("runs/*/*/*"), finished / "weights"]
    before = {path: path.stat().st_mtime_ns for path in kept}
    written = (finished / "results.csv").read_bytes()
    assert run_study(fedau.STUDY, finished.parent, jobs=1, scale=TINY) == finished
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    assert (finished / "results.csv").read_bytes() == written


def runs_of(accuracy):
    """Made-up runs: ``accuracy(pattern, method, seed)``."""
    return pd.DataFrame(
        {"pattern": pattern, "method": method, "seed": seed, "accuracy": accuracy(pattern, method, seed)}
        for pattern in fedau.PATTERNS
        for method in fedau.METHODS
        for seed in range(4)
    )


def test_leads_are_paired_and_compared_with_the_papers():
    def accuracy(pattern, method, seed):
        own = {"FedAU, K = 50": 2.0, "average all": 3.0, "average participating": 0.0, "MIFA": 4.0}.get(method, 2.0)
        return 90 + own + 10 * seed + (seed % 2) * {"known participation": 0.1, "FedVARP": 1.0}.get(method, 0.0)

    table = fedau.leads(runs_of(accuracy)).set_index(["pattern", "method"])
    behind, ahead = table.loc[("cyclic", "average all")], table.loc[("cyclic", "average participating")]
    assert (behind["lead"], behind["verdict"]) == (pytest.approx(-1), "behind, unlike the paper")
    assert (ahead["lead"], ahead["verdict"]) == (pytest.approx(2), "ahead, by less than in the paper")
    assert ahead["paper's leads"] == "2.7 to 5.9"
    # Differences of 0, -0.1, 0, -0.1: mean -0.05, interval 3.182 * 0.0577 / 2.
    known = table.loc[("Bernoulli", "known participation")]
    assert (known["lead"], known["+-"]) == (pytest.approx(-0.05), pytest.approx(0.0919, abs=1e-4))
    assert known["verdict"] == "within a point"
    assert table.loc[("Bernoulli", "FedVARP"), "verdict"] == "open"  # ten times as wide
    assert table.loc[("Markov", "MIFA"), "verdict"] == "behind"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-1, 1, "open"),
        (3, 4, "ahead, as in the paper"),
        (0.1, 0.4, "ahead, by less than in the paper"),
        (80, 90, "ahead, by more than in the paper"),
        (-3, -2, "behind, unlike the paper"),
    ],
)
def test_verdicts_weigh_the_interval_against_the_papers_leads(low, high, verdict):
    assert fedau._verdict(low, high, np.array([2.4, 6.1, 3.5, 3.2])) == verdict
    assert fedau._verdict(1, 2, np.array([-0.2, 1.2, 0.3, 0.2])) == "ahead, where the paper has both"
    assert fedau._verdict(1, 2, np.array([])) == "ahead"


def test_orders_compare_with_each_data_set():
    def accuracy(pattern, method, seed):
        return fedau.PUBLISHED[pattern].get(method, (0, 0, 0, 0))[2]

    table = fedau.orders(runs_of(accuracy)).set_index("pattern")
    assert table["cifar100"].tolist() == pytest.approx([1, 1, 1])
    assert table.loc["Bernoulli", "cinic10"] == pytest.approx(0.9)  # the two FedAUs change places


def test_published_numbers_are_ordered_as_the_poster_has_them():
    assert fedau.PUBLISHED_TRAINING.keys() == fedau.PUBLISHED.keys()
    for pattern, methods in fedau.PUBLISHED.items():
        training, test = (pd.DataFrame(each[pattern]) for each in (fedau.PUBLISHED_TRAINING, fedau.PUBLISHED))
        assert training.gt(test).all(axis=None)
        table = pd.DataFrame(methods, index=fedau.IMAGES)
        naive = table[["average participating", "average all"]]
        assert table[["FedAU, K = ∞", "FedAU, K = 50"]].gt(naive.max(axis=1), axis=0).all(axis=None)
        assert table["known participation"].gt(naive.max(axis=1)).all()
        # Leaving absent clients out beats counting them as no change, but for cyclic participation.
        assert (naive["average all"] > naive["average participating"]).eq(pattern == "cyclic").all()
    assert fedau.PUBLISHED["Markov"]["known participation"] == (88.6, 76.9, 50.3, 60.7)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:An input array is constant")  # one round teaches little
def test_the_papers_data_are_held_against_its_own_numbers(tmp_path, monkeypatch):
    write("svhn", tmp_path, monkeypatch)
    scale = fedau.Scale(n_clients=5, rounds=1, seeds=(1,), horizons=(10,), equal=(1.0,))
    run_study(fedau.STUDY, tmp_path, dataset="svhn", root=tmp_path, jobs=1, scale=scale)
    table = pd.read_csv(tmp_path / "quick-svhn" / "accuracy.csv").set_index(["pattern", "method"])
    assert table.loc[("cyclic", "average all"), "paper"] == 87.4
    assert table.loc[("cyclic", "average all"), "verdict"] == "too few"  # one seed
