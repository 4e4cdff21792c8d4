"""Sweeps: the cartesian product of values for single keys of a configuration, as variants of a comparison."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedselect.errors import ConfigError
from fedselect.experiments.config import Choice, Experiment
from fedselect.options import parsed
from fedselect.selectors import SELECTORS
from solvers.options import did_you_mean

__all__ = ["sweep", "sweep_values", "with_option"]

#: Sections whose keys make another experiment; a key of ``selector`` or ``compare.LABEL`` makes another selector.
_SECTIONS = ("experiment", "data", "availability", "dropout", "training")

#: Only one of these may be set; a sweep over one takes the place of the other.
_INSTEAD = {"local_steps": "local_epochs", "local_epochs": "local_steps"}


def sweep(
    experiment: Experiment, variants: Mapping[str, Choice], axes: Mapping[str, Sequence[Any]]
) -> dict[str, Choice | Experiment]:
    """Every variant with every combination of the values that concern it, for `fedselect.experiments.compare`.

    Parameters
    ----------
    experiment : Experiment
        What the variants have in common.
    variants : mapping of str to Choice
        Selectors by label.
    axes : mapping of str to sequence
        Values by key: ``selector.alpha`` concerns every variant whose selector has the option ``alpha``,
        ``compare.LABEL.alpha`` the variant of that label, and ``training.decay`` (or any other section's key) all.

    Returns
    -------
    dict of str to Choice or Experiment
        By labels like ``fedgs alpha=0.5``. A variant that no axis concerns is there once, under its own label.

    Raises
    ------
    ConfigError
        When a key concerns nothing, a value is not accepted, or one option is swept twice.
    """
    concerned = {key: _concerned(key, variants) for key in axes}
    for key, values in axes.items():
        named = [_shown(value) for value in values]
        if twice := [each for each in named if named.count(each) > 1]:
            raise ConfigError(f"the sweep over {key} has {twice[0]} twice")
        if not named:
            raise ConfigError(f"the sweep over {key} has no values")
    found: dict[str, Choice | Experiment] = {}
    for label, choice in variants.items():
        keys = [key for key in axes if label in concerned[key]]
        _once(label, keys)
        for values in itertools.product(*(axes[key] for key in keys)):
            given = dict(zip(keys, values, strict=True))
            name = " ".join([label, *(f"{_word(key)}={_shown(value)}" for key, value in given.items())])
            found[name] = _with_values(experiment, choice, given)
    return found


def with_option(variants: Mapping[str, Choice], option: str, value: Any) -> dict[str, Choice]:
    """Set an option of every selector that has it; raises `ConfigError` where none has."""
    having = _concerned(f"selector.{option}", variants)
    return {
        label: Choice(choice.name, {**choice.options, option: value}) if label in having else choice
        for label, choice in variants.items()
    }


def sweep_values(text: str) -> tuple[str, list[Any]]:
    """Key and values of a text like ``selector.alpha=0,0.5,1``; values are read as TOML, or as text."""
    key, equals, values = text.partition("=")
    if not (equals and key.strip() and values.strip()):
        raise ConfigError(f"a sweep reads section.key=value,value,... or seed=0-4; got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"values = [{values}]")["values"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):  # bare words
        return key.strip(), [parsed(value.strip()) for value in values.split(",")]


def _concerned(key: str, variants: Mapping[str, Choice]) -> list[str]:
    """Labels of the variants that a key is about."""
    section, _, rest = key.partition(".")
    if section in _SECTIONS and rest:
        if key in ("experiment.name", "experiment.seed", "experiment.load"):
            raise ConfigError(f"{key} cannot be swept" + (": write seed=0-4" if rest == "seed" else ""))
        return list(variants)
    if section == "compare":
        label = rest.rpartition(".")[0]
        if label not in variants:
            known = ", ".join(variants)
            raise ConfigError(f"{key}: nothing compared is called {label!r} (compared: {known})")
        return [label]
    if section == "selector" and rest:
        options = {label: SELECTORS.options(choice.name) for label, choice in variants.items()}
        having = [label for label in variants if rest in options[label]]
        if not having:
            accepted = sorted(set(itertools.chain.from_iterable(options.values())))
            raise ConfigError(
                f"none of the selectors compared ({', '.join(variants)}) has an option {rest!r}"
                f"{did_you_mean(rest, accepted)} (accepted: {', '.join(accepted) or 'none'})"
            )
        return having
    sections = ", ".join(f"{each}.key" for each in ("selector", "compare.LABEL", *_SECTIONS))
    raise ConfigError(f"there is no key {key!r} to be set; keys are seed, {sections}")


def _once(label: str, keys: Iterable[str]) -> None:
    """Refuse two axes for one option of one variant."""
    seen: dict[str, str] = {}
    for key in keys:
        section, _, rest = key.partition(".")
        what = f"selector.{rest.rpartition('.')[2]}" if section in ("selector", "compare") else key
        if what in seen:
            raise ConfigError(f"{label}: {seen[what]} and {key} sweep the same option")
        seen[what] = key


def _with_values(experiment: Experiment, choice: Choice, given: Mapping[str, Any]) -> Choice | Experiment:
    """The variant with these values: a selector where they are all a selector's."""
    tables = experiment.tables()
    options, changed = dict(choice.options), False
    for key, value in given.items():
        section, _, rest = key.partition(".")
        if section in ("selector", "compare"):
            options[rest.rpartition(".")[2]] = value
            continue
        changed = True
        tables[section].pop(_INSTEAD.get(rest, ""), None)
        if section != "training" and rest == "name":
            tables[section] = {}  # another builder has other options
        tables[section][rest] = value
    choice = Choice(choice.name, options)
    SELECTORS.check(choice.name, choice.options)
    return replace(Experiment.from_tables(tables), selector=choice) if changed else choice


def _word(key: str) -> str:
    """What a label calls a key: its last part, and a choice by name after its section."""
    return key.removesuffix(".name").rpartition(".")[2]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
