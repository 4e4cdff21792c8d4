"""A run in TensorBoard, Weights & Biases and MLflow: the real packages write, and are read back."""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from fedselect.errors import ConfigError, MissingExtraError
from fedselect.experiments import Choice, Experiment, read_records, run
from fedselect.integrations.loggers import LOGGERS, check_loggers, numbers_of, open_logger
from tests.waiting import HANG

EXPERIMENT = Experiment(
    "logged",
    3,
    clients_per_round=2,
    data=Choice("digits", {"n_clients": 5}),
    selector=Choice("fedgs", {"method": "brute-force"}),
)


def _logged(name, tmp_path):
    """A run's records, after a logger was told of every round."""
    logger = open_logger(f"{name}={tmp_path / name}", tmp_path, EXPERIMENT.tables())
    return read_records(run(EXPERIMENT, tmp_path, plots=False, callbacks=[logger]))


def _wanted(records, name):
    return [pytest.approx(numbers_of(record)[name], rel=1e-6) for record in records]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed (extra tensorboard)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records = _logged("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    for name in ("loss", "accuracy", "available", "objective"):
        assert [event.value for event in events.Scalars(name)] == _wanted(records, name)
        assert [event.step for event in events.Scalars(name)] == [1, 2, 3]
    assert events.Tags()["tensors"] == ["configuration/text_summary"]


def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed (extra mlflow)")
    records = _logged("mlflow", tmp_path)
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlflow").as_uri())
    home = client.get_experiment_by_name("fedselect").experiment_id
    (found,) = client.search_runs([home])
    assert found.info.status == "FINISHED"
    assert found.data.params["selector.name"] == "fedgs"
    for name in ("loss", "selected"):
        assert [each.value for each in client.get_metric_history(found.info.run_id, name)] == _wanted(records, name)


def test_weights_and_biases_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="Weights & Biases is not installed (extra wandb)")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.setenv("WANDB_MODE", "offline")
    records = _logged("wandb", tmp_path)
    (written,) = (tmp_path / "wandb").rglob("*.wandb")
    found, last, deadline = [], "", time.monotonic() + HANG
    while last != "exit" and time.monotonic() < deadline:  # its own process writes, and is not waited for
        found.clear()
        for data in _entries(written.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            last = record.WhichOneof("record_type")
            if last == "history":
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                found.append(json.loads(items["loss"]))
        time.sleep(0.2)
    assert found == _wanted(records, "loss")


def _entries(log):
    """What an offline run's file holds: LevelDB's log format behind a header of 7 bytes, in one block here."""
    assert len(log) < 32768
    place = 7
    while place + 7 <= len(log):
        _, length, kind = struct.unpack("<IHB", log[place : place + 7])
        assert kind == 1  # a whole record
        if place + 7 + length > len(log):  # still being written
            return
        yield log[place + 7 : place + 7 + length]
        place += 7 + length


def test_a_logger_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="there is no logger 'tensorbord'; did you mean 'tensorboard'"):
        open_logger("tensorbord", tmp_path, {})
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    for name in LOGGERS:
        with pytest.raises(MissingExtraError, match=rf"is not installed: pip install '.*\[.*{name}\]'"):
            open_logger(name, tmp_path, {})


def test_a_store_that_is_none(tmp_path):
    pytest.importorskip("mlflow", reason="MLflow is not installed (extra mlflow)")
    (tmp_path / "file").write_text("no store")
    with pytest.raises(ConfigError, match=r"MLflow cannot use .*file as its store"):
        open_logger(f"mlflow={tmp_path / 'file'}", tmp_path, {})


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
@pytest.mark.parametrize("place", ["file", "file/below", "/proc"])
def test_a_place_that_cannot_be_written(tmp_path, monkeypatch, name, place):
    """A file, what is below one, and a folder that takes no file: before the run, and where only the API is used."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    if place == "/proc" and not Path(place).is_dir():
        pytest.skip("there is no /proc")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match=rf"logger '{name}' cannot write to '{place}': "):
        check_loggers([f"{name}={place}"])
    if name == "tensorboard":
        with pytest.raises(ConfigError, match=rf"logger 'tensorboard' cannot write to '{place}.*': "):
            open_logger(f"tensorboard={place}", tmp_path, {}, several=place == "/proc")
