"""MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedselect.errors import ConfigError, MissingExtraError
from fedselect.integrations.loggers.scalars import numbers_of

__all__ = ["MlflowLogger"]

#: What a parameter of MLflow's may be long.
_LONGEST = 500


class MlflowLogger:
    """A callback that logs every round's numbers as a run of MLflow.

    Parameters
    ----------
    store : str or path-like
        A tracking URI (``http://...``, ``sqlite:///...``), or a folder: MLflow's store of files.
    config : mapping, optional
        Logged as parameters.
    experiment, name : str, optional
        What the run is filed under.

    Raises
    ------
    MissingExtraError
        When the package is not installed.
    """

    def __init__(
        self,
        store: str | Path,
        config: Mapping[str, Any] | None = None,
        *,
        experiment: str = "fedselect",
        name: str | None = None,
    ) -> None:
        self._client, home = self.home(store, experiment)
        self._run = self._client.create_run(home, run_name=name).info.run_id
        for key, value in (config or {}).items():
            self._client.log_param(self._run, key, str(value)[:_LONGEST])

    @staticmethod
    def home(store: str | Path, experiment: str = "fedselect") -> tuple[Any, str]:
        """A client of the store, and the id of what runs are filed under there, which is made if need be."""
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError as error:
            raise MissingExtraError("MLflow is not installed: pip install 'fedselect[mlflow]'") from error
        uri = str(store)
        if "://" not in uri:
            uri = Path(store).resolve().as_uri()
            # MLflow keeps its store of files behind this word; a folder of a run's own is what it is good for.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            client = MlflowClient(tracking_uri=uri)
            known = client.get_experiment_by_name(experiment)
            return client, known.experiment_id if known is not None else client.create_experiment(experiment)
        except (MlflowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"MLflow cannot use {store} as its store (a folder, or a tracking URI): {reason}"
            ) from error

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Log a round."""
        for name, value in numbers_of(record).items():
            self._client.log_metric(self._run, name, value, step=record["round"] + 1)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)
