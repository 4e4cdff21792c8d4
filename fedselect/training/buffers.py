"""What a model keeps beside its parameters: running statistics of batch normalisation, and any other buffers.

Updates of the parameters do not carry them. Under ``buffers = "average"`` every client starts from the server's, and
the server takes the average of those that arrived, weighed by the selection's weights, scaled to sum to one (those
below zero count as zero; where nothing counts, the server keeps its own): b ← b + Σ a_i (b_i − b) / Σ a_i, so that a
buffer that never changes keeps its bits. Under ``"local"`` a client starts from its own, as it left them when it last
trained (FedBN's statistics; Li et al., ICLR 2021), or from the server's the first time; the server averages all the
same, for the model that it evaluates and saves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Buffers", "averaged"]


class Buffers:
    """A model's buffers as one vector of float32, and every client's own where these stay with the clients.

    Parameters
    ----------
    model : torch.nn.Module
        Whose buffers.
    clients : int
        Number of clients N.
    local : bool
        Whether clients keep their own, which takes N·q numbers of memory and of every checkpoint.
    """

    def __init__(self, model: nn.Module, clients: int, local: bool) -> None:
        self._buffers = list(model.buffers())
        self._own: dict[int, Tensor] | None = {} if local else None
        self.clients = clients

    def __len__(self) -> int:
        return sum(buffer.numel() for buffer in self._buffers)

    def read(self) -> Tensor:
        """What the model holds now, shape (q,)."""
        return torch.cat([buffer.detach().reshape(-1).float() for buffer in self._buffers])

    def write(self, values: Tensor) -> None:
        """Put (q,) values into the model; whole numbers are rounded."""
        with torch.no_grad():
            for buffer, part in zip(self._buffers, values.split([b.numel() for b in self._buffers]), strict=True):
                part = part.view_as(buffer)
                buffer.copy_(part if buffer.is_floating_point() else part.round())

    def receive(self, client: int, server: Tensor) -> None:
        """Let the model hold what a client starts from."""
        self.write(server if self._own is None else self._own.get(client, server))

    def leave(self, client: int) -> Tensor:
        """What the model holds after a client trained, (q,); kept where clients keep their own."""
        values = self.read()
        if self._own is not None:
            self._own[client] = values
        return values

    def state_dict(self) -> dict[str, Any]:
        """What clients keep."""
        if not self._own:
            return {}
        owners = sorted(self._own)
        rows = torch.stack([self._own[client] for client in owners]).cpu().numpy()
        return {"owners": np.array(owners), "buffers": rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Give clients back what they kept."""
        if self._own is not None and "owners" in state:
            device = self._buffers[0].device
            rows = torch.from_numpy(np.asarray(state["buffers"], dtype=np.float32)).to(device)
            self._own = dict(zip(np.asarray(state["owners"]).tolist(), rows, strict=True))


def averaged(server: Tensor, arrived: Tensor, weights: NDArray[np.float64]) -> Tensor:
    """The server's buffers (q,) after those of m clients (m, q) arrived with these weights (m,)."""
    shares = np.maximum(weights, 0.0)
    if not shares.sum() > 0:
        return server
    shares = torch.from_numpy((shares / shares.sum()).astype(np.float32)).to(server.device)
    return server + shares @ (arrived - server)
