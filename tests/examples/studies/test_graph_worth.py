"""The study of graphs, on few rounds."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("torch")

import graph_worth
from study import run_study


@pytest.mark.thorough
def test_all_graphs_select_side_by_side(tmp_path, capsys):
    scale = graph_worth.Scale(n_clients=10, size=2, rounds=4, seeds=3)
    run_study(graph_worth.STUDY, tmp_path, jobs=1, scale=scale)
    table = pd.read_csv(tmp_path / "quick-digits" / "graph_worth.csv").set_index(["split", "graph"])
    assert len(table) == 2 * (len(graph_worth.GRAPHS) + 1)
    assert (table["seeds"] == 3).all()
    two = table.loc["two labels"]
    assert two.loc["oracle", "smallest loss - oracle's"] == 0
    assert two.loc["secure", "edge F1"] == 1
    assert (table["adjusted p final loss"].drop("oracle", level=1) >= 0.05).all()
    assert two.loc["secure", "messages"] == 7 * 45 + 2 * two.loc["oracle", "messages"] // 2
    assert two.loc["functional", "messages"] == two.loc["update", "messages"] == two.loc["oracle", "messages"] > 0
    assert 0 < two.loc["functional", "edge F1"] <= 1
    assert "What the graph is worth" in capsys.readouterr().out
