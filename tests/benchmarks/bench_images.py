"""What image files as large as the real ones cost, in their formats: from the data set's name to a finished run.

python -m pytest -s tests/benchmarks/bench_images.py

The files are written first (random images). The run trains a small dense model for three rounds, so that its seconds
are those of the data; what the paper's network adds is printed as CPU time an image, through which a whole set passes
at every evaluation.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fedselect.experiments import read_records, run
from tests.fedselect.data import test_images
from tests.fedselect.data.test_image_runs import REAL, experiment
from tests.fedselect.data.test_images import write


@pytest.mark.parametrize("name", REAL)
def test_a_run_from_files_as_large_as_the_real_ones(name, tmp_path, monkeypatch, capsys):
    model, train, test = REAL[name]
    monkeypatch.setattr(test_images, "TRAIN", train)
    monkeypatch.setattr(test_images, "TEST", test)
    write(name, tmp_path, monkeypatch)
    planned = experiment(name, tmp_path, 100, 3)
    planned = replace(planned, training=replace(planned.training, model="mlp"))
    start = time.perf_counter()
    federation = planned.federation()
    loaded = time.perf_counter() - start
    assert federation.sizes.sum() + sum(map(len, federation.validation)) == train
    assert len(federation.test) == test
    per_image = 1000 * cpu_seconds_an_image(federation, model)
    del federation
    start = time.perf_counter()
    records = read_records(run(planned, tmp_path / "runs", plots=False))
    whole = time.perf_counter() - start
    assert len(records) == 3
    assert all(len(record["returned"]) == 2 for record in records)
    with capsys.disabled():
        print(
            f"\n{name}: {train} + {test} images loaded and split in {loaded:.1f} s; 3 rounds, all told: {whole:.1f} s"
        )
        print(f"    {model}: {per_image:.2f} ms of CPU an image, {per_image * train / 1000:.0f} s the training set")


def cpu_seconds_an_image(federation, model):
    """CPU time of a forward pass, on 1 024 test images."""
    import torch

    from fedselect.training.models import MODELS

    network = MODELS.build(model, federation).eval()
    images = torch.from_numpy(federation.test.features[:1024])
    with torch.no_grad():
        network(images[:8])
        start = time.process_time()
        network(images)
    return (time.process_time() - start) / len(images)
