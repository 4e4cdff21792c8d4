"""Write an experiment as an app that ``flwr run`` starts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import tomli_w

from fedselect.errors import ConfigError
from fedselect.experiments.config import Experiment
from fedselect.options import seen_from

__all__ = ["export_app"]

_APP = '''\
"""Flower's two apps for the experiment in config.toml, beside this file."""

from pathlib import Path

from fedselect.experiments import read_config
from fedselect.integrations.flower import experiment_client_app, server_app

experiment, _ = read_config(Path(__file__).with_name("config.toml"))
server = server_app(experiment)
client = experiment_client_app(experiment)
'''


def export_app(experiment: Experiment, folder: str | Path) -> Path:
    """Write a Flower app: ``pyproject.toml``, and a package of one module and the resolved ``config.toml``.

    Flower's run configuration has four keys: ``out``, the directory of the run folder on the server (``runs`` below
    ``folder``, as an absolute path, because Flower runs apps elsewhere), ``timeout``, ``identity-timeout`` and
    ``patience`` (see `fedselect.integrations.flower.SelectorStrategy`).

    Parameters
    ----------
    experiment : Experiment
        What it runs. Options that name files are read by server and clients alike, so give them as paths that all have.
    folder : path-like
        New or empty directory.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    ConfigError
        When the folder holds something already, or cannot be written.
    """
    folder = Path(folder)
    project = {
        "project": {
            "name": "federation",
            "version": "1.0.0",
            "description": f"fedselect's experiment {experiment.name}",
            "license": "Apache-2.0",
            "dependencies": ["fedselect[fl,flower]"],
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "fedselect",
                    "components": {"serverapp": "federation.app:server", "clientapp": "federation.app:client"},
                    "config": {
                        "out": str(folder.resolve() / "runs"),
                        "timeout": 3600.0,
                        "identity-timeout": 30.0,
                        "patience": 60.0,
                    },
                }
            }
        },
    }
    scripts = {Path(source).name: Path(source) for source in experiment.load if source.endswith(".py")}
    if len(scripts) < sum(source.endswith(".py") for source in experiment.load):
        raise ConfigError("two scripts of the same name cannot both go into a Flower app; rename one")
    tables = experiment.tables(partial(seen_from, Path(folder) / "federation"))
    if experiment.load:  # beside the configuration, on whatever machine
        tables["experiment"]["load"] = [Path(s).name if s.endswith(".py") else s for s in experiment.load]
    files = {
        "pyproject.toml": tomli_w.dumps(project),
        "federation/__init__.py": "",
        "federation/app.py": _APP,
        "federation/config.toml": tomli_w.dumps(tables),
    }
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; a Flower app is written into a directory of its own")
        (folder / "federation").mkdir(parents=True)
        files |= {f"federation/{name}": path.read_text(encoding="utf-8") for name, path in scripts.items()}
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the Flower app {folder}: {error}") from error
    return folder
