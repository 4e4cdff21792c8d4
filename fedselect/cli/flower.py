"""``fedselect export-flower``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedselect.cli.common import Load, say
from fedselect.cli.experiments import Config, Overrides

__all__ = ["export_flower"]


def export_flower(
    config: Config,
    folder: Annotated[Path, typer.Argument(help="New or empty directory for the app.")],
    set: Overrides = [],  # noqa: B006  (typer copies defaults)
    load: Load = [],  # noqa: B006
) -> None:
    """Write an experiment as a Flower app: 'flwr run' starts it on a simulation or a real federation."""
    from fedselect.experiments import read_config
    from fedselect.integrations.flower import export_app

    experiment, _ = read_config(config, set, load, trusted=False)
    export_app(experiment, folder)
    clients = len(experiment.federation())
    print("The environment is this one: keep Flower from building another for every run, then start a simulation")
    print("  export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1")
    print(
        f"  flwr run {folder} local --stream --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
    )
    say(f"or a federation: {clients} SuperNodes with --node-config partition-id=0, ..., at the SuperLink NAME")
    say(f"  flwr run {folder} NAME --stream")
