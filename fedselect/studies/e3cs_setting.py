"""E3CS's setting, as far as its paper states it: schemes and draws, what is trained, and how much of it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedselect.experiments import Choice, Experiment
from fedselect.training.settings import TrainingSettings

CLIENTS, SIZE, RATES = 100, 20, (0.1, 0.3, 0.6, 0.9)
DRAWS = ("successive", "madow", "dep-round")
QUOTAS: Mapping[str, float | str] = {"E3CS-0": 0.0, "E3CS-0.5": 0.5, "E3CS-0.8": 0.8, "E3CS-inc": "incremental"}
BASELINES = {
    "Random": Choice("uniform", {"aggregation": "deadline"}),
    "FedCS": Choice("fedcs"),
    "pow-d": Choice("power-of-choice", {"candidates": 30, "aggregation": "deadline"}),
}
SCHEMES = (*QUOTAS, *BASELINES)
SCHEDULES = {"A": 0.0, "P": 0.5}  # FedAvg and FedProx, by their proximal coefficient


@dataclass(frozen=True)
class Task:
    """What is trained, and for how long."""

    published: str
    accuracies: tuple[int, int, int]
    rounds: int
    data: Mapping[str, Any]
    model: str
    batch: int


FILES = {"samples": 500, "validation_fraction": 0.1}
TASKS = {
    "digits": Task("emnist-letters", (65, 75, 85), 400, {"samples": 50}, "mlp", 4),
    "letters": Task("emnist-letters", (65, 75, 85), 400, FILES, "mlp", 40),
    "emnist-letters": Task("emnist-letters", (65, 75, 85), 400, FILES, "cnn-emnist", 40),
    "cifar10": Task("cifar10", (45, 55, 65), 2500, FILES, "cnn-cifar", 40),
}


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    selections: int  # rounds of Figs. 3 and 4
    selection_seeds: int
    training_share: float  # of the task's rounds
    training_seeds: int
    updates: tuple[str, ...]
    candidates: tuple[int, ...]  # pow-d's d, which the paper does not give, in Figs. 3 and 4


QUICK = Scale(1000, 4, 0.5, 2, ("A",), (30,))
PAPER = Scale(2500, 10, 1.0, 3, ("A", "P"), (30, 50, 70))

#: Colour and dashes of each scheme's curve.
STYLES = {
    "FedCS": ("black", ":"),
    "E3CS-0": ("#D55E00", "-"),
    "E3CS-0.5": ("#0072B2", (0, (6, 1))),
    "E3CS-inc": ("#CC79A7", "-."),
    "E3CS-0.8": ("#009E73", (0, (3, 1))),
    "Random": ("black", "--"),
    "pow-d": ("0.5", "-"),
}


def selector(scheme: str, draw: str) -> Choice:
    """The registered selector of a scheme."""
    return Choice("e3cs", {"quota": QUOTAS[scheme], "draw": draw}) if scheme in QUOTAS else BASELINES[scheme]


def pairs(draws: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every scheme with every draw; baselines have one of their own."""
    for scheme in SCHEMES:
        yield from ((scheme, draw) for draw in draws) if scheme in QUOTAS else [(scheme, "")]


def experiment(
    dataset: str, root: Path, partition: str, seed: int = 0, update: str = "A", size: int = SIZE, **more: Any
) -> Experiment:
    """A training run in the paper's setting; data are dealt anew under every seed, as FedCS keeps to k clients."""
    task = TASKS[dataset]
    data = {**task.data, "partition": {"iid": "iid-draws", "non-iid": "primary-label"}[partition]}
    if dataset not in ("digits", "letters"):
        data["root"] = str(root)
    if seed:  # 0 is the default
        data["seed"] = seed
    return Experiment(
        seed=seed,
        clients_per_round=size,
        checkpoint_every=50,
        data=Choice(dataset, data),
        dropout=Choice("success-classes"),
        training=TrainingSettings(
            model=task.model,
            learning_rate=0.01,
            decay=1.0,
            momentum=0.9,
            local_epochs=[1, 2, 3, 4],
            batch_size=task.batch,
            proximal=SCHEDULES[update],
        ),
        **more,
    )
