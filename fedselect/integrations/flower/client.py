"""The client's half: a Flower ``ClientApp`` around anything that can train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from fedselect.integrations.flower.messages import DROPPED_OUT, answer, read_part, read_task

__all__ = ["DroppedOut", "LocalClient", "Update", "client_app"]


class DroppedOut(Exception):
    """Raised by a client that leaves the round; the server hears of it at once and counts it as missing."""


@dataclass(frozen=True, eq=False)
class Update:
    """What local training gives.

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
        """Which client this is, from 0; it never changes, whatever node id Flower gives it."""
        ...

    def train(self, weights: NDArray[np.float32], round: int) -> Update:
        """Train from the model ``weights`` (d,) in ``round`` (from 0); may raise `DroppedOut`."""
        ...

    def loss(self, weights: NDArray[np.float32]) -> float:
        """Mean loss of the model ``weights`` (d,) on the client's training samples, for selectors that probe."""
        ...

    def validation_loss(self, weights: NDArray[np.float32]) -> float:
        """The same on what the client has held out of training, for selectors that ask for that (power-of-choice)."""
        ...


def client_app(make: Callable[[Context], LocalClient]) -> ClientApp:
    """Build the ``ClientApp`` that answers a `SelectorStrategy`.

    Parameters
    ----------
    make : callable
        Makes the client of a node from Flower's context: ``context.node_config["partition-id"]`` is its number in a
        simulation, and what ``--node-config`` says of a SuperNode. On Ray it is pickled and called for every message.

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
        }
        return answer(message, numbers, update.change)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        client = make(context)
        weights, round = read_task(message)
        measure = client.validation_loss if read_part(message) == "validation" else client.loss
        return answer(message, {"client": client.client, "round": round, "loss": float(measure(weights))})

    return app
