"""The configuration of an experiment: TOML in, validated data out; unknown keys are errors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from fedselect.availability import AVAILABILITY, DROPOUT
from fedselect.data import DATASETS, Federation, check_data, load_data
from fedselect.errors import ConfigError
from fedselect.options import parsed, placed, with_files
from fedselect.plugins import find_sources, load_plugins
from fedselect.selectors import SELECTORS
from fedselect.training.settings import TrainingSettings
from solvers.options import describe_type, did_you_mean, matches
from solvers.reading import Unreadable, read_toml

__all__ = ["Choice", "Experiment", "read_config"]


#: Keys of ``[experiment]``.
_HEAD = ("name", "rounds", "seed", "clients_per_round", "time_limit", "checkpoint_every")

#: Sections that choose something by name.
_CHOICES = ("data", "availability", "dropout", "selector")

#: Training settings of the first run folders, which name a run whatever they say. One that came later names it only
#: where it is not at its default, so that a folder of that time is found, and continued, under its own name.
_FIRST = (
    *("model", "model_options", "learning_rate", "decay", "local_steps", "local_epochs", "batch_size", "momentum"),
    *("weight_decay", "proximal", "server_rule", "server_learning_rate", "server_momentum", "importance"),
    *("evaluate_every", "batching", "device"),
)


@dataclass(frozen=True)
class Choice:
    """A registered name and the options it is built with."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """As a TOML table."""
        return {"name": self.name, **self.options}


@dataclass(frozen=True)
class Experiment:
    """One run: a federation, who is there, who decides, how they train, under one seed.

    Attributes
    ----------
    name : str
        Names the folder below the output directory.
    rounds : int
        Number of rounds.
    seed : int
        Seed of everything but the partition.
    clients_per_round : int
        Clients that a round chooses, m.
    time_limit : float
        Seconds a selector may take for one decision (FedGS's τ_max is 5).
    checkpoint_every : int
        Rounds between checkpoints: what a kill can cost. It changes no result, and may differ when a run continues.
        More than 1 pays where a checkpoint is large (stored updates of many clients).
    load : tuple of str
        Plugins: scripts (absolute paths) and modules that `fedselect.plugins.load_plugins` takes; they are loaded by
        `read_config`, or by the code that makes the experiment.
    data, availability, dropout, selector : Choice
        What to build, by name.
    training : TrainingSettings
        How clients train.
    """

    name: str = "experiment"
    rounds: int = 100
    seed: int = 0
    clients_per_round: int = 10
    time_limit: float = 5.0
    checkpoint_every: int = 1
    load: tuple[str, ...] = ()
    data: Choice = Choice("digits")
    availability: Choice = Choice("ideal")
    dropout: Choice = Choice("none")
    selector: Choice = Choice("uniform")
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not self.name or any(c in self.name for c in "/\\") or self.name[0] == ".":
            raise ConfigError(f"experiment: name must be usable as a folder name; got {self.name!r}")
        for key, least in (("rounds", 1), ("seed", 0), ("clients_per_round", 1), ("checkpoint_every", 1)):
            if getattr(self, key) < least:
                raise ConfigError(f"experiment: {key} must be at least {least}; got {getattr(self, key)}")
        if not self.time_limit > 0:
            raise ConfigError(f"experiment: time_limit must be a positive number of seconds; got {self.time_limit}")
        check_data(self.data.name, self.data.options)
        AVAILABILITY.check(self.availability.name, self.availability.options)
        DROPOUT.check(self.dropout.name, self.dropout.options)
        SELECTORS.check(self.selector.name, self.selector.options)
        # A data set of a plugin may have no such option: `federation` counts its clients when they are loaded.
        clients = self.data.options.get("n_clients", DATASETS.options(self.data.name).get("n_clients"))
        if clients is not None:
            self._require_clients(clients)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Kind and name of everything that is built by name."""
        from fedselect.training.models import MODELS

        chosen = ((DATASETS, self.data), (AVAILABILITY, self.availability), (DROPOUT, self.dropout))
        named = [(registry.kind, choice.name) for registry, choice in (*chosen, (SELECTORS, self.selector))]
        return [*named, (MODELS.kind, self.training.model)]

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

    def tables(self, place: Callable[[str], str] = str) -> dict[str, Any]:
        """The resolved configuration as nested tables, ready for TOML; `Experiment.from_tables` reads it back.

        ``place`` says how paths of files are written.
        """
        head = {key: getattr(self, key) for key in _HEAD}
        if self.load:
            head["load"] = list(self.load)
        # TOML has no null: what was left out is left out.
        training = {key: value for key, value in dataclasses.asdict(self.training).items() if value is not None}
        training["model_options"] = with_files(training["model_options"], place)
        choices = {section: with_files(getattr(self, section).table(), place) for section in _CHOICES}
        return {"experiment": head, **choices, "training": training}

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Experiment:
        """Build from nested tables; raises `ConfigError` for anything unknown or out of range."""
        _known("the configuration", tables, ("experiment", "training", *_CHOICES))
        head = _table("experiment", tables)
        _known("experiment", head, (*_HEAD, "load"))
        head = {**head, "load": tuple(head["load"])} if "load" in head else head
        _typed("experiment", {key: value for key, value in head.items() if key != "load"}, cls)
        training = _table("training", tables)
        _known("training", training, [f.name for f in dataclasses.fields(TrainingSettings)])
        _typed("training", training, TrainingSettings)
        picked: dict[str, Any] = {}
        for section in _CHOICES:
            if section in tables:
                table = dict(_table(section, tables))
                name = table.pop("name", getattr(cls, section).name)
                if not isinstance(name, str):
                    raise ConfigError(f"{section}: name must be text; got {name!r}")
                picked[section] = Choice(name, table)
        return cls(**head, **picked, training=TrainingSettings(**training))

    @property
    def digest(self) -> str:
        """Eight hex digits that name everything about the results except name and seed."""
        tables = self.tables(placed)
        for key in ("name", "seed", "checkpoint_every", "load"):  # what is loaded counts by what it says
            tables["experiment"].pop(key, None)
        defaults = TrainingSettings()
        tables["training"] = {
            key: value for key, value in tables["training"].items() if key in _FIRST or value != getattr(defaults, key)
        }
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:8]


def read_config(
    path: str | Path, overrides: Iterable[str] = (), load: Iterable[str] | None = (), *, trusted: bool = True
) -> tuple[Experiment, dict[str, dict[str, Any]]]:
    """Read a TOML file, and load the parts of one's own that it names (``load = ["my_parts.py"]``).

    Parameters
    ----------
    path : path-like
        The file. Beside the sections of `Experiment` it may hold ``[compare.LABEL]`` tables: selectors, each with a
        ``name`` and options, to be compared by `fedselect.experiments.compare`.
    overrides : iterable of str
        ``section.key=value`` texts that replace or add single values, ``compare.LABEL.key=value`` those of a variant;
        the value is read as TOML, or as text.
    load : iterable of str
        More scripts and modules to load; the file's own are looked up beside it, these in the current folder.
        None loads nothing: a configuration of parts that are registered already.
    trusted : bool
        Whether the plugins that the file names are loaded, which executes them. A command that only reads does not: the
        file may then name only those that are in ``load``.

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
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    tables = _from_folder(tables, Path(path).parent)
    for text in overrides:
        key, equals, value = text.partition("=")
        section, dot, option = key.strip().partition(".")
        if not (equals and dot and option):
            raise ConfigError(f"an override reads section.key=value; got {text!r}")
        _override(tables, section, option, parsed(value))
    _load(tables, Path(path), load, trusted)
    variants = tables.pop("compare", {})
    if not isinstance(variants, dict):
        raise ConfigError(f"compare must hold tables, [compare.LABEL]; got {variants!r:.80}")
    for label, table in variants.items():
        if not (isinstance(table, dict) and isinstance(table.get("name"), str)):
            raise ConfigError(f"compare.{label} must be a table with the name of a selector")
    return Experiment.from_tables(tables), variants


def _override(tables: dict[str, Any], section: str, option: str, value: Any) -> None:
    if section == "compare":
        label, _, option = option.rpartition(".")
        known = _section(tables, "compare")
        if label not in known and (not label or option != "name"):
            there = ", ".join(known) or "none"
            raise ConfigError(
                f"compare.{label or option}: there is no such table{did_you_mean(label, known)} ({there})"
            )
        _section(known, label)[option] = value
    else:
        _section(tables, section)[option] = value


def _section(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """A table to be changed, begun where there is none."""
    table = tables.setdefault(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"[{name}] must be a table; got {table!r:.80}")
    return table


def _load(tables: dict[str, Any], path: Path, more: Iterable[str] | None, trusted: bool) -> None:
    """Load what the file and the caller name, and leave it in the file's tables as other processes find it."""
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
    """The tables of a file in ``folder`` with the paths in them as seen from here."""

    def seen(path: str) -> str:
        return str(folder / path)  # an absolute path stays what it is

    return {
        key: with_files(_from_folder(value, folder), seen) if isinstance(value, dict) else value
        for key, value in tables.items()
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
            raise ConfigError(f"{where}: unknown key {key!r}{did_you_mean(key, keys)} (accepted: {', '.join(keys)})")


def _typed(where: str, table: Mapping[str, Any], owner: type) -> None:
    hints = get_type_hints(owner)
    for key, value in table.items():
        if not matches(value, hints[key]):
            raise ConfigError(f"{where}: {key} must be {describe_type(hints[key])}; got {value!r}")
