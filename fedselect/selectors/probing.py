"""Clients' losses of the current model, asked for before a decision."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext

__all__ = ["Part", "losses"]


#: Samples that clients measure a loss on: those they train on, or those they have held out.
Part = Literal["training", "validation"]


def losses(round: RoundContext, clients: NDArray[np.int64], name: str, part: Part = "training") -> NDArray[np.float64]:
    """Probe the clients' losses, or say why there are none to be had (`ConfigError`)."""
    probe = round.probe if part == "training" else round.validation_probe
    if probe is None:
        if part == "validation":
            raise ConfigError(
                f"selector {name!r} asks clients for their validation losses, and nothing was held out of training; "
                "give the data set a validation_fraction"
            )
        raise ConfigError(f"selector {name!r} asks clients for their losses, and this round has no probe for them")
    values = np.asarray(probe(clients.tolist()), dtype=np.float64)
    if values.shape != clients.shape or not np.isfinite(values).all():
        raise ConfigError(
            f"selector {name!r} needs one finite loss per client; the probe gave {values} in round {round.round} "
            "(has the model diverged? a lower learning rate may help)"
        )
    return values
