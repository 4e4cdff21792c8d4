"""Random numbers in a federation are pure functions of (seed, purpose, round, client).

So selectors meet the same availability under one seed, a run restarts at any round, and the number of workers changes
nothing.
"""

from __future__ import annotations

from operator import index
from typing import Literal

import numpy as np

from fedselect.errors import ConfigError

Purpose = Literal[
    "data", "profile", "availability", "dropout", "selector", "training", "model", "effort", "noise",
    "devices", "computation", "links", "client-tests", "corruption",
]  # fmt: skip

#: Never renumber: a number is part of every recorded result.
_NUMBERS: dict[str, int] = {
    "data": 0,
    "profile": 1,
    "availability": 2,
    "dropout": 3,
    "selector": 4,
    "training": 5,
    "model": 6,
    "effort": 7,
    "noise": 8,
    "devices": 9,
    "computation": 10,
    "links": 11,
    "client-tests": 12,
    "corruption": 13,
}


def generator(seed: int, purpose: Purpose, round: int = 0, client: int = 0) -> np.random.Generator:
    """Return the generator for one purpose, round and client of one seed.

    Parameters
    ----------
    seed : int
        Seed of the run (of the partition, for ``"data"``), non-negative.
    purpose : str
        ``"data"`` splits samples over clients, ``"profile"`` draws what a client is for the whole run (its
        availability rate, say), ``"availability"``, ``"dropout"`` and ``"selector"`` serve one round, ``"training"``
        one client's local training in one round, ``"model"`` the initial model, ``"effort"`` how much each client
        trains where clients differ in it, ``"noise"`` what the server feeds clients' models to compare them. Of a
        clock, ``"devices"`` draws what each client's device is for the whole run, ``"computation"`` and ``"links"``
        how one round differs from it. ``"client-tests"`` draws what each client holds out for testing, and
        ``"corruption"`` which clients lie, and what they send.
    round, client : int
        Round (from 0) and client, where the purpose has them.

    Returns
    -------
    numpy.random.Generator
        ``default_rng(SeedSequence([seed, purpose, round, client]))``.

    Raises
    ------
    ConfigError
        When a number is negative.
    """
    numbers = [index(number) for number in (seed, _NUMBERS[purpose], round, client)]
    if min(numbers) < 0:
        raise ConfigError(f"seed, round and client must be non-negative integers; got {seed}, {round} and {client}")
    # Words of 32 bits are what SeedSequence makes of them, in twice the time; each client of a round has a generator.
    entropy = np.array(numbers, dtype=np.uint32) if max(numbers) < 2**32 else numbers
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
