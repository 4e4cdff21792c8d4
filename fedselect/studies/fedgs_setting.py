"""FedGS's setting, as far as its paper states it: data, modes of availability, methods, and how much of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedselect.experiments import Choice
from fedselect.training.settings import TrainingSettings

DIGITS = {
    "two labels": Choice("digits", {"partition": "two-label"}),
    "Dirichlet": Choice("digits", {"partition": "dirichlet-unequal"}),
}


@dataclass(frozen=True)
class Setting:
    """What the paper runs on a data set, and what is assumed where it is silent."""

    data: Choice
    training: TrainingSettings
    rounds: int
    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    beta: float
    features: str = "labels"
    graphs: Mapping[str, Choice] = field(default_factory=lambda: DIGITS)


def settings(root: Path) -> dict[str, Setting]:
    """The data sets by name; files are looked for below ``root``."""
    images = {"root": str(root), "validation_fraction": 0.2}
    fashion = Choice("fashion-mnist", {"partition": "two-label", **images})
    cifar = Choice("cifar10", {"partition": "dirichlet-unequal", **images})
    small, five = TrainingSettings(), ("IDL", "LN", "SLN", "LDF", "MDF")
    of_fashion = TrainingSettings("cnn-fashion", batch_size=32)
    of_cifar = TrainingSettings("cnn-cifar", learning_rate=0.03, batch_size=32)
    return {
        "synthetic": Setting(Choice("synthetic", {"draw": "authors"}), small, 1000, (6, 10), five, 0.7, "parameters"),
        "digits": Setting(DIGITS["Dirichlet"], small, 300, (10,), five, 0.7),
        "cifar10": Setting(cifar, of_cifar, 1000, (10,), five, 0.9, graphs={"Dirichlet": cifar}),
        "fashion-mnist": Setting(
            fashion, of_fashion, 300, (10,), ("IDL", "YMF", "YC"), 0.9, graphs={"two labels": fashion}
        ),
    }


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    rounds: int | None  #: the setting's where None
    seeds: int
    draws: int  #: of generated data; all but the first under the first seed alone
    sizes: int  #: of the setting's values of M, so many are tried; likewise
    count_rounds: int  #: of Fig. 4
    rates: tuple[float, ...]  #: local step sizes of Table 3


QUICK = Plan(rounds=100, seeds=2, draws=1, sizes=1, count_rounds=200, rates=(0.1,))
PAPER = Plan(rounds=None, seeds=3, draws=3, sizes=2, count_rounds=1000, rates=(0.03, 0.1, 0.3))


def availability(mode: str, beta: float) -> Choice:
    """The paper's availability modes; the authors' code draws a round again when nobody is there."""
    return {
        "IDL": Choice("ideal"),
        "LN": Choice("lognormal", {"beta": 0.5, "draw": "authors"}),
        "SLN": Choice("sin-lognormal", {"beta": 0.5, "empty": "redraw", "draw": "authors"}),
        "LDF": Choice("less-data-first", {"beta": beta}),
        "MDF": Choice("more-data-first", {"beta": beta}),
        "YMF": Choice("max-label-first", {"beta": 0.9, "empty": "redraw"}),
        "YC": Choice("label-cycle", {"beta": 0.9, "empty": "redraw"}),
    }[mode]


def methods(features: str) -> dict[str, tuple[Choice, float]]:
    """The rows of Table 2: selector and FedProx's μ."""
    rows = {
        "UniformSample": (Choice("uniform"), 0.0),
        "MDSample": (Choice("md-sample"), 0.0),
        "MDSample, once each": (Choice("md-sample", {"duplicates": "once"}), 0.0),  # not in the paper, nor its code
        "Power-of-Choice": (Choice("power-of-choice", {"variant": "fedgs"}), 0.0),
        "FedProx μ=0.01": (Choice("md-sample", {"among": "all"}), 0.01),  # their default; the absent are dropped
    }
    for alpha in (0.0, 0.5, 1.0, 2.0, 5.0):
        rows[f"FedGS α={alpha:g}"] = (Choice("fedgs", {"alpha": alpha, "features": features}), 0.0)
    return rows
