"""What a configuration may say: every key with its meaning and default, and a starting file made of them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedselect.experiments.config import Choice, Experiment
from fedselect.training.settings import TrainingSettings

__all__ = ["Key", "configuration_keys", "starting_file"]

#: What the starting file says instead of the defaults.
_STARTING: dict[str, Any] = {
    "experiment.name": "first",
    "experiment.rounds": 20,
    "data.name": "digits",
    "data.n_clients": 50,
    "availability.name": "lognormal",
    "training.learning_rate": 0.1,
}

_HEAD = """\
# A starting file. One run:                fedselect run FILE
# Several selectors, with a report:        fedselect compare FILE --seeds 0-2
# Another value for one run:               fedselect run FILE -c training.learning_rate=0.05
# Several values:                          fedselect compare FILE --sweep selector.alpha=0,1
# What there is to choose from by name:    fedselect list
#
# Lines that begin with '# ' and a key hold its default: take the '# ' away to change it.
"""

#: Selectors that `fedselect compare` plays in the starting file.
_COMPARED = ("uniform", "fedgs")


@dataclass(frozen=True)
class Key:
    """One key of a configuration.

    Attributes
    ----------
    key : str
        ``section.key``.
    kind : str
        Its type, in words.
    default : object
        ``None`` where it is left out.
    meaning : str
        What it does.
    """

    key: str
    kind: str
    default: Any
    meaning: str


def configuration_keys() -> list[Key]:
    """Every key of ``[experiment]``, ``[training]`` and the sections that choose by name, as their docstrings say."""
    head, training, choices = [], [], []
    for name, kind, meaning in _attributes(Experiment):
        default = _default(Experiment, name)
        if isinstance(default, Choice):
            meaning = f"Which one, by name; the section's other keys are its options ('fedselect list {default.name}')."
            choices.append(Key(f"{name}.name", "str", default.name, meaning))
        elif name != "training":
            head.append(
                Key(f"experiment.{name}", kind, list(default) if isinstance(default, tuple) else default, meaning)
            )
    for name, kind, meaning in _attributes(TrainingSettings):
        training.append(Key(f"training.{name}", kind, _default(TrainingSettings, name), meaning))
    return [*head, *choices, *training]


def starting_file(name: str = "first") -> str:
    """A commented TOML file that runs: some values given, every other key with its meaning and default in a comment."""
    values = _STARTING | {"experiment.name": name}
    sections: dict[str, list[str]] = {}
    for key in configuration_keys():
        section, _, option = key.key.partition(".")
        lines = sections.setdefault(section, ["", f"[{section}]"])
        lines += [f"#: {line}" for line in textwrap.wrap(key.meaning, 112)]
        if section == "selector":
            lines.insert(
                1, "#: Who decides in 'fedselect run'; 'fedselect compare' plays the [compare.LABEL] tables below."
            )
        lines.append(_line(option, values.get(key.key, key.default), key.key in values))
        if option == "name" and section != "experiment":
            lines += _options(section, values.get(key.key, key.default), values)
    for selector in _COMPARED:
        sections[selector] = ["", f"[compare.{selector}]", f'name = "{selector}"', *_options("selector", selector, {})]
    return _HEAD + "\n".join(line for lines in sections.values() for line in lines) + "\n"


def _options(section: str, name: str, values: Mapping[str, Any]) -> list[str]:
    """Lines for the options of what is chosen."""
    from fedselect.availability import AVAILABILITY, DROPOUT
    from fedselect.data import DATASETS
    from fedselect.selectors import SELECTORS

    registry: Any = {"availability": AVAILABILITY, "dropout": DROPOUT, "data": DATASETS, "selector": SELECTORS}[section]
    return [
        _line(option, values.get(f"{section}.{option}", default), f"{section}.{option}" in values)
        for option, default in registry.options(name).items()
    ]


def _line(option: str, value: Any, given: bool) -> str:
    if value is None:
        return f"#: {option}: left out"
    return f"{'' if given else '# '}{option} = {in_toml(value)}"


def in_toml(value: Any) -> str:
    """A value of a configuration as TOML has it."""
    return "{}" if value == {} else json.dumps(value)


def _default(owner: type, name: str) -> Any:
    field = next(field for field in dataclasses.fields(owner) if field.name == name)
    if field.default is not dataclasses.MISSING:
        return field.default
    assert field.default_factory is not dataclasses.MISSING
    return field.default_factory()


def _attributes(owner: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each attribute that a NumPy docstring describes."""
    text = (inspect.getdoc(owner) or "").partition("Attributes\n----------\n")[2]
    for names, kind, meaning in re.findall(r"^(\w[\w, ]*) : (.+)\n((?:    .*\n?)+)", text, flags=re.MULTILINE):
        for name in names.split(", "):
            yield name, kind, _plain(meaning)


def _plain(text: str) -> str:
    """A docstring's words without what only a documentation tool reads."""
    text = re.sub(r":\w+:`([^`]*)`", r"\1", text).replace("``", "").replace("`", "").replace("\\ ", "")
    return " ".join(text.split())
