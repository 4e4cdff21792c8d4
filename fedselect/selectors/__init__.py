"""Selectors: the papers' and their baselines, one file each."""

from fedselect.selectors.adafed import AdaFed
from fedselect.selectors.all_available import AllAvailable
from fedselect.selectors.average_all import AverageAll
from fedselect.selectors.average_participating import AverageParticipating
from fedselect.selectors.ca_fed import CAFed
from fedselect.selectors.chain_estimates import ChainEstimates, KnownChains
from fedselect.selectors.cs_ucb_q import CSUCBQ
from fedselect.selectors.e3cs import E3CS
from fedselect.selectors.f3ast import F3AST, OracleF3AST
from fedselect.selectors.fedau import FedAU
from fedselect.selectors.fedcs import FedCS
from fedselect.selectors.fedgs import FedGS
from fedselect.selectors.fedss import FedSS
from fedselect.selectors.known_participation import KnownParticipation
from fedselect.selectors.md_sample import MDSample
from fedselect.selectors.power_of_choice import PowerOfChoice
from fedselect.selectors.registry import SELECTORS
from fedselect.selectors.unbiased import Unbiased
from fedselect.selectors.uniform import Uniform

__all__ = [
    "CSUCBQ",
    "E3CS",
    "F3AST",
    "SELECTORS",
    "AdaFed",
    "AllAvailable",
    "AverageAll",
    "AverageParticipating",
    "CAFed",
    "ChainEstimates",
    "FedAU",
    "FedCS",
    "FedGS",
    "FedSS",
    "KnownChains",
    "KnownParticipation",
    "MDSample",
    "OracleF3AST",
    "PowerOfChoice",
    "Unbiased",
    "Uniform",
]
