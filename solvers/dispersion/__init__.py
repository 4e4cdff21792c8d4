"""Dispersion: choose m clients far apart and cheap, the selection step of FedGS."""

from solvers.dispersion.annealing import annealing
from solvers.dispersion.auto import auto
from solvers.dispersion.branch_and_bound import branch_and_bound
from solvers.dispersion.brute_force import brute_force
from solvers.dispersion.cp_sat import cp_sat
from solvers.dispersion.exchange import (
    read_mdplib,
    to_qubo,
    write_cp_sat,
    write_lp,
    write_mdplib,
    write_mps,
    write_qubo,
)
from solvers.dispersion.greedy import greedy
from solvers.dispersion.gurobi import gurobi
from solvers.dispersion.local_search import local_search
from solvers.dispersion.memory import Memory
from solvers.dispersion.milp import milp
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.random_search import random_search
from solvers.dispersion.scip import scip
from solvers.dispersion.sdp import sdp
from solvers.dispersion.tabu import tabu

__all__ = [
    "DispersionProblem",
    "Memory",
    "annealing",
    "auto",
    "branch_and_bound",
    "brute_force",
    "cp_sat",
    "greedy",
    "gurobi",
    "local_search",
    "milp",
    "random_search",
    "read_mdplib",
    "scip",
    "sdp",
    "tabu",
    "to_qubo",
    "write_cp_sat",
    "write_lp",
    "write_mdplib",
    "write_mps",
    "write_qubo",
]
