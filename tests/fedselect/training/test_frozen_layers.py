"""Frozen layers: what has ``requires_grad = False`` is in no vector, update, step or message, and stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils import parameters_to_vector  # noqa: E402

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import Federation, digits  # noqa: E402
from fedselect.errors import ConfigError  # noqa: E402
from fedselect.experiments import Choice, Experiment, run  # noqa: E402
from fedselect.experiments.folder import load_checkpoint  # noqa: E402
from fedselect.randomness import generator  # noqa: E402
from fedselect.selectors import Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.models import MODELS, bytes_of  # noqa: E402
from fedselect.training.settings import TrainingSettings  # noqa: E402
from tests.reference_loop import LocalSGD  # noqa: E402

N = 8
FROZEN = 64 * 16 + 16
TRAINED = 16 * 16 + 16 + 16 * 10 + 10


def mlp() -> nn.Module:
    """A trunk of one layer that is frozen, and two layers that are trained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
    return freeze(net, net[1])


def freeze(net, *parts):
    for part in parts:
        for parameter in part.parameters():
            parameter.requires_grad = False
    return net


@pytest.fixture(scope="module")
def federation():
    return digits(partition="iid", n_clients=N)


class Told(Uniform):
    """Uniform, and keeps the updates that it is told."""

    def update(self, feedback):
        self.told = {client: update.copy() for client, update in feedback.updates.items()}


def loop(federation, model, selector=None, **settings):
    there = AVAILABILITY.build("ideal", federation, 3)
    return FedAvg(federation, selector or Uniform(4), there, model=model, settings=TrainingSettings(**settings), seed=3)


@pytest.mark.parametrize("batching", ["never", "always"])
def test_updates_are_those_of_pytorch_on_the_trained_parameters(federation, batching):
    """One round, client by client, with an optimizer of the parameters that have gradients."""
    selector, compared = Told(4), 0
    run = loop(federation, mlp(), selector, batching=batching)
    assert (run.stack > 1) == (batching == "always")
    assert run.weights.size == TRAINED
    run.step()
    sgd = LocalSGD(optimizer=lambda parameters, lr: torch.optim.SGD([p for p in parameters if p.requires_grad], lr=lr))
    for client, update in selector.told.items():
        net = mlp()
        kept = [each for each in net.parameters() if each.requires_grad]
        before = parameters_to_vector(kept).detach().clone()
        own = federation.datasets[client]
        data = torch.from_numpy(own.features), torch.from_numpy(own.labels)
        sgd.train(net, data, 0, generator(3, "training", 0, client))
        np.testing.assert_allclose(update, (parameters_to_vector(kept).detach() - before).numpy(), atol=1e-6)
        compared += 1
    assert compared == 4


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batching": "always"},
        {"optimizer": "adam", "learning_rate": 0.01},
        {"server_rule": "fedadam", "server_learning_rate": 0.01},
        {"momentum": 0.9, "proximal": 0.1, "weight_decay": 0.01},
    ],
)
def test_the_trunk_keeps_its_bits_and_a_loop_resumes_to_the_same(federation, settings):
    runs = [loop(federation, mlp(), **settings) for _ in range(2)]
    first = runs[0].fit(3)
    state = runs[0].state_dict()
    last = runs[0].fit(4)[-1]
    runs[1].load_state_dict(state)
    runs[1].fit(4)
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert last.loss < first[0].loss
    for name, value in runs[0].model.state_dict().items():
        same = torch.equal(value, mlp().state_dict()[name])
        assert same == name.startswith("1."), name
    assert state["weights"].shape == (TRAINED,)


def test_bytes_are_those_of_what_is_sent():
    assert bytes_of(mlp()) == 4 * TRAINED
    net = freeze(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.Linear(1, 1))
    assert bytes_of(net) == 4 * (12 + 3 + 6 + 6) + 8


def test_a_trunk_that_is_run_without_gradients_is_not_changed(federation):
    """The other way to freeze: parameters that the loss does not depend on have the gradient 0."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.head = nn.Linear(64, 8), nn.Linear(8, 10)

        def forward(self, x):
            with torch.no_grad():
                x = torch.relu(self.trunk(x.flatten(1)))
            return self.head(x)

    net = Net()
    run = loop(federation, net)
    run.fit(2)
    assert torch.equal(run.model.trunk.weight, net.trunk.weight)
    assert not torch.equal(run.model.head.weight, net.head.weight)


def test_a_model_of_which_nothing_is_trained_is_a_sentence(federation):
    net = mlp()
    with pytest.raises(ConfigError, match="Sequential has no parameters to train; all have requires_grad = False"):
        loop(federation, freeze(net, net))


@pytest.fixture
def registered():
    before = MODELS.snapshot()
    MODELS.register("frozen-mlp")(lambda federation: mlp())
    yield Experiment(
        rounds=3, clients_per_round=4, seed=3, data=Choice("digits", {"n_clients": N}),
        training=TrainingSettings(model="frozen-mlp", batching="never"),
    )  # fmt: skip
    MODELS.restore(before)


def test_a_registered_model_keeps_its_trunk(registered, tmp_path):
    folder = run(registered, tmp_path, plots=False)
    found = torch.load(folder / "model.pt", weights_only=True)
    assert torch.equal(found["1.weight"], mlp()[1].weight)
    assert load_checkpoint(folder / "checkpoint.npz")["weights"].size == TRAINED


def test_over_flower_it_is_the_same_model(registered, tmp_path):
    pytest.importorskip("flwr")
    from fedselect.integrations.flower import LocalGrid, experiment_client_app, run_on

    folders = [
        run(registered, tmp_path / "own", plots=False),
        run_on(LocalGrid(experiment_client_app(registered), N), registered, tmp_path / "flower"),
    ]
    own, flower = (load_checkpoint(folder / "checkpoint.npz")["weights"] for folder in folders)
    assert own.size == TRAINED
    assert own.tobytes() == flower.tobytes()


def test_resnet_of_which_the_last_layers_are_trained():
    """Torchvision's ResNet-18: buffers of all its normalisations are averaged, as ever; the rest of the trunk stays."""
    models = pytest.importorskip("torchvision").models
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = models.resnet18(weights=None, num_classes=3)
    freeze(net, net.conv1, net.bn1, net.layer1, net.layer2, net.layer3)
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(6, 3, 32, 32)), rng.integers(3, size=6)) for _ in range(4)]
    images = Federation.from_tensors(pairs[:3], pairs[3])
    there = AVAILABILITY.build("ideal", images, 0)
    run = FedAvg(images, Uniform(2), there, model=net, settings={"local_steps": 1, "batch_size": 4})
    assert run.weights.size == sum(p.numel() for part in (net.layer4, net.fc) for p in part.parameters())
    run.step()
    after = run.model
    assert torch.equal(after.layer3[0].conv1.weight, net.layer3[0].conv1.weight)
    assert torch.equal(after.bn1.weight, net.bn1.weight)
    assert not torch.equal(after.layer4[0].conv1.weight, net.layer4[0].conv1.weight)
    assert not torch.equal(after.bn1.running_mean, net.bn1.running_mean)
    assert set(after.state_dict()) == set(net.state_dict())
