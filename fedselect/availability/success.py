"""E3CS's success classes: clients that return more or less often."""

from __future__ import annotations

import numpy as np

from fedselect.availability.dropout import DROPOUT, IndependentDropout
from fedselect.errors import ConfigError
from fedselect.randomness import generator

__all__ = ["success_classes"]


@DROPOUT.register("success-classes", "e3cs")
def success_classes(
    clients: int, seed: int, *, rates: list[float] | None = None, shuffle: bool = False
) -> IndependentDropout:
    r"""Classes of clients that return more or less often (E3CS, Section VI: 0.1, 0.3, 0.6, 0.9).

    A selected client of class c returns with probability :math:`\rho_c`, anew in every round. Classes are equal in
    size (to within one client, the first being the larger).

    Parameters
    ----------
    clients : int
        Number of clients N, at least the number of classes.
    seed : int
        Seed of the run.
    rates : list of float, optional
        Probability of each class to return; E3CS's four by default.
    shuffle : bool
        False makes the first N/4 clients the first class, and so on; true deals the classes out at random, for data
        whose clients come in some order.

    Raises
    ------
    ConfigError
        When a rate is outside [0, 1], there is none, or there are fewer clients than classes.
    """
    classes = [0.1, 0.3, 0.6, 0.9] if rates is None else rates
    if not 1 <= len(classes) <= clients:
        raise ConfigError(f"{clients} clients can be in 1 to {clients} success classes; got {len(classes)}")
    parts = np.array_split(np.arange(clients), len(classes))
    own = np.concatenate([np.full(part.size, float(rate)) for part, rate in zip(parts, classes, strict=True)])
    if shuffle:
        # "Round" 1 of the profile, so that classes and availability rates have nothing to do with each other.
        own = generator(seed, "profile", 1).permutation(own)
    return IndependentDropout(own, seed)
