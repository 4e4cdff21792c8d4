"""Draws of k clients with given inclusion probabilities, by name, and the check they share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.capping.draws import dep_round, madow, successive

__all__ = ["DRAWS", "Draw"]

#: ``draw(p, rng)`` -> sorted client ids.
Draw = Callable[[ArrayLike, np.random.Generator], NDArray[np.int64]]

#: The draws by name. ``madow`` and ``dep-round`` include client i with probability p_i exactly; ``successive``, the
#: paper's torch.multinomial, does not (see `solvers.capping.draws.successive`).
DRAWS: dict[str, Draw] = {
    "madow": madow.madow,
    "dep-round": dep_round.dep_round,
    "successive": successive.successive,
}
