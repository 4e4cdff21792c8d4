"""The price of myopia: forecasts, planners in their order, ratios, paired losses, and a tiny study."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import price_of_myopia as study
from fedselect.availability import TwoState
from fedselect.data import digits
from fedselect.rounds.engine import play
from fedselect.rounds.scenario import Scenario
from fedselect.training.fedavg import FedAvg
from solvers import solve
from solvers.schedule import ScheduleProblem
from study import run_study


def test_a_forecast_by_hand():
    """A client there now is forecast with 0.2 + 0.9^h 0.8: .92, .848, ..., below one half in ten rounds."""
    chains = TwoState([0.2, 0.2, 0.9, 0.1], [0.9, 0.9, 0.0, 0.0], seed=0)
    found = study.forecast(chains, np.array([True, False, False, True]), 11)
    assert found[0].tolist() == [True, False, False, True]
    assert found[:, 0].tolist() == [True] * 10 + [False]  # 0.2 + 0.9^9 0.8 = .510, 0.2 + 0.9^10 0.8 = .479
    assert not found[:, 1].any()
    assert found[1:, 2].all()
    assert not found[1:, 3].any()


def test_a_forecast_that_comes_true_is_knowledge():
    """Chains that never change: planning with the forecast is planning with what is known."""
    chains = TwoState([0.5] * 6, 1.0, seed=1)
    available = np.array([chains.available(t) for t in range(8)])
    available[:, 0] = True
    plan = study.with_forecast(chains, available, 2, 8)
    assert (plan.sum(axis=1) == 2).all()
    assert not (plan & ~available).any()
    turns = plan.sum(axis=0)
    assert np.ptp(turns[available[0]]) <= 1


def world_of(seed, rounds=12):
    """Build chains of 20 clients of digits, of which some rounds have fewer than are to be selected."""
    federation = digits(n_clients=20, seed=seed)
    chains = TwoState([0.3] * 20, 0.8, seed)
    return Scenario(federation.sizes, chains, seed=seed, size=5, rounds=rounds, data=federation)


def test_plans_select_who_is_there_and_as_many_as_can_be():
    world = world_of(2)
    available = np.array([world.availability.available(t) for t in range(world.rounds)])
    assert (available.sum(axis=1) < world.size).any()
    found = study.plans(world, (1, 3))
    planners = {"uniform", "round by round", "1 rounds known", "3 rounds known", "clairvoyant"}
    assert set(found) == planners | {"1 rounds forecast", "3 rounds forecast"}
    for plan, _ in found.values():
        assert not (plan & ~available).any()
        assert (plan.sum(axis=1) == np.minimum(world.size, available.sum(axis=1))).all()


def test_what_is_trained_is_what_was_planned():
    """The loop selects the plan of the solver's rolling horizon, round by round, with weights of the samples."""
    world = world_of(3)
    available = np.array([world.availability.available(t) for t in range(world.rounds)])
    plan, _ = study.plans(world, (3,))["3 rounds known"]
    counts = np.zeros(world.n_clients)
    for each in play(study.Planned(plan), world, world.rounds):
        clients = each.selection.clients
        counts[clients] += 1
        assert each.applied == pytest.approx(world.sizes[clients] / world.sizes[clients].sum())
    known = solve(ScheduleProblem(available, world.size), method="rolling", horizon=3, seed=3)
    assert counts.var() == pytest.approx(known.objective)


def test_measures_of_a_training_on_the_clairvoyant_plan():
    """Its variance is the certified one; late is the mean of the last fifth, the worst tenth two of 20 clients."""
    world = world_of(4)
    plan, _ = study.plans(world, ())["clairvoyant"]
    available = np.array([world.availability.available(t) for t in range(world.rounds)])
    assert plan.sum(axis=0).var() == pytest.approx(solve(ScheduleProblem(available, world.size)).bound)
    found = study.trained(world, plan)
    loop = FedAvg.within(world, study.Planned(plan))
    rounds = [loop.step(evaluate=True) for _ in range(world.rounds)]
    assert found["loss"] == rounds[-1].loss
    assert found["late loss"] == pytest.approx(np.mean([each.loss for each in rounds[-2:]]))
    assert found["accuracy"] == rounds[-1].accuracy
    assert found["worst tenth"] == pytest.approx(np.sort(loop.losses(range(20)))[-2:].mean())


@pytest.mark.parametrize("name", study.KINDS)
def test_nobody_is_better_than_the_clairvoyant(name):
    table = study.priced(name, 20, 4, 12, (2, 12), 3).set_index("planner")
    assert table["loss"].notna().any() == (study.KINDS[name].data is not None)
    rows = table["variance"]
    assert (rows >= rows["clairvoyant"]).all()
    assert rows["12 rounds known"] == pytest.approx(rows["clairvoyant"])  # a horizon of all rounds is clairvoyant


def test_ratios_are_paired_by_draw():
    cells = [("A", 0, 3.0, 2.0), ("A", 1, 8.0, 4.0), ("B", 0, 1.0, 0.0), ("B", 1, 2.0, 1.0)]
    rows = pd.DataFrame(
        {"availability": name, "draw": draw, "planner": planner, "variance": variance, "status": "optimal"}
        for name, draw, myopic, best in cells
        for planner, variance in ((study.ROUND_BY_ROUND, myopic), (study.CLAIRVOYANT, best))
    )
    table = study.prices(rows).set_index(["availability", "planner"])
    assert table.loc[("A", "round by round"), "of clairvoyant's"] == pytest.approx((1.5 + 2) / 2)
    assert table.loc[("B", "round by round"), "of clairvoyant's"] == np.inf
    assert table["ratio of means"].tolist() == pytest.approx([11 / 6, 1, 3, 1])
    assert (table.xs("clairvoyant", level=1)["of clairvoyant's"] == 1).all()


def measured_losses(worse):
    """Make rows of two planners over twenty splits; round by round's late loss is larger by this share of 1."""
    rng = np.random.default_rng(0)
    rows = []
    for split in range(20):
        base = 1.0 + 0.1 * rng.standard_normal()
        for planner, more in ((study.ROUND_BY_ROUND, worse + 0.001 * rng.standard_normal()), (study.CLAIRVOYANT, 0.0)):
            values = dict.fromkeys(study.OUTCOMES, base) | {"late loss": base + more}
            rows.append(
                {"availability": "A", "draw": split, "planner": planner, "variance": 1.0, "shared": 1.0, **values}
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("worse", "differs", "same"), [(0.05, True, False), (0.0001, False, True)])
def test_losses_are_paired_by_split(worse, differs, same):
    table = study.losses(measured_losses(worse))
    assert table["outcome"].tolist() == list(study.OUTCOMES)
    row = table.set_index("outcome").loc["late loss"]
    assert row["difference"] == pytest.approx(worse, abs=0.001)
    assert row["in %"] == pytest.approx(100 * row["difference"] / row["clairvoyant's"])
    assert row["±"] < 0.001
    assert (row["adjusted"] < 0.05) == differs
    assert (row["within"] < 0.05) == same
    (said,) = study.verdict(table)
    assert f"of 4 differences {int(differs)} are beyond chance, {3 + int(same)} within 2 %" in said


@pytest.mark.thorough
def test_a_small_study(tmp_path, capsys):
    scale = study.Scale(rounds=6, draws=3, horizons=(2,), n_clients=12, size=2)
    out = run_study(study.STUDY, tmp_path, jobs=1, scale=scale)
    table = pd.read_csv(out / "prices.csv")
    assert set(table["availability"]) == set(study.KINDS)
    assert (table["draws"] == 3).all()
    assert (out / "prices.png").stat().st_size > 1000
    losses = pd.read_csv(out / "losses.csv")
    assert set(losses["availability"]) == {name for name, kind in study.KINDS.items() if kind.data is not None}
    assert (losses["splits"] == 3).all()
    assert (losses["clairvoyant's"] > 0).all()
    assert losses["shared"].between(0, 1).all()
    assert (out / "losses.png").stat().st_size > 1000
    said = capsys.readouterr().out
    assert "Variance of the counts after 6 rounds" in said
    assert "round by round, against clairvoyant: of 16 differences" in said
