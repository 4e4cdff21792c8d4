"""``fedselect config``: what a configuration may say, and a file to start from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Format, check_format, check_writable, print_table, say, writing
from fedselect.errors import ConfigError
from solvers.files import write_atomically
from solvers.options import did_you_mean

__all__ = ["app", "init"]

app = typer.Typer(help="Configuration files: their keys, and one to start from.", no_args_is_help=True)


@app.command("keys")
def keys(
    what: Annotated[str, typer.Argument(help="Only these: a section ('training') or part of a key ('rate').")] = "",
    format: Format = "text",
) -> None:
    """Show every key of a configuration with its meaning and default."""
    from fedselect.experiments.config import configuration_keys, in_toml

    check_format(format)
    known = configuration_keys()
    found = [key for key in known if what.lower() in key.key]
    if not found:
        words = sorted({word for key in known for word in (key.key, *key.key.split("."))})
        raise ConfigError(f"there is no key {what!r}{did_you_mean(what, words)}")
    if format == "json":
        print(json.dumps([asdict(key) for key in found], indent=1))
        return
    rows = [(key.key, "left out" if key.default is None else in_toml(key.default), key.meaning) for key in found]
    print_table(("key", "default", "meaning"), rows)


@app.command("init")
def init(
    file: Annotated[Path, typer.Argument(help="The file to write; one that is there is not replaced.")] = Path(
        "experiment.toml"
    ),
    format: Format = "text",
) -> None:
    """Write a commented configuration that runs, with every key, its meaning and its default."""
    from fedselect.experiments.config import starting_file

    check_format(format)
    if file.suffix != ".toml":
        raise ConfigError(f"a configuration's name ends in .toml; got {file}")
    if file.exists():
        raise ConfigError(f"{file} is there already; name another file, or remove it")
    check_writable(file)
    with writing(file):
        write_atomically(file, starting_file(file.stem.lstrip(".") or "first").encode())
    if format == "json":
        print(json.dumps({"file": str(file)}))
    else:
        say(f"{file} is written; next: fedselect run {file}, or fedselect compare {file}")
