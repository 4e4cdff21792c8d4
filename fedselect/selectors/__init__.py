"""Selectors: the papers' and their baselines."""

from fedselect.selectors.base import SELECTORS
from fedselect.selectors.ca_fed import CAFed, ChainEstimates, KnownChains
from fedselect.selectors.e3cs import E3CS
from fedselect.selectors.fedgs import FedGS
from fedselect.selectors.fedss import FedSS
from fedselect.selectors.ranking import CSUCBQ, F3AST, FedCS, OracleF3AST, PowerOfChoice
from fedselect.selectors.sampling import MDSample, Uniform
from fedselect.selectors.select_all import FedAU, SelectAll

__all__ = [
    "CSUCBQ",
    "E3CS",
    "F3AST",
    "SELECTORS",
    "CAFed",
    "ChainEstimates",
    "FedAU",
    "FedCS",
    "FedGS",
    "FedSS",
    "KnownChains",
    "MDSample",
    "OracleF3AST",
    "PowerOfChoice",
    "SelectAll",
    "Uniform",
]
