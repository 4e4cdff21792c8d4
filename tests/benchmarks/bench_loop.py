"""What a round costs: beside Flower's simulation engine, beside a plain per-client PyTorch loop, and at scale.

Run from the repository root::

    python tests/benchmarks/bench_loop.py [plain] [synthetic] [simulate] [checkpoint] [flower]

All parts but ``flower`` by default. ``flower`` needs ``flwr[simulation]`` and says so where it is missing. Ratios are
of medians over rounds taken in turns in one process, on one PyTorch thread (Flower: on what Ray gives its actors).
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "studies")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

import stored_updates  # noqa: E402, F401  (registers MIFA)
from fedselect.availability import AVAILABILITY, DROPOUT  # noqa: E402
from fedselect.data import Federation, Samples, digits  # noqa: E402
from fedselect.experiments.folder import save_checkpoint  # noqa: E402
from fedselect.randomness import generator  # noqa: E402
from fedselect.rounds import History, World, decide, simulate  # noqa: E402
from fedselect.selectors import Uniform  # noqa: E402
from fedselect.training.client import batches  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.models import MODELS  # noqa: E402
from fedselect.training.settings import TrainingSettings, epochs_of  # noqa: E402


@MODELS.register("bench-cnn")
def bench_cnn(federation: Federation) -> nn.Module:
    """FedAU's trunk: two 3 x 3 convolutions of 32 channels, each pooled, and a hidden layer of 128."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, federation.classes)),
    )


def random_images(clients: int = 40, samples: int = 60) -> Federation:
    """Noise in the shape of MNIST: speed does not depend on what is learned."""
    rng = np.random.default_rng(0)
    parts = [
        Samples(rng.random((samples, 1, 28, 28), dtype=np.float32), rng.integers(10, size=samples))
        for _ in range(clients + 1)
    ]
    return Federation("noise", tuple(parts[1:]), parts[0], 10)


def synthetic(clients: int, alpha: float = 0.5, beta: float = 0.5, samples: int = 100) -> Federation:
    """Synthetic(α, β) of Li et al. (MLSys 2020): 60 features, 10 classes; equal sizes, a tenth held out."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, 61) ** -0.6  # covariance j^-1.2
    train, features, labels = [], [], []
    for _ in range(clients):
        u, b = rng.normal(0, alpha), rng.normal(0, beta)
        matrix, bias, mean = rng.normal(u, 1, (60, 10)), rng.normal(u, 1, 10), rng.normal(b, 1, 60)
        x = mean + scales * rng.standard_normal((samples, 60))
        y = (x @ matrix + bias).argmax(axis=1)
        held = samples // 10
        train.append(Samples(x[held:], y[held:]))
        features.append(x[:held])
        labels.append(y[:held])
    return Federation("synthetic", tuple(train), Samples(np.concatenate(features), np.concatenate(labels)), 10)


class PlainLoop:
    """FedAvg as one writes it: a copy of the model, ``torch.optim.SGD`` and ``backward``, client after client."""

    def __init__(self, federation: Federation, size: int, settings: TrainingSettings) -> None:
        self.federation, self.settings, self.round = federation, settings, 0
        self.selector = Uniform(size)
        self.world = World(federation.sizes, AVAILABILITY.build("ideal", federation, 0))
        self.model = MODELS.build(settings.model, federation)
        self.local = copy.deepcopy(self.model)
        self.epochs = epochs_of(len(federation), settings, 0)
        self.data = [(torch.from_numpy(c.features), torch.from_numpy(c.labels)) for c in federation.datasets]
        self.test = torch.from_numpy(federation.test.features), torch.from_numpy(federation.test.labels)

    def step(self) -> None:
        t = self.round
        selection = decide(self.selector, self.world, t).selection
        start = {name: value.clone() for name, value in self.model.state_dict().items()}
        total = {name: torch.zeros_like(value) for name, value in start.items()}
        for client, weight in zip(selection.clients.tolist(), selection.weights.tolist(), strict=True):
            self.local.load_state_dict(start)
            optimizer = torch.optim.SGD(self.local.parameters(), lr=self.settings.rate(t))
            x, y = self.data[client]
            for batch in batches(len(y), self.settings, int(self.epochs[client]), generator(0, "training", t, client)):
                rows = torch.from_numpy(batch)
                optimizer.zero_grad()
                cross_entropy(self.local(x[rows]), y[rows]).backward()
                optimizer.step()
            for name, value in self.local.state_dict().items():
                total[name] += weight * (value - start[name])
        self.model.load_state_dict({name: start[name] + total[name] for name in start})
        with torch.no_grad():
            outputs = self.model(self.test[0])
            float(cross_entropy(outputs, self.test[1]))
            float((outputs.argmax(dim=1) == self.test[1]).double().mean())
        self.round += 1


def loop(federation: Federation, size: int, settings: TrainingSettings) -> FedAvg:
    return FedAvg(federation, Uniform(size), AVAILABILITY.build("ideal", federation, 0), settings=settings)


def seconds(step: object) -> float:
    start = time.perf_counter()
    step()  # type: ignore[operator]
    return time.perf_counter() - start


def bench_plain() -> None:
    """Rounds in turns: the plain loop, the loop as it chooses, and the loop one client at a time."""
    cases = [
        ("digits, linear, m = 10", digits(n_clients=100), 10, TrainingSettings(), 60),
        ("digits, linear, m = 50", digits(n_clients=100), 50, TrainingSettings(), 20),
        ("digits, mlp 64, m = 10", digits(n_clients=100), 10, TrainingSettings(model="mlp"), 40),
        ("synthetic, linear, m = 50, b = 10", synthetic(200), 50, TrainingSettings(), 20),
        ("28 x 28, linear, m = 10, b = 50", random_images(), 10, TrainingSettings(batch_size=50), 20),
        ("28 x 28, mlp 64, m = 10, b = 50", random_images(), 10, TrainingSettings(model="mlp", batch_size=50), 20),
        ("28 x 28, CNN, m = 5, b = 16", random_images(), 5, TrainingSettings(model="bench-cnn", batch_size=16), 12),
    ]
    print(f"{'a round, median':36} {'plain':>10} {'auto':>10} {'stack':>6} {'ratio':>7} {'never':>10} {'ratio':>7}")
    for name, federation, size, settings, rounds in cases:
        one_by_one = TrainingSettings(model=settings.model, batch_size=settings.batch_size, batching="never")
        runs = [
            PlainLoop(federation, size, settings),
            loop(federation, size, settings),
            loop(federation, size, one_by_one),
        ]
        times = np.array([[seconds(run.step) for run in runs] for _ in range(rounds + 2)])[2:]
        plain, auto, never = np.median(times, axis=0) * 1000
        print(
            f"{name:36} {plain:7.2f} ms {auto:7.2f} ms {runs[1].stack:6d} {plain / auto:6.2f}x "
            f"{never:7.2f} ms {plain / never:6.2f}x"
        )


def bench_synthetic() -> None:
    """1 000 clients x 500 rounds of the linear model on Synthetic(0.5, 0.5), m = 50; with and without evaluations."""
    federation = synthetic(1000)
    for every in (1, 10):
        run = loop(federation, 50, TrainingSettings(evaluate_every=every))
        start = time.perf_counter()
        for _ in range(500):
            done = run.step()
        took = time.perf_counter() - start
        print(f"1000 clients x 500 rounds, m = 50, evaluated every {every}: {took:.1f} s, accuracy {done.accuracy:.3f}")


def bench_simulate() -> None:
    """Selection only: 100 000 clients, 200 rounds, uniform selection of 1 000."""

    class Nobody:
        """Stands for a federation where only the number of clients matters."""

        def __len__(self) -> int:
            return 100_000

    availability = AVAILABILITY.build("lognormal", Nobody(), 0, beta=0.5)
    dropout = DROPOUT.build("bernoulli", 100_000, 0, rate=0.3)
    start = time.perf_counter()
    rounds = simulate(Uniform(1000), availability, dropout, sizes=np.full(100_000, 10), rounds=200)
    history = History.collect(rounds, 100_000)
    took = time.perf_counter() - start
    print(f"100 000 simulated clients: {1000 * took / 200:.2f} ms a round, {history.returns.sum()} updates")


def bench_checkpoint() -> None:
    """What saving costs: small models, and MIFA's stored updates of 100 clients."""
    cases = [
        ("linear, fedavg", digits(n_clients=100), TrainingSettings()),
        ("CNN (211 000 parameters), mifa", random_images(100), TrainingSettings(model="bench-cnn", server_rule="mifa")),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, federation, settings in cases:
            run = loop(federation, 5, settings)
            run.step()
            path = Path(folder) / "checkpoint.npz"
            times = [seconds(lambda run=run, path=path: save_checkpoint(path, run.state_dict())) for _ in range(5)]
            megabytes = path.stat().st_size / 1e6
            print(f"checkpoint, {name}: {1000 * statistics.median(times):.1f} ms, {megabytes:.2f} MB")


@functools.lru_cache(maxsize=1)
def flower_federation() -> Federation:
    """The digits, read once in a process."""
    return digits(n_clients=100)


def flower_train(message: Any, context: Any) -> Any:
    """Flower's client: ten steps of plain SGD on the linear model."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    federation = flower_federation()
    samples = federation.datasets[int(context.node_config["partition-id"])]
    model = MODELS.build("linear", federation)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.from_numpy(samples.features), torch.from_numpy(samples.labels)
    for batch in batches(len(y), TrainingSettings(), 0, np.random.default_rng(0)):
        rows = torch.from_numpy(batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y), "loss": float(loss)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def bench_flower(rounds: int = 50) -> None:
    """Flower's simulation engine on the same task: digits, linear model, N = 100, m = 10, 10 local steps."""
    if importlib.util.find_spec("flwr") is None:
        print("flower: flwr is not installed here; pip install 'fedselect[flower]'")
        return
    for name in ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED"):
        os.environ[name] = "0"
    os.environ["FLWR_LOG_LEVEL"] = "ERROR"
    from flwr.app import ArrayRecord, Context, MetricRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
    from flwr.simulation import run_simulation

    # Ray's actors import the client from this file; pickled by value it would carry the data along with each message.
    here = Path(__file__).resolve()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here.parents[2]), str(here.parent)])
    import bench_loop

    settings, federation = TrainingSettings(), bench_loop.flower_federation
    client_app, server_app = ClientApp(), ServerApp()
    client_app.train()(bench_loop.flower_train)

    ends: list[float] = []
    reached: list[float] = []

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        test = federation().test
        x, y = torch.from_numpy(test.features), torch.from_numpy(test.labels)

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
            model = MODELS.build("linear", federation())
            model.load_state_dict(arrays.to_torch_state_dict())
            with torch.no_grad():
                outputs = model(x)
                loss = float(cross_entropy(outputs, y))
                accuracy = float((outputs.argmax(dim=1) == y).double().mean())
            ends.append(time.perf_counter())
            reached.append(accuracy)
            return MetricRecord({"loss": loss, "accuracy": accuracy})

        strategy = FlowerFedAvg(fraction_train=0.1, fraction_evaluate=0.0, min_train_nodes=10, min_available_nodes=100)
        initial = ArrayRecord(MODELS.build("linear", federation()).state_dict())
        strategy.start(grid, initial, num_rounds=rounds, evaluate_fn=evaluate)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    start = time.perf_counter()
    run_simulation(server_app, client_app, num_supernodes=100, backend_config=resources)
    whole = time.perf_counter() - start
    # ends[0] is the evaluation before the first round; the first round waits for Ray's actors, so it is left out.
    flower = statistics.median(np.diff(ends)[1:])
    run = loop(federation(), 10, settings)
    ours = [seconds(run.step) for _ in range(rounds)]
    median, total = statistics.median(ours), sum(ours)
    print(f"flower:    {whole:.1f} s in all, {1000 * flower:.1f} ms a round (median), accuracy {reached[-1]:.3f}")
    print(f"fedselect: {total:.2f} s in all, {1000 * median:.2f} ms a round (median), accuracy {run.evaluate()[1]:.3f}")
    print(f"ratio: {flower / median:.0f}x a round, {whole / total:.0f}x in all")


PARTS = {
    "plain": bench_plain,
    "synthetic": bench_synthetic,
    "simulate": bench_simulate,
    "checkpoint": bench_checkpoint,
    "flower": bench_flower,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in sys.argv[1:] or [name for name in PARTS if name != "flower"]:
        PARTS[part]()
