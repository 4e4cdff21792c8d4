"""Server side: a Flower strategy that asks a selector which clients to train and applies the weights that it gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.integrations.flower.ending import Ending
from fedselect.integrations.flower.messages import (
    DROPPED_OUT,
    LOST,
    SUPERLINK,
    Fault,
    Refused,
    ask,
    model_record,
    read_loss,
    read_seconds,
    read_update,
    reason_of,
)
from fedselect.integrations.flower.roster import Roster
from fedselect.rounds.engine import Round, round_record
from fedselect.training.server import Server

_Answer = tuple[NDArray[np.float32], float, float]


class SelectorStrategy(Ending):
    r"""Drive a `Server`, and so a selector, over a Flower grid.

    Available are the clients that are connected and that the server's availability model has there. The updates are
    summed in client order with the selection's absolute weights, or combined by another server rule; the order in which
    they come does not matter. A selected client ends as returned, failed (it reported an error, or its answer was
    refused) or missing (silence, an error that the SuperLink made in its name, `DroppedOut`, or too late on a clock).
    The server's dropout model plays a part on a clock; elsewhere clients that are to drop out do so themselves. A round
    in which no client is there, selected or back passes, and with most server rules the model stays.

    Drive it by `run`. The model is the server's throughout, and not Flower's ``initial_arrays``.

    Parameters
    ----------
    server : Server
        Selector, model, weights; its state after a round is what to continue from.
    on_round : callable, optional
        Called after every round with its record: the line of a run folder
        (`fedselect.rounds.engine.round_record`), as ``faults`` which clients failed, why and when, and as
        ``client_seconds`` how long each client says that it trained, beside the simulated times of a clock.
    timeout : float
        Seconds to wait for the answers to a set of messages.
    identity_timeout : float
        Seconds without an answer after which nodes that have not said who they are are set aside (``patience``, if
        that is longer, before the first round). Rounds do not wait for such a node again; it joins when it answers.
    patience : float
        Seconds to wait for all clients to connect before the first round that is played, and for one of them before
        any other; ``timeout`` longer where nodes are connected and none of them has said yet who it is.
    validate : bool
        Whether all connected clients are asked for the loss of the new model on what they hold out of training
        (`LocalClient.validation_loss`), in the rounds of ``settings.evaluate_every`` and after the last. The record's
        metrics then have ``validation_loss``, the mean weighted by the clients' training samples; one that does not
        answer is a fault and left out.

    Raises
    ------
    ConfigError
        When the server's rule trains clients from models of their own.
    """

    def __init__(
        self,
        server: Server,
        *,
        on_round: Callable[[dict[str, Any]], None] | None = None,
        timeout: float = 3600.0,
        identity_timeout: float = 30.0,
        patience: float = 60.0,
        validate: bool = False,
    ) -> None:
        if server.trains_own_models:
            name = server.settings.server_rule
            raise ConfigError(f"server_rule {name!r} trains every client from its own model; a Flower round sends one")
        self.server, self.timeout, self.patience = server, timeout, patience
        self.identity_timeout, self.validate = identity_timeout, validate
        self.roster = Roster(server.world.n_clients)
        self._on_round = on_round or (lambda record: None)
        self._parameters = server.weights.size
        self._wanted = server.world.n_clients  # clients to wait for
        self._last: int | None = None  # the round that is evaluated in any case
        self._faults: list[Fault] = []
        self._took: dict[int, float] = {}  # seconds that clients say they trained in this round

    def run(self, grid: Grid, rounds: int) -> Result:
        """Play rounds until ``rounds`` of them are done, those of earlier processes included, or the selector ends.

        Raises
        ------
        FedselectError
            When the selector raises one, or no node says which client it is.
        """
        self._last = rounds - 1
        todo = max(rounds - self.server.round, 0)
        return self.start(grid, model_record(self.server.weights), num_rounds=todo, timeout=self.timeout)

    # -- what Flower asks of a strategy --------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the selector, and make one message to each client that it chose."""
        t, self._faults, self._took = self.server.round, [], {}
        self._grid = grid
        self._meet(grid)
        model = model_record(self.server.weights)
        self._decision = self._decide(grid, model)
        self._sent = {
            client: ask(self.roster.nodes[client], MessageType.TRAIN, t, model)
            for client in self._decision.selection.clients.tolist()
        }
        self._start = time.perf_counter()
        return list(self._sent.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check what came, apply it, tell the selector, write down the round."""
        t, server = self.server.round, self.server
        seconds = time.perf_counter() - self._start
        answers, failed = self._sort(replies, t)
        if (times := self._decision.times) is not None:  # on the clock some are late, however soon they answered
            late = self._decision.selection.clients[~times.arrived].tolist()
            answers = {client: answer for client, answer in answers.items() if client not in late}
            failed = failed.difference(late)
        clients = sorted(answers)
        updates = np.empty((len(clients), self._parameters), dtype=np.float32)
        losses = np.empty((2, len(clients)))
        for place, client in enumerate(clients):
            updates[place], *losses[:, place] = answers[client]
        last = t == self._last
        done = server.conclude(
            self._decision,
            clients,
            (torch.from_numpy(updates).to(server.device), losses, None),
            failed=failed,
            train_seconds=seconds,
            evaluate=True if last else None,
        )
        for client, reason in done.refused.items():
            self._faults.append(Fault(reason, client, self._sent[client].metadata.dst_node_id))
        if self.validate and (last or server.round % server.settings.evaluate_every == 0):
            done = replace(done, metrics={**(done.metrics or {}), **self._validated()})
        record = round_record(done)
        took = {str(client): seconds for client, seconds in sorted(self._took.items())}
        self._on_round(record | {"faults": [fault.table() for fault in self._faults], "client_seconds": took})
        numbers = {key: len(record[key]) for key in ("available", "selected", "returned", "failed", "missing")}
        scores = {key: record[key] for key in ("loss", "accuracy") if record[key] is not None}
        scores |= {key: value for key, value in record.get("metrics", {}).items() if key == "validation_loss"}
        return self._kept_training(server_round, (model_record(server.weights), MetricRecord(numbers | scores)))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send nothing: the server evaluates where it has a test set."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregate nothing."""
        return None

    def summary(self) -> None:
        """Log nothing."""

    # -- the round, piece by piece -------------------------------------------------------------------------------

    def _meet(self, grid: Grid) -> None:
        """Learn who is connected; wait where too few are."""
        # At the start, processes are still loading what they train with: as long as for those that do not connect.
        silence = min(max(self.identity_timeout, self.patience if self._wanted > 1 else 0.0), self.timeout)
        self._faults += self.roster.meet(
            grid, self.server.round, self._wanted, patience=self.patience, silence=silence, timeout=self.timeout
        )
        self._wanted = 1

    def _decide(self, grid: Grid, model: ArrayRecord) -> Round:
        """Ask the selector; a client that does not answer its probe is not there, and the selector is asked again."""
        connected = self.roster.connected
        while True:
            try:
                return self.server.decide(
                    connected,
                    probe=lambda clients: self._probe(grid, model, clients),
                    validation_probe=lambda clients: self._probe(grid, model, clients, "validation"),
                )
            except _Silent as silent:
                connected[silent.clients] = False

    def _probe(
        self, grid: Grid, model: ArrayRecord, clients: Sequence[int], part: str | None = None
    ) -> NDArray[np.float64]:
        losses = self._losses(grid, model, clients, part)
        if silent := [client for client in clients if client not in losses]:
            raise _Silent(silent)
        return np.array([losses[client] for client in clients], dtype=np.float64)

    def _losses(
        self, grid: Grid, model: ArrayRecord, clients: Sequence[int], part: str | None = None
    ) -> dict[int, float]:
        """Ask clients for the loss of a model; return what those say that answer, the others are faults."""
        t = self.server.round
        sent = {client: ask(self.roster.nodes[client], MessageType.EVALUATE, t, model, part) for client in clients}
        replies = {
            reply.metadata.reply_to_message_id: reply
            for reply in grid.send_and_receive(list(sent.values()), timeout=self.timeout)
        }
        losses: dict[int, float] = {}
        for client, message in sent.items():
            reply = replies.get(message.metadata.message_id)
            try:
                if reply is None or reply.has_error():
                    raise Refused(f"no answer within {self.timeout:g} s" if reply is None else reason_of(reply.error))
                losses[client] = read_loss(reply, client, t)
            except Refused as refusal:
                self._faults.append(Fault(f"when asked for its loss: {refusal}", client, self.roster.nodes[client]))
        return losses

    def _validated(self) -> dict[str, float]:
        """Return the mean of the new model's loss on what connected clients hold out; empty where none answers."""
        connected = np.flatnonzero(self.roster.connected).tolist()
        losses = self._losses(self._grid, model_record(self.server.weights), connected, "validation")
        sizes = np.asarray(self.server.world.sizes)[list(losses)]
        return {"validation_loss": float(np.average(list(losses.values()), weights=sizes))} if losses else {}

    def _sort(self, replies: Iterable[Message], round: int) -> tuple[dict[int, _Answer], set[int]]:
        """The usable answers by client, and the clients that failed; what else came, or did not, is a fault alone."""
        asked = {message.metadata.message_id: client for client, message in self._sent.items()}
        owners = {node: client for client, node in self.roster.nodes.items()}
        answers: dict[int, _Answer] = {}
        failed: set[int] = set()
        heard: set[int] = set()

        def blame(reason: str, client: int | None, node: int, code: int | None = None) -> None:
            self._faults.append(Fault(reason, client, node, code))

        for reply in replies:
            source = reply.metadata.src_node_id
            client = asked.get(reply.metadata.reply_to_message_id)
            if client is None:
                reason = f"a late answer, to a message of round {reply.metadata.group_id}; this is round {round}"
                blame(reason, owners.get(source), source)
                continue
            node = self._sent[client].metadata.dst_node_id
            if source != node and not (reply.has_error() and source == SUPERLINK):
                blame(f"an answer in the place of client {client}", owners.get(source), source)
                continue
            if client in heard:
                blame("another answer to the same message; the first one counts", client, node)
                continue
            heard.add(client)
            if reply.has_error():
                blame(reason_of(reply.error), client, node, reply.error.code)
                if reply.error.code not in (DROPPED_OUT, *LOST):
                    failed.add(client)
                continue
            try:
                answers[client] = read_update(reply, client, round, self._parameters)
                if (seconds := read_seconds(reply)) is not None:
                    self._took[client] = seconds
            except Refused as refusal:
                blame(str(refusal), client, node)
                failed.add(client)
        for client in sorted(self._sent.keys() - heard):
            blame(f"no answer within {self.timeout:g} s", client, self._sent[client].metadata.dst_node_id)
        return answers, failed


class _Silent(Exception):
    """Raised through a selector by a probe that some clients did not answer."""

    def __init__(self, clients: list[int]) -> None:
        super().__init__(f"clients {clients} did not answer")
        self.clients = clients
