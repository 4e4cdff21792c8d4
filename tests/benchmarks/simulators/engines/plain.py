"""The yardstick: FedAvg as one writes it with PyTorch, client after client."""

from __future__ import annotations

import torch
from simulators.work import Watch, Work, train


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work, on so many of PyTorch's threads."""
    torch.set_num_threads(cores)
    data, model, local = work.tensors(), work.model(), work.model()
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    for t, clients in enumerate(work.clients):
        total = [torch.zeros_like(each) for each in weights]
        for client, share in zip(clients, work.shares(t).tolist(), strict=True):
            with torch.no_grad():
                for parameter, value in zip(local.parameters(), weights, strict=True):
                    parameter.copy_(value)
            train(local, data[client], work.plan(t, client))
            with torch.no_grad():
                for summed, parameter in zip(total, local.parameters(), strict=True):
                    summed.add_(parameter, alpha=share)
        weights = total
        done(lambda now=weights: dict(zip(work.initial, now, strict=True)))
