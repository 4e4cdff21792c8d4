"""CA-Fed's population: more and less available clients, half of them correlated in time."""

from __future__ import annotations

import numpy as np

from fedselect.availability.chains import TwoState, lowest_correlation
from fedselect.availability.protocol import AVAILABILITY
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator

__all__ = ["ca_fed"]


@AVAILABILITY.register("ca-fed")
def ca_fed(
    federation: Federation,
    seed: int,
    *,
    gap: float = 0.4,
    correlation: float = 0.9,
    noise: float = 0.01,
    design: str = "paper",
) -> TwoState:
    r"""Two-state chains in classes: more or less available, correlated or hardly so (CA-Fed, Section V).

    Two readings of the classes:

    ``"paper"``
        inside each group of clients (`Federation.groups`; one group where the data have none) half are available
        with π = 1/2 + g and half with 1/2 - g, uniformly at random; each half is split in two again: λ = ν, and
        λ ~ N(0, ε²). With 24 clients in two groups there are three in each of the eight cells.
    ``"code"``
        the authors' code: half of *all* clients are more available whatever their group, and none of these is
        correlated; of the less available, half have λ = ν. The rest have λ = (x + ε)/2 with x ~ N(0, ε²), that is
        mean and standard deviation ε/2.

    The classes are drawn once per seed. Odd groups are split with the larger part first.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    gap : float
        g in [0, 1/2].
    correlation : float
        ν, the eigenvalue λ of the correlated clients, up to 1.
    noise : float
        ε ≥ 0; draws of λ that no chain of that π can have are set to the nearest possible value.
    design : {"paper", "code"}
        Which reading.

    Raises
    ------
    ConfigError
        When an option is out of range.
    """
    if not 0 <= gap <= 0.5:
        raise ConfigError(f"gap must lie in [0, 0.5]; got {gap}")
    if not (noise >= 0 and np.isfinite(noise)):
        raise ConfigError(f"noise must be a number of at least 0; got {noise}")
    if design not in ("paper", "code"):
        raise ConfigError(f"design must be 'paper' or 'code'; got {design!r}")
    n = len(federation)
    rng = generator(seed, "profile")
    weak = noise * rng.standard_normal(n)
    groups = np.zeros(n, dtype=np.int64)
    if design == "paper" and federation.groups is not None:
        groups = federation.groups
    more, correlated = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    for group in np.unique(groups):
        upper, lower = np.array_split(rng.permutation(np.flatnonzero(groups == group)), 2)
        more[upper] = True
        for half in (upper, lower) if design == "paper" else (lower,):
            correlated[np.array_split(half, 2)[0]] = True
    if design == "code":
        weak = (weak + noise) / 2
    pi = np.where(more, 0.5 + gap, 0.5 - gap)
    weak = np.clip(weak, lowest_correlation(pi), 1.0)
    return TwoState(pi, np.where(correlated, correlation, weak), seed)
