"""Selectors: the papers' and their baselines, one file each."""

from fedselect.selectors.fedgs import FedGS
from fedselect.selectors.registry import SELECTORS
from fedselect.selectors.uniform import Uniform

__all__ = ["SELECTORS", "FedGS", "Uniform"]
