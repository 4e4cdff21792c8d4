"""Profiles, wins and curves on small tables whose numbers are worked out by hand; and the pictures of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from solvers import solve
from solvers.benchmark import (
    BenchmarkError,
    cost_against_size,
    figures,
    gap_over_time,
    performance_profile,
    win_matrix,
)
from solvers.dispersion import DispersionProblem

NAN = math.nan


def table(rows, **columns):
    """Rows of (instance, method, verdict, seconds, gap_to_best)."""
    frame = pd.DataFrame(rows, columns=["instance", "method", "verdict", "seconds", "gap_to_best"])
    common = {"seed": 0, "time_limit": NAN, "relaxed": False, "n": 10, "best_known": 10.0, "gap": NAN}
    return frame.assign(**{**common, "time_to_proof": frame["seconds"], **columns})


#: Three races of three methods: b fails on q, c claims much on r and is found out.
RACES = table(
    [
        ("p", "a", "ok", 1.0, 0.0),
        ("p", "b", "ok", 2.0, 0.1),
        ("p", "c", "ok", 4.0, 0.1 + 1e-9),
        ("q", "a", "ok", 6.0, 0.2),
        ("q", "b", "hung", NAN, NAN),
        ("q", "c", "ok", 3.0, 0.0),
        ("r", "a", "ok", 8.0, 0.0),
        ("r", "b", "ok", 2.0, 0.0),
        ("r", "c", "invalid", 0.1, 0.0),
    ]
)


def steps(profile, method):
    mine = profile[profile["method"] == method]
    return list(zip(mine["ratio"], mine["share"], strict=True))


def test_performance_profile_by_hand():
    profile = performance_profile(RACES)
    third = pytest.approx
    assert steps(profile, "a") == [(1.0, third(1 / 3)), (2.0, third(2 / 3)), (4.0, third(1.0))]
    assert steps(profile, "b") == [(1.0, third(1 / 3)), (2.0, third(2 / 3))]
    assert steps(profile, "c") == [(1.0, third(1 / 3)), (4.0, third(2 / 3))]


def test_a_profile_counts_what_nobody_solved_and_begins_at_one():
    frame = table([("p", "a", "ok", 1.0, 0), ("p", "b", "ok", 3.0, 0), ("q", "a", "error", NAN, NAN)])
    profile = performance_profile(frame, "seconds")
    assert steps(profile, "a") == [(1.0, 0.5)]
    assert steps(profile, "b") == [(1.0, 0.0), (3.0, 0.5)]


def test_gaps_that_are_proofs_are_equal_in_a_profile():
    frame = table([("p", "a", "ok", 1.0, 0.0), ("p", "b", "ok", 1.0, 5e-7), ("p", "c", "ok", 1.0, 1e-3)])
    profile = performance_profile(frame, "gap_to_best")
    assert steps(profile, "a") == steps(profile, "b") == [(1.0, 1.0)]
    assert steps(profile, "c") == [(1.0, 0.0), (pytest.approx(1000.0), 1.0)]


def test_no_time_at_all_is_a_tie():
    frame = table([("p", "a", "ok", 0.0, 0), ("p", "b", "ok", 0.0, 0), ("p", "c", "ok", 1.0, 0)])
    profile = performance_profile(frame, "seconds")
    assert steps(profile, "a") == steps(profile, "b") == [(1.0, 1.0)]
    assert steps(profile, "c") == [(1.0, 0.0)]


def test_win_matrix_by_hand():
    pairs = win_matrix(RACES).set_index(["method", "against"])
    assert pairs.loc[("a", "b")].tolist() == [2, 1, 0]  # p by its gap, q as b failed; r is a tie
    assert pairs.loc[("b", "a")].tolist() == [0, 1, 2]
    assert pairs.loc[("a", "c")].tolist() == [2, 0, 1]  # r as c is invalid
    assert pairs.loc[("b", "c")].tolist() == [1, 1, 1]  # 1e-9 is a tie
    assert len(pairs) == 6


def test_relaxed_rows_play_no_part():
    frame = RACES.assign(relaxed=RACES["method"] == "b")
    assert set(performance_profile(frame)["method"]) == {"a", "c"}
    assert set(win_matrix(frame)["method"]) == {"a", "c"}
    assert set(cost_against_size(frame)["method"]) == {"a", "c"}


def test_races_without_a_row_for_both_are_no_games():
    pairs = win_matrix(RACES.drop(index=0)).set_index(["method", "against"])
    assert pairs.loc[("a", "b")].tolist() == [1, 1, 0]


@pytest.mark.parametrize("verdict", ["refused", "missing"])
def test_what_a_licence_refuses_is_no_game_and_no_gap(verdict):
    frame = table([("p", "a", "ok", 1.0, 0), ("p", "b", verdict, NAN, NAN), ("q", "a", "ok", 1.0, 0.5)])
    assert win_matrix(frame)[["wins", "ties", "losses"]].to_numpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    traces = pd.DataFrame([("p", 1.0, 5.0), ("q", 1.0, 5.0)], columns=["instance", "second", "objective"])
    curve = gap_over_time(frame, traces.assign(method="a", seed=0, time_limit=NAN, bound=20.0))
    assert set(curve["method"]) == {"a"}


def test_time_limits_and_seeds_are_races_of_their_own():
    frame = pd.concat([RACES, RACES.assign(time_limit=5.0), RACES.assign(seed=1)])
    assert win_matrix(frame).set_index(["method", "against"]).loc[("a", "b")].tolist() == [6, 3, 0]


def test_gap_over_time_by_hand():
    frame = table([("p", "a", "ok", 10.0, 0.0), ("q", "a", "ok", 10.0, 0.5), ("q", "b", "error", 1.0, NAN)])
    traces = pd.DataFrame(
        [("p", 1.0, 5.0), ("p", 4.0, 10.0), ("q", 2.0, 5.0)], columns=["instance", "second", "objective"]
    ).assign(method="a", seed=0, time_limit=NAN, bound=20.0)
    curve = gap_over_time(frame, traces, band=(0.0, 1.0), points=201)
    a = curve[curve["method"] == "a"].set_index("second")
    at = {second: a.iloc[a.index.searchsorted(second, side="right") - 1] for second in (1.5, 3.0, 9.0)}
    assert at[1.5][["low", "median", "high"]].tolist() == [0.5, 0.75, 1.0]
    assert at[3.0][["low", "median", "high"]].tolist() == [0.5, 0.5, 0.5]
    assert at[9.0][["low", "median", "high"]].tolist() == [0.0, 0.25, 0.5]
    assert a["rows"].iloc[0] == 2
    assert (curve.loc[curve["method"] == "b", "median"] == 1.0).all()
    own = gap_over_time(frame, traces, to="bound", band=(0.0, 1.0))
    assert own.loc[own["method"] == "a", "low"].iloc[-1] == 1.0  # |20 − 10| / 10


def test_cost_against_size_by_hand():
    frame = pd.concat([RACES.assign(n=20), RACES[RACES["instance"] == "p"]])
    costs = cost_against_size(frame).set_index(["method", "n"])
    assert costs.loc[("a", 20)].tolist() == [6.0, 1.0, 8.0, 3, 0]
    assert costs.loc[("b", 20)].tolist() == [2.0, 2.0, 2.0, 2, 1]
    assert costs.loc[("c", 10)].tolist() == [4.0, 4.0, 4.0, 1, 0]


def test_an_unknown_measure_is_a_sentence():
    with pytest.raises(BenchmarkError, match=r"measure must be one of time_to_proof, .*; got 'speed'"):
        performance_profile(RACES, "speed")


def test_pictures_tell_methods_apart_without_colour(tmp_path):
    import matplotlib.pyplot

    traces = pd.DataFrame({"second": [0.1, 1.0], "objective": [NAN, 9.0], "bound": [20.0, 10.0]})
    keyed = pd.concat([traces.assign(instance="p", method=m, seed=0, time_limit=NAN) for m in "abc"])
    lines = {}
    for name, figure in {
        "profile": figures.profile_figure(RACES),
        "gap": figures.gap_figure(RACES, keyed),
        "wins": figures.win_figure(RACES),
        "cost": figures.cost_figure(RACES),
        "trajectory": figures.trajectory_figure(traces, "one"),
    }.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 3000
        lines[name] = figure.axes[0].get_lines()
    for name in ("profile", "gap"):
        styles = [(line.get_linestyle(), line.get_marker()) for line in lines[name]]
        assert len(set(styles)) == len(styles) == 3
    assert matplotlib.pyplot.get_fignums() == []
    texts = {text.get_text() for text in figures.win_figure(RACES).axes[0].texts}
    assert "2/1/0" in texts


def test_pictures_of_nothing_say_so():
    empty = RACES.iloc[:0]
    traces = pd.DataFrame(columns=["instance", "method", "seed", "time_limit", "second", "objective", "bound"])
    for figure in (
        figures.profile_figure(empty),
        figures.gap_figure(empty, traces),
        figures.cost_figure(empty),
        figures.trajectory_figure(traces),
    ):
        assert figure.axes[0].texts[0].get_text() == "nothing to draw"
    assert np.isnan(cost_against_size(RACES.assign(verdict="error"))["median"]).all()


def test_the_trajectory_of_a_solution_is_that_of_its_trace():
    problem = DispersionProblem(np.ones((4, 4)) - np.eye(4), costs=np.arange(4.0), size=2)
    solution = solve(problem, "brute-force")
    rows = pd.DataFrame(solution.trace)
    one, other = figures.trajectory_figure(solution), figures.trajectory_figure(rows, until=solution.seconds)
    assert one.axes[0].lines[0].get_xdata()[-1] == solution.seconds
    for mine, theirs in zip(one.axes[0].lines, other.axes[0].lines, strict=True):
        np.testing.assert_array_equal(mine.get_xydata(), theirs.get_xydata())


def test_pictures_name_the_sizes_and_keep_short_names_flat():
    sized = RACES.assign(n=RACES["instance"].map({"p": 12, "q": 20, "r": 80}))
    cost = figures.cost_figure(sized).axes[0]
    assert [text.get_text() for text in cost.get_xticklabels()] == ["12", "20", "80"]
    assert len(cost.get_xticks(minor=True)) == 0
    crowded = RACES.assign(n=RACES["instance"].map({"p": 12, "q": 1000, "r": 1001}))
    assert "1001" not in [text.get_text() for text in figures.cost_figure(crowded).axes[0].get_xticklabels()]
    long = RACES.assign(method=RACES["method"] + " with a very long name" * 6)
    turned = [
        {label.get_rotation() for label in figures.win_figure(table).axes[0].get_xticklabels()}
        for table in (RACES, long)
    ]
    assert turned == [{0.0}, {30.0}]


def test_legends_stand_beside_the_curves():
    figure = figures.profile_figure(RACES)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 > figure.axes[0].get_window_extent().x1
    assert [text.get_text() for text in legend.get_texts()] == list(dict.fromkeys(RACES["method"]))
