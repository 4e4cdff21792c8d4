"""Small models for small federations; the papers' larger ones join them here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedselect.data import Federation
from fedselect.options import Registry

if TYPE_CHECKING:
    from torch import nn

__all__ = ["MODELS", "linear", "mlp"]

#: Builders ``(federation, *, options) -> torch.nn.Module`` by name; initial values are set by the loop.
MODELS: Registry = Registry("model")


@MODELS.register("linear")
def linear(federation: Federation) -> nn.Module:
    """Multinomial logistic regression on the flattened features."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(_inputs(federation), federation.classes))


@MODELS.register("mlp")
def mlp(federation: Federation, *, hidden: int = 64) -> nn.Module:
    """One hidden layer of ReLU units on the flattened features."""
    from torch import nn

    return nn.Sequential(
        nn.Flatten(), nn.Linear(_inputs(federation), hidden), nn.ReLU(), nn.Linear(hidden, federation.classes)
    )


def _inputs(federation: Federation) -> int:
    return math.prod(federation.test.features.shape[1:])
