"""Connected nodes, and the client that each is."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from flwr.app import Message, MessageType
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedselect.errors import FedselectError
from fedselect.integrations.flower.messages import (
    LOST,
    SUPERLINK,
    Fault,
    Refused,
    ask,
    read_identity,
    reason_of,
)


def _query(node: int, round: int) -> Message:
    return ask(node, MessageType.QUERY, round)


class Roster:
    """Connected nodes, and the client that each is, by its own word.

    A client is the first node that claims it, for as long as this node is connected; so a SuperNode that was restarted
    has to wait until the SuperLink has given up its old connection. Where several unknown nodes claim one client at
    once, none is believed.

    A silent node is set aside: rounds do not wait for it again, and it joins when it answers. Since an answer may
    have been lost with its process, it is asked again after 1, 2, 4, ... up to 32 rounds, without waiting.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    ask : callable, optional
        ``ask(node, round)`` makes the message that asks a node; a query by default.
    read : callable, optional
        ``read(reply)`` returns the client that the node says it is, or raises `Refused`.
    """

    _RAREST = 32  #: rounds between two questions to a silent node, at most

    def __init__(
        self,
        n_clients: int,
        ask: Callable[[int, int], Message] = _query,
        read: Callable[[Message], int] | None = None,
    ) -> None:
        self.n_clients, self._question = n_clients, ask
        self._read = read or (lambda reply: read_identity(reply, n_clients))
        #: The node that each connected client is.
        self.nodes: dict[int, int] = {}
        self._claims: dict[int, int | None] = {}  # of every connected node that was understood, None where refused
        self._asked: dict[str, int] = {}  # message without an answer yet -> node
        self._silent: dict[int, tuple[int, int]] = {}  # node -> round in which it is asked again, rounds to the next
        self._wrong: dict[int, str] = {}  # node -> why its last answer named no client
        self._has_warned = False

    @property
    def connected(self) -> NDArray[np.bool_]:
        """Mask of the clients that can be reached, shape (N,)."""
        mask = np.zeros(self.n_clients, dtype=bool)
        mask[list(self.nodes)] = True
        return mask

    @property
    def expects(self) -> bool:
        """Whether connected nodes have not said yet who they are."""
        return bool(self._silent)

    def meet(
        self,
        grid: Grid,
        round: int,
        wanted: int,
        *,
        patience: float,
        silence: float,
        timeout: float,
        nameless: float | None = None,
    ) -> list[Fault]:
        """Learn which clients are connected, and wait where they are too few.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Where the nodes are.
        round : int
            Round index.
        wanted : int
            Clients to wait for.
        patience : float
            Seconds to wait for them.
        silence : float
            Seconds without an answer after which nodes that have not answered are set aside.
        timeout : float
            Seconds to wait longer where nodes are connected and none of them has said yet which client it is.
        nameless : float, optional
            Seconds to wait where every node has answered and none says which client it is; ``patience`` if left out.

        Returns
        -------
        list of Fault
            What was wrong with the answers.

        Raises
        ------
        FedselectError
            When every node has answered and none of them says which client it is: as many as there are clients, or
            for longer than ``nameless``.
        """
        begun, faults = time.monotonic(), []
        nameless = patience if nameless is None else nameless
        while True:
            faults += [fault for fault in self.refresh(grid, round, silence) if fault not in faults]
            if self._wrong and not self._has_warned:
                node, reason = next(iter(self._wrong.items()))
                logging.getLogger("flwr").warning("node %d takes no part: %s", node, reason)
                self._has_warned = True
            if len(self.nodes) >= wanted:
                return faults
            # On a busy machine the processes of connected nodes may take minutes to start: no round passes before that.
            late = 0.0 if self.nodes or not self.expects else timeout
            waited, none_is_known = time.monotonic() - begun, self._wrong and not self.nodes and not self.expects
            if none_is_known and (waited > nameless or len(self._wrong) >= self.n_clients):
                node, reason = next(iter(self._wrong.items()))
                raise FedselectError(
                    f"no node says which client it is, so that none can be selected; of {len(self._wrong)} that "
                    f"answered, node {node}: {reason}"
                )
            if waited > patience + late:
                return faults
            time.sleep(0.2)

    def refresh(self, grid: Grid, round: int, timeout: float) -> list[Fault]:
        """See which nodes are connected and ask the new ones who they are.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Where the nodes are.
        round : int
            Round index.
        timeout : float
            Seconds without an answer after which the new nodes that have not answered are set aside.

        Returns
        -------
        list of Fault
            What was wrong with the answers; a silent node is named once.
        """
        online = set(grid.get_node_ids())
        self._claims = {node: client for node, client in self._claims.items() if node in online}
        self.nodes = {client: node for client, node in self.nodes.items() if node in online}
        self._asked = {message: node for message, node in self._asked.items() if node in online}
        self._silent = {node: again for node, again in self._silent.items() if node in online}
        self._wrong = {node: reason for node, reason in self._wrong.items() if node in online}
        new = sorted(online - self._claims.keys() - self._silent.keys())
        known = set(self._claims)
        faults = self._interview(grid, new, round, timeout)
        heard = self._claims.keys() - known
        settled = set(self.nodes.values())
        waiting = {node: client for node, client in self._claims.items() if node not in settled}
        rivals = Counter(waiting.values())
        for node, client in waiting.items():
            if client is None:
                continue
            if client not in self.nodes and rivals[client] == 1:
                self.nodes[client] = node
            elif node in heard:
                others = (
                    f"node {self.nodes[client]} already is"
                    if client in self.nodes
                    else f"{rivals[client] - 1} other node(s) that came with it say so too"
                )
                faults.append(Fault(f"it says it is client {client}, but {others}", node=node))
        return faults

    def _interview(self, grid: Grid, new: list[int], round: int, timeout: float) -> list[Fault]:
        """Ask new nodes who they are, and wait for them; take what the silent ones answer meanwhile."""
        due = [node for node, (again, _) in self._silent.items() if again <= round]
        for node in due:
            gap = min(2 * self._silent[node][1], self._RAREST)
            self._silent[node] = (round + gap, gap)
        if messages := [self._question(node, round) for node in (*new, *due)]:
            grid.push_messages(messages)
            self._asked |= {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        faults: list[Fault] = []
        waiting, pause, deadline = set(new), 0.01, time.monotonic() + timeout
        while self._asked:
            for reply in grid.pull_messages(list(self._asked)):
                asked = self._asked.get(reply.metadata.reply_to_message_id)
                source = reply.metadata.src_node_id
                if asked is not None and (source == asked or (reply.has_error() and source == SUPERLINK)):
                    del self._asked[reply.metadata.reply_to_message_id]
                    waiting.discard(asked)
                    faults += self._hear(asked, reply)
                    deadline = time.monotonic() + timeout  # as long as answers come, the slow may still be working
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
        for node in sorted(waiting):
            self._silent[node] = (round + 1, 1)
            faults.append(Fault(f"it did not say who it is within {timeout:g} s; it joins when it does", node=node))
        return faults

    def _hear(self, node: int, reply: Message) -> list[Fault]:
        """Note who a node says it is; one that answers with an error is asked again next time."""
        if reply.has_error():
            if node in self._silent:  # asked again in its turn
                return []
            reason = f"it could not say who it is: {reason_of(reply.error)}"
            if reply.error.code not in LOST:
                self._wrong[node] = reason
            return [Fault(reason, node=node, code=reply.error.code)]
        self._silent.pop(node, None)
        self._asked = {message: other for message, other in self._asked.items() if other != node}
        self._claims[node] = None
        self._wrong.pop(node, None)
        try:
            self._claims[node] = self._read(reply)
        except Refused as refusal:
            self._wrong[node] = str(refusal)
            return [Fault(str(refusal), node=node)]
        return []
