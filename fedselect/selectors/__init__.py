"""Selectors: the papers' and their baselines."""

from fedselect.selectors.adaptive import AFL, Delta
from fedselect.selectors.base import SELECTORS
from fedselect.selectors.batteries import Batteries
from fedselect.selectors.ca_fed import CAFed, ChainEstimates, KnownChains
from fedselect.selectors.clustered import ClusteredSampling
from fedselect.selectors.coverage_gs import CoverageGS
from fedselect.selectors.divfl import DivFL
from fedselect.selectors.e3cs import E3CS
from fedselect.selectors.fed_cbs import FedCBS
from fedselect.selectors.fedau import FedAU
from fedselect.selectors.fedcor import FedCor
from fedselect.selectors.fedcs import TimedFedCS
from fedselect.selectors.fedgs import FedGS
from fedselect.selectors.fedss import FedSS
from fedselect.selectors.geometry import Kinds, Points
from fedselect.selectors.hindsight import Clairvoyant, Rolling
from fedselect.selectors.oort import Oort
from fedselect.selectors.ranking import CSUCBQ, F3AST, FedCS, OracleF3AST, PowerOfChoice
from fedselect.selectors.sampling import MDSample, Uniform
from fedselect.selectors.select_all import SelectAll
from fedselect.selectors.tifl import TiFL

__all__ = [
    "AFL",
    "CSUCBQ",
    "E3CS",
    "F3AST",
    "SELECTORS",
    "Batteries",
    "CAFed",
    "ChainEstimates",
    "Clairvoyant",
    "ClusteredSampling",
    "CoverageGS",
    "Delta",
    "DivFL",
    "FedAU",
    "FedCBS",
    "FedCS",
    "FedCor",
    "FedGS",
    "FedSS",
    "Kinds",
    "KnownChains",
    "MDSample",
    "Oort",
    "OracleF3AST",
    "Points",
    "PowerOfChoice",
    "Rolling",
    "SelectAll",
    "TiFL",
    "TimedFedCS",
    "Uniform",
]
