"""A federation in one process: every message is answered by calling the ``ClientApp``, in milliseconds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

# Flower's messages read their sender from this class, which only its own runtimes set: the one private name used here.
from flwr.supercore.task_identity import TaskIdentity

from fedselect.integrations.flower.messages import SUPERLINK

__all__ = ["LocalGrid"]

_RUN = 1
_APP_RAISED, _NODE_UNAVAILABLE = 2, 5


class LocalGrid(Grid):
    """Nodes that are Python objects; like real ones they come, go, and come back under another id.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        What answers on every node.
    partitions : int
        Number of nodes to begin with; node i has ``partition-id`` i.
    """

    def __init__(self, app: ClientApp, partitions: int) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = _RUN, SUPERLINK, 1
        self.app, self.partitions = app, partitions
        self._contexts: dict[int, Context] = {}
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1001)
        for partition in range(partitions):
            self.connect(partition)

    def connect(self, partition: int) -> int:
        """Connect a node of this partition; return its id, which no node has had before."""
        node = next(self._numbers)
        config = {"partition-id": partition, "num-partitions": self.partitions}
        self._contexts[node] = Context(run_id=_RUN, node_id=node, node_config=config, state=RecordDict(), run_config={})
        return node

    def disconnect(self, node: int) -> None:
        """Let a node go; messages to it are answered as a SuperLink would."""
        del self._contexts[node]

    def set_run(self, run: object) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> None:
        """There is one run, and nothing to know of it."""

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
        """The answers to these messages that were not pulled before."""
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push, then pull; nothing is ever late."""
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
