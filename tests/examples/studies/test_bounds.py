"""Bounds beside errors: quadratic clients by calculus, a path by hand, rank correlations, and a tiny study."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bounds as study
from study import run_study


@pytest.fixture(scope="module")
def task():
    return study.Ridges.drawn(np.full(6, 0.5), np.ones((6, 3)), 4)


def test_losses_are_those_of_the_regressions(task):
    """At a client's minimiser its loss and gradient are 0; gradients are the losses' differences; F is least at w*."""
    w, step = np.array([0.3, -0.2, 0.5]), 1e-6
    for k, minimiser in enumerate(task.minimisers):
        assert task.losses(minimiser)[k] == pytest.approx(0, abs=1e-14)
        assert task.gradients(minimiser)[k] == pytest.approx(np.zeros(3), abs=1e-12)
    for i in range(3):
        ahead, behind = w.copy(), w.copy()
        ahead[i] += step
        behind[i] -= step
        slope = (task.losses(ahead) - task.losses(behind)) / (2 * step)
        np.testing.assert_allclose(slope, task.gradients(w)[:, i], rtol=1e-6)
    importance = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert importance @ task.gradients(task.optimum(importance)) == pytest.approx(np.zeros(3), abs=1e-12)
    smooth, convex = task.curvature
    apart = task.gradients(w) - task.gradients(np.zeros(3))
    assert (np.linalg.norm(apart, axis=1) <= smooth * np.linalg.norm(w) * (1 + 1e-12)).all()
    assert (apart @ w >= convex * (w @ w) * (1 - 1e-12)).all()


def test_without_noise_a_path_is_gradient_descent(task):
    """Two runs side by side, of all clients and of the first alone; the server's rate is one half."""
    quiet = study.Ridges(task.hessians, task.minimisers, np.zeros(6))
    shares = np.array([np.full(6, 1 / 6), np.eye(6)[0]])
    rates, met = np.array([0.1, 0.05, 0.2]), study.Met()
    weights = np.repeat(shares[:, None], 3, axis=1)
    errors, gradients = study.paths(quiet, weights, (0, 0), rates, 1, met, server=0.5)
    best, steepest = quiet.optimum(shares[0]), 0.0
    for run, share in enumerate(shares):
        w = np.zeros(3)
        for t, rate in enumerate(rates):
            steepest = max(steepest, np.linalg.norm(quiet.gradients(w), axis=1).max())
            w = w - 0.5 * rate * share @ quiet.gradients(w)
            assert errors[run, t] == pytest.approx(quiet.losses(w).mean() - quiet.losses(best).mean())
            assert gradients[run, t] == pytest.approx((quiet.gradients(w).mean(axis=0) ** 2).sum())
    assert met.gradient == pytest.approx(steepest)


def test_runs_side_by_side_are_those_alone_and_share_noise_by_seed(task):
    weights = np.full((3, 4, 6), 1 / 6)
    together, _ = study.paths(task, weights, (5, 7, 5), np.full(4, 0.1), 2, study.Met())
    alone, _ = study.paths(task, weights[:1], (7,), np.full(4, 0.1), 2, study.Met())
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-12)
    np.testing.assert_allclose(together[0], together[2], rtol=1e-12)
    assert abs(together[0] / together[1] - 1).min() > 1e-6


def test_a_selector_that_asks_for_losses_is_told_those_of_its_own_run(task):
    """CA-Fed with two runs: its weights are those of a run by itself."""
    chains = study.TwoState(np.full(6, 0.5), 0.0, 3)

    def live():
        chosen = study.CAFed(
            importance=np.full(6, 1 / 6), chains=study.KnownChains(np.full(6, 0.5), np.zeros(6)), minima=np.zeros(6)
        )
        return chosen, study.World(np.ones(6, dtype=np.int64), chains, seed=3)

    both, alone = np.zeros((2, 5, 6)), np.zeros((1, 5, 6))
    both[0] = 1 / 6
    study.paths(task, both, (3, 3), np.full(5, 0.1), 1, study.Met(), live={1: live()})
    study.paths(task, alone, (3,), np.full(5, 0.1), 1, study.Met(), live={0: live()})
    np.testing.assert_array_equal(both[1], alone[0])
    assert alone.any()


def test_draws_from_groups_take_the_smallest_keys():
    groups, keys = np.array([0, 0, 0, 1, 1]), np.array([[0.3, 0.1, 0.2, 0.9, 0.8], [0.1, 0.2, 0.3, 0.1, 0.5]])
    weights = study.drawn_from(groups, (2, 1), keys)
    np.testing.assert_allclose(weights, [[0, 0.3, 0.3, 0, 0.4], [0.3, 0.3, 0, 0.4, 0]])


def test_half_are_seldom_there_and_half_of_either_in_spells():
    kinds = study.chains(24, 3)
    pairs = list(zip(kinds.stationary, kinds.correlation, strict=True))
    assert {pair: pairs.count(pair) for pair in pairs} == {(0.9, 0.9): 6, (0.9, 0.0): 6, (0.1, 0.9): 6, (0.1, 0.0): 6}


def test_ranks_are_over_methods_within_a_split():
    """Bounds in the errors' order, and in the opposite one; splits differ in level, which ranks do not see."""
    rows = pd.DataFrame(
        {"split": split, "method": f"m{k}", "error": 10.0**split * (k + 1), "same": 7.0 + k, "other": -k}
        for split in range(3)
        for k in range(4)
    )
    found = study.ranks_of(rows, ("same", "other")).set_index("bound")
    assert found["rank correlation"].to_dict() == pytest.approx({"same": 1.0, "other": -1.0})
    assert found["chosen / best error"].to_dict() == pytest.approx({"same": 1.0, "other": 4.0})
    assert study.ranks_of(rows, ("same",), ("m0", "m1"))["methods"].tolist() == [2]


def test_a_small_study(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "GROUPS", (4, 3))
    monkeypatch.setattr(study, "SPREADS", (0.2, 0.8))
    monkeypatch.setattr(study, "DRAWS", 4)
    scale = study.Scale(splits=2, seeds=1, horizons=(10,), rounds=12, dimension=2, local_steps=2)
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    ranks = pd.read_csv(out / "ranks.csv")
    assert ranks["rank correlation"].between(-1, 1).all()
    assert (ranks["bound / error"] > 1).all()  # they are bounds
    weights = pd.read_csv(out / "weights.csv").set_index("method")
    assert weights.loc["Unbiased", "of Unbiased's"] == 1
    assert weights.loc["guideline B", "excluded"] > 0
    assert len(pd.read_csv(out / "allocations.csv")) == 4  # 1-3, 2-2, 3-1, and FedAvg
    assert (out / "ranks.png").stat().st_size > 1000
    assert "Rank correlation of bound and error" in capsys.readouterr().out
