"""Figures as files."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from fedselect.experiments.figures import panels_figure, save_figure


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
    left, right = panels_figure(panels, styles, "accuracy", banded=["b"]).axes
    assert left.lines[0].get_xydata().tolist() == [[10, 2], [20, 4]]
    assert [line.get_linestyle() for line in right.lines] == ["--", "-"]
    assert (left.get_title(), left.get_ylabel()) == ("iid", "accuracy")
    assert [len(axis.collections) for axis in (left, right)] == [0, 1]  # the band of "b"
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["a", "b"]
