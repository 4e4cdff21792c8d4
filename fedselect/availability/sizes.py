"""FedGS's modes that tie availability to how much data a client has: MDF and LDF."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.independent import Independent
from fedselect.availability.protocol import AVAILABILITY
from fedselect.data import Federation
from fedselect.errors import ConfigError

__all__ = ["less_data_first", "more_data_first"]


@AVAILABILITY.register("more-data-first", "MDF", "MoreDataFirst")
def more_data_first(federation: Federation, seed: int, *, beta: float = 0.7) -> Independent:
    r"""Clients with more data are available more often (FedGS's MDF).

    :math:`p_k = (n_k / \max_i n_i)^\beta`, n_k the training samples. This is what the authors' code executes; its
    docstring speaks of tanh(-n ln β). Its default β of 1e-5 makes everyone available; the plots use 0.7 on Synthetic
    and 0.9 on CIFAR10.

    Parameters
    ----------
    federation : Federation
        Whose clients.
    seed : int
        Seed of the run.
    beta : float
        β ≥ 0; 0 makes everyone available always.

    Raises
    ------
    ConfigError
        When ``beta`` is negative.
    """
    return Independent(_powers(federation.sizes / federation.sizes.max(), beta), seed)


@AVAILABILITY.register("less-data-first", "LDF", "LessDataFirst")
def less_data_first(federation: Federation, seed: int, *, beta: float = 0.7) -> Independent:
    r"""Clients with less data are available more often (FedGS's LDF).

    :math:`p_k = (\min_i n_i / n_k)^\beta`, n_k the training samples; executed by the authors' code, whose docstring
    speaks of (1-β)^(-n). Parameters and errors as for `more_data_first`.
    """
    return Independent(_powers(federation.sizes.min() / federation.sizes, beta), seed)


def _powers(shares: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    if not (beta >= 0 and np.isfinite(beta)):
        raise ConfigError(f"beta must be a number of at least 0; got {beta}")
    return shares**beta
