"""Capping: turn weights into inclusion probabilities with a floor and a ceiling, the allocation step of E3CS.

Beside the problem and its methods live the random draws with given inclusion probabilities, and what E3CS does with
them over the rounds (`solvers.capping.bandit`).
"""

from solvers.capping.as_printed import as_printed
from solvers.capping.auto import auto
from solvers.capping.bandit import best_rate, constant_floors, incremental_floors, regret_bound, reweighted
from solvers.capping.bisection import bisection
from solvers.capping.convex import convex
from solvers.capping.dep_round import dep_round
from solvers.capping.draws import DRAWS
from solvers.capping.exact_search import exact_search
from solvers.capping.madow import madow
from solvers.capping.one_pass import one_pass
from solvers.capping.problem import CappingProblem
from solvers.capping.successive import successive, successive_inclusion

__all__ = [
    "DRAWS",
    "CappingProblem",
    "as_printed",
    "auto",
    "best_rate",
    "bisection",
    "constant_floors",
    "convex",
    "dep_round",
    "exact_search",
    "incremental_floors",
    "madow",
    "one_pass",
    "regret_bound",
    "reweighted",
    "successive",
    "successive_inclusion",
]
