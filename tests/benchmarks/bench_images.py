"""How long a run takes from image files as large as the real ones, in their formats.

python -m pytest -s tests/benchmarks/bench_images.py
"""

from __future__ import annotations

import time

import pytest

from fedselect.experiments import read_records, run
from tests.fedselect.data import test_images
from tests.fedselect.data.test_image_runs import REAL, experiment
from tests.fedselect.data.test_images import write


@pytest.mark.parametrize("name", REAL)
def test_a_run_from_files_as_large_as_the_real_ones(name, tmp_path, monkeypatch, capsys):
    _, train, test = REAL[name]
    monkeypatch.setattr(test_images, "TRAIN", train)
    monkeypatch.setattr(test_images, "TEST", test)
    write(name, tmp_path, monkeypatch)
    planned = experiment(name, tmp_path, 100, 3)
    start = time.perf_counter()
    federation = planned.federation()
    loaded = time.perf_counter() - start
    assert federation.sizes.sum() + sum(map(len, federation.validation)) == train
    assert len(federation.test) == test
    records = read_records(run(planned, tmp_path / "runs", plots=False))
    rest = time.perf_counter() - start - loaded
    assert len(records) == 3
    with capsys.disabled():
        print(
            f"\n{name}: {train} + {test} images loaded and split in {loaded:.1f} s; a run of 3 rounds in {rest:.1f} s"
        )
