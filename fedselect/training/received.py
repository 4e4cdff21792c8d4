r"""Check of the updates that clients sent, before anything is computed from them.

A client is not trusted to send numbers that can be used: a single entry of 3e38 would make the model infinite for
good, and the honest clients that train from it fail ever after. So an answer is refused when

* its update, its loss or its buffers are not finite (a loss: beyond single precision);
* the norm of its update exceeds ``update_limit`` times :math:`\max(1, \|w\|, \text{median}_k \|\Delta_k\|)`. The median
  (the lower one of two) counts from three answers on, so that fewer than half of the clients cannot raise it. Where a
  model starts at zero and has large weights (a regression in raw units), it is what admits the first updates;
* the change of its buffers exceeds the same limit, with the buffers in the place of the model;
* the server stores updates per unit of step size, and this one would not fit single precision.

That keeps one client from destroying the model; it does not keep a client from pulling it. ``clip_norm`` bounds what
one client can move it by in a round.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedselect.training.local import Trained

__all__ = ["clipped", "unusable"]

_SINGLE = float(np.finfo(np.float32).max)


def unusable(
    trained: Trained,
    norms: NDArray[np.float64],
    model: Tensor,
    buffers: Tensor | None,
    *,
    limit: float,
    rate: float | None = None,
) -> dict[int, str]:
    """Find the answers that cannot be used.

    Parameters
    ----------
    trained : Trained
        The answers of m clients.
    norms : (m,) ndarray of float
        Euclidean norms of their updates; inf where single precision overflows.
    model : (d,) tensor
        The global model that they trained from.
    buffers : (q,) tensor or None
        Its buffers, where it has any.
    limit : float
        `TrainingSettings.update_limit`.
    rate : float, optional
        Step size of the round, where the server stores updates per unit of it.

    Returns
    -------
    dict of int to str
        Place of an answer to the reason, which begins with "its".
    """
    found: dict[int, str] = {}
    for name, values in (("loss", trained.losses), ("received loss", trained.received_losses)):
        for place in np.flatnonzero(~(np.abs(values) <= _SINGLE)).tolist():
            found.setdefault(place, f"its {name} is {values[place]:g}; accepted is a finite number")
    for place in np.flatnonzero(~np.isfinite(norms)).tolist():  # the norm of finite numbers may overflow
        if not torch.isfinite(trained.updates[place]).all():
            found[place] = "its update is not finite"
    _too_large(found, "update", norms, model, limit)
    if rate is not None:
        for place in np.flatnonzero(~(norms <= _SINGLE * rate) | (rate == 0)).tolist():
            found.setdefault(place, f"its update of norm {norms[place]:.3g} per step size {rate:g} cannot be stored")
    if trained.buffers is not None and buffers is not None:
        changes = torch.linalg.vector_norm(trained.buffers - buffers, dim=1).cpu().numpy()
        for place in np.flatnonzero(~torch.isfinite(trained.buffers).all(dim=1).cpu().numpy()).tolist():
            found.setdefault(place, "its buffers are not finite")
        _too_large(found, "change of the buffers", changes, buffers, limit)
    return found


def clipped(updates: Tensor, norms: NDArray[np.float64], most: float) -> tuple[Tensor, NDArray[np.float64]]:
    """Scale the rows that are longer than ``most`` down to it; return them and their norms."""
    long = norms > most
    if not long.any():
        return updates, norms
    factors = np.ones_like(norms)
    factors[long] = most / norms[long]
    shorter = updates * torch.from_numpy(factors).to(updates).unsqueeze(1)
    return shorter, np.where(long, np.asarray(most, dtype=norms.dtype), norms)


def _too_large(found: dict[int, str], what: str, norms: NDArray[np.float64], base: Tensor, limit: float) -> None:
    """Add the answers whose norms exceed the limit, in comparison with the norm of ``base``."""
    if not (norms > limit).any():  # the reference is at least 1: nothing else to compute
        return
    reference = max(1.0, float(base.double().norm()))
    good = np.sort([norm for place, norm in enumerate(norms.tolist()) if place not in found])
    if good.size >= 3:
        reference = max(reference, float(good[(good.size - 1) // 2]))
    for place in np.flatnonzero(norms > limit * reference).tolist():
        if place not in found and math.isfinite(limit):
            found[place] = (
                f"its {what} has norm {norms[place]:.3g}; accepted is at most {limit * reference:.3g} "
                f"(update_limit = {limit:g})"
            )
