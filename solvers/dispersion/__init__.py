"""Dispersion: choose m clients far apart and cheap, the selection step of FedGS."""

from solvers.dispersion import certificates, methods  # noqa: F401  (they register themselves; `solvers.methods` is a function)
from solvers.dispersion.formats import (
    read_densest_subgraph,
    read_mdplib,
    read_points,
    read_tsplib,
    to_qubo,
    write_cp_sat,
    write_lp,
    write_mdplib,
    write_mps,
    write_qplib,
    write_qubo,
)
from solvers.dispersion.memory import Memory
from solvers.dispersion.models import Penalty, read_bqm, read_cqm, read_lp, read_qplib, read_qubo
from solvers.dispersion.problem import DispersionProblem, KindDispersionProblem, PointDispersionProblem
from solvers.dispersion.quadratic import QuadraticProblem, closest

__all__ = [
    "DispersionProblem",
    "KindDispersionProblem",
    "Memory",
    "Penalty",
    "PointDispersionProblem",
    "QuadraticProblem",
    "closest",
    "read_bqm",
    "read_cqm",
    "read_densest_subgraph",
    "read_lp",
    "read_mdplib",
    "read_points",
    "read_qplib",
    "read_qubo",
    "read_tsplib",
    "to_qubo",
    "write_cp_sat",
    "write_lp",
    "write_mdplib",
    "write_mps",
    "write_qplib",
    "write_qubo",
]
