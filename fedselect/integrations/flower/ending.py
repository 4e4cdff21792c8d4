"""Strategies that a selector may end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedselect.rounds.protocol import EndOfRun


class Ending(Strategy):
    """Base of strategies whose `start` returns what there is when a selector raises `EndOfRun`."""

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Start as the strategy does."""
        so_far = self._so_far = Result()
        so_far.arrays = initial_arrays

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            assert evaluate_fn is not None
            found = evaluate_fn(server_round, arrays)
            if found is not None:
                so_far.evaluate_metrics_serverapp[server_round] = found
            return found

        own = None if evaluate_fn is None else evaluate
        try:
            return super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, own)
        except EndOfRun as reason:
            logging.getLogger("flwr").info("The selector ends the run: %s", reason)
            return so_far

    def _kept_training(
        self, server_round: int, found: tuple[ArrayRecord | None, MetricRecord | None]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Keep what a round's training gave."""
        arrays, metrics = found
        if arrays is not None:
            self._so_far.arrays = arrays
        if metrics is not None:
            self._so_far.train_metrics_clientapp[server_round] = metrics
        return found

    def _kept_evaluation(self, server_round: int, found: MetricRecord | None) -> MetricRecord | None:
        """Keep what a round's evaluation at the clients gave."""
        if found is not None:
            self._so_far.evaluate_metrics_clientapp[server_round] = found
        return found
