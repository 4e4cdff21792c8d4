"""The study of coverage with counts beside the rules of others: its verdicts, and a tiny run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import coverage_gs as study
from study import run_study


def rows_with(better):
    """Make rows of eight splits in four cells in which ours is better than every rule by so many per cent."""
    rng = np.random.default_rng(0)
    rows = []
    for cell in [(c, a) for c in (0.1, 0.5) for a in study.AVAILABLE]:
        for split in range(8):
            level = 1 + 0.1 * rng.standard_normal()  # of the split, which pairing takes out
            for rule in study.RULES:
                own = 1 - better.get(cell, 0.0) / 100 if rule == study.OURS else 1.0
                loss = level * own + 1e-3 * rng.standard_normal()
                values = dict.fromkeys(study.OUTCOMES, loss)
                rows.append({**dict(zip(study.CELL, cell, strict=True)), "rule": rule, "split": split, **values})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("better", "ahead", "behind", "same"),
    [(5.0, 24, 0, 0), (-5.0, 0, 24, 0), (0.0, 0, 0, 24)],
)
def test_verdicts_in_every_cell(better, ahead, behind, same):
    cells = [(c, a) for c in (0.1, 0.5) for a in study.AVAILABLE]
    table = study.leads(rows_with(dict.fromkeys(cells, better)))
    primary = table[table["outcome"] == study.OUTCOMES[0]]
    assert len(primary) == 24
    assert primary["adjusted"].notna().all()
    assert table["adjusted"].notna().sum() == 24  # nothing else is tested
    count = primary["verdict"].value_counts()
    assert (count.get("ahead", 0), count.get("behind", 0), count.get("the same", 0)) == (ahead, behind, same)
    told = list(study.verdicts(table))
    assert len(told) == 6
    assert all((" leads " in each) == (ahead == 24) for each in told)


def test_three_cells_of_four_lead_and_one_behind_does_not():
    cells = [(c, a) for c in (0.1, 0.5) for a in study.AVAILABLE]
    three = dict.fromkeys(cells[:3], 5.0)
    assert all(" leads " in each for each in study.verdicts(study.leads(rows_with(three))))
    behind = three | {cells[3]: -5.0}
    assert not any(" leads " in each for each in study.verdicts(study.leads(rows_with(behind))))
    two = dict.fromkeys(cells[:2], 5.0)
    assert not any(" leads " in each for each in study.verdicts(study.leads(rows_with(two))))


def test_each_split_deals_the_data_anew():
    """The rules of a split meet the same clients; those of another split others."""
    sizes = {
        (split, rule): study.experiment(study.QUICK, 0.5, "all", rule, split).federation().sizes.tolist()
        for split in (0, 1) for rule in (study.OURS, study.UNIFORM)
    }  # fmt: skip
    assert sizes[0, study.OURS] == sizes[0, study.UNIFORM] != sizes[1, study.OURS] == sizes[1, study.UNIFORM]


@pytest.mark.thorough
def test_a_tiny_run(tmp_path):
    """Every rule plays, the chosen rate is one of those tried, and the files say what the tables do."""
    scale = replace(
        study.QUICK, splits=(0, 1, 2), tuned_on=(3,), rounds=5, clients=12, size=3, concentrations=(0.5,),
        local=(0.1, 1.0), widenings=0,
    )  # fmt: skip
    folder = run_study(study.STUDY, tmp_path, scale=scale, jobs=1)
    runs, tried = (pd.read_parquet(folder / f"{name}.parquet") for name in ("runs", "tuning"))
    assert len(runs) == 2 * len(study.RULES) * 3
    assert len(tried) == 2 * len(study.RULES) * 2
    best = tried.loc[tried.groupby([*study.CELL, "rule"])["training loss"].idxmin()]
    chosen = runs.groupby([*study.CELL, "rule"])["rate"].unique()
    assert all(len(rates) == 1 for rates in chosen)
    for _, row in best.iterrows():
        assert chosen[row["concentration"], row["available"], row["rule"]][0] == row["rate"]
    assert np.isfinite(runs[list(study.OUTCOMES)].to_numpy()).all()
    pd.testing.assert_frame_equal(pd.read_csv(folder / "leads.csv").drop(columns="verdict"),
                                  study.leads(runs).drop(columns="verdict"), rtol=1e-9)  # fmt: skip
