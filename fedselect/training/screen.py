r"""Screen of what clients send: which answers cannot be used, and how long an update may be.

A client is not trusted to send numbers that can be used: a single entry of 3e38 would make the model infinite for
good, and the honest clients that train from it fail ever after. So an answer is refused when

* its update, its loss or its buffers are not finite (a loss: beyond single precision);
* the norm of its update exceeds ``update_limit`` times :math:`\max(1, \|w_0\|, \text{median})`, where :math:`w_0` is
  the initial model and the median that of the norms of all updates so far, this round's included: the lower one of
  two, from three updates on, rounded up to an eighth of a power of two;
* the change of its buffers exceeds the same limit, with the buffers in the place of the model;
* the server stores updates per unit of step size, and this one would not fit single precision.

Fewer than half of the updates so far cannot raise the median beyond the longest of the others, rounded up. Where a
model starts at zero and has large weights (a regression in raw units), the median is what admits the first updates. In
a first round of one or two clients there is none, and the initial model counts. Where most of the clients lie, nothing
here helps.

That keeps a client from destroying the model's numbers; it does not keep it from pulling the model by ``update_limit``
honest updates a round. ``clip_norm`` bounds what one client can move it by.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: The largest number of single precision.
SINGLE = float(np.finfo(np.float32).max)

#: Steps of a power of two that norms are counted by.
_STEPS = 8


class Screen:
    """Finds the answers of a round that cannot be used, and remembers how long updates are.

    Parameters
    ----------
    limit : float
        `TrainingSettings.update_limit`.
    weights : (d,) tensor
        The initial model.
    buffers : (q,) tensor, optional
        Its buffers, where it has any.
    """

    def __init__(self, limit: float, weights: Tensor, buffers: Tensor | None = None) -> None:
        self.limit = limit
        self._updates = _Norms(weights)
        self._changes = None if buffers is None else _Norms(buffers)

    def __call__(
        self,
        updates: Tensor,
        norms: NDArray[np.float64],
        losses: NDArray[np.float64],
        changes: Tensor | None = None,
        rate: float | None = None,
    ) -> dict[int, str]:
        """Find the answers that cannot be used.

        Parameters
        ----------
        updates : (m, d) tensor
            Updates of m clients.
        norms : (m,) ndarray of float
            Their norms; inf where single precision overflows.
        losses : (2, m) ndarray of float
            Mean loss, and loss of the received model.
        changes : (m, q) tensor, optional
            What became of the model's buffers, less what they were.
        rate : float, optional
            Step size of the round, where the server stores updates per unit of it.

        Returns
        -------
        dict of int to str
            Place of an answer to the reason, which begins with "its".
        """
        found: dict[int, str] = {}
        if not _within(losses, SINGLE):
            for name, values in zip(("loss", "received loss"), losses, strict=True):
                for place in np.flatnonzero(~(np.abs(values) <= SINGLE)).tolist():
                    found.setdefault(place, f"its {name} is {values[place]:g}; accepted is a finite number")
        if not _within(norms, SINGLE):
            for place in np.flatnonzero(~np.isfinite(norms)).tolist():  # the norm of finite numbers may overflow
                if not torch.isfinite(updates[place]).all():
                    found[place] = "its update is not finite"
        self._refuse_long(found, "update", norms, self._updates)
        if rate is not None:
            for place in np.flatnonzero(~(norms <= SINGLE * rate) | (rate == 0)).tolist():
                found.setdefault(
                    place, f"its update of norm {norms[place]:.3g} per step size {rate:g} cannot be stored"
                )
        if changes is not None and self._changes is not None:
            sizes = torch.linalg.vector_norm(changes, dim=1).cpu().numpy()
            for place in np.flatnonzero(~torch.isfinite(changes).all(dim=1).cpu().numpy()).tolist():
                found.setdefault(place, "its buffers are not finite")
            self._refuse_long(found, "change of the buffers", sizes, self._changes)
        return found

    def _refuse_long(self, found: dict[int, str], what: str, norms: NDArray[np.float64], seen: _Norms) -> None:
        """Add the answers whose norms exceed the limit, and count the norms of those that were not refused before."""
        seen.count([norm for place, norm in enumerate(norms.tolist()) if place not in found] if found else norms)
        most = self.limit * seen.reference()
        if _within(norms, most):
            return
        for place in np.flatnonzero(norms > most).tolist():
            if place not in found:
                found[place] = (
                    f"its {what} has norm {norms[place]:.3g}; accepted is at most {most:.3g} "
                    f"(update_limit = {self.limit:g})"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next limit depends on."""
        return {"updates": self._updates.state()} | (
            {} if self._changes is None else {"changes": self._changes.state()}
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self._updates.load(state["updates"])
        if self._changes is not None:
            self._changes.load(state["changes"])


class _Norms:
    """Norms so far, counted by eighths of powers of two: their median takes no room that grows with the rounds."""

    def __init__(self, start: Tensor) -> None:
        self.least = max(1.0, float(start.double().norm()))
        self.counts: dict[int, int] = {}

    def count(self, norms: Any) -> None:
        """Count norms."""
        for norm in np.asarray(norms, dtype=np.float64).tolist():
            step = -(2**20) if norm == 0 else 2**20 if norm == math.inf else math.ceil(_STEPS * math.log2(norm))
            self.counts[step] = self.counts.get(step, 0) + 1

    def reference(self) -> float:
        """Largest of 1, the norm at the start and, from three norms on, their lower median."""
        n = sum(self.counts.values())
        if n < 3:
            return self.least
        before, middle = 0, (n - 1) // 2
        for step in sorted(self.counts):
            before += self.counts[step]
            if before > middle:
                break
        return max(self.least, 0.0 if step < -(2**19) else math.inf if step > 2**19 else 2 ** (step / _STEPS))

    def state(self) -> NDArray[np.float64]:
        """Norm at the start, then each step with its count, as a flat array."""
        return np.array([self.least, *(number for pair in sorted(self.counts.items()) for number in pair)])

    def load(self, state: Any) -> None:
        """Restore what `state` returned."""
        self.least, *pairs = np.asarray(state, dtype=np.float64).tolist()
        self.counts = dict(zip(map(int, pairs[::2]), map(int, pairs[1::2]), strict=True))


def _within(values: NDArray[np.floating], most: float) -> bool:
    """Whether all of these are numbers of at most this size."""
    return not values.size or float(np.abs(values).max()) <= most


def clipped(updates: Tensor, norms: NDArray[np.float64], most: float) -> tuple[Tensor, NDArray[np.float64]]:
    """Scale the rows that are longer than ``most`` down to it; return them and their norms."""
    long = norms > most
    if not long.any():
        return updates, norms
    factors = np.ones_like(norms)
    factors[long] = most / norms[long]
    shorter = updates * torch.from_numpy(factors).to(updates).unsqueeze(1)
    return shorter, np.where(long, np.asarray(most, dtype=norms.dtype), norms)
