"""The recipes of the shipped library: a table of experiments and rounds, in ``recipes.toml`` beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fedselect.errors import ConfigError
from fedselect.experiments import Experiment
from fedselect.recording.recorder import record
from solvers import Problem

#: Tables of a recipe that are tables of an experiment's configuration.
_SECTIONS = ("data", "availability", "dropout", "selector", "training", "clock")


@dataclass(frozen=True)
class Recipe:
    """How one instance, or several from one run, are recorded.

    Attributes
    ----------
    name : str
        What the instances' names begin with; ``-r<round>`` follows.
    equations : str
        Paper and equations of the problem.
    tables : mapping
        Of the experiment's configuration.
    rounds : tuple of int
        Rounds to record, from 0.
    train : bool
        Whether clients train.
    problem : str
        As for `fedselect.recording.record`.
    options : mapping
        Of a problem stated by name.
    """

    name: str
    equations: str
    tables: Mapping[str, Any]
    rounds: tuple[int, ...]
    train: bool = False
    problem: str = "selector"
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def experiment(self) -> Experiment:
        """The federation and its selector; a mistake in its tables is found here."""
        return Experiment.from_tables(self.tables)

    def instances(self) -> list[str]:
        """Names of its instances."""
        return [f"{self.name}-r{t}" for t in self.rounds]

    def record(self, only: str | None = None) -> Iterator[tuple[str, Problem]]:
        """Record its instances, or one of them; yields name and problem."""
        rounds = [t for t, name in zip(self.rounds, self.instances(), strict=True) if only in (None, name)]
        found = record(self.experiment, rounds, train=self.train, problem=self.problem, options=self.options)
        for t, problem in found:
            yield f"{self.name}-r{t}", problem

    def source(self, round: int) -> str:
        """Where the instance of a round comes from, in one line."""
        e = self.experiment
        what = e.selector.name if self.problem == "selector" else self.problem
        parts = [
            f"{self.equations}: round {round} of {what}{_options(self.options or e.selector.options)}",
            f"{e.clients_per_round} a round",
            f"{e.data.name}{_options(e.data.options)}",
            f"availability {e.availability.name}{_options(e.availability.options)}",
        ]
        if e.clock is not None:
            parts.append(f"clock {e.clock.name}{_options(e.clock.options)}")
        if e.dropout.name != "none":
            parts.append(f"returns {e.dropout.name}{_options(e.dropout.options)}")
        return "; ".join([*parts, f"{'trained, ' if self.train else ''}seed {e.seed}"])


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every recipe of the library."""
    tables = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8"))
    return tuple(_recipe(table) for table in tables["recipe"])


def recipe(instance: str) -> Recipe:
    """The recipe of one instance; raises `ConfigError` where there is none."""
    for each in recipes():
        if instance in each.instances():
            return each
    raise ConfigError(f"there is no recipe for an instance {instance!r}; 'fedselect instances list' names those there")


def _recipe(table: dict[str, Any]) -> Recipe:
    """One table of the file."""
    rounds = tuple(table["rounds"])
    head = {
        "name": table["name"],
        "rounds": table.get("planned", max(rounds) + 1),
        "clients_per_round": table.get("size", 10),
        "seed": table.get("seed", 0),
        # No recipe's method runs into a limit: what it would find by then depends on the machine.
        "time_limit": 1e6,
    }
    sections = {name: table[name] for name in _SECTIONS if name in table}
    if (clients := sections.get("selector", {}).get("clients_file")) is not None:
        sections["selector"] = sections["selector"] | {"clients_file": str(Path(__file__).with_name(clients))}
    return Recipe(
        name=table["name"],
        equations=table["equations"],
        tables={"experiment": head, **sections},
        rounds=rounds,
        train=table.get("train", False),
        problem=table.get("problem", "selector"),
        options=table.get("options", {}),
    )


def _options(options: Mapping[str, Any]) -> str:
    shown = {key: Path(value).name if key.endswith("_file") else value for key, value in options.items()}
    if "constraints" in shown:
        shown["constraints"] = " + ".join(shown["constraints"])  # by kind; all of them stand in the recipe
    return f"({', '.join(f'{key}={value}' for key, value in shown.items())})" if shown else ""
