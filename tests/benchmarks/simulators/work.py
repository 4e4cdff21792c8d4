"""The work that every engine does, as one file: who trains in each round, on which samples, from which weights.

`write` makes the file of a case (it needs fedselect), `Work` reads it (NumPy alone; PyTorch for a model). Batches are
those that fedselect draws for seed 0, so that its own loop does this work without being told; all others read them.
Every batch is full, and models have no buffers: there is one way to average them.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

RATE = 0.1


@dataclass(frozen=True)
class Case:
    """Size of a case: clients, how many train a round, their steps and samples a step, rounds that are checked."""

    name: str
    model: str
    clients: int
    cohort: int
    sizes: tuple[int, ...]  #: samples a client, drawn of these
    batch: int
    steps: int = 10
    checked: int = 10  #: rounds after which weights are compared, and the clock begins
    rounds: int = 210


CASES = {
    case.name: case
    for case in (
        Case("linear", "linear", 100, 10, (10, 20), 10),
        Case("mlp", "mlp", 100, 10, (10, 20), 10),
        Case("many", "linear", 1000, 100, (10, 20), 10),
        Case("cnn", "cnn", 40, 5, (60,), 20, checked=2, rounds=60),
        Case("resnet", "resnet", 20, 8, (16, 24), 8, steps=2, checked=1, rounds=4),
    )
}


def shape(model: str) -> tuple[int, ...]:
    """Shape of a sample."""
    return {"cnn": (1, 28, 28), "resnet": (3, 32, 32)}.get(model, (64,))


def network(name: str) -> Any:
    """The PyTorch model of a name."""
    from torch import nn

    if name == "linear":
        return nn.Sequential(nn.Linear(64, 10))
    if name == "mlp":
        return nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10))
    if name == "cnn":
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10)),
        )

    class Block(nn.Module):
        """Two convolutions beside a shortcut."""

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm1 = nn.GroupNorm(8, outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm2 = nn.GroupNorm(8, outputs)
            self.short = nn.Sequential()
            if stride > 1:
                self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))

        def forward(self, x: Any) -> Any:
            y = self.norm1(self.conv1(x)).relu()
            return (self.norm2(self.conv2(y)) + self.short(x)).relu()

    widths = [64, 64, 128, 256, 512]
    blocks = [
        block
        for place, (inputs, outputs) in enumerate(itertools.pairwise(widths))
        for block in (Block(inputs, outputs, 2 if place else 1), Block(outputs, outputs, 1))
    ]
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.GroupNorm(8, 64), nn.ReLU()),
        *blocks,
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)),
    )


def write(case: Case, path: Path) -> None:
    """Draw the work of a case and write it."""
    import torch
    from sklearn.datasets import load_digits

    from fedselect.randomness import generator
    from fedselect.training.client import batches
    from fedselect.training.settings import TrainingSettings

    rng = np.random.default_rng(45)
    sizes = rng.choice(case.sizes, size=case.clients)
    pictures, labels = load_digits(return_X_y=True)
    drawn = rng.integers(len(labels), size=sizes.sum())
    features = pictures[drawn].reshape(-1, 8, 8) / 16
    if case.model in ("cnn", "resnet"):  # each pixel thrice or four times, a margin, and a little noise
        times = 3 if case.model == "cnn" else 4
        features = features.repeat(times, axis=1).repeat(times, axis=2)
        features = np.pad(features, ((0, 0), (2, 2), (2, 2))) if case.model == "cnn" else features
        features = np.broadcast_to(features[:, None], (len(features), *shape(case.model)))
        features = features + 0.05 * rng.standard_normal(features.shape)
    settings = TrainingSettings(batch_size=case.batch, local_steps=case.steps)
    clients = np.stack([np.sort(rng.choice(case.clients, case.cohort, replace=False)) for _ in range(case.rounds)])
    plans = [
        [batches(int(sizes[k]), settings, 0, generator(0, "training", t, int(k))) for k in chosen]
        for t, chosen in enumerate(clients)
    ]
    torch.manual_seed(45)
    initial = {f"initial.{name}": value.numpy() for name, value in network(case.model).state_dict().items()}
    with path.open("wb") as file:
        np.savez(
            file,
            case=json.dumps(asdict(case)),
            features=features.reshape(-1, *shape(case.model)).astype(np.float32),
            labels=labels[drawn].astype(np.int64),
            sizes=sizes,
            clients=clients,
            batches=np.array(plans, dtype=np.int16),
            **initial,
        )


class Work:
    """A case's file, read.

    Attributes
    ----------
    case : Case
    features, labels : ndarray
        Samples of all clients, one after the other.
    sizes : (N,) ndarray of int
        Samples of each client.
    clients : (rounds, cohort) ndarray of int
        Who trains, sorted.
    batches : (rounds, cohort, steps, batch) ndarray of int
        Places among the client's samples.
    initial : dict of str to ndarray
        The first weights, by parameter.
    """

    def __init__(self, path: str | Path) -> None:
        with np.load(path) as file:
            held = {name: file[name] for name in file.files}
        self.path = str(path)
        told = json.loads(str(held["case"]))
        self.case = Case(**{**told, "sizes": tuple(told["sizes"])})
        self.features, self.labels, self.sizes = held["features"], held["labels"], held["sizes"]
        self.clients, self.batches = held["clients"], held["batches"].astype(np.int64)
        self.initial = {name[8:]: value for name, value in held.items() if name.startswith("initial.")}
        self.starts = np.cumsum(self.sizes) - self.sizes

    def samples(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of a client."""
        own = slice(self.starts[client], self.starts[client] + self.sizes[client])
        return self.features[own], self.labels[own]

    def shares(self, round: int) -> np.ndarray:
        """Weights of a round's clients: their samples, divided by all of them."""
        sizes = self.sizes[self.clients[round]]
        return sizes / sizes.sum()

    def plan(self, round: int, client: int) -> np.ndarray:
        """Places of a client's samples in each step of a round, (steps, batch)."""
        return self.batches[round, np.searchsorted(self.clients[round], client)]

    def tensors(self) -> list[tuple[Any, Any]]:
        """Features and labels of each client, as tensors of PyTorch."""
        import torch

        return [tuple(map(torch.from_numpy, self.samples(client))) for client in range(len(self.sizes))]

    def model(self) -> Any:
        """The PyTorch model, with the first weights."""
        import torch

        model = network(self.case.model)
        model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in self.initial.items()})
        return model


def train(model: Any, data: tuple[Any, Any], plan: np.ndarray) -> None:
    """Train a PyTorch model in place as one writes it: ``torch.optim.SGD`` and ``backward``, step after step."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    features, labels = data
    for rows in torch.from_numpy(plan):
        optimizer.zero_grad()
        cross_entropy(model(features[rows]), labels[rows]).backward()
        optimizer.step()


class EnoughError(Exception):
    """Raised by `Watch` when all is measured."""


class Watch:
    """Called after each round: takes the time between, keeps the weights that are compared, says when to end.

    Parameters
    ----------
    work : Work
        What is done.
    seconds : float
        The measurement ends after so many, or after all rounds.
    """

    def __init__(self, work: Work, seconds: float) -> None:
        self.case, self.seconds = work.case, seconds
        self.times: list[float] = []
        self.weights: dict[str, np.ndarray] = {}
        self.first = self._begin = self._last = 0.0
        self.done = 0

    def __call__(self, weights: Callable[[], Mapping[str, Any]]) -> None:
        """Note that a round is over; ``weights()`` gives the global model's, by parameter."""
        now, self.done = time.time(), self.done + 1
        if self.done == 1:
            self.first = now
        elif self.done > self.case.checked:
            self.times.append(now - self._last)
        if self.done == self.case.checked:
            self.weights = {name: plain(value) for name, value in weights().items()}
            self._begin = time.time()
        enough = self.done > self.case.checked + 2 and now - self._begin > self.seconds
        if enough or self.done == self.case.rounds:
            raise EnoughError
        self._last = time.time()


def plain(value: Any) -> np.ndarray:
    """A copy of a tensor or an array, as an array."""
    return np.array(value.detach().numpy() if hasattr(value, "detach") else value)
