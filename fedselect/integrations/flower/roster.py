"""Which node is which client: Flower's node ids are new with every start, ours never change."""

from __future__ import annotations

from collections import Counter

import numpy as np
from flwr.app import MessageType
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedselect.integrations.flower.faults import Fault, reason_of
from fedselect.integrations.flower.messages import Refused, ask, read_identity

__all__ = ["Roster"]


class Roster:
    """The nodes that are connected, and the client that each is, by its own word.

    A client is the first node that claims it, for as long as this node is connected; so a SuperNode that was restarted
    has to wait until the SuperLink has given up its old connection. Where several unknown nodes claim one client at
    once, none is believed.

    Parameters
    ----------
    clients : int
        Number of clients N.
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients
        #: The node that each connected client is.
        self.nodes: dict[int, int] = {}
        self._claims: dict[int, int | None] = {}  # of every connected node that was understood, None where refused

    @property
    def connected(self) -> NDArray[np.bool_]:
        """Mask of the clients that can be reached, shape (N,)."""
        mask = np.zeros(self.clients, dtype=bool)
        mask[list(self.nodes)] = True
        return mask

    def refresh(self, grid: Grid, round: int, timeout: float) -> list[Fault]:
        """See who is connected and ask those who are new; return what was wrong with their answers."""
        online = set(grid.get_node_ids())
        self._claims = {node: client for node, client in self._claims.items() if node in online}
        self.nodes = {client: node for client, node in self.nodes.items() if node in online}
        new = sorted(online - self._claims.keys())
        faults = self._interview(grid, new, round, timeout) if new else []
        settled = set(self.nodes.values())
        waiting = {node: client for node, client in self._claims.items() if node not in settled}
        rivals = Counter(waiting.values())
        for node, client in waiting.items():
            if client is None:
                continue
            if client not in self.nodes and rivals[client] == 1:
                self.nodes[client] = node
            elif node in new:
                others = (
                    f"node {self.nodes[client]} already is"
                    if client in self.nodes
                    else f"{rivals[client] - 1} other node(s) that came with it say so too"
                )
                faults.append(Fault(f"it says it is client {client}, but {others}", node=node))
        return faults

    def _interview(self, grid: Grid, nodes: list[int], round: int, timeout: float) -> list[Fault]:
        """Ask nodes who they are. Those that do not answer, or with an error, are asked again next time."""
        messages = [ask(node, MessageType.QUERY, round) for node in nodes]
        replies = {
            reply.metadata.reply_to_message_id: reply for reply in grid.send_and_receive(messages, timeout=timeout)
        }
        faults = []
        for node, message in zip(nodes, messages, strict=True):
            reply = replies.get(message.metadata.message_id)
            if reply is None:
                faults.append(Fault(f"it did not say who it is within {timeout:g} s", node=node))
            elif reply.has_error():
                reason = f"it could not say who it is: {reason_of(reply.error)}"
                faults.append(Fault(reason, node=node, code=reply.error.code))
            else:
                try:
                    self._claims[node] = read_identity(reply, self.clients)
                except Refused as refusal:
                    self._claims[node] = None
                    faults.append(Fault(str(refusal), node=node))
        return faults
