"""Corruption of what clients send: clients that lie, to see what a server rule or a selector makes of them.

A corruption is a function ``corrupt(client, update, round)`` that returns what the client sends in the place of its
update, a tensor of shape (d,); an honest client's is the update itself. Losses stay true. A corrupted update is checked
like any other (`fedselect.training.screen`). Its randomness must be a function of its arguments:
``fedselect.randomness.generator(seed, "corruption", round, client)``. By name it is made by a builder in `CORRUPTIONS`,
``(n_clients, seed, *, options) -> corrupt``. Clients that lie together see each other's updates: a corruption with a
method ``together(clients, updates, round)`` changes the rows of a round (over Flower, and under a server rule with
models of the clients' own, a client is alone).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from fedselect.errors import ConfigError
from fedselect.options import Registry
from fedselect.randomness import generator
from solvers.options import AtLeast, AtMost

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CORRUPTIONS", "Corrupts", "a_little_is_enough", "noise", "sent", "sign_flip", "sparse"]

#: ``(client, update, round) -> what is sent``.
Corrupts = Callable[[int, "Tensor", int], Any]

#: Builders ``(n_clients, seed, *, options) -> corrupt`` by name.
CORRUPTIONS: Registry = Registry("corruption")

_Share = Annotated[float, AtLeast(0), AtMost(1)]


@CORRUPTIONS.register("sign-flip")
def sign_flip(
    n_clients: int, seed: int, *, share: _Share = 0.2, clients: list[int] | None = None, scale: float = 1.0
) -> Corrupts:
    """Send the update times ``-scale``; by ``clients``, or by a ``share`` of all, rounded down, that the seed draws."""
    liars = _liars(n_clients, seed, share, clients)
    return lambda client, update, round: update * -scale if client in liars else update


@CORRUPTIONS.register("noise")
def noise(
    n_clients: int, seed: int, *, share: _Share = 0.2, clients: list[int] | None = None, scale: float = 1.0
) -> Corrupts:
    """Send normal noise of ``scale`` times the update's norm in its place; by ``clients``, or a ``share`` of all."""
    liars = _liars(n_clients, seed, share, clients)

    def corrupt(client: int, update: Tensor, round: int) -> Tensor:
        if client not in liars:
            return update
        draws = generator(seed, "corruption", round, client).standard_normal(update.numel())
        return update.new_tensor(draws * (scale * float(update.norm()) / np.sqrt(update.numel())))

    return corrupt


@CORRUPTIONS.register("sparse")
def sparse(
    n_clients: int,
    seed: int,
    *,
    share: _Share = 0.2,
    clients: list[int] | None = None,
    scale: float = 1.0,
    part: _Share = 0.01,
) -> Corrupts:
    """Send the update with its coordinates of largest size, a share ``part`` (one at least), times ``-scale``."""
    liars = _liars(n_clients, seed, share, clients)

    def corrupt(client: int, update: Tensor, round: int) -> Tensor:
        if client not in liars:
            return update
        largest = update.abs().topk(max(1, int(part * update.numel()))).indices
        changed = update.clone()
        changed[largest] *= -scale
        return changed

    return corrupt


class _Together:
    """Clients that send the same: what their updates have in common, moved by some of its deviations."""

    def __init__(self, liars: frozenset[int], scale: float) -> None:
        self._liars, self._scale = liars, scale

    def __call__(self, client: int, update: Tensor, round: int) -> Tensor:
        """Return the update: alone a client knows no deviation."""
        return update

    def together(self, clients: list[int], updates: Tensor, round: int) -> None:
        """Change the rows of those that lie."""
        rows = [place for place, client in enumerate(clients) if client in self._liars]
        if len(rows) > 1:
            own = updates[rows]
            updates[rows] = own.mean(dim=0) - self._scale * own.std(dim=0, correction=0)


@CORRUPTIONS.register("a-little-is-enough")
def a_little_is_enough(
    n_clients: int, seed: int, *, share: _Share = 0.2, clients: list[int] | None = None, scale: float = 0.7
) -> Corrupts:
    """Send, all who lie the same, the mean of their updates less ``scale`` standard deviations of them.

    Where only one of them returns in a round, it sends its own update. (Source: Baruch, Baruch, Goldberg, A Little Is
    Enough, NeurIPS 2019.)
    """
    return _Together(_liars(n_clients, seed, share, clients), scale)


def _liars(n_clients: int, seed: int, share: float, clients: list[int] | None) -> frozenset[int]:
    """Clients that lie: those named, or a share drawn for the whole run, rounded down."""
    if clients is None:
        drawn = generator(seed, "corruption").permutation(n_clients)[: int(share * n_clients)]
        return frozenset(drawn.tolist())
    if strangers := [client for client in clients if not 0 <= client < n_clients]:
        raise ConfigError(f"corruption: clients are numbered from 0 to {n_clients - 1}; got {strangers[0]}")
    return frozenset(clients)


def sent(corrupt: Corrupts, client: int, update: Tensor, round: int) -> Tensor:
    """Return what a client sends; raise `ConfigError` where it is no vector as long as the update."""
    import torch

    found = corrupt(client, update.clone(), round)
    try:
        answer = torch.as_tensor(found, dtype=update.dtype, device=update.device)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        answer = None
    if answer is None or answer.shape != update.shape:
        shape = getattr(found, "shape", None)
        got = repr(found)[:60] if shape is None else f"shape {tuple(shape)}"
        raise ConfigError(
            f"corrupt(client, update, round) returns what client {client} sends, shape {tuple(update.shape)} "
            f"(an honest client's is the update itself); got {got}"
        )
    return answer
