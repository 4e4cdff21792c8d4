r"""
A selector that learns
======================

A small network scores the clients by their last loss, the rounds since they last took part, and their data; clients
are drawn by the scores, one after the other. How much the loss fell afterwards is the reward, and REINFORCE makes what
paid more likely:

.. math:: \theta \leftarrow \theta + \eta\, (r - b)\, \nabla_\theta \log p_\theta(S) .

What it has learned is in its state, as PyTorch states it, so that a run that was killed goes on with the same bits.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from fedselect.availability import lognormal
from fedselect.data import digits
from fedselect.selectors import SELECTORS, Uniform
from fedselect.training.fedavg import FedAvg

# %%
# The selector
# ------------
# The reward of a decision is known a round later, by the loss of the model that the next clients receive: the decision
# waits in the state till then.


@SELECTORS.register("learned")
class Learned:
    """Draw clients by the scores of a network that REINFORCE trains."""

    def __init__(self, n_clients, size, *, rate: float = 0.02):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=rate)
        self.size, self.losses, self.last = size, np.full(n_clients, 2.3), np.full(n_clients, -1)
        self.waiting = {"inputs": None, "order": None, "loss": None, "baseline": 0.0}

    def select(self, round):
        """Add Gumbel noise to the scores; the largest are a draw without replacement."""
        there = np.flatnonzero(round.available)
        known = np.stack([self.losses, (round.round - self.last) / 10, round.sizes / round.sizes.mean()], axis=1)
        inputs = torch.tensor(known[there], dtype=torch.float32)
        with torch.no_grad():
            keys = self.net(inputs).squeeze(1).numpy() + round.rng.gumbel(size=there.size)
        order = np.argsort(-keys, kind="stable")
        self.next = {"inputs": inputs, "order": torch.from_numpy(order)}
        return there[order[: self.size]]  # ids alone: weighed by data size

    def update(self, feedback):
        """Learn from the round before, whose model this round's clients received."""
        for client, loss in feedback.losses.items():
            self.losses[client], self.last[client] = loss, feedback.round
        if not feedback.received_losses:
            return
        loss, before = float(np.mean(list(feedback.received_losses.values()))), self.waiting
        if before["loss"] is not None:
            reward = before["loss"] - loss
            scores = self.net(before["inputs"]).squeeze(1)[before["order"]]
            left = scores.flip(0).logcumsumexp(0).flip(0)  # of those not drawn yet, at each draw
            chance = (scores - left)[: self.size].sum()
            self.optimizer.zero_grad()
            (-(reward - before["baseline"]) * chance).backward()
            self.optimizer.step()
            self.waiting["baseline"] = 0.9 * before["baseline"] + 0.1 * reward
        self.waiting = self.waiting | self.next | {"loss": loss}

    def state_dict(self):
        """Everything the next decision depends on; tensors and nested dictionaries as they are."""
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "known": {"losses": self.losses.copy(), "last": self.last.copy()},
            "waiting": dict(self.waiting),
        }

    def load_state_dict(self, state):
        """Continue."""
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses, self.last = np.array(state["known"]["losses"]), np.array(state["known"]["last"])
        self.waiting = dict(state["waiting"])


# %%
# Beside chance
# -------------
# ``fedselect run demo.toml --load learned_selector.py -c selector.name=learned`` plays it in a run folder, which goes
# on where it was stopped.

if __name__ == "__main__":
    federation = digits(n_clients=100)
    availability = lognormal(federation, beta=0.5)
    figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    for name, selector in {"uniform": Uniform(10), "learned": Learned(100, 10)}.items():
        played = FedAvg(federation, selector, availability, seed=0).fit(60)
        axes.plot([done.loss for done in played], label=name)
        print(f"{name:8} accuracy {played[-1].accuracy:.3f}")
    axes.set(xlabel="round", ylabel="test loss", title="A selector that learns against a uniform draw")
    axes.legend(frameon=False)
    plt.show()

# %%
# **What to conclude.** Sixty rewards of one number each teach a network of 81 weights little, and the reward is noisy:
# it is measured on other clients than the decision's. The example shows the form; a rule worth publishing is compared
# over seeds.
