"""Training from a file of weights: a run's model, or one saved by PyTorch; nothing else is read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import digits  # noqa: E402
from fedselect.errors import ConfigError, RunError  # noqa: E402
from fedselect.experiments import read_config, run  # noqa: E402
from fedselect.selectors import Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402

N = 8
CONFIG = """
[experiment]
rounds = 3
clients_per_round = 3
[data]
name = "digits"
n_clients = 8
[training]
model = "mlp"
"""


@pytest.fixture(scope="module")
def federation():
    return digits(n_clients=N)


def loop(federation, **options):
    return FedAvg(federation, Uniform(3), AVAILABILITY.build("ideal", federation, 0), **options)


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


def test_a_run_goes_on_from_the_model_of_another(tmp_path):
    """By a path that starts at the configuration; the file is part of what the run is of."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "first.toml").write_text(CONFIG)
    first = run(read_config(folder / "first.toml")[0], tmp_path / "out", plots=False)
    shutil.copy(first / "model.pt", folder / "start.pt")
    (folder / "second.toml").write_text(CONFIG.replace("rounds = 3", "rounds = 2") + 'initial_model = "start.pt"\n')
    experiment, _ = read_config(folder / "second.toml")
    losses = []
    second = run(experiment, tmp_path / "out", plots=False, callbacks=lambda record: losses.append(record["loss"]))
    end = torch.load(first / "model.pt", weights_only=True)
    begun = loop(experiment.federation(), settings=experiment.training).model.state_dict()
    assert all(torch.equal(begun[name], value) for name, value in end.items())
    assert len(losses) == 2
    assert read_config(second / "config.toml")[0].training.initial_model == experiment.training.initial_model
    other = torch.load(folder / "start.pt", weights_only=True)
    torch.save({name: value + 1 for name, value in other.items()}, folder / "start.pt")
    with pytest.raises(RunError, match=r"start\.pt"):
        run(experiment, tmp_path / "out")


def test_an_own_module_takes_parameters_and_buffers(federation, tmp_path):
    saved = network()
    saved(torch.randn(20, 64))
    torch.save(saved.state_dict(), tmp_path / "net.pt")
    started = loop(federation, model=network, settings={"initial_model": str(tmp_path / "net.pt")})
    for name, value in started.model.state_dict().items():
        assert torch.equal(value, saved.state_dict()[name])
    assert np.array_equal(started.weights, nn.utils.parameters_to_vector(saved.parameters()).detach().numpy())


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: None, r"initial_model .*net.pt cannot be read: No such file"),
        (lambda path: path.write_bytes(b"nothing"), "holds no weights, or more than weights"),
        (lambda path: path.write_bytes(b""), "holds no weights"),
        (
            lambda path: torch.save(network(), path),
            r"more than weights, which is not read: write it by torch.save\(model",
        ),
        (lambda path: torch.save([1, 2], path), "must be a model's state_dict, tensors by name; got a list"),
        (lambda path: torch.save({"epoch": 3}, path), "must be a model's state_dict"),
        (
            lambda path: torch.save(nn.Linear(64, 10).state_dict(), path),
            "is of another model than Sequential: '1.bias' is missing, 'bias' is none of it",
        ),
        (
            lambda path: torch.save(network().state_dict() | {"1.weight": torch.zeros(8, 32)}, path),
            r"'1.weight' has shape \(8, 32\); the model's is \(8, 64\)",
        ),
    ],
)
def test_what_is_no_file_of_weights_is_a_sentence(federation, tmp_path, write, sentence):
    write(tmp_path / "net.pt")
    with pytest.raises(ConfigError, match=sentence):
        loop(federation, model=network, settings={"initial_model": str(tmp_path / "net.pt")})
