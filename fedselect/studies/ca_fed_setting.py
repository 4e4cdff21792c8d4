"""CA-Fed's setting: readings of it, learning rates of the authors' scripts, methods, and how much of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedselect.experiments import Choice, Experiment
from fedselect.training.settings import TrainingSettings

#: Local and server learning rates in the authors' scripts, where these have them.
SCRIPTS = {
    "clustered": {"Unbiased": (0.03, 0.03), "F3AST": (0.03, 0.03), "AdaFed": (0.001, 1.0), "CA-Fed": (0.01, 0.3)},
    "swapped-mnist": {"CA-Fed": (0.001, 0.1)},
}


@dataclass(frozen=True)
class Reading:
    """How much is as in the authors' code: who is there, the rest of the setting, one pair of rates for everybody."""

    classes: str
    code: bool = False
    equal_rates: bool = False


READINGS = {
    "paper": Reading(classes="paper"),
    "code's classes": Reading(classes="code"),
    "code": Reading(classes="code", code=True),
    "code, equal rates": Reading(classes="code", code=True, equal_rates=True),
}


@dataclass(frozen=True)
class Scale:
    """How much is run: rounds, seeds, and the learning rates that are tried."""

    rounds: int
    seeds: tuple[int, ...]
    local: tuple[float, ...]
    server: tuple[float, ...]


PAPER = Scale(
    rounds=150,
    seeds=(12, 123, 1234, 12345, 57, 1453, 1927, 1956, 2011),  # the scripts'; the paper averages three runs
    local=(1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1),
    server=(1e-2, 10**-1.5, 1e-1, 10**-0.5, 1.0),
)
QUICK = replace(PAPER, seeds=PAPER.seeds[:3], local=PAPER.local[3:], server=PAPER.server[2:])

#: The authors' optimisers where they differ from the paper's text.
CODE_OPTIMISERS: Mapping[str, Any] = {
    "momentum": 0.9,
    "momentum_buffers": "kept",
    "server_momentum": 0.9,
    "server_weight_decay": 0.01,
}


def experiments(reading: str, dataset: str, root: Path, rounds: int) -> dict[str, Experiment]:
    """The runs of a reading by method, but for seeds and learning rates."""
    code, images = READINGS[reading].code, dataset == "swapped-mnist"
    if images:
        data = {"root": str(root), "swapped": "both" if code else "second", "validation_fraction": 0.0 if code else 0.2}
    else:
        data = {"samples": 50, "test_samples": 150} if code else {"samples": 150, "test_samples": 500}
    authors = {"variant": "authors", "beta": 1.0 if images else 0.8} if code else {}
    methods = {
        "Unbiased": Choice("unbiased"),
        "F3AST": Choice("f3ast", {"variant": "ca-fed"}),
        "AdaFed": Choice("adafed"),
        "CA-Fed": Choice("ca-fed", {"oracle": True, **authors}),
        "CA-Fed, no oracle": Choice("ca-fed", authors),  # estimates π and λ (the code: with a prior at the truth)
    }
    base = Experiment(
        name="ca-fed",
        rounds=rounds,
        clients_per_round=12,
        checkpoint_every=25,
        data=Choice(dataset, {"seed": 42, **data}),
        availability=Choice("ca-fed", {"design": READINGS[reading].classes}),
        training=TrainingSettings(
            "linear" if images else "logistic",
            decay=1.0,
            local_epochs=2,
            batch_size=64 if images else 32,
            weight_decay=0.01,
            **(CODE_OPTIMISERS if code else {}),
        ),
    )
    return {method: replace(base, selector=choice) for method, choice in methods.items()}
