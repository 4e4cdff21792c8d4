"""Plan of a benchmark: methods with their options, instances, seeds and time limits, checked before anything runs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solvers import instances
from solvers.checks import integer, number, seconds_or_none
from solvers.errors import BenchmarkError, InvalidOption, MissingBackend
from solvers.options import AtLeast, did_you_mean
from solvers.problem import Problem, load
from solvers.registry import TAKEN, Method, methods
from solvers.solving import plan as planned


class Cell(NamedTuple):
    """The key of a row."""

    instance: str
    method: str
    seed: int
    time_limit: float | None


@dataclass(frozen=True)
class Variant:
    """A method with options, under the label that the table shows."""

    label: str
    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Instance:
    """A named problem, and the best objective value known from elsewhere.

    ``witnessed`` says that a decision of that value is at hand, so that it can refute a bound; a value that was
    typed may be rounded.
    """

    name: str
    problem: Problem
    best_known: float | None = None
    witnessed: bool = False

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the problem's content."""
        return instances.digest(self.problem)

    @property
    def n(self) -> int:
        """The problem's ``n``, or the length of its longest array where it has none."""
        n = getattr(self.problem, "n", None)
        if n is not None:
            return int(n)
        fields = (getattr(self.problem, field.name) for field in dataclasses.fields(self.problem))  # type: ignore[arg-type]
        return max((value.shape[0] for value in fields if isinstance(value, np.ndarray)), default=1)

    def describe(self) -> dict[str, Any]:
        """Return the instance's entry in the manifest."""
        scale = float(self.problem.scale)
        return {
            "family": self.problem.family,
            "type": type(self.problem).__name__,
            "n": self.n,
            "sense": self.problem.sense,
            "scale": scale if math.isfinite(scale) else None,
            "best_known": self.best_known,
            "witnessed": self.witnessed,
            "digest": self.digest,
        }


def resolve_instance(source: str | Path | Problem | Callable[[], Problem], name: str | None = None) -> Instance:
    """Read an instance: a problem, a function that makes one, a file, or a name of the library.

    Files are ``.npz`` of `Problem.save`, or MDPLIB text.

    Raises
    ------
    BenchmarkError
        When there is neither such a file nor such a name, or it is none of these.
    InvalidProblem
        When the file states no valid problem.
    """
    if callable(source):
        source = source()
    if isinstance(source, Problem):
        return Instance(name or type(source).__name__, source)
    if not isinstance(source, str | os.PathLike):
        raise BenchmarkError(
            f"an instance is a problem, a function that makes one, a file or a name of the library; got {source!r:.80}"
        )
    path = Path(source)
    if path.is_file():
        if path.suffix == ".npz":
            return Instance(name or path.stem, load(path))
        from solvers.dispersion import read_mdplib

        return Instance(name or path.stem, read_mdplib(path))
    label = str(source)
    if label not in instances.names():
        hint = did_you_mean(label, instances.names())
        raise BenchmarkError(f"there is neither a file nor a library instance {label!r}{hint}")
    known = instances.info(label).best_known
    return Instance(name or label, instances.load(label), known, witnessed=known is not None)


@dataclass(frozen=True)
class Plan:
    """The grid of a benchmark, and what each axis means."""

    variants: tuple[Variant, ...]
    instances: tuple[Instance, ...]
    seeds: tuple[int, ...]
    time_limits: tuple[float | None, ...]

    @classmethod
    def of(
        cls,
        methods: Sequence[str] | Mapping[str, str | tuple[str, Mapping[str, Any]]],
        instances: Sequence[str | Path] | Mapping[str, Problem | str | Path | Callable[[], Problem]],
        seeds: Sequence[int],
        time_limits: Sequence[float | None] | float | None,
        best_known: Mapping[str, float] | None = None,
    ) -> Plan:
        """Read the arguments of `run_benchmark`; the errors are those of `run_benchmark`."""
        for name, value in (("methods", methods), ("instances", instances), ("seeds", seeds)):
            if isinstance(value, str) or not isinstance(value, Iterable):
                example = "range(2)" if name == "seeds" else "['auto']" if name == "methods" else "{'mine': problem}"
                raise BenchmarkError(f"{name} are a sequence or a mapping, as in {example}; got {value!r:.80}")
        named = instances.items() if isinstance(instances, Mapping) else ((None, source) for source in instances)
        limits = time_limits if isinstance(time_limits, Sequence) else (time_limits,)
        plan = cls(
            tuple(_variant(label, value) for label, value in _labelled(methods)),
            tuple(_with_best(resolve_instance(source, name), best_known or {}) for name, source in named),
            tuple(_seed(seed) for seed in seeds),
            tuple(seconds_or_none(limit, "time limit", BenchmarkError) for limit in limits),
        )
        plan._check(best_known or {})
        return plan

    def cells(self) -> Iterator[Cell]:
        """Every row to be, instance by instance."""
        for instance, limit, seed, variant in itertools.product(
            self.instances, self.time_limits, self.seeds, self.variants
        ):
            yield Cell(instance.name, variant.label, seed, limit)

    def entries(self) -> dict[tuple[str, str], Method]:
        """Return the registered methods that are compared, by name of the problem type and of the method."""
        kinds = {type(each.problem).__name__: type(each.problem) for each in self.instances}
        registered = {name: {entry.name: entry for entry in methods(kind)} for name, kind in kinds.items()}
        return {(kind, each.name): registered[kind][each.name] for kind in kinds for each in self.variants}

    def manifest(self) -> dict[str, Any]:
        """Return the grid as plain data, with digests of the instances and of the methods' code."""
        entries = {f"{problem}:{name}": entry for (problem, name), entry in self.entries().items()}
        return {
            "methods": {each.label: {"name": each.name, "options": each.options} for each in self.variants},
            "kinds": {name: entry.kind for name, entry in entries.items()},
            "code": {name: _code_digest(entry) for name, entry in entries.items()},
            "instances": {each.name: each.describe() for each in self.instances},
            "seeds": list(self.seeds),
            "time_limits": list(self.time_limits),
        }

    def _check(self, best_known: Mapping[str, float]) -> None:
        axes: dict[str, list[Any]] = {
            "method": [each.label for each in self.variants],
            "instance": [each.name for each in self.instances],
            "seed": list(self.seeds),
            "time limit": list(self.time_limits),
        }
        for what, labels in axes.items():
            if not labels:
                raise BenchmarkError(f"nothing to compare: no {what} is given")
            twice = [label for label in labels if labels.count(label) > 1]
            if twice:
                raise BenchmarkError(f"{what} {twice[0]!r} is given twice")
        if unknown := sorted(set(best_known) - {each.name for each in self.instances}):
            raise BenchmarkError(f"best_known names {unknown[0]!r}, which is no instance of this benchmark")
        for variant, instance in itertools.product(self.variants, self.instances):
            # A method whose package is missing is a row of the table.
            with contextlib.suppress(MissingBackend):
                _check_options(instance.problem, variant)


def _check_options(problem: Problem, variant: Variant) -> None:
    """Raise `InvalidOption` unless the method takes its options; ``gap`` and ``threads`` may be among them."""
    if common := sorted((set(TAKEN) - {"gap"}) & set(variant.options)):
        raise InvalidOption(f"{common[0]!r} is no option of {variant.name!r}: a benchmark gives it to all methods")
    # By the type: a method that does not accept this very problem is a row of the table.
    planned(type(problem), variant.name, **variant.options)


def _labelled(methods: Sequence[str] | Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from methods.items() if isinstance(methods, Mapping) else ((name, name) for name in methods)


def _variant(label: str, value: str | tuple[str, Mapping[str, Any]]) -> Variant:
    if isinstance(value, str):
        value = value, {}
    if not (isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)):
        raise BenchmarkError(f"method {label!r} must be a name, or a name and its options; got {value!r:.80}")
    name, options = value
    try:
        plain = json.loads(json.dumps(dict(options)))
    except (TypeError, ValueError) as error:
        raise BenchmarkError(f"options of {label!r} must be plain values that JSON can hold: {error}") from None
    return Variant(str(label), name, plain)


def _seed(value: Any) -> int:
    seed = integer(value, "seed", AtLeast(0), error=BenchmarkError)
    if seed >= 2**63:  # the table keeps seeds in 64 bits
        raise BenchmarkError(f"seed must be below 2^63; got {seed}")
    return seed


def _with_best(instance: Instance, best_known: Mapping[str, float]) -> Instance:
    if instance.name not in best_known:
        return instance
    value = number(best_known[instance.name], f"the best known value of {instance.name!r}", error=BenchmarkError)
    return dataclasses.replace(instance, best_known=value, witnessed=False)


def _code_digest(entry: Method) -> str:
    """SHA-256 of a method's own text; what it calls is left to the versions."""
    try:
        return hashlib.sha256(inspect.getsource(entry.function).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt, or no Python function
        return ""
