"""The E3CS study: the paper's numbers are transcribed, exact draws are told apart, a second call repeats no work."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import e3cs
from study import run_study


def test_published_tables():
    """Spot checks against Tables II and III, first and last columns and rows among them."""
    letters, cifar = e3cs.published("emnist-letters"), e3cs.published("cifar10")
    assert len(letters) == len(cifar) == 2 * 7 * 8
    assert letters["A", "iid", "E3CS-0", "rounds to 65 %"] == 18
    assert letters["A", "iid", "FedCS", "final accuracy"] == 87.32
    assert np.isnan(letters["A", "non-iid", "FedCS", "rounds to 85 %"])
    assert letters["P", "non-iid", "pow-d", "final accuracy"] == 82.92
    assert cifar["A", "non-iid", "E3CS-inc", "rounds to 65 %"] == 2127
    assert cifar["P", "iid", "Random", "rounds to 55 %"] == 392
    assert cifar["P", "non-iid", "pow-d", "rounds to 45 %"] == 736
    assert e3cs.TASKS["digits"].published == "emnist-letters"


def test_limits_of_the_success_ratio():
    limits = e3cs.limits()
    assert limits["E3CS-0", "madow"] == pytest.approx(0.9)
    assert limits["E3CS-0.5", "successive"] == pytest.approx(0.6875)
    assert limits["E3CS-0.8", "dep-round"] == pytest.approx(0.56)
    assert limits["E3CS-inc", "madow"] == pytest.approx(0.58125)
    assert limits["Random", ""] == pytest.approx(0.475)
    assert limits["FedCS", ""] == pytest.approx(0.9)


@pytest.mark.thorough
def test_exact_draws_keep_the_promise_and_successive_ones_do_not():
    """E3CS-0.5 over 600 rounds: the realised ratio falls about 0.03 short of p's, with standard error 0.0045."""
    found = {draw: e3cs.selected("E3CS-0.5", draw, 600, 0) for draw in e3cs.DRAWS}
    beyond = {draw: each["ratio"][-1] - each["promised"].mean() for draw, each in found.items()}
    assert beyond["successive"] < -0.015
    assert abs(beyond["madow"]) < 0.015
    assert abs(beyond["dep-round"]) < 0.015


def test_speed_ups_are_taken_within_a_seed():
    rows = pd.DataFrame(
        [
            ("A", "iid", scheme, "", seed, measure, value)
            for seed, scheme, measure, value in [
                (0, "Random", "rounds to 65 %", 20.0),
                (0, "FedCS", "rounds to 65 %", 10.0),
                (1, "Random", "rounds to 65 %", 30.0),
                (1, "FedCS", "rounds to 65 %", np.nan),
                (0, "Random", "final accuracy", 90.0),
                (0, "FedCS", "final accuracy", 87.5),
            ]
        ],
        columns=["update", "partition", "scheme", "draw", "seed", "measure", "value"],
    )
    relative = e3cs.against_random(rows).query("scheme == 'FedCS'")
    assert relative["measure"].tolist() == ["speed-up to 65 %", "speed-up to 65 %", "accuracy above Random's"]
    np.testing.assert_allclose(relative["value"], [2.0, np.nan, -2.5])


@pytest.mark.parametrize("dataset", ["emnist-letters", "cifar10"])
def test_the_papers_own_numbers_agree_with_the_paper(dataset):
    """Nothing is lost or mixed up on the way from its table to ours: every cell agrees, every order is its own."""
    rows = pd.DataFrame(
        [
            (*key[:3], "successive" if key[2] in e3cs.QUOTAS else "", seed, key[3], value)
            for key, value in e3cs.published(dataset).items()
            for seed in (0, 1, 2)
        ],
        columns=["update", "partition", "scheme", "draw", "seed", "measure", "value"],
    )
    for relative, cells in ((False, 2 * 7 * 8), (True, 2 * 6 * 8)):
        table = e3cs.beside(rows, dataset, relative)
        assert len(table) == cells
        assert set(table["verdict"]) == {"agrees", ""}  # "" where a threshold is never reached
    orders = e3cs.orders(rows, dataset)
    np.testing.assert_allclose(orders["tau"].dropna(), 1)
    assert orders["tau"].isna().sum() == (dataset == "cifar10")  # FedProx, non-iid: nobody reaches 65 %
    assert (orders["paper's order"] == orders["our order"]).all()
    assert set(orders["verdict"].dropna()) <= {"agrees", "not beyond chance"}
    assert set(e3cs.orders(rows[rows["seed"] < 2], dataset)["verdict"]) == {"too few"}


def test_what_an_exact_draw_changes():
    """Paired by seed; the late accuracy alone is tested, with Holm over both partitions."""
    noise = np.array([-0.3, 0.1, 0.2, 0.0])  # its t-interval is ± 0.344
    rows = [
        {"partition": partition, "draw": draw, "seed": 100 + seed, "late accuracy": 80 + 5 * seed + extra}
        | {"success ratio": 0.6, "final accuracy": 80.0 + extra}
        for partition, lead in (("iid", 1.0), ("non-iid", 0.05))
        for draw in ("successive", "madow")
        for seed, extra in enumerate((draw == "madow") * (lead + noise))
    ]
    table = e3cs.draw_effects(pd.DataFrame(rows), 0.44).set_index(["partition", "measure"])
    first = table.loc["iid", "late accuracy"]
    assert (first["difference"], first["+-"]) == pytest.approx((1.0, 0.34376), abs=1e-4)
    assert first["adjusted"] == pytest.approx(2 * first["p"])
    assert first["verdict"] == "exact ahead"
    assert table.loc[("non-iid", "late accuracy"), "verdict"] == "the same"
    assert set(table.drop("late accuracy", level="measure")["verdict"]) == {""}
    few = e3cs.draw_effects(pd.DataFrame(rows).query("seed < 102"), 0.44)
    assert set(few["verdict"]) == {"too few", ""}


@pytest.mark.thorough
def test_both_draws_are_trained_alike(tmp_path):
    scale = e3cs.Draws("E3CS-0.5", 12, (100, 101, 102), 0.44)
    out = run_study(e3cs.STUDY, tmp_path, jobs=1, scale=scale)
    rows = pd.read_parquet(out / "runs.parquet")
    assert rows.groupby(["partition", "draw"])["seed"].apply(list).tolist() == [[100, 101, 102]] * 4
    table = pd.read_csv(out / "effects.csv")
    assert len(table) == 2 * 4
    by_draw = rows.pivot(index=["partition", "seed"], columns="draw", values="late accuracy")
    apart = (by_draw["madow"] - by_draw["successive"]).groupby("partition").mean()
    found = table.query("measure == 'late accuracy'").set_index("partition")["difference"]
    pd.testing.assert_series_equal(found.sort_index(), apart.sort_index(), check_names=False)


@pytest.mark.thorough
def test_a_small_study(monkeypatch, tmp_path, capsys):
    """Tables, figures and results appear; a second call plays only what is missing, to the same results."""
    monkeypatch.setattr(e3cs, "QUOTAS", {"E3CS-0.5": 0.5})
    monkeypatch.setattr(e3cs, "SCHEMES", ("E3CS-0.5", "Random", "FedCS", "pow-d"))
    scale = e3cs.Scale(40, 2, 0.02, 1, ("A",), (30,))
    out = run_study(e3cs.STUDY, tmp_path, jobs=1, scale=scale)

    printed = capsys.readouterr().out
    assert "Fig. 3" in printed
    assert "tau" in printed
    for name in ("selections", "success-ratio", "accuracy"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    results = pd.read_parquet(out / "results.parquet")
    counts = results.query("scheme == 'FedCS' and measure == 'mean count, class 0.9'")["value"].astype(float)
    assert counts.tolist() == [32.0, 32.0]  # 20 of the 25 in all of 40 rounds
    trained = results.query("part == 'training'")
    assert set(trained["partition"]) == {"iid", "non-iid"}
    assert set(trained["draw"]) == {"successive", "madow", ""}
    beside = pd.read_csv(out / "beside-paper.csv")
    fedcs = beside.query("scheme == 'FedCS' and partition == 'iid' and measure == 'speed-up to 65 %'")
    assert fedcs["paper"].tolist() == [pytest.approx(21 / 11)]

    finished = sorted(out.glob("runs/*/*/summary.json")) + sorted(out.glob("selections/*.npz"))
    assert len(finished) == 2 * 5 + 1 + 2 * 5
    missing = finished[0].parent
    times = {path: path.stat().st_mtime_ns for path in finished}
    finished[0].unlink()
    before = (out / "results.parquet").read_bytes()
    run_study(e3cs.STUDY, tmp_path, jobs=1, scale=scale)
    assert {path for path in finished if path.stat().st_mtime_ns != times[path]} == {missing / "summary.json"}
    assert (out / "results.parquet").read_bytes() == before
