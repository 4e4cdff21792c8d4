"""Milliseconds a round of selection and availability alone, at 100 000 clients; run as a script.

``PYTHONPATH=. python tests/benchmarks/bench_selectors.py [clients] [size] [rounds]``
"""

from __future__ import annotations

import sys
import time

import numpy as np

from fedselect.availability import DROPOUT, Independent
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback
from fedselect.selectors import E3CS, FedAU, FedSS


def milliseconds(selector, availability, dropout, sizes, rounds):
    """Median and worst wall time of availability, selection, dropout and feedback, after one warm-up round."""
    took = []
    for t in range(rounds + 1):
        start = time.perf_counter()
        mask = availability.available(t)
        selection = selector.select(RoundContext(t, mask, sizes, generator(0, "selector", t)))
        outcomes = np.where(mask, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
        returned = dropout.returned(t)[selection.clients]
        outcomes[selection.clients] = np.where(returned, Outcome.RETURNED, Outcome.MISSING)
        norms = dict.fromkeys(selection.clients[returned].tolist(), 1.0)
        selector.update(RoundFeedback(t, selection, outcomes, {}, norms))
        took.append(1e3 * (time.perf_counter() - start))
    return float(np.median(took[1:])), max(took[1:])


def main() -> None:
    """Print the table."""
    clients, size, rounds = (int(a) for a in (*sys.argv[1:], *("100000", "1000", "50")[len(sys.argv) - 1 :]))
    rng = np.random.default_rng(0)
    sizes = rng.integers(20, 500, clients)
    groups = np.concatenate([np.arange(20), rng.integers(0, 20, clients - 20)])
    dropout = DROPOUT.build("bernoulli", clients, 0, rate=0.1)
    rates = {"ideal": np.ones(clients), "bernoulli 0.5": np.full(clients, 0.5)}
    build = {
        "e3cs 0.5 madow": lambda: E3CS(size, clients),
        "e3cs 0 dep-round": lambda: E3CS(size, clients, quota=0.0, draw="dep-round"),
        "e3cs 0.5 successive": lambda: E3CS(size, clients, draw="successive"),
        "fedau": lambda: FedAU(clients),
        "fedau K=50": lambda: FedAU(clients, cutoff=50),
        "fedss optimal": lambda: FedSS(size, groups=groups),
        "fedss proportional": lambda: FedSS(size, groups=groups, variant="proportional"),
    }
    print(f"{clients} clients, {size} selected, 20 groups, {rounds} rounds; ms a round: median (worst)")
    for name, make in build.items():
        cells = []
        for kind, rate in rates.items():
            middle, worst = milliseconds(make(), Independent(rate, 0), dropout, sizes, rounds)
            cells.append(f"{kind} {middle:6.1f} ({worst:.1f})")
        print(f"{name:22}", "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
