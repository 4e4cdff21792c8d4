"""Metrics against their definitions written out the slow way, on hand-made and random histories."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from fedselect import measures
from fedselect.errors import ConfigError
from fedselect.experiments.comparison import difference_table, summary_table
from fedselect.rounds.history import History


def history(rounds, clients):
    """A history from (selected, returned, applied) triples; everyone available."""
    selected, returned, applied = (
        tuple(np.array(column, dtype=kind) for column in columns)
        for columns, kind in zip(zip(*rounds, strict=True), (np.int64, bool, float), strict=True)
    )
    return History(clients, np.full(clients, len(rounds)), selected, returned, applied)


@pytest.fixture
def small():
    """Four rounds of four clients; 3 is never selected, 2 never returns."""
    rounds = [
        ([0, 1], [True, True], [0.5, 0.5]),
        ([0, 2], [True, False], [1.0, 0.0]),
        ([], [], []),
        ([0, 1], [False, True], [0.0, 2.0]),
    ]
    return history(rounds, 4)


@pytest.fixture
def drawn():
    rng = np.random.default_rng(3)
    rounds = []
    for _ in range(60):
        chosen = np.sort(rng.choice(8, size=rng.integers(0, 5), replace=False))
        back = rng.random(chosen.size) < 0.7
        rounds.append((chosen, back, np.where(back, rng.random(chosen.size), 0.0)))
    return history(rounds, 8)


def test_counts_returns_and_weights(small):
    assert small.rounds == 4
    assert small.counts.tolist() == [3, 2, 1, 0]
    assert small.returns.tolist() == [2, 2, 0, 0]
    assert small.total_weights.tolist() == [1.5, 2.5, 0, 0]
    assert small.participation().astype(int).tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_records_and_rounds_give_the_same_history(small):
    records = [
        {
            "selected": chosen.tolist(),
            "returned": chosen[back].tolist(),
            "applied": applied.tolist(),
            "available": [0, 1, 2, 3],
        }
        for chosen, back, applied in zip(small.selected, small.returned, small.applied, strict=True)
    ]
    again = History.from_records(records, 4)
    assert again.available.tolist() == small.available.tolist()
    for first, second in zip(again.returned, small.returned, strict=True):
        assert first.tolist() == second.tolist()
    assert measures.selection_counts(records, 4).tolist() == [3, 2, 1, 0]


def test_jain_index():
    assert measures.jain_index([5, 5, 5]) == pytest.approx(1)
    assert measures.jain_index([0, 7, 0, 0]) == pytest.approx(1 / 4)
    assert measures.jain_index([1, 2, 3]) == pytest.approx(36 / (3 * 14))
    assert math.isnan(measures.jain_index([0, 0]))


def test_absences_by_hand(small):
    assert measures.absences(small).tolist() == [2, 2, 4, 4]


def test_absences_are_the_longest_runs_of_zeros(drawn):
    for client, column in enumerate(drawn.participation().T):
        text = "".join("x" if there else "." for there in column)
        assert measures.absences(drawn)[client] == max(len(part) for part in text.split("x"))


def test_least_variance_in_hindsight_by_hand():
    """Client 0 alone is there in the second round: hindsight gives the first turn to another; no turns vary by none."""
    records = [{"available": [0, 1, 2], "selected": [0]}, {"available": [0], "selected": [0]}]
    assert measures.least_count_variance(records, 3) == pytest.approx(np.var([1, 1, 0], ddof=1))
    assert measures.least_count_variance([{"available": [], "selected": []}], 3) == 0
    assert math.isnan(measures.least_count_variance(records[1:], 1))


def test_effective_participation_and_success_ratio(small):
    assert measures.effective_participation(small).tolist() == [2, 3, 3, 4]
    assert measures.success_ratio(small).tolist() == [1.0, 3 / 4, 3 / 4, 4 / 6]
    assert np.isnan(measures.success_ratio(history([([], [], []), ([0], [True], [1.0])], 2))).tolist() == [True, False]


def test_realised_importance_and_its_distance(small):
    realised = measures.realised_importance(small)
    assert realised.tolist() == [1.5 / 4, 2.5 / 4, 0, 0]
    assert measures.total_variation(np.full(4, 0.25), realised) == pytest.approx(0.5)
    assert np.isnan(measures.realised_importance(history([([0], [False], [0.0])], 2))).all()


def test_weight_error_and_q_of_a_history(drawn):
    """FedAU's ω for K = ∞ by its identity: (last participation + 1) / participations so far, 1 before the first."""
    there, rates = drawn.participation(), np.linspace(0.2, 0.9, 8)
    errors, moments = [], []
    for t in range(drawn.rounds):
        weights = np.ones(8)
        for client in range(8):
            before = np.flatnonzero(there[:t, client])
            if before.size:
                weights[client] = (before[-1] + 1) / before.size
        errors.append(np.mean((rates * weights - 1) ** 2))
        moments.append(np.mean(rates * weights**2))
    assert measures.weight_error(there, rates) == pytest.approx(np.mean(errors))
    assert measures.second_moment(there, rates) == pytest.approx(np.max(moments))


def test_late_deviation_is_of_the_second_half():
    assert measures.late_deviation([9.0, 9.0, 1.0, 3.0]) == 1.0
    assert measures.late_deviation([9.0, 1.0, 3.0]) == 1.0
    assert measures.late_deviation([5.0]) == 0.0
    assert math.isnan(measures.late_deviation([]))


def test_rounds_to_a_target():
    table = pd.DataFrame({"round": [0, 1, 2, 3], "loss": [2.0, np.nan, 0.9, 1.1], "accuracy": [0.1, np.nan, 0.6, 0.5]})
    assert measures.rounds_to(table, 0.1) == 1
    assert measures.rounds_to(table, 0.5) == 3
    assert measures.rounds_to(table, 0.7) is None
    assert measures.rounds_to(table, 1.0, "loss") == 3
    assert measures.rounds_to(table, 0.5, "loss") is None
    with pytest.raises(ConfigError, match="rounds_to looks at 'accuracy' or 'loss'; got 'gap'"):
        measures.rounds_to(table, 1.0, "gap")


def record(t, selected, returned, failed=(), loss=None):
    return {
        "round": t,
        "available": [0, 1, 2],
        "selected": selected,
        "returned": returned,
        "failed": list(failed),
        "applied": [1.0 if client in returned else 0.0 for client in selected],
        "solution": None,
        "loss": loss,
        "accuracy": None if loss is None else 1 - loss,
        "select_seconds": 0.0,
        "train_seconds": 0.0,
    }


def test_summary_of_rounds_without_evaluation_and_with_failures():
    records = [
        record(0, [0, 1], [0], failed=[1], loss=0.5),
        record(1, [0], [0]),
        record(2, [2], [], loss=0.2),
        record(3, [0, 2], [0, 2], loss=0.4),
    ]
    results = measures.summary(measures.RunData(records, np.array([0.5, 0.25, 0.25])))
    assert (results["returned"], results["failed"]) == (4, 1)
    assert results["success_ratio"] == pytest.approx(4 / 6)
    assert results["longest_absence"] == 4
    assert results["importance_distance"] == pytest.approx(0.25)
    assert (results["final_loss"], results["best_loss"], results["best_accuracy"]) == (0.4, 0.2, 0.8)
    assert results["mean_accuracy"] == pytest.approx((0.5 + 0.8 + 0.6) / 3)
    assert results["late_accuracy_deviation"] == pytest.approx(0.1)
    assert "client_loss_mean" not in results
    scores = {"loss": np.array([1.0, 2.0, 6.0]), "accuracy": np.array([0.9, 0.5, 0.7])}
    served = measures.summary(measures.RunData(records, np.full(3, 1 / 3), scores))
    assert (served["client_loss_mean"], served["client_loss_worst"]) == (3.0, 6.0)
    assert served["client_accuracy_worst"] == 0.5


def test_summary_of_a_run_in_which_nothing_arrived_has_no_nan():
    results = measures.summary(measures.RunData([record(0, [], [], loss=0.5)], np.full(3, 1 / 3)))
    for key in ("jain_index", "success_ratio", "importance_distance"):
        assert results[key] is None


def test_a_learning_curve_has_the_evaluated_rounds_counted_from_one():
    columns = {"round": [0, 1, 2], "accuracy": [0.2, math.nan, 0.6], "loss": [3.0, math.nan, 1.0]}
    table = pd.DataFrame(columns, index=[7, 8, 9])
    assert measures.learning_curve(table).to_dict() == {1: 0.2, 3: 0.6}
    assert measures.learning_curve(table, "loss").to_dict() == {1: 3.0, 3: 1.0}


def test_differences_are_paired_by_seed():
    """Of 1, 3, 2 less 0, 1, 1 the mean is 4/3, and half the interval t(0.975, 2) s / √3 with s² = 1/3."""
    rows = [("a", seed, {"final_loss": loss}) for seed, loss in ((0, 0.0), (1, 1.0), (2, 1.0))]
    rows += [("b", seed, {"final_loss": loss}) for seed, loss in ((2, 2.0), (1, 3.0), (0, 1.0), (5, 9.0))]
    found = difference_table(summary_table(rows))
    assert found["selector"].tolist() == ["b"]
    assert found["seeds"].tolist() == [3]
    assert found["final_loss"].iloc[0] == pytest.approx(4 / 3)
    assert found["final_loss_half_width"].iloc[0] == pytest.approx(4.302653 * math.sqrt(1 / 3) / math.sqrt(3))
    with pytest.raises(ConfigError, match="no selector 'c'"):
        difference_table(summary_table(rows), "c")


def test_gini_is_the_mean_difference_of_two_over_twice_the_mean():
    rng = np.random.default_rng(2)
    for n in (1, 2, 7, 30):
        x = rng.random(n) * rng.integers(0, 2, n) + (1e-3 if n < 3 else 0)
        slow = sum(abs(a - b) for a in x for b in x) / (2 * n * n * x.mean())
        assert measures.gini(x) == pytest.approx(slow, abs=1e-12)
    assert measures.gini([3.0] * 5) == 0
    assert measures.gini([0, 0, 0, 8]) == 0.75
    assert math.isnan(measures.gini([0.0, 0.0]))
    assert math.isnan(measures.gini([1.0, -0.5]))


def test_how_uneven_clients_fare_is_measured_of_every_score():
    accuracy, loss = np.linspace(0.0, 1.0, 21), np.linspace(3.0, 1.0, 21)
    scores = {"accuracy": np.append(accuracy, math.nan), "loss": np.append(loss, math.nan)}
    record = {"round": 0, "available": [], "selected": [], "returned": [], "failed": [], "applied": [], "weights": []}
    record |= {"loss": 1.0, "accuracy": 0.5, "solution": None, "select_seconds": 0.0, "train_seconds": 0.0}
    found = measures.summary(measures.RunData([record | {"missing": []}], np.full(22, 1 / 22), scores))
    assert found["client_accuracy_worst"] == 0.0
    assert found["client_accuracy_worst_tenth"] == pytest.approx(np.mean([0.0, 0.05, 0.1]))  # three of 21
    assert found["client_loss_worst_tenth"] == pytest.approx(np.mean([3.0, 2.9, 2.8]))
    assert found["client_accuracy_deviation"] == pytest.approx(accuracy.std())
    assert found["client_accuracy_gini"] == pytest.approx(measures.gini(accuracy))
    assert "final_validation_loss" not in found
    known = [each.name for each in measures.known_run_measures(found) if "course" in each.tables]
    assert {"client_accuracy_worst_tenth", "client_accuracy_deviation", "client_accuracy_gini"} <= set(known)
    assert "client_loss_gini" not in known


def test_a_validation_loss_is_a_measure_of_the_run_and_no_metric_of_the_test_set():
    record = {"round": 0, "available": [], "selected": [], "returned": [], "failed": [], "applied": [], "weights": []}
    record |= {"loss": 1.0, "accuracy": 0.5, "solution": None, "select_seconds": 0.0, "train_seconds": 0.0}
    record |= {"missing": [], "metrics": {"validation_loss": 0.25, "f1": 0.5}}
    found = measures.summary(measures.RunData([record], np.full(2, 0.5)))
    assert found["final_validation_loss"] == 0.25
    assert not [name for name in found if name.startswith("client_validation")]
    shown = {each.name: each for each in measures.known_run_measures(found)}
    assert shown["final_validation_loss"].title == "validation loss"
    assert shown["final_f1"].title == "test F1"
    assert measures.round_row(record)["validation_loss"] == 0.25


def test_the_round_of_the_least_validation_loss_has_a_test_loss():
    record = {"available": [], "selected": [], "returned": [], "failed": [], "applied": [], "weights": []}
    record |= {"accuracy": 0.5, "solution": None, "select_seconds": 0.0, "train_seconds": 0.0, "missing": []}
    losses = [(0.9, 0.5), (0.4, 0.3), (None, None), (0.1, 0.6)]  # the least test loss is another round's
    records = [
        record | {"round": t, "loss": test} | ({} if held is None else {"metrics": {"validation_loss": held}})
        for t, (test, held) in enumerate(losses)
    ]
    found = measures.summary(measures.RunData(records, np.full(2, 0.5)))
    assert (found["best_validation_loss"], found["loss_at_best_validation"]) == (0.3, 0.4)
    assert (found["best_loss"], found["final_validation_loss"]) == (0.1, 0.6)
    course = [each.name for each in measures.known_run_measures(found) if "course" in each.tables]
    assert {"best_validation_loss", "loss_at_best_validation"} <= set(course)


def test_the_long_table_has_the_seconds_of_the_clock_or_those_that_clients_say():
    record = {"round": 0, "selected": [1, 4], "applied": [0.5, 0.0]}
    ends = {"clock": {"ends": [2.5, None]}}
    table = measures.client_rounds(
        [record | ends, record | {"round": 1, "client_seconds": {"4": 7.0}}, record | {"round": 2}]
    )
    assert list(table.columns)[4:] == ["loss", "accuracy", "seconds"]
    seconds = table["seconds"].to_numpy()
    assert seconds[[0, 3]].tolist() == [2.5, 7.0]
    assert np.isnan(seconds[[1, 2, 4, 5]]).all()


def test_the_worst_tenth_is_rounded_up_and_knows_what_is_worse():
    assert measures.worst_tenth(range(11), "more") == 0.5
    assert measures.worst_tenth(range(10), "less") == 9.0
    assert np.isnan(measures.worst_tenth([], "less"))


def test_the_table_of_no_rounds_has_its_columns():
    table = measures.round_table([])
    assert len(table) == 0
    assert list(table.columns[:4]) == ["round", "loss", "accuracy", "available"]
    assert measures.rounds_to(table, 0.5) is None
    assert measures.learning_curve(table).empty
