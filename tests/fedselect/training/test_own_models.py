"""One's own modules, losses and metrics; batch normalisation; fit, callbacks and the model afterwards."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedselect.availability import Independent  # noqa: E402
from fedselect.data import Federation  # noqa: E402
from fedselect.errors import ConfigError  # noqa: E402
from fedselect.experiments import Choice, Experiment, run  # noqa: E402
from fedselect.selectors.sampling import Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.models import MODELS, averaged  # noqa: E402
from fedselect.training.settings import TrainingSettings, pick_device  # noqa: E402

N = 6


class Net(nn.Module):
    """A network with batch normalisation, whose buffers updates do not carry."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, classes)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


@pytest.fixture(scope="module")
def blobs():
    """Three classes that lie apart; 31 samples a client, so that a pass ends with a batch of one."""
    rng = np.random.default_rng(3)
    centres = rng.normal(scale=3, size=(3, 4))
    labels = rng.integers(3, size=(N + 1, 31))
    x = centres[labels] + rng.normal(size=(N + 1, 31, 4))
    pairs = list(zip(x, labels, strict=True))
    return Federation.from_tensors(pairs[:N], pairs[N])


def _loop(federation, **options):
    settings = TrainingSettings(**{"batch_size": 10, "local_epochs": 1} | options.pop("settings", {}))
    seed = options.pop("seed", 0)
    return FedAvg(federation, Uniform(3), Independent(np.ones(N), seed), settings=settings, seed=seed, **options)


def _bits(model):
    return [value.numpy().tobytes() for value in model.state_dict().values()]


def test_batch_normalisation_trains_and_resumes_to_the_same_bits(blobs):
    loop = _loop(blobs, model=Net)
    first = loop.fit(4)
    state = loop.state_dict()
    last = loop.fit(6)[-1]
    assert last.accuracy > max(0.8, first[0].accuracy - 0.1)
    other = _loop(blobs, model=Net)
    other.load_state_dict(state)
    other.fit(6)
    assert _bits(other.model) == _bits(loop.model)
    assert not other.model.training


def test_the_server_averages_buffers_with_the_weights_scaled_to_one():
    server = torch.tensor([1.0, 0.0])
    arrived = torch.tensor([[1.0, 4.0], [1.0, -2.0], [1.0, 100.0]])
    assert averaged(server, arrived, np.array([0.5, 0.25, 0.0])).tolist() == pytest.approx([1.0, 2.0])
    assert averaged(server, arrived, np.array([0.0, -1.0, 0.0])) is server  # nothing counts


def test_average_is_what_the_clients_end_with(blobs):
    loop = _loop(blobs, model=Net)
    start = loop._buffers.clone()
    weights = loop._weights.clone()
    done = loop.step(evaluate=False)
    trained = _loop(blobs, model=Net)._local.train(done.selection.clients.tolist(), weights, 0, start)
    shares = torch.from_numpy(done.applied / done.applied.sum()).float()
    torch.testing.assert_close(loop._buffers, shares @ trained[2])


def test_a_class_draws_from_the_seed_and_an_instance_keeps_its_values(blobs):
    before = torch.random.get_rng_state()
    same, other = (_loop(blobs, model=Net, seed=seed).model for seed in (0, 1))
    assert _bits(_loop(blobs, model=lambda: Net(3)).model) == _bits(same) != _bits(other)
    assert torch.equal(torch.random.get_rng_state(), before)
    mine = Net()
    assert _bits(_loop(blobs, model=mine).model) == _bits(mine)
    loop = _loop(blobs, model=mine)
    loop.fit(1)
    assert _bits(loop.model) != _bits(mine)
    assert _bits(_loop(blobs, model=lambda federation: Net(federation.classes)).model) == _bits(same)


def test_a_registered_model_keeps_the_ones_of_its_layers_of_normalisation(blobs, restoring):
    restoring(MODELS)
    MODELS.register("own-net")(lambda federation: Net(federation.classes))
    model = _loop(blobs, settings={"model": "own-net"}).model
    assert model.norm.weight.tolist() == [1.0] * 8
    assert model.norm.bias.abs().max() == model.first.bias.abs().max() == 0


def test_regression_with_a_built_in_model_finds_the_line():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    split = Federation.from_split((x, x @ [1.0, -2.0, 0.5] + 3), "iid", N)
    loop = _loop(split, settings={"learning_rate": 0.05})
    last = loop.fit(60)[-1]
    assert last.loss < 1e-6
    assert last.accuracy is None
    assert last.metrics["absolute_error"] < 1e-3
    assert loop.model[1].weight[0].tolist() == pytest.approx([1, -2, 0.5], abs=1e-2)
    scores = loop.client_scores()
    assert scores["loss"].max() < 1e-6
    assert np.isnan(scores["accuracy"]).all()
    assert scores["absolute_error"].max() < 1e-3


def test_losses_and_metrics_of_ones_own(blobs):
    ours = _loop(blobs, settings={"batching": "never"}).fit(2)[-1]
    module = nn.CrossEntropyLoss()  # averages, as everybody writes it; the loop takes the samples' losses
    theirs = _loop(blobs, loss=module, metrics={"rank": lambda z, y: (z > z.gather(1, y[:, None])).sum(1)})
    last = theirs.fit(2)[-1]
    assert last.loss == pytest.approx(ours.loss, rel=1e-5)
    assert module.reduction == "mean"
    assert 0 <= last.metrics["rank"] <= 2
    smooth = _loop(blobs, loss=nn.CrossEntropyLoss(label_smoothing=0.2)).fit(2)[-1]
    assert smooth.loss != pytest.approx(ours.loss, rel=1e-3)


def test_callbacks_hear_every_round_and_may_stop(blobs):
    heard, closed = [], []

    class Logger:
        def on_round(self, record):
            heard.append(record["round"])
            if record["round"] == 2:
                raise StopIteration

        def close(self):
            closed.append(True)

    played = _loop(blobs).fit(5, callbacks=[Logger(), lambda record: heard.append(record["accuracy"])])
    assert len(played) == 3
    assert heard[0::2] == [0, 1, 2]
    assert all(isinstance(each, float) for each in heard[1::2])
    assert closed == [True]


def test_a_run_saves_the_model_and_tells_callbacks(tmp_path):
    heard = []
    experiment = Experiment("m", 2, clients_per_round=2, data=Choice("digits", {"n_clients": 4}))
    folder = run(experiment, tmp_path, plots=False, callbacks=[lambda record: heard.append(record["round"])])
    assert heard == [0, 1]
    state = torch.load(folder / "model.pt", weights_only=True)
    assert {name: tuple(value.shape) for name, value in state.items()} == {"1.weight": (10, 64), "1.bias": (10,)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": nn.Linear}, "model Linear asks for in_features, out_features: give an instance, or lambda"),
        ({"model": lambda: 3}, "must make a torch.nn.Module; got int"),
        ({"model": 3}, "model must be a torch.nn.Module, or a class or function"),
        ({"model": nn.ReLU}, "model ReLU has no parameters to train"),
        ({"model": nn.Linear(5, 3)}, r"model Linear cannot answer a sample of shape \(4,\) of 'own': .*mat1 and mat2"),
        ({"model": nn.Linear(4, 2)}, "model Linear must answer 3 numbers a sample, one a class"),
        ({"model": nn.Linear(4, 3).double()}, "must have float32 parameters"),
        ({"model": Net, "settings": {"batch_size": 1}}, "Net normalises over batches, which need 2 samples, and batch"),
        (
            {"model": nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)), "settings": {"batch_size": 1}},
            "model Sequential normalises over batches",
        ),
        ({"model": Net, "settings": {"batching": "always"}}, "Net has buffers, whose clients train one by one"),
        ({"loss": 3}, "a loss is a function"),
        ({"settings": {"loss": "squared"}}, "there is no loss 'squared'.*did you mean 'squared-error'"),
        ({"settings": {"device": "gpu"}}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:1', say; got 'gpu'"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_round(blobs, options, message):
    with pytest.raises(ConfigError, match=message):
        _loop(blobs, **options)


def test_a_loss_of_the_whole_batch_and_a_callback_that_is_none_are_refused(blobs):
    with pytest.raises(ConfigError, match=r"the loss must give one number a sample, shape \(10,\); got shape \(\)"):
        _loop(blobs, loss=lambda z, y: nn.functional.cross_entropy(z, y)).fit(1)
    with pytest.raises(ConfigError, match="a callback is a function of a record"):
        _loop(blobs).fit(1, callbacks=[3])
    with pytest.raises(ConfigError, match=r"a callback is a function of a record, or has .*; got None"):
        _loop(blobs).fit(1, callbacks=None)


def test_a_device_that_is_not_there():
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(ConfigError, match=f"device 'cuda:{there}' was asked for, but PyTorch sees"):
        pick_device(f"cuda:{there}")
