"""Federations in which a paper's selection is decided exactly and by heuristics, for `exact_vs_heuristic`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedselect.experiments import Choice, Experiment
from fedselect.training.settings import TrainingSettings

__all__ = ["LIGHT", "PAPER", "QUICK", "Regime", "ca_fed", "e3cs", "fedgs", "fedss"]

#: A random or a plain scheme of the same paper.
LIGHT = "no optimisation"


@dataclass(frozen=True)
class Regime:
    """A federation, the exact way to select in it, and others."""

    paper: str
    title: str
    setting: Experiment
    exact: Choice
    others: dict[str, Choice]


def regime(
    paper: str,
    title: str,
    setting: Experiment,
    selector: Choice,
    heuristics: dict[str, str],
    light: Choice | None = None,
) -> Regime:
    """A paper's selector with the exact method and with each heuristic (by label), whose gaps are certified."""

    def by(method: str, **more: Any) -> Choice:
        return Choice(selector.name, {**selector.options, "method": method, **more})

    certify = {} if selector.name == "e3cs" else {"certify": "auto"}
    others = {label: by(method, **certify) for label, method in heuristics.items()}
    return Regime(paper, title, setting, by("auto"), others if light is None else others | {LIGHT: light})


def fedgs(title: str, *, alpha: float = 1.0, scale: str = "pairs", **changes: Any) -> Regime:
    """FedGS: 100 clients of digits, Dirichlet(0.5), log-normal availability, 10 a round, unless said otherwise."""
    data = Choice("digits", {"partition": "dirichlet", "concentration": 0.5})
    setting = replace(Experiment(rounds=100, data=data, availability=Choice("lognormal")), **changes)
    heuristics = {"local-search": "local-search", "greedy": "greedy", LIGHT: "random"}
    return regime("FedGS", title, setting, Choice("fedgs", {"alpha": alpha, "scale": scale}), heuristics)


def ca_fed(title: str, bias_weight: float, data: Choice, training: TrainingSettings) -> Regime:
    """CA-Fed: Algorithm 1's greedy against the exact exclusion; with nobody excluded it is "Unbiased"."""
    setting = Experiment(rounds=150, data=data, availability=Choice("ca-fed"), training=training)
    selector = Choice("ca-fed", {"bias_weight": bias_weight})
    return regime("CA-Fed", title, setting, selector, {"Algorithm 1": "ca-fed"}, Choice("unbiased"))


def fedss(title: str, size: int) -> Regime:
    """FedSS-O on ten groups that come and go; proportional allocation is FedSS-P."""
    setting = Experiment(
        rounds=150,
        data=Choice("digits", {"partition": "sorted-blocks", "ratio": 0.8}),
        availability=Choice("group-trace"),
        clients_per_round=size,
    )
    heuristics = {"largest-remainder": "largest-remainder", "proportional": "proportional"}
    return regime("FedSS", title, setting, Choice("fedss", {"largest": 10}), heuristics, Choice("uniform"))


def e3cs(title: str, quota: float) -> Regime:
    """E3CS's setting, 20 of 100 clients that return with probability 0.1 to 0.9, drawn as the paper draws."""
    setting = Experiment(
        rounds=300,
        data=Choice("digits", {"partition": "primary-label", "samples": 50}),
        dropout=Choice("success-classes", {"shuffle": True}),
        clients_per_round=20,
    )
    selector = Choice("e3cs", {"quota": quota, "draw": "successive"})
    light = Choice("uniform", {"aggregation": "deadline"})
    return regime("E3CS", title, setting, selector, {"one-pass": "one-pass"}, light)


CLUSTERED = Choice("clustered"), TrainingSettings(learning_rate=0.03, local_epochs=2, batch_size=32)
UNEQUAL = Choice("digits", {"clients": 50, "partition": "dirichlet-unequal"}), TrainingSettings()

QUICK = [
    fedgs("α = 1"),
    ca_fed("equal clients", 1.0, *CLUSTERED),
    ca_fed("unequal clients", 1.0, *UNEQUAL),
    fedss("11 for 10 groups", 11),
    e3cs("quota 0", 0.0),
]

#: Where a gap might matter: much or little weight on the distances, few clients, a problem that is hard to prove, ...
PAPER = [
    fedgs("α = 1"),
    fedgs("α = 5", alpha=5.0),
    fedgs("α = 1, the paper's scale", scale="paper"),
    fedgs("3 a round", clients_per_round=3),
    fedgs("two labels, α = 5", alpha=5.0, data=Choice("digits", {"partition": "two-label"})),
    fedgs(
        "everybody there, α = 5", alpha=5.0, data=Choice("synthetic"), availability=Choice("ideal"), clients_per_round=6
    ),
    ca_fed("equal clients", 1.0, *CLUSTERED),
    ca_fed("unequal clients", 1.0, *UNEQUAL),
    ca_fed("unequal, Γ' / 10", 0.1, *UNEQUAL),
    fedss("11 for 10 groups", 11),
    fedss("20 for 10 groups", 20),
    e3cs("quota 0", 0.0),
    e3cs("quota 0.2", 0.2),
    e3cs("quota 0.5", 0.5),
]
