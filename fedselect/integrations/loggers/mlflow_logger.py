"""MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedselect.errors import MissingExtraError
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
        except ImportError as error:
            raise MissingExtraError("MLflow is not installed: pip install 'fedselect[mlflow]'") from error
        client = MlflowClient(tracking_uri=str(store) if "://" in str(store) else Path(store).resolve().as_uri())
        known = client.get_experiment_by_name(experiment)
        return client, known.experiment_id if known is not None else client.create_experiment(experiment)

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Log a round."""
        for name, value in numbers_of(record).items():
            self._client.log_metric(self._run, name, value, step=record["round"] + 1)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)
