"""Figures as files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from fedselect.experiments.figures import (
    client_curves_figure,
    counts_figure,
    curves_figure,
    gap_figure,
    known_curves,
    panels_figure,
    save_figure,
)
from fedselect.measures import gini, run_gaps


def test_figures_are_saved_small_and_true(tmp_path):
    """A palette of 256 colours, of the size asked for, and no pixel far from what was drawn."""
    figure = Figure(figsize=(4, 3))
    axis = figure.subplots()
    for k in range(5):
        axis.plot(np.sin(np.arange(200) / (8 + k)), label=str(k))
    axis.legend()
    saved = Image.open(save_figure(figure, tmp_path / "new" / "figure.png", dpi=80))
    assert saved.mode == "P"
    assert saved.size == (320, 240)
    figure.savefig(tmp_path / "plain.png", dpi=80)
    plain = np.asarray(Image.open(tmp_path / "plain.png").convert("RGB"), dtype=int)
    assert np.abs(np.asarray(saved.convert("RGB"), dtype=int) - plain).max() < 64
    assert (tmp_path / "new" / "figure.png").stat().st_size < (tmp_path / "plain.png").stat().st_size


def test_panels_show_means_over_seeds_by_round():
    curves = [pd.Series([1.0, 3.0], index=[10, 20]), pd.Series([3.0, 5.0], index=[10, 20])]
    panels = {"iid": {"a": curves}, "non-iid": {"a": curves[:1], "b": curves}}
    styles = {"a": ("black", "--", "o"), "b": ("red", "-")}
    figure = panels_figure(panels, styles, "accuracy", banded=["b"])
    left, right = figure.axes
    assert left.lines[0].get_xydata().tolist() == [[10, 2], [20, 4]]
    assert [line.get_linestyle() for line in right.lines] == ["--", "-"]
    assert (left.get_title(), left.get_ylabel()) == ("iid", "accuracy")
    assert [len(axis.collections) for axis in (left, right)] == [0, 1]  # the band of "b"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def table(**columns):
    """A round table of as many rounds as the columns are long."""
    rounds = len(next(iter(columns.values())))
    return pd.DataFrame({"round": range(rounds), "loss": np.nan, "accuracy": np.nan, **columns})


def test_a_regression_has_a_loss_panel_alone():
    tables = {"a": [table(loss=[3.0, np.nan, 1.0])], "b": [table(loss=[2.0, 1.5, 1.0])]}
    assert known_curves(tables) == ["loss"]
    figure = curves_figure(tables)
    (axis,) = figure.axes
    assert axis.get_ylabel() == "test loss"
    assert axis.lines[0].get_xydata().tolist() == [[1, 3], [3, 1]]


def test_a_validation_loss_that_every_run_has_is_a_panel_of_its_own():
    tables = {"a": [table(loss=[3.0, 1.0], validation_loss=[2.0, 4.0])], "b": [table(loss=[2.0, 1.5])]}
    assert known_curves(tables) == ["loss"]
    both = {"a": tables["a"], "b": [table(loss=[2.0, 1.5], validation_loss=[5.0, 3.0])]}
    figure = curves_figure(both)
    assert [axis.get_ylabel() for axis in figure.axes] == ["test loss", "validation loss"]
    lines = [line.get_xydata().tolist() for line in figure.axes[1].lines]
    assert lines == [[[1, 2], [2, 4]], [[1, 5], [2, 3]]]


def test_clients_by_rounds_have_their_worst_tenth_and_gini():
    rows = [(t, k, 0.1 * k + 0.01 * t) for t in (1, 3) for k in range(1, 6)]
    one = pd.DataFrame(rows, columns=["round", "client", "accuracy"]).assign(loss=1.0)
    figure = client_curves_figure({"a": [one]})
    left, right = figure.axes
    assert len(left.lines) == 5 + 2
    assert left.lines[0].get_xydata() == pytest.approx(np.array([[2, 0.11], [4, 0.13]]))
    assert left.lines[5].get_xydata() == pytest.approx(np.array([[2, 0.31], [4, 0.33]]))  # the mean
    assert left.lines[6].get_xydata() == pytest.approx(np.array([[2, 0.11], [4, 0.13]]))  # the worst of five
    wanted = [[t + 1, gini(one[one["round"] == t]["accuracy"])] for t in (1, 3)]
    assert right.lines[0].get_xydata() == pytest.approx(np.array(wanted))
    assert right.get_ylabel() == "Gini coefficient of accuracy"
    both = client_curves_figure({"a": [one], "b": [one, one.assign(accuracy=one["accuracy"] + 0.2)]})
    assert len(both.axes[0].lines) == 4  # no line for each client where there are several selectors
    assert len(both.axes[0].collections) == 2
    assert both.axes[0].lines[2].get_ydata() == pytest.approx([0.41, 0.43])


def test_a_run_of_which_nothing_is_measured_says_so():
    figure = curves_figure({"a": [table(loss=[np.nan])]})
    assert [text.get_text() for text in figure.axes[0].texts] == ["no round was evaluated"]


def test_legends_stand_beside_the_curves_and_pictures_are_as_wide_as_the_page():
    tables = {
        name: [table(loss=[3.0, 1.0], accuracy=[0.1, 0.9])] for name in ("a", "quite a long name of a selector", "c")
    }
    figure = curves_figure(tables)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(tables)
    box = legend.get_window_extent()
    assert all(axis.get_window_extent().x1 < box.x0 for axis in figure.axes)
    assert box.x1 <= figure.bbox.x1
    assert figure.get_size_inches()[0] == 11
    assert curves_figure({"a": tables["a"]}).legends == []  # one name alone stands above everything


def test_gaps_of_objectives_near_zero_are_not_alarming():
    """A bound of 0 under objectives of 1e-15: the relative gap is 1, and all there is is rounding."""
    rounds = table(objective=[1e-15, 3e-15], bound=[0.0, 0.0], gap=[1.0, 1.0], status=["feasible"] * 2)
    assert run_gaps(rounds).tolist() == [1e-15, 3e-15]
    rounds["solve_seconds"] = [0.1, 0.2]
    (points,) = gap_figure({"e3cs": [rounds]}).axes[0].collections
    assert points.get_offsets()[:, 1].tolist() == [1e-6, 1e-6]
    mixed = table(objective=[1e-15, 2.0], bound=[0.0, 2.5])
    assert run_gaps(mixed).tolist() == pytest.approx([1e-15, 0.5])  # over the mean of 1


def test_counts_of_long_names_have_room():
    record = {"available": [0, 1], "selected": [0], "returned": [0], "failed": [], "applied": [1.0]}
    names = [f"a selector with many options, number {k}" for k in range(4)]
    figure = counts_figure({name: [[record]] for name in names}, 2)
    figure.draw_without_rendering()
    assert all("\n" not in axis.get_title().split("\nvariance")[0] for axis in figure.axes)
    boxes = [axis.title.get_window_extent() for axis in figure.axes]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
