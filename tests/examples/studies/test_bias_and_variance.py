"""Bias and variance of selectors: conditional laws against enumeration, the parts of an error by hand, a tiny study."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import bias_and_variance as study
from fedselect.availability import AVAILABILITY
from fedselect.data import digits
from fedselect.experiments import Choice
from fedselect.experiments.running import build_selector
from fedselect.rounds.protocol import Selection
from fedselect.rounds.scenario import Scenario
from optimisers_curse import Checkpoint
from study import run_study

UPDATES = np.random.default_rng(5).standard_normal((6, 3))
GRAM = UPDATES @ UPDATES.T


def enumerated(weights):
    """Mean weights and variance of the aggregate over equally likely rows of weights."""
    weights = np.array(weights)
    mean = weights.mean(axis=0)
    return mean, (((weights - mean) @ UPDATES) ** 2).sum(axis=1).mean()


def test_the_law_of_draws_from_groups_is_that_of_all_draws():
    """Two of the three available of group 0 at weight 0.2, one of the two of group 1 at 0.6; client 5 is absent."""
    groups, there = np.array([0, 1, 0, 1, 0, 0]), np.array([1, 1, 1, 1, 1, 0], dtype=bool)
    rows = []
    for pair, single in itertools.product(itertools.combinations((0, 2, 4), 2), (1, 3)):
        rows.append(np.zeros(6))
        rows[-1][list(pair)], rows[-1][single] = 0.2, 0.6
    selection = Selection(np.array([0, 1, 2]), np.array([0.2, 0.6, 0.2]))
    mean, variance = study.law_of_strata(there, groups, selection, GRAM)
    expected = enumerated(rows)
    np.testing.assert_allclose(mean, expected[0])
    assert variance == pytest.approx(expected[1])


def test_the_law_of_draws_with_replacement_is_that_of_all_sequences():
    shares = np.array([0.5, 0.25, 0.25, 0.0, 0.0, 0.0])
    urn = [0, 0, 1, 2]  # four equally likely balls
    rows = [np.bincount(balls, minlength=6) / 3 for balls in itertools.product(urn, repeat=3)]
    mean, variance = study.law_of_draws(shares, 3, GRAM)
    expected = enumerated(rows)
    np.testing.assert_allclose(mean, expected[0])
    assert variance == pytest.approx(expected[1])


def test_the_law_of_samples_has_no_bias():
    atoms = np.random.default_rng(2).random((4, 6))
    found = [study.law_of_samples(atoms[list(pair)], GRAM)[1] for pair in itertools.product(range(4), repeat=2)]
    assert np.mean(found) == pytest.approx(enumerated(atoms)[1])


def test_the_parts_of_an_error_by_hand():
    """Updates (1, 0) and (0, 1), half each: the whole is (1, 1)/2, its square 1/2.

    Weights (1, 0) and (0, 1) in turn: no bias, the squared error is that of (1, -1)/2 in every round, 1/2.
    Weights (1, 0) always: all of it is bias. A step of half the size is made up for.
    """
    gram = np.eye(2)
    turns = np.array([[1.0, 0.0], [0.0, 1.0]] * 2)
    found = study.parts_of_error(turns, np.zeros(4), gram, None)
    assert found == pytest.approx(
        {"bias": 0, "draw": 0, "rounds": 1, "error": 1, "weight error": 0, "step": 1}, abs=1e-12
    )
    always = np.array([[0.5, 0.0]] * 4)
    found = study.parts_of_error(always, np.full(4, 0.25), gram, None)
    assert found == pytest.approx({"bias": 1, "draw": 2, "rounds": 0, "error": 3, "weight error": 1, "step": 0.5})
    # Means of 4 draws of variance 1/4 are off by 1/16 in the square, which is not between rounds (step 1/2: times 4).
    corrected = study.parts_of_error(always, np.full(4, 0.25), gram, 4)
    assert corrected["rounds"] == pytest.approx(-0.5)
    assert corrected["error"] == pytest.approx(found["error"] - 0.5)


@pytest.mark.parametrize("name", ["afl", "e3cs", "fed-cbs", "cs-ucb-q", "delta"])
def test_looking_at_a_round_changes_no_decision(name):
    """With and without further draws the last round's selection is the same, and means are near the exact ones."""
    federation = digits(n_clients=12)
    there = AVAILABILITY.build("bernoulli", federation, 1, rate=0.7)
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((12, 5)).astype(np.float32)
    model = Checkpoint(updates, *rng.random((4, 12)))
    gram = updates.astype(float) @ updates.T.astype(float)

    def counts(looked_at, drawn):
        world = Scenario(np.ones(12, dtype=int), there, seed=1, size=3, rounds=8, data=federation)
        selector = build_selector(Choice(name), world)
        means, variances = study.played(selector, world, model, gram, looked_at, drawn)
        return selector.state_dict(), means, variances

    plain, drawn = counts(lambda t: True, False), counts(lambda t: t % 3 == 1, True)
    for key, value in plain[0].items():
        np.testing.assert_array_equal(drawn[0][key], value)
    assert drawn[1].shape == (3, 12)
    assert (drawn[2] >= 0).all()
    assert drawn[2].any()


def test_uniform_selection_has_the_law_that_draws_approach(monkeypatch):
    monkeypatch.setattr(study, "DRAWS", 4000)
    federation = digits(n_clients=12)
    there = AVAILABILITY.build("bernoulli", federation, 1, rate=0.7)
    updates = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
    model, gram = Checkpoint(updates, *np.zeros((4, 12))), updates.astype(float) @ updates.T.astype(float)
    world = Scenario(np.ones(12, dtype=int), there, seed=1, size=3, rounds=1, data=federation)
    for name in ("uniform", "md-sample"):
        laws = [
            study.played(build_selector(Choice(name), world), world, model, gram, lambda t: True, drawn)
            for drawn in (False, True)
        ]
        np.testing.assert_allclose(laws[0][0], laws[1][0], atol=0.02)
        np.testing.assert_allclose(laws[0][1], laws[1][1], rtol=0.1)


def test_a_small_study(tmp_path, capsys, monkeypatch):
    few = ("uniform", "FedSS-P, random groups", "E3CS-0.5", "F3AST")
    monkeypatch.setattr(study, "SELECTORS", {name: study.SELECTORS[name] for name in few})
    scale = study.Scale(
        splits=2, cells=(("independent", 0), ("in spells", 1)), rounds=8, burn_in=4, n_clients=20, size=10
    )
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    table = pd.read_csv(out / "table.csv")
    assert table["selector"].tolist() == list(few) * 2
    parts = table[["bias", "draw", "rounds"]].sum(axis=1)
    np.testing.assert_allclose(parts, table["error"], rtol=1e-3)
    assert (table.loc[table["selector"] == "uniform", "of uniform's"] == 1).all()
    assert (out / "table.png").stat().st_size > 1000
    assert "Squared error of the aggregate" in capsys.readouterr().out
