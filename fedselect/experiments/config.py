"""Configuration of an experiment: TOML in, validated data out; its keys, and a file to start from."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.clock import CLOCKS, ClockSettings, check_clock
from fedselect.data import DATASETS, PARTITIONS, Federation, check_data, load_data
from fedselect.errors import ConfigError
from fedselect.options import Registry, names_file, parsed, placed, with_files
from fedselect.plugins import find_sources, load_plugins
from fedselect.selectors import SELECTORS
from fedselect.training.settings import TrainingSettings
from solvers.checks import LARGEST_COUNT
from solvers.options import Above, AtLeast, AtMost, check_keywords, describe_type, did_you_mean, matches
from solvers.reading import Unreadable, read_toml

#: Keys of ``[experiment]``.
_HEAD = ("name", "rounds", "seed", "clients_per_round", "time_limit", "patience", "checkpoint_every")

#: A count that some memory or some hours can serve.
_Count = Annotated[int, AtLeast(1), AtMost(LARGEST_COUNT)]

#: Sections that choose an entry of a registry by name.
_REGISTRIES: dict[str, Registry] = {
    "data": DATASETS,
    "availability": AVAILABILITY,
    "dropout": DROPOUT,
    "selector": SELECTORS,
}


@dataclass(frozen=True)
class Choice:
    """A registered name and the options it is built with."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """Return it as a TOML table."""
        return {"name": self.name, **self.options}


#: Keys of ``[training]`` that hold options, and the kind of what they build.
_OPTIONS_OF = {"model_options": "model", "server_rule_options": "server rule", "corrupt_options": "corruption"}

#: Sections that choose by name, and the name where they do not give one.
_CHOSEN = {"data": "digits", "availability": "ideal", "dropout": "none", "selector": "uniform", "clock": "constant"}


@dataclass(frozen=True)
class Experiment:
    """One run: a federation, availability and dropout, a selector and a training, under one seed.

    Attributes
    ----------
    name : str
        Names the folder below the output directory.
    rounds : int
        Number of rounds.
    seed : int
        Seed of the run; data have their own (``data.seed``).
    clients_per_round : int
        Clients that a round chooses, m.
    time_limit : float
        Seconds that a selector is given for one decision (FedGS's τ_max is 5).
    patience : int, optional
        The run ends, and is finished, once the test loss has not fallen below its least value in so many evaluations;
        ``rounds`` are the most that are played.
    checkpoint_every : int
        Rounds between checkpoints: what a kill can cost. It may differ when a run continues. More than 1 pays where a
        checkpoint is large (stored updates of many clients).
    load : tuple of str
        Plugins: scripts (absolute paths) and modules that `fedselect.plugins.load_plugins` takes; they are loaded by
        `read_config`, or by the code that makes the experiment.
    data, availability, dropout, selector : Choice
        What to build, by name.
    clock : Choice, optional
        Devices, by name, and how rounds end (`fedselect.clock.ClockSettings`); rounds have no length without it.
    training : TrainingSettings
        How clients train.
    """

    name: str = "experiment"
    rounds: _Count = 100
    seed: Annotated[int, AtLeast(0)] = 0
    clients_per_round: _Count = 10
    time_limit: Annotated[float, Above(0)] = 5.0
    patience: _Count | None = None
    checkpoint_every: _Count = 1
    load: tuple[str, ...] = ()
    data: Choice = Choice("digits")
    availability: Choice = Choice("ideal")
    dropout: Choice = Choice("none")
    selector: Choice = Choice("uniform")
    clock: Choice | None = None
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse a key that there is not, with the name that was meant."""
        check_keywords("Experiment", cls.__init__, given)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        _typed("experiment", {key: getattr(self, key) for key in _HEAD}, Experiment)
        for section in ("data", "availability", "dropout", "selector", "clock"):
            if isinstance(value := getattr(self, section), str):
                object.__setattr__(self, section, Choice(value))
        if isinstance(self.training, Mapping):
            object.__setattr__(self, "training", TrainingSettings(**self.training))
        if self.training.schedule in ("cosine", "linear") and self.training.schedule_rounds is None:
            object.__setattr__(self, "training", dataclasses.replace(self.training, schedule_rounds=self.rounds))
        if not self.name.isprintable() or not self.name or any(c in self.name for c in "/\\") or self.name[0] == ".":
            raise ConfigError(f"experiment: name must be usable as a folder name; got {self.name!r}")
        check_data(self.data.name, self.data.options)
        for section in ("availability", "dropout", "selector"):
            _REGISTRIES[section].check(getattr(self, section).name, getattr(self, section).options)
        if self.clock is not None:
            check_clock(self.clock.name, self.clock.options)
        # A data set of a plugin may have no such option: `federation` counts its clients when they are loaded.
        clients = self.data.options.get("n_clients", DATASETS.options(self.data.name).get("n_clients"))
        if clients is not None:
            self._require_clients(clients)

    @property
    def choices(self) -> list[tuple[Registry, Choice]]:
        """Return what is built by name, with its registry."""
        from fedselect.training.corruption import CORRUPTIONS
        from fedselect.training.losses import LOSSES, METRICS
        from fedselect.training.models import MODELS
        from fedselect.training.server_rules import SERVER_RULES

        found = [(registry, getattr(self, section)) for section, registry in _REGISTRIES.items()]
        found += [] if self.clock is None else [(CLOCKS, self.clock)]
        partition = self.data.options.get("partition", DATASETS.options(self.data.name).get("partition"))
        found += [(PARTITIONS, Choice(partition))] if isinstance(partition, str) else []
        found += [] if self.training.loss == "auto" else [(LOSSES, Choice(self.training.loss))]
        found += [(SERVER_RULES, Choice(self.training.server_rule, self.training.server_rule_options))]
        found += (
            []
            if (lies := self.training.corrupt) is None
            else [(CORRUPTIONS, Choice(lies, self.training.corrupt_options))]
        )
        found += [(METRICS, Choice(name)) for name in self.training.metrics]
        return [*found, (MODELS, Choice(self.training.model, self.training.model_options))]

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Return kind and name of what is built by name."""
        return [(registry.kind, choice.name) for registry, choice in self.choices]

    def federation(self) -> Federation:
        """Load and partition the data set; raises `ConfigError` where it has fewer clients than a round chooses."""
        federation = load_data(self.data.name, **self.data.options)
        self._require_clients(len(federation))
        return federation

    def _require_clients(self, clients: int) -> None:
        if self.clients_per_round > clients:
            raise ConfigError(
                f"experiment: clients_per_round is {self.clients_per_round}, but there are only {clients} clients"
            )

    def tables(self, place: Callable[[str], str] = str, *, defaults: bool = False) -> dict[str, Any]:
        """Return the configuration as nested tables for TOML; `Experiment.from_tables` reads it back.

        Parameters
        ----------
        place : callable
            How paths of files are written.
        defaults : bool
            Whether options that were left out are written with their defaults, where TOML can state these and they are
            no paths.
        """
        head = {key: value for key in _HEAD if (value := getattr(self, key)) is not None}
        if self.load:
            head["load"] = list(self.load)
        # TOML has no null: what was left out is left out.
        training = {key: value for key, value in dataclasses.asdict(self.training).items() if value is not None}
        training = with_files(training, place)
        for key in _OPTIONS_OF:
            training[key] = with_files(training[key], place)
        choices = {section: with_files(getattr(self, section).table(), place) for section in _REGISTRIES}
        if self.clock is not None:
            choices["clock"] = with_files(self.clock.table(), place)
        if defaults:
            choices = {section: self._defaults(section) | table for section, table in choices.items()}
            named = {registry.kind: _stated(registry.options(choice.name)) for registry, choice in self.choices}
            for key, kind in _OPTIONS_OF.items():
                training[key] = named.get(kind, {}) | training[key]
        return {"experiment": head, **choices, "training": training}

    def _defaults(self, section: str) -> dict[str, Any]:
        """Return the options of what a section chooses with their defaults; those of a data set with its partition."""
        name = getattr(self, section).name
        if section == "clock":
            settings = {each.name: _default(ClockSettings, each.name) for each in dataclasses.fields(ClockSettings)}
            return {"name": name} | _stated(CLOCKS.options(name) | settings)
        options = _REGISTRIES[section].options(name)
        partition = self.data.options.get("partition", options.get("partition")) if section == "data" else None
        if isinstance(partition, str):
            options = options | PARTITIONS.options(partition) | options
        return {"name": name} | _stated(options)

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Experiment:
        """Build from nested tables; raises `ConfigError` for an unknown key, and a value that is not accepted."""
        _known("the configuration", tables, ("experiment", "training", *_CHOSEN))
        head = _table("experiment", tables)
        _known("experiment", head, (*_HEAD, "load"))
        head = {**head, "load": tuple(_sources(head["load"]))} if "load" in head else head
        training = _table("training", tables)
        _known("training", training, [f.name for f in dataclasses.fields(TrainingSettings)])
        _typed("training", training, TrainingSettings)
        picked: dict[str, Any] = {}
        for section, default in _CHOSEN.items():
            if section in tables:
                table = dict(_table(section, tables))
                name = table.pop("name", default)
                if not isinstance(name, str):
                    raise ConfigError(f"{section}: name must be text; got {name!r}")
                picked[section] = Choice(name, table)
        return cls(**head, **picked, training=TrainingSettings(**training))

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of the configuration but for name, seed and what changes no result."""
        tables = self.tables(placed, defaults=True)
        for key in ("name", "seed", "checkpoint_every", "load"):  # what is loaded counts by what it says
            tables["experiment"].pop(key, None)
        tables["training"].pop("workers")  # which change no bit
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:8]


def read_config(
    path: str | Path, overrides: Iterable[str] = (), load: Iterable[str] | None = (), *, trusted: bool = True
) -> tuple[Experiment, dict[str, dict[str, Any]]]:
    """Read a TOML file, and load the plugins that it names (``load = ["my_parts.py"]``).

    Parameters
    ----------
    path : path-like
        The file. Beside the sections of `Experiment` it may hold ``[compare.LABEL]`` tables: selectors, each with a
        ``name`` and options, to be compared by `fedselect.experiments.compare`.
    overrides : iterable of str
        ``section.key=value`` texts that replace or add single values, ``compare.LABEL.key=value`` those of a variant;
        the value is read as TOML, or as text; without one, ``section.key=``, the file's is left out.
    load : iterable of str
        More plugins to load; the file's are looked up beside it, these in the current folder. With None nothing is
        loaded, the file's neither: for components that are registered already.
    trusted : bool
        Whether the plugins that the file names are loaded, which executes them. If not, those that it names must be in
        ``load``.

    Relative paths of files (see `fedselect.options.names_file`) start at the configuration's folder where it names
    them, and at the working directory where an override does.

    Returns
    -------
    experiment : Experiment
        Sections and names left out have the defaults of `Experiment`.
    variants : dict of str to dict
        The ``[compare.LABEL]`` tables.

    Raises
    ------
    ConfigError
        When the file cannot be read, a key or value is not accepted, or it names plugins that are not trusted.
    """
    try:
        tables = read_toml(path)
    except (OSError, Unreadable) as error:
        near = Path(f"{path}.toml")
        hint = f"; did you mean {near}?" if near.is_file() else ""
        if Path(path).suffix in (".npz", ".json") and Path(path).is_file():
            hint = "; if it is a solution, Solution.load(path).plot() draws it in Python"
        raise ConfigError(f"cannot read the configuration {path}: {error}{hint}") from error
    tables = _from_folder(tables, Path(path).parent)
    overrides = list(overrides)
    for text in overrides:
        key, equals, value = text.partition("=")
        section, dot, option = key.strip().partition(".")
        if not (equals and dot and option):
            meant = f"; did you mean {section}.name={value.strip()}?" if equals and section in _REGISTRIES else ""
            raise ConfigError(f"an override reads section.key=value; got {text!r}{meant}")
        _override(tables, section, option, parsed(value) if value.strip() else _LEFT_OUT)
    _load(tables, Path(path), load, trusted)
    variants = tables.pop("compare", {})
    if not isinstance(variants, dict):
        raise ConfigError(f"compare must hold tables, [compare.LABEL]; got {variants!r:.80}")
    for label, table in variants.items():
        if not (isinstance(table, dict) and isinstance(table.get("name"), str)):
            raise ConfigError(f"compare.{label} must be a table with the name of a selector")
    try:
        return Experiment.from_tables(tables), variants
    except ConfigError as error:
        refused = re.search(r"has no option '(\w+)'", str(error))
        chosen = {text.partition(".")[0] for text in overrides if text.partition("=")[0].strip().endswith(".name")}
        for section in sorted(chosen & _REGISTRIES.keys()):
            if refused and refused[1] in tables[section]:
                hint = f"{section}.{refused[1]}= leaves out the file's"
                raise ConfigError(f"{error}; if it was meant for another {section}, {hint}") from error
        raise


#: An override without a value, which leaves the file's key out.
_LEFT_OUT = object()


def _override(tables: dict[str, Any], section: str, option: str, value: Any) -> None:
    if section == "compare":
        label, _, option = option.rpartition(".")
        known = _section(tables, "compare")
        if label not in known and (not label or option != "name"):
            there = ", ".join(known) or "none"
            raise ConfigError(
                f"compare.{label or option}: there is no such table{did_you_mean(label, known)} ({there})"
            )
        table = _section(known, label)
    else:
        table = _section(tables, section)
    if value is not _LEFT_OUT:
        table[option] = value
    elif table.pop(option, _LEFT_OUT) is _LEFT_OUT:
        raise ConfigError(f"{section}.{option}= leaves out what the file says there, and it says nothing")


def _section(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table to be changed, a new one where there is none."""
    table = tables.setdefault(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"[{name}] must be a table; got {table!r:.80}")
    return table


def _load(tables: dict[str, Any], path: Path, more: Iterable[str] | None, trusted: bool) -> None:
    """Load the plugins of file and caller, and leave them in the file's tables as other processes find them."""
    head = tables.get("experiment", {})
    named = [*_sources(tables.pop("load", [])), *_sources(head.pop("load", []) if isinstance(head, dict) else [])]
    if more is None:
        return
    more = list(more)
    if not trusted:
        given = find_sources(more)
        if unknown := [source for name, source in find_sources(named, path.parent).items() if name not in given]:
            raise ConfigError(
                f"{path} names the plugin {unknown[0]}, and this command executes nothing that a file names: "
                f"give it with --load if you trust it"
            )
        named = []
    own, added = load_plugins(named, path.parent), load_plugins(more)
    if both := set(own) & set(added):
        raise ConfigError(f"{sorted(both)[0]} is loaded twice: the configuration names it already")
    if own or added:
        tables.setdefault("experiment", {})["load"] = [*own, *added]


def _sources(given: Any) -> list[str]:
    if not isinstance(given, list):
        raise ConfigError(f'load must be a list of scripts or modules, ["my_parts.py"]; got {given!r}')
    return given


def _from_folder(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tables of a file in ``folder`` with the paths in them as seen from here."""

    def seen(path: str) -> str:
        return str(folder / path)  # an absolute path stays what it is

    return {
        key: with_files(_from_folder(value, folder), seen) if isinstance(value, dict) else value
        for key, value in tables.items()
    }


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that TOML can state: what is left out, required, or a path has none."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.items()
        if isinstance(value, bool | int | float | str | list | tuple | dict) and not names_file(key)
    }


def _table(section: str, tables: Mapping[str, Any]) -> Mapping[str, Any]:
    table = tables.get(section, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"[{section}] must be a table; got {table!r:.80}")
    return table


def _known(where: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
    keys = list(keys)
    for key in table:
        if key not in keys:
            hint = did_you_mean(key, keys)
            raise ConfigError(f"{where}: unknown key {key!r}{hint} (accepted: {', '.join(keys)})")


def _typed(where: str, table: Mapping[str, Any], owner: type) -> None:
    """Raise `ConfigError` where a value does not match the annotation of its field, limits included."""
    hints = get_type_hints(owner, include_extras=True)
    for key, value in table.items():
        if not matches(value, hints[key]):
            raise ConfigError(f"{where}: {key} must be {describe_type(hints[key])}; got {value!r:.80}")


# -- keys ------------------------------------------------------------------------------------------------------------

#: Values that the starting file gives instead of the defaults.
_STARTING: dict[str, Any] = {
    "experiment.name": "first",
    "experiment.rounds": 20,
    "data.name": "digits",
    "data.n_clients": 50,
    "availability.name": "lognormal",
    "training.learning_rate": 0.1,
}

_STARTING_HEAD = """\
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
    """Return the keys of ``[experiment]``, ``[clock]`` and ``[training]``, and those that choose by name."""
    head, training, choices = [], [], []
    for name, kind, meaning in _attributes(Experiment):
        default = _default(Experiment, name)
        if name == "clock":
            choices += _clock_keys()
        elif isinstance(default, Choice):
            meaning = f"Which one, by name; the section's other keys are its options ('fedselect list {default.name}')."
            choices.append(Key(f"{name}.name", "str", default.name, meaning))
            if name == "data":
                meaning = "Share of its training samples that each client holds out for a test set of its own."
                choices.append(Key("data.client_test_fraction", "float", None, meaning))
        elif name != "training":
            head.append(
                Key(f"experiment.{name}", kind, list(default) if isinstance(default, tuple) else default, meaning)
            )
    for name, kind, meaning in _attributes(TrainingSettings):
        training.append(Key(f"training.{name}", kind, _default(TrainingSettings, name), meaning))
    return [*head, *choices, *training]


def _clock_keys() -> list[Key]:
    """Return the keys of ``[clock]``, which is left out by default: the choice, and `ClockSettings`."""
    meaning = (
        "Which devices, by name; the section's other keys are their options ('fedselect list clocks') and those below. "
        "Without the section, rounds have no length."
    )
    found = [Key("clock.name", "str", None, meaning)]
    found += [
        Key(f"clock.{name}", kind, _default(ClockSettings, name), text)
        for name, kind, text in _attributes(ClockSettings)
    ]
    return found


def starting_file(name: str = "first") -> str:
    """Return a TOML text that runs: some values given, other keys with meanings and defaults in comments."""
    values = _STARTING | {"experiment.name": name}
    sections: dict[str, list[str]] = {}
    for key in configuration_keys():
        section, _, option = key.key.partition(".")
        # A clock that is not chosen is left out as a whole.
        lines = sections.setdefault(section, ["", f"{'# ' if section == 'clock' else ''}[{section}]"])
        lines += [f"#: {line}" for line in textwrap.wrap(key.meaning, 112)]
        if section == "selector":
            lines.insert(
                1, "#: Who decides in 'fedselect run'; 'fedselect compare' plays the [compare.LABEL] tables below."
            )
        lines.append(_line(option, values.get(key.key, key.default), key.key in values))
        if option == "name" and section in _REGISTRIES:
            lines += _options(section, values.get(key.key, key.default), values)
    for selector in _COMPARED:
        sections[selector] = ["", f"[compare.{selector}]", f'name = "{selector}"', *_options("selector", selector, {})]
    return _STARTING_HEAD + "\n".join(line for lines in sections.values() for line in lines) + "\n"


def _options(section: str, name: str, values: Mapping[str, Any]) -> list[str]:
    """Return lines for the options of the entry of a registry that a section chooses."""
    registry = _REGISTRIES[section]
    return [
        _line(option, values.get(f"{section}.{option}", default), f"{section}.{option}" in values)
        for option, default in registry.options(name).items()
    ]


def _line(option: str, value: Any, given: bool) -> str:
    if value is None:
        return f"#: {option}: left out"
    return f"{'' if given else '# '}{option} = {in_toml(value)}"


def in_toml(value: Any) -> str:
    """Write a value of a configuration as TOML."""
    return "{}" if value == {} else json.dumps(value)


def _default(owner: type, name: str) -> Any:
    field = next(field for field in dataclasses.fields(owner) if field.name == name)
    if field.default is not dataclasses.MISSING:
        return field.default
    assert field.default_factory is not dataclasses.MISSING
    return field.default_factory()


def _attributes(owner: type) -> Iterator[tuple[str, str, str]]:
    """Return name, type and meaning of each attribute that a NumPy docstring describes."""
    text = (inspect.getdoc(owner) or "").partition("Attributes\n----------\n")[2]
    for names, kind, meaning in re.findall(r"^(\w[\w, ]*) : (.+)\n((?:    .*\n?)+)", text, flags=re.MULTILINE):
        for name in names.split(", "):
            yield name, kind, _plain(meaning)


def _plain(text: str) -> str:
    """Drop the markup of a docstring that only a documentation tool reads."""
    text = re.sub(r":\w+:`([^`]*)`", r"\1", text).replace("``", "").replace("`", "").replace("\\ ", "")
    return " ".join(text.split())
