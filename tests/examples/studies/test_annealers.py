"""The study of annealers, on few clients."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import annealers
from study import run_study


def test_every_method_is_held_against_the_optimum(tmp_path, capsys):
    scale = annealers.Scale(clients=(8,), share=0.25, seeds=1, reads=10)
    run_study(annealers.STUDY, tmp_path, jobs=1, scale=scale)
    folder = next(path for path in tmp_path.rglob("annealers.csv")).parent
    table = pd.read_csv(folder / "annealers.csv").set_index(["clients", "attack", "method"])
    exact = table.xs("exact", level="method")
    assert len(exact) == len(annealers.ATTACKS)
    assert (exact["proved"] == 1).all()
    assert (exact["above optimum"] == 0).all()
    assert (table["above optimum"] >= -1e-12).all()
    assert (table["certificate below"].abs() < 1e-6).all()
    assert exact.loc[(8, "sign flip"), "liars kept"] == 0
    assert exact.loc[(8, "a little"), "liars kept"] == 1
    assert "Exact, heuristic and annealed selections" in capsys.readouterr().out


@pytest.mark.parametrize("attack", annealers.ATTACKS)
def test_liars_send_what_the_attack_says(attack):
    honest, attacked = annealers.updates(20, 4, "none", 1), annealers.updates(20, 4, attack, 1)
    assert np.array_equal(honest[4:], attacked[4:])
    if attack == "sign flip":
        assert np.allclose(attacked[:4], -3 * honest[:4])
    elif attack in ("a little", "sparse"):
        assert len(np.unique(attacked[:4], axis=0)) == 1


def test_what_is_repaired_has_the_number():
    far = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    for chosen in (np.zeros(6, bool), np.ones(6, bool), np.arange(6) > 3):
        assert annealers.repaired(far, chosen, 3).sum() == 3
