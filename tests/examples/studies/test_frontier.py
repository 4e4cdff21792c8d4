"""The frontier: a round's efficient points against enumeration, those no weight reaches, and a tiny study."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import frontier as study
from fedselect.rounds.protocol import RoundContext, RoundFeedback
from study import run_study


def a_round(seed, n=9):
    rng = np.random.default_rng(seed)
    h = np.triu(rng.integers(0, 9, (n, n)) / 8, 1)
    return h + h.T, rng.integers(0, 6, n), np.arange(n)


@pytest.mark.parametrize("seed", range(4))
def test_efficient_points_are_those_of_all_selections(seed):
    """Of 84 selections of 3 of 9: no other has as few turns and as large a distance, and one of them more of either."""
    h, counts, clients = a_round(seed)
    found = study.efficient(h, counts, clients, 3)
    points = {
        (int((counts[list(s)] - counts.min()).sum()), h[np.ix_(s, s)].sum() / 6)
        for s in itertools.combinations(range(9), 3)
    }
    best = sorted(
        (t, d) for t, d in points if not any((u <= t and e > d + 1e-9) or (u < t and e >= d - 1e-9) for u, e in points)
    )
    assert found["turns"].tolist() == [t for t, _ in best]
    np.testing.assert_allclose(found["distance"], [d for _, d in best], atol=1e-9)
    assert found["proved"].all()
    # What some weight of the distances reaches, every efficient point against all others.
    for (t, d), reached in zip(best, found["reached"], strict=True):
        least = max([(e - d) / (u - t) for u, e in best if u > t], default=-np.inf)
        most = min([(d - e) / (t - u) for u, e in best if u < t], default=np.inf)
        assert reached == (least <= most + 1e-9)


def test_the_constrained_form_costs_no_more_turns_than_allowed():
    h, counts, _ = a_round(7)
    there = np.array([1, 1, 1, 0, 1, 1, 0, 1, 1], dtype=bool)
    clients = np.flatnonzero(there)
    context = RoundContext(0, there, np.ones(9, dtype=int), np.random.default_rng(0))
    apart = []
    for turns in (0.0, 1.0, np.inf):
        selector = study.Constrained(3, h, turns)
        selector.counts = counts.copy()
        selection = selector.select(context)
        cost = (counts[selection.clients] - counts[clients].min()).sum()
        assert cost <= study.fewest_turns(counts, clients, 3) + 3 * turns
        apart.append(h[np.ix_(selection.clients, selection.clients)].sum() / 6)
        assert selector.bounds[0] >= apart[-1] - 1e-12
        outcomes = np.where(np.isin(np.arange(9), selection.clients), 2, 1)
        selector.update(RoundFeedback(0, selection, outcomes))
        assert (selector.counts - counts).sum() == 3
    assert apart == sorted(apart)


def test_the_shown_split_is_the_one_of_median_spread():
    spreads = {0: 0.1, 1: 0.5, 2: 0.0, 3: 0.4}
    points = pd.DataFrame([(split, end) for split, gap in spreads.items() for end in (0.3, 0.3 + gap)])
    assert study.shown_split(points.set_axis(["split", "distance"], axis=1)) == 0


def test_a_small_study(tmp_path, capsys, monkeypatch):
    few = ("uniform", "all available*")
    monkeypatch.setattr(study, "RULES", {name: study.RULES[name] for name in few})
    scale = study.Scale(2, 4, (0.0, np.inf), n_clients=15, size=3, round_clients=15, round_size=3)
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    rules = pd.read_csv(out / "rules.csv").set_index("rule")
    assert rules.index.tolist() == [*few, "ε = 0", "ε = ∞"]
    of_three = rules.drop("all available*")
    assert (of_three["variance"] >= of_three["least variance"] - 1e-9).all()
    assert (of_three["distance"] <= of_three["largest distance"] + 1e-4).all()
    assert (rules["worst"] >= rules["worst tenth"] - 1e-6).all()
    assert (rules["worst tenth"] >= rules["loss"] - 1e-6).all()
    points = pd.read_csv(out / "points.csv")
    assert (points["proved"] == points["points"]).all()
    rounds = pd.read_csv(out / "rounds.csv")
    assert rounds.groupby("split").size().tolist() == points["points"].tolist()
    assert (out / "rules.png").stat().st_size > 1000
    assert "Efficient points of a round" in capsys.readouterr().out
