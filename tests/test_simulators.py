"""The work that all simulators are given, and the table of what they took."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def simulators(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "benchmarks"))
    return importlib.import_module("simulators.work")


@pytest.mark.parametrize(("name", "cores"), [("linear", 1), ("cnn", 2)])
def test_the_plain_loop_and_fedselect_end_at_the_same_model(simulators, tmp_path, name, cores):
    import torch

    case = simulators.CASES[name]
    few = type(case)(name, case.model, 6, 3, case.sizes, case.batch, steps=4, checked=3, rounds=3)
    simulators.write(few, tmp_path / "work.npz")
    work = simulators.Work(tmp_path / "work.npz")
    assert work.case == few
    found, threads = {}, torch.get_num_threads()
    for engine, used in (("plain", 1), ("fedselect", cores)):
        watch = simulators.Watch(work, 0.0)
        with pytest.raises(simulators.EnoughError):
            importlib.import_module(f"simulators.engines.{engine}").run(work, used, watch)
        found[engine] = watch.weights
    torch.set_num_threads(threads)
    assert list(found["plain"]) == list(found["fedselect"]) == list(work.initial)
    for key, value in found["plain"].items():
        assert np.abs(value - work.initial[key]).max() > 1e-3  # it has learned something
        assert np.abs(value - found["fedselect"][key]).max() <= 1e-5


@pytest.mark.site  # it needs what pages are built with
def test_the_page_s_table_is_that_of_the_runs(monkeypatch):
    """Each engine that counts has its numbers, others a word; the first of a column is bold."""
    pages = importlib.import_module("docs._extensions.generated_pages")
    written = list(csv.reader(pages._simulators(ROOT / "docs").splitlines()))
    with (ROOT / "docs" / "benchmarks" / "simulators.csv").open(encoding="utf-8") as stream:
        rows = {(row["case"], row["cores"], row["engine"]): row for row in csv.DictReader(stream)}
    assert len(rows) > 8
    cells = 0
    for case, cores, *told in written[1:]:
        assert len(told) == len(written[0]) - 2
        for engine, cell in zip(written[0][2:], told, strict=True):
            row = rows.get((pages.SIMULATED[case], cores, pages.SIMULATORS[engine]))
            if row is None or row["counts"] != "yes":
                assert cell == "–"
            else:
                cells += 1
                assert cell.strip("*").split(" ")[0] == f"{float(row['round_ms']):.3g}"
                assert 0 <= float(row["difference"]) <= (1e-4 if row["engine"] == "fedjax" else 1e-5)
        assert sum(cell.startswith("**") for cell in told) == 1
    assert cells > 8


def test_the_watch_counts_the_rounds_after_those_that_are_checked(simulators, tmp_path):
    case = simulators.Case("own", "linear", 4, 2, (10,), 10, steps=1, checked=2, rounds=6)
    simulators.write(case, tmp_path / "work.npz")
    watch = simulators.Watch(simulators.Work(tmp_path / "work.npz"), 60.0)
    for place in range(5):
        watch(lambda place=place: {"w": np.full(2, place)})
    with pytest.raises(simulators.EnoughError):
        watch(dict)
    assert watch.done == 6
    assert len(watch.times) == 4
    assert watch.weights["w"].tolist() == [1, 1]
