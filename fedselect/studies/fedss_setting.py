"""FedSS's setting, as far as its paper states it: groups, what is trained, and how much of it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedselect.experiments import Choice, Experiment
from fedselect.training.settings import TrainingSettings

RATIOS = ("80 %", "90 %", "95 %")
CLIENTS, LABELS = 100, 10
FEDSS_O = Choice("fedss", {"largest": LABELS})
FEDSS_P = Choice("fedss", {"largest": LABELS, "variant": "proportional"})


@dataclass(frozen=True)
class Task:
    """What is trained. Only the target loss of MNIST and CIFAR-10 is the paper's; the rest it leaves open."""

    published: str
    targets: tuple[float, ...]  # the first is the one that is shown
    rounds: int
    steps: tuple[
        float, ...
    ]  # local step sizes; the first has all the settings, the last Tables I and II, others Table I
    settings: dict[str, Any]


TASKS = {
    "digits": Task("mnist", (0.5, 1.0, 0.3), 400, (0.05, 0.5, 1.0), {"model": "mlp"}),
    "mnist": Task("mnist", (0.1,), 200, (0.05,), {"model": "cnn-fashion"}),
    "cifar10": Task("cifar10", (1.5,), 400, (0.05,), {"model": "cnn-cifar", "batch_size": 50}),
}


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    traces: int  # seeds of the part without training
    days: int  # of 24 rounds in each
    rounds: float  # share of the task's
    seeds: int
    ratios: tuple[str, ...]
    sizes: tuple[int, ...]  # clients a round in Table II


QUICK = Scale(20, 2, 0.5, 3, ("80 %", "95 %"), (10, 30))
PAPER = Scale(200, 2, 1.0, 5, RATIOS, (10, 20, 30))


def experiment(dataset: str, root: Path, ratio: str = "95 %", size: int = 10, per_group: int = 1) -> Experiment:
    """The paper's setting, as far as it is stated."""
    data = {"partition": "sorted-blocks", "ratio": float(ratio.strip(" %")) / 100, "clients": CLIENTS}
    if dataset != "digits":
        data["root"] = str(root)
    return Experiment(
        clients_per_round=size,
        checkpoint_every=50,
        data=Choice(dataset, data),
        availability=Choice("group-trace", {"per_group": per_group}),
        training=TrainingSettings(**{"decay": 1.0, "local_epochs": 5, "batch_size": 10} | TASKS[dataset].settings),
    )
