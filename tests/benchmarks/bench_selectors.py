"""Processor milliseconds a round of selection and of learning from it, of every registered selector; run as a script.

    python tests/benchmarks/bench_selectors.py --out docs/benchmarks/selector_times.csv
    python tests/benchmarks/bench_selectors.py --clients 100000 --size 1000

Up to 10 000 clients every selector is built as a run builds it, with its defaults and other options. Losses, updates of
1 000 numbers and seconds are given, and availability is drawn outside the time: what counts is the decision and what
the selector learns. Beyond are rows of rules that do not compare clients with each other. The time is that of all
threads, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from fedselect.availability import AVAILABILITY, DROPOUT, Independent
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.data import synthetic
from fedselect.randomness import generator
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback
from fedselect.rounds.scenario import Scenario
from fedselect.selectors import E3CS, SELECTORS, FedAU, FedSS

#: Numbers of an update, and clients up to which all selectors are measured.
PARAMETERS, LARGEST = 1000, 10_000

#: Rows beside the defaults: label, selector, options.
OTHERS = (
    ("divfl, labels", "divfl", {"features": "labels"}),
    ("divfl, labels, proved", "divfl", {"features": "labels", "method": "auto"}),
    ("fedcor, from the second round", "fedcor", {"warmup": 1}),
    ("fedgs, swaps alone", "fedgs", {"method": "local-search"}),
    ("clustered-sampling, updates", "clustered-sampling", {"by": "updates"}),
    ("oort, released code", "oort", {"convention": "code"}),
    ("fedcs, published", "fedcs", {"method": "fedcs"}),
)


def milliseconds(selector, availability, sizes, rounds, clock=None):
    """Processor time of selection and of feedback: median and worst of the rounds after the first, and the first."""
    took = []
    rng = np.random.default_rng(1)
    dropout = DROPOUT.build("bernoulli", sizes.size, 0, rate=0.1)
    updates = rng.normal(size=(min(sizes.size, LARGEST), PARAMETERS)).astype(np.float32)
    for t in range(rounds + 1):
        mask, losses = availability.available(t), rng.random(sizes.size) + 1.0 / (t + 1)
        asked = RoundContext(t, mask, sizes, generator(0, "selector", t), probe=losses.take, clock=clock)
        start = time.process_time()
        selection = selector.select(asked)
        decided = time.process_time() - start
        outcomes = np.where(mask, Outcome.IDLE, Outcome.UNAVAILABLE).astype(np.int8)
        returned = dropout.returned(t)[selection.clients]
        outcomes[selection.clients] = np.where(returned, Outcome.RETURNED, Outcome.MISSING)
        back = selection.clients[returned].tolist()
        known = {client: float(losses[client]) for client in back}
        rows = {} if sizes.size > LARGEST else {client: updates[client] for client in back}
        seconds = dict.fromkeys(back, 1.0)
        feedback = RoundFeedback(t, selection, outcomes, known, known, known, rows, durations=seconds, seconds=1.0)
        start = time.process_time()
        selector.update(feedback)
        took.append(1e3 * (decided + time.process_time() - start))
    return float(np.median(took[1:])), max(took[1:]), took[0]


def registered(clients, size, rounds):
    """Build every selector as a run does, in a federation with a clock: label, selector, scenario."""
    federation = synthetic(n_clients=clients)
    availability = AVAILABILITY.build("bernoulli", federation, 0, rate=0.5)
    clock = Clock(
        lognormal(clients),
        federation.sizes,
        ClockSettings(model_bytes=4 * PARAMETERS, policy="deadline", deadline=60.0),
    )
    world = Scenario(federation.sizes, availability, clock=clock, size=size, rounds=rounds + 1, data=federation)
    for label, name, options in (*((name, name, {}) for name in SELECTORS.names), *OTHERS):
        yield label, SELECTORS.build(name, world, **options), world


def of_many(clients, size):
    """Build those that take a hundred thousand clients without comparing them with each other."""
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.arange(20), rng.integers(0, 20, clients - 20)])
    build = {
        "e3cs 0.5 madow": E3CS(size, clients),
        "e3cs 0 dep-round": E3CS(size, clients, quota=0.0, draw="dep-round"),
        "e3cs 0.5 successive": E3CS(size, clients, draw="successive"),
        "fedau": FedAU(clients),
        "fedau K=50": FedAU(clients, cutoff=50),
        "fedss optimal": FedSS(size, groups=groups),
        "fedss proportional": FedSS(size, groups=groups, variant="proportional"),
    }
    world = Scenario(rng.integers(20, 500, clients), Independent(np.full(clients, 0.5), 0), size=size, rounds=100)
    for label, selector in build.items():
        yield label, selector, world


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", default="", help="CSV file")
    given = parser.parse_args()
    print(f"{given.clients} clients, half of them there, {given.size} selected; processor ms in {given.rounds} rounds")
    build = registered if given.clients <= LARGEST else lambda clients, size, _: of_many(clients, size)
    lines = ["selector,median ms,worst ms,first round ms"]
    for label, selector, world in build(given.clients, given.size, given.rounds):
        times = milliseconds(selector, world.availability, world.sizes, given.rounds, world.clock)
        lines.append(",".join([f'"{label}"', *(f"{value:.3g}" for value in times)]))
        print(f"{label:28}", *(f"{value:9.2f}" for value in times), flush=True)
        if given.out:
            Path(given.out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
