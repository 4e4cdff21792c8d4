"""Figures as files."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from fedselect.experiments.figures import save_figure


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
