"""Clients: a Flower ``ClientApp`` around what can train, and a grid of them in one process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

# Flower's messages read their sender from this class, which only its own runtimes set: the one private name used here.
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from fedselect.integrations.flower.messages import DROPPED_OUT, SUPERLINK, answer, read_part, read_task


class DroppedOut(Exception):
    """Raised by a client that leaves the round; the server counts it as missing."""


@dataclass(frozen=True, eq=False)
class Update:
    """Result of local training.

    Attributes
    ----------
    change : (d,) ndarray of float32
        Local model minus received model, Δ.
    loss : float
        Mean training loss over the steps.
    received_loss : float
        Loss of the received model on the first batch.
    samples : int
        Training samples.
    """

    change: NDArray[np.float32]
    loss: float
    received_loss: float
    samples: int


class LocalClient(Protocol):
    """One client of the federation, on its own machine."""

    @property
    def client(self) -> int:
        """Which client this is, from 0; the same for each node id that Flower gives it."""
        ...

    def train(self, weights: NDArray[np.float32], round: int) -> Update:
        """Train from the model ``weights`` (d,) in ``round`` (from 0); may raise `DroppedOut`."""
        ...

    def loss(self, weights: NDArray[np.float32]) -> float:
        """Mean loss of the model ``weights`` (d,) on the client's training samples, for selectors that probe."""
        ...

    def validation_loss(self, weights: NDArray[np.float32]) -> float:
        """Mean loss on what the client has held out of training, for selectors that ask for that (power-of-choice)."""
        ...


def client_app(make: Callable[[Context], LocalClient]) -> ClientApp:
    """Build the ``ClientApp`` that answers a `SelectorStrategy`.

    Parameters
    ----------
    make : callable
        Makes the client of a node from Flower's context: ``context.node_config["partition-id"]`` is its number in a
        simulation, and what ``--node-config`` says of a SuperNode. It is called for every message, and pickled on Ray.

    Returns
    -------
    flwr.clientapp.ClientApp
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return answer(message, {"client": make(context).client})

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = make(context)
        weights, round = read_task(message)
        start = time.perf_counter()
        try:
            update = client.train(weights, round)
        except DroppedOut as reason:
            return Message(Error(DROPPED_OUT, str(reason)), reply_to=message)
        numbers = {
            "client": client.client,
            "round": round,
            "num-examples": update.samples,
            "loss": float(update.loss),
            "received-loss": float(update.received_loss),
            "norm": float(np.linalg.norm(update.change)),
            "seconds": time.perf_counter() - start,
        }
        return answer(message, numbers, update.change)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        client = make(context)
        weights, round = read_task(message)
        measure = client.validation_loss if read_part(message) == "validation" else client.loss
        return answer(message, {"client": client.client, "round": round, "loss": float(measure(weights))})

    return app


_RUN = 1
_APP_RAISED, _NODE_UNAVAILABLE = 2, 5


class LocalGrid(Grid):
    """Nodes in this process: a message is answered by a call of the ``ClientApp``.

    Like real nodes they come, go, and come back under another id.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        Answers on every node.
    partitions : int
        Number of nodes to begin with; node i has ``partition-id`` i.
    run_config : mapping, optional
        What clients find in ``context.run_config``: the entries of ``[tool.flwr.app.config]``, say.
    """

    def __init__(
        self, app: ClientApp, partitions: int, *, run_config: Mapping[str, bool | float | int | str] | None = None
    ) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = _RUN, SUPERLINK, 1
        self.app, self.partitions, self.run_config = app, partitions, dict(run_config or {})
        self._contexts: dict[int, Context] = {}
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1001)
        for partition in range(partitions):
            self.connect(partition)

    def connect(self, partition: int) -> int:
        """Connect a node of this partition; return its id, a new one."""
        node = next(self._numbers)
        config = {"partition-id": partition, "num-partitions": self.partitions}
        self._contexts[node] = Context(
            run_id=_RUN, node_id=node, node_config=config, state=RecordDict(), run_config=dict(self.run_config)
        )
        return node

    def disconnect(self, node: int) -> None:
        """Let a node go; messages to it are answered as a SuperLink would."""
        del self._contexts[node]

    def set_run(self, run: object) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> None:
        """Nothing: there is one run."""

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message (Flower's old way; its constructor does it now)."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Ids of the nodes that are connected."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the nodes answer, one after the other; return the messages' ids."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._numbers)}"
            ids.append(message.metadata.message_id)
            self._replies[ids[-1]] = self._answer(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers to these messages that were not pulled before."""
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        context = self._contexts.get(message.metadata.dst_node_id)
        if context is None:
            reply = Message(Error(_NODE_UNAVAILABLE, "the node is not connected"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = SUPERLINK  # which makes these in the node's name
            return reply
        try:
            return self.app(message, context)
        except Exception as error:  # whatever a client raises is its answer, as in Flower's own runtimes
            return Message(Error(_APP_RAISED, f"{type(error).__name__}: {error}"), reply_to=message)
