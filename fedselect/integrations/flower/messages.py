"""Messages between server and clients of `fedselect.integrations.flower.SelectorStrategy`, as Flower carries them.

========  =================================================  =====================================================
message   the server sends                                   the client answers
========  =================================================  =====================================================
query     nothing                                            config: ``client``
train     arrays: ``model`` (d,) float32; config: ``round``  arrays: ``update`` (d,) float32; metrics: ``client``,
                                                             ``round``, ``num-examples``, ``loss``,
                                                             ``received-loss``, ``norm``, ``seconds`` of training
evaluate  as for train, and config: ``part`` where it is     metrics: ``client``, ``round``, ``loss`` of the model
          ``validation`` and not ``training``
========  =================================================  =====================================================

`Refused` says what is wrong with what a client sent.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedselect.errors import ConfigError

#: Characters of a reason that are kept.
_LONGEST = 500
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Fault:
    """Something that went wrong with one client or node; the round went on.

    Attributes
    ----------
    reason : str
        What went wrong.
    client, node : int or None
        Whose it was, as far as that is known; the node is Flower's id of the connection.
    code : int or None
        Flower's code, where an error message came.
    at : str
        When the server noticed: date and time, UTC; it does not count when faults are compared.
    """

    reason: str
    client: int | None = None
    node: int | None = None
    code: int | None = None
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"), compare=False)

    def table(self) -> dict[str, Any]:
        """As the record of the round has it; a client may say as much as it likes, but not there."""
        return dataclasses.asdict(self) | {"reason": self.reason[:_LONGEST]}


def reason_of(error: Error) -> str:
    """Return the last line of an error's reason: Flower sends a whole traceback, in colours where Ray made it."""
    lines = [line.strip() for line in _COLOURS.sub("", error.reason or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


#: Code of the error with which a client says that it leaves the round (a simulated dropout, an empty battery).
DROPPED_OUT = 101
#: Codes of errors that the SuperLink makes in a client's name: message, reply or node unavailable. Like silence and
#: like `DROPPED_OUT`, they say that nothing came back, not that something went wrong in the training.
LOST = (3, 4, 5)
#: The node id under which it does so.
SUPERLINK = 1


class Refused(Exception):
    """An answer that cannot be used; the message says why."""


def ask(node: int, kind: str, round: int, model: ArrayRecord | None = None, part: str | None = None) -> Message:
    """Make a message to a node; the round is its group, so that a late answer can be told."""
    content = RecordDict()
    if model is not None:
        config = {"round": round} | ({} if part is None else {"part": part})
        content = RecordDict({"arrays": model, "config": ConfigRecord(config)})
    return Message(content, dst_node_id=node, message_type=kind, group_id=str(round))


def answer(message: Message, numbers: Mapping[str, float], update: NDArray[np.float32] | None = None) -> Message:
    """Answer with numbers (the identity when it is a query), and the update where there is one."""
    if message.metadata.message_type == "query":
        return Message(RecordDict({"config": ConfigRecord(dict(numbers))}), reply_to=message)
    content = RecordDict({"metrics": MetricRecord(dict(numbers))})
    if update is not None:
        content["arrays"] = ArrayRecord({"update": Array(np.ascontiguousarray(update, dtype=np.float32))})
    return Message(content, reply_to=message)


def model_record(weights: NDArray[np.float32]) -> ArrayRecord:
    """Pack the global model as Flower carries it."""
    return ArrayRecord({"model": Array(np.ascontiguousarray(weights, dtype=np.float32))})


def read_task(message: Message) -> tuple[NDArray[np.float32], int]:
    """Model (d,) and round of a message to a client."""
    # A copy: what was read from a message's bytes cannot be written to.
    return message.content["arrays"]["model"].numpy().copy(), int(message.content["config"]["round"])


def read_part(message: Message) -> str:
    """Read which samples a loss is asked of: ``"training"`` or ``"validation"``."""
    return str(message.content["config"].get("part", "training"))


def partition_of(context: Context) -> int:
    """Return the client that a node's configuration says it is; raise `ConfigError` where it says none."""
    given = context.node_config.get("partition-id")
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not re.fullmatch(r"\d{1,18}", str(given), re.ASCII):
        raise ConfigError(
            f"this node's configuration must say which client it is, as a whole number from 0 (partition-id=3); got "
            f"{given!r:.80}"
        )
    return int(given)


def read_identity(reply: Message, n_clients: int) -> int:
    """Read which client a node says it is, in [0, n_clients)."""
    client = reply.content.config_records.get("config", {}).get("client")
    if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < n_clients:
        raise Refused(f"it says it is client {client!r}; accepted is a whole number from 0 to {n_clients - 1}")
    return client


def read_loss(reply: Message, client: int, round: int) -> float:
    """Read the loss that a client has measured of the model it was sent."""
    return _numbers(reply, client, round, "loss")[0]


def read_update(reply: Message, client: int, round: int, parameters: int) -> tuple[NDArray[np.float32], float, float]:
    """Read the update (parameters,) of a client, its mean loss, and its loss before the first step; all are finite."""
    loss, received = _numbers(reply, client, round, "loss", "received-loss")
    try:
        update = reply.content.array_records["arrays"]["update"].numpy()
    except KeyError:
        raise Refused("its answer has no update") from None
    except Exception as error:  # bytes of a stranger's making: NumPy may raise anything
        raise Refused(f"its update cannot be read: {error}") from error
    if update.shape != (parameters,) or update.dtype != np.float32:
        raise Refused(
            f"its update has shape {update.shape} and type {update.dtype}; accepted is ({parameters},) and float32"
        )
    if not np.isfinite(update).all():
        raise Refused("its update is not finite")
    return update, loss, received


def read_seconds(reply: Message) -> float | None:
    """Read how long a client says that it trained, by its own watch; None where it says nothing that can be."""
    value = reply.content.metric_records.get("metrics", {}).get("seconds")
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf else None


def _numbers(reply: Message, client: int, round: int, *names: str) -> list[float]:
    """These metrics of an answer, once it is sure that it is this client's and of this round."""
    metrics: Mapping[str, Any] = reply.content.metric_records.get("metrics", {})
    if metrics.get("round") != round:
        raise Refused(f"it answers round {metrics.get('round')!r}; this is round {round}")
    if metrics.get("client") != client:
        raise Refused(f"it answers as client {metrics.get('client')!r}; client {client} was asked")
    found = []
    for name in names:
        value = metrics.get(name)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise Refused(f"its {name} is {value!r}; accepted is a finite number")
        found.append(float(value))
    return found
