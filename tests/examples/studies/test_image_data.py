"""A study on its paper's own data set, from files in the real formats (few images) to tables beside the paper."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pandas as pd
import pytest

import fedss
from study import main
from tests.fedselect.data import test_images
from tests.fedselect.data.test_images import write

if find_spec("torchvision") is None:  # importing it takes seconds, which only a test that runs should
    pytest.skip("torchvision is not installed", allow_module_level=True)


@pytest.mark.deployment
def test_fedss_on_mnist(tmp_path, monkeypatch):
    """Two rounds of the paper's network; minutes on a busy machine."""
    monkeypatch.setattr(test_images, "TRAIN", 1300)
    monkeypatch.setattr(test_images, "TEST", 52)
    write("mnist", tmp_path, monkeypatch)
    study = fedss.STUDY._replace(quick=fedss.Scale(1, 1, 0.01, 1, ("95 %",), (10,)))
    main(study, ["--dataset", "mnist", "--root", str(tmp_path), "--out", str(tmp_path / "out"), "--jobs", "1"])
    folder = tmp_path / "out" / "quick-mnist"
    assert "--dataset mnist" in json.loads((folder / "provenance.json").read_text())["command"]
    beside = pd.read_csv(folder / "beside-paper.csv")
    table = beside[beside["table"].str.startswith("Table I:")]
    assert table["table"].str.endswith("the paper's on mnist").all()
    assert table["paper"].notna().any()
