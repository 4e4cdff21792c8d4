"""Processor milliseconds a round of selection and of learning from it, of every registered selector; run as a script.

    python tests/benchmarks/bench_selectors.py --out docs/benchmarks/selector_times.csv
    python tests/benchmarks/bench_selectors.py --clients 100000 --size 1000
    python tests/benchmarks/bench_selectors.py --run --out docs/benchmarks/selection_alone.csv

With ``--run`` every selector plays 500 rounds of 10 000 clients, 100 a round, in a process of its own: processor
seconds of decisions and learning, and the largest memory of the process, of which `uniform` shows what is there without
a selector. It ends after ``--limit`` processor seconds, and the row says how many rounds it has played.

Up to 10 000 clients every selector is built as a run builds it, with its defaults and other options. Losses, updates of
1 000 numbers and seconds are given, and availability is drawn outside the time: what counts is the decision and what
the selector learns. Beyond are rows of rules that do not compare clients with each other. The time is that of all
threads, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from fedselect.availability import AVAILABILITY, DROPOUT, Independent
from fedselect.clock import Clock, ClockSettings, lognormal
from fedselect.data import Federation, synthetic
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
    took = [1e3 * each for each in seconds_of_rounds(selector, availability, sizes, rounds + 1, clock)]
    return float(np.median(took[1:])), max(took[1:]), took[0]


def seconds_of_rounds(selector, availability, sizes, rounds, clock=None, parameters=PARAMETERS):
    """Play rounds; yield the processor seconds of selection and of feedback of each."""
    rng = np.random.default_rng(1)
    dropout = DROPOUT.build("bernoulli", sizes.size, 0, rate=0.1)
    updates = rng.normal(size=(min(sizes.size, LARGEST), parameters)).astype(np.float32)
    for t in range(rounds):
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
        yield decided + time.process_time() - start


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


#: Clients, clients a round, rounds and numbers of an update with ``--run``.
RUN = 10_000, 100, 500, 100

#: Bytes of address space beyond which a selector is refused with ``--run``.
MEMORY = 8 * 2**30

#: Options with ``--run``: a matrix of distances would have 800 MB.
RUN_OPTIONS = {"fedgs": {"geometry": "points"}}


def of_labels(clients):
    """Make a federation of labels alone, ten samples of ten labels a client, unevenly."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(10, 0.5), size=clients)
    labels = [rng.choice(10, 10, p=each) for each in shares]
    return Federation.from_tensors([(np.zeros((10, 1)), each) for each in labels], (np.zeros((10, 1)), np.arange(10)))


def run_of(name, limit):
    """Play the run of one selector in this process: rounds played, processor seconds, MB at most."""
    clients, size, rounds, parameters = RUN
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    federation = of_labels(clients)
    availability = AVAILABILITY.build("bernoulli", federation, 0, rate=0.5)
    settings = ClockSettings(model_bytes=4 * parameters, policy="deadline", deadline=60.0)
    clock = Clock(lognormal(clients), federation.sizes, settings)
    world = Scenario(federation.sizes, availability, clock=clock, size=size, rounds=rounds, data=federation)
    start, played = time.process_time(), 0
    selector = SELECTORS.build(name, world, **RUN_OPTIONS.get(name, {}))
    spent = built = time.process_time() - start
    for each in seconds_of_rounds(selector, availability, federation.sizes, rounds, clock, parameters):
        spent, played = spent + each, played + 1
        if spent > limit:
            break
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"selector": name, "rounds": played, "seconds": spent, "of these to build": built, "MB": most}


def runs(limit, out):
    """Play the run of every registered selector in a process of its own, and print the table."""
    lines = ["selector,rounds,processor s,of these to build it,largest memory (MB)"]
    for name in SELECTORS.names:
        command = [sys.executable, __file__, "--only", name, "--limit", str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name:24} {done.stderr.strip().splitlines()[-1]}", flush=True)
            continue
        row = json.loads(done.stdout)
        lines.append(f'"{name}",{row["rounds"]},{row["seconds"]:.3g},{row["of these to build"]:.2g},{row["MB"]:.0f}')
        print(lines[-1], flush=True)
        if out:
            Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


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
    parser.add_argument("--run", action="store_true", help="500 rounds of 10 000 clients")
    parser.add_argument("--only", default="", help="with --run, in this process: one selector")
    parser.add_argument("--limit", type=float, default=60.0, help="processor seconds of a selector with --run")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(run_of(given.only, given.limit)))
        return
    if given.run:
        runs(given.limit, given.out)
        return
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
