"""A selector in one of Flower's own strategies, where it samples and weighs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.dropout import no_dropout
from fedselect.availability.independent import Independent
from fedselect.errors import ConfigError
from fedselect.integrations.flower.ending import Ending
from fedselect.integrations.flower.messages import DROPPED_OUT, LOST, Refused, partition_of, reason_of
from fedselect.integrations.flower.roster import Roster
from fedselect.options import array_of, check_choice, check_number
from fedselect.rounds.engine import conclude, decide
from fedselect.rounds.history import History
from fedselect.rounds.protocol import OfClients
from fedselect.rounds.scenario import World

#: Metric that has the selection's weight in the answers that the strategy averages: its ``weighted_by_key`` meanwhile.
WEIGHT = "selection-weight"

#: Metric by which a client says which one it is, and the entry of a node's configuration that has it.
IDENTITY = "partition-id"


def say_partition(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Add the ``partition-id`` of the node's configuration, where it has one, to answers' metrics: a mod of Flower.

    ``ClientApp(mods=[say_partition])`` says `select_with` which client a node is.

    Raises
    ------
    ConfigError
        When the ``partition-id`` is no whole number from 0.
    """
    reply = call_next(message, context)
    if not reply.has_error() and IDENTITY in context.node_config:
        for metrics in reply.content.metric_records.values():
            metrics[IDENTITY] = partition_of(context)
    return reply


def select_with(
    selector: Any,
    clients: int | ArrayLike,
    *,
    seed: int = 0,
    identity: str | None = IDENTITY,
    train_loss: str = "train_loss",
    eval_loss: str = "eval_loss",
    weights: Literal["selector", "strategy"] = "selector",
    patience: float = 60.0,
) -> type:
    r"""Make a mixin with which one of Flower's strategies asks a selector which clients train, with which weights.

    ``class Selected(select_with(FedGS.of(federation, 5), 20), FedAvg): ...`` is a strategy as `FedAvg` is, with the
    same arguments; its aggregation, its configuration of clients and its evaluation stay. The base averages what
    clients return with the selection's absolute weights, :math:`w + \sum_i a_i (w_i - w)`: where they do not sum to 1,
    models :math:`w_i` are moved to :math:`w + A (w_i - w)`, with A the sum, before they are averaged with a_i / A.
    The weight of an answer is its metric ``selection-weight``, and ``weighted_by_key`` names it during the aggregation:
    an aggregation of your own weighs by that. The clients' own metrics, ``num-examples`` among them, stay as they came.
    A strategy without ``weighted_by_key`` finds the weight as ``num-examples``.

    Unless ``identity`` is None, a node is asked for it by an evaluation of the current model (`ClientApp.evaluate`)
    when it is first seen, and again until it answers. Its answer also tells how many samples it has; the first training
    tells it better.

    Parameters
    ----------
    selector : Selector
        Decides; it learns outcomes, losses and updates.
    clients : int or (N,) array-like of int
        Number of clients N, or the samples of each, where they are known beforehand.
    seed : int
        Seed of the selector's draws.
    identity : str, optional
        Metric of the clients' answers that has their number, from 0 to N - 1: see `say_partition`. None numbers the
        nodes as they come, for selectors that know nothing about single clients beforehand.
    train_loss, eval_loss : str
        Metrics that have a client's mean loss in training, which the selector learns, and of the model that it
        received, for selectors that ask for that before they decide.
    weights : {"selector", "strategy"}
        Whose weights the strategy averages with. ``"strategy"``: the selector says who trains, and the strategy weighs
        what comes as it does by itself. ``history`` then has the weights that the selector gave, which are not applied.
    patience : float
        Seconds to wait where nodes are connected and none of them says which client it is. For nodes that are not
        connected yet a strategy of Flower's waits without end.

    Returns
    -------
    type
        A class to be named before the strategy's own. Its instances have ``history``, the rounds so far.

    Raises
    ------
    ConfigError
        At once, when ``clients`` is no number of clients, ``patience`` no number of seconds, or ``weights`` another
        word; in a round, when the selector asks for something that Flower's clients do not send (durations on a clock,
        say), a client does not answer with a loss that is asked for, or a weight to apply is negative.
    FedselectError
        In a round, when no node says which client it is.
    """
    check_choice("weights", weights, "selector", "strategy")
    check_number("patience", patience)
    given = array_of(clients)
    sizes = np.ones(max(int(given), 0), dtype=np.int64) if given.ndim == 0 and given.dtype.kind in "iu" else given
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ConfigError(
            f"clients must be their number, or one positive number of samples a client; got {clients!r:.60}"
        )
    settings = {
        "_selector": selector,
        "_known_sizes": None if given.ndim == 0 else sizes.astype(np.int64),
        "_n_clients": sizes.size,
        "_seed": seed,
        "_identity": identity,
        "_losses": (train_loss, eval_loss),
        "_is_weighing": weights == "selector",
        "_patience": patience,
    }
    return type("SelectedBy", (_Selected,), settings)


class _Selected(Ending):
    """What `select_with` mixes in: it has a strategy of Flower's behind it."""

    _selector: Any
    _known_sizes: NDArray[np.int64] | None
    _n_clients: int
    _seed: int
    _identity: str | None
    _losses: tuple[str, str]
    _is_weighing: bool
    _patience: float

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._sizes = np.zeros(self._n_clients, dtype=np.int64) if self._known_sizes is None else self._known_sizes
        self._timeout, self._round = 3600.0, 0
        self._evaluate_config = ConfigRecord()
        self._played: list[tuple[Any, ...]] = []
        self._roster = Roster(self._n_clients, self._ask, self._read)

    @property
    def history(self) -> History:
        """The rounds so far: clients available, selected and returned, and the weights applied."""
        return History._of(self._played, self._n_clients)

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
        self._timeout, self._evaluate_config = timeout, evaluate_config or ConfigRecord()
        return super().start(
            grid, initial_arrays, num_rounds, timeout, train_config, self._evaluate_config, evaluate_fn
        )

    # -- a round -------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the selector, and let the strategy make the messages to the clients that it chose."""
        self._arrays, self._sent = arrays, []
        if not self._played:  # Flower's average makes floats of whole numbers, such as those of batch norm
            self._trained = [name for name, array in arrays.items() if array.numpy().dtype.kind == "f"]
        self._meet(grid)
        known = self._sizes[self._sizes > 0]
        usual = max(round(known.mean()), 1) if known.size else 1
        ones = Independent(np.ones(self._n_clients), 0)
        world = World(np.where(self._sizes > 0, self._sizes, usual), ones, no_dropout(self._n_clients), seed=self._seed)
        self._decided = decide(
            self._selector,
            world,
            self._round,
            connected=self._roster.connected,
            probe=lambda clients: self._probe(grid, clients),
        )
        nodes = {self._roster.nodes[client]: client for client in self._decided.selection.clients.tolist()}
        if not nodes:
            return []
        # All of what the strategy sees is to be sampled.
        wide = {"fraction_train": 1.0, "min_train_nodes": 0, "min_available_nodes": 0}
        kept = {name: getattr(self, name) for name in wide if hasattr(self, name)}
        self.__dict__.update({name: value for name, value in wide.items() if name in kept})
        try:
            messages = list(super().configure_train(server_round, arrays, config, _Part(grid, list(nodes))))
        finally:
            self.__dict__.update(kept)
        messages.sort(key=lambda message: nodes[message.metadata.dst_node_id])
        # The messages themselves are kept: their ids are given when they are sent.
        self._sent = [(message, nodes[message.metadata.dst_node_id]) for message in messages]
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the strategy average what came, with the selection's weights; tell the selector."""
        decided, clients = self._decided, self._decided.selection.clients
        asked = {message.metadata.message_id: client for message, client in self._sent}
        came: dict[int, Message] = {}
        errors: list[Message] = []
        heard = np.zeros(clients.size, dtype=bool)
        for reply in replies:
            client = asked.get(reply.metadata.reply_to_message_id)
            if client is None or client in came:
                continue
            if reply.has_error():
                errors.append(reply)
                heard |= (clients == client) & (reply.error.code not in (DROPPED_OUT, *LOST))
                continue
            if why := self._wrong(reply):
                logging.getLogger("flwr").warning("client %d failed: %s", client, why)
                heard |= clients == client
                continue
            came[client] = reply
        usable = sorted(came)
        arrived = np.isin(clients, usable)
        applied = decided.selection.applied_weights(arrived)
        before = {name: self._arrays[name].numpy() for name in self._trained}
        models = [dict(next(iter(came[client].content.array_records.values()))) for client in usable]
        losses = {client: self._number(came[client], self._losses[0]) for client in usable}
        conclude(
            self._selector,
            decided,
            arrived,
            arrived | heard,
            losses={client: loss for client, loss in losses.items() if loss is not None},
            updates=OfClients(usable, lambda place: _update(models[place], before)),
        )
        self._played.append((decided.available, clients, arrived, applied, None, None))
        self._round += 1
        weighed = self._weighed([came[client] for client in usable], usable, applied[arrived], before)
        weighted_by = getattr(self, "weighted_by_key", None) if self._is_weighing else None
        if weighted_by is not None:
            self.weighted_by_key = WEIGHT
        try:
            arrays, metrics = super().aggregate_train(server_round, [*weighed, *errors])
        finally:
            if weighted_by is not None:
                self.weighted_by_key = weighted_by
        if (
            self._is_weighing
            and metrics is not None
            and getattr(self, "train_metrics_aggr_fn", None) is aggregate_metricrecords
        ):
            metrics.pop(str(weighted_by), None)  # as in Flower's mean, which leaves out what it weighs by
        return self._kept_training(server_round, (arrays, metrics))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the strategy aggregate; a client's number is no metric."""
        answers = list(replies)
        for reply in answers:
            self._strip(reply)
        return self._kept_evaluation(server_round, super().aggregate_evaluate(server_round, answers))

    def _wrong(self, reply: Message) -> str | None:
        """Return why an answer to a training cannot be averaged; None where it can."""
        records = list(reply.content.array_records.values())
        if len(records) != 1 or not reply.content.metric_records:
            return f"its answer has {len(records)} models and {len(reply.content.metric_records)} sets of metrics"
        for name, array in self._arrays.items():
            if name not in self._trained and name not in records[0]:
                continue  # a strategy of your own may keep whole numbers at the server
            shape = None if name not in records[0] else tuple(records[0][name].shape)
            if shape != (wanted := tuple(array.shape)):
                return f"its model has {name!r} of shape {shape}; accepted is {wanted}"
            if not np.isfinite(records[0][name].numpy()).all():
                return f"its model is not finite in {name!r}"
        return None

    def _weighed(
        self,
        replies: list[Message],
        clients: list[int],
        weights: NDArray[np.float64],
        before: dict[str, NDArray[Any]],
    ) -> list[Message]:
        """Give the answers the weights that the strategy averages by; learn sizes from those that they had."""
        total = float(weights.sum())
        if self._is_weighing and (weights < 0).any():
            raise ConfigError(f"a strategy of Flower's averages with weights from 0; the selection has {weights.min()}")
        if self._is_weighing and total == 0.0:
            return []
        samples_key = getattr(self, "weighted_by_key", "num-examples")
        key = WEIGHT if hasattr(self, "weighted_by_key") else samples_key
        for reply, client, weight in zip(replies, clients, weights.tolist(), strict=True):
            self._strip(reply)
            for metrics in reply.content.metric_records.values():
                samples = metrics.get(samples_key)
                if self._known_sizes is None and isinstance(samples, int | float) and samples >= 1:
                    self._sizes[client] = int(samples)
                if self._is_weighing:
                    metrics[key] = float(weight)
            if self._is_weighing and abs(total - 1.0) > 1e-9:  # further from 1 than the rounding of a sum of weights
                for arrays in reply.content.array_records.values():
                    for name, old in before.items():
                        own = arrays[name].numpy()
                        arrays[name] = Array((old + total * (own - old)).astype(own.dtype))
        return replies

    # -- who is who ----------------------------------------------------------------------------------------------

    def _meet(self, grid: Grid) -> None:
        """Learn which clients are connected; wait for as many as the strategy does."""
        wanted = min(max(int(getattr(self, "min_available_nodes", 1)), 1), self._n_clients)
        if self._identity is not None:
            self._roster.meet(
                grid, self._round, wanted, patience=math.inf, silence=min(30.0, self._timeout), timeout=self._timeout,
                nameless=self._patience,
            )  # fmt: skip
            return
        online = sorted(grid.get_node_ids())
        nodes = {client: node for client, node in self._roster.nodes.items() if node in online}
        free = (client for client in range(self._n_clients) if client not in nodes)
        known = set(nodes.values())
        self._roster.nodes = nodes | dict(zip(free, (node for node in online if node not in known), strict=False))

    def _ask(self, node: int, round: int) -> Message:
        """Make a message that asks a node to evaluate the current model."""
        config = ConfigRecord(dict(self._evaluate_config))
        config["server-round"] = round + 1
        keys = getattr(self, "arrayrecord_key", "arrays"), getattr(self, "configrecord_key", "config")
        content = RecordDict(dict(zip(keys, (self._arrays, config), strict=True)))
        return Message(content, dst_node_id=node, message_type=MessageType.EVALUATE, group_id=str(round))

    def _read(self, reply: Message) -> int:
        """Read which client a node is; note how many samples it has."""
        name = str(self._identity)
        client = self._number(reply, name)
        if client is None or not 0 <= client < self._n_clients or client != int(client):
            raise Refused(
                f"its metric {name!r} is {client}; accepted is a whole number from 0 to {self._n_clients - 1} "
                "(ClientApp(mods=[say_partition]) adds the partition-id of the node's configuration)"
            )
        samples = self._number(reply, getattr(self, "weighted_by_key", "num-examples"))
        if self._known_sizes is None and samples is not None and samples >= 1:
            self._sizes[int(client)] = int(samples)
        return int(client)

    def _probe(self, grid: Grid, clients: Sequence[int]) -> NDArray[np.float64]:
        """Ask clients for the loss of the current model."""
        sent = [self._ask(self._roster.nodes[client], self._round) for client in clients]
        replies = {
            reply.metadata.reply_to_message_id: reply for reply in grid.send_and_receive(sent, timeout=self._timeout)
        }
        losses = []
        for client, message in zip(clients, sent, strict=True):
            reply = replies.get(message.metadata.message_id)
            loss = None if reply is None or reply.has_error() else self._number(reply, self._losses[1])
            if loss is None:
                why = (
                    "no answer" if reply is None else reason_of(reply.error) if reply.has_error() else "no such metric"
                )
                raise ConfigError(f"client {client} was asked for its metric {self._losses[1]!r}: {why}")
            losses.append(loss)
        return np.array(losses, dtype=np.float64)

    def _strip(self, reply: Message) -> None:
        """Take the client's number out of its metrics, which are averaged."""
        if not reply.has_error() and self._identity is not None:
            for metrics in reply.content.metric_records.values():
                metrics.pop(self._identity, None)

    @staticmethod
    def _number(reply: Message, name: str) -> float | None:
        """Return a metric of an answer, if it is a finite number."""
        for metrics in reply.content.metric_records.values():
            value = metrics.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                return float(value)
        return None


def _update(model: dict[str, Array], before: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Return what a client changed, as one vector: arrays of floats in the order of the global model."""
    return np.concatenate([(model[name].numpy() - old).ravel() for name, old in before.items()]).astype(np.float32)


class _Part(Grid):
    """A grid of which only some nodes are seen."""

    def __init__(self, grid: Grid, nodes: list[int]) -> None:
        self._grid, self._nodes = grid, nodes

    def get_node_ids(self) -> Iterable[int]:
        return self._nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def set_run(self, *values: Any) -> None:
        self._grid.set_run(*values)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *values: Any, **named: Any) -> Message:
        return self._grid.create_message(*values, **named)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self._grid.send_and_receive(messages, timeout=timeout)
