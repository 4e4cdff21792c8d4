"""FedAvg with a selector in some eighty lines: the product's loop without its speed, its clock, its refusals by size.

`ReferenceLoop.step` is a server's round from top to bottom, `LocalSGD.train` a client's. Selectors, availability, data
and randomness are the package's own. `tests.fedselect.test_reference_loop` holds `fedselect.training.fedavg.FedAvg` to
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fedselect.randomness import generator
from fedselect.rounds import Outcome, RoundContext, RoundFeedback


@dataclass(frozen=True)
class LocalSGD:
    """Work of a selected client: steps of an optimizer of ``torch.optim``, on batches of (seed, round, client)."""

    steps: int = 10
    batch_size: int = 10
    rate: Callable[[int], float] = lambda round: 0.1 * 0.998**round
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy

    def batches(self, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield places of the samples of each step: shuffled passes over n samples, short last batches kept."""
        steps = 0
        while True:
            order = rng.permutation(n)
            for start in range(0, n, self.batch_size):
                if steps == self.steps:
                    return
                yield order[start : start + self.batch_size]
                steps += 1

    def train(self, model: nn.Module, data: tuple[Tensor, Tensor], round: int, rng: np.random.Generator) -> list[float]:
        """Train the model in place; return the loss of each step's batch, before the step."""
        x, y = data
        optimizer, losses = self.optimizer(model.parameters(), lr=self.rate(round)), []
        for rows in self.batches(len(y), rng):
            optimizer.zero_grad()
            loss = self.loss(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses


class ReferenceLoop:
    r"""Federated averaging, :math:`w \leftarrow w + \sum_i a_i \Delta_i`; a selector gives clients and weights a_i."""

    def __init__(self, scenario: Any, selector: Any, model: nn.Module, client: LocalSGD = LocalSGD()) -> None:
        self.scenario, self.selector, self.model, self.client, self.round = scenario, selector, model, client, 0
        tensors = [(torch.from_numpy(s.features), torch.from_numpy(s.labels)) for s in scenario.federation.datasets]
        self.data = tensors
        self.test = [
            torch.from_numpy(part) for part in (scenario.federation.test.features, scenario.federation.test.labels)
        ]
        self.weights = parameters_to_vector(model.parameters()).detach().clone()

    def step(self) -> dict[str, Any]:
        """Run one round."""
        t, world = self.round, self.scenario
        there = world.availability.available(t)
        context = RoundContext(
            t, there, world.sizes, generator(world.seed, "selector", t), world.time_limit, self.losses
        )
        choice = self.selector.select(context)
        back = world.dropout.returned(t)[choice.clients]

        updates, losses = {}, {}
        for k in choice.clients[back].tolist():
            losses[k] = self.client.train(self.model_now(), self.data[k], t, generator(world.seed, "training", t, k))
            update = parameters_to_vector(self.model.parameters()).detach() - self.weights
            if bool(torch.isfinite(update).all()):
                updates[k] = update

        arrived = np.isin(choice.clients, list(updates))
        outcomes = np.where(there, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
        outcomes[choice.clients] = np.where(arrived, Outcome.RETURNED, np.where(back, Outcome.FAILED, Outcome.MISSING))
        self.selector.update(
            RoundFeedback(
                round=t,
                selection=choice,
                outcomes=outcomes,
                losses={k: float(np.mean(losses[k])) for k in updates},
                received_losses={k: losses[k][0] for k in updates},
                norms={k: float(update.norm()) for k, update in updates.items()},
                updates={k: update.numpy() for k, update in updates.items()},
            )
        )
        for k, a in zip(choice.clients.tolist(), choice.applied_weights(arrived).tolist(), strict=True):
            if k in updates:
                self.weights.add_(updates[k], alpha=a)
        self.round += 1
        return {"selection": choice, "outcomes": outcomes, "loss": self.mean_loss(self.test)}

    def model_now(self) -> nn.Module:
        """Return the model, holding a copy of the global parameters."""
        vector_to_parameters(self.weights.clone(), self.model.parameters())
        return self.model

    def mean_loss(self, data: Any) -> float:
        """Mean loss of the global model on samples."""
        with torch.no_grad():
            return float(self.client.loss(self.model_now()(data[0]), data[1]))

    def losses(self, clients: Any) -> np.ndarray:
        """Mean training loss of the global model at each of these clients: a selector's probe."""
        return np.array([self.mean_loss(self.data[k]) for k in clients])
